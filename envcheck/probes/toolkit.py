"""Find every CUDA Toolkit, its versions, and the one that PATH and variables choose."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Mapping, Optional, Tuple

from envcheck.host.documents import dig, parse_object
from envcheck.host.paths import (
    get_base_name,
    get_multiarch_triple,
    get_parent,
    join_path,
    list_folders_in,
    list_names,
    resolve_existing,
)
from envcheck.host.process import run_concurrently
from envcheck.host.protocol import Completed, Host, Variables
from envcheck.model import (
    Absent,
    Fact,
    Known,
    Source,
    ToolkitFacts,
    ToolkitInstall,
    Unknown,
    choose_reading,
    dataclass,
    from_file,
    major_minor,
    replace,
)
from envcheck.model.text import find_group
from envcheck.model.versions import cuda_of_number
from envcheck.probes.compilers import (
    explain_missing_version,
    make_version_command,
    read_version_answer,
)

# NVIDIA and the frameworks use CUDA_HOME and CUDA_PATH; module systems set the others.
ROOT_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "EBROOTCUDA", "CRAY_CUDATOOLKIT_DIR")
_CUDA_HOME = ROOT_VARIABLES[:2]
_SYSTEM_ROOTS = ("", "/", "/usr", "/usr/local")  # their lib folders are common on LD_LIBRARY_PATH
_DEBIAN_ROOTS = ("/usr/lib/nvidia-cuda-toolkit", "/usr/lib/cuda")


Pair = Tuple[Fact[str], Fact[str]]  # two readings from one source


@dataclass
class Place:
    """A folder that may hold a toolkit, and the folders of its parts."""

    root: str  # real path
    origin: str  # as ToolkitInstall.origin
    programs: Tuple[str, ...]
    headers: Tuple[str, ...]
    libraries: Tuple[str, ...]
    libdevice: Tuple[str, ...]
    version_files: Tuple[str, ...]  # folders of version.json and version.txt


def find_places(host: Host) -> Tuple[Place, ...]:
    """Return each existing place once, by its real path, whether it holds a toolkit or not."""
    places: Dict[str, Place] = {}
    debian = find_debian_place(host)
    for root, origin in _list_candidates(host):
        real = host.real_path(root).value
        if real is not None and real not in places and not (debian and _is_debian(real)):
            places[real] = _make_place(host, real, origin)
    return (*places.values(), *([debian] if debian else []), *_find_wheel_places(host))


def find_debian_place(host: Host) -> Optional[Place]:
    """Return the place of Debian's nvidia-cuda-toolkit, whose files are spread over /usr."""
    roots = [
        root
        for root in _DEBIAN_ROOTS
        if host.system == "linux" and isinstance(host.real_path(root), Known)
    ]
    if not roots:
        return None
    toolkit, cuda = _DEBIAN_ROOTS
    return Place(
        root=roots[0],
        origin="debian",
        programs=(f"{toolkit}/bin", "/usr/bin"),
        headers=("/usr/include",),
        libraries=(f"/usr/lib/{get_multiarch_triple(host)}",),
        libdevice=(f"{toolkit}/libdevice", f"{cuda}/nvvm/libdevice"),
        version_files=(cuda,),
    )


def list_roots_on_library_path(host: Host) -> Tuple[str, ...]:
    """Return the folders with a library folder on LD_LIBRARY_PATH, as written."""
    roots = []
    for folder in list_folders_in(host, "LD_LIBRARY_PATH"):
        match = re.search(
            r"^(.*?)/+(?:targets/[^/]+/lib|extras/CUPTI/lib64|lib(?:64)?)(?:/stubs)?/*$", folder
        )
        if match and match.group(1) not in _SYSTEM_ROOTS:
            roots.append(match.group(1))
    # stat before realpath: resolving the links of ten thousand stale entries takes a second
    return tuple(root for root in dict.fromkeys(roots) if isinstance(host.status(root), Known))


