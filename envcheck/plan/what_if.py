"""Facts of a machine as it would be after a change."""

from __future__ import annotations

from envcheck.model.facts import Absent, Known, Source
from envcheck.model.machine import Facts
from envcheck.model.records import replaced
from envcheck.plan.described import Description

LINUX = "linux_x86_64"
WHATIF = Source("override", "what if")


def in_wsl(facts: Facts) -> Description:
    """Describe the Linux that WSL 2 runs beside a Windows, for the same Python."""
    version = facts.python.version
    python = ".".join(version.value.split(".")[:2]) if isinstance(version, Known) else ""
    return Description(python=python, platform=LINUX)


def capabilities(facts: Facts) -> tuple[str, ...]:
    """List the compute capabilities that were read: 8.9."""
    gpus = facts.gpus.value if isinstance(facts.gpus, Known) else ()
    found = (gpu.compute_capability for gpu in gpus)
    return tuple(dict.fromkeys(item.value for item in found if isinstance(item, Known)))


def with_python(facts: Facts, minor: str) -> Facts:
    """Put another Python into the facts: 3.11."""
    python = replaced(facts.python, version=Known(minor, WHATIF), abi_tag=Known(f"cp{minor.replace('.', '')}", WHATIF))
    native = replaced(python, implementation=Known("cpython", WHATIF), bits=Known(64, WHATIF))
    return replaced(facts, python=replaced(native, architecture=facts.host.architecture))


def with_driver(facts: Facts, release: str) -> Facts:
    """Put another driver into the facts: 535.104.05, or a branch such as 580."""
    driver = replaced(facts.driver, release=Known(release, WHATIF), cuda_driver_version=Absent(("what if",)))
    return replaced(facts, driver=driver)


def with_libc(facts: Facts, version: str) -> Facts:
    """Put another glibc into the facts: 2.27."""
    host = replaced(facts.host, libc_kind=Known("glibc", WHATIF), libc_version=Known(version, WHATIF))
    return replaced(facts, host=host)
