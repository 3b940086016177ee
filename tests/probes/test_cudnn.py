"""cuDNN, TensorRT and NCCL: versions in real headers, copies on fake machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envcheck.model import Absent, LibraryInstall, Unknown
from envcheck.probes.cuda_libraries import (
    CUDNN,
    NCCL,
    TENSORRT,
    collect_libraries,
    parse_cuda_major,
    parse_library_name,
    parse_version_macros,
)
from envcheck.probes.package_managers import parse_dpkg_status
from tests.hosts.recorded_host import RecordedHost

DATA = Path(__file__).parent / "data" / "cudnn"
SYSTEM = "/usr/lib/x86_64-linux-gnu"
HEADERS = {  # the version of a wheel is longer than that in its header
    "cudnn_version_8.5.0.96_cu11.h": "8.5.0",
    "cudnn_version_8.9.7.29_cu12.h": "8.9.7",
    "cudnn_version_9.1.0.70_cu12.h": "9.1.0",
    "cudnn_version_9.27.0.42_cu13.h": "9.27.0",
}
DPKG = """Package: bash
Status: install ok installed
Version: 5.2

Package: libcudnn8
Status: install ok installed
Version: 8.9.2.26-1+cuda12.1

Package: libcudnn8-dev
Status: install ok installed
Version: 8.9.2.26-1+cuda12.1

Package: libcudnn7
Status: deinstall ok config-files
Version: 7.6.5.32-1+cuda10.2

