"""What is found to test in an environment's facts; the facts are composed."""

from __future__ import annotations

from envcheck.model.facts import Absent, Known, Source
from envcheck.model.python_env import Distribution, FrameworkBuild, PythonFacts
from envcheck.smoke.environment import hidden_folders, installed_frameworks
from envcheck.smoke.runs import Framework

HERE = Source("file", "composed")


def facts(*builds: FrameworkBuild, distributions: tuple[Distribution, ...] = ()) -> PythonFacts:
    return PythonFacts(frameworks=Known(builds, HERE), distributions=Known(distributions, HERE))


def test_frameworks_are_listed_once_each_with_the_number_people_know() -> None:
    found = facts(
        FrameworkBuild("jax", "jax-cuda12-plugin", "0.6.1"),
        FrameworkBuild("jax", "jaxlib", "0.6.0"),
        FrameworkBuild("torch", "torch", "2.7.0+cu126"),
        FrameworkBuild("tensorflow", "tensorflow", "2.15.1", "/first"),
        FrameworkBuild("tensorflow", "tensorflow-cpu", "2.10.0", "/second"),
        distributions=(Distribution("jax", "0.6.2"),),
    )
    assert [(item.name, item.version) for item in installed_frameworks(found)] == [
        ("tensorflow", "2.15.1"),
        ("torch", "2.7.0+cu126"),
        ("jax", "0.6.2"),
    ]
    assert installed_frameworks(PythonFacts(frameworks=Absent())) == ()


def test_folders_that_an_isolated_start_leaves_out_are_named() -> None:
    there = (
        Distribution("a", "1", "/env/site-packages", "environment"),
        Distribution("b", "1", "/home/me/.local/site-packages", "user"),
        Distribution("c", "1", "/opt/modules", "path"),
        Distribution("d", "1", "/opt/modules", "path"),
    )
    assert hidden_folders(facts(distributions=there)) == ("/home/me/.local/site-packages", "/opt/modules")


def test_tensorflow_1_and_2_have_scripts_of_their_own() -> None:
    families = {
        version: Framework("tensorflow", version).family for version in ("1.15.5", "0.12", "2.0.0", "2.22.0.dev1")
    }
    assert list(families.values()) == ["tensorflow1", "tensorflow1", "tensorflow2", "tensorflow2"]
