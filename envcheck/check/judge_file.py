"""Judge what a file will build before it is built."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envcheck.check.blueprint import Blueprint, Image, Line, Reader, is_for_gpu
from envcheck.check.build_files import read_blueprints
from envcheck.check.config import Config
from envcheck.check.judge import Gate, apply_ignores, find_module_clashes
from envcheck.check.packages import Environment, Judged, applies_to, is_source, list_unjudged, name_of_line, needs_gpu
from envcheck.check.pins import BESIDE, find_broken_pins, list_pins
from envcheck.diagnosis import with_steps
from envcheck.diagnosis.planned import describe_host, name_working_releases
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
    Alternative,
    Evidence,
    Fact,
    Facts,
    Finding,
    FrameworkBuild,
    HostFacts,
    Known,
    LibraryInstall,
    Problem,
    PythonFacts,
    Remedy,
    Report,
    Source,
    ToolkitFacts,
    ToolkitInstall,
    Unknown,
    major,
    major_minor,
)
from envcheck.remedies import with_remedy
from envcheck.remedies.situation import Situation
from envcheck.rules import Context, Target, conclude
from envcheck.rules.builds import Build, target_builds
from envcheck.rules.described_machine import Description, with_hardware
from envcheck.rules.judgement import judge_release

_DECIDED_AT_RUN = Unknown("failed", "the file does not say; only the running image does")
_NO_IMAGE = Image("", "")
_DEFAULT_ARCHITECTURE = Known("x86_64", Source("file", "the file", "assumed: it does not name a platform"))
_MACHINES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}
_LIBRARIES = ("runtime", "devel")  # the flavors that hold CUDA's libraries, not libcudart alone
ROOT = "/usr/local/cuda"
PROJECT = -1  # stands for the command that installs what a project requires besides
UNSTATED = Description()


def planned_facts(blueprint: Blueprint) -> Facts:
    """Compose the facts that the file decides."""
    return Facts(
        host=_host(blueprint),
        gpus=_DECIDED_AT_RUN,
        toolkits=ToolkitFacts(installs=_toolkits(blueprint)),
        cudnn=_cudnn(blueprint),
        tensorrt=_DECIDED_AT_RUN,
        nccl=_DECIDED_AT_RUN,
        python=_python(blueprint),
    )


def describe_facts(blueprint: Blueprint, matrix: Matrix) -> Facts:
    """Compose the facts that the file decides, with the frameworks that it pins and that its image holds."""
    facts, image = planned_facts(blueprint), blueprint.image or _NO_IMAGE
    lines = [line for line in blueprint.requirements if _framework(line, matrix)]
    builds = [build for line in lines if (build := _describe_pin(line, matrix))]
    for text in image.frameworks:
        line = Line(text.replace("-cpu", ""), image.location)
        pinned = _describe_pin(line, matrix)
        lines.append(line)
        if pinned:
            cuda, cudnn = _image_fact(image.cuda, image), _image_fact(image.cudnn, image)
            is_gpu = Known("-cpu" not in text, Source("file", image.location, image.reference))
            builds.append(replace(pinned, cuda_build=is_gpu, cuda_version=cuda, cudnn_version=cudnn))
    if not lines:
        return facts
    unpinned = Unknown("failed", "the file does not say in which release it installs them")
    frameworks = Known(tuple(builds), Source("file", blueprint.path)) if builds else unpinned
    return replace(facts, python=replace(facts.python, frameworks=frameworks))


def _describe_pin(line: Line, matrix: Matrix) -> FrameworkBuild | None:
    requirement = Requirement(line.text)
    pins = [item.version for item in requirement.specifier if item.operator == "==" and "*" not in item.version]
    return FrameworkBuild(_framework(line, matrix), canonicalize_name(requirement.name), pins[0]) if pins else None


def _image_fact(value: str, image: Image) -> Fact[str]:
    return Known(value, Source("file", image.location, image.reference)) if value else _DECIDED_AT_RUN


def _architecture(blueprint: Blueprint) -> Fact[str]:
    if not blueprint.platform:
        return _DEFAULT_ARCHITECTURE
    machine = _MACHINES.get(blueprint.platform.split("/")[1] if "/" in blueprint.platform else blueprint.platform)
    location = blueprint.image.location if blueprint.image is not None else blueprint.path
    return Known(machine, Source("file", location, blueprint.platform)) if machine else _DECIDED_AT_RUN


def _host(blueprint: Blueprint) -> HostFacts:
    image = blueprint.image
    if image is None:
        return HostFacts(os=Known("linux", Source("file", "the file")), libc_version=_DECIDED_AT_RUN)
    source = Source("file", image.location, image.reference)
    libc = "musl" if image.os == "alpine" else "glibc" if image.glibc else ""
    return HostFacts(
        os=_DECIDED_AT_RUN if "windows" in image.reference.lower() else Known("linux", source),
        distribution_id=_image_fact(image.os, image),
        distribution_version=_image_fact(image.os_version, image),
        architecture=_architecture(blueprint),
        libc_kind=_image_fact(libc, image),
        libc_version=_image_fact(image.glibc, image),
        container=Known("docker", source),
        is_root=Known(value=True, source=source),
    )


def _toolkits(blueprint: Blueprint) -> Fact[tuple[ToolkitInstall, ...]]:
    """Name the toolkit; what a step adds, an image of unknown contents and a file without an image leave it open."""
    image, spec = blueprint.image, conda_version(blueprint, ("cudatoolkit", "cuda-toolkit", "cuda-version"))
    installs: list[ToolkitInstall] = []
    if spec is not None:
        found = Known(spec.text, Source("file", spec.location, spec.text))
        installs.append(ToolkitInstall("$CONDA_PREFIX", "conda", version=found))
    is_open = image is not None and image.is_partial and image.flavor != "devel"
    if image is None or not image.source or blueprint.cuda_steps or is_open:
        return Known(tuple(installs), installs[0].version.source) if installs else _DECIDED_AT_RUN  # type: ignore[union-attr]
    if image.cuda and image.flavor in _LIBRARIES:
        version = _image_fact(major_minor(image.cuda), image)
        nvcc = _image_fact(f"{ROOT}/bin/nvcc", image) if image.flavor == "devel" else Absent((image.location,))
        installs.insert(0, ToolkitInstall(ROOT, "usr-local", version=version, nvcc_path=nvcc))
    return Known(tuple(installs), Source("file", image.location)) if installs else Absent((image.location,))


def _cudnn(blueprint: Blueprint) -> Fact[tuple[LibraryInstall, ...]]:
    image, spec = blueprint.image, conda_version(blueprint, ("cudnn",))
    if spec is not None:
        spec_source = Source("file", spec.location, spec.text)
        copy = LibraryInstall("cudnn", "$CONDA_PREFIX", "conda", package_version=Known(spec.text, spec_source))
        return Known((copy,), spec_source)
    if image is None or blueprint.cuda_steps:
        return _DECIDED_AT_RUN
    if image.cudnn and (not image.is_partial or image.flavor == "devel"):
        image_source = Source("file", image.location, image.reference)
        version: Fact[str] = Known(image.cudnn, image_source) if image.cudnn != "any" else _DECIDED_AT_RUN
        cuda = Known(major(image.cuda), image_source)
        return Known(
            (LibraryInstall("cudnn", "/usr", "debian", library_version=version, cuda_major=cuda),), image_source
        )
    return Absent((image.location,)) if image.source and not image.is_partial else _DECIDED_AT_RUN


def _python(blueprint: Blueprint) -> PythonFacts:
    version: Fact[str] = _DECIDED_AT_RUN
    if blueprint.python is not None:
        version = Known(blueprint.python.text, Source("file", blueprint.python.location))
    elif blueprint.image is not None:
        version = _image_fact(blueprint.image.python, blueprint.image)
    tag = f"cp{version.value.replace('.', '')}" if isinstance(version, Known) else ""
    source = version.source if isinstance(version, Known) else Source("file", blueprint.path)
    return PythonFacts(
        executable=Known("python", source),
        pip_version=_pip(blueprint),
        version=version,
        abi_tag=Known(tag, source) if tag else _DECIDED_AT_RUN,
        bits=Known(64, source),
        architecture=_architecture(blueprint),
        distributions=Known((), source),
        frameworks=Absent((blueprint.path,)),
    )


def _pip(blueprint: Blueprint) -> Fact[str]:
    """Name the system's own pip where the file installs it, and neither renews it nor uses another."""
    image, line = blueprint.image, blueprint.pip
    is_upgraded = any(re.match(r"pip\b(?!-)", item.text) for item in blueprint.requirements)
    if image is None or line is None or not image.pip or blueprint.own_pip or blueprint.inherited or is_upgraded:
        return _DECIDED_AT_RUN
    return Known(image.pip, Source("file", line.location, f"{line.text}: {image.pip} in {image.os} {image.os_version}"))


