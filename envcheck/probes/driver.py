"""Read the NVIDIA driver.

Its kernel module, device nodes, packages, DKMS state and fabric manager.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from envcheck.host.paths import list_names
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
    from_file,
    parse_fact,
)
from envcheck.model.text import find_group
from envcheck.probes.gpus import WSL_DEVICE, PciDevice, detect_nvswitch, scan_pci
from envcheck.probes.host import detect_container
from envcheck.probes.nvml import (
    DriverLibraries,
    NvmlReading,
    SmiReading,
    find_driver_libraries,
    query_cuda,
    read_library_version,
    read_nvml,
    read_smi,
)
from envcheck.probes.package_managers import DPKG_STATUS, read_dpkg_packages

_NO_TRACE = Absent(("not looked for: no NVIDIA device, module, library, node or tool is here",))


def collect_driver(host: Host) -> DriverFacts:
    """Read every driver fact.

    Without a trace of a GPU or driver, start no process and read no large file.
    """
    kernel = read_kernel(host)
    libraries = find_driver_libraries(host)
    cuda = query_cuda(host, libraries.libcuda)  # first: the GPU probe queries NVML meanwhile
    nvml = read_nvml(host, libraries.nvml_to_query)
    smi = read_smi(host, needed=not nvml.is_complete)
    return DriverFacts(
        release=_choose_release(host, kernel, nvml, smi),
        # cuDriverGetVersion of the libcuda that programs load, then NVML, then the banner of
        # nvidia-smi
        cuda_driver_version=choose_reading(
            cuda.driver_version, nvml.cuda_driver_version, smi.smi_cuda_driver_version
        ),
        logged_faults=_read_log(host, kernel),
        **kernel._asdict(),
        **smi._asdict(),
        libcuda_path=libraries.libcuda,
        libcuda_version=read_library_version(libraries.libcuda),
        libcuda_unversioned=libraries.libcuda_unversioned,
        libcuda_elsewhere=libraries.libcuda_elsewhere,
        libnvidia_ml_path=libraries.nvml,
        libnvidia_ml_version=read_library_version(libraries.nvml),
        cuda_init_result=cuda.init_result,
        nvml_result=nvml.result,
        nvml_driver_version=nvml.driver_version,
        **_read_installation(host, kernel, libraries, smi),
    )


def _read_log(host: Host, kernel: KernelReading) -> Fact[Tuple[str, ...]]:
    if kernel.kernel_module_version.value is None:
        return Absent(("not looked for: the driver's kernel module is not loaded",))
    from envcheck.probes.kernel_log import read_logged_faults  # only for machines with the driver

    return read_logged_faults(host)


def _choose_release(
    host: Host, kernel: KernelReading, nvml: NvmlReading, smi: SmiReading
) -> Fact[str]:
    # The loaded kernel module, then NVML, then nvidia-smi. A Linux kernel without the module is
    # decisive; WSL and Windows do not show the module, so only the user space counts.
    release = choose_reading(
        kernel.kernel_module_version, nvml.driver_version, smi.smi_driver_version
    )
    if isinstance(release, Known) or not isinstance(kernel.kernel_module_version, Absent):
        return release
    kernel_decides = host.system == "linux" and isinstance(host.status(WSL_DEVICE), Absent)
    return kernel.kernel_module_version if kernel_decides else release


def _read_installation(
    host: Host, kernel: KernelReading, libraries: DriverLibraries, smi: SmiReading
) -> Dict[str, Any]:
    bus: Fact[Tuple[PciDevice, ...]] = scan_pci(host) if host.system == "linux" else _NO_TRACE
    nodes, dkms = read_device_nodes(host), read_dkms(host)
    traces = (kernel.kernel_module_version, smi.smi_path, nodes, dkms, host.status(WSL_DEVICE))
    # what could not be read may be one
    has_trace = (
        libraries.is_any_found
        or bool(bus.value)
        or isinstance(bus, Unknown)
        or not all(isinstance(fact, Absent) for fact in traces)
    )
    packages: Fact[Mapping[str, str]] = read_packages(host) if has_trace else _NO_TRACE
    module_file: Fact[str] = (
        find_module_file(host) if has_trace and host.system == "linux" else _NO_TRACE
    )
    nvswitch = detect_nvswitch(bus)
    fabric_version, fabric_running = read_fabric_manager(host, nvswitch)
    return {
        "module_file": module_file,
        "module_file_signed": read_signature(
            host, module_file, is_loaded=isinstance(kernel.kernel_module_version, Known)
        ),
        "dkms": dkms,
        "device_nodes": nodes,
        "nvswitch_present": nvswitch,
        "fabric_manager_version": fabric_version,
        "fabric_manager_running": fabric_running,
        "packages": packages,
    }


_NODE = r"nvidia(\d+|ctl|-modeset|-uvm|-uvm-tools|-nvswitch\d+|-nvswitchctl)$"
_CAPS = "/dev/nvidia-caps"


_MOUNTED = ("/proc/self", "/proc/version", "/proc/cpuinfo", "/proc/modules", "/sys/bus")


def read_device_nodes(host: Host) -> Fact[Tuple[DeviceNode, ...]]:
    """List /dev/nvidia* and /dev/nvidia-caps/*.

    nvidiactl alone proves nothing: nvidia-smi, run as root, creates it on a machine without a
    driver.
    """
    if host.system != "linux":
        return Absent((f"/dev/nvidia* (this is {host.system})",))
    names = host.list_folder("/dev")
    if not isinstance(names, Known):
        return names
    paths = [f"/dev/{name}" for name in names.value if re.match(_NODE, name)]
    if "nvidia-caps" in names.value:
        paths += [f"{_CAPS}/{name}" for name in list_names(host, _CAPS)]
    if not paths and all(isinstance(host.status(path), Absent) for path in _MOUNTED):
        return Unknown(
            "failed",
            "neither /proc nor /sys is mounted, so /dev may not be, either (a chroot?)",
            _MOUNTED,
        )
    if not paths:
        return Absent(("/dev/nvidia*",))
    return from_file(tuple(_read_node(host, path) for path in paths), "/dev", " ".join(paths)[:200])


def _read_node(host: Host, path: str) -> DeviceNode:
    status = host.status(path)
    if isinstance(status, Unknown):
        return DeviceNode(path, status)
    if isinstance(status, Absent):
        return DeviceNode(path, Unknown("failed", f"{path} is a broken link", (path,)))
    node = status.value
    mode = f"{node.mode} {node.owner}"
    is_accessible = node.kind == "char" and node.readable and node.writable
    excerpt = mode if node.kind == "char" else f"a {node.kind}, not a device"
    return DeviceNode(path, from_file(is_accessible, path, excerpt), mode)


_PACKAGES = (
    r"(?!nvidia-(?:cuda|cudnn|visual|profiler|nsight))"  # other probes read toolkits and cuDNN
    r"(?:\S*nvidia|libcuda1|libcuda-\d|cuda-compat|cuda-drivers)\S*"
)


def read_packages(host: Host) -> Fact[Mapping[str, str]]:
    """Read the installed driver packages from dpkg's status file."""
    packages = read_dpkg_packages(host, _PACKAGES)
    if isinstance(packages, Known) and not packages.value:
        return Absent((DPKG_STATUS,))
    return packages


_SYS_VERSION = "/sys/module/nvidia/version"
_PROC_VERSION = "/proc/driver/nvidia/version"


class KernelReading(NamedTuple):
    """The nvidia module as the running kernel shows it, named as in DriverFacts."""

    kernel_module_version: Fact[str]
    kernel_module_kind: Fact[str]
    uvm_loaded: Fact[bool]
    nouveau_loaded: Fact[bool]


def read_kernel(host: Host) -> KernelReading:
    """Read the loaded modules; absent means that the kernel runs without the driver."""
    if host.system != "linux":
        absent: Absent = Absent((f"Linux kernel modules (this is {host.system})",))
        return KernelReading(absent, absent, absent, absent)
    line = host.read_text(_PROC_VERSION, 4096)
    # sysfs has the bare version; the line in procfs also has the kind.
    version = choose_reading(
        parse_fact(host.read_text(_SYS_VERSION, 256), parse_sys_version, "driver version"),
        parse_fact(line, parse_proc_version, "driver version"),
    )
    kind = parse_fact(line, parse_module_kind, "kind of kernel module")
    modules = host.read_text("/proc/modules", 1 << 18)
    return KernelReading(
        _confirm_absence(host, version, modules),
        _confirm_absence(host, kind, modules),
        _is_module_loaded(host, "nvidia_uvm", modules),
        _is_module_loaded(host, "nouveau", modules),
    )


def _confirm_absence(host: Host, reading: Fact[str], modules: Fact[str]) -> Fact[str]:
    # In a sandbox without sysfs and /proc/modules a missing file means nothing.
    if (
        not isinstance(reading, Absent)
        or modules.value is not None
        or isinstance(host.status("/sys/module"), Known)
    ):
        return reading
    return _explain_hidden_modules((*reading.tried, "/sys/module", "/proc/modules"))


def _explain_hidden_modules(tried: Tuple[str, ...]) -> Unknown:
    return Unknown("failed", "neither /sys/module nor /proc/modules is readable here", tried)


def _is_module_loaded(host: Host, module: str, modules: Fact[str]) -> Fact[bool]:
    """Return whether a module is loaded.

    Its folder in sysfs (built-in ones too), else its line in /proc/modules.
    """
    folder = f"/sys/module/{module}"
    status = host.status(folder)
    if isinstance(status, Known):
        return from_file(True, folder)
    if isinstance(modules, Known):
        is_listed = module in parse_modules(modules.value)
        return from_file(is_listed, "/proc/modules", module if is_listed else f"no line {module}")
    if isinstance(status, Absent) and isinstance(host.status("/sys/module"), Known):
        return from_file(False, "/sys/module", f"no folder {module}")
    return _explain_hidden_modules(collect_tried(status, modules))


def parse_sys_version(text: str) -> Optional[str]:
    r"""Parse /sys/module/nvidia/version: "580.95.05\n"."""
    match = re.match(r"\d+(?:\.\d+)+$", text.strip())
    return match.group() if match else None


def parse_proc_version(text: str) -> Optional[str]:
    """Parse the version in /proc/driver/nvidia/version.

    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.135  Fri Jan 10 20:00:00 UTC 2025",
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build
    (dvs-builder@U22-I3)  Tue Sep 23 09:55:41 UTC 2025"
    """
    return find_group(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)", text) or None


def parse_module_kind(text: str) -> Optional[str]:
    """Parse open or proprietary in /proc/driver/nvidia/version.

    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build" -> "open"
    """
    if "Open Kernel Module" in text:
        return "open"
    return "proprietary" if "Kernel Module" in text else None


def parse_modules(text: str) -> Tuple[str, ...]:
    """Parse the module names in /proc/modules.

    "nvidia_uvm 1540096 0 - Live 0x0000000000000000 (POE)" -> ("nvidia_uvm",)
    """
    return tuple(line.split(" ", 1)[0] for line in text.splitlines() if line)


# Debian renames the module: nvidia-current.ko, nvidia-tesla-470.ko, nvidia-legacy-390xx.ko.
_MODULE_FILE = r"nvidia(?:-current|-tesla(?:-\w+)?|-legacy-\w+|-open)?\.ko(?:\.xz|\.zst|\.gz)?"
_MODINFO = ("/usr/sbin/modinfo", "/sbin/modinfo", "/usr/bin/modinfo", "/bin/modinfo")


def find_module_file(host: Host) -> Fact[str]:
    """Find nvidia.ko for the running kernel in depmod's index, as modprobe does."""
    release = host.system_facts().get("kernel_release")
    if not release:
        return Unknown("failed", "the kernel release is unknown", ("uname -r",))
    root = f"/lib/modules/{release}"
    index = host.read_text(f"{root}/modules.dep", 8 << 20)
    if not isinstance(index, Known):
        return index
    line = parse_modules_dep(index.value)
    if line is None:
        return Absent((f"{root}/modules.dep",))
    return from_file(f"{root}/{line}", f"{root}/modules.dep", line)


def parse_modules_dep(text: str) -> Optional[str]:
    """Parse the path of the driver's module in modules.dep.

    "updates/dkms/nvidia.ko.zst: kernel/drivers/gpu/drm/drm.ko.zst" -> "updates/dkms/nvidia.ko.zst"
    """
    return find_group(rf"^(\S*/{_MODULE_FILE}):", text, re.MULTILINE) or None


