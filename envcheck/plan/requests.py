"""Read what is asked for: requirements, options, and the machine a plan is for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from packaging.version import Version

from envcheck.actions import SH, is_requirement
from envcheck.frameworks import UnknownFrameworkError, framework_names
from envcheck.frameworks import framework as known_framework
from envcheck.matrix.companions import companion_row, load_companions, source_package
from envcheck.matrix.query import Matrix
from envcheck.model import (
    PlannedRelease,
    RequestError,
    dataclass,
    replace,
)
from envcheck.model.versions import Requirement, can_be_met, name_of, read_requirement
from envcheck.rules.context import Context
from envcheck.rules.described_machine import Description, capabilities
from envcheck.rules.gpu_releases import driver_floor, toolkit_of
from envcheck.rules.targets import UnknownNameError, check_requirements

DRIVER = "driver"  # asks for NVIDIA's driver, in place of a requirement
ENGINES = ("docker", "containerd", "podman")  # of containers that get the GPUs


@dataclass
class Request:
    """One framework asked for, every part normalised."""

    text: str  # tensorflow[and-cuda]>=2.15
    distribution: str
    framework: str
    extras: tuple[str, ...]
    specifier: str
    preferred_name: str = (
        # the name an environment holds it under already, or others require: it stays if that is no
        # fault
        ""
    )
    # what else is asked for that goes with it: torchvision, torchaudio==2.5.*
    companions: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """List everything that was typed for it."""
        return (self.text, *self.companions)


class UnknownPackageError(RequestError):
    """Neither the matrix nor the tables beside it know a package.

    What it requires stands on the index alone.
    """


@dataclass
class Passenger:
    """What the index states of a package that the matrix does not hold."""

    frameworks: tuple[str, ...]  # that it requires, itself or by an extra


NO_PASSENGERS: Mapping[str, Passenger] = MappingProxyType({})


def join_words(names: Sequence[str]) -> str:
    """Write names as in a sentence: "torch, vllm and xformers"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def read_requests(
    texts: tuple[str, ...], matrix: Matrix, passengers: Mapping[str, Passenger] = NO_PASSENGERS
) -> tuple[Request, ...]:
    """Read requirements such as tensorflow==2.15.*; raises RequestError for all else.

    `passengers` are what was read of packages that nothing is known of, by name.
    """
    requests: dict[str, Request] = {}
    companions: list[tuple[str, tuple[str, ...]]] = []
    for text in dict.fromkeys(texts):
        companion = _read_companion(text, matrix, passengers)
        if companion:
            companions.append(companion)
            continue
        request = _parse_request(text, matrix)
        if request.framework in requests:
            raise RequestError(_duplicate_message(requests[request.framework], request))
        requests[request.framework] = request
    # keras-hub joins the torch of vllm
    for text, frameworks in sorted(companions, key=lambda item: len(item[1])):
        near = frameworks or tuple(requests)[:1]  # what needs no framework comes beside the first
        owner = next((requests[name] for name in near if name in requests), None)
        if owner is None:
            owner = _parse_request(frameworks[0], matrix)
        # tf-keras requires tensorflow: beside tensorflow-cpu it would bring a second one into the
        # same folder
        name = companion_row(name_of(text)).requires or owner.preferred_name
        requests[owner.framework] = replace(
            owner, companions=(*owner.companions, text), preferred_name=name
        )
    return tuple(requests.values())


def _duplicate_message(first: Request, second: Request) -> str:
    if first.distribution == second.distribution:
        return (
            f"{first.distribution} is requested twice: combine the versions, as in torch>=2.4,<2.8."
        )
    names = f"{first.distribution} and {second.distribution}"
    return f"{names} are the same framework under two names: request only one."


def _parse_request(text: str, matrix: Matrix) -> Request:
    requirement = read_planned(text)
    try:
        check_requirements((text,), matrix)
    except UnknownNameError as error:
        near = "" if "Did you mean" in str(error) else find_near(text, matrix)
        meant = f" Did you mean {near}?" if near else ""
        raise UnknownPackageError(f"{error}{meant}") from None
    name, extras = requirement.name, requirement.extras
    framework = matrix.framework_of(name)
    if framework:
        try:
            extras = known_framework(framework).read_extras(extras)
        except (
            ValueError,
            UnknownFrameworkError,
        ) as error:  # a user's matrix may hold a framework of its own
            raise RequestError(str(error)) from None
    removed = matrix.removed_distribution(name)
    framework = framework or (removed.framework if removed else "")
    # judged, but the matrix does not hold what a plan of it would choose by: tensorrt
    if not framework:
        judged = (
            f"envcheck plans no release of {name}. `envcheck doctor --for {name}` judges one here."
        )
        raise RequestError(" ".join(filter(None, (judged, companion_row(name).install))))
    gpu_requirement = ""
    if framework in framework_names():
        gpu_requirement = known_framework(framework).plans.gpu_requirement
    brings_cuda = any(f"[{extra}]" in gpu_requirement for extra in extras)
    # tensorflow[and-cuda] is no tensorflow-cpu
    held_name = name if brings_cuda and name == framework else ""
    plain = replace(requirement, extras=extras).plain
    return Request(plain, name, framework, extras, requirement.specifier, held_name)


