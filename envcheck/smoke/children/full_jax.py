"""JAX, the full level: large matmuls, a convolution, compilation, memory, wrong devices, several devices at once."""

from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from envcheck.smoke.children.start import Report

SIZE = 2048
# Of the typical number, the root of the size: TF32 keeps 10 bits of each factor, half adds up in 11 bits on some CPUs.
ALLOWED = {"float32": 5e-3, "float16": 5e-2}
LEFT, RIGHT = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
SUM = [[44.0, 56.0], [98.0, 128.0]]


def more(report: "Report", opened: Any) -> None:
    """Go on where placing left off: one device at a time, then all together."""
    jax, devices = opened[:2]
    targets = [name for name in devices if name.startswith("GPU")] or devices
    if report.gpu != "all":
        for kind, allowed in sorted(ALLOWED.items()):
            multiply_large(report, opened, targets[0], kind, allowed)
        convolve(report, opened, targets[0])
        ask_for_missing(report, jax)
        if targets[0].startswith("GPU"):
            hold_little(report, opened, targets[0])
    towers(report, opened, (targets * 2)[:2] if len(targets) < 2 else targets[:2])
    if len(targets) > 1:
        copy_between(report, opened, targets)
        reduce_over_all(report, opened, targets)
        train_together(report, opened, targets)


def multiply_large(report: "Report", opened: Any, device: str, kind: str, allowed: float) -> None:
    """Multiply random matrices, compiled, and hold the product against NumPy's in double precision."""
    import numpy as np

    jax, _, place_of, device_of = opened
    size = 512 if kind == "float16" and device.startswith("CPU") else SIZE  # half on a CPU is slow
    with report.step("matmul %d %s" % (size, kind), device) as step:
        values = np.random.RandomState(0).standard_normal((2, size, size)).astype(kind)
        wanted = values[0].astype("float64") @ values[1].astype("float64")
        left, right = (jax.device_put(value, device_of(jax, device)) for value in values)
        found = jax.jit(jax.numpy.matmul)(left, right)
        error = np.abs(np.asarray(found).astype("float64") - wanted).max() / size**0.5
        step.within(float(error), allowed, place_of(jax, found))


def convolve(report: "Report", opened: Any, device: str) -> None:
    """Sum 3 x 3 neighbours of 0..63 by a convolution, which cuDNN does on a GPU; exp needs libdevice there."""
    import numpy as np

    jax, _, place_of, device_of = opened
    with report.step("convolution", device) as step:
        image = np.arange(64, dtype="float32").reshape(1, 1, 8, 8)
        wanted = sum(image[:, :, y : y + 6, x : x + 6] for y in range(3) for x in range(3))
        put = [jax.device_put(each, device_of(jax, device)) for each in (image, np.ones((1, 1, 3, 3), "float32"))]
        found = jax.jit(lambda x, k: jax.lax.conv(x, k, (1, 1), "VALID") + 0.0 * jax.numpy.exp(k[0, 0, 0, 0]))(*put)
        step.judge(np.asarray(found).ravel().tolist(), wanted.ravel().tolist(), place_of(jax, found))


def ask_for_missing(report: "Report", jax: Any) -> None:
    """Ask for a kind of device that is not there: JAX has to refuse."""
    with report.step("missing device") as step:
        try:
            jax.devices("tpu")
            step.skipped("there is a TPU")
        except RuntimeError as error:
            step.passed("a TPU was refused, as it should be: %s" % str(error).splitlines()[0][:200])


def hold_little(report: "Report", opened: Any, device: str) -> None:
    """See that this process, told not to preallocate, does not hold the whole card."""
    jax, _, _, device_of = opened
    with report.step("memory growth", device) as step:
        told = device_of(jax, device).memory_stats() or {}
        pool, limit = told.get("pool_bytes", told.get("bytes_reserved")), told.get("bytes_limit")
        if pool is None or not limit:
            step.skipped("JAX does not tell how much it holds")
        else:
            said = "holds %.1f of %.1f GiB" % (pool / 2.0**30, limit / 2.0**30)
            (step.passed if pool < limit / 2 else step.failed)(said)


def towers(report: "Report", opened: Any, targets: List[str]) -> None:
    """Multiply in two towers and add on the CPU."""
    import numpy as np

    jax, _, place_of, device_of = opened
    with report.step("towers on %s" % " and ".join(targets), "CPU:0") as step:
        values = [np.array(each, dtype="float32") for each in (LEFT, RIGHT)]
        put = [[jax.device_put(value, device_of(jax, target)) for value in values] for target in targets]
        home = [jax.device_put(left @ right, device_of(jax, "CPU:0")) for left, right in put]
        found = home[0] + home[1]
        step.judge(np.asarray(found).tolist(), SUM, place_of(jax, found))


def copy_between(report: "Report", opened: Any, targets: List[str]) -> None:
    """Copy a matrix from each device to the next."""
    import numpy as np

    jax, _, place_of, device_of = opened
    for source, target in zip(targets, targets[1:] + targets[:1]):
        with report.step("copy from %s" % source, target) as step:
            first = jax.device_put(np.array(LEFT, dtype="float32"), device_of(jax, source))
            found = jax.device_put(first, device_of(jax, target))
            step.judge(np.asarray(found).tolist(), LEFT, place_of(jax, found))


def reduce_over_all(report: "Report", opened: Any, targets: List[str]) -> None:
    """Add 1, 2, 3 ... over all devices; between GPUs NCCL does it."""
    import numpy as np

    jax, _, _, device_of = opened
    with report.step("all-reduce over %s" % ", ".join(targets)) as step:
        where = [device_of(jax, target) for target in targets]
        numbers = np.arange(1, len(targets) + 1, dtype="float32").reshape(-1, 1)
        found = np.asarray(jax.pmap(lambda x: jax.lax.psum(x, "all"), "all", devices=where)(numbers)).ravel().tolist()
        wanted = [float(numbers.sum())] * len(targets)
        (step.passed if found == wanted else step.failed)("gave %s, right is %s" % (found, wanted))


def train_together(report: "Report", opened: Any, targets: List[str]) -> None:
    """Compare the gradient of a linear model on all devices, a share of the rows each, with that on one device."""
    import numpy as np

    jax, _, _, device_of = opened
    with report.step("gradients over %s" % ", ".join(targets)) as step:
        rows = np.random.RandomState(1).standard_normal((len(targets), 8, 4)).astype("float32")
        gradient = jax.grad(lambda weights, part: ((part @ weights) ** 2).sum())
        weights = np.ones((4, 1), dtype="float32")
        where = [device_of(jax, target) for target in targets]
        share = jax.pmap(lambda part: jax.lax.psum(gradient(weights, part), "all"), "all", devices=where)
        alone = np.asarray(gradient(jax.device_put(weights, where[0]), rows.reshape(-1, 4)))
        step.within(float(np.abs(np.asarray(share(rows)) - alone).max() / np.abs(alone).max()), 1e-4, step.device)
