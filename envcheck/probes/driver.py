"""Read the NVIDIA driver: its kernel module, device nodes, packages, DKMS state and fabric manager."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple, TypeVar

from envcheck.host.protocol import Host
from envcheck.model import (
    Absent,
    DeviceNode,
    DkmsModule,
    DriverFacts,
    Fact,
    Known,
    Source,
    Unknown,
    choose_reading,
    collect_tried,
    parse_fact,
)
from envcheck.probes.driver_libraries import (
    CudaReading,
    DriverLibraries,
    find_driver_libraries,
    query_cuda,
    read_library_version,
)
from envcheck.probes.gpus import PciDevice, detect_nvswitch, scan_pci
from envcheck.probes.nvml import NvmlReading, SmiReading, read_nvml, read_smi

T = TypeVar("T")


_SYS_VERSION = "/sys/module/nvidia/version"
_PROC_VERSION = "/proc/driver/nvidia/version"


class KernelSide(NamedTuple):
    """The nvidia module as the running kernel shows it."""

    version: Fact[str]
    kind: Fact[str]
    uvm_loaded: Fact[bool]
    nouveau_loaded: Fact[bool]


def read_kernel(host: Host) -> KernelSide:
    """Read the loaded modules; absent means that the kernel was seen to run without the driver."""
    if host.system != "linux":
        elsewhere: Absent = Absent((f"Linux kernel modules (this is {host.system})",))
        return KernelSide(elsewhere, elsewhere, elsewhere, elsewhere)
    line = host.read_text(_PROC_VERSION, 4096)
    # Sources: sysfs (bare version), then procfs (its line also names the kind).
    version = choose_reading(
        parse_fact(host.read_text(_SYS_VERSION, 256), parse_sys_version, "driver version"),
        parse_fact(line, parse_proc_version, "driver version"),
    )
    kind = parse_fact(line, parse_module_kind, "kind of kernel module")
    modules = host.read_text("/proc/modules", 1 << 18)
    return KernelSide(
        _confirmed(host, version, modules),
        _confirmed(host, kind, modules),
        is_loaded(host, "nvidia_uvm", modules),
        is_loaded(host, "nouveau", modules),
    )


def _confirmed(host: Host, reading: Fact[str], modules: Fact[str]) -> Fact[str]:
    # Without sysfs and /proc/modules (a sandbox) a missing file says nothing about the kernel.
    if not isinstance(reading, Absent) or isinstance(modules, Known) or isinstance(host.status("/sys/module"), Known):
        return reading
    tried = (*reading.tried, "/sys/module", "/proc/modules")
    return Unknown("failed", "neither /sys/module nor /proc/modules is readable here", tried)


def is_loaded(host: Host, module: str, modules: Fact[str]) -> Fact[bool]:
    """Tell whether a module is loaded: its sysfs folder (built-in ones too), else its line in /proc/modules."""
    folder = f"/sys/module/{module}"
    status = host.status(folder)
    if isinstance(status, Known):
        return Known(True, Source("file", folder))
    if isinstance(modules, Known):
        loaded = module in parse_modules(modules.value)
        return Known(loaded, Source("file", "/proc/modules", module if loaded else f"no line {module}"))
    if isinstance(status, Absent) and isinstance(host.status("/sys/module"), Known):
        return Known(False, Source("file", "/sys/module", f"no folder {module}"))
    return Unknown("failed", "neither /sys/module nor /proc/modules is readable here", collect_tried(status, modules))


def parse_sys_version(text: str) -> Optional[str]:
    r"""Read /sys/module/nvidia/version: "580.95.05\n"."""
    found = re.match(r"\d+(?:\.\d+)+$", text.strip())
    return found.group() if found else None


def parse_proc_version(text: str) -> Optional[str]:
    """Read the version in /proc/driver/nvidia/version.

    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.135  Fri Jan 10 20:00:00 UTC 2025",
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22-I3)  Tue Sep 23
    09:55:41 UTC 2025"
    """
    found = re.search(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)", text)
    return found.group(1) if found else None


def parse_module_kind(text: str) -> Optional[str]:
    """Read open or proprietary from /proc/driver/nvidia/version.

    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build" -> "open"
    """
    if "Open Kernel Module" in text:
        return "open"
    return "proprietary" if "Kernel Module" in text else None


def parse_modules(text: str) -> Tuple[str, ...]:
    """Read the module names in /proc/modules.

    "nvidia_uvm 1540096 0 - Live 0x0000000000000000 (POE)" -> ("nvidia_uvm",)
    """
    return tuple(line.split(" ", 1)[0] for line in text.splitlines() if line)


# Debian renames the module: nvidia-current.ko, nvidia-tesla-470.ko, nvidia-legacy-390xx.ko.
_FILE = r"nvidia(?:-current|-tesla(?:-\w+)?|-legacy-\w+|-open)?\.ko(?:\.xz|\.zst|\.gz)?"
_TRAILER = b"~Module signature appended~"
_READABLE_MODULE = 64 << 20  # bytes; its end can only be reached by reading it whole
_FOLDERS = ("updates/dkms", "updates", "extra", "extra/nvidia", "weak-updates/nvidia", "kernel/drivers/video")
_MODINFO = ("/usr/sbin/modinfo", "/sbin/modinfo", "/usr/bin/modinfo", "/bin/modinfo")


def find_module_file(host: Host) -> Fact[str]:
    """Find nvidia.ko for the running kernel: depmod's index, else the folders that installers use."""
    release = host.system_facts().get("kernel_release")
    if not release:
        return Unknown("failed", "the kernel release is not known", ("uname -r",))
    root = f"/lib/modules/{release}"
    index = host.read_text(f"{root}/modules.dep", 8 << 20)
    if isinstance(index, Known):
        line = parse_modules_dep(index.value)
        if line is not None:
            return Known(f"{root}/{line}", Source("file", f"{root}/modules.dep", line))
    return _in_folders(host, root, index)