def find_near(text: str, matrix: Matrix, likeness: float = 0.7) -> str:
    """Return the known package whose name is most like that of a requirement, "" without one."""
    from difflib import get_close_matches  # for an unknown package only

    names = [name for row in load_companions().rows for name in row.distributions]
    names += [item for known in matrix.judged() for item in matrix.distributions(known)]
    return next(iter(get_close_matches(name_of(text), names, n=1, cutoff=likeness)), "")


def _read_companion(
    text: str, matrix: Matrix, passengers: Mapping[str, Passenger]
) -> tuple[str, tuple[str, ...]] | None:
    """Read what comes beside a framework, with the frameworks it does; None for anything else."""
    name = name_of(text)
    if not name or matrix.framework_of(name) or matrix.removed_distribution(name):
        return None

    frameworks = companion_row(name).frameworks
    if name in passengers:
        return read_planned(text).plain, passengers[name].frameworks
    if not frameworks:
        _refuse_source_package(name)
        return None
    requirement = read_planned(text)
    if requirement.extras:
        raise RequestError(f"{text[:60]!r}: give {name} without extras.")
    return requirement.plain, frameworks


def _refuse_source_package(name: str) -> None:
    """Raise RequestError, with the right index, for sources that need no framework."""
    package = source_package(name)
    files = (
        (item.versions[0], files)
        for item in (package.releases if package else ())
        for files in item.files or ()
    )
    version, newest = next(files, ("", None))
    if package and package.build and newest:
        index = " ".join(package.options).replace("{cuda}", newest.cuda[-1].replace(".", ""))
        settings = " ".join(f"{key}={value}" for key, value in package.build.settings.items())
        raise RequestError(
            f"envcheck plans no release of {name}: the package index has its sources alone."
            f" documented: its project's own index, which was not read, has {version} on"
            f" {' and '.join(newest.platforms)} for CUDA {', '.join(newest.cuda)}; take the one"
            f" that your driver runs, such as: pip install {name}=={version} {index}. `{settings}"
            f" pip install {name}` compiles it with the CUDA toolkit that is installed."
        )


def read_planned(text: str) -> Requirement:
    """Read a requirement that a plan types into commands; raises RequestError."""
    requirement = read_requirement(text)
    if requirement.url or requirement.marker or not is_requirement(requirement.plain):
        raise RequestError(
            f"{text[:60]!r} is not a plain requirement: give a name and versions, such as"
            " 'tensorflow>=2.15'."
        )
    if not can_be_met(requirement.specifier):
        raise RequestError(f"{text[:60]!r}: no version satisfies all of these constraints.")
    return requirement


def check_folder(folder: str) -> None:
    """Raise RequestError for a folder that is nameless, unprintable or like an option.

    What takes the making of an environment back removes its folder: never a root, or somebody's
    home.
    """
    if folder and (folder.startswith("-") or not re.fullmatch(r"[~\w./+:\\ @()-]+", folder)):
        raise RequestError(
            f"--env {folder[:60]!r}: give a folder of letters,"
            " digits, spaces and . / \\ _ - + : @ ( ) ~ only."
        )
    name = re.split(r"[/\\]", folder.rstrip("/\\ "))[-1]
    if folder and (name.endswith(":") or not re.search(r"\w", name)):
        raise RequestError(f"--env {folder[:60]!r}: name a folder of its own, such as .venv.")


@dataclass
class PlanOptions:
    """What a plan is to be made with; what is "" is chosen."""

    expect: str = "auto"  # auto, gpu, cpu
    installer: str = ""  # pip, uv, conda
    folder: str = ""  # of the environment
    in_container: bool = False  # the environment is to be an image
    # what was stated by hand: commands that plan anew repeat it
    description: Description = Description()
    typed: tuple[str, ...] = ()  # words that ask for the same, where files do: -r requirements.txt
    beside: tuple[str, ...] = ()  # what no framework needs, and comes into its environment
    constraints: tuple[str, ...] = ()  # files that bound what is installed
    lock: str = ""  # the pylock.toml, or the pins of a wheelhouse, that are installed
    upgrade: bool = False  # what works is replaced by the newest release that works, too
    # the other options given, for those commands: --snapshot machine.json
    repeat_options: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()  # what the environment holds already and keeps: tensorflow==2.15.1
    # names the Python that is asked for, where it is looked for here
    find_interpreter: Callable[[], str] = str
    shells: tuple[str, ...] = (SH,)  # whose activation of the environment is to set loader paths
    # What no index resolved for this Python: "torch==2.9.1 vllm==0.20", a companion, its newer
    # releases: "vllm>0.20".
    refused: frozenset[str] = frozenset()


