"""The releases that may answer a request, newest first: which distribution, extra and index each would come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from envcheck.matrix.versions import clauses, within
from envcheck.model.records import dataclass, replaced
from envcheck.model.releases import FrameworkRelease
from envcheck.plan.requests import Request
from envcheck.rules.context import Context
from envcheck.rules.cuda_plugins import plugin_of
from envcheck.rules.pytorch_index import cpu_index_url, cuda_variants, index_url, serves


@dataclass(frozen=True)
class Candidate:
    """One release in one build."""

    row: FrameworkRelease
    requirement: str  # tensorflow[and-cuda]==2.20.0, torch==2.7.1+cu118
    judged: tuple[str, ...]  # what the rules are asked about; jax is nothing without jaxlib
    local: str = ""  # cu118, cpu
    index: str = ""
    plugin: FrameworkRelease | None = None  # the row that says which CUDA it brings, where that is not `row`
    library: FrameworkRelease | None = None  # the row of the compiled half, where that is not `row`: jaxlib
    beside: tuple[str, ...] = ()  # what else was asked for, as it goes with this release: torchvision==0.28.0

    @property
    def is_gpu(self) -> bool:
        """Say whether it is a CUDA build."""
        return self.local.startswith("cu") or (not self.local and (self.plugin or self.row).cuda_build)

    @property
    def rows(self) -> tuple[FrameworkRelease, ...]:
        """List the rows of everything it consists of."""
        return tuple(row for row in (self.row, self.library, self.plugin) if row is not None)

    @property
    def cuda(self) -> str | None:
        """Return the CUDA version it was built with, which a label names before its row does; None for a CPU build."""
        label = re.fullmatch(r"cu(\d+)(\d)", self.local)
        named = f"{label[1]}.{label[2]}" if label else self.cuda_row.cuda
        return named if self.is_gpu else None

    @property
    def cuda_row(self) -> FrameworkRelease:
        """Return the row that tells of its CUDA."""
        return self.plugin or self.row


def candidates(context: Context, request: Request) -> Iterator[Candidate]:
    """Yield the releases a request admits on this platform, newest first, the better build of each first."""
    ways = {"jax": _jax, "torch": _torch}
    for rows in _by_version(context, request):
        beside = _beside(context, request, rows[0])
        if beside is not None:
            for found in ways.get(request.framework, _tensorflow)(context, request, rows):
                if not beside:
                    yield found
                elif _on_index(context, found, beside):
                    yield replaced(found, beside=beside)


def _beside(context: Context, request: Request, row: FrameworkRelease) -> tuple[str, ...] | None:
    """Write what is asked for beside a framework as it goes with a release; None where it does not."""
    if not request.beside:
        return ()
    from envcheck.plan.companions import fitting  # most ask for frameworks alone

    return fitting(context, row, request.beside)


def _on_index(context: Context, found: Candidate, beside: tuple[str, ...]) -> bool:
    from envcheck.plan.companions import on_index  # most ask for frameworks alone

    return on_index(context, found.row, beside, found.local)


def _by_version(context: Context, request: Request) -> Iterator[list[FrameworkRelease]]:
    """Group the admitted rows for this platform by version."""
    asked = tuple(clauses(request.specifier))
    public = ",".join(item.operator + item.version.partition("+")[0] for item in asked)
    pinned = any(item.operator in ("==", "===") and not item.version.endswith(".*") for item in asked)
    for version in context.matrix.versions(request.framework):
        if within(version, public, prereleases=False):
            rows = context.matrix.releases(request.framework, context.platform, admits=version.__eq__)
            usable = [row for row in rows if pinned or not row.yanked]
            if usable:
                yield usable


def _tensorflow(context: Context, request: Request, rows: list[FrameworkRelease]) -> Iterator[Candidate]:
    names = _distributions(context, request)
    usable = [row for name in names for row in rows if row.distribution == name]
    if context.goal == "cpu":  # what others require by its name keeps it
        usable = [row for row in usable if row.distribution == request.held] or usable
    wanted = [row for row in usable if row.cuda_build == (context.goal == "gpu") and not row.stub_for]
    # An empty wheel stands for another distribution: the usual name's problems are the known ones.
    usable.sort(key=lambda row: (row.cuda_build != (context.goal == "gpu"), row.distribution != request.distribution))
    for row in (wanted or usable)[:1]:
        extra = row.gpu_extra if context.goal == "gpu" else None
        extras = sorted({*request.extras, *([extra] if extra else [])})
        yield Candidate(row, text := _text(row.distribution, extras, row.version), (text,))


def _distributions(context: Context, request: Request) -> tuple[str, ...]:
    """List the names a release may come under; a name that is asked for by itself stands."""
    if request.distribution != request.framework:
        return (request.distribution,)
    if context.goal == "gpu":
        return ("tensorflow", "tensorflow-gpu", "tensorflow-cpu")
    return ("tensorflow-cpu", "tensorflow", "tensorflow-macos")


def _jax(context: Context, request: Request, rows: list[FrameworkRelease]) -> Iterator[Candidate]:
    row = next((row for row in rows if row.distribution == "jax"), None)
    if row is None:
        return
    library = next((item for item in rows if item.distribution == "jaxlib"), None) or _library(context, row)
    asked = [extra for extra in request.extras if extra.startswith("cuda")]
    if not set(asked) <= set(row.extras):
        return  # pip would go on without what an extra that is not there was to bring
    ways: list[str] = (asked or sorted(row.extras, reverse=True)) if context.goal == "gpu" else []
    alone = "" if "jaxlib" in row.requires else "cpu"  # releases up to 0.4.29 brought no jaxlib by themselves
    for extra in ways or [alone]:
        extras = sorted({*request.extras, *([extra] if extra else [])})
        text, plugin = _text("jax", extras, row.version), plugin_of(context, row, extra) if extra else None
        judged = f"jaxlib=={(library or row).version}"
        yield Candidate(row, text, (text, judged), plugin=plugin, library=library)


def _library(context: Context, row: FrameworkRelease) -> FrameworkRelease | None:
    """Return the newest jaxlib that a release of jax without one of its own takes."""
    bounds = row.requires.get("jaxlib", f"=={row.version}")
    found = context.matrix.releases("jax", context.platform, admits=lambda version: within(version, bounds))
    return next((item for item in found if item.distribution == "jaxlib"), None)


def _torch(context: Context, request: Request, rows: list[FrameworkRelease]) -> Iterator[Candidate]:
    row = rows[0]
    asked = next((item.version.partition("+")[2] for item in clauses(request.specifier)), "")
    for local in (asked,) if asked else _builds(context, row):
        text = _text("torch", request.extras, row.version + (f"+{local}" if local else ""))
        yield Candidate(row, text, (text,), local, _torch_index(local))


def _builds(context: Context, row: FrameworkRelease) -> Iterable[str]:
    """List the builds of a release by their labels, the one on the default index ("") first where it fits the goal."""
    served = serves(row.version, context.platform)
    if context.goal == "cpu":
        return ("cpu",) if row.cuda_build and served else ("",)
    own = ".".join((row.cuda or "").split(".")[:2])
    # Newest CUDA first, but a build whose code is known before one of which nothing tells.
    others = sorted((cuda for cuda in cuda_variants(row) if cuda != own), key=lambda cuda: not row.variants[cuda])
    labels = (f"cu{cuda.replace('.', '')}" for cuda in others)
    variants = tuple(labels) if served else ()
    return ("", *variants) if row.cuda_build or not variants else variants


def _torch_index(local: str) -> str:
    if local == "cpu":
        return cpu_index_url()
    return index_url(local.removeprefix("cu")) if local.startswith("cu") else ""


def _text(name: str, extras: Iterable[str], version: str) -> str:
    joined = ",".join(extras)
    return f"{name}{f'[{joined}]' if joined else ''}=={version}"