def list_site_packages(host: Host) -> Tuple[str, ...]:
    """Return the existing site-packages folders of the active venv and conda environment.

    LD_LIBRARY_PATH may add wheels of an inactive environment: .../site-packages/nvidia/cudnn/lib.
    """
    folders: List[str] = []
    for prefix in filter(None, map(host.environment().get, ("VIRTUAL_ENV", "CONDA_PREFIX"))):
        if host.system == "windows":
            folders.append(join_path(host, prefix, "Lib", "site-packages"))
        else:
            library = join_path(host, prefix, "lib")
            pythons = [name for name in list_names(host, library) if name.startswith("python")]
            folders += [join_path(host, library, name, "site-packages") for name in pythons]
    matches = [
        re.search(r"^(.+/(?:site|dist)-packages)/(?:nvidia|tensorrt_libs)\b", folder)
        for folder in list_folders_in(host, "LD_LIBRARY_PATH")
    ]
    folders += [match.group(1) for match in matches if match]
    return tuple(dict.fromkeys(resolve_existing(host, folders)))


def _list_candidates(host: Host) -> Iterator[Tuple[str, str]]:
    """Yield (root, origin) of every place where installers and users put toolkits."""
    if host.system == "windows":
        yield from _list_children(
            host, r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA", "v", "program-files"
        )
    else:
        yield from _list_children(host, "/usr/local", "cuda", "usr-local")
        yield from _list_children(host, "/opt", "cuda", "opt")
        yield from _list_hpc_sdks(host)
    environment = host.environment()
    if environment.get("CONDA_PREFIX"):
        conda = environment["CONDA_PREFIX"]
        yield (join_path(host, conda, "Library") if host.system == "windows" else conda), "conda"
    for root in filter(None, map(environment.get, ROOT_VARIABLES)):
        yield root, "environment"
    for root in list_roots_on_library_path(host):
        if "-packages/" not in root:  # _find_wheel_places finds the folders of wheels
            yield root, "environment"


def _list_children(host: Host, folder: str, prefix: str, origin: str) -> Iterator[Tuple[str, str]]:
    for name in list_names(host, folder):
        if name.startswith(prefix):
            yield join_path(host, folder, name), origin


def _list_hpc_sdks(host: Host) -> Iterator[Tuple[str, str]]:
    # /opt/nvidia/hpc_sdk/Linux_x86_64/24.5/cuda/12.4; its math libraries are elsewhere
    for system, _ in _list_children(host, "/opt/nvidia/hpc_sdk", "Linux_", "hpc-sdk"):
        for release, _ in _list_children(host, system, "", "hpc-sdk"):
            for root, origin in _list_children(host, release + "/cuda", "", "hpc-sdk"):
                if re.search(r"/\d+\.\d+$", root):
                    yield root, origin


def _find_wheel_places(host: Host) -> Iterator[Place]:
    for folder in list_site_packages(host):
        nvidia = join_path(host, folder, "nvidia")
        names = list_names(host, nvidia)
        for name in names:
            if re.search(r"^cu\d+$", name):  # from CUDA 13 on all wheels share one folder
                yield _make_place(host, join_path(host, nvidia, name), "wheels")
        if "cuda_runtime" in names or "cuda_nvcc" in names:
            yield _make_place_of_separate_wheels(host, nvidia)


def _make_place_of_separate_wheels(host: Host, root: str) -> Place:
    # CUDA 11 and 12: one folder per wheel, and none has nvcc
    runtime = join_path(host, root, "cuda_runtime")
    nvcc = join_path(host, root, "cuda_nvcc")
    return Place(
        root=root,
        origin="wheels",
        programs=(join_path(host, nvcc, "bin"),),
        headers=(join_path(host, runtime, "include"),),
        libraries=(join_path(host, runtime, "bin" if host.system == "windows" else "lib"),),
        libdevice=(join_path(host, nvcc, "nvvm", "libdevice"),),
        version_files=(),
    )


