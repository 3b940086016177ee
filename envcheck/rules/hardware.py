"""Rules about the GPU and the CPU themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    WARNING,
    Absent,
    Evidence,
    Fact,
    Finding,
    Gpu,
    Known,
    Problem,
    Unknown,
)
from envcheck.rules.context import Context
from envcheck.rules.gpu_facts import cuda_starts, gpu_name
from envcheck.rules.registry import rule
from envcheck.rules.targets import judged_builds

# NVML and nvidia-smi share their codes; cuInit has its own.
_NVML_FAULTS = {
    8: "external power is not connected",
    15: "the GPU is lost (it fell off the bus)",
    16: "the GPU needs a reset",
}
_CUDA_FAULTS = {214: "an uncorrectable memory (ECC) error", 220: "an uncorrectable NVLink error"}
_X86 = ("x86_64", "amd64", "AMD64", "i686", "i386")


@rule("gpu-absent", needs=("gpus",), goal="any")
def gpu_absent(context: Context) -> Iterator[Finding]:
    """Say that there is no NVIDIA GPU: an error only where one is expected."""
    if not isinstance(context.facts.gpus, Absent):
        return
    seen = (context.seen("gpus"),)
    if context.target.expect == "gpu":
        yield Finding(
            "gpu-absent",
            INCOMPATIBLE,
            ERROR,
            "This machine has no NVIDIA GPU, and one is expected.",
            seen,
            problem=Problem(("expected",)),
        )
    else:
        yield Finding("gpu-absent", COMPATIBLE, NOTE, "This machine has no NVIDIA GPU; frameworks use the CPU.", seen)


@rule("gpu-hardware-fault", needs=("gpus",))
def gpu_hardware_fault(context: Context) -> Iterator[Finding]:
    """Report GPUs that the driver has lost or that fail."""
    fault = _driver_fault(context)
    lost = [gpu for gpu in context.gpus if _refusal(gpu) is not None]
    if fault is None and not lost:
        return
    evidence, what = fault or _gpu_fault(lost[0])
    severity = WARNING if cuda_starts(context) and len(lost) < len(context.gpus) else ERROR
    yield Finding(
        "gpu-hardware-fault",
        INCOMPATIBLE,
        severity,
        f"{_which(lost)} fails: {what}.",
        (evidence,),
        problem=Problem(("lost",)),
    )


def _which(lost: list[Gpu]) -> str:
    if not lost:
        return "A GPU"
    index = lost[0].nvml_index
    return f"GPU {index.value}" if isinstance(index, Known) else gpu_name(lost[0])


def _driver_fault(context: Context) -> tuple[Evidence, str] | None:
    codes = (
        ("driver.nvml_result", _NVML_FAULTS),
        ("driver.smi_exit_code", _NVML_FAULTS),
        ("driver.cuda_init_result", _CUDA_FAULTS),
    )
    for name, faults in codes:
        fact = context.fact(name)
        if isinstance(fact, Known) and fact.value in faults:
            return context.seen(name), faults[fact.value]
    return None


def _refusal(gpu: Gpu) -> int | None:
    """Return the NVML code with which a GPU could not be opened: "NVML (…), GPU 1: GPU is lost (15)"."""
    fact: Fact[str] = gpu.uuid
    found = re.search(r"\((\d+)\)$", fact.detail) if isinstance(fact, Unknown) else None
    return int(found[1]) if found and int(found[1]) in _NVML_FAULTS else None


def _gpu_fault(gpu: Gpu) -> tuple[Evidence, str]:
    code = _refusal(gpu)
    detail = gpu.uuid.detail if isinstance(gpu.uuid, Unknown) else ""
    return Evidence("gpus.uuid", detail), _NVML_FAULTS[code or 15]


@rule("cpu-missing-avx", goal="any")
def cpu_missing_avx(context: Context) -> Iterator[Finding]:
    """Report builds that need processor instructions this CPU does not have."""
    architecture = context.facts.host.architecture
    if not isinstance(architecture, Known) or architecture.value not in _X86:
        return
    for build in judged_builds(context):
        wanted = build.release.cpu_features if build.release else ()
        # conda compiles its own packages; the row describes the wheel.
        installer = (
            context.distributions[build.distribution].installer if build.distribution in context.distributions else ""
        )
        if not wanted or installer == "conda":
            continue
        flags = context.need(context.facts.host.cpu_flags, "host.cpu_flags") or ()
        missing = [flag for flag in wanted if flag not in flags]
        if missing:
            yield Finding(
                "cpu-missing-avx",
                INCOMPATIBLE,
                ERROR,
                f"{build.label} is compiled with {', '.join(missing).upper()} instructions, which this CPU does "
                "not offer: importing it ends with 'Illegal instruction'.",
                (
                    context.seen("host.cpu_flags", shown=f"no {', '.join(missing)} among {len(flags)} flags"),
                    Evidence(f"matrix {build.label}", f"needs {', '.join(wanted)}", citation=build.citations[0]),
                ),
                problem=Problem(framework=build.framework, names=tuple(missing)),
            )
