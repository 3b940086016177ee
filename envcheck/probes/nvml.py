"""Ask NVML, or nvidia-smi where NVML does not answer, about the driver and every GPU."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from envcheck.host.protocol import Completed, Host
from envcheck.model import Absent, Fact, Gpu, GpuProcess, Known, MigDevice, Source, Unknown, collect_tried, replace
from envcheck.probes.driver_libraries import format_cuda_version, why_not_loaded

# NVML result codes that mean more than "failed".
_NOT_SUPPORTED, _NO_PERMISSION, _NOT_FOUND, _DRIVER_NOT_LOADED, _TIMEOUT = 3, 4, 6, 9, 10
_REASONS = {_NO_PERMISSION: "denied", _TIMEOUT: "timeout"}
_LINUX_LIBRARY = "libnvidia-ml.so.1"


def normalize_pci_address(text: str) -> str:
    """Return an address as sysfs spells it: "00000000:0A:00.0" and "0A:00.0" become "0000:0a:00.0"."""
    address = text.strip().lower()
    if address.count(":") == 1:
        address = "0000:" + address
    domain, _, rest = address.partition(":")
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}"


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
    folder = find_pynvml()
    if folder is None:
        return _nothing(Unknown("failed", "the module pynvml (package nvidia-ml-py) is not installed", ("pynvml",)))
    answer = host.ask("nvml_devices", library.value, folder)
    if not isinstance(answer, Known):
        return _nothing(answer)
    return parse_nvml(answer.value, library.value)


def find_pynvml() -> Optional[str]:
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
        failed = make_error_fact({"error": code, "text": shown}, where)
        return NvmlReading(result, failed, failed, failed)
    return NvmlReading(
        result,
        make_field_fact(answer, "driver", where, _text),
        make_field_fact(answer, "cuda", where, format_cuda_version),
        make_field_fact(answer, "gpus", where, lambda gpus: tuple(parse_gpu(gpu, where) for gpu in gpus)),
    )


def make_error_fact(error: Mapping[str, Any], where: str) -> Fact[Any]:
    """Turn an NVML error into a fact: what the GPU or driver does not have is absent."""
    code, text = error.get("error"), error.get("text", "")
    detail = f"{where}: {text} ({code})"
    if code in (_NOT_SUPPORTED, _NOT_FOUND, _DRIVER_NOT_LOADED):
        return Absent((detail,))
    return Unknown(_REASONS.get(code, "failed") if isinstance(code, int) else "failed", detail, (where,))


def make_field_fact(answer: Mapping[str, Any], name: str, where: str, convert: Callable[[Any], Any]) -> Fact[Any]:
    """Turn one field of the child's answer into a fact; `convert` raises or returns None for what it cannot read."""
    value = answer.get(name)
    if isinstance(value, dict) and "error" in value:
        return make_error_fact(value, where)
    try:
        converted = convert(value)
    except (TypeError, ValueError, KeyError, AttributeError):
        converted = None
    if converted is None:
        return Unknown("unparsable", f"{where}: {name} is {str(value)[:80]!r}", (where,))
    shown = str(converted) if isinstance(converted, (str, int)) else ""
    return Known(converted, Source("library", where, f"{name}: {shown}" if shown else name))


def parse_gpu(gpu: Mapping[str, Any], where: str) -> Gpu:
    """Turn one GPU of the child's answer into facts; one that NVML cannot open keeps only its index.

    {"index": 3, "lost": {"error": 15, "text": "GPU is lost"}}
    """
    here = f"{where}, GPU {gpu['index']}"
    if isinstance(gpu.get("lost"), dict):
        lost = make_error_fact(gpu["lost"], here)
        facts: Dict[str, Any] = dict.fromkeys(_CONVERSIONS, lost)
    else:
        facts = {name: make_field_fact(gpu, name, here, convert) for name, convert in _CONVERSIONS.items()}
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
    "pci_address": normalize_pci_address,
    "pci_id": _text,
    "compute_capability": _text,
    "memory_bytes": _count,
    "memory_used_bytes": _count,
    "compute_mode": _text,
    "mig_enabled": _flag,
    "mig_devices": _mig_devices,
    "processes": _processes,
}


NOT_RUN = Unknown("failed", "nvidia-smi was not run: NVML told everything it tells", ("nvidia-smi",))

