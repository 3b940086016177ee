"""Describe a plan, and write it as a script, a file that builds it, or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from envcheck.actions import (
    HEADING,
    STOP,
    ActivateEnvironment,
    action_line,
    changes_environment,
    conda_prefix,
    launcher_path,
    move_environment,
    pick_options,
    script_line,
    shell_line,
    typed_words,
)
from envcheck.frameworks import framework
from envcheck.model import (
    COMPATIBLE,
    CONDA,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    SYSTEM,
    WARNING,
    Action,
    Clash,
    Environment,
    Finding,
    Outcome,
    Plan,
    PlannedRelease,
    Rejected,
    Report,
    Snapshot,
    Step,
    encode,
    inert,
    replace,
)
from envcheck.model.versions import name_of
from envcheck.plan.data import Images, images_for
from envcheck.plan.requests import DRIVER, join_words
from envcheck.plan.uv_project import only_environment, render_uv
from envcheck.render.document import Block, Command, Document, Line, Section, Shown, type_command
from envcheck.render.document import Step as ShownStep
from envcheck.render.json_contracts import (
    Json,
    document_text,
    finding_document,
    report_document,
    schema_keys,
    step_document,
)
from envcheck.render.report import list_rules, show_finding
from envcheck.render.text import render_text
from envcheck.rules.catalogue import catalogue
from envcheck.rules.gpu_architecture import is_reported_to_fail

_SHOWN = 6  # reasons to reject releases before the rest is counted; -v shows all
_ALIKE = 4  # releases that are rejected for the same reason


FILES = ("script", "requirements", "dockerfile", "environment-yml", "uv")


def render_file(plan: Plan, form: str, *, verbose: bool = False, cpu: Plan | None = None) -> str:
    """Write a plan as one of FILES; without a plan, a file holds only comments that explain why.

    `cpu` is a plan of the same releases for the CPU, for the format that holds both.

    Raises ValueError for a plan that the format cannot hold.
    """
    if plan.driver:
        raise ValueError("the steps of a driver are an administrator's: ask for text or json.")
    if not plan.releases:
        text = render_text(describe_plan(plan, verbose=verbose))
        # comments alone: somebody may run the file, and a machine's words may stand in the text
        lines = [f"# {line}".rstrip() + "\n" for line in text.splitlines()]
        return "".join([*lines, "exit 1\n" if form == "script" else ""])
    if form == "dockerfile":
        return render_dockerfile(plan, images_for(only_environment(plan)))
    if form == "script":
        return render_script(plan)
    if form == "requirements":
        return render_requirements(plan)
    if form == "uv":
        return render_uv(plan, cpu)
    return render_environment_file(plan)


def describe_plan(
    plan: Plan, verdict: str = "", *, verbose: bool = False, run_for_you: bool = False
) -> Document:
    """Describe a plan; `verbose` adds every rejected release, warning and undo.

    `run_for_you`: nobody types the commands, and of a file that one writes the name is told unless
    `verbose`.
    """
    wanted = join_words(plan.requirements)
    is_plan = plan.is_feasible
    sections = [
        *_warn_of_failures(plan),
        *_describe_releases(plan, verbose=verbose),
    ]
    if not is_plan:
        sections += _describe_blocked(plan, verbose=verbose)
    else:
        notes = tuple(_describe_notes(plan))
        steps = tuple(_describe_steps(plan, is_traced=verbose, is_typed=verbose or not run_for_you))
        if not run_for_you:
            steps += tuple(_describe_use(plan, made) for made in plan.environments)
        sections += [Section(notes, is_apart=False), Section(steps, is_apart=False)]
    found = (
        *plan.blocked_by,
        *(item for made in plan.releases for item in (*made.doubts, *made.warnings)),
    )
    return Document(
        "envcheck plan",
        verdict or (COMPATIBLE if is_plan else INCOMPATIBLE),
        _say_what_is_planned(plan, wanted) if is_plan else _say_why_none(plan, wanted),
        "PLAN  " if is_plan else "NO PLAN  ",
        COMPATIBLE if is_plan else ERROR,
        below=(Line(plan.verified),) if is_plan and plan.verified else (),
        findings=tuple(_show_briefly(item, plan.system) for item in plan.blocked_by),
        sections=tuple(sections),
        rules=list_rules(item.id for item in found),
        goal=plan.goal,
    )


def _say_what_is_planned(plan: Plan, wanted: str) -> str:
    if plan.driver:
        return plan.driver
    chosen = ", ".join(
        text for item in plan.releases for text in (item.requirement, *item.companions)
    )
    if any(item.needs_gpu for item in plan.releases):
        where = "without a GPU"
    else:
        where = f"on the {plan.goal.upper()}"
    return f"{wanted} {where}: {chosen}"


def _show_briefly(finding: Finding, system: str) -> Shown:
    return replace(show_finding(finding, system), is_brief=True, here=())


def _warn_of_failures(plan: Plan) -> Iterator[Section]:
    """Say above everything that others saw a release fail."""
    for item in (item for release in plan.releases for item in release.warnings):
        if is_reported_to_fail(item):
            shown = show_finding(item, plan.system)
            fix = tuple(Line(way.summary) for way in shown.fix[:1])
            title = Line(shown.message, "WARNING  ", WARNING)
            yield Section((*fix, replace(shown, is_said=True)), title, is_apart=False)


def is_windows(plan: Plan) -> bool:
    """Return whether a plan's commands are typed on Windows."""
    return plan.system == "windows"


