"""Do CUDA_VISIBLE_DEVICES or NVIDIA_VISIBLE_DEVICES hide the GPUs?"""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    Absent,
    Finding,
    Known,
    Problem,
    Unknown,
)
from envcheck.rules.context import Context
from envcheck.rules.driver_container import gpu_nodes, hidden_by_runtime, wants_gpu, was_given_gpus
from envcheck.rules.gpu_choice import numbered_gpus, visible_selection
from envcheck.rules.gpu_facts import gpu_name
from envcheck.rules.registry import rule

_ID = "visible-devices-hidden"
_VARIABLE = "CUDA_VISIBLE_DEVICES"


@rule(_ID)
def cuda_visible_devices(context: Context) -> Iterator[Finding]:
    """Say which GPUs CUDA_VISIBLE_DEVICES leaves: none is an error, some a note."""
    environment = context.need(context.facts.host.environment, "host.environment") or {}
    if _VARIABLE not in environment:
        return
    value = environment[_VARIABLE]
    context.need(context.facts.gpus, "gpus")
    gpus = numbered_gpus(context)
    if not gpus:
        return
    chosen = visible_selection(value, gpus)
    if not chosen.decided:
        yield _finding(
            context, UNDETERMINED, ERROR, f"Which GPUs {_VARIABLE}={value!r} leaves visible is not known: {chosen.why}."
        )
    elif not chosen.visible:
        yield _finding(
            context, INCOMPATIBLE, ERROR, f"{_VARIABLE}={value!r} hides every GPU of this machine: {chosen.why}."
        )
    elif len(chosen.visible) < len(gpus):
        hidden = len(gpus) - len(chosen.visible)
        why = f" ({chosen.why})" if chosen.why else ""
        yield _finding(context, COMPATIBLE, NOTE, f"{_VARIABLE}={value!r} hides {hidden} of {len(gpus)} GPUs{why}.")


def _finding(context: Context, verdict: str, severity: str, message: str) -> Finding:
    names = ", ".join(gpu_name(gpu) for gpu in context.gpus)
    value = context.environment.get(_VARIABLE, "")
    evidence = (
        context.seen(f"host.environment {_VARIABLE}", context.facts.host.environment, repr(value)),
        context.seen("gpus", shown=names),
    )
    if severity == NOTE:
        return Finding(_ID, verdict, severity, message, evidence)
    return Finding(_ID, verdict, severity, message, evidence, problem=Problem(("variable",)))


@rule(_ID, goal="any")
def nvidia_visible_devices(context: Context) -> Iterator[Finding]:
    """Report a container whose NVIDIA_VISIBLE_DEVICES tells its runtime to hand in no GPU."""
    if not isinstance(context.facts.host.container, Known) or context.target.expect == "cpu":
        return
    value = context.environment.get("NVIDIA_VISIBLE_DEVICES")
    if value is None or not hidden_by_runtime(context):
        return
    if isinstance(context.facts.gpus, Absent) and context.target.expect != "gpu":
        return
    # Other ways of handing GPUs in leave the variable at "void": only without any sign of them it counts.
    unread = isinstance(context.facts.driver.device_nodes, Unknown)
    if not (was_given_gpus(context) if unread else gpu_nodes(context)):
        yield _told_to_hide(context, value)


def _told_to_hide(context: Context, value: str) -> Finding:
    wants = wants_gpu(context)
    message = f"NVIDIA_VISIBLE_DEVICES={value!r} tells the container runtime to hand in no GPU."
    name = "host.environment NVIDIA_VISIBLE_DEVICES"
    evidence = (
        context.seen(name, context.facts.host.environment, repr(value)),
        context.seen("driver.device_nodes"),
    )
    if wants is None:
        return Finding(_ID, COMPATIBLE, NOTE, message + " Nothing here asks for one.", evidence)
    return Finding(_ID, INCOMPATIBLE, ERROR, message, (*evidence, wants), problem=Problem(("container",)))
