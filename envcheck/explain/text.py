"""Turn the bytes of a log into clean lines in constant memory."""

from __future__ import annotations

import codecs
import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from envcheck.host.documents import parse_object
from envcheck.model import dataclass

_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"))
_SAMPLE = 4096
# What Windows and its consoles write: Western, Eastern, Turkish, Cyrillic, Chinese, Japanese,
# Korean.
_LOCAL = ("cp1252", "cp850", "cp1250", "cp1254", "cp1251", "cp866", "gbk", "big5", "cp932", "cp949")
# Plain text inside UTF-16: a second program appended to what PowerShell had begun. In UTF-16 a run
# this long would be twenty rare characters in a row.
_EIGHT_BIT = rb"([\t\n\r\x20-\x7e]{40,})(?!\0)"


class Recoder:
    """Turn blocks of UTF-8, UTF-16, 8-bit text or a mixture into 8-bit text.

    Zeros, which a crash leaves in a log and UTF-16 puts between letters, are dropped.
    """

    def __init__(self) -> None:
        self._wide: codecs.IncrementalDecoder | None = None
        self._head: bytes | None = b""

    def feed(self, block: bytes) -> bytes:
        """Recode a block; what cannot be recoded yet is kept for the next one."""
        if self._head is not None:
            block = self._head + block
            if len(block) < 4:
                self._head = block
                return b""
            block = self._start(block)
        if self._wide is not None:
            return b"".join(_recode(self._wide, block))
        return block.replace(b"\0", b"") if b"\0" in block else block

    def finish(self) -> bytes:
        """Return what was kept."""
        rest, self._head = self._head or b"", None
        return rest.replace(b"\0", b"")

    def _start(self, block: bytes) -> bytes:
        self._head = None
        for mark, name in (*_MARKS, (b"", _guess_encoding(block[:_SAMPLE]))):
            if block.startswith(mark):
                if name.startswith("utf-16"):
                    self._wide = codecs.getincrementaldecoder(name)("replace")
                return block[len(mark) :]
        return block


def encode_fragment(text: str) -> dict[bytes, str]:
    """Map the ways in which a text may stand in a log to their encodings.

    "" is the usual one, UTF-8.
    """
    encodings = {text.encode(): ""}
    if text.isascii():
        return encodings  # it is written alike in all of them
    for encoding in _LOCAL:
        with contextlib.suppress(UnicodeEncodeError):
            encodings.setdefault(text.encode(encoding), encoding)
    return encodings


def decode_line(raw: bytes, encoding: str) -> str:
    """Decode a line of UTF-8, or of a known line's encoding; 8-bit text else."""
    if encoding:
        return raw.decode(encoding, "replace")
    text = raw.decode("utf-8", "replace")
    replacements = text.count("\ufffd")
    if (
        replacements
        and replacements >= sum(character > "\x7f" for character in text) - replacements
    ):
        # an 8-bit encoding, not UTF-8 that was cut somewhere
        return raw.decode("cp1252", "replace")
    return text


def _recode(decoder: codecs.IncrementalDecoder, block: bytes) -> Iterator[bytes]:
    for number, part in enumerate(re.split(_EIGHT_BIT, block)):
        if number % 2:
            decoder.reset()
            yield part
        else:
            yield decoder.decode(part).encode("utf-8", "replace").replace(b"\0", b"")


def _guess_encoding(sample: bytes) -> str:
    """Name the UTF-16 that text of Western letters without a mark would be.

    Return "" for text that begins with 8 bits.
    """
    pairs = len(sample) // 2
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if odd > pairs * 0.4 and even < pairs * 0.05 and not sample[1]:
        return "utf-16-le"
    if even > pairs * 0.4 and odd < pairs * 0.05 and not sample[0]:
        return "utf-16-be"
    return ""


