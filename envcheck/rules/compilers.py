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
)
from envcheck.model.fixes import (
    BuildWithToolkit,
    CompileForGpu,
    InstallNvcc,
    InstallTensorrt,
    InstallToolkit,
    InstallVisualStudio,
    UseInstalledToolkit,
    UseOtherCompiler,
)
from envcheck.rules.builds import Build, installed_builds
from envcheck.rules.catalogue import BUILD
from envcheck.rules.context import (
    Context,
    SourceBuild,
    cite,
    describe,
    rule,
    show_fact,
)
from envcheck.rules.gpu_releases import judged_gpus
from envcheck.rules.targets import cuda_builds, wanted_releases
from envcheck.rules.toolkit import built_for_cuda, toolkit_evidence

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
    if install is None or compiler is None:
        return
    cuda = describe(install.version)
    row = context.matrix.toolkit(cuda)
    if row is None:
        yield context.report_unlisted(
            f"CUDA Toolkit {cuda} in {install.root}",
            "whether its nvcc accepts this compiler",
            toolkit_evidence(install),
            severity=NOTE,
        )
        return
    kind, (lowest, highest) = compiler.kind, _find_limits(row, compiler.kind)
    # nvcc's headers compare as many numbers as the limit names: 12.4 is within "12".
    limit = numbers(highest)
    if highest and numbers(compiler.version)[: len(limit)] > limit:
        if _OVERRIDE in _read_flags(context):
            return
        finding_id, accepts = TOO_NEW, f"accepts {kind} up to {highest}"
    elif lowest and numbers(compiler.version) < numbers(lowest):
        finding_id, accepts = TOO_OLD, f"needs {kind} {lowest} or newer"
    else:
        return
    # where it calls clang, a GCC would do as well
    cure: Fix = UseOtherCompiler(
        cuda, row.gcc_max or "", row.gcc_min or "", compiler.version, kind == "clang"
    )
    if kind == "msvc":
        cure = InstallVisualStudio(highest)
    location = f" ({compiler.path})" if compiler.path else ""
    yield context.report(
        f"nvcc of CUDA {cuda}{install.place} {accepts}; it would use {kind}"
        f" {compiler.version}{location}. Only building CUDA extensions needs a compiler; running a"
        " framework does not.",
        show_fact("toolkits.nvcc_host_compiler_version", compiler.fact),
        toolkit_evidence(install),
        cite(f"CUDA Toolkit {cuda}", accepts, row),
        finding_id=finding_id,
        severity=ERROR if context.compiles else WARNING,
        cure=cure,
    )


def compiling_toolkit(context: Context) -> ToolkitInstall | None:
    """Find the toolkit CUDA code would be compiled with beside a framework.

    Return None where nothing asks for one, or its version is not known.
    """
    if not context.compiles and not any(cuda_builds(context)):
        return None
    facts, with_nvcc = context.toolkits, toolkits_with_nvcc(context)
    for root in (facts.cuda_home_root, facts.root_on_path, facts.usr_local_cuda):
        for item in with_nvcc:
            if item.root == root.value:
                return item if item.version.value else None
    return with_nvcc[0] if len(with_nvcc) == 1 and with_nvcc[0].version.value else None


