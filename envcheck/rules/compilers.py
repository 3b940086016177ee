"""Building CUDA code: the host compiler of nvcc, and the extensions that are compiled against a framework."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.host.data_files import load_data
from envcheck.model import (
    ERROR,
    NOTE,
    WARNING,
    Absent,
    Citation,
    Distribution,
    Evidence,
    Extension,
    Fact,
    Finding,
    Known,
    Problem,
    Source,
    Toolkit,
    ToolkitInstall,
    Unknown,
    dataclass,
    get_value,
    is_older,
    major_minor,
    numbers,
)
from envcheck.rules.builds import Build, cuda_builds, installed_builds, label_cuda, wanted_releases
from envcheck.rules.context import Context, describe, incompatible, once, rule, source_of
from envcheck.rules.gpus import JudgedGpu, gpu_name, judged_gpus
from envcheck.rules.toolkit import built_for_cuda, library_name, row_evidence, toolkit_evidence, unknown_release

TOO_NEW = "host-compiler-too-new"
TOO_OLD = "host-compiler-too-old"
_OVERRIDE = "-allow-unsupported-compiler"


@dataclass(frozen=True)
class HostCompiler:
    """The compiler nvcc uses: gcc, clang or msvc, its version, and its path ("" unknown)."""

    kind: str
    version: str
    path: str
    fact: Fact[str]


@rule(TOO_NEW, TOO_OLD, severity=WARNING)
def nvcc_host_compiler(context: Context) -> Iterator[Finding]:
    """Find an nvcc whose host compiler is newer than its headers accept, or older than it supports."""
    install, compiler = compiling_toolkit(context), host_compiler(context)
    version = get_value(install.version) if install else None
    if install is None or compiler is None or version is None:
        return
    row = context.matrix.toolkit(version)
    if row is None:
        subject = f"CUDA Toolkit {version} in {install.root}"
        yield unknown_release(subject, "whether its nvcc accepts this compiler", toolkit_evidence(install), NOTE)
        return
    highest, lowest = _highest(row, compiler.kind), _lowest(row, compiler.kind)
    if highest and _newer_than_limit(compiler.version, highest) and _OVERRIDE not in _flags(context):
        yield _finding(context, TOO_NEW, install, compiler, f"accepts {compiler.kind} up to {highest}")
    if lowest and numbers(compiler.version) < numbers(lowest):
        yield _finding(context, TOO_OLD, install, compiler, f"needs {compiler.kind} {lowest} or newer")


def compiling_toolkit(context: Context) -> ToolkitInstall | None:
    """Find the toolkit CUDA code would be compiled with beside a framework; None where nothing asks for one."""
    if not context.target.compiles and not any(cuda_builds(context)):
        return None
    facts, with_nvcc = context.facts.toolkits, toolkits_with_nvcc(context)
    for root in (facts.cuda_home_root, facts.root_on_path, facts.usr_local_cuda):
        for item in with_nvcc:
            if item.root == get_value(root):
                return item
    return with_nvcc[0] if len(with_nvcc) == 1 else None


def toolkits_with_nvcc(context: Context) -> list[ToolkitInstall]:
    """List the toolkits that may hold an nvcc; wheels hold parts of one."""
    installs = get_value(context.facts.toolkits.installs) or ()
    return [item for item in installs if not isinstance(item.nvcc_path, Absent) and item.origin != "wheels"]


def host_compiler(context: Context) -> HostCompiler | None:
    """Find the compiler nvcc uses; where that is unknown, the gcc on PATH."""
    facts = context.facts.toolkits
    if isinstance(facts.nvcc_host_compiler_version, Known):
        path = get_value(facts.nvcc_host_compiler) or ""
        version = facts.nvcc_host_compiler_version
        return HostCompiler(_kind(path), version.value, path, version)
    gcc = context.facts.compilers.gcc_version
    if isinstance(facts.nvcc_host_compiler, Absent) or not isinstance(gcc, Known):
        return None
    return HostCompiler("gcc", gcc.value, get_value(context.facts.compilers.gcc_path) or "gcc", gcc)


def _kind(path: str) -> str:
    name = re.split(r"[/\\]", path)[-1].lower()
    if name.startswith("clang"):
        return "clang"
    return "msvc" if name in ("cl", "cl.exe") else "gcc"


def _highest(row: Toolkit, kind: str) -> str:
    msvc = row.msvc.partition("..")[2] if row.msvc else ""
    return {"gcc": row.gcc_max or "", "clang": row.clang_max or "", "msvc": _msvc_version(msvc)}[kind]


def _lowest(row: Toolkit, kind: str) -> str:
    msvc = row.msvc.partition("..")[0] if row.msvc else ""
    return {"gcc": row.gcc_min or "", "clang": "", "msvc": _msvc_version(msvc)}[kind]


def _msvc_version(macro: str) -> str:
    """Turn _MSC_VER into the version cl prints: 1949 -> 19.49."""
    return f"{macro[:2]}.{macro[2:]}" if re.fullmatch(r"\d{4}", macro) else ""


def _newer_than_limit(version: str, highest: str) -> bool:
    # nvcc's headers compare as many numbers as the limit names: 12.4 is within "12".
    limit = numbers(highest)
    return numbers(version)[: len(limit)] > limit


def _flags(context: Context) -> str:
    names = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
    return " ".join(context.environment.get(name, "") for name in names)


def _finding(context: Context, finding_id: str, install: ToolkitInstall, compiler: HostCompiler, limit: str) -> Finding:
    cuda = describe(install.version)
    row = context.matrix.toolkit(cuda)
    location = f" ({compiler.path})" if compiler.path else ""
    message = (
        f"nvcc of CUDA {cuda} ({install.root}) {limit}; it would use {compiler.kind} {compiler.version}{location}. "
        "Only building CUDA extensions needs a compiler; running a framework does not."
    )
    evidence = (
        Evidence("toolkits.nvcc_host_compiler_version", compiler.version, source_of(compiler.fact)),
        toolkit_evidence(install),
        row_evidence(f"CUDA Toolkit {cuda}", limit, row.citations if row else ()),
    )
    severity = ERROR if context.target.compiles else WARNING
    problem = _problem(compiler, row) if row else None
    return incompatible(message, evidence, finding_id=finding_id, severity=severity, problem=problem)


def _problem(compiler: HostCompiler, row: Toolkit) -> Problem:
    """State what nvcc accepts; where it calls clang, a GCC would do as well."""
    limits = "msvc" if compiler.kind == "msvc" else "gcc"
    bounds = (("highest", _highest(row, limits)), ("lowest", _lowest(row, limits)))
    return Problem(cuda=row.version, values=(*bounds, ("kind", compiler.kind), ("version", compiler.version)))


_MISMATCH = "extension-build-mismatch"


@rule(_MISMATCH, severity=WARNING, goal="any")
def extension_build_mismatch(context: Context) -> Iterator[Finding]:
    """Find PyTorch extensions built for another CUDA major than the installed PyTorch, or another Python."""
    torch = next((build for build in installed_builds(context) if build.traits.hosts_extensions), None)
    for extension, reason in mismatched_extensions(context).values():
        yield _mismatch(context, extension, torch, reason)


@once
def mismatched_extensions(context: Context) -> dict[str, tuple[Extension, str]]:
    """Map each distribution to the first of its files that was built for another CUDA or Python, and the reason."""
    torch = next((build for build in installed_builds(context) if build.traits.hosts_extensions), None)
    found: dict[str, tuple[Extension, str]] = {}
    for extension in get_value(context.facts.python.extensions) or ():
        reason = _other_python(context, extension) or (_other_cuda(context, torch, extension) if torch else "")
        if reason:
            found.setdefault(extension.distribution or extension.path, (extension, reason))
    return found


@rule("tensorrt-missing", severity=NOTE)
def tensorrt_missing(context: Context) -> Iterator[Finding]:
    """Find builds whose TensorRT --for asks for and that is not there; where nobody asks, it is noise."""
    is_requested = any("tensorrt" in wanted.extras for wanted in wanted_releases(context))
    for build in cuda_builds(context):
        if is_requested and build.traits.has_tensorrt and not context.need(context.facts.tensorrt, "tensorrt"):
            part = f"{build.traits.title}-TensorRT"
            message = f"TensorRT, requested with {build.label}, is not installed; everything except {part} works."
            evidence = (context.seen("tensorrt"), *built_for_cuda(build))
            yield incompatible(message, evidence, problem=Problem())


@rule(_MISMATCH, severity=WARNING)
def label_of_another_build(context: Context) -> Iterator[Finding]:
    """Find packages whose version label names another PyTorch or CUDA than the installed: 2.5.8+cu122torch2.2."""
    torch = next((build for build in installed_builds(context) if build.traits.hosts_extensions), None)
    for item in context.distributions.values() if torch else ():
        label = item.version.partition("+")[2]
        if torch is None or not label or context.matrix.framework_of(item.name):
            continue
        reason = _labelled_torch(torch, label) or (_labelled_cuda(torch, label) if _extends(torch, item, label) else "")
        if reason:
            yield _labelled(context, torch, item, reason)


def _labelled_torch(torch: Build, label: str) -> str:
    """Compare the PyTorch a label names, with dots or without: torch2.2, pt21, torch230."""
    match = re.search(r"(?:torch|pt)(\d+(?:\.\d+)*)", label)
    label_version, line = match.group(1) if match else "", major_minor(torch.version)
    if not label_version or ("." in label_version and major_minor(label_version) == line):
        return ""
    digits = line.replace(".", "")
    is_line = (
        "." not in label_version and label_version.startswith(digits) and len(label_version) <= len(digits) + 1
    )  # and a patch
    return "" if is_line else f"was built for PyTorch {label_version}"


def _labelled_cuda(torch: Build, label: str) -> str:
    """Describe how a companion's CUDA label clashes with torch: PyTorch's companions refuse another CUDA major."""
    if get_value(torch.cuda_build) is True and re.match(r"cpu\b", label):
        return "was built without CUDA, so its operations fail on the GPU"
    label_version, cuda = label_cuda(label[label.find("cu") :]), get_value(torch.cuda)
    differs = get_value(torch.cuda_build) is False or (cuda and numbers(label_version)[:1] != numbers(cuda)[:1])
    return f"was built for CUDA {label_version}" if label_version and differs else ""


def _extends(torch: Build, item: Distribution, label: str) -> bool:
    needs = (re.split(r"[^a-z0-9-]", line.lower().replace("_", "-"), maxsplit=1)[0] for line in item.requires)
    name = torch.distribution
    return item.name.startswith(name) or re.search(r"torch|pt\d", label) is not None or name in needs


def _labelled(context: Context, torch: Build, item: Distribution, reason: str) -> Finding:
    message = f"{item.name} {item.version} {reason}, but {torch.label} is installed: its compiled code does not fit."
    evidence_seen = context.seen("python.distributions", shown=f"{item.name} {item.version}")
    problem = Problem(("labelled",), names=(item.name,), values=(("label", torch.label),))
    return incompatible(message, (evidence_seen, *built_for_cuda(torch)), problem=problem)


def _other_python(context: Context, extension: Extension) -> str:
    """Compare the ABI tag in an extension's file name with the interpreter: _ext.cpython-37m-x86_64-linux-gnu.so."""
    match = re.search(r"\.cpython-(\d)(\d+)m?d?-", extension.path)
    version = get_value(context.facts.python.version)
    if match is None or version is None or major_minor(version) == ".".join(match.groups()):
        return ""
    return f"was built for Python {match.group(1)}.{match.group(2)}, but this is Python {version}"


