"""What to do about the driver: its release, kernel module, libraries, device nodes, services and containers."""

from __future__ import annotations

import re

from envcheck.actions import (
    APT,
    DNF,
    Action,
    AddLoaderFolder,
    BuildModules,
    InstallSystemPackages,
    LoadModule,
    RemoveSystemPackages,
    RestartService,
    RunCommand,
    SetVariables,
    Show,
    ShowKernelLog,
    StartService,
    UnloadModules,
)
from envcheck.model import (
    LINUX,
    SYSTEM,
    WINDOWS,
    Alternative,
    Known,
    Problem,
    Remedy,
    Unknown,
    get_value,
    major,
    replace,
)
from envcheck.remedies import remedy
from envcheck.remedies.situation import ARCH, DEBIAN, FEDORA, JETSON, RHEL, SUSE, UBUNTU, WSL, Situation
from envcheck.remedies.system import RELEASE, install, install_driver, packages, reboot
from envcheck.rules.gpu_releases import release_for_driver

_LOOK = Show(
    ("lspci", "-d", "10de:"), "no line: there is no GPU here; on a cluster ask for one (--gres=gpu:1)", systems=(LINUX,)
)
_MOK = "the firmware's own list of keys (MOK)"
_MOK_KEYS = {UBUNTU: "/var/lib/shim-signed/mok/MOK.der", DEBIAN: "/var/lib/dkms/mok.pub"}  # DKMS signs with it
_UNTIL_RESTART = "the next start gives the node its mode again"


@remedy("driver-too-old")
def newer_driver(situation: Situation, problem: Problem) -> Remedy:
    """Install the driver that the CUDA needs, or name what runs on the one that is there."""
    found = install_driver(situation, problem.driver, exact=problem.exact)
    unknown = isinstance(situation.facts.driver.release, Unknown) and situation.family != JETSON
    shown = (Show(("nvidia-smi",), "the driver that is there, on the host", SYSTEM),) if unknown else ()
    why = f" CUDA {problem.cuda} needs it." if problem.cuda and problem.driver and unknown else ""
    ways = (*_keep_driver(situation, problem), *found.alternatives)
    return Remedy(found.summary + why, (*shown, *found.actions), ways)


def _keep_driver(situation: Situation, problem: Problem) -> tuple[Alternative, ...]:
    """Name the release that runs on the driver that is there."""
    build = situation.build(problem.framework, problem.distribution) if problem.framework else None
    instead = release_for_driver(situation.context, build) if build else ""
    if instead and build and build.version not in instead:  # else the driver lacks something other than its release
        return (Alternative(f"Keep the driver and install {instead}."),)
    planned = situation.plan_command(problem.framework) if situation.from_log else ()
    return (Alternative("Use a build for the driver that is there.", planned),) if planned else ()


@remedy("driver-missing")
def working_driver(situation: Situation, problem: Problem) -> Remedy:
    """Install, load, build or replace the driver's kernel module, by what is left of one."""
    kernel = get_value(situation.facts.host.kernel_release) or ""
    if "not-loaded" in problem.cases:
        load = LoadModule("nvidia", situation.sudo, "load the driver; its error names the reason if that fails")
        return Remedy("Load the driver's kernel module; if that fails, the last lines of dmesg tell why.", (load,))
    if "not-built" in problem.cases:
        return _build_module(situation, kernel)
    if "other-module" in problem.cases:
        return _other_module(situation, problem.value("module_kind"))
    if "does-not-start" in problem.cases:
        return Remedy(
            "Look for NVRM lines in the kernel log, which name the reason; then restart, and install the "
            "driver anew if it stays.",
            (ShowKernelLog(purpose="lines with NVRM"),),
        )
    found = install_driver(situation)
    has_gpu = isinstance(situation.facts.gpus, Known)
    quiet = has_gpu or situation.os in ("windows", "darwin") or situation.family == WSL
    changed: Remedy = found if quiet else replace(found, actions=(_LOOK, *found.actions))
    return changed


