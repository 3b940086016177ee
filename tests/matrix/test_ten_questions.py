"""Ten questions that compat_matrix.json and its page answer without this program; the program answers the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envcheck.cli.group import run

ROOT = Path(__file__).parents[2]
FILE = json.loads((ROOT / "data" / "compat_matrix.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "reference" / "matrix.md").read_text(encoding="utf-8")
LINUX, WINDOWS = "linux_x86_64", "win_amd64"
Cells = dict[str, Any]


def unfold(line: Cells) -> Iterator[tuple[str, Cells]]:
    """Run the function that the page shows."""
    names: Cells = {}
    exec(re.findall(r"```python\n(def unfold\(line\):.*?)```", PAGE, re.DOTALL)[0], names)
    yield from names["unfold"](line)


def release(framework: str, distribution: str, version: str, platform: str = LINUX) -> Cells:
    """Find a row in the file alone."""
    lines = (line for line in FILE["releases"][framework] if line["distribution"] == distribution)
    found = (
        row
        for line in lines
        for held, row in unfold(line)
        if held == version and row["platform"] == platform
    )
    return next(found)


class Program:
    """Answers of `envcheck matrix show`."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def _show(self, requirement: str) -> list[Cells]:
        assert run(["matrix", "show", requirement, "--json"]) == 0
        rows: list[Cells] = json.loads(self._capsys.readouterr().out)["rows"]
        return rows

    def release(self, requirement: str, platform: str = LINUX) -> Cells:
        return next(row for row in self._show(requirement) if row["platform"] == platform)

    def table(self, requirement: str) -> Cells:
        cells: Cells = self._show(requirement)[0]["cells"]
        return cells


QUESTIONS: dict[str, tuple[Any, Callable[[], Any], Callable[[Program], Any]]] = {
    "Which CUDA was torch 2.7.1 of the usual index built with?": (
        "12.6",
        lambda: release("torch", "torch", "2.7.1")["cuda"],
        lambda program: program.release("torch==2.7.1")["cuda"],
    ),
    "For which other CUDA versions does PyTorch's own index have it?": (
        {"11.8", "12.8"},
        lambda: {*release("torch", "torch", "2.7.1")["variants"]} - {"12.6"},
        lambda program: (
            {item["cuda"] for item in program.release("torch==2.7.1")["variants"]} - {"12.6"}
        ),
    ),
    "Which Pythons does TensorFlow 2.15.1 have wheels for?": (
        ["3.9", "3.10", "3.11"],
        lambda: release("tensorflow", "tensorflow", "2.15.1")["pythons"],
        lambda program: program.release("tensorflow==2.15.1")["pythons"],
    ),
    "Which NumPy does it ask for?": (
        ">=1.23.5,<2.0.0",
        lambda: release("tensorflow", "tensorflow", "2.15.1")["requires"]["numpy"],
        lambda program: program.release("tensorflow==2.15.1")["requires"]["numpy"],
    ),
    "Does ONNX Runtime 1.31.1 for Windows have machine code for an H100?": (
        True,
        lambda: (
            "sm_90a"
            in release("onnxruntime", "onnxruntime-gpu", "1.31.1", WINDOWS)["compute_capabilities"]
        ),
        lambda program: (
            "sm_90a" in program.release("onnxruntime-gpu==1.31.1", WINDOWS)["compute_capabilities"]
        ),
    ),
    "Which extra of JAX 0.6.2 brings CUDA?": (
        "cuda12",
        lambda: release("jax", "jax", "0.6.2", "any")["gpu_extra"],
        lambda program: program.release("jax==0.6.2", "any")["gpu_extra"],
    ),
    "Which Linux driver came with CUDA 12.4?": (
        "550.54.14",
        lambda: FILE["toolkits"]["12.4"]["min_driver_linux"],
        lambda program: program.table("cuda==12.4")["min_driver_linux"],
    ),
    "Which is the oldest that runs it all the same?": (
        "525.60.13",
        lambda: FILE["toolkits"]["12.4"]["minor_floor_linux"],
        lambda program: program.table("cuda==12.4")["minor_floor_linux"],
    ),
    "Which is the newest GCC that its nvcc takes?": (
        "13",
        lambda: FILE["toolkits"]["12.4"]["gcc_max"],
        lambda program: program.table("cuda==12.4")["gcc_max"],
    ),
    "Which toolkit and driver are the last for a GPU of compute capability 5.0?": (
        ("12.9", "580"),
        lambda: tuple(
            FILE["architectures"]["5.0"][name] for name in ("last_toolkit", "last_driver_branch")
        ),
        lambda program: tuple(
            program.table("architecture==5.0")[name]
            for name in ("last_toolkit", "last_driver_branch")
        ),
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_file_and_its_page_answer_without_the_program_and_the_program_the_same(
    question: str, capsys: pytest.CaptureFixture[str]
) -> None:
    expected, from_file, from_program = QUESTIONS[question]
    assert from_file() == expected
    assert from_program(Program(capsys)) == expected


def test_there_are_ten() -> None:
    assert len(QUESTIONS) == 10
