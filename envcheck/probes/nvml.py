"""Find the driver's libraries, and ask them, or nvidia-smi, about the driver and every GPU."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from envcheck.host.files import find_trust_problem
from envcheck.host.loader import Loader
from envcheck.host.paths import list_names
from envcheck.host.process import call_concurrently
from envcheck.host.protocol import Completed, Host
from envcheck.model import (
    Absent,
    Fact,
    Gpu,
    GpuProcess,
    Known,
    MigDevice,
    Source,
    Unknown,
    collect_tried,
    from_file,
    list_fields,
    replace,
)
from envcheck.model.text import find_group
from envcheck.model.versions import cuda_of_number

# nvml.h: return codes that mean more than "failed"
_NOT_SUPPORTED, _NO_PERMISSION, _NOT_FOUND, _DRIVER_NOT_LOADED, _TIMEOUT = 3, 4, 6, 9, 10
_REASONS = {_NO_PERMISSION: "denied", _TIMEOUT: "timeout"}


class NvmlReading(NamedTuple):
    """The facts of one query."""

    result: Fact[int]
    driver_version: Fact[str]
    cuda_driver_version: Fact[str]
    gpus: Fact[Tuple[Gpu, ...]]

    @property
    def is_complete(self) -> bool:
        """Return whether nvidia-smi could add nothing."""
        return self.driver_version.value is not None and self.gpus.value is not None


def read_nvml(host: Host, library: Fact[str]) -> NvmlReading:
    """Query the NVML in `library`; start no process without one."""
    answer: Fact[Any] = query_nvml(host, library.value) if isinstance(library, Known) else library
    if isinstance(library, Known) and isinstance(answer, Known):
        return parse_nvml(answer.value, library.value)
    return _make_failed_reading(answer)


def query_nvml(
    host: Host, library: str, *arguments: str, timeout: float = 3.0
) -> Fact[Mapping[str, Any]]:
    """Return the answer of the child script that loads NVML."""
    refusal = find_load_refusal(host, library)
    if refusal:
        return refusal
    folder = find_pynvml()
    if folder is None:
        return Unknown(
            "failed", "the module pynvml (package nvidia-ml-py) is not installed", ("pynvml",)
        )
    return host.ask("nvml_devices", library, folder, *arguments, timeout=timeout)


def find_pynvml() -> Optional[str]:
    """Find the folder, or zip file, to import pynvml from, without importing it."""
    from importlib.util import find_spec  # only for machines with NVML

    spec = find_spec("pynvml")
    if spec is None or spec.origin is None:
        return None
    depth = 2 if spec.submodule_search_locations else 1
    return spec.origin.replace("\\", "/").rsplit("/", depth)[0]


def _make_failed_reading(reason: Any) -> NvmlReading:
    return NvmlReading(reason, reason, reason, reason)


def parse_nvml(answer: Mapping[str, Any], library: str) -> NvmlReading:
    """Parse the child's answer.

    {"init": 0, "driver": "550.163.01", "cuda": 12040, "gpus": [{"index": 0, "name": "NVIDIA
    A100-SXM4-40GB", "uuid": "GPU-…", "pci_address": "00000000:07:00.0", "mig_enabled": {"error": 3,
    "text": "Not Supported"}, …}]}, {"init": 18, "text": "Driver/library version mismatch"},
    {"load_error": "…: invalid ELF header"}
    """
    where = f"NVML ({library})"
    code = answer.get("init")
    if not isinstance(code, int):
        detail = answer.get("load_error", "no readable answer")
        return _make_failed_reading(Unknown("failed", f"{where}: {detail}", (library,)))
    text = str(answer.get("text", "Success"))
    result: Known[int] = Known(code, Source("library", where, f"nvmlInit: {code} {text}"))
    if code != 0:
        return _make_failed_reading(make_error_fact({"error": code, "text": text}, where))._replace(
            result=result
        )
    return NvmlReading(
        result,
        make_field_fact(answer, "driver", where, _to_text),
        make_field_fact(answer, "cuda", where, format_cuda_version),
        make_field_fact(
            answer, "gpus", where, lambda gpus: tuple(parse_gpu(gpu, where) for gpu in gpus)
        ),
    )


def make_error_fact(error: Mapping[str, Any], where: str) -> Fact[Any]:
    """Convert an NVML error into a fact; a feature that the GPU or driver lacks is absent."""
    code, text = error.get("error"), error.get("text", "")
    detail = f"{where}: {text} ({code})"
    if code in (_NOT_SUPPORTED, _NOT_FOUND, _DRIVER_NOT_LOADED):
        return Absent((detail,))
    return Unknown(
        _REASONS.get(code, "failed") if isinstance(code, int) else "failed", detail, (where,)
    )


def make_field_fact(
    answer: Mapping[str, Any], name: str, where: str, convert: Callable[[Any], Any]
) -> Fact[Any]:
    """Convert one field of the child's answer into a fact.

    `convert` raises or returns None for an invalid value.
    """
    value = answer.get(name)
    if isinstance(value, dict) and "error" in value:
        return make_error_fact(value, where)
    try:
        converted = convert(value)
    except (TypeError, ValueError, KeyError, AttributeError):
        converted = None
    if converted is None:
        return Unknown("unparsable", f"{where}: {name} is {str(value)[:80]!r}", (where,))
    excerpt = name
    if isinstance(converted, (str, int)) and str(converted):
        excerpt = f"{name}: {converted}"
    return Known(converted, Source("library", where, excerpt))


def make_gpu(default: Fact[Any], **facts: Fact[Any]) -> Gpu:
    """Build a GPU whose other facts are all `default`."""
    values: Dict[str, Any] = {**dict.fromkeys(list_fields(Gpu), default), **facts}
    return Gpu(**values)


def parse_gpu(gpu: Mapping[str, Any], where: str) -> Gpu:
    """Parse one GPU of the child's answer; one that NVML cannot open has only its index.

    {"index": 3, "lost": {"error": 15, "text": "GPU is lost"}}
    """
    place = f"{where}, GPU {gpu['index']}"
    if isinstance(gpu.get("lost"), dict):
        facts: Dict[str, Any] = dict.fromkeys(_CONVERSIONS, make_error_fact(gpu["lost"], place))
    else:
        facts = {
            name: make_field_fact(gpu, name, place, convert)
            for name, convert in _CONVERSIONS.items()
            if name in gpu or name not in _HEALTH  # only a doctor asks for its health
        }
    index = Known(int(gpu["index"]), Source("library", where, f"index {gpu['index']}"))
    kernel_driver = Unknown("failed", "NVML does not report the kernel driver", (where,))
    return Gpu(nvml_index=index, kernel_driver=kernel_driver, **facts)


def normalize_pci_address(text: str) -> str:
    """Convert an address to the form of sysfs.

    "00000000:0A:00.0" and "0A:00.0" become "0000:0a:00.0".
    """
    address = text.strip().lower()
    if address.count(":") == 1:
        address = "0000:" + address
    domain, _, rest = address.partition(":")
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}"


def _to_text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) and value not in ("", "N/A") else None


def to_count(value: Any) -> Optional[int]:
    """Return an integer; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return None


