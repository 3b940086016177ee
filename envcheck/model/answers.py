"""What is answered: findings and reports, and from what; plans and what came of them."""

from __future__ import annotations

from typing import Mapping, Optional, Tuple

from envcheck.model.actions import Action, Step
from envcheck.model.machine import OtherEnvironment, Source
from envcheck.model.records import dataclass, field

COMPATIBLE = "compatible"
INCOMPATIBLE = "incompatible"
UNDETERMINED = "undetermined"
OTHER_CAUSE = "other-cause"  # of a log: the program, its data or a service, not the environment

ERROR = "error"
WARNING = "warning"
NOTE = "note"


@dataclass
class Citation:
    """Name the artifact or document behind a matrix row, and when it was checked."""

    url_or_artifact: str
    locator: str = ""
    checked: str = ""


@dataclass
class Evidence:
    """One thing seen (a source on the machine) or known (a matrix citation)."""

    fact: str  # dotted fact name or matrix row: "driver.release", "toolkits 12.6"
    shown: str  # the value in words
    source: Optional[Source] = None
    citation: Optional[Citation] = None


@dataclass
class Alternative:
    """Another way to the same end, taken instead of the remedy's own actions."""

    summary: str
    actions: Tuple[Action, ...] = ()


@dataclass
class Remedy:
    """What to do about a finding: a sentence and the actions, one after the other."""

    summary: str
    actions: Tuple[Action, ...] = ()
    alternatives: Tuple[Alternative, ...] = ()  # to do instead: never a next step


class Fix:
    """The base of the records of `envcheck.model.fixes`: what must change."""

    subject = ""  # the module of `envcheck.remedies` that writes it


@dataclass
class Advise(Fix):
    """Say one sentence: no command does it."""

    sentence: str


@dataclass
class FollowRow(Fix):
    """Do what data/advice/remedies.json says of the finding.

    In its row of that name, or in the one for all.
    """

    row: str = ""
    values: Tuple[Tuple[str, str], ...] = ()  # for the {names} of the row


@dataclass
class About:
    """Name what a finding is about."""

    framework: str = ""  # tensorflow, torch, jax ...
    distribution: str = ""
    names: Tuple[str, ...] = ()  # of further distributions


NOBODY = About()


@dataclass
class Finding:
    """One root cause, or one check that could not be decided."""

    id: str
    verdict: str
    severity: str
    message: str
    evidence: Tuple[Evidence, ...] = ()
    fix: Optional[Remedy] = None  # attached by remedies, which write `cure`
    primary: bool = False
    caused_by: Optional[str] = None
    cure: Optional[Fix] = None  # what must change; None: nothing to do about it
    about: About = NOBODY
    # what it stops, where that is another thing than the catalogue says of its id, or was seen
    stops: str = ""

    @property
    def key(self) -> Tuple[str, str]:
        """Return what tells it from the other findings of a report."""
        return self.id, self.message

    @property
    def is_the_cause(self) -> bool:
        """Return whether it is what stops an import or a computation.

        A warning that comes first stops none.
        """
        return self.primary and self.severity == ERROR


@dataclass
class Judged:
    """What a verdict is about."""

    machine: bool = True  # False: what a file will build
    # its prefix, "" if that is unknown; None where there was none to judge
    environment: Optional[str] = None
    chosen_by: str = ""  # see PythonFacts.chosen_by
    others: Tuple[OtherEnvironment, ...] = ()  # see PythonFacts.others


