"""The driver: whether it runs, its parts fit, and programs reach the GPUs through it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from envcheck.model import (
    AT_RUN,
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    WARNING,
    Absent,
    DeviceNode,
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
    same_release,
)
from envcheck.model.fixes import (
    AddLibcudaFolder,
    BuildDriver,
    ConvertToWsl2,
    CreateDeviceNode,
    FindGpuUser,
    InstallDriver,
    InstallKernelModule,
    InstallLibcuda,
    InstallMissingDriver,
    InstallWindowsDriver,
    LoadDriver,
    MatchDriverParts,
    OpenDeviceNode,
    PassGpusToContainer,
    ReadKernelLog,
    ReleaseFromVirtualMachine,
    ReloadMemoryModule,
    RemoveDriverFromWsl,
    RemoveForwardCompatibility,
    RemoveFromLibraryPath,
    RemoveStrayLibcuda,
    RemoveStrayNvml,
    RenewMatrix,
    ReplaceNouveau,
    RequestGpusFromRuntime,
    RestoreDevices,
    ServiceGpu,
    SignModule,
    StartFabricManager,
    UnsetVisibleDevices,
)
from envcheck.rules.builds import Build
from envcheck.rules.context import Context, Seen, cite, each, once, rule
from envcheck.rules.gpu_architecture import (
    TOO_OLD,
    compiled_partly,
    partial_code_citation,
    possible_cuda_builds,
    verdict_on,
)
from envcheck.rules.gpu_releases import (
    JIT,
    JudgedGpu,
    Shortfall,
    cuda_starts,
    driver_floor,
    find_shortfall,
    full_driver,
    gpu_name,
    hides_any_gpu,
    is_data_center,
    is_plain_linux,
    is_windows_driver,
    judged_gpus,
    numbered_gpus,
    toolkit_of,
    visible_selection,
    was_given_gpus,
)
from envcheck.rules.targets import judged_builds, package_builds

_FOREIGN: dict[str | None, tuple[str, Fix]] = {
    "nouveau": (
        "the open-source display driver nouveau, which has no CUDA",
        ReplaceNouveau(),
    ),
    "vfio-pci": (
        "vfio-pci, which reserves it for a virtual machine",
        ReleaseFromVirtualMachine(),
    ),
}


@rule("driver-nouveau", needs=("gpus",))
def driver_nouveau(context: Context, gpus: tuple[Gpu, ...] | None) -> Iterator[Finding]:
    """Report GPUs that nouveau or vfio-pci owns while the NVIDIA driver does not run."""
    if not is_plain_linux(context) or not _driver_absent(context):
        return
    for gpu in gpus or ():
        if gpu.kernel_driver.value in _FOREIGN:
            words, cure = _FOREIGN[gpu.kernel_driver.value]
            seen = context.seen("gpus.kernel_driver", gpu.kernel_driver)
            yield context.report(f"{gpu_name(gpu)} is owned by {words}.", seen, cure=cure)
            return
    is_loaded = context.driver.nouveau_loaded.value
    if gpus and is_loaded and not any(gpu.kernel_driver.value for gpu in gpus):
        yield context.report(
            "The open-source display driver nouveau is loaded,"
            " which has no CUDA, and NVIDIA's driver is not.",
            "driver.nouveau_loaded",
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
        yield context.report(
            "The driver's kernel module is built but not signed, and Secure Boot is on: the kernel"
            " refuses to load it.",
            "host.secure_boot",
            "driver.module_file",
            "driver.module_file_signed",
            cure=SignModule(),
        )


def _is_unsigned(context: Context) -> bool:
    driver, secure = context.driver, context.host.secure_boot.value
    signed = driver.module_file_signed.value
    return (
        is_plain_linux(context)
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
        message, fact = "No NVIDIA driver runs on this machine.", "driver.release"
        cure: Fix = InstallMissingDriver()
    elif not is_plain_linux(context) or _is_foreign(context) or _is_unsigned(context):
        return
    else:
        context.need(context.driver.kernel_module_version, "driver.kernel_module_version")
        message, fact, cure = _describe_remains(context)
    yield context.report(message, fact, ("gpus", ", ".join(map(gpu_name, gpus))), cure=cure)


def _describe_remains(context: Context) -> tuple[str, str, Fix]:
    """Say what is left of a driver, the fact that shows it, and what to do."""
    if context.driver.module_file.value:
        message = "The NVIDIA driver is installed for this kernel, but its module is not loaded."
        return message, "driver.module_file", LoadDriver()
    running = context.host.kernel_release.value or ""
    modules = context.driver.dkms.value or ()
    for item in modules:
        if item.state in ("failed", "broken") and item.kernel_release in (running, ""):
            message = (
                f"Building the NVIDIA driver {item.version} for the running kernel {running}"
                " failed (make.log under /var/lib/dkms says why)."
            )
            return message, "driver.dkms", BuildDriver()
    if modules:
        kernels = ", ".join(item.kernel_release or "no kernel" for item in modules)
        message = (
            f"The NVIDIA driver {modules[0].version} is built for {kernels}, not for the running"
            f" kernel {running}."
        )
        return message, "driver.dkms", BuildDriver()
    message = f"{gpu_name(context.gpus[0])} is present, but no NVIDIA driver is loaded."
    return message, "driver.kernel_module_version", InstallMissingDriver()


@rule("driver-missing")
def driver_kind(context: Context) -> Iterator[Finding]:
    """Report a loaded module of the kind (open or proprietary) that cannot drive this GPU."""
    kind = context.driver.kernel_module_kind.value
    if not kind or not context.gpus or cuda_starts(context) or not is_plain_linux(context):
        return
    branch = next(iter(numbers(context.driver.release.value)), 0)
    for item in judged_gpus(context):
        row = item.architecture
        if row is None or row.tegra or row.kernel_module in ("either", kind):
            continue
        if not row.is_driven_by(branch):
            continue  # that is the cause
        yield context.report(
            f"The loaded NVIDIA kernel module is the {kind} one; {item.name}"
            f" ({row.name}) needs the {row.kernel_module} one.",
            "driver.kernel_module_kind",
            cite(f"architectures {item.capability}", f"{row.kernel_module} kernel module", row),
            cure=InstallKernelModule(row.kernel_module),
        )


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
        subject = "A forward-compatibility libcuda is loaded before the driver's own"
        if is_compat(path):
            subject = (
                "The loader finds the forward-compatibility"
                f" libcuda in {folder} before the driver's own"
            )
        cure = RemoveForwardCompatibility(folder) if folder else FollowRow()
        evidence = context.known("driver.libcuda_path", "driver.cuda_init_result")
        yield context.report(f"{subject}, and {reason}.", *evidence, cure=cure)


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
    kernel, cuda = driver.kernel_module_version.value, driver.libcuda_version.value
    nvml = driver.libnvidia_ml_version.value
    known = [version for version in (cuda, nvml) if kernel and version]
    differs = [version for version in known if not same_release(str(kernel), version)]
    if cuda_starts(context) and (not signal or (cuda in known and cuda not in differs)):
        if signal:
            yield context.report(
                "The driver's management library (NVML) is of another release than the kernel"
                " module: CUDA starts, but nvidia-smi, NCCL and memory reports fail.",
                *signal,
                "driver.cuda_init_result",
                "driver.libnvidia_ml_path",
                severity=WARNING,
                cure=RemoveStrayNvml(),
            )
        return
    if not signal and not differs:
        return
    names = (
        "driver.kernel_module_version",
        "driver.libcuda_version",
        "driver.libnvidia_ml_version",
    )
    evidence = context.known(*names) + signal
    if cuda and nvml and differs == [cuda]:
        context.need(driver.libcuda_path, "driver.libcuda_path")
        folder = posixpath.dirname(path)
        yield context.report(
            f"The loader finds libcuda {cuda} in {folder}, but the driver is {kernel}: a stray copy"
            " comes before the driver's own.",
            *evidence,
            "driver.libcuda_path",
            cure=RemoveStrayLibcuda(folder),
        )
        return
    clash = "The loaded kernel module and the driver's libraries are of different releases"
    if differs:
        clash = f"The loaded kernel module is {kernel}, the driver's libraries are {differs[0]}"
    yield context.report(
        f"{clash}: the driver was updated and the old module still runs.",
        *evidence,
        cure=MatchDriverParts(),
    )


def _mismatch_signal(context: Context) -> tuple[Evidence, ...]:
    codes = (
        ("driver.nvml_result", _NVML_MISMATCH),
        ("driver.smi_exit_code", _NVML_MISMATCH),
        ("driver.cuda_init_result", _MISMATCH),
    )
    return tuple(context.seen(name) for name, code in codes if context.fact(name).value == code)


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
    if not paths:
        message = "The kernel driver runs, but its library libcuda.so.1 is not installed."
        yield context.report(message, "driver.libcuda_path", cure=InstallLibcuda())
        return
    folder = posixpath.dirname(paths[0])
    yield context.report(
        f"libcuda.so.1 is in {folder}, where the loader does not look.",
        "driver.libcuda_path",
        ("driver.libcuda_elsewhere", ", ".join(paths)),
        cure=AddLibcudaFolder(folder),
    )


_TOO_OLD = "driver-too-old"


@rule(_TOO_OLD)
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
        subject = f"CUDA {cuda}, which {build.label} was built with,"
        cited = (cite("matrix", subject, build),) if build.citations else ()
        yield context.report_unlisted(subject, "what it works with", *cited, cure=RenewMatrix())
        return
    shortfall = find_shortfall(context, build.label, toolkit)
    if shortfall:
        yield _too_old(context, build, toolkit, shortfall)
        return
    finding = _ptx_too_new(context, build, toolkit)
    if finding is not None:
        yield finding


@rule(_TOO_OLD, severity=NOTE)
def driver_needed(context: Context) -> Iterator[Finding]:
    """Name the driver that builds need where nobody states one.

    Warn where a CUDA Toolkit beside them needs less.
    """
    if context.driver.release != AT_RUN:
        return
    versions = [item.version.value for item in context.installs]
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
        yield context.report(
            message,
            cite(f"CUDA Toolkit {toolkit.version}", f"driver >= {floor}", toolkit),
            verdict=COMPATIBLE,
            severity=WARNING if lower else NOTE,
        )


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
        majors.add(major(cuda))
        shortfall = find_shortfall(context, build.label, toolkit) if toolkit else None
        if toolkit and shortfall:
            yield _too_old(context, build, toolkit, shortfall)


def _ptx_too_new(context: Context, build: Build, toolkit: Toolkit) -> Finding | None:
    """Find PTX that must be compiled, where minor-version compatibility ends."""
    if compiles_ptx(context, toolkit.version) or not context.gpus:
        return None
    for item in judged_gpus(context):
        ptx = _ptx_of(context, build, toolkit, item)
        if ptx is None or compiles_ptx(context, ptx.version):
            continue
        full = full_driver(context, ptx)
        is_jit = verdict_on(context, build, item).kind == JIT
        needs = (
            f"has only PTX of CUDA {ptx.version} for"
            f" {item.name}{'' if is_jit else ' in most kernels'}. This driver compiles PTX"
            f" up to CUDA {cuda_ceiling(context)}; the build needs driver >="
            f" {full or 'one of that CUDA'}"
        )
        fact = "driver.release" if context.driver.release.value else "driver.cuda_driver_version"
        shown, partial = f"PTX of CUDA {ptx.version}", list[Evidence]()
        if not is_jit:
            citation = partial_code_citation()
            partial.append(Evidence(f"kernels of {build.label}", shown, citation=citation))
        return _too_old(context, build, toolkit, Shortfall(needs, fact, full), *partial)
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


def compiles_ptx(context: Context, cuda: str) -> bool:
    """Return whether the driver can compile PTX of a CUDA version; true where that is unknown."""
    ceiling = cuda_ceiling(context)
    return ceiling is None or at_least_minor(ceiling, cuda)


def cuda_ceiling(context: Context) -> str | None:
    """Return the newest CUDA version that the driver supports, by its report or its branch."""
    branch = _find_branch(context)
    return context.driver.cuda_driver_version.value or (branch.cuda if branch else None)


def _too_old(
    context: Context, build: Build, toolkit: Toolkit, shortfall: Shortfall, *more: Evidence
) -> Finding:
    floor = f"driver >= {shortfall.floor}" if shortfall.floor else "driver not stated"
    cited = list[Evidence]()
    if build.citations:
        cited.append(cite(f"matrix {build.label}", f"built with CUDA {toolkit.version}", build))
    return context.report(
        f"{build.label} was built with CUDA {toolkit.version} and {shortfall.needs}.",
        shortfall.seen,
        cite(f"toolkits {toolkit.version}", floor, toolkit),
        *cited,
        *more,
        cure=InstallDriver(
            shortfall.floor or "",
            cuda=toolkit.version,
            framework=build.framework,
            distribution=build.distribution,
        ),
        about=build.about,
    )


@rule(_TOO_OLD, TOO_OLD)
def driver_branch(context: Context) -> Iterator[Finding]:
    """Find driver branches that do not drive a GPU, and those that the matrix lacks."""
    release = context.driver.release.value
    branch = _find_branch(context)
    if release and context.gpus and _has_branch(context) and branch is None:
        yield context.report_unlisted(
            f"Driver branch {major(release)}",
            "what it works with",
            "driver.release",
            cure=RenewMatrix(),
        )
    # With CUDA seen to start there is no doubt that the branch drives a GPU.
    if branch is None or not context.gpus or cuda_starts(context):
        return
    for item in judged_gpus(context):
        row = item.architecture
        if row is None or row.tegra:
            continue
        number, first, last = int(branch.branch), row.first_driver_branch, row.last_driver_branch
        if first and number < int(first):
            finding_id, cure = _TOO_OLD, InstallDriver(first)
            reason = f"the first branch that drives it is {first}"
        elif last and number > int(last):
            finding_id, cure = TOO_OLD, InstallDriver(last, exact=True)
            reason = f"the last branch that drives it is {last}"
        else:
            continue
        yield context.report(
            f"Driver branch {number} does not drive {item.label}: {reason}.",
            "driver.release",
            cite(f"architectures {item.capability}", reason, row),
            finding_id=finding_id,
            cure=cure,
        )


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
        is_wrong = context.expect == "gpu"
        yield context.report(
            "This is WSL 1, which has no GPU support; WSL 2 has it.",
            "host.wsl_version",
            verdict=INCOMPATIBLE if is_wrong else COMPATIBLE,
            severity=ERROR if is_wrong else NOTE,
            cure=ConvertToWsl2(),
        )
        return
    if context.lacks_gpu or cuda_starts(context) or context.host.container.value:
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
        yield context.report(
            f"A Linux driver is installed inside WSL{detail}: its {path.value} hides the one that"
            " Windows provides.",
            "host.wsl_version",
            "driver.libcuda_path",
            cure=RemoveDriverFromWsl(tuple(installed)),
        )
    elif isinstance(path, Absent) and not isinstance(driver.libcuda_elsewhere, Known):
        context.need(driver.libcuda_elsewhere, "driver.libcuda_elsewhere")
        yield context.report(
            "Windows passes a GPU through, but no driver library: /usr/lib/wsl/lib has no"
            " libcuda.so.1. The Windows driver is missing or too old for WSL.",
            "host.wsl_version",
            "driver.libcuda_path",
            cure=InstallWindowsDriver(),
        )


_DEVICE_NODES = "driver-device-nodes"
_UVM = "/dev/nvidia-uvm"
_NO_DEVICE, _UNKNOWN_ERROR = 100, 999  # of cuInit; NVML has the second one, too


@rule(_DEVICE_NODES)
def driver_device_nodes(context: Context) -> Iterator[Finding]:
    """Report device nodes that are missing or closed to this user, where CUDA does not start."""
    if not _is_asked(context):
        return
    nodes = context.need(context.driver.device_nodes, "driver.device_nodes") or ()
    unopened = (node for node in nodes if _matters(node) and node.accessible.value is False)
    closed = next(unopened, None)
    if closed is not None:
        yield _report_closed(context, closed)
        return
    result = context.need(context.driver.cuda_init_result, "driver.cuda_init_result")
    paths = tuple(node.path for node in nodes)
    # The nodes appear on demand, made by the setuid nvidia-modprobe: one that is missing matters
    # once CUDA fails.
    missing = _find_missing(context, paths)
    is_barred = context.driver.nvml_result.value == _UNKNOWN_ERROR
    if result == _NO_DEVICE and not missing and is_barred:
        yield _blocked_access(context, paths)
    elif result == _UNKNOWN_ERROR or (result == _NO_DEVICE and missing):
        yield _report_failing(context, missing, paths, result)


def _find_missing(context: Context, paths: tuple[str, ...]) -> str:
    """Name the first node that CUDA cannot do without.

    Any one of a GPU will do, as in a container.
    """
    gpus = {node.path for node in context.gpu_nodes}
    required = (_UVM, next(iter(gpus), "/dev/nvidia0"), "/dev/nvidiactl")
    return next((path for path in required if path not in paths), "")


def _is_asked(context: Context) -> bool:
    host = context.host
    if not context.gpus or not context.driver.kernel_module_version.value or cuda_starts(context):
        return False
    if host.wsl_version.value or host.jetson_release.value:
        return False
    # A container without any GPU's node is the finding of driver-not-in-container.
    return not host.container.value or was_given_gpus(context)


def _matters(node: DeviceNode) -> bool:
    name = node.path[len("/dev/nvidia") :]
    return name in ("ctl", "-uvm") or name.isdigit()


def _report_closed(context: Context, node: DeviceNode) -> Finding:
    return context.report(
        f"This user cannot open {node.path} ({node.mode or 'mode unknown'});"
        " CUDA needs to read and write it.",
        context.seen(node.path, node.accessible),
        cure=OpenDeviceNode(node.path),
    )


def _blocked_access(context: Context, paths: tuple[str, ...]) -> Finding:
    blame = "Job systems do this to a job without a GPU."
    if context.host.container.value:
        blame = "A container loses its devices when systemd reloads on the host."
    return context.report(
        "The device nodes exist, but neither NVML (Unknown Error) nor CUDA (no device) reaches a"
        f" GPU: the kernel blocks access. {blame}",
        ("driver.device_nodes", " ".join(paths)),
        *context.known("driver.nvml_result", "driver.cuda_init_result", "host.container"),
        cure=RestoreDevices(),
    )


def _report_failing(
    context: Context, missing: str, paths: tuple[str, ...], result: int | None
) -> Finding:
    end = f"CUDA does not start (cuInit returned {result})"
    if missing:
        message = f"The device node {missing} is missing, and {end}."
    else:
        message = f"{end}, although the device nodes exist."
    needs_node = missing or context.host.container.value
    cure = CreateDeviceNode(missing or _UVM) if needs_node else ReloadMemoryModule()
    return context.report(
        message,
        ("driver.device_nodes", " ".join(paths) or "none"),
        "driver.cuda_init_result",
        "driver.uvm_loaded",
        cure=cure,
    )


_WSL_LIBRARIES = "/usr/lib/wsl/"


def _is_stated(context: Context) -> bool:
    """Say whether the driver and every GPU are stated by ENVCHECK_* variables, not read."""
    facts = [context.driver.release, *(gpu.compute_capability for gpu in context.gpus)]
    return len(facts) > 1 and all(
        isinstance(fact, Known) and fact.source.kind == "override" for fact in facts
    )


@rule("driver-not-in-container", goal="any")
def driver_not_in_container(context: Context) -> Iterator[Finding]:
    """Report a container without GPU devices or the driver's libraries."""
    if context.expect == "cpu" or not context.host.container.value:
        return
    if cuda_starts(context) or context.host.jetson_release.value or context.asks_runtime is False:
        return
    wants = wants_gpu(context) or _driver_handed_in(context)
    if context.lacks_gpu and not context.hides_host_gpus:
        return  # the host itself has none: gpu-absent says it
    if _is_stated(context) and context.driver.libcuda_path != AT_RUN:
        return  # it is another machine that is judged: this one may be where an image is built
    if (context.driver.libcuda_path.value or "").startswith(_WSL_LIBRARIES):
        return  # WSL hands in its driver without device nodes
    nodes = context.need(context.driver.device_nodes, "driver.device_nodes")
    if not was_given_gpus(context):
        yield _not_given(context, wants)
    elif (
        nodes is not None and isinstance(context.driver.libcuda_path, Absent) and wants is not None
    ):
        yield _no_library(context)


