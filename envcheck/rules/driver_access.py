"""Whether programs reach the GPUs.

Device nodes, containers, NVSwitch fabric, visible devices, cuInit.
"""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import (
    AT_RUN,
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    Absent,
    DeviceNode,
    Evidence,
    Finding,
    Known,
    Unknown,
    same_release,
)
from envcheck.model.fixes import (
    CreateDeviceNode,
    FindGpuUser,
    OpenDeviceNode,
    PassGpusToContainer,
    ReadKernelLog,
    ReloadMemoryModule,
    RemoveFromLibraryPath,
    RequestGpusFromRuntime,
    RestoreDevices,
    StartFabricManager,
    UnsetVisibleDevices,
)
from envcheck.rules.context import Context, Seen, rule
from envcheck.rules.gpus import (
    cuda_starts,
    gpu_name,
    hides_any_gpu,
    is_data_center,
    numbered_gpus,
    visible_selection,
    was_given_gpus,
)
from envcheck.rules.targets import judged_builds

_ID = "driver-device-nodes"
_UVM = "/dev/nvidia-uvm"
_NO_DEVICE, _UNKNOWN_ERROR = 100, 999  # of cuInit; NVML has the second one, too


@rule(_ID)
def driver_device_nodes(context: Context) -> Iterator[Finding]:
    """Report device nodes that are missing or closed to this user, where CUDA does not start."""
    if not _is_asked(context):
        return
    nodes = context.need(context.driver.device_nodes, "driver.device_nodes") or ()
    unopened = (node for node in nodes if _matters(node) and node.accessible.value is False)
    closed = next(unopened, None)
    if closed is not None:
        yield _report_closed(context, closed)
        return
    result = context.need(context.driver.cuda_init_result, "driver.cuda_init_result")
    paths = tuple(node.path for node in nodes)
    # The nodes appear on demand, made by the setuid nvidia-modprobe: one that is missing matters
    # once CUDA fails.
    missing = _find_missing(context, paths)
    is_barred = context.driver.nvml_result.value == _UNKNOWN_ERROR
    if result == _NO_DEVICE and not missing and is_barred:
        yield _blocked_access(context, paths)
    elif result == _UNKNOWN_ERROR or (result == _NO_DEVICE and missing):
        yield _report_failing(context, missing, paths, result)


def _find_missing(context: Context, paths: tuple[str, ...]) -> str:
    """Name the first node that CUDA cannot do without.

    Any one of a GPU will do, as in a container.
    """
    gpus = {node.path for node in context.gpu_nodes}
    required = (_UVM, next(iter(gpus), "/dev/nvidia0"), "/dev/nvidiactl")
    return next((path for path in required if path not in paths), "")


def _is_asked(context: Context) -> bool:
    host = context.host
    if not context.gpus or not context.driver.kernel_module_version.value or cuda_starts(context):
        return False
    if host.wsl_version.value or host.jetson_release.value:
        return False
    # A container without any GPU's node is the finding of driver-not-in-container.
    return not host.container.value or was_given_gpus(context)


def _matters(node: DeviceNode) -> bool:
    name = node.path[len("/dev/nvidia") :]
    return name in ("ctl", "-uvm") or name.isdigit()


def _report_closed(context: Context, node: DeviceNode) -> Finding:
    return context.report(
        f"This user cannot open {node.path} ({node.mode or 'mode unknown'});"
        " CUDA needs to read and write it.",
        context.seen(node.path, node.accessible),
        cure=OpenDeviceNode(node.path),
    )


def _blocked_access(context: Context, paths: tuple[str, ...]) -> Finding:
    blame = "Job systems do this to a job without a GPU."
    if context.host.container.value:
        blame = "A container loses its devices when systemd reloads on the host."
    return context.report(
        "The device nodes exist, but neither NVML (Unknown Error) nor CUDA (no device) reaches a"
        f" GPU: the kernel blocks access. {blame}",
        ("driver.device_nodes", " ".join(paths)),
        *context.known("driver.nvml_result", "driver.cuda_init_result", "host.container"),
        cure=RestoreDevices(),
    )


def _report_failing(
    context: Context, missing: str, paths: tuple[str, ...], result: int | None
) -> Finding:
    end = f"CUDA does not start (cuInit returned {result})"
    if missing:
        message = f"The device node {missing} is missing, and {end}."
    else:
        message = f"{end}, although the device nodes exist."
    needs_node = missing or context.host.container.value
    cure = CreateDeviceNode(missing or _UVM) if needs_node else ReloadMemoryModule()
    return context.report(
        message,
        ("driver.device_nodes", " ".join(paths) or "none"),
        "driver.cuda_init_result",
        "driver.uvm_loaded",
        cure=cure,
    )


_WSL_LIBRARIES = "/usr/lib/wsl/"


def _is_stated(context: Context) -> bool:
    """Say whether the driver and every GPU are stated by ENVCHECK_* variables, not read."""
    facts = [context.driver.release, *(gpu.compute_capability for gpu in context.gpus)]
    return len(facts) > 1 and all(
        isinstance(fact, Known) and fact.source.kind == "override" for fact in facts
    )