def read_signature(host: Host, module: Fact[str], *, is_loaded: bool) -> Fact[bool]:
    """Return whether the module file is signed, by modinfo.

    Not for a loaded module: the kernel has accepted it.
    """
    if not isinstance(module, Known):
        return module
    path = module.value
    if is_loaded:
        return Unknown(
            "failed", "not read because the module is loaded, so the kernel accepts it", (path,)
        )
    return _run_modinfo(host, path)


def _run_modinfo(host: Host, path: str) -> Fact[bool]:
    program = next((place for place in _MODINFO if isinstance(host.status(place), Known)), None)
    if program is None:
        return Unknown("failed", "modinfo, which reads it, is not installed", _MODINFO)
    done = host.run([program, "-F", "sig_id", path])
    if not isinstance(done, Known):
        if isinstance(done, Absent):
            return Unknown("failed", f"{program} could not be run", (program,))
        return done
    if done.value.returncode != 0:
        return Unknown("failed", f"{program}: {done.value.stderr.strip()[:200]}", (program, path))
    sig_id = done.value.stdout.strip()
    return Known(
        bool(sig_id), Source("command", f"modinfo -F sig_id {path}", sig_id or "no signature")
    )


_DKMS = "/var/lib/dkms"


def read_dkms(host: Host) -> Fact[Tuple[DkmsModule, ...]]:
    """List /var/lib/dkms/nvidia*/RELEASE/KERNEL.

    A remaining folder `build` holds a failed build.
    """
    names = host.list_folder(_DKMS)
    if not isinstance(names, Known):
        return names
    folders = [f"{_DKMS}/{name}" for name in names.value if re.match(r"nvidia(-|$)", name)]
    modules = tuple(module for folder in folders for module in _read_dkms_releases(host, folder))
    if not modules:
        return Absent((f"{_DKMS}/nvidia*",))
    return from_file(modules, _DKMS, f"nvidia {modules[0].version} {modules[0].state}")


