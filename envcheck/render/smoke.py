"""Render a smoke test as text and JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from envcheck.actions import action_line
from envcheck.model import COMPATIBLE, INCOMPATIBLE, UNDETERMINED, Action, inert
from envcheck.render.documents import document_text, finding_document, schema_keys
from envcheck.smoke.session import PASSED, SKIPPED, Measure, Result, Run, Session, headline_of, proven_gpus, verdict_of


def render_smoke_json(session: Session) -> str:
    """Render a session on one line."""
    return document_text(smoke_document(session))


def smoke_document(session: Session) -> dict[str, Any]:
    """Return a session's JSON document."""
    return {
        **schema_keys("envcheck/smoke/1"),
        "verdict": verdict_of(session),
        "headline": headline_of(session),
        "level": session.level,
        "expect": session.expect,
        "tested_gpus": list(proven_gpus(session)),
        "runs": [_run(run) for run in session.runs],
        "left_out": [vars(item) for item in session.left_out],
        "gpus_unread": session.gpus_unread,
        "findings": [finding_document(finding, session.system) for finding in session.findings],
    }


def _run(run: Run) -> dict[str, Any]:
    device = run.job.device
    return {
        "framework": run.job.subject.name,
        "version": run.job.subject.version,
        "device": {
            "kind": device.kind,
            "label": device.label,
            "name": device.name,
            "uuid": device.uuid,
            "visible": device.visible,
        },
        "outcome": run.outcome,
        "seconds": round(run.seconds, 3),
        "peak_memory_bytes": run.peak_memory,
        "told": run.told or {},
        "listings": {item.way: list(item.devices) for item in run.listings},
        "results": [{name: cell for name, cell in vars(result).items() if name != "cause"} for result in run.results],
        "measures": [dict(vars(measure)) for measure in run.measures],
        "placements": len(run.placements),
        "log": run.log,
    }


_WORDS = {COMPATIBLE: "PASSED", INCOMPATIBLE: "FAILED", UNDETERMINED: "UNDETERMINED"}
_COLORS = {COMPATIBLE: "\x1b[1;32m", INCOMPATIBLE: "\x1b[1;31m", UNDETERMINED: "\x1b[1;35m"}
_MIB = 1 << 20


def print_smoke(session: Session, *, color: bool, verbose: bool, quiet: bool) -> None:
    """Print a session to stdout; `quiet` leaves the verdict, `verbose` adds every check."""
    lines = list(_lines(session, color=color, verbose=verbose, quiet=quiet))
    encoding = sys.stdout.encoding or "ascii"
    sys.stdout.write("".join(line + "\n" for line in lines).encode(encoding, "replace").decode(encoding))


def _lines(session: Session, *, color: bool, verbose: bool, quiet: bool) -> Iterator[str]:
    if not quiet:
        for run in session.runs:
            yield from _run_text(run, verbose=verbose)
        yield from (inert(f"{item.label}: not tested: {item.why}") for item in session.left_out)
        yield ""
    verdict = verdict_of(session)
    word = _WORDS[verdict]
    yield (f"{_COLORS[verdict]}{word}\x1b[0m" if color else word) + f"  {inert(headline_of(session))}"
    yield from _findings(session)


def _run_text(run: Run, *, verbose: bool) -> Iterator[str]:
    done = [result for result in run.results if result.outcome != SKIPPED]
    held = "" if (run.peak_memory or 0) < _MIB else f", at most {(run.peak_memory or 0) // _MIB} MiB"
    skipped = f", {len(run.results) - len(done)} skipped" if len(run.results) > len(done) else ""
    counted = f"{len(done)} check{'' if len(done) == 1 else 's'}{skipped}, {run.seconds:.1f} s{held}"
    yield inert(f"{run.job.title}: {run.outcome} ({counted})")
    for result in run.results:
        if verbose or result.outcome not in {PASSED, SKIPPED}:
            yield from _result(result, verbose=verbose)
    if verbose:
        yield from (inert(f"  {item.way}: {', '.join(item.devices) or 'none'}") for item in run.listings)
    yield from _measures(run.measures)
    if run.log and run.bad:
        yield inert(f"  log: {run.log}")


def _result(result: Result, *, verbose: bool) -> Iterator[str]:
    where = f" {result.device}" if result.device else ""
    pointed = f" [{result.finding}]" if result.finding else ""
    yield inert(f"  {result.check}{where}: {result.outcome}: {result.message}{pointed}")
    words = result.error.splitlines()
    yield from (inert(f"    {line}") for line in (words if verbose else words[-3:]))


def _measures(measures: tuple[Measure, ...]) -> Iterator[str]:
    for item in measures:
        yield inert(f"  {item.device} {item.name}: {item.value:g} {item.unit}")
        if item.note:
            yield inert(f"    {item.note}")


def _findings(session: Session) -> Iterator[str]:
    for finding in {item.id: item for item in session.findings}.values():
        if finding.fix is None:
            continue
        yield inert(f"fix for {finding.id}: {finding.fix.summary}")
        yield from _commands(finding.fix.actions, session.system)
        for way in finding.fix.alternatives:
            yield inert(f"  or: {way.summary}")
            yield from _commands(way.actions, session.system)


def _commands(actions: tuple[Action, ...], system: str) -> Iterator[str]:
    for action in actions:
        yield inert(f"    # {action.purpose_on(system)}")
        yield f"    $ {action_line(action, system)}"


def placement_lines(session: Session) -> Iterator[str]:
    """Yield a line, tab-separated, for each operation: run, check, asked, operation, type, device, told by."""
    yield "run\tcheck\tasked\toperation\ttype\tdevice\ttold by"
    for run in session.runs:
        for item in run.placements:
            yield "\t".join(
                map(inert, (run.job.title, item.check, item.asked, item.node, item.op, item.device, item.by))
            )