@dataclass
class Report:
    """The verdict on a snapshot with its findings, the primary one first."""

    verdict: str
    goal: str  # gpu or cpu: what the verdict is about
    headline: str
    findings: Tuple[Finding, ...]
    checked: Tuple[str, ...]  # ids of the rules that ran to a decision
    # releases that were judged without being installed: "tensorflow 2.15.1 (CUDA 12.2)"
    asked: Tuple[str, ...] = ()
    system: str = ""  # whose shells the commands are for: linux, windows, darwin; "" not known
    wanted: Tuple[str, ...] = ()  # the options that say what must work: --expect gpu --for torch
    inspected: Tuple[str, ...] = ()  # the options that say what was looked at: --env .venv
    steps: Tuple[Step, ...] = ()  # of the plan that fixes what was found
    judged: Judged = Judged()
    obtained_by: Optional[Action] = None  # what installs the releases of `asked`
    matrix: str = ""  # by which data it was judged: "2026-11-23, built in"
    # runs the environment's steps; () where the environment may not be changed
    fix_command: Tuple[str, ...] = ()

    def steps_for(self, finding: Finding) -> Tuple[str, ...]:
        """Name the steps that resolve a finding: its own, or those of its cause."""
        wanted = self._root_of(finding)
        return tuple(step.id for step in self.steps if wanted in step.resolves)

    def _root_of(self, finding: Finding) -> str:
        """Follow a finding to the id of the cause that is nobody's consequence."""
        causes = {item.id: item.caused_by for item in self.findings if item.caused_by is not None}
        roots = {item.id for item in self.findings if item.caused_by is None}
        wanted, seen = finding.caused_by or finding.id, {finding.id}
        while wanted not in roots and wanted in causes and wanted not in seen:
            seen.add(wanted)
            wanted = causes[wanted]
        return wanted


# Plans: which releases go where, the steps, what is in the way, and the outcome.


@dataclass
class Rejected:
    """A release that was judged and not chosen: what spoke against it, in one line."""

    requirement: str  # tensorflow[and-cuda]==2.21.0
    finding: str  # finding id
    why: str


@dataclass
class PlannedRelease:
    """The release chosen for one framework, and why none newer."""

    framework: str
    distribution: str
    version: str  # with the local part where there is one: 2.7.1+cu118
    requirement: str  # as typed: tensorflow[and-cuda]==2.20.0
    build: str  # gpu, cpu
    cuda: Optional[str] = None  # CUDA built with; None for a CPU build
    cudnn: Optional[str] = None
    index: str = ""  # package index of its own; "" for the one that is configured
    environment: str = ""  # folder of the environment it goes into
    constraints: Tuple[str, ...] = ()  # what must be kept within bounds beside it: numpy<2
    # of these, what else was asked for, as it goes with it: vllm==0.33.0
    companions: Tuple[str, ...] = ()
    # names of those that have no build for the CPU, where no GPU is planned for
    needs_gpu: Tuple[str, ...] = ()
    rejected: Tuple[Rejected, ...] = ()  # newer releases, newest first
    warnings: Tuple[Finding, ...] = ()  # what is known to be less than perfect
    doubts: Tuple[Finding, ...] = ()  # what could not be told
    citations: Tuple[Citation, ...] = ()

    @property
    def open_companions(self) -> Tuple[str, ...]:
        """List the companions whose release is left to the installer: flax, lightning>=2."""
        return tuple(text for text in self.companions if "==" not in text and " @ " not in text)


@dataclass
class RequirementSet:
    """Requirements that one command installs from one index."""

    requirements: Tuple[str, ...]
    index: str = ""  # "" for the one that is configured
    # dependencies without wheels: the exceptions from "wheels only"
    source_only: Tuple[str, ...] = ()
    # what the environment holds and must go on holding: tensorflow==2.15.1
    kept: Tuple[str, ...] = ()
    # of pip, for what is built from its sources or listed on a page of its own
    options: Tuple[str, ...] = ()
    settings: Tuple[Tuple[str, str], ...] = ()  # variables of that build: MAX_JOBS
    # exact, with their hashes, once verified: "numpy==2.1.0 --hash=sha256:..."
    pins: Tuple[str, ...] = ()


