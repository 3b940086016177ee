"""The Visual C++ runtime: asked of wheels on Windows only."""

from __future__ import annotations

import pytest

from envcheck.matrix.load import load_matrix
from envcheck.model import (
    Absent,
    Distribution,
    Fact,
    Facts,
    FrameworkBuild,
    HostFacts,
    Known,
    PythonFacts,
    Source,
    Unknown,
)
from envcheck.probes.host import find_msvc_runtime
from envcheck.rules import Context, evaluate
from tests.hosts.recorded_host import RecordedHost

HERE = Source("file", "/x")
MISSING = Absent(("C:\\Windows\\System32\\msvcp140.dll",))
FOLDER = "C:\\Windows\\System32\\"


def found(runtime: Fact[str], os: str = "windows", *names: str) -> list[str]:
    build = FrameworkBuild("torch", "torch", "2.5.1", cuda_build=Known(False, HERE))
    distributions = tuple(Distribution(name, "14.0") for name in names)
    facts = Facts(
        host=HostFacts(os=Known(os, HERE), msvc_runtime=runtime),
        gpus=Absent(),
        python=PythonFacts(
            frameworks=Known((build,), HERE), distributions=Known(distributions, HERE)
        ),
    )
    report = evaluate(Context(facts, load_matrix()), frozenset({"msvc-runtime-missing"}))
    return [item.id for item in report.findings]


def test_a_wheel_needs_it() -> None:
    assert found(MISSING) == ["msvc-runtime-missing"]


def test_it_is_silent_where_the_runtime_is_there_unread_or_not_needed() -> None:
    assert found(Known(FOLDER, HERE)) == []
    assert found(Unknown("denied", "no")) == []
    assert found(MISSING, "linux") == []
    assert found(MISSING, "windows", "vc14-runtime") == []


@pytest.mark.parametrize("there", [(), ("msvcp140.dll",), ("msvcp140.dll", "vcruntime140_1.dll")])
def test_the_probe_wants_both_libraries(there: tuple[str, ...]) -> None:
    file = {
        "kind": "file",
        "size": 1,
        "mode": "-r--r--r--",
        "owner": "0:0",
        "readable": True,
        "writable": False,
    }
    names = ("msvcp140.dll", "vcruntime140_1.dll")
    told = {
        FOLDER + name: {"known": file, "source": {"kind": "file", "where": FOLDER + name}}
        if name in there
        else {"absent": [FOLDER + name]}
        for name in names
    }
    fact = find_msvc_runtime(RecordedHost({"system": "windows", "calls": {"status": told}}))
    assert isinstance(fact, Known if len(there) == 2 else Absent)


def test_the_probe_says_what_it_could_not_read() -> None:
    told = {FOLDER + "msvcp140.dll": {"unknown": "denied", "detail": "no"}}
    assert isinstance(
        find_msvc_runtime(RecordedHost({"system": "windows", "calls": {"status": told}})), Unknown
    )
    assert isinstance(find_msvc_runtime(RecordedHost({})), Absent)