def _build_module(situation: Situation, kernel: str) -> Remedy:
    headers = {
        UBUNTU: (APT, f"linux-headers-{kernel}"),
        DEBIAN: (APT, f"linux-headers-{kernel}"),
        FEDORA: (DNF, f"kernel-devel-{kernel}"),
        RHEL: (DNF, f"kernel-devel-{kernel}"),
    }
    steps: list[Action] = [
        BuildModules(sudo=situation.sudo, purpose="build the module for the running kernel"),
        LoadModule("nvidia", situation.sudo),
    ]
    if situation.distribution in headers and re.fullmatch(r"[\w.+~-]+", kernel):
        manager, name = headers[situation.distribution]
        steps.insert(0, packages(situation, manager, (name,), "the kernel's headers"))
    return Remedy("Build the driver's module for the running kernel, then load it.", tuple(steps))


def _other_module(situation: Situation, kind: str) -> Remedy:
    """Install the driver with the kernel modules of a kind: open, proprietary."""
    purpose = f"the driver with the {kind} kernel modules, from NVIDIA's repository"
    steps = install(situation, f"driver-{kind}", purpose)
    summary = f"Install the driver's package with the {kind} kernel module, then restart."
    return Remedy(summary, (*steps, reboot(situation)) if steps else ())


@remedy("driver-nouveau")
def free_gpu_from_other_module(situation: Situation, problem: Problem) -> Remedy:
    """Take the GPU from nouveau or vfio-pci."""
    if "vfio-pci" in problem.cases:
        return Remedy(
            "The GPU is set aside for a virtual machine: use it there, or remove its id from the vfio-pci "
            "options (kernel command line, /etc/modprobe.d) and restart."
        )
    update = {
        FEDORA: ("dracut", "--force"),
        RHEL: ("dracut", "--force"),
        SUSE: ("dracut", "--force"),
        ARCH: ("mkinitcpio", "-P"),
    }.get(situation.distribution, ("update-initramfs", "-u"))
    file, line = "/etc/modprobe.d/blacklist-nouveau.conf", "blacklist nouveau"
    blocked = RunCommand(
        ("sh", "-c", f"printf '{line}\\noptions nouveau modeset=0\\n' > {file}"),
        "keep nouveau from loading", SYSTEM, (LINUX,), situation.sudo,
        check_argv=("grep", "-q", line, file), undo_argv=("rm", "-f", file),
    )  # fmt: skip
    rebuilt = RunCommand(
        update, "rebuild the start-up image", SYSTEM, (LINUX,), situation.sudo,
        unchecked="the next start shows what it holds",
        lasting="run it again once the files it is made of are taken back",
    )  # fmt: skip
    bring = tuple(item for item in install_driver(situation).actions if not item.ends_session)
    return Remedy(
        "Install NVIDIA's driver and keep nouveau from loading, then restart.",
        (*bring, blocked, rebuilt, reboot(situation)),
    )


@remedy("driver-secure-boot")
def sign_module(situation: Situation, _: Problem) -> Remedy:
    """Make Secure Boot accept the driver's module."""
    key = _MOK_KEYS.get(situation.distribution)
    asks = "choose a password; the blue screen at the next start asks for it"
    if key:
        build = BuildModules(force=True, sudo=situation.sudo, purpose="build and sign the module")
        steps: tuple[Action, ...] = (build, _enroll_key(situation, key, asks))
    elif situation.is_distribution_known:
        steps = ()
    else:
        state = Show(
            ("mokutil", "--sb-state"), "SecureBoot enabled: the module must be signed, or Secure Boot be off",
            systems=(LINUX,),
        )  # fmt: skip
        other = "Ubuntu's key (Debian: /var/lib/dkms/mok.pub); choose a password, asked for at the next start"
        steps = (state, _enroll_key(situation, _MOK_KEYS[UBUNTU], other))
    off = Alternative("Turn Secure Boot off in the firmware setup, which the machine shows at its start.")
    return Remedy(f"Sign the module with a key enrolled in {_MOK}, then restart.", (*steps, reboot(situation)), (off,))


def _enroll_key(situation: Situation, key: str, purpose: str) -> RunCommand:
    return RunCommand(
        ("mokutil", "--import", key), purpose, SYSTEM, (LINUX,), situation.sudo,
        check_argv=("sh", "-c", "mokutil --list-new | grep -q ."), undo_argv=("mokutil", "--revoke-import"),
    )  # fmt: skip


