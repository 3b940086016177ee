"""JAX, the full level."""

from typing import TYPE_CHECKING, Any, List, Tuple

if TYPE_CHECKING:
    from envcheck.smoke.children import factors_numpy
    from envcheck.smoke.children import full_checks as checks
    from envcheck.smoke.children import smoke_card as card
    from envcheck.smoke.children.driver_api import SkippedError
    from envcheck.smoke.children.start import Report
else:
    import factors_numpy
    import full_checks as checks
    import smoke_card as card
    from driver_api import SkippedError


def more(report: "Report", opened: Any) -> None:
    """Go on where placing left off."""
    jax, devices, place_of, device_of = opened
    checks.run(report, devices, Engine(jax, place_of, device_of))


class Engine:
    """What JAX is asked for."""

    refusals = (RuntimeError,)

    def __init__(self, jax: Any, place_of: Any, device_of: Any) -> None:
        import numpy as np

        self._jax, self._np, self._place_of, self._device_of = jax, np, place_of, device_of

    def _on(self, device: str, numbers: Any) -> Any:
        return self._jax.device_put(self._np.array(numbers, "float32"), self._device_of(self._jax, device))

    def _told(self, found: Any) -> Tuple[Any, str]:
        return self._np.asarray(found).tolist(), self._place_of(self._jax, found)

    def large_error(self, device: str, kind: str, size: int) -> Tuple[float, str]:
        """Multiply random matrices, compiled."""
        factors = factors_numpy.random_factors(kind, size)
        put = [self._jax.device_put(each, self._device_of(self._jax, device)) for each in factors]
        found = self._jax.jit(self._jax.numpy.matmul)(*put)
        return factors_numpy.product_error(found, factors), self._place_of(self._jax, found)

    def convolve(self, device: str, image: Any) -> Tuple[List[float], str]:
        """Convolve with ones."""
        lax = self._jax.lax
        given = self._on(device, [[image]]), self._on(device, self._np.ones((1, 1, 3, 3)))
        found = self._jax.jit(lambda x, k: lax.conv(x, k, (1, 1), "VALID").ravel())(*given)
        return self._told(found)

    def compiled(self, device: str) -> Tuple[Any, Any, str]:
        """Compile several operations as one; the exponential comes from libdevice on a GPU."""
        product = self._jax.jit(lambda a, b: a @ b + 0.0 * self._jax.numpy.exp(a @ b))
        found, place = self._told(product(*[self._on(device, each) for each in checks.eighths()]))
        return checks.whole_numbers(found), checks.PRODUCT, place

    def check_memory(self, report: "Report", device: str) -> None:
        """See that this process, told not to preallocate, does not hold the whole card."""
        card.check_growth(report, device)

    def ask_for_missing(self) -> str:
        """Ask for a kind of device that is not there: devices have no numbers to miss."""
        self._jax.devices("tpu")
        raise SkippedError("there is a TPU")

    def towers(self, targets: List[str]) -> Tuple[Any, str]:
        """Multiply in two towers and add on the CPU."""
        products = [self._on(target, checks.LEFT) @ self._on(target, checks.RIGHT) for target in targets]
        home = [self._jax.device_put(each, self._device_of(self._jax, "CPU:0")) for each in products]
        return self._told(home[0] + home[1])

    def copy(self, source: str, target: str) -> Tuple[Any, str, str]:
        """Copy a matrix."""
        found = self._jax.device_put(self._on(source, checks.LEFT), self._device_of(self._jax, target))
        return self._told(found) + ("",)

    def _on_all(self, action: Any, targets: List[str]) -> Any:
        jax, where = self._jax, [self._device_of(self._jax, target) for target in targets]

        def summed(each: Any) -> Any:
            return jax.lax.psum(action(each), "all")

        if hasattr(jax, "pmap"):
            return jax.pmap(summed, "all", devices=where)
        mesh, split = jax.sharding.Mesh(self._np.array(where), ("all",)), jax.sharding.PartitionSpec("all")
        return jax.jit(
            jax.shard_map(
                lambda part: summed(part[0])[None], mesh=mesh, in_specs=split, out_specs=split, check_vma=False
            )
        )  # what is to take pmap's place; unchecked, for the check would add up gradients by itself

    def reduce(self, targets: List[str]) -> Tuple[List[float], str]:
        """Add up; between GPUs NCCL does it."""
        numbers = self._np.arange(1, len(targets) + 1, dtype="float32")
        return self._np.asarray(self._on_all(lambda number: number, targets)(numbers)).tolist(), "psum"

    def gradients(self, rows: Any, targets: List[str]) -> Tuple[List[List[float]], List[float]]:
        """Return each device's sum of all gradients, and the first one's of all rows."""
        np, weights = self._np, self._np.ones((4, 1), dtype="float32")
        gradient = self._jax.grad(lambda weights, part: ((part @ weights) ** 2).sum())
        shares = np.array(rows, "float32").reshape(len(targets), -1, 4)
        together = self._on_all(lambda part: gradient(weights, part), targets)(shares)
        alone = gradient(self._on(targets[0], weights), self._on(targets[0], rows))
        return np.asarray(together).reshape(len(targets), -1).tolist(), np.asarray(alone).ravel().tolist()