def _to_flag(value: Any) -> Optional[bool]:
    return value if isinstance(value, bool) else None


def _to_mig_devices(value: Any) -> Tuple[MigDevice, ...]:
    return tuple(MigDevice(str(device["uuid"]), str(device["name"])) for device in value)


def _to_processes(value: Any) -> Tuple[GpuProcess, ...]:
    return tuple(map(_to_process, value))


def _to_process(entry: Mapping[str, Any]) -> GpuProcess:
    memory: Fact[int] = Absent(("NVML: this driver model does not tell memory by process",))
    if isinstance(entry["memory_bytes"], int):
        memory = Known(entry["memory_bytes"], Source("library", "NVML", f"process {entry['pid']}"))
    return GpuProcess(int(entry["pid"]), str(entry["name"]), memory)


def _to_recovery_action(value: Any) -> str:
    number = int(value)
    # a number that this release does not know is not healthy
    return _RECOVERY_ACTIONS[number] if number < len(_RECOVERY_ACTIONS) else f"action {number}"


def _to_slowdown(value: Any) -> Tuple[str, ...]:
    return tuple(name for bit, name in _SLOWDOWNS.items() if int(value) & bit)


def _to_seconds(value: Any) -> Dict[str, float]:
    return {str(name): round(int(count) / 1e9, 6) for name, count in value.items()}


