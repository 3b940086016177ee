"""What watchers of nodes read: their own parsers, and the recipes of the how-to page with stand-ins."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

from envcheck.render.document import Document, Shown
from envcheck.render.formats import render
from tests.documented_outputs import FENCED, ROOT

PAGE = ROOT / "docs/how-to/report-gpu-nodes-to-your-monitoring.md"
RECIPES = {
    block["title"]: block["body"]
    for block in FENCED.finditer(PAGE.read_text(encoding="utf-8"))
    if block["title"]
}
HOSTILE = "a\"b\\n\\\n'c' pid='<unknown>' $(reboot) `x` ; & | \u202e\u00e9"
FAILS = Document(
    "envcheck",
    "incompatible",
    "GPU work fails.",
    findings=(
        Shown("numpy-abi", "compatible", "warning", "beside"),
        Shown("driver-missing", "incompatible", "error", HOSTILE * 3, is_primary=True),
        Shown("driver-missing", "incompatible", "error", "another"),
        Shown("driver-missing", "incompatible", "error", "a third"),
    ),
    date="2026-11-27T22:00:00Z",
)
UNDECIDED = Document(
    "envcheck",
    "undetermined",
    "Not decided.",
    findings=(
        Shown("numpy-abi", "compatible", "warning", "beside"),
        Shown("probe-failed", "undetermined", "error", "NVML hung."),
    ),
)
WORKS = Document("envcheck", "compatible", "GPU work succeeds.")


def samples(text: str) -> list[tuple[str, dict[str, str], float]]:
    """Read the text as OpenMetrics and as the text format of Prometheus: both must say the same."""
    read = [
        [
            (sample.name, dict(sample.labels), sample.value)
            for family in parse(text)
            for sample in family.samples
        ]
        for parse in (
            openmetrics.text_string_to_metric_families,
            parser.text_string_to_metric_families,
        )
    ]
    assert read[0] == read[1]
    return read[0]


def test_both_official_parsers_read_the_gauges() -> None:
    found = samples(render(FAILS, "prometheus"))
    verdicts = {
        labels["verdict"]: value for name, labels, value in found if name == "envcheck_verdict"
    }
    assert verdicts == {"incompatible": 1, "compatible": 0, "undetermined": 0}
    counts = [
        (labels["id"], labels["kind"], value)
        for name, labels, value in found
        if name == "envcheck_findings"
    ]
    assert counts == [("numpy-abi", "warning", 1), ("driver-missing", "error", 3)]


def test_without_findings_there_is_the_verdict_alone() -> None:
    assert {name for name, *_ in samples(render(WORKS, "prometheus"))} == {"envcheck_verdict"}


def promtool(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["promtool", *arguments], input=text, capture_output=True, text=True, check=False
    )


@pytest.mark.needs("promtool")
def test_promtool_accepts_the_gauges_and_the_alerts(tmp_path: Path) -> None:
    for document in (FAILS, UNDECIDED, WORKS):
        done = promtool("check", "metrics", text=render(document, "prometheus"))
        assert (done.returncode, done.stderr) == (0, "")
    rules = tmp_path / "rules.yml"
    rules.write_text(RECIPES["envcheck-alerts.yml"], encoding="utf-8")
    assert promtool("check", "rules", str(rules)).returncode == 0


def test_npd_reads_one_line_of_80_bytes_with_the_worst_finding() -> None:
    line = render(FAILS, "npd")
    assert line.startswith("driver-missing: a")
    assert line.count("\n") == 1
    assert len(line.strip().encode()) <= 80
    assert render(UNDECIDED, "npd") == "probe-failed: NVML hung.\n"
    assert render(WORKS, "npd") == "GPU work succeeds.\n"


def test_nothing_acts_in_a_message_that_nhc_evaluates() -> None:
    line = render(FAILS, "nhc").rstrip("\n")
    script = "eval echo \"'host'\" \"'$1'\""  # as `die` of NHC does
    done = subprocess.run(
        ["sh", "-c", script, "sh", line], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == (f"host {line}\n", "")
    assert "reboot" in line


def test_json_lines_hold_the_verdict_and_each_finding() -> None:
    lines = [json.loads(line) for line in render(FAILS, "jsonl").splitlines()]
    assert [line["event"] for line in lines] == ["verdict", *["finding"] * 4]
    assert {line["verdict"] for line in lines} == {"incompatible"}
    assert lines[2]["message"] == HOSTILE * 3


# The recipes of the page. envcheck is the real one, on a recorded machine; scontrol, sinfo, logger
# and NHC's `die` are stand-ins that write down how they were called.

MACHINES = {
    1: ROOT / "docs/samples/no-driver.json",
    0: ROOT / "docs/samples/wsl-healthy.json",
}


class Node:
    """A folder of programs that stand in for those of a node."""

    def __init__(self, folder: Path, envcheck: str) -> None:
        self.folder, self.calls = folder, folder / "calls"
        self.calls.touch()
        for name in ("scontrol", "logger"):
            self.program(name, f'echo "{name} $*" >> {self.calls}')
        self.program("sinfo", "echo idle")
        self.program("envcheck", envcheck)
        (folder / "node.toml").write_text(RECIPES["node.toml"], encoding="utf-8")

    def program(self, name: str, body: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def run(self, recipe: str, *arguments: str, call: str = "") -> int:
        """Run a recipe as its program does, and return its exit code."""
        path = self.folder / recipe
        text = RECIPES[recipe].replace("/opt/envcheck/bin", str(self.folder))
        if call:  # a function of NHC's, found in the shell that calls the check
            text = f'die() {{ {self.folder}/die "$@"; }}\n{text}'
        path.write_text(text + call, encoding="utf-8")
        environment = {"SLURMD_NODENAME": "gpu001", "SLURM_JOB_ID": "7"}
        # slurmd sets no PATH, NHC its own, and a timer none of /opt, as bench/slurm_health.py showed
        environment["PATH"] = "/sbin:/usr/sbin:/bin:/usr/bin"
        shell = "bash" if call else "sh"
        return subprocess.run(
            [shell, str(path), *arguments], env=environment, check=False, timeout=60
        ).returncode

    def called(self) -> str:
        return self.calls.read_text(encoding="utf-8")


def judging(code: int) -> str:
    """Return a script that judges a recorded machine, or ends with a code of its own."""
    if code not in MACHINES:
        return f"echo not decided; exit {code}"
    argv = f'{sys.executable} -m envcheck check --config "$folder/node.toml"'
    # the recipe's own format: the arguments are check --config /etc/envcheck/node.toml --format ...
    return f"""folder=$(dirname "$0")
