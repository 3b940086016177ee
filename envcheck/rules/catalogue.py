"""The catalogue of findings, and their order.

One primary cause, its consequences under it, the rest by severity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from envcheck.host import plugins
from envcheck.host.data_files import load_data
from envcheck.model import (
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    WARNING,
    Finding,
    dataclass,
    field,
    replace,
)

UNREAD_FACTS = "unread"  # part of the machine: whatever could not be read


@dataclass
class Entry:
    """One finding id; `rank` is its place in the catalogue, lower layers first."""

    id: str
    layer: str
    headline: str  # what is wrong, one plain sentence
    means: str  # what belongs to it
    stops: str = ""  # import, gpu (seeing it), compute, build; "" none of these
    explains: tuple[str, ...] = ()  # what follows from it
    rank: int = 0
    plugin: str = ""  # the module of the plugin that decides it; "" for a rule of envcheck
    # of the machine that it is about, where not its layer: cuDNN, Machine, or UNREAD_FACTS
    parts: tuple[str, ...] = ()
    misses: str = ""  # the part of the machine whose absence it reports
    # a program that goes on without a GPU says it, too, and nothing is wrong
    leaves_gpu_unused: bool = False
    stands: bool = False  # makes results wrong or a GPU unused, however long a program runs on
    is_outlived: bool = False  # programs catch its exceptions, and go on
    is_retried: bool = False  # programs ask for less after it
    is_refuted: bool = False  # an import that works refutes its warning, too
    is_rescued: bool = False  # a variable that loads another implementation makes it work
    is_explained: bool = False  # by whatever root cause there is
    # by the place where its words stand: wsl -> the finding that they mean there
    there: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Catalogue:
    """The content of data/advice/findings.json: lower layers first."""

    findings: tuple[Entry, ...]


@lru_cache(maxsize=1)
def catalogue() -> dict[str, Entry]:
    """Read data/advice/findings.json."""
    entries = load_data("advice/findings", Catalogue).findings
    entries += _list_plugin_entries(
        {entry.id for entry in entries}, [*dict.fromkeys(entry.layer for entry in entries)]
    )
    return {entry.id: replace(entry, rank=rank) for rank, entry in enumerate(entries)}


def _list_plugin_entries(taken: set[str], layers: list[str]) -> tuple[Entry, ...]:
    """Load the modules of plugins that register rules.

    Return the findings that each declares in FINDINGS.
    """

    def accept(_: str, module: Any) -> tuple[Entry, ...]:
        entries = tuple(module.FINDINGS)
        for entry in entries:
            if not isinstance(entry, Entry) or not re.fullmatch(
                r"[a-z0-9]+(-[a-z0-9]+)+", entry.id
            ):
                raise plugins.PluginError(
                    f"{entry!r:.80} is no Entry with an id such as scratch-full"
                )
            if entry.id in taken:
                raise plugins.PluginError(f"the finding id {entry.id} is taken")
            if entry.layer not in layers:
                raise plugins.PluginError(
                    f"{entry.id}: no layer {entry.layer!r:.40}, but {', '.join(layers)}"
                )
            texts = (entry.headline, entry.means, *entry.explains)
            if not all(isinstance(text, str) for text in texts):
                raise plugins.PluginError(f"the entry of {entry.id} holds something else than text")
        taken.update(entry.id for entry in entries)
        return tuple(replace(entry, plugin=module.__name__) for entry in entries)

    found = plugins.load_plugins(plugins.RULES, set(), accept)
    return tuple(entry for entries in found.values() for entry in entries)


BUILD = "build"
_STAGES = {BUILD: 0, "import": 1}
_SEVERITIES = {ERROR: 0, WARNING: 1, NOTE: 2}


def rank_findings(findings: list[Finding]) -> tuple[Finding, ...]:
    """Link each finding to the one that explains it and put the root cause first.

    Only an incompatibility can be primary: what could not be read is never the cause of anything.
    """
    findings = [
        replace(finding, primary=False) if finding.primary else finding for finding in findings
    ]
    linked = sorted((_link(finding, findings) for finding in findings), key=_order)
    root = next((item for item in linked if _can_be_root(item)), None)
    if root is None:
        return tuple(linked)
    others = [_explain_by_root(item, root) for item in linked if item is not root]
    return (replace(root, primary=True), *sorted(others, key=_order))


def _can_be_root(finding: Finding) -> bool:
    is_wrong = finding.verdict == INCOMPATIBLE and finding.severity != NOTE
    return is_wrong and finding.caused_by is None


def _explain_by_root(finding: Finding, root: Finding) -> Finding:
    """Link what says only that something fails to the error that is there."""
    is_open = _can_be_root(finding) and root.severity == ERROR
    if is_open and catalogue()[finding.id].is_explained:
        return replace(finding, caused_by=root.id)
    return finding


def what_stops(finding: Finding) -> str:
    """Return what a finding stops: as was seen, or as the catalogue says of its id."""
    return finding.stops or catalogue()[finding.id].stops


_LONGEST = 150  # characters of a reason that still reads as a headline


def shorten_message(cause: Finding) -> str:
    """Return the first sentence of a message, its first clause, or what the id means in general."""
    first = re.split(r"(?<=[\w)'\"`])\. (?=[A-Z])", cause.message)[0].rstrip(".")
    plain = re.sub(r" \([^()]*\)", "", first)
    for text in (first, plain, plain.partition(": ")[0]):
        if len(text) <= _LONGEST:
            return text
    return catalogue()[cause.id].headline.rstrip(".")


def _link(finding: Finding, findings: list[Finding]) -> Finding:
    if finding.caused_by is not None or finding.verdict == UNDETERMINED:
        return finding
    causes = [
        other
        for other in findings
        if other.verdict == INCOMPATIBLE
        and other.id != finding.id
        and finding.id in catalogue()[other.id].explains
        and _SEVERITIES[other.severity] <= _SEVERITIES[finding.severity]
        # what is missing where a package is compiled is missing whatever would run later
        and (finding.stops != BUILD or what_stops(other) in ("", BUILD))
    ]
    if not causes:
        return finding
    return replace(finding, caused_by=min(causes, key=lambda cause: catalogue()[cause.id].rank).id)


def _order(finding: Finding) -> tuple[int, ...]:
    """Order by severity; what stops an installation comes first, then what stops an import.

    Otherwise lower layers do.
    """
    undetermined = finding.verdict == UNDETERMINED
    return (
        _SEVERITIES[finding.severity] + (1 if undetermined and finding.severity != ERROR else 0),
        undetermined,
        finding.caused_by is not None,
        _STAGES.get(finding.stops, len(_STAGES)),
        catalogue()[finding.id].rank,
    )
