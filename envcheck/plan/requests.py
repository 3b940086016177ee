"""What is asked for, read strictly: nothing but a name, extras and version clauses can pass."""

from __future__ import annotations

import re

from envcheck.matrix.query import Matrix
from envcheck.matrix.versions import can_be_met
from envcheck.model.records import dataclass, replaced
from envcheck.rules.fixes_python import is_requirement
from envcheck.rules.known_problems import name_of
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
    held: str = ""  # the name an environment holds it under already, or others require: it stays if that is no fault
    beside: tuple[str, ...] = ()  # what else is asked for that goes with it: torchvision, torchaudio==2.5.*

    @property
    def texts(self) -> tuple[str, ...]:
        """List everything that was typed for it."""
        return (self.text, *self.beside)


def read_requests(texts: tuple[str, ...], matrix: Matrix) -> tuple[Request, ...]:
    """Read requirements such as tensorflow==2.15.*; raises RequestError for all else."""
    found: dict[str, Request] = {}
    beside: list[tuple[str, tuple[str, ...]]] = []
    for text in dict.fromkeys(texts):
        companion = _companion(text, matrix)
        if companion:
            beside.append(companion)
            continue
        request = _read(text, matrix)
        if request.framework in found:
            raise RequestError(_asked_twice(found[request.framework], request))
        found[request.framework] = request
    for text, frameworks in beside:
        owner = next((found[name] for name in frameworks if name in found), None)
        if owner is None:
            both = f"{frameworks[0]} {name_of(text)}"
            raise RequestError(f"{text} comes beside a framework: ask for that one, too, such as {both}.")
        found[owner.framework] = _with(owner, text)
    return tuple(found.values())


def _asked_twice(first: Request, second: Request) -> str:
    if first.distribution == second.distribution:
        return f"{first.distribution} is asked for twice: join the clauses, as in torch>=2.4,<2.8."
    names = f"{first.distribution} and {second.distribution}"
    return f"{names} are one framework under two names, in one folder: ask for one of them."


def _with(owner: Request, text: str) -> Request:
    from envcheck.plan.companions import required_name  # only where something is asked for beside a framework

    return replaced(owner, beside=(*owner.beside, text), held=required_name(text) or owner.held)


def _read(text: str, matrix: Matrix) -> Request:
    _check_plain(text)
    try:
        check_requirements((text,), matrix)
    except TargetError as error:
        raise RequestError(str(error)) from None
    name, extras, specifier = _parts(text)
    if name == "jax":
        extras = _jax_extras(extras)
    plain = name + (f"[{','.join(extras)}]" if extras else "") + specifier
    removed = matrix.removed_distribution(name)
    framework = matrix.framework_of(name) or (removed.framework if removed else "")
    held = name if extras and name == "tensorflow" else ""  # tensorflow[and-cuda] is no tensorflow-cpu
    return Request(plain, name, framework, extras, specifier, held)


def _jax_extras(extras: tuple[str, ...]) -> tuple[str, ...]:
    """Write extras by the names of today: cuda12_pip is cuda12; raises RequestError for CUDA from the system."""
    local = next((extra for extra in extras if re.fullmatch(r"cuda\d+-local", extra)), "")
    if local:
        brought = local.partition("-")[0]
        raise RequestError(
            f"jax[{local}] takes CUDA and cuDNN from the system, where no plan can bring what fits it: ask for "
            f"jax[{brought}], which brings its own, or install the system's toolkit and cuDNN by hand."
        )
    return tuple(sorted({re.sub(r"^(cuda\d+)-pip$", r"\1", extra) for extra in extras}))


def _companion(text: str, matrix: Matrix) -> tuple[str, tuple[str, ...]] | None:
    """Read what comes beside a framework, with the frameworks it does; None for anything else."""
    found = re.match(r"[A-Za-z0-9._-]+", text)
    name = canonical_name(found.group()) if found else ""
    if not name or matrix.framework_of(name) or matrix.removed_distribution(name):
        return None
    from envcheck.plan.companions import frameworks_beside  # where frameworks alone are asked for, nobody needs it

    frameworks = frameworks_beside(name)
    if not frameworks:
        return None
    _check_plain(text)
    _, extras, specifier = _parts(text)
    if extras:
        raise RequestError(f"{text[:60]!r}: give {name} without extras.")
    return name + specifier, frameworks


def _check_plain(text: str) -> None:
    if len(text) > _LONGEST or not re.fullmatch(_PLAIN, text):
        raise RequestError(
            f"{text[:60]!r} is not a plain requirement: give a name and versions, such as 'tensorflow>=2.15'."
        )


def _parts(text: str) -> tuple[str, tuple[str, ...], str]:
    """Part a requirement into its name, its extras and its version clauses."""
    try:
        parsed = read_requirement(text)
    except ValueError:
        raise RequestError(f"{text[:60]!r} is not a requirement: give a name and versions.") from None
    name, extras = canonical_name(parsed.name), tuple(sorted(map(canonical_name, parsed.extras)))
    if not is_requirement(name + parsed.specifier):
        raise RequestError(f"{text[:60]!r} is not a plain requirement: give a name and versions.")
    if not can_be_met(parsed.specifier):
        raise RequestError(f"{text[:60]!r}: no version can meet all of these clauses.")
    return name, extras, parsed.specifier


def check_folder(folder: str) -> None:
    """Raise RequestError for a folder that could be taken for an option, does not print as it is, or has no name.

    What takes the making of an environment back removes its folder: never a root, or somebody's home.
    """
    if folder and (folder.startswith("-") or not re.fullmatch(r"[~\w./+:\\ @()-]+", folder)):
        raise RequestError(
            f"--env {folder[:60]!r}: give a folder of letters, digits, spaces and . / \\ _ - + : @ ( ) ~ only."
        )
    own = re.split(r"[/\\]", folder.rstrip("/\\ "))[-1]
    if folder and (own.endswith(":") or not re.search(r"\w", own)):
        raise RequestError(f"--env {folder[:60]!r}: give a folder of its own by its name, such as .venv.")
