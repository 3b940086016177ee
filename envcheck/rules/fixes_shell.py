"""Commands of fixes for the system they are typed on: what only another one has is left out."""

from __future__ import annotations

import re
from collections.abc import Callable

from envcheck.model.findings import Command, Finding, Report
from envcheck.model.records import replaced

_LINUX = frozenset(
    "apt apt-cache apt-get dkms dmesg dnf dracut free fuser ibstat ip ldconfig ldd lspci mkinitcpio modprobe "  # noqa: SIM905
    "mokutil nvidia-ctk nvidia-modprobe pacman podman reboot sinfo srun systemctl ubuntu-drivers update-initramfs "
    "zypper".split()
)
_POSIX = _LINUX | frozenset(
    ". cat df env export find grep kill ln ls mkdir mv ps rm sh source sudo ulimit unset".split()  # noqa: SIM905
)
_LINUX_WORDS = re.compile(r"\b(?:dpkg|ldconfig|libcuda|LD_DEBUG|LD_LIBRARY_PATH|/proc|/sys|/etc/modprobe\.d)\b")


def fitted(report: Report, system: str) -> Report:
    """Return a report whose fixes can be typed on `system`; where that is not told all commands stand."""
    findings = tuple(_fitted(finding, system) for finding in report.findings)
    changed: Report = replaced(report, findings=findings, system=system)
    return changed


def _fitted(finding: Finding, system: str) -> Finding:
    fix = finding.fix
    if fix is None or not (fix.commands or fix.alternatives) or system not in ("windows", "darwin"):
        return finding
    there = _on_windows if system == "windows" else _on_macos
    commands = _typed(fix.commands, there)
    ways = [(way, _typed(way.commands, there)) for way in fix.alternatives]
    kept = [replaced(way, commands=typed) for way, typed in ways if typed or not way.commands]
    if fix.commands and not commands and kept:  # the first way is none there: another one takes its place
        first = next((way for way in kept if way.commands), kept[0])
        commands = first.commands
        fix = replaced(fix, summary=f"{fix.summary} {first.summary}")
        kept.remove(first)
    changed: Finding = replaced(finding, fix=replaced(fix, commands=commands, alternatives=tuple(kept)))
    return changed


def _typed(commands: tuple[Command, ...], there: Callable[[Command], tuple[Command, ...]]) -> tuple[Command, ...]:
    return tuple(item for command in commands for item in there(command))


def _on_macos(command: Command) -> tuple[Command, ...]:
    words = command.argv[1:] if command.argv[0] == "sudo" else command.argv
    return () if words[0] in _LINUX or any(map(_LINUX_WORDS.search, words)) else (command,)


def _on_windows(command: Command) -> tuple[Command, ...]:
    """Write variables as cmd sets them, a Python as Windows names it; () for what only other systems have."""
    words = command.argv
    if words[0] == "env" and len(words) > 2:
        first, rest = replaced(command, argv=("export", words[1])), replaced(command, argv=words[2:])
        return (*_on_windows(first), *_on_windows(rest))
    named = _windows_words(words)
    if named[0] in _POSIX:
        return ()
    return (replaced(command, argv=named, purpose=_purpose(command.purpose, named)),)


def _windows_words(words: tuple[str, ...]) -> tuple[str, ...]:
    program = words[0]
    if program == "export" and len(words) == 2 and not re.search(r"\$|=/", words[1]):
        return ("set", words[1])
    if program == "unset" and len(words) == 2:
        return ("set", f"{words[1]}=")
    if program == "mv":
        return ("move", *words[1:])
    if re.fullmatch(r"python3(\.\d+)?", program):
        return (*(("py", f"-{program[6:]}") if "." in program else ("python",)), *words[1:])
    if program.endswith("/bin/python") and not program.startswith(("/", "~")):
        return (program[: -len("bin/python")].replace("/", "\\") + "Scripts\\python.exe", *words[1:])
    return words


def _purpose(said: str, words: tuple[str, ...]) -> str:
    """Say how PowerShell sets a variable: its `set` is another command."""
    if words[0] != "set" or len(words) != 2 or "PowerShell" in said:
        return said
    name, _, value = words[1].partition("=")
    other = f'$env:{name} = "{value}"' if value else f"Remove-Item Env:{name}"
    return f"{said}; in PowerShell: {other}" if said else f"in cmd; in PowerShell: {other}"
