"""`doctor --format` on a saved machine, through the command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from envcheck.cli.report import FORMATS
from envcheck.model import SCHEMA_VERSION, Facts, Snapshot
from envcheck.render.json_contracts import render_snapshot


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A machine of which nothing could be read."""
    path = tmp_path / "machine.json"
    snapshot = Snapshot(SCHEMA_VERSION, "0", "host", "2026-01-01T00:00:00Z", Facts())
    path.write_text(render_snapshot(snapshot), encoding="utf-8")
    return path


def doctor(saved: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envcheck", "doctor", "--snapshot", str(saved), *options]
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, env={"PATH": "/bin", **env}
    )


@pytest.mark.parametrize("form", FORMATS)
def test_the_exit_code_is_the_same_in_every_format(saved: Path, form: str) -> None:
    done = doctor(saved, "--format", form)
    assert done.returncode == 3
    assert done.stderr == ""
    assert (
        "ndetermined" in done.stdout
        or "UNDETERMINED" in done.stdout
        or form in {"npd", "nhc"}  # a sentence about what could not be read
        or ET.fromstring(done.stdout)[0].get("errors")
    )


def test_github_adds_markdown_to_the_step_summary(saved: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    done = doctor(saved, "--format", "github", GITHUB_STEP_SUMMARY=str(summary))
    assert done.stdout.startswith("::error ")
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("before\n## envcheck: undetermined\n")


def test_a_step_summary_that_cannot_be_written_is_told_and_changes_nothing_else(
    saved: Path, tmp_path: Path
) -> None:
    done = doctor(saved, "--format", "github", GITHUB_STEP_SUMMARY=str(tmp_path))
    assert done.returncode == 3
    assert "cannot add to the step summary" in done.stderr


def test_an_encoding_that_cannot_say_a_name_still_gets_the_report(saved: Path) -> None:
    saved.write_text(
        saved.read_text(encoding="utf-8").replace(': "host"', ': "h\\u00f6st"', 1), encoding="utf-8"
    )
    done = doctor(saved, "--format", "json", PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout)["verdict"] == "undetermined"


def test_a_missing_template_engine_is_told_with_what_to_type(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "jinja2.py").write_text(
        "raise ModuleNotFoundError('no', name='jinja2')", encoding="utf-8"
    )
    root = str(Path(__file__).parent.parent.parent)
    done = doctor(saved, "--format", "html", PYTHONPATH=f"{tmp_path}:{root}")
    assert done.returncode == 2
    start = "envcheck: An HTML page needs the extra html. To add it, type: "
    python = re.escape(sys.executable)
    words = (
        rf"{python} -m pip install" if find_spec("pip") else rf"\S*uv pip install --python {python}"
    )
    assert re.fullmatch(rf"{start}{words} 'jinja2>=3\.1'\n", done.stderr)
