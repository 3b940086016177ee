"""What to do about GPU and CPU, and about GPUs that are busy, split or hidden."""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version

from envcheck.actions import (
    RunEnvcheck,
    UnsetVariable,
)
from envcheck.frameworks import identity
from envcheck.host.data_files import load_data
from envcheck.model import (
    Alternative,
    FrameworkRelease,
    Remedy,
    at_least_minor,
    major,
)
from envcheck.model.fixes import (
    CompileForGpu,
    FollowXid,
    RequestGpusFromRuntime,
    ServiceGpu,
    UnsetVisibleDevices,
    UseBuildForGpu,
    UseOtherProcessor,
)
from envcheck.remedies import write_fix
from envcheck.remedies.driver import VISIBLE, start_container_with_gpus
from envcheck.remedies.driver_install import build_reboot
from envcheck.remedies.rows import machine_steps
from envcheck.remedies.situation import PROGRAM_SHELL, Actions, Situation
from envcheck.remedies.toolkit import install_build_toolkit
from envcheck.rules.builds import Build, supports_python
from envcheck.rules.gpu_releases import (
    driver_runs,
    gpu_requirement,
    gpu_rows,
    numbered_gpus,
    package_for_machine,
    serves_capability,
)
from envcheck.rules.hardware import XidTable

_WITHOUT_AVX = (
    "In a virtual machine, pass the host's CPU through with AVX (QEMU: -cpu host). "
    "Otherwise use a machine whose CPU has AVX."
)
_IF_WITHOUT_AVX = (
    "If this CPU has no AVX, use one that has."
    " A virtual machine passes its host's through (QEMU: -cpu host)."
)
_OTHER_INSTRUCTION = (
    "AVX is not the cause here: another instruction stopped the program. "
    "Install another build of the library that holds it."
)


# A GPU and the code that was built for it.


def use_build_for_gpu(situation: Situation, fix: UseBuildForGpu) -> Remedy | None:
    """Install the first release or build that knows the GPU, or the last that serves it."""
    if situation.matrix.companion_of(fix.distribution):
        return _replace_package(situation, fix.distribution, fix.capability)
    build = situation.build(fix.framework, fix.distribution)
    if build is not None and fix.capability and situation.facts.python.version.value is not None:
        return _name_release(situation, build, fix)
    write = _use_newer_build if fix.is_newer else _use_older_build
    return write(situation, fix)


def _use_newer_build(situation: Situation, fix: UseBuildForGpu) -> Remedy | None:
    steps = situation.install_gpu_build(
        fix.framework, capability=fix.capability, newest=not fix.capability
    )
    row = situation.matrix.architecture(fix.capability)
    if row is None or row.first_toolkit is None:
        summary = (
            "Install a build that supports this GPU: a newer release, or one for a newer CUDA."
        )
        return Remedy(summary, steps) if steps else None
    if fix.framework and not steps:
        return _build_from_source(situation, fix.framework, fix.capability)
    cuda = _find_first_toolkit(situation, fix.capability, row.first_toolkit)
    summary = (
        f"Install a build for CUDA {cuda} or newer,"
        " the first with code that runs on compute capability "
    )
    oldest = _find_first_labelled_release(situation, fix.framework, cuda)
    oldest_text = ""
    if oldest:
        oldest_text = f": {fix.framework} {oldest} is the oldest offered for it"
    return Remedy(f"{summary}{fix.capability}{oldest_text}.", steps)


def _use_older_build(situation: Situation, fix: UseBuildForGpu) -> Remedy | None:
    row = situation.matrix.architecture(fix.capability)
    if row is None or not fix.framework:
        return None
    steps = situation.install_gpu_build(fix.framework, capability=fix.capability)
    reason = ""
    if row.last_toolkit:
        reason = f", as none made with a CUDA after {row.last_toolkit} has"
    summary = (
        f"Install a release whose build has code for compute capability {fix.capability}{reason}"
    )
    return Remedy(f"{summary}; or use a newer GPU.", steps)


def _replace_package(situation: Situation, name: str, capability: str) -> Remedy:
    """Install the release of a package that has code for the GPU and runs on the driver."""
    row, may_stay = package_for_machine(situation.context, name, capability)
    if row is None:
        return Remedy(
            f"Use another GPU: no known release of {name} has code for compute capability"
            f" {capability} here."
        )
    beside = "" if may_stay else ", with the releases that it requires"
    summary = (
        f"Install {name}=={row.version}{beside}: it has code for compute capability {capability}."
    )
    return Remedy(summary, situation.install(f"{name}=={row.version}"))


