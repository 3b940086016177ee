"""Fixes of an installed driver: its kernel module, its nodes, its services, and how a container gets at it."""

from __future__ import annotations

import re

from envcheck.model.facts import Known
from envcheck.model.findings import Command, Fix
from envcheck.rules.context import Context
from envcheck.rules.fixes_system import (
    ARCH,
    DEBIAN,
    FEDORA,
    RELEASE,
    RHEL,
    SUSE,
    UBUNTU,
    as_root,
    distribution_family,
    install_driver,
    reboot,
)


def reload_driver(context: Context) -> Fix:
    """Say how to bring kernel module and user-space libraries to one version."""
    unload = as_root(
        context,
        "modprobe",
        "-r",
        "nvidia_uvm",
        "nvidia_drm",
        "nvidia_modeset",
        "nvidia",
        purpose="unload the old module",
    )
    load = as_root(
        context, "modprobe", "nvidia", purpose="load the new one; instead of restarting, when nothing uses the GPU"
    )
    return Fix(
        "Restart the machine; nothing needs to be installed anew. Where nothing uses the GPU, reloading the module is enough.",
        (reboot(context), unload, load),
    )


def load_module(context: Context) -> Fix:
    """Say how to load a module that is installed and not loaded."""
    load = as_root(context, "modprobe", "nvidia", purpose="load the driver; its error names the reason if that fails")
    return Fix("Load the driver's kernel module; if that fails, the last lines of dmesg tell why.", (load,))


def rebuild_module(context: Context, kernel: str) -> Fix:
    """Say how to build the driver's module for the running kernel."""
    headers = {
        UBUNTU: ("apt-get", "install", "-y", f"linux-headers-{kernel}"),
        DEBIAN: ("apt-get", "install", "-y", f"linux-headers-{kernel}"),
        FEDORA: ("dnf", "install", "-y", f"kernel-devel-{kernel}"),
        RHEL: ("dnf", "install", "-y", f"kernel-devel-{kernel}"),
    }
    commands = [
        as_root(context, "dkms", "autoinstall", purpose="build the module for the running kernel"),
        as_root(context, "modprobe", "nvidia"),
    ]
    family = distribution_family(context)
    if family in headers and re.fullmatch(r"[\w.+~-]+", kernel):
        commands.insert(0, as_root(context, *headers[family], purpose="the kernel's headers"))
    return Fix("Build the driver's module for the running kernel, then load it.", tuple(commands))


def release_from(context: Context, owner: str) -> Fix:
    """Say how to take the GPU from nouveau or vfio-pci."""
    if owner == "vfio-pci":
        return Fix(
            "The GPU is set aside for a virtual machine: use it there, or remove its id from the vfio-pci options (kernel command line, /etc/modprobe.d) and restart."
        )
    update = {
        FEDORA: ("dracut", "--force"),
        RHEL: ("dracut", "--force"),
        SUSE: ("dracut", "--force"),
        ARCH: ("mkinitcpio", "-P"),
    }.get(distribution_family(context), ("update-initramfs", "-u"))
    blocked = as_root(
        context,
        "sh",
        "-c",
        "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' > /etc/modprobe.d/blacklist-nouveau.conf",
        purpose="keep nouveau from loading",
    )
    driver = install_driver(context, None).commands
    install = tuple(command for command in driver if "reboot" not in command.argv)
    return Fix(
        "Install NVIDIA's driver and keep nouveau from loading, then restart.",
        (*install, blocked, as_root(context, *update, purpose="rebuild the start-up image"), reboot(context)),
    )


def sign_module(context: Context) -> Fix:
    """Say how to make Secure Boot accept the module."""
    enroll = as_root(
        context,
        "mokutil",
        "--import",
        "/var/lib/shim-signed/mok/MOK.der",
        purpose="enroll the key; confirm it in the blue screen at the next start",
    )
    rebuild = as_root(context, "dkms", "autoinstall", "--force", purpose="build and sign the module")
    is_debian = distribution_family(context) in (DEBIAN, UBUNTU)
    commands = (enroll, rebuild, reboot(context)) if is_debian else (reboot(context),)
    return Fix(
        "Sign the module with a key enrolled in the firmware (MOK), or turn Secure Boot off in the firmware setup, then restart.",
        commands,
    )


def give_to_container(context: Context, summary: str = "") -> Fix:
    """Say how to hand the GPUs to a container, by its kind; every command is for the host."""
    kind = context.facts.host.container
    name = kind.value if isinstance(kind, Known) else ""
    configure = (
        as_root(
            context,
            "nvidia-ctk",
            "runtime",
            "configure",
            "--runtime=docker",
            purpose="on the host, once, after installing nvidia-container-toolkit",
        ),
        as_root(context, "systemctl", "restart", "docker", purpose="on the host"),
        Command(
            ("docker", "run", "--rm", "--gpus", "all", "IMAGE"),
            "system",
            "start the container with the GPUs; IMAGE stands for yours",
        ),
    )
    ways = {
        "podman": (
            Command(
                ("podman", "run", "--rm", "--device", "nvidia.com/gpu=all", "IMAGE"),
                "system",
                "after nvidia-ctk cdi generate on the host",
            ),
        ),
        "apptainer": (
            Command(("apptainer", "exec", "--nv", "IMAGE", "COMMAND"), "system", "--nv brings the driver in"),
        ),
        "lxc": (
            Command(("lxc", "config", "device", "add", "CONTAINER", "gpu", "gpu"), "system", "on the host"),
            Command(("lxc", "config", "set", "CONTAINER", "nvidia.runtime", "true"), "system", "on the host"),
        ),
        "kubernetes": (),
    }
    text = (
        "Ask for a GPU in the pod (resources: limits: nvidia.com/gpu: 1), on a cluster with NVIDIA's device plugin."
        if name == "kubernetes"
        else ("Start the container with the GPUs; the host needs NVIDIA's driver and the NVIDIA Container Toolkit.")
    )
    return Fix(summary or text, ways.get(name, configure))


def start_fabric_manager(context: Context, release: str) -> Fix:
    """Say how to install and start the fabric manager in the driver's release."""
    branch = release.split(".")[0] if RELEASE.fullmatch(release) else ""
    family = distribution_family(context)
    commands = []
    if family in (DEBIAN, UBUNTU) and branch:
        version = f"nvidia-fabricmanager-{branch}"
        commands.append(
            as_root(context, "apt-get", "install", "-y", version, purpose="in exactly the driver's release")
        )
    if family in (RHEL, FEDORA):
        commands.append(
            as_root(
                context,
                "dnf",
                "install",
                "-y",
                f"nvidia-fabric-manager-{release}" if branch else "nvidia-fabric-manager",
            )
        )
    commands.append(
        as_root(
            context, "systemctl", "enable", "--now", "nvidia-fabricmanager", purpose="start it, now and at every start"
        )
    )
    shown = f" {release}" if branch else ""
    return Fix(f"Install the fabric manager{shown}, the same release as the driver, and start it.", tuple(commands))


def create_nodes(context: Context, uvm_only: bool) -> Fix:
    """Say how to bring the device nodes back."""
    make = as_root(context, "nvidia-modprobe", "-u", "-c=0", purpose="load nvidia-uvm and make its node")
    what = "the node /dev/nvidia-uvm" if uvm_only else "the driver's device nodes"
    return Fix(f"Create {what}.", (make,))
