"""Commands for the inspected environment: built from validated fields only."""

from __future__ import annotations

import re
from typing import Any

import pytest

from envcheck.model import Absent
from envcheck.rules.fixes_python import (
    conda_install,
    install_steps,
    is_requirement,
    library_path_hook,
    new_environment,
    pip_install,
    python_program,
    uninstall_steps,
)
from tests.rules.factory_python import UNREADABLE, context, facts, known


def on(**python: Any) -> Any:
    return context(facts(**python))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("tensorflow[and-cuda]==2.15.1", True),
        ("protobuf<3.20,>=3.9.2", True),
        ("tf-keras==2.16.*", True),
        ("torch==2.8.0; rm -rf /", False),
        ("--index-url=http://evil", False),
        ("torch @ https://evil/x.whl", False),
        ("$(reboot)", False),
        ("", False),
    ],
)
def test_plain_requirements(text: str, plain: bool) -> None:
    assert is_requirement(text) == plain
    assert bool(install_steps(on(), text)) == plain
    if text and not plain:
        with pytest.raises(ValueError, match=re.escape(text)):
            pip_install(on(), text)


def test_indexes_but_pytorch_are_refused() -> None:
    command = pip_install(on(), "torch", index="https://download.pytorch.org/whl/cu126", force=True)
    assert command.argv[-4:] == ("--force-reinstall", "torch", "--index-url", "https://download.pytorch.org/whl/cu126")
    with pytest.raises(ValueError, match="evil"):
        pip_install(on(), "torch", index="https://evil/simple")


@pytest.mark.parametrize(
    ("python", "typed"),
    [
        (known("/env/bin/python"), "/env/bin/python"),
        (known("~/my env/bin/python"), "~/my env/bin/python"),
        (known("/home/<user>/bin/python"), "python3"),
        (known("-c evil"), "python3"),
        (UNREADABLE, "python3"),
    ],
)
def test_program(python: Any, typed: str) -> None:
    assert python_program(on(executable=python)) == typed


def test_program_on_windows() -> None:
    assert python_program(on(executable=UNREADABLE, host={"os": known("windows")})) == "python"


def test_what_comes_first() -> None:
    managed = install_steps(on(externally_managed=known(True)), "torch")
    assert [command.argv for command in managed] == [
        ("/env/bin/python", "-m", "venv", ".venv"),
        (".venv/bin/python", "-m", "pip", "install", "torch"),
    ]
    windows = install_steps(on(externally_managed=known(True), host={"os": known("windows")}), "torch")
    assert windows[1].argv[0] == ".venv\\Scripts\\python.exe"
    without_pip = install_steps(on(pip_version=Absent()), "torch")
    assert [command.argv[2] for command in without_pip] == ["ensurepip", "pip"]
    assert install_steps(on()) == ()


def test_removal_and_conda() -> None:
    assert uninstall_steps(on(), "tensorflow", "evil name")[0].argv[-2:] == ("-y", "tensorflow")
    assert uninstall_steps(on(), "evil name") == ()
    assert conda_install("libstdcxx-ng").argv == ("conda", "install", "-c", "conda-forge", "libstdcxx-ng")
    with pytest.raises(ValueError, match="evil"):
        conda_install("evil; name")


def test_new_environment_takes_minors_only() -> None:
    assert new_environment(on(), "3.12; evil") == ()


def test_hook_takes_plain_folders_only() -> None:
    assert library_path_hook(on(), ["/env/$(evil)/lib"]) == ()
    assert library_path_hook(on(prefix=known("/env'; evil")), ["/env/lib"]) == ()
    program, hook = (command.argv for command in library_path_hook(on(), ["/a", "/a", "/b", "/env/lib"]))
    assert (program[4], hook[4]) == ("/env/bin/envcheck-cuda", "/env/bin/activate")
    assert [line for line in program if line.startswith("add ")] == ['add /a /b "$prefix"/lib']


def test_nothing_activates_a_systems_python() -> None:
    assert library_path_hook(on(kind=known("system")), ["/usr/local/cuda/lib64"]) == ()
