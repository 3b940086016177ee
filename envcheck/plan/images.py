"""The container image a plan builds upon: one with its Python and a C library that is new enough."""

from __future__ import annotations

from packaging.version import Version

from envcheck.model.plans import CONDA, Environment
from envcheck.plan.plan_data import plan_data


def base_image(made: Environment) -> str:
    """Name the image for an environment; ValueError where no listed image has its Python and C library."""
    images = plan_data()["images"]
    if made.installer == CONDA:
        return str(images["conda"])
    for suite in reversed(images["pythons"].get(made.python, [])):
        if Version(images["suites"][suite]) >= Version(made.glibc or "0"):
            return str(images["python"].format(python=made.python, suite=suite))
    raise ValueError(f"no image is listed with Python {made.python} and glibc {made.glibc or 'of any version'}.")
