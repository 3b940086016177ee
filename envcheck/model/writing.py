"""Commands that write a file line by line: run as they stand, and told apart by who prints them for people."""

from __future__ import annotations

from typing import Optional, Tuple

from envcheck.model.records import dataclass

_TAKE = "file=$1; shift; "
_PRINT = 'printf "%s\\n" "$@"'
_WRITE = f'{_TAKE}{_PRINT} > "$file"'
_WRITE_BELOW = f'{_TAKE}mkdir -p -- "${{file%/*}}" && {_PRINT} > "$file"'
_APPEND = f'{_TAKE}grep -qxF -- "$1" "$file" || {_PRINT} >> "$file"'
_APPEND_IF_THERE = f'[ ! -e "$1" ] || {{ {_APPEND}; }}'


@dataclass(frozen=True)
class Writing:
    """What such a command does."""

    path: str
    lines: Tuple[str, ...]
    appends: bool = False  # to what the file holds, unless it holds the first of these lines
    if_there: bool = False  # to a file that is there, only
    new_folder: bool = False  # its folder may not be there yet


_PROGRAMS = {
    _WRITE: (False, False, False),
    _WRITE_BELOW: (False, False, True),
    _APPEND: (True, False, False),
    _APPEND_IF_THERE: (True, True, False),
}
_OF_KIND = {kind: program for program, kind in _PROGRAMS.items()}


def writing_argv(what: Writing) -> Tuple[str, ...]:
    """Write the command for sh; every path and line is an argument of its own, which no shell reads."""
    return ("sh", "-c", _OF_KIND[(what.appends, what.if_there, what.new_folder)], "sh", what.path, *what.lines)


def read_writing(argv: Tuple[str, ...]) -> Optional[Writing]:
    """Tell what a command writes; None for any other command."""
    if len(argv) < 6 or (*argv[:2], argv[3]) != ("sh", "-c", "sh") or argv[2] not in _PROGRAMS:
        return None
    return Writing(argv[4], argv[5:], *_PROGRAMS[argv[2]])
