"""What another build or release takes away, and the commands that bring the one `envcheck plan` chooses."""

from __future__ import annotations

from envcheck.model import INCOMPATIBLE, NOTE, Finding, Fix, Report, Way, replace
from envcheck.model.plans import SYSTEM
from envcheck.plan.choose import Judge
from envcheck.plan.existing_environment import alone
from envcheck.plan.in_place import Broken, planned_fix
from envcheck.plan.requests import Description, planned_facts
from envcheck.rules import Context, Target, evaluate
from envcheck.rules.framework_state import judged_frameworks
from envcheck.rules.targets import wanted_releases

# Findings that another build or release of the framework may take away ...
_CAUSES = frozenset(
    {
        "cpu-missing-avx",
        "driver-too-old",
        "framework-cpu-build",
        "framework-cuda-extra-missing",
        "framework-duplicate-dists",
        "framework-package-removed",
        "glibc-too-old",
        "gpu-arch-too-new",
        "gpu-arch-too-old",
        "platform-no-gpu-wheel",
        "python-unsupported",
        "toolkit-missing",
        "toolkit-wrong-version",
    }
)
# ... and those that go with the one that is replaced.
_COVERED = _CAUSES | {
    "cuda-wheel-not-found",
    "cudnn-missing",
    "cudnn-too-old",
    "cudnn-wrong-cuda-build",
    "cudnn-wrong-major",
    "dependency-conflict",
    "keras-mismatch",
    "libdevice-missing",
    "numpy-abi",
    "protobuf-conflict",
}
_OF_TOOLKIT = {"toolkit-missing", "toolkit-wrong-version"}
_Said = frozenset[tuple[str, str]]  # ids and messages


def remedied(report: Report, context: Context, *, strictly: bool = False) -> Report:
    """Give what another build or release takes away the commands of `envcheck plan` for it; other fixes stand.

    `strictly`: with no release that the requirements asked for do not admit.
    """
    if not any(_is_cause(item) for item in report.findings):
        return report
    judge = _judge(context)
    broken, gone = _broken(report, context, judge, strictly=strictly)
    fix = planned_fix(context, judge, broken) if broken else None
    if fix is None:
        return report
    findings = tuple(_mended(item, fix) if (item.id, item.message) in gone else item for item in report.findings)
    changed: Report = replace(report, findings=findings)
    return changed


def brought(context: Context, requirements: tuple[str, ...], against: tuple[str, ...]) -> Fix | None:
    """Plan for requirements that an environment does not meet; None where no release helps without doubt.

    `against` are the finding ids that speak against what pip would choose.
    """
    asked = wanted_releases(Context(context.facts, context.matrix, Target(context.goal, requirements)))
    broken = [Broken(item.framework, (item.text,), frozenset(against)) for item in asked]
    return planned_fix(context, _judge(context), broken) if broken else None


def _judge(context: Context) -> Judge:
    facts = planned_facts(context.facts, Description(), context.matrix, expects_gpu=context.goal == "gpu")
    return Judge(Context(facts, context.matrix, Target(context.goal)))


def _is_cause(finding: Finding) -> bool:
    """Tell whether another release may help: not where the root is something else, such as a missing driver."""
    is_own = finding.caused_by is None or finding.caused_by in _COVERED
    return is_own and finding.id in _CAUSES and finding.severity != NOTE and finding.verdict == INCOMPATIBLE


def _mended(finding: Finding, fix: Fix) -> Finding:
    """Put the plan's commands in the place of a fix; that of the machine itself stays as another way."""
    own, ways = finding.fix, fix.alternatives
    if own is not None and any(command.scope == SYSTEM for command in own.commands):
        ways = (*ways, Way(own.summary.partition(" Or ")[0], own.commands))
    changed: Finding = replace(finding, fix=replace(fix, alternatives=ways))
    return changed


def _broken(report: Report, context: Context, judge: Judge, *, strictly: bool) -> tuple[list[Broken], _Said]:
    """List the frameworks that a cause is about, and all that goes when they are replaced.

    What the rules say of the machine without any framework stays.
    """
    own = {(item.id, item.message) for item in judge.own_findings()}
    said = {(item.id, item.message): item for item in report.findings if item.verdict == INCOMPATIBLE}
    left = frozenset(key for key in said if key[0] in _COVERED) - own
    installed = [item.name for item in judged_frameworks(context)]
    names = [*dict.fromkeys((*installed, *(item.framework for item in wanted_releases(context))))]
    broken, gone = [], frozenset[tuple[str, str]]()
    for name in names:
        about = left & _said_of(context, name) if len(names) > 1 else left
        causes = {key[0] for key in about if _is_cause(said[key])}
        if causes:
            broken.append(Broken(name, _requests(context, name, causes, strictly=strictly), frozenset(causes)))
            gone |= about
    return broken, gone


def _said_of(context: Context, framework: str) -> _Said:
    """List what the rules say where no other framework is there."""
    return frozenset((item.id, item.message) for item in evaluate(alone(context, framework)).findings)


def _requests(context: Context, name: str, causes: set[str], *, strictly: bool) -> tuple[str, ...]:
    """List what to ask for: the installed release, its line, its major, any; what --for asks for comes first.

    Where nothing but a system's CUDA is wrong, another line of releases is no remedy.
    """
    asked = next((item for item in wanted_releases(context) if item.framework == name), None)
    version = next((item.main.version for item in judged_frameworks(context) if item.name == name), "")
    if asked is not None and strictly:
        return tuple(dict.fromkeys((*((f"{name}=={version}",) if version else ()), asked.text)))
    if asked is not None:
        return tuple(dict.fromkeys((name + asked.specifier if asked.removed else asked.text, name)))
    major, line = (".".join(version.split(".")[:count]) for count in (1, 2))
    near = (f"{name}=={version}", f"{name}=={line}.*")
    return near if causes <= _OF_TOOLKIT else (*near, f"{name}=={major}.*", name)