def _not_given(context: Context, wants: Seen | None) -> Finding:
    return context.report(
        f"No GPU is passed through to this {context.host.container.value} container: it has no"
        " /dev/nvidia0.",
        "driver.device_nodes",
        "host.container",
        *([wants] if wants else []),
        verdict=INCOMPATIBLE if wants else COMPATIBLE,
        severity=ERROR if wants else NOTE,
        cure=PassGpusToContainer(),
    )


def _no_library(context: Context) -> Finding:
    capabilities = context.environment.get("NVIDIA_DRIVER_CAPABILITIES", "")
    limited = capabilities and "compute" not in capabilities and "all" not in capabilities
    reason = ""
    if limited:
        reason = f": NVIDIA_DRIVER_CAPABILITIES={capabilities} leaves out compute"
    return context.report(
        f"This container has the GPU's devices but not the driver's library libcuda.so.1{reason}.",
        "driver.libcuda_path",
        "driver.device_nodes",
        cure=PassGpusToContainer(lacks_library=True),
    )


def _driver_handed_in(context: Context) -> Seen | None:
    """Return the driver's own libcuda: only the container runtime puts it into a container."""
    library = context.driver.libcuda_path.value
    if library and not any(part in library for part in ("/compat/", "/stubs/")):
        return "driver.libcuda_path"
    return None


