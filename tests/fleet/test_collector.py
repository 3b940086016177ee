"""The collector: reproducible, for every Python from 3.8 on, and it only reads."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from envcheck.fleet.collector import MARK, build_collector
from envcheck.fleet.results import find_answer
from envcheck.model import Snapshot
from tests.needs import find_python
from tests.structure import modules

PYTHONS = [f"3.{minor}" for minor in range(8, 15)]
SECRETS = (
    "s3cret-in-pip",
    "s3cret-in-proxy",
    "s3cret-in-index",
    "s3cret-token",
    "s3cret-in-library-path",
)


@cache
def collector_bytes() -> bytes:
    return build_collector()


@pytest.fixture
def collector(tmp_path: Path) -> Path:
    file = tmp_path / "collector"
    file.write_bytes(collector_bytes())
    return file


def test_every_data_file_that_the_collected_layers_read_is_in_it(collector: Path) -> None:
    collected = [
        module
        for module in modules().values()
        if module.layer in ("model", "host", "probes", "frameworks")
    ]
    calls = [
        node for module in collected for node in ast.walk(module.tree) if isinstance(node, ast.Call)
    ]
    named = {
        call.args[0].value.removesuffix(".json")
        for call in calls
        if getattr(call.func, "id", "") in ("load_data", "read_data")
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    }
    assert len(named) > 6
    names = [
        name for name in zipfile.ZipFile(collector).namelist() if name.startswith("envcheck/data/")
    ]
    held = {name.removeprefix("envcheck/data/").removesuffix(".json") for name in names}
    assert named == held


def run(argv: list[str], env: Mapping[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=dict(env), cwd=cwd)


def path_with_python(folder: Path, python: str) -> str:
    """Make a PATH on which this Python is the only one, beside the programs of every system."""
    folder.mkdir()
    (folder / "python3").write_text(f'#!/bin/sh\nexec {python} "$@"\n', encoding="utf-8")
    (folder / "python3").chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def snapshot_in(done: subprocess.CompletedProcess[str]) -> Snapshot:
    answer = find_answer(done.stdout, done.stderr)
    assert isinstance(answer, Snapshot), (answer, done.stderr)
    return answer


def test_the_collector_is_reproducible() -> None:
    code = "import sys; from envcheck.fleet.collector import build_collector as b; sys.stdout.buffer.write(b())"
    root = str(Path(__file__).parents[2])
    outputs = []
    # before, sets are kept as they hash
    for seed in ("1", "2") if sys.version_info >= (3, 11) else ("1", "1"):
        env = {**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": seed}
        argv = [sys.executable, "-c", code]
        outputs.append(subprocess.run(argv, capture_output=True, env=env, check=True))
    assert outputs[0].stdout == outputs[1].stdout
    assert sys.version_info < (3, 11) or outputs[0].stdout == build_collector()


def test_it_contains_what_a_host_needs_but_no_rules(collector: Path) -> None:
    names = zipfile.ZipFile(collector).namelist()
    assert {"__main__.py", "pynvml.py", "envcheck/data/nvidia/gpus.json"} <= set(names)
    assert {name.partition("/")[0] for name in names} == {"__main__.py", "pynvml.py", "envcheck"}
    rooms = {
        name.split("/")[1] for name in names if name.startswith("envcheck/") and name.count("/") > 1
    }
    assert rooms == {"model", "host", "probes", "frameworks", "data"}
    assert len(collector_bytes()) < 2 << 20


@pytest.mark.needs("posix")
def test_every_installed_python_runs_the_collector(collector: Path, tmp_path: Path) -> None:
    found = {version: python for version in PYTHONS if (python := find_python(version))}
    assert found, "not one Python from 3.8 to 3.14"
    # the oldest again: its imports once raced
    for version, python in [*found.items(), *list(found.items())[:1] * 3]:
        done = run([python, "-I", str(collector)], {}, tmp_path)
        assert done.returncode == 0, (version, done.stderr)
        assert done.stderr == "", version
        assert '"crashed"' not in done.stdout, version
        read = snapshot_in(done).facts.python.version
        assert read.value is not None
        assert read.value.startswith(version + ".")


BUSY = """
import sys, zipfile, zipimport
def busy():  # what zipimport raises for concurrent threads
    raise zipimport.ZipImportError("can't decompress data; zlib not available")
