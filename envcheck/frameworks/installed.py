"""Read installed copies of frameworks.

What each was built for, and whether the libraries that it loads are found.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections import deque
from contextlib import suppress
from typing import Any, Dict, Iterator, List, Mapping, Optional, Protocol, Sequence, Tuple

from envcheck.frameworks.packages import (
    Installation,
    find_activated_folders,
    find_shadowing,
    load_cuda_data,
)
from envcheck.frameworks.roles import CopiedFiles, CudaUse
from envcheck.host.loader import FoundLibrary, Loader
from envcheck.host.protocol import ElfFacts, Host
from envcheck.model import (
    Absent,
    Distribution,
    Fact,
    FrameworkBuild,
    Known,
    LibraryLookup,
    Source,
    Unknown,
    dataclass,
    from_file,
    replace,
)
from envcheck.model.versions import cuda_of_digits, find_requirement, major, major_minor

# what requires it loads the libraries of NVIDIA's wheels
_FINDS_WHEELS = re.compile(r"cuda[-_.]pathfinder\b")
_RENAMED_CUDNN = re.compile(r"libcudnn-[0-9a-f]{8}\.so\.(\d+)")  # by auditwheel
_LIMIT = 60  # libraries followed for one framework


class ReadFramework(Protocol):
    """What reading installed copies asks of a framework; `base.Framework` explains it."""

    name: str
    distributions: Mapping[str, str]
    cuda: CudaUse
    files: CopiedFiles
    accelerators: Mapping[str, str]

    def module_of(self, distribution: str) -> str:
        """Return the module that an import finds of a distribution."""

    def cuda_of(self, distribution: str) -> str:
        """Return the CUDA version that a distribution names."""

    def collect(self, inspection: "Inspection") -> Tuple[FrameworkBuild, ...]:
        """Read the installed builds."""


@dataclass
class Caller:
    """A file that loads libraries: by DT_NEEDED, or by opening them at run time."""

    path: str
    elf: ElfFacts
    wanted: Tuple[Tuple[str, bool], ...]  # soname, mandatory
    rpath: Tuple[str, ...]  # inherited from the files that loaded it
    via: str = ""  # how the loader found it


class LibrarySearch:
    """Looks libraries up for the frameworks of one interpreter."""

    def __init__(self, host: Host, installed: Installation) -> None:
        self._host = host
        self._installed = installed
        self._loader = Loader(host)
        self._program_rpath = self._read_program_rpath()
        self.wheel_folders = tuple(self._list_wheel_folders())
        self._other_folders = tuple(self._list_other_folders())
        self._activated: Optional[Tuple[str, ...]] = None  # not read yet

    def caller(
        self,
        path: str,
        opens: Sequence[Tuple[str, bool]] = (),
        *,
        mandatory: bool = True,
        loaded_by: Optional[Caller] = None,
        via: str = "",
    ) -> Fact[Caller]:
        """Read a file that loads CUDA libraries; `opens` are those it opens at run time.

        A library that was found for another file inherits the RPATH of what it is `loaded_by`.
        """
        elf = self._host.elf(path)
        if not isinstance(elf, Known):
            return elf
        needed = tuple((name, mandatory) for name in cuda_names(elf.value.needed))
        rpath = self._program_rpath
        if loaded_by is not None and loaded_by.elf.is_rpath:
            rpath = (*loaded_by.elf.runpath, *loaded_by.rpath) or rpath
        return Known(Caller(path, elf.value, (*needed, *opens), rpath, via), elf.source)

    def look_up(self, callers: Sequence[Caller], preload: str = "") -> Tuple[LibraryLookup, ...]:
        """Look up what `callers` load and what that needs in turn.

        `preload` says when the framework itself opens the copies in wheel folders: "first" or, when
        the loader fails, "fallback".
        """
        lookups: Dict[str, LibraryLookup] = {}
        queue = deque(callers)
        while queue and len(lookups) < _LIMIT:
            caller = queue.popleft()
            for soname, mandatory in caller.wanted:
                if soname in lookups:
                    continue
                found, opened = self.load(soname, caller, preload, mandatory=mandatory)
                lookups[soname] = self._lookup(soname, caller, found, mandatory=mandatory)
                if opened.value is not None:
                    queue.append(opened.value)
        return tuple(lookups.values())

    def load(
        self, soname: str, caller: Caller, preload: str, *, mandatory: bool = True
    ) -> Tuple[Fact[FoundLibrary], Fact[Caller]]:
        """Find a library for a file that needs it, and read it; `preload` as for `look_up`."""
        found = self._find(soname, caller, preload)
        if not isinstance(found, Known):
            return found, found
        path, via = found.value.path, found.value.via
        return found, self.caller(path, mandatory=mandatory, loaded_by=caller, via=via)

    def _find(self, soname: str, caller: Caller, preload: str) -> Fact[FoundLibrary]:
        copies = [
            from_file(FoundLibrary(path, "preload"), path) for path in self._wheel_copies(soname)
        ]
        if preload == "first" and copies:
            return copies[0]
        own = caller.elf.runpath
        rpath = (*own, *caller.rpath) if caller.elf.is_rpath else ()
        found = self._loader.find(soname, rpath, () if caller.elf.is_rpath else own)
        if preload and copies and not isinstance(found, Known):
            return copies[0]
        if isinstance(found, Absent):
            return next(self._when_activated(soname), found)
        return found

    def _when_activated(self, soname: str) -> Iterator[Known[FoundLibrary]]:
        """Find what the loader does once the environment is activated.

        Its hook is read where something is missing.
        """
        if self._activated is None:
            self._activated = find_activated_folders(
                self._host, self._installed.prefix, self.wheel_folders
            )
        for path in self._loader.copies(soname, self._activated):
            yield from_file(FoundLibrary(path, "activation"), path)

    def copies(self, soname: str) -> Tuple[str, ...]:
        """List the copies of a library in wheels and toolkits, searched by the loader or not."""
        return tuple(
            dict.fromkeys(
                (*self._wheel_copies(soname), *self._loader.copies(soname, self._other_folders))
            )
        )

    def _lookup(
        self, soname: str, caller: Caller, found: Fact[FoundLibrary], *, mandatory: bool
    ) -> LibraryLookup:
        copies = self.copies(soname)
        if not isinstance(found, Known):
            nothing = Absent((soname,))
            return LibraryLookup(soname, caller.path, mandatory, found, "", copies, nothing)
        at = found.value.path
        return LibraryLookup(
            soname,
            caller.path,
            mandatory,
            Known(at, found.source),
            found.value.via,
            tuple(copy for copy in copies if copy != at),
            self._version(at, found.source),
        )

    def _version(self, path: str, source: Source) -> Fact[str]:
        owners = self._installed.library_owners.get(path, ())
        if owners:
            return from_file(owners[-1].version, path, f"{owners[-1].name} {owners[-1].version}")
        return parse_library_version(path, source)

    def _wheel_copies(self, soname: str) -> List[str]:
        return list(self._loader.copies(soname, self.wheel_folders))

    def _list_wheel_folders(self) -> Iterator[str]:
        for folder in self._installed.folders:
            for name in load_cuda_data()["wheel_folders"]:
                top = posixpath.join(folder.path, name)
                yield top
                yield posixpath.join(top, "lib")
                if name == "nvidia":
                    for part in sorted(self._loader.names(top) or ()):
                        yield posixpath.join(top, part, "lib")

    def _list_other_folders(self) -> Iterator[str]:
        environment = self._host.environment()
        prefixes = [
            self._installed.base_prefix if self._installed.is_conda else "",
            environment.get("CONDA_PREFIX", ""),
        ]
        for prefix in prefixes:
            if prefix:
                yield posixpath.join(prefix, "lib")
        roots = [environment.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")] + ["/opt/cuda"]
        names = self._loader.names("/usr/local") or ()
        roots += [
            posixpath.join("/usr/local", name) for name in sorted(names) if name.startswith("cuda")
        ]
        for root in filter(None, roots):
            for folder in ("lib64", "extras/CUPTI/lib64", "lib"):
                yield posixpath.join(root, folder)

    def _read_program_rpath(self) -> Tuple[str, ...]:
        if not self._installed.is_conda:
            return ()  # only conda's interpreters carry an RPATH to the libraries beside them
        elf = self._host.elf(self._installed.executable).value
        return elf.runpath if elf is not None and elf.is_rpath else ()


def cuda_names(needed: Sequence[str]) -> Tuple[str, ...]:
    """Pick the CUDA libraries among DT_NEEDED names; the driver's own are the driver probe's."""
    prefixes, driver = (
        tuple(load_cuda_data()[key]) for key in ("library_prefixes", "driver_prefixes")
    )
    return tuple(
        name for name in needed if name.startswith(prefixes) and not name.startswith(driver)
    )


def opened_names(framework: ReadFramework, cuda: str, cudnn: str) -> Tuple[Tuple[str, bool], ...]:
    """Name what a build for CUDA `cuda` and cuDNN `cudnn` opens at run time, mandatory ones first.

    Empty when the table does not hold that CUDA.
    """
    data = load_cuda_data()
    table = data["sonames"].get(major_minor(cuda)) or data["sonames"].get(major(cuda))
    if table is None:
        return ()
    names = {**table, "nccl": data["nccl_soname"]}
    if cudnn:
        names["cudnn"] = data["cudnn_soname"].format(major=major(cudnn))
    files = framework.files
    wanted = [(name, True) for name in files.opens] + [
        (name, False) for name in files.opens_optionally
    ]
    return tuple((names[name], mandatory) for name, mandatory in wanted if name in names)


def parse_library_version(path: str, source: Source) -> Fact[str]:
    """Read a version from a real file name.

    Samples: 'libcudart.so.12.4.127' -> 12.4.127, 'libcudart-9335f6a2.so.10.2' -> 10.2,
    'libcudnn.so.9' -> 9
    """
    match = re.search(r"\.so\.(\d+(?:\.\d+)*)$", path)
    return Known(match.group(1), source) if match else Absent((path,))


def linked_version(prefix: str, libraries: Fact[Tuple[LibraryLookup, ...]]) -> Fact[str]:
    """Read a version off the soname that a build links: libcudart.so.10.0 -> 10.0."""
    names: Tuple[LibraryLookup, ...] = libraries.value or ()
    for each in names:
        if each.soname.startswith(prefix):
            return from_file(each.soname[len(prefix) :], each.needed_by, f"needs {each.soname}")
    return Unknown("failed", f"no file of the build names {prefix}*", ())


class Inspection:
    """A host, what is installed there, and a library search made on first use."""

    def __init__(self, host: Host, installed: Installation) -> None:
        self.host = host
        self.installed = installed
        self._search: Optional[LibrarySearch] = None

    @property
    def search(self) -> LibrarySearch:
        """Return the search; making it lists folders and reads the loader's cache."""
        if self._search is None:
            self._search = LibrarySearch(self.host, self.installed)
        return self._search

    def read_linked(self, framework: ReadFramework, distribution: Distribution) -> FrameworkBuild:
        """Read a build by the CUDA libraries that its files link, and those it opens by name.

        Without such a file it is for the CPU, or damaged where it has no build for that.
        """
        folder = f"{distribution.location}/{framework.module_of(distribution.name)}"
        paths = [
            path for name in framework.files.linking for path in self._find(f"{folder}/{name}")
        ]
        source = Source("file", folder, "" if paths else "no file that links CUDA")
        named = framework.cuda_of(distribution.name)
        # parts of other distributions link CUDA
        if framework.cuda.needs_gpu and not framework.files.linking:
            source = Source("file", distribution.location, distribution.name)
            # the extra that it came with is not recorded
            stated: Fact[str] = Known(named, source) if named else SILENT
            nothing = Absent((source.where,))
            return cuda_build(
                framework.name,
                distribution,
                source,
                cuda_version=stated,
                cudnn_version=nothing,
                libraries=Known((), source),
                runpath=nothing,
            )
        if not paths and framework.cuda.needs_gpu:
            return damaged_build(framework.name, distribution, "none of its libraries is there")
        if not paths:
            return cpu_build(framework.name, distribution, source)
        linked = self._linked_major(paths[0])
        distribution = self._written_last(framework, distribution, linked)
        cuda = linked or framework.cuda_of(distribution.name)
        opened = opened_names(framework, cuda, "") if cuda else ()
        callers = [_open_parts(self.search.caller(path, opened)) for path in paths]
        finds_wheels = any(map(_FINDS_WHEELS.match, distribution.requires))
        libraries, runpath = lookups(self.search, callers, "first" if finds_wheels else "")
        cuda_version = linked_version("libcudart.so.", libraries)
        if cuda:
            cuda_version = from_file(cuda, paths[0])
        return cuda_build(
            framework.name,
            distribution,
            source,
            cuda_version=cuda_version,
            cudnn_version=_part_version(libraries) or linked_version("libcudnn.so.", libraries),
            libraries=libraries,
            runpath=runpath,
        )

    def _find(self, path: str) -> Tuple[str, ...]:
        """Find a file; of a name with *, the first that is there.

        The * stands for the Python that the file is for.
        """
        folder, name = posixpath.split(posixpath.normpath(path))
        names = self.host.list_folder(folder).value or () if "*" in name else ()
        found = [name] if "*" not in name else fnmatch.filter(names, name)[:1]
        return tuple(
            f"{folder}/{each}"
            for each in found
            if isinstance(self.host.status(f"{folder}/{each}"), Known)
        )

    def _linked_major(self, path: str) -> str:
        """Return the CUDA major of the cuBLAS that a file needs; "" where it needs none."""
        elf = self.host.elf(path).value
        found = (re.match(r"libcublas\.so\.(\d+)", name) for name in (elf.needed if elf else ()))
        return next((match.group(1) for match in found if match), "")

    def _written_last(
        self, framework: ReadFramework, distribution: Distribution, linked: str
    ) -> Distribution:
        """Return which of a folder's distributions came last, by the CUDA that its file needs."""
        rivals = (each for each in self.installed.named(tuple(framework.distributions)) if linked)
        beside = (each for each in rivals if each.location == distribution.location)
        for each in beside:
            if framework.cuda_of(each.name).startswith(linked):
                return each
        return distribution

    def conda_build(self, names: Sequence[str]) -> Tuple[str, Source]:
        """Return the build string of the first conda package of `names`, empty without one."""
        for each in self.installed.named(names):
            if each.installer == "conda" and each.build:
                return each.build, Source("file", each.location, f"{each.label} {each.build}")
        return "", Source("file", self.installed.prefix)


