"""TensorFlow 2, the full level: large matmuls, a convolution, XLA, memory, wrong devices, several devices at once."""

from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from envcheck.smoke.children.start import Report

SIZE = 2048
# Of the typical number, the root of the size: TF32 keeps 10 bits of each factor, half adds up in 11 bits on some CPUs.
ALLOWED = {"float32": 5e-3, "float16": 5e-2}
LEFT, RIGHT = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
PRODUCT, SUM = [[22.0, 28.0], [49.0, 64.0]], [[44.0, 56.0], [98.0, 128.0]]


def more(report: "Report", opened: Any) -> None:
    """Go on where placing left off: one device at a time, then all together."""
    tf, devices, place_of = opened
    targets = [name for name in devices if name.startswith("GPU")] or [n for n in devices if n.startswith("CPU")]
    if report.gpu != "all":
        for kind, allowed in sorted(ALLOWED.items()):
            multiply_large(report, tf, place_of, targets[0], kind, allowed)
        convolve(report, tf, place_of, targets[0])
        compile_with_xla(report, tf, place_of, targets[0])
        memory_grows(report, targets[0])
        ask_for_missing(report, tf)
    towers(report, tf, place_of, (targets * 2)[:2] if len(targets) < 2 else targets[:2])
    if len(targets) > 1:
        copy_between(report, tf, place_of, targets)
        strategy = tf.distribute.MirroredStrategy(["/device:" + target for target in targets])
        reduce_over_all(report, tf, strategy, targets)
        train_together(report, tf, strategy, targets)
    if report.gpu != "all":
        fall_back(report, tf, place_of)


def multiply_large(report: "Report", tf: Any, place_of: Any, device: str, kind: str, allowed: float) -> None:
    """Multiply random matrices and hold the product against NumPy's in double precision."""
    import numpy as np

    size = 512 if kind == "float16" and device.startswith("CPU") else SIZE  # half on a CPU is slow
    with report.step("matmul %d %s" % (size, kind), device) as step:
        values = np.random.RandomState(0).standard_normal((2, size, size)).astype(kind)
        wanted = values[0].astype("float64") @ values[1].astype("float64")
        with tf.device("/device:" + device):
            found = tf.matmul(tf.constant(values[0]), tf.constant(values[1]))
        error = np.abs(found.numpy().astype("float64") - wanted).max() / size**0.5
        step.within(float(error), allowed, place_of(found))


def convolve(report: "Report", tf: Any, place_of: Any, device: str) -> None:
    """Sum 3 x 3 neighbours of 0..63 by a convolution, which cuDNN does on a GPU; exact in float32."""
    import numpy as np

    with report.step("convolution", device) as step:
        image = np.arange(64, dtype="float32").reshape(1, 8, 8, 1)
        wanted = sum(image[:, y : y + 6, x : x + 6, :] for y in range(3) for x in range(3))
        with tf.device("/device:" + device):
            kernel = tf.constant(np.ones((3, 3, 1, 1), dtype="float32"))
            found = tf.nn.conv2d(tf.constant(image), kernel, strides=1, padding="VALID")
        step.judge(found.numpy().ravel().tolist(), wanted.ravel().tolist(), place_of(found))


def compile_with_xla(report: "Report", tf: Any, place_of: Any, device: str) -> None:
    """Compile a multiplication by XLA, which on a GPU needs libdevice and ptxas."""
    with report.step("jit", device) as step:

        def product(left: Any, right: Any) -> Any:
            return tf.exp(tf.matmul(left, right)) * 0.0 + tf.matmul(left, right)  # exp comes from libdevice

        try:
            compiled = tf.function(product, jit_compile=True)
        except TypeError:  # before TensorFlow 2.5
            compiled = tf.function(product, experimental_compile=True)
        with tf.device("/device:" + device):
            found = compiled(tf.constant(LEFT) * 0.1, tf.constant(RIGHT))
        rounded = [[round(number * 10.0, 3) for number in row] for row in found.numpy().tolist()]
        step.judge(rounded, PRODUCT, place_of(found))


def memory_grows(report: "Report", device: str) -> None:
    """See that this process, told to let memory grow, does not hold the whole card."""
    if device.startswith("GPU"):
        with report.step("memory growth", device) as step:
            step.holds_little(report.free_before, __import__("card").memory())


