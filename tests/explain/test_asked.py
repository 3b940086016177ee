"""What a log and a report tell of what somebody was after reaches the rules."""

from __future__ import annotations

import pytest

from envcheck.rules.context import Target
from tests.cases.case_facts import facts_of, target_of
from tests.cases.judged import judge_text

OLD_SYSTEM = {"os": "CentOS", "arch": "x86_64", "glibc": "2.17", "python": "3.10.14", "pip": "24.0"}
REFUSED = "ERROR: No matching distribution found for {}"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("torch==2.8.0", "glibc-too-old"),
        # nothing of the machine keeps it away: the log's own word stands
        ("torch==1.13.1", "python-unsupported"),
        ("no-framework-at-all==1.0", "dependency-conflict"),
    ],
)
def test_what_pip_refused_is_judged_on_that_machine(asked: str, expected: str) -> None:
    assert judge_text(REFUSED.format(asked), facts_of(OLD_SYSTEM)).primary == expected


def test_a_system_of_unknown_age_is_what_is_left_where_python_and_pip_fit() -> None:
    stated = {key: value for key, value in OLD_SYSTEM.items() if key != "glibc"}
    assert judge_text(REFUSED.format("torch==2.8.0"), facts_of(stated)).primary == "glibc-too-old"


def test_a_failed_build_makes_an_error_of_what_stops_builds() -> None:
    stated = {"os": "Ubuntu", "nvcc": "12.1", "gcc": "13.2.0", "packages": {"torch": "2.2.0+cu121"}}
    judged = judge_text("ninja: build stopped: subcommand failed.", facts_of(stated))
    assert judged.primary == "host-compiler-too-new"
    assert judged.raises_error


def test_a_report_names_what_is_wanted_and_that_it_is_built() -> None:
    stated = {
        "packages": {"torch": "2.0.1 (wanted)", "spam": "1.0 (wanted)"},
        "installer": "source",
    }
    assert target_of(stated) == Target(requirements=("torch==2.0.1",), compiles=True)
    assert target_of({"packages": {"torch": "2.0.1"}}) == Target()
