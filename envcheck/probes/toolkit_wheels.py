"""Where pip puts things in the active Python environment."""

from __future__ import annotations

import re
from typing import List, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Known
from envcheck.probes.toolkit_paths import folders_in, join


def site_packages(host: Host) -> Tuple[str, ...]:
    """Return the site-packages folders of the active venv and conda environment that exist.

    LD_LIBRARY_PATH may name wheels of an environment that is not active: .../site-packages/nvidia/cudnn/lib.
    """
    folders: List[str] = []
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = host.environment().get(variable)
        if prefix:
            folders += _below(host, prefix)
    for folder in folders_in(host, "LD_LIBRARY_PATH"):
        match = re.search(r"^(.+/(?:site|dist)-packages)/(?:nvidia|tensorrt_libs)\b", folder)
        if match:
            folders += _existing(host, [match.group(1)])
    return tuple(dict.fromkeys(folders))


def _below(host: Host, prefix: str) -> List[str]:
    if host.system == "windows":
        candidates = [join(host, prefix, "Lib", "site-packages")]
    else:
        names = host.list_folder(join(host, prefix, "lib"))
        pythons = [name for name in names.value if name.startswith("python")] if isinstance(names, Known) else []
        candidates = [join(host, prefix, "lib", name, "site-packages") for name in pythons]
    return _existing(host, candidates)


def _existing(host: Host, candidates: List[str]) -> List[str]:
    return [real.value for real in map(host.real_path, candidates) if isinstance(real, Known)]
