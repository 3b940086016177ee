"""TensorFlow 1: list its devices in every way it has, then place a matmul on each in a session."""

import os
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

if TYPE_CHECKING:
    from envcheck.smoke.children.start import Report

LEFT, RIGHT = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
PRODUCT = [[22.0, 28.0], [49.0, 64.0]]


def run(report: "Report") -> Any:
    """Open TensorFlow, list its devices and multiply on each; return (tensorflow, devices, run_traced, config)."""
    tf = load(report)
    devices = None if tf is None else list_devices(report, tf)
    if devices is None:
        return None
    for device in devices:
        multiply(report, tf, device)
    return tf, devices, run_traced, config


def load(report: "Report") -> Any:
    """Import TensorFlow with its log open."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    if report.gpu != "cpu" and report.level == "full":
        report.free_before = __import__("smoke_card").memory()
    with report.step("import") as step:
        begun = time.time()
        import tensorflow as tf

        seconds = time.time() - begun
        report.framework("tensorflow", tf.__version__, seconds, cuda_build=bool(tf.test.is_built_with_cuda()))
        step.passed("TensorFlow %s, imported in %.1f s" % (tf.__version__, seconds))
        return tf
    return None


def config(report: "Report", tf: Any, **options: Any) -> Any:
    """Make a session's options: devices exactly as asked for and logged, no more GPU memory than needed."""
    made = tf.ConfigProto(**dict({"allow_soft_placement": False, "log_device_placement": True}, **options))
    made.gpu_options.allow_growth = True
    if report.gpu == "cpu" and report.level == "full":
        made.device_count["CPU"] = 2
    return made


def list_devices(report: "Report", tf: Any) -> Optional[List[str]]:
    """List devices in each way; return them as CPU:0, GPU:0, or None where a GPU is asked for and there is none."""
    found: Dict[str, List[str]] = {}
    with report.step("devices") as step:
        from tensorflow.python.client import device_lib

        with tf.Session(config=config(report, tf)) as session:
            found["session.list_devices"] = [short(each.name) for each in session.list_devices()]
        found["list_local_devices"] = [short(each.name) for each in device_lib.list_local_devices(config(report, tf))]
        found["gpu_device_name"] = [short(name) for name in [tf.test.gpu_device_name()] if name]
        for way, names in found.items():
            report.devices(way, names)
        counted = {way: len([name for name in names if name.startswith("GPU")]) for way, names in found.items()}
        wanted, listed = 0 if report.gpu == "cpu" else report.count, counted["session.list_devices"]
        if listed < wanted:
            cause = "" if tf.test.is_built_with_cuda() else "framework-cpu-build"
            step.failed("TensorFlow lists %d of %d GPU%s" % (listed, wanted, "s" if wanted > 1 else ""), cause)
        elif counted["list_local_devices"] != listed or bool(counted["gpu_device_name"]) != bool(listed):
            step.failed("its ways of listing GPUs disagree: %s" % counted)
        else:
            step.passed(", ".join(found["session.list_devices"]))
        return found["session.list_devices"] if listed or report.gpu == "cpu" else None
    return None


def short(name: str) -> str:
    """Shorten /job:localhost/replica:0/task:0/device:GPU:0, or the older /gpu:0, to GPU:0."""
    return name.rsplit("device:", 1)[-1].rsplit("/", 1)[-1].upper()


def multiply(report: "Report", tf: Any, device: str) -> None:
    """Multiply on a device in a session of its own, and read from the run's metadata where that was.

    The numbers are fed: a product of constants TensorFlow computes on the CPU before the graph runs.
    """
    with report.step("matmul", device) as step, tf.Graph().as_default():
        with tf.device("/device:" + device):
            fed = {tf.placeholder(tf.float32, [len(each), len(each[0])]): each for each in (LEFT, RIGHT)}
            product = tf.matmul(*fed, name="product")
        found, place = run_traced(report, tf, product, fed)
        step.judge(found.tolist(), PRODUCT, place)


def run_traced(report: "Report", tf: Any, product: Any, fed: Any, **options: Any) -> Tuple[Any, str]:
    """Run one operation; return its value and the device that computed it, by the run's own statistics."""
    metadata = tf.RunMetadata()
    with tf.Session(config=config(report, tf, **options)) as session:
        traced = tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE)  # a full one needs CUPTI
        found = session.run(product, fed, options=traced, run_metadata=metadata)
    places = [
        short(stats.device)
        for stats in metadata.step_stats.dev_stats
        for node in stats.node_stats
        if node.node_name.split(":")[0] == product.op.name and "stream" not in stats.device
    ]
    return found, places[0] if places else "no device TensorFlow names"
