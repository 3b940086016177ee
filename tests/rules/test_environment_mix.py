"""The rule about packages from several places."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envcheck.model import Absent, Distribution, InterpreterFault
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
from tests.typed import argv, argvs

USER = "/home/jovyan/.local/lib/python3.11/site-packages"


def mixed(*items: Distribution, **fields: Any) -> list[tuple[str, str]]:
    return found("env-mixed", context(facts(distributions=items, **fields)))


def outside(name: str, version: str, scope: str = "user") -> Distribution:
    return distribution(name, version, scope=scope, location=USER)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ((outside("h5py", "3.1.0"), distribution("h5py", "2.10.0")), [("env-mixed", "warning")]),
        (
            (outside("h5py", "3.1.0", "path"), distribution("h5py", "2.10.0")),
            [("env-mixed", "warning")],
        ),
        ((outside("h5py", "2.10.0"), distribution("h5py", "2.10.0")), []),
        ((outside("rich", "13.0"), distribution("rich", "12.0")), []),
        ((outside("numpy", "2.1.0"), distribution("numpy", "1.21", scope="system")), []),
        ((distribution("numpy", "1.26.4"),), []),
    ],
)
def test_copies_outside_the_environment(
    items: tuple[Distribution, ...], expected: list[tuple[str, str]]
) -> None:
    assert mixed(*items) == expected


def test_a_copy_that_breaks_a_pin_is_an_error() -> None:
    items = (
        outside("numpy", "2.1.0"),
        distribution("numpy", "1.26.4"),
        distribution("tensorflow", "2.15.1"),
    )
    assert mixed(*items) == [("env-mixed", "error")]


def test_a_framework_in_front_that_only_misses_a_pin_is_a_warning() -> None:
    """TensorFlow 2.19 in front of 2.21, seen to work: the pin alone does not prove a failure."""
    items = (
        distribution(
            "tensorflow-cpu",
            "2.19.0",
            scope="front",
            location="/front",
            requires=("tensorboard~=2.19.0",),
        ),
        distribution("tensorflow-cpu", "2.21.0"),
        distribution("tensorboard", "2.21.0"),
    )
    assert mixed(*items) == [("env-mixed", "warning")]
    failing = replace(items[0], version="2.15.1", requires=("numpy<2.0.0,>=1.23.5",))
    numpy = distribution("numpy", "2.1.0")
    assert mixed(failing, *items[1:], numpy) == [("env-mixed", "error")]


def test_ways_out() -> None:
    user = (outside("h5py", "3.1.0"), distribution("h5py", "2.10.0"))
    fix = findings("env-mixed", context(facts(distributions=user, kind=known("conda"))))[0].fix
    assert fix is not None
    assert argv(fix.actions[0]) == ("conda", "env", "config", "vars", "set", "PYTHONNOUSERSITE=1")
    path = (outside("h5py", "3.1.0", "path"), distribution("h5py", "2.10.0"))
    fix = findings("env-mixed", context(facts(distributions=path, kind=known("conda"))))[0].fix
    assert fix is not None
    assert argvs(fix.actions) == [("unset", "PYTHONPATH")]
    assert "PYTHONPATH" in fix.summary
    fix = findings("env-mixed", context(facts(distributions=user)))[0].fix
    assert fix is not None
    assert argvs(fix.actions) == [("export", "PYTHONNOUSERSITE=1")]


def test_pip_over_conda() -> None:
    both = (distribution("numpy", "1.26.4", installer="conda"), distribution("numpy", "2.1.0"))
    assert mixed(*both) == [("env-mixed", "warning")]
    assert mixed(both[0], distribution("numpy", "2.1.0", installer="conda")) == []
    assert mixed(both[0], distribution("numpy", "1.26.4")) == []
    fix = findings("env-mixed", context(facts(distributions=both)))[0].fix
    assert fix is not None
    assert [argv(command)[0] for command in fix.actions] == ["/env/bin/python", "conda"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/opt/old/lib/python3.8/site-packages", [("env-mixed", "warning")]),
        ("/opt/new/lib/python3.11/site-packages", []),
        ("/home/user/project", []),
        ("", []),
    ],
)
def test_packages_of_another_python(path: str, expected: list[tuple[str, str]]) -> None:
    assert mixed(host={"environment": known({"PYTHONPATH": path})}) == expected


def test_the_other_python_s_folders_leave_the_variable_and_the_rest_stays() -> None:
    old = "/opt/old/lib/python3.8/site-packages"
    variable = known({"PYTHONPATH": f"{old}/:/home/user/project:/opt/two/python3.9/dist-packages"})
    both = findings("env-mixed", context(facts(host={"environment": variable})))
    assert len(both) == 2
    for finding in both:
        assert finding.fix is not None
        assert argvs(finding.fix.actions)[0] == ("export", "PYTHONPATH=/home/user/project")


@pytest.mark.parametrize(("hidden", "severity"), [("numpy", "error"), ("", "warning")])
def test_another_python_hides_what_the_framework_needs(hidden: str, severity: str) -> None:
    entry = "/opt/old/lib/python3.8/site-packages"
    shadow = known(f"{entry}/{hidden}") if hidden else Absent()
    given = facts(
        build("torch", "2.8.0", shadowed_by=shadow),
        host={"environment": known({"PYTHONPATH": entry})},
    )
    (finding,) = findings("env-mixed", context(given))
    assert (finding.severity, entry in finding.message) == (severity, True)
    assert finding.fix is not None
    assert "PYTHONPATH" in finding.fix.summary


def test_one_folder_outside_is_one_finding() -> None:
    folder = "/opt/old/lib/python3.8/site-packages"
    names = ("h5py", "numpy", "protobuf")
    outer = [distribution(name, "1.0", scope="path", location=folder) for name in names]
    items = (*outer, *(distribution(name, "3.0", location="/env/site-packages") for name in names))
    (finding,) = findings("env-mixed", context(facts(distributions=items)))
    assert "h5py 3.0" in finding.message
    assert "The same holds for numpy, protobuf." in finding.message
    given = facts(distributions=items, host={"environment": known({"PYTHONPATH": folder})})
    (finding,) = findings("env-mixed", context(given))
    assert "holds packages of Python 3.8" in finding.message


def test_packages_of_another_python_need_a_python_to_compare() -> None:
    given = facts(
        version=UNREADABLE,
        host={"environment": known({"PYTHONPATH": "/x/python3.8/site-packages"})},
    )
    assert found("env-mixed", context(given)) == []


def test_unread_distributions_are_others_to_tell() -> None:
    assert (
        found("env-mixed", context(facts(build("torch", "2.8.0"), version=known("3.11.7")))) == []
    )


def test_a_folder_that_start_code_puts_first_is_kept_out_by_its_file() -> None:
    """Whatever package it hides; not only those whose second copy breaks the first."""
    copies = (outside("rich", "13.0", "front"), distribution("rich", "12.0"))
    faults = known((InterpreterFault("front", USER, "/s/x.pth"),))
    (finding,) = findings(
        "env-mixed", context(facts(distributions=copies, interpreter_faults=faults))
    )
    assert finding.severity == "warning"
    assert finding.fix is not None
    assert argvs(finding.fix.actions) == [("mv", "/s/x.pth", "/s/x.pth.off")]


def test_another_release_in_front_is_an_error_where_it_is_a_part_of_a_framework() -> None:
    def front(name: str, version: str, here: str) -> list[tuple[str, str]]:
        owner = Distribution("tensorflow", "2.15.1", requires=(f"{name}=={here}",))
        return mixed(outside(name, version, "front"), distribution(name, here), owner)

    assert front("tensorboard", "2.14.1", "2.15.2") == [("env-mixed", "warning")]
    assert front("numpy", "1.22.0", "1.26.4") == [("env-mixed", "error")]
