"""Rules about whether a framework is there, once, and is what an import finds."""

from __future__ import annotations

import pytest

from envcheck.model import Absent
from envcheck.rules.frameworks import _rival_to_keep
from tests.rules.factory_python import (
    UNREADABLE,
    build,
    context,
    distribution,
    facts,
    findings,
    found,
    known,
)

UNDECIDED = [("probe-failed", "error")]


def test_nothing_installed() -> None:
    assert found("framework-missing", context(facts())) == [("framework-missing", "note")]
    assert found("framework-missing", context(facts(), expect="cpu")) == [
        ("framework-missing", "note")
    ]
    assert found("framework-missing", context(facts(), expect="gpu")) == [
        ("framework-missing", "error")
    ]
    assert found("framework-missing", context(facts(), "torch", expect="gpu")) == []
    assert found("framework-missing", context(facts(build("torch", "2.8.0")))) == []
    assert found("framework-missing", context(facts(frameworks=UNREADABLE))) == UNDECIDED


def test_damaged_environment_is_not_an_empty_one() -> None:
    given = facts(distributions=(distribution("tensorflow", "2.15.1"),))
    assert found("framework-missing", context(given, expect="gpu")) == UNDECIDED


@pytest.mark.parametrize(
    ("name", "version", "machine", "also", "expected"),
    [
        ("tensorflow", "2.15.0", "windows AMD64", (), True),
        ("tensorflow", "2.15.0", "windows AMD64", ("tensorflow-intel",), False),
        ("tensorflow-cpu", "2.10.0", "windows AMD64", (), True),
        ("tensorflow", "2.10.0", "windows AMD64", (), False),
        ("tensorflow", "2.12.0", "linux aarch64", (), True),
        ("tensorflow", "2.13.0", "darwin arm64", (), True),
        ("tensorflow", "2.15.1", "darwin arm64", (), False),
        ("tensorflow-macos", "2.15.1", "darwin arm64", (), True),
    ],
)
def test_empty_wheels_without_what_they_stand_for(
    name: str, version: str, machine: str, also: tuple[str, ...], expected: bool
) -> None:
    items = tuple(distribution(item, version) for item in (name, *also))
    os, architecture = map(known, machine.split())
    host = {"os": os, "architecture": architecture}
    given = facts(distributions=items, host=host, architecture=architecture)
    reported = findings("framework-missing", context(given))
    assert [item.id for item in reported if item.id != "probe-failed"] == (
        ["framework-missing"] if expected else []
    )
    if expected and name == "tensorflow":
        fix = reported[0].fix
        assert fix
        assert f"Install tensorflow=={version}." in fix.summary


def duplicates(
    *names: str, version: str = "2.15.1", expect: str = "auto", os: str = "linux"
) -> list[tuple[str, str]]:
    items = tuple(distribution(name, version, modules=("tensorflow",)) for name in names)
    return found(
        "framework-duplicate-dists",
        context(facts(distributions=items, host={"os": known(os)}), expect=expect),
    )


def test_two_owners_of_one_module() -> None:
    """One release under two names is a note on a CPU: nothing fails until one of them is removed."""
    assert duplicates("tensorflow", "tensorflow-cpu") == [("framework-duplicate-dists", "warning")]
    assert duplicates("tensorflow", "tensorflow-cpu", expect="cpu") == [
        ("framework-duplicate-dists", "note")
    ]
    assert duplicates("tensorflow", "tensorflow-gpu", version="") == [
        ("framework-duplicate-dists", "error")
    ]
    assert duplicates("tensorflow") == []
    assert (
        duplicates("jax", "jaxlib", "jax-cuda12-pjrt", "jax-cuda12-plugin", version="0.4.31") == []
    )


@pytest.mark.parametrize(
    ("other", "severity"), [("2.15.1", "warning"), ("2.15.1+cpu", "warning"), ("2.16.1", "error")]
)
def test_owners_of_two_releases_of_which_the_last_is_not_known_break_each_other(
    other: str, severity: str
) -> None:
    items = (distribution("tensorflow", "2.15.1"), distribution("tensorflow-cpu", other))
    assert found("framework-duplicate-dists", context(facts(distributions=items))) == [
        ("framework-duplicate-dists", severity)
    ]


