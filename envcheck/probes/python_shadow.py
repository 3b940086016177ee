"""Find the file or folder that is imported in place of a framework."""

from __future__ import annotations

import posixpath
from typing import Iterator

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known
from envcheck.probes.python_installed import Installed


def shadowed_by(host: Host, installed: Installed, module: str, location: str) -> Fact[str]:
    """Look for `module` wherever Python started here looks before `location`, and for a NumPy in this folder."""
    here = _current_folder(host)
    tried = [(folder, module) for folder in _earlier_folders(host, installed, location)]
    if here and here not in [folder.path for folder in installed.folders]:
        tried.append((here, "numpy"))
    for folder, name in tried:
        for path, file in ((f"{folder}/{name}.py", ""), (f"{folder}/{name}", "/__init__.py")):
            status = host.status(path + file)
            if isinstance(status, Known) and status.value.kind == "file":
                return Known(path, status.source)
    return Absent(tuple(f"{folder}/{name}" for folder, name in tried))


def _current_folder(host: Host) -> str:
    safe = host.environment().get("PYTHONSAFEPATH", "")
    return "" if safe else str(host.system_facts().get("folder", ""))


def _earlier_folders(host: Host, installed: Installed, location: str) -> Iterator[str]:
    current = _current_folder(host)
    if current and current != location:
        yield current
    for entry in host.environment().get("PYTHONPATH", "").split(";" if host.system == "windows" else ":"):
        if entry == location:
            return
        if entry:
            yield posixpath.join(current, entry)
    for folder in installed.folders:
        if folder.path == location:
            return
        if folder.scope != "path":
            yield folder.path
