"""The driver test's kernel assembles for every architecture that NVIDIA's own ptxas of the package index knows."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[2] / "envcheck" / "smoke" / "children"
OLD, NEW = "nvidia-cuda-nvcc-cu12==12.9.*", "nvidia-cuda-nvcc>=13,<14"  # the newest 13.x
BEFORE_TURING = ("50", "52", "53", "60", "61", "62", "70", "72")

pytestmark = [
    pytest.mark.network,
    pytest.mark.needs("package-index"),
    pytest.mark.needs("linux"),
]


@pytest.fixture(scope="module")
def ptxas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("ptxas")
    return {wheel: fetch(wheel, folder / str(index)) for index, wheel in enumerate((OLD, NEW))}


def fetch(wheel: str, folder: Path) -> Path:
    """Have pip download a wheel, from its cache where it has it, and take ptxas out."""
    download = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "-d",
        str(folder),
        wheel,
    ]
    subprocess.run(download, check=True, capture_output=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        member = next(name for name in archive.namelist() if name.endswith("/bin/ptxas"))
        program = Path(archive.extract(member, folder))
    program.chmod(0o755)
    return program


def assembles(program: Path, architecture: str) -> str:
    """Return what ptxas has to say against the kernel; nothing where it assembles it."""
    argv = [
        str(program),
        "-arch",
        f"sm_{architecture}",
        str(KERNELS / "matmul_f32.ptx"),
        "-o",
        "/dev/null",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return (
        done.stdout
        + done.stderr
        + ("" if done.returncode == 0 else f"ended with {done.returncode}")
    )


def known(program: Path) -> list[str]:
    """Return the architectures of Turing and later that a ptxas names in its own help."""
    text = subprocess.run(
        [str(program), "--help"], capture_output=True, text=True, check=True
    ).stdout
    return sorted(
        {number for number in re.findall(r"\bsm_(\d+)\b", text) if int(number) >= 75}, key=int
    )


def test_the_kernel_assembles_for_gpus_before_turing(ptxas: dict[str, Path]) -> None:
    for architecture in BEFORE_TURING:
        assert assembles(ptxas[OLD], architecture) == ""


def test_the_kernel_assembles_for_turing_and_later(ptxas: dict[str, Path]) -> None:
    architectures = known(ptxas[NEW])
    assert {"75", "80", "86", "89", "90", "100", "120"} <= set(architectures)
    for architecture in architectures:
        assert assembles(ptxas[NEW], architecture) == ""
