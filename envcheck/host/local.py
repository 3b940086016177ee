"""Read this machine for the probes."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar, cast

from envcheck.host import elf, files
from envcheck.host.data_files import read_packaged
from envcheck.host.process import run_program
from envcheck.host.protocol import Completed, ElfFacts, FileStatus, SymbolNeed, Variables
from envcheck.model import Absent, Fact, Known, Source, Unknown, from_file

T = TypeVar("T")

_LOADER_CACHE = "/etc/ld.so.cache"
_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = 48
_ENTRY = struct.Struct("=iIIIQ")
# Flags of an entry: libc6 ELF in the low byte, the architecture above it (glibc
# sysdeps/generic/ldconfig.h).
_FLAGS = {"x86_64": 0x0303, "aarch64": 0x0A03, "ppc64le": 0x0503, "s390x": 0x0403, "i686": 0x0003}


def parse_loader_cache(data: bytes, machine: str) -> Mapping[str, Tuple[str, ...]]:
    """Map each soname of `machine`'s libraries to its files, in the loader's order.

    The file starts with `glibc-ld.so.cache1.1`, the entry count and the string length; an older
    cache (`ld.so-1.7.0`) may precede it. Entries hold flags and the offsets of soname and path.
    Raises ValueError for a file that is no such cache or is truncated.
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
    libraries: Dict[str, List[str]] = {}
    for flags, key, value, _, _ in _ENTRY.iter_unpack(
        cache[_HEADER : _HEADER + count * _ENTRY.size]
    ):
        if wanted is None or flags == wanted:
            libraries.setdefault(_read_string(cache, key), []).append(_read_string(cache, value))
    return {soname: tuple(paths) for soname, paths in libraries.items()}


def _read_string(cache: bytes, offset: int) -> str:
    end = cache.find(b"\0", offset)
    if end < 0:
        raise ValueError("truncated strings")
    return cache[offset:end].decode("utf-8", "replace")


_SYSTEMS = {"linux": "linux", "darwin": "darwin", "win32": "windows", "cygwin": "windows"}
_AT_ONCE = 2.0  # seconds, within which two files count as written together
_IMPORTABLE_SCRIPTS = ("interpreter_info",)  # child scripts with a describe() that only reads files


