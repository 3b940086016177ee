"""What kind of container this is, if any."""

from __future__ import annotations

import re
from typing import Callable, Iterator, List, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown

# What stands in the cgroup path of process 1, or in the layers of the root mount, of each kind.
_CGROUP = (("kubepods", "kubernetes"), ("libpod", "podman"), ("docker", "docker"), ("lxc", "lxc"))
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
_FILES = (("/run/.containerenv", "podman"), ("/.dockerenv", "docker"), ("/.singularity.d", "apptainer"))
_NAMES = {"oci": "docker", "singularity": "apptainer", "lxc-libvirt": "lxc"}  # of the variable `container`


def container_kind(host: Host) -> Fact[str]:
    """Return docker, podman, kubernetes, lxc, apptainer ...; absent only when every place could be read."""
    if host.system != "linux":
        return Absent(("containers are told apart on Linux only",))
    tried: List[str] = []
    unread: Optional[Unknown] = None
    for where, answer in _readings(host):
        if isinstance(answer, Known):
            return answer
        if isinstance(answer, Unknown):
            unread = unread or answer
        tried.append(where)
    return unread or Absent(tuple(tried))


def parse_cgroup(text: str) -> Optional[str]:
    """Return the kind of container in /proc/1/cgroup.

    12:devices:/kubepods/besteffort/pod4e3b/0c5d1e
    0::/docker/3f4c1b2a
    """
    found = (kind for mark, kind in _CGROUP if re.search(rf"[/:.-]{mark}", text))
    return next(found, None)


def parse_root_mount(text: str) -> Optional[str]:
    """Return the kind of container in /proc/self/mountinfo: only the mount of / counts, a host lists others.

    612 570 0:52 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/ABC,upperdir=/var
    """
    match = re.search(r"^\d+ \d+ \S+ \S+ / .* - overlay (.*)$", text, re.MULTILINE)
    found = (kind for mark, kind in _LAYERS if match and mark in match.group(1))
    return next(found, None)


def _readings(host: Host) -> Iterator[Tuple[str, Fact[str]]]:
    """Yield (place, answer), the most telling first: a pod's container may be made by docker."""
    environment = host.environment()
    for variable, kind in _VARIABLES:
        yield variable, Known(kind, Source("env", variable)) if environment.get(variable) else Absent()
    for path, kind in _FILES:
        status = host.status(path)
        yield path, Known(kind, Source("file", path)) if isinstance(status, Known) else status
    named = environment.get("container", "")
    yield "container", Known(_NAMES.get(named, named), Source("env", "container")) if named else Absent()
    yield "/run/systemd/container", _told(host, "/run/systemd/container", _systemd_name)
    yield "/proc/1/cgroup", _told(host, "/proc/1/cgroup", parse_cgroup)
    yield "/proc/self/mountinfo", _told(host, "/proc/self/mountinfo", parse_root_mount)


def _systemd_name(text: str) -> Optional[str]:
    return _NAMES.get(text.strip(), text.strip()) or None


def _told(host: Host, path: str, parse: Callable[[str], Optional[str]]) -> Fact[str]:
    text = host.read_text(path)
    if not isinstance(text, Known):
        return text
    kind = parse(text.value)
    return Known(kind, Source("file", path, kind)) if kind else Absent((path,))
