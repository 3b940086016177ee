"""Find nvidia-smi, run it when nothing better answered, and read its table or its failure."""

from __future__ import annotations

import re
from typing import Any, List, NamedTuple, Optional, Tuple

from envcheck.host.protocol import Completed, Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.machine import Gpu
from envcheck.model.records import replaced
from envcheck.probes.driver_choice import tried_of
from envcheck.probes.gpu_address import normal_pci_address

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
    return Absent(tried_of(on_path) + _PLACES.get(host.system, ()))


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
    address: Fact[str] = Known(normal_pci_address(bus.group()), Source("command", where, bus.group()))
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
        gpu = replaced(gpu, compute_mode=Known(mode, source))
    if memory is not None:
        used, total = (int(number) << 20 for number in memory.groups())
        gpu = replaced(gpu, memory_used_bytes=Known(used, source), memory_bytes=Known(total, source))
    elif cells[0] == "" and cells[1] == "" and cells[2].rstrip("*") in ("Enabled", "Disabled"):
        gpu = replaced(gpu, mig_enabled=Known(cells[2].startswith("Enabled"), source))
    return gpu
