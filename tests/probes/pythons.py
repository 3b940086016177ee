"""The installed interpreters, and small environments for the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from envcheck.probes.children import interpreter_info

SCRIPT = Path(interpreter_info.__file__)


def pythons() -> list[str]:
    """List this interpreter, the system's and those of a version manager, 3.6 and later."""
    found = [sys.executable, "/usr/bin/python3"]
    found += sorted(map(str, Path.home().glob(".pyenv/versions/3.*/bin/python")))
    return [path for path in found if os.access(path, os.X_OK)]


def describe(python: str, *flags: str, **environment: str) -> dict[str, Any]:
    """Run the child script as the local host does and return its answer."""
    command = [python, *(flags or ("-I", "-S", "-B")), "-c", SCRIPT.read_text(encoding="utf-8")]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def make_venv(folder: Path, python: str = sys.executable, *options: str) -> Path:
    """Make a real virtual environment without pip and return its site-packages."""
    subprocess.run([python, "-m", "venv", "--without-pip", *options, str(folder)], check=True)
    return next(folder.glob("lib/python*/site-packages"))


def add_distribution(site: Path, name: str, version: str, **files: str) -> Path:
    """Write a fake .dist-info folder; `files` are its files with dots as underscores."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    contents = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\n", **files}
    for key, text in contents.items():
        (folder / key.replace("top_level", "top_level.txt")).write_text(text, encoding="utf-8")
    return folder