DEFAULT_OPTIONS = PlanOptions()
EVERY = "*"  # in PlanOptions.refused: each release


def with_same_line(request: Request) -> Request:
    """Ask for any release of a pin's line: ==2.15.1 -> ==2.15.*; other clauses stay."""
    match = re.fullmatch(r"==(\d+\.\d+)(\.\d+)*(\+\w+)?", request.specifier)
    return _with_specifier(
        request, f"=={match[1]}.*" if match else request.specifier, request.extras
    )


def with_any_version(request: Request) -> Request:
    """Ask without version clauses, of what goes beside it, too."""
    return replace(
        _with_specifier(request, "", request.extras),
        companions=tuple(map(name_of, request.companions)),
    )


def with_any_name(request: Request) -> Request:
    """Ask for the framework by its own name, without version clauses and extras."""
    return _with_specifier(
        replace(with_any_version(request), distribution=request.framework), "", ()
    )


def without_cuda(request: Request) -> Request:
    """Ask by a name, extras and version without CUDA: torch==2.7.1+cu118 -> ==2.7.1."""
    named = request.distribution
    if request.distribution.endswith("-gpu"):
        named = request.framework
    extras = tuple(name for name in request.extras if "cuda" not in name)
    return _with_specifier(
        replace(request, distribution=named), re.sub(r"\+cu\d+", "", request.specifier), extras
    )


def _with_specifier(request: Request, specifier: str, extras: tuple[str, ...]) -> Request:
    text = Requirement("", request.distribution, extras, specifier).plain
    return replace(request, text=text, specifier=specifier, extras=extras)


DRIVER_RELEASE = "ENVCHECK_DRIVER_RELEASE"  # as envcheck/probes/collection.py reads them
CUDA_DRIVER_VERSION = "ENVCHECK_CUDA_DRIVER_VERSION"
COMPUTE_CAPABILITIES = "ENVCHECK_COMPUTE_CAPABILITIES"


def stated_machine(context: Context) -> dict[str, str]:
    """State what is known; {} for a plan without GPUs."""
    if context.goal != "gpu":
        return {}
    driver = context.driver
    variables = {
        DRIVER_RELEASE: driver.release.value or "",
        CUDA_DRIVER_VERSION: _find_cuda(context),
    }
    variables[COMPUTE_CAPABILITIES] = ",".join(
        filter(None, (gpu.compute_capability.value or "" for gpu in context.gpus))
    )
    return {name: value for name, value in variables.items() if value}


def _find_cuda(context: Context) -> str:
    """Return what the driver can start: as it said, or as its release is known to."""
    release = context.driver.release.value or ""
    reported = context.driver.cuda_driver_version.value or ""
    branch = None
    if release and not reported:
        branch = context.matrix.driver_branch(release)
    return branch.cuda if branch else reported


_FOR_JETSON = (
    "NVIDIA publishes PyTorch and TensorFlow for Jetson as wheels and containers for each JetPack"
    " release. The matrix does not include them."
)


def assumptions(
    context: Context, releases: Iterable[PlannedRelease], options: PlanOptions
) -> Iterator[str]:
    """Say that no GPU, or which driver, a description would have had to name."""
    if not options.description.platform or context.os == "darwin":
        return
    if context.goal == "cpu" and options.expect == "auto" and not options.description.gpus:
        yield (
            "No GPU is described, so this plan is for the CPU."
            " Add one with --gpu, such as --gpu 'RTX 4090'."
        )
    release, stated = context.driver.release.value, options.description.driver
    if stated and release and release != stated:
        yield (
            f"--driver {stated} stands for {release},"
            " the newest release of that branch that is known."
        )
    if context.goal == "gpu" and not release:
        rows = (toolkit_of(context, item.cuda) for item in releases)
        floors = [floor for floor in (driver_floor(context, row) for row in rows) if floor]
        if floors:
            yield (
                "No driver is described; this plan needs NVIDIA"
                f" driver {max(floors, key=Version)} or newer."
            )


def list_other_sources(context: Context) -> tuple[str, ...]:
    """Say where builds come from that no index holds which a plan is made from."""
    if context.goal == "gpu" and any(map(context.matrix.is_tegra, capabilities(context.facts))):
        return (_FOR_JETSON,)
    return ()
