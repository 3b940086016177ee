"""Rules about compiled CUDA extensions, and about building them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.host.data_files import load_data
from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    NOTE,
    WARNING,
    Citation,
    Distribution,
    Evidence,
    Extension,
    Finding,
    Known,
    Problem,
    Source,
    ToolkitInstall,
    Unknown,
    dataclass,
    get_value,
    is_older,
    major_minor,
    numbers,
)
from envcheck.rules.builds import Build, installed_builds, label_cuda
from envcheck.rules.context import Context, describe, source_of
from envcheck.rules.cuda_libraries import built_for_cuda, cuda_builds, library_name, row_evidence
from envcheck.rules.gpu_facts import Judged, gpu_name, judged_gpus
from envcheck.rules.host_compiler import compiling_toolkit, toolkits_with_nvcc
from envcheck.rules.registry import rule
from envcheck.rules.targets import wanted_releases

_MISMATCH = "extension-build-mismatch"


@rule(_MISMATCH)
def extension_build_mismatch(context: Context) -> Iterator[Finding]:
    """Find PyTorch extensions built for another CUDA major than the installed PyTorch, or another Python."""
    torch = next((build for build in installed_builds(context) if build.framework == "torch"), None)
    for extension in get_value(context.facts.python.extensions) or ():
        reason = _other_python(context, extension) or (_other_cuda(context, torch, extension) if torch else "")
        if reason:
            yield _mismatch(context, extension, torch, reason)


@rule("tensorrt-missing")
def tensorrt_missing(context: Context) -> Iterator[Finding]:
    """Find TensorFlow builds whose TensorRT was asked for with --for and is not there; unasked it is noise."""
    asked = any("tensorrt" in wanted.extras for wanted in wanted_releases(context))
    for build in cuda_builds(context):
        if asked and build.framework == "tensorflow" and not context.need(context.facts.tensorrt, "tensorrt"):
            message = (
                f"TensorRT, asked for with {build.label}, is not on this machine; all but TensorFlow-TensorRT works."
            )
            evidence = (context.seen("tensorrt"), *built_for_cuda(build))
            yield Finding("tensorrt-missing", INCOMPATIBLE, NOTE, message, evidence, problem=Problem())


@rule(_MISMATCH)
def label_of_another_build(context: Context) -> Iterator[Finding]:
    """Find packages whose version label names another PyTorch or CUDA than the installed: 2.5.8+cu122torch2.2."""
    torch = next((build for build in installed_builds(context) if build.framework == "torch"), None)
    for item in context.distributions.values() if torch else ():
        label = item.version.partition("+")[2]
        if torch is None or not label or context.matrix.framework_of(item.name):
            continue
        reason = _labelled_torch(torch, label) or (_labelled_cuda(torch, label) if _extends_torch(item, label) else "")
        if reason:
            yield _labelled(context, torch, item, reason)


def _labelled_torch(torch: Build, label: str) -> str:
    """Compare the PyTorch a label names, with dots or without: torch2.2, pt21, torch230."""
    found = re.search(r"(?:torch|pt)(\d+(?:\.\d+)*)", label)
    named, line = found.group(1) if found else "", major_minor(torch.version)
    if not named or ("." in named and major_minor(named) == line):
        return ""
    digits = line.replace(".", "")
    fits = "." not in named and named.startswith(digits) and len(named) <= len(digits) + 1  # and a patch
    return "" if fits else f"was built for PyTorch {named}"


def _labelled_cuda(torch: Build, label: str) -> str:
    """Compare the CUDA a label names by its major; PyTorch's own companions refuse another one."""
    if get_value(torch.cuda_build) is True and re.match(r"cpu\b", label):
        return "was built without CUDA, so its operations fail on the GPU"
    named, cuda = label_cuda(label[label.find("cu") :]), get_value(torch.cuda)
    differs = get_value(torch.cuda_build) is False or (cuda and numbers(named)[:1] != numbers(cuda)[:1])
    return f"was built for CUDA {named}" if named and differs else ""


def _extends_torch(item: Distribution, label: str) -> bool:
    needs = (re.split(r"[^a-z0-9-]", line.lower().replace("_", "-"), maxsplit=1)[0] for line in item.requires)
    return item.name.startswith("torch") or re.search(r"torch|pt\d", label) is not None or "torch" in needs


def _labelled(context: Context, torch: Build, item: Distribution, reason: str) -> Finding:
    message = f"{item.name} {item.version} {reason}, and {torch.label} is installed: what it compiled does not fit."
    seen = context.seen("python.distributions", shown=f"{item.name} {item.version}")
    problem = Problem(("labelled",), names=(item.name,), values=(("label", torch.label),))
    return Finding(_MISMATCH, INCOMPATIBLE, WARNING, message, (seen, *built_for_cuda(torch)), problem=problem)


