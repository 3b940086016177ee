"""Rules about the packages beside a framework.

Unmet requirements, and packages from several places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from envcheck.frameworks import companions, needed_distributions
from envcheck.frameworks import framework as known_framework
from envcheck.host.data_files import load_data
from envcheck.model import (
    ERROR,
    NUMPY_1,
    WARNING,
    About,
    Citation,
    Distribution,
    Evidence,
    FileFault,
    Finding,
    Fix,
    FollowRow,
    Unknown,
    dataclass,
    major,
    major_minor,
)
from envcheck.model.fixes import (
    InstallRequirements,
    LeaveOutFolders,
    MatchInstalledFramework,
    ReinstallParts,
    RestoreRequirements,
)
from envcheck.model.text import shorten
from envcheck.model.versions import clauses, write_pin
from envcheck.rules.builds import unfound_libraries
from envcheck.rules.context import Context, cite, once, rule
from envcheck.rules.cudnn import installed_version
from envcheck.rules.gpu_releases import constraints_on, problem_findings
from envcheck.rules.linking import is_proven
from envcheck.rules.python import find_import
from envcheck.rules.requirements import (
    KnownBreak,
    Need,
    TriedRelease,
    is_met,
    is_nvidia,
    needs_of,
    tried_citation,
    tried_release,
)
from envcheck.rules.targets import judged_builds, judged_frameworks

OTHER, BUILD = "dependency-conflict", "extension-build-mismatch"
_ABOUT = {
    "numpy": "numpy-abi",
    "protobuf": "protobuf-conflict",
    "keras": "keras-mismatch",
    "tf-keras": "keras-mismatch",
    "tensorflow-estimator": "keras-mismatch",
}


@once
def violations(context: Context) -> tuple[Need, ...]:
    """List the broken pins among the frameworks, what they need, and what needs them."""
    return tuple(_search(context))


def broken_pins(context: Context) -> tuple[Need, ...]:
    """List every unmet requirement of any distribution, without those of extras."""
    return tuple(
        need
        for owner in context.distributions.values()
        for need in needs_of(context, owner)
        if need.is_broken and not need.by_extra
    )


def _search(context: Context) -> Iterator[Need]:
    frameworks = {name for name in context.distributions if context.matrix.framework_of(name)}
    if not frameworks:
        return
    names = [name for name in context.distributions if name in frameworks]
    visited = set(frameworks)
    while names:
        for need in needs_of(context, context.distributions[names.pop(0)]):
            if need.is_broken:
                yield need
            if need.found is not None and need.name not in visited:
                visited.add(need.name)
                names.append(need.name)
    yield from _dependants(context, frameworks, visited)


def _dependants(context: Context, frameworks: set[str], visited: set[str]) -> Iterator[Need]:
    """Yield broken pins on a framework's neighbours, and all of its companions.

    Of what requires a framework also what it lacks, in turn: its import needs that.
    """
    on_top = [
        owner
        for owner in context.distributions.values()
        if owner.name not in visited and _requires(owner, frameworks)
    ]
    visited.update(owner.name for owner in on_top)
    while on_top:
        owner = on_top.pop(0)
        is_companion = owner.name in companions() or context.matrix.companion_of(owner.name)
        for need in needs_of(context, owner):
            is_reported = is_companion or need.name in frameworks or need.found is None
            if need.is_broken and is_reported:
                yield need
            if need.found is not None and need.name not in visited:
                visited.add(need.name)
                on_top.append(need.found)


def _requires(owner: Distribution, names: set[str]) -> bool:
    lines = "\n".join(("", *owner.requires)).lower().replace("_", "-")
    return any(f"\n{start}" in lines for start in names)


def _is_other_build(item: Need) -> bool:
    """Return whether it was compiled against another minor release of its framework.

    Their symbols differ.
    """
    pin = item.specifier.removeprefix("==")
    is_compiled = pin != item.specifier and companions().get(item.owner.name) == item.name
    return is_compiled and item.found is not None and major_minor(pin) != major_minor(item.version)


def _subject_of(context: Context, item: Need) -> str:
    """Return the finding id that a broken pin leads to.

    The loader's own answer outranks the release it names.
    """
    if _is_other_build(item) and isinstance(context.python.link_faults, Unknown):
        return BUILD
    if item.found is None:
        return OTHER
    if item.is_cuda_wheel:
        return "cuda-wheel-conflict"
    return _ABOUT.get(item.owner.name if item.owner.name == "tf-keras" else item.name, OTHER)


def pin_findings(
    context: Context, finding_id: str, name: str = "", reported: Sequence[Finding] = ()
) -> Iterator[Finding]:
    """Yield the broken pins of one finding id: errors first.

    Those on one name are left out where a known problem of the same owner was `reported` before.
    """
    items = [
        item
        for item in violations(context)
        if _subject_of(context, item) == finding_id
        and not (
            item.name == name
            and any(each.message.startswith(f"{item.owner.name} ") for each in reported)
        )
        and not is_proven(context, item.owner.name, item.name)
        and not _is_harmless(context, item)
    ]
    kinds: dict[Callable[[Context, list[Need]], Finding], dict[str, list[Need]]]
    kinds = {_finding: {}, _lost_metadata: {}, _missing: {}, _wheels_finding: {}}
    for item in items:
        kind, key = _finding, f"{item.owner.name} {item.requirement}"
        if item.found is None and is_unowned(context, item.name):
            kind, key = _lost_metadata, item.name
        elif item.found is None:
            kind, key = _missing, item.owner.name
        elif item.is_cuda_wheel:
            kind, key = _wheels_finding, item.owner.name
        kinds[kind].setdefault(key, []).append(item)
    findings = [
        report(context, group)
        for report, groups in kinds.items()
        for group in groups.values()
        if report is not _wheels_finding or _loads_wheels(context, group)
    ]
    yield from sorted(findings, key=lambda finding: finding.severity != ERROR)


_BUILDERS = ("setuptools", "wheel")


def _is_harmless(context: Context, item: Need) -> bool:
    """Return whether an old release of what builds packages is all: what is installed is built."""
    if item.name not in _BUILDERS or item.found is None or _known_break(context, item):
        return False
    bounds = clauses(item.specifier.replace(" ", ""))
    missed = [each for each in bounds if not is_met(item.version, each.operator + each.version)]
    return bool(missed) and all(each.operator in (">=", ">") for each in missed)


def breaks_framework(context: Context) -> bool:
    """Return whether an installed framework depends on a package that it cannot work with."""
    abouts = ("numpy-abi", "protobuf-conflict", "keras-mismatch", OTHER)
    return any(item.severity == ERROR for about in abouts for item in pin_findings(context, about))


def fails_with_requirements(context: Context, owner: Distribution) -> bool:
    """Return whether a distribution is known to fail with a required release."""
    own = (item for item in violations(context) if item.owner == owner)
    return any(_known_break(context, item) for item in own)


def _finding(context: Context, items: list[Need]) -> Finding:
    item, owner = items[0], items[0].owner.label
    requirement = f"{item.name}{item.specifier}"
    known_break = _known_break(context, item)
    return context.report(
        f"{owner} requires {requirement}, but {item.name} {item.version} is installed"
        f"{_describe_trial(context, item, known_break)}",
        ("python.distributions", f"{owner}: Requires-Dist {requirement}"),
        *_cited(context, item),
        *_tried(known_break),
        finding_id=_subject_of(context, item),
        severity=_severity(context, item, known_break),
        cure=_build_cure(context, item),
    )


def _describe_trial(context: Context, item: Need, known_break: KnownBreak | None) -> str:
    """End the sentence with what is known of the two.

    That they fail, that they were seen to work.
    """
    if known_break:
        return f", with which it is known to fail: {known_break.failure}."
    if _subject_of(context, item) == BUILD:
        return (
            f": it was built for {item.name} {item.specifier.removeprefix('==')}, and its compiled"
            " code does not fit."
        )
    row = _tried_release(context, item.owner)
    if row and item.found and row.works_with(item.found):
        return ". Importing it and a small computation were seen to work with it."
    return "."


def _known_break(context: Context, item: Need) -> KnownBreak | None:
    """Find what is known to fail.

    Between a framework and what it requires, or what comes beside it.
    """
    if item.found is None:
        return None
    row = _tried_release(context, item.owner)
    if row is not None:
        return row.find_break(item.found)
    beside = _tried_release(context, item.found)
    return beside.find_break(item.owner) if beside is not None else None


def _tried_release(context: Context, item: Distribution) -> TriedRelease | None:
    return tried_release(context.matrix.framework_of(item.name), item.version)


def _tried(known_break: KnownBreak | None) -> tuple[Evidence, ...]:
    if known_break is None:
        return ()
    fact = f"fails with {known_break.requirement}"
    return (Evidence(fact, known_break.failure, citation=tried_citation()),)


def is_unowned(context: Context, name: str) -> bool:
    """Whether the module of a distribution is there although its metadata is not."""
    module = context.matrix.module_of(name) or name.replace("-", "_")
    return module in (context.python.unowned_modules.value or ())


def _lost_metadata(context: Context, items: list[Need]) -> Finding:
    """Report a distribution that is required and there, without metadata: its import goes on."""
    item, owner = items[0], items[0].owner.label
    return context.report(
        f"The metadata of {item.name}, which {owner} requires, is lost; its module is there.",
        ("python.distributions", f"{owner}: Requires-Dist {item.requirement}"),
        "python.unowned_modules",
        finding_id=OTHER,
        severity=WARNING,
        cure=InstallRequirements((item.requirement,)),
    )


def _missing(context: Context, items: list[Need]) -> Finding:
    """Report everything that a distribution lacks in one finding; reinstalling it adds that."""
    owner = items[0].owner
    # a toolkit of the system may hold what CUDA wheels bring
    is_found = _finds_libraries(context, owner)
    needs = {
        name: label
        for name, label in _needed_names(context).items()
        if not (is_found and is_nvidia(name))
    }
    names = sorted((item.name for item in items), key=lambda name: name not in needs)
    missing = shorten(names, 5)
    needed = [name for name in names if name in needs]
    failure = ""
    evidence: tuple[Evidence, ...] = ()
    if needed:
        which = needed[0] if len(needed) == 1 else "them"
        failure = f" Importing {needs[needed[0]]} fails without {which}."
        shown = ", ".join(needed[:5])
        evidence = (Evidence("needed to import", shown, citation=tried_citation()),)
    return context.report(
        f"{owner.label} requires {missing}, which"
        f" {'is' if len(names) == 1 else 'are'} not installed.{failure}",
        ("python.distributions", f"{owner.label}: Requires-Dist {missing}"),
        *_cited(context, items[0]),
        *evidence,
        finding_id=OTHER,
        severity=ERROR if needed else WARNING,
        cure=_restore(context, items, is_missing=True),
    )


@once
def _needed_names(context: Context) -> dict[str, str]:
    """Map what importing an installed framework fails without to that framework."""
    names: dict[str, str] = {}
    for framework in judged_frameworks(context):
        row = tried_release(framework.name, framework.main.version)
        library = known_framework(framework.name).library
        for name in (*(row.needs if row else ()), *((library,) if library else ())):
            names.setdefault(name, framework.main.label)
    for item in context.distributions.values():
        for name in needed_distributions(item.name):
            names.setdefault(name, item.label)
    return names


def _restore(
    context: Context, items: list[Need], *, is_missing: bool = False
) -> RestoreRequirements:
    """State what brings back all that one distribution requires.

    Itself, as it is there, and what is not met.
    """
    owner = items[0].owner
    public = owner.public
    extra = next(filter(None, (_extra(context, item) for item in items)), "")
    constraints = constraints_on(
        context, owner.name, public, [item.name for item in items if item.found is None]
    )
    unmet = [item.requirement for item in items if item.found is not None]
    pin = write_pin(owner.name, public, (extra,))
    return RestoreRequirements(pin, (*constraints, *unmet), is_missing)


def _loads_wheels(context: Context, items: list[Need]) -> bool:
    """Return whether CUDA wheels matter.

    On a CPU those alone that importing the framework loads.
    """
    framework = context.matrix.framework_of(items[0].owner.name)
    is_linked = framework != "" and known_framework(framework).cuda.brings_libraries
    return context.goal == "gpu" or (is_linked and not all(item.by_extra for item in items))


def _wheels_finding(context: Context, items: list[Need]) -> Finding:
    """Report all CUDA wheels that are not what one distribution pins in one finding."""
    owner = items[0].owner
    known_breaks = [_known_break(context, item) for item in items]
    is_error = any(known_breaks) or (
        any(map(_is_other_major, items)) and not _finds_libraries(context, owner)
    )
    labels = [f"{item.requirement} (installed: {item.version})" for item in items]
    first_break = next(filter(None, known_breaks), None)
    failure = ""
    if first_break:
        failure = f" It is known to fail with {first_break.requirement}: {first_break.failure}."
    shown = f"{owner.label}: Requires-Dist {shorten([item.requirement for item in items], 3)}"
    return context.report(
        f"{owner.label} requires other releases of its CUDA wheels: {shorten(labels, 3)}.{failure}",
        ("python.distributions", shown),
        *_cited(context, items[0]),
        *_tried(first_break),
        finding_id="cuda-wheel-conflict",
        severity=ERROR if is_error and context.matrix.framework_of(owner.name) else WARNING,
        cure=_restore(context, items),
    )


def _is_other_major(item: Need) -> bool:
    """Return whether no library of the wheel has the name that is asked for."""
    bounds = clauses(item.specifier.replace(" ", ""))
    return bool(item.specifier) and not any(
        major(clause.version) == major(item.version) for clause in bounds
    )


def _cited(context: Context, item: Need) -> tuple[Evidence, ...]:
    row = context.row_of(item.owner)
    if row is None or item.name not in row.requires:
        return ()
    return (cite(item.owner.label, f"{item.name} {row.requires[item.name]}", row),)


def _build_cure(context: Context, item: Need) -> Fix:
    if _within_framework(context, item):
        if context.is_built_later:  # its line pins the part
            return InstallRequirements((item.requirement,))
        extras = (_extra(context, item),)
        return ReinstallParts(write_pin(item.owner.name, item.owner.public, extras))
    # the framework stays, its dependant moves
    if _subject_of(context, item) == BUILD or context.matrix.framework_of(item.name):
        return MatchInstalledFramework(item.owner.name, item.name, item.version)
    if context.matrix.framework_of(item.owner.name) and item.owner.installer != "conda":
        unmet = [
            other
            for other in violations(context)
            if other.owner == item.owner and other.found is not None and not other.by_extra
        ]
        return _restore(context, [item] if item.by_extra else unmet)
    return InstallRequirements((item.requirement,))


def _severity(context: Context, item: Need, known_break: KnownBreak | None) -> str:
    """Call a broken pin an error where it is known to break: the pin alone does not prove that."""
    # jax refuses another jaxlib; on a CPU it needs neither plugin nor its parts
    if _within_framework(context, item):
        is_needed = not item.by_extra and item.name in _needed_names(context)
        return ERROR if is_needed or context.goal != "cpu" else WARNING
    return ERROR if known_break or _subject_of(context, item) == BUILD else WARNING


def _within_framework(context: Context, item: Need) -> bool:
    framework = context.matrix.framework_of(item.owner.name)
    return framework != "" and framework == context.matrix.framework_of(item.name)


def _extra(context: Context, item: Need) -> str:
    row = context.row_of(item.owner)
    return (row.gpu_extra if item.by_extra and row else None) or ""


def _finds_libraries(context: Context, owner: Distribution) -> bool:
    """Return whether a distribution's builds found all they load; none proves nothing."""
    own_builds = [build for build in judged_builds(context) if build.distribution == owner.name]
    return all(build.libraries.value and not unfound_libraries(build) for build in own_builds)


