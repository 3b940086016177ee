"""What the commands of a plan do to facts: a stand-in for pip, conda and the system's tools, in a few words each."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from envcheck.actions.machine import LinkFile
from envcheck.matrix.query import Matrix
from envcheck.model import (
    Absent,
    Distribution,
    Facts,
    FrameworkBuild,
    LibraryInstall,
    LibraryLookup,
    PythonFacts,
    Step,
    ToolkitInstall,
)
from tests.plan.applied_system import effect
from tests.rules.factory_machine import NONE, known
from tests.typed import argv

# What pip takes where nothing holds it back: releases that break those made before them.
NEWEST = {
    "numpy": "2.3.4",
    "protobuf": "6.33.0",
    "keras": "3.12.0",
    "setuptools": "82.0.0",
    "h5py": "3.15.1",
}
SITE = "/planned/lib/python/site-packages"


# What a wheel of NVIDIA requires itself, by its METADATA.
BRINGS = {"nvidia-cudnn-cu12": "nvidia-cublas-cu12"}


class NotAppliedError(Exception):
    """Nothing here plays what a step does."""


class Applied:
    """A machine while a plan runs on it."""

    def __init__(self, facts: Facts, matrix: Matrix, platform: str, said: str = "") -> None:
        """Hold the machine; `said` is what the fix says in words."""
        self.facts, self._matrix, self._platform, self.said = facts, matrix, platform, said
        python = facts.python
        found = python.distributions.value or ()
        self._there = {item.name: item for item in reversed(found)}
        # copies that are not imported
        self._beside = [item for item in found if self._there[item.name] is not item]
        self._builds = list(python.frameworks.value or ())
        self._hooked = False
        # folders that activation puts on the loader's path, or links lead to
        self._named: set[str] = set()
        self._fresh: dict[str, str] = {}  # nvidia-* wheels that a step brought, with their versions

    def take(self, step: Step) -> None:
        """Do what a step does; raises NotAppliedError."""
        words = argv(step)[1:] if argv(step)[:1] == ("sudo",) else argv(step)
        if words[1:3] == ("-m", "pip"):
            self._pip(words[3:])
        elif words[1:3] == ("-m", "venv"):
            self._new(re.search(r"\d+\.\d+", words[0]), "venv")
        elif words[:1] == ("conda",):
            self._conda(words[1:])
        elif words[:2] == ("sh", "-c") and "envcheck" in " ".join(words):
            folders = [
                folder
                for word in words
                if word.startswith("add ")
                for folder in shlex.split(word)[1:]
            ]
            self._hooked = self._hooked or bool(folders)
            self._named |= {folder.removeprefix("$prefix") for folder in folders}
        elif isinstance(step.action, LinkFile) and ".so" in step.action.link:
            folder = posixpath.dirname(step.action.link)
            self._hooked = True
            self._named.add(
                posixpath.dirname(posixpath.normpath(posixpath.join(folder, step.action.target)))
            )
        else:
            self._outside(" ".join(words), step)

    def _outside(self, line: str, step: Step) -> None:
        do = effect(line) if line else None
        if do is None:
            raise NotAppliedError(line or step.purpose)
        self.facts = do(self.facts, self._matrix, f"{self.said} {line}")

    def done(self) -> Facts:
        """Return the facts as they are now."""
        python, builds = self.facts.python, tuple(self._led(item) for item in self._builds)
        if builds or python.frameworks.value is not None:
            python = replace(python, frameworks=known(builds) if builds else NONE)
        if self._there:
            python = replace(python, distributions=known((*self._there.values(), *self._beside)))
        return replace(self.facts, python=python)

    def _led(self, build: FrameworkBuild) -> FrameworkBuild:
        """Let the loader find what lies in the wheels: by the build itself, or by the environment's activation."""
        public = build.version.partition("+")[0]
        row = self._matrix.release(build.framework, public, self._platform, build.distribution)
        looked = build.libraries.value
        if looked is None or not (self._hooked or (row is not None and row.finds_cuda_wheels)):
            return build
        return replace(build, libraries=known(tuple(self._found(item) for item in looked)))

    def _found(self, item: LibraryLookup) -> LibraryLookup:
        folders = {path: path.rpartition("/")[0] for path in item.elsewhere}
        at = next(
            (
                path
                for path in folders
                if any(fnmatch(folders[path], f"*{named}") for named in self._named)
            ),
            "",
        )
        stem = item.soname.removeprefix("lib").partition(".so")[0].replace("cudart", "cuda-runtime")
        for name, version in self._fresh.items():
            part = name.removeprefix("nvidia-").rpartition("-cu")[0]
            if stem.startswith(part):
                path = f"{SITE}/nvidia/{part}/lib/{item.soname}"
                return replace(
                    item, found=known(path), version=known(version), via="activation", elsewhere=()
                )
        return replace(item, found=known(at), via="activation") if at else item

    def _pip(self, words: tuple[str, ...]) -> None:
        if words[0] == "uninstall":
            for name in words[1:]:
                self._remove(name)
        elif words[0] == "install":
            texts = [word for word in words[1:] if not word.startswith(("-", "http"))]
            index = re.search(r"/whl/(\w+)", " ".join(words))
            wanted = [Requirement(item) for item in dict.fromkeys(texts)]
            for one in wanted:
                self._bring(one, wanted, f"+{index[1]}" if index and "+" not in str(one) else "")
            if "--force-reinstall" in words:
                self._make_whole({one.name for one in wanted})
        else:
            raise NotAppliedError(" ".join(words))

    def _make_whole(self, names: set[str]) -> None:
        python = self.facts.python
        left = tuple(
            item for item in python.file_faults.value or () if item.distribution not in names
        )
        self.facts = replace(self.facts, python=replace(python, file_faults=known(left)))

    def _conda(self, words: tuple[str, ...]) -> None:
        if words == ("env", "config", "vars", "set", "PYTHONNOUSERSITE=1"):
            own = [item for item in (*self._there.values(), *self._beside) if item.scope != "user"]
            self._there, self._beside = {item.name: item for item in own}, []
            return
        specs = dict(word.partition("=")[::2] for word in words if re.match(r"[a-z][\w-]*=?", word))
        if words[0] == "create":
            self._new(re.search(r"\d+\.\d+", specs.get("python", "")), "conda")
        if "libstdcxx-ng" in specs:
            self.facts = replace(
                self.facts, python=replace(self.facts.python, libstdcxx_glibcxx=known("3.4.33"))
            )
        if "cudatoolkit" in specs:
            self._cuda(specs["cudatoolkit"], specs.get("cudnn", ""))
        for name, spec in specs.items():
            framework = {"pytorch": "torch", "tensorflow": "tensorflow"}.get(name)
            if framework:
                release = spec.partition("=")[0].rstrip(".*")
                self._conda_build(framework, release or self._version(framework, SpecifierSet()))

    def _conda_build(self, framework: str, version: str) -> None:
        version = (
            self._version(framework, SpecifierSet(f"=={version}.*"))
            if version.count(".") < 2
            else version
        )
        self._remove(framework)
        self._there[framework] = Distribution(framework, version, SITE, installer="conda")
        made = FrameworkBuild(framework, framework, version, SITE, known(True), libraries=known(()))
        self._builds.append(replace(made, shadowed_by=Absent()))

    def _new(self, version: re.Match[str] | None, kind: str) -> None:
        old = self.facts.python.version.value or ""
        minor = version.group() if version else ".".join(old.split(".")[:2])
        tag = "cp" + minor.replace(".", "")
        python = PythonFacts(
            executable=known("/planned/bin/python"), version=known(f"{minor}.9"), implementation=known("cpython"),
            bits=known(64), architecture=self.facts.python.architecture, abi_tag=known(tag), prefix=known("/planned"),
            kind=known(kind), externally_managed=known(False), pip_version=known("24.0"), duplicate_owners=NONE,
            libstdcxx_path=NONE,
        )  # fmt: skip
        self.facts = replace(self.facts, python=python)
        self._there, self._builds, self._beside = {}, [], []

    def _remove(self, name: str) -> None:
        self._there.pop(canonicalize_name(name), None)
        self._without_extension(name)
        self._builds = [item for item in self._builds if item.distribution != name]
        owners = self.facts.python.duplicate_owners
        if owners.value is not None:
            left = {
                key: tuple(one for one in names if one != name)
                for key, names in owners.value.items()
            }
            shared = {key: names for key, names in left.items() if len(names) > 1}
            python = replace(self.facts.python, duplicate_owners=known(shared) if shared else NONE)
            self.facts = replace(self.facts, python=python)

    def _without_extension(self, name: str) -> None:
        extensions = self.facts.python.extensions.value or ()
        left = tuple(
            item
            for item in extensions
            if canonicalize_name(item.distribution) != canonicalize_name(name)
        )
        self.facts = replace(
            self.facts, python=replace(self.facts.python, extensions=known(left) if left else NONE)
        )

    def _bring(self, wanted: Requirement, all_wanted: list[Requirement], label: str) -> None:
        name = canonicalize_name(wanted.name)
        framework = self._matrix.framework_of(name)
        if name == "pip":
            self.facts = replace(
                self.facts, python=replace(self.facts.python, pip_version=known("25.3"))
            )
        elif framework:
            self._framework(framework, name, wanted, all_wanted, label)
        else:
            self._distribution(
                name,
                [item.specifier for item in all_wanted if canonicalize_name(item.name) == name],
            )

    def _distribution(self, name: str, clauses: list[SpecifierSet]) -> None:
        version = pick(name, clauses)
        self._there[name] = Distribution(name, version, SITE, "environment", "pip")
        self._without_extension(name)
        if name.startswith("nvidia-"):
            self._fresh[name] = version
        if name in BRINGS and BRINGS[name] not in self._there:
            self._distribution(BRINGS[name], [SpecifierSet(">=12")])

    def _cudnn(self, version: str, cuda: str) -> None:
        path = f"{SITE}/nvidia/cudnn/lib/libcudnn.so.{version.partition('.')[0]}"
        copy = LibraryInstall(
            "cudnn",
            SITE,
            "wheel",
            library_version=known(version),
            library_path=known(path),
            cuda_major=known(cuda),
        )
        self.facts = replace(self.facts, cudnn=known((copy, *(self.facts.cudnn.value or ()))))

    def _cuda(self, cuda: str, cudnn: str) -> None:
        made = ToolkitInstall(
            "/planned", "conda", known(cuda), cudart_path=known("/planned/lib/libcudart.so")
        )
        there = self.facts.toolkits.installs.value or ()
        self.facts = replace(
            self.facts, toolkits=replace(self.facts.toolkits, installs=known((made, *there)))
        )
        if cudnn:
            self._cudnn(cudnn, cuda.partition(".")[0])

    def _version(self, name: str, clauses: SpecifierSet) -> str:
        python = ".".join((self.facts.python.version.value or "3.11").split(".")[:2])
        framework = self._matrix.framework_of(name) or name
        for row in self._matrix.releases(framework, self._platform):
            if row.distribution == name and python in row.pythons and clauses.contains(row.version):
                return row.version
        raise NotAppliedError(f"no {name}{clauses} for Python {python}")

    def _framework(
        self,
        framework: str,
        name: str,
        wanted: Requirement,
        all_wanted: list[Requirement],
        label: str,
    ) -> None:
        exact = re.fullmatch(r"==([^*]+)", str(wanted.specifier))
        version = (exact[1] if exact else self._version(name, wanted.specifier)) + label
        there = self._there.get(name)
        if there is None or there.version != version:
            self._remove(name)
            self._there[name] = Distribution(name, version, SITE, "environment", "pip")
            made = FrameworkBuild(
                framework, name, version, SITE, libraries=known(()), shadowed_by=Absent()
            )
            self._builds += [] if framework == "jax" else [made]
        elif there.requires:
            self._dependencies(
                dict(_pins(line for line in there.requires if "extra" not in line)), all_wanted
            )
        if framework == "jax":
            self._jax(version, wanted.extras)
        row = self._matrix.release(framework, version.partition("+")[0], self._platform, name)
        if row is not None:
            self._dependencies(row.requires, all_wanted)
            if wanted.extras or not row.gpu_extra:
                self._dependencies(dict(_pins(row.cuda_wheels)), all_wanted)

    def _jax(self, version: str, extras: set[str]) -> None:
        """Bring the compiled half and the plugin, which are what is judged."""
        for name in (
            "jaxlib",
            *(f"jax-{extra}-{part}" for extra in extras for part in ("plugin", "pjrt")),
        ):
            self._remove(name)
            self._there[name] = Distribution(name, version, SITE, "environment", "pip")
        built = next((f"jax-{extra}-plugin" for extra in extras), "jaxlib")
        self._builds.append(
            FrameworkBuild("jax", built, version, SITE, libraries=known(()), shadowed_by=Absent())
        )

    def _dependencies(self, requires: Any, all_wanted: list[Requirement]) -> None:
        for text, clauses in requires.items():
            name = canonicalize_name(text)
            if self._matrix.framework_of(name):
                continue
            given = [item.specifier for item in all_wanted if canonicalize_name(item.name) == name]
            needed = [SpecifierSet(clauses), *given]
            there = self._there.get(name)
            if there is None or not all(
                item.contains(there.version, prereleases=True) for item in needed
            ):
                self._distribution(name, needed)


def _pins(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        requirement = Requirement(text)
        yield requirement.name, str(requirement.specifier)


def pick(name: str, clauses: list[SpecifierSet]) -> str:
    """Choose the newest version that clauses admit, of those that they name and the newest there is.

    Of NVIDIA's wheels the oldest: which later ones there are the clauses do not tell.
    """
    admitted = SpecifierSet(",".join(str(item) for item in clauses if str(item)))
    versions = {NEWEST.get(name, "1.0")} if not name.startswith("nvidia-") else set()
    for clause in admitted:
        bound = clause.version.replace(".*", "")
        versions |= {bound, before(bound)} if clause.operator == "<" else {bound}
    fitting = [item for item in versions if admitted.contains(item, prereleases=True)]
    if not fitting:
        raise NotAppliedError(f"nothing meets {name}{admitted}")
    return (min if name.startswith("nvidia-") else max)(fitting, key=Version)


def before(version: str) -> str:
    """Return a version just below another: 3.20 -> 3.19.99, 9 -> 8.99."""
    numbers = [int(part) for part in re.findall(r"\d+", version)]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    if not numbers:
        return "0"
    return ".".join(map(str, (*numbers[:-1], numbers[-1] - 1, 99)))
