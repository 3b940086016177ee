"""A machine that somebody describes, in place of one that was read or beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from envcheck.matrix.gpus import find_capabilities
from envcheck.matrix.query import Matrix
from envcheck.model import (
    NOT_STATED,
    Absent,
    DriverFacts,
    Fact,
    Facts,
    Gpu,
    HostFacts,
    Known,
    PythonFacts,
    RequestError,
    Source,
    ToolkitFacts,
    Unknown,
    dataclass,
    major_minor,
    replace,
)
from envcheck.rules.gpu_releases import other_vendors

_MINOR = r"\d+\.\d+"


_PYTHON = rf"{_MINOR}[\w.+]*"  # 3.11.7, 3.15.0a1+


_NUMBERS = r"\d+(\.\d+)*"


def readable(facts: Facts) -> Facts:
    """Take what should be a version and is none for a fact that could not be read."""
    host, driver, gpus = facts.host, facts.driver, facts.gpus
    if isinstance(gpus, Known):
        numbered = tuple(
            replace(gpu, compute_capability=_check_version(gpu.compute_capability, _MINOR))
            for gpu in gpus.value
        )
        gpus = replace(gpus, value=numbered)
    return replace(
        facts,
        host=replace(host, libc_version=_check_version(host.libc_version, _NUMBERS)),
        driver=replace(
            driver,
            release=_check_version(driver.release, _NUMBERS),
            cuda_driver_version=_check_version(driver.cuda_driver_version, _MINOR),
        ),
        python=replace(facts.python, version=_check_version(facts.python.version, _PYTHON)),
        gpus=gpus,
    )


def _check_version(fact: Fact[str], pattern: str) -> Fact[str]:
    if not isinstance(fact, Known) or re.fullmatch(pattern, fact.value, re.ASCII):
        return fact
    return Unknown("unparsable", f"{fact.value[:40]!r} is no version")


_SYSTEMS = {"linux": "linux", "win": "windows", "macosx": "darwin"}


_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "arm64"}


PLATFORMS = ("linux_x86_64", "linux_aarch64", "win_amd64", "macosx_x86_64", "macosx_arm64")


@dataclass
class Description:
    """What somebody says of the machine.

    What is "" or empty is taken as it was read, or left open.
    """

    python: str = ""  # 3.11, or 3.14t for the free-threaded build
    driver: str = ""
    gpus: tuple[str, ...] = ()  # names or compute capabilities; "none"
    glibc: str = ""
    platform: str = ""
    distribution: str = ""  # its name and release: debian 12


def check_description(description: Description) -> None:
    """Raise RequestError for what is no version, GPU or platform."""
    python, driver, glibc = description.python, description.driver, description.glibc
    if python and not re.fullmatch(r"3\.\d+t?", python, re.ASCII):
        raise RequestError(
            f"--python {python[:40]!r}: give a minor version of Python 3 such as 3.11."
        )
    if driver and not re.fullmatch(r"\d{3,4}(\.\d+){0,2}", driver, re.ASCII):
        raise RequestError(f"--driver {driver[:40]!r}: give a driver release such as 535.104.05.")
    if glibc and not re.fullmatch(r"\d+\.\d+", glibc, re.ASCII):
        raise RequestError(f"--glibc {glibc[:40]!r}: give a version such as 2.31.")
    if description.platform and description.platform not in PLATFORMS:
        raise RequestError(
            f"--platform {description.platform[:40]!r}: give one of {', '.join(PLATFORMS)}."
        )


def driver_facts(base: Facts | None, description: Description, matrix: Matrix) -> Facts:
    """Return the facts to plan a driver with: this machine's, or those of a described one.

    A described machine has no driver: what it has to be is asked for.
    """
    if description.platform or description.distribution or base is None:
        facts = _make_blank(description.platform)
        nothing = Absent(("--os or --platform describes the machine",))
        names = ("release", "kernel_module_version", "module_file", "dkms")
        facts = replace(facts, driver=DriverFacts(**dict.fromkeys(names, nothing)))
    else:
        facts = readable(base)
    if description.distribution:
        found = re.fullmatch(r"([a-z][a-z-]*[a-z])[ :-]?([\d.]*)", description.distribution.lower())
        if found is None:
            shown = description.distribution[:40]
            raise RequestError(
                f"--os {shown!r}: name a distribution and its release, as debian 12."
            )
        name, version = (_state("--os", text) for text in found.groups())
        host = replace(facts.host, distribution_id=name)
        if version.value:
            host = replace(host, distribution_version=version)
        facts = replace(facts, host=host)
    if description.gpus:
        facts = replace(facts, gpus=_read_gpus(description.gpus, matrix))
    return facts


def planned_facts(
    base: Facts | None, description: Description, matrix: Matrix, *, expects_gpu: bool
) -> Facts:
    """Return the facts to plan with.

    Those read, none where another platform is described, all else overridden.

    The environment itself is a new one: nothing is installed in it.
    """
    if description.platform or base is None:
        facts = _make_blank(description.platform)
    else:
        facts = readable(base)
    if description.platform and not description.gpus:
        is_unstated = bool(description.driver) or expects_gpu
        facts = replace(facts, gpus=NOT_STATED if is_unstated else Absent(("--gpu was not given",)))
    facts = replace(facts, python=_new_environment(facts.python, description.python))
    if description.glibc:
        glibc = _state("--glibc", description.glibc)
        kind = _state("--glibc", "glibc")
        facts = replace(facts, host=replace(facts.host, libc_kind=kind, libc_version=glibc))
    return with_hardware(facts, description, matrix)


def with_hardware(facts: Facts, description: Description, matrix: Matrix) -> Facts:
    """Return the facts with the driver and the GPUs that are described."""
    if description.driver:
        windows = facts.host.os.value == "windows"
        facts = replace(
            facts,
            driver=DriverFacts(release=_read_driver(description.driver, matrix, windows=windows)),
        )
    if description.gpus:
        facts = replace(facts, gpus=_read_gpus(description.gpus, matrix))
    return facts


def in_an_image(facts: Facts) -> Facts:
    """Leave out what an image does not see of its host: CUDA's toolkit and libraries."""
    nothing = Absent(("an image sees none of its host",))
    return replace(
        facts,
        toolkits=ToolkitFacts(installs=nothing),
        cudnn=nothing,
        tensorrt=nothing,
        nccl=nothing,
    )