def _other_cuda(context: Context, torch: Build, extension: Extension) -> str:
    """Compare the CUDA runtime an extension needs with the one its PyTorch loads."""
    cudart = next((name for name in extension.needed if library_name(name) == "cudart"), "")
    if not any(name.startswith(("libtorch", "libc10")) for name in extension.needed):
        return ""
    if get_value(torch.cuda_build) is False and (cudart or "libc10_cuda.so" in extension.needed):
        return f"needs CUDA ({cudart or 'libc10_cuda.so'}), but {torch.label} is a CPU build"
    cuda = get_value(torch.cuda)
    own_cudart = context.matrix.cuda_sonames(cuda).get("cudart") if cuda else None
    if not cudart or own_cudart is None or cudart == own_cudart:
        return ""
    return f"was built for another CUDA: it needs {cudart}, but {torch.label} loads {own_cudart} (CUDA {cuda})"


def _mismatch(context: Context, extension: Extension, torch: Build | None, reason: str) -> Finding:
    name = extension.distribution or extension.path.rsplit("/", 1)[-1]
    message = f"{name} {reason}. Importing it fails; the framework itself works."
    file_evidence = Evidence(extension.path, ", ".join(extension.needed[:4]), _source(context))
    return incompatible(
        message,
        (file_evidence, *(built_for_cuda(torch) if torch else ())),
        problem=Problem(("compiled",), names=(extension.distribution,)),
    )


