"""Whether compiled CUDA extensions fit the framework they were built against, and TensorRT where it is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.model.facts import Known, Source, value_of
from envcheck.model.findings import INCOMPATIBLE, NOTE, WARNING, Command, Evidence, Finding, Fix, Way
from envcheck.model.machine import Distribution, Extension
from envcheck.rules.builds import Build, installed_builds, label_cuda
from envcheck.rules.context import Context
from envcheck.rules.cuda_libraries import built_for_cuda, cuda_builds, library_name, numbers
from envcheck.rules.fixes_python import python_program
from envcheck.rules.registry import rule
from envcheck.rules.targets import wanted_releases

_MISMATCH = "extension-build-mismatch"


@rule(_MISMATCH)
def extension_build_mismatch(context: Context) -> Iterator[Finding]:
    """Find PyTorch extensions built for another CUDA major than the installed PyTorch, or another Python."""
    torch = next((build for build in installed_builds(context) if build.framework == "torch"), None)
    for extension in value_of(context.facts.python.extensions) or ():
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
            fix = Fix("Install the TensorRT release that this TensorFlow release names.")
            yield Finding(
                "tensorrt-missing", INCOMPATIBLE, NOTE, message, (context.seen("tensorrt"), *built_for_cuda(build)), fix
            )


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
    named, line = found.group(1) if found else "", torch.version.split(".")[:2]
    if not named or ("." in named and named.split(".")[:2] == line):
        return ""
    fits = "." not in named and named.startswith("".join(line)) and len(named) <= len("".join(line)) + 1  # and a patch
    return "" if fits else f"was built for PyTorch {named}"


def _labelled_cuda(torch: Build, label: str) -> str:
    """Compare the CUDA a label names by its major; PyTorch's own companions refuse another one."""
    if value_of(torch.cuda_build) is True and re.match(r"cpu\b", label):
        return "was built without CUDA, so its operations fail on the GPU"
    named, cuda = label_cuda(label[label.find("cu") :]), value_of(torch.cuda)
    differs = value_of(torch.cuda_build) is False or (cuda and numbers(named)[:1] != numbers(cuda)[:1])
    return f"was built for CUDA {named}" if named and differs else ""


def _extends_torch(item: Distribution, label: str) -> bool:
    needs = (re.split(r"[^a-z0-9-]", line.lower().replace("_", "-"), maxsplit=1)[0] for line in item.requires)
    return item.name.startswith("torch") or re.search(r"torch|pt\d", label) is not None or "torch" in needs


def _labelled(context: Context, torch: Build, item: Distribution, reason: str) -> Finding:
    message = f"{item.name} {item.version} {reason}, and {torch.label} is installed: what it compiled does not fit."
    seen = context.seen("python.distributions", shown=f"{item.name} {item.version}")
    fix = Fix(f"Install the {item.name} that was made for {torch.label}.")
    return Finding(_MISMATCH, INCOMPATIBLE, WARNING, message, (seen, *built_for_cuda(torch)), fix)


def _other_python(context: Context, extension: Extension) -> str:
    """Compare the ABI tag in an extension's file name with the interpreter: _ext.cpython-37m-x86_64-linux-gnu.so."""
    built = re.search(r"\.cpython-(\d)(\d+)m?d?-", extension.path)
    version = value_of(context.facts.python.version)
    if built is None or version is None or version.split(".")[:2] == [built.group(1), built.group(2)]:
        return ""
    return f"was built for Python {built.group(1)}.{built.group(2)}, and this is Python {version}"


def _other_cuda(context: Context, torch: Build, extension: Extension) -> str:
    """Compare the CUDA runtime an extension needs with the one its PyTorch loads."""
    cudart = next((name for name in extension.needed if library_name(name) == "cudart"), "")
    if not any(name.startswith(("libtorch", "libc10")) for name in extension.needed):
        return ""
    if value_of(torch.cuda_build) is False and (cudart or "libc10_cuda.so" in extension.needed):
        return f"needs CUDA ({cudart or 'libc10_cuda.so'}), and {torch.label} is a CPU build"
    cuda = value_of(torch.cuda)
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
        _rebuild(context, extension),
    )


def _rebuild(context: Context, extension: Extension) -> Fix:
    summary = "Rebuild it against the installed framework."
    wheel = (Way("Install its wheel for this framework, CUDA and Python, where there is one."),)
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", extension.distribution):
        return Fix(summary, (), wheel)
    pip = (python_program(context), "-m", "pip", "install", "--force-reinstall", "--no-deps", "--no-build-isolation")
    argv = (*pip, "--no-cache-dir", "--no-binary", extension.distribution, extension.distribution)
    return Fix(summary, (Command(argv, "environment", f"build {extension.distribution} anew"),), wheel)


def _source(context: Context) -> Source | None:
    found = context.facts.python.extensions
    return found.source if isinstance(found, Known) else None
