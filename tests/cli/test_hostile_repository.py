"""A repository that somebody checked out: no command that only reads runs anything of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from envcheck import api
from envcheck.cli import mcp

pytestmark = pytest.mark.needs("posix")
COMMAND = "import sys; sys.argv[0] = 'envcheck'; from envcheck.cli import main; main()"
MINOR = f"python{sys.version_info[0]}.{sys.version_info[1]}"
READING = {
    "doctor": ("doctor",),
    "doctor --import": ("doctor", "--import"),
    "doctor --smoke": ("doctor", "--smoke"),
    "doctor --format json": ("doctor", "--format", "json"),
    "plan": ("plan", "torch", "--expect", "cpu"),
    "snapshot": ("snapshot",),
    "check": ("check",),
    "install --dry-run": ("install", "jax", "--expect", "cpu", "--dry-run"),
    "fix --dry-run": ("fix", "--dry-run"),
    "explain --here": ("explain", "--here", "train.log"),
    "smoke": ("smoke",),
    "gpus": ("gpus",),
}


class Repository:
    """A checked-out repository of this person, in which every program and every module leaves a witness."""

    def __init__(self, root: Path) -> None:
        self.folder, self.witness, self.home = root / "repo", root / "witness", root / "home"
        self.home.mkdir()
        for name in ("torch.py", "json.py", "sitecustomize.py", "click.py"):
            self.write(name, self.module())
        for name in ("python", "python3", "nvidia-smi", "nvcc", "gcc", "uv", "pip"):
            self.script(name)
        self.write(".git/HEAD", "")
        self.write("pyproject.toml", "[tool.envcheck]\nexpect = 'cpu'\n[project]\nname = 'p'\n")
        self.write("train.log", "ModuleNotFoundError: No module named 'torch'\n")

    def write(self, name: str, text: str) -> Path:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def script(self, name: str) -> Path:
        """Write a program that leaves a witness."""
        path = self.write(name, f"#!/bin/sh\necho {name} >> {self.witness}\n")
        path.chmod(0o755)
        return path

    def module(self) -> str:
        """Return a module that leaves a witness."""
        return f"open({str(self.witness)!r}, 'a').write(__file__ + '\\n')\n"

    def environment(self, name: str = ".venv", home: str = "") -> None:
        """Make an environment whose Python, packages and start-up files leave a witness."""
        base = home or str(self.script("evil/bin/python3").parent)
        self.write(f"{name}/pyvenv.cfg", f"home = {base}\nversion = {sys.version.split()[0]}\n")
        for program in ("python", "python3", MINOR, "pip", "nvcc", "activate"):
            self.script(f"{name}/bin/{program}")
        site = f"{name}/lib/{MINOR}/site-packages"
        for module in ("sitecustomize.py", "usercustomize.py", "torch/__init__.py", "zlib.py"):
            self.write(f"{site}/{module}", self.module())
        self.write(f"{site}/evil.pth", f"import sys; {self.module()}")
        metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 2.8.0\n"
        self.write(f"{site}/torch-2.8.0.dist-info/METADATA", metadata)
        record = "torch/__init__.py,sha256=AAAA,99999\ntorch/lib/libtorch.so,,9\n"
        self.write(f"{site}/torch-2.8.0.dist-info/RECORD", record)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of envcheck in the repository."""
        kept = {
            name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_"))
        }
        path = f":.:{os.environ['PATH']}:"
        return subprocess.run(
            [sys.executable, "-P" if sys.version_info >= (3, 11) else "-I", "-c", COMMAND, *words],
            cwd=self.folder,
            env={**kept, "PATH": path, "HOME": str(self.home), "LD_LIBRARY_PATH": ":"},
            capture_output=True,
            text=True,
            check=False,
        )

    def ran(self) -> str:
        """Return what left a witness."""
        return self.witness.read_text(encoding="utf-8") if self.witness.exists() else ""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.parametrize("words", READING.values(), ids=list(READING))
def test_a_command_that_reads_runs_nothing_of_a_venv(
    repository: Repository, words: tuple[str, ...]
) -> None:
    repository.environment()
    done = repository.run(*words)
    assert repository.ran() == ""
    assert done.returncode in (0, 1, 2, 3), done.stderr
    assert "Internal error" not in done.stderr


@pytest.mark.parametrize("words", [("fix", "--yes"), ("install", "torch", "--yes", "--as-root")])
def test_a_command_that_changes_wants_a_found_environment_named(
    repository: Repository, words: tuple[str, ...]
) -> None:
    repository.environment()
    done = repository.run(*words)
    assert repository.ran() == ""
    assert done.returncode == 2
    assert "was found here" in done.stderr
    assert "--env .venv" in done.stderr