# Which package each finding is about: what the matrix knows of it stands for its unmet
# requirements.
_SUBJECTS = {
    "numpy-abi": "numpy", "protobuf-conflict": "protobuf", "keras-mismatch": "keras",
    BUILD: "", OTHER: "",
}  # fmt: skip


@rule(*_SUBJECTS, goal="any")
def unmet_requirements(context: Context) -> Iterator[Finding]:
    """Find packages around the frameworks that they cannot work with.

    By known problems, then by requirements.
    """
    for finding_id, name in _SUBJECTS.items() if judged_frameworks(context) else ():
        findings = list(problem_findings(context, finding_id, stages=("run", "advice")))
        yield from findings
        yield from pin_findings(context, finding_id, name, findings)


@rule("numpy-abi", goal="any")
def built_for_numpy_1(context: Context) -> Iterator[Finding]:
    """Find what states that it was compiled for NumPy 1, beside a NumPy 2: importing it fails."""
    numpy = context.distributions.get("numpy")
    for item in context.python.file_faults.value or ():
        # what the matrix knows of a release says the same in `unmet_requirements`
        is_known = constraints_on(context, item.distribution, item.release, ("numpy",))
        if numpy and item.kind == NUMPY_1 and not is_known:
            label, importing = f"{item.distribution} {item.release}", find_import(context, item)
            needs = f"; `import {importing.replace('-', '_')}` loads it" if importing else ""
            yield context.report(
                f"{label} was built for NumPy 1, and NumPy {numpy.version} is installed{needs}.",
                Evidence("python.file_faults", f"{item.path} looks for numpy.core alone"),
                severity=ERROR if importing else WARNING,
                cure=InstallRequirements(_choose_builds(context, item)),
                about=About(distribution=item.distribution),
            )


