"""What to do about the packages around a framework.

Packages that a framework requires, that require a framework, or that are compiled against one.
"""

from __future__ import annotations

import re

from envcheck.actions import (
    ADD,
    InstallCondaPackages,
    InstallPackages,
    SetVariables,
    fit_to_project,
    is_requirement,
)
from envcheck.frameworks import identity
from envcheck.matrix.companions import (
    SourceBuild,
    SourceInstall,
    TorchBuild,
    companion_row,
    find_file,
    shares_cuda,
    source_package,
)
from envcheck.matrix.package_index import index_url
from envcheck.model import (
    Absent,
    Alternative,
    Distribution,
    FrameworkRelease,
    Remedy,
    ToolkitInstall,
    Unknown,
    major,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.fixes import (
    InstallProjectsBuild,
    InstallRequiredRelease,
    InstallRequirements,
    InstallTogether,
    MatchCudaOfPackage,
    MatchInstalledFramework,
    RebuildExtension,
    ReplaceLabelledBuild,
    RestoreKeras2,
    RestoreRequirements,
    UseOtherCompiler,
)
from envcheck.model.versions import (
    admits_others,
    can_be_met,
    matches,
    name_of,
    public_version,
    within,
)
from envcheck.remedies.situation import PROGRAM_SHELL, Actions, Situation
from envcheck.remedies.system import (
    install_anywhere,
)
from envcheck.remedies.toolkit import (
    install_build_toolkit,
    is_plain_path,
    use_other_compiler,
)
from envcheck.rules.builds import Build, is_conda_build, is_free_threaded
from envcheck.rules.compilers import toolkits_with_nvcc
from envcheck.rules.context import Context
from envcheck.rules.described_machine import capabilities
from envcheck.rules.requirements import requirements_on


def install_requirements(situation: Situation, fix: InstallRequirements) -> Remedy:
    """Install them, in releases that the other installed packages admit, too."""
    rival, requirements = _fit_installed(situation, fix.requirements)
    if rival:
        return Remedy(rival)
    summary = f"Install {', '.join(requirements)}."
    if fix.advice:
        summary = f"{summary} {fix.advice}"
    return Remedy(summary, situation.install(*requirements, index=fix.index))


def install_together(situation: Situation, fix: InstallTogether) -> Remedy:
    """Give them to the tool that spoke, in one command."""
    requirements = tuple(filter(is_requirement, fix.requirements))
    steps: Actions = situation.install(*requirements)
    if fix.tool == "conda":
        # python>=3.12,<3.13.0a0 is python=3.12 there, which admits 3.12.4
        specs = (re.sub(r"(?:[=>]=)([\d.]*\d).*", r"=\1", text) for text in requirements)
        steps = (InstallCondaPackages(tuple(specs), ()),)
    elif fix.tool in ADD:
        steps = tuple(fit_to_project(item, fix.tool) for item in steps)
    releases = " with ".join(requirements)
    return Remedy(f"Ask for {releases}: they fit each other. Nothing was installed.", steps)


def restore_requirements(situation: Situation, fix: RestoreRequirements) -> Remedy:
    """Install a distribution's requirements in releases that the others admit."""
    rival, requirements = _fit_installed(situation, (fix.owner, *fix.others))
    if rival:
        return Remedy(rival)
    owner, *others = requirements
    summary = f"Install {', '.join((*others, owner))}."
    if fix.is_missing:
        with_others = f", with {' and '.join(others)}" if others else ""
        summary = f"Reinstall {owner}{with_others}: pip then installs what is missing."
    return Remedy(summary, situation.install(*requirements))


def _fit_installed(situation: Situation, texts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Bound requirements by what installed packages require; say why where that leaves none."""
    fitted = []
    for text in texts:
        rival, requirement = _fit_others(situation, text)
        if rival:
            name = name_of(text)
            reason = f"{rival} needs another release of {name} than {text.removeprefix(name)}"
            return f"Use separate environments: {reason}.", ()
        fitted.append(requirement)
    return "", tuple(fitted)


def _fit_others(situation: Situation, text: str) -> tuple[str, str]:
    """Bound a requirement by what working packages require, and name who refuses it."""
    name = name_of(text)
    specifier = text.removeprefix(name)
    installed = situation.context.distributions.get(name)
    if installed is None or specifier[:1] not in ("<", ">", "=", "!", "~"):
        return "", text
    for need in requirements_on(situation.context, name):
        if not matches(installed.version, need.specifier):
            continue  # it is broken already, by what is installed
        if not can_be_met(f"{specifier},{need.specifier}"):
            return need.owner.label, text
        bounds = need.specifier.split(",")
        extra = [clause for clause in bounds if admits_others(specifier, clause)]
        specifier = ",".join((specifier, *extra))
    return "", name + specifier


def match_installed_framework(situation: Situation, fix: MatchInstalledFramework) -> Remedy | None:
    """Install what its project built, else its release from the index of the framework's build."""
    built = install_projects_build(situation, InstallProjectsBuild(fix.name))
    if built or not fix.release:
        return built
    name, framework = fix.name, fix.framework
    version, _, label = fix.release.partition("+")
    pin, index = f"{framework}=={version}", index_url(framework, label)
    known = _list_dependants(situation, framework, version, name)
    build = situation.matrix.build(framework, version, label, situation.context.platform)
    fits = [row for row in known if build is None or situation.matrix.is_of_one_cuda(row, build)]
    installed = situation.context.distributions.get(name)
    if fits:
        requirement = f"{fits[0].distribution}=={fits[0].version}"
        # pip takes another build of this very release for the one that is asked for.
        is_other = (
            installed and installed.public != fits[0].version and fits[0].distribution == name
        )
        replaced = () if is_other else situation.uninstall(name)
        steps = situation.install(
            pin, requirement, index=index if companion_row(name).on_index else ""
        )
        return Remedy(
            f"Install {requirement}, which was made for {framework} {version}.", (*replaced, *steps)
        )
    if known:
        there = (row for row in known if installed and row.version == installed.version)
        return _install_for_cuda_of(situation, framework, version, next(there, known[0]))
    kept = None
    if installed:
        kept = _keep_dependant(situation, framework, label, installed)
    if kept or situation.from_log:
        return kept
    summary = f"Install the release of {name} that was made for {framework} {version}."
    return Remedy(summary, situation.install(pin, name, index=index))


def _keep_dependant(
    situation: Situation, framework: str, label: str, installed: Distribution
) -> Remedy | None:
    """Install the framework's newest release that an installed companion was made for.

    Return None where none is known.
    """
    matrix, platform = situation.matrix, situation.context.platform
    pin = matrix.companion_pins(framework, installed.name).get(installed.public)
    minor = major_minor(situation.facts.python.version.value)
    for row in matrix.releases(framework, platform) if pin else ():
        is_usable = row.distribution == framework and (not minor or minor in row.pythons)
        if is_usable and matches(row.version, str(pin)):
            index = ""
            if matrix.build(framework, row.version, label, platform):
                index = index_url(framework, label)
            summary = f"Install {row.pin}, which {installed.label} was made for."
            return Remedy(summary, situation.install(row.pin, index=index))
    return None


def _list_dependants(
    situation: Situation, framework: str, version: str, name: str
) -> list[FrameworkRelease]:
    """List the companion releases that go with a framework's, newest first."""
    matrix, platform = situation.matrix, situation.context.platform
    row, minor = companion_row(name), major_minor(situation.facts.python.version.value)
    found = [*matrix.companions_of(framework, version, platform, name)]
    owners: tuple[FrameworkRelease, ...] = ()
    if row.pinned_by:
        owners = matrix.companions_of(framework, version, platform, row.pinned_by)
    for item in row.distributions if owners else ():
        pins = {owner.requires.get(item, "").removeprefix("==") for owner in owners}
        releases = matrix.companion_releases(item) if any(pins) else ()
        found += (
            each for each in releases if each.version in pins and each.platform in (platform, "any")
        )
    return [each for each in found if not minor or each.platform == "any" or minor in each.pythons]


def _install_for_cuda_of(
    situation: Situation, framework: str, version: str, companion: FrameworkRelease
) -> Remedy:
    """Install the framework's build for the CUDA of a companion's only build.

    Or the newest release that has one.
    """
    matrix, platform = situation.matrix, situation.context.platform
    row = matrix.release(framework, version, platform)
    builds = matrix.index_builds(row) if row else ()
    cuda = major(companion.cuda)
    same = next((each for each in builds if each.cuda and major(each.cuda) == cuda), None)
    if same is None:
        pin = matrix.companion_pins(framework, companion.distribution).get(companion.version, "")
        rows = matrix.releases(framework, platform, lambda listed: matches(listed, pin))
        pair = next((each for each in rows if pin and shares_cuda(companion, each)), None)
        together = (pair.pin, companion.pin) if pair else ()
        summary = f"Install {' and '.join(together)}, which go together."
        if not together:
            summary = f"No {framework} {version} is for CUDA {companion.cuda}, as {companion.pin}."
        return Remedy(summary, situation.install(*together))
    pin = f"{framework}=={version}"
    framework_pin = f"{pin}+{same.local}" if same.local else pin
    summary = (
        f"Install {framework_pin} with {companion.pin}: that one is for CUDA {companion.cuda}."
    )
    steps: Actions = ()
    if same.local:
        steps = situation.install(framework_pin, index=index_url(framework, same.local))
    installed = situation.context.distributions.get(companion.distribution)
    if installed is None or installed.public != companion.version:
        steps = (*steps, *situation.install(companion.pin))
    return Remedy(summary, steps)


def restore_keras2(situation: Situation, fix: RestoreKeras2) -> Remedy | None:
    """Install the tf-keras of the TensorFlow that is there, which brings Keras 2 back."""
    build = situation.build(fix.framework)
    row = build.release if build else None
    if row is None:
        return None
    found = situation.matrix.companions_of(
        row.framework, row.version, situation.context.platform, "tf-keras"
    )
    if not found:
        return None
    requirement = f"tf-keras=={found[0].version}"
    switch = SetVariables((("TF_USE_LEGACY_KERAS", "1"),), PROGRAM_SHELL)
    summary = (
        f"Code for Keras 2 needs {requirement} with {identity(row.framework).title} {row.version}."
    )
    return Remedy(summary, (*situation.install(requirement), switch))


def install_required_release(situation: Situation, fix: InstallRequiredRelease) -> Remedy | None:
    """Install it within the bounds of the framework's release; None where that has no upper one."""
    build = situation.build(fix.framework)
    row = build.release if build else None
    specifier = ""
    if row:
        specifier = row.requires.get(fix.name, "").replace(" ", "").replace("dev", ".dev0")
    requirement = f"{fix.name}{specifier}"
    if row is None or "<" not in specifier or not is_requirement(requirement):
        return None
    summary = f"Install the {fix.name} that {row.label} requires."
    return Remedy(summary, situation.install(requirement))


# Compiled packages beside a framework: the built file that fits, or a build that works here.


def torch_build(context: Context, version: str, cuda: str | None) -> TorchBuild | None:
    """Describe what a file must be built for to load beside a torch here.

    Return None where that is not known.
    """
    python = context.python.version.value
    libc = context.host.libc_version
    if (
        not python
        or not cuda
        or is_free_threaded(context)
        or context.host.libc_kind.value == "musl"
    ):
        return None
    glibc = ""
    if context.os == "linux" and libc.value is not None:
        glibc = libc.value
    return TorchBuild(version, cuda, major_minor(python), context.platform, glibc)


def find_install(
    context: Context, text: str, version: str, cuda: str | None, *, compiles: bool = True
) -> SourceInstall | None:
    """Choose a package's built file for a torch, or a build of it; None for neither."""
    if find_obstacle(context, text, version, cuda):
        return None
    return _use_file(context, text, version, cuda) or _use_sources(
        context, text, version, cuda, compiles=compiles
    )


def _use_file(context: Context, text: str, version: str, cuda: str | None) -> SourceInstall | None:
    """Name the built file of a package for a torch; None where none is known."""
    name, specifier = _split(text)
    wanted = torch_build(context, version, cuda)
    found = find_file(name, specifier, wanted) if wanted else None
    if found is None or wanted is None:
        return None
    return replace(found, notes=(_describe_file(found, wanted),))


def _describe_file(found: SourceInstall, wanted: TorchBuild) -> str:
    if found.options:
        return (
            f"documented: {found.options[-1]} lists {found.name}"
            f" {found.version} for this CUDA; it was not read."
        )
    built = f"{found.name} for torch {major_minor(wanted.version)} and Python {wanted.python}"
    return (
        "documented: the project's build files name this"
        f" file of {built}; the file itself was not read."
    )


def _use_sources(
    context: Context, text: str, version: str, cuda: str | None, *, compiles: bool
) -> SourceInstall | None:
    """Plan to build a package from its sources for a torch; None where it may not compile."""
    name, specifier = _split(text)
    package = source_package(name)
    release = _find_newest(name, specifier)
    if package is None or not release or package.options:
        return None
    pin, build = f"{name}=={release}", package.build
    if build is None:  # nothing is compiled: the sources are what is installed
        return SourceInstall(name, release, pin)
    if not compiles or not cuda:
        return None
    toolkit, situation = _find_nvcc(context, build, cuda), Situation(context)
    steps = () if toolkit else _install_nvcc(situation, cuda)
    root = "" if situation.has_conda else f"/usr/local/cuda-{major_minor(cuda)}"
    if toolkit:
        root = toolkit.root
    home = {"CUDA_HOME": root} if is_plain_path(root) else {}
    compiler = _bring_compiler(situation, (toolkit.version.value if toolkit else "") or cuda)
    chosen = dict(
        pair for action in compiler if isinstance(action, SetVariables) for pair in action.values
    )
    limits = {**_limit_jobs(context, build), **_limit_architectures(context, build)}
    settings = {**home, **chosen, **build.settings, **limits}
    return SourceInstall(
        name,
        release,
        pin,
        ("--no-build-isolation",),
        tuple(settings.items()),
        build.requires,
        compiles=True,
        machine_steps=(*steps, *(action for action in compiler if not action.in_shell)),
        notes=_describe_build(context, pin, build),
    )


def find_obstacle(context: Context, text: str, version: str, cuda: str | None) -> str:
    """Say why a package cannot be built for a torch here, and what would help; "" where it can."""
    name, _ = _split(text)
    package = source_package(name)
    build = package.build if package else None
    if build is None:
        return ""
    if context.platform not in build.platforms:
        return f"{name} is built on {' and '.join(build.platforms)} only" + (
            ": use WSL 2." if context.os == "windows" else "."
        )
    if not cuda:
        return f"{name} is CUDA code: it needs a CUDA build of torch."
    oldest = min(capabilities(context.facts), key=numbers, default="")
    obstacles = (
        (
            f"torch{build.torch}",
            f"this is {version}",
            within(public_version(version), build.torch),
        ),
        (
            f"nvcc {build.cuda} or newer",
            f"torch {version} is built for CUDA {cuda}",
            _is_reached(cuda, build.cuda),
        ),
        (
            f"compute capability {build.compute_capability} or newer",
            f"the GPU has {oldest}",
            not oldest or _is_reached(oldest, build.compute_capability),
        ),
    )
    for need, present, is_met in obstacles:
        if not is_met:
            return f"{name} needs {need}; {present}."
    return ""


def _is_reached(version: str, lowest: str) -> bool:
    return numbers(version) >= numbers(lowest or "0")


def _split(text: str) -> tuple[str, str]:
    name = re.split(r"[<>=!~]", text, maxsplit=1)[0]
    return name, text[len(name) :]


def _find_newest(name: str, specifier: str) -> str:
    package = source_package(name)
    for release in package.releases if package else ():
        for version in release.versions:
            if within(version, specifier):
                return version
    return ""


def _find_nvcc(context: Context, build: SourceBuild, cuda: str) -> ToolkitInstall | None:
    """Find an nvcc of the CUDA major of torch, the one of its own minor first."""
    fitting = [
        item
        for item in toolkits_with_nvcc(context)
        if numbers(item.version.value or "0") >= numbers(build.cuda or "0")
        and numbers(item.version.value or "0")[:1] == numbers(cuda)[:1]
    ]
    return min(fitting, key=lambda item: item.version.value != major_minor(cuda), default=None)


def _install_nvcc(situation: Situation, cuda: str) -> Actions:
    """Install the toolkit of a CUDA; its folder is named to the build itself."""
    steps, _ = install_build_toolkit(situation, cuda)
    is_read = not isinstance(situation.facts.toolkits.installs, Unknown)
    purpose = f"Install nvcc of CUDA {major_minor(cuda)}" + (
        "." if is_read else ", if it is not installed."
    )
    return tuple(replace(item, purpose=purpose) for item in steps if not item.in_shell)


def _bring_compiler(situation: Situation, cuda: str) -> Actions:
    """Install, or name to nvcc, a host compiler that it accepts.

    Return () where the one that is there will do.
    """
    gcc = situation.facts.compilers.gcc_version
    row = situation.matrix.toolkit(cuda)
    if isinstance(gcc, Absent):
        return install_anywhere(situation, "compiler-for-python", "Install a C++ compiler.")[0]
    if row is None or gcc.value is None:
        return ()
    highest, lowest = row.gcc_max or "", row.gcc_min or ""
    # nvcc's headers compare as many numbers as the limit names
    limit = numbers(highest or gcc.value)
    if numbers(gcc.value)[: len(limit)] <= limit and _is_reached(gcc.value, lowest):
        return ()
    found = use_other_compiler(situation, UseOtherCompiler(row.version, highest, lowest, gcc.value))
    if found:
        return tuple(action.with_purpose(found.summary) for action in found.actions)
    return ()


def _limit_jobs(context: Context, build: SourceBuild) -> dict[str, str]:
    memory = context.host.memory_bytes.value
    if not memory or not build.job_gigabytes:
        return {}
    return {"MAX_JOBS": str(max(1, int(memory / 1e9 / build.job_gigabytes)))}


def _limit_architectures(context: Context, build: SourceBuild) -> dict[str, str]:
    """Compile for the GPUs that are there alone, where the build can be told."""
    present = capabilities(context.facts)
    if not build.variable or not present:
        return {}
    if not build.architectures:
        return {build.variable: ";".join(present)}
    codes = {_code_for(capability, build.architectures) for capability in present}
    return {build.variable: ";".join(sorted(codes, key=int))}


def _code_for(capability: str, codes: tuple[str, ...]) -> str:
    """Return the newest code of a GPU's major that it runs: 80 for 8.9."""
    own = int(capability.replace(".", ""))
    for code in sorted(codes, key=int, reverse=True):
        if int(code) <= own:
            return code
    return codes[0]


def _describe_build(context: Context, pin: str, build: SourceBuild) -> tuple[str, ...]:
    name, _, _ = pin.partition("==")
    text = f"No built file of {name} is known for this torch, CUDA and Python, so it is compiled."
    if build.looks_for_file:
        text += " Its build first looks for a file on the project's page."
    count = 0
    if build.variable:
        count = len(_limit_architectures(context, build).get(build.variable, "").split(";"))
    minutes = build.core_minutes * (count or build.compiled)
    jobs = int(_limit_jobs(context, build).get("MAX_JOBS", "0"))
    if minutes:
        text += f" That takes about {minutes:.0f} minutes of one core"
        if jobs > 1:
            text += f", {minutes / jobs:.0f} minutes on {jobs} cores"
        if build.job_gigabytes:
            text += f", and {build.job_gigabytes:g} GB of memory for each job"
        text += "."
    else:
        text += " How long that takes is not known."
    return (text,)


def rebuild_extension(situation: Situation, fix: RebuildExtension) -> Remedy | None:
    """Install an extension's build for the installed framework, or build it."""
    build, framework, release = _find_host(situation), "", ""
    if build and situation.matrix.companion_of(fix.name):
        framework, release = build.framework, build.label.partition(" ")[2]
    matching = MatchInstalledFramework(fix.name, framework, release)
    return match_installed_framework(situation, matching) or _rebuild(situation, fix.name)


def _find_host(situation: Situation) -> Build | None:
    """Return the build that extensions are compiled against."""
    return next((item for item in situation.builds if item.traits.cuda.hosts_extensions), None)


def replace_labelled_build(situation: Situation, fix: ReplaceLabelledBuild) -> Remedy | None:
    """Install what its project built; else name the build."""
    found = install_projects_build(situation, InstallProjectsBuild(fix.name))
    return found or Remedy(f"Install the {fix.name} build for {fix.framework}.")


def _rebuild(situation: Situation, name: str) -> Remedy:
    """Rebuild an extension of which no more is known."""
    options = (
        "--force-reinstall",
        "--no-deps",
        "--no-build-isolation",
        "--no-cache-dir",
        "--no-binary",
        name,
    )
    rebuild = InstallPackages((name,), situation.python, options=options, purpose=f"rebuild {name}")
    is_name = re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name) is not None
    wheel = (
        Alternative("Install its wheel for this framework, CUDA and Python, if there is one."),
    )
    return Remedy(
        "Rebuild it against the installed framework.", (rebuild,) if is_name else (), wheel
    )


def install_projects_build(situation: Situation, fix: InstallProjectsBuild) -> Remedy | None:
    """Install the file that its project built for the framework that is there.

    Where there is none, build it.
    """
    name, context = fix.name, situation.context
    if not source_package(name):
        return None
    build = _find_host(situation)
    if build is None or is_conda_build(context, build):
        return None
    version, cuda = build.label.partition(" ")[2], build.cuda.value
    present = context.distributions.get(name)
    pin = f"{name}=={present.public}" if present else name
    found = find_install(context, pin, version, cuda, compiles=False) or find_install(
        context, name, version, cuda
    )
    if found is None:
        obstacle = find_obstacle(context, name, version, cuda)
        removal = situation.uninstall(name) if present else ()
        if obstacle:
            return Remedy(f"{obstacle} Uninstall it." if removal else obstacle, removal)
        return None
    if found.compiles:
        verb = f"Build {name} {found.version} against"
    else:
        verb = f"Install {name} {found.version}, built for"
    summary = " ".join((f"{verb} {build.label}.", *found.notes))
    plan = situation.plan_command("", name) if found.compiles else ()
    without_compiler = (
        Alternative("With a torch that it has a built file for, it needs no compiler:", plan),
    )
    steps = (*found.machine_steps, *_install_again(situation, found))
    return Remedy(summary, steps, without_compiler if plan else ())


def _install_again(situation: Situation, found: SourceInstall) -> Actions:
    """Replace an extension, and nothing else, by another build of it."""
    options = ("--force-reinstall", "--no-deps", *found.options)
    if found.compiles:
        options = (*options, "--no-cache-dir", "--no-binary", found.name)
    replaced = InstallPackages(
        (found.requirement,), situation.python, options=options, settings=found.settings
    )
    return (*(situation.install(*found.requires) if found.requires else ()), replaced)


def match_cuda_of_package(situation: Situation, fix: MatchCudaOfPackage) -> Remedy | None:
    """Install the framework for the companion's CUDA, or the companion for its own."""
    found = install_projects_build(situation, InstallProjectsBuild(fix.name))
    if found:
        return found
    name, _, version = fix.framework.partition("==")
    if situation.matrix.build(name, version, fix.label, situation.context.platform):
        pin = f"{fix.framework}+{fix.label}"
        return Remedy(
            f"Install {pin}, which is for the same CUDA as {fix.package}.",
            situation.install(pin, index=index_url(name, fix.label)),
        )
    steps: Actions = ()
    if fix.framework_label:
        steps = situation.install(
            fix.package, index=index_url(name, fix.framework_label), force=True
        )
    return Remedy(f"Install {fix.package} and {fix.framework} for the same CUDA.", steps)
