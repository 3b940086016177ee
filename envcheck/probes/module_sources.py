"""Read from the sources near a damaged module whether their import goes on without what it lost.

Loaded where something is damaged: `ast` alone takes 5 ms.
"""

from __future__ import annotations

import ast
import builtins
import posixpath
import re
from typing import Iterable, Iterator, List, Set, Tuple

from envcheck.host.paths import list_names
from envcheck.host.protocol import Host

_SOURCE_LIMIT = 1 << 20  # bytes of a module
_STAR = "*"


def is_optional(host: Host, location: str, path: str) -> bool:
    """Return whether the modules near a compiled one import it under `except ImportError` alone.

    They go on without it, as those of wrapt do.
    """
    stem = posixpath.basename(path).partition(".")[0]
    is_guarded = False
    for _, body in _read_near(host, location, path, stem):
        if any(_names_module(item, stem) for item in _list_run(body)):
            return False
        tried = (item.body for item in _walk(body) if isinstance(item, ast.Try))
        is_guarded |= any(_names_module(item, stem) for each in tried for item in _walk(each))
    return is_guarded


def _names_module(item: ast.AST, stem: str) -> bool:
    names = []
    if isinstance(item, (ast.Import, ast.ImportFrom)):
        names = [getattr(item, "module", None) or "", *(each.name for each in item.names)]
    return any(name.rpartition(".")[2] == stem for name in names)


def list_lacking(host: Host, location: str, path: str) -> Set[str]:
    """List the names that modules near one import from it, and that nothing in it binds.

    Those that its last statement needs, too: it may have been cut off.
    """
    body = _parse(host.read_text(posixpath.join(location, path), _SOURCE_LIMIT).value or "")
    bound = set(_list_bound(body))
    if _STAR in bound:
        return set()
    needed = {item.id for item in _walk(_list_run(body)[-1:]) if isinstance(item, ast.Name)}
    module = re.sub(r"(/__init__)?\.py$", "", path)
    for package, text in _read_near(host, location, path, posixpath.basename(module)):
        for item in _list_run(text):
            if isinstance(item, ast.ImportFrom) and _resolve(item, package) == module:
                needed.update(each.name for each in item.names)
    inside = (name.partition(".")[0] for name in list_names(host, posixpath.join(location, module)))
    return needed.difference(bound, dir(builtins), inside, _STAR)


def _resolve(item: ast.ImportFrom, package: str) -> str:
    """Return the path of the module that a statement in a package imports from."""
    parts = package.split("/")
    outer = parts[: len(parts) + 1 - item.level] if item.level else []
    return "/".join([*outer, *filter(None, (item.module or "").split("."))])


def _list_bound(body: List[ast.stmt]) -> Iterator[str]:
    """List the names that a module binds anywhere, with those of arguments and aliases."""
    for item in _walk(body):
        if not (isinstance(item, ast.Name) and isinstance(item.ctx, ast.Load)):
            names = (getattr(item, field, None) for field in ("id", "name", "asname", "arg"))
            yield from (name.partition(".")[0] for name in names if isinstance(name, str))


def find_ending(text: str) -> str:
    """Return the top-level statement by which a module ends Python, "" for none.

    Sample: 'import os; os._exit(3)' -> os._exit(3)
    """
    for item in _parse(text):
        if isinstance(item, ast.Raise):
            value = item.exc
        else:
            value = item.value if isinstance(item, ast.Expr) else None
        called = value.func if isinstance(value, ast.Call) else value
        name = getattr(called, "attr", getattr(called, "id", ""))
        if name in ("SystemExit", "_exit", "exit", "quit"):
            return " ".join(text.splitlines()[item.lineno - 1].split(";")[-1].split())
    return ""


def _read_near(
    host: Host, location: str, path: str, stem: str
) -> Iterator[Tuple[str, List[ast.stmt]]]:
    """Yield the modules in a file's folder, and in the one above, that hold a word.

    Each with the path of its package.
    """
    folder = posixpath.dirname(path)
    for place in filter(None, (folder, posixpath.dirname(folder))):
        for name in list_names(host, posixpath.join(location, place)):
            if name.endswith(".py"):
                text = host.read_text(posixpath.join(location, place, name), _SOURCE_LIMIT).value
                if text and stem in text:
                    yield place, _parse(text)


def _parse(text: str) -> List[ast.stmt]:
    """Return the statements of a module; of one that this Python cannot read, none."""
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return []


def _walk(items: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for item in items:
        yield from ast.walk(item)


def _list_run(body: Iterable[ast.stmt]) -> List[ast.stmt]:
    """List the statements that an import runs, and whose failure ends it."""
    found: List[ast.stmt] = []
    for item in body:
        inner = [*getattr(item, "body", []), *getattr(item, "orelse", [])]
        if isinstance(item, ast.Try) and any(map(_goes_on, item.handlers)):
            continue
        if isinstance(item, ast.If) and "TYPE_CHECKING" in ast.dump(item.test):
            inner = item.orelse
        if isinstance(item, (ast.If, ast.Try, ast.With)):
            found += _list_run(inner)
        elif not isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append(item)
    return found


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches an ImportError, and raises nothing."""
    is_caught = handler.type is None or "'ImportError'" in ast.dump(handler.type)
    return is_caught and not any(isinstance(item, ast.Raise) for item in ast.walk(handler))