def _choose_builds(context: Context, item: FileFault) -> tuple[str, ...]:
    """Return what brings a build for NumPy 2: what requires it states which, else a newer one."""
    broken = (need for need in violations(context) if need.found and need.name == item.distribution)
    return (next((need.requirement for need in broken), f"{item.distribution}>{item.release}"),)


@rule(OTHER, goal="any", installs=True)
def unresolvable_releases(context: Context) -> Iterator[Finding]:
    """Find requested releases whose requirements no installer can meet, by known problems."""
    yield from problem_findings(context, OTHER, stages=("install",))


@dataclass
class EqualReleases:
    """Distributions of which the first cannot be imported beside others of another release."""

    distributions: tuple[str, ...]
    unless: str = ""  # variable that turns that off
    # it opens the others' library by its major alone, which a copy of the system serves as well
    library: str = ""
    whole: str = ""  # distribution that pins them all


@dataclass
class EqualReleaseTable:
    """The content of data/frameworks/equal_releases.json."""

    rows: tuple[EqualReleases, ...]
    citation: Citation


@rule(OTHER, goal="any")
def equal_releases(context: Context) -> Iterator[Finding]:
    """Find packages that refuse to be imported beside another release of their own parts."""
    if not any(map(context.matrix.companion_of, context.distributions)):
        return
    table = load_data("frameworks/equal_releases", EqualReleaseTable)
    for row in table.rows:
        installed = [
            context.distributions[name]
            for name in row.distributions
            if name in context.distributions
        ]
        if not installed or context.environment.get(row.unless):
            continue
        main, *parts = installed
        others = [item for item in parts if not _goes_with(context, row, main, item)]
        if others:
            labels = " and ".join(item.label for item in others)
            kept = context.distributions.get(row.whole, main).public
            pins = tuple(f"{item.name}=={kept}" for item in installed if item.public != kept)
            yield context.report(
                f"{main.label} cannot be imported beside {labels}: the "
                f"{'major ' if row.library else ''}releases must be equal.",
                ("python.distributions", f"{main.label}, {labels}"),
                Evidence(main.name, _COMPARISONS[bool(row.library)], citation=table.citation),
                cure=InstallRequirements(pins),
            )


