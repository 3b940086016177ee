"""Rules about the GPUs and the CPU: whether they are there, work, and are free."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envcheck.host.data_files import load_data
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    NOT_STATED,
    NOTE,
    UNDETERMINED,
    WARNING,
    About,
    Citation,
    Evidence,
    Finding,
    Fix,
    FollowRow,
    Gpu,
    Source,
    Unknown,
    dataclass,
)
from envcheck.model.fixes import (
    AssignMigInstance,
    CreateMigInstance,
    EnlargeSharedMemory,
    FindHiddenProcess,
    FindLostGpu,
    FollowXid,
    ServiceGpu,
    SetDefaultComputeMode,
    StopProcess,
    UseMachineWithGpu,
    UseOtherProcessor,
)
from envcheck.rules.builds import Build, build_of, is_from_conda
from envcheck.rules.context import Context, Seen, UndecidedError, cite, rule
from envcheck.rules.gpu_releases import (
    cuda_starts,
    gpu_name,
    numbered_gpus,
    other_gpu_name,
    other_vendors,
)
from envcheck.rules.targets import is_for_gpu_alone, judged_builds, wanted_releases

# NVML and nvidia-smi share their codes; cuInit has its own.
_NVML_FAULTS = {
    8: "external power is not connected",
    15: "the GPU is lost (it fell off the bus)",
    16: "the GPU needs a reset",
}
_CUDA_FAULTS = {214: "an uncorrectable memory (ECC) error", 220: "an uncorrectable NVLink error"}
_X86 = ("x86_64", "amd64", "AMD64", "i686", "i386")


@dataclass
class Xid:
    """One error of NVIDIA's catalogue.

    What it means, what to do at once, and what where it comes back.
    """

    code: int
    name: str
    means: str
    action: str
    follow_up: str = ""


@dataclass
class XidTable:
    """The content of data/nvidia/xid.json."""

    citation: Citation
    actions: Mapping[str, str]  # action -> the sentence that says it
    xids: tuple[Xid, ...]


@rule("gpu-absent", needs=("gpus",), goal="any")
def gpu_absent(context: Context, gpus: tuple[Gpu, ...] | None) -> Iterator[Finding]:
    """Report that there is no NVIDIA GPU: an error only where one is expected."""
    idle = _list_idle(context) if context.goal == "cpu" else []
    if idle:
        is_asked = not all(item.installed for item in idle)
        is_error = is_asked or len(idle) == len(judged_builds(context))  # there is nothing else
        reason = "work on the CPU is asked for" if gpus else "this machine has none"
        yield context.report(
            f"{' and '.join(item.label for item in idle)}"
            f" can compute on NVIDIA GPUs only, and {reason}.",
            "gpus",
            severity=ERROR if is_error else WARNING,
            cure=UseMachineWithGpu(),
        )
        return
    if gpus is not None or context.asks_other_vendor:
        return
    others, evidence = context.facts.other_gpus, ["gpus"]
    if isinstance(others, Unknown) and others != NOT_STATED:
        evidence.append("other_gpus")
    if context.expect == "gpu":
        names = ", ".join(map(other_gpu_name, context.other_gpus))
        its = f": its GPU is {names}" if names else ""
        yield context.report(
            f"This machine has no NVIDIA GPU, but one is expected{its}.",
            *evidence,
            cure=UseMachineWithGpu(or_cpu=True),
        )
    elif not context.other_gpus:
        yield context.report(
            "This machine has no NVIDIA GPU; frameworks use the CPU.",
            *evidence,
            verdict=COMPATIBLE,
            severity=NOTE,
        )


def _list_idle(context: Context) -> list[Build]:
    """List what computes on GPUs only: builds, and the packages on top that are asked for."""
    asked = (item.package for item in wanted_releases(context) if item.package)
    packages = (row for row in asked if is_for_gpu_alone(context.matrix, row.distribution))
    builds = judged_builds(context)
    idle = [item for item in builds if item.traits.cuda.needs_gpu and not item.accelerator]
    return [*idle, *map(build_of, packages)]


@rule("gpu-not-nvidia", goal="any")
def gpu_not_nvidia(context: Context) -> Iterator[Finding]:
    """Name the GPUs of other vendors; whether work on them succeeds is not judged, and said so."""
    if not context.lacks_gpu:
        return
    builds = [item for item in judged_builds(context) if item.accelerator]
    if context.asks_other_vendor and not builds and judged_builds(context):
        yield context.report(
            f"{judged_builds(context)[0].label} is a CPU-only build: it does not use this machine's"
            f" {other_gpu_name(context.other_gpus[0])}.",
            *_other_evidence(context),
            cure=FollowRow("cpu-build"),
            about=About(judged_builds(context)[0].framework),
        )
    elif context.asks_other_vendor:
        yield _not_judged(context, builds[0] if builds else None)
    elif context.other_gpus:
        names = ", ".join(map(other_gpu_name, context.other_gpus))
        yield context.report(
            f"The GPU of this machine is {names}. envcheck judges NVIDIA GPUs and CPUs only.",
            *_other_evidence(context),
            verdict=COMPATIBLE,
            severity=NOTE,
        )


def _not_judged(context: Context, build: Build | None) -> Finding:
    """Say that work is meant for another vendor's GPU, and that this is undetermined."""
    vendors = other_vendors()
    meant = {
        name for name, item in vendors.items() if build and build.accelerator in item.accelerators
    }
    gpus = [gpu for gpu in context.other_gpus if gpu.vendor in meant or not meant]
    vendor = gpus[0].vendor if gpus else next(iter(meant), "")
    owner = vendors[vendor].title if vendor else "other"
    built = ""
    if build and vendor:
        built = f"{build.label} is a build for {owner} GPUs ({vendors[vendor].platform}). "
    if gpus:
        where = f"on {other_gpu_name(gpus[0])}"
    else:
        where = f"on a GPU by {owner}: none was found here"
    return context.report(
        f"{built}Only NVIDIA GPUs and CPUs are judged, so envcheck cannot tell whether GPU work"
        f" succeeds {where}.",
        *_other_evidence(context),
        verdict=UNDETERMINED,
        cure=FollowRow(vendor),
        about=About(build.framework if build else ""),
    )


