"""CUDA does not start and no other rule says why: that alone is reason enough."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import ERROR, INCOMPATIBLE, Absent, Finding, Known, Problem
from envcheck.rules.context import Context
from envcheck.rules.driver_container import driver_not_in_container
from envcheck.rules.driver_fabric import fabric_manager
from envcheck.rules.driver_floor import driver_before_gpu, gpu_dropped_by_driver
from envcheck.rules.driver_library import driver_library_mismatch, forward_compat_misused
from envcheck.rules.driver_nodes import driver_device_nodes
from envcheck.rules.driver_state import driver_kind, driver_missing, driver_nouveau, driver_secure_boot
from envcheck.rules.driver_wsl import driver_wsl
from envcheck.rules.gpu_facts import gpu_name
from envcheck.rules.hardware import gpu_hardware_fault
from envcheck.rules.registry import rule
from envcheck.rules.runtime import gpu_memory_held, mig_config
from envcheck.rules.visible_devices import nvidia_visible_devices

_STUB = 34
_NO_DEVICE = 100
_BUSY = 46
_EXPLANATIONS = (
    gpu_hardware_fault,
    driver_missing,
    driver_nouveau,
    driver_secure_boot,
    driver_kind,
    driver_library_mismatch,
    forward_compat_misused,
    driver_wsl,
    driver_not_in_container,
    nvidia_visible_devices,
    driver_device_nodes,
    driver_before_gpu,
    gpu_dropped_by_driver,
    fabric_manager,
    mig_config,
)


@rule("toolkit-path-conflict")
def stub_library(context: Context) -> Iterator[Finding]:
    """Report the toolkit's stub libcuda, made for linking, in place of the driver's."""
    driver = context.facts.driver
    path = driver.libcuda_path.value if isinstance(driver.libcuda_path, Known) else ""
    if _result(context) == _STUB or (path and "/stubs/" in path):
        where = path.rpartition("/")[0] or "the toolkit's lib64/stubs"
        yield Finding(
            "toolkit-path-conflict",
            INCOMPATIBLE,
            ERROR,
            f"The loader finds a stub of libcuda in {where}, which serves linking only, before the driver's library.",
            (context.seen("driver.libcuda_path"), context.seen("driver.cuda_init_result")),
            problem=Problem(advice=f"Take {where} off LD_LIBRARY_PATH."),
        )


@rule("gpu-memory-held")
def devices_busy(context: Context) -> Iterator[Finding]:
    """Report GPUs that CUDA calls busy although no compute mode shown explains it."""
    if (
        context.gpus
        and _result(context) == _BUSY
        and not any(_errors(gpu_memory_held(context)))
        and not _explained(context)
    ):
        yield Finding(
            "gpu-memory-held",
            INCOMPATIBLE,
            ERROR,
            "CUDA calls the GPUs busy or unavailable (46): another process has them for itself, or one that "
            "died still holds them.",
            (context.seen("driver.cuda_init_result"),),
            problem=Problem(("busy",)),
        )


@rule("driver-missing")
def cuda_does_not_start(context: Context) -> Iterator[Finding]:
    """Report a driver on which CUDA does not start, where nothing else was found."""
    result = _result(context)
    if not context.gpus or result in (None, 0, _STUB, _BUSY) or _explained(context):
        return
    message = (
        f"The driver is there, but CUDA does not start on it (cuInit returned {result}), and nothing else that was "
        "read tells why."
    )
    if result == _NO_DEVICE and all(isinstance(gpu.nvml_index, Absent) for gpu in context.gpus):
        message = (
            f"The driver runs, but lists no GPU, though {gpu_name(context.gpus[0])} is on the bus: it could not start "
            "it, or this job was given none."
        )
    yield Finding(
        "driver-missing",
        INCOMPATIBLE,
        ERROR,
        message,
        (context.seen("driver.cuda_init_result"), context.seen("driver.release")),
        problem=Problem(("does-not-start",)),
    )


def _result(context: Context) -> int | None:
    result = context.facts.driver.cuda_init_result
    return result.value if isinstance(result, Known) else None


def _errors(findings: Iterator[Finding]) -> Iterator[Finding]:
    return (finding for finding in findings if finding.severity == ERROR and finding.verdict == INCOMPATIBLE)


def _explained(context: Context) -> bool:
    return any(True for check in _EXPLANATIONS for _ in _errors(check(context)))
