"""Judge what a file will build before it is built."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envcheck.check.blueprint import Blueprint, Image, Line, is_for_gpu
from envcheck.check.config import Config
from envcheck.check.judge import find_module_clashes, ignored_for_now
from envcheck.diagnosis import with_steps
from envcheck.frameworks import Framework, identities
from envcheck.matrix.images import load_base_images
from envcheck.matrix.query import Matrix
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    WARNING,
    Absent,
    Evidence,
    Fact,
    Facts,
    Finding,
    HostFacts,
    Known,
    LibraryInstall,
    Problem,
    PythonFacts,
    Report,
    Source,
    ToolkitFacts,
    ToolkitInstall,
    Unknown,
    get_value,
    major,
    major_minor,
)
from envcheck.remedies import with_remedy
from envcheck.remedies.situation import Situation
from envcheck.rules import Context, Target, conclude
from envcheck.rules.builds import Build, target_builds
from envcheck.rules.judgement import judge_release

_LATER = Unknown("failed", "the file does not say; it shows when the image runs")
_USUAL = Known("x86_64", Source("file", "the file", "assumed: it does not name a platform"))
_MACHINES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}
_LIBRARIES = ("runtime", "devel")  # the flavors that hold CUDA's libraries, not libcudart alone
ROOT = "/usr/local/cuda"


def planned_facts(blueprint: Blueprint) -> Facts:
    """Compose the facts that the file decides."""
    return Facts(
        host=_host(blueprint),
        gpus=_LATER,
        toolkits=ToolkitFacts(installs=_toolkits(blueprint)),
        cudnn=_cudnn(blueprint),
        tensorrt=_LATER,
        nccl=_LATER,
        python=_python(blueprint),
    )


def _known(value: str, image: Image) -> Fact[str]:
    return Known(value, Source("file", image.where, image.reference)) if value else _LATER


def _architecture(blueprint: Blueprint) -> Fact[str]:
    if not blueprint.platform:
        return _USUAL
    machine = _MACHINES.get(blueprint.platform.split("/")[1] if "/" in blueprint.platform else blueprint.platform)
    where = blueprint.image.where if blueprint.image is not None else blueprint.path
    return Known(machine, Source("file", where, blueprint.platform)) if machine else _LATER


def _host(blueprint: Blueprint) -> HostFacts:
    image = blueprint.image
    if image is None:
        return HostFacts(os=Known("linux", Source("file", "the file")), libc_version=_LATER)
    seen = Source("file", image.where, image.reference)
    libc = "musl" if image.os == "alpine" else "glibc" if image.glibc else ""
    return HostFacts(
        os=_LATER if "windows" in image.reference.lower() else Known("linux", seen),
        distribution_id=_known(image.os, image),
        distribution_version=_known(image.os_version, image),
        architecture=_architecture(blueprint),
        libc_kind=_known(libc, image),
        libc_version=_known(image.glibc, image),
        container=Known("docker", seen),
        is_root=Known(value=True, source=seen),
    )


def _toolkits(blueprint: Blueprint) -> Fact[tuple[ToolkitInstall, ...]]:
    """Name the toolkit; what a step adds, an image of unknown contents and a file without an image leave it open."""
    image, spec = blueprint.image, conda_version(blueprint, ("cudatoolkit", "cuda-toolkit", "cuda-version"))
    installs: list[ToolkitInstall] = []
    if spec is not None:
        found = Known(spec.text, Source("file", spec.where, spec.text))
        installs.append(ToolkitInstall("$CONDA_PREFIX", "conda", version=found))
    if image is None or not image.source or blueprint.added or image.frameworks:
        return Known(tuple(installs), installs[0].version.source) if installs else _LATER  # type: ignore[union-attr]
    if image.cuda and image.flavor in _LIBRARIES:
        version = _known(major_minor(image.cuda), image)
        nvcc = _known(f"{ROOT}/bin/nvcc", image) if image.flavor == "devel" else Absent((image.where,))
        installs.insert(0, ToolkitInstall(ROOT, "usr-local", version=version, nvcc_path=nvcc))
    return Known(tuple(installs), Source("file", image.where)) if installs else Absent((image.where,))


def _cudnn(blueprint: Blueprint) -> Fact[tuple[LibraryInstall, ...]]:
    image, spec = blueprint.image, conda_version(blueprint, ("cudnn",))
    if spec is not None:
        named = Source("file", spec.where, spec.text)
        copy = LibraryInstall("cudnn", "$CONDA_PREFIX", "conda", package_version=Known(spec.text, named))
        return Known((copy,), named)
    if image is not None and image.cudnn and not image.frameworks and not blueprint.added:
        seen = Source("file", image.where, image.reference)
        version: Fact[str] = Known(image.cudnn, seen) if image.cudnn != "any" else _LATER
        cuda = Known(major(image.cuda), seen)
        return Known((LibraryInstall("cudnn", "/usr", "debian", library_version=version, cuda_major=cuda),), seen)
    told = image is not None and image.source and not image.frameworks and not blueprint.added
    return Absent((image.where,)) if told and image is not None else _LATER


def _python(blueprint: Blueprint) -> PythonFacts:
    version: Fact[str] = _LATER
    if blueprint.python is not None:
        version = Known(blueprint.python.text, Source("file", blueprint.python.where))
    elif blueprint.image is not None:
        version = _known(blueprint.image.python, blueprint.image)
    tag = f"cp{version.value.replace('.', '')}" if isinstance(version, Known) else ""
    seen = version.source if isinstance(version, Known) else Source("file", blueprint.path)
    return PythonFacts(
        executable=Known("python", seen),
        pip_version=_pip(blueprint),
        version=version,
        abi_tag=Known(tag, seen) if tag else _LATER,
        bits=Known(64, seen),
        architecture=_architecture(blueprint),
        distributions=Known((), seen),
        frameworks=Absent((blueprint.path,)),
    )


def _pip(blueprint: Blueprint) -> Fact[str]:
    """Name the system's own pip where the file installs it, and neither renews it nor uses another."""
    image, line = blueprint.image, blueprint.pip
    renewed = any(re.match(r"pip\b(?!-)", item.text) for item in blueprint.requirements)
    if image is None or line is None or not image.pip or blueprint.own_pip or blueprint.built or renewed:
        return _LATER
    return Known(image.pip, Source("file", line.where, f"{line.text}: {image.pip} in {image.os} {image.os_version}"))


