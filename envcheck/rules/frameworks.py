"""Rules about the frameworks.

Whether one is installed, once, in a release that exists here as a GPU build.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from envcheck.frameworks import companions, framework_names, identities, identity, imported_modules
from envcheck.frameworks import framework as known_framework
from envcheck.matrix.companions import asked_of, companion_row, shares_cuda
from envcheck.matrix.package_index import CPU, index_url, package_index
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    WARNING,
    About,
    Absent,
    Advise,
    Distribution,
    Evidence,
    Finding,
    Fix,
    FrameworkRelease,
    Known,
    RemovedDistribution,
    Unknown,
    numbers,
    replace,
)
from envcheck.model.fixes import (
    ChooseFramework,
    InstallCudaBuild,
    InstallReplacement,
    InstallRequirements,
    KeepOneDistribution,
    RenameShadow,
    RenewMatrix,
    RestoreRequirements,
    UseOtherPlatform,
    UseOtherPython,
)
from envcheck.model.versions import (
    can_be_met,
    name_of,
    public_version,
    read_requirement,
    within,
    write_pin,
)
from envcheck.rules.builds import (
    Build,
    installed_builds,
    is_conda_build,
    is_free_threaded,
    list_conda_recipes,
    supports_python,
)
from envcheck.rules.context import Context, UndecidedError, cite, each, once, rule
from envcheck.rules.dependencies import breaks_framework, fails_with_requirements
from envcheck.rules.gpu_releases import (
    driver_runs,
    empty_wheels,
    gpu_rows,
    has_gpu_build,
    problem_findings,
    vendor_of_build,
)
from envcheck.rules.requirements import extra_table, list_extras, needs_of
from envcheck.rules.targets import (
    EXTRA,
    EXTRA_PLATFORM,
    LABEL,
    LIBC,
    OLDER,
    PEER,
    PLATFORM,
    PYTHON,
    REMOVED,
    UNLISTED,
    JudgedFramework,
    WantedRelease,
    judged_builds,
    judged_frameworks,
    required_frameworks,
    wanted_releases,
)


@rule("framework-missing", goal="any")
def framework_missing(context: Context) -> Iterator[Finding]:
    """Report that no framework is installed: an error only where a GPU is expected."""
    if context.names_releases:
        return
    if not context.judges_environment:
        yield context.report(
            "No Python environment is active or belongs to this folder, so only the machine was"
            " judged. Activate one, or name one with --env.",
            "python.executable",
            verdict=COMPATIBLE,
            severity=NOTE,
            cure=ChooseFramework(),
        )
        return
    context.need(context.python.frameworks, "python.frameworks")
    if judged_frameworks(context):
        return
    empty = list(empty_wheels(context))
    if not empty:
        _refuse_damaged(context)
    if context.demands.requires:
        return  # what the project requires is missing
    yield from empty
    if empty:
        return
    expected = context.expect == "gpu" and context.goal == "gpu"
    yield context.report(
        f"None of {', '.join(context.matrix.frameworks())} is installed in the inspected Python"
        " environment.",
        "python.frameworks",
        "python.executable",
        verdict=INCOMPATIBLE if expected else COMPATIBLE,
        severity=ERROR if expected else NOTE,
        cure=ChooseFramework(),
    )


def _refuse_damaged(context: Context) -> None:
    """Raise for an environment that registers a framework whose files were not found.

    It is damaged, not empty.
    """
    for name, item in context.distributions.items():
        if context.matrix.framework_of(name) and item.scope != "conda":
            detail = f"{name} is registered, but its package folder was not found"
            raise UndecidedError("python.frameworks", Unknown("conflict", detail))


@rule("framework-duplicate-dists", goal="any")
def framework_duplicate_dists(context: Context) -> Iterator[Finding]:
    """Find two distributions that own one module.

    They overwrite each other's files and the last one wins.

    The one that was installed last works if its requirements are met.
    """
    for (module, _), owners in _module_owners(context).items():
        rivals = _without_stubs(context, owners)
        if len(rivals) < 2:
            continue
        labels = " and ".join(item.label.strip() for item in rivals)
        works = _does_last_work(context, rivals)
        is_one = len({item.version for item in rivals}) == 1
        verdict, severity, cure = INCOMPATIBLE, WARNING if works else "", None
        # one release under two names: on a CPU nothing fails until one of them is removed
        if works and context.goal == "cpu" and is_one:
            verdict, severity = COMPATIBLE, NOTE
        else:
            names = tuple(item.name for item in rivals)
            cure = KeepOneDistribution(names, _rival_to_keep(context, rivals))
        yield context.report(
            f"{labels} both contain the module {module}: their files overwrite each other, so the"
            " last one installed wins.",
            ("python.distributions", labels),
            *context.show_owners(module),
            verdict=verdict,
            severity=severity,
            cure=cure,
        )


def _does_last_work(context: Context, rivals: list[Distribution]) -> bool:
    """Return whether the release installed last is known, and nothing fails with it.

    A CPU build over a GPU build fails on a GPU.
    """
    name = context.matrix.framework_of(rivals[0].name)
    judged = [item for item in judged_frameworks(context) if item.name == name]
    if context.goal == "gpu" and any(item.cuda_build.value is False for item in judged):
        return False
    releases = {item.public for item in rivals}
    if len(releases) > 1:
        releases &= {public_version(item.main.version) for item in judged}
    last = [item for item in rivals if item.public in releases - {""}]
    return bool(last) and not any(fails_with_requirements(context, item) for item in last)


def _module_owners(context: Context) -> dict[tuple[str, str], list[Distribution]]:
    """Map each module in a folder to the distributions that hold it there."""
    owners: dict[tuple[str, str], list[Distribution]] = {}
    shared = {module for identity in identities() for module in identity.namespaces}
    for name, item in context.distributions.items():
        module = context.matrix.module_of(name)
        # conda's metapackages hold nothing
        if item.scope != "conda" and module and module not in shared:
            owners.setdefault((module, item.location), []).append(item)
    return owners


def _without_stubs(context: Context, owners: list[Distribution]) -> list[Distribution]:
    """Drop the wheels that hold nothing and only require another of the owners."""
    names = {item.name for item in owners}
    kept = []
    for item in owners:
        row = context.row_of(item)
        is_stub = row is not None and row.stub_for in names
        if not is_stub and names.isdisjoint(map(name_of, item.requires)):
            kept.append(item)
    return kept


def _rival_to_keep(context: Context, rivals: list[Distribution]) -> str:
    """Choose what to install again.

    The framework's usual distribution, of the newest version among them.
    """
    default = context.matrix.framework_of(rivals[0].name) or rivals[0].name
    twin = ""
    if default in framework_names():
        twin = known_framework(default).plans.gpu_twin
    for_gpu = next((item for item in rivals if item.name == twin), None)
    if for_gpu is not None:
        return f"{twin}=={for_gpu.public}"
    rows = map(context.row_of, rivals)
    cudas = {row.distribution: row.cuda for row in rows if row}
    if context.goal == "gpu":
        rivals = [item for item in rivals if cudas.get(item.name)] or rivals
    rivals = [item for item in rivals if driver_runs(context, cudas.get(item.name))] or rivals
    try:
        newest = max(rivals, key=lambda item: (Version(item.version), cudas.get(item.name) or ""))
    except InvalidVersion:
        return default  # the newest release pip finds
    row = context.matrix.release(default, newest.version, context.platform, default)
    if row is None or (context.goal == "gpu" and not row.cuda_build):
        return f"{newest.name}=={newest.public}"
    return write_pin(default, row.version, (row.gpu_extra,) if context.goal == "gpu" else ())


@rule("local-module-shadowing", goal="any")
def local_module_shadowing(context: Context) -> Iterator[Finding]:
    """Find a file or folder that is imported instead of a framework because of its name."""
    for build in judged_builds(context):
        shadow = build.facts.shadowed_by if build.facts else Absent()
        if isinstance(shadow, Known):
            yield _describe_shadow(context, build, shadow)


def _describe_shadow(context: Context, build: Build, shadow: Known[str]) -> Finding:
    """Say what a file or folder hides.

    An error where the import dies with an empty one of its name.
    """
    module = shadow.value.rpartition("/")[2].removesuffix(".py")
    framework = build.framework
    is_own = module == build.traits.module_of(build.distribution)
    labels = {framework: build.label}
    for item in context.distributions.values():
        if companions().get(item.name) == framework:
            labels[item.name] = item.label
    needing = [name for name in labels if module in imported_modules(name)[0]]
    loading = [name for name in labels if module in imported_modules(name)[1]]
    label = labels[next(iter((*needing, *loading)), framework)]
    hidden = build.label if is_own else f"the module {module} that {label} needs"
    return context.report(
        f"{shadow.value} is imported instead of {hidden}, because it has the same name.",
        Evidence("python.frameworks", f"{framework}: {shadow.value}", shadow.source),
        severity="" if is_own or needing else WARNING,
        cure=RenameShadow(shadow.value),
    )


@rule("python-unsupported", goal="any", installs=True)
def python_unsupported(context: Context) -> Iterator[Finding]:
    """Find requested releases without a wheel for this Python."""
    for wanted in wanted_releases(context):
        if wanted.build and not wanted.build.installed:
            context.need(context.python.version, "python.version")
        if wanted.obstacle != PYTHON:
            continue
        yield _no_wheel_for_python(context, wanted, wanted.rejected[0])
    if context.is_built_later:
        yield from _list_unbuilt_by_conda(context)
    yield from problem_findings(context, "python-unsupported")


def _no_wheel_for_python(
    context: Context, wanted: WantedRelease, newest: FrameworkRelease
) -> Finding:
    pythons = sorted(newest.pythons, key=numbers)
    evidence = cite(
        f"{wanted.distribution} {newest.version}", f"Python {', '.join(pythons)}", newest
    )
    other = _other_release(context, wanted.framework, wanted.distribution, wanted.extras)
    requirement = wanted.text.replace(" ", "")
    return context.report(
        f"{wanted.text} has no wheel for Python {_name_python(context)} here; {newest.version} has"
        f" wheels for {_available_pythons(context, newest)}.",
        "python.version",
        evidence,
        cure=UseOtherPython(tuple(pythons), requirement, other_release=other),
    )


@rule("python-unsupported", goal="any", installs=True)
def label_unfound(context: Context) -> Iterator[Finding]:
    """Find builds with a label that a command asks other indexes for."""
    if not context.unfound:
        return
    name, label = name_of(context.unfound[0]), context.unfound[0].rpartition("+")[2]
    index = index_url(next(iter(companion_row(name).frameworks), name), label)
    releases = " and ".join(context.unfound)
    yield context.report(
        f"No index that is asked has {releases.replace('==', ' ')}: builds +{label} are on the"
        " framework's own alone.",
        Evidence(index, releases),
        cure=Advise(f"Name their index: `--extra-index-url {index}`."),
    )


def _list_unbuilt_by_conda(context: Context) -> Iterator[Finding]:
    """Find releases that Conda is asked for with a Python for which nobody has built them."""
    version = context.python.version.value
    for build in installed_builds(context):
        row = build.release
        if not version or row is None or not row.pythons or not is_conda_build(context, build):
            continue
        recipes = list_conda_recipes(context.matrix, build.framework)
        read = [each for each in recipes if row.version in each.releases]
        named = {*row.pythons, *(python for each in read for python in each.pythons)}
        pythons = sorted(named, key=numbers)
        oldest, newest = numbers(pythons[0]), numbers(pythons[-1])
        if not read:
            # No recipe of it was read: channels are ahead of the wheels by one Python at most.
            newest = (newest[0], newest[1] + 1)
        if oldest <= numbers(version)[:2] <= newest:
            continue
        stated = ", ".join(pythons)
        yield context.report(
            f"{build.label} is not built for Python {version}, only for {stated}.",
            "python.version",
            cite(row.label, f"Python {stated}", read[0] if read else row),
            cure=UseOtherPython(tuple(pythons), build.pin),
        )


def _available_pythons(context: Context, row: FrameworkRelease) -> str:
    """Name the Pythons a release has wheels for, and their builds where that matters."""
    standard = ", ".join(sorted(row.pythons, key=numbers))
    free = ", ".join(row.free_threaded_pythons)
    if not is_free_threaded(context):
        return standard
    return f"the regular builds of {standard}" + (
        f" and the free-threaded of {free}" if free else ""
    )


def _name_python(context: Context) -> str:
    version = context.python.version.value
    version_text = version or "?"
    implementation = context.python.implementation.value
    if implementation and implementation.lower() != "cpython":
        return f"{version_text} ({implementation}; the wheels are for CPython)"
    return version_text + (" (free-threaded)" if is_free_threaded(context) else "")


@once
def _other_release(
    context: Context, framework: str, distribution: str, extras: tuple[str, ...]
) -> str:
    """Name the newest release of the same distribution that this Python can install.

    Return "" when there is none. It is asked for with the same extras.
    """
    rows = context.matrix.releases(framework, context.platform)
    for row in rows:
        if row.distribution == distribution and not row.yanked and supports_python(context, row):
            kept = [extra for extra in extras if extra in (list_extras(row) or ())]
            return write_pin(distribution, row.version, kept)
    return ""


@rule("dependency-conflict", goal="any", installs=True)
def extra_missing(context: Context) -> Iterator[Finding]:
    """Find requested extras that no release has that the request admits.

    pip would go on without them.
    """
    for wanted in wanted_releases(context):
        if wanted.obstacle != EXTRA:
            continue
        context.need(context.python.frameworks, "python.frameworks")
        row = _nearest_row(context, wanted)
        extras = list_extras(row) or ()
        missing = [extra for extra in wanted.extras if extra not in extras] or list(wanted.extras)
        release = row.label
        has = f"{release} has {', '.join(extras)}" if extras else f"{release} has none"
        yield context.report(
            f"No known release that {wanted.text} allows"
            f" has the extra {' and '.join(missing)}; {has}.",
            Evidence(
                f"extras {release}",
                ", ".join(extras) or "none",
                citation=extra_table().citation,
            ),
            cure=Advise("Ask for an extra that the release has, or for none."),
        )


def _nearest_row(context: Context, wanted: WantedRelease) -> FrameworkRelease:
    """Return the newest release that was left out for this platform, else for another one."""
    here = (item for item in wanted.rejected if item.platform in (context.platform, "any"))
    return next(here, wanted.rejected[0])


@rule("dependency-conflict", goal="any", installs=True)
def package_without_peer(context: Context) -> Iterator[Finding]:
    """Find packages none of whose releases goes with the requested framework."""
    asked = {item.framework: item for item in wanted_releases(context) if item.build is not None}
    for wanted in wanted_releases(context):
        if wanted.obstacle != PEER:
            continue
        row = wanted.rejected[0]
        pins = required_frameworks(row, asked)
        framework = next((name for name in pins if name in asked), "")
        peer = asked[framework].build if framework else None
        fitting = fitting_package(context, row.distribution, peer) if peer else ""
        beside = peer.label if peer else "the other packages"
        required = " and ".join(name + pin for name, pin in pins.items())
        cure: Fix = Advise(
            f"Ask for releases of {wanted.distribution} and {beside} that go together."
        )
        if fitting and peer:
            cure = InstallRequirements((fitting, peer.pin))
        # of Keras, TensorFlow's own pin states what it goes with
        verb = "requires" if set(pins) & set(row.requires) else "goes with"
        yield context.report(
            f"{wanted.text} does not go with {beside}: {row.label} {verb} {required}.",
            cite(f"matrix {row.label}", f"{verb} {required}", row),
            cure=cure,
        )


@rule("dependency-conflict", goal="any", installs=True)
def pin_excluded(context: Context) -> Iterator[Finding]:
    """Find a range beside a pinned framework whose metadata excludes it: pip installs neither."""
    ranges = [(item.name, item.specifier) for item in map(read_requirement, context.beside)]
    for wanted in wanted_releases(context) if ranges else ():
        row = wanted.package
        if wanted.build and not wanted.build.installed:
            row = wanted.build.release
        if row is None or not wanted.specifier.startswith("=="):
            continue
        for name, specifier in ranges:
            peers = (row.framework, *companion_row(row.distribution).frameworks)
            if is_excluded(row, name, specifier) and not _names_framework(
                context, name, specifier, peers
            ):
                needed = name + row.requires[name]
                yield context.report(
                    f"{row.distribution} {row.build_version} requires {needed}, but"
                    f" {name}{specifier} stands beside it: pip refuses both.",
                    cite("matrix", needed, row),
                    about=About(distribution=row.distribution),
                    cure=RestoreRequirements(row.pin, (needed,)),
                )


def is_excluded(row: FrameworkRelease, name: str, specifier: str) -> bool:
    """Say whether a release's metadata excludes a range, on every Python that has a wheel."""
    bounds = row.requires.get(name, "")
    if (
        row.framework in framework_names() and identity(row.framework).wheels.has_floors_by_python
    ):  # the wheel for another Python may take an older release
        bounds = ",".join(bound for bound in bounds.split(",") if not bound.strip().startswith(">"))
    return bool(bounds) and not can_be_met(f"{bounds},{specifier}")