def _other_evidence(context: Context) -> tuple[Seen, ...]:
    names = ", ".join(map(other_gpu_name, context.other_gpus))
    drivers = [gpu.kernel_driver.value for gpu in context.other_gpus if gpu.kernel_driver.value]
    shown = names
    if drivers:
        shown = f"{names} (driver {', '.join(dict.fromkeys(drivers))})"
    return ("gpus", ("other_gpus", shown or "none found"))


@rule("gpu-hardware-fault", needs=("gpus",))
def gpu_hardware_fault(context: Context, gpus: tuple[Gpu, ...] | None) -> Iterator[Finding]:
    """Report GPUs that the driver has lost, that fail, or that it wants to be serviced."""
    failed = _list_signs(context, "gpu-hardware-fault")
    works = cuda_starts(context) and len(failed) < len(gpus or ())
    # where the project states what the machine has, it needs every GPU
    severity = WARNING if works and not context.demands.gpus else ERROR
    for gpu, sign in failed:
        yield sign.report(context, gpu, severity)
    fault = None if failed else _driver_fault(context)
    if fault is not None:
        evidence, subject = fault
        yield context.report(
            f"A GPU fails: {subject}.", evidence, severity=severity, cure=ServiceGpu("power-cycle")
        )


@rule("gpu-degraded", severity=WARNING)
def gpu_degraded(context: Context) -> Iterator[Finding]:
    """Report GPUs that work, and that are slowed down or may need service."""
    for gpu, sign in _list_signs(context, "gpu-degraded"):
        yield sign.report(context, gpu, WARNING)


@dataclass
class HealthSign:
    """What patterns of a GPU's facts mean, and what ServiceGpu does about it."""

    where: Mapping[str, str]
    finding: str
    action: str
    words: str

    def shows(self, gpu: Gpu) -> bool:
        """Return whether each fact reads as its pattern says."""
        return all(re.fullmatch(text, _read(gpu, name)) for name, text in self.where.items())

    def report(self, context: Context, gpu: Gpu, severity: str) -> Finding:
        """Return the finding, whose evidence is the first of the facts, with how long it lasts."""
        name = next(iter(self.where))
        lasting = _describe_slowdown(gpu) if name == "slowdown" else ""
        since = f" ({lasting} since the driver was loaded)" if lasting else ""
        evidence = [context.seen(f"gpus.{name}", getattr(gpu, name), _read(gpu, name))]
        if lasting:
            evidence.append(context.seen("gpus.slowed_for", gpu.slowed_for, lasting))
        return context.report(
            f"{_describe_gpu(gpu)} {self.words}{since}.",
            *evidence,
            severity=severity,
            cure=ServiceGpu(self.action, _index(gpu)),
        )


