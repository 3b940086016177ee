"""Every CUDA Toolkit on the machine, and which one wins for whom."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown, value_of
from envcheck.model.machine import ToolkitFacts, ToolkitInstall
from envcheck.model.records import replaced
from envcheck.probes.compiler import read_compiler_version, version_command
from envcheck.probes.together import run_together
from envcheck.probes.toolkit_host_compiler import nvcc_host_compiler
from envcheck.probes.toolkit_layout import find_cudart, find_libdevice, find_tool
from envcheck.probes.toolkit_nvcc import NvccOnPath, nvcc_on_path, read_nvcc_version
from envcheck.probes.toolkit_paths import parent
from envcheck.probes.toolkit_places import ROOT_VARIABLES, Place, find_places, place_at, roots_on_library_path
from envcheck.probes.toolkit_versions import cudart_version, read_header_version, read_version_files

_CUDA_HOME = ("CUDA_HOME", "CUDA_PATH")
_VARIABLES = (*ROOT_VARIABLES, "LD_LIBRARY_PATH")


def collect_toolkits(host: Host) -> ToolkitFacts:
    """Read every toolkit from its files; run only the nvcc whose version its files do not tell."""
    on_path = nvcc_on_path(host)
    read = [_read(host, place) for place in _places(host, on_path)]
    installs = [install for install in read if install]
    compiler = _host_compiler(host, on_path, installs)
    installs, compiler_version = _run_programs(host, on_path, installs, compiler)
    return ToolkitFacts(
        installs=_all(installs),
        nvcc_on_path=on_path.real,
        root_on_path=on_path.root,
        usr_local_cuda=host.real_path("/usr/local/cuda"),
        cuda_home=_cuda_home(host),
        cuda_home_root=_cuda_home_root(host),
        roots_on_library_path=_library_path(host, installs),
        ptxas_on_path=host.find_program("ptxas"),
        nvcc_host_compiler=compiler,
        nvcc_host_compiler_version=compiler_version,
    )


def _places(host: Host, on_path: NvccOnPath) -> List[Place]:
    """Return every place, the one on PATH first."""
    places = list(find_places(host))
    root = value_of(on_path.root)
    if root is None:
        return places
    winner = next((place for place in places if parent(value_of(on_path.real) or "") in place.programs), None)
    winner = winner or place_at(host, root, "path")
    return [winner, *(place for place in places if place.root != winner.root)]


def _read(host: Host, place: Place) -> Optional[ToolkitInstall]:
    """Read what the files of a place tell; None when no toolkit is there."""
    cudart = find_cudart(host, place.libraries)
    version_file, nvcc_build = read_version_files(host, place.version_files)
    install = ToolkitInstall(
        root=place.root,
        origin=place.origin,
        nvcc_path=find_tool(host, place.programs, "nvcc"),
        nvcc_build=nvcc_build,
        version_file=version_file,
        header_version=read_header_version(host, place.headers),
        cudart_path=cudart,
        ptxas_path=find_tool(host, place.programs, "ptxas"),
        libdevice_path=find_libdevice(host, place.libdevice),
    )
    signs = (install.nvcc_path, install.version_file, install.header_version, install.cudart_path, install.ptxas_path)
    if not any(isinstance(sign, Known) for sign in signs):
        return None
    return install


def _run_programs(
    host: Host, on_path: NvccOnPath, installs: List[ToolkitInstall], compiler: Fact[str]
) -> Tuple[List[ToolkitInstall], Fact[str]]:
    commands: Dict[str, Tuple[str, ...]] = {}
    for install in installs:
        program = _to_run(install, on_path)
        if program is not None:
            commands[install.root] = (program, "--version")
    if isinstance(compiler, Known):
        commands[""] = version_command(compiler.value)
    answers = run_together(host, commands)
    version: Fact[str] = compiler
    if isinstance(compiler, Known):
        version = read_compiler_version(answers[""], " ".join(commands[""]))
    finished = []
    for install in installs:
        if install.root in commands:
            release, build = read_nvcc_version(answers[install.root], " ".join(commands[install.root]))
            finished.append(_with_version(_with_nvcc(install, release, build)))
        else:
            finished.append(_with_version(_without_running(install)))
    return finished, version


def _to_run(install: ToolkitInstall, on_path: NvccOnPath) -> Optional[str]:
    """Return the nvcc to run for an install, if any.

    The one on PATH always, as the user starts it: it compiles. Of the others only those whose files do not
    tell the version: a start costs as much as all the reading, and on a network mount far more.
    """
    if value_of(on_path.root) is not None and value_of(install.nvcc_path) == value_of(on_path.real):
        return value_of(on_path.found)
    told = (install.version_file, install.header_version)
    return None if any(isinstance(fact, Known) for fact in told) else value_of(install.nvcc_path)


def _without_running(install: ToolkitInstall) -> ToolkitInstall:
    build = install.nvcc_build
    if isinstance(build, Known):  # version.json lists nvcc as a component
        release = ".".join(build.value.split(".")[:2])
        return _with_nvcc(install, Known(release, build.source), build)
    if not isinstance(install.nvcc_path, Known):
        return _with_nvcc(install, install.nvcc_path, install.nvcc_path)
    reason = Unknown("failed", "not run: the toolkit's files tell its version", (install.nvcc_path.value,))
    return _with_nvcc(install, reason, reason)


def _with_nvcc(install: ToolkitInstall, release: Fact[str], build: Fact[str]) -> ToolkitInstall:
    told: ToolkitInstall = replaced(install, nvcc_release=release, nvcc_build=build)
    return told


def _with_version(install: ToolkitInstall) -> ToolkitInstall:
    told: ToolkitInstall = replaced(install, version=_best_version(install))
    return told


def _best_version(install: ToolkitInstall) -> Fact[str]:
    """Choose the best reading: the compiler's own word, then the toolkit's files, then a library's name."""
    readings = (install.nvcc_release, install.version_file, install.header_version, cudart_version(install.cudart_path))
    for fact in readings:
        if isinstance(fact, Known):
            return Known(".".join(fact.value.split(".")[:2]), fact.source)
    return next((fact for fact in readings if isinstance(fact, Unknown)), Absent((install.root,)))


