"""The machine a plan is for: as it was read, or as somebody describes it, in front of a new environment."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envcheck.matrix.gpus import capabilities_named
from envcheck.matrix.query import Matrix
from envcheck.model.facts import NOT_STATED, Absent, Fact, Known, Source
from envcheck.model.machine import DriverFacts, Facts, Gpu, HostFacts, PythonFacts, ToolkitFacts
from envcheck.model.records import dataclass, replaced
from envcheck.plan.readable import readable
from envcheck.plan.requests import RequestError

_SYSTEMS = {"linux": "linux", "win": "windows", "macosx": "darwin"}
_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "arm64"}
PLATFORMS = ("linux_x86_64", "linux_aarch64", "win_amd64", "macosx_x86_64", "macosx_arm64")


@dataclass(frozen=True)
class Description:
    """What somebody says of the machine; what is "" or empty is taken as it was read, or left open."""

    python: str = ""  # 3.11, or 3.14t for the free-threaded build
    driver: str = ""
    gpus: tuple[str, ...] = ()  # names or compute capabilities; "none"
    glibc: str = ""
    platform: str = ""


def check_description(described: Description) -> None:
    """Raise RequestError for what is no version, GPU or platform."""
    shapes = (
        ("--python", described.python, r"3\.\d+t?", "a minor version of Python 3 such as 3.11"),
        ("--driver", described.driver, r"\d{3,4}(\.\d+){0,2}", "a driver release such as 535.104.05"),
        ("--glibc", described.glibc, r"\d+\.\d+", "a version such as 2.31"),
    )
    for option, value, pattern, wanted in shapes:
        if value and not re.fullmatch(pattern, value, re.ASCII):
            raise RequestError(f"{option} {value[:40]!r}: give {wanted}.")
    if described.platform and described.platform not in PLATFORMS:
        raise RequestError(f"--platform {described.platform[:40]!r}: give one of {', '.join(PLATFORMS)}.")


def planned_facts(read: Facts | None, described: Description, matrix: Matrix, *, expects_gpu: bool) -> Facts:
    """Return the facts to plan with: those read, none where another platform is described, all else overridden.

    The environment itself is a new one: nothing is installed in it.
    """
    facts = _blank(described.platform) if described.platform or read is None else readable(read)
    if described.platform and not described.gpus:
        unstated = bool(described.driver) or expects_gpu
        facts = replaced(facts, gpus=NOT_STATED if unstated else Absent(("--gpu was not given",)))
    facts = replaced(facts, python=_new_environment(facts.python, described.python))
    if described.glibc:
        glibc, kind = _said("--glibc", described.glibc), _said("--glibc", "glibc")
        facts = replaced(facts, host=replaced(facts.host, libc_kind=kind, libc_version=glibc))
    if described.driver:
        facts = replaced(facts, driver=DriverFacts(release=_said("--driver", described.driver)))
    if described.gpus:
        facts = replaced(facts, gpus=_gpus(described.gpus, matrix))
    return facts


def in_an_image(facts: Facts) -> Facts:
    """Leave out what an image does not see of its host: CUDA's toolkit and libraries."""
    nothing = Absent(("an image sees none of its host",))
    seen: Facts = replaced(
        facts, toolkits=ToolkitFacts(installs=nothing), cudnn=nothing, tensorrt=nothing, nccl=nothing
    )
    return seen


def _said(option: str, value: str) -> Known[str]:
    return Known(value, Source("override", option, value))


def _blank(platform: str) -> Facts:
    system, _, machine = platform.partition("_")
    host = HostFacts(
        os=_said("--platform", _SYSTEMS.get(system, "linux")),
        architecture=_said("--platform", _MACHINES.get(machine, "x86_64")),
        libc_kind=_said("--platform", "glibc") if system == "linux" else NOT_STATED,
        container=Absent(("--platform",)),
        wsl_version=Absent(("--platform",)),
        jetson_release=Absent(("--platform",)),
    )
    nothing = Absent(("--platform",))
    return Facts(host=host, toolkits=ToolkitFacts(installs=nothing), cudnn=nothing, tensorrt=nothing, nccl=nothing)


def _new_environment(python: PythonFacts, minor: str) -> PythonFacts:
    """Describe an environment that is not there yet, of the Python that was read or of the one that is named."""
    version = _said("--python", minor.rstrip("t")) if minor else python.version
    digits = minor.replace(".", "")
    return PythonFacts(
        executable=Absent(("the planned environment",)) if minor else python.executable,
        chosen_by="option" if minor else python.chosen_by,
        version=version,
        implementation=_said("--python", "cpython") if minor else python.implementation,
        bits=Known(64, Source("override", "--python")) if minor else python.bits,
        architecture=NOT_STATED if minor else python.architecture,
        abi_tag=_said("--python", f"cp{digits}") if minor else python.abi_tag,
        kind=Known("venv", Source("override", "the planned environment")),
        pip_version=NOT_STATED,
        distributions=Known((), Source("override", "the planned environment")),
        frameworks=Known((), Source("override", "the planned environment")),
        extensions=Known((), Source("override", "the planned environment")),
    )


def _gpus(named: Iterable[str], matrix: Matrix) -> Fact[tuple[Gpu, ...]]:
    names = [name.strip() for name in named]
    if [name.lower() for name in names] == ["none"]:
        return Absent(("--gpu none",))
    gpus = tuple(_gpu(name, matrix) for name in names)
    return Known(gpus, Source("override", "--gpu", ", ".join(names)))


def _gpu(name: str, matrix: Matrix) -> Gpu:
    if matrix.architecture(name):
        return Gpu(compute_capability=_said("--gpu", name))
    found = capabilities_named(name)
    if not found:
        raise RequestError(f"--gpu {name[:40]!r}: no such GPU is known; give its compute capability, such as 8.9.")
    if len(found) > 1:
        raise RequestError(
            f"--gpu {name[:40]!r} stands for compute capability {' and '.join(found)}: give one of them."
        )
    return Gpu(name=_said("--gpu", name), compute_capability=_said("--gpu", found[0]))
