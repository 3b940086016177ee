"""Read requirements.txt, environment.yml, pyproject.toml and lock files."""

from __future__ import annotations

import json
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envcheck.actions.extras import needs_extra
from envcheck.check.blueprint import (
    NO_DRIVER,
    Blueprint,
    FileError,
    Files,
    Line,
    Lines,
    Names,
    Table,
    find_spec,
)
from envcheck.check.installers import kind_of_value
from envcheck.check.selection import USUAL, Selection, may_hold
from envcheck.check.tool_tables import find_python, index_finder, list_entries
from envcheck.frameworks import framework_of
from envcheck.host.documents import dig, list_in, parse_toml, table_in, tables_in
from envcheck.matrix.companions import companion_row
from envcheck.matrix.package_index import package_index
from envcheck.model import RequestError, canonical_name, major, major_minor
from envcheck.model.quoting import quote
from envcheck.model.versions import (
    Requirement,
    find_requirement,
    name_of,
    read_requirement,
)

if TYPE_CHECKING:
    import ast  # at run time only a setup.py needs it

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_PYTORCH = "download.pytorch.org"
_OPTION = re.compile(r"(--[\w-]+|-\w)[ =]?\s*(\S+(?:\s*;.*)?)")
_OPTION_OF_ONE = re.compile(r"\s--(?:hash|config-settings|global-option|build-option)\b")
_NUMBER = ""  # the key of a locked package for the line of its table's head
Stated = tuple[str, Line]  # what the value of an option is, "" for a requirement, and the value
_PACKAGE = re.compile(r"\[\[packages?\]\]")
_MAX_PROJECTS = 3  # that require each other
_KINDS = {"cpu": "cpu", "cuda": r"cu\d+", "other": r"rocm[\d.]*|xpu"}
_MAX_DEPTH = 20
_MAX_PACKAGES = 20_000  # of a lock file; real ones reach some hundreds


def parse_requirements(text: str, path: str, files: Files) -> Blueprint:
    """Read requirements with the files they include.

    Sample: --index-url https://download.pytorch.org/whl/cpu
            torch==2.4.0  # on the CPU
            -r more.txt
    """
    found = read_lines(_list_stated_lines(text, path), files, files.relative_to(path), {path})
    return replace(found, path=path)


def _list_stated_lines(text: str, path: str) -> list[Stated]:
    return [_read_option(Line(line, f"{path}:{number}")) for number, line in logical_lines(text)]


def _read_option(line: Line) -> Stated:
    """Return what a line's option is, and its value; "" and the line where it is none of these."""
    match = _OPTION.fullmatch(line.text)
    kind = kind_of_value(match[1]) if match else ""
    if match and kind:
        return kind, replace(line, text=match[2])
    return "", replace(line, text=_OPTION_OF_ONE.split(line.text)[0].strip())


def read_lines(
    stated: Iterable[Stated], files: Files, beside: Files, seen: set[str], *, is_only: bool = False
) -> Blueprint:
    """Read what one installation states, in a requirements file or as the words of a command.

    `beside` holds the files that these lines name, and `seen` those that were read. `is_only`: no
    other index is asked first.
    """
    by_kind: dict[str, list[Line]] = defaultdict(list)
    gaps: list[Line] = []
    compiles: list[Line] = []
    may_compile: list[Line] = []
    bounds: list[Line] = []
    constraints: list[Line] = []
    for kind, line, file in _follow(stated, files, beside, seen, 1):
        if kind == "constraints" and file:
            constraints.append(replace(line, text=file[0]))
            bounds += list_bounds(*file)
        elif kind in _UNFOUND:
            gaps.append(replace(line, text=f"{line.text} was not found, so {_UNFOUND[kind]}."))
        by_kind[kind if kind in _OF_ALL else ""].append(line)
    links = " ".join(line.text for line in by_kind["links"])
    requirements: list[Line] = []
    for line in by_kind[""]:
        project = _read_project_line(line, files)
        gaps += project.gaps
        compiles += project.compiles
        may_compile += project.may_compile
        items = project.requirements
        taken = (item for item in items if line.is_resolved or item is line)
        requirements += [replace(item, links=links or item.links) for item in taken]
    indexes = (*by_kind["indexes"], *by_kind["extra_indexes"])
    urls = [line.text for line in indexes]
    bounded = apply_constraints(requirements, bounds)
    return Blueprint(
        "",
        "requirements file",
        requirements=with_index(urls, bounded, is_only=is_only or bool(by_kind["indexes"])),
        constraints=tuple(constraints),
        bounds=tuple(bounds),
        indexes=indexes,
        compiles=tuple(compiles),
        may_compile=tuple(may_compile),
        gaps=tuple(gaps),
    )


