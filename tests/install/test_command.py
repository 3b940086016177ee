"""`envcheck install` as it is typed: from the plan to an environment that the doctor judges, with no network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import fastjsonschema
import pytest

from envcheck import api
from envcheck.actions import ReinstallPackages
from envcheck.cli import install as install_session
from envcheck.cli.group import run
from envcheck.install import installation
from envcheck.install.installation import InstallPlan, InstallRequest, plan_installation
from envcheck.install.installers import with_reachable_indexes
from envcheck.install.judgement import PlannedEnvironment, _activated
from envcheck.install.places import place_of
from envcheck.install.transaction import Transaction
from envcheck.model import Environment, MachineError, Outcome, Plan, Step, UserError, replace
from tests.hosts.test_hosts import snapshot_of
from tests.install.wheels import make_environment_with_pip, make_wheel, site_packages, tree_hash
from tests.plan.shown import render_plan_text
from tests.typed import argv

pytestmark = [pytest.mark.needs("posix"), pytest.mark.usefixtures("here")]
ROOT = Path(__file__).parents[2]


def planned(installer: str = "pip", folder: str = "env") -> InstallPlan:
    return plan_for_here(InstallRequest(("jax",), folder, "", installer, "cpu"))


def plan_for_here(asked: InstallRequest) -> InstallPlan:
    return plan_installation(asked, place_of(asked.folder), api.make_doctor(asked.expect))


def make_wheels(folder: Path) -> str:
    """Make the wheels that the plan asks for; return the release."""
    version = planned().plan.releases[0].version
    make_wheel(folder / "wheels", "jaxlib", version)
    make_wheel(folder / "wheels", "jax", version, (f"jaxlib=={version}",))
    return version


def install(*arguments: str) -> int:
    return run(["install", *arguments, "--expect", "cpu"])


def test_from_nothing_to_an_environment_and_back(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    version = make_wheels(here)
    code = install("jax", "--env", "env", "--installer", "uv", "--yes")
    said = capfd.readouterr()
    assert code == 0, said.err
    assert f"PLAN  jax on the CPU: jax=={version}" in said.out
    assert "[1/4] Create an environment" in said.err
    assert "[4/4] Judge the environment." in said.err
    assert (
        f"{here / 'env'} is the new environment. To remove it: envcheck install --rollback --env"
        in said.err
    )
    assert f"To use it, in each shell: . {here / 'env/bin/activate'}" in said.err
    asked = subprocess.run(
        [here / "env/bin/python", "-c", "import jax; print(jax.VERSION)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout.strip() == version
    assert run(["install", "--resume"]) == 0
    assert "is the new environment." in capfd.readouterr().out
    assert run(["install", "--rollback", "--yes"]) == 0
    assert not (here / "env").exists()


def test_what_the_doctor_refuses_is_taken_back(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make_wheels(here)
    monkeypatch.setattr("envcheck.install.judgement._list_missing", lambda *_: ["jax==9"])
    assert install("jax", "--env", "env", "--installer", "uv", "--yes", "-q") == 4
    said = capfd.readouterr().err
    assert "Not installed: the environment does not hold jax==9. " in said
    assert f"{here / 'env'} is not there, as before." in said
    assert not (here / "env").exists()


def test_a_dry_run_prints_the_plan_that_would_run_and_touches_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make_wheels(here)
    before = tree_hash(here)
    made: list[InstallPlan] = []

    def once_more(*_: object, **__: object) -> InstallPlan:
        made.append(planned())
        return made[-1]

    monkeypatch.setattr(install_session, "plan_installation", once_more)
    assert install("jax", "--env", "env", "--dry-run") == 0
    printed = capfd.readouterr().out
    assert printed == render_plan_text(made[0].plan, run_for_you=True)
    assert tree_hash(here) == before
    ran: list[Plan] = []

    def instead(transaction: Transaction, *_: object) -> Outcome:
        ran.append(transaction.plan)
        return transaction.planned

    monkeypatch.setattr(Transaction, "run", instead)
    assert install("jax", "--env", "env", "--yes") == 0
    assert capfd.readouterr().out == printed
    assert ran == [made[1].plan] == [made[0].plan]


def test_nobody_is_asked_where_nobody_is(here: Path) -> None:
    make_wheels(here)
    with pytest.raises(UserError, match="Add --yes"):
        install("jax", "--env", "env", "--installer", "pip")
    assert not (here / "env").exists()


def test_asked_at_a_terminal(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make_wheels(here)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    with pytest.raises(UserError, match=r"nothing was changed\."):
        install("jax", "--env", "env", "--installer", "pip")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["jax", "--env", "no/where/env"], "does not exist: create it"),
        (["jax", "--env", "file"], "is not a folder"),
        (["jax", "--env", "full"], "no Python environment found"),
        (["jax @ https://example.org/x.whl"], "is not a plain requirement"),
        (["./jax.whl"], "is not a requirement such as"),
        (["jax", "--env", "-x"], "give a folder"),
        (["jax", "--python", "3.99"], "is not installed"),
        (["jax", "--installer", "conda"], "conda, mamba and micromamba are not installed"),
        ([], "name what to install"),
        (["jax", "--resume"], "one of them"),
    ],
)
def test_refused_before_anything_starts(
    here: Path, arguments: list[str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheels(here)
    (here / "file").write_text("")
    (here / "full").mkdir()
    (here / "full" / "data").write_text("somebody's")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(here))
    before = tree_hash(here)
    if "3.99" in arguments:
        monkeypatch.setattr(
            install_session, "plan_installation", lambda *_: without_python(planned())
        )
    with pytest.raises(UserError, match=why):
        install(*arguments, "--yes")
    assert tree_hash(here) == before


def without_python(found: InstallPlan) -> InstallPlan:
    first, *others = found.plan.steps
    gone = replace(first, action=replace(first.action, starter=("python3.99",)))
    changed: InstallPlan = replace(found, plan=replace(found.plan, steps=(gone, *others)))
    return changed


# refuted; not known
@pytest.mark.parametrize(("asked", "code"), [("tensorflow==2.0.0", 1), ("jax==0.0.1", 3)])
def test_the_reason_of_a_blocked_plan_is_its_exit_code(
    asked: str, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert install(asked, "--env", "env", "--yes") == code
    assert "NO PLAN" in capfd.readouterr().out


def test_a_second_python_in_one_environment_is_refused(here: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "env"], check=True)
    with pytest.raises(UserError, match=r"has Python 3\.\d+, not 3\.7"):
        install("jax", "--env", "env", "--python", "3.7")


def test_an_environment_without_pip_gets_it_first(here: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "env"], check=True)
    steps = planned().plan.steps
    assert [step.id for step in steps] == ["bring-pip", "install", "verify"]
    assert argv(steps[0]) == ("env/bin/python", "-m", "ensurepip", "--upgrade")


def test_uv_is_taken_where_it_is_here(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envcheck.install.installers.find_uv_program", lambda: "/opt/uv")
    monkeypatch.setenv("PATH", "/nowhere")
    assert argv(planned("").plan.steps[0])[:2] == ("/opt/uv", "venv")
    monkeypatch.setattr("envcheck.install.installers.find_uv_program", lambda: "")
    assert argv(planned("").plan.steps[0])[1:3] == ("-m", "venv")


def test_pip_does_it_too_in_an_environment_that_is_there(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make_wheels(here)
    make_environment_with_pip(here / "env")
    before = tree_hash(here / "env")
    assert install("jax", "--env", "env", "--installer", "pip", "--yes", "-v") == 0
    said = capfd.readouterr().err
    assert "[1/4] Copy the environment." in said
    assert "    Successfully installed jax-" in said
    (path,) = (here / ".envcheck-env").glob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines][:2] == ["begun", "copied"]
    assert lines[0]["requirements"] == ["jax"]
    assert run(["install", "--rollback", "--env", "env", "--yes"]) == 0
    assert tree_hash(here / "env") == before


def document(capfd: pytest.CaptureFixture[str]) -> dict[str, object]:
    """Read the one document on standard output, held against its schema."""
    told = json.loads(capfd.readouterr().out)
    schema = json.loads((ROOT / "envcheck/schemas/install.schema.json").read_text())
    fastjsonschema.compile(schema, use_default=False)(told)
    return dict(told)


def test_json_is_one_document_whatever_happens(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    version = make_wheels(here)
    as_json = ["--env", "env", "--installer", "uv", "--yes", "--format", "json"]
    assert install("tensorflow==2.0.0", *as_json) == 1
    assert document(capfd)["outcome"] == "blocked"
    assert install("jax", *as_json, "--dry-run") == 0
    assert document(capfd)["outcome"] == "planned"
    assert install("jax", *as_json) == 0
    told = document(capfd)
    assert told["outcome"] == "installed"
    assert told["plan"]["releases"][0]["version"] == version  # type: ignore[index]
    assert run(["install", "--resume", "--format", "json"]) == 0
    assert document(capfd)["outcome"] == "installed"
    assert run(["install", "--rollback", "--yes", "--format", "json"]) == 0
    assert document(capfd)["why"] == "asked for"
    (here / "empty").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(here / "empty"))
    assert install("jax", *as_json) == 4
    told = document(capfd)
    assert told["outcome"] == "restored"
    assert "the step install failed" in str(told["why"])


def test_a_link_to_an_environment_is_followed_there_and_back(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make_wheels(here)
    (here / "data").mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "data/real é"], check=True)
    (here / ".venv").symlink_to("data/real é")
    before = tree_hash(here / "data/real é")
    with pytest.raises(UserError, match=r"\.venv was found here, and envcheck did not make it"):
        install("jax", "--installer", "uv", "--yes")
    assert install("jax", "--installer", "uv", "--yes", "--env", ".venv") == 0
    assert f"{here / 'data/real é'} is the new environment." in capfd.readouterr().err
    assert (here / ".venv").is_symlink()
    assert run(["install", "--rollback", "--yes"]) == 0
    assert tree_hash(here / "data/real é") == before


def test_what_was_never_installed_cannot_be_undone(here: Path) -> None:
    with pytest.raises(UserError, match="has never installed into"):
        run(["install", "--rollback", "--env", "env", "--yes"])
    with pytest.raises(UserError, match="envcheck has installed into no environment in"):
        run(["install", "--rollback", "--yes"])


@pytest.mark.parametrize("arguments", [(), ("--env", "env"), ("--format", "json")])
def test_nothing_to_resume_is_no_error(
    here: Path, arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "env").mkdir()
    assert run(["install", "--resume", *arguments]) == 0
    assert "There is nothing to resume: envcheck has never installed into" in capfd.readouterr().out
    with pytest.raises(UserError, match="has never installed into"):
        run(["install", "--resume", "--env", "mistyped"])


def test_a_lost_journal_is_said(here: Path) -> None:
    (here / "env").mkdir()
    (here / "env" / ".envcheck-incomplete").touch()
    with pytest.raises(
        MachineError, match=r"is an interrupted installation .*, and its journal is gone"
    ):
        run(["install", "--resume", "--env", "env"])


def test_what_the_machine_lacks_is_no_error_of_the_command_line(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(MachineError, match=r"the package index 127.0.0.1 does not answer"):
        install("jax", "--env", "env", "--installer", "pip", "--yes")


def test_the_kept_environment_is_removed(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_wheels(here)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "env"], check=True)
    asleep = subprocess.Popen([here / "env/bin/python", "-c", "import time; time.sleep(3600)"])
    try:
        assert install("jax", "--env", "env", "--installer", "uv", "--yes", "-q") == 0
    finally:
        asleep.kill()
        asleep.wait()
    said = capfd.readouterr().err
    assert f"(process {asleep.pid}) run from {here / 'env'}: they may load a mix" in said
    (kept,) = place_of("env").leftovers()
    assert run(["install", "--remove-kept", "--env", "env", "--dry-run"]) == 0
    assert kept.is_dir()
    assert run(["install", "--remove-kept", "--env", "env", "--yes"]) == 0
    assert not kept.exists()
    assert "are free again" in capfd.readouterr().out
    with pytest.raises(UserError, match="no earlier environment is kept"):
        run(["install", "--remove-kept", "--env", "env", "--yes"])
    with pytest.raises(UserError, match="no longer kept"):
        run(["install", "--rollback", "--env", "env", "--yes"])


def test_smoke_decides_with_the_doctor(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make_wheels(here)
    # nothing to compute with
    assert install("jax", "--env", "env", "--installer", "uv", "--yes", "--smoke") == 4
    assert "Not installed: the smoke test: " in capfd.readouterr().err
    assert not (here / "env").exists()


def test_the_doctor_decides(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "env"], check=True)
    plan = planned().plan
    doctor = api.make_doctor("gpu")  # without a framework no GPU does any good
    assert "does not hold jax==" in PlannedEnvironment(here / "env", plan, doctor).judge()
    unpacked = replace(plan, releases=())
    assert (
        PlannedEnvironment(here / "env", unpacked, doctor)
        .judge()
        .startswith("the doctor finds it ")
    )


def test_the_environments_own_libraries_are_on_the_loaders_path_while_it_is_judged(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned().plan
    (here / "env/lib/nvidia/cudnn/lib").mkdir(parents=True)
    made = replace(plan.environments[0], library_folders=("lib/nvidia/*/lib",))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/before")
    with _activated(here / "env", replace(plan, environments=(made,))):
        assert os.environ["LD_LIBRARY_PATH"] == f"{here}/env/lib/nvidia/cudnn/lib:/before"
    assert os.environ["LD_LIBRARY_PATH"] == "/before"


_ELSEWHERE = {  # a file, and whether pip or uv reads it
    "pip.conf": ("pip", "[global]\ntarget = {folder}\n[install]\nno_deps = true\n"),
    "config/pip/pip.conf": ("pip", "[install]\nprefix = {folder}\n"),
    "uv.toml": ("uv", '[pip]\ntarget = "{folder}"\n'),
    "pyproject.toml": ("uv", '[tool.uv.pip]\nprefix = "{folder}"\npython = "/nowhere"\n'),
    "config/uv/uv.toml": ("uv", '[pip]\ntarget = "{folder}"\n'),
}


@pytest.mark.parametrize("name", _ELSEWHERE)
def test_configuration_files_lead_no_installer_elsewhere(
    here: Path, name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make_wheels(here)
    installer, text = _ELSEWHERE[name]
    (here / name).parent.mkdir(parents=True, exist_ok=True)
    (here / name).write_text(text.format(folder=here / "elsewhere"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "config"))
    monkeypatch.delenv("PIP_CONFIG_FILE")
    if name == "pip.conf":  # the one for which a new environment is made with pip, too
        monkeypatch.setenv("PIP_CONFIG_FILE", str(here / name))
    elif installer == "pip":
        make_environment_with_pip(here / "env")
    assert install("jax", "--env", "env", "--installer", installer, "--yes", "-q") == 0, (
        capfd.readouterr().err
    )
    assert (site_packages(here / "env") / "jaxlib").is_dir()
    assert not (here / "elsewhere").exists()


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_the_index_of_a_configuration_file_is_used(
    here: Path, installer: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make_wheels(here)
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_CONFIG_FILE"):
        monkeypatch.delenv(name)
    if installer == "uv":
        (here / "uv.toml").write_text(
            f'no-index = true\n[pip]\nfind-links = ["{here / "wheels"}"]\n'
        )
    else:
        (here / "mine.conf").write_text(
            f"[install]\nno-index = true\nfind-links =\n  {here / 'wheels'}\n"
        )
        monkeypatch.setenv("PIP_CONFIG_FILE", str(here / "mine.conf"))
        make_environment_with_pip(here / "env")
    # it would ask the index
    monkeypatch.setattr("envcheck.install.transaction.objections", lambda _: ())
    assert install("jax", "--env", "env", "--installer", installer, "--yes", "-q") == 0, (
        capfd.readouterr().err
    )
    assert (site_packages(here / "env") / "jaxlib").is_dir()


_TORCH = InstallRequest(("torch==2.6.0",), "env", "3.11", "uv", "cpu")
_OFFICIAL = "https://download.pytorch.org/whl/cpu"


def list_indexes(found: InstallPlan) -> list[str]:
    """Return the indexes of a plan's sets, and those that its commands name."""
    typed = [
        word
        for step in found.plan.steps
        for word in step.action.command()
        if word.startswith(("http", "file"))
    ]
    return [*(item.index for made in found.plan.environments for item in made.sets), *typed]


