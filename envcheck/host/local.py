"""Read this machine for the probes."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import struct
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar, cast

from envcheck.host import files
from envcheck.host.data_files import read_packaged
from envcheck.host.protocol import Completed, ElfFacts, FileStatus
from envcheck.model import Absent, Fact, Known, Source, Unknown

_OVERFLOW_USER = 65534  # owner of files that a user namespace does not map


def why_untrusted(path: str) -> Optional[str]:
    """Say why root should not run `path`, or None: it and its folders must not be writable by others.

    Users other than root may run whatever they can: they gain nobody's rights.
    """
    if os.name != "posix" or os.geteuid() != 0:
        return None
    place = os.path.realpath(path)
    while True:
        reason = _writable_by_others(place)
        if reason or place == os.path.dirname(place):
            return reason
        place = os.path.dirname(place)


def _writable_by_others(path: str) -> Optional[str]:
    status = os.stat(path)
    sticky_folder = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if status.st_mode & stat.S_IWOTH and not sticky_folder:
        return f"{path} is writable by every user"
    if status.st_uid not in (0, _OVERFLOW_USER):
        return f"{path} belongs to another user (uid {status.st_uid})"
    return None


_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = 48
_ENTRY = struct.Struct("=iIIIQ")
# flags of an entry: libc6 ELF in the low byte, the architecture above it (glibc sysdeps/generic/ldconfig.h)
_FLAGS = {"x86_64": 0x0303, "aarch64": 0x0A03, "ppc64le": 0x0503, "s390x": 0x0403, "i686": 0x0003}


def parse_loader_cache(data: bytes, machine: str) -> Mapping[str, Tuple[str, ...]]:
    """Map each soname to its files, in the loader's order, keeping only `machine`'s libraries.

    The file starts with `glibc-ld.so.cache1.1`, the entry count and the string length; an older
    cache (`ld.so-1.7.0`) may stand before it. Entries hold flags and offsets of soname and path.
    Raises ValueError when it is no such cache or is truncated.
    """
    start = data.find(_MAGIC)
    if start < 0:
        raise ValueError("no glibc-ld.so.cache1.1 header")
    cache = data[start:]
    if len(cache) < _HEADER:
        raise ValueError("truncated header")
    (count,) = struct.unpack_from("=I", cache, len(_MAGIC))
    if len(cache) < _HEADER + count * _ENTRY.size:
        raise ValueError("truncated entries")
    wanted = _FLAGS.get(machine)
    found: Dict[str, List[str]] = {}
    for flags, key, value, _, _ in _ENTRY.iter_unpack(cache[_HEADER : _HEADER + count * _ENTRY.size]):
        if wanted is None or flags == wanted:
            found.setdefault(_text(cache, key), []).append(_text(cache, value))
    return {soname: tuple(paths) for soname, paths in found.items()}


def _text(cache: bytes, offset: int) -> str:
    end = cache.find(b"\0", offset)
    if end < 0:
        raise ValueError("truncated strings")
    return cache[offset:end].decode("utf-8", "replace")


T = TypeVar("T")
_SYSTEMS = {"linux": "linux", "darwin": "darwin", "win32": "windows", "cygwin": "windows"}

_DESCRIBING = ("interpreter_info",)  # child scripts with a describe(), which reads files and changes nothing


class LocalHost:
    """Answer the probes from the running system; safe to use from several threads.

    `budget` bounds, in seconds, all external programs together: a machine on which every tool
    hangs still gets its report.
    """

    def __init__(self, budget: float = 3.5) -> None:
        self.system = _SYSTEMS.get(sys.platform, sys.platform)
        self._deadline = time.monotonic() + budget
        self._answers: Dict[Tuple[str, ...], Any] = {}
        self._locks: Dict[Tuple[str, ...], threading.Lock] = {}
        self._guard = threading.Lock()

    def environment(self) -> Mapping[str, str]:
        """Return this process's environment."""
        return os.environ

    def system_facts(self) -> Mapping[str, Any]:
        """Return what the C library and the kernel say of this machine."""
        facts: Dict[str, Any] = {**_kernel_names(), "is_root": hasattr(os, "geteuid") and os.geteuid() == 0}
        _add(facts, "libc", lambda: os.confstr("CS_GNU_LIBC_VERSION"))
        _add(facts, "memory_bytes", lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        _add(facts, "folder", os.getcwd)
        if self.system == "windows":
            from envcheck.host.processor import instructions_on_windows  # of no use elsewhere

            _add(facts, "cpu_flags", instructions_on_windows)
        return facts

    def read_bytes(self, path: str, limit: int = 1 << 20) -> Fact[bytes]:
        """Read the first `limit` bytes of a regular file."""
        return files.attempt(path, lambda: files.read_file(path, limit))

    def read_text(self, path: str, limit: int = 1 << 20) -> Fact[str]:
        """Read a regular file as text, undecodable bytes replaced."""
        data = self.read_bytes(path, limit)
        if isinstance(data, Known):
            return Known(data.value.decode("utf-8", "replace"), data.source)
        return data

    def list_folder(self, path: str) -> Fact[Tuple[str, ...]]:
        """List a folder's names."""
        return files.attempt(path, lambda: files.list_names(path))

    def real_path(self, path: str) -> Fact[str]:
        """Resolve every symlink."""
        return files.attempt(path, lambda: files.resolve(path))

    def status(self, path: str) -> Fact[FileStatus]:
        """Stat a path, symlinks followed."""
        return files.attempt(path, lambda: files.examine(path))

    def find_program(self, name: str) -> Fact[str]:
        """Find an executable on PATH; unknown when only files that cannot be executed bear the name."""
        unusable: List[str] = []
        for folder in self._once(("PATH", os.environ.get("PATH", "")), _search_folders):
            path = os.path.join(folder, name + (".exe" if self.system == "windows" else ""))
            if os.path.isfile(path):
                if os.access(path, os.X_OK):
                    return Known(path, Source("file", path))
                unusable.append(path)
        if unusable:
            return Unknown("denied", f"{unusable[0]} is not executable", tuple(unusable))
        return Absent((f"{name} on PATH",))

    def run(
        self, argv: Sequence[str], timeout: float = 2.0, environment: Optional[Mapping[str, str]] = None
    ) -> Fact[Completed]:
        """Run a program by absolute path, in the C locale, within what is left of the budget."""
        changed = environment or {}
        key = ("run", *argv, "\0", *sorted(f"{name}={value}" for name, value in changed.items()))
        return self._once(key, lambda: self._run(argv, timeout, changed))

    def ask(self, script: str, *arguments: str, python: str = "", timeout: float = 3.0) -> Fact[Mapping[str, Any]]:
        """Run a child script isolated in a Python and read the JSON object it prints."""
        key = ("ask", script, python, *arguments)
        if python in ("", sys.executable) and script in _DESCRIBING:
            return self._once(key, lambda: _in_this_process(script, arguments))
        return self._once(key, lambda: self._ask(script, arguments, python or sys.executable, timeout))

    def elf(self, path: str) -> Fact[ElfFacts]:
        """Read the dynamic section of an ELF file."""
        from envcheck.host.elf import read_elf  # pyelftools costs six bare interpreter starts

        return self._once(("elf", path), lambda: files.attempt(path, lambda: read_elf(path)))

    def loader_cache(self) -> Fact[Mapping[str, Tuple[str, ...]]]:
        """Read /etc/ld.so.cache."""
        return self._once(("loader_cache",), self._loader_cache)

    def _loader_cache(self) -> Fact[Mapping[str, Tuple[str, ...]]]:

        data = self.read_bytes("/etc/ld.so.cache", 32 << 20)
        if not isinstance(data, Known):
            return data
        try:
            return Known(parse_loader_cache(data.value, _kernel_names()["machine"]), Source("file", "/etc/ld.so.cache"))
        except ValueError as error:
            return Unknown("unparsable", f"/etc/ld.so.cache: {error}", ("/etc/ld.so.cache",))

    def _run(self, argv: Sequence[str], timeout: float, environment: Mapping[str, str]) -> Fact[Completed]:
        left = self._deadline - time.monotonic()
        if left <= 0.05:
            return Unknown("timeout", "the time for external programs was used up", (" ".join(argv),))
        refusal = self._refusal(argv[0])
        if refusal is not None:
            return refusal
        from envcheck.host.process import run_program  # not loaded where nothing is run

        return run_program(argv, min(timeout, left), {**os.environ, "LC_ALL": "C", **environment})

    def _refusal(self, program: str) -> Optional[Unknown]:
        if program == sys.executable or not os.path.exists(program):
            return None
        reason = files.attempt(program, lambda: Known(why_untrusted(program), Source("file", program)))
        if isinstance(reason, Known) and reason.value:
            return Unknown("denied", f"not run as root: {reason.value}", (program,))
        return None

    def _ask(self, script: str, arguments: Sequence[str], python: str, timeout: float) -> Fact[Mapping[str, Any]]:
        source = _child_source(script)
        answer = self._run((python, "-I", "-S", "-B", "-c", source, *arguments), timeout, {})
        if isinstance(answer, Known) and answer.value.returncode == 2 and "-I" in answer.value.stderr:
            answer = self._run((python, "-E", "-s", "-S", "-B", "-c", source, *arguments), timeout, {})  # Python 2
        return _parsed(answer, f"{script} in {python}")

    def _once(self, key: Tuple[str, ...], compute: Callable[[], T]) -> T:
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._answers:
                self._answers[key] = compute()
            return cast("T", self._answers[key])


def _kernel_names() -> Dict[str, str]:
    if hasattr(os, "uname"):
        names = os.uname()
        return {
            "machine": names.machine,
            "kernel_release": names.release,
            "version": names.version,
            "node": names.nodename,
        }
    import platform  # the way of Windows; on Linux it would start the report a quarter of a bare start later

    return {
        "machine": platform.machine(),
        "kernel_release": platform.release(),
        "version": platform.version(),
        "node": platform.node(),
    }


def _add(facts: Dict[str, Any], name: str, read: Callable[[], Any]) -> None:
    try:
        facts[name] = read()
    except (OSError, ValueError, AttributeError):
        return  # this system cannot tell: the name is left out, as the protocol says


def _search_folders() -> List[str]:
    """List the folders of PATH that are there, which a job system may make thousands of."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if not all(map(os.path.isabs, folders)):  # an empty or relative entry starts from the current folder
        with contextlib.suppress(FileNotFoundError):
            here = os.getcwd()
            folders = [os.path.join(here, folder) for folder in folders]
    return [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)]


def _in_this_process(script: str, arguments: Sequence[str]) -> Known[Mapping[str, Any]]:
    # Where such a script would run in the Python that runs this program, a process of its own costs two bare
    # starts and tells nothing more.
    from importlib import import_module

    describe = import_module(f"envcheck.probes.children.{script}").describe
    return Known(describe(os.environ, *arguments), Source("command", f"{script} in {sys.executable}"))


def _child_source(script: str) -> str:
    return read_packaged("probes", "children", script + ".py").decode("utf-8")


def _parsed(answer: Fact[Completed], what: str) -> Fact[Mapping[str, Any]]:
    if not isinstance(answer, Known):
        return _named(answer, what)
    done = answer.value
    if done.returncode < 0:
        return Unknown("crashed", f"{what} was ended by signal {-done.returncode}", (what,))
    try:
        result = json.loads(done.stdout)
    except (ValueError, RecursionError):
        return Unknown(
            "unparsable", f"{what} printed no JSON: {(done.stderr or done.stdout).strip()[-200:]!r}", (what,)
        )
    if not isinstance(result, dict):
        return Unknown("unparsable", f"{what} printed no JSON object", (what,))
    return Known(result, Source("command", what))


def _named(answer: Fact[Completed], what: str) -> Fact[Mapping[str, Any]]:
    if isinstance(answer, Unknown):  # the command line holds the whole script: name it instead
        return Unknown(answer.why, f"{what}: {answer.detail}", (what,))
    return Absent((what,))
