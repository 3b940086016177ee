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
    find_capability,
    find_companion,
    find_complaining_package,
    find_cuda_line,
    find_distribution,
    find_duplicate_wheels,
    find_extension_package,
    find_required_cuda,
    find_required_cudnn,
    find_stated_major,
    list_matching_toolkits,
    match_shape,
)
from envcheck.explain.log import Log, find_framework_of_message, parse_number
from envcheck.explain.reasons_cuda import find_build_cuda, find_library_name, parse_library
from envcheck.explain.reasons_python import (
    find_label_not_offered,
    find_nearest_index,
    list_matching_releases,
)
from envcheck.frameworks import Framework, identities, identity
from envcheck.host.known_variables import load_known_variables
from envcheck.matrix.companions import companion_row
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
    ReplaceCudaWheels,
    ReplaceNouveau,
    RestoreKeras2,
    SignModule,
    StartFabricManager,
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
from envcheck.model.versions import cuda_of_digits, find_requirement, name_of
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
    cuda = find_required_cuda(values)
    toolkit = toolkit_of(values.context, cuda)
    needs_full_driver = any(name.startswith(_FULL_DRIVER_SIGNATURES) for name in values.signatures)
    floor = None
    if toolkit:
        floor = (full_driver if needs_full_driver else driver_floor)(values.context, toolkit)
    companion = find_companion(values)
    return InstallDriver(
        floor=values.find_capture("driver_wanted") or floor or "",
        cuda=toolkit.version if toolkit and floor else "",
        framework=values.framework,
        distribution=(
            companion.distribution if companion and major(cuda) == major(companion.cuda) else ""
        ),
    )


def _match_driver_parts(values: ClaimValues) -> MatchDriverParts:
    stated = (
        event.values for event in values.claim.events if {"kernel", "dso"} <= set(event.values)
    )
    versions = next(stated, {})
    kernel, libraries = (match_shape(versions.get(name, ""), VERSION) for name in ("kernel", "dso"))
    return MatchDriverParts(kernel, libraries)


def _start_fabric_manager(values: ClaimValues) -> StartFabricManager:
    return StartFabricManager(
        values.log.driver or (find_group(r"with driver version (\d{3}(?:\.\d+){1,2})", values.text))
    )


def _replace_owner(values: ClaimValues) -> Fix:
    if "vfio" in values.find_own_capture("owner"):
        return ReleaseFromVirtualMachine()
    return ReplaceNouveau()


# Messages of compilers: CUDA code is built for the GPU, and no package is at fault.
_OF_COMPILERS = {"nvcc-unsupported-arch", "nvrtc-arch", "nvvm-arch", "llvm-arch"}
# messages that do not say which
_OF_SOME_INSTRUCTION = {"illegal-instruction", "trap-invalid-opcode"}


def _serve_newer_gpu(values: ClaimValues) -> Fix:
    if "nvrm-needs-open" in values.signatures:
        return InstallKernelModule("open")
    return _serve_gpu(values)


def _serve_gpu(values: ClaimValues, *, is_newer: bool = True) -> Fix:
    capability = find_capability(values)
    row = values.log.matrix.architecture(capability)
    is_known = row is not None and (row.first_toolkit if is_newer else row.last_toolkit)
    if is_known and _OF_COMPILERS & set(values.signatures):
        return CompileForGpu(capability, is_newer)
    return UseBuildForGpu(values.framework, values.distribution, capability, is_newer)


def _follow_xid(values: ClaimValues) -> FollowXid:
    """Take the Xids, the GPU's PCI address, and the recovery action that Xid 154 recommends."""
    rows = [event.values for event in values.claim.events]
    codes = (
        match_shape(row.get(name, ""), SHAPES["xid"]) for row in rows for name in ("xid", "xid2")
    )
    pci = re.search(r"Xid \(PCI:([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\b", values.text)
    return FollowXid(
        tuple(filter(None, dict.fromkeys(codes))),
        pci=pci.group(1) if pci else "",
        recovery=find_group(
            r"recovery action changed from \S+ \([^)]*\) to \S+ \(([^)]{1,60})\)", values.text
        ),
    )


def _use_other_processor(values: ClaimValues) -> UseOtherProcessor:
    return UseOtherProcessor(
        values.framework, is_stated=not _OF_SOME_INSTRUCTION.issuperset(values.signatures)
    )


