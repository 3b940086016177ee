"""Render rows and tables of the matrix as text and JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from envcheck.model import COMPATIBLE, Citation, FrameworkRelease, encode, inert, numbers
from envcheck.render.documents import Row, aligned_rows, document_text, schema_keys, terminal_size, write_styled
from envcheck.rules.matrix_question import Answer, RowsFound, TableRow, TablesFound

_HEADS = ("release", "platform", "Pythons", "CUDA", "cuDNN", "GPU code", "glibc", "numpy", "source")
_MARK = "*"
_LEGEND = "* documented, not read from an artifact."


def render_found_json(found: RowsFound | TablesFound) -> str:
    """Render releases, schema envcheck/matrix-rows/1, or the rows of a table, schema envcheck/matrix-tables/1."""
    if isinstance(found, TablesFound):
        return _render_json("envcheck/matrix-tables/1", found, {"requirement": found.requirement}, encode(found.rows))
    return _render_json("envcheck/matrix-rows/1", found, dict(found.question), [*map(_encode_answer, found.rows)])


def _render_json(schema: str, found: RowsFound | TablesFound, question: Mapping[str, str], rows: list[Any]) -> str:
    document = {
        **schema_keys(schema),
        "matrix_checked": found.checked,
        "verdict": found.verdict,
        "message": found.message,
        "question": question,
        "rows": rows,
    }
    return document_text(document)


def _encode_answer(item: Answer) -> dict[str, Any]:
    fit = {"fit": item.fit, "why": list(item.why), "problems": encode(item.problems)}
    variants = [_encode_build(build) for build in item.index_builds]
    return {**encode(item.release), **fit, "variants": variants, "companions": list(item.companions)}


def _encode_build(build: FrameworkRelease) -> dict[str, Any]:
    return {
        "cuda": build.cuda,
        "index_url": build.index,
        "compute_capabilities": list(build.compute_capabilities),
        "citation": encode(build.citations[0]),
        "proof": build.proof["compute_capabilities"],
    }


class Sources:
    """The citations of the printed rows, numbered in the order of their first use."""

    def __init__(self) -> None:
        self._numbers: dict[Citation, int] = {}

    def cite(self, citations: tuple[Citation, ...]) -> str:
        """Return the numbers of citations: "[1][3]"."""
        return "".join(f"[{self._numbers.setdefault(item, len(self._numbers) + 1)}]" for item in citations)

    def render(self) -> list[str]:
        """List what the numbers stand for."""
        return [
            inert(f"[{number}] {item.url_or_artifact}, {item.locator}, checked {item.checked}")
            for item, number in self._numbers.items()
        ]


def render_tables(found: TablesFound, *, verbose: bool, quiet: bool) -> str:
    """Render table rows as text with their sources; `verbose` adds how cells are known, `quiet` drops the remarks."""
    sources = Sources()
    lines = [line for row in found.rows for line in _render_table_row(row, sources, verbose=verbose, quiet=quiet)]
    message = [] if quiet and lines else [inert(found.message)]
    return "\n".join([*lines, *sources.render(), *message])


def _render_table_row(row: TableRow, sources: Sources, *, verbose: bool, quiet: bool) -> Iterator[str]:
    yield inert(f"{row.name} {sources.cite(row.citations)}")
    width = max(map(len, row.cells), default=0)
    for name, value in row.cells.items():
        is_documented = row.proof.get(name, row.proof.get("*")) == "documented"
        mark = " *" if is_documented and not quiet else ""
        yield inert(f"  {name.replace('_', ' '):<{width}}  {format_cell(value)}{mark}")
    if row.note and not quiet:
        yield inert(f"  {'note':<{width}}  {row.note}")
    if verbose:
        yield inert(f"  {'proof':<{width}}  {', '.join(f'{cell} {tier}' for cell, tier in row.proof.items())}")


def format_cell(value: Any) -> str:
    """Format a cell: lists with blanks, tables as name and value."""
    if isinstance(value, Mapping):
        return " ".join(f"{name}:{format_cell(item) if item else '?'}" for name, item in value.items())
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "yes" if value is True else str(value)


def print_found(found: RowsFound | TablesFound, *, color: bool, verbose: bool, quiet: bool) -> None:
    """Print rows to stdout with the artifact or document that each rests on.

    `verbose` adds notes and proofs, `quiet` drops the remarks. A single release is printed with what it requires.
    """
    if isinstance(found, TablesFound) or not (sys.stdout.isatty() or color):
        _write(render_found(found, verbose=verbose, quiet=quiet))
        return
    table, below = _render_parts(found, verbose=verbose, quiet=quiet)
    if table:
        _draw(table, color=color)
    _write("".join(f"{line}\n" for line in below))


def render_found(found: RowsFound | TablesFound, *, verbose: bool = False, quiet: bool = False) -> str:
    """Render rows as the text that a pipe gets."""
    if isinstance(found, TablesFound):
        return render_tables(found, verbose=verbose, quiet=quiet) + "\n"
    table, below = _render_parts(found, verbose=verbose, quiet=quiet)
    return "".join(f"{line}\n" for line in (*(_align(table) if table else ()), *below))


def _render_parts(found: RowsFound, *, verbose: bool, quiet: bool) -> tuple[list[Row], list[str]]:
    """Render the cells of the table, and the lines below it."""
    sources = Sources()
    table = [_make_inert(_render_cells(item, sources)) for item in found.rows]
    return table, _render_below(found, table, sources, verbose=verbose, quiet=quiet)


def _align(table: list[Row]) -> list[str]:
    return [*aligned_rows((_HEADS, table)), ""]


def _render_below(found: RowsFound, table: list[Row], sources: Sources, *, verbose: bool, quiet: bool) -> list[str]:
    """Render what stands below the table: the legend, remarks, sources, the message."""
    single = len({item.release.version for item in found.rows}) == 1
    remarks = [
        line
        for item in (() if quiet else found.rows)
        for line in render_remarks(item, sources, verbose=verbose, single=single)
    ]
    legend = [_LEGEND] if any(_MARK in cell for row in table for cell in row) else []
    message = [] if quiet and table else [inert(found.message)]
    return [*legend, *dict.fromkeys(remarks), *sources.render(), *message]


def render_remarks(item: Answer, sources: Sources, *, verbose: bool, single: bool) -> Iterator[str]:
    """Yield what the cells of a release cannot say; a `single` release with the distributions that it requires."""
    row = item.release
    label = f"{row.distribution}=={row.build_version} on {row.platform}"
    if row.yanked:
        yield f"{label}: yanked from the index."
    if item.why:
        yield inert(f"? {label}: {'; '.join(item.why)}.")
    for problem in item.problems:
        fix, where = problem.fix or problem.remedy, f" on {', '.join(problem.platforms)}" if problem.platforms else ""
        yield inert(f"{row.distribution}=={row.version}{where}: {problem.what}" + (f" Fix: {fix}" if fix else ""))
    if row.cuda_wheels and (single or verbose):
        extra = f"[{row.gpu_extra}] " if row.gpu_extra else ""
        yield inert(f"{label} {extra}installs: {' '.join(row.cuda_wheels)}")
    if item.companions and (single or verbose):
        yield inert(f"{label} goes with: {' '.join(item.companions)}")
    if item.index_builds:
        yield inert(f"{label}: {_render_index_builds(item.index_builds, sources)}")
    if verbose:
        yield from _render_details(label, row)


def _render_index_builds(builds: tuple[FrameworkRelease, ...], sources: Sources) -> str:
    """Name the builds of a release on PyTorch's own index, newest CUDA first."""
    names = ", ".join(f"{build.cuda} ({_render_index(build)})" for build in builds)
    stated = builds[-1]  # the newest may be the wheel of the default index, whose own proof says nothing of this index
    proof, cited = stated.proof["compute_capabilities"], sources.cite(stated.citations[:1])
    return f"PyTorch's own index has it for CUDA {names}; {proof} {cited}"


