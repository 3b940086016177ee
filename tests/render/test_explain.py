"""The explanation of a log as people and programs read it."""

from __future__ import annotations

import json

import pytest

from envcheck.actions import RunCommand, Show
from envcheck.diagnosis import with_steps
from envcheck.explain.judge import Reading
from envcheck.explain.scan import Scan
from envcheck.explain.signatures import Event
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    SYSTEM,
    UNDETERMINED,
    WARNING,
    Evidence,
    Finding,
    Remedy,
    Report,
    Source,
)
from envcheck.render.explain import (
    describe_cause,
    describe_explanation,
    describe_failure,
    render_explanation,
)
from envcheck.render.text import print_document


def event(line: int, text: str, *, count: int = 1, worker: str = "", file: str = "a.log") -> Event:
    return Event("made-up", (("version", "11"),), text, file, line, line + count - 1, count, worker)


def seen(item: Event) -> Evidence:
    return Evidence("log", item.text, Source("file", f"{item.file}:{item.line}", item.text))


NOISE = (
    event(1, "noise one", count=3),
    event(5, "noise two " * 30),
    event(6, "three"),
    event(7, "four"),
)
MATTERS = event(9, "lib\x1b[31m.so: cannot open", count=2, worker="rank1")
OTHER = event(12, "then this")
QUESTION = Remedy("If it is listed, it is hidden.", (Show(("nvidia-smi", "-L")),))
CAUSE = Finding(
    "toolkit-missing",
    INCOMPATIBLE,
    ERROR,
    "No libcudart.",
    (seen(MATTERS), seen(OTHER)),
    Remedy("Install it.", (RunCommand(("apt-get", "install", "cuda"), "installs it", SYSTEM),)),
    primary=True,
)
FINDINGS = (
    CAUSE,
    Finding("gpu-absent", UNDETERMINED, WARNING, "Fits as well.", (), QUESTION),
    Finding("driver-missing", UNDETERMINED, WARNING, "Fits, too.", (), QUESTION),
    Finding(
        "framework-cpu-build",
        INCOMPATIBLE,
        WARNING,
        "Follows.",
        (seen(OTHER),),
        caused_by="toolkit-missing",
    ),
    Finding("benign-noise", COMPATIBLE, NOTE, "Noise.", tuple(map(seen, NOISE))),
)


def reading(
    *findings: Finding, verdict: str = INCOMPATIBLE, machine: bool = False, file: str = "a.log"
) -> Reading:
    events = (*NOISE, MATTERS, OTHER) if findings else ()
    report = with_steps(Report(verdict, "gpu", "In short.", findings, ()))
    return Reading(
        report,
        Scan(events, 1234, 2_345_678, 0),
        (file,),
        ("b.gz: it ends early",),
        with_machine=machine,
    )


def shown(
    capsys: pytest.CaptureFixture[str],
    given: Reading,
    *,
    verbose: bool = False,
    quiet: bool = False,
) -> str:
    print_document(describe_explanation(given, verbose=verbose, quiet=quiet), color=False)
    return capsys.readouterr().out


def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, reading(*FINDINGS)) == (
        "INCOMPATIBLE  In short.\n"
        "\n"
        "The line that matters: a.log:9, from rank1, 2 times until line 10\n"
        "  > lib\ufffd[31m.so: cannot open\n"
        "\n"
        "error: toolkit-missing (the cause)\n"
        "  No libcudart.\n"
        "  seen: log: then this (a.log:12)\n"
        "  fix: Install it.\n"
        "    # installs it\n"
        "    $ apt-get install cuda\n"
        "  or: gpu-absent: Fits as well.\n"
        "  or: driver-missing: Fits, too.\n"
        "  to tell: If it is listed, it is hidden.\n"
        "    $ nvidia-smi -L\n"
        "\n"
        "Harmless: 6 lines\n"
        "  3 x noise one\n"
        f"  {('noise two ' * 30)[:106]} ...\n"
        "  three\n"
        "  and 1 further kind: -v lists them\n"
        "\n"
        "Read 1,234 lines, 2.3 MB; judged by the log alone.\n"
        "If this machine wrote it, --here adds the machine's facts.\n"
        "note: b.gz: it ends early.\n"
        "\n"
        "Type this first:\n"
        "    $ apt-get install cuda\n"
    )


