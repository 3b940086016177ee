"""Render rows and tables of the matrix as text and JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from envcheck.actions import shell_line
from envcheck.model import COMPATIBLE, Citation, FrameworkRelease, dataclass, encode, inert, numbers
from envcheck.render.documents import (
    Line,
    Row,
    aligned_rows,
    document_text,
    join_lines,
    print_lines,
    schema_keys,
    terminal_size,
    write_styled,
)
from envcheck.rules.matrix_question import Answer, ReleasesFound, RowsFound, TableRow, TablesFound
from envcheck.rules.newest_release import NewestRelease

_HEADS = ("release", "platform", "Pythons", "CUDA", "driver", "cuDNN", "GPU code", "glibc", "numpy", "source")
_MARK = "*"
_LEGEND = "* documented, not read from an artifact."
Found: TypeAlias = "RowsFound | ReleasesFound | TablesFound"


@dataclass(frozen=True)
class Shown:
    """What is shown beside the answer."""

    verbose: bool = False  # requirements, notes, and how each cell is known
    quiet: bool = False  # no remarks
    all_rows: bool = False  # every release, in place of the newest of each framework
    sources: bool = False  # the artifact or document of each row


SHORT = Shown()


def render_found_json(found: Found) -> str:
    """Render releases, schema envcheck/matrix-rows/1, or the rows of a table, schema envcheck/matrix-tables/1."""
    if isinstance(found, TablesFound):
        return _render_json("envcheck/matrix-tables/1", found, {"requirement": found.requirement}, encode(found.rows))
    rows = [*map(_encode_answer, found.rows)]
    newest = {"newest": encode(found.newest)} if isinstance(found, ReleasesFound) else {}
    return _render_json("envcheck/matrix-rows/1", found, dict(found.question), rows, newest)


def _render_json(
    schema: str,
    found: Found,
    question: Mapping[str, str],
    rows: list[Any],
    more: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    document = {
        **schema_keys(schema),
        "matrix_checked": found.checked,
        "verdict": found.verdict,
        "message": found.message,
        "question": question,
        "rows": rows,
        **more,
    }
    return document_text(document)


def _encode_answer(item: Answer) -> dict[str, Any]:
    fit = {"fit": item.fit, "why": list(item.why), "problems": encode(item.problems)}
    variants = [_encode_build(build) for build in item.index_builds]
    builds = [_encode_extra_build(build) for build in item.extra_builds]
    more = {"companions": list(item.companions), "min_driver": item.driver, "extra_builds": builds}
    return {**encode(item.release), **fit, "variants": variants, **more}


def _encode_extra_build(item: Answer) -> dict[str, Any]:
    row = item.release
    return {
        "requirement": item.requirement,
        "distribution": row.distribution,
        "version": row.version,
        "platform": row.platform,
        "pythons": list(row.pythons),
        "cuda": row.cuda,
        "cudnn": row.cudnn,
        "compute_capabilities": list(row.compute_capabilities),
        "min_driver": item.driver,
    }


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


def render_tables(found: TablesFound, options: Shown) -> str:
    """Render table rows as text; `verbose` adds how cells are known, `quiet` drops the remarks."""
    sources = Sources()
    lines = [line for row in found.rows for line in _render_table_row(row, sources, options)]
    message = [] if options.quiet and lines else [inert(found.message)]
    return "\n".join([*lines, *sources.render(), *message])


def _render_table_row(row: TableRow, sources: Sources, options: Shown) -> Iterator[str]:
    yield inert(row.name + (f" {sources.cite(row.citations)}" if options.sources else ""))
    width = max(map(len, row.cells), default=0)
    for name, value in row.cells.items():
        is_documented = row.proof.get(name, row.proof.get("*")) == "documented"
        mark = " *" if is_documented and not options.quiet else ""
        yield inert(f"  {name.replace('_', ' '):<{width}}  {format_cell(value)}{mark}")
    if row.note and not options.quiet:
        yield inert(f"  {'note':<{width}}  {row.note}")
    if options.verbose:
        yield inert(f"  {'proof':<{width}}  {', '.join(f'{cell} {tier}' for cell, tier in row.proof.items())}")


def format_cell(value: Any) -> str:
    """Format a cell: lists with blanks, tables as name and value."""
    if isinstance(value, Mapping):
        return " ".join(f"{name}:{format_cell(item) if item else '?'}" for name, item in value.items())
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "yes" if value is True else str(value)


def print_found(found: Found, *, color: bool, options: Shown) -> None:
    """Print an answer to stdout, drawn on a terminal."""
    if isinstance(found, TablesFound) or not (sys.stdout.isatty() or color):
        _write(render_found(found, options))
        return
    if isinstance(found, ReleasesFound) and not options.all_rows:
        print_lines(_render_newest(found, options), color=color)
        return
    table, below = _render_parts(found, options)
    if table:
        _draw(table, color=color)
    _write("".join(f"{line}\n" for line in below))


def render_found(found: Found, options: Shown = SHORT) -> str:
    """Render an answer as the text that a pipe gets."""
    if isinstance(found, TablesFound):
        return render_tables(found, options) + "\n"
    if isinstance(found, ReleasesFound) and not options.all_rows:
        return join_lines(_render_newest(found, options))
    table, below = _render_parts(found, options)
    return "".join(f"{line}\n" for line in (*(_align(table) if table else ()), *below))


def _render_newest(found: ReleasesFound, options: Shown) -> list[Line]:
    """Render the newest release of each framework that works, one a line, then the command for each."""
    works = any(item.requirement for item in found.newest)
    lines: list[Line] = [("", inert(f"{'Works' if works else 'Nothing works'} {_describe_question(found)}:"), "bold")]
    rows = [_make_inert(_render_release(item)) for item in found.newest]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for release, span, newer in rows:
        lines.append((f"{release:<{widths[0]}}  {span:<{widths[1]}}  ", newer, ""))
    if options.quiet:
        return lines
    commands = [item.command for item in found.newest if item.command]
    lines += [("", "", ""), *(("$ ", _shell_line(words), "") for words in commands)] if commands else []
    more = found.ambiguity.strip() if works else f"All platforms: {found.message}"
    lines += [("", inert(more), "")] if more else []
    if works or found.rows:
        lines += [("", "", ""), ("", "Every release that works:", ""), ("$ ", _shell_line(_list_all(found)), "")]
    return lines


def _describe_question(found: ReleasesFound) -> str:
    """Name what was asked: "with Python 3.11 and driver 535.104 on linux_x86_64"."""
    words = {"python": "Python {}", "driver": "driver {}", "gpu": "GPU {}"}
    parts = [text.format(found.question[name]) for name, text in words.items() if name in found.question]
    return (f"with {' and '.join(parts)} " if parts else "") + f"on {found.platform}"


def _render_release(item: NewestRelease) -> Row:
    newer = f"{item.refused} {item.why}".strip()
    if not item.requirement:
        return item.framework, "none", newer
    name, _, version = item.requirement.partition("==")
    span = f"since {item.oldest}" if item.oldest != item.newest else "no older one"
    if len(item.exceptions) == 1:
        span += f", not {item.exceptions[0]}"
    elif item.exceptions:
        span += f", but {len(item.exceptions)} not"
    return f"{name.partition('[')[0]}=={version}", span, newer or "is the newest"


def _list_all(found: ReleasesFound) -> tuple[str, ...]:
    options = [word for name, value in found.question.items() for word in (f"--{name}", value)]
    return ("envcheck", "matrix", "query", *options, "--all")


def _shell_line(words: tuple[str, ...]) -> str:
    return shell_line(words, "windows" if os.name == "nt" else "linux")


def _render_parts(found: RowsFound | ReleasesFound, options: Shown) -> tuple[list[Row], list[str]]:
    """Render the cells of the table, and the lines below it."""
    sources = Sources()
    groups = _fold_rows([each for item in found.rows for each in (item, *item.extra_builds)])
    table = [_make_inert(_render_group(group, sources, options)) for group in groups]
    return table, _render_below(found, groups, table, sources, options)


def _fold_rows(rows: list[Answer]) -> list[list[Answer]]:
    """Put neighbouring releases of a distribution together whose cells and answers agree."""
    groups: list[list[Answer]] = []
    open_groups: dict[tuple[str, ...], list[Answer]] = {}
    for item in rows:
        row = item.release
        name = (item.label.partition("==")[0], row.platform, row.local, row.gpu_extra or "")
        group = open_groups.get(name)
        if group and item.place == group[-1].place + 1 and _cells(item) == _cells(group[-1]):
            group.append(item)
        else:
            open_groups[name] = [item]
            groups.append(open_groups[name])
    return groups


def _render_group(group: list[Answer], sources: Sources, options: Shown) -> Row:
    """Render the cells of releases that agree, as those of one: torch==2.4.0 to 2.6.0."""
    label = group[-1].label + (f" to {group[0].label.partition('==')[2]}" if len(group) > 1 else "")
    citations = tuple(dict.fromkeys(item for answer in group for item in answer.release.citations))
    sources_cell = (sources.cite(citations),) if options.sources else ()
    return (label + ("" if group[0].fit == COMPATIBLE else " ?"), *_cells(group[0])[1:], *sources_cell)


def _align(table: list[Row]) -> list[str]:
    return [*aligned_rows((_HEADS[: len(table[0])], table)), ""]


def _render_below(
    found: RowsFound | ReleasesFound, groups: list[list[Answer]], table: list[Row], sources: Sources, options: Shown
) -> list[str]:
    """Render what stands below the table: the legend, remarks, sources, the message."""
    single = len({item.release.version for item in found.rows}) == 1
    remarks = [
        line
        for group in (() if options.quiet else groups)
        for line in _render_group_remarks(group, sources, options, single=single)
    ]
    legend = [_LEGEND] if any(_MARK in cell for row in table for cell in row) else []
    message = [] if options.quiet and table else [inert(found.message)]
    return [*legend, *dict.fromkeys(remarks), *(sources.render() if options.sources else []), *message]


def _render_group_remarks(group: list[Answer], sources: Sources, options: Shown, *, single: bool) -> Iterator[str]:
    """Yield what the cells of a group cannot say; where many releases are listed, that alone which is wrong with it."""
    if single or options.verbose:
        for item in group:
            yield from _render_remarks(item, sources, options)
        return
    first, last = group[0], group[-1]
    for item in group:
        if item.release.yanked:
            yield f"{_label(item.release)}: yanked from the index."
    if first.why:
        oldest = f"{_label(last.release)}, and newer ones as listed" if last is not first else _label(first.release)
        yield inert(f"? {oldest}: {'; '.join(last.why)}.")


def _label(row: FrameworkRelease) -> str:
    return f"{row.distribution}=={row.build_version} on {row.platform}"


def _render_remarks(item: Answer, sources: Sources, options: Shown) -> Iterator[str]:
    """Yield what the cells of a release cannot say, and the distributions that it requires."""
    row, label = item.release, _label(item.release)
    if row.yanked:
        yield f"{label}: yanked from the index."
    if item.why:
        yield inert(f"? {label}: {'; '.join(item.why)}.")
    for problem in item.problems:
        fix, where = problem.fix or problem.remedy, f" on {', '.join(problem.platforms)}" if problem.platforms else ""
        yield inert(f"{row.distribution}=={row.version}{where}: {problem.what}" + (f" Fix: {fix}" if fix else ""))
    if row.cuda_wheels:
        extra = f"[{row.gpu_extra}] " if row.gpu_extra else ""
        yield inert(f"{label} {extra}installs: {' '.join(row.cuda_wheels)}")
    if item.companions:
        yield inert(f"{label} goes with: {' '.join(item.companions)}")
    if item.index_builds:
        cited = sources if options.sources else None
        yield inert(f"{label}: {_render_index_builds(item.index_builds, cited)}")
    if options.verbose:
        yield from _render_details(label, row)


def _render_index_builds(builds: tuple[FrameworkRelease, ...], sources: Sources | None) -> str:
    """Name the builds of a release on PyTorch's own index, newest CUDA first."""
    names = ", ".join(f"{build.cuda} ({_render_index(build)})" for build in builds)
    stated = builds[-1]  # the newest may be the wheel of the default index, whose own proof says nothing of this index
    cited = f" {sources.cite(stated.citations[:1])}" if sources else ""
    return f"PyTorch's own index has it for CUDA {names}; {stated.proof['compute_capabilities']}{cited}"


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


