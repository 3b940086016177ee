"""Several frameworks in one environment: whether what they pin can be met at once, and by which releases."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from envcheck.matrix.versions import can_be_met, within
from envcheck.model.plans import Clash, Rejected
from envcheck.model.records import replaced
from envcheck.model.releases import FrameworkRelease
from envcheck.plan.candidates import Candidate, candidates
from envcheck.plan.choose import Choice, choose
from envcheck.plan.constraints import constraints
from envcheck.plan.cuda_source import NONE, OWN
from envcheck.plan.judge import Judge, Judgement
from envcheck.plan.plan_data import plan_data
from envcheck.plan.requests import Request
from envcheck.rules.cuda_wheel_names import bare_wheel, sharing_wheels

_DEPTH = 24  # releases of each framework that are tried with each other
_ALL = 400  # of one framework, beside what stays as it is
_CONFLICT = "cuda-wheel-conflict"
_UNTOLD = "which versions of the shared CUDA wheels it pins is not known."


def choose_together(
    judge: Judge, requests: tuple[Request, ...], installer: str, admits: Callable[[Candidate], bool] = lambda _: True
) -> tuple[list[Choice], list[Clash]]:
    """Choose releases that fit into one environment; with clashes, those of the newest of each, which do not."""
    newest = [choose(judge, request, installer, admits=admits) for request in requests]
    if any(choice.best is None for choice in newest):
        return newest, []
    clashes = [*_clashes(judge, newest)]
    if not clashes:
        return newest, []
    depth = _DEPTH if len(newest) > 1 else _ALL
    ladders = [_Ladder(choice, judge, installer, depth) for choice in newest]
    found = _fitting(judge, ladders, [])
    if not found:
        return newest, clashes
    return [_with_reasons(judge, found, place, ladders[place]) for place in range(len(found))], []


class _Ladder:
    """The releases of one framework, newest first, each judged when it is asked for."""

    def __init__(self, newest: Choice, judge: Judge, installer: str, depth: int) -> None:
        self._known, self._depth = [newest], depth
        self._older = _older(judge, newest, installer, depth)

    def __iter__(self) -> Iterator[Choice]:
        for step in range(self._depth):
            if step == len(self._known):
                following = next(self._older, None)
                if following is None:
                    return
                self._known.append(following)
            yield self._known[step]


def groups_of(choices: list[Choice], clashes: list[Clash]) -> list[list[Choice]]:
    """Put choices into as few environments as their clashes allow, each into the first that takes it."""
    apart = {frozenset((item.first.partition(": ")[0], item.second.partition(": ")[0])) for item in clashes}
    groups: list[list[Choice]] = []
    for choice in choices:
        fits = (group for group in groups if not any(frozenset((_name(choice), _name(own))) in apart for own in group))
        found = next(fits, None)
        if found is None:
            groups.append([choice])
        else:
            found.append(choice)
    return groups


def _name(choice: Choice) -> str:
    return _label(choice.best) if choice.best else ""


def _fitting(judge: Judge, ladders: list[_Ladder], chosen: list[Choice]) -> list[Choice]:
    """Find releases that go together: what is asked for first stays newest; [] where there are none."""
    if len(chosen) == len(ladders):
        return chosen
    for choice in ladders[len(chosen)]:
        if next(_clashes(judge, [*chosen, choice]), None) is None:
            found = _fitting(judge, ladders, [*chosen, choice])
            if found:
                return found
    return []


def _older(judge: Judge, newest: Choice, installer: str, depth: int) -> Iterator[Choice]:
    """Go on below the newest release, through those alone whose pins are known."""
    choice, passed = newest, set()
    for _ in range(depth):
        if choice.best is None:
            return
        passed.add(choice.best.candidate.requirement)
        choice = choose(judge, newest.request, installer, but_for=frozenset(passed), admits=_tells_its_pins)
        if choice.best is not None:
            yield choice


def _tells_its_pins(candidate: Candidate) -> bool:
    return not candidate.local.startswith("cu")


def _with_reasons(judge: Judge, found: list[Choice], place: int, ladder: _Ladder) -> Choice:
    """Say of each newer release that was passed over what clashes with the others; the rules' reasons are there."""
    choice = found[place]
    taken = _name(choice)
    others = [item for item in found if item is not choice]
    reasons = {item.requirement: item for item in choice.rejected}
    for passed in ladder:
        name = _name(passed)
        if name == taken:
            break
        reasons |= {item.requirement: item for item in passed.rejected}
        clash = next(_clashes(judge, [*others, passed]), None)
        pins = f"{clash.first}; {clash.second}" if clash else "nothing that goes with it goes with the rest"
        reasons[name] = Rejected(name, _CONFLICT, f"its pins cannot be met beside the others: {pins}.")
    newer = []
    for candidate in candidates(judge.context, choice.request):
        if candidate.requirement == taken:
            break
        if candidate.requirement in reasons or not _tells_its_pins(candidate):
            newer.append(reasons.get(candidate.requirement) or Rejected(candidate.requirement, _CONFLICT, _UNTOLD))
    return replaced(choice, rejected=tuple(newer))


