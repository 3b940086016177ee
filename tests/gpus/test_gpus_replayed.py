"""The command in this process, on recorded machines: what it prints, returns and writes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from envcheck.cli import gpus as gpus_watch
from envcheck.cli.group import run
from envcheck.gpus import reading
from envcheck.gpus.reading import Question, read_listing
from envcheck.host.protocol import Host
from envcheck.model import UserError
from tests.patience import PATIENCE
from tests.probes.gpu_machines import bare, installed, loaded, nvml_answer, nvml_gpu, pci

BUSY = {
    "minor": 0,
    "memory_reserved_bytes": 478150656,
    "utilization": 97,
    "temperature": 61,
    "power": 71250,
    "power_limit": 72000,
    "instances": [],
}


def machine(**changes: Any) -> Host:
    gpu = {**nvml_gpu(), **BUSY, **changes}
    return bare({**pci(), **installed(), **loaded()}, answers=[nvml_answer(gpu)])


def on(monkeypatch: pytest.MonkeyPatch, *hosts: Host) -> None:
    """Let each reading use the next machine; the first one is used to find NVML."""
    waiting = list(hosts)
    for module in (gpus_watch, reading):
        monkeypatch.setattr(
            module, "LocalHost", lambda *_: waiting.pop(0) if len(waiting) > 1 else waiting[0]
        )


def test_one_reading_as_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on(monkeypatch, machine())
    assert run(["gpus", "--fits", "1B", "--activations", "1M", "--color", "never"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[:3] == ["0", "NVIDIA", "A100-SXM4-40GB"]
    assert lines[-1] == "The job fits in the free memory of GPU 0 (NVIDIA A100-SXM4-40GB)."


def test_the_document_names_no_user(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process = {"pid": 4242, "name": "/home/anna/venv/bin/python", "memory_bytes": 1 << 30}
    on(monkeypatch, machine(processes=[process]))
    run(["gpus", "--format", "json"])
    text = capsys.readouterr().out
    assert "anna" not in text
    assert "/home/<user>/venv/bin/python" in text


def test_one_reading_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on(monkeypatch, machine())
    assert run(["gpus", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["message"] == "1 GPU read."
    assert found["gpus"][0]["utilization_percent"]["known"] == 97


def test_one_reading_into_a_file_twice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = tmp_path / "report.csv"
    for used in (1 << 30, 2 << 30):
        on(monkeypatch, machine(memory_used_bytes=used))
        assert run(["gpus", "--csv", str(table)]) == 0
    rows = [line.split(",")[1:] for line in table.read_text().splitlines()]
    assert [row[4] for row in rows] == ["memory.used", "1024", "2048"]


def test_an_incomplete_row_stays_separate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = tmp_path / "report.csv"
    on(monkeypatch, machine())
    run(["gpus", "--csv", str(table)])
    whole = table.read_text()
    table.write_text(whole[:-9])
    run(["gpus", "--csv", str(table)])
    assert table.read_text().startswith(whole[:-9] + "\n20")
    assert len(table.read_text().splitlines()) == 3


@pytest.mark.needs("posix")
def test_rows_are_written_to_a_pipe_immediately(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        held = os.open(pipe, os.O_WRONLY)  # else it ends with the first line
        on(monkeypatch, machine())
        assert run(["gpus", "--csv", str(pipe)]) == 0
        os.close(held)
        assert len(reader.communicate(timeout=PATIENCE)[0].splitlines()) == 2


def test_a_watch_continues_until_it_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "report.csv"
    hanging = bare(
        {**pci(), **installed(), **loaded()},
        answers=[{"script": "nvml_devices", "unknown": ["timeout", "3 s"]}],
    )
    on(monkeypatch, machine(), machine(), hanging, machine())
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("envcheck.cli.gpus.time.sleep", sleep)
    with pytest.raises(KeyboardInterrupt):
        run(["gpus", "--watch", "2", "--csv", str(table)])
    assert all(0 <= pause <= 2 for pause in pauses)
    assert [line.split(",")[3] for line in table.read_text().splitlines()] == [
        "utilization.gpu", "97", "[Unknown Error]", "97",
    ]  # fmt: skip
    assert capsys.readouterr().out.count("1 GPU read.") == 2


def test_a_machine_without_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on(monkeypatch, bare({}))
    assert run(["gpus", "-q"]) == 1
    assert capsys.readouterr().out == "This machine has no NVIDIA GPU.\n"


@pytest.mark.parametrize(
    "options", [["--fits", "x"], ["--watch", "1", "--format", "json"], ["--csv", "/none/x"]]
)
def test_invalid_options(monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    on(monkeypatch, machine())
    with pytest.raises(UserError):
        run(["gpus", *options])


def test_a_file_that_becomes_unwritable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = gpus_watch.Table(str(tmp_path / "report.csv"))
    (tmp_path / "report.csv").unlink()
    (tmp_path / "report.csv").mkdir()
    on(monkeypatch, machine())
    with pytest.raises(UserError, match="cannot write"):
        table.append(read_listing(Question()))
