"""Where the loader finds the libraries of a build, compared with the real loader and fake libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.actions import launcher_path, write_launcher
from envcheck.host.local import LocalHost
from envcheck.model import Absent, Environment, FrameworkBuild, LibraryLookup
from envcheck.plan.steps import folder_words
from envcheck.probes.environment_choice import PythonSelection
from envcheck.probes.python import collect_python
from tests.known import known, unknown
from tests.probes.framework_stand_ins import BUILDS, cuda_library, library, metadata, tensorflow
from tests.probes.pythons import make_venv

pytestmark = pytest.mark.needs("linux", "c-compiler")
CUDART, CUDNN = "libcudart.so.12", "libcudnn.so.9"


def builds(venv: Path) -> tuple[FrameworkBuild, ...]:
    return known(collect_python(LocalHost(), PythonSelection(env=str(venv))).frameworks)


def lookups(venv: Path) -> dict[str, LibraryLookup]:
    (build,) = builds(venv)
    return {each.soname: each for each in known(build.libraries)}


def really_opened(opener: Path, soname: str) -> str:
    """Let the fake framework open a library in its own process; empty where the loader finds none."""
    script = (
        "import ctypes, os, sys; f = ctypes.CDLL(sys.argv[1]).opened; f.restype = ctypes.c_char_p;"
        "p = f(sys.argv[2].encode()).decode(); print(os.path.realpath(p) if p else '')"
    )
    command = [sys.executable, "-c", script, str(opener), soname]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


RPATH = "-Wl,-rpath,$ORIGIN/../nvidia/cuda_runtime/lib:$ORIGIN/../nvidia/cudnn/lib"
NEW, OLD = "-Wl,--enable-new-dtags", "-Wl,--disable-new-dtags"


@pytest.mark.parametrize(
    ("flags", "in_library_path", "via"),
    [
        ((RPATH, NEW), False, "runpath"),
        ((RPATH, NEW), True, "LD_LIBRARY_PATH"),
        ((RPATH, OLD), True, "rpath"),
        ((), True, "LD_LIBRARY_PATH"),
        ((), False, ""),
    ],
)
def test_the_lookup_matches_the_real_loader(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    in_library_path: bool,
    via: str,
) -> None:
    site = make_venv(tmp_path / "v")
    opener = tensorflow(site, "2.21.0", *flags)
    wheel = cuda_library(site / "nvidia/cuda_runtime/lib", CUDART)
    other = cuda_library(tmp_path / "cuda/lib64", CUDART, real="libcudart.so.12.2.140")
    metadata(
        site, "nvidia-cuda-runtime-cu12", "12.9.79", record=f"nvidia/cuda_runtime/lib/{CUDART},,\n"
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/gone:{tmp_path}/cuda/lib64" if in_library_path else "")
    found = lookups(tmp_path / "v")[CUDART]
    assert (found.found.value or "") == really_opened(opener, CUDART)
    assert (found.via, found.mandatory) == (via, True)
    if via == "LD_LIBRARY_PATH":
        assert (known(found.found), known(found.version)) == (str(other), "12.2.140")
        assert found.elsewhere == (str(wheel),)
    elif via:
        assert (known(found.found), known(found.version)) == (str(wheel), "12.9.79")
    else:
        assert isinstance(found.found, Absent)
        assert found.elsewhere == (str(wheel),)


def test_activated_folders_are_searched_after_activation(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    tensorflow(site, "2.21.0")
    wheel = cuda_library(site / "nvidia/cuda_runtime/lib", CUDART)
    below = site.relative_to(tmp_path / "v")
    environment = Environment(
        str(tmp_path / "v"),
        "pip",
        "3.12",
        "linux_x86_64",
        library_folders=(f"{below}/nvidia/*/lib", "lib"),
    )
    launcher = Path(launcher_path(environment.folder))
    launcher.write_text(
        "\n".join(write_launcher(environment.folder, folder_words(environment)).lines)
    )
    found = lookups(tmp_path / "v")[CUDART]
    assert (known(found.found), found.via, found.elsewhere) == (str(wheel), "activation", ())
    launcher.write_text(f"add /elsewhere {wheel.parent}\n")
    assert known(lookups(tmp_path / "v")[CUDART].found) == str(wheel)
    launcher.write_text("nothing of the kind\n")
    assert isinstance(lookups(tmp_path / "v")[CUDART].found, Absent)


def test_dependencies_of_found_libraries_are_searched(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    tensorflow(site, "2.21.0", "-Wl,-rpath,$ORIGIN/../nvidia/cusparse/lib")
    jit = cuda_library(site / "nvidia/nvjitlink/lib", "libnvJitLink.so.12")
    sparse = cuda_library(site / "nvidia/cusparse/lib", "libcusparse.so.12", str(jit))
    found = lookups(tmp_path / "v")
    assert known(found["libcusparse.so.12"].found) == str(sparse)
    missing = found["libnvJitLink.so.12"]
    assert (missing.needed_by, missing.mandatory, missing.found.__class__) == (
        str(sparse),
        True,
        Absent,
    )
    assert missing.elsewhere == (str(jit),)


def test_a_toolkit_off_the_loader_s_path_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_venv(tmp_path / "v")
    tensorflow(site, "2.10.1")
    copy = cuda_library(tmp_path / "cuda/lib64", "libcudart.so.11.0")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    found = lookups(tmp_path / "v")["libcudart.so.11.0"]
    assert isinstance(found.found, Absent)
    assert str(copy) in found.elsewhere


def test_torch_opens_copies_in_wheels_where_the_loader_fails(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    cudart = cuda_library(site / "nvidia/cuda_runtime/lib", CUDART)
    cudnn = cuda_library(tmp_path / "elsewhere", CUDNN)
    (site / "torch").mkdir()
    (site / "torch/version.py").write_bytes((BUILDS / "torch-2.7.0-version.txt").read_bytes())
    library(site / "torch/lib/libtorch_cuda.so", str(cudart), str(cudnn))
    metadata(
        site,
        "torch",
        "2.7.0",
        "torch",
        requires="Requires-Dist: nvidia-cudnn-cu12==9.5.1.17; os_name == 'x'\n",
    )
    (build,) = builds(tmp_path / "v")
    found = {each.soname: each for each in known(build.libraries)}
    assert (known(found[CUDART].found), found[CUDART].via) == (str(cudart), "preload")
    assert isinstance(found[CUDNN].found, Absent)
    assert (build.version, known(build.cuda_version), known(build.cudnn_version)) == (
        "2.7.0+cu126",
        "12.6",
        "9.5.1.17",
    )
    assert unknown(build.compute_capabilities).why == "failed"


def test_the_cuda_version_follows_from_linked_libraries(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    tensorflow(site, "1.13.2", dist="tensorflow-gpu").unlink()
    cudart = cuda_library(tmp_path / "cuda", "libcudart.so.10.0")
    cudnn = cuda_library(tmp_path / "cuda", "libcudnn.so.7")
    library(site / "tensorflow/libtensorflow_framework.so", str(cudnn))
    library(site / "tensorflow/python/_pywrap_tensorflow_internal.so", str(cudart))
    (build,) = builds(tmp_path / "v")
    assert (known(build.cuda_build), known(build.cuda_version), known(build.cudnn_version)) == (
        True,
        "10.0",
        "7",
    )
    assert [each.soname for each in known(build.libraries)] == [
        "libcudnn.so.7",
        "libcudart.so.10.0",
    ]


def test_a_jax_plugin_prefers_the_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = make_venv(tmp_path / "v")
    plugin = site / "jax_plugins/xla_cuda13"
    library(plugin / "xla_cuda_plugin.so")
    (plugin / "__init__.py").write_text("def _load_nvidia_libraries(): ...\n", encoding="utf-8")
    need = 'Requires-Dist: nvidia-cudnn-cu13<10.0,>=9.12.0.46; extra == "with-cuda"\n'
    metadata(site, "jax-cuda13-plugin", "0.11.2", requires=need)
    metadata(site, "jax-cuda13-pjrt", "0.11.2")
    wheel = cuda_library(site / "nvidia/cudnn/lib", CUDNN)
    cuda_library(tmp_path / "library-path", CUDNN)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "library-path"))
    (build,) = builds(tmp_path / "v")
    found = {each.soname: each for each in known(build.libraries)}[CUDNN]
    assert (build.distribution, known(build.cuda_version), known(build.cudnn_version)) == (
        "jax-cuda13-plugin", "13", "9.12.0.46",
    )  # fmt: skip
    assert (known(found.found), found.via) == (str(wheel), "preload")
    assert build.cuda_build.value is not None


def rewrite_build_info(site: Path, old: str, new: str) -> None:
    info = site / "tensorflow/python/platform/build_info.py"
    info.write_text(info.read_text().replace(old, new))


def test_a_build_info_that_names_the_major_alone(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    tensorflow(site, "1.14.0", dist="tensorflow-gpu").rename(
        site / "tensorflow/libtensorflow_framework.so.1"
    )
    rewrite_build_info(site, "'10.0'", "'10'")  # as its wheel for Python 3.6 says
    found = lookups(tmp_path / "v")
    assert {"libcudart.so.10.0", "libcublas.so.10.0", "libcudnn.so.7"} <= {*found}
    assert isinstance(found["libcudnn.so.7"].found, Absent)


def test_the_libraries_of_a_cuda_without_known_names_are_unknown(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    tensorflow(site, "2.21.0")
    rewrite_build_info(site, "12.5.1", "99.1")
    metadata(site, "jax-cuda99-plugin", "1.0")
    metadata(site, "jax-cuda99-pjrt", "1.0")
    library(site / "jax_plugins/xla_cuda99/xla_cuda_plugin.so")
    for build, cuda in zip(builds(tmp_path / "v"), ("99.1", "99"), strict=True):
        assert (known(build.cuda_build), known(build.cuda_version)) == (True, cuda)
        assert unknown(build.libraries).why == "failed"
        assert known(build.runpath) == ()


def test_a_build_without_its_files_is_unknown(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    metadata(site, "tensorflow", "2.20.0", "tensorflow")
    metadata(site, "torch", "2.7.0", "torch")
    metadata(site, "jax", "0.11.2", "jax")
    for build in builds(tmp_path / "v"):
        assert unknown(build.cuda_build).why == "failed"
    opener = tensorflow(make_venv(tmp_path / "w"), "2.21.0")
    opener.write_bytes(b"\x7fELF not really")
    (build,) = builds(tmp_path / "w")
    assert unknown(build.libraries).why == "unparsable"
    assert known(build.cuda_version) == "12.5.1"
