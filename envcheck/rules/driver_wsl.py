"""What only WSL gets wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.model import COMPATIBLE, ERROR, INCOMPATIBLE, NOTE, Absent, Command, Finding, Fix, Known
from envcheck.rules.context import Context
from envcheck.rules.driver_library import is_compat
from envcheck.rules.fixes_system import WSL, as_root, install_driver, system_family
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
        yield _wsl(context, severity, "This is WSL 1, which has no GPU; WSL 2 has.", "host.wsl_version")
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
            installed,
        )
    elif isinstance(path, Absent) and not isinstance(driver.libcuda_elsewhere, Known):
        context.need(driver.libcuda_elsewhere, "driver.libcuda_elsewhere")
        yield _wsl(
            context,
            ERROR,
            "Windows hands a GPU in, but no driver library: /usr/lib/wsl/lib has no libcuda.so.1. The Windows "
            "driver is missing or too old for WSL.",
            "driver.libcuda_path",
        )


def _wsl(context: Context, severity: str, message: str, seen: str, installed: list[str] | None = None) -> Finding:
    fix = install_driver(context, None) if system_family(context) == WSL else Fix("Install NVIDIA's driver in Windows.")
    if seen == "host.wsl_version":
        fix = Fix(
            "Convert this distribution to WSL 2 (from Windows).",
            (
                Command(
                    ("wsl.exe", "--set-version", "DISTRIBUTION", "2"), "system", "DISTRIBUTION as wsl.exe -l names it"
                ),
            ),
        )
    names = [name for name in installed or [] if re.fullmatch(r"[a-z0-9.+-]+", name)]
    if names:
        fix = Fix(
            "Remove the Linux driver from WSL; the driver in Windows is the only one needed.",
            (as_root(context, "apt-get", "purge", "-y", *names, purpose="remove the Linux driver"),),
        )
    verdict = COMPATIBLE if severity == NOTE else INCOMPATIBLE
    return Finding(
        "driver-wsl", verdict, severity, message, (context.seen("host.wsl_version"), context.seen(seen)), fix
    )
