"""Describe rows and tables of the matrix, and encode them as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from envcheck.actions import type_here
from envcheck.model import COMPATIBLE, Citation, FrameworkRelease, dataclass, encode, numbers
from envcheck.render.document import Command, Document, Line, Row, Section, Table
from envcheck.render.json_contracts import Json, document_text, pick_fields, schema_keys
from envcheck.rules.matrix_question import (
    Answer,
    NewestRelease,
    ReleasesFound,
    RowsFound,
    TableRow,
    TablesFound,
)

_HEADS = (
    "release", "platform", "Pythons", "CUDA", "driver", "cuDNN", "GPU code", "glibc", "numpy",
    "source",
)  # fmt: skip
_MARK = "*"
_LEGEND = "* documented, not read from an artifact."
Found: TypeAlias = "RowsFound | ReleasesFound | TablesFound"


@dataclass
class MatrixOptions:
    """What is shown beside the answer."""

    verbose: bool = False  # requirements, notes, and how each cell is known
    quiet: bool = False  # no remarks
    all_rows: bool = False  # every release, in place of the newest of each framework
    sources: bool = False  # the artifact or document of each row


SHORT = MatrixOptions()


def render_found_json(found: Found) -> str:
    """Render releases or the rows of a table.

    Their schemas are envcheck/matrix-rows/1 and envcheck/matrix-tables/1.
    """
    if isinstance(found, TablesFound):
        return _render_json(
            "envcheck/matrix-tables/1",
            found,
            {"requirement": found.requirement},
            encode(found.rows),
        )
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


def _encode_answer(item: Answer) -> Json:
    fit = {"fit": item.fit, "why": list(item.why), "problems": encode(item.problems)}
    variants = [_encode_build(build) for build in item.index_builds]
    builds = [_encode_extra_build(build) for build in item.extra_builds]
    more = {"companions": list(item.companions), "min_driver": item.driver, "extra_builds": builds}
    return {**encode(item.release), **fit, "variants": variants, **more}


_OF_EXTRA_BUILD = (
    "distribution", "version", "platform", "pythons", "cuda", "cudnn", "compute_capabilities",
)  # fmt: skip


def _encode_extra_build(item: Answer) -> Json:
    return {
        "requirement": item.requirement,
        **pick_fields(item.release, *_OF_EXTRA_BUILD),
        "min_driver": item.driver,
    }


def _encode_build(build: FrameworkRelease) -> Json:
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
        return "".join(
            f"[{self._numbers.setdefault(item, len(self._numbers) + 1)}]" for item in citations
        )

    def render(self) -> list[str]:
        """List what the numbers stand for."""
        return [
            f"[{number}] {item.url_or_artifact}, {item.locator}, checked {item.checked}"
            for item, number in self._numbers.items()
        ]


def describe_found(found: Found, options: MatrixOptions = SHORT) -> Document:
    """Describe an answer."""
    if isinstance(found, ReleasesFound) and not options.all_rows:
        return _describe_newest(found, options)
    sources = Sources()
    if isinstance(found, TablesFound):
        rows = [_describe_row(row, sources, options) for row in found.rows]
        about = [*rows, Section(tuple(map(Line, sources.render())), is_apart=False)]
    else:
        about = _describe_releases(found, sources, options)
    headline = "" if options.quiet and found.rows else found.message
    return Document("envcheck matrix", found.verdict, headline, about=tuple(about), is_listing=True)


def _describe_row(row: TableRow, sources: Sources, options: MatrixOptions) -> Section:
    cells = []
    for name, value in row.cells.items():
        is_documented = row.proof.get(name, row.proof.get("*")) == "documented"
        mark = " *" if is_documented and not options.quiet else ""
        cells.append((name.replace("_", " "), f"{format_cell(value)}{mark}"))
    if row.note and not options.quiet:
        cells.append(("note", row.note))
    if options.verbose:
        cells.append(("proof", ", ".join(f"{cell} {tier}" for cell, tier in row.proof.items())))
    width = max(map(len, row.cells), default=0)
    title = Line(row.name + (f" {sources.cite(row.citations)}" if options.sources else ""))
    return Section(
        tuple(Line(text, f"{name:<{width}}  ") for name, text in cells), title, is_apart=False
    )


def format_cell(value: Any) -> str:
    """Format a cell: lists with blanks, tables as name and value."""
    if isinstance(value, Mapping):
        return " ".join(
            f"{name}:{format_cell(item) if item else '?'}" for name, item in value.items()
        )
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "yes" if value is True else str(value)


def _describe_newest(found: ReleasesFound, options: MatrixOptions) -> Document:
    """Describe each framework's newest working release, then its command."""
    works = any(item.requirement for item in found.newest)
    rows = [_describe_release(item) for item in found.newest]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        Line(newer, f"{name:<{widths[0]}}  {span:<{widths[1]}}  ") for name, span, newer in rows
    ]
    commands = [_type(item.command) for item in found.newest if item.command]
    more = "" if works else f"All platforms: {found.message}"
    sections = [Section(tuple(commands)), Section((Line(more),), is_apart=False)]
    if works or found.rows:
        sections.append(Section((_type(_list_all(found)),), Line("Every release that works:")))
    headline = f"{'Works' if works else 'Nothing works'} {_describe_question(found)}:"
    shown = []
    if not options.quiet:
        shown = [item for item in sections if item.blocks and item.blocks != (Line(""),)]
    return Document(
        "envcheck matrix", found.verdict, headline, below=tuple(lines), sections=tuple(shown)
    )


