"""JAX: give the process a quarter of the card, and see that it takes no more; in its own process."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envcheck.smoke.children.start import Report


def run(report: "Report") -> Any:
    """Compute once with a share of the memory, all of which JAX takes at once; ask the driver how much is gone."""
    card = __import__("smoke_card")
    os.environ.pop("XLA_CLIENT_MEM_FRACTION", None)  # newer releases know this name too, and refuse to be given both
    os.environ.update(XLA_PYTHON_CLIENT_MEM_FRACTION=str(card.SHARE), XLA_PYTHON_CLIENT_PREALLOCATE="true")
    with report.step("memory share", "GPU:0") as step:
        before = card.memory()
        import jax

        ones = jax.device_put(jax.numpy.ones((2, 2)), jax.devices("gpu")[0])
        card.judge_share(step, before, right=float(ones.sum()) == 4.0)