def _state(option: str, value: str) -> Known[str]:
    return Known(value, Source("override", option, value))


def _read_driver(release: str, matrix: Matrix, *, windows: bool) -> Known[str]:
    """Read a driver release; a bare branch is read as its newest known release."""
    newest = ""
    if release.isdigit():
        newest = matrix.newest_driver(release, windows=windows)
    return Known(newest or release, Source("override", "--driver", release))


def _make_blank(platform: str) -> Facts:
    system, _, machine = platform.partition("_")
    host = HostFacts(
        os=_state("--platform", _SYSTEMS.get(system, "linux")),
        architecture=_state("--platform", _MACHINES.get(machine, "x86_64")),
        libc_kind=_state("--platform", "glibc") if system == "linux" else NOT_STATED,
        container=Absent(("--platform",)),
        wsl_version=Absent(("--platform",)),
        jetson_release=Absent(("--platform",)),
    )
    nothing = Absent(("--platform",))
    return Facts(
        host=host,
        toolkits=ToolkitFacts(installs=nothing),
        cudnn=nothing,
        tensorrt=nothing,
        nccl=nothing,
    )


def _new_environment(python: PythonFacts, minor: str) -> PythonFacts:
    """Describe an environment that is not there yet, of this Python or a named one."""
    planned = Source("override", "the planned environment")
    new = PythonFacts(
        executable=python.executable,
        chosen_by=python.chosen_by,
        version=python.version,
        implementation=python.implementation,
        bits=python.bits,
        architecture=python.architecture,
        abi_tag=python.abi_tag,
        kind=Known("venv", planned),
        pip_version=NOT_STATED,
        distributions=Known((), planned),
        frameworks=Known((), planned),
        extensions=Known((), planned),
    )
    if not minor:
        return new
    return replace(
        new,
        executable=Absent(("the planned environment",)),
        chosen_by="option",
        version=_state("--python", minor.rstrip("t")),
        implementation=_state("--python", "cpython"),
        bits=Known(64, Source("override", "--python")),
        architecture=NOT_STATED,
        abi_tag=_state("--python", f"cp{minor.replace('.', '')}"),
    )


