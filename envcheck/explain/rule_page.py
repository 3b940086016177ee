"""What envcheck knows of a finding in general: its messages, how it is decided, and its fixes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from envcheck.actions import move_environment
from envcheck.host.data_files import load_data
from envcheck.model import Action, UserError, dataclass
from envcheck.remedies.rows import list_texts, load_rows, make_action
from envcheck.rules import RULES
from envcheck.rules.catalogue import Entry, catalogue

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass
class LogLines:
    """Lines of logs that state a finding, by its id."""

    lines: Mapping[str, tuple[str, ...]]


@dataclass
class KnownFix:
    """One way to mend a finding; what needs a value of the machine is left out."""

    summary: str
    actions: tuple[Action, ...]


@dataclass
class RulePage:
    """A finding in general."""

    entry: Entry
    messages: tuple[str, ...]  # lines of logs, as they are searched for
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
        load_data("evidence/log_lines", LogLines).lines.get(name, ()),
        tuple(" ".join(sentence.split()) for sentence in sentences if sentence),
        tuple(dict.fromkeys(fact for rule in rules for fact in rule.needs)),
        tuple(dict.fromkeys(_list_fixes(name))),
        tuple(other.id for other in catalogue().values() if name in other.explains),
    )


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
