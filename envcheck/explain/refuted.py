"""Keep out remedies that the log itself refutes: what it shows was done, or cannot be."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.actions import (
    Action,
    CreateEnvironment,
    InstallPackages,
    ReinstallPackages,
    RunCommand,
    SetVariables,
    Show,
    UninstallPackages,
    UpgradePip,
)
from envcheck.explain.log import Log
from envcheck.model import (
    SYSTEM,
    Alternative,
    Facts,
    Finding,
    Remedy,
    Report,
    replace,
)
from envcheck.model.versions import find_requirement, matches, name_of
from envcheck.remedies.situation import Situation

_ANEW = {"--upgrade", "-U", "--force-reinstall", "--pre", "--no-binary", "--no-build-isolation"}
# Options with which a container gets the GPUs, as commands of remedies and of logs write them.
_GPU_OPTIONS = ("--gpus", "--nv", "nvidia.com/gpu")


_CLUSTERS = ("slurm", "pbs", "lsf")


def with_unrefuted_remedies(log: Log, report: Report, situation: Situation) -> Report:
    """Give each finding the first way that neither the log nor the judge refutes."""
    findings = tuple(_without_refuted(log, item) for item in report.findings)
    kept: Report = replace(report, findings=findings)
    if not _states_machine(situation.facts):
        return kept
    # the rules of a machine: a log of none needs them not, and starts faster
    from envcheck.diagnosis.acceptance import with_accepted_remedies

    accepted = with_accepted_remedies(kept, situation).findings
    pairs = zip(kept.findings, accepted, strict=True)
    # what a log says of the cause is judged; of the rest it does not say enough
    judged = tuple(new if new.primary else old for old, new in pairs)
    return replace(kept, findings=judged)


def _states_machine(facts: Facts) -> bool:
    """Return whether Windows, another processor or a C library is stated, which decides builds."""
    host = facts.host
    is_other = host.os.value == "windows" or host.architecture.value not in (None, "x86_64")
    has_libc = host.libc_version.value is not None
    return host.os.value != "darwin" and (is_other or has_libc)


def _needs_administrator(way: Alternative) -> bool:
    """Return whether a way changes the machine, or types nothing."""
    return not way.actions or any(action.scope == SYSTEM for action in way.actions)


def _without_refuted(log: Log, finding: Finding) -> Finding:
    fix = finding.fix
    if fix is None or not fix.actions:
        return finding
    ways = (Alternative(fix.summary, fix.actions), *fix.alternatives)
    reasons = [find_refutation(log, way.actions) for way in ways]
    kept = [way for way, reason in zip(ways, reasons, strict=True) if not reason]
    if log.place in _CLUSTERS:  # the machine is another's: what needs no administrator first
        kept.sort(key=_needs_administrator)
    if kept == list(ways):
        return finding
    typed = [way for way in kept if way.actions] or kept
    if not typed:
        refused = Remedy(f"No remedy that works here is known: {reasons[0]}.")
        return replace(finding, fix=refused)
    others = tuple(way for way in kept if way is not typed[0])
    return replace(finding, fix=Remedy(typed[0].summary, typed[0].actions, others))


def find_refutation(log: Log, actions: Sequence[Action]) -> str:
    """Say how a log shows that actions fail, or change nothing; "" where it does not.

    Sample: pip lists "from versions: 2.16.1, 2.17.0", and the action installs tensorflow<2.16.
    """
    removed: set[str] = set()
    changes, vain = 0, ""
    for action in actions:
        if isinstance(action, (CreateEnvironment, UpgradePip)):
            return ""  # another environment, or another pip, sees other releases
        if isinstance(action, UninstallPackages):
            removed |= set(action.names)
        if isinstance(action, InstallPackages):
            if "pip" in map(name_of, action.requirements):
                return ""  # as above
            lacking = _find_lacking(log, action)
            if lacking:
                return lacking
        reason = _find_vain(log, action, removed)
        vain = vain or reason
        changes += not (reason or isinstance(action, (Show, UninstallPackages)))
    return "" if changes or removed else vain


def _find_lacking(log: Log, action: InstallPackages) -> str:
    """Name a requirement of which the log lists the releases, and none fits."""
    for event in log.select("pip-from-versions"):
        name = name_of(event.values["requirement"])
        releases = re.findall(r"\d[\w.]*", event.values.get("versions", ""))
        for text in action.requirements if releases and not action.index else ():
            wanted = find_requirement(text)
            if wanted is None or wanted.extras or wanted.name != name:
                continue  # of an extra, other releases decide
            if not any(matches(item, wanted.specifier) for item in releases):
                return f"the log lists the releases of {name}, and none is {text}"
    return ""


def _is_there(log: Log, text: str, removed: set[str]) -> bool:
    """Return whether the log lists a package that fits a requirement."""
    wanted = find_requirement(text)
    if wanted is None or wanted.extras or wanted.name in removed:
        return False
    version = log.packages.get(wanted.name)
    return version is not None and matches(version, wanted.specifier)


def _find_vain(log: Log, action: Action, removed: set[str]) -> str:
    """Say why an action changes nothing of what the log shows; "" where it may."""
    if isinstance(action, InstallPackages) and not isinstance(action, ReinstallPackages):
        texts = action.requirements
        is_there = all(_is_there(log, text, removed) for text in texts)
        if texts and is_there and not _ANEW & set(action.options):
            return f"{' and '.join(texts)} is installed already"
    if isinstance(action, SetVariables):
        stated = {"LD_LIBRARY_PATH": log.library_path} | log.environment
        if all(stated.get(name, "").startswith(value) for name, value in action.values):
            return f"{' and '.join(name for name, _ in action.values)} is set so already"
    if isinstance(action, RunCommand):
        words = " ".join(action.argv)
        option = next((item for item in _GPU_OPTIONS if item in words), "")
        if option and any(option in text for text in log.values("gpus_passed", "apptainer_nv")):
            return f"the container was started with {option}"
    return ""