def _make_place(host: Host, root: str, origin: str) -> Place:
    def below(*names: str) -> Tuple[str, ...]:
        return tuple(join_path(host, root, name) for name in names)

    targets = join_path(host, root, "targets")
    names = list_names(host, targets) if origin in ("conda", "wheels") else ()
    is_windows = host.system == "windows"
    return Place(
        root=root,
        origin=origin,
        programs=below("bin", "bin\\x64") if is_windows else below("bin"),
        headers=(*below("include"), *(join_path(host, targets, name, "include") for name in names)),
        libraries=(
            *(below("bin", "bin\\x64", "bin\\x86_64") if is_windows else below("lib64", "lib")),
            *(join_path(host, targets, name, "lib") for name in names),
        ),
        # conda's cudatoolkit (up to 11.8) has libdevice.10.bc among the libraries
        libdevice=(
            join_path(host, root, "nvvm", "libdevice"),
            *(below("lib") if origin == "conda" else ()),
        ),
        version_files=(root,),
    )


def _is_debian(root: str) -> bool:
    return root in _DEBIAN_ROOTS or root == "/usr"


_CUDART = r"^(libcudart\.so\.[\d.]+|cudart64_\d+\.dll|libcudart\.[\d.]+\.dylib)$"
# bitcode that XLA and clang need; one file since CUDA 9.0
_LIBDEVICE = r"^libdevice\.(10|compute_\d+\.10)\.bc$"


def _find_tool(host: Host, folders: Tuple[str, ...], name: str) -> Fact[str]:
    """Return the first program of that name; unknown where the file cannot be executed."""
    suffix = ".exe" if host.system == "windows" else ""
    tried: List[str] = []
    problem: Optional[Unknown] = None
    for folder in folders:
        path = join_path(host, folder, name + suffix)
        status = host.status(path)
        if isinstance(status, Known) and status.value.kind != "file":
            problem = Unknown("failed", f"{path} is a {status.value.kind}, not a program", (path,))
        elif (
            isinstance(status, Known) and host.system != "windows" and "x" not in status.value.mode
        ):
            problem = Unknown("denied", f"{path} is not executable", (path,))
        elif isinstance(status, Known):
            return from_file(path, path)
        elif isinstance(status, Unknown):
            problem = status
        tried.append(path)
    return problem or Absent(tuple(tried))


def _find_newest(host: Host, folders: Tuple[str, ...], pattern: str) -> Fact[str]:
    """Return the real file of the newest matching name in the first folder that has one."""
    unread: Optional[Unknown] = None
    for folder in folders:
        names = host.list_folder(folder)
        if isinstance(names, Unknown):
            unread = names
        matching = [name for name in names.value or () if re.search(pattern, name)]
        for name in sorted(
            matching,
            key=lambda name: [int(part) for part in re.findall(r"\d+", name)],
            reverse=True,
        ):
            real = host.real_path(join_path(host, folder, name))
            if isinstance(real, Known):
                return real
    return unread or Absent(folders)


# CUDA_VERSION is in the first 16 KB of cuda.h, which has more than 800 KB, in CUDA 11.8, 12.9, 13.0
# and 13.5.
_HEADER_BYTES = 1 << 16
_HEADERS = (("cuda.h", "CUDA_VERSION"), ("cuda_runtime_api.h", "CUDART_VERSION"))