def _describe_clashes(plan: Plan, *, verbose: bool) -> Iterator[Line]:
    """Name the pins that clash, the first of each two releases unless all are asked for."""
    pairs = {
        (item.first.partition(": ")[0], item.second.partition(": ")[0]): item
        for item in reversed(plan.clashes)
    }
    if verbose:
        shown = plan.clashes
    else:
        shown = tuple(item for item in plan.clashes if item in pairs.values())
    for item in shown:
        yield Line(f"Clash: {item.first} and {item.second}{_in_one_folder(item)}.")
    if len(shown) < len(plan.clashes):
        yield Line(f"and {len(plan.clashes) - len(shown)} more: -v shows them", "  ")
    if shown:
        yield Line(f"No one environment can hold them: {len(plan.environments)} are planned.")


def _in_one_folder(clash: Clash) -> str:
    """Say how wheels of two names clash."""
    names = {re.split(r"[^\w.-]", pin.partition(": ")[2])[0] for pin in (clash.first, clash.second)}
    return ", which lie in one folder" if len(names) > 1 else ""


def _say_why_none(plan: Plan, wanted: str) -> str:
    """Say what there is no plan for, and whose fault that is."""
    if plan.requirements == (DRIVER,):
        return plan.rejected[0].why
    where = f"on the {plan.goal.upper()}"
    if plan.blocked_by:
        return f"{wanted} {where}: the machine itself is in the way."
    if _is_unknown(plan):
        return f"No release of {wanted} is known to work here."
    if len(plan.requirements) > 1:
        return f"{wanted} {where}: not each has a release that works here."
    return f"No known release of {wanted} works here {where}."


def _is_unknown(plan: Plan) -> bool:
    return {item.finding for item in plan.rejected} == {"release-unknown"}


def _describe_releases(plan: Plan, *, verbose: bool) -> Iterator[Section]:
    for number, release in enumerate(plan.releases):
        backend = _apple_backend(plan, release)
        built = f"{backend} build" if backend else f"{release.build} build"
        if release.cuda:
            built += f", CUDA {release.cuda}"
        if release.cudnn:
            built += f", cuDNN {release.cudnn}"
        title = Line(f"{release.requirement}  ({built}) in {release.environment}")
        blocks = tuple(_describe_release(plan, release, verbose=verbose))
        yield Section(blocks, title, is_apart=not number)
    yield Section(tuple(_describe_clashes(plan, verbose=verbose)), is_apart=False)


