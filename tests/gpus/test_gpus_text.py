"""The text listing: on a terminal, piped, with --watch."""

from __future__ import annotations

import io
import sys

import pytest

from envcheck.gpus.fits import Job, judge_fits
from envcheck.gpus.holders import build_views, list_blind_spots
from envcheck.gpus.listing import Listing, judge
from envcheck.model import Absent, GpuActivity, Unknown
from envcheck.render.gpus import describe_listing, render_gpus_json, show_live
from envcheck.render.text import print_document
from tests.gpus.made import GIB, gpu, known, lost, process, scan

SECRET = "python3 train.py --token=hunter2 \x1b[31m"
TRAINER = ((4242, "python3", 8 * GIB),)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def listing(*gpus: GpuActivity, job: Job | None = None) -> Listing:
    seen = scan(process(4242, command_line=SECRET, user="alice", seconds=93784), unreadable=3)
    shown = build_views(gpus, seen, "linux")
    places = judge_fits(job, shown, known(0)) if job else ()
    return Listing(
        "2026-11-21T06:00:00Z",
        known("550.1"),
        known(shown),
        list_blind_spots(gpus, seen, "linux"),
        job,
        places,
    )


def test_command_lines_are_only_in_the_text_and_hold_no_token(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = listing(gpu(processes=TRAINER))
    assert "hunter2" not in render_gpus_json(found)
    assert "alice" not in render_gpus_json(found)
    print_document(describe_listing(found), color=False)
    assert "hunter2" not in capsys.readouterr().out
    print_document(describe_listing(found, verbose=True, quiet=False), color=False)
    output = capsys.readouterr().out
    assert "4242: python3 train.py --token=*** \ufffd[31m" in output
    assert "kill 4242" in output
    assert [line.split()[2:9] for line in output.splitlines() if line.endswith("kill 4242")] == [
        ["alice", "python3", "train.py", "8192", "MiB", "1-02:03:04", "running"]
    ]


@pytest.mark.parametrize(
    ("command_line", "shown"),
    [
        ("python3 -u /home/alice/secret-project/train.py --key hunter2", "python3 train.py"),
        ("/opt/conda/bin/python3.11 -W ignore -m torch.distributed.run train.py", "python3 -m torch.distributed.run"),
        ("python3 -c print('hunter2')", "python3"),
        ("python3", "python3"),
        ("/usr/bin/blender --python hunter2.py", "python3"),
        ("", "python3"),
    ],
)  # fmt: skip
def test_a_python_process_is_shown_with_the_script_that_it_runs(
    command_line: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = scan(process(4242, command_line=command_line, user="alice", seconds=60))
    views = build_views((gpu(processes=TRAINER),), seen, "linux")
    print_document(
        describe_listing(Listing("2026-11-21T06:00:00Z", known("550.1"), known(views))), color=False
    )
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "kill 4242" in line)
    assert line.split("alice")[1].split("8192")[0].strip() == shown


def test_a_terminal_shows_each_reading_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with show_live(color=False) as show:
        show(describe_listing(listing(gpu(processes=TRAINER))))
        show(describe_listing(listing(gpu(processes=TRAINER), lost(1))))
    shown = sys.stdout.getvalue()  # type: ignore[union-attr]
    assert "Fake L4" in shown
    assert "No answer from 1 of 2 GPUs" in shown
    assert "\x1b[2K" in shown  # the first reading is wiped


def test_unknown_is_a_question_mark_and_absent_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    found = listing(
        lost(), gpu(1, mig_enabled=Absent(("not supported",))), job=Job(10**9, activations=100)
    )
    print_document(describe_listing(found), color=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["0", *"?" * 10]
    assert lines[3].split()[-1] == "-"
    assert any(line.split() == ["GPU", "0", "?", "unknown", "-"] for line in lines)
    assert "This user may not see the open files of 3 processes; root may (sudo)." in lines


def test_unexplained_memory_may_be_the_systems_on_grace(capsys: pytest.CaptureFixture[str]) -> None:
    other = {"minor": 1}  # that the trainer has not open
    print_document(describe_listing(listing(gpu(**other))), color=False)
    assert "or one that died.\n" in capsys.readouterr().out
    print_document(
        describe_listing(listing(gpu(name=known("NVIDIA GH200 480GB"), **other))),
        color=False,
    )
    assert "or one that died, or the system's own cache.\n" in capsys.readouterr().out


def test_unexplained_memory_is_put_down_to_the_hidden_process_that_has_the_gpu_open(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_document(describe_listing(listing(gpu())), color=False)
    said = "are in use by no process that the driver lists, but 4242 (python3) has it open.\n"
    assert said in capsys.readouterr().out


def test_quiet_prints_only_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    print_document(describe_listing(listing(gpu()), verbose=False, quiet=True), color=False)
    assert capsys.readouterr().out == "1 GPU read.\n"


@pytest.mark.parametrize(
    ("gpus", "job", "verdict"),
    [
        (Absent(("PCI",)), None, "incompatible"),
        (Unknown("timeout", "NVML: 3 s"), None, "undetermined"),
        (known(build_views((gpu(),), scan(), "linux")), None, "compatible"),
        (known(build_views((gpu(), lost(1)), scan(), "linux")), None, "undetermined"),
        (known(()), Job(1), "undetermined"),
    ],
)
def test_the_verdict_behind_the_exit_code(gpus: object, job: Job | None, verdict: str) -> None:
    found = Listing("now", known("550"), gpus, (), job)  # type: ignore[arg-type]
    assert judge(found)[0] == verdict


def test_a_gpu_with_mig_is_read_where_its_instances_are_readable() -> None:
    denied = Unknown("denied", "NVML: Insufficient Permissions (4)")
    split = gpu(instances=((6 * GIB, GIB),), memory_bytes=denied, memory_used_bytes=denied)
    assert judge(listing(split)) == ("compatible", "1 GPU read.")
    assert judge(listing(gpu(memory_bytes=denied)))[0] == "undetermined"


def test_a_job_that_fits_one_gpu_is_a_success() -> None:
    assert judge(listing(lost(), gpu(1), job=Job(1000)))[0] == "compatible"
    assert judge(listing(lost(), gpu(1), job=Job(10**12)))[0] == "undetermined"
    assert judge(listing(gpu(1), job=Job(10**12)))[0] == "incompatible"
