"""Judge what the loader cannot load.

Libraries that are missing, and symbols that the libraries there do not define.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from envcheck.frameworks import companions, framework_of
from envcheck.matrix.companions import companion_row, date_symbol
from envcheck.matrix.package_index import cuda_label
from envcheck.model import (
    ERROR,
    IMPORT,
    NOT_STATED,
    USE,
    WARNING,
    About,
    Advise,
    Distribution,
    Evidence,
    Extension,
    Finding,
    Fix,
    FollowRow,
    Known,
    LinkFault,
    Source,
    major,
    major_minor,
    numbers,
)
from envcheck.model.fixes import (
    InstallCudaLibraries,
    InstallRequirements,
    InstallSystemLibrary,
    InstallToolkit,
    LeaveOutOldLibrary,
    MatchCudaOfPackage,
    MatchInstalledFramework,
    RebuildExtension,
    RemoveFromLibraryPath,
    ReplaceCudaWheels,
    ReplaceLabelledBuild,
    RestoreRequirements,
    UseNewerGlibc,
)
from envcheck.model.text import find_group
from envcheck.model.versions import find_requirement, name_of, within
from envcheck.rules.builds import Build, installed_builds, label_cuda
from envcheck.rules.context import Context, cite, once, rule
from envcheck.rules.gpu_releases import constraints_on
from envcheck.rules.python import find_import
from envcheck.rules.requirements import Need, marker_holds, needs_of
from envcheck.rules.targets import judged_builds, package_builds
from envcheck.rules.toolkit import built_for_cuda, library_name

CONFLICT = "cuda-wheel-conflict"
LACKS_WHEEL = "framework-cuda-extra-missing"
OTHER_BUILD = "extension-build-mismatch"
OTHER_COPY = "toolkit-path-conflict"
MISSING = "library-missing"
TOOLKIT = "toolkit-missing"
OLD_SYSTEM_LIBRARY = "libstdcxx-mismatch"
OLD_LIBC = "glibc-too-old"
_SYMBOLS = ("missing-symbol", "missing-symbol-version")


@once
def link_faults(context: Context) -> tuple[LinkFault, ...]:
    """List what the loader cannot load; () where the description of a machine leaves that open."""
    fact = context.python.link_faults
    return _of_goal(
        context, () if fact == NOT_STATED else context.need(fact, "python.link_faults") or ()
    )


def _of_goal(context: Context, faults: tuple[LinkFault, ...]) -> tuple[LinkFault, ...]:
    return tuple(
        item for item in faults if context.goal == "gpu" or not item.needs_gpu or item.stops
    )


def is_proven(context: Context, owner: str, name: str) -> bool:
    """Return whether a link fault already reports an unmet requirement."""
    fact = context.python.link_faults.value
    faults = _of_goal(context, fact or ())
    faults = tuple(item for item in faults if item.distribution == owner)
    return any(
        name == item.found_in or (item.wheel and name.startswith("nvidia-")) for item in faults
    )


@rule(
    MISSING,
    CONFLICT,
    LACKS_WHEEL,
    OTHER_BUILD,
    OTHER_COPY,
    TOOLKIT,
    OLD_SYSTEM_LIBRARY,
    OLD_LIBC,
    goal="any",
)
def libraries_that_do_not_load(context: Context) -> Iterator[Finding]:
    """Find imports that die in the loader: one finding for each distribution that is to blame."""
    groups: dict[tuple[str, str, str], list[LinkFault]] = {}
    faults = link_faults(context)
    dead = {item.distribution for item in faults if item.kind == "missing-name"}
    for fault in faults:
        is_consequence = fault.distribution in dead and fault.kind != "missing-name"
        if fault.kind != "damaged" and not is_consequence and not _is_damaged(context, fault):
            blamed = fault.found_in or fault.wheel or fault.found
            if fault.wheel and _lacks_wheel(context, fault):
                blamed = LACKS_WHEEL  # one fault, however many wheels are missing
            groups.setdefault((fault.distribution, fault.kind, blamed), []).append(fault)
    for group in groups.values():
        if _is_extension(group[0]):
            yield from _extension(context, group[0])
        elif group[0].kind == "other-cuda":
            yield from _other_cuda(context, group[0])
        elif group[0].kind == "missing-library":
            yield from _missing(context, group)
        else:
            yield _lacking(context, group[0])


def _lacks_wheel(context: Context, fault: LinkFault) -> bool:
    """Whether a library is missing because the wheel that is required for it is not installed."""
    return (
        fault.kind == "missing-library"
        and framework_of(fault.distribution) != ""
        and not any(_is_of(name, fault.wheel) for name in context.distributions)
        and bool(_wheel_pins(context, fault))
    )


def _is_extension(fault: LinkFault) -> bool:
    """Return whether nobody recorded what the import of a distribution does without the file."""
    return (
        not fault.stops
        and not framework_of(fault.distribution)
        and fault.distribution not in companions()
    )


def _is_minor(context: Context, fault: LinkFault) -> bool:
    """Return whether what is meant to work here goes on without the file."""
    return fault.stops == USE and not (fault.needs_gpu and context.goal == "gpu")


def _fail(context: Context, fault: LinkFault) -> str:
    """Begin a sentence with what a fault ends."""
    if _is_minor(context, fault):
        effect = "is imported without its compiled code"
    else:
        effect = "cannot use a GPU" if fault.needs_gpu else "cannot be imported"
    return f"{_label(context, fault.distribution)} {effect}"


def _report(
    context: Context, fault: LinkFault, message: str, finding_id: str, cure: Fix, *shown: Evidence
) -> Finding:
    name = fault.distribution
    return context.report(
        message,
        *(shown or _evidence(fault)),
        finding_id=finding_id,
        severity=WARNING if _is_minor(context, fault) else ERROR,
        cure=cure,
        about=About(distribution=name, names=(name,) if finding_id == OTHER_BUILD else ()),
        stops="gpu" if fault.needs_gpu else IMPORT,
    )


def _extension(context: Context, fault: LinkFault) -> Iterator[Finding]:
    """Report an extension that needs symbols that the framework lacks.

    Other rules compare CUDA and Python.
    """
    # its CUDA says more
    if fault.kind in _SYMBOLS and fault.distribution not in mismatched_extensions(context):
        owner = fault.found_in or fault.library
        message = (
            f"{_label(context, fault.distribution)} was built for another {owner}:"
            f" {posixpath.basename(fault.file)} needs {fault.symbols[0]}, which {fault.library} of"
            f" {_label(context, owner)} does not define. Loading it fails; the framework itself"
            " works."
        )
        cure: Fix = RebuildExtension(fault.distribution)
        if _names_release(context, fault):
            cure = _match_framework(context, fault)
        yield context.report(
            message,
            *_evidence(fault),
            finding_id=OTHER_BUILD,
            severity=WARNING,
            cure=cure,
            about=About(names=(fault.distribution,)),
        )


def _match_framework(context: Context, fault: LinkFault) -> Fix:
    framework = context.distributions[fault.found_in]
    return MatchInstalledFramework(fault.distribution, framework.name, framework.version)


def _names_release(context: Context, fault: LinkFault) -> bool:
    """Return whether an extension requires certain releases of the framework."""
    item = context.distributions.get(fault.distribution)
    requirements = filter(None, map(find_requirement, item.requires if item else ()))
    is_bounded = any(each.name == fault.found_in and each.specifier for each in requirements)
    return fault.found_in in context.distributions and is_bounded


def _other_cuda(context: Context, fault: LinkFault) -> Iterator[Finding]:
    """Report a companion that refuses its framework's CUDA, or holds nothing for it."""
    framework, companion = (
        context.distributions.get(name) for name in (fault.found_in, fault.distribution)
    )
    if framework is None or companion is None:
        return
    own, other = fault.symbols[0], fault.symbols[-1]
    message = (
        f"{_fail(context, fault)}: it was built for CUDA {own}, and"
        f" {_label(context, framework.name)} for CUDA {other}."
    )
    pins = [f"{item.name}=={item.public}" for item in (framework, companion)]
    cure: Fix = RebuildExtension(companion.name)  # a newer release may hold more
    if fault.stops != USE:
        framework_label = framework.version.partition("+")[2]
        cure = MatchCudaOfPackage(
            companion.name, pins[1], pins[0], framework_label, cuda_label(own)
        )
    evidence = (
        Evidence(fault.file, f"CUDA {own}", Source("file", fault.file)),
        Evidence(fault.found, f"CUDA {other}", Source("file", fault.found)),
    )
    yield _report(context, fault, message, OTHER_BUILD, cure, *evidence)


