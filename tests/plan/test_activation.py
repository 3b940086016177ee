"""The activation hook, run by a real shell in a real environment of the standard library's venv."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from envcheck.model.plans import Environment
from envcheck.plan.activation import activation_steps

pytestmark = pytest.mark.skipif(os.name == "nt", reason="loader paths are for POSIX shells")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def environment(tmp_path: Path, *folders: str, installer: str = "pip") -> Environment:
    return Environment(str(tmp_path / "my env"), installer, VERSION, "linux_x86_64", library_folders=folders)


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=20, check=False, env={"PATH": os.environ["PATH"]}
    )


def test_the_hook_is_read_once_however_often_it_is_written(tmp_path: Path) -> None:
    made = environment(tmp_path, f"lib/python{VERSION}/site-packages/nvidia/*/lib")
    venv.create(made.folder, with_pip=False, symlinks=True)
    libraries = Path(made.folder, f"lib/python{VERSION}/site-packages/nvidia")
    for name in ("cublas", "cudnn"):
        (libraries / name / "lib").mkdir(parents=True)
    before = Path(made.folder, "bin/activate").read_text(encoding="utf-8")
    steps = activation_steps(made)
    for step in (*steps, *steps):
        assert run(*step.argv).returncode == 0
        assert run(*step.verify).returncode == (0 if step.id == "library-path" or step is steps[1] else 1)
    script = f'. "{made.folder}/bin/activate"; printf %s "$LD_LIBRARY_PATH"'
    seen = run("sh", "-c", f"LD_LIBRARY_PATH=/mine; {script}").stdout.split(":")
    assert sorted(seen[:-1]) == [str(libraries / "cublas/lib"), str(libraries / "cudnn/lib")]
    assert seen[-1] == "/mine"
    for step in reversed(steps):
        assert run(*step.undo).returncode == 0
    assert Path(made.folder, "bin/activate").read_text(encoding="utf-8") == before
    assert not Path(made.folder, "bin/envcheck-cuda.sh").exists()


def test_condas_hook_lies_where_conda_reads_it(tmp_path: Path) -> None:
    made = environment(tmp_path, "lib", installer="conda")
    (step,) = activation_steps(made)
    assert run(*step.argv).returncode == 0
    hook = Path(made.folder, "etc/conda/activate.d/envcheck-cuda.sh")
    seen = run("sh", "-c", f'CONDA_PREFIX=/c; . "{hook}"; printf %s "$LD_LIBRARY_PATH"').stdout
    assert seen == "/c/lib"


def test_what_finds_its_libraries_needs_no_hook(tmp_path: Path) -> None:
    assert activation_steps(environment(tmp_path)) == ()