def conda_version(blueprint: Blueprint, names: tuple[str, ...]) -> Line | None:
    """Return the version that a conda spec pins one of `names` to: cudatoolkit=11.2.2 -> 11.2.2."""
    for line in blueprint.conda:
        match = re.match(r"([\w-]+)\s*={1,2}\s*(\d+(?:\.\d+)*)", line.text)
        if match and match[1] in names:
            return Line(match[2], line.location)
    return None


Checks = Iterator[tuple[str, list[Finding]]]


def judge_file(blueprint: Blueprint, requirements: list[Line], goal: str, environment: Environment) -> Checks:
    """Yield each check that the file decides with what it found."""
    if goal == "gpu":
        conda = [line for line in blueprint.conda if line.text.split("=")[0].strip() == "cpuonly"]
        image = blueprint.image or _NO_IMAGE
        image_findings = [_cpu_image(image, name) for name in image.frameworks if "-cpu" in name]
        if requirements or conda or image.frameworks:
            by_index = [_cpu_wheels(line) for line in requirements if line.index == "cpu"]
            yield "framework-cpu-build", by_index + [_cpu_conda(line) for line in conda] + image_findings
        without_plugin = [
            _no_plugin(line, framework) for line in requirements if (framework := _lacks_plugin(line, blueprint))
        ]
        if without_plugin:
            yield "framework-cuda-extra-missing", without_plugin
    yield from judge_stage(blueprint, goal, environment)
    if (blueprint.asks_gpu or blueprint.lacks_gpu) and goal == "gpu":
        yield "driver-not-in-container", [_no_request(line) for line in (blueprint.lacks_gpu,) if line]