@pytest.mark.parametrize(("numpy", "severity"), [("1.26.4", "warning"), ("2.1.0", "error")])
def test_the_last_of_two_releases_works_with_what_it_requires(numpy: str, severity: str) -> None:
    items = (
        distribution("tensorflow", "2.15.1", requires=("numpy <2.0.0,>=1.23.5",)),
        distribution("tensorflow-cpu", "2.18.0", requires=("numpy <2.1.0,>=1.26.0",)),
        distribution("numpy", numpy),
    )
    given = facts(build("tensorflow", "2.15.1"), distributions=items)
    assert found("framework-duplicate-dists", context(given, expect="cpu")) == [
        ("framework-duplicate-dists", severity)
    ]


def test_owners_in_two_folders_do_not_overwrite_each_other() -> None:
    inner = distribution("tensorflow-cpu", "2.21.0", location="/env/lib/python3.11/site-packages")
    outer = distribution(
        "tensorflow", "2.15.1", scope="path", location="/other/lib/python3.12/site-packages"
    )
    assert found("framework-duplicate-dists", context(facts(distributions=(outer, inner)))) == []


def test_metapackages_of_conda_hold_nothing() -> None:
    items = (
        distribution("tensorflow", "2.15.1"),
        distribution("tensorflow-gpu", "2.15.1", scope="conda"),
    )
    assert found("framework-duplicate-dists", context(facts(distributions=items))) == []
    assert found("framework-missing", context(facts(distributions=items[1:]))) == [
        ("framework-missing", "note")
    ]


def test_stubs_are_no_second_owner() -> None:
    assert duplicates("tensorflow", "tensorflow-intel", version="2.15.0", os="windows") == []
    both = (
        distribution(
            "tensorflow",
            "2.13.0",
            requires=("tensorflow-macos (==2.13.0) ; platform_system == 'Darwin'",),
        ),
        distribution("tensorflow-macos", "2.13.0"),
    )
    assert found("framework-duplicate-dists", context(facts(distributions=both))) == []


@pytest.mark.parametrize(
    ("version", "expect", "kept"),
    [
        ("2.15.1", "gpu", "tensorflow[and-cuda]==2.15.1"),
        ("2.15.1", "cpu", "tensorflow==2.15.1"),
        ("2.0.0", "gpu", "tensorflow-gpu==2.0.0"),
        ("any", "gpu", "tensorflow"),
    ],
)
def test_what_to_install_again(version: str, expect: str, kept: str) -> None:
    other = "tensorflow-gpu" if version == "2.0.0" else "tensorflow-cpu"
    items = [distribution(other, version), distribution("tensorflow", version)]
    given = context(facts(distributions=tuple(items)), expect=expect)
    assert _rival_to_keep(given, items) == kept


def test_shadowing() -> None:
    shadowed = build("torch", "2.8.0", shadowed_by=known("/home/user/torch.py"))
    assert found("local-module-shadowing", context(facts(shadowed))) == [
        ("local-module-shadowing", "error")
    ]
    assert (
        found(
            "local-module-shadowing", context(facts(build("torch", "2.8.0", shadowed_by=Absent())))
        )
        == []
    )
    assert found("local-module-shadowing", context(facts(), "torch")) == []


def test_a_file_may_hide_what_a_companion_alone_needs() -> None:
    items = (distribution("torch", "2.8.0"), distribution("torchvision", "0.23.0"))
    shadowed = build("torch", "2.8.0", shadowed_by=known("/home/user/lzma.py"))
    (item,) = findings("local-module-shadowing", context(facts(shadowed, distributions=items)))
    assert (item.severity, "the module lzma that torchvision 0.23.0 needs" in item.message) == (
        "error",
        True,
    )
    assert found("local-module-shadowing", context(facts(shadowed))) == [
        ("local-module-shadowing", "warning")
    ]
