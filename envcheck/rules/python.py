"""Rules about the inspected interpreter, its pip and the C libraries below it."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from packaging.version import Version

from envcheck.frameworks import companions, framework_of, identities, imported_modules
from envcheck.model import (
    ERROR,
    IMPORT,
    NOTE,
    UNDETERMINED,
    WARNING,
    About,
    Absent,
    Advise,
    Evidence,
    Finding,
    FollowRow,
    InterpreterFault,
    Unknown,
)
from envcheck.model.fixes import (
    InstallPython,
    LeaveOutFolders,
    RestorePython,
    UpdatePip,
    UseNewerGlibc,
)
from envcheck.model.releases import FrameworkRelease
from envcheck.model.versions import name_needs
from envcheck.rules.builds import Build, is_conda_build
from envcheck.rules.context import Context, cite, rule
from envcheck.rules.installed_files import DEATH
from envcheck.rules.requirements import easiest_for_pip, is_met, tag_glibcxx, wheel_glibc
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
    wheels = [build for build in judged_builds(context) if not _brings_runtime(context, build)]
    if context.os != "windows" or not wheels or not isinstance(context.host.msvc_runtime, Absent):
        return
    yield context.report(
        f"{wheels[0].label} is linked with Microsoft's Visual C++ runtime, which is not installed:"
        " importing it fails with 'DLL load failed'.",
        "host.msvc_runtime",
        cure=FollowRow(),
    )


def _brings_runtime(context: Context, build: Build) -> bool:
    return "vc14-runtime" in context.distributions or is_conda_build(context, build)
