"""Ansible as the engine: a real ansible-playbook, on inventories of this machine."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from envcheck.fleet.ansible import _Events, _make_play
from envcheck.fleet.results import EngineError, FleetListener, FleetRequest, HostResult
from envcheck.model import Snapshot
from tests.fleet.command import fleet
from tests.fleet.made import make

LOCAL = "ansible_connection=local"


def inventory(folder: Path, text: str) -> Path:
    file = folder / "inventory.ini"
    file.write_text(text, encoding="utf-8")
    return file


def snapshot(folder: Path, name: str) -> dict[str, Any]:
    loaded = json.loads((folder / "out" / name).read_text(encoding="utf-8"))
    assert loaded["schema"] == "envcheck/snapshot/1", loaded
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.needs("posix")
def test_runs_read_only_hosts_without_an_answer(tmp_path: Path) -> None:
    inventory(tmp_path, f"[gpu]\none {LOCAL}\ntwo {LOCAL}\n")
    first = fleet("run", "-i", "inventory.ini", "-o", "out", cwd=tmp_path)
    assert (first.returncode, first.stdout) == (0, "envcheck fleet report out\n"), first.stderr
    lines = first.stderr.splitlines()
    assert lines[0] == "2 hosts to ask"
    assert sorted(line.split(" ", 1)[1] for line in lines[1:3]) == ["one: read", "two: read"]
    assert lines[-1] == "2 hosts read, 0 without an answer."
    written = (tmp_path / "out" / "one.json").stat().st_mtime_ns
    second = fleet("run", "-i", "inventory.ini", "-o", "out", cwd=tmp_path)
    assert second.returncode == 0
    assert (
        second.stderr
        == "0 hosts to ask\n0 hosts read, 0 without an answer, 2 had answered before.\n"
    )
    # A group bears the name of a host that has answered, and a host a name that a shell and a
    # template would act on.
    odd = '"{{ 6*7 }}$(touch owned)"'
    inventory(tmp_path, f"[gpu]\none {LOCAL}\ntwo {LOCAL}\n[one]\nthree {LOCAL}\n{odd} {LOCAL}\n")
    third = fleet("run", "-i", "inventory.ini", "-o", "out", cwd=tmp_path)
    assert third.stderr.startswith("2 hosts to ask\n"), third.stderr
    assert "Found both group and host with same name: one" in third.stderr
    assert snapshot(tmp_path, "three.json")
    assert snapshot(tmp_path, "%7B%7B%206%2A7%20%7D%7D%24%28touch%20owned%29.json")
    assert (tmp_path / "out" / "one.json").stat().st_mtime_ns == written
    assert not (tmp_path / "owned").exists()


@pytest.mark.needs("posix")
def test_limits_dynamic_inventories_and_the_interpreter_are_used(tmp_path: Path) -> None:
    hosts = {
        "all": {"hosts": ["one", "two"], "vars": {"ansible_connection": "local"}},
        "_meta": {"hostvars": {}},
    }
    script = tmp_path / "inventory.sh"
    script.write_text(f"#!/bin/sh\necho '{json.dumps(hosts)}'\n", encoding="utf-8")
    script.chmod(0o755)
    odd = tmp_path / "py $(touch owned) 'x"
    odd.symlink_to(sys.executable)
    done = fleet(
        "run", "-i", script, "-o", "out", "--limit", "t*", "--python", odd, "-q", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["two.json"]
    executable = snapshot(tmp_path, "two.json")["facts"]["python"]["executable"]
    assert "known" in executable, executable
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("[gpu]\n", [], "no host of the inventory matches"),
        (f"one {LOCAL}\n", ["--limit", "none*"], "no hosts to target"),
        (f"one {LOCAL}\n", ["--python", "/opt/{{ x }}/python"], "contains template marks"),
    ],
    ids=["empty", "limit", "template"],
)
@pytest.mark.needs("posix")
def test_a_run_without_hosts_is_an_error(
    text: str, options: list[str], message: str, tmp_path: Path
) -> None:
    inventory(tmp_path, text)
    done = fleet("run", "-i", "inventory.ini", "-o", "out", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.needs("posix")
@pytest.mark.parametrize(
    "text", ["[gpu\n]]]: {", f"gpu001 {LOCAL}\nnew {LOCAL}\nother so called\n"], ids=["all", "half"]
)
def test_a_broken_inventory_is_an_error(text: str, tmp_path: Path) -> None:
    """Of one that breaks off in the middle Ansible would ask the hosts it has read, and the others would be lost."""
    make(tmp_path / "out", "gpu001")
    inventory(tmp_path, text)
    done = fleet("run", "-i", "inventory.ini", "-o", "out", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "ailed to parse inventory" in done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["gpu001.json"]


# --- Ansible's events, one by one ---


class Recorder:
    """Who listens."""

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self.results: dict[str, str] = {}
        self.warnings: list[str] = []
        self.events = _Events(
            FleetListener(self.hosts.extend, self._add, self.warnings.append), "MARK "
        )

    def _add(self, result: HostResult) -> None:
        assert result.host not in self.results
        self.results[result.host] = (
            "read" if isinstance(result.answer, Snapshot) else result.answer.kind
        )

    def send(self, **event: object) -> None:
        self.events.handle("MARK " + json.dumps(event))


def test_every_host_has_one_result_and_unknown_hosts_none() -> None:
    recorder = Recorder()
    recorder.send(kind="hosts", hosts=["a", "b", "c"])
    # without the mark: another program's line
    recorder.events.handle('{"kind": "ok", "host": "a"}')
    recorder.events.handle('ENVCHECK-EVENT {"kind": "ok", "host": "a"}')
    recorder.events.handle('MARK {"kind": "ok", "ho[WARNING]: torn')
    recorder.events.handle("MARK [1]")
    recorder.send(kind="unreachable", host="b", msg="no\nroute")
    recorder.send(kind="ok", host="b", stdout="again")
    recorder.send(kind="ok", host="stranger", stdout="")
    recorder.send(
        kind="failed",
        host="c",
        msg="failed to execute in the expected time frame (60) and was terminated",
    )
    recorder.events.finish("[WARNING]: something\n", answered_before=False)
    assert recorder.hosts == ["a", "b", "c"]
    assert recorder.results == {"b": "unreachable", "c": "hung", "a": "broken"}
    assert recorder.warnings == ["[WARNING]: something"]


def test_a_refusal_of_ansible_is_reported_in_its_words() -> None:
    with pytest.raises(EngineError, match=r"Ansible did not run: ERROR! locale"):
        Recorder().events.finish("ERROR!\n  locale", answered_before=True)


def test_names_of_hosts_are_never_in_the_play() -> None:
    play = _make_play(
        FleetRequest(skip=frozenset({"gpu001", "$(id)"}), python="/usr/bin/python 3;id"),
        Path("/tmp/collector"),
    )
    assert play[0]["hosts"] == ["all", "!envcheck_answered"]
    command = play[0]["tasks"][0]["ansible.builtin.script"]["cmd"]
    assert command == "/tmp/collector patience=3 'python=/usr/bin/python 3;id'"
    assert "gpu001" not in json.dumps(play)


@pytest.mark.needs("posix")
def test_a_host_with_endless_output_is_a_row(tmp_path: Path) -> None:
    """A Python of the host's own prints 60 MB for an answer."""
    flood = tmp_path / "bin" / "python3"
    flood.parent.mkdir()
    flood.write_text(
        '#!/bin/sh\n[ "$1" = -c ] && exit\nhead -c 60000000 /dev/zero | tr "\\0" "["\n',
        encoding="utf-8",
    )
    flood.chmod(flood.stat().st_mode | stat.S_IXUSR)
    inventory(tmp_path, f"flood {LOCAL} ansible_shell_executable={tmp_path}/shell\nfine {LOCAL}\n")
    shell = tmp_path / "shell"
    shell.write_text(f'#!/bin/sh\nPATH={flood.parent}:$PATH exec /bin/sh "$@"\n', encoding="utf-8")
    shell.chmod(0o755)
    done = fleet("run", "-i", "inventory.ini", "-o", "out", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert (
        json.loads((tmp_path / "out" / "flood.json").read_text(encoding="utf-8"))["kind"]
        == "broken"
    )
    assert snapshot(tmp_path, "fine.json")
