"""List the Jupyter kernels and the Python each one starts."""

from __future__ import annotations

import json
import posixpath
from typing import Iterator, List, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source
from envcheck.model.python_env import JupyterKernel


def collect_kernels(host: Host, prefix: str) -> Fact[Tuple[JupyterKernel, ...]]:
    """Read kernel.json of every kernel that a Jupyter of this environment or user would list."""
    folders = list(_folders(host, prefix))
    kernels: List[JupyterKernel] = []
    for folder in folders:
        names = host.list_folder(folder)
        for name in names.value if isinstance(names, Known) else ():
            text = host.read_text(posixpath.join(folder, name, "kernel.json"))
            python = parse_kernel(text.value) if isinstance(text, Known) else ""
            if python and name not in [each.name for each in kernels]:
                kernels.append(JupyterKernel(name, python))
    return Known(tuple(kernels), Source("file", folders[0])) if kernels else Absent(tuple(folders))


def parse_kernel(text: str) -> str:
    """Return the program that a kernel.json starts, empty when it names none.

    Sample: '{"argv": ["/v/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "language": "python"}'
    """
    try:
        command = json.loads(text).get("argv", [])
        return str(command[0]) if isinstance(command, list) and command else ""
    except (ValueError, AttributeError):
        return ""


def _folders(host: Host, prefix: str) -> Iterator[str]:
    environment = host.environment()
    home = environment.get("HOME", "")
    yield from (f"{entry}/kernels" for entry in environment.get("JUPYTER_PATH", "").split(":") if entry.startswith("/"))
    if environment.get("JUPYTER_DATA_DIR"):
        yield posixpath.join(environment["JUPYTER_DATA_DIR"], "kernels")
    elif host.system == "darwin":
        yield posixpath.join(home, "Library/Jupyter/kernels")
    elif host.system == "windows":
        yield posixpath.join(environment.get("APPDATA", ""), "jupyter/kernels")
    else:
        yield posixpath.join(environment.get("XDG_DATA_HOME") or f"{home}/.local/share", "jupyter/kernels")
    yield posixpath.join(prefix, "share/jupyter/kernels")
    if host.system != "windows":
        yield from ("/usr/local/share/jupyter/kernels", "/usr/share/jupyter/kernels")
