"""Commands that write files, as somebody would type them: no program within a program."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from envcheck.model.writing import Writing


def writing_parts(what: Writing, quoted: Callable[[str], str]) -> tuple[str, ...]:
    """Write the command in parts that may stand on lines of their own; `quoted` quotes a path.

    sh, bash, zsh, fish and csh read it alike. The lines are quoted whole: no shell may expand what they hold.
    """
    return (f"{_before(what, quoted)}printf '%s\\n'", *map(_whole, what.lines), _end(what, quoted))


def document_lines(what: Writing, quoted: Callable[[str], str]) -> tuple[str, ...]:
    """Write the command for a script of sh: what is written stands in it as it is."""
    mark = next(mark for mark in ("END", *(f"END{number}" for number in range(99))) if mark not in what.lines)
    return (f"{_before(what, quoted)}cat {_end(what, quoted)} <<'{mark}'", *what.lines, mark)


def _before(what: Writing, quoted: Callable[[str], str]) -> str:
    path = quoted(what.path)
    if what.appends:
        there = f"[ ! -e {path} ] || " if what.if_there else ""
        return f"{there}grep -qxF -- {_whole(what.lines[0])} {path} || "
    return f"mkdir -p -- {quoted(posixpath.dirname(what.path))} && " if what.new_folder else ""


def _end(what: Writing, quoted: Callable[[str], str]) -> str:
    return f"{'>>' if what.appends else '>'} {quoted(what.path)}"


def _whole(line: str) -> str:
    return "'" + line.replace("'", "'\"'\"'") + "'"
