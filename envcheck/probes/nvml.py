"""Ask NVML, in a child process, about the driver and every GPU."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.machine import Gpu, GpuProcess, MigDevice
from envcheck.probes.driver_trust import why_not_loaded
from envcheck.probes.gpu_address import normal_pci_address

# NVML result codes that mean more than "failed".
_NOT_SUPPORTED, _NO_PERMISSION, _NOT_FOUND, _DRIVER_NOT_LOADED, _TIMEOUT = 3, 4, 6, 9, 10
_REASONS = {_NO_PERMISSION: "denied", _TIMEOUT: "timeout"}
_LINUX_LIBRARY = "libnvidia-ml.so.1"


class NvmlReading(NamedTuple):
    """What one run of the child told."""

    result: Fact[int]
    driver_version: Fact[str]
    cuda_driver_version: Fact[str]
    gpus: Fact[Tuple[Gpu, ...]]

    @property
    def is_complete(self) -> bool:
        """Tell whether nothing is left that nvidia-smi could add."""
        return isinstance(self.driver_version, Known) and isinstance(self.gpus, Known)


def read_nvml(host: Host, library: Fact[str]) -> NvmlReading:
    """Ask the NVML in `library`; without a library no process is started."""
    if not isinstance(library, Known):
        return _nothing(library)
    reason = why_not_loaded(host, library.value)
    if reason:
        return _nothing(Unknown("denied", reason, (library.value,)))
    folder = pynvml_folder()
    if folder is None:
        return _nothing(Unknown("failed", "the module pynvml (package nvidia-ml-py) is not installed", ("pynvml",)))
    answer = host.ask("nvml_devices", library.value, folder)
    if not isinstance(answer, Known):
        return _nothing(answer)
    return parse_nvml(answer.value, library.value)


def pynvml_folder() -> Optional[str]:
    """Find the folder, or zip file, to import pynvml from, without importing it."""
    from importlib.util import find_spec

    spec = find_spec("pynvml")
    if spec is None or spec.origin is None:
        return None
    depth = 2 if spec.submodule_search_locations else 1
    return spec.origin.replace("\\", "/").rsplit("/", depth)[0]


def _nothing(reason: Any) -> NvmlReading:
    return NvmlReading(reason, reason, reason, reason)


def parse_nvml(answer: Mapping[str, Any], library: str) -> NvmlReading:
    """Turn the child's answer into facts.

    {"init": 0, "driver": "550.163.01", "cuda": 12040, "gpus": [{"index": 0, "name": "NVIDIA A100-SXM4-40GB",
    "uuid": "GPU-…", "pci_address": "00000000:07:00.0", "mig_enabled": {"error": 3, "text": "Not Supported"}, …}]},
    {"init": 18, "text": "Driver/library version mismatch"}, {"load_error": "…: invalid ELF header"}
    """
    where = f"NVML ({library})"
    code = answer.get("init")
    if not isinstance(code, int):
        detail = answer.get("load_error", "no readable answer")
        return _nothing(Unknown("failed", f"{where}: {detail}", (library,)))
    shown = str(answer.get("text", "Success"))
    result: Known[int] = Known(code, Source("library", where, f"nvmlInit: {code} {shown}"))
    if code != 0:
        failed = refusal({"error": code, "text": shown}, where)
        return NvmlReading(result, failed, failed, failed)
    return NvmlReading(
        result,
        field(answer, "driver", where, _text),
        field(answer, "cuda", where, cuda_version_text),
        field(answer, "gpus", where, lambda gpus: tuple(parse_gpu(gpu, where) for gpu in gpus)),
    )


def refusal(error: Mapping[str, Any], where: str) -> Fact[Any]:
    """Turn an NVML error into a fact: what the GPU or driver does not have is absent."""
    code, text = error.get("error"), error.get("text", "")
    detail = f"{where}: {text} ({code})"
    if code in (_NOT_SUPPORTED, _NOT_FOUND, _DRIVER_NOT_LOADED):
        return Absent((detail,))
    return Unknown(_REASONS.get(code, "failed") if isinstance(code, int) else "failed", detail, (where,))


def field(answer: Mapping[str, Any], name: str, where: str, convert: Callable[[Any], Any]) -> Fact[Any]:
    """Turn one field of the child's answer into a fact; `convert` raises or returns None for what it cannot read."""
    value = answer.get(name)
    if isinstance(value, dict) and "error" in value:
        return refusal(value, where)
    try:
        converted = convert(value)
    except (TypeError, ValueError, KeyError, AttributeError):
        converted = None
    if converted is None:
        return Unknown("unparsable", f"{where}: {name} is {str(value)[:80]!r}", (where,))
    shown = str(converted) if isinstance(converted, (str, int)) else ""
    return Known(converted, Source("library", where, f"{name}: {shown}" if shown else name))


def cuda_version_text(value: Any) -> Optional[str]:
    """Turn the driver's number into a version: 12040 -> "12.4"."""
    if not isinstance(value, int) or value < 1000:
        return None
    return f"{value // 1000}.{value % 1000 // 10}"


def parse_gpu(gpu: Mapping[str, Any], where: str) -> Gpu:
    """Turn one GPU of the child's answer into facts; one that NVML cannot open keeps only its index.

    {"index": 3, "lost": {"error": 15, "text": "GPU is lost"}}
    """
    here = f"{where}, GPU {gpu['index']}"
    if isinstance(gpu.get("lost"), dict):
        lost = refusal(gpu["lost"], here)
        facts: Dict[str, Any] = dict.fromkeys(_CONVERSIONS, lost)
    else:
        facts = {name: field(gpu, name, here, convert) for name, convert in _CONVERSIONS.items()}
    facts["nvml_index"] = Known(int(gpu["index"]), Source("library", where, f"index {gpu['index']}"))
    facts["kernel_driver"] = Unknown("failed", "NVML does not tell the kernel driver", (where,))
    return Gpu(**facts)


def _text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) and value not in ("", "N/A") else None


def _count(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _flag(value: Any) -> Optional[bool]:
    return value if isinstance(value, bool) else None


def _mig_devices(value: Any) -> Tuple[MigDevice, ...]:
    return tuple(MigDevice(str(device["uuid"]), str(device["name"])) for device in value)


def _processes(value: Any) -> Tuple[GpuProcess, ...]:
    return tuple(_process(entry) for entry in value)


def _process(entry: Mapping[str, Any]) -> GpuProcess:
    memory: Fact[int] = Absent(("NVML: this driver model does not tell memory by process",))
    if isinstance(entry["memory_bytes"], int):
        memory = Known(entry["memory_bytes"], Source("library", "NVML", f"process {entry['pid']}"))
    return GpuProcess(int(entry["pid"]), str(entry["name"]), memory)


_CONVERSIONS: Dict[str, Callable[[Any], Any]] = {
    "name": _text,
    "uuid": _text,
    "pci_address": normal_pci_address,
    "pci_id": _text,
    "compute_capability": _text,
    "memory_bytes": _count,
    "memory_used_bytes": _count,
    "compute_mode": _text,
    "mig_enabled": _flag,
    "mig_devices": _mig_devices,
    "processes": _processes,
}
