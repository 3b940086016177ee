"""Fixes of the compilers around CUDA: the gcc that nvcc takes, and the ptxas that knows a GPU."""

from __future__ import annotations

from envcheck.explain.fix_context import context_of
from envcheck.explain.log import number
from envcheck.explain.told import Told, plain
from envcheck.model import Command, Fix, Way, replace
from envcheck.rules.compiler_fixes import compiler_anywhere


def older_compiler(told: Told) -> Fix | None:
    """Name the newest gcc that this nvcc takes, and the first CUDA that takes the gcc that is there."""
    matrix = told.log.matrix
    line = told.captured("nvcc") or next(iter(told.log.cudas), "")
    row = matrix.toolkit(line) if line else None
    over = told.captured("gcc_over")
    highest = told.captured("gcc_max") or (row.gcc_max or "" if row else "")
    if over and not told.captured("gcc_max"):
        highest = next(
            (item.gcc_max for item in matrix.toolkits() if item.gcc_max and number(item.gcc_max) < number(over)), ""
        )
    if not number(highest):
        return None
    gcc = number(told.captured("gcc") or _host_version(told))
    takes = [item.version for item in matrix.toolkits() if gcc and number(item.gcc_max or "")[:1] >= gcc[:1]]
    is_newer = bool(takes) and gcc[0] > number(highest)[0]
    newer = (Way(f"Use CUDA {takes[-1]} or newer, which takes gcc {gcc[0]}."),) if is_newer else ()
    fix = compiler_anywhere(context_of(told), number(highest)[0])
    changed: Fix = replace(fix, alternatives=(*fix.alternatives, *newer))
    return changed


def _host_version(told: Told) -> str:
    """Read the number of a host compiler as nvcc shows it: 90300 is gcc 9.3."""
    value = plain(
        next((event.captured["host_version"] for event in told.claim.events if "host_version" in event.captured), ""),
        r"\d{5,6}",
    )
    return f"{int(value) // 10000}.{int(value) % 10000 // 100}" if value else ""


def newer_ptxas(told: Told) -> Fix | None:
    """Name the CUDA whose ptxas knows a GPU."""
    cc = told.value("cc")
    row = told.log.matrix.architecture(cc)
    if row is None or row.first_toolkit is None:
        return None
    root = f"/usr/local/cuda-{row.first_toolkit}/bin"
    return Fix(
        f"Let the ptxas of CUDA {row.first_toolkit} or newer be found first: none before it knows {cc}.",
        (
            Command(("ptxas", "--version"), "environment", "the one that is found now"),
            Command(
                ("export", f"PATH={root}:$PATH", f"TRITON_PTXAS_PATH={root}/ptxas"),
                "user",
                "where that toolkit is installed; Triton reads the second",
            ),
        ),
    )