@dataclass
class Environment:
    """One environment of a plan: what it is made of."""

    folder: str
    installer: str  # pip, uv, conda
    python: str  # minor version: 3.11
    platform: str  # linux_x86_64 ...
    sets: Tuple[RequirementSet, ...] = ()  # in the order of installation
    channels: Tuple[str, ...] = ()  # conda
    packages: Tuple[str, ...] = ()  # conda specs: python=3.7, cudatoolkit=10.0
    # of the installer: CONDA_OVERRIDE_CUDA
    variables: Mapping[str, str] = field(default_factory=dict)
    # below the environment, put on the loader's path by its activation
    library_folders: Tuple[str, ...] = ()
    glibc: str = ""  # lowest glibc the frameworks' wheels need; "" where none
    machine_glibc: str = ""  # that of the machine it is for; "" where it is not known
    macos: str = ""  # lowest macOS its wheels are for; "" elsewhere
    pip_too_old: str = ""  # the pip its wheels need, where the bundled one may be older: "20.3"
    # what conda's specs come to, once verified: cudatoolkit=10.0.130=0
    solved: Tuple[str, ...] = ()
    # the pylock.toml, or the pins of a wheelhouse, that it is installed from in place of `sets`
    lock: str = ""


@dataclass
class Change:
    """Something that would make a plan possible, judged with it; lower effort first."""

    what: str  # "Python 3.11", "driver 525.60.13 or newer"
    effort: int
    requirement: str  # the release it would bring
    argv: Tuple[str, ...]  # the command that plans with it


@dataclass
class Clash:
    """Two pins that no one version meets."""

    first: str  # "torch 2.13.0: nvidia-nccl-cu12==2.27.5"
    second: str


@dataclass
class Plan:
    """What to do to reach a goal.

    With `blocked_by` there are no steps, and `changes` says what would help.
    """

    goal: str  # gpu, cpu
    releases: Tuple[PlannedRelease, ...]
    steps: Tuple[Step, ...]
    resolves: Tuple[str, ...] = ()  # finding ids that the steps resolve
    blocked_by: Tuple[Finding, ...] = ()
    requirements: Tuple[str, ...] = ()  # as asked for
    environments: Tuple[Environment, ...] = ()
    clashes: Tuple[Clash, ...] = ()
    changes: Tuple[Change, ...] = ()
    rejected: Tuple[Rejected, ...] = ()  # of frameworks for which nothing was found
    notes: Tuple[str, ...] = ()
    system: str = ""  # whose shells its commands are typed in: linux, windows, darwin; "" not known
    # the driver and GPUs it is for: ENVCHECK_DRIVER_RELEASE
    machine: Mapping[str, str] = field(default_factory=dict)
    # "resolved: 34 packages from wheels", or "not resolved: " and why; "" where no index was asked
    verified: str = ""
    # a plan of the driver has no releases: what its steps come to, in a sentence
    driver: str = ""

    @property
    def is_feasible(self) -> bool:
        """Return whether there is something to do, or nothing needs to be done."""
        return bool(self.releases or self.driver) and not self.blocked_by

    @property
    def is_resolved(self) -> bool:
        """Return whether an index was asked and resolved all of it."""
        return self.verified.startswith("resolved")


# Outcomes: `planned`, `blocked` and `unchanged` changed nothing, `unsettled` left a journal to
# resume.
INSTALLED, FIXED, RESTORED, UNSETTLED = "installed", "fixed", "restored", "unsettled"
WAITING_FOR_RESTART = "waiting"  # of the driver: its steps go on with --resume
PLANNED, BLOCKED, UNCHANGED = "planned", "blocked", "unchanged"


@dataclass
class SystemChange:
    """A step that a transaction took on the machine, or began; it is not undone automatically."""

    id: str
    argv: Tuple[str, ...]
    undo: Tuple[str, ...] = ()
    lasting: str = ""  # why there is no undo


@dataclass
class Outcome:
    """What came of a transaction, of undoing one, or of a plan that was only shown."""

    outcome: str
    folder: str
    id: str = ""  # of the transaction
    why: str = ""  # why the environment is not the new one
    log: str = ""  # file with what the steps printed
    # taken though the environment is not the new one; newest first
    machine: Tuple[SystemChange, ...] = ()
