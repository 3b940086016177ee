"""TensorFlow 1, the full level; each check in a graph of its own."""

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Tuple

if TYPE_CHECKING:
    from envcheck.smoke.children import factors_numpy
    from envcheck.smoke.children import full_checks as checks
    from envcheck.smoke.children import full_mirrored as mirrored
    from envcheck.smoke.children import smoke_card as card
    from envcheck.smoke.children.driver_api import SkippedError
    from envcheck.smoke.children.start import Report
else:
    import factors_numpy
    import full_checks as checks
    import full_mirrored as mirrored
    import smoke_card as card
    from driver_api import SkippedError


def more(report: "Report", opened: Any) -> None:
    """Go on where placing left off."""
    tf, devices, run_traced, config = opened
    checks.run(report, devices, Engine(report, tf, run_traced, config))


class Engine:
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

    def _product(self, left: Any = checks.LEFT, right: Any = checks.RIGHT) -> Any:
        return self._tf.matmul(self._feed(left), self._feed(right))

    def large_error(self, device: str, kind: str, size: int) -> Tuple[float, str]:
        """Multiply random matrices."""
        factors = factors_numpy.random_factors(kind, size)
        found, place = self._run(device, lambda: self._product(*factors))
        return factors_numpy.product_error(found, factors), place

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
        return checks.whole_numbers(found), checks.PRODUCT, place

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
        left = lambda: self._feed(checks.LEFT) * 2.0  # noqa: E731
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
