"""`envcheck explain` as a user meets it."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.test_doctor import ROOT, document, envcheck
from tests.patience import PATIENCE

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
NOISE = "2024-05-10 11:33:15.185131: W tensorflow/x.cc:38] TF-TRT Warning: Could not find TensorRT"
LOG = f"epoch 1\n{NOISE}\n[rank1]: {MISMATCH}\nepoch 2\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(LOG, encoding="utf-8")
    return path


def explain_input(text: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "envcheck", "explain", *arguments],
        input=text,
        capture_output=True,
        cwd=ROOT,
        check=False,
    )


def test_the_line_that_matters_why_and_what_is_harmless(log: Path) -> None:
    done = envcheck("explain", str(log))
    assert done.returncode == 1, done.stderr
    assert f"The line that matters: {log}:3, from rank1\n  > {MISMATCH}\n" in done.stdout
    assert "error: driver-library-mismatch (the cause)" in done.stdout
    assert "Harmless: 1 line\n  W tensorflow/x.cc:38] TF-TRT Warning" in done.stdout
    assert "Read 4 lines" in done.stdout
    assert "judged by the log alone" in done.stdout
    assert done.stderr == ""


def test_quiet_says_the_verdict_and_its_cause_only(log: Path) -> None:
    done = envcheck("explain", "-q", str(log))
    assert done.returncode == 1
    assert "driver-library-mismatch" in done.stdout
    assert "Harmless" not in done.stdout
    assert "Read 4 lines" not in done.stdout


def test_verbose_names_the_place_of_harmless_lines(log: Path) -> None:
    assert f"({log}:2)" in envcheck("explain", "-v", str(log)).stdout


def test_json_holds_the_lines(log: Path) -> None:
    done = envcheck("explain", "--format", "json", str(log))
    assert done.returncode == 1
    found = document(done, "explain")
    assert found["verdict"] == "incompatible"
    assert found["judged"] == "log"
    assert found["findings"][0]["id"] == "driver-library-mismatch"
    assert (found["matters"]["line"], found["matters"]["worker"]) == (3, "rank1")
    assert [item["line"] for item in found["harmless"]] == [2]
    assert (found["read"]["lines"], found["read"]["files"]) == (4, [str(log)])


def test_only_noise_is_zero_and_said() -> None:
    done = explain_input((NOISE + "\n").encode() * 3)
    assert done.returncode == 0
    assert b"Harmless: 3 lines\n  3 x W tensorflow" in done.stdout


@pytest.mark.parametrize("text", [b"", b"epoch 1\nepoch 2\n"])
def test_nothing_known_is_never_good(text: bytes) -> None:
    done = explain_input(text, "-")
    assert done.returncode == 3
    assert b"UNDETERMINED" in done.stdout


def test_a_pipe_without_arguments_and_utf16_from_powershell() -> None:
    done = explain_input(b"\xff\xfe" + LOG.replace("\n", "\r\n").encode("utf-16-le"))
    assert done.returncode == 1
    assert b"The line that matters: line 3, from rank1" in done.stdout


def test_gzip_and_several_files(log: Path, tmp_path: Path) -> None:
    packed = tmp_path / "old.log.gz"
    packed.write_bytes(gzip.compress(f"epoch 0\n{NOISE}\n".encode()))
    found = document(envcheck("explain", "--format=json", str(packed), str(log)), "explain")
    assert found["matters"]["file"] == str(log)
    assert found["harmless"][0]["file"] == str(packed)
    assert found["read"]["lines"] == 6


def test_a_truncated_gzip_file_is_said(tmp_path: Path) -> None:
    packed = tmp_path / "train.log.gz"
    packed.write_bytes(
        gzip.compress(LOG.encode() + random.Random(5).randbytes(9000).hex().encode())[:-3000]
    )
    done = envcheck("explain", str(packed))
    assert done.returncode == 1
    assert "is incomplete" in done.stdout


def test_a_hostile_log_does_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "evil\x1b[2J.log"
    path.write_bytes(
        b"\xe2\x80\xae\x9b31m\x07 " + MISMATCH.encode() + b" \x1b]52;c;aGk\x07\x1b[2J\x85 \x00\n"
    )
    done = envcheck("explain", str(path))
    assert done.returncode == 1
    assert "Driver/library version mismatch" in done.stdout
    assert not set(done.stdout) & {"\x1b", "\x07", "\x9b", "\x85", "\u202e", "\x00"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/nowhere/train.log"], "/nowhere/train.log does not exist"),
        ([sys.executable], "not a log"),
        (["--here", "--snapshot", "x.json"], "one machine"),
        (["--follow", "a", "b"], "one file"),
        (["--follow", "/nowhere/train.log"], "does not exist"),
        (["--matrix", "/nowhere", "-"], "/nowhere"),
        (["--snapshot", "/nowhere", "-"], "/nowhere"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(arguments: list[str], said: str) -> None:
    done = envcheck("explain", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_what_cannot_be_read_is_one_json_document() -> None:
    found = document(envcheck("explain", "--format", "json", "/nowhere/train.log"), "error")
    assert found["exit_code"] == 2


def test_with_this_machine_and_with_a_saved_one(log: Path, tmp_path: Path) -> None:
    here = document(envcheck("explain", "--here", "--format", "json", str(log)), "explain")
    assert here["judged"] == "log and machine"
    machine = tmp_path / "machine.json"
    assert envcheck("snapshot", "-o", str(machine)).returncode == 0
    done = envcheck("explain", "--snapshot", str(machine), str(log))
    assert "judged with the machine's facts" in done.stdout


def follow(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "envcheck", "explain", "--follow", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


@pytest.mark.needs("posix")
def test_following_names_the_cause_while_the_file_grows(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("epoch 1\n", encoding="utf-8")
    with follow(path) as process:
        assert process.stdout is not None
        time.sleep(0.4)
        with path.open("a", encoding="utf-8") as stream:
            stream.write(f"{MISMATCH}\nepoch 2\n")
        first = [process.stdout.readline() for _ in range(2)]
        assert first == [f"The line that matters: {path}:2\n", f"  > {MISMATCH}\n"]
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    assert "INCOMPATIBLE" in rest
    assert "Read 3 lines" in rest


@pytest.mark.needs("posix")
def test_following_waits_for_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    with follow(path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert (
            process.stderr.readline() == f"envcheck: {path} does not exist yet; waiting for it.\n"
        )
        path.write_text(f"{MISMATCH}\n", encoding="utf-8")
        assert process.stdout.readline() == f"The line that matters: {path}:1\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 130


def test_following_a_pipe_ends_with_it() -> None:
    done = explain_input(LOG.encode(), "--follow", "-")
    assert done.returncode == 1
    # as soon as it was known, and in the verdict
    assert done.stdout.count(b"The line that matters") == 2
    found = explain_input(LOG.encode(), "--follow", "--format", "json")
    assert found.returncode == 1
    assert found.stdout.count(b"\n") == 1


@pytest.mark.needs("posix")
def test_a_terminal_is_told_what_to_paste() -> None:
    import pty

    outer, inner = pty.openpty()
    command = [sys.executable, "-m", "envcheck", "explain"]
    with subprocess.Popen(
        command, stdin=inner, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        os.close(inner)
        assert process.stderr is not None
        assert "Paste the log" in process.stderr.readline()
        os.write(outer, f"{MISMATCH}\n\x04".encode())
        said, _ = process.communicate(timeout=PATIENCE)
    os.close(outer)
    assert process.returncode == 1
    assert "The line that matters: line 1" in said


def test_a_folder_is_read_as_its_files(tmp_path: Path) -> None:
    assert "a folder without a file" in envcheck("explain", str(tmp_path)).stderr
    (tmp_path / "rank0.log").write_text("step 1\n", encoding="utf-8")
    (tmp_path / "rank1.log").write_text(
        "CUDA error: no kernel image is available for execution on the device\n", encoding="utf-8"
    )
    done = envcheck("explain", str(tmp_path))
    assert done.returncode == 1
    assert "rank1.log:1" in done.stdout


def test_a_cause_outside_the_environment_is_an_outcome_of_its_own(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    frame = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    open("x")\n'
    log.write_text(f"{frame}FileNotFoundError: [Errno 2] No such file: 'x'\n", encoding="utf-8")
    done = envcheck("explain", str(log), "--format", "json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["verdict"]) == (1, "other-cause")
    assert "Not the environment" in found["headline"]
    assert "INCOMPATIBLE" not in envcheck("explain", str(log)).stdout
