"""What a rule is, and what it may look at: the facts, the matrix and what the user wants."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, cast

from envcheck.frameworks import framework_of
from envcheck.host.plugins import are_allowed
from envcheck.matrix.query import Matrix
from envcheck.model import (
    AT_RUN,
    ERROR,
    INCOMPATIBLE,
    NO_ENVIRONMENT,
    UNDETERMINED,
    About,
    Absent,
    DeviceNode,
    Distribution,
    Evidence,
    Fact,
    Facts,
    Finding,
    Fix,
    FrameworkRelease,
    Gpu,
    Known,
    OtherGpu,
    Source,
    ToolkitInstall,
    Unknown,
    dataclass,
    replace,
)
from envcheck.model.answers import NOBODY, Citation

P = ParamSpec("P")
T = TypeVar("T")
Answers: TypeAlias = dict[Hashable, Any]
# what a finding shows: a fact by its name, with other words than its value, or evidence as it is
Seen: TypeAlias = str | tuple[str, str] | Evidence
_NOTHING = ("", "void", "none")  # values of NVIDIA_VISIBLE_DEVICES that ask for no GPU
# every wheel for an Apple processor has them: they say nothing about what is meant
_OPTIONAL = ("mps", "metal")


class UndecidedError(Exception):
    """A rule met a fact that could not be read; the engine reports it."""

    def __init__(self, name: str, unknown: Unknown) -> None:
        super().__init__(name)
        self.name = name
        self.unknown = unknown


@dataclass
class SourceBuild:
    """A package compiled against a framework on installation, or taken ready built."""

    distribution: str
    framework: str
    is_isolated: bool = True  # it is built where nothing else is installed
    # the minor version of the framework that the wheels of its page are for: 2.8
    built_for: str = ""


@dataclass
class Demands:
    """What a project requires of a machine, and the file that says so.

    Return "" where it sets no floor.
    """

    requires: tuple[str, ...] = ()
    min_driver: str = ""  # a driver release: 535.54.03, or its first parts
    min_compute_capability: str = ""  # 7.5
    location: str = ""
    # the findings against what pip would choose for what is missing
    obstacles: tuple[str, ...] = ()
    min_memory: int = 0  # bytes that a GPU must have free
    # what the machine is stated to have: gpu-count, gpu-model, pcie-width, nvlinks ...
    gpus: tuple[tuple[str, int | str], ...] = ()


NO_DEMANDS = Demands()


@dataclass
class Target:
    """What the user wants: `expect` is auto, gpu or cpu.

    `requirements` are PEP 508 strings to judge.

    `compiles` says that CUDA code is built on this machine, which running a framework does not
    need; `may_compile`, that an extension is built of which nobody knows whether it holds CUDA
    code; `built` names it. The rest is known of a command that installs: the releases that it pins
    `beside` the requirements, what it builds from source, whether it `brings` what packages
    require, and its text where it installs into the Python that is there. `decisive` names the fact
    that a machine described by half lacks: gpus, or driver.release.
    """

    expect: str = "auto"
    requirements: tuple[str, ...] = ()
    compiles: bool = False
    may_compile: bool = False
    built: str = ""
    beside: tuple[str, ...] = ()
    sources: tuple[SourceBuild, ...] = ()
    command: str = ""
    brings: bool = True
    decisive: str = ""
    demands: Demands = NO_DEMANDS
    unfound: tuple[str, ...] = ()  # builds with a label, which no index has that is asked


DEFAULT_TARGET = Target()


class Context:
    """Everything a rule sees. Nothing here reads the machine or the clock."""

    def __init__(self, facts: Facts, matrix: Matrix, target: Target = DEFAULT_TARGET) -> None:
        """Hold what is judged; a context never changes."""
        self.facts, self.matrix, self._target = facts, matrix, target
        self.host, self.driver = facts.host, facts.driver
        self.toolkits, self.python = facts.toolkits, facts.python
        self.expect, self.names_releases = target.expect, bool(target.requirements)
        self.compiles, self.may_compile, self.built = (
            target.compiles,
            target.may_compile,
            target.built,
        )
        self.beside, self.sources, self.command = target.beside, target.sources, target.command
        self.decisive, self.demands = target.decisive, target.demands
        self.unfound = target.unfound
        # See `once`: what was answered without a look at the requirements, and the rest.
        self.machine_answers: Answers = {}
        self.answers: Answers = {}
        self.has_read_target = False

    @property
    def target(self) -> Target:
        """Return the whole target.

        Whatever was answered with it holds for its requirements alone.
        """
        self.has_read_target = True
        return self._target

    def with_requirements(self, requirements: tuple[str, ...]) -> Context:
        """Return the context for other requirements.

        It shares every answer that did not read them.
        """
        other = Context(self.facts, self.matrix, replace(self._target, requirements=requirements))
        if other.names_releases == self.names_releases:  # else `goal` may differ
            other.__dict__ = {
                **self.__dict__,
                **other.__dict__,
                "machine_answers": self.machine_answers,
            }
        return other

    @cached_property
    def goal(self) -> str:
        """Return whether the verdict is about "gpu" or "cpu" work.

        Auto asks for a GPU wherever there may be one.
        """
        if self.asks_other_vendor:
            return "cpu"  # what can be judged; `gpu-not-nvidia` says what is not
        if self.expect in ("gpu", "cpu"):
            return self.expect
        has_no_gpu = self.lacks_gpu and not self.hides_host_gpus
        return "cpu" if has_no_gpu or self._is_left_without_gpu else "gpu"

    @property
    def is_built_later(self) -> bool:
        """Whether the environment is one that a file describes, which nobody could look into."""
        return self.python.link_faults == AT_RUN

    @cached_property
    def asks_other_vendor(self) -> bool:
        """Return whether work is meant for a GPU that NVIDIA did not make.

        By an installed build, or by --expect gpu.
        """
        if self.expect == "cpu" or self.names_releases or not self.lacks_gpu:
            return False
        builds = self.python.frameworks.value or ()
        if any(
            item.accelerator.value is not None and item.accelerator.value not in _OPTIONAL
            for item in builds
        ):
            return True
        has_cuda = any(item.cuda_build.value for item in builds)
        return self.expect == "gpu" and bool(self.other_gpus) and not has_cuda

    @cached_property
    def other_gpus(self) -> tuple[OtherGpu, ...]:
        """List the GPUs of other vendors that one computes on.

        Not the graphics inside a processor of Intel's.
        """
        gpus = self.facts.other_gpus.value or ()
        return tuple(item for item in gpus if item.integrated.value is not True)

    @property
    def _is_left_without_gpu(self) -> bool:
        """Return whether this container has no GPU of its host and nothing in it needs one."""
        host, driver = self.host, self.driver
        has_gpu = driver.libcuda_path.value or self.gpu_nodes
        is_unknown = isinstance(driver.device_nodes, Unknown) or isinstance(
            driver.libcuda_path, Unknown
        )
        if not host.container.value or host.jetson_release.value or has_gpu or is_unknown:
            return False
        frameworks = self.python.frameworks
        builds = frameworks.value or ()
        cpu_only = not isinstance(frameworks, Unknown) and all(
            build.cuda_build.value is False for build in builds
        )
        requests_gpu = self.names_releases or self.asks_runtime
        return cpu_only and not requests_gpu and not self.toolkits.installs.value

    @property
    def asks_runtime(self) -> bool | None:
        """Return whether NVIDIA_VISIBLE_DEVICES asks a container's runtime for GPUs.

        Return None where nobody set it.
        """
        value = self.environment.get("NVIDIA_VISIBLE_DEVICES")
        return None if value is None else value.strip() not in _NOTHING

    @property
    def hides_host_gpus(self) -> bool:
        """Return whether this container asks for GPUs but cannot see those of its host.

        A container shows the PCI devices of its host, given or not; in WSL there are none to see.
        """
        in_wsl = self.host.container.value and self.host.wsl_version.value
        return bool(in_wsl and self.asks_runtime)

    @property
    def judges_environment(self) -> bool:
        """Return whether there is a Python environment to judge.

        The first Python on PATH is one only where it is an environment or holds a framework: one
        that comes with the system, taken for want of another, is nobody's choice.
        """
        python = self.python
        if python.chosen_by != "PATH":
            return python.chosen_by != NO_ENVIRONMENT
        return python.kind.value != "system" or not isinstance(python.frameworks, Absent)

    @property
    def has_rival_environments(self) -> bool:
        """Whether no environment is judged because several are meant alike."""
        python = self.python
        return python.chosen_by == NO_ENVIRONMENT and any(
            not item.problem for item in python.others
        )

    def fact(self, name: str) -> Fact[Any]:
        """Find a fact by its dotted name: "driver.release", "gpus"."""
        value: Any = self.facts
        for part in name.split("."):
            value = getattr(value, part)
        return value  # type: ignore[no-any-return]  # every leaf of Facts is a fact

    def need(self, fact: Fact[T], name: str) -> T | None:
        """Return a known fact's value, None when it is absent.

        An unknown one ends the rule as undetermined.
        """
        if isinstance(fact, Unknown):
            raise UndecidedError(name, fact)
        return fact.value

    @property
    def lacks_gpu(self) -> bool:
        """Return whether this machine is known to have no NVIDIA GPU."""
        return isinstance(self.facts.gpus, Absent)

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """List the GPUs; empty when there is none or that is unknown (see `goal` and `need`)."""
        return self.facts.gpus.value or ()

    @cached_property
    def gpu_nodes(self) -> tuple[DeviceNode, ...]:
        """List the nodes of the GPUs, /dev/nvidia0 and on; nvidiactl proves nothing."""
        nodes = self.driver.device_nodes.value or ()
        return tuple(node for node in nodes if node.path[len("/dev/nvidia") :].isdigit())

    @cached_property
    def installed_frameworks(self) -> tuple[str, ...]:
        """List the frameworks that have a distribution here."""
        return tuple(dict.fromkeys(filter(None, map(framework_of, self.distributions))))

    @cached_property
    def installs(self) -> tuple[ToolkitInstall, ...]:
        """List the CUDA Toolkits; empty when there is none or that is unknown."""
        return self.toolkits.installs.value or ()

    @cached_property
    def distributions(self) -> dict[str, Distribution]:
        """Map normalised names to the environment's distributions (the first found wins)."""
        by_name: dict[str, Distribution] = {}
        for item in self.python.distributions.value or ():
            by_name.setdefault(item.name, item)
        return by_name

    def row_of(self, item: Distribution) -> FrameworkRelease | None:
        """Return the matrix' row of an installed framework release; None where it has none."""
        framework = self.matrix.framework_of(item.name)
        return self.matrix.release(framework, item.public, self.platform, item.name)

    @cached_property
    def environment(self) -> dict[str, str]:
        """Return the recorded environment variables."""
        return dict(self.host.environment.value or {})

    @cached_property
    def os(self) -> str:
        """Name the operating system, or "" when it was not read."""
        return self.host.os.value or ""

    @cached_property
    def platform(self) -> str:
        """Name the wheel platform family the matrix uses.

        linux_x86_64, win_amd64, macosx_arm64 ...; "" unknown.
        """
        machine = self.python.architecture.value or self.host.architecture.value or ""
        machine = {"amd64": "x86_64", "AMD64": "x86_64"}.get(machine, machine)
        if self.os == "windows":
            if machine in ("x86_64", ""):
                return "win_amd64"
            return f"win_{machine.lower()}"
        if self.os == "darwin":
            return f"macosx_{machine or 'arm64'}"
        return f"linux_{machine or 'x86_64'}"

    @cached_property
    def python_program(self) -> str:
        """Return the inspected interpreter as it can be typed."""
        executable = self.python.executable.value or ""
        if is_typeable(executable):
            return executable
        return "python" if self.os == "windows" else "python3"

    def known(self, *names: str) -> tuple[Evidence, ...]:
        """Make evidence of those of some facts that are known."""
        return tuple(self.seen(name) for name in names if self.fact(name).value is not None)

    def report(
        self,
        message: str,
        *seen: Seen,
        verdict: str = INCOMPATIBLE,
        finding_id: str = "",
        severity: str = "",
        cure: Fix | None = None,
        about: About = NOBODY,
        stops: str = "",
    ) -> Finding:
        """Make a finding: of what does not work, unless it has another verdict.

        Without an id or severity it takes those of its rule.
        """
        evidence = []
        for item in seen:
            if isinstance(item, str):
                evidence.append(self.seen(item))
            elif isinstance(item, Evidence):
                evidence.append(item)
            else:
                evidence.append(self.seen(item[0], shown=item[1]))
        return Finding(
            finding_id,
            verdict,
            severity,
            message,
            tuple(evidence),
            cure=cure,
            about=about,
            stops=stops,
        )

    def report_unlisted(
        self,
        subject: str,
        decides: str,
        *seen: Seen,
        severity: str = ERROR,
        cure: Fix | None = None,
    ) -> Finding:
        """Report that the matrix has no row for a subject, and what is therefore unknown."""
        return self.report(
            f"{subject} is not in the compatibility matrix, so {decides} is unknown.",
            *seen,
            verdict=UNDETERMINED,
            finding_id="release-unknown",
            severity=severity,
            cure=cure,
        )

    def show_owners(self, path: str) -> tuple[Evidence, ...]:
        """Make evidence of several distributions that own one path."""
        name, owners = (
            "python.duplicate_owners",
            (self.python.duplicate_owners.value or {}).get(path),
        )
        return (self.seen(name, shown=f"{path}: {', '.join(owners)}"),) if owners else ()

    def show_variable(self, name: str) -> Evidence:
        """Make evidence of an environment variable."""
        shown = repr(self.environment.get(name, ""))
        return self.seen(f"host.environment {name}", self.host.environment, shown)

    def seen(self, name: str, fact: Fact[Any] | None = None, shown: str = "") -> Evidence:
        """Make evidence of a fact, by default the one called `name`."""
        return show_fact(name, self.fact(name) if fact is None else fact, shown)


