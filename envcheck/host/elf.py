"""Read what a shared library says of itself, without loading it."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Tuple

from envcheck.host.protocol import ElfFacts
from envcheck.model import Fact, Known, Source, Unknown

_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64", "EM_386": "i386", "EM_ARM": "arm", "EM_PPC64": "ppc64"}


def read_elf(path: str) -> Fact[ElfFacts]:
    """Read the dynamic section and symbol versions of an ELF file; errors of the file system are raised."""
    from elftools.common.exceptions import ELFError  # pyelftools costs several bare interpreter starts
    from elftools.construct import ConstructError
    from elftools.elf.elffile import ELFFile

    os.stat(path)
    if not os.path.isfile(path):
        return Unknown("failed", f"{path} is not a regular file", (path,))
    try:
        with open(path, "rb") as stream:
            return Known(_facts(ELFFile(stream), path), Source("file", path))
    except (ELFError, ConstructError, UnicodeDecodeError, AttributeError, AssertionError, TypeError) as error:
        # pyelftools meets truncated and corrupt files with any of these.
        return Unknown("unparsable", f"{path}: {error or type(error).__name__}", (path,))


def _facts(elf: Any, path: str) -> ElfFacts:
    entries = _dynamic(elf)
    runpath = entries.get("DT_RUNPATH") or entries.get("DT_RPATH") or [""]
    return ElfFacts(
        machine=_MACHINES.get(elf["e_machine"], str(elf["e_machine"])),
        soname=entries.get("DT_SONAME", [""])[0],
        needed=tuple(entries.get("DT_NEEDED", ())),
        runpath=expand_runpath(runpath[0], path),
        is_rpath="DT_RUNPATH" not in entries,
        versions_needed=tuple(dict.fromkeys(_versions(elf, ".gnu.version_r"))),
        versions_defined=tuple(_versions(elf, ".gnu.version_d")),
    )


def expand_runpath(text: str, path: str) -> Tuple[str, ...]:
    """Split a RUNPATH, $ORIGIN replaced by the real folder of the file as the loader does.

    Sample: '$ORIGIN/../nvidia/cudnn/lib:$ORIGIN' in /v/torch/lib/x.so -> /v/torch/nvidia/cudnn/lib, /v/torch/lib
    """
    origin = os.path.dirname(os.path.realpath(path))
    parts = (part.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for part in text.split(":"))
    return tuple(dict.fromkeys(os.path.normpath(part) for part in parts if part))


def _dynamic(elf: Any) -> Dict[str, List[str]]:
    names = {"DT_NEEDED": "needed", "DT_SONAME": "soname", "DT_RUNPATH": "runpath", "DT_RPATH": "rpath"}
    entries: Dict[str, List[str]] = {}
    for segment in elf.iter_segments("PT_DYNAMIC"):
        for tag in segment.iter_tags():
            if tag.entry.d_tag in names:
                entries.setdefault(tag.entry.d_tag, []).append(str(getattr(tag, names[tag.entry.d_tag])))
    return entries


def _versions(elf: Any, section_name: str) -> Iterator[str]:
    section = elf.get_section_by_name(section_name)
    for _, auxiliaries in section.iter_versions() if section is not None else ():
        names = [auxiliary.name for auxiliary in auxiliaries]
        # A definition's first name is the version itself, the others are its parents.
        yield from names if section_name.endswith("_r") else names[:1]
