"""Choose the newest releases that work, alone or together in one environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations

from packaging.version import Version

from envcheck.frameworks import framework
from envcheck.matrix.companions import asked_of, newest_of_own_index, source_package
from envcheck.model import (
    INCOMPATIBLE,
    UNDETERMINED,
    Clash,
    Facts,
    Finding,
    FrameworkRelease,
    Known,
    LibraryInstall,
    Rejected,
    Source,
    ToolkitInstall,
    dataclass,
    major,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.versions import Requirement, can_be_met, name_of, read_requirement, within
from envcheck.plan.candidates import (
    NONE,
    OWN,
    SYSTEM,
    Candidate,
    CudaSource,
    candidates,
    companion_fault,
    constraints,
    cuda_sources,
    documented_above,
    is_built_file,
    is_unstated,
    needs_gpu,
    newest_companion,
)
from envcheck.plan.data import plan_data
from envcheck.plan.requests import Request, join_words
from envcheck.rules import catalogue
from envcheck.rules.builds import supports_python
from envcheck.rules.context import Context
from envcheck.rules.cuda_wheels import split_cuda_suffix, wheels_in_one_folder
from envcheck.rules.engine import ReleaseJudge
from envcheck.rules.gpu_architecture import is_unread
from envcheck.rules.gpu_releases import driver_floor, toolkit_of
from envcheck.rules.matrix_question import is_refused_for_gpu

# what loader paths set by the environment's activation resolve
_CUDA_NOT_FOUND = "cuda-wheel-not-found"
_OF_SOME_GPUS = ("gpu-arch-too-old", "gpu-arch-too-new")
_PLAN_SOURCE = Source("override", "what the plan installs")


@dataclass
class CandidateJudgement:
    """What the rules say of one candidate with one source of CUDA libraries."""

    candidate: Candidate
    source: CudaSource
    errors: tuple[Finding, ...]  # the reasons why it does not work
    doubts: tuple[Finding, ...]  # the reasons why that is undetermined
    warnings: tuple[Finding, ...]  # and notes on what is undetermined
    resolved: tuple[Finding, ...] = ()  # errors that a step of the plan takes away

    @property
    def is_compatible(self) -> bool:
        """Say whether the rules call it compatible."""
        return not self.errors and not self.doubts

    @property
    def unserved_gpus(self) -> tuple[Finding, ...]:
        """List the warnings about GPUs that a release serves badly beside one it serves."""
        return tuple(
            item
            for item in self.warnings
            if item.id in _OF_SOME_GPUS and item.verdict == INCOMPATIBLE
        )

    @property
    def is_unread(self) -> bool:
        """Return whether nothing states which GPUs it has code for."""
        return any(map(is_unread, self.doubts))


class Judge:
    """Judges candidates for one machine, each of them once."""

    def __init__(self, context: Context, installed: tuple[tuple[str, str], ...] = ()) -> None:
        """Take a machine without frameworks, and what its packages require.

        Each is (package, requirement).
        """
        self.context, self.installed = context, installed
        self._releases = ReleaseJudge(context)
        self._known: dict[tuple[str, CudaSource], CandidateJudgement] = {}
        self._facts: dict[tuple[str, str], Facts] = {}

    def machine_findings(self) -> tuple[Finding, ...]:
        """List what is wrong with the machine whichever release is chosen."""
        return self._releases.machine_findings

    def judge(self, candidate: Candidate, source: CudaSource) -> CandidateJudgement:
        """Judge one candidate with what its CUDA source would bring."""
        key = (candidate.requirement, source)
        if key not in self._known:
            self._known[key] = self._judge(candidate, source)
        return self._known[key]

    def explain_missing(self, requirement: str) -> tuple[Rejected, ...]:
        """Say why there is no candidate, in the rules' words on an unmet requirement."""
        judgement = self._releases.judge((requirement,))
        machine_ids = {item.id for item in self.machine_findings()}
        reasons = (
            item for item in (*judgement.errors, *judgement.doubts) if item.id not in machine_ids
        )
        return tuple(Rejected(requirement, item.id, item.message) for item in reasons)[:1]

    def _judge(self, candidate: Candidate, source: CudaSource) -> CandidateJudgement:
        brought = source.cuda, source.cudnn
        # the same facts for the same libraries: the judge keeps what it knows of them
        if brought not in self._facts:
            self._facts[brought] = _with_libraries(self.context.facts, source)
        # Of a release without a wheel for this Python nothing can be said of how it would run.
        only: frozenset[str] = frozenset()
        if not supports_python(self.context, candidate.row):
            only = _list_python_ids()
        judgement = self._releases.judge(candidate.targets, self._facts[brought], only=only)
        if only and not judgement.errors:
            judgement = self._releases.judge(candidate.targets, self._facts[brought])
        against = (*judgement.errors, *judgement.doubts)
        resolved = tuple(item for item in against if _is_resolved(item, source))
        return CandidateJudgement(
            candidate,
            source,
            tuple(item for item in judgement.errors if item not in resolved),
            tuple(item for item in judgement.doubts if item not in resolved),
            tuple(
                item
                for item in judgement.warnings
                if not (item.id == _CUDA_NOT_FOUND and source.needs_hook)
            ),
            resolved,
        )


