"""Do the driver's kernel module and its user-space libraries fit, and does the loader find them?"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    WARNING,
    Evidence,
    Finding,
    Known,
    Problem,
    at_least,
    same_release,
)
from envcheck.rules.context import Context
from envcheck.rules.driver_container import was_given_gpus
from envcheck.rules.gpu_facts import cuda_starts, gpu_name, is_data_center
from envcheck.rules.registry import rule

_MISMATCH = 803
_NO_COMPAT_HERE = 804
_NVML_MISMATCH = 18


def is_compat(path: str) -> bool:
    """Say whether a libcuda is of a forward-compatibility package: /usr/local/cuda-12.9/compat/libcuda.so.575.57.08."""
    return re.search(r"/(cuda-compat[^/]*|compat(_\w+)?)/", path) is not None


@rule("forward-compat-misused")
def forward_compat_misused(context: Context) -> Iterator[Finding]:
    """Report a cuda-compat library ahead of the driver's own where hardware or driver do not allow it."""
    driver = context.facts.driver
    code = driver.cuda_init_result.value if isinstance(driver.cuda_init_result, Known) else None
    path = driver.libcuda_path.value if isinstance(driver.libcuda_path, Known) else ""
    if code == 0 or not (code == _NO_COMPAT_HERE or is_compat(path)):
        return
    why = _why_misused(context, code)
    if why:
        folder = posixpath.dirname(path)
        evidence = [
            context.seen(name)
            for name in ("driver.libcuda_path", "driver.cuda_init_result")
            if isinstance(context.fact(name), Known)
        ]
        what = (
            f"The loader finds the forward-compatibility libcuda in {folder} before the driver's own"
            if is_compat(path)
            else "A forward-compatibility libcuda is loaded before the driver's own"
        )
        yield Finding(
            "forward-compat-misused",
            INCOMPATIBLE,
            ERROR,
            f"{what}, and {why}.",
            tuple(evidence),
            problem=Problem(folders=(folder,) if folder else ()),
        )


def _why_misused(context: Context, code: int | None) -> str:
    driver = context.facts.driver
    if code == _NO_COMPAT_HERE:
        return "this GPU does not allow that (cuInit returned 804); only data-centre GPUs do"
    if code == _MISMATCH:
        return "it does not fit the kernel module (cuInit returned 803)"
    own, kernel = driver.libcuda_version, driver.kernel_module_version
    if isinstance(own, Known) and isinstance(kernel, Known):
        if same_release(own.value, kernel.value):
            return ""
        if at_least(kernel.value, own.value):
            return f"it is older ({own.value}) than the driver ({kernel.value})"
    barred = next((gpu for gpu in context.gpus if is_data_center(gpu) is False), None)
    return f"{gpu_name(barred)} does not allow that; only data-centre GPUs do" if barred else ""


@rule("driver-library-mismatch")
def driver_library_mismatch(context: Context) -> Iterator[Finding]:
    """Report a kernel module and user-space libraries of different releases."""
    driver, host = context.facts.driver, context.facts.host
    if context.os == "windows" or isinstance(host.wsl_version, Known):
        return
    path = driver.libcuda_path.value if isinstance(driver.libcuda_path, Known) else ""
    if is_compat(path):
        return  # forward-compat-misused says it
    signal = _mismatch_signal(context)
    if cuda_starts(context) and (not signal or _cuda_fits(context)):
        yield from _nvml_alone(context, signal)
        return
    kernel, cuda, nvml = driver.kernel_module_version, driver.libcuda_version, driver.libnvidia_ml_version
    differs = [
        fact
        for fact in (cuda, nvml)
        if isinstance(kernel, Known) and isinstance(fact, Known) and not same_release(kernel.value, fact.value)
    ]
    if not signal and not differs:
        return
    names = ("driver.kernel_module_version", "driver.libcuda_version", "driver.libnvidia_ml_version")
    evidence = tuple(context.seen(name) for name in names if isinstance(context.fact(name), Known)) + signal
    if isinstance(kernel, Known) and isinstance(cuda, Known) and differs == [cuda] and isinstance(nvml, Known):
        yield _stray(context, kernel.value, cuda.value, path, evidence)
        return
    told = "The loaded kernel module and the driver's libraries are of different releases"
    if isinstance(kernel, Known) and differs:
        told = f"The loaded kernel module is {kernel.value}, the driver's libraries are {differs[0].value}"
    message = f"{told}: the driver was updated and the old module still runs."
    yield Finding("driver-library-mismatch", INCOMPATIBLE, ERROR, message, evidence, problem=Problem())


