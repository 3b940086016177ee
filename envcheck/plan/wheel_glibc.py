"""The C library that a release's CUDA wheels need, where it is newer than its own wheel's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from envcheck.matrix.rows import build_citation
from envcheck.model.facts import Known
from envcheck.model.findings import ERROR, INCOMPATIBLE, Evidence, Finding
from envcheck.plan.candidates import Candidate
from envcheck.plan.cuda_source import OWN, CudaSource
from envcheck.plan.plan_data import plan_data
from envcheck.rules.context import Context


def old_libc(context: Context, candidate: Candidate, source: CudaSource) -> Iterator[Finding]:
    """Yield what keeps a release's CUDA wheels off this machine's C library: no wheel of theirs is for it."""
    libc = context.facts.host.libc_version
    there = re.match(r"\d+\.\d+", libc.value) if isinstance(libc, Known) and context.os == "linux" else None
    if source.kind != OWN or candidate.local or there is None:
        return
    data = plan_data()["wheel_glibc"]
    for row in data["rows"]:
        asked = next((item for item in candidate.cuda_row.cuda_wheels if item.startswith(row["wheel"])), "")
        lowest = re.search(r"[>=]=(\d+(?:\.\d+)*)", asked)
        if lowest and Version(lowest[1]) >= Version(row["first"]) and Version(there[0]) < Version(row["glibc"]):
            shown = f"{asked}: glibc {row['glibc']}"
            yield Finding(
                "glibc-too-old",
                INCOMPATIBLE,
                ERROR,
                f"{candidate.requirement} asks for {asked}, whose wheels need glibc {row['glibc']} or newer; this "
                f"system has glibc {there[0]}.",
                (
                    context.seen("host.libc_version"),
                    Evidence("CUDA wheels", shown, citation=build_citation(data["citation"])),
                ),
            )
            return
