"""What a program died of: the exception of its traceback, and what its last sentences state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from envcheck.explain.signatures import Sentence, load_sentences
from envcheck.explain.text import clean_line, is_exception, is_shown
from envcheck.frameworks import identities
from envcheck.model import dataclass, replace
from envcheck.model.text import find_group

_EXCEPTION = (
    r"((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout|NotFound))(?:: (.*))?$"
)
# What a launcher raises for the program that it started, whose own traceback says why.
_LAUNCHERS = ("ChildFailedError", "ProcessRaisedException", "CalledProcessError", "RayTaskError")
# What a process says whose peer is gone: another one failed first.
PEER_GONE = (
    r"(?i)connection (?:was )?(?:closed|reset|aborted|lost)(?: by (?:remote )?peer)?|broken pipe"
    r"|remote process (?:has )?exited|peer .{0,40}\b(?:gone|terminated|closed)"
    r"|watchdog caught collective|process group .{0,40}\b(?:aborted|destroyed)"
)
_FRAME = r"\s*File \"([^\"]+)\", line \d+, in "
# behind the indented lines of a frame: queue.Empty, struct.error, Refused; not a launcher's table
_ANY_EXCEPTION = r"((?:[A-Za-z_]\w*\.)+\w{2,80}|[A-Z]\w{2,80})(?:: (.*))?$"
_PACKAGE = r".*(?:site|dist)-packages[/\\]([A-Za-z]\w*)"
_STANDARD = r".*[/\\](?:lib[/\\]python3\.\d+|Lib)[/\\]"
_LINES = 400  # at the end of a log
_MESSAGE_LINES = 8  # of one exception


@dataclass
class Raised:
    """An exception that ended a program."""

    kind: str  # FileNotFoundError, without its module
    message: str
    number: int  # of its line in the log, 1-based
    owners: tuple[str, ...] = ()  # packages of the frames, the outermost first; "" is the user's
    deepest: str = ""  # the file that raised it
    shown: str = ""  # of a SyntaxError: the source line, up to where its mark points
    is_stated: bool = False  # code raises it in these words: it is no accident of a call

    @property
    def text(self) -> str:
        """Return the line as Python writes it."""
        return f"{self.kind}: {self.message}" if self.message else self.kind


def read_raised(lines: Sequence[str], last: int) -> Raised | None:
    """Return the last exception behind the frames of a traceback, in lines that end at `last`.

    One that only says that another process failed or is gone counts where there is no other.
    """
    lines = lines[-_LINES:]
    texts = [clean_line(line.encode()).text for line in lines]
    gone = None
    for place in range(len(texts) - 1, -1, -1):
        raised = _read_exception(lines, texts, place)
        if raised is None:
            continue
        raised = replace(raised, number=last - len(lines) + place + 1)
        if raised.kind not in _LAUNCHERS and not re.search(PEER_GONE, raised.message):
            return raised
        gone = gone or (raised if raised.message else None)
    return gone


def _read_exception(lines: Sequence[str], texts: Sequence[str], place: int) -> Raised | None:
    """Read the exception that a line names, with the frames above it."""
    above, below = lines[:place], lines[place + 1 :]
    is_below = "".join(above[-1:]).startswith("  ")
    match = re.match(_ANY_EXCEPTION if is_below else _EXCEPTION, texts[place])
    kind = match[1].rpartition(".")[2] if match else ""
    if match is None:
        return None
    frames = _list_frames(texts, place)
    is_last = all(not line.strip() or line[0].isspace() for line in below)  # of its message
    shown = _read_shown(above) if kind == "SyntaxError" else ""
    if not (frames or shown or (is_last and not is_below)):
        return None
    owners = tuple(map(_find_owner, frames))
    deepest = "".join(frames[-1:]).replace("\\", "/")
    message = (match[2] or "").strip() or _read_message(below)
    is_stated = any(re.match(r"\s+raise\b", line) for line in above[-_RAISE:])
    return Raised(kind, message, 0, owners, deepest, shown, is_stated)


def _read_message(below: Sequence[str]) -> str:
    """Return the first sentence of a message that begins below the name of its exception."""
    indented = takewhile(lambda line: not line.strip() or line[0].isspace(), below[:_MESSAGE_LINES])
    return " ".join(" ".join(indented).split()).partition(". ")[0]


def _read_shown(lines: Sequence[str]) -> str:
    """Return the source that a SyntaxError shows above itself, up to where its mark points."""
    if len(lines) > 1 and lines[-1].strip() == "^":
        return lines[-2][: len(lines[-1].rstrip())]
    return ""


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


_RAISE = 3  # lines in which a traceback shows the statement that raised it
_ADVICE_LINES = 20  # at the end of a log
_TOOLS = r"(?:uv|poetry|pdm|pixi|pipenv|pip3?|python3? -m pip|conda|mamba|micromamba)"
# What to do in the tool's own words, the most definite first: a command in quotes, a line that is
# marked as a hint, a sentence.
_ADVICE = (
    (
        r"(?i:\b(?:run|use|using|try|via|execute|install|with|command):?) (?:it |the command )?"
        rf"[`'\"](?P<advice>{_TOOLS} [^`'\"|;&<>$]+)[`'\"]"
    ),
    r"(?m)^\W*(?i:hint|help|tip|suggestion|solution): +(?P<advice>(?!See above)\S.{8,300})$",
    (
        r"(?m)(?:^|[.!:] )(?P<advice>(?:Please|You can|You (?:need|have) to|Try|Consider"
        r"|Did you mean|To (?:fix|resolve|solve) (?:this|it))\b[^\n]{8,200}?[.!?](?=\s|$))"
    ),
    r"\w(?:Error|Exception): .*[:;,] (?P<advice>use [^\n]{4,160})",
)
# what is never repeated as advice, whoever wrote the log
_RISKY = (
    r"[|;&$]|\b(?:sudo|rm|curl|wget|chmod|chown|mkfs|dd|regardless)\b"
    r"|--(?:break|force|trusted|frozen)"
)


def read_advice(lines: Sequence[str]) -> str:
    """Return the advice that stands in a program's own last words, "" where there is none.

    Sample: "Run `poetry lock` to fix the lock file." -> poetry lock
    """
    text = "\n".join(clean_line(line.encode()).text for line in lines[-_ADVICE_LINES:])
    for pattern in _ADVICE:
        hits = (match["advice"] for match in re.finditer(pattern, text))
        found = [words for words in hits if not re.search(_RISKY, words)]
        if found:  # a second command is for where the first does not help
            return found[0 if pattern is _ADVICE[0] else -1].strip()
    return ""


# Sentences that state what is wrong.


_NAME = r"[A-Za-z][\w.-]*(?:\[[\w,-]+\])?"
_RELEASE = r"\d+(?:\.\d+)*(?:\.post\d+|(?:a|b|rc)\d+)?"
_FLOOR = rf"(?:at least |>= ?|version |v)*(?P<floor>{_RELEASE})"
_BOUND = rf"(?:[<>=!~]=|[<>]) ?{_RELEASE}"
_RANGE = rf"\(?(?P<range>{_BOUND}(?:, ?{_BOUND})*)"
_SUBJECT = (
    r"[`'\"]?(?:\b|__)(?P<what>NVIDIA driver|CUDA toolkit|CUDA driver"
    r"|(?i:compute|cuda|device with) capability"
    rf"|{_NAME})[`'\"]?"
)
_ARTICLE, _LEAST = r"(?:the |a |an )?", r"(?:at least |>= ?)v?"
_NEEDS = (
    r"\b(?:requires?|needs?|expects?|depends on|must have|(?:please |to )?install|has requirement)"
)
_OR_NEWER = r"(?:\.x)?(?: or (?:newer|later|higher|above|greater)|\+| and (?:newer|above|later))"
_IS = r"(?:is installed with version |version |== ?)"
_LESS = r"\b(?:less|lower|older|smaller) than (?:the )?(?:minimum )?(?:required )?"
_OR_OLDER = r"(?:\.x)? or (?:less|older|lower|earlier|below)"
# tokenizers>=0.21,<0.22 is required ..., but found tokenizers==0.20.3; upgrade torch to at least
# v2.6; requires PyTorch version >= 2.1; needs CUDA 12.4 or newer; numpy must be at least 1.26
_REQUIREMENTS = (
    rf"{_SUBJECT} ?{_RANGE}\)?(?: is| are)? (?:required|needed)",
    rf"(?i:upgrade|update) {_SUBJECT} to {_FLOOR}",
    rf"{_NEEDS} {_ARTICLE}{_SUBJECT} ?{_RANGE}",
    rf"{_NEEDS} {_ARTICLE}{_SUBJECT}(?: version| release)?(?: of)?:? {_LEAST}(?P<floor>{_RELEASE})",
    rf"{_NEEDS} {_ARTICLE}{_SUBJECT}(?: version)? v?(?P<floor>{_RELEASE}){_OR_NEWER}",
    rf"{_SUBJECT}(?: version)? (?:must|should|needs to|has to) be (?:{_RANGE}|{_FLOOR})",
    rf"{_SUBJECT} (?:version )?{_FLOOR}{_OR_NEWER} (?:is|are) (?:required|needed)",
    rf"{_SUBJECT} {_IS}v?(?P<there>{_RELEASE}).{{0,60}}{_LESS}{_FLOOR}",
    rf"{_NEEDS} {_ARTICLE}{_SUBJECT}(?: version)? v?(?P<ceiling>{_RELEASE}){_OR_OLDER}",
    rf"(?i:minimum (?:required |supported )?){_SUBJECT}(?: version| required)*(?: is|:)? {_FLOOR}",
)
# Python version 3.12.1; only versions >=3.8,<3.12 are supported
_PYTHON = (
    r"(?P<what>Python)(?: version)? v?(?P<there>3(?:\.\d+)+)\b.{0,100}?"
    r"\b(?:not supported|incompatible|only|does not satisfy|not compatible)\b.{0,60}?"
    rf"[(` ]{_RANGE}"
)
# requires the protobuf library but it was not found; requires `accelerate`. You can install it
# with `pip install accelerate`
_LACKS = (
    r"(?: library| package| module)?,? (?:but|which) (?:it )?(?:was|is) not (?:found|installed)"
)
_BY_PIP = (
    r"\b[Ii]nstall (?:it |them )?(?:with|by|via|using):? [`'\"]?(?:python\d? -m )?pip3? install"
)
_ABSENT = (
    rf"{_NEEDS} (?:the )?[`'\"]?(?P<what>{_NAME})[`'\"]?{_LACKS}",
    rf"{_BY_PIP} (?:-U |--upgrade )?[`'\"]?(?P<what>{_NAME})",
)
# of an exception alone: it was raised for this
_UNINSTALLED = (
    r"(?:is not|is ?n.t|is required but not|must be|needs to be|has to be) (?:installed|available)"
)
_LACKED = (
    rf"(?i:package|module|library|dependency) (?:for )?[`'\"]?(?P<what>{_NAME})[`'\"]?"
    r" (?:does ?n.t|does not) seem to be installed"
    rf"|[`'\"](?P<quoted>{_NAME})[`'\"] (?:package |library |module )?{_UNINSTALLED}"
    rf"|(?i:missing (?:optional |required )?(?:dependency|package|module)):? [`'\"]?"
    rf"(?P<missing>{_NAME})"
)
_FOUND = rf"(?i:found|have|has|got|installed|using|is)\b[^\d]{{0,40}}?v?({_RELEASE})"
# CUDA 12.4 on a driver that only supports up to 11.4
_BEYOND_DRIVER = r"CUDA (?P<cuda>\d+\.\d).{0,60}\bdriver\b.{0,60}\bsupports?\D{0,40}(\d+\.\d)"
_LIBRARY = (
    r"\b(?P<library>lib(?:cuda|cu|nv|nccl)[\w+-]*\.so[.\d]*|(?:cu|nv)\w+\d*\.dll)"
    r"|[\"'](?P<bare>cuda|nvcuda|nvidia-ml)[\"'] (?:shared |dynamic )?library"
)
_NOT_LOADED = (
    r"(?i)\b(?:unable|cannot|can ?not|can't|could ?n.?t|could not|fail(?:s|ed|ure)?|not (?:found|"
    r"loaded)|missing|no such file)\b"
)
_CAPABILITY = r"\((\d{1,2}), (\d)\)"  # (8, 0): as Python writes it
# cudaGetDeviceCount returned 30; cuInit(0) failed with error code 999; error=101 : invalid ...
_CODE = (
    r"\b(?:cu[A-Z]|cuda[A-Z]|hipGet|THCudaCheck)\w*(?:\(\w*\))?.{0,80}?"
    r"\b(?:returned|error|code|status|failed)\b\D{0,12}(?P<code>\d{1,3})\b"
)
_WARNING = r"\bWARN(?:ING)?\b"
# of NCCL and other writers of levels that no logger frames: it states a fact, never a cause
_INFORMS = r"^[^'\"]{0,80}?\b(?:INFO|DEBUG|TRACE) "
_LAST_LINES = 60  # at the end of a log


@dataclass
class Stated:
    """A sentence that names what is wrong, with its values."""

    kind: str  # "needs", "library", "code", or that of a row of sentences
    text: str
    number: int  # of its line in the log, 1-based
    what: str = ""  # the package or part, the library, the file, the word, the number
    releases: str = ""  # what is required of it: ">=2.6"
    found: str = ""  # which release is there
    row: Sentence | None = None


def read_stated(lines: Sequence[str], last: int) -> Stated | None:
    """Return the last such sentence in lines that end at `last`.

    Sample: "ImportError: tokenizers>=0.21,<0.22 is required for a normal functioning of this
    module, but found tokenizers==0.20.3."
    """
    lines = lines[-_LAST_LINES:]
    for place in range(len(lines) - 1, -1, -1):
        line = clean_line(lines[place].encode())
        before = lines[place - 1] if place else ""
        is_warning = re.search(_WARNING, line.bare.removesuffix(line.text)) is not None
        informs = "ERROR" not in line.text and re.match(_INFORMS, line.text)
        if is_warning or line.is_remark or informs or is_shown(line.text, before.encode()):
            continue
        found = _read_line(line.text, last - len(lines) + 1 + place)
        if found:
            return found
    return None


def _read_line(text: str, number: int) -> Stated | None:
    text = re.sub(_CAPABILITY, r"\1.\2", text)
    readers = (_read_sentence, _read_library, _read_needs, _read_fault)
    return next(filter(None, (read(text, number) for read in readers)), None)


def _read_library(text: str, number: int) -> Stated | None:
    library = re.search(_LIBRARY, text) if re.search(_NOT_LOADED, text) else None
    if library is None or re.search(_BEYOND_DRIVER, text):
        return None
    name = library["library"] or f"lib{library['bare'].removeprefix('nv')}.so.1"
    return Stated("library", text, number, name)


def _read_needs(text: str, number: int) -> Stated | None:
    """Read what is required, and which release of it is there."""
    beyond = re.search(_BEYOND_DRIVER, text)
    if beyond:
        return Stated("needs", text, number, "cuda driver", f">={beyond['cuda']}", beyond[2])
    for pattern in (*_REQUIREMENTS, _PYTHON, *_ABSENT):
        match = re.search(pattern, text)
        if match:
            return _read_requirement(match, text, number)
    lacked = re.search(_LACKED, text) if is_exception(text) else None
    if lacked:
        return Stated("needs", text, number, "".join(filter(None, lacked.groups())).lower())
    return None


def _read_sentence(text: str, number: int, *, is_last: bool = False) -> Stated | None:
    """Read a sentence that has at most one value."""
    for row in load_sentences():
        match = re.search(row.pattern, text) if row.is_last == is_last else None
        if match:
            value = next(filter(None, match.groups()), row.value)
            return Stated(row.kind, text, number, value, row=row)
    return None


def _read_fault(text: str, number: int) -> Stated | None:
    """Read a fault that names no requirement, in words or by the number of an error of CUDA."""
    code = re.search(_CODE, text)
    coded = Stated("code", text, number, code["code"]) if code else None
    return _read_sentence(text, number, is_last=True) or coded


def _read_requirement(match: re.Match[str], text: str, number: int) -> Stated:
    parts = match.groupdict()
    if parts.get("ceiling"):
        *head, last = parts["ceiling"].split(".")
        releases = f"<{'.'.join((*head, str(int(last) + 1)))}"  # 2.1 or less admits 2.1.3
    else:
        floor = f">={parts['floor']}" if parts.get("floor") else ""
        releases = (parts.get("range") or floor).replace(" ", "")
    there = parts.get("there") or (find_group(_FOUND, text[match.end() :]))
    name = parts["what"].lower().replace("device with", "compute")
    by_title = {item.title.lower(): item.name for item in identities()}
    return Stated("needs", text, number, by_title.get(name, name), releases, there)
