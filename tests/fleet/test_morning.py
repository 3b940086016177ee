"""The morning: what the first screen names, what is new and what cleared, and what is drained."""

from __future__ import annotations

import json
import random
import re
import shlex
import sqlite3
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from envcheck.actions import UninstallPackages
from envcheck.fleet.history import (
    Changes,
    HistoryError,
    list_undetermined,
    parse_since,
    store_report,
)
from envcheck.fleet.report import HostRow, count_parts, judge_folder
from envcheck.fleet.results import (
    HISTORY,
    UNREACHABLE,
    Failure,
    HostResult,
    list_answered_hosts,
    read_result,
    write_result,
)
from envcheck.matrix import load_matrix
from envcheck.model import Remedy, UserError, replace
from envcheck.render.fleet import describe_fleet, render_drain
from envcheck.render.text import print_document
from envcheck.rules import Target
from tests.fleet.clusters import CLUSTERS, EXPECTED, Answers
from tests.fleet.command import document, fleet
from tests.fleet.made import make
from tests.hosts.test_hosts import snapshot_of

DAY = 86400
NOW = datetime(2026, 11, 27, 6, 5).astimezone()


def local(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc).astimezone()


def read_screen(text: str) -> dict[str, list[str]]:
    """Read a first screen: the title of each section without counts, and the hosts that it names."""
    sections: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines()[1:]:
        if line and not line.startswith(" "):
            title = re.sub(r"^[A-Z]+  |: .*|:$", "", line)
        elif title and not title.startswith("Type this first"):
            for part in line.strip().split(": ")[0].split(", "):
                if re.fullmatch(r"(gpu|node|ws|login|a100-|l40s-)\d+", part):
                    sections.setdefault(title, []).append(part)
    return {name: sorted(hosts) for name, hosts in sections.items()}


@pytest.mark.parametrize("compose", CLUSTERS, ids=lambda compose: compose.__name__)
def test_the_first_screen_names_each_trouble_and_nothing_else(
    compose: Callable[[], Answers], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = compose()
    for host, answer in answers.items():
        write_result(tmp_path, HostResult(host, answer))
    rows = judge_folder(tmp_path, load_matrix(), Target())
    print_document(describe_fleet(rows), color=False)
    text = capsys.readouterr().out
    expected = EXPECTED[compose.__name__]
    assert read_screen(text) == {name: sorted(hosts) for name, hosts in expected.items()}
    troubled = {host for hosts in expected.values() for host in hosts}
    assert {host for host in answers if re.search(rf"\b{host}\b", text)} == troubled


def row(host: str, cause: str = "", verdict: str = "", *also: str) -> HostRow:
    verdict = verdict or ("incompatible" if cause else "compatible")
    return HostRow(host, verdict, cause, "m", also=tuple((name, "compatible") for name in also))


def store(
    file: Path, day: int, *rows: HostRow, upto: int | None = None
) -> tuple[dict[str, int], Changes | None]:
    found, changes = store_report(file, list(rows), "auto", day * DAY, upto)
    return {each.host: each.since // DAY for each in found}, changes


def test_what_is_new_what_cleared_and_since_when(tmp_path: Path) -> None:
    file = tmp_path / HISTORY
    assert store(file, 1, row("a", "x"), row("b"), row("c", "y"), row("d"), upto=0) == (
        {"a": 0, "b": 0, "c": 0, "d": 0},
        None,
    )
    store(file, 2, row("a", "x"), row("b", "z"), row("c", "y"), row("d"))
    since, changes = store(file, 3, row("a", "x"), row("b"), row("c"), row("e", "y"), upto=DAY)
    assert since == {"a": 1, "b": 3 - 3, "c": 0, "e": 0}
    assert changes == Changes(
        DAY, False, {"y": ("e",)}, {"y": ("c",)}, {"z": ("b",)}, ("d",)
    )  # fmt: skip
    _, changes = store(file, 4, row("a", "x"), row("b"), row("c"), row("e", "y"), upto=0)
    assert changes is not None
    assert (changes.since, changes.is_oldest) == (DAY, True)
    _, changes = store(file, 5, row("a", "x"), row("b"), row("c"), row("e", "y"), upto=9 * DAY)
    assert changes == Changes(4 * DAY, False, {}, {}, {}, ())


def test_a_host_that_does_not_answer_has_cleared_nothing(tmp_path: Path) -> None:
    file = tmp_path / HISTORY
    store(file, 1, row("a", "x", "", "w"))
    _, changes = store(file, 2, row("a", "unreachable", "undetermined"), upto=DAY)
    assert changes is not None
    assert (changes.new, changes.cleared) == ({"unreachable": ("a",)}, {})
    assert list_undetermined(file) == {"a"}
    since, changes = store(file, 3, row("a", "x"), upto=2 * DAY)
    assert since == {"a": 1}
    assert changes is not None
    assert (changes.new, changes.cleared) == ({}, {"unreachable": ("a",), "w": ("a",)})
    assert list_undetermined(file) == set()


def test_another_question_has_a_history_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / HISTORY
    store_report(file, [row("a", "x")], "auto", DAY)
    rows, changes = store_report(file, [row("a")], "auto torch", 2 * DAY, DAY)
    assert (rows[0].since, changes) == (0, None)


def test_a_clock_that_goes_back_keeps_the_order(tmp_path: Path) -> None:
    file = tmp_path / HISTORY
    store(file, 9, row("a", "x"))
    rows, changes = store_report(file, [row("a", "x"), row("\udcff", "y")], "auto", DAY, 99 * DAY)
    assert rows[0].since == 9 * DAY
    assert changes is not None
    assert changes.new == {"y": ("\\udcff",)}


def test_what_is_older_than_it_is_kept_for_goes(tmp_path: Path) -> None:
    file = tmp_path / HISTORY
    store_report(file, [row("a", "v")], "another question", DAY)
    for day in (1, 2, 500):
        store(file, day, row("a", "x" if day == 1 else ""), row("b", "z"))
    base = sqlite3.connect(file)
    assert base.execute("SELECT at FROM reports").fetchall() == [(500 * DAY,)]
    assert {found for (found,) in base.execute("SELECT finding FROM spells")} == {"", "z"}


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("yesterday", "2026-11-26 23:59:59"),
        ("1d", "2026-11-26 23:59:59"),
        ("2w", "2026-11-13 23:59:59"),
        ("2026-11-20", "2026-11-20 23:59:59"),
        ("2026-11-20T06:00", "2026-11-20 06:00:00"),
        ("12h", "2026-11-26 18:05:00"),
    ],
)
def test_a_day_means_its_last_report(text: str, day: str) -> None:
    assert f"{local(parse_since(text, NOW)):%Y-%m-%d %H:%M:%S}" == day


