"""The folder of results: any name, any content, never an error."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from envcheck.diagnosis import diagnose, with_remedies
from envcheck.fleet.report import judge_folder
from envcheck.fleet.results import (
    BROKEN,
    HUNG,
    LIMIT,
    SNAPSHOT,
    UNREACHABLE,
    Failure,
    FleetListener,
    FleetRequest,
    HostResult,
    get_saved_name,
    list_answered_hosts,
    list_result_files,
    list_timeouts,
    make_file_name,
    parse_answer,
    parse_file,
    read_result,
    write_result,
)
from envcheck.fleet.run import ENGINES, run_fleet
from envcheck.matrix.load import load_matrix
from envcheck.model import Report, Snapshot, Unknown, replace
from envcheck.remedies.situation import Situation
from envcheck.render.fleet import (
    describe_fleet,
    render_fleet_csv,
    render_fleet_html,
    render_fleet_json,
)
from envcheck.render.text import print_document
from envcheck.rules import Context, Target, evaluate
from tests.fleet.hostile import document, mutated
from tests.hosts.test_hosts import snapshot_of
from tests.work import assert_linear


def read_results(folder: Path) -> list[HostResult]:
    return [read_result(path) for path in list_result_files(folder)]


NAMES = [
    "gpu001",
    "gpu001.example.org",
    "../../x",
    "/etc/passwd",
    "..",
    ".hidden",
    "a/b\\c:d|e",
    "tab\there\nline",
    "\x1b[31mred",
    "$(reboot)`id`;",
    "{{ lookup('pipe', 'id') }}",
    "größe 東京",
    "x.json",
    "%2e%2e",
    "--help",
    "CON",
]


@pytest.mark.parametrize("host", NAMES, ids=ascii)
def test_a_host_of_any_name_has_a_file_in_the_folder(host: str, tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    write_result(folder, HostResult(host, Failure(HUNG, "it slept")))
    assert [path.parent for path in folder.iterdir()] == [folder]
    assert list(tmp_path.iterdir()) == [folder]
    assert (read_results(folder)) == [HostResult(host, Failure(HUNG, "it slept"))]


def test_long_and_undecodable_names_have_separate_files(tmp_path: Path) -> None:
    hosts = ["n" * 300, "n" * 299 + "m", "東" * 120, "\udcff", "a\ud800"]
    for host in hosts:
        write_result(tmp_path, HostResult(host, snapshot_of("docker-with-gpu")))
        assert isinstance(read_result(tmp_path / make_file_name(host)).answer, Snapshot)
    assert len({make_file_name(host) for host in hosts}) == len(hosts)
    assert list_answered_hosts(tmp_path) == {get_saved_name(host) for host in hosts}
    assert all(len(make_file_name(host).encode()) <= 255 for host in hosts)


BAD = {
    "empty": b"",
    "no-json": b"\x00\xff\xfe garbage \x1b[2J",
    "half": json.dumps(document()).encode()[:5000],
    "list": b"[1, 2]",
    "number": b"17",
    "null": b"null",
    "deep": b"[" * 200_000,
    "deep-object": b'{"schema": "envcheck/snapshot/1", "facts": ' + b'{"host": ' * 50_000,
    "digits": b'{"schema_version": ' + b"9" * 100_000 + b"}",
    "big": b" " * (LIMIT + 1),
    "other-schema": b'{"schema": "envcheck/plan/1"}',
    "schema-list": b'{"schema": ["envcheck/snapshot/1"]}',
    "no-facts": b'{"schema": "envcheck/snapshot/1", "schema_version": 1}',
    "unknown-field": json.dumps({**document(), "extra": 1}).encode(),
    "wrong-type": json.dumps({**document(), "host": 5}).encode(),
    "failure-of-another-kind": b'{"schema": "envcheck/fleet-failure/1", "kind": ["x"], "reason": {}}',
}


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_file_is_a_broken_host(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.json").write_bytes(BAD[name])
    (result,) = read_results(tmp_path)
    assert result.host == name
    assert isinstance(result.answer, Failure)
    assert result.answer.kind == BROKEN
    assert len(result.answer.reason) < 2100
    (row,) = judge_folder(tmp_path, load_matrix(), Target())
    assert (row.verdict, row.cause) == ("undetermined", "broken")


@pytest.mark.needs("posix")
def test_an_irregular_file_is_a_broken_host_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "endless.json").symlink_to("/dev/zero")
    results = read_results(tmp_path)
    assert [result.host for result in results] == ["endless", "folder", "gone", "pipe"]
    assert all(isinstance(result.answer, Failure) for result in results)


def test_hostile_snapshots_are_rows_in_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accepted = 0
    for seed in range(40):
        changed = mutated(seed)
        accepted += isinstance(parse_answer(changed), Snapshot)
        (tmp_path / f"h{seed}.json").write_text(json.dumps(changed), encoding="utf-8")
    assert accepted > 33, (
        "the mutations should mostly keep the types, or they test the decoder alone"
    )
    rows = judge_folder(tmp_path, load_matrix(), Target(), golden="h0")
    assert len(rows) == 40
    assert len(json.loads(render_fleet_json(rows, "h0"))["hosts"]) == 40
    page, table = render_fleet_html(rows, "h0"), render_fleet_csv(rows)
    page.encode("utf-8")
    print_document(describe_fleet(rows, verbose=True), color=False)
    shown = capsys.readouterr().out
    for text in (page, table, shown):
        assert not set("\x1b\x07\x00\u202e") & set(text)
    assert "<script>document" not in page


def bomb(count: int) -> str:
    """Return a snapshot with `count` GPUs and about three times as many packages."""
    made = document("docker-with-gpu")
    gpus = made["facts"]["gpus"]["known"]
    made["facts"]["gpus"]["known"] = gpus * (count // len(gpus))
    installed = made["facts"]["python"].get("distributions", {}).get("known", [])
    if installed:
        made["facts"]["python"]["distributions"]["known"] = installed * (
            3 * count // len(installed)
        )
    return json.dumps(made)


def test_a_snapshot_with_thousands_of_entries_is_judged_and_an_entry_costs_the_same(
    tmp_path: Path,
) -> None:
    def judge(count: int) -> None:
        (tmp_path / "bomb.json").write_text(bomb(count), encoding="utf-8")
        (row,) = judge_folder(tmp_path, load_matrix(), Target())
        assert row.host == "bomb"

    judge(6000)
    assert_linear(judge, 60)


# --- a further run ---


class Recorder:
    """Who listens to a run."""

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self.results: list[str] = []

    def listener(self) -> FleetListener:
        return FleetListener(
            self.hosts.extend, lambda result: self.results.append(result.host), lambda _words: None
        )


def run_with(
    answers: dict[str, Snapshot | Failure],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    recorder: Recorder | None = None,
    **more: bool,
) -> int:
    """Run a fake engine that gives these answers."""

    def engine(request: FleetRequest, listener: FleetListener) -> None:
        hosts = [host for host in answers if get_saved_name(host) not in request.skip]
        listener.on_hosts(hosts)
        for host in hosts:
            listener.on_result(HostResult(host, answers[host]))

    monkeypatch.setitem(ENGINES, "own", engine)
    return run_fleet("own", FleetRequest(), folder, (recorder or Recorder()).listener(), **more)


def test_a_further_run_skips_answered_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = snapshot_of("docker-with-gpu")
    assert run_with({"a": good, "b": Failure(HUNG, "slept")}, tmp_path / "new", monkeypatch) == 0
    assert list_answered_hosts(tmp_path / "new") == {"a"}
    assert (
        run_with({"a": Failure(HUNG, "never reached"), "b": good}, tmp_path / "new", monkeypatch)
        == 1
    )
    assert list_answered_hosts(tmp_path / "new") == {"a", "b"}


def test_a_host_whose_snapshot_has_timeouts_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = snapshot_of("docker-with-gpu")
    late = Unknown("timeout", "the gpus probe did not finish within 4.5 s")
    busy = replace(
        good, facts=replace(good.facts, gpus=late, driver=replace(good.facts.driver, release=late))
    )
    assert list_timeouts(busy) == ("driver.release", "gpus")
    recorder = Recorder()
    assert run_with({"a": good, "b": busy}, tmp_path, monkeypatch, recorder) == 0
    assert recorder.hosts == ["a", "b", "b"], "once more at the end of the same run"
    assert list_answered_hosts(tmp_path) == {"a"}
    assert run_with({"a": Failure(HUNG, "never reached"), "b": good}, tmp_path, monkeypatch) == 1
    assert list_answered_hosts(tmp_path) == {"a", "b"}


@pytest.mark.parametrize(("seconds", "patience"), [(5, "1"), (20, "1"), (60, "3"), (600, "30")])
def test_the_probes_have_more_time_where_the_host_has(seconds: int, patience: str) -> None:
    assert FleetRequest(host_seconds=seconds, python="/p").collector_arguments == [
        f"patience={patience}",
        "python=/p",
    ]


def test_a_failure_never_replaces_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_with({"a": snapshot_of("docker-with-gpu")}, tmp_path, monkeypatch)
    assert run_with({"a": Failure(UNREACHABLE, "gone")}, tmp_path, monkeypatch, again=True) == 0
    assert isinstance(parse_file(tmp_path.joinpath("a.json").read_bytes()), Snapshot)
    assert list_answered_hosts(tmp_path) == set(), "the next run asks it again"


def test_a_snapshot_replaces_a_failure_and_an_older_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_with({"a": Failure(UNREACHABLE, "gone")}, tmp_path, monkeypatch)
    run_with({"a": snapshot_of("docker-with-gpu")}, tmp_path, monkeypatch)
    run_with({"a": snapshot_of("no-driver")}, tmp_path, monkeypatch, again=True)
    (result,) = read_results(tmp_path)
    assert isinstance(result.answer, Snapshot)
    assert result.answer.facts == snapshot_of("no-driver").facts


def test_an_interrupted_write_leaves_no_result(tmp_path: Path) -> None:
    (tmp_path / ".gpu001.json.17.4").write_text('{"schema"', encoding="utf-8")
    assert (read_results(tmp_path)) == []
    assert SNAPSHOT == "envcheck/snapshot/1"


def test_equal_facts_are_judged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts of one image differ in name, time and the identities of their GPUs; where facts differ, each is judged."""
    text = json.dumps(document("torch-wheels-need-no-toolkit"))
    assert "GPU-" in text
    for number in range(5):
        own = re.sub(r"GPU-[0-9a-f]{8}", f"GPU-{number:08x}", text)
        plain = {
            **json.loads(own),
            "host": f"h{number}",
            "taken_at": f"2026-01-0{number + 1}T00:00:00Z",
        }
        (tmp_path / f"h{number}.json").write_text(json.dumps(plain), encoding="utf-8")
    other = text.replace("550.163.01", "550.163.02")
    (tmp_path / "other.json").write_text(other, encoding="utf-8")
    (tmp_path / "broken.json").write_text(text[:-1], encoding="utf-8")
    (tmp_path / "typed.json").write_text(
        json.dumps({**json.loads(text), "host": 5}), encoding="utf-8"
    )
    judged: list[Context] = []

    def counted(context: Context) -> Report:
        judged.append(context)
        return evaluate(context)

    monkeypatch.setattr("envcheck.fleet.report.evaluate", counted)
    rows = {row.host: row for row in judge_folder(tmp_path, load_matrix(), Target())}
    assert len(judged) == 2
    assert {rows[f"h{number}"].verdict for number in range(5)} == {"compatible"}
    assert len({replace(rows[f"h{number}"], host="") for number in range(5)}) == 1
    assert dict(rows["other"].machine)["Driver"].startswith("550.163.02")
    assert (rows["broken"].cause, rows["typed"].cause) == ("broken", "broken")


