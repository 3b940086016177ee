"""Describe a smoke test, and encode it as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    Report,
    inert,
    replace,
)
from envcheck.render.document import Check, Document, Line, Section, Table
from envcheck.render.json_contracts import (
    Json,
    document_text,
    finding_document,
    pick_fields,
    schema_keys,
)
from envcheck.render.report import JointPlan, list_judged, list_rules, show_finding
from envcheck.smoke.devices import CPU, Device
from envcheck.smoke.events import CRASHED, HUNG, PASSED, RAISED, SKIPPED, Result
from envcheck.smoke.findings import headline_of, proven_gpus, verdict_of
from envcheck.smoke.placements import list_asked
from envcheck.smoke.session import Run, Session


def render_smoke_json(session: Session) -> str:
    """Render a session on one line."""
    return document_text(smoke_document(session))


def smoke_document(session: Session) -> Json:
    """Return a session's JSON document."""
    return {
        **schema_keys("envcheck/smoke/1"),
        "verdict": verdict_of(session),
        "headline": headline_of(session),
        **pick_fields(session, "level", "expect"),
        "tested_gpus": list(proven_gpus(session)),
        "runs": [_run(run) for run in session.runs],
        "left_out": [vars(item) for item in session.left_out],
        "gpus_unread": session.gpus_unread,
        "findings": [finding_document(finding, session.system) for finding in session.findings],
    }


def _run(run: Run) -> Json:
    device = run.job.device
    return {
        "framework": run.job.subject.name,
        "version": run.job.subject.version,
        "device": {
            **pick_fields(device, "kind", "label", "name", "uuid"),
            "pci_address": device.pci,
            "visible": device.visible,
        },
        "outcome": run.outcome,
        "seconds": round(run.seconds, 3),
        "peak_memory_bytes": run.peak_memory,
        "told": run.told or {},
        "listings": {item.way: list(item.devices) for item in run.listings},
        "results": [
            {name: cell for name, cell in vars(result).items() if name != "cause"}
            for result in run.results
        ],
        "measures": [dict(vars(measure)) for measure in run.measures],
        "placements": len(run.placements),
        "log": run.log,
    }


_LABELS = {COMPATIBLE: "PASSED  ", INCOMPATIBLE: "FAILED  ", UNDETERMINED: "UNDETERMINED  "}
_STATES = {PASSED: COMPATIBLE, SKIPPED: NOTE}
_HEAD = ("framework", "device", "result", "place", "checks", "time", "memory")
_MIB = 1 << 20
_ERROR_LINES = 5  # of what a framework or its log says


def describe_session(session: Session, *, verbose: bool = False, quiet: bool = False) -> Document:
    """Describe a session; `quiet` leaves the verdict and its causes, `verbose` adds every check."""
    verdict = verdict_of(session)
    report = Report(
        verdict, "", "", session.findings, (), system=session.system, steps=session.steps
    )
    # What failed stands above: of the findings their causes and fixes, each fix once.
    found = {
        (item.id, item.fix): item if verbose else replace(item, evidence=())
        for item in session.findings
    }
    return Document(
        "envcheck smoke",
        verdict,
        headline_of(session),
        _LABELS[verdict],
        about=() if quiet else tuple(_describe_runs(session, verbose=verbose)),
        findings=tuple(show_finding(item, session.system) for item in found.values()),
        closing=JointPlan(report).closing,
        checks=tuple(_list_checks(session)),
        rules=list_rules(list_judged(report)),
        is_verbose=verbose,
    )


def _describe_runs(session: Session, *, verbose: bool) -> Iterator[Section]:
    if session.runs:
        kinds = tuple(_STATES.get(run.outcome, ERROR) for run in session.runs)
        yield Section((Table(_HEAD, tuple(map(_format_run, session.runs)), kinds),))
    for run in session.runs:
        lines = tuple(_describe_run(run, verbose=verbose))
        if lines:
            yield Section(lines, Line(f"{run.job.identity}:"), is_apart=False)
    if session.left_out:
        lines = tuple(
            Line(f"{item.label}: not tested: {item.why}", kind=NOTE) for item in session.left_out
        )
        yield Section(lines, is_apart=not session.runs)


