"""What a program died of, read from its traceback: the exception, and whose code raised it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.explain.text import clean_line
from envcheck.model import dataclass

_EXCEPTION = (
    r"((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout|NotFound))(?:: (.*))?$"
)
_FRAME = r"\s*File \"([^\"]+)\", line \d+, in "
_ANY_EXCEPTION = r"([A-Za-z_][\w.]{2,80})(?:: (.*))?$"  # behind the indented lines of a frame
_PACKAGE = r".*(?:site|dist)-packages[/\\]([A-Za-z]\w*)"
_STANDARD = r".*[/\\](?:lib[/\\]python3\.\d+|Lib)[/\\]"
_LINES = 400  # at the end of a log


@dataclass
class Raised:
    """An exception that ended a program."""

    kind: str  # FileNotFoundError, without its module
    message: str
    number: int  # of its line in the log, 1-based
    owners: tuple[str, ...] = ()  # packages of the frames, the outermost first; "" is the user's

    @property
    def text(self) -> str:
        """Return the line as Python writes it."""
        return f"{self.kind}: {self.message}" if self.message else self.kind


def read_raised(lines: Sequence[str], last: int) -> Raised | None:
    """Return the last exception behind the frames of a traceback, in lines that end at `last`."""
    texts = [clean_line(line.encode()).text for line in lines[-_LINES:]]
    for place in range(len(texts) - 1, -1, -1):
        is_below = place > 0 and lines[-len(texts) :][place - 1].startswith("  ")
        match = re.match(_ANY_EXCEPTION if is_below else _EXCEPTION, texts[place])
        frames = _list_frames(texts, place) if match else []
        below = lines[len(lines) - len(texts) + place + 1 :]
        is_last = all(not line.strip() or line[0].isspace() for line in below)  # of its message
        if match and (frames or (is_last and not is_below)):
            kind = match[1].rpartition(".")[2]
            number = last - (len(texts) - 1 - place)
            return Raised(kind, (match[2] or "").strip(), number, tuple(map(_find_owner, frames)))
    return None


def _list_frames(texts: Sequence[str], end: int) -> list[str]:
    """List the files of the traceback that ends in a line, the outermost first."""
    frames: list[str] = []
    for text in reversed(texts[:end]):
        frame = re.match(_FRAME, text)
        if frame:
            frames.insert(0, frame[1])
        elif text.startswith("Traceback") or re.match(_EXCEPTION, text):
            break
    return frames


def _find_owner(path: str) -> str:
    """Name the package whose file a frame stands in; "" for one outside the folders of packages."""
    match = re.match(_PACKAGE, path)
    if match:
        return match[1]
    return "python" if re.match(_STANDARD, path) else ""
