"""Toolkits on fake machines: their places, which one is chosen, and disagreements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envcheck.model import Absent, Known, ToolkitFacts, ToolkitInstall, Unknown
from envcheck.probes.toolkit import collect_toolkits
from tests.hosts.recorded_host import RecordedHost, UnrecordedError

DATA = Path(__file__).parent / "data" / "nvcc"
GCC = {"argv": ["/usr/bin/gcc", "-dumpfullversion", "-dumpversion"], "stdout": "12.2.0\n"}


def text(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def version_of(nvcc: str, release: str) -> dict[str, Any]:
    return {"argv": [nvcc, "--version"], "stdout": text(f"nvcc_{release}.txt")}


def toolkit_files(root: str, define: int | None = None, cudart: str = "") -> dict[str, Any]:
    files: dict[str, Any] = {f"{root}/bin/nvcc": "ELF", f"{root}/bin/ptxas": "ELF"}
    files[f"{root}/nvvm/libdevice/libdevice.10.bc"] = "BC"
    if define:
        files[f"{root}/include/cuda.h"] = f"/* */\n#define CUDA_VERSION {define}\n"
    if cudart:
        files[f"{root}/lib64/{cudart}"] = "ELF"
    return files


def collect(files: dict[str, Any], *commands: dict[str, Any], **environment: str) -> ToolkitFacts:
    recording = {
        "environment": {"PATH": "/usr/local/bin:/usr/bin", **environment},
        "system_facts": {"machine": "x86_64"},
        "files": {"/usr/bin/gcc": "ELF", **files},
        "commands": [GCC, *commands],
    }
    return collect_toolkits(RecordedHost(recording))


def installs(facts: ToolkitFacts) -> tuple[ToolkitInstall, ...]:
    assert isinstance(facts.installs, Known), facts.installs
    return facts.installs.value


def test_no_toolkit() -> None:
    facts = collect({})
    assert isinstance(facts.installs, Absent)
    assert "CUDA_HOME" in facts.installs.tried
    assert isinstance(facts.nvcc_on_path, Absent)
    assert isinstance(facts.nvcc_host_compiler, Absent)
    assert isinstance(facts.nvcc_host_compiler_version, Absent)
    assert isinstance(facts.cuda_home, Absent)


def test_one_toolkit_behind_a_link_and_a_wrapper() -> None:
    root = "/usr/local/cuda-13.0"
    files = {
        **toolkit_files(root, 13000, "libcudart.so.13"),
        "/usr/local/cuda": {"link": root},
        "/usr/local/bin/nvcc": f'#!/bin/sh\nexec {root}/bin/nvcc "$@"\n',
    }
    facts = collect(files, version_of("/usr/local/bin/nvcc", "13.0"), CUDA_HOME="/usr/local/cuda")
    (install,) = installs(facts)
    assert (install.root, install.origin) == (root, "usr-local")
    assert [fact.value for fact in (install.version, install.nvcc_release, install.nvcc_build)] == [
        "13.0",
        "13.0",
        "13.0.88",
    ]
    assert install.header_version.value == "13.0"
    assert isinstance(install.version_file, Absent)
    assert install.libdevice_path.value == f"{root}/nvvm/libdevice/libdevice.10.bc"
    assert facts.nvcc_on_path.value == f"{root}/bin/nvcc"
    assert (
        facts.root_on_path.value == facts.usr_local_cuda.value == facts.cuda_home_root.value == root
    )
    assert facts.cuda_home.value == "/usr/local/cuda"
    assert facts.nvcc_host_compiler.value == "/usr/bin/gcc"
    assert facts.nvcc_host_compiler_version.value == "12.2.0"


def test_debian_and_a_second_toolkit_disagree() -> None:
    """A common case: nvcc on PATH is Debian's 9.1, /usr/local/cuda is 9.0."""
    debian = "/usr/lib/nvidia-cuda-toolkit"
    files = {
        "/usr/bin/nvcc": text("debian_nvcc"),
        f"{debian}/bin/nvcc": "ELF",
        f"{debian}/bin/gcc": text("debian_gcc"),
        f"{debian}/libdevice/libdevice.10.bc": "BC",
        "/usr/lib/cuda/version.txt": "CUDA Version 9.1.85\n",
        "/usr/bin/ptxas": "ELF",
        "/usr/include/cuda.h": "#define CUDA_VERSION 9010\n",
        "/usr/lib/x86_64-linux-gnu/libcudart.so.9.1": {"link": "libcudart.so.9.1.85"},
        "/usr/lib/x86_64-linux-gnu/libcudart.so.9.1.85": "ELF",
        **toolkit_files("/usr/local/cuda-9.0", 9000, "libcudart.so.9.0"),
        "/usr/local/cuda-9.0/version.txt": "CUDA Version 9.0.176\nCUDA Patch Version 9.0.176.1\n",
        "/usr/local/cuda": {"link": "cuda-9.0"},
    }
    wrapped = {
        "argv": [f"{debian}/bin/gcc", "-dumpfullversion", "-dumpversion"],
        "stdout": "6.5.0\n",
    }
    library_path = "/usr/local/cuda/lib64:/usr/lib:/usr/local/lib:/gone/lib64"
    facts = collect(
        files,
        version_of("/usr/bin/nvcc", "9.1"),
        wrapped,
        LD_LIBRARY_PATH=library_path,
        CUDA_HOME="/usr",
    )
    first, second = installs(facts)
    assert (first.root, first.origin, first.version.value) == (debian, "debian", "9.1")
    assert first.version_file.value == "9.1.85"
    assert first.header_version.value == "9.1"
    assert first.cudart_path.value == "/usr/lib/x86_64-linux-gnu/libcudart.so.9.1.85"
    assert first.ptxas_path.value == "/usr/bin/ptxas"
    assert (second.root, second.version.value, second.version_file.value) == (
        "/usr/local/cuda-9.0",
        "9.0",
        "9.0.176",
    )
    assert isinstance(second.nvcc_release, Unknown)  # not on PATH: its files tell, so it is not run
    assert facts.roots_on_library_path.value == ("/usr/local/cuda-9.0",)
    assert facts.nvcc_host_compiler.value == f"{debian}/bin/gcc"
    assert facts.nvcc_host_compiler_version.value == "6.5.0"


