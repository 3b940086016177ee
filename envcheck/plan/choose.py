"""Choose the newest release that the rules call compatible; what was passed over keeps its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from envcheck.model.plans import Rejected
from envcheck.model.records import dataclass
from envcheck.plan.candidates import Candidate, candidates
from envcheck.plan.cuda_source import SYSTEM, cuda_sources
from envcheck.plan.judge import Judge, Judgement
from envcheck.plan.requests import Request
from envcheck.rules.known_problems import name_of
from envcheck.rules.targets import supports_python


@dataclass(frozen=True)
class Choice:
    """What was found for one request: the best judgement, or None, and the newer ones that were rejected."""

    request: Request
    best: Judgement | None
    rejected: tuple[Rejected, ...]


def choose(
    judge: Judge,
    request: Request,
    installer: str,
    *,
    but_for: frozenset[str] = frozenset(),
    admits: Callable[[Candidate], bool] = lambda _: True,
) -> Choice:
    """Go down the releases of a request until one is compatible; `but_for` and `admits` leave some out unjudged.

    Of a release's builds, one that leaves no GPU out goes before a better one that does. Where none is compatible, a
    release whose fault a step of the plan mends does, then one of which something could not be told.
    """
    seen: list[Judgement] = []
    partly: Judgement | None = None
    for judged in judgements(judge, request, installer, lambda item: item.requirement not in but_for and admits(item)):
        if partly and judged.candidate.row.version != partly.candidate.row.version:
            break
        if judged.is_compatible and not judged.mended:
            if not judged.left_out:
                return _chosen(request, judged, seen)
            partly = partly or judged
        seen.append(judged)
    for fits in (lambda item: item is partly, lambda item: item.is_compatible, lambda item: not item.errors):
        found = next((item for item in seen if fits(item)), None)
        if found is not None:
            return _chosen(request, found, seen[: seen.index(found)])
    told = tuple(_rejection(item) for item in seen) or _goes_with_none(request) or judge.not_there(request.text)
    return Choice(request, None, told)


def judgements(
    judge: Judge, request: Request, installer: str, admits: Callable[[Candidate], bool]
) -> Iterator[Judgement]:
    """Judge the candidates of a request one by one; of a release without a wheel for this Python one speaks for all."""
    hopeless = ""
    for candidate in candidates(judge.context, request):
        if candidate.row.version != hopeless and admits(candidate):
            judged = judge_candidate(judge, candidate, installer)
            hopeless = candidate.row.version if not supports_python(judge.context, candidate.row) else ""
            yield judged


def judge_candidate(judge: Judge, candidate: Candidate, installer: str) -> Judgement:
    """Judge a candidate with its first CUDA source that has nothing against it."""
    first: Judgement | None = None
    for source in cuda_sources(judge.context, candidate, installer):
        judged = judge.judge(candidate, source)
        if judged.is_compatible or source.kind == SYSTEM:
            return judged if first is None or judged.is_compatible else first
        first = first or judged
    assert first is not None  # noqa: S101 - there is always one source
    return first


def _chosen(request: Request, judged: Judgement, seen: list[Judgement]) -> Choice:
    return Choice(request, judged, tuple(_rejection(item) for item in seen))


def _goes_with_none(request: Request) -> tuple[Rejected, ...]:
    """Say that no release goes with the versions that are asked for beside it, or has the extras."""
    named = [text for text in request.beside if text != name_of(text)]
    beside = " and ".join(named or ([] if request.extras else request.beside))
    wanted = f"goes with {beside}" if beside else f"has the extra {' and '.join(request.extras)}"
    why = f"None of its releases that are admitted and known here {wanted}."
    return (Rejected(request.text, "dependency-conflict", why),) if beside or request.extras else ()


def _rejection(judged: Judgement) -> Rejected:
    why = judged.why if judged.errors or judged.doubts else (*judged.mended, *judged.left_out)[0]
    return Rejected(judged.candidate.requirement, why.id, why.message)
