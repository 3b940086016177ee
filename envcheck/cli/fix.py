"""`envcheck fix`: take the steps of the doctor's report in a copy of the environment, and keep it if it is better."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from envcheck import api
from envcheck.actions import CreateEnvironment, environment_python
from envcheck.cli import common
from envcheck.cli.check import warn_of_expired
from envcheck.cli.installation import (
    InstallProgress,
    OutputOptions,
    check_preflight,
    confirm,
    expand_home,
    find_broken_requirement,
    find_substitutes,
    find_uv_for_pip,
    installer_of,
    output_options,
    run_job,
    settle_earlier,
    with_reachable_indexes,
    without_own_marker,
)
from envcheck.diagnosis import diagnose, with_steps
from envcheck.diagnosis.repair import FixTarget, describe_environment, fit_steps, new_environment, remaining_steps
from envcheck.explain.judge import judge_log
from envcheck.explain.scan import scan
from envcheck.explain.signatures import load_signatures
from envcheck.host.prerequisites import find_python
from envcheck.host.process import run_program
from envcheck.install.journal import MARKER, Place, place_of, unsettled
from envcheck.install.run import Job, step_variables
from envcheck.model import (
    COMPATIBLE,
    CONDA,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    PIP,
    UV,
    Absent,
    Finding,
    Known,
    Plan,
    Report,
    Snapshot,
    dataclass,
    inert,
    major_minor,
    replace,
)
from envcheck.render.plan import FixResult, Result, describe_fix, render_fix_json
from envcheck.render.report import describe_report
from envcheck.render.text import print_document
from envcheck.rules import Context, Target
from envcheck.rules.dependencies import broken_pins
from envcheck.smoke.session import UNEXPLAINED

_INTERRUPTED = "install-interrupted"  # the finding that goes with the marker of an installation
_ROUNDS = 3  # a cause that is gone may uncover the next one
_IMPORT_SECONDS = 900.0  # a first import compiles and reads gigabytes
# The working directory is no part of the environment: a file in it would be imported in a framework's place.
_IMPORT = "import sys; sys.path[:] = [each for each in sys.path if each]; import {}"


@dataclass(frozen=True)
class FixRequest:
    """Which environment to fix, and what must work in it."""

    python: str = ""
    env: str = ""
    requirements: tuple[str, ...] = ()
    expect: str = "auto"
    config: str | None = None
    matrix_file: str | None = None
    torch_index: str = ""  # a mirror of PyTorch's own index


@dataclass(frozen=True)
class Diagnosis:
    """An environment as it was read, and the report on it."""

    snapshot: Snapshot
    context: Context
    report: Report


def read_diagnosis(asked: FixRequest, *, is_unfinished: bool = False) -> Diagnosis:
    """Read the environment and judge it, as `doctor` does, or with a configuration as `check` does.

    `is_unfinished`: ignore the marker of an installation that is not complete.
    """
    inspected = api.inspected_options(asked.python, asked.env)
    snapshot = common.live_snapshot(asked.python, asked.env)
    if is_unfinished:
        snapshot = replace(snapshot, facts=without_own_marker(snapshot.facts))
    if asked.config:
        gate = api.read_gate(asked.config, asked.matrix_file, required=True)
        warn_of_expired(gate.expired(), gate.path)
        context = Context(snapshot.facts, gate.matrix, Target(gate.config.expect, gate.config.requires))
        return Diagnosis(snapshot, context, gate.judge(snapshot.facts, inspected, os.path.lexists))
    matrix = api.load_matrix(asked.matrix_file)
    context = Context(snapshot.facts, matrix, Target(asked.expect, asked.requirements))
    return Diagnosis(snapshot, context, diagnose(context, inspected=inspected, exists=os.path.lexists))


@dataclass(frozen=True)
class Fix:
    """The steps that run, where, and what was wrong before."""

    place: Place
    plan: Plan
    before: Diagnosis
    asked: FixRequest  # reads the environment that the steps leave


def plan_fix(diagnosis: Diagnosis, folder: str, asked: FixRequest, *, completes: bool = False) -> Fix | None:
    """Plan the steps for an environment, or for the new one that replaces it; None where no step changes one.

    `completes`: the marker of an interrupted installation is the only error. The end of a fix removes it, so this
    returns a fix even where there are no steps.
    """
    created, python = new_environment(diagnosis.report), diagnosis.context.facts.python
    place = place_of(created.folder if created else folder)
    installer = created.installer if created else installer_of(place.folder)
    lacks_pip = created is None and installer == PIP and isinstance(python.pip_version, Absent)
    starter, by_uv = _find_starter(created) if created else ("", "")
    target = FixTarget(
        str(place.folder),
        created.folder if created else python.prefix.value or folder,
        "" if created else diagnosis.context.python_program,
        diagnosis.context.platform,
        installer,
        diagnosis.report.system,
        uv=by_uv or (find_uv_for_pip() if lacks_pip else ""),
        lacks_pip=lacks_pip,
        programs=find_substitutes(CONDA if installer == CONDA else UV),
        is_consistent=not any(broken_pins(diagnosis.context)),
        starter=starter,
    )
    steps = fit_steps(diagnosis.report, target)
    if not (steps or completes):
        return None
    minor = created.python if created else major_minor(python.version.value or "")
    resolved = [_INTERRUPTED] if completes else []
    if steps:
        resolved += [name for step in diagnosis.report.steps for name in step.resolves]
    resolves = tuple(dict.fromkeys(resolved))
    environment = describe_environment(target, minor)
    plan = Plan(diagnosis.report.goal, (), steps, resolves, environments=(environment,), system=diagnosis.report.system)
    plan = with_reachable_indexes(plan, asked.torch_index)
    return Fix(place, plan, diagnosis, replace(asked, python="", env=str(place.folder)))


def _find_starter(created: CreateEnvironment) -> tuple[str, str]:
    """Find the Python of a new environment, or else the uv that downloads it; "" for what is not needed."""
    if created.installer != PIP or created.starter:
        return "", ""
    found = find_python(created.python, os.environ)
    return found, "" if found else find_uv_for_pip()


def list_framework_names(context: Context) -> list[str]:
    """List the installed frameworks, each once."""
    return list(dict.fromkeys(build.framework for build in context.facts.python.frameworks.value or ()))


def list_failing_imports(context: Context, folder: Path) -> dict[str, str]:
    """Import each installed framework in an environment; return what those that fail print."""
    python = environment_python(str(folder), installer_of(folder), windows=context.os == "windows")
    failing = {}
    for name in list_framework_names(context):
        argv = (python, "-B", "-c", _IMPORT.format(name))  # -B: a dry run writes nothing
        ended = run_program(argv, _IMPORT_SECONDS, step_variables(os.environ))
        if not isinstance(ended, Known):
            failing[name] = getattr(ended, "detail", "") or "its Python does not start"
        elif ended.value.returncode != 0:
            printed = ended.value.stderr.strip() or ended.value.stdout.strip()
            failing[name] = printed or f"exit status {ended.value.returncode} and no output"
    return failing


def _last_line(text: str) -> str:
    return text.rpartition("\n")[2]


def explain_imports(diagnosis: Diagnosis, failing: dict[str, str]) -> Diagnosis:
    """Add the causes of failing imports, by what they print, to a report in which the doctor finds nothing wrong."""
    context, before = diagnosis.context, diagnosis.report
    texts = ((f"import {name}", [text.encode()]) for name, text in failing.items())
    events = scan(texts, load_signatures()).events
    explained = judge_log(events, context.matrix, context.facts, Target(context.goal))
    errors = tuple(f"{name} does not import: {_last_line(text)}" for name, text in failing.items())
    findings = explained.findings if explained.verdict == INCOMPATIBLE else ()
    findings = findings or tuple(Finding(UNEXPLAINED, INCOMPATIBLE, ERROR, text, primary=True) for text in errors)
    changed = {"verdict": INCOMPATIBLE, "headline": f"{errors[0]}.", "findings": (*findings, *before.findings)}
    return replace(diagnosis, report=with_steps(replace(before, **changed)))


def judge_fixed(fix: Fix, failing_before: dict[str, str]) -> str:
    """Return "" if the environment is better than before; else what is wrong with it."""
    now = read_diagnosis(fix.asked, is_unfinished=True)
    broken = find_broken_requirement(fix.before.context.facts, now.context) if _is_same_place(fix) else ""
    if broken:
        return f"it would break an installed package: {broken}"
    errors, errors_before = _list_errors(now.report), _list_errors(fix.before.report)
    failing = list_failing_imports(now.context, fix.place.folder)
    for name, line in failing.items():
        if name not in failing_before:
            return f"{name} no longer imports: {_last_line(line)}"
        if not errors:
            return f"{name} still does not import: {_last_line(line)}"
    new = [item for key, item in errors.items() if key not in errors_before]
    if new and not failing_before:
        return f"the doctor finds {new[0].id}: {new[0].message}"
    return _describe_remaining(fix, now.report)


def _is_same_place(fix: Fix) -> bool:
    return new_environment(fix.before.report) is None


def _describe_remaining(fix: Fix, report: Report) -> str:
    """Describe the first finding that the steps should resolve if all of those are still there; else return ""."""
    before = {key: item for key, item in _list_findings(fix.before.report).items() if item.id in fix.plan.resolves}
    wanted = {key: item for key, item in before.items() if item.severity == ERROR} or before
    remaining = _list_findings(report)
    first = next(iter(wanted.values()), None)
    if first is None or not all(key in remaining for key in wanted):
        return ""
    return f"{first.id} is still there: {first.message}"


def _list_findings(report: Report) -> dict[tuple[str, str], Finding]:
    real = (item for item in report.findings if item.severity != NOTE and item.verdict == INCOMPATIBLE)
    return {(item.id, item.message): item for item in real}


def _list_errors(report: Report) -> dict[tuple[str, str], Finding]:
    return {key: item for key, item in _list_findings(report).items() if item.severity == ERROR}


def run_fix(asked: FixRequest, output: OutputOptions) -> int:
    """Fix an environment cause by cause, and print the doctor's verdict on the result."""
    done: list[tuple[tuple[str, ...], ...]] = []
    result = Result("unchanged", "")
    diagnosis, fix = _plan_next(asked, output)
    while fix is not None and len(done) < _ROUNDS:
        commands = tuple(step.action.command(fix.plan.system) for step in fix.plan.steps)
        if commands in done:
            break
        result = _run_one(fix, output)
        done.append(commands)
        if result.outcome != "fixed":
            break
        asked = fix.asked
        diagnosis, fix = _plan_next(asked, output, is_imported=True)
    if result.outcome == "unchanged":
        result = replace(result, folder=api.find_changeable_environment(diagnosis.context.facts)[0])
    return _report_end(result, diagnosis, fix, output)


