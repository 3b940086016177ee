"""What a project requires of a machine in its table, held against the machine."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import Advise, Fix, FollowRow, FrameworkBuild, replace
from envcheck.model.fixes import HideGpu, InstallDriver, InstallRequirements
from envcheck.rules import Context, Target
from envcheck.rules.context import Demands
from envcheck.rules.matrix_question import list_candidates
from envcheck.rules.project import (
    required_capability,
    required_driver,
    required_memory,
    required_releases,
)
from tests.rules.factory_machine import build, context, driver, gpu, matrix

GIB = 1 << 30


def asking(judged: Context, **demands: Any) -> Context:
    """Return the context with what a project requires."""
    asked = Demands(location="pyproject.toml", **demands)
    python = replace(judged.python, chosen_by="option")
    facts = replace(judged.facts, python=python)
    return Context(facts, judged.matrix, Target(demands=asked))


@pytest.mark.parametrize(
    ("builds", "demands", "expected"),
    [
        ((), {"requires": ("torch>=2.6",)}, [("framework-missing", "torch>=2.6")]),
        ((build("2.5.1"),), {"requires": ("torch>=2.6",)}, [("dependency-conflict", "torch>=2.6")]),
        ((build("2.6.0"),), {"requires": ("torch>=2.6",)}, []),
        (
            (),
            {"requires": ("torch>=99",)},
            [("framework-missing", "Require a release that exists")],
        ),
        (
            (),
            {"requires": ("torch>=2.6",), "obstacles": ("driver-too-old",)},
            [("framework-missing", "Let `envcheck plan 'torch>=2.6'` choose")],
        ),
        ((build("2.5.1"),), {"requires": ("torch>=2.6; python_version < '3'",)}, []),
    ],
)
def test_a_release_that_the_project_requires_is_installed(
    builds: tuple[FrameworkBuild, ...],
    demands: dict[str, Any],
    expected: list[tuple[str, str]],
) -> None:
    found = list(required_releases(asking(context(gpu(), builds=builds), **demands)))
    assert [item.id for item in found] == [finding_id for finding_id, _ in expected]
    for item, (_, start) in zip(found, expected, strict=True):
        assert _text(item.cure).startswith(start)


def _text(cure: Fix | None) -> str:
    if isinstance(cure, InstallRequirements):
        return " ".join(cure.requirements)
    return cure.sentence if isinstance(cure, Advise) else ""


def test_a_driver_a_capability_and_free_memory_reach_their_floors() -> None:
    judged = context(gpu(), driver=driver("550.54.14"))
    assert list(required_driver(asking(judged, min_driver="550.54.14"))) == []
    (old,) = required_driver(asking(judged, min_driver="560.28"))
    assert old.cure == InstallDriver("560.28")
    assert list(required_capability(asking(judged, min_compute_capability="8.0"))) == []
    (small,) = required_capability(asking(judged, min_compute_capability="8.6"))
    assert small.cure == HideGpu()
    assert list(required_memory(asking(judged, min_memory=39 * GIB))) == []
    (full,) = required_memory(asking(judged, min_memory=41 * GIB))
    assert full.cure == FollowRow()
    assert "41.0 GiB of GPU memory are required" in full.message


def test_what_is_installed_of_jax_is_the_release_with_its_library_and_a_plugin() -> None:
    judged = context(gpu())
    row = matrix().release("jax", "0.6.0", "linux_x86_64", "jax")
    assert row is not None
    first = list_candidates(judged, [row])[0]
    assert first.requirement == "jax[cuda12]==0.6.0"
    assert [item.label for item in first.parts] == ["jaxlib 0.6.0", "jax-cuda12-plugin 0.6.0"]
    on_cpu = list_candidates(context(expect="cpu"), [row])
    assert [(item.requirement, [part.label for part in item.parts]) for item in on_cpu] == [
        ("jax==0.6.0", ["jaxlib 0.6.0"])
    ]