@dataclass
class HealthSigns:
    """The content of data/nvidia/gpu_health.json."""

    citation: Citation
    signs: tuple[HealthSign, ...]


def _read(gpu: Gpu, name: str) -> str:
    """Return a fact as text; what is absent or unknown is unread, with the reason."""
    fact = getattr(gpu, name)
    if fact.value is None:
        return f"unread {getattr(fact, 'detail', '')}".rstrip()
    return ", ".join(fact.value) if isinstance(fact.value, tuple) else str(fact.value)


def _describe_slowdown(gpu: Gpu) -> str:
    """Say for how long what slows a GPU now has slowed it: "hw_thermal_slowdown for 354 s"."""
    seconds = gpu.slowed_for.value or {}
    known = [reason for reason in gpu.slowdown.value or () if seconds.get(reason, 0) >= 1]
    return ", ".join(f"{reason} for {seconds[reason]:.0f} s" for reason in known)


def _list_signs(context: Context, finding: str) -> list[tuple[Gpu, HealthSign]]:
    """List the GPUs whose strongest sign is of this finding."""
    signs = load_data("nvidia/gpu_health", HealthSigns).signs if context.gpus else ()
    found = []
    for gpu in context.gpus:
        sign = next((sign for sign in signs if sign.shows(gpu)), None)
        if sign is not None and sign.finding == finding:
            found.append((gpu, sign))
    return found


def _driver_fault(context: Context) -> tuple[Evidence, str] | None:
    codes = (
        ("driver.nvml_result", _NVML_FAULTS),
        ("driver.smi_exit_code", _NVML_FAULTS),
        ("driver.cuda_init_result", _CUDA_FAULTS),
    )
    for name, faults in codes:
        fact = context.fact(name)
        if fact.value in faults:
            return context.seen(name), faults[fact.value]
    return None


# What a program did, or what the line of another fault says.
_OF_PROGRAMS = ("restart-application", "none", "follow-other", "reset-if-uvm", "update-driver")


@rule("gpu-degraded", severity=WARNING)
def faults_in_kernel_log(context: Context) -> Iterator[Finding]:
    """Find what the driver logged of GPUs and NVSwitches that no program causes by itself."""
    logged: dict[str, list[str]] = {}
    for line in context.facts.driver.logged_faults.value or ():
        pci, _, fault = line.partition(": ")
        logged.setdefault(pci, []).append(fault)
        if fault == "Xid 154 None":  # the GPU recovered: what came before is over
            del logged[pci]
    rows = load_data("nvidia/xid", XidTable).xids if logged else ()
    programs = frozenset(f"Xid {row.code}" for row in rows if row.action in _OF_PROGRAMS)
    failed = [gpu.pci_address.value or "" for gpu, _ in _list_signs(context, "gpu-hardware-fault")]
    for pci, faults in logged.items():
        if any(address.startswith(pci) for address in failed):
            continue  # said already, and by its state now
        serious = [
            fault
            for fault in faults
            if (not fault.endswith(" Nonfatal") and " ".join(fault.split()[:2]) not in programs)
        ]
        if not serious:
            continue
        part, cure = "GPU", _cure_logged(serious, pci)
        if serious[0].startswith("SXid "):
            part, cure = "NVSwitch", ServiceGpu("switches")
        yield context.report(
            f"The driver logged {', '.join(serious)} for the {part} at {pci} since the start.",
            ("driver.logged_faults", f"{pci}: {', '.join(serious)}"),
            cure=cure,
        )


def _cure_logged(faults: list[str], pci: str) -> Fix:
    """Follow the catalogue where a GPU's faults have a code."""
    xids = [fault.split(" ", 2)[1:] for fault in faults if fault.startswith("Xid ")]
    if not xids:
        return ServiceGpu("reboot")
    recovery = "".join(text for code, *rest in xids for text in rest if code == "154")
    return FollowXid(tuple(item[0] for item in xids), pci, recovery)


@rule("gpu-hardware-fault", goal="any")
def gpus_as_stated(context: Context) -> Iterator[Finding]:
    """Find that GPUs are missing, of another model, or linked worse than the project states."""
    stated = dict(context.demands.gpus)
    if not stated:
        return
    gpus = context.need(context.facts.gpus, "gpus") or ()
    found = numbered_gpus(context) or gpus
    count = int(stated.get("gpu-count", len(found)))
    if len(found) != count:
        if len(found) < count and context.facts.host.container.value:
            raise UndecidedError("gpus", Unknown("denied", "a container may hide GPUs"))
        words = f"{count} GPUs are stated; the driver lists {len(found)}, the bus {len(gpus)}."
        yield _differs(context, "gpu-count", words, context.seen("gpus"), FindLostGpu())
    for gpu in found:
        for key, name in _STATED.items():
            if key in stated and not _is_as_stated(context, gpu, name, stated[key]):
                seen = _gpu_evidence(context, gpu, name)
                words = f"{_describe_gpu(gpu)} differs from what is stated: {seen.shown}."
                yield _differs(context, key, words, seen, ServiceGpu("drain"))


