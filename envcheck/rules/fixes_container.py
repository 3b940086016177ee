"""How a container gets at the GPUs: every command is for the host."""

from __future__ import annotations

from envcheck.model import Command, Fix, Known
from envcheck.rules.context import Context

_INSTALLED = "on the host, once, after installing nvidia-container-toolkit"
_YOURS = "start the container with the GPUs; IMAGE stands for yours"
_DOCKER = (
    Command(("sudo", "nvidia-ctk", "runtime", "configure", "--runtime=docker"), "system", _INSTALLED),
    Command(("sudo", "systemctl", "restart", "docker"), "system", "on the host"),
    Command(("docker", "run", "--rm", "--gpus", "all", "IMAGE"), "system", _YOURS),
)
_PODMAN = (
    Command(("sudo", "nvidia-ctk", "cdi", "generate", "--output=/etc/cdi/nvidia.yaml"), "system", _INSTALLED),
    Command(("podman", "run", "--rm", "--device", "nvidia.com/gpu=all", "IMAGE"), "system", _YOURS),
)
_APPTAINER = (Command(("apptainer", "exec", "--nv", "IMAGE", "COMMAND"), "system", "--nv brings the driver in"),)
_LXC = (
    Command(("lxc", "config", "device", "add", "CONTAINER", "gpu", "gpu"), "system", "on the host"),
    Command(("lxc", "config", "set", "CONTAINER", "nvidia.runtime", "true"), "system", "on the host"),
)
_WAYS = {"docker": _DOCKER, "podman": _PODMAN, "apptainer": _APPTAINER, "lxc": _LXC, "kubernetes": ()}
_POD = "Ask for a GPU in the pod (resources: limits: nvidia.com/gpu: 1), on a cluster with NVIDIA's device plugin."
_RUN = "Start the container with the GPUs; the host needs NVIDIA's driver and the NVIDIA Container Toolkit."


def give_to_container(context: Context, summary: str = "") -> Fix:
    """Say how to hand the GPUs to this kind of container."""
    kind = context.facts.host.container
    name = kind.value if isinstance(kind, Known) else ""
    return Fix(summary or (_POD if name == "kubernetes" else _RUN), _WAYS.get(name, _DOCKER))


def start_anew(node: str) -> Fix:
    """Say how to bring back a node that a running container lacks or lost."""
    summary = f"On the host, run nvidia-modprobe -u; then start the container anew with {node} handed in."
    return Fix(summary, (Command(("sudo", "nvidia-modprobe", "-u", "-c=0"), "system", "on the host"),))
