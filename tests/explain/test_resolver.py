"""Which two requirements exclude each other, in the words of five resolvers, and what fits."""

from __future__ import annotations

import pytest

from envcheck.explain.resolver import find_fitting_releases, read_clash
from tests.cases.case_facts import matrix
from tests.cases.judged import judge_text

UV = """\
  \u00d7 No solution found when resolving dependencies:
  ╰─▶ Because vllm==0.6.0 depends on torch==2.4.0 and your project depends on
      torch>=2.6, we can conclude that your project and vllm==0.6.0 are incompatible.
"""
UV_DRAWS = """\
  cause: Because visionette>=0.20.0 depends on torchette==2.5.0 and you require visionette==0.20.0,
         we can conclude that you require torchette==2.5.0.
         And because you require torchette==1.13.1, we can conclude that your requirements are
         unsatisfiable.
"""
UV_OWN = (
    "Because you require numpy>=2 and numpy==1.26.4, we can conclude that they are unsatisfiable."
)
PIP = """\
The conflict is caused by:
    The user requested (constraint) protobuf==5.28.0
    tensorflow 2.12.0 depends on protobuf<4 and >=3.20
"""
POETRY = """\
Because tensorflow (2.12.0) depends on numpy (<2.0)
 and torch (2.5.0) depends on numpy (>=2.0.0), tensorflow (2.12.0) is incompatible with torch (2.5.0).
So, because proj depends on both tensorflow (2.12.0) and torch (2.5.0), version solving failed.
"""
PDM = """\
because of the following conflicts:
  numpy<2.0 (from tensorflow@2.12.0)
  numpy>=2.0.0 (from torch@2.5.0)
"""
POETRY_ONE = """\
Because torchaudio (2.3.1) depends on torch (2.3.1)
 and app depends on torch (2.4.0), torchaudio is forbidden.
So, because app depends on torchaudio (2.3.1), version solving failed.
"""
CONDA = """\
    ├─ python 3.13**  is requested and can be installed;
    └─ pytorch 2.4.0 cuda120*  is not installable because there are no viable options
       ├─ pytorch 2.4.0 would require
       │  └─ python >=3.11,<3.12.0a0 , which conflicts with any installable versions;
       └─ pytorch 2.4.0 would require
          └─ python >=3.12,<3.13.0a0 , which conflicts with any installable versions.
"""
VISION = (
    "Because torchvision==0.20.1 depends on torch==2.5.1 and your project depends on torch==2.6.0"
)
VIRTUAL = """\
    \u251c\u2500 __cuda ==12.2 0 is requested and can be installed;
    \u2514\u2500 cuda-version =13.0 * is not installable because it requires
       \u2514\u2500 __cuda >=13.0 *, which conflicts with any installable versions previously reported.
"""
SAID = {
    UV: "vllm 0.6.0 needs torch==2.4.0, but you ask for torch>=2.6.",
    UV_DRAWS: "visionette >=0.20.0 needs torchette==2.5.0, but you ask for torchette==1.13.1.",
    UV_OWN: "You ask for numpy>=2 and for numpy==1.26.4.",
    PIP: "You ask for protobuf==5.28.0, but tensorflow 2.12.0 needs protobuf<4,>=3.20.",
    POETRY: "tensorflow 2.12.0 needs numpy<2.0, but torch 2.5.0 needs numpy>=2.0.0.",
    POETRY_ONE: "torchaudio 2.3.1 needs torch==2.3.1, but app needs torch==2.4.0.",
    CONDA: "You ask for python==3.13.*, but pytorch 2.4.0 needs python>=3.12,<3.13.0a0.",
    PDM: "tensorflow 2.12.0 needs numpy<2.0, but torch 2.5.0 needs numpy>=2.0.0.",
}


@pytest.mark.parametrize(
    "text", SAID, ids=["uv", "uv infers", "uv own", "pip", "poetry", "poetry one", "conda", "pdm"]
)
def test_the_two_requirements_are_named(text: str) -> None:
    clash = read_clash(text.splitlines())
    assert clash is not None
    assert clash.message == SAID[text]
    assert "Nothing was installed" in clash.remedy.summary


@pytest.mark.parametrize(
    "text",
    [
        "midware 1.0 depends on numpy<2 and needs2 1.0 depends on numpy>=1.20",  # 1.20 to 2
        "backtrack 1.0 depends on numpy==1.19 and backtrack 2.0 depends on numpy==2.99",  # either
        "the result depends on x > 3 and the loss depends on y",
        "a 1.0 depends on b>=x.y and c 1.0 depends on b<=!",
        "",
    ],
)
def test_what_does_not_clash_is_not_said_to(text: str) -> None:
    assert read_clash([text]) is None


@pytest.mark.parametrize(
    ("text", "releases"),
    [
        (VISION, ("torch==2.6.0", "torchvision==0.21.0")),  # the companion gives way
        (POETRY_ONE, ("torch==2.4.0", "torchaudio==2.4.0")),
        (PIP, ("tensorflow==2.12.0", "protobuf<4,>=3.20")),  # what the statement leaves
        (CONDA, ("pytorch==2.4.0", "python>=3.12,<3.13.0a0")),
        (POETRY, ()),
        (UV_OWN, ()),
    ],
    ids=["companion", "poetry", "statement", "conda", "two frameworks", "own"],
)
def test_the_releases_that_fit_are_named(text: str, releases: tuple[str, ...]) -> None:
    clash = read_clash(text.splitlines())
    assert clash is not None
    assert find_fitting_releases(clash, matrix()) == releases


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            f"No solution found when resolving dependencies:\n{VISION}, we can conclude that",
            "uv add",
        ),
        (POETRY_ONE, "poetry add"),
        (f"{CONDA}is not installable because", "conda install"),
        (f"ERROR: ResolutionImpossible: conflicting dependencies\n{PIP}", "pip install"),
    ],
    ids=["uv", "poetry", "conda", "pip"],
)
def test_the_tool_that_spoke_is_typed(text: str, words: str) -> None:
    main = next(item for item in judge_text(text).report.findings if item.primary)
    assert main.fix is not None
    assert words in " ".join(" ".join(action.command()) for action in main.fix.actions)


def test_a_virtual_package_of_conda_is_a_part_of_the_machine() -> None:
    main = next(item for item in judge_text(f"{VIRTUAL}").report.findings if item.primary)
    assert main.id == "driver-too-old"
    assert main.message == (
        "cuda-version 13.0 needs a driver for CUDA 13.0, and this machine has 12.2."
    )
    assert main.fix is not None
    assert "580" in main.fix.summary


def test_names_that_nobody_knows_are_not_typed() -> None:
    report = judge_text(f"requirements are unsatisfiable\n{UV_DRAWS}").report
    main = next(item for item in report.findings if item.primary)
    assert main.fix is not None
    assert main.fix.actions == ()


def test_an_index_that_does_not_exist_is_answered_with_the_nearest() -> None:
    lines = (
        "Looking in indexes: https://download.pytorch.org/whl/cu131",
        "ERROR: Could not find a version that satisfies the requirement torch==2.10.0 (from versions: none)",
    )
    main = next(item for item in judge_text("\n".join(lines)).report.findings if item.primary)
    assert main.message == "There is no package index cu131."
    assert main.fix is not None
    assert "whl/cu130" in " ".join(main.fix.actions[0].command())