_STATED = {
    "gpu-model": "name",
    "pcie-width": "pcie_width",
    "pcie-generation": "pcie_generation",
    "nvlinks": "nvlinks_active",
}


def _is_as_stated(context: Context, gpu: Gpu, name: str, stated: int | str) -> bool:
    if stated == gpu.pci_id.value:
        return True
    value = context.need(getattr(gpu, name), f"gpus.{name}")
    if isinstance(stated, str):
        return stated.lower() in str(value).lower()
    if value is None:  # N/A is neither up nor down
        raise UndecidedError(f"gpus.{name}", Unknown("failed", "the driver does not report it"))
    is_less = value < stated
    if is_less and name.startswith("pcie") and "gpu_idle" in (gpu.slowdown.value or ()):
        reason = "the GPU is idle, and may have slowed its link down"
        raise UndecidedError(f"gpus.{name}", Unknown("failed", reason))
    return not is_less


def _differs(context: Context, key: str, words: str, seen: Evidence, cure: Fix) -> Finding:
    shown = f"{key} = {dict(context.demands.gpus)[key]}"
    cited = Evidence("tool.envcheck", shown, Source("file", context.demands.location, shown))
    return context.report(words, cited, seen, cure=cure)


@rule("cpu-missing-avx", goal="any")
def cpu_missing_avx(context: Context) -> Iterator[Finding]:
    """Report builds that need processor instructions this CPU does not have."""
    architecture = context.host.architecture.value
    if not architecture or architecture not in _X86:
        return
    for build in judged_builds(context):
        features = build.release.cpu_features if build.release else ()
        # conda compiles its own packages; the row describes the wheel.
        if not features or is_from_conda(context, build.distribution):
            continue
        flags = context.need(context.host.cpu_flags, "host.cpu_flags")
        # every x86 processor has some: an older snapshot of a machine without /proc
        if flags is None:
            raise UndecidedError(
                "host.cpu_flags", Unknown("failed", "nothing lists the processor's instructions")
            )
        missing = [flag for flag in features if flag not in flags]
        if missing:
            yield context.report(
                f"{build.label} is compiled with {', '.join(missing).upper()} instructions, which"
                " this CPU lacks: importing it fails with 'Illegal instruction'.",
                ("host.cpu_flags", f"no {', '.join(missing)} among {len(flags)} flags"),
                cite(f"matrix {build.label}", f"needs {', '.join(features)}", build),
                cure=UseOtherProcessor(build.framework, tuple(missing)),
            )


_FULL = 0.9  # of a GPU's memory
# bytes; NCCL and data loaders of one process per GPU want more than docker's 64 MB
_SMALL_SHM = 1 << 30
_GIB = 1 << 30


@rule("gpu-memory-held", severity=WARNING)
def gpu_memory_held(context: Context) -> Iterator[Finding]:
    """Report GPUs whose memory others fill, and GPUs that another process has for itself."""
    busy = [gpu for gpu in context.gpus if _is_full(gpu)]
    closed = [gpu for gpu in context.gpus if _is_closed(gpu)]
    for gpu in busy:
        used, total = _read_bytes(gpu)
        yield context.report(
            f"{used / _GIB:.1f} of {total / _GIB:.1f} GiB of the memory of {_describe_gpu(gpu)} are"
            f" in use by {_name_holders(gpu)}.",
            _gpu_evidence(context, gpu, "memory_used_bytes"),
            cure=_free_memory(gpu),
        )
    for gpu in closed:
        mode = gpu.compute_mode.value or ""
        prohibited = mode == "prohibited"
        if prohibited:
            cause = "is set to compute mode 'prohibited': no CUDA program may use it"
        else:
            cause = f"is set to compute mode '{mode}' and taken by {_name_holders(gpu)}"
        severity = WARNING
        if len(closed) == len(context.gpus) and prohibited:
            severity = ERROR
        yield context.report(
            f"{_describe_gpu(gpu)} {cause}.",
            _gpu_evidence(context, gpu, "compute_mode"),
            severity=severity,
            cure=SetDefaultComputeMode(_index(gpu)),
        )


