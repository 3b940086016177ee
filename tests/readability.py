"""How hard a text is to read: `python -m tests.readability` lists the sentences and words to change."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from docs import reference_pages

ROOT = Path(__file__).parent.parent
MEDIAN, LONGEST = 15, 30  # words in a sentence
PRIVATE = [
    re.compile(rf"\b{line}\b", re.IGNORECASE)
    for line in (ROOT / "tests/private_words.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# The members of data files whose strings users read.
MESSAGES = {
    "advice/findings": ("headline", "means"),
    "advice/remedies": ("summary", "purpose", "lasting", "unchecked", "message"),
    "advice/signatures": ("meaning", "interpretation"),
    "nvidia/cuda_results": ("means",),
    "nvidia/xid": ("means",),
}
MARKUP = [
    (r"\A---\n.*?\n---\n", ""),
    (r"(?m)^( *)```.*?^\1```", "\n\n"),
    (r"!?\[([^]]*)\]\([^)]*\)", r"\1"),
    (r"`[^`]*`", "Code"),  # one word
    (r"https?://\S+", ""),
    (r"<[^>]*>", "\n\n"),
    (r"\x08\n.*?(?=\n\n|\Z)", ""),  # of a help text, what stands as it is
    (r"(?m)^ *(?:#+|[-*+]|\d+\.) +", "\n\n"),
    (r"\|", "\n\n"),  # a cell of a table
    (r"\*+", ""),
]
END = re.compile(r"(?<=[.!?])[)\"”]?\s+(?=[^a-z])|(?<=:) (?=(?!Code)[A-Z][a-z])")


def sentences(text: str) -> list[list[str]]:
    """Return the words of each sentence of a Markdown text; headings, labels and numbers are none."""
    for pattern, replacement in MARKUP:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    parts = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
    split = (
        [word for word in found.split() if re.search(r"\w", word)]
        for part in parts
        for found in END.split(part)
    )
    return [words for words in split if len(words) > 3]


def faults(texts: list[str]) -> list[str]:
    """Return what makes texts hard to read together."""
    found = [words for text in texts for words in sentences(text)]
    median = statistics.median(map(len, found)) if found else 0
    long = [f"{len(words)} words: {' '.join(words)}" for words in found if len(words) > LONGEST]
    lines = [" ".join(words) for words in found]
    private = [
        f"private word {it[0]!r}: {line}"
        for line in lines
        for word in PRIVATE
        for it in word.finditer(line)
    ]
    return [
        *([f"the median sentence has {median:g} words"] if median > MEDIAN else []),
        *long,
        *private,
    ]


def messages(name: str) -> list[str]:
    """Return the strings of a data file that users read."""
    return list(
        _strings(
            json.loads((ROOT / f"data/{name}.json").read_text(encoding="utf-8")), MESSAGES[name]
        )
    )


def _strings(value: Any, members: tuple[str, ...], *, inside: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(item, members, inside=key in members)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, members, inside=inside)
    elif inside and isinstance(value, str):
        yield value


def help_texts() -> list[str]:
    """Return the help of each command, and of each of its options."""
    import click

    from envcheck.cli.group import COMMANDS, group

    def texts(command: click.Command) -> Iterator[str]:
        yield command.help or ""
        yield from (param.help or "" for param in command.params if isinstance(param, click.Option))
        for sub in getattr(command, "commands", {}).values():
            yield from texts(sub)

    commands = [group.get_command(click.Context(group), name) for name in COMMANDS]
    return [
        *(line for _, line in COMMANDS.values()),
        *(text for command in commands if command for text in texts(command)),
    ]


def machine_messages() -> list[str]:
    """Return what the doctor says of the recorded machines: findings, fixes and alternatives."""
    from tests.hosts.test_hosts import NAMES, diagnosed

    found = [finding for name in NAMES for finding in diagnosed(name).findings]
    fixes = [finding.fix for finding in found if finding.fix]
    texts = [*(item.message for item in found), *(fix.summary for fix in fixes)]
    return sorted({*texts, *(way.summary for fix in fixes for way in fix.alternatives)})


def read() -> Iterator[tuple[str, Callable[[], list[str]]]]:
    """Yield the name of each thing that users read, and what reads its texts."""
    for path in PAGES:
        yield path.relative_to(ROOT).as_posix(), partial(_texts, partial(path.read_text, "utf-8"))
    for name in MESSAGES:
        yield f"data/{name}.json", partial(messages, name)
    yield "--help", help_texts
    yield "tests/hosts", machine_messages
    for name, write in reference_pages.pages():
        if name.endswith(".md"):
            yield name, partial(_texts, write)


def _texts(write: Callable[[], str]) -> list[str]:
    return [write()]


if __name__ == "__main__":
    for name, read_texts in read():
        texts = read_texts()
        lengths = [len(words) for text in texts for words in sentences(text)]
        print(
            f"{name}: {len(lengths)} sentences, median {statistics.median(lengths):g} words, longest {max(lengths)}"
        )
        print("".join(f"  {line}\n" for line in faults(texts)), end="")
