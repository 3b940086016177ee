"""Read the driver's kernel module: the loaded one, the installed file, its signature and DKMS."""

from __future__ import annotations

import re
from typing import List, Mapping, NamedTuple, Optional, Tuple

from envcheck.host.paths import list_names
from envcheck.host.protocol import Host
from envcheck.model import (
    Absent,
    DkmsModule,
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
