"""Commands for the inspected environment: built from validated fields only."""

from __future__ import annotations

import re
from typing import Any

import pytest

from envcheck.actions import (
    CreateEnvironment,
    InstallCondaPackages,
    InstallPackages,
    RunCommand,
    RunPython,
    Show,
    UpgradePip,
    changes_environment,
    is_requirement,
)
from envcheck.model import Absent, Distribution
from envcheck.remedies.situation import Situation
from tests.rules.factory_python import (
    UNREADABLE,
    build,
    context,
    distribution,
    facts,
    findings,
    known,
)
from tests.typed import argv, argvs


def on(**python: Any) -> Situation:
    return Situation(context(facts(**python)))


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
def test_only_plain_requirements_enter_a_command(text: str, plain: bool) -> None:
    assert is_requirement(text) == plain
    assert bool(on().install(text)) == plain
    if text and not plain:
        with pytest.raises(ValueError, match=re.escape(text)):
            argv(InstallPackages((text,), "python3"))


def test_indexes_but_pytorchs_are_refused() -> None:
    (action,) = on().install("torch", index="https://download.pytorch.org/whl/cu126", force=True)
    assert argv(action)[-4:] == (
        "--force-reinstall",
        "--index-url",
        "https://download.pytorch.org/whl/cu126",
        "torch",
    )
    with pytest.raises(ValueError, match="evil"):
        on().install("torch", index="https://evil/simple")


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
def test_the_interpreter_is_typed_as_it_was_found(python: Any, typed: str) -> None:
    assert on(executable=python).python == typed


def test_the_interpreter_on_windows() -> None:
    assert on(executable=UNREADABLE, host={"os": known("windows")}).python == "python"


def test_what_comes_first() -> None:
    system = on(externally_managed=known(True))
    managed = system.fit([*system.uninstall("torch"), *system.install("torch")])
    assert argvs(managed) == [
        ("/env/bin/python", "-m", "venv", ".venv"),
        (".venv/bin/python", "-m", "pip", "install", "torch"),
    ]
    system = on(externally_managed=known(True), host={"os": known("windows")})
    windows = system.fit(system.install("torch"))
    assert argv(windows[1], "windows")[0] == ".venv\\Scripts\\python.exe"
    assert on().install() == ()


def with_pip_settings(kind: str, **settings: str) -> Situation:
    named = {key.replace("_", "-"): value for key, value in settings.items()}
    return on(kind=known(kind), host={"pip_configuration": known(named)})


@pytest.mark.parametrize(
    ("kind", "value", "python"),
    [
        ("system", "true", ".venv/bin/python"),
        ("conda", "1", ".venv/bin/python"),
        ("venv", "true", "/env/bin/python"),
        ("system", "false", "/env/bin/python"),
    ],
)
def test_pips_settings_may_allow_virtual_environments_alone(
    kind: str, value: str, python: str
) -> None:
    situation = with_pip_settings(kind, require_virtualenv=value)
    actions = situation.fit(situation.install("torch"))
    assert argv(actions[-1])[0] == python
    assert ("require-virtualenv" in actions[0].purpose) == (len(actions) == 2)


def test_an_index_that_an_administrator_set_is_named_beside_pytorchs() -> None:
    own = "https://download.pytorch.org/whl/cu126"
    situation = with_pip_settings("venv", index_url="https://mirror.example/simple")
    (action,) = situation.fit(situation.install("torch", index=own))
    assert "Your pip is set to use https://mirror.example/simple:" in action.purpose
    (action,) = situation.fit(situation.install("jax"))
    assert "mirror" not in action.purpose  # pip asks the configured one by itself


def test_uv_is_told_the_index_that_pip_has() -> None:
    named = {"index-url": "https://mirror.example/simple"}
    situation = on(
        kind=known("venv"),
        pip_version=Absent(),
        distributions=(distribution("jax", "0.6.0", installer="uv"),),
        host={"pip_configuration": known(named)},
    )
    action = situation.fit(situation.install("jax"))[-1]
    assert action.command()[0] == "uv"
    assert "--default-index https://mirror.example/simple" in action.purpose


LACKS_PIP = {"pip_version": Absent()}


def test_pip_comes_first_where_the_environment_has_none() -> None:
    situation = on(**LACKS_PIP)
    without_pip = situation.fit(situation.install("torch"))
    assert [argv(action)[2] for action in without_pip] == ["ensurepip", "pip"]
    shown = situation.fit([Show(("/env/bin/python", "-m", "pip", "list"))])
    assert [argv(action)[2] for action in shown] == ["ensurepip", "pip"]


