"""TensorFlow 2: list its devices in every way it has, place a matmul on each; then what the level adds."""

import os
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

if TYPE_CHECKING:
    from envcheck.smoke.children import smoke_card as card
    from envcheck.smoke.children import smoke_full as checks
    from envcheck.smoke.children import smoke_speed as speed
    from envcheck.smoke.children import smoke_tensorflow as mirrored
    from envcheck.smoke.children.smoke_tensorflow import share
    from envcheck.smoke.children.start import Report, Step
else:
    import smoke_card as card
    import smoke_full as checks
    import smoke_speed as speed
    import smoke_tensorflow as mirrored
    from smoke_tensorflow import share

__all__ = ["bench", "full", "run", "share"]

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
        report.free_before = card.memory()
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
    # XLA_GPU was experimental: it needs ptxas and libdevice, which GPU:0 does without.
    xla = [name for name in found["list_local_devices"] if name.startswith("XLA_CPU")]
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


def full(report: "Report", opened: Any) -> None:
    """Go on where placing left off."""
    tf, devices, place_of = opened
    checks.run(report, devices, FullEngine(tf, place_of))


class FullEngine:
    """What TensorFlow 2 is asked for."""

    def __init__(self, tf: Any, place_of: Any) -> None:
        self._tf, self._place_of = tf, place_of
        self._strategy = None  # type: Any
        self.refusals = (tf.errors.InvalidArgumentError, RuntimeError)

    def _on(self, device: str) -> Any:
        return self._tf.device("/device:" + device)

    def _product(self, device: str, left: Any = LEFT, right: Any = RIGHT) -> Any:
        with self._on(device):
            return self._tf.matmul(self._tf.constant(left), self._tf.constant(right))

    def large_error(self, device: str, kind: str, size: int) -> Tuple[float, str]:
        """Multiply random matrices."""
        factors = checks.random_factors(kind, size)
        found = self._product(device, *factors)
        return checks.product_error(found.numpy(), factors), self._place_of(found)

    def convolve(self, device: str, image: Any) -> Tuple[List[float], str]:
        """Convolve with ones."""
        tf = self._tf
        with self._on(device):
            given, ones = (tf.constant(each) for each in checks.channels_last(image))
            found = tf.nn.conv2d(given, ones, strides=1, padding="VALID")
        return found.numpy().ravel().tolist(), self._place_of(found)

    def compiled(self, device: str) -> Tuple[Any, Any, str]:
        """Compile by XLA, which on a GPU needs ptxas, and libdevice for the exponential."""
        tf = self._tf

        def product(left: Any, right: Any) -> Any:
            return tf.matmul(left, right) + 0.0 * tf.exp(tf.matmul(left, right))

        try:
            function = tf.function(product, jit_compile=True)
        except TypeError:  # before TensorFlow 2.5
            function = tf.function(product, experimental_compile=True)
        with self._on(device):
            found = function(*map(tf.constant, checks.eighths()))
        return checks.whole_numbers(found.numpy()), PRODUCT, self._place_of(found)

    def check_memory(self, report: "Report", device: str) -> None:
        """See that this process, told to let memory grow, does not hold the whole card."""
        card.check_growth(report, device)

    def ask_for_missing(self) -> str:
        """Ask for a device that is not there."""
        self._product(checks.MISSING)
        return checks.MISSING

    def soften(self) -> Tuple[Any, str]:
        """Ask for the same with soft placement."""
        found = self._softly(lambda: self._product(checks.MISSING))
        return found.numpy().tolist(), self._place_of(found)

    def _softly(self, action: Callable[[], Any]) -> Any:
        self._tf.config.set_soft_device_placement(True)
        try:
            return action()
        finally:
            self._tf.config.set_soft_device_placement(False)

    def towers(self, targets: List[str]) -> Tuple[Any, str]:
        """Multiply in two towers and add on the CPU."""
        products = [self._product(target) for target in targets]
        with self._on("CPU:0"):
            found = self._tf.add_n(products)
        return found.numpy().tolist(), self._place_of(found)

    def copy(self, source: str, target: str) -> Tuple[Any, str, str]:
        """Copy a matrix."""
        with self._on(source):
            left = self._tf.constant(LEFT)
        with self._on(target):
            found = self._tf.identity(left)
        return found.numpy().tolist(), self._place_of(found), ""

    def _mirrored(self, targets: List[str], part: Callable[[Any], Any]) -> List[Any]:
        tf = self._tf
        self._strategy = self._strategy or mirrored.over(
            tf, targets
        )  # a second one would take the first one's messages
        # Softly: what a strategy makes of itself (an index, a number of replicas) may have no GPU form.
        told = self._softly(lambda: mirrored.on_all(tf, self._strategy, part, tf.function))
        return [each.numpy().ravel().tolist() for each in told]

    def reduce(self, targets: List[str]) -> Tuple[List[float], str]:
        """Add up; between GPUs NCCL does it."""
        found = self._mirrored(targets, lambda index: self._tf.cast(index, self._tf.float32) + 1.0)
        return [each[0] for each in found], "MirroredStrategy"

    def gradients(self, rows: Any, targets: List[str]) -> Tuple[List[List[float]], List[float]]:
        """Return each device's sum of all gradients, and the first one's of all rows."""
        tf = self._tf
        shares = tf.reshape(tf.constant(rows), [len(targets), -1, 4])
        with self._on(targets[0]):
            alone = self._softly(lambda: self._gradient(tf.constant(rows)))
        together = self._mirrored(targets, lambda index: self._gradient(tf.gather(shares, index)))
        return together, alone.numpy().ravel().tolist()

    def _gradient(self, rows: Any) -> Any:
        tf = self._tf
        with tf.GradientTape() as tape:
            weights = tf.ones([4, 1])
            tape.watch(weights)
            loss = tf.reduce_sum(tf.matmul(rows, weights) ** 2)
        return tape.gradient(loss, weights)