def _to_fabric_health(value: Any) -> Tuple[str, ...]:
    """Name what the mask says is wrong; a part that the driver does not know reads 0."""
    found = [name for shift, name in _FABRIC_FAULTS.items() if int(value) >> shift & 3 == 1]
    if int(value) >> 8 & 15 > 1:
        found.append("incorrect_configuration")
    return tuple(found)


# nvml.h: nvmlGpuRecoveryAction_t, and the bits that nvidia-smi names clocks_event_reason_...
_RECOVERY_ACTIONS = (
    "none", "reset", "reboot", "drain-p2p", "drain-and-reset", "recover-imex", "bus-reset",
    "system-reboot",
)  # fmt: skip
_SLOWDOWNS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clocks_setting",
}
# nvml.h: the places in healthMask whose two bits are 1 where it is so
_FABRIC_FAULTS = {
    0: "degraded_bandwidth",
    2: "route_recovery",
    4: "route_unhealthy",
    6: "access_timeout_recovery",
}
_HEALTH: Dict[str, Callable[[Any], Any]] = {
    "recovery_action": _to_recovery_action,
    "slowdown": _to_slowdown,
    "slowed_for": _to_seconds,
    "fabric_state": str,
    "fabric_health": _to_fabric_health,
    **dict.fromkeys(
        (
            "remap_pending", "remap_failed", "retired_pages_pending", "sram_threshold_exceeded",
            "inforom_corrupted",
        ),
        bool,
    ),
    **dict.fromkeys(
        (
            "ecc_uncorrected", "pcie_width", "pcie_width_limit", "pcie_generation",
            "pcie_generation_limit", "nvlinks_active", "nvlinks_down",
        ),
        to_count,
    ),
}  # fmt: skip
_CONVERSIONS: Dict[str, Callable[[Any], Any]] = {
    **_HEALTH,
    "name": _to_text,
    "uuid": _to_text,
    "pci_address": normalize_pci_address,
    "pci_id": _to_text,
    "compute_capability": _to_text,
    "memory_bytes": to_count,
    "memory_used_bytes": to_count,
    "compute_mode": _to_text,
    "mig_enabled": _to_flag,
    "mig_devices": _to_mig_devices,
    "processes": _to_processes,
}


NOT_RUN = Unknown(
    "failed", "nvidia-smi was not run because NVML reports the same values", ("nvidia-smi",)
)

# After PATH: where drivers install it. A WSL shell without login profile lacks its folder on PATH.
_SMI_PATHS = {
    "linux": ("/usr/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi"),
    "windows": (
        "C:\\Windows\\System32\\nvidia-smi.exe",
        "C:\\Program Files\\NVIDIA Corporation\\NVSMI\\nvidia-smi.exe",
    ),
}
_NO_DRIVER_CODES = (9, 12)  # the driver is not loaded; its library is not installed
_MAX_OUTPUT = 1 << 18  # characters; the table of 16 GPUs with processes has a tenth of it
# index, name, PCI address; in the line below, where it is shown, the memory used and in all
_TABLE_ROWS = (
    r"^\| +(\d+) +(\S.*?)(?: +(?:On|Off|N/A|ERR!|WDDM|TCC|MCDM))? *\| +"
    r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)[^\n]*\n"
    r"(?:\|[^|\n]*\| *(\d+)MiB */ *(\d+)MiB)?"
)
_TABLE_OR_DATE = r"[|+]|\w{3} \w{3} +\d+ [\d:]+ \d{4}$"


