"""What to do about a cause that a log shows: for this very message, else built from what is told, else in general."""

from __future__ import annotations

from importlib import import_module

from envcheck.explain.log import Claim, Log
from envcheck.explain.remedies import special_remedy, usual_remedy
from envcheck.explain.told import Told
from envcheck.model import Fix, Way, replace

# Where a fix of a cause is built from the log and the matrix: imported when that cause is found.
_BUILDERS = {
    "cpu-missing-avx": "fix_plan.without_avx",
    "cuda-wheel-conflict": "fix_python.one_cuda_major",
    "cudnn-missing": "fix_cudnn.fitting_cudnn",
    "cudnn-shadowed": "fix_paths.without_other_copies",
    "cudnn-too-new": "fix_cudnn.fitting_cudnn",
    "cudnn-too-old": "fix_cudnn.fitting_cudnn",
    "cudnn-wrong-major": "fix_cudnn.fitting_cudnn",
    "driver-library-mismatch": "fix_system.reload",
    "driver-missing": "fix_system.install",
    "driver-not-in-container": "fix_system.hand_in",
    "driver-nouveau": "fix_system.release",
    "driver-secure-boot": "fix_system.sign",
    "driver-too-old": "fix_cuda.newer_driver",
    "fabric-manager": "fix_system.start_fabric",
    "framework-cpu-build": "fix_plan.cuda_build",
    "framework-cuda-extra-missing": "fix_plan.with_extra",
    "framework-missing": "fix_python.missing_framework",
    "framework-package-removed": "fix_python.replacement",
    "glibc-too-old": "fix_python.other_glibc",
    "gpu-arch-too-new": "fix_plan.newer_build",
    "gpu-arch-too-old": "fix_plan.older_build",
    "host-compiler-too-new": "fix_compiler.older_compiler",
    "keras-mismatch": "fix_python.legacy_keras",
    "numpy-abi": "fix_python.named_numpy",
    "platform-no-gpu-wheel": "fix_plan.other_platform",
    "protobuf-conflict": "fix_python.named_protobuf",
    "ptxas-problem": "fix_compiler.newer_ptxas",
    "python-unsupported": "fix_python.other_python",
    "tensorrt-missing": "fix_python.named_tensorrt",
    "toolkit-missing": "fix_cuda.fitting_toolkit",
    "toolkit-path-conflict": "fix_paths.without_other_copies",
    "toolkit-wrong-version": "fix_cuda.fitting_toolkit",
}

# What the release of the log names goes before what a message says.
_BY_RELEASE = {"keras-mismatch", "protobuf-conflict", "tensorrt-missing"}


def fix_for(log: Log, claim: Claim) -> Fix | None:
    """Return the fix of a claim, made of what the log tells and the matrix knows."""
    told = Told(log, claim)
    if claim.id in _BY_RELEASE:
        return _built(told) or special_remedy(told) or usual_remedy(told)
    return special_remedy(told) or _built(told) or usual_remedy(told)


def joined_fix(ruled: Fix | None, own: Fix | None) -> Fix | None:
    """Return the doctor's fix; where it names no command, with those that the log gives.

    The line that plans for the machine as the log describes it stays in any case, as another way.
    """
    if ruled is None or own is None:
        return ruled or own
    if ruled.commands:
        planned = tuple(item for item in own.commands if item.argv[:2] == ("envcheck", "plan") and len(item.argv) > 3)
        ways = (Way("Plan for the machine as the log describes it.", planned),) if planned else ()
        return replace(ruled, alternatives=(*ruled.alternatives, *ways)) if ways else ruled
    steps = tuple(item for item in own.commands if item.argv[:2] != ("envcheck", "doctor"))
    joined: Fix = replace(ruled, commands=steps, alternatives=own.alternatives)
    return joined


def findings_with_builders() -> set[str]:
    """Name the findings whose fixes are built."""
    return set(_BUILDERS)


def _built(told: Told) -> Fix | None:
    module, _, name = _BUILDERS.get(told.claim.id, "").partition(".")
    if not module:
        return None
    fix: Fix | None = getattr(import_module(f"envcheck.explain.{module}"), name)(told)
    return fix
