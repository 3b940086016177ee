"""Describe GPUs and their processes, and encode them as JSON."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise

from envcheck.actions import shell_line
from envcheck.gpus.fits import Fit, Job, estimate_need, format_formula, name_formula, name_gpu
from envcheck.gpus.holders import GpuView, Holder, has_unexplained_memory
from envcheck.gpus.listing import Listing, judge
from envcheck.model import Absent, Fact, Gpu, GpuActivity, Known, encode, list_fields
from envcheck.model.quoting import quote
from envcheck.model.text import counted
from envcheck.render.document import Document, Line, Row, Section, Table
from envcheck.render.json_contracts import Json, document_text, schema_keys
from envcheck.render.text import (
    lay_out,
    list_lines,
    print_document,
    terminal_size,
    wants_ascii,
    write_styled,
)

_GPU_HEAD = (
    "GPU", "name", "PCI", "capability", "memory used", "use", "temp", "fan", "state", "power",
    "MIG",
)  # fmt: skip
_PROCESS_HEAD = ("GPU", "PID", "user", "process", "memory", "time", "state", "to end it")
_GIB = 1 << 30
_NO_STATE = 32  # NVML_PSTATE_UNKNOWN


def describe_listing(listing: Listing, *, verbose: bool = False, quiet: bool = False) -> Document:
    """Describe a listing; `quiet` leaves the verdict, `verbose` adds command lines."""
    verdict, message = judge(listing)
    blocks = () if quiet else tuple(_describe_views(listing, verbose=verbose))
    return Document(
        "envcheck gpus",
        verdict,
        message,
        about=(Section(blocks),) if blocks else (),
        is_listing=True,
    )


def _describe_views(listing: Listing, *, verbose: bool) -> Iterator[Line | Table]:
    yield Line(f"{listing.taken_at}  driver {_format_fact(listing.driver)}")
    if listing.views:
        rows = [
            row
            for view in listing.views
            for row in (_gpu_row(view.activity), *_instance_rows(view.activity))
        ]
        yield Table(_GPU_HEAD, tuple(rows))
    processes = tuple(
        _process_row(view, holder) for view in listing.views for holder in view.holders
    )
    if processes:
        yield Table(_PROCESS_HEAD, processes)
    for view in listing.views:
        for said in _list_remarks(view, verbose=verbose):
            yield Line(said)
    yield from map(Line, listing.blind_spots)
    if listing.job is not None:
        yield from map(Line, _need_lines(listing.job))
    if listing.fits:
        yield Table(("place", "free", "fits", "largest batch"), tuple(map(_fit_row, listing.fits)))


@contextmanager
def show_live(*, color: bool) -> Iterator[Callable[[Document], None]]:
    """Give a function that shows the newest document.

    In place on a terminal, one after the other when piped.
    """
    if not sys.stdout.isatty():
        yield lambda document: print_document(document, color=color)
        return
    height = 0

    def redraw(document: Document) -> None:
        nonlocal height
        columns, rows = terminal_size(sys.stdout)
        lines = lay_out(
            list_lines(document), columns, color=color, is_ascii=wants_ascii(sys.stdout)
        )
        # A line with codes was wrapped already: cut, it would lose the one that ends a colour.
        fitted = [(line if "\x1b" in line else line[:columns], style) for line, style in lines]
        shown = fitted[: max(rows - 1, 1)]
        sys.stdout.write("\r\x1b[2K" + "\x1b[1A\x1b[2K" * height)
        write_styled(shown, sys.stdout, color=color)
        height = len(shown)

    sys.stdout.write("\x1b[?25l")  # hide the cursor
    try:
        yield redraw
    finally:
        with suppress(OSError):  # the terminal is gone
            sys.stdout.write("\x1b[?25h")
            sys.stdout.flush()  # before what ended the list is said


def _gpu_row(activity: GpuActivity) -> Row:
    gpu = activity.gpu
    used, total = (
        _format_fact(fact, _format_gibibytes) for fact in (gpu.memory_used_bytes, gpu.memory_bytes)
    )
    limit = ""
    if activity.power_limit_watts.value is not None:
        limit = f" / {activity.power_limit_watts.value:.0f}"
    return (
        _format_fact(gpu.nvml_index),
        _format_fact(gpu.name),
        _format_fact(gpu.pci_address),
        _format_fact(gpu.compute_capability),
        f"{used} / {total} GiB" if isinstance(gpu.memory_bytes, Known) else total,
        _format_fact(activity.utilization_percent, "{} %".format),
        _format_fact(activity.temperature_celsius, "{} C".format),
        _format_fact(activity.fan_percent, "{} %".format),
        _format_fact(
            activity.performance_state, lambda state: f"P{state}" if state < _NO_STATE else "?"
        ),
        _format_fact(activity.power_watts, "{:.0f}".format)
        + limit
        + (" W" if isinstance(activity.power_watts, Known) else ""),
        _format_mig(activity),
    )


def _instance_rows(activity: GpuActivity) -> Iterator[Row]:
    """Show each MIG instance below its GPU, with the UUID that CUDA_VISIBLE_DEVICES takes."""
    for at, item in enumerate(activity.instances.value or ()):
        used, total = (
            _format_fact(fact, _format_gibibytes)
            for fact in (item.memory_used_bytes, item.memory_bytes)
        )
        name = f"  {item.name} {item.uuid}"
        memory = f"{used} / {total} GiB"
        yield (
            f"{_format_fact(activity.gpu.nvml_index)}:{at}",
            name,
            "",
            "",
            memory,
            *[""] * (len(_GPU_HEAD) - 5),
        )


def _format_mig(activity: GpuActivity) -> str:
    enabled = activity.gpu.mig_enabled
    if not isinstance(enabled, Known):
        return _format_fact(enabled)
    count = 0
    if activity.instances.value is not None:
        count = len(activity.instances.value)
    if enabled.value:
        return counted(count, "instance")
    return "off"


def _process_row(view: GpuView, holder: Holder) -> Row:
    ending = holder.ending
    memory = "hidden"
    if holder.listed:
        memory = _format_fact(holder.memory_bytes, lambda count: f"{count >> 20} MiB")
    end = shell_line(ending.argv) if ending.argv else "-"
    index, time = _format_fact(view.activity.gpu.nvml_index), _run_time(holder.seconds)
    user, name = holder.user or "?", _name_process(holder)
    return (index, str(holder.pid), user, name, memory, time, ending.state, end)


def _name_process(holder: Holder) -> str:
    """Name a process, a Python with what it runs: python3 train.py, python3 -m vllm.

    Its other words may hold secrets.
    """
    name = holder.name or "?"
    first, *words = holder.command_line.split() or [""]
    if not re.search(r"(^|[/\\])python[\d.]*(\.exe)?$", first):
        return name
    for before, word in pairwise(("", *words)):
        if word == "-c":
            break
        if before == "-m":
            return f"{name} -m {quote(word)}"
        if not word.startswith("-") and before not in ("-W", "-X"):
            return f"{name} {quote(re.split(_SEPARATOR, word)[-1])}"
    return name


_SEPARATOR = r"[/\\]"


def _run_time(seconds: int | None) -> str:
    """Show a time as ps and gpustat do: 3-04:05:06, 04:05:06, 05:06."""
    if seconds is None:
        return "?"
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes = f"{rest // 60:02}:{rest % 60:02}"
    if days:
        return f"{days}-{hours:02}:{minutes}"
    if hours:
        return f"{hours:02}:{minutes}"
    return minutes


def _list_remarks(view: GpuView, *, verbose: bool) -> Iterator[str]:
    for holder in view.holders:
        if verbose and holder.command_line:
            yield f"{holder.pid}: {quote(holder.command_line)}"
        if holder.ending.remark:
            yield f"{holder.pid} {holder.name}: {holder.ending.remark}"
    left = view.unaccounted_bytes
    if left.value is not None and has_unexplained_memory(view):
        # On Grace the system itself manages the GPU's memory, and keeps there what it has read.
        system = ""
        if re.search(r"\bG[HB]\d{3}", str(view.activity.gpu.name.value)):
            system = ", or the system's own cache"
        hidden = ", ".join(
            f"{holder.pid} ({holder.name})" for holder in view.holders if not holder.listed
        )
        used = (
            f"{name_gpu(view)}: {_format_gibibytes(left.value)} GiB"
            " are in use by no process that the driver lists"
        )
        elsewhere = (
            f"by one in another container or under another name here, or one that died{system}"
        )
        yield f"{used}, but {hidden} has it open." if hidden else f"{used}: {elsewhere}."


def _fit_row(fit: Fit) -> Row:
    says = {None: "unknown", True: "yes", False: "no"}[fit.fits]
    largest = "-" if fit.largest_batch is None else str(fit.largest_batch)
    free = _format_fact(fit.free_bytes, _format_gibibytes)
    return fit.place, f"{free} GiB" if isinstance(fit.free_bytes, Known) else free, says, largest


def _need_lines(job: Job) -> list[str]:
    counted = "Not counted:"
    if job.reserve:
        counted = f"{_format_gibibytes(job.reserve)} GiB are reserved for"
    return [
        f"Needed: {_format_gibibytes(estimate_need(job).total)} GiB = {format_formula(job)}",
        (
            f"Formula: {name_formula(job)}. {counted} the CUDA context, workspaces and"
            " fragmentation, often 0.5 to 2 GiB."
        ),
    ]


def _format_fact(fact: Fact[object], show: Callable[..., str] = str) -> str:
    if fact.value is not None:
        return show(fact.value)
    return "-" if isinstance(fact, Absent) else "?"


def _format_gibibytes(count: int) -> str:
    return f"{count / _GIB:.1f}"


def render_gpus_json(listing: Listing) -> str:
    """Render what was found at one moment."""
    verdict, message = judge(listing)
    document = {
        **schema_keys("envcheck/gpus/1"),
        "taken_at": listing.taken_at,
        "verdict": verdict,
        "message": message,
        "driver": encode(listing.driver),
        "gpus": [_encode_view(view) for view in listing.views],
        "blind_spots": list(listing.blind_spots),
    }
    if listing.wanted:
        document["free"] = list(listing.free)
    if listing.job is not None:
        document["fit"] = {
            **_encode_need(listing.job),
            "places": [encode(fit) for fit in listing.fits],
        }
    return document_text(document)


def _encode_view(view: GpuView) -> Json:
    activity = encode(view.activity)
    gpu = activity.pop("gpu")
    # the rest are its processes, which stand below, and its health, which a doctor reads
    names = list_fields(Gpu)
    gpu = {name: gpu[name] for name in names[: names.index("processes")] if name in gpu}
    processes = [_process(holder) for holder in view.holders]
    return {
        **gpu,
        **activity,
        "unaccounted_bytes": encode(view.unaccounted_bytes),
        "processes": processes,
    }


def _process(holder: Holder) -> Json:
    shown = encode(holder)
    for private in ("command_line", "user"):
        shown.pop(private)
    return {**{name: value for name, value in shown.items() if name != "ending"}, **shown["ending"]}


def _encode_need(job: Job) -> Json:
    need = estimate_need(job)
    return {
        "job": encode(job),
        "need": {**encode(need), "total": need.total},
        "formula": format_formula(job),
        "counts": name_formula(job),
    }
