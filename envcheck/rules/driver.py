"""The driver: whether it runs, its parts fit, and builds and GPUs work with it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from envcheck.model import (
    AT_RUN,
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    WARNING,
    About,
    Absent,
    Architecture,
    Citation,
    DriverBranch,
    Evidence,
    Finding,
    Fix,
    FollowRow,
    Gpu,
    Known,
    Toolkit,
    Unknown,
    at_least,
    at_least_minor,
    is_older,
    major,
    numbers,
    replace,
    same_release,
)
from envcheck.model.fixes import (
    AddLibcudaFolder,
    BuildDriver,
    ConvertToWsl2,
    InstallDriver,
    InstallKernelModule,
    InstallLibcuda,
    InstallMissingDriver,
    InstallWindowsDriver,
    LoadDriver,
    MatchDriverParts,
    ReleaseFromVirtualMachine,
    RemoveDriverFromWsl,
    RemoveForwardCompatibility,
    RemoveStrayLibcuda,
    RemoveStrayNvml,
    RenewMatrix,
    ReplaceNouveau,
    SignModule,
)
from envcheck.rules.builds import Build
from envcheck.rules.context import Context, UndecidedError, cite, each, incompatible, once, rule
from envcheck.rules.gpu_architecture import (
    TOO_OLD,
    compiled_partly,
    partial_code_citation,
    possible_cuda_builds,
    verdict_on,
)
from envcheck.rules.gpu_releases import driver_floor, full_driver, is_windows_driver, toolkit_of
from envcheck.rules.gpus import (
    JIT,
    JudgedGpu,
    cuda_starts,
    gpu_name,
    is_data_center,
    is_plain_linux,
    judged_gpus,
    was_given_gpus,
)
from envcheck.rules.targets import package_builds

_FOREIGN = ("nouveau", "vfio-pci")


@rule("driver-nouveau", needs=("gpus",))
def driver_nouveau(context: Context, gpus: tuple[Gpu, ...] | None) -> Iterator[Finding]:
    """Report GPUs that nouveau or vfio-pci owns while the NVIDIA driver does not run."""
    if not is_plain_linux(context) or not _driver_absent(context):
        return
    for gpu in gpus or ():
        owner = gpu.kernel_driver
        if isinstance(owner, Known) and owner.value in _FOREIGN:
            owner_text = "vfio-pci, which reserves it for a virtual machine"
            if owner.value == "nouveau":
                owner_text = "the open-source display driver nouveau, which has no CUDA"
            yield incompatible(
                f"{gpu_name(gpu)} is owned by {owner_text}.",
                (context.seen("gpus.kernel_driver", owner),),
                cure=ReplaceNouveau() if owner.value == "nouveau" else ReleaseFromVirtualMachine(),
            )
            return
    nouveau = context.driver.nouveau_loaded.value
    if gpus and nouveau and all(not isinstance(gpu.kernel_driver, Known) for gpu in gpus):
        yield incompatible(
            "The open-source display driver nouveau is loaded,"
            " which has no CUDA, and NVIDIA's driver is not.",
            (context.seen("driver.nouveau_loaded"),),
            cure=ReplaceNouveau(),
        )


def _driver_absent(context: Context) -> bool:
    driver = context.driver
    return (
        not cuda_starts(context)
        and isinstance(driver.kernel_module_version, Absent)
        and driver.release.value is None
    )


def _is_foreign(context: Context) -> bool:
    nouveau = context.driver.nouveau_loaded.value
    owners = [gpu.kernel_driver.value for gpu in context.gpus if gpu.kernel_driver.value]
    return any(owner in _FOREIGN for owner in owners) or (not owners and nouveau is True)


@rule("driver-secure-boot", needs=("gpus",))
def driver_secure_boot(context: Context, gpus: tuple[Gpu, ...] | None) -> Iterator[Finding]:
    """Report a module that is built, not signed, and kept out by Secure Boot."""
    if gpus and _is_unsigned(context):
        yield incompatible(
            "The driver's kernel module is built but not signed, and Secure Boot is on: the kernel"
            " refuses to load it.",
            (
                context.seen("host.secure_boot"),
                context.seen("driver.module_file"),
                context.seen("driver.module_file_signed"),
            ),
            cure=SignModule(),
        )


def _is_unsigned(context: Context) -> bool:
    driver, secure = context.driver, context.host.secure_boot.value
    signed = driver.module_file_signed.value
    return (
        bool(context.gpus)
        and is_plain_linux(context)
        and _driver_absent(context)
        and secure is True
        and driver.module_file.value is not None
        and signed is False
    )


@rule("driver-missing", needs=("gpus",))
def driver_missing(context: Context, gpus: tuple[Gpu, ...] | None) -> Iterator[Finding]:
    """Report GPUs without a working NVIDIA kernel driver, and name what is left of one."""
    if not gpus or cuda_starts(context):
        return
    if context.need(context.driver.release, "driver.release") is not None:
        return
    if context.os == "windows":
        yield _report_missing(
            context,
            "No NVIDIA driver runs on this machine.",
            InstallMissingDriver(),
            "driver.release",
        )
        return
    if not is_plain_linux(context) or _is_foreign(context) or _is_unsigned(context):
        return
    context.need(context.driver.kernel_module_version, "driver.kernel_module_version")
    yield _by_remains(context)


def _by_remains(context: Context) -> Finding:
    driver = context.driver
    kernel = context.host.kernel_release.value
    running = kernel or ""
    modules = driver.dkms.value or ()
    failed = [
        item
        for item in modules
        if item.state in ("failed", "broken") and item.kernel_release in (running, "")
    ]
    if driver.module_file.value:
        return _report_missing(
            context,
            "The NVIDIA driver is installed for this kernel, but its module is not loaded.",
            LoadDriver(),
            "driver.module_file",
        )
    if failed:
        what = (
            f"Building the NVIDIA driver {failed[0].version} for the running kernel {running}"
            " failed (make.log under /var/lib/dkms says why)."
        )
        return _report_missing(context, what, BuildDriver(), "driver.dkms")
    if modules:
        kernels = ", ".join(item.kernel_release or "no kernel" for item in modules)
        what = (
            f"The NVIDIA driver {modules[0].version} is built for {kernels}, not for the running"
            f" kernel {running}."
        )
        return _report_missing(context, what, BuildDriver(), "driver.dkms")
    name = gpu_name(context.gpus[0])
    message = f"{name} is present, but no NVIDIA driver is loaded."
    return _report_missing(context, message, InstallMissingDriver(), "driver.kernel_module_version")


def _report_missing(context: Context, message: str, cure: Fix, fact: str) -> Finding:
    evidence = (
        context.seen(fact),
        context.seen("gpus", shown=", ".join(map(gpu_name, context.gpus))),
    )
    return incompatible(message, evidence, cure=cure)


def _is_driven(context: Context, row: Architecture) -> bool:
    """Say whether the running branch drives an architecture at all.

    Where it does not, that is the cause.
    """
    release = context.driver.release.value
    branch = numbers(release)[0] if release else 0
    first_branch, last_branch = row.first_driver_branch, row.last_driver_branch
    return not (first_branch and branch < int(first_branch)) and not (
        last_branch and branch > int(last_branch)
    )


@rule("driver-missing")
def driver_kind(context: Context) -> Iterator[Finding]:
    """Report a loaded module of the kind (open or proprietary) that cannot drive this GPU."""
    kind = context.driver.kernel_module_kind.value
    if not kind or not context.gpus or cuda_starts(context) or not is_plain_linux(context):
        return
    for item in judged_gpus(context):
        row = item.architecture
        if (
            row is None
            or row.tegra
            or row.kernel_module in ("either", kind)
            or not _is_driven(context, row)
        ):
            continue
        message = (
            f"The loaded NVIDIA kernel module is the {kind} one; {item.name}"
            f" ({row.name}) needs the {row.kernel_module} one."
        )
        evidence = (
            context.seen("driver.kernel_module_kind"),
            cite(f"architectures {item.capability}", f"{row.kernel_module} kernel module", row),
        )
        yield incompatible(message, evidence, cure=InstallKernelModule(row.kernel_module))


_MISMATCH = 803
_NO_COMPAT_HERE = 804
_NVML_MISMATCH = 18


def is_compat(path: str) -> bool:
    """Say whether a libcuda is of a forward-compatibility package, by its path.

    One is /usr/local/cuda-12.9/compat/libcuda.so.575.57.08.
    """
    return re.search(r"/(cuda-compat[^/]*|compat(_\w+)?)/", path) is not None


@rule("forward-compat-misused")
def forward_compat_misused(context: Context) -> Iterator[Finding]:
    """Report a cuda-compat library that hardware or driver do not allow."""
    driver = context.driver
    code = driver.cuda_init_result.value
    path = driver.libcuda_path.value or ""
    if code == 0 or not (code == _NO_COMPAT_HERE or is_compat(path)):
        return
    reason = _why_misused(context, code)
    if reason:
        folder = posixpath.dirname(path)
        evidence = context.known("driver.libcuda_path", "driver.cuda_init_result")
        subject = "A forward-compatibility libcuda is loaded before the driver's own"
        if is_compat(path):
            subject = (
                "The loader finds the forward-compatibility"
                f" libcuda in {folder} before the driver's own"
            )
        cure = RemoveForwardCompatibility(folder) if folder else FollowRow()
        yield incompatible(f"{subject}, and {reason}.", evidence, cure=cure)


def _why_misused(context: Context, code: int | None) -> str:
    driver = context.driver
    if code == _NO_COMPAT_HERE:
        return "this GPU does not allow that (cuInit returned 804); only data-centre GPUs do"
    if code == _MISMATCH:
        return "it does not fit the kernel module (cuInit returned 803)"
    libcuda, kernel = driver.libcuda_version.value, driver.kernel_module_version.value
    if libcuda and kernel:
        if same_release(libcuda, kernel):
            return ""
        if at_least(kernel, libcuda):
            return f"it is older ({libcuda}) than the driver ({kernel})"
    unsupported = next((gpu for gpu in context.gpus if is_data_center(gpu) is False), None)
    if unsupported:
        return f"{gpu_name(unsupported)} does not allow that; only data-centre GPUs do"
    return ""


@rule("driver-library-mismatch")
def driver_library_mismatch(context: Context) -> Iterator[Finding]:
    """Report a kernel module and user-space libraries of different releases."""
    driver, host = context.driver, context.host
    if context.os == "windows" or host.wsl_version.value:
        return
    path = driver.libcuda_path.value or ""
    if is_compat(path):
        return  # forward-compat-misused says it
    signal = _mismatch_signal(context)
    if cuda_starts(context) and (not signal or _cuda_fits(context)):
        yield from _nvml_alone(context, signal)
        return
    kernel = driver.kernel_module_version.value
    cuda = driver.libcuda_version
    nvml = driver.libnvidia_ml_version
    differs = [
        fact
        for fact in (cuda, nvml)
        if kernel and isinstance(fact, Known) and not same_release(kernel, fact.value)
    ]
    if not signal and not differs:
        return
    names = (
        "driver.kernel_module_version",
        "driver.libcuda_version",
        "driver.libnvidia_ml_version",
    )
    evidence = context.known(*names) + signal
    if kernel and isinstance(cuda, Known) and differs == [cuda] and isinstance(nvml, Known):
        context.need(driver.libcuda_path, "driver.libcuda_path")
        yield _report_stray(context, kernel, cuda.value, path, evidence)
        return
    clash = "The loaded kernel module and the driver's libraries are of different releases"
    if kernel and differs:
        clash = (
            f"The loaded kernel module is {kernel}, the driver's libraries are {differs[0].value}"
        )
    message = f"{clash}: the driver was updated and the old module still runs."
    yield incompatible(message, evidence, cure=MatchDriverParts())


def _cuda_fits(context: Context) -> bool:
    kernel = context.driver.kernel_module_version.value
    cuda = context.driver.libcuda_version.value
    return kernel is not None and cuda is not None and same_release(kernel, cuda)


def _nvml_alone(context: Context, signal: tuple[Evidence, ...]) -> Iterator[Finding]:
    """Report an NVML of another release where CUDA itself starts."""
    if signal:
        message = (
            "The driver's management library (NVML) is of another release than the kernel module:"
            " CUDA starts, but nvidia-smi, NCCL and memory reports fail."
        )
        evidence = (
            *signal,
            context.seen("driver.cuda_init_result"),
            context.seen("driver.libnvidia_ml_path"),
        )
        yield incompatible(message, evidence, severity=WARNING, cure=RemoveStrayNvml())


def _mismatch_signal(context: Context) -> tuple[Evidence, ...]:
    codes = (
        ("driver.nvml_result", _NVML_MISMATCH),
        ("driver.smi_exit_code", _NVML_MISMATCH),
        ("driver.cuda_init_result", _MISMATCH),
    )
    return tuple(context.seen(name) for name, code in codes if context.fact(name).value == code)


def _report_stray(
    context: Context, kernel: str, cuda: str, path: str, evidence: tuple[Evidence, ...]
) -> Finding:
    folder = posixpath.dirname(path)
    message = (
        f"The loader finds libcuda {cuda} in {folder}, but the driver is {kernel}: a stray copy"
        " comes before the driver's own."
    )
    evidence = (*evidence, context.seen("driver.libcuda_path"))
    return incompatible(message, evidence, cure=RemoveStrayLibcuda(folder))


@rule("libcuda-not-on-path")
def libcuda_not_on_path(context: Context) -> Iterator[Finding]:
    """Report a running driver whose libcuda.so.1 the loader does not find."""
    driver, host = context.driver, context.host
    if (
        cuda_starts(context)
        or not context.gpus
        or (not driver.release.value and not host.wsl_version.value)
        or isinstance(driver.libcuda_path, Known)
    ):
        return
    in_container = context.need(host.container, "host.container")
    if in_container and not (
        was_given_gpus(context) and driver.libcuda_elsewhere.value is not None
    ):
        return  # driver-not-in-container says it
    context.need(driver.libcuda_path, "driver.libcuda_path")
    paths = [
        path
        for path in driver.libcuda_elsewhere.value or ()
        if "/stubs/" not in path and not is_compat(path)
    ]
    if not paths and host.wsl_version.value:
        return  # driver-wsl says it
    evidence = [context.seen("driver.libcuda_path")]
    if not paths:
        message = "The kernel driver runs, but its library libcuda.so.1 is not installed."
        yield incompatible(message, tuple(evidence), cure=InstallLibcuda())
        return
    folder = posixpath.dirname(paths[0])
    message = f"libcuda.so.1 is in {folder}, where the loader does not look."
    evidence.append(context.seen("driver.libcuda_elsewhere", shown=", ".join(paths)))
    yield incompatible(message, tuple(evidence), cure=AddLibcudaFolder(folder))


_ID = "driver-too-old"


@rule(_ID)
def driver_too_old(context: Context) -> Iterator[Finding]:
    """Compare the driver with what each build's CUDA needs.

    Minor-version compatibility and its limit, PTX.
    """
    yield from each(possible_cuda_builds(context), lambda build: _driver_of_build(context, build))
    yield from _packages_above_driver(context)


def _driver_of_build(context: Context, build: Build) -> Iterator[Finding]:
    cuda = context.need(build.cuda, f"{build.label}: CUDA version")
    if cuda is None:
        return
    toolkit = toolkit_of(context, cuda)
    if toolkit is None:
        yield _unknown_row(f"CUDA {cuda}, which {build.label} was built with,", build.citations)
        return
    finding = _below_floor(context, build, toolkit) or _ptx_too_new(context, build, toolkit)
    if finding is not None:
        yield finding


@rule(_ID, severity=NOTE)
def driver_needed(context: Context) -> Iterator[Finding]:
    """Name the driver that builds need where nobody states one.

    Warn where a CUDA Toolkit beside them needs less.
    """
    if context.driver.release != AT_RUN:
        return
    versions = [item.version.value for item in context.toolkits.installs.value or ()]
    own = [(version, driver_floor(context, toolkit_of(context, version))) for version in versions]
    for build in possible_cuda_builds(context):
        toolkit = toolkit_of(context, build.cuda.value)
        floor = driver_floor(context, toolkit)
        if toolkit is None or not floor:
            continue
        message = (
            f"{build.label} is built for CUDA {build.cuda.value}, so it needs driver >= {floor}."
        )
        lower = next(
            ((version, other) for version, other in own if other and is_older(other, floor)), None
        )
        if lower:
            message += f" The CUDA Toolkit {lower[0]} beside it alone needs {lower[1]}."
        evidence = (cite(f"CUDA Toolkit {toolkit.version}", f"driver >= {floor}", toolkit),)
        yield Finding("", COMPATIBLE, WARNING if lower else NOTE, message, evidence)


@once
def is_below_floor(context: Context, cuda: str) -> bool:
    """Return whether `driver_too_old` finds every build for a CUDA version too new."""
    toolkit = toolkit_of(context, cuda)
    try:
        return toolkit is not None and _find_shortfall(context, "", toolkit) is not None
    except UndecidedError:
        return False


def is_ptx_too_new(context: Context, build: Build) -> bool:
    """Return whether `driver_too_old` finds PTX that the driver cannot compile here."""
    toolkit = toolkit_of(context, build.cuda.value)
    return toolkit is not None and _ptx_too_new(context, build, toolkit) is not None


def _packages_above_driver(context: Context) -> Iterator[Finding]:
    """Compare the driver with the CUDA majors that packages alone bring.

    What a framework needs is said of it.
    """
    majors = {major(build.cuda.value) for build in possible_cuda_builds(context)}
    for build in package_builds(context):
        cuda = build.cuda.value or ""
        toolkit = toolkit_of(context, "" if major(cuda) in majors else cuda)
        finding = _below_floor(context, build, toolkit) if toolkit else None
        majors.add(major(cuda))
        if finding is not None:
            yield finding


def _below_floor(context: Context, build: Build, toolkit: Toolkit) -> Finding | None:
    shortfall = _find_shortfall(context, build.label, toolkit)
    return _too_old(context, build, toolkit, shortfall) if shortfall else None


def _find_shortfall(context: Context, label: str, toolkit: Toolkit) -> Shortfall | None:
    """Say what the driver lacks to run builds for a toolkit; None where it runs them."""
    floor = driver_floor(context, toolkit)
    release = context.driver.release.value
    # A Jetson numbers its driver in its own way; what it says of CUDA counts there.
    if not release or floor is None or context.host.jetson_release.value:
        return _by_cuda_version(context, toolkit, floor)
    is_reached = at_least(release, floor)
    if is_reached is None:
        detail = f"the driver is only known as {release}; {label} needs {floor}"
        raise UndecidedError("driver.release", Unknown("unparsable", detail))
    if is_reached or _runs_ahead(context, toolkit):
        return None
    return Shortfall(
        f"needs driver >= {floor}; this machine runs {release}", "driver.release", floor
    )


def _runs_ahead(context: Context, toolkit: Toolkit) -> bool:
    # Forward compatibility: a newer user-space driver (cuda-compat) was seen to start on this
    # kernel module.
    version = context.driver.cuda_driver_version.value
    return cuda_starts(context) and version is not None and at_least_minor(version, toolkit.version)


def _by_cuda_version(context: Context, toolkit: Toolkit, floor: str | None) -> Shortfall | None:
    """Decide by what the driver says of CUDA, where its release is no help."""
    version = context.driver.cuda_driver_version
    if not isinstance(version, Known):
        if context.need(context.driver.release, "driver.release") is not None:
            context.need(version, "driver.cuda_driver_version")
        return None  # no driver at all: another rule's finding
    has_minor = toolkit.minor_floor_linux is not None
    required = major(toolkit.version) if has_minor else toolkit.version
    if at_least_minor(version.value, required):
        return None
    needs = f"needs a driver for CUDA {required}; this one goes up to CUDA {version.value}"
    return Shortfall(needs, "driver.cuda_driver_version", floor)


def _ptx_too_new(context: Context, build: Build, toolkit: Toolkit) -> Finding | None:
    """Minor-version compatibility ends where PTX must be compiled.

    A driver reads that of its own CUDA at most.
    """
    ceiling = _cuda_ceiling(context)
    if ceiling is None or at_least_minor(ceiling, toolkit.version) or not context.gpus:
        return None
    for item in judged_gpus(context):
        ptx = _ptx_of(context, build, toolkit, item)
        if ptx is None or at_least_minor(ceiling, ptx.version):
            continue
        full = full_driver(context, ptx)
        is_jit = verdict_on(context, build, item).kind == JIT
        needs = (
            f"has only PTX of CUDA {ptx.version} for"
            f" {item.name}{'' if is_jit else ' in most kernels'}. This driver compiles PTX"
            f" up to CUDA {ceiling}; the build needs driver >= {full or 'one of that CUDA'}"
        )
        fact = "driver.cuda_driver_version"
        if context.driver.release.value:
            fact = "driver.release"
        finding = _too_old(context, build, toolkit, Shortfall(needs, fact, full))
        if is_jit:
            return finding
        shown = f"PTX of CUDA {ptx.version}"
        partial = Evidence(f"kernels of {build.label}", shown, citation=partial_code_citation())
        return replace(finding, evidence=(*finding.evidence, partial))
    return None


def _ptx_of(context: Context, build: Build, toolkit: Toolkit, item: JudgedGpu) -> Toolkit | None:
    """Return the toolkit of the PTX that the driver must compile for a GPU.

    Return None where it need not.
    """
    if item.architecture is None or build.compute_capabilities.value is None:
        return None
    if verdict_on(context, build, item).kind == JIT:
        return toolkit
    return context.matrix.toolkit(compiled_partly(context, build, item.capability) or "")


def _cuda_ceiling(context: Context) -> str | None:
    branch = _find_branch(context)
    return context.driver.cuda_driver_version.value or (branch.cuda if branch else None)


class Shortfall(NamedTuple):
    """What a driver lacks: in words, the fact that shows it, and the driver that would do."""

    needs: str
    seen: str
    floor: str | None


def _too_old(context: Context, build: Build, toolkit: Toolkit, shortfall: Shortfall) -> Finding:
    floor = "driver not stated"
    if shortfall.floor:
        floor = f"driver >= {shortfall.floor}"
    evidence = [
        context.seen(shortfall.seen),
        cite(f"toolkits {toolkit.version}", floor, toolkit),
    ]
    if build.citations:
        origin = f"built with CUDA {toolkit.version}"
        evidence.append(cite(f"matrix {build.label}", origin, build))
    message = f"{build.label} was built with CUDA {toolkit.version} and {shortfall.needs}."
    floor = shortfall.floor or ""
    about = About(build.framework, build.distribution)
    cure = InstallDriver(
        floor, cuda=toolkit.version, framework=build.framework, distribution=build.distribution
    )
    return incompatible(message, tuple(evidence), cure=cure, about=about)


@rule(_ID, TOO_OLD)
def driver_branch(context: Context) -> Iterator[Finding]:
    """Find driver branches that do not drive a GPU, and those that the matrix lacks."""
    release = context.driver.release.value
    if release and context.gpus and _has_branch(context) and _find_branch(context) is None:
        yield _unknown_row(
            f"Driver branch {release.split('.')[0]}", (), context.seen("driver.release")
        )
    branch = _find_branch(context)
    # With CUDA seen to start there is no doubt that the branch drives a GPU.
    if branch is None or not context.gpus or cuda_starts(context):
        return
    for item in judged_gpus(context):
        row = item.architecture
        if row is None or row.tegra:
            continue
        number, first, last = int(branch.branch), row.first_driver_branch, row.last_driver_branch
        if first and number < int(first):
            finding_id, cure = _ID, InstallDriver(first)
            reason = f"the first branch that drives it is {first}"
        elif last and number > int(last):
            finding_id, cure = TOO_OLD, InstallDriver(last, exact=True)
            reason = f"the last branch that drives it is {last}"
        else:
            continue
        evidence = (
            context.seen("driver.release"),
            cite(f"architectures {item.capability}", reason, row),
        )
        message = f"Driver branch {number} does not drive {item.label}: {reason}."
        yield incompatible(message, evidence, finding_id=finding_id, cure=cure)


def _has_branch(context: Context) -> bool:
    """Say whether the driver is one of the Linux branches.

    Windows and a board's system image number their own.
    """
    is_named = context.need(context.host.os, "host.os") is not None
    return is_named and not is_windows_driver(context) and not context.host.jetson_release.value


@once
def _find_branch(context: Context) -> DriverBranch | None:
    release = context.driver.release.value
    if not release or context.host.jetson_release.value:
        return None
    if not is_windows_driver(context):
        return context.matrix.driver_branch(release)
    # Windows numbers on from a branch to the next: 474.44 is of R470. Where the newest one ends is
    # not known.
    rows, number = context.matrix.driver_branches(), numbers(release)[:1]
    older = (row for row in rows[1:] if numbers(row.branch) <= number)
    if number and number < numbers(rows[0].branch):
        return next(older, None)
    return None


def _unknown_row(subject: str, citations: tuple[Citation, ...], *facts: Evidence) -> Finding:
    evidence = facts or tuple(
        Evidence("matrix", subject, citation=citation) for citation in citations[:1]
    )
    return Finding(
        "release-unknown",
        UNDETERMINED,
        ERROR,
        f"{subject} is not in the compatibility matrix, so what it works with is unknown.",
        evidence,
        cure=RenewMatrix(),
    )


_WSL_FOLDER = "/usr/lib/wsl/"


@rule("driver-wsl", goal="any")
def driver_wsl(context: Context) -> Iterator[Finding]:
    """Report what only WSL gets wrong.

    WSL 1, no Windows driver behind it, a Linux driver inside it.
    """
    version = context.host.wsl_version.value
    if not version or context.expect == "cpu":
        return
    if version == 1:
        severity = ERROR if context.expect == "gpu" else NOTE
        yield _report_in_wsl(
            context,
            severity,
            "This is WSL 1, which has no GPU support; WSL 2 has it.",
            "host.wsl_version",
            ConvertToWsl2(),
        )
        return
    if (
        isinstance(context.facts.gpus, Absent)
        or cuda_starts(context)
        or context.host.container.value
    ):
        return
    driver = context.driver
    path = driver.libcuda_path
    packages = driver.packages.value or {}
    installed = sorted(
        name
        for name in packages
        if re.match(r"(libnvidia-compute|nvidia-driver|libcuda1|nvidia-kernel)", name)
    )
    if (
        path.value is not None
        and not path.value.startswith(_WSL_FOLDER)
        and not is_compat(path.value)
    ):
        detail = f" (packages {', '.join(installed[:3])})" if installed else ""
        yield _report_in_wsl(
            context,
            ERROR,
            f"A Linux driver is installed inside WSL{detail}: its {path.value} hides the one that"
            " Windows provides.",
            "driver.libcuda_path",
            RemoveDriverFromWsl(tuple(installed)),
        )
    elif isinstance(path, Absent) and not isinstance(driver.libcuda_elsewhere, Known):
        context.need(driver.libcuda_elsewhere, "driver.libcuda_elsewhere")
        yield _report_in_wsl(
            context,
            ERROR,
            "Windows passes a GPU through, but no driver library: /usr/lib/wsl/lib has no"
            " libcuda.so.1. The Windows driver is missing or too old for WSL.",
            "driver.libcuda_path",
            InstallWindowsDriver(),
        )


def _report_in_wsl(context: Context, severity: str, message: str, fact: str, cure: Fix) -> Finding:
    verdict = COMPATIBLE if severity == NOTE else INCOMPATIBLE
    evidence = (context.seen("host.wsl_version"), context.seen(fact))
    return Finding("driver-wsl", verdict, severity, message, evidence, cure=cure)