@rule("driver-not-in-container", goal="any")
def driver_not_in_container(context: Context) -> Iterator[Finding]:
    """Report a container without GPU devices or the driver's libraries."""
    if context.expect == "cpu" or not context.host.container.value:
        return
    if cuda_starts(context) or context.host.jetson_release.value or context.asks_runtime is False:
        return
    wants = wants_gpu(context) or _driver_handed_in(context)
    if context.lacks_gpu and not context.hides_host_gpus:
        return  # the host itself has none: gpu-absent says it
    if _is_stated(context) and context.driver.libcuda_path != AT_RUN:
        return  # it is another machine that is judged: this one may be where an image is built
    if (context.driver.libcuda_path.value or "").startswith(_WSL_LIBRARIES):
        return  # WSL hands in its driver without device nodes
    nodes = context.need(context.driver.device_nodes, "driver.device_nodes")
    if not was_given_gpus(context):
        yield _not_given(context, wants)
    elif (
        nodes is not None and isinstance(context.driver.libcuda_path, Absent) and wants is not None
    ):
        yield _no_library(context)


def _not_given(context: Context, wants: Seen | None) -> Finding:
    return context.report(
        f"No GPU is passed through to this {context.host.container.value} container: it has no"
        " /dev/nvidia0.",
        "driver.device_nodes",
        "host.container",
        *([wants] if wants else []),
        verdict=INCOMPATIBLE if wants else COMPATIBLE,
        severity=ERROR if wants else NOTE,
        cure=PassGpusToContainer(),
    )


def _no_library(context: Context) -> Finding:
    capabilities = context.environment.get("NVIDIA_DRIVER_CAPABILITIES", "")
    limited = capabilities and "compute" not in capabilities and "all" not in capabilities
    reason = ""
    if limited:
        reason = f": NVIDIA_DRIVER_CAPABILITIES={capabilities} leaves out compute"
    return context.report(
        f"This container has the GPU's devices but not the driver's library libcuda.so.1{reason}.",
        "driver.libcuda_path",
        "driver.device_nodes",
        cure=PassGpusToContainer(lacks_library=True),
    )


def _driver_handed_in(context: Context) -> Seen | None:
    """Return the driver's own libcuda: only the container runtime puts it into a container."""
    library = context.driver.libcuda_path.value
    if library and not any(part in library for part in ("/compat/", "/stubs/")):
        return "driver.libcuda_path"
    return None


def wants_gpu(context: Context) -> Seen | None:
    """Return what in the container or the request asks for a GPU."""
    if context.expect == "gpu":
        return Evidence("target expect", "gpu")
    if context.names_releases:
        return Evidence("target requirements", ", ".join(context.target.requirements))
    name = "NVIDIA_VISIBLE_DEVICES"
    if context.asks_runtime:
        value = context.environment[name]
        return context.seen(f"host.environment {name}", context.host.environment, value)
    build = next((item for item in judged_builds(context) if item.cuda_build.value), None)
    if build is not None:
        return ("python.frameworks", f"{build.label} is a CUDA build")
    if context.installs:
        return ("toolkits.installs", context.installs[0].label)
    return None


_SYSTEM_NOT_READY = 802


@rule("fabric-manager")
def fabric_manager(context: Context) -> Iterator[Finding]:
    """Report NVSwitch machines with a fabric manager that is stopped or does not match."""
    driver = context.driver
    if (
        not context.gpus
        or cuda_starts(context)
        or all(is_data_center(gpu) is False for gpu in context.gpus)
    ):
        return
    not_ready = driver.cuda_init_result.value == _SYSTEM_NOT_READY
    release, manager = driver.release.value, driver.fabric_manager_version.value
    message, fact = "", "driver.cuda_init_result"
    has_module = not isinstance(driver.kernel_module_version, Absent)
    if not_ready and not driver.nvswitch_present.value:
        message = (
            "CUDA reports that the system is not yet initialized (802). NVSwitch connects these"
            " GPUs, and its fabric manager does not run or does not match the driver."
        )
    elif not (context.need(driver.nvswitch_present, "driver.nvswitch_present") and has_module):
        return
    elif context.host.container.value:
        if not_ready:
            message = (
                "CUDA waits for the fabric manager of the host (802), which does not run or does"
                " not match the driver."
            )
    elif not context.need(driver.fabric_manager_running, "driver.fabric_manager_running"):
        fact = "driver.fabric_manager_running"
        message = (
            "NVSwitch connects the GPUs of this machine, but its fabric manager, which CUDA waits"
            " for, is not running."
        )
    elif release and manager and not same_release(release, manager):
        fact = "driver.fabric_manager_version"
        message = (
            f"The fabric manager is {manager} and the driver {release}; they must be"
            " the same release."
        )
    if message:
        yield context.report(message, fact, "driver.nvswitch_present", cure=StartFabricManager())