def _use_other_python(values: ClaimValues) -> Fix | None:
    """Name the Pythons that a release has wheels for, or that a package asks for."""
    fitting = _fit_project_python(values)
    if fitting:
        text = "in pyproject.toml (requires-python in [project]): all packages take these"
        return Advise(f'Write python = "{fitting}" {text}.')
    text = values.find_value("requirement")
    is_framework = values.log.matrix.framework_of(name_of(text))
    plain = text.replace("===", "==")
    requirement = plain if is_framework and is_requirement(plain) else ""
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
    with_wheels = _minor_of_wheel(values) or _minors_with_wheels(values, text)
    if with_wheels:
        return UseOtherPython(with_wheels, requirement)
    minors = _list_requested_minors(values)
    if minors:
        or_newer = minors[-1] == system_packages().python.newest
        return UseOtherPython(minors, requirement, by_package=True, or_newer=or_newer)
    return InstallRequirements((requirement,)) if requirement else None


def _fit_project_python(values: ClaimValues) -> str:
    """Return the range within the project's own that each package takes: >=3.9,<3.13."""
    rows = [event.values for event in values.claim.events]
    wanted = [row["python_range"] for row in rows if row.get("python_range")]
    asked = [row["project_python"] for row in rows if row.get("project_python")]
    bounds = re.findall(r"(>=|<)\s*(\d+(?:\.\d+)*)(?=\s*(?:,|$))", ",".join((*wanted, *asked)))
    lowest = [bound for sign, bound in bounds if sign == ">="]
    highest = [bound for sign, bound in bounds if sign == "<"]
    if not (wanted and lowest and highest):
        return ""
    low, high = max(lowest, key=numbers), min(highest, key=numbers)
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
    names = " ".join(event.values.get("wheel", "") for event in values.claim.events)
    match = re.search(r"-cp(\d)(\d{1,2})-", names)
    return (f"{match.group(1)}.{match.group(2)}",) if match else ()


def _minors_with_wheels(values: ClaimValues, text: str) -> tuple[str, ...]:
    """List the Pythons of the newest release that a requirement admits, oldest first."""
    asked = find_requirement(text)
    framework = values.log.matrix.framework_of(asked.name) if asked else None
    if asked is None or framework is None:
        return ()
    rows = list_matching_releases(values.log, framework, asked.name, asked.specifier)
    published = [row for row in rows if row.pythons]
    for_platform = [row for row in published if row.platform == values.context.platform]
    return tuple((for_platform or published)[0].pythons) if published else ()