def conda_version(blueprint: Blueprint, names: tuple[str, ...]) -> Line | None:
    """Return the version that a conda spec pins one of `names` to: cudatoolkit=11.2.2 -> 11.2.2."""
    for line in blueprint.conda:
        found = re.match(r"([\w-]+)\s*={1,2}\s*(\d+(?:\.\d+)*)", line.text)
        if found and found[1] in names:
            return Line(found[2], line.where)
    return None


Told = Iterator[tuple[str, list[Finding]]]


def judge_file(blueprint: Blueprint, wanted: list[Line], goal: str) -> Told:
    """Yield each check that the file decides with what it found."""
    if goal == "gpu":
        conda = [line for line in blueprint.conda if line.text.split("=")[0].strip() == "cpuonly"]
        brought = _brought(blueprint.image)
        if wanted or conda or (blueprint.image and blueprint.image.frameworks):
            by_index = [_cpu_wheels(line) for line in wanted if line.index == "cpu"]
            yield "framework-cpu-build", by_index + [_cpu_conda(line) for line in conda] + brought
        without = [_no_plugin(line, known) for line in wanted if (known := _lacks_plugin(line, blueprint))]
        if without:
            yield "framework-cuda-extra-missing", without
    yield from judge_stage(blueprint, goal)
    if (blueprint.asks_gpu or blueprint.lacks_gpu) and goal == "gpu":
        yield "driver-not-in-container", [_no_request(line) for line in (blueprint.lacks_gpu,) if line]


def judge_stage(blueprint: Blueprint, goal: str) -> Told:
    """Yield what compiles in an image without a compiler for it, and what could not be read."""
    image = blueprint.image
    plain = image is not None and image.source and image.flavor != "devel" and not blueprint.added
    if image is not None and plain and goal != "cpu" and not (image.frameworks and not image.flavor):
        compiling = [_no_compiler(line, image) for line in _compiling(blueprint)[:1]]
        perhaps = [
            _maybe_no_compiler(line, image) for line in blueprint.may_compile[:1] if image.cuda and not compiling
        ]
        if compiling or perhaps:
            yield "toolkit-missing", compiling + perhaps
    for line in (*blueprint.unread, *_not_judged(blueprint)):
        yield "", [_unread(line)]


