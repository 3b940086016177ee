"""`--matrix https://…#sha256=HASH`: what is fetched, what is refused, and that every command has it."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from envcheck.cli.group import run
from envcheck.matrix import MatrixError, load_matrix
from envcheck.matrix import load as load_module
from envcheck.matrix.load import load_document
from envcheck.matrix.refresh import index as index_module
from envcheck.model import UserError
from envcheck.render.json_contracts import render_snapshot
from tests.hosts.test_hosts import snapshot_of
from tests.matrix.documents import changed_copy, document, text
from tests.matrix.index.server import Handler, LocalIndex


def offer(index: LocalIndex, content: bytes) -> str:
    """Serve content, and return its address with its hash."""
    index.answers["/matrix.json"] = lambda handler: handler.reply(
        200, content, Content_Type="application/json"
    )
    return f"{address(index)}#sha256={hashlib.sha256(content).hexdigest()}"


def address(index: LocalIndex) -> str:
    return index.url.replace("/simple/", "/matrix.json")


def refused(url: str) -> str:
    with pytest.raises(MatrixError) as caught:
        load_matrix(url)
    message = str(caught.value)
    assert message.startswith("The ")
    assert "\n" not in message
    return message


def one_release() -> bytes:
    changed = changed_copy()
    changed["releases"]["tensorflow"] = {"2.20.0": changed["releases"]["tensorflow"]["2.20.0"]}
    return json.dumps(changed).encode()


def test_a_pinned_url_is_fetched(configured_index: LocalIndex) -> None:
    url = offer(configured_index, text().encode())
    assert load_document(url) == document()
    address, _, pin = url.partition("#sha256=")
    assert load_document(f"{address}#sha256:{pin.upper()}") == document()


def test_a_redirect_is_followed(configured_index: LocalIndex) -> None:
    url = offer(configured_index, text().encode())
    configured_index.answers["/old.json"] = lambda handler: handler.reply(
        302, b"", Location="/matrix.json"
    )
    assert load_document(url.replace("/matrix.json", "/old.json")) == document()


@pytest.mark.parametrize(
    "pin", ["", "#", "#sha256=", "#sha256=abc", "#md5=" + "0" * 32, "#sha256=" + "g" * 64]
)
def test_nothing_is_requested_without_a_hash(configured_index: LocalIndex, pin: str) -> None:
    offer(configured_index, b"{}")
    message = refused(address(configured_index) + pin)
    assert f"{address(configured_index)}#sha256=HASH" in message
    assert configured_index.asked == []


def test_content_of_another_hash(configured_index: LocalIndex) -> None:
    offer(configured_index, b"{}")
    message = refused(f"{address(configured_index)}#sha256={'0' * 64}")
    assert f"has the SHA-256 {hashlib.sha256(b'{}').hexdigest()}, not {'0' * 64}" in message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<html>Please log in.</html>", "is not valid JSON"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b'{"schema": "envcheck/matrix/0"}', "has the older schema"),
        (b'{"schema": "envcheck/snapshot/1"}', "is not a compatibility matrix"),
        (b'{"schema": "envcheck/matrix/1"}', "does not fit its schema"),
    ],
)
def test_fetched_content_is_checked_like_a_file(
    configured_index: LocalIndex, content: bytes, words: str
) -> None:
    assert words in refused(offer(configured_index, content))


@pytest.mark.parametrize("status", [404, 403])
def test_a_url_that_does_not_exist(configured_index: LocalIndex, status: int) -> None:
    url = offer(configured_index, b"{}")
    configured_index.answers["/matrix.json"] = lambda handler: handler.reply(status, b"")
    assert f"cannot be read: the server answered with status {status}" in refused(url)


def test_a_message_does_not_show_the_password_of_a_url(configured_index: LocalIndex) -> None:
    url = (
        offer(configured_index, b"{}")
        .replace("http://", "http://name:secret@")
        .replace("/matrix", "/gone")
    )
    assert "secret" not in refused(url)


def test_a_server_that_is_slow(
    configured_index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "0.2")
    monkeypatch.setenv("PIP_RETRIES", "0")
    url = offer(configured_index, b"{}")
    configured_index.answers["/matrix.json"] = Handler.never
    assert "timed out" in refused(url)


def test_a_server_that_sends_slowly(
    configured_index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "_FETCH_SECONDS", 0.3)

    def drip(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(20):
            handler.wfile.write(b" " * 70_000)
            time.sleep(0.05)
        handler.close_connection = True

    url = offer(configured_index, b"{}")
    configured_index.answers["/matrix.json"] = drip
    assert "timed out" in refused(url)


def test_a_response_larger_than_any_matrix(
    configured_index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_module, "LIMIT", 1 << 20)
    assert "larger than 1 MiB; refused" in refused(offer(configured_index, b" " * (1 << 21)))


def test_no_connection(configured_index: LocalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_RETRIES", "0")
    assert "no connection" in refused(f"http://127.0.0.1:1/matrix.json#sha256={'0' * 64}")
    assert "names no host" in refused(f"http:///matrix.json#sha256={'0' * 64}")


def test_a_certificate_file_that_is_not_there(
    configured_index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CERT", "/nowhere/ca.pem")
    url = f"https://127.0.0.1:1/matrix.json#sha256={'0' * 64}"
    assert "the certificate /nowhere/ca.pem, which does not exist" in refused(url)


def test_pip_without_an_index_still_fetches(
    configured_index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert load_document(offer(configured_index, text().encode())) == document()


def test_without_the_library_the_extra_is_named(
    configured_index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "requests", None)
    message = refused(offer(configured_index, text().encode()))
    assert "A matrix from a URL needs the extra matrix. To add it, type: " in message
    assert "'requests>=2.31'" in message


def test_a_file_imports_no_network_library(tmp_path: Path) -> None:
    import subprocess

    file = tmp_path / "own.json"
    file.write_bytes(text().encode())
    program = (
        f"import sys; from envcheck.matrix import load_matrix; load_matrix({str(file)!r}); "
        "print('requests' in sys.modules, 'urllib3' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False False\n"


@pytest.mark.parametrize("seconds", ["soon", "-1", "1e9"])
def test_a_timeout_that_is_not_a_number(
    configured_index: LocalIndex, monkeypatch: pytest.MonkeyPatch, seconds: str
) -> None:
    monkeypatch.setenv("PIP_TIMEOUT", seconds)
    message = refused(f"{address(configured_index)}#sha256={'0' * 64}")
    assert f"timeout = {seconds!r}, which is not a valid number" in message


def test_show_and_query_use_a_pinned_url(
    configured_index: LocalIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    url = offer(configured_index, one_release())
    assert run(["matrix", "show", "tensorflow", "--matrix", url, "-q"]) == 0
    printed = capsys.readouterr().out
    assert "tensorflow==2.20.0" in printed
    assert "tensorflow==2.21.0" not in printed
    assert (
        run(["matrix", "query", "--framework", "tensorflow", "--python", "3.13", "--matrix", url])
        == 0
    )
    assert "tensorflow==2.19" not in capsys.readouterr().out


def test_doctor_uses_a_pinned_url(
    configured_index: LocalIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = offer(configured_index, one_release())
    asked = [
        "doctor",
        "--snapshot",
        saved_machine(tmp_path),
        "--for",
        "tensorflow==2.21.0",
        "--only",
        "release-unknown",
    ]
    assert run(asked) == 0
    capsys.readouterr()
    assert run([*asked, "--matrix", url]) == 3
    assert "release-unknown" in capsys.readouterr().out


def saved_machine(folder: Path, name: str = "recorded-debian-python") -> str:
    path = folder / "machine.json"
    path.write_text(render_snapshot(snapshot_of(name)), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("command", [["refresh"], ["verify", "--sample", "1"]])
def test_refresh_and_verify_use_a_pinned_url(
    configured_index: LocalIndex, tmp_path: Path, command: list[str]
) -> None:
    url = offer(configured_index, text().encode())
    extra = ["-o", str(tmp_path / "new.json")] if command == ["refresh"] else []
    assert run(["matrix", *command, "--framework", "torch", "--matrix", url, *extra]) in {0, 3}
    assert "/matrix.json" in configured_index.asked


@pytest.mark.parametrize(
    "asked",
    [["show", "torch"], ["query", "--python", "3.12"], ["refresh"], ["verify"]],
    ids=lambda item: str(item[0]),
)
def test_every_matrix_command_refuses_a_url_without_hash(
    configured_index: LocalIndex, asked: list[str]
) -> None:
    with pytest.raises(UserError, match="it has no hash"):
        run(["matrix", *asked, "--matrix", address(configured_index)])
    assert configured_index.asked == []


def test_a_users_matrix_overrides_only_when_it_is_named(
    configured_index: LocalIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    from envcheck.matrix.refresh.files import find_user_matrix

    path = find_user_matrix()
    path.parent.mkdir(parents=True)
    path.write_bytes(one_release())
    assert run(["matrix", "show", "tensorflow==2.21.0"]) == 0
    assert run(["matrix", "show", "tensorflow==2.21.0", "--matrix", str(path)]) == 3
    capsys.readouterr()
    assert configured_index.asked == []


Spoil = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda whole: whole[:-40], "is not valid JSON"),
        (
            lambda whole: whole.replace(b"envcheck/matrix/1", b"envcheck/matrix/0"),
            "has the older schema",
        ),
        (lambda whole: whole.replace(b'"cuda_build"', b'"command"'), "does not fit its schema"),
    ],
    ids=["corrupt", "older", "wrong-schema"],
)
def test_every_command_refuses_a_matrix_it_cannot_use(
    tmp_path: Path, spoil: Spoil, words: str
) -> None:
    file = tmp_path / "own.json"
    file.write_bytes(spoil(text().encode()))
    for asked in (
        ["doctor", "--snapshot", saved_machine(tmp_path)],
        ["matrix", "show", "torch"],
        ["matrix", "query", "--python", "3.12"],
        ["matrix", "refresh", "-o", str(tmp_path / "new.json")],
        ["matrix", "verify"],
    ):
        with pytest.raises(UserError, match=words):
            run([*asked, "--matrix", str(file)])
    assert not (tmp_path / "new.json").exists()
