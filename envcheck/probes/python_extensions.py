"""Read what compiled CUDA extensions beside the frameworks were built for."""

from __future__ import annotations

import fnmatch
import posixpath
from typing import Iterator, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source
from envcheck.model.python_env import Distribution, Extension
from envcheck.probes.cuda_data import cuda_data
from envcheck.probes.python_installed import Installed


def collect_extensions(host: Host, installed: Installed, where: Source) -> Fact[Tuple[Extension, ...]]:
    """Read the libraries that known extensions need: flash-attn, mmcv, apex, torchvision ..."""
    known = cuda_data()["extensions"]
    found = [
        extension
        for distribution in installed.distributions
        if distribution.name in known
        for pattern in known[distribution.name]
        for extension in _read(host, distribution, pattern)
    ]
    return Known(tuple(found), where) if found else Absent(("distributions: " + ", ".join(sorted(known)),))


def _read(host: Host, distribution: Distribution, pattern: str) -> Iterator[Extension]:
    needs = tuple(cuda_data()["extension_needs"])
    folder, name_pattern = posixpath.split(posixpath.join(distribution.location, pattern))
    names = host.list_folder(folder)
    for name in names.value if isinstance(names, Known) else ():
        if fnmatch.fnmatchcase(name, name_pattern) and ".so" in name:
            path = posixpath.join(folder, name)
            elf = host.elf(path)
            if isinstance(elf, Known):
                needed = tuple(each for each in elf.value.needed if each.startswith(needs))
                yield Extension(distribution.name, path, needed)