_COMPARISONS = (
    "compares the releases when it is imported",
    "loads libraries that bear the major release in their names",
)


def _goes_with(
    context: Context, row: EqualReleases, main: Distribution, item: Distribution
) -> bool:
    """Return whether a part is of the needed release, or outside Python packages."""
    if not row.library:
        return item.public == main.public
    copies = (
        each for each in getattr(context.facts, row.library).value or () if each.origin != "wheels"
    )
    majors = {major(version) for each in copies if (version := installed_version(each).value)}
    return major(main.version) in {major(item.version), *majors}


# Compiled or closely tied parts of the frameworks: a second copy of one of these breaks the first.
_PARTS = (
    "h5py", "keras", "ml-dtypes", "numpy", "protobuf", "scipy", "tensorflow-estimator", "tf-keras",
    "typing-extensions",
)  # fmt: skip
_OF_PYTHON = re.compile(r"python(\d\.\d+)/(?:site|dist)-packages")
_OUTSIDE = {
    "user": "the user's site-packages",
    "path": "a folder on PYTHONPATH",
    "front": "a folder that code of Python's start puts first",
}


@rule("env-mixed", severity=WARNING, goal="any")
def env_mixed(context: Context) -> Iterator[Finding]:
    """Find copies of one package in several places, and packages of another Python."""
    entries = _foreign_entries(context)
    yield from (_foreign_python(context, entry, release) for entry, release in entries.items())
    fact = context.python.distributions.value
    copies: dict[str, list[Distribution]] = {}
    in_front = {item.name for item in fact or () if item.scope == "front"}
    for item in fact or ():
        if item.name in in_front or _is_part(context, item):
            copies.setdefault(item.name, []).append(item)
    outer: dict[str, list[list[Distribution]]] = {}
    for name, distributions in copies.items():
        if _from_outside(distributions):
            outer.setdefault(_outer_copy(distributions).location, []).append(distributions)
        elif _two_installers(distributions):
            yield _overlaid(context, name, distributions)
    told = {entry.rstrip("/") for entry in entries}
    yield from (_outside(context, group) for folder, group in outer.items() if folder not in told)


