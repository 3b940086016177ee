"""`envcheck matrix refresh`: pip's configuration, written files, exit codes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from envcheck.cli.group import run
from envcheck.model import UserError
from tests.matrix.documents import document
from tests.matrix.index.renewal import without
from tests.matrix.index.server import LocalIndex


def saved(path: Path, *versions: str) -> str:
    path.write_text(json.dumps(without("tensorflow", *versions)), encoding="utf-8")
    return str(path)


def test_refresh_writes_a_matrix_and_lists_changes(
    configured_index: LocalIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, new = saved(tmp_path / "own.json", "2.21.0"), tmp_path / "new.json"
    assert (
        run(["matrix", "refresh", "--framework", "tensorflow", "--matrix", own, "-o", str(new)])
        == 0
    )
    printed = capsys.readouterr()
    assert (
        "+ tensorflow 2.21.0 on linux_x86_64: pythons 3.10 3.11 3.12 3.13, cuda 12.5.1, cudnn 9.3"
        in printed.out
    )
    assert f"envcheck doctor --matrix {new}" in printed.err
    found = json.loads(new.read_text(encoding="utf-8"))
    assert found["releases"] == without("tensorflow")["releases"]
    assert {path.name for path in tmp_path.iterdir()} >= {"new.json", "own.json"}


def test_refresh_without_output_writes_to_the_users_data(
    configured_index: LocalIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    from envcheck.matrix.refresh.files import find_user_matrix

    assert run(["matrix", "refresh", "--framework", "torch", "--since", "2.15"]) == 0
    assert "No release, Python or requirement changed." in capsys.readouterr().out
    assert (
        json.loads(find_user_matrix().read_text(encoding="utf-8"))["releases"]
        == document()["releases"]
    )


def test_refresh_caches_what_it_read(configured_index: LocalIndex, tmp_path: Path) -> None:
    own, new = saved(tmp_path / "own.json", "2.21.0"), str(tmp_path / "new.json")
    asked = ["matrix", "refresh", "--framework", "tensorflow", "--matrix", own, "-o", new]
    assert run(asked) == 0
    configured_index.asked.clear()
    assert run(asked) == 0
    assert configured_index.read() == []


def test_refresh_writes_nothing_when_something_could_not_be_read(
    configured_index: LocalIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configured_index.ranges = "none"
    new = tmp_path / "new.json"
    new.write_text("as it was", encoding="utf-8")
    own = saved(tmp_path / "own.json", "2.21.0")
    assert (
        run(["matrix", "refresh", "--framework", "tensorflow", "--matrix", own, "-o", str(new)])
        == 3
    )
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "does not serve byte ranges" in printed.err
    assert "Nothing was written." in printed.err
    assert new.read_text(encoding="utf-8") == "as it was"


def test_refresh_says_when_it_cannot_write(
    configured_index: LocalIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("as it was", encoding="utf-8")
    assert (
        run(
            [
                "matrix",
                "refresh",
                "--framework",
                "torch",
                "--since",
                "2.15",
                "-o",
                str(file / "x.json"),
            ]
        )
        == 3
    )
    assert f"{file / 'x.json'} cannot be written" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == "as it was"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tmp")] == []


def test_refresh_writes_the_files_of_the_matrix_to_a_folder(
    configured_index: LocalIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(["matrix", "refresh", "--framework", "torch", "--since", "2.15", "-o", str(tmp_path)])
        == 0
    )
    assert capsys.readouterr().err == f"Saved to {tmp_path}.\n"
    shipped = Path(__file__).parents[2] / "data"
    written = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.json")}
    written = {name: text for name, text in written.items() if name.parts[0] != "XDG_CACHE_HOME"}
    changed = {
        name.as_posix() for name, text in written.items() if text != (shipped / name).read_bytes()
    }
    assert changed <= {"compat_matrix.json"}  # which states the day on which it was checked
    assert (
        len([name for name in written if name.parts[0] == "evidence"])
        == len(document()["releases"]) + 1
    )


def test_refresh_names_unusable_wheels_and_vanished_rows(
    configured_index: LocalIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in configured_index.wheels if name.startswith("tensorflow-2.20.0-")]:
        del configured_index.wheels[name]
    other = configured_index.archive("tensorflow-2.19.1-cp312-cp312-win_amd64.whl")
    for python in ("cp310", "cp311", "cp312", "cp313"):
        configured_index.archives[f"tensorflow-2.21.0-{python}-{python}-win_amd64.whl"] = other
    own = saved(tmp_path / "own.json", "2.21.0")
    assert (
        run(
            [
                "matrix",
                "refresh",
                "--since",
                "2.20",
                "--framework",
                "tensorflow",
                "--matrix",
                own,
                "-o",
                own,
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert "left out: tensorflow-2.21.0-cp313-cp313-win_amd64.whl cannot be used" in printed
    assert "no longer on the index, kept: tensorflow 2.20.0 on win_amd64" in printed


@pytest.mark.parametrize(
    "arguments",
    [["--framework", "mxnet"], ["--since", "newest"], ["--matrix", "/nowhere.json"]],
    ids=lambda item: item[0],
)
def test_refresh_refuses_what_makes_no_sense(
    configured_index: LocalIndex, arguments: list[str]
) -> None:
    with pytest.raises(UserError):
        run(["matrix", "refresh", *arguments])
    assert configured_index.asked == []


@pytest.mark.parametrize("command", ["refresh", "verify"])
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (("PIP_NO_INDEX", "1"), "configured to use no index"),
        (
            ("PIP_INDEX_URL", "https://mirror.example:port/simple"),
            "not a valid URL: Port could not be cast",
        ),
        (
            ("PIP_INDEX_URL", "https://mirror.example:99999/simple"),
            "not a valid URL: Port out of range",
        ),
        (("PIP_INDEX_URL", "https://[2001:db8::1/simple"), "not a valid URL: Invalid IPv6 URL"),
        (("PIP_INDEX_URL", "https:///simple"), "not a valid URL: it names no host"),
        (("PIP_INDEX_URL", "file:///srv/simple"), "has the scheme 'file'"),
        (("PIP_RETRIES", "many"), "retries = 'many', which is not a valid number"),
        (("PIP_CERT", "/nowhere/ca.pem"), "the certificate /nowhere/ca.pem, which does not exist"),
    ],
)
def test_a_bad_setting_of_pip_is_a_user_error(
    command: str,
    setting: tuple[str, str],
    said: str,
    configured_index: LocalIndex,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(*setting)
    with pytest.raises(UserError, match=re.escape(said)):
        run(["matrix", command])


def test_an_index_at_an_ipv6_address_is_named_as_it_is(
    configured_index: LocalIndex,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://me:secret@[::1]:1/simple/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    assert run(["matrix", "refresh", "--framework", "torch"]) == 3
    assert "http://[::1]:1/simple/torch/ cannot be read: no connection" in capsys.readouterr().err


def test_missing_libraries_are_named_with_the_extra_that_brings_them(
    configured_index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "remotezip", None)
    with pytest.raises(UserError, match=r"needs the extra matrix.*'remotezip>="):
        run(["matrix", "refresh"])


def test_progress_is_drawn_on_a_terminal_only(
    configured_index: LocalIndex,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = saved(tmp_path / "own.json", "2.21.0")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run(["matrix", "refresh", "--framework", "tensorflow", "--matrix", own, "-o", own]) == 0
    assert "Reading wheels" in capsys.readouterr().err
    assert "2.21.0" in json.loads(Path(own).read_text(encoding="utf-8"))["releases"]["tensorflow"]
