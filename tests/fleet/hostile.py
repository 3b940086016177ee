"""Hostile snapshots, made to break their reader: real ones with other leaves."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

from envcheck.fleet.results import SNAPSHOT
from envcheck.model import encode
from tests.hosts.test_hosts import snapshot_of

REAL = (
    "recorded-torch-cpu-2.13",
    "docker-with-gpu",
    "driver-470-for-cuda-12",
    "reported-two-mig-instances",
)
FORMULA = "=cmd|' /C calc'!A0"
TEXTS = (
    "",
    FORMULA,
    "../../../etc/passwd\x00",
    "\x1b]0;owned\x07\x1b[2J\x1b[31m\u202etxt.exe",
    "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>",
    "{{ 7*7 }} {% raw %}",
    "\ud800 half a character",
    "9" * 5000,
    "1." * 400,
    "999999999999999999999.1e400",
    "A" * 70_000,
    "\n".join("line" * 3 for _ in range(300)),
)
NUMBERS = (0, -1, 2**63, 10**300, -(10**40))


@cache
def _document(name: str) -> str:
    return json.dumps({"schema": SNAPSHOT, **encode(snapshot_of(name))})


def document(name: str = REAL[0]) -> dict[str, Any]:
    """Return a real snapshot's document."""
    loaded: dict[str, Any] = json.loads(_document(name))
    return loaded


def mutated(seed: int) -> dict[str, Any]:
    """Return a real snapshot with some of its values replaced by hostile ones of the same type."""
    chance = random.Random(seed)
    changed: dict[str, Any] = _mutate(
        document(chance.choice(REAL)), chance, chance.choice((0.03, 0.3, 1.0))
    )
    return {**changed, "schema": SNAPSHOT, "schema_version": 1}


def _mutate(value: Any, chance: random.Random, share: float) -> Any:
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key in {"kind", "unknown", "tried"}}
        return {**{key: _mutate(item, chance, share) for key, item in value.items()}, **kept}
    if isinstance(value, list):
        items = [_mutate(item, chance, share) for item in value]
        return items * 50 if chance.random() < share / 10 else items
    if isinstance(value, bool) or value is None or chance.random() > share:
        return value
    return chance.choice(TEXTS) if isinstance(value, str) else chance.choice(NUMBERS)