def compile_for_gpu(situation: Situation, fix: CompileForGpu) -> Remedy | None:
    """Build CUDA code with a toolkit that knows the GPU, or for other GPUs alone."""
    row = situation.matrix.architecture(fix.capability)
    cuda = row and (row.first_toolkit if fix.is_newer else row.last_toolkit)
    if not cuda:
        return None
    steps, elsewhere = install_build_toolkit(situation, cuda)
    here = {gpu.compute_capability.value for gpu in situation.context.gpus}
    if fix.is_newer or fix.capability in here:
        kind, end = ("a newer", "first") if fix.is_newer else ("an older", "last")
        reason = f"CUDA {cuda} is the {end} that supports compute capability {fix.capability}"
        return Remedy(f"Compile with {kind} CUDA Toolkit: {reason}.", steps, elsewhere)
    summary = f"Remove {fix.capability} from the compute capabilities to build for"
    alternative = Alternative(
        f"If this GPU has it, build with CUDA {cuda}, the last that supports it.", steps
    )
    return Remedy(
        f"{summary} (CMAKE_CUDA_ARCHITECTURES, TORCH_CUDA_ARCH_LIST).",
        (),
        (alternative, *elsewhere),
    )


def _find_first_toolkit(situation: Situation, capability: str, default: str) -> str:
    """Return the first CUDA with code for a GPU.

    Of its own capability, or of a lower one of the same major.
    """
    rows = [row for row in situation.matrix.architectures() if row.first_toolkit and not row.tegra]
    family = [row for row in rows if major(row.compute_capability) == major(capability)]
    candidates = [row for row in family if Version(row.compute_capability) <= Version(capability)]
    return min(
        (row.first_toolkit for row in candidates if row.first_toolkit), key=Version, default=default
    )


def _find_first_labelled_release(situation: Situation, name: str, cuda: str) -> str:
    """Return the oldest release on a framework's own index for a CUDA or newer, or ""."""
    oldest = ""
    for version in situation.matrix.versions(name) if name and identity(name).index else ():
        row = situation.matrix.release(name, version, "linux_x86_64")
        if row is None or not any(
            at_least_minor(item, cuda) for item in (*row.variants, row.cuda or "0")
        ):
            break
        oldest = row.version
    return oldest


def _name_release(situation: Situation, build: Build, fix: UseBuildForGpu) -> Remedy:
    """Name the first newer release with machine code for a new GPU, or the last for an old one."""
    capability, releases = fix.capability, _list_supporting_releases(situation, build, fix)
    if not releases:
        return _build_from_source(situation, build.framework, capability)
    newest, row = releases[0], releases[-1 if fix.is_newer else 0]
    code = f"with machine code for compute capability {capability}."
    framework = identity(build.framework)
    summary = f"Install {row.label}, the newest {code}"
    if fix.is_newer:
        other = f" ({newest.version} is the newest)" if newest.version != row.version else ""
        summary = f"Install {row.label} or newer{other}: the first after yours {code}"
    elif framework.index:  # it has builds of newer releases for older CUDA versions
        summary = f"Install the newest build {code}"
    if framework.index:
        steps = situation.install_gpu_build(row.framework, capability=capability)
    else:
        steps = situation.install(gpu_requirement(situation.context, row))
    return Remedy(summary, steps)


def _build_from_source(situation: Situation, framework: str, capability: str) -> Remedy:
    names = {
        gpu.name.value
        for gpu in situation.context.gpus
        if gpu.compute_capability.value == capability
    }
    gpu = next(iter(sorted(filter(None, names))), "this GPU")
    return Remedy(
        f"No {framework} wheel in the matrix for this Python has machine code for {gpu}."
        f" Build it from source for compute capability {capability}, use a build for another"
        " Python, or use NVIDIA's container images.",
    )


def _is_after(row: FrameworkRelease, build: Build) -> bool:
    try:
        return Version(row.version) > Version(build.version)
    except InvalidVersion:
        return True


def _list_supporting_releases(
    situation: Situation, build: Build, fix: UseBuildForGpu
) -> list[FrameworkRelease]:
    """List the CUDA releases for this Python with code for a GPU, newest first.

    Withdrawn names are left out, and for a newer GPU what is older than the build.
    """
    context = situation.context
    native = [
        row
        for row in gpu_rows(context, build.framework)
        if supports_python(context, row)
        and situation.matrix.removed_distribution(row.distribution) is None
        and serves_capability(context, row, fix.capability)
    ]
    native = [row for row in native if driver_runs(context, row.cuda)] or native
    return [row for row in native if not fix.is_newer or _is_after(row, build)]


# The hardware itself.

# Of several codes the one whose action says most: NVIDIA's own recommendation, then what ends the
# most work.
_XID_ORDER = (
    "as-stated", "restart-machine", "restart-virtual-machine", "reset-gpu", "reset-after-drain",
    "diagnose-nvlink", "decode-nvlink", "check-power", "update-driver", "contact-support",
    "reset-if-uvm", "restart-application", "none", "follow-other",
)  # fmt: skip
_RECOMMENDED = {
    "reboot": "restart-machine",
    "drain and reset": "reset-after-drain",
    "reset": "reset-gpu",
}
# The rows of ServiceGpu with what to look at.
_XID_STEPS = {
    "diagnose-nvlink": "nvlink",
    "decode-nvlink": "nvlink",
    "none": "pending",
    "restart-application": "pending",
}

# of the GPU's system processor
_WITHOUT_GSP = Alternative(
    "If it comes back, update the driver; the proprietary module also runs without GSP firmware."
)


