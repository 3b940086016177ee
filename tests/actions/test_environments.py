"""What a tool that keeps a project does in pip's place."""

from __future__ import annotations

import pytest

from envcheck.actions import ActivateEnvironment, fit_to_project


@pytest.mark.parametrize("tool", ["uv", "uv pip", "poetry"])
def test_what_installs_nothing_is_the_same_with_every_tool(tool: str) -> None:
    """An action that names no Python was taken for one that installs into it."""
    activate = ActivateEnvironment(".venv")
    assert fit_to_project(activate, tool) == activate
