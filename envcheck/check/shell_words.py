"""Find the installations in a shell line; nothing of it is ever run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from envcheck.model.records import dataclass

_ENDS = frozenset({"&&", "||", ";", "|", "&"})
_PIP = re.compile(r"(?:.*/)?pip(?:\d+(?:\.\d+)?)?")
_PYTHON = re.compile(r"(?:.*/)?python(?:\d+(?:\.\d+)?)?")
_CONDA = re.compile(r"(?:.*/)?(?:conda|mamba|micromamba)")
# Options of pip install that take a value; the rest are flags (https://pip.pypa.io/en/stable/cli/pip_install/).
_VALUED = frozenset({
    "-c", "--constraint", "-t", "--target", "--platform", "--python-version", "--implementation", "--abi", "--root",
    "--prefix", "--src", "--upgrade-strategy", "--config-settings", "-C", "--global-option", "--no-binary",
    "--only-binary", "--progress-bar", "--root-user-action", "--report", "--find-links", "-f", "--extra-index-url",
    "--proxy", "--retries", "--timeout", "--trusted-host", "--cert", "--client-cert", "--cache-dir", "--log",
    "--python", "-p", "--channel", "-n", "--name",
})  # fmt: skip


@dataclass(frozen=True)
class Install:
    """One pip or conda installation: its requirements, requirement files and index."""

    tool: str  # pip, conda
    packages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    index: str = ""


def commands_of(line: str) -> Iterator[list[str]]:
    """Split a shell line into its commands' words; what cannot be split yields nothing."""
    lexer = shlex.shlex(line.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for word in lexer:
            if word in _ENDS or set(word) <= set(";&|()"):
                yield words
                words = []
            else:
                words.append(word)
    except ValueError:  # an open quote
        return
    yield words


def install_of(words: list[str]) -> Install | None:
    """Read `pip install …`, `python -m pip install …`, `uv pip install …` and `conda install …`."""
    while words and (words[0] in {"sudo", "exec", "time", "uv"} or re.fullmatch(r"\w+=.*", words[0])):
        words = words[1:]
    if len(words) > 2 and _PYTHON.fullmatch(words[0]) and words[1] == "-m":
        words = words[2:]
    if len(words) < 2 or words[1] not in {"install", "add", "create"}:
        return None
    if _PIP.fullmatch(words[0]) and words[1] == "install":
        return _arguments("pip", words[2:])
    return _arguments("conda", words[2:]) if _CONDA.fullmatch(words[0]) else None


def _arguments(tool: str, words: list[str]) -> Install:
    packages: list[str] = []
    files: list[str] = []
    index, rest = "", iter(words)
    for word in rest:
        option, has_value, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option in {"-r", "--requirement", "-f" if tool == "conda" else "-r", "--file"}:
            files.append(value if has_value else next(rest, ""))
        elif option in {"-i", "--index-url"}:
            index = value if has_value else next(rest, "")
        elif option in _VALUED or (tool == "conda" and option == "-c"):
            _ = value if has_value else next(rest, "")
        elif not word.startswith("-"):
            packages.append(word)
    return Install(tool, tuple(packages), tuple(files), index)
