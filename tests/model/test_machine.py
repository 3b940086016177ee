"""Snapshots of other releases: what those did not collect is told from what could not be read."""

from __future__ import annotations

import pytest

from envcheck import __version__
from envcheck.model import (
    NOT_COLLECTED,
    NOT_STATED,
    DriverFacts,
    Facts,
    Gpu,
    Known,
    Snapshot,
    Source,
    Unknown,
    mark_uncollected,
    replace,
)

HERE = Source("file", "/proc/driver/nvidia/version")
HANGS = Unknown("timeout", "no answer within 2.0 s")
FACTS = Facts(
    driver=DriverFacts(release=Known("550.54.15", HERE), nvml_result=HANGS),
    gpus=Known((Gpu(name=Known("NVIDIA L4", HERE)),), HERE),
)
SNAPSHOT = Snapshot(1, "0.0.1", "h", "t", FACTS)


def test_what_an_older_release_did_not_collect_is_marked() -> None:
    facts = mark_uncollected(SNAPSHOT).facts
    assert facts.driver.fabric_manager_running is NOT_COLLECTED
    assert facts.driver.release == Known("550.54.15", HERE)
    assert facts.driver.nvml_result is HANGS
    assert facts.gpus.value is not None
    assert (facts.gpus.value[0].uuid, facts.gpus.value[0].name) == (
        NOT_COLLECTED,
        Known("NVIDIA L4", HERE),
    )


def test_a_section_that_states_nothing_was_not_read() -> None:
    facts = mark_uncollected(SNAPSHOT).facts
    assert facts.python.version is NOT_STATED
    assert facts.cudnn is NOT_STATED


@pytest.mark.parametrize("version", [__version__, "0", "", "99.0.0"])
def test_a_snapshot_of_no_older_release_stays_as_it_is(version: str) -> None:
    own = replace(SNAPSHOT, tool_version=version)
    assert mark_uncollected(own) is own
