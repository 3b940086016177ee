"""How this program is installed, and what starts it again in the shell that started it."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from pathlib import PurePath

_UVX = re.compile(r"[/\\](?:archive|builds|environments)-v\d+[/\\]")  # uv's cache: for one run


def is_throwaway() -> bool:
    """Return whether `uvx` made the environment of this program for one run."""
    return _UVX.search(sys.prefix) is not None


def is_single_file() -> bool:
    """Return whether this program runs from envcheck.pyz, or from what that file unpacked."""
    root = str(PurePath(__file__).parents[2])
    return not os.path.isdir(root) or os.path.isfile(os.path.join(root, "__main__.py"))  # noqa: PTH112, PTH113, PTH118 - pathlib is slow to import


@cache
def program_words() -> tuple[str, ...]:
    """Return the words that start this program: `envcheck` only where PATH leads to this one."""
    script = sys.argv[0] if sys.argv else ""
    if is_single_file():
        words: tuple[str, ...] = (sys.executable, script)
        started = script
    elif re.fullmatch(r"envcheck(-gpu)?(\.exe)?", PurePath(script).name):
        words, started = (script,), script
    else:
        words = (sys.executable, "-m", "envcheck")
        started = os.path.join(os.path.dirname(sys.executable), "envcheck")  # noqa: PTH118, PTH120
    # uvx and `uv run` put what they start on a PATH that ends with them
    is_lasting = not is_throwaway() and "UV_RUN_RECURSION_DEPTH" not in os.environ
    if os.name == "nt" or (is_lasting and _leads_to(started)):
        return ("envcheck",)
    return tuple(map(_from_home, words))


@cache
def uv_word() -> str:
    """Return what starts uv here: where PATH has none, the one that came with this program."""
    beside = os.path.join(os.path.dirname(sys.executable), "uv")  # noqa: PTH118, PTH120 - pathlib is slow to import
    is_needed = not _find_on_path("uv") and os.access(beside, os.X_OK)
    return _from_home(beside) if is_needed else "uv"


def _leads_to(started: str) -> bool:
    """Return whether the first `envcheck` on PATH is the one that was started."""
    found = _find_on_path("envcheck")
    return bool(found) and os.path.realpath(found) == os.path.realpath(started)


def _find_on_path(name: str) -> str:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, name)  # noqa: PTH118
        if os.access(path, os.X_OK):
            return path
    return ""


def _from_home(word: str) -> str:
    home = os.path.join(os.path.expanduser("~"), "")  # noqa: PTH111, PTH118
    return "~/" + word[len(home) :] if len(home) > 1 and word.startswith(home) else word