def test_uv_does_it_where_the_environment_is_uvs() -> None:
    torch = Distribution("torch", "2.8.0", installer="uv")
    situation = on(**LACKS_PIP, distributions=(torch,))
    python = "/env/bin/python"
    pip = (python, "-m", "pip")
    words = [
        *situation.install("numpy<2", force=True),
        *situation.uninstall("tensorflow"),
        *situation.reinstall("torch==2.8.0"),
        UpgradePip(python),
        Show((*pip, "list")),
        RunCommand((*pip, "cache", "purge")),
        RunPython("print(1)", python),
        InstallPackages(("x",), ".venv/bin/python"),
    ]
    assert argvs(situation.fit(words)) == [
        ("uv", "pip", "install", "--python", python, "--force-reinstall", "numpy<2"),
        ("uv", "pip", "uninstall", "--python", python, "tensorflow"),
        (
            *("uv", "pip", "install", "--python", python),
            *("--reinstall", "--no-deps", "--no-cache", "torch==2.8.0"),
        ),
        ("uv", "pip", "list", "--python", python),
        ("uv", "cache", "clean"),
        (python, "-c", "print(1)"),
        (".venv/bin/python", "-m", "pip", "install", "x"),
    ]


def test_removal_and_conda() -> None:
    assert argv(on().uninstall("tensorflow", "evil name")[0])[-2:] == ("-y", "tensorflow")
    assert on().uninstall("evil name") == ()
    assert argv(InstallCondaPackages(("libstdcxx-ng",))) == (
        "conda",
        "install",
        "-c",
        "conda-forge",
        "libstdcxx-ng",
    )
    with pytest.raises(ValueError, match="evil"):
        argv(InstallCondaPackages(("evil; name",)))


def test_a_new_environment_takes_minors_only() -> None:
    assert on().new_environment("3.12; evil") == ()


def test_loader_folders_must_be_plain() -> None:
    assert on().add_loader_folders(["/env/$(evil)/lib"]) == ()
    assert on(prefix=known("/env'; evil")).add_loader_folders(["/env/lib"]) == ()
    program, hook = argvs(on().add_loader_folders(["/a", "/a", "/b", "/env/lib"]))
    assert (program[4], hook[4]) == ("/env/bin/envcheck-cuda", "/env/bin/activate")
    assert [line for line in program if line.startswith("add ")] == ['add /a /b "$prefix"/lib']


def test_nothing_activates_a_systems_python() -> None:
    assert on(kind=known("system")).add_loader_folders(["/usr/local/cuda/lib64"]) == ()


def test_a_shadowing_file_is_renamed_by_the_person_or_its_folder_leaves_pythonpath() -> None:
    shadow = build("torch", "2.8.0", shadowed_by=known("/home/me/work/torch.py"))
    (finding,) = findings("local-module-shadowing", context(facts(shadow)))
    assert finding.fix is not None
    (rename,) = finding.fix.actions
    assert argv(rename) == ("mv", "/home/me/work/torch.py", "/home/me/work/my_torch.py")
    assert not changes_environment(rename)
    environment = known({"PYTHONPATH": "/opt/mine:/home/me/work"})
    (finding,) = findings(
        "local-module-shadowing", context(facts(shadow, host={"environment": environment}))
    )
    assert finding.fix is not None
    assert argvs(finding.fix.actions)[0] == ("export", "PYTHONPATH=/opt/mine")
    assert argvs(finding.fix.alternatives[0].actions) == [argv(rename)]


@pytest.mark.parametrize(
    ("system", "typed"),
    [
        (
            "linux",
            (
                "uv",
                "venv",
                "--allow-existing",
                "--python",
                "cpython-3.12-linux-x86_64-gnu",
                ".venv-3.12",
            ),
        ),
        ("windows", ("winget", "install", "Python.Python.3.12")),
    ],
)
def test_a_32_bit_python_gives_way_to_one_of_64_bits(system: str, typed: tuple[str, ...]) -> None:
    (finding,) = findings(
        "python-32bit", context(facts(bits=known(32), host={"os": known(system)}))
    )
    assert finding.fix is not None
    assert argvs(finding.fix.actions)[0] == typed
    assert isinstance(finding.fix.actions[-1], CreateEnvironment)


def test_an_emulated_python_gives_way_to_one_for_the_machine() -> None:
    emulated = facts(architecture=known("x86_64"), host={"architecture": known("aarch64")})
    (finding,) = findings("python-wrong-arch", context(emulated))
    assert finding.fix is not None
    assert "cpython-3.12-linux-aarch64-gnu" in argvs(finding.fix.actions)[0]
