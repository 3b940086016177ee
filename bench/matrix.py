"""Measure the renewal of the matrix from the index that pip is configured for, from an empty cache.

    python bench/matrix.py [--framework tensorflow] [--since VERSION]

Deletes every release of the framework (from VERSION on), reads them all again, and prints a table in
Markdown. Exits 1 when the result is not the matrix it started from, or a target is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

from packaging.version import Version

from envcheck.matrix.load import load_document
from envcheck.matrix.refresh.index import CONNECTIONS
from envcheck.matrix.refresh.merge import drop_unused_citations
from envcheck.matrix.refresh.pip_settings import read_pip_settings
from envcheck.matrix.refresh.reader import Cache, Reader
from envcheck.matrix.refresh.refresh import list_framework, refresh
from envcheck.matrix.refresh.write import format_document


def without(document: dict[str, Any], framework: str, since: str) -> dict[str, Any]:
    """Return the matrix without the releases of a framework from `since` on."""
    emptied = deepcopy(document)
    versions = emptied["releases"][framework]
    emptied["releases"][framework] = {name: rows for name, rows in versions.items() if Version(name) < Version(since)}
    drop_unused_citations(emptied)
    return emptied


def unchecked(document: dict[str, Any]) -> str:
    """Write a matrix without the days on which its rows were checked."""
    plain = deepcopy(document)
    for citation in plain["citations"].values():
        citation["checked"] = ""
    return format_document({**plain, "checked": ""})


def main() -> int:
    """Run the whole benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", default="tensorflow")
    parser.add_argument("--since", default="0")
    options = parser.parse_args()
    document = load_document()
    emptied = without(document, options.framework, options.since)
    with tempfile.TemporaryDirectory() as folder:
        reader = Reader(read_pip_settings(os.environ), Cache(Path(folder)))
        start = time.perf_counter()
        since = "" if options.since == "0" else options.since
        listing = list_framework(reader, options.framework, since)
        pages = time.perf_counter() - start
        renewed = refresh(emptied, [listing], reader, document["checked"], lambda *_: None).document
        seconds = time.perf_counter() - start
        reader.close()
    releases = len(renewed["releases"][options.framework]) - len(emptied["releases"][options.framework])
    same = unchecked(renewed) == unchecked(document)
    print(f"{options.framework}, from an empty cache, at most {CONNECTIONS} connections:\n")
    print("| measure | value |\n|---|---|")
    print(f"| releases read | {releases} |\n| wheels read | {reader.wheels_read} |")
    print(f"| index pages | {pages:.1f} s |\n| whole renewal | {seconds:.0f} s |")
    print(f"| per release | {seconds / max(releases, 1):.2f} s |")
    print(f"| bytes per wheel read | {reader.received / max(reader.wheels_read, 1) / 1e6:.2f} MB |")
    print(f"| the same matrix as before, `checked` aside | {'yes' if same else 'NO'} |")
    targets = {"whole renewal <= 10 minutes": seconds <= 600, "the same matrix": same}
    for target, met in targets.items():
        print(f"- {'met' if met else 'MISSED'}: {target}")
    return 0 if all(targets.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