class LocalHost:
    """Answer the probes from the running system; safe to use from several threads.

    `budget` limits all external programs together, in seconds: a machine on which every tool hangs
    still gets its report. With 0 none is started.
    """

    def __init__(self, budget: float = 3.5) -> None:
        self.system = _SYSTEMS.get(sys.platform, sys.platform)
        self._deadline = time.monotonic() + budget
        self._starts_programs = budget > 0
        self._patience = 1.0
        self._answers: Dict[Tuple[str, ...], Any] = {}
        self._locks: Dict[Tuple[str, ...], threading.Lock] = {}
        self._guard = threading.Lock()
        self._times: Dict[str, Dict[str, float]] = {}  # folder -> file -> its last change

    def extend_limits(self, factor: float) -> None:
        """Give every program, and all of them together, a multiple of their time."""
        now = time.monotonic()
        self._deadline, self._patience = now + (self._deadline - now) * factor, factor

    def environment(self) -> Variables:
        """Return this process's environment."""
        return os.environ

    def system_facts(self) -> Mapping[str, Any]:
        """Return what the C library and the kernel report about this machine."""
        facts: Dict[str, Any] = _read_kernel_names()
        _add(facts, "uid", lambda: os.geteuid())  # noqa: PLW0108 - Windows has none
        facts["is_root"] = facts.get("uid") == 0
        _add(facts, "libc", lambda: os.confstr("CS_GNU_LIBC_VERSION"))
        _add(
            facts, "memory_bytes", lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        )
        _add(facts, "folder", os.getcwd)
        if self.system == "windows":
            from envcheck.host.system import read_windows_cpu_features  # only for Windows

            _add(facts, "cpu_flags", read_windows_cpu_features)
        return facts

    def read_bytes(self, path: str, limit: int = 1 << 20) -> Fact[bytes]:
        """Read the first `limit` bytes of a regular file."""
        return files.read_as_fact(path, lambda: files.read_file(path, limit))

    def read_text(self, path: str, limit: int = 1 << 20) -> Fact[str]:
        """Read a regular file as text; undecodable bytes are replaced."""
        data = self.read_bytes(path, limit)
        if isinstance(data, Known):
            return Known(data.value.decode("utf-8", "replace"), data.source)
        return data

    def list_folder(self, path: str) -> Fact[Tuple[str, ...]]:
        """List the names in a folder, sorted."""
        return self._once(
            ("folder", path), lambda: files.read_as_fact(path, lambda: files.list_folder(path))
        )

    def list_sizes(self, path: str) -> Fact[Mapping[str, int]]:
        """Map the names in a folder to the sizes of its files."""
        times = self._times.setdefault(path, {})
        return files.read_as_fact(path, lambda: files.list_sizes(path, times))

    def list_changed(self, folder: str, since: str) -> Tuple[str, ...]:
        """List the files of a folder that changed after another file did."""
        try:
            begin = os.stat(since).st_mtime + _AT_ONCE
        except OSError:
            return ()
        times = self._times.get(folder, {})
        return tuple(name for name, time in times.items() if time > begin)

    def real_path(self, path: str) -> Fact[str]:
        """Resolve every symlink."""
        return files.read_as_fact(path, lambda: files.resolve_path(path))

    def status(self, path: str) -> Fact[FileStatus]:
        """Stat a path, symlinks followed."""
        return files.read_as_fact(path, lambda: files.read_status(path))

    def find_program(self, name: str) -> Fact[str]:
        """Find an executable on PATH; unknown where no file of that name is executable."""
        not_executable: List[str] = []
        for folder in self._once(("PATH", os.environ.get("PATH", "")), _list_path_folders):
            path = os.path.join(folder, name + (".exe" if self.system == "windows" else ""))
            if os.path.isfile(path):
                if os.access(path, os.X_OK):
                    return from_file(path, path)
                not_executable.append(path)
        if not_executable:
            return Unknown(
                "denied", f"{not_executable[0]} is not executable", tuple(not_executable)
            )
        return Absent((f"{name} on PATH",))

    def run(
        self,
        argv: Sequence[str],
        timeout: float = 2.0,
        environment: Optional[Variables] = None,
    ) -> Fact[Completed]:
        """Run a program by absolute path in the C locale, within the remaining budget."""
        changes = environment or {}
        key = ("run", *argv, "\0", *sorted(f"{name}={value}" for name, value in changes.items()))
        return self._once(key, lambda: self._run(argv, timeout, changes))

    def ask(
        self, script: str, *arguments: str, python: str = "", timeout: float = 3.0
    ) -> Fact[Mapping[str, Any]]:
        """Run a child script isolated in a Python and parse the JSON object that it prints."""
        key = ("ask", script, python, *arguments)
        if python in ("", sys.executable) and script in _IMPORTABLE_SCRIPTS:
            return self._once(key, lambda: _run_in_this_process(script, arguments))
        return self._once(
            key, lambda: self._ask(script, arguments, python or sys.executable, timeout)
        )

    def elf(self, path: str) -> Fact[ElfFacts]:
        """Read the dynamic section of an ELF file."""
        return self._once(
            ("elf", path), lambda: files.read_as_fact(path, lambda: elf.read_elf(path))
        )

    def symbol_needs(
        self, path: str, prefixes: Tuple[str, ...], libraries: Tuple[str, ...]
    ) -> Fact[Tuple[SymbolNeed, ...]]:
        """List undefined symbols of an ELF file."""
        return files.read_as_fact(path, lambda: elf.read_symbol_needs(path, prefixes, libraries))

    def lacking_symbols(
        self, path: str, needs: Tuple[SymbolNeed, ...]
    ) -> Fact[Tuple[SymbolNeed, ...]]:
        """Pick the symbols that an ELF file does not define."""
        return files.read_as_fact(path, lambda: elf.find_lacking_symbols(path, needs))

    def loader_cache(self) -> Fact[Mapping[str, Tuple[str, ...]]]:
        """Read /etc/ld.so.cache."""
        return self._once(("loader_cache",), self._read_loader_cache)

    def _read_loader_cache(self) -> Fact[Mapping[str, Tuple[str, ...]]]:
        data = self.read_bytes(_LOADER_CACHE, 32 << 20)
        if not isinstance(data, Known):
            return data
        try:
            libraries = parse_loader_cache(data.value, _read_kernel_names()["machine"])
        except ValueError as error:
            return Unknown("unparsable", f"{_LOADER_CACHE}: {error}", (_LOADER_CACHE,))
        return from_file(libraries, _LOADER_CACHE)

    def _run(self, argv: Sequence[str], timeout: float, environment: Variables) -> Fact[Completed]:
        left = self._deadline - time.monotonic()
        if not self._starts_programs:
            return Unknown("denied", "no program is started", (" ".join(argv),))
        if left <= 0.05:
            return Unknown("timeout", "no time is left for external programs", (" ".join(argv),))
        program = argv[0] if os.path.isabs(argv[0]) else os.path.abspath(argv[0])
        problem = None
        if program != sys.executable:
            problem = files.find_trust_problem(self, program)
        if problem:
            return Unknown("denied", f"not run as root: {problem}", (program,))
        variables = {**os.environ, "LC_ALL": "C", **environment}
        # not in the working folder: an empty entry of LD_LIBRARY_PATH would load what lies there
        return run_program(
            [program, *argv[1:]], min(timeout * self._patience, left), variables, os.sep
        )

    def _ask(
        self, script: str, arguments: Sequence[str], python: str, timeout: float
    ) -> Fact[Mapping[str, Any]]:
        source = _read_child_source(script)
        answer = self._run((python, "-I", "-S", "-B", "-c", source, *arguments), timeout, {})
        if (
            isinstance(answer, Known)
            and answer.value.returncode == 2
            and "-I" in answer.value.stderr
        ):
            answer = self._run(
                (python, "-E", "-s", "-S", "-B", "-c", source, *arguments), timeout, {}
            )  # Python 2
        return _parse_child_answer(answer, f"{script} in {python}")

    def _once(self, key: Tuple[str, ...], compute: Callable[[], T]) -> T:
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._answers:
                self._answers[key] = compute()
            return cast("T", self._answers[key])


