"""Read the host compilers on PATH: gcc, g++, clang, and the other versions in /usr/bin."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Optional, Tuple

from envcheck.host.process import run_concurrently
from envcheck.host.protocol import Completed, Host
from envcheck.model import Absent, CompilerFacts, Fact, Known, Source, Unknown
from envcheck.probes.toolkit_places import get_base_name, join_path

_OTHER_FOLDERS = ("/usr/bin", "/usr/local/bin")


def collect_compilers(host: Host) -> CompilerFacts:
    """Find the compilers and ask each for its version, all at once."""
    found = {name: host.find_program(name) for name in ("gcc", "g++", "clang")}
    if isinstance(found["clang"], Absent) and _is_clang(host, found["gcc"]):
        found["clang"] = found["gcc"]
    for name in ("gcc", "g++"):
        if _is_clang(host, found[name]):
            found[name] = Absent((f"{name} on PATH is clang",))
    versions = _versions(host, found)
    return CompilerFacts(
        gcc_path=found["gcc"],
        gcc_version=versions["gcc"],
        gxx_path=found["g++"],
        gxx_version=versions["g++"],
        clang_path=found["clang"],
        clang_version=versions["clang"],
        others=_others(host),
    )


def make_version_command(path: str) -> Tuple[str, ...]:
    """Return the command that makes a compiler print its version.

    GCC before 7 does not know -dumpfullversion but prints what -dumpversion asks for; GCC from 7 on may
    print only the major version for -dumpversion.
    """
    if get_base_name(path).startswith(("clang", "nvc", "icpx")):
        return (path, "--version")
    if get_base_name(path).lower() in ("cl", "cl.exe"):
        return (path,)
    return (path, "-dumpfullversion", "-dumpversion")


def read_version_answer(answer: Fact[Completed], command: str) -> Fact[str]:
    """Return the version from a finished version command."""
    if not isinstance(answer, Known):
        return answer
    done = answer.value
    version = parse_compiler_version(done.stdout) or parse_compiler_version(done.stderr if done.returncode == 0 else "")
    if version is not None:
        return Known(version, Source("command", command, (done.stdout or done.stderr).strip().split("\n", 1)[0][:200]))
    said = (done.stderr or done.stdout).strip()[:200]
    if done.returncode < 0:
        return Unknown("crashed", f"the compiler was ended by signal {-done.returncode}", (command,))
    if done.returncode != 0:
        return Unknown("failed", f"the compiler ended with status {done.returncode}: {said!r}", (command,))
    return Unknown("unparsable", f"the compiler printed no version: {said!r}", (command,))


def parse_compiler_version(text: str) -> Optional[str]:
    """Return the version in what a compiler printed.

    gcc -dumpfullversion -dumpversion:  12.2.0
    clang --version:                    Debian clang version 14.0.6
    Apple:                              Apple clang version 15.0.0 (clang-1500.3.9.4)
    cl:                  Microsoft (R) C/C++ Optimizing Compiler Version 19.38.33130 for x64
    """
    match = re.search(r"\A\s*([1-9]\d?(?:\.\d+)*)\s*$|\b[Vv]ersion (\d+(?:\.\d+)+)", text, re.MULTILINE)
    return (match.group(1) or match.group(2)) if match else None


def _versions(host: Host, found: Mapping[str, Fact[str]]) -> Dict[str, Fact[str]]:
    commands: Dict[str, Tuple[str, ...]] = {}
    for name, path in found.items():
        if isinstance(path, Known):  # clang may bear the name gcc
            commands[name] = (path.value, "--version") if name == "clang" else make_version_command(path.value)
    answers = run_concurrently(host, commands)
    return {
        name: read_version_answer(answers[name], " ".join(commands[name])) if name in commands else found[name]
        for name in found
    }


def _is_clang(host: Host, path: Fact[str]) -> bool:
    """Tell whether a gcc is clang: always on macOS, elsewhere by the file its link ends at."""
    if not isinstance(path, Known):
        return False
    real = host.real_path(path.value)
    return host.system == "darwin" or (isinstance(real, Known) and get_base_name(real.value).startswith("clang"))


def _others(host: Host) -> Fact[Mapping[str, str]]:
    """List gcc-11, g++-9, clang-14 ... with the major version their name tells; none of them is run."""
    if host.system == "windows":
        return _visual_studio(host)
    others: Dict[str, str] = {}
    unread: List[Unknown] = []
    for folder in _OTHER_FOLDERS:
        names = host.list_folder(folder)
        if isinstance(names, Unknown):
            unread.append(names)
        for name in names.value if isinstance(names, Known) else ():
            match = re.search(r"^(?:gcc|g\+\+|clang|clang\+\+)-(\d+(?:\.\d+)?)$", name)
            if match:
                others[join_path(host, folder, name)] = match.group(1)
    if not others:
        return unread[0] if unread else Absent(_OTHER_FOLDERS)
    return Known(others, Source("file", ", ".join(_OTHER_FOLDERS), f"{len(others)} compilers by name"))


def _visual_studio(host: Host) -> Fact[Mapping[str, str]]:
    path = host.find_program("cl")
    if not isinstance(path, Known):
        return path
    command = make_version_command(path.value)
    version = read_version_answer(host.run(command), path.value)
    return Known({path.value: version.value}, version.source) if isinstance(version, Known) else version