def parse_version_json(text: str) -> Optional[Mapping[str, str]]:
    """Parse version.json into component -> version; the key "cuda" is the toolkit. None without it.

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
    valid: Dict[str, str] = {}
    for name, entry in parse_object(text).items():
        version = str(dig(entry, "version"))
        if re.search(r"^\d+(\.\d+)+$", version):
            valid[name] = version
    return valid if "cuda" in valid else None


def parse_version_txt(text: str) -> Optional[str]:
    """Parse the toolkit version in version.txt; patch lines have the number of a patch.

    CUDA Version 10.0.130
    CUDA Patch Version 10.0.130.1
    """
    return find_group(r"^CUDA Version (\d+\.\d+(?:\.\d+)*)\s*$", text, re.MULTILINE) or None


def parse_cuda_define(text: str, macro: str) -> Optional[str]:
    """Parse a version that a header defines as an integer: 1000 per major, 10 per minor version.

    #define CUDA_VERSION 13000
    """
    match = re.search(rf"^#define\s+{macro}\s+(\d{{4,6}})\b", text, re.MULTILINE)
    return cuda_of_number(int(match.group(1))) if match else None


def parse_cudart_name(name: str) -> Optional[str]:
    """Parse the version in the real name of libcudart; None where it has only the major.

    libcudart.so.13.0.96 -> 13.0, libcudart.so.9.0 -> 9.0, libcudart.so.12 and libcudart.so.11.0
    (the soname in all of CUDA 11) -> None
    """
    match = re.search(r"^libcudart\.so\.(\d+)\.(\d+)(\.\d+)?$", name)
    if match is None or (match.group(1) == "11" and match.group(3) is None):
        return None
    return f"{match.group(1)}.{match.group(2)}"


def read_version_files(host: Host, folders: Tuple[str, ...]) -> Pair:
    """Return (toolkit version, nvcc build) from the first version.json or version.txt."""
    tried = []
    for folder in folders:
        for name, read in (
            ("version.json", _read_version_json),
            ("version.txt", _read_version_txt),
        ):
            path = join_path(host, folder, name)
            text = host.read_text(path)
            if not isinstance(text, Absent):
                if isinstance(text, Unknown):
                    return (text, text)
                return read(path, text.value)
            tried.append(path)
    return Absent(tuple(tried)), Absent(tuple(tried))


def _read_version_json(path: str, text: str) -> Pair:
    versions = parse_version_json(text)
    if versions is None:
        reason = Unknown("unparsable", f"{path} contains no CUDA version", (path,))
        return reason, reason
    toolkit = from_file(versions["cuda"], path, f"CUDA SDK {versions['cuda']}")
    nvcc = versions.get("cuda_nvcc")
    return toolkit, (from_file(nvcc, path, f"CUDA NVCC {nvcc}") if nvcc else Absent((path,)))


def _read_version_txt(path: str, text: str) -> Pair:
    version = parse_version_txt(text)
    if version is None:
        return Unknown("unparsable", f"{path} contains no CUDA version", (path,)), Absent((path,))
    return from_file(version, path, "; ".join(text.split("\n")).strip("; ")[:200]), Absent((path,))


def _read_header_version(host: Host, folders: Tuple[str, ...]) -> Fact[str]:
    """Return the version in cuda.h, or in cuda_runtime_api.h where cuda.h is not installed."""
    tried, unread = [], None
    for folder in folders:
        for name, macro in _HEADERS:
            path = join_path(host, folder, name)
            text = host.read_text(path, _HEADER_BYTES)
            version = None
            if isinstance(text, Known):
                version = parse_cuda_define(text.value, macro)
            if version is not None:
                return from_file(version, path, f"{macro} says {version}")
            tried.append(path)
            if not isinstance(text, Absent):
                if isinstance(text, Unknown):
                    unread = text
                else:
                    unread = Unknown("unparsable", f"{path}: no {macro}", (path,))
    return unread or Absent(tuple(tried))


def read_cudart_version(path: Fact[str]) -> Fact[str]:
    """Return the version in the real name of libcudart."""
    if not isinstance(path, Known):
        return path
    name = get_base_name(path.value)
    version = parse_cudart_name(name)
    if version is None:
        return Unknown("unparsable", f"the file name {name} has no minor version", (path.value,))
    return from_file(version, path.value)


_MAX_WRAPPERS = 4
_WRAPPER_BYTES = 4096


@dataclass
class NvccOnPath:
    """The nvcc that a shell starts, the real program behind it, and the root of its toolkit."""

    found: Fact[str]
    real: Fact[str]
    root: Fact[str]


def _find_nvcc_on_path(host: Host) -> NvccOnPath:
    found = host.find_program("nvcc")
    if not isinstance(found, Known):
        return NvccOnPath(found, found, found)
    real = _resolve_nvcc(host, found.value)
    return NvccOnPath(found, real, _find_root(real))


def _resolve_nvcc(host: Host, path: str) -> Fact[str]:
    """Follow links and wrapper scripts: Debian's /usr/bin/nvcc only starts the real one."""
    current = path
    for _ in range(_MAX_WRAPPERS):
        real = host.real_path(current)
        if not isinstance(real, Known):
            return real
        head = host.read_bytes(real.value, _WRAPPER_BYTES)
        script = ""
        if head.value is not None:
            script = head.value.decode("utf-8", "replace")
        target = None
        if script.startswith("#!"):
            target = parse_nvcc_wrapper(script, host.environment())
        if target is None:
            return from_file(real.value, path, f"-> {real.value}" if real.value != path else "")
        current = target
    return Unknown(
        "failed", f"{path} is a wrapper script that starts only other wrapper scripts", (path,)
    )


