"""Building CUDA code: nvcc's host compiler, and extensions of a framework."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.host.data_files import load_data
from envcheck.model import (
    ERROR,
    NOTE,
    WARNING,
    Absent,
    Advise,
    Citation,
    Evidence,
    Fact,
    Finding,
    Fix,
    Known,
    Toolkit,
    ToolkitInstall,
    Unknown,
    dataclass,
    is_older,
    major,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.fixes import (
    BuildWithToolkit,
    CompileForGpu,
    InstallNvcc,
    InstallTensorrt,
    InstallVisualStudio,
    UseOtherCompiler,
)
from envcheck.rules.builds import Build, installed_builds
from envcheck.rules.catalogue import BUILD
from envcheck.rules.context import (
    Context,
    SourceBuild,
    cite,
    describe,
    incompatible,
    rule,
    source_of,
)
from envcheck.rules.gpus import JudgedGpu, judged_gpus
from envcheck.rules.targets import cuda_builds, wanted_releases
from envcheck.rules.toolkit import built_for_cuda, toolkit_evidence, unknown_release

TOO_NEW = "host-compiler-too-new"
TOO_OLD = "host-compiler-too-old"
_OVERRIDE = "-allow-unsupported-compiler"


@dataclass
class HostCompiler:
    """The compiler nvcc uses: gcc, clang or msvc, its version, and its path ("" unknown)."""

    kind: str
    version: str
    path: str
    fact: Fact[str]


@rule(TOO_NEW, TOO_OLD, severity=WARNING)
def nvcc_host_compiler(context: Context) -> Iterator[Finding]:
    """Find an nvcc whose host compiler is newer or older than it supports."""
    install, compiler = compiling_toolkit(context), host_compiler(context)
    version = install.version.value if install else None
    if install is None or compiler is None or version is None:
        return
    row = context.matrix.toolkit(version)
    if row is None:
        subject = f"CUDA Toolkit {version} in {install.root}"
        yield unknown_release(
            subject, "whether its nvcc accepts this compiler", toolkit_evidence(install), NOTE
        )
        return
    highest = _find_highest(row, compiler.kind)
    lowest = _find_lowest(row, compiler.kind)
    if (
        highest
        and _newer_than_limit(compiler.version, highest)
        and _OVERRIDE not in _read_flags(context)
    ):
        yield _report_compiler(
            context, TOO_NEW, install, compiler, f"accepts {compiler.kind} up to {highest}"
        )
    if lowest and numbers(compiler.version) < numbers(lowest):
        yield _report_compiler(
            context, TOO_OLD, install, compiler, f"needs {compiler.kind} {lowest} or newer"
        )


def compiling_toolkit(context: Context) -> ToolkitInstall | None:
    """Find the toolkit CUDA code would be compiled with beside a framework.

    Return None where nothing asks for one.
    """
    if not context.compiles and not any(cuda_builds(context)):
        return None
    facts, with_nvcc = context.toolkits, toolkits_with_nvcc(context)
    for root in (facts.cuda_home_root, facts.root_on_path, facts.usr_local_cuda):
        for item in with_nvcc:
            if item.root == root.value:
                return item
    return with_nvcc[0] if len(with_nvcc) == 1 else None


def toolkits_with_nvcc(context: Context) -> list[ToolkitInstall]:
    """List the toolkits that may hold an nvcc; wheels hold parts of one."""
    installs = context.toolkits.installs.value or ()
    return [
        item
        for item in installs
        if not isinstance(item.nvcc_path, Absent) and item.origin != "wheels"
    ]


def host_compiler(context: Context) -> HostCompiler | None:
    """Find the compiler nvcc uses; where that is unknown, the gcc on PATH."""
    facts = context.toolkits
    if isinstance(facts.nvcc_host_compiler_version, Known):
        path = facts.nvcc_host_compiler.value or ""
        version = facts.nvcc_host_compiler_version
        return HostCompiler(_kind_of(path), version.value, path, version)
    gcc = context.facts.compilers.gcc_version
    if isinstance(facts.nvcc_host_compiler, Absent) or not isinstance(gcc, Known):
        return None
    return HostCompiler("gcc", gcc.value, context.facts.compilers.gcc_path.value or "gcc", gcc)


def _kind_of(path: str) -> str:
    name = re.split(r"[/\\]", path)[-1].lower()
    if name.startswith("clang"):
        return "clang"
    return "msvc" if name in ("cl", "cl.exe") else "gcc"


def _find_highest(row: Toolkit, kind: str) -> str:
    msvc = row.msvc.partition("..")[2] if row.msvc else ""
    return {"gcc": row.gcc_max or "", "clang": row.clang_max or "", "msvc": _msvc_version(msvc)}[
        kind
    ]


def _find_lowest(row: Toolkit, kind: str) -> str:
    msvc = row.msvc.partition("..")[0] if row.msvc else ""
    return {"gcc": row.gcc_min or "", "clang": "", "msvc": _msvc_version(msvc)}[kind]


def _msvc_version(macro: str) -> str:
    """Turn _MSC_VER into the version cl prints: 1949 -> 19.49."""
    return f"{macro[:2]}.{macro[2:]}" if re.fullmatch(r"\d{4}", macro) else ""


def _newer_than_limit(version: str, highest: str) -> bool:
    # nvcc's headers compare as many numbers as the limit names: 12.4 is within "12".
    limit = numbers(highest)
    return numbers(version)[: len(limit)] > limit


def _read_flags(context: Context) -> str:
    names = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
    return " ".join(context.environment.get(name, "") for name in names)


def _report_compiler(
    context: Context, finding_id: str, install: ToolkitInstall, compiler: HostCompiler, limit: str
) -> Finding:
    cuda = describe(install.version)
    row = context.matrix.toolkit(cuda)
    location = f" ({compiler.path})" if compiler.path else ""
    message = (
        f"nvcc of CUDA {cuda} ({install.root}) {limit}; it would use {compiler.kind}"
        f" {compiler.version}{location}. Only building CUDA extensions needs a compiler; running a"
        " framework does not."
    )
    evidence = (
        Evidence("toolkits.nvcc_host_compiler_version", compiler.version, source_of(compiler.fact)),
        toolkit_evidence(install),
        cite(f"CUDA Toolkit {cuda}", limit, row),
    )
    severity = ERROR if context.compiles else WARNING
    cure = _use_accepted_compiler(compiler, row) if row else None
    return incompatible(message, evidence, finding_id=finding_id, severity=severity, cure=cure)


def _use_accepted_compiler(compiler: HostCompiler, row: Toolkit) -> Fix:
    """State what nvcc accepts; where it calls clang, a GCC would do as well."""
    if compiler.kind == "msvc":
        return InstallVisualStudio(_find_highest(row, "msvc"))
    is_clang = compiler.kind == "clang"
    return UseOtherCompiler(
        row.version, row.gcc_max or "", row.gcc_min or "", compiler.version, is_clang
    )


@rule("tensorrt-missing", severity=NOTE)
def tensorrt_missing(context: Context) -> Iterator[Finding]:
    """Find builds whose TensorRT --for asks for and that is not there.

    Where nobody asks, it is noise.
    """
    is_requested = any("tensorrt" in wanted.extras for wanted in wanted_releases(context))
    for build in cuda_builds(context):
        if (
            is_requested
            and build.traits.cuda.has_tensorrt
            and not context.need(context.facts.tensorrt, "tensorrt")
        ):
            part = f"{build.traits.title}-TensorRT"
            message = (
                f"TensorRT, requested with {build.label},"
                f" is not installed; everything except {part} works."
            )
            evidence = (context.seen("tensorrt"), *built_for_cuda(build))
            cure = InstallTensorrt(build.framework, build.version)
            yield incompatible(message, evidence, cure=cure)


_WRONG, _PATH, _MISSING = "toolkit-wrong-version", "toolkit-path-conflict", "toolkit-missing"
# Only who compiles CUDA code sets these.
_VARIABLES = (
    "CUDACXX", "CUDAHOSTCXX", "FORCE_CUDA", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "NVCC_PREPEND_FLAGS",
    "TORCH_CUDA_ARCH_LIST", "TORCH_EXTENSIONS_DIR",
)  # fmt: skip


@rule(_WRONG, _PATH, severity=NOTE)
def nvcc_of_another_major(context: Context) -> Iterator[Finding]:
    """Find an nvcc whose CUDA major PyTorch refuses, alone or beside a right one."""
    install = compiling_toolkit(context)
    version = install.version.value if install else None
    if install is None or version is None or context.matrix.toolkit(version) is None:
        return
    for build in cuda_builds(context):
        cuda = build.cuda.value
        if build.traits.cuda.hosts_extensions and cuda and not _same_major(cuda, version):
            installs = toolkits_with_nvcc(context)
            right = next(
                (item for item in installs if _same_major(cuda, item.version.value or "")), None
            )
            yield _other_major(context, build, install, right)


def _same_major(first: str, second: str) -> bool:
    return numbers(first)[:1] == numbers(second)[:1]


def _other_major(
    context: Context, build: Build, install: ToolkitInstall, right: ToolkitInstall | None
) -> Finding:
    cuda, version = str(build.cuda.value), install.version.value
    hint = ""
    if right:
        hint = f" CUDA {right.version.value} in {right.root} would do, but is not the one found."
    message = (
        f"{build.label} is built for CUDA {cuda} and refuses to build extensions with nvcc of CUDA"
        f" {version} ({install.root}); running it needs no nvcc.{hint}"
    )
    cure: Fix = InstallNvcc(cuda, build.framework, build.distribution)
    if right:
        cure = BuildWithToolkit(right.root, install.root)
    evidence = (
        toolkit_evidence(install),
        *([toolkit_evidence(right)] if right else []),
        *built_for_cuda(build),
    )
    severity = _choose_severity(context, NOTE)
    return incompatible(
        message, evidence, finding_id=_PATH if right else _WRONG, severity=severity, cure=cure
    )


@rule(_MISSING, severity=NOTE, installs=True)
def nvcc_missing(context: Context) -> Iterator[Finding]:
    """Find PyTorch beside which CUDA code is built on a machine without nvcc."""
    facts = context.toolkits
    is_unknown = isinstance(facts.installs, Unknown) and not isinstance(facts.nvcc_on_path, Absent)
    if is_unknown or toolkits_with_nvcc(context):
        return
    hosts = [
        build
        for build in cuda_builds(context)
        if build.traits.cuda.hosts_extensions and build.cuda.value
    ]
    built = context.built or "CUDA code"
    if not hosts and context.compiles:
        message = f"{built} is built here, which needs nvcc; this machine has none."
        cure: Fix = Advise("Install the nvcc of a CUDA Toolkit, and set CUDA_HOME to its folder.")
        missing = incompatible(
            message, (context.seen("toolkits.installs"),), severity=ERROR, cure=cure
        )
        yield replace(missing, stops=BUILD)
    if context.may_compile and not context.compiles:
        message = (
            f"An extension is built here ({context.built}). If it contains CUDA code, that fails:"
            " this machine has no nvcc."
        )
        cure = Advise("If it contains CUDA code, install the nvcc of a CUDA Toolkit.")
        yield incompatible(
            message, (context.seen("toolkits.installs"),), severity=WARNING, cure=cure
        )
    for build in hosts:
        cuda = build.cuda.value
        if context.compiles:
            reason = f"{built} is built here"
        else:
            reason = _compiled_when_used(context)
        if not reason:
            continue
        message = (
            f"{reason}, which needs nvcc of a CUDA {major(cuda)} toolkit; this machine has none."
        )
        cure = InstallNvcc(cuda or "", build.framework, build.distribution)
        evidence = (context.seen("toolkits.installs"), *built_for_cuda(build))
        severity = ERROR if context.compiles else NOTE  # much of such a package works without
        missing = incompatible(message, evidence, severity=severity, cure=cure)
        yield replace(missing, stops=BUILD if context.compiles else "")


@rule("extension-build-mismatch", "dependency-conflict", installs=True)
def source_builds(context: Context) -> Iterator[Finding]:
    """Find packages compiled for another release of the framework, or for none."""
    if isinstance(context.python.frameworks, Unknown) or context.python.unread.value:
        return
    for item in context.sources:
        host = next(
            (build for build in installed_builds(context) if build.framework == item.framework),
            None,
        )
        if host is None and not item.built_for:
            yield replace(_without_host(context, item), stops=BUILD)
        elif host is not None and item.built_for and major_minor(host.version) != item.built_for:
            message = (
                f"{item.distribution} comes from a page of wheels for {item.framework}"
                f" {item.built_for}, but {host.label} is installed."
            )
            cure = Advise(f"Use the page for {item.framework} {major_minor(host.version)}.")
            yield incompatible(message, built_for_cuda(host), cure=cure)
        elif host is not None and item.is_isolated and not item.built_for:
            yield replace(_in_isolation(context, item, host), stops=BUILD)


def _without_host(context: Context, item: SourceBuild) -> Finding:
    """Report a package without its framework: an image holds none, another environment may."""
    name, framework = item.distribution, item.framework
    return incompatible(
        f"{name} is compiled against {framework}, which no step before this one installs.",
        (context.seen("python.frameworks"),),
        finding_id="dependency-conflict",
        severity=ERROR if context.host.container.value else WARNING,
        cure=Advise(
            f"Install {framework} in a step before it, and {name} with --no-build-isolation."
        ),
    )


def _in_isolation(context: Context, item: SourceBuild, host: Build) -> Finding:
    """Report a build that replaces the installed framework with the newest, or takes none."""
    newest = next(iter(context.matrix.versions(host.framework)), "")
    return incompatible(
        f"{item.distribution} is compiled in an isolated environment, where it finds no"
        f" {host.distribution}, or another one than {host.label}.",
        (context.seen("python.frameworks", shown=host.label),),
        severity=WARNING if host.version == newest else ERROR,
        cure=Advise(f"Install {item.distribution} with --no-build-isolation."),
    )


@rule("gpu-arch-too-new", "gpu-arch-too-old", severity=WARNING)
def nvcc_knows_gpu(context: Context) -> Iterator[Finding]:
    """Find an nvcc that does not know this machine's GPU yet, or no longer."""
    ids: set[str] = set()
    for install, version, item in _compiled_for(context):
        finding_id, support = _unknown_to(version, item)
        if finding_id and finding_id not in ids:
            ids.add(finding_id)
            yield _not_compiled(context, finding_id, install, item, support)


