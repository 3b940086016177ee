"""Exit codes, and the errors a command ends with."""

from __future__ import annotations

from envcheck.model import COMPATIBLE, INCOMPATIBLE, UNDETERMINED

USAGE = 2
STEP_FAILED = 4
INTERNAL = 5
INTERRUPTED = 130
READER_GONE = 141  # 128 + SIGPIPE: `| head` had enough

OF_VERDICT = {COMPATIBLE: 0, INCOMPATIBLE: 1, UNDETERMINED: 3}


class UserError(Exception):
    """What the user asked for cannot be done; the message says what is wrong and what to type instead."""