class SmiReading(NamedTuple):
    """The facts of one run of nvidia-smi, named as in DriverFacts."""

    smi_path: Fact[str]
    smi_exit_code: Fact[int]
    smi_driver_version: Fact[str]
    smi_cuda_driver_version: Fact[str]
    smi_message: Fact[str]


def find_smi(host: Host) -> Fact[str]:
    """Find nvidia-smi on PATH, else where drivers install it."""
    on_path = host.find_program("nvidia-smi")
    if isinstance(on_path, Known):
        return on_path
    paths = _SMI_PATHS.get(host.system, ())
    for path in paths:
        status = host.status(path)
        if status.value and status.value.kind == "file":
            return from_file(path, path)
    if isinstance(on_path, Unknown):
        return on_path
    return Absent(collect_tried(on_path) + paths)


def read_smi(host: Host, *, needed: bool) -> SmiReading:
    """Find nvidia-smi, and run it if `needed`.

    Plain `nvidia-smi` gives banner, GPUs and exit code from the fewest queries. `-q` takes seconds
    on large machines, and its field names change between drivers.
    """
    path = find_smi(host)
    if not isinstance(path, Known):
        return _make_failed_smi_reading(path, path)
    done = host.run([path.value], timeout=2.0) if needed else NOT_RUN
    if isinstance(done, Known):
        return parse_smi(done.value, path)
    return _make_failed_smi_reading(path, done)


def read_smi_gpus(host: Host) -> Tuple[Gpu, ...]:
    """Read the GPUs in the table of nvidia-smi, which may find an NVML that is not found here."""
    path = find_smi(host).value
    done = host.run([path], timeout=2.0).value if path else None
    return parse_table(done.stdout[:_MAX_OUTPUT], path) if done and path else ()


def parse_table(text: str, where: str) -> Tuple[Gpu, ...]:
    """Parse the GPUs of the table; a name that ends in "..." is abbreviated and so unknown.

    "|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                  N/A |"
    "| N/A   33C    P0             51W /  400W |       3MiB /  40960MiB |      0%      Default |"
    """
    gpus = []
    for index, name, bus, used, total in re.findall(_TABLE_ROWS, text, re.MULTILINE):
        source = Source("command", where, f"{index} {name} {bus}")
        full_name: Fact[str] = Known(name, source)
        if name.endswith("..."):
            full_name = Unknown("unparsable", f"nvidia-smi abbreviates the name: {name}", (where,))
        gpu = make_gpu(
            Unknown("failed", "the table of nvidia-smi does not show it", (where,)),
            nvml_index=Known(int(index), source),
            name=full_name,
            pci_address=Known(normalize_pci_address(bus), source),
        )
        if total:
            gpu = replace(
                gpu,
                memory_used_bytes=Known(int(used) << 20, source),
                memory_bytes=Known(int(total) << 20, source),
            )
        gpus.append(gpu)
    return tuple(gpus)


def _make_failed_smi_reading(path: Fact[str], reason: Any) -> SmiReading:
    return SmiReading(path, reason, reason, reason, reason)