def wants_gpu(context: Context) -> Seen | None:
    """Return what in the container or the request asks for a GPU."""
    if context.expect == "gpu":
        return Evidence("target expect", "gpu")
    if context.names_releases:
        return Evidence("target requirements", ", ".join(context.target.requirements))
    name = "NVIDIA_VISIBLE_DEVICES"
    if context.asks_runtime:
        value = context.environment[name]
        return context.seen(f"host.environment {name}", context.host.environment, value)
    build = next((item for item in judged_builds(context) if item.cuda_build.value), None)
    if build is not None:
        return ("python.frameworks", f"{build.label} is a CUDA build")
    if context.installs:
        return ("toolkits.installs", context.installs[0].label)
    return None


_SYSTEM_NOT_READY = 802
# Of itself no fault: without a partition a host that shares its switches shows it.
_NOT_JOINED = ("not started", "in progress")


@rule("fabric-manager")
def fabric_manager(context: Context) -> Iterator[Finding]:
    """Report NVSwitch machines with a fabric manager that is stopped or does not match."""
    driver = context.driver
    if (
        not context.gpus
        or cuda_starts(context)
        or all(is_data_center(gpu) is False for gpu in context.gpus)
    ):
        return
    not_ready = driver.cuda_init_result.value == _SYSTEM_NOT_READY
    release, manager = driver.release.value, driver.fabric_manager_version.value
    message, fact = "", "driver.cuda_init_result"
    cure: Fix = StartFabricManager()
    waiting = [
        context.seen("gpus.fabric_state", gpu.fabric_state)
        for gpu in context.gpus
        if gpu.fabric_state.value in _NOT_JOINED
    ][:1]
    has_module = not isinstance(driver.kernel_module_version, Absent)
    if not_ready and not driver.nvswitch_present.value:
        message = (
            "CUDA reports that the system is not yet initialized (802). NVSwitch connects these"
            " GPUs, and its fabric manager does not run or does not match the driver."
        )
    elif not (context.need(driver.nvswitch_present, "driver.nvswitch_present") and has_module):
        return
    elif context.host.container.value:
        if not_ready:
            message = (
                "CUDA waits for the fabric manager of the host (802), which does not run or does"
                " not match the driver."
            )
    elif not context.need(driver.fabric_manager_running, "driver.fabric_manager_running"):
        fact = "driver.fabric_manager_running"
        message = (
            "NVSwitch connects the GPUs of this machine, but its fabric manager, which CUDA waits"
            " for, is not running."
        )
    elif release and manager and not same_release(release, manager):
        fact = "driver.fabric_manager_version"
        message = (
            f"The fabric manager is {manager} and the driver {release}; they must be"
            " the same release."
        )
    elif not_ready and waiting:
        cure = ServiceGpu("reboot")
        message = (
            "CUDA waits for the NVSwitch fabric (802): the GPUs have not joined it, although its"
            " fabric manager runs."
        )
    if message:
        yield context.report(message, fact, "driver.nvswitch_present", *waiting, cure=cure)