def _read_dkms_releases(host: Host, folder: str) -> List[DkmsModule]:
    names = list_names(host, folder)
    # kernel-6.8.0-45-generic-x86_64 is a link to 550.163.01/6.8.0-45-generic/x86_64.
    links = [
        host.real_path(f"{folder}/{name}").value or ""
        for name in names
        if name.startswith("kernel-")
    ]
    matches = [
        match
        for match in (re.search(r"/(\d[^/]*)/([^/]+)/[^/]+$", link) for link in links)
        if match
    ]
    installed = {match.group(2): match.group(1) for match in matches}
    versions = [name for name in names if re.match(r"\d", name)]
    return [
        build
        for version in versions
        for build in _read_dkms_builds(host, folder, version, installed)
    ]


def _read_dkms_builds(
    host: Host, folder: str, version: str, installed: Mapping[str, str]
) -> List[DkmsModule]:
    names = list_names(host, f"{folder}/{version}")
    kernels = [name for name in names if name not in ("source", "build")]
    builds = [
        DkmsModule(version, name, "installed" if installed.get(name) == version else "built")
        for name in kernels
    ]
    if "build" in names:
        log = host.read_text(f"{folder}/{version}/build/make.log", 4096)
    else:
        log = Absent()
    failed = parse_make_log(log.value) if log.value is not None else None
    if failed and failed not in kernels:
        builds.append(DkmsModule(version, failed, "failed"))
    return builds or [DkmsModule(version, "", "added")]


