"""An answer as a document: every command builds one, and every format writes any of them.

A document holds text alone. What a machine states is made inert by the writer, once for all.
"""

from __future__ import annotations

from typing import TypeAlias

from envcheck.actions import action_line
from envcheck.model import UNDETERMINED, Action, Evidence, dataclass

# What a line, a row or a layer says of its subject.
BROKEN = "error"
WARNED = "warning"
UNREAD = "undetermined"
SOUND = "ok"
ABSENT = "not there"
NEEDLESS = "not needed"
ASKED = "asked for"  # judged, and not installed
HEADING = "heading"  # stands above what has a mark

Row = tuple[str, ...]


@dataclass
class Line:
    """A sentence; what is wrapped stands below its label."""

    text: str
    label: str = ""
    kind: str = ""  # what it says of its subject: a verdict, a severity or a state; or a style


@dataclass
class Command:
    """A command as it is typed, with what it is for."""

    line: str  # "" where the purpose says it all
    purpose: str = ""
    folded: str = ""  # on a line for each line that it writes into a file

    @property
    def typed(self) -> str:
        """The command as a person reads it."""
        return self.folded or self.line


@dataclass
class Table:
    """Rows below a head; `kinds` says of each row what it says of its subject."""

    head: Row
    rows: tuple[Row, ...]
    kinds: tuple[str, ...] = ()
    narrowest: int = 8  # columns of a folded cell: where less is left, a list is easier to read


@dataclass
class Layer:
    """What a machine has of one layer.

    `meets` says what it and the layers below ask of each other.
    """

    name: str
    text: str
    state: str = ""
    wrong: tuple[str, ...] = ()  # what was found wrong with it
    meets: tuple[str, ...] = ()


@dataclass
class Machine:
    """A machine, layer by layer."""

    layers: tuple[Layer, ...]


@dataclass
class Way:
    """One way to mend a finding."""

    label: str  # "fix (step 1)", "or"; "" for a bare command
    summary: str
    commands: tuple[Command, ...] = ()
    kind: str = ""


@dataclass
class Step:
    """A step of a plan, with how it is seen to have worked and how it is taken back."""

    title: str
    command: Command | None = None
    about: str = ""
    traces: tuple[Line, ...] = ()


@dataclass
class Shown:
    """A finding as it is shown."""

    id: str
    verdict: str
    severity: str
    message: str
    evidence: tuple[Evidence, ...] = ()
    fix: tuple[Way, ...] = ()  # the fix and what may be done instead
    # of it, what the document as a whole leaves to say at this finding
    here: tuple[Way, ...] | None = None
    is_primary: bool = False
    is_cause: bool = False
    follows: str = ""  # the finding that it follows from
    is_brief: bool = False  # one line says it
    is_said: bool = False  # a text says it at another finding
    layer: str = ""
    excuse: str = ""  # why a project ignores it

    @property
    def kind(self) -> str:
        """What the finding says of its subject."""
        return UNDETERMINED if self.verdict == UNDETERMINED else self.severity

    @property
    def title(self) -> str:
        """The id, and what it is to the other findings."""
        cause = " (the cause)" if self.is_cause else ""
        return self.id + cause + (f" (follows from {self.follows})" if self.follows else "")


Block: TypeAlias = "Line | Command | Table | Machine | Way | Step | Shown"


@dataclass
class Section:
    """Blocks below a title, or below none."""

    blocks: tuple[Block, ...]
    title: Line | None = None
    is_apart: bool = True  # a blank line stands above it


@dataclass
class Check:
    """Something that was tried.

    `outcome` is passed, failure (it is wrong), error (undetermined) or skipped.
    """

    suite: str
    classname: str
    name: str
    outcome: str = "passed"
    message: str = ""
    details: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass
class Rule:
    """What may be found, in general."""

    id: str
    layer: str
    headline: str
    means: str


@dataclass
class Document:
    """An answer: the verdict, what it is about, what was found, what to type."""

    title: str  # of what answers: "envcheck", "envcheck plan"
    verdict: str
    headline: str
    label: str = ""  # stands before the headline: "INCOMPATIBLE  "
    kind: str = ""  # what the headline says of its subject, where that is not the verdict
    below: tuple[Block, ...] = ()  # directly below the headline
    counts: str = ""
    about: tuple[Section, ...] = ()  # what the verdict is about: a good one stands below it
    findings: tuple[Shown, ...] = ()
    sections: tuple[Section, ...] = ()
    closing: Section | None = None  # what to type first
    # of the plan that fixes the findings, where each finding says its own part
    steps: tuple[Step, ...] = ()
    checks: tuple[Check, ...] = ()  # that were made beside the rules
    rules: tuple[Rule, ...] = ()  # that were decided
    goal: str = ""
    file: str = ""  # that findings are about where no evidence names one
    date: str = ""  # when the machine was read
    is_listing: bool = False  # the headline ends what is read from its end, good or bad
    is_verbose: bool = False

    @property
    def all_findings(self) -> tuple[Shown, ...]:
        """The findings, those within sections too."""
        blocks = (block for section in (*self.about, *self.sections) for block in section.blocks)
        return (*self.findings, *(block for block in blocks if isinstance(block, Shown)))


def format_evidence(item: Evidence, *, is_short: bool = False) -> str:
    """Say what was seen or is known, and where.

    A short one cites nothing, and counts all but the first places.
    """
    where = item.source.where if item.source is not None else ""
    places = where.split(", ") if is_short else []
    if len(places) > 3:
        where = f"{', '.join(places[:2])} and {len(places) - 2} more places"
    cited = ""
    if item.citation is not None and not is_short:
        cited = f" [{item.citation.url_or_artifact}]"
    is_new = where not in ("", item.fact, item.shown)
    return f"{item.fact}: {item.shown}" + (f" ({where})" if is_new else "") + cited


def type_command(action: Action, system: str, *, is_told: bool = True) -> Command:
    """Write an action as it is typed on a system.

    Without its purpose where that is said already.
    """
    purpose = action.purpose_on(system) if is_told else ""
    return Command(action_line(action, system), purpose, action_line(action, system, folded=True))