_CURSOR_RIGHT = rb"\x1b\[\d{0,4}C"  # Windows' console writes it for spaces ...
_CURSOR_TO = rb"\x1b\[\d{0,4}(?:;\d{0,4})?[Hf]"  # ... and this for a new line
_ESCAPES = (
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, erasing, cursor
    # OSC, DCS ...: titles, links; one without its end is text
    rb"|[\]PX^_][^\x07\x1b\n]{0,2048}(?:\x07|\x1b\\)"
    rb"|[ -/]{1,4}[0-~]"  # character sets
    rb"|[0-~])?"
)
_WRITTEN_ESCAPES = rb"(?:\^\[|\\(?:u001b|x1b|033|e))\[[0-9;]{0,16}m"  # cat -v, JSON, repr
# A web page swallowed the escape characters: what is left of the usual colours.
_LOST_ESCAPES = rb"\[(?:[01]|[0-9]{1,2};[0-9;]{1,12}|[34][0-79]|9[0-7]|22)m"
# copied as source
_ENTITIES = rb"&(?:amp;){0,3}(lt|gt|quot|apos|nbsp|#0{0,3}39|#[xX]27|#0{0,3}34|amp);"
_ENTITY_BYTES = {b"lt": b"<", b"gt": b">", b"quot": b'"', b"nbsp": b" ", b"amp": b"&"}
_OVERSTRUCK = rb"([^\n])\x08\1|_\x08"  # bold and underlined on a printer


def strip_markup(chunk: bytes) -> bytes:
    """Return whole lines without escape sequences, typographic quotes and hard spaces.

    Backspaces become a carriage return: both separate the states of one progress bar.
    """
    for rare, sign, undo in _UNDO:
        if rare in chunk and sign in chunk:
            chunk = undo(chunk)
    return chunk


def _remove_escapes(chunk: bytes) -> bytes:
    return re.sub(_ESCAPES, b"", re.sub(_CURSOR_TO, b"\r", re.sub(_CURSOR_RIGHT, b" ", chunk)))


def _remove_backspaces(chunk: bytes) -> bytes:
    return re.sub(_OVERSTRUCK, rb"\1", chunk).replace(b"\x08", b"\r")


def _replace_quotes(chunk: bytes) -> bytes:
    for curly, straight in ((b"\x98", b"'"), (b"\x99", b"'"), (b"\x9c", b'"'), (b"\x9d", b'"')):
        chunk = chunk.replace(b"\xe2\x80" + curly, straight)
    return chunk


def _replace_entities(chunk: bytes) -> bytes:
    return re.sub(
        _ENTITIES,
        lambda match: _ENTITY_BYTES.get(
            match.group(1), b'"' if match.group(1).endswith(b"34") else b"'"
        ),
        chunk,
    )


def _remove_written_escapes(chunk: bytes) -> bytes:
    return re.sub(_WRITTEN_ESCAPES, b"", chunk)


# (a rare byte, looked for first because that is fifty times faster, the sign, what undoes it)
_UNDO: tuple[tuple[bytes, bytes, Callable[[bytes], bytes]], ...] = (
    (b"\x1b", b"\x1b", _remove_escapes),
    (b"^", b"^[[", _remove_written_escapes),
    (b"\\", b"\\u001b[", _remove_written_escapes),
    (b"\\", b"\\x1b[", _remove_written_escapes),
    (b"\\", b"\\033[", _remove_written_escapes),
    (b"[", b"[0m", lambda chunk: re.sub(_LOST_ESCAPES, b"", chunk)),
    (b"&", b"&", _replace_entities),
    (b"\x08", b"\x08", _remove_backspaces),
    (b"\x80", b"\xe2\x80", _replace_quotes),  # 0xE2 begins every block of a progress bar
    (b"\xc2", b"\xc2\xa0", lambda chunk: chunk.replace(b"\xc2\xa0", b" ")),
)