@pytest.mark.parametrize(
    "text", ["today!", "3 d", "2026-13-01", "99999w", "1e9d", "-1d", "9999-12-31T99", "٣d٣"]
)
def test_another_time_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="write yesterday, a date"):
        parse_since(text, NOW)


def is_refused(file: Path, hosts: list[HostRow]) -> bool:
    """Store a report in a damaged file; any error but a sentence about the file goes on."""
    try:
        store(file, 2, *hosts, upto=DAY)
    except HistoryError as error:
        return str(error).startswith(f"{file} cannot be used as the history: ")
    return False


def test_a_damaged_history_is_a_sentence_and_is_not_written_to(tmp_path: Path) -> None:
    file, chance = tmp_path / HISTORY, random.Random(7)
    hosts = [row(f"h{number}", "x") for number in range(300)]
    store(file, 1, *hosts)
    good, refused = file.read_bytes(), 0
    for number in range(150):
        bad = bytearray(good)
        for _ in range(20):
            bad[chance.randrange(len(bad))] = chance.randrange(256)
        file.write_bytes(bytes(bad) if number % 5 else good[: chance.randrange(len(good))])
        refused += is_refused(file, hosts)
    assert refused > 50
    other = sqlite3.connect(tmp_path / "other")
    other.execute("CREATE TABLE mine (a)")
    other.close()
    with pytest.raises(HistoryError, match="not a history"):
        store(tmp_path / "other", 1, *hosts)


def test_a_failed_report_leaves_the_history_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / HISTORY
    store(file, 1, row("a", "x"))

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("envcheck.fleet.history._compare", fail)
    with pytest.raises(KeyboardInterrupt):
        store(file, 2, row("a", "y"), upto=DAY)
    monkeypatch.undo()
    since, _ = store(file, 3, row("a", "x"))
    assert since == {"a": 1}


def test_a_host_that_died_overnight_does_not_simply_work(tmp_path: Path) -> None:
    for host in ("a", "b"):
        write_result(tmp_path, HostResult(host, snapshot_of("docker-with-gpu")))
    write_result(tmp_path, HostResult("b", Failure(UNREACHABLE, "No route to host.")))
    rows = {each.host: each for each in judge_folder(tmp_path, load_matrix(), Target())}
    assert (rows["b"].verdict, rows["b"].cause) == ("undetermined", "unreachable")
    day = f"{local(time.time()):%Y-%m-%d}"
    assert rows["b"].message == f"No route to host. Its snapshot of {day} is kept."
    assert list_answered_hosts(tmp_path) == {"a"}
    write_result(tmp_path, HostResult("b", snapshot_of("docker-with-gpu")))
    assert not isinstance(read_result(tmp_path / "b.json").answer, Failure)


