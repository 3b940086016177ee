"""What is kept of a wheel: its metadata and a few Python texts, checked against the wheel's own RECORD."""

from __future__ import annotations

import base64
import csv
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envcheck.matrix.renew.errors import ArtifactError, UnusableWheelError
from envcheck.matrix.renew.wheels import Wheel

# Framework -> names of the Python texts that tell how it was built.
TEXTS = {
    "tensorflow": r"tensorflow[^/]*/(?:[^/]+/)*platform/build_info\.py",
    "torch": r"torch/version\.py|torch/cuda/__init__\.py",
}


@dataclass(frozen=True)
class Contents:
    """The members of a wheel that matter here."""

    metadata: str  # the header of METADATA, without the description
    entries: int  # members in the wheel
    texts: Mapping[str, str]  # member name -> Python text
    altered: bool = False  # METADATA was changed after RECORD was written, as in some published wheels

    def text(self, ending: str) -> str:
        """Return the text of the member whose name ends so; "" where there is none."""
        return next((text for name, text in self.texts.items() if name.endswith(ending)), "")

    def to_json(self) -> dict[str, Any]:
        """Return a plain form for the cache."""
        found = {"metadata": self.metadata, "entries": self.entries, "texts": dict(self.texts)}
        return {**found, "altered": self.altered}


def from_json(value: Any) -> Contents | None:
    """Read the plain form back; None for anything else."""
    if not isinstance(value, dict) or set(value) != {"metadata", "entries", "texts", "altered"}:
        return None
    texts = value["texts"]
    fits = isinstance(value["metadata"], str) and isinstance(value["entries"], int) and isinstance(texts, dict)
    if not fits or not all(isinstance(item, str) for item in texts.values()):
        return None
    return Contents(**value)


def wanted_members(names: list[str], framework: str) -> dict[str, str]:
    """Choose the members to read: {"METADATA": ..., "RECORD": ..., name: name for each text}.

    Refuses names that would leave the folder they are unpacked in, although nothing is unpacked here.
    """
    bad = [name for name in names if name.startswith("/") or "\\" in name or ":" in name or ".." in name.split("/")]
    if bad:
        raise ArtifactError(f"it holds a path that leaves its folder ({bad[0][:80]!r})")
    found = {name: name for name in names if re.fullmatch(TEXTS.get(framework, "(?!)"), name)}
    for wanted in ("METADATA", "RECORD"):
        members = [name for name in names if re.fullmatch(rf"[^/]+\.dist-info/{wanted}", name)]
        if len(members) != 1:
            raise UnusableWheelError(f"it holds {len(members)} {wanted} files instead of one")
        found[wanted] = members[0]
    doubled = [name for name in found.values() if names.count(name) > 1]
    if doubled:
        raise ArtifactError(f"it holds {doubled[0]!r} more than once")
    return found


def checked_contents(wheel: Wheel, chosen: Mapping[str, str], members: Mapping[str, bytes], entries: int) -> Contents:
    """Build the contents after comparing METADATA with what the index says of it, and Python texts with RECORD.

    Installers do not hold METADATA against RECORD, and in dozens of published wheels it differs: that is noted.
    """
    recorded = parse_record(members["RECORD"].decode("utf-8"))
    differing = {
        key for key, name in chosen.items() if recorded.get(name, _digest(members[key])) != _digest(members[key])
    }
    texts = {name: data for name, data in members.items() if name not in {"METADATA", "RECORD"}}
    for name in sorted(differing & set(texts)):
        raise ArtifactError(f"{name} does not have the hash that its RECORD gives")
    if wheel.metadata_sha256 and hashlib.sha256(members["METADATA"]).hexdigest() != wheel.metadata_sha256:
        raise ArtifactError("its METADATA does not have the hash that the index gives")
    header = members["METADATA"].decode("utf-8", "replace").replace("\r\n", "\n").partition("\n\n")[0]
    _check_name(wheel, header)
    read = {name: data.decode("utf-8") for name, data in texts.items()}
    return Contents(header, entries, read, altered="METADATA" in differing)


def parse_record(text: str) -> dict[str, str]:
    """Map each member of a RECORD to its hash.

    tensorflow-2.15.0.dist-info/METADATA,sha256=o3bxdlXiLO4rMYwXVx3N5Ni3b4CwhFYnZhQsdqGcEmg,3551
    """
    rows = (row for row in csv.reader(text.splitlines()) if len(row) == 3)
    return {name: digest for name, digest, _ in rows if digest.startswith("sha256=")}


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode("ascii")


def _check_name(wheel: Wheel, header: str) -> None:
    """Refuse a wheel whose METADATA is of another release than its file name says."""
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion, Version

    fields = dict(line.split(": ", 1) for line in header.splitlines() if re.match(r"(Name|Version): ", line))
    try:
        same = canonicalize_name(fields["Name"]) == wheel.name.distribution
        same = same and Version(fields["Version"]).public == Version(wheel.name.version).public
    except (KeyError, InvalidVersion):
        same = False
    if not same:
        raise UnusableWheelError("its METADATA is of another release than its file name says")
