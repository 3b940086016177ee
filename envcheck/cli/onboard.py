"""`envcheck onboard`: from a bare machine to a passed smoke test, as often as it is typed.

Nothing is remembered here: the machine shows what is left to do, and the journals of the driver
and of the environment what was done. So the same command goes on after a restart or a crash.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import click

from envcheck import api
from envcheck.actions import type_here
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, STEP_FAILED, UserError, option
from envcheck.cli.doctor import compute
from envcheck.cli.install import change_environment
from envcheck.cli.install_driver import (
    DriverOptions,
    change_driver,
    code_of,
    judge_driver,
    plan_driver,
)
from envcheck.cli.installation import OutputOptions, driver_consents, expand_home, output_options
from envcheck.cli.report import print_answer
from envcheck.cli.smoke import SmokeProgress, run_here
from envcheck.frameworks import framework_of
from envcheck.host.documents import parse_toml
from envcheck.host.paths import fold_home, shorten_path
from envcheck.install.driver import driver_place, find_interrupted
from envcheck.install.installation import InstallRequest
from envcheck.install.journal import DONE_STEP, STEP, Journal
from envcheck.install.places import Place, place_of
from envcheck.install.preflight import is_root
from envcheck.model import (
    COMPATIBLE,
    INCOMPATIBLE,
    INSTALLED,
    PLANNED,
    UNCHANGED,
    UNDETERMINED,
    WAITING_FOR_RESTART,
    Fact,
    Gpu,
    Outcome,
    Plan,
    RequestError,
    Snapshot,
    Unknown,
    dataclass,
    replace,
)
from envcheck.model.versions import read_requirement
from envcheck.plan.driver import foresee_driver
from envcheck.plan.project import ProjectLines
from envcheck.plan.requests import ENGINES
from envcheck.proof.smoke import SmokeRequest
from envcheck.render.document import (
    BROKEN,
    NEEDLESS,
    SOUND,
    UNREAD,
    WARNED,
    Block,
    Command,
    Document,
    Line,
    Section,
)
from envcheck.render.json_contracts import (
    document_text,
    render_snapshot,
    report_document,
    schema_keys,
)
from envcheck.render.plan import describe_plan
from envcheck.render.smoke import describe_session, smoke_document
from envcheck.rules import Context
from envcheck.smoke.findings import headline_of, verdict_of
from envcheck.smoke.session import Session


@dataclass
class Stage:
    """How far one of the four parts is."""

    name: str
    text: str
    state: str = SOUND
    code: int = 0  # the exit code where this part ends it
    left: tuple[str, ...] = ()  # commands for the person


_DRIVER = "Driver"
_WAITS = Stage(
    _DRIVER,
    "Restart the machine, then type the same command again.",
    UNREAD,
    OF_VERDICT[UNDETERMINED],
)


class _Onboarding:
    """Takes the four parts, as far as they go.

    `asked` is what the environment gets, `driver` what the driver must serve, and what may be done
    for it; `golden` names the file for the machine.
    """

    def __init__(
        self, asked: InstallRequest, driver: DriverOptions, golden: str, output: OutputOptions
    ) -> None:
        self.asked, self.driver, self.golden, self.output = asked, driver, golden, output
        self.stages: list[Stage] = []
        self.proof: tuple[api.DoctorResult, Session] | None = None
        self.place: Place | None = None  # of the environment
        self.coming = ""  # the driver that root's part will bring

    def run(self) -> int:
        """Take one part after the other; return the exit code."""
        works = {
            "the driver": self.set_up_driver,
            "the environment": self.install,
            "the proof": self.prove,
            "the golden snapshot": self.save,
        }
        for number, (name, work) in enumerate(works.items(), 1):
            self._say(f"Part {number} of {len(works)}: {name}")
            stage = work()
            self.stages.append(stage)
            self._say(f"    {stage.text}", *(f"    {line}" for line in stage.left), "")
            if stage.code:
                return stage.code
        return 0

    def _say(self, *lines: str) -> None:
        if not self.output.quiet:
            click.echo("\n".join(lines), err=True)

    def set_up_driver(self) -> Stage:
        """Bring a driver that runs what is asked for, where a GPU is to be used."""
        machine = api.read_machine("", "")
        needless = _find_needless(self.asked.expect, machine.facts.gpus)
        if needless:
            return Stage(_DRIVER, f"Not needed: {needless}.", NEEDLESS)
        made = plan_driver(self.driver, machine)
        works = not judge_driver(made.plan)
        if made.plan.steps and not is_root():
            return self._leave_to_root(made.plan, machine, works=works)
        waiting = find_interrupted() if made.plan.steps and not works else None
        if waiting is not None and waiting.waits_here:
            return _WAITS
        outcome = change_driver(self.driver, made, machine, self.output)
        return _stage_of(outcome, made, works=works)

    def _leave_to_root(self, plan: Plan, machine: Snapshot, *, works: bool) -> Stage:
        """Say which steps root has to take; the next part begins where their driver is known."""
        words = ["envcheck", "install", "driver", "--system"]
        for requirement in self.driver.requirements:
            words += ["--for", requirement]
        if self.driver.containers:
            words += ["--containers", self.driver.containers]
        words += [f"--{name}" for name in sorted(self.driver.consents)]
        line = f"sudo {type_here(*words)}"
        if works:
            return Stage(_DRIVER, f"{plan.driver} Containers need root.", WARNED, left=(line,))
        text = f"{plan.driver} It needs root. Then type the same command again."
        doctor = api.make_doctor("gpu", self.driver.requirements, self.driver.matrix)
        self.coming = foresee_driver(Context(machine.facts, doctor.matrix, doctor.target))
        code = 0 if self.output.dry_run or self.coming else OF_VERDICT[INCOMPATIBLE]
        return Stage(_DRIVER, text, BROKEN, code, (line,))

    def install(self) -> Stage:
        """Bring what is asked for into the environment."""
        name = "Environment"
        if self.stages[0].state in (BROKEN, UNREAD) and not self.coming:
            return Stage(name, "Planned once the driver works.", UNREAD)
        made = change_environment(
            self.asked, self.output, self.driver.matrix, smoke=False, driver=self.coming
        )
        outcome, plan = made.outcome, made.plan
        self.place = place_of(outcome.folder)
        if plan is None:  # what is asked for is there
            return Stage(name, f"{outcome.why}: {fold_home(outcome.folder)}")
        if outcome.outcome in (INSTALLED, PLANNED):
            chosen = ", ".join(each.requirement for each in plan.releases)
            state = SOUND if outcome.outcome == INSTALLED else UNREAD
            return Stage(name, f"{chosen} in {fold_home(outcome.folder)}", state)
        why = outcome.why if plan.is_feasible else describe_plan(plan).headline
        return Stage(name, why, BROKEN, made.code or STEP_FAILED)

    def prove(self) -> Stage:
        """Import what is there, and compute on each device."""
        name = "Proof"
        if self.place is None or self.output.dry_run:
            return Stage(name, "Import the frameworks, and compute on each device.", UNREAD)
        if self.coming:
            return self._prove_on_processor(self.place)
        folder, expect = str(self.place.folder), cast("api.Expectation", self.asked.expect)
        named = self.driver.requirements, self.driver.matrix
        with common.slow_programs():
            found = api.doctor(env=folder, expect=expect, requirements=named[0], matrix=named[1])
        wanted = SmokeRequest(env=folder, expect=expect)
        found, session = compute(found, wanted, *named, quiet=self.output.quiet)
        self.proof = found, session
        code = OF_VERDICT[found.verdict]
        if verdict_of(session) == INCOMPATIBLE:
            code = STEP_FAILED
        return Stage(name, headline_of(session), BROKEN if code else SOUND, code)

    def _prove_on_processor(self, place: Place) -> Stage:
        """Import what is there, and compute on the processor: the GPUs wait for their driver."""
        session = run_here(
            SmokeRequest(env=str(place.folder), expect="cpu"),
            SmokeProgress(quiet=self.output.quiet),
        )
        text = f"On the processor alone, until the driver works: {headline_of(session)}"
        code = STEP_FAILED
        if verdict_of(session) == COMPATIBLE:
            code = OF_VERDICT[INCOMPATIBLE]
        return Stage("Proof", text, BROKEN if code == STEP_FAILED else WARNED, code)

    def save(self) -> Stage:
        """Save the machine that was proven, unless a file of that name is there."""
        name, path = "Snapshot", self.golden
        if self.proof is None or self.place is None:
            return Stage(name, f"Save the machine to {path}.", UNREAD)
        folder = shorten_path(str(self.place.folder))
        saving = type_here("envcheck", "snapshot", "--env", folder, "-o", "now.json")
        compare = (saving, type_here("envcheck", "diff", path, "now.json"))
        if not Path(path).exists():
            common.write_file(path, render_snapshot(self.proof[0].snapshot) + "\n")
            return Stage(name, f"Saved to {path}. To see later what differs:", left=compare)
        saved = time.strftime("%Y%m%dT%H%M%S", time.gmtime(Path(path).stat().st_mtime))
        newest = [each.identity for each in _list_journals(self.place)][-1:]
        if newest and newest[0] > saved:
            text = f"{path} is older than the last change: remove it, and a new one is saved."
            return Stage(name, text, WARNED)
        return Stage(name, f"{path} is kept. To see what differs now:", left=compare)

    def describe(self, *, verbose: bool = False, quiet: bool = False) -> Document:
        """Describe on one page which parts are done, and each command that changed the machine."""
        width = max(len(stage.name) for stage in self.stages)
        blocks = list[Block]()
        for stage in self.stages:
            blocks.append(Line(stage.text, f"{stage.name:<{width}}  ", stage.state))
            blocks += [Command(line) for line in stage.left]
        parts = Section(tuple(blocks))
        done = () if quiet else tuple(_describe_changes(self.place))
        last = self.stages[-1]
        if self.proof is None:
            verdict = UNDETERMINED if last.code == OF_VERDICT[UNDETERMINED] else INCOMPATIBLE
            label, headline = f"{verdict.upper()}  ", last.text
            if self.output.dry_run and not last.code:
                verdict, label = COMPATIBLE, "PLAN  "
                headline = "What is left to do here. Nothing was changed: --dry-run."
            return Document("envcheck onboard", verdict, headline, label, sections=(parts, *done))
        found, session = self.proof
        base = found.document(verbose=verbose, quiet=quiet)
        tested = () if quiet else describe_session(session, verbose=verbose).about
        sections = (parts, *tested, *base.sections, *done)
        return replace(base, title="envcheck onboard", sections=sections)

    def encode(self) -> str:
        """Encode which parts are done as JSON, with the doctor's report and the smoke test."""
        page = self.describe(quiet=True)
        parts = [
            {"name": each.name, "text": each.text, "state": each.state, "commands": each.left}
            for each in self.stages
        ]
        report = None
        if self.proof is not None:
            found, session = self.proof
            report = report_document(found.report, None, smoke_document(session))
        told = {"verdict": page.verdict, "headline": page.headline, "parts": parts}
        keys = schema_keys("envcheck/onboard/1")
        return document_text({**keys, **told, "golden": self.golden, "report": report})


