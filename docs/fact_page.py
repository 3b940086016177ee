"""Write the page of the reference that lists every fact and the rules that read it.

What a rule reads is worked out from its source: the facts that its function names, and those of the
functions of `envcheck/rules` that it calls, however far.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from envcheck.model import Facts, list_fields
from envcheck.rules import RULES

ROOT = Path(__file__).parent.parent / "envcheck"
PAGE = """---
search:
  exclude: true
---

# Facts and the rules that read them

A snapshot holds these facts, each with its source, or with the reason why it is absent or unknown. The probes of
`envcheck/probes` read them on a machine; `envcheck check` and `envcheck explain` take those that a file or a log
states. A finding waits for a fact that is unknown where its rule cannot do without it.

"Read by" names the findings whose rules read the fact, or a function that they call. What decides whether GPU work is
meant (the GPUs, the container, the frameworks' builds) comes before every rule and is not repeated here. Facts that no
rule reads are shown in reports, compared by `envcheck diff`, or used for commands and by `envcheck plan`.
"""
OF_THE_GOAL = (
    "goal",
    "asks_other_vendor",
    "judges_environment",
    "hides_host_gpus",
    "_is_left_without_gpu",
    "rule",
)
SECTIONS = {"HostFacts": "host", "DriverFacts": "driver", "ToolkitFacts": "toolkits", "CompilerFacts": "compilers",
            "PythonFacts": "python"}  # fmt: skip


def facts_page() -> str:
    """Return the page."""
    described, readers = dict(list_facts()), find_readers()
    text = PAGE
    for section in dict.fromkeys(name.partition(".")[0] for name in described):
        text += f"\n## {section}\n\n| fact | value | read by |\n| --- | --- | --- |\n"
        for name in (name for name in described if name.partition(".")[0] == section):
            ids = ", <wbr>".join(
                f"[{item}](findings/{item}.md)" for item in sorted(readers.get(name, ()))
            )
            text += f"| `{name}` | {described[name] or ''} | {ids or 'no rule'} |\n"
    return text


def list_facts() -> Iterator[tuple[str, str]]:
    """Yield the dotted name of every fact with the comment that stands beside it in `model/machine.py`."""
    source = (ROOT / "model/machine.py").read_text(encoding="utf-8")
    comments: dict[tuple[str, str], str] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            for line in source.splitlines()[node.lineno : node.end_lineno]:
                match = re.match(r"    (\w+): [^#]*#\s*(.*)", line)
                if match:
                    comments[node.name, match[1]] = match[2].replace("|", "or").replace("<", "&lt;")
    sections = {section: kind for kind, section in SECTIONS.items()}
    facts = Facts()
    for name in list_fields(Facts):
        if name not in sections:
            yield name, comments.get(("Facts", name), "")
        else:
            for field in list_fields(getattr(facts, name)):
                yield f"{name}.{field}", comments.get((sections[name], field), "")


def find_readers() -> dict[str, set[str]]:
    """Map each fact to the findings whose rules read it."""
    readers: dict[str, set[str]] = {}
    for rule in RULES:
        facts, seen, waiting = set(rule.needs), set[str](), {rule.check.__name__}
        while waiting:
            function = waiting.pop()
            seen.add(function)
            if function not in functions():
                continue
            read, called = _read_by(function)
            facts |= read
            waiting |= called - seen
        for name in facts:
            readers.setdefault(name, set()).update(rule.ids)
    return readers


@cache
def _read_by(function: str) -> tuple[set[str], set[str]]:
    """Return the facts that a function names, and the functions that it may call."""
    facts, called = set[str](), set[str]()
    for node in functions()[function]:
        visitor = _Reads()
        visitor.visit(node)
        facts |= visitor.facts
        called |= visitor.names & set(functions())
    return facts, called


@cache
def functions() -> dict[str, list[ast.stmt]]:
    """Map the functions and constants of `envcheck/rules`, and what a context answers, to their code."""
    found: dict[str, list[ast.stmt]] = {}
    for path in sorted((ROOT / "rules").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            members = (
                node.body if isinstance(node, ast.ClassDef) and node.name == "Context" else [node]
            )
            for item in members:
                if isinstance(item, ast.Assign):
                    names = [target.id for target in item.targets if isinstance(target, ast.Name)]
                elif isinstance(item, ast.FunctionDef) and item.name not in OF_THE_GOAL:  # see PAGE
                    names = [item.name]
                else:
                    names = []
                for name in names:
                    found.setdefault(name, []).append(item)
    return found


class _Reads(ast.NodeVisitor):
    """Collects the facts that a function names, and the names that it uses."""

    def __init__(self) -> None:
        self.facts: set[str] = set()
        self.names: set[str] = set()
        self._sections: dict[str, str] = {}  # variable -> section of the facts that it holds
        self._known = {name for name, _ in list_facts()}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for argument in node.args.args:
            if isinstance(argument.annotation, ast.Name) and argument.annotation.id in SECTIONS:
                self._sections[argument.arg] = SECTIONS[argument.annotation.id]
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for name, value in pairs:
                if isinstance(name, ast.Name):
                    self._sections[name.id] = self._place(value)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._note(self._place(node))
        if isinstance(node.value, ast.Name) and node.value.id in ("context", "self"):
            self.names.add(node.attr)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self.names.add(node.id)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._note(node.value)

    def _note(self, name: str) -> None:
        if name in self._known:
            self.facts.add(name)

    def _place(self, node: ast.expr) -> str:
        """Return the dotted place in the facts that an expression names; "" for none, "." for the facts themselves."""
        if isinstance(node, ast.Name):
            return self._sections.get(node.id, "." if node.id == "facts" else "")
        if not isinstance(node, ast.Attribute):
            return ""
        if node.attr == "facts":
            return "."
        if _is_context(node.value) and node.attr in SECTIONS.values():
            return node.attr
        before = self._place(node.value)
        return "" if not before else f"{before}.{node.attr}".lstrip(".")


def _is_context(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("context", "self")
