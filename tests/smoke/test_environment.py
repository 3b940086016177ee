"""What is found to test among an environment's distributions; they are composed."""

from __future__ import annotations

from envcheck.model import Distribution
from envcheck.smoke.runner import script_of
from envcheck.smoke.session import Subject, hidden_folders, installed_frameworks


def dist(name: str, version: str, *modules: str) -> Distribution:
    return Distribution(name, version, modules=modules)


def test_frameworks_are_listed_once_each_with_the_number_people_know() -> None:
    found = (
        dist("jaxlib", "0.6.0", "jaxlib"),
        dist("jax", "0.6.2", "jax"),
        dist("torch", "2.7.0+cu126", "torch", "torchgen"),
        dist("tensorflow-gpu", "2.12.0", "a_shell"),
        dist("tensorflow-cpu", "2.15.1", "tensorflow"),
        dist("tensorflow", "2.10.0", "tensorflow"),
    )
    assert [(item.name, item.version) for item in installed_frameworks(found)] == [
        ("tensorflow", "2.15.1"),
        ("torch", "2.7.0+cu126"),
        ("jax", "0.6.2"),
    ]
    assert installed_frameworks((dist("jaxlib", "0.6.0"), dist("numpy", "2.0"))) == ()
    assert installed_frameworks((dist("torch", "2.7.0"),)) == (Subject("torch", "2.7.0"),)


def test_folders_that_an_isolated_start_leaves_out_are_named() -> None:
    there = (
        Distribution("a", "1", "/env/site-packages", "environment"),
        Distribution("b", "1", "/home/me/.local/site-packages", "user"),
        Distribution("c", "1", "/opt/modules", "path"),
        Distribution("d", "1", "/opt/modules", "path"),
    )
    assert hidden_folders(there) == ("/home/me/.local/site-packages", "/opt/modules")


def test_tensorflow_1_and_2_have_scripts_of_their_own() -> None:
    releases = ("1.15.5", "0.12", "2.0.0", "2.22.0.dev1")
    scripts = [script_of(Subject("tensorflow", version)) for version in releases]
    assert scripts == [
        "check_tensorflow1",
        "check_tensorflow1",
        "check_tensorflow2",
        "check_tensorflow2",
    ]
