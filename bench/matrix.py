"""Measure how long the matrix takes to load, and to refresh from the index that pip is configured for.

    python bench/matrix.py --load
    python bench/matrix.py [--framework tensorflow] [--since VERSION]

With --load: read each file of the matrix in a new process, and print a table in Markdown. Exits 1 if the whole matrix
takes more than 10 ms for each megabyte.

Else: delete every release of the framework (from VERSION on), read them all again from an empty cache, and print a
table in Markdown. Exits 1 if the result is not the matrix it started from, or a target is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

from packaging.version import Version

from envcheck.matrix.load import load_document
from envcheck.matrix.refresh.index import CONNECTIONS
from envcheck.matrix.refresh.pip_settings import read_pip_settings
from envcheck.matrix.refresh.reader import Cache, Reader
from envcheck.matrix.refresh.refresh import (
    drop_unused_citations,
    format_document,
    list_framework,
    refresh,
    split_document,
)

_RUNS = 15
_READ = """
import time
from envcheck.matrix.load import _open_built_in
start = time.perf_counter()
document = _open_built_in()
for name in {names!r}:
    table = document
    for key in name.split("/"):
        table = table[key]
print(time.perf_counter() - start)
"""


def main() -> int:
    """Run one of the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--framework", default="tensorflow")
    parser.add_argument("--since", default="0")
    options = parser.parse_args()
    return measure_load() if options.load else measure_refresh(options.framework, options.since)


def measure_load() -> int:
    """Measure the minimum time to read each file, and all files, in a new process."""
    sizes = {file: len(format_document(part)) for file, part in split_document(load_document())}
    print(f"| file | kB | ms, minimum of {_RUNS} processes |\n|---|---|---|")
    for file, size in sizes.items():
        print(f"| {file}.json | {size / 1e3:.0f} | {read([file]):.2f} |", flush=True)
    whole, megabytes = read([*sizes]), sum(sizes.values()) / 1e6
    print(f"| all | {megabytes * 1e3:.0f} | {whole:.2f} |")
    met = whole <= 10 * megabytes
    print(f"\n- {'met' if met else 'MISSED'}: {whole / megabytes:.1f} ms per MB <= 10")
    return 0 if met else 1


def read(files: list[str]) -> float:
    """Return the milliseconds to read files in a new process, the minimum of several."""
    code = _READ.format(names=files)
    runs = (subprocess.run([sys.executable, "-c", code], capture_output=True, check=True) for _ in range(_RUNS))
    return min(float(done.stdout) for done in runs) * 1e3


def measure_refresh(framework: str, since: str) -> int:
    """Measure how long it takes to read all releases of a framework again."""
    document = load_document()
    emptied = delete_releases(document, framework, since)
    with tempfile.TemporaryDirectory() as folder:
        reader = Reader(read_pip_settings(os.environ), Cache(Path(folder)))
        start = time.perf_counter()
        listing = list_framework(reader, framework, "" if since == "0" else since)
        pages = time.perf_counter() - start
        refreshed = refresh(emptied, [listing], reader, document["checked"], lambda *_: None).document
        seconds = time.perf_counter() - start
        reader.close()
    releases = len(refreshed["releases"][framework]) - len(emptied["releases"][framework])
    same = format_without_dates(refreshed) == format_without_dates(document)
    print(f"{framework}, from an empty cache, at most {CONNECTIONS} connections:\n")
    print("| measure | value |\n|---|---|")
    print(f"| releases read | {releases} |\n| wheels read | {reader.wheels_read} |")
    print(f"| index pages | {pages:.1f} s |\n| whole refresh | {seconds:.0f} s |")
    print(f"| per release | {seconds / max(releases, 1):.2f} s |")
    print(f"| bytes per wheel read | {reader.received / max(reader.wheels_read, 1) / 1e6:.2f} MB |")
    print(f"| the same matrix as before, except dates | {'yes' if same else 'NO'} |")
    targets = {"whole refresh <= 10 minutes": seconds <= 600, "the same matrix": same}
    for target, met in targets.items():
        print(f"- {'met' if met else 'MISSED'}: {target}")
    return 0 if all(targets.values()) else 1


def delete_releases(document: dict[str, Any], framework: str, since: str) -> dict[str, Any]:
    """Return the matrix without the releases of a framework from `since` on."""
    emptied = deepcopy(document)
    versions = emptied["releases"][framework]
    emptied["releases"][framework] = {name: rows for name, rows in versions.items() if Version(name) < Version(since)}
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