def _cuda_fits(context: Context) -> bool:
    kernel, cuda = context.facts.driver.kernel_module_version, context.facts.driver.libcuda_version
    return isinstance(kernel, Known) and isinstance(cuda, Known) and same_release(kernel.value, cuda.value)


def _nvml_alone(context: Context, signal: tuple[Evidence, ...]) -> Iterator[Finding]:
    """Report an NVML of another release where CUDA itself was seen to start on the right libcuda."""
    if signal:
        message = (
            "The driver's management library (NVML) is of another release than the kernel module: CUDA starts, but "
            "nvidia-smi, NCCL and memory reports fail."
        )
        evidence = (*signal, context.seen("driver.cuda_init_result"), context.seen("driver.libnvidia_ml_path"))
        problem = Problem(("stray-nvml",))
        yield Finding("driver-library-mismatch", INCOMPATIBLE, WARNING, message, evidence, problem=problem)


def _mismatch_signal(context: Context) -> tuple[Evidence, ...]:
    codes = (
        ("driver.nvml_result", _NVML_MISMATCH),
        ("driver.smi_exit_code", _NVML_MISMATCH),
        ("driver.cuda_init_result", _MISMATCH),
    )
    facts = ((name, context.fact(name), code) for name, code in codes)
    return tuple(context.seen(name) for name, fact, code in facts if isinstance(fact, Known) and fact.value == code)


def _stray(context: Context, kernel: str, cuda: str, path: str, evidence: tuple[Evidence, ...]) -> Finding:
    folder = posixpath.dirname(path)
    message = (
        f"The loader finds libcuda {cuda} in {folder}, but the driver is {kernel}: a stray copy lies before the "
        "driver's own."
    )
    evidence = (*evidence, context.seen("driver.libcuda_path"))
    problem = Problem(("stray-libcuda",), folders=(folder,))
    return Finding("driver-library-mismatch", INCOMPATIBLE, ERROR, message, evidence, problem=problem)


@rule("libcuda-not-on-path")
def libcuda_not_on_path(context: Context) -> Iterator[Finding]:
    """Report a running driver whose libcuda.so.1 the loader does not find."""
    driver, host = context.facts.driver, context.facts.host
    if cuda_starts(context) or not _driver_there(context) or isinstance(driver.libcuda_path, Known):
        return
    if isinstance(host.container, Known) and not (
        was_given_gpus(context) and isinstance(driver.libcuda_elsewhere, Known)
    ):
        return  # driver-not-in-container says it
    context.need(driver.libcuda_path, "driver.libcuda_path")
    others = [
        path
        for path in (driver.libcuda_elsewhere.value if isinstance(driver.libcuda_elsewhere, Known) else ())
        if "/stubs/" not in path and not is_compat(path)
    ]
    if not others and isinstance(host.wsl_version, Known):
        return  # driver-wsl says it
    evidence = [context.seen("driver.libcuda_path")]
    if not others:
        message = "The kernel driver runs, but its library libcuda.so.1 is not installed."
        yield _no_libcuda(message, evidence, Problem(("not-installed",)))
        return
    folder = posixpath.dirname(others[0])
    message = f"libcuda.so.1 lies in {folder}, where the loader does not look."
    evidence.append(context.seen("driver.libcuda_elsewhere", shown=", ".join(others)))
    yield _no_libcuda(message, evidence, Problem(folders=(folder,)))


def _no_libcuda(message: str, evidence: list[Evidence], problem: Problem) -> Finding:
    return Finding("libcuda-not-on-path", INCOMPATIBLE, ERROR, message, tuple(evidence), problem=problem)


def _driver_there(context: Context) -> bool:
    driver = context.facts.driver
    return bool(context.gpus) and (
        isinstance(driver.release, Known) or isinstance(context.facts.host.wsl_version, Known)
    )