def bench(report: "Report", opened: Any) -> None:
    """Measure on each device, without the log of placements: it would be what is measured."""
    tf, devices, _ = opened
    tf.debugging.set_log_device_placement(False)
    tf.config.set_soft_device_placement(True)  # a label may have no GPU form; last, for the line above takes it back
    speed.run(report, devices, BenchEngine(tf))


class BenchEngine:
    """What TensorFlow 2 is measured by: functions, whose results are read back to be sure that they are done."""

    def __init__(self, tf: Any) -> None:
        self._tf = tf
        self._set_tf32 = getattr(tf.config.experimental, "enable_tensor_float_32_execution", None)  # TensorFlow 2.4
        self.precisions = ("float32", "tf32", "float16") if self._set_tf32 else ("float32", "float16")

    def _on(self, device: str) -> Any:
        return self._tf.device("/device:" + device)

    def _compiled(self, device: str, body: Callable[[], Any]) -> Callable[[], Any]:
        def placed() -> Any:
            with self._on(device):  # inside: what a function holds is placed anew
                return body()

        function = self._tf.function(placed)
        return lambda: function().numpy()

    def multiply(self, device: str, precision: str, size: int) -> Callable[[], Any]:
        """Multiply two square matrices."""
        tf, kind = self._tf, "float32" if precision == "tf32" else precision
        if self._set_tf32:
            self._set_tf32(precision == "tf32")
        with self._on(device):
            left, right = (tf.cast(tf.random.uniform([size, size]), kind) for _ in range(2))
        return self._compiled(device, lambda: tf.matmul(left, right)[0, 0])

    def copy_to(self, device: str, size: int) -> Callable[[], Any]:
        """Copy from the host to the device."""
        tf = self._tf
        with self._on("CPU:0"):
            here = tf.zeros([size // 4])

        def copied() -> Any:
            with self._on(device):
                return tf.identity(here)[0].numpy()

        return copied

    def copy_within(self, device: str, size: int) -> Callable[[], Any]:
        """Copy within the device's memory, by the operation that shares none."""
        from tensorflow.python.ops import gen_array_ops

        tf = self._tf
        with self._on(device):
            there = tf.ones([size // 4])
        return self._compiled(device, lambda: gen_array_ops.deep_copy(there)[0])

    def train(self, device: str) -> Callable[[], Any]:
        """Train a small convolutional network for one step on images made on the spot."""
        tf = self._tf
        with self._on(device):
            images = tf.random.uniform([64, 28, 28, 1])
            labels = tf.cast(tf.random.uniform([64]) * 10, tf.int32)
            kernel, matrix = (tf.Variable(tf.random.normal(s) * 0.01) for s in ([3, 3, 1, 16], [26 * 26 * 16, 10]))

        def step() -> Any:
            with tf.GradientTape() as tape:
                hidden = tf.reshape(tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "VALID")), [64, -1])
                told = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.matmul(hidden, matrix))
                loss = tf.reduce_mean(told)
            for variable, gradient in zip((kernel, matrix), tape.gradient(loss, (kernel, matrix))):
                variable.assign_sub(0.01 * gradient)
            return loss

        return self._compiled(device, step)
