"""What somebody was after when a log was written: the releases pip was asked for, and whether CUDA code is built."""

from __future__ import annotations

from envcheck.explain.log import Log
from envcheck.explain.problem import COMPILING
from envcheck.rules.builds import TargetError, check_requirements
from envcheck.rules.context import Target

_REFUSED = ("pip-from-versions", "pip-no-distribution")
_BUILDS = ("build-command-failed", "ninja-failed", "nvcc-failed")


def target_of(log: Log, told: Target | None) -> Target:
    """Add to what was `told` what the log tells of it, where it is judged with a machine's facts."""
    given = told or Target()
    if not log.with_facts:
        return given
    asked = tuple(dict.fromkeys((*given.requirements, *_refused(log))))
    return Target(given.expect, asked, given.compiles or log.has(*COMPILING, *_BUILDS))


def _refused(log: Log) -> tuple[str, ...]:
    """List the requirements that pip found nothing for, as far as the rules can judge them."""
    asked = (event.captured["requirement"].rstrip(".,:;") for event in log.of(*_REFUSED))
    return tuple(text for text in dict.fromkeys(asked) if _is_judged(log, text))


def _is_judged(log: Log, text: str) -> bool:
    try:
        check_requirements((text,), log.matrix)
    except TargetError:
        return False
    return True