@cache
def _list_python_ids() -> frozenset[str]:
    """List the finding of a release without a wheel for a Python, and those that explain it."""
    name = "python-unsupported"
    return frozenset(
        entry.id for entry in catalogue().values() if name in (entry.id, *entry.explains)
    )


def _is_resolved(finding: Finding, source: CudaSource) -> bool:
    """Return whether a step of the plan takes an error away.

    The activation's loader paths, or a system's toolkit.
    """
    if finding.id == _CUDA_NOT_FOUND:
        return source.needs_hook
    in_toolkit = catalogue()[finding.id].layer == "toolkit"
    return (
        source.kind == SYSTEM
        and in_toolkit
        and finding.cure is not None
        and finding.verdict != UNDETERMINED
    )


def _with_libraries(facts: Facts, source: CudaSource) -> Facts:
    if not source.cuda:
        return facts
    cuda = Known(source.cuda, _PLAN_SOURCE)
    folder = "the planned environment/lib"
    toolkit = ToolkitInstall(
        "the planned environment", "conda", cuda, cudart_path=Known(folder, _PLAN_SOURCE)
    )
    installs = facts.toolkits.installs.value or ()
    with_toolkit = replace(
        facts, toolkits=replace(facts.toolkits, installs=Known((toolkit, *installs), _PLAN_SOURCE))
    )
    if not source.cudnn:
        return with_toolkit
    version = Known(source.cudnn, _PLAN_SOURCE)
    copy = LibraryInstall(
        "cudnn",
        "the planned environment",
        "conda",
        library_version=version,
        library_path=Known(f"{folder}/libcudnn.so", _PLAN_SOURCE),
        cuda_major=Known(major(source.cuda), _PLAN_SOURCE),
    )
    copies = facts.cudnn.value or ()
    return replace(with_toolkit, cudnn=Known((copy, *copies), _PLAN_SOURCE))


@dataclass
class Choice:
    """What was found for one request.

    The best judgement, or None, and the newer ones that were rejected.
    """

    request: Request
    best: CandidateJudgement | None
    rejected: tuple[Rejected, ...]


def choose(
    judge: Judge,
    request: Request,
    installer: str,
    *,
    admits: Callable[[Candidate], bool] = lambda _: True,
    explains: bool = True,
) -> Choice:
    """Go down the releases of a request until one is compatible; `admits` leaves some out unjudged.

    Of a release's builds, one that serves all GPUs goes before a better one that does not. One of
    which nothing states the GPU code is never taken. If none is compatible, a release follows whose
    error a step of the plan resolves, then one that could not be judged fully. Without `explains`
    nothing says why there is none, and what cannot work is not judged.
    """
    rejected: list[CandidateJudgement] = []
    partly: CandidateJudgement | None = None
    for judgement in judgements(judge, request, installer, admits, is_whole=explains):
        if partly and judgement.candidate.row.version != partly.candidate.row.version:
            break
        if judgement.is_compatible and not judgement.resolved:
            if not judgement.unserved_gpus:
                return Choice(request, judgement, tuple(map(_reject, rejected)))
            partly = partly or judgement
        rejected.append(judgement)
    possible = [item for item in rejected if not item.errors and not item.is_unread]
    ranked = [partly, *(item for item in possible if item.is_compatible), *possible]
    for best in filter(None, ranked):
        return Choice(request, best, tuple(map(_reject, rejected[: rejected.index(best)])))
    if not explains:
        return Choice(request, None, ())
    reasons = (
        tuple(map(_reject, rejected))
        or _reject_companions(judge.context, request)
        or _reject_for_cpu(judge.context, request)
        or judge.explain_missing(request.text)
    )
    return Choice(request, None, reasons)