def parse_smi(done: Completed, path: Known[str]) -> SmiReading:
    r"""Parse a finished run: exit code, banner, or the error text on standard output.

    Exit 9: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure
    that the latest NVIDIA driver is installed and running."
    Exit 18: "Failed to initialize NVML: Driver/library version mismatch\nNVML library version:
    580.95"
    """
    where = path.value
    if done.returncode < 0:
        crash = Unknown("crashed", f"{where} was killed by signal {-done.returncode}", (where,))
        return _make_failed_smi_reading(path, crash)
    text = done.stdout[:_MAX_OUTPUT]
    code: Known[int] = Known(
        done.returncode, Source("command", where, f"exit code {done.returncode}")
    )
    driver, cuda = parse_banner(text, where)
    message = parse_message(done, where, has_banner=isinstance(driver, Known))
    if done.returncode != 0 and not isinstance(driver, Known):
        driver = cuda = _make_smi_error(done, where)
    return SmiReading(path, code, driver, cuda, message)


def _make_smi_error(done: Completed, where: str) -> Fact[Any]:
    detail = f"{where} exited with {done.returncode}: {_join_lines(done)[:200]}"
    if done.returncode in _NO_DRIVER_CODES:
        return Absent((detail,))
    return Unknown("failed", detail, (where,))


def parse_banner(text: str, where: str) -> Tuple[Fact[str], Fact[str]]:
    """Parse driver release and CUDA driver version in the first lines of the table.

    "| NVIDIA-SMI 550.163.01             Driver Version: 550.163.01     CUDA Version: 12.2     |"
    (to R595), "| NVIDIA-SMI 610.43.02              KMD Version: 610.43.02     CUDA UMD Version:
    13.3     |" (from R610), "| NVIDIA-SMI 390.48                 Driver Version: 390.48
    |" (no CUDA version yet).
    """
    driver = _parse_version(
        text, r"\b(?:Driver|KMD) Version:[ ]*([^\s|]+)", where, "driver version"
    )
    cuda = _parse_version(text, r"\bCUDA (?:UMD )?Version:[ ]*([^\s|]+)", where, "CUDA version")
    if isinstance(driver, Absent):
        unreadable = Unknown(
            "unparsable", f"{where} printed no banner: {text.strip()[:80]!r}", (where,)
        )
        return unreadable, unreadable
    return driver, cuda


def _parse_version(text: str, pattern: str, where: str, what: str) -> Fact[str]:
    match = re.search(pattern, text)
    if match is None:
        return Absent((f"{where}: {what}",))
    version = match.group(1)
    line = text[text.rfind("\n", 0, match.start()) + 1 :].split("\n", 1)[0]
    line = " ".join(line.strip(" |\r").split())[:200]
    if re.match(r"\d+(\.\d+)+$", version):
        return Known(version, Source("command", where, line))
    if version == "N/A":  # for CUDA: nvidia-smi did not find libcuda.so.1
        return Absent((f"{where}: {line}",))
    return Unknown("failed", f"{where}: {line}", (where,))


def parse_message(done: Completed, where: str, *, has_banner: bool) -> Fact[str]:
    """Parse the error text: any text of a failed run, or of a run that printed no table.

    "No devices were found", "Failed to initialize NVML: Unknown Error".
    """
    text = _join_lines(done)
    if not text or (done.returncode == 0 and has_banner):
        return Absent((where,))
    return Known(text, Source("command", where, text[:200]))


def _join_lines(done: Completed) -> str:
    lines = [
        line.strip()
        for line in (done.stdout[:_MAX_OUTPUT] + "\n" + done.stderr[:2000]).splitlines()
    ]
    text = " ".join(line for line in lines if line and not re.match(_TABLE_OR_DATE, line))[:400]
    return "".join(character for character in text if character.isprintable())


# Folders with copies that the loader searches only where it is configured to.
_OTHER_FOLDERS = (
    "/usr/lib/wsl/lib",
    "/usr/lib/aarch64-linux-gnu/tegra",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
    "/.singularity.d/libs",
)
_TOOLKIT_FOLDERS = ("compat", "lib64/stubs", "compat/lib.real")
_WINDOWS_CUDA = ("C:\\Windows\\System32\\nvcuda.dll",)
_WINDOWS_NVML = (
    "C:\\Windows\\System32\\nvml.dll",
    "C:\\Program Files\\NVIDIA Corporation\\NVSMI\\nvml.dll",
)
_ELF_32_BIT = b"\x7fELF\x01"


