"""What is asked for, read strictly: nothing but a name, extras and version clauses can pass."""

from __future__ import annotations

import re

from envcheck.matrix.query import Matrix
from envcheck.model.records import dataclass
from envcheck.rules.fixes_python import is_requirement
from envcheck.rules.requirement import canonical_name, read_requirement
from envcheck.rules.targets import TargetError, check_requirements

_PLAIN = r"[A-Za-z0-9][A-Za-z0-9._-]*[ ]?(\[[A-Za-z0-9._, -]*\])?[A-Za-z0-9.,<>=!~*+ -]*"
_LONGEST = 200  # characters; every sensible requirement is far below


class RequestError(ValueError):
    """A requirement or a description that cannot be planned for; the message says what to type instead."""


@dataclass(frozen=True)
class Request:
    """One framework asked for, every part normalised."""

    text: str  # tensorflow[and-cuda]>=2.15
    distribution: str
    framework: str
    extras: tuple[str, ...]
    specifier: str
    held: str = ""  # the name an environment holds it under already: it stays where that is no fault


def read_requests(texts: tuple[str, ...], matrix: Matrix) -> tuple[Request, ...]:
    """Read requirements such as tensorflow==2.15.*; raises RequestError for all else."""
    found: dict[str, Request] = {}
    for text in texts:
        request = _read(text, matrix)
        if request.framework in found:
            raise RequestError(f"{request.framework} is asked for twice: join the clauses, as in torch>=2.4,<2.8.")
        found[request.framework] = request
    return tuple(found.values())


def _read(text: str, matrix: Matrix) -> Request:
    if len(text) > _LONGEST or not re.fullmatch(_PLAIN, text):
        raise RequestError(
            f"{text[:60]!r} is not a plain requirement: give a name and versions, such as 'tensorflow>=2.15'."
        )
    try:
        check_requirements((text,), matrix)
    except TargetError as error:
        raise RequestError(_companion(text, matrix) or str(error)) from None
    parsed = read_requirement(text)
    name, extras = canonical_name(parsed.name), tuple(sorted(map(canonical_name, parsed.extras)))
    plain = name + (f"[{','.join(extras)}]" if extras else "") + parsed.specifier
    if not is_requirement(plain):
        raise RequestError(f"{text[:60]!r} is not a plain requirement: give a name and versions.")
    removed = matrix.removed_distribution(name)
    framework = matrix.framework_of(name) or (removed.framework if removed else "")
    return Request(plain, name, framework, extras, parsed.specifier)


def _companion(text: str, matrix: Matrix) -> str:
    """Say of what comes with a framework which one to ask for; "" for anything else."""
    found = re.match(r"[A-Za-z0-9._-]+", text)
    name = canonical_name(found.group()) if found else ""
    comes = f"{name} comes beside a framework: ask for that one, such as tensorflow; the plan brings what fits it."
    return comes if name and matrix.companion_of(name) else ""


def check_folder(folder: str) -> None:
    """Raise RequestError for a folder that could be taken for an option, or does not print as it is."""
    if folder and (folder.startswith("-") or not re.fullmatch(r"[~\w./+:\\ @()-]+", folder)):
        raise RequestError(
            f"--env {folder[:60]!r}: give a folder of letters, digits, spaces and . / \\ _ - + : @ ( ) ~ only."
        )