def judgements(
    judge: Judge,
    request: Request,
    installer: str,
    admits: Callable[[Candidate], bool],
    *,
    is_whole: bool,
) -> Iterator[CandidateJudgement]:
    """Judge the candidates of a request one by one.

    Of a release without a wheel for this Python one speaks for all.
    """
    unsupported = ""
    for candidate in candidates(judge.context, request, is_whole=is_whole):
        if candidate.row.version != unsupported and admits(candidate):
            judgement = judge_candidate(judge, candidate, installer)
            unsupported = ""
            if not supports_python(judge.context, candidate.row):
                unsupported = candidate.row.version
            yield judgement


def judge_candidate(judge: Judge, candidate: Candidate, installer: str) -> CandidateJudgement:
    """Judge a candidate with its first CUDA source that has nothing against it."""
    if not supports_python(judge.context, candidate.row):
        return judge.judge(candidate, CudaSource(NONE))  # whatever would bring its CUDA libraries
    fallback: CandidateJudgement | None = None
    # with each source
    is_refused = candidate.is_gpu and is_refused_for_gpu(judge.context, candidate.cuda_row)
    for source in cuda_sources(judge.context, candidate, installer):
        judgement = judge.judge(candidate, source)
        if judgement.is_compatible or source.kind == SYSTEM or is_refused:
            if fallback is None or judgement.is_compatible:
                return judgement
            return fallback
        fallback = fallback or judgement
    assert fallback is not None  # noqa: S101 - there is always one source
    return fallback


def _reject_companions(context: Context, request: Request) -> tuple[Rejected, ...]:
    """Say that no release goes with what is asked for beside it, and what of that is the reason."""
    if not request.companions:
        return ()
    alone = {text: _first_with(context, request, (text,)) for text in request.companions}
    found = {text: candidate for text, candidate in alone.items() if candidate}
    missing = [text for text in alone if text not in found]
    pair = next(
        (two for two in combinations(found, 2) if _first_with(context, request, two) is None), ()
    )
    if pair and not missing:
        needs = []
        for item in (found[text].chosen[0] for text in pair):
            pin = asked_of(item.row, request.framework) if item.row else ""
            needs.append(f"{item.label}, for {request.framework}{pin}" if pin else item.label)
        why = (
            f"{' and '.join(pair)} exclude each other:"
            f" no known release works with both. The newest are: {'; '.join(needs)}."
        )
    else:
        names = join_words(missing or request.companions)
        faults = [fault for text in missing for fault in _list_faults(context, request, text)]
        bound = (item for candidate in found.values() for item in needs_gpu(context, candidate))
        faults += [f"{item.label} has no build for the CPU." for item in bound]
        why = f"No known release that the request allows works with {names}."
        why = " ".join(filter(None, (why, *faults)))
    return (Rejected(request.text, "dependency-conflict", why),)


def _list_faults(context: Context, request: Request, text: str) -> Iterator[str]:
    """Say what is wrong with the newest release for a text here, and with compiling it."""
    builds = [*candidates(context, replace(request, companions=()))]
    row, fault = newest_companion(context, text)
    if row and not fault and builds:
        pin = asked_of(row, request.framework) or ""
        build = next((item for item in builds if within(item.row.version, pin)), builds[0])
        row, fault = newest_companion(context, text, build.row)
    if row and fault:
        yield f"{row.label} {fault}."
    on_gpu = next((item for item in builds if item.is_gpu), None)
    if on_gpu and source_package(name_of(text)):
        from envcheck.remedies.packages import find_obstacle  # few are sources alone

        yield find_obstacle(context, text, on_gpu.row.build_version, on_gpu.cuda)


def _first_with(context: Context, request: Request, texts: tuple[str, ...]) -> Candidate | None:
    return next(candidates(context, replace(request, companions=texts)), None)