def _list_requested_minors(values: ClaimValues) -> tuple[str, ...]:
    """List the minors that satisfy what a package says of Python: >=3.9,<3.13."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    captures = (pair for event in values.claim.events for pair in event.captures)
    specifier = next((value for name, value in captures if re.fullmatch(r"wanted\d?", name)), "")
    try:
        allowed = SpecifierSet(
            match_shape(specifier.strip(" '\","), r"[<>=!~\d.,* ]{3,40}") or "<0"
        )
    except InvalidSpecifier:
        return ()
    return tuple(
        minor for minor in system_packages().python.minors if allowed.contains(f"{minor}.9")
    )


def _install_needed(values: ClaimValues) -> Fix | None:
    """Install what a sentence says is required."""
    needed = values.find_capture("needed")
    return InstallRequirements((needed,)) if is_requirement(needed) else None


def _use_newer_glibc(values: ClaimValues) -> UseNewerGlibc | None:
    version = values.find_capture("glibc_wanted")
    return UseNewerGlibc(version) if version else None


def _install_framework(values: ClaimValues) -> InstallFramework:
    module = values.find_capture("module").partition(".")[0]
    return InstallFramework(module if values.log.matrix.framework_of(module) else values.framework)


def _install_replacement(values: ClaimValues) -> InstallReplacement | None:
    """Name what replaces a withdrawn distribution, of the same release if there is one."""
    matrix = values.log.matrix
    owners = filter(None, map(find_framework_of_message, values.signatures))
    removed = (
        name for item in owners for name in item.distributions if matrix.removed_distribution(name)
    )
    asked = find_requirement(values.find_capture("requirement") or next(removed, ""))
    name, specifier = (asked.name, asked.specifier) if asked else ("", "")
    version = ""
    if specifier.startswith("=="):
        version = re.sub(r"^={2,3}|\+.*", "", specifier)
    framework = next((item for item in identities() if item.plugins and item.owns(name)), None)
    if framework:
        return InstallReplacement(_with_extra(values, framework, specifier, version))
    from envcheck.rules.frameworks import name_replacement  # most logs need none of those rules

    row = matrix.removed_distribution(name)
    if row:
        return InstallReplacement(name_replacement(matrix, row, specifier))
    return None


def _with_extra(values: ClaimValues, framework: Framework, specifier: str, version: str) -> str:
    """Write the requirement whose extra took the place of a label: jax[cuda12] of jaxlib+cuda12."""
    label = match_shape(specifier.partition("+")[2].partition(".")[0], r"cuda\d\d")
    requirement = f"{framework.main}[{label}]" if label else framework.plans.gpu_requirement
    row = None
    if version:
        row = values.log.matrix.release(framework.name, version, "linux_x86_64", framework.main)
    is_published = row is not None and any(f"[{extra}]" in requirement for extra in row.extras)
    return f"{requirement}=={version}" if is_published else requirement


def _install_cuda_build(values: ClaimValues) -> InstallCudaBuild | None:
    """Ask for the CUDA that another package was built for.

    XFormers names the torch of its own build. None where the log lists a CUDA build.
    """
    if values.find_value("torch_label").startswith("cu"):
        return None
    text = " ".join(event.text for event in values.log.events)
    match = re.search(r"\b[Pp]y[Tt]orch \d[\d.]*\+cu(\d+)(\d)\b", text)
    cuda = f"{match[1]}.{match[2]}" if match else ""
    by_conda = "conda-cpu-build" in values.signatures
    return InstallCudaBuild(values.framework, cuda, by_conda)


def _install_cuda_libraries(values: ClaimValues) -> InstallCudaLibraries | None:
    """Name the very release with its extra, where that has one for one CUDA."""
    row, is_linux = values.row, values.log.system not in ("windows", "darwin")
    if row is not None and row.gpu_extra and len(row.extras) < 2 and is_linux:
        return InstallCudaLibraries(
            row.framework, (f"{row.distribution}[{row.gpu_extra}]=={row.version}",)
        )
    return InstallCudaLibraries(values.framework) if values.framework else None


def _keep_one_cuda_major(values: ClaimValues) -> Fix:
    removed, kept = find_duplicate_wheels(values)
    if removed and kept:
        return ReplaceCudaWheels(removed, kept)
    return UseFreshEnvironment(values.framework)


def _require(name: str) -> Callable[[ClaimValues], InstallRequiredRelease]:
    return lambda values: InstallRequiredRelease(name, values.framework)


# code or a file of Keras 2 meets Keras 3
_KERAS_2 = {"keras-3-words", "keras-2-or-3", "keras-config"}


def _restore_keras_2(values: ClaimValues) -> RestoreKeras2 | None:
    meets_keras_3 = bool(_KERAS_2 & set(values.signatures))
    if meets_keras_3 and values.framework:
        return RestoreKeras2(values.framework)
    return None


def _use_other_platform(values: ClaimValues) -> UseOtherPlatform | None:
    return UseOtherPlatform(values.framework) if values.framework else None


def _use_right_copy(values: ClaimValues) -> Fix | None:
    """Name the toolkit that is meant, or the folders of the library path that hold another copy."""
    torch_cuda = values.find_capture("torch_cuda")
    if torch_cuda and values.find_capture("nvcc"):
        return BuildWithToolkit(f"/usr/local/cuda-{torch_cuda}", torch_cuda=torch_cuda)
    installed = [line for line in list_matching_toolkits(values) if line in values.log.cudas]
    if installed:
        return UseInstalledToolkit(installed[0])
    folders = filter(None, values.log.library_path.split(":"))
    others = tuple(
        folder for folder in folders if re.search(r"cuda|cudnn|nvidia", folder, re.IGNORECASE)
    )
    return RemoveFromLibraryPath(others)


def _install_toolkit(values: ClaimValues) -> Fix | None:
    """Name the CUDA that is compiled with, asked for, or built with."""
    stated = ""
    if values.compiles:
        stated = values.find_capture("cuda_wanted") or values.find_capture("torch_cuda")
    stated = stated or values.find_own_capture("cuda_wanted")
    cuda = stated if re.fullmatch(r"\d{1,2}(?:\.\d)?", stated) else find_cuda_line(values)
    if not cuda:
        lines = list_matching_toolkits(values)
        return ChooseToolkit(lines, values.framework) if lines else None
    if cuda in values.log.cudas:
        return UseInstalledToolkit(cuda, values.compiles)
    return InstallToolkit(cuda, values.framework, values.distribution, values.compiles)


def _use_newer_ptxas(values: ClaimValues) -> UseNewerPtxas | None:
    capability = find_capability(values)
    row = values.log.matrix.architecture(capability)
    if row and row.first_toolkit:
        return UseNewerPtxas(row.first_toolkit, capability, values.framework)
    return None


def _install_cudnn(values: ClaimValues) -> InstallCudnn:
    """Name the cuDNN that is asked for.

    As a message does, as the release does, as the name of the library does.
    """
    names = map(find_library_name, values.claim.events)
    library = next((parse_library(name).version for name in names if "cudnn" in name), "")
    of_release = values.row.cudnn if values.row else ""
    wanted = find_required_cudnn(values) or of_release or major(library)
    cuda = find_cuda_line(values) or find_stated_major(values)
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
    match = re.search(r"(/[\w./+-]{1,160}/(?:site|dist)-packages)/", texts)
    return match_shape(match.group(1), PATH) if match else ""


def _install_tensorrt(values: ClaimValues) -> InstallTensorrt:
    return InstallTensorrt(values.framework, values.release)


def _install_system_library(values: ClaimValues) -> InstallSystemLibrary | None:
    library = values.find_capture("library")
    return InstallSystemLibrary(library) if library else None


def _use_other_compiler(values: ClaimValues) -> UseOtherCompiler:
    """Name the newest gcc that this nvcc takes, and the one that is there."""
    matrix = values.log.matrix
    line = values.find_capture("nvcc") or next(iter(values.log.cudas), "")
    row = matrix.toolkit(line) if line else None
    limit, highest = values.find_capture("gcc_over"), values.find_capture("gcc_max")
    if limit and not highest:
        maxima = (item.gcc_max for item in matrix.toolkits() if item.gcc_max)
        highest = next((gcc for gcc in maxima if parse_number(gcc) < parse_number(limit)), "")
    highest = highest or (row.gcc_max or "" if row else "")
    lowest = row.gcc_min or "" if row else ""
    return UseOtherCompiler(
        line, highest, lowest, values.find_capture("gcc") or _host_version(values)
    )


def _host_version(values: ClaimValues) -> str:
    """Read the number of a host compiler as nvcc shows it: 90300 is gcc 9.3."""
    value = match_shape(values.find_own_capture("host_version"), r"\d{5,6}")
    return f"{int(value) // 10000}.{int(value) % 10000 // 100}" if value else ""


def _replace_extension(values: ClaimValues) -> Fix:
    """Name the package whose compiled part complains, and its framework's release."""
    name = find_complaining_package(values)
    framework = next(iter(companion_row(name).frameworks), "")
    if framework:
        release = values.log.release_of(identity(framework))
        return MatchInstalledFramework(
            name, framework, match_shape(release, rf"{VERSION}(?:\+[a-z0-9.]+)?")
        )
    return InstallProjectsBuild(find_distribution(find_extension_package(values)))


