"""What the host of a container needs so that the container gets at its GPUs."""

from __future__ import annotations

from envcheck.model.plans import SYSTEM, Step
from envcheck.rules.context import Context
from envcheck.rules.fixes_system import (
    ARCH,
    DEBIAN,
    FEDORA,
    MACOS,
    RHEL,
    SUSE,
    UBUNTU,
    WINDOWS,
    as_root,
    distribution_family,
    system_family,
)

_PACKAGE = "nvidia-container-toolkit"
_INSTALL = {
    DEBIAN: ("apt-get", "install", "-y", _PACKAGE),
    UBUNTU: ("apt-get", "install", "-y", _PACKAGE),
    FEDORA: ("dnf", "install", "-y", _PACKAGE),
    RHEL: ("dnf", "install", "-y", _PACKAGE),
    SUSE: ("zypper", "install", "-y", _PACKAGE),
    ARCH: ("pacman", "-S", "--needed", _PACKAGE),
}
_DESKTOP = "Use Docker Desktop with its WSL 2 engine: it hands the GPUs on, given NVIDIA's driver for Windows."


def container_toolkit_steps(context: Context) -> tuple[Step, ...]:
    """Install NVIDIA's container toolkit on the host, and make Docker use it."""
    if system_family(context) in (WINDOWS, MACOS):
        return (Step("container-toolkit", _DESKTOP, (), scope=SYSTEM),)
    install = _INSTALL.get(distribution_family(context))
    purpose = "Install NVIDIA's container toolkit on the host, from NVIDIA's repository."
    check = ("nvidia-ctk", "--version")
    if install is None:
        return (Step("container-toolkit", purpose, (), scope=SYSTEM, verify=check),)
    configure = as_root(context, "nvidia-ctk", "runtime", "configure", "--runtime=docker")
    restart = as_root(context, "systemctl", "restart", "docker")
    return (
        Step("container-toolkit", purpose, as_root(context, *install).argv, scope=SYSTEM, verify=check),
        Step("container-runtime", "Let Docker use it.", configure.argv, scope=SYSTEM),
        Step("container-restart", "Start Docker anew.", restart.argv, scope=SYSTEM, verify=("docker", "info")),
    )