# Sources: PATH; where drivers put it (a WSL shell without login profile lacks its folder on PATH).
_PLACES = {
    "linux": ("/usr/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi"),
    "windows": (
        "C:\\Windows\\System32\\nvidia-smi.exe",
        "C:\\Program Files\\NVIDIA Corporation\\NVSMI\\nvidia-smi.exe",
    ),
}
_NO_DRIVER_CODES = (9, 12)  # no driver is loaded; its library is not installed
_READABLE = 1 << 18  # characters; the table of 16 GPUs with processes is a tenth of it
_COMPUTE_MODES = {"Default": "default", "E. Process": "exclusive-process", "Prohibited": "prohibited"}
_TABLE_OR_DATE = r"[|+]|\w{3} \w{3} +\d+ [\d:]+ \d{4}$"
_BUS_ID = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]"


class SmiReading(NamedTuple):
    """What one run of nvidia-smi told."""

    path: Fact[str]
    exit_code: Fact[int]
    driver_version: Fact[str]
    cuda_driver_version: Fact[str]
    message: Fact[str]
    gpus: Fact[Tuple[Gpu, ...]]


def find_smi(host: Host) -> Fact[str]:
    """Find nvidia-smi on PATH, else where drivers install it."""
    on_path = host.find_program("nvidia-smi")
    if isinstance(on_path, Known):
        return on_path
    for place in _PLACES.get(host.system, ()):
        status = host.status(place)
        if isinstance(status, Known) and status.value.kind == "file":
            return Known(place, Source("file", place))
    if isinstance(on_path, Unknown):
        return on_path
    return Absent(collect_tried(on_path) + _PLACES.get(host.system, ()))


def read_smi(host: Host, *, needed: bool) -> SmiReading:
    """Run nvidia-smi once if `needed` and there.

    Plain `nvidia-smi`, not `-q -x`: it gives banner, GPUs and exit code from the fewest queries; `-q`
    reads clocks, ECC and retired pages of every GPU, which takes seconds on large machines, and its
    field names change between drivers.
    """
    path = find_smi(host)
    if not isinstance(path, Known):
        return SmiReading(path, path, path, path, path, path)
    if not needed:
        return SmiReading(path, NOT_RUN, NOT_RUN, NOT_RUN, NOT_RUN, NOT_RUN)
    done = host.run([path.value], timeout=2.0)
    if not isinstance(done, Known):
        return SmiReading(path, done, done, done, done, done)
    return parse_smi(done.value, path)


def parse_smi(done: Completed, path: Known[str]) -> SmiReading:
    r"""Read a finished run: exit code, banner, table, or the failure text it prints on stdout.

    Exit 9: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that
    the latest NVIDIA driver is installed and running."
    Exit 18: "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95"
    """
    where = path.value
    if done.returncode < 0:
        crash = Unknown("crashed", f"{where} was ended by signal {-done.returncode}", (where,))
        return SmiReading(path, crash, crash, crash, crash, crash)
    text = done.stdout[:_READABLE]
    code: Known[int] = Known(done.returncode, Source("command", where, f"exit code {done.returncode}"))
    driver, cuda = parse_banner(text, where)
    message = parse_message(done, where, has_banner=isinstance(driver, Known))
    if done.returncode != 0 and not isinstance(driver, Known):
        failure = _failure(done, where)
        return SmiReading(path, code, failure, failure, message, _no_gpus(text, where, failure))
    return SmiReading(path, code, driver, cuda, message, _gpus(text, where, driver))


def _failure(done: Completed, where: str) -> Fact[Any]:
    detail = f"{where} exited with {done.returncode}: {_one_line(done)[:200]}"
    if done.returncode in _NO_DRIVER_CODES:
        return Absent((detail,))
    return Unknown("failed", detail, (where,))


def parse_banner(text: str, where: str) -> Tuple[Fact[str], Fact[str]]:
    """Read driver release and CUDA driver version from the first lines of the table.

    "| NVIDIA-SMI 550.163.01             Driver Version: 550.163.01     CUDA Version: 12.2     |" (to R595),
    "| NVIDIA-SMI 610.43.02              KMD Version: 610.43.02     CUDA UMD Version: 13.3     |" (from R610),
    "| NVIDIA-SMI 390.48                 Driver Version: 390.48                    |" (no CUDA version yet).
    """
    driver = _version(text, r"\b(?:Driver|KMD) Version:[ ]*([^\s|]+)", where, "driver version")
    cuda = _version(text, r"\bCUDA (?:UMD )?Version:[ ]*([^\s|]+)", where, "CUDA version")
    if isinstance(driver, Absent):
        shown = text.strip()[:80]
        unreadable = Unknown("unparsable", f"{where} printed no banner: {shown!r}", (where,))
        return unreadable, unreadable
    return driver, cuda


