"""What a log tells that may stand in a fix: every value of it checked against the shape of its kind."""

from __future__ import annotations

import re
from functools import cached_property

from envcheck.explain.log import Claim, Log
from envcheck.frameworks import identities

_VERSION = r"\d{1,4}(?:\.\d{1,8}){0,4}(?:[a-z]{1,4}\d{1,3})?"
_NAME = r"[A-Za-z0-9][A-Za-z0-9_]*(?:[.-][A-Za-z0-9_]+)*"
PATH = r"(?:[A-Za-z]:)?[\w./\\~][\w ./\\+@()~-]*"
_CLAUSES = r"(?:(?:===|==|>=|<=|!=|~=|<|>)[0-9][A-Za-z0-9.*+!-]*,?)*"
_VERSIONS = (
    "cc_min", "clang_limit", "cuda_wanted", "cudnn_built", "cudnn_loaded", "gcc", "gcc_max", "gcc_min",
    "driver_wanted", "gcc_over", "glibc_wanted", "hdf5", "nvcc", "ptx", "torch_cuda", "version",
)  # fmt: skip
# Captures that may be shown, and the shape of each; what is not listed never enters a fix.
SHAPES = {
    **dict.fromkeys(_VERSIONS, _VERSION),
    **dict.fromkeys(("missing_module", "module", "name", "package", "process"), _NAME),
    "image_platform": r"[a-z0-9]+/[a-z0-9]+(?:/v\d)?",
    "library": r"[\w./+-]+",
    "mig": r"MIG-[\w/-]+",
    "node": r"(?:GLIBCXX|CXXABI)_[\d.]+",
    "path": PATH,
    "pid": r"\d{1,8}",
    "requirement": rf"[A-Za-z0-9][\w.-]*(?:\[[\w,-]+\])?{_CLAUSES}",
    "std": r"c\+\+\d\d",
    "visible": r"-?[\w,-]*",
    "xid": r"\d{1,3}",
}
# PyTorch's words stand first: a log that has those of several is mostly of a program that it runs.
_LIKELIEST_FIRST = sorted(identities(), key=lambda item: not item.index)
_WINDOWS = ("win-", "winerror", "msvc-", "tensorflow-intel", "tf-windows", "tdr")
COMPILING = {
    "apex-cuda-mismatch", "cmake-cuda-not-found", "cmake-no-cuda", "cuda-home-not-set", "extension-cuda-different",
    "find-cuda-old", "flash-attn-cuda-old", "header-not-found", "linker-cuda-library", "nvcc-not-found",
    "tf-configure-cuda", "torch-cuda-mismatch",
}  # fmt: skip
_TENSORFLOWS = ("missing-dynamic-library", "missing-dlerror", "cudnn-handle", "cudnn-runtime-older")  # its words


class Told:
    """The values of one claim's messages, then those of the whole log."""

    def __init__(self, log: Log, claim: Claim) -> None:
        self.log, self.claim = log, claim

    def value(self, name: str) -> str:
        """Return a value by its name, "" where the log does not tell it or it has not the shape of its kind."""
        from envcheck.explain.derived import DERIVED

        derive = DERIVED.get(name)
        return derive(self) if derive else self.captured(name)

    def captured(self, name: str) -> str:
        """Return a captured value: of the claim's own messages first."""
        shape = SHAPES.get(name)
        own = (event.captured.get(name, "") for event in self.claim.events)
        found = next((value for value in own if value), "") or self.log.first(name)
        return plain(found.strip(".,:;"), shape) if shape else ""

    @property
    def signatures(self) -> tuple[str, ...]:
        """Name the messages behind the claim."""
        return tuple(event.signature for event in self.claim.events)

    @cached_property
    def framework(self) -> str:
        """Name the framework the claim is about: by its messages, then by what is installed, then by the log."""
        texts = " ".join(event.text for event in self.claim.events)
        others = " ".join(event.text for event in self.log.events)
        starts = {item.name: item.log_signatures for item in identities()}
        named = {name for name, first in starts.items() if any(item.startswith(first) for item in self.signatures)}
        for found in (named, *(_named(text) for text in (texts, " ".join(self.log.packages), others))):
            if len(found) == 2 and "jax" in found and "tensorflow" not in texts:
                return "jax"  # both are built on XLA
            if found:
                return next(item.name for item in _LIKELIEST_FIRST if item.name in found)
        return "tensorflow" if set(self.signatures) & set(_TENSORFLOWS) else ""

    @property
    def release(self) -> str:
        """Return the version of that framework, its local part as well; "" not told."""
        names = next((item.log_packages for item in identities() if item.name == self.framework), ())
        found = (self.log.packages.get(name, "") for name in names)
        return plain(next((item for item in found if item), ""), rf"{_VERSION}(?:\+[a-z0-9.]+)?")

    @property
    def system(self) -> str:
        """Name the operating system, by the claim's messages where the log does not tell it."""
        windows = any(name.startswith(_WINDOWS) for name in self.signatures)
        windows = windows or any("win_amd64" in event.text for event in self.claim.events)
        return self.log.os or ("windows" if windows else "")

    @property
    def compiles(self) -> bool:
        """Tell whether it is a build of CUDA code that fails."""
        return bool(COMPILING & set(self.signatures))

    @property
    def tags(self) -> set[str]:
        """Name what a row of remedies may ask for: the system, the framework, conda, WSL."""
        found = {self.system, self.framework, "wsl" if self.log.in_wsl else "", "compiling" if self.compiles else ""}
        found.add("conda" if self.log.values("conda") else "")
        text = " ".join(event.text for event in self.claim.events)
        return {*found, "bitsandbytes" if "bitsandbytes" in text else ""} - {""}


def _named(text: str) -> set[str]:
    return {item.name for item in identities() if re.search(item.log_words, text, re.IGNORECASE)}


def plain(text: str, shape: str) -> str:
    """Return a text that has a shape whole, else ""."""
    return text if len(text) <= 200 and re.fullmatch(shape, text, re.ASCII) else ""


def answerable(name: str) -> bool:
    """Tell whether there is a value of that name for some log."""
    from envcheck.explain.derived import DERIVED

    return name in DERIVED or name in SHAPES
