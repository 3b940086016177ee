"""Which older release is planned where the newest one does not resolve; a stand-in for uv answers here."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from envcheck.model import Plan
from envcheck.plan.planner import plan_requirements
from envcheck.plan.requests import PlanOptions
from envcheck.plan.resolver import Resolver
from envcheck.rules.described_machine import Description, planned_facts
from tests.plan.machines import machine, matrix

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in for uv is a shell script")
WINDOWS = machine("3.14", "565.90", "8.9", "win_amd64")
OLD_LIBC = machine("3.11", "570.195.03", "12.0", glibc="2.28")

# Its last argument is the file of a set. It fails by `no` with a conclusion, by `out` without an
# answer.
_UV = """#!/bin/sh
for file; do :; done
asked=$(tr '\\n' ' ' < "$file")
echo "$asked" >> {folder}/asked
no() {{ echo "error: No solution found when resolving dependencies: $1" >&2; exit 1; }}
out() {{ echo "error: Failed to fetch: $1" >&2; exit 2; }}
case "$asked $*" in
{answers}
esac
echo "${{asked%% *}}"
"""


def resolved(folder: Path, answers: str, said: Description, text: str) -> Plan:
    uv = folder / "uv"
    uv.write_text(_UV.format(folder=folder, answers=answers), encoding="utf-8")
    uv.chmod(0o755)
    environ = {"PATH": f"{folder}:/usr/bin:/bin", "PIP_CONFIG_FILE": os.devnull}
    resolver = Resolver(environ, 60, time.monotonic() + 60)
    facts = planned_facts(None, said, matrix(), expects_gpu=True)
    return plan_requirements(
        (text,), PlanOptions(description=said), matrix(), facts, resolver=resolver
    ).plan


NO_WINDOWS = """"flashinfer-python<="*) echo "flashinfer-python==0.6.14"; exit;;
*flashinfer-python==0.6.14*) ;;
*flashinfer-python==*) no "Because nccl4py has no wheels with a matching platform tag, ...";;"""


@pytest.mark.parametrize("text", ["flashinfer-python", "flashinfer-python>=0.6"])
def test_the_newest_release_that_resolves_alone_is_planned_with_the_same_framework(
    tmp_path: Path, text: str
) -> None:
    """Ten releases of FlashInfer require what has no wheel for Windows, and each goes with any torch."""
    plan = resolved(tmp_path, NO_WINDOWS, WINDOWS, text)
    (release,) = plan.releases
    assert (release.framework, release.companions) == ("torch", ("flashinfer-python==0.6.14",))
    assert plan.requirements == ("torch", text)
    assert "nccl4py has no wheels" in release.rejected[0].why
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert sum("flashinfer-python==" in line for line in asked) == 2, (
        "those between the two are not tried one by one"
    )


def test_a_bound_of_the_index_and_one_that_was_typed_hold_both(tmp_path: Path) -> None:
    plan = resolved(tmp_path, NO_WINDOWS, WINDOWS, "flashinfer-python>0.6.14")
    assert not plan.releases
    assert plan.requirements == ("torch", "flashinfer-python>0.6.14")
    assert "does not resolve: Because nccl4py" in plan.rejected[0].why


CLOSED_PAGE = """*wheels.vllm.ai*) out "dns error";;
"vllm==0.25.1 "*) no "{reason}";;
"vllm<="*) echo "vllm==0.21.0"; exit;;"""
NO_WHEEL = (
    "Because vllm==0.25.1 depends on llguidance>=1.7.0 and llguidance has no usable wheels, ..."
)
NOT_THERE = "Because vllm==0.25.1 has no wheels with a matching platform tag, ..."


def test_what_a_release_requires_is_asked_of_the_usual_index_where_its_own_page_does_not_answer(
    tmp_path: Path,
) -> None:
    """vLLM's builds for CUDA 12 are on a page of its project; llguidance has no wheel for glibc 2.28."""
    plan = resolved(tmp_path, CLOSED_PAGE.format(reason=NO_WHEEL), OLD_LIBC, "vllm")
    assert not plan.releases
    assert plan.rejected[0].requirement.endswith("vllm==0.25.1")
    assert "llguidance has no usable wheels" in plan.rejected[0].why
    assert any("of vllm known since" in note for note in plan.notes)


def test_a_release_that_the_usual_index_does_not_have_stays_unresolved(tmp_path: Path) -> None:
    plan = resolved(tmp_path, CLOSED_PAGE.format(reason=NOT_THERE), OLD_LIBC, "vllm")
    assert plan.releases[0].companions == ("vllm==0.25.1",)
    assert plan.verified.startswith(
        "not resolved: the index https://wheels.vllm.ai/0.25.1/cu129 did not answer"
    )
