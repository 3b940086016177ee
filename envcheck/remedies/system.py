"""Install what belongs to the system: drivers, compilers, CUDA packages.

Printed, and run only on request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from envcheck.actions import (
    WINGET,
    ActivateEnvironment,
    CreateEnvironment,
    InstallSystemPackages,
    SetVariables,
)
from envcheck.host.data_files import load_data
from envcheck.model import (
    CONDA,
    Alternative,
    Citation,
    Remedy,
    dataclass,
    numbers,
    replace,
)
from envcheck.remedies.situation import (
    Actions,
    Situation,
    install_conda_packages,
)

_NUMBERS = re.compile(r"[\d.-]+")
_BUILD_SHELL = (
    "in the build shell or the environment's activation script (CMake:"
    " CUDAHOSTCXX; PyTorch: also CXX)"
)


@dataclass
class Compilers:
    """Which GCC majors each distribution offers besides its default one."""

    path: Mapping[str, str]  # family -> where its g++ of one major lies
    released: Mapping[str, Mapping[str, tuple[int, ...]]]  # family -> release -> majors
    called: Mapping[str, str]
    none: Mapping[str, str]  # family -> why it has none
    citations: tuple[Citation, ...]


@dataclass
class CudnnPackage:
    """cuDNN as NVIDIA's repository for Debian and Ubuntu names it, from one major on."""

    first: int
    package: str
    usual_cuda: str = ""  # where the CUDA major is not known


@dataclass
class CudnnPackages:
    """Where cuDNN is published."""

    first_wheel: int  # major
    apt: tuple[CudnnPackage, ...]  # the oldest first
    # major -> the systems that it was published for, where not for all
    released: Mapping[str, tuple[str, ...]]
    citation: Citation


@dataclass
class VisualStudio:
    """A Visual Studio by the newest compiler that it has."""

    highest: int  # _MSC_VER
    studio: str
    package: str
    components: tuple[str, ...]


@dataclass
class VisualStudios:
    """The releases of Visual Studio, the oldest first."""

    rows: tuple[VisualStudio, ...]
    citation: Citation


@dataclass
class PipReleases:
    """The releases of pip that are in use."""

    oldest_in_use: str
    citation: Citation


@dataclass
class PythonReleases:
    """The Pythons that systems bring and packages ask for."""

    usual: str
    oldest: str
    newest: str
    usual_framework: str  # what is proposed to install where nothing was asked for
    citation: Citation

    @property
    def minors(self) -> tuple[str, ...]:
        """List the minors that a package may ask for, oldest first."""
        (major, oldest), (_, newest) = numbers(self.oldest), numbers(self.newest)
        return tuple(f"{major}.{minor}" for minor in range(oldest, newest + 1))


@dataclass
class CondaNvcc:
    """Where conda has nvcc, and from which CUDA on."""

    channel: str
    first: str
    citation: Citation


@dataclass
class WingetPackages:
    """The CUDA Toolkits that winget has."""

    first_cuda: str
    citation: Citation


@dataclass
class TensorrtPackages:
    """Where TensorRT is published."""

    first_wheel: str
    citation: Citation


@dataclass
class SystemPackages:
    """The content of data/advice/system_packages.json."""

    install: Mapping[str, str]  # family of distributions -> its package manager
    called: Mapping[str, str]  # family -> its name in a sentence
    packages: Mapping[str, Mapping[str, tuple[str, ...]]]  # purpose -> family -> names
    compilers: Compilers
    cudnn: CudnnPackages
    msvc: VisualStudios
    pip: PipReleases
    python: PythonReleases
    conda_nvcc: CondaNvcc
    winget: WingetPackages
    tensorrt: TensorrtPackages


def system_packages() -> SystemPackages:
    """Return the content of data/advice/system_packages.json."""
    return load_data("advice/system_packages", SystemPackages)


# Packages by what they are for.


def install(situation: Situation, what: str, purpose: str, **values: str) -> Actions:
    """Install something with the package manager of this distribution.

    Return () where it has none of it.
    """
    if situation.os == "linux":
        return _install(situation, situation.distribution, what, purpose, **values)
    return ()


def install_anywhere(
    situation: Situation, what: str, purpose: str, **values: str
) -> tuple[Actions, tuple[Alternative, ...]]:
    """Install something on a Linux whose distribution may not be known.

    Debian's way, and the others' instead.
    """
    if situation.is_distribution_known:
        return install(situation, what, purpose, **values), ()
    names = system_packages().called
    first, *others = [
        (names[name], _install(situation, name, what, purpose, **values)) for name in names
    ]
    alternatives = tuple(Alternative(f"On {name}:", steps) for name, steps in others if steps)
    return (
        tuple(replace(step, purpose=f"{step.purpose} ({first[0]})") for step in first[1]),
        alternatives,
    )


def _install(situation: Situation, family: str, what: str, purpose: str, **values: str) -> Actions:
    names = list_package_names(family, what, **values)
    if not names:
        return ()
    manager, provides = system_packages().install[family], _find_check_command(family, what, values)
    return (
        InstallSystemPackages(manager, names, situation.sudo, provides=provides, purpose=purpose),
    )


def list_package_names(family: str, what: str, **values: str) -> tuple[str, ...]:
    """Name packages for a family; () where it has none.

    ValueError for values that are no numbers.
    """
    if not all(map(_NUMBERS.fullmatch, values.values())):
        raise ValueError(values)
    names = system_packages().packages[what].get(family, ())
    return tuple(name.format(**values) for name in names)


