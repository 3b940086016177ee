"""Read files and folders of this machine; never block on a file that is not regular."""

from __future__ import annotations

import os
import stat
from typing import Callable, Dict, Mapping, Optional, Tuple, TypeVar

from envcheck.host.protocol import FileStatus, Host
from envcheck.model import Absent, Fact, Known, Unknown, from_file

T = TypeVar("T")
_KINDS = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "folder"),
    (stat.S_ISCHR, "char"),
    (stat.S_ISBLK, "block"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
)


def read_as_fact(path: str, read: Callable[[], Fact[T]]) -> Fact[T]:
    """Call `read` and turn the errors of the file system into facts about `path`."""
    try:
        return read()
    except (FileNotFoundError, NotADirectoryError):
        return Absent((path,))
    except PermissionError as error:
        return Unknown("denied", f"{path}: {error.strerror}", (path,))
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        else:
            reason = str(error)
        return Unknown("failed", f"{path}: {reason}", (path,))


def read_file(path: str, limit: int) -> Fact[bytes]:
    """Read the first `limit` bytes of a regular file; refuse a FIFO, device or folder."""
    kind = get_file_kind(os.stat(path).st_mode)
    if kind != "file":
        return Unknown("failed", f"{path} is a {kind}, not a regular file", (path,))
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as stream:
        return make_content_fact(stream.read(limit), path)


def make_content_fact(data: bytes, path: str) -> Known[bytes]:
    """Build the fact for a file's bytes, with the first line as excerpt where it is printable."""
    first_line = data[:200].split(b"\n", 1)[0].decode("utf-8", "replace")
    return from_file(data, path, first_line if first_line.isprintable() else "")


def list_folder(path: str) -> Fact[Tuple[str, ...]]:
    """List the names in a folder, sorted."""
    return from_file(tuple(sorted(os.listdir(path))), path)


def list_sizes(path: str, times: Dict[str, float]) -> Fact[Mapping[str, int]]:
    """Map the names in a folder to the sizes of its files, -1 for a folder.

    A link to nothing is left out. `times` gets the time of each file's last change.
    """
    sizes: Dict[str, int] = {}
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_file():
                status = entry.stat()
                sizes[entry.name] = status.st_size
                times[entry.name] = status.st_mtime
            elif entry.is_dir():
                sizes[entry.name] = -1
    return from_file(sizes, path)


def resolve_path(path: str) -> Fact[str]:
    """Resolve every symlink of a path that exists."""
    real = os.path.realpath(path)
    os.stat(path)
    return from_file(real, path, f"-> {real}" if real != path else "")


def read_status(path: str) -> Fact[FileStatus]:
    """Stat a path and check whether this user may read and write it."""
    result = os.stat(path)
    status = FileStatus(
        kind=get_file_kind(result.st_mode),
        size=result.st_size,
        mode=stat.filemode(result.st_mode),
        owner=f"{result.st_uid}:{result.st_gid}",
        readable=os.access(path, os.R_OK),
        writable=os.access(path, os.W_OK),
        inode=result.st_ino,
        changed=result.st_ctime,
    )
    return from_file(status, path, f"{status.mode} {status.owner}")


def get_file_kind(mode: int) -> str:
    """Name the file type in `st_mode`."""
    return next((name for test, name in _KINDS if test(mode)), "file of an unknown kind")


_ROOT, _NOBODY = ("0", "root"), ("65534", "nobody")
_EVERY_USER = "4294967295"  # length of the map of the namespace that a machine starts with


def find_trust_problem(host: Host, path: str) -> Optional[str]:
    """Return why root must not run or load `path`: another user can change it or a folder above it.

    None for other users: they gain no rights by it.
    """
    if host.system == "windows" or not host.system_facts().get("is_root"):
        return None
    # a user namespace, as of a rootless container, shows owners that it does not know as nobody
    users = (host.read_text("/proc/self/uid_map").value or _EVERY_USER).split()
    trusted = _ROOT if users[-1] == _EVERY_USER else _ROOT + _NOBODY
    real = host.real_path(path)
    place = real.value or path
    while True:
        status = host.status(place).value
        problem = None
        if status is not None:
            problem = _find_change_right(place, status, trusted)
        if problem or place == os.path.dirname(place):
            return problem
        place = os.path.dirname(place)


def _find_change_right(path: str, status: FileStatus, trusted: Tuple[str, ...]) -> Optional[str]:
    is_sticky = status.kind == "folder" and status.mode[-1:] in ("t", "T")
    if status.mode[8:9] == "w" and not is_sticky:
        return f"{path} is writable by every user"
    owner = status.owner.split(":")[0]
    if owner in trusted:
        return None
    return f"{path} belongs to another user (uid {owner})"
