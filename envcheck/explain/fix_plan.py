"""Fixes that take another build of a framework: for another GPU, with CUDA, for another platform or processor."""

from __future__ import annotations

from envcheck.explain.fix_context import context_of, plan_command, release_row
from envcheck.explain.log import number
from envcheck.explain.told import Told
from envcheck.model import Command, Fix, Way
from envcheck.rules.fixes_python import conda_install, install_steps, uninstall_steps

_WSL = Command(("wsl.exe", "--install"), "user", "WSL 2; inside it: envcheck plan tensorflow")
_AVX = Command(
    ("grep", "-c", "-w", "avx", "/proc/cpuinfo"), "user", "0: this processor has none, or a virtual one shows none"
)
_NAMES = {"tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-intel"), "torch": ("torch",), "jax": ("jaxlib",)}
_CONDA = {"tensorflow": "tensorflow=*=cuda*", "torch": "pytorch=*=cuda*", "jax": "jaxlib=*=*cuda*"}
_COMPILERS = {"nvcc-unsupported-arch", "nvrtc-arch", "nvvm-arch", "llvm-arch"}


def newer_build(told: Told) -> Fix | None:
    """Name the first CUDA, and the first torch made with it, that knows a GPU."""
    cc, planned = told.value("cc"), plan_command(told)
    row = told.log.matrix.architecture(cc)
    if row is None or row.first_toolkit is None:
        what = "Install a build that knows this GPU: a newer release, or one for a newer CUDA."
        return Fix(what, planned) if planned else None
    if _COMPILERS & set(told.signatures):
        first = f"CUDA {row.first_toolkit} is the first that knows compute capability {cc}"
        return Fix(f"Compile with a newer CUDA Toolkit: {first}.", *_toolkit(told, row.first_toolkit))
    cuda = _first_running(told, cc, row.first_toolkit)
    what = f"Install a build for CUDA {cuda} or newer, the first with code that runs on compute capability {cc}"
    oldest = _first_torch(told, cuda) if told.framework == "torch" else ""
    return Fix(f"{what}{f': torch {oldest} is the oldest offered for it' if oldest else ''}.", planned)


def _toolkit(told: Told, cuda: str) -> tuple[tuple[Command, ...], tuple[Way, ...]]:
    from envcheck.explain.fix_cuda import toolkit_commands

    return toolkit_commands(told, cuda, compiles=True)


def _first_running(told: Told, cc: str, own: str) -> str:
    """Return the first CUDA with code for a GPU: of its own capability, or of a lower one of the same major."""
    rows = [row for row in told.log.matrix.architectures() if row.first_toolkit and not row.tegra]
    same = [row for row in rows if number(row.compute_capability)[:1] == number(cc)[:1]]
    known = [row.first_toolkit for row in same if number(row.compute_capability) <= number(cc) and row.first_toolkit]
    return min(known, key=number, default=own)


def _first_torch(told: Told, cuda: str) -> str:
    from envcheck.model import at_least_minor

    oldest = ""
    for version in told.log.matrix.versions("torch"):
        row = told.log.matrix.release("torch", version, "linux_x86_64")
        if row is None or not any(at_least_minor(item, cuda) for item in (*row.variants, row.cuda or "0")):
            break
        oldest = row.version
    return oldest


def older_build(told: Told) -> Fix | None:
    """Name the last CUDA that still builds for a GPU."""
    cc, planned = told.value("cc"), plan_command(told)
    row = told.log.matrix.architecture(cc)
    if row is not None and row.last_toolkit and _COMPILERS & set(told.signatures):
        what = f"Take {cc} off the compute capabilities to build for (CMAKE_CUDA_ARCHITECTURES, TORCH_CUDA_ARCH_LIST)"
        steps, elsewhere = _toolkit(told, row.last_toolkit)
        own = Way(f"Where the GPU is one, build with CUDA {row.last_toolkit}, the last that knows it.", steps)
        return Fix(f"{what}.", (), (own, *elsewhere))
    if row is None or not planned:
        return None
    last = f", as none made with a CUDA after {row.last_toolkit} has" if row.last_toolkit else ""
    return Fix(
        f"Install a release whose build has code for compute capability {cc}{last}; or use a newer GPU.", planned
    )


def cuda_build(told: Told) -> Fix | None:
    """Replace a CPU build: through conda where conda chose it, else by what the planner names."""
    planned = plan_command(told)
    if not planned:
        return None
    if "conda-cpu-build" in told.signatures:
        what = "Ask conda for a build with CUDA by its name: where none fits all that was asked it takes a CPU build."
        return Fix(what, (conda_install(_CONDA[told.framework]),), (Way("Take what the planner chooses.", planned),))
    removed = uninstall_steps(context_of(told), *_NAMES[told.framework])
    windows = told.framework == "tensorflow" and told.system in ("", "windows")
    also = " On Windows no TensorFlow after 2.10 has CUDA: use WSL 2 there." if windows else ""
    return Fix(f"Remove the CPU build and install the one for CUDA.{also}", (*removed, *planned))


def with_extra(told: Told) -> Fix | None:
    """Install the release that is there with the extra that brings its CUDA libraries."""
    row, context, planned = release_row(told), context_of(told), plan_command(told)
    if row is not None and row.gpu_extra and len(row.extras) < 2 and not planned_elsewhere(told):
        wanted = f"{row.distribution}[{row.gpu_extra}]=={row.version}"
        return Fix(f"Install it with its CUDA libraries: {wanted}.", install_steps(context, wanted))
    if told.framework == "torch":
        what = "Install torch anew with the nvidia-* wheels that it asks for, not with --no-deps."
        return Fix(what, (*uninstall_steps(context, "torch"), *planned))
    extra = told.value("framework_extra")
    windows = " For Windows there are none: use WSL 2." if told.system in ("", "windows") else ""
    what = f"Install the framework with its CUDA libraries: {extra}.{windows}"
    return Fix(what, planned) if planned and extra else None


def planned_elsewhere(told: Told) -> bool:
    """Tell whether the log is of a system whose wheels have no CUDA extras."""
    return told.system in ("windows", "darwin")


def other_platform(told: Told) -> Fix | None:
    """Name the last release with a GPU wheel for Windows beside the way through WSL."""
    from envcheck.rules.gpu_releases import gpu_rows

    context = context_of(told)
    last = next(iter(gpu_rows(context, "tensorflow")), None)
    if context.os != "windows" or told.framework != "tensorflow" or last is None:
        return None
    named = f"{last.distribution}=={last.version}"
    line = ("envcheck", "plan", named, "--platform", context.platform, "--python", last.pythons[-1])
    last_one = Way(f"Use {named}, the last with a GPU wheel for Windows.", (Command(line, "environment", "plans it"),))
    return Fix("Use WSL 2, where the Linux wheels run on the GPU.", (_WSL,), (last_one,))


def without_avx(told: Told) -> Fix | None:
    """Name the last TensorFlow that needs no AVX."""
    rows = told.log.matrix.releases("tensorflow", "linux_x86_64") if told.framework == "tensorflow" else ()
    row = next((item for item in rows if item.distribution == "tensorflow" and "avx" not in item.cpu_features), None)
    if row is None:
        return None
    named = f"tensorflow=={row.version}"
    what = "Use a processor with AVX; a virtual machine needs its host's processor model (QEMU: -cpu host)"
    line = ("envcheck", "plan", named, "--python", row.pythons[-1], "--expect", "cpu")
    old = Command(line, "environment", "plans it")
    return Fix(f"{what}.", (_AVX,), (Way(f"Use {named}, the last that needs none.", (old,)),))
