"""System-level fixes as commands for this operating system; envcheck prints them, it never runs them."""

from __future__ import annotations

import re

from envcheck.model import Command, Fix, Known
from envcheck.rules.context import Context

DEBIAN, UBUNTU, FEDORA, RHEL, SUSE, ARCH = "debian", "ubuntu", "fedora", "rhel", "suse", "arch"
WSL, WINDOWS, MACOS, CONTAINER, JETSON, OTHER = "wsl", "windows", "macos", "container", "jetson", "other"
_IDS = {
    "debian": DEBIAN,
    "ubuntu": UBUNTU,
    "linuxmint": UBUNTU,
    "pop": UBUNTU,
    "fedora": FEDORA,
    "rhel": RHEL,
    "rocky": RHEL,
    "almalinux": RHEL,
    "centos": RHEL,
    "ol": RHEL,
    "amzn": RHEL,
    "opensuse": SUSE,
    "opensuse-leap": SUSE,
    "opensuse-tumbleweed": SUSE,
    "sles": SUSE,
    "suse": SUSE,
    "arch": ARCH,
    "manjaro": ARCH,
    "endeavouros": ARCH,
}
RELEASE = re.compile(r"\d{3,4}(\.\d+){0,2}")


def system_family(context: Context) -> str:
    """Name the family whose commands fit: a distribution's, wsl, windows, macos, container, jetson or other."""
    host = context.facts.host
    if context.os in ("windows", "darwin"):
        return WINDOWS if context.os == "windows" else MACOS
    if isinstance(host.container, Known):
        return CONTAINER
    if isinstance(host.wsl_version, Known):
        return WSL
    if isinstance(host.jetson_release, Known):
        return JETSON
    return distribution_family(context)


def distribution_family(context: Context) -> str:
    """Name the family of the Linux distribution itself, by its ID, then by what it says it is like."""
    host = context.facts.host
    names = [host.distribution_id.value] if isinstance(host.distribution_id, Known) else []
    names += host.distribution_like.value.split() if isinstance(host.distribution_like, Known) else []
    return next((_IDS[name] for name in names if name in _IDS), OTHER)


def as_root(context: Context, *argv: str, purpose: str = "") -> Command:
    """Make a system command, with sudo unless this user is root."""
    is_root = context.facts.host.is_root
    prefix = () if isinstance(is_root, Known) and is_root.value else ("sudo",)
    return Command((*prefix, *argv), "system", purpose)


def reboot(context: Context) -> Command:
    """Make the command that restarts the machine."""
    return as_root(context, "reboot", purpose="start with the new kernel module")


def install_driver(context: Context, floor: str | None, *, exact: bool = False) -> Fix:
    """Say how to get a driver of at least `floor`, a release or a branch, or `exact`ly that branch."""
    newer = "" if exact else " or newer"
    floor = floor if floor and RELEASE.fullmatch(floor) else None
    wanted = f" {floor}{newer}" if floor else ""
    family = system_family(context)
    if family in _ADVICE:
        return Fix(_ADVICE[family].format(wanted=wanted), _ADVICE_COMMANDS.get(family, ()))
    steps = _packages(context, family, floor if exact else None, wanted)
    if not steps:
        return Fix(f"Install NVIDIA driver{wanted} with your distribution's package manager, then restart.")
    note = _FROM_NVIDIA if steps[0].argv[-1] == "nvidia-open" else _NOTES.get(family, "")
    return Fix(f"Install NVIDIA driver{wanted}, then restart.{note}", (*steps, reboot(context)))


_ADVICE = {
    WINDOWS: "Install NVIDIA driver{wanted} for Windows (nvidia.com/drivers, or the NVIDIA app), then restart.",
    WSL: "Install NVIDIA driver{wanted} in Windows (nvidia.com/drivers), none inside WSL, then restart WSL.",
    MACOS: "macOS has no driver for NVIDIA GPUs: use a Linux or Windows machine.",
    CONTAINER: (
        "Install NVIDIA driver{wanted} on the host, not in the container, then start the container anew; or use an "
        "image built for an older CUDA."
    ),
    JETSON: "The driver of a Jetson comes with its system image: install a newer JetPack release.",
}
_ADVICE_COMMANDS = {
    WSL: (
        Command(("wsl.exe", "--update"), "system", "update WSL itself"),
        Command(("wsl.exe", "--shutdown"), "system", "restart WSL"),
    ),
}
_FROM_NVIDIA = " Needs NVIDIA's CUDA repository for this release; a GPU before Turing needs cuda-drivers in its place."
_NOTES = {
    DEBIAN: " Needs the components contrib, non-free and non-free-firmware in the apt sources.",
    FEDORA: " Needs the RPM Fusion nonfree repository.",
    RHEL: " Needs NVIDIA's CUDA repository for this release, and EPEL.",
    SUSE: " Needs NVIDIA's repository for this release.",
}


def _packages(context: Context, family: str, branch: str | None, wanted: str) -> tuple[Command, ...]:
    """Return the package manager's commands; only Ubuntu and NVIDIA's own repository keep old branches."""
    if family == UBUNTU:
        listed = as_root(context, "apt-get", "update", purpose="read the package lists")
        if branch:
            return (listed, as_root(context, "apt-get", "install", "-y", f"nvidia-driver-{branch}"))
        check = f"the recommended driver; check that it is{wanted}" if wanted else "the recommended driver"
        return (listed, as_root(context, "ubuntu-drivers", "install", purpose=check))
    if family == RHEL and not has_modules(context):
        return (as_root(context, "dnf", "install", "-y", "nvidia-open", purpose="install the driver"),)
    if family == RHEL:
        stream = f"nvidia-driver:{branch or 'latest'}-dkms"
        return (as_root(context, "dnf", "module", "install", "-y", stream, purpose="install the driver"),)
    packages = {} if branch else _NEWEST
    if family == DEBIAN and not branch and not _reaches(context, wanted):
        return (as_root(context, "apt-get", "install", "-y", "nvidia-open", purpose="from NVIDIA's repository"),)
    return (as_root(context, *packages[family], purpose="install the driver"),) if family in packages else ()


def has_modules(context: Context) -> bool:
    """Tell whether dnf knows modules there: RHEL 10 and its kin no longer do."""
    version = context.facts.host.distribution_version
    major = version.value.partition(".")[0] if isinstance(version, Known) else ""
    return not (major.isdigit() and 10 <= int(major) < 2000)


def _reaches(context: Context, wanted: str) -> bool:
    """Tell whether Debian's own driver is new enough; where its release is not known, it may be."""
    from envcheck.rules.packages import packages_data

    version = context.facts.host.distribution_version
    own = packages_data()["drivers"].get(version.value, "") if isinstance(version, Known) else ""
    floor = RELEASE.search(wanted)
    return not own or not floor or _numbers(own) >= _numbers(floor.group())


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


_NEWEST = {
    DEBIAN: ("apt-get", "install", "-y", "nvidia-driver", "firmware-misc-nonfree"),
    FEDORA: ("dnf", "install", "-y", "akmod-nvidia", "xorg-x11-drv-nvidia-cuda"),
    SUSE: ("zypper", "install", "-y", "nvidia-video-G06", "nvidia-compute-utils-G06"),
    ARCH: ("pacman", "-S", "--needed", "nvidia-open", "nvidia-utils"),
}
