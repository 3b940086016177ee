"""NumPy's words on its own import hide what failed: the original error, the folder and the Python.

The cases named numpy-* of tests/cases/composed.jsonl; their `source` says which are real outputs.
"""

from __future__ import annotations

import pytest

from envcheck.actions import action_line
from tests.cases.judged import Judged, judged_cases

REINSTALL = "python3 -m pip install --force-reinstall --no-deps --no-cache-dir numpy==2.2.6"
SAID = {
    "numpy-pypath22": ("Python 3.11 imports NumPy from ", "unset PYTHONPATH"),
    "numpy-pypath126": ("Python 3.11 imports NumPy from ", "unset PYTHONPATH"),
    "numpy-empty22": ("damaged or was not copied whole", REINSTALL),
    "numpy-zero126": ("damaged or was not copied whole", REINSTALL.replace("2.2.6", "1.26.4")),
    "numpy-nolib22": ("A library that NumPy's wheel brings beside it is missing", REINSTALL),
    "numpy-part-missing": ("NumPy's compiled part is missing from ", REINSTALL),
    "numpy-noexec22": (
        "mounted noexec",
        "findmnt --target /srv/nx/numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so",
    ),
    "numpy-lacks-openblas": (
        "libopenblas.so.0, which this system lacks",
        "apt-get install -y libopenblas0",
    ),
    "numpy-source-tree": ("a folder of its sources", "cd /"),
}


def judged(name: str) -> Judged:
    return next(item for item in judged_cases("composed") if item.case["id"] == name)


@pytest.mark.parametrize("name", sorted(SAID))
def test_the_original_error_is_the_cause(name: str) -> None:
    item = judged(name)
    message, command = SAID[name]
    cause = next(finding for finding in item.report.findings if finding.primary)
    assert item.is_strict
    assert message in cause.message
    assert cause.fix is not None
    lines = [action_line(action, "linux") for action in cause.fix.actions]
    assert any(command in line for line in lines), lines


@pytest.mark.parametrize("name", sorted(set(SAID) - {"numpy-source-tree"}))
def test_nobody_is_sent_out_of_a_source_tree_that_is_none(name: str) -> None:
    findings = [item.id for item in judged(name).report.findings if item.caused_by is None]
    assert not {"local-module-shadowing", "numpy-abi", "python-wrong-arch"} & set(findings)