def test_version_json_has_the_version_of_an_nvcc_that_is_not_run() -> None:
    files = {
        **toolkit_files("/usr/local/cuda-11.8"),
        "/usr/local/cuda-11.8/version.json": text("version_11.8.json"),
    }
    (install,) = installs(collect(files))
    assert install.version_file.value == "11.8.20220929"
    assert (install.nvcc_release.value, install.nvcc_build.value) == ("11.8", "11.8.89")
    assert install.version.value == "11.8"


def test_an_nvcc_off_path_runs_without_other_readings() -> None:
    nvcc = "/opt/cuda/bin/nvcc"
    (install,) = installs(collect({nvcc: "ELF"}, version_of(nvcc, "12.4")))
    assert (install.origin, install.version.value) == ("opt", "12.4")


def test_a_toolkit_on_path_outside_every_known_place() -> None:
    nvcc = "/sw/cuda/12.2/bin/nvcc"
    facts = collect({nvcc: "ELF"}, version_of(nvcc, "12.2"), PATH="/sw/cuda/12.2/bin:/usr/bin")
    (install,) = installs(facts)
    assert (install.root, install.origin, install.version.value) == (
        "/sw/cuda/12.2",
        "path",
        "12.2",
    )


def test_module_variables_and_the_hpc_sdk() -> None:
    hpc = "/opt/nvidia/hpc_sdk/Linux_x86_64/24.5/cuda/12.4"
    files = {
        **toolkit_files(hpc, 12040, "libcudart.so.12.4.127"),
        "/opt/nvidia/hpc_sdk/Linux_x86_64/24.5/cuda/bin/nvcc": "ELF",
        **toolkit_files("/eb/CUDA/12.1.1", 12010),
    }
    found = installs(collect(files, EBROOTCUDA="/eb/CUDA/12.1.1", CUDA_ROOT="/nowhere"))
    assert [(install.root, install.origin) for install in found] == [
        (hpc, "hpc-sdk"),
        ("/eb/CUDA/12.1.1", "environment"),
    ]


