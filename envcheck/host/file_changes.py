"""Change files and folders without ever leaving them half done."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
import threading
import time
from pathlib import Path
from typing import Iterable, Iterator, List, Union


def write_output(path: Path, text: str) -> None:
    """Write to a path of the user.

    To the target of a link, and into a device or pipe; raises OSError.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        # never replace /dev/null or /dev/stdout
        with open(str(path), "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    else:
        write_atomically(Path(os.path.realpath(str(path))), text)


def write_atomically(path: Path, text: str) -> None:
    """Write `text` to a temporary file and rename it to `path`.

    Leaves no temporary file, even after Ctrl-C.

    Replaces a link instead of following it: another user may have put it there. Raises OSError.
    """
    temporary = str(path.with_name(f".{path.name[:200]}.{os.getpid()}.{threading.get_ident()}"))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)  # of a killed process with the same number
    try:
        with open(temporary, "x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        os.replace(temporary, str(path))
    except BaseException:  # KeyboardInterrupt too
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def append_durably(path: str, line: str) -> None:
    """Append a line to a file and flush it to the disk; creates the file. Raises OSError."""
    is_new = not os.path.lexists(path)
    data = line.encode("utf-8") + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if _is_last_line_incomplete(descriptor):
            data = b"\n" + data  # a full disk or a power failure cut the line before
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if is_new and os.name == "posix":
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            os.fsync(folder)  # else a power failure may lose the name of the file
        finally:
            os.close(folder)


def _is_last_line_incomplete(descriptor: int) -> bool:
    if not os.lseek(descriptor, 0, os.SEEK_END):
        return False
    os.lseek(descriptor, -1, os.SEEK_END)
    return os.read(descriptor, 1) != b"\n"


_PAUSE = 0.05  # seconds between attempts


class FileLockedError(Exception):
    """Another process holds the lock; the message is its process id."""


@contextlib.contextmanager
def lock_file(path: str, patience: float) -> Iterator[int]:
    """Lock `path` for the block and yield its descriptor.

    Raises FileLockedError after `patience` seconds.

    A process that inherits the descriptor keeps the lock when this one is killed.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + patience
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                os.lseek(descriptor, 0, os.SEEK_SET)
                raise FileLockedError(os.read(descriptor, 100).decode("ascii", "replace").strip())
            time.sleep(_PAUSE)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, b"%d\n" % os.getpid())
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        if os.name == "posix":
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            _lock_on_windows(descriptor)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _lock_on_windows(descriptor: int) -> None:
    import importlib

    msvcrt = importlib.import_module("msvcrt")  # by name: type checkers know it only on Windows
    os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # beyond the text, which others read
    msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    os.lseek(descriptor, 0, os.SEEK_SET)


_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h
_RENAME_SWAP = 2  # macOS: sys/stdio.h


def swap_folders(first: Path, second: Path, aside: Path) -> None:
    """Swap two folders; without a system call for it, `first` is `aside` for a moment.

    Raises OSError.
    """
    if not _exchange_atomically(first, second):
        os.rename(first, aside)
        os.rename(second, first)
        os.rename(aside, second)


def _exchange_atomically(first: Path, second: Path) -> bool:
    from ctypes import CDLL

    if os.name != "posix":
        return False
    names, library = [os.fsencode(path) for path in (first, second)], CDLL(None)
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        return bool(
            library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0
        )
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        return bool(library.renamex_np(names[0], names[1], _RENAME_SWAP) == 0)
    return False


def get_inode(path: Path) -> int:
    """Return the inode number of a path, which a rename keeps; 0 where the path does not exist."""
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0


StrPath = Union[str, "os.PathLike[str]"]

_FICLONE = 0x40049409  # linux/fs.h: let two files share their blocks until one of them changes
_NO_REFLINK = (
    errno.EOPNOTSUPP,
    errno.ENOTTY,
    errno.EINVAL,
    errno.EXDEV,
    errno.ENOSYS,
    errno.EPERM,
    errno.EACCES,
)


def copy_tree(source: StrPath, target: StrPath) -> None:
    """Copy a folder with links, modes, times and, for root, owners; share blocks if possible."""
    os.mkdir(target, 0o700)
    for entry in sorted(os.scandir(source), key=lambda item: item.name):
        copy = os.path.join(target, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), copy)
            _copy_owner(entry.path, copy)
        elif entry.is_dir():
            copy_tree(entry.path, copy)
        elif entry.is_file():
            _copy_file(entry.path, copy)
    _copy_owner(source, target)
    shutil.copystat(source, target)


def measure_tree(folder: str) -> int:
    """Return the bytes on disk of the files below a folder; unreadable ones count as 0."""
    return sum(map(_measure_file, _walk_files(folder)))


def list_changed_files(folder: StrPath, seconds: float) -> List[str]:
    """List the files below a folder changed after a time, without bytecode.

    The time is in seconds since 1970.
    """
    changed = []
    for path in _walk_files(folder):
        with contextlib.suppress(OSError):
            if os.path.basename(os.path.dirname(path)) != "__pycache__" and _is_changed_after(
                path, seconds
            ):
                changed.append(os.path.relpath(path, folder))
    return sorted(changed)


def _is_changed_after(path: str, seconds: float) -> bool:
    """Return whether a file was written or added after a time.

    A new hard link, as from uv's cache, is neither.
    """
    status = os.lstat(path)
    if status.st_mtime > seconds:
        return status.st_ctime > seconds or os.name == "nt"  # Windows: the time of creation
    was_added = status.st_nlink == 1 and os.stat(os.path.dirname(path)).st_mtime > seconds
    return status.st_ctime > seconds and was_added


def remove_tree(folder: StrPath) -> None:
    """Remove a folder with its read-only folders; do nothing where it does not exist.

    Raises OSError.
    """
    if os.path.lexists(folder):
        for place, names, _ in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                if not os.path.islink(path) and not os.access(path, os.W_OK | os.X_OK):
                    os.chmod(path, stat.S_IRWXU)
        shutil.rmtree(folder)


def get_free_bytes(folder: str) -> int:
    """Return the bytes that this user can write to the file system of a folder."""
    return shutil.disk_usage(folder).free


def sync_file_system(folder: StrPath) -> None:
    """Flush the file system of a folder to its disk."""
    if not hasattr(os, "sync"):
        return
    from ctypes import CDLL, get_errno

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        syncfs = None
        if sys.platform == "linux":
            syncfs = getattr(CDLL(None, use_errno=True), "syncfs", None)
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


def give_to_owner(paths: Iterable[str], of: StrPath) -> None:
    """Let what belongs to root belong to the owner of a folder.

    A file of several names stays: another one may be a file of root's.
    """
    owner = os.lstat(of)
    for path in paths:
        status = os.lstat(path)
        if status.st_uid == 0 and (stat.S_ISDIR(status.st_mode) or status.st_nlink == 1):
            os.lchown(path, owner.st_uid, owner.st_gid)


def walk_tree(folder: StrPath) -> Iterator[str]:
    """Yield every path below a folder."""
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            yield os.path.join(place, name)


def _walk_files(folder: StrPath) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(place, name)


def _measure_file(path: str) -> int:
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        blocks = getattr(status, "st_blocks", None)  # not on Windows
        return int(status.st_size if blocks is None else blocks * 512)
    return 0