def _other_python(context: Context, extension: Extension) -> str:
    """Compare the ABI tag in an extension's file name with the interpreter: _ext.cpython-37m-x86_64-linux-gnu.so."""
    built = re.search(r"\.cpython-(\d)(\d+)m?d?-", extension.path)
    version = get_value(context.facts.python.version)
    if built is None or version is None or major_minor(version) == ".".join(built.groups()):
        return ""
    return f"was built for Python {built.group(1)}.{built.group(2)}, and this is Python {version}"


def _other_cuda(context: Context, torch: Build, extension: Extension) -> str:
    """Compare the CUDA runtime an extension needs with the one its PyTorch loads."""
    cudart = next((name for name in extension.needed if library_name(name) == "cudart"), "")
    if not any(name.startswith(("libtorch", "libc10")) for name in extension.needed):
        return ""
    if get_value(torch.cuda_build) is False and (cudart or "libc10_cuda.so" in extension.needed):
        return f"needs CUDA ({cudart or 'libc10_cuda.so'}), and {torch.label} is a CPU build"
    cuda = get_value(torch.cuda)
    own = context.matrix.cuda_sonames(cuda).get("cudart") if cuda else None
    if not cudart or own is None or cudart == own:
        return ""
    return f"was built for another CUDA: it needs {cudart}, and {torch.label} loads {own} (CUDA {cuda})"


def _mismatch(context: Context, extension: Extension, torch: Build | None, reason: str) -> Finding:
    name = extension.distribution or extension.path.rsplit("/", 1)[-1]
    message = f"{name} {reason}. Importing it fails; the framework itself works."
    seen = Evidence(extension.path, ", ".join(extension.needed[:4]), _source(context))
    return Finding(
        _MISMATCH,
        INCOMPATIBLE,
        WARNING,
        message,
        (seen, *(built_for_cuda(torch) if torch else ())),
        problem=Problem(("compiled",), names=(extension.distribution,)),
    )


def _source(context: Context) -> Source | None:
    found = context.facts.python.extensions
    return found.source if isinstance(found, Known) else None


_WRONG, _PATH, _MISSING = "toolkit-wrong-version", "toolkit-path-conflict", "toolkit-missing"
# Nobody sets these who does not compile CUDA code.
_VARIABLES = (
    "CUDACXX", "CUDAHOSTCXX", "FORCE_CUDA", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "NVCC_PREPEND_FLAGS",
    "TORCH_CUDA_ARCH_LIST", "TORCH_EXTENSIONS_DIR",
)  # fmt: skip


@rule(_WRONG)
def nvcc_of_another_major(context: Context) -> Iterator[Finding]:
    """Find an nvcc whose CUDA major PyTorch refuses to build extensions with, and no other one."""
    yield from _refused(context, _WRONG)


@rule(_PATH)
def nvcc_beside_the_right_one(context: Context) -> Iterator[Finding]:
    """Find an nvcc that PyTorch refuses while one that it takes is installed as well."""
    yield from _refused(context, _PATH)


def _refused(context: Context, finding_id: str) -> Iterator[Finding]:
    install = compiling_toolkit(context)
    version = get_value(install.version) if install else None
    if install is None or version is None or context.matrix.toolkit(version) is None:
        return
    for build in cuda_builds(context):
        cuda = get_value(build.cuda)
        if build.framework != "torch" or not cuda or _same_major(cuda, version):
            continue
        others = toolkits_with_nvcc(context)
        right = next((item for item in others if _same_major(cuda, get_value(item.version) or "")), None)
        if (right is not None) == (finding_id == _PATH):
            yield _other_major(context, build, install, right)


def _same_major(one: str, other: str) -> bool:
    return numbers(one)[:1] == numbers(other)[:1]


def _other_major(context: Context, build: Build, install: ToolkitInstall, right: ToolkitInstall | None) -> Finding:
    cuda, version = str(get_value(build.cuda)), get_value(install.version)
    beside = f" CUDA {get_value(right.version)} in {right.root}, which it takes, is not the one found." if right else ""
    message = (
        f"{build.label} is built for CUDA {cuda} and refuses to build extensions with the nvcc of CUDA {version} "
        f"({install.root}); running it needs no nvcc.{beside}"
    )
    advice = f"Where extensions are compiled, let CUDA_HOME name {right.root if right else _toolkit_of(cuda)}."
    evidence = (_seen(install), *([_seen(right)] if right else []), *built_for_cuda(build))
    severity = _severity(context, NOTE)
    return Finding(
        _PATH if right else _WRONG, INCOMPATIBLE, severity, message, evidence, problem=Problem(advice=advice)
    )