def _names_framework(context: Context, name: str, specifier: str, peers: tuple[str, ...]) -> bool:
    """Say whether a release in a range states its framework releases, as Keras 3 does."""

    def admits(version: str) -> bool:
        return within(version, specifier)

    section = context.matrix.companion_of(name)
    rows = context.matrix.releases(section, context.platform, admits)
    return any(not required_frameworks(row, peers).keys().isdisjoint(peers) for row in rows)


@rule("dependency-conflict", severity=WARNING, goal="any", installs=True)
def framework_replaced(context: Context) -> Iterator[Finding]:
    """Find packages that replace the installed framework by the release they require."""
    installed = installed_builds(context)
    for wanted in wanted_releases(context) if installed else ():
        build = wanted.build
        there = next((item for item in installed if item.framework == wanted.framework), None)
        if build is None or build.installed or there is None:
            continue
        owner = _owner_of(context, there)
        if not owner and not (there.version and wanted.required_by):
            continue
        cuda, other = build.cuda.value, ""
        if cuda and cuda != there.cuda.value:
            other = f", a build for CUDA {cuda}"
        fitting, why = "", wanted.text
        if wanted.required_by:
            fitting = fitting_package(context, wanted.required_by.split(" ")[0], there)
            why = f"{wanted.required_by} requires {wanted.text}, so installing it"
        whose = f", {owner}," if owner else ""
        message = f"{why} replaces {there.label}{whose}"
        yield context.report(
            f"{message} by {build.label}{other}.{_describe_constraint(context)}",
            ("python.frameworks", there.label),
            verdict=COMPATIBLE,
            cure=(
                Advise(f"Ask for {fitting}, which goes with {there.label}.") if fitting else None
            ),
        )


