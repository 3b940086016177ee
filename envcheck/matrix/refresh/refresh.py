"""Renew a matrix document from the index, and from the binaries of its wheels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envcheck.host.file_changes import write_output
from envcheck.matrix.load import check_document
from envcheck.matrix.refresh.deep import SAMPLED, DeepReader, apply_binaries
from envcheck.matrix.refresh.merge import (
    Document,
    canonical_text,
    drop_unused_citations,
    find_sources,
    is_up_to_date,
    merge_release,
    split_document,
)
from envcheck.matrix.refresh.pip_settings import ArtifactError
from envcheck.matrix.refresh.reader import Reader, Reading, drop_unusable, read_usable
from envcheck.matrix.refresh.rows import Row, draft_release
from envcheck.matrix.refresh.wheel_contents import Contents
from envcheck.matrix.refresh.wheels import Group, Wheel, group_wheels


def find_user_matrix() -> Path:
    """Return where a renewed matrix goes unless its user names a file."""
    import platformdirs

    return Path(platformdirs.user_data_dir("envcheck", appauthor=False)) / "compat_matrix.json"


def save_document(document: dict[str, Any], path: Path) -> None:
    """Check a document as a user's file is checked, then write it in canonical form; raises ArtifactError."""
    check_document(document, str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, canonical_text(document))
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror}.") from error


def save_parts(document: dict[str, Any], folder: Path) -> None:
    """Check a document, then write it as the files of data/matrix; raises ArtifactError."""
    check_document(document, str(folder))
    try:
        (folder / "releases").mkdir(parents=True, exist_ok=True)
        for file, part in split_document(document):
            write_output(folder / f"{file}.json", canonical_text(part))
    except OSError as error:
        raise ArtifactError(f"{folder} cannot be written: {error.strerror}.") from error


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
    wanted = {listing.framework: _find_changed(document, listing) for listing in listings}
    reading = read_usable(wanted, reader, progress)
    reading.require_all()
    renewed = deepcopy(document)
    left_out: list[str] = []
    for listing in listings:
        groups = drop_unusable(wanted[listing.framework], reading)
        silent = _merge(renewed, listing, groups, reading.contents, today)
        left_out += [*_describe_unusable(groups, reading), *silent]
    drop_unused_citations(renewed)
    renewed["checked"] = today
    vanished = [row for listing in listings for row in _find_vanished(document, listing)]
    return Renewal(renewed, tuple(sorted(set(left_out))), tuple(vanished))


def _describe_unusable(groups: Iterable[Group], reading: Reading) -> Iterator[str]:
    """Say which wheels no installer takes, and which was read in place of each."""
    for group in groups:
        instead = f" Read in its place: {group.representative.filename}." if group.left_out else ""
        for wheel in group.left_out or group.wheels:
            if wheel.sha256 in reading.unusable:
                yield reading.unusable[wheel.sha256] + instead


def list_framework(reader: Reader, framework: str, since: str = "") -> Listing:
    """Read the index pages of a framework's distributions and group the wheels from `since` on."""
    distributions, first = find_sources(framework)
    pages = [reader.page(name) for name in distributions]
    if not any(page is not None for page in pages):
        raise ArtifactError(f"The index has no page for any distribution of {framework}; its address may be wrong.")
    wheels = (wheel for page in pages for wheel in page or ())
    return Listing(framework, tuple(group_wheels(_select_from(wheels, (first, since)))), since or "0")


def _select_from(wheels: Iterable[Wheel], floors: Iterable[str]) -> list[Wheel]:
    from packaging.version import Version

    lowest = max(Version(floor) for floor in floors if floor)
    return [wheel for wheel in wheels if Version(wheel.name.version) >= lowest]


def _find_changed(document: Document, listing: Listing) -> list[Group]:
    """List the groups of every release that the document does not show as the index lists it."""
    versions, table = document["releases"].get(listing.framework, {}), document["citations"]
    changed = (
        groups
        for name, groups in listing.by_version().items()
        if not is_up_to_date(versions.get(name, ()), table, groups)
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


def _find_vanished(document: Document, listing: Listing) -> list[str]:
    from packaging.version import Version

    listed = {(group.distribution, group.version, group.platform) for group in listing.groups}
    return [
        f"{row['distribution']} {version} on {row['platform']}"
        for version, rows in document["releases"].get(listing.framework, {}).items()
        for row in rows
        if Version(version) >= Version(listing.since) and (row["distribution"], version, row["platform"]) not in listed
    ]


DocumentDeepRefresh = dict[str, Any]
Key = tuple[str, str, str, str]  # framework, version, distribution, platform


def add_binaries(
    document: DocumentDeepRefresh,
    listings: Sequence[Listing],
    reader: DeepReader,
    today: str,
    progress: Callable[[int, int], None],
    *,
    chosen: Collection[Key] | None = None,
) -> list[Key]:
    """Read the binaries of all rows, or of the chosen ones, that lack them; return those that were read.

    Raises ArtifactError; the caller throws the document away then, and the cache keeps what was read.
    """
    waiting = [item for listing in listings for item in _iterate_unread_rows(document, listing)]
    waiting = [item for item in waiting if chosen is None or item[0] in chosen]
    found = []
    progress(0, len(waiting))
    for done, (key, row, wheel) in enumerate(waiting, 1):
        binaries = reader.read(key[0], wheel)
        if binaries["read"]:
            apply_binaries(row, binaries, document["citations"], today)
            found.append(key)
        progress(done, len(waiting))
    return found


def find_new_rows(old: DocumentDeepRefresh, new: DocumentDeepRefresh) -> set[Key]:
    """Name the rows of a renewed document that are new there or rest on another wheel than before."""
    known = {key: _get_wheel_hash(row, old["citations"]) for key, row in iterate_releases(old)}
    return {key for key, row in iterate_releases(new) if known.get(key) != _get_wheel_hash(row, new["citations"])}


def _iterate_unread_rows(document: DocumentDeepRefresh, listing: Listing) -> Iterator[tuple[Key, Row, Wheel]]:
    """Yield the rows, with the wheel they rest on, whose binaries can be read and were not: ELF and PE only."""
    wheels = {group.representative.sha256: group.representative for group in listing.groups}
    for key, row in iterate_releases(document):
        wheel = wheels.get(_get_wheel_hash(row, document["citations"]))
        if wheel is None or key[0] != listing.framework or key[0] not in SAMPLED or "stub_for" in row:
            continue
        if key[3].startswith(("linux", "win")) and row.get("binaries", {}).get("sha256") != wheel.sha256:
            yield key, row, wheel


def iterate_releases(document: DocumentDeepRefresh) -> Iterator[tuple[Key, Row]]:
    """Yield the rows of all releases by their names."""
    for framework, versions in document["releases"].items():
        for version, rows in versions.items():
            for row in rows:
                yield (framework, version, row["distribution"], row["platform"]), row


def _get_wheel_hash(row: Row, citations: Mapping[str, Any]) -> str:
    return str(citations[row["citations"][0]].get("sha256", ""))