def _not_judged(blueprint: Blueprint) -> Iterator[Line]:
    """Say what the names in the file leave open."""
    image = blueprint.image
    if image is not None and blueprint.kind != "stage" and not image.source:
        yield Line(f"The name {image.reference or '(none)'} does not tell what the image holds.", image.where)
    for line in blueprint.requirements:
        name, at, _ = line.text.partition("@")
        if line.index == "other":
            said = f"{line.text} comes from an index of builds for other makers' GPUs, which is not judged."
            yield replace(line, text=said)
        elif at and re.fullmatch(r"[\w.\[\],-]+", name.strip()):
            yield replace(line, text=f"{name.strip()} comes from an address of its own, which is not judged.")


def _brought(image: Image | None) -> list[Finding]:
    """Find images whose name says that they hold a build for the CPU."""
    cpu = [name for name in (image.frameworks if image else ()) if "-cpu" in name]
    assert image is not None or not cpu  # noqa: S101 - no image brings nothing
    return [_cpu_image(image, name) for name in cpu if image is not None]


def _cpu_image(image: Image, name: str) -> Finding:
    message = f"{image.reference} holds {name.replace('==', ' ')}, a build for the CPU; this environment is for a GPU."
    seen = Evidence("base image", image.reference, Source("file", image.where, image.reference))
    return Finding(
        "framework-cpu-build",
        INCOMPATIBLE,
        ERROR,
        message,
        (seen,),
        problem=Problem(advice="Take the tag that ends in -gpu."),
    )


def _lacks_plugin(line: Line, blueprint: Blueprint) -> Framework | None:
    """Return the framework that a line installs without the plugin that brings CUDA to it; None for any other line."""
    known = next((item for item in identities() if item.plugins and item.main == _name(line)), None)
    if known is None or (blueprint.image is not None and not blueprint.image.source):
        return None  # an image of unknown contents may hold the plugin
    others = tuple(map(_name, blueprint.requirements))
    has_plugin = known.library in others or any(map(known.is_plugin, others))
    return None if has_plugin or any("cuda" in extra for extra in Requirement(line.text).extras) else known


def _no_plugin(line: Line, known: Framework) -> Finding:
    message = f"{line.text} is installed without its CUDA plugin, so {known.title} runs on the CPU only."
    problem = Problem(
        advice=f"Name the extra that brings it, such as {known.gpu_requirement}, for a CUDA that the driver runs."
    )
    seen = Evidence("requirement", line.text, Source("file", line.where, line.text))
    return Finding("framework-cuda-extra-missing", INCOMPATIBLE, ERROR, message, (seen,), problem=problem)


def _cpu_conda(line: Line) -> Finding:
    message = "cpuonly makes conda choose PyTorch's build for the CPU; this environment is for a GPU."
    seen = Evidence("conda spec", line.text, Source("file", line.where, line.text))
    problem = Problem(advice="Name pytorch-cuda, or pytorch-gpu of conda-forge, instead of cpuonly.")
    return Finding("framework-cpu-build", INCOMPATIBLE, ERROR, message, (seen,), problem=problem)


def _maybe_no_compiler(line: Line, image: Image) -> Finding:
    message = f"`{line.text}` builds an extension; where that is CUDA code, {image.reference} has no nvcc for it."
    problem = Problem(advice="If it is, build in a stage from the devel variant of the image.")
    return Finding("toolkit-missing", COMPATIBLE, WARNING, message, _seen(line, image), problem=problem)


def _seen(line: Line, image: Image) -> tuple[Evidence, ...]:
    return (
        Evidence("what compiles", line.text, Source("file", line.where, line.text)),
        Evidence("base image", image.reference, Source("file", image.where, image.reference)),
    )


def _compiling(blueprint: Blueprint) -> tuple[Line, ...]:
    sources = load_base_images().compiles_cuda
    here = (line for line in blueprint.requirements if line not in blueprint.built and not line.links)
    named = (line for line in here if _name(line) in sources)
    return (*blueprint.compiles, *named)


