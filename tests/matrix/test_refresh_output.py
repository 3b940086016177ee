"""How `matrix refresh` and `verify` print: JSON, -q, -v, colour, and a closed pipe."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from envcheck.cli.group import run
from envcheck.matrix.refresh.refresh import list_framework
from tests.matrix.index.renewal import reader, without
from tests.matrix.index.server import Handler, LocalIndex
from tests.matrix.test_verify import recorded_matrix, row_of, saved
from tests.patience import PATIENCE, wait_for

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "envcheck" / "schemas"
WHEEL = "tensorflow-2.21.0-cp313-cp313-manylinux_2_27_x86_64.whl"


def refresh(tmp_path: Path, *extra: str) -> list[str]:
    own = tmp_path / "own.json"
    changed = without("tensorflow", "2.21.0")
    row_of(changed, "2.20.0")["pythons"] = ["3.9"]
    own.write_text(json.dumps(changed), encoding="utf-8")
    new = str(tmp_path / "new.json")
    return [
        "matrix",
        "refresh",
        "--framework",
        "tensorflow",
        "--matrix",
        str(own),
        "-o",
        new,
        *extra,
    ]


def valid(printed: str, schema: str) -> Any:
    assert printed.count("\n") == 1
    document = json.loads(printed)
    fastjsonschema.compile(
        json.loads((SCHEMAS / f"{schema}.schema.json").read_text(encoding="utf-8"))
    )(document)
    return document


def test_refresh_as_json(
    configured_index: LocalIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(refresh(tmp_path, "--format", "json")) == 0
    found = valid(capsys.readouterr().out, "matrix-refresh")
    assert found["saved_to"] == str(tmp_path / "new.json")
    assert found["frameworks"] == ["tensorflow"]
    linux = [
        item
        for item in found["changes"]
        if (item["distribution"], item["platform"]) == ("tensorflow", "linux_x86_64")
    ]
    added = next(item for item in linux if item["version"] == "2.21.0")
    assert (added["kind"], added["artifact"]) == ("added", WHEEL)
    assert added["cells"]["cuda"] == {"old": None, "new": "12.5.1"}
    changed = next(item for item in linux if item["version"] == "2.20.0")
    assert (changed["kind"], list(changed["cells"])) == ("changed", ["pythons"])
    assert changed["cells"]["pythons"]["old"] == ["3.9"]
    rows = sum(item["kind"] == "added" for item in found["changes"])
    assert found["message"].startswith(f"{rows} rows added, ")


def test_refresh_as_json_when_nothing_changed(
    configured_index: LocalIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [
        "matrix",
        "refresh",
        "--framework",
        "torch",
        "--since",
        "2.15",
        "-o",
        str(tmp_path / "new.json"),
    ]
    assert run([*asked, "--format", "json"]) == 0
    found = valid(capsys.readouterr().out, "matrix-refresh")
    assert (found["changes"], found["message"]) == (
        [],
        "No release, Python or requirement changed.",
    )


def test_refresh_quiet_and_verbose(
    configured_index: LocalIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(refresh(tmp_path, "-q")) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(" added, 1 row changed.")
    assert run(refresh(tmp_path, "-v")) == 0
    printed = capsys.readouterr().out
    assert f"    read from {WHEEL}\n" in printed
    assert "  tensorflow 2.20.0 on linux_x86_64: pythons 3.9 -> " in printed


def test_refresh_in_colour(
    configured_index: LocalIndex,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(refresh(tmp_path, "--color", "always"))
    printed = capsys.readouterr().out
    assert "\x1b[32m+ tensorflow 2.21.0" in printed
    assert "\x1b[33m  tensorflow 2.20.0" in printed
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    run(refresh(tmp_path))
    assert "\x1b" not in capsys.readouterr().out


def test_verify_quiet_verbose_and_in_colour(
    configured_index: LocalIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix = recorded_matrix()
    row_of(matrix)["tags"] = ["win_amd64"]
    del matrix["releases"]["tensorflow"]["2.20.0"]
    asked = [
        "matrix",
        "verify",
        "--all",
        "--framework",
        "tensorflow",
        "--matrix",
        saved(tmp_path / "own.json", matrix),
    ]
    assert run([*asked, "-q"]) == 1
    assert capsys.readouterr().out.count("\n") == 1
    assert run([*asked, "-v", "--color", "always"]) == 1
    printed = capsys.readouterr().out
    assert "\ncompared: tensorflow 2.21.0 on linux_x86_64\n" in printed
    assert (
        "\x1b[31mtensorflow 2.21.0 on linux_x86_64: tags is ['win_amd64'] in the matrix" in printed
    )
    missing = "tensorflow 2.20.0 on win_amd64 is on the index (tensorflow-2.20.0-cp313"
    # folded, as every answer in colour
    assert missing in " ".join(re.sub(r"\x1b\[\d*m", "", printed).split())


def test_show_and_query_in_colour_only_where_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for words, colored in (
        (["NO_COLOR", "1"], False),
        (["TERM", "dumb"], False),
        (["TERM", "xterm"], True),
    ):
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv(*words)
        for command in (
            ["show", "torch==2.8.0"],
            ["query", "--python", "3.13", "--framework", "torch"],
        ):
            assert run(["matrix", *command]) == 0
            assert ("\x1b[1m" in capsys.readouterr().out) == colored


def test_an_interruption_leaves_wheels_unread(configured_index: LocalIndex) -> None:
    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    opened = reader(configured_index)
    groups = list_framework(opened, "tensorflow", "2.20").groups
    wheels = {group.representative.sha256: ("tensorflow", group.representative) for group in groups}
    assert len(wheels) > 8
    with pytest.raises(KeyboardInterrupt):
        opened.read_all(wheels, interrupt)
    opened.close()


# -- processes --


def start(index: LocalIndex, *arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "envcheck", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        **streams,
    )


def test_a_pipe_that_closes_is_no_error(configured_index: LocalIndex) -> None:
    done = start(
        configured_index,
        "matrix",
        "show",
        "tensorflow",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert done.stdout is not None
    assert done.stderr is not None
    done.stdout.read(100)
    done.stdout.close()
    assert done.stderr.read() == b""
    done.stderr.close()
    done.wait(PATIENCE)


@pytest.mark.needs("posix")
@pytest.mark.parametrize("form", ["text", "json"])
def test_an_interruption_writes_nothing_and_ends_with_130(
    configured_index: LocalIndex, tmp_path: Path, form: str
) -> None:
    configured_index.answers[f"/files/{WHEEL}"] = Handler.never
    new = tmp_path / "new.json"
    new.write_text("as it was", encoding="utf-8")
    running = start(
        configured_index,
        *refresh(tmp_path, "--format", form),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_for(lambda: f"/files/{WHEEL}" in configured_index.asked, "the question for the wheel")
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130, err
    assert new.read_text(encoding="utf-8") == "as it was"
    assert b"Traceback" not in err
    assert (b"Interrupted." in err) if form == "text" else (json.loads(out)["exit_code"] == 130)