def _read_gpus(gpu_names: Iterable[str], matrix: Matrix) -> Fact[tuple[Gpu, ...]]:
    names = [name.strip() for name in gpu_names]
    if [name.lower() for name in names] == ["none"]:
        return Absent(("--gpu none",))
    gpus = tuple(read_gpu(name, matrix) for name in names)
    return Known(gpus, Source("override", "--gpu", ", ".join(names)))


def read_gpu(name: str, matrix: Matrix) -> Gpu:
    """Read a compute capability, or the name of a product that has one; raises RequestError."""
    if matrix.architecture(name):
        return Gpu(compute_capability=_state("--gpu", name))
    if re.fullmatch(_MINOR, name):
        known = ", ".join(row.compute_capability for row in matrix.architectures())
        raise RequestError(f"--gpu {name}: unknown compute capability. The matrix has {known}.")
    capabilities = find_capabilities(name)
    vendor = vendor_of_name(name)
    if not capabilities and vendor:
        raise OtherVendorError(f"--gpu {name[:40]!r}: {describe_unknown_gpu(name)}.", vendor, name)
    if not capabilities:
        raise RequestError(f"--gpu {name[:40]!r}: {describe_unknown_gpu(name)}.")
    if len(capabilities) > 1:
        meant = name_architectures(capabilities, matrix)
        raise RequestError(f"--gpu {name[:40]!r} stands for {meant}: give one of them.")
    return Gpu(name=_state("--gpu", name), compute_capability=_state("--gpu", capabilities[0]))


class OtherVendorError(RequestError):
    """A described GPU is one of a vendor whose GPUs are not judged."""

    def __init__(self, message: str, vendor: str, gpu: str) -> None:
        """Take the key of the vendor in data/other_gpus.json, and the name of the GPU."""
        super().__init__(message)
        self.vendor, self.gpu = vendor, gpu


def vendor_of_name(name: str) -> str:
    """Return the key of the vendor that is known for GPUs of a name: amd; "" for none."""
    items = other_vendors().items()
    return next((key for key, item in items if re.search(item.names, name, re.IGNORECASE)), "")


def describe_unknown_gpu(name: str) -> str:
    """Say of a name that no NVIDIA GPU has whose it is, or what to give instead."""
    vendor = vendor_of_name(name)
    if vendor:
        title = other_vendors()[vendor].title
        return (
            f"a GPU by {title}; envcheck judges and plans"
            " for NVIDIA GPUs and CPUs (--gpu none) only"
        )
    return "no such GPU is known; give its compute capability"


def name_architectures(capabilities: Sequence[str], matrix: Matrix) -> str:
    """Name the architectures that one product name may stand for.

    Compute capability 3.0 (Kepler) or 5.0 (Maxwell).
    """
    rows = [(number, matrix.architecture(number)) for number in capabilities]
    *first, last = (f"{number} ({row.name})" if row else number for number, row in rows)
    return "compute capability " + (", ".join(first) + " or " if first else "") + last


LINUX = "linux_x86_64"


WHATIF = Source("override", "what if")


def in_wsl(facts: Facts) -> Description:
    """Describe the Linux that WSL 2 runs beside a Windows, for the same Python."""
    version = facts.python.version.value
    python = major_minor(version) if version else ""
    return Description(python=python, platform=LINUX)


def capabilities(facts: Facts) -> tuple[str, ...]:
    """List the compute capabilities that were read: 8.9."""
    gpus = facts.gpus.value or ()
    values = (gpu.compute_capability for gpu in gpus)
    return tuple(dict.fromkeys(item.value for item in values if item.value is not None))
