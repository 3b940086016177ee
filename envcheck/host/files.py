"""Read files and folders of this machine without ever blocking on one that is not regular."""

from __future__ import annotations

import os
import stat
from typing import Callable, Tuple, TypeVar

from envcheck.host.protocol import FileStatus
from envcheck.model import Absent, Fact, Known, Source, Unknown

T = TypeVar("T")
_KINDS = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "folder"),
    (stat.S_ISCHR, "char"),
    (stat.S_ISBLK, "block"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
)


def attempt(path: str, read: Callable[[], Fact[T]]) -> Fact[T]:
    """Call `read` and turn the errors of the file system into facts about `path`."""
    try:
        return read()
    except (FileNotFoundError, NotADirectoryError):
        return Absent((path,))
    except PermissionError as error:
        return Unknown("denied", f"{path}: {error.strerror}", (path,))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Unknown("failed", f"{path}: {reason}", (path,))


def read_file(path: str, limit: int) -> Fact[bytes]:
    """Read the first `limit` bytes of a regular file; a FIFO, device or folder is refused."""
    kind = kind_of(os.stat(path).st_mode)
    if kind != "file":
        return Unknown("failed", f"{path} is a {kind}, not a regular file", (path,))
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as stream:
        data = stream.read(limit)
    first_line = data[:200].split(b"\n", 1)[0].decode("utf-8", "replace")
    return Known(data, Source("file", path, first_line if first_line.isprintable() else ""))


def list_names(path: str) -> Fact[Tuple[str, ...]]:
    """List a folder's names, sorted."""
    return Known(tuple(sorted(os.listdir(path))), Source("file", path))


def resolve(path: str) -> Fact[str]:
    """Follow every symlink to a file that exists."""
    real = os.path.realpath(path)
    os.stat(path)
    return Known(real, Source("file", path, f"-> {real}" if real != path else ""))


def examine(path: str) -> Fact[FileStatus]:
    """Stat a path and ask the kernel whether this user may read and write it."""
    status = os.stat(path)
    found = FileStatus(
        kind=kind_of(status.st_mode),
        size=status.st_size,
        mode=stat.filemode(status.st_mode),
        owner=f"{status.st_uid}:{status.st_gid}",
        readable=os.access(path, os.R_OK),
        writable=os.access(path, os.W_OK),
    )
    return Known(found, Source("file", path, f"{found.mode} {found.owner}"))


def kind_of(mode: int) -> str:
    """Name the file type in `st_mode`."""
    return next((name for test, name in _KINDS if test(mode)), "file of an unknown kind")
