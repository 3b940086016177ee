"""What to do about the driver.

Its release, kernel module, libraries, device nodes, services and containers.
"""

from __future__ import annotations

import re

from envcheck.actions import (
    APT,
    RefreshPackageLists,
    RemoveSystemPackages,
    StartService,
)
from envcheck.model import (
    Alternative,
    Remedy,
    Unknown,
    major,
    numbers,
    replace,
)
from envcheck.model.fixes import (
    BuildDriver,
    CreateDeviceNode,
    InstallDriver,
    InstallKernelModule,
    InstallLibcuda,
    InstallMissingDriver,
    InstallWindowsDriver,
    MatchDriverParts,
    PassGpusToContainer,
    RemoveDriverFromWsl,
    RemoveForwardCompatibility,
    ReplaceNouveau,
    SignModule,
    StartFabricManager,
    TrustRepository,
)
from envcheck.remedies.driver_install import (
    DRIVER_RELEASE,
    blocks_nouveau,
    bring_driver,
    build_reboot,
    enroll_key,
    enroll_key_of,
    find_system,
    install_headers,
    is_from_elsewhere,
)
from envcheck.remedies.repositories import (
    CONTAINER_PAGES,
    CONTAINER_TOOLKIT,
    CUDA,
    add_repository,
    drop_entries,
    find_key,
)
from envcheck.remedies.rows import machine_steps
from envcheck.remedies.situation import (
    ARCH,
    FEDORA,
    JETSON,
    OTHER,
    RHEL,
    SUSE,
    WSL,
    Actions,
    Situation,
    find_setting,
)
from envcheck.rules.gpu_releases import lowest_driver, package_for_machine, release_for_driver

_MOK = "the firmware's key list (MOK)"
_UBUNTU_KEY = "/var/lib/shim-signed/mok/MOK.der"


def install_driver(situation: Situation, fix: InstallDriver) -> Remedy:
    """Install the driver that the CUDA needs, or name what runs on the one that is there."""
    floor = fix.floor if fix.exact else lowest_driver(situation.context, fix.floor)
    driver = bring_driver(situation, floor, exact=fix.exact)
    unknown = isinstance(situation.facts.driver.release, Unknown) and situation.family != JETSON
    checks = machine_steps("host-driver" if unknown else "", sudo=False)
    reason = ""
    if fix.cuda and fix.floor and unknown:
        reason = f" CUDA {fix.cuda} needs it."
    alternatives = (*_keep_driver(situation, fix), *driver.alternatives)
    return Remedy(driver.summary + reason, (*checks, *driver.actions), alternatives)


def _keep_driver(situation: Situation, fix: InstallDriver) -> tuple[Alternative, ...]:
    """Name the release that runs on the driver that is there."""
    if situation.matrix.companion_of(fix.distribution):
        row, _ = package_for_machine(situation.context, fix.distribution)
        pin = f"{fix.distribution}=={row.version}" if row else ""
        if pin:
            return (Alternative(f"Keep the driver and install {pin}.", situation.install(pin)),)
        return ()
    build = None
    if fix.framework:
        build = situation.build(fix.framework, fix.distribution)
    replacement = release_for_driver(situation.context, build) if build else ""
    # Where it is the same release, the driver lacks something else.
    if replacement and build and build.version not in replacement:
        return (Alternative(f"Keep the driver and install {replacement}."),)
    driver = situation.facts.driver
    is_known = any(item.value is not None for item in (driver.release, driver.cuda_driver_version))
    if situation.from_log and is_known:
        steps = situation.install_gpu_build(fix.framework)
    else:
        steps = ()
    if steps:
        return (Alternative("Use a build for the installed driver.", steps),)
    return ()


def install_missing_driver(situation: Situation, _: InstallMissingDriver) -> Remedy:
    """Install the driver; where no GPU was seen, look for one first."""
    driver = _install_for_builds(situation)
    has_gpu = situation.facts.gpus.value is not None
    if has_gpu or situation.os in ("windows", "darwin") or situation.family == WSL:
        return driver
    return replace(driver, actions=(*machine_steps("list-devices", sudo=False), *driver.actions))