def judge_stage(blueprint: Blueprint, goal: str, environment: Environment | None = None) -> Checks:
    """Yield what compiles in an image without a compiler for it, and what could not be read."""
    image = blueprint.image
    plain = image is not None and image.source and image.flavor != "devel" and not blueprint.cuda_steps
    if image is not None and plain and goal != "cpu" and not (image.is_partial and not image.flavor):
        lines = _compiled_lines(blueprint)[:1]
        others = [environment.name_built_file(line) if environment else "" for line in lines]
        compiling = [_no_compiler(line, image, other) for line, other in zip(lines, others, strict=True)]
        possible = [
            _maybe_no_compiler(line, image) for line in blueprint.may_compile[:1] if image.cuda and not compiling
        ]
        if compiling or possible:
            yield "toolkit-missing", compiling + possible
    if image is not None and blueprint.refused:
        yield "env-mixed", [_pip_refused(blueprint.refused[0], image)]
    for line in (*blueprint.gaps, *_unjudged_lines(blueprint)):
        yield "", [_gap_finding(line)]


def _unjudged_lines(blueprint: Blueprint) -> Iterator[Line]:
    """Say what the names in the file leave open."""
    image = blueprint.image
    if image is not None and blueprint.kind != "stage":
        if not image.source:
            yield Line(f"The name {image.reference or '(none)'} does not say what the image contains.", image.location)
        for held in (text.replace("-cpu", "") for text in image.frameworks if "==" not in text):
            message = f"The name {image.reference} does not say which release of {held} it contains."
            yield Line(message, image.location)
    for line in blueprint.requirements:
        name, separator, _ = line.text.partition("@")
        if line.index == "other":
            message = f"{line.text} comes from an index for other vendors' GPUs, which is not judged."
            yield replace(line, text=message)
        elif separator and re.fullmatch(r"[\w.\[\],-]+", name.strip()):
            yield replace(line, text=f"{name.strip()} comes from a URL, which is not judged.")


def _cpu_image(image: Image, name: str) -> Finding:
    message = f"{image.reference} holds {name.replace('==', ' ')}, a CPU build, but this environment is for a GPU."
    evidence = Evidence("base image", image.reference, Source("file", image.location, image.reference))
    return Finding(
        "framework-cpu-build",
        INCOMPATIBLE,
        ERROR,
        message,
        (evidence,),
        problem=Problem(advice=f"Use {image.gpu_tag or 'an image with its build for CUDA'}."),
    )


def _lacks_plugin(line: Line, blueprint: Blueprint) -> Framework | None:
    """Return the framework that a line installs without the plugin that brings CUDA to it; None for any other line."""
    framework = next((item for item in identities() if item.plugins and item.main == _name(line)), None)
    if framework is None or (blueprint.image is not None and not blueprint.image.source):
        return None  # an image of unknown contents may hold the plugin
    names = tuple(map(_name, blueprint.requirements))
    has_plugin = framework.library in names or any(map(framework.is_plugin, names))
    return None if has_plugin or any("cuda" in extra for extra in Requirement(line.text).extras) else framework


