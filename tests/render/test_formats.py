"""The report for CI servers: JUnit, SARIF, GitHub annotations, Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import fastjsonschema
import pytest

from envcheck.actions import RunCommand
from envcheck.diagnosis import with_steps
from envcheck.model import SYSTEM, Evidence, Finding, Remedy, Report, Source
from envcheck.render.document import Check, Document
from envcheck.render.junit import render_junit
from envcheck.render.markdown import escaped, fenced
from tests.render.shown import write

# The OASIS schema, as published in the npm package @microsoft/sarif-multitool-linux 5.7.0
# (sarif-2.1.0.json; the package's SHA-256 is
# 27d8e3e96dde578a23b7c45035b8d741fece5731e2700aa068015b8c44d1514e).
SARIF_SCHEMA = Path(__file__).with_name("sarif-2.1.0.schema.json")

HOSTILE = "]]></failure>\x1b[31m\x00<script>\n::error::injected % | `x` \udcff\ufffe"
CAUSE = Finding(
    "driver-too-old",
    "incompatible",
    "error",
    "The driver is too old.",
    (Evidence("driver.release", "470.256.02", Source("file", "/sys/module/nvidia/version")),),
    Remedy(
        "Install a newer one.",
        (RunCommand(("apt-get", "install", "nvidia driver"), scope=SYSTEM, sudo=True),),
    ),
    primary=True,
)
FINDINGS = (
    CAUSE,
    Finding("ptxas-problem", "incompatible", "error", "It follows.", caused_by="driver-too-old"),
    Finding("probe-failed", "undetermined", "error", "nvcc hung."),
    Finding(
        "toolkit-path-conflict",
        "compatible",
        "warning",
        "Two of them.",
        (Evidence("toolkits", "2 found"),),
    ),
    Finding(
        "gpu-absent",
        "compatible",
        "note",
        HOSTILE,
        (Evidence(HOSTILE, HOSTILE, Source("file", HOSTILE)),),
    ),
)
REPORT = with_steps(
    Report("incompatible", "gpu", "It will not work.", FINDINGS, ("numpy-abi", "driver-too-old"))
)


def test_junit_has_a_case_for_each_finding_and_each_quiet_check() -> None:
    suite = ET.fromstring(write(REPORT, "junit"))[0]
    outcomes = {case.get("name"): [part.tag for part in case] for case in suite}
    assert outcomes == {
        "driver-too-old": ["failure"],
        "ptxas-problem": ["failure"],
        "probe-failed": ["error"],
        "toolkit-path-conflict": ["system-out"],
        "gpu-absent": ["system-out"],
        "numpy-abi": [],
    }
    assert suite.attrib == {
        "name": "envcheck", "tests": "6", "failures": "2", "errors": "1", "skipped": "0", "time": "0.000",
    }  # fmt: skip
    failure = suite[0][0]
    assert failure.get("message") == "The driver is too old."
    assert "$ sudo apt-get install 'nvidia driver'" in (failure.text or "")
    assert suite[0].get("classname") == "envcheck.driver"


def test_junit_tells_a_skipped_test_and_its_time() -> None:
    checks = (Check("s", "a", "b", "skipped", "no GPU", seconds=1.5),)
    suite = ET.fromstring(render_junit(Document("envcheck", "undetermined", "", checks=checks)))[0]
    assert (suite.get("skipped"), suite.get("time")) == ("1", "1.500")
    assert suite[0][0].get("message") == "no GPU"


@pytest.fixture(scope="module")
def validate_sarif() -> Any:
    schema = json.loads(SARIF_SCHEMA.read_text(encoding="utf-8"))
    # what it uses means the same there
    schema["$schema"] = "http://json-schema.org/draft-07/schema#"
    return fastjsonschema.compile(schema, use_default=False)


def test_sarif_is_valid_and_names_cause_place_and_kind(validate_sarif: Any) -> None:
    document = json.loads(write(REPORT, "sarif"))
    validate_sarif(document)
    run = document["runs"][0]
    told = {item["ruleId"]: item for item in run["results"]}
    assert {name: (item["kind"], item["level"]) for name, item in told.items()} == {
        "driver-too-old": ("fail", "error"),
        "ptxas-problem": ("fail", "error"),
        "probe-failed": ("open", "none"),
        "toolkit-path-conflict": ("fail", "warning"),
        "gpu-absent": ("fail", "note"),
    }
    assert all(
        run["tool"]["driver"]["rules"][item["ruleIndex"]]["id"] == name
        for name, item in told.items()
    )
    place = told["driver-too-old"]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "file:///sys/module/nvidia/version"}}
    assert told["ptxas-problem"]["properties"]["causedBy"] == "driver-too-old"


def test_sarif_points_at_the_line_of_the_judged_file(validate_sarif: Any) -> None:
    document = json.loads(write(REPORT, "sarif", file="docker/Dockerfile:3"))
    validate_sarif(document)
    results = document["runs"][0]["results"]
    here = {
        "artifactLocation": {"uri": "docker/Dockerfile", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 3},
    }
    assert [[place["physicalLocation"] for place in item["locations"]] for item in results] == [
        [here]
    ] * len(FINDINGS)
    machine = results[0]["relatedLocations"][0]["physicalLocation"]
    assert machine == {"artifactLocation": {"uri": "file:///sys/module/nvidia/version"}}


def test_sarif_suppresses_what_a_project_ignores_and_tells_namesakes_apart(
    validate_sarif: Any,
) -> None:
    told = [
        Evidence("tool.envcheck.ignore", "until 2027-01-31: ordered"),
        Evidence("numpy", "1"),
        Evidence("keras", "2"),
    ]
    findings = tuple(
        Finding("dependency-conflict", "compatible", "note", "x", (item,)) for item in told
    )
    document = json.loads(
        write(Report("compatible", "gpu", "", findings, ()), "sarif", file="pyproject.toml")
    )
    validate_sarif(document)
    results = document["runs"][0]["results"]
    assert [item.get("suppressions") for item in results] == [
        [{"kind": "external", "justification": "until 2027-01-31: ordered"}], None, None,
    ]  # fmt: skip
    assert len({item["partialFingerprints"]["finding/v1"] for item in results}) == 3


def test_junit_names_are_unlike() -> None:
    findings = tuple(
        Finding("dependency-conflict", "incompatible", "error", text) for text in "abc"
    )
    suite = ET.fromstring(write(Report("incompatible", "gpu", "", findings, ()), "junit"))[0]
    assert [case.get("name") for case in suite] == [
        "dependency-conflict", "dependency-conflict (2)", "dependency-conflict (3)",
    ]  # fmt: skip


def test_a_schema_violation_would_be_seen(validate_sarif: Any) -> None:
    document = json.loads(write(REPORT, "sarif"))
    document["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(fastjsonschema.JsonSchemaValueException):
        validate_sarif(document)


def test_github_annotations_are_one_line_each_and_cannot_be_forged() -> None:
    lines = write(REPORT, "github", file="a,b:c").splitlines()
    assert len(lines) == len(FINDINGS) + 1
    assert lines[0].startswith(
        "::error file=a%2Cb%3Ac,title=envcheck driver-too-old (the cause)::The driver is too old.%0A"
    )
    assert [line.split(" ", 1)[0] for line in lines[:-1]] == ["::error"] * 3 + [
        "::warning",
        "::notice",
    ]
    assert "%25" in lines[4]
    assert lines[-1] == "envcheck: incompatible: It will not work."


def test_markdown_escapes_what_would_act() -> None:
    text = write(REPORT, "markdown")
    assert "<script>" not in text.replace("\\<script\\>", "")
    assert "| **error** (the cause) | `driver-too-old` | The driver is too old. |" in text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == len(FINDINGS) + 2
    assert "```sh\nsudo apt-get install 'nvidia driver'\n```" in text
    assert "### ptxas-problem" not in text  # it follows from another: the table has it


def test_a_fence_is_longer_than_what_it_holds() -> None:
    assert fenced(["a ```` b"])[0] == "`````"
    assert escaped("@team $x$ a @ b") == "\\@\u200bteam \\$x\\$ a \\@ b"
    assert escaped("a|b\n`c`") == "a\\|b \\`c\\`"
