"""TensorFlow 1: its lists of devices, sessions, XLA and MirroredStrategy.

All numbers are fed: what a graph holds as a constant, TensorFlow computes on the CPU before the
graph runs.
"""

import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import smoke_tensorflow as mirrored
from smoke_engine import SkippedError
from smoke_numbers import LEFT, MISSING, RIGHT, Action, Answer, channels_last, to_array
from smoke_tensorflow import TensorFlow, share

if TYPE_CHECKING:
    from start import Report, Step

__all__ = ["Engine", "share"]


class Engine(TensorFlow):
    """TensorFlow 1."""

    _own: Any = threading.local()  # what a thread feeds to its graph

    def before_import(self, report: "Report") -> None:
        """Remember that two CPU devices stand for two GPUs in the full test of a CPU."""
        self._processors = 2 if report.gpu == "cpu" and report.level == "full" else 1
        super().before_import(report)

    def load(self) -> Any:
        """Import TensorFlow."""
        tf = super().load()
        self.refusals = (tf.errors.InvalidArgumentError,)
        return tf

    def _config(self, **options: Any) -> Any:
        """Make a session's options.

        Devices exactly as asked for and logged, no more GPU memory than needed.
        """
        made = self._tf.ConfigProto(
            **dict({"allow_soft_placement": False, "log_device_placement": True}, **options)
        )
        made.gpu_options.allow_growth = True
        if self._processors > 1:
            made.device_count["CPU"] = self._processors
        return made

    def list_devices(self, report: "Report", step: "Step") -> Optional[List[str]]:
        """List devices in three ways, which have to agree."""
        from tensorflow.python.client import device_lib

        tf = self._tf
        found: Dict[str, List[str]] = {}
        with tf.Session(config=self._config()) as session:
            found["session.list_devices"] = [short(each.name) for each in session.list_devices()]
        found["list_local_devices"] = [
            short(each.name) for each in device_lib.list_local_devices(self._config())
        ]
        found["gpu_device_name"] = [short(name) for name in [tf.test.gpu_device_name()] if name]
        listed = self.judge_listing(report, step, found, "session.list_devices")
        # XLA_GPU is experimental: it needs ptxas and libdevice, which GPU:0 does without.
        devices = [name for name in found["session.list_devices"] if not name.startswith("XLA_GPU")]
        return devices if listed or report.gpu == "cpu" else None

    def product(self, device: str, left: Any, right: Any) -> Answer:
        """Multiply in a session of its own."""
        return self._run(device, lambda: self._product(left, right))

    def _run(self, device: str, build: Action, **options: Any) -> Answer:
        """Build on a device in a new graph, and run.

        Return the value and the device that made it.
        """
        with self._tf.Graph().as_default():
            self._own.fed = {}
            with self._tf.device("/device:" + device):
                made = build()
            return self.run_traced(made, self._own.fed, **options)

    def run_traced(self, product: Any, fed: Any, **options: Any) -> Answer:
        """Run one operation; return its value and its device by the run's statistics."""
        tf, metadata = self._tf, self._tf.RunMetadata()
        with tf.Session(config=self._config(**options)) as session:
            # a full one needs CUPTI
            traced = tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE)
            found = session.run(product, fed, options=traced, run_metadata=metadata)
        places = [
            short(stats.device)
            for stats in metadata.step_stats.dev_stats
            for node in stats.node_stats
            if node.node_name.split(":")[0] == product.op.name and "stream" not in stats.device
        ]
        return found, places[0] if places else "no device TensorFlow names"

    def _feed(self, numbers: Any) -> Any:
        values = to_array(numbers)
        placeholder = self._tf.placeholder(values.dtype, values.shape)
        self._own.fed[placeholder] = values
        return placeholder

    def _product(self, left: Any = LEFT, right: Any = RIGHT) -> Any:
        return self._tf.matmul(self._feed(left), self._feed(right))

    def convolve(self, device: str, image: Any) -> Answer:
        """Convolve with ones."""
        tf = self._tf

        def build() -> Any:
            given, ones = (self._feed(each) for each in channels_last(image))
            return tf.nn.conv2d(given, ones, strides=[1, 1, 1, 1], padding="VALID")

        found, place = self._run(device, build)
        return found.ravel().tolist(), place

    def compiled(self, device: str, left: Any, right: Any) -> Answer:
        """Compile by XLA, which on a GPU needs ptxas, and libdevice for the exponential."""
        tf = self._tf

        if hasattr(tf, "xla"):
            xla = tf.xla.experimental
        else:
            xla = getattr(tf.contrib.compiler, "xla", None)
        if xla is None:
            raise SkippedError("functions compiled by XLA came with TensorFlow 1.12")
        found, place = self._run(
            device,
            lambda: xla.compile(
                self.product_with_exponential, [self._feed(left), self._feed(right)]
            )[0],
        )
        return found.tolist(), place

    def soften(self) -> Answer:
        """Ask for the same with soft placement."""
        found, place = self._run(MISSING, self._product, allow_soft_placement=True)
        return found.tolist(), place

    def _on(self, device: str, build: Action) -> Any:
        with self._tf.device("/device:" + device):
            return build()

    def towers(self, targets: List[str]) -> Answer:
        """Multiply in two towers and add on the CPU."""
        tf = self._tf
        found, place = self._run(
            "CPU:0", lambda: tf.add_n([self._on(each, self._product) for each in targets])
        )
        return found.tolist(), place

    def copy(self, source: str, target: str) -> Tuple[Any, str, str]:
        """Double a matrix on one device and halve it on the other."""
        left = lambda: self._feed(LEFT) * 2.0  # noqa: E731
        found, place = self._run(target, lambda: self._on(source, left) * 0.5)
        return found.tolist(), place, ""

    def _mirrored(self, targets: List[str], part: Callable[[], Callable[[Any], Any]]) -> List[Any]:
        tf = self._tf
        strategy = mirrored.over(tf, targets)
        with tf.Graph().as_default():
            self._own.fed = {}
            with tf.device("/device:CPU:0"):
                made = part()
            told = mirrored.on_all(tf, strategy, made, lambda each: each)
            # Softly: what a strategy makes of itself (an index, a number of replicas) may have no
            # GPU form.
            with tf.Session(config=self._config(allow_soft_placement=True)) as session:
                return [each.ravel().tolist() for each in session.run(told, self._own.fed)]

    def reduce(self, targets: List[str]) -> Answer:
        """Add up; between GPUs NCCL does it."""
        tf = self._tf

        def part() -> Callable[[Any], Any]:
            one = self._feed([1.0])
            return lambda index: tf.cast(index, tf.float32) + one

        return [each[0] for each in self._mirrored(targets, part)], "MirroredStrategy"

    def gradients(self, rows: Any, targets: List[str]) -> Tuple[List[List[float]], List[float]]:
        """Return each device's sum of all gradients, and the first one's of all rows."""
        tf = self._tf

        def part() -> Callable[[Any], Any]:
            shares = tf.reshape(self._feed(rows), [len(targets), -1, 4])
            return lambda index: self._gradient(tf.gather(shares, index))

        alone, _ = self._run(
            targets[0], lambda: self._gradient(self._feed(rows)), allow_soft_placement=True
        )
        return self._mirrored(targets, part), alone.ravel().tolist()

    def _gradient(self, rows: Any) -> Any:
        tf = self._tf
        weights = tf.ones([4, 1])
        return tf.gradients(tf.reduce_sum(tf.matmul(rows, weights) ** 2), weights)[0]

    def _session(self, device: str, build: Callable[[Any], Any]) -> Action:
        tf, graph = self._tf, self._tf.Graph()
        # some of what initialises has no GPU form
        config = tf.ConfigProto(allow_soft_placement=True)
        config.gpu_options.allow_growth = True
        with graph.as_default(), tf.device("/device:" + device):
            fetched = build(tf)
            session = tf.Session(config=config)
            session.run(tf.global_variables_initializer())
        return lambda: session.run(fetched)

    def multiply(self, device: str, precision: str, size: int) -> Action:
        """Multiply two square matrices."""

        def build(tf: Any) -> Any:
            left, right = (
                tf.Variable(tf.cast(tf.random.uniform([size, size]), precision)) for _ in range(2)
            )
            return tf.matmul(left, right)[0, 0]

        return self._session(device, build)

    def train(self, device: str) -> Action:
        """Train a small convolutional network for one step on images made on the spot."""

        def build(tf: Any) -> Any:
            images = tf.Variable(tf.random.uniform([64, 28, 28, 1]), trainable=False)
            labels = tf.Variable(
                tf.random.uniform([64], maxval=10, dtype=tf.int32), trainable=False
            )
            kernel = tf.Variable(tf.random.normal([3, 3, 1, 16]) * 0.01)
            matrix = tf.Variable(tf.random.normal([26 * 26 * 16, 10]) * 0.01)
            hidden = tf.reshape(
                tf.nn.relu(tf.nn.conv2d(images, kernel, [1, 1, 1, 1], "VALID")), [64, -1]
            )
            logits = tf.matmul(hidden, matrix)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
            return tf.train.GradientDescentOptimizer(0.01).minimize(loss)

        return self._session(device, build)


def short(name: str) -> str:
    """Shorten /job:localhost/replica:0/task:0/device:GPU:0, or the older /gpu:0, to GPU:0."""
    return name.rsplit("device:", 1)[-1].rsplit("/", 1)[-1].upper()