LONGEST = 1 << 20  # bytes kept while waiting for the end of a line
_OVERLAP = 1024  # bytes seen again where a longer line is cut, so that no message is cut in two
_PREFIXES_PER_LINE = 8
_WORKER_LENGTH = 80

# What may stand before a message, by how it begins; `keep` stays, `worker` is remembered. Times
# first. With each a text that such a line holds near its start: looking for it is cheaper than
# compiling the expression.
_DATE = r"\d{4}[-/.]\d\d[-/.]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\s?(?:Z|UTC|[+-]\d\d:?\d\d)?"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_MONTH_DAY = r"(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?(?: \d{4})?"
# journal and syslog: host unit[pid]:
_UNIT = r"(?P<worker>[\w.-]{1,64}) (?:kernel|[\w.@/+-]{1,64}\[\d{1,8}\]): "
_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"  # the letters of generated names in Kubernetes
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = frozenset((*_MONTHS, "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"))
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|SUCCESS|WARN|WARNING|ERROR|CRITICAL|FATAL)"
_LEVELS = frozenset(("TRA", "DEB", "INF", "NOT", "SUC", "WAR", "ERR", "CRI", "FAT"))
_NEAR = 240  # characters that count as near the start
_PREFIXES = {
    "digit": (
        (":", rf"{_DATE}:? (?:(?:stdout|stderr) [FP] |{_UNIT})?"),  # containerd's stream and flag
        (":", rf"{_CLOCK} "),
        (": ", r"(?P<worker>\d{1,5}): "),  # srun --label
        (".", r"\d{1,5}\.\d{3} (?=\S)"),  # what BuildKit repeats of a failed step
        ("/", rf"\d\d/\d\d/(?:\d\d|\d{{4}})[ -]{_CLOCK} "),
    ),
    # and absl
    "glog": ((":", r"(?P<keep>[IWEF])\d{4} \d\d:\d\d:(?:\d\d|\d{10})\.\d{1,9} {1,8}\d{1,20} "),),
    "level": (
        (":2", rf"{_LEVEL}:{_DATE}:[\w.]{{1,96}}:\d{{1,6}}: "),  # JAX
        (":", rf"{_LEVEL}:[A-Za-z_][\w.]{{0,96}}:"),  # Python's logging as it comes
        (
            "] ",
            (
                rf"{_LEVEL} \d\d-\d\d {_CLOCK}"
                r" (?:\[[\w.]{1,64}:\d{1,6}\]|[\w.]{1,64}:\d{1,6}\]) "
            ),
        ),  # vLLM
        (": ", rf"{_LEVEL} [a-z_][\w.]{{0,96}}: "),
    ),
    "letter": (
        ("   ", r"E {3,12}(?=\S)"),  # pytest
        # logfmt: Docker's own and Ollama's log
        ("level=", r"time=\S{10,40} level=\w{4,8} msg=\"?"),
        (".log:", r"[\w./-]{1,96}\.log:\d{1,9}:"),  # grep -n over several files
        ("|", r"(?P<worker>[A-Za-z][\w.-]{0,63}) {0,24}\| "),  # docker compose
        ("-", rf"(?P<worker>[a-z][a-z0-9-]{{0,62}}-{_SAFE}{{5}}) [a-z][a-z0-9-]{{0,62}} "),  # stern
        (
            "er-",
            (
                r"(?P<worker>[a-z][a-z0-9-]{0,62}-(?:master|worker|launcher)-\d{1,4})"
                r" [a-z][a-z0-9-]{0,62} "
            ),
        ),
        ("@", r"[A-Za-z_][\w.-]{0,31}@[\w.-]{1,64}[: ][^$#%>]{0,128}[$#%] "),  # a shell's prompt
        (":\\", r"(?:PS )?[A-Z]:\\[^>]{0,128}> ?"),
        (
            "  :",
            r"(?:kern|user|daemon) {0,4}:(?:emerg|alert|crit|err|warn|notice|info|debug) {0,4}: ",
        ),  # dmesg --decode
    ),
    "day": ((":", rf"{_MONTH_DAY} (?:{_UNIT})?"),),
    "[": (
        (":", rf"\[(?:{_DATE}|{_CLOCK}|{_MONTH_DAY})\]:? ?"),
        (".", r"\[ {0,8}\d{1,8}\.\d{1,6}\] "),  # dmesg
        ("]:", r"\[(?P<worker>[A-Za-z_]{0,32}\d{1,6})\]: ?"),  # torchrun: [rank0]: [default0]: [0]:
        ("/", rf"\[\d\d/\d\d/(?:\d\d|\d{{4}})[ -]{_CLOCK}\] "),  # rich, TensorRT
        ("]", rf"\[{_LEVEL}\] ?"),
        (".py:", r"\[[\w./-]{1,96}\.py:\d{1,6}(?::\w{1,64})?\] ?"),  # DeepSpeed
        # PyTorch's C++ log
        ("] ", rf"\[[IWEF]\d{{3,4}} {_CLOCK}(?: [\w.-]{{1,64}}:\d{{1,6}})?\] "),
        # mpirun --tag-output
        ("]<", r"\[(?P<worker>\d{1,5}(?:,[\w:.-]{1,64}){1,3})\]<(?:stdout|stderr|stddiag)>:? ?"),
        ("/", r"\[(?P<worker>(?:pod|container)/[\w./-]{1,128})\] "),  # kubectl logs --prefix
    ),
    "(": (
        (
            "pid=",
            r"\((?P<worker>[\w.:-]{0,64}(?: rank=\d{1,6})? ?pid=\d{1,9}(?:, ip=[\d.]{7,15})?)\) ",
        ),  # Ray, vLLM
        # an environment's name before the prompt
        (") ", r"\([\w./ -]{1,64}\) (?=\(|[^ ]{1,96}[@$%#>])"),
    ),
    ">": (("> ", r">>> "), (">", r"> ?")),
    "#": (
        ("#", r"#\d{1,4} \d{1,6}\.\d{1,3} "),  # BuildKit
        # GitHub Actions and Azure's
        ("##[", r"##\[(?:error|warning|debug|notice|group|section|command)\]"),
    ),
    # what asks GitHub Actions for a note
    ":": (("::", r"::(?:error|warning|notice|debug)(?: [^:\n]{1,160})?::"),),
    "|": (("- ", rf"\| {_LEVEL} {{0,8}}\| [\w.<>:-]{{1,128}} - "),),  # loguru, behind its time
    "-": (
        # the usual format of Python's logging, behind its time
        (" - ", rf"- [\w.-]{{1,96}} - {_LEVEL} - "),
        ("> ", r"-{2,6}> \d{1,5} "),  # IPython's arrow at a line of a traceback
    ),
    "<": ((">", r"<\d{1,3}>(?:1 )?"),),  # syslog over the wire
    "$": (("$ ", r"\$ "),),
}