def test_each_host_has_the_fix_of_the_doctor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("torch-cpu-beside-gpu", "no-driver", "torch-wheels-need-no-toolkit")
    for name in names:
        write_result(tmp_path, HostResult(name, snapshot_of(name)))
    write_result(tmp_path, HostResult("twin", snapshot_of(names[0])))
    planned: list[Report] = []

    def counted(report: Report, situation: Situation) -> Report:
        planned.append(report)
        return with_remedies(report, situation)

    monkeypatch.setattr("envcheck.fleet.report.with_remedies", counted)
    rows = {row.host: row for row in judge_folder(tmp_path, load_matrix(), Target())}
    for name in names:
        context = Context(snapshot_of(name).facts, load_matrix(), Target())
        first = next(iter(diagnose(context).findings), None)
        assert rows[name].fix == (first.fix if first and rows[name].cause else None), name
    assert rows["twin"].fix == rows["torch-cpu-beside-gpu"].fix
    assert len(planned) == 2, "alike machines are planned for once, healthy ones not at all"
    print_document(describe_fleet(list(rows.values())), color=False)
    output = capsys.readouterr().out
    assert (
        "  fix: Install torch==2.8.0 and its dependencies, as `envcheck plan torch==2.8.0` selects.\n"
        in output
    )
    assert "    $ /usr/bin/python3 -m pip install --only-binary=:all: torch==2.8.0\n" in output
    (found,) = [
        item
        for item in json.loads(render_fleet_json(list(rows.values()), ""))["hosts"]
        if item["host"] == "twin"
    ]
    assert found["fix"]["commands"][1]["argv"][-1] == "torch==2.8.0"
    assert "Install torch==2.8.0 and its dependencies" in render_fleet_csv(list(rows.values()))
    assert "pip install --only-binary=:all: torch==2.8.0</pre>" in render_fleet_html(
        list(rows.values()), ""
    )