def _find_needless(expect: str, gpus: Fact[tuple[Gpu, ...]]) -> str:
    """Return why no driver is needed; "" where one is."""
    if expect == "cpu":
        return "--expect cpu"
    if expect == "auto" and not gpus.value and not isinstance(gpus, Unknown):
        return "no NVIDIA GPU was found"
    return ""


def _stage_of(outcome: Outcome, made: api.PlanResult, *, works: bool) -> Stage:
    """Say how far the driver is, by what came of its plan."""
    if outcome.outcome == WAITING_FOR_RESTART:
        return _WAITS
    if outcome.outcome == INSTALLED:
        return Stage(_DRIVER, "The driver works.")
    if outcome.outcome in (PLANNED, UNCHANGED):
        return Stage(_DRIVER, made.plan.driver, SOUND if works else UNREAD)
    code = code_of(outcome, made.verdict)
    return Stage(_DRIVER, f"{outcome.why.rstrip('.')}.", BROKEN, code)


def _list_journals(place: Place | None) -> list[Journal]:
    """List what was done to the driver and to the environment, oldest first.

    What was taken back is left out, and what only root may read.
    """
    found = []
    for each in filter(None, (driver_place(), place)):
        with suppress(PermissionError):
            journals = [Journal(each, name) for name in each.identities()]
            written = [item for item in journals if item.lines()]
            # what was taken back counts no longer
            found += [item for item in written if item.place != place or item.is_installed]
    # of two that began within one second the driver's is the older one
    return sorted(found, key=lambda journal: journal.identity.partition("-")[0])


