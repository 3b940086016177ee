"""What to write in a file so that what it builds works.

Another image, another release, another index.
"""

from __future__ import annotations

import re

from envcheck.actions import InstallPackages
from envcheck.check.blueprint import NO_DRIVER, Line, Lines, find_named
from envcheck.check.environment import CONDA_CUDA, Environment, Place
from envcheck.diagnosis.planned import name_working_releases
from envcheck.matrix.companions import TorchBuild, find_file
from envcheck.model import (
    ERROR,
    Alternative,
    Finding,
    Known,
    Remedy,
    major,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.fixes import (
    ChangeVariable,
    InstallCudaLibraries,
    KeepOneDistribution,
    RemoveFromLibraryPath,
    RestoreRequirements,
    UnsetVisibleDevices,
    UseOtherPython,
)
from envcheck.model.versions import name_of
from envcheck.remedies.system import system_packages
from envcheck.rules import Context, Target
from envcheck.rules.builds import Build, installed_builds, supports_python
from envcheck.rules.described_machine import Description, with_hardware
from envcheck.rules.engine import find
from envcheck.rules.frameworks import fitting_package
from envcheck.rules.gpu_releases import full_driver, toolkit_of

_OF_STATED_HARDWARE = frozenset({"driver-too-old", "gpu-arch-too-new", "gpu-arch-too-old"})
_OF_IMAGE = frozenset(
    {
        "cudnn-missing",
        "cudnn-too-old",
        "cudnn-wrong-cuda-build",
        "cudnn-wrong-major",
        "toolkit-missing",
        "toolkit-wrong-version",
    }
)
_CPU_BUILD = "framework-cpu-build"
_OF_VARIABLES = (ChangeVariable, RemoveFromLibraryPath, UnsetVisibleDevices)


def with_file_remedy(
    finding: Finding, places: list[Place], environment: Environment, context: Context
) -> Finding:
    """Return a finding with what to change in the file, where a machine needs other steps."""
    if finding.cure is None and finding.fix is None and finding.id not in _OF_STATED_HARDWARE:
        return finding
    fix = finding.fix
    if finding.id in _OF_IMAGE and environment.image.is_named:
        fix = (
            _compile_elsewhere(finding, environment, context)
            or _another_image(finding, environment, context)
            or fix
        )
    elif isinstance(finding.cure, UseOtherPython):
        written = _another_python(finding.cure, environment)
        fix = replace(fix, summary=written, actions=()) if fix and written else fix
    elif finding.id == _CPU_BUILD:
        fix = _build_for_gpu(places, environment) or fix
    elif finding.id == "driver-not-in-container" and environment.blueprint.lacks_gpu:
        fix = Remedy(f"Add `gpus: all` to {environment.blueprint.lacks_gpu.text}.")
    elif finding.id in _OF_STATED_HARDWARE and finding.severity != "note" and not finding.stops:
        fix = _another_release(fix, places, environment, context)
    left_out = _leave_out(finding, places, environment)
    fix = left_out or (_edit(fix, places, environment.blueprint.conda) if fix else None)
    return replace(finding, fix=fix)


def _leave_out(finding: Finding, places: list[Place], environment: Environment) -> Remedy | None:
    """Say which line to leave out.

    One that sets a variable, that uninstalls what is needed, or by which pip replaces what Conda
    has installed.
    """
    conda = environment.blueprint.conda
    by_conda = {place.name: place.label for place in environment.places if place.line in conda}
    for place in places:
        other = by_conda.get(place.name, place.label)
        if (
            other != place.label
            and place.line not in conda
            and finding.id not in _OF_STATED_HARDWARE
        ):
            return Remedy(
                f"Leave out `{place.line.text}` ({place.line.location}), by which pip replaces the"
                f" {other} of Conda; or install all of these with pip."
            )
    kind, verb = "", ""
    if isinstance(finding.cure, KeepOneDistribution):
        kept = name_of(finding.cure.kept)
        places = [replace(each, kind="rival") for each in places if each.name != kept]
        kind, verb = "rival", "Leave out"
    elif isinstance(finding.cure, _OF_VARIABLES):
        kind, verb = "variable", "Leave out"
    elif isinstance(finding.cure, (InstallCudaLibraries, RestoreRequirements)):
        kind, verb = "uninstalled", "Do not uninstall"
    lines = [
        f"`{place.line.text}` ({place.line.location})" for place in places if place.kind == kind
    ]
    return Remedy(f"{verb} {' and '.join(lines)}.") if lines else None


def _edit(fix: Remedy, places: list[Place], conda: Lines) -> Remedy:
    """Say what to write in the file instead of what one installs in an environment."""
    lines = {
        place.name: place.line
        for place in places
        if place.kind == "requirement" and (place.line.requirement or place.line in conda)
    }
    installs = [action for action in fix.actions if isinstance(action, InstallPackages)]
    if not lines or not installs:
        return fix
    index = next((f" --index-url {action.index}" for action in installs if action.index), "")
    changes: dict[Line, list[str]] = {}
    for text in (text for action in installs for text in action.requirements):
        line = lines.get(name_of(text), next(iter(lines.values())))
        kept = _keep_extras(text, line)
        if line in conda:  # by its own name there: pytorch
            kept = re.sub(r"^[\w-]+=", line.spec[0], text)
        # a lock's label of the same release stays: 2.8.0+cpu
        unlabelled = re.sub(r"\+\w+", "", line.text)
        if kept not in {line.text, unlabelled, line.text.replace("==", "=")}:
            changes.setdefault(line, []).append(kept)
    written = [_write_change(line, f"{' '.join(texts)}{index}") for line, texts in changes.items()]
    if len(written) == 1:  # the line says it; what the plan says of it would be said twice
        return replace(fix, summary=written[0], actions=())
    return replace(fix, summary=" ".join((fix.summary, *written)), actions=())


def _keep_extras(text: str, line: Line) -> str:
    """Ask for another release with the extras of its line: tensorflow[and-cuda]==2.15.1."""
    new, old = Line(text, "").requirement, line.requirement
    if new is None or old is None or new.extras or new.name != old.name:
        return text
    return replace(new, extras=old.extras).plain


def _write_change(line: Line, text: str) -> str:
    """Say what to write; a lock file is written by its tool alone."""
    file = line.location.rpartition(":")[0]
    if re.search(r"\.lock$|pylock[\w.-]*\.toml$|conda-lock\.ya?ml$", file):
        stated = line.text.partition(" ;")[0]
        return f"Ask for `{text}` in the project and lock it again: {line.location} has `{stated}`."
    return f"In {line.location}, write `{text}` in place of `{line.text}`."


def _another_python(cure: UseOtherPython, environment: Environment) -> str:
    """Write a Python that serves all that the file lists, where a line of it names Python.

    That is conda's line, or the tag of Python's own image. "" where there is none.
    """
    blueprint, image = environment.blueprint, environment.image
    version = environment.base.python.version
    where = version.source.where if isinstance(version, Known) else ""
    lines = (*blueprint.conda, Line(image.reference, image.location))
    words = [line.text for line in lines if line.location == where]
    match = re.search(r"\b(python[=:]+)\d\.\d+[\d.]*", "\n".join(words))
    if match is None:
        return ""
    for python in (system_packages().python.usual, *reversed(cure.pythons)):
        stated = replace(blueprint, python=Line(python, where))
        trial = Environment(stated, environment.matrix, environment.goal, Description())
        context = Context(trial.final_facts(), trial.matrix, Target(trial.goal))
        if not find(context, frozenset({"python-unsupported"}), trial.commands)[0]:
            return f"In {where}, write `{match[1]}{python}` in place of `{match[0]}`."
    return ""


def _compile_elsewhere(
    finding: Finding, environment: Environment, context: Context
) -> Remedy | None:
    """Say where to compile: in a stage from the devel variant.

    Or name the file that is built already.
    """
    image = environment.image
    compiled, possible = environment.list_compiled()
    line = next((each for each in (*compiled, *possible) if each.text in finding.message), None)
    if line is None or " is built here" not in finding.message:
        return None
    if finding.severity != ERROR:
        return Remedy(
            "If it contains CUDA code, build in a stage from the devel variant of the image."
        )
    devel = "a devel image of nvidia/cuda"
    if image.cuda:
        devel = image.reference.replace(f"-{image.flavor}", "-devel")
    build = f"uild in a stage FROM {devel}, and copy the result into the image that runs."
    built = _name_built_file(line.text, context)
    return Remedy(f"{built} Or b{build}" if built else f"B{build}")


def _name_built_file(text: str, context: Context) -> str:
    """Say which file installs what is compiled; "" where no built file is known."""
    host = next(
        (build for build in installed_builds(context) if build.traits.cuda.hosts_extensions), None
    )
    if host is None:
        return ""
    python = major_minor(context.python.version.value)
    version = f"{host.version}+{host.local}" if host.local else host.version
    glibc = context.host.libc_version.value or ""
    name = re.split("[=<>]", text, maxsplit=1)[0].strip()
    built = find_file(
        name,
        text[len(name) :].strip(),
        TorchBuild(version, host.cuda.value or "", python, context.platform, glibc),
    )
    if built is None:
        return ""
    words = " ".join((f"'{built.requirement}'", *built.options))
    return f"Install the file that its project built (documented, not read): `pip install {words}`."


def _another_image(finding: Finding, environment: Environment, context: Context) -> Remedy | None:
    """Name the image that the build takes its CUDA from.

    Packages laid over another one do not make it.
    """
    build = next(
        (item for item in installed_builds(context) if item.label in finding.message), None
    )
    cuda = build.cuda.value if build else None
    if build is None or not cuda:
        return None
    own = environment.image.cuda
    if "refuses to build" in finding.message:
        other = _name_build_for(build, own, context)
        return Remedy(f"Build on a devel image with CUDA {cuda}{other}.")
    cudnn = build.cudnn.value
    holds = f"CUDA {cuda}" + (f" and cuDNN {major(cudnn)}" if cudnn else "")
    other = ""
    if own:
        other = f", or a release of {build.framework} that was built for CUDA {major_minor(own)}"
    return Remedy(f"Use a base image with {holds}{other}.")


def _name_build_for(build: Build, cuda: str, context: Context) -> str:
    rows = context.matrix.builds(build.framework, context.platform)
    same = (
        row
        for row in rows
        if row.cuda and row.cuda_build and numbers(row.cuda)[:1] == numbers(cuda)[:1]
    )
    row = next((item for item in same if not item.yanked and supports_python(context, item)), None)
    index = f" --index-url {row.index}" if row and row.index else ""
    if row:
        return f", or install `{row.distribution}=={row.build_version}{index}` before it"
    return ""


def _build_for_gpu(places: list[Place], environment: Environment) -> Remedy | None:
    """Say how the file comes to the build for CUDA.

    By the image's tag, the index or conda's package.
    """
    line = places[0].line if places else None
    if line is None:
        return None
    if line.location == environment.image.location and line.text == environment.image.reference:
        return Remedy(f"Use {environment.image.gpu_tag or 'an image with its build for CUDA'}.")
    if line in environment.blueprint.conda:
        return _choose_build_of_conda(line, environment)
    if line.index == "cpu" or "+cpu" in line.text:
        text = (
            "Use PyTorch's index for a CUDA variant (…/whl/cu126), or none: the default wheels"
            " include CUDA."
        )
        return Remedy(text)
    return None


def _choose_build_of_conda(line: Line, environment: Environment) -> Remedy | None:
    """Say how conda comes to choose a build for CUDA."""
    image, pinned = environment.image, find_named(environment.blueprint.conda, *CONDA_CUDA)
    if line.spec[0] == "cpuonly":
        return Remedy("Use pytorch-cuda, or pytorch-gpu from conda-forge, instead of cpuonly.")
    if environment.blueprint.kind == "lock file" or environment.blueprint.conda_driver == NO_DRIVER:
        asked = '`[system-requirements] cuda = "12"` for pixi, `__cuda` for conda-lock'
        return Remedy(f"State the driver's CUDA in the project ({asked}), and lock it again.")
    if image.is_named:
        stated = f"CONDA_OVERRIDE_CUDA={major_minor(image.cuda) or '12'}"
        why = "conda takes builds for the CPU where it sees no driver, as while an image is built."
        return Remedy(f"Write `{stated}` before the command of {line.location}: {why}")
    if pinned is not None:
        other = f"or name a CUDA that conda has a build of `{line.text}` for"
        return Remedy(f"Leave out `{pinned.text}` ({pinned.location}), {other}.")
    return None


def _fitting(environment: Environment, places: list[Place]) -> str:
    """Name the release of a package that goes with the framework which it replaced.

    Return "" where it replaced none.
    """
    owner = next((place for place in places if place.owner), None)
    if owner is None:
        return ""
    framework = environment.matrix.framework_of(owner.name)
    for command in environment.commands:
        for build in installed_builds(command):
            if build.framework == framework and build.label != owner.label:
                return fitting_package(command, owner.owner.split(" ")[0], build)
    return ""


def _before(environment: Environment, context: Context) -> Context:
    """Return the system without its packages, and where no driver states its CUDA."""
    facts = environment.base
    toolkit = toolkit_of(context, environment.image.cuda)
    driver = None
    if toolkit and facts.driver.release.value is None:
        driver = full_driver(context, toolkit)
    if driver:
        facts = with_hardware(facts, Description(driver=driver), context.matrix)
    return Context(facts, context.matrix, Target(context.goal))


def _another_release(
    fix: Remedy | None, places: list[Place], environment: Environment, context: Context
) -> Remedy | None:
    """Name the releases that work on the stated driver and GPUs, before what to do to those."""
    names = [
        place.owner.split(" ")[0] or place.name
        for place in places
        if place.line.text != environment.image.reference
    ]
    other = names and (
        _fitting(environment, places)
        or name_working_releases(_before(environment, context), (names[0],))
    )
    if not other:
        return fix
    ways = (Alternative(fix.summary, fix.actions), *fix.alternatives) if fix else ()
    return Remedy(f"Ask for `{other}` instead, which works there.", (), ways)
