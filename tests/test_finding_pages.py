"""Each finding has a page of the site, from the same source as `envcheck rule ID`."""

from __future__ import annotations

import re

import pytest

from docs.log_lines import list_log_lines
from docs.reference_pages import finding, findings
from envcheck.explain.rule_page import describe_rule
from envcheck.rules.catalogue import catalogue


@pytest.mark.parametrize("name", catalogue())
def test_a_page_says_what_the_command_says(name: str) -> None:
    entry, page = catalogue()[name], describe_rule(name)
    text = finding(entry)
    assert text.startswith(f"# {entry.headline.rstrip('.')}\n")
    lines = list_log_lines(name)
    assert bool(lines) == bool(page.messages)
    for said in (*lines, entry.means[1:], f'ignore = ["{name}: why"]'):
        assert said in text
    linked = {*page.follows_from, *entry.explains, *entry.silences} - {name}
    assert set(re.findall(r"\]\(([\w-]+)\.md\)", text)) == linked <= set(catalogue())
    assert not re.search(r"\{\w+\}", text)  # no raw field of a template
    assert ("counts all the same" in text) == (entry.stops == "import")


def test_the_list_links_to_every_page() -> None:
    assert re.findall(r"\]\(findings/([\w-]+)\.md\)", findings()) == [*catalogue()]