_VISIBLE_DEVICES = "visible-devices-hidden"
_VARIABLE = "CUDA_VISIBLE_DEVICES"


@rule(_VISIBLE_DEVICES, needs=("host.environment",))
def cuda_visible_devices(context: Context, environment: dict[str, str] | None) -> Iterator[Finding]:
    """Say which GPUs CUDA_VISIBLE_DEVICES leaves: none is an error, some a note."""
    if environment is None or _VARIABLE not in environment:
        return
    value = environment[_VARIABLE]
    gpus = numbered_gpus(context)
    if not hides_any_gpu(value):
        context.need(context.facts.gpus, "gpus")
    if not gpus and not isinstance(context.facts.gpus, Unknown):
        return
    selection = visible_selection(value, gpus)
    shown = f"{_VARIABLE}={value!r}"
    verdict, severity = INCOMPATIBLE, ERROR
    if not selection.decided:
        verdict = UNDETERMINED
        message = f"Which GPUs {shown} leaves visible is unknown: {selection.why}."
    elif not selection.visible:
        message = f"{shown} hides every GPU of this machine: {selection.why}."
    elif len(selection.visible) < len(gpus):
        verdict, severity = COMPATIBLE, NOTE
        hidden = len(gpus) - len(selection.visible)
        reason = f" ({selection.why})" if selection.why else ""
        message = f"{shown} hides {hidden} of {len(gpus)} GPUs{reason}."
    else:
        return
    yield context.report(
        message,
        context.show_variable(_VARIABLE),
        ("gpus", ", ".join(map(gpu_name, context.gpus)) or "whichever there are"),
        verdict=verdict,
        severity=severity,
        cure=None if severity == NOTE else UnsetVisibleDevices(),
    )


