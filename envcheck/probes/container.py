"""Recognise the container that this runs in."""

from __future__ import annotations

import re
from typing import Callable, Iterator, List, Optional, Tuple

from envcheck.host.paths import or_unmounted
from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, Known, Source, Unknown, from_file

# marks of each container in the layers of the root mount
_LAYERS = (
    ("/containers/storage/", "podman"),
    ("/docker/", "docker"),
    ("/containerd/", "containerd"),
)
_VARIABLES = (
    ("KUBERNETES_SERVICE_HOST", "kubernetes"),
    ("APPTAINER_CONTAINER", "apptainer"),
    ("SINGULARITY_CONTAINER", "apptainer"),
)
_FILES = (
    ("/run/.containerenv", "podman"),
    ("/.dockerenv", "docker"),
    ("/.singularity.d", "apptainer"),
)
# values of the variable `container`
_NAMES = {"oci": "docker", "singularity": "apptainer", "lxc-libvirt": "lxc"}


def detect_container(host: Host) -> Fact[str]:
    """Return docker, podman, kubernetes, lxc, apptainer ....

    Absent only where every place is readable.
    """
    if host.system != "linux":
        return Absent(("containers are told apart on Linux only",))
    tried: List[str] = []
    unread: Optional[Unknown] = None
    for place, fact in _read_container_marks(host):
        if isinstance(fact, Known):
            return fact
        if isinstance(fact, Unknown):
            unread = unread or fact
        tried.append(place)
    return unread or or_unmounted(host, Absent(tuple(tried)), "/proc")


def _read_container_marks(host: Host) -> Iterator[Tuple[str, Fact[str]]]:
    """Yield (place, kind), the most specific first: docker may run the containers of a pod."""
    environment = host.environment()
    for variable, kind in _VARIABLES:
        yield (
            variable,
            Known(kind, Source("env", variable)) if environment.get(variable) else Absent(),
        )
    for path, kind in _FILES:
        status = host.status(path)
        yield path, from_file(kind, path) if isinstance(status, Known) else status
    name = environment.get("container", "")
    yield (
        "container",
        Known(_NAMES.get(name, name), Source("env", "container")) if name else Absent(),
    )
    for path, parse in (
        ("/run/systemd/container", lambda text: _NAMES.get(text.strip(), text.strip())),
        ("/proc/self/mountinfo", parse_root_mount),
    ):
        yield path, _parse_mark(host, path, parse)


def _parse_mark(host: Host, path: str, parse: Callable[[str], Optional[str]]) -> Fact[str]:
    text = host.read_text(path)
    if not isinstance(text, Known):
        return text
    kind = parse(text.value)
    return from_file(kind, path, kind) if kind else Absent((path,))


def parse_root_mount(text: str) -> Optional[str]:
    """Parse the kind of container in the mount of / in /proc/self/mountinfo.

    A host lists the mounts of others.

    612 570 0:52 / / rw,relatime - overlay overlay
    rw,lowerdir=/var/lib/docker/overlay2/l/ABC,upperdir=/var
    """
    match = re.search(r"^\d+ \d+ \S+ \S+ / .* - overlay (.*)$", text, re.MULTILINE)
    return next((kind for mark, kind in _LAYERS if match and mark in match.group(1)), None)
