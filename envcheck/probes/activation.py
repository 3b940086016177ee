"""Which folders an environment's activation puts on the loader's path, where a plan of this program wrote that down."""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatch
from typing import Sequence, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Known

_PREFIX = '"$prefix"'
_LAUNCHER = "bin/envcheck-cuda"  # as envcheck/plan/activation.py names it


def activated_folders(host: Host, prefix: str, known: Sequence[str]) -> Tuple[str, ...]:
    """List the folders that an environment's activation sets; its patterns are held against the `known` ones."""
    found = []
    text = host.read_text(posixpath.join(prefix, _LAUNCHER))
    for pattern in parse_launcher(text.value) if isinstance(text, Known) else ():
        whole = pattern.replace(_PREFIX, prefix)
        found += [folder for folder in known if fnmatch(folder, whole)] if "*" in pattern else [whole]
    return tuple(dict.fromkeys(found))


def parse_launcher(text: str) -> Tuple[str, ...]:
    """Return the folders, those below the environment with "$prefix" in front.

    Sample: add "$prefix"/lib/python3.12/site-packages/nvidia/*/lib
    """
    line = re.search(r"^add (.*)$", text, re.MULTILINE)
    return tuple(re.findall(r'(?:"\$prefix")?/[^ ;"]+', line.group(1))) if line else ()