def _is_damaged(context: Context, fault: LinkFault) -> bool:
    """Return whether damaged files, an error of another rule, explain a missing library."""
    faults = context.python.file_faults.value or ()
    damaged = {item.distribution for item in faults if find_import(context, item)}
    owners = {name for name in context.distributions if _is_of(name, fault.wheel)} or {
        fault.asked_by
    }
    return fault.kind == "missing-library" and not damaged.isdisjoint(owners)


def _missing(context: Context, faults: list[LinkFault]) -> Iterator[Finding]:
    """Report libraries that the loader does not find, of one wheel or of none."""
    fault = faults[0]
    sonames = tuple(dict.fromkeys(item.library for item in faults))
    need = (
        f"{_fail(context, fault)}: {posixpath.basename(fault.file)} needs"
        f" {' and '.join(sonames[:3])}"
    )
    lost = f"{need}, which {'is' if len(sonames) == 1 else 'are'} not found"
    if fault.symbols:
        lost = (
            f"{_fail(context, fault)}: it needs one of {', '.join(fault.symbols)}, and none is"
            " found"
        )
    torch = None if framework_of(fault.distribution) else _extension_host(context)
    reason = _compare_cuda(context, torch, sonames) if torch else ""
    pins = _wheel_pins(context, fault)
    installed = [item for name, item in context.distributions.items() if _is_of(name, fault.wheel)]
    if reason:
        rebuild = RebuildExtension(fault.distribution)
        yield _report(
            context, fault, f"{_fail(context, fault)}: it {reason}.", OTHER_BUILD, rebuild
        )
        return
    if not pins:
        yield from _outside_wheels(context, sonames, fault, lost)
        return
    pin = pins[0]
    required = f"{_label(context, pin.owner.name)} requires {pin.requirement}"
    unmet = _unmet(context, fault.distribution, pin)
    if installed:
        message = (
            f"{need}, which {installed[0].name} {installed[0].version} does not hold; {required}."
        )
        is_met = pin.found and not pin.is_broken  # it is the right one, without its library
        cure = ReplaceCudaWheels((pin.name,), unmet) if is_met else InstallRequirements(unmet)
        yield _report(context, fault, message, CONFLICT, cure)
        return
    yield _report(context, fault, *_describe_lost_wheels(context, faults, pin, unmet))


