"""`envcheck doctor` and `snapshot` as a user meets them: real processes on this machine, whatever it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "envcheck" / "schemas"
HALF_RIGHT = (
    '{"schema": "envcheck/snapshot/1", "schema_version": 1, "tool_version": "0", "host": "h", "taken_at": "t", '
    '"facts": {"gpus": {"known": [{"name": {"known": 3, "source": {"kind": "file", "where": "x"}}}], '
    '"source": {"kind": "file", "where": "x"}}}}'
)
EXIT_CODES = {"compatible": 0, "incompatible": 1, "undetermined": 3}


def envcheck(
    *arguments: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from envcheck.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd or ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        check=False,
    )


def document(done: subprocess.CompletedProcess[str], schema: str) -> Any:
    assert done.stdout.count("\n") == 1, "stdout is exactly one JSON document"
    found = json.loads(done.stdout)
    fastjsonschema.compile(
        json.loads((SCHEMAS / f"{schema}.schema.json").read_text(encoding="utf-8"))
    )(found)
    return found


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("snapshot") / "machine.json"
    done = envcheck("snapshot", "-o", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "envcheck doctor --snapshot" in done.stderr
    return path


def test_no_command_prints_help() -> None:
    done = envcheck()
    assert done.returncode == 0
    assert "doctor" in done.stdout
    assert "snapshot" in done.stdout


@pytest.mark.needs("posix")
def test_a_report_does_not_name_the_home_folder(tmp_path: Path) -> None:
    home = tmp_path / "home" / "anna"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home / ".venv")], check=True)
    options = (
        "--env",
        str(home / ".venv"),
        "--expect",
        "gpu",
        "--for",
        "torch",
        "--format",
        "json",
    )
    done = envcheck("doctor", *options, cwd=home, HOME=str(home), USER="anna")
    assert "~/.venv" in done.stdout
    assert str(home) not in done.stdout


def test_version() -> None:
    assert envcheck("--version").stdout.startswith("envcheck, version ")


def test_text_report_of_this_machine() -> None:
    done = envcheck("doctor")
    assert done.returncode in EXIT_CODES.values()
    assert done.stderr == ""
    verdicts = [verdict for verdict in EXIT_CODES if done.stdout.startswith(f"{verdict.upper()}  ")]
    assert [EXIT_CODES[verdict] for verdict in verdicts] == [done.returncode]
    machine = done.stdout[done.stdout.index("\nMachine") :]
    for label in ("GPU", "Driver", "CUDA", "cuDNN", "Compiler", "Python", "Frameworks"):
        assert label in machine  # by itself, or among what is not here
    assert "\x1b" not in done.stdout


def test_json_report_of_this_machine() -> None:
    done = envcheck("doctor", "--format", "json")
    report = document(done, "report")
    assert done.returncode == EXIT_CODES[report["verdict"]]
    fastjsonschema.compile(
        json.loads((SCHEMAS / "snapshot.schema.json").read_text(encoding="utf-8"))
    )(report["snapshot"])
    assert report["checked"]
    assert (
        str(Path.home()) not in done.stdout.replace(f'"{Path.home()}', '"')
        or str(Path.home()) == "/"
    )
    assert "snapshot" not in document(
        envcheck("doctor", "--format", "json", "--no-snapshot"), "report"
    )


def test_a_saved_machine_gets_the_same_findings(machine: Path, tmp_path: Path) -> None:
    live = document(envcheck("doctor", "--format", "json", "--no-snapshot"), "report")
    saved = document(
        envcheck("doctor", "--snapshot", str(machine), "--format", "json", "--no-snapshot"),
        "report",
    )
    assert saved == live
    inside = tmp_path / "report.json"
    inside.write_text(envcheck("doctor", "--format", "json").stdout, encoding="utf-8")
    again = document(
        envcheck("doctor", "--snapshot", str(inside), "--format", "json", "--no-snapshot"), "report"
    )
    assert again == live


def test_overrides_are_shown_as_overrides() -> None:
    done = envcheck(
        "doctor",
        "--format",
        "json",
        ENVCHECK_DRIVER_RELEASE="550.163.01",
        ENVCHECK_COMPUTE_CAPABILITIES="8.6",
    )
    facts = document(done, "report")["snapshot"]["facts"]
    assert facts["driver"]["release"]["known"] == "550.163.01"
    assert facts["driver"]["release"]["source"]["kind"] == "override"
    assert facts["gpus"]["known"][0]["compute_capability"]["known"] == "8.6"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("docter",), "Did you mean `envcheck doctor`?"),
        (("xyzzy",), "`envcheck --help` lists the commands"),
        (("doctor", "--exepct", "gpu"), "--expect"),
        (("doctor", "--expect", "tpu"), "tpu"),
        (("doctor", "--only", "no-such-finding"), "no-such-finding"),
        (("doctor", "--for", "tensorflow @ https://x.example/t.whl"), "URL"),
        (("doctor", "--for", "tensorflow=="), "tensorflow=="),
        (("doctor", "--for", "leftpad"), "leftpad"),
        (("doctor", "--python", "/no/such/python"), "/no/such/python"),
        (("doctor", "--env", "/no/such/env"), "/no/such/env"),
        (("doctor", "--snapshot", "/no/such/file"), "/no/such/file"),
        (("doctor", "--matrix", "/no/such/file"), "/no/such/file"),
        (("snapshot", "-o", "/no/such/folder/x.json"), "/no/such/folder/x.json"),
    ],
)
def test_wrong_input_is_a_sentence_and_exit_2(arguments: tuple[str, ...], said: str) -> None:
    done = envcheck(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_with_json_wrong_input_is_one_json_document() -> None:
    done = envcheck("doctor", "--format", "json", "--snapshot", "/no/such/file")
    assert done.returncode == 2
    assert document(done, "error")["exit_code"] == 2
    assert document(envcheck("doctor", "--format=json", "--nonsense"), "error")["exit_code"] == 2


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"schema": "envcheck/snapshot/0"}',
        '{"schema": "envcheck/snapshot/1", "facts": 3}',
        HALF_RIGHT,
        "[" * 100_000,
        '{"schema": ' + '{"a": ' * 50_000 + "1" + "}" * 50_001,
    ],
)
def test_a_broken_snapshot_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(content, encoding="utf-8")
    done = envcheck("doctor", "--snapshot", str(path))
    assert done.returncode == 2
    assert "broken.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_snapshot_on_stdout_is_the_document() -> None:
    done = envcheck("snapshot")
    assert json.loads(done.stdout)["schema"] == "envcheck/snapshot/1"


@pytest.mark.needs("mount-namespace")
def test_doctor_needs_no_network() -> None:
    alone = [
        "unshare",
        "-n",
        sys.executable,
        "-c",
        "from envcheck.cli import main; main()",
        "doctor",
        "--format",
        "json",
        "--no-snapshot",
    ]
    done = subprocess.run(alone, capture_output=True, text=True, cwd=ROOT, check=False)
    assert json.loads(done.stdout) == json.loads(
        envcheck("doctor", "--format", "json", "--no-snapshot").stdout
    )
