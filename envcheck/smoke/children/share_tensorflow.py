"""TensorFlow 1 and 2: give the process a quarter of the card, and see that it takes no more; in its own process."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envcheck.smoke.children.start import Report

SHARE = 0.25
BESIDE = 3 << 29  # bytes that CUDA and its libraries take beside the share


def run(report: "Report") -> Any:
    """Compute once with per_process_gpu_memory_fraction set; ask the driver how much is gone."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    card = __import__("card")
    with report.step("memory share", "GPU:0") as step:
        before = card.memory()
        import tensorflow as tf

        v1 = tf.compat.v1 if tf.__version__.split(".")[0] != "1" else tf
        options = v1.GPUOptions(per_process_gpu_memory_fraction=SHARE)
        with tf.Graph().as_default(), v1.Session(config=v1.ConfigProto(gpu_options=options)) as session:
            with tf.device("/device:GPU:0"):
                product = tf.matmul(tf.constant([[1.0, 2.0]]), tf.constant([[3.0], [4.0]]))
            right = session.run(product).tolist() == [[11.0]]
            now = card.memory()
        if before is None or now is None:
            step.skipped("the driver does not tell the free memory")
            return
        held, allowed = before[0] - now[0], SHARE * before[1] + BESIDE
        said = "holds %.1f GiB of %.1f, allowed are %.1f" % (held / 2.0**30, before[1] / 2.0**30, allowed / 2.0**30)
        (step.passed if right and held <= allowed else step.failed)(said)