def _describe_changes(place: Place | None) -> Iterator[Section]:
    """Describe each change of this machine: when, the commands, and what takes them back."""
    said = set[str]()
    for journal in _list_journals(place):
        blocks = list[Block]()
        lines = journal.lines()
        ended = {line.get("id") for line in lines if line["event"] == DONE_STEP}
        for line in lines:
            typed = type_here(*line["argv"]) if line["event"] == STEP else ""
            if typed and typed not in said and line["id"] in ended:
                said.add(typed)
                blocks.append(Command(fold_home(typed)))
                if line.get("undo"):
                    blocks.append(Line(fold_home(type_here(*line["undo"])), "    undo: ", "dim"))
        if blocks:
            what = "this machine" if journal.place != place else fold_home(str(place.folder))
            title = f"Done to {what}, {lines[0]['at'][:16].replace('T', ' ')} UTC:"
            yield Section(tuple(blocks), Line(title))


_LIMIT = 1 << 16  # bytes of a configuration
_NOT_IN_FILE = ("config", "agreed", "dry_run", "as_root")  # of each call


def _read_config(context: click.Context, _: click.Parameter, path: str | None) -> None:
    """Let a file state options: what the command line states counts before it.

    Sample: for = ["torch"]
            containers = "docker"
            reboot = true
    """
    if path is None:
        return
    try:
        table = parse_toml(api.read_bytes(path, _LIMIT).decode("utf-8"))
    except ValueError as error:  # no UTF-8 either
        raise UserError(f"{path} is not TOML: {error}") from None
    options = {
        each.opts[-1].lstrip("-"): each
        for each in context.command.params
        if isinstance(each, click.Option) and each.name not in _NOT_IN_FILE
    }
    stated: dict[str, Any] = {}
    for key, value in table.items():
        known = options.get(key)
        if known is None or known.name is None:
            raise UserError(f"{path}: there is no key {key[:60]!r}: give {', '.join(options)}.")
        kind = "true or false" if known.is_flag else "a text"
        fits = isinstance(value, bool) if known.is_flag else isinstance(value, str) and value
        if known.multiple:
            kind = 'an array, such as ["torch"]'
            fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
        if not fits:
            raise UserError(f"{path}: {key} must be {kind}.")
        stated[known.name] = value
    context.default_map = stated