def cudnn_required(requires: Sequence[str], *operators: str) -> Tuple[str, str]:
    """Return the cuDNN that a requirement bounds by an operator, with the line that says it.

    Sample: 'nvidia-cudnn-cu13<10.0,>=9.12.0.46; extra == "with-cuda"' with ">=" -> 9.12.0.46
    """
    for need in filter(None, map(find_requirement, requires)):
        bounds = need.clauses if need.name.startswith("nvidia-cudnn-cu") else ()
        for clause in bounds:
            if clause.operator in operators:
                return clause.version, need.text
    return "", ""


def parse_conda_build(build: str) -> Dict[str, str]:
    """Read a conda build string: "cuda" and "cudnn" when it names them, "cpu" when it says CPU.

    Samples: 'cuda112py39h4e9e4d0_0', 'py3.11_cuda12.1_cudnn8.9.2_0', 'cuda126_mkl_py312h',
    'gpu_py37h57d29ca_0', 'mkl_py38hd9fbd2f_0', 'cpu_generic_py311h', 'py3.9_cpu_0'
    """
    found: Dict[str, str] = {}
    cuda = re.search(r"cuda_?(\d+)(?:\.(\d+))?", build)
    cudnn = re.search(r"cudnn([\d.]+\d|\d)", build)
    if cuda:
        digits, minor = cuda.groups()
        found["cuda"] = f"{digits}.{minor}" if minor else cuda_of_digits(digits)
    elif re.search(r"(^|_)gpu(_|$)", build):
        found["cuda"] = ""
    elif re.search(r"(^|_)(cpu|mkl|eigen|openblas)(_|$)", build):
        found["cpu"] = build
    if cudnn:
        found["cudnn"] = cudnn.group(1)
    return found