def test_verbose_shows_everything(capsys: pytest.CaptureFixture[str]) -> None:
    page = shown(capsys, reading(*FINDINGS, machine=True), verbose=True)
    assert "four (a.log:7)" in page
    assert "framework-cpu-build (follows from toolkit-missing)" in page
    assert page.count("lib\ufffd[31m.so: cannot open") == 2
    assert "judged with the machine's facts" in page
    assert "--here" not in page


def test_quiet_is_the_verdict_and_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    page = shown(capsys, reading(*FINDINGS), quiet=True)
    assert "toolkit-missing (the cause)" in page
    assert "Harmless" not in page
    assert "Read 1,234" not in page


def test_a_cause_of_the_machine_alone_has_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    given = reading(
        Finding("driver-missing", INCOMPATIBLE, ERROR, "No driver.", (Evidence("driver", "none"),))
    )
    assert given.line is None
    assert shown(capsys, given).startswith("INCOMPATIBLE  In short.\n\nerror: driver-missing\n")


def test_nothing_known(capsys: pytest.CaptureFixture[str]) -> None:
    given = reading(verdict=UNDETERMINED)
    assert given.harmless == ()
    assert shown(capsys, given).startswith("UNDETERMINED  In short.\n\nRead 1,234 lines")


def test_an_unread_fact_is_no_rival(capsys: pytest.CaptureFixture[str]) -> None:
    unread = Finding("probe-failed", UNDETERMINED, WARNING, "nvidia-smi hung.")
    page = shown(capsys, reading(CAUSE, unread))
    assert "undetermined: probe-failed\n  nvidia-smi hung.\n" in page
    assert "  or: " not in page


def test_several_files_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    given = Reading(reading().report, Scan((), 1, 12, 0), ("a", "b"))
    assert "Read 1 line, 12 bytes of 2 files; judged by the log alone." in shown(capsys, given)


def test_the_cause_alone_while_following(capsys: pytest.CaptureFixture[str]) -> None:
    print_document(describe_cause(reading(*FINDINGS)), color=False)
    page = capsys.readouterr().out
    assert page.startswith("The line that matters: a.log:9")
    assert page.endswith("    $ nvidia-smi -L\n")


def test_a_failed_command(capsys: pytest.CaptureFixture[str]) -> None:
    print_document(describe_failure(reading(*FINDINGS), 137), color=False)
    shown = capsys.readouterr().out
    assert shown.startswith(
        "envcheck: the command ended with 137.\n\nThe line that matters: a.log:9"
    )
    assert "Harmless: 6 lines" in shown
    assert "Type this" not in shown


@pytest.mark.parametrize(
    ("findings", "quiet", "said"),
    [
        ((), False, "its output holds nothing known. `envcheck doctor` judges this machine.\n"),
        ((), True, "its output holds nothing known.\n"),
        ((FINDINGS[-1],), True, "its output holds only harmless messages.\n"),
    ],
)
def test_a_failed_command_that_nothing_explains(
    capsys: pytest.CaptureFixture[str], findings: tuple[Finding, ...], quiet: bool, said: str
) -> None:
    print_document(
        describe_failure(reading(*findings, verdict=COMPATIBLE), 1, quiet=quiet), color=False
    )
    assert capsys.readouterr().out == f"envcheck: the command ended with 1; {said}"


def test_colour_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    print_document(describe_explanation(reading(*FINDINGS)), color=True)
    page = capsys.readouterr().out
    assert "\x1b[1;31m" in page
    assert "lib\ufffd[31m.so" in page


def test_json_carries_the_lines() -> None:
    found = json.loads(render_explanation(reading(*FINDINGS, machine=True)))
    assert found["matters"]["line"] == 9
    assert found["judged"] == "log and machine"
    assert [item["line"] for item in found["harmless"]] == [1, 5, 6, 7]
    assert found["plan"]["steps"][0]["argv"] == ["apt-get", "install", "cuda"]
    assert found["read"]["notes"] == ["b.gz: it ends early"]