def _name(line: Line) -> str:
    try:
        return str(canonicalize_name(Requirement(line.text).name))
    except InvalidRequirement:
        return ""


def _cpu_wheels(line: Line) -> Finding:
    message = (
        f"{line.text} is installed from an index that has wheels for the CPU alone; this environment is for a GPU."
    )
    seen = Evidence("requirement", line.text, Source("file", line.where, line.text))
    problem = Problem(
        advice="Name PyTorch's index of the CUDA variant you want (…/whl/cu126), or none: its usual wheels bring CUDA."
    )
    return Finding("framework-cpu-build", INCOMPATIBLE, ERROR, message, (seen,), problem=problem)


def _no_compiler(line: Line, image: Image) -> Finding:
    why = "only its devel variant has" if image.cuda else "it is no image of a CUDA Toolkit"
    message = f"{line.text} compiles CUDA code, and {image.reference} has no nvcc: {why}."
    devel = image.reference.replace(f"-{image.flavor}", "-devel") if image.cuda else "a devel image of nvidia/cuda"
    problem = Problem(advice=f"Build in a stage FROM {devel}, and copy the result into the image that runs.")
    return Finding("toolkit-missing", INCOMPATIBLE, ERROR, message, _seen(line, image), problem=problem)


def _no_request(line: Line) -> Finding:
    message = (
        f"{line.text} has a CUDA image and asks for no GPU: its container sees none, unless "
        "Docker's default runtime is NVIDIA's."
    )
    seen = Evidence("compose service", line.text, Source("file", line.where, line.text))
    problem = Problem(advice="Add `gpus: all` to the service.")
    return Finding("driver-not-in-container", INCOMPATIBLE, ERROR, message, (seen,), problem=problem)


def _unread(line: Line) -> Finding:
    seen = Evidence("file", line.text, Source("file", line.where))
    return Finding("probe-failed", UNDETERMINED, NOTE, line.text, (seen,))


WITHOUT_EXTRA = "framework-cuda-extra-missing"
_OF_THE_IMAGE = frozenset({
    "cudnn-missing", "cudnn-too-old", "cudnn-wrong-cuda-build", "cudnn-wrong-major", "toolkit-missing",
    "toolkit-wrong-version",
})  # fmt: skip


def in_the_image(finding: Finding, line: Line, context: Context, blueprint: Blueprint) -> Finding | None:
    """Say of a finding on a framework's libraries what it means in the image; None where that has them."""
    if finding.id == "toolkit-wrong-version" and finding.severity == NOTE and line.index == "cuda":
        return None  # the index has builds for another CUDA than the release's usual one
    if finding.id == WITHOUT_EXTRA and finding.severity != ERROR:
        return _without_extra(finding, context, blueprint)
    if finding.id in _OF_THE_IMAGE and finding.problem is not None and blueprint.image is not None:
        return replace(finding, problem=_another_image(context, blueprint.image) or finding.problem)
    return finding


def _without_extra(finding: Finding, context: Context, blueprint: Blueprint) -> Finding | None:
    """Make an error of it where the image lacks what the build loads; what is not known of the image stays open."""
    image = blueprint.image
    brought = any(line.text.startswith("nvidia-") for line in blueprint.requirements)
    by_conda = any("cud" in line.text for line in blueprint.conda)
    if image is None or not image.source or image.frameworks or blueprint.added or brought or by_conda:
        return None
    lacks = [what for build in target_builds(context) for what in _lacking(build, image)]
    if not lacks:
        return None
    message = f"{finding.message.split(';', maxsplit=1)[0]}, and {image.reference} has no {' and no '.join(lacks)}."
    seen = Evidence("base image", image.reference, Source("file", image.where, image.reference))
    cited = (item for item in finding.evidence if item.citation)  # the rest speaks of an installed machine
    return replace(finding, severity=ERROR, message=message, evidence=(seen, *cited))


def _lacking(build: Build, image: Image) -> Iterator[str]:
    """Name the libraries by the major version that their file names bear."""
    cuda, cudnn = (major(get_value(fact) or "") for fact in (build.cuda, build.cudnn))
    if cuda and (image.flavor not in {"runtime", "devel"} or major(image.cuda) != cuda):
        yield f"CUDA {cuda}"
    if cudnn and image.cudnn not in {"any", cudnn}:
        yield f"cuDNN {cudnn}"


