"""What a package manager of the system would remove, as it says itself before it is run."""

from __future__ import annotations

import os
import re

from envcheck.actions import APT, DNF, ZYPPER
from envcheck.host.process import run_program

_SECONDS = 600.0  # dnf and zypper may fetch the lists of their repositories first
_SIMULATE = {
    APT: ("apt-get", "-s", "install", "-y"),
    DNF: ("dnf", "install", "--assumeno"),
    ZYPPER: ("zypper", "-n", "-x", "install", "--dry-run"),
}
_IS_AVAILABLE = {
    APT: ("apt-cache", "madison"),
    DNF: ("dnf", "-q", "list", "--available", "--showduplicates"),
    ZYPPER: ("zypper", "-n", "-x", "-q", "search", "-s", "--match-exact"),
}
# What shows that a simulation came to its end; apt's exit status shows it.
_ENDS = {DNF: "Transaction Summary|Nothing to do", ZYPPER: "<install-summary|Nothing to do"}


class UnreadRemovalsError(Exception):
    """The package manager did not say what it would remove."""


def list_removed(manager: str, packages: tuple[str, ...]) -> tuple[str, ...]:
    """List what an installation would remove; raises UnreadRemovalsError where nothing says it."""
    argv = (*_SIMULATE[manager], *packages)
    printed = _read(argv)
    if manager in _ENDS and not re.search(_ENDS[manager], printed):
        raise UnreadRemovalsError(f"nothing says what it would remove: see `{' '.join(argv)}`")
    return parse_removed(manager, printed)


def list_chosen(argv: tuple[str, ...]) -> tuple[str, ...]:
    """List what `ubuntu-drivers install` would install; nothing where it offers no driver."""
    words = tuple(word.partition(":")[2] for word in argv if word.startswith("nvidia:"))
    options = ("--gpgpu",) if "--gpgpu" in argv else ()
    options = options if words else ("--recommended",)
    answer = run_program(("ubuntu-drivers", "list", *options), _SECONDS, os.environ).value
    if answer is None or answer.returncode:
        raise UnreadRemovalsError("nothing says what it would install: see `ubuntu-drivers list`")
    return parse_chosen(answer.stdout, *words)


def parse_chosen(printed: str, kind: str = "") -> tuple[str, ...]:
    """Parse which driver package ubuntu-drivers chooses, and the package of its kernel modules.

    `kind`: the end of the driver's name, where one was asked for: 580-server-open.

    "nvidia-driver-580 linux-modules-nvidia-580-generic", or the driver alone where it knows no
    modules for this kernel; for computing "nvidia-driver-580-server-open, (kernel modules provided
    by linux-modules-nvidia-580-server-open-generic)".
    """
    found = re.findall(
        r"^(nvidia-\S+?)(?:,? +(?:\(kernel modules provided by )?(linux-[\w.+-]+)\)?)?$",
        printed,
        re.MULTILINE,
    )
    fitting = [packages for packages in found if packages[0].endswith(kind)]
    with_modules = [packages for packages in fitting if packages[1]]
    chosen = (with_modules or fitting)[:1]
    return tuple(filter(None, chosen[0])) if chosen else ()


def parse_removed(manager: str, printed: str) -> tuple[str, ...]:
    """List the packages that a simulation removes or replaces.

    apt: "Remv nvidia-driver-535 [535.261.03-0ubuntu1]"
    dnf: "     replacing  nvidia-driver.x86_64 3:550.54.15-1.el9", and the rows below "Removing:"
    zypper: "<to-remove>" around "<solvable type="package" name="nvidia-driver-G06" ... />"
    """
    if manager == APT:
        return tuple(re.findall(r"^(?:Remv|Purg) (\S+)", printed, re.MULTILINE))
    if manager == ZYPPER:
        parts = re.findall("<to-remove>(.*?)</to-remove>", printed, re.DOTALL)
        return tuple(re.findall(r'<solvable\b[^>]*? name="([^"]+)"', "".join(parts)))
    found, is_removing = [], False
    for line in printed.splitlines():
        row = re.match(r" (\S+)", line)
        replaced = re.match(r"\s+replacing\s+(\S+?)(?:\.\w+)?\s", f"{line} ")
        if not line.startswith(" "):
            is_removing = line.startswith("Removing")
        if replaced:
            found.append(replaced[1])
        elif row and is_removing:
            found.append(row[1])
    return tuple(found)


def is_available(manager: str, package: str) -> bool:
    """Return whether a repository has a package."""
    printed = _read((*_IS_AVAILABLE[manager], package))
    if manager == ZYPPER:  # which lists what is installed as well
        places = re.findall(r'<solvable\b[^>]*? repository="([^"]+)"', printed)
        return any(place != "(System Packages)" for place in places)
    return re.search(rf"^\s*{re.escape(package)}\b", printed, re.MULTILINE) is not None


def _read(argv: tuple[str, ...]) -> str:
    """Return what a program prints in English; dnf exits with 1 although it answered."""
    answer = run_program(argv, _SECONDS, {**os.environ, "LC_ALL": "C"}).value
    return answer.stdout + answer.stderr if answer else ""
