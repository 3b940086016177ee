"""Commands as the shells of each system read them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from envcheck.actions import (
    Action,
    CreateEnvironment,
    InstallCondaPackages,
    InstallSystemPackages,
    RenameFile,
    RunCommand,
    RunPython,
    SetVariables,
    Show,
    ShowKernelLog,
    StartService,
    UnsetVariable,
    WriteFile,
    action_line,
    shell_line,
)
from envcheck.diagnosis import with_steps
from envcheck.model import COMPATIBLE, INCOMPATIBLE, LINUX, MACOS, WINDOWS, Finding, Remedy, Report
from envcheck.remedies import fit_to_system
from tests.render.shown import finding_text, write
from tests.render.windows_shells import cmd_words, powershell_words
from tests.typed import words

WINDOWS_LINES = {
    (".venv\\Scripts\\python.exe", "-m", "pip", "install", "tensorflow[and-cuda]"): (
        '.venv\\Scripts\\python.exe -m pip install "tensorflow[and-cuda]"'
    ),
    ("pip", "install", "torch>=2,<3"): 'pip install "torch>=2,<3"',
    ("C:\\Program Files\\Py\\python.exe", "-V"): 'C:\\Program" Files"\\Py\\python.exe -V',
    (".venv/Scripts/python", "-V"): ".venv\\Scripts\\python -V",
    ("x", "a&calc", "a|b", "^", "(b)", "it's", ""): 'x "a&calc" "a|b" "^" "(b)" "it\'s" ""',
    ("x", "%PATH%", "$(calc)", "`n", 'a"b', "\u201d; calc"): (
        'x "\ufffdPATH\ufffd" "\ufffd(calc)" "\ufffdn" "a\ufffdb" "\ufffd; calc"'
    ),
    ("x", "C:\\my dir\\"): 'x "C:\\my dir\\\\"',
    ("py", "-3.12", "-Dx.y=1"): 'py -3.12 "-Dx.y=1"',
}


@pytest.mark.parametrize(
    "argv", WINDOWS_LINES, ids=[str(number) for number in range(len(WINDOWS_LINES))]
)
def test_both_shells_of_windows_read_the_words(argv: tuple[str, ...]) -> None:
    assert shell_line(argv, "windows") == WINDOWS_LINES[argv]


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_zsh_expands_nothing(system: str) -> None:
    assert (
        shell_line(("pip", "install", "jax[cuda12]", "=x", "a*"), system)
        == "pip install 'jax[cuda12]' '=x' 'a*'"
    )


_EVENTS = (
    "wevtutil",
    "qe",
    "System",
    "/q:*[System[Provider[@Name='nvlddmkm']]]",
    "/c:20",
    "/rd:true",
    "/f:text",
)
# on Windows and on macOS; () where it is not typed
TYPED: list[tuple[Action, tuple[str, ...], tuple[str, ...]]] = [
    (InstallSystemPackages("apt-get", ("x",)), (), ()),
    (StartService("x"), (), ()),
    (SetVariables((("A", "/usr/lib:$A"),)), (), ("export", "A=/usr/lib:$A")),
    (SetVariables((("A", "1"),)), ("set", "A=1"), ("export", "A=1")),
    (UnsetVariable("A"), ("set", "A="), ("unset", "A")),
    (
        RunCommand(("python3", "-V"), settings=(("A", "1"),)),
        ("cmd", "/c", "set A=1&& python -V"),
        ("env", "A=1", "python3", "-V"),
    ),
    (
        CreateEnvironment("e", python="3.9"),
        ("py", "-3.9", "-m", "venv", "e"),
        ("python3.9", "-m", "venv", "e"),
    ),
    (
        RunPython("1", ".venv/bin/python"),
        (".venv\\Scripts\\python.exe", "-c", "1"),
        (".venv/bin/python", "-c", "1"),
    ),
    (Show(("sh", "-c", "ldconfig -p"), systems=(LINUX,)), (), ()),
    (ShowKernelLog(), _EVENTS, ()),
    (RenameFile("a", "b"), ("move", "a", "b"), ("mv", "a", "b")),
    (RunCommand(("cd", "/"), windows_argv=("cd", "\\")), ("cd", "\\"), ("cd", "/")),
    (InstallCondaPackages(("gxx_linux-64=12",)), (), ()),
    (
        InstallCondaPackages(("cuda-nvcc",)),
        ("conda", "install", "-c", "conda-forge", "cuda-nvcc"),
        (),
    ),
]


@pytest.mark.parametrize(
    ("action", "on_windows", "on_macos"), TYPED, ids=[type(row[0]).__name__ for row in TYPED]
)
def test_only_what_the_system_has_is_typed(
    action: Action, on_windows: tuple[str, ...], on_macos: tuple[str, ...]
) -> None:
    for system, expected in ((WINDOWS, on_windows), (MACOS, on_macos)):
        found = fit_to_system(Remedy("", (action,)), system)
        assert [words(item, system) for item in found.actions] == ([expected] if expected else [])


@pytest.mark.parametrize("purpose", ["", "for this program alone"])
def test_the_text_tells_powershell_how_to_set_what_cmd_sets(purpose: str) -> None:
    fix = Remedy("Let it be 1.", (SetVariables((("A", "1"),), purpose),))
    finding = Finding("driver-missing", INCOMPATIBLE, "error", "", fix=fix)
    report = with_steps(Report(INCOMPATIBLE, "gpu", "No.", (finding,), (), system=WINDOWS))
    for shown in (finding_text(finding, WINDOWS), write(report, "text")):
        assert f'    # {purpose or "in cmd"}; in PowerShell: $env:A = "1"\n    $ set A=1\n' in shown


def test_a_file_that_a_fix_writes_is_shown_line_by_line() -> None:
    action = WriteFile("/e/bin/x", ("a", 'b "$c"', "d'e"))
    finding = Finding("driver-missing", COMPATIBLE, "error", "", fix=Remedy("", (action,)))
    shown = finding_text(finding, "linux").partition("$ ")[2]
    assert (
        shown
        == "printf '%s\\n' \\\n    'a' \\\n    'b \"$c\"' \\\n    'd'\"'\"'e' \\\n    > /e/bin/x\n"
    )
    assert action_line(action, "linux") == shown.replace(" \\\n    ", " ").strip()


def test_a_sentence_quotes_for_the_shells_of_its_system() -> None:
    words = ("envcheck", "install", "torch>=2,<3", "--env", "my env")
    assert shell_line(words, "linux") == "envcheck install 'torch>=2,<3' --env 'my env'"
    assert shell_line(("export", "PATH=/my x:$PATH"), "linux") == """export 'PATH=/my x:'"$PATH\""""
    assert shell_line(words, "windows") == 'envcheck install "torch>=2,<3" --env "my env"'
    assert (
        cmd_words(shell_line(words, "windows"))
        == powershell_words(shell_line(words, "windows"))
        == list(words)
    )


def test_a_code_page_that_lacks_a_letter_shows_a_mark() -> None:
    asked = [
        "plan",
        "torch",
        "--env",
        "env\xe9\u65e5",
        "--platform",
        "win_amd64",
        "--python",
        "3.12",
    ]
    told = {**os.environ, "PYTHONIOENCODING": "cp437"}
    done = subprocess.run(
        [sys.executable, "-m", "envcheck", *asked], env=told, capture_output=True, check=False
    )
    assert "env\xe9?\\Scripts\\python.exe" in done.stdout.decode("cp437")
    assert done.returncode == 0
