"""The inspected interpreter, its pip, the C libraries below it, and the files installed in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from packaging.version import Version

from envcheck.frameworks import (
    companions,
    framework_of,
    identities,
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
    UNDETERMINED,
    WARNING,
    About,
    Absent,
    Advise,
    Citation,
    Evidence,
    Fact,
    FileFault,
    Finding,
    Fix,
    FollowRow,
    InstallLeftover,
    InterpreterFault,
    Unknown,
    dataclass,
    numbers,
)
from envcheck.model.answers import NOBODY
from envcheck.model.fixes import (
    InstallOverRemains,
    InstallPython,
    LeaveOutFolders,
    ReinstallFiles,
    RenameShadow,
    RestorePython,
    SettleInstallation,
    UpdatePip,
    UseNewerGlibc,
)
from envcheck.model.releases import FrameworkRelease
from envcheck.model.text import read_tracebacks, shorten
from envcheck.model.versions import name_needs, public_version
from envcheck.rules.builds import Build, is_conda_build
from envcheck.rules.context import Context, cite, once, rule
from envcheck.rules.requirements import (
    easiest_for_pip,
    is_met,
    tag_glibcxx,
    tried_release,
    wheel_glibc,
)
from envcheck.rules.targets import BITS, GLIBC, judged_builds, target_builds, wanted_releases

_SAME_MACHINE = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}


@rule("python-32bit", needs=("python.bits",), goal="any")
def python_32bit(context: Context, bits: int | None) -> Iterator[Finding]:
    """Find a 32-bit interpreter: it cannot install any framework wheel."""
    works = any(build.installed for build in judged_builds(context))
    if bits != 32 or (
        works and not any(wanted.obstacle == BITS for wanted in wanted_releases(context))
    ):
        return
    names = ", ".join(item.name for item in identities() if not item.wheels.has_32bit)
    wheels = context.matrix.releases(context.matrix.frameworks()[0], context.platform)[:1]
    yield context.report(
        f"This Python is a 32-bit build; {names} publish wheels for 64-bit Python only.",
        "python.bits",
        *(cite("framework releases", "64-bit wheels only", wheel) for wheel in wheels),
        cure=InstallPython(),
    )


@rule("python-wrong-arch", needs=("python.architecture", "host.architecture"), goal="any")
def python_wrong_arch(
    context: Context, python: str | None, machine: str | None
) -> Iterator[Finding]:
    """Find an interpreter of another architecture.

    It runs emulated and gets wheels for that one.
    """
    if python is None or machine is None or _same_machine(python, machine):
        return
    yield context.report(
        f"This Python is built for {python}, the machine is {machine}: pip installs {python}"
        " wheels, which run emulated, without the GPU"
        " and without some CPU instructions they need.",
        "python.architecture",
        "host.architecture",
        cure=InstallPython(machine),
    )


def _same_machine(python: str, machine: str) -> bool:
    python_name, machine_name = (
        _SAME_MACHINE.get(name.lower(), name.lower()) for name in (python, machine)
    )
    # python-32bit reports a 32-bit interpreter.
    return (
        python_name == machine_name
        or (python_name in ("i686", "i386", "x86") and machine_name == "x86_64")
        or python_name.startswith("armv")
    )


@rule("env-mixed", goal="any")
def interpreter_faults(context: Context) -> Iterator[Finding]:
    """Find a Python that lacks a part of itself, or looks elsewhere than where its packages are."""
    faults = context.python.interpreter_faults.value or ()
    prefix, version = context.python.prefix.value or "", context.python.version.value
    for fault in faults:
        if fault.kind == "other-library":
            minor = fault.name.rpartition("python")[2]
            yield context.report(
                f"The packages of this environment lie in {fault.name}; its Python is {version},"
                " which does not look there.",
                Evidence("python.interpreter_faults", fault.name),
                "python.version",
                cure=RestorePython(prefix, minor),
            )
        elif fault.kind == "front" and not fault.name and not context.python.imports.value:
            yield context.report(
                f"{fault.path} computes a folder in which Python looks first: what lies there was"
                " not read.",
                Evidence("python.interpreter_faults", fault.path),
                verdict=UNDETERMINED,
                severity=NOTE,
            )
    for name, needed in _list_imported(context).items() if faults else ():
        lost = find_lost_modules(context, needed)
        if lost:
            yield describe_lost_modules(context, name, lost)
            return


def find_lost_modules(context: Context, names: AbstractSet[str]) -> list[InterpreterFault]:
    """Find what this Python lacks of its own among modules, or below what wraps them: _ssl.

    Code of its start takes a module away as well.
    """
    faults = context.python.interpreter_faults.value or ()
    lost = (fault for fault in faults if fault.kind in ("lacks", "unloadable", "replaced"))
    return [fault for fault in lost if not names.isdisjoint((fault.name, fault.name.lstrip("_")))]


# What Python's own library and NumPy go on without.
_GUARDED = frozenset(("_ctypes", "ctypes", "bz2", "lzma", "ssl", "zlib"))


def _list_imported(context: Context) -> dict[str, frozenset[str]]:
    """Map what is installed and recorded, frameworks first, to the modules that it needs.

    Recorded imports took something from what is needed, and no more than loaded the others. One may
    go on without a module of another distribution, unless it requires that one, too.
    """
    names = (*context.installed_frameworks, *companions())
    items = context.distributions.values()
    imported = {}
    for name in names:
        own = [item for item in items if name in (item.name, framework_of(item.name))]
        required = {need for item in own for need in name_needs(item.requires)}
        others = {each for item in items if item not in own for each in item.modules}
        optional = others - {
            each for item in items if item.name in required for each in item.modules
        }
        needed, loaded = imported_modules(name)
        if own:
            imported[name] = (needed - optional) | (loaded - _GUARDED - others)
    return imported


def describe_lost_modules(context: Context, name: str, faults: list[InterpreterFault]) -> Finding:
    """Say which parts of itself a Python lacks, and which import needs them."""
    replaced = next((fault for fault in faults if fault.kind == "replaced"), None)
    own = tuple(item for item in context.distributions if framework_of(item) == name)
    about = About(framework_of(name) or name, names=own)
    imported = f"`import {name.replace('-', '_')}` needs it."
    if replaced:
        return context.report(
            f"{replaced.path}, which runs when Python starts, replaces the module {replaced.name}:"
            f" {imported}",
            Evidence("python.interpreter_faults", f"{replaced.path}: {replaced.name}"),
            finding_id=DEATH,
            severity=ERROR,
            cure=LeaveOutFolders((), replaced.path),
            about=about,
            stops=IMPORT,
        )
    modules = tuple(fault.name for fault in faults)
    files = [f"{fault.path} needs {fault.library}" for fault in faults if fault.path]
    why = f" ({files[0]}, which is not found)" if files else ""
    return context.report(
        f"This Python has no {' and no '.join(modules)}{why}: {imported}",
        Evidence("python.interpreter_faults", ", ".join(modules)),
        "python.version",
        finding_id=DEATH,
        cure=InstallPython(lacks=modules),
        about=about,
        stops=IMPORT,
    )


@rule("env-mixed", goal="any", installs=True)
def pip_refuses(context: Context) -> Iterator[Finding]:
    """Find an installation into a Python that its distribution manages: pip refuses it."""
    if context.command and context.python.externally_managed.value:
        from envcheck.model.quoting import quote  # of a file's commands alone

        yield context.report(
            f"`{quote(context.command)}` fails: this Python is externally managed (PEP 668), so pip"
            " installs into virtual environments only.",
            "python.externally_managed",
            cure=Advise(
                "Install python3-venv, and add `RUN python3 -m venv /opt/venv` and "
                "`ENV PATH=/opt/venv/bin:$PATH` before it. In an image for this program alone, "
                "--break-system-packages works too."
            ),
        )


@rule("pip-too-old", goal="any", installs=True)
def pip_too_old(context: Context) -> Iterator[Finding]:
    """Find a pip too old for a platform tag, which sees no matching distribution."""
    for build in target_builds(context):
        need = None
        if build.release and not build.installed:
            need = easiest_for_pip(build.release)
        if need is None:
            continue
        pip = context.need(context.python.pip_version, "python.pip_version")
        if pip is None or is_met(pip, f">={need.pip}"):
            continue
        yield context.report(
            f"The wheels of {build.label} carry the platform tag {need.tag}, which pip supports"
            f" from {need.pip} on; this environment has pip {pip}.",
            "python.pip_version",
            cite(build.label, need.tag, build),
            Evidence("pip tags", f"{need.tag} needs pip >= {need.pip}", citation=need.citation),
            cure=UpdatePip(build.pin),
        )


@rule("glibc-too-old", goal="any", installs=True)
def glibc_too_old(context: Context) -> Iterator[Finding]:
    """Find wheels that need a newer C library than this system has."""
    for wanted in wanted_releases(context):
        if wanted.obstacle == GLIBC and _has_glibc(context):
            lowest = min(wanted.rejected, key=lambda row: Version(wheel_glibc(row)))
            yield _glibc_finding(context, wanted.text, wheel_glibc(lowest), lowest)
    for build in judged_builds(context):
        floor = ""
        if build.release and not is_conda_build(context, build):
            floor = wheel_glibc(build.release)
        libc = context.host.libc_version
        if floor and isinstance(libc, Unknown) and not build.installed:
            context.need(libc, "host.libc_version")
        if not floor or not libc.value or is_met(libc.value, f">={floor}"):
            continue
        if _has_glibc(context):
            yield _glibc_finding(context, build.label, floor, build)


def _has_glibc(context: Context) -> bool:
    """Return whether the version of the C library is one of glibc; musl numbers its own."""
    return context.need(context.host.libc_kind, "host.libc_kind") in (None, "glibc")


def _glibc_finding(
    context: Context, label: str, floor: str, row: FrameworkRelease | Build
) -> Finding:
    libc = context.host.libc_version.value
    return context.report(
        f"{label} needs glibc {floor} or newer; this system has"
        f" {f'glibc {libc}' if libc else 'an older one'}.",
        "host.libc_version",
        cite(label, f"needs glibc >= {floor}", row),
        cure=UseNewerGlibc(floor),
    )


@rule("libstdcxx-mismatch", severity=WARNING, goal="any")
def libstdcxx_mismatch(context: Context) -> Iterator[Finding]:
    """Find an environment's own libstdc++ that is older than wheels with this tag may need."""
    python = context.python
    path, glibcxx = python.libstdcxx_path.value, python.libstdcxx_glibcxx
    # of a copy that is proven to lack a version, another rule says so
    faults = python.link_faults.value or ()
    if path is None or isinstance(glibcxx, (Absent, Unknown)) or path in {x.found for x in faults}:
        return
    for build in judged_builds(context):
        need = ""
        if build.release and not is_conda_build(context, build):
            need = tag_glibcxx(build.release)
        if not need or is_met(glibcxx.value, f">={need}"):
            continue
        yield context.report(
            f"This Python loads {path}, which provides GLIBCXX up to {glibcxx.value}; wheels"
            f" tagged like those of {build.label} may need GLIBCXX_{need}.",
            "python.libstdcxx_path",
            "python.libstdcxx_glibcxx",
            cite(build.label, f"tag admits GLIBCXX_{need}", build),
            cure=FollowRow("update"),
        )


@rule("msvc-runtime-missing", goal="any")
def msvc_runtime_missing(context: Context) -> Iterator[Finding]:
    """Report wheels on Windows without Microsoft's redistributable.

    conda brings its own.
    """
    wheels = [
        build
        for build in judged_builds(context)
        if not ("vc14-runtime" in context.distributions or is_conda_build(context, build))
    ]
    if context.os != "windows" or not wheels or not isinstance(context.host.msvc_runtime, Absent):
        return
    yield context.report(
        f"{wheels[0].label} is linked with Microsoft's Visual C++ runtime, which is not installed:"
        " importing it fails with 'DLL load failed'.",
        "host.msvc_runtime",
        cure=FollowRow(),
    )


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