def _find_check_command(family: str, what: str, values: dict[str, str]) -> tuple[str, ...]:
    """Return a command that runs once the packages are there."""
    if what in ("cuda-toolkit", "cuda-nvcc"):
        return (f"/usr/local/cuda-{values['cuda'].replace('-', '.')}/bin/nvcc", "--version")
    if what == "container-toolkit":
        return ("nvidia-ctk", "--version")
    if what == "compiler-release":
        path = system_packages().compilers.path[family]
        return (path.format(**values).removeprefix("/usr/bin/"), "--version")
    return ()


def install_windows_toolkit(version: str) -> Actions:
    """Install a CUDA Toolkit with winget; () where its manifests begin with a later one."""
    if numbers(version) < numbers(system_packages().winget.first_cuda):
        return ()
    purpose = f"the CUDA Toolkit {version}"
    return (
        InstallSystemPackages(
            WINGET, ("Nvidia.CUDA",), options=("--version", version), purpose=purpose
        ),
    )


# Compilers.


def set_host_compiler(path: str) -> SetVariables:
    """Name a host compiler to nvcc.

    NVCC_CCBIN is read by the newest nvcc only (13.0 does, 12.4 does not); NVCC_PREPEND_FLAGS by all
    since 11.
    """
    return SetVariables((("NVCC_PREPEND_FLAGS", f"-ccbin={path}"),), _BUILD_SHELL)


def install_compiler(situation: Situation, lowest: int, highest: int) -> Remedy:
    """Install a GCC within bounds beside the one that is there, and point nvcc at it."""
    if situation.has_conda:
        spec, compiler = _find_conda_compiler(situation)
        steps = (
            install_conda_packages(f"{spec}={highest}"),
            set_host_compiler(f"$CONDA_PREFIX/bin/{compiler}"),
        )
        return Remedy(f"Install GCC {highest} into the environment, and point nvcc at it.", steps)
    if not situation.is_distribution_known:
        return _install_compiler_anywhere(situation, highest)
    major, path, commands = _choose_compiler(situation, lowest, highest)
    if commands:
        summary = f"Install GCC {major} next to the present one, and point nvcc at it."
        return Remedy(
            summary,
            (*commands, set_host_compiler(path)),
            (_install_compiler_with_conda(situation, major),),
        )
    alternative = _install_compiler_with_conda(situation, major)
    reason = system_packages().compilers.none.get(situation.distribution)
    by_hand = f"Install GCC {major} with your distribution's package manager, if it has it"
    return Remedy(f"{reason or by_hand}. {alternative.summary}", alternative.actions)


def _install_compiler_anywhere(situation: Situation, major: int) -> Remedy:
    """Install a GCC where the distribution is not known: Debian's way, and the others'."""
    names = system_packages().compilers.called
    installations = [
        (text, *_install_compiler_major(situation, name, str(major)))
        for name, text in names.items()
    ]
    (_, path, steps), *others = installations
    alternatives = [
        Alternative(f"On {text}:", (*commands, set_host_compiler(compiler_path)))
        for text, compiler_path, commands in others
    ]
    summary = f"Install GCC {major} next to the present one, and point nvcc at it."
    return Remedy(
        summary,
        (*steps, set_host_compiler(path)),
        (*alternatives, _install_compiler_with_conda(situation, major)),
    )


def _choose_compiler(situation: Situation, lowest: int, highest: int) -> tuple[int, str, Actions]:
    """Choose the newest GCC within bounds that the distribution has beside its own.

    The highest where none is known.

    Returns its major, the path of its g++ and what installs it; ("", ()) where the distribution has
    none.
    """
    family, compilers = situation.distribution, system_packages().compilers
    by_release = compilers.released.get(family, {})
    version = situation.distribution_version
    majors = by_release.get(version, by_release.get(version.partition(".")[0]))
    matching = [major for major in majors or (highest,) if lowest <= major <= highest]
    if situation.os != "linux" or family not in compilers.path or not matching:
        return highest, "", ()
    return max(matching), *_install_compiler_major(
        situation, family, str(max(matching)), is_known=majors is not None
    )


def _install_compiler_major(
    situation: Situation, family: str, major: str, *, is_known: bool = False
) -> tuple[str, Actions]:
    """Return the path of a family's g++ of one major, and what installs it."""
    path = system_packages().compilers.path[family].format(major=major)
    purpose = f"GCC {major}, next to the present one" + (
        "" if is_known else "; if this release has it"
    )
    return path, _install(situation, family, "compiler-release", purpose, major=major)


def _install_compiler_with_conda(situation: Situation, major: int) -> Alternative:
    spec, compiler = _find_conda_compiler(situation)
    name = f"gcc-{major}"
    create = CreateEnvironment(
        name=name, installer=CONDA, channels=("conda-forge",), packages=(f"{spec}={major}",)
    )
    use = set_host_compiler(f"$CONDA_PREFIX/bin/{compiler}")
    activate = ActivateEnvironment(name, CONDA)
    return Alternative(
        f"Install GCC {major} with conda, in a separate environment.", (create, activate, use)
    )


def _find_conda_compiler(situation: Situation) -> tuple[str, str]:
    """Return conda's package of g++ for this architecture, and its program."""
    machine = "x86_64"
    if situation.facts.host.architecture.value in ("aarch64", "arm64"):
        machine = "aarch64"
    return f"gxx_linux-{'64' if machine == 'x86_64' else machine}", f"{machine}-conda-linux-gnu-g++"
