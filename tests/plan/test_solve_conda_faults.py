"""What `--verify` says of a channel that does not answer as one: a server on the loopback, and a composed channel."""

from __future__ import annotations

import bz2
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from envcheck.model import Environment
from envcheck.plan import verify as solve_conda
from envcheck.plan.verify import UnreachableError, UnresolvableError, solve
from tests.patience import PATIENCE
from tests.plan.channel import write_channel

Answer = tuple[int, bytes]
MADE = Environment(
    "e", "conda", "3.12", "linux_x86_64", channels=("conda-forge",), packages=("python=3.12", "pip")
)


class Server(ThreadingHTTPServer):
    """A server that is told nothing of who hung up, and waits for nobody."""

    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep silent."""


@contextmanager
def served(answer: Callable[[str], Answer]) -> Iterator[str]:
    """Serve what `answer` makes of each path; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.send_response(answer(self.path)[0])
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that is overridden
            """Keep silent."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, b"", "404"),
        (401, b"", "401"),
        (200, b"<html>sign in first</html>", "parse"),
        (200, b"[]", "parse"),
    ],
)
def test_an_answer_that_is_no_channel_proves_nothing(status: int, body: bytes, words: str) -> None:
    def answer(path: str) -> Answer:
        return (status, body) if path.endswith("repodata.json") or status == 401 else (404, b"")

    with served(answer) as address, pytest.raises(UnreachableError, match=words) as caught:
        solve(MADE, {"CONDA_CHANNEL_ALIAS": address})
    assert "\n" not in str(caught.value)


def test_a_server_that_never_answers_is_waited_for_so_long_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(solve_conda, "SECONDS", 0.3)
    over = threading.Event()

    def answer(_: str) -> Answer:
        over.wait(PATIENCE)
        return 404, b""

    with (
        served(answer) as address,
        pytest.raises(UnreachableError, match=r"conda-forge: .* within 0 s"),
    ):
        solve(MADE, {"CONDA_CHANNEL_ALIAS": address})
    over.set()


def test_an_index_is_read_packed_or_plain(tmp_path: Path) -> None:
    write_channel(tmp_path)

    def answer(path: str) -> Answer:
        packed, file = path.endswith(".json.bz2"), tmp_path / path.strip("/").removesuffix(".bz2")
        if not file.is_file() or (not packed and "linux-64" in path):
            return 404, b""
        return 200, bz2.compress(file.read_bytes()) if packed else file.read_bytes()

    with served(answer) as address:
        assert "python=3.12.7=0_cpython" in solve(MADE, {"CONDA_CHANNEL_ALIAS": address})


def test_an_alias_that_is_no_address_is_told() -> None:
    with pytest.raises(UnreachableError, match="CONDA_CHANNEL_ALIAS is not a valid address"):
        solve(MADE, {"CONDA_CHANNEL_ALIAS": "nonsense"})


def test_a_channel_without_such_a_build_names_what_was_asked_for(tmp_path: Path) -> None:
    made = Environment(
        "e",
        "conda",
        "3.12",
        "linux_x86_64",
        channels=("conda-forge",),
        packages=("tensorflow=2.99.*=cuda*",),
    )
    with pytest.raises(UnresolvableError, match=r"tensorflow=2\.99\.\*=cuda\*"):
        solve(made, {"CONDA_CHANNEL_ALIAS": write_channel(tmp_path)})