def _owner_of(context: Context, build: Build) -> str:
    """Say whose own build an installed framework is; "" for one of an index.

    NVIDIA's containers name theirs in a variable, its wheels in a label (2.15.0+nv24.05). A version
    of a commit (2.7.0a0+7c8ec84dab) is of no index.
    """
    held = context.distributions.get(build.distribution)
    version = held.version if held else build.full_version
    is_of_commit = re.search(r"(?:a|b|rc)\d+\+", version) is not None
    label = version.partition("+")[2]
    has_index = bool(identity(build.framework).index)  # whose labels name its own builds: +cu126
    is_own = is_of_commit or not version or (bool(label) and not has_index)
    variable = f"NVIDIA_{known_framework(build.framework).title.upper()}_VERSION"
    is_named = variable in context.environment
    if is_own and (is_named or label.startswith("nv")):
        return "NVIDIA's build"
    return "a vendor's own build" if is_of_commit else ""


def _describe_constraint(context: Context) -> str:
    """Say which file pip keeps to here; "" where it keeps to none."""
    file = context.environment.get("PIP_CONSTRAINT", "")
    if file:
        return f" Or pip refuses it: PIP_CONSTRAINT names {file}, whose pins it keeps to."
    return ""


def fitting_package(context: Context, name: str, build: Build) -> str:
    """Name the newest release of a package that goes with an installed framework; "" for none."""
    rows = context.matrix.companions_of(build.framework, build.version, context.platform, name)
    row, on_index = build.row or build.release, companion_row(name).on_index
    fitting = (
        item
        for item in rows
        if supports_python(context, item)
        and (row is None or shares_cuda(item, row) or (row.local == CPU and on_index))
    )
    return next((item.pin for item in fitting), "")


