"""TensorFlow 2: list its devices in every way it has, then place a matmul on each."""

import os
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

if TYPE_CHECKING:
    from envcheck.smoke.children.start import Report, Step

LEFT, RIGHT = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
PRODUCT = [[22.0, 28.0], [49.0, 64.0]]


def run(report: "Report") -> Any:
    """Open TensorFlow, compare its lists of devices and multiply on each; return (tensorflow, devices, place_of)."""
    tf = load(report)
    if tf is None:
        return None
    devices = list_devices(report, tf)
    if devices is None:
        return None
    for device in devices:
        multiply(report, tf, device)
        if not device.startswith("XLA"):
            multiply_in_function(report, tf, device)
    return tf, devices, place_of


def load(report: "Report") -> Any:
    """Import TensorFlow with its log open, devices exactly as asked for, and no more GPU memory than needed."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    with report.step("import") as step:
        begun = time.time()
        import tensorflow as tf

        seconds = time.time() - begun
        report.framework("tensorflow", tf.__version__, seconds, cuda_build=bool(tf.test.is_built_with_cuda()))
        tf.config.set_soft_device_placement(False)
        tf.debugging.set_log_device_placement(True)
        prepare(report, tf)
        step.passed("TensorFlow %s, imported in %.1f s" % (tf.__version__, seconds))
        return tf
    return None


def prepare(report: "Report", tf: Any) -> None:
    """Let memory grow on each GPU; split the CPU in two where two devices are to be tested without GPUs."""
    if report.gpu != "cpu" and report.level == "full":
        report.free_before = __import__("smoke_card").memory()
    physical = listing(tf, "list_physical_devices")
    for gpu in physical("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    if report.gpu == "cpu" and report.level == "full":
        two = [tf.config.experimental.VirtualDeviceConfiguration() for _ in range(2)]
        tf.config.experimental.set_virtual_device_configuration(physical("CPU")[0], two)


def listing(tf: Any, name: str) -> Any:
    """Find a listing function, which was experimental before TensorFlow 2.1."""
    return getattr(tf.config, name, None) or getattr(tf.config.experimental, name)


def list_devices(report: "Report", tf: Any) -> Optional[List[str]]:
    """List devices in each way; return them as CPU:0, GPU:0, or None where a GPU is asked for and there is none."""
    found = {}  # type: Dict[str, List[str]]
    with report.step("devices") as step:
        from tensorflow.python.client import device_lib

        found["list_physical_devices"] = [short(each.name) for each in listing(tf, "list_physical_devices")()]
        found["list_logical_devices"] = [short(each.name) for each in listing(tf, "list_logical_devices")()]
        local = device_lib.list_local_devices()
        found["list_local_devices"] = [short(each.name) for each in local]
        found["gpu_device_name"] = [short(name) for name in [tf.test.gpu_device_name()] if name]
        for way, names in found.items():
            report.devices(way, names)
        judge_listing(step, found, 0 if report.gpu == "cpu" else report.count)
        if step.said["outcome"] == "failed" and not tf.test.is_built_with_cuda():
            step.said["finding"] = "framework-cpu-build"
    if step.said["outcome"] == "error":
        return None
    xla = [name for name in found["list_local_devices"] if name.startswith("XLA")]
    names = list(dict.fromkeys(found["list_logical_devices"] + xla))
    has_gpu = any(name.startswith("GPU") for name in names)
    return names if has_gpu or report.gpu == "cpu" else None


def judge_listing(step: "Step", found: Dict[str, List[str]], wanted: int) -> None:
    """Say whether as many GPUs are listed as are visible, the same in each way."""
    counted = {way: len([n for n in names if n.startswith("GPU")]) for way, names in found.items()}
    logical = counted["list_logical_devices"]
    if logical < wanted:
        step.failed("TensorFlow lists %d of %d GPU%s" % (logical, wanted, "s" if wanted > 1 else ""))
    elif counted["list_local_devices"] != logical or bool(counted["gpu_device_name"]) != bool(logical):
        step.failed("its ways of listing GPUs disagree: %s" % counted)
    else:
        step.passed(", ".join(found["list_logical_devices"]))


def short(name: str) -> str:
    """Shorten /job:localhost/replica:0/task:0/device:GPU:0 and /physical_device:GPU:0 to GPU:0."""
    return name.rsplit("device:", 1)[-1].lstrip("/")


def place_of(tensor: Any) -> str:
    """Return the device that holds a tensor's memory."""
    return short(getattr(tensor, "backing_device", None) or tensor.device)


def multiply(report: "Report", tf: Any, device: str) -> None:
    """Multiply on a device, op by op."""
    with report.step("matmul", device) as step:
        with tf.device("/device:" + device):
            product = tf.matmul(tf.constant(LEFT), tf.constant(RIGHT))
        step.judge(product.numpy().tolist(), PRODUCT, place_of(product))


def multiply_in_function(report: "Report", tf: Any, device: str) -> None:
    """Multiply on a device inside a tf.function."""
    with report.step("function", device) as step:

        @tf.function  # type: ignore[untyped-decorator]
        def product(left: Any, right: Any) -> Any:
            with tf.device("/device:" + device):
                return tf.matmul(left, right)

        with tf.device("/device:" + device):
            found = product(tf.constant(LEFT), tf.constant(RIGHT))
        step.judge(found.numpy().tolist(), PRODUCT, place_of(found))