def _describe_lost_wheels(
    context: Context, faults: list[LinkFault], pin: Need, unmet: tuple[str, ...]
) -> tuple[str, str, Fix]:
    """Describe all wheels that a framework lacks.

    Where it lacks more than wheels, pip brings them all.
    """
    fault = faults[0]
    sonames = tuple(dict.fromkeys(item.library for item in faults))
    more = f" and {len(sonames) - 1} more libraries" if sonames[1:] else ""
    verb = "are" if more else "is"
    others = len({item.wheel for item in faults}) - 1
    label = _label(context, pin.owner.name)
    wheels = f"{pin.requirement}{f' and {others} more wheels' if others else ''}"
    message = (
        f"{_fail(context, fault)}: {posixpath.basename(fault.file)} needs {sonames[0]}{more}, which"
        f" {verb} not found; {label} requires {wheels}, which {'are' if others else 'is'} not"
        " installed."
    )
    absent = _absent_requirements(context, fault.distribution)
    if not absent:
        framework = context.matrix.framework_of(fault.distribution)
        return message, LACKS_WHEEL, InstallCudaLibraries(framework, unmet, are_pinned=True)
    owner = context.distributions[fault.distribution]
    public = owner.public
    bounds = constraints_on(context, owner.name, public, list(map(name_of, absent)))
    message = f"{message} It lacks {name_of(absent[0])} and others that it requires, too."
    return (
        message,
        LACKS_WHEEL,
        RestoreRequirements(f"{owner.name}=={public}", bounds, is_missing=True),
    )