zipimport._get_decompress_func = busy
collector = sys.argv.pop(1)
sys.path.insert(0, collector)
exec(zipfile.ZipFile(collector).read("__main__.py"), {"__name__": "__main__"})
"""


def test_threads_may_read_the_archive_at_once(collector: Path, tmp_path: Path) -> None:
    done = run([sys.executable, "-I", "-c", BUSY, str(collector)], dict(os.environ), tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"crashed"' not in done.stdout
    assert snapshot_in(done).facts


@pytest.mark.needs("posix")
def test_the_shell_finds_a_python_from_a_relative_path(collector: Path, tmp_path: Path) -> None:
    path = path_with_python(tmp_path / "bin", sys.executable)
    done = run(["/bin/sh", "collector"], {"PATH": path}, tmp_path)
    assert done.returncode == 0, done.stderr
    assert snapshot_in(done).facts.host.os
    assert done.stdout.count(MARK) == 1


@pytest.mark.needs("posix")
def test_the_interpreter_to_inspect_is_an_argument(collector: Path, tmp_path: Path) -> None:
    path = path_with_python(tmp_path / "bin", sys.executable)
    odd = tmp_path / "py thon;$(echo)"
    odd.symlink_to(sys.executable)
    done = run(["/bin/sh", str(collector), f"python={odd}"], {"PATH": path}, tmp_path)
    executable = snapshot_in(done).facts.python.executable
    assert executable.value is not None


@pytest.mark.needs("posix")
def test_a_host_without_python_is_reported(collector: Path, tmp_path: Path) -> None:
    empty = tmp_path / "nothing"
    empty.mkdir()
    done = run(["/bin/sh", str(collector)], {"PATH": str(empty)}, tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr == "envcheck: no Python 3.8 or newer on this host\n"


@pytest.mark.needs("posix")
def test_a_host_with_an_old_python_is_reported(collector: Path, tmp_path: Path) -> None:
    names = ["python", "python3", *(f"python{version}" for version in PYTHONS)]
    for name in names:
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    done = run(["/bin/sh", str(collector)], {"PATH": str(tmp_path)}, tmp_path)
    assert (done.returncode, done.stdout) == (3, "")


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    entries = (entry for entry in sorted(folder.rglob("*")))
    return {str(entry): (entry.lstat().st_mtime_ns, entry.lstat().st_size) for entry in entries}


@pytest.mark.needs("posix")
def test_it_changes_no_file_and_prints_no_secret(collector: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for folder in (".config/pip", ".cache", "tmp", "work"):
        (home / folder).mkdir(parents=True)
    (home / ".config/pip/pip.conf").write_text(
        "[global]\nindex-url = https://someone:s3cret-in-pip@index.example/simple\n",
        encoding="utf-8",
    )
    shutil.copy(home / ".config/pip/pip.conf", home / ".netrc")
    env = {
        "PATH": path_with_python(tmp_path / "bin", sys.executable),
        "HOME": str(home),
        "USER": "someone",
        "TMPDIR": str(home / "tmp"),
        "https_proxy": "http://someone:s3cret-in-proxy@proxy.example:3128",
        "HTTPS_PROXY": "http://someone:s3cret-in-proxy@proxy.example:3128",
        "PIP_INDEX_URL": "https://someone:s3cret-in-index@index.example/simple",
        "HF_TOKEN": "s3cret-token",
        "LD_LIBRARY_PATH": "https://someone:s3cret-in-library-path@share.example/lib:/usr/lib",
    }
    before = tree(tmp_path)
    done = run(["/bin/sh", str(collector)], env, home / "work")
    assert tree(tmp_path) == before
    assert snapshot_in(done).facts
    assert [secret for secret in SECRETS if secret in done.stdout + done.stderr] == []
    assert str(home) not in done.stdout


@pytest.mark.needs("capability-drop")
def test_a_read_only_home_is_supported(collector: Path) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o555)
        file = home / "collector"
        file.write_bytes(collector_bytes())
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
        argv = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            python,
            "-I",
            str(file),
        ]
        done = run(argv, {"HOME": name, "TMPDIR": name, "PATH": os.defpath}, home)
        assert '"crashed"' not in json.dumps(done.stdout)
        assert snapshot_in(done).facts
        assert [path.name for path in home.iterdir()] == ["collector"]