def _install_for_builds(situation: Situation) -> Remedy:
    """Install a driver that runs what is installed or asked for, if the card has such a driver."""
    if situation.builds:
        floor = lowest_driver(situation.context, "")
        driver = bring_driver(situation, floor)
        if driver.actions or is_from_elsewhere(situation):
            return driver
    return bring_driver(situation)


def build_driver(situation: Situation, _: BuildDriver) -> Remedy:
    """Build the kernel module with the headers of the running kernel."""
    steps = (
        *install_headers(situation, find_system(situation)),
        *machine_steps("build-module", situation.sudo),
    )
    return Remedy("Build the driver's module for the running kernel, then load it.", steps)


def install_kernel_module(situation: Situation, fix: InstallKernelModule) -> Remedy:
    """Install the driver with the kernel modules of a kind: open, proprietary."""
    branch = major(situation.facts.driver.release.value)
    same_branch = bring_driver(situation, branch, exact=True, kind=fix.kind)
    if branch and same_branch.actions:
        return same_branch
    return bring_driver(situation, kind=fix.kind)


_REBUILDS = {FEDORA: "dracut", RHEL: "dracut", SUSE: "dracut", ARCH: "mkinitcpio"}


def replace_nouveau(situation: Situation, _: ReplaceNouveau) -> Remedy:
    """Install the driver and keep nouveau from loading."""
    driver = _install_for_builds(situation)
    if blocks_nouveau(situation):
        return replace(driver, summary=f"{driver.summary} Its packages keep nouveau from loading.")
    program = _REBUILDS.get(situation.distribution, "update-initramfs")
    block = machine_steps("block-nouveau", situation.sudo)
    rebuild = machine_steps(program, situation.sudo)
    dracut = machine_steps("dracut", situation.sudo)
    others = []
    if not situation.is_distribution_known:
        others = [Alternative("Rebuild it on RHEL, Fedora and SUSE:", dracut)]
    install_steps = tuple(item for item in driver.actions if not item.ends_session)
    return Remedy(
        "Install NVIDIA's driver and keep nouveau from loading, then restart.",
        (*install_steps, *block, *rebuild, build_reboot(situation)),
        tuple(others),
    )


def sign_module(situation: Situation, _: SignModule) -> Remedy:
    """Make Secure Boot accept the driver's module."""
    system = find_system(situation)
    if system and system.mok_key:
        build = machine_steps("sign-modules", situation.sudo)
        *tools, enroll = enroll_key_of(situation, system)
        steps: Actions = (*tools, *build, enroll)
    elif situation.is_distribution_known:
        steps = ()
    else:
        state = machine_steps("secure-boot", sudo=False)
        other = (
            "Ubuntu's key (Debian: /var/lib/dkms/mok.pub); choose a password for the next restart"
        )
        steps = (*state, *enroll_key(situation, _UBUNTU_KEY, other))
    alternative = Alternative("Turn Secure Boot off in the firmware setup.")
    return Remedy(
        f"Sign the module with a key enrolled in {_MOK}, then restart.",
        (*steps, build_reboot(situation)),
        (alternative,),
    )


def match_driver_parts(situation: Situation, fix: MatchDriverParts) -> Remedy:
    """Bring the kernel module and the user-space libraries to one release."""
    if situation.in_container:
        return Remedy(
            "Restart the host or reload its driver, then restart the container. Install nothing."
        )
    steps = machine_steps("reload-modules", situation.sudo)
    if fix.kernel and fix.libraries:
        steps = (*steps, *machine_steps("two-releases", sudo=False))
    reload = Alternative(
        "Without a restart, where no program uses the GPU, reload the module.", steps
    )
    kernel, libraries = numbers(fix.kernel), numbers(fix.libraries)
    # the libraries of an older package are in front of those of the module
    if libraries and kernel > libraries:
        return _install_driver_of_module(situation, str(kernel[0]), reload)
    summary = (
        "Restart: the driver was updated, and the old module"
        " is still loaded. No reinstallation is needed."
    )
    return Remedy(summary, (build_reboot(situation),), (reload,))


