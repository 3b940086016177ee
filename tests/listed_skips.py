"""A pytest plugin: tests are skipped only for needs listed in expected_skips.toml that this machine lacks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.needs import OF_ROOT, is_met

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # what pytest itself brings below 3.11

LIST = Path(__file__).with_name("expected_skips.toml")
_violations: list[str] = []


def reasons() -> dict[str, str]:
    """Return the listed needs, each with its reason."""
    listed: dict[str, str] = tomllib.loads(LIST.read_text(encoding="utf-8"))["needs"]
    return listed


def pytest_configure(config: pytest.Config) -> None:
    """Register the `needs` mark."""
    config.addinivalue_line(
        "markers", "needs(*names): skip where the machine lacks one of these listed needs"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that an ordinary user skips where ENVCHECK_TEST_ONLY=root asks for those: CI runs both."""
    if os.environ.get("ENVCHECK_TEST_ONLY") != "root":
        return
    kept = [
        item
        for item in items
        if any(OF_ROOT & set(mark.args) for mark in item.iter_markers("needs"))
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose need this machine does not meet."""
    for mark in item.iter_markers("needs"):
        for need in mark.args:
            if need not in reasons():
                pytest.fail(f"need {need!r} is not listed in {LIST.name}", pytrace=False)
            if not is_met(need):
                pytest.skip(reasons()[need])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a skipped test that no unmet listed need explains."""
    if report.skipped and not hasattr(report, "wasxfail"):
        _note(report.nodeid, report.longrepr)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a module skipped as a whole."""
    if report.skipped:
        _note(report.nodeid, report.longrepr)


def _note(test: str, why: Any) -> None:
    text = str(why[2] if isinstance(why, tuple) else why)
    reason = text.split("Skipped: ", 1)[-1]
    needs = [need for need, listed in reasons().items() if listed == reason]
    if not needs or is_met(needs[0]):
        _violations.append(f"{test}: {reason}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run when a test was skipped for an unlisted reason."""
    if _violations and session.exitstatus in (
        pytest.ExitCode.OK,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the tests that were skipped for an unlisted reason."""
    if _violations:
        terminalreporter.section(
            f"skipped for a reason that {LIST.name} does not allow here", red=True
        )
        for line in _violations:
            terminalreporter.line(line, red=True)
