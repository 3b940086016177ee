"""The interface through which probes read a machine, live or recorded."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Protocol, Sequence, Tuple

from envcheck.model import Fact, dataclass

Variables = Mapping[str, str]  # of an environment


@dataclass
class Completed:
    """A command that ran to its end; undecodable output bytes are replaced."""

    returncode: int  # negative: the signal that ended it
    stdout: str
    stderr: str

    @property
    def first_line(self) -> str:
        """Return the first line of the output, at most 200 characters."""
        return (self.stdout or self.stderr).strip().split("\n", 1)[0][:200]


@dataclass
class FileStatus:
    """The result of stat, symlinks followed, and this user's access."""

    kind: str  # file, folder, char, block, fifo, socket
    size: int
    mode: str  # "crw-rw----"
    owner: str  # "0:44", user and group; "root:video" in some recordings
    readable: bool
    writable: bool
    inode: int = 0
    changed: float = 0.0  # when its content or its rights last were, which nobody can set


@dataclass
class ElfFacts:
    """The dynamic section and symbol versions of a shared library."""

    machine: str  # x86_64, aarch64, i386
    soname: str
    needed: Tuple[str, ...]
    runpath: Tuple[str, ...]  # DT_RUNPATH, else DT_RPATH, with $ORIGIN expanded to the real folder
    versions_needed: Tuple[str, ...]  # GLIBC_2.27, GLIBCXX_3.4.22 ...
    versions_defined: Tuple[str, ...]
    # `runpath` is DT_RPATH, which the loader searches before LD_LIBRARY_PATH
    is_rpath: bool = False
    # soname and version: the loader refuses the file without it
    versions_by_library: Tuple[Tuple[str, str], ...] = ()


@dataclass
class SymbolNeed:
    """A symbol that a file takes from another one."""

    name: str
    version: str = ""  # empty: any
    library: str = ""  # soname that the version belongs to


class Host(Protocol):
    """A machine.

    Every answer is a fact: known with its source, absent, or unknown with a reason.
    """

    system: str  # linux, windows, darwin

    def environment(self) -> Variables:
        """Return the environment variables, not yet redacted."""

    def read_text(self, path: str, limit: int = 1 << 20) -> Fact[str]:
        """Read at most `limit` bytes of a regular file as text; undecodable bytes are replaced."""

    def read_bytes(self, path: str, limit: int = 1 << 20) -> Fact[bytes]:
        """Read the first `limit` bytes of a regular file."""

    def list_folder(self, path: str) -> Fact[Tuple[str, ...]]:
        """List the names in a folder, sorted."""

    def list_sizes(self, path: str) -> Fact[Mapping[str, int]]:
        """Map the names in a folder to file sizes, symlinks followed; -1 for a folder."""

    def list_changed(self, folder: str, since: str) -> Tuple[str, ...]:
        """List the files of a folder that changed after another file did; () where nobody knows.

        The folder was listed with its sizes before.
        """

    def real_path(self, path: str) -> Fact[str]:
        """Resolve every symlink; absent when the target does not exist."""

    def status(self, path: str) -> Fact[FileStatus]:
        """Stat a path, symlinks followed."""

    def find_program(self, name: str) -> Fact[str]:
        """Find an executable file on PATH; symlinks are not resolved."""

    def run(
        self,
        argv: Sequence[str],
        timeout: float = 2.0,
        environment: Optional[Variables] = None,
    ) -> Fact[Completed]:
        """Run a program by absolute path.

        Absent when it does not exist, unknown on timeout or refusal.
        """

    def ask(
        self, script: str, *arguments: str, python: str = "", timeout: float = 3.0
    ) -> Fact[Mapping[str, Any]]:
        """Run `envcheck/probes/children/<script>.py` isolated in a child Python.

        It prints one JSON object.
        """

    def elf(self, path: str) -> Fact[ElfFacts]:
        """Read the dynamic section of an ELF file."""

    def symbol_needs(
        self, path: str, prefixes: Tuple[str, ...], libraries: Tuple[str, ...]
    ) -> Fact[Tuple[SymbolNeed, ...]]:
        """List the undefined symbols that begin with `prefixes` or belong to `libraries`."""

    def lacking_symbols(
        self, path: str, needs: Tuple[SymbolNeed, ...]
    ) -> Fact[Tuple[SymbolNeed, ...]]:
        """Pick the symbols that an ELF file does not define."""

    def loader_cache(self) -> Fact[Mapping[str, Tuple[str, ...]]]:
        """Read the loader's cache: soname to paths in the loader's order, for this architecture."""

    def system_facts(self) -> Mapping[str, Any]:
        """Return the system's cells: machine, kernel, libc, uid, memory, folder and CPU flags.

        libc is "glibc 2.36", folder the current one; only Windows has cpu_flags. Values the system
        lacks are left out.
        """
