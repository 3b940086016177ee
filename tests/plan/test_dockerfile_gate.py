"""The gate of a planned image: where envcheck itself can run."""

from __future__ import annotations

import pytest

from envcheck.model.plans import Environment
from envcheck.render.plan_dockerfile import _gate


def environment(python: str, installer: str = "pip") -> Environment:
    return Environment(installer=installer, folder=".venv", python=python, platform="linux_x86_64")


@pytest.mark.parametrize(
    ("python", "installer", "gated"), [("3.7", "pip", False), ("3.10", "pip", True), ("3.7", "conda", True)]
)
def test_an_image_is_gated_where_envcheck_can_run_in_it(python: str, installer: str, gated: bool) -> None:
    lines = _gate(environment(python, installer), "/home/app/venv")
    assert any(line.startswith("RUN") and "check" in line for line in lines) == gated
    assert gated or lines[0].startswith("# No gate: envcheck itself needs Python 3.10")