def test_conda_and_wheels() -> None:
    site = "/venv/lib/python3.11/site-packages"
    other = "/old/lib/python3.9/site-packages"
    files = {
        "/conda/bin/ptxas": "ELF",
        "/conda/targets/x86_64-linux/include/cuda_runtime_api.h": "#define CUDART_VERSION  12040\n",
        "/conda/lib/libcudart.so.12": {"link": "libcudart.so.12.4.127"},
        "/conda/lib/libcudart.so.12.4.127": "ELF",
        "/conda/lib/libdevice.10.bc": "BC",
        f"{site}/nvidia/cuda_runtime/lib/libcudart.so.12": "ELF",
        f"{site}/nvidia/cuda_runtime/include/cuda_runtime_api.h": "#define CUDART_VERSION  12090\n",
        f"{site}/nvidia/cuda_nvcc/bin/ptxas": "ELF",
        f"{site}/nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc": "BC",
        f"{site}/nvidia/cudnn/lib/libcudnn.so.9": "ELF",
        **{
            path.replace("lib64", "lib"): content
            for path, content in toolkit_files(f"{site}/nvidia/cu13", 13000).items()
        },
        f"{other}/nvidia/cuda_runtime/lib/libcudart.so.11.0": "ELF",
    }
    environment = {
        "CONDA_PREFIX": "/conda",
        "VIRTUAL_ENV": "/venv",
        "LD_LIBRARY_PATH": f"{other}/nvidia/cuda_runtime/lib",
    }
    conda, split, whole, eleven = sorted(
        installs(collect(files, **environment)),
        key=lambda install: [
            "/conda",
            f"{site}/nvidia",
            f"{site}/nvidia/cu13",
            f"{other}/nvidia",
        ].index(install.root),
    )
    assert (conda.origin, conda.version.value, conda.header_version.value) == (
        "conda",
        "12.4",
        "12.4",
    )
    assert conda.libdevice_path.value == "/conda/lib/libdevice.10.bc"
    assert (split.origin, split.version.value) == ("wheels", "12.9")
    assert isinstance(split.nvcc_path, Absent)
    assert isinstance(split.nvcc_release, Absent)
    assert split.ptxas_path.value == f"{site}/nvidia/cuda_nvcc/bin/ptxas"
    assert (whole.origin, whole.version.value) == ("wheels", "13.0")
    assert isinstance(eleven.version, Unknown)  # libcudart.so.11.0 is the soname of all of CUDA 11


def test_a_folder_named_cuda_without_a_toolkit_is_ignored() -> None:
    facts = collect(
        {"/usr/local/cuda-12.0/samples/readme": "x", "/usr/local/cuda": {"link": "cuda-11.0"}}
    )
    assert isinstance(facts.installs, Absent)
    assert isinstance(facts.usr_local_cuda, Absent)


@pytest.mark.parametrize("entry", ["CUDA_HOME", "CUDA_PATH"])
def test_cuda_home_of_a_missing_folder(entry: str) -> None:
    facts = collect({}, **{entry: "/gone/cuda"})
    assert facts.cuda_home.value == "/gone/cuda"
    assert isinstance(facts.cuda_home_root, Absent)


