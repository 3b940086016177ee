"""Find the installations in a shell line; nothing of it is ever run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from envcheck.model import dataclass

_PIP = re.compile(r"(?:.*/)?pip(?:\d+(?:\.\d+)?)?")
_PYTHON = re.compile(r"(?:.*/)?python(?:\d+(?:\.\d+)?)?")
_CONDA = re.compile(r"(?:.*/)?(?:conda|mamba|micromamba)")
_SHELL = re.compile(r"(?:.*/)?(?:ba|da|z|k)?sh")
# Words that another command may follow, and the assignments before it.
_BEFORE = frozenset({"sudo", "exec", "time", "env", "nohup", "then", "do", "else", "elif", "if", "while", "!", "{"})
_ASSIGNED = re.compile(r"(\w+)=(.*)", re.DOTALL)
_ENDS = frozenset(";&|()\n")
# Options of pip install that take a value; the rest are flags (https://pip.pypa.io/en/stable/cli/pip_install/).
_VALUED = frozenset({
    "-c", "--constraint", "-r", "--requirement", "--file", "-i", "--index-url",
    "-t", "--target", "--platform", "--python-version", "--implementation", "--abi", "--root",
    "--prefix", "--src", "--upgrade-strategy", "--config-settings", "-C", "--global-option", "--no-binary",
    "--only-binary", "--progress-bar", "--root-user-action", "--report", "--find-links", "-f", "--extra-index-url",
    "--proxy", "--retries", "--timeout", "--trusted-host", "--cert", "--client-cert", "--cache-dir", "--log",
    "--python", "-p", "--channel", "-n", "--name", "-e", "--editable", "-w", "--wheel-dir", "--build-option",
})  # fmt: skip

_KINDS = {
    **dict.fromkeys(("-r", "--requirement", "--file"), "files"),
    **dict.fromkeys(("-c", "--constraint"), "constraints"),
    **dict.fromkeys(("-i", "--index-url", "--extra-index-url"), "indexes"),
    **dict.fromkeys(("-f", "--find-links"), "links"),
    **dict.fromkeys(("-e", "--editable"), "editable"),
}


@dataclass(frozen=True)
class Install:
    """One pip or conda installation: its requirements, requirement files and indexes."""

    tool: str  # pip, conda
    packages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()  # files that say which release to take of what is installed
    links: bool = False  # it also takes wheels from a page of links
    editable: tuple[str, ...] = ()


def commands_of(text: str) -> Iterator[list[str]]:
    """Split shell text into its commands' words; a line that cannot be split yields nothing."""
    text = re.sub(r"(?m)(^|[ \t])#[^\n]*", r"\1", text)
    try:
        yield from _plain(list(_split(text)))
    except ValueError:  # an open quote somewhere: take the lines one by one
        for line in text.split("\n"):
            try:
                yield from _plain(list(_split(line)))
            except ValueError:  # noqa: PERF203 - only after a line that cannot be split
                continue


def _split(text: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace_split, lexer.commenters, lexer.whitespace = True, "", " \t\r"
    words: list[str] = []
    for word in lexer:
        if word and set(word) <= _ENDS:
            yield words
            words = []
        elif word and set(word) <= {"<", ">", "&"}:
            if words and words[-1] in {"1", "2"}:
                words.pop()
            lexer.get_token()  # what follows is a file
        else:
            words.append(word)
    yield words


def _plain(commands: list[list[str]]) -> Iterator[list[str]]:
    """Look into `bash -c '…'`, and leave out what stands before a command."""
    for words in commands:
        kept = list(words)
        while kept and kept[0] in _BEFORE:
            kept = kept[1:]
        given = [word for word in kept[1:] if not word.startswith("-")]
        asked = any(re.fullmatch(r"-\w*c", word) for word in kept[1:])
        if kept and _SHELL.fullmatch(kept[0]) and asked and given:
            yield from commands_of(given[0])
        elif kept:
            yield kept


def shell_of(words: list[str]) -> str:
    """Return the script of `["bash", "-c", "…"]`; "" for another command."""
    is_shell = len(words) > 2 and _SHELL.fullmatch(words[0]) and re.fullmatch(r"-\w*c", words[1])
    return words[2] if is_shell else ""


def install_of(words: list[str]) -> Install | None:
    """Read `pip install …`, `python -m pip install …`, `uv pip install …` and `conda install …`."""
    indexes: tuple[str, ...] = ()
    while words and (words[0] in _BEFORE or words[0] == "uv" or _ASSIGNED.fullmatch(words[0])):
        given = _ASSIGNED.fullmatch(words[0])
        if given and given[1] in {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL"}:
            indexes = (*indexes, given[2])
        words = words[1:]
    if len(words) > 2 and _PYTHON.fullmatch(words[0]) and words[1] == "-m":
        words = words[2:]
    if len(words) < 2:
        return None
    if _PIP.fullmatch(words[0]):
        place = next((at for at, word in enumerate(words[:8]) if word in {"install", "wheel"}), 0)
        return _arguments("pip", words[place + 1 :], indexes) if place else None
    if not _CONDA.fullmatch(words[0]):
        return None
    words = words[1:] if words[1] == "env" else words
    return _arguments("conda", words[2:], ()) if words[1:2] and words[1] in _CONDA_INSTALLS else None


_CONDA_INSTALLS = frozenset({"install", "create", "update"})


def _arguments(tool: str, words: list[str], indexes: tuple[str, ...]) -> Install:
    found: dict[str, list[str]] = {
        "packages": [],
        "files": [],
        "indexes": list(indexes),
        "links": [],
        "editable": [],
        "constraints": [],
    }
    rest = iter(words)
    for word in rest:
        option, has_value, value = word.partition("=") if word.startswith("--") else (word, "", "")
        kind = _kind(option, tool)
        if kind == "packages":
            found["packages"].append(word)
        elif kind:
            found.setdefault(kind, []).append(value if has_value else next(rest, ""))
        elif re.match(r"-[reif].", word) and not word.startswith("--"):  # -rrequirements.txt
            found.setdefault(_kind(word[:2], tool), []).append(word[2:])
    return Install(
        tool,
        tuple(found["packages"]),
        tuple(name for name in found["files"] if name),
        tuple(found["indexes"]),
        tuple(found["constraints"]),
        bool(found["links"]),
        tuple(found["editable"]),
    )


def _kind(option: str, tool: str) -> str:
    """Say what an option's value is; "" for a flag."""
    if tool == "conda" and option in {"-f", "-c"}:
        return "files" if option == "-f" else "other"  # a channel
    if option in _VALUED:
        return _KINDS.get(option, "other")
    return "" if option.startswith("-") else "packages"