def name_replacement(matrix: Matrix, row: RemovedDistribution, specifier: str) -> str:
    """Write what replaces a withdrawn distribution, of the same release if there is one."""
    line = re.match(r"={2,3}(\d+\.\d+)", specifier)
    successor = None
    if line:
        successor = matrix.release(row.framework, f"{line[1]}.0", "linux_x86_64", row.framework)
    if successor is None:
        return row.replacement
    return write_pin(row.framework, successor.version, (successor.gpu_extra,))


@rule("framework-package-removed", goal="any", installs=True)
def framework_package_removed(context: Context) -> Iterator[Finding]:
    """Find requirements on a withdrawn distribution, which no longer brings its framework."""
    for wanted in wanted_releases(context):
        row = context.matrix.removed_distribution(wanted.distribution)
        if wanted.obstacle != REMOVED or row is None:
            continue
        last_version = row.last_versions.get(context.platform)
        replacement = name_replacement(context.matrix, row, wanted.specifier)
        if context.goal != "gpu":
            replacement = re.sub(r"\[.*\]", "", replacement)
        hint = ""
        if last_version:
            hint = f" Its last real release here is {last_version}."
        yield context.report(
            f"{wanted.text} cannot be installed. {row.reason}{hint}",
            ("host.os", f"{wanted.text} on {context.platform}"),
            cite(f"removed {row.name}", row.reason, row),
            cure=InstallReplacement(replacement),
        )


