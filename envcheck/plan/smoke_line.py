"""The last step: the environment's own Python says which devices its frameworks see."""

from __future__ import annotations

from envcheck.model.plans import CONDA, Environment, Step
from envcheck.plan.paths import interpreter, prefix

_SEEN = {
    # Every TensorFlow has this module; tf.config lists devices from 2.1 on.
    "tensorflow": (
        "import tensorflow as t; from tensorflow.python.client import device_lib as l; "
        "d = [x.name for x in l.list_local_devices() if x.device_type == 'GPU']"
    ),
    "torch": "import torch as t; d = [t.cuda.get_device_name(i) for i in range(t.cuda.device_count())]",
    "jax": "import jax as t; d = [x for x in t.devices() if x.platform in ('gpu', 'cuda')]",
}
_IMPORTED = {"tensorflow": "import tensorflow as t", "torch": "import torch as t", "jax": "import jax as t"}


def verification_step(made: Environment, frameworks: tuple[str, ...], goal: str) -> Step:
    """Import each framework in the activated environment and print its version, and for GPU work what GPUs it sees."""
    lines = [_line(name, goal) for name in frameworks]
    code = "; ".join(lines)
    if not made.platform.startswith("win"):
        code = code.replace("'", '"')  # each shell prints best what holds none of its own quotes
    # Windows finds conda's CUDA by the PATH that an activation sets.
    by_path = made.installer == CONDA and made.platform.startswith("win") and goal == "gpu"
    argv = _activated(made, code) if made.library_folders or by_path else (interpreter(made), "-c", code)
    seen = "finds the GPU" if goal == "gpu" else "imports"
    return Step(
        "verify",
        f"See that each framework {seen}: {', '.join(frameworks)}.",
        argv,
        verify=argv,
        environment=made.folder,
        lasting="it changes nothing",
    )


def _line(framework: str, goal: str) -> str:
    if goal == "gpu":
        return f"{_SEEN[framework]}; print(t.__version__, d); assert d, 'no GPU seen'"
    return f"{_IMPORTED[framework]}; print(t.__version__)"


def _activated(made: Environment, code: str) -> tuple[str, ...]:
    """Run code with the environment's loader paths, as its activation sets them."""
    if made.installer == CONDA:
        return ("conda", "run", "-p", prefix(made), "python", "-c", code)
    return ("sh", "-c", '. "$1" && exec python -c "$2"', "sh", f"{made.folder}/bin/activate", code)
