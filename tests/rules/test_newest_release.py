"""The newest release that works: the short way gives the answers of the row-by-row engine."""

from __future__ import annotations

import random

import pytest

from envcheck import api
from envcheck.matrix import Matrix, load_matrix
from envcheck.model import COMPATIBLE, INCOMPATIBLE, FrameworkRelease, list_fields
from envcheck.rules.described_machine import LINUX
from envcheck.rules.described_machine import PLATFORMS as ALL_PLATFORMS
from envcheck.rules.matrix_question import (
    JUDGED_CELLS,
    Candidate,
    Fit,
    Question,
    ReleasesFound,
    RowJudge,
    distributions_of,
    find_releases,
    list_candidates,
    list_newest,
)

DRIVERS = (
    "",
    "390.157",
    "418.40.04",
    "450.80.02",
    "470.57.02",
    "525.60.13",
    "535",
    "535.104.05",
    "570.26",
    "610.10",
)
ONE_GPU = ("3.5", "3.7", "5.2", "6.1", "7.0", "7.5", "8.6", "8.7", "8.9", "9.0", "10.0", "12.0")
CAPABILITIES = ("", "", *ONE_GPU)
PYTHONS = ("", "3.7", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.13t")
PLATFORMS = (LINUX, LINUX, LINUX, *ALL_PLATFORMS)
MACHINES = 12


def sample(count: int, seed: int) -> list[Question]:
    """Draw machines, each with something that was asked for."""
    random_of = random.Random(seed)
    drawn: list[Question] = []
    while len(drawn) < count:
        python, driver = random_of.choice(PYTHONS), random_of.choice(DRIVERS)
        capability = random_of.choice(CAPABILITIES)
        if python or driver or capability:
            drawn.append(Question(python, driver, capability, random_of.choice(PLATFORMS)))
    return drawn


class RowByRow(RowJudge):
    """Judges each candidate by all rules: no bounds, and nothing that was found of another one."""

    def judge(self, candidate: Candidate, platform: str) -> Fit:
        return self.judge_fully(candidate, platform)


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def test_the_short_way_agrees_with_the_row_by_row_engine_on_a_sample_of_machines(
    matrix: Matrix,
) -> None:
    works = 0
    for question in sample(MACHINES, seed=26):
        newest = list_newest(RowJudge(matrix, question))
        assert newest == list_newest(RowByRow(matrix, question)), question
        works += sum(bool(item.requirement) for item in newest)
    assert works > MACHINES  # something works on most of them


def test_every_row_is_judged_as_by_itself_on_a_sample_of_machines(matrix: Matrix) -> None:
    for question in sample(12, seed=5):
        assert find_releases(RowJudge(matrix, question)) == find_releases(
            RowByRow(matrix, question)
        ), question


def test_rules_read_no_cell_of_a_release_that_the_table_of_decisive_cells_lacks(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[str] = set()
    plain = object.__getattribute__
    names = {*list_fields(FrameworkRelease)}

    def note(self: FrameworkRelease, name: str) -> object:
        if name in names:
            read.add(name)
        return plain(self, name)

    judges = [RowByRow(matrix, question) for question in sample(12, seed=7)]
    candidates = [(judge, item) for judge in judges for item in list_all(judge)]
    monkeypatch.setattr(FrameworkRelease, "__getattribute__", note)
    for judge, candidate in candidates[:: len(candidates) // 1500 + 1]:
        judge.judge(candidate, judge.question.platform)
    monkeypatch.undo()
    # What makes the name and the key of a release; what holds for releases that are withdrawn.
    named = {"version", "local", "pythons", "free_threaded", "cuda_wheels", "stub_for", "yanked"}
    # Evidence, and what a question never describes: see JUDGED_CELLS.
    without_effect = {
        "citations",
        "note",
        "proof",
        "cudnn",
        "glibc",
        "tags",
        "requires",
        "variants",
        "binaries",
    }
    assert read - {*JUDGED_CELLS} - named - without_effect == set()


def list_all(judge: RowJudge) -> list[Candidate]:
    """List all candidates of all frameworks."""
    platform, found = judge.question.platform, []
    context = judge.context(platform)
    for name in judge.matrix.judged():
        for version in judge.matrix.versions(name):
            rows = judge.matrix.releases(name, platform, version.__eq__, pin=version)
            usable = [row for row in rows if row.distribution in distributions_of(context, name)]
            found += list_candidates(context, usable) if usable else []
    return found


def test_the_verdict_is_that_of_the_rows(matrix: Matrix) -> None:
    for question in sample(12, seed=11):
        conditions = {
            "python": question.python,
            "driver": question.driver,
            "platform": question.platform,
        }
        gpu = question.capability
        found = ReleasesFound(matrix, {**conditions, "gpu": gpu, "framework": ""})
        fits = {item.fit for item in found.rows}
        expected = COMPATIBLE if COMPATIBLE in fits else "undetermined" if fits else INCOMPATIBLE
        assert found.verdict == expected or any(item.requirement for item in found.newest)


def test_every_printed_command_plans_what_it_names() -> None:
    """Each command is answered by a plan for the release that it names."""
    asked = 0
    for question in sample(12, seed=3):
        gpu = question.capability
        found = api.matrix(
            python=question.python, driver=question.driver, gpu=gpu, platform=question.platform
        )
        for item in found.newest:
            if not item.command:
                continue
            options = dict(zip(item.command[3::2], item.command[4::2], strict=True))
            values = {name.removeprefix("--"): value for name, value in options.items()}
            planned = api.plan(item.command[2], **values)  # type: ignore[arg-type]  # as the command line does
            assert planned.verdict == COMPATIBLE, (item.command, str(planned)[:400])
            assert item.newest in {
                release.version.partition("+")[0] for release in planned.plan.releases
            }
            asked += 1
    assert asked > 20
