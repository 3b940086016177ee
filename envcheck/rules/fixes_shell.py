"""Commands of fixes for the system they are typed on: what only another one has is left out."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from envcheck.host.data_files import read_data
from envcheck.model import Command, Finding, Report, replace

# What the driver told of its GPUs since Windows started: the name is the driver's, as NVRM is on Linux.
_DRIVER_EVENTS = (
    "wevtutil",
    "qe",
    "System",
    "/q:*[System[Provider[@Name='nvlddmkm']]]",
    "/c:20",
    "/rd:true",
    "/f:text",
)
_SEE_EVENTS = "the last events of NVIDIA's driver: look for Xid"


def fitted(report: Report, system: str) -> Report:
    """Return a report whose fixes can be typed on `system`; where that is not told all commands stand."""
    findings = tuple(fitted_finding(finding, system) for finding in report.findings)
    changed: Report = replace(report, findings=findings, system=system)
    return changed


def fitted_finding(finding: Finding, system: str) -> Finding:
    """Return a finding whose fix can be typed on `system`."""
    fix = finding.fix
    if fix is None or not (fix.commands or fix.alternatives) or system not in ("windows", "darwin"):
        return finding
    fix = replace(fix, summary=_said(fix.summary, system))
    commands = _typed(fix.commands, system)
    ways = [(way, _typed(way.commands, system)) for way in fix.alternatives]
    kept = [
        replace(way, summary=_said(way.summary, system), commands=typed)
        for way, typed in ways
        if typed or not way.commands
    ]
    if fix.commands and not commands and kept:  # the first way is none there: another one takes its place
        first = next((way for way in kept if way.commands), kept[0])
        commands = first.commands
        fix = replace(fix, summary=f"{fix.summary} {first.summary}")
        kept.remove(first)
    changed: Finding = replace(finding, fix=replace(fix, commands=commands, alternatives=tuple(kept)))
    return changed


def _said(text: str, system: str) -> str:
    """Name the variable that Windows' loader reads."""
    return text.replace("LD_LIBRARY_PATH", "PATH") if system == "windows" else text


def _typed(commands: tuple[Command, ...], system: str) -> tuple[Command, ...]:
    there = _on_windows if system == "windows" else _on_macos
    translated = (item for command in commands for item in there(command))
    return tuple(item for item in translated if _is_known(item.argv, system))


def _on_macos(command: Command) -> tuple[Command, ...]:
    is_sudo = command.argv[0] == "sudo" and _is_known(command.argv[1:], "darwin")
    return (command,) if is_sudo or command.argv[0] != "sudo" else ()


def _is_known(words: tuple[str, ...], system: str) -> bool:
    """Tell whether a system has a program, and knows what the words are about."""
    others = [names for systems, names in _programs()["only"].items() if system not in systems.split()]
    return not any(words[0] in names for names in others) and not _is_strange(words, system)


def _is_strange(words: tuple[str, ...], system: str) -> bool:
    return re.search(_programs()["strange"][system], " ".join(words)) is not None


@lru_cache(maxsize=1)
def _programs() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(read_data("shell_programs.json"))
    return loaded


def _on_windows(command: Command) -> tuple[Command, ...]:
    """Write variables as cmd sets them, a Python as Windows names it; () for what only other systems have."""
    words = command.argv
    if words[0] == "env" and len(words) > 2:
        first, rest = replace(command, argv=("export", words[1])), replace(command, argv=words[2:])
        return () if _is_strange(words, "windows") else (*_on_windows(first), *_on_windows(rest))
    if words[:2] == ("sudo", "dmesg"):
        return (replace(command, argv=_DRIVER_EVENTS, purpose=_SEE_EVENTS),)
    named = _windows_words(words)
    if named[0] == "export":
        return ()
    return (replace(command, argv=named, purpose=_purpose(command.purpose, named)),)


def _windows_words(words: tuple[str, ...]) -> tuple[str, ...]:
    program, *rest = words
    if program in ("export", "unset") and len(words) == 2 and not re.search(r"\$|=/", rest[0]):
        return ("set", rest[0] if program == "export" else f"{rest[0]}=")
    if words == ("cd", "/"):
        return ("cd", "\\")
    if re.fullmatch(r"python3(\.\d+)?", program):
        return (*(("py", f"-{program[6:]}") if "." in program else ("python",)), *rest)
    if program.endswith("/bin/python") and not program.startswith(("/", "~")):
        return (program[: -len("bin/python")].replace("/", "\\") + "Scripts\\python.exe", *rest)
    return ("move", *rest) if program == "mv" else words


def _purpose(said: str, words: tuple[str, ...]) -> str:
    """Say how PowerShell sets a variable: its `set` is another command."""
    if words[0] != "set" or len(words) != 2 or "PowerShell" in said:
        return said
    name, _, value = words[1].partition("=")
    other = f'$env:{name} = "{value}"' if value else f"Remove-Item Env:{name}"
    return f"{said}; in PowerShell: {other}" if said else f"in cmd; in PowerShell: {other}"
