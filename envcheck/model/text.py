"""Text for users: errors of one sentence, machines' words made safe, names to compare."""

from __future__ import annotations

import re
from typing import Dict, List, Pattern, Sequence, Tuple

# C0 and C1 controls, the marks that reorder text (https://trojansource.codes) or end a line, and
# half characters no file takes.
_ACTIVE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\u200e\u200f\ud800-\udfff]"

_URL = r"[a-zA-Z][\w+.-]*://[^\s'\"<>)\]]+"
# conda's channels hold tokens behind /t/, and forums the titles of their topics, before a number.
_IN_URL = r"(?P<name>://)[^/\s]*@|(?P<channel>/t/)[^/]+(?=/(?!\d+(?:/|$)))|(?P<query>\?)[^#]+"


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: 1 row, 3 rows."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def shorten(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Name the first and count the rest: "a, b and 3 more"."""
    named = separator.join(names[:most])
    return f"{named} and {len(names) - most} more" if len(names) > most else named


def find_group(pattern: str | Pattern[str], text: str, flags: int = 0) -> str:
    """Return what the first group of a pattern finds first in a text; "" where nothing is found."""
    match = re.search(pattern, text, flags)
    return (match.group(1) or "") if match else ""


def parse_fields(text: str) -> Dict[str, str]:
    r"""Parse lines of a name and a value, as the kernel and the driver write them.

    Samples: "Name:\tpython3\nState:\tS (sleeping)\nPPid:\t1\n",
    "Model: \t\t NVIDIA GeForce RTX 3090\nGPU UUID: \t GPU-5a1b…\n"
    """
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def hide_url_secrets(text: str) -> str:
    """Hide names, passwords, tokens and queries in the URLs of a text."""
    if "://" in text:
        return re.sub(_URL, lambda url: re.sub(_IN_URL, _keep_sign, url[0]), text)
    return text


def remove_url_secrets(text: str) -> str:
    """Remove names, passwords, tokens, queries and fragments from the URLs of a text."""
    text = re.sub(r"([a-zA-Z][\w+.-]*://)[^/\s]*@", r"\1", text)
    text = re.sub(r"(://[^\s?#]*)[?#]\S*", r"\1", text)
    return re.sub(r"(://[^\s]*?/t/)[^/\s]+", r"\1<token>", text)


def _keep_sign(found: "re.Match[str]") -> str:
    if found["name"]:
        return "://***@"
    return (found["channel"] or found["query"]) + "***"


class UserError(Exception):
    """A request that cannot be carried out.

    A sentence that says what is wrong and, where known, what to do instead.
    """


class MachineError(UserError):
    """The request is right, but this machine cannot carry it out now.

    A full disk, an index that does not answer.
    """


class RequestError(UserError):
    """A requirement or machine description that cannot be read, judged or planned for."""


def inert(text: str) -> str:
    """Return `text` on one line, with a mark for each control or direction character."""
    line = text.replace("\n", " ").replace("\t", " ").replace("\r", " ")
    return line if line.isprintable() else re.sub(_ACTIVE, "\ufffd", line)  # none of them is


def escaped_in_json(text: str) -> str:
    """Spell what `inert` replaces as JSON escapes.

    A reader gets every character back, a terminal none.
    """
    return re.sub(_ACTIVE, lambda found: f"\\u{ord(found[0]):04x}", text)


def canonical_name(name: str) -> str:
    """Write a distribution's name as an index does: Tensorflow_GPU -> tensorflow-gpu."""
    return re.sub(r"[-_.]+", "-", name).lower()


# the file of a line of a traceback
FRAME = re.compile(r'^ *File "([^"]+)", line \d+', re.MULTILINE)


def read_tracebacks(printed: str) -> List[Tuple[str, str]]:
    r"""Read the chain of exceptions that a program printed.

    Of each the file that it was raised in, and its first line.

    Sample: 'Traceback (most recent call last):\n  File "/s/a.py", line 3, in <module>\n    import
    b\nImportError: b'
    """
    found: List[Tuple[str, str]] = []
    file = ""
    for line in printed.splitlines():
        frame = FRAME.match(line)
        if frame:
            file = frame[1]
        elif file and line[:1].strip():
            found.append((file, line.strip()))
            file = ""
    return found