def _plan_next(asked: FixRequest, output: OutputOptions, *, is_imported: bool = False) -> tuple[Diagnosis, Fix | None]:
    """Judge the environment and plan its steps; if the doctor finds nothing, import the frameworks for real."""
    diagnosis = read_diagnosis(asked)
    folder, reason = api.find_changeable_environment(diagnosis.context.facts)
    if not folder:
        raise common.UserError(f"nothing was changed: {reason}.")
    place = place_of(folder)
    if settle_earlier(place, output):
        diagnosis = read_diagnosis(asked)
    # An installation without a journal cannot be undone: the steps repair what it left, and complete it.
    is_abandoned = _is_abandoned(place)
    known = read_diagnosis(asked, is_unfinished=True) if is_abandoned else diagnosis
    if known.report.verdict == COMPATIBLE and not is_imported:
        failing = list_failing_imports(known.context, place.folder)
        if failing:
            diagnosis = known = explain_imports(known, failing)
    is_whole = known.report.verdict == COMPATIBLE
    return diagnosis, plan_fix(known, folder, asked, completes=is_abandoned and is_whole)


def _is_abandoned(place: Place) -> bool:
    """Tell whether an interrupted installation has lost its journal."""
    return (place.folder / MARKER).exists() and not unsettled(place)


