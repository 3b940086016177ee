"""The machine in a few lines: what was found, layer by layer."""

from __future__ import annotations

from envcheck.model import (
    Absent,
    Fact,
    Facts,
    FrameworkBuild,
    Gpu,
    Known,
    LibraryInstall,
    ToolkitInstall,
    Unknown,
    get_value,
)


def overview(facts: Facts) -> list[tuple[str, str]]:
    """Return (label, text) for each layer, in the order the layers build on each other."""
    return [
        ("Machine", _machine(facts)),
        ("GPU", _gpus(facts.gpus)),
        ("Driver", _driver(facts)),
        ("CUDA", _toolkits(facts)),
        ("cuDNN", _libraries(facts.cudnn)),
        ("Compiler", _compiler(facts)),
        ("Python", _python(facts)),
        ("Frameworks", _frameworks(facts.python.frameworks)),
        *_kernels(facts),
    ]


def _kernels(facts: Facts) -> list[tuple[str, str]]:
    kernels = facts.python.kernels
    if not isinstance(kernels, Known) or not kernels.value:
        return []
    return [("Jupyter", ", ".join(f"kernel {kernel.name} runs {kernel.python}" for kernel in kernels.value))]


def in_words(fact: Fact[str], absent: str = "none") -> str:
    """Say a fact shortly; an unknown one is said as unknown, with its reason."""
    if isinstance(fact, Known):
        return str(fact.value)
    return absent if isinstance(fact, Absent) else f"unknown ({fact.why})"


def _machine(facts: Facts) -> str:
    host = facts.host
    name = " ".join(part for part in (get_value(host.distribution_id), get_value(host.distribution_version)) if part)
    libc = " ".join(part for part in (get_value(host.libc_kind), get_value(host.libc_version)) if part)
    parts = [name or in_words(host.os), in_words(host.architecture), libc]
    if isinstance(host.container, Known):
        parts.append(f"in {host.container.value}")
    if isinstance(host.wsl_version, Known):
        parts.append(f"WSL {host.wsl_version.value}")
    return ", ".join(part for part in parts if part)


def _gpus(fact: Fact[tuple[Gpu, ...]]) -> str:
    if not isinstance(fact, Known):
        return "none" if isinstance(fact, Absent) else f"unknown ({fact.detail})"
    names = [_gpu(gpu) for gpu in fact.value]
    counted = [(name, names.count(name)) for name in dict.fromkeys(names)]
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in counted)


def _gpu(gpu: Gpu) -> str:
    name = get_value(gpu.name) or f"PCI device {in_words(gpu.pci_id, 'of unknown id')}"
    capability = get_value(gpu.compute_capability)
    return f"{name} (compute capability {capability})" if capability else name


def _driver(facts: Facts) -> str:
    driver = facts.driver
    if isinstance(driver.release, Absent):
        return "none"
    said = in_words(driver.release)
    if isinstance(driver.kernel_module_kind, Known):
        said += f" ({driver.kernel_module_kind.value} kernel module)"
    if isinstance(driver.cuda_driver_version, Known):
        said += f", runs CUDA up to {driver.cuda_driver_version.value}"
    return said


def _toolkits(facts: Facts) -> str:
    installs = facts.toolkits.installs
    if not isinstance(installs, Known):
        return in_words(installs, "no toolkit") if isinstance(installs, Unknown) else "no toolkit"
    on_path = get_value(facts.toolkits.root_on_path)
    return ", ".join(_toolkit(item, on_path) for item in installs.value) or "no toolkit"


def _toolkit(item: ToolkitInstall, on_path: str | None) -> str:
    where = f"{in_words(item.version, 'unversioned')} in {item.root}"
    return f"{where} (its nvcc is on PATH)" if item.root == on_path else where


def _libraries(fact: Fact[tuple[LibraryInstall, ...]]) -> str:
    if not isinstance(fact, Known):
        return "none" if isinstance(fact, Absent) else f"unknown ({fact.why})"
    return ", ".join(f"{_library_version(item)} in {item.root}" for item in fact.value) or "none"


def _library_version(item: LibraryInstall) -> str:
    readings = (item.library_version, item.package_version, item.header_version)
    return next((fact.value for fact in readings if isinstance(fact, Known)), "unversioned")


def _compiler(facts: Facts) -> str:
    compilers = facts.compilers
    found = (("gcc", compilers.gcc_version), ("g++", compilers.gxx_version), ("clang", compilers.clang_version))
    said = [f"{name} {in_words(fact)}" for name, fact in found if not isinstance(fact, Absent)]
    return ", ".join(said) or "none"


def _python(facts: Facts) -> str:
    python = facts.python
    if not isinstance(python.executable, Known):
        return in_words(python.executable)
    kind = f" ({python.kind.value})" if isinstance(python.kind, Known) else ""
    return f"{in_words(python.version)} at {python.executable.value}{kind}"


def _frameworks(fact: Fact[tuple[FrameworkBuild, ...]]) -> str:
    if not isinstance(fact, Known):
        return "none" if isinstance(fact, Absent) else f"unknown ({fact.why})"
    return ", ".join(_framework(item) for item in fact.value) or "none"


def _framework(item: FrameworkBuild) -> str:
    cuda = get_value(item.cuda_version)
    if get_value(item.cuda_build) is False:
        return f"{item.distribution} {item.version} (CPU build)"
    return f"{item.distribution} {item.version}" + (f" (CUDA {cuda})" if cuda else "")
