"""Read which driver packages dpkg has installed."""

from __future__ import annotations

import re
from typing import Dict, Mapping

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source

_STATUS = "/var/lib/dpkg/status"
_LIMIT = 32 << 20  # bytes; a desktop with 5,000 packages has 8 MB
_DRIVER = r".*nvidia|libcuda1|libcuda-\d|cuda-compat|cuda-drivers"
_TOOLKIT = r"nvidia-(?:cuda|cudnn|visual|profiler|nsight)"  # toolkits and cuDNN are other probes' matter


def read_packages(host: Host) -> Fact[Mapping[str, str]]:
    """Read the installed driver packages from dpkg's status file."""
    text = host.read_text(_STATUS, _LIMIT)
    if not isinstance(text, Known):
        return text
    packages = parse_dpkg_status(text.value)
    if not packages:
        return Absent((_STATUS,))
    return Known(packages, Source("file", _STATUS, ", ".join(packages)[:200]))


def parse_dpkg_status(text: str) -> Dict[str, str]:
    r"""Read the installed driver packages.

    "Package: libnvidia-compute-535\nStatus: install ok installed\nPriority: optional\n…\n
    Version: 535.261.03-0ubuntu0.22.04.1\n…\n\n" -> {"libnvidia-compute-535": "535.261.03-0ubuntu0.22.04.1"}
    """
    packages: Dict[str, str] = {}
    for stanza in text.split("\n\n"):
        name = stanza[9 : stanza.find("\n")] if stanza.startswith("Package: ") else ""
        if not re.match(_DRIVER, name) or re.match(_TOOLKIT, name):
            continue
        version = re.search(r"^Version: (\S+)", stanza, re.MULTILINE)
        if version and re.search(r"^Status: \S+ ok installed", stanza, re.MULTILINE):
            packages[name] = version.group(1)
    return packages
