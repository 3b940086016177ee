"""Handle paths of the inspected system, whose separator may not be that of this one."""

from __future__ import annotations

import os
import re
import shlex
from typing import List, Sequence, Tuple, TypeVar

from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, Unknown

T = TypeVar("T")


def join_path(host: Host, *parts: str) -> str:
    """Join path parts with the separator of the inspected system."""
    separator = "\\" if host.system == "windows" else "/"
    first = parts[0].rstrip("/\\") if len(parts) > 1 else parts[0]
    return separator.join((first, *parts[1:]))


def get_parent(path: str) -> str:
    """Return the folder of a path with either separator."""
    return path[: max(path.rfind("/"), path.rfind("\\"), 0)]


def get_base_name(path: str) -> str:
    """Return the last part of a path with either separator."""
    return path[max(path.rfind("/"), path.rfind("\\")) + 1 :]


def list_names(host: Host, folder: str) -> Tuple[str, ...]:
    """List a folder; () where it does not exist or cannot be read."""
    return host.list_folder(folder).value or ()


def resolve_existing(host: Host, paths: Sequence[str]) -> List[str]:
    """Return the real paths of those that exist."""
    return [real.value for real in map(host.real_path, paths) if real.value is not None]


def list_folders_in(host: Host, variable: str) -> Tuple[str, ...]:
    """Return the distinct absolute folders in a variable such as PATH, in order."""
    separator = ";" if host.system == "windows" else ":"
    entries = dict.fromkeys(host.environment().get(variable, "").split(separator))
    return tuple(entry for entry in entries if entry[:1] in ("/", "\\") or entry[1:2] == ":")


def get_multiarch_triple(host: Host) -> str:
    """Return Debian's name for the library folder of this architecture: x86_64-linux-gnu."""
    machine = str(host.system_facts().get("machine", "x86_64"))
    return "{}-linux-gnu".format({"arm64": "aarch64", "i686": "i386"}.get(machine, machine))


def or_unmounted(host: Host, fact: Fact[T], mount: str) -> Fact[T]:
    """Return what is absent from /proc or /sys as unknown where that is not mounted.

    Every Linux has both, but in a chroot, or while an image is built: there, nothing tells whether
    what a file in them would state is so.
    """
    if not isinstance(fact, Absent) or host.system != "linux" or list_names(host, mount):
        return fact
    return Unknown("failed", f"{mount} is not mounted (a chroot?)", fact.tried or (mount,))


def expand_path(path: str) -> str:
    """Return the path on this machine that a redacted one stands for."""
    name = os.environ.get("USER") or os.environ.get("LOGNAME") or "$USER"
    return os.path.expanduser(path.replace("$USER", name))


def fold_home(text: str) -> str:
    """Write ~ for this user's home folder in a text or a document that is sent to others."""
    home = os.path.expanduser("~").rstrip("/\\")
    if len(home) < 2 or os.path.basename(home) not in text:
        return text
    either = re.escape(home).replace("\\\\", "\\\\{1,2}")  # JSON doubles each \\
    return re.sub(rf"(?<![\w./-]){either}(?=$|[/\\:;,'\"\s)\]])", "~", text)


def shorten_path(path: str) -> str:
    """Write a folder of this machine as it is seen from the working folder: .venv, ~/other/env."""
    here = os.path.join(os.getcwd(), "")
    full = expand_path(path)
    return full[len(here) :] if full.startswith(here) else path


def type_path(path: str) -> str:
    """Write a folder of this machine for a shell, which expands no ~ in quotes."""
    short = shorten_path(path)
    if re.match(r"[\w./~+-]+$", short):
        return short
    return shlex.quote(expand_path(short))
