"""What the host of a container needs so that the container gets at its GPUs."""

from __future__ import annotations

from envcheck.model.plans import SYSTEM, Step
from envcheck.plan.proofs import proven
from envcheck.rules.context import Context
from envcheck.rules.fixes_system import MACOS, WINDOWS, as_root, system_family
from envcheck.rules.packages import install as package

_DESKTOP = "Use Docker Desktop with its WSL 2 engine: it hands the GPUs on, given NVIDIA's driver for Windows."


def container_toolkit_steps(context: Context) -> tuple[Step, ...]:
    """Install NVIDIA's container toolkit on the host, and make Docker use it."""
    if system_family(context) in (WINDOWS, MACOS):
        return (proven(Step("container-toolkit", _DESKTOP, (), scope=SYSTEM)),)
    purpose = "Install NVIDIA's container toolkit on the host, from NVIDIA's repository."
    check = ("nvidia-ctk", "--version")
    install = package(context, "container-toolkit", purpose)
    if not install:
        return (proven(Step("container-toolkit", purpose, (), scope=SYSTEM, verify=check)),)
    configure = as_root(context, "nvidia-ctk", "runtime", "configure", "--runtime=docker")
    restart = as_root(context, "systemctl", "restart", "docker")
    steps = (
        Step("container-toolkit", purpose, install[0].argv, scope=SYSTEM, verify=check),
        Step("container-runtime", "Let Docker use it.", configure.argv, scope=SYSTEM),
        Step("container-restart", "Start Docker anew.", restart.argv, scope=SYSTEM, verify=("docker", "info")),
    )
    return tuple(map(proven, steps))
