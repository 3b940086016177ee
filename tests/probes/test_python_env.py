"""The whole inspected environment: real interpreters, real folders, misbehaving programs."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from envcheck.frameworks.packages import parse_conda_name, read_installation
from envcheck.host.loader import parse_libstdcxx_name
from envcheck.host.local import LocalHost
from envcheck.model import Absent, Fact, Known, PythonFacts, Unknown
from envcheck.probes.environment_choice import PythonSelection
from envcheck.probes.python import collect_python, parse_kernel
from tests.host.programs import write_script
from tests.hosts.recorded_host import RecordedHost
from tests.known import known, unknown
from tests.patience import PATIENCE
from tests.probes.framework_stand_ins import cuda_library, metadata, tensorflow
from tests.probes.pythons import make_venv


def inspect(venv: Path) -> PythonFacts:
    return collect_python(LocalHost(), PythonSelection(env=str(venv)))


def test_every_fact_of_a_bare_environment_is_stated(tmp_path: Path) -> None:
    make_venv(tmp_path / "v")
    facts = inspect(tmp_path / "v")
    for name in (
        "distributions",
        "version",
        "abi_tag",
        "bits",
        "architecture",
        "platform_tag",
        "prefix",
        "kind",
    ):
        assert isinstance(getattr(facts, name), Known), name
    for name in ("frameworks", "extensions", "duplicate_owners", "pip_version"):
        assert isinstance(getattr(facts, name), Absent), name
    assert known(facts.version) == ".".join(map(str, sys.version_info[:3]))
    assert (known(facts.kind), facts.chosen_by) == ("venv", "option")
    unstated = [
        field.name for field in fields(facts) if "not stated" in str(getattr(facts, field.name))
    ]
    # What a file leaves open, and what nobody asked for; nothing else of a machine's environment is
    # left out.
    assert unstated == ["unread", "imports"]


@pytest.mark.needs("posix")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("exit 3", "unparsable"),
        ("echo garbage", "unparsable"),
        ("echo '[1, 2]'", "unparsable"),
        ("echo '{}'", "unparsable"),
        ("printf '\\377\\376'", "unparsable"),
        ("kill -9 $$", "crashed"),
        ("exec sleep 3600", "timeout"),
    ],
)
def test_a_broken_interpreter_is_unknown_with_the_reason(
    tmp_path: Path, body: str, why: str
) -> None:
    python = write_script(tmp_path / "python", body)
    host = LocalHost(budget=1.0 if why == "timeout" else PATIENCE)
    facts = collect_python(host, PythonSelection(python=python))
    assert known(facts.executable) == python
    assert unknown(facts.version).why == why
    assert facts.distributions == facts.version == facts.frameworks


@pytest.mark.needs("posix")
def test_a_text_file_and_a_folder_are_not_interpreters(tmp_path: Path) -> None:
    write_script(tmp_path / "script", "", mode=0o644)
    (tmp_path / "text").write_bytes(b"\x01\x02")
    (tmp_path / "text").chmod(0o755)
    for name in ("script", "text"):
        assert isinstance(
            collect_python(LocalHost(), PythonSelection(python=str(tmp_path / name))).version,
            Unknown,
        )
    absent = collect_python(LocalHost(), PythonSelection(python=str(tmp_path)))
    assert absent.executable == Absent((f"{tmp_path}/bin/python", f"{tmp_path}/bin/python3"))


def test_python_2_is_too_old(tmp_path: Path) -> None:
    answer = {"executable": "/p", "version": "2.7.18", "implementation": "cpython"}
    python = write_script(tmp_path / "python", f"echo '{json.dumps(answer)}'")
    facts = collect_python(LocalHost(), PythonSelection(python=python))
    assert known(facts.version) == "2.7.18"
    assert unknown(facts.distributions).detail == "Python 2.7.18 is too old to inspect"
    for real in Path.home().glob(".pyenv/versions/2.7*/bin/python"):
        assert known(
            collect_python(LocalHost(), PythonSelection(python=str(real))).version
        ).startswith("2.7")


@pytest.mark.needs("linux", "c-compiler")
def test_duplicate_owners_are_found(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    tensorflow(site, "2.10.1")
    metadata(site, "tensorflow-gpu", "2.10.1", "tensorflow")
    metadata(site, "tensorflow-intel", "2.10.1")  # a stub owns no module
    for name in ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13"):
        metadata(
            site,
            name,
            "9.12.0.46",
            "nvidia",
            record="nvidia/cudnn/lib/libcudnn.so.9,,\nnvidia/__init__.py,,\n",
        )
    facts = inspect(tmp_path / "v")
    assert known(facts.duplicate_owners) == {
        "tensorflow": ("tensorflow", "tensorflow-gpu"),
        f"{site}/nvidia/cudnn/lib/libcudnn.so.9": ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13"),
    }
    assert [build.distribution for build in known(facts.frameworks)] == ["tensorflow"]


@pytest.mark.needs("linux", "c-compiler")
def test_shadowing_of_a_framework_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = make_venv(tmp_path / "v", sys.executable, "--system-site-packages")
    tensorflow(site, "2.21.0")
    (tmp_path / "work/tensorflow").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")

    def shadow() -> Fact[str]:
        return known(inspect(tmp_path / "v").frameworks)[0].shadowed_by

    assert isinstance(shadow(), Absent), "a folder without __init__.py is no regular package"
    (tmp_path / "work/numpy.py").touch()
    assert known(shadow()) == f"{tmp_path}/work/numpy.py"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    (tmp_path / "path/tensorflow").mkdir(parents=True)
    (tmp_path / "path/tensorflow/__init__.py").touch()
    assert known(shadow()) == f"{tmp_path}/path/tensorflow"
    (tmp_path / "work/tensorflow.py").touch()
    assert known(shadow()) == f"{tmp_path}/work/tensorflow.py"
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    assert known(shadow()) == f"{tmp_path}/path/tensorflow"


@pytest.mark.needs("linux", "c-compiler")
def test_extensions_have_their_needed_libraries(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "v")
    metadata(site, "flash-attn", "2.6.3", "flash_attn")
    metadata(site, "mmcv", "2.1.0", "mmcv")
    cudart = cuda_library(tmp_path / "cuda", "libcudart.so.11.0")
    path = cuda_library(site, "flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", str(cudart))
    (extension,) = known(inspect(tmp_path / "v").extensions)
    assert (extension.distribution, extension.path, extension.needed) == (
        "flash-attn", str(path), ("libcudart.so.11.0",),
    )  # fmt: skip


def test_a_conda_environment_is_read_from_its_records() -> None:
    records = (
        "pytorch-2.1.0-py3.11_cuda12.1_cudnn8.9.2_0",
        "numpy-1.26.4-py311h64a7726_0",
        "zlib-1.3-h_0",
        "jax-0.4.23-py_0",
    )
    site = "/c/lib/python3.11/site-packages"
    entry = {"location": site, "scope": "environment", "requires": [], "modules": [], "files": []}
    answer = {
        "executable": "/c/bin/python", "prefix": "/c", "base_prefix": "/c", "base_is_conda": True, "kind": "conda",
        "folders": [{"path": site, "scope": "environment"}],
        "distributions": [
            {"name": "numpy", "version": "2.1.0", "installer": "pip", **entry},
            {"name": "jax", "version": "0.4.23", "installer": "conda", **entry},
        ],
    }  # fmt: skip
    host = RecordedHost(
        {"files": {f"/c/conda-meta/{name}.json": "" for name in (*records, "history")}}
    )
    found = {
        (each.name, each.version): each for each in read_installation(host, answer).distributions
    }
    assert list(found)[:2] == [("numpy", "2.1.0"), ("jax", "0.4.23")]
    assert found["jax", "0.4.23"].build == "py_0"
    pytorch = found["pytorch", "2.1.0"]
    assert (pytorch.build, pytorch.scope) == ("py3.11_cuda12.1_cudnn8.9.2_0", "conda")
    over = found["numpy", "1.26.4"]
    assert (over.installer, over.location, over.scope) == ("conda", site, "environment")
    assert ("zlib", "1.3") not in found


def test_kernels_are_listed_with_their_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_venv(tmp_path / "v")
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder, python in (
        (".local/share/jupyter/kernels/tf", "/tf/bin/python"),
        ("v/share/jupyter/kernels/python3", "python"),
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "kernel.json").write_text(
            json.dumps({"argv": [python, "-m", "ipykernel_launcher"]})
        )
    (tmp_path / ".local/share/jupyter/kernels/broken").mkdir()
    (tmp_path / ".local/share/jupyter/kernels/broken/kernel.json").write_text("{")
    kernels = known(inspect(tmp_path / "v").kernels)
    assert {(each.name, each.python) for each in kernels} >= {
        ("tf", "/tf/bin/python"),
        ("python3", "python"),
    }
    assert "broken" not in [each.name for each in kernels]


def test_parsers() -> None:
    assert parse_kernel('{"argv": []}') == parse_kernel("[]") == parse_kernel("") == ""
    assert parse_libstdcxx_name("/usr/lib/libstdc++.so.6.0.30") == "3.4.30"
    assert parse_libstdcxx_name("/usr/lib/libstdc++.so.6") is None
    assert parse_conda_name("history") is None
    assert parse_conda_name("x.json") is None


@pytest.mark.needs("linux")
def test_the_libstdcxx_version_is_the_newest_defined_one() -> None:
    from envcheck.host.elf import read_elf

    facts = collect_python(LocalHost(), PythonSelection(python=sys.executable))
    defined = known(read_elf(known(facts.libstdcxx_path))).versions_defined
    assert f"GLIBCXX_{known(facts.libstdcxx_glibcxx)}" in defined
    newest = max(
        tuple(map(int, name[8:].split("."))) for name in defined if name.startswith("GLIBCXX_3")
    )
    assert ".".join(map(str, newest)) == known(facts.libstdcxx_glibcxx)
