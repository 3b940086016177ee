"""A command looks at one thing: whoever names two is told so, and nothing is read."""

from __future__ import annotations

import pytest

from envcheck.cli.group import run
from envcheck.model import UserError

TWO = {
    "doctor --python a --env b": "--python and --env",
    "doctor --env b --snapshot c": "--env and --snapshot",
    "snapshot --python a --env b": "--python and --env",
    "smoke --python a --env b": "--python and --env",
    "check --python a --env b": "--python and --env",
    "check --dockerfile d --python a": "--python and --dockerfile",
    "check --dockerfile d --snapshot c": "--snapshot and --dockerfile",
}


@pytest.mark.parametrize("line", TWO)
def test_two_things_to_look_at_are_a_usage_error(line: str) -> None:
    with pytest.raises(UserError) as told:
        run(line.split())
    assert str(told.value) == f"{TWO[line]} exclude each other: choose one of them."