def parse_nvcc_wrapper(script: str, environment: Variables) -> Optional[str]:
    """Parse the nvcc that a wrapper script starts, with its variables expanded.

    Debian's /usr/bin/nvcc (nvidia-cuda-toolkit 11.8.89~11.8.0-5~deb12u1):
        #!/bin/sh

        exec /usr/lib/nvidia-cuda-toolkit/bin/nvcc "$@"
    """
    expanded = re.sub(
        r"\$\{?(\w+)\}?", lambda match: environment.get(match.group(1), match.group(0)), script
    )
    match = re.search(
        r"^\s*(?:exec\s+)?[\"']?(/[^\s\"']*/nvcc(?:\.real)?)[\"']?(?:\s|$)", expanded, re.MULTILINE
    )
    return match.group(1) if match else None


def _find_root(real: Fact[str]) -> Fact[str]:
    if not isinstance(real, Known):
        return real
    folder = get_parent(real.value)
    if not get_base_name(real.value).startswith("nvcc") or get_base_name(folder).lower() not in (
        "bin",
        "x64",
    ):
        # ccache links the names of compilers to itself
        return Unknown(
            "unparsable", f"{real.value} is not in the bin folder of a toolkit", (real.value,)
        )
    root = get_parent(folder if get_base_name(folder).lower() == "bin" else get_parent(folder))
    return from_file(root or "/", real.value)


def parse_nvcc_version(text: str) -> Optional[Tuple[str, str]]:
    """Parse (release, build) in the output of `nvcc --version`.

    The build is nvcc's own number, not the toolkit's patch level: 11.5.1 has V11.5.119.

        nvcc: NVIDIA (R) Cuda compiler driver
        Copyright (c) 2005-2025 NVIDIA Corporation
        Built on Wed_Aug_20_01:58:59_PM_PDT_2025
        Cuda compilation tools, release 13.0, V13.0.88
        Build cuda_13.0.r13.0/compiler.36424714_0
    """
    match = re.search(r"release (\d+\.\d+), V(\d+(?:\.\d+)+)", text)
    return (match.group(1), match.group(2)) if match else None


def read_nvcc_answer(answer: Fact[Completed], command: str) -> Pair:
    """Return (release, build) from a finished `nvcc --version`."""
    if not isinstance(answer, Known):
        return answer, answer
    versions = parse_nvcc_version(answer.value.stdout)
    if versions is None:
        reason = explain_missing_version("nvcc", answer.value, command)
        return reason, reason
    release, build = versions
    source = Source("command", command, f"release {release}, V{build}")
    return Known(release, source), Known(build, source)


def find_host_compiler(host: Host, nvcc: str) -> Fact[str]:
    """Return the host compiler of the real program `nvcc`.

    In the order of nvcc, as its -dryrun shows (11.8, 13.0): the last -ccbin, with NVCC_APPEND_FLAGS
    after NVCC_PREPEND_FLAGS; NVCC_CCBIN; a gcc beside nvcc, since nvcc puts its own folder ahead of
    PATH (Debian's package relies on it); gcc on PATH. No known nvcc.profile names a compiler.
    """
    environment = host.environment()
    for variable in ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS"):
        chosen = None
        if environment.get(variable):
            chosen = parse_ccbin(environment[variable])
        if chosen:
            return _find_named_compiler(host, chosen, variable)
    if environment.get("NVCC_CCBIN"):
        return _find_named_compiler(host, environment["NVCC_CCBIN"], "NVCC_CCBIN")
    if host.system == "windows":
        return host.find_program("cl")
    folder = get_parent(nvcc)
    return _find_compiler_in(host, folder) or host.find_program("gcc")


