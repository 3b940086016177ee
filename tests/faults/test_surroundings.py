"""An odd environment around the program: streams, locale, HOME, interrupts, thousands of search entries."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.faults.doctor import Run, doctor, envcheck, environment, hold_to_its_word
from tests.host.programs import is_gone, write_script
from tests.patience import FOREVER, PATIENCE, patient_command, wait_for

pytestmark = pytest.mark.needs("linux")
FORMATS = ["text", "json"]


def in_shell(redirection: str, form: str) -> Run:
    line = (
        f"set -o pipefail; {shlex.join(patient_command('doctor', '--format', form))} {redirection}"
    )
    argv = ["bash", "-c", line]
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=False)
    return Run(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("redirection", [">&-", "<&-", "2>&-", ">&- 2>&-"])
def test_closed_streams(redirection: str, form: str) -> None:
    run = in_shell(redirection, form)
    hold_to_its_word(run)
    assert run.stderr == ""


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("redirection", [">/dev/full", ">/dev/full 2>/dev/full"])
def test_a_report_that_cannot_be_written_is_an_error_not_a_verdict(
    redirection: str, form: str
) -> None:
    run = in_shell(redirection, form)
    assert run.code == 5
    assert run.stderr in ("envcheck: cannot write the report: No space left on device\n", "")
    assert bool(run.stderr) == ("2>" not in redirection)


@pytest.mark.parametrize("home", ["/nowhere", "/dev/null", "/proc", ""])
def test_an_unwritable_home(home: str) -> None:
    run = doctor(changes={"HOME": home, "XDG_CACHE_HOME": "/nowhere/cache"})
    assert run.report["verdict"] == doctor().report["verdict"]


@pytest.mark.parametrize("form", FORMATS)
def test_the_c_locale_and_non_ascii_names(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "cuda-\u00e9\u4e2d"
    (folder / "bin").mkdir(parents=True)
    write_script(folder / "bin" / "nvcc", 'echo "Cuda compilation tools, release 12.4, V12.4.131"')
    for extra in (
        {},
        {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
    ):
        changes = {"LC_ALL": "C", "PATH": f"{folder}/bin:{os.environ['PATH']}", **extra}
        run = envcheck("doctor", "-v", "--format", form, changes=changes)
        assert "12.4" in run.stdout


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/cuda-\xff"
    Path(os.fsdecode(folder), "bin").mkdir(parents=True)
    write_script(
        Path(os.fsdecode(folder)) / "bin" / "nvcc",
        'echo "Cuda compilation tools, release 12.4, V12.4.131"',
    )
    entry = os.fsdecode(folder + b"/bin")
    for form in FORMATS:
        run = envcheck(
            "doctor", "-v", "--format", form, changes={"PATH": f"{entry}:{os.environ['PATH']}"}
        )
        assert "12.4" in run.stdout


def test_thousands_of_search_entries(tmp_path: Path) -> None:
    nowhere = ":".join(f"/n/{index:04}" for index in range(10_000))
    run = doctor(changes={"PATH": f"{nowhere}:{os.environ['PATH']}", "LD_LIBRARY_PATH": nowhere})
    assert run.report["verdict"]
    own = Path("/tmp", f"{os.getpid():x}")
    try:
        # folders that exist, as long a list as an environment variable may hold
        for index in range(2_500):
            (own / f"{index:04}").mkdir(parents=True)
        there = ":".join(f"{own}/{index:04}" for index in range(2_500))
        doctor(changes={"PATH": f"{there}:{os.environ['PATH']}", "LD_LIBRARY_PATH": there})
    finally:
        subprocess.run(["rm", "-rf", str(own)], check=True)


@pytest.mark.parametrize("delay", [0.02, 0.05, 0.08, 0.11, 0.14, 0.2, 0.5])
def test_an_interrupt_ends_it_and_leaves_nothing(tmp_path: Path, delay: float) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("nvidia-smi", "nvcc", "gcc", "g++", "clang"):
        write_script(tools / name, f"echo $$ >> {tmp_path}/pids; exec sleep {FOREVER}")
    changes = environment({"PATH": f"{tools}:{os.environ['PATH']}"})
    started = subprocess.Popen(
        patient_command("doctor"), env=changes, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    if delay >= 0.1:
        wait_for((tmp_path / "pids").exists, "the first program")
    time.sleep(delay)
    started.send_signal(signal.SIGINT)
    stdout, stderr = started.communicate(timeout=PATIENCE)
    # before that, Python itself may still be starting, and answers in its own words
    if delay >= 0.1:
        assert (started.returncode, stdout) == (130, b"")
        assert b"Traceback" not in stderr
        assert stderr.strip() == b"envcheck: Interrupted."
    time.sleep(0.1)
    pids = (
        (tmp_path / "pids").read_text(encoding="utf-8").split()
        if (tmp_path / "pids").exists()
        else []
    )
    assert [pid for pid in pids if not is_gone(int(pid))] == []
