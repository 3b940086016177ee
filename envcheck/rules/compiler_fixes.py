"""A C++ compiler that nvcc takes, beside the one that is there, and how nvcc is told of it."""

from __future__ import annotations

from envcheck.model import Command, Fix, Way, get_value
from envcheck.rules.context import Context
from envcheck.rules.fixes_python import conda_install
from envcheck.rules.fixes_system import OTHER, distribution_family
from envcheck.rules.packages import compiler_beside, compiler_families, compiler_named, visual_studio, why_no_compiler

_WHERE = "in the shell that builds, or in the environment's activation script (CMake: CUDAHOSTCXX; PyTorch: CXX, too)"


def compiler_anywhere(context: Context, major: int) -> Fix:
    """Bring a GCC beside another one where the distribution may not be known: then Debian's way, and the others'."""
    family = distribution_family(context)
    if family != OTHER or get_value(context.facts.python.kind) == "conda":
        return install_compiler(context, major, major)
    found = [(called, *compiler_named(context, name, str(major))) for name, called in compiler_families().items()]
    (_, path, steps), *others = found
    ways = [Way(f"On {called}:", (*commands, let_nvcc_use(its))) for called, its, commands in others]
    summary = f"Install GCC {major} beside the present one, and let nvcc use it."
    return Fix(summary, (*steps, let_nvcc_use(path)), (*ways, _from_conda(context, major)))


def let_nvcc_use(path: str) -> Command:
    """Name a host compiler to nvcc.

    NVCC_CCBIN is read by the newest nvcc only (13.0 does, 12.4 does not); NVCC_PREPEND_FLAGS by all since 11.
    """
    return Command(("export", f"NVCC_PREPEND_FLAGS=-ccbin={path}"), "user", _WHERE)


def install_compiler(context: Context, lowest: int, highest: int) -> Fix:
    """Bring a GCC within bounds beside the one that is there, and let nvcc use it."""
    if get_value(context.facts.python.kind) == "conda":
        spec, compiler = _conda(context)
        steps = (conda_install(f"{spec}={highest}"), let_nvcc_use(f"$CONDA_PREFIX/bin/{compiler}"))
        return Fix(f"Install GCC {highest} into the environment, and let nvcc use it.", steps)
    major, path, commands = compiler_beside(context, lowest, highest)
    if commands:
        summary = f"Install GCC {major} beside the present one, and let nvcc use it."
        return Fix(summary, (*commands, let_nvcc_use(path)), (_from_conda(context, major),))
    way, why = _from_conda(context, major), why_no_compiler(context)
    said = (
        why or f"Install GCC {major} beside the present one with your distribution's package manager, where it has it"
    )
    return Fix(f"{said}. {way.summary}", way.commands)


def other_visual_studio(highest: str) -> Fix:
    """Bring the Visual Studio whose compiler nvcc accepts: 19.29 is that of 2019."""
    studio, commands = visual_studio(int(highest.replace(".", "")))
    if not commands:
        return Fix("Install a Visual Studio that this CUDA accepts beside the other, or a newer CUDA Toolkit.")
    return Fix(
        f"Install the Build Tools of Visual Studio {studio}, and build from its x64 Native Tools prompt.",
        commands,
        (Way("Use a newer CUDA Toolkit, which accepts this compiler."),),
    )


def _from_conda(context: Context, major: int) -> Way:
    spec, compiler = _conda(context)
    create = Command(("conda", "create", "-n", f"gcc-{major}", "-c", "conda-forge", f"{spec}={major}"))
    activate = Command(("conda", "activate", f"gcc-{major}"), "user")
    use = let_nvcc_use(f"$CONDA_PREFIX/bin/{compiler}")
    return Way(f"Take GCC {major} from conda, in an environment of its own.", (create, activate, use))


def _conda(context: Context) -> tuple[str, str]:
    """Return conda's package of g++ for this architecture, and its program."""
    machine = "aarch64" if get_value(context.facts.host.architecture) in ("aarch64", "arm64") else "x86_64"
    return f"gxx_linux-{'64' if machine == 'x86_64' else machine}", f"{machine}-conda-linux-gnu-g++"
