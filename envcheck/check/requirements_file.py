"""Read a pip requirements file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envcheck.check.blueprint import Blueprint, Line

Read = Callable[[str], "str | None"]  # a file beside the judged one, by its name there; None: not there


def parse_requirements(text: str, path: str, read: Read) -> Blueprint:
    """Read requirements with the files they include.

    Sample: --index-url https://download.pytorch.org/whl/cpu
            torch==2.4.0  # on the CPU
            -r more.txt
    """
    lines = list(_included(text, path, read, (path,)))
    cpu = any(_is_cpu_index(line.text) for line in lines)
    wanted = tuple(line for line in lines if not line.text.startswith("-"))
    return Blueprint(path, "requirements file", requirements=wanted, cpu_index=wanted if cpu else ())


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines, continued ones joined, comments and blank ones left out."""
    held, start = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        start = start or number
        line = re.sub(r"(^|\s)#.*$", "", raw).rstrip()
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        if (held + line).strip():
            yield start, (held + line).strip()
        held, start = "", 0


def _included(text: str, path: str, read: Read, seen: tuple[str, ...]) -> Iterator[Line]:
    for number, line in logical_lines(text):
        found = re.fullmatch(r"(?:-r|--requirement)[ =]?\s*(\S+)", line)
        if found is None:
            bare = re.split(r"\s--(?:hash|config-settings|global-option)\b", line)[0].strip()
            yield Line(bare, f"{path}:{number}")
        elif found[1] not in seen and len(seen) < 20:
            inner = read(found[1])
            yield from _included(inner or "", found[1], read, (*seen, found[1]))


def _is_cpu_index(line: str) -> bool:
    return (
        is_cpu_index(re.sub(r"^(?:-i|--index-url)[ =]?\s*", "", line)) if line.startswith(("-i", "--index")) else False
    )


def is_cpu_index(url: str) -> bool:
    """Tell whether an index has PyTorch's CPU wheels alone: its address ends in /cpu."""
    return url.rstrip("/").endswith("/cpu")
