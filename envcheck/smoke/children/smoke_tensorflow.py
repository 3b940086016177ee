"""What the tests of TensorFlow 1 and 2 share.

The import with an open log, MirroredStrategy, a share of the memory.
"""

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List

import smoke_card as card
from smoke_engine import Engine, SkippedError

if TYPE_CHECKING:
    from start import Report, Step


class TensorFlow(Engine):
    """Any release of TensorFlow."""

    name, title = "tensorflow", "TensorFlow"

    def before_import(self, report: "Report") -> None:
        """Open its log."""
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
        super().before_import(report)

    def load(self) -> Any:
        """Import TensorFlow."""
        import tensorflow as tf

        self._tf: Any = tf
        return tf

    def about_build(self) -> Dict[str, Any]:
        """Say whether it was built with CUDA."""
        return {"cuda_build": bool(self._tf.test.is_built_with_cuda())}

    def product_with_exponential(self, left: Any, right: Any) -> Any:
        """Multiply, and take an exponential too, for which XLA needs libdevice on a GPU."""
        tf = self._tf
        return tf.matmul(left, right) + 0.0 * tf.exp(tf.matmul(left, right))

    def judge_listing(
        self, report: "Report", step: "Step", found: Dict[str, List[str]], main: str
    ) -> int:
        """Say whether as many GPUs are listed as are visible, the same in each way.

        Return those of the `main` one.
        """
        for way, names in found.items():
            report.devices(way, names)
        counted = {
            way: len([name for name in names if name.startswith("GPU")])
            for way, names in found.items()
        }
        wanted = 0 if report.gpu == "cpu" else report.count
        listed = counted[main]
        if listed < wanted:
            cause = "framework-cpu-build"
            if self._tf.test.is_built_with_cuda():
                cause = ""
            step.failed(
                "TensorFlow lists %d of %d GPU%s" % (listed, wanted, "s" if wanted > 1 else ""),
                cause,
            )
        elif counted["list_local_devices"] != listed or bool(counted["gpu_device_name"]) != bool(
            listed
        ):
            step.failed("its ways of listing GPUs disagree: %s" % counted)
        else:
            step.passed(", ".join(found[main]))
        return listed


def over(tf: Any, targets: List[str]) -> Any:
    """Return the strategy over these devices."""
    if not hasattr(tf, "distribute"):
        raise SkippedError("MirroredStrategy came to tf.distribute with TensorFlow 1.13")
    return tf.distribute.MirroredStrategy(["/device:" + target for target in targets])


def on_all(
    tf: Any, strategy: Any, part: Callable[[Any], Any], compiled: Callable[[Any], Any]
) -> List[Any]:
    """Run `part(index)` on each device at once and add up what it returns.

    Return the sum each device got.
    """
    # run: TensorFlow 2.2
    start = getattr(strategy, "run", None) or getattr(strategy, "experimental_run_v2", None)
    if start is None:
        raise SkippedError("what adds up within MirroredStrategy came with TensorFlow 1.14")

    def summed() -> Any:
        replica = tf.distribute.get_replica_context()
        return replica.all_reduce(
            tf.distribute.ReduceOp.SUM, part(replica.replica_id_in_sync_group)
        )

    return list(strategy.experimental_local_results(start(compiled(summed))))


def share(report: "Report") -> Any:
    """Compute once with per_process_gpu_memory_fraction set; ask the driver how much is gone."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    with report.step("memory share", "GPU:0") as step:
        before = card.memory()
        import tensorflow as tf

        v1 = tf.compat.v1 if tf.__version__.split(".")[0] != "1" else tf
        options = v1.GPUOptions(per_process_gpu_memory_fraction=card.SHARE)
        config = v1.ConfigProto(gpu_options=options)
        with tf.Graph().as_default(), v1.Session(config=config) as session:
            with tf.device("/device:GPU:0"):
                left = v1.placeholder("float32", [1, 2])
                right = v1.placeholder("float32", [2, 1])
                product = tf.matmul(left, right)
            found = session.run(product, {left: [[1.0, 2.0]], right: [[3.0], [4.0]]}).tolist()
            card.judge_share(step, before, right=found == [[11.0]])
