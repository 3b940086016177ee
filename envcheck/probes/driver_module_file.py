"""Find the driver's module file for the running kernel, loaded or not, and whether it is signed."""

from __future__ import annotations

import re
from typing import Optional

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown

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
