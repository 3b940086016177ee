"""Nothing is published before the repository's setting names the index package and the environment, and only by a tag."""

from __future__ import annotations

from typing import Any

import pytest

from tests.structure import ROOT

yaml = pytest.importorskip("yaml")
SET = "vars.INDEX_PACKAGE != '' && vars.PUBLISH_ENVIRONMENT != ''"
FOLDER = ROOT / ".github/workflows"


def read(name: str) -> dict[Any, Any]:
    """Return a workflow; YAML reads its key `on` as true."""
    loaded: dict[Any, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return loaded


def test_a_release_begins_with_a_tag_alone() -> None:
    assert list(read("release.yml")[True]["push"]) == ["tags"]
    assert list(read("release.yml")[True]) == ["push"]


def test_what_publishes_waits_for_the_setting() -> None:
    jobs = read("release.yml")["jobs"]
    assert jobs["publish"]["if"] == SET
    writing = {
        name for name, job in jobs.items() if "write" in (job.get("permissions") or {}).values()
    }
    assert writing == {"publish", "github", "images", "site"}
    for name in writing - {"publish"}:
        assert jobs[name]["needs"] == "publish"  # and is left out where that is
        assert "if" not in jobs[name]
    assert "permissions" not in jobs["missing"]


def test_a_push_or_a_pull_request_may_only_read() -> None:
    check = read("check.yml")
    assert check["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in check["jobs"].values())
