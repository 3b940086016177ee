"""A package index on this machine that stands in for the indexes that plans name and that do not answer from here.

**It is composed.** It lists the files that the matrix documents on those indexes, and states for each one what the
package index says of the same release:

- Builds of PyTorch's own index (torch, and what is built for it there) have the METADATA of the same wheel on the
  package index. Requirements of CUDA wheels are left out where that wheel was built for another CUDA: which versions
  the build on PyTorch's index pins is recorded nowhere.
- Files of a project's own page (flash-attn, mamba-ssm) and of its own index (llama-cpp-python, NVIDIA's for TensorRT)
  have the PKG-INFO of that release's sources.
- Every other name is sent on to the package index. Which of them PyTorch's index holds as well is not recorded.

A plan that resolves here names documented releases, and their other requirements can be met together for its Python
and platform. That the files are there, and state the same, it does not show.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import requests
from packaging.utils import parse_sdist_filename, parse_wheel_filename
from packaging.version import Version
from pypi_simple import PYPI_SIMPLE_ENDPOINT, ProjectPage
from remotezip import RemoteZip

from envcheck.host.pip_settings import read_pip_settings
from envcheck.matrix.companions import load_companions, source_package
from envcheck.matrix.package_index import CPU, package_index
from envcheck.matrix.query import Matrix
from envcheck.matrix.refresh.index import Connection, build_request_options, parse_platform
from envcheck.matrix.refresh.wheel_contents import Fetcher
from envcheck.model import RequirementSet, major_minor, replace

if TYPE_CHECKING:
    from typing_extensions import Self

_TORCH = "torch"
_LABEL = rf"cu\d+|{CPU}"
_ACCEPT = {"Accept": "application/vnd.pypi.simple.v1+json"}


class PublicIndex:
    """The package index that pip is configured for; the metadata that were read of it stay in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._settings = folder, read_pip_settings(os.environ)
        self._connection = Connection(self._settings)
        self.url = (self._settings.url or PYPI_SIMPLE_ENDPOINT).rstrip("/")
        self.list_files = cache(self._list_files)

    def _get(self, address: str) -> requests.Response:
        options = build_request_options(self._settings, address)
        answer = self._connection.session.get(address, headers=_ACCEPT, stream=True, **options)
        answer.raise_for_status()
        return answer

    def _list_files(self, name: str) -> dict[str, str]:
        """Map the files on the page of a name to their addresses."""
        with self._get(f"{self.url}/{name}/") as answer:
            packages = ProjectPage.from_json_data(answer.json(), answer.url).packages
        return {item.filename: item.url for item in packages}

    def read_metadata(self, filename: str) -> str:
        """Return the METADATA of a wheel, of which nothing else is fetched, or the PKG-INFO of sources."""
        kept = self._folder / f"{filename}.metadata"
        if not kept.exists():
            name = (
                filename.partition("-")[0]
                if filename.endswith(".whl")
                else parse_sdist_filename(filename)[0]
            )
            address = self.list_files(re.sub(r"[-_.]+", "-", name).lower())[filename]
            text = (
                self._read_wheel(address)
                if filename.endswith(".whl")
                else self._read_sources(address)
            )
            kept.write_text(text, encoding="utf-8")
        return kept.read_text(encoding="utf-8")

    def _read_wheel(self, address: str) -> str:
        fetcher = Fetcher(address, self._connection)
        with RemoteZip(address, fetcher=lambda *_, **__: fetcher) as archive:
            name = next(
                item
                for item in archive.namelist()
                if re.fullmatch(r"[^/]+\.dist-info/METADATA", item)
            )
            text: bytes = archive.read(name)
            return text.decode()

    def _read_sources(self, address: str) -> str:
        with self._get(address) as answer, tarfile.open(fileobj=answer.raw, mode="r|gz") as archive:
            for member in archive:
                content = (
                    archive.extractfile(member)
                    if re.fullmatch(r"[^/]+/PKG-INFO", member.name)
                    else None
                )
                if content:
                    return content.read().decode()
        raise ValueError(f"no PKG-INFO in {address}")

    def sources_of(self, name: str, version: str) -> str:
        """Name the sources of a release."""
        files = (item for item in self.list_files(name) if item.endswith(".tar.gz"))
        return next(item for item in files if parse_sdist_filename(item)[1] == Version(version))