def parse_modules_dep(text: str) -> Optional[str]:
    """Read the path of the driver's module in modules.dep.

    "updates/dkms/nvidia.ko.zst: kernel/drivers/gpu/drm/drm.ko.zst" -> "updates/dkms/nvidia.ko.zst"
    """
    found = re.search(rf"^(\S*/{_FILE}):", text, re.MULTILINE)
    return found.group(1) if found else None


def _in_folders(host: Host, root: str, index: Fact[str]) -> Fact[str]:
    for folder in (f"{root}/{inner}" for inner in _FOLDERS):
        names = host.list_folder(folder)
        for name in names.value if isinstance(names, Known) else ():
            if re.match(_FILE + "$", name):
                return Known(f"{folder}/{name}", Source("file", folder, name))
    if isinstance(index, Unknown):
        return index
    return Absent((f"{root}/modules.dep", *(f"{root}/{inner}" for inner in _FOLDERS)))


def read_signature(host: Host, module: Fact[str], *, is_running: bool) -> Fact[bool]:
    """Tell whether the module file carries a signature: its trailer, else what modinfo says.

    Only for a module that does not run: the kernel has judged one that does, and the file is large.
    """
    if not isinstance(module, Known):
        return module
    path = module.value
    if is_running:
        return Unknown("failed", "not read: the module is loaded, so the kernel accepts it", (path,))
    status = host.status(path)
    if path.endswith(".ko") and isinstance(status, Known) and status.value.size <= _READABLE_MODULE:
        data = host.read_bytes(path, _READABLE_MODULE)
        if not isinstance(data, Known):
            return data
        signed = _TRAILER in data.value[-64:]
        return Known(signed, Source("file", path, _TRAILER.decode() if signed else "no signature at its end"))
    return _ask_modinfo(host, path)


def _ask_modinfo(host: Host, path: str) -> Fact[bool]:
    program = next((place for place in _MODINFO if isinstance(host.status(place), Known)), None)
    if program is None:
        return Unknown("failed", f"{path} is compressed and there is no modinfo to read it", _MODINFO)
    done = host.run([program, "-F", "sig_id", path])
    if not isinstance(done, Known):
        return Unknown("failed", f"{program} could not be run", (program,)) if isinstance(done, Absent) else done
    if done.value.returncode != 0:
        return Unknown("failed", f"{program}: {done.value.stderr.strip()[:200]}", (program, path))
    sig_id = done.value.stdout.strip()
    return Known(bool(sig_id), Source("command", f"modinfo -F sig_id {path}", sig_id or "no signature"))


_ROOT = "/var/lib/dkms"


