"""Small machines for the driver and GPU tests, all written by hand."""

from __future__ import annotations

from typing import Any

from tests.hosts.recorded_host import RecordedHost

A100 = "0000:07:00.0"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
PROC_VERSION = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025\n"
)
BARE_FILES: dict[str, Any] = {"/proc/modules": "ext4 1 0 - Live 0x0\n"}
BARE_FOLDERS: dict[str, list[str]] = {
    "/sys/bus/pci/devices": [],
    "/sys/module": [],
    "/dev": ["null"],
}


def bare(files: dict[str, Any] | None = None, **recording: Any) -> RecordedHost:
    """Return a Linux machine without GPU or driver, plus `files`."""
    facts = {
        "kernel_release": "6.8.0-45-generic",
        "is_root": False,
        **recording.pop("system_facts", {}),
    }
    folders = {**BARE_FOLDERS, **recording.pop("folders", {})}
    everything = {**BARE_FILES, **(files or {})}
    return RecordedHost(
        {"files": everything, "folders": folders, "system_facts": facts, **recording}
    )


def pci(
    address: str = A100, device: str = "0x20b0", kind: str = "0x030200", driver: str = "nvidia"
) -> dict[str, Any]:
    """Return the files of one NVIDIA device in sysfs."""
    folder = f"/sys/bus/pci/devices/{address}"
    files: dict[str, Any] = {f"{folder}/vendor": "0x10de\n", f"{folder}/device": device + "\n"}
    files[f"{folder}/class"] = kind + "\n"
    if driver:
        files[f"/sys/bus/pci/drivers/{driver}/bind"] = ""
        files[f"{folder}/driver"] = {"link": f"../../drivers/{driver}"}
    return files


def installed(version: str = "550.163.01") -> dict[str, Any]:
    """Return the files of a driver's libraries."""
    return {
        f"{LIBRARIES}/libcuda.so.{version}": "\x7fELF\x02",
        f"{LIBRARIES}/libcuda.so.1": {"link": f"libcuda.so.{version}"},
        f"{LIBRARIES}/libcuda.so": {"link": "libcuda.so.1"},
        f"{LIBRARIES}/libnvidia-ml.so.{version}": "\x7fELF\x02",
        f"{LIBRARIES}/libnvidia-ml.so.1": {"link": f"libnvidia-ml.so.{version}"},
    }


def loaded(version: str = "550.163.01") -> dict[str, Any]:
    """Return the files of a loaded kernel module with its device nodes."""
    node = {"kind": "char", "mode": "crw-rw-rw-"}
    return {
        "/sys/module/nvidia/version": version + "\n",
        "/proc/driver/nvidia/version": PROC_VERSION.replace("550.163.01", version),
        "/sys/module/nvidia_uvm/refcnt": "0",
        **{f"/dev/{name}": node for name in ("nvidia0", "nvidiactl", "nvidia-uvm")},
    }


def nvml_gpu(index: int = 0, **changes: Any) -> dict[str, Any]:
    """Return one GPU as the NVML child prints it."""
    gpu = {
        "index": index,
        "name": "NVIDIA A100-SXM4-40GB",
        "uuid": f"GPU-{index}",
        "pci_address": f"00000000:{7 + index:02X}:00.0",
        "pci_id": "20b0",
        "compute_capability": "8.0",
        "memory_bytes": 40 << 30,
        "memory_used_bytes": 3 << 20,
        "compute_mode": "default",
        "mig_enabled": False,
        "mig_devices": [],
        "processes": [],
    }
    return {**gpu, **changes}


def nvml_answer(
    *gpus: dict[str, Any], driver: str = "550.163.01", cuda: int = 12040
) -> dict[str, Any]:
    """Return the NVML child's answer on a healthy driver."""
    return {
        "script": "nvml_devices",
        "result": {"init": 0, "driver": driver, "cuda": cuda, "gpus": list(gpus)},
    }


def cuda_answers(version: dict[str, Any], init: dict[str, Any], path: str) -> list[dict[str, Any]]:
    """Return the two answers of the libcuda child."""
    return [
        {"script": "libcuda_version", "arguments": [path], **version},
        {"script": "libcuda_version", "arguments": [path, "init"], **init},
    ]


def healthy(**recording: Any) -> RecordedHost:
    """Return a machine with one A100 and a working driver 550.163.01."""
    files = {**pci(), **installed(), **loaded(), **recording.pop("files", {})}
    library = f"{LIBRARIES}/libcuda.so.550.163.01"
    answers = [
        *recording.pop("answers", []),
        nvml_answer(nvml_gpu()),
        *cuda_answers({"result": {"version": 12040}}, {"result": {"init": 0}}, library),
    ]
    return bare(files, answers=answers, **recording)