def _run_one(fix: Fix, output: OutputOptions) -> Result:
    """Show the steps, ask, and run them; return what came of it."""
    if output.form == "text" or not (output.agreed or output.dry_run):
        stream = sys.stderr if output.form == "json" else sys.stdout
        shown = describe_fix(fix.plan, remaining_steps(fix.before.report), verbose=output.verbose)
        print_document(shown, color=common.Printing().wants_color(stream), stream=stream)
    facts = fix.before.context.facts if _is_same_place(fix) else None
    check_preflight(fix.plan, fix.place, facts, output, mends=True)
    if output.dry_run:
        return Result("planned", str(fix.place.folder))
    confirm(f"Fix {fix.place.folder}?", output)
    return _execute(fix, output)


def _execute(fix: Fix, output: OutputOptions) -> Result:
    place, steps = fix.place, fix.plan.steps
    total = len(steps) + 1 + place.is_taken
    progress = InstallProgress(total, verbose=output.verbose, quiet=output.quiet, what="fixed")
    failing = list_failing_imports(fix.before.context, place.folder) if _is_same_place(fix) else {}
    made = fix.plan.environments[0]
    variables = step_variables(os.environ)
    if made.installer == CONDA:  # its commands change the active environment, and ask
        variables |= {"CONDA_PREFIX": str(place.folder), "CONDA_ALWAYS_YES": "1", "MAMBA_ALWAYS_YES": "1"}
    is_marked = made.installer != CONDA or place.is_taken
    job = Job(steps, fix.plan.resolves, variables, lambda: judge_fixed(fix, failing), is_marked, fix.plan.system)
    is_done = run_job(place, job, progress)
    if is_done is None:
        return progress.result
    result: Result = replace(progress.result, outcome="fixed" if is_done else "restored")
    return result


