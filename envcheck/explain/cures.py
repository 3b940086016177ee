"""What must change by what a log states.

The record that the rules make of a machine in the same situation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from envcheck.actions import is_requirement
from envcheck.explain.claim_values import (
    PATH,
    SHAPES,
    VERSION,
    ClaimValues,
    match_shape,
)
from envcheck.explain.libraries import parse_library
from envcheck.explain.log import Log, find_framework_of_message
from envcheck.explain.reasons_cuda import find_build_cuda
from envcheck.explain.reasons_python import (
    find_label_not_offered,
    find_nearest_index,
    list_matching_releases,
)
from envcheck.frameworks import Framework, identities
from envcheck.host.known_variables import load_known_variables
from envcheck.matrix.package_index import cuda_label, index_url
from envcheck.model import Advise, Fix, FrameworkRelease, major, numbers
from envcheck.model.fixes import (
    BuildWithToolkit,
    ChangeVariable,
    ChooseToolkit,
    CompileForGpu,
    FollowXid,
    InstallCudaBuild,
    InstallCudaLibraries,
    InstallCudnn,
    InstallDriver,
    InstallFramework,
    InstallKernelModule,
    InstallMissingDriver,
    InstallProjectsBuild,
    InstallReplacement,
    InstallRequiredRelease,
    InstallRequirements,
    InstallSystemLibrary,
    InstallTensorrt,
    InstallToolkit,
    MatchDriverParts,
    MatchInstalledFramework,
    PassGpusToContainer,
    ReleaseFromVirtualMachine,
    RemoveFromLibraryPath,
    ReplaceNouveau,
    RestoreKeras2,
    SignModule,
    StartFabricManager,
    TrustRepository,
    UnsetVisibleDevices,
    UseBuildForGpu,
    UseFreshEnvironment,
    UseInstalledToolkit,
    UseNewerGlibc,
    UseNewerPtxas,
    UseOtherCompiler,
    UseOtherPlatform,
    UseOtherProcessor,
    UseOtherPython,
)
from envcheck.model.text import find_group
from envcheck.model.versions import cuda_of_digits, find_requirement
from envcheck.remedies.repositories import CONTAINER_TOOLKIT
from envcheck.remedies.system import system_packages
from envcheck.rules.gpu_releases import driver_floor, driver_runs, full_driver, toolkit_of


def build_cure(values: ClaimValues) -> Fix | None:
    """Return what must change for a claim.

    Return None where the log states too little, and its messages alone advise.
    """
    build = CURES.get(values.claim.id)
    return build(values) if build else None


def names_of(cure: Fix | None) -> set[str]:
    """Name the packages that a log's claim is about.

    None where the log does not tell them apart.
    """
    return {cure.name} if isinstance(cure, MatchInstalledFramework) else set()


# Messages for which the driver must be that of the very CUDA.
_FULL_DRIVER_SIGNATURES = (
    "image-driver",
    "ptx-",
    "container-requirement",
    "forward-compat",
    "conda-cuda-virtual",  # __cuda is the CUDA of the driver itself
)


def _install_driver(values: ClaimValues) -> InstallDriver:
    """Ask for the oldest driver that runs the required CUDA."""
    cuda = values.required_cuda
    toolkit = toolkit_of(values.context, cuda)
    needs_full_driver = any(name.startswith(_FULL_DRIVER_SIGNATURES) for name in values.signatures)
    find_floor = full_driver if needs_full_driver else driver_floor
    floor = find_floor(values.context, toolkit) if toolkit else None
    companion = values.companion_release
    is_for_companion = companion and major(cuda) == major(companion.cuda)
    return InstallDriver(
        floor=values.find_capture("driver_wanted") or floor or "",
        cuda=toolkit.version if toolkit and floor else "",
        framework=values.framework,
        distribution=companion.distribution if companion and is_for_companion else "",
    )


def _match_driver_parts(values: ClaimValues) -> MatchDriverParts:
    parts = [(row["kernel"], row["dso"]) for row in values.rows if {"kernel", "dso"} <= set(row)]
    versions = [match_shape(text, VERSION) for pair in parts[:1] for text in pair]
    return MatchDriverParts(*versions)


def _replace_owner(values: ClaimValues) -> Fix:
    if "vfio" in values.find_own_capture("owner"):
        return ReleaseFromVirtualMachine()
    return ReplaceNouveau()


# Messages of compilers: CUDA code is built for the GPU, and no package is at fault.
_OF_COMPILERS = {"nvcc-unsupported-arch", "nvrtc-arch", "nvvm-arch", "llvm-arch"}
# messages that do not say which
_OF_SOME_INSTRUCTION = {"illegal-instruction", "trap-invalid-opcode"}


def _serve_gpu(values: ClaimValues, *, is_newer: bool = True) -> Fix:
    if "nvrm-needs-open" in values.signatures:
        return InstallKernelModule("open")
    row = values.log.matrix.architecture(values.cc)
    is_known = row is not None and (row.first_toolkit if is_newer else row.last_toolkit)
    if is_known and _OF_COMPILERS & set(values.signatures):
        return CompileForGpu(values.cc, is_newer)
    return UseBuildForGpu(values.framework, values.distribution, values.cc, is_newer)


def _follow_xid(values: ClaimValues) -> FollowXid:
    """Take the Xids, the GPU's PCI address, and the recovery action that Xid 154 recommends."""
    stated = dict.fromkeys(values.list_own_captures("xid", "xid2"))
    recovery = r"recovery action changed from \S+ \([^)]*\) to \S+ \(([^)]{1,60})\)"
    pci = r"Xid \(PCI:([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\b"
    return FollowXid(
        tuple(code for code in stated if match_shape(code, SHAPES["xid"])),
        pci=find_group(pci, values.text),
        recovery=find_group(recovery, values.text),
    )