def parse_ccbin(flags: str) -> Optional[str]:
    """Parse the last host compiler in a string of nvcc options.

    -allow-unsupported-compiler -ccbin /usr/bin/g++-12
    --compiler-bindir=/opt/gcc-11/bin
    """
    import shlex  # most environments do not set these flags

    try:
        words = shlex.split(flags)
    except ValueError:  # an unclosed quote, which nvcc rejects
        words = flags.split()
    chosen: List[str] = []
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in ("-ccbin", "--compiler-bindir"):
            chosen += [value] if equals else words[index + 1 : index + 2]
    return chosen[-1] if chosen else None


def _find_named_compiler(host: Host, chosen: str, variable: str) -> Fact[str]:
    """Resolve an argument of -ccbin.

    The path of a compiler, the folder of a gcc, or a name on PATH.
    """
    if "/" not in chosen and "\\" not in chosen:
        path = host.find_program(chosen)
        if isinstance(path, Known):
            return path
        return Absent((f"{variable} names {chosen}, which is not on PATH",))
    status = host.status(chosen)
    if isinstance(status, Known) and status.value.kind == "folder":
        chosen = join_path(host, chosen, "gcc")
        status = host.status(chosen)
    if isinstance(status, Absent):
        return Absent((f"{variable} names {chosen}, which is not there",))
    if isinstance(status, Known):
        return Known(chosen, Source("env", variable))
    return status


def _find_compiler_in(host: Host, folder: str) -> Optional[Fact[str]]:
    path = join_path(host, folder, "gcc")
    status = host.status(path)
    if status.value and status.value.kind == "file":
        return from_file(path, path, "beside nvcc")
    return None


def collect_toolkits(host: Host) -> ToolkitFacts:
    """Read every toolkit from its files.

    Run nvcc only where the files have no version, and the one on PATH.
    """
    on_path = _find_nvcc_on_path(host)
    installs = [
        install
        for install in (_read_place(host, place) for place in _list_places(host, on_path))
        if install
    ]
    nvccs = [fact.value for fact in (on_path.real, *(install.nvcc_path for install in installs))]
    nvcc = next(filter(None, nvccs), None)
    compiler: Fact[str] = find_host_compiler(host, nvcc) if nvcc else Absent(("nvcc",))
    installs, compiler_version = _run_programs(host, on_path, installs, compiler)
    cuda_home = _read_cuda_home(host)
    return ToolkitFacts(
        installs=_make_installs_fact(installs),
        nvcc_on_path=on_path.real,
        root_on_path=on_path.root,
        usr_local_cuda=host.real_path("/usr/local/cuda"),
        cuda_home=cuda_home,
        cuda_home_root=(
            host.real_path(cuda_home.value) if isinstance(cuda_home, Known) else cuda_home
        ),
        roots_on_library_path=_find_installs_on_library_path(host, installs),
        ptxas_on_path=host.find_program("ptxas"),
        nvcc_host_compiler=compiler,
        nvcc_host_compiler_version=compiler_version,
    )


def _list_places(host: Host, on_path: NvccOnPath) -> List[Place]:
    """Return every place, the one on PATH first."""
    places = list(find_places(host))
    root = on_path.root.value
    if root is None:
        return places
    folder = get_parent(on_path.real.value or "")
    first = next((place for place in places if folder in place.programs), None)
    first = (
        first
        or (find_debian_place(host) if _is_debian(root) else None)
        or _make_place(host, root, "path")
    )
    return [first, *(place for place in places if place.root != first.root)]


def _read_place(host: Host, place: Place) -> Optional[ToolkitInstall]:
    """Read the files of a place; None where it holds no toolkit."""
    version_file, nvcc_build = read_version_files(host, place.version_files)
    install = ToolkitInstall(
        root=place.root,
        origin=place.origin,
        nvcc_path=_find_tool(host, place.programs, "nvcc"),
        nvcc_build=nvcc_build,
        version_file=version_file,
        header_version=_read_header_version(host, place.headers),
        cudart_path=_find_newest(host, place.libraries, _CUDART),
        ptxas_path=_find_tool(host, place.programs, "ptxas"),
        libdevice_path=_find_newest(host, place.libdevice, _LIBDEVICE),
    )
    parts = (
        install.nvcc_path,
        install.version_file,
        install.header_version,
        install.cudart_path,
        install.ptxas_path,
    )
    return install if any(part.value is not None for part in parts) else None


