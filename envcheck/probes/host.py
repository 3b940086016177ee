"""Read the machine below Python: operating system, C library, processor, container and platform."""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Optional, Tuple

from envcheck.host.known_variables import keep_known_variables
from envcheck.host.paths import or_unmounted
from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, HostFacts, Known, Source, Unknown, from_file
from envcheck.probes.container import detect_container
from envcheck.probes.cpu import read_cpu
from envcheck.probes.package_managers import read_conda_configuration, read_pip_configuration
from envcheck.probes.system_libraries import find_msvc_runtime, read_glibcxx_version, read_libc


def collect_host(host: Host) -> HostFacts:
    """Read the host; starts one program at most (sysctl on macOS, the loader on musl)."""
    system = host.system_facts()
    distribution_id, distribution_like, distribution_version = read_distribution(host, system)
    libc_kind, libc_version = read_libc(host, system)
    cpu_model, cpu_flags = read_cpu(host)
    return HostFacts(
        os=Known(host.system, Source("library", "sys.platform")),
        distribution_id=distribution_id,
        distribution_like=distribution_like,
        distribution_version=distribution_version,
        kernel_release=_make_system_fact(system, "kernel_release"),
        architecture=_make_system_fact(system, "machine"),
        libc_kind=libc_kind,
        libc_version=libc_version,
        glibcxx_version=read_glibcxx_version(host),
        cpu_model=cpu_model,
        cpu_flags=cpu_flags,
        memory_bytes=_make_system_fact(system, "memory_bytes"),
        shm_bytes=read_shm_size(host),
        container=detect_container(host),
        wsl_version=detect_wsl(host, str(system.get("kernel_release", ""))),
        jetson_release=read_jetson_release(host, str(system.get("machine", ""))),
        secure_boot=read_secure_boot(host),
        msvc_runtime=find_msvc_runtime(host),
        is_root=_make_system_fact(system, "is_root"),
        environment=read_environment(host),
        pip_configuration=read_pip_configuration(host),
        conda_configuration=read_conda_configuration(host),
    )


def _make_system_fact(system: Mapping[str, Any], name: str) -> Fact[Any]:
    if name in system and system[name] != "":
        return Known(system[name], Source("library", name))
    return Unknown("failed", f"this system does not report its {name}")


def read_environment(host: Host) -> Fact[Mapping[str, str]]:
    """Return the known variables of this process."""
    return Known(keep_known_variables(host.environment()), Source("env", "environment"))


_RELEASE_FILES = ("/etc/os-release", "/usr/lib/os-release")


def read_distribution(
    host: Host, system: Mapping[str, Any]
) -> Tuple[Fact[str], Fact[str], Fact[str]]:
    """Return ID, ID_LIKE and VERSION_ID of os-release; elsewhere only the version of the system."""
    if host.system != "linux":
        none, version = Absent(_RELEASE_FILES), str(system.get("version", ""))
        return (
            none,
            none,
            Known(version, Source("library", "version")) if version else Absent(("version",)),
        )
    unread: Fact[str] = Absent(_RELEASE_FILES)
    for path in _RELEASE_FILES:
        text = host.read_text(path)
        values = parse_os_release(text.value) if isinstance(text, Known) else {}
        if "ID" in values:
            return (
                _make_release_fact(path, values, "ID"),
                _make_release_fact(path, values, "ID_LIKE"),
                _make_release_fact(path, values, "VERSION_ID"),
            )
        if isinstance(text, Known):
            unread = Unknown("unparsable", f"{path} has no ID line", (path,))
        elif isinstance(text, Unknown):
            unread = text
    return unread, unread, unread


def parse_os_release(text: str) -> Dict[str, str]:
    """Parse the variables of an os-release file, without quotes.

    NAME="Debian GNU/Linux"
    VERSION_ID="12"
    ID=debian
    """
    pairs = re.findall(r"^([A-Z][A-Z0-9_]*)=(.*)$", text, re.MULTILINE)
    return {name: value.strip().strip("\"'") for name, value in pairs}


def _make_release_fact(path: str, values: Mapping[str, str], key: str) -> Fact[str]:
    if not values.get(key):
        # Debian has no ID_LIKE, a rolling release no VERSION_ID
        return Absent((f"{key} in {path}",))
    return from_file(values[key], path, f"{key}={values[key]}")


