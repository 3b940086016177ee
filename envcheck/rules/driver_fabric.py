"""Does the fabric manager run where GPUs are joined by NVSwitch?"""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import ERROR, INCOMPATIBLE, Absent, Finding, Known, Problem, same_release
from envcheck.rules.context import Context
from envcheck.rules.gpu_facts import cuda_starts, is_data_center
from envcheck.rules.registry import rule

_SYSTEM_NOT_READY = 802


@rule("fabric-manager")
def fabric_manager(context: Context) -> Iterator[Finding]:
    """Report NVSwitch machines whose fabric manager does not run or is of another release than the driver."""
    driver = context.facts.driver
    if not context.gpus or cuda_starts(context) or all(is_data_center(gpu) is False for gpu in context.gpus):
        return
    not_ready = isinstance(driver.cuda_init_result, Known) and driver.cuda_init_result.value == _SYSTEM_NOT_READY
    if not_ready and not (isinstance(driver.nvswitch_present, Known) and driver.nvswitch_present.value):
        message = (
            "CUDA says that the system is not yet initialized (802): the GPUs are joined by NVSwitch, and the "
            "fabric manager, which must run first, does not run or does not fit the driver."
        )
        yield _fabric(context, message, "driver.cuda_init_result")
        return
    if not context.need(driver.nvswitch_present, "driver.nvswitch_present") or isinstance(
        driver.kernel_module_version, Absent
    ):
        return
    if isinstance(context.facts.host.container, Known):
        if not_ready:
            yield _fabric(
                context,
                "CUDA waits for the fabric manager of the host (802), which does not run or does not fit the driver.",
                "driver.cuda_init_result",
            )
        return
    release, own = driver.release, driver.fabric_manager_version
    if not context.need(driver.fabric_manager_running, "driver.fabric_manager_running"):
        yield _fabric(
            context,
            "The GPUs of this machine are joined by NVSwitch, and the fabric manager, which CUDA waits for, is "
            "not running.",
            "driver.fabric_manager_running",
        )
    elif isinstance(release, Known) and isinstance(own, Known) and not same_release(release.value, own.value):
        yield _fabric(
            context,
            f"The fabric manager is {own.value} and the driver {release.value}; they must be the same release.",
            "driver.fabric_manager_version",
        )


def _fabric(context: Context, message: str, seen: str) -> Finding:
    return Finding(
        "fabric-manager",
        INCOMPATIBLE,
        ERROR,
        message,
        (context.seen(seen), context.seen("driver.nvswitch_present")),
        problem=Problem(),
    )