def _use_other_python(values: ClaimValues) -> Fix | None:
    """Name the Pythons that a release has wheels for, or that a package asks for."""
    fitting = _fit_project_python(values)
    if fitting:
        text = "in pyproject.toml (requires-python in [project]): all packages take these"
        return Advise(f'Write python = "{fitting}" {text}.')
    text, rows = values.requirement, []
    asked = find_requirement(text)
    framework = values.log.matrix.framework_of(asked.name) if asked else None
    if asked and framework:
        rows = list_matching_releases(values.log, framework, asked.name, asked.specifier)
        nearest = find_nearest_index(values.log, rows, text) if rows else ""
        label = nearest or find_label_not_offered(text, values.claim.events)
        if label:
            label = _fit_driver(values, rows, label)
            text = re.sub(r"\+cu\d+$", f"+{label}", text)
            return InstallRequirements((text,), index=index_url(framework, label))
    plain = text.replace("===", "==")
    requirement = plain if framework and is_requirement(plain) else ""
    with_wheels = _minor_of_wheel(values) or _minors_with_wheels(values, rows)
    if with_wheels:
        return UseOtherPython(with_wheels, requirement)
    minors = _list_requested_minors(values)
    if minors:
        or_newer = minors[-1] == system_packages().python.newest
        return UseOtherPython(minors, requirement, by_package=True, or_newer=or_newer)
    return InstallRequirements((requirement,)) if requirement else None


def _fit_project_python(values: ClaimValues) -> str:
    """Return the range within the project's own that each package takes: >=3.9,<3.13."""
    wanted = values.list_own_captures("python_range")
    stated = ",".join((*wanted, *values.list_own_captures("project_python")))
    bounds: dict[str, list[str]] = {">=": [], "<": []}
    for sign, bound in re.findall(r"(>=|<)\s*(\d+(?:\.\d+)*)(?=\s*(?:,|$))", stated):
        bounds[sign].append(bound)
    if not (wanted and all(bounds.values())):
        return ""
    low, high = max(bounds[">="], key=numbers), min(bounds["<"], key=numbers)
    return f">={low},<{high}" if numbers(low) < numbers(high) else ""


def _fit_driver(values: ClaimValues, rows: list[FrameworkRelease], label: str) -> str:
    """Return the label of the newest build that the stated driver runs, where it is below."""
    context = values.context
    if not rows or driver_runs(context, cuda_of_digits(label.removeprefix("cu"))):
        return label
    fits = [cuda for cuda in rows[0].variants if driver_runs(context, cuda)]
    return cuda_label(max(fits, key=numbers)) if fits else label


def _minor_of_wheel(values: ClaimValues) -> tuple[str, ...]:
    """Read the Python of a wheel's name: -cp36- is 3.6."""
    names = " ".join(values.list_own_captures("wheel"))
    return tuple(map(".".join, re.findall(r"-cp(\d)(\d{1,2})-", names)[:1]))


