"""Judge one candidate by the rules, on the machine as it will be once the plan has brought its CUDA libraries."""

from __future__ import annotations

from envcheck.model.facts import NOT_STATED, Known, Source
from envcheck.model.findings import ERROR, INCOMPATIBLE, NOTE, UNDETERMINED, Finding
from envcheck.model.machine import Facts, LibraryInstall, ToolkitInstall
from envcheck.model.plans import Rejected
from envcheck.model.records import dataclass, replaced
from envcheck.plan.candidates import Candidate
from envcheck.plan.cuda_source import SYSTEM, CudaSource
from envcheck.plan.wheel_glibc import old_libc
from envcheck.rules import Context, Target, catalogue, evaluate

_HOOKED = "cuda-wheel-not-found"  # what loader paths set by the environment's activation resolve
_OF_SOME_GPUS = ("gpu-arch-too-old", "gpu-arch-too-new")
_SHARED = ("gpu_rows",)  # what the rules work out once for all candidates
_PLANNED = Source("override", "what the plan installs")


@dataclass(frozen=True)
class Judgement:
    """What the rules say of one candidate, the machine's own faults left out."""

    candidate: Candidate
    source: CudaSource
    errors: tuple[Finding, ...]  # speak against it
    doubts: tuple[Finding, ...]  # could not be told
    warnings: tuple[Finding, ...]  # and notes on what could not be told
    mended: tuple[Finding, ...] = ()  # errors that a step of the plan takes away

    @property
    def is_compatible(self) -> bool:
        """Say whether the rules call it compatible."""
        return not self.errors and not self.doubts

    @property
    def left_out(self) -> tuple[Finding, ...]:
        """List what it says of GPUs that it serves badly or not at all beside one that it serves."""
        return tuple(item for item in self.warnings if item.id in _OF_SOME_GPUS and item.verdict == INCOMPATIBLE)

    @property
    def why(self) -> Finding:
        """Return the first thing against it."""
        return (self.errors or self.doubts)[0]


class Judge:
    """Judges candidates for one machine; the machine's own findings are worked out once, when needed."""

    def __init__(self, context: Context, standing: tuple[tuple[str, str], ...] = ()) -> None:
        """Hold the machine to judge on, without any framework, and what those that stay need: (whose, requirement)."""
        self.context, self.standing = context, standing
        self._own: tuple[Finding, ...] | None = None
        self._known: dict[tuple[str, CudaSource], Judgement] = {}

    def own_findings(self) -> tuple[Finding, ...]:
        """List what is wrong with the machine whichever release is taken."""
        if self._own is None:
            found = evaluate(self._asking(self.context.facts, ())).findings
            self._own = tuple(item for item in found if item.id != "framework-missing" and not _is_unstated(item))
        return self._own

    def judge(self, candidate: Candidate, source: CudaSource) -> Judgement:
        """Evaluate one candidate with what its CUDA source would bring, once."""
        key = (candidate.requirement, source)
        if key not in self._known:
            self._known[key] = self._judged(candidate, source)
        return self._known[key]

    def not_there(self, requirement: str) -> tuple[Rejected, ...]:
        """Say why there is nothing to judge: the rules' own words of a requirement that no release here meets."""
        found = evaluate(self._asking(self.context.facts, (requirement,))).findings
        own = {item.id for item in self.own_findings()}
        told = (item for item in found if item.severity == ERROR and item.id not in own and not _is_unstated(item))
        return tuple(Rejected(requirement, item.id, item.message) for item in told)[:1]

    def _judged(self, candidate: Candidate, source: CudaSource) -> Judgement:
        facts = _with_libraries(self.context.facts, source)
        found = (
            *evaluate(self._asking(facts, candidate.judged)).findings,
            *old_libc(self.context, candidate, source),
        )
        told = [item for item in found if not _is_unstated(item) and not _is_mere_note(item)]
        errors = [item for item in told if item.severity == ERROR]
        if errors:
            own = {(item.id, item.message) for item in self.own_findings()}
            errors = [item for item in errors if (item.id, item.message) not in own]
        mended = [item for item in errors if _is_mended(item, source)]
        left = [item for item in errors if item not in mended]
        return Judgement(
            candidate,
            source,
            tuple(item for item in left if item.verdict != UNDETERMINED),
            tuple(item for item in left if item.verdict == UNDETERMINED),
            tuple(item for item in told if item.severity != ERROR and not (item.id == _HOOKED and source.needs_hook)),
            tuple(mended),
        )

    def _asking(self, facts: Facts, requirements: tuple[str, ...]) -> Context:
        memo = {key: value for key, value in self.context.memo.items() if key.startswith(_SHARED)}
        asked = Context(facts, self.context.matrix, Target(self.context.goal, requirements), memo)
        self.context.memo.update(memo)
        return asked


def _is_mended(finding: Finding, source: CudaSource) -> bool:
    """Tell whether a step of the plan takes an error away: the activation's loader paths, or a system's toolkit."""
    if finding.id == _HOOKED:
        return source.needs_hook
    in_toolkit = catalogue()[finding.id].layer == "toolkit"
    return source.kind == SYSTEM and in_toolkit and finding.fix is not None and finding.verdict != UNDETERMINED


def _is_unstated(finding: Finding) -> bool:
    """Tell whether a check waits for something nobody described."""
    return finding.id == "probe-failed" and all(NOT_STATED.detail in item.shown for item in finding.evidence)


def _is_mere_note(finding: Finding) -> bool:
    """Tell whether there is nothing to say: a note, but for one on what could not be told."""
    return finding.severity == NOTE and finding.verdict != UNDETERMINED


def _with_libraries(facts: Facts, source: CudaSource) -> Facts:
    if not source.cuda:
        return facts
    cuda, folder = Known(source.cuda, _PLANNED), "the planned environment/lib"
    toolkit = ToolkitInstall("the planned environment", "conda", cuda, cudart_path=Known(folder, _PLANNED))
    known = facts.toolkits.installs.value if isinstance(facts.toolkits.installs, Known) else ()
    changed = replaced(facts, toolkits=replaced(facts.toolkits, installs=Known((toolkit, *known), _PLANNED)))
    if not source.cudnn:
        return changed
    version = Known(source.cudnn, _PLANNED)
    copy = LibraryInstall(
        "cudnn",
        "the planned environment",
        "conda",
        library_version=version,
        library_path=Known(f"{folder}/libcudnn.so", _PLANNED),
        cuda_major=Known(source.cuda.partition(".")[0], _PLANNED),
    )
    others = facts.cudnn.value if isinstance(facts.cudnn, Known) else ()
    return replaced(changed, cudnn=Known((copy, *others), _PLANNED))