def literals(text: str) -> Dict[str, Any]:
    """Return the module-level names of Python source bound to literals, without running it.

    Annotated names count; `build_info = collections.OrderedDict([...])` counts as its argument, and
    `dict(cuda="12.5")` as its keywords. Raises SyntaxError or ValueError when the source is not
    Python.
    """
    import ast

    found: Dict[str, Any] = {}
    for node in ast.parse(text).body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)):
            continue
        value = node.value
        while isinstance(value, ast.Call):
            if value.args:
                value = value.args[0]
            else:
                keys: List[Optional[ast.expr]] = [ast.Constant(i.arg) for i in value.keywords]
                value = ast.Dict(keys, [item.value for item in value.keywords])
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name) and value is not None:
                # of an expression, the value is only known to those who run it
                with suppress(ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                    found[target.id] = ast.literal_eval(value)
    return found


SILENT = Unknown("failed", "the wheel's metadata does not name them")


_READ = (
    "cuda_build", "cuda_version", "cudnn_version", "compute_capabilities", "libraries", "runpath",
)  # fmt: skip


def make_build(
    framework: str, distribution: Distribution, default: Fact[Any], **facts: Fact[Any]
) -> FrameworkBuild:
    """Describe a build whose other facts are all `default`."""
    read: Dict[str, Any] = {**dict.fromkeys(_READ, default), **facts}
    return FrameworkBuild(
        framework, distribution.name, distribution.version, distribution.location, **read
    )


def cpu_build(framework: str, distribution: Distribution, source: Source) -> FrameworkBuild:
    """Describe a build without CUDA: it has no CUDA version and loads no CUDA library."""
    nothing, is_cuda = Absent((source.where,)), Known(False, source)
    return make_build(
        framework, distribution, nothing, cuda_build=is_cuda, libraries=Known((), source)
    )


def cuda_build(
    framework: str, distribution: Distribution, source: Source, **facts: Fact[Any]
) -> FrameworkBuild:
    """Describe a build for a CUDA and a cuDNN, with the libraries it loads and its RUNPATH."""
    return make_build(framework, distribution, SILENT, cuda_build=Known(True, source), **facts)


def damaged_build(
    framework: str, distribution: Distribution, lost: str, tried: Tuple[str, ...] = ()
) -> FrameworkBuild:
    """Describe a build of which a file is missing."""
    reason = Unknown("failed", f"{distribution.name} is installed but {lost}", tried)
    return make_build(framework, distribution, reason)


def _open_parts(caller: Fact[Caller]) -> Fact[Caller]:
    """Look for the parts of cuDNN in place of a libcudnn that lies beside a file, renamed.

    It opens them by name.
    """
    if not isinstance(caller, Known):
        return caller
    renamed = {name: _RENAMED_CUDNN.match(name) for name, _ in caller.value.wanted}
    parts = load_cuda_data()["cudnn_parts"]
    opened = [
        (parts[match.group(1)], True)
        for match in renamed.values()
        if match and match.group(1) in parts
    ]
    kept = [item for item in caller.value.wanted if not renamed[item[0]]]
    return replace(caller, value=replace(caller.value, wanted=(*kept, *opened)))


def _part_version(libraries: Fact[Tuple[LibraryLookup, ...]]) -> Optional[Fact[str]]:
    """Read the major of cuDNN off the part that a build opens."""
    parts = set(load_cuda_data()["cudnn_parts"].values())
    for item in libraries.value or ():
        if item.soname in parts:
            return linked_version(item.soname.rstrip("0123456789"), libraries)
    return None


def lookups(
    search: LibrarySearch, callers: Sequence[Fact[Caller]], preload: str = ""
) -> Tuple[Fact[Tuple[LibraryLookup, ...]], Fact[Tuple[str, ...]]]:
    """Return the library lookups of a build and the RUNPATH of the first file that loads them."""
    readable = [caller.value for caller in callers if isinstance(caller, Known)]
    for caller in callers:
        if isinstance(caller, Unknown):
            return caller, caller
    if not readable:
        tried = tuple(
            path for caller in callers if isinstance(caller, Absent) for path in caller.tried
        )
        missing = Unknown("failed", "the files that load its libraries are not there", tried)
        return missing, missing
    source = Source("file", readable[0].path)
    return Known(search.look_up(readable, preload), source), Known(readable[0].elf.runpath, source)


def with_names(libraries: Fact[Tuple[LibraryLookup, ...]]) -> Fact[Tuple[LibraryLookup, ...]]:
    """Return the library lookups of a CUDA build.

    Unknown instead of none, because each build opens some.
    """
    if not isinstance(libraries, Known) or libraries.value:
        return libraries
    where = libraries.source.where
    return Unknown(
        "failed", "the names of the CUDA libraries that it opens are not known", (where,)
    )


def collect_frameworks(
    inspection: Inspection, frameworks: Sequence[ReadFramework]
) -> Tuple[FrameworkBuild, ...]:
    """Read the builds of each framework; of several copies of one, the imported one comes first."""
    host, installed = inspection.host, inspection.installed
    builds = (
        (framework, build) for framework in frameworks for build in framework.collect(inspection)
    )
    return tuple(
        replace(
            build,
            accelerator=_find_accelerator(installed, framework, build),
            shadowed_by=find_shadowing(
                host,
                installed,
                framework.name,
                framework.module_of(build.distribution),
                build.location,
            ),
        )
        for framework, build in builds
    )


def _find_accelerator(
    installed: Installation, framework: ReadFramework, build: FrameworkBuild
) -> Fact[str]:
    """Name what a build computes on beside CPU and CUDA, if its distribution says so."""
    for pattern, accelerator in framework.accelerators.items():
        for each in installed.distributions:
            if fnmatch.fnmatchcase(each.name, pattern):
                return from_file(accelerator, each.location, each.label)
    return build.accelerator
