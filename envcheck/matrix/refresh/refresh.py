"""Refresh a matrix document from the index, and from the binaries of its wheels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from packaging.version import Version

from envcheck.frameworks import framework as known_framework
from envcheck.frameworks import framework_names
from envcheck.matrix.refresh.deep import DeepReader, apply_binaries
from envcheck.matrix.refresh.merge import Document, drop_unused_citations, find_source, is_up_to_date, merge_release
from envcheck.matrix.refresh.pip_settings import ArtifactError
from envcheck.matrix.refresh.reader import Reader, Reading, drop_unusable, read_usable
from envcheck.matrix.refresh.rows import Row, draft_release
from envcheck.matrix.refresh.wheel_contents import Contents
from envcheck.matrix.refresh.wheels import Group, Wheel, group_wheels

Progress = Callable[[int, int], None]  # wheels done, wheels in all
Key = tuple[str, str, str, str]  # framework, version, distribution, platform


@dataclass(frozen=True)
class RefreshResult:
    """A refreshed document, and what else to report beside its changes."""

    document: Document
    left_out: tuple[str, ...]  # wheels that no installer takes, each with the reason
    vanished: tuple[str, ...]  # rows whose wheels the index no longer lists; they stay


@dataclass(frozen=True)
class Listing:
    """What the index lists of one framework."""

    framework: str
    groups: tuple[Group, ...]
    since: str = "0"  # older releases were not looked for

    @cached_property
    def published(self) -> dict[str, set[str]]:
        """Map each distribution to its versions."""
        found: dict[str, set[str]] = {}
        for group in self.groups:
            found.setdefault(group.distribution, set()).add(group.version)
        return found


def group_by_version(groups: Iterable[Group]) -> dict[str, list[Group]]:
    """Map each version to its groups."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        found.setdefault(group.version, []).append(group)
    return found


def list_framework(reader: Reader, framework: str, since: str = "") -> Listing:
    """Read the index pages of a framework's distributions and group the wheels from `since` on."""
    source = find_source(framework)
    pages = [reader.page(name) for name in source.distributions]
    if all(page is None for page in pages):
        raise ArtifactError(f"The index has no page for any distribution of {framework}; its address may be wrong.")
    lowest = max(Version(floor) for floor in (source.first, since) if floor)
    wheels = [wheel for page in pages for wheel in page or () if Version(wheel.name.version) >= lowest]
    return Listing(framework, tuple(group_wheels(wheels)), since or "0")


def refresh(
    document: Document, listings: Sequence[Listing], reader: Reader, today: str, progress: Progress
) -> RefreshResult:
    """Return a refreshed copy of a document; raises ArtifactError if any wheel cannot be read."""
    wanted = {listing.framework: _find_changed(document, listing) for listing in listings}
    reading = read_usable(wanted, reader, progress)
    reading.require_all()
    refreshed = deepcopy(document)
    left_out: list[str] = []
    for listing in listings:
        _introduce(refreshed, listing.framework)
        groups = drop_unusable(wanted[listing.framework], reading)
        left_out += _merge(refreshed, listing, groups, reading.contents, today)
        left_out += _describe_unusable(groups, reading)
    drop_unused_citations(refreshed)
    refreshed["checked"] = today
    vanished = [row for listing in listings for row in _find_vanished(document, listing)]
    return RefreshResult(refreshed, tuple(sorted(set(left_out))), tuple(vanished))


def _introduce(document: Document, name: str) -> None:
    """Name a framework that a document does not hold yet, with its distributions and their modules."""
    if name in framework_names() and name not in document["frameworks"]:
        named = known_framework(name).distributions.items()
        document["frameworks"][name] = {"distributions": [{"module": module, "name": item} for item, module in named]}


def _find_changed(document: Document, listing: Listing) -> list[Group]:
    """List the groups of every release whose rows differ from what the index lists."""
    versions, citations = document["releases"].get(listing.framework, {}), document["citations"]
    releases = group_by_version(listing.groups).items()
    changed = (groups for name, groups in releases if not is_up_to_date(versions.get(name, ()), citations, groups))
    return [group for groups in changed for group in groups]