def _host_compiler(host: Host, on_path: NvccOnPath, installs: List[ToolkitInstall]) -> Fact[str]:
    candidates = [on_path.real, *(install.nvcc_path for install in installs)]
    nvcc = next((fact.value for fact in candidates if isinstance(fact, Known)), None)
    return nvcc_host_compiler(host, nvcc) if nvcc else Absent(("nvcc",))


def _all(installs: List[ToolkitInstall]) -> Fact[Tuple[ToolkitInstall, ...]]:
    if not installs:
        return Absent(("PATH", "/usr/local", "/opt", "Debian's layout", "conda", "wheels", *_VARIABLES))
    return Known(tuple(installs), Source("file", ", ".join(install.root for install in installs)))


def _cuda_home(host: Host) -> Fact[str]:
    for variable in _CUDA_HOME:
        value = host.environment().get(variable)
        if value:
            return Known(value, Source("env", variable, value))
    return Absent(_CUDA_HOME)


def _cuda_home_root(host: Host) -> Fact[str]:
    home = _cuda_home(host)
    return host.real_path(home.value) if isinstance(home, Known) else home


def _library_path(host: Host, installs: List[ToolkitInstall]) -> Fact[Tuple[str, ...]]:
    known = {install.root for install in installs}
    real = [value_of(host.real_path(root)) for root in roots_on_library_path(host)]
    roots = tuple(dict.fromkeys(root for root in real if root in known))
    return Known(roots, Source("env", "LD_LIBRARY_PATH")) if roots else Absent(("LD_LIBRARY_PATH",))