def _reject_for_cpu(context: Context, request: Request) -> tuple[Rejected, ...]:
    """Say that what is asked for computes on GPUs only."""
    known = framework(request.framework)
    if context.goal == "gpu" or not known.cuda.needs_gpu:
        return ()
    reason = (
        f"{known.title} computes on NVIDIA GPUs only. Name the GPU that the plan is for with --gpu."
    )
    return (Rejected(request.text, "gpu-absent", reason),)


def _reject(judgement: CandidateJudgement) -> Rejected:
    against = (*judgement.errors, *judgement.doubts, *judgement.resolved)
    reasons = (*against, *judgement.unserved_gpus)
    return Rejected(judgement.candidate.label, reasons[0].id, reasons[0].message)


_DEPTH = 24  # releases of each framework that are tried with each other
_ALL = 400  # of one framework, beside what stays as it is
_CONFLICT = "cuda-wheel-conflict"
_UNKNOWN_PINS = "the versions of the shared CUDA wheels that it pins are unknown."


def choose_together(
    judge: Judge,
    requests: tuple[Request, ...],
    installer: str,
    admits: Callable[[Candidate], bool] = lambda _: True,
) -> tuple[list[Choice], list[Clash]]:
    """Choose releases that fit into one environment.

    With clashes, those of the newest of each, which do not.
    """
    newest = [choose(judge, request, installer, admits=admits) for request in requests]
    if any(choice.best is None for choice in newest):
        return newest, []
    clashes = [*_find_clashes(judge, newest)]
    if not clashes:
        return newest, []
    depth = _DEPTH if len(newest) > 1 else _ALL
    iterators = [CandidateIterator(choice, judge, installer, depth) for choice in newest]
    choices = _search_compatible(judge, iterators, [])
    if not choices:
        return newest, clashes
    return [
        _with_rejections(judge, choices, place, iterators[place]) for place in range(len(choices))
    ], []


class CandidateIterator:
    """The releases of one framework, newest first, each judged when it is asked for."""

    def __init__(self, newest: Choice, judge: Judge, installer: str, depth: int) -> None:
        self._known, self._depth = [newest], depth
        self._older = _iterate_older(judge, newest, installer, depth)

    def __iter__(self) -> Iterator[Choice]:
        for step in range(self._depth):
            if step == len(self._known):
                following = next(self._older, None)
                if following is None:
                    return
                self._known.append(following)
            yield self._known[step]


def groups_of(choices: list[Choice], clashes: list[Clash]) -> list[list[Choice]]:
    """Put choices into as few environments as their clashes allow."""
    conflicts = {
        frozenset((item.first.partition(": ")[0], item.second.partition(": ")[0]))
        for item in clashes
    }
    groups: list[list[Choice]] = []
    for choice in choices:
        name = _name_of_choice(choice)
        for group in groups:
            if not any(frozenset((name, _name_of_choice(each))) in conflicts for each in group):
                group.append(choice)
                break
        else:
            groups.append([choice])
    return groups


def _name_of_choice(choice: Choice) -> str:
    return choice.best.candidate.requirement if choice.best else ""


def _search_compatible(
    judge: Judge, iterators: list[CandidateIterator], choices: list[Choice]
) -> list[Choice]:
    """Find releases that go together.

    What is asked for first stays newest; [] where there are none.
    """
    if len(choices) == len(iterators):
        return choices
    for choice in iterators[len(choices)]:
        if next(_find_clashes(judge, [*choices, choice]), None) is None:
            compatible = _search_compatible(judge, iterators, [*choices, choice])
            if compatible:
                return compatible
    return []


def _iterate_older(judge: Judge, newest: Choice, installer: str, depth: int) -> Iterator[Choice]:
    """Go on below the newest release, through those alone whose pins are known."""
    choice, exclude = newest, set()

    def is_left(candidate: Candidate) -> bool:
        return candidate.requirement not in exclude and not candidate.is_of_cuda_index

    for _ in range(depth):
        if choice.best is None:
            return
        exclude.add(choice.best.candidate.requirement)
        choice = choose(judge, newest.request, installer, admits=is_left)
        if choice.best is not None:
            yield choice