# What an option says of all lines; any other but -e names nothing to install.
_OF_ALL = frozenset({"links", "indexes", "extra_indexes", "files", "constraints", "other"})
_UNFOUND = {
    "files": "what it installs is not judged",
    "constraints": "its constraints are not applied",
}


def _follow(
    stated: Iterable[Stated], files: Files, beside: Files, seen: set[str], depth: int
) -> Iterator[tuple[str, Line, tuple[str, str] | None]]:
    """Yield each line and the file that it names, if it was found.

    The lines of a requirements file stand in place of the line that names it; no file is read
    twice.
    """
    for kind, line in stated:
        file = beside.find(line.text) if kind in _UNFOUND else None
        if file is None or kind != "files":
            yield kind, line, file
        elif file[0] not in seen and depth < _MAX_DEPTH:
            seen.add(file[0])
            inner = _list_stated_lines(file[1], file[0])
            yield from _follow(inner, files, files.relative_to(file[0]), seen, depth + 1)


def _read_project_line(line: Line, files: Files) -> Blueprint:
    """Return what a line asks for: a requirement, or what the project that it names states.

    Sample: -e ./server[gpu]
    """
    name, asked = line.text, Blueprint("", "")
    if not name.startswith((".", "/", "git+")):
        return asked if name.startswith("-") else replace(asked, requirements=(line,))
    project = None
    if files.depth < _MAX_PROJECTS:
        inside = replace(files.relative_to(line.location), depth=files.depth + 1)
        with suppress(FileError):
            project = read_local_project(name, inside)
    if project is None:
        gap = f"{quote(name)} is a separate project; its dependencies are not judged."
        return replace(asked, gaps=(replace(line, text=gap),))
    gaps = (replace(gap, location=line.location) for gap in project.gaps)
    return replace(project, gaps=tuple(gaps))


def read_lock(text: str, path: str, selection: Selection | None = None) -> Blueprint:
    """Read a lock file or a pyproject.toml by its name."""
    name = path.replace("\\", "/").rpartition("/")[2].lower()
    if re.fullmatch(r"pixi\.lock|.*conda-lock\.ya?ml", name):
        return parse_conda_lock(text, path)
    return parse_project(text, path, selection)


def parse_project(text: str, path: str, selection: Selection | None = None) -> Blueprint:
    """Read a lock file of uv, Poetry, PDM, Pipenv or PEP 751, or the lists of a project's file.

    `selection` is what a command chooses; without it, what only extras bring is named.

    Sample: [[package]]
            name = "torch"
            version = "2.14.0+cu130"
            source = { registry = "https://download.pytorch.org/whl/cu130" }
    """
    document = _read_document(text, path)
    packages = _list_packages(document)
    if len(packages) > _MAX_PACKAGES:
        raise FileError(f"{path} locks more than {_MAX_PACKAGES} packages")
    if packages:
        starts = [
            number
            for number, line in enumerate(text.splitlines(), 1)
            if _PACKAGE.match(line.strip())
        ]
        numbered = [
            {**item, _NUMBER: number} for item, number in zip(packages, starts, strict=False)
        ]
        chosen = _chosen(numbered, document, selection or USUAL)
        lines = _list_locked_lines(chosen, path)
        left_out = () if selection else _name_left_out(lines, _list_locked_lines(numbered, path))
        return Blueprint(path, "lock file", requirements=lines, gaps=left_out)
    places = Places(text, path)
    stated = _list_asked(document, places, selection or USUAL)
    conda, driver = _read_pixi(document, places)
    gaps: Lines = ()
    is_open = "dependencies" in list_in(document, "project", "dynamic")
    if path.endswith(".toml") and (is_open or not (stated or conda or document.get("project"))):
        gaps = (Line(f"{path} does not state its dependencies, which are not judged.", path),)
    pinned, key, admitted = find_python(document)
    return Blueprint(
        path,
        "project file",
        python=Line(pinned, places.key("python_version")) if pinned else _find_python(conda),
        pythons=_find_pythons(admitted, places.key(key)),
        requirements=stated,
        conda=conda,
        conda_driver=driver,
        gaps=gaps,
    )


