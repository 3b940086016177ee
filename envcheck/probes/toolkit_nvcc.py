"""nvcc: the real program behind the name on PATH, and what it says of itself."""

from __future__ import annotations

import re
from typing import Mapping, Optional, Tuple

from envcheck.host.protocol import Completed, Host
from envcheck.model.facts import Fact, Known, Source, Unknown
from envcheck.model.records import dataclass
from envcheck.probes.toolkit_paths import base_name, parent

_WRAPPERS = 4  # a wrapper of a wrapper of a wrapper is already odd
_WRAPPER_BYTES = 4096


@dataclass(frozen=True)
class NvccOnPath:
    """The nvcc a shell would start, the real program behind it, and the root of its toolkit."""

    found: Fact[str]
    real: Fact[str]
    root: Fact[str]


def nvcc_on_path(host: Host) -> NvccOnPath:
    """Find nvcc on PATH and follow links and wrapper scripts to its toolkit."""
    found = host.find_program("nvcc")
    if not isinstance(found, Known):
        return NvccOnPath(found, found, found)
    real = real_nvcc(host, found.value)
    return NvccOnPath(found, real, _root_of(real))


def real_nvcc(host: Host, path: str) -> Fact[str]:
    """Follow links and wrapper scripts: Debian's /usr/bin/nvcc only starts the real one."""
    here = path
    for _ in range(_WRAPPERS):
        real = host.real_path(here)
        if not isinstance(real, Known):
            return real
        head = host.read_bytes(real.value, _WRAPPER_BYTES)
        script = head.value.decode("utf-8", "replace") if isinstance(head, Known) else ""
        target = parse_nvcc_wrapper(script, host.environment()) if script.startswith("#!") else None
        if target is None:
            return Known(real.value, Source("file", path, f"-> {real.value}" if real.value != path else ""))
        here = target
    return Unknown("failed", f"{path} leads from wrapper to wrapper", (path,))


def parse_nvcc_wrapper(script: str, environment: Mapping[str, str]) -> Optional[str]:
    """Return the nvcc a wrapper script starts, variables it uses expanded.

    Debian's /usr/bin/nvcc (nvidia-cuda-toolkit 11.8.89~11.8.0-5~deb12u1):
        #!/bin/sh

        exec /usr/lib/nvidia-cuda-toolkit/bin/nvcc "$@"
    """
    expanded = re.sub(r"\$\{?(\w+)\}?", lambda match: environment.get(match.group(1), match.group(0)), script)
    match = re.search(r"^\s*(?:exec\s+)?[\"']?(/[^\s\"']*/nvcc(?:\.real)?)[\"']?(?:\s|$)", expanded, re.MULTILINE)
    return match.group(1) if match else None


def parse_nvcc_version(text: str) -> Optional[Tuple[str, str]]:
    """Return (release, build) from the output of `nvcc --version`, None when it is not that.

    The build is nvcc's own number, not the toolkit's patch level: 11.5.1 brings V11.5.119.

        nvcc: NVIDIA (R) Cuda compiler driver
        Copyright (c) 2005-2025 NVIDIA Corporation
        Built on Wed_Aug_20_01:58:59_PM_PDT_2025
        Cuda compilation tools, release 13.0, V13.0.88
        Build cuda_13.0.r13.0/compiler.36424714_0
    """
    match = re.search(r"release (\d+\.\d+), V(\d+(?:\.\d+)+)", text)
    return (match.group(1), match.group(2)) if match else None


def read_nvcc_version(answer: Fact[Completed], command: str) -> Tuple[Fact[str], Fact[str]]:
    """Return (release, build) facts from a finished `nvcc --version`."""
    if not isinstance(answer, Known):
        return answer, answer
    versions = parse_nvcc_version(answer.value.stdout)
    if versions is None:
        reason = _no_version(answer.value, command)
        return reason, reason
    release, build = versions
    source = Source("command", command, f"release {release}, V{build}")
    return Known(release, source), Known(build, source)


def _no_version(done: Completed, command: str) -> Unknown:
    if done.returncode < 0:
        return Unknown("crashed", f"nvcc was ended by signal {-done.returncode}", (command,))
    said = (done.stderr or done.stdout).strip()[:200]
    if done.returncode != 0:
        return Unknown("failed", f"nvcc ended with status {done.returncode}: {said!r}", (command,))
    return Unknown("unparsable", f"nvcc printed no release: {said!r}", (command,))


def _root_of(real: Fact[str]) -> Fact[str]:
    if not isinstance(real, Known):
        return real
    folder = parent(real.value)
    if not base_name(real.value).startswith("nvcc") or base_name(folder).lower() not in ("bin", "x64"):
        # ccache stands in for compilers by a link of their name
        return Unknown("unparsable", f"{real.value} does not lie in a toolkit's bin folder", (real.value,))
    root = parent(folder if base_name(folder).lower() == "bin" else parent(folder))
    return Known(root or "/", Source("file", real.value))
