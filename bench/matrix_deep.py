"""Measure how long the binaries of wheels (tier 2) take to read from the index that pip is configured for.

    python bench/matrix_deep.py jax:jax-cuda13-plugin:0.12.0.1:linux_x86_64 ... [--cache DIR] [--output FILE]

Reads one wheel of each row, named framework:distribution:version:platform, over one connection, and prints a table
in Markdown. A wheel is hundreds of megabytes. With --output the matrix is written with these binaries.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from pathlib import Path

from envcheck.host.pip_settings import read_pip_settings
from envcheck.matrix.load import load_document
from envcheck.matrix.refresh.binary_cells import apply_binaries
from envcheck.matrix.refresh.files import save_document
from envcheck.matrix.refresh.index import Wheel
from envcheck.matrix.refresh.reader import Cache, Reader
from envcheck.matrix.refresh.refresh import iterate_releases, list_framework


def main() -> int:
    """Run the whole benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="+")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    document = load_document()
    rows = dict(iterate_releases(document))
    pages = Reader(read_pip_settings(os.environ), Cache(options.cache) if options.cache else None)
    deep = pages.open_binaries()
    wheels = wheels_of(pages, {name.split(":")[0] for name in options.rows})
    print("| row | binaries read | seconds |\n|---|---|---|")
    for name in options.rows:
        framework, distribution, version, platform = name.split(":")
        start = time.perf_counter()
        found = deep.read(framework, wheels[distribution, version, platform])
        seconds = time.perf_counter() - start
        row = rows[framework, version, distribution, platform]
        apply_binaries(framework, row, found, document["citations"], document["checked"])
        sampled = f"{len(found['read'])} of {found['binaries']}"
        print(
            f"| {distribution} {version} {platform} | {sampled} | {seconds:.1f} |",
            flush=True,
        )
    pages.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nPeak memory {peak:.0f} MiB.")
    if options.output:
        save_document(document, options.output)
    return 0


def wheels_of(reader: Reader, frameworks: set[str]) -> dict[tuple[str, str, str], Wheel]:
    """Map each distribution, version and platform to the wheel that represents it."""
    groups = (group for name in sorted(frameworks) for group in list_framework(reader, name).groups)
    return {
        (group.distribution, group.version, group.platform): group.representative
        for group in groups
    }


if __name__ == "__main__":
    sys.exit(main())
