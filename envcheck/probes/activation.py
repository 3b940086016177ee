"""Which folders an environment's activation puts on the loader's path, where a plan of this program wrote that down."""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatch
from typing import Sequence, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Known

_HOOKS = ("bin/envcheck-cuda.sh", "etc/conda/activate.d/envcheck-cuda.sh")  # as envcheck/plan/activation.py names it


def activated_folders(host: Host, prefix: str, known: Sequence[str]) -> Tuple[str, ...]:
    """List the folders that the hook of an environment names; its patterns are held against the `known` ones."""
    found = []
    for name in _HOOKS:
        text = host.read_text(posixpath.join(prefix, name))
        for pattern in parse_hook(text.value) if isinstance(text, Known) else ():
            whole = prefix + pattern
            found += [folder for folder in known if fnmatch(folder, whole)] if "*" in pattern else [whole]
    return tuple(dict.fromkeys(found))


def parse_hook(text: str) -> Tuple[str, ...]:
    """Return the folders below the environment.

    Sample: for envcheck_folder in "$VIRTUAL_ENV"/lib/python3.12/site-packages/nvidia/*/lib; do
    """
    line = re.search(r"^for envcheck_folder in (.*); do$", text, re.MULTILINE)
    return tuple(re.findall(r'"\$(?:VIRTUAL_ENV|CONDA_PREFIX)"(/[^ ;"]+)', line.group(1))) if line else ()
