"""Decompress gzip data; separate from log_files, because importing zlib takes time that most logs do not need."""

from __future__ import annotations

import contextlib
import zlib
from typing import Iterator

_SALVAGE_STEP = 256  # bytes; with the damage, at most so much of the data before it is lost


class GzipUnpacker:
    """Decompress consecutive gzip members in blocks of limited size."""

    def __init__(self, limit: int) -> None:
        """Limit a block of text to `limit` bytes."""
        self._limit = limit
        self._decompressor = zlib.decompressobj(wbits=31)
        self.is_inside = False  # of a member that has not ended

    def unpack(self, packed: bytes) -> Iterator[bytes]:
        """Yield the text of the next bytes of the file; raises zlib.error behind the text before the damage."""
        while packed:
            self.is_inside = True
            before = self._decompressor.copy()
            try:
                text = self._decompressor.decompress(packed, self._limit)
            except zlib.error:
                yield from _read_until_damage(before, packed)
                raise
            if text:
                yield text
            packed = self._decompressor.unconsumed_tail
            if self._decompressor.eof:
                packed = self._decompressor.unused_data.lstrip(b"\0")  # some writers pad with zeros
                self._decompressor = zlib.decompressobj(wbits=31)
                self.is_inside = False


def _read_until_damage(decompressor: "zlib._Decompress", packed: bytes) -> Iterator[bytes]:
    """Yield the text before damaged data, which zlib drops when it raises."""
    with contextlib.suppress(zlib.error):
        for start in range(0, len(packed), _SALVAGE_STEP):
            text = decompressor.decompress(packed[start : start + _SALVAGE_STEP])
            if text:
                yield text