def _render_index(build: FrameworkRelease) -> str:
    code = " ".join(map(format_target, build.compute_capabilities))
    return build.index + (f" with code for {code}" if code else ", GPU code not known")


def _render_details(label: str, row: FrameworkRelease) -> Iterator[str]:
    needs = " ".join(f"{name}{specifier}" for name, specifier in row.requires.items())
    if needs:
        yield inert(f"{label} requires: {needs}")
    tools = [row.compiler or "", f"TensorRT {row.tensorrt}" if row.tensorrt not in {None, "none"} else ""]
    if any(tools):
        yield inert(f"{label} built with: {', '.join(filter(None, tools))}")
    if row.note:
        yield inert(f"{label} note: {row.note}")
    yield from _render_binaries(label, row.binaries)
    yield f"{label} proof: {', '.join(f'{cell} {tier}' for cell, tier in row.proof.items())}"


_FACTS = {
    "gpu_code": "GPU code",
    "architectures": "GPU code",  # of a matrix of an earlier edition
    "needed": "needs",
    "opens": "may open",
    "runpath": "searches",
    "symbols": "needs symbols",
    "compilers": "compiled by",
}


def _render_binaries(label: str, binaries: Mapping[str, Any]) -> Iterator[str]:
    """Yield which wheel was read and how much of it, then one line for each binary."""
    if not binaries:
        return
    read = binaries["read"]
    yield inert(f"{label} binaries: {len(read)} of the {binaries['binaries']} in {binaries['wheel']} were read:")
    for name, facts in read.items():
        parts = [f"{words} {_format_fact(facts[fact])}" for fact, words in _FACTS.items() if facts.get(fact)]
        yield inert(f"  {name}: {'; '.join(parts)}")