def _source(context: Context) -> Source | None:
    extensions = context.facts.python.extensions
    return extensions.source if isinstance(extensions, Known) else None


_WRONG, _PATH, _MISSING = "toolkit-wrong-version", "toolkit-path-conflict", "toolkit-missing"
# Only who compiles CUDA code sets these.
_VARIABLES = (
    "CUDACXX", "CUDAHOSTCXX", "FORCE_CUDA", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "NVCC_PREPEND_FLAGS",
    "TORCH_CUDA_ARCH_LIST", "TORCH_EXTENSIONS_DIR",
)  # fmt: skip


@rule(_WRONG, _PATH, severity=NOTE)
def nvcc_of_another_major(context: Context) -> Iterator[Finding]:
    """Find an nvcc whose CUDA major PyTorch refuses to build extensions with, alone or beside a right one."""
    install = compiling_toolkit(context)
    version = get_value(install.version) if install else None
    if install is None or version is None or context.matrix.toolkit(version) is None:
        return
    for build in cuda_builds(context):
        cuda = get_value(build.cuda)
        if build.traits.hosts_extensions and cuda and not _same_major(cuda, version):
            installs = toolkits_with_nvcc(context)
            right = next((item for item in installs if _same_major(cuda, get_value(item.version) or "")), None)
            yield _other_major(context, build, install, right)