def _install_driver_of_module(situation: Situation, branch: str, reload: Alternative) -> Remedy:
    """Bring the libraries to the release of a kernel module that is newer than they are."""
    driver = bring_driver(situation, branch, exact=True)
    summary = (
        "Install the driver's packages of one branch,"
        f" {branch} as its module: the libraries are older."
    )
    look = machine_steps("two-releases" if situation.os in ("linux", "") else "", sudo=False)
    return Remedy(summary, (*look, *driver.actions), (reload,))


def remove_forward_compatibility(situation: Situation, fix: RemoveForwardCompatibility) -> Remedy:
    """Take the cuda-compat library off the loader's path."""
    newer = bring_driver(situation)
    steps = situation.leave_out("LD_LIBRARY_PATH", fix.folder)
    ways = (
        Alternative(
            "If the build needs that newer CUDA, install a newer driver instead.", newer.actions
        ),
    )
    return Remedy(
        f"Remove {fix.folder} from LD_LIBRARY_PATH and /etc/ld.so.conf.d.",
        steps or (find_setting(fix.folder),),
        ways,
    )


def install_libcuda(situation: Situation, _: InstallLibcuda) -> Remedy:
    """Install the user-space libraries of the running driver's release."""
    release = situation.facts.driver.release.value or ""
    branch = major(release)
    summary = "Install the driver's user-space libraries in the same release as the kernel module."
    name = f"libcuda-{situation.family}" if branch.isdigit() else ""
    return Remedy(summary, machine_steps(name, situation.sudo, branch=branch, release=release))


def create_device_node(situation: Situation, fix: CreateDeviceNode) -> Remedy:
    """Create a device node, and pass it through to a container."""
    if situation.in_container:
        summary = (
            "On the host, run nvidia-modprobe -u."
            f" Then restart the container with {fix.node} passed through."
        )
        return Remedy(summary, machine_steps("device-nodes", sudo=True, purpose="on the host"))
    purpose = "load nvidia-uvm and create its node"
    make = machine_steps("device-nodes", situation.sudo, purpose=purpose)
    return Remedy(f"Create the node {fix.node}.", make)


_FABRIC_RENAMED = 580  # the first branch whose package has no number in its name


def start_fabric_manager(situation: Situation, fix: StartFabricManager) -> Remedy:
    """Install and start the fabric manager in the driver's release."""
    release = situation.facts.driver.release.value or fix.driver
    branch = major(release) if DRIVER_RELEASE.fullmatch(release) else ""
    family = situation.distribution
    if family == OTHER and not situation.is_distribution_known:
        family = "unknown"
    name = f"fabric-{family}" if branch else "driver-release"
    if branch and int(branch) < _FABRIC_RENAMED:
        name += "-by-branch"
    steps = (
        *machine_steps(name, situation.sudo, branch=branch, release=release),
        StartService("nvidia-fabricmanager", situation.sudo, "now and at every restart"),
    )
    release_text = f" {release}" if branch else ""
    return Remedy(
        f"Install and start the fabric manager{release_text}: it must match the driver's release.",
        steps,
    )


def trust_repository(situation: Situation, fix: TrustRepository) -> Remedy:
    """Replace apt's entry of a repository by one that trusts its known key alone."""
    key = find_key(fix.repository)
    if key is None:
        return Remedy(
            f"Fetch the key of NVIDIA's repository {fix.repository} again, and compare its"
            " fingerprint with NVIDIA's documentation before you trust it."
        )
    page, name = CONTAINER_PAGES, CONTAINER_TOOLKIT
    address = f"{page}/stable/deb/$(ARCH)"
    if fix.repository != CONTAINER_TOOLKIT:
        page = address = f"{CUDA}/{fix.repository}/{fix.machine}"
        name = f"cuda-{fix.repository}-{fix.machine}"
    sudo = situation.sudo
    steps = (
        drop_entries(page, sudo=sudo),
        *machine_steps("repository-tools-apt-get", sudo),
        *add_repository(key, APT, name, address, sudo=sudo),
        RefreshPackageLists(sudo, "read the package lists"),
    )
    return Remedy("Add NVIDIA's repository again, with the key that signs it today.", steps)