Package: libnccl2
Status: install ok installed
Version: 2.18.3-1+cuda12.2
"""


def header(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def collect(files: dict[str, Any], **more: Any) -> tuple[list[LibraryInstall], ...]:
    recording = {"system_facts": {"machine": "x86_64"}, "files": files, **more}
    return tuple(
        list(fact.value) if fact.value is not None else []
        for fact in collect_libraries(RecordedHost(recording))
    )


def linked(folder: str, soname: str, real: str) -> dict[str, Any]:
    return {f"{folder}/{soname}": {"link": real}, f"{folder}/{real}": "ELF"}


@pytest.mark.parametrize("name", HEADERS)
def test_real_headers(name: str) -> None:
    assert parse_version_macros(header(name), CUDNN.macros) == HEADERS[name]


def test_all_sample_headers_are_tested() -> None:
    assert {path.name for path in DATA.glob("*.h")} == set(HEADERS)


def test_an_alias_of_tensorrt() -> None:
    text = "#define TRT_MAJOR_ENTERPRISE 10\n#define TRT_MINOR_ENTERPRISE 16\n#define TRT_PATCH_ENTERPRISE 1\n"
    aliases = "#define NV_TENSORRT_MAJOR TRT_MAJOR_ENTERPRISE //!< TensorRT major version.\n"
    assert parse_version_macros(text + aliases, TENSORRT.macros) == "10.16.1"


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("libcudnn.so.8.9.2", "8.9.2"),
        ("libcudnn.so.9", "9"),
        ("libcudnn.so", ""),
        ("cudnn64_8.dll", "8"),
        ("libcudnn_ops.so.9", ""),
    ],
)
def test_library_names(name: str, version: str) -> None:
    assert parse_library_name(name, CUDNN) == version


def test_names_without_a_version() -> None:
    assert parse_library_name("nccl.dll", NCCL) == parse_library_name("nvinfer.dll", TENSORRT) == ""


def test_parse_dpkg_status_returns_installed_packages() -> None:
    found = parse_dpkg_status(DPKG, r"libcudnn\S*|cudnn9\S*")
    assert found == {"libcudnn8": "8.9.2.26-1+cuda12.1", "libcudnn8-dev": "8.9.2.26-1+cuda12.1"}


@pytest.mark.parametrize(
    ("root", "major"),
    [
        ("/usr/local/cuda-11.8", "11"),
        ("/opt/nvidia/hpc_sdk/Linux_x86_64/24.5/cuda/12.4", "12"),
        (r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v12.6", "12"),
        ("/usr/local/cuda", None),
        ("/opt/cudnn", None),
    ],
)
def test_cuda_major_of_a_path(root: str, major: str | None) -> None:
    fact = parse_cuda_major(root)
    assert (fact.value if fact else None) == major


def test_no_libraries() -> None:
    facts = collect_libraries(RecordedHost({"files": {"/usr/bin/x": ""}}))
    assert all(isinstance(fact, Absent) for fact in facts)


def test_a_copy_in_a_toolkit() -> None:
    root = "/usr/local/cuda-11.8"
    files = {
        "/usr/local/cuda": {"link": "cuda-11.8"},
        f"{root}/include/cudnn_version.h": header("cudnn_version_8.5.0.96_cu11.h"),
        f"{root}/include/cudnn.h": '#include "cudnn_version.h"\n',
        f"{root}/lib64/libcudnn.so": {"link": "libcudnn.so.8"},
        **linked(f"{root}/lib64", "libcudnn.so.8", "libcudnn.so.8.5.0"),
    }
    environment = {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64", "CUDNN_PATH": "/usr/local/cuda"}
    cache = {"libcudnn.so.8": ["/usr/local/cuda/lib64/libcudnn.so.8"]}
    ((install,), _, _) = collect(files, environment=environment, loader_cache=cache)
    assert (install.root, install.origin) == (root, "toolkit")
    assert (install.header_version.value, install.library_version.value) == ("8.5.0", "8.5.0")
    assert install.library_path.value == f"{root}/lib64/libcudnn.so.8.5.0"
    assert install.cuda_major.value == "11"
    assert isinstance(install.package_version, Absent)


def test_an_old_header_without_a_library() -> None:
    old = "#define CUDNN_MAJOR 7\n#define CUDNN_MINOR 6\n#define CUDNN_PATCHLEVEL 5\n"
    ((install,), _, _) = collect({"/usr/include/cudnn.h": old})
    assert (install.origin, install.header_version.value) == ("system", "7.6.5")
    assert install.header_path.value == "/usr/include/cudnn.h"
    assert isinstance(install.library_path, Absent)
    assert isinstance(install.library_version, Absent)
    # no dpkg here: another package manager might know
    assert isinstance(install.package_version, Unknown)


def test_packages_of_the_system() -> None:
    files = {
        "/usr/include/x86_64-linux-gnu/cudnn_version_v8.h": header("cudnn_version_8.9.7.29_cu12.h"),
        **linked(SYSTEM, "libcudnn.so.8", "libcudnn.so.8.9.2"),
        **linked(SYSTEM, "libnccl.so.2", "libnccl.so.2.18.3"),
        "/usr/include/nccl.h": "#define NCCL_MAJOR 2\n#define NCCL_MINOR 18\n#define NCCL_PATCH 3\n",
        "/lib": {"link": "usr/lib"},
        "/var/lib/dpkg/status": DPKG,
    }
    cache = {
        "libcudnn.so.8": ["/lib/x86_64-linux-gnu/libcudnn.so.8"],
        "libc.so.6": ["/lib/x86_64-linux-gnu/libc.so.6"],
    }
    ((cudnn,), tensorrt, (nccl,)) = collect(files, loader_cache=cache)
    assert (cudnn.root, cudnn.origin) == ("/usr", "system")
    assert [
        fact.value for fact in (cudnn.header_version, cudnn.library_version, cudnn.package_version)
    ] == [
        "8.9.7",
        "8.9.2",
        "8.9.2.26-1+cuda12.1",
    ]
    assert cudnn.cuda_major.value == "12"
    assert not tensorrt
    assert (nccl.header_version.value, nccl.library_version.value, nccl.cuda_major.value) == (
        "2.18.3",
        "2.18.3",
        "12",
    )


def test_two_majors_side_by_side() -> None:
    files = {
        "/usr/include/x86_64-linux-gnu/cudnn_version_v8.h": header("cudnn_version_8.9.7.29_cu12.h"),
        "/usr/include/x86_64-linux-gnu/cudnn_version_v9.h": header("cudnn_version_9.1.0.70_cu12.h"),
        f"{SYSTEM}/libcudnn.so": {"link": "libcudnn.so.9"},
        **linked(SYSTEM, "libcudnn.so.8", "libcudnn.so.8.9.7"),
        **linked(SYSTEM, "libcudnn.so.9", "libcudnn.so.9.1.0"),
        "/var/lib/dpkg/status": "Package: libcudnn9-cuda-12\nStatus: install ok installed\nVersion: 9.1.0.70-1\n",
    }
    (installs, _, _) = collect(files)
    assert [(item.header_version.value, item.library_version.value) for item in installs] == [
        ("9.1.0", "9.1.0"),
        ("8.9.7", "8.9.7"),
    ]
    assert [item.cuda_major.value for item in installs] == ["12", None]
    assert isinstance(installs[1].package_version, Absent)


def test_a_declined_download_leaves_dangling_links() -> None:
    """Debian's nvidia-cudnn contains the links and downloads their targets."""
    files = {
        f"{SYSTEM}/libcudnn.so": {"link": "libcudnn.so.8"},
        f"{SYSTEM}/libcudnn.so.8": {"link": "libcudnn.so.8.9.2"},
        "/var/lib/dpkg/status": "Package: nvidia-cudnn\nStatus: install ok installed\nVersion: 8.9.2.26~cuda12+1\n",
    }
    ((install,), _, _) = collect(files)
    assert isinstance(install.library_path, Absent)
    assert "leads nowhere" in install.library_path.tried[0]
    assert install.package_version.value == "8.9.2.26~cuda12+1"
    assert install.cuda_major.value == "12"