def _with_rejections(
    judge: Judge, choices: list[Choice], place: int, iterator: CandidateIterator
) -> Choice:
    """Say of each newer release that was passed over what clashes with the others.

    The rules' reasons are there.
    """
    choice = choices[place]
    choice_name = _name_of_choice(choice)
    others = [item for item in choices if item is not choice]
    reasons = {_framework_part(item): item for item in choice.rejected}
    for newer_choice in iterator:
        name = _name_of_choice(newer_choice)
        if name == choice_name:
            break
        reasons |= {_framework_part(item): item for item in newer_choice.rejected}
        clash = next(_find_clashes(judge, [*others, newer_choice]), None)
        pins = "no compatible release of the others exists"
        if clash:
            pins = f"{clash.first}; {clash.second}"
        reasons[name] = Rejected(name, _CONFLICT, f"its pins conflict with the others: {pins}.")
    newer = []
    for candidate in candidates(judge.context, choice.request):
        if candidate.requirement == choice_name:
            break
        name = candidate.requirement
        if name in reasons or candidate.is_of_cuda_index:
            newer.append(reasons.get(name) or Rejected(name, _CONFLICT, _UNKNOWN_PINS))
    return replace(choice, rejected=tuple(newer))


def _framework_part(item: Rejected) -> str:
    return item.requirement.partition(" ")[0]


def _find_clashes(judge: Judge, choices: list[Choice]) -> Iterator[Clash]:
    """Yield pins that no version meets, and wheels of two CUDA majors in one folder."""
    pins: dict[str, list[tuple[str, Requirement]]] = {}
    owned_pins = [*judge.installed]
    for item in (choice.best for choice in choices if choice.best):
        texts = dict.fromkeys(
            (*_list_pins(judge, item), *constraints(judge.context, item.candidate, item.source))
        )
        owned_pins += ((item.candidate.requirement, text) for text in texts)
    for owner, text in owned_pins:
        requirement = read_requirement(text)
        pins.setdefault(split_cuda_suffix(requirement.name)[0], []).append((owner, requirement))
    stay = {owner for owner, _ in judge.installed}  # they are in one environment: how, is not asked
    for group in pins.values():
        for (owner, first), (other, second) in combinations(group, 2):
            is_clash = first.name != second.name or not _is_satisfiable(first, second)
            if is_clash and other != owner and other not in stay:
                yield Clash(f"{owner}: {_format_pin(first)}", f"{other}: {_format_pin(second)}")


def _format_pin(pin: Requirement) -> str:
    if pin.specifier:
        return pin.plain
    return f"{pin.plain}, pinned to an unknown version"


def _list_pins(judge: Judge, judgement: CandidateJudgement) -> tuple[str, ...]:
    """List what a release requires as far as is known.

    Its CUDA wheels, and what it shares with others.
    """
    candidate, wheels = judgement.candidate, judgement.source.requirements
    if judgement.source.kind == OWN and not candidate.row.local:
        wheels += candidate.cuda_row.cuda_wheels
    elif candidate.is_of_cuda_index:
        wheels += tuple(_list_index_pins(judge.context, candidate))
    cuda_pins = () if judgement.source.kind == NONE else wheels
    row = candidate.row
    context = judge.context
    real = None
    if row.stub_for:
        real = context.matrix.release(row.framework, row.version, context.platform, row.stub_for)
    pins = [*cuda_pins]
    pins += [f"{name}{specifier}" for name, specifier in (real or row).requires.items()]
    for entry in plan_data().shared_requirements.rows:  # beyond the columns of the matrix
        if row.framework == entry.framework and within(row.version, entry.specifier):
            pins += entry.requires
    return tuple(pins)


def _list_index_pins(context: Context, candidate: Candidate) -> Iterator[str]:
    """Yield what a build on its own index pins.

    Versions nobody holds, but those of its CUDA and of its cuDNN major.
    """
    row = candidate.row
    default = context.matrix.release(row.framework, row.version, row.platform, row.distribution)
    suffix = row.local[:4]
    cudnn = numbers(default.cudnn if default else None)[:1]
    for name in wheels_in_one_folder():
        yield f"{name}-{suffix}"
    # no suffix from 13 on
    runtime = "nvidia-cuda-runtime" + (f"-{suffix}" if suffix in ("cu11", "cu12") else "")
    yield f"{runtime}=={candidate.cuda}.*"
    if cudnn:
        yield f"nvidia-cudnn-{suffix}>={cudnn[0]},<{cudnn[0] + 1}"


