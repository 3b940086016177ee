"""An installation as a JSON document; its schema lies in envcheck/schemas."""

from __future__ import annotations

from typing import Any

from envcheck import __version__
from envcheck.model.codec import encode
from envcheck.model.records import dataclass
from envcheck.render.json_report import document_text

SCHEMA = "envcheck/install/1"


@dataclass(frozen=True)
class Result:
    """What came of an installation, of its undoing, or of a plan that was only shown."""

    outcome: str  # installed, unchanged, restored, planned, blocked, unsettled
    folder: str
    id: str = ""  # of the installation
    why: str = ""  # why the environment is not the new one
    log: str = ""  # file with what the steps printed
    machine: tuple[Any, ...] = ()  # steps taken on the machine where the environment is not the new one, newest first


def render_install_json(result: Result, plan: dict[str, Any] | None) -> str:
    """Render a result with the plan that ran (schema envcheck/plan/1; null for what needs none)."""
    told = {"schema": SCHEMA, "tool_version": __version__, **encode(result), "plan": plan}
    return document_text(told)
