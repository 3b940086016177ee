"""The container images a plan builds upon: its Python and a C library that is new enough, and who checks the result."""

from __future__ import annotations

from packaging.version import Version

from envcheck.model import dataclass, numbers
from envcheck.model.actions import CONDA, UV
from envcheck.model.plans import Environment
from envcheck.plan.plan_data import plan_data

_OWN_FLOOR = (3, 10)  # requires-python of this program


@dataclass(frozen=True)
class Images:
    """The images a Dockerfile names."""

    base: str
    checker: str = ""  # with a Python that this program runs on; "" where that of the base will do
    uv: str = ""  # "" where nothing is installed with it


def images_for(made: Environment) -> Images:
    """Name the images for an environment; ValueError where no listed one has its Python and C library."""
    images = plan_data().images
    if made.installer == CONDA:
        return Images(images.conda)
    suite = _suite(made)
    is_old = numbers(made.python) < _OWN_FLOOR
    return Images(
        _image(made.python, suite),
        checker=_image(images.checker, suite) if is_old else "",
        uv=images.uv if made.installer == UV else "",
    )


def _suite(made: Environment) -> str:
    images = plan_data().images
    for suite in reversed(images.pythons.get(made.python, ())):
        if Version(images.suites[suite]) >= Version(made.glibc or "0"):
            return suite
    raise ValueError(f"no image is listed with Python {made.python} and glibc {made.glibc or 'of any version'}.")


def _image(python: str, suite: str) -> str:
    return plan_data().images.python.format(python=python, suite=suite)
