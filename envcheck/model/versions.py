"""Compare versions by their numbers, as far as these are stated.

Drivers, CUDA, cuDNN, compilers, Python minors.

Specifiers such as ">=2.15,<3" are read in `model/specifiers.py`, which may ask packaging.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Optional, Tuple

# a longer number is no version, and slow to read
_NUMBERS = re.compile(r"\s*(\d{1,18}(?:\.\d{1,18})*)")


@lru_cache(maxsize=1 << 14)
def numbers(version: Optional[str]) -> Tuple[int, ...]:
    """Read the leading numbers of a version.

    "12.4.1-1+x" -> (12, 4, 1), "390.x" -> (390,); () where there are none, or no version is known.
    """
    found = _NUMBERS.match(version or "")
    return tuple(map(int, found.group(1).split("."))) if found else ()


def major(version: Optional[str]) -> str:
    """Cut a version to its first part: "12.6.77" -> "12"; "" where it is not known."""
    return (version or "").partition(".")[0]


def major_minor(version: Optional[str]) -> str:
    """Cut a version to its first two parts: "12.6.77" -> "12.6"; "12" stays, "" is not known."""
    return ".".join((version or "").split(".")[:2])


def cuda_of_digits(digits: str) -> str:
    """Read a CUDA version as labels and names of files write it.

    "126" -> "12.6", "92" -> "9.2"; "12" stays: from CUDA 10 on, two digits are a major alone.
    """
    if len(digits) < 2 or (len(digits) == 2 and digits[0] == "1"):
        return digits
    return f"{digits[:-1]}.{digits[-1]}"


def cuda_of_number(number: int) -> str:
    """Read a CUDA version as its header and the driver write it: 12040 -> "12.4"."""
    return f"{number // 1000}.{number % 1000 // 10}"


def public_version(version: str) -> str:
    """Cut the local label from a version: "2.7.1+cu126" -> "2.7.1"."""
    return version.partition("+")[0]


def at_least(version: str, floor: str) -> Optional[bool]:
    """Return whether a version reaches a floor.

    Return None where that depends on parts that are not stated: 550 and 550.54.
    """
    have, want = numbers(version), numbers(floor)
    if not have:
        return None
    for ours, theirs in zip(have, want):
        if ours != theirs:
            return ours > theirs
    return True if len(have) >= len(want) else None


def at_least_minor(version: str, floor: str) -> bool:
    """Return whether a version reaches a floor by major and minor.

    A bare major counts as its .0.
    """
    return _parse_two(version) >= _parse_two(floor)


def is_older(version: str, than: str) -> bool:
    """Return whether a version is below another by major and minor, as far as both state them.

    11 is not below 11.8.
    """
    return at_least(major_minor(version), major_minor(than)) is False


def same_release(one: str, other: str) -> bool:
    """Return whether two spellings may name one release: 515.48.7 is 515.48.07, and 515 may be."""
    return all(ours == theirs for ours, theirs in zip(numbers(one), numbers(other)))


def _parse_two(version: str) -> Tuple[int, ...]:
    return (*numbers(version)[:2], 0, 0)[:2]