def _toolkit_of(cuda: str) -> str:
    return f"a CUDA {numbers(cuda)[0]} toolkit"


@rule(_MISSING)
def nvcc_missing(context: Context) -> Iterator[Finding]:
    """Find PyTorch beside which CUDA code is built on a machine without nvcc."""
    if isinstance(context.facts.toolkits.installs, Unknown) or toolkits_with_nvcc(context):
        return
    for build in cuda_builds(context):
        cuda = get_value(build.cuda)
        reason = "CUDA code is built here" if context.target.compiles else _compiled_when_used(context)
        if build.framework != "torch" or not reason or not cuda:
            continue
        message = f"{reason}, which needs the nvcc of a CUDA {numbers(cuda)[0]} toolkit; there is none on this machine."
        advice = f"Install nvcc of CUDA {cuda}, and let CUDA_HOME name its folder."
        problem = Problem(("nvcc",), build.framework, build.distribution, cuda=cuda, advice=advice)
        evidence = (context.seen("toolkits.installs"), *built_for_cuda(build))
        severity = ERROR if context.target.compiles else NOTE  # much of such a package works without
        yield Finding(_MISSING, INCOMPATIBLE, severity, message, evidence, problem=problem)


@rule("gpu-arch-too-new")
def nvcc_before_gpu(context: Context) -> Iterator[Finding]:
    """Find an nvcc, where CUDA code is built, that does not know this machine's GPU yet."""
    for install, version, item in _compiled_for(context):
        first = item.architecture.first_toolkit if item.architecture else None
        if first and is_older(version, first):
            yield _not_compiled(context, "gpu-arch-too-new", install, item, f"from CUDA {first} on")
            return


@rule("gpu-arch-too-old")
def nvcc_after_gpu(context: Context) -> Iterator[Finding]:
    """Find an nvcc, where CUDA code is built, that no longer knows this machine's GPU."""
    for install, version, item in _compiled_for(context):
        last = item.architecture.last_toolkit if item.architecture else None
        if last and is_older(last, version):
            yield _not_compiled(context, "gpu-arch-too-old", install, item, f"up to CUDA {last}")
            return


def _compiled_for(context: Context) -> Iterator[tuple[ToolkitInstall, str, Judged]]:
    if not is_compiling(context) or not isinstance(context.facts.gpus, Known):
        return
    install = compiling_toolkit(context)
    version = get_value(install.version) if install else None
    for item in judged_gpus(context) if install and version else ():
        if install and version:
            yield install, version, item


def _not_compiled(context: Context, finding_id: str, install: ToolkitInstall, item: Judged, known: str) -> Finding:
    version = get_value(install.version)
    message = (
        f"The nvcc of CUDA {version} ({install.root}), with which CUDA code is built here, cannot build for "
        f"{gpu_name(item.gpu)}: compute capability {item.capability} is known {known}."
    )
    row = item.architecture
    cited = row_evidence(f"compute capability {item.capability}", known, row.citations if row else ())
    problem = Problem(capability=item.capability, compiles=True)
    severity = _severity(context, WARNING)
    return Finding(finding_id, INCOMPATIBLE, severity, message, (_seen(install), cited), problem=problem)


def is_compiling(context: Context) -> bool:
    """Tell whether CUDA code is built on this machine: it was said, set up, installed, or is what a package does."""
    said = context.target.compiles or any(name in context.environment for name in _VARIABLES)
    facts = (context.facts.python.extensions, context.facts.toolkits.cuda_home)
    return said or any(isinstance(fact, Known) for fact in facts) or bool(_compiled_when_used(context))


@dataclass(frozen=True)
class BuiltWhenUsed:
    """The content of data/built_when_used.json."""

    packages: tuple[str, ...]
    citation: Citation


def _compiled_when_used(context: Context) -> str:
    """Name an installed package that builds its CUDA code where it is used: "deepspeed 0.15.1 builds ..."."""
    found = (context.distributions.get(name) for name in load_data("built_when_used", BuiltWhenUsed).packages)
    first = next((item for item in found if item), None)
    return f"{first.name} {first.version} builds its CUDA code when it is first used" if first else ""


def _severity(context: Context, otherwise: str) -> str:
    if context.target.compiles:
        return ERROR
    return WARNING if is_compiling(context) else otherwise


def _seen(install: ToolkitInstall) -> Evidence:
    return Evidence(f"CUDA Toolkit in {install.root}", describe(install.version), source_of(install.version))
