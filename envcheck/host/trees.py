"""Copy, measure and remove whole folders."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
from typing import Iterator, List, Union

StrPath = Union[str, "os.PathLike[str]"]

_FICLONE = 0x40049409  # linux/fs.h: let two files share their blocks until one of them changes
_NO_REFLINK = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.EXDEV, errno.ENOSYS, errno.EPERM, errno.EACCES)


def copy_tree(source: StrPath, target: StrPath) -> None:
    """Copy a folder with links as links, modes, times and, for root, owners; blocks are shared where possible."""
    os.mkdir(target, 0o700)
    for entry in sorted(os.scandir(source), key=lambda item: item.name):
        there = os.path.join(target, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), there)
            _copy_owner(entry.path, there)
        elif entry.is_dir():
            copy_tree(entry.path, there)
        elif entry.is_file():
            _copy_file(entry.path, there)
    _copy_owner(source, target)
    shutil.copystat(source, target)


def tree_size(folder: str) -> int:
    """Return the bytes on disk of what lies below a folder; what cannot be read counts nothing."""
    return sum(_size(path) for path in _files(folder))


def changed_after(folder: StrPath, seconds: float) -> List[str]:
    """List the files below a folder that were made or changed after a time (seconds since 1970), but for bytecode."""
    found = []
    for path in _files(folder):
        with contextlib.suppress(OSError):
            if os.path.basename(os.path.dirname(path)) != "__pycache__" and _is_newer(path, seconds):
                found.append(os.path.relpath(path, folder))
    return sorted(found)


def _is_newer(path: str, seconds: float) -> bool:
    """Tell whether a file was written, or put there, after a time; another link to it, as of uv's cache, is neither."""
    status = os.lstat(path)
    if status.st_mtime > seconds:
        return status.st_ctime > seconds or os.name == "nt"  # there it is when the file was made
    is_put_there = status.st_nlink == 1 and os.stat(os.path.dirname(path)).st_mtime > seconds
    return status.st_ctime > seconds and is_put_there


def remove_tree(folder: StrPath) -> None:
    """Remove a folder whole, read-only folders in it too; nothing where it is not there. Raises OSError."""
    if os.path.lexists(folder):
        for place, names, _ in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                if not os.path.islink(path) and not os.access(path, os.W_OK | os.X_OK):
                    os.chmod(path, stat.S_IRWXU)
        shutil.rmtree(folder)


def free_bytes(folder: str) -> int:
    """Return the bytes this user may still write where a folder lies."""
    return shutil.disk_usage(folder).free


def write_through(folder: StrPath) -> None:
    """Have the file system of a folder on its disk before anything else happens."""
    if not hasattr(os, "sync"):
        return
    from ctypes import CDLL, get_errno

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        syncfs = getattr(CDLL(None, use_errno=True), "syncfs", None) if sys.platform == "linux" else None
        if syncfs is None:
            os.sync()
        elif syncfs(descriptor) != 0:
            number = get_errno()
            raise OSError(number, os.strerror(number), folder)
    finally:
        os.close(descriptor)


def _copy_file(source: str, target: str) -> None:
    if not _share_blocks(source, target):
        shutil.copyfile(source, target)
    _copy_owner(source, target)
    shutil.copystat(source, target)


def _share_blocks(source: str, target: str) -> bool:
    if sys.platform != "linux":
        return False
    from fcntl import ioctl

    with open(source, "rb") as old, open(target, "wb") as new:
        try:
            ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError as error:
            if error.errno in _NO_REFLINK:
                return False
            raise
    return True


def _copy_owner(source: StrPath, target: StrPath) -> None:
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        status = os.lstat(source)
        os.lchown(target, status.st_uid, status.st_gid)


def _files(folder: StrPath) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(place, name)


def _size(path: str) -> int:
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        blocks = getattr(status, "st_blocks", None)  # not on Windows
        return int(status.st_size if blocks is None else blocks * 512)
    return 0