class DriverLibraries(NamedTuple):
    """The driver's libraries: real files that the loader finds, and other copies."""

    libcuda: Fact[str]
    libcuda_unversioned: Fact[str]
    libcuda_elsewhere: Fact[Tuple[str, ...]]
    nvml: Fact[str]
    nvml_to_query: Fact[str]  # the loader's, else WSL's own

    @property
    def is_any_found(self) -> bool:
        """Return whether any part of a driver's user space exists."""
        return any(fact.value is not None for fact in (self.libcuda, self.nvml, self.nvml_to_query))


def find_driver_libraries(host: Host) -> DriverLibraries:
    """Find libcuda and libnvidia-ml."""
    if host.system != "linux":
        cuda_paths, nvml_paths = (
            (_WINDOWS_CUDA, _WINDOWS_NVML) if host.system == "windows" else ((), ())
        )
        cuda = _find_first(host, cuda_paths, Absent(cuda_paths))
        nvml = _find_first(host, nvml_paths, Absent(nvml_paths))
        return DriverLibraries(cuda, Absent(), Absent(), nvml, nvml)
    loader = Loader(host)
    find = partial(_find_loaded, host, loader)
    libcuda, nvml = find("libcuda.so.1"), find("libnvidia-ml.so.1")
    query = nvml
    if not isinstance(nvml, Known):
        query = _find_first(host, ("/usr/lib/wsl/lib/libnvidia-ml.so.1",), nvml)
    return DriverLibraries(
        libcuda, find("libcuda.so"), _find_other_copies(host, loader, libcuda), nvml, query
    )


def _find_first(host: Host, paths: Tuple[str, ...], otherwise: Fact[str]) -> Fact[str]:
    facts = map(host.real_path, paths)
    return next((fact for fact in facts if isinstance(fact, Known)), otherwise)


def _find_loaded(host: Host, loader: Loader, name: str) -> Fact[str]:
    """Return the real file that the loader opens for `name`."""
    for path, _ in loader.list_candidates(name):
        real = host.real_path(path)
        if real.value is not None and _is_loadable(host, real.value):
            return from_file(real.value, path, f"-> {real.value}" if real.value != path else "")
    tried = tuple(
        f"{name} in {place}"
        for place in ("LD_LIBRARY_PATH", "/etc/ld.so.cache", "the default folders")
    )
    cache = host.loader_cache()
    if isinstance(cache, Unknown):
        return Unknown(cache.why, cache.detail, tried)
    return Absent(tried)


def _is_loadable(host: Host, path: str) -> bool:
    # The loader skips libraries of the other word size but stops at a broken one.
    status = host.status(path)
    if status.value is None or status.value.kind != "file":
        return False
    return host.read_bytes(path, 5).value != _ELF_32_BIT


def _find_other_copies(host: Host, loader: Loader, chosen: Fact[str]) -> Fact[Tuple[str, ...]]:
    searched = (path for path, _ in loader.list_candidates("libcuda.so.1"))
    candidates = [*searched, *_list_unsearched_paths(host)]
    real = dict.fromkeys(host.real_path(path).value for path in candidates)
    others = tuple(
        path for path in real if path and path != chosen.value and _is_loadable(host, path)
    )
    if not others:
        return Absent((*_OTHER_FOLDERS, "/usr/local/cuda*"))
    return from_file(others, others[0])


def _list_unsearched_paths(host: Host) -> List[str]:
    roots = [
        f"/usr/local/{name}"
        for name in list_names(host, "/usr/local")
        if re.match(r"cuda(-\d|$)", name)
    ]
    folders = [f"{root}/{inner}" for root in roots for inner in _TOOLKIT_FOLDERS]
    existing = [
        folder for folder in (*_OTHER_FOLDERS, *folders) if isinstance(host.status(folder), Known)
    ]
    return [f"{folder}/{name}" for folder in existing for name in ("libcuda.so.1", "libcuda.so")]