@rule("platform-no-gpu-wheel", goal="any", installs=True)
def platform_no_gpu_wheel(context: Context) -> Iterator[Finding]:
    """Find releases without a GPU wheel, or without any wheel, for this platform."""
    for wanted in wanted_releases(context):
        if wanted.obstacle in (PLATFORM, LIBC, EXTRA_PLATFORM):
            place = context.platform
            if wanted.obstacle == LIBC:
                place = "a system with musl instead of glibc"
            message = f"{wanted.text} has no wheel for {place}."
            if wanted.obstacle == EXTRA_PLATFORM:
                extras = " and ".join(wanted.extras)
                message = (
                    f"{wanted.text}: what the extra {extras} brings has no wheels for {place}."
                )
            yield _no_wheel(context, wanted.text, wanted.framework, message, wanted.rejected)
    for framework in judged_frameworks(context) if context.goal == "gpu" else ():
        build = framework.main
        if build.traits.from_plugin or is_conda_build(context, build):
            continue
        if _has_no_gpu_wheel(context, framework):
            message = (
                f"{build.label} has no GPU wheel for {context.platform}: only CPU builds are"
                " published there."
            )
            rows = (build.release,) if build.release else ()
            finding = _no_wheel(context, build.label, build.framework, message, rows)
            # what does not even import comes first
            later = not _is_gpu_meant(context) and breaks_framework(context)
            yield replace(finding, severity=WARNING) if later else finding
    yield from problem_findings(context, "platform-no-gpu-wheel", of_extras=context.goal == "cpu")


