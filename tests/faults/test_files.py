"""Files that are missing, truncated, locked, circular links or not regular."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults.broken import FILES
from tests.faults.doctor import command, doctor, environment
from tests.faults.test_programs import install_at, why
from tests.host.programs import write_script

pytestmark = pytest.mark.needs("linux")
NVCC = 'echo "Cuda compilation tools, release 12.4, V12.4.131"'
READ = (
    "version.json",
    "version.txt",
    "include/cuda.h",
    "include/cudnn_version.h",
    "lib64/libcudart.so.12",
)


def composed_toolkit(root: Path, fault: str) -> Path:
    """Compose a toolkit whose nvcc answers and all of whose other files have one fault."""
    for folder in ("bin", "include", "lib64"):
        (root / folder).mkdir(parents=True)
    write_script(root / "bin" / "nvcc", NVCC)
    for name in READ:
        FILES[fault](root / name)
    return root


@pytest.mark.parametrize("fault", sorted(set(FILES) - {"locked"}))
def test_a_toolkit_with_broken_files_has_the_version_of_its_nvcc(
    tmp_path: Path, fault: str
) -> None:
    root = composed_toolkit(tmp_path / "cuda", fault)
    changes = {
        "CUDA_HOME": str(root),
        "CUDNN_PATH": str(root),
        "LD_LIBRARY_PATH": str(root / "lib64"),
    }
    run = doctor(changes=changes, path=root / "bin")
    install = install_at(run, root)
    assert install is not None
    assert install["version"]["known"] == "12.4"
    assert (
        why(install["version_file"])
        in ("absent" if fault == "dangling" else "unparsable failed").split()
    )
    assert (
        why(install["header_version"])
        in ("absent" if fault == "dangling" else "unparsable failed").split()
    )


@pytest.mark.needs("capability-drop")
def test_files_this_user_may_not_read_are_denied(tmp_path: Path) -> None:
    root = composed_toolkit(tmp_path / "cuda", "locked")
    reduce = [
        str(shutil.which("setpriv")),
        "--bounding-set=-dac_override,-dac_read_search",
        "--inh-caps=-all",
    ]
    changes = environment({"CUDA_HOME": str(root)})
    argv = [*reduce, *command("doctor", "--format", "json")]
    done = subprocess.run(argv, env=changes, capture_output=True, text=True, check=False)
    assert "Permission denied" in done.stdout
    assert "Traceback" not in done.stderr


def test_cuda_home_of_a_missing_folder(tmp_path: Path) -> None:
    run = doctor(changes={"CUDA_HOME": "/nowhere/cuda"})
    assert run.fact("toolkits.cuda_home")["known"] == "/nowhere/cuda"
    (tmp_path / "loop").symlink_to("loop")
    run = doctor(changes={"CUDA_HOME": str(tmp_path / "loop"), "CUDA_PATH": str(tmp_path)})
    assert run.fact("toolkits.cuda_home")["known"] == str(tmp_path / "loop")


def test_an_environment_with_broken_metadata(tmp_path: Path) -> None:
    site = composed_environment(tmp_path)
    for index, fault in enumerate(sorted(FILES)):
        folder = site / f"broken{index}-1.0.dist-info"
        folder.mkdir()
        for name in ("METADATA", "RECORD", "INSTALLER", "top_level.txt"):
            FILES[fault](folder / name)
        (site / f"torch{index}").mkdir()
        FILES[fault](site / f"torch{index}" / "version.py")
    run = doctor("--python", str(tmp_path / "venv" / "bin" / "python"))
    assert why(run.fact("python.distributions")) == "known"


def composed_environment(folder: Path) -> Path:
    """Make an empty virtual environment and return its site-packages."""
    import sys
    import venv

    venv.create(folder / "venv", with_pip=False, symlinks=True)
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return folder / "venv" / "lib" / f"python{minor}" / "site-packages"
