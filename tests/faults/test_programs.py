"""nvidia-smi, nvcc, the compilers and the inspected Python, broken in many ways: a full report, whatever hangs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.faults.broken import PROGRAMS
from tests.faults.doctor import Run, doctor, envcheck
from tests.host.programs import is_gone, write_script
from tests.patience import FOREVER

pytestmark = pytest.mark.needs("linux")
HANGS = "hangs"
TOOLS = """
nvidia-smi nvcc ptxas gcc g++ cc c++ clang clang++ ldconfig ldd modinfo mokutil dkms lsmod lspci uname dpkg dpkg-query
rpm conda pip python3 systemctl systemd-detect-virt nv-fabricmanager file readelf
"""


def why(fact: Any) -> str:
    """Return the reason of an unknown fact, or "known" or "absent"."""
    return str(fact.get("unknown", "known" if "known" in fact else "absent"))


@pytest.mark.parametrize("fault", PROGRAMS)
def test_a_broken_nvidia_smi(tmp_path: Path, fault: str) -> None:
    put, reason = PROGRAMS[fault]
    put(tmp_path / "nvidia-smi")
    assert (
        why(doctor(path=tmp_path, gives_up=fault == HANGS).fact("driver.smi_driver_version"))
        == reason
    )


def install_at(run: Run, root: Path) -> dict[str, Any] | None:
    installs = run.fact("toolkits.installs").get("known", [])
    return next((item for item in installs if item["root"] == str(root)), None)


@pytest.mark.parametrize("fault", sorted(set(PROGRAMS) - {"directory", "not-executable"}))
def test_a_broken_nvcc(tmp_path: Path, fault: str) -> None:
    put, reason = PROGRAMS[fault]
    (tmp_path / "bin").mkdir()
    put(tmp_path / "bin" / "nvcc")
    install = install_at(doctor(path=tmp_path / "bin", gives_up=fault == HANGS), tmp_path)
    assert install is not None
    assert (why(install["nvcc_release"]), why(install["version"])) == (reason, reason)


@pytest.mark.parametrize("fault", ["directory", "not-executable"])
def test_an_nvcc_that_no_shell_finds_is_skipped(tmp_path: Path, fault: str) -> None:
    (tmp_path / "bin").mkdir()
    PROGRAMS[fault][0](tmp_path / "bin" / "nvcc")
    found = doctor(path=tmp_path / "bin").fact("toolkits.nvcc_on_path")
    assert str(tmp_path) not in str(found.get("known", ""))


@pytest.mark.parametrize("tool", ["gcc", "clang"])
@pytest.mark.parametrize("fault", sorted(set(PROGRAMS) - {"directory", "not-executable"}))
def test_a_broken_compiler(tmp_path: Path, tool: str, fault: str) -> None:
    put, reason = PROGRAMS[fault]
    put(tmp_path / tool)
    assert (
        why(doctor(path=tmp_path, gives_up=fault == HANGS).fact(f"compilers.{tool}_version"))
        == reason
    )


@pytest.mark.parametrize("fault", sorted(set(PROGRAMS) - {"directory", "silent"}))
def test_a_broken_interpreter(tmp_path: Path, fault: str) -> None:
    put, reason = PROGRAMS[fault]
    put(tmp_path / "python")
    run = doctor("--python", str(tmp_path / "python"), gives_up=fault == HANGS)
    assert (run.code, why(run.fact("python.version"))) == (
        3,
        "unparsable" if fault == "exit-255" else reason,
    )


def test_a_folder_without_an_interpreter_is_a_usage_error(tmp_path: Path) -> None:
    run = envcheck("doctor", "--python", str(tmp_path))
    assert run.code == 2
    assert "no Python environment found" in run.stderr


def test_every_tool_hanging_leaves_a_full_report_and_no_process(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    names = TOOLS.split()
    for name in names:
        write_script(
            tools / name,
            f"echo $$ >> {tmp_path}/pids; sleep {FOREVER} & echo $! >> {tmp_path}/pids; wait",
        )
    run = doctor(path=tools, gives_up=True)
    pids = [int(line) for line in (tmp_path / "pids").read_text(encoding="utf-8").split()]
    assert len(pids) >= 6
    assert [pid for pid in pids if not is_gone(pid)] == []
    for fact in ("driver.smi_driver_version", "compilers.gcc_version", "compilers.clang_version"):
        assert why(run.fact(fact)) == "timeout"
    install = install_at(run, tmp_path)
    assert install is not None
    assert why(install["version"]) == "timeout"
    assert why(run.fact("python.version")) == "known"  # what does not hang is read