def _is_gpu_meant(context: Context) -> bool:
    """Return whether anything says that a GPU is there or wanted."""
    facts = (
        context.driver.release,
        context.driver.cuda_driver_version,
        context.toolkits.installs,
    )
    is_requested = context.expect == "gpu" or context.names_releases
    return is_requested or bool(context.gpus) or any(fact.value for fact in facts)


def _has_no_gpu_wheel(context: Context, framework: JudgedFramework) -> bool:
    """Return whether a CPU build is all that this release has for this platform."""
    if has_gpu_build(context, framework.main):
        return False
    # nor of any other release: whatever the files say, it is a CPU build
    if not gpu_rows(context, framework.name):
        return not framework.cuda_build.value
    return not context.need(framework.cuda_build, f"{framework.main.label}: CUDA build or not")


def _no_wheel(
    context: Context, label: str, framework: str, message: str, rows: tuple[FrameworkRelease, ...]
) -> Finding:
    evidence = (
        rows[:1]
        or context.matrix.releases(framework, context.platform)[:1]
        or context.matrix.releases(framework)[:1]
    )
    return context.report(
        message,
        ("host.os", f"{label} on {context.platform}"),
        *(
            cite(row.label, f"{row.platform}, CUDA build: {row.cuda_build}", row)
            for row in evidence
        ),
        cure=UseOtherPlatform(framework),
    )


@rule("framework-cpu-build")
def framework_cpu_build(context: Context) -> Iterator[Finding]:
    """Find CPU-only builds beside a GPU, which they ignore silently."""
    if context.lacks_gpu:
        return
    if not context.names_releases:
        context.need(context.python.frameworks, "python.frameworks")
    yield from each(judged_frameworks(context), lambda framework: _cpu_build(context, framework))


