"""Each finding has a page of the site, from the same source as `envcheck rule ID`."""

from __future__ import annotations

import json
import re

import pytest

from docs.reference_pages import finding, findings
from envcheck.explain.rule_page import describe_rule
from envcheck.rules.catalogue import catalogue
from tests.cases import log_lines


@pytest.mark.parametrize("name", catalogue())
def test_a_page_says_what_the_command_says(name: str) -> None:
    entry, page = catalogue()[name], describe_rule(name)
    text = finding(entry)
    assert text.startswith(f"# {entry.headline.rstrip('.')}\n")
    for said in (*page.messages, entry.means[1:], f'ignore = ["{name}: why"]'):
        assert said in text
    linked = {*page.follows_from, *entry.explains} - {name}
    assert set(re.findall(r"\]\(([\w-]+)\.md\)", text)) == linked <= set(catalogue())
    written = re.sub(r"```text\n.*?```", "", text, flags=re.DOTALL)  # a log may hold anything
    assert not re.search(r"\{\w+\}", written)  # no raw field of a template
    assert ("counts all the same" in text) == (entry.stops == "import")


def test_the_lines_are_those_of_the_logs() -> None:
    content = json.loads(log_lines.FILE.read_text(encoding="utf-8"))
    assert content["lines"] == log_lines.list_lines()  # python -m tests.cases.log_lines writes it


def test_the_list_links_to_every_page() -> None:
    assert re.findall(r"\]\(findings/([\w-]+)\.md\)", findings()) == [*catalogue()]
