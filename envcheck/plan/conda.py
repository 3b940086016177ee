"""Steps that make an environment with conda, mamba's command lines being the same."""

from __future__ import annotations

import re

from envcheck.model.plans import Environment, Step
from envcheck.plan.paths import interpreter, prefix, removal
from envcheck.plan.pip import install_steps

_SPEC = r"[a-z0-9][a-z0-9._-]*(?:[=<>!~]=?[A-Za-z0-9.*+_]+(?:=[A-Za-z0-9.*_]+)?)?"


def environment_steps(made: Environment, base: str = "") -> tuple[Step, ...]:  # noqa: ARG001 - conda brings the Python
    """Create the environment from its channels, then install by pip what conda does not bring."""
    for spec in (*made.packages, *made.channels):
        if not re.fullmatch(_SPEC, spec):
            raise ValueError(spec)
    channels = tuple(part for name in made.channels for part in ("-c", name))
    brings_cuda = made.sets and any(re.match("cudatoolkit|cudnn", spec) for spec in made.packages)
    create = Step(
        "create-environment",
        f"Create a conda environment with Python {made.python}" + (" and the CUDA libraries." if brings_cuda else "."),
        ("conda", "create", "-y", "-p", prefix(made), "--override-channels", *channels, *made.packages),
        env=made.variables,
        verify=(interpreter(made), "--version"),
        undo=removal(made),
        environment=made.folder,
    )
    return (create, *install_steps(made))
