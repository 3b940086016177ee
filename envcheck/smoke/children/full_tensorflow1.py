"""TensorFlow 1, the full level: large matmuls, a convolution, XLA, memory, wrong devices, several devices at once."""

from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from envcheck.smoke.children.start import Report

SIZE = 2048
# Of the typical number, the root of the size: TF32 keeps 10 bits of each factor, half adds up in 11 bits on some CPUs.
ALLOWED = {"float32": 5e-3, "float16": 5e-2}
LEFT, RIGHT = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
PRODUCT, SUM = [[22.0, 28.0], [49.0, 64.0]], [[44.0, 56.0], [98.0, 128.0]]


def more(report: "Report", opened: Any) -> None:
    """Go on where placing left off: one device at a time, then all together, each in a graph of its own."""
    tf, devices, run = opened
    targets = [name for name in devices if name.startswith("GPU")] or [n for n in devices if n.startswith("CPU")]
    if report.gpu != "all":
        for kind, allowed in sorted(ALLOWED.items()):
            multiply_large(report, tf, run, targets[0], kind, allowed)
        convolve(report, tf, run, targets[0])
        compile_with_xla(report, tf, targets[0])
        if targets[0].startswith("GPU"):
            with report.step("memory growth", targets[0]) as step:
                step.holds_little(report.free_before, __import__("card").memory())
        ask_for_missing(report, tf, run)
        fall_back(report, tf, run)
    towers(report, tf, run, (targets * 2)[:2] if len(targets) < 2 else targets[:2])
    if len(targets) > 1:
        copy_between(report, tf, run, targets)
        train_together(report, tf, run, targets)


def multiply_large(report: "Report", tf: Any, run: Any, device: str, kind: str, allowed: float) -> None:
    """Multiply random matrices and hold the product against NumPy's in double precision."""
    import numpy as np

    size = 512 if kind == "float16" and device.startswith("CPU") else SIZE  # half on a CPU is slow
    with report.step("matmul %d %s" % (size, kind), device) as step, tf.Graph().as_default():
        values = np.random.RandomState(0).standard_normal((2, size, size)).astype(kind)
        wanted = np.matmul(values[0].astype("float64"), values[1].astype("float64"))
        with tf.device("/device:" + device):
            product = tf.matmul(tf.constant(values[0]), tf.constant(values[1]))
        found, place = run(report, tf, product)
        step.within(float(np.abs(found.astype("float64") - wanted).max() / size**0.5), allowed, place)


def convolve(report: "Report", tf: Any, run: Any, device: str) -> None:
    """Sum 3 x 3 neighbours of 0..63 by a convolution, which cuDNN does on a GPU; exact in float32."""
    import numpy as np

    with report.step("convolution", device) as step, tf.Graph().as_default():
        image = np.arange(64, dtype="float32").reshape(1, 8, 8, 1)
        wanted = sum(image[:, y : y + 6, x : x + 6, :] for y in range(3) for x in range(3))
        with tf.device("/device:" + device):
            kernel = tf.constant(np.ones((3, 3, 1, 1), dtype="float32"))
            convolved = tf.nn.conv2d(tf.constant(image), kernel, strides=[1, 1, 1, 1], padding="VALID")
        found, place = run(report, tf, convolved)
        step.judge(found.ravel().tolist(), wanted.ravel().tolist(), place)


def compile_with_xla(report: "Report", tf: Any, device: str) -> None:
    """Compile a multiplication by XLA, on its own device where TensorFlow lists one."""
    with report.step("jit", device) as step, tf.Graph().as_default():
        config = tf.ConfigProto(log_device_placement=True)
        config.gpu_options.allow_growth = True
        config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
        left, right = tf.placeholder(tf.float32, [2, 3]), tf.placeholder(tf.float32, [3, 2])
        with tf.device("/device:" + device):
            product = tf.exp(tf.matmul(left, right)) * 0.0 + tf.matmul(left, right)
        with tf.Session(config=config) as session:
            found = session.run(product, {left: [[number * 0.1 for number in row] for row in LEFT], right: RIGHT})
        step.judge([[round(float(n) * 10, 3) for n in row] for row in found], PRODUCT, device)


def ask_for_missing(report: "Report", tf: Any, run: Any) -> None:
    """Ask for a device that is not there: TensorFlow has to refuse."""
    with report.step("missing device") as step, tf.Graph().as_default():
        try:
            with tf.device("/device:GPU:99"):
                product = tf.matmul(tf.constant(LEFT), tf.constant(RIGHT))
            run(report, tf, product)
            step.failed("GPU:99 was asked for, and TensorFlow computed without a word", "device-placement")
        except tf.errors.InvalidArgumentError as error:
            step.passed("refused, as it should be: %s" % str(error).splitlines()[0][:200])


def fall_back(report: "Report", tf: Any, run: Any) -> None:
    """Ask for the same with soft placement: TensorFlow has to take another device."""
    with report.step("soft placement") as step, tf.Graph().as_default():
        with tf.device("/device:GPU:99"):
            product = tf.matmul(tf.constant(LEFT), tf.constant(RIGHT))
        found, place = run(report, tf, product, allow_soft_placement=True)
        right = found.tolist() == PRODUCT
        (step.passed if right else step.failed)("GPU:99 was asked for, %s took it" % place)


def towers(report: "Report", tf: Any, run: Any, targets: List[str]) -> None:
    """Multiply in two towers and add on the CPU."""
    with report.step("towers on %s" % " and ".join(targets), "CPU:0") as step, tf.Graph().as_default():
        products = []
        for target in targets:
            with tf.device("/device:" + target):
                products.append(tf.matmul(tf.constant(LEFT), tf.constant(RIGHT)))
        with tf.device("/device:CPU:0"):
            found, place = run(report, tf, tf.add_n(products))
        step.judge(found.tolist(), SUM, place)


def copy_between(report: "Report", tf: Any, run: Any, targets: List[str]) -> None:
    """Copy a matrix from each device to the next and double it there."""
    for source, target in zip(targets, targets[1:] + targets[:1]):
        with report.step("copy from %s" % source, target) as step, tf.Graph().as_default():
            with tf.device("/device:" + source):
                left = tf.random.uniform([1]) * 0.0 + tf.constant(LEFT)
            with tf.device("/device:" + target):
                doubled = left * 2.0
            found, place = run(report, tf, doubled)
            step.judge((found / 2.0).tolist(), LEFT, place)


def train_together(report: "Report", tf: Any, run: Any, targets: List[str]) -> None:
    """Compare the gradient of a linear model, a share of the rows on each device, with that on one device."""
    import numpy as np

    with report.step("gradients over %s" % ", ".join(targets)) as step, tf.Graph().as_default():
        rows = np.random.RandomState(1).standard_normal((8 * len(targets), 4)).astype("float32")

        def gradient(part: Any, target: str) -> Any:
            with tf.device("/device:" + target):
                weights = tf.ones([4, 1])
                return tf.gradients(tf.reduce_sum(tf.matmul(tf.constant(part), weights) ** 2), weights)[0]

        shares = [gradient(part, target) for part, target in zip(np.split(rows, len(targets)), targets)]
        with tf.device("/device:CPU:0"):
            together, _ = run(report, tf, tf.add_n(shares))
        alone, _ = run(report, tf, gradient(rows, targets[0]))
        step.within(float(np.abs(together - alone).max() / np.abs(alone).max()), 1e-4, step.device)
