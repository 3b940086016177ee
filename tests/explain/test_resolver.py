"""Which two requirements exclude each other, in the words of four resolvers."""

from __future__ import annotations

import pytest

from envcheck.explain.resolver import read_clash

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
SAID = {
    UV: "vllm 0.6.0 needs torch==2.4.0, but you ask for torch>=2.6.",
    UV_DRAWS: "visionette >=0.20.0 needs torchette==2.5.0, but you ask for torchette==1.13.1.",
    UV_OWN: "You ask for numpy>=2 and for numpy==1.26.4.",
    PIP: "You ask for protobuf==5.28.0, but tensorflow 2.12.0 needs protobuf<4,>=3.20.",
    POETRY: "tensorflow 2.12.0 needs numpy<2.0, but torch 2.5.0 needs numpy>=2.0.0.",
    PDM: "tensorflow 2.12.0 needs numpy<2.0, but torch 2.5.0 needs numpy>=2.0.0.",
}


@pytest.mark.parametrize("text", SAID, ids=["uv", "uv infers", "uv own", "pip", "poetry", "pdm"])
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
