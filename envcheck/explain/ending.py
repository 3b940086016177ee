"""How a log ends: what failed last, what the program went on after, what somebody typed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from envcheck.explain.resolver import Clash, read_clash
from envcheck.explain.statements import Raised, Stated, read_advice, read_raised, read_stated
from envcheck.explain.text import clean_line, match_prompt
from envcheck.model import dataclass, replace

_GOING_ON = 3  # lines after a remark by which a program shows that it went on
TAIL_BYTES = 4096  # at the end of a log, looked at for what a program achieved
_WORK = (
    r"\d(?:it/s|s/it|ms/step|us/sample)|\bepoch\W*\d|(?:\b|_)loss\W{1,3}\d|[Ss]ucceeded|Successfully"
    r" installed|\b(?:Installed|Audited) \d+ packages? in \d"
    r"|^(?!.*\b[1-9]\d{0,5} failed).*\b(?:passed|PASSED)\b"
    r"|\" 200\b|\| 200 \||100%(?:\||\x20(?!/))|completed in|finished (?:in|with)|tokens/s|tokens"
    r" per second"
    r"|Application startup complete|\b[Tt]raining (?:has )?(?:finished|completed?|done)\b"
    r"|^No broken requirements found|\bBuilt target\b|\bSuccessfully built\b|\bDONE \d"
    r"|\b(?:accuracy|bleu|f1|rouge\w{0,3}|score)['\"]?\W{1,3}\d|^<(?:PIL|IPython)\.\w"
)
# What says of itself that it is done: the rest of the work above may have been cut off.
_DONE = (
    r"(?i)succe|\b(?:installed|audited) \d|passed|complete|finished|100%|\bdone\b"
    r"|Built target|^No broken requirements found"
)
_FAILING = (
    r"(?i)error|\bfail|exception|traceback|\babort|\bcannot\b|\bcan't\b|\bunable\b|\bkilled\b"
    r"|core dumped|segmentation|\bfatal\b|panic|not found|no module|refused|denied|could ?n.t"
    r"|could not|\bmissing\b|not supported|unsupported"
)
# What ends a run that failed, in whatever words; a count of 0 is none.
_FAILED = (
    r"^\W*(?:[\w./\\ -]{1,60}: )?(?i:fatal|error|failed)\b(?!\W{0,3}0\b)|\w(?:Error|Exception): "
    r"|(?i:\bcore dumped|\bsegmentation fault|\bnon-zero exit)|^(?:Killed|Aborted)\b"
    r"|(?i:\bexit(?:ed)?(?: with)?(?: code| status)?:? [1-9])"
)
# of an installer, about a program that it started, which said itself why it failed
_RELAYS = (
    r"subprocess|[Ff]ail(?:ed|ure)? (?:to )?build|did not run successfully|exit code: \d"
    r"|failed-wheel-build|metadata-generation-failed|^\W*note: "
)
_END = 6  # lines at the end of a log, in which a failure is its last word
_QUIET = 9  # lines of output without a failing word by which a program shows that it went on


@dataclass
class Ending:
    """How a log ends: whether its program went on after a line."""

    lines: int = 0  # 0: not known, or the program failed
    last_prompt: int = 0  # the last line in which somebody types
    last_work: int = 0  # the last line that shows progress or success
    quiet_from: int = 0  # the first line behind the last failing word; 0 where few lines follow it
    raised: Raised | None = None  # the exception of the last traceback
    clash: Clash | None = None  # of a resolver that found nothing
    achieved: str = ""  # the line by which a log without a failing line at its end says it is done
    failed: str = ""  # the line in which the end says that something failed
    failed_line: int = 0
    file: str = "-"
    tail: tuple[str, ...] = ()  # the last lines, for `stated` and `advice`
    end: int = 0  # the number of the last of them

    @property
    def stated(self) -> Stated | None:
        """Return a sentence of the end that names what is wrong."""
        return _read_stated(self.tail, self.end)

    @property
    def advice(self) -> str:
        """Return the command that the tool itself proposes; "" for none."""
        return read_advice(self.tail)

    @property
    def failure(self) -> Ending:
        """Return what is said of the failure alone, where the program is known to have failed."""
        return replace(self, lines=0, last_prompt=0, last_work=0, quiet_from=0)

    @property
    def says_why(self) -> bool:
        """Return whether last words were read."""
        return bool(self.raised or self.clash or self.stated)

    def goes_on_after(self, line: int) -> bool:
        """Return whether the program went on for some lines, or achieved something, since."""
        return self.last_prompt < line and (
            self.lines - line >= _GOING_ON or self.succeeds_after(line)
        )

    def is_quiet_after(self, line: int) -> bool:
        """Tell whether the program ran on for many lines after a line, and nothing failed then."""
        return self.last_prompt < line < self.quiet_from

    def succeeds_after(self, line: int) -> bool:
        """Return whether something was achieved after a line."""
        return self.last_prompt <= line < self.last_work


@lru_cache(maxsize=2)
def _read_stated(tail: tuple[str, ...], end: int) -> Stated | None:
    return read_stated(tail, end)


def read_ending(start: bytes, end: bytes, lines: int, file: str) -> Ending:
    """Find the last typed line, the last that shows work, and the last failure of a log.

    `start` is the log, or b"" where it is long; `end` its last TAIL_BYTES.
    """
    texts = _split_lines(start.removesuffix(b"\n"))
    tail = _split_lines(end.rstrip(b"\n"))
    prompts = [number for number, text in enumerate(texts, 1) if match_prompt(text)]
    tail_start = lines - len(tail) + 1
    works = [number for number, text in enumerate(tail, tail_start) if re.search(_WORK, text)]
    failing = [number for number, text in enumerate(tail, 1) if re.search(_FAILING, text)]
    quiet = tail[max(failing, default=0) :]
    achieved = _read_shown(tail[works[-1] - tail_start]) if works else ""
    failed, failed_line = "", 0
    begin = max(_find_end(tail, tail_start), max(works, default=0))
    for number, text in enumerate(tail, tail_start):
        if number > begin and re.search(_FAILED, text) and not re.search(_RELAYS, text):
            failed, failed_line = _read_shown(text)[:500], number
    is_quiet = sum(bool(re.match(r"\s*(?!File \")\S", text)) for text in quiet) >= _QUIET
    return Ending(
        lines,
        max(prompts, default=0),
        max(works, default=0),
        lines - len(quiet) + 1 if is_quiet else 0,
        read_raised(tail if len(texts) < len(tail) else texts, lines),
        read_clash(tail),
        achieved if not failing and re.search(_DONE, achieved) else "",
        failed,
        failed_line,
        file,
        tuple(tail) if lines else (),
        lines,
    )


def _read_shown(line: str) -> str:
    """Return the last state of a line that a progress bar rewrote, as a terminal shows it."""
    return clean_line(line.rstrip("\r").rpartition("\r")[2].encode()).text


def _find_end(tail: Sequence[str], start: int) -> int:
    """Return the line behind which the last words stand, those of a build that pip relays first."""
    relayed = [number for number, text in enumerate(tail) if "[end of output]" in text]
    return start + (relayed[-1] if relayed else len(tail)) - _END - 1


def _split_lines(text: bytes) -> list[str]:
    return text.decode("utf-8", "replace").split("\n")
