"""The imports of an environment: what holds something to import, and how its imports end."""

from __future__ import annotations

import os
from collections.abc import Callable

from envcheck.model import (
    Fact,
    Finding,
    ImportTest,
    PythonFacts,
    Snapshot,
    Unknown,
    replace,
)
from envcheck.rules import Context, Target


def with_imports(machine: Snapshot, tests: Fact[tuple[ImportTest, ...]]) -> Snapshot:
    """Return a machine with what its imports showed."""
    facts = replace(machine.facts, python=replace(machine.facts.python, imports=tests))
    return replace(machine, facts=facts)


def can_import(python: PythonFacts) -> bool:
    """Return whether an environment holds a framework, or the files of one.

    Else its proof costs time for nothing.
    """
    return bool(python.frameworks.value) or any(
        each.kind == "unowned" for each in python.install_leftovers.value or ()
    )


def prove_imports(
    machine: Snapshot, seconds: float, watch: Callable[[str, int, int], None]
) -> Snapshot:
    """Add how the real imports of an environment of this machine end, or why none was tried."""
    from envcheck.host.local import LocalHost  # few commands import
    from envcheck.model.quoting import quote
    from envcheck.probes.collection import Redactor
    from envcheck.probes.imports import collect_imports, find_reason_not_to_import

    python = machine.facts.python
    reason = find_reason_not_to_import(LocalHost(), python)
    if reason:
        return with_imports(machine, Unknown("denied", reason))
    tests = Redactor.from_environment(os.environ).redact(collect_imports(python, seconds, watch))
    # where packages lie is a fact
    places = {python.prefix.value, *(item.location for item in python.distributions.value or ())}
    folders = (*sorted(f"{each}/" for each in places if each), "~/")
    quoted = [replace(test, printed=quote(test.printed, folders)) for test in tests.value or ()]
    return with_imports(machine, replace(tests, value=tuple(quoted)) if quoted else tests)


def explain_import(context: Context, printed: str) -> Finding | None:
    """Find the cause of a failing import in what it printed, with the facts of its environment."""
    from envcheck.explain.judge import judge_log, list_refuted  # few imports fail
    from envcheck.proof.causes import scan_text

    events, target = scan_text("import", printed), Target(context.goal)
    explained = judge_log(events, context.matrix, context.facts, target)
    primary = next((item for item in explained.findings if item.primary), None)
    if primary is None or primary.id in list_refuted(context.facts):
        return None
    return primary if any(item.fact == "log" for item in primary.evidence) else None