def _describe_question(found: ReleasesFound) -> str:
    """Name what was asked: "with Python 3.11 and driver 535.104 on linux_x86_64"."""
    words = {"python": "Python {}", "driver": "driver {}", "gpu": "GPU {}"}
    parts = [
        text.format(found.question[name]) for name, text in words.items() if name in found.question
    ]
    return (f"with {' and '.join(parts)} " if parts else "") + f"on {found.platform}"


def _describe_release(item: NewestRelease) -> Row:
    newer = f"{item.refused} {item.why}".strip()
    if not item.requirement:
        return item.framework, "none", newer
    name, _, version = item.requirement.partition("==")
    span = "no older one"
    if item.oldest != item.newest:
        span = f"since {item.oldest}"
    if len(item.exceptions) == 1:
        span += f", not {item.exceptions[0]}"
    elif item.exceptions:
        span += f", but {len(item.exceptions)} not"
    return f"{name.partition('[')[0]}=={version}", span, newer or "is the newest"


def _list_all(found: ReleasesFound) -> tuple[str, ...]:
    options = [word for name, value in found.question.items() for word in (f"--{name}", value)]
    return ("envcheck", "matrix", "query", *options, "--all")


def _type(words: tuple[str, ...]) -> Command:
    return Command(type_here(*words))


def _describe_releases(
    found: RowsFound | ReleasesFound, sources: Sources, options: MatrixOptions
) -> list[Section]:
    """Describe the table, and what stands below it: the legend, remarks, sources."""
    groups = _fold_rows([each for item in found.rows for each in (item, *item.extra_builds)])
    rows = tuple(_describe_releases_alike(group, sources, options) for group in groups)
    single = len({item.release.version for item in found.rows}) == 1
    remarks = [_LEGEND] if any(_MARK in cell for row in rows for cell in row) else []
    for group in () if options.quiet else groups:
        remarks += _render_group_remarks(group, sources, options, single=single)
    if options.sources:
        remarks += sources.render()
    table = Table(_HEADS if options.sources else _HEADS[:-1], rows, narrowest=20)
    below = Section(tuple(map(Line, dict.fromkeys(remarks))))
    if rows:
        return [Section((table,)), *([below] if remarks else [])]
    return []


def _fold_rows(rows: list[Answer]) -> list[list[Answer]]:
    """Put neighbouring releases of a distribution together whose cells and answers agree."""
    groups: list[list[Answer]] = []
    open_groups: dict[tuple[str, ...], list[Answer]] = {}
    for item in rows:
        row = item.release
        name = (item.label.partition("==")[0], row.platform, row.local, row.gpu_extra or "")
        group = open_groups.get(name)
        if (
            group
            and item.place == group[-1].place + 1
            and _format_cells(item) == _format_cells(group[-1])
        ):
            group.append(item)
        else:
            open_groups[name] = [item]
            groups.append(open_groups[name])
    return groups


def _describe_releases_alike(group: list[Answer], sources: Sources, options: MatrixOptions) -> Row:
    """Render the cells of releases that agree, as those of one: torch==2.4.0 to 2.6.0."""
    label = group[-1].label + (f" to {group[0].label.partition('==')[2]}" if len(group) > 1 else "")
    citations = tuple(dict.fromkeys(item for answer in group for item in answer.release.citations))
    sources_cell = (sources.cite(citations),) if options.sources else ()
    return (
        label + ("" if group[0].fit == COMPATIBLE else " ?"),
        *_format_cells(group[0])[1:],
        *sources_cell,
    )


