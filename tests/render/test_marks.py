"""A mark and a colour for each line of a terminal, the verdict first, and what to type last."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.actions import AskPerson, InstallPackages, Reboot
from envcheck.diagnosis import with_steps
from envcheck.model import SCHEMA_VERSION, Facts, Finding, Remedy, Report, Snapshot, replace
from envcheck.render.json_contracts import render_snapshot
from envcheck.render.text import COLORS, LOOKS
from tests.hosts.test_hosts import snapshot_of
from tests.render.shown import print_text
from tests.terminals import read_until

WHITE, BLACK = (255, 255, 255), (0, 0, 0)
INSTALL = InstallPackages(("numpy<2",), "python")


def luminance(color: tuple[int, int, int]) -> float:
    """As https://www.w3.org/TR/WCAG21/#dfn-relative-luminance says."""
    parts = [part / 255 for part in color]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def color_of(number: int) -> tuple[int, int, int]:
    """Return one of the 216 colours between the 16 of a theme and the greys, as xterm and all others draw it."""
    red, green, blue = (
        (0, 95, 135, 175, 215, 255)[(number - 16) // step % 6] for step in (36, 6, 1)
    )
    return red, green, blue


@pytest.mark.parametrize("name", COLORS)
def test_every_colour_is_read_on_white_and_on_black(name: str) -> None:
    for background in (WHITE, BLACK):
        assert contrast(color_of(COLORS[name]), background) >= 3.9


def test_every_mark_has_a_colour_that_is_read() -> None:
    assert {word for _, _, style in LOOKS.values() for word in style.split()} - {"bold"} == {
        *COLORS
    }


def finding(name: str, severity: str = "error", fix: Remedy | None = None) -> Finding:
    return Finding(name, "incompatible", severity, f"{name} is wrong.", fix=fix)


def printed(
    *findings: Finding, verdict: str = "incompatible", fix_command: tuple[str, ...] = ()
) -> list[str]:
    """Return the lines of a report on a machine of which nothing was read."""
    report = with_steps(Report(verdict, "gpu", "In short.", findings, ("driver-too-old",)))
    stream, kept = io.StringIO(), sys.stdout
    sys.stdout = stream
    try:
        snapshot = Snapshot(SCHEMA_VERSION, "0", "host", "2026-01-01T00:00:00Z", Facts())
        print_text(
            replace(report, fix_command=fix_command),
            snapshot,
            color=False,
            verbose=False,
            quiet=False,
        )
    finally:
        sys.stdout = kept
    return stream.getvalue().splitlines()


ONE = finding("numpy-abi", fix=Remedy("Install it.", (INSTALL,)))
TWO = finding("driver-too-old", fix=Remedy("Update it.", (Reboot(),)))


def test_the_verdict_comes_first_then_what_is_wrong_then_the_machine() -> None:
    bad = printed(ONE)
    assert bad[:3] == ["INCOMPATIBLE  In short.", "", "error: numpy-abi"]
    assert bad[-1] == "1 check: 1 problem."
    assert bad[-3].startswith("Frameworks ")
    good = printed(verdict="compatible")
    assert good[0] == "COMPATIBLE  In short."
    assert good[-2:] == ["", "1 check: no problems."]


def test_the_last_line_is_what_to_type() -> None:
    command = "    $ python -m pip install 'numpy<2'"
    assert printed(ONE).count(command) == 1  # with its finding: nothing else is to be typed
    assert (
        printed(finding("libdevice-missing", "warning", ONE.fix), verdict="compatible").count(
            command
        )
        == 1
    )
    assert printed(ONE, TWO)[-2:] == ["Type this first:", command]
    assert printed(ONE, finding("gpu-absent", "note")).count(command) == 1


def test_the_command_that_takes_all_steps_is_shown_once() -> None:
    told = printed(
        ONE, finding("keras-mismatch", fix=Remedy("Install it.", (INSTALL,))), fix_command=("fix",)
    )
    assert told[-2:] == ["Type this:", "    $ envcheck fix"]
    assert told.count("    $ envcheck fix") == 1


def test_where_no_command_helps_the_sentence_is_printed_once() -> None:
    asked = Remedy("Use a newer GPU.", (AskPerson("Use a newer GPU."),))
    lines = printed(finding("gpu-arch-too-old", fix=asked), finding("gpu-absent", "note"))
    assert [line for line in lines if "newer GPU" in line] == ["  fix: Use a newer GPU."]


def test_nothing_to_type_is_invented() -> None:
    note = finding("framework-missing", "note", Remedy("Install one.", (INSTALL,)))
    assert "Type this" not in "\n".join(printed(note, verdict="compatible"))
    assert "    $ " not in "\n".join(printed(finding("probe-failed"), verdict="undetermined"))


def shown(saved: Path, *options: str, **variables: str) -> str:
    """Return what a terminal receives from the doctor."""
    ours, theirs = pty.openpty()
    environment = {
        "PATH": os.environ["PATH"],
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        **variables,
    }
    argv = [sys.executable, "-m", "envcheck", "doctor", "--snapshot", str(saved), *options]
    with subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        told = read_until(ours, b"\x00")
    os.close(ours)
    return told.decode("utf-8")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "machine.json"
    path.write_text(render_snapshot(snapshot_of("cudnn-missing")), encoding="utf-8")
    return path


@pytest.mark.needs("posix")
def test_each_line_of_the_machine_has_a_mark_and_what_is_wrong_a_word(saved: Path) -> None:
    text = shown(saved, COLUMNS="120")
    for line in (
        "\u2717 INCOMPATIBLE",
        "\u2713 GPU",
        "\u2713 Driver",
        "\u2717 cuDNN",
        "\u2717 error:",
    ):
        assert line in text
    assert "Compiler" not in text  # not there, and no part of the problem
    assert "(error: cudnn-missing)" in text
    assert "\x1b[1;38;5;196m" in text


@pytest.mark.needs("posix")
@pytest.mark.parametrize(
    "variables",
    [{"LANG": "C"}, {"LC_ALL": "POSIX"}, {"TERM": "dumb"}, {"PYTHONIOENCODING": "ascii"}],
    ids=str,
)
def test_a_terminal_that_asks_for_ascii_gets_ascii(saved: Path, variables: dict[str, str]) -> None:
    text = shown(saved, **variables)
    assert text.isascii()
    assert "x INCOMPATIBLE" in text.replace("\x1b[1;38;5;196m", "")
    assert "+ GPU" in text.replace("\x1b[1;38;5;28m", "")


@pytest.mark.needs("posix")
def test_no_color_leaves_the_marks(saved: Path) -> None:
    text = shown(saved, NO_COLOR="1")
    assert "\x1b[" not in text
    assert "\u2717 INCOMPATIBLE  tensorflow" in text
