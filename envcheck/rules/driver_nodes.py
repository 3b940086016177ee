"""Are the driver's device nodes there, and may this user open them?"""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import ERROR, INCOMPATIBLE, DeviceNode, Evidence, Finding, Known, Problem
from envcheck.rules.context import Context
from envcheck.rules.driver_container import gpu_nodes, was_given_gpus
from envcheck.rules.gpu_facts import cuda_starts
from envcheck.rules.registry import rule

_ID = "driver-device-nodes"
_UVM = "/dev/nvidia-uvm"
_NO_DEVICE, _UNKNOWN_ERROR = 100, 999  # of cuInit; NVML has the second one, too


@rule(_ID)
def driver_device_nodes(context: Context) -> Iterator[Finding]:
    """Report device nodes that are missing or closed to this user, where CUDA does not start."""
    if not _applies(context):
        return
    listed = context.need(context.facts.driver.device_nodes, "driver.device_nodes") or ()
    closed = next((node for node in listed if _matters(node) and _is_closed(node)), None)
    if closed is not None:
        yield _closed(context, closed)
        return
    result = context.need(context.facts.driver.cuda_init_result, "driver.cuda_init_result")
    paths = tuple(node.path for node in listed)
    # The nodes appear on demand, made by the setuid nvidia-modprobe: one that is missing matters once CUDA fails.
    missing = _missing(context, paths)
    if result == _NO_DEVICE and not missing and _is_barred(context):
        yield _barred(context, paths)
    elif result == _UNKNOWN_ERROR or (result == _NO_DEVICE and missing):
        yield _failing(context, missing, paths, result)


def _missing(context: Context, paths: tuple[str, ...]) -> str:
    """Name the first node that CUDA cannot do without; any one of a GPU will do, as in a container."""
    gpus = {node.path for node in gpu_nodes(context)}
    needed = (_UVM, next(iter(gpus), "/dev/nvidia0"), "/dev/nvidiactl")
    return next((path for path in needed if path not in paths), "")


def _is_barred(context: Context) -> bool:
    nvml = context.facts.driver.nvml_result
    return isinstance(nvml, Known) and nvml.value == _UNKNOWN_ERROR


def _applies(context: Context) -> bool:
    host = context.facts.host
    if not context.gpus or not isinstance(context.facts.driver.kernel_module_version, Known) or cuda_starts(context):
        return False
    if isinstance(host.wsl_version, Known) or isinstance(host.jetson_release, Known):
        return False
    # A container without any GPU's node is the finding of driver-not-in-container.
    return not isinstance(host.container, Known) or was_given_gpus(context)


def _matters(node: DeviceNode) -> bool:
    name = node.path[len("/dev/nvidia") :]
    return name in ("ctl", "-uvm") or name.isdigit()


def _is_closed(node: DeviceNode) -> bool:
    return isinstance(node.accessible, Known) and not node.accessible.value


def _closed(context: Context, node: DeviceNode) -> Finding:
    message = f"This user may not open {node.path} ({node.mode or 'mode unknown'}); CUDA needs to read and write it."
    return _finding(message, (context.seen(node.path, node.accessible),), "closed", node.path)


def _barred(context: Context, paths: tuple[str, ...]) -> Finding:
    names = ("driver.nvml_result", "driver.cuda_init_result", "host.container")
    evidence = (
        context.seen("driver.device_nodes", shown=" ".join(paths)),
        *(context.seen(name) for name in names if isinstance(context.fact(name), Known)),
    )
    told = "but neither NVML (Unknown Error) nor CUDA (no device) gets through to a GPU: the kernel bars the way"
    if isinstance(context.facts.host.container, Known):
        message = f"The device nodes are there, {told}. A container loses its devices when systemd reloads on the host."
    else:
        message = f"The device nodes are there, {told}, as a job system does for a job without a GPU."
    return _finding(message, evidence, "barred")


def _failing(context: Context, missing: str, paths: tuple[str, ...], result: int | None) -> Finding:
    end = f"CUDA does not start (cuInit returned {result})"
    message = (
        f"The device node {missing} is missing, and {end}." if missing else f"{end}, though the device nodes are there."
    )
    evidence = (
        context.seen("driver.device_nodes", shown=" ".join(paths) or "none"),
        context.seen("driver.cuda_init_result"),
        context.seen("driver.uvm_loaded"),
    )
    in_container = isinstance(context.facts.host.container, Known)
    return _finding(message, evidence, "missing" if missing or in_container else "bad-state", missing or _UVM)


def _finding(message: str, evidence: tuple[Evidence, ...], case: str, node: str = "") -> Finding:
    problem = Problem((case,), values=(("node", node),))
    return Finding(_ID, INCOMPATIBLE, ERROR, message, evidence, problem=problem)
