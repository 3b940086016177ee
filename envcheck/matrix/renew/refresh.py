"""Renew a matrix document from the index: what is new or changed there is read, everything else stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

from envcheck.matrix.renew.contents import Contents
from envcheck.matrix.renew.curated import sources
from envcheck.matrix.renew.derive import draft_release
from envcheck.matrix.renew.errors import ArtifactError
from envcheck.matrix.renew.merge import Document, drop_unused_citations, has_all, merge_release
from envcheck.matrix.renew.reader import Reader, Reading
from envcheck.matrix.renew.usable import read_usable, usable
from envcheck.matrix.renew.wheels import Group, Wheel, group_wheels

Progress = Callable[[int, int], None]  # wheels done, wheels in all


@dataclass(frozen=True)
class Renewal:
    """A renewed document, and what deserves a word beside its changes."""

    document: Document
    left_out: tuple[str, ...]  # wheels that no installer takes, each with the reason
    vanished: tuple[str, ...]  # rows whose wheels the index no longer lists; they stay


@dataclass(frozen=True)
class Listing:
    """What the index lists of one framework."""

    framework: str
    groups: tuple[Group, ...]
    since: str = "0"  # older releases were not looked for

    @property
    def published(self) -> dict[str, set[str]]:
        """Map each distribution to its versions."""
        found: dict[str, set[str]] = {}
        for group in self.groups:
            found.setdefault(group.distribution, set()).add(group.version)
        return found

    def by_version(self) -> dict[str, list[Group]]:
        """Map each version to its groups."""
        found: dict[str, list[Group]] = {}
        for group in self.groups:
            found.setdefault(group.version, []).append(group)
        return found


def refresh(document: Document, listings: Sequence[Listing], reader: Reader, today: str, progress: Progress) -> Renewal:
    """Return a renewed copy of a document; raises ArtifactError, and then nothing is renewed at all."""
    wanted = {listing.framework: _changed(document, listing) for listing in listings}
    reading = read_usable(wanted, reader, progress)
    reading.require_all()
    renewed = deepcopy(document)
    left_out: list[str] = []
    for listing in listings:
        groups = usable(wanted[listing.framework], reading)
        silent = _merge(renewed, listing, groups, reading.contents, today)
        left_out += [*_left_out(groups, reading), *silent]
    drop_unused_citations(renewed)
    renewed["checked"] = today
    vanished = [row for listing in listings for row in _vanished(document, listing)]
    return Renewal(renewed, tuple(sorted(set(left_out))), tuple(vanished))


def _left_out(groups: Iterable[Group], reading: Reading) -> Iterator[str]:
    """Say which wheels no installer takes, and which was read in place of each."""
    for group in groups:
        instead = f" Read in its place: {group.representative.filename}." if group.left_out else ""
        for wheel in group.left_out or group.wheels:
            if wheel.sha256 in reading.unusable:
                yield reading.unusable[wheel.sha256] + instead


def list_framework(reader: Reader, framework: str, since: str = "") -> Listing:
    """Read the index pages of a framework's distributions and group the wheels from `since` on."""
    distributions, first = sources(framework)
    pages = [reader.page(name) for name in distributions]
    if not any(page is not None for page in pages):
        raise ArtifactError(f"The index has no page for any distribution of {framework}; its address may be wrong.")
    wheels = (wheel for page in pages for wheel in page or ())
    return Listing(framework, tuple(group_wheels(_at_least(wheels, (first, since)))), since or "0")


def _at_least(wheels: Iterable[Wheel], floors: Iterable[str]) -> list[Wheel]:
    from packaging.version import Version

    lowest = max(Version(floor) for floor in floors if floor)
    return [wheel for wheel in wheels if Version(wheel.name.version) >= lowest]


def _changed(document: Document, listing: Listing) -> list[Group]:
    """List the groups of every release that the document does not show as the index lists it."""
    versions, table = document["releases"].get(listing.framework, {}), document["citations"]
    changed = (
        groups for name, groups in listing.by_version().items() if not has_all(versions.get(name, ()), table, groups)
    )
    return [group for groups in changed for group in groups]


def _merge(
    document: Document, listing: Listing, groups: Sequence[Group], contents: dict[str, Contents], today: str
) -> list[str]:
    """Put what was read into the document; return a sentence for each wheel that names no Python."""
    silent: list[str] = []
    published = listing.published
    for version_groups in Listing(listing.framework, tuple(groups)).by_version().values():
        drafts = draft_release(listing.framework, version_groups, contents, published)
        merge_release(document, listing.framework, drafts, today)
        drafted = {draft.wheel.sha256 for draft in drafts}
        read = (group.representative for group in version_groups if group.representative.sha256 in contents)
        silent += [f"{wheel.filename} names no Python it is for." for wheel in read if wheel.sha256 not in drafted]
    return silent


def _vanished(document: Document, listing: Listing) -> list[str]:
    from packaging.version import Version

    listed = {(group.distribution, group.version, group.platform) for group in listing.groups}
    return [
        f"{row['distribution']} {version} on {row['platform']}"
        for version, rows in document["releases"].get(listing.framework, {}).items()
        for row in rows
        if Version(version) >= Version(listing.since) and (row["distribution"], version, row["platform"]) not in listed
    ]
