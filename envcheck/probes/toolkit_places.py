"""List the places where a CUDA Toolkit may be installed."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model import Known, dataclass


def join_path(host: Host, *parts: str) -> str:
    """Join path parts with the inspected system's separator."""
    separator = "\\" if host.system == "windows" else "/"
    first = parts[0].rstrip("/\\") if len(parts) > 1 else parts[0]
    return separator.join((first, *parts[1:]))


def get_parent(path: str) -> str:
    """Return the folder a path lies in, for either separator."""
    return path[: max(path.rfind("/"), path.rfind("\\"), 0)]


def get_base_name(path: str) -> str:
    """Return the last part of a path, for either separator."""
    return path[max(path.rfind("/"), path.rfind("\\")) + 1 :]


def list_folders_in(host: Host, variable: str) -> Tuple[str, ...]:
    """Return the distinct absolute folders a PATH-like variable names, in its order."""
    separator = ";" if host.system == "windows" else ":"
    entries = dict.fromkeys(host.environment().get(variable, "").split(separator))
    return tuple(entry for entry in entries if entry[:1] in ("/", "\\") or entry[1:2] == ":")


def get_multiarch_triple(host: Host) -> str:
    """Return Debian's name for this architecture's library folder: x86_64-linux-gnu."""
    return f"{host.system_facts().get('machine', 'x86_64')}-linux-gnu"


def list_site_packages(host: Host) -> Tuple[str, ...]:
    """Return the site-packages folders of the active venv and conda environment that exist.

    LD_LIBRARY_PATH may name wheels of an environment that is not active: .../site-packages/nvidia/cudnn/lib.
    """
    folders: List[str] = []
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = host.environment().get(variable)
        if prefix:
            folders += _below(host, prefix)
    for folder in list_folders_in(host, "LD_LIBRARY_PATH"):
        match = re.search(r"^(.+/(?:site|dist)-packages)/(?:nvidia|tensorrt_libs)\b", folder)
        if match:
            folders += _existing(host, [match.group(1)])
    return tuple(dict.fromkeys(folders))


def _below(host: Host, prefix: str) -> List[str]:
    if host.system == "windows":
        candidates = [join_path(host, prefix, "Lib", "site-packages")]
    else:
        names = host.list_folder(join_path(host, prefix, "lib"))
        pythons = [name for name in names.value if name.startswith("python")] if isinstance(names, Known) else []
        candidates = [join_path(host, prefix, "lib", name, "site-packages") for name in pythons]
    return _existing(host, candidates)


def _existing(host: Host, candidates: List[str]) -> List[str]:
    return [real.value for real in map(host.real_path, candidates) if isinstance(real, Known)]


# CUDA_HOME and CUDA_PATH are NVIDIA's and the frameworks'; the others are set by module systems.
ROOT_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "EBROOTCUDA", "CRAY_CUDATOOLKIT_DIR")
_SYSTEM_ROOTS = ("", "/", "/usr", "/usr/local")  # their lib folders are on many a LD_LIBRARY_PATH
_DEBIAN_ROOTS = ("/usr/lib/nvidia-cuda-toolkit", "/usr/lib/cuda")


@dataclass(frozen=True)
class Place:
    """A folder that may hold a toolkit, and the folders in which its parts would lie."""

    root: str  # real path
    origin: str  # as ToolkitInstall.origin
    programs: Tuple[str, ...]
    headers: Tuple[str, ...]
    libraries: Tuple[str, ...]
    libdevice: Tuple[str, ...]
    version_files: Tuple[str, ...]  # folders of version.json and version.txt


def find_places(host: Host) -> Tuple[Place, ...]:
    """Return each existing place once, by its real path; what holds no toolkit is told apart later."""
    found: Dict[str, Place] = {}
    debian = find_debian_place(host)
    for root, origin in _candidates(host):
        real = host.real_path(root)
        if isinstance(real, Known) and real.value not in found and not (debian and _is_debian(real.value)):
            found[real.value] = _place(host, real.value, origin)
    places = list(found.values())
    if debian is not None:
        places.append(debian)
    return (*places, *_wheel_places(host))


def make_place_at(host: Host, root: str, origin: str) -> Place:
    """Return the place of a toolkit whose real root is known: Debian's own layout or the usual one."""
    debian = find_debian_place(host) if _is_debian(root) else None
    return debian or _place(host, root, origin)


