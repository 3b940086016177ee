"""conda's own builds of the frameworks: which are taken for a request, and how they are asked for."""

from __future__ import annotations

import pytest

from envcheck.model import Plan
from tests.plan.machines import chosen, machine, planned


def condas(text: str, python: str = "3.11", **described: str) -> Plan:
    return planned(text, on=machine(python=python, **described), installer="conda")


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("tensorflow==2.16.*", ("tensorflow=2.16.*=cpu*", "setuptools<82")),
        ("tensorflow>=2.15,<2.17", ("tensorflow=2.16.*=cpu*", "setuptools<82")),
        ("tensorflow==2.16.1", ("tensorflow=2.16.1=cpu*", "setuptools<82")),
        ("tensorflow>=2.16,<=2.16.1", ("tensorflow=2.16.1=cpu*", "setuptools<82")),
        ("torch==2.4.*", ("pytorch=2.4.*=cpu*",)),
        ("jax==0.6.2", ("jax=0.6.2", "jaxlib=0.6.2=*cpu*")),
    ],
)
def test_a_line_is_asked_for_whole_only_where_all_of_it_is_welcome(
    text: str, specs: tuple[str, ...]
) -> None:
    (made,) = condas(text).environments
    assert made.packages == ("python=3.11", *specs)


def test_a_release_that_conda_never_built_comes_by_pip() -> None:
    """The index has TensorFlow 2.15.1; the recipes ended that line at 2.15.0."""
    (made,) = condas("tensorflow==2.15.1").environments
    assert made.packages == ("python=3.11", "pip")
    assert made.sets[0].requirements[0] == "tensorflow-cpu==2.15.1"


def test_the_release_is_the_one_that_conda_brings() -> None:
    """The CPU build of the index has a name of its own, conda's has not."""
    release = chosen(condas("tensorflow==2.15.*"))
    assert (release.distribution, release.version, release.requirement) == (
        "tensorflow",
        "2.15.0",
        "tensorflow==2.15.*",
    )
    assert chosen(condas("torch==2.8.*")).index == ""


def test_what_only_wheels_need_is_asked_of_no_channel() -> None:
    """What a build was linked with (protobuf) it fixes itself, and nvidia-* are wheels."""
    old = condas("tensorflow==2.8.*", python="3.10")
    assert chosen(old).constraints == ("setuptools<82", "numpy<2")
    jax = condas("jax==0.4.25", python="3.11", driver="550.54.14", gpu="8.0")
    assert chosen(jax).constraints == ("numpy<2",)
    assert jax.environments[0].packages == (
        "python=3.11",
        "jax=0.4.25",
        "jaxlib=0.4.25=*cuda*",
        "numpy<2",
    )


def test_a_free_threaded_python_takes_nothing_from_conda() -> None:
    (made,) = condas("torch==2.8.*", python="3.13t").environments
    assert made.sets