def _cells(item: Answer) -> tuple[str, ...]:
    """Render the cells of a release but its name and its sources, and how it fits."""
    row = item.release

    def mark(cell: str, text: str) -> str:
        return text + (_MARK if row.proof.get(cell) == "documented" and text not in {"-", "not read"} else "")

    return (
        item.fit,
        row.platform,
        mark("pythons", _render_pythons(row)),
        mark("cuda", (row.cuda or "not read") if row.cuda_build else "-"),
        item.driver or "-",
        mark("cudnn", (row.cudnn or "not read") if row.cuda_build else "-"),
        mark("compute_capabilities", _render_code(row)),
        mark("glibc", row.glibc or "-"),
        mark("requires", row.requires.get("numpy", "-")),
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
    heads = _HEADS[: len(table[0])]
    widths = [max(map(len, column)) for column in zip(heads, *table, strict=True)]
    # GPU code, numpy and the sources can be folded; below this width a table is harder to read than a list.
    if width < sum(widths[:6]) + 2 * len(_HEADS) + 40:
        lines = [line for row in table for line in _record(row)]
    else:
        head, *rows = aligned_rows((heads, table), width)
        lines = [(head, "bold"), *((row, "") for row in rows)]
    write_styled([*lines, ("", "")], sys.stdout, color=color)


def _record(row: Row) -> Iterator[tuple[str, str]]:
    cells = [*zip(_HEADS, row, strict=False)][2:]
    yield f"{row[0]} on {row[1]}", "bold"
    yield from ((f"  {head:<9} {cell}", "") for head, cell in cells if cell != "-")


def _write(text: str) -> None:
    encoding = sys.stdout.encoding or "ascii"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