@dataclass
class Line:
    """One line, or one state of a line that was overwritten."""

    bare: str  # readable, with everything before the message
    text: str  # the message
    worker: str  # the rank, pod or container that its prefixes named; "" for none
    is_remark: bool = False  # a logger gave it out as information


class Cutter:
    """Collect blocks of any size and encoding; give out chunks that end where a line ends."""

    def __init__(self) -> None:
        self._recoder = Recoder()
        self._remainder = bytearray()

    def feed(self, block: bytes) -> bytes:
        """Take a block and return the whole lines known by now, made plain."""
        text = self._recoder.feed(block)
        cut = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if cut:
            chunk, self._remainder = bytes(self._remainder) + text[:cut], bytearray(text[cut:])
            return strip_markup(chunk)
        self._remainder += text
        if len(self._remainder) < LONGEST:
            return b""
        chunk, self._remainder = bytes(self._remainder), self._remainder[-_OVERLAP:]
        return strip_markup(chunk)

    def finish(self) -> bytes:
        """Return the last line, when nothing ends it."""
        chunk, self._remainder = bytes(self._remainder) + self._recoder.finish(), bytearray()
        return strip_markup(chunk)


# as PDM and pipenv name the exception that ended them
_BRACKETED = r"^\[(\w+(?:Error|Exception))\]: (?=\S)"


