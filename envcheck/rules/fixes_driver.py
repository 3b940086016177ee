"""Fixes of an installed driver: its kernel module, its nodes, its services, and how a container gets at it."""

from __future__ import annotations

import re

from envcheck.model import Command, Fix, Known, Way
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
from envcheck.rules.packages import install


def reload_driver(context: Context) -> Fix:
    """Say how to bring kernel module and user-space libraries to one version."""
    if isinstance(context.facts.host.container, Known):
        return Fix("Restart the host, or reload its driver there, then start the container anew; install nothing.")
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
    load = as_root(context, "modprobe", "nvidia", purpose="load the new one")
    restart = Way("Restart the machine, where something uses the GPU.", (reboot(context),))
    return Fix("Reload the driver's module; nothing needs to be installed anew.", (unload, load), (restart,))


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
            "The GPU is set aside for a virtual machine: use it there, or remove its id from the vfio-pci "
            "options (kernel command line, /etc/modprobe.d) and restart."
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
    bring = tuple(command for command in driver if "reboot" not in command.argv)
    return Fix(
        "Install NVIDIA's driver and keep nouveau from loading, then restart.",
        (*bring, blocked, as_root(context, *update, purpose="rebuild the start-up image"), reboot(context)),
    )


_KEYS = {UBUNTU: "/var/lib/shim-signed/mok/MOK.der", DEBIAN: "/var/lib/dkms/mok.pub"}  # DKMS signs with it
_MOK = "the firmware's own list of keys (MOK)"


def other_module(context: Context, kind: str) -> Fix:
    """Say how to get the driver with the kernel modules of a kind: open, proprietary."""
    steps = install(context, f"driver-{kind}", f"the driver with the {kind} kernel modules, from NVIDIA's repository")
    summary = f"Install the driver's package with the {kind} kernel module, then restart."
    return Fix(summary, (*steps, reboot(context)) if steps else ())


def sign_module(context: Context) -> Fix:
    """Say how to make Secure Boot accept the module."""
    key = _KEYS.get(distribution_family(context))
    steps: list[Command] = []
    if key:
        rebuild = as_root(context, "dkms", "autoinstall", "--force", purpose="build and sign the module")
        asks = "choose a password; the blue screen at the next start asks for it"
        steps = [rebuild, as_root(context, "mokutil", "--import", key, purpose=asks)]
    off = Way("Turn Secure Boot off in the firmware setup, which the machine shows at its start.")
    return Fix(f"Sign the module with a key enrolled in {_MOK}, then restart.", (*steps, reboot(context)), (off,))


def start_fabric_manager(context: Context, release: str) -> Fix:
    """Say how to install and start the fabric manager in the driver's release."""
    branch = release.partition(".")[0] if RELEASE.fullmatch(release) else ""
    family = distribution_family(context)
    commands = []
    if family in (DEBIAN, UBUNTU) and branch:
        commands.append(as_root(context, "apt-get", "install", "-y", f"nvidia-fabricmanager-{branch}"))
    if family in (RHEL, FEDORA) and branch:
        commands.append(as_root(context, "dnf", "install", "-y", f"nvidia-fabric-manager-{release}"))
    now = as_root(context, "systemctl", "enable", "--now", "nvidia-fabricmanager", purpose="now and at every start")
    commands.append(now)
    shown = f" {release}" if branch else ""
    return Fix(f"Install the fabric manager{shown}, the same release as the driver, and start it.", tuple(commands))


def create_nodes(context: Context, node: str) -> Fix:
    """Say how to bring a device node back."""
    make = as_root(context, "nvidia-modprobe", "-u", "-c=0", purpose="load nvidia-uvm and make its node")
    return Fix(f"Create the node {node}.", (make,))


def reload_uvm(context: Context) -> Fix:
    """Say how to start the driver's memory module anew, as after a suspend."""
    unload = as_root(
        context, "modprobe", "-r", "nvidia_uvm", purpose="fails while a program uses the GPU: end it first"
    )
    load = as_root(context, "modprobe", "nvidia_uvm", purpose="load it again")
    return Fix(
        "Reload the driver's memory module nvidia-uvm; it is left in a bad state by some suspends.",
        (unload, load),
        (Way("Restart the machine, where that does not help.", (reboot(context),)),),
    )