def _links_out(repository: Repository) -> None:
    repository.environment("hidden")
    (repository.folder / ".venv").symlink_to("hidden")


def _python_links_out(repository: Repository) -> None:
    repository.environment()
    (repository.folder / ".venv/bin/python").unlink()
    (repository.folder / ".venv/bin/python").symlink_to(repository.script("evil/start"))


def _loop(repository: Repository) -> None:
    repository.environment()
    for name in ("bin/python", f"lib/{MINOR}/site-packages/loop"):
        path = repository.folder / ".venv" / name
        path.unlink(missing_ok=True)
        path.symlink_to(path)


def _fifo(repository: Repository) -> None:
    repository.environment()
    metadata = repository.folder / f".venv/lib/{MINOR}/site-packages/torch-2.8.0.dist-info/METADATA"
    metadata.unlink()
    os.mkfifo(metadata)
    (repository.folder / ".venv/pyvenv.cfg").unlink()
    os.mkfifo(repository.folder / ".venv/pyvenv.cfg")


def _saved_by_pdm(repository: Repository) -> None:
    repository.environment("other")
    repository.write(".pdm-python", f"{repository.folder}/other/bin/python")


def _venv_file(repository: Repository) -> None:
    repository.environment("other")
    repository.write(".venv", "./other\n")


def _settings(repository: Repository) -> None:
    repository.environment("other")
    repository.write("ty.toml", '[environment]\npython = "other"\n')
    text = '{"python.defaultInterpreterPath": "${workspaceFolder}/other/bin/python"}'
    repository.write(".vscode/settings.json", text)


def _version_files(repository: Repository) -> None:
    repository.environment("other")
    for text, name in (("../other", ".python-version"), ("python ../../other", ".tool-versions")):
        repository.write(name, text)
    repository.write(".envrc", f"layout python\n{repository.folder}/python\n")
    repository.environment(".direnv/python-3.11.7")


def _base_of_another(repository: Repository) -> None:
    repository.environment(home="evil/bin")  # from the working folder


def _journal(repository: Repository) -> None:
    repository.environment()
    folder = repository.folder / ".venv"
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))
    told = [{"event": "installed", "at": now, "inode": folder.stat().st_ino}]
    told.append({"event": "finished", "at": now})
    text = "".join(json.dumps(line) + "\n" for line in told)
    repository.write(".envcheck-.venv/20260101T000000-1.jsonl", text)


def _several(repository: Repository) -> None:
    for name in ("a-env", "env"):
        repository.environment(name)


LAYOUTS: dict[str, Callable[[Repository], None]] = {
    "a link to a folder": _links_out,
    "a Python that links out": _python_links_out,
    "loops of links": _loop,
    "pipes in place of files": _fifo,
    ".pdm-python": _saved_by_pdm,
    "a .venv file": _venv_file,
    "settings of editors": _settings,
    "files of version managers": _version_files,
    "a base Python within": _base_of_another,
    "a forged journal": _journal,
    "several": _several,
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=list(LAYOUTS))
def test_no_layout_makes_the_doctor_run_anything(
    repository: Repository, layout: Callable[[Repository], None]
) -> None:
    layout(repository)
    done = repository.run("doctor", "--import")
    assert repository.ran() == ""
    assert done.returncode in (0, 1, 3), done.stderr


@pytest.mark.needs("root")
@pytest.mark.parametrize("owner", [1, 1000, 65534])
def test_an_environment_of_another_user_is_not_run_by_root(
    repository: Repository, owner: int
) -> None:
    repository.environment()
    for path in (repository.folder, *repository.folder.rglob("*")):
        os.lchown(path, owner, owner)
    repository.run("doctor", "--import", "--env", ".venv")
    assert repository.ran() == ""


@pytest.mark.parametrize("env", ["", ".venv"])
def test_an_agent_runs_nothing_of_a_repository(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, env: str
) -> None:
    repository.environment()
    monkeypatch.chdir(repository.folder)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    before = api.ASKED_BY.set(api.AGENT)
    try:
        answer = mcp.answer("doctor", env=env)
    finally:
        api.ASKED_BY.reset(before)
    assert repository.ran() == ""
    assert ".venv" in answer["text"]


def test_the_same_environment_is_run_where_it_is_named(repository: Repository) -> None:
    """The witnesses are ones: without this, the tests above could pass by an empty repository."""
    repository.environment()
    repository.run("doctor", "--env", ".venv")
    assert "bin/python" in repository.ran()


def test_the_report_says_how_to_name_what_was_found(repository: Repository) -> None:
    repository.environment()
    done = repository.run("doctor", "--import")
    assert "not imported: found here; envcheck doctor --env .venv" in " ".join(done.stdout.split())
