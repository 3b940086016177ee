"""TensorFlow 1 and 2: give the process a quarter of the card, and see that it takes no more; in its own process."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envcheck.smoke.children.start import Report


def run(report: "Report") -> Any:
    """Compute once with per_process_gpu_memory_fraction set; ask the driver how much is gone."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    card = __import__("smoke_card")
    with report.step("memory share", "GPU:0") as step:
        before = card.memory()
        import tensorflow as tf

        v1 = tf.compat.v1 if tf.__version__.split(".")[0] != "1" else tf
        options = v1.GPUOptions(per_process_gpu_memory_fraction=card.SHARE)
        with tf.Graph().as_default(), v1.Session(config=v1.ConfigProto(gpu_options=options)) as session:
            with tf.device("/device:GPU:0"):
                left, right = v1.placeholder("float32", [1, 2]), v1.placeholder("float32", [2, 1])
                product = tf.matmul(left, right)
            found = session.run(product, {left: [[1.0, 2.0]], right: [[3.0], [4.0]]}).tolist()
            card.judge_share(step, before, right=found == [[11.0]])