def clean_line(raw: bytes, encoding: str = "") -> Line:
    """Decode a line without timestamps, log prefixes, quote marks and prompts."""
    bare = decode_line(raw, encoding).strip("\ufeff \t\r\n\f\v")
    named = re.match(_BRACKETED, bare)
    if named:
        bare = f"{named[1]}: {bare[named.end() :]}"
    text, workers, level = _unwrap_json(bare), [], ""
    for _ in range(_PREFIXES_PER_LINE):
        match = _match_prefix(text)
        if match is None:
            break
        groups = match.groupdict()
        level = level or ("info" if is_remark(match.group()) else "")
        if groups.get("worker"):
            workers.append(groups["worker"])
        remainder = text[match.end() :].lstrip()
        text = f"{groups['keep']} {remainder}" if groups.get("keep") else _unwrap_json(remainder)
    said_as_remark = bool(level) and not is_exception(text)
    return Line(bare, text, "/".join(workers)[:_WORKER_LENGTH], said_as_remark)


def _match_prefix(text: str) -> re.Match[str] | None:
    head = text[:_NEAR]
    for sign, pattern in _PREFIXES.get(_classify_beginning(head), ()):
        if sign in head:
            match = re.match(pattern, text)
            if match:
                return match
    return None


def _classify_beginning(text: str) -> str:
    first = text[:1]
    if first.isdigit():
        return "digit"
    if text[:3] in _DAYS:
        return "day"
    if text[:3] in _LEVELS:
        return "level"
    if first.isalpha():
        return "glog" if first in "IWEF" and text[1:5].isdigit() else "letter"
    return first


def _unwrap_json(text: str) -> str:
    """Take a message out of the JSON object of Docker and structured loggers."""
    if not (text.startswith("{") and text.endswith("}")):
        return text
    document = parse_object(text)
    for key in ("log", "message", "msg", "MESSAGE", "textPayload"):
        message = document.get(key)
        if isinstance(message, str) and message.strip():
            return message.strip()
    return text


# bytes of a log that are looked at again: who pastes from a terminal pastes no more
KEPT_BYTES = 256 << 10
# what terminals and mail programs break at, whatever else the log holds
_WIDTHS = (60, 72, 79, 80, 100, 120, 132)
_NARROWEST, _WIDEST = 40, 400
_SCREEN = 72  # no terminal is narrower: a table's lines of one width may be
_LINES = 12  # of one message
# The end of a table's row or rule: such lines are all of one width, and none of them goes on in the
# next.
_BORDERS = (
    "|", "-+", "=+", "--", "==", "__", "##", "**",
    "\u2502", "\u2503", "\u2551", "\u2524", "\u256e", "\u256f", "\u2518",
)  # fmt: skip

MARKER = "\x01"  # no message has it


@dataclass
class WrappedLine:
    """Lines that may be one line, put together."""

    number: int  # of the first of them
    pieces: tuple[str, ...]
    text: str
    is_certain: bool  # the log's widest lines are all this wide: they end at an edge

    @property
    def joined_with_marker(self) -> str:
        """Put a mark where the pieces meet: what matches this as well does not need them."""
        return MARKER.join(self.pieces)


