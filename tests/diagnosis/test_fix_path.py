"""The way from a judged machine to a printed command passes few modules: someone new can follow it."""

from __future__ import annotations

import sys
from types import FrameType

from envcheck.actions import action_line
from envcheck.remedies import with_remedy
from envcheck.remedies.situation import Situation
from envcheck.rules import Context, evaluate
from tests.hosts.test_hosts import NAMES, context_of

MODULES = 15
LOADERS = {  # hand over rows of data/: nothing is decided there
    "envcheck.host.data_files",
    "envcheck.matrix.built_in",
    "envcheck.matrix.documented_gpus",
    "envcheck.matrix.load",
}


def modules_passed(context: Context) -> dict[str, set[str]]:
    """Map each finding of a judged machine to the modules of which a function runs until its commands are written."""
    report, situation = evaluate(context), Situation(context)
    passed: dict[str, set[str]] = {}
    current: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("envcheck.") and frame.f_code.co_name != "<module>":
            # The records of model are the words that all modules speak: they count once.
            current.add("envcheck.model" if name.startswith("envcheck.model.") else name)

    for finding in report.findings:
        current = set()
        sys.setprofile(note)
        try:
            fix = with_remedy(finding, situation).fix
            for action in fix.actions if fix else ():
                action_line(action)
        finally:
            sys.setprofile(None)
        passed[finding.id] = current - LOADERS
    return passed


def test_no_fix_of_a_recorded_machine_passes_more_modules() -> None:
    found = {name: modules_passed(context_of(name)) for name in NAMES}
    most = {
        f"{name} {finding}": sorted(seen)
        for name, of in found.items()
        for finding, seen in of.items()
    }
    assert max(map(len, most.values())) > 5
    assert {place: seen for place, seen in most.items() if len(seen) > MODULES} == {}
