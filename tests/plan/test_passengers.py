"""Packages that the matrix does not hold are planned with the framework that the index states; a stand-in answers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping

import pytest

from envcheck.model import Plan, RequestError
from envcheck.plan.build import build_plan, verdict_on
from envcheck.plan.passengers import Boarding, board, is_passenger
from envcheck.plan.planner import plan_requirements
from envcheck.plan.requests import PlanOptions, UnknownPackageError, read_requests
from envcheck.plan.resolver import Resolver
from envcheck.plan.verify import UnresolvableError
from envcheck.rules import Context, Target
from envcheck.rules.described_machine import planned_facts
from tests.plan.machines import machine, matrix

ADA = machine("3.12", "580.95.05", "8.9")
INDEX = {  # what resolving each requirement brings; composed
    "peft": {"peft": "0.19.0", "torch": "2.15.0", "accelerate": "1.14.0"},
    "transformers": {"transformers": "5.23.0", "numpy": "2.4.6"},
    "transformers[torch]>=5": {"transformers": "5.23.0", "torch": "2.15.0"},
    "transformers>=5": {"transformers": "5.23.0", "numpy": "2.4.6"},
    "timm": {"timm": "1.0.31", "torch": "2.15.0", "torchvision": "0.29.2", "triton": "3.9.0"},
    "oldie": {"oldie": "0.1", "torch": "2.6.0"},
    "vllm==0.5.0": {"vllm": "0.5.0", "torch": "2.3.0"},
    "faster-whisper": {"faster-whisper": "1.2.1", "onnxruntime": "1.31.0", "ctranslate2": "4.8.5"},
    "mirrored": {"mirrored": "0.1", "torch": "2.13.0+cpu"},
    "attrs": {"attrs": "26.1.0"},
}


def ask(text: str) -> Mapping[str, str]:
    """Answer as the index does; an extra that a package does not have brings nothing."""
    return INDEX.get(text) or INDEX[text.partition("[")[0]]


def boarded(*texts: str) -> Boarding:
    facts = planned_facts(None, ADA, matrix(), expects_gpu=True)
    return board(texts, Context(facts, matrix(), Target("gpu")), ask)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("peft", ("peft", "torch")),
        # its extra is named as the framework
        ("transformers>=5", ("transformers[torch]>=5", "torch")),
        ("timm", ("timm", "torch", "torchvision")),  # not triton, which torch requires itself
        ("oldie", ("oldie", "torch<=2.6.0")),  # it takes no newer one
        ("mirrored", ("mirrored", "torch<=2.13.0")),  # a bound has no label
        ("vllm==0.5.0", ("vllm==0.5.0", "torch<=2.3.0")),  # the matrix begins later
        # the onnxruntime that it requires is for the CPU
        ("faster-whisper", ("faster-whisper", "ctranslate2")),
    ],
)
def test_the_framework_is_the_one_that_the_index_states(
    text: str, expected: tuple[str, ...]
) -> None:
    assert boarded(text).texts == expected


def test_a_passenger_is_planned_beside_its_framework_and_undetermined_until_it_resolves() -> None:
    found = boarded("transformers>=5")
    facts = planned_facts(None, ADA, matrix(), expects_gpu=True)
    requests = read_requests(found.texts, matrix(), found.passengers)
    plan = build_plan(facts, matrix(), requests, PlanOptions(description=ADA))
    assert plan.environments[0].sets[0].requirements == ("torch==2.15.0", "transformers[torch]>=5")
    assert plan.releases[0].open_companions == ("transformers[torch]>=5",)
    assert verdict_on(plan) == "undetermined"
    assert "m.version(" in str(plan.steps[-1].action)


def test_what_needs_no_framework_is_called_that_and_comes_beside_one_that_is_named() -> None:
    with pytest.raises(
        RequestError, match=r"attrs needs no framework that envcheck plans.*attrs==26\.1\.0"
    ):
        boarded("attrs")
    found = boarded("torch", "attrs")
    (request,) = read_requests(found.texts, matrix(), found.passengers)
    assert request.companions == ("attrs",)


def test_where_no_index_answers_the_refusal_names_what_to_type() -> None:
    unreachable = {"UV_OFFLINE": "1", "PATH": os.environ["PATH"], "UV_CACHE_DIR": os.devnull}
    facts = planned_facts(None, ADA, matrix(), expects_gpu=True)
    resolver = Resolver(unreachable, 60, time.monotonic() + 60)
    plan = resolver.board(("transformers",), Context(facts, matrix(), Target("gpu")))
    assert isinstance(plan, Plan)
    assert verdict_on(plan) == "undetermined"
    assert (
        "plan that, as in `envcheck plan torch`, and install transformers" in plan.rejected[0].why
    )
    with pytest.raises(UnknownPackageError, match="leave out --no-verify"):
        plan_requirements(("transformers",), PlanOptions(description=ADA), matrix(), facts)


def test_a_name_one_letter_off_a_known_one_is_not_asked_about() -> None:
    with pytest.raises(UnknownPackageError, match="Did you mean vllm"):
        boarded("vlm")


@pytest.mark.parametrize(("name", "meant"), [("torhc", " Did you mean torch?"), ("qqzzx", "")])
def test_a_name_that_the_index_does_not_have_is_held_against_the_known_ones(
    name: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Mapping[str, str]:
        raise UnresolvableError((name,), f"{name} was not found in the package registry")

    monkeypatch.setitem(vars(sys.modules[Resolver.__module__]), "resolve", refuse)
    resolver = Resolver(dict(os.environ), 60, time.monotonic() + 60)
    with pytest.raises(RequestError) as refused:
        resolver.board(
            (name,),
            Context(planned_facts(None, ADA, matrix(), expects_gpu=True), matrix(), Target()),
        )
    assert str(refused.value) == f"the package index has no package named {name!r}.{meant}"


@pytest.mark.parametrize(
    "text", ["torch", "torch==99", "vllm", "flax", "flash-attn", "tensorrt", "keras-hub>=0.18"]
)
def test_what_is_known_is_no_passenger(text: str) -> None:
    assert not is_passenger(text, matrix())