def _describe_release(plan: Plan, release: PlannedRelease, *, verbose: bool) -> Iterator[Block]:
    if release.constraints:
        yield Line(f"with: {', '.join(release.constraints)}")
    yield from _describe_rejected(release.rejected, "newer ones", verbose=verbose)
    for item in (
        *release.doubts,
        *(each for each in release.warnings if not is_reported_to_fail(each)),
    ):
        yield _show_briefly(item, plan.system)
    if verbose:
        for name in dict.fromkeys(each.url_or_artifact for each in release.citations):
            yield Line(f"known: [{name}]")


def _apple_backend(plan: Plan, release: PlannedRelease) -> str:
    """Name the framework's own way to the GPU of an Apple machine: MPS; "" elsewhere."""
    is_apple = any(
        made.platform == "macosx_arm64"
        for made in plan.environments
        if made.folder == release.environment
    )
    return framework(release.framework).apple_backend if is_apple else ""


def _describe_rejected(
    rejected: tuple[Rejected, ...], kind: str, *, verbose: bool, label: str = ""
) -> Iterator[Line]:
    """List what was passed over, once a reason; of many reasons one a finding, then the newest."""
    by_reason: dict[tuple[str, str], list[Rejected]] = {}
    for item in rejected:
        name, version = _split_release(item)
        by_reason.setdefault((name, _why_not(item).replace(version, "")), []).append(item)
    groups = list(by_reason.values())
    places = list(range(len(groups)))
    if not verbose and len(groups) > _SHOWN + 1:
        firsts = {groups[place][0].finding: place for place in reversed(places)}
        places = sorted([*dict.fromkeys([*sorted(firsts.values()), *places])][:_SHOWN])
    for place in places:
        first, *others = groups[place]
        nor = _name_others(others, verbose=verbose)
        yield Line(f"not {first.requirement}{nor}: {_why_not(first)}", label)
    hidden = len(rejected) - sum(len(groups[place]) for place in places)
    if hidden:
        yield Line(f"and {hidden} more {kind}: -v shows why not", label)


def _name_others(others: list[Rejected], *, verbose: bool) -> str:
    versions = [_split_release(item)[1] for item in others]
    shown = versions if verbose else versions[:_ALIKE]
    if len(shown) < len(versions):
        shown.append(f"{len(versions) - len(shown)} more")
    return f" (nor {', '.join(shown)})" if shown else ""


def _split_release(item: Rejected) -> tuple[str, str]:
    """Return the name and the version of a rejected release."""
    name, _, version = item.requirement.partition(" ")[0].partition("==")
    return name.partition("[")[0], version


def _why_not(item: Rejected) -> str:
    """Tell the reason without the name of the release, which stands before it."""
    name, version = _split_release(item)
    return re.sub(
        rf"^(?:{re.escape(item.requirement)}|{name} {re.escape(version)}):? ", "", item.why
    )


def _describe_blocked(plan: Plan, *, verbose: bool) -> Iterator[Section]:
    if plan.requirements == (DRIVER,):
        return
    rejected = tuple(_describe_rejected(plan.rejected, "releases", verbose=verbose, label="  "))
    yield Section(
        (*rejected, *_describe_notes(plan)),
        is_apart=bool(rejected) and not (plan.blocked_by or plan.releases),
    )
    if plan.changes:
        blocks: list[Block] = []
        for change in plan.changes:
            blocks += [
                Line(f"{change.what}: {change.requirement}"),
                Command(shell_line(change.argv, plan.system)),
            ]
        yield Section(tuple(blocks), Line("What would make it possible, the least effort first:"))
    elif not _is_unknown(plan):
        yield Section(
            (
                Line(
                    "No single change of Python, driver, C library or build would make it possible."
                ),
            )
        )


def _describe_notes(plan: Plan) -> Iterator[Line]:
    return (Line(note, "note: ", NOTE) for note in plan.notes)


