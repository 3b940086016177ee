"""Measure how long the matrix takes to load, and to refresh from the index that pip is configured for.

    python bench/matrix.py --load
    python bench/matrix.py --compare COMMIT
    python bench/matrix.py --count
    python bench/matrix.py [--framework tensorflow] [--since VERSION]

With --load: decode data/compat_matrix.json beside its rows unfolded, by turns, and print a table in Markdown. Exits 1
if it takes more than 0.8 of their time, or the file is larger than 800 kB.

With --compare: compare every cell of the matrix with that of a commit, and print the rows that differ.

With --count: for each package beside a framework, count the releases of the last 24 months on the index, those that
the matrix holds, and their rows. Exits 1 if a release with a wheel is not held.

Else: delete every release of the framework (from VERSION on), or of all packages beside one for `companions`, read
them all again from an empty cache, and print a table in Markdown. Exits 1 if the result is not the matrix it started
from, or a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import requests
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from envcheck.host.data_files import read_data
from envcheck.host.pip_settings import read_pip_settings
from envcheck.matrix.built_in import unfold
from envcheck.matrix.companions import companion_sections, load_companions
from envcheck.matrix.load import load_document
from envcheck.matrix.refresh.files import format_document
from envcheck.matrix.refresh.index import CONNECTIONS
from envcheck.matrix.refresh.reader import Cache, Reader
from envcheck.matrix.refresh.refresh import (
    drop_unused_citations,
    format_change,
    iterate_releases,
    list_changes,
    list_framework,
    refresh,
)

_RUNS = 15
_JSON = "application/vnd.pypi.simple.v1+json"


def main() -> int:
    """Run one of the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--compare", metavar="COMMIT")
    parser.add_argument("--framework", default="tensorflow")
    parser.add_argument("--since", default="0")
    options = parser.parse_args()
    if options.compare:
        return compare(options.compare)
    if options.load or options.count:
        return measure_load() if options.load else count_releases()
    names = (
        tuple(companion_sections()) if options.framework == "companions" else (options.framework,)
    )
    return measure_refresh(names, options.since)


def measure_load() -> int:
    """Measure the minimum time to decode the matrix, beside its rows unfolded, by turns in this process."""
    folded = json.loads(read_data("compat_matrix.json"))
    rows = {
        name: [row for line in lines for _, row in unfold(line)]
        for name, lines in folded["releases"].items()
    }
    texts = [
        json.dumps(item, separators=(",", ":")) for item in (folded, {**folded, "releases": rows})
    ]
    seconds = [1.0, 1.0]
    for _ in range(_RUNS):
        for at, text in enumerate(texts):
            start = time.perf_counter()
            json.loads(text)
            seconds[at] = min(seconds[at], time.perf_counter() - start)
    ratio, size = seconds[0] / seconds[1], len(read_data("compat_matrix.json"))
    print(f"| rows | kB | ms, minimum of {_RUNS} |\n|---|---|---|")
    for name, text, taken in zip(("folded", "unfolded"), texts, seconds):
        print(f"| {name} | {len(text) / 1e3:.0f} | {taken * 1e3:.2f} |")
    targets = {
        f"{ratio:.2f} of the time unfolded <= 0.8": ratio <= 0.8,
        f"{size} bytes <= 800000": size <= 800_000,
    }
    for target, met in targets.items():
        print(f"- {'met' if met else 'MISSED'}: {target}")
    return 0 if all(targets.values()) else 1