def _read_pixi(document: Table, places: Places) -> tuple[Lines, str]:
    """Return the conda specs of pixi's default environment, and the CUDA of the driver it is for.

    Sample: [dependencies]
            pytorch-gpu = { version = "2.5.*", channel = "conda-forge" }
    """
    own = table_in(document, "tool", "pixi") or document  # of pixi.toml
    workspace = table_in(own, "workspace") or table_in(own, "project")
    channels = " ".join(map(str, list_in(workspace, "channels")))
    conda = []
    for name, value in table_in(own, "dependencies").items() if channels else ():
        row = value if isinstance(value, dict) else {"version": value}
        words = (name, str(row.get("version", "*")), str(row.get("build", "")))
        text = " ".join(word for word in words if word not in ("", "*"))
        conda.append(Line(text, places.key(name), links=str(row.get("channel", channels))))
    driver = major(str(dig(own, "system-requirements", "cuda") or ""))
    return tuple(conda), driver or (NO_DRIVER if conda else "")


def _read_document(text: str, path: str) -> Table:
    """Load TOML, or the JSON of Pipfile.lock; raises FileError."""
    if not text.lstrip().startswith("{"):
        return read_toml(text, path)
    try:
        return table_in(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is not JSON: {error}") from None


def _list_asked(document: Table, places: Places, selection: Selection) -> Lines:
    """List what a project asks for, each with the index that its tool takes it from."""
    entries = list(list_entries(document, selection))
    bound = {name_of(key): index for _, key, index in entries}
    asked = [
        (Line(text, places.of(text), links=places.path), bound.get(name_of(text), ""))
        for text in _list_stated(document, selection)
    ]
    asked += [
        (Line(text, places.key(key), links=places.path), index)
        for text, key, index in entries
        if text
    ]
    indexes = index_finder(document, selection)
    found = (with_index(indexes(line.text, name), [line], is_only=True) for line, name in asked)
    return tuple(line for lines in found for line in lines)


def _find_pythons(text: str, location: str) -> Line | None:
    """Read which Pythons a project is for; None where it states none, or what is no range."""
    with suppress(RequestError):
        admitted = read_requirement(f"python{text}").specifier
        return Line(admitted, location) if admitted else None
    return None


def _list_stated(document: Table, selection: Selection) -> Iterator[str]:
    """Yield what a pyproject.toml lists, with the extras of its own that an extra names."""
    project, groups = document.get("project"), document.get("dependency-groups")
    optional = dig(project, "optional-dependencies")
    own = canonical_name(str(dig(project, "name")))
    named = selection.pick(groups, selection.groups)
    extras = selection.pick(optional, selection.extras)
    texts = [*list_in(project, "dependencies")] if selection.takes_project else []
    for table, keys in ((groups, named), (optional, extras)):
        texts += [item for key in keys for item in list_in(table, key)]
    for text in texts:  # grows while it is walked, and so do the groups and the extras
        asked = find_requirement(text) if isinstance(text, str) else None
        included = str(dig(text, "include-group") or "")
        if asked is not None and asked.name == own:
            new = [name for name in asked.extras if name not in extras]
            extras += new
            texts += [item for name in new for item in list_in(optional, name)]
        elif isinstance(text, str):
            yield text
        elif included and included not in named:
            named.append(included)
            texts += list_in(groups, included)


def _list_locked_lines(packages: list[Table], path: str) -> Lines:
    return tuple(line for item in packages for line in _locked(item, f"{path}:{item[_NUMBER] + 1}"))


def _name_left_out(taken: Lines, every: Lines) -> Lines:
    """Say which frameworks only extras or groups bring, where nothing else brings one."""
    if any(framework_of(name_of(line.text)) for line in taken):
        return ()
    left = [line for line in every if framework_of(name_of(line.text))]
    if not left:
        return ()
    texts = dict.fromkeys(line.text.partition(" ;")[0] for line in left)
    gap = f"An extra or a group brings {' or '.join(texts)}: name it with --extra or --group."
    return (Line(gap, left[0].location),)


_PDM_GROUPS = ("default", "dev")
_DEV = ("dev",)  # the group that uv installs unasked


def _chosen(packages: list[Table], document: Table, selection: Selection) -> list[Table]:
    """Leave out what the tool does not install: what only extras and groups bring.

    uv.lock is walked from the project on; Poetry marks what is optional, and PDM the groups.
    """
    roots = [item for item in packages if {"virtual", "editable"} & {*table_in(item, "source")}]
    if roots:
        numbers = _walk(packages, roots, selection)
        return [item for item in packages if item[_NUMBER] in numbers]
    extras = selection.pick(document.get("extras"), selection.extras)
    wanted = {item for extra in extras for item in list_in(document, "extras", extra)}
    usual = _PDM_GROUPS if dig(document, "metadata", "lock_version") else ()
    return [
        item
        for item in packages
        if (item.get("optional") is not True or item.get("name") in wanted)
        and selection.takes(item.get("groups"), usual)
    ]


def _walk(packages: list[Table], roots: list[Table], selection: Selection) -> set[int]:
    """Return the numbers of the packages that the projects of a uv.lock bring."""
    by_name: dict[object, list[Table]] = defaultdict(list)
    for item in packages:
        by_name[str(item.get("name"))].append(item)
    named = (*selection.extras, *selection.groups)
    chosen = frozenset(f"{root.get('name')}-{name}" for root in roots for name in named)
    queue = [(item, *part) for item in roots for part in _list_parts(item, selection)]
    seen: set[tuple[int, str, str]] = set()
    for item, table, name in queue:  # grows while it is walked
        if (item[_NUMBER], table, name) in seen:
            continue
        seen.add((item[_NUMBER], table, name))
        for edge in tables_in(item, table, *filter(None, (name,))):
            if not may_hold(str(edge.get("marker", "")), chosen):
                continue
            extras = (("optional-dependencies", str(extra)) for extra in list_in(edge, "extra"))
            parts = [("dependencies", ""), *extras]
            for target in by_name[str(edge.get("name"))]:
                if edge.get("version") in (None, target.get("version")):
                    queue += [(target, *part) for part in parts]
    return {number for number, *_ in seen}


def _list_parts(project: Table, selection: Selection) -> Iterator[tuple[str, str]]:
    """Yield the lists of a project's own table that are installed, each with its name."""
    if not selection.is_only:
        yield "dependencies", ""
    optional, groups = project.get("optional-dependencies"), project.get("dev-dependencies")
    for extra in selection.pick(optional, selection.extras):
        yield "optional-dependencies", extra
    usual = () if selection.is_only else _DEV
    for group in selection.pick(groups, (*selection.groups, *usual)):
        if group not in selection.excluded:
            yield "dev-dependencies", group


def read_local_project(folder: str, files: Files, groups: Names = ()) -> Blueprint | None:
    """Read what `pip install FOLDER` installs besides.

    `.`, `./server[gpu]`; None if nothing says it.

    setup.py is read, never run: its literal lists of requirements count.
    """
    match = re.fullmatch(r"([^\[\]]*)(?:\[([\w,. -]+)\])?", folder)
    if match is None or "://" in folder:
        return None
    extras = tuple(item.strip() for item in (match[2] or "").split(",") if item.strip())
    found = files.find(posixpath.join(match[1] or ".", "pyproject.toml"))
    if found is None:
        return _find_setup(match[1] or ".", files, extras)
    blueprint = read_pyproject(found[1], found[0], files, Selection(extras, groups))
    setup = files.find(posixpath.join(match[1] or ".", "setup.py"))
    built = read_setup(setup[1], setup[0]) if setup else None
    if built is not None:  # what setuptools compiles stands there alone
        blueprint = blueprint.plus(compiles=built.compiles, may_compile=built.may_compile)
    is_read = blueprint.requirements or blueprint.compiles or not blueprint.gaps
    return blueprint if is_read else None


def read_pyproject(
    text: str, path: str, files: Files, selection: Selection | None = None
) -> Blueprint:
    """Read a pyproject.toml, with the files beside it that state what it leaves to them."""
    blueprint = parse_project(text, path, selection)
    if not blueprint.gaps:
        return blueprint
    table = dig(read_toml(text, path), "tool", "setuptools", "dynamic", "dependencies", "file")
    names = [table] if isinstance(table, str) else list_in(table)
    found = [file for name in names if (file := files.relative_to(path).find(str(name)))]
    parts = [parse_requirements(inner[1], inner[0], files) for inner in found]
    if not parts or len(found) < len(names):
        extras = selection.extras if selection else ()
        setup = _find_setup(posixpath.dirname(path) or ".", files, extras)
        parts = [setup] if setup else []
    lines = [line for part in parts for line in part.requirements]
    return replace(blueprint.plus(requirements=lines), gaps=() if parts else blueprint.gaps)


def _find_setup(folder: str, files: Files, extras: Names) -> Blueprint | None:
    for name in ("setup.cfg", "setup.py"):
        found = files.find(posixpath.join(folder, name))
        blueprint = read_setup(found[1], found[0], extras) if found else None
        if blueprint is not None:
            return blueprint
    return None


def read_setup(text: str, path: str, extras: Names = ()) -> Blueprint | None:
    """Read a setup.cfg or setup.py; None where its list of requirements cannot be read.

    Code is read, never run: `install_requires=["torch>=2.1"]`.
    """
    read = _read_setup_cfg if path.endswith(".cfg") else _read_setup_py
    return read(text, path, extras)


def _read_setup_cfg(text: str, path: str, extras: Names) -> Blueprint | None:
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except (configparser.Error, ValueError):
        return None
    stated = parser.get("options", "install_requires", fallback="")
    wanted = [
        parser.get("options.extras_require", extra, fallback="")
        for extra in extras
        if parser.has_section("options.extras_require")
    ]
    if not stated.strip() or "file:" in stated:
        return None
    names = [line.strip() for part in (stated, *wanted) for line in part.split("\n")]
    pythons = parser.get("options", "python_requires", fallback="")
    return _project_of([name for name in names if name], text, path, pythons)


def _read_setup_py(text: str, path: str, extras: Names) -> Blueprint | None:
    import ast

    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    values = _list_literals(tree)
    extensions = tuple(_list_extensions(tree, path))
    if extensions and "install_requires" not in text:  # it needs nothing to run
        values["install_requires"] = []
    if not isinstance(values.get("install_requires"), list):
        return None
    names = list_in(values, "install_requires")
    for extra in extras:
        names += list_in(values, "extras_require", extra)
    pythons = str(values.get("python_requires", ""))
    project = _project_of([item for item in names if isinstance(item, str)], text, path, pythons)
    # a file that has both takes C++ alone where there is no CUDA
    if "CppExtension" in text:
        return replace(project, may_compile=extensions)
    return replace(project, compiles=extensions)


def _list_literals(tree: ast.AST) -> Table:
    """Return the literal values that a program assigns, or passes, by name."""
    import ast

    values: Table = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            pairs: list[tuple[str | None, ast.expr]] = [(node.targets[0].id, node.value)]
        elif isinstance(node, ast.Call):
            pairs = [(item.arg, item.value) for item in node.keywords]
        else:
            continue
        for name, value in pairs:
            source = value.id if isinstance(value, ast.Name) else ""
            literal = values.get(source) if source else _literal(value)
            if name and literal is not None:
                values[name] = literal
    return values


def _list_extensions(tree: ast.AST, path: str) -> Iterator[Line]:
    """Yield where a setup.py makes an extension of CUDA code.

    Sample: CUDAExtension("ops._C", ["ops.cu"])
    """
    import ast

    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("CUDAExtension"):
            yield Line(f"CUDA code (CUDAExtension in {path})", f"{path}:{node.lineno}")


def _literal(node: Any) -> object:
    import ast

    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _project_of(names: Iterable[str], text: str, path: str, pythons: str) -> Blueprint:
    places = Places(text, path)
    lines = tuple(Line(name, places.of(name)) for name in names)
    admitted = _find_pythons(pythons, places.key("python_requires"))
    return Blueprint(path, "project file", requirements=lines, pythons=admitted)


def read_toml(text: str, path: str) -> Table:
    """Load a TOML document; raises FileError."""
    try:
        return parse_toml(text)
    except ValueError as error:
        raise FileError(f"{path} is not TOML: {error}") from None


def _list_packages(document: Table) -> list[Table]:
    """List the packages of a lock file, under either name of their table."""
    return [*tables_in(document, "package"), *tables_in(document, "packages")]


def _locked(package: Table, location: str) -> Iterator[Line]:
    """Write a locked release as a requirement, with its fork's marker and its index."""
    name, version = str(package.get("name", "")), package.get("version")
    if not isinstance(version, str) or not _NAME.fullmatch(name):
        return  # the project itself, or a folder
    markers = [
        item
        for item in map(str, list_in(package, "resolution-markers"))
        if not re.search("extra [!=]=", item)
    ]
    stated = package.get("marker", package.get("markers", ""))
    marker = " or ".join(f"({item})" for item in markers) or (
        stated if isinstance(stated, str) else ""
    )
    source = table_in(package, "source")
    index = source.get("registry", source.get("url", package.get("index")))
    text = f"{name}=={version}{_label_of_files(package, version)}"
    text += f" ; {marker}" if marker else ""
    yield from with_index(
        [index] if isinstance(index, str) else [],
        [Line(text, location, links=location)],
        is_only=True,
    )


_LABEL = re.compile(r"-\d[^-/]*(?:\+|%2B)([\w.]+)-[^/]*\.whl$")


def _label_of_files(package: Table, version: str) -> str:
    """Return the label of the build that a lock's files have and its version lacks.

    PDM writes 2.14.1 for torch-2.14.1+cu126-cp311-cp311-linux_x86_64.whl.
    """
    rows = [*tables_in(package, "files"), *tables_in(package, "wheels")]
    names = (str(row.get("file") or row.get("url") or row.get("name")) for row in rows)
    labels = {match[1] for name in names if (match := _LABEL.search(name))}
    return f"+{labels.pop()}" if len(labels) == 1 and "+" not in version else ""


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines, continued ones joined, comments and blank ones left out."""
    parts: list[str] = []
    start = 0
    for number, raw in enumerate(text.lstrip("\ufeff").replace("\r\n", "\n").split("\n"), 1):
        start = start or number
        line = re.sub(r"(^|\s)#.*$", "", raw).rstrip()
        parts.append(line.removesuffix("\\"))
        if line.endswith("\\"):
            continue
        joined = " ".join(parts).strip()
        if joined:
            yield start, joined
        parts, start = [], 0
    if any(parts):  # the last line promises another
        yield start, " ".join(parts).strip()


def list_bounds(path: str, text: str) -> Iterator[Line]:
    """List the lines of a constraints file that bound the releases of a package."""
    for number, line in logical_lines(text):
        bound = find_requirement(line)
        if bound and bound.specifier:
            yield Line(bound.plain, f"{path}:{number}")


def read_bounds(lines: Iterable[Line]) -> dict[str, str]:
    """Map each package of constraints files to its version clauses."""
    found: dict[str, str] = {}
    for bound in map(read_requirement, (line.text for line in lines)):
        before = found.get(bound.name, "")
        found[bound.name] = f"{before},{bound.specifier}".lstrip(",")
    return found


def apply_constraints(lines: Iterable[Line], bounds: Iterable[Line]) -> Lines:
    """Narrow requirements by the lines of constraints files.

    Of what these name, only those releases are installed.
    """
    clauses = read_bounds(bounds)
    bounded = []
    for line in lines:
        asked, text = line.requirement, line.text
        if asked is not None and asked.name in clauses:
            bound = Requirement("", asked.name, specifier=clauses[asked.name])
            both = read_requirement(asked.joined(bound).plain).plain
            text = both + (f"; {asked.marker}" if asked.marker else "")
        bounded.append(replace(line, text=text))
    return tuple(bounded)


def with_index(indexes: Iterable[str], lines: Iterable[Line], *, is_only: bool = False) -> Lines:
    """Say of what comes from PyTorch's own indexes for what it is built.

    pip prefers its 2.4.0+cpu to 2.4.0 as well.

    `is_only`: no other index is asked first.
    """
    kinds = {
        url: kind
        for url in indexes
        for kind, pattern in _KINDS.items()
        if re.fullmatch(pattern, _end(url))
    }
    if not kinds:
        return tuple(lines)
    kind = "cpu" if "cpu" in kinds.values() else next(iter(kinds.values()))
    cuda = [url for url, found in kinds.items() if found == "cuda"]
    label = "".join(map(_end, cuda[:1])) or ("cpu" if kind == "cpu" else "")
    others = [url for url in cuda if _PYTORCH not in url and "/whl/" not in url]
    own = "".join(others[:1])
    return tuple(
        replace(
            line,
            index=kind if is_on_index(line) else "",
            label=next((end for end in map(_end, kinds) if f"+{end}" in line.text), label),
            is_only_index=is_only,
            own_index="" if is_on_index(line) else own,
        )
        for line in lines
    )


def is_on_index(line: Line) -> bool:
    """Return whether PyTorch's own index has builds of a package."""
    name = name_of(line.text)
    return package_index(name) is not None or companion_row(name).on_index


def _end(url: str) -> str:
    """Read the end of an index's address: cpu, cu126, rocm6.1."""
    return url.strip("\"'").rstrip("/").rsplit("/", 1)[-1]


_MAX_NODES = 200_000  # things in a file with its aliases unfolded
_MAX_LEVELS = 100  # of nesting: libyaml's composer recurses for each without a bound
# What PyYAML raises for a value that its tag does not fit, such as `!!bool x`, `!!timestamp x` or
# "\UFFFFFFFF".
_BAD_VALUE = (ArithmeticError, AttributeError, LookupError, ValueError)


class _TooDeepError(Exception):
    """The YAML nests deeper than _MAX_LEVELS."""


def mapping_of(text: str, path: str) -> Table:
    """Load the one mapping that a file holds.

    Raises FileError, and MissingExtraError without PyYAML.
    """
    with needs_extra("files", "A YAML file"):
        import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_size(text, path, loader)
        document = yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader
    except FileError:
        raise
    except (yaml.YAMLError, RecursionError, _TooDeepError, *_BAD_VALUE) as error:
        # libyaml from 0.2.6 on refuses a thousand levels before it hands out the first hundred.
        if (
            isinstance(error, _TooDeepError)
            or getattr(error, "problem", "") == "exceeded maximum nesting depth"
        ):
            raise FileError(f"{path} nests its YAML deeper than {_MAX_LEVELS} levels") from None
        raise FileError(f"{path} is not YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(document, dict):
        raise FileError(
            f"{path} contains no mapping: it is neither a compose file nor an environment.yml"
        )
    return document


def _check_size(text: str, path: str, loader: Any) -> None:
    """Refuse a file by its events, which nest nothing.

    Each alias counts as what it stands for, written out.
    """
    import yaml

    count, sizes = 0, dict[str | None, int]()
    # the anchor of each collection that is open, and the count before it
    parents: list[tuple[str | None, int]] = []
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = parents.pop()
            sizes[anchor] = count - before
        elif isinstance(event, yaml.AliasEvent):
            count += sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.NodeEvent):
            is_open = isinstance(event, yaml.CollectionStartEvent)
            # one that is met before its end holds itself
            sizes[event.anchor] = _MAX_NODES + 1 if is_open else 1
            parents += [(event.anchor, count)] if is_open else []
            count += 1
        if len(parents) > _MAX_LEVELS:
            raise _TooDeepError
        if count > _MAX_NODES:
            raise FileError(
                f"{path} has more than {_MAX_NODES} YAML nodes, with its aliases written out"
            )


class Places:
    """The lines of a file, asked for by what stands on them."""

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        self._lines = text.splitlines()
        self._first: dict[str, int] = {}
        for number, line in enumerate(self._lines, 1):
            for variant in (
                line.strip(),
                re.sub(r"\s+#.*$", "", line).strip().lstrip("- ").strip("\"'"),
            ):
                self._first.setdefault(variant, number)

    def of(self, item: str) -> str:
        """Say where a list item stands: "environment.yml:6"."""
        number = self._first.get(item.strip())
        if number is None and len(self._lines) < 5000:
            number = next(
                (position for position, line in enumerate(self._lines, 1) if item in line), None
            )
        return f"{self.path}:{number or 1}"

    def key(self, name: str) -> str:
        """Say where a key stands."""
        word = rf"[\"']?{re.escape(name)}[\"']?\s*"
        return self._search(rf"\s+{word}:|\s*{word}=", f"{self.path}:1")

    def value(self, name: str, text: str, default: str) -> str:
        """Say where a key with this value stands.

        `other` where the value is not written like that.
        """
        return self._search(
            rf"\s*{re.escape(name)}\s*:\s*[\"']?{re.escape(text)}[\"']?\s*(?:#.*)?$", default
        )

    def _search(self, pattern: str, default: str) -> str:
        numbered = (number for number, line in enumerate(self._lines, 1) if re.match(pattern, line))
        number = next(numbered, 0)
        return f"{self.path}:{number}" if number else default


def parse_environment_yml(text: str, path: str, files: Files) -> Blueprint:
    """Read conda's environment file.

    Sample: dependencies: [python=3.10, cudatoolkit=11.2, cudnn=8.1, pip, {pip: [tensorflow==2.10]}]
    """
    document, places = mapping_of(text, path), Places(text, path)
    channels = " ".join(map(str, list_in(document, "channels")))
    conda: list[Line] = []
    stated: list[Stated] = []
    for entry in list_in(document, "dependencies"):
        if isinstance(entry, str):
            channel, _, spec = entry.rpartition("::")
            spec = re.sub(r"\s+", " ", spec.strip())
            conda.append(Line(spec, places.of(entry), links=channel or channels))
        elif isinstance(entry, dict):
            for item in map(str, list_in(entry, "pip")):
                at = places.of(item)
                texts = logical_lines(item.replace("\n", " "))
                stated += [_read_option(Line(text, at)) for _, text in texts]
    found = read_lines(stated, files, files.relative_to(path), {path})
    return replace(
        found,
        path=path,
        kind="environment.yml",
        conda=tuple(conda),
        python=_find_python(conda),
        constraints=(),
        indexes=(),
    )


def _find_python(conda: Iterable[Line]) -> Line | None:
    """Return the minor version of Python that conda's specs pin; None where none does."""
    line = find_spec(conda, ("python",))
    return replace(line, text=major_minor(line.text)) if line and "." in line.text else None


_CONDA_FILE = re.compile(r"([\w.-]+)-([^-/]+)-([^-/]+)\.(?:conda|tar\.bz2)")
_PLATFORM = "linux-64"


def parse_conda_lock(text: str, path: str) -> Blueprint:
    """Read what pixi.lock or conda-lock.yml locks for Linux on x86-64.

    Sample: package:
            - {name: pytorch, manager: conda, platform: linux-64, url:
              "https://c/pytorch-2.5.1-cuda126_py312h1.conda"}
            - {name: torch, version: 2.5.1, manager: pip, platform: linux-64}
    """
    document, places = mapping_of(text, path), Places(text, path)
    conda: list[Line] = []
    requirements: list[Line] = []
    for entry in _list_locked(document):
        url = str(entry.get("conda") or entry.get("url") or "")
        file, name, version = (
            _CONDA_FILE.fullmatch(url.rpartition("/")[2]),
            entry.get("name"),
            entry.get("version"),
        )
        location = places.of(url or f"name: {name}")
        if file:
            conda.append(Line("=".join(file.groups()), location))
        elif isinstance(name, str) and version is not None:
            requirements.append(Line(f"{name}=={version}", location))
    return Blueprint(
        path,
        "lock file",
        python=_find_python(conda),
        conda=tuple(conda),
        requirements=tuple(requirements),
    )


def _list_locked(document: Table) -> list[Table]:
    """List the packages of the platform: of pixi.lock those that its default environment names."""
    packages = _list_packages(document)
    named = dig(document, "environments", "default", "packages")
    if not isinstance(named, dict):
        return [item for item in packages if item.get("platform", _PLATFORM) == _PLATFORM]
    urls = {
        str(url) for item in tables_in(named, _find_platform(document)) for url in item.values()
    }
    return [
        item
        for item in packages
        if not urls.isdisjoint(str(item.get(key)) for key in ("conda", "pypi", "url"))
    ]


def _find_platform(document: Table) -> str:
    """Return the name of Linux on x86-64 in pixi.lock, which names each machine from version 7 on.

    Of two the one with a driver. Sample:

        platforms: [{name: trainer, subdir: linux-64, virtual-packages: [__cuda=12]}]
    """
    found = ""
    for item in tables_in(document, "platforms"):
        has_driver = any("__cuda" in str(each) for each in list_in(item, "virtual-packages"))
        if item.get("subdir", item.get("name")) == _PLATFORM and (has_driver or not found):
            found = str(item.get("name"))
    return found or _PLATFORM