def parse_make_log(text: str) -> Optional[str]:
    """Parse the kernel of a build in the first lines of make.log.

    "DKMS make.log for nvidia-550.163.01 for kernel 6.8.0-45-generic (x86_64)" -> "6.8.0-45-generic"
    """
    return find_group(r"make\.log for \S+ for kernel (\S+)", text) or None


_FABRIC_MANAGER = "/usr/bin/nv-fabricmanager"
_COMM = "nv-fabricmanage"  # the kernel keeps 15 characters of a process name
_NO_NVSWITCH = Absent(("no NVSwitch: the fabric manager was not looked for",))


def read_fabric_manager(host: Host, nvswitch: Fact[bool]) -> Tuple[Fact[str], Fact[bool]]:
    """Return the fabric manager's release and whether it runs.

    Only for machines with an NVSwitch.
    """
    if not isinstance(nvswitch, Known):
        return nvswitch, nvswitch
    if not nvswitch.value:
        return _NO_NVSWITCH, _NO_NVSWITCH
    return _read_fabric_version(host), _is_fabric_manager_running(host)


def _read_fabric_version(host: Host) -> Fact[str]:
    done = host.run([_FABRIC_MANAGER, "--version"], timeout=1.0)
    if not isinstance(done, Known):
        return done
    text = done.value.stdout + done.value.stderr
    return parse_fact(Known(text, done.source), parse_fabric_version, "fabric manager version")


def parse_fabric_version(text: str) -> Optional[str]:
    """Parse the output of nv-fabricmanager --version: "Fabric Manager version is : 535.183.01"."""
    return find_group(r"version is\s*:\s*(\d+(?:\.\d+)+)", text) or None


def _is_fabric_manager_running(host: Host) -> Fact[bool]:
    names = host.list_folder("/proc")
    if not isinstance(names, Known):
        return names
    for name in filter(str.isdigit, names.value):
        if (host.read_text(f"/proc/{name}/comm", 64).value or "").strip() == _COMM:
            return from_file(True, f"/proc/{name}/comm", _COMM)
    if detect_container(host).value is not None:
        return Unknown(
            "failed", "a container does not show the processes of its host", ("/proc/*/comm",)
        )
    return from_file(False, "/proc/*/comm", f"no {_COMM}")
