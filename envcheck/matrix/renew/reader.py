"""Read pages and wheels, several at a time, from the index or from what an earlier run kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

from envcheck.matrix.renew.cache import Cache
from envcheck.matrix.renew.contents import Contents
from envcheck.matrix.renew.deep_reader import EDITION, DeepReader
from envcheck.matrix.renew.errors import ArtifactError, UnusableWheelError
from envcheck.matrix.renew.index import read_page
from envcheck.matrix.renew.session import CONNECTIONS, open_session
from envcheck.matrix.renew.settings import IndexSettings
from envcheck.matrix.renew.wheels import Wheel
from envcheck.matrix.renew.zip_members import read_wheel

_TOLD = 5  # errors named in one message


@dataclass(frozen=True)
class Reading:
    """What came of reading wheels, each by its SHA-256."""

    contents: dict[str, Contents] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)  # no installer takes them; why
    failed: dict[str, str] = field(default_factory=dict)  # could not be read; why

    def require_all(self) -> None:
        """Raise ArtifactError with the reasons when any wheel could not be read."""
        reasons = sorted(self.failed.values())
        if reasons:
            rest = f" And {len(reasons) - _TOLD} more." if len(reasons) > _TOLD else ""
            raise ArtifactError(" ".join(reasons[:_TOLD]) + rest)


class Reader:
    """One index, one session, one cache; counts what it transfers."""

    def __init__(self, settings: IndexSettings, cache: Cache | None) -> None:
        """Open the session; without a cache every wheel is read anew."""
        self.received = 0  # bytes of wheels, not of pages
        self.wheels_read = 0
        self._settings = settings
        self._cache = cache
        self._session = open_session(settings)

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def page(self, distribution: str) -> list[Wheel] | None:
        """List the wheels of a distribution; None where the index has none of that name."""
        return read_page(self._session, self._settings, distribution)

    def of_binaries(self, told: Callable[[int], None] | None = None) -> DeepReader:
        """Return a reader of wheels' binaries with the same session and cache; `told` hears of bytes as they come."""
        folder = self._cache.folder / f"binaries-{EDITION}" if self._cache else None
        return DeepReader(self._session, self._settings, folder, told=told)

    def read_all(self, wheels: Mapping[str, tuple[str, Wheel]], progress: Callable[[int, int], None]) -> Reading:
        """Read wheels, given by SHA-256 with their framework; what fails is told, not raised."""
        reading = Reading()
        progress(0, len(wheels))
        pool = ThreadPoolExecutor(CONNECTIONS)
        try:
            waiting = {pool.submit(self._read, *item): digest for digest, item in wheels.items()}
            for done, future in enumerate(as_completed(waiting), 1):
                try:
                    reading.contents[waiting[future]] = future.result()
                except UnusableWheelError as error:
                    reading.unusable[waiting[future]] = str(error)
                except ArtifactError as error:
                    reading.failed[waiting[future]] = str(error)
                progress(done, len(wheels))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # an interruption waits for no server
            raise
        pool.shutdown()
        return reading

    def _read(self, framework: str, wheel: Wheel) -> Contents:
        kept = self._cache.get(wheel.sha256) if self._cache else None
        if kept is not None:
            return kept
        contents, received = read_wheel(self._session, self._settings, wheel, framework)
        self.received += received
        self.wheels_read += 1
        if self._cache:
            self._cache.put(wheel.sha256, contents)
        return contents