def _another_image(context: Context, image: Image) -> Problem | None:
    """Name the image that the build takes its CUDA from: packages laid over another one do not make it."""
    for build in target_builds(context):
        cuda, cudnn = get_value(build.cuda), get_value(build.cudnn)
        if cuda:
            holds = f"CUDA {cuda}" + (f" and cuDNN {major(cudnn)}" if cudnn else "")
            other = (
                f", or a release of {build.framework} that was built for CUDA {major_minor(image.cuda)}"
                if image.cuda
                else ""
            )
            return Problem(advice=f"Take a base image with {holds}{other}.")
    return None


_NOT_LED_TO = "cuda-wheel-not-found"  # where the file sets the loader's path, to which folders shows when it runs
# What a file can decide; the rest (driver, GPUs, the loader) shows when the environment runs.
DECIDABLE = frozenset({
    "cudnn-missing", "cudnn-too-old", "cudnn-wrong-cuda-build", "cudnn-wrong-major", "framework-cpu-build",
    "framework-package-removed", "glibc-too-old", "platform-no-gpu-wheel", "python-unsupported", "release-unknown",
    "toolkit-missing", "toolkit-wrong-version", WITHOUT_EXTRA, _NOT_LED_TO,
})  # fmt: skip
TOGETHER = frozenset({"cuda-wheel-conflict"})


@dataclass
class _Findings:
    """What the judgements of a file's environments said so far."""

    findings: list[Finding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)

    def add(self, findings: Iterable[Finding], checked: Iterable[str]) -> None:
        self.findings += findings
        self.checked += checked

    def take(self, checks: Iterable[tuple[str, list[Finding]]], context: Context) -> None:
        """Add what the file itself shows; what it leaves open ("") decides nothing."""
        for finding_id, found in checks:
            self.add(_with_remedies(found, context), (finding_id,) if finding_id else ())


def judge_blueprints(
    blueprints: Sequence[Blueprint], matrix: Matrix, config: Config, where: str, today: date
) -> Report:
    """Return one report on the environments a file builds; one that decides nothing is undetermined."""
    told = _Findings()
    contexts = []
    required = _requiring(blueprints, matrix)
    for item in blueprints:
        if item.kind == "stage":
            told.take(judge_stage(item, config.expect), Context(planned_facts(item), matrix))
            continue
        if item not in required and not (item.asks_gpu or item.compiles):
            continue  # the database beside them
        wanted = _demands(item, matrix, config if item in required else Config(), where)
        contexts.append(_judged(item, matrix, wanted, config.expect, told))
    asking = [context for context in contexts if context.goal == "gpu"]
    found = _once([_defer_unknown(finding) for finding in told.findings])
    kept = [ignored_for_now(finding, found, config, today) for finding in found]
    report = with_steps(conclude((asking or contexts)[0], kept, told.checked))
    return replace(report, headline=_headline(report, blueprints[0].path.split(" (")[0]))


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out what was told before: the same of the same line, and one note of what the file leaves open."""
    notes = {(item.id, item.message): item for item in reversed(findings) if item.severity == NOTE}
    kept = (item for item in findings if item.severity != NOTE or notes[item.id, item.message] is item)
    return list(dict.fromkeys(kept))


def _headline(report: Report, path: str) -> str:
    """Say no more than a file can show: that an environment works is seen when it runs."""
    work = "GPU deep learning" if report.goal == "gpu" else "deep learning on the CPU"
    if report.verdict == INCOMPATIBLE:
        return f"What {path} builds is not fit for {work}."
    if report.verdict == UNDETERMINED and report.checked:
        return f"Whether what {path} builds is fit for {work}, the file does not tell."
    if report.verdict == UNDETERMINED:
        return f"{path} names no framework that could be judged."
    return f"Nothing in {path} stands against {work}; the driver and the GPU show when it runs."


def _requiring(blueprints: Sequence[Blueprint], matrix: Matrix) -> list[Blueprint]:
    """Choose the environments that the project's own requirements are for."""
    final = [item for item in blueprints if item.kind != "stage"]
    for_them = [
        item
        for item in final
        if any(_framework(line, matrix) for line in item.requirements) or (item.image and is_for_gpu(item.image))
    ]
    return for_them or final[:1]


