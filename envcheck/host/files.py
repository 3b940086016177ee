"""Read files, folders and ELF libraries of this machine; never block on a file that is not regular."""

from __future__ import annotations

import os
import stat
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, TypeVar

from envcheck.host.protocol import ElfFacts, FileStatus, Host
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


def read_as_fact(path: str, read: Callable[[], Fact[T]]) -> Fact[T]:
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
    return Known(data, Source("file", path, first_line if first_line.isprintable() else ""))


def list_folder(path: str) -> Fact[Tuple[str, ...]]:
    """List the names in a folder, sorted."""
    return Known(tuple(sorted(os.listdir(path))), Source("file", path))


def list_sizes(path: str) -> Fact[Mapping[str, int]]:
    """Map the names in a folder to the sizes of its files, -1 for a folder; a link to nothing is left out."""
    with os.scandir(path) as entries:
        sizes = {
            entry.name: entry.stat().st_size if entry.is_file() else -1
            for entry in entries
            if entry.is_file() or entry.is_dir()
        }
    return Known(sizes, Source("file", path))


def resolve_path(path: str) -> Fact[str]:
    """Resolve every symlink of a path that exists."""
    real = os.path.realpath(path)
    os.stat(path)
    return Known(real, Source("file", path, f"-> {real}" if real != path else ""))


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
    )
    return Known(status, Source("file", path, f"{status.mode} {status.owner}"))


def get_file_kind(mode: int) -> str:
    """Name the file type in `st_mode`."""
    return next((name for test, name in _KINDS if test(mode)), "file of an unknown kind")


_TRUSTED_OWNERS = ("0", "root", "65534", "nobody")  # a user namespace shows unmapped owners as nobody


def find_trust_problem(host: Host, path: str) -> Optional[str]:
    """Return why root must not run or load `path`: another user can change it or a folder above it.

    None for other users: they gain no rights by it.
    """
    if host.system == "windows" or not host.system_facts().get("is_root"):
        return None
    real = host.real_path(path)
    place = real.value if isinstance(real, Known) else path
    while True:
        status = host.status(place)
        problem = _find_change_right(place, status.value) if isinstance(status, Known) else None
        if problem or place == os.path.dirname(place):
            return problem
        place = os.path.dirname(place)


def _find_change_right(path: str, status: FileStatus) -> Optional[str]:
    is_sticky = status.kind == "folder" and status.mode[-1:] in ("t", "T")
    if status.mode[8:9] == "w" and not is_sticky:
        return f"{path} is writable by every user"
    owner = status.owner.split(":")[0]
    return None if owner in _TRUSTED_OWNERS else f"{path} belongs to another user (uid {owner})"


_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64", "EM_386": "i386", "EM_ARM": "arm", "EM_PPC64": "ppc64"}
_TAGS = {"DT_NEEDED": "needed", "DT_SONAME": "soname", "DT_RUNPATH": "runpath", "DT_RPATH": "rpath"}


def read_elf(path: str) -> Fact[ElfFacts]:
    """Read the dynamic section and symbol versions of an ELF file; raises the errors of the file system."""
    from elftools.common.exceptions import ELFError  # pyelftools costs as much as several interpreter starts
    from elftools.construct import ConstructError
    from elftools.elf.elffile import ELFFile

    if not stat.S_ISREG(os.stat(path).st_mode):
        return Unknown("failed", f"{path} is not a regular file", (path,))
    try:
        with open(path, "rb") as stream:
            return Known(_make_facts(ELFFile(stream), path), Source("file", path))
    except (ELFError, ConstructError, UnicodeDecodeError, AttributeError, AssertionError, TypeError) as error:
        # pyelftools raises any of these for a truncated or corrupt file.
        return Unknown("unparsable", f"{path}: {error or type(error).__name__}", (path,))


def _make_facts(elf: Any, path: str) -> ElfFacts:
    entries = _read_dynamic_section(elf)
    runpath = entries.get("DT_RUNPATH") or entries.get("DT_RPATH") or [""]
    return ElfFacts(
        machine=_MACHINES.get(elf["e_machine"], str(elf["e_machine"])),
        soname=entries.get("DT_SONAME", [""])[0],
        needed=tuple(entries.get("DT_NEEDED", ())),
        runpath=expand_runpath(runpath[0], path),
        is_rpath="DT_RUNPATH" not in entries,
        versions_needed=tuple(dict.fromkeys(_read_versions(elf, ".gnu.version_r"))),
        versions_defined=tuple(_read_versions(elf, ".gnu.version_d")),
    )


def expand_runpath(text: str, path: str) -> Tuple[str, ...]:
    """Split a RUNPATH and replace $ORIGIN by the real folder of the file, as the loader does.

    Sample: '$ORIGIN/../nvidia/cudnn/lib:$ORIGIN' in /v/torch/lib/x.so -> /v/torch/nvidia/cudnn/lib, /v/torch/lib
    """
    origin = os.path.dirname(os.path.realpath(path))
    parts = (part.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for part in text.split(":"))
    return tuple(dict.fromkeys(os.path.normpath(part) for part in parts if part))


def _read_dynamic_section(elf: Any) -> Dict[str, List[str]]:
    entries: Dict[str, List[str]] = {}
    for segment in elf.iter_segments("PT_DYNAMIC"):
        for tag in segment.iter_tags():
            if tag.entry.d_tag in _TAGS:
                entries.setdefault(tag.entry.d_tag, []).append(str(getattr(tag, _TAGS[tag.entry.d_tag])))
    return entries


def _read_versions(elf: Any, section_name: str) -> Iterator[str]:
    section = elf.get_section_by_name(section_name)
    for _, auxiliaries in section.iter_versions() if section is not None else ():
        names = [auxiliary.name for auxiliary in auxiliaries]
        # The first name of a definition is the version itself, the others are its parents.
        yield from names if section_name.endswith("_r") else names[:1]