def test_wheels() -> None:
    site = "/venv/lib/python3.11/site-packages"
    files = {
        f"{site}/nvidia/cudnn/lib/libcudnn.so.9": "ELF",
        f"{site}/nvidia/cudnn/include/cudnn_version.h": header("cudnn_version_9.1.0.70_cu12.h"),
        f"{site}/nvidia_cudnn_cu12-9.1.0.70.dist-info/METADATA": "",
        f"{site}/nvidia/nccl/lib/libnccl.so.2": "ELF",
        f"{site}/tensorrt_libs/libnvinfer.so.8": "ELF",
        f"{site}/tensorrt_libs-8.6.1.dist-info/METADATA": "",
        f"{site}/tensorrt-8.6.1.dist-info/METADATA": "",
    }
    ((cudnn,), (tensorrt,), (nccl,)) = collect(files, environment={"VIRTUAL_ENV": "/venv"})
    assert (cudnn.root, cudnn.origin) == (f"{site}/nvidia/cudnn", "wheels")
    assert [
        fact.value for fact in (cudnn.header_version, cudnn.library_version, cudnn.package_version)
    ] == [
        "9.1.0",
        "9",
        "9.1.0.70",
    ]
    assert cudnn.cuda_major.value == "12"
    assert (tensorrt.library_version.value, tensorrt.package_version.value) == ("8", "8.6.1")
    assert isinstance(tensorrt.cuda_major, Absent)
    assert isinstance(nccl.package_version, Absent)


def test_two_wheels_in_one_folder_conflict() -> None:
    site = "/venv/lib/python3.11/site-packages"
    files = {
        f"{site}/nvidia/cudnn/lib/libcudnn.so.9": "ELF",
        f"{site}/nvidia_cudnn_cu12-9.1.0.70.dist-info/METADATA": "",
        f"{site}/nvidia_cudnn_cu11-8.9.5.29.dist-info/METADATA": "",
    }
    ((install,), _, _) = collect(files, environment={"VIRTUAL_ENV": "/venv"})
    assert isinstance(install.package_version, Unknown)
    assert install.package_version.why == "conflict"