def toolkits_with_nvcc(context: Context) -> list[ToolkitInstall]:
    """List the toolkits that may hold an nvcc; wheels hold parts of one."""
    return [
        item
        for item in context.installs
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


def _find_limits(row: Toolkit, kind: str) -> tuple[str, str]:
    """Return the lowest and the highest compiler of a kind that nvcc accepts; "" for no bound.

    _MSC_VER becomes the version that cl prints: 1949 -> 19.49.
    """
    if kind == "msvc":
        lowest, _, highest = re.sub(r"(\d\d)(\d\d)", r"\1.\2", row.msvc or "").partition("..")
        return lowest, highest
    if kind == "clang":
        return "", row.clang_max or ""
    return row.gcc_min or "", row.gcc_max or ""


def _read_flags(context: Context) -> str:
    names = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
    return " ".join(context.environment.get(name, "") for name in names)


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
            yield context.report(
                f"TensorRT, requested with {build.label},"
                f" is not installed; everything except {part} works.",
                "tensorrt",
                *built_for_cuda(build),
                cure=InstallTensorrt(build.framework, build.version),
            )


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
    version = describe(install.version) if install else ""
    if install is None or context.matrix.toolkit(version) is None:
        return
    for build in cuda_builds(context):
        cuda = build.cuda.value
        if not build.traits.cuda.hosts_extensions or not cuda or _same_major(cuda, version):
            continue
        finding_id, hint, others = _WRONG, "", list[ToolkitInstall]()
        cure: Fix = InstallToolkit(cuda, build.framework, build.distribution, compiles=True)
        for item in toolkits_with_nvcc(context):
            if _same_major(cuda, item.version.value or ""):
                finding_id, others = _PATH, [item]
                named = f"CUDA {item.version.value}{item.place}"
                hint = f" {named} would do, but is not the one found."
                cure = BuildWithToolkit(item.root, install.folder)
                if not item.folder:
                    cure = UseInstalledToolkit(item.root, compiles=True)
                break
        yield context.report(
            f"{build.label} is built for CUDA {cuda} and refuses to build extensions with nvcc of"
            f" CUDA {version}{install.place}; running it needs no nvcc.{hint}",
            *map(toolkit_evidence, [install, *others]),
            *built_for_cuda(build),
            finding_id=finding_id,
            severity=_choose_severity(context, NOTE),
            cure=cure,
        )


def _same_major(first: str, second: str) -> bool:
    return numbers(first)[:1] == numbers(second)[:1]


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
        yield context.report(
            f"{built} is built here, which needs nvcc; this machine has none.",
            "toolkits.installs",
            severity=ERROR,
            cure=Advise("Install the nvcc of a CUDA Toolkit, and set CUDA_HOME to its folder."),
            stops=BUILD,
        )
    if context.may_compile and not context.compiles:
        yield context.report(
            f"An extension is built here ({context.built}). If it contains CUDA code, that fails:"
            " this machine has no nvcc.",
            "toolkits.installs",
            severity=WARNING,
            cure=Advise("If it contains CUDA code, install the nvcc of a CUDA Toolkit."),
        )
    # much of a package that compiles when it is used works without
    reason, severity, stops = _compiled_when_used(context), NOTE, ""
    if context.compiles:
        reason, severity, stops = f"{built} is built here", ERROR, BUILD
    for build in hosts if reason else ():
        cuda = build.cuda.value or ""
        yield context.report(
            f"{reason}, which needs nvcc of a CUDA {major(cuda)} toolkit; this machine has none.",
            "toolkits.installs",
            *built_for_cuda(build),
            severity=severity,
            cure=InstallNvcc(cuda, build.framework, build.distribution),
            stops=stops,
        )


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
            yield _without_host(context, item)
        elif host is not None and item.built_for and major_minor(host.version) != item.built_for:
            yield context.report(
                f"{item.distribution} comes from a page of wheels for {item.framework}"
                f" {item.built_for}, but {host.label} is installed.",
                *built_for_cuda(host),
                cure=Advise(f"Use the page for {item.framework} {major_minor(host.version)}."),
            )
        elif host is not None and item.is_isolated and not item.built_for:
            yield _in_isolation(context, item, host)


def _without_host(context: Context, item: SourceBuild) -> Finding:
    """Report a package without its framework: an image holds none, another environment may."""
    name, framework = item.distribution, item.framework
    return context.report(
        f"{name} is compiled against {framework}, which no step before this one installs.",
        "python.frameworks",
        finding_id="dependency-conflict",
        severity=ERROR if context.host.container.value else WARNING,
        cure=Advise(
            f"Install {framework} in a step before it, and {name} with --no-build-isolation."
        ),
        stops=BUILD,
    )


def _in_isolation(context: Context, item: SourceBuild, host: Build) -> Finding:
    """Report a build that replaces the installed framework with the newest, or takes none."""
    newest = next(iter(context.matrix.versions(host.framework)), "")
    return context.report(
        f"{item.distribution} is compiled in an isolated environment, where it finds no"
        f" {host.distribution}, or another one than {host.label}.",
        ("python.frameworks", host.label),
        severity=WARNING if host.version == newest else ERROR,
        cure=Advise(f"Install {item.distribution} with --no-build-isolation."),
        stops=BUILD,
    )


@rule("gpu-arch-too-new", "gpu-arch-too-old", severity=WARNING)
def nvcc_knows_gpu(context: Context) -> Iterator[Finding]:
    """Find an nvcc that does not know this machine's GPU yet, or no longer."""
    install = compiling_toolkit(context) if is_compiling(context) else None
    if install is None or not context.gpus:
        return
    version, ids = describe(install.version), set[str]()
    for item in judged_gpus(context):
        finding_id, support = _refuse(version, item.first_toolkit, item.last_toolkit)
        if not support or finding_id in ids:
            continue
        ids.add(finding_id)
        yield context.report(
            f"nvcc of CUDA {version}{install.place}, which builds CUDA code here, cannot build"
            f" for {item.name}: compute capability {item.capability} is supported {support}.",
            toolkit_evidence(install),
            cite(f"compute capability {item.capability}", support, item.architecture),
            finding_id=finding_id,
            severity=_choose_severity(context, WARNING),
            cure=CompileForGpu(item.capability, is_newer=finding_id == "gpu-arch-too-new"),
        )


@rule("gpu-arch-too-new", "gpu-arch-too-old", severity=WARNING)
def nvcc_knows_targets(context: Context) -> Iterator[Finding]:
    """Find an nvcc that does not know a compute capability that TORCH_CUDA_ARCH_LIST names.

    It warns: packages that pass -gencode flags of their own do not read the variable
    (torch.utils.cpp_extension._get_cuda_arch_flags).
    """
    asked = context.environment.get("TORCH_CUDA_ARCH_LIST", "")
    install = compiling_toolkit(context) if asked else None
    if install is None:
        return
    version = describe(install.version)
    for capability in re.findall(r"\b\d+\.\d\b", asked):
        row = context.matrix.architecture(capability)
        if row is None:
            continue
        finding_id, support = _refuse(version, row.first_toolkit, row.last_toolkit)
        if support:
            yield context.report(
                f"TORCH_CUDA_ARCH_LIST asks for compute capability {capability}, for which nvcc of"
                f" CUDA {version}{install.place} cannot build: it is supported {support}.",
                ("host.environment", f"TORCH_CUDA_ARCH_LIST={asked}"),
                toolkit_evidence(install),
                cite(f"compute capability {capability}", support, row),
                finding_id=finding_id,
                cure=CompileForGpu(capability, is_newer=finding_id == "gpu-arch-too-new"),
                stops=BUILD,
            )
            return


def _refuse(version: str, first: str | None, last: str | None) -> tuple[str, str]:
    """Return the finding, and which toolkits build for a GPU, where one of a version does not."""
    if first and is_older(version, first):
        return "gpu-arch-too-new", f"from CUDA {first} on"
    if last and is_older(last, version):
        return "gpu-arch-too-old", f"up to CUDA {last}"
    return "", ""


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
    for name in load_data("frameworks/built_when_used", BuiltWhenUsed).packages:
        if name in context.distributions:
            label = context.distributions[name].label
            return f"{label} builds its CUDA code when it is first used"
    return ""


def _choose_severity(context: Context, otherwise: str) -> str:
    if context.compiles:
        return ERROR
    return WARNING if is_compiling(context) else otherwise