[ "$1 $2 $3" = "check --config /etc/envcheck/node.toml" ] || exit 9
shift 3
exec {argv} "$@" --snapshot {MACHINES[code]}"""


REASON = "driver-missing: NVIDIA GeForce RTX 4090 is present, but no NVIDIA driver is loaded."
# 3: not decided; 5: an error of envcheck; 124: killed by `timeout`
SPARED = (0, 2, 3, 5, 124)


@pytest.mark.parametrize("code", [1, *SPARED])
def test_slurms_health_check_drains_a_failing_node_alone(tmp_path: Path, code: int) -> None:
    node = Node(tmp_path, judging(code))
    assert node.run("envcheck-health.sh") == 0
    wanted = f"scontrol update NodeName=gpu001 State=DRAIN Reason=envcheck: {REASON}\n"
    assert node.called() == (wanted if code == 1 else "")


@pytest.mark.parametrize("state", ["drained", "draining", "down*"])
def test_a_node_that_is_drained_keeps_its_reason(tmp_path: Path, state: str) -> None:
    node = Node(tmp_path, judging(1))
    node.program("sinfo", f"echo '{state}'")
    assert node.run("envcheck-health.sh") == 0
    assert node.called() == ""


def test_a_python_that_does_not_start_drains_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path, "echo Traceback >&2; exit 1")
    assert node.run("envcheck-health.sh") == node.run("envcheck-prolog.sh") == 0
    assert node.called() == ""


@pytest.mark.parametrize("code", [1, *SPARED])
def test_the_prolog_refuses_a_job_on_a_failing_node_alone(tmp_path: Path, code: int) -> None:
    node = Node(tmp_path, judging(code))
    assert node.run("envcheck-prolog.sh") == (code == 1)
    assert node.called() == (f"logger -t envcheck job 7 refused: {REASON}\n" if code == 1 else "")


@pytest.mark.needs("bash")
@pytest.mark.parametrize("code", [1, *SPARED])
def test_nhc_fails_a_failing_node_alone(tmp_path: Path, code: int) -> None:
    node = Node(tmp_path, judging(code))
    node.program("die", f'echo "die $*" >> {node.calls}')
    assert node.run("envcheck.nhc", call="check_envcheck\n") == (code == 1)
    assert node.called() == (f"die 1 {REASON}\n" if code == 1 else "")


def test_the_metrics_are_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    node, folder = Node(tmp_path, judging(1)), tmp_path / "metrics"
    folder.mkdir()
    assert node.run("envcheck-metrics.sh", str(folder)) == 0
    assert [path.name for path in folder.iterdir()] == ["envcheck.prom"]
    written = (folder / "envcheck.prom").read_text(encoding="utf-8")
    assert ("envcheck_verdict", {"verdict": "incompatible"}, 1) in samples(written)
    node.program("envcheck", "exit 5")
    node.run("envcheck-metrics.sh", str(folder))
    assert (folder / "envcheck.prom").read_text(encoding="utf-8") == written
    assert [path.name for path in folder.iterdir()] == ["envcheck.prom"]


def test_a_log_collector_gets_lines(tmp_path: Path) -> None:
    node, log = Node(tmp_path, judging(1)), tmp_path / "log"
    assert [node.run("envcheck-log.sh", str(log)) for _ in range(2)] == [1, 1]
    events = [json.loads(line)["event"] for line in log.read_text(encoding="utf-8").splitlines()]
    assert events.count("verdict") == 2


def test_node_problem_detector_would_take_the_configuration() -> None:
    """By its documented rules: docs/custom_plugin_monitor.md."""
    config = json.loads(RECIPES["envcheck-npd.json"])
    conditions = {condition["type"] for condition in config["conditions"]}
    (rule,) = config["rules"]
    assert rule["condition"] in conditions
    assert rule["timeout"] == config["pluginConfig"]["timeout"]  # not longer than for all
    assert config["pluginConfig"]["max_output_length"] == 80


@pytest.mark.parametrize("name", [name for name in RECIPES if name.endswith(".sh")])
def test_shellcheck_finds_nothing_in_a_recipe(name: str) -> None:
    program = shutil.which("shellcheck", path=str(Path(sys.executable).parent))
    assert program
    done = subprocess.run(
        [program, "--exclude=SC2181", "-"],
        input=RECIPES[name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
