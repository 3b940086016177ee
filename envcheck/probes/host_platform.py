"""What kind of machine this is besides an ordinary one: WSL, Jetson, Secure Boot, a small /dev/shm."""

from __future__ import annotations

import re
from typing import Optional

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown

_TEGRA = "/etc/nv_tegra_release"
_MODEL = "/proc/device-tree/model"
_EFI = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_SHM = "/dev/shm"  # noqa: S108 - the mount point, nothing is written there
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def wsl_version(host: Host, kernel_release: str) -> Fact[int]:
    """Return 1 or 2 inside the Windows Subsystem for Linux: its kernels say Microsoft in their name.

    WSL 1: 4.4.0-19041-Microsoft    WSL 2: 5.15.90.1-microsoft-standard-WSL2
    """
    tried = ("kernel release", "WSL_DISTRO_NAME")
    if host.system != "linux":
        return Absent(tried)
    source = Source("library", "kernel_release", kernel_release)
    if "microsoft" in kernel_release.lower():
        return Known(1 if kernel_release.startswith("4.4.") and "WSL2" not in kernel_release else 2, source)
    if host.environment().get("WSL_DISTRO_NAME"):  # only WSL 2 runs a kernel of the user's own
        return Known(2, Source("env", "WSL_DISTRO_NAME"))
    return Absent(tried)


def jetson_release(host: Host, machine: str) -> Fact[str]:
    """Return the Jetson Linux release, absent on anything that is no Jetson."""
    if host.system != "linux" or machine != "aarch64":
        return Absent((_TEGRA,))
    text = host.read_text(_TEGRA)
    release = parse_tegra_release(text.value) if isinstance(text, Known) else None
    if release is not None:
        return Known(release, Source("file", _TEGRA, release))
    model = host.read_text(_MODEL)
    if isinstance(model, Known) and re.search(r"Jetson|NVIDIA (Orin|Thor)", model.value):
        return Unknown("failed", f"{model.value.strip(chr(0))} without a readable {_TEGRA}", (_TEGRA, _MODEL))
    return text if isinstance(text, Unknown) else Absent((_TEGRA, _MODEL))


def parse_tegra_release(text: str) -> Optional[str]:
    """Return the release in /etc/nv_tegra_release.

    # R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref, EABI: aarch64, DATE: Tue Aug  1 19:57:35 UTC 2023
    """
    match = re.search(r"^# R(\d+) \(release\), REVISION: ([\d.]+)", text)
    return f"R{match.group(1)}.{match.group(2)}" if match else None


def secure_boot(host: Host) -> Fact[bool]:
    """Tell whether Secure Boot is on; absent where no UEFI variable tells, as in most virtual machines."""
    if host.system != "linux":
        return Unknown("failed", "only read on Linux")
    data = host.read_bytes(_EFI, 16)
    if not isinstance(data, Known):
        return data
    if len(data.value) < 5:  # four bytes of attributes, then the value
        return Unknown("unparsable", f"{_EFI} has {len(data.value)} bytes", (_EFI,))
    return Known(data.value[4] == 1, Source("file", _EFI, f"value {data.value[4]}"))


def shm_bytes(host: Host) -> Fact[int]:
    """Return the size of /dev/shm, which bounds what data loaders can share."""
    if host.system != "linux":
        return Absent((_SHM,))
    text = host.read_text("/proc/mounts")
    return parse_shm_size(text.value) if isinstance(text, Known) else text


def parse_shm_size(mounts: str) -> Fact[int]:
    """Return the size option of the /dev/shm line of /proc/mounts; the last mount is the one in effect.

    shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k,inode64 0 0
    """
    lines = re.findall(rf"^\S+ {_SHM} \S+ (\S+).*$", mounts, re.MULTILINE)
    if not lines:
        return Absent((f"{_SHM} in /proc/mounts",))
    size = re.search(r"(?:^|,)size=(\d+)([kmg]?)(?:,|$)", lines[-1])
    if size is None:
        return Unknown("unparsable", f"no size among the options of /dev/shm: {lines[-1]}", ("/proc/mounts",))
    value = int(size.group(1)) * _UNITS[size.group(2)]
    return Known(value, Source("file", "/proc/mounts", f"{_SHM} {size.group(0).strip(',')}"))
