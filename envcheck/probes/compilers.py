"""Read the host compilers: gcc, g++ and clang on PATH, and the other versions in /usr/bin."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Optional, Tuple

from envcheck.host.paths import get_base_name, join_path
from envcheck.host.process import run_concurrently
from envcheck.host.protocol import Completed, Host
from envcheck.model import Absent, CompilerFacts, Fact, Known, Source, Unknown, from_file

_OTHER_FOLDERS = ("/usr/bin", "/usr/local/bin")


def collect_compilers(host: Host) -> CompilerFacts:
    """Find the compilers and read all their versions at once."""
    paths = {name: host.find_program(name) for name in ("gcc", "g++", "clang")}
    if isinstance(paths["clang"], Absent) and _is_clang(host, paths["gcc"]):
        paths["clang"] = paths["gcc"]
    for name in ("gcc", "g++"):
        if _is_clang(host, paths[name]):
            paths[name] = Absent((f"{name} on PATH is clang",))
    versions = _read_versions(host, paths)
    return CompilerFacts(
        gcc_path=paths["gcc"],
        gcc_version=versions["gcc"],
        gxx_path=paths["g++"],
        gxx_version=versions["g++"],
        clang_path=paths["clang"],
        clang_version=versions["clang"],
        others=_find_visual_studio(host) if host.system == "windows" else _list_others(host),
    )


def make_version_command(path: str) -> Tuple[str, ...]:
    """Return the command that prints the version of a compiler.

    GCC before 7 ignores -dumpfullversion; from 7 on it may print only the major version for
    -dumpversion.
    """
    if get_base_name(path).startswith(("clang", "nvc", "icpx")):
        return (path, "--version")
    if get_base_name(path).lower() in ("cl", "cl.exe"):
        return (path,)
    return (path, "-dumpfullversion", "-dumpversion")


def read_version_answer(answer: Fact[Completed], command: str) -> Fact[str]:
    """Return the version that a finished version command printed."""
    if not isinstance(answer, Known):
        return answer
    done = answer.value
    version = parse_compiler_version(done.stdout) or parse_compiler_version(
        done.stderr if done.returncode == 0 else ""
    )
    if version is None:
        return explain_missing_version("the compiler", done, command)
    return Known(version, Source("command", command, done.first_line))


def explain_missing_version(program: str, done: Completed, command: str) -> Unknown:
    """Return why a version command gave no version."""
    output = (done.stderr or done.stdout).strip()[:200]
    shown = f": {output!r}" if output else " and no output"
    if done.returncode < 0:
        return Unknown("crashed", f"{program} was killed by signal {-done.returncode}", (command,))
    if done.returncode != 0:
        return Unknown(
            "failed", f"{program} exited with status {done.returncode}{shown}", (command,)
        )
    return Unknown("unparsable", f"{program} printed no version: {output!r}", (command,))


def parse_compiler_version(text: str) -> Optional[str]:
    """Parse the version that a compiler prints.

    gcc -dumpfullversion -dumpversion:  12.2.0
    clang --version:                    Debian clang version 14.0.6
    Apple:                              Apple clang version 15.0.0 (clang-1500.3.9.4)
    cl:                  Microsoft (R) C/C++ Optimizing Compiler Version 19.38.33130 for x64
    """
    match = re.search(
        r"\A\s*([1-9]\d?(?:\.\d+)*)\s*$|\b[Vv]ersion (\d+(?:\.\d+)+)", text, re.MULTILINE
    )
    return (match.group(1) or match.group(2)) if match else None


def _read_versions(host: Host, paths: Mapping[str, Fact[str]]) -> Dict[str, Fact[str]]:
    commands = {
        # clang may have the name gcc
        name: (path.value, "--version") if name == "clang" else make_version_command(path.value)
        for name, path in paths.items()
        if isinstance(path, Known)
    }
    answers = run_concurrently(host, commands)
    versions = dict(paths)
    for name, command in commands.items():
        versions[name] = read_version_answer(answers[name], " ".join(command))
    return versions


def _is_clang(host: Host, path: Fact[str]) -> bool:
    """Return whether a gcc is clang: always on macOS, elsewhere if its link ends at clang."""
    if path.value is None:
        return False
    real = host.real_path(path.value).value
    return host.system == "darwin" or (real is not None and get_base_name(real).startswith("clang"))


def _list_others(host: Host) -> Fact[Mapping[str, str]]:
    """List gcc-11, clang-14 ... with the version in their names, without running them."""
    others: Dict[str, str] = {}
    unread: List[Unknown] = []
    for folder in _OTHER_FOLDERS:
        names = host.list_folder(folder)
        if isinstance(names, Unknown):
            unread.append(names)
        for name in names.value or ():
            match = re.search(r"^(?:gcc|g\+\+|clang|clang\+\+)-(\d+(?:\.\d+)?)$", name)
            if match:
                others[join_path(host, folder, name)] = match.group(1)
    if not others:
        return unread[0] if unread else Absent(_OTHER_FOLDERS)
    return from_file(others, ", ".join(_OTHER_FOLDERS), f"{len(others)} compilers by name")


def _find_visual_studio(host: Host) -> Fact[Mapping[str, str]]:
    path = host.find_program("cl")
    if not isinstance(path, Known):
        return path
    version = read_version_answer(host.run(make_version_command(path.value)), path.value)
    if isinstance(version, Known):
        return Known({path.value: version.value}, version.source)
    return version
