"""Versions that headers define by macros."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Fact, Known, Source, Unknown
from envcheck.probes.cuda_libraries_kinds import LibraryKind
from envcheck.probes.toolkit_paths import join

_HEADER_BYTES = 1 << 17  # nccl.h and the old cudnn.h define their version near the top


def parse_version_macros(text: str, macros: Tuple[Tuple[str, ...], ...]) -> Optional[str]:
    """Return major.minor.patch from the first number any of each part's macros is defined as.

    #define CUDNN_MAJOR 8
    #define CUDNN_MINOR 9
    #define CUDNN_PATCHLEVEL 7
    """
    parts = []
    for names in macros:
        match = re.search(rf"^[ \t]*#[ \t]*define[ \t]+(?:{'|'.join(names)})[ \t]+(\d+)\b", text, re.MULTILINE)
        if match is None:
            return None
        parts.append(match.group(1))
    return ".".join(parts)


def read_headers(host: Host, kind: LibraryKind, folders: Tuple[str, ...]) -> Dict[str, Tuple[str, Fact[str]]]:
    """Return major -> (header, version); the key "" holds a header that could not be read, alone."""
    found: Dict[str, Tuple[str, Fact[str]]] = {}
    unread: List[Tuple[str, Fact[str]]] = []
    for folder in folders:
        for name in kind.headers:
            path = join(host, folder, name)
            text = host.read_text(path, _HEADER_BYTES)
            version = parse_version_macros(text.value, kind.macros) if isinstance(text, Known) else None
            if version is not None:
                fact = Known(version, Source("file", path, f"{kind.macros[0][0]} {version.split('.')[0]} ..."))
                found.setdefault(version.split(".")[0], (path, fact))
            elif isinstance(text, Unknown):
                unread.append((path, text))
            elif isinstance(text, Known) and name == kind.headers[0]:
                unread.append((path, Unknown("unparsable", f"{path} defines no {kind.macros[0][0]}", (path,))))
    return found or ({"": unread[0]} if unread else {})