def _unknown_to(version: str, item: JudgedGpu) -> tuple[str, str]:
    """Name the finding of a GPU that nvcc cannot build for, and the CUDA that can."""
    if item.first_toolkit and is_older(version, item.first_toolkit):
        return "gpu-arch-too-new", f"from CUDA {item.first_toolkit} on"
    if item.last_toolkit and is_older(item.last_toolkit, version):
        return ("gpu-arch-too-old", f"up to CUDA {item.last_toolkit}")
    return ("", "")


def _compiled_for(context: Context) -> Iterator[tuple[ToolkitInstall, str, JudgedGpu]]:
    if not is_compiling(context) or context.facts.gpus.value is None:
        return
    install = compiling_toolkit(context)
    version = install.version.value if install else None
    for item in judged_gpus(context) if install and version else ():
        if install and version:
            yield install, version, item


def _not_compiled(
    context: Context, finding_id: str, install: ToolkitInstall, item: JudgedGpu, support: str
) -> Finding:
    version = install.version.value
    message = (
        f"nvcc of CUDA {version} ({install.root}), which builds CUDA code here, cannot build for "
        f"{item.name}: compute capability {item.capability} is supported {support}."
    )
    matrix_evidence = cite(f"compute capability {item.capability}", support, item.architecture)
    return incompatible(
        message,
        (toolkit_evidence(install), matrix_evidence),
        finding_id=finding_id,
        severity=_choose_severity(context, WARNING),
        cure=CompileForGpu(item.capability, is_newer=finding_id == "gpu-arch-too-new"),
    )


def is_compiling(context: Context) -> bool:
    """Return whether CUDA code is built on this machine.

    By request, settings, or installed packages.
    """
    is_requested = context.compiles or any(name in context.environment for name in _VARIABLES)
    facts = (context.python.extensions, context.toolkits.cuda_home)
    return (
        is_requested
        or any(fact.value is not None for fact in facts)
        or bool(_compiled_when_used(context))
    )


@dataclass
class BuiltWhenUsed:
    """The content of data/frameworks/built_when_used.json."""

    packages: tuple[str, ...]
    citation: Citation


def _compiled_when_used(context: Context) -> str:
    """Name a package that builds its CUDA code on use: "deepspeed 0.15.1 builds ..."."""
    packages = map(
        context.distributions.get, load_data("frameworks/built_when_used", BuiltWhenUsed).packages
    )
    package = next((item for item in packages if item), None)
    if package:
        return f"{package.label} builds its CUDA code when it is first used"
    return ""


def _choose_severity(context: Context, otherwise: str) -> str:
    if context.compiles:
        return ERROR
    return WARNING if is_compiling(context) else otherwise
