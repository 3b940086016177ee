"""A plan in every format: as kept, fit for its reader, and harmless whatever stands in it."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import fastjsonschema
import pytest
import yaml

import envcheck
from envcheck.actions import (
    AskPerson,
    CreateEnvironment,
    RunCommand,
    Show,
    WriteFile,
    powershell_line,
    script_line,
)
from envcheck.cli.group import run
from envcheck.model import SYSTEM, Environment, Plan, RequirementSet, Step, replace
from envcheck.plan.build import build_plan
from envcheck.plan.requests import read_requests
from envcheck.render.plan import (
    render_environment_file,
    render_plan_json,
    render_requirements,
    render_script,
)
from envcheck.rules.described_machine import Description, planned_facts
from tests.hosts.test_hosts import snapshot_of
from tests.plan.goldens import FILES, PLANS, golden, text_of
from tests.plan.machines import A100, machine, matrix, planned
from tests.plan.shown import render_plan_text
from tests.typed import argv, env, lasting, words

SCHEMA = Path(envcheck.__file__).parent / "schemas" / "plan.schema.json"


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize("name", PLANS)
def test_formats_are_as_kept(name: str, form: str) -> None:
    kept = golden(name, form).read_text(encoding="utf-8")
    assert text_of(PLANS[name], form) == kept, "run: python -m tests.plan.goldens"


@pytest.mark.parametrize("name", PLANS)
def test_the_document_fits_its_schema(name: str) -> None:
    validate = fastjsonschema.compile(json.loads(SCHEMA.read_text(encoding="utf-8")))
    document = json.loads(render_plan_json(PLANS[name], "compatible"))
    validate(document)
    system = PLANS[name].system
    assert [step["argv"] for step in document["steps"]] == [
        list(argv(step, system)) for step in PLANS[name].steps
    ]


@pytest.mark.parametrize("name", [name for name in PLANS if name not in ("windows", "blocked")])
def test_a_shell_reads_the_commands_back(name: str) -> None:
    script = render_script(PLANS[name])
    assert (
        subprocess.run(["sh", "-n"], input=script, text=True, timeout=10, check=False).returncode
        == 0
    )
    expected = [step for step in PLANS[name].steps if argv(step) and step.scope != "system"]
    for written in [
        script_line(step.action) for step in expected if isinstance(step.action, WriteFile)
    ]:
        assert script.count(written) == 1  # tests/plan/test_activation.py has shells run them
        script = script.replace(written, "")
    lines = [
        line for line in script.splitlines() if line and not line.startswith(("#", "set ", "trap "))
    ]
    others = [step for step in expected if not isinstance(step.action, WriteFile)]
    assert [shlex.split(line) for line in lines] == [list(words(step)) for step in others]


@pytest.mark.parametrize("shell", ["sh", pytest.param("zsh", marks=pytest.mark.needs("zsh"))])
def test_a_script_stops_at_the_first_failure_and_says_so(tmp_path: Path, shell: str) -> None:
    first = Step("a", Show(("true",), "Do nothing."))
    failing_one = Step("b", RunCommand(("sh", "-c", "exit 3"), "Fail."))
    last = Step("c", RunCommand(("touch", "reached"), "Touch it."))
    plan = replace(PLANS["torch-of-its-index"], steps=(first, failing_one, last))
    for failing, told in ((plan, "Stopped: "), (replace(plan, steps=(first,)), "")):
        done = subprocess.run(
            [shell],
            input=render_script(failing),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr[:9], done.stdout) == (3 if told else 0, told, "")
    assert not (tmp_path / "reached").exists()


def test_conda_is_told_the_drivers_cuda() -> None:
    (create, *_) = PLANS["conda-builds"].steps
    assert env(create) == {"CONDA_OVERRIDE_CUDA": "12.4"}
    assert "pytorch=2.5.1=cuda*" in argv(create)
    assert "--override-channels" in argv(create)


def test_powershell_takes_nothing_for_code() -> None:
    assert powershell_line(("py", "-3.10", "-m", "venv", ".venv")) == "py -3.10 -m venv .venv"
    hostile = (
        "a b\\python.exe",
        "x'; Remove-Item -Recurse C:\\",
        "$(whoami)",
        "`n",
        "\u2019; calc",
        "a;b",
        "",
    )
    assert powershell_line(hostile) == (
        "& 'a b\\python.exe' '\"x''; Remove-Item -Recurse C:\\\\\"' '$(whoami)' '`n' "
        "('\"' + [char]0x2019 + '; calc\"') 'a;b' '\"\"'"
    )
    assert powershell_line(("x", 'say "a b"', "C:\\my dir\\", "100%", "^&", "\xe9\U0001f600")) == (
        r"""x '"say \"a b\""' '"C:\my dir\\"' '100%' '^&' ('' + [char]0x00e9 + [char]0xd83d + [char]0xde00)"""
    )
    assert (
        powershell_line(("\xe9 x\\python.exe", "-V"))
        == "& ('' + [char]0x00e9 + ' x\\python.exe') -V"
    )
    assert (
        powershell_line(("conda",), {"CONDA_OVERRIDE_CUDA": "12'4"})
        == "$env:CONDA_OVERRIDE_CUDA = '12''4'; conda"
    )


def test_texts_of_a_data_file_cannot_leave_their_line() -> None:
    step = Step("x", Show(("echo", "a\nrm -rf ~"), "purpose\nrm -rf ~"))
    made = Environment(".venv", "pip", "3.11", "linux_x86_64", (RequirementSet(("torch==2.0",)),))
    plan = Plan(
        "cpu",
        PLANS["windows"].releases,
        (step,),
        requirements=("torch\nevil",),
        environments=(made,),
    )
    for text in (render_script(plan), render_requirements(plan)):
        assert not [line for line in text.splitlines() if line.startswith(("rm", "evil"))]


def test_no_reader_of_the_document_meets_what_a_machine_wrote() -> None:
    name = "\ud800\x9b[31m\u202e"
    plan = replace(PLANS["windows"], notes=(name,))
    text = render_plan_json(plan, "compatible")
    assert json.loads(text)["notes"] == [name]
    assert not set(name) & set(text.encode("utf-8").decode("utf-8")) - set("[31m")


def test_one_file_does_not_mix_indexes_or_environments() -> None:
    assert text_of(
        planned("tensorflow<2.22", "torch<2.16", on=machine()), "requirements"
    ).startswith("refused: ")
    assert text_of(
        planned("tensorflow<2.22", "torch<2.16", on=machine()), "environment-yml"
    ).startswith("refused: ")
    two = planned("tensorflow==2.20.*", "torch==2.13.0", on=A100)
    assert "two environments" in text_of(two, "dockerfile")


def test_pins_stand_in_the_requirements_with_their_hashes() -> None:
    pins = ("numpy==2.1.0 --hash=sha256:aa --hash=sha256:bb",)
    made = Environment(
        ".venv", "pip", "3.11", "linux_x86_64", (RequirementSet(("numpy",), pins=pins),)
    )
    plan = Plan("cpu", (), (), environments=(made,), verified="Verified: 1 set.")
    assert pins[0] in render_requirements(plan).splitlines()
    environment = yaml.safe_load(render_environment_file(plan))
    assert environment["dependencies"] == [
        "python=3.11",
        "pip",
        {"pip": ["--only-binary :all:", pins[0]]},
    ]
    solved = replace(
        made, packages=("python=3.11", "pip"), solved=("pip=24.0=0", "python=3.11.7=0_cpython")
    )
    environment = yaml.safe_load(render_environment_file(replace(plan, environments=(solved,))))
    assert environment["dependencies"][:2] == list(solved.solved)


def test_a_script_tells_what_only_a_person_can_do() -> None:
    facts = planned_facts(
        snapshot_of("rtx5090-with-driver-560").facts, Description(), matrix(), expects_gpu=True
    )
    plan = build_plan(facts, matrix(), read_requests(("torch<2.14",), matrix()))
    by_hand = Step("x", AskPerson("Do it yourself.", SYSTEM))
    lines = render_script(replace(plan, steps=(by_hand, *plan.steps))).splitlines()
    assert lines[lines.index("# Do it yourself.") + 1] == "# (by hand)"
    assert "# as an administrator: sudo apt-get update" in lines
    assert not [line for line in lines if line.startswith("sudo")]


def test_steps_of_the_machine_say_how_they_are_seen_and_taken_back() -> None:
    facts = planned_facts(
        snapshot_of("no-driver").facts, Description(), matrix(), expects_gpu=False
    )
    plan = build_plan(facts, matrix(), read_requests(("torch<2.14",), matrix()))
    shown = render_plan_text(plan).splitlines()
    update = shown.index("$ sudo apt-get update")
    assert shown[update + 1].startswith("#    not undone: ")
    assert "#    not undone: a restart is not taken back" in shown
    assert "#    check: nvidia-smi" not in shown
    assert "#    check: nvidia-smi" in render_plan_text(plan, verbose=True).splitlines()
    library = next(
        step for step in plan.steps if step.scope == "environment" and step.id == "install"
    )
    assert f"#    not undone: {lasting(library)}" not in shown
    assert (
        f"#    not undone: {lasting(library)}" in render_plan_text(plan, verbose=True).splitlines()
    )


def test_another_way_than_the_steps_of_the_machine_is_a_note() -> None:
    facts = planned_facts(
        snapshot_of("updated-driver-not-reloaded").facts, Description(), matrix(), expects_gpu=False
    )
    plan = build_plan(facts, matrix(), read_requests(("torch<2.14",), matrix()))
    assert [argv(step)[-1] for step in plan.steps if step.scope == "system"] == ["reboot"]
    (note,) = (
        item
        for item in plan.notes
        if item.startswith("In place of the steps for driver-library-mismatch: ")
    )
    assert note.endswith("$ sudo modprobe nvidia")


def test_what_takes_a_step_back_is_written_for_the_same_shell() -> None:
    plan = PLANS["windows"]
    (create, *others) = plan.steps
    assert isinstance(create.action, CreateEnvironment)
    moved = replace(create, action=replace(create.action, folder="a b"))
    shown = render_plan_text(replace(plan, steps=(moved, *others)), verbose=True)
    assert '#    undo: cmd /c rmdir /s /q "a b"' in shown


@pytest.mark.parametrize("form", ["script", "requirements", "dockerfile", "environment-yml"])
def test_where_there_is_no_plan_a_file_holds_comments_alone(form: str) -> None:
    (hostile, *_) = PLANS["blocked"].rejected
    plan = replace(
        PLANS["blocked"], rejected=(replace(hostile, why="$(touch x)\u2028`touch y`\nRUN touch z"),)
    )
    *lines, last = text_of(plan, form).splitlines()
    assert [line for line in lines if not line.startswith("#")] == []
    assert last == "exit 1" if form == "script" else last.startswith("#")


def test_why_a_file_holds_no_plan_is_told_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "tensorflow==2.15.*", "--platform", "linux_x86_64", "--python", "3.13"]
    assert run([*asked, "--format", "script"]) == 1
    written = capsys.readouterr()
    assert written.err == written.out.partition("\n")[0] + "\n"
    assert run(asked) == 1
    assert capsys.readouterr().err == ""
