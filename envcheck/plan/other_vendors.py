"""Where builds for GPUs of other vendors than NVIDIA are documented to be."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.frameworks import framework
from envcheck.matrix.package_index import package_index
from envcheck.matrix.query import Matrix
from envcheck.model import Absent, Facts, Plan, Rejected
from envcheck.plan.requests import PlanOptions, Request, join_words
from envcheck.rules.context import Context
from envcheck.rules.gpu_releases import other_gpu_name, other_vendors


def vendor_plan(
    facts: Facts,
    matrix: Matrix,
    texts: tuple[str, ...],
    requests: tuple[Request, ...],
    options: PlanOptions,
) -> Plan | None:
    """Return the plan that says whose GPU it is and where its builds are.

    Return None where a plan can be made.

    It is undetermined. The usual builds compute on the GPU of a Mac, so they are planned.
    """
    context = Context(facts, matrix)
    gpus = [gpu for gpu in context.other_gpus if gpu.vendor != "apple" or context.os != "darwin"]
    is_meant = options.expect != "cpu" and options.description.gpus != ("none",)
    if not gpus or not is_meant or not isinstance(facts.gpus, Absent):
        return None
    named = join_words(tuple(map(other_gpu_name, gpus)))
    why = (
        f"the GPU is {named}; envcheck plans builds for"
        " NVIDIA GPUs and, with --expect cpu, for the CPU."
    )
    rejected = (Rejected(join_words(texts), "release-unknown", why),)
    vendors = sorted({gpu.vendor for gpu in gpus})
    notes = tuple(
        note for name in vendors for item in requests for note in builds_for(name, item.framework)
    )
    return Plan("gpu", (), (), requirements=texts, rejected=rejected, notes=notes)


def builds_for(vendor: str, name: str) -> Iterator[str]:
    """Yield where a framework's builds for the GPUs of a vendor are, as documents state it."""
    known, owner = framework(name), other_vendors()[vendor]
    index = package_index(name)
    for label in index.other_vendors if index else ():
        if index and label in owner.accelerators:
            yield (
                f"documented, not read: {known.title} for {owner.platform} is on {index.url}, under"
                f" labels +{label}."
            )
    if name in owner.wheels:
        yield (
            f"documented, not read: {known.title} for {owner.platform} is on {owner.wheels[name]}."
        )
    distributions = [
        item for item, kind in known.accelerators.items() if kind in owner.accelerators
    ]
    if distributions:
        named = join_words(distributions)
        yield (
            f"Distributions of {known.title} for {owner.platform}:"
            f" {named}. The matrix does not judge them."
        )
    if vendor == "apple" and known.apple_backend:
        yield (
            f"On macOS, {known.title} computes through {known.apple_backend}:"
            f" `envcheck plan {name}` there."
        )
