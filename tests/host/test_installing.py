"""What installations need of the machine: trees, locks, lines that last, steps, guards."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envcheck.host import prerequisites as pythons
from envcheck.host.file_changes import (
    HeldError,
    append_durably,
    change_places,
    changed_after,
    copy_tree,
    exclusive,
    identity_of,
    remove_tree,
    tree_size,
    write_through,
)
from envcheck.host.process import interrupted_when_told
from envcheck.host.steps import Stepping, is_needed, run_step, undisturbed
from tests.host.programs import write_script
from tests.install.wheels import tree_hash
from tests.patience import FOREVER, PATIENCE

pytestmark = pytest.mark.needs("posix")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "closed" / "inner").mkdir(parents=True)
    (folder / "closed" / "inner" / "file").write_text("text")
    (folder / "program").write_text("#!/bin/sh\n")
    (folder / "program").chmod(0o755)
    (folder / "link").symlink_to("program")
    (folder / "dangling").symlink_to("/nowhere")
    os.mkfifo(folder / "fifo")
    (folder / "closed").chmod(0o555)
    return folder


def test_a_copy_has_links_modes_and_times_but_no_pipes(tree: Path, tmp_path: Path) -> None:
    copy_tree(tree, tmp_path / "copy")
    assert not (tmp_path / "copy" / "fifo").exists()
    (tree / "fifo").unlink()
    assert tree_hash(tmp_path / "copy") == tree_hash(tree)
    assert (tmp_path / "copy" / "program").stat().st_mtime == (tree / "program").stat().st_mtime
    assert tree_size(str(tmp_path / "copy")) > 0
    write_through(tmp_path / "copy")


def test_a_tree_with_folders_nobody_may_write_is_removed(tree: Path) -> None:
    remove_tree(tree)
    assert not tree.exists()
    remove_tree(tree)


@pytest.mark.parametrize(("number", "is_told"), [(errno.EOPNOTSUPP, False), (errno.ENOSPC, True)])
def test_where_blocks_cannot_be_shared_they_are_copied(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_told: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.ioctl", refuse)
    if is_told:
        with pytest.raises(OSError, match="No space left"):
            copy_tree(tree, tmp_path / "copy")
    else:
        copy_tree(tree, tmp_path / "copy")
        assert (tmp_path / "copy" / "program").read_text() == "#!/bin/sh\n"


def test_shared_blocks_need_no_copy(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fcntl.ioctl", lambda new, _, __: os.write(new, b"shared"))
    monkeypatch.setattr("shutil.copyfile", lambda *_: pytest.fail("copied"))
    copy_tree(tree, tmp_path / "copy")
    assert (tmp_path / "copy" / "program").read_text() == "shared"


@pytest.mark.parametrize("at_once", [True, False])
def test_folders_change_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    if not at_once:
        monkeypatch.setattr("envcheck.host.file_changes._exchanged", lambda *_: False)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    before = identity_of(first), identity_of(second)
    change_places(first, second, tmp_path / "aside")
    assert (identity_of(second), identity_of(first)) == before
    assert identity_of(tmp_path / "aside") == 0


def test_a_line_after_one_that_was_cut_off_stands_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    append_durably(str(path), "first")
    path.write_text(path.read_text() + "cut o")
    append_durably(str(path), "second")
    assert path.read_text() == "first\ncut o\nsecond\n"


def test_a_held_file_names_its_holder(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with exclusive(path, 0.0), pytest.raises(HeldError, match=str(os.getpid())), exclusive(path, 0.1):
        pytest.fail("held twice")
    with exclusive(path, 0.0):
        pass


def test_a_program_that_inherits_the_lock_goes_on_holding_it(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with exclusive(path, 0.0) as descriptor:
        child = subprocess.Popen(["sleep", str(FOREVER)], pass_fds=(descriptor,))
    with pytest.raises(HeldError), exclusive(path, 0.0):
        pytest.fail("held twice")
    child.kill()
    child.wait()
    with exclusive(path, PATIENCE):
        pass


def heard_from(*argv: str, seconds: float = PATIENCE) -> tuple[list[str], object]:
    heard: list[str] = []
    ended = run_step(argv, Stepping({"PATH": os.environ["PATH"], "ONE": "1"}, heard.append, seconds), {"TWO": "2"})
    return heard, ended


def test_a_step_is_heard_with_its_errors_and_variables() -> None:
    heard, ended = heard_from("sh", "-c", 'echo "$ONE$TWO"; echo wrong >&2; exit 3')
    assert heard == ["12", "wrong"]
    assert getattr(ended, "code", None) == 3


def test_a_step_that_takes_too_long_ends_with_its_children() -> None:
    heard, ended = heard_from("sh", "-c", f"echo begun; sleep {FOREVER} & wait", seconds=2.0)
    assert heard == ["begun"]
    assert getattr(ended, "detail", "") == "its time was up"


def test_a_guard_acts_when_it_hears_no_end() -> None:
    sleeper = subprocess.Popen(["sleep", str(FOREVER)], start_new_session=True)
    assert is_needed(["idle", f"{sleeper.pid}"])
    assert sleeper.wait(PATIENCE) == -9
    assert is_needed([])
    assert is_needed(["12345", "idle"])
    assert not is_needed(["12345", "idle", "done"])


def test_nothing_but_kill_ends_what_is_undisturbed() -> None:
    code = "import os, signal, sys; from envcheck.host.steps import undisturbed\n"
    code += "with undisturbed():\n    os.kill(os.getpid(), signal.SIGINT); os.kill(os.getpid(), signal.SIGTERM)\n"
    code += "    print('whole', flush=True)\nos.kill(os.getpid(), signal.SIGTERM)"
    root = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout == "whole\n"
    assert done.returncode == -15
    with undisturbed():
        pass


def test_a_signal_interrupts_once_and_is_answered_as_before_when_all_is_put_right() -> None:
    answered: list[int] = []
    put_right: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: answered.append(number))
    try:
        with interrupted_when_told():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                pytest.fail("not interrupted")
            except KeyboardInterrupt:
                os.kill(os.getpid(), signal.SIGTERM)  # a second one does not disturb
                put_right.append("all")
            assert answered == []
        assert (answered, put_right) == ([signal.SIGTERM], ["all"])
        with interrupted_when_told():
            pass
        assert len(answered) == 1
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupted_when_told():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_python_is_found_by_its_minor(tmp_path: Path) -> None:
    kept = tmp_path / "versions" / "3.99.1" / "bin"
    kept.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    write_script(tmp_path / "bin" / "python3.99", "exit 127")  # a shim of a version that is not chosen
    write_script(kept / "python", "echo 3.99")
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "PYENV_ROOT": str(tmp_path)}
    assert pythons.python_of("3.99", environment) == str(kept / "python")
    assert pythons.python_of("3.98", environment) == ""
    assert pythons.says_yes(("echo", "yes"), environment)
    assert not pythons.says_yes(("true",), environment)


@pytest.mark.needs("posix")
def test_what_was_put_into_a_folder_since_is_told_from_what_got_another_link(tmp_path: Path) -> None:
    folder, at = tmp_path / "env", time.time() - 100
    names = ("linked", "cache-gone/unlinked", "written/new", "moved/old")
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    for path in (*(folder / name for name in (*names[:2], names[3])), folder, folder / "cache-gone"):
        os.utime(path, (at - 900, at - 900))
    (tmp_path / "cache").hardlink_to(folder / "linked")  # as uv does for the next environment
    assert changed_after(folder, at) == ["moved/old", "written/new"]