_VARIABLES = ("variable", "jax_flag", "flags", "protobuf_variable", "debug_variable")


def _change_variable(values: ClaimValues) -> Fix | None:
    """Change the variable that a message names, with the values that it takes."""
    name = next(filter(None, map(values.find_own_capture, _VARIABLES)), "").upper()
    rows = (row for row in load_known_variables().effects if name in row.names)
    row = next((row for row in rows if row.effect in ("import", "use")), None)
    if name:
        return ChangeVariable(name, row.grammar if row else "")
    return None


CURES: dict[str, Callable[[ClaimValues], Fix | None]] = {
    "cpu-missing-avx": _use_other_processor,
    "cuda-wheel-conflict": _keep_one_cuda_major,
    "cudnn-missing": _install_cudnn,
    "cudnn-shadowed": _use_right_copy,
    "cudnn-too-new": _install_cudnn,
    "cudnn-too-old": _install_cudnn,
    "cudnn-wrong-cuda-build": _install_cudnn,
    "cudnn-wrong-major": _install_cudnn,
    "dependency-conflict": _install_needed,
    "driver-library-mismatch": _match_driver_parts,
    "driver-missing": lambda _: InstallMissingDriver(),
    "driver-not-in-container": lambda _: PassGpusToContainer(),
    "driver-nouveau": _replace_owner,
    "driver-secure-boot": lambda _: SignModule(),
    "driver-too-old": _install_driver,
    "extension-build-mismatch": _replace_extension,
    "fabric-manager": _start_fabric_manager,
    "framework-cpu-build": _install_cuda_build,
    "framework-cuda-extra-missing": _install_cuda_libraries,
    "framework-missing": _install_framework,
    "framework-package-removed": _install_replacement,
    "glibc-too-old": _use_newer_glibc,
    "gpu-arch-too-new": _serve_newer_gpu,
    "gpu-arch-too-old": partial(_serve_gpu, is_newer=False),
    "gpu-hardware-fault": _follow_xid,
    "host-compiler-too-new": _use_other_compiler,
    "keras-mismatch": _restore_keras_2,
    "library-missing": _install_system_library,
    "numpy-abi": _require("numpy"),
    "platform-no-gpu-wheel": _use_other_platform,
    "program-error": _follow_xid,
    "protobuf-conflict": _require("protobuf"),
    "ptxas-problem": _use_newer_ptxas,
    "python-unsupported": _use_other_python,
    "tensorrt-missing": _install_tensorrt,
    "toolkit-missing": _install_toolkit,
    "toolkit-path-conflict": _use_right_copy,
    "toolkit-wrong-version": _install_toolkit,
    "environment-variable": _change_variable,
    "visible-devices-hidden": lambda values: UnsetVisibleDevices(values.log.place == "slurm"),
}