def _is_full(gpu: Gpu) -> bool:
    used, total = _read_bytes(gpu)
    return total > 0 and used > _FULL * total


def _read_bytes(gpu: Gpu) -> tuple[int, int]:
    used, total = gpu.memory_used_bytes.value, gpu.memory_bytes.value
    if used is not None and total is not None:
        return (used, total)
    return (0, 0)


def _is_closed(gpu: Gpu) -> bool:
    mode = gpu.compute_mode.value
    if not mode:
        return False
    has_processes = bool(gpu.processes.value)
    return mode == "prohibited" or (mode.startswith("exclusive") and has_processes)


def _index(gpu: Gpu) -> str:
    return str(gpu.nvml_index.value or 0)


def _describe_gpu(gpu: Gpu) -> str:
    index = gpu.nvml_index.value
    if index is not None:
        return f"GPU {index} ({gpu_name(gpu)})"
    return gpu_name(gpu)


def _name_holders(gpu: Gpu) -> str:
    processes = gpu.processes.value or ()
    if not processes:
        return "no process that the driver lists (one in another container, or one that died)"
    text = "process " + ", ".join(f"{item.pid} {item.name}".strip() for item in processes[:3])
    if _most_is_hidden(gpu):
        return f"{text}, and most of it is held by one that the driver does not list"
    return text


def _most_is_hidden(gpu: Gpu) -> bool:
    """Return whether the processes listed hold less than half of what is in use."""
    processes = gpu.processes.value or ()
    shares = [item.memory_bytes.value for item in processes if item.memory_bytes.value is not None]
    return len(shares) == len(processes) and sum(shares) < _read_bytes(gpu)[0] / 2


def _free_memory(gpu: Gpu) -> Fix:
    processes = gpu.processes.value or ()
    if processes and not _most_is_hidden(gpu):
        return StopProcess(str(processes[0].pid))
    return FindHiddenProcess()


def _gpu_evidence(context: Context, gpu: Gpu, name: str) -> Evidence:
    return context.seen(f"gpus.{name}", getattr(gpu, name))


@rule("mig-config", severity=WARNING)
def mig_config(context: Context) -> Iterator[Finding]:
    """Report GPUs split by MIG without an instance, or of which CUDA uses one only."""
    split = [gpu for gpu in context.gpus if gpu.mig_enabled.value]
    found = [context.need(gpu.mig_devices, "gpus.mig_devices") or () for gpu in split]
    empty = [gpu for gpu, devices in zip(split, found, strict=True) if not devices]
    if empty:
        yield _without_instance(context, empty[0], only=len(empty) == len(numbered_gpus(context)))
    instances = [device for devices in found for device in devices]
    if len(instances) > 1 and "CUDA_VISIBLE_DEVICES" not in context.environment:
        yield context.report(
            f"There are {len(instances)} MIG instances and CUDA_VISIBLE_DEVICES is not set. A CUDA"
            " program uses one instance only; programs that expect more GPUs fail.",
            _gpu_evidence(context, split[0], "mig_enabled"),
            _gpu_evidence(context, split[0], "mig_devices"),
            cure=AssignMigInstance(instances[0].uuid),
        )


def _without_instance(context: Context, gpu: Gpu, *, only: bool) -> Finding:
    severity = ERROR if only else WARNING
    return context.report(
        f"{_describe_gpu(gpu)} is in MIG mode (split into instances) and has no instance: CUDA sees"
        " no device on it.",
        _gpu_evidence(context, gpu, "mig_enabled"),
        _gpu_evidence(context, gpu, "mig_devices"),
        severity=severity,
        cure=CreateMigInstance(_index(gpu)),
    )


@rule("os-limit", severity=WARNING)
def small_shared_memory(context: Context) -> Iterator[Finding]:
    """Report a container whose /dev/shm is too small for several GPUs."""
    shm, container = context.host.shm_bytes.value, context.host.container.value
    if len(context.gpus) < 2 or not container or not judged_builds(context):
        return
    if shm is not None and shm < _SMALL_SHM:
        yield context.report(
            f"The shared memory of this container (/dev/shm) holds {shm >> 20} MiB: NCCL"
            f" between {len(context.gpus)} GPUs and data loaders"
            " share memory there and fail when it is full.",
            "host.shm_bytes",
            cure=EnlargeSharedMemory(),
        )
