"""RecordedHost answers only from its recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envcheck.host.protocol import Completed
from envcheck.model import Absent, Known, Unknown
from tests.hosts.recorded_host import RecordedHost, UnrecordedError
from tests.known import known, unknown

SMI = "/usr/bin/nvidia-smi"
RECORDING: dict[str, Any] = {
    "system": "linux",
    "environment": {"PATH": "/opt/bin:/usr/bin"},
    "system_facts": {"machine": "x86_64"},
    "files": {
        SMI: "",
        "/opt/bin/nvcc": {"kind": "file", "mode": "-rw-r--r--", "size": 7},
        "/usr/bin/gcc": "",
        "/proc/driver/nvidia/version": "NVRM version: 550.54.15\nGCC version: 12\n",
        "/lib.so": {"base64": "AAE="},
        "/lib/libplain.so": "",
    },
    "commands": [
        {"argv": [SMI, "-q"], "returncode": 9, "stdout": "NVIDIA-SMI has failed\nmore"},
        {"argv": [SMI, "-L"], "unknown": ["timeout", "no answer within 2.0 s"]},
    ],
    "answers": [
        {
            "script": "interpreter_info",
            "python": "/venv/bin/python",
            "result": {"version": "3.11.7"},
        },
        {
            "script": "libcuda_version",
            "arguments": ["/lib/libcuda.so.1"],
            "unknown": ["crashed", "signal 11"],
        },
    ],
    "elf": {"/lib.so": {"soname": "libx.so.1", "needed": ["libcudart.so.12"]}},
    "loader_cache": {"libcuda.so.1": ["/lib/libcuda.so.1"]},
    "calls": {
        "read_text": {
            "/etc/os-release": {
                "known": "ID=debian\n",
                "source": {"kind": "file", "where": "/etc/os-release"},
            },
            "/secret": {"unknown": "denied", "detail": "/secret: Permission denied"},
        },
        "list_folder": {
            "/etc": {"known": ["os-release"], "source": {"kind": "file", "where": "/etc"}}
        },
        "real_path": {"/usr/local/cuda": {"absent": ["/usr/local/cuda"]}},
        "status": {"/dev/nvidia0": {"unknown": "failed", "detail": "I/O error"}},
        "find_program": {"clang": {"absent": ["clang on PATH"]}},
        "elf": {"/gone.so": {"absent": ["/gone.so"]}},
    },
}
HOST = RecordedHost(RECORDING)


def test_a_recording_is_loaded_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text(json.dumps(RECORDING), encoding="utf-8")
    host = RecordedHost.load(tmp_path / "host.json")
    assert (host.system, host.environment(), host.system_facts()) == (
        "linux",
        RECORDING["environment"],
        RECORDING["system_facts"],
    )


def test_files_of_the_tree() -> None:
    fact = HOST.read_text("/proc/driver/nvidia/version")
    assert isinstance(fact, Known)
    assert fact.source.excerpt == "NVRM version: 550.54.15"
    assert HOST.read_text("/nowhere") == Absent(("/nowhere",))
    assert known(HOST.read_bytes("/proc/driver/nvidia/version", limit=4)) == b"NVRM"
    assert known(HOST.list_folder("/usr/bin")) == ("gcc", "nvidia-smi")
    assert known(HOST.real_path("/usr/bin/gcc")) == "/usr/bin/gcc"
    binary = HOST.read_bytes("/lib.so")
    assert known(binary) == b"\0\1"


def test_recorded_calls_take_precedence_over_the_tree() -> None:
    assert known(HOST.read_text("/etc/os-release", limit=2)) == "ID"
    assert isinstance(HOST.read_text("/secret"), Unknown)
    assert known(HOST.list_folder("/etc")) == ("os-release",)
    assert HOST.real_path("/usr/local/cuda") == Absent(("/usr/local/cuda",))
    assert isinstance(HOST.status("/dev/nvidia0"), Unknown)
    assert HOST.find_program("clang") == Absent(("clang on PATH",))
    assert HOST.elf("/gone.so") == Absent(("/gone.so",))


def test_programs_are_searched_in_the_recorded_path() -> None:
    denied = HOST.find_program("nvcc")
    assert unknown(denied).why == "denied"
    assert known(HOST.find_program("nvidia-smi")) == SMI
    assert isinstance(HOST.find_program("ptxas"), Absent)


def test_commands_are_replayed() -> None:
    done = HOST.run([SMI, "-q"])
    assert isinstance(done, Known)
    assert done.value == Completed(9, "NVIDIA-SMI has failed\nmore", "")
    assert done.source.excerpt == "NVIDIA-SMI has failed"
    assert HOST.run([SMI, "-L"]) == Unknown("timeout", "no answer within 2.0 s", (f"{SMI} -L",))


def test_an_unrecorded_answer_raises() -> None:
    with pytest.raises(UnrecordedError, match="nvidia-smi"):
        HOST.run([SMI, "--help"])
    assert HOST.run(["/usr/bin/modinfo", "nvidia"]) == Absent(("/usr/bin/modinfo",))
    with pytest.raises(UnrecordedError, match="interpreter_info"):
        HOST.ask("interpreter_info", python="/other/python")


def test_child_scripts_are_replayed() -> None:
    assert known(HOST.ask("interpreter_info", "any", python="/venv/bin/python")) == {
        "version": "3.11.7"
    }
    crashed = HOST.ask("libcuda_version", "/lib/libcuda.so.1")
    assert unknown(crashed).why == "crashed"


def test_dynamic_sections() -> None:
    fact = HOST.elf("/lib.so")
    assert fact.value is not None
    assert (fact.value.machine, fact.value.soname, fact.value.needed) == (
        "x86_64",
        "libx.so.1",
        ("libcudart.so.12",),
    )
    unrecorded = HOST.elf("/lib/libplain.so")
    assert "was not recorded" in unknown(unrecorded).detail
    assert HOST.elf("/lib/libgone.so") == Absent(("/lib/libgone.so",))


def test_the_loader_cache_is_recorded_absent_or_unknown() -> None:
    assert known(HOST.loader_cache()) == {"libcuda.so.1": ("/lib/libcuda.so.1",)}
    assert isinstance(RecordedHost({}).loader_cache(), Absent)
    denied = RecordedHost({"loader_cache": {"unknown": ["denied", "no"]}}).loader_cache()
    assert unknown(denied).why == "denied"