@remedy("driver-library-mismatch")
def reload_driver(situation: Situation, problem: Problem) -> Remedy:
    """Bring the kernel module and the user-space libraries to one release."""
    if "stray-nvml" in problem.cases:
        return Remedy("Remove the stray copy of libnvidia-ml.so.1; the driver itself needs no reinstall.")
    if "stray-libcuda" in problem.cases:
        return Remedy(
            f"Take {problem.folders[0]} off LD_LIBRARY_PATH, or remove the package that left the copy there; the "
            "driver itself needs no reinstall."
        )
    if situation.in_container:
        return Remedy("Restart the host, or reload its driver there, then start the container anew; install nothing.")
    modules = ("nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia")
    steps: tuple[Action, ...] = (
        UnloadModules(modules, situation.sudo, "unload the old module"),
        LoadModule("nvidia", situation.sudo, "load the new one"),
    )
    if problem.value("kernel") and problem.value("dso"):
        steps = (*steps, _TWO_RELEASES)
    restart = Alternative("Restart the machine, where something uses the GPU.", (reboot(situation),))
    return Remedy("Reload the driver's module; nothing needs to be installed anew.", steps, (restart,))


_TWO_RELEASES = Show(
    ("sh", "-c", "dpkg -l | grep -E 'nvidia-(driver|dkms|kernel)|libnvidia-compute|libcuda1'"),
    "if it stays after a restart: two releases are installed, and one must go",
    systems=(LINUX,),
)


@remedy("forward-compat-misused")
def without_forward_compatibility(situation: Situation, problem: Problem) -> Remedy | None:
    """Take the cuda-compat library off the loader's path."""
    if not problem.folders:
        return None
    return Remedy(
        f"Take {problem.folders[0]} off LD_LIBRARY_PATH and out of /etc/ld.so.conf.d; where the build needs that newer "
        "CUDA, install a newer driver instead.",
        install_driver(situation).actions,
    )


@remedy("libcuda-not-on-path")
def find_libcuda(situation: Situation, problem: Problem) -> Remedy | None:
    """Let the loader find libcuda, or install it."""
    if "not-installed" in problem.cases:
        return _install_libcuda(situation)
    if not problem.folders:
        return None
    folder = problem.folders[0]
    if not re.fullmatch(r"[\w./+-]+", folder):
        return Remedy("Add the folder to LD_LIBRARY_PATH.")
    export = SetVariables((("LD_LIBRARY_PATH", f"{folder}:$LD_LIBRARY_PATH"),), "for this shell only")
    return Remedy(
        f"Let the loader look in {folder}.",
        (AddLoaderFolder(folder, situation.sudo, "for all users"),),
        (Alternative("Let one shell look there.", (export,)),),
    )


def _install_libcuda(situation: Situation) -> Remedy:
    branch = major(get_value(situation.facts.driver.release) or "")
    package = {UBUNTU: f"libnvidia-compute-{branch}", DEBIAN: "libcuda1"}.get(situation.family, "")
    steps = (packages(situation, APT, (package,), "the driver's CUDA library"),) if package and branch.isdigit() else ()
    return Remedy("Install the driver's user-space libraries in the same release as the kernel module.", steps)


@remedy("driver-device-nodes")
def open_device_nodes(situation: Situation, problem: Problem) -> Remedy | None:
    """Create the driver's device nodes, or let this user and container open them."""
    node = problem.value("node")
    if "closed" in problem.cases:
        change = RunCommand(
            ("chmod", "a+rw", node), "until the next start", SYSTEM, (LINUX,), situation.sudo,
            check_argv=("test", "-w", node), lasting=_UNTIL_RESTART,
        )  # fmt: skip
        group = "For good: join the group that owns the node (sudo usermod -aG GROUP $USER), then log in anew."
        return Remedy(
            "Let this user open the driver's device nodes; on clusters, ask for a GPU in the job.",
            (change,),
            (Alternative(group),),
        )
    if "barred" in problem.cases:
        return _lost_devices(situation)
    if "missing" in problem.cases and situation.in_container:
        make = _make_nodes("on the host", sudo=True)
        return Remedy(
            f"On the host, run nvidia-modprobe -u; then start the container anew with {node} handed in.", (make,)
        )
    if "missing" in problem.cases:
        make = _make_nodes("load nvidia-uvm and make its node", sudo=situation.sudo)
        return Remedy(f"Create the node {node}.", (make,))
    if "bad-state" in problem.cases:
        unload = UnloadModules(("nvidia_uvm",), situation.sudo, "fails while a program uses the GPU: end it first")
        return Remedy(
            "Reload the driver's memory module nvidia-uvm; it is left in a bad state by some suspends.",
            (unload, LoadModule("nvidia_uvm", situation.sudo, "load it again")),
            (Alternative("Restart the machine, where that does not help.", (reboot(situation),)),),
        )
    return None


