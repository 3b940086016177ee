"""What is typed before any work begins: help, misspelt words, short forms, and what the Tab key completes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from envcheck.cli.group import COMMANDS, TASKS, group, run
from envcheck.model import UserError

PROGRAM = Path(sys.executable).with_name("envcheck")


def commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and those below it, by what is typed."""
    yield name, command
    for below, each in getattr(command, "commands", {}).items():
        yield from commands(f"{name} {below}", each)


ALL = dict(
    item
    for name in COMMANDS
    for item in commands(name, group.get_command(click.Context(group), name) or click.Command(""))
)
WITH_FORMAT = [
    name for name, command in ALL.items() if any("--format" in each.opts for each in command.params)
]


def type_words(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the installed program as a shell does."""
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
    variables = {"PATH": path, "HOME": os.environ.get("HOME", ""), **variables}
    return subprocess.run([*words], capture_output=True, text=True, check=False, env=variables)


def test_help_shows_each_command_below_its_task_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([]) == 0
    lines = capsys.readouterr().out.splitlines()
    for task, below in TASKS.items():
        at = lines.index(f"{task}:")
        assert [line.split()[0] for line in lines[at + 1 : at + 1 + len(below)]] == list(below)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("doctr", "Did you mean `envcheck doctor`?"),
        ("query", "Did you mean `envcheck matrix query`?"),
        ("complete bash", "Did you mean `envcheck completion`?"),
        ("doctor --expct cpu", "'--expect'"),
        ("frobnicate", "`envcheck --help` lists the commands."),
    ],
)
def test_a_misspelt_word_is_answered_with_the_one_that_was_meant(typed: str, meant: str) -> None:
    with pytest.raises(UserError) as told:
        run(typed.split())
    assert meant in str(told.value)


@pytest.mark.parametrize("name", WITH_FORMAT)
def test_every_command_with_formats_has_the_short_form(name: str) -> None:
    words = ["x" for each in ALL[name].params if isinstance(each, click.Argument) and each.required]
    with pytest.raises(UserError) as told:
        run([*name.split(), *words, "--json", "--format", "text"])
    assert str(told.value) == "--json and --format text exclude each other: choose one of them."


@pytest.mark.parametrize(
    "line",
    [
        "doctor --json --expct cpu",
        "plan --json",
        "gpus --json --watch 2",
        "doctor --format html --json",
    ],
)
def test_a_usage_error_with_json_is_one_document(line: str) -> None:
    done = type_words(str(PROGRAM), *line.split())
    assert (done.returncode, done.stderr) == (2, "")
    assert json.loads(done.stdout)["schema"] == "envcheck/error/1"


def test_json_of_another_program_is_not_ours() -> None:
    done = type_words(str(PROGRAM), "run", "--colour", "--", "ls", "--json")
    assert (done.returncode, done.stdout) == (127, "")


@pytest.mark.needs("fish")
def test_fish_completes_commands_options_formats_and_files(tmp_path: Path) -> None:
    (tmp_path / "machine.json").touch()
    lines = [
        "envcheck co",
        "envcheck doctor --form",
        "envcheck doctor --format js",
        "envcheck diff mach",
    ]
    script = "envcheck completion fish | source; " + "; ".join(
        f"complete -C '{line}'" for line in lines
    )
    done = type_words("fish", "-c", f"cd {tmp_path}; {script}", XDG_CONFIG_HOME=str(tmp_path))
    assert done.stdout.splitlines() == [
        f"completion\t{COMMANDS['completion'][1]}",
        "--format\tHow to print [text].",
        "json",
        "machine.json",
    ]


@pytest.mark.needs("bash")
def test_bash_completes_commands_and_options() -> None:
    script = 'eval "$(envcheck completion bash)"; COMP_WORDS=(envcheck {}); COMP_CWORD={}; '
    ask = '_envcheck_completion envcheck; echo "${{COMPREPLY[*]}}"'
    for words, found in (
        ("matri", "matrix"),
        ("matrix sho", "show"),
        ("doctor --snap", "--snapshot"),
        ("plan vll", "vllm"),
    ):
        done = type_words("bash", "-c", (script + ask).format(words, len(words.split())))
        assert done.stdout.strip() == found, done.stderr


def test_powershell_is_answered_with_a_kind_a_value_and_a_description() -> None:
    asked = {"_ENVCHECK_COMPLETE": "powershell_complete", "COMP_WORDS": "envcheck doctor --js"}
    told = type_words(str(PROGRAM), **asked, COMP_CWORD="--js").stdout
    assert told.startswith("plain,--json\tShort for --format json.")


def test_powershell_has_no_empty_variables() -> None:
    asked = {"_ENVCHECK_COMPLETE": "powershell_complete", "COMP_WORDS": "envcheck matrix"}
    assert type_words(str(PROGRAM), **asked).stdout.startswith("plain,export\t")


def test_no_command_is_imported_to_complete_the_names_of_commands() -> None:
    words = {"_ENVCHECK_COMPLETE": "bash_complete", "COMP_WORDS": "envcheck ", "COMP_CWORD": "1"}
    told = type_words(sys.executable, "-X", "importtime", "-m", "envcheck", **words)
    assert told.stdout.split() == [f"plain,{name}" for name in COMMANDS]
    assert "envcheck.cli.doctor" not in told.stderr
