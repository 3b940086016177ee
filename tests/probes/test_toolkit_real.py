"""The toolkit probe with NVIDIA's nvcc and ptxas from the package index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WHEEL = "nvidia-cuda-nvcc==13.0.88"  # the first CUDA whose wheel holds nvcc itself


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real-nvcc") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        str(site),
        WHEEL,
        "cuda-pathfinder",
    ]
    subprocess.run(install, check=True, capture_output=True)
    return folder


def toolkits(venv: Path, path: str) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VIRTUAL_ENV": str(venv), "PATH": path}
    command = [sys.executable, "-m", "envcheck", "snapshot"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, cwd="/"
    )
    return json.loads(done.stdout)["facts"]["toolkits"]


@pytest.mark.network
@pytest.mark.needs("package-index")
@pytest.mark.needs("linux")
def test_the_nvcc_of_a_wheel_is_found_and_run(venv: Path) -> None:
    binaries = next(venv.glob("lib/python*/site-packages/nvidia/cu13/bin"))
    found = toolkits(venv, f"{binaries}{os.pathsep}{os.environ['PATH']}")
    wheels = [item for item in found["installs"]["known"] if item["origin"] in ("wheels", "path")]
    ours = [item for item in wheels if item["root"] == str(binaries.parent)]
    assert [item["nvcc_release"]["known"] for item in ours] == ["13.0"]
    assert ours[0]["nvcc_build"]["known"] == "13.0.88"
    assert ours[0]["nvcc_build"]["source"]["kind"] == "command"
    assert ours[0]["ptxas_path"]["known"] == str(binaries / "ptxas")
    assert found["nvcc_on_path"]["known"] == str(binaries / "nvcc")
    assert found["root_on_path"]["known"] == str(binaries.parent)


@pytest.mark.network
@pytest.mark.needs("package-index")
@pytest.mark.needs("linux")
@pytest.mark.parametrize("program", ["nvcc", "ptxas"])
def test_nvidias_own_search_finds_the_same_programs(venv: Path, program: str) -> None:
    ask = (
        f"from cuda.pathfinder import find_nvidia_binary_utility as find; print(find({program!r}))"
    )
    said = subprocess.run(
        [str(venv / "bin" / "python"), "-c", ask], capture_output=True, text=True, check=True
    )
    found = toolkits(
        venv,
        f"{next(venv.glob('lib/python*/site-packages/nvidia/cu13/bin'))}{os.pathsep}/usr/bin:/bin",
    )
    paths = [item[f"{program}_path"].get("known", "") for item in found["installs"]["known"]]
    assert said.stdout.strip() in paths
