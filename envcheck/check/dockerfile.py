"""Read a Dockerfile, and the shell commands in it."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import dropwhile
from operator import attrgetter
from typing import Any

from envcheck.check.blueprint import (
    Blueprint,
    FileError,
    Files,
    Line,
    Names,
    assignments,
    is_open,
    parse_image,
    substituted,
)
from envcheck.check.installers import find_meaning, installer_words, kind_of_value
from envcheck.check.requirement_files import (
    Stated,
    logical_lines,
    parse_environment_yml,
    read_lines,
    read_lock,
    with_index,
)
from envcheck.check.selection import Selection
from envcheck.frameworks import framework_of
from envcheck.matrix.companions import companion_row
from envcheck.model import dataclass, major, replace
from envcheck.model.versions import name_of

_PIP = re.compile(r"(?:.*/)?pip(?:\d+(?:\.\d+)?)?")
_PYTHON = re.compile(r"(?:.*/)?python(?:\d+(?:\.\d+)?)?")
_CONDA = re.compile(r"(?:.*/)?(?:conda|mamba|micromamba)")
_SHELL = re.compile(r"(?:.*/)?(?:ba|da|z|k)?sh")
_RUNS_SCRIPTS = re.compile(f"{_SHELL.pattern}|{_PYTHON.pattern}")
# Words that another command may follow, and the assignments before it.
_PREFIXES = frozenset(
    {"sudo", "exec", "time", "env", "nohup", "then", "do", "else", "elif", "if", "while", "!", "{"}
)
_ASSIGNMENT = re.compile(r"(\w+)=(.*)", re.DOTALL)
_SEPARATORS = frozenset(";&|()\n")


@dataclass
class Install:
    """One pip or conda installation: its requirements, requirement files and indexes."""

    tool: str  # pip, conda
    words: tuple[tuple[str, str], ...] = ()  # each with what it is: packages, files, indexes
    is_only_index: bool = False  # the index that it names goes before all others
    is_isolated: bool = True  # it builds sources where nothing else is installed
    is_resolved: bool = True  # with what the packages require
    is_upgrade: bool = False  # it replaces an older release that is there
    is_removal: bool = False  # it uninstalls the packages

    def list_words(self, kind: str) -> list[str]:
        """List the words of a kind."""
        return [word for each, word in self.words if each == kind]


def commands_of(text: str) -> Iterator[list[str]]:
    """Split shell text into its commands' words; a line that cannot be split yields nothing."""
    text = _without_substitutions(re.sub(r"(?m)(^|[ \t])#[^\n]*", r"\1", text))
    try:
        yield from _simple_commands(list(_split(text)))
    except ValueError:  # an open quote somewhere: take the lines one by one
        for line in text.split("\n"):
            try:
                yield from _simple_commands(list(_split(line)))
            except ValueError:  # noqa: PERF203 - only after a line that cannot be split
                continue


_KNOWN_OUTPUTS = {"uname -m": "x86_64", "arch": "x86_64", "dpkg --print-architecture": "amd64"}


def _without_substitutions(text: str) -> str:
    """Put a variable that nobody sets in place of each $(command): what it prints is not known."""
    parts, place = [], 0
    while (start := text.find("$(", place)) >= 0:
        depth, end = 1, start + 2
        while end < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        if depth:
            break
        known = _KNOWN_OUTPUTS.get(text[start + 2 : end - 1].strip(), "${OUTPUT_OF_COMMAND}")
        parts += [text[place:start], known]
        place = end
    return "".join([*parts, text[place:]])