def _no_plugin(line: Line, framework: Framework) -> Finding:
    message = f"{line.text} is installed without its CUDA plugin, so {framework.title} runs on the CPU only."
    problem = Problem(
        advice=f"Add the extra that installs it, such as {framework.gpu_requirement}, for a CUDA that the driver runs."
    )
    evidence = Evidence("requirement", line.text, Source("file", line.location, line.text))
    return Finding("framework-cuda-extra-missing", INCOMPATIBLE, ERROR, message, (evidence,), problem=problem)


def _cpu_conda(line: Line) -> Finding:
    message = "cpuonly makes conda choose PyTorch's CPU build, but this environment is for a GPU."
    evidence = Evidence("conda spec", line.text, Source("file", line.location, line.text))
    problem = Problem(advice="Use pytorch-cuda, or pytorch-gpu from conda-forge, instead of cpuonly.")
    return Finding("framework-cpu-build", INCOMPATIBLE, ERROR, message, (evidence,), problem=problem)


def _maybe_no_compiler(line: Line, image: Image) -> Finding:
    message = (
        f"`{line.text}` builds an extension. If it contains CUDA code, the build fails: {image.reference} has no nvcc."
    )
    problem = Problem(advice="If it contains CUDA code, build in a stage from the devel variant of the image.")
    return Finding("toolkit-missing", COMPATIBLE, WARNING, message, _build_evidence(line, image), problem=problem)


def _build_evidence(line: Line, image: Image) -> tuple[Evidence, ...]:
    return (
        Evidence("what compiles", line.text, Source("file", line.location, line.text)),
        Evidence("base image", image.reference, Source("file", image.location, image.reference)),
    )


def _compiled_lines(blueprint: Blueprint) -> tuple[Line, ...]:
    sources = load_base_images().compiles_cuda
    packages = (line for line in blueprint.requirements if line not in blueprint.inherited and not line.links)
    compiled_packages = (line for line in packages if _name(line) in sources)
    return (*blueprint.compiles, *compiled_packages)


def _name(line: Line) -> str:
    try:
        return str(canonicalize_name(Requirement(line.text).name))
    except InvalidRequirement:
        return ""


def _pip_refused(line: Line, image: Image) -> Finding:
    message = (
        f"`{line.text}` fails: the Python of {image.reference} is externally managed (PEP 668), so pip installs into "
        "virtual environments only."
    )
    evidence = (
        Evidence("command", line.text, Source("file", line.location, line.text)),
        Evidence("base image", image.reference, Source("file", image.location, image.reference)),
    )
    problem = Problem(
        advice="Install python3-venv, and add `RUN python3 -m venv /opt/venv` and `ENV PATH=/opt/venv/bin:$PATH` "
        "before it. In an image for this program alone, --break-system-packages works too."
    )
    return Finding("env-mixed", INCOMPATIBLE, ERROR, message, evidence, problem=problem)


def _cpu_wheels(line: Line) -> Finding:
    message = f"{line.text} is installed from an index with CPU wheels only, but this environment is for a GPU."
    evidence = Evidence("requirement", line.text, Source("file", line.location, line.text))
    problem = Problem(
        advice="Use PyTorch's index for a CUDA variant (…/whl/cu126), or none: the default wheels include CUDA."
    )
    return Finding("framework-cpu-build", INCOMPATIBLE, ERROR, message, (evidence,), problem=problem)


def _no_compiler(line: Line, image: Image, other: str) -> Finding:
    reason = "only its devel variant has it" if image.cuda else "it is not a CUDA Toolkit image"
    message = f"{line.text} compiles CUDA code, and {image.reference} has no nvcc: {reason}."
    devel = image.reference.replace(f"-{image.flavor}", "-devel") if image.cuda else "a devel image of nvidia/cuda"
    build = f"uild in a stage FROM {devel}, and copy the result into the image that runs."
    advice = f"{other} Or b{build}" if other else f"B{build}"
    problem = Problem(advice=advice)
    return Finding("toolkit-missing", INCOMPATIBLE, ERROR, message, _build_evidence(line, image), problem=problem)


def _no_request(line: Line) -> Finding:
    message = (
        f"{line.text} has a CUDA image but requests no GPU. Its container sees none unless "
        "NVIDIA's runtime is Docker's default."
    )
    evidence = Evidence("compose service", line.text, Source("file", line.location, line.text))
    problem = Problem(advice="Add `gpus: all` to the service.")
    return Finding("driver-not-in-container", INCOMPATIBLE, ERROR, message, (evidence,), problem=problem)