def _read_child_source(script: str) -> str:
    return read_packaged("probes", "children", script + ".py").decode("utf-8")


def _read_kernel_names() -> Dict[str, str]:
    if hasattr(os, "uname"):
        _, node, release, version, machine = os.uname()
    else:
        import platform  # slow to import, and only Windows needs it

        _, node, release, version, machine = platform.uname()[:5]
    return {"machine": machine, "kernel_release": release, "version": version, "node": node}


def _add(facts: Dict[str, Any], name: str, read: Callable[[], Any]) -> None:
    # The protocol leaves out what this system does not report.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        facts[name] = read()


def _list_path_folders() -> List[str]:
    """List the existing folders of PATH; a job system may add thousands that do not exist.

    An empty or relative entry is the working folder, which may hold any program: nothing there is
    run.
    """
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return [path for path in dict.fromkeys(folders) if os.path.isabs(path) and os.path.isdir(path)]


def _run_in_this_process(script: str, arguments: Sequence[str]) -> Known[Mapping[str, Any]]:
    # In the Python that runs this program a child costs as much as two interpreter starts and reads
    # the same.
    # Not import_module, which would pass by the lock that a collector puts around imports.
    module = __import__(f"envcheck.probes.children.{script}", fromlist=("describe",))
    describe = module.describe
    return Known(
        describe(os.environ, *arguments), Source("command", f"{script} in {sys.executable}")
    )


def _parse_child_answer(answer: Fact[Completed], what: str) -> Fact[Mapping[str, Any]]:
    # `what` stands for the command line, which holds the whole script.
    if isinstance(answer, Absent):
        return Absent((what,))
    if isinstance(answer, Unknown):
        return Unknown(answer.why, f"{what}: {answer.detail}", (what,))
    done = answer.value
    if done.returncode < 0:
        return Unknown("crashed", f"{what} was killed by signal {-done.returncode}", (what,))
    try:
        result = json.loads(done.stdout)
    except (ValueError, RecursionError):
        output = (done.stderr or done.stdout).strip()[-200:]
        return Unknown("unparsable", f"{what} printed no JSON: {output!r}", (what,))
    if not isinstance(result, dict):
        return Unknown("unparsable", f"{what} printed no JSON object", (what,))
    return Known(result, Source("command", what))