class ComposedIndex:
    """Lists what the matrix documents elsewhere, and serves it until it is left."""

    def __init__(self, matrix: Matrix, public: PublicIndex) -> None:
        own = package_index(_TORCH)
        assert own is not None
        self._matrix, self.public, self._own = matrix, public, own
        beside = [
            name for row in load_companions().rows if row.on_index for name in row.distributions
        ]
        self._labelled = {_TORCH, *beside} - {*own.for_cuda}  # triton has one build for every CUDA
        self.list_files = cache(self._list_files)

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"index": self})
        )
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def torch_url(self) -> str:
        """Return what stands in for PyTorch's index."""
        return f"{self.url}/whl"

    def stand_in(self, wanted: RequirementSet) -> RequirementSet:
        """Point the pages and files that a set of requirements names here."""
        texts = tuple(
            re.sub(r" @ .*/", f" @ {self.url}/pages/files/", text) for text in wanted.requirements
        )
        options = tuple(
            re.sub(r"https://(.*/)?", f"{self.url}/pages/", text) for text in wanted.options
        )
        result: RequirementSet = replace(wanted, requirements=texts, options=options)
        return result

    def is_named(self, wanted: RequirementSet) -> bool:
        """Return whether a set of requirements comes from here."""
        return self.url in " ".join((wanted.index, *wanted.options, *wanted.requirements))

    def _list_files(self, kind: str, label: str, name: str) -> tuple[str, ...]:
        """List the files of a name on PyTorch's index ("whl") or a project's page; () for a name sent on."""
        return tuple(
            self._list_builds(label, name) if kind == "whl" else self._list_of_page(label, name)
        )

    def _list_builds(self, label: str, name: str) -> Iterator[str]:
        if name not in self._labelled or not re.fullmatch(_LABEL, label):
            return
        documented = self._documented(label, name)
        for filename in filter(lambda item: item.endswith(".whl"), self.public.list_files(name)):
            _, version, _, tags = parse_wheel_filename(filename)
            if any((str(version), parse_platform(tag.platform)) in documented for tag in tags):
                yield filename.replace(f"-{version}-", f"-{version}+{label}-", 1)

    def _documented(self, label: str, name: str) -> set[tuple[str, str]]:
        """List the releases, by platform, of which the matrix documents a build with a label."""
        every = (
            build
            for row in self._matrix.releases(_TORCH)
            for build in self._matrix.index_builds(row)
        )
        builds = [build for build in every if build.local == label]
        if name == _TORCH:
            return {(build.version, build.platform) for build in builds}
        return {
            (row.version, row.platform)
            for row in self._matrix.companion_releases(name)
            for build in builds
            if row.platform in (build.platform, "any") and self._matrix.is_on_index(row, build)
        }

    def _list_of_page(self, label: str, name: str) -> Iterator[str]:
        """Yield the files that a project has elsewhere; of an index for one CUDA those for it."""
        stem, package = name.replace("-", "_"), source_package(name)
        for release in package.releases if package else ():
            for files in release.files or ():
                if label.startswith("cu") and label not in [
                    f"cu{cuda.replace('.', '')}" for cuda in files.cuda
                ]:
                    continue
                for version, python, where in product(
                    release.versions, files.pythons, files.platforms
                ):
                    tag = f"cp{python.replace('.', '')}"
                    yield f"{stem}-{version}-{tag}-{tag}-{where}.whl"
        for row in self._matrix.companion_releases(f"{name.removesuffix('-libs')}-bindings"):
            # TensorRT, of which only the bindings are here
            yield f"{stem}-{row.version}-py3-none-{row.platform}.whl"

    def compose_metadata(self, kind: str, filename: str) -> str:
        """Return what a file states here."""
        name, version, _, tags = parse_wheel_filename(filename)
        if kind == "whl":
            text = self.public.read_metadata(filename.replace(f"+{version.local}-", "-", 1))
            platforms = {parse_platform(tag.platform) for tag in tags}
            left_out = self._left_out(version, platforms) if name == _TORCH else ()
        else:
            text = self.public.read_metadata(self.public.sources_of(name, version.public))
            left_out = ()
        lines = text.splitlines()
        head = lines[: lines.index("")] if "" in lines else lines
        kept = [line for line in head if not re.match(r"(Version|Dynamic):", line)]
        pattern = rf"Requires-Dist: *({'|'.join(left_out)})" if left_out else "(?!)"
        return "\n".join(
            [*(line for line in kept if not re.match(pattern, line)), f"Version: {version}", ""]
        )

    def _left_out(self, version: Version, platforms: set[str]) -> tuple[str, ...]:
        """List how the names begin that a build of torch does not require, or requires in unknown versions."""
        usual = [
            self._matrix.release(_TORCH, version.public, platform, _TORCH) for platform in platforms
        ]
        labels = {
            f"cu{major_minor(row.cuda).replace('.', '')}" for row in usual if row and row.cuda
        }
        cuda_wheels = () if version.local in labels else ("nvidia-", "cuda-")
        return (
            *cuda_wheels,
            *(rf"{name}\b" for name in self._own.for_cuda if version.local == CPU),
        )


class _Handler(BaseHTTPRequestHandler):
    """Serves /KIND/LABEL/NAME/ and /KIND/files/FILE, where KIND is whl or pages."""

    index: ComposedIndex
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with a page, a file, or where it is."""
        kind, label, *rest = unquote(self.path).strip("/").split("/")
        try:
            if label == "files":
                self._send_file(kind, rest[0])
            else:
                self._send_page(kind, label, rest[0])
        except Exception as error:  # noqa: BLE001 - uv says what the status is
            print(f"composed index: {self.path}: {error!r}", file=sys.stderr)
            self._send(500, b"")

    do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    def _send_page(self, kind: str, label: str, name: str) -> None:
        files = self.index.list_files(kind, label, name)
        if not files:
            self._send(302, b"", Location=f"{self.index.public.url}/{name}/")
            return
        links = (
            f'<a href="/{kind}/files/{quote(item)}" data-core-metadata="true">{item}</a>'
            for item in files
        )
        self._send(
            200,
            f"<!DOCTYPE html><html><body>{'<br>'.join(links)}</body></html>".encode(),
            "text/html",
        )

    def _send_file(self, kind: str, filename: str) -> None:
        text = self.index.compose_metadata(kind, filename.removesuffix(".metadata"))
        self._send(
            200, text.encode() if filename.endswith(".metadata") else _compose_wheel(filename, text)
        )

    def _send(
        self, status: int, body: bytes, content: str = "application/octet-stream", **headers: str
    ) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": content,
            "Content-Length": str(len(body)),
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep silent."""


def _compose_wheel(filename: str, metadata: str) -> bytes:
    """Zip a wheel that holds nothing but what it states."""
    folder, stream = f"{'-'.join(filename.split('-')[:2])}.dist-info", io.BytesIO()
    tag = "-".join(filename.removesuffix(".whl").split("-")[-3:])
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(f"{folder}/METADATA", metadata)
        archive.writestr(
            f"{folder}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n"
        )
        archive.writestr(f"{folder}/RECORD", "")
    return stream.getvalue()
