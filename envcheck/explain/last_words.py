"""Conclude from a program's last words, where no known message speaks.

A sentence that states what is wrong, or the exception that ended the program.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator

from envcheck.explain.claim_values import is_known_distribution
from envcheck.explain.log import Claim, Log, Strength
from envcheck.explain.reasons_cuda import library_claims
from envcheck.explain.signatures import (
    Event,
    KnownException,
    load_driver_errors,
    load_exceptions,
)
from envcheck.explain.statements import Raised, Stated
from envcheck.explain.text import is_exception
from envcheck.model import canonical_name, replace
from envcheck.model.quoting import quote
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


_PROGRAM = "program-error"


def judge_stated(stated: Stated, log: Log, file: str) -> Iterator[Claim]:
    """Say which cause the sentence names."""

    def event(*captures: tuple[str, str], signature: str = "error-unknown") -> Event:
        number = stated.number
        return Event(signature, captures, stated.text[:500], file, number, number)

    if stated.kind == "library":
        missing = event(("library", stated.what), signature="cannot-open-shared-object")
        yield from library_claims(Log((missing,), log.matrix, log.facts))
    elif stated.kind == "damaged":
        yield build_damage_claim(stated.what, event)
    elif stated.kind == "needs":
        yield from _judge_requirement(stated, log, event)
    elif stated.row is not None:
        row = stated.row
        captures = (("fault", row.fault), (row.capture, stated.what))
        named = event(*(pair for pair in captures if all(pair)))
        message = row.meaning.format(stated.what) or catalogue()[row.finding].headline
        yield Claim(row.finding, Strength.FAILED_PART, message, (named,), rivals=row.rivals)
    else:
        finding = load_driver_errors().get(stated.what, "")
        if finding:
            why = catalogue()[finding].headline
            message = f"A call of CUDA ended with error {stated.what}. {why}"
            yield Claim(finding, Strength.FAILED_PART, message, (event(("code", stated.what)),))


_REFUSED_SOURCE = (
    r"(?P<file>[^\s:()]+\.(?:c|cc|cpp|cxx|cu|cuh|h|hpp|pyx))(?::\d+(?::\d+)?|\(\d+\))"
    r": (?:fatal )?error: (?P<what>.+)"
)


def judge_compiled(log: Log) -> Iterator[Claim]:
    """Report the first source file that a compiler rejects, with the compiler's reason."""
    for event in log.select("error-unknown"):
        refused = re.match(_REFUSED_SOURCE, event.text)
        if refused:
            what = f"{posixpath.basename(refused['file'])}: {refused['what']}"
            message = f"The source does not compile: {what.rstrip('.?')}."
            finding, other = _PROGRAM, "dependency-conflict"
            if any("wheel" in item.text for item in log.select("ninja-failed")):
                finding, other = other, finding  # a published source, with what is installed
            yield Claim(finding, Strength.FAILED_PART, message, (event,), rivals=(other,))
            return


def build_damage_claim(path: str, event: Callable[..., Event]) -> Claim:
    """Say whose file of an environment is damaged."""
    inside = posixpath.normpath(re.split(r"-packages[/\\]", path)[-1].replace("\\", "/"))
    *folders, file = inside.split("/")
    owner = "-".join(folders[: 2 if folders[:1] == ["nvidia"] else 1]) or file.partition(".")[0]
    package = canonical_name(owner)
    message = f"The file {file} of {package} is damaged."
    return Claim("install-damaged", Strength.FAILED_PART, message, (event(("package", package)),))


def _judge_requirement(stated: Stated, log: Log, event: Callable[..., Event]) -> Iterator[Claim]:
    """Judge what is required: a part of the machine, or a package that an index brings."""
    is_met = stated.found and within(stated.found, stated.releases)
    if is_met:
        return
    there = f", and {stated.found} is there" if stated.found else ""
    raised = log.ending.raised
    by = raised.owners[-1] if raised and raised.number == stated.number and raised.owners else ""
    message = f"{stated.what} {stated.releases} is required{there}."
    if by not in ("", "python", stated.what):
        message = f"{by} requires {stated.what} {stated.releases}{there}."
    if not stated.releases:
        message = f"{stated.what} is required and not installed."
    message = message[0].upper() + message[1:] if stated.what in _OF_PART else message
    if stated.what in _OF_PART:
        finding, capture = _OF_PART[stated.what]
        value = stated.releases if capture == "wanted" else stated.releases.lstrip("<>=!~")
        strength = Strength.LIMIT_AND_VALUE if stated.found else Strength.FAILED_PART
        yield Claim(finding, strength, message, (event((capture, value)),))
        return
    name = canonical_name(stated.what.partition("[")[0])
    if is_known_distribution(name, log.matrix):
        needed = event(("needed", f"{stated.what}{stated.releases}"))
        yield Claim("dependency-conflict", Strength.FAILED_PART, message, (needed,))
    elif is_exception(stated.text) and (stated.found or not stated.releases):
        lacking = (("lacking", name),) if not stated.releases else ()
        yield Claim("dependency-conflict", Strength.FAILED_PART, message, (event(*lacking),))