def _from_outside(copies: list[Distribution]) -> bool:
    """Return whether an environment's package has another version outside of it."""
    scopes = {item.scope for item in copies}
    has_versions = len({item.version for item in copies}) > 1
    return has_versions and "environment" in scopes and bool(scopes & set(_OUTSIDE))


def _two_installers(copies: list[Distribution]) -> bool:
    """Return whether conda and pip both registered one package in the same folder."""
    same_folder = [item for item in copies if item.location == copies[0].location]
    conda = {item.installer == "conda" for item in same_folder if item.installer}
    return len({item.version for item in same_folder}) > 1 and len(conda) > 1


def _outer_copy(copies: list[Distribution]) -> Distribution:
    inner = next(item for item in copies if item.scope == "environment")
    return next(item for item in copies if item.scope in _OUTSIDE and item.version != inner.version)


def _outside(context: Context, group: list[list[Distribution]]) -> Finding:
    """Report all packages of one folder outside that the environment holds in another release."""
    broken = {name for item in violations(context) for name in _list_broken(context, item)}
    first, *others = sorted(group, key=lambda copies: copies[0].name not in broken)
    inner = next(item for item in first if item.scope == "environment")
    outer = _outer_copy(first)
    names = (
        f" The same holds for {', '.join(copies[0].name for copies in others)}." if others else ""
    )
    return context.report(
        f"{inner.label} of the environment and {outer.label} of"
        f" {_OUTSIDE[outer.scope]} are both importable; {first[0].version} is found first.{names}",
        *(
            ("python.distributions", f"{item.label} in {item.location or item.scope}")
            for item in first
        ),
        severity=ERROR if _is_part(context, first[0]) and first[0].name in broken else WARNING,
        cure=_keep_out(context, outer),
    )


