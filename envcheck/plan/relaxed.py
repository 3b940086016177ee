"""A request that asks for less: another release of its line, any release, one without CUDA."""

from __future__ import annotations

import re

from envcheck.model.records import replaced
from envcheck.plan.requests import Request
from envcheck.rules.known_problems import name_of


def of_its_line(request: Request) -> Request:
    """Ask for any release of the line that a pin is of: ==2.15.1 -> ==2.15.*; other clauses stay."""
    pinned = re.fullmatch(r"==\s*(\d+\.\d+)(\.\d+)*(\+\w+)?", request.specifier)
    return _asking(request, f"=={pinned[1]}.*" if pinned else request.specifier, request.extras)


def of_any_version(request: Request) -> Request:
    """Ask without version clauses, of what goes beside it, too."""
    return replaced(_asking(request, "", request.extras), beside=tuple(map(name_of, request.beside)))


def of_any_name(request: Request) -> Request:
    """Ask for the framework by its own name, without version clauses and extras."""
    return _asking(replaced(of_any_version(request), distribution=request.framework), "", ())


def without_cuda(request: Request) -> Request:
    """Ask by a name, extras and a version that bring no CUDA: jax[cuda12] -> jax, torch==2.7.1+cu118 -> ==2.7.1."""
    named = request.framework if request.distribution.endswith("-gpu") else request.distribution
    extras = tuple(name for name in request.extras if "cuda" not in name)
    return _asking(replaced(request, distribution=named), re.sub(r"\+cu\d+", "", request.specifier), extras)


def _asking(request: Request, specifier: str, extras: tuple[str, ...]) -> Request:
    named = request.distribution + (f"[{','.join(extras)}]" if extras else "")
    changed: Request = replaced(request, text=named + specifier, specifier=specifier, extras=extras)
    return changed