def _outside_wheels(
    context: Context, sonames: tuple[str, ...], fault: LinkFault, lost: str
) -> Iterator[Finding]:
    """Report libraries of no NVIDIA wheel.

    Of what the distribution requires, of a CUDA Toolkit or of the system.
    """
    if not fault.wheel or not framework_of(fault.distribution):
        absent = _absent_requirements(context, fault.distribution)
        more = f" and {len(absent) - 1} more" if absent[1:] else ""
        because = ""
        if absent:
            because = (
                f"; it requires {absent[0]}{more}, which {'are' if more else 'is'} not installed"
            )
        cure: Fix = InstallSystemLibrary(" or ".join(fault.symbols) or sonames[0])
        if absent:
            cure = InstallRequirements(absent)
        yield _report(context, fault, f"{lost}{because}.", MISSING, cure)
    elif (
        context.goal == "cpu"
    ):  # where GPUs are meant to work, the rules of the toolkit and of cuDNN say it
        framework = context.matrix.framework_of(fault.distribution)
        builds = (item for item in installed_builds(context) if item.framework == framework)
        cuda = next((item.cuda.value or "" for item in builds), "")
        cure = InstallToolkit(cuda, framework, fault.distribution) if cuda else FollowRow()
        yield _report(context, fault, f"{lost}.", TOOLKIT, cure)


def _absent_requirements(context: Context, name: str) -> tuple[str, ...]:
    """List what a distribution requires that is not installed, as it is typed.

    NVIDIA's wheels are judged apart.
    """
    owner = context.distributions.get(name)
    absent = [
        need
        for need in (needs_of(context, owner) if owner else ())
        if need.found is None and need.is_broken and not (need.by_extra or need.is_cuda_wheel)
    ]
    # what is compiled brings libraries
    absent.sort(key=lambda need: not companion_row(need.name).distributions)
    return tuple(need.requirement for need in absent)


def _lacking(context: Context, fault: LinkFault) -> Finding:
    """Report a library without the symbols that a file needs.

    It is the wrong release or the wrong copy.
    """
    glibc = fault.symbols[0].partition("GLIBC_")[2]
    if glibc and not fault.found:
        message = (
            f"{_fail(context, fault)}: {posixpath.basename(fault.file)} needs glibc {glibc} or"
            " newer."
        )
        return _report(context, fault, message, OLD_LIBC, UseNewerGlibc(glibc))
    symbol = ("the version " if fault.kind == "missing-symbol-version" else "") + fault.symbols[0]
    holder = _label(context, fault.found_in) if fault.found_in else fault.found
    of_framework = fault.kind in ("missing-symbol", "missing-name") and framework_of(fault.found_in)
    # any of its libraries may define it
    definer = holder if of_framework else f"{fault.library} of {holder}"
    need = f"{posixpath.basename(fault.file)} needs {symbol}"
    if fault.kind == "missing-name":
        item = context.distributions.get(fault.distribution)
        need = (
            f"{posixpath.relpath(fault.file, item.location if item else '/')} uses"
            f" {fault.library}.{symbol}"
        )
    message = f"{_fail(context, fault)}: {need}, which {definer} does not define"
    if not fault.found_in and not fault.wheel:
        return _report(context, fault, f"{message}.", OLD_SYSTEM_LIBRARY, _old_copy(fault))
    if not fault.found_in:
        folder = posixpath.dirname(fault.found)
        cure: Fix = RemoveFromLibraryPath((folder,))
        if fault.via != "LD_LIBRARY_PATH":
            own = f"the framework brings its own {fault.library}"
            cure = Advise(f"Remove the copy in {folder}: {own}.")
        return _report(context, fault, f"{message}.", OTHER_COPY, cure)
    if not fault.wheel:
        built = _built_for(context, fault) if of_framework else ""
        return _report(
            context, fault, f"{message}{built}.", OTHER_BUILD, _match_framework(context, fault)
        )
    pins = _wheel_pins(context, fault)
    if pins and pins[0].specifier:
        required = (
            f"{message}; {_label(context, pins[0].owner.name)} requires {pins[0].requirement}."
        )
        unmet = _unmet(context, fault.distribution, pins[0])
        is_over = fault.found_in != pins[0].name  # its files lie over those of the right one
        if is_over:
            cure = ReplaceCudaWheels((fault.found_in,), unmet)
        else:
            cure = InstallRequirements(unmet)
        return _report(context, fault, required, CONFLICT, cure)
    version = context.distributions[fault.found_in].version
    cure = InstallRequirements((f"{fault.found_in}>{version}",))
    return _report(context, fault, f"{message}; a newer one does.", CONFLICT, cure)