def _cpu_build(context: Context, framework: JudgedFramework) -> Iterator[Finding]:
    build = framework.main
    is_cpu_build = not context.need(framework.cuda_build, f"{build.label}: CUDA build or not")
    has_other = has_gpu_build(context, build) or is_conda_build(context, build)
    if not is_cpu_build or framework.traits.plugin_of_extra or not has_other:
        return
    is_requested = any(wanted.framework == framework.name for wanted in wanted_releases(context))
    has_cuda = any(item.cuda_build.value for item in judged_frameworks(context))
    unread = context.python.unread.value
    if unread and framework.traits.plans.gpu_twin and not has_cuda and not is_requested:
        reason = Unknown("failed", unread[0].reason, (unread[0].place,))
        # another framework may be there that computes on the GPU
        raise UndecidedError("python.frameworks", reason)
    owner = "this machine's" if context.gpus else "a"
    kind = "a CPU-only build"
    words = re.findall("[a-z]+", f"{build.distribution} {build.local}")
    vendor = vendor_of_build(build.accelerator, *words)
    if vendor is not None:
        kind = f"a build for {vendor.title} GPUs ({vendor.platform}), without CUDA"
    cited = []
    if build.release:
        cited.append(cite(build.label, build.release.note or "its wheel here", build.release))
    yield context.report(
        f"{build.label} is {kind}: it does not use {owner} GPU.",
        context.seen("python.frameworks", build.cuda_build, f"{build.label}: no CUDA build"),
        "gpus",
        *cited,
        severity=ERROR if is_requested or not has_cuda else WARNING,
        cure=InstallCudaBuild(framework.name),
    )


_ID = "release-unknown"


@rule(_ID, goal="any", installs=True)
def release_unknown(context: Context) -> Iterator[Finding]:
    """Find releases that the matrix lacks, judged by their own files or not at all."""
    for wanted in wanted_releases(context):
        if wanted.obstacle == LABEL:
            yield _unknown_label(context, wanted)
        if wanted.obstacle in {UNLISTED, OLDER}:
            found = _unknown_release(context, wanted.text, wanted.framework, "python.version")
            if wanted.obstacle == OLDER:
                found = replace(found, message=_describe_older(context, wanted))
            else:
                found = _with_next_release(context, wanted, found)
            yield replace(found, severity=NOTE, cure=None) if _is_aside(context, wanted) else found
    for build in judged_builds(context):
        if build.release is None and build.version:
            owner = _find_installer(context, build)
            by_files = ", which the matrix does not list: it was judged by its own files alone."
            if build.traits.from_plugin:
                said = f" is of a framework that a plugin adds{by_files}"
            elif is_variant(context, build):
                said = f" is a nightly, a vendor's build or one made from source{by_files}"
            elif owner:
                said = (
                    f", which {owner} requires, is not in the compatibility matrix for"
                    f" {context.platform}: it was not judged by itself."
                )
            else:
                yield _unknown_release(context, build.label, build.framework, "python.frameworks")
                continue
            yield context.report(
                build.label + said,
                ("python.frameworks", build.label),
                verdict=UNDETERMINED,
                severity=NOTE,
            )


def _with_next_release(context: Context, wanted: WantedRelease, found: Finding) -> Finding:
    """Ask a file that pins an unlisted release for the listed one after it, where there is one."""
    pin = re.fullmatch(r"==([\d.]+)", wanted.specifier)
    if pin is None or not context.is_built_later:
        return found
    newer = [
        row.pin
        for row in context.matrix.releases(wanted.framework, context.platform)
        if row.distribution == wanted.distribution and numbers(row.version) > numbers(pin[1])
    ]
    return replace(found, cure=InstallRequirements((newer[-1],))) if newer else found


def _describe_older(context: Context, wanted: WantedRelease) -> str:
    """Say that pip takes a release from before those that the matrix holds."""
    rows = context.matrix.releases(wanted.framework, context.platform)
    rows = rows or context.matrix.companion_releases(wanted.framework)
    known = [row for row in rows if row.distribution == wanted.distribution]
    python = "" if "==" in wanted.specifier else f" for Python {_name_python(context)}"
    return (
        f"{wanted.text} means a release{python} from before {known[-1].version}, where the"
        " compatibility matrix begins: it was not judged."
    )


def _is_aside(context: Context, wanted: WantedRelease) -> bool:
    """Return whether a release that is not known decides nothing.

    What a file is about is beside it.

    Another framework is; the framework of a package is where its release is pinned or installed.
    """
    if not context.is_built_later:
        return False
    others = [item for item in wanted_releases(context) if item.build is not None]
    pinned = {item.framework for item in others if "==" in item.specifier}
    installed = {build.framework for build in installed_builds(context)}
    if not context.matrix.framework_of(wanted.distribution):
        beside = (pinned | installed) & set(companion_row(wanted.distribution).frameworks)
        return bool(beside) and not _pins_its_framework(context, wanted)
    return bool(({item.framework for item in others} | installed) - {wanted.framework})