def _describe_steps(plan: Plan, *, is_traced: bool, is_typed: bool) -> Iterator[ShownStep]:
    for number, step in enumerate(plan.steps, 1):
        action = step.action
        traces = [*_trace(plan, step, is_checked=is_traced)]
        about = ""
        if step.scope == SYSTEM:
            about = f" [{step.scope}: as an administrator]"
        if step.resolves:
            about += f" (resolves {', '.join(step.resolves)})"
        command = type_command(action, plan.system, is_told=False)
        if action.brief and not is_typed:
            command, traces = Command(""), [Line(action.brief, "  "), *traces]
        title = f"{number}. {_write_sentence(action.purpose_on(plan.system))}"
        shown = command if command.line else None
        yield ShownStep(title, shown, about, tuple(traces))


def _write_sentence(purpose: str) -> str:
    """Write the purpose of a command as the title of a step."""
    return f"{purpose[:1].upper()}{purpose[1:]}" + (
        "" if purpose.endswith((".", "!", "?")) else "."
    )


def _describe_use(plan: Plan, made: Environment) -> ShownStep:
    which = "it" if len(plan.environments) == 1 else made.folder
    activate = ActivateEnvironment(made.folder, made.installer)
    return ShownStep(
        f"To use {which}, in each shell:", type_command(activate, plan.system, is_told=False)
    )


def _trace(plan: Plan, step: Step, *, is_checked: bool) -> Iterator[Line]:
    """Say how a step is seen to have worked and how it is taken back, or why not."""
    check, undo = step.checked(plan.system), step.action.undo(plan.system)
    kinds = []
    if is_checked:
        argv = () if check.argv == step.action.command(plan.system) else check.argv
        kinds.append((argv, check.reason, "check", "not checked"))
    if is_checked or step.scope == SYSTEM:
        kinds.append((undo.argv, undo.reason, "undo", "not undone"))
    for argv, reason, way, lack in kinds:
        if argv:
            yield Line(shell_line(argv, plan.system), f"#    {way}: ")
        if reason:
            yield Line(reason, f"#    {lack}: ")


def paths_hint(made: Environment) -> list[str]:
    """Say, as a comment, what a file cannot bring.

    The loader paths that an environment's activation sets.
    """
    folders = ", ".join(made.library_folders)
    said = (
        "# Its activation must put these folders on"
        f" LD_LIBRARY_PATH (--format script does): {folders}"
    )
    return [said] if folders else []


_HOME = "/home/app"
_CHECKER_PYTHON = "/opt/checker"  # its own Python, if the environment's is too old for envcheck
_CACHE = "--mount=type=cache,target=/home/app/.cache,uid=10001 "
_INSTALL_CHECKER = 'exec "$0" -m pip install "${ENVCHECK:?name its wheel with --build-arg}"'


def render_dockerfile(plan: Plan, images: Images) -> str:
    """Render a Dockerfile upon these images.

    Raise ValueError for a plan that an image of Linux cannot hold.
    """
    made = only_environment(plan)
    if not made.platform.startswith("linux"):
        raise ValueError(
            f"an image runs Linux, and this plan is for {made.platform}:"
            " add --platform linux_x86_64."
        )
    if any(wanted.settings for wanted in made.sets):
        raise ValueError(
            "this plan compiles CUDA code, and the image has no nvcc: build upon one that has it."
        )
    if any(catalogue()[name].layer == "toolkit" for step in plan.steps for name in step.resolves):
        raise ValueError(
            "this plan uses the machine's CUDA, which an image does not see: try --installer conda."
        )
    folder = f"{_HOME}/{_name_folder(made)}"
    lines = [
        "# syntax=docker/dockerfile:1",
        f"# {inert(' and '.join(plan.requirements))}",
        *_describe_host(plan),
        "# The base is named by its tag, which moves: pin it by digest where builds must repeat.",
        f"FROM {images.base}",
        *([f"COPY --from={images.uv} /uv /usr/local/bin/uv"] if images.uv else []),
    ]
    lines += [
        _run(("useradd", "--create-home", "--uid", "10001", "app")),
        "USER app",
        f"WORKDIR {_HOME}",
    ]
    for step in plan.steps:
        if step.scope != SYSTEM and changes_environment(step.action):
            lines += [f"# {inert(step.purpose)}", *_copy_constraints(step.action)]
            lines.append(_write_step(made, step.action, folder))
    return (
        "\n".join(
            [*lines, *_set_paths(made, folder, plan.goal), *_gate(plan, made, images, folder)]
        )
        + "\n"
    )