def _run_programs(
    host: Host, on_path: NvccOnPath, installs: List[ToolkitInstall], compiler: Fact[str]
) -> Tuple[List[ToolkitInstall], Fact[str]]:
    """Run the nvccs and the host compiler at once.

    Return the installs with versions, and the compiler's version.
    """
    programs = {install.root: _find_nvcc_to_run(install, on_path) for install in installs}
    commands: Dict[str, Tuple[str, ...]] = {
        root: (path, "--version") for root, path in programs.items() if path
    }
    if isinstance(compiler, Known):
        commands[""] = make_version_command(compiler.value)
    answers = run_concurrently(host, commands)
    version = compiler
    if isinstance(compiler, Known):
        version = read_version_answer(answers[""], " ".join(commands[""]))
    finished = []
    for install in installs:
        if install.root in commands:
            release, build = read_nvcc_answer(
                answers[install.root], " ".join(commands[install.root])
            )
        else:
            release, build = _read_nvcc_from_files(install)
        known: ToolkitInstall = replace(install, nvcc_release=release, nvcc_build=build)
        finished.append(replace(known, version=_choose_version(known)))
    return finished, version


def _find_nvcc_to_run(install: ToolkitInstall, on_path: NvccOnPath) -> Optional[str]:
    """Return the nvcc to run for an install, if any.

    The one on PATH always, as the user starts it, because it compiles. Of the others only those
    whose files have no version: a start costs as much as reading all files, and on a network mount
    far more.
    """
    if on_path.root.value is not None and install.nvcc_path.value == on_path.real.value:
        return on_path.found.value
    versions = (install.version_file, install.header_version)
    if any(version.value is not None for version in versions):
        return None
    return install.nvcc_path.value


def _read_nvcc_from_files(install: ToolkitInstall) -> Pair:
    build = install.nvcc_build
    if isinstance(build, Known):  # version.json lists nvcc as a component
        return Known(major_minor(build.value), build.source), build
    if not isinstance(install.nvcc_path, Known):
        return install.nvcc_path, install.nvcc_path
    reason = Unknown(
        "failed",
        "nvcc was not run because the toolkit's files have its version",
        (install.nvcc_path.value,),
    )
    return reason, reason


def _choose_version(install: ToolkitInstall) -> Fact[str]:
    """Choose the best reading.

    nvcc itself, then the toolkit's files, then the name of a library.
    """
    cudart = read_cudart_version(install.cudart_path)
    found = choose_reading(
        install.nvcc_release, install.version_file, install.header_version, cudart
    )
    if isinstance(found, Known):
        return Known(major_minor(found.value), found.source)
    return found if isinstance(found, Unknown) else Absent((install.root,))


def _make_installs_fact(installs: List[ToolkitInstall]) -> Fact[Tuple[ToolkitInstall, ...]]:
    if not installs:
        places = ("PATH", "/usr/local", "/opt", "Debian's layout", "conda", "wheels")
        return Absent((*places, *ROOT_VARIABLES, "LD_LIBRARY_PATH"))
    return from_file(tuple(installs), ", ".join(install.root for install in installs))


def _read_cuda_home(host: Host) -> Fact[str]:
    for variable in _CUDA_HOME:
        value = host.environment().get(variable)
        if value:
            return Known(value, Source("env", variable, value))
    return Absent(_CUDA_HOME)


def _find_installs_on_library_path(
    host: Host, installs: List[ToolkitInstall]
) -> Fact[Tuple[str, ...]]:
    known = {install.root for install in installs}
    real = resolve_existing(host, list_roots_on_library_path(host))
    roots = tuple(dict.fromkeys(root for root in real if root in known))
    if roots:
        return Known(roots, Source("env", "LD_LIBRARY_PATH"))
    return Absent(("LD_LIBRARY_PATH",))
