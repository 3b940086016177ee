"""What CUDA makes of CUDA_VISIBLE_DEVICES, as a pure function.

Sources: "CUDA Environment Variables" in the CUDA Programming Guide (indices, the stop at the first invalid one, empty
list, UUIDs and their prefixes, MIG ids) and torch/cuda/__init__.py of PyTorch 2.x, which follows the driver where the
guide is silent (blanks, letters, doubled entries). A form neither describes is not decided.

| value, two GPUs        | seen       | because                                                      |
|------------------------|------------|--------------------------------------------------------------|
| unset                  | all        |                                                              |
| "" or blanks           | none       | an empty list                                                |
| "1", "1,0", " 1, 0"    | as listed  | leading blanks are skipped                                   |
| "-1", "-1,0"           | none       | the list ends at the first invalid entry                     |
| "0,-1,1", "0,,1"       | 0          | likewise                                                     |
| "2", "12, 13"          | none       | out of range is invalid                                      |
| "O,l", "all", "NoDev…" | none       | no number: invalid                                           |
| "0,0"                  | none       | a doubled entry empties the list                             |
| "GPU-8932"             | that GPU   | a prefix that fits one GPU                                   |
| "GPU-ffff", ambiguous  | none       | invalid                                                      |
| "MIG-…"                | 1 instance | CUDA uses one MIG instance in a process, the first listed    |
| "0 1", "0;1", "0x1"    | undecided  | a number with more behind it                                 |
| "0,GPU-…", "gpu-…"     | undecided  | mixed forms, other spellings                                 |
"""

from __future__ import annotations

import re

from envcheck.model import dataclass

UNDECIDED = "the form is not described anywhere"


@dataclass(frozen=True)
class Selection:
    """The GPUs that stay visible, by position; `decided` is false where the form proves nothing."""

    visible: tuple[int, ...]
    why: str = ""  # why entries are left out, in words; empty when every entry counts
    decided: bool = True


def select_devices(value: str, uuids: tuple[str, ...], mig_uuids: tuple[tuple[str, ...], ...]) -> Selection:
    """Say which GPUs a value leaves visible; `uuids` and `mig_uuids` are per GPU, an empty uuid is an unknown one."""
    entries = [entry.strip() for entry in value.split(",")]
    if not value.strip():
        return Selection((), "an empty list hides every GPU")
    forms = {_form(entry) for entry in entries}
    if "odd" in forms or len(forms - {"invalid"}) > 1:
        return Selection((), UNDECIDED, decided=False)
    if "uuid" in forms:
        return _by_uuid(entries, uuids)
    if "mig" in forms:
        return _by_mig(entries[0], mig_uuids)
    return _by_index(entries, len(uuids))


def _form(entry: str) -> str:
    if re.fullmatch(r"\+?\d+", entry):
        return "index"
    if re.match(r"GPU-", entry):
        return "uuid"
    if re.match(r"MIG-", entry):
        return "mig"
    if re.match(r"[+-]?\d", entry) and not re.fullmatch(r"-\d+", entry):
        return "odd"
    return "odd" if re.match(r"(?i)(gpu|mig)-", entry) else "invalid"


def _by_index(entries: list[str], count: int) -> Selection:
    found: list[int] = []
    for entry in entries:
        if _form(entry) == "invalid" or int(entry) >= count:
            return Selection(tuple(found), _stop(entry, count))
        if int(entry) in found:
            return Selection((), f"GPU {entry} is listed twice, which empties the list")
        found.append(int(entry))
    return Selection(tuple(found))


def _stop(entry: str, count: int) -> str:
    if re.fullmatch(r"\+?\d+", entry):
        there = "there is only GPU 0" if count == 1 else f"the GPUs are 0 to {count - 1}"
        return f"{entry} is out of range ({there}), and the list ends at the first invalid entry"
    shown = f"{entry!r} is no GPU" if entry else "an entry is empty"
    return f"{shown}, and the list ends at the first invalid entry"


def _by_uuid(entries: list[str], uuids: tuple[str, ...]) -> Selection:
    if not all(uuids):
        return Selection((), "the UUIDs of the GPUs are not known", decided=False)
    found: list[int] = []
    for entry in entries:
        fitting = [position for position, uuid in enumerate(uuids) if uuid.startswith(entry)]
        if len(fitting) != 1:
            what = "fits several GPUs" if fitting else "is no GPU here"
            return Selection(tuple(found), f"{entry} {what}, and the list ends at the first invalid entry")
        if fitting[0] in found:
            return Selection((), f"{entry} is listed twice, which empties the list")
        found.append(fitting[0])
    return Selection(tuple(found))


def _by_mig(entry: str, mig_uuids: tuple[tuple[str, ...], ...]) -> Selection:
    if re.match(r"MIG-GPU-", entry):  # the older form: MIG-<GPU UUID>/<GPU instance>/<compute instance>
        return Selection((), "the older form of MIG names is not resolved", decided=False)
    fitting = [position for position, uuids in enumerate(mig_uuids) if entry in uuids]
    if fitting:
        return Selection((fitting[0],))
    known = any(mig_uuids)
    return Selection((), f"{entry} is no MIG instance here" if known else "no MIG instance is listed", decided=known)