def read_dkms(host: Host) -> Fact[Tuple[DkmsModule, ...]]:
    """List /var/lib/dkms/nvidia*/RELEASE/KERNEL; a folder `build` that stays behind holds a failed build."""
    names = host.list_folder(_ROOT)
    if not isinstance(names, Known):
        return names
    modules: List[DkmsModule] = []
    for name in names.value:
        if re.match(r"nvidia(-|$)", name):
            modules.extend(_releases(host, f"{_ROOT}/{name}"))
    if not modules:
        return Absent((f"{_ROOT}/nvidia*",))
    return Known(tuple(modules), Source("file", _ROOT, f"nvidia {modules[0].version} {modules[0].state}"))


def _releases(host: Host, folder: str) -> List[DkmsModule]:
    names = _names(host, folder)
    installed = _installed(host, folder, names)
    found: List[DkmsModule] = []
    for version in (name for name in names if re.match(r"\d", name)):
        found.extend(_builds(host, f"{folder}/{version}", version, installed))
    return found


def _builds(host: Host, folder: str, version: str, installed: Dict[str, str]) -> List[DkmsModule]:
    inner = _names(host, folder)
    kernels = [name for name in inner if name not in ("source", "build")]
    found = [DkmsModule(version, name, "installed" if installed.get(name) == version else "built") for name in kernels]
    failed = _failed_kernel(host, folder) if "build" in inner else None
    if failed and failed not in kernels:
        found.append(DkmsModule(version, failed, "failed"))
    return found or [DkmsModule(version, "", "added")]


def _installed(host: Host, folder: str, names: Tuple[str, ...]) -> Dict[str, str]:
    # kernel-6.8.0-45-generic-x86_64 is a link to 550.163.01/6.8.0-45-generic/x86_64.
    links = [host.real_path(f"{folder}/{name}") for name in names if name.startswith("kernel-")]
    found = (re.search(r"/(\d[^/]*)/([^/]+)/[^/]+$", link.value) for link in links if isinstance(link, Known))
    return {match.group(2): match.group(1) for match in found if match}


def _failed_kernel(host: Host, folder: str) -> Optional[str]:
    log = host.read_text(f"{folder}/build/make.log", 4096)
    return parse_make_log(log.value) if isinstance(log, Known) else None


def parse_make_log(text: str) -> Optional[str]:
    """Read the kernel a build was for from the first lines of make.log.

    "DKMS make.log for nvidia-550.163.01 for kernel 6.8.0-45-generic (x86_64)" -> "6.8.0-45-generic"
    """
    found = re.search(r"make\.log for \S+ for kernel (\S+)", text)
    return found.group(1) if found else None


def _names(host: Host, folder: str) -> Tuple[str, ...]:
    names = host.list_folder(folder)
    return names.value if isinstance(names, Known) else ()


_NODE = r"nvidia(\d+|ctl|-modeset|-uvm|-uvm-tools|-nvswitch\d+|-nvswitchctl)$"


def read_device_nodes(host: Host) -> Fact[Tuple[DeviceNode, ...]]:
    """List /dev/nvidia* and /dev/nvidia-caps/*.

    nvidiactl alone proves nothing: nvidia-smi, run as root, makes it on a machine without a driver.
    """
    if host.system != "linux":
        return Absent((f"/dev/nvidia* (this is {host.system})",))
    names = host.list_folder("/dev")
    if not isinstance(names, Known):
        return names
    paths = [f"/dev/{name}" for name in names.value if re.match(_NODE, name)]
    if "nvidia-caps" in names.value:
        paths.extend(_caps(host))
    if not paths:
        return Absent(("/dev/nvidia*",))
    return Known(tuple(_node(host, path) for path in paths), Source("file", "/dev", " ".join(paths)[:200]))


def _caps(host: Host) -> List[str]:
    names = host.list_folder("/dev/nvidia-caps")
    return [f"/dev/nvidia-caps/{name}" for name in names.value] if isinstance(names, Known) else []


def _node(host: Host, path: str) -> DeviceNode:
    status = host.status(path)
    if not isinstance(status, Known):
        untold = status if isinstance(status, Unknown) else Unknown("failed", f"{path} is a broken link", (path,))
        return DeviceNode(path, untold)
    seen = status.value
    accessible = seen.kind == "char" and seen.readable and seen.writable
    excerpt = f"{seen.mode} {seen.owner}" if seen.kind == "char" else f"a {seen.kind}, not a device"
    return DeviceNode(path, Known(accessible, Source("file", path, excerpt)), f"{seen.mode} {seen.owner}")


