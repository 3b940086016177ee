"""Read index pages and wheels, several at a time, from the index or the cache."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path

from envcheck.host.file_changes import write_atomically
from envcheck.host.pip_settings import IndexSettings
from envcheck.matrix.refresh.binary_cells import EDITION
from envcheck.matrix.refresh.deep import DeepReader, name_cached
from envcheck.matrix.refresh.index import (
    CONNECTIONS,
    ArtifactError,
    Connection,
    Group,
    OddWheelError,
    UnusableWheelError,
    Wheel,
    read_page,
    read_release_files,
)
from envcheck.matrix.refresh.wheel_contents import Contents, read_wheel
from envcheck.model import decode, encode

CACHE_EDITION = "2"  # part of the folder's name: another edition reads other members


def find_user_cache() -> Path:
    """Return the folder of the user's cache that refreshes share."""
    import platformdirs

    return (
        Path(platformdirs.user_cache_dir("envcheck", appauthor=False)) / f"wheels-{CACHE_EDITION}"
    )


class Cache:
    """A folder of JSON files, one for each wheel; broken and unwritable files are ignored."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which is created on the first write."""
        self.folder = folder

    def get(self, name: str) -> Contents | None:
        """Return the contents of a wheel; None if they are not cached."""
        try:
            return decode(Contents, json.loads(self._path(name).read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return None

    def put(self, name: str, contents: Contents) -> None:
        """Cache the contents of a wheel."""
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path(name), json.dumps(encode(contents), ensure_ascii=False))

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


_MAX_REASONS = 5  # in one message


@dataclass(frozen=True)
class Reading:
    """The result of reading wheels, by their SHA-256."""

    contents: dict[str, Contents] = field(default_factory=dict)
    # the reason why no installer takes the wheel
    unusable: dict[str, str] = field(default_factory=dict)
    # the reason why nothing is taken from the wheel
    odd: dict[str, str] = field(default_factory=dict)
    # the reason why the wheel could not be read
    failed: dict[str, str] = field(default_factory=dict)

    def require_all(self) -> None:
        """Raise ArtifactError with the reasons if a wheel could not be read."""
        reasons = sorted({**self.failed, **({} if self.contents else self.odd)}.values())
        if self.failed or len(reasons) > 1:
            rest = ""
            if len(reasons) > _MAX_REASONS:
                rest = f" And {len(reasons) - _MAX_REASONS} more."
            raise ArtifactError(" ".join(reasons[:_MAX_REASONS]) + rest)


class Reader:
    """One index, one session, one cache."""

    def __init__(self, settings: IndexSettings, cache: Cache | None) -> None:
        """Open the session; without a cache every wheel is downloaded."""
        self._cache = cache
        self._connection = Connection(settings)

    def close(self) -> None:
        """Close the session."""
        self._connection.session.close()

    def page(self, distribution: str) -> list[Wheel] | None:
        """List the wheels of a distribution; None if the index does not have it."""
        return read_page(self._connection, distribution)

    def release_files(self, distribution: str, version: str) -> set[str] | None:
        """List the files of a release by its own document; None if the index has none."""
        return read_release_files(self._connection, distribution, version)

    def open_binaries(self, progress: Callable[[int], None] | None = None) -> DeepReader:
        """Return a reader of binaries with the same session and cache.

        `progress` gets the bytes of each chunk.
        """
        folder = None
        if self._cache:
            folder = self._cache.folder / f"binaries-{EDITION}"
        return DeepReader(self._connection, folder, progress=progress)

    def read_all(
        self,
        wheels: Mapping[str, tuple[str, Wheel]],
        progress: Callable[[int, int], None],
        compared: Collection[str] = (),
    ) -> Reading:
        """Read wheels, given by SHA-256 with their framework; failures are returned, not raised.

        `compared` names the hashes that an earlier run compared with the whole file.
        """
        reading = Reading()
        progress(0, len(wheels))
        pool = ThreadPoolExecutor(CONNECTIONS)
        try:
            waiting = {
                pool.submit(self._read, *item, digest in compared): digest
                for digest, item in wheels.items()
            }
            for done, future in enumerate(as_completed(waiting), 1):
                try:
                    reading.contents[waiting[future]] = future.result()
                except UnusableWheelError as error:
                    reading.unusable[waiting[future]] = str(error)
                except OddWheelError as error:
                    reading.odd[waiting[future]] = str(error)
                except ArtifactError as error:
                    reading.failed[waiting[future]] = str(error)
                progress(done, len(wheels))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C does not wait for a server
            raise
        pool.shutdown()
        return reading

    def _read(self, framework: str, wheel: Wheel, was_compared: bool) -> Contents:  # noqa: FBT001 - a pool hands it over
        kept = None
        if self._cache:
            kept = self._cache.get(name_cached(framework, wheel))
        if kept is not None:
            return kept
        contents = read_wheel(self._connection, wheel, framework, compare=not was_compared)
        if self._cache:
            self._cache.put(name_cached(framework, wheel), contents)
        return contents


def read_usable(
    wanted: Mapping[str, Sequence[Group]],
    reader: Reader,
    progress: Callable[[int, int], None],
    compared: Collection[str] = (),
) -> Reading:
    """Read the representatives.

    For an unusable one the next older wheel, until one is usable or none is left.
    """
    reading = Reading()
    waiting = [(name, group) for name, groups in wanted.items() for group in groups]
    while waiting:
        wheels = {one.representative.sha256: (name, one.representative) for name, one in waiting}
        found = reader.read_all(wheels, progress, compared)
        for part in ("contents", "unusable", "odd", "failed"):
            getattr(reading, part).update(getattr(found, part))
        left = []
        for name, group in waiting:
            if group.representative.sha256 in reading.unusable:
                left += [(name, each) for each in drop_unusable([group], reading)]
        waiting = [one for one in left if one[1].representative.sha256 not in reading.unusable]
        progress = lambda *_: None  # noqa: E731 - the bar is full, and few wheels are replaced
    return reading


def drop_unusable(groups: Iterable[Group], reading: Reading) -> list[Group]:
    """Return groups without their unusable wheels.

    A group that has no other wheel stays as it is.
    """
    left = []
    for group in groups:
        bad = tuple(wheel for wheel in group.wheels if wheel.sha256 in reading.unusable)
        good = tuple(wheel for wheel in group.wheels if wheel not in bad)
        left.append(replace(group, wheels=good, left_out=bad) if bad and good else group)
    return left
