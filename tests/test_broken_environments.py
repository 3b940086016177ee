"""A seeded sample of bench/broken_environments.py, in a small real environment: the real import is the judge."""

import dataclasses
import random
import sys
from pathlib import Path

import pytest

from bench.breakages import BASES
from bench.broken_environments import (
    DIES,
    Bench,
    Options,
    is_alarm_of_healthy,
    is_false_alarm,
    is_incompatible,
    list_cases,
)

SEED, COUNT = 15, 8


@pytest.mark.needs("linux", "package-index")
def test_a_sample_of_broken_environments_is_judged_as_the_import_judges_them(
    tmp_path: Path,
) -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    base = dataclasses.replace(
        next(base for base in BASES if base.name == "onnxruntime"), python=here
    )
    # -m would take modules from the working directory
    envcheck = Path(sys.executable).with_name("envcheck")
    options = Options(tmp_path / "bases", (str(envcheck),))
    cases, failed = list_cases(options, SEED, [base])
    assert not failed
    # when the kill comes is not in a seed
    sound = [case for case in cases if not case.kind.startswith("interrupted")]
    bench = Bench(options, {base.name: base}, {})

    rows = [bench.do(case) for case in (sound[0], *random.Random(SEED).sample(sound[1:], COUNT))]

    assert [row["id"] for row in rows if "not done" in row] == []
    assert [row["id"] for row in rows if is_alarm_of_healthy(row)] == []
    assert [row["id"] for row in rows if is_false_alarm(row)] == []
    dead = [row for row in rows if row["import"]["outcome"] == DIES]
    assert len(dead) >= COUNT // 3
    assert [row["id"] for row in dead if not is_incompatible(row)] == []
    assert [row["id"] for row in dead if not row["doctor"]["right"]] == []
