"""The compiler nvcc hands host code to, which need not be the one that `gcc` starts in a shell."""

from __future__ import annotations

import re
from typing import List, Optional

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source
from envcheck.probes.toolkit_paths import join, parent


def nvcc_host_compiler(host: Host, nvcc: str) -> Fact[str]:
    """Return the host compiler of the real program `nvcc`.

    The order is nvcc's own, as its -dryrun shows (11.8, 13.0): the last -ccbin, with NVCC_APPEND_FLAGS
    after NVCC_PREPEND_FLAGS; NVCC_CCBIN; compiler-bindir in nvcc.profile; a gcc beside nvcc, since nvcc
    puts its own folder ahead of PATH (Debian's package relies on it); gcc on PATH.
    """
    environment = host.environment()
    for variable in ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS"):
        chosen = parse_ccbin(environment.get(variable, ""))
        if chosen:
            return _named(host, chosen, variable)
    if environment.get("NVCC_CCBIN"):
        return _named(host, environment["NVCC_CCBIN"], "NVCC_CCBIN")
    if host.system == "windows":
        return host.find_program("cl")
    return _from_profile(host, parent(nvcc)) or _beside(host, parent(nvcc)) or host.find_program("gcc")


def parse_ccbin(flags: str) -> Optional[str]:
    """Return the last host compiler in a string of nvcc options.

    -allow-unsupported-compiler -ccbin /usr/bin/g++-12
    --compiler-bindir=/opt/gcc-11/bin
    """
    import shlex

    try:
        words = shlex.split(flags)
    except ValueError:  # an unclosed quote: nvcc itself would stop at it
        words = flags.split()
    chosen: List[str] = []
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in ("-ccbin", "--compiler-bindir"):
            chosen += [value] if equals else words[index + 1 : index + 2]
    return chosen[-1] if chosen else None


def parse_profile_bindir(text: str) -> Optional[str]:
    """Return compiler-bindir from an nvcc.profile; lines that begin with # are comments.

    TOP              = $(_HERE_)/..
    compiler-bindir  = /usr/lib/nvidia-cuda-toolkit/bin
    """
    match = re.search(r"^compiler-bindir\s*\??=\s*(\S+)", text, re.MULTILINE)
    return match.group(1) if match else None


def _named(host: Host, chosen: str, variable: str) -> Fact[str]:
    """Follow what -ccbin accepts: a compiler's path, the folder of a gcc, or a name on PATH."""
    if "/" not in chosen and "\\" not in chosen:
        path = host.find_program(chosen)
        return path if isinstance(path, Known) else Absent((f"{variable} names {chosen}, which is not on PATH",))
    status = host.status(chosen)
    if isinstance(status, Known) and status.value.kind == "folder":
        chosen = join(host, chosen, "gcc")
        status = host.status(chosen)
    if isinstance(status, Absent):
        return Absent((f"{variable} names {chosen}, which is not there",))
    return Known(chosen, Source("env", variable)) if isinstance(status, Known) else status


def _from_profile(host: Host, folder: str) -> Optional[Fact[str]]:
    profile = join(host, folder, "nvcc.profile")
    text = host.read_text(profile)
    bindir = parse_profile_bindir(text.value) if isinstance(text, Known) else None
    if bindir is None:
        return None
    bindir = bindir.replace("$(_HERE_)", folder).replace("$(TOP)", parent(folder))
    return Known(join(host, bindir, "gcc"), Source("file", profile, f"compiler-bindir = {bindir}"))


def _beside(host: Host, folder: str) -> Optional[Fact[str]]:
    status = host.status(join(host, folder, "gcc"))
    if isinstance(status, Known) and status.value.kind == "file":
        return Known(join(host, folder, "gcc"), Source("file", join(host, folder, "gcc"), "beside nvcc"))
    return None
