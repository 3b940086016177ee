"""Where pip puts things in the active Python environment."""

from __future__ import annotations

from typing import List, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Known
from envcheck.probes.toolkit_paths import join


def site_packages(host: Host) -> Tuple[str, ...]:
    """Return the site-packages folders of the active venv and conda environment that exist."""
    folders: List[str] = []
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = host.environment().get(variable)
        if prefix:
            folders += _below(host, prefix)
    return tuple(dict.fromkeys(folders))


def _below(host: Host, prefix: str) -> List[str]:
    if host.system == "windows":
        candidates = [join(host, prefix, "Lib", "site-packages")]
    else:
        names = host.list_folder(join(host, prefix, "lib"))
        pythons = [name for name in names.value if name.startswith("python")] if isinstance(names, Known) else []
        candidates = [join(host, prefix, "lib", name, "site-packages") for name in pythons]
    return [real.value for real in map(host.real_path, candidates) if isinstance(real, Known)]