@rule(_VISIBLE_DEVICES, goal="any")
def nvidia_visible_devices(context: Context) -> Iterator[Finding]:
    """Report a container whose NVIDIA_VISIBLE_DEVICES asks its runtime for no GPU."""
    if not context.host.container.value or context.expect == "cpu":
        return
    if context.asks_runtime is not False:
        return
    if context.lacks_gpu and context.expect != "gpu":
        return
    # Other ways of handing GPUs in leave the variable at "void": only without any sign of them it
    # counts.
    is_unknown = isinstance(context.driver.device_nodes, Unknown)
    if was_given_gpus(context) if is_unknown else context.gpu_nodes:
        return
    name, wants = "NVIDIA_VISIBLE_DEVICES", wants_gpu(context)
    yield context.report(
        f"{name}={context.environment[name]!r} tells the container runtime to pass no GPU through."
        f"{'' if wants else ' Nothing here needs one.'}",
        context.show_variable(name),
        "driver.device_nodes",
        *([wants] if wants else []),
        verdict=INCOMPATIBLE if wants else COMPATIBLE,
        severity=ERROR if wants else NOTE,
        cure=RequestGpusFromRuntime() if wants else None,
    )


_STUB = 34
_BUSY = 46


@rule("toolkit-path-conflict")
def stub_library(context: Context) -> Iterator[Finding]:
    """Report the toolkit's stub libcuda, made for linking, in place of the driver's."""
    driver = context.driver
    path = driver.libcuda_path.value or ""
    if context.driver.cuda_init_result.value == _STUB or (path and "/stubs/" in path):
        folder = path.rpartition("/")[0]
        named = folder or "the toolkit's lib64/stubs"
        yield context.report(
            f"The loader finds a stub of libcuda in {named}, made for linking only, before the"
            " driver's library.",
            "driver.libcuda_path",
            "driver.cuda_init_result",
            cure=RemoveFromLibraryPath((folder or "lib64/stubs",)),
        )