_STATUS = "/var/lib/dpkg/status"
_LIMIT = 32 << 20  # bytes; a desktop with 5,000 packages has 8 MB
_DRIVER = r".*nvidia|libcuda1|libcuda-\d|cuda-compat|cuda-drivers"
_TOOLKIT = r"nvidia-(?:cuda|cudnn|visual|profiler|nsight)"  # toolkits and cuDNN are other probes' matter


def read_packages(host: Host) -> Fact[Mapping[str, str]]:
    """Read the installed driver packages from dpkg's status file."""
    text = host.read_text(_STATUS, _LIMIT)
    if not isinstance(text, Known):
        return text
    packages = parse_dpkg_status(text.value)
    if not packages:
        return Absent((_STATUS,))
    return Known(packages, Source("file", _STATUS, ", ".join(packages)[:200]))


def parse_dpkg_status(text: str) -> Dict[str, str]:
    r"""Read the installed driver packages.

    "Package: libnvidia-compute-535\nStatus: install ok installed\nPriority: optional\n…\n
    Version: 535.261.03-0ubuntu0.22.04.1\n…\n\n" -> {"libnvidia-compute-535": "535.261.03-0ubuntu0.22.04.1"}
    """
    packages: Dict[str, str] = {}
    for stanza in text.split("\n\n"):
        name = stanza[9 : stanza.find("\n")] if stanza.startswith("Package: ") else ""
        if not re.match(_DRIVER, name) or re.match(_TOOLKIT, name):
            continue
        version = re.search(r"^Version: (\S+)", stanza, re.MULTILINE)
        if version and re.search(r"^Status: \S+ ok installed", stanza, re.MULTILINE):
            packages[name] = version.group(1)
    return packages


_PROGRAM = "/usr/bin/nv-fabricmanager"
_PID_FILE = "/var/run/nvidia-fabricmanager/nv-fabricmanager.pid"
_COMM = "nv-fabricmanage"  # the kernel keeps 15 characters of a process's name
_MOST_PROCESSES = 4096
_NO_NVSWITCH = Absent(("no NVSwitch: the fabric manager was not looked for",))


def read_fabric_manager(
    host: Host, nvswitch: Fact[bool], packages: Fact[Mapping[str, str]]
) -> Tuple[Fact[str], Fact[bool]]:
    """Return the fabric manager's release and whether it runs; looked for only where there is an NVSwitch."""
    if not isinstance(nvswitch, Known):
        return nvswitch, nvswitch
    if not nvswitch.value:
        return _NO_NVSWITCH, _NO_NVSWITCH
    return _version(host, packages), _running(host)


def _version(host: Host, packages: Fact[Mapping[str, str]]) -> Fact[str]:
    # Sources: the program itself, then dpkg.
    done = host.run([_PROGRAM, "--version"], timeout=1.0)
    if isinstance(done, Known):
        text = done.value.stdout + done.value.stderr
        return parse_fact(Known(text, done.source), parse_fabric_version, "fabric manager version")
    for name, version in packages.value.items() if isinstance(packages, Known) else ():
        found = re.match(r"(?:\d+:)?(\d+(?:\.\d+)+)", version)
        if name.startswith("nvidia-fabricmanager") and "dev" not in name and found:
            return Known(found.group(1), Source("file", "/var/lib/dpkg/status", f"{name} {version}"))
    return done


def parse_fabric_version(text: str) -> Optional[str]:
    """Read the output of nv-fabricmanager --version: "Fabric Manager version is : 535.183.01"."""
    found = re.search(r"version is\s*:\s*(\d+(?:\.\d+)+)", text)
    return found.group(1) if found else None


def _running(host: Host) -> Fact[bool]:
    # Sources: its pid file, then the names of all processes.
    pid = host.read_text(_PID_FILE, 64)
    if isinstance(pid, Known) and _is_fabric_manager(host, pid.value.strip()):
        return Known(True, Source("file", _PID_FILE, pid.value.strip()))
    names = host.list_folder("/proc")
    if not isinstance(names, Known):
        return names
    for name in [name for name in names.value if name.isdigit()][:_MOST_PROCESSES]:
        if _is_fabric_manager(host, name):
            return Known(True, Source("file", f"/proc/{name}/comm", _COMM))
    return _not_seen(host)


def _is_fabric_manager(host: Host, pid: str) -> bool:
    comm = host.read_text(f"/proc/{pid}/comm", 64) if pid.isdigit() else None
    return isinstance(comm, Known) and comm.value.strip() == _COMM


