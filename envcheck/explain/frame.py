"""What a line is within a log: a claim, a remark, or only shown, as source or a value."""

from __future__ import annotations

import re

_REMARK = r"\b(?:TRACE|DEBUG|INFO|NOTICE|SUCCESS)\b"
_EXCEPTION = r"\W*(?:Traceback\b|thread '[^']*' panicked|[\w.]*(?:Error|Exception|Interrupt)\b)"
# Source in a traceback or under a compiler's warning, a value of a printed dict, a docstring.
_SHOWN = (
    r"raise \w|#\s*define\b|(?:warnings|log|logger|logging)\.\w+\(|\d+ \| "
    r"|(?:if|elif|for|while|with) .*:$|[\[({]*'\w+': |\w+(?:Error|Exception): (?:if|when|raised)\b"
)
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
    return re.search(_FRAME, line_before) is not None and not is_exception(text)
