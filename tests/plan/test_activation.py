"""The activation hooks, read by real shells in a real environment of the standard library's venv."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from envcheck.actions import action_line, script_line, shells_of
from envcheck.model import Environment, Step
from envcheck.plan.steps import activation_steps
from tests.typed import argv, undo, verify

pytestmark = pytest.mark.skipif(os.name == "nt", reason="loader paths are for POSIX shells")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
SITE = f"lib/python{VERSION}/site-packages/nvidia"
NAME = "it's my env, é"
BEFORE = (None, "", "/mine", "/a  b:/c:")
EVERY = ("sh", "fish", "csh", "ps1")
# A shell, how it is started, and the suffix of what it reads.
SHELLS = {
    "sh": (("sh", "-eu"), "sh"),
    "bash": (("bash", "-euo", "pipefail"), "sh"),
    "posix-bash": (("bash", "-eu", "-o", "posix", "-O", "failglob"), "sh"),
    "zsh": (("zsh", "-feu"), "sh"),
    "interactive-zsh": (("zsh", "-fi"), "sh"),
    "ksh": (("ksh", "-eu"), "sh"),
    "busybox": (("busybox", "sh", "-eu"), "sh"),
    "fish": (("fish", "--no-config"), "fish"),
    "tcsh": (("tcsh", "-f"), "csh"),
    "pwsh": (("pwsh", "-NoProfile", "-NonInteractive", "-File"), "ps1"),
}
SHOW = 'if [ -n "${LD_LIBRARY_PATH+x}" ]; then echo "[$LD_LIBRARY_PATH]"; else echo none; fi'
PROMPT = {"csh": ["set prompt = '% '"]}  # which activate.csh takes for granted


def shells(*names: str) -> list[object]:
    return [
        pytest.param(name, marks=pytest.mark.needs(SHELLS[name][0][0])) for name in names or SHELLS
    ]


def run(
    *command: str,
    variables: dict[str, str] | None = None,
    cwd: Path | None = None,
    script: str = "",
) -> subprocess.CompletedProcess[str]:
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "OSTYPE": "linux",
        **(variables or {}),
    }
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=env, cwd=cwd, input=script or None
    )


def read_by(shell: str, lines: list[str], folder: Path, **variables: str) -> list[str]:
    """Let a shell read lines; return what it printed. Nothing but that may come of it."""
    started, suffix = SHELLS[shell]
    show, script = folder / "show", folder / f"read.{suffix}"
    show.write_text(SHOW, encoding="utf-8")
    text = "\n".join([*PROMPT.get(suffix, []), *lines, ""])
    script.write_text(text.replace("show", f"sh '{show}'"), encoding="utf-8")
    done = run(*started, str(script), variables=variables)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def made_at(folder: Path, *below: str, installer: str = "pip") -> Environment:
    return Environment(
        str(folder), installer, VERSION, "linux_x86_64", library_folders=below or (f"{SITE}/*/lib",)
    )


def with_libraries(folder: Path, *names: str, by_uv: bool = False) -> Environment:
    """Make a venv, with folders of CUDA wheels in it and the hooks of every shell."""
    if by_uv:
        asked = (
            "venv",
            "--quiet",
            "--offline",
            "--no-config",
            "--python",
            sys.executable,
            str(folder),
        )
        subprocess.run([str(Path(sys.executable).with_name("uv")), *asked], check=True)
    else:
        venv.create(folder, with_pip=False, symlinks=True)
    for name in names:
        (folder / SITE / name / "lib").mkdir(parents=True)
    made = made_at(folder)
    for step in activation_steps(made, EVERY):
        assert run(*argv(step)).returncode == 0
    return made


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a venv with the libraries of two wheels."""
    folder = tmp_path_factory.mktemp("activation") / NAME
    with_libraries(folder, "cublas", "cudnn")
    return folder


@pytest.fixture(scope="module")
def of_uv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the same, made by uv, whose activation is virtualenv's."""
    folder = tmp_path_factory.mktemp("of-uv") / NAME
    with_libraries(folder, "cublas", "cudnn", by_uv=True)
    return folder


