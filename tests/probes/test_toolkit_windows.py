"""Toolkits on a fake Windows machine, whose recording has paths as literal answers."""

from __future__ import annotations

from typing import Any

from envcheck.model import Absent
from envcheck.probes.cuda_libraries import collect_libraries
from envcheck.probes.toolkit import collect_toolkits
from tests.hosts.recorded_host import RecordedHost

CUDA = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA"
ROOT = CUDA + r"\v11.8"
SITE = r"C:\venv\Lib\site-packages"


def known(value: Any, where: str = "fake") -> dict[str, Any]:
    return {"known": value, "source": {"kind": "file", "where": where}}


def program(path: str) -> dict[str, Any]:
    status = {
        "kind": "file",
        "size": 1,
        "mode": "-rw-rw-rw-",
        "owner": "0:0",
        "readable": True,
        "writable": True,
    }
    return {path: known(status)}


def machine() -> RecordedHost:
    paths = [
        ROOT,
        ROOT + r"\bin",
        SITE,
        SITE + r"\nvidia\cudnn\bin",
        SITE + r"\nvidia\cudnn\bin\cudnn64_9.dll",
    ]
    paths += [
        ROOT + r"\bin\cudart64_110.dll",
        ROOT + r"\bin\nvcc.exe",
        ROOT + r"\bin\cudnn64_8.dll",
    ]
    calls = {
        "list_folder": {
            CUDA: known(["v11.8"]),
            ROOT + r"\bin": known(["cudart64_110.dll", "cudnn64_8.dll", "nvcc.exe"]),
            SITE + r"\nvidia": known(["cudnn"]),
            SITE + r"\nvidia\cudnn\bin": known(["cudnn64_9.dll"]),
            SITE: known(["nvidia", "nvidia_cudnn_cu12-9.1.0.70.dist-info"]),
        },
        "real_path": {path: known(path) for path in paths},
        "status": {**program(ROOT + r"\bin\nvcc.exe"), **program(ROOT + r"\bin\ptxas.exe")},
        "read_text": {ROOT + r"\include\cuda.h": known("#define CUDA_VERSION 11080\n")},
        "find_program": {
            "nvcc": known(ROOT + r"\bin\nvcc.exe"),
            "ptxas": {"absent": []},
            "cl": {"absent": []},
        },
    }
    output = "Cuda compilation tools, release 11.8, V11.8.89\n"
    commands = [{"argv": [ROOT + r"\bin\nvcc.exe", "--version"], "stdout": output}]
    environment = {"CUDA_PATH": ROOT, "VIRTUAL_ENV": r"C:\venv", "PATH": ROOT + r"\bin;C:\Windows"}
    return RecordedHost(
        {"system": "windows", "environment": environment, "calls": calls, "commands": commands}
    )


def test_toolkit() -> None:
    facts = collect_toolkits(machine())
    assert facts.installs.value is not None
    (install,) = facts.installs.value
    assert (install.root, install.origin, install.version.value) == (ROOT, "program-files", "11.8")
    assert install.cudart_path.value == ROOT + r"\bin\cudart64_110.dll"
    assert facts.root_on_path.value == facts.cuda_home_root.value == ROOT
    assert isinstance(facts.nvcc_host_compiler, Absent)


def test_cudnn() -> None:
    cudnn, _, _ = collect_libraries(machine())
    assert cudnn.value is not None
    toolkit, wheel = cudnn.value
    assert (toolkit.origin, toolkit.library_version.value, toolkit.cuda_major.value) == (
        "toolkit",
        "8",
        "11",
    )
    assert (wheel.origin, wheel.library_version.value, wheel.package_version.value) == (
        "wheels",
        "9",
        "9.1.0.70",
    )
    assert wheel.cuda_major.value == "12"
