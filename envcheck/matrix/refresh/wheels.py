"""Group the wheels of an index by the rows of the matrix, and choose those to read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class WheelName:
    """The parts of a wheel's file name."""

    distribution: str  # normalised
    version: str
    interpreters: tuple[str, ...]  # cp311, py3
    abis: tuple[str, ...]  # cp311, cp313t, none
    tags: tuple[str, ...]  # manylinux_2_17_x86_64

    @property
    def platforms(self) -> tuple[str, ...]:
        """List the platforms of the wheel, as the matrix names them."""
        return tuple(sorted({name for name in map(parse_platform, self.tags) if name}))

    @property
    def newest_python(self) -> tuple[int, int]:
        """Return the newest Python that the wheel is for: (3, 11)."""
        return max(map(_parse_python, self.interpreters))


@dataclass(frozen=True)
class Wheel:
    """One wheel of an index page."""

    filename: str
    url: str
    sha256: str
    metadata_sha256: str  # "" if the index does not state it
    yanked: bool
    name: WheelName


@dataclass(frozen=True)
class Group:
    """All wheels of one release of a distribution on one platform."""

    distribution: str
    version: str
    platform: str
    wheels: tuple[Wheel, ...]  # oldest Python first
    left_out: tuple[Wheel, ...] = ()  # no installer takes them

    @property
    def representative(self) -> Wheel:
        """Return the wheel that is read for the group: that of the newest Python."""
        return self.wheels[-1]

    @property
    def tags(self) -> list[str]:
        """List the platform tags of all wheels."""
        return sorted({tag for wheel in self.wheels for tag in wheel.name.tags})

    @property
    def yanked(self) -> int:
        """Count the yanked wheels."""
        return sum(wheel.yanked for wheel in self.wheels)

    def pythons(self, *, free_threaded: bool = False) -> list[str]:
        """List the Python minors in the names of the wheels; py3 names none."""
        found = {
            _parse_python(tag)
            for wheel in self.wheels
            if any(abi.endswith("t") for abi in wheel.name.abis) == free_threaded
            for tag in wheel.name.interpreters
            if re.fullmatch(r"cp\d\d+", tag)
        }
        return [f"{major}.{minor}" for major, minor in sorted(found)]


def parse_wheel(filename: str) -> WheelName | None:
    """Parse the name of a wheel; None if it is not a wheel of a final, public release.

    tensorflow-2.15.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
    """
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        name, version, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        return None
    if version.is_prerelease or version.is_devrelease or version.local:
        return None
    return WheelName(
        distribution=str(name),
        version=str(version),
        interpreters=tuple(sorted({tag.interpreter for tag in tags})),
        abis=tuple(sorted({tag.abi for tag in tags})),
        tags=tuple(sorted({tag.platform for tag in tags})),
    )


def group_wheels(wheels: Iterable[Wheel]) -> list[Group]:
    """Group wheels by distribution, version and platform; platforms that the matrix does not know are skipped."""
    found: dict[tuple[str, str, str], list[Wheel]] = {}
    for wheel in wheels:
        for platform in wheel.name.platforms:
            found.setdefault((wheel.name.distribution, wheel.name.version, platform), []).append(wheel)
    return [
        Group(*key, tuple(sorted(members, key=lambda item: (item.name.newest_python, item.filename))))
        for key, members in sorted(found.items())
    ]


def parse_platform(tag: str) -> str:
    """Return the platform of a tag: manylinux2014_x86_64 is linux_x86_64; "" if the matrix does not know it."""
    if tag in {"any", "win_amd64"}:
        return tag
    if "linux" in tag:
        return next((f"linux_{machine}" for machine in ("x86_64", "aarch64") if tag.endswith(machine)), "")
    if tag.startswith("macosx"):
        return "macosx_arm64" if tag.endswith(("arm64", "universal2")) else "macosx_x86_64"
    return ""


def is_version(text: str) -> bool:
    """Tell whether a text is a version."""
    from packaging.version import InvalidVersion, Version

    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def glibc_of(tags: Iterable[str]) -> str | None:
    """Return the lowest glibc that manylinux tags imply; None if no tag can be trusted.

    Wheels tagged manylinux1 were often built on newer systems, so that tag is ignored.
    """
    legacy = {"manylinux2010": (2, 12), "manylinux2014": (2, 17)}
    found = [legacy[name] for name in (tag.partition("_")[0] for tag in tags) if name in legacy]
    for tag in tags:
        named = re.match(r"manylinux_(\d+)_(\d+)_", tag)
        if named:
            found.append((int(named[1]), int(named[2])))
    trusted = [number for number in found if number > (2, 5)]
    return "{}.{}".format(*min(trusted)) if trusted else None


def _parse_python(tag: str) -> tuple[int, int]:
    """Parse an interpreter tag: cp311 -> (3, 11), py3 -> (3, 0)."""
    named = re.match(r"[a-z]+(\d)(\d*)", tag)
    return (int(named[1]), int(named[2] or 0)) if named else (0, 0)
