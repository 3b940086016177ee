"""Find every CUDA Toolkit on the machine, read its versions, and tell which one wins for whom."""

from __future__ import annotations

import json
import re
from typing import Dict, List, Mapping, Optional, Tuple

from envcheck.host.process import run_concurrently
from envcheck.host.protocol import Completed, Host
from envcheck.model import (
    Absent,
    Fact,
    Known,
    Source,
    ToolkitFacts,
    ToolkitInstall,
    Unknown,
    dataclass,
    get_value,
    replace,
)
from envcheck.probes.compilers import make_version_command, read_version_answer
from envcheck.probes.toolkit_places import (
    ROOT_VARIABLES,
    Place,
    find_places,
    get_base_name,
    get_parent,
    join_path,
    list_roots_on_library_path,
    make_place_at,
)

_CUDART = r"^(libcudart\.so\.[\d.]+|cudart64_\d+\.dll|libcudart\.[\d.]+\.dylib)$"
_LIBDEVICE = r"^libdevice\.(10|compute_\d+\.10)\.bc$"  # one file for all architectures since CUDA 9.0


def find_tool(host: Host, folders: Tuple[str, ...], name: str) -> Fact[str]:
    """Return the first program of that name; unknown when what bears it cannot be run."""
    suffix = ".exe" if host.system == "windows" else ""
    tried: List[str] = []
    unusable: Optional[Unknown] = None
    for folder in folders:
        path = join_path(host, folder, name + suffix)
        status = host.status(path)
        if isinstance(status, Known) and status.value.kind != "file":
            unusable = Unknown("failed", f"{path} is a {status.value.kind}, not a program", (path,))
        elif isinstance(status, Known) and host.system != "windows" and "x" not in status.value.mode:
            unusable = Unknown("denied", f"{path} is not executable", (path,))
        elif isinstance(status, Known):
            return Known(path, Source("file", path))
        elif isinstance(status, Unknown):
            unusable = status
        tried.append(path)
    return unusable or Absent(tuple(tried))


def find_cudart(host: Host, folders: Tuple[str, ...]) -> Fact[str]:
    """Return the real file of the newest libcudart in the first folder that has one."""
    return _find_by_pattern(host, folders, _CUDART)


def find_libdevice(host: Host, folders: Tuple[str, ...]) -> Fact[str]:
    """Return libdevice's bitcode, which XLA and clang need."""
    return _find_by_pattern(host, folders, _LIBDEVICE)


def _find_by_pattern(host: Host, folders: Tuple[str, ...], pattern: str) -> Fact[str]:
    unread: Optional[Unknown] = None
    for folder in folders:
        names = host.list_folder(folder)
        if isinstance(names, Unknown):
            unread = names
        matching = [name for name in names.value if re.search(pattern, name)] if isinstance(names, Known) else []
        for name in sorted(matching, key=_numbers, reverse=True):
            real = host.real_path(join_path(host, folder, name))
            if isinstance(real, Known):
                return real
    return unread or Absent(folders)