def _copy_constraints(action: Action) -> list[str]:
    """Copy the constraints files that a command names: -c c.txt."""
    options = pick_options(getattr(action, "options", ()), "-c")
    return [f"COPY --chown=app {name} {name}" for name in options[1::2]]


def _name_folder(made: Environment) -> str:
    """Name the environment's folder in the image.

    The last part of what was asked for, in plain letters.
    """
    last = re.split(r"[/\\]", made.folder.rstrip("/\\"))[-1]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", last).strip("-") or "environment"


def _describe_host(plan: Plan) -> list[str]:
    """Say what the host needs, as comments."""
    lines = []
    for step in plan.steps:
        if step.scope == SYSTEM:
            line = action_line(step.action)
            lines += [f"# On the host: {inert(step.purpose)}", *([f"#   {line}"] if line else [])]
    return lines


def _write_step(made: Environment, action: Action, folder: str) -> str:
    there = move_environment(action, made.folder, folder).in_image()
    return _run(typed_words(there), _CACHE if there.downloads else "")


def _set_paths(made: Environment, folder: str, goal: str) -> list[str]:
    """Set what an activation would: an image has no activation."""
    prefix = "CONDA_PREFIX" if made.installer == CONDA else "VIRTUAL_ENV"
    lines = [f"ENV PATH={folder}/bin:$PATH {prefix}={folder}"]
    if goal == "gpu":
        lines += ["ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility"]
    if made.library_folders:
        lines.append("ENTRYPOINT " + json.dumps(_activate_words(folder)))
    return lines


def _activate_words(folder: str) -> list[str]:
    """Write the words that start a program with the loader paths of the environment."""
    return ["sh", launcher_path(folder)]


def _gate(plan: Plan, made: Environment, images: Images, folder: str) -> list[str]:
    checker = f"{_HOME}/.envcheck"
    python = "/opt/conda/bin/python" if made.installer == CONDA else "python"
    lines = [
        (
            "# No public index has envcheck: give the URL of its wheel, or its name on your own"
            " index, with"
        ),
        "# --build-arg ENVCHECK=...",
    ]
    if images.checker:
        lines.append(f"COPY --from={images.checker} /usr/local {_CHECKER_PYTHON}")
        python = f"{_CHECKER_PYTHON}/bin/python3"
    check = (f"{checker}/bin/envcheck", "check", "--config", "pyproject.toml", "--env", folder)
    return [
        *lines,
        "ARG ENVCHECK",
        _run((python, "-m", "venv", checker)),
        _run(("sh", "-c", _INSTALL_CHECKER, f"{checker}/bin/python"), _CACHE),
        "# The build fails if the image lacks what the project's [tool.envcheck] table requires.",
        "COPY --chown=app pyproject.toml ./",
        *_state_machine(plan),
        _run((*(_activate_words(folder) if made.library_folders else ()), *check)),
        "# Replace it by your program.",
        f"CMD {json.dumps([f'{folder}/bin/python'])}",
    ]


def _state_machine(plan: Plan) -> list[str]:
    """Tell the gate of the machine that is planned for: no build sees a driver or a GPU."""
    stated = [
        f"{name}={value}" for name, value in plan.machine.items() if re.fullmatch(r"[\d.,]+", value)
    ]
    if not stated:
        return []
    return [
        "# The machine that this is planned for: a build sees neither its driver nor its GPUs.",
        *(f"ARG {item}" for item in stated),
    ]


def _run(argv: tuple[str, ...], mount: str = "") -> str:
    """Write a RUN line in its JSON form, which no shell reads."""
    return f"RUN {mount}{json.dumps(argv)}"


