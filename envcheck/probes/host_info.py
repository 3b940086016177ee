"""The machine below Python: operating system, C library, processor, container, configuration."""

from __future__ import annotations

from typing import Any, Mapping

from envcheck.host.protocol import Host
from envcheck.model.facts import Fact, Known, Source, Unknown
from envcheck.model.machine import HostFacts
from envcheck.probes.host_container import container_kind
from envcheck.probes.host_cpu import read_cpu
from envcheck.probes.host_environment import relevant_environment
from envcheck.probes.host_libc import glibcxx_version, read_libc
from envcheck.probes.host_msvc import msvc_runtime
from envcheck.probes.host_os import read_distribution
from envcheck.probes.host_packaging import conda_configuration, pip_configuration
from envcheck.probes.host_platform import jetson_release, secure_boot, shm_bytes, wsl_version


def collect_host(host: Host) -> HostFacts:
    """Read the host; one program is started at most (sysctl on macOS, the loader on musl)."""
    system = host.system_facts()
    distribution = read_distribution(host, system)
    libc = read_libc(host, system)
    cpu = read_cpu(host)
    return HostFacts(
        os=Known(host.system, Source("library", "sys.platform")),
        distribution_id=distribution.id,
        distribution_like=distribution.like,
        distribution_version=distribution.version,
        kernel_release=_told(system, "kernel_release"),
        architecture=_told(system, "machine"),
        libc_kind=libc.kind,
        libc_version=libc.version,
        glibcxx_version=glibcxx_version(host),
        cpu_model=cpu.model,
        cpu_flags=cpu.flags,
        memory_bytes=_told(system, "memory_bytes"),
        shm_bytes=shm_bytes(host),
        container=container_kind(host),
        wsl_version=wsl_version(host, str(system.get("kernel_release", ""))),
        jetson_release=jetson_release(host, str(system.get("machine", ""))),
        secure_boot=secure_boot(host),
        msvc_runtime=msvc_runtime(host),
        is_root=_told(system, "is_root"),
        environment=relevant_environment(host),
        pip_configuration=pip_configuration(host),
        conda_configuration=conda_configuration(host),
    )


def _told(system: Mapping[str, Any], name: str) -> Fact[Any]:
    if name in system and system[name] != "":
        return Known(system[name], Source("library", name))
    return Unknown("failed", f"this system does not tell its {name}")
