"""Read the newest wheel of each group that an installer takes: one bad wheel must not lose its release."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from envcheck.matrix.renew.reader import Reader, Reading
from envcheck.matrix.renew.wheels import Group, Wheel


def read_usable(wanted: Mapping[str, Sequence[Group]], reader: Reader, progress: Callable[[int, int], None]) -> Reading:
    """Read the representatives; where one is unusable, the next older wheel, until one is usable or none is left."""
    reading = Reading()
    asked = {name: list(groups) for name, groups in wanted.items()}
    while any(asked.values()):
        found = reader.read_all(_representatives(asked), progress)
        for part in ("contents", "unusable", "failed"):
            getattr(reading, part).update(getattr(found, part))
        asked = {name: _next(groups, reading) for name, groups in asked.items()}
        progress = _silent  # the bar is full: few wheels have to be replaced
    return reading


def usable(groups: Iterable[Group], reading: Reading) -> list[Group]:
    """Return groups without the wheels that turned out unusable; one that has no other stays as it is."""
    return [_without_unusable(group, reading) for group in groups]


def _next(groups: Iterable[Group], reading: Reading) -> list[Group]:
    left = usable((group for group in groups if group.representative.sha256 in reading.unusable), reading)
    return [group for group in left if group.representative.sha256 not in reading.unusable]


def _without_unusable(group: Group, reading: Reading) -> Group:
    bad = tuple(wheel for wheel in group.wheels if wheel.sha256 in reading.unusable)
    good = tuple(wheel for wheel in group.wheels if wheel not in bad)
    return replace(group, wheels=good, left_out=bad) if bad and good else group


def _representatives(wanted: Mapping[str, Iterable[Group]]) -> dict[str, tuple[str, Wheel]]:
    """Map the SHA-256 of each wheel to read to its framework and itself."""
    pairs = ((name, group.representative) for name, groups in wanted.items() for group in groups)
    return {wheel.sha256: (name, wheel) for name, wheel in pairs}


def _silent(_done: int, _total: int) -> None:
    """Show no progress."""
