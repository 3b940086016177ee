"""Read every framework build of an environment: what it was built for, and whether its libraries are found."""

from __future__ import annotations

import posixpath
import re
from collections import deque
from dataclasses import replace
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

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
    get_value,
)
from envcheck.probes.loader import FoundLibrary, Loader
from envcheck.probes.packages import Installation, find_activated_folders, find_shadowing, load_cuda_data

_LIMIT = 60  # libraries followed for one framework


@dataclass(frozen=True)
class Caller:
    """A file that loads libraries: by DT_NEEDED, or by opening them at run time."""

    path: str
    elf: ElfFacts
    wanted: Tuple[Tuple[str, bool], ...]  # soname, mandatory
    rpath: Tuple[str, ...]  # inherited from the files that loaded it


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

    def caller(self, path: str, opens: Sequence[Tuple[str, bool]] = (), *, mandatory: bool = True) -> Fact[Caller]:
        """Read a file that loads CUDA libraries; `opens` are those it opens at run time."""
        elf = self._host.elf(path)
        if not isinstance(elf, Known):
            return elf
        needed = tuple((name, mandatory) for name in cuda_names(elf.value.needed))
        return Known(Caller(path, elf.value, (*needed, *opens), self._program_rpath), elf.source)

    def look_up(self, callers: Sequence[Caller], preload: str = "") -> Tuple[LibraryLookup, ...]:
        """Look up what `callers` load and what that needs in turn.

        `preload` says when the framework itself opens the copies in wheel folders: "first" or, when the
        loader fails, "fallback".
        """
        lookups: Dict[str, LibraryLookup] = {}
        queue = deque(callers)
        while queue and len(lookups) < _LIMIT:
            caller = queue.popleft()
            for soname, mandatory in caller.wanted:
                if soname not in lookups:
                    found = self._find(soname, caller, preload)
                    lookups[soname] = self._lookup(soname, caller, found, mandatory=mandatory)
                    queue.extend(self._dependants(found, caller, mandatory=mandatory))
        return tuple(lookups.values())

    def _find(self, soname: str, caller: Caller, preload: str) -> Fact[FoundLibrary]:
        copies = [Known(FoundLibrary(path, "preload"), Source("file", path)) for path in self._wheel_copies(soname)]
        if preload == "first" and copies:
            return copies[0]
        own = caller.elf.runpath
        rpath = (*own, *caller.rpath) if caller.elf.is_rpath else ()
        found = self._loader.find(soname, rpath, () if caller.elf.is_rpath else own)
        if preload and copies and not isinstance(found, Known):
            return copies[0]
        return next(self._when_activated(soname), found) if isinstance(found, Absent) else found

    def _when_activated(self, soname: str) -> Iterator[Known[FoundLibrary]]:
        """Find what the loader does once the environment is activated; its hook is read where something is missing."""
        if self._activated is None:
            self._activated = find_activated_folders(self._host, self._installed.prefix, self.wheel_folders)
        for path in self._loader.copies(soname, self._activated):
            yield Known(FoundLibrary(path, "activation"), Source("file", path))

    def _dependants(self, found: Fact[FoundLibrary], caller: Caller, *, mandatory: bool) -> Iterator[Caller]:
        if isinstance(found, Known):
            elf = self._host.elf(found.value.path)
            if isinstance(elf, Known):
                wanted = tuple((name, mandatory) for name in cuda_names(elf.value.needed))
                inherited = (*caller.elf.runpath, *caller.rpath) if caller.elf.is_rpath else ()
                yield Caller(found.value.path, elf.value, wanted, inherited or self._program_rpath)

    def _lookup(self, soname: str, caller: Caller, found: Fact[FoundLibrary], *, mandatory: bool) -> LibraryLookup:
        at = found.value.path if isinstance(found, Known) else ""
        copies = [*self._wheel_copies(soname), *self._loader.copies(soname, self._other_folders)]
        return LibraryLookup(
            soname=soname,
            needed_by=caller.path,
            mandatory=mandatory,
            found=Known(at, found.source) if isinstance(found, Known) else found,
            via=found.value.via if isinstance(found, Known) else "",
            elsewhere=tuple(dict.fromkeys(copy for copy in copies if copy != at)),
            version=self._version(at, found.source) if isinstance(found, Known) else Absent((soname,)),
        )

    def _version(self, path: str, source: Source) -> Fact[str]:
        owners = self._installed.library_owners.get(path, ())
        if owners:
            return Known(owners[-1].version, Source("file", path, f"{owners[-1].name} {owners[-1].version}"))
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
                    yield from (posixpath.join(top, part, "lib") for part in sorted(self._loader.names(top) or ()))

    def _list_other_folders(self) -> Iterator[str]:
        environment = self._host.environment()
        prefixes = [
            self._installed.base_prefix if self._installed.is_conda else "",
            environment.get("CONDA_PREFIX", ""),
        ]
        yield from (posixpath.join(prefix, "lib") for prefix in prefixes if prefix)
        roots = [environment.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")] + ["/opt/cuda"]
        names = self._loader.names("/usr/local") or ()
        roots += [posixpath.join("/usr/local", name) for name in sorted(names) if name.startswith("cuda")]
        for root in filter(None, roots):
            yield from (posixpath.join(root, folder) for folder in ("lib64", "extras/CUPTI/lib64", "lib"))

    def _read_program_rpath(self) -> Tuple[str, ...]:
        if not self._installed.is_conda:
            return ()  # only conda's interpreters carry an RPATH to the libraries beside them
        elf = get_value(self._host.elf(self._installed.executable))
        return elf.runpath if elf is not None and elf.is_rpath else ()


def cuda_names(needed: Sequence[str]) -> Tuple[str, ...]:
    """Pick the CUDA libraries among DT_NEEDED names; the driver's own are the driver probe's."""
    prefixes, driver = (tuple(load_cuda_data()[key]) for key in ("library_prefixes", "driver_prefixes"))
    return tuple(name for name in needed if name.startswith(prefixes) and not name.startswith(driver))


def opened_names(framework: Mapping[str, Sequence[str]], cuda: str, cudnn: str) -> Tuple[Tuple[str, bool], ...]:
    """Name what a build for CUDA `cuda` and cuDNN `cudnn` opens at run time, mandatory ones first.

    Empty when the table does not hold that CUDA.
    """
    data = load_cuda_data()
    parts = cuda.split(".")
    table = data["sonames"].get(".".join(parts[:2])) or data["sonames"].get(parts[0])
    if table is None:
        return ()
    names = {**table, "nccl": data["nccl_soname"]}
    if cudnn:
        names["cudnn"] = data["cudnn_soname"].format(major=cudnn.partition(".")[0])
    wanted = [(name, True) for name in framework["opens"]] + [(name, False) for name in framework["opens_optionally"]]
    return tuple((names[name], mandatory) for name, mandatory in wanted if name in names)


def parse_library_version(path: str, source: Source) -> Fact[str]:
    """Read a version from a real file name.

    Samples: 'libcudart.so.12.4.127' -> 12.4.127, 'libcudart-9335f6a2.so.10.2' -> 10.2, 'libcudnn.so.9' -> 9
    """
    match = re.search(r"\.so\.(\d+(?:\.\d+)*)$", path)
    return Known(match.group(1), source) if match else Absent((path,))


class Inspection:
    """A host, what is installed there, and one library search made when the first CUDA build needs it."""

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

    def conda_build(self, names: Sequence[str]) -> Tuple[str, Source]:
        """Return the build string of the first conda package of `names`, empty without one."""
        for each in self.installed.named(names):
            if each.installer == "conda" and each.build:
                return each.build, Source("file", each.location, f"{each.name} {each.version} {each.build}")
        return "", Source("file", self.installed.prefix)


def parse_conda_build(build: str) -> Dict[str, str]:
    """Read a conda build string: "cuda" and "cudnn" when it names them, "cpu" when it says CPU.

    Samples: 'cuda112py39h4e9e4d0_0', 'py3.11_cuda12.1_cudnn8.9.2_0', 'cuda126_mkl_py312h', 'gpu_py37h57d29ca_0',
    'mkl_py38hd9fbd2f_0', 'cpu_generic_py311h', 'py3.9_cpu_0'
    """
    found: Dict[str, str] = {}
    cuda = re.search(r"cuda_?(\d+)(?:\.(\d+))?", build)
    cudnn = re.search(r"cudnn([\d.]+\d|\d)", build)
    if cuda:
        digits, minor = cuda.groups()
        split = minor is None and (len(digits) > 2 or digits[0] > "1")
        found["cuda"] = f"{digits[:-1]}.{digits[-1]}" if split else digits + (f".{minor}" if minor else "")
    elif re.search(r"(^|_)gpu(_|$)", build):
        found["cuda"] = ""
    elif re.search(r"(^|_)(cpu|mkl|eigen|openblas)(_|$)", build):
        found["cpu"] = build
    if cudnn:
        found["cudnn"] = cudnn.group(1)
    return found


def literals(text: str) -> Dict[str, Any]:
    """Return the module-level names of Python source that are bound to literals, without running it.

    Annotated names count; `build_info = collections.OrderedDict([...])` counts as its argument. Raises
    SyntaxError or ValueError when the source is not Python.
    """
    import ast

    found: Dict[str, Any] = {}
    for node in ast.parse(text).body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = node.value
        while isinstance(value, ast.Call) and len(value.args) == 1:
            value = value.args[0]
        for target in targets:
            if isinstance(target, ast.Name) and value is not None:
                try:
                    found[target.id] = ast.literal_eval(value)
                except (ValueError, TypeError):
                    continue  # an expression: its value is only known to those who run it
    return found


def cpu_build(framework: str, distribution: Distribution, source: Source) -> FrameworkBuild:
    """Describe a build without CUDA: it has no CUDA version and loads no CUDA library."""
    nothing = Absent((source.where,))
    return FrameworkBuild(
        framework=framework,
        distribution=distribution.name,
        version=distribution.version,
        location=distribution.location,
        cuda_build=Known(False, source),
        cuda_version=nothing,
        cudnn_version=nothing,
        compute_capabilities=nothing,
        libraries=Known((), source),
        runpath=nothing,
    )


def unreadable_build(framework: str, distribution: Distribution, reason: Unknown) -> FrameworkBuild:
    """Describe a build of which nothing but its distribution could be read."""
    unknown: Dict[str, Any] = dict.fromkeys(
        ("cuda_build", "cuda_version", "cudnn_version", "compute_capabilities", "libraries", "runpath"), reason
    )
    return FrameworkBuild(framework, distribution.name, distribution.version, distribution.location, **unknown)


def lookups(
    search: LibrarySearch, callers: Sequence[Fact[Caller]], preload: str = ""
) -> Tuple[Fact[Tuple[LibraryLookup, ...]], Fact[Tuple[str, ...]]]:
    """Return the library lookups of a build and the RUNPATH of the first file that loads them."""
    readable = [caller.value for caller in callers if isinstance(caller, Known)]
    for caller in callers:
        if isinstance(caller, Unknown):
            return caller, caller
    if not readable:
        tried = tuple(path for caller in callers if isinstance(caller, Absent) for path in caller.tried)
        missing = Unknown("failed", "the files that load its libraries are not there", tried)
        return missing, missing
    source = Source("file", readable[0].path)
    return Known(search.look_up(readable, preload), source), Known(readable[0].elf.runpath, source)


_SILENT = Unknown("failed", "the wheel's metadata does not name them")
_PLUGIN = r"jax-cuda(\d+)-(?:plugin|pjrt)$"


def collect_jax(inspection: Inspection) -> Tuple[FrameworkBuild, ...]:
    """Read each CUDA plugin; without one, jaxlib; without that, jax alone."""
    everything = inspection.installed.distributions
    plugins = {match.group(1): each for each in everything for match in [re.match(_PLUGIN, each.name)] if match}
    plugins.update({major: each for major, each in plugins.items() if each.name.endswith("-plugin")})
    library = next((each for each in everything if each.name == "jaxlib"), None)
    if plugins:
        return tuple(_plugin_build(inspection, each, major) for major, each in sorted(plugins.items()))
    if library is not None:
        return (_library_build(inspection, library),)
    reason = Unknown("failed", "jax is installed without jaxlib")
    return tuple(unreadable_build("jax", each, reason) for each in everything if each.name == "jax")[:1]


def _plugin_build(inspection: Inspection, plugin: Distribution, major: str) -> FrameworkBuild:
    source = Source("file", plugin.location, f"{plugin.name} {plugin.version}")
    cudnn = least_cudnn(plugin.requires)
    runtimes = inspection.installed.named((f"jax-cuda{major}-pjrt",))
    folder = f"{(*runtimes, plugin)[0].location}/jax_plugins/xla_cuda{major}"
    script = get_value(inspection.host.read_text(f"{folder}/__init__.py")) or ""
    preload = "first" if "_load_nvidia_libraries" in script else ""
    path = f"{folder}/xla_cuda_plugin.so"
    return _cuda_build(inspection, plugin, (major, cudnn, preload, path), source)


def _library_build(inspection: Inspection, library: Distribution) -> FrameworkBuild:
    cuda, cudnn = parse_local_version(library.version)
    build, source = inspection.conda_build(load_cuda_data()["jax"]["conda_packages"])
    if cuda is None and build:
        cuda = parse_conda_build(build).get("cuda")
    else:
        source = Source("file", library.location, f"{library.name} {library.version}")
    if cuda is None:
        return cpu_build("jax", library, source)
    path = f"{library.location}/jaxlib/xla_extension.so"
    return _cuda_build(inspection, library, (cuda, cudnn, "", path), source)


def parse_local_version(version: str) -> Tuple[Optional[str], str]:
    """Read CUDA and cuDNN from the local version of a jaxlib before the plugins; (None, "") without them.

    Samples: '0.4.13+cuda12.cudnn89' -> ("12", "8.9"), '0.3.25+cuda11.cudnn805' -> ("11", "8.0.5")
    """
    match = re.search(r"\+cuda(\d+)(?:\.cudnn(\d+))?", version)
    if match is None:
        return None, ""
    digits = match.group(1)
    cuda = f"{digits[:2]}.{digits[2:]}" if len(digits) > 2 else digits
    return cuda, ".".join(match.group(2) or "")


def least_cudnn(requires: Sequence[str]) -> str:
    """Return the lower bound on cuDNN of a plugin's extra, empty without one.

    Sample: 'nvidia-cudnn-cu13<10.0,>=9.12.0.46; sys_platform == "linux" and extra == "with-cuda"' -> 9.12.0.46
    """
    for line in requires:
        match = re.match(r"nvidia-cudnn-cu\d+[^;]*>=\s*([\d.]+)", line)
        if match:
            return match.group(1)
    return ""


def _cuda_build(
    inspection: Inspection, distribution: Distribution, facts: Tuple[str, str, str, str], source: Source
) -> FrameworkBuild:
    cuda, cudnn, preload, path = facts
    opens = opened_names(load_cuda_data()["jax"], cuda, cudnn)
    libraries, runpath = lookups(inspection.search, [inspection.search.caller(path, opens)], preload)
    silent: Fact[str] = Unknown("failed", "the distribution does not name it", (distribution.location,))
    return replace(
        cpu_build("jax", distribution, source),
        cuda_build=Known(True, source),
        cuda_version=Known(cuda, source) if cuda else silent,
        cudnn_version=Known(cudnn, source) if cudnn else silent,
        compute_capabilities=_SILENT,
        libraries=libraries,
        runpath=runpath,
    )


_BUILD_INFO = "python/platform/build_info.py"


def collect_tensorflow(inspection: Inspection, distribution: Distribution) -> FrameworkBuild:
    """Read the build that `distribution` installed."""
    folder, text = _build_info(inspection, distribution)
    if isinstance(text, Unknown):
        return unreadable_build("tensorflow", distribution, text)
    if isinstance(text, Absent):
        return _without_build_info(inspection, distribution, folder, text)
    info = parse_build_info(text.value)
    source = Source("file", text.source.where, f"is_cuda_build = {info.get('is_cuda_build')}")
    if not isinstance(info.get("is_cuda_build"), bool):
        reason = Unknown("unparsable", f"{source.where} does not say whether it is a CUDA build", (source.where,))
        return unreadable_build("tensorflow", distribution, reason)
    if not info["is_cuda_build"]:
        return cpu_build("tensorflow", distribution, source)
    return _tensorflow_cuda_build(inspection, distribution, folder, info, source)


def parse_build_info(text: str) -> Dict[str, Any]:
    r"""Read TensorFlow's build_info.py; cuda_version and cudnn_version come out as "11.2" and "8".

    To 1.14 it says only is_cuda_build; to 2.2 it has module-level names, then a dict, later inside a call:
    'is_cuda_build = True\n\ncuda_version_number = '10.0'\ncudnn_version_number = '7'\n'
    'build_info = {'cuda_version': '64_101', 'cudnn_version': '64_7', 'is_cuda_build': True}\n'
    'build_info = collections.OrderedDict([('cuda_compute_capabilities', ['sm_60', 'compute_90']),
     ('cuda_version', '12.5.1'), ('cudnn_version', '9'), ('is_cuda_build', True)])\n'
    """
    try:
        names = literals(text)
        info = dict(names.get("build_info", names))
    except (SyntaxError, ValueError, TypeError):
        return {}
    for key, old_key in (("cuda_version", "cuda_version_number"), ("cudnn_version", "cudnn_version_number")):
        value = str(info.pop(old_key, info.get(key, "")))
        if value.startswith("64_"):  # as Windows names its libraries: cudart64_112.dll
            digits = value[3:]
            value = f"{digits[:-1]}.{digits[-1]}" if len(digits) > 1 else digits
        info[key] = value
    return info


def _build_info(inspection: Inspection, distribution: Distribution) -> Tuple[str, Fact[str]]:
    folder, tried = "", []
    for package in reversed(load_cuda_data()["tensorflow"]["packages"]):  # tensorflow_core (1.15, 2.0) holds it alone
        folder = f"{distribution.location}/{package}"
        text = inspection.host.read_text(f"{folder}/{_BUILD_INFO}")
        if not isinstance(text, Absent):
            return folder, text
        tried.append(f"{folder}/{_BUILD_INFO}")
    return folder, Absent(tuple(tried))


def _without_build_info(
    inspection: Inspection, distribution: Distribution, folder: str, absent: Absent
) -> FrameworkBuild:
    """Judge by conda's build string, else by the libraries that a release before 1.5 links."""
    build, source = inspection.conda_build(load_cuda_data()["tensorflow"]["conda_packages"])
    told = parse_conda_build(build)
    if "cpu" in told:
        return cpu_build("tensorflow", distribution, source)
    if "cuda" not in told and not isinstance(inspection.host.status(folder), Known):
        reason = Unknown("failed", f"{distribution.name} is installed but {folder} is missing", absent.tried)
        return unreadable_build("tensorflow", distribution, reason)
    source = source if told else Source("file", folder)
    result = _tensorflow_cuda_build(inspection, distribution, folder, {"cuda_version": told.get("cuda", "")}, source)
    if not told and isinstance(result.libraries, Known) and not result.libraries.value:
        return cpu_build("tensorflow", distribution, source)
    return result


def _tensorflow_cuda_build(
    inspection: Inspection, distribution: Distribution, folder: str, info: Mapping[str, Any], source: Source
) -> FrameworkBuild:
    data = load_cuda_data()["tensorflow"]
    minor = ".".join(distribution.version.split(".")[:2])
    cuda = str(info.get("cuda_version", ""))
    cuda = cuda if "." in cuda else data["full_cuda_version"].get(minor, cuda)
    cudnn = str(info.get("cudnn_version", ""))
    opens = opened_names(data, cuda, cudnn)
    callers = [
        inspection.search.caller(f"{folder}/{name}", opens if name in data["opening_files"] else ())
        for name in data["linking_files"]
    ]
    libraries, runpath = lookups(inspection.search, callers)
    capabilities = info.get("cuda_compute_capabilities")
    silent = Unknown("failed", "this release's build_info does not name them", (source.where,))
    return replace(
        cpu_build("tensorflow", distribution, source),
        cuda_build=Known(True, source),
        cuda_version=Known(cuda, source) if cuda else linked_version("libcudart.so.", libraries),
        cudnn_version=Known(cudnn, source) if cudnn else linked_version("libcudnn.so.", libraries),
        compute_capabilities=Known(tuple(map(str, capabilities)), source) if capabilities else silent,
        libraries=libraries,
        runpath=runpath,
    )


def linked_version(prefix: str, libraries: Fact[Tuple[LibraryLookup, ...]]) -> Fact[str]:
    """Read a version off the soname that a build links: libcudart.so.10.0 -> 10.0."""
    names: Tuple[LibraryLookup, ...] = libraries.value if isinstance(libraries, Known) else ()
    for each in names:
        if each.soname.startswith(prefix):
            return Known(each.soname[len(prefix) :], Source("file", each.needed_by, f"needs {each.soname}"))
    return Unknown("failed", f"no file of the build names {prefix}*", ())


def collect_torch(inspection: Inspection, distribution: Distribution) -> FrameworkBuild:
    """Read the build that `distribution` installed."""
    path = f"{distribution.location}/torch/version.py"
    text = inspection.host.read_text(path)
    if isinstance(text, Absent):
        reason = Unknown("failed", f"{distribution.name} is installed but {path} is missing", (path,))
        return unreadable_build("torch", distribution, reason)
    if isinstance(text, Unknown):
        return unreadable_build("torch", distribution, text)
    names = parse_version_file(text.value)
    if "cuda" not in names:
        return unreadable_build("torch", distribution, Unknown("unparsable", f"{path} does not name a CUDA", (path,)))
    source = Source("file", path, f"cuda = {names['cuda']!r}")
    distribution = replace(distribution, version=str(names.get("__version__") or distribution.version))
    if names["cuda"] is None:
        return cpu_build("torch", distribution, source)
    return _torch_cuda_build(inspection, distribution, str(names["cuda"]), source)


def parse_version_file(text: str) -> Dict[str, Any]:
    r"""Read torch/version.py; "cuda" is missing when it does not say.

    Samples: "__version__ = '1.13.1+cu117'\ndebug = False\ncuda = '11.7'\n",
    "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n"
    """
    try:
        return literals(text)
    except (SyntaxError, ValueError):
        return {}


def _torch_cuda_build(inspection: Inspection, distribution: Distribution, cuda: str, source: Source) -> FrameworkBuild:
    data, folder = load_cuda_data()["torch"], f"{distribution.location}/torch"
    search = inspection.search
    callers = [search.caller(f"{folder}/{name}") for name in data["linking_files"]]
    callers += [search.caller(f"{folder}/{name}", mandatory=False) for name in data["optional_files"]]
    libraries, runpath = lookups(search, callers, preload="fallback")
    linked = linked_version("libcudnn.so.", libraries)
    return replace(
        cpu_build("torch", distribution, source),
        cuda_build=Known(True, source),
        cuda_version=Known(".".join(cuda.split(".")[:2]), source),
        cudnn_version=_cudnn_version(inspection, distribution, linked),
        compute_capabilities=_SILENT,
        libraries=libraries,
        runpath=runpath,
    )


def _cudnn_version(inspection: Inspection, distribution: Distribution, linked: Fact[str]) -> Fact[str]:
    """Take the wheel's own pin, else conda's build string, else the soname it links."""
    for line in distribution.requires:
        match = re.match(r"nvidia-cudnn-cu\d+\s*\(?==\s*([\d.]+)", line)
        if match:
            return Known(match.group(1), Source("file", distribution.location, line))
    build, source = inspection.conda_build(load_cuda_data()["torch"]["conda_packages"])
    told = parse_conda_build(build).get("cudnn")
    return Known(told, source) if told else linked


def collect_frameworks(host: Host, installed: Installation) -> Tuple[FrameworkBuild, ...]:
    """Read the builds of TensorFlow, PyTorch and JAX; of several copies of one, the imported one comes first."""
    inspection = Inspection(host, installed)
    builds = [collect_tensorflow(inspection, each) for each in _one_each(installed, "tensorflow")]
    builds += [collect_torch(inspection, each) for each in _one_each(installed, "torch")]
    builds += collect_jax(inspection)
    return tuple(replace(each, shadowed_by=_shadow(host, installed, each)) for each in builds)


def _shadow(host: Host, installed: Installation, build: FrameworkBuild) -> Fact[str]:
    module = "jaxlib" if build.distribution == "jaxlib" else build.framework
    return find_shadowing(host, installed, module, build.location)


def _one_each(installed: Installation, framework: str) -> List[Distribution]:
    """Pick one distribution of a framework for each folder it lies in, in the order of import."""
    found: Dict[str, Distribution] = {}
    for name in load_cuda_data()[framework]["distributions"]:
        for each in installed.named((name,)):
            if framework in each.modules or not each.modules:
                found.setdefault(each.location, each)
    order = [folder.path for folder in installed.folders]
    return sorted(found.values(), key=lambda each: order.index(each.location) if each.location in order else len(order))
