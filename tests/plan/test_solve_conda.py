"""conda's plans, solved by the real rattler against a composed channel on this disk."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from envcheck.cli.group import run
from envcheck.model import Environment
from envcheck.plan.verify import UnreachableError, UnresolvableError, expand_spec, solve
from tests.plan.channel import write_channel
from tests.plan.machines import machine, planned


def solved(
    tmp_path: Path, text: str, name: str = "conda-forge", **described: str
) -> tuple[str, ...]:
    """Plan for a described machine with conda, and solve that plan."""
    plan = planned(text, on=machine(**described), installer="conda")
    (made,) = plan.environments
    return solve(made, {"CONDA_CHANNEL_ALIAS": write_channel(tmp_path, name)})


def test_the_drivers_cuda_picks_the_cuda_build(tmp_path: Path) -> None:
    found = solved(tmp_path, "torch==2.5.1", python="3.12", driver="550.54.14", gpu="8.9")
    assert found == ("python=3.12.7=0_cpython", "pytorch=2.5.1=cuda126_py312_0")


def test_without_a_gpu_the_cpu_build_is_solved(tmp_path: Path) -> None:
    assert "pytorch=2.5.1=cpu_generic_py312_0" in solved(tmp_path, "torch==2.5.1", python="3.12")


def test_cudatoolkit_and_cudnn_of_one_cuda_are_found(tmp_path: Path) -> None:
    found = solved(tmp_path, "tensorflow==1.15.*", python="3.7", driver="470.256.02", gpu="6.1")
    assert "cudatoolkit=10.0.130=0" in found
    assert "cudnn=7.6.5.32=cuda100_0" in found
    assert "pip=24.0=0" in found


def test_the_lowest_cudnn_that_the_channel_holds_is_asked_for(tmp_path: Path) -> None:
    """TensorFlow 2.13 was built with cuDNN 8.6, which was never packaged."""
    found = solved(tmp_path, "tensorflow==2.13.*", python="3.10", driver="550.54.14", gpu="8.0")
    assert "cudnn=8.8.0.121=cuda11_0" in found
    assert "cudatoolkit=11.8.0=0" in found


def test_a_driver_below_what_a_package_needs_is_told(tmp_path: Path) -> None:
    made = Environment(
        "e",
        "conda",
        "3.12",
        "linux_x86_64",
        channels=("conda-forge",),
        packages=("python=3.12", "pytorch=2.5.*=cuda*"),
        variables={"CONDA_OVERRIDE_CUDA": "11.4"},
    )
    with pytest.raises(UnresolvableError, match="__cuda"):
        solve(made, {"CONDA_CHANNEL_ALIAS": write_channel(tmp_path)})


def test_the_c_library_of_the_machine_counts(tmp_path: Path) -> None:
    old = {"python": "3.10", "driver": "550.54.14", "gpu": "8.0", "glibc": "2.17"}
    with pytest.raises(UnresolvableError, match="__glibc"):
        solved(tmp_path, "tensorflow==2.16.*", **old)
    assert any(
        "cuda120" in item
        for item in solved(tmp_path / "other", "tensorflow==2.16.*", **{**old, "glibc": "2.31"})
    )


def test_defaults_is_no_channel_of_its_own(tmp_path: Path) -> None:
    """conda's name for several: below an alias they are main and r."""
    alias = write_channel(tmp_path, "main")
    made = Environment(
        "e", "conda", "3.7", "linux_x86_64", channels=("defaults",), packages=("python=3.7", "pip")
    )
    write_channel(tmp_path, "r")
    assert solve(made, {"CONDA_CHANNEL_ALIAS": alias}) == ("pip=24.0=0", "python=3.7.12=0_cpython")


def test_a_channel_that_is_not_there_proves_nothing(tmp_path: Path) -> None:
    made = Environment(
        "e", "conda", "3.7", "linux_x86_64", channels=("nowhere",), packages=("python=3.7",)
    )
    with pytest.raises(UnreachableError, match="nowhere"):
        solve(made, {"CONDA_CHANNEL_ALIAS": tmp_path.as_uri()})


def verified(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], alias: str
) -> tuple[int, Any]:
    monkeypatch.setenv("CONDA_CHANNEL_ALIAS", alias)
    asked = [
        "plan",
        "torch==2.5.1",
        "--installer",
        "conda",
        "--platform",
        "linux_x86_64",
        "--python",
        "3.12",
    ]
    code = run([*asked, "--driver", "550.54.14", "--gpu", "8.9", "--verify", "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_verify_says_by_its_exit_code_whether_the_channel_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = verified(monkeypatch, capsys, write_channel(tmp_path))
    assert (code, document["verified"]) == (0, "resolved: 1 conda environment")
    assert document["environments"][0]["solved"] == [
        "python=3.12.7=0_cpython",
        "pytorch=2.5.1=cuda126_py312_0",
    ]
    code, document = verified(monkeypatch, capsys, (tmp_path / "nothing").as_uri())
    assert (code, document["verdict"]) == (3, "undetermined")
    assert document["verified"].startswith("not resolved: conda-forge: the channel did not respond")


def test_without_rattler_nothing_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Environment(
        "e", "conda", "3.7", "win_amd64", channels=("conda-forge",), packages=("python=3.7",)
    )
    monkeypatch.setitem(sys.modules, "rattler", None)
    with pytest.raises(UnreachableError, match=r"the extra conda.*py-rattler"):
        solve(made, {})


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("pip", "pip"),
        ("python=3.10", "python 3.10.*"),
        ("tensorflow=2.16.*=cuda*", "tensorflow 2.16.* cuda*"),
        ("jaxlib=0.5.0=*cuda*", "jaxlib ==0.5.0 *cuda*"),
        ("setuptools<82", "setuptools<82"),
    ],
)
def test_short_specs_in_words(spec: str, words: str) -> None:
    assert expand_spec(spec) == words
