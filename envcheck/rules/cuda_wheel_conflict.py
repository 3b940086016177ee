"""Rule about CUDA wheels that get in each other's way."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.model.facts import Known
from envcheck.model.findings import ERROR, INCOMPATIBLE, Evidence, Finding, Fix
from envcheck.model.machine import Distribution
from envcheck.rules.context import Context
from envcheck.rules.cuda_wheel_names import sharing_wheels, wheels_citation
from envcheck.rules.fixes_python import install_steps, uninstall_steps
from envcheck.rules.pin_findings import pin_findings
from envcheck.rules.registry import rule


@rule("cuda-wheel-conflict")
def cuda_wheel_conflict(context: Context) -> Iterator[Finding]:
    """Find CUDA wheels that overwrite each other or that are not the versions a framework pins."""
    for stem in sharing_wheels():
        rivals = _rivals(context, stem)
        if len(rivals) > 1:
            yield _overwritten(context, stem, rivals)
    yield from pin_findings(context, "cuda-wheel-conflict")


def _rivals(context: Context, stem: str) -> list[Distribution]:
    """List the wheels of one library for several CUDA majors; empty placeholders (0.0.x) and other sonames aside."""
    found = [item for name, item in context.distributions.items() if re.fullmatch(rf"{stem}-cu\d+", name)]
    real = [item for item in found if item.version.split(".")[:2] != ["0", "0"]]
    majors = {item.version.partition(".")[0] for item in real}
    return real if stem != "nvidia-cudnn" or len(majors) == 1 else []


def _overwritten(context: Context, stem: str, rivals: list[Distribution]) -> Finding:
    shown = " and ".join(f"{item.name} {item.version}" for item in rivals)
    folder = "nvidia/" + stem.partition("-")[2]
    needed = _asked_by_frameworks(context, rivals)
    kept = needed or [rivals[-1]]
    gone = [item.name for item in rivals if item not in kept]
    steps = uninstall_steps(context, *gone) + install_steps(
        context, *(f"{item.name}=={item.version}" for item in kept[:1]), force=True
    )
    apart = Fix("Put the frameworks that need different CUDA majors into environments of their own.")
    repair = Fix(f"Remove {', '.join(gone)}, then install {kept[0].name} again, whose files were overwritten.", steps)
    return Finding(
        "cuda-wheel-conflict",
        INCOMPATIBLE,
        ERROR,
        f"{shown} are both installed and share the folder {folder}: each overwrote files of the other, "
        f"so one framework gets the library of another CUDA major.",
        (
            context.seen("python.distributions", shown=shown),
            *_owners(context, rivals),
            Evidence("cuda wheels", folder, citation=wheels_citation()),
        ),
        apart if len(needed) > 1 else repair,
    )


def _asked_by_frameworks(context: Context, rivals: list[Distribution]) -> list[Distribution]:
    wanted = {
        re.split(r"[^a-z0-9-]", line.lower().replace("_", "-"))[0]
        for name, item in context.distributions.items()
        if context.matrix.framework_of(name)
        for line in item.requires
    }
    return [item for item in rivals if item.name in wanted]


def _owners(context: Context, rivals: list[Distribution]) -> tuple[Evidence, ...]:
    fact, names = context.facts.python.duplicate_owners, {item.name for item in rivals}
    owned = fact.value if isinstance(fact, Known) else {}
    shared = next((path for path, owners in owned.items() if names & set(owners)), None)
    if shared is None or not isinstance(fact, Known):
        return ()
    return (Evidence("python.duplicate_owners", f"{shared}: {', '.join(owned[shared])}", fact.source),)
