"""Count the modules of the package, what they refer to, what they import late, and import cycles.

python -m tests.structure    prints the figures that tests/test_architecture.py holds.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "envcheck"
_IMPORTERS = ("import_module", "__import__")


@dataclass(frozen=True)
class Module:
    """A module of the package, parsed."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        """Tell whether it is the `__init__` of a package."""
        return self.path.name == "__init__.py"

    @property
    def layer(self) -> str:
        """Name the top-level package it belongs to; empty for what lies beside them."""
        parts = self.path.relative_to(PACKAGE).parts
        return parts[0] if len(parts) > 1 else ""

    def at(self, node: ast.stmt | ast.expr) -> str:
        """Write where a node stands, as an editor opens it."""
        return f"{self.path.relative_to(ROOT).as_posix()}:{node.lineno}"


@dataclass(frozen=True)
class Reference:
    """A module that names another one of the package."""

    importer: str
    imported: str
    line: int
    late: bool  # inside a function
    # or "typed", for type checkers alone; or "named", by a name given to importlib
    kind: str = "static"


@dataclass(frozen=True)
class Figures:
    """The shape of the package."""

    modules: int  # an __init__ is none of them
    lines: int
    references: int  # pairs of modules
    late_imports: int
    cycles: tuple[tuple[str, ...], ...]

    @property
    def references_per_1000_lines(self) -> float:
        """Return how often modules refer to each other, to one decimal."""
        return round(1000 * self.references / self.lines, 1)


@cache
def modules() -> dict[str, Module]:
    """Parse every module of the package, by its dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        found[name] = Module(name, path, text, ast.parse(text))
    return found


@cache
def references() -> tuple[Reference, ...]:
    """List the references between modules of the package, those by a name given to importlib included."""
    return tuple(found for module in modules().values() for found in _Visitor(module).found)


def figures() -> Figures:
    """Measure the package."""
    found = references()
    return Figures(
        modules=sum(not module.is_package for module in modules().values()),
        lines=sum(module.text.count("\n") for module in modules().values()),
        references=len({(item.importer, item.imported) for item in found}),
        late_imports=len({item for item in found if item.late and item.kind != "typed"}),
        cycles=cycles(),
    )


class _Visitor(ast.NodeVisitor):
    """Collect the references of one module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.found: list[Reference] = []
        self._late = self._typed = False
        self.visit(module.tree)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer, self._late = self._late, True
        self.generic_visit(node)
        self._late = outer

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast's name

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.dump(node.test):
            self.generic_visit(node)
            return
        self._typed = True
        for child in node.body:
            self.visit(child)
        self._typed = False
        for child in node.orelse:
            self.visit(child)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parents = self.module.name.split(".") + [""] * self.module.is_package
            base = ".".join([*parents[: -node.level], *filter(None, [base])])
        for alias in node.names:
            self._add(f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules() else base, node)

    def visit_Call(self, node: ast.Call) -> None:
        if _called(node) in _IMPORTERS and node.args:
            for name in self._named(node.args[0]):
                self._add(name, node, "named")
        self.generic_visit(node)

    def _add(self, name: str, node: ast.stmt | ast.expr, kind: str = "static") -> None:
        if name in modules() and name != self.module.name:
            kind = "typed" if self._typed else kind
            self.found.append(Reference(self.module.name, name, node.lineno, self._late, kind))

    def _named(self, argument: ast.expr) -> set[str]:
        """Name the modules that a call may import: those which the strings of its module complete."""
        if isinstance(argument, ast.Constant):
            return {str(argument.value)}
        parts = argument.values if isinstance(argument, ast.JoinedStr) else []
        prefix = ""
        for part in parts:
            if isinstance(part, ast.Constant):
                prefix += str(part.value)
            elif isinstance(part, ast.FormattedValue) and ast.unparse(part.value) == "__name__":
                prefix += self.module.name
            else:
                break
        strings = {
            str(node.value) for node in ast.walk(self.module.tree) if isinstance(node, ast.Constant)
        }
        return {prefix + name for text in strings for name in (text, text.rpartition(".")[0])} - {
            PACKAGE.name
        }


def _called(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def cycles() -> tuple[tuple[str, ...], ...]:
    """List the groups of modules that import each other in a circle, however long.

    What a package's `__init__` and its own modules import of each other is its face, and no cycle.
    """
    graph: dict[str, set[str]] = {name: set() for name in modules()}
    for item in references():
        own = item.importer.startswith(f"{item.imported}.") or item.imported.startswith(
            f"{item.importer}."
        )
        if item.kind != "typed" and not own:
            graph[item.importer].add(item.imported)
    reached = {name: _reach(graph, name) for name in graph}
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached[other])) for name in graph
    }
    return tuple(sorted(group for group in groups if group))


def _reach(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return the modules that one imports, and they in turn; itself only where it is in a circle."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


if __name__ == "__main__":
    measured = figures()
    print("modules:", measured.modules)
    print("lines:", measured.lines)
    print("references per 1,000 lines:", measured.references_per_1000_lines)
    print("own imports inside functions:", measured.late_imports)
    print("cycles:", len(measured.cycles))
    for cycle in measured.cycles:
        print("  ", ", ".join(cycle))
