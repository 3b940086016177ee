"""Plugins of other packages, installed for real: what they add, and that a broken one is a line of the report."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

from envcheck.render.json_contracts import render_snapshot
from tests.hosts.test_hosts import snapshot_of
from tests.structure import ROOT

pytestmark = pytest.mark.needs("posix")
SAMPLES = Path(__file__).parent


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with the packages of this one and the sample plugin."""
    folder = tmp_path_factory.mktemp("room")
    venv.create(folder / "env", with_pip=False)
    site = next((folder / "env").glob("lib/python*/site-packages"))
    (site / "shared.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    install(folder, "sample")
    text = render_snapshot(snapshot_of("wsl-healthy"))
    (folder / "machine.json").write_text(text, encoding="utf-8")
    return folder


def install(room: Path, name: str) -> None:
    """Build a wheel of a sample, without an index, and install it."""
    pip = [str(room / "env/bin/python"), "-m", "pip", "install", "-q"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
    source = room / f"source-{name}"
    shutil.copytree(SAMPLES / name, source)
    subprocess.run([*pip, *offline, str(source)], check=True, timeout=300)


def envcheck(room: Path, *arguments: str, allowed: str = "1") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ENVCHECK_PLUGINS": allowed}
    command = [str(room / "env/bin/python"), "-m", "envcheck", *arguments]
    return subprocess.run(
        command, cwd=room, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def findings(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


JUDGE = ("doctor", "--snapshot", "machine.json", "--expect", "cpu")


def test_without_permission_nothing_is_loaded(room: Path) -> None:
    done = envcheck(room, *JUDGE, "--json", allowed="")
    assert not any(item["id"].startswith(("site-", "plugin-")) for item in findings(done))
    assert envcheck(room, *JUDGE, "--format", "brief", allowed="").returncode == 2


def test_a_rule_adds_a_finding_with_its_fix(room: Path) -> None:
    (found,) = (
        item
        for item in findings(envcheck(room, *JUDGE, "--json"))
        if item["id"] == "site-os-retired"
    )
    assert (found["severity"], found["fix"]["summary"]) == ("warning", "Move to the site's image.")
    only = findings(envcheck(room, *JUDGE, "--only", "site-os-retired", "--json"))
    assert [item["id"] for item in only] == ["site-os-retired"]


def test_a_framework_of_a_row_is_read(room: Path) -> None:
    done = envcheck(room, "doctor", "--env", "env", "--expect", "cpu", "--json")
    builds = json.loads(done.stdout)["snapshot"]["facts"]["python"]["frameworks"]["known"]
    assert [
        (item["framework"], item["version"]) for item in builds if item["framework"] == "sitegrad"
    ] == [("sitegrad", "1.0")]
    assert not [item for item in findings(done) if item["id"] in ("plugin-failed", "probe-failed")]
    assert done.returncode == 0
    shown = envcheck(room, "doctor", "--env", "env", "--expect", "cpu").stdout
    assert "envcheck-site-sample 1.0 is of a framework that a plugin adds" in shown


def test_a_format_prints_the_report(room: Path) -> None:
    assert envcheck(room, *JUDGE, "--format", "brief").stdout.startswith("compatible: ")


def test_an_engine_reaches_hosts(room: Path) -> None:
    done = envcheck(room, "fleet", "run", "--engine", "fixed", "-o", "hosts")
    assert "1 host read" in done.stderr
    assert [path.name for path in (room / "hosts").iterdir()] == ["node1.json"]


BROKEN = {
    "broken_sample.ends": "SystemExit: 7",
    "broken_sample.nowhere": "ModuleNotFoundError: No module named 'broken_sample.nowhere'",
    "broken_sample.foreign": "a rule decides driver-too-old, which its FINDINGS do not declare",
    "broken_sample.raises": "KeyError: 'no such thing'",
    "broken_sample.taken": "the finding id driver-too-old is taken",
    "untyped = broken_sample:NOTHING": "AttributeError: 'NoneType' object has no attribute 'FINDINGS'",
    "torch = broken_sample:FRAMEWORK": "the name torch is taken",
    "unknown_cell": "'colour' is no cell of a framework",
    "no_row": "TypeError",
    "same_distribution": "the distribution torch belongs to another framework",
    "json = broken_sample:fail": "the name json is taken",
    "formats: no_function": "it is no function of a report and a snapshot",
}


def test_a_broken_plugin_is_one_line_of_the_report(room: Path) -> None:
    before = envcheck(room, *JUDGE, "--json")
    install(room, "broken")
    done = envcheck(room, *JUDGE, "--json")
    assert (done.returncode, done.stderr) == (before.returncode, "")
    kept = [item for item in findings(done) if item["id"] != "plugin-failed"]
    assert kept == findings(before)
    failed = [item for item in findings(done) if item["id"] == "plugin-failed"]
    assert {item["severity"] for item in failed} == {"note"}
    for name, reason in BROKEN.items():
        (message,) = (item["message"] for item in failed if name in item["message"])
        assert reason in message
    assert len(failed) == len(BROKEN)
    text = envcheck(room, *JUDGE, "-v").stdout
    assert text.count("plugin-failed") == len(BROKEN)
    assert "Traceback" not in text
    checked = envcheck(room, *JUDGE, "--format", "fails")
    assert (
        "the plugin of --format fails failed: ValueError('broken on\\npurpose')" in checked.stderr
    )
    assert (checked.returncode, checked.stdout) == (
        before.returncode,
        envcheck(room, *JUDGE).stdout,
    )
    reached = envcheck(room, "fleet", "run", "--engine", "fails", "-o", "none")
    assert (reached.returncode, "Traceback" in reached.stderr) == (2, False)
    assert "the plugin of --engine fails failed: ValueError: broken on purpose" in reached.stderr
    assert "fleet_engines: no_function = broken_sample:NOTHING is left out" in reached.stderr
