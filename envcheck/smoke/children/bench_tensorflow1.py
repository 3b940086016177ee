"""TensorFlow 1, the bench level."""

from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from envcheck.smoke.children import bench_speed as speed
    from envcheck.smoke.children.start import Report
else:
    import bench_speed as speed


def more(report: "Report", opened: Any) -> None:
    """Measure on each device."""
    tf, devices = opened[:2]
    speed.run(report, [name for name in devices if not name.startswith("XLA")], Engine(tf))


class Engine:
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
