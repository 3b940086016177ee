"""List lines of logs that state a finding, as programs print them and as people search for them.

They are the lines of `tests/cases` in which a message of the finding was found, of reports before composed ones.
"""

from __future__ import annotations

from functools import cache

from envcheck.explain.signatures import load_signatures
from envcheck.model.quoting import quote
from tests.cases.judged import FOLDER, read_cases, scan_text

_CORPUS = ("reported", "composed")
_LONGEST = 160  # characters of a line that is shown


@cache
def _lines_by_signature() -> dict[str, str]:
    """Map each signature to the shortest line of the first file that shows it."""
    found: dict[str, str] = {}
    for name in _CORPUS:
        of_file: dict[str, str] = {}
        for case in read_cases(FOLDER / f"{name}.jsonl"):
            for event in scan_text(case["log"]).events:
                known = of_file.get(event.signature)
                if known is None or len(event.text) < len(known):
                    of_file[event.signature] = event.text
        found = of_file | found
    return found


def list_log_lines(finding: str) -> list[str]:
    """Return a line for each message that states a finding."""
    lines = _lines_by_signature()
    names = (
        each.name
        for each in load_signatures()
        if each.finding == finding and each.role in ("cause", "symptom")
    )
    shown = (quote(lines[name]).strip() for name in names if name in lines)
    return list(dict.fromkeys(line for line in shown if len(line) <= _LONGEST))
