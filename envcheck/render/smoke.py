"""Render a smoke test as text and JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from envcheck.model import COMPATIBLE, ERROR, INCOMPATIBLE, NOTE, UNDETERMINED, Report, Step, inert, replace
from envcheck.render.documents import (
    HEADING,
    Line,
    align_table,
    document_text,
    finding_document,
    print_lines,
    schema_keys,
    terminal_size,
)
from envcheck.render.text import finding_lines, with_closing
from envcheck.smoke.session import (
    CPU,
    PASSED,
    SKIPPED,
    Device,
    Result,
    Run,
    Session,
    headline_of,
    list_asked,
    proven_gpus,
    verdict_of,
)


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
            "pci_address": device.pci,
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
_STATES = {PASSED: COMPATIBLE, SKIPPED: NOTE}
_HEAD = ("framework", "device", "result", "place", "checks", "time", "memory")
_MIB = 1 << 20
_ERROR_LINES = 5  # of what a framework or its log says


def print_smoke(session: Session, *, color: bool, verbose: bool, quiet: bool) -> None:
    """Print a session to stdout; `quiet` leaves the verdict, `verbose` adds every check."""
    steps = tuple(Step("", action, (item.id,)) for item in session.findings if item.fix for action in item.fix.actions)
    report = Report(verdict_of(session), "", "", session.findings, (), system=session.system, steps=steps)
    print_lines(with_closing(list(_lines(session, verbose=verbose, quiet=quiet)), report), color=color)


def _lines(session: Session, *, verbose: bool, quiet: bool) -> Iterator[Line]:
    verdict = verdict_of(session)
    head = (f"{_WORDS[verdict]}  ", inert(headline_of(session)), verdict)
    runs = [] if quiet else list(_run_lines(session, verbose=verbose))
    yield from (
        [*runs, *([("", "", "")] if runs else []), head] if verdict == COMPATIBLE else [head, ("", "", ""), *runs]
    )
    # What failed stands above: of the findings their causes and fixes, each fix once.
    shown = {(item.id, item.fix): replace(item, evidence=item.evidence if verbose else ()) for item in session.findings}
    for finding in shown.values():
        yield from finding_lines(finding, session.system, verbose=verbose)


def _run_lines(session: Session, *, verbose: bool) -> Iterator[Line]:
    if session.runs:
        width = terminal_size(sys.stdout)[0] - 2 if sys.stdout.isatty() else None
        head, *rows = align_table((_HEAD, [_row(run) for run in session.runs]), width)
        yield from (("", line, HEADING) for line in head)
        for (first, *others), run in zip(rows, session.runs, strict=True):
            yield ("", first, _STATES.get(run.outcome, ERROR))
            yield from (("", line, HEADING) for line in others)
    for run in session.runs:
        yield from (("", inert(line), "") for line in _describe_run(run, verbose=verbose))
    yield from (("", inert(f"{item.label}: not tested: {item.why}"), NOTE) for item in session.left_out)


def _row(run: Run) -> tuple[str, ...]:
    """Describe a run in the table: what failed first, else what was computed and where."""
    device, bad = run.job.device, run.bad[:1]
    done = [result for result in run.results if result.outcome != SKIPPED]
    shown = bad or _list_computed(run)
    said = ""
    if shown:
        said = f": {shown[0].check if bad else shown[0].message.removesuffix(f' on {shown[0].ran_on}')}"
    skipped = f", {len(run.results) - len(done)} skipped" if len(run.results) > len(done) else ""
    memory = f"{(run.peak_memory or 0) // _MIB} MiB" if (run.peak_memory or 0) >= _MIB else "-"
    place = device.rename_gpus(", ".join(dict.fromkeys(result.ran_on for result in shown if result.ran_on)) or "-")
    framework = run.job.subject.title + (" (a quarter of its memory)" if run.job.part else "")
    cells = (framework, _place(device), device.rename_gpus(f"{run.outcome}{said}"), place, f"{len(done)}{skipped}")
    return tuple(inert(cell) for cell in (*cells, f"{run.seconds:.1f} s", memory))


def _list_computed(run: Run) -> list[Result]:
    """List the right products, or the last right check, on the devices of a run: a run on a GPU tests the CPU, too."""
    placed = [result for result in run.results if result.ran_on and result.outcome == PASSED]
    own = [result for result in placed if run.job.device.kind == CPU or result.ran_on.startswith("GPU")]
    return [result for result in own if result.check == "matmul"] or own[-1:]


def _place(device: Device) -> str:
    return ", ".join(filter(None, (device.title, device.pci)))


def _describe_run(run: Run, *, verbose: bool) -> Iterator[str]:
    hidden = {PASSED, SKIPPED} if run.outcome != SKIPPED else {PASSED}
    shown = [result for result in run.results if verbose or result.outcome not in hidden]
    if not (shown or run.measures):
        return
    yield f"{run.job.identity}:"
    for result in shown:
        yield from _describe_result(result, run.job.device, verbose=verbose)
    if verbose:
        yield from (f"  {item.way}: {', '.join(item.devices) or 'none'}" for item in run.listings)
    for item in run.measures:
        yield f"  {run.job.device.rename_gpus(item.device)} {item.name}: {item.value:g} {item.unit}"
        if item.note:
            yield f"    {item.note}"
    if run.log and run.bad:
        yield f"  log: {run.log}"


def _describe_result(result: Result, device: Device, *, verbose: bool) -> Iterator[str]:
    where = f" {result.device}" if result.device else ""
    pointed = f" [{result.finding}]" if result.finding else ""
    yield "  " + device.rename_gpus(f"{result.check}{where}: {result.outcome}: {result.message}{pointed}")
    words = result.error.splitlines()
    # The first line of an error is the message above.
    words = words if verbose else [line for line in words[-_ERROR_LINES:] if line not in result.message]
    yield from (f"    {line}" for line in words)


_PLACEMENT_HEAD = ("run", "check", "asked", "operation", "type", "device", "told by", "gpu")


def placement_lines(session: Session) -> Iterator[str]:
    """Yield a line, tab-separated, for each operation.

    `asked` and `device` are as the process counts; `gpu` is the machine's: its number, PCI address and UUID.
    """
    yield "\t".join(_PLACEMENT_HEAD)
    for run in session.runs:
        for item in run.placements:
            gpu = run.job.device.member(item.device)
            asked = ", ".join(list_asked(item.check, item.asked))
            cells = (run.job.title, item.check, asked, item.node, item.op, item.device, item.by)
            yield "\t".join(map(inert, (*cells, gpu.identity if gpu else "")))