def _report_end(result: Result, diagnosis: Diagnosis, fix: Fix | None, output: OutputOptions) -> int:
    """Print the verdict on the environment as it is now; return the exit code."""
    report = diagnosis.report
    if output.form == "json":
        steps = fix.plan.steps if fix and result.outcome in ("planned", "restored", "unsettled") else ()
        click.echo(render_fix_json(FixResult(result, steps, remaining_steps(report), report), diagnosis.snapshot))
    elif result.outcome == "planned":
        click.echo("Nothing was changed: --dry-run.")
    else:
        if result.outcome == "unchanged" and report.verdict != COMPATIBLE:
            click.echo(f"No step changes {inert(result.folder)}: what is left is for you to do.")
        elif result.outcome == "unchanged":
            names = list_framework_names(diagnosis.context)
            imported = f": {' and '.join(names)} can be imported" if names else ""
            click.echo(f"There is nothing to fix in {inert(result.folder)}{imported}.")
        color = common.Printing().color
        shown = describe_report(report, diagnosis.snapshot, verbose=output.verbose, quiet=output.quiet)
        print_document(shown, color=color)
    if result.outcome in ("restored", "unsettled"):
        return common.STEP_FAILED
    return 0 if result.outcome == "planned" else common.OF_VERDICT[report.verdict]


EXAMPLE = "Example: envcheck fix --env .venv --dry-run"


@click.command(epilog=EXAMPLE)
@common.inspected_python
@click.option("--for", "requirements", multiple=True, metavar="REQ", help="This release must work too.")
@common.expectation()
@click.option("--config", metavar="FILE", help="Fix what `envcheck check` finds with this [tool.envcheck] table.")
@output_options("Print the steps that would run, and change nothing.")
@common.matrix("Judge by this compatibility matrix.")
@common.torch_index
def fix(
    python: str,
    env: str,
    requirements: tuple[str, ...],
    expect: str,
    config: str | None,
    output: OutputOptions,
    matrix_file: str | None,
    torch_index: str,
) -> int:
    """Fix what `envcheck doctor` finds in an environment, and verify it; if that fails, restore the old environment.

    The steps run in a copy. Steps on the system are printed for you to run.
    """
    asked = FixRequest(python, expand_home(env), requirements, expect, config, matrix_file, torch_index)
    return run_fix(asked, output)
