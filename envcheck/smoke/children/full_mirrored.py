"""TensorFlow's MirroredStrategy, of 2 and of 1.14 and newer: what each device makes is added up and given to all."""

from typing import TYPE_CHECKING, Any, Callable, List

if TYPE_CHECKING:
    from envcheck.smoke.children.driver_api import SkippedError
else:
    from driver_api import SkippedError


def over(tf: Any, targets: List[str]) -> Any:
    """Return the strategy over these devices."""
    if not hasattr(tf, "distribute"):
        raise SkippedError("MirroredStrategy came to tf.distribute with TensorFlow 1.13")
    return tf.distribute.MirroredStrategy(["/device:" + target for target in targets])


def on_all(tf: Any, strategy: Any, part: Callable[[Any], Any], compiled: Callable[[Any], Any]) -> List[Any]:
    """Run `part(index)` on each device at once and add up what it returns; return the sum each device got."""
    start = getattr(strategy, "run", None) or getattr(strategy, "experimental_run_v2", None)  # run: TensorFlow 2.2
    if start is None:
        raise SkippedError("what adds up within MirroredStrategy came with TensorFlow 1.14")

    def summed() -> Any:
        replica = tf.distribute.get_replica_context()
        return replica.all_reduce(tf.distribute.ReduceOp.SUM, part(replica.replica_id_in_sync_group))

    return list(strategy.experimental_local_results(start(compiled(summed))))
