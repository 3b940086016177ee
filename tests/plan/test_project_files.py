"""What a project's own files ask for, planned together; every file here is composed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from envcheck import api
from envcheck.cli.group import run
from envcheck.model import Distribution, Plan, RequestError, RequirementSet, UserError
from envcheck.plan.build import EnvironmentUpdate
from envcheck.plan.planner import plan_project
from envcheck.plan.project import ProjectLines, sort_lines
from envcheck.plan.requests import PlanOptions
from envcheck.plan.resolver import Resolver
from envcheck.rules import Context, Target
from envcheck.rules.described_machine import planned_facts
from tests.plan.machines import A100, machine, matrix
from tests.plan.test_into import TORCH, facts_of

HERE = ("--platform", "linux_x86_64", "--python", "3.11", "--driver", "550.67", "--gpu", "A100")
PROJECT = """[project]
name = "train"
version = "0"
dependencies = ["torch>=2.4", "numpy<2"]
[project.optional-dependencies]
vision = ["torchvision"]
[dependency-groups]
test = ["pytest", {include-group = "typing"}]
typing = ["mypy", {include-group = "test"}]
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan_files(text: str = "", *asked: str, **options: Any) -> Plan:
    Path("requirements.txt").write_text(text, encoding="utf-8")
    files = ("requirements.txt",) if text else ()
    return api.plan(
        *asked, requirement_files=files, platform="linux_x86_64", python="3.11", driver="550.67", gpu="A100", **options
    ).plan  # fmt: skip


def sets(plan: Plan) -> list[tuple[str, ...]]:
    return [item.requirements for made in plan.environments for item in made.sets]


def test_a_part_of_a_framework_comes_with_it() -> None:
    """What `pip freeze` and a lock of JAX name."""
    (made,) = sets(plan_files("jax==0.4.35\njaxlib==0.4.35\nnumpy<2\n", expect="cpu"))
    assert made == ("jax==0.4.35", "numpy<2", "jaxlib==0.4.35")
    (alone,) = sets(plan_files("jaxlib==0.4.35\n", expect="cpu"))
    assert alone == ("jax==0.4.35",), "the whole framework"


def test_the_framework_is_chosen_for_the_machine_and_the_rest_comes_with_it() -> None:
    plan = plan_files(
        "torch>=2.4,<2.8\ntorchvision\nnumpy<2  # old\nidna==3.10 ; python_version >= '3.8'\n"
        "pywin32 ; sys_platform == 'win32'\nonnxruntime\nrequests[socks]>=2\n"
    )
    assert sets(plan) == [
        ("torch==2.7.1", "torchvision==0.22.1", "numpy<2", "idna==3.10", "requests[socks]>=2", "onnxruntime")
    ]  # fmt: skip
    assert any("4 more packages (numpy<2, idna==3.10, requests" in note for note in plan.notes)


def test_what_a_framework_of_its_own_index_leaves_comes_from_the_usual_one() -> None:
    plan = plan_files("torch\nnumpy<2\n")
    (made,) = plan.environments
    assert [(item.index[-5:], item.requirements, item.kept) for item in made.sets] == [
        ("cu126", ("torch==2.14.1+cu126",), ()),
        ("", ("numpy<2",), ("torch==2.14.1",)),
    ]


def test_constraints_bound_what_is_asked_for_and_what_that_brings() -> None:
    Path("c.txt").write_text("torch<2.8\ncertifi<2026\n", encoding="utf-8")
    plan = plan_files("", "vllm", constraint_files=("c.txt",))
    assert plan.releases[0].requirement.startswith("torch==2.7.")
    assert all(item.options == ("-c", "c.txt") for made in plan.environments for item in made.sets)
    assert plan_files("-c c.txt\ntorch\n").releases[0].requirement == "torch==2.7.1"
    text = api.plan(
        "torch", constraint_files=("c.txt",), platform="linux_x86_64", python="3.11"
    ).render("dockerfile")
    assert "COPY --chown=app c.txt c.txt" in text