def reading(suffix: str, path: str, folder: str = "ENVDIR") -> str:
    """Write how a shell reads a script below the folder that a variable names."""
    source = "source" if suffix in ("fish", "csh") else "."
    return f'{source} "${"env:" if suffix == "ps1" else ""}{folder}/{path}"'


def activating(suffix: str, folder: str = "ENVDIR") -> str:
    name = {"sh": "activate", "ps1": "Activate.ps1"}.get(suffix, f"activate.{suffix}")
    return reading(suffix, f"bin/{name}", folder)


def activated(folder: Path, before: str | None) -> str:
    libraries = [str(folder / SITE / name / "lib") for name in ("cudnn", "cublas")]
    return f"[{':'.join([*libraries, *([before] if before else [])])}]"


@pytest.mark.parametrize("shell", shells())
def test_the_paths_come_once_with_the_environment_and_go_with_it(
    shell: str, environment: Path, tmp_path: Path
) -> None:
    come_and_go(shell, environment, tmp_path, *BEFORE)


@pytest.mark.parametrize("shell", shells("sh", "bash", "interactive-zsh", "fish", "tcsh"))
def test_they_do_so_where_uv_made_the_environment(shell: str, of_uv: Path, tmp_path: Path) -> None:
    come_and_go(shell, of_uv, tmp_path, None, "/mine")


def come_and_go(shell: str, environment: Path, folder: Path, *befores: str | None) -> None:
    on = activating(SHELLS[shell][1])
    lines = ["show", on, "show", on, "show", "deactivate", "show", on, "show", "deactivate", "show"]
    for before in befores:
        was = "none" if before is None else f"[{before}]"
        there = activated(environment, before)
        given = {} if before is None else {"LD_LIBRARY_PATH": before}
        seen = read_by(shell, lines, folder, ENVDIR=str(environment), **given)
        assert seen == [was, there, there, was, there, was], before