def _minors_with_wheels(values: ClaimValues, rows: list[FrameworkRelease]) -> tuple[str, ...]:
    """List the Pythons of the newest of some releases, oldest first."""
    published = [row for row in rows if row.pythons]
    for_platform = [row for row in published if row.platform == values.context.platform]
    return next((row.pythons for row in for_platform or published), ())


def _list_requested_minors(values: ClaimValues) -> tuple[str, ...]:
    """List the minors that satisfy what a package says of Python: >=3.9,<3.13."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    stated = values.list_own_captures("wanted", "wanted2", "wanted3")
    specifier = match_shape("".join(stated[:1]).strip(" '\","), r"[<>=!~\d.,* ]{3,40}")
    try:
        allowed = SpecifierSet(specifier or "<0")
    except InvalidSpecifier:
        return ()
    return tuple(
        minor for minor in system_packages().python.minors if allowed.contains(f"{minor}.9")
    )


def _install_framework(values: ClaimValues) -> InstallFramework:
    module = values.find_capture("module").partition(".")[0]
    is_known = values.log.matrix.framework_of(module)
    return InstallFramework(module if is_known else values.framework)


def _install_replacement(values: ClaimValues) -> InstallReplacement | None:
    """Name what replaces a withdrawn distribution, of the same release if there is one."""
    matrix = values.log.matrix
    owners = filter(None, map(find_framework_of_message, values.signatures))
    names = (name for item in owners for name in item.distributions)
    removed = next(filter(matrix.removed_distribution, names), "")
    asked = find_requirement(values.find_capture("requirement") or removed)
    name, specifier = (asked.name, asked.specifier) if asked else ("", "")
    framework = next((item for item in identities() if item.plugins and item.owns(name)), None)
    if framework:
        return InstallReplacement(_with_extra(values, framework, specifier))
    row = matrix.removed_distribution(name)
    if row is None:
        return None
    from envcheck.rules.frameworks import name_replacement  # most logs need none of those rules

    return InstallReplacement(name_replacement(matrix, row, specifier))


def _with_extra(values: ClaimValues, framework: Framework, specifier: str) -> str:
    """Write the requirement whose extra took the place of a label: jax[cuda12] of jaxlib+cuda12."""
    label = match_shape(specifier.partition("+")[2].partition(".")[0], r"cuda\d\d")
    requirement = f"{framework.main}[{label}]" if label else framework.plans.gpu_requirement
    version = find_group(r"^={2,3}([^+]*)", specifier)
    row = None
    if version:
        row = values.log.matrix.release(framework.name, version, "linux_x86_64", framework.main)
    is_published = row is not None and any(f"[{extra}]" in requirement for extra in row.extras)
    return f"{requirement}=={version}" if is_published else requirement


def _install_cuda_build(values: ClaimValues) -> InstallCudaBuild | None:
    """Ask for the CUDA that another package was built for.

    XFormers names the torch of its own build. None where the log lists a CUDA build.
    """
    if values.torch_label.startswith("cu"):
        return None
    text = " ".join(event.text for event in values.log.events)
    built = re.findall(r"\b[Pp]y[Tt]orch \d[\d.]*\+cu(\d+)(\d)\b", text)
    cuda = "".join(map(".".join, built[:1]))
    return InstallCudaBuild(values.framework, cuda, "conda-cpu-build" in values.signatures)


def _install_cuda_libraries(values: ClaimValues) -> InstallCudaLibraries | None:
    """Name the very release with its extra, where that has one for one CUDA."""
    row, is_linux = values.row, values.log.system not in ("windows", "darwin")
    if row is not None and row.gpu_extra and len(row.extras) < 2 and is_linux:
        return InstallCudaLibraries(
            row.framework, (f"{row.distribution}[{row.gpu_extra}]=={row.version}",)
        )
    return InstallCudaLibraries(values.framework) if values.framework else None


# code or a file of Keras 2 meets Keras 3
_KERAS_2 = {"keras-3-words", "keras-2-or-3", "keras-config"}


def _restore_keras_2(values: ClaimValues) -> RestoreKeras2 | None:
    if _KERAS_2 & set(values.signatures) and values.framework:
        return RestoreKeras2(values.framework)
    return None


def _use_right_copy(values: ClaimValues) -> Fix | None:
    """Name the toolkit that is meant, or the folders of the library path that hold another copy."""
    torch_cuda = values.find_capture("torch_cuda")
    if torch_cuda and values.find_capture("nvcc"):
        return BuildWithToolkit(f"/usr/local/cuda-{torch_cuda}", torch_cuda=torch_cuda)
    installed = [line for line in values.matching_toolkits if line in values.log.cudas]
    if installed:
        return UseInstalledToolkit(installed[0])
    folders = filter(None, values.log.library_path.split(":"))
    others = tuple(
        folder
        for folder in folders
        if re.search(r"(?i)cuda|cudnn|nvidia", folder) and "-packages/" not in folder
    )
    return RemoveFromLibraryPath(others)


def _install_toolkit(values: ClaimValues) -> Fix | None:
    """Name the CUDA that is compiled with, asked for, or built with."""
    stated = values.find_own_capture("cuda_wanted")
    if values.compiles:
        of_log = values.find_capture("cuda_wanted") or values.find_capture("torch_cuda")
        stated = of_log or stated
    cuda = match_shape(stated, r"\d{1,2}(?:\.\d)?") or values.cuda_line
    lines = values.matching_toolkits
    if values.compiles and (values.log.absent_toolkit or not cuda):  # what is there builds as well
        cuda = values.named_toolkit or cuda
    if cuda in values.log.cudas:
        return UseInstalledToolkit(cuda, values.compiles)
    if cuda:
        return InstallToolkit(cuda, values.framework, values.distribution, values.compiles)
    return ChooseToolkit(lines, values.framework) if lines else None


def _use_newer_ptxas(values: ClaimValues) -> UseNewerPtxas | None:
    row = values.log.matrix.architecture(values.cc)
    if row and row.first_toolkit:
        return UseNewerPtxas(row.first_toolkit, values.cc, values.framework)
    return None


def _install_cudnn(values: ClaimValues) -> Fix | None:
    """Name the cuDNN that is asked for.

    As a message does, as the release does, as the name of the library does.
    """
    libraries = values.list_own_captures("library")
    library = next((parse_library(name).version for name in libraries if "cudnn" in name), "")
    of_release = values.row.cudnn if values.row else ""
    wanted = values.cudnn_wanted or of_release or major(library)
    fits = [
        version
        for name, version in values.log.packages.items()
        if name.startswith("nvidia-cudnn-cu")
        and major(version) == major(wanted)
        and numbers(version) >= numbers(wanted)
    ]
    if fits and values.log.library_path:  # the right one is there, and another is found first
        return _use_right_copy(values)
    cuda = values.cuda_line or values.stated_major
    # its libraries are of the CUDA that is not wanted
    if values.claim.id == "cudnn-wrong-cuda-build":
        cuda = find_build_cuda(values.log)
    return InstallCudnn(
        values.framework,
        values.distribution,
        version=match_shape(wanted, r"\d{1,2}(?:\.\d{1,2}){0,3}"),
        cuda=cuda,
        exact=values.claim.id == "cudnn-too-new",
        site_packages=_find_site_packages(values.log),
    )


def _find_site_packages(log: Log) -> str:
    """Return the folder of the environment's packages in a traceback; "" where none is."""
    texts = " ".join(event.text for event in log.events)
    return match_shape(find_group(r"(/[\w./+-]{1,160}/(?:site|dist)-packages)/", texts), PATH)


