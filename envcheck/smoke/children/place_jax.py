"""JAX: list its devices, then multiply on each and see where the result lies."""

import importlib.util
import os
import pkgutil
import time
from typing import TYPE_CHECKING, Any, List, Optional

if TYPE_CHECKING:
    from envcheck.smoke.children.start import Report

LEFT, RIGHT = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
PRODUCT = [[22.0, 28.0], [49.0, 64.0]]


def run(report: "Report") -> Any:
    """Open JAX, list its devices and multiply on each; return (jax, devices, place_of, device_of)."""
    jax = load(report)
    devices = None if jax is None else list_devices(report, jax)
    if devices is None:
        return None
    for device in devices:
        multiply(report, jax, device)
    return jax, devices, place_of, device_of


def load(report: "Report") -> Any:
    """Import JAX, to take no more GPU memory than needed; two CPU devices stand for two GPUs in the full CPU test."""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if report.gpu == "cpu" and report.level == "full":
        flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
        os.environ["XLA_FLAGS"] = flags.strip()
    if report.gpu != "cpu" and report.level == "full":
        report.free_before = __import__("smoke_card").memory()
    with report.step("import") as step:
        begun = time.time()
        import jax
        import jaxlib

        seconds = time.time() - begun
        report.framework("jax", jax.__version__, seconds, jaxlib=str(getattr(jaxlib, "__version__", "")))
        step.passed("JAX %s, imported in %.1f s" % (jax.__version__, seconds))
        return jax
    return None


def list_devices(report: "Report", jax: Any) -> Optional[List[str]]:
    """List devices; return them as CPU:0, GPU:0, or None where a GPU is asked for and there is none."""
    wanted = 0 if report.gpu == "cpu" else report.count
    with report.step("devices") as step:
        report.devices("jax.devices", [str(device) for device in jax.devices()])
        report.devices("jax.default_backend", [jax.default_backend()])
        processors, gpus = jax.devices("cpu"), list_gpus(jax) if wanted else []
        report.devices("jax.devices('cpu')", [str(device) for device in processors])
        report.devices("jax.devices('gpu')", [str(device) for device in gpus])
        names = ["CPU:%d" % index for index in range(len(processors))]
        names += ["GPU:%d" % index for index in range(len(gpus))]
        if len(gpus) < wanted:
            cause = "" if gpus or has_cuda() else "framework-cpu-build"
            step.failed("JAX lists %d of %d GPU%s" % (len(gpus), wanted, "s" if wanted > 1 else ""), cause)
        else:
            step.passed(", ".join("%s (%s)" % (name, device_of(jax, name).device_kind) for name in names))
        return names if gpus or not wanted else None
    return None


def list_gpus(jax: Any) -> List[Any]:
    """List JAX's GPUs; why there is none its log says: the error is the same for a build without CUDA."""
    try:
        return list(jax.devices("gpu"))
    except RuntimeError:
        return []


def has_cuda() -> bool:
    """Say whether this JAX has a plugin for CUDA, or is of the time when its library was built with it."""
    import jaxlib

    spec = importlib.util.find_spec("jax_plugins")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    names = [module.name for module in pkgutil.iter_modules(folders)]
    return any("cuda" in name for name in names) or "cuda" in str(getattr(jaxlib, "__version__", ""))


def device_of(jax: Any, name: str) -> Any:
    """Return JAX's device for CPU:0 or GPU:0."""
    kind, index = name.split(":")
    return jax.devices(kind.lower())[int(index)]


def place_of(jax: Any, array: Any) -> str:
    """Return the device that holds an array; JAX before 0.4.31 names it by another attribute."""
    held = array.devices() if hasattr(array, "devices") else {array.device()}
    names = [kind + ":%d" % jax.devices(kind.lower()).index(each) for each in held for kind in [kind_of(each)]]
    return "+".join(sorted(names))


def kind_of(device: Any) -> str:
    """Return CPU or GPU."""
    return "GPU" if device.platform in ("gpu", "cuda") else str(device.platform).upper()


def multiply(report: "Report", jax: Any, device: str) -> None:
    """Multiply on a device."""
    import numpy as np

    with report.step("matmul", device) as step:
        values = [np.array(each, dtype="float32") for each in (LEFT, RIGHT)]
        left, right = (jax.device_put(each, device_of(jax, device)) for each in values)
        found = jax.numpy.matmul(left, right)
        step.judge(np.asarray(found).tolist(), PRODUCT, place_of(jax, found))