def compare(commit: str) -> int:
    """Compare every cell of the matrix with that of a commit, and print the rows that differ."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", commit, "envcheck", "data"], capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        code = (
            "import json; from envcheck.matrix.load import load_document as load;"
            " print(json.dumps(load()))"
        )
        printed = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, capture_output=True, check=True
        )
    old, new = json.loads(printed.stdout), load_document()
    changes = list_changes(old, new)
    for change in changes:
        print(*format_change(change), sep="\n")
    rows = [row for _, row in iterate_releases(new)]
    same = [
        name
        for name in new
        if name not in ("releases", "frameworks", "companions") and old[name] == new[name]
    ]
    print(
        f"{len(rows)} rows with {sum(map(len, rows))} cells: {len(changes)} rows differ; the same:"
        f" {', '.join(same)}"
    )
    return 1 if changes else 0


def count_releases() -> int:
    """Print how many releases of the last 24 months the index and the matrix have of each package."""
    held: dict[str, list[str]] = {}
    for key, _ in iterate_releases(load_document()):
        held.setdefault(key[2], []).append(key[1])
    since = (datetime.now(timezone.utc) - timedelta(days=730)).isoformat()
    lacking = 0
    print(
        "| package | releases of 24 months | with a wheel | held | rows | not held"
        " |\n|---|---|---|---|---|---|"
    )
    for name in [name for row in load_companions().rows for name in row.distributions]:
        files = list_files(name)
        recent = {
            version
            for version, items in files.items()
            if min(each["upload-time"] for each in items) >= since
        }
        wheels = {
            version
            for version in recent
            if any(each["filename"].endswith(".whl") for each in files[version])
        }
        rows = [version for version in held.get(name, ()) if Version(version) in recent]
        lost = sorted(wheels - {*map(Version, rows)}) if name in held else []
        why = f"{', '.join(map(str, lost))}" or (
            f"{len(recent - wheels)} as sources only" if recent - wheels else ""
        )
        why = why if name in held or not wheels else "no section of the matrix"
        print(
            f"| {name} | {len(recent)} | {len(wheels)} | {len({*rows})} | {len(rows)} | {why} |",
            flush=True,
        )
        lacking += len(lost)
    return 1 if lacking else 0


def list_files(name: str) -> dict[Version, list[dict[str, Any]]]:
    """Map the final releases on an index page to their files."""
    index = read_pip_settings(os.environ).url or PYPI_SIMPLE_ENDPOINT
    answer = requests.get(f"{index.rstrip('/')}/{name}/", headers={"Accept": _JSON}, timeout=60)
    found: dict[Version, list[dict[str, Any]]] = {}
    for each in answer.json()["files"] if answer.ok else ():
        with suppress(InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
            is_wheel = each["filename"].endswith(".whl")
            parse = parse_wheel_filename if is_wheel else parse_sdist_filename
            found.setdefault(parse(each["filename"])[1], []).append(each)
    return {
        version: files
        for version, files in found.items()
        if not (version.is_prerelease or version.local)
    }


def measure_refresh(names: Sequence[str], since: str) -> int:
    """Measure how long it takes to read all releases of frameworks or packages again."""
    document = load_document()
    emptied = delete_releases(document, names, since)
    with tempfile.TemporaryDirectory() as folder:
        reader = Reader(read_pip_settings(os.environ), Cache(Path(folder)))
        start = time.perf_counter()
        listings = [list_framework(reader, name, "" if since == "0" else since) for name in names]
        pages = time.perf_counter() - start
        refreshed = refresh(
            emptied, listings, reader, document["checked"], lambda *_: None
        ).document
        seconds = time.perf_counter() - start
        reader.close()
    releases = sum(
        len(refreshed["releases"][name]) - len(emptied["releases"][name]) for name in names
    )
    same = format_without_dates(refreshed) == format_without_dates(document)
    print(f"{', '.join(names)}, from an empty cache, at most {CONNECTIONS} connections:\n")
    print("| measure | value |\n|---|---|")
    print(f"| releases read | {releases} |")
    print(f"| index pages | {pages:.1f} s |\n| whole refresh | {seconds:.0f} s |")
    print(f"| per release | {seconds / max(releases, 1):.2f} s |")
    print(f"| the same matrix as before, except dates | {'yes' if same else 'NO'} |")
    minutes = 5 if len(names) > 1 else 10
    targets = {
        f"whole refresh <= {minutes} minutes": seconds <= 60 * minutes,
        "the same matrix": same,
    }
    for target, met in targets.items():
        print(f"- {'met' if met else 'MISSED'}: {target}")
    return 0 if all(targets.values()) else 1


def delete_releases(document: dict[str, Any], names: Sequence[str], since: str) -> dict[str, Any]:
    """Return the matrix without the releases of frameworks from `since` on."""
    emptied = deepcopy(document)
    for name in names:
        rows = emptied["releases"][name]
        emptied["releases"][name] = {
            version: row for version, row in rows.items() if Version(version) < Version(since)
        }
    drop_unused_citations(emptied)
    return emptied


def format_without_dates(document: dict[str, Any]) -> str:
    """Format a matrix without the days on which its rows were checked."""
    plain = deepcopy(document)
    for citation in plain["citations"].values():
        citation["checked"] = ""
    return format_document({**plain, "checked": ""})


if __name__ == "__main__":
    sys.exit(main())