def _numbers(name: str) -> List[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


# CUDA_VERSION stands within the first 16 KB of cuda.h in CUDA 11.8, 12.9, 13.0 and 13.5, of more than 800 KB.
_HEADER_BYTES = 1 << 16
_HEADERS = (("cuda.h", "CUDA_VERSION"), ("cuda_runtime_api.h", "CUDART_VERSION"))


def parse_version_json(text: str) -> Optional[Mapping[str, str]]:
    """Return component -> version; the key "cuda" is the toolkit itself. None when it is not that.

    {
       "cuda" : {
          "name" : "CUDA SDK",
          "version" : "11.8.20220929"
       },
       "cuda_nvcc" : {
          "name" : "CUDA NVCC",
          "version" : "11.8.89"
       },
       "nvidia_driver" : {
          "name" : "NVIDIA Linux Driver",
          "version" : "520.61.05"
       }
    }
    """
    try:
        loaded = json.loads(text)
    except ValueError:
        return None
    if not isinstance(loaded, dict):
        return None
    versions = {name: str(entry.get("version")) for name, entry in loaded.items() if isinstance(entry, dict)}
    found = {name: version for name, version in versions.items() if re.search(r"^\d+(\.\d+)+$", version)}
    return found if "cuda" in found else None


def parse_version_txt(text: str) -> Optional[str]:
    """Return the version in a version.txt; patch lines number the patch, not the toolkit.

    CUDA Version 10.0.130
    CUDA Patch Version 10.0.130.1
    """
    match = re.search(r"^CUDA Version (\d+\.\d+(?:\.\d+)*)\s*$", text, re.MULTILINE)
    return match.group(1) if match else None


def parse_cuda_define(text: str, macro: str) -> Optional[str]:
    """Return the version a header defines as an integer: 1000 for a major, 10 for a minor version.

    #define CUDA_VERSION 13000
    """
    match = re.search(rf"^#define\s+{macro}\s+(\d{{4,6}})\b", text, re.MULTILINE)
    return f"{int(match.group(1)) // 1000}.{int(match.group(1)) % 1000 // 10}" if match else None


def parse_cudart_name(name: str) -> Optional[str]:
    """Return the version in the name of libcudart's real file, None when it tells only the major.

    libcudart.so.13.0.96 -> 13.0, libcudart.so.9.0 -> 9.0, libcudart.so.12 and libcudart.so.11.0 (all of
    CUDA 11 bears that soname) -> None
    """
    match = re.search(r"^libcudart\.so\.(\d+)\.(\d+)(\.\d+)?$", name)
    if match is None or (match.group(1) == "11" and match.group(3) is None):
        return None
    return f"{match.group(1)}.{match.group(2)}"


def read_version_files(host: Host, folders: Tuple[str, ...]) -> Tuple[Fact[str], Fact[str]]:
    """Return (toolkit version, nvcc build) from the first version.json or version.txt there is."""
    tried = []
    for folder in folders:
        for name, read in (("version.json", _from_json), ("version.txt", _from_txt)):
            path = join_path(host, folder, name)
            text = host.read_text(path)
            if not isinstance(text, Absent):
                return (text, text) if isinstance(text, Unknown) else read(path, text.value)
            tried.append(path)
    return Absent(tuple(tried)), Absent(tuple(tried))


def read_header_version(host: Host, folders: Tuple[str, ...]) -> Fact[str]:
    """Return the version that cuda.h defines, or cuda_runtime_api.h where cuda.h is not installed."""
    tried, unread = [], None
    for folder in folders:
        for name, macro in _HEADERS:
            path = join_path(host, folder, name)
            text = host.read_text(path, _HEADER_BYTES)
            version = parse_cuda_define(text.value, macro) if isinstance(text, Known) else None
            if version is not None:
                return Known(version, Source("file", path, f"{macro} says {version}"))
            tried.append(path)
            if not isinstance(text, Absent):
                unread = text if isinstance(text, Unknown) else Unknown("unparsable", f"{path}: no {macro}", (path,))
    return unread or Absent(tuple(tried))


def read_cudart_version(path: Fact[str]) -> Fact[str]:
    """Return the version the name of libcudart's real file tells."""
    if not isinstance(path, Known):
        return path
    version = parse_cudart_name(get_base_name(path.value))
    if version is None:
        return Unknown(
            "unparsable", f"the name {get_base_name(path.value)} does not tell the minor version", (path.value,)
        )
    return Known(version, Source("file", path.value))


def _from_json(path: str, text: str) -> Tuple[Fact[str], Fact[str]]:
    versions = parse_version_json(text)
    if versions is None:
        reason = Unknown("unparsable", f"{path} tells no CUDA version", (path,))
        return reason, reason
    toolkit = Known(versions["cuda"], Source("file", path, f"CUDA SDK {versions['cuda']}"))
    nvcc = versions.get("cuda_nvcc")
    return toolkit, Known(nvcc, Source("file", path, f"CUDA NVCC {nvcc}")) if nvcc else Absent((path,))


def _from_txt(path: str, text: str) -> Tuple[Fact[str], Fact[str]]:
    version = parse_version_txt(text)
    if version is None:
        return Unknown("unparsable", f"{path} tells no CUDA version", (path,)), Absent((path,))
    return Known(version, Source("file", path, "; ".join(text.split("\n")).strip("; ")[:200])), Absent((path,))


_WRAPPERS = 4  # a wrapper of a wrapper of a wrapper is already odd
_WRAPPER_BYTES = 4096


@dataclass(frozen=True)
class NvccOnPath:
    """The nvcc a shell would start, the real program behind it, and the root of its toolkit."""

    found: Fact[str]
    real: Fact[str]
    root: Fact[str]


def find_nvcc_on_path(host: Host) -> NvccOnPath:
    """Find nvcc on PATH and follow links and wrapper scripts to its toolkit."""
    found = host.find_program("nvcc")
    if not isinstance(found, Known):
        return NvccOnPath(found, found, found)
    real = resolve_nvcc(host, found.value)
    return NvccOnPath(found, real, _root_of(real))


def resolve_nvcc(host: Host, path: str) -> Fact[str]:
    """Follow links and wrapper scripts: Debian's /usr/bin/nvcc only starts the real one."""
    here = path
    for _ in range(_WRAPPERS):
        real = host.real_path(here)
        if not isinstance(real, Known):
            return real
        head = host.read_bytes(real.value, _WRAPPER_BYTES)
        script = head.value.decode("utf-8", "replace") if isinstance(head, Known) else ""
        target = parse_nvcc_wrapper(script, host.environment()) if script.startswith("#!") else None
        if target is None:
            return Known(real.value, Source("file", path, f"-> {real.value}" if real.value != path else ""))
        here = target
    return Unknown("failed", f"{path} leads from wrapper to wrapper", (path,))


def parse_nvcc_wrapper(script: str, environment: Mapping[str, str]) -> Optional[str]:
    """Return the nvcc a wrapper script starts, variables it uses expanded.

    Debian's /usr/bin/nvcc (nvidia-cuda-toolkit 11.8.89~11.8.0-5~deb12u1):
        #!/bin/sh

        exec /usr/lib/nvidia-cuda-toolkit/bin/nvcc "$@"
    """
    expanded = re.sub(r"\$\{?(\w+)\}?", lambda match: environment.get(match.group(1), match.group(0)), script)
    match = re.search(r"^\s*(?:exec\s+)?[\"']?(/[^\s\"']*/nvcc(?:\.real)?)[\"']?(?:\s|$)", expanded, re.MULTILINE)
    return match.group(1) if match else None


def parse_nvcc_version(text: str) -> Optional[Tuple[str, str]]:
    """Return (release, build) from the output of `nvcc --version`, None when it is not that.

    The build is nvcc's own number, not the toolkit's patch level: 11.5.1 brings V11.5.119.

        nvcc: NVIDIA (R) Cuda compiler driver
        Copyright (c) 2005-2025 NVIDIA Corporation
        Built on Wed_Aug_20_01:58:59_PM_PDT_2025
        Cuda compilation tools, release 13.0, V13.0.88
        Build cuda_13.0.r13.0/compiler.36424714_0
    """
    match = re.search(r"release (\d+\.\d+), V(\d+(?:\.\d+)+)", text)
    return (match.group(1), match.group(2)) if match else None


def read_nvcc_version(answer: Fact[Completed], command: str) -> Tuple[Fact[str], Fact[str]]:
    """Return (release, build) facts from a finished `nvcc --version`."""
    if not isinstance(answer, Known):
        return answer, answer
    versions = parse_nvcc_version(answer.value.stdout)
    if versions is None:
        reason = _no_version(answer.value, command)
        return reason, reason
    release, build = versions
    source = Source("command", command, f"release {release}, V{build}")
    return Known(release, source), Known(build, source)


def _no_version(done: Completed, command: str) -> Unknown:
    if done.returncode < 0:
        return Unknown("crashed", f"nvcc was ended by signal {-done.returncode}", (command,))
    said = (done.stderr or done.stdout).strip()[:200]
    if done.returncode != 0:
        return Unknown("failed", f"nvcc ended with status {done.returncode}: {said!r}", (command,))
    return Unknown("unparsable", f"nvcc printed no release: {said!r}", (command,))


def _root_of(real: Fact[str]) -> Fact[str]:
    if not isinstance(real, Known):
        return real
    folder = get_parent(real.value)
    if not get_base_name(real.value).startswith("nvcc") or get_base_name(folder).lower() not in ("bin", "x64"):
        # ccache stands in for compilers by a link of their name
        return Unknown("unparsable", f"{real.value} does not lie in a toolkit's bin folder", (real.value,))
    root = get_parent(folder if get_base_name(folder).lower() == "bin" else get_parent(folder))
    return Known(root or "/", Source("file", real.value))


def find_host_compiler(host: Host, nvcc: str) -> Fact[str]:
    """Return the host compiler of the real program `nvcc`.

    The order is nvcc's own, as its -dryrun shows (11.8, 13.0): the last -ccbin, with NVCC_APPEND_FLAGS
    after NVCC_PREPEND_FLAGS; NVCC_CCBIN; compiler-bindir in nvcc.profile; a gcc beside nvcc, since nvcc
    puts its own folder ahead of PATH (Debian's package relies on it); gcc on PATH.
    """
    environment = host.environment()
    for variable in ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS"):
        chosen = parse_ccbin(environment.get(variable, ""))
        if chosen:
            return _named(host, chosen, variable)
    if environment.get("NVCC_CCBIN"):
        return _named(host, environment["NVCC_CCBIN"], "NVCC_CCBIN")
    if host.system == "windows":
        return host.find_program("cl")
    return _from_profile(host, get_parent(nvcc)) or _beside(host, get_parent(nvcc)) or host.find_program("gcc")


def parse_ccbin(flags: str) -> Optional[str]:
    """Return the last host compiler in a string of nvcc options.

    -allow-unsupported-compiler -ccbin /usr/bin/g++-12
    --compiler-bindir=/opt/gcc-11/bin
    """
    import shlex

    try:
        words = shlex.split(flags)
    except ValueError:  # an unclosed quote: nvcc itself would stop at it
        words = flags.split()
    chosen: List[str] = []
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in ("-ccbin", "--compiler-bindir"):
            chosen += [value] if equals else words[index + 1 : index + 2]
    return chosen[-1] if chosen else None


def parse_profile_bindir(text: str) -> Optional[str]:
    """Return compiler-bindir from an nvcc.profile; lines that begin with # are comments.

    TOP              = $(_HERE_)/..
    compiler-bindir  = /usr/lib/nvidia-cuda-toolkit/bin
    """
    match = re.search(r"^compiler-bindir\s*\??=\s*(\S+)", text, re.MULTILINE)
    return match.group(1) if match else None


def _named(host: Host, chosen: str, variable: str) -> Fact[str]:
    """Follow what -ccbin accepts: a compiler's path, the folder of a gcc, or a name on PATH."""
    if "/" not in chosen and "\\" not in chosen:
        path = host.find_program(chosen)
        return path if isinstance(path, Known) else Absent((f"{variable} names {chosen}, which is not on PATH",))
    status = host.status(chosen)
    if isinstance(status, Known) and status.value.kind == "folder":
        chosen = join_path(host, chosen, "gcc")
        status = host.status(chosen)
    if isinstance(status, Absent):
        return Absent((f"{variable} names {chosen}, which is not there",))
    return Known(chosen, Source("env", variable)) if isinstance(status, Known) else status


def _from_profile(host: Host, folder: str) -> Optional[Fact[str]]:
    profile = join_path(host, folder, "nvcc.profile")
    text = host.read_text(profile)
    bindir = parse_profile_bindir(text.value) if isinstance(text, Known) else None
    if bindir is None:
        return None
    bindir = bindir.replace("$(_HERE_)", folder).replace("$(TOP)", get_parent(folder))
    return Known(join_path(host, bindir, "gcc"), Source("file", profile, f"compiler-bindir = {bindir}"))


def _beside(host: Host, folder: str) -> Optional[Fact[str]]:
    status = host.status(join_path(host, folder, "gcc"))
    if isinstance(status, Known) and status.value.kind == "file":
        return Known(join_path(host, folder, "gcc"), Source("file", join_path(host, folder, "gcc"), "beside nvcc"))
    return None


_CUDA_HOME = ("CUDA_HOME", "CUDA_PATH")
_VARIABLES = (*ROOT_VARIABLES, "LD_LIBRARY_PATH")


def collect_toolkits(host: Host) -> ToolkitFacts:
    """Read every toolkit from its files; run only the nvcc whose version its files do not tell."""
    on_path = find_nvcc_on_path(host)
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
    root = get_value(on_path.root)
    if root is None:
        return places
    winner = next((place for place in places if get_parent(get_value(on_path.real) or "") in place.programs), None)
    winner = winner or make_place_at(host, root, "path")
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
        commands[""] = make_version_command(compiler.value)
    answers = run_concurrently(host, commands)
    version: Fact[str] = compiler
    if isinstance(compiler, Known):
        version = read_version_answer(answers[""], " ".join(commands[""]))
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
    if get_value(on_path.root) is not None and get_value(install.nvcc_path) == get_value(on_path.real):
        return get_value(on_path.found)
    told = (install.version_file, install.header_version)
    return None if any(isinstance(fact, Known) for fact in told) else get_value(install.nvcc_path)


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
    told: ToolkitInstall = replace(install, nvcc_release=release, nvcc_build=build)
    return told


def _with_version(install: ToolkitInstall) -> ToolkitInstall:
    told: ToolkitInstall = replace(install, version=_best_version(install))
    return told


def _best_version(install: ToolkitInstall) -> Fact[str]:
    """Choose the best reading: the compiler's own word, then the toolkit's files, then a library's name."""
    readings = (
        install.nvcc_release,
        install.version_file,
        install.header_version,
        read_cudart_version(install.cudart_path),
    )
    for fact in readings:
        if isinstance(fact, Known):
            return Known(".".join(fact.value.split(".")[:2]), fact.source)
    return next((fact for fact in readings if isinstance(fact, Unknown)), Absent((install.root,)))


def _host_compiler(host: Host, on_path: NvccOnPath, installs: List[ToolkitInstall]) -> Fact[str]:
    candidates = [on_path.real, *(install.nvcc_path for install in installs)]
    nvcc = next((fact.value for fact in candidates if isinstance(fact, Known)), None)
    return find_host_compiler(host, nvcc) if nvcc else Absent(("nvcc",))


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
    real = [get_value(host.real_path(root)) for root in list_roots_on_library_path(host)]
    roots = tuple(dict.fromkeys(root for root in real if root in known))
    return Known(roots, Source("env", "LD_LIBRARY_PATH")) if roots else Absent(("LD_LIBRARY_PATH",))