def _merge(
    document: Document, listing: Listing, groups: Sequence[Group], contents: Mapping[str, Contents], today: str
) -> list[str]:
    """Put what was read into the document; return a sentence for each wheel that names no Python."""
    unnamed: list[str] = []
    for members in group_by_version(groups).values():
        drafts = draft_release(listing.framework, members, contents, listing.published)
        merge_release(document, listing.framework, drafts, today)
        drafted = {draft.wheel.sha256 for draft in drafts}
        read = (group.representative for group in members if group.representative.sha256 in contents)
        unnamed += [
            f"{wheel.filename} names no Python that it is for." for wheel in read if wheel.sha256 not in drafted
        ]
    return unnamed


def _describe_unusable(groups: Iterable[Group], reading: Reading) -> Iterator[str]:
    """Say why no installer takes a wheel, and which wheel was read in its place."""
    for group in groups:
        instead = f" Read in its place: {group.representative.filename}." if group.left_out else ""
        for wheel in group.left_out or group.wheels:
            if wheel.sha256 in reading.unusable:
                yield reading.unusable[wheel.sha256] + instead


def _find_vanished(document: Document, listing: Listing) -> list[str]:
    listed = {(group.distribution, group.version, group.platform) for group in listing.groups}
    return [
        f"{row['distribution']} {version} on {row['platform']}"
        for version, rows in document["releases"].get(listing.framework, {}).items()
        for row in rows
        if Version(version) >= Version(listing.since) and (row["distribution"], version, row["platform"]) not in listed
    ]


def add_binaries(
    document: Document,
    listings: Sequence[Listing],
    reader: DeepReader,
    today: str,
    progress: Progress,
    *,
    chosen: Collection[Key] | None = None,
) -> list[Key]:
    """Read the binaries of all rows, or of the chosen ones, that lack them; return the rows that were read.

    Raises ArtifactError; the document is then incomplete, and the cache keeps what was read.
    """
    waiting = [item for listing in listings for item in _iterate_unread_rows(document, listing)]
    waiting = [item for item in waiting if chosen is None or item[0] in chosen]
    found = []
    progress(0, len(waiting))
    for done, (key, row, wheel) in enumerate(waiting, 1):
        binaries = reader.read(key[0], wheel)
        if binaries["read"]:
            apply_binaries(key[0], row, binaries, document["citations"], today)
            found.append(key)
        progress(done, len(waiting))
    return found


def find_new_rows(old: Document, new: Document) -> set[Key]:
    """Name the rows of a refreshed document that are new, or rest on another wheel than before."""
    known = {key: _get_wheel_hash(row, old["citations"]) for key, row in iterate_releases(old)}
    return {key for key, row in iterate_releases(new) if known.get(key) != _get_wheel_hash(row, new["citations"])}


def _iterate_unread_rows(document: Document, listing: Listing) -> Iterator[tuple[Key, Row, Wheel]]:
    """Yield the rows whose binaries can be read, ELF and PE only, and were not, with their wheels."""
    wheels = {group.representative.sha256: group.representative for group in listing.groups}
    for key, row in iterate_releases(document):
        wheel = wheels.get(_get_wheel_hash(row, document["citations"]))
        if wheel is None or key[0] != listing.framework or key[0] not in framework_names() or "stub_for" in row:
            continue
        if key[3].startswith(("linux", "win")) and row.get("binaries", {}).get("sha256") != wheel.sha256:
            yield key, row, wheel


def iterate_releases(document: Document, framework: str = "") -> Iterator[tuple[Key, Row]]:
    """Yield the rows of the releases of one framework, or of all, with their keys."""
    names = (framework,) if framework else tuple(document["releases"])
    for name in names:
        for version, rows in document["releases"].get(name, {}).items():
            for row in rows:
                yield (name, version, row["distribution"], row["platform"]), row


def _get_wheel_hash(row: Row, citations: Mapping[str, Any]) -> str:
    return str(citations[row["citations"][0]].get("sha256", ""))
