"""Cut the bytes of a log into lines in constant memory, and take what stands before a message off a line."""

from __future__ import annotations

import json
import re

from envcheck.explain.decoding import Recoder, decoded
from envcheck.explain.terminal import plain
from envcheck.model.records import dataclass

LONGEST = 1 << 20  # bytes kept while waiting for the end of a line
_OVERLAP = 1024  # bytes seen again where a longer line is cut, so that no message is cut in two
_PREFIXES_PER_LINE = 8
_WORKER_LENGTH = 80

# What may stand before a message, by how it begins; `keep` stays, `worker` is remembered. Times first.
# With each a text that such a line holds near its start: looking for it is cheaper than compiling the expression.
_DATE = r"\d{4}[-/.]\d\d[-/.]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\s?(?:Z|UTC|[+-]\d\d:?\d\d)?"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_MONTH_DAY = r"(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?(?: \d{4})?"
_UNIT = r"(?P<worker>[\w.-]{1,64}) (?:kernel|[\w.@/+-]{1,64}\[\d{1,8}\]): "  # journal and syslog: host unit[pid]:
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
    "glog": ((":", r"(?P<keep>[IWEF])\d{4} \d\d:\d\d:(?:\d\d|\d{10})\.\d{1,9} {1,8}\d{1,20} "),),  # and absl
    "level": (
        (":2", rf"{_LEVEL}:{_DATE}:[\w.]{{1,96}}:\d{{1,6}}: "),  # JAX
        (":", rf"{_LEVEL}:[A-Za-z_][\w.]{{0,96}}:"),  # Python's logging as it comes
        ("] ", rf"{_LEVEL} \d\d-\d\d {_CLOCK} (?:\[[\w.]{{1,64}}:\d{{1,6}}\]|[\w.]{{1,64}}:\d{{1,6}}\]) "),  # vLLM
        (": ", rf"{_LEVEL} [a-z_][\w.]{{0,96}}: "),
    ),
    "letter": (
        ("   ", r"E {3,12}(?=\S)"),  # pytest
        ("level=", r"time=\S{10,40} level=\w{4,8} msg=\"?"),  # logfmt: Docker's own and Ollama's log
        (".log:", r"[\w./-]{1,96}\.log:\d{1,9}:"),  # grep -n over several files
        ("|", r"(?P<worker>[A-Za-z][\w.-]{0,63}) {0,24}\| "),  # docker compose
        ("-", rf"(?P<worker>[a-z][a-z0-9-]{{0,62}}-{_SAFE}{{5}}) [a-z][a-z0-9-]{{0,62}} "),  # stern
        ("er-", r"(?P<worker>[a-z][a-z0-9-]{0,62}-(?:master|worker|launcher)-\d{1,4}) [a-z][a-z0-9-]{0,62} "),
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
        ("] ", rf"\[[IWEF]\d{{3,4}} {_CLOCK}(?: [\w.-]{{1,64}}:\d{{1,6}})?\] "),  # PyTorch's C++ log
        ("]<", r"\[(?P<worker>\d{1,5}(?:,[\w:.-]{1,64}){1,3})\]<(?:stdout|stderr|stddiag)>:? ?"),  # mpirun --tag-output
        ("/", r"\[(?P<worker>(?:pod|container)/[\w./-]{1,128})\] "),  # kubectl logs --prefix
    ),
    "(": (
        ("pid=", r"\((?P<worker>[\w.:-]{0,64}(?: rank=\d{1,6})? ?pid=\d{1,9}(?:, ip=[\d.]{7,15})?)\) "),  # Ray, vLLM
        (") ", r"\([\w./ -]{1,64}\) (?=\(|[^ ]{1,96}[@$%#>])"),  # an environment's name before the prompt
    ),
    ">": (("> ", r">>> "), (">", r"> ?")),
    "#": (
        ("#", r"#\d{1,4} \d{1,6}\.\d{1,3} "),  # BuildKit
        ("##[", r"##\[(?:error|warning|debug|notice|group|section|command)\]"),  # GitHub Actions and Azure's
    ),
    ":": (("::", r"::(?:error|warning|notice|debug)(?: [^:\n]{1,160})?::"),),  # what asks GitHub Actions for a note
    "|": (("- ", rf"\| {_LEVEL} {{0,8}}\| [\w.<>:-]{{1,128}} - "),),  # loguru, behind its time
    "-": (
        (" - ", rf"- [\w.-]{{1,96}} - {_LEVEL} - "),  # the usual format of Python's logging, behind its time
        ("> ", r"-{2,6}> \d{1,5} "),  # IPython's arrow at a line of a traceback
    ),
    "<": ((">", r"<\d{1,3}>(?:1 )?"),),  # syslog over the wire
    "$": (("$ ", r"\$ "),),
}


@dataclass(frozen=True)
class Line:
    """One line, or one state of a line that was overwritten."""

    bare: str  # readable, with everything before the message
    text: str  # the message
    worker: str  # the rank, pod or container that its prefixes named; "" for none


class Cutter:
    """Collect blocks of any size and encoding; give out chunks that end where a line ends."""

    def __init__(self) -> None:
        self._recoder = Recoder()
        self._rest = bytearray()

    def feed(self, block: bytes) -> bytes:
        """Take a block and return the whole lines known by now, made plain."""
        text = self._recoder.feed(block)
        cut = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if cut:
            chunk, self._rest = bytes(self._rest) + text[:cut], bytearray(text[cut:])
            return plain(chunk)
        self._rest += text
        if len(self._rest) < LONGEST:
            return b""
        chunk, self._rest = bytes(self._rest), self._rest[-_OVERLAP:]
        return plain(chunk)

    def finish(self) -> bytes:
        """Return the last line, when nothing ends it."""
        chunk, self._rest = bytes(self._rest) + self._recoder.finish(), bytearray()
        return plain(chunk)


def clean_line(raw: bytes, encoding: str = "") -> Line:
    """Decode a line and take timestamps, log prefixes, quote marks and prompts off it, outermost first."""
    bare = decoded(raw, encoding).strip("\ufeff \t\r\n\f\v")
    text, workers = _unwrapped(bare), []
    for _ in range(_PREFIXES_PER_LINE):
        found = _prefix(text)
        if found is None:
            break
        groups = found.groupdict()
        if groups.get("worker"):
            workers.append(groups["worker"])
        rest = text[found.end() :].lstrip()
        text = f"{groups['keep']} {rest}" if groups.get("keep") else _unwrapped(rest)
    return Line(bare, text, "/".join(workers)[:_WORKER_LENGTH])


def _prefix(text: str) -> re.Match[str] | None:
    near = text[:_NEAR]
    for sign, pattern in _PREFIXES.get(_beginning(near), ()):
        if sign in near:
            found = re.match(pattern, text)
            if found:
                return found
    return None


def _beginning(text: str) -> str:
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


def _unwrapped(text: str) -> str:
    """Take a message out of the JSON object that Docker's log files and structured loggers put around it."""
    if not (text.startswith("{") and text.endswith("}")):
        return text
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for key in ("log", "message", "msg", "MESSAGE", "textPayload"):
        message = document.get(key) if isinstance(document, dict) else None
        if isinstance(message, str) and message.strip():
            return message.strip()
    return text
