"""Record every answer of a machine to the probes, in the form that RecordedHost replays."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from envcheck.host.data_files import read_data
from envcheck.host.known_variables import HIDDEN
from envcheck.host.protocol import Completed, ElfFacts, FileStatus, Host, SymbolNeed
from envcheck.model import NOT_COLLECTED, Fact, Known, Unknown, encode

T = TypeVar("T")
_BINARY_LIMIT = 64 << 10  # a larger binary file has no place in a recording
_STACK = re.compile(r"lib(cu|nv|nccl|tensorrt|stdc\+\+|gcc_s|c\.|m\.|dl\.|pthread\.|rt\.|z\.)")
_LONG_FOLDER = 200  # names; of a longer one only what bears on a GPU is kept
_NAMES = re.compile(r"cu|nv|nccl|tensorrt|gcc|g\+\+|clang|python|conda|stdc|^c\+\+$|^cc$")
# Of long files, the lines that the probes look at.
_LINES = (
    (re.compile(r"/proc/modules$"), re.compile(r"^(nvidia|nouveau|vfio)")),
    (re.compile(r"/proc/self/mountinfo$"), re.compile(r"^\d+ \d+ \S+ \S+ / ")),
    (re.compile(r"/proc/mounts$"), re.compile(r"^\S+ (/|/dev/shm|\S*nvidia\S*) ")),
    (re.compile(r"\.h$"), re.compile(r"^#define \w*(VERSION|MAJOR|MINOR|PATCH|BUILD)\w*\s")),
)


def _reduced(path: str, text: str) -> str:
    if path == "/proc/cpuinfo":
        return text.split("\n\n", 1)[0] + "\n"
    if path == "/var/lib/dpkg/status":
        entries = (entry.strip("\n") for entry in text.split("\n\n"))
        return (
            "\n\n".join(entry for entry in entries if _NAMES.search(entry.split("\n", 1)[0])) + "\n"
        )
    wanted = next((lines for paths, lines in _LINES if paths.search(path)), None)
    return "".join(
        line for line in text.splitlines(keepends=True) if wanted is None or wanted.search(line)
    )


class RecordingHost:
    """Pass every request on to `inner` and record the answer."""

    def __init__(self, inner: Host) -> None:
        self.system = inner.system
        self._inner = inner
        self._environment = Watched(inner.environment())
        self._calls: dict[str, dict[str, Any]] = {}
        self._files: dict[str, Any] = {}
        self._commands: dict[tuple[str, ...], dict[str, Any]] = {}
        self._answers: dict[tuple[str, ...], dict[str, Any]] = {}
        self._cache: Any = None

    def recording(self) -> dict[str, Any]:
        """Return everything that was answered so far."""
        return {
            "system": self.system,
            "system_facts": dict(self._inner.system_facts()),
            "environment": {
                name: self._environment[name] for name in sorted(self._environment.asked)
            },
            "files": self._files,
            "calls": {
                method: dict(sorted(answers.items()))
                for method, answers in sorted(self._calls.items())
            },
            "commands": [entry for _, entry in sorted(self._commands.items())],
            "answers": [entry for _, entry in sorted(self._answers.items())],
            "loader_cache": self._cache,
        }

    def environment(self) -> Mapping[str, str]:
        """Return the environment; the variables asked for are kept."""
        return self._environment

    def system_facts(self) -> Mapping[str, Any]:
        """Return what the system says of itself."""
        return self._inner.system_facts()

    def read_text(self, path: str, limit: int = 1 << 20) -> Fact[str]:
        """Read a file as text; of several readings of one file the longest is kept."""
        fact = self._inner.read_text(path, limit)
        if isinstance(fact, Known):
            fact = Known(_reduced(path, fact.value), fact.source)
        self._keep_text(path, fact)
        return fact

    def read_bytes(self, path: str, limit: int = 1 << 20) -> Fact[bytes]:
        """Read a file; what is no text is kept apart, in base64."""
        fact = self._inner.read_bytes(path, limit)
        if not isinstance(fact, Known):
            self._keep("read_text", path, fact)
            return fact
        try:
            self._keep_text(path, Known(fact.value.decode("utf-8"), fact.source))
        except UnicodeDecodeError:
            if len(fact.value) > _BINARY_LIMIT:
                raise ValueError(f"{path} is too large to record") from None
            self._files[path] = {"base64": base64.b64encode(fact.value).decode("ascii")}
        return fact

    def list_folder(self, path: str) -> Fact[tuple[str, ...]]:
        """List a folder."""
        fact = self._inner.list_folder(path)
        if isinstance(fact, Known) and len(fact.value) > _LONG_FOLDER:
            fact = Known(tuple(name for name in fact.value if _NAMES.search(name)), fact.source)
        return self._keep("list_folder", path, fact)

    def list_sizes(self, path: str) -> Fact[Mapping[str, int]]:
        """Map the names in a folder to the sizes of its files."""
        return self._keep("list_sizes", path, self._inner.list_sizes(path))

    def list_changed(self, folder: str, since: str) -> tuple[str, ...]:
        """Keep nothing of when files changed."""
        return ()

    def real_path(self, path: str) -> Fact[str]:
        """Resolve every symlink."""
        return self._keep("real_path", path, self._inner.real_path(path))

    def status(self, path: str) -> Fact[FileStatus]:
        """Stat a path."""
        return self._keep("status", path, self._inner.status(path))

    def find_program(self, name: str) -> Fact[str]:
        """Find a program on PATH."""
        return self._keep("find_program", name, self._inner.find_program(name))

    def elf(self, path: str) -> Fact[ElfFacts]:
        """Read the dynamic section of an ELF file."""
        return self._keep("elf", path, self._inner.elf(path))

    def symbol_needs(
        self, path: str, prefixes: tuple[str, ...], libraries: tuple[str, ...]
    ) -> Fact[tuple[SymbolNeed, ...]]:
        """Keep no symbols: they would be larger than all the rest."""
        return NOT_COLLECTED

    def lacking_symbols(
        self, path: str, needs: tuple[SymbolNeed, ...]
    ) -> Fact[tuple[SymbolNeed, ...]]:
        """Keep no symbols."""
        return NOT_COLLECTED

    def run(
        self,
        argv: Sequence[str],
        timeout: float = 2.0,
        environment: Mapping[str, str] | None = None,
    ) -> Fact[Completed]:
        """Run a program; one that is not there leaves no entry, as the replay expects."""
        fact = self._inner.run(argv, timeout, environment)
        if isinstance(fact, Known):
            self._commands[tuple(argv)] = {"argv": list(argv), **encode(fact.value)}
        elif isinstance(fact, Unknown):
            self._commands[tuple(argv)] = {"argv": list(argv), "unknown": [fact.why, fact.detail]}
        return fact

    def ask(
        self, script: str, *arguments: str, python: str = "", timeout: float = 3.0
    ) -> Fact[Mapping[str, Any]]:
        """Run a child script; NVML's arguments are not kept, for one of them is a folder of this very Python."""
        fact = self._inner.ask(script, *arguments, python=python, timeout=timeout)
        entry: dict[str, Any] = {"script": script, "python": python}
        if script != "nvml_devices":
            entry["arguments"] = list(arguments)
        if isinstance(fact, Known):
            entry["result"] = fact.value
        elif isinstance(fact, Unknown):
            entry["unknown"] = [fact.why, fact.detail]
        else:
            entry["absent"] = list(fact.tried)
        question = (script, python, *arguments)
        self._answers[question] = entry
        return fact

    def loader_cache(self) -> Fact[Mapping[str, tuple[str, ...]]]:
        """Read the loader's cache; the libraries a CUDA program may need are kept."""
        fact = self._inner.loader_cache()
        if isinstance(fact, Unknown):
            self._cache = {"unknown": [fact.why, fact.detail]}
        if not isinstance(fact, Known):
            return fact
        reduced = {name: paths for name, paths in fact.value.items() if _STACK.match(name)}
        self._cache = {name: list(paths) for name, paths in reduced.items()}
        return Known(reduced, fact.source)

    def _keep(self, method: str, argument: str, fact: Fact[T]) -> Fact[T]:
        self._calls.setdefault(method, {})[argument] = encode(fact)
        return fact

    def _keep_text(self, path: str, fact: Fact[str]) -> None:
        before = self._calls.get("read_text", {}).get(path, {}).get("known", "")
        if not isinstance(fact, Known) or len(fact.value) >= len(before):
            self._keep("read_text", path, fact)


class Watched(dict[str, str]):
    """An environment that knows which variables were asked for; values of unknown GPU variables are kept back."""

    def __init__(self, values: Mapping[str, str]) -> None:
        data = json.loads(read_data("program/environment_variables.json"))
        prefixes = tuple(data["prefixes"])
        known = {name: value for name, value in values.items() if name in data["variables"]}
        hidden = {
            name: HIDDEN for name in values if name.startswith(prefixes) and name not in known
        }
        super().__init__({**values, **hidden})
        self.asked = {*known, *hidden}

    def __contains__(self, name: object) -> bool:
        """Tell whether a variable is set, and note the question."""
        is_set = super().__contains__(name)
        if is_set:
            self.asked.add(str(name))
        return is_set

    def get(self, name: str, default: Any = None) -> Any:
        """Return a variable and note the question."""
        return super().get(name, default) if name in self else default

    def __getitem__(self, name: str) -> str:
        """Return a variable and note the question."""
        self.asked.add(name)
        return super().__getitem__(name)
