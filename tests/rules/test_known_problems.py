"""Every known problem of the matrix is told by a rule in an environment composed to have it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from envcheck.model import Finding, FrameworkRelease, KnownProblem, Unknown
from envcheck.rules import Context
from tests.rules.factory_python import (
    build,
    context,
    distribution,
    facts,
    findings,
    gpu,
    known,
    matrix,
)

HOSTS = {
    "linux_x86_64": ("linux", "x86_64"),
    "linux_aarch64": ("linux", "aarch64"),
    "win_amd64": ("windows", "AMD64"),
    "macosx_arm64": ("darwin", "arm64"),
    "macosx_x86_64": ("darwin", "x86_64"),
}
GPUS = {"<5.0": "3.7", "<7.5": "6.1", ">=10": "12.0"}
# Judged by the cuDNN table itself, which says the same of every release; the row is there for
# `matrix show`.
BY_TABLE = {"cudnn-too-new", "cudnn-wrong-major"}


def problems() -> Iterator[KnownProblem]:
    seen: set[str] = set()
    for name in ("tensorflow", "torch", "jax"):
        for dist in matrix().distributions(name):
            for row in matrix().releases(name):
                for stage in ("run", "install", "advice"):
                    for found in (
                        matrix().problems(dist, row.version, stage)
                        if row.distribution == dist
                        else ()
                    ):
                        if found.id not in seen:
                            seen.add(found.id)
                            yield found


PROBLEMS = tuple(problems())


def release_of(problem: KnownProblem) -> FrameworkRelease:
    """Choose a release that the problem touches, on a platform and with a Python that it touches."""
    framework = matrix().framework_of(problem.distribution)
    assert framework
    for row in matrix().releases(framework):
        if row.distribution == problem.distribution and SpecifierSet(problem.specifier).contains(
            row.version
        ):
            fits = not problem.platforms or row.platform in problem.platforms
            if fits and row.platform in (*HOSTS, "any") and pythons(problem, row):
                return row
    raise AssertionError(problem)


def pythons(problem: KnownProblem, row: FrameworkRelease) -> list[str]:
    asked = SpecifierSet(problem.pythons)
    mine = [python for python in row.pythons if asked.contains(f"{python}.0")]
    if mine or problem.stage != "install":
        return mine
    return [python for python in ("3.7", "3.8", "3.11") if asked.contains(f"{python}.0")]


def satisfying(condition: str) -> Any:
    """Make the distribution a condition speaks of: numpy>=2 -> numpy 2."""
    wanted = Requirement(condition)
    version = next((item.version for item in wanted.specifier), "8.9.0")
    return distribution(wanted.name, version if version.count(".") else f"{version}.0")


def machine(problem: KnownProblem, row: FrameworkRelease) -> Context:
    os, architecture = HOSTS.get(row.platform, HOSTS["linux_x86_64"])
    python = pythons(problem, row)[-1]
    given: dict[str, Any] = {
        "host": {"os": known(os), "architecture": known(architecture)},
        "architecture": known(architecture),
        "version": known(f"{python}.1"),
        "gpus": known((gpu(GPUS.get(problem.compute_capabilities, "8.6")),)),
    }
    if problem.stage == "install":
        extra = f"[{problem.requires_extra}]" if problem.requires_extra else ""
        return context(
            facts(distributions=(), **given),
            f"{row.distribution}{extra}=={row.version}",
            expect="gpu",
        )
    others = [satisfying(problem.condition)] if problem.condition else []
    if problem.requires_extra:
        others += [distribution(Requirement(item).name, "9.28.0.1") for item in row.cuda_wheels]
    items = (distribution(row.distribution, row.version), *others)
    if problem.finding == "framework-missing":
        return context(facts(distributions=items, **given), expect="gpu")
    libraries = Unknown("unparsable", "not read for a test")
    made = build(row.framework, row.version, row.distribution, libraries=libraries)
    return context(facts(made, distributions=items, **given), expect="gpu")


def test_there_are_as_many_as_in_the_matrix() -> None:
    assert len(PROBLEMS) > 35


@pytest.mark.parametrize(
    "problem", [item for item in PROBLEMS if item.finding not in BY_TABLE], ids=lambda item: item.id
)
def test_a_rule_tells_it(problem: KnownProblem) -> None:
    reported: list[Finding] = findings(problem.finding, machine(problem, release_of(problem)))
    told = [
        item
        for item in reported
        if problem.what in " ".join([item.message, *(shown.shown for shown in item.evidence)])
    ]
    assert told, reported
    assert told[0].fix is None or told[0].fix.summary


def test_the_cudnn_table_says_what_the_other_problems_say() -> None:
    said = {item.id: item for item in PROBLEMS if item.finding in BY_TABLE}
    assert set(said) == {"tf-2.20-2.21-cudnn-9.11", "jax-0.4.23-0.4.25-cudnn-9"}
    for line, oldest in (("9.10", "5.0"), ("9.11", "7.5"), ("9.28", "7.5")):
        row = matrix().cudnn(line, "12")
        assert row
        assert row.compute_capability_min == oldest
    plugin = matrix().release("jax", "0.4.25", "linux_x86_64", "jax-cuda12-plugin")
    assert plugin
    assert plugin.cudnn == "8.9"