def test_a_project_is_planned_with_the_extras_and_groups_that_are_named() -> None:
    Path("pyproject.toml").write_text(PROJECT, encoding="utf-8")
    texts = sets(plan_files("", ".[vision]", groups=("test",)))
    assert texts[0] == ("torch==2.14.1+cu126", "torchvision==0.29.2")
    assert texts[1] == ("numpy<2", "pytest", "mypy")
    assert sets(plan_files("", ".", extras=("vision",)))[0] == texts[0]
    assert sets(plan_files("", "."))[0] == ("torch==2.14.1+cu126",)
    (change, *_) = api.plan(".", platform="linux_x86_64", python="3.6").plan.changes
    assert change.argv[:4] == ("envcheck", "plan", ".", "--python")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("git+https://example.org/x.git\n", "is a separate project"),
        ("x @ https://example.org/x.whl\n", "comes from an address"),
        ("<html>\n", "is no requirement"),
        ("--extra-index-url https://u:p@example.org/simple\n", "names the index https://***: "),
        ("-r gone.txt\n", "gone.txt was not found, so what it installs is not planned"),
        ("tensorrt\n", "envcheck plans no release of tensorrt"),
    ],
)  # fmt: skip
def test_a_line_that_is_not_followed_is_named_with_its_place(text: str, reason: str) -> None:
    plan = plan_files(f"torch\n{text}")
    (note,) = [note for note in plan.notes if note.startswith("requirements.txt:2")]
    assert reason in note
    assert ":p@" not in note


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name what to plan, such as tensorflow, . or -r requirements.txt"),
        (("-r", "gone.txt"), "cannot read gone.txt"),
        (("-c", "gone.txt", "torch"), "cannot read gone.txt"),
        (("-c", "requirements.txt"), "name what to plan"),
        (("requirements.txt",), "is a file: plan it with -r requirements.txt"),
        (("torch", "--extra", "x"), "--extra and --group are of a project"),
        (("./nothing",), "./nothing: neither a pyproject.toml"),
        ((".", "--extra", "x"), ". has no extra 'x': it has vision"),
        ((".", "--group", "x"), ". has no group 'x': it has test, typing"),
        (("-r", "numpy.txt", "--no-verify"), "Leave out --no-verify"),
        (("-r", "empty.txt", "--no-verify"), "the files name no framework"),
        (("-r", "requirements.txt", "torch<2"), "requirements.txt:1: torch>=2.4 excludes torch<2"),
        (("-r", "twice.txt"), "twice.txt:1: no version satisfies torch<1,>=2"),
        (("-r", "bytes.txt"), "is not UTF-8"),
    ],
)
def test_a_mistake_is_one_sentence(words: tuple[str, ...], message: str) -> None:
    Path("pyproject.toml").write_text(PROJECT, encoding="utf-8")
    files = {
        "requirements": "torch>=2.4\n",
        "numpy": "numpy\n",
        "empty": "# none\n",
        "twice": "torch>=2,<1\n",
    }
    for name, text in files.items():
        Path(f"{name}.txt").write_text(text, encoding="utf-8")
    Path("bytes.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError) as plan:
        run(["plan", *words, *HERE])
    assert message in str(plan.value)
    with pytest.raises(UserError) as install:
        run(["install", *words, "--dry-run"])
    if words not in {(), ("-c", "requirements.txt")}:
        assert str(install.value) == str(plan.value)


def test_files_without_a_framework_are_resolved_together_and_the_index_says_which() -> None:
    asked = []

    def answer(_made: object, wanted: RequirementSet, *_rest: object) -> tuple[str, ...]:
        asked.append(wanted.requirements)
        return ("sentence-transformers==5.0.0", "torch==2.6.0", "numpy==2.1.0")

    facts = planned_facts(None, A100, matrix(), expects_gpu=True)
    resolver = Resolver(dict(os.environ), 5, time.monotonic() + 5)
    resolver_module = sys.modules["envcheck.plan.resolver"]
    found = ProjectLines(lines=(("sentence-transformers", "r.txt:1"), ("numpy", "r.txt:2")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolver_module, "resolve", answer)
        context = Context(facts, matrix(), Target("gpu"))
        assert resolver.find_framework(("sentence-transformers", "numpy"), context) == (
            "torch<=2.6.0",
        )
        patch.setattr(resolver_module, "resolve", lambda *_: ("numpy==2.1.0",))
        with pytest.raises(RequestError, match="none of the 1 packages"):
            resolver.find_framework(("numpy",), context)
    assert asked == [("sentence-transformers", "numpy")]
    assert sort_lines((), found, context).beside == ("sentence-transformers", "numpy")


def test_an_environment_is_left_alone_only_where_it_holds_the_rest_too() -> None:
    facts = facts_of(TORCH, Distribution("attrs", "23.1.0"))
    options = PlanOptions(installer="pip", folder=".venv")

    def update(**lines: str) -> EnvironmentUpdate:
        found = ProjectLines(lines=tuple((text, f"r.txt:{at}") for at, text in lines.items()))
        return plan_project(found, (), options, matrix(), facts, installed=facts)

    assert update(a="torch", b="attrs>=23").is_satisfied
    made = update(a="torch", b="attrs>=24")
    assert not made.is_satisfied
    assert any("attrs>=24" in texts for texts in sets(made.plan))


def test_a_described_machine_reads_its_own_markers() -> None:
    found = ProjectLines(lines=(("torch", "r:1"), ("pywin32; sys_platform == 'win32'", "r:2")))
    windows = machine("3.11", "550.67", "8.0", platform="win_amd64")
    facts = planned_facts(None, windows, matrix(), expects_gpu=True)
    assert sort_lines((), found, Context(facts, matrix(), Target())).beside == ("pywin32",)


def test_a_nul_in_the_name_of_an_included_file_is_a_file_that_is_not_there() -> None:
    assert any("was not found" in note for note in plan_files("torch\n-r more\0.txt\n").notes)
