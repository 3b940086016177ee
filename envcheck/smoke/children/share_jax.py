"""JAX: give the process a quarter of the card, and see that it takes no more; in its own process."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envcheck.smoke.children.start import Report

SHARE = 0.25


def run(report: "Report") -> Any:
    """Compute once with XLA_PYTHON_CLIENT_MEM_FRACTION set; ask JAX for its limit and the driver for the whole."""
    os.environ.update(XLA_PYTHON_CLIENT_MEM_FRACTION=str(SHARE), XLA_PYTHON_CLIENT_PREALLOCATE="true")
    with report.step("memory share", "GPU:0") as step:
        whole = __import__("card").memory()
        import jax

        device = jax.devices("gpu")[0]
        right = float(jax.numpy.ones((2, 2)).sum()) == 4.0
        limit = (device.memory_stats() or {}).get("bytes_limit")
        if whole is None or not limit:
            step.skipped("JAX or the driver does not tell how much there is")
            return
        said = "may hold %.1f GiB of %.1f" % (limit / 2.0**30, whole[1] / 2.0**30)
        (step.passed if right and limit <= (SHARE + 0.02) * whole[1] else step.failed)(said)