def _use_other_compiler(values: ClaimValues) -> UseOtherCompiler:
    """Name the newest gcc that this nvcc takes, and the one that is there."""
    matrix = values.log.matrix
    line = values.find_capture("nvcc") or next(iter(values.log.cudas), "")
    row = matrix.toolkit(line) if line else None
    highest, lowest = values.find_capture("gcc_max"), ""
    if row:
        highest, lowest = highest or row.gcc_max or "", row.gcc_min or ""
    return UseOtherCompiler(line, highest, lowest, values.find_capture("gcc"))


def _replace_extension(values: ClaimValues) -> Fix:
    """Name the package whose compiled part complains, and its framework's release."""
    name, framework = values.complaining_package, values.companion_framework
    if framework:
        return MatchInstalledFramework(name, framework, values.release_of(framework))
    return InstallProjectsBuild(values.extension_known)


_VARIABLES = ("variable", "jax_flag", "flags", "protobuf_variable", "debug_variable")


def _change_variable(values: ClaimValues) -> Fix | None:
    """Change the variable that a message names, with the values that it takes."""
    name = next(filter(None, map(values.find_own_capture, _VARIABLES)), "").upper()
    rows = (row for row in load_known_variables().effects if name in row.names)
    row = next((row for row in rows if row.effect in ("import", "use")), None)
    if name:
        return ChangeVariable(name, row.grammar if row else "")
    return None


