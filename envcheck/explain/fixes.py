"""What to do about a cause that a log shows, by the builders that the doctor uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from envcheck.explain.log import Claim, Log
from envcheck.explain.signatures import remedies
from envcheck.model.findings import Command, Fix

if TYPE_CHECKING:
    from envcheck.rules.context import Context


def fix_for(log: Log, claim: Claim) -> Fix | None:
    """Return the fix of a claim: the doctor's commands for this machine where they fit any log, else a sentence."""
    if claim.id in _BUILT:
        from envcheck.rules.context import Context

        return _BUILT[claim.id](Context(log.facts, log.matrix))
    summary = remedies().get(claim.id)
    return Fix(summary, _COMMANDS.get(claim.id, ())) if summary else None


def _driver(context: Context) -> Fix:
    from envcheck.rules.fixes_system import install_driver

    return install_driver(context, None)


def _reload(context: Context) -> Fix:
    from envcheck.rules.fixes_driver import reload_driver

    return reload_driver(context)


def _container(context: Context) -> Fix:
    from envcheck.rules.fixes_container import give_to_container

    return give_to_container(context)


def _nouveau(context: Context) -> Fix:
    from envcheck.rules.fixes_driver import release_from

    return release_from(context, "nouveau")


def _sign(context: Context) -> Fix:
    from envcheck.rules.fixes_driver import sign_module

    return sign_module(context)


def _fabric(context: Context) -> Fix:
    from envcheck.rules.fixes_driver import start_fabric_manager

    return start_fabric_manager(context, "")


def _nodes(context: Context) -> Fix:
    from envcheck.rules.fixes_driver import create_nodes

    return create_nodes(context, "/dev/nvidia-uvm")


_BUILT: dict[str, Callable[[Context], Fix]] = {
    "driver-missing": _driver,
    "driver-too-old": _driver,
    "driver-library-mismatch": _reload,
    "driver-not-in-container": _container,
    "driver-nouveau": _nouveau,
    "driver-secure-boot": _sign,
    "fabric-manager": _fabric,
    "driver-device-nodes": _nodes,
}
_SMI = Command(("nvidia-smi",), "environment", "which processes hold the memory, and which driver runs")
_DOCTOR = Command(("envcheck", "doctor"), "environment", "names the release that fits this machine")
_COMMANDS: dict[str, tuple[Command, ...]] = {
    "gpu-memory-held": (_SMI,),
    "gpu-memory-exhausted": (_SMI,),
    "toolkit-missing": (_DOCTOR,),
    "toolkit-wrong-version": (_DOCTOR,),
    "cudnn-missing": (_DOCTOR,),
    "gpu-arch-too-new": (_DOCTOR,),
    "gpu-arch-too-old": (_DOCTOR,),
    "python-unsupported": (_DOCTOR,),
}
