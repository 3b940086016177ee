"""Composed facts of Python environments for the tests of the Python layer's rules."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from envcheck.matrix.load import load_document, load_matrix
from envcheck.matrix.query import Matrix
from envcheck.model import (
    Absent,
    Distribution,
    Fact,
    Facts,
    Finding,
    FrameworkBuild,
    Gpu,
    HostFacts,
    Known,
    LibraryLookup,
    PythonFacts,
    Source,
    Unknown,
)
from envcheck.rules import Context, Target
from tests.typed import judged

T = TypeVar("T")
SOURCE = Source("file", "composed", "composed for a test")
UNREADABLE = Unknown("denied", "permission denied")
SITE = "/env/lib/python3.11/site-packages"


def known(value: T) -> Fact[T]:
    return Known(value, SOURCE)


@lru_cache(maxsize=1)
def matrix() -> Matrix:
    return load_matrix()


def edited_matrix(edit: Any) -> Matrix:
    """Load the matrix document anew and change it."""
    document = load_document()
    edit(document)
    return Matrix(document)


def without_release(framework: str, version: str) -> Matrix:
    return edited_matrix(lambda document: document["releases"][framework].pop(version))


def distribution(name: str, version: str, **fields: Any) -> Distribution:
    return Distribution(
        name, version, **{"location": SITE, "scope": "environment", "installer": "pip", **fields}
    )


def lookup(
    soname: str, found: str = "", elsewhere: tuple[str, ...] = (), **fields: Any
) -> LibraryLookup:
    at: Fact[str] = known(found) if found else Absent(("the loader's folders",))
    return LibraryLookup(soname, f"{SITE}/loader.so", True, at, elsewhere=elsewhere, **fields)


def build(framework: str, version: str, dist: str = "", **fields: Any) -> FrameworkBuild:
    given = {"libraries": known(()), "shadowed_by": Absent(), **fields}
    return FrameworkBuild(framework, dist or framework, version, SITE, **given)


def gpu(compute_capability: str = "8.6") -> Gpu:
    return Gpu(name=known("a GPU"), compute_capability=known(compute_capability))


def facts(
    *builds: FrameworkBuild,
    distributions: tuple[Distribution, ...] | None = None,
    gpus: Fact[tuple[Gpu, ...]] | None = None,
    host: dict[str, Any] | None = None,
    **python: Any,
) -> Facts:
    """Make a healthy Linux machine with one GPU and a Python 3.11 venv; `python` and `host` change it."""
    if distributions is None:
        distributions = tuple(distribution(item.distribution, item.version) for item in builds)
    machine = {
        "os": known("linux"),
        "architecture": known("x86_64"),
        "libc_kind": known("glibc"),
        "libc_version": known("2.36"),
        "environment": known({}),
        **(host or {}),
    }
    given = {
        "executable": known("/env/bin/python"),
        "version": known("3.11.7"),
        "implementation": known("cpython"),
        "bits": known(64),
        "architecture": known("x86_64"),
        "abi_tag": known("cp311"),
        "prefix": known("/env"),
        "kind": known("venv"),
        "externally_managed": known(False),
        "pip_version": known("24.0"),
        "distributions": known(distributions),
        "duplicate_owners": Absent(),
        "frameworks": known(tuple(builds)) if builds else Absent((SITE,)),
        "libstdcxx_path": Absent(),
        **python,
    }
    one = known((gpu(),)) if gpus is None else gpus
    return Facts(host=HostFacts(**machine), gpus=one, python=PythonFacts(**given))


def context(
    given: Facts, *requirements: str, expect: str = "auto", rows: Matrix | None = None
) -> Context:
    return Context(given, rows or matrix(), Target(expect, requirements))


def findings(rule_id: str, given: Context) -> list[Finding]:
    """Run the rules of one id as the engine does, undecided ones included as probe-failed."""
    return list(judged(given, rule_id).findings)


def found(rule_id: str, given: Context) -> list[tuple[str, str]]:
    """Run the rules of one id; return id and severity of each finding."""
    return [(item.id, item.severity) for item in findings(rule_id, given)]


def changed(given: Facts, **python: Any) -> Facts:
    return replace(given, python=replace(given.python, **python))
