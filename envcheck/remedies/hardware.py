"""What to do about the GPU, the CPU, and what is busy, split, hidden or limited on GPUs that work."""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version

from envcheck.actions import Action, RunCommand, RunEnvcheck, SetVariables, Show, ShowKernelLog, UnsetVariable
from envcheck.frameworks import identity
from envcheck.model import (
    LINUX,
    SYSTEM,
    WINDOWS,
    Alternative,
    FrameworkRelease,
    Known,
    Problem,
    Remedy,
    at_least_minor,
    get_value,
    major,
)
from envcheck.remedies import remedy
from envcheck.remedies.driver import container_with_gpus, visible_container
from envcheck.remedies.situation import Situation
from envcheck.remedies.system import install_driver
from envcheck.remedies.toolkit import toolkit_to_build_with
from envcheck.rules.builds import NATIVE, Build, build_targets, coverage, supports_python
from envcheck.rules.gpu_releases import driver_runs, gpu_requirement
from envcheck.rules.gpus import numbered_gpus

_GPUS = RunEnvcheck(("gpus",), "every process on each GPU, hidden ones too, and how to end it", "user")
_AVX = Show(
    ("grep", "-c", "-w", "avx", "/proc/cpuinfo"),
    "0: this processor has none, or a virtual one shows none",
    systems=(LINUX,),
)


# A GPU and the code that was built for it.