def _same_major(first: str, second: str) -> bool:
    return numbers(first)[:1] == numbers(second)[:1]


def _other_major(context: Context, build: Build, install: ToolkitInstall, right: ToolkitInstall | None) -> Finding:
    cuda, version = str(get_value(build.cuda)), get_value(install.version)
    hint = f" CUDA {get_value(right.version)} in {right.root} would do, but is not the one found." if right else ""
    message = (
        f"{build.label} is built for CUDA {cuda} and refuses to build extensions with nvcc of CUDA {version} "
        f"({install.root}); running it needs no nvcc.{hint}"
    )
    if right:
        advice = f"Point CUDA_HOME at {right.root} where you compile extensions."
        problem = Problem(advice=advice, values=(("root", right.root), ("setting", install.root)))
    else:
        advice = f"Install nvcc of CUDA {cuda}, and point CUDA_HOME at its folder where you compile extensions."
        problem = Problem(("nvcc",), build.framework, build.distribution, cuda=cuda, advice=advice)
    evidence = (toolkit_evidence(install), *([toolkit_evidence(right)] if right else []), *built_for_cuda(build))
    severity = _severity(context, NOTE)
    return incompatible(message, evidence, finding_id=_PATH if right else _WRONG, severity=severity, problem=problem)


@rule(_MISSING, severity=NOTE)
def nvcc_missing(context: Context) -> Iterator[Finding]:
    """Find PyTorch beside which CUDA code is built on a machine without nvcc."""
    if isinstance(context.facts.toolkits.installs, Unknown) or toolkits_with_nvcc(context):
        return
    for build in cuda_builds(context):
        cuda = get_value(build.cuda)
        reason = "CUDA code is built here" if context.target.compiles else _compiled_when_used(context)
        if not build.traits.hosts_extensions or not reason or not cuda:
            continue
        message = f"{reason}, which needs nvcc of a CUDA {numbers(cuda)[0]} toolkit; this machine has none."
        advice = f"Install nvcc of CUDA {cuda} and set CUDA_HOME to its folder."
        problem = Problem(("nvcc",), build.framework, build.distribution, cuda=cuda, advice=advice)
        evidence = (context.seen("toolkits.installs"), *built_for_cuda(build))
        severity = ERROR if context.target.compiles else NOTE  # much of such a package works without
        yield incompatible(message, evidence, severity=severity, problem=problem)


