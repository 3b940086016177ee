"""JAX, the bench level."""

from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from envcheck.smoke.children import bench_speed as speed
    from envcheck.smoke.children.start import Report
else:
    import bench_speed as speed


def more(report: "Report", opened: Any) -> None:
    """Measure on each device."""
    jax, devices, _, device_of = opened
    speed.run(report, devices, Engine(jax, device_of))


class Engine:
    """What JAX is measured by."""

    precisions = ("float32", "tf32", "float16", "bfloat16")

    def __init__(self, jax: Any, device_of: Any) -> None:
        self._jax, self._device_of = jax, device_of

    def _put(self, value: Any, device: str) -> Any:
        return self._jax.device_put(value, self._device_of(self._jax, device)).block_until_ready()

    def multiply(self, device: str, precision: str, size: int) -> Callable[[], Any]:
        """Multiply two square matrices."""
        import numpy as np

        jax, kind = self._jax, "float32" if precision == "tf32" else precision
        numbers = np.random.RandomState(0).rand(size, size).astype("float32")
        left, right = (self._put(numbers, device).astype(kind) for _ in range(2))
        exact = jax.lax.Precision.HIGHEST if precision == "float32" else jax.lax.Precision.DEFAULT  # which takes TF32
        product = jax.jit(lambda left, right: jax.numpy.matmul(left, right, precision=exact))
        return lambda: product(left, right).block_until_ready()

    def copy_to(self, device: str, size: int) -> Callable[[], Any]:
        """Copy from the host to the device."""
        import numpy as np

        here = np.ones(size, dtype="uint8")
        return lambda: self._put(here, device)

    def copy_within(self, device: str, size: int) -> Callable[[], Any]:
        """Copy within the device's memory."""
        import numpy as np

        there = self._put(np.ones(size, dtype="uint8"), device)
        return lambda: self._jax.numpy.array(there, copy=True).block_until_ready()

    def train(self, device: str) -> Callable[[], Any]:
        """Train a small convolutional network for one step on images made on the spot."""
        import numpy as np

        jax = self._jax
        made = (np.random.RandomState(0).rand(64, 1, 28, 28), np.eye(10)[np.arange(64) % 10])
        images, labels = (self._put(each.astype("float32"), device) for each in made)
        shapes = ((16, 1, 3, 3), (16 * 26 * 26, 10))
        weights = [
            self._put((np.random.RandomState(0).rand(*shape) * 0.01).astype("float32"), device) for shape in shapes
        ]

        def loss(weights: Any) -> Any:
            hidden = jax.nn.relu(jax.lax.conv(images, weights[0], (1, 1), "VALID")).reshape(64, -1)
            return -(jax.nn.log_softmax(hidden @ weights[1]) * labels).sum(axis=1).mean()

        step = jax.jit(lambda weights: [w - 0.01 * g for w, g in zip(weights, jax.grad(loss)(weights))])
        state = [weights]

        def one() -> None:
            state[0] = step(state[0])
            state[0][1].block_until_ready()

        return one
