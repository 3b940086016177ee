"""Find the file or folder that is imported in place of a framework."""

from __future__ import annotations

import posixpath
from typing import Iterator

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source
from envcheck.probes.python_installed import Installed


def shadowed_by(host: Host, installed: Installed, module: str, location: str) -> Fact[str]:
    """Look for `module` in every folder that a script started here imports from before `location`."""
    tried = list(_earlier_folders(host, installed, location))
    for folder in tried:
        for name in (f"{module}.py", f"{module}/__init__.py"):
            path = posixpath.join(folder, name)
            status = host.status(path)
            if isinstance(status, Known) and status.value.kind == "file":
                place = posixpath.join(folder, module) if name.endswith("__init__.py") else path
                return Known(place, Source("file", path))
    return Absent(tuple(tried))


def _earlier_folders(host: Host, installed: Installed, location: str) -> Iterator[str]:
    current = str(host.system_facts().get("folder", "."))
    if current != location:
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