def follow_xid(situation: Situation, fix: FollowXid) -> Remedy | None:
    """Do what NVIDIA's catalogue says about the codes of a log; None where it has none of them."""
    table = load_data("nvidia/xid", XidTable)
    known = [row for row in table.xids if str(row.code) in fix.codes]
    if not known:
        return None
    row = min(known, key=lambda item: _XID_ORDER.index(item.action))
    action = row.action
    if row.action == "as-stated":
        action = _read_recommendation(fix.recovery)
    later = table.actions[row.follow_up] if row.follow_up else ""
    advice = f" If it comes back, {later[0].lower()}{later[1:]}" if later else ""
    steps = _build_xid_steps(situation, action, row.follow_up, fix.pci)
    ways = (_WITHOUT_GSP,) if row.name.startswith("GSP") else ()
    return Remedy(f"{table.actions[action]} Xid {row.code}: {row.means}{advice}", steps, ways)


def _read_recommendation(text: str) -> str:
    """Return the action that the driver recommends in Xid 154: GPU Reset Required."""
    found = (action for word, action in _RECOMMENDED.items() if word in text.lower())
    return next(found, "as-stated")


def _build_xid_steps(situation: Situation, action: str, follow_up: str, pci: str) -> Actions:
    if action in ("restart-machine", "restart-virtual-machine"):
        return (build_reboot(situation),)
    step = _XID_STEPS.get(action, "log")
    if "reset" in action:
        step = "reset"
    elif follow_up == "inspect-application":
        step = "sanitize"
    remedy = write_fix(ServiceGpu(step, f"{pci}.0" if pci else ""), situation)
    return remedy.actions if remedy else ()


def use_other_processor(situation: Situation, fix: UseOtherProcessor) -> Remedy | None:
    """Use a processor with AVX, or the last release that needs none."""
    if not fix.is_stated and _needs_no_avx(situation):
        return Remedy(_OTHER_INSTRUCTION, machine_steps("invalid-opcode", situation.sudo))
    row = None
    if fix.framework:
        row = _find_last_without(situation, fix.framework, set(fix.instructions) or {"avx"})
    if row is None and not fix.instructions:
        return None
    alternatives: tuple[Alternative, ...] = ()
    if row is not None:
        requirement = row.pin
        plan = RunEnvcheck(
            ("plan", requirement, "--python", row.pythons[-1], "--expect", "cpu"), "shows the plan"
        )
        alternatives = (
            Alternative(f"Use {requirement}, the newest release built without it.", (plan,)),
        )
    is_known = situation.facts.host.cpu_flags.value is not None
    check = machine_steps("" if is_known else "avx", sudo=False)
    summary = _IF_WITHOUT_AVX if check and not fix.is_stated else _WITHOUT_AVX
    return Remedy(summary, check, alternatives)


def _needs_no_avx(situation: Situation) -> bool:
    """Return whether the processor is known to have AVX, or is one whose programs use none."""
    host = situation.facts.host
    return "avx" in (host.cpu_flags.value or ()) or host.architecture.value in ("aarch64", "arm64")


def _find_last_without(
    situation: Situation, framework: str, flags: set[str]
) -> FrameworkRelease | None:
    """Return the last release before the first that needs these instructions.

    Return None where that is not known.
    """
    rows = situation.matrix.releases(framework, situation.context.platform)
    first = min(
        (Version(row.version) for row in rows if flags & set(row.cpu_features)), default=None
    )
    return next((row for row in rows if first is not None and Version(row.version) < first), None)


# What is busy, split, hidden or limited.


def request_gpus_from_runtime(situation: Situation, _: RequestGpusFromRuntime) -> Remedy:
    """Start the container with NVIDIA_VISIBLE_DEVICES set."""
    return start_container_with_gpus(situation, VISIBLE)


def unset_visible_devices(situation: Situation, fix: UnsetVisibleDevices) -> Remedy:
    """Unset CUDA_VISIBLE_DEVICES, or set it to GPUs that exist; of a scheduler, ask for a GPU."""
    if fix.by_scheduler:
        return Remedy(
            "Request the GPUs from the scheduler, and leave CUDA_VISIBLE_DEVICES as it sets it: in"
            " the job, programs number its GPUs from 0.",
            machine_steps("ask-scheduler", sudo=False),
        )
    last = len(numbered_gpus(situation.context)) - 1
    other = Alternative(f"Set it to numbers from 0 to {last}.")
    if last < 0:
        other = Alternative("Select an existing GPU.", machine_steps("list-gpus", sudo=False))
    unset = UnsetVariable("CUDA_VISIBLE_DEVICES", PROGRAM_SHELL)
    value = situation.context.environment.get("CUDA_VISIBLE_DEVICES", "")
    shown = f", which is '{value}'" if re.fullmatch(r"-?[\w,-]+", value) else ""
    return Remedy(
        f"Unset CUDA_VISIBLE_DEVICES{shown}; scripts and job systems set it too.",
        (unset,),
        (other,),
    )