def _read_request(asked: dict[str, Any]) -> tuple[tuple[str, ...], ProjectLines | None]:
    """Read what must work; raises UserError unless --for or --lock says it."""
    requirements, lock = asked.pop("requirements"), asked.pop("lock")
    if bool(requirements) == bool(lock):
        raise UserError("name what must work here: --for torch, --for . or --lock pylock.toml.")
    if lock:
        return (), api.read_lock(lock)
    return api.read_project(requirements)


def _list_frameworks(project: ProjectLines | None) -> Iterator[str]:
    """List what a project's lines ask for that needs a driver."""
    for text, _ in project.lines if project else ():
        with suppress(RequestError):  # the plan says what it cannot read
            read = read_requirement(text)
            if framework_of(read.name):
                yield read.plain


EXAMPLE = "Example: envcheck onboard --for torch --yes --format html -o onboarding.html"


@click.command(epilog=EXAMPLE)
@common.releases("What must work here: a requirement, or the folder of a project. Repeatable.")
@option("--lock FILE", "Or what this pylock.toml pins.")
@option("--env DIR", "The environment [.venv].", "folder")
@option("--python X.Y", "Create it with this Python.")
@common.installer("uv if it is installed")
@common.expectation()
@option("--containers", "Also give these the GPUs.", type=click.Choice(ENGINES), default=None)
@driver_consents("Also")
@option("--golden FILE", "Save the machine here [golden.json].", default="golden.json")
@option(
    "--config FILE", "Read these options from a TOML file, the same for many machines.",
    default=None, callback=_read_config, is_eager=True, expose_value=False,
)  # fmt: skip
@output_options(
    "Show what is left to do, and change nothing.",
    *("text", "json", "markdown", "html"),
    to_file=True,
)
@common.matrix("Plan and judge by this compatibility matrix.")
@common.torch_index
def onboard(
    output: OutputOptions,
    containers: str | None,
    consents: frozenset[str],
    golden: str,
    matrix: str | None,
    folder: str,
    installer: str | None,
    **asked: Any,
) -> int:
    """Bring this machine to a passed smoke test: driver, environment, proof, snapshot.

    Type the same command again after a restart or a crash: it goes on with what is left.

    Where the driver has steps it needs root; without it, the environment is made for the driver
    that root's command brings. Standard output gets one page on what was done.
    """
    requirements, project = _read_request(asked)
    frameworks = (*requirements, *_list_frameworks(project))
    driver = DriverOptions(
        requirements=frameworks, containers=containers or "", system=True, consents=consents,
        matrix=matrix,
    )  # fmt: skip
    request = InstallRequest(
        requirements, expand_home(folder), installer=installer or "", project=project,
        verify="wheels", verify_timeout=common.SECONDS, system=is_root(), **asked,
    )  # fmt: skip
    work = _Onboarding(request, driver, golden, replace(output, is_part=True))
    code = work.run()
    print_answer(output.printing, work.describe, work.encode)
    return code