@rule("gpu-arch-too-new", "gpu-arch-too-old", severity=WARNING)
def nvcc_knows_gpu(context: Context) -> Iterator[Finding]:
    """Find an nvcc, where CUDA code is built, that does not know this machine's GPU yet, or no longer."""
    ids: set[str] = set()
    for install, version, item in _compiled_for(context):
        finding_id, support = _unknown_to(version, item)
        if finding_id and finding_id not in ids:
            ids.add(finding_id)
            yield _not_compiled(context, finding_id, install, item, support)


def _unknown_to(version: str, item: JudgedGpu) -> tuple[str, str]:
    """Name the finding of a GPU that the nvcc of a CUDA version cannot build for, and the CUDA that can."""
    first_toolkit = item.architecture.first_toolkit if item.architecture else None
    last_toolkit = item.architecture.last_toolkit if item.architecture else None
    if first_toolkit and is_older(version, first_toolkit):
        return "gpu-arch-too-new", f"from CUDA {first_toolkit} on"
    return (
        ("gpu-arch-too-old", f"up to CUDA {last_toolkit}")
        if last_toolkit and is_older(last_toolkit, version)
        else ("", "")
    )


def _compiled_for(context: Context) -> Iterator[tuple[ToolkitInstall, str, JudgedGpu]]:
    if not is_compiling(context) or not isinstance(context.facts.gpus, Known):
        return
    install = compiling_toolkit(context)
    version = get_value(install.version) if install else None
    for item in judged_gpus(context) if install and version else ():
        if install and version:
            yield install, version, item


def _not_compiled(context: Context, finding_id: str, install: ToolkitInstall, item: JudgedGpu, support: str) -> Finding:
    version = get_value(install.version)
    message = (
        f"nvcc of CUDA {version} ({install.root}), which builds CUDA code here, cannot build for "
        f"{gpu_name(item.gpu)}: compute capability {item.capability} is supported {support}."
    )
    row = item.architecture
    matrix_evidence = row_evidence(f"compute capability {item.capability}", support, row.citations if row else ())
    problem = Problem(capability=item.capability, compiles=True)
    severity = _severity(context, WARNING)
    return incompatible(
        message, (toolkit_evidence(install), matrix_evidence), finding_id=finding_id, severity=severity, problem=problem
    )


def is_compiling(context: Context) -> bool:
    """Tell whether CUDA code is built on this machine: by request, settings, or installed packages."""
    is_requested = context.target.compiles or any(name in context.environment for name in _VARIABLES)
    facts = (context.facts.python.extensions, context.facts.toolkits.cuda_home)
    return is_requested or any(isinstance(fact, Known) for fact in facts) or bool(_compiled_when_used(context))


@dataclass(frozen=True)
class BuiltWhenUsed:
    """The content of data/built_when_used.json."""

    packages: tuple[str, ...]
    citation: Citation


def _compiled_when_used(context: Context) -> str:
    """Name an installed package that builds its CUDA code where it is used: "deepspeed 0.15.1 builds ..."."""
    packages = (context.distributions.get(name) for name in load_data("built_when_used", BuiltWhenUsed).packages)
    package = next((item for item in packages if item), None)
    return f"{package.name} {package.version} builds its CUDA code when it is first used" if package else ""


def _severity(context: Context, otherwise: str) -> str:
    if context.target.compiles:
        return ERROR
    return WARNING if is_compiling(context) else otherwise