def _split(text: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace_split, lexer.commenters, lexer.whitespace = True, "", " \t\r"
    words: list[str] = []
    for word in lexer:
        if word and set(word) <= _SEPARATORS:
            yield words
            words = []
        elif word and set(word) <= {"<", ">", "&"}:
            if words and words[-1] in {"1", "2"}:
                words.pop()
            lexer.get_token()  # what follows is a file
        else:
            words.append(word)
    yield words


def _simple_commands(commands: list[list[str]]) -> Iterator[list[str]]:
    """Look into `bash -c '…'`, and leave out what stands before a command."""
    for argv in commands:
        command = _without_prefixes(argv)
        operands = [arg for arg in command[1:] if not arg.startswith("-")]
        has_script = any(re.fullmatch(r"-\w*c", arg) for arg in command[1:])
        if command and _SHELL.fullmatch(command[0]) and has_script and operands:
            yield from commands_of(operands[0])
        elif command:
            yield command


def _without_prefixes(argv: list[str]) -> list[str]:
    """Leave out the words before a command that start it: sudo, then."""
    return [*dropwhile(_PREFIXES.__contains__, argv)]


def parse_install(argv: list[str]) -> Install | None:
    """Read `pip install …`, `python -m pip install …`, `uv pip install …` and `conda install …`."""
    variables: list[str] = []
    is_uv = False
    argv = _without_runner(argv)
    while argv and (argv[0] in _PREFIXES or argv[0] == "uv" or _ASSIGNMENT.fullmatch(argv[0])):
        assignment = _ASSIGNMENT.fullmatch(argv[0])
        if assignment and (option := find_meaning("variables", assignment[1])):
            variables += (option, assignment[2])
        is_uv |= argv[0] == "uv"
        argv = argv[1:]
    if len(argv) > 2 and _PYTHON.fullmatch(argv[0]) and argv[1] == "-m":
        argv = argv[2:]
    if len(argv) > 2 and argv[0] == "uv":  # python -m uv pip install
        is_uv, argv = True, argv[1:]
    if len(argv) < 2:
        return None
    for tool, program in (("pip", _PIP), ("conda", _CONDA)):
        for place, word in enumerate(argv[:8] if program.fullmatch(argv[0]) else ()):
            if meaning := find_meaning("commands", f"{tool} {word}"):
                install = _arguments(tool, [*variables, *argv[place + 1 :]], is_uv=is_uv)
                return replace(install, is_removal=meaning == "uninstall")
    return _parse_add(argv, variables, is_uv=is_uv)


def _parse_add(argv: list[str], variables: list[str], *, is_uv: bool) -> Install | None:
    """Read what adds packages to the environment of a project: uv add, poetry add, pixi add."""
    if argv[0] == "add" and is_uv:
        return _arguments("pip", [*variables, *argv[1:]], is_uv=True)
    if argv[:2] == ["pixi", "add"]:
        return _arguments("pip" if "--pypi" in argv else "conda", argv[2:])
    if find_meaning("commands", " ".join(argv[:2])) == "add":
        return _arguments("pip", [*variables, *argv[2:]])
    return None


_RUN = re.compile(r"(?:\S*/)?(?:conda|mamba|micromamba|poetry|pdm|pipenv|uv|pixi) run(?: .*)?")


def _without_runner(argv: list[str]) -> list[str]:
    """Leave out what runs a command in an environment: conda run -n train pip install torch."""
    for place in range(2, min(len(argv), 9)):
        is_pip = _PIP.fullmatch(argv[place]) or argv[place + 1 : place + 3] == ["-m", "pip"]
        if is_pip and _RUN.fullmatch(" ".join(argv[:place])):
            return argv[place:]
    return argv


def _arguments(tool: str, argv: list[str], *, is_uv: bool = False) -> Install:
    words: list[tuple[str, str]] = []
    rest = iter(argv)
    for arg in rest:
        option, has_value, value = arg.partition("=") if arg.startswith("--") else (arg, "", "")
        if kind := kind_of_value(option, tool):
            words.append((kind, value if has_value else next(rest, "")))
        elif re.match(r"-[reif].", arg):  # -rrequirements.txt
            words.append((kind_of_value(arg[:2], tool), arg[2:]))
        elif not arg.startswith("-"):
            words.append(("packages", arg))
    return Install(
        tool,
        tuple(word for word in words if word[1]),
        is_uv,
        "--no-build-isolation" not in argv,
        "--no-deps" not in argv,
        not {"-U", "--upgrade"}.isdisjoint(argv),
    )


_DIRECTIVE = re.compile(r"#\s*(\w+)\s*=\s*(\S+)\s*")
_HEREDOC = re.compile(r"""(?<!<)<<(?!<)(-?)\s*(["']?)([A-Za-z_]\w*)\2""")
_WITH_DOCUMENTS = frozenset({"RUN", "COPY", "ADD"})


@dataclass
class Document:
    """One here-document: the number of its first line, and its text."""

    number: int
    text: str


@dataclass
class Instruction:
    """One instruction, its continued lines joined."""

    keyword: str  # in capitals: RUN
    value: str
    number: int  # of its first line
    documents: tuple[Document, ...] = ()


def read_instructions(text: str) -> Iterator[Instruction]:
    r"""Yield the instructions as BuildKit reads them (docs.docker.com/reference/dockerfile).

    Sample: # escape=`
            FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04
            RUN pip install `
              # a comment between continued lines is left out
              torch==2.4.0
            RUN <<EOF
            pip install jax
            EOF
    """
    lines = text.lstrip("\ufeff").replace("\r\n", "\n").split("\n")
    escape, place = _escape(lines), 0
    while place < len(lines):
        start = place
        line, place = _join_lines(lines, place, escape)
        keyword, _, value = line.strip().partition(" ") if line.strip() else ("", "", "")
        keyword, value = keyword.upper(), value.strip()
        if not keyword:
            continue
        documents: tuple[Document, ...] = ()
        if keyword in _WITH_DOCUMENTS and "<<" in value:
            documents, place = _documents(lines, place, value)
        yield Instruction(keyword, value, start + 1, documents)


def _escape(lines: list[str]) -> str:
    """Return the character that continues a line.

    A directive before anything else may change it.
    """
    for line in lines:
        match = _DIRECTIVE.fullmatch(line.strip())
        if match is None:
            break
        if match[1].lower() == "escape" and match[2] in {"`", "\\"}:
            return match[2]
    return "\\"


def _join_lines(lines: list[str], place: int, escape: str) -> tuple[str, int]:
    """Join the lines of one instruction; comments and blank lines between them are left out."""
    parts: list[str] = []
    while place < len(lines):
        line = lines[place].strip() if not parts else lines[place].rstrip()
        place += 1
        if not line.strip() or line.lstrip().startswith("#"):
            if parts:
                continue
            break
        line = line.replace("\t", " ")
        if not line.endswith(escape):
            parts.append(line)
            break
        parts.append(line[:-1])
    return "".join(parts), place


def _documents(lines: list[str], place: int, value: str) -> tuple[tuple[Document, ...], int]:
    documents: list[Document] = []
    for dash, _, name in _HEREDOC.findall(value):
        start, body = place, []
        while place < len(lines):
            line = lines[place].lstrip("\t") if dash else lines[place]
            place += 1
            if line == name:
                break
            body.append(line)
        documents.append(Document(start + 1, "\n".join(body)))
    return tuple(documents), place


_SYSTEM = re.compile(r"(?:.*/)?(?:apt|apt-get|aptitude|dnf|microdnf|yum|zypper|apk)")
_CUDA = re.compile(r"\bcuda[-_]|nvidia-cuda|/cuda\b|\bcuda\b|cudnn|tensorrt", re.IGNORECASE)
_COMPILES = re.compile(r"-D\w*CUDA\w*=(?:ON|1|TRUE|YES)\b|\bnvcc\b.*\.cu\b", re.IGNORECASE)
_SETUP = re.compile(r"\bsetup\.py (?:build|install|bdist|develop)")
# Commands that install what a lock file or a project says.
_PROJECTS = re.compile(
    r"(?:poetry|pipenv|pdm) (?:install|sync)|uv sync|pixi install|conda-lock install"
)


def parse_selection(argv: list[str]) -> Selection:
    """Read which extras and groups a command installs: uv sync --extra gpu --no-dev."""
    found: dict[str, list[str]] = defaultdict(list)
    selects, rest = installer_words("selects"), iter(argv)
    for arg in rest:
        option, has_value, value = arg.partition("=")
        kinds = [kind for kind, options in selects.items() if option in options]
        if kinds:
            names = find_meaning("fixed", option) or (value if has_value else next(rest, ""))
            for kind in kinds:
                found[kind] += filter(None, re.split(r"[ ,]+", names))
    is_only = any(re.match(r"--only(?:-group)?(?:=|$)", arg) for arg in argv)
    extras, groups, excluded = map(tuple, (found[kind] for kind in selects))
    return Selection(extras, groups, excluded, is_only)


_OTHER_INSTALLER = re.compile(r"get-pip|ensurepip|\b(?:uv|pyenv|poetry|pipx|pdm)\b|conda|mamba")
_WORTH_READING = re.compile(
    r"get-pip|install|inject|uvx|--with|sync|\badd\b|wheel|nvcc|setup\.py|cuda|venv|create|update"
    r"|activate|externally|break-system|conda|pyenv"
    r"|(?:^|[;&]\s*)(?:export\s+)?\w+=|\.(?:sh|py)\b|\./|\|\s*(?:ba)?sh\b|\bmake\b",
    re.IGNORECASE,
)


def run_commands(step: Instruction) -> Iterator[tuple[list[str], int]]:
    """Yield the commands of a RUN with the lines they stand on."""
    value = re.sub(r"^(?:--\w+=\S+\s+)+", "", step.value)
    command = re.split(r"(?<!<)<<(?!<)", value)[0].strip()
    is_script = step.documents and (
        not command or re.fullmatch(r"(?:.*/)?(?:ba|da|z)?sh(?: -\w+)*", command)
    )
    if not is_script and _WORTH_READING.search(value):
        yield from ((argv, step.number) for argv in _commands(value))
    for document in step.documents if is_script else ():
        if _is_shell("", document.text) and _WORTH_READING.search(document.text):
            yield from _script_commands(document.text, document.number)


def _script_commands(text: str, first: int = 1) -> Iterator[tuple[list[str], int]]:
    """Yield the commands of a script with their lines; `first` is that of its first.

    Where a quote runs over several lines, it is read as a whole.
    """
    bare = re.sub(r"(?m)(^|[ \t])#[^\n]*", r"\1", text)
    lines = logical_lines(text)
    if bare.count("'") % 2 or bare.count('"') % 2:
        lines = iter([(1, re.sub(r"\\\n", "  ", text))])
    for number, line in lines:
        for argv in commands_of(line):
            yield argv, first + number - 1


def _commands(value: str) -> Iterator[list[str]]:
    """Split a RUN's command, which may be written as a list of words."""
    if value.startswith("["):
        with suppress(ValueError, TypeError, RecursionError):
            if argv := [str(arg) for arg in json.loads(value)]:
                return _simple_commands([argv])
    return commands_of(value)


# Programs that name CUDA and bring none of it.
_BRINGS_NO_CUDA = re.compile(
    r"(?:.*/)?(?:ln|cp|mv|rm|echo|printf|export|unset|apt-key|apt-mark|add-apt-repository|ldconfig|sed|cd"
    r"|test|\[+|ls|cat|which|mkdir|chmod|nvcc|nvidia-smi|git|set|source|\.|find|grep|for|python[\d.]*"
    r"|\w+=.*)",
    re.DOTALL,
)
_KEYRING = re.compile(r"cuda-keyring|cuda-repo|\.pub\b|nvidia-container|cuda\.list|cuda[\w-]*\.pin")
_TOOLKIT_PACKAGE = re.compile(r"cuda(?:-toolkit|-libraries|-runtime)?-(\d+)-(\d+)(?:=\S*)?")
_CUDNN_PACKAGE = re.compile(
    r"(?:lib)?cudnn(\d+)(?:-dev|-headers)?(?:-cuda-\d+)?(?:-\d+)?(?:=(\d+(?:\.\d+)+)\S*)?"
)


# What brings another Python than that of the image.
_BRINGS_PYTHON = re.compile(
    r"(?:Mini|Ana)(?:conda|forge)\d*[\w.-]*\.sh|\bpyenv (?:install|global)|\buv python install"
    r"|Mambaforge[\w.-]*\.sh|micromamba\S* (?:create|install)|\bconda create"
)
_NAMED_PYTHONS = (
    re.compile(r"\bvenv\b.*(?:--python|-p)[ =](?:python)?(3\.\d+)"),
    re.compile(r"\b(?:conda|mamba|micromamba)\b.*\b(?:create|install)\b.*\bpython=+(\d\.\d+)"),
    re.compile(r"\b(?:pyenv (?:install|global)|uv python (?:install|pin)) (?:-\w+ )*(\d\.\d+)"),
    re.compile(r"(?:^|/)python(3\.\d+) -m (?:pip|venv|uv)\b"),
    re.compile(r"(?:^|/)pip(3\.\d+) install\b"),
)
_INSTALLER_PYTHON = re.compile(r"Mini(?:conda|forge)\d-py(\d)(\d+)_")


_OLD_INSTALLER = re.compile(r"(?:Mini|Ana)(?:conda|forge)\d-\d+\.\d")


def _find_python(line: str, *, is_system: bool) -> str:
    """Return the Python that a command installs, or installs with; "" where it names none."""
    if is_system and (packaged := re.search(r"\bpython(3\.\d+)\b", line)):
        return packaged[1]
    if installer := _INSTALLER_PYTHON.search(line):
        return f"{installer[1]}.{installer[2]}"
    return next((found[1] for each in _NAMED_PYTHONS if (found := each.search(line))), "")


# Where a distribution keeps the programs of its own Python; another folder ahead of them brings
# another one.
_SYSTEM_FOLDERS = re.compile(
    r"/(?:s?bin|usr)(?:/.*)?|\$(?:PATH|\{PATH\})|.*/\.local/bin|.*(?:cuda|nvidia).*|"
)
_CONDA_DRIVER = re.compile(r"\bCONDA_OVERRIDE_CUDA=(\S+)")
_OTHER_PYTHON = re.compile(r"env\b|conda|mamba|pyenv|pixi")
_OTHER_PYTHON_FOLDER = re.compile(r"^(?!\$)[^:]*(?:conda|mamba|pyenv|miniforge)")
# What lets the system's pip install, or brings another one.
_PERMISSION = re.compile(r"EXTERNALLY-MANAGED|break[-_]system[-_]packages|pip\.conf", re.IGNORECASE)
_PIP_VARIABLES = (
    "PIP_BREAK_SYSTEM_PACKAGES",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_CONFIG_FILE",
    "PIP_PYTHON",
)
# With these options pip does not install into the Python that runs it (check_externally_managed in
# pip's install.py).
_ELSEWHERE = frozenset(
    {"-t", "--target", "--prefix", "--root", "--python", "--dry-run", "--break-system-packages"}
)


def brings_python(path: str) -> bool:
    """Return whether a value of PATH puts another Python ahead of the distribution's."""
    first = next(
        (part for part in path.split(":") if not _SYSTEM_FOLDERS.fullmatch(part) or "env" in part),
        "",
    )
    return bool(first) or bool(_OTHER_PYTHON.search(path))


def is_system_pip(argv: list[str], python: str) -> bool:
    """Return whether a command uses the pip of the distribution's Python on that Python."""
    argv = _without_prefixes(argv)
    if argv and _ASSIGNMENT.fullmatch(argv[0]):
        return False  # what it sets may be PATH, or the permission
    program = argv[0] if argv else ""
    if argv[1:3] == ["-m", "pip"]:
        program, argv = program.replace("python", "pip"), argv[2:]
    names = {
        f"{folder}pip{version}" for folder in ("", "/usr/bin/") for version in ("", "3", python)
    }
    words = {word.partition("=")[0] for word in argv}
    return program in names and "install" in argv[1:3] and not words & _ELSEWHERE


# What is copied from another stage with its Python packages inside.
_ENVIRONMENT = re.compile(
    r".*(?:venv|/env\b|site-packages|dist-packages|\.local|conda|wheel).*|/(?:usr/local|opt|app)?(?:/lib)?/?"
)
_PYTHON_FOLDER = re.compile(r"python|env\b|conda|^/(?:usr(?:/local)?/?)?$|/bin/?$")
_CUDA_FOLDER = re.compile(r"cuda|cudnn|/usr/(?:local/)?lib")
_LOADER_PATH = "LD_LIBRARY_PATH"


# What names a package index for all commands.
_SETS_INDEX = re.compile(
    r"(?:PIP|UV)_\w*(?:INDEX|LINKS|CONFIG|BACKEND)|pip\.conf|pip[\d.]* config|uv\.toml"
)


class Stage:
    """One FROM with what its instructions say; it starts as its parent ended."""

    def __init__(self, name: str, blueprint: Blueprint, files: Files) -> None:
        self.name, self.blueprint = name, blueprint
        self.location = ""  # of the instruction, or the line of a script, that is read
        self.variables: dict[str, str] = {}
        self.environment: set[str] = set()  # variables that no ARG changes
        self.defaults: dict[str, str] = {}  # of the ARGs before the first FROM
        self.arguments: dict[str, str] = {}  # what the build gives for ARGs
        self.helpers: list[Stage] = []
        self.environment_sources: list[Stage] = []  # helpers whose environment is copied
        self.copies: dict[str, str] = {}  # path in the image -> path here
        self.generated: dict[str, tuple[str, str]] = {}  # by here-documents
        self.files = replace(files, names=self._names, generated=self.generated)
        # Another Python, or a permission, that makes pip install although the distribution's Python
        # refuses.
        self.has_own_python = False
        self.sets_index = not blueprint.image.source  # or its image may: pip asks another one

    def start_from(self, parent: Stage) -> None:
        """Begin with what another stage ended with."""
        for name in ("variables", "environment", "copies", "generated"):
            getattr(self, name).update(getattr(parent, name))
        self.helpers += parent.helpers
        self.environment_sources += parent.environment_sources
        self.has_own_python = parent.has_own_python
        self.sets_index |= parent.sets_index

    def take(self, item: Instruction, stages: list[Stage]) -> None:
        """Read one instruction; `stages` are those before and this one."""
        self.location = f"{self.blueprint.path}:{item.number}"
        texts = (item.value, *(document.text for document in item.documents))
        if any(_LOADER_PATH in text for text in texts):
            self._keep(loader_path=self._line(f"{_LOADER_PATH} is set"))
        self.sets_index |= any(map(_SETS_INDEX.search, texts))
        if item.keyword == "ENV":
            self._environment(item)
        elif item.keyword == "ARG":
            self._argument(item)
        elif item.keyword in {"COPY", "ADD"}:
            self._copy(item, stages[:-1])
        elif item.keyword == "RUN":
            self._run(item)
        elif item.keyword == "SHELL":
            self.has_own_python |= bool(_OTHER_PYTHON.search(item.value))

    def _line(self, text: str) -> Line:
        return Line(text, self.location)

    def _keep(self, **said: Any) -> None:
        """Keep what is said in these fields, in place of what was said before."""
        self.blueprint = replace(self.blueprint, **said)

    def _add(self, **lines: Iterable[Line]) -> None:
        """Add lines to those of these fields."""
        self.blueprint = self.blueprint.plus(**lines)

    def _leave_open(self, sentence: str) -> None:
        self._add(gaps=[self._line(sentence)])

    def _environment(self, item: Instruction) -> None:
        for name, value in assignments(item.value):
            filled = substituted(value, self.variables)
            self.variables[name] = filled
            self.environment.add(name)
            self._add(variables=[self._line(f"{name}={filled}")])
            self.has_own_python |= name == "PATH" and brings_python(filled)
            if name == "PATH" and _OTHER_PYTHON_FOLDER.search(filled):
                self._keep(own_python=True)
            if name == "UV_PYTHON" and re.fullmatch(r"3\.\d+", filled):
                self._keep(python=self._line(filled), own_python=True)
            if name == "NVIDIA_VISIBLE_DEVICES" and value not in {"", "void", "none"}:
                self._keep(asks_gpu=self._line(f"{name}={value}"))

    def _argument(self, item: Instruction) -> None:
        pairs = dict(assignments(item.value)) if "=" in item.value else {}
        names = [
            name
            for name in (word.partition("=")[0] for word in item.value.split())
            if name.isidentifier()
        ]
        for name in dict.fromkeys((*pairs, *names)):
            value = {**self.defaults, **pairs, **self.arguments}.get(name)
            if value is not None and name not in self.environment:
                self.variables[name] = substituted(value, self.variables)

    def _copy(self, item: Instruction, stages: list[Stage]) -> None:
        argv = [arg.strip('"[],') for arg in substituted(item.value, self.variables).split()]
        origin = next((arg.partition("=")[2] for arg in argv if arg.startswith("--from=")), "")
        paths = [arg for arg in argv if arg and not arg.startswith("--")]
        if not paths:
            return
        self.has_own_python |= any(_PERMISSION.search(path) for path in paths)
        if origin:
            self._from(origin, paths, stages)
            return
        for document in item.documents:
            content = "\n" * (document.number - 1) + document.text
            self.generated[paths[-1]] = (self.blueprint.path, content)
        for source in paths[:-1] if not item.documents else ():
            self._put(source, paths[-1], is_multiple=len(paths) > 2)

    def _put(self, source: str, target: str, *, is_multiple: bool = False) -> None:
        into_folder = is_multiple or target.endswith(("/", "."))
        path = posixpath.normpath(target)
        self.copies[path] = source
        if into_folder:
            self.copies[posixpath.join(path, posixpath.basename(source))] = source

    def _from(self, origin: str, paths: list[str], stages: list[Stage]) -> None:
        by_name = {str(number): stage for number, stage in enumerate(stages)}
        by_name.update((stage.name, stage) for stage in stages)
        helper = by_name.get(origin.lower())
        if helper is not None and helper not in self.helpers:
            self.helpers.append(helper)
        if helper is not None and any(_ENVIRONMENT.fullmatch(path) for path in paths[:-1]):
            self.environment_sources.append(helper)
        self.has_own_python |= any(map(_PYTHON_FOLDER.search, paths))
        if any(map(_CUDA_FOLDER.search, paths)):
            self._add(cuda_steps=[self._line(f"COPY --from={origin} {' '.join(paths)}"[:80])])

    def _run(self, item: Instruction) -> None:
        mounts = re.match(r"(?:--\w+=\S+\s+)+", item.value)
        for mount in re.findall(r"--mount=(\S+)", mounts[0]) if mounts else ():
            named = re.sub(r"\b(?:dst|destination)=", "target=", mount)
            given = dict(part.partition("=")[::2] for part in named.split(","))
            target = given.get("target")
            if given.get("type", "bind") == "bind" and target:
                self._put(given.get("source") or given.get("src") or target, target)
        self._execute(self.blueprint.path, run_commands(item))

    def _execute(
        self, path: str, commands: Iterable[tuple[list[str], int]], depth: int = 0
    ) -> None:
        """Read the commands of one shell, each with its line in the file."""
        is_activated, variables = False, dict(self.variables)
        for argv, number in commands:
            command = _fill_in(argv, variables)
            variables.update(_list_assignments(command))
            is_activated |= command[0] in {".", "source", "conda"} or any(
                arg.startswith("PATH=") for arg in command
            )
            self.location = f"{path}:{number}"
            if not is_activated:
                self._check_refusal(command, variables)
            self._command(command, depth)

    def _check_refusal(self, argv: list[str], variables: Mapping[str, str]) -> None:
        """Note an installation by the distribution's pip where its Python refuses it."""
        line, blueprint = " ".join(argv), self.blueprint
        image, python = blueprint.image, blueprint.python
        if not image.refuses_pip or self.has_own_python or blueprint.own_pip:
            return
        if is_system_pip(argv, image.python):
            is_other = python is not None and python.text != image.python
            if not is_other and not any(variables.get(name) for name in _PIP_VARIABLES):
                self._add(refused=[self._line(line[:80])])
        elif _PERMISSION.search(line):
            self.has_own_python = True

    def _command(self, argv: list[str], depth: int = 0) -> None:
        before, line = self.blueprint, " ".join(argv)[:60]
        self._add_command(argv)
        is_unread = _list_contents(self.blueprint) == _list_contents(before)
        if is_unread and (name := _find_unread_name(argv)):
            self._leave_open(f"`{line}` was not read: it names {name}.")
        if script := _find_script(argv):
            self._read_script(script, line.strip(), depth)
        named = {
            self.variables[name]: option
            for option, names in installer_words("variables").items()
            for name in names
            if name in self.variables
        }
        is_only = bool(set(named.values()) - {"--extra-index-url"})
        kept, count = self.blueprint.requirements, len(before.requirements)
        indexed = with_index(named, kept[count:], is_only=is_only)
        self._keep(requirements=kept[:count] + indexed)

    def _read_script(self, name: str, line: str, depth: int) -> None:
        """Read a shell script of the build context; what is not there, or no shell's, is listed."""
        found = self.files.find(name)
        if found is None or depth >= _MAX_SCRIPTS or not _is_shell(*found):
            self._leave_open(f"`{line}` was not read: it may install packages.")
            return
        self._execute(found[0], _script_commands(found[1]), depth + 1)

    def _add_command(self, argv: list[str]) -> None:
        """Add what one command says."""
        line = " ".join(argv)
        shown, install = self._line(line[:80]), parse_install(argv)
        is_system = _SYSTEM.fullmatch(argv[0]) is not None and "install" in argv[:6]
        if _COMPILES.search(line):
            self._add(compiles=[shown])
        elif _SETUP.search(line):
            self._add(may_compile=[shown])
        # pip brings wheels, not the system's CUDA
        is_pip = install is not None and install.tool == "pip"
        if _CUDA.search(line) and not _COMPILES.search(line) and not is_pip:
            self._add_cuda(argv, is_system=is_system)
        if is_system and re.search(r"\bpython3?-pip\b", line):
            self._keep(pip=shown)
        if _OTHER_INSTALLER.search(line):
            self._keep(own_pip=True)
        if python := _find_python(line, is_system=is_system):
            self._keep(python=self._line(python))
        driver = _CONDA_DRIVER.search(line)
        stated = driver[1] if driver else self.variables.get("CONDA_OVERRIDE_CUDA", "")
        self._keep(conda_driver=major(stated) or self.blueprint.conda_driver)
        if _BRINGS_PYTHON.search(line):
            is_old = self.blueprint.old_installer or _OLD_INSTALLER.search(line) is not None
            self._keep(own_python=True, old_installer=is_old)
        names_packages = install is not None and install.list_words("packages")
        if not names_packages and (project := _PROJECTS.search(line)):
            self._add_project(installer_words("locks")[project[0].split()[0]], argv)
        if install is not None:
            self._add_install(install)

    def _add_cuda(self, argv: list[str], *, is_system: bool) -> None:
        """Add what a command brings of CUDA.

        The system's packages by their names, the rest unread.
        """
        line = " ".join(argv)
        if _BRINGS_NO_CUDA.fullmatch(argv[0]) or _KEYRING.search(line):
            return
        found: dict[str, Line] = {}
        for name in filter(_CUDA.search, argv):
            toolkit, cudnn = _TOOLKIT_PACKAGE.fullmatch(name), _CUDNN_PACKAGE.fullmatch(name)
            if is_system and toolkit:
                found.setdefault("toolkit", self._line(f"{toolkit[1]}.{toolkit[2]}"))
            elif is_system and cudnn:
                found.setdefault("cudnn", self._line(cudnn[2] or cudnn[1]))
            else:
                self._add(cuda_steps=[self._line(line[:80])])
                return
        self._keep(**found)

    def _add_install(self, install: Install) -> None:
        if install.tool == "conda":
            self._add_conda(install)
            return
        urls = (*install.list_words("indexes"), *install.list_words("extra_indexes"))
        index = next((url for url in urls if is_open(url.rpartition("/")[2])), "")
        if index:
            unknown = "is unknown until the build, so what comes from it is not judged."
            self._leave_open(f"The index {index} {unknown}")
        stated: list[Stated] = []
        for kind, text in install.words:
            is_unknown = is_open(text)
            if is_unknown and kind in {"packages", "editable"}:
                self._leave_open(f"{text} is unknown until the build, so it is not judged.")
            line = replace(self._line(text), is_resolved=install.is_resolved)
            stated.append((kind, replace(line, is_open=bool(index) or is_unknown)))
        found = read_lines(stated, self.files, self.files, set(), is_only=install.is_only_index)
        names = ("is_isolated", "is_resolved", "is_upgrade")
        flags = {name: getattr(install, name) for name in names}
        flags["is_on_default"] = not (self.sets_index or urls or found.indexes)
        command = self.blueprint.next_command
        added = [replace(line, command=command, **flags) for line in found.requirements]
        if install.is_removal:
            self._add(removals=added)
        else:
            bounds = [replace(line, command=command) for line in found.bounds]
            self._add(
                requirements=added,
                bounds=bounds,
                compiles=found.compiles,
                may_compile=found.may_compile,
                gaps=found.gaps,
            )

    def _add_conda(self, install: Install) -> None:
        named = install.list_words("packages")
        if install.is_removal:
            kept = self.blueprint.conda
            self._keep(conda=tuple(line for line in kept if line.spec[0] not in named))
            return
        links = " ".join(install.list_words("links"))
        self._add(conda=[replace(self._line(text), links=links) for text in named])
        for name in install.list_words("files"):
            if found := self.files.find(name):
                self._add_contents(partial(parse_environment_yml, found[1], found[0], self.files))
            else:
                self._leave_open(f"{name} was not found, so what it installs is not judged.")

    def _add_project(self, names: Names, argv: list[str]) -> None:
        """Add what a project's lock file pins, or its pyproject.toml asks for."""
        found = next(filter(None, map(self.files.find, names)), None)
        if found is None:
            unread = "installs from the project's own files, which are not judged."
            self._leave_open(f"`{' '.join(argv)[:60]}` {unread}")
        else:
            self._keep(own_pip=True)
            self._add_contents(partial(read_lock, found[1], found[0], parse_selection(argv)))

    def _add_contents(self, read: Callable[[], Blueprint]) -> None:
        """Add what the file named by an installation step installs."""
        try:
            inner = read()
        except FileError as error:
            self._leave_open(f"{error}.")
            return
        command = self.blueprint.next_command
        lines, bounds = (
            [replace(item, command=command) for item in each]
            for each in (inner.requirements, inner.bounds)
        )
        self._add(conda=inner.conda, requirements=lines, bounds=bounds, gaps=inner.gaps)
        self._keep(python=inner.python or self.blueprint.python)

    def _names(self, name: str) -> Names:
        """Say what a file of the image may be called here.

        Where it was copied from, or its last parts.
        """
        parts = [part for part in posixpath.normpath(name).split("/") if part not in {"", "."}]
        aliases: list[str] = []
        for length in range(len(parts), 0, -1):
            inside, rest = "/".join(parts[:length]), "/".join(parts[length:])
            source = self.copies.get(f"/{inside}") or self.copies.get(inside)
            aliases += [posixpath.join(source, rest).rstrip("/")] if source else []
        aliases += ["/".join(parts[length:]) for length in range(len(parts))]
        return tuple(dict.fromkeys(alias.lstrip("/") for alias in aliases if alias))


# What commands put into an environment, and what of them was not read.
_list_contents = attrgetter("requirements", "removals", "conda", "compiles", "cuda_steps", "gaps")


_BY_ANOTHER = frozenset({"install", "add", "inject", "easy_install", "uvx", "--with"})


def _find_unread_name(argv: list[str]) -> str:
    """Return the framework that another installer than those that are read is asked for."""
    if _BRINGS_NO_CUDA.fullmatch(argv[0]) or _BY_ANOTHER.isdisjoint(argv):
        return ""
    names = (re.sub("^python3?-", "", name_of(word)) for word in argv[1:])
    return next((name for name in names if framework_of(name) or companion_row(name).releases), "")


_MAX_SCRIPTS = 4  # scripts that call each other
_SCRIPT = re.compile(r"(?:\./|/|[\w.-]+/)?[\w./${}-]*\.(?:sh|bash|py)|\./[\w./-]+")


def _find_script(argv: list[str]) -> str:
    """Return the script that a command runs; "" where it names none."""
    argv = [*dropwhile(lambda word: word in _PREFIXES or _ASSIGNMENT.fullmatch(word), argv)]
    if not argv:
        return ""
    if _SCRIPT.fullmatch(argv[0]) and not argv[0].endswith(("get-pip.py", "setup.py")):
        return argv[0]
    name = argv[1] if len(argv) > 1 else ""
    if argv[0] not in {"source", "."} and not _RUNS_SCRIPTS.fullmatch(argv[0]):
        return ""
    is_script = _SCRIPT.fullmatch(name) and not name.startswith("-")
    return name if is_script and not re.search(_KNOWN_SCRIPTS, name) else ""


# Scripts that bring an installer, or what a command's words say already.
_KNOWN_SCRIPTS = (
    r"(?:get-pip|setup)\.py$|(?:mini|ana)(?:conda|forge)|mambaforge"
    r"|profile\.d|nvm\.sh|conda\.sh|activate"
)


def _is_shell(path: str, text: str) -> bool:
    return not path.endswith(".py") and not re.match(r"#!(?!.*sh\b)", text)


def _fill_in(argv: list[str], variables: Mapping[str, str]) -> list[str]:
    """Fill in variables; one that stands for itself may be several words: $PIP_INSTALL torch."""
    filled: list[str] = []
    for arg in argv:
        text = substituted(arg, variables)
        filled += text.split() if arg.startswith("$") and text != arg else [text]
    return filled or [""]


def _list_assignments(argv: list[str]) -> dict[str, str]:
    """List the variables that a command sets for those after it: A=1, export A=1, for A in 1 2."""
    if argv[0] == "for" and argv[2:3] == ["in"]:
        return {argv[1]: " ".join(argv[3:])}
    pairs = [_ASSIGNMENT.fullmatch(arg) for arg in (argv[1:] if argv[0] == "export" else argv)]
    return {match[1]: match[2] for match in pairs if match} if all(pairs) else {}


def parse_dockerfile(
    text: str, path: str, files: Files, arguments: Mapping[str, str] | None = None, target: str = ""
) -> tuple[Blueprint, ...]:
    """Read a Dockerfile's last stage, or `target`, and those it copies from.

    `arguments` are for ARG.

    Sample: FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04
            RUN pip install torch==2.4.0
    """
    stages = _stages(text, path, files, dict(arguments or {}))
    if not stages:
        raise FileError(f"{path} has no FROM instruction: it is not a Dockerfile")
    final = next((stage for stage in stages if target and stage.name == target.lower()), stages[-1])
    helpers = list(final.helpers)
    for helper in helpers:  # grows while it is walked: what a helper copies from counts too
        helpers += [nested for nested in helper.helpers if nested not in helpers]
    blueprint = final.blueprint
    for helper in helpers:
        if helper in final.environment_sources:
            blueprint = _with_environment(blueprint, helper.blueprint)
    return (blueprint, *(replace(helper.blueprint, kind="stage") for helper in helpers))


def _with_environment(blueprint: Blueprint, helper: Blueprint) -> Blueprint:
    """Add what a copied environment holds; it runs on the last stage's image."""
    first = blueprint.next_command
    copied, removals = (
        [replace(line, command=line.command + first) for line in lines]
        for lines in (helper.requirements, helper.removals)
    )
    grown = blueprint.plus(
        requirements=copied, removals=removals, gaps=helper.gaps, inherited=copied
    )
    return replace(grown, python=blueprint.python or helper.python)


# What BuildKit sets on the platform that is assumed where none is named.
_PLATFORM = {
    f"{of}{name}": value
    for of in ("TARGET", "BUILD")
    for name, value in (("PLATFORM", "linux/amd64"), ("OS", "linux"), ("ARCH", "amd64"))
}


def _stages(text: str, path: str, files: Files, arguments: dict[str, str]) -> list[Stage]:
    stages: list[Stage] = []
    defaults: dict[str, str] = dict(_PLATFORM)
    for item in read_instructions(text):
        if item.keyword == "FROM":
            stages.append(_stage(item, path, files, stages, {**defaults, **arguments}))
            stages[-1].defaults, stages[-1].arguments = defaults, arguments
        elif stages:
            stages[-1].take(item, stages)
        elif item.keyword == "ARG":
            defaults |= {
                name: substituted(default, defaults) for name, default in assignments(item.value)
            }
    return stages


def _stage(
    item: Instruction, path: str, files: Files, stages: list[Stage], variables: dict[str, str]
) -> Stage:
    argv = substituted(item.value, variables).split()
    platform = next((arg.partition("=")[2] for arg in argv if arg.startswith("--platform=")), "")
    argv = [arg for arg in argv if not arg.startswith("--")]
    reference = argv[0] if argv else ""
    name = argv[2].lower() if len(argv) > 2 and argv[1].lower() == "as" else ""
    parent = {stage.name: stage for stage in stages if stage.name}.get(reference.lower())
    location = f"{path}:{item.number}"
    if not reference:
        raise FileError(f"{location}: FROM names no image")
    blueprint = parent.blueprint if parent else None
    blueprint = blueprint or Blueprint(path, "Dockerfile", parse_image(reference, location))
    stage = Stage(name, replace(blueprint, platform=platform or blueprint.platform), files)
    if parent is not None:
        stage.start_from(parent)
    return stage
