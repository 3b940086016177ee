"""Plan packages unknown to the matrix, with the framework that their metadata requires."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from envcheck.frameworks import framework_names
from envcheck.matrix.companions import companion_row, source_package
from envcheck.matrix.query import Matrix
from envcheck.model import RequestError, dataclass, replace
from envcheck.model.versions import name_of, read_requirement, within
from envcheck.plan.requests import Passenger, UnknownPackageError, find_near
from envcheck.rules.context import Context

Ask = Callable[[str], Mapping[str, str]]  # resolves a requirement: its packages with their versions
AskAll = Callable[[tuple[str, ...]], Mapping[str, str]]  # resolves several together
# what a package is on top of, where it requires several; extras of these names
_FIRST = ("torch", "tensorflow", "jax")
_LAST = "onnxruntime"  # most who require it mean its build for the CPU
_TYPO = 0.85  # likeness to a known name from which another one is taken for a mistake


@dataclass
class Boarding:
    """The requirements to plan in place of those asked for, and which are passengers."""

    texts: tuple[str, ...]
    passengers: Mapping[str, Passenger]


def is_passenger(text: str, matrix: Matrix) -> bool:
    """Return whether nothing here knows a package, or its release: vllm==0.5."""
    name = name_of(text)
    if matrix.framework_of(name) or matrix.removed_distribution(name):
        return False
    held = matrix.companion_releases(name)
    if held:
        specifier = read_requirement(text).specifier
        return bool(companion_row(name).frameworks) and not any(
            within(row.version, specifier) for row in held
        )
    return (
        not source_package(name)
        and not matrix.companion_of(name)
        and not companion_row(name).frameworks
    )


def board(texts: tuple[str, ...], context: Context, ask: Ask) -> Boarding:
    """Read on the index which framework each unknown package, or an extra of it, requires.

    Raises RequestError for a package that requires none, and for a name that is like a known one.
    """
    passengers: dict[str, Passenger] = {}
    planned: dict[str, str] = {}  # name -> text
    for text in texts:
        if not is_passenger(text, context.matrix):
            planned[name_of(text)] = text
            continue
        if not context.matrix.companion_releases(name_of(text)):
            near = find_near(text, context.matrix, _TYPO)
            if near:  # somebody else may own a name that is one letter off
                raise UnknownPackageError(
                    f"{name_of(text)!r} is no package that envcheck knows. Did you mean {near}?"
                )
        written, versions = _with_framework(text, context.matrix, ask)
        owner = _find_owner(versions, context.matrix)
        if not owner and len(texts) == 1:
            version = versions.get(name_of(text), "")
            raise RequestError(
                f"{text} needs no framework that envcheck plans: neither it nor an extra of it"
                f" named {', '.join(_FIRST)} requires one. Any environment takes it: pip install"
                f" {name_of(text)}=={version}"
            )
        planned[name_of(text)] = written
        passengers[name_of(text)] = Passenger((owner,) if owner else ())
        for beside in _plan_beside(owner, versions, context) if owner else ():
            planned.setdefault(name_of(beside), beside)
    return Boarding(tuple(planned.values()), passengers)


def find_framework(texts: tuple[str, ...], context: Context, ask: AskAll) -> tuple[str, ...]:
    """Return the framework that packages require together, and what is planned with it.

    Raises RequestError where they require none.
    """
    versions = ask(texts)
    owner = _find_owner(versions, context.matrix)
    if not owner:
        raise RequestError(
            f"none of the {len(versions)} packages that the files bring is a framework that"
            " envcheck plans: any environment takes them."
        )
    return tuple(_plan_beside(owner, versions, context))


def _with_framework(text: str, matrix: Matrix, ask: Ask) -> tuple[str, Mapping[str, str]]:
    """Return a requirement with the extra that brings its framework, and its outcome."""
    plain = ask(text)
    if _find_owner(plain, matrix) or "[" in text:
        return text, plain
    asked = read_requirement(text)
    for extra in _FIRST:
        written = replace(asked, extras=(extra,)).plain
        versions = ask(written)
        if _find_owner(versions, matrix):
            return written, versions
    return text, plain


def _find_owner(versions: Mapping[str, str], matrix: Matrix) -> str:
    """Return the framework of a resolution that the others are on top of; "" for none."""
    found = {matrix.framework_of(name) for name in versions}
    order = (*_FIRST, *(name for name in framework_names() if name not in (*_FIRST, _LAST)), _LAST)
    return next((name for name in order if name in found), "")


def _plan_beside(owner: str, versions: Mapping[str, str], context: Context) -> Iterator[str]:
    """Yield the framework that a passenger takes, and what the matrix chooses with it."""
    matrix = context.matrix
    release = versions.get(owner, "").partition("+")[0]
    newest = next(iter(matrix.versions(owner)), "")
    rows = matrix.releases(owner, context.platform, release.__eq__) if release else ()
    own = {name for row in rows for name in row.requires}
    yield f"{owner}<={release}" if release and release != newest else owner
    for name in versions:
        row = companion_row(name)
        if owner in row.frameworks and row.releases and name not in own:
            yield name