def _is_satisfiable(first: Requirement, second: Requirement) -> bool:
    """Return whether some version meets both.

    A pin without a version is an exact one that the matrix does not hold: it hardly meets another
    exact one.
    """
    both = (*first.clauses, *second.clauses)
    if not (first.specifier and second.specifier) and any(
        clause.operator == "==" for clause in both
    ):
        return False
    return can_be_met(",".join(map("".join, both)))


def note_companions(context: Context, choice: Choice) -> Iterator[str]:
    """Say which companion is not known to go with a release, and what bounds newer ones."""
    if choice.best is None or not choice.request.companions:
        return
    candidate = choice.best.candidate
    for item, text in zip(candidate.chosen, choice.request.companions, strict=True):
        if item.source is not None:
            yield from item.source.notes
        elif item.row is None:
            yield _UNKNOWN.format(name=item.label, framework=candidate.row.label)
        else:
            if is_unstated(context.matrix, item.row, candidate.row):
                yield _UNSTATED.format(item=item.label, framework=candidate.row.framework)
            yield from _note_newer_companion(context, choice, candidate, item.row, text)
    for item in needs_gpu(context, candidate):
        floor = driver_floor(context, toolkit_of(context, candidate.cuda))
        driver = f" and driver {floor} or newer" if floor else ""
        yield _NEEDS_GPU.format(item=item.label, cuda=candidate.cuda, driver=driver)
    yield from _note_newer_framework(context, choice, candidate)


_UNKNOWN = (
    "The matrix does not hold {name}: that it works with {framework} rests on its own requirements"
    " alone."
)
_UNSTATED = (
    "Nothing states which {framework} releases {item} goes with: this is the newest pair for one"
    " CUDA."
)
_NEEDS_GPU = (
    "No build of {item} for the CPU is known. The environment can be made without a GPU; {item}"
    " computes only on a machine with an NVIDIA GPU{driver}."
)


def _note_newer_companion(
    context: Context, choice: Choice, candidate: Candidate, chosen: FrameworkRelease, text: str
) -> Iterator[str]:
    """Say why the newest release of what comes beside a framework is not the chosen one."""
    newest, fault = newest_companion(context, text, candidate.row)
    if newest is None or newest.version == chosen.version:
        return
    name = name_of(text)
    pin = asked_of(newest, candidate.row.framework) or ""
    judged = {word for one in choice.rejected for word in one.requirement.split()[1:]}
    is_admitted = can_be_met(f"{pin},{choice.request.specifier}".strip(","))
    if fault and is_admitted and f"{name}=={newest.version}" not in judged:
        yield f"{newest.label} is newer, but {fault}."
    own = newest_of_own_index(name, candidate.cuda or "", context.platform)
    if (
        own
        and not documented_above(context, name, own)
        and Version(own) > Version(chosen.version)
        and within(own, text.removeprefix(name))
    ):
        yield (
            f"documented: {name} {own} is on its project's own index for CUDA"
            f" {major(candidate.cuda)}; that index was not read. {name}=={own} plans with it."
        )


def _note_newer_framework(context: Context, choice: Choice, candidate: Candidate) -> Iterator[str]:
    """Say which newer release of the framework what comes beside it leaves out."""
    newest = next(candidates(context, replace(choice.request, companions=())), None)
    rejected = {
        _framework_part(item).partition("==")[2].partition("+")[0] for item in choice.rejected
    }
    if newest is None or newest.row.version in (candidate.row.version, *rejected):
        return
    newer = f"{newest.row.label} is newer, but"
    for item in candidate.chosen:
        fault = companion_fault(context, item.row, newest.row) if item.row else ""
        if fault:
            yield f"{newer} {item.label} {fault}."
            return
    names = " and ".join(item.name for item in candidate.chosen)
    built = " and ".join(item.name for item in candidate.chosen if is_built_file(item))
    if built:
        pinned = f"{newest.row.framework}=={major_minor(newest.row.version)}.*"
        yield f"{newer} no built file of {built} is known for it. Name {pinned} to compile it."
    else:
        yield f"{newer} no known {names} release for it works here."