def test_slurm_drains_what_is_incompatible_and_never_what_is_undetermined() -> None:
    of_environment = Remedy("Install torch.", (UninstallPackages(("torch",), "/usr/bin/python3"),))
    hostile = row("gpu[1-9]", "x"), row("ALL", "x"), row("a;reboot", "x"), row("b\n", "x")
    lines = render_drain(
        [
            HostRow("gpu1", "incompatible", "x", "it's\nbroken; $(reboot) " + "n" * 300),
            *hostile,
            row("gpu2", "unreachable", "undetermined"),
            row("gpu3"),
            replace(row("gpu4", "framework-cpu-build"), fix=of_environment),
        ]
    ).splitlines()
    words = shlex.split(lines[0])
    assert words[:4] == ["scontrol", "update", "NodeName=gpu1", "State=DRAIN"]
    assert words[4].startswith("Reason=envcheck: x: it's broken; $(reboot) nnn")
    assert len(words) == 5
    assert len(words[4]) == len("Reason=") + 100
    assert [line.startswith("# no name of a node: ") for line in lines[1:]] == [True] * 4


def test_the_command_compares_with_yesterday(tmp_path: Path) -> None:
    make(tmp_path / "out", "gpu001", "gpu003", "gpu004")
    ago = int(time.time()) - DAY
    old = [row("gpu001", "driver-missing"), row("gpu003"), row("gpu002")]
    store_report(tmp_path / "out" / HISTORY, old, "auto torch==2.6.0", ago)
    question = ("report", "out", "--for", "torch==2.6.0", "--since", "yesterday")
    text = fleet(*question, cwd=tmp_path).stdout
    moment = f"{local(ago):%Y-%m-%d %H:%M}"
    assert (
        f"Since the report of {moment}:\n"
        "  new: driver-too-old on gpu003\n"
        "  new: unreachable on gpu004\n"
        "  cleared: driver-missing on gpu001\n"
        "  not listed any more: gpu002\n"
    ) in text
    found = document(fleet(*question, "--format", "json", cwd=tmp_path))
    assert found["changes"]["new"] == {"driver-too-old": ["gpu003"], "unreachable": ["gpu004"]}
    assert [host["since"] is None for host in found["hosts"]] == [False] * 3
    assert (
        found["drivers"]
        == count_parts(judge_folder(tmp_path / "out", load_matrix(), Target()))["drivers"]
    )
    assert sum(found["gpus"].values()) > 0
    assert fleet(*question, "--format", "drain", cwd=tmp_path).stdout == "", "another torch helps"
    write_result(tmp_path / "out", HostResult("gpu009", snapshot_of("no-driver")))
    drain = fleet(*question, "--format", "drain", cwd=tmp_path).stdout.splitlines()
    assert [shlex.split(line)[2] for line in drain] == ["NodeName=gpu009"]
    page = fleet(*question, "--html", "page.html", "-q", cwd=tmp_path)
    assert page.returncode == 1
    assert "cleared: driver-missing on gpu001" in (tmp_path / "page.html").read_text("utf-8")


def test_a_history_that_cannot_be_used_stops_only_a_report_that_asks_for_it(tmp_path: Path) -> None:
    make(tmp_path / "out", "gpu001")
    (tmp_path / "out" / HISTORY).write_bytes(b"no database" * 100)
    done = fleet("report", "out", cwd=tmp_path)
    assert done.returncode == 0
    assert "history.sqlite cannot be used as the history: file is not a database" in done.stderr
    for more in (("--since", "yesterday"), ("--history", f"out/{HISTORY}"), ("--since", "soon")):
        done = fleet("report", "out", *more, cwd=tmp_path)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    done = fleet("report", "out", "--history", "own", "--since", "1d", cwd=tmp_path)
    assert "No earlier report is stored in own" in done.stderr
    assert json.loads(fleet("report", "out", "--history=own", "--json", cwd=tmp_path).stdout)


@pytest.mark.needs("posix")
def test_a_further_run_asks_what_the_last_report_could_not_judge(tmp_path: Path) -> None:
    first = fleet("run", "--engine", "local", "-o", "out", cwd=tmp_path)
    assert first.returncode == 0
    store_report(
        tmp_path / "out" / HISTORY, [row("localhost", "probe-failed", "undetermined")], "auto", 1
    )
    second = fleet("run", "--engine", "local", "-o", "out", cwd=tmp_path)
    assert second.stderr.splitlines()[0] == "1 host to ask"
