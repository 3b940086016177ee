"""What the matrix answers about a requirement, and about each framework on a described machine."""

from __future__ import annotations

from envcheck.model import replace
from envcheck.rules.described_machine import LINUX
from envcheck.rules.matrix_question import (
    Candidate,
    NewestRelease,
    ReleasesFound,
    _same_build_first,
    find_nearest,
    find_rows,
)
from tests.rules.factory_python import build, context, facts, findings, known, matrix


def newest(**said: str) -> NewestRelease:
    conditions = dict.fromkeys(("python", "driver", "platform", "framework", "gpu"), "")
    (found,) = ReleasesFound(matrix(), {**conditions, **said}).newest
    return found


def test_a_pin_that_is_not_listed_lies_between_its_two_neighbours() -> None:
    assert find_nearest(matrix(), "torch==2.6.9")[:2] == ("torch", ("2.6.0", "2.7.0"))


def test_rows_are_numbered_in_sequence_and_named_by_what_brings_them() -> None:
    rows = [row for row in find_rows(matrix(), "torch>=2.7") if row.release.platform == LINUX]
    assert [row.place for row in rows] == list(range(len(rows)))
    assert rows[-1].label == "torch==2.7.0"
    builds = [item for row in find_rows(matrix(), "jax==0.6.0") for item in row.extra_builds]
    assert {item.label for item in builds} == {"jax[cuda12]==0.6.0"}


def test_the_newest_release_that_works_is_named_with_what_refuses_the_next() -> None:
    found = newest(framework="torch", gpu="8.9", python="3.9")
    assert (found.newest, found.requirement) == ("2.8.0", "torch==2.8.0")
    assert (found.refused, found.why) == ("2.9.0", "is not for Python 3.9")
    assert found.command[:3] == ("envcheck", "plan", "torch==2.8.0")


def test_the_build_named_like_the_last_one_is_tried_first() -> None:
    row = matrix().releases("torch", LINUX)[0]
    plain, labelled = Candidate(row), Candidate(replace(row, local="cu126"))
    assert _same_build_first([plain, labelled], None) == [plain, labelled]
    assert _same_build_first([plain, labelled], labelled) == [labelled, plain]


def test_only_the_cuda_wheels_that_pip_would_bring_are_asked_for_a_newer_glibc() -> None:
    old = {"libc_version": known("2.17")}
    asked = context(facts(host=old), "jax[cuda12]==0.10.2", expect="gpu")
    words = [item.message for item in findings("glibc-too-old", asked)]
    assert any("whose wheels need glibc" in message for message in words)
    installed = facts(build("jax", "0.10.2", "jax-cuda12-plugin"), host=old)
    words = [item.message for item in findings("glibc-too-old", context(installed))]
    assert not any("whose wheels need glibc" in message for message in words)
