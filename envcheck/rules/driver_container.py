"""Was the container given the GPUs and the driver?"""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import COMPATIBLE, ERROR, INCOMPATIBLE, NOTE, Absent, DeviceNode, Evidence, Finding, Known, Problem
from envcheck.rules.context import Context
from envcheck.rules.gpu_facts import cuda_starts
from envcheck.rules.registry import rule
from envcheck.rules.targets import judged_builds

_NONE = ("", "void", "none")
_SAID_BY_THE_DRIVER = (0, 802, 803, 804)  # results of cuInit that need an open device
_WSL_LIBRARIES = "/usr/lib/wsl/"


def is_plain_linux(context: Context) -> bool:
    """Say whether the driver's kernel side is this machine's own: Linux, no container, no WSL, no Jetson."""
    host = context.facts.host
    elsewhere = (host.container, host.wsl_version, host.jetson_release)
    return context.os in ("linux", "") and not any(isinstance(fact, Known) for fact in elsewhere)


def gpu_nodes(context: Context) -> tuple[DeviceNode, ...]:
    """List the nodes of the GPUs themselves, /dev/nvidia0 and on; nvidiactl alone proves nothing."""
    nodes = context.facts.driver.device_nodes
    found = nodes.value if isinstance(nodes, Known) else ()
    return tuple(node for node in found if node.path[len("/dev/nvidia") :].isdigit())


def was_given_gpus(context: Context) -> bool:
    """Say whether GPUs are in this container's reach: their nodes, NVML's list, or an answer only a driver gives."""
    nvml, result = context.facts.driver.nvml_result, context.facts.driver.cuda_init_result
    listed = any(isinstance(gpu.nvml_index, Known) for gpu in context.gpus)
    listed = listed and isinstance(nvml, Known) and nvml.value == 0
    reached = isinstance(result, Known) and result.value in _SAID_BY_THE_DRIVER
    return bool(gpu_nodes(context)) or listed or reached


def hidden_by_runtime(context: Context) -> bool:
    """Say whether NVIDIA_VISIBLE_DEVICES tells the container runtime to hand in nothing."""
    return context.environment.get("NVIDIA_VISIBLE_DEVICES", "all").strip() in _NONE


def _is_stated(context: Context) -> bool:
    """Say whether the driver and every GPU are stated by ENVCHECK_* variables, not read."""
    stated = [context.facts.driver.release, *(gpu.compute_capability for gpu in context.gpus)]
    return len(stated) > 1 and all(isinstance(fact, Known) and fact.source.kind == "override" for fact in stated)


@rule("driver-not-in-container", goal="any")
def driver_not_in_container(context: Context) -> Iterator[Finding]:
    """Report a container without GPU devices or without the driver's libraries, as bad as it is wanted."""
    if context.target.expect == "cpu" or not isinstance(context.facts.host.container, Known):
        return
    if cuda_starts(context) or isinstance(context.facts.host.jetson_release, Known) or hidden_by_runtime(context):
        return
    wants = wants_gpu(context) or _driver_handed_in(context)
    if isinstance(context.facts.gpus, Absent) and not context.hides_host_gpus:
        return  # the host itself has none: gpu-absent says it
    if _is_stated(context):
        return  # it is another machine that is judged: this one may be where an image is built
    if isinstance(context.facts.driver.libcuda_path, Known) and context.facts.driver.libcuda_path.value.startswith(
        _WSL_LIBRARIES
    ):
        return  # WSL hands in its driver without device nodes
    nodes = context.need(context.facts.driver.device_nodes, "driver.device_nodes")
    if not was_given_gpus(context):
        yield _not_given(context, wants)
    elif nodes is not None and isinstance(context.facts.driver.libcuda_path, Absent) and wants is not None:
        yield _no_library(context)


def _not_given(context: Context, wants: Evidence | None) -> Finding:
    kind = context.facts.host.container.value if isinstance(context.facts.host.container, Known) else "container"
    evidence = [context.seen("driver.device_nodes"), context.seen("host.container")] + ([wants] if wants else [])
    message = f"This {kind} container was not given a GPU: it has no /dev/nvidia0."
    if wants is not None:
        verdict, severity = INCOMPATIBLE, ERROR
    else:
        verdict, severity = COMPATIBLE, NOTE
    return Finding("driver-not-in-container", verdict, severity, message, tuple(evidence), problem=Problem())


def _no_library(context: Context) -> Finding:
    capabilities = context.environment.get("NVIDIA_DRIVER_CAPABILITIES", "")
    limited = capabilities and "compute" not in capabilities and "all" not in capabilities
    why = f": NVIDIA_DRIVER_CAPABILITIES={capabilities} leaves out compute" if limited else ""
    return Finding(
        "driver-not-in-container",
        INCOMPATIBLE,
        ERROR,
        f"This container has the GPU's devices but not the driver's library libcuda.so.1{why}.",
        (context.seen("driver.libcuda_path"), context.seen("driver.device_nodes")),
        problem=Problem(("no-library",)),
    )


def _driver_handed_in(context: Context) -> Evidence | None:
    """Return the driver's own libcuda: only the container runtime puts it into a container."""
    library = context.facts.driver.libcuda_path
    if isinstance(library, Known) and not any(part in library.value for part in ("/compat/", "/stubs/")):
        return context.seen("driver.libcuda_path")
    return None


def wants_gpu(context: Context) -> Evidence | None:
    """Return what in the container or the request asks for a GPU."""
    if context.target.expect == "gpu":
        return Evidence("target expect", "gpu")
    if context.target.requirements:
        return Evidence("target requirements", ", ".join(context.target.requirements))
    devices = context.environment.get("NVIDIA_VISIBLE_DEVICES")
    if devices is not None and devices.strip() not in _NONE:
        return context.seen("host.environment NVIDIA_VISIBLE_DEVICES", context.facts.host.environment, devices)
    build = next(
        (item for item in judged_builds(context) if isinstance(item.cuda_build, Known) and item.cuda_build.value), None
    )
    if build is not None:
        return context.seen("python.frameworks", shown=f"{build.label} is a CUDA build")
    installs = context.facts.toolkits.installs
    if isinstance(installs, Known) and installs.value:
        return context.seen("toolkits.installs", shown=f"CUDA Toolkit in {installs.value[0].root}")
    return None