def _list_broken(context: Context, item: Need) -> tuple[str, ...]:
    """Name the copy that is not what was required, and what is known to fail with it."""
    if item.found is None:
        fails = item.name in _needed_names(context)
    else:
        fails = _severity(context, item, _known_break(context, item)) == ERROR
    return (item.name, item.owner.name) if fails else (item.name,)


def _is_part(context: Context, item: Distribution) -> bool:
    return item.name in _PARTS or context.matrix.framework_of(item.name) != ""


def _keep_out(context: Context, outer: Distribution) -> Fix:
    if outer.scope == "user":
        return FollowRow("user-site")
    faults = context.python.interpreter_faults.value or ()
    file = next((each.path for each in faults if each.name == outer.location), "")
    return LeaveOutFolders((outer.location,), file)


def _overlaid(context: Context, name: str, copies: list[Distribution]) -> Finding:
    by_conda = next(item for item in copies if item.installer == "conda")
    by_pip = next(item for item in copies if item.installer and item.installer != "conda")
    return context.report(
        f"conda installed {name} {by_conda.version} and {by_pip.installer} installed {name}"
        f" {by_pip.version} over it in the same folder: files of both are mixed.",
        ("python.distributions", f"{name} {by_conda.version} by conda"),
        ("python.distributions", f"{name} {by_pip.version} by {by_pip.installer}"),
        cure=FollowRow("two-installers", (("name", name), ("installer", by_pip.installer))),
    )


def _hides_framework(context: Context, folder: str) -> bool:
    """Return whether a folder holds a framework's module, or one that its import needs."""
    top = folder.rstrip("/") + "/"
    builds = [build.facts for build in judged_builds(context) if build.facts]
    paths = [build.shadowed_by.value or "" for build in builds] + [
        build.location for build in builds[:1]
    ]
    return any(f"{path}/".startswith(top) for path in paths)


def _foreign_entries(context: Context) -> dict[str, str]:
    """Map the PYTHONPATH entries of another Python to that Python's release."""
    minor = major_minor(context.python.version.value)
    entries = context.environment.get("PYTHONPATH", "").split(
        ";" if context.os == "windows" else ":"
    )
    found = {}
    for entry in entries if minor else ():
        match = _OF_PYTHON.search(entry.replace("\\", "/"))
        if match and match.group(1) != minor:
            found[entry] = match.group(1)
    return found


def _foreign_python(context: Context, entry: str, release: str) -> Finding:
    minor = major_minor(context.python.version.value)
    return context.report(
        f"PYTHONPATH puts {entry}, which holds packages of Python {release}, before the "
        f"packages of this Python {minor}.",
        ("host.environment", f"PYTHONPATH names {entry}"),
        "python.version",
        "python.executable",
        severity=ERROR if _hides_framework(context, entry) else WARNING,
        cure=LeaveOutFolders(tuple(_foreign_entries(context))),
    )