def _make_nodes(purpose: str, *, sudo: bool) -> RunCommand:
    return RunCommand(
        ("nvidia-modprobe", "-u", "-c=0"), purpose, SYSTEM, (LINUX,), sudo,
        check_argv=("test", "-c", "/dev/nvidia-uvm"), undo_argv=("modprobe", "-r", "nvidia_uvm"),
    )  # fmt: skip


def _lost_devices(situation: Situation) -> Remedy:
    if not situation.in_container:
        return Remedy("Ask for a GPU in the job; elsewhere, restart.")
    restart = RunCommand(
        ("docker", "restart", "CONTAINER"), "on the host; CONTAINER stands for yours", SYSTEM,
        check_argv=("docker", "exec", "CONTAINER", "nvidia-smi"), lasting="what ran in the container has ended",
        by_person=True,
    )  # fmt: skip
    lasting = 'with "exec-opts": ["native.cgroupdriver=cgroupfs"] in /etc/docker/daemon.json it does not come back'
    return Remedy(f"Restart the container; {lasting}.", (restart,))


@remedy("fabric-manager")
def start_fabric_manager(situation: Situation, problem: Problem) -> Remedy:
    """Install and start the fabric manager in the driver's release."""
    release = get_value(situation.facts.driver.release) or problem.driver
    branch = major(release) if RELEASE.fullmatch(release) else ""
    family, steps = situation.distribution, list[Action]()
    if family in (DEBIAN, UBUNTU) and branch:
        steps.append(packages(situation, APT, (f"nvidia-fabricmanager-{branch}",), ""))
    elif family in (RHEL, FEDORA) and branch:
        steps.append(packages(situation, DNF, (f"nvidia-fabric-manager-{release}",), ""))
    elif not situation.is_distribution_known and branch:
        purpose = f"Debian and Ubuntu; in release {release}, as the driver"
        steps.append(InstallSystemPackages(APT, (f"nvidia-fabricmanager-{branch}",), purpose=purpose))
    elif not branch:
        steps.append(_DRIVER_RELEASE)
    steps.append(StartService("nvidia-fabricmanager", situation.sudo, "now and at every start"))
    shown = f" {release}" if branch else ""
    return Remedy(f"Install the fabric manager{shown}, the same release as the driver, and start it.", tuple(steps))


_DRIVER_RELEASE = Show(
    ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
    "the release that the fabric manager must have; its package is nvidia-fabricmanager-BRANCH",
    systems=(LINUX, WINDOWS),
)


@remedy("driver-wsl")
def wsl_driver(situation: Situation, problem: Problem) -> Remedy | None:
    """Convert to WSL 2, remove the Linux driver from it, or install the driver in Windows."""
    if "wsl-1" in problem.cases:
        convert = RunCommand(
            ("wsl.exe", "--set-version", "DISTRIBUTION", "2"), "DISTRIBUTION as wsl.exe -l names it", SYSTEM,
            (WINDOWS,),
            check_argv=("wsl.exe", "-l", "-v"), undo_argv=("wsl.exe", "--set-version", "DISTRIBUTION", "1"),
            by_person=True, ends_session=True,
        )  # fmt: skip
        return Remedy("Convert this distribution to WSL 2 (from Windows).", (convert,))
    names = tuple(name for name in problem.names if re.fullmatch(r"[a-z0-9.+-]+", name))
    if names:
        return Remedy(
            "Remove the Linux driver from WSL; the driver in Windows is the only one needed.",
            (RemoveSystemPackages(names, situation.sudo, purpose="remove the Linux driver"),),
        )
    if "no-windows-driver" in problem.cases or "linux-driver" in problem.cases:
        return install_driver(situation) if situation.family == WSL else Remedy("Install NVIDIA's driver in Windows.")
    return None


