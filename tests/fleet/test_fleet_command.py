"""`envcheck fleet run` and `fleet report` at the command line."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from envcheck.cli.fleet import _Progress
from envcheck.fleet.report import WORST_FIRST, HostRow, choose_verdict
from envcheck.fleet.results import Failure, HostResult
from envcheck.model import Unknown, replace
from tests.fleet.command import document, fleet
from tests.fleet.made import MEMBERS, WORKING, make
from tests.hosts.test_hosts import snapshot_of


@pytest.mark.needs("posix")
def test_the_local_engine_reads_this_machine(tmp_path: Path) -> None:
    first = fleet("run", "--engine", "local", "-o", "out", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert first.stderr.splitlines() == [
        "1 host to ask",
        "[1/1] localhost: read",
        "1 host read, 0 without an answer.",
    ]
    second = fleet("run", "--engine", "local", "-o", "out", cwd=tmp_path)
    assert second.stderr.splitlines()[0] == "0 hosts to ask"
    assert (
        second.stderr.splitlines()[-1]
        == "0 hosts read, 0 without an answer, 1 had answered before."
    )
    third = fleet(
        "run", "--engine", "local", "-o", "out", "--again", "--format", "json", cwd=tmp_path
    )
    found = document(third, "fleet-run")
    assert (found["folder"], found["before"]) == ("out", 0)
    assert found["hosts"] == [{"host": "localhost", "answer": "read", "reason": "", "timeouts": []}]
    report = fleet("report", "out", "--format", "json", cwd=tmp_path)
    (host,) = document(report)["hosts"]
    assert host["host"] == "localhost"
    assert host["machine"]["Python"] != "none"


def test_a_host_that_was_read_in_part_is_said_until_it_is_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = snapshot_of("docker-with-gpu")
    part = replace(whole, facts=replace(whole.facts, gpus=Unknown("timeout", "did not finish")))
    progress = _Progress(quiet=False)
    progress.start(["a", "b", "c"])
    for host in ("a", "b", "c"):
        progress.add(HostResult(host, part))
    progress.start(["a", "b", "c"])
    progress.add(HostResult("a", whole))
    progress.add(HostResult("b", Failure("hung", "no answer")))
    progress.add(HostResult("c", part))
    assert (progress.failed, progress.timeouts) == (0, {"b": ("gpus",), "c": ("gpus",)})
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == "[1/3] a: read in part; these took too long: gpus"
    assert lines[4] == "3 hosts to ask again: they took too long"
    assert lines[-2:] == [
        "[2/3] b: hung: no answer",
        "[3/3] c: read in part; these took too long: gpus",
    ]


@pytest.mark.needs("posix")
def test_this_machine_without_python_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    done = fleet(
        "run",
        "--engine",
        "local",
        "-o",
        "out",
        cwd=tmp_path,
        env={"PATH": str(tmp_path / "nothing")},
    )
    assert done.returncode == 3
    assert "[1/1] localhost: too-old" in done.stderr
    nothing = {"PATH": str(tmp_path / "nothing")}
    done = fleet(
        "run", "--engine", "local", "-o", "out", "--format", "json", cwd=tmp_path, env=nothing
    )
    (row,) = document(done, "fleet-run")["hosts"]
    assert (done.returncode, row["answer"]) == (3, "too-old")
    assert "no Python 3.8" in row["reason"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "name the inventory"),
        (["run", "-i", "nowhere.ini"], "there is no inventory nowhere.ini"),
        (["run", "--engine", "local", "-o", "file"], "cannot write to file"),
        (["report", "nowhere"], "there is no folder nowhere"),
        (["report", "empty"], "empty holds no host's file. Take them: envcheck fleet run"),
        (
            ["report", "out", "--golden", "gpu999"],
            "--golden gpu999: out holds no snapshot of that host",
        ),
        (["report", "out", "--golden", "gpu004"], "--golden gpu004: out holds no snapshot"),
        (["report", "out", "--for", "torch @ https://example.org/x.whl"], "torch"),
        (["report", "out", "--matrix", "nowhere.json"], "nowhere.json"),
        (["report", "out", "--html", "nowhere/fleet.html"], "cannot write nowhere/fleet.html"),
        (["report"], "Missing argument"),
    ],
    ids=lambda value: "-".join(value)[:40] if isinstance(value, list) else "",
)
def test_errors_are_one_sentence_or_one_document(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("", encoding="utf-8")
    make(tmp_path / "out", "gpu001", "gpu004")
    done = fleet(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    if arguments != ["report"]:
        found = document(fleet(*arguments, "--format", "json", cwd=tmp_path), "error")
        assert message in found["error"]
        assert found["exit_code"] == 2


@pytest.mark.parametrize(
    ("hosts", "code"),
    [
        (["gpu001", "gpu002"], 0),
        (["gpu001", "gpu005"], 3),
        (["gpu006"], 3),
        (["gpu001", "gpu003"], 1),
        (["gpu001", "gpu003", "gpu004"], 1),
    ],
)
def test_the_exit_code_is_that_of_the_worst_host(
    hosts: list[str], code: int, tmp_path: Path
) -> None:
    make(tmp_path / "out", *hosts)
    done = fleet("report", "out", "--for", "torch==2.6.0", cwd=tmp_path)
    assert done.returncode == code, done.stdout


def test_verdicts_rank_like_their_exit_codes() -> None:
    """Of many machines, in the order 5, 4, 1, 3, 0: a report judges, so no step can have failed."""
    rows = [HostRow(verdict, verdict, "", "") for verdict in reversed(WORST_FIRST)]
    assert choose_verdict(rows) == "incompatible"
    assert choose_verdict(rows[:2]) == "undetermined"
    assert choose_verdict(rows[:1]) == "compatible"
    assert choose_verdict([]) == "undetermined"


def test_the_document_names_every_host_once(tmp_path: Path) -> None:
    make(tmp_path / "out")
    found = document(fleet("report", "out", "--format", "json", "--golden", "gpu001", cwd=tmp_path))
    assert [host["host"] for host in found["hosts"]] == sorted(
        MEMBERS, key=[h["host"] for h in found["hosts"]].index
    )
    assert sorted(host for group in found["groups"] for host in group["hosts"]) == sorted(MEMBERS)
    rows = {host["host"]: host for host in found["hosts"]}
    assert {name: rows[name]["cause"] for name in ("gpu004", "gpu005", "gpu006", "gpu007")} == {
        "gpu004": "unreachable", "gpu005": "hung", "gpu006": "too-old", "gpu007": "broken",
    }  # fmt: skip
    assert rows["gpu002"]["drift"] == []
    assert any(item.startswith("Driver: 470.") for item in rows["gpu003"]["drift"])
    assert found["golden"] == "gpu001"


def test_the_table_groups_by_verdict_and_cause(tmp_path: Path) -> None:
    make(tmp_path / "out")
    done = fleet("report", "out", "--for", "torch==2.6.0", "--golden", "gpu001", cwd=tmp_path)
    text = done.stdout
    assert text.startswith(
        "INCOMPATIBLE  7 hosts: 2 compatible, 1 incompatible, 4 undetermined.\n\n"
    )
    assert "\nINCOMPATIBLE  driver-too-old: 1 host\n  torch 2.6.0" in text
    assert "works: 2 hosts" not in text, "the first screen names troubles alone"
    assert re.search(r"\nDriver differs:\n  golden host gpu001: .*\n  gpu003: 470\.", text)
    assert "\nType this first, on gpu003:\n    $ " in text
    assert "\x1b" not in text
    assert "\x07" not in text
    verbose = fleet("report", "out", "-v", cwd=tmp_path).stdout
    assert "  gpu004: No route to host\n" in verbose
    assert "COMPATIBLE  works: " in verbose
    assert all(f"\n  {host}: " in verbose for host in WORKING)
    quiet = fleet("report", "out", "-q", "--color", "always", cwd=tmp_path).stdout
    assert quiet.count("\n") == 1
    assert quiet.startswith("\x1b[1;35m? UNDETERMINED  \x1b[0m7 hosts: ")


def test_the_csv_has_a_line_per_host_and_no_active_cell(tmp_path: Path) -> None:
    make(tmp_path / "out")
    for host in ("=HYPERLINK(1)", "+1", "-1", "@SUM(1)", "\t=1", "\uff1d1"):
        (tmp_path / "out" / f"{host}.json").write_text(
            '{"schema": "envcheck/fleet-failure/1"}', encoding="utf-8"
        )
    done = fleet(
        "report", "out", "--format", "csv", cwd=tmp_path, env={"PYTHONIOENCODING": "utf-8"}
    )
    rows = list(csv.reader(io.StringIO(done.stdout)))
    assert rows[0][:4] == ["host", "verdict", "cause", "message"]
    assert len(rows) == 1 + len(MEMBERS) + 6
    cells = [cell for row in rows for cell in row]
    assert {"'=HYPERLINK(1)", "'+1", "'-1", "'@SUM(1)", "' =1", "'\uff1d1"} <= set(cells)
    assert [cell for cell in cells if cell.lstrip()[:1] in {"=", "+", "-", "@", "\uff1d"}] == []
    assert "\x1b" not in done.stdout


def test_a_page_is_written_with_the_report(tmp_path: Path) -> None:
    make(tmp_path / "out")
    done = fleet("report", "out", "--html", "fleet.html", "--format", "json", cwd=tmp_path)
    assert (
        document(done)["verdict"] == "incompatible" or document(done)["verdict"] == "undetermined"
    )
    assert done.stderr == "The page: fleet.html\n"
    assert json.dumps("gpu007") in (tmp_path / "fleet.html").read_text(encoding="utf-8")
