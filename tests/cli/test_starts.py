"""Which environment is judged when envcheck runs from an environment of its own: real interpreters, real folders."""

from __future__ import annotations

import json
import os
import site
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.probes.pythons import make_venv

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = ("-c", "from envcheck.cli import main; main()")  # as the script in bin does
PROGRAM = "Name: envcheck-gpu\nVersion: 1.0\nRequires-Dist: click\n"


def start(
    tool: Path, folder: Path, *arguments: str, how: Sequence[str] = COMMAND, **variables: str
) -> tuple[int, dict[str, Any]]:
    """Run envcheck in a folder with the Python of a tool's environment; PATH holds that environment alone."""
    kept = {name: os.environ[name] for name in ("HOME", "SYSTEMROOT", "LANG") if name in os.environ}
    done = subprocess.run(
        [tool / "bin/python", *how, *arguments, "--format", "json", "--no-snapshot"],
        cwd=folder,
        env={**kept, "PATH": str(tool / "bin"), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """Make an environment that holds envcheck alone; its code comes from this checkout."""
    packages = make_venv(tmp_path / "tool")
    (packages / "envcheck_gpu-1.0.dist-info").mkdir()
    (packages / "envcheck_gpu-1.0.dist-info/METADATA").write_text(PROGRAM, encoding="utf-8")
    (packages / "code.pth").write_text(
        "\n".join([str(ROOT), *site.getsitepackages()]), encoding="utf-8"
    )
    return tmp_path / "tool"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a project with a requirement and a folder."""
    (tmp_path / "project/.git").mkdir(parents=True)
    (tmp_path / "project/sub").mkdir()
    for folder in ("project", "project/sub"):
        text = '[tool.envcheck]\nrequires = ["torch"]\n'
        (tmp_path / folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return tmp_path / "project"


@pytest.mark.needs("posix")
def test_the_environment_of_the_project_is_judged_from_each_of_its_folders(
    tool: Path, project: Path
) -> None:
    make_venv(project / ".venv")
    for folder in (project, project / "sub"):
        _, report = start(tool, folder, "doctor", "--expect", "cpu")
        environment = report["judged"]["environment"]
        assert environment == {"prefix": str(project / ".venv"), "chosen_by": ".venv"}
        assert report["headline"].endswith("no framework is installed.")
    code, report = start(tool, project, "check")
    assert (code, report["verdict"]) == (1, "incompatible"), (
        "its .venv lacks what the project requires"
    )
    assert not any(step["argv"][-3:] == ["-m", "venv", ".venv"] for step in report["plan"]["steps"])


@pytest.mark.needs("posix")
def test_the_active_environment_comes_before_that_of_the_project(
    tool: Path, project: Path, tmp_path: Path
) -> None:
    make_venv(project / ".venv")
    make_venv(tmp_path / "active")
    _, report = start(tool, project, "doctor", VIRTUAL_ENV=str(tmp_path / "active"))
    assert report["judged"]["environment"] == {
        "prefix": str(tmp_path / "active"),
        "chosen_by": "VIRTUAL_ENV",
    }


@pytest.mark.needs("posix")
def test_the_python_that_asks_is_judged(tool: Path, project: Path, tmp_path: Path) -> None:
    make_venv(project / ".venv")
    active = str(make_venv(tmp_path / "active").parents[2])
    program = "import envcheck; print(envcheck.doctor().to_json())"
    for how in (("-m", "envcheck", "doctor"), ("-c", program)):
        _, report = start(tool, project, how=how, VIRTUAL_ENV=active)
        assert report["judged"]["environment"] == {"prefix": str(tool), "chosen_by": "asking"}
        others = [(item["path"], item["named_by"]) for item in report["judged"]["others"]]
        assert others == [(active, "VIRTUAL_ENV"), (str(project / ".venv"), ".venv")]


@pytest.mark.needs("posix")
def test_without_an_environment_the_machine_alone_is_judged(tool: Path, project: Path) -> None:
    code, report = start(tool, project, "doctor", "--expect", "cpu")
    assert report["judged"]["environment"] is None
    assert report["headline"].endswith("no Python environment was judged.")
    assert (code, report["verdict"]) == (0, "compatible")
    code, report = start(tool, project, "check")
    assert (code, report["verdict"]) == (3, "undetermined")
