"""`envcheck rule`, and the options and words that every command has alike."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import click
import fastjsonschema
import pytest

from envcheck import api
from envcheck.cli.common import Printing
from envcheck.cli.group import COMMANDS, group, run
from envcheck.model import UserError
from envcheck.rules.catalogue import catalogue
from tests.structure import ROOT

SCHEMA = json.loads((ROOT / "envcheck/schemas/rule.schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", catalogue())
def test_every_finding_has_a_page(name: str) -> None:
    result = api.rule(name)
    fastjsonschema.validate(SCHEMA, result.to_dict())
    text = str(result)
    assert text.startswith(f"{name}  {catalogue()[name].headline}\n")
    assert f'ignore = ["{name}: why"]' in text
    assert ("stops an import counts" in text) == (catalogue()[name].stops == "import")
    written = [line for line in text.splitlines() if line.strip() not in result.page.messages]
    assert not re.search(r"\{\w+\}", "\n".join(written))  # no raw field of a template


def test_it_says_what_people_search_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rule", "driver-library-mismatch"]) == 0
    said = capsys.readouterr().out
    assert "\n  Failed to initialize NVML: Driver/library version mismatch\n" in said
    assert "Report a kernel module and user-space libraries of different releases." in said
    assert run(["rule", "numpy-abi", "-v"]) == 0
    said = capsys.readouterr().out
    assert "Cannot convert a symbolic Tensor" in said
    assert "$ python3 -m pip install 'numpy<2'" in said


def test_without_an_id_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rule"]) == 0
    said = capsys.readouterr().out
    assert [name for name in catalogue() if f"  {name} " not in said] == []
    with pytest.raises(UserError, match="name a finding"):
        run(["rule", "--json"])


@pytest.mark.parametrize(
    ("variables", "colored"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"CLICOLOR_FORCE": "1"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"FORCE_COLOR": "", "CLICOLOR_FORCE": ""}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_are_forced_where_no_terminal_is(
    variables: dict[str, str], colored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Printing().wants_color(io.StringIO()) == colored
    assert Printing(color_mode="always").wants_color(io.StringIO())
    assert not Printing(color_mode="never").wants_color(io.StringIO())


REPORTING = ("check", "diff", "doctor", "explain", "gpus", "plan", "rule", "smoke")


@pytest.mark.parametrize("name", [*REPORTING, "install", "fix"])
def test_what_reports_has_the_same_options(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    named = {option for parameter in command.params for option in parameter.opts}
    assert {"--color", "-q", "-v", "--json", "--format"} <= named
    assert (name in REPORTING) == ("--output" in named)


def test_a_report_is_written_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.txt"
    run(["rule", "numpy-abi", "-v"])
    shown = capsys.readouterr().out
    assert run(["rule", "numpy-abi", "-v", "-o", str(file)]) == 0
    assert (capsys.readouterr().out, file.read_text(encoding="utf-8")) == ("", shown)


def test_a_plan_is_its_commands_alone_with_q(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["jax", "--platform", "linux_x86_64", "--python", "3.11", "--driver", "550"]
    assert run(["plan", *words, "--gpu", "L4", "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "python3.11 -m venv .venv"
    assert all(not line.startswith(("#", "$", " ")) for line in lines)


def test_help_and_version_are_commands_too(capsys: pytest.CaptureFixture[str]) -> None:
    for words, same in (
        (["help"], ["--help"]),
        (["help", "matrix", "show"], ["matrix", "show", "--help"]),
    ):
        run(words)
        shown = capsys.readouterr().out
        run(same)
        assert capsys.readouterr().out == shown
    run(["version"])
    shown = capsys.readouterr().out
    run(["--version"])
    assert capsys.readouterr().out == shown
    with pytest.raises(UserError, match=r"there is no command 'docter'.*`envcheck doctor`"):
        run(["help", "docter"])


@pytest.mark.parametrize(
    "words",
    ["doctor --env", "install torch --env", "fix --env", "plan torch --driver", "smoke --env",
     "matrix query --gpu", "explain x --snapshot", "install --rollback",
     "explain", "check", "plan", "rule", "matrix show"],
)  # fmt: skip
def test_an_empty_option_or_argument_is_an_error(words: str) -> None:
    assert words.split(maxsplit=1)[0] in COMMANDS
    with pytest.raises(UserError, match="it is empty: is a variable of your shell not set"):
        run([*words.split(), ""])