_REPOSITORY = r"developer\.download\.nvidia\.com/compute/cuda/repos/([\w-]+)/(x86_64|sbsa)\b"
_TOOLKIT_PAGES = r"nvidia\.github\.io/(?:libnvidia-container|nvidia-docker)"


def _trust_repository(values: ClaimValues) -> Fix | None:
    """Name the repository of NVIDIA's whose key apt does not have, or whose old key has expired."""
    if "apt-repository-key" not in values.signatures or "Policy rejected" in values.text:
        return None
    address = next(iter(values.list_own_captures("repository", "repository2", "repository3")), "")
    stated = re.search(_REPOSITORY, address)
    if stated:
        return TrustRepository(stated[1], stated[2])
    return TrustRepository(CONTAINER_TOOLKIT) if re.search(_TOOLKIT_PAGES, address) else None


Cure = Callable[[ClaimValues], "Fix | None"]


def _make(record: Callable[..., Fix], *names: str) -> Cure:
    """Return what makes a record of some values; none where one is not stated."""

    def build(values: ClaimValues) -> Fix | None:
        stated = [values.find_value(name) for name in names]
        return record(*stated) if all(stated) else None

    return build


CURES: dict[str, Cure] = {
    "cpu-missing-avx": lambda values: UseOtherProcessor(
        values.framework, is_stated=not _OF_SOME_INSTRUCTION.issuperset(values.signatures)
    ),
    "cuda-wheel-conflict": _make(UseFreshEnvironment, "framework"),
    "cudnn-missing": _install_cudnn,
    "cudnn-shadowed": _use_right_copy,
    "cudnn-too-new": _install_cudnn,
    "cudnn-too-old": _install_cudnn,
    "cudnn-wrong-cuda-build": _install_cudnn,
    "cudnn-wrong-major": _install_cudnn,
    "dependency-conflict": _trust_repository,
    "driver-library-mismatch": _match_driver_parts,
    "driver-missing": _make(InstallMissingDriver),
    "driver-not-in-container": _make(PassGpusToContainer),
    "driver-nouveau": _replace_owner,
    "driver-secure-boot": _make(SignModule),
    "driver-too-old": _install_driver,
    "extension-build-mismatch": _replace_extension,
    "fabric-manager": lambda values: StartFabricManager(
        values.log.driver or find_group(r"with driver version (\d{3}(?:\.\d+){1,2})", values.text)
    ),
    "framework-cpu-build": _install_cuda_build,
    "framework-cuda-extra-missing": _install_cuda_libraries,
    "framework-missing": _install_framework,
    "framework-package-removed": _install_replacement,
    "glibc-too-old": _make(UseNewerGlibc, "glibc_wanted"),
    "gpu-arch-too-new": _serve_gpu,
    "gpu-arch-too-old": partial(_serve_gpu, is_newer=False),
    "gpu-hardware-fault": _follow_xid,
    "host-compiler-too-new": _use_other_compiler,
    "keras-mismatch": _restore_keras_2,
    "library-missing": _make(InstallSystemLibrary, "library"),
    "numpy-abi": lambda values: InstallRequiredRelease("numpy", values.framework),
    "platform-no-gpu-wheel": _make(UseOtherPlatform, "framework"),
    "program-error": _follow_xid,
    "protobuf-conflict": lambda values: InstallRequiredRelease("protobuf", values.framework),
    "ptxas-problem": _use_newer_ptxas,
    "python-unsupported": _use_other_python,
    "tensorrt-missing": lambda values: InstallTensorrt(values.framework, values.release),
    "toolkit-missing": _install_toolkit,
    "toolkit-path-conflict": _use_right_copy,
    "toolkit-wrong-version": _install_toolkit,
    "environment-variable": _change_variable,
    "visible-devices-hidden": lambda values: UnsetVisibleDevices(values.log.place == "slurm"),
}