def _demands(blueprint: Blueprint, matrix: Matrix, config: Config, where: str) -> list[Line]:
    """List the frameworks the file installs, and those the project requires besides."""
    wanted = [line for line in blueprint.requirements if _framework(line, matrix) and line.index != "other"]
    brought = blueprint.image.frameworks if blueprint.image else ()
    named = {_framework(line, matrix) for line in (*wanted, *(Line(text, "") for text in brought))}
    required = [Line(text, where) for text in config.requires]
    return wanted + [line for line in required if _framework(line, matrix) not in named]


def _judged(blueprint: Blueprint, matrix: Matrix, wanted: list[Line], expect: str, told: _Findings) -> Context:
    goal, facts = _goal(blueprint, wanted, expect), planned_facts(blueprint)
    decidable = DECIDABLE - {_NOT_LED_TO} if blueprint.loader_path else DECIDABLE
    if isinstance(facts.python.pip_version, Known):  # most files say nothing of it, and nobody waits for it
        decidable |= {"pip-too-old"}
    for line in wanted:
        alone = Context(facts, matrix, Target(_goal_of(line, wanted, goal), (line.text,)))
        report = judge_release(alone, decidable).report
        meant = (in_the_image(finding, line, alone, blueprint) for finding in report.findings)
        placed = [_with_location(finding, line, blueprint) for finding in meant if finding]
        told.add(_with_remedies(placed, alone), report.checked)
    context = Context(facts, matrix, Target(goal, tuple(line.text for line in wanted)))
    if len(wanted) > 1:
        report = judge_release(context, TOGETHER).report
        told.add(_with_remedies(report.findings, context), report.checked)
        told.add(_with_remedies(find_module_clashes(wanted, context), context), ("framework-duplicate-dists",))
    told.take(judge_file(blueprint, wanted, goal), context)
    return context


def _with_remedies(findings: Sequence[Finding], context: Context) -> list[Finding]:
    return [with_remedy(item, Situation(context)) for item in findings]


def _framework(line: Line, matrix: Matrix) -> str:
    try:
        requirement = Requirement(line.text)
    except InvalidRequirement:
        return ""
    name = canonicalize_name(requirement.name)
    removed = matrix.removed_distribution(name)
    return "" if requirement.url else matrix.framework_of(name) or (removed.framework if removed else "")


def _goal(blueprint: Blueprint, wanted: list[Line], expect: str) -> str:
    """Say what the environment is for: a GPU where anything in the file asks for one."""
    if expect != "auto":
        return expect
    by_name = any(
        line.index == "cuda" or re.search(r"cuda|-gpu|\+cu\d", line.text)
        for line in (*wanted, *blueprint.conda, *blueprint.added)
    )
    by_image = blueprint.image is not None and is_for_gpu(blueprint.image)
    return "gpu" if by_image or blueprint.asks_gpu or blueprint.wants_gpu or by_name else "cpu"


def _goal_of(line: Line, wanted: list[Line], goal: str) -> str:
    """Take tensorflow-cpu beside another framework at its word: the GPU is left to that one."""
    beside = any(other is not line and "-cpu" not in other.text and other.index != "cpu" for other in wanted)
    return "cpu" if "-cpu" in line.text and beside else goal


def _with_location(finding: Finding, line: Line, blueprint: Blueprint) -> Finding:
    """Say where the requirement stands, and of what is built what the rules say of a machine."""
    asked = Evidence("requirement", line.text, Source("file", line.where, line.text))
    what = "the image" if blueprint.image is not None else "the environment"
    message = finding.message.replace("on this machine", f"in {what}").replace("this machine", what)
    return replace(finding, message=message, evidence=(asked, *finding.evidence))


def _defer_unknown(finding: Finding) -> Finding:
    """Tell as a note what the file leaves open, but for the CUDA that a framework takes from its image."""
    left_open = finding.verdict == UNDETERMINED and finding.id == "probe-failed"
    decisive = any(item.fact.startswith("toolkits") for item in finding.evidence)
    return replace(finding, severity=NOTE) if left_open and not decisive else finding
