"""gcc, g++ and clang on PATH; versions as the programs print them."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import Absent, CompilerFacts, Unknown
from envcheck.probes.compilers import (
    collect_compilers,
    make_version_command,
    parse_compiler_version,
)
from tests.hosts.recorded_host import RecordedHost

CLANG = "Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu\nThread model: posix\n"
APPLE = "Apple clang version 15.0.0 (clang-1500.3.9.4)\nTarget: arm64-apple-darwin23.4.0\n"
CL = "Microsoft (R) C/C++ Optimizing Compiler Version 19.38.33130 for x64\r\nCopyright (C) Microsoft Corporation.\r\n"


def dump(path: str, **answer: Any) -> dict[str, Any]:
    return {"argv": [path, "-dumpfullversion", "-dumpversion"], **answer}


def collect(
    files: dict[str, Any], *commands: dict[str, Any], system: str = "linux"
) -> CompilerFacts:
    recording = {
        "system": system,
        "environment": {"PATH": "/usr/bin"},
        "files": files,
        "commands": list(commands),
    }
    return collect_compilers(RecordedHost(recording))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("12.2.0\n", "12.2.0"),
        ("7\n", "7"),
        (CLANG, "14.0.6"),
        (APPLE, "15.0.0"),
        (CL, "19.38.33130"),
        ("gcc: error\n", None),
    ],
)
def test_versions(text: str, version: str | None) -> None:
    assert parse_compiler_version(text) == version


def test_gcc_and_clang_and_the_others() -> None:
    files = {
        f"/usr/bin/{name}": "ELF"
        for name in ("gcc", "g++", "clang", "gcc-9", "g++-11", "clang-14", "gcc-ar-12")
    }
    clang = {"argv": ["/usr/bin/clang", "--version"], "stdout": CLANG}
    facts = collect(
        files,
        dump("/usr/bin/gcc", stdout="12.2.0\n"),
        dump("/usr/bin/g++", stdout="11.4.0\n"),
        clang,
    )
    assert (facts.gcc_version.value, facts.gxx_version.value, facts.clang_version.value) == (
        "12.2.0",
        "11.4.0",
        "14.0.6",
    )
    assert facts.others.value == {
        "/usr/bin/clang-14": "14",
        "/usr/bin/g++-11": "11",
        "/usr/bin/gcc-9": "9",
    }


def test_version_commands() -> None:
    assert make_version_command("/usr/bin/clang++-14") == ("/usr/bin/clang++-14", "--version")
    assert make_version_command("/usr/bin/g++-12") == (
        "/usr/bin/g++-12",
        "-dumpfullversion",
        "-dumpversion",
    )
    assert make_version_command(r"C:\VS\cl.exe") == (r"C:\VS\cl.exe",)


def test_no_compiler() -> None:
    facts = collect({})
    for fact in (
        facts.gcc_path,
        facts.gcc_version,
        facts.gxx_version,
        facts.clang_version,
        facts.others,
    ):
        assert isinstance(fact, Absent)


def test_gcc_that_is_clang_is_reported_as_clang() -> None:
    files = {"/usr/bin/gcc": {"link": "clang-14"}, "/usr/bin/clang-14": "ELF"}
    facts = collect(files, {"argv": ["/usr/bin/gcc", "--version"], "stdout": CLANG})
    assert isinstance(facts.gcc_version, Absent)
    assert (facts.clang_path.value, facts.clang_version.value) == ("/usr/bin/gcc", "14.0.6")


def test_macos() -> None:
    files = {"/usr/bin/gcc": "Mach-O", "/usr/bin/clang": "Mach-O"}
    facts = collect(
        files, {"argv": ["/usr/bin/clang", "--version"], "stdout": APPLE}, system="darwin"
    )
    assert isinstance(facts.gcc_path, Absent)
    assert facts.clang_version.value == "15.0.0"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"unknown": ["timeout", "no answer within 2.0 s"]}, "timeout"),
        ({"returncode": -9}, "crashed"),
        ({"returncode": 1, "stderr": "ERROR: No supported gcc/g++ host compiler found."}, "failed"),
        ({"stdout": "\ufffd\ufffd"}, "unparsable"),
    ],
)
def test_broken_compilers(answer: dict[str, Any], why: str) -> None:
    facts = collect({"/usr/bin/gcc": "ELF"}, dump("/usr/bin/gcc", **answer))
    assert facts.gcc_path.value == "/usr/bin/gcc"
    assert isinstance(facts.gcc_version, Unknown)
    assert facts.gcc_version.why == why


def test_a_gcc_that_is_not_executable() -> None:
    facts = collect({"/usr/bin/gcc": {"mode": "-rw-r--r--"}})
    assert isinstance(facts.gcc_version, Unknown)
    assert facts.gcc_version.why == "denied"


def test_an_unreadable_folder_of_programs() -> None:
    assert isinstance(collect({"/usr/bin": {"error": "denied"}}).others, Unknown)


@pytest.mark.parametrize("stdout", [CL, ""])
def test_windows(stdout: str) -> None:
    path = "C:\\VS\\bin\\cl.exe"
    found = {"known": path, "source": {"kind": "file", "where": path}}
    absent = {"absent": ["PATH"]}
    recording = {
        "system": "windows",
        "calls": {"find_program": {"cl": found, "gcc": absent, "g++": absent, "clang": absent}},
        "commands": [{"argv": [path], "stderr": stdout}],
    }
    others = collect_compilers(RecordedHost(recording)).others
    assert others.value == ({path: "19.38.33130"} if stdout else None)


def test_windows_without_a_compiler() -> None:
    absent = {"absent": ["PATH"]}
    calls = {"find_program": dict.fromkeys(("cl", "gcc", "g++", "clang"), absent)}
    assert isinstance(
        collect_compilers(RecordedHost({"system": "windows", "calls": calls})).others, Absent
    )


@pytest.mark.parametrize("text", ["0005670", "garbage\n12", "999999", "\ufffd\ufffd 4", ""])
def test_numbers_in_garbage_are_not_a_version(text: str) -> None:
    assert parse_compiler_version(text) is None