_TEGRA = "/etc/nv_tegra_release"
_MODEL = "/proc/device-tree/model"
_EFI = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_SHM = "/dev/shm"  # noqa: S108 - the mount point, nothing is written there
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def detect_wsl(host: Host, kernel_release: str) -> Fact[int]:
    """Return 1 or 2 inside the Windows Subsystem for Linux, whose kernel names contain Microsoft.

    WSL 1: 4.4.0-19041-Microsoft    WSL 2: 5.15.90.1-microsoft-standard-WSL2
    """
    tried = ("kernel release", "WSL_DISTRO_NAME")
    if host.system != "linux":
        return Absent(tried)
    source = Source("library", "kernel_release", kernel_release)
    if "microsoft" in kernel_release.lower():
        return Known(
            1 if kernel_release.startswith("4.4.") and "WSL2" not in kernel_release else 2, source
        )
    if host.environment().get("WSL_DISTRO_NAME"):  # only WSL 2 runs the user's own kernel
        return Known(2, Source("env", "WSL_DISTRO_NAME"))
    return Absent(tried)


def read_jetson_release(host: Host, machine: str) -> Fact[str]:
    """Return the Jetson Linux release, absent on any other machine."""
    if host.system != "linux" or machine != "aarch64":
        return Absent((_TEGRA,))
    text = host.read_text(_TEGRA)
    release = None
    if isinstance(text, Known):
        release = parse_tegra_release(text.value)
    if release is not None:
        return from_file(release, _TEGRA, release)
    model = host.read_text(_MODEL).value or ""
    if re.search(r"Jetson|NVIDIA (Orin|Thor)", model):
        return Unknown(
            "failed", f"{model.strip(chr(0))} without a readable {_TEGRA}", (_TEGRA, _MODEL)
        )
    if isinstance(text, Unknown):
        return text
    return or_unmounted(host, Absent((_TEGRA, _MODEL)), "/proc")


def parse_tegra_release(text: str) -> Optional[str]:
    """Parse the release in /etc/nv_tegra_release.

    # R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref, EABI: aarch64, DATE: Tue Aug  1
    19:57:35 UTC 2023
    """
    match = re.search(r"^# R(\d+) \(release\), REVISION: ([\d.]+)", text)
    return f"R{match.group(1)}.{match.group(2)}" if match else None


def read_secure_boot(host: Host) -> Fact[bool]:
    """Return whether Secure Boot is on.

    Absent without a UEFI variable, as in most virtual machines.
    """
    if host.system != "linux":
        return Unknown("failed", "envcheck reads it only on Linux")
    data = host.read_bytes(_EFI, 16)
    if not isinstance(data, Known):
        return or_unmounted(host, data, "/sys")
    if len(data.value) < 5:  # four bytes of attributes, then the value
        return Unknown("unparsable", f"{_EFI} has {len(data.value)} bytes", (_EFI,))
    return from_file(data.value[4] == 1, _EFI, f"value {data.value[4]}")


def read_shm_size(host: Host) -> Fact[int]:
    """Return the size of /dev/shm, which limits what data loaders can share."""
    if host.system != "linux":
        return Absent((_SHM,))
    text = host.read_text("/proc/mounts")
    if isinstance(text, Unknown):
        return text
    if text.value is None or not text.value.strip():  # every Linux has mounts
        return Unknown("failed", "/proc/mounts is missing or empty", ("/proc/mounts",))
    return parse_shm_size(text.value)


def parse_shm_size(mounts: str) -> Fact[int]:
    """Parse the size option of the /dev/shm line of /proc/mounts; the last mount is in effect.

    shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k,inode64 0 0
    """
    lines = re.findall(rf"^\S+ {_SHM} \S+ (\S+).*$", mounts, re.MULTILINE)
    if not lines:
        return Absent((f"{_SHM} in /proc/mounts",))
    size = re.search(r"(?:^|,)size=(\d+)([kmg]?)(?:,|$)", lines[-1])
    if size is None:
        return Unknown(
            "unparsable", f"the options of /dev/shm contain no size: {lines[-1]}", ("/proc/mounts",)
        )
    value = int(size.group(1)) * _UNITS[size.group(2)]
    return from_file(value, "/proc/mounts", f"{_SHM} {size.group(0).strip(',')}")