def render_environment_file(plan: Plan) -> str:
    """Render environment.yml, exact where the plan was verified.

    Every text is written as a JSON string, which YAML reads as it stands.
    """
    made = only_environment(plan)
    lines = [f"# {inert(' and '.join(plan.requirements))}, {made.platform}", *_write_hints(made)]
    if plan.verified:
        lines += [f"# {inert(plan.verified)}"]
    name = made.folder.replace("\\", "/").rstrip("/").rpartition("/")[2].lstrip(".")
    lines += [f"name: {json.dumps(name or 'envcheck')}", "channels:"]
    channels = made.channels or ("conda-forge",)
    closed = () if "defaults" in channels else ("nodefaults",)
    lines += [f"  - {json.dumps(name)}" for name in (*channels, *closed)]
    lines += ["dependencies:"]
    lines += [
        f"  - {json.dumps(spec)}"
        for spec in made.solved or made.packages or (f"python={made.python}", "pip")
    ]
    if made.sets:
        lines += ["  - pip:", *(f"      - {json.dumps(line)}" for line in _list_lines(made))]
    return "\n".join(lines) + "\n"


def _write_hints(made: Environment) -> list[str]:
    settings = "".join(f"{name}={value} " for name, value in made.variables.items())
    prefix = conda_prefix(made.folder, "windows" if made.platform.startswith("win") else "")
    create = shell_line(("conda", "env", "create", "-p", prefix, "-f", "environment.yml"))
    return [f"# {settings}{create}", *paths_hint(made)]


def render_requirements(plan: Plan) -> str:
    """Render the requirements; exact and with hashes where the plan was verified.

    ValueError: not one file.
    """
    made = only_environment(plan)
    if not made.sets:
        raise ValueError("conda brings this plan's frameworks: ask for --format environment-yml.")
    lines = [f"# {inert(' and '.join(plan.requirements))}, Python {made.python}, {made.platform}"]
    if plan.verified:
        lines += [f"# {inert(plan.verified)}"]
    if made.packages:
        lines += [f"# conda brings, beside what stands here: {inert(' '.join(made.packages))}"]
    return "\n".join([*lines, *paths_hint(made), *_list_lines(made)]) + "\n"


def _list_lines(made: Environment) -> list[str]:
    """List the lines of requirements.txt; ValueError for sets that one file must not mix."""
    if len(made.sets) > 1:
        raise ValueError(
            "this plan installs in two steps, which one file must not mix: ask for --format script."
        )
    wanted = made.sets[0]
    index = [f"--index-url {wanted.index}"] if wanted.index else []
    exceptions = [f"--no-binary {name}" for name in wanted.source_only]
    return [*index, "--only-binary :all:", *exceptions, *(wanted.pins or wanted.requirements)]


_SAVE = (
    "# For PowerShell: save it as setup.ps1, then type:"
    " powershell -ExecutionPolicy Bypass -File setup.ps1"
)

_STOPPED = "Stopped: a step failed, and the steps after it did not run."
_SAY = f"""trap 'test "$?" -eq 0 || echo "{_STOPPED}" >&2' EXIT"""


def render_script(plan: Plan) -> str:
    """Render a plan as a script that stops at the first failure.

    System steps stand in it as comments.
    """
    wanted = f"# {inert(' and '.join(plan.requirements))} on the {plan.goal.upper()}: "
    wanted += ", ".join(item.requirement for item in plan.releases)
    if is_windows(plan):
        lines = [_SAVE, wanted, *HEADING]
    else:
        lines = ["#!/bin/sh", "set -eu", _SAY, wanted]
    for step in plan.steps:
        lines += ["", f"# {inert(step.purpose)}", *_write_command(plan, step)]
    text = "\n".join(lines) + "\n"
    if is_windows(plan):
        return text.encode("ascii", "replace").decode("ascii")
    return text


