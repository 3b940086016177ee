"""Look up what environment variables name in the files of the release that reads them."""

from __future__ import annotations

import posixpath
import re
from typing import Iterator, List, Sequence, Tuple

from envcheck.host.known_variables import WordList, load_known_variables
from envcheck.host.protocol import Host
from envcheck.model import Absent, Distribution, Fact, Known, UnknownWord, from_file

_LIMIT = 1 << 29  # bytes; the library of jaxlib has 350 million


def collect_unknown_words(
    host: Host, installed: Sequence[Distribution]
) -> Fact[Tuple[UnknownWord, ...]]:
    """Find the words of set variables that the installed release does not have.

    Absent where none is looked up.
    """
    environment = host.environment()
    unknown: List[UnknownWord] = []
    read: List[str] = []
    for row in load_known_variables().words:
        named = dict.fromkeys(re.findall(row.words, environment.get(row.name, "")))
        words = [item for item in named if item not in row.usual]
        for owner in (item for item in installed if words and item.name == row.package):
            for path in _find_file(host, owner, row):
                content = host.read_bytes(path, _LIMIT).value
                if content is not None:
                    read.append(path)
                    lost = (item for item in words if item.encode() not in content)
                    given = (owner.name, owner.version, path)
                    unknown += [UnknownWord(row.name, item, *given) for item in lost]
    if not read:
        return Absent(tuple(row.name for row in load_known_variables().words))
    return from_file(tuple(unknown), read[0])


def _find_file(host: Host, owner: Distribution, row: WordList) -> Iterator[str]:
    """Yield the first file of a list that is there."""
    paths = (posixpath.join(owner.location, name) for name in row.files)
    found = (path for path in paths if isinstance(host.status(path), Known))
    yield from list(found)[:1]
