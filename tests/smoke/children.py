"""Import a smoke script as the inspected Python does, and hear what it says."""

from __future__ import annotations

import importlib
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import envcheck

if TYPE_CHECKING:
    from start import Report

CHILDREN = Path(envcheck.__file__).parent / "smoke" / "children"


def import_child(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """Import a script of `children/` by its bare name."""
    monkeypatch.syspath_prepend(CHILDREN)
    return importlib.import_module(name)


class Heard:
    """A report whose words are kept."""

    def __init__(self, gpu: str, level: str = "full") -> None:
        self._stream = io.BytesIO()
        start: Any = importlib.import_module("envcheck.smoke.children.start")
        self.report: Report = start.Report(self._stream, gpu, 1, level)

    @property
    def said(self) -> str:
        """Return its lines."""
        return self._stream.getvalue().decode()

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """Return the results by check, the last one of each."""
        events = [json.loads(line) for line in self.said.splitlines()]
        return {event["check"]: event for event in events if event["event"] == "result"}

    @property
    def outcomes(self) -> dict[str, str]:
        """Return the outcomes by check."""
        return {check: event["outcome"] for check, event in self.results.items()}
