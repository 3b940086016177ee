"""The run itself: a skip for an unlisted reason fails it, a listed and unmet need does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.listed_skips import reasons
from tests.needs import _CHECKS

ROOT = Path(__file__).parents[1]


def run_pytest(folder: Path, *bodies: str) -> subprocess.CompletedProcess[str]:
    for number, body in enumerate(bodies):
        (folder / f"test_{number}.py").write_text("import pytest\n" + body, encoding="utf-8")
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.listed_skips",
        "-p",
        "no:cacheprovider",
        str(folder),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        argv, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


FORBIDDEN = (
    "@pytest.mark.skip('later')\ndef test_a(): pass\n",
    "def test_a(): pytest.skip('did not feel like it')\n",
    "pytest.importorskip('a_module_that_nobody_has')\ndef test_a(): pass\n",
    "pytest.skip('all of it', allow_module_level=True)\n",
    # listed, but this machine meets it
    "@pytest.mark.skip('needs a POSIX system')\ndef test_a(): pass\n",
)


@pytest.mark.needs("posix")
def test_a_skip_for_any_other_reason_fails_the_run(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, *FORBIDDEN)
    assert done.returncode == 1
    told = done.stdout.partition("expected_skips.toml does not allow")[2]
    assert [number for number, _ in enumerate(FORBIDDEN) if f"test_{number}.py" not in told] == []


def test_a_listed_need_that_is_unmet_skips_and_passes(tmp_path: Path) -> None:
    body = (
        "from tests import needs\nneeds._CHECKS['root'] = lambda: False\n"
        "@pytest.mark.needs('root')\ndef test_a(): pass\n"
    )
    done = run_pytest(tmp_path, body)
    assert (done.returncode, "1 skipped" in done.stdout) == (0, True)


def test_an_unlisted_need_fails_the_test(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "@pytest.mark.needs('luck')\ndef test_a(): pass\n")
    assert done.returncode == 1
    assert "is not listed in expected_skips.toml" in done.stdout


def test_every_listed_need_has_a_check() -> None:
    assert set(reasons()) == set(_CHECKS)
