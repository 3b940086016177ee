"""Conclude from what a sentence states, where no known message speaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from envcheck.explain.claim_values import is_known_distribution
from envcheck.explain.frame import is_exception
from envcheck.explain.log import Claim, Log, Strength
from envcheck.explain.reasons_cuda import library_claims
from envcheck.explain.sentences import Stated
from envcheck.explain.signatures import Event, load_driver_errors
from envcheck.model import canonical_name
from envcheck.model.versions import within
from envcheck.rules.catalogue import catalogue

# What is required that no package index brings: the cause, and the capture that holds the release.
_OF_PART = {
    "cuda": ("toolkit-wrong-version", "cuda_wanted"),
    "cuda toolkit": ("toolkit-wrong-version", "cuda_wanted"),
    "nvcc": ("toolkit-wrong-version", "cuda_wanted"),
    "cuda driver": ("driver-too-old", "cuda_wanted"),
    "driver": ("driver-too-old", "driver_wanted"),
    "nvidia driver": ("driver-too-old", "driver_wanted"),
    "compute capability": ("gpu-arch-too-old", ""),
    "cuda capability": ("gpu-arch-too-old", ""),
    "cudnn": ("cudnn-too-old", "cudnn_built"),
    "gcc": ("host-compiler-too-old", "gcc_min"),
    "g++": ("host-compiler-too-old", "gcc_min"),
    "glibc": ("glibc-too-old", "glibc_wanted"),
    "python": ("python-unsupported", "wanted"),
}


def judge_stated(stated: Stated, log: Log, file: str) -> Iterator[Claim]:
    """Say which cause the sentence names."""

    def event(*captures: tuple[str, str], signature: str = "error-unknown") -> Event:
        number = stated.number
        return Event(signature, captures, stated.text[:500], file, number, number)

    strength = Strength.FAILED_PART
    if stated.kind == "library":
        missing = event(("library", stated.what), signature="cannot-open-shared-object")
        yield from library_claims(Log((missing,), log.matrix, log.facts))
    elif stated.kind == "needs":
        yield from _judge_requirement(stated, log, event)
    elif stated.kind == "fault":
        message = catalogue()[stated.what].headline
        yield Claim(stated.what, strength, message, (event(),))
    elif stated.kind == "code":
        finding = load_driver_errors().get(stated.what)
        if finding:
            message = f"A call of CUDA ended with error {stated.what}."
            yield Claim(finding, strength, message, (event(("code", stated.what)),))
    elif stated.kind == "pattern":
        message = f"The shell took the brackets of {stated.what} for a pattern: quote it."
        quoted = event(("fault", "quoting"), ("quoted", stated.what))
        yield Claim("program-error", strength, message, (quoted,))
    else:
        message = "A service refuses what the program asks for."
        yield Claim("program-error", strength, message, (event(("fault", "access")),))


def _judge_requirement(stated: Stated, log: Log, event: Callable[..., Event]) -> Iterator[Claim]:
    """Judge what is required: a part of the machine, or a package that an index brings."""
    is_met = stated.found and within(stated.found, stated.releases)
    if is_met:
        return
    there = f", and {stated.found} is there" if stated.found else ""
    message = f"{stated.what} {stated.releases} is required{there}."
    message = message[0].upper() + message[1:] if stated.what in _OF_PART else message
    if stated.what in _OF_PART:
        finding, capture = _OF_PART[stated.what]
        value = stated.releases if capture == "wanted" else stated.releases.lstrip("<>=!~")
        yield Claim(finding, Strength.FAILED_PART, message, (event((capture, value)),))
        return
    name = canonical_name(stated.what.partition("[")[0])
    if is_known_distribution(name, log.matrix):
        needed = event(("needed", f"{stated.what}{stated.releases}"))
        yield Claim("dependency-conflict", Strength.FAILED_PART, message, (needed,))
    elif stated.found and is_exception(stated.text):
        yield Claim("dependency-conflict", Strength.FAILED_PART, message, (event(),))
