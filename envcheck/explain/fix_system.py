"""Fixes of the driver and how it gets into containers: the doctor's own, for the machine as far as it is told."""

from __future__ import annotations

import re

from envcheck.explain.fix_context import context_of
from envcheck.explain.told import Told, plain
from envcheck.model import Command, Fix, replace

_TWO = Command(
    ("sh", "-c", "dpkg -l | grep -E 'nvidia-(driver|dkms|kernel)|libnvidia-compute|libcuda1'"),
    "user",
    "if it stays after a restart: two releases are installed, and one must go",
)
_LOOK = Command(
    ("lspci", "-d", "10de:"), "user", "no line: there is no GPU here; on a cluster ask for one (--gres=gpu:1)"
)
_RELEASE = Command(
    ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
    "user",
    "the release that the fabric manager must have; its package is nvidia-fabricmanager-BRANCH",
)

_SIGN = (
    Command(("mokutil", "--sb-state"), "user", "SecureBoot enabled: the module must be signed, or Secure Boot be off"),
    Command(
        ("sudo", "mokutil", "--import", "/var/lib/shim-signed/mok/MOK.der"),
        "system",
        "Ubuntu's key (Debian: /var/lib/dkms/mok.pub); choose a password, asked for at the next start",
    ),
)


def install(told: Told) -> Fix:
    """Say how to install the driver, after a look whether there is a GPU for it."""
    from envcheck.rules.fixes_system import install_driver

    fix = install_driver(context_of(told), None)
    quiet = told.system in ("windows", "darwin") or told.log.in_wsl
    changed: Fix = fix if quiet else replace(fix, commands=(_LOOK, *fix.commands))
    return changed


def reload(told: Told) -> Fix:
    """Say how to bring kernel module and libraries to one release."""
    from envcheck.rules.fixes_driver import reload_driver

    fix = reload_driver(context_of(told))
    two = any({"kernel", "dso"} <= set(event.captured) for event in told.claim.events)
    changed: Fix = replace(fix, commands=(*fix.commands, _TWO)) if two and fix.commands else fix
    return changed


def hand_in(told: Told) -> Fix:
    """Say how to hand the GPUs to the kind of container."""
    from envcheck.rules.fixes_container import give_to_container

    return give_to_container(context_of(told))


def release(told: Told) -> Fix:
    """Say how to take the GPU from the module that owns it: nouveau or vfio-pci."""
    from envcheck.rules.fixes_driver import release_from

    owner = next((event.captured["owner"] for event in told.claim.events if "owner" in event.captured), "")
    return release_from(context_of(told), "vfio-pci" if "vfio" in owner else "nouveau")


def sign(told: Told) -> Fix:
    """Say how to make Secure Boot accept the module."""
    from envcheck.rules.fixes_driver import sign_module

    fix = sign_module(context_of(told))
    changed: Fix = fix if len(fix.commands) > 1 else replace(fix, commands=(*_SIGN, *fix.commands))
    return changed


def start_fabric(told: Told) -> Fix:
    """Say how to start the fabric manager of the driver's release."""
    from envcheck.rules.fixes_driver import start_fabric_manager

    named = (re.search(r"with driver version (\d{3}(?:\.\d+){1,2})", event.text) for event in told.claim.events)
    driver = told.log.driver or next((found.group(1) for found in named if found), "")
    fix = start_fabric_manager(context_of(told), driver)
    changed: Fix = fix if len(fix.commands) > 1 else replace(fix, commands=(*_fabric(driver), *fix.commands))
    return changed


def _fabric(driver: str) -> tuple[Command, ...]:
    branch = plain(driver.partition(".")[0], r"\d{3}")
    if not branch:
        return (_RELEASE,)
    package = ("sudo", "apt-get", "install", "-y", f"nvidia-fabricmanager-{branch}")
    return (Command(package, "system", f"Debian and Ubuntu; in release {driver}, as the driver"),)