def _pins_its_framework(context: Context, wanted: WantedRelease) -> bool:
    """Return whether the oldest known release of a package demands one release of a framework.

    Most likely an older one did too: vllm 0.6.5 requires torch==2.5.1.
    """
    rows = context.matrix.companion_releases(wanted.framework)
    known = [row for row in rows if row.distribution == wanted.distribution]
    names = companion_row(wanted.distribution).frameworks
    return any(str(asked_of(known[-1], name)).startswith("==") for name in names if known)


def _unknown_label(context: Context, wanted: WantedRelease) -> Finding:
    """Say which builds of a release are known, where none has the label asked for."""
    label = wanted.specifier.rpartition("+")[2].partition(",")[0]
    row = _nearest_row(context, wanted)
    labels = [item.local for item in context.matrix.index_builds(row)]
    builds = ", ".join(f"+{item}" for item in labels)
    release = row.label
    known = (
        f"{release} itself"
        + (f" (CUDA {row.cuda})" if row.cuda else "")
        + (f", {builds}" if builds else "")
    )
    index = package_index(wanted.framework)
    vendors = index.other_vendors.items() if index else ()
    vendor = next((name for start, name in vendors if label.startswith(start)), "")
    limit = ""
    if vendor:
        limit = (
            f" +{label} is for {vendor}; envcheck plans builds for NVIDIA GPUs and for CPUs only."
        )
    of_major = [item for item in labels if item[:4] == label[:4]]  # cu124 for cu121
    example = f", such as {row.pin}+{of_major[-1]}" if of_major else ""
    return context.report(
        f"No build +{label} of {release} is known for {row.platform}."
        f" Known builds: {known}.{limit}",
        cite(f"releases {wanted.framework}", known, row),
        verdict=UNDETERMINED,
        cure=RenewMatrix(wanted.framework, f"Ask for one of the known builds{example}."),
    )


def is_variant(context: Context, build: Build) -> bool:
    """Return whether an installed build is a nightly, vendor or local one of the matrix.

    Its files show its CUDA version and its libraries. A build newer than the matrix is none: its
    needs are unknown.
    """
    try:
        version = Version(build.version)
    except InvalidVersion:
        return False
    rows = context.matrix.releases(build.framework)
    made_elsewhere = (
        version.is_prerelease
        or bool(build.local)
        or all(row.distribution != build.distribution for row in rows)
    )
    base = Version(".".join(map(str, version.release[:3])))
    return (
        build.installed
        and build.cuda_build.value is not None
        and made_elsewhere
        and any(Version(row.version) == base for row in rows)
    )


def _find_installer(context: Context, build: Build) -> str:
    """Name the framework that requires a build, as TensorFlow 2.12 does JAX, or "".

    What its release needs was known to those who made that one: its pins hold, or another finding
    says so.
    """
    if not build.installed or any(
        wanted.framework == build.framework for wanted in wanted_releases(context)
    ):
        return ""
    for other in judged_builds(context):
        owner = context.distributions.get(other.distribution)
        if other.release is None or other.framework == build.framework or owner is None:
            continue
        if any(need.name == build.distribution for need in needs_of(context, owner)):
            return other.label
    return ""


_RENEWALS = {
    "refresh": "Refresh the matrix from the published wheels",
    "update": "Update the matrix from the address that is set",
}


def _unknown_release(context: Context, label: str, framework: str, fact: str) -> Finding:
    hint, cited = "", list[Evidence]()
    newest = next(iter(context.matrix.releases(framework, context.platform)), None)
    if newest is not None:
        cited.append(cite(f"releases {framework}", newest.version, newest))
        day, stated = "", re.search(r"[=<>~ ](\d+(?:\.\d+)*)", label)
        if stated and numbers(stated[1]) > numbers(newest.version):
            day = f" (data of {context.matrix.checked})"
        listed = f"{framework} release in it for {context.platform}"
        hint = f" The newest {listed} is {newest.version}{day}."
    renewal = _RENEWALS[context.matrix.renewal]
    return context.report(
        f"The compatibility matrix does not list {label} for"
        f" {context.platform}, so it cannot be judged.{hint}",
        (fact, label),
        *cited,
        verdict=UNDETERMINED,
        cure=RenewMatrix(framework, f"{renewal}, or ask about a release that it lists."),
    )
