"""Pins beside a framework: pip refuses what one command names, a later one overlays, an earlier one is replaced."""

from __future__ import annotations

import pytest

from tests.check.test_packages import BAD, GOOD, said

PYTHON = "FROM python:3.10\n"
TF, PROTOBUF, NUMPY = "tensorflow==2.10.0", "protobuf==4.21.1", "numpy==2.1.0"


def lines(*texts: str) -> str:
    return "".join(f"{text}\n" for text in texts)


def run(*commands: str) -> str:
    return PYTHON + "".join(f"RUN pip install {command}\n" for command in commands)


def test_one_file_with_a_pin_that_the_metadata_excludes_cannot_be_installed() -> None:
    verdict, report = said(lines(TF, PROTOBUF), file="requirements.txt")
    assert verdict == BAD
    assert "error: dependency-conflict (the cause)" in report
    assert (
        "tensorflow 2.10.0 requires protobuf>=3.9.2,<3.20, but protobuf==4.21.1 stands beside it"
        in report
    )
    assert "protobuf==4.21.1 (requirements.txt:2)" in report
    assert "tensorflow==2.10.0 (requirements.txt:1)" in report


@pytest.mark.parametrize("asked", ["numpy>=2", "numpy==2.*", "numpy>2,<3", "numpy~=2.0"])
def test_a_range_that_the_metadata_excludes_cannot_be_installed(asked: str) -> None:
    verdict, report = said(lines("tensorflow==2.15.1", asked), file="requirements.txt")
    assert verdict == BAD
    assert "error: dependency-conflict (the cause)" in report
    assert "tensorflow 2.15.1 requires numpy>=1.23.5,<2.0.0, but numpy" in report
    assert f"{asked} (requirements.txt:2)" in report
    assert "write `numpy<2.0.0,>=1.23.5` in place of" in report


def test_a_pinned_package_on_top_of_a_framework_excludes_ranges_too() -> None:
    verdict, report = said(lines("vllm==0.8.0", "numpy>=2"), file="requirements.txt")
    assert verdict == BAD
    assert "requirements.txt: vllm 0.8.0 requires numpy<2.0.0, but numpy>=2 stands" in report
    _, report = said(lines("vllm==0.33.0", "torchvision==0.20.0"), file="requirements.txt")
    assert ": 1 problem," in report  # torchvision names its framework itself


PROJECT = '[project]\nname="x"\nversion="1"\nrequires-python="{}"\ndependencies=["{}"]\n'


@pytest.mark.parametrize(
    ("pythons", "asked", "lowest"),
    [
        (">=3.12", "torch==2.1.0", "3.12"),
        (">=3.12.4,<3.14", "torch==2.1.0", "3.12"),
        ("==3.13.*", "tensorflow>=2.14,<2.16", "3.13"),
        ("<3.10", "torch==2.9.0", "3.8"),
    ],
)
def test_a_project_for_no_python_that_the_release_has_wheels_for(
    pythons: str, asked: str, lowest: str
) -> None:
    verdict, report = said(PROJECT.format(pythons, asked), file="pyproject.toml")
    assert verdict == BAD
    assert "error: python-unsupported (the cause)" in report
    assert f"has no wheel for Python {lowest}" in report
    assert "requires-python" in report
    assert "pyproject.toml:4" in report


@pytest.mark.parametrize(
    ("pythons", "asked"),
    [
        (">=3.10", "torch==2.1.0"),  # 3.10 and 3.11 have its wheels
        (">=3.8", "torch==2.9.0"),  # so do later ones than the lowest
        (">=3.12", "torch>=2.1.0"),
        (">=nonsense", "torch==2.1.0"),
        ("==2.7.*", "torch==2.1.0"),  # of which Pythons the matrix knows none
        (">=3.12", "torch==2.1.0; python_version < '3.12'"),
    ],
)
def test_a_project_for_one_python_that_is_served_is_not_accused(pythons: str, asked: str) -> None:
    _, report = said(PROJECT.format(pythons, asked), file="pyproject.toml")
    assert "python-unsupported" not in report


def test_a_later_command_lays_its_pin_over_the_framework() -> None:
    for later in (PROTOBUF, f"--no-deps {PROTOBUF}"):
        verdict, report = said(run(TF, later))
        assert verdict == BAD
        assert "error: protobuf-conflict (the cause)" in report, report
        assert "TypeError: Descriptors cannot not be created directly" in report


def test_without_dependencies_pip_refuses_nothing() -> None:
    _, report = said(run(f"--no-deps {TF} {PROTOBUF}"))
    assert "pip refuses both" not in report


def test_an_earlier_pin_is_replaced_unless_the_metadata_allows_it() -> None:
    assert said(run(PROTOBUF, TF))[0] == GOOD
    verdict, report = said(run(NUMPY, TF))  # no bound in its metadata, yet the import fails
    assert verdict == BAD
    assert "numpy==2.1.0 (Dockerfile:2)" in report


def test_the_framework_of_an_image_is_overlaid() -> None:
    verdict, report = said("FROM tensorflow/tensorflow:2.10.0\nRUN pip install protobuf==4.21.1\n")
    assert verdict == BAD
    assert "error: protobuf-conflict (the cause)" in report


@pytest.mark.parametrize(
    "texts",
    [
        (TF, "protobuf==3.19.6"),
        ("tensorflow", "numpy==1.19.5"),  # pip takes an older TensorFlow
        (TF, "protobuf>=3"),
        (TF, "protobuf!=3.19.*"),
        (TF, 'protobuf==4.21.1 ; python_version < "3.8"'),
        (TF, "protobuf==4.21.1", "protobuf==3.19.6"),  # of two forks, or pip's own affair
        # its wheel for Python 3.10 requires an older NumPy than the matrix's
        ("onnxruntime==1.16.2", "numpy==1.22.0"),
    ],
)
def test_what_a_file_leaves_open_is_not_accused(texts: tuple[str, ...]) -> None:
    verdict, report = said(lines(*texts), file="requirements.txt")
    assert verdict == GOOD, report


def test_a_package_that_states_its_framework_is_named_once() -> None:
    _, report = said(lines("tensorflow==2.15.1", "keras==3.1.0"), file="requirements.txt")
    assert " 1 problem (" in report