def _clashes(judge: Judge, choices: list[Choice]) -> Iterator[Clash]:
    """Yield pairs of pins on one distribution that no version meets, and wheels of two CUDA majors in one folder."""
    pins: dict[str, list[tuple[str, Requirement]]] = {}
    told = [*judge.standing]
    for item in (choice.best for choice in choices if choice.best):
        own = dict.fromkeys((*_pins(judge, item), *constraints(judge.context, item.candidate, item.source)))
        told += ((_label(item), text) for text in own)
    for owner, text in told:
        requirement = Requirement(text)
        pins.setdefault(bare_wheel(requirement.name)[0], []).append((owner, requirement))
    stay = {owner for owner, _ in judge.standing}  # they are in one environment: how, is not asked
    for found in pins.values():
        for number, (owner, first) in enumerate(found):
            for other, second in found[number + 1 :]:
                apart = first.name != second.name or not _meet(first.specifier, second.specifier)
                if apart and other != owner and other not in stay:
                    yield Clash(f"{owner}: {_shown(first)}", f"{other}: {_shown(second)}")


def _shown(pin: Requirement) -> str:
    return str(pin) if pin.specifier else f"{pin}, pinned to a version that is not known"


def _label(judged: Judgement) -> str:
    return judged.candidate.requirement


def _pins(judge: Judge, judged: Judgement) -> tuple[str, ...]:
    """List what a release requires as far as is known: its CUDA wheels, and what it shares with others."""
    candidate, wheels = judged.candidate, judged.source.requirements
    if judged.source.kind == OWN and not candidate.local:
        wheels += candidate.cuda_row.cuda_wheels
    elif candidate.local.startswith("cu"):
        wheels += tuple(_of_own_index(candidate))
    own, row, context = () if judged.source.kind == NONE else wheels, candidate.row, judge.context
    real = context.matrix.release(row.framework, row.version, context.platform, row.stub_for) if row.stub_for else None
    return (*own, *(f"{name}{specifier}" for name, specifier in (real or row).requires.items()), *_beyond(row))


def _of_own_index(candidate: Candidate) -> Iterator[str]:
    """Yield what a build on its own index pins: versions nobody holds, but those of its CUDA and of its cuDNN major."""
    suffix, major = candidate.local[:4], (candidate.row.cudnn or "").partition(".")[0]
    yield from (f"{name}-{suffix}" for name in sharing_wheels())
    runtime = "nvidia-cuda-runtime" + (f"-{suffix}" if suffix in ("cu11", "cu12") else "")  # no suffix from 13 on
    yield f"{runtime}=={candidate.cuda}.*"
    if major:
        yield f"nvidia-cudnn-{suffix}>={major},<{int(major) + 1}"


def _beyond(row: FrameworkRelease) -> Iterator[str]:
    """Yield what a release shares with other frameworks beyond the columns of the matrix."""
    for entry in plan_data()["shared_requirements"]["rows"]:
        if row.framework == entry["framework"] and within(row.version, entry["specifier"]):
            yield from entry["requires"]


def _meet(first: SpecifierSet, second: SpecifierSet) -> bool:
    """Tell whether some version meets both.

    A pin without a version is an exact one that the matrix does not hold: it hardly meets another exact one.
    """
    both = first & second
    if (not first or not second) and any(clause.operator == "==" for clause in both):
        return False
    return can_be_met(str(both))
