"""Load the signatures: the messages that envcheck knows, and what one match holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache

from envcheck.host.data_files import load_data
from envcheck.model import dataclass


@dataclass
class Signature:
    """One machine-made message, as data/advice/signatures.json describes it."""

    name: str  # kebab-case, unique: "cannot-open-shared-object"
    # literals; a line without any of them cannot match (the prefilter's needles)
    fragments: tuple[str, ...]
    pattern: str  # linear-time expression with named groups, searched in the cleaned line
    finding: str  # the finding id it points to; "" when only reasoning over its captures decides
    severity: str  # error, warning, note; what the message is worth when nothing else speaks
    # captures whose value is a fact about the machine or the build that wrote the line
    proves: tuple[str, ...] = ()
    # cause, symptom (asks for a cause), context (only its captures count), noise, healthy, remedy
    role: str = "cause"
    # a kind of evidence (envcheck/explain/log.py); "" for roles that claim nothing
    strength: str = ""
    meaning: str = ""  # what it says about the machine, one sentence; {names} stand for captures
    # Where no GPU is meant: a "fact" of what is installed, a "remark" before the program continues,
    # "caught".
    without_gpu: str = ""
    rivals: tuple[str, ...] = ()  # finding ids that fit the same message
    # letters count as they are written; else small and capital letters are alike
    exact_case: bool = False

    @property
    def expression(self) -> str:
        """Return the pattern with its flag."""
        return self.pattern if self.exact_case else "(?i)" + self.pattern


@dataclass
class Event:
    """One message seen in a log, with what it captured; repeated messages are counted, not kept."""

    signature: str
    captures: tuple[tuple[str, str], ...]
    text: str  # the cleaned line, at most 500 characters
    file: str  # where it was read; "-" is standard input
    line: int  # 1-based number of the first such line
    last_line: int
    count: int = 1
    worker: str = ""  # the rank, pod or container a prefix named

    @property
    def values(self) -> dict[str, str]:
        """Map capture names to what they matched."""
        return dict(self.captures)

    @property
    def place(self) -> str:
        """Name the place of a message as evidence names it: file:line."""
        return f"{self.file}:{self.line}"


@dataclass
class Conclusion:
    """What messages mean beside what else their log states.

    Its row names the messages that draw it; without, a `reasons_` module does.
    """

    name: str
    finding: str
    strength: str  # a kind of evidence, as a signature's
    meaning: str  # one sentence or two; {names} stand for captures and for what was worked out
    rivals: tuple[str, ...] = ()
    severity: str = "error"
    messages: tuple[str, ...] = ()  # signatures; each such message draws it
    words: str = ""  # an expression that the line holds
    beside: tuple[str, ...] = ()  # signatures of which the log must hold one, too


@dataclass
class Sentence:
    """A sentence of any program that names what is wrong, looked for in the last lines alone."""

    kind: str
    pattern: str  # its first group is the value
    finding: str
    meaning: str = ""  # {0} is the value; "" for the finding's own headline
    fault: str = ""  # of a program-error
    capture: str = ""  # names the value for remedies
    value: str = ""  # where the words do not state it
    rivals: tuple[str, ...] = ()
    is_last: bool = False  # looked for where nothing is said to be required


@dataclass
class KnownException:
    """What an exception of any program says, by the expressions that parts of it match."""

    where: Mapping[str, str]  # kind, message, deepest or shown, as in Raised
    meaning: str
    finding: str = ""  # the cause that it names; without, it is the program's own error ...
    fault: str = ""  # ... and this is at fault
    rivals: tuple[str, ...] = ()


@dataclass
class Rivals:
    """Two groups of causes that one message may have, and how to tell them apart."""

    first: tuple[str, ...]  # finding ids
    second: tuple[str, ...]
    command: tuple[str, ...]
    interpretation: str  # what its output means
    systems: tuple[str, ...] = ()  # where the command runs; empty: anywhere


@dataclass
class SignatureTable:
    """The content of data/advice/signatures.json."""

    signatures: tuple[Signature, ...]
    rivals: tuple[Rivals, ...]
    # signature that claims lines of other causes, too -> why that is right
    overlaps: Mapping[str, str]
    driver_errors: Mapping[str, str]  # number with which CUDA's start ends -> finding id
    conclusions: tuple[Conclusion, ...]
    sentences: tuple[Sentence, ...]
    exceptions: tuple[KnownException, ...]


def load_signatures() -> tuple[Signature, ...]:
    """Return the signatures; patterns stay text, see `compiled`."""
    return _load_table().signatures


@lru_cache(maxsize=1)
def signatures_by_name() -> dict[str, Signature]:
    """Map the names of the signatures to them."""
    return {item.name: item for item in load_signatures()}


def role_of(event: Event) -> str:
    """Return the role of a message."""
    return signatures_by_name()[event.signature].role


@cache
def compile_pattern(expression: str) -> re.Pattern[str]:
    """Compile the pattern of a signature, once and only when a line holds one of its fragments."""
    return re.compile(expression)


@lru_cache(maxsize=1)
def list_noise() -> tuple[Signature, ...]:
    """List the signatures of lines that complain and mean no harm."""
    return tuple(item for item in load_signatures() if item.role == "noise")


def load_rivals() -> tuple[Rivals, ...]:
    """List the pairs of causes of one message, with the command that tells them apart."""
    return _load_table().rivals


def load_driver_errors() -> Mapping[str, str]:
    """Map the numbers with which CUDA's start may end to finding ids."""
    return _load_table().driver_errors


def load_sentences() -> tuple[Sentence, ...]:
    """List the sentences that name what is wrong, the most definite first."""
    return _load_table().sentences


def load_exceptions() -> tuple[KnownException, ...]:
    """List the exceptions that say what is at fault, the most definite first."""
    return _load_table().exceptions


@lru_cache(maxsize=1)
def conclusions_by_name() -> dict[str, Conclusion]:
    """Map the names of what messages mean together to the rows."""
    return {item.name: item for item in _load_table().conclusions}


def _load_table() -> SignatureTable:
    return load_data("advice/signatures", SignatureTable)