def _built_for(context: Context, fault: LinkFault) -> str:
    """End a sentence with the releases of PyTorch that have a symbol."""
    release = context.distributions[fault.found_in].public
    rows = filter(None, map(date_symbol, fault.symbols))
    row = next((item for item in rows if not (item.unless and within(release, item.unless))), None)
    return f": it was built for {row.built_for}" if row else ""


def _old_copy(fault: LinkFault) -> Fix:
    """Name the folder of LD_LIBRARY_PATH that holds a library of the system."""
    if fault.via != "LD_LIBRARY_PATH":
        return FollowRow("update")
    return LeaveOutOldLibrary(posixpath.dirname(fault.found), fault.library)


def _label(context: Context, name: str) -> str:
    item = context.distributions.get(name)
    return item.label if item else name


def _evidence(fault: LinkFault) -> tuple[Evidence, ...]:
    shown = f"needs {fault.library}"
    if fault.symbols:
        shown += f": {', '.join(fault.symbols)}"
    caller = Evidence(fault.file, shown, Source("file", fault.file))
    if fault.found:
        found = f"found through {fault.via}" if fault.via else "found"
        return (caller, Evidence(fault.library, found, Source("file", fault.found)))
    missing = "not found"
    if fault.elsewhere:
        missing += f"; is at {fault.elsewhere[0]}"
    return (caller, Evidence(fault.library, missing))


def _is_of(name: str, wheel: str) -> bool:
    """Return whether a distribution is a wheel for some CUDA: nvidia-cublas-cu12 is."""
    return bool(wheel) and re.fullmatch(rf"{re.escape(wheel)}(-cu\d+)?", name) is not None


def _wheel_pins(context: Context, fault: LinkFault) -> list[Need]:
    """List what is required of the wheel that holds a library."""
    return [pin for pin in _list_pins(context, fault.distribution) if _is_of(pin.name, fault.wheel)]


@once
def _list_pins(context: Context, importing: str) -> tuple[Need, ...]:
    """List what is required of NVIDIA's wheels.

    By the distribution that is imported, then by what lists them.
    """
    owners = sorted(context.distributions.values(), key=lambda item: item.name != importing)
    return tuple(pin for owner in owners for pin in _pins_of(context, owner))


def _pins_of(context: Context, owner: Distribution) -> Iterator[Need]:
    # cuda-toolkit names each wheel under an extra
    is_list = not context.matrix.framework_of(owner.name)
    for required in filter(None, map(find_requirement, owner.requires)):
        name, marker = required.name, required.marker
        is_unmarked = not marker or ("extra" in marker and is_list)
        if name.startswith("nvidia-") and (
            is_unmarked or ("extra" not in marker and marker_holds(context, marker))
        ):
            found = context.distributions.get(name)
            yield Need(owner, name, required.specifier, found)


