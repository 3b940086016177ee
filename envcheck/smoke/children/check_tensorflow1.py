"""TensorFlow 1: list its devices in every way it has, place a matmul on each in a session; then what the level adds."""

import os
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

if TYPE_CHECKING:
    from envcheck.smoke.children import smoke_card as card
    from envcheck.smoke.children import smoke_full as checks
    from envcheck.smoke.children import smoke_speed as speed
    from envcheck.smoke.children import smoke_tensorflow as mirrored
    from envcheck.smoke.children.smoke_full import SkippedError
    from envcheck.smoke.children.smoke_tensorflow import share
    from envcheck.smoke.children.start import Report
else:
    import smoke_card as card
    import smoke_full as checks
    import smoke_speed as speed
    import smoke_tensorflow as mirrored
    from smoke_full import SkippedError
    from smoke_tensorflow import share

__all__ = ["bench", "full", "run", "share"]

LEFT, RIGHT = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
PRODUCT = [[22.0, 28.0], [49.0, 64.0]]


def run(report: "Report") -> Any:
    """Open TensorFlow, list its devices and multiply on each; return (tensorflow, devices, run_traced, config)."""
    tf = load(report)
    devices = None if tf is None else list_devices(report, tf)
    if devices is None:
        return None
    for device in devices:
        if not device.startswith("XLA_GPU"):  # experimental: it needs ptxas and libdevice, which GPU:0 does without
            multiply(report, tf, device)
    return tf, devices, run_traced, config