def ask_for_missing(report: "Report", tf: Any) -> None:
    """Ask for a device that is not there: TensorFlow has to refuse."""
    with report.step("missing device") as step:
        try:
            with tf.device("/device:GPU:99"):
                tf.matmul(tf.constant(LEFT), tf.constant(RIGHT))
            step.failed("GPU:99 was asked for, and TensorFlow computed without a word", "device-placement")
        except (tf.errors.InvalidArgumentError, RuntimeError) as error:
            step.passed("refused, as it should be: %s" % str(error).splitlines()[0][:200])


def fall_back(report: "Report", tf: Any, place_of: Any) -> None:
    """Ask for the same with soft placement: TensorFlow has to take another device."""
    with report.step("soft placement") as step:
        tf.config.set_soft_device_placement(True)
        try:
            with tf.device("/device:GPU:99"):
                found = tf.matmul(tf.constant(LEFT), tf.constant(RIGHT))
        finally:
            tf.config.set_soft_device_placement(False)
        right = found.numpy().tolist() == PRODUCT
        (step.passed if right else step.failed)("GPU:99 was asked for, %s took it" % place_of(found))


def towers(report: "Report", tf: Any, place_of: Any, targets: List[str]) -> None:
    """Multiply in two towers and add on the CPU."""
    with report.step("towers on %s" % " and ".join(targets), "CPU:0") as step:
        products = []
        for target in targets:
            with tf.device("/device:" + target):
                products.append(tf.matmul(tf.constant(LEFT), tf.constant(RIGHT)))
        with tf.device("/device:CPU:0"):
            found = tf.add_n(products)
        step.judge(found.numpy().tolist(), SUM, place_of(found))


def copy_between(report: "Report", tf: Any, place_of: Any, targets: List[str]) -> None:
    """Copy a matrix from each device to the next and back home."""
    for source, target in zip(targets, targets[1:] + targets[:1]):
        with report.step("copy from %s" % source, target) as step:
            with tf.device("/device:" + source):
                left = tf.constant(LEFT)
            with tf.device("/device:" + target):
                found = tf.identity(left)
            step.judge(found.numpy().tolist(), LEFT, place_of(found))


def reduce_over_all(report: "Report", tf: Any, strategy: Any, targets: List[str]) -> None:
    """Add 1, 2, 3 ... over all devices; between GPUs NCCL does it."""
    with report.step("all-reduce over %s" % ", ".join(targets)) as step:

        def own_number() -> Any:
            context = tf.distribute.get_replica_context()
            number = tf.cast(context.replica_id_in_sync_group, tf.float32) + 1.0
            return context.all_reduce(tf.distribute.ReduceOp.SUM, number)

        values = strategy.experimental_local_results(strategy.run(tf.function(own_number)))
        found, wanted = [float(value) for value in values], [sum(range(len(targets) + 1)) * 1.0] * len(targets)
        (step.passed if found == wanted else step.failed)("gave %s, right is %s" % (found, wanted))


def train_together(report: "Report", tf: Any, strategy: Any, targets: List[str]) -> None:
    """Compare the gradient of a linear model on all devices, a share of the rows each, with that on one device."""
    import numpy as np

    with report.step("gradients over %s" % ", ".join(targets)) as step:
        rows = np.random.RandomState(1).standard_normal((8 * len(targets), 4)).astype("float32")

        def gradient(part: Any) -> Any:
            with tf.GradientTape() as tape:
                weights = tf.ones([4, 1])
                tape.watch(weights)
                loss = tf.reduce_sum(tf.matmul(part, weights) ** 2)
            return tape.gradient(loss, weights)

        def share() -> Any:
            context = tf.distribute.get_replica_context()
            part = tf.reshape(tf.constant(rows), [len(targets), 8, 4])[context.replica_id_in_sync_group]
            return context.all_reduce(tf.distribute.ReduceOp.SUM, gradient(part))

        alone = gradient(tf.constant(rows)).numpy()
        values = strategy.experimental_local_results(strategy.run(tf.function(share)))
        error = max(float(np.abs(value.numpy() - alone).max()) for value in values) / float(np.abs(alone).max())
        step.within(error, 1e-4, step.device)
