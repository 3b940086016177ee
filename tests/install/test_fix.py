"""`envcheck fix` as it is typed: the doctor's steps in a copy of a small environment, with no network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import fastjsonschema
import pytest

from envcheck import api
from envcheck.actions import CreateEnvironment, InstallPackages
from envcheck.cli.group import run
from envcheck.diagnosis.doctor import find_changeable_environment
from envcheck.install.fix import FixRequest, make_transaction
from envcheck.model import Step, UserError, replace
from tests.install.wheels import make_environment_with_pip, make_wheel, site_packages, tree_hash

pytestmark = [pytest.mark.needs("posix"), pytest.mark.usefixtures("here")]
ROOT = Path(__file__).parents[2]
VERSION = "0.6.0"
_SYSTEM_PYTHON = str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info[1]}"))


@pytest.fixture
def broken(here: Path) -> Path:
    """Make an environment whose jax asks for a newer demo_one, and does not import with the one that is there."""
    wheels = here / "wheels"
    jaxlib = make_wheel(wheels, "jaxlib", VERSION)
    jax = make_wheel(wheels, "jax", VERSION, (f"jaxlib=={VERSION}", "demo_one>=2.0"))
    make_wheel(wheels, "demo_one", "2.0")
    make_environment_with_pip(
        here / "env", jax, jaxlib, make_wheel(here / "old", "demo_one", "1.0")
    )
    need_new = "import demo_one\nassert demo_one.VERSION == '2.0', 'demo_one is too old'\n"
    rewrite(site_packages(here / "env") / "jax/__init__.py", need_new)
    return here / "env"


def rewrite(module: Path, code: str) -> None:
    """Let an installed module be such from the start: its RECORD lists no other content."""
    module.write_text(code)
    record = module.parents[1] / f"jax-{VERSION}.dist-info/RECORD"
    record.write_text(re.sub(r"jax/__init__.py,.*", "jax/__init__.py,,", record.read_text()))


def fix(*arguments: str) -> int:
    return run(["fix", *arguments, "--expect", "cpu"])


def imports_jax(folder: Path) -> bool:
    asked = subprocess.run(
        [folder / "bin/python", "-c", "import jax"], capture_output=True, check=False
    )
    return asked.returncode == 0


def test_the_doctor_offers_one_line_and_the_steps_with_verbose(
    broken: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(["doctor", "--env", "env", "--expect", "cpu"])
    said = capfd.readouterr().out
    assert "$ envcheck fix --env env --expect cpu" in said
    assert "pip install" not in said
    run(["doctor", "--env", "env", "--expect", "cpu", "-v"])
    said = capfd.readouterr().out
    assert f"$ {broken}/bin/python -m pip install " in said
    assert "envcheck fix" not in said


def test_json_names_the_command_and_the_steps(
    broken: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(["doctor", "--env", "env", "--expect", "cpu", "--format", "json", "--no-snapshot"])
    plan = json.loads(capfd.readouterr().out)["plan"]
    assert plan["command"] == ["envcheck", "fix", "--env", "env", "--expect", "cpu"]
    assert plan["steps"][0]["argv"][1:4] == ["-m", "pip", "install"]
    assert broken.is_dir()


def test_it_takes_the_steps_and_ends_with_the_verdict(
    broken: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert not imports_jax(broken)
    assert fix("--env", "env", "--yes") == 0
    said = capfd.readouterr()
    assert f"FIX  {broken}: dependency-conflict" in said.out
    assert "COMPATIBLE  jax 0.6.0 works on the CPU." in said.out
    assert f"{broken} is the new environment. To go back to the one before:" in said.err
    assert imports_jax(broken)
    assert fix("--env", "env", "--yes") == 0
    assert f"There is nothing to fix in {broken}: jax can be imported." in capfd.readouterr().out
    assert run(["install", "--rollback", "--env", "env", "--yes"]) == 0
    assert not imports_jax(broken)


def test_an_import_that_fails_where_the_doctor_finds_nothing_is_explained(
    broken: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fix("--env", "env", "--yes") == 0
    module = site_packages(broken) / "jax/__init__.py"
    rewrite(module, "raise ImportError('something that nobody knows')\n")
    capfd.readouterr()
    assert fix("--env", "env", "--yes") == 1
    said = capfd.readouterr().out
    assert (
        "INCOMPATIBLE  jax 0.6.0 does not import: ImportError: something that nobody knows." in said
    )


def test_what_a_failing_import_prints_leads_to_its_fix(
    broken: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wheels = broken.parent / "wheels"
    assert fix("--env", "env", "--yes") == 0
    old = make_wheel(wheels, "numpy", "1.26.4")
    pip = [str(broken / "bin/python"), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, make_wheel(broken.parent, "numpy", "2.1.0")], check=True)
    code = "import numpy\nif numpy.VERSION > '2': raise ImportError('numpy.core.multiarray failed to import')\n"
    rewrite(site_packages(broken) / "jax/__init__.py", code)
    capfd.readouterr()
    assert fix("--env", "env", "--yes") == 0
    assert f"FIX  {broken}: numpy-abi" in capfd.readouterr().out
    assert imports_jax(broken)
    assert old.exists()


@pytest.mark.parametrize(
    ("found", "starts"),
    [("/opt/python3.9/bin/python", "/opt/python3.9/bin/python -m venv"), ("", "/opt/uv venv")],
)
def test_a_new_environment_is_made_with_the_python_that_is_found_or_else_by_uv(
    broken: Path, monkeypatch: pytest.MonkeyPatch, found: str, starts: str
) -> None:
    monkeypatch.setattr("envcheck.install.fix.find_python", lambda *_: found)
    monkeypatch.setattr("envcheck.install.installers.find_uv_program", lambda: "/opt/uv")
    doctor = api.make_doctor("cpu")
    diagnosis = doctor.examine("", str(broken))
    create = CreateEnvironment(".venv-3.9", python="3.9")
    installed = InstallPackages(("jax==0.4.30",), create.interpreter())
    steps = (
        Step("one", create, ("python-unsupported",)),
        Step("two", installed, ("python-unsupported",)),
    )
    known = replace(diagnosis, report=replace(diagnosis.report, steps=steps))
    planned = make_transaction(doctor, known, str(broken), FixRequest())
    first, second = (" ".join(step.action.command()) for step in planned.plan.steps)
    assert first.startswith(starts)
    assert second.startswith(
        "/opt/uv pip install" if not found else f"{planned.place.folder}/bin/python -m pip"
    )


def test_a_dry_run_changes_nothing(broken: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = tree_hash(broken.parent)
    assert fix("--env", "env", "--dry-run") == 0
    said = capfd.readouterr().out
    assert "pip install " in said
    assert "Nothing was changed: --dry-run." in said
    assert tree_hash(broken.parent) == before


def test_nobody_is_asked_where_nobody_is(broken: Path) -> None:
    before = tree_hash(broken.parent)
    with pytest.raises(UserError, match="Add --yes"):
        fix("--env", "env")
    assert tree_hash(broken.parent) == before


def test_what_does_not_help_is_taken_back(broken: Path, capfd: pytest.CaptureFixture[str]) -> None:
    module = site_packages(broken) / "jax/__init__.py"
    rewrite(module, "raise ImportError('it is broken in another way')\n")
    assert fix("--env", "env", "--yes") == 4
    said = capfd.readouterr()
    assert "jax 0.6.0 does not import: ImportError: it is broken in another way" in said.err
    assert f"{broken} is the old environment, as it was before." in said.err
    assert "demo-one" in said.out


def test_what_an_installation_without_a_journal_left_is_mended(
    broken: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (broken / ".envcheck-incomplete").write_text("")
    assert fix("--env", "env", "--yes") == 0
    said = capfd.readouterr()
    assert f"FIX  {broken}: dependency-conflict" in said.out
    assert "install-interrupted" not in said.out
    assert imports_jax(broken)
    assert not (broken / ".envcheck-incomplete").exists()


def test_an_installation_without_a_journal_stays_marked_where_no_step_helps(broken: Path) -> None:
    (broken / ".envcheck-incomplete").write_text("")
    (broken.parent / "wheels/demo_one-2.0-py3-none-any.whl").unlink()
    assert fix("--env", "env", "--yes") == 4
    assert (broken / ".envcheck-incomplete").exists()


def test_a_marker_alone_is_taken_away_once_the_doctor_finds_no_fault(
    broken: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fix("--env", "env", "--yes") == 0
    (broken / ".envcheck-incomplete").write_text("")
    capfd.readouterr()
    assert fix("--env", "env", "--dry-run") == 0
    assert (broken / ".envcheck-incomplete").exists()
    assert "nothing to fix" not in capfd.readouterr().out
    shutil.rmtree(broken.parent / ".envcheck-env")
    assert fix("--env", "env", "--yes") == 0
    assert "is marked as complete" in capfd.readouterr().out
    assert not (broken / ".envcheck-incomplete").exists()
    assert imports_jax(broken)


_INTERRUPTED = """
import os, signal, sys
from envcheck.cli.group import run
from envcheck.install.judgement import FixedEnvironment
FixedEnvironment.judge = lambda _: os.kill(os.getpid(), signal.SIGINT)
run(sys.argv[1:])
"""


def test_an_interrupted_fix_leaves_the_old_environment(broken: Path) -> None:
    argv = [sys.executable, "-c", _INTERRUPTED, "fix", "--env", "env", "--expect", "cpu", "--yes"]
    ended = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert ended.returncode != 0
    assert f"{broken} is the old environment, as it was before." in ended.stderr
    assert not imports_jax(broken)
    assert not (broken / ".envcheck-incomplete").exists()


def test_a_step_that_fails_is_taken_back(broken: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (broken.parent / "wheels/demo_one-2.0-py3-none-any.whl").unlink()
    assert fix("--env", "env", "--yes", "--format", "json") == 4
    document = json.loads(capfd.readouterr().out)
    fastjsonschema.compile(json.loads((ROOT / "envcheck/schemas/fix.schema.json").read_text()))(
        document
    )
    assert document["outcome"] == "restored"
    assert document["why"].startswith("the step fix-1 failed: exit status 1")
    assert document["report"]["findings"][0]["id"] == "dependency-conflict"
    assert not imports_jax(broken)


def test_a_project_that_is_checked_is_fixed(
    broken: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("pyproject.toml").write_text('[tool.envcheck]\nrequires = ["jax>=0.5"]\nexpect = "cpu"\n')
    run(["check", "--env", "env"])
    line = next(line for line in capfd.readouterr().out.splitlines() if "$ envcheck fix" in line)
    assert line.split()[1:6] == ["envcheck", "fix", "--env", "env", "--config"]
    assert run([*line.split()[2:], "--yes"]) == 0
    assert imports_jax(broken)


def test_a_python_that_other_programs_use_is_left_alone(here: Path) -> None:
    with pytest.raises(UserError, match="holds a Python that other programs use"):
        run(["fix", "--python", _SYSTEM_PYTHON])
    assert not list(here.iterdir())


def test_another_user_s_environment_is_left_alone(
    broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = api.snapshot(env="env").facts
    assert find_changeable_environment(facts) == (str(broken), "")
    monkeypatch.setattr("os.geteuid", lambda: broken.stat().st_uid + 1)
    folder, reason = find_changeable_environment(facts)
    assert folder == ""
    assert reason.endswith(
        "env cannot be replaced by this user: ask its owner, or name another one with --env"
    )


def test_a_saved_machine_has_no_such_line(broken: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(["snapshot", "--env", "env", "-o", "machine.json"])
    run(["doctor", "--snapshot", "machine.json", "--expect", "cpu"])
    said = capfd.readouterr().out
    assert "envcheck fix" not in said
    assert "-m pip install" in said
    assert broken.is_dir()


def test_uv_is_found_beside_envcheck_where_path_has_none(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("jaxlib", "jax"):
        make_wheel(here / "wheels", name, VERSION)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(here / "env")], check=True)
    for wheel in (here / "wheels").iterdir():
        subprocess.run(
            [sys.executable, "-m", "zipfile", "-e", wheel, site_packages(here / "env")], check=True
        )
    for info in site_packages(here / "env").glob("*.dist-info"):
        (info / "INSTALLER").write_text("uv\n")
    (site_packages(here / "env") / "jax/__init__.py").unlink()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert fix("--env", "env", "--yes") == 0, capfd.readouterr().err
    assert imports_jax(here / "env")
