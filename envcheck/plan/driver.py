"""Plan the driver of a machine: what keeps it from working, or what brings one that is new enough.

The rules say what is wrong, and their fixes what to type: `doctor` prints the same steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.actions import InstallSystemPackages, Reboot, StartService, action_line
from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    Finding,
    Plan,
    Rejected,
    Remedy,
    RequestError,
    Step,
    Unknown,
    dataclass,
    numbers,
)
from envcheck.model.fixes import InstallDriver, InstallMissingDriver, ReplaceNouveau
from envcheck.plan.requests import DRIVER, ENGINES
from envcheck.plan.steps import container_toolkit_steps
from envcheck.remedies import write_fix
from envcheck.remedies.driver_install import (
    DRIVER_RELEASE,
    bring_driver,
    foresee_release,
    is_from_elsewhere,
)
from envcheck.remedies.situation import UBUNTU, Situation
from envcheck.rules import Context
from envcheck.rules.engine import judge_release
from envcheck.rules.gpu_releases import cuda_starts

_TOOL = "the tool of the next step"  # what is installed without a purpose
_OF_THE_DRIVER = frozenset(
    {
        "driver-library-mismatch",
        "driver-missing",
        "driver-nouveau",
        "driver-secure-boot",
        "driver-too-old",
        "driver-wsl",
        "fabric-manager",
        "gpu-arch-too-new",
        "gpu-arch-too-old",
    }
)


@dataclass
class DriverRequest:
    """What the driver is to be."""

    floor: str = ""  # the lowest release or branch that serves; "" what GPUs and releases need
    engine: str = ""  # of containers that are to get the GPUs, one of ENGINES


def plan_driver(asked: DriverRequest, context: Context) -> Plan:
    """Plan what makes the driver work for the GPUs, and for the releases that are asked for.

    Raises RequestError for a request that names no driver or engine.
    """
    if asked.floor and not DRIVER_RELEASE.fullmatch(asked.floor):
        raise RequestError(f"--driver {asked.floor[:40]!r}: give a release or a branch, as 580.")
    if asked.engine not in ("", *ENGINES):
        raise RequestError(f"--containers {asked.engine[:40]!r}: give {', '.join(ENGINES)}.")
    situation = Situation(context, floor=asked.floor)
    if not context.gpus:
        why = "No NVIDIA GPU was found: name one with --gpu to plan for it."
        if isinstance(context.facts.gpus, Unknown):
            detail = context.facts.gpus.detail
            why = f"The GPUs could not be read ({detail}): name yours with --gpu."
        return _refuse(situation, "gpu-absent", why)
    remedy, resolves = _find_remedy(situation)
    if remedy is None:
        release = context.driver.release
        if release.value is None and not cuda_starts(context):
            if isinstance(release, Unknown):
                why = f"Whether a driver runs is not known: {release.detail}."
                return _refuse(situation, "release-unknown", why)
            return _refuse(situation, "driver-missing", bring_driver(situation).summary)
        words = f"NVIDIA driver {release.value or ''}".rstrip() + " serves this machine."
        remedy = Remedy(words)
    elif is_from_elsewhere(situation) or not remedy.actions:
        return _refuse(situation, resolves[0], remedy.summary)
    steps = tuple(
        Step(f"driver-{number}", action.with_purpose(_TOOL), resolves)
        for number, action in enumerate(remedy.actions, 1)
    )
    if asked.engine:
        steps += container_toolkit_steps(context, asked.engine)
    notes = tuple(_write_notes(situation, remedy, steps))
    return Plan(
        "gpu", (), steps, resolves, requirements=(DRIVER,), notes=notes, system=situation.os,
        driver=remedy.summary,
    )  # fmt: skip


def foresee_driver(context: Context) -> str:
    """Return the release or branch that the plan of a driver brings; "" where it brings none."""
    situation = Situation(context)
    for finding in judge_release(context, _OF_THE_DRIVER).report.findings:
        if not _is_of_the_driver(finding):
            continue
        if isinstance(finding.cure, InstallDriver):
            return foresee_release(situation, finding.cure.floor, exact=finding.cure.exact)
        if isinstance(finding.cure, (InstallMissingDriver, ReplaceNouveau)):
            return foresee_release(situation, "")
        return ""
    return ""


def _write_notes(situation: Situation, remedy: Remedy, steps: tuple[Step, ...]) -> Iterator[str]:
    """Say what the steps leave open, and what a restart shows."""
    for way in remedy.alternatives:
        yield " ".join((way.summary, *(action_line(each) for each in way.actions)))
    kernel, kinds = situation.facts.host.kernel_release.value, [type(step.action) for step in steps]
    builds = InstallSystemPackages in kinds and situation.distribution != UBUNTU
    if builds and not kernel:
        yield (
            "The kernel is not described: install the headers of the one that runs (uname -r)"
            " before the driver, or its module is not built."
        )
    has_nvswitch = situation.facts.driver.nvswitch_present.value is True
    if Reboot in kinds and has_nvswitch and StartService not in kinds:
        yield (
            "NVSwitch connects the GPUs: after the restart, plan again for the fabric manager,"
            " which must be of the driver's own release."
        )
    if any("mokutil" in step.action.command() for step in steps):
        yield (
            "At the next start the firmware shows a blue screen, MOK management, for ten seconds:"
            " choose Enroll MOK, Continue, Yes, and type the password of the step with mokutil."
            " It needs somebody at the console."
        )


def _refuse(situation: Situation, finding: str, why: str) -> Plan:
    rejected = (Rejected(DRIVER, finding, why),)
    return Plan("gpu", (), (), requirements=(DRIVER,), rejected=rejected, system=situation.os)


def _find_remedy(situation: Situation) -> tuple[Remedy | None, tuple[str, ...]]:
    """Return what to do about the driver, and the finding it is for; None where it serves."""
    context = situation.context
    for finding in judge_release(context, _OF_THE_DRIVER).report.findings:
        if finding.cure is not None and _is_of_the_driver(finding):
            return write_fix(finding.cure, situation), (finding.id,)
    release = context.driver.release.value
    if release and situation.floor and numbers(release) < numbers(situation.floor):
        return bring_driver(situation, situation.floor), ("driver-too-old",)
    return None, ()


def _is_of_the_driver(finding: Finding) -> bool:
    """Return whether a finding is an error that a change of the driver takes away."""
    is_error = finding.severity == ERROR and finding.verdict == INCOMPATIBLE
    return is_error and type(finding.cure).__module__ == InstallDriver.__module__
