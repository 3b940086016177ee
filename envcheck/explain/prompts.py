"""What somebody typed into a shell, Python or a notebook, and what was answered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from envcheck.explain.text import WrappedLine

_PYTHON = r"\s*(?:>>> |In \[\d+\]: )"
_UNIX = r"\s*(?:\([\w.-]+\) ?)?(?:\[?[\w.-]+@[\w.-]+[^#$%>]{0,80})?[$#%] "
_OTHER = r"[A-Z]:\\[^>]{0,80}> ?|PS [^>]{0,80}> |julia> "
_PROMPT = rf"(?:{_PYTHON}|{_UNIX}|{_OTHER})(?P<asked>\S.*)$"
_ANY_PROMPT = rf"(?:{_PYTHON}|\s*>>>\s*$|{_UNIX}|{_OTHER})"
# a prompt holds one: looking for them is cheaper than the expression
_MARKS = (">", "In [", "$ ", "# ", "% ")
# Asked without a prompt: a line of a notebook or of a script that prints one thing.
_BARE = (
    r"\s*(?:print\()?(?P<asked>(?:torch|tf|tensorflow|jax)\.[\w.]+(?:\([\w'\","
    r" =]*\))?\)?|os\.environ\S+)\s*$"
)
_BARE_MARKS = ("torch.", "tf.", "tensorflow.", "jax.", "os.environ")


def list_answers(chunk: bytes) -> Iterator[WrappedLine]:
    """List what was asked in a log, each with its answer: "torch.cuda.is_available() -> False".

    Python says nothing where the answer is None, so a prompt that follows a prompt of Python's is
    that answer.
    """
    lines = [line.rstrip("\r") for line in chunk.decode("utf-8", "replace").split("\n")]
    for number, (line, next_line) in enumerate(pairwise([*lines, ""]), 1):
        match = match_prompt(line) or _match_marked(_BARE, _BARE_MARKS, line)
        if not match:
            continue
        question, answer = match["asked"].strip(), next_line.strip()
        if re.match(_ANY_PROMPT, next_line):
            answer = "None" if re.match(_PYTHON, line) else ""
        yield WrappedLine(number, (line, next_line), f"{question} -> {answer}", is_certain=True)


def match_prompt(line: str) -> re.Match[str] | None:
    """Match a line in which somebody types, behind a prompt of a shell or of Python."""
    return _match_marked(_PROMPT, _MARKS, line)


def _match_marked(pattern: str, marks: tuple[str, ...], line: str) -> re.Match[str] | None:
    return re.match(pattern, line) if any(mark in line for mark in marks) else None
