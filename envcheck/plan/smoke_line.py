"""The last step: the environment's own Python says which devices its frameworks see."""

from __future__ import annotations

from envcheck.frameworks import framework
from envcheck.model.plans import CONDA, Environment, Step
from envcheck.plan.paths import interpreter, prefix


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


def _line(name: str, goal: str) -> str:
    known = framework(name)
    if goal == "gpu":
        return f"{known.gpu_listing}; print(t.__version__, d); assert d, 'no GPU seen'"
    return f"import {name} as t; print(t.__version__)"


def _activated(made: Environment, code: str) -> tuple[str, ...]:
    """Run code with the environment's loader paths, as its activation sets them."""
    if made.installer == CONDA:
        return ("conda", "run", "-p", prefix(made), "python", "-c", code)
    return ("sh", "-c", '. "$1" && exec python -c "$2"', "sh", f"{made.folder}/bin/activate", code)
