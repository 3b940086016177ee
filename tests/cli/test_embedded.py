"""The program called from Python: a notebook or a test redirects its output into an object, and goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envcheck import __version__

# Runs command lines as a caller does, and prints what each gave.
CALLER = """
import contextlib, io, json, signal, sys
from envcheck.cli import main

class Plain:
    def __init__(self): self.parts = []
    def write(self, text):
        self.parts.append(text)
        if given["kind"] == "interrupting" and len(results) == 0: signal.raise_signal(signal.SIGINT)
    def flush(self): pass
    def getvalue(self): return "".join(self.parts)

given = json.load(sys.stdin)
results = []
for words in given["commands"]:
    out, err = (io.StringIO() if given["kind"] == "StringIO" else Plain() for _ in range(2))
    sys.argv = ["envcheck", *words]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        same = sys.stdout is out and sys.stderr is err
    ctrl_c = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    results.append([code, out.getvalue(), err.getvalue(), same, ctrl_c])
print(json.dumps(results))
"""
LOG = "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory\n"


def called(kind: str, folder: Path, *commands: list[str]) -> list[Any]:
    asked = json.dumps({"kind": kind, "commands": commands})
    done = subprocess.run(
        [sys.executable, "-c", CALLER],
        input=asked,
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    results: list[Any] = json.loads(done.stdout)
    assert [result[3:] for result in results] == [[True, True]] * len(commands)
    return [result[:3] for result in results]


@pytest.mark.parametrize("kind", ["StringIO", "Plain"])
def test_output_goes_into_the_callers_objects(kind: str, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOG, encoding="utf-8")
    described = [
        "--python",
        "3.11",
        "--driver",
        "550.54",
        "--gpu",
        "RTX 4090",
        "--platform",
        "linux_x86_64",
    ]
    version, usage, unknown, helped, plan, as_json, table, explained = called(
        kind,
        tmp_path,
        ["--version"],
        ["doctor", "--no-such-option"],
        ["doctr", "--json"],
        ["--help"],
        ["plan", "torch", *described],
        ["plan", "torch", *described, "--json"],
        ["matrix", "show", "cuda==12.4"],
        ["explain", "train.log"],
    )
    assert version == [0, f"envcheck, version {__version__}\n", ""]
    assert usage[:2] == [2, ""]
    assert usage[2].startswith("envcheck: No such option")
    assert json.loads(unknown[1])["exit_code"] == unknown[0] == 2
    assert (helped[0], helped[2]) == (0, "")
    assert "Find out what is wrong" in helped[1]
    assert plan[0] == 0
    assert "pip install" in plan[1]
    assert json.loads(as_json[1])["schema"].startswith("envcheck/plan/")
    assert "CUDA Toolkit 12.4" in table[1]
    assert explained[0] == 1
    assert "cudnn-missing" in explained[1]


def test_the_doctor_prints_what_it_prints_into_a_pipe(tmp_path: Path) -> None:
    ((code, out, err),) = called("StringIO", tmp_path, ["doctor", "--expect", "cpu"])
    # as the command: `python -m envcheck` judges the Python that asks
    start = "from envcheck.cli import main; main()"
    piped = [sys.executable, "-c", f"import sys; {start}", "doctor", "--expect", "cpu"]
    done = subprocess.run(
        piped, capture_output=True, text=True, encoding="utf-8", cwd=tmp_path, check=False
    )
    assert (code, out.splitlines()[0], err) == (
        done.returncode,
        done.stdout.splitlines()[0],
        done.stderr,
    )


def test_ctrl_c_ends_one_call_and_not_the_next(tmp_path: Path) -> None:
    first, second = called("interrupting", tmp_path, ["--version"], ["--version"])
    # click begins a line after ^C
    assert (first[0], first[2]) == (130, "\nenvcheck: Interrupted.\n")
    assert second == [0, f"envcheck, version {__version__}\n", ""]