def _unmet(context: Context, importing: str, first: Need) -> tuple[str, ...]:
    """Name every wheel required in another release, the one to blame first."""
    unmet = [
        pin
        for pin in _list_pins(context, importing)
        if pin.owner.name == importing and (pin.found is None or pin.is_broken)
    ]
    return tuple(dict.fromkeys(pin.requirement for pin in (first, *unmet)))


@rule(OTHER_BUILD, severity=WARNING, goal="any")
def extension_build_mismatch(context: Context) -> Iterator[Finding]:
    """Find PyTorch extensions built for another CUDA major, or another Python."""
    recorded = {item.distribution for item in context.python.link_faults.value or () if item.stops}
    for extension, reason in mismatched_extensions(context).values():
        if extension.distribution not in recorded:  # what stops without it is said above
            yield _mismatch(context, extension, _extension_host(context), reason)


def _extension_host(context: Context) -> Build | None:
    """Return the installed framework that other packages bring extensions for: PyTorch."""
    return next(
        (build for build in installed_builds(context) if build.traits.cuda.hosts_extensions), None
    )


@once
def mismatched_extensions(context: Context) -> dict[str, tuple[Extension, str]]:
    """Map distributions to their first file for another CUDA or Python, and the reason."""
    extensions = context.python.extensions.value or ()
    torch = _extension_host(context) if extensions else None
    found: dict[str, tuple[Extension, str]] = {}
    for extension in extensions:
        reason = _describe_other_python(context, extension) or (
            _describe_other_cuda(context, torch, extension) if torch else ""
        )
        if reason:
            found.setdefault(extension.distribution or extension.path, (extension, reason))
    return found


@rule(OTHER_BUILD, severity=WARNING)
def package_for_another_cuda(context: Context) -> Iterator[Finding]:
    """Find packages for another CUDA major than PyTorch, where no loader was asked."""
    hosts = (build for build in judged_builds(context) if build.traits.cuda.hosts_extensions)
    torch = next(hosts, None)
    if context.python.link_faults.value is not None or torch is None or not torch.cuda.value:
        return
    cuda = torch.cuda.value
    for build in package_builds(context):
        own = build.cuda.value or cuda
        if major(own) != major(cuda) and companion_row(build.distribution).frameworks:
            evidence = cite(build.label, f"CUDA {own}", build)
            yield context.report(
                f"{build.label} was built for CUDA {major(own)}, and {torch.label} for CUDA {cuda}:"
                " it does not load.",
                evidence,
                *built_for_cuda(torch),
                cure=MatchInstalledFramework(
                    build.distribution, torch.distribution, torch.full_version
                ),
                about=About(distribution=build.distribution, names=(build.distribution,)),
            )


@rule(OTHER_BUILD, severity=WARNING)
def label_of_another_build(context: Context) -> Iterator[Finding]:
    """Find packages whose label names another PyTorch or CUDA: 2.5.8+cu122torch2.2."""
    torch = _extension_host(context)
    if torch is None:
        return
    for item in context.distributions.values():
        label = item.version.partition("+")[2]
        if not label or context.matrix.framework_of(item.name):
            continue
        reason = _labelled_torch(torch, label) or (
            _labelled_cuda(torch, label) if _extends(torch, item, label) else ""
        )
        if reason:
            yield _labelled(context, torch, item, reason)


def _labelled_torch(torch: Build, label: str) -> str:
    """Compare the PyTorch a label names, with dots or without: torch2.2, pt21, torch230."""
    label_version = find_group(r"(?:torch|pt)(\d+(?:\.\d+)*)", label)
    line = major_minor(torch.version)
    if not label_version or ("." in label_version and major_minor(label_version) == line):
        return ""
    digits = line.replace(".", "")
    is_line = (
        "." not in label_version
        and label_version.startswith(digits)
        and len(label_version) <= len(digits) + 1
    )  # and a patch
    return "" if is_line else f"was built for PyTorch {label_version}"