def _gap_finding(line: Line) -> Finding:
    evidence = Evidence("file", line.text, Source("file", line.location))
    return Finding("probe-failed", UNDETERMINED, NOTE, line.text, (evidence,))


WITHOUT_EXTRA = "framework-cuda-extra-missing"
_OF_STATED_HARDWARE = frozenset({"driver-too-old", "gpu-arch-too-new", "gpu-arch-too-old"})
_IMAGE_FINDINGS = frozenset({
    "cudnn-missing", "cudnn-too-old", "cudnn-wrong-cuda-build", "cudnn-wrong-major", "toolkit-missing",
    "toolkit-wrong-version",
})  # fmt: skip


def adapt_to_image(finding: Finding, line: Line, context: Context, blueprint: Blueprint) -> Finding | None:
    """Say of a finding on a framework's libraries what it means in the image; None where that has them."""
    if finding.id == "toolkit-wrong-version" and finding.severity == NOTE and line.index == "cuda":
        return None  # the index has builds for another CUDA than the release's usual one
    if finding.id == WITHOUT_EXTRA and finding.severity != ERROR:
        return _without_extra(finding, context, blueprint)
    if finding.id in _IMAGE_FINDINGS and finding.is_curable and blueprint.image is not None:
        other = _another_image(context, blueprint.image)
        return replace(finding, problem=other, cure=None) if other else finding
    return finding


def _without_extra(finding: Finding, context: Context, blueprint: Blueprint) -> Finding | None:
    """Make an error of it where the image lacks what the build loads; what is not known of the image stays open."""
    image = blueprint.image
    has_wheels = any(line.text.startswith("nvidia-") for line in blueprint.requirements)
    by_conda = any("cud" in line.text for line in blueprint.conda)
    if image is None or not image.source or image.is_partial or blueprint.cuda_steps or has_wheels or by_conda:
        return None
    missing = [library for build in target_builds(context) for library in _lacking(build, image)]
    if not missing:
        return None
    message = f"{finding.message.split(';', maxsplit=1)[0]}, and {image.reference} has no {' and no '.join(missing)}."
    evidence = Evidence("base image", image.reference, Source("file", image.location, image.reference))
    citations = (item for item in finding.evidence if item.citation)  # the rest speaks of an installed machine
    return replace(finding, severity=ERROR, message=message, evidence=(evidence, *citations))


def _lacking(build: Build, image: Image) -> Iterator[str]:
    """Name the libraries by the major version that their file names bear."""
    cuda, cudnn = (major(fact.value or "") for fact in (build.cuda, build.cudnn))
    if cuda and (image.flavor not in {"runtime", "devel"} or major(image.cuda) != cuda):
        yield f"CUDA {cuda}"
    if cudnn and image.cudnn not in {"any", cudnn}:
        yield f"cuDNN {cudnn}"


def _another_image(context: Context, image: Image) -> Problem | None:
    """Name the image that the build takes its CUDA from: packages laid over another one do not make it."""
    for build in target_builds(context):
        cuda, cudnn = build.cuda.value, build.cudnn.value
        if cuda:
            holds = f"CUDA {cuda}" + (f" and cuDNN {major(cudnn)}" if cudnn else "")
            alternative = (
                f", or a release of {build.framework} that was built for CUDA {major_minor(image.cuda)}"
                if image.cuda
                else ""
            )
            return Problem(advice=f"Use a base image with {holds}{alternative}.")
    return None


_CUDA_NOT_FOUND = "cuda-wheel-not-found"  # where the file sets the loader's path, to which folders shows when it runs
# What a file can decide; the rest (driver, GPUs, the loader) shows when the environment runs.
DECIDABLE = frozenset({
    "cudnn-missing", "cudnn-too-old", "cudnn-wrong-cuda-build", "cudnn-wrong-major", "framework-cpu-build",
    "framework-package-removed", "glibc-too-old", "platform-no-gpu-wheel", "python-unsupported", "release-unknown",
    "toolkit-missing", "toolkit-wrong-version", WITHOUT_EXTRA, _CUDA_NOT_FOUND,
})  # fmt: skip
# What the publisher of an image has solved for the framework in it.
_OF_INSTALLATION = frozenset({"glibc-too-old", "pip-too-old", "platform-no-gpu-wheel", "python-unsupported"})
TOGETHER = frozenset({"cuda-wheel-conflict"})
_CPU_BUILD = "framework-cpu-build"


