"""The commands of each installer, and the images that plans build upon."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest

import envcheck
from envcheck.actions import ImportFrameworks, InstallCondaPackages
from envcheck.model import Environment, RequirementSet, Step
from envcheck.plan.data import Images, images_for
from envcheck.plan.steps import environment_steps, interpreter, verification_step
from tests.plan.machines import machine, planned
from tests.typed import argv, undo, verify

MADE = Environment(
    "e", "conda", "3.11", "linux_x86_64", channels=("conda-forge",), packages=("python=3.11",)
)


def creation(made: Environment) -> Step:
    """Return the step that makes an environment."""
    return environment_steps(made, ("jax",), "cpu")[0]


def installation(wanted: RequirementSet, installer: str) -> Step:
    """Return the step that installs requirements."""
    made = Environment("e", installer, "3.11", "linux_x86_64", (wanted,))
    return next(step for step in environment_steps(made, ("torch",), "cpu") if step.id == "install")


@pytest.mark.parametrize(
    "spec",
    [
        "python=3.11; id",
        "--override-channels",
        "python 3.11",
        "python=3.11\n",
        "https://example.org/x.conda",
        "=3",
    ],
)
def test_what_is_no_conda_spec_gets_into_no_command(spec: str) -> None:
    for made in (
        Environment(
            "e",
            "conda",
            "3.11",
            "linux_x86_64",
            channels=("conda-forge",),
            packages=("python=3.11", spec),
        ),
        Environment(
            "e", "conda", "3.11", "linux_x86_64", channels=(spec,), packages=("python=3.11",)
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(spec)):
            creation(made)
        with pytest.raises(ValueError, match=re.escape(spec)):
            argv(InstallCondaPackages(made.packages, made.channels))


def test_conda_makes_an_environment_at_a_path_and_never_by_a_name() -> None:
    step = creation(MADE)
    assert argv(step) == (
        *("conda", "create", "-y", "-p", "./e", "--override-channels", "-c", "conda-forge"),
        "python=3.11",
    )
    assert undo(step) == ("rm", "-rf", "--", "e")
    assert verify(step) == ("e/bin/python", "--version")
    far = creation(
        Environment("/srv/e", "conda", "3.11", "linux_x86_64", packages=("python=3.11",))
    )
    assert argv(far)[4] == "/srv/e"


@pytest.mark.parametrize(
    ("folder", "platform", "path"),
    [
        ("e", "linux_x86_64", "./e"),
        (".conda-env", "linux_x86_64", "./.conda-env"),
        ("../e", "linux_x86_64", "../e"),
        ("C:\\e", "win_amd64", "C:\\e"),
        ("e", "win_amd64", ".\\e"),
    ],
)
def test_a_folder_is_never_taken_for_a_name(folder: str, platform: str, path: str) -> None:
    """To mamba and micromamba what has no separator is the name of an environment elsewhere."""
    made = Environment(
        folder, "conda", "3.11", platform, packages=("python=3.11",), library_folders=("lib",)
    )
    system = "windows" if platform == "win_amd64" else "linux"
    assert argv(creation(made), system)[4] == path
    assert argv(verification_step(made, ("jax",), "cpu"), system)[:4] == (
        "conda",
        "run",
        "-p",
        path,
    )


@pytest.mark.parametrize(
    ("installer", "platform", "goal", "activated"),
    [
        ("conda", "win_amd64", "gpu", True),  # it finds CUDA by the PATH of an activation
        ("conda", "win_amd64", "cpu", False),
        ("conda", "linux_x86_64", "gpu", False),
        ("pip", "win_amd64", "gpu", False),
    ],
)
def test_windows_finds_the_cuda_of_conda_in_an_activated_environment(
    installer: str, platform: str, goal: str, *, activated: bool
) -> None:
    made = Environment("e", installer, "3.11", platform, packages=("python=3.11",))
    action = verification_step(made, ("torch",), goal).action
    assert isinstance(action, ImportFrameworks)
    assert action.activated is activated


@pytest.mark.parametrize(
    "text", ["numpy; id", "-r x", "--index-url=https://example.org", "numpy @ file:///x", "Numpy"]
)
def test_what_is_no_requirement_gets_into_no_command(text: str) -> None:
    for wanted in (
        RequirementSet(("torch==2.7.1", text)),
        RequirementSet(("torch==2.7.1",), kept=(text,)),
    ):
        for installer in ("pip", "uv"):
            with pytest.raises(ValueError, match=re.escape(text)):
                installation(wanted, installer)


def test_an_index_of_its_own_is_the_only_one() -> None:
    wanted = RequirementSet(
        ("torch==2.7.1+cu118",), "https://download.pytorch.org/whl/cu118", ("x",)
    )
    assert argv(installation(wanted, "pip")) == (
        *("e/bin/python", "-m", "pip", "install", "--only-binary=:all:", "--no-binary=x"),
        *("--index-url", wanted.index, "torch==2.7.1+cu118"),
    )
    assert argv(installation(wanted, "uv")) == (
        *(
            "uv",
            "pip",
            "install",
            "--python",
            "e/bin/python",
            "--only-binary",
            ":all:",
            "--no-binary",
            "x",
        ),
        *("--default-index", wanted.index, "torch==2.7.1+cu118"),
    )


def test_several_frameworks_are_named_by_the_step_that_brings_them() -> None:
    plan = planned("tensorflow<2.22", "jax<0.12.1", on=machine(python="3.12"))
    (step,) = [item for item in plan.steps if item.id == "install"]
    assert step.purpose == "Install tensorflow-cpu, jax and their dependencies."


def test_windows_has_paths_and_programs_of_its_own() -> None:
    made = Environment("e", "pip", "3.10", "win_amd64")
    assert interpreter(made) == "e\\Scripts\\python.exe"
    assert argv(creation(made), "windows") == ("py", "-3.10", "-m", "venv", "e")
    assert undo(creation(made), "windows") == ("cmd", "/c", "rmdir", "/s", "/q", "e")


def image(python: str, glibc: str = "", installer: str = "pip") -> Images:
    return images_for(Environment("e", installer, python, "linux_x86_64", glibc=glibc))


def test_the_newest_system_with_that_python_is_the_image() -> None:
    assert image("3.12").base == "docker.io/library/python:3.12-slim-trixie"
    assert image("3.8").base == "docker.io/library/python:3.8-slim-bookworm"
    assert image("3.12", "2.28") == image("3.12")
    assert "miniforge" in image("3.7", installer="conda").base


@pytest.mark.parametrize(("python", "glibc"), [("3.4", ""), ("3.12", "2.99"), ("3.14t", "")])
def test_without_an_image_for_it_nothing_is_built(python: str, glibc: str) -> None:
    with pytest.raises(ValueError, match="no image is listed"):
        image(python, glibc)


@pytest.fixture
def pip_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "pip.conf"
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    return file


def test_a_plan_for_uv_names_the_index_that_pip_has(pip_settings: Path) -> None:
    pip_settings.write_text("[global]\nindex-url = https://mirror.example/simple\n", "utf-8")

    def is_named(installer: Literal["pip", "uv"]) -> bool:
        made = envcheck.plan("jax", expect="cpu", installer=installer).plan
        return any("--default-index https://mirror.example/simple" in note for note in made.notes)

    assert is_named("uv")
    assert not is_named("pip")


def test_a_plan_for_an_index_of_its_own_names_the_index_that_pip_has(pip_settings: Path) -> None:
    pip_settings.write_text("[global]\nindex-url = https://mirror.example/simple\n", "utf-8")

    def notes(**asked: str) -> list[str]:
        made = envcheck.plan("torch==2.7.1", expect="cpu", python="3.12", **asked).plan  # type: ignore[arg-type]
        assert any("--index-url" in argv(step) for step in made.steps)
        return [note for note in made.notes if "https://mirror.example/simple" in note]

    assert [note for note in notes() if "--torch-index URL" in note]
    assert notes(torch_index="https://mirror.example/whl") == []


def test_where_pip_asks_for_a_virtual_environment_it_installs_into_no_other(
    pip_settings: Path,
) -> None:
    pip_settings.write_text("[global]\nrequire-virtualenv = true\n", "utf-8")
    assert envcheck.plan("jax", expect="cpu", python="3.12").steps
    with pytest.raises(envcheck.UserError, match=r"require-virtualenv.*--installer pip or uv"):
        envcheck.plan("jax", expect="cpu", python="3.12", installer="conda")
