"""Judge damaged files and interrupted installations.

Whether importing a framework needs what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

from envcheck.frameworks import (
    companions,
    framework_of,
    identity,
    imported_modules,
    needed_distributions,
)
from envcheck.frameworks import framework as known_framework
from envcheck.host.data_files import load_data
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    FAILED,
    IMPORT,
    NOT_STATED,
    NOTE,
    NUMPY_1,
    WARNING,
    About,
    Citation,
    Evidence,
    Fact,
    FileFault,
    Finding,
    Fix,
    InstallLeftover,
    dataclass,
    numbers,
)
from envcheck.model.answers import NOBODY
from envcheck.model.fixes import (
    InstallOverRemains,
    ReinstallFiles,
    RenameShadow,
    SettleInstallation,
)
from envcheck.model.text import read_tracebacks, shorten
from envcheck.model.versions import public_version
from envcheck.rules.context import Context, once, rule
from envcheck.rules.requirements import tried_release

T = TypeVar("T")
DAMAGED, DEATH = "install-damaged", "import-failed"


@dataclass
class FileGroup:
    """The files of one folder that importing some releases of a distribution loads."""

    releases: str  # places in the distribution's list of releases: "0-3 5"
    folder: str
    names: str  # without .py


@dataclass
class LoadedDistribution:
    """The files of a distribution that importing the framework loads, for each recorded release."""

    name: str
    releases: tuple[str, ...]  # oldest first
    files: tuple[FileGroup, ...]

    def list_loaded(self, release: str) -> frozenset[str]:
        """List the files that a release loads.

        Of one not recorded, those of its neighbours on both sides.

        Beyond the recorded releases one of the same major is the neighbour on both sides: the next
        minor goes on loading 95 % of the files, and what it no longer ships is no fault.
        """
        wanted = numbers(public_version(release))
        order = [numbers(public_version(each)) for each in self.releases]
        below = [place for place, each in enumerate(order) if each <= wanted][-1:]
        above = [place for place, each in enumerate(order) if each >= wanted][:1]
        places = {*below, *above}
        is_between = bool(below and above)
        if not is_between and all(order[place][:1] != wanted[:1] for place in places):
            return frozenset()
        groups = (group for group in self.files if places <= set(expand_places(group.releases)))
        return frozenset(path for group in groups for path in list_paths(group))


def list_paths(group: FileGroup) -> Iterator[str]:
    """List the files of a group."""
    for name in group.names.split():
        yield f"{group.folder}/{name}".lstrip("/") + ("" if ".so" in name else ".py")


def expand_places(text: str) -> Iterator[int]:
    """Expand places: "0-2 5" to 0, 1, 2, 5."""
    for part in text.split():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


@dataclass
class Imports:
    """The content of a file of data/frameworks/imports.

    What importing a framework loads, a companion beyond that.
    """

    framework: str
    distributions: tuple[LoadedDistribution, ...]
    citation: Citation

    def names(self, distribution: str) -> bool:
        """Return whether importing the framework loads something of a distribution."""
        return any(each.name == distribution for each in self.distributions)

    def list_loaded(self, distribution: str, release: str) -> frozenset[str]:
        """List the files of a distribution that importing the framework loads."""
        found = (each for each in self.distributions if each.name == distribution)
        return next((each.list_loaded(release) for each in found), frozenset())


def load_imports(framework: str) -> Imports:
    """Load what importing a framework loads, or a companion."""
    return load_data(f"frameworks/imports/{framework}-imports", Imports)


def normalize_path(path: str) -> str:
    """Write the path of an installed file as every Python and every build names it.

    Samples: 'numpy/_core/_simd.cpython-311-x86_64-linux-gnu.so' -> numpy/_core/_simd.so,
    'numpy.libs/libgfortran-040039e1.so.5.0.0' -> numpy.libs/libgfortran.so, 'jaxlib/_jax.pyd' ->
    jaxlib/_jax.so
    """
    folder, _, name = path.rpartition("/")
    if folder.endswith(".libs"):
        name = re.split(r"-[0-9a-f]{8}\b|\.so|-r0", name)[0] + ".so"
    name = re.sub(r"\.(cpython-[\w-]+|abi3|cp\d+-\w+)\.(so|pyd)$|\.pyd$", ".so", name)
    return f"{folder}/{name}".lstrip("/")


_SHOWN = 3
# people remove these folders to save space; TensorFlow imports one
_TEST = re.compile(r"(^|/)test(/|$)")
_FAULTS = {
    "missing": "is missing",
    "empty": "is empty",
    "emptied": "is empty",
    "truncated": "is cut off",
    "shortened": "lacks its end",
    "not-elf": "is no library",
    "garbled": "cannot be read as Python",
    "other-python": "is built for another Python",
    "misplaced": "holds another file's text",
    "lacking": "lacks names that are needed",
    "optional": "cannot be loaded",
}
_EDITED = "edited"


@rule("install-interrupted", goal="any")
def install_interrupted(context: Context) -> Iterator[Finding]:
    """Find an installation that did not come to its end, of envcheck or of pip."""
    leftovers: Fact[tuple[InstallLeftover, ...]] = context.python.install_leftovers
    found = _read(context, leftovers, "python.install_leftovers")
    for item in found:
        label = f"{item.distribution} {item.release}".strip()
        finding_id = severity = stops = ""
        if item.kind == "marker":
            lost = "" if item.command else ", and its journal is gone"
            message = (
                f"An installation into this environment has not come to its end: {item.path} is"
                f" still there{lost}."
            )
            folder = context.python.prefix.value or ""
            cure: Fix = SettleInstallation(folder, lacks_journal=not item.command)
        elif item.kind == "start-code":
            finding_id, stops = DEATH, IMPORT
            message = f"Python ends as soon as it starts: {item.path} says {item.command}."
            cure = RenameShadow(item.path)
        elif item.kind in {"renamed", "compared"} and item.distribution:
            left = f"only {item.path} is left of it"
            if item.kind == "compared" and not _lacks_needed(context, item.distribution):
                left, severity = "what its import needs is there, without metadata", WARNING
            message = f"pip was interrupted while it replaced {label}: {left}."
            cure = _reinstall((item,), context)
        elif item.kind == "unowned":
            message = (
                f"{item.path} belongs to no installed distribution: an installation of {label} was"
                " interrupted."
            )
            cure = InstallOverRemains(label.replace(" ", "=="))
            stops = IMPORT  # unless the import passes: only the metadata is lost then
        elif item.kind in {"no-record", "no-metadata"} and _list_imports(
            context, item.distribution
        ):
            lost = item.kind.partition("-")[2].upper()
            last = ", which pip writes last" if lost == "RECORD" else ""
            message = f"{label} has no {lost}{last}: its installation may have been interrupted."
            severity, cure = WARNING, _reinstall((item,), context, without_record=True)
        else:
            continue
        yield context.report(
            message,
            Evidence("python.install_leftovers", item.path),
            finding_id=finding_id,
            severity=severity,
            cure=cure,
            about=About(distribution=item.distribution) if item.kind == "unowned" else NOBODY,
            stops=stops,
        )


def _lacks_needed(context: Context, distribution: str) -> bool:
    """Return whether a file that an import needs is damaged, or that is unknown."""
    faults = context.python.file_faults.value
    if faults is None:
        return True
    return any(find_import(context, item) for item in faults if item.distribution == distribution)


def _read(context: Context, fact: Fact[tuple[T, ...]], name: str) -> tuple[T, ...]:
    """Return the items of a fact; () where the description of a machine leaves it open."""
    return () if fact == NOT_STATED else context.need(fact, name) or ()


@rule(DAMAGED, goal="any")
def install_damaged(context: Context) -> Iterator[Finding]:
    """Find files that a distribution lists and that are missing or damaged.

    An error where the import needs one.
    """
    faults = _read(context, context.python.file_faults, "python.file_faults")
    edited = [item for item in faults if item.kind == _EDITED]  # which may be meant
    if edited:
        files = shorten([item.path for item in edited], _SHOWN)
        owners = " and ".join(sorted({_label(item) for item in edited}))
        yield context.report(
            f"Not as installed, but readable: {files} of {owners}.",
            *map(_show_fault, edited[:_SHOWN]),
            verdict=COMPATIBLE,
            severity=NOTE,
        )
    damaged = [item for item in faults if item.kind not in (_EDITED, NUMPY_1)]
    found = [item for item in damaged if not _TEST.search(item.path) or find_import(context, item)]
    needed = [item for item in found if find_import(context, item)]
    if not found:
        return
    shown = (needed or found)[:_SHOWN]
    labels = [*dict.fromkeys(map(_label, (*needed, *found)))]
    files = ", ".join(f"{item.path} {_FAULTS.get(item.kind, item.kind)}" for item in shown)
    others = f", and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
    imports = {find_import(context, item) for item in needed}
    why = "whether an import needs it is not known"
    if all(item.kind == "optional" for item in found):
        why = "what imports it goes on without it"
    if imports:
        first = min(imports, key=lambda name: (not framework_of(name), name))
        why = f"`import {first.replace('-', '_')}` needs it"
    are = "is" if len(labels) == 1 else "are"
    yield context.report(
        f"{shorten(labels, 2, ' and ')} {are} damaged: {files}{others}; {why}.",
        *map(_show_fault, shown),
        severity=ERROR if needed else WARNING,
        cure=_reinstall([*needed, *found], context),
    )


def _label(item: FileFault) -> str:
    return f"{item.distribution} {item.release}"


def _show_fault(item: FileFault) -> Evidence:
    return Evidence("python.file_faults", f"{item.location}/{item.path}: {item.kind}")


def _reinstall(
    items: Sequence[FileFault | InstallLeftover], context: Context, *, without_record: bool = False
) -> ReinstallFiles:
    """Name the releases to reinstall, and the imports that show whether that worked."""
    owners = dict.fromkeys((item.distribution, item.release) for item in items)
    names = sorted({name for item in items for name in _list_checks(context, item)})
    modules = names or [owner for owner, _ in owners]
    requirements = tuple(f"{owner}=={release}" for owner, release in owners)
    return ReinstallFiles(requirements, " ".join(modules).replace("-", "_"), without_record)


def _list_checks(context: Context, item: FileFault | InstallLeftover) -> list[str]:
    """List the imports that show whether a reinstallation worked.

    The one that needs the file, else the frameworks'.
    """
    needing = find_import(context, item) if isinstance(item, FileFault) else ""
    loading = _list_imports(context, item.distribution)
    if needing:
        return [needing]
    return [name for name in loading if name not in companions()] or loading


@once
def _installed_imports(context: Context) -> tuple[str, ...]:
    """List the installed frameworks, then what is imported beside them."""
    frameworks = context.installed_frameworks
    return (
        *frameworks,
        *(name for name in context.distributions if companions().get(name) in frameworks),
    )


def _list_imports(context: Context, distribution: str) -> list[str]:
    """List the frameworks and companions whose import loads a distribution."""
    own = framework_of(distribution)
    names = dict.fromkeys((*([own] if own else ()), *_installed_imports(context)))
    return [
        name
        for name in names
        if name in (own, distribution) or load_imports(name).names(distribution)
    ]


@once
def find_import(context: Context, fault: FileFault) -> str:
    """Name the import that loads a file and dies without it: a framework's first."""
    dead = find_death(context, fault)
    if dead or fault.kind in {"shortened", "emptied", "optional", _EDITED}:
        return dead
    if fault.kind == NUMPY_1:  # in Cython it is a ValueError, which no import of ours catches
        return next(iter(_list_imports(context, fault.distribution)), "")
    name = fault.path.rpartition("/")[2]
    for link in context.python.link_faults.value or ():
        if link.stops == IMPORT and link.kind == "missing-library" and link.library == name:
            return framework_of(link.distribution) or link.distribution
    names = _list_imports(context, fault.distribution)
    return next((name for name in names if _is_needed(context, name, fault)), "")