@dataclass
class _FindingCollector:
    """What the judgements of a file's environments said so far."""

    findings: list[Finding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    has_judged_release: bool = False  # without one, nothing says that the environment works

    def add(self, findings: Iterable[Finding], checked: Iterable[str]) -> None:
        self.findings += findings
        self.checked += checked

    def take(self, checks: Iterable[tuple[str, list[Finding]]], context: Context) -> None:
        """Add what the file itself shows; what it leaves open ("") decides nothing."""
        for finding_id, found in checks:
            self.add(_with_remedies(found, context), (finding_id,) if finding_id else ())


def judge_text(
    text: str, file: str, reader: Reader, gate: Gate, *, driver: str = "", gpus: tuple[str, ...] = ()
) -> tuple[Report, Facts]:
    """Judge what the text of a file builds; return the report and what the file states. Raises FileError.

    `driver` and `gpus` are of the machines that run it; without them, the project's minima count.
    """
    config = gate.config
    capabilities = (config.min_compute_capability,) if config.min_compute_capability else ()
    host = describe_host(driver or config.min_driver, gpus or capabilities)
    blueprints = read_blueprints(text, file, reader)
    report = judge_blueprints(blueprints, gate.matrix, config, gate.path, gate.today, host=host)
    return report, with_hardware(describe_facts(blueprints[0], gate.matrix), host, gate.matrix)


def judge_blueprints(
    blueprints: Sequence[Blueprint],
    matrix: Matrix,
    config: Config,
    location: str,
    today: date,
    *,
    host: Description = UNSTATED,
) -> Report:
    """Return one report on the environments a file builds; one that decides nothing is undetermined."""
    collector = _FindingCollector()
    contexts = []
    requiring = _project_environments(blueprints, matrix)
    asked = frozenset(_framework(Line(text, location), matrix) for text in config.requires)
    for item in blueprints:
        if item.kind == "stage":
            collector.take(judge_stage(item, config.expect), Context(planned_facts(item), matrix))
            continue
        if item not in requiring and not (item.asks_gpu or item.compiles):
            continue  # the database beside them
        requirements = _demands(item, matrix, config if item in requiring else Config(), location)
        facts = with_hardware(planned_facts(item), host, matrix)
        expect = "gpu" if config.expect == "auto" and (host.driver or host.gpus) else config.expect
        goal = _goal(item, requirements, expect, matrix)
        base = Context(facts, matrix, Target(goal))
        contexts.append(_judge_environment(item, base, requirements, collector, asked))
    asking = [context for context in contexts if context.goal == "gpu"]
    findings = _without_repeats([_defer_unknown(finding) for finding in collector.findings])
    final = [apply_ignores(finding, findings, config, today) for finding in findings]
    report = with_steps(conclude((asking or contexts)[0], final, collector.checked))
    if report.verdict == COMPATIBLE and not collector.has_judged_release:
        report = replace(report, verdict=UNDETERMINED)
    path = blueprints[0].path.split(" (")[0]
    headline = _headline(report, path, _unchecked(host), has_framework=collector.has_judged_release)
    return replace(report, headline=headline, judged=replace(report.judged, machine=False))


def _without_repeats(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out what was told before: the same of the same line, and one note of what the file leaves open."""
    notes = {(item.id, item.message): item for item in reversed(findings) if item.severity == NOTE}
    unique = (item for item in findings if item.severity != NOTE or notes[item.id, item.message] is item)
    return list(dict.fromkeys(unique))


def _unchecked(host: Description) -> str:
    """Say what of the machine that runs the build was not stated."""
    unstated = [name for name, value in (("driver", host.driver), ("GPU", host.gpus)) if not value]
    verb = "are" if len(unstated) > 1 else "is"
    return f"The {' and the '.join(unstated)} {verb} checked when it runs." if unstated else ""


def _headline(report: Report, path: str, unchecked: str, *, has_framework: bool) -> str:
    """Say no more than a file can show: that an environment works is seen when it runs."""
    work = "GPU deep learning" if report.goal == "gpu" else "deep learning on the CPU"
    if report.verdict == INCOMPATIBLE:
        return f"What {path} builds does not work for {work}."
    if report.verdict == UNDETERMINED and has_framework:
        return f"{path} does not show whether its build works for {work}."
    if report.verdict == UNDETERMINED:
        return f"{path} names no framework that envcheck can judge."
    return f"{path} has no problem for {work}. {unchecked}".rstrip()


def _project_environments(blueprints: Sequence[Blueprint], matrix: Matrix) -> list[Blueprint]:
    """Choose the environments that the project's own requirements are for."""
    final = [item for item in blueprints if item.kind != "stage"]
    matches = [
        item
        for item in final
        if any(_is_judged(line, matrix) for line in item.requirements) or (item.image and is_for_gpu(item.image))
    ]
    return matches or final[:1]


def _demands(blueprint: Blueprint, matrix: Matrix, config: Config, location: str) -> list[Line]:
    """List the frameworks and packages the file installs, and those the project requires besides."""
    requirements = [line for line in blueprint.requirements if _is_judged(line, matrix) and line.index != "other"]
    image_frameworks = blueprint.image.frameworks if blueprint.image else ()
    names = {_framework(line, matrix) for line in (*requirements, *(Line(text, "") for text in image_frameworks))}
    project_requirements = [Line(text, location, command=PROJECT) for text in config.requires]
    return requirements + [line for line in project_requirements if _framework(line, matrix) not in names]


def _judge_environment(
    blueprint: Blueprint, base: Context, requirements: list[Line], collector: _FindingCollector, asked: frozenset[str]
) -> Context:
    """Judge what the lines of an environment install; the project itself requires the frameworks that are `asked`."""
    goal, facts, matrix = base.goal, base.facts, base.matrix
    requirements = [line for line in requirements if applies_to(base, line)]
    decidable = _decidable(blueprint, facts)
    environment = Environment(base, blueprint)
    frameworks = [line for line in requirements if _framework(line, matrix)]
    for item in list(environment.install(requirements)):  # all of them first: the last may be the one for the GPU
        framework = _framework(item.line, matrix)
        is_helper = framework not in asked and environment.computes_on_gpu(beside=framework)
        target = Target(_goal_of(item.line, frameworks, goal), item.texts, is_helper=is_helper)
        _judge_line(item, Context(facts, matrix, target), item.only or decidable, blueprint, collector)
    for line in _find_image_releases(blueprint, environment, matrix):
        line_context = Context(facts, matrix, Target(goal, (line.text,)))
        _judge_line(Judged(line, (line.text,)), line_context, decidable - _OF_INSTALLATION, blueprint, collector)
    context = Context(facts, matrix, Target(goal, tuple(line.text for line in frameworks)))
    is_open = goal == "gpu" and facts.driver.release.value is None
    collector.add((*environment.findings, *(environment.note_driver() if is_open else ())), ())
    unjudged = list_unjudged(blueprint.requirements, environment)
    collector.add(map(_gap_finding, (*environment.list_open(), *unjudged)), ())
    if len(frameworks) > 1:
        report = judge_release(context, TOGETHER).report
        collector.add(_with_remedies(report.findings, context), report.checked)
    if len(requirements) > 1:
        clashes = find_module_clashes(requirements, context)
        collector.add(_with_remedies(clashes, context), ("framework-duplicate-dists",))
    if pins := list_pins(environment, blueprint.requirements):
        broken = list(find_broken_pins(environment, pins))
        collector.add(_with_remedies(broken, context), BESIDE if environment.frameworks else ())
    collector.take(judge_file(blueprint, frameworks, goal, environment), context)
    return context


def _decidable(blueprint: Blueprint, facts: Facts) -> frozenset[str]:
    """List the findings that a file decides, with what is stated of the machine that runs it."""
    decidable = DECIDABLE - {_CUDA_NOT_FOUND} if blueprint.loader_path else DECIDABLE
    if facts.python.pip_version.value is not None:  # most files say nothing of it, and nobody waits for it
        decidable |= {"pip-too-old"}
    if facts.driver.release.value is not None:
        decidable |= {"driver-too-old"}
    return decidable | {"gpu-arch-too-old", "gpu-arch-too-new"} if facts.gpus.value is not None else decidable


def _judge_line(
    item: Judged, context: Context, only: frozenset[str], blueprint: Blueprint, collector: _FindingCollector
) -> None:
    """Judge what a line installs, and what to write in its place where that does not work."""
    report = judge_release(context, only).report
    adapted = (adapt_to_image(finding, item.line, context, blueprint) for finding in report.findings)
    findings = [_with_location(finding, item, blueprint) for finding in adapted if finding]
    remedied = _with_remedies(findings, context)
    collector.add([_with_other_release(finding, item, context) for finding in remedied], report.checked)
    # A helper that ignores the GPU does not show that the environment computes on it.
    ignores_gpu = context.is_helper and any(finding.id == _CPU_BUILD for finding in report.findings)
    collector.has_judged_release |= bool(report.checked) and not ignores_gpu


def _with_other_release(finding: Finding, item: Judged, context: Context) -> Finding:
    """Name the releases that work on the stated driver and GPUs, before what to do to those."""
    if finding.severity != ERROR or finding.id not in _OF_STATED_HARDWARE:
        return finding
    other = item.instead or name_working_releases(context, (name_of_line(item.line),))
    if not other:
        return finding
    summary = f"Ask for `{other}` instead, which works there."
    ways = (Alternative(finding.fix.summary, finding.fix.actions),) if finding.fix else ()
    return replace(finding, fix=Remedy(summary, (), (*ways, *(finding.fix.alternatives if finding.fix else ()))))


def _find_image_releases(blueprint: Blueprint, environment: Environment, matrix: Matrix) -> list[Line]:
    """List the frameworks that the image's name states and that the file does not install anew."""
    image = blueprint.image or _NO_IMAGE
    replaced = {name for name, held in environment.frameworks.items() if held.line.location != image.location}
    pinned = (text for text in image.frameworks if "==" in text and "-cpu" not in text)
    lines = [Line(text, image.location, index="cuda") for text in pinned]
    return [line for line in lines if _framework(line, matrix) not in replaced]


def _with_remedies(findings: Sequence[Finding], context: Context) -> list[Finding]:
    return [with_remedy(item, Situation(context)) for item in findings]


def _framework(line: Line, matrix: Matrix) -> str:
    try:
        requirement = Requirement(line.text)
    except InvalidRequirement:
        return ""
    name = canonicalize_name(requirement.name)
    removal = matrix.removed_distribution(name)
    return "" if requirement.url else matrix.framework_of(name) or (removal.framework if removal else "")


def _is_judged(line: Line, matrix: Matrix) -> bool:
    """Tell whether a line installs a framework, or a package on top of one that the matrix or the compiler makes."""
    name = name_of_line(line)
    is_package = name and (matrix.companion_of(name) or (is_source(line) and not matrix.framework_of(name)))
    return bool(_framework(line, matrix) or is_package)


def _goal(blueprint: Blueprint, requirements: list[Line], expect: str, matrix: Matrix) -> str:
    """Say what the environment is for: a GPU where anything in the file asks for one."""
    if expect != "auto":
        return expect
    by_name = any(
        line.index == "cuda" or re.search(r"cuda|-gpu|[+-]cu\d", line.text)
        for line in (*requirements, *blueprint.conda, *blueprint.cuda_steps)
    )
    by_name |= any(needs_gpu(matrix, name_of_line(line)) for line in requirements)
    image = blueprint.image or _NO_IMAGE
    by_image = is_for_gpu(image) or any(needs_gpu(matrix, text.partition("==")[0]) for text in image.packages)
    return "gpu" if by_image or blueprint.asks_gpu or blueprint.wants_gpu or by_name else "cpu"


def _goal_of(line: Line, requirements: list[Line], goal: str) -> str:
    """Take tensorflow-cpu beside another framework at its word: the GPU is left to that one."""
    has_gpu_framework = any(
        line_other is not line and "-cpu" not in line_other.text and line_other.index != "cpu"
        for line_other in requirements
    )
    return "cpu" if "-cpu" in line.text and has_gpu_framework else goal


def _with_location(finding: Finding, item: Judged, blueprint: Blueprint) -> Finding:
    """Say where the requirement stands, and of what is built what the rules say of a machine."""
    line = item.line
    requirement = Evidence("requirement", line.text, Source("file", line.location, line.text))
    subject = "the image" if blueprint.image is not None else "the environment"
    message = finding.message.replace("this machine runs", "the stated one is")
    message = message.replace("on this machine", f"in {subject}").replace("this machine", subject)
    if item.owner and finding.verdict == INCOMPATIBLE:
        starts = message.startswith(f"{item.label} ")
        message = message.replace(item.label, f"{item.owner} brings {item.label}, which", 1) if starts else message
        message += "" if starts else f" {item.owner} brings it."
    return replace(finding, message=message, evidence=(requirement, *finding.evidence))


def _defer_unknown(finding: Finding) -> Finding:
    """Tell as a note what the file leaves open, but for the CUDA that a framework takes from its image."""
    left_open = finding.verdict == UNDETERMINED and finding.id == "probe-failed"
    decisive = any(item.fact.startswith("toolkits") for item in finding.evidence)
    return replace(finding, severity=NOTE) if left_open and not decisive else finding
