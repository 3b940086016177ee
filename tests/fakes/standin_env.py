"""A real environment with a stand-in framework installed in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

FRAMEWORKS = Path(__file__).with_name("frameworks")
VERSION = "0.0.1+standin"


def make_standin_env(folder: Path, python: str = sys.executable) -> Path:
    """Make a venv that holds the stand-in torch; return its Python."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = next((folder / "lib").glob("python*/site-packages"))
    shutil.copytree(
        FRAMEWORKS / "torch", packages / "torch", ignore=shutil.ignore_patterns("__pycache__")
    )
    about = packages / f"torch-{VERSION}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n", encoding="utf-8"
    )
    (about / "RECORD").write_text("torch/__init__.py,,\n", encoding="utf-8")
    return folder / "bin" / "python"
