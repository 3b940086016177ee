"""Frameworks in conda environments and in several places at once; all machines are fake."""

from __future__ import annotations

from typing import Any

from envcheck.model import Absent, PythonFacts
from envcheck.probes.environment_choice import PythonSelection
from envcheck.probes.python import collect_python
from tests.hosts.recorded_host import RecordedHost
from tests.known import known, unknown
from tests.probes.framework_stand_ins import BUILDS

SITE = "/c/lib/python3.11/site-packages"
USER = "/home/u/.local/lib/python3.11/site-packages"
CPU_INFO = (BUILDS / "tensorflow-cpu-2.15.1-build_info.txt").read_text(encoding="utf-8")
CUDA_INFO = (BUILDS / "tensorflow-2.15.1-build_info.txt").read_text(encoding="utf-8")


def entry(name: str, version: str, location: str = SITE, **more: Any) -> dict[str, Any]:
    scope = "user" if location == USER else "environment"
    bare = {"installer": "conda", "requires": [], "modules": [], "files": []}
    return {"name": name, "version": version, "location": location, "scope": scope, **bare, **more}


def inspect(distributions: list[dict[str, Any]], files: dict[str, Any], **more: Any) -> PythonFacts:
    answer = {
        "executable": "/c/bin/python", "version": "3.11.7", "implementation": "cpython", "bits": 64,
        "machine": "x86_64", "platform": "linux-x86_64", "abi": "cp311", "prefix": "/c", "base_prefix": "/c",
        "kind": "conda", "base_is_conda": True, "externally_managed": False, "user_site_enabled": True,
        "folders": [{"path": USER, "scope": "user"}, {"path": SITE, "scope": "environment"}],
        "distributions": distributions,
    }  # fmt: skip
    recording = {
        "environment": {"CONDA_PREFIX": "/c"},
        "files": {"/c/bin/python": "", **files},
        "answers": [{"script": "interpreter_info", "python": "/c/bin/python", "result": answer}],
        "loader_cache": {},
        **more,
    }
    return collect_python(RecordedHost(recording), PythonSelection())


def test_the_interpreter_s_rpath_reaches_conda_s_libraries_unless_the_build_has_a_runpath() -> None:
    framework = f"{SITE}/tensorflow/libtensorflow_framework.so.2"
    files = {
        f"{SITE}/tensorflow/python/platform/build_info.py": CUDA_INFO,
        framework: "",
        "/c/lib/libcudart.so.12": {"link": "libcudart.so.12.2.140"},
        "/c/lib/libcudart.so.12.2.140": "",
    }
    program = {"runpath": ["/c/lib"], "is_rpath": True}
    for own, via in (({"is_rpath": True}, "rpath"), ({"runpath": ["/x"]}, "")):
        elf = {framework: own, "/c/bin/python": program, "/c/lib/libcudart.so.12.2.140": {}}
        facts = inspect([entry("tensorflow", "2.15.1", modules=["tensorflow"])], files, elf=elf)
        lookup = known(known(facts.frameworks)[0].libraries)[0]
        assert (lookup.soname, lookup.via) == ("libcudart.so.12", via)
        if via:
            assert (known(lookup.found), known(lookup.version)) == (
                "/c/lib/libcudart.so.12.2.140",
                "12.2.140",
            )
        else:
            assert isinstance(lookup.found, Absent)
            assert lookup.elsewhere == ("/c/lib/libcudart.so.12.2.140",)


def test_conda_s_build_string_decides_where_a_release_has_no_build_info() -> None:
    tensorflow = entry("tensorflow", "1.4.1", modules=["tensorflow"])
    record = "/c/conda-meta/tensorflow-base-1.4.1-{}.json"
    for build, is_cuda in (("py36hd00c003_2", None), ("gpu_py36h_0", True), ("mkl_py36h_0", False)):
        facts = inspect([tensorflow], {record.format(build): ""})
        (found,) = known(facts.frameworks)
        if is_cuda is None:
            assert unknown(found.cuda_build).detail.endswith("is missing")
        else:
            assert known(found.cuda_build) is is_cuda


def test_the_cudnn_of_conda_s_pytorch_is_in_its_build_string() -> None:
    files = {
        f"{SITE}/torch/version.py": "__version__ = '2.1.0'\ncuda = '12.1'\n",
        f"{SITE}/torch/lib/libtorch_cuda.so": "",
        "/c/conda-meta/pytorch-2.1.0-py3.11_cuda12.1_cudnn8.9.2_0.json": "",
    }
    facts = inspect(
        [entry("torch", "2.1.0", modules=["torch"])],
        files,
        elf={f"{SITE}/torch/lib/libtorch_cuda.so": {}},
    )
    (build,) = known(facts.frameworks)
    assert (known(build.cuda_version), known(build.cudnn_version)) == ("12.1", "8.9.2")
    assert known(build.libraries) == ()


def test_the_user_s_copy_shadows_that_of_the_environment() -> None:
    info = "tensorflow/python/platform/build_info.py"
    files = {
        f"{SITE}/{info}": CUDA_INFO,
        f"{USER}/{info}": CPU_INFO,
        f"{USER}/tensorflow/__init__.py": "",
    }
    distributions = [
        entry("tensorflow-cpu", "2.15.1", USER, modules=["tensorflow"]),
        entry("tensorflow", "2.15.1", modules=["tensorflow"]),
    ]
    first, second = known(inspect(distributions, files).frameworks)
    assert (first.distribution, known(first.cuda_build), second.distribution) == (
        "tensorflow-cpu",
        False,
        "tensorflow",
    )
    assert isinstance(first.shadowed_by, Absent)
    assert known(second.shadowed_by) == f"{USER}/tensorflow"
    assert isinstance(inspect(distributions, files).duplicate_owners, Absent)


def test_an_older_jaxlib_has_cuda_in_its_version() -> None:
    path = f"{SITE}/jaxlib/xla_extension.so"
    distributions = [entry("jax", "0.4.13"), entry("jaxlib", "0.4.13+cuda12.cudnn89")]
    (build,) = known(inspect(distributions, {path: ""}, elf={path: {}}).frameworks)
    assert (build.distribution, known(build.cuda_version), known(build.cudnn_version)) == (
        "jaxlib",
        "12",
        "8.9",
    )
    assert "libcudnn.so.8" in [each.soname for each in known(build.libraries)]


def test_conda_s_interpreter_loads_conda_s_libstdcxx() -> None:
    files = {
        "/c/lib/libstdc++.so.6": {"link": "libstdc++.so.6.0.33"},
        "/c/lib/libstdc++.so.6.0.33": "",
        "/usr/lib/libstdc++.so.6": "",
    }
    facts = inspect([], files)
    assert (known(facts.libstdcxx_path), known(facts.libstdcxx_glibcxx)) == (
        "/c/lib/libstdc++.so.6.0.33",
        "3.4.33",
    )
    unversioned = {"/c/lib/libstdc++.so.6": ""}
    elf = {
        "/c/lib/libstdc++.so.6": {
            "versions_defined": ["GLIBCXX_3.4.9", "GLIBCXX_3.4.29", "CXXABI_1.3.13"]
        }
    }
    assert known(inspect([], unversioned, elf=elf).libstdcxx_glibcxx) == "3.4.29"
    assert unknown(inspect([], unversioned).libstdcxx_glibcxx).why == "unparsable"
    assert isinstance(inspect([], {}).libstdcxx_path, Absent)
