"""TensorFlow 2, the full level."""

from typing import TYPE_CHECKING, Any, Callable, List, Tuple

if TYPE_CHECKING:
    from envcheck.smoke.children import factors_numpy
    from envcheck.smoke.children import full_checks as checks
    from envcheck.smoke.children import full_mirrored as mirrored
    from envcheck.smoke.children import smoke_card as card
    from envcheck.smoke.children.start import Report
else:
    import factors_numpy
    import full_checks as checks
    import full_mirrored as mirrored
    import smoke_card as card


def more(report: "Report", opened: Any) -> None:
    """Go on where placing left off."""
    tf, devices, place_of = opened
    checks.run(report, devices, Engine(tf, place_of))


class Engine:
    """What TensorFlow 2 is asked for."""

    def __init__(self, tf: Any, place_of: Any) -> None:
        self._tf, self._place_of = tf, place_of
        self._strategy = None  # type: Any
        self.refusals = (tf.errors.InvalidArgumentError, RuntimeError)

    def _on(self, device: str) -> Any:
        return self._tf.device("/device:" + device)

    def _product(self, device: str, left: Any = checks.LEFT, right: Any = checks.RIGHT) -> Any:
        with self._on(device):
            return self._tf.matmul(self._tf.constant(left), self._tf.constant(right))

    def large_error(self, device: str, kind: str, size: int) -> Tuple[float, str]:
        """Multiply random matrices."""
        factors = factors_numpy.random_factors(kind, size)
        found = self._product(device, *factors)
        return factors_numpy.product_error(found.numpy(), factors), self._place_of(found)

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
        return checks.whole_numbers(found.numpy()), checks.PRODUCT, self._place_of(found)

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
            left = self._tf.constant(checks.LEFT)
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
