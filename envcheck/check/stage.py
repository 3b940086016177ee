"""One stage of a Dockerfile, read instruction by instruction."""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace

from envcheck.check.blueprint import Blueprint, Files, Line
from envcheck.check.dockerfile_lines import Instruction
from envcheck.check.requirements_file import bound_to
from envcheck.check.run_step import run_commands, take_command
from envcheck.check.substitute import assignments, substituted

# What is copied from another stage with its Python packages inside.
_ENVIRONMENT = re.compile(
    r".*(?:venv|/env\b|site-packages|dist-packages|\.local|conda|wheel).*|/(?:usr/local|opt|app)?(?:/lib)?/?"
)
_LOADER_PATH = "LD_LIBRARY_PATH"
_INDEX_NAMES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX")


class Stage:
    """One FROM with what its instructions say; it starts as its parent ended."""

    def __init__(self, name: str, blueprint: Blueprint, files: Files, parent: Stage | None = None) -> None:
        self.name, self.blueprint, self.files = name, blueprint, files
        self.variables: dict[str, str] = dict(parent.variables) if parent else {}
        self.defaults: dict[str, str] = {}  # of the ARGs before the first FROM
        self.arguments: dict[str, str] = {}  # what the build gives for ARGs
        self.helpers: list[Stage] = list(parent.helpers) if parent else []
        self.inherited: list[Stage] = list(parent.inherited) if parent else []  # helpers whose environment is copied
        self.copied: dict[str, str] = dict(parent.copied) if parent else {}  # path in the image -> path here
        self.written: dict[str, tuple[str, str]] = dict(parent.written) if parent else {}  # by here-documents

    def take(self, item: Instruction, stages: list[Stage]) -> None:
        """Read one instruction; `stages` are those before and this one."""
        if any(_LOADER_PATH in text for text in (item.value, *(document.text for document in item.documents))):
            line = Line(f"{_LOADER_PATH} is set", self._where(item.number))
            self.blueprint = replace(self.blueprint, loader_path=line)
        if item.keyword == "ENV":
            self._environment(item)
        elif item.keyword == "ARG":
            self._argument(item)
        elif item.keyword in {"COPY", "ADD"}:
            self._copy(item, stages[:-1])
        elif item.keyword == "RUN":
            self._run(item)

    def _where(self, number: int) -> str:
        return f"{self.blueprint.path}:{number}"

    def _environment(self, item: Instruction) -> None:
        for name, said in assignments(item.value):
            self.variables[name] = substituted(said, self.variables)
            if name == "TORCH_CUDA_ARCH_LIST":
                line = Line("TORCH_CUDA_ARCH_LIST is set", self._where(item.number))
                self.blueprint = replace(self.blueprint, compiles=(*self.blueprint.compiles, line))
            if name == "NVIDIA_VISIBLE_DEVICES" and said not in {"", "void", "none"}:
                line = Line(f"{name}={said}", self._where(item.number))
                self.blueprint = replace(self.blueprint, wants_gpu=line)

    def _argument(self, item: Instruction) -> None:
        names = dict(assignments(item.value)) or {name: "" for name in item.value.split() if name.isidentifier()}
        for name, said in names.items():
            given = self.arguments.get(name, "") or substituted(said, self.variables) or self.defaults.get(name, "")
            if given:
                self.variables.setdefault(name, given)

    def _copy(self, item: Instruction, before: list[Stage]) -> None:
        words = [word.strip('"[],') for word in substituted(item.value, self.variables).split()]
        origin = next((word.partition("=")[2] for word in words if word.startswith("--from=")), "")
        paths = [word for word in words if word and not word.startswith("--")]
        if origin:
            self._from(origin, paths, before, self._where(item.number))
            return
        for document in item.documents:
            padded = "\n" * (document.number - 1) + document.text
            self.written[paths[-1]] = (self.blueprint.path, padded)
        for source in paths[:-1] if not item.documents else ():
            self._put(source, paths[-1], several=len(paths) > 2)

    def _put(self, source: str, target: str, *, several: bool = False) -> None:
        into_folder = several or target.endswith(("/", "."))
        whole = posixpath.normpath(target)
        self.copied[whole] = source
        if into_folder:
            self.copied[posixpath.join(whole, posixpath.basename(source))] = source

    def _from(self, origin: str, paths: list[str], before: list[Stage], where: str) -> None:
        numbered = int(origin) if origin.isdecimal() and len(origin) < 4 else -1
        helper = next((stage for stage in reversed(before) if stage.name == origin.lower()), None)
        helper = before[numbered] if helper is None and 0 <= numbered < len(before) else helper
        if helper is not None and helper not in self.helpers:
            self.helpers.append(helper)
        if helper is not None and any(_ENVIRONMENT.fullmatch(path) for path in paths[:-1]):
            self.inherited.append(helper)
        if any(re.search(r"cuda|cudnn|/usr/(?:local/)?lib", path) for path in paths):
            line = Line(f"COPY --from={origin} {' '.join(paths)}"[:80], where)
            self.blueprint = replace(self.blueprint, added=(*self.blueprint.added, line))

    def _run(self, item: Instruction) -> None:
        mounted = re.match(r"(?:--\w+=\S+\s+)+", item.value)
        for mount in re.findall(r"--mount=(\S+)", mounted[0]) if mounted else ():
            given = dict(part.partition("=")[::2] for part in mount.split(","))
            target = given.get("target") or given.get("dst") or given.get("destination")
            if given.get("type", "bind") == "bind" and target:
                self._put(given.get("source") or given.get("src") or target, target)
        for words, number in run_commands(item):
            filled = [substituted(word, self.variables) for word in words]
            self._command(filled, self._where(number))

    def _command(self, words: list[str], where: str) -> None:
        known = len(self.blueprint.requirements)
        files = replace(self.files, names=self._names, written=self.written)
        self.blueprint = take_command(self.blueprint, words, where, files)
        indexes = [self.variables[name] for name in _INDEX_NAMES if name in self.variables]
        before, added = self.blueprint.requirements[:known], self.blueprint.requirements[known:]
        self.blueprint = replace(self.blueprint, requirements=before + bound_to(indexes, added))

    def _names(self, name: str) -> tuple[str, ...]:
        """Say what a file of the image may be called here: where it was copied from, or its last parts."""
        parts = [part for part in posixpath.normpath(name).split("/") if part not in {"", "."}]
        called: list[str] = []
        for cut in range(len(parts), 0, -1):
            inside, rest = "/".join(parts[:cut]), "/".join(parts[cut:])
            known = self.copied.get(f"/{inside}") or self.copied.get(inside)
            called += [posixpath.join(known, rest).rstrip("/")] if known else []
        called += ["/".join(parts[cut:]) for cut in range(len(parts))]
        return tuple(dict.fromkeys(one.lstrip("/") for one in called if one))