def remove_driver_from_wsl(situation: Situation, fix: RemoveDriverFromWsl) -> Remedy:
    """Remove the Linux driver that hides the one of Windows."""
    names = tuple(name for name in fix.packages if re.fullmatch(r"[a-z0-9.+-]+", name))
    if not names:
        return install_windows_driver(situation, InstallWindowsDriver())
    return Remedy(
        "Remove the Linux driver from WSL: only the driver in Windows is needed.",
        (RemoveSystemPackages(names, situation.sudo, purpose="remove the Linux driver"),),
    )


def install_windows_driver(situation: Situation, _: InstallWindowsDriver) -> Remedy:
    """Install the driver in Windows, which passes it to WSL."""
    if situation.family == WSL:
        return bring_driver(situation)
    return Remedy("Install NVIDIA's driver in Windows.")


# Containers: every command is for the host.

_POD = (
    "Request a GPU in the pod (resources: limits: nvidia.com/gpu:"
    " 1), on a cluster with NVIDIA's device plugin, and runtimeClassName: nvidia where NVIDIA's"
    " runtime is not the default."
)
# https://github.com/NVIDIA/k8s-device-plugin: it writes what it assigns into that variable.
_POD_WITHOUT_RUNTIME = (
    "Set runtimeClassName: nvidia in the pod: the device plugin assigned it a GPU"
    " (NVIDIA_VISIBLE_DEVICES), and another runtime than NVIDIA's started it."
)
_POD_WITHOUT_LIBRARY = (
    "Set runtimeClassName: nvidia in the pod, and NVIDIA_DRIVER_CAPABILITIES=compute,utility in its"
    " environment."
)
_UNASSIGNED = ("", "all", "none", "void")  # not of a device plugin
_START_ANY = (
    "Start the container with the GPUs (Docker: --gpus all, as follows; Apptainer: --nv;"
    " Podman: --device nvidia.com/gpu=all; Kubernetes: a limit of nvidia.com/gpu)."
    " The host needs NVIDIA's driver, and all but Apptainer the NVIDIA Container Toolkit."
)
_START = (
    "Start the container with the GPUs;"
    " the host needs NVIDIA's driver and the NVIDIA Container Toolkit."
)
_START_APPTAINER = (
    "Start the container with --nv: Apptainer passes the host's driver to no container without it."
)
# https://github.com/NVIDIA/enroot: its hook 98-nvidia.sh does nothing where the variable is empty
_START_ENROOT = (
    "Ask for a GPU (Slurm: --gres=gpu:1) and set NVIDIA_VISIBLE_DEVICES=all, without which enroot"
    " passes none. The node needs NVIDIA's driver and libnvidia-container-tools."
)
_COMPUTE = (
    "Start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
    " through NVIDIA's container runtime."
)
VISIBLE = (
    "Start the container with NVIDIA_VISIBLE_DEVICES=all"
    " (or selected GPUs) and the GPUs passed through."
)


def pass_gpus_to_container(situation: Situation, fix: PassGpusToContainer) -> Remedy:
    """Pass the GPUs through to this kind of container."""
    if fix.lacks_library and situation.facts.host.container.value == "kubernetes":
        return Remedy(_POD_WITHOUT_LIBRARY)
    return start_container_with_gpus(situation, _COMPUTE if fix.lacks_library else "")


def start_container_with_gpus(situation: Situation, summary: str = "") -> Remedy:
    """Start a container with the GPUs, by what runs it."""
    kind = situation.facts.host.container.value or ""
    if kind == "kubernetes":
        variables = dict(situation.facts.host.environment.value or {})
        assigned = variables.get("NVIDIA_VISIBLE_DEVICES", "").strip() not in _UNASSIGNED
        return Remedy(_POD_WITHOUT_RUNTIME if assigned else _POD)
    if kind == "enroot":
        return Remedy(_START_ENROOT)
    start = _START if kind else _START_ANY
    if kind == "apptainer":
        start = _START_APPTAINER
    docker = machine_steps("start-docker", sudo=True)
    steps = machine_steps(f"start-{kind}", sudo=True) or docker
    return Remedy(summary or start, steps)