_VISIBLE_DEVICES = "visible-devices-hidden"
_VARIABLE = "CUDA_VISIBLE_DEVICES"


@rule(_VISIBLE_DEVICES, needs=("host.environment",))
def cuda_visible_devices(context: Context, environment: dict[str, str] | None) -> Iterator[Finding]:
    """Say which GPUs CUDA_VISIBLE_DEVICES leaves: none is an error, some a note."""
    if environment is None or _VARIABLE not in environment:
        return
    value = environment[_VARIABLE]
    gpus = numbered_gpus(context)
    if not hides_any_gpu(value):
        context.need(context.facts.gpus, "gpus")
    if not gpus and not isinstance(context.facts.gpus, Unknown):
        return
    selection = visible_selection(value, gpus)
    shown = f"{_VARIABLE}={value!r}"
    verdict, severity = INCOMPATIBLE, ERROR
    if not selection.decided:
        verdict = UNDETERMINED
        message = f"Which GPUs {shown} leaves visible is unknown: {selection.why}."
    elif not selection.visible:
        message = f"{shown} hides every GPU of this machine: {selection.why}."
    elif len(selection.visible) < len(gpus):
        verdict, severity = COMPATIBLE, NOTE
        hidden = len(gpus) - len(selection.visible)
        reason = f" ({selection.why})" if selection.why else ""
        message = f"{shown} hides {hidden} of {len(gpus)} GPUs{reason}."
    else:
        return
    yield context.report(
        message,
        context.show_variable(_VARIABLE),
        ("gpus", ", ".join(map(gpu_name, context.gpus)) or "whichever there are"),
        verdict=verdict,
        severity=severity,
        cure=None if severity == NOTE else UnsetVisibleDevices(),
    )


@rule(_VISIBLE_DEVICES, goal="any")
def nvidia_visible_devices(context: Context) -> Iterator[Finding]:
    """Report a container whose NVIDIA_VISIBLE_DEVICES asks its runtime for no GPU."""
    if not context.host.container.value or context.expect == "cpu":
        return
    if context.asks_runtime is not False:
        return
    if context.lacks_gpu and context.expect != "gpu":
        return
    # Other ways of handing GPUs in leave the variable at "void": only without any sign of them it
    # counts.
    is_unknown = isinstance(context.driver.device_nodes, Unknown)
    if was_given_gpus(context) if is_unknown else context.gpu_nodes:
        return
    name, wants = "NVIDIA_VISIBLE_DEVICES", wants_gpu(context)
    yield context.report(
        f"{name}={context.environment[name]!r} tells the container runtime to pass no GPU through."
        f"{'' if wants else ' Nothing here needs one.'}",
        context.show_variable(name),
        "driver.device_nodes",
        *([wants] if wants else []),
        verdict=INCOMPATIBLE if wants else COMPATIBLE,
        severity=ERROR if wants else NOTE,
        cure=RequestGpusFromRuntime() if wants else None,
    )


_STUB = 34
_BUSY = 46


@rule("toolkit-path-conflict")
def stub_library(context: Context) -> Iterator[Finding]:
    """Report the toolkit's stub libcuda, made for linking, in place of the driver's."""
    driver = context.driver
    path = driver.libcuda_path.value or ""
    if context.driver.cuda_init_result.value == _STUB or (path and "/stubs/" in path):
        folder = path.rpartition("/")[0]
        named = folder or "the toolkit's lib64/stubs"
        yield context.report(
            f"The loader finds a stub of libcuda in {named}, made for linking only, before the"
            " driver's library.",
            "driver.libcuda_path",
            "driver.cuda_init_result",
            cure=RemoveFromLibraryPath((folder or "lib64/stubs",)),
        )


@rule("gpu-memory-held", last=True)
def devices_busy(context: Context) -> Iterator[Finding]:
    """Report GPUs that CUDA calls busy although no compute mode shown explains it."""
    if context.gpus and context.driver.cuda_init_result.value == _BUSY:
        yield context.report(
            "CUDA calls the GPUs busy or unavailable (46): another process has exclusive use of"
            " them, or a dead one still holds them.",
            "driver.cuda_init_result",
            cure=FindGpuUser(),
        )


@rule("driver-missing", last=True)
def cuda_does_not_start(context: Context) -> Iterator[Finding]:
    """Report a driver on which CUDA does not start, where nothing else was found."""
    result = context.driver.cuda_init_result.value
    if not context.gpus or result in (None, 0, _STUB, _BUSY):
        return
    message = (
        f"The driver is loaded, but CUDA does not start on it (cuInit returned {result}); nothing"
        " else that was read explains why."
    )
    if result == _NO_DEVICE and all(isinstance(gpu.nvml_index, Absent) for gpu in context.gpus):
        message = (
            f"The driver runs but lists no GPU, although {gpu_name(context.gpus[0])} is on the bus:"
            " it could not start the GPU, or this job has none."
        )
    yield context.report(message, "driver.cuda_init_result", "driver.release", cure=ReadKernelLog())