# Containers: every command is for the host.

_CONFIGURED = "on the host, once, after installing nvidia-container-toolkit"
_YOURS = "start the container with the GPUs; IMAGE stands for yours"
_POD = "Ask for a GPU in the pod (resources: limits: nvidia.com/gpu: 1), on a cluster with NVIDIA's device plugin."
_START = "Start the container with the GPUs; the host needs NVIDIA's driver and the NVIDIA Container Toolkit."
_COMPUTE = "Start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility through NVIDIA's container runtime."
_VISIBLE = "Start the container with NVIDIA_VISIBLE_DEVICES=all (or the GPUs wanted) and the GPUs handed in."


@remedy("driver-not-in-container")
def expose_gpu_to_container(situation: Situation, problem: Problem) -> Remedy:
    """Pass the GPUs through to this kind of container."""
    return container_with_gpus(situation, _COMPUTE if "no-library" in problem.cases else "")


def container_with_gpus(situation: Situation, summary: str = "") -> Remedy:
    """Start a container with the GPUs, by what runs it."""
    kind = get_value(situation.facts.host.container) or ""
    steps = _CONTAINERS.get(kind, _DOCKER)
    return Remedy(summary or (_POD if kind == "kubernetes" else _START), steps)


def visible_container() -> str:
    """Return the sentence about NVIDIA_VISIBLE_DEVICES."""
    return _VISIBLE


def configure_docker(sudo: bool, purpose: str) -> RunCommand:  # noqa: FBT001 - every action names it so
    """Let Docker use NVIDIA's runtime."""
    return RunCommand(
        ("nvidia-ctk", "runtime", "configure", "--runtime=docker"), purpose, SYSTEM, (LINUX,), sudo,
        check_argv=("grep", "-q", "nvidia-container-runtime", "/etc/docker/daemon.json"),
        lasting="it adds the runtime nvidia to /etc/docker/daemon.json: that entry is taken out by hand",
    )  # fmt: skip


def _start_container(argv: tuple[str, ...], purpose: str) -> RunCommand:
    return RunCommand(
        argv, purpose, SYSTEM, (LINUX, WINDOWS) if argv[0] == "docker" else (LINUX,),
        unchecked="it starts the program itself", lasting="the container goes when its program ends", by_person=True,
    )  # fmt: skip


def _lxc(*words: str, check: tuple[str, ...], undo: tuple[str, ...]) -> RunCommand:
    return RunCommand(
        ("lxc", "config", *words), "on the host", SYSTEM,
        check_argv=("lxc", "config", *check), undo_argv=("lxc", "config", *undo), by_person=True,
    )  # fmt: skip


_DOCKER: tuple[Action, ...] = (
    configure_docker(True, _CONFIGURED),  # noqa: FBT003 - see above
    RestartService("docker", purpose="on the host"),
    _start_container(("docker", "run", "--rm", "--gpus", "all", "IMAGE"), _YOURS),
)
_CONTAINERS: dict[str, tuple[Action, ...]] = {
    "docker": _DOCKER,
    "podman": (
        RunCommand(
            ("nvidia-ctk", "cdi", "generate", "--output=/etc/cdi/nvidia.yaml"), _CONFIGURED, SYSTEM, (LINUX,),
            sudo=True,
            check_argv=("test", "-s", "/etc/cdi/nvidia.yaml"), undo_argv=("rm", "-f", "/etc/cdi/nvidia.yaml"),
        ),
        _start_container(("podman", "run", "--rm", "--device", "nvidia.com/gpu=all", "IMAGE"), _YOURS),
    ),
    "apptainer": (_start_container(("apptainer", "exec", "--nv", "IMAGE", "COMMAND"), "--nv brings the driver in"),),
    "lxc": (
        _lxc(
            "device", "add", "CONTAINER", "gpu", "gpu",
            check=("device", "get", "CONTAINER", "gpu", "type"), undo=("device", "remove", "CONTAINER", "gpu"),
        ),
        _lxc(
            "set", "CONTAINER", "nvidia.runtime", "true",
            check=("get", "CONTAINER", "nvidia.runtime"), undo=("unset", "CONTAINER", "nvidia.runtime"),
        ),
    ),
    "kubernetes": (),
}  # fmt: skip