def _list_checks(session: Session) -> Iterator[Check]:
    """List the checks of each run, then what was left out.

    Where nothing was run, the whole test was.
    """
    for run in session.runs:
        rename, title = run.job.device.rename_gpus, run.job.identity
        for item in run.results:
            said = rename(f"{item.outcome}: {item.message}") + (
                f" [{item.finding}]" if item.finding else ""
            )
            name = rename(f"{item.check} {item.device}".rstrip())
            outcome = _CASES.get(item.outcome, "failure")
            yield Check(
                title, title, name, outcome, said, tuple(item.error.splitlines()), item.seconds
            )
    left_out = [(item.label, item.why) for item in session.left_out]
    for label, why in left_out if session.runs else [*left_out, ("smoke", headline_of(session))]:
        yield Check("not tested", "not tested", label, "skipped", why)


_CASES = {PASSED: "passed", SKIPPED: "skipped", **dict.fromkeys((RAISED, HUNG, CRASHED), "error")}


def _format_run(run: Run) -> tuple[str, ...]:
    """Describe a run in the table: what failed first, else what was computed and where."""
    device, bad = run.job.device, run.bad[:1]
    done = [result for result in run.results if result.outcome != SKIPPED]
    shown = bad or _list_computed(run)
    said = ""
    if shown:
        first = shown[0]
        said = f": {first.message.removesuffix(f' on {first.ran_on}')}"
        if bad:
            said = f": {first.check}"
    skipped = ""
    if len(run.results) > len(done):
        skipped = f", {len(run.results) - len(done)} skipped"
    memory = "-"
    if (run.peak_memory or 0) >= _MIB:
        memory = f"{(run.peak_memory or 0) // _MIB} MiB"
    place = device.rename_gpus(
        ", ".join(dict.fromkeys(result.ran_on for result in shown if result.ran_on)) or "-"
    )
    framework = run.job.subject.title + (" (a quarter of its memory)" if run.job.part else "")
    cells = (
        framework,
        ", ".join(filter(None, (device.title, device.pci))),
        device.rename_gpus(f"{run.outcome}{said}"),
        place,
        f"{len(done)}{skipped}",
    )
    return (*cells, f"{run.seconds:.1f} s", memory)


def _list_computed(run: Run) -> list[Result]:
    """List the right products, or the last right check, on the devices of a run.

    A run on a GPU tests the CPU, too.
    """
    placed = [result for result in run.results if result.ran_on and result.outcome == PASSED]
    own = [
        result for result in placed if run.job.device.kind == CPU or result.ran_on.startswith("GPU")
    ]
    return [result for result in own if result.check == "matmul"] or own[-1:]


def _describe_run(run: Run, *, verbose: bool) -> Iterator[Line]:
    hidden = {PASSED, SKIPPED} if run.outcome != SKIPPED else {PASSED}
    shown = [result for result in run.results if verbose or result.outcome not in hidden]
    for result in shown:
        yield from _describe_result(result, run.job.device, verbose=verbose)
    if verbose and (shown or run.measures):
        for listing in run.listings:
            yield Line(f"{listing.way}: {', '.join(listing.devices) or 'none'}")
    for item in run.measures:
        yield Line(
            f"{run.job.device.rename_gpus(item.device)} {item.name}: {item.value:g} {item.unit}"
        )
        if item.note:
            yield Line(item.note, "  ")
    if run.log and run.bad:
        yield Line(f"log: {run.log}")


def _describe_result(result: Result, device: Device, *, verbose: bool) -> Iterator[Line]:
    where = f" {result.device}" if result.device else ""
    pointed = f" [{result.finding}]" if result.finding else ""
    yield Line(
        device.rename_gpus(f"{result.check}{where}: {result.outcome}: {result.message}{pointed}")
    )
    words = result.error.splitlines()
    # The first line of an error is the message above.
    if not (verbose):
        words = [line for line in words[-_ERROR_LINES:] if line not in result.message]
    for line in words:
        yield Line(line, "  ")


_PLACEMENT_HEAD = ("run", "check", "asked", "operation", "type", "device", "told by", "gpu")


def placement_lines(session: Session) -> Iterator[str]:
    """Yield a line, tab-separated, for each operation.

    `asked` and `device` are as the process counts; `gpu` is the machine's: its number, PCI address
    and UUID.
    """
    yield "\t".join(_PLACEMENT_HEAD)
    for run in session.runs:
        for item in run.placements:
            gpu = run.job.device.member(item.device)
            asked = ", ".join(list_asked(item.check, item.asked))
            cells = (run.job.title, item.check, asked, item.node, item.op, item.device, item.by)
            yield "\t".join(map(inert, (*cells, gpu.identity if gpu else "")))