# What names the environment all the same: a library, a tool of CUDA, a device, a system call.
_OF_ENVIRONMENT = (
    r"(?i)\.(?:so|dll|dylib)\b|(?<![\w-])(?:nvcc|nvidia|cuda|cudnn|gpu|driver|ninja|gcc|g\+\+|clang|ptxas)"
    r"|cl\.exe|/dev/|No space left|shared memory|CUDA_HOME"
)
_ASKED_NAME = (
    r"(?:cannot import name '(?P<name>\w+)' from|module) '(?P<module>[\w.]+)'"
    r"(?: has no attribute '(?P<attribute>\w+)')?"
)
_OTHER_RELEASE = (
    r"unexpected keyword argument|has no attribute|positional arguments?\b|cannot import name"
    r"|missing \d+ required|is not a package|got multiple values"
)
_OF_OWN_CODE = ("ValueError", "AssertionError", "TypeError")  # where the user's own code raises it
# of a function that the user's own code calls
_REFUSES_VALUE = (
    r"(?i)^RuntimeError: .*\b"
    r"(?:dtypes?|shapes?|sizes?|dimensions?|expected|must be|got|out of range)\b"
)
# of what a package itself raises about what it is asked for
_REFUSES = (
    r"(?i)^no such \w|\bdoes ?n.t exist\b|\bdoes not exist\b|\b(?:unknown|invalid|unrecognized)\b"
    r"|\bnot (?:a )?(?:valid|recognized|in the list)\b|\bmust (?:be|have)\b|\bnot set\b"
    r"|\b(?:allowed|supported|possible|available) (?:values|types|options|choices|names)\b"
)
_DEMANDS = ("ImportError", "ModuleNotFoundError", "PackageNotFoundError")  # of what is installed


def judge_raised(raised: Raised, file: str) -> Claim | None:
    """Say what an exception alone states; None where it may have any cause."""
    event = Event("python-traceback", (), raised.text[:500], file, raised.number, raised.number)
    rows = [row for row in load_exceptions() if _fits(raised, row)]
    for row in rows:
        if row.finding:
            strength = Strength.FAILED_PART
            return Claim(row.finding, strength, row.meaning, (event,), rivals=row.rivals)
    packages = [name for name in raised.owners if name not in ("", "python")]
    is_demand = raised.is_stated and raised.kind in _DEMANDS
    if packages and is_demand and raised.owners[-1] == packages[-1]:
        return _judge_demand(raised, packages[-1], event)
    if packages and raised.kind in ("AttributeError", "TypeError", "ImportError"):
        return _judge_releases(raised, packages, event)
    if packages and raised.kind == "SyntaxError":
        return _judge_module(raised, packages[-1], event)
    fault, message, rivals = "", "", tuple[str, ...]()
    if rows:
        fault, message = rows[0].fault, rows[0].meaning
    subject = _name_user(raised, packages, is_known=bool(fault))
    if subject:
        fault, message, rivals = "code", f"{subject}.", ("dependency-conflict",)
    if not fault or re.search(_OF_ENVIRONMENT, raised.message):
        return None
    owner = (("package", packages[-1]),) if packages else ()
    event = replace(event, captures=(("fault", fault), *owner))
    return Claim(_PROGRAM, Strength.SIDE_EFFECT, message, (event,), rivals=rivals)


def _fits(raised: Raised, row: KnownException) -> bool:
    return all(re.search(words, getattr(raised, name)) for name, words in row.where.items())


def _name_user(raised: Raised, packages: list[str], *, is_known: bool) -> str:
    """Say whose code is used in a way that it refuses; "" where that is not stated."""
    is_own_code = raised.owners[-1:] == ("",)
    if is_own_code and raised.kind in _OF_OWN_CODE:
        return "The program's own code refuses what it is given"
    if is_known:
        return ""
    if is_own_code and re.search(_REFUSES_VALUE, raised.text):
        return "The program gives a function a value that it does not take"
    if packages and raised.is_stated and re.search(_REFUSES, raised.message):
        return f"{packages[-1]} refuses what the program asks of it"
    return ""


def _judge_module(raised: Raised, package: str, event: Event) -> Claim:
    """Judge a module of a package that Python cannot read: damaged, or of another Python."""
    event = replace(event, captures=(("package", package),))
    if "null bytes" in raised.message:
        message = f"A file of {package} is damaged: it holds null bytes."
        return Claim("install-damaged", Strength.FAILED_PART, message, (event,))
    message = f"A module of {package} is not for this Python."
    return Claim("python-unsupported", Strength.SIDE_EFFECT, message, (event,))


def _judge_demand(raised: Raised, package: str, event: Event) -> Claim:
    """Judge an exception by which a package itself says what it lacks."""
    event = replace(event, captures=(("fault", "demand"), ("package", package)))
    message = f"{package} lacks what it asks for: {quote(raised.message)}"
    return Claim("dependency-conflict", Strength.SIDE_EFFECT, message, (event,))


def _judge_releases(raised: Raised, packages: list[str], event: Event) -> Claim | None:
    """Judge a name or an argument that one package asks of another, and that is not there."""
    if raised.owners[-1:] == ("",) or not re.search(_OTHER_RELEASE, raised.message):
        return None
    asked = re.search(_ASKED_NAME, raised.message)
    provider = asked["module"].partition(".")[0] if asked else ""
    askers = [name for name in packages if name != provider]
    named = [*dict.fromkeys(askers), provider][-2:] if asked else [*dict.fromkeys(packages)][-2:]
    message = f"{' and '.join(named)} do not fit each other, or the code that calls them."
    if len(named) == 1:
        message = f"The installed {named[0]} does not fit the code that calls it."
    elif asked:
        name = asked["name"] or asked["attribute"]
        message = f"{named[0]} uses {name}, which the installed {provider} does not have."
    if len(named) > 1:
        event = replace(event, captures=(("asker", named[0]), ("provider", named[1])))
    rivals = ("program-error",)
    return Claim("dependency-conflict", Strength.SIDE_EFFECT, message, (event,), rivals=rivals)