def test_ccache_replaces_nvcc() -> None:
    files = {"/usr/bin/ccache": "ELF", "/usr/local/bin/nvcc": {"link": "/usr/bin/ccache"}}
    facts = collect(files)
    assert isinstance(facts.root_on_path, Unknown)
    assert isinstance(facts.installs, Absent)


def test_circular_wrappers() -> None:
    files = {
        "/usr/bin/nvcc": "#!/bin/sh\nexec /usr/local/bin/nvcc\n",
        "/usr/local/bin/nvcc": "#!/bin/sh\nexec /usr/bin/nvcc\n",
    }
    facts = collect(files)
    assert isinstance(facts.nvcc_on_path, Unknown)
    assert facts.nvcc_on_path.why == "failed"


def test_a_wrapper_of_a_missing_nvcc() -> None:
    facts = collect({"/usr/bin/nvcc": text("debian_nvcc")})
    assert facts.nvcc_on_path == Absent(("/usr/lib/nvidia-cuda-toolkit/bin/nvcc",))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"unknown": ["timeout", "no answer within 2.0 s"]}, "timeout"),
        ({"returncode": 255, "stderr": "boom"}, "failed"),
        ({"returncode": -11}, "crashed"),
        ({"stdout": "\ufffd\ufffd garbage"}, "unparsable"),
    ],
)
def test_a_broken_nvcc_leaves_the_other_readings(answer: dict[str, Any], why: str) -> None:
    root = "/usr/local/cuda-12.4"
    files = toolkit_files(root, 12040, "libcudart.so.12")
    command = {"argv": [f"{root}/bin/nvcc", "--version"], **answer}
    (install,) = installs(collect(files, command, PATH=f"{root}/bin:/usr/bin"))
    assert isinstance(install.nvcc_release, Unknown)
    assert install.nvcc_release.why == why
    assert install.nvcc_build == install.nvcc_release
    assert install.version.value == install.header_version.value == "12.4"


def test_damaged_files_are_unknown_not_absent() -> None:
    root = "/usr/local/cuda-12.4"
    files = {
        f"{root}/bin/nvcc": {"kind": "folder"},
        f"{root}/bin/ptxas": {"mode": "-rw-r--r--"},
        f"{root}/version.json": '{"cuda": {"na',
        f"{root}/include/cuda.h": {"error": "denied"},
        f"{root}/lib64/libcudart.so.12": "ELF",
        f"{root}/nvvm": {"error": "denied"},
    }
    (install,) = installs(collect(files))
    facts = [
        install.nvcc_path,
        install.ptxas_path,
        install.version_file,
        install.header_version,
        install.version,
    ]
    assert [fact.why for fact in facts if isinstance(fact, Unknown)] == [
        "failed",
        "denied",
        "unparsable",
        "denied",
        "failed",
    ]


def test_a_truncated_header_and_an_unreadable_version_file() -> None:
    root = "/opt/cuda"
    files = {
        f"{root}/version.txt": {"error": "denied"},
        f"{root}/include/cuda.h": "#ifndef __cuda_cuda_h__",
        f"{root}/lib64/libcudart.so.12.4.99": "ELF",
        f"{root}/nvvm/libdevice/libdevice.10.bc": {"link": "libdevice.10.bc"},
    }
    (install,) = installs(collect(files))
    assert isinstance(install.version_file, Unknown)
    assert isinstance(install.header_version, Unknown)
    assert install.header_version.why == "unparsable"
    assert isinstance(install.libdevice_path, Absent)
    assert install.version.value == "12.4"


def test_a_toolkit_without_a_version() -> None:
    (install,) = installs(collect({"/opt/cuda/bin/ptxas": "ELF"}))
    assert isinstance(install.version, Absent)


def test_an_unrecorded_command_raises() -> None:
    with pytest.raises(UnrecordedError):
        collect(
            {"/usr/bin/nvcc": "ELF", "/opt/cuda/bin/nvcc": "ELF"},
            {"argv": ["/opt/cuda/bin/nvcc", "--version"]},
        )