def _write_command(plan: Plan, step: Step) -> list[str]:
    line = script_line(step.action, plan.system)
    if not line:
        return ["# (by hand)"]
    if step.scope == SYSTEM:
        taken_back = step.action.undo(plan.system).argv
        if taken_back:
            undo = [f"# takes it back: {shell_line(taken_back, plan.system)}"]
        else:
            undo = []
        return [*(f"# as an administrator: {part}" for part in line.splitlines()), *undo]
    return [line, STOP] if is_windows(plan) else [line]


SCHEMA = "envcheck/plan/1"


def plan_document(plan: Plan, verdict: str) -> Json:
    """Return a plan's JSON document, schema envcheck/plan/1."""
    return {
        **schema_keys(SCHEMA),
        "verdict": verdict,
        **encode(replace(plan, releases=(), steps=(), blocked_by=())),
        "releases": [_release_document(item, plan.system) for item in plan.releases],
        "steps": [step_document(step, plan.system) for step in plan.steps],
        "blocked_by": [finding_document(item, plan.system) for item in plan.blocked_by],
    }


def _release_document(release: PlannedRelease, system: str) -> Json:
    told = {"warnings": release.warnings, "doubts": release.doubts}
    findings = {
        name: [finding_document(item, system) for item in found] for name, found in told.items()
    }
    return {**encode(replace(release, warnings=(), doubts=())), **findings}


def render_plan_json(plan: Plan, verdict: str) -> str:
    """Render a plan as one JSON document."""
    return document_text(plan_document(plan, verdict))


INSTALL_SCHEMA = "envcheck/install/1"


def render_install_json(result: Outcome, plan: Json | None) -> str:
    """Render a result with the plan that ran (schema envcheck/plan/1; null for what needs none)."""
    told = {**schema_keys(INSTALL_SCHEMA), **encode(result), "plan": plan}
    return document_text(told)


def describe_fix(plan: Plan, remaining: tuple[Step, ...], *, verbose: bool = False) -> Document:
    """Describe the steps that fix an environment, and those that a person takes."""
    whole = Line(
        "What is there is whole: the environment is"
        " marked as complete, and nothing else is changed."
    )
    steps = tuple(_describe_steps(plan, is_traced=verbose, is_typed=verbose))
    sections = [Section(steps, is_apart=False) if steps else Section((whole,))]
    removed = _list_removed(plan)
    if removed:
        sections.append(Section((Line(f"Removed for good: {', '.join(removed)}."),)))
    commands = []
    for step in remaining:
        command = type_command(step.action, plan.system)
        if command.line:
            scope = " [as an administrator]" if step.scope == SYSTEM else ""
            purpose = f"{_write_sentence(command.purpose)}{scope}"
            commands.append(replace(command, purpose=purpose))
    if commands:
        sections.append(Section(tuple(commands), Line("Not run, for you to type:")))
    headline = f"{plan.environments[0].folder}: {', '.join(plan.resolves)}"
    end = Section((Line(""),), is_apart=False)
    return Document(
        "envcheck fix", INCOMPATIBLE, headline, "FIX  ", "bold", sections=(*sections, end)
    )


def _list_removed(plan: Plan) -> list[str]:
    """List the distributions that the steps remove and do not install again."""
    removed: dict[str, None] = {}
    for action in (step.action for step in plan.steps):
        removed.update(dict.fromkeys(action.removed))
        for text in getattr(action, "requirements", ()):
            removed.pop(name_of(text), None)
    return list(removed)


FIX_SCHEMA = "envcheck/fix/1"


def render_fix_json(
    result: Outcome,
    steps: tuple[Step, ...],
    remaining: tuple[Step, ...],
    report: Report,
    snapshot: Snapshot,
) -> str:
    """Render a fix: its steps, those left to a person, and the doctor's report then.

    Its schema is envcheck/report/1.
    """
    system = report.system
    told = {
        **schema_keys(FIX_SCHEMA),
        **encode(replace(result, machine=())),
        "steps": [step_document(step, system) for step in steps],
        "remaining": [step_document(step, system) for step in remaining],
        "report": report_document(report, snapshot),
    }
    del told["machine"]
    return document_text(told)
