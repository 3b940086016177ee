"""Run `envcheck fleet` as users do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema

from envcheck.host.data_files import read_packaged

ROOT = Path(__file__).parents[2]


def fleet(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 55
) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "envcheck", "fleet", *map(str, arguments)]
    whole = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    return subprocess.run(
        argv, capture_output=True, text=True, errors="replace", check=False, cwd=cwd, env=whole, timeout=timeout
    )


@cache
def _check(document: str) -> Any:
    return fastjsonschema.compile(json.loads(read_packaged("schemas", f"{document}.schema.json")))


def document(done: subprocess.CompletedProcess[str], name: str = "fleet-report") -> Any:
    """Return the one JSON document on standard output, which fits its schema."""
    found = json.loads(done.stdout)
    _check(name)(found)
    return found