def is_typeable(path: str) -> bool:
    """Return whether a path can be typed in a command with quotes alone."""
    return re.fullmatch(r"[~\w./+:\\ @()-]+", path) is not None and not path.startswith("-")


def show_fact(name: str, fact: Fact[Any], shown: str = "") -> Evidence:
    """Make evidence of a fact that has no name of its own, such as one of several toolkits."""
    return Evidence(name, shown or describe(fact), source_of(fact))


def describe(fact: Fact[Any]) -> str:
    """Describe a fact in words."""
    if isinstance(fact, Known):
        if not isinstance(fact.value, (tuple, list)):
            return str(fact.value)
        return f"{len(fact.value)} found"
    if isinstance(fact, Absent):
        return "not found"
    return f"could not be read ({fact.why}: {fact.detail})"


def source_of(fact: Fact[Any]) -> Source | None:
    """Return where a known fact was read, or where an absent one was looked for."""
    if isinstance(fact, Known):
        return fact.source
    return Source("file", ", ".join(fact.tried)[:300]) if fact.tried else None


def once(function: Callable[Concatenate[Context, P], T]) -> Callable[Concatenate[Context, P], T]:
    """Answer a question once per context.

    As a context never changes, the arguments complete the key.

    An answer for which nobody read `context.target` is kept for every context that
    `with_requirements` makes.
    """

    @wraps(function)
    def answer(context: Context, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (function, *args, *kwargs.items()) if args or kwargs else function
        if key in context.machine_answers:
            return cast("T", context.machine_answers[key])
        outer, context.has_read_target = context.has_read_target, key in context.answers
        try:
            found: T
            if context.has_read_target:
                found = context.answers[key]
            else:
                found = function(context, *args, **kwargs)
            # the function may have read the target meanwhile
            (context.answers if context.has_read_target else context.machine_answers)[key] = found
        finally:
            context.has_read_target |= outer
        return found

    return answer


Check = Callable[[Context], Iterator[Finding]]

RULES: list[Rule] = []


@dataclass
class Rule:
    """One check: the finding ids that it decides, and their usual severity."""

    ids: tuple[str, ...]
    severity: str
    needs: tuple[str, ...]
    goal: str  # "gpu": asked only when GPUs are meant to work; "any": always
    check: Check
    plugin: str = ""  # the module that registered it; "" for a rule of envcheck
    installs: bool = False  # it decides whether what is asked for can be installed or compiled
    # it says that something fails, not why: silent beside the errors that the catalogue names
    last: bool = False


def rule(
    *ids: str,
    severity: str = ERROR,
    needs: tuple[str, ...] = (),
    goal: str = "gpu",
    installs: bool = False,
    last: bool = False,
) -> Callable[[Callable[..., Iterator[Finding]]], Check]:
    """Register a check under the finding ids that it decides.

    `needs` are dotted names of the facts that it cannot do without. Each arrives as a further
    argument: its value, or None where it is absent. An unknown one makes the check undetermined
    before its body runs, and leaves out a rule whose severity is NOTE. A rule that `installs`
    decides whether what is asked for can be installed or compiled: of each command of a file, and
    of a stage that is only built, only such rules are asked. A `last` rule is silent beside an
    error that explains it, or keeps CUDA from starting for a reason.

        @rule("pip-too-old", severity=WARNING, needs=("python.pip_version",))
        def pip_too_old(context: Context, pip: str | None) -> Iterator[Finding]:
            if pip is not None and is_older(pip, "23"):
                yield context.report(f"pip {pip} is too old.", "python.pip_version")

    A finding that names no id or severity takes the first id and the severity of its rule.
    """

    def register(body: Callable[..., Iterator[Finding]]) -> Check:
        @wraps(body)
        def check(context: Context) -> Iterator[Finding]:
            values = [context.need(context.fact(name), name) for name in needs]
            return (
                _complete_finding(finding, ids[0], severity) for finding in body(context, *values)
            )

        module = body.__module__
        plugin = ""
        if are_allowed() and not module.startswith("envcheck."):
            plugin = module
        RULES.append(Rule(ids, severity, needs, goal, check, plugin, installs, last))
        return check

    return register


def each(items: Iterable[T], judge: Callable[[T], Iterator[Finding]]) -> Iterator[Finding]:
    """Judge each of several things.

    One that cannot be decided leaves the rule undetermined once all are judged.
    """
    undecided: UndecidedError | None = None
    for item in items:
        try:
            yield from judge(item)
        except UndecidedError as error:  # noqa: PERF203 - the others are judged nevertheless
            undecided = undecided or error
    if undecided is not None:
        raise undecided


class _Cited(Protocol):
    @property
    def citations(self) -> tuple[Citation, ...]: ...


def cite(fact: str, shown: str, row: _Cited | None, source: Source | None = None) -> Evidence:
    """Make evidence of a row of the matrix, or of a build that it describes."""
    citations = row.citations if row else ()
    return Evidence(fact, shown, source, citations[0] if citations else None)


def _complete_finding(finding: Finding, finding_id: str, severity: str) -> Finding:
    if finding.id and finding.severity:
        return finding
    return replace(finding, id=finding.id or finding_id, severity=finding.severity or severity)
