"""`envcheck diff A B` as a user meets it: text, JSON, exit codes, and files that are no snapshots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from envcheck.cli.group import run
from envcheck.model import Snapshot, Unknown, UserError
from envcheck.render.json_contracts import render_snapshot
from tests.diff.test_compare import HEALTHY, changed, known
from tests.hosts.test_hosts import snapshot_of

SCHEMA = Path(__file__).parents[2] / "envcheck" / "schemas" / "diff.schema.json"


@pytest.fixture
def files(tmp_path: Path) -> Any:
    """Save machines, and return the arguments that compare them."""

    def save(*machines: str | Snapshot) -> list[str]:
        paths = [tmp_path / f"{letter}.json" for letter in "ab"]
        for path, machine in zip(paths, machines, strict=True):
            snapshot = snapshot_of(machine) if isinstance(machine, str) else machine
            path.write_text(render_snapshot(snapshot), encoding="utf-8")
        return ["diff", *map(str, paths)]

    return save


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    found = json.loads(printed)
    fastjsonschema.compile(json.loads(SCHEMA.read_text(encoding="utf-8")))(found)
    return found


def test_text(files: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files("docker-with-gpu", "no-driver")) == 1
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[1]
        == f"A  {tmp_path}/a.json: COMPATIBLE  Ready for deep learning on NVIDIA A100-SXM4-40GB, driver 550.163.01; no framework is installed."
    )
    assert lines[0] == "Something that matters to the frameworks installed differs."
    assert lines[2].startswith(f"B  {tmp_path}/b.json: INCOMPATIBLE  ")
    assert lines[4:7] == [
        "Most likely cause first:",
        "  1. kernel module: A 550.163.01, B none",
        "     -> driver-missing on B: NVIDIA GeForce RTX 4090 is present, but no NVIDIA driver is loaded.",
    ]
    assert "What also differs:" in lines
    assert lines[-1].startswith("Not shown: ")
    assert "\x1b" not in "".join(lines)


def test_quiet_verbose_and_colour(files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    asked = files("docker-with-gpu", "no-driver")
    assert run([*asked, "-q"]) == 1
    assert capsys.readouterr().out.count("\n") == 5
    run([*asked, "-v", "--color", "always"])
    printed = capsys.readouterr().out
    assert "Not shown" not in printed
    assert "exit status of nvidia-smi" in printed
    assert "INCOMPATIBLE" in printed
    assert "\u2717 B" in printed


def test_json(files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(
            [
                *files("windows-torch-with-cuda", "windows-driver-too-old"),
                "--format",
                "json",
                "--expect",
                "gpu",
            ]
        )
        == 1
    )
    found = document(capsys)
    assert found["verdict"] == "incompatible"
    assert (found["a"]["verdict"], found["b"]["verdict"]) == ("compatible", "incompatible")
    item = next(item for item in found["differences"] if item["fact"] == "driver.release")
    assert (item["a"], item["b"], item["area"], item["matters"]) == (
        "566.36",
        "472.12",
        "driver",
        True,
    )
    assert item["findings"] == [
        {"id": "driver-too-old", "on": "b", "severity": "error", "primary": True}
    ]
    assert any(
        finding["id"] == "driver-too-old" and finding["message"]
        for finding in found["b"]["findings"]
    )


def test_nothing_differs(files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files(HEALTHY, HEALTHY)) == 0
    assert "do not differ in anything that was read" in capsys.readouterr().out


def test_nothing_that_matters_differs(files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files(HEALTHY, changed(HEALTHY, "python", pip_version=known("24.9")))) == 0
    printed = capsys.readouterr().out
    assert "Nothing that matters to the frameworks installed differs." in printed
    assert " 1. pip: A 24.2, B 24.9" in printed
    assert "Most likely cause" not in printed


def test_an_undetermined_comparison(files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    lost = changed(HEALTHY, "driver", kernel_module_kind=Unknown("denied", "permission denied"))
    assert run(files(HEALTHY, lost)) == 3
    printed = capsys.readouterr().out
    assert "differs is unknown" in printed
    assert "Not shown: 1 not read on one of them. -v shows them." in printed


def test_an_unexplained_finding(files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = snapshot_of(HEALTHY)
    gpus = tuple(changed_memory(gpu) for gpu in snapshot.facts.gpus.value)  # type: ignore[union-attr]
    assert run(files(HEALTHY, changed(HEALTHY, "", gpus=known(gpus)))) == 1
    assert "-> gpu-memory-held on B: " in capsys.readouterr().out


def changed_memory(gpu: Any) -> Any:
    from envcheck.model import replace

    return replace(gpu, memory_used_bytes=gpu.memory_bytes)


def test_hostile_texts_are_escaped(files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bad = changed(HEALTHY, "python", pip_version=known("24\x1b[31m\u202e" + "x" * 500))
    run(files(HEALTHY, bad))
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    assert max(map(len, printed.splitlines())) < 250


def test_a_release_can_be_requested(files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    asked = files("wsl-healthy", "docker-on-cpu-host")
    assert run([*asked, "--for", "tensorflow==2.15.1", "--expect", "gpu", "--format", "json"]) == 1
    assert document(capsys)["verdict"] == "incompatible"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{a}", "/nowhere.json"], "cannot read /nowhere.json"),
        (["{a}"], "Missing argument 'B'"),
        (["{a}", "{a}", "--matrix", "/nowhere.json"], "does not exist"),
        (["{a}", "{a}", "--for", "tensorflw"], "Did you mean tensorflow?"),
        (["{a}", "{bad}"], "is no snapshot this version reads"),
    ],
)
def test_invalid_arguments_are_rejected(
    files: Any, tmp_path: Path, arguments: list[str], words: str
) -> None:
    files(HEALTHY, HEALTHY)
    (tmp_path / "bad.json").write_text('{"schema": "envcheck/diff/1"}', encoding="utf-8")
    named = {"a": tmp_path / "a.json", "bad": tmp_path / "bad.json"}
    with pytest.raises(UserError) as caught:
        run(["diff", *(item.format(**named) for item in arguments)])
    assert words in str(caught.value)
