"""Root runs and loads only files that no other user can change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envcheck.host.files import find_trust_problem
from envcheck.host.local import LocalHost
from envcheck.model import Known, Unknown
from tests.host.ordinary_user import NOBODY, as_ordinary_user
from tests.host.programs import write_script
from tests.hosts.recorded_host import RecordedHost
from tests.known import unknown


@pytest.mark.needs("root")
def test_a_program_that_others_can_write_is_not_run(tmp_path: Path) -> None:
    tool = write_script(tmp_path / "tool", "touch ran; echo hello", mode=0o777)
    fact = LocalHost().run([tool])
    assert (unknown(fact).why, unknown(fact).detail) == (
        "denied",
        f"not run as root: {tool} is writable by every user",
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.needs("root")
def test_a_program_of_another_user_is_not_run(tmp_path: Path) -> None:
    tool = write_script(tmp_path / "tool", "echo hello")
    os.chown(tool, 1234, 1234)
    fact = LocalHost().run([tool])
    assert isinstance(fact, Unknown)
    assert "belongs to another user (uid 1234)" in fact.detail


@pytest.mark.needs("root")
def test_a_folder_that_others_can_write_makes_its_programs_untrusted(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    tool = write_script(folder / "tool", "echo hello")
    (tmp_path / "link").symlink_to(tool)
    folder.chmod(0o777)
    assert (
        find_trust_problem(LocalHost(), str(tmp_path / "link"))
        == f"{folder} is writable by every user"
    )
    folder.chmod(0o1777)  # sticky, as /tmp: others cannot replace root's file
    assert find_trust_problem(LocalHost(), tool) is None
    assert isinstance(LocalHost().run([tool]), Known)


@pytest.mark.needs("root")
def test_nobody_is_another_user(tmp_path: Path) -> None:
    tool = write_script(tmp_path / "tool", "echo hello")
    os.chown(tool, NOBODY, NOBODY)
    assert find_trust_problem(LocalHost(), tool) == f"{tool} belongs to another user (uid {NOBODY})"
    assert not isinstance(LocalHost().run([tool]), Known)


@pytest.mark.parametrize(("users", "is_trusted"), [("0 1000 1", True), ("0 0 4294967295", False)])
def test_a_user_namespace_shows_owners_that_it_does_not_know_as_nobody(
    users: str, *, is_trusted: bool
) -> None:
    files = {
        "/usr/bin/nvidia-smi": {"owner": f"{NOBODY}:{NOBODY}"},
        "/proc/self/uid_map": f"         {users}\n",
    }
    host = RecordedHost({"files": files, "system_facts": {"is_root": True}})
    assert (find_trust_problem(host, "/usr/bin/nvidia-smi") is None) == is_trusted


@pytest.mark.needs("posix")
def test_an_ordinary_user_trusts_every_program(tmp_path: Path) -> None:
    tool = write_script(tmp_path / "tool", "echo hello", mode=0o777)
    assert as_ordinary_user(lambda: find_trust_problem(LocalHost(), tool)) is None
