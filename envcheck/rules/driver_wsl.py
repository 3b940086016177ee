"""What only WSL gets wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.model import COMPATIBLE, ERROR, INCOMPATIBLE, NOTE, Absent, Finding, Known, Problem
from envcheck.rules.context import Context
from envcheck.rules.driver_library import is_compat
from envcheck.rules.gpu_facts import cuda_starts
from envcheck.rules.registry import rule

_WSL_FOLDER = "/usr/lib/wsl/"


@rule("driver-wsl", goal="any")
def driver_wsl(context: Context) -> Iterator[Finding]:
    """Report what only WSL gets wrong: WSL 1, no Windows driver behind it, a Linux driver inside it."""
    version = context.facts.host.wsl_version
    if not isinstance(version, Known) or context.target.expect == "cpu":
        return
    if version.value == 1:
        severity = ERROR if context.target.expect == "gpu" else NOTE
        yield _wsl(
            context, severity, "This is WSL 1, which has no GPU; WSL 2 has.", "host.wsl_version", Problem(("wsl-1",))
        )
        return
    if (
        isinstance(context.facts.gpus, Absent)
        or cuda_starts(context)
        or isinstance(context.facts.host.container, Known)
    ):
        return
    driver = context.facts.driver
    path = driver.libcuda_path
    packages = driver.packages.value if isinstance(driver.packages, Known) else {}
    installed = sorted(
        name for name in packages if re.match(r"(libnvidia-compute|nvidia-driver|libcuda1|nvidia-kernel)", name)
    )
    if isinstance(path, Known) and not path.value.startswith(_WSL_FOLDER) and not is_compat(path.value):
        what = f" (packages {', '.join(installed[:3])})" if installed else ""
        yield _wsl(
            context,
            ERROR,
            f"A Linux driver is installed inside WSL{what}: its {path.value} hides the one Windows hands in.",
            "driver.libcuda_path",
            Problem(("linux-driver",), names=tuple(installed)),
        )
    elif isinstance(path, Absent) and not isinstance(driver.libcuda_elsewhere, Known):
        context.need(driver.libcuda_elsewhere, "driver.libcuda_elsewhere")
        yield _wsl(
            context,
            ERROR,
            "Windows hands a GPU in, but no driver library: /usr/lib/wsl/lib has no libcuda.so.1. The Windows "
            "driver is missing or too old for WSL.",
            "driver.libcuda_path",
            Problem(("no-windows-driver",)),
        )


def _wsl(context: Context, severity: str, message: str, seen: str, problem: Problem) -> Finding:
    verdict = COMPATIBLE if severity == NOTE else INCOMPATIBLE
    evidence = (context.seen("host.wsl_version"), context.seen(seen))
    return Finding("driver-wsl", verdict, severity, message, evidence, problem=problem)
