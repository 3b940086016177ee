"""Where builds for GPUs of other vendors than NVIDIA are documented to be."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.frameworks import framework
from envcheck.matrix.package_index import package_index
from envcheck.model import Plan, Rejected
from envcheck.plan.requests import Request, join_words
from envcheck.rules.gpus import other_vendors


def vendor_plan(texts: tuple[str, ...], requests: tuple[Request, ...], vendor: str, gpu: str) -> Plan:
    """Return the plan that says whose GPU it is and where its builds are; it is undetermined."""
    title = other_vendors()[vendor].title
    why = f"{gpu} is a GPU by {title}; envcheck plans builds for NVIDIA GPUs and for the CPU only."
    rejected = (Rejected(join_words(texts), "release-unknown", why),)
    notes = tuple(note for request in requests for note in builds_for(vendor, request.framework))
    return Plan("gpu", (), (), requirements=texts, rejected=rejected, notes=notes)


def builds_for(vendor: str, name: str) -> Iterator[str]:
    """Yield where a framework's builds for the GPUs of a vendor are, as documents state it."""
    known, owner = framework(name), other_vendors()[vendor]
    index = package_index(name)
    for label in index.other_vendors if index else ():
        if index and label in owner.accelerators:
            yield f"documented, not read: {known.title} for {owner.platform} is on {index.url}, under labels +{label}."
    if name in owner.wheels:
        yield f"documented, not read: {known.title} for {owner.platform} is on {owner.wheels[name]}."
    distributions = [item for item, kind in known.accelerators.items() if kind in owner.accelerators]
    if distributions:
        named = join_words(distributions)
        yield f"Distributions of {known.title} for {owner.platform}: {named}. The matrix does not judge them."
    if vendor == "apple" and known.apple_backend:
        yield f"On macOS, {known.title} computes through {known.apple_backend}: `envcheck plan {name}` there."