def _version(text: str, pattern: str, where: str, what: str) -> Fact[str]:
    found = re.search(pattern, text)
    if found is None:
        return Absent((f"{where}: {what}",))
    shown, line = found.group(1), _line_around(text, found.start())
    if re.match(r"\d+(\.\d+)+$", shown):
        return Known(shown, Source("command", where, line))
    if shown == "N/A":  # for CUDA: nvidia-smi found no libcuda.so.1
        return Absent((f"{where}: {line}",))
    return Unknown("failed", f"{where}: {line}", (where,))


def _line_around(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 :].split("\n", 1)[0]
    return " ".join(line.strip(" |\r").split())[:200]


def parse_message(done: Completed, where: str, *, has_banner: bool) -> Fact[str]:
    """Read the error text: any text of a failed run, or of a run that printed no table.

    "No devices were found", "Failed to initialize NVML: Unknown Error".
    """
    text = _one_line(done)
    if not text or (done.returncode == 0 and has_banner):
        return Absent((where,))
    return Known(text, Source("command", where, text[:200]))


def _one_line(done: Completed) -> str:
    lines = [line.strip() for line in (done.stdout[:_READABLE] + "\n" + done.stderr[:2000]).splitlines()]
    text = " ".join(line for line in lines if line and not re.match(_TABLE_OR_DATE, line))[:400]
    return "".join(character for character in text if character.isprintable())


def _gpus(text: str, where: str, driver: Fact[str]) -> Fact[Tuple[Gpu, ...]]:
    gpus = parse_table(text, where)
    if gpus:
        return Known(gpus, Source("command", where, f"{len(gpus)} GPUs in its table"))
    return _no_gpus(text, where, driver)


def _no_gpus(text: str, where: str, driver: Fact[str]) -> Fact[Tuple[Gpu, ...]]:
    says_none = "No devices were found" in text
    return driver if isinstance(driver, Unknown) and not says_none else Absent((where,))


def parse_table(text: str, where: str) -> Tuple[Gpu, ...]:
    """Read the GPU rows of the table; names cut short with "..." are unknown.

    "|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                  N/A |"
    "| N/A   33C    P0             51W /  400W |       3MiB /  40960MiB |      0%      Default |"
    "|                                         |                        |             Disabled |"
    """
    gpus: List[Gpu] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 3:
            continue
        gpu = _first_row(cells, where)
        if gpu is not None:
            gpus.append(gpu)
        elif gpus:
            gpus[-1] = _later_row(gpus[-1], cells, where)
    return tuple(gpus)


def _first_row(cells: List[str], where: str) -> Optional[Gpu]:
    left = re.match(r"(\d+)\s+(\S.*?)(?:\s+(?:On|Off|N/A|ERR!|WDDM|TCC|MCDM))?$", cells[0])
    bus = re.match(_BUS_ID, cells[1])
    if left is None or bus is None:
        return None
    source = Source("command", where, " ".join(cells[0].split()))
    cut = left.group(2).endswith("...")
    name: Fact[str] = Known(left.group(2), source)
    if cut:
        name = Unknown("unparsable", f"nvidia-smi cuts the name short: {left.group(2)}", (where,))
    address: Fact[str] = Known(normalize_pci_address(bus.group()), Source("command", where, bus.group()))
    untold = Unknown("failed", "the table of nvidia-smi does not show it", (where,))
    return Gpu(
        nvml_index=Known(int(left.group(1)), source), name=name, uuid=untold, pci_address=address, pci_id=untold,
        compute_capability=untold, kernel_driver=untold, memory_bytes=untold, memory_used_bytes=untold,
        compute_mode=untold, mig_enabled=untold, mig_devices=untold, processes=untold,
    )  # fmt: skip


def _later_row(gpu: Gpu, cells: List[str], where: str) -> Gpu:
    source = Source("command", where, " ".join(" ".join(cells[1:]).split()))
    memory = re.match(r"(\d+)MiB\s*/\s*(\d+)MiB$", cells[1])
    mode = next((value for shown, value in _COMPUTE_MODES.items() if cells[2].endswith(shown)), None)
    if memory is not None and mode is not None:
        gpu = replace(gpu, compute_mode=Known(mode, source))
    if memory is not None:
        used, total = (int(number) << 20 for number in memory.groups())
        gpu = replace(gpu, memory_used_bytes=Known(used, source), memory_bytes=Known(total, source))
    elif cells[0] == "" and cells[1] == "" and cells[2].rstrip("*") in ("Enabled", "Disabled"):
        gpu = replace(gpu, mig_enabled=Known(cells[2].startswith("Enabled"), source))
    return gpu