@remedy("gpu-arch-too-new")
def newer_build(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the first release, driver or toolkit that knows the GPU."""
    if "driver" in problem.cases:
        return install_driver(situation, problem.driver)
    row = situation.matrix.architecture(problem.capability)
    first = row.first_toolkit if row else None
    if problem.compiles and first:
        return _compile_for(situation, problem, first, "the first")
    build = situation.build(problem.framework, problem.distribution)
    if build is not None and isinstance(situation.facts.python.version, Known):
        return _newer_release(situation, build, problem.capability)
    planned = situation.plan_command(problem.framework)
    if first is None:
        what = "Install a build that knows this GPU: a newer release, or one for a newer CUDA."
        return Remedy(what, planned) if planned else None
    cuda = _first_running(situation, problem.capability, first)
    what = f"Install a build for CUDA {cuda} or newer, the first with code that runs on compute capability "
    oldest = _first_labelled(situation, problem.framework, cuda)
    offered = f": {problem.framework} {oldest} is the oldest offered for it" if oldest else ""
    return Remedy(f"{what}{problem.capability}{offered}.", planned)


@remedy("gpu-arch-too-old")
def older_build(situation: Situation, problem: Problem) -> Remedy | None:
    """Install the last release, driver or toolkit that serves the GPU."""
    if "driver" in problem.cases:
        return install_driver(situation, problem.driver, exact=True)
    if "left-out" in problem.cases:
        return Remedy("Use another GPU, or hide this one with CUDA_VISIBLE_DEVICES.")
    row = situation.matrix.architecture(problem.capability)
    last = row.last_toolkit if row else None
    if problem.compiles and last:
        return _compile_for(situation, problem, last, "the last")
    build = situation.build(problem.framework, problem.distribution)
    if build is not None and isinstance(situation.facts.python.version, Known):
        return _older_release(situation, build, problem.capability)
    planned = situation.plan_command(problem.framework)
    if row is None or not planned:
        return None
    made = f", as none made with a CUDA after {last} has" if last else ""
    what = f"Install a release whose build has code for compute capability {problem.capability}{made}"
    return Remedy(f"{what}; or use a newer GPU.", planned)


def _compile_for(situation: Situation, problem: Problem, cuda: str, which: str) -> Remedy:
    """Build CUDA code with a toolkit that knows the GPU."""
    steps, elsewhere = toolkit_to_build_with(situation, cuda)
    if which == "the first":
        knows = f"CUDA {cuda} is the first that knows compute capability {problem.capability}"
        return Remedy(f"Compile with a newer CUDA Toolkit: {knows}.", steps, elsewhere)
    if any(get_value(gpu.compute_capability) == problem.capability for gpu in situation.context.gpus):
        knows = f"CUDA {cuda} is the last that knows compute capability {problem.capability}"
        return Remedy(f"Compile with an older CUDA Toolkit: {knows}.", steps, elsewhere)
    what = f"Take {problem.capability} off the compute capabilities to build for"
    own = Alternative(f"Where the GPU is one, build with CUDA {cuda}, the last that knows it.", steps)
    return Remedy(f"{what} (CMAKE_CUDA_ARCHITECTURES, TORCH_CUDA_ARCH_LIST).", (), (own, *elsewhere))


def _first_running(situation: Situation, capability: str, own: str) -> str:
    """Return the first CUDA with code for a GPU: of its own capability, or of a lower one of the same major."""
    rows = [row for row in situation.matrix.architectures() if row.first_toolkit and not row.tegra]
    same = [row for row in rows if major(row.compute_capability) == major(capability)]
    reached = [row for row in same if Version(row.compute_capability) <= Version(capability)]
    return min((row.first_toolkit for row in reached if row.first_toolkit), key=Version, default=own)


def _first_labelled(situation: Situation, name: str, cuda: str) -> str:
    """Return the oldest release that a framework's own index has for a CUDA or a newer one; "" without an index."""
    oldest = ""
    for version in situation.matrix.versions(name) if name and identity(name).index else ():
        row = situation.matrix.release(name, version, "linux_x86_64")
        if row is None or not any(at_least_minor(item, cuda) for item in (*row.variants, row.cuda or "0")):
            break
        oldest = row.version
    return oldest


def _older_release(situation: Situation, build: Build, capability: str) -> Remedy:
    """Name the newest release that still has machine code for an old GPU."""
    found = _serving(situation, build, capability)
    if not found:
        return _no_release(situation, build, capability)
    row = found[0]
    known = identity(build.framework)
    own_index = f" {known.title}'s own package index has builds of newer releases for older CUDA versions."
    what = (
        f"Install {row.distribution} {row.version}, the newest with machine code for compute capability {capability}."
    )
    return Remedy(what + (own_index if known.index else ""), _release_steps(situation, row))


def _newer_release(situation: Situation, build: Build, capability: str) -> Remedy:
    """Name the oldest release after this one that has machine code for a new GPU, and the newest."""
    found = [row for row in _serving(situation, build, capability) if _is_after(row, build)]
    if not found:
        return _no_release(situation, build, capability)
    row, newest = found[-1], found[0]
    also = "" if newest.version == row.version else f" ({newest.version} is the newest)"
    what = f"Install {row.distribution} {row.version} or newer{also}: the first after yours with machine code for "
    return Remedy(f"{what}compute capability {capability}.", _release_steps(situation, row))


def _no_release(situation: Situation, build: Build, capability: str) -> Remedy:
    names = {get_value(gpu.name) for gpu in situation.context.gpus if get_value(gpu.compute_capability) == capability}
    gpu = next(iter(sorted(filter(None, names))), "this GPU")
    return Remedy(
        f"No {build.framework} wheel in the matrix for this Python has machine code for {gpu}: "
        f"build it from source for compute capability {capability}, or use a build for another Python, or "
        "NVIDIA's container images.",
        situation.plan_command(build.framework) if situation.from_log else (),
    )


def _release_steps(situation: Situation, row: FrameworkRelease) -> tuple[Action, ...]:
    if identity(row.framework).index:  # which CUDA variants it serves is not in the row: the planner knows
        return situation.plan_command(row.framework)
    return situation.install(gpu_requirement(situation.context, row))


def _is_after(row: FrameworkRelease, build: Build) -> bool:
    try:
        return Version(row.version) > Version(build.version)
    except InvalidVersion:
        return True


def _serving(situation: Situation, build: Build, capability: str) -> list[FrameworkRelease]:
    """List the CUDA releases for this Python with machine code for a GPU, newest first; withdrawn names left out."""
    context, matrix = situation.context, situation.matrix
    rows = matrix.releases(build.framework, context.platform)
    usable = (row for row in rows if row.cuda_build and not row.yanked and supports_python(context, row))
    living = (row for row in usable if matrix.removed_distribution(row.distribution) is None)
    native = [row for row in living if _is_native(situation, row, capability)]
    return [row for row in native if driver_runs(context, row.cuda)] or native


def _is_native(situation: Situation, row: FrameworkRelease, capability: str) -> bool:
    def is_tegra(other: str) -> bool:
        architecture = situation.matrix.architecture(other)
        return architecture is not None and architecture.tegra

    targets = build_targets(row.framework, row.compute_capabilities)
    return coverage(targets, capability, is_tegra) == NATIVE


# The hardware itself.


@remedy("gpu-absent")
def machine_with_gpu(situation: Situation, problem: Problem) -> Remedy | None:
    """Use a machine that has a GPU."""
    if "expected" not in problem.cases:
        return None
    return Remedy(
        "Run on a machine with an NVIDIA GPU, attach one to this virtual machine, or judge CPU work: --expect cpu."
    )


@remedy("gpu-hardware-fault")
def repair_gpu(situation: Situation, problem: Problem) -> Remedy | None:
    """Check, reseat or replace the GPU."""
    if "computes-wrong" in problem.cases:
        look = ShowKernelLog(situation.sudo, "look for lines with NVRM and Xid, and what they say of this GPU")
        return Remedy("Take this GPU out of use until it is checked: it computes wrong.", (look,))
    if "lost" in problem.cases:
        return Remedy(
            "Switch the machine fully off and on again. If it comes back: reseat the card and its power "
            "cables, and look for Xid lines in the kernel log (dmesg)."
        )
    return None


@remedy("cpu-missing-avx")
def processor_with_avx(situation: Situation, problem: Problem) -> Remedy | None:
    """Use a processor with AVX, or the last release that needs none."""
    row = _last_without(situation, problem.framework, set(problem.names) or {"avx"}) if problem.framework else None
    if row is None and not problem.names:
        return None
    ways: tuple[Alternative, ...] = ()
    if row is not None:
        named = f"{row.distribution}=={row.version}"
        plan = RunEnvcheck(("plan", named, "--python", row.pythons[-1], "--expect", "cpu"), "plans it")
        ways = (Alternative(f"Use {named}, the newest release built without it.", (plan,)),)
    look = () if isinstance(situation.facts.host.cpu_flags, Known) else (_AVX,)
    what = "In a virtual machine, pass the host's CPU through, AVX included (QEMU: -cpu host)"
    return Remedy(f"{what}; else use a machine whose CPU has AVX.", look, ways)


def _last_without(situation: Situation, framework: str, flags: set[str]) -> FrameworkRelease | None:
    """Return the last release before the first that needs these instructions; None where that is not known."""
    rows = situation.matrix.releases(framework, situation.context.platform)
    first = min((Version(row.version) for row in rows if flags & set(row.cpu_features)), default=None)
    return next((row for row in rows if first is not None and Version(row.version) < first), None)


# What is busy, split, hidden or limited.


@remedy("gpu-memory-held")
def free_gpu_memory(situation: Situation, problem: Problem) -> Remedy | None:
    """End or find the processes that hold the GPU or its memory."""
    if "compute-mode" in problem.cases:
        index = problem.value("index")
        reset = _nvidia_smi(
            situation, ("-i", index, "-c", "DEFAULT"), "share the GPU again",
            f"nvidia-smi -i {index} --query-gpu=compute_mode --format=csv,noheader | grep -qx Default",
            lasting="the mode before stands in what was found; nvidia-smi -c sets it again",
        )  # fmt: skip
        return Remedy("Set the default compute mode.", (reset,), (Alternative("Wait for the other process to end."),))
    if "busy" in problem.cases:
        held = Show(("fuser", "-v", "/dev/nvidia0"), "who has it open", systems=(LINUX,))
        return Remedy("End the process that holds the GPU.", (held,))
    if "held-by-others" in problem.cases:
        return Remedy("End what holds the memory, or wait for it.", (RunEnvcheck(("gpus",), "who holds it", "user"),))
    if "listed" in problem.cases:
        whose = Show(
            ("ps", "-o", "user,pid,etime,cmd", "-p", problem.names[0]), "whose it is", systems=(LINUX, "darwin")
        )
        return Remedy("End the process that holds the memory, if it is yours and done.", (whose, _GPUS))
    if "hidden" in problem.cases:
        what = "Find the process that holds the memory, as root where others' are hidden, and end it."
        return Remedy(what, (_GPUS,))
    return None


def _nvidia_smi(
    situation: Situation,
    words: tuple[str, ...],
    purpose: str,
    check: str,
    undo: tuple[str, ...] = (),
    *,
    lasting: str = "",
) -> RunCommand:
    return RunCommand(
        ("nvidia-smi", *words), purpose, SYSTEM, (LINUX, WINDOWS), situation.sudo,
        check_argv=("sh", "-c", check), undo_argv=undo, lasting=lasting,
    )  # fmt: skip


@remedy("mig-config")
def usable_mig_instance(situation: Situation, problem: Problem) -> Remedy | None:
    """Create a MIG instance, or give each process one."""
    if "without-instance" in problem.cases:
        index = problem.value("index")
        sizes = Show(
            ("nvidia-smi", "mig", "-i", index, "-lgip"), "list the sizes an instance can have", SYSTEM,
            (LINUX, WINDOWS), situation.sudo,
        )  # fmt: skip
        off = _nvidia_smi(
            situation, ("-i", index, "-mig", "0"), "turn MIG off",
            f"nvidia-smi -i {index} --query-gpu=mig.mode.current --format=csv,noheader | grep -qx Disabled",
            ("nvidia-smi", "-i", index, "-mig", "1"),
        )  # fmt: skip
        command = f"nvidia-smi mig -i {index} -cgi SIZE -C"
        return Remedy(
            f"Create a GPU instance with a compute instance of a size you choose ({command}).",
            (sizes,),
            (Alternative("Turn MIG off: the GPU is one again.", (off,)),),
        )
    if "one-of-many" in problem.cases:
        uuid = problem.names[0]
        is_plain = re.fullmatch(r"MIG-[0-9A-Za-z/-]+", uuid)
        use = SetVariables((("CUDA_VISIBLE_DEVICES", uuid),), "one instance for each process")
        return Remedy("Give each process one instance by its UUID.", (use,) if is_plain else ())
    return None


@remedy("os-limit")
def larger_shared_memory(situation: Situation, problem: Problem) -> Remedy | None:
    """Start the container with more shared memory."""
    if "small-shm" not in problem.cases:
        return None

    def start(option: str) -> RunCommand:
        return RunCommand(
            ("docker", "run", "--gpus", "all", option, "IMAGE"), "IMAGE stands for yours", SYSTEM, (LINUX, WINDOWS),
            unchecked="it starts the program itself", lasting="the container goes when its program ends",
            by_person=True,
        )  # fmt: skip

    hosts = Alternative("Let it share the memory of the host.", (start("--ipc=host"),))
    return Remedy("Start the container with a larger /dev/shm.", (start("--shm-size=8g"),), (hosts,))


@remedy("visible-devices-hidden")
def visible_gpus(situation: Situation, problem: Problem) -> Remedy | None:
    """Let the program see the GPUs."""
    if "container" in problem.cases:
        return container_with_gpus(situation, visible_container())
    if "variable" not in problem.cases:
        return None
    last = len(numbered_gpus(situation.context)) - 1
    return Remedy(
        "Unset CUDA_VISIBLE_DEVICES; scripts and job systems set it too.",
        (UnsetVariable("CUDA_VISIBLE_DEVICES", "in the shell that starts the program"),),
        (Alternative(f"Set it to numbers from 0 to {last}."),),
    )