def _render_group_remarks(
    group: list[Answer], sources: Sources, options: MatrixOptions, *, single: bool
) -> Iterator[str]:
    """Yield what the cells of a group cannot say.

    Where many releases are listed, that alone which is wrong with it.
    """
    if single or options.verbose:
        for item in group:
            yield from _render_remarks(item, sources, options)
        return
    first, last = group[0], group[-1]
    for item in group:
        if item.release.yanked:
            yield f"{_format_label(item.release)}: yanked from the index."
    if first.why:
        if last is not first:
            oldest = f"{_format_label(last.release)}, and newer ones as listed"
        else:
            oldest = _format_label(first.release)
        yield f"? {oldest}: {'; '.join(last.why)}."


def _format_label(row: FrameworkRelease) -> str:
    return f"{row.distribution}=={row.build_version} on {row.platform}"


def _render_remarks(item: Answer, sources: Sources, options: MatrixOptions) -> Iterator[str]:
    """Yield what the cells of a release cannot say, and the distributions that it requires."""
    row, label = item.release, _format_label(item.release)
    if row.yanked:
        yield f"{label}: yanked from the index."
    if item.why:
        yield f"? {label}: {'; '.join(item.why)}."
    for problem in item.problems:
        fix = problem.fix or problem.remedy
        where = ""
        if problem.platforms:
            where = f" on {', '.join(problem.platforms)}"
        yield f"{row.pin}{where}: {problem.what}" + (f" Fix: {fix}" if fix else "")
    if row.cuda_wheels:
        extra = f"[{row.gpu_extra}] " if row.gpu_extra else ""
        yield f"{label} {extra}installs: {' '.join(row.cuda_wheels)}"
    if item.companions:
        yield f"{label} goes with: {' '.join(item.companions)}"
    if item.index_builds:
        cited = sources if options.sources else None
        yield f"{label}: {_render_index_builds(item.index_builds, cited)}"
    if options.verbose:
        yield from _render_details(label, row)


def _render_index_builds(builds: tuple[FrameworkRelease, ...], sources: Sources | None) -> str:
    """Name the builds of a release on PyTorch's own index, newest CUDA first."""
    names = ", ".join(f"{build.cuda} ({_render_index(build)})" for build in builds)
    # the newest may be the wheel of the default index, whose own proof says nothing of this index
    stated = builds[-1]
    cited = f" {sources.cite(stated.citations[:1])}" if sources else ""
    return (
        f"PyTorch's own index has it for CUDA {names};"
        f" {stated.proof['compute_capabilities']}{cited}"
    )


def _render_index(build: FrameworkRelease) -> str:
    code = " ".join(map(format_target, build.compute_capabilities))
    return build.index + (f" with code for {code}" if code else ", GPU code not known")


def _render_details(label: str, row: FrameworkRelease) -> Iterator[str]:
    needs = " ".join(f"{name}{specifier}" for name, specifier in row.requires.items())
    if needs:
        yield f"{label} requires: {needs}"
    tools = [
        row.compiler or "",
        f"TensorRT {row.tensorrt}" if row.tensorrt not in {None, "none"} else "",
    ]
    if any(tools):
        yield f"{label} built with: {', '.join(filter(None, tools))}"
    if row.note:
        yield f"{label} note: {row.note}"
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
    yield (
        f"{label} binaries: {len(read)} of the"
        f" {binaries['binaries']} in {binaries['wheel']} were read:"
    )
    for name, facts in read.items():
        parts = [
            f"{words} {_format_fact(facts[fact])}"
            for fact, words in _FACTS.items()
            if facts.get(fact)
        ]
        yield f"  {name}: {'; '.join(parts)}"


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


def _format_cells(item: Answer) -> tuple[str, ...]:
    """Render the cells of a release but its name and its sources, and how it fits."""
    row = item.release

    def mark(cell: str, text: str) -> str:
        return text + (
            _MARK if row.proof.get(cell) == "documented" and text not in {"-", "not read"} else ""
        )

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
    complete = [
        (minors[0][0], number) for number in range(minors[0][1], minors[0][1] + len(minors))
    ]
    if len(minors) > 1 and minors == complete:
        text = f"{row.pythons[0]}-{row.pythons[-1]}"
    else:
        text = " ".join(row.pythons)
    return text + (f" (free-threaded {' '.join(row.free_threaded)})" if row.free_threaded else "")


def _render_code(row: FrameworkRelease) -> str:
    """Render compute capabilities as 8.0 for machine code and 9.0+PTX for PTX."""
    if not row.cuda_build:
        return f"stub for {row.stub_for}" if row.stub_for else "-"
    return " ".join(map(format_target, row.compute_capabilities)) or "not read"
