"""Operations for installations: folder trees, locks, durable lines, steps, guards."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envcheck.host import prerequisites
from envcheck.host.file_changes import (
    FileLockedError,
    append_durably,
    copy_tree,
    get_inode,
    list_changed_files,
    lock_file,
    measure_tree,
    remove_tree,
    swap_folders,
    sync_file_system,
)
from envcheck.host.guard import end_last_program, is_recovery_needed
from envcheck.host.process import (
    ProgramEnd,
    StillRunningError,
    ignore_signals,
    interrupt_on_signal,
    run_lines,
)
from tests.host.programs import is_gone, write_script
from tests.install.wheels import tree_hash
from tests.patience import FOREVER, PATIENCE, wait_for

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


def test_copy_keeps_links_modes_and_times_but_no_pipes(tree: Path, tmp_path: Path) -> None:
    copy_tree(tree, tmp_path / "copy")
    assert not (tmp_path / "copy" / "fifo").exists()
    (tree / "fifo").unlink()
    assert tree_hash(tmp_path / "copy") == tree_hash(tree)
    assert (tmp_path / "copy" / "program").stat().st_mtime == (tree / "program").stat().st_mtime
    assert measure_tree(str(tmp_path / "copy")) > 0
    sync_file_system(tmp_path / "copy")


def test_read_only_folders_are_removed(tree: Path) -> None:
    remove_tree(tree)
    assert not tree.exists()
    remove_tree(tree)


@pytest.mark.parametrize(
    ("number", "is_reported"), [(errno.EOPNOTSUPP, False), (errno.ENOSPC, True)]
)
def test_blocks_are_copied_where_they_cannot_be_shared(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_reported: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.ioctl", refuse)
    if is_reported:
        with pytest.raises(OSError, match="No space left"):
            copy_tree(tree, tmp_path / "copy")
    else:
        copy_tree(tree, tmp_path / "copy")
        assert (tmp_path / "copy" / "program").read_text() == "#!/bin/sh\n"


def test_shared_blocks_need_no_copy(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.ioctl", lambda new, _, __: os.write(new, b"shared"))
    monkeypatch.setattr("shutil.copyfile", lambda *_: pytest.fail("copied"))
    copy_tree(tree, tmp_path / "copy")
    assert (tmp_path / "copy" / "program").read_text() == "shared"


@pytest.mark.parametrize("at_once", [True, False])
def test_folders_are_swapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    if not at_once:
        monkeypatch.setattr("envcheck.host.file_changes._exchange_atomically", lambda *_: False)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    before = get_inode(first), get_inode(second)
    swap_folders(first, second, tmp_path / "aside")
    assert (get_inode(second), get_inode(first)) == before
    assert get_inode(tmp_path / "aside") == 0


def test_a_line_after_an_incomplete_one_is_separate(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    append_durably(str(path), "first")
    path.write_text(path.read_text() + "cut o")
    append_durably(str(path), "second")
    assert path.read_text() == "first\ncut o\nsecond\n"


def test_a_locked_file_names_its_holder(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with (
        lock_file(path, 0.0),
        pytest.raises(FileLockedError, match=str(os.getpid())),
        lock_file(path, 0.1),
    ):
        pytest.fail("locked twice")
    with lock_file(path, 0.0):
        pass


def test_a_program_that_inherits_the_lock_keeps_it(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with lock_file(path, 0.0) as descriptor:
        child = subprocess.Popen(["sleep", str(FOREVER)], pass_fds=(descriptor,))
    with pytest.raises(FileLockedError), lock_file(path, 0.0):
        pytest.fail("locked twice")
    child.kill()
    child.wait()
    with lock_file(path, PATIENCE):
        pass


def run_and_collect(*argv: str, seconds: float = PATIENCE) -> tuple[list[str], ProgramEnd]:
    lines: list[str] = []
    environment = {"PATH": os.environ["PATH"], "VARIABLE": "value"}
    return lines, run_lines(argv, environment, lines.append, seconds=seconds)


def test_run_lines_passes_on_output_errors_and_variables() -> None:
    lines, ended = run_and_collect("sh", "-c", 'echo "$VARIABLE"; echo wrong >&2; exit 3')
    assert lines == ["value", "wrong"]
    assert ended.code == 3


def test_run_lines_kills_children_at_the_time_limit() -> None:
    lines, ended = run_and_collect("sh", "-c", f"echo begun; sleep {FOREVER} & wait", seconds=2.0)
    assert lines == ["begun"]
    assert ended.detail == "timed out"


def test_run_lines_returns_when_all_that_a_program_started_is_gone(tmp_path: Path) -> None:
    code = f"import os, time; os.setpgid(0, 0); open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    script = f'{sys.executable} -c "{code}; time.sleep({FOREVER})" & while [ ! -s {tmp_path / "pid"} ]; do :; done'
    ended = run_lines(["sh", "-c", script], os.environ, print, seconds=PATIENCE, patience=PATIENCE)
    assert ended.code == 0
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_a_program_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envcheck.host.process._kill_session", lambda _: True)
    with pytest.raises(StillRunningError, match=r"true \(process \d+\) does not end"):
        run_lines(["true"], os.environ, print, seconds=PATIENCE, patience=0.1)


def test_a_program_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    code = f"""
import os
from envcheck.host.guard import Guard
from envcheck.host.process import run_lines
guard = Guard("json.tool", ())
script = "echo $$ > {tmp_path / "pid"}; exec sleep {FOREVER}"
run_lines(["sh", "-c", script], os.environ, print, seconds={FOREVER}, before_exec=guard.report_start)
"""
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen([sys.executable, "-c", code], cwd=root)
    wait_for(
        lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(),
        "the program to start",
    )
    process.kill()
    process.wait()
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_a_guard_recovers_unless_all_is_done() -> None:
    sleeper = subprocess.Popen(["sleep", str(FOREVER)], start_new_session=True)
    running = ["idle", f"{sleeper.pid}"]
    assert is_recovery_needed(running)
    end_last_program(running)
    assert sleeper.wait(PATIENCE) == -9
    assert is_recovery_needed([])
    assert is_recovery_needed(["12345", "idle"])
    assert not is_recovery_needed(["12345", "idle", "done"])


def test_only_sigkill_ends_a_block_with_ignored_signals() -> None:
    code = "import os, signal, sys; from envcheck.host.process import ignore_signals\n"
    code += "with ignore_signals():\n    os.kill(os.getpid(), signal.SIGINT); os.kill(os.getpid(), signal.SIGTERM)\n"
    code += "    print('whole', flush=True)\nos.kill(os.getpid(), signal.SIGTERM)"
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.stdout == "whole\n"
    assert done.returncode == -15
    with ignore_signals():
        pass


def test_a_signal_interrupts_once_and_is_delivered_after_the_cleanup() -> None:
    delivered: list[int] = []
    cleaned_up: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: delivered.append(number))
    try:
        with interrupt_on_signal():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                pytest.fail("not interrupted")
            except KeyboardInterrupt:
                os.kill(os.getpid(), signal.SIGTERM)  # a second one has no effect
                cleaned_up.append("all")
            assert delivered == []
        assert (delivered, cleaned_up) == ([signal.SIGTERM], ["all"])
        with interrupt_on_signal():
            pass
        assert len(delivered) == 1
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupt_on_signal():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_python_is_found_by_its_minor_version(tmp_path: Path) -> None:
    kept = tmp_path / "versions" / "3.99.1" / "bin"
    kept.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    # a shim whose version is not selected
    write_script(tmp_path / "bin" / "python3.99", "exit 127")
    write_script(kept / "python", "echo 3.99")
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "PYENV_ROOT": str(tmp_path)}
    assert prerequisites.find_python("3.99", environment) == str(kept / "python")
    assert prerequisites.find_python("3.98", environment) == ""
    (tmp_path / "shims").mkdir()
    write_script(tmp_path / "shims" / "python3.98", "echo 3.98")
    shimmed = {**environment, "PATH": f"{tmp_path / 'shims'}:/usr/bin:/bin"}
    # a shim is not asked: what it starts lies below versions
    assert prerequisites.find_python("3.98", shimmed) == ""
    assert prerequisites.has_output(("echo", "yes"), environment)
    assert not prerequisites.has_output(("true",), environment)


@pytest.mark.needs("posix")
def test_changed_files_are_listed_but_not_those_with_a_new_link(tmp_path: Path) -> None:
    folder, at = tmp_path / "env", time.time() - 100
    names = ("linked", "cache-gone/unlinked", "written/new", "moved/old")
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    for path in (
        *(folder / name for name in (*names[:2], names[3])),
        folder,
        folder / "cache-gone",
    ):
        os.utime(path, (at - 900, at - 900))
    (tmp_path / "cache").hardlink_to(folder / "linked")  # as uv does for the next environment
    assert list_changed_files(folder, at) == ["moved/old", "written/new"]
