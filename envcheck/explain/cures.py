"""What must change by what a log states: the record that the rules make of a machine in the same situation."""

from __future__ import annotations

import re
from collections.abc import Callable

from envcheck.explain.log import Claim, Log
from envcheck.explain.problem import (
    SHAPES,
    VERSION,
    ClaimValues,
    find_capability,
    find_companion,
    find_required_cuda,
    match_shape,
)
from envcheck.model import Fix, major
from envcheck.model.fixes.driver import (
    InstallDriver,
    InstallMissingDriver,
    MatchDriverParts,
    PassGpusToContainer,
    ReleaseFromVirtualMachine,
    ReplaceNouveau,
    SignModule,
    StartFabricManager,
)
from envcheck.model.fixes.hardware import (
    CompileWithNewerToolkit,
    CompileWithOlderToolkit,
    FollowXid,
    UseNewerBuild,
    UseOlderBuild,
    UseOtherProcessor,
)
from envcheck.rules.gpu_releases import driver_floor, full_driver, toolkit_of


def build_cure(log: Log, claim: Claim) -> Fix | None:
    """Return what must change for a claim; None where the log states too little, and its messages alone advise."""
    build = CURES.get(claim.id)
    return build(ClaimValues(log, claim)) if build else None


# Messages for which the driver must be that of the very CUDA.
_FULL_DRIVER_SIGNATURES = ("image-driver", "ptx-", "container-requirement", "forward-compat")


def _install_driver(values: ClaimValues) -> InstallDriver:
    """Ask for the oldest driver that runs the required CUDA."""
    cuda = find_required_cuda(values)
    toolkit = toolkit_of(values.context, cuda) if cuda else None
    needs_full_driver = any(name.startswith(_FULL_DRIVER_SIGNATURES) for name in values.signatures)
    floor = (full_driver if needs_full_driver else driver_floor)(values.context, toolkit) if toolkit else None
    companion = find_companion(values)
    return InstallDriver(
        floor=values.find_capture("driver_wanted") or floor or "",
        cuda=toolkit.version if toolkit and floor else "",
        framework=values.framework,
        distribution=companion.distribution if companion and major(cuda) == major(companion.cuda or "") else "",
    )


def _match_driver_parts(values: ClaimValues) -> MatchDriverParts:
    stated = (event.values for event in values.claim.events if {"kernel", "dso"} <= set(event.values))
    versions = next(stated, {})
    kernel, libraries = (match_shape(versions.get(name, ""), VERSION) for name in ("kernel", "dso"))
    return MatchDriverParts(kernel, libraries)


def _start_fabric_manager(values: ClaimValues) -> StartFabricManager:
    match = re.search(r"with driver version (\d{3}(?:\.\d+){1,2})", values.text)
    return StartFabricManager(values.log.driver or (match.group(1) if match else ""))


def _replace_owner(values: ClaimValues) -> Fix:
    return ReleaseFromVirtualMachine() if "vfio" in values.find_own_capture("owner") else ReplaceNouveau()


# Messages of compilers: CUDA code is built for the GPU, and no package is at fault.
_OF_COMPILERS = {"nvcc-unsupported-arch", "nvrtc-arch", "nvvm-arch", "llvm-arch"}
_OF_SOME_INSTRUCTION = {"illegal-instruction", "trap-invalid-opcode"}  # messages that do not say which


def _serve_newer_gpu(values: ClaimValues) -> Fix:
    capability = find_capability(values)
    row = values.log.matrix.architecture(capability)
    if row is not None and row.first_toolkit and _OF_COMPILERS & set(values.signatures):
        return CompileWithNewerToolkit(capability)
    return UseNewerBuild(values.framework, capability=capability)


def _serve_older_gpu(values: ClaimValues) -> Fix:
    capability = find_capability(values)
    row = values.log.matrix.architecture(capability)
    if row is not None and row.last_toolkit and _OF_COMPILERS & set(values.signatures):
        return CompileWithOlderToolkit(capability)
    return UseOlderBuild(values.framework, capability=capability)


def _follow_xid(values: ClaimValues) -> FollowXid:
    """Take the Xids, the GPU's PCI address, and the recovery action that Xid 154 recommends."""
    rows = [event.values for event in values.claim.events]
    codes = (match_shape(row.get(name, ""), SHAPES["xid"]) for row in rows for name in ("xid", "xid2"))
    pci = re.search(r"Xid \(PCI:([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\b", values.text)
    recovery = re.search(r"recovery action changed from \S+ \([^)]*\) to \S+ \(([^)]{1,60})\)", values.text)
    return FollowXid(
        tuple(filter(None, dict.fromkeys(codes))),
        pci=pci.group(1) if pci else "",
        recovery=recovery.group(1) if recovery else "",
    )


def _use_other_processor(values: ClaimValues) -> UseOtherProcessor:
    return UseOtherProcessor(values.framework, is_stated=not _OF_SOME_INSTRUCTION.issuperset(values.signatures))


CURES: dict[str, Callable[[ClaimValues], Fix | None]] = {
    "cpu-missing-avx": _use_other_processor,
    "driver-library-mismatch": _match_driver_parts,
    "driver-missing": lambda _: InstallMissingDriver(),
    "driver-not-in-container": lambda _: PassGpusToContainer(),
    "driver-nouveau": _replace_owner,
    "driver-secure-boot": lambda _: SignModule(),
    "driver-too-old": _install_driver,
    "fabric-manager": _start_fabric_manager,
    "gpu-arch-too-new": _serve_newer_gpu,
    "gpu-arch-too-old": _serve_older_gpu,
    "gpu-hardware-fault": _follow_xid,
    "program-error": _follow_xid,
}