def join_wrapped_lines(chunk: bytes) -> Iterator[WrappedLine]:
    """List the lines of a log that may go on in the next one, each with what follows it."""
    lines = [
        line.rstrip("\r").rpartition("\r")[2]
        for line in chunk.decode("utf-8", "replace").split("\n")
    ]
    widths = Counter(
        map(len, {re.sub(r"\d", "0", line) for line in lines})
    )  # a line repeated with other numbers is one
    widest = max(widths)
    edge = widest if _SCREEN <= widest <= _WIDEST and widths[widest] > 1 else 0
    frequent = {
        width for width, count in widths.items() if count > 2 and _NARROWEST <= width <= _WIDEST
    }
    usual_widths = {
        width
        for width in (*_WIDTHS, *frequent)
        if sum(map(width.__lt__, map(len, lines))) <= max(2, len(lines) // 5)
    }
    yield from _join_lines(lines, [len(line) in {*usual_widths, edge} for line in lines], "", edge)
    wraps = [
        _is_wrapped(line, next_line, {*usual_widths, min(widest, _WIDEST)})
        for line, next_line in pairwise(lines)
    ]
    yield from _join_lines(lines, [*wraps, False], " ", 0)


_LONGEST_SPREAD = 1024  # characters
_SPREAD = r"(?<=\S)[ \t]{2,}(?=\S)|(?<=\w)[ \t]+(?=:\s)"


def list_spread_lines(chunk: bytes) -> Iterator[WrappedLine]:
    """List the lines that hold more blanks than their message: between words, or before a colon."""
    lines = chunk.decode("utf-8", "replace").split("\n")
    for number, line in enumerate(lines, 1):
        is_spread = ("  " in line or " :" in line) and len(line) < _LONGEST_SPREAD
        text = re.sub(_SPREAD, _narrow, line) if is_spread else line
        if text != line:
            yield WrappedLine(number, (line,), text, is_certain=True)


def _narrow(match: re.Match[str]) -> str:
    """Keep one blank between words, and none before a colon."""
    return "" if match.string[match.end()] == ":" else " "


def _is_wrapped(line: str, next_line: str, widths: set[int]) -> bool:
    """Return whether a line ends where the next word would not have fitted."""
    word = len(next_line.split(None, 1)[0]) if next_line.strip() else 0
    return (
        bool(word)
        and len(line) >= _NARROWEST
        and any(len(line) <= width < len(line) + 1 + word for width in widths)
    )


def _join_lines(
    lines: Sequence[str], continues: Sequence[bool], separator: str, edge: int
) -> Iterator[WrappedLine]:
    position = 0
    while position < len(lines) - 1:
        last = position
        while continues[last] and last - position < _LINES and _may_follow(lines[last : last + 2]):
            last += 1
        if last > position:
            pieces = tuple(
                line.strip() if separator else line for line in lines[position : last + 1]
            )
            yield WrappedLine(
                position + 1,
                pieces,
                separator.join(pieces),
                is_certain=bool(edge) and len(pieces[0]) == edge,
            )
        position = last + 1 if last > position else position + 1


def _may_follow(lines: Sequence[str]) -> bool:
    """Return whether the second of two lines may be the rest of the first.

    No timestamp or rank begins it.
    """
    if len(lines) < 2 or not lines[1].strip() or lines[0].endswith(_BORDERS):
        return False
    line = clean_line(lines[1].encode())
    return line.text == line.bare


# What a line is within a log: a claim, a remark, or only shown, as source or a value.


_REMARK = r"\b(?:TRACE|DEBUG|INFO|NOTICE|SUCCESS)\b"
_EXCEPTION = (
    r"\W*(?:Traceback\b|thread '[^']*' panicked|(?:\w[\w.]*)?(?:Error|Exception|Interrupt)\b)"
)
# Source in a traceback or under a compiler's warning, a value of a printed dict, a docstring.
_SHOWN = (
    r"raise \w|#\s*define\b|(?:warnings|log|logger|logging)\.\w+\(|\d+ \| "
    r"|(?:if|elif|for|while|with) .*:$|[\[({]*'\w+': |\w+(?:Error|Exception): (?:if|when|raised)\b"
)
_LITERAL = r"[rRbBfF]?\"[^\"]+\"[,)]*$"
_FRAME = rb'File "[^"<\n][^"\n]{0,400}", line \d+, in '  # "<stdin>" shows no source


def is_remark(prefix: str) -> bool:
    """Say whether a logger's prefix marks what follows as information."""
    return re.search(_REMARK, prefix) is not None


def is_exception(text: str) -> bool:
    """Say whether a line names an exception, which a relay may log as information."""
    return re.match(_EXCEPTION, text) is not None


def is_shown(text: str, line_before: bytes) -> bool:
    """Say whether a line is source that a traceback or a compiler shows, or a value of a dict."""
    if re.match(_SHOWN, text):
        return True
    if re.match(_LITERAL, text) and line_before.rstrip().endswith((b"(", b'"', b",")):
        return True  # one of the strings of a call
    return re.search(_FRAME, line_before) is not None and not is_exception(text)


# What somebody typed into a shell, Python or a notebook, and what was answered.


_PYTHON = r"\s*(?:>>> |In \[\d+\]: )"
_UNIX = r"\s*(?:\([\w.-]+\) ?)?(?:\[?[\w.-]+@[\w.-]+[^#$%>]{0,80})?[$#%] "
_OTHER = r"(?:\([\w.-]+\) ?)?(?:[A-Z]:\\[^>]{0,80}> ?|PS [^>]{0,80}> )|julia> "
_PROMPT = rf"(?:{_PYTHON}|{_UNIX}|{_OTHER})(?P<asked>\S.*)$"
_ANY_PROMPT = rf"(?:{_PYTHON}|\s*>>>\s*$|{_UNIX}|{_OTHER})"
# a prompt holds one: looking for them is cheaper than the expression
_PROMPT_MARKS = (">", "In [", "$ ", "# ", "% ")
# Asked without a prompt: a line of a notebook or of a script that prints one thing.
_BARE = (
    r"\s*(?:print\()?(?P<asked>(?:torch|tf|tensorflow|jax)\.[\w.]+(?:\([\w'\","
    r" =]*\))?\)?|os\.environ\S+)\s*$"
)
_BARE_MARKS = ("torch.", "tf.", "tensorflow.", "jax.", "os.environ")


def list_answers(chunk: bytes) -> Iterator[WrappedLine]:
    """List what was asked in a log, each with its answer: "torch.cuda.is_available() -> False".

    Python says nothing where the answer is None, so a prompt that follows a prompt of Python's is
    that answer.
    """
    lines = [line.rstrip("\r") for line in chunk.decode("utf-8", "replace").split("\n")]
    for number, (line, next_line) in enumerate(pairwise([*lines, ""]), 1):
        match = match_prompt(line) or _match_marked(_BARE, _BARE_MARKS, line)
        if not match:
            continue
        question, answer = match["asked"].strip(), next_line.strip()
        # python -c "...; print(A); print(B)": each answer has a line of its own
        printed = re.findall(r"\bprint\(([^;]*)\)(?=;|[\"']?$)", question)
        if len(printed) > 1:
            for place, asked in enumerate(printed):
                shown = "".join(lines[number + place : number + place + 1])
                yield WrappedLine(
                    number, (line, shown), f"{asked} -> {shown.strip()}", is_certain=True
                )
            continue
        if re.match(_ANY_PROMPT, next_line):
            answer = "None" if re.match(_PYTHON, line) else ""
        yield WrappedLine(number, (line, next_line), f"{question} -> {answer}", is_certain=True)


def match_prompt(line: str) -> re.Match[str] | None:
    """Match a line in which somebody types, behind a prompt of a shell or of Python."""
    return _match_marked(_PROMPT, _PROMPT_MARKS, line)


def _match_marked(pattern: str, marks: tuple[str, ...], line: str) -> re.Match[str] | None:
    return re.match(pattern, line) if any(mark in line for mark in marks) else None