@pytest.mark.parametrize(
    ("record", "content", "major"),
    [
        ("cudnn-8.9.2.26-cuda11_0.json", "{}", "11"),
        (
            "cudnn-8.9.7.29-hbc23b4c_3.json",
            '{"depends": ["cuda-version >=12,<13.0a0", "libzlib"]}',
            "12",
        ),
        ("cudnn-8.4.1.50-hed8a83a_0.json", '{"depends": ["cudatoolkit 11.*"]}', "11"),
        ("cudnn-9.1.0.70-0.json", "{}", None),
    ],
)
def test_conda(record: str, content: str, major: str | None) -> None:
    files = {
        **linked("/conda/lib", "libcudnn.so.8", "libcudnn.so.8.9.2"),
        "/conda/include/cudnn_version.h": header("cudnn_version_8.9.7.29_cu12.h"),
        f"/conda/conda-meta/{record}": content,
    }
    ((install,), _, _) = collect(files, environment={"CONDA_PREFIX": "/conda"})
    assert (install.origin, install.package_version.value) == ("conda", record.split("-")[1])
    assert install.cuda_major.value == major


def test_conda_without_a_record() -> None:
    files = linked("/conda/lib", "libcudnn.so.8", "libcudnn.so.8.9.2")
    ((install,), _, _) = collect(files, environment={"CONDA_PREFIX": "/conda"})
    assert isinstance(install.package_version, Absent)


def test_places_of_the_users_own() -> None:
    files = {
        **linked("/sw/cudnn/lib", "libcudnn.so.8", "libcudnn.so.8.2.4"),
        **linked("/srv/cuda/libs", "libcudnn.so.7", "libcudnn.so.7.6.5"),
        **linked("/etc-conf/nccl/lib", "libnccl.so.2", "libnccl.so.2.8.4"),
        "/sw/cudnn/include/cudnn_version.h": "truncated",
        "/sw/trt/lib/libnvinfer.so": "ELF",
    }
    environment = {
        "CUDNN_PATH": "/sw/cudnn",
        "TENSORRT_ROOT": "/sw/trt",
        "LD_LIBRARY_PATH": "/srv/cuda/libs:/sw/cudnn/lib",
    }
    cache = {"libnccl.so.2": ["/etc-conf/nccl/lib/libnccl.so.2"]}
    ((first, second), (tensorrt,), (nccl,)) = collect(
        files, environment=environment, loader_cache=cache
    )
    assert (first.root, first.origin, first.library_version.value) == (
        "/sw/cudnn",
        "environment",
        "8.2.4",
    )
    assert isinstance(first.header_version, Unknown)
    assert first.header_version.why == "unparsable"
    assert (second.root, second.library_version.value) == ("/srv/cuda/libs", "7.6.5")
    assert isinstance(tensorrt.library_version, Unknown)
    assert (nccl.root, nccl.origin) == ("/etc-conf/nccl", "system")


@pytest.mark.parametrize("path", ["/usr/include/cudnn_version.h", "/var/lib/dpkg/status"])
def test_unreadable_files_are_unknown(path: str) -> None:
    files = {**linked(SYSTEM, "libcudnn.so.8", "libcudnn.so.8.9.2"), path: {"error": "denied"}}
    ((install,), _, _) = collect(files)
    fact = install.header_version if "include" in path else install.package_version
    assert isinstance(fact, Unknown)
    assert fact.why == "denied"


def test_a_package_of_another_name_is_not_found() -> None:
    files = {
        **linked(SYSTEM, "libcudnn.so.8", "libcudnn.so.8.9.2"),
        "/var/lib/dpkg/status": "Package: bash\n",
    }
    ((install,), _, _) = collect(files)
    assert isinstance(install.package_version, Absent)
