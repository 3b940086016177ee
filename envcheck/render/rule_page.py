"""Describe a finding in general: what `envcheck rule ID` and its page say."""

from __future__ import annotations

from collections.abc import Iterable

from envcheck.actions import action_line
from envcheck.explain.rule_page import RulePage
from envcheck.model import COMPATIBLE
from envcheck.render.document import Document, Line, Section, Way, type_command
from envcheck.render.json_contracts import document_text, schema_keys
from envcheck.rules.catalogue import catalogue

_SHOWN = 8  # messages, without -v


def describe_rule_page(page: RulePage, *, verbose: bool = False, quiet: bool = False) -> Document:
    """Return the document of a finding; without -v it shows the first messages."""
    entry = page.entry
    sections = [
        Section((Line(f"{entry.means[0].upper()}{entry.means[1:]}."),), Line("In detail:")),
        *_list_messages(page, verbose=verbose),
        Section(tuple(map(Line, _say_how_decided(page))), Line("How it is decided:")),
        *_list_fixes(page),
        Section(
            tuple(_say_how_silenced(page)), Line("To ignore it in a project, in pyproject.toml:")
        ),
    ]
    return Document(
        "envcheck rule",
        COMPATIBLE,
        entry.headline,
        label=f"{entry.id}  ",
        kind="bold",
        sections=() if quiet else tuple(sections),
    )


def _list_messages(page: RulePage, *, verbose: bool) -> list[Section]:
    shown = page.messages if verbose else page.messages[:_SHOWN]
    lines = [Line(text) for text in shown]
    if len(shown) < len(page.messages):
        lines.append(Line(f"and {len(page.messages) - len(shown)} more: -v", kind="dim"))
    return [Section(tuple(lines), Line("Messages that state it:"))] if lines else []


def _say_how_decided(page: RulePage) -> Iterable[str]:
    yield from page.decided_by or ("Only a log shows it.",)
    if page.facts:
        yield f"Needs {', '.join(page.facts)}."
    if page.follows_from:
        yield f"May follow from {', '.join(page.follows_from)}."
    if page.entry.explains:
        yield f"May cause {', '.join(page.entry.explains)}."


def _list_fixes(page: RulePage) -> list[Section]:
    ways = tuple(
        Way("fix", fix.summary, tuple(type_command(each, "") for each in fix.actions))
        for fix in page.fixes
    )
    last = Line("`envcheck doctor` and `envcheck explain FILE` say what to type on your machine.")
    return [Section((*ways, last), Line("What to do:"))]


def _say_how_silenced(page: RulePage) -> Iterable[Line]:
    yield Line("[tool.envcheck]")
    yield Line(f'ignore = ["{page.entry.id}: why"]')
    if page.entry.stops == "import":
        yield Line("An error that stops an import counts all the same.", kind="dim")


def describe_rule_list() -> Document:
    """Return the document that lists every finding."""
    entries = catalogue().values()
    width = max(len(entry.id) for entry in entries)
    layers: dict[str, list[Line]] = {}
    for entry in entries:
        line = Line(entry.headline, f"{entry.id:<{width}}  ")
        layers.setdefault(entry.layer, []).append(line)
    sections = [Section(tuple(lines), Line(f"{layer}:")) for layer, lines in layers.items()]
    said = f"{len(entries)} findings."
    return Document("envcheck rule", COMPATIBLE, said, sections=tuple(sections))


def render_rule_json(page: RulePage) -> str:
    """Render the document envcheck/rule/1."""
    entry = page.entry
    return document_text(
        {
            **schema_keys("envcheck/rule/1"),
            "id": entry.id,
            "layer": entry.layer,
            "headline": entry.headline,
            "means": entry.means,
            "stops": entry.stops,
            "messages": list(page.messages),
            "decided_by": list(page.decided_by),
            "facts": list(page.facts),
            "fixes": [
                {"summary": fix.summary, "commands": list(map(action_line, fix.actions))}
                for fix in page.fixes
            ],
            "explains": list(entry.explains),
            "follows_from": list(page.follows_from),
        }
    )
