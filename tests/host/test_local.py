"""LocalHost: the running system, as the probes read it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from envcheck.host import local
from envcheck.host.local import LocalHost
from envcheck.model import Absent, Fact, Known
from tests.host.programs import write_script
from tests.known import known, unknown, where
from tests.patience import FOREVER, PATIENCE

CHILD = "print('{\"argument\": \"' + __import__('sys').argv[1] + '\"}')"


def test_system_facts_are_plain_values() -> None:
    facts = LocalHost().system_facts()
    assert {"machine", "kernel_release", "version", "node", "is_root", "folder"} <= set(facts)
    assert facts["folder"] == str(Path.cwd())
    assert facts["is_root"] == (os.geteuid() == 0)
    assert facts["memory_bytes"] > 1 << 20


def test_a_deleted_current_folder_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setenv("PATH", ".:/bin")
    assert "folder" not in LocalHost().system_facts()
    assert isinstance(LocalHost().find_program("sh"), Known)


def test_environment_is_that_of_this_process() -> None:
    assert LocalHost().environment()["PATH"] == os.environ["PATH"]


@pytest.mark.needs("posix")
def test_programs_are_found_in_path_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    write_script(tmp_path / "one" / "nvcc", "", mode=0o644)
    (tmp_path / "two" / "nvcc").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/one:/nowhere:{tmp_path}/two:{tmp_path}/three")
    denied = LocalHost().find_program("nvcc")
    assert (unknown(denied).why, unknown(denied).detail) == (
        "denied",
        f"{tmp_path}/one/nvcc is not executable",
    )
    good = write_script(tmp_path / "three" / "nvcc", "")
    found = LocalHost().find_program("nvcc")
    assert known(found) == good
    assert LocalHost().find_program("no-such-program") == Absent(("no-such-program on PATH",))


@pytest.mark.needs("posix")
@pytest.mark.parametrize("entry", ["", ".", "sub/.."])
def test_nothing_is_run_from_a_relative_entry_of_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    (tmp_path / "sub").mkdir()
    write_script(tmp_path / "nvcc", "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"/nowhere:{entry}")
    assert isinstance(LocalHost().find_program("nvcc"), Absent)


@pytest.mark.needs("posix")
def test_a_program_runs_once_per_command_and_environment(tmp_path: Path) -> None:
    tool = write_script(tmp_path / "tool", f"echo x >> {tmp_path}/runs; echo $LC_ALL $MODE")
    host = LocalHost()
    outputs = [
        host.run([tool], environment=extra)
        for extra in (None, {"MODE": "a"}, {}, {"MODE": "b"}, {"MODE": "a"})
    ]
    assert [fact.value.stdout for fact in outputs if fact.value is not None] == [
        "C\n",
        "C a\n",
        "C\n",
        "C b\n",
        "C a\n",
    ]
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "x\n" * 3


@pytest.mark.needs("posix")
def test_nothing_is_started_when_the_budget_is_used_up(tmp_path: Path) -> None:
    tool = write_script(tmp_path / "tool", f"touch {tmp_path}/ran")
    fact = LocalHost(budget=0.01).run([tool])
    assert (unknown(fact).why, unknown(fact).detail) == (
        "timeout",
        "no time is left for external programs",
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.needs("posix")
def test_a_host_that_has_time_gives_each_program_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []
    monkeypatch.setattr(local, "run_program", lambda _argv, seconds, *_: limits.append(seconds))
    for factor in (1.0, 30.0):
        host = LocalHost(budget=100.0)
        host.extend_limits(factor)
        host.run([str(tmp_path / "tool")], timeout=0.5)
    assert limits == [0.5, 15.0]


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace every child script."""
    monkeypatch.setattr(local, "_read_child_source", lambda script: CHILD)


@pytest.mark.usefixtures("child")
def test_a_child_script_returns_an_object() -> None:
    fact = LocalHost().ask("named", "text")
    assert known(fact) == {"argument": "text"}
    assert where(fact).where == f"named in {sys.executable}"


def ask_script(tmp_path: Path, body: str, budget: float = PATIENCE) -> Fact[Mapping[str, Any]]:
    python = write_script(tmp_path / "python", body)
    return LocalHost(budget).ask("named", python=python)


@pytest.mark.needs("posix")
@pytest.mark.usefixtures("child")
@pytest.mark.parametrize(
    ("body", "why", "detail"),
    [
        ("echo nonsense", "unparsable", "printed no JSON: 'nonsense'"),
        (
            "echo 'Fatal Python error: init_fs_encoding' >&2; exit 1",
            "unparsable",
            "init_fs_encoding",
        ),
        ("echo '[1, 2]'", "unparsable", "printed no JSON object"),
        ("head -c 200000 /dev/zero | tr '\\0' '['", "unparsable", "printed no JSON"),
        ("kill -ILL $$", "crashed", "was killed by signal 4"),
        (f"exec sleep {FOREVER}", "timeout", "did not finish within 0.5 s"),
    ],
)
def test_a_broken_interpreter_is_explained(
    tmp_path: Path, body: str, why: str, detail: str
) -> None:
    fact = ask_script(tmp_path, body, 0.5 if "sleep" in body else PATIENCE)
    assert unknown(fact).why == why
    assert detail in unknown(fact).detail
    assert "__import__" not in unknown(fact).detail  # the script itself is not repeated


@pytest.mark.usefixtures("child")
def test_a_missing_interpreter_is_absent() -> None:
    assert isinstance(LocalHost().ask("named", python="/nowhere/python"), Absent)


@pytest.mark.needs("posix")
@pytest.mark.usefixtures("child")
def test_an_interpreter_without_isolated_mode_gets_the_older_flags(tmp_path: Path) -> None:
    body = 'if [ "$1" = -I ]; then echo "Unknown option: -I" >&2; exit 2; fi\nprintf \'{"flags": "%s %s"}\' $1 $2'
    fact = ask_script(tmp_path, body)
    assert known(fact) == {"flags": "-E -s"}


def test_every_shipped_child_script_is_readable() -> None:
    assert "json" in local._read_child_source("interpreter_info")
    with pytest.raises(FileNotFoundError):
        local._read_child_source("no_such_script")


def test_a_damaged_loader_cache_is_unparsable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = LocalHost()
    broken = tmp_path / "ld.so.cache"
    broken.write_bytes(b"not a cache")
    read = host.read_bytes
    monkeypatch.setattr(host, "read_bytes", lambda path, limit: read(str(broken), limit))
    fact = host.loader_cache()
    assert unknown(fact).why == "unparsable"


def test_a_missing_loader_cache_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    host = LocalHost()
    monkeypatch.setattr(host, "read_bytes", lambda path, limit: Absent((path,)))
    assert host.loader_cache() == Absent(("/etc/ld.so.cache",))
