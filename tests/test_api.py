"""The Python API: the same answers as the commands, as values; importing it costs nothing until it is used."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

import envcheck
from envcheck.cli.group import run
from envcheck.render.json_contracts import render_snapshot
from tests.api_example import advise
from tests.hosts.test_hosts import snapshot_of
from tests.smoke.standin import standin_python

LOG = "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory\n"
FUNCTIONS = (
    "check",
    "diff",
    "doctor",
    "explain",
    "fix",
    "gpus",
    "load_snapshot",
    "matrix",
    "plan",
    "require",
    "rule",
    "smoke",
    "snapshot",
)


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("machine.json").write_text(render_snapshot(snapshot_of("wsl-healthy")), encoding="utf-8")
    Path("log.txt").write_text(LOG, encoding="utf-8")
    Path("pyproject.toml").write_text(
        '[tool.envcheck]\nrequires = ["torch>=2"]\n', encoding="utf-8"
    )
    Path("Dockerfile").write_text(
        "FROM python:3.11\nRUN pip install torch==2.4.0\n", encoding="utf-8"
    )
    return "machine.json"


# Arguments of the command -> the same question to the API.
QUESTIONS: dict[str, Any] = {
    "doctor --snapshot machine.json --for torch": lambda: envcheck.doctor(
        snapshot="machine.json", requirements="torch"
    ),
    "check --snapshot machine.json": lambda: envcheck.check(snapshot="machine.json"),
    "check --dockerfile Dockerfile": lambda: envcheck.check(file="Dockerfile"),
    "check --dockerfile Dockerfile --driver 300 --gpu L4": lambda: envcheck.check(
        file="Dockerfile", driver="300", gpu="L4"
    ),
    "plan vllm>=0.30 --platform linux_x86_64 --python 3.12 --driver 570 --gpu L4": lambda: (
        envcheck.plan("vllm>=0.30", platform="linux_x86_64", python="3.12", driver="570", gpu="L4")
    ),
    "matrix show vllm==0.33.0": lambda: envcheck.matrix("vllm==0.33.0"),
    "explain log.txt --snapshot machine.json": lambda: envcheck.explain(
        files=["log.txt"], snapshot="machine.json"
    ),
    "plan torch --snapshot machine.json": lambda: envcheck.plan(
        "torch", snapshot=Path("machine.json")
    ),
    "plan torch --platform linux_x86_64 --python 3.2": lambda: envcheck.plan(
        "torch", platform="linux_x86_64", python="3.2"
    ),
    "matrix show torch==2.4.0": lambda: envcheck.matrix("torch==2.4.0"),
    "matrix show cudnn==9.10": lambda: envcheck.matrix("cudnn==9.10"),
    "matrix query --framework jax --python 3.11": lambda: envcheck.matrix(
        framework="jax", python="3.11"
    ),
    "rule numpy-abi": lambda: envcheck.rule("numpy-abi"),
    "diff machine.json machine.json": lambda: envcheck.diff("machine.json", "machine.json"),
}


@pytest.mark.parametrize("command", QUESTIONS)
def test_the_answer_is_that_of_the_command(
    command: str, saved: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result: envcheck.Result = QUESTIONS[command]()
    code = run([*command.split(), "--format", "json"])
    assert json.loads(capsys.readouterr().out) == result.to_dict()
    assert {"compatible": 0, "incompatible": 1, "undetermined": 3}[result.verdict] == code
    assert result.ok == (code == 0)
    run(command.split())
    assert capsys.readouterr().out == str(result)
    assert "&lt;" in result._repr_html_() or "<" not in str(result)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.verdict = "compatible"  # type: ignore[misc]


def test_the_example_of_the_documentation_runs(saved: str) -> None:
    verdict, plan, same, cause, *_ = advise(LOG, saved)
    assert (verdict, plan, same, cause) == ("compatible", "compatible", "True", "cudnn-missing")


def test_packages_on_top_of_a_framework_are_asked_for_as_frameworks_are() -> None:
    """The examples of the page of the API hold."""
    plan = envcheck.plan(
        "vllm>=0.30", driver="570", gpu="L4", python="3.12", platform="linux_x86_64"
    )
    assert plan.verdict == "incompatible"
    assert any("vllm==0.19" in change.requirement for change in plan.plan.changes)
    rows = envcheck.matrix("torch==2.8.0").to_dict()["rows"]
    assert {"vllm==0.11.0", "torchvision==0.23.0"} <= {
        name for row in rows for name in row["companions"]
    }
    found = envcheck.explain(
        "ImportError: x/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEa"
    )
    assert found.cause is not None
    assert "built for torch 2.3 to 2.7" in found.cause.message


def test_a_log_may_be_bytes_of_any_encoding() -> None:
    found = envcheck.explain(b"\xff\xfe\x00 " + LOG.encode())
    assert (found.cause.id if found.cause else "") == "cudnn-missing"
    assert found.line is not None
    assert envcheck.explain("").verdict == "undetermined"


REFUSED: dict[str, Any] = {
    "--env nowhere: no Python environment": lambda: envcheck.doctor(env="nowhere"),
    "--env 'a.x00b': no file has such a name": lambda: envcheck.doctor(env="a\0b"),
    "--python and --env exclude each other": lambda: envcheck.snapshot(
        python="python3", env=".venv"
    ),
    "--snapshot and --env exclude each other": lambda: envcheck.doctor(
        env=".venv", snapshot="machine.json"
    ),
    "--expect 'tpu': give auto, gpu or cpu": lambda: envcheck.doctor(expect="tpu"),  # type: ignore[arg-type]
    "no finding has the id nonsense": lambda: envcheck.doctor(only=["nonsense"]),
    "'x @ https://e' names a URL": lambda: envcheck.doctor(requirements="x @ https://e"),
    "cannot read gone.json": lambda: envcheck.load_snapshot("gone.json"),
    "log.txt is not JSON": lambda: envcheck.diff("log.txt", "machine.json"),
    "gone.txt does not exist": lambda: envcheck.explain(files=["gone.txt"]),
    "--here and --snapshot exclude each other": lambda: envcheck.explain(
        "x", snapshot="machine.json", here=True
    ),
    "'--index-url=x' is not a requirement such as": lambda: envcheck.plan("--index-url=x"),
    "--installer 'poetry': give pip, uv or conda": lambda: envcheck.plan(
        "torch",
        installer="poetry",  # type: ignore[arg-type]
    ),
    "--torch-index 'x' is no address": lambda: envcheck.plan(
        "torch", platform="linux_x86_64", torch_index="x"
    ),
    "name at least one condition": envcheck.matrix,
    "--platform 'beos': give one of": lambda: envcheck.matrix(platform="beos"),
    "exclude each other: ask two questions": lambda: envcheck.matrix("torch", python="3.11"),
    "are about a file: name it": lambda: envcheck.check(driver="570"),
    "--driver 'x': give a driver release": lambda: envcheck.check(file="Dockerfile", driver="x"),
    "other.toml": lambda: envcheck.check("other.toml"),
    r"no finding has the id 'numpy-ab'\. Did you mean numpy-abi\?": lambda: envcheck.rule(
        "numpy-ab"
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_cannot_be_answered_is_one_sentence(sentence: str, saved: str) -> None:
    with pytest.raises(envcheck.UserError, match=sentence) as caught:
        REFUSED[sentence]()
    assert "\n" not in str(caught.value)


def test_a_notebook_shows_the_page_or_without_jinja2_the_text(
    saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = envcheck.doctor(snapshot=saved)
    page = result._repr_html_()
    assert page.startswith("<style>.envcheck-report {")
    assert "<iframe" not in page
    assert "<html" not in page
    assert "prefers-color-scheme" not in page  # the notebook's theme may be another
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert result._repr_html_().startswith("<pre>")


def test_importing_the_package_imports_nothing_of_it() -> None:
    code = "import sys, envcheck; print(*sorted(name for name in sys.modules if name.startswith('envcheck')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["envcheck"]


def test_a_function_keeps_its_name_when_the_subpackage_is_imported() -> None:
    code = "import envcheck.plan.build, envcheck.matrix, envcheck; print(envcheck.plan.__name__, envcheck.matrix.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["plan", "matrix"]


@pytest.mark.parametrize("name", envcheck.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    assert (getattr(envcheck, name).__doc__ or "").endswith((".", ".\n    "))
    assert (name in FUNCTIONS) == (name.islower())


def test_no_other_name_is_public() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'solve'"):
        envcheck.solve  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.needs("posix")
def test_a_fix_is_dry_unless_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    venv.create(tmp_path / ".venv", symlinks=True)
    site = next(tmp_path.glob(".venv/lib/python3*/site-packages"))
    info = site / "torch-2.8.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.8.0\n", "utf-8")
    (info / "RECORD").write_text("torch/__init__.py,,\n", "utf-8")
    before = sorted(map(str, tmp_path.rglob("*")))
    found = envcheck.fix(env=".venv")
    assert (found.outcome.outcome, found.verdict) == ("planned", "incompatible")
    assert found.changes
    run(["fix", "--env", ".venv", "--dry-run", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert [step["id"] for step in said["steps"]] == [step.id for step in found.changes]
    assert sorted(map(str, tmp_path.rglob("*"))) == before


def test_gpus_are_listed_as_the_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    found = envcheck.gpus(timeout=5)
    run(["gpus", "--json"])
    said, listed = json.loads(capsys.readouterr().out), found.to_dict()
    assert (said["verdict"], said["gpus"]) == (listed["verdict"], listed["gpus"])
    assert found.verdict == listed["verdict"]


@pytest.mark.needs("linux")
def test_smoke_computes_as_the_command_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STANDIN_TORCH", "")
    passed = envcheck.smoke(python=standin_python(), frameworks="torch", expect="cpu")
    run(
        ["smoke", "--python", standin_python(), "--framework", "torch", "--expect", "cpu", "--json"]
    )
    said = json.loads(capsys.readouterr().out)
    assert passed.ok
    assert passed.to_dict()["verdict"] == said["verdict"]
    ran = [(each["device"], each["outcome"]) for each in passed.to_dict()["runs"]]
    assert ran == [(each["device"], each["outcome"]) for each in said["runs"]]


@pytest.mark.needs("linux")
def test_a_failed_smoke_test_has_a_cause_and_raises_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_TORCH", "import-error")
    failed = envcheck.smoke(python=standin_python(), expect="cpu")
    assert failed.cause is not None
    with pytest.raises(envcheck.EnvironmentProblem) as raised:
        failed.raise_for_verdict()
    assert raised.value.cause == failed.cause
