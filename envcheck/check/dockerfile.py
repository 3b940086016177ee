"""Read a Dockerfile, and the shell commands in it."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace

from envcheck.check.blueprint import Blueprint, FileError, Files, Line, assignments, is_open, parse_image, substituted
from envcheck.check.requirement_files import bound_to, constrained, parse_environment_yml, parse_requirements
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


_DIRECTIVE = re.compile(r"#\s*(\w+)\s*=\s*(\S+)\s*")
_HEREDOC = re.compile(r"""(?<!<)<<(?!<)(-?)\s*(["']?)([A-Za-z_]\w*)\2""")
_WITH_DOCUMENTS = frozenset({"RUN", "COPY", "ADD"})


@dataclass(frozen=True)
class Document:
    """One here-document: the number of its first line, and its text."""

    number: int
    text: str


@dataclass(frozen=True)
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
        held, place = _continued(lines, place, escape)
        keyword, _, value = held.strip().partition(" ") if held.strip() else ("", "", "")
        keyword, value = keyword.upper(), value.strip()
        if not keyword:
            continue
        documents: tuple[Document, ...] = ()
        if keyword in _WITH_DOCUMENTS and "<<" in value:
            documents, place = _documents(lines, place, value)
        yield Instruction(keyword, value, start + 1, documents)


def _escape(lines: list[str]) -> str:
    """Return the character that continues a line: a directive before anything else may change it."""
    for line in lines:
        found = _DIRECTIVE.fullmatch(line.strip())
        if found is None:
            break
        if found[1].lower() == "escape" and found[2] in {"`", "\\"}:
            return found[2]
    return "\\"


def _continued(lines: list[str], place: int, escape: str) -> tuple[str, int]:
    """Join the lines of one instruction; comments and blank lines between them are left out."""
    held: list[str] = []
    while place < len(lines):
        line = lines[place].strip() if not held else lines[place].rstrip()
        place += 1
        if not line.strip() or line.lstrip().startswith("#"):
            if held:
                continue
            break
        line = line.replace("\t", " ")
        if not line.endswith(escape):
            held.append(line)
            break
        held.append(line[:-1])
    return "".join(held), place


def _documents(lines: list[str], place: int, value: str) -> tuple[tuple[Document, ...], int]:
    found: list[Document] = []
    for dash, _, name in _HEREDOC.findall(value):
        start, body = place, []
        while place < len(lines):
            line = lines[place].lstrip("\t") if dash else lines[place]
            place += 1
            if line == name:
                break
            body.append(line)
        found.append(Document(start + 1, "\n".join(body)))
    return tuple(found), place


_SYSTEM = re.compile(r"(?:.*/)?(?:apt|apt-get|aptitude|dnf|microdnf|yum|zypper|apk)")
_CUDA = re.compile(r"\bcuda[-_]|nvidia-cuda|/cuda\b|\bcuda\b|cudnn|tensorrt", re.IGNORECASE)
_COMPILES = re.compile(r"-D\w*CUDA\w*=(?:ON|1|TRUE|YES)\b|\bnvcc\b.*\.cu\b", re.IGNORECASE)
_SETUP = re.compile(r"\bsetup\.py (?:build|install|bdist|develop)")
# Tools that install what a lock file or a project says, which is not read.
_PROJECTS = re.compile(r"(?:poetry|pipenv|pdm) (?:install|sync)|uv sync|pixi install|conda-lock install")
_OTHER_INSTALLER = re.compile(r"get-pip|ensurepip|\b(?:uv|pyenv|poetry|pipx|pdm)\b|conda|mamba")
_WORTH_READING = re.compile(r"get-pip|install|sync|wheel|nvcc|setup\.py|cuda|venv|create|update", re.IGNORECASE)


def run_commands(step: Instruction) -> Iterator[tuple[list[str], int]]:
    """Yield the commands of a RUN with the lines they stand on."""
    value = re.sub(r"^(?:--\w+=\S+\s+)+", "", step.value)
    before = re.split(r"(?<!<)<<(?!<)", value)[0].strip()
    is_script = step.documents and (not before or re.fullmatch(r"(?:.*/)?(?:ba|da|z)?sh(?: -\w+)*", before))
    if not is_script and _WORTH_READING.search(value):
        yield from ((words, step.number) for words in _commands(value))
    for document in step.documents if is_script else ():
        if re.match(r"#!(?!.*sh\b)", document.text):
            continue  # a script of another language
        joined = re.sub(r"\\\n", lambda _: "  ", document.text)
        for offset, line in _numbered(document.text) if joined == document.text else ((0, joined),):
            if _WORTH_READING.search(line):
                yield from ((words, document.number + offset) for words in commands_of(line))


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    """Yield a script by its lines, or whole where a quote runs over several."""
    bare = re.sub(r"(?m)(^|[ \t])#[^\n]*", r"\1", text)
    if bare.count("'") % 2 or bare.count('"') % 2:
        yield 0, text
    else:
        yield from enumerate(text.split("\n"))


def _commands(value: str) -> Iterator[list[str]]:
    if value.startswith("["):
        try:
            words = [str(word) for word in json.loads(value)]
        except (ValueError, TypeError, RecursionError):
            words = []
        if words:
            script = shell_of(words)
            yield from commands_of(script) if script else (words,)
            return
    yield from commands_of(value)


def take_command(blueprint: Blueprint, words: list[str], where: str, files: Files) -> Blueprint:
    """Add what one command says; `files` are those it may name."""
    line = " ".join(words)
    if _COMPILES.search(line):
        blueprint = replace(blueprint, compiles=(*blueprint.compiles, Line(line[:80], where)))
    elif _SETUP.search(line):
        blueprint = replace(blueprint, may_compile=(*blueprint.may_compile, Line(line[:80], where)))
    installs = words and _SYSTEM.fullmatch(words[0]) and "install" in words[:6]
    if _CUDA.search(line) and not _COMPILES.search(line):
        blueprint = replace(blueprint, added=(*blueprint.added, Line(line[:80], where)))
    if installs and re.search(r"\bpython3?-pip\b", line):
        blueprint = replace(blueprint, pip=Line(line[:80], where))
    if _OTHER_INSTALLER.search(line):
        blueprint = replace(blueprint, own_pip=True)
    python = re.search(r"\bpython(3\.\d+)\b", line) if installs else None
    python = python or re.search(r"\bvenv\b.*(?:--python|-p)[ =](?:python)?(3\.\d+)", line)
    if python:
        blueprint = replace(blueprint, python=Line(python[1], where))
    if _PROJECTS.search(line):
        said = f"`{line[:60]}` installs what the project's own files say, which is not judged."
        blueprint = replace(blueprint, unread=(*blueprint.unread, Line(said, where)))
    found = install_of(words)
    return _installed(blueprint, found, where, files) if found is not None else blueprint


def _installed(blueprint: Blueprint, install: Install, where: str, files: Files) -> Blueprint:
    lines = tuple(Line(text, where, links=install.links) for text in install.packages)
    if install.tool == "conda":
        blueprint = replace(blueprint, conda=blueprint.conda + lines)
        for name in install.files:
            blueprint = _conda_file(blueprint, name, where, files)
        return blueprint
    opened = [line for line in lines if is_open(line.text)]
    projects = [name for name in (*install.editable, *install.packages) if name.startswith((".", "/", "git+"))]
    said = [f"{line.text} is not known before the build, so it is not judged." for line in opened]
    said += [f"{name} is a project of its own: what it depends on is not judged." for name in projects]
    wanted = lines
    for name in install.files:
        inner = files.find(name)
        if inner is None:
            said.append(f"{name} is not beside the file, so what it installs is not judged.")
            continue
        read = parse_requirements(inner[1], inner[0], files)
        wanted += read.requirements
        said += [line.text for line in read.unread]
    for name in install.constraints:
        inner = files.find(name)
        if inner is None:
            said.append(f"{name} is not beside the file, so the releases that it chooses are not judged.")
        wanted = constrained(wanted, inner[1] if inner else "")
    return replace(
        blueprint,
        requirements=blueprint.requirements + bound_to(install.indexes, wanted),
        unread=blueprint.unread + tuple(Line(text, where) for text in said),
    )


def _conda_file(blueprint: Blueprint, name: str, where: str, files: Files) -> Blueprint:
    inner = files.find(name)
    if inner is None:
        said = Line(f"{name} is not beside the file, so what it installs is not judged.", where)
        return replace(blueprint, unread=(*blueprint.unread, said))
    try:
        other = parse_environment_yml(inner[1], inner[0], files)
    except FileError as error:
        return replace(blueprint, unread=(*blueprint.unread, Line(f"{error}.", where)))
    return replace(
        blueprint,
        conda=blueprint.conda + other.conda,
        python=other.python or blueprint.python,
        requirements=blueprint.requirements + other.requirements,
        unread=blueprint.unread + other.unread,
    )


# What is copied from another stage with its Python packages inside.
_ENVIRONMENT = re.compile(
    r".*(?:venv|/env\b|site-packages|dist-packages|\.local|conda|wheel).*|/(?:usr/local|opt|app)?(?:/lib)?/?"
)
_LOADER_PATH = "LD_LIBRARY_PATH"
_INDEX_NAMES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX")


class Stage:
    """One FROM with what its instructions say; it starts as its parent ended."""

    def __init__(self, name: str, blueprint: Blueprint, files: Files, parent: Stage | None = None) -> None:
        self.name, self.blueprint, self.files = name, blueprint, files
        self.variables: dict[str, str] = dict(parent.variables) if parent else {}
        self.defaults: dict[str, str] = {}  # of the ARGs before the first FROM
        self.arguments: dict[str, str] = {}  # what the build gives for ARGs
        self.helpers: list[Stage] = list(parent.helpers) if parent else []
        self.inherited: list[Stage] = list(parent.inherited) if parent else []  # helpers whose environment is copied
        self.copied: dict[str, str] = dict(parent.copied) if parent else {}  # path in the image -> path here
        self.written: dict[str, tuple[str, str]] = dict(parent.written) if parent else {}  # by here-documents

    def take(self, item: Instruction, stages: list[Stage]) -> None:
        """Read one instruction; `stages` are those before and this one."""
        if any(_LOADER_PATH in text for text in (item.value, *(document.text for document in item.documents))):
            line = Line(f"{_LOADER_PATH} is set", self._where(item.number))
            self.blueprint = replace(self.blueprint, loader_path=line)
        if item.keyword == "ENV":
            self._environment(item)
        elif item.keyword == "ARG":
            self._argument(item)
        elif item.keyword in {"COPY", "ADD"}:
            self._copy(item, stages[:-1])
        elif item.keyword == "RUN":
            self._run(item)

    def _where(self, number: int) -> str:
        return f"{self.blueprint.path}:{number}"

    def _environment(self, item: Instruction) -> None:
        for name, said in assignments(item.value):
            self.variables[name] = substituted(said, self.variables)
            if name == "TORCH_CUDA_ARCH_LIST":
                line = Line("TORCH_CUDA_ARCH_LIST is set", self._where(item.number))
                self.blueprint = replace(self.blueprint, compiles=(*self.blueprint.compiles, line))
            if name == "NVIDIA_VISIBLE_DEVICES" and said not in {"", "void", "none"}:
                line = Line(f"{name}={said}", self._where(item.number))
                self.blueprint = replace(self.blueprint, wants_gpu=line)

    def _argument(self, item: Instruction) -> None:
        names = dict(assignments(item.value)) or {name: "" for name in item.value.split() if name.isidentifier()}
        for name, said in names.items():
            given = self.arguments.get(name, "") or substituted(said, self.variables) or self.defaults.get(name, "")
            if given:
                self.variables.setdefault(name, given)

    def _copy(self, item: Instruction, before: list[Stage]) -> None:
        words = [word.strip('"[],') for word in substituted(item.value, self.variables).split()]
        origin = next((word.partition("=")[2] for word in words if word.startswith("--from=")), "")
        paths = [word for word in words if word and not word.startswith("--")]
        if origin:
            self._from(origin, paths, before, self._where(item.number))
            return
        for document in item.documents:
            padded = "\n" * (document.number - 1) + document.text
            self.written[paths[-1]] = (self.blueprint.path, padded)
        for source in paths[:-1] if not item.documents else ():
            self._put(source, paths[-1], several=len(paths) > 2)

    def _put(self, source: str, target: str, *, several: bool = False) -> None:
        into_folder = several or target.endswith(("/", "."))
        whole = posixpath.normpath(target)
        self.copied[whole] = source
        if into_folder:
            self.copied[posixpath.join(whole, posixpath.basename(source))] = source

    def _from(self, origin: str, paths: list[str], before: list[Stage], where: str) -> None:
        numbered = int(origin) if origin.isdecimal() and len(origin) < 4 else -1
        helper = next((stage for stage in reversed(before) if stage.name == origin.lower()), None)
        helper = before[numbered] if helper is None and 0 <= numbered < len(before) else helper
        if helper is not None and helper not in self.helpers:
            self.helpers.append(helper)
        if helper is not None and any(_ENVIRONMENT.fullmatch(path) for path in paths[:-1]):
            self.inherited.append(helper)
        if any(re.search(r"cuda|cudnn|/usr/(?:local/)?lib", path) for path in paths):
            line = Line(f"COPY --from={origin} {' '.join(paths)}"[:80], where)
            self.blueprint = replace(self.blueprint, added=(*self.blueprint.added, line))

    def _run(self, item: Instruction) -> None:
        mounted = re.match(r"(?:--\w+=\S+\s+)+", item.value)
        for mount in re.findall(r"--mount=(\S+)", mounted[0]) if mounted else ():
            given = dict(part.partition("=")[::2] for part in mount.split(","))
            target = given.get("target") or given.get("dst") or given.get("destination")
            if given.get("type", "bind") == "bind" and target:
                self._put(given.get("source") or given.get("src") or target, target)
        for words, number in run_commands(item):
            filled = [substituted(word, self.variables) for word in words]
            self._command(filled, self._where(number))

    def _command(self, words: list[str], where: str) -> None:
        known = len(self.blueprint.requirements)
        files = replace(self.files, names=self._names, written=self.written)
        self.blueprint = take_command(self.blueprint, words, where, files)
        indexes = [self.variables[name] for name in _INDEX_NAMES if name in self.variables]
        before, added = self.blueprint.requirements[:known], self.blueprint.requirements[known:]
        self.blueprint = replace(self.blueprint, requirements=before + bound_to(indexes, added))

    def _names(self, name: str) -> tuple[str, ...]:
        """Say what a file of the image may be called here: where it was copied from, or its last parts."""
        parts = [part for part in posixpath.normpath(name).split("/") if part not in {"", "."}]
        called: list[str] = []
        for cut in range(len(parts), 0, -1):
            inside, rest = "/".join(parts[:cut]), "/".join(parts[cut:])
            known = self.copied.get(f"/{inside}") or self.copied.get(inside)
            called += [posixpath.join(known, rest).rstrip("/")] if known else []
        called += ["/".join(parts[cut:]) for cut in range(len(parts))]
        return tuple(dict.fromkeys(one.lstrip("/") for one in called if one))


def parse_dockerfile(
    text: str, path: str, files: Files, arguments: Mapping[str, str] | None = None, target: str = ""
) -> tuple[Blueprint, ...]:
    """Read a Dockerfile: the stage it ends with, or `target`, then those it copies from; `arguments` are for ARG.

    Sample: FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04
            RUN pip install torch==2.4.0
    """
    stages = _stages(text, path, files, dict(arguments or {}))
    if not stages:
        raise FileError(f"{path} has no FROM instruction: it is no Dockerfile")
    last = next((stage for stage in stages if target and stage.name == target.lower()), stages[-1])
    helpers = list(last.helpers)
    for helper in helpers:  # grows while it is walked: what a helper copies from counts too
        helpers += [other for other in helper.helpers if other not in helpers]
    merged = last.blueprint
    for helper in helpers:
        if helper in last.inherited:
            merged = _with_environment(merged, helper.blueprint)
    return (merged, *(replace(helper.blueprint, kind="stage") for helper in helpers))


def _with_environment(blueprint: Blueprint, helper: Blueprint) -> Blueprint:
    """Add what a copied environment holds; it runs on the last stage's image."""
    return replace(
        blueprint,
        python=blueprint.python or helper.python,
        requirements=blueprint.requirements + helper.requirements,
        unread=blueprint.unread + helper.unread,
        built=blueprint.built + helper.requirements,
    )


def _stages(text: str, path: str, files: Files, arguments: dict[str, str]) -> list[Stage]:
    stages: list[Stage] = []
    defaults: dict[str, str] = {}
    for item in read_instructions(text):
        if item.keyword == "FROM":
            stages.append(_stage(item, path, files, stages, {**defaults, **arguments}))
            stages[-1].defaults, stages[-1].arguments = defaults, arguments
        elif stages:
            stages[-1].take(item, stages)
        elif item.keyword == "ARG":
            defaults |= {name: substituted(said, defaults) for name, said in assignments(item.value)}
    return stages


def _stage(item: Instruction, path: str, files: Files, stages: list[Stage], known: dict[str, str]) -> Stage:
    words = substituted(item.value, known).split()
    platform = next((word.partition("=")[2] for word in words if word.startswith("--platform=")), "")
    words = [word for word in words if not word.startswith("--")]
    reference = words[0] if words else ""
    name = words[2].lower() if len(words) > 2 and words[1].lower() == "as" else ""
    parent = next((stage for stage in reversed(stages) if stage.name and stage.name == reference.lower()), None)
    where = f"{path}:{item.number}"
    if parent is not None:
        return Stage(name, replace(parent.blueprint, platform=platform or parent.blueprint.platform), files, parent)
    if not reference:
        raise FileError(f"{where}: FROM names no image")
    image = parse_image(reference, where)
    return Stage(name, Blueprint(path, "Dockerfile", image=image, platform=platform), files)