def _format_fact(fact: Any) -> str:
    if isinstance(fact, dict):
        if all(isinstance(count, int) for count in fact.values()):
            return ", ".join(f"{count}x {targets}" for targets, count in fact.items())
        return " ".join(f"{family}_{version}" for family, version in fact.items())
    return (", " if any(" " in item for item in fact) else " ").join(fact)


def format_target(target: str) -> str:
    """Format a target as a compute capability: sm_80 is 8.0, compute_90 is 9.0+PTX."""
    kind, _, number = target.partition("_")
    digits, suffix = (number[:-1], number[-1]) if number[-1].isalpha() else (number, "")
    return f"{digits[:-1]}.{digits[-1]}{suffix}" + ("+PTX" if kind == "compute" else "")


def _render_cells(item: Answer, sources: Sources) -> tuple[str, ...]:
    row = item.release

    def mark(cell: str, text: str) -> str:
        return text + (_MARK if row.proof.get(cell) == "documented" and text not in {"-", "not read"} else "")

    return (
        f"{row.distribution}=={row.build_version}" + ("" if item.fit == COMPATIBLE else " ?"),
        row.platform,
        mark("pythons", _render_pythons(row)),
        mark("cuda", (row.cuda or "not read") if row.cuda_build else "-"),
        mark("cudnn", (row.cudnn or "not read") if row.cuda_build else "-"),
        mark("compute_capabilities", _render_code(row)),
        mark("glibc", row.glibc or "-"),
        mark("requires", row.requires.get("numpy", "-")),
        sources.cite(row.citations),
    )


def _render_pythons(row: FrameworkRelease) -> str:
    """Render the minors as a range if none is missing: 3.9-3.12."""
    minors = [numbers(text) for text in row.pythons]
    complete = [(minors[0][0], number) for number in range(minors[0][1], minors[0][1] + len(minors))]
    text = f"{row.pythons[0]}-{row.pythons[-1]}" if len(minors) > 1 and minors == complete else " ".join(row.pythons)
    return text + (f" (free-threaded {' '.join(row.free_threaded)})" if row.free_threaded else "")


def _render_code(row: FrameworkRelease) -> str:
    """Render compute capabilities as 8.0 for machine code and 9.0+PTX for PTX."""
    if not row.cuda_build:
        return f"stub for {row.stub_for}" if row.stub_for else "-"
    return " ".join(map(format_target, row.compute_capabilities)) or "not read"


def _make_inert(row: Row) -> Row:
    return tuple(map(inert, row))


def _draw(table: list[Row], *, color: bool) -> None:
    """Draw a table; on a terminal that is too narrow for one, print each row as a list."""
    width = terminal_size(sys.stdout)[0]
    widths = [max(map(len, column)) for column in zip(_HEADS, *table, strict=True)]
    # GPU code, numpy and the sources can be folded; below this width a table is harder to read than a list.
    if width < sum(widths[:5]) + 2 * len(_HEADS) + 40:
        lines = [line for row in table for line in _record(row)]
    else:
        head, *rows = aligned_rows((_HEADS, table), width)
        lines = [(head, "bold"), *((row, "") for row in rows)]
    write_styled([*lines, ("", "")], sys.stdout, color=color)


def _record(row: Row) -> Iterator[tuple[str, str]]:
    yield f"{row[0]} on {row[1]} {row[-1]}", "bold"
    yield from ((f"  {head:<9} {cell}", "") for head, cell in zip(_HEADS[2:-1], row[2:-1], strict=True) if cell != "-")


def _write(text: str) -> None:
    encoding = sys.stdout.encoding or "ascii"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
