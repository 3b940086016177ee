"""Put what was asked at a prompt beside what was answered there: "False" alone says nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from envcheck.explain.broken import Broken

_PYTHON = r"\s*(?:>>> |In \[\d+\]: )"
_UNIX = r"\s*(?:\([\w.-]+\) ?)?(?:\[?[\w.-]+@[\w.-]+[^#$%>]{0,80})?[$#%] "
_OTHER = r"[A-Z]:\\[^>]{0,80}> ?|PS [^>]{0,80}> |julia> "
_PROMPT = rf"(?:{_PYTHON}|{_UNIX}|{_OTHER})(?P<asked>\S.*)$"
_ANY_PROMPT = rf"(?:{_PYTHON}|\s*>>>\s*$|{_UNIX}|{_OTHER})"
_MARKS = (">", "In [", "$ ", "# ", "% ")  # a prompt holds one: looking for them is cheaper than the expression
# Asked without a prompt: a line of a notebook or of a script that prints one thing.
_BARE = r"\s*(?:print\()?(?P<asked>(?:torch|tf|tensorflow|jax)\.[\w.]+(?:\([\w'\", =]*\))?\)?|os\.environ\S+)\s*$"
_BARE_MARKS = ("torch.", "tf.", "tensorflow.", "jax.", "os.environ")


def answers(chunk: bytes) -> Iterator[Broken]:
    """List what was asked in a log, each with its answer: "torch.cuda.is_available() -> False".

    Python says nothing where the answer is None, so a prompt that follows a prompt of Python's is that answer.
    """
    lines = [line.rstrip("\r") for line in chunk.decode("utf-8", "replace").split("\n")]
    for number, (line, following) in enumerate(pairwise([*lines, ""]), 1):
        match = _match(_PROMPT, _MARKS, line) or _match(_BARE, _BARE_MARKS, line)
        if not match:
            continue
        asked, answer = match["asked"].strip(), following.strip()
        if re.match(_ANY_PROMPT, following):
            answer = "None" if re.match(_PYTHON, line) else ""
        yield Broken(number, (line, following), f"{asked} -> {answer}", is_sure=True)


def _match(pattern: str, marks: tuple[str, ...], line: str) -> re.Match[str] | None:
    return re.match(pattern, line) if any(mark in line for mark in marks) else None
