"""TensorFlow 2, the bench level."""

from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from envcheck.smoke.children import bench_speed as speed
    from envcheck.smoke.children.start import Report
else:
    import bench_speed as speed


def more(report: "Report", opened: Any) -> None:
    """Measure on each device, without the log of placements: it would be what is measured."""
    tf, devices, _ = opened
    tf.debugging.set_log_device_placement(False)
    tf.config.set_soft_device_placement(True)  # a label may have no GPU form; last, for the line above takes it back
    speed.run(report, devices, Engine(tf))


class Engine:
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
