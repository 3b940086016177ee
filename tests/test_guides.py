"""A how-to guide answers its question in one shape, and what it says to type exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click
import pytest

from envcheck.cli.group import COMMANDS, group
from tests.documented_outputs import FENCED, PAGES, ROOT

GUIDES = sorted((ROOT / "docs/how-to").glob("*.md"))


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def typed(page: Path) -> Iterator[list[str]]:
    """Yield the arguments of each envcheck command that a page says to type."""
    text = re.sub(r"^> ?", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for block in FENCED.finditer(text):
        for line in block["body"].splitlines() if block["kind"] == "sh" else ():
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            for is_operator, words in groupby(lexer, lambda word: word[0] in "&|<>;"):
                first, *arguments = words
                if not is_operator and arguments and first.endswith("envcheck"):
                    yield arguments


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_a_guide_shows_an_answer_what_to_do_and_how_to_verify_it(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "<!-- stand-in: " in text
    assert "\n$ envcheck " in text
    assert re.search(r"^\| .*\| (What to do|In CI) \|$", text, re.MULTILINE)
    assert re.search(r"^## (\d+\. )?Verify$", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_to_type_is_one_that_envcheck_takes(page: Path) -> None:
    for command, *arguments in typed(page):
        if command in COMMANDS:
            parse(group, command, arguments)


def parse(commands: click.Group, command: str, arguments: list[str]) -> None:
    found = commands.get_command(click.Context(commands), command)
    assert found, command
    if isinstance(found, click.Group):
        parse(found, arguments[0], arguments[1:])
    else:
        found.make_context(command, list(arguments))
