"""Compose a machine from what is odd about it, and judge it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from envcheck.model import Distribution, Facts, FrameworkBuild, PythonFacts, Report
from envcheck.rules import Context, Target
from tests import typed
from tests.hosts.recorded_host import RecordedHost, collect_recording
from tests.rules.factory_machine import NONE, known, matrix

NODE = {"kind": "char", "mode": "crw-rw-rw-", "owner": "0:0"}
MULTIARCH = "/usr/lib/x86_64-linux-gnu"
UBUNTU = 'NAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\nID_LIKE=debian\n'
FLAGS = "processor\t: 0\nmodel name\t: AMD EPYC 7543\nflags\t\t: fpu sse sse2 ssse3 sse4_1 sse4_2 avx avx2 fma\n"
INTERPRETER = {
    "script": "interpreter_info",
    "unknown": ["failed", "composed: the Python is put in by hand"],
}


@dataclass(frozen=True)
class Card:
    """One GPU: what PCI shows, and what NVML says where it serves it."""

    device: str = "20b0"
    name: str = "NVIDIA A100-SXM4-40GB"
    capability: str = "8.0"
    slot: str = "0000:07:00.0"
    bound_to: str = "nvidia"
    kind: str = "0x030200"
    listed: bool = True  # by NVML
    told: dict[str, Any] = field(default_factory=dict)  # more of what NVML says


A100 = Card()
RTX4090 = Card("2684", "NVIDIA GeForce RTX 4090", "8.9", "0000:01:00.0", kind="0x030000")


@dataclass(frozen=True)
class Machine:
    """A machine; the defaults are a server with one A100 and a working driver."""

    cards: tuple[Card, ...] = (A100,)
    driver: str = "550.163.01"
    cuda: int = 12040
    kernel: str | None = "same"  # release of the loaded module
    open_module: bool = False
    libraries: str | None = MULTIARCH  # where the driver's libraries lie
    cached: bool = True  # whether the loader's cache names them
    nvml: int = 0
    init: int = 0
    nodes: tuple[str, ...] | None = None  # None: what a running driver makes
    uvm: bool = True
    release: str = UBUNTU
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)
    folders: dict[str, list[str]] = field(default_factory=dict)
    commands: tuple[dict[str, Any], ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    answers: tuple[dict[str, Any], ...] = ()
    system: str = "linux"

    def host(self) -> RecordedHost:
        """Compose the recording."""
        files: dict[str, Any] = {
            "/etc/os-release": self.release, "/proc/cpuinfo": FLAGS, "/proc/modules": self._modules(),
            "/proc/mounts": "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=32768000k 0 0\n",
            "/proc/1/cgroup": "0::/init.scope\n",
            "/proc/self/mountinfo": "29 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n",
            **self._pci(), **self._kernel(), **self._libraries(), **self.files,
        }  # fmt: skip
        folders = {
            "/sys/bus/pci/devices": [],
            "/sys/module": ["ext4"],
            "/dev": ["null"],
            "/usr/local": [],
            **self.folders,
        }
        facts = {
            "machine": "x86_64",
            "kernel_release": "6.8.0-45-generic",
            "libc": "glibc 2.35",
            "is_root": False,
        }
        return RecordedHost({
            "system": self.system,
            "environment": {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home/user", **self.env},
            "system_facts": {**facts, **self.facts}, "files": {k: v for k, v in files.items() if v is not None},
            "folders": folders, "commands": list(self.commands),
            "loader_cache": self._cache(), "answers": [INTERPRETER, *self.answers, *self._answers()],
        })  # fmt: skip

    @property
    def loaded(self) -> str | None:
        return self.driver if self.kernel == "same" else self.kernel

    def _modules(self) -> str:
        names = [
            "ext4",
            *(["nvidia", "nvidia_modeset"] if self.loaded else []),
            *(["nvidia_uvm"] if self.loaded and self.uvm else []),
        ]
        return "".join(f"{name} 1 0 - Live 0x0\n" for name in names)

    def _pci(self) -> dict[str, Any]:
        files: dict[str, Any] = {}
        for card in self.cards:
            folder = f"/sys/bus/pci/devices/{card.slot}"
            files.update(
                {
                    f"{folder}/vendor": "0x10de\n",
                    f"{folder}/device": f"0x{card.device}\n",
                    f"{folder}/class": card.kind + "\n",
                }
            )
            if card.bound_to:
                files[f"/sys/bus/pci/drivers/{card.bound_to}/bind"] = ""
                files[f"{folder}/driver"] = {"link": f"/sys/bus/pci/drivers/{card.bound_to}"}
        return files

    def _kernel(self) -> dict[str, Any]:
        if not self.loaded:
            return {f"/dev/{name}": NODE for name in self.nodes or ()}
        kind = "Open Kernel Module for x86_64" if self.open_module else "x86_64 Kernel Module"
        names = self.nodes
        if names is None:
            names = (
                *(f"nvidia{i}" for i, card in enumerate(self.cards) if card.bound_to == "nvidia"),
                "nvidiactl",
                "nvidia-modeset",
                *(["nvidia-uvm", "nvidia-uvm-tools"] if self.uvm else []),
            )
        files = {
            "/sys/module/nvidia/version": self.loaded + "\n",
            "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX {kind}  {self.loaded}  Tue Apr  8 2025\n",
            **{f"/dev/{name}": NODE for name in names},
        }
        return {**files, **({"/sys/module/nvidia_uvm/refcnt": "0"} if self.uvm else {})}

    def _libraries(self) -> dict[str, Any]:
        if self.libraries is None:
            return {}
        files: dict[str, Any] = {}
        for stem in ("libcuda", "libnvidia-ml"):
            files[f"{self.libraries}/{stem}.so.{self.driver}"] = "\x7fELF\x02"
            files[f"{self.libraries}/{stem}.so.1"] = {"link": f"{stem}.so.{self.driver}"}
        return files

    def _cache(self) -> dict[str, list[str]]:
        if self.libraries is None or not self.cached:
            return {}
        return {
            name: [f"{self.libraries}/{name}"] for name in ("libcuda.so.1", "libnvidia-ml.so.1")
        }

    def _answers(self) -> list[dict[str, Any]]:
        listed = [card for card in self.cards if card.listed]
        nvml: dict[str, Any] = {"init": self.nvml, "text": f"error {self.nvml}"}
        if self.nvml == 0:
            nvml = {
                "init": 0,
                "driver": self.driver,
                "cuda": self.cuda,
                "gpus": [_nvml(i, card) for i, card in enumerate(listed)],
            }
        path = f"{self.libraries}/libcuda.so.{self.driver}"
        return [
            {"script": "nvml_devices", "result": nvml},
            {"script": "libcuda_version", "arguments": [path], "result": {"version": self.cuda}},
            {
                "script": "libcuda_version",
                "arguments": [path, "init"],
                "result": {"init": self.init},
            },
        ]


def _nvml(index: int, card: Card) -> dict[str, Any]:
    return {
        "index": index, "name": card.name, "uuid": f"GPU-{index}932f937-d72c-4106-c12f-20bd9faed9f6",
        "pci_address": "0000" + card.slot.upper(), "pci_id": card.device, "compute_capability": card.capability,
        "memory_bytes": 40 << 30, "memory_used_bytes": 3 << 20, "compute_mode": "default",
        "mig_enabled": {"error": 3, "text": "Not Supported"}, "mig_devices": {"error": 3, "text": "Not Supported"},
        "processes": [], **card.told,
    }  # fmt: skip


def torch(version: str = "2.7.1+cu126") -> FrameworkBuild:
    cuda = known("12.6")
    return FrameworkBuild(
        "torch",
        "torch",
        version,
        cuda_build=known(True),
        cuda_version=cuda,
        libraries=known(()),
        compute_capabilities=known(("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")),
    )


def judge(
    machine: Machine,
    *builds: FrameworkBuild,
    expect: str = "auto",
    requirements: tuple[str, ...] = (),
    python: dict[str, Any] | None = None,
) -> Report:
    """Read a machine and judge it with these framework builds installed."""
    return typed.judged(
        context_of(machine, *builds, target=Target(expect, requirements), python=python)
    )


def context_of(
    machine: Machine, *builds: FrameworkBuild, target: Target, python: dict[str, Any] | None = None
) -> Context:
    """Read a machine, with these framework builds installed, into what rules look at."""
    facts: Facts = collect_recording(machine.host()).facts
    installed = tuple(
        Distribution(item.distribution, item.version.partition("+")[0], installer="pip")
        for item in builds
    )
    there = PythonFacts(
        executable=known("/srv/venv/bin/python"),
        version=known("3.11.9"),
        architecture=known("x86_64"),
        abi_tag=known("cp311"),
        bits=known(64),
        distributions=known(installed),
        frameworks=known(builds) if builds else NONE,
    )
    there = replace(there, **(python or {}))
    return Context(replace(facts, python=there), matrix(), target)


def told(report: Report) -> str:
    """Say a report in lines, for a failing test."""
    return "\n".join(
        f"{item.id} {item.verdict} {item.severity}: {item.message}" for item in report.findings
    )