def load(report: "Report") -> Any:
    """Import TensorFlow with its log open."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    if report.gpu != "cpu" and report.level == "full":
        report.free_before = card.memory()
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


def full(report: "Report", opened: Any) -> None:
    """Go on where placing left off."""
    tf, devices, run_traced, config = opened
    checks.run(report, devices, FullEngine(report, tf, run_traced, config))


class FullEngine:
    """What TensorFlow 1 is asked for.

    All numbers are fed: what a graph holds as a constant, TensorFlow computes on the CPU before the graph runs.
    """

    def __init__(self, report: "Report", tf: Any, run_traced: Any, config: Any) -> None:
        self._report, self._tf, self._run_traced, self._config = report, tf, run_traced, config
        self.refusals = (tf.errors.InvalidArgumentError,)
        self._fed: Dict[Any, Any] = {}

    def _run(self, device: str, build: Callable[[], Any], **options: Any) -> Tuple[Any, str]:
        """Build on a device in a new graph, and run; return the value and the device that made it."""
        with self._tf.Graph().as_default():
            self._fed = {}
            with self._tf.device("/device:" + device):
                made = build()
            return self._run_traced(self._report, self._tf, made, self._fed, **options)  # type: ignore[no-any-return]

    def _feed(self, numbers: Any) -> Any:
        import numpy as np

        values = np.asarray(numbers, None if hasattr(numbers, "dtype") else "float32")
        placeholder = self._tf.placeholder(values.dtype, values.shape)
        self._fed[placeholder] = values
        return placeholder

    def _product(self, left: Any = LEFT, right: Any = RIGHT) -> Any:
        return self._tf.matmul(self._feed(left), self._feed(right))

    def large_error(self, device: str, kind: str, size: int) -> Tuple[float, str]:
        """Multiply random matrices."""
        factors = checks.random_factors(kind, size)
        found, place = self._run(device, lambda: self._product(*factors))
        return checks.product_error(found, factors), place

    def convolve(self, device: str, image: Any) -> Tuple[List[float], str]:
        """Convolve with ones."""
        tf = self._tf

        def build() -> Any:
            given, ones = (self._feed(each) for each in checks.channels_last(image))
            return tf.nn.conv2d(given, ones, strides=[1, 1, 1, 1], padding="VALID")

        found, place = self._run(device, build)
        return found.ravel().tolist(), place

    def compiled(self, device: str) -> Tuple[Any, Any, str]:
        """Compile by XLA, which on a GPU needs ptxas, and libdevice for the exponential."""
        tf = self._tf

        def product(left: Any, right: Any) -> Any:
            return tf.matmul(left, right) + 0.0 * tf.exp(tf.matmul(left, right))

        xla = tf.xla.experimental if hasattr(tf, "xla") else getattr(tf.contrib.compiler, "xla", None)
        if xla is None:
            raise SkippedError("functions compiled by XLA came with TensorFlow 1.12")
        found, place = self._run(
            device, lambda: xla.compile(product, [self._feed(each) for each in checks.eighths()])[0]
        )
        return checks.whole_numbers(found), PRODUCT, place

    def check_memory(self, report: "Report", device: str) -> None:
        """See that this process, told to let memory grow, does not hold the whole card."""
        card.check_growth(report, device)

    def ask_for_missing(self) -> str:
        """Ask for a device that is not there."""
        self._run(checks.MISSING, self._product)
        return checks.MISSING

    def soften(self) -> Tuple[Any, str]:
        """Ask for the same with soft placement."""
        found, place = self._run(checks.MISSING, self._product, allow_soft_placement=True)
        return found.tolist(), place

    def _on(self, device: str, build: Callable[[], Any]) -> Any:
        with self._tf.device("/device:" + device):
            return build()

    def towers(self, targets: List[str]) -> Tuple[Any, str]:
        """Multiply in two towers and add on the CPU."""
        tf = self._tf
        found, place = self._run("CPU:0", lambda: tf.add_n([self._on(each, self._product) for each in targets]))
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
            self._fed = {}
            with tf.device("/device:CPU:0"):
                made = part()
            told = mirrored.on_all(tf, strategy, made, lambda each: each)
            # Softly: what a strategy makes of itself (an index, a number of replicas) may have no GPU form.
            with tf.Session(config=self._config(self._report, tf, allow_soft_placement=True)) as session:
                return [each.ravel().tolist() for each in session.run(told, self._fed)]

    def reduce(self, targets: List[str]) -> Tuple[List[float], str]:
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

        alone, _ = self._run(targets[0], lambda: self._gradient(self._feed(rows)), allow_soft_placement=True)
        return self._mirrored(targets, part), alone.ravel().tolist()

    def _gradient(self, rows: Any) -> Any:
        tf = self._tf
        weights = tf.ones([4, 1])
        return tf.gradients(tf.reduce_sum(tf.matmul(rows, weights) ** 2), weights)[0]


def bench(report: "Report", opened: Any) -> None:
    """Measure on each device."""
    tf, devices = opened[:2]
    speed.run(report, [name for name in devices if not name.startswith("XLA")], BenchEngine(tf))


class BenchEngine:
    """What TensorFlow 1 is measured by: a graph and a session for each measurement, of which one number comes back."""

    precisions = ("float32", "float16")

    def __init__(self, tf: Any) -> None:
        self._tf = tf

    def _session(self, device: str, build: Callable[[Any], Any]) -> Callable[[], Any]:
        tf, graph = self._tf, self._tf.Graph()
        config = tf.ConfigProto(allow_soft_placement=True)  # some of what initialises has no GPU form
        config.gpu_options.allow_growth = True
        with graph.as_default(), tf.device("/device:" + device):
            fetched = build(tf)
            session = tf.Session(config=config)
            session.run(tf.global_variables_initializer())
        return lambda: session.run(fetched)

    def multiply(self, device: str, precision: str, size: int) -> Callable[[], Any]:
        """Multiply two square matrices."""

        def build(tf: Any) -> Any:
            left, right = (tf.Variable(tf.cast(tf.random.uniform([size, size]), precision)) for _ in range(2))
            return tf.matmul(left, right)[0, 0]

        return self._session(device, build)

    def copy_to(self, device: str, size: int) -> Callable[[], Any]:
        """Copy from the host to the device."""

        def build(tf: Any) -> Any:
            with tf.device("/device:CPU:0"):
                here = tf.Variable(tf.zeros([size // 4]))
            return tf.identity(here)[0]

        return self._session(device, build)

    def copy_within(self, device: str, size: int) -> Callable[[], Any]:
        """Copy within the device's memory, by the operation that shares none."""
        from tensorflow.python.ops import gen_array_ops

        return self._session(device, lambda tf: gen_array_ops.deep_copy(tf.Variable(tf.ones([size // 4])))[0])

    def train(self, device: str) -> Callable[[], Any]:
        """Train a small convolutional network for one step on images made on the spot."""

        def build(tf: Any) -> Any:
            images = tf.Variable(tf.random.uniform([64, 28, 28, 1]), trainable=False)
            labels = tf.Variable(tf.random.uniform([64], maxval=10, dtype=tf.int32), trainable=False)
            kernel = tf.Variable(tf.random.normal([3, 3, 1, 16]) * 0.01)
            matrix = tf.Variable(tf.random.normal([26 * 26 * 16, 10]) * 0.01)
            hidden = tf.reshape(tf.nn.relu(tf.nn.conv2d(images, kernel, [1, 1, 1, 1], "VALID")), [64, -1])
            logits = tf.matmul(hidden, matrix)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
            return tf.train.GradientDescentOptimizer(0.01).minimize(loss)

        return self._session(device, build)
