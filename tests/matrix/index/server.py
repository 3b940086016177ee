"""A package index on loopback with recorded parts of real wheels (recorded.json names them)."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from packaging.utils import canonicalize_name

from tests.patience import PATIENCE

RECORDED = Path(__file__).with_name("recorded.json")
JSON = "application/vnd.pypi.simple.v1+json"
Answer = Callable[["Handler"], None]


@lru_cache(maxsize=1)
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def archive(
    members: dict[str, bytes], entries: int = 0, *, altered: bool = False, folder: str = "x-1"
) -> bytes:
    """Zip members with a RECORD of their hashes, and empty files up to `entries`; `altered` falsifies METADATA's."""
    lines = [f"{name},{_digest(data)},{len(data)}" for name, data in members.items()]
    if altered:
        lines = [re.sub(r"(METADATA,sha256=)\w{4}", r"\1AAAA", line) for line in lines]
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target:
        for number in range(min(entries, 60) - len(members) - 1):
            target.writestr(f"filler/{number}", b"")
        for name, data in members.items():
            target.writestr(name, data)
        target.writestr(f"{folder}.dist-info/RECORD", "\n".join(lines) + "\n")
    return stream.getvalue()


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


class LocalIndex:
    """What the server serves, open to change by a test."""

    def __init__(self) -> None:
        self.url = ""
        self.form = "html"
        self.ranges = "full"  # "no-suffix": none from the end; "none": whole files only
        self.wheels: dict[str, dict[str, Any]] = {
            name: dict(body) for name, body in recorded()["wheels"].items()
        }
        self.archives: dict[str, bytes] = {}  # file name -> bytes served instead
        self.answers: dict[str, Answer] = {}  # path -> what answers it instead
        self.asked: list[str] = []  # paths of all requests
        self.over = threading.Event()  # what an answer waits for that never comes

    def archive(self, filename: str) -> bytes:
        """Return the bytes of a wheel."""
        if filename not in self.archives:
            body = self.wheels[filename]
            folder = "-".join(filename.split("-")[:2])
            named = {
                f"{folder}.dist-info/METADATA" if name == "METADATA" else name: key
                for name, key in body["members"].items()
            }
            members = {name: recorded()["texts"][key].encode() for name, key in named.items()}
            altered = bool(body.get("altered"))
            self.archives[filename] = archive(
                members, body["entries"], altered=altered, folder=folder
            )
        return self.archives[filename]

    def files(self, project: str) -> list[dict[str, Any]]:
        """List the files of a page as the JSON form has them."""
        return [
            {
                "filename": name,
                "url": f"../../files/{name}",
                "hashes": {"sha256": body["sha256"]},
                "yanked": body.get("yanked", False),
                **({"core-metadata": {"sha256": body["metadata"]}} if body.get("metadata") else {}),
                **({"size": body["size"]} if "size" in body else {}),
            }
            for name, body in sorted(self.wheels.items())
            if canonicalize_name(name.split("-")[0]) == project
        ]

    def read(self) -> list[str]:
        """Return the names of the wheels asked for so far."""
        return sorted(
            {path.rpartition("/")[2] for path in self.asked if path.startswith("/files/")}
        )


class Handler(BaseHTTPRequestHandler):
    """Answer pages and ranges."""

    protocol_version = "HTTP/1.1"
    # a body behind its headers would wait 40 ms for the word that those have come
    disable_nagle_algorithm = True

    @property
    def index(self) -> LocalIndex:
        return cast("_Server", self.server).index

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.index.asked.append(self.path)
        special = self.index.answers.get(self.path)
        if special:
            special(self)
        elif self.path.startswith("/simple/"):
            self._page(self.path.split("/")[2])
        elif self.path.rpartition("/")[2] in self.index.wheels:
            self._file(self.index.archive(self.path.rpartition("/")[2]))
        else:
            self.reply(404, b"no such file")

    def reply(self, status: int, content: bytes, **headers: str) -> None:
        """Send a whole answer; underscores in header names stand for dashes."""
        self.send_response(status)
        for name, value in {"Content_Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _page(self, project: str) -> None:
        files = self.index.files(project)
        if not files:
            self.reply(404, b"no such project")
        elif self.index.form == "json":
            page = {"meta": {"api-version": "1.0"}, "name": project, "files": files}
            self.reply(200, json.dumps(page).encode(), Content_Type=JSON)
        else:
            links = (
                f'<a href="{item["url"]}#sha256={item["hashes"]["sha256"]}"'
                + (' data-yanked=""' if item["yanked"] else "")
                + f">{item['filename']}</a><br>"
                for item in files
            )
            html = "<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>"
            self.reply(200, html.encode(), Content_Type="text/html")

    def _file(self, content: bytes) -> None:
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if (
            asked is None
            or self.index.ranges == "none"
            or (self.index.ranges == "no-suffix" and not asked[1])
        ):
            self.reply(200, content)
            return
        first = int(asked[1]) if asked[1] else max(0, len(content) - int(asked[2]))
        last = min(int(asked[2]), len(content) - 1) if asked[1] and asked[2] else len(content) - 1
        self.reply(
            206, content[first : last + 1], Content_Range=f"bytes {first}-{last}/{len(content)}"
        )

    def never(self) -> None:
        """Answer nothing for as long as the index is served."""
        self.index.over.wait(PATIENCE)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Print nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    index: LocalIndex

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing about readers that went away."""


@contextmanager
def serve() -> Iterator[LocalIndex]:
    """Serve a fresh index until the block ends."""
    server = _Server(("127.0.0.1", 0), Handler)
    server.index = LocalIndex()
    server.index.url = f"http://127.0.0.1:{server.server_port}/simple/"
    thread = threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True)
    thread.start()
    try:
        yield server.index
    finally:
        server.index.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