@dataclass
class _Death:
    """How a real import failed: what its exceptions say, "" where a signal ended it."""

    distribution: str
    words: str


@once
def _list_deaths(context: Context) -> tuple[_Death, ...]:
    """Read once what ended each import that failed."""
    deaths = []
    for test in context.python.imports.value or ():
        last = test.printed.rstrip().rpartition("\n")[2]
        words = "\n".join(text for _, text in read_tracebacks(test.printed)) or last
        if last.startswith("it was ended by"):
            words = ""
        if test.outcome == FAILED:
            deaths.append(_Death(test.distribution, words))
    return tuple(deaths)


@once
def find_death(context: Context, fault: FileFault, distribution: str = "") -> str:
    """Name what died, or that distribution, of a file that the end of its real import names.

    A framework by its name, by which it is imported: tensorflow-cpu has no module of its own.
    """
    for death in _list_deaths(context):
        is_asked = distribution in ("", death.distribution)
        if is_asked and _names_file(context, death, fault):
            return framework_of(death.distribution) or death.distribution
    return ""


def died_of_damage(context: Context, distribution: str) -> bool:
    """Return whether what ended the import of a distribution names a damaged file."""
    faults = context.python.file_faults.value or ()
    return any(find_death(context, fault, distribution) for fault in faults)