def test_a_build_that_the_configured_folder_has_comes_from_there(here: Path) -> None:
    make_wheel(here / "wheels", "torch", "2.6.0+cpu")
    found = plan_for_here(_TORCH)
    assert list_indexes(found) == [""]
    assert found.plan.steps[1].action.command()[-1] == "torch==2.6.0+cpu"
    assert found.plan.steps[1].purpose == "Install torch and its dependencies."


@pytest.mark.parametrize("version", ["2.6.0+cpu", "2.5.1+cpu"])
def test_without_uv_pip_says_what_the_configured_folder_has(
    here: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(here / "wheels", "torch", version)
    monkeypatch.setattr("envcheck.install.installers.find_uv_program", lambda: "")
    monkeypatch.setattr(installation, "describe_closed_index", lambda *_: "")
    found = plan_for_here(replace(_TORCH, installer="pip", python=""))
    served = version == "2.6.0+cpu"
    assert list_indexes(found) == ([""] if served else [_OFFICIAL, _OFFICIAL])


def test_each_build_that_comes_from_elsewhere_keeps_its_label(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("envcheck.install.installers.is_served", lambda *_: True)
    actions = [
        ReinstallPackages((f"{name}==2.6.0",), "python", index=_OFFICIAL)
        for name in ("torch", "torchaudio")
    ]
    made = Environment("env", "pip", "3.11", "linux_x86_64")
    plan = Plan(
        "cpu", (), tuple(Step(item.requirements[0], item) for item in actions), environments=(made,)
    )
    found = [argv(step)[-1] for step in with_reachable_indexes(plan).steps]
    assert found == ["torch==2.6.0+cpu", "torchaudio==2.6.0+cpu"]


def test_an_index_that_does_not_answer_gives_way_to_the_default_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = "the package index download.pytorch.org does not answer (refused)"
    monkeypatch.setattr(
        installation, "describe_closed_index", lambda wanted, _: closed if wanted.index else ""
    )
    found = plan_for_here(_TORCH)
    assert list_indexes(found) == [""]
    assert found.plan.steps[1].action.command()[-1] == "torch==2.6.0"
    assert found.plan.notes[-1].startswith(
        "The package index download.pytorch.org does not answer (refused): these"
    )


def test_an_index_that_answers_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "describe_closed_index", lambda *_: "")
    assert list_indexes(plan_for_here(_TORCH)) == [_OFFICIAL, _OFFICIAL]


def test_a_mirror_stands_for_pytorchs_index(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    mirrored = replace(_TORCH, torch_index="https://mirror.example/whl/")
    expected = "https://mirror.example/whl/cpu"
    assert list_indexes(plan_for_here(mirrored)) == [expected, expected]
    run(
        [
            "plan",
            "torch==2.6.0",
            "--python",
            "3.11",
            "--expect",
            "cpu",
            "--torch-index",
            "https://mirror.example/whl",
        ]
    )
    assert f"--index-url {expected} " in capfd.readouterr().out
    assert not list(here.iterdir())
    with pytest.raises(UserError, match="is no address"):
        run(["plan", "torch", "--torch-index", "mirror; rm -rf x"])


def test_the_environment_of_the_project_further_up_is_taken(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / ".git").mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(here / ".venv")], check=True)
    (here / "deep").mkdir()
    monkeypatch.chdir(here / "deep")
    monkeypatch.setenv("HOME", str(here.parent))
    assert install_session._default_folder("") == str(here / ".venv")
    assert install_session._default_folder("conda") == ".conda-env"
    (here / "deep/.venv").mkdir()
    assert install_session._default_folder("") == ".venv"


def test_a_gpu_of_another_vendor_is_refused_as_plan_refuses_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "read_machine", lambda *_: snapshot_of("radeon-beside-torch-cpu"))
    before = tree_hash(here)
    assert run(["install", "torch", "--env", "env", "--yes", "--no-verify"]) == 3
    assert tree_hash(here) == before
    asked = InstallRequest(("torch",), "env", expect="cpu")
    assert plan_for_here(asked).plan.releases
