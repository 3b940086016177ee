"""What envcheck knows of a finding in general: its messages, how it is decided, and its fixes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from envcheck.actions import move_environment
from envcheck.explain.signatures import load_signatures
from envcheck.model import Action, UserError, dataclass
from envcheck.remedies.rows import list_texts, load_rows, make_action
from envcheck.rules import RULES
from envcheck.rules.catalogue import Entry, catalogue

_CAUSES = frozenset({"cause", "symptom"})  # roles of messages that state a finding
_LEFT_OUT = "…"
# three words, or a name: "returned 35" is in logs of any kind
_TELLING = re.compile(r"\S+ \S+ \S|[A-Z]\w*[a-z_]\w{5}")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass
class KnownFix:
    """One way to mend a finding; what needs a value of the machine is left out."""

    summary: str
    actions: tuple[Action, ...]


@dataclass
class RulePage:
    """A finding in general."""

    entry: Entry
    messages: tuple[str, ...]  # of logs, as they are searched for; … stands for what varies
    decided_by: tuple[str, ...]  # what each rule does; () for what only a log shows
    facts: tuple[str, ...]  # that its rules cannot do without
    fixes: tuple[KnownFix, ...]
    follows_from: tuple[str, ...]  # ids


def describe_rule(name: str) -> RulePage:
    """Return what is known of a finding; raises UserError for an unknown id."""
    entry = catalogue().get(name)
    if entry is None:
        close = get_close_matches(name, catalogue(), n=1)
        hint = f"Did you mean {close[0]}?" if close else "`envcheck rule` lists the ids."
        raise UserError(f"no finding has the id {name[:60]!r}. {hint}")
    rules = [rule for rule in RULES if name in rule.ids]
    sentences = ((rule.check.__doc__ or "").partition("\n\n")[0] for rule in rules)
    return RulePage(
        entry,
        tuple(dict.fromkeys(_list_messages(name))),
        tuple(" ".join(sentence.split()) for sentence in sentences if sentence),
        tuple(dict.fromkeys(fact for rule in rules for fact in rule.needs)),
        tuple(dict.fromkeys(_list_fixes(name))),
        tuple(other.id for other in catalogue().values() if name in other.explains),
    )


def _list_messages(name: str) -> Iterator[str]:
    for signature in load_signatures():
        if signature.finding == name and signature.role in _CAUSES:
            text = read_pattern(signature.pattern)
            text = text if len(text) > len(_LEFT_OUT) + 4 else signature.fragments[0]
            if _TELLING.search(text):
                yield text


def read_pattern(pattern: str) -> str:
    r"""Write the text that an expression looks for.

    Sample: `[Dd]river/library version (?:mis)?match: (?P<library>[\d.]+)`
    """
    # Python 3.11 renamed the parser, which only this page needs
    parser: Any = getattr(re, "_parser", None) or import_module("sre_parse")
    text = "".join(_read_items(parser.parse(pattern)))
    return re.sub(rf"{_LEFT_OUT}(\s*{_LEFT_OUT})+", _LEFT_OUT, text).strip(f" {_LEFT_OUT}\n")


def _read_items(items: Any) -> Iterator[str]:
    for kind, value in items:
        match str(kind):
            case "LITERAL":
                yield chr(value)
            case "IN" if str(value[0][0]) == "LITERAL":
                yield chr(value[0][1])
            case "BRANCH":
                yield from _read_items(value[1][0])
            case "SUBPATTERN":
                yield from [_LEFT_OUT] if value[0] else _read_items(value[-1])
            case "MAX_REPEAT" | "MIN_REPEAT" if value[0] == 1 and str(value[2][0][0]) != "IN":
                yield from _read_items(value[2])
            case "AT" | "ASSERT" | "ASSERT_NOT":
                pass
            case "MAX_REPEAT" | "MIN_REPEAT" if not value[0] and value[1] == 1:  # optional
                pass
            case _:
                yield _LEFT_OUT


def _list_fixes(name: str) -> Iterator[KnownFix]:
    """Yield the fixes that hold whatever the message or the machine says."""
    for row in load_rows(name):
        if not row.is_special:
            summary = _PLACEHOLDER.sub(lambda match: match[1].upper(), row.summary)
            named = (item for item in map(make_action, row.actions) if isinstance(item, Action))
            actions = (move_environment(action, "{python}", "python3") for action in named)
            yield KnownFix(summary, tuple(filter(_is_known, actions)))


def _is_known(action: Action) -> bool:
    return not any(_PLACEHOLDER.search(text) for text in list_texts(action))