@pytest.mark.parametrize("shell", shells("sh", "zsh", "fish", "tcsh", "pwsh"))
def test_another_environment_takes_the_place_of_the_first(
    shell: str, environment: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    with_libraries(other)
    suffix = SHELLS[shell][1]
    lines = [activating(suffix, "FIRST"), activating(suffix, "OTHER"), "show", "deactivate", "show"]
    seen = read_by(
        shell, lines, tmp_path, FIRST=str(environment), OTHER=str(other), LD_LIBRARY_PATH="/mine"
    )
    assert seen == ["[/mine]", "[/mine]"]


@pytest.mark.parametrize(
    "shell", shells("sh", "bash", "zsh", "ksh", "busybox", "fish", "tcsh", "pwsh")
)
def test_condas_hooks_lie_where_conda_reads_them(shell: str, tmp_path: Path) -> None:
    folder, suffix = tmp_path / NAME, SHELLS[shell][1]
    (folder / "lib").mkdir(parents=True)
    (folder / "bin").mkdir()
    for step in activation_steps(made_at(folder, "lib", installer="conda"), (suffix,)):
        assert run(*argv(step)).returncode == 0
        assert run(*verify(step)).returncode == 0
    on, off = (
        reading(suffix, f"etc/conda/{kind}.d/envcheck-cuda.{suffix}", "CONDA_PREFIX")
        for kind in ("activate", "deactivate")
    )
    for before in BEFORE:
        was = "none" if before is None else f"[{before}]"
        there = f"[{folder}/lib{':' + before if before else ''}]"
        given = {} if before is None else {"LD_LIBRARY_PATH": before}
        lines = [on, "show", off, "show", on, "show"]
        assert read_by(shell, lines, tmp_path, CONDA_PREFIX=str(folder), **given) == [
            there,
            was,
            there,
        ], before


@pytest.mark.parametrize("shell", shells("sh", "bash", "zsh", "fish", "tcsh"))
@pytest.mark.parametrize("installer", ["pip", "conda"])
def test_what_is_typed_writes_what_the_command_writes(
    shell: str, installer: str, tmp_path: Path
) -> None:
    steps = activation_steps(made_at(Path(NAME), installer=installer), EVERY)
    ways: list[Callable[[Step], str]] = [lambda step: action_line(step.action, folded=True)]
    if SHELLS[shell][1] == "sh":
        ways.append(lambda step: script_line(step.action))
    trees = []
    for number, typed in enumerate([None, *ways]):
        root = tmp_path / str(number)
        (root / NAME / "bin").mkdir(parents=True)
        for name in ("activate", "activate.csh", "activate.fish", "activate.ps1"):
            (root / NAME / "bin" / name).write_text("# as it was\n")
        for step in (*steps, *steps):
            started = SHELLS[shell][0] if typed else argv(step)
            done = run(*started, cwd=root, script=typed(step) + "\n" if typed else "")
            assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
        trees.append(
            {path.relative_to(root): path.read_text() for path in root.rglob("*") if path.is_file()}
        )
    assert all(tree == trees[0] for tree in trees)
    assert len(trees[0]) == (5 if installer == "pip" else 13)


def test_every_step_is_verified_and_taken_back(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    venv.create(folder, with_pip=False, symlinks=True)
    (folder / SITE / "cudnn/lib").mkdir(parents=True)
    before = {
        path: path.read_bytes()
        for path in (folder / "bin").iterdir()
        if path.suffix and path.is_file()
    }
    steps = activation_steps(made_at(folder), EVERY)
    for step in (*steps, *steps):
        assert run(*argv(step)).returncode == 0
        assert run(*verify(step)).returncode == 0
    assert sum(path.read_bytes() != text for path, text in before.items()) >= 2
    for step in reversed(steps):
        assert run(*undo(step)).returncode == 0
    assert {path: path.read_bytes() for path in before} == before
    assert "envcheck" not in (folder / "bin/activate").read_text(encoding="utf-8")
    assert not (folder / "bin/envcheck-cuda").exists()


def test_a_program_is_started_with_the_paths_without_activation(
    environment: Path, tmp_path: Path
) -> None:
    show = ("printenv", "LD_LIBRARY_PATH")
    started = run("sh", f"{NAME}/bin/envcheck-cuda", *show, cwd=environment.parent)
    assert f"[{started.stdout.strip()}]" == activated(environment, None)
    assert run("sh", str(environment / "bin/envcheck-cuda"), "sh", "-c", "exit 3").returncode == 3
    # its wheels were taken away: no folder, and no colon that means the current one
    with_libraries(tmp_path / "none")
    for before, after in (("", "\n"), ("/mine", "/mine\n")):
        given = {"LD_LIBRARY_PATH": before} if before else {}
        assert (
            run("sh", str(tmp_path / "none/bin/envcheck-cuda"), *show, variables=given).stdout
            == after
        )


def test_a_subshell_of_an_activated_one_adds_nothing(environment: Path, tmp_path: Path) -> None:
    there = activated(environment, "/mine").strip("[]")
    lines = ['. "$ENVDIR/bin/activate"', "show", "deactivate"]
    assert read_by("sh", lines, tmp_path, ENVDIR=str(environment), LD_LIBRARY_PATH=there) == [
        f"[{there}]"
    ]


@pytest.mark.parametrize(
    ("own", "served"),
    [
        ("/bin/bash", ()),
        ("/usr/bin/fish", ("fish",)),
        ("/bin/tcsh", ("csh",)),
        ("pwsh", ("ps1",)),
        ("", ()),
    ],
)
def test_the_shells_like_sh_and_ones_own_are_served(own: str, served: tuple[str, ...]) -> None:
    assert shells_of({"SHELL": own}) == ("sh", *served)


def test_what_finds_its_libraries_needs_no_hook(tmp_path: Path) -> None:
    assert activation_steps(Environment(str(tmp_path), "pip", VERSION, "linux_x86_64")) == ()