def _labelled_cuda(torch: Build, label: str) -> str:
    """Describe how a companion's CUDA label clashes with torch.

    PyTorch's companions refuse another CUDA major.
    """
    if torch.cuda_build.value is True and re.match(r"cpu\b", label):
        return "was built without CUDA, so its operations fail on the GPU"
    label_version, cuda = label_cuda(label[label.find("cu") :]), torch.cuda.value
    differs = torch.cuda_build.value is False or (
        cuda and numbers(label_version)[:1] != numbers(cuda)[:1]
    )
    return f"was built for CUDA {label_version}" if label_version and differs else ""


def _extends(torch: Build, item: Distribution, label: str) -> bool:
    name = torch.distribution
    is_named = item.name.startswith(name) or re.search(r"torch|pt\d", label) is not None
    return is_named or name in map(name_of, item.requires)


def _labelled(context: Context, torch: Build, item: Distribution, reason: str) -> Finding:
    evidence_seen = context.seen("python.distributions", shown=item.label)
    return context.report(
        f"{item.label} {reason}, but {torch.label} is installed: its compiled code does not fit.",
        evidence_seen,
        *built_for_cuda(torch),
        cure=ReplaceLabelledBuild(item.name, torch.label),
        about=About(names=(item.name,)),
    )


def _describe_other_python(context: Context, extension: Extension) -> str:
    """Compare an extension's ABI tag with the interpreter: _ext.cpython-37m-....so."""
    match = re.search(r"\.cpython-(\d)(\d+)m?d?-", extension.path)
    version = context.python.version.value
    if match is None or not version or major_minor(version) == ".".join(match.groups()):
        return ""
    return f"was built for Python {match.group(1)}.{match.group(2)}, but this is Python {version}"


def _describe_other_cuda(context: Context, torch: Build, extension: Extension) -> str:
    """Compare the CUDA runtime an extension needs with the one its PyTorch loads."""
    if not any(name.startswith(("libtorch", "libc10")) for name in extension.needed):
        return ""
    named = (
        name
        for name in extension.needed
        if name == "libc10_cuda.so" or library_name(name) == "cudart"
    )
    return _compare_cuda(context, torch, tuple(sorted(named, reverse=True)))


def _compare_cuda(context: Context, torch: Build, needed: tuple[str, ...]) -> str:
    """Describe how CUDA libraries that a file needs clash with the CUDA of PyTorch."""
    if torch.cuda_build.value is False:
        names = (*context.matrix.toolkits()[0].sonames, "c10_cuda", "torch_cuda")
        needs_cuda = next((name for name in needed if library_name(name) in names), "")
        if needs_cuda:
            return f"needs CUDA ({needs_cuda}), but {torch.label} is a CPU build"
        return ""
    cuda = torch.cuda.value
    sonames = context.matrix.cuda_sonames(cuda) if cuda else {}
    pairs = ((name, sonames.get(library_name(name), name)) for name in needed)
    other, own = next(((name, own) for name, own in pairs if name != own), ("", ""))
    if other:
        return (
            f"was built for another CUDA: it needs {other}, but {torch.label} loads {own} (CUDA"
            f" {cuda})"
        )
    return ""


def _mismatch(context: Context, extension: Extension, torch: Build | None, reason: str) -> Finding:
    name = extension.distribution or extension.path.rsplit("/", 1)[-1]
    file_evidence = Evidence(extension.path, ", ".join(extension.needed[:4]), _source(context))
    return context.report(
        f"{name} {reason}. Loading it fails; the framework itself works.",
        file_evidence,
        *(built_for_cuda(torch) if torch else ()),
        cure=RebuildExtension(extension.distribution),
        about=About(names=(extension.distribution,)),
    )


def _source(context: Context) -> Source | None:
    extensions = context.python.extensions
    return extensions.source if isinstance(extensions, Known) else None