def _not_seen(host: Host) -> Fact[bool]:
    marks = [path for path in ("/.dockerenv", "/run/.containerenv") if isinstance(host.status(path), Known)]
    if marks or "KUBERNETES_SERVICE_HOST" in host.environment():
        return Unknown("failed", "a container does not show the processes of its host", ("/proc/*/comm",))
    return Known(False, Source("file", "/proc/*/comm", f"no {_COMM}"))


_WSL_DEVICE = "/dev/dxg"
_NO_TRACE = Absent(("not looked for: no NVIDIA device, module, library, node or tool is here",))


def collect_driver(host: Host) -> DriverFacts:
    """Read every driver fact; without a trace of a GPU or driver no process is started and no large file read."""
    kernel = read_kernel(host)
    libraries = find_driver_libraries(host)
    cuda = query_cuda(host, libraries.libcuda)  # first: the GPU probe asks NVML meanwhile
    nvml = read_nvml(host, libraries.nvml_to_ask)
    smi = read_smi(host, needed=not nvml.is_complete)
    return DriverFacts(
        release=_release(host, kernel, nvml, smi),
        # Sources: cuDriverGetVersion of the libcuda programs would load, NVML, the banner of nvidia-smi.
        cuda_driver_version=choose_reading(cuda.driver_version, nvml.cuda_driver_version, smi.cuda_driver_version),
        kernel_module_version=kernel.version,
        kernel_module_kind=kernel.kind,
        uvm_loaded=kernel.uvm_loaded,
        nouveau_loaded=kernel.nouveau_loaded,
        **_user_side(libraries, cuda, nvml, smi),
        **_installation(host, kernel, libraries, smi),
    )


def _release(host: Host, kernel: KernelSide, nvml: NvmlReading, smi: SmiReading) -> Fact[str]:
    # Sources: the loaded kernel module, NVML, nvidia-smi. A Linux kernel seen to run without the module is
    # decisive; in WSL and on Windows the module is out of sight and the user side alone can tell.
    readings = (kernel.version, nvml.driver_version, smi.driver_version)
    release = choose_reading(*readings)
    if isinstance(release, Known) or not isinstance(kernel.version, Absent):
        return release
    kernel_decides = host.system == "linux" and isinstance(host.status(_WSL_DEVICE), Absent)
    return kernel.version if kernel_decides else release


def _user_side(libraries: DriverLibraries, cuda: CudaReading, nvml: NvmlReading, smi: SmiReading) -> Dict[str, Any]:
    return {
        "libcuda_path": libraries.libcuda,
        "libcuda_version": read_library_version(libraries.libcuda),
        "libcuda_unversioned": libraries.libcuda_unversioned,
        "libcuda_elsewhere": libraries.libcuda_elsewhere,
        "libnvidia_ml_path": libraries.nvml,
        "libnvidia_ml_version": read_library_version(libraries.nvml),
        "cuda_init_result": cuda.init_result,
        "nvml_result": nvml.result,
        "nvml_driver_version": nvml.driver_version,
        "smi_path": smi.path,
        "smi_exit_code": smi.exit_code,
        "smi_driver_version": smi.driver_version,
        "smi_cuda_driver_version": smi.cuda_driver_version,
        "smi_message": smi.message,
    }


def _installation(host: Host, kernel: KernelSide, libraries: DriverLibraries, smi: SmiReading) -> Dict[str, Any]:
    bus: Fact[Tuple[PciDevice, ...]] = scan_pci(host) if host.system == "linux" else _NO_TRACE
    nodes, dkms = read_device_nodes(host), read_dkms(host)
    traces = (kernel.version, smi.path, nodes, dkms, host.status(_WSL_DEVICE))
    is_traced = libraries.any_there or any(isinstance(fact, Known) for fact in traces)
    is_traced = is_traced or (isinstance(bus, Known) and bool(bus.value))
    packages: Fact[Mapping[str, str]] = read_packages(host) if is_traced else _NO_TRACE
    module_file: Fact[str] = find_module_file(host) if is_traced and host.system == "linux" else _NO_TRACE
    nvswitch = detect_nvswitch(host, bus)
    fabric_version, fabric_running = read_fabric_manager(host, nvswitch, packages)
    return {
        "module_file": module_file,
        "module_file_signed": read_signature(host, module_file, is_running=isinstance(kernel.version, Known)),
        "dkms": dkms,
        "device_nodes": nodes,
        "nvswitch_present": nvswitch,
        "fabric_manager_version": fabric_version,
        "fabric_manager_running": fabric_running,
        "packages": packages,
    }
