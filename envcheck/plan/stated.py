"""The driver and the GPUs a plan is for, as the ENVCHECK_* variables state them where neither can be seen."""

from __future__ import annotations

from envcheck.model.facts import Known
from envcheck.rules.context import Context

DRIVER_RELEASE = "ENVCHECK_DRIVER_RELEASE"  # as envcheck/probes/collection.py reads them
CUDA_DRIVER_VERSION = "ENVCHECK_CUDA_DRIVER_VERSION"
COMPUTE_CAPABILITIES = "ENVCHECK_COMPUTE_CAPABILITIES"


def stated_machine(context: Context) -> dict[str, str]:
    """State what is known; {} for a plan without GPUs."""
    if context.goal != "gpu":
        return {}
    driver = context.facts.driver
    stated = {DRIVER_RELEASE: _known(driver.release), CUDA_DRIVER_VERSION: _cuda(context)}
    stated[COMPUTE_CAPABILITIES] = ",".join(filter(None, (_known(gpu.compute_capability) for gpu in context.gpus)))
    return {name: value for name, value in stated.items() if value}


def _known(fact: object) -> str:
    return str(fact.value) if isinstance(fact, Known) else ""


def _cuda(context: Context) -> str:
    """Return what the driver can start: as it said, or as its release is known to."""
    release, said = _known(context.facts.driver.release), _known(context.facts.driver.cuda_driver_version)
    branch = context.matrix.driver_branch(release) if release and not said else None
    return branch.cuda if branch else said