def read_library_version(library: Fact[str]) -> Fact[str]:
    """Return the driver release in a library's real name.

    The names of WSL's libraries have none.
    """
    if not isinstance(library, Known):
        return library
    version = parse_driver_library_name(library.value)
    if version:
        return from_file(version, library.value)
    return Absent((library.value,))


def parse_driver_library_name(path: str) -> Optional[str]:
    """Parse the driver release at the end of a library's file name.

    "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01" -> "550.163.01";
    "/usr/lib/wsl/lib/libcuda.so.1.1" -> None
    """
    return find_group(r"\.so\.(\d{3,}\.\d+(?:\.\d+)?)$", path) or None


def find_load_refusal(host: Host, path: str) -> Optional[Unknown]:
    """Return why root must not load a library, None where it may."""
    problem = find_trust_problem(host, path) if host.system == "linux" else None
    if problem:
        return Unknown("denied", f"not loaded as root: {problem}", (path,))
    return None


_STUB_LIBRARY = 34  # cuda.h: CUDA_ERROR_STUB_LIBRARY


class CudaReading(NamedTuple):
    """The answers of libcuda."""

    driver_version: Fact[str]
    init_result: Fact[int]


def query_cuda(host: Host, library: Fact[str]) -> CudaReading:
    """Call cuDriverGetVersion and cuInit in two concurrent children; start none without a library.

    The version needs neither a GPU nor the kernel module, so it must not depend on the result of
    cuInit.
    """
    if not isinstance(library, Known):
        return CudaReading(library, library)
    path = library.value
    refusal = find_load_refusal(host, path)
    if refusal:
        return CudaReading(refusal, refusal)
    ask = partial(host.ask, "libcuda_version", path)
    answers = call_concurrently({"version": ask, "init": partial(ask, "init")})
    return CudaReading(
        parse_version_answer(answers["version"], path), parse_init_answer(answers["init"], path)
    )


def parse_version_answer(answer: Fact[Mapping[str, Any]], path: str) -> Fact[str]:
    """Parse the child's answer into a version.

    {"version": 12040} -> "12.4"; {"error": 34} is a stub library.
    """
    if not isinstance(answer, Known):
        return answer
    number, error = answer.value.get("version"), answer.value.get("error")
    version = format_cuda_version(number)
    if version is not None:
        return Known(version, Source("library", path, f"cuDriverGetVersion: {number}"))
    if error == _STUB_LIBRARY:
        return Unknown(
            "failed",
            f"{path} is a stub library, not a driver: cuDriverGetVersion returned 34",
            (path,),
        )
    if error is not None:
        return Unknown("failed", f"{path}: cuDriverGetVersion returned {error}", (path,))
    return _explain_unreadable(answer.value, path)


def parse_init_answer(answer: Fact[Mapping[str, Any]], path: str) -> Fact[int]:
    """Parse the child's answer into the result of cuInit: {"init": 100} -> 100 (no device)."""
    if not isinstance(answer, Known):
        return answer
    code = answer.value.get("init")
    if isinstance(code, int):
        return Known(code, Source("library", path, f"cuInit(0): {code}"))
    return _explain_unreadable(answer.value, path)


def _explain_unreadable(answer: Mapping[str, Any], path: str) -> Unknown:
    if "load_error" in answer:
        return Unknown("failed", f"{path} cannot be loaded: {answer['load_error']}", (path,))
    return Unknown(
        "unparsable", f"{path} gave an unexpected answer: {str(dict(answer))[:80]}", (path,)
    )


def format_cuda_version(value: Any) -> Optional[str]:
    """Convert the driver's number into a version: 12040 -> "12.4"."""
    if not isinstance(value, int) or value < 1000:
        return None
    return cuda_of_number(value)
