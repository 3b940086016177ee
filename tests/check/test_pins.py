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
        (TF, "protobuf==4.*"),
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
    assert " 1 problem." in report
