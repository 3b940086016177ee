"""Whether nvcc accepts the host compiler it would hand C++ code to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    NOTE,
    WARNING,
    Absent,
    Evidence,
    Fact,
    Finding,
    Known,
    Problem,
    ToolkitInstall,
    dataclass,
    get_value,
    numbers,
)
from envcheck.model.releases import Toolkit
from envcheck.rules.context import Context, describe, source_of
from envcheck.rules.cuda_libraries import cuda_builds, row_evidence, unknown_release
from envcheck.rules.registry import rule

TOO_NEW = "host-compiler-too-new"
TOO_OLD = "host-compiler-too-old"
_OVERRIDE = "-allow-unsupported-compiler"


@dataclass(frozen=True)
class HostCompiler:
    """The compiler nvcc uses: gcc, clang or msvc, its version, and where it lies ("" not told)."""

    kind: str
    version: str
    path: str
    fact: Fact[str]


@rule(TOO_NEW)
def host_compiler_too_new(context: Context) -> Iterator[Finding]:
    """Find an nvcc whose host compiler is newer than its headers accept."""
    install, compiler = compiling_toolkit(context), host_compiler(context)
    version = get_value(install.version) if install else None
    if install is None or compiler is None or version is None:
        return
    row = context.matrix.toolkit(version)
    if row is None:
        what = f"CUDA Toolkit {version} in {install.root}"
        yield unknown_release(what, "whether its nvcc accepts this compiler", _seen(install), NOTE)
        return
    highest = _highest(row, compiler.kind)
    if highest and _above(compiler.version, highest) and _OVERRIDE not in _flags(context):
        yield _finding(context, TOO_NEW, install, compiler, f"accepts {compiler.kind} up to {highest}")


@rule(TOO_OLD)
def host_compiler_too_old(context: Context) -> Iterator[Finding]:
    """Find an nvcc whose host compiler is older than it supports."""
    install, compiler = compiling_toolkit(context), host_compiler(context)
    row = context.matrix.toolkit(get_value(install.version) or "") if install else None
    if install is None or compiler is None or row is None:
        return
    lowest = _lowest(row, compiler.kind)
    if lowest and numbers(compiler.version) < numbers(lowest):
        yield _finding(context, TOO_OLD, install, compiler, f"needs {compiler.kind} {lowest} or newer")


def compiling_toolkit(context: Context) -> ToolkitInstall | None:
    """Find the toolkit CUDA code would be compiled with beside a framework; None where nothing asks for one."""
    if not context.target.compiles and not any(cuda_builds(context)):
        return None
    facts, with_nvcc = context.facts.toolkits, toolkits_with_nvcc(context)
    for chosen in (facts.cuda_home_root, facts.root_on_path, facts.usr_local_cuda):
        for item in with_nvcc:
            if item.root == get_value(chosen):
                return item
    return with_nvcc[0] if len(with_nvcc) == 1 else None


def toolkits_with_nvcc(context: Context) -> list[ToolkitInstall]:
    """List the toolkits that may hold an nvcc; wheels hold parts of one."""
    installs = get_value(context.facts.toolkits.installs) or ()
    return [item for item in installs if not isinstance(item.nvcc_path, Absent) and item.origin != "wheels"]


def host_compiler(context: Context) -> HostCompiler | None:
    """Find the compiler nvcc uses; where that was not told, the gcc on PATH."""
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


def _above(version: str, highest: str) -> bool:
    # nvcc's headers compare as many numbers as the limit names: 12.4 is within "12".
    limit = numbers(highest)
    return numbers(version)[: len(limit)] > limit


def _flags(context: Context) -> str:
    names = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
    return " ".join(context.environment.get(name, "") for name in names)


def _finding(context: Context, finding_id: str, install: ToolkitInstall, compiler: HostCompiler, limit: str) -> Finding:
    cuda = describe(install.version)
    row = context.matrix.toolkit(cuda)
    where = f" ({compiler.path})" if compiler.path else ""
    message = (
        f"nvcc of CUDA {cuda} ({install.root}) {limit}; it would use {compiler.kind} {compiler.version}{where}. "
        "Running a framework needs no compiler, building CUDA extensions does."
    )
    evidence = (
        Evidence("toolkits.nvcc_host_compiler_version", compiler.version, source_of(compiler.fact)),
        _seen(install),
        row_evidence(f"CUDA Toolkit {cuda}", limit, row.citations if row else ()),
    )
    severity = ERROR if context.target.compiles else WARNING
    problem = _problem(compiler, row) if row else None
    return Finding(finding_id, INCOMPATIBLE, severity, message, evidence, problem=problem)


def _problem(compiler: HostCompiler, row: Toolkit) -> Problem:
    """State what nvcc accepts; where it calls clang, a GCC would do as well."""
    limits = "msvc" if compiler.kind == "msvc" else "gcc"
    bounds = (("highest", _highest(row, limits)), ("lowest", _lowest(row, limits)))
    return Problem(cuda=row.version, values=(*bounds, ("kind", compiler.kind), ("version", compiler.version)))


def _seen(install: ToolkitInstall) -> Evidence:
    return Evidence(f"CUDA Toolkit in {install.root}", describe(install.version), source_of(install.version))