def _names_file(context: Context, death: _Death, fault: FileFault) -> bool:
    """Return whether what ended an import names a damaged file, or its module.

    A signal names nothing: it is laid to compiled code that the import loads.

    AttributeError: module 'jax.lax' has no attribute 'GatherScatterMode'
    ImportError: cannot import name 'traverse_util' from partially initialized module 'flax'
    """
    if not death.words:
        is_compiled = ".so" in fault.path and fault.kind in {"truncated", "garbled"}
        return is_compiled and death.distribution in _list_imports(context, fault.distribution)
    if fault.kind == _EDITED:
        return False
    module = fault.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package, _, name = module.rpartition(".")
    is_taken = f"'{name}'" in death.words and f"'{package}'" in death.words
    file = f"{fault.location}/{fault.path}"
    return f"'{module}'" in death.words or is_taken or file in death.words


# The bridge to ONNX Runtime's providers for GPUs: an import on a CPU goes on without it.
_OF_GPU = re.compile(r"_providers_\w+\.so$")


def _is_needed(context: Context, name: str, fault: FileFault) -> bool:
    if context.goal == "cpu" and _OF_GPU.search(fault.path):
        return False
    # No import goes on after a SyntaxError, as some do without an optional module.
    is_syntax_error = fault.kind in {"truncated", "garbled"} and fault.path.endswith(".py")
    if not is_syntax_error and not _is_mandatory(context, name, fault):
        return False
    host = companions().get(name, name)
    is_whole = identity(host).distributions.get(fault.distribution) == host
    loaded = load_imports(name).list_loaded(host if is_whole else fault.distribution, fault.release)
    path = normalize_path(fault.path)
    if path in loaded or any(each.startswith(f"{path}/") for each in loaded):
        return True
    module = name.replace("-", "_")
    is_own = fault.distribution == name or (is_whole and name == host)
    return is_own and fault.path in (module, f"{module}/__init__.py")


def _is_mandatory(context: Context, name: str, fault: FileFault) -> bool:
    """Return whether an import dies without a distribution's file.

    It goes on without some distributions that it tries.

    Without its `__init__.py`, or with an empty one, a package can be imported: some ask for nothing
    that is in it.
    """
    distribution = fault.distribution
    host = companions().get(name, name)
    if distribution.startswith("nvidia-"):  # JAX opens them once it has found a GPU
        return context.goal == "gpu" or known_framework(host).cuda.brings_libraries
    if framework_of(distribution) == host:
        return True
    installed = context.distributions.get(distribution)
    modules = {*(installed.modules if installed else ()), distribution.replace("-", "_")}
    if (
        distribution == name
        or distribution in needed_distributions(name)
        or modules & imported_modules(name)[0]
    ):
        return True
    releases = (
        item.version for item in context.distributions.values() if framework_of(item.name) == name
    )
    tried = filter(None, (tried_release(name, release) for release in releases))
    return not fault.path.endswith("/__init__.py") and any(
        distribution in row.needs for row in tried
    )
