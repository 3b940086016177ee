"""Commands as the shells of each system read them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from envcheck.model import COMPATIBLE, Command, Finding, Fix, Report
from envcheck.model.quoting import quoted
from envcheck.model.writing import Writing, writing_argv
from envcheck.render.report_text import finding_lines, print_lines
from envcheck.render.shells import shell_line
from envcheck.rules.fixes_shell import fitted
from tests.render.windows_shells import cmd_words, powershell_words

WINDOWS = {
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


@pytest.mark.parametrize("argv", WINDOWS, ids=[str(number) for number in range(len(WINDOWS))])
def test_both_shells_of_windows_read_the_words(argv: tuple[str, ...]) -> None:
    assert shell_line(argv, "windows") == WINDOWS[argv]


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_zsh_expands_nothing(system: str) -> None:
    assert shell_line(("pip", "install", "jax[cuda12]", "=x", "a*"), system) == "pip install 'jax[cuda12]' '=x' 'a*'"


TYPED = {
    ("sudo", "apt-get", "install", "x"): ([], []),
    ("sudo", "systemctl", "start", "x"): ([], []),
    ("export", "A=/usr/lib:$A"): ([], [("export", "A=/usr/lib:$A")]),
    ("export", "A=1"): ([("set", "A=1")], [("export", "A=1")]),
    ("unset", "A"): ([("set", "A=")], [("unset", "A")]),
    ("env", "A=1", "python3", "-V"): ([("set", "A=1"), ("python", "-V")], [("env", "A=1", "python3", "-V")]),
    ("python3.9", "-V"): ([("py", "-3.9", "-V")], [("python3.9", "-V")]),
    (".venv/bin/python", "-V"): ([(".venv\\Scripts\\python.exe", "-V")], [(".venv/bin/python", "-V")]),
    ("sh", "-c", "ldconfig -p"): ([], []),
    ("mv", "a", "b"): ([("move", "a", "b")], [("mv", "a", "b")]),
}


@pytest.mark.parametrize("argv", TYPED, ids=[" ".join(argv[:2]) for argv in TYPED])
def test_only_what_the_system_has_is_typed(argv: tuple[str, ...]) -> None:
    finding = Finding("driver-missing", COMPATIBLE, "note", "", fix=Fix("", (Command(argv),)))
    report = Report(COMPATIBLE, "gpu", "", (finding,), ())
    for system, expected in zip(("windows", "darwin"), TYPED[argv], strict=True):
        fix = fitted(report, system).findings[0].fix
        assert fix is not None
        assert [command.argv for command in fix.commands] == expected


def test_a_file_that_a_fix_writes_is_shown_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    argv = writing_argv(Writing("/e/bin/x", ("a", 'b "$c"', "d'e")))
    finding = Finding("driver-missing", COMPATIBLE, "error", "", fix=Fix("", (Command(argv),)))
    print_lines(finding_lines(finding, "linux", verbose=False), color=False)
    shown = capsys.readouterr().out.partition("$ ")[2]
    assert shown == "printf '%s\\n' \\\n    'a' \\\n    'b \"$c\"' \\\n    'd'\"'\"'e' \\\n    > /e/bin/x\n"
    assert shell_line(argv, "linux") == shown.replace(" \\\n    ", " ").strip()


def test_a_sentence_quotes_for_the_shells_of_its_system() -> None:
    words = ("envcheck", "install", "torch>=2,<3", "--env", "my env")
    assert quoted(words, "linux") == "envcheck install 'torch>=2,<3' --env 'my env'"
    assert quoted(("export", "PATH=/my x:$PATH"), "linux") == """export 'PATH=/my x:'"$PATH\""""
    assert quoted(words, "windows") == 'envcheck install "torch>=2,<3" --env "my env"'
    assert cmd_words(quoted(words, "windows")) == powershell_words(quoted(words, "windows")) == list(words)


def test_a_code_page_that_lacks_a_letter_shows_a_mark() -> None:
    asked = ["plan", "torch", "--env", "env\xe9\u65e5", "--platform", "win_amd64", "--python", "3.12"]
    told = {**os.environ, "PYTHONIOENCODING": "cp437"}
    done = subprocess.run([sys.executable, "-m", "envcheck", *asked], env=told, capture_output=True, check=False)
    assert "env\xe9?\\Scripts\\python.exe" in done.stdout.decode("cp437")
    assert done.returncode == 0
