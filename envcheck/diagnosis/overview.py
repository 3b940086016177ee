"""The machine in a few lines: what was found, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from envcheck.model import (
    AT_RUN,
    FAILED,
    NO_ENVIRONMENT,
    NOT_STATED,
    PASSED,
    Absent,
    Fact,
    Facts,
    FrameworkBuild,
    Gpu,
    ImportTest,
    Known,
    LibraryInstall,
    OtherGpu,
    PythonFacts,
    ToolkitInstall,
    Unknown,
    choose_reading,
)
from envcheck.rules.gpu_releases import other_gpu_name, vendor_of_build

T = TypeVar("T")
# Why this Python is the one that is judged, see PythonFacts.chosen_by.
_REASONS = {
    "option": "named on the command line",
    "VIRTUAL_ENV": "the active environment (VIRTUAL_ENV)",
    "CONDA_PREFIX": "the active environment (CONDA_PREFIX)",
    "uv run": "the environment that `uv run` extends for this command",
    "kernel": "of the notebook's kernel",
    "asking": "the Python that asks",
    "folder": "the environment in this folder",
    "own": "envcheck's own (no other here)",
    "base": "conda's base environment (no other here)",
    "PATH": "the first on PATH (no environment here)",
}
_SYSTEMS = {"darwin": "macOS", "windows": "Windows", "linux": "Linux"}
_NAMED = "found by {}"  # what else leads to an environment: .venv, Poetry, .pdm-python ...
_PROBLEMS = {
    "": "{named} means {path}, too",
    "gone": "{named} names {path}, which is not there",
    "no-python": "{path} is not judged: its Python is gone",
    "no-settings": "{path} is not judged: it has no pyvenv.cfg",
    "empty": "{path} is not judged: the file is empty",
    "denied": "{path} is not judged: it cannot be read",
    "not-made": "{named} has made no environment yet ({path})",
    "not-installed": ".python-version asks for {path}, and no such Python was found",
    "another-version": ".python-version asks for Python {path}",
}
LEFT_TO_RUN = "decided when it runs"  # of what a file builds
_NO_ENVIRONMENT = (
    "none to judge: no environment is active or belongs to this folder, and none is on PATH"
)


def summarize_machine(facts: Facts) -> list[tuple[str, str]]:
    """Return (label, text) for each layer, in the order the layers build on each other."""
    rows = [
        ("Machine", _format_machine(facts)),
        ("GPU", _format_gpus(facts)),
        ("Driver", _format_driver(facts)),
        ("CUDA", _format_toolkits(facts)),
        ("cuDNN", _format_items(facts.cudnn, _format_library)),
        ("Compiler", _format_compilers(facts)),
        ("Python", _format_python(facts)),
        ("Frameworks", _format_items(facts.python.frameworks, _format_framework)),
        *_format_imports(facts),
        *_format_kernels(facts),
    ]
    if facts.python.link_faults != AT_RUN:
        return rows
    # Of what a file builds, nothing failed: what no line and no name states is not stated.
    return [(label, text.replace("unknown (failed)", "not stated")) for label, text in rows]


def _format_kernels(facts: Facts) -> list[tuple[str, str]]:
    kernels = facts.python.kernels.value
    named = ", ".join(f"kernel {kernel.name} runs {kernel.python}" for kernel in kernels or ())
    return [("Jupyter", named)] if named else []


def format_fact(fact: Fact[Any], absent: str = "none") -> str:
    """Say a fact shortly; an unknown one is said as unknown, with its reason."""
    if isinstance(fact, Known):
        return str(fact.value)
    if fact == AT_RUN:
        return LEFT_TO_RUN
    return absent if isinstance(fact, Absent) else f"unknown ({fact.why})"


def _format_items(
    fact: Fact[tuple[T, ...]], write: Callable[[T], str], absent: str = "none"
) -> str:
    """Say each item of a fact, or why there are none."""
    if not isinstance(fact, Known):
        return format_fact(fact, absent)
    return ", ".join(map(write, fact.value)) or absent


def _format_machine(facts: Facts) -> str:
    host = facts.host
    name = " ".join(
        part for part in (host.distribution_id.value, host.distribution_version.value) if part
    )
    libc = " ".join(part for part in (host.libc_kind.value, host.libc_version.value) if part)
    machine = "" if host.architecture == AT_RUN else format_fact(host.architecture)
    if not host.distribution_id.value:
        name = f"{_SYSTEMS.get(host.os.value or '', format_fact(host.os))} {name}".rstrip()
    parts = [name, machine, libc]
    if host.container.value:
        parts.append(f"in {host.container.value}")
    if host.wsl_version.value:
        parts.append(f"WSL {host.wsl_version.value}")
    return ", ".join(part for part in parts if part)


def _format_gpus(facts: Facts) -> str:
    fact = facts.gpus
    if not isinstance(fact, Known):
        others = ", ".join(map(_format_other_gpu, facts.other_gpus.value or ()))
        unread = facts.other_gpus
        if isinstance(unread, Unknown) and unread != NOT_STATED:
            others = f"others unknown ({unread.detail})"
        none = f"none by NVIDIA; {others}" if others else "none"
        if isinstance(fact, Unknown) and fact != AT_RUN:
            return f"unknown ({fact.detail})"
        return format_fact(fact, none)
    names = [_format_gpu(gpu) for gpu in fact.value]
    counts = [(name, names.count(name)) for name in dict.fromkeys(names)]
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in counts)


def _format_other_gpu(gpu: OtherGpu) -> str:
    driver = gpu.kernel_driver.value
    return f"{other_gpu_name(gpu)} ({driver})" if driver else other_gpu_name(gpu)


def _format_gpu(gpu: Gpu) -> str:
    name = gpu.name.value or f"PCI device {format_fact(gpu.pci_id, 'of unknown id')}"
    capability = gpu.compute_capability.value
    return f"{name} (compute capability {capability})" if capability else name


def _format_driver(facts: Facts) -> str:
    driver = facts.driver
    if isinstance(driver.release, Absent):
        return "none"
    text = format_fact(driver.release)
    if driver.kernel_module_kind.value:
        text += f" ({driver.kernel_module_kind.value} kernel module)"
    if driver.cuda_driver_version.value:
        text += f", runs CUDA up to {driver.cuda_driver_version.value}"
    return text


def _format_toolkits(facts: Facts) -> str:
    on_path = facts.toolkits.root_on_path.value
    return _format_items(
        facts.toolkits.installs, lambda item: _format_toolkit(item, on_path), "no toolkit"
    )


def _format_toolkit(item: ToolkitInstall, on_path: str | None) -> str:
    text = f"{format_fact(item.version, 'unversioned')} in {item.root}"
    return f"{text} (its nvcc is on PATH)" if item.root == on_path else text


def _format_library(item: LibraryInstall) -> str:
    version = choose_reading(item.library_version, item.package_version, item.header_version)
    return f"{version.value or 'unversioned'} in {item.root}"


def _format_compilers(facts: Facts) -> str:
    compilers = facts.compilers
    versions = (
        ("gcc", compilers.gcc_version),
        ("g++", compilers.gxx_version),
        ("clang", compilers.clang_version),
    )
    if all(fact == AT_RUN for _, fact in versions):
        return LEFT_TO_RUN
    texts = [
        f"{name} {format_fact(fact)}" for name, fact in versions if not isinstance(fact, Absent)
    ]
    return ", ".join(texts) or "none"


def _format_python(facts: Facts) -> str:
    python = facts.python
    others = "".join(f". {text}" for text in _describe_others(python))
    if python.broken_environment:
        others = f". {_describe_lost_python(python.broken_environment)}{others}"
    if python.chosen_by == NO_ENVIRONMENT:
        alike = [item.path for item in python.others if not item.problem]
        if alike:
            return f"none was judged: {' and '.join(alike)} fit alike; name one with --env"
        return _NO_ENVIRONMENT + others
    if not isinstance(python.executable, Known):
        return format_fact(python.executable)
    kind = f" ({python.kind.value})" if python.kind.value else ""
    named = _REASONS.get(python.chosen_by) or _NAMED.format(python.chosen_by)
    reason = f", {named}" if python.chosen_by else ""
    if python.version == AT_RUN:
        return LEFT_TO_RUN
    return f"{format_fact(python.version)} at {python.executable.value}{kind}{reason}{others}"


def _describe_others(python: PythonFacts) -> Iterator[str]:
    """Say what else may be meant, and what names an environment in vain."""
    for item in python.others:
        if item.path != python.broken_environment:
            named = "this folder" if item.named_by == "folder" else item.named_by
            yield _PROBLEMS[item.problem].format(path=item.path, named=named)


def _describe_lost_python(folder: str) -> str:
    """Say that an environment is not judged because the Python that it was made with is gone."""
    return (
        f"{folder} is not judged: its Python is gone."
        " Recreate the environment (python -m venv --clear)"
    )


def _format_imports(facts: Facts) -> list[tuple[str, str]]:
    """Say which installed frameworks were imported for real, or why none was.

    Nothing where nobody was to.
    """
    tests = facts.python.imports
    if not facts.python.frameworks.value:
        return []
    if isinstance(tests, Known):
        return [("Imports", ", ".join(map(_format_import, tests.value)))]
    if isinstance(tests, Unknown) and tests.why == "denied":
        return [("Imports", f"not imported: {tests.detail}")]
    return []


def _format_import(test: ImportTest) -> str:
    if test.outcome == PASSED:
        return f"{test.distribution} in {test.seconds:.1f} s"
    return f"{test.distribution} {'fails' if test.outcome == FAILED else 'not proven'}"


def _format_framework(item: FrameworkBuild) -> str:
    cuda, label = item.cuda_version.value, f"{item.distribution} {item.version}"
    if item.cuda_build.value is False:
        vendor = vendor_of_build(item.accelerator.value or "")
        kind = vendor.platform if vendor else "CPU"
        return f"{label} ({kind} build)"
    return label + (f" (CUDA {cuda})" if cuda else "")