@rule("gpu-memory-held", last=True)
def devices_busy(context: Context) -> Iterator[Finding]:
    """Report GPUs that CUDA calls busy although no compute mode shown explains it."""
    if context.gpus and context.driver.cuda_init_result.value == _BUSY:
        yield context.report(
            "CUDA calls the GPUs busy or unavailable (46): another process has exclusive use of"
            " them, or a dead one still holds them.",
            "driver.cuda_init_result",
            cure=FindGpuUser(),
        )


@rule("driver-missing", last=True)
def cuda_does_not_start(context: Context) -> Iterator[Finding]:
    """Report a driver on which CUDA does not start, where nothing else was found."""
    result = context.driver.cuda_init_result.value
    if not context.gpus or result in (None, 0, _STUB, _BUSY):
        return
    message = (
        f"The driver is loaded, but CUDA does not start on it (cuInit returned {result}); nothing"
        " else that was read explains why."
    )
    if result == _NO_DEVICE and all(isinstance(gpu.nvml_index, Absent) for gpu in context.gpus):
        message = (
            f"The driver runs but lists no GPU, although {gpu_name(context.gpus[0])} is on the bus:"
            " it could not start the GPU, or this job has none."
        )
    yield context.report(message, "driver.cuda_init_result", "driver.release", cure=ReadKernelLog())
