"""An interpreter whose answer has the right shape and wrong content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.doctor import doctor
from tests.host.programs import write_script

pytestmark = pytest.mark.needs("linux")

PLAIN = {
    "executable": "/x/python", "version": "3.11.9", "implementation": "cpython", "bits": 64, "machine": "x86_64",
    "platform": "linux-x86_64", "abi": "cp311", "prefix": "/x", "base_prefix": "/usr", "kind": "venv",
    "base_is_conda": False, "externally_managed": False, "user_site": "", "user_site_enabled": False,
    "folders": [], "distributions": [], "truncated": False,
}  # fmt: skip


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"version": "3.11"},
        {"version": [], "distributions": []},
        {**PLAIN, "distributions": [1, {}, None]},
        {**PLAIN, "folders": "x", "prefix": 5},
        {name: value for name, value in PLAIN.items() if name != "prefix"},
        {**PLAIN, "version": {"a": 1}},
    ],
)
def test_invalid_answers_are_undetermined(tmp_path: Path, answer: dict[str, Any]) -> None:
    write_script(tmp_path / "python", f"cat <<'END'\n{json.dumps(answer)}\nEND")
    run = doctor("--python", str(tmp_path / "python"))
    assert run.code == 3, run.report["findings"]
    assert "probe-failed" in run.findings


def test_a_deleted_environment_that_is_still_active(tmp_path: Path) -> None:
    run = doctor(changes={"VIRTUAL_ENV": str(tmp_path / "gone")})
    assert "known" in run.fact("python.executable")
    # of the folder of the tests, or what a shell starts
    assert run.fact("python.chosen_by") in {".venv", "PATH"}
