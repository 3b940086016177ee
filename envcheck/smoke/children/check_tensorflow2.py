"""TensorFlow 2: its lists of devices, operations, functions, XLA, MirroredStrategy."""

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import smoke_tensorflow as mirrored
from smoke_numbers import LEFT, MISSING, PRODUCT, RIGHT, Action, Answer, channels_last
from smoke_tensorflow import TensorFlow, share

if TYPE_CHECKING:
    from start import Report, Step

__all__ = ["Engine", "share"]


class Engine(TensorFlow):
    """TensorFlow 2."""

    _strategy: Any = None

    def load(self) -> Any:
        """Import TensorFlow."""
        tf = super().load()
        self.refusals = (tf.errors.InvalidArgumentError, RuntimeError)
        return tf

    def set_up(self, report: "Report") -> None:
        """Ask for exact devices and no needless memory; log where operations run.

        Two CPU devices stand for two GPUs in the full test of a CPU.
        """
        tf = self._tf
        tf.config.set_soft_device_placement(False)
        tf.debugging.set_log_device_placement(True)
        physical = listing(tf, "list_physical_devices")
        for gpu in physical("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
        if report.gpu == "cpu" and report.level == "full":
            two = [tf.config.experimental.VirtualDeviceConfiguration() for _ in range(2)]
            tf.config.experimental.set_virtual_device_configuration(physical("CPU")[0], two)

    def list_devices(self, report: "Report", step: "Step") -> Optional[List[str]]:
        """List devices in four ways, which have to agree."""
        from tensorflow.python.client import device_lib

        tf = self._tf
        found: Dict[str, List[str]] = {}
        found["list_physical_devices"] = [
            short(each.name) for each in listing(tf, "list_physical_devices")()
        ]
        found["list_logical_devices"] = [
            short(each.name) for each in listing(tf, "list_logical_devices")()
        ]
        local = device_lib.list_local_devices()
        found["list_local_devices"] = [short(each.name) for each in local]
        found["gpu_device_name"] = [short(name) for name in [tf.test.gpu_device_name()] if name]
        listed = self.judge_listing(report, step, found, "list_logical_devices")
        # XLA_GPU was experimental: it needs ptxas and libdevice, which GPU:0 does without.
        xla = [name for name in found["list_local_devices"] if name.startswith("XLA_CPU")]
        names = list(dict.fromkeys(found["list_logical_devices"] + xla))
        return names if listed or report.gpu == "cpu" else None

    def _on(self, device: str) -> Any:
        return self._tf.device("/device:" + device)

    def _product(self, device: str, left: Any = LEFT, right: Any = RIGHT) -> Any:
        with self._on(device):
            return self._tf.matmul(self._tf.constant(left), self._tf.constant(right))

    def product(self, device: str, left: Any, right: Any) -> Answer:
        """Multiply, op by op."""
        found = self._product(device, left, right)
        return found.numpy(), place_of(found)

    def multiply_on(self, report: "Report", device: str) -> None:
        """Multiply on a device, op by op and inside a tf.function."""
        super().multiply_on(report, device)
        if device.startswith("XLA"):
            return
        with report.step("function", device) as step:

            @self._tf.function  # type: ignore[untyped-decorator]
            def product(left: Any, right: Any) -> Any:
                with self._on(device):
                    return self._tf.matmul(left, right)

            with self._on(device):
                found = product(self._tf.constant(LEFT), self._tf.constant(RIGHT))
            step.judge(found.numpy().tolist(), PRODUCT, place_of(found))

    def convolve(self, device: str, image: Any) -> Answer:
        """Convolve with ones."""
        tf = self._tf
        with self._on(device):
            given, ones = (tf.constant(each) for each in channels_last(image))
            found = tf.nn.conv2d(given, ones, strides=1, padding="VALID")
        return found.numpy().ravel().tolist(), place_of(found)

    def compiled(self, device: str, left: Any, right: Any) -> Answer:
        """Compile by XLA, which on a GPU needs ptxas, and libdevice for the exponential."""
        tf = self._tf

        try:
            function = tf.function(self.product_with_exponential, jit_compile=True)
        except TypeError:  # before TensorFlow 2.5
            function = tf.function(self.product_with_exponential, experimental_compile=True)
        with self._on(device):
            found = function(tf.constant(left), tf.constant(right))
        return found.numpy().tolist(), place_of(found)

    def soften(self) -> Answer:
        """Ask for the same with soft placement."""
        found = self._softly(lambda: self._product(MISSING))
        return found.numpy().tolist(), place_of(found)

    def _softly(self, action: Action) -> Any:
        self._tf.config.set_soft_device_placement(True)
        try:
            return action()
        finally:
            self._tf.config.set_soft_device_placement(False)

    def towers(self, targets: List[str]) -> Answer:
        """Multiply in two towers and add on the CPU."""
        products = [self._product(target) for target in targets]
        with self._on("CPU:0"):
            found = self._tf.add_n(products)
        return found.numpy().tolist(), place_of(found)

    def copy(self, source: str, target: str) -> Tuple[Any, str, str]:
        """Copy a matrix."""
        with self._on(source):
            left = self._tf.constant(LEFT)
        with self._on(target):
            found = self._tf.identity(left)
        return found.numpy().tolist(), place_of(found), ""

    def _mirrored(self, targets: List[str], part: Callable[[Any], Any]) -> List[Any]:
        tf = self._tf
        self._strategy = self._strategy or mirrored.over(
            tf, targets
        )  # a second one would take the first one's messages
        # Softly: what a strategy makes of itself (an index, a number of replicas) may have no GPU
        # form.
        told = self._softly(lambda: mirrored.on_all(tf, self._strategy, part, tf.function))
        return [each.numpy().ravel().tolist() for each in told]

    def reduce(self, targets: List[str]) -> Answer:
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

    def bench(self, report: "Report", devices: List[str]) -> None:
        """Measure without the log of placements, which would be what is measured."""
        tf = self._tf
        tf.debugging.set_log_device_placement(False)
        # a label may have no GPU form; last, for the line above undoes it
        tf.config.set_soft_device_placement(True)
        # TensorFlow 2.4
        self._set_tf32 = getattr(tf.config.experimental, "enable_tensor_float_32_execution", None)
        if self._set_tf32:
            self.precisions = ("float32", "tf32", "float16")
        super().bench(report, devices)

    def _read_back(self, device: str, body: Action) -> Action:
        def placed() -> Any:
            with self._on(device):  # inside: what a function holds is placed anew
                return body()

        function = self._tf.function(placed)
        return lambda: function().numpy()

    def multiply(self, device: str, precision: str, size: int) -> Action:
        """Multiply two square matrices."""
        tf = self._tf
        kind = "float32" if precision == "tf32" else precision
        if self._set_tf32:
            self._set_tf32(precision == "tf32")
        with self._on(device):
            left, right = (tf.cast(tf.random.uniform([size, size]), kind) for _ in range(2))
        return self._read_back(device, lambda: tf.matmul(left, right)[0, 0])

    def train(self, device: str) -> Action:
        """Train a small convolutional network for one step on images made on the spot."""
        tf = self._tf
        with self._on(device):
            images = tf.random.uniform([64, 28, 28, 1])
            labels = tf.cast(tf.random.uniform([64]) * 10, tf.int32)
            kernel, matrix = (
                tf.Variable(tf.random.normal(s) * 0.01) for s in ([3, 3, 1, 16], [26 * 26 * 16, 10])
            )

        def step() -> Any:
            with tf.GradientTape() as tape:
                hidden = tf.reshape(tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "VALID")), [64, -1])
                told = tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels, tf.matmul(hidden, matrix)
                )
                loss = tf.reduce_mean(told)
            for variable, gradient in zip((kernel, matrix), tape.gradient(loss, (kernel, matrix))):
                variable.assign_sub(0.01 * gradient)
            return loss

        return self._read_back(device, step)


def listing(tf: Any, name: str) -> Any:
    """Find a listing function, which was experimental before TensorFlow 2.1."""
    return getattr(tf.config, name, None) or getattr(tf.config.experimental, name)


def short(name: str) -> str:
    """Shorten /job:localhost/replica:0/task:0/device:GPU:0 and /physical_device:GPU:0 to GPU:0."""
    return name.rsplit("device:", 1)[-1].lstrip("/")


def place_of(tensor: Any) -> str:
    """Return the device that holds a tensor's memory."""
    return short(getattr(tensor, "backing_device", None) or tensor.device)