def find_debian_place(host: Host) -> Optional[Place]:
    """Return the layout of Debian's nvidia-cuda-toolkit, which is spread over /usr."""
    roots = [root for root in _DEBIAN_ROOTS if host.system == "linux" and isinstance(host.real_path(root), Known)]
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
    """Return the folders whose lib64, lib or targets/*/lib folder LD_LIBRARY_PATH names, as written."""
    roots = []
    for folder in list_folders_in(host, "LD_LIBRARY_PATH"):
        match = re.search(r"^(.*?)/+(?:targets/[^/]+/lib|extras/CUPTI/lib64|lib(?:64)?)(?:/stubs)?/*$", folder)
        if match and match.group(1) not in _SYSTEM_ROOTS:
            roots.append(match.group(1))
    # asked first whether it is there: to resolve the links of ten thousand stale entries would take a second
    return tuple(root for root in dict.fromkeys(roots) if isinstance(host.status(root), Known))


def _candidates(host: Host) -> Iterator[Tuple[str, str]]:
    if host.system == "windows":
        yield from _children(host, r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA", "v", "program-files")
    else:
        yield from _children(host, "/usr/local", "cuda", "usr-local")
        yield from _children(host, "/opt", "cuda", "opt")
        yield from _hpc_sdk(host)
    environment = host.environment()
    if environment.get("CONDA_PREFIX"):
        conda = environment["CONDA_PREFIX"]
        yield (join_path(host, conda, "Library") if host.system == "windows" else conda), "conda"
    for variable in ROOT_VARIABLES:
        if environment.get(variable):
            yield environment[variable], "environment"
    for root in list_roots_on_library_path(host):
        if "-packages/" not in root:  # a wheel's folder: found below
            yield root, "environment"


def _children(host: Host, parent: str, prefix: str, origin: str) -> Iterator[Tuple[str, str]]:
    names = host.list_folder(parent)
    for name in names.value if isinstance(names, Known) else ():
        if name.startswith(prefix):
            yield join_path(host, parent, name), origin


def _hpc_sdk(host: Host) -> Iterator[Tuple[str, str]]:
    # /opt/nvidia/hpc_sdk/Linux_x86_64/24.5/cuda/12.4; the math libraries lie apart from it
    for system, _ in _children(host, "/opt/nvidia/hpc_sdk", "Linux_", "hpc-sdk"):
        for release, _ in _children(host, system, "", "hpc-sdk"):
            for root, origin in _children(host, release + "/cuda", "", "hpc-sdk"):
                if re.search(r"/\d+\.\d+$", root):
                    yield root, origin


def _wheel_places(host: Host) -> Iterator[Place]:
    for folder in list_site_packages(host):
        names = host.list_folder(join_path(host, folder, "nvidia"))
        present = names.value if isinstance(names, Known) else ()
        for name in present:
            if re.search(r"^cu\d+$", name):  # from CUDA 13 on all wheels fill one folder
                yield _place(host, join_path(host, folder, "nvidia", name), "wheels")
        if "cuda_runtime" in present or "cuda_nvcc" in present:
            yield _split_wheels(host, join_path(host, folder, "nvidia"))


def _split_wheels(host: Host, root: str) -> Place:
    # CUDA 11 and 12: one folder a wheel, and no nvcc in any of them
    runtime, nvcc = join_path(host, root, "cuda_runtime"), join_path(host, root, "cuda_nvcc")
    return Place(
        root=root,
        origin="wheels",
        programs=(join_path(host, nvcc, "bin"),),
        headers=(join_path(host, runtime, "include"),),
        libraries=(join_path(host, runtime, "bin" if host.system == "windows" else "lib"),),
        libdevice=(join_path(host, nvcc, "nvvm", "libdevice"),),
        version_files=(),
    )


def _place(host: Host, root: str, origin: str) -> Place:
    targets = _targets(host, root) if origin in ("conda", "wheels") else []
    libraries = ("bin", "bin\\x64", "bin\\x86_64") if host.system == "windows" else ("lib64", "lib")
    programs = ("bin", "bin\\x64") if host.system == "windows" else ("bin",)
    return Place(
        root=root,
        origin=origin,
        programs=tuple(join_path(host, root, name) for name in programs),
        headers=(join_path(host, root, "include"), *(join_path(host, target, "include") for target in targets)),
        libraries=(
            *(join_path(host, root, name) for name in libraries),
            *(join_path(host, path, "lib") for path in targets),
        ),
        # conda's cudatoolkit (up to 11.8) puts libdevice.10.bc beside the libraries
        libdevice=(
            join_path(host, root, "nvvm", "libdevice"),
            *((join_path(host, root, "lib"),) if origin == "conda" else ()),
        ),
        version_files=(root,),
    )


def _targets(host: Host, root: str) -> List[str]:
    return [path for path, _ in _children(host, join_path(host, root, "targets"), "", "")]


def _is_debian(root: str) -> bool:
    return root in _DEBIAN_ROOTS or root == "/usr"
