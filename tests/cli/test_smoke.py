"""`envcheck smoke` and `doctor --smoke` as a user meets them; the framework in the environment is a stand-in."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import fastjsonschema
import pytest

import envcheck as envcheck_package
from envcheck.host.system import has_avx
from envcheck.matrix import load_matrix
from envcheck.model import Facts, Finding
from envcheck.proof.causes import CauseFinder
from envcheck.rules import Context
from envcheck.smoke.events import Result
from envcheck.smoke.findings import with_findings
from envcheck.smoke.session import Job, Subject
from tests.cli.test_doctor import document, envcheck
from tests.fakes.gpu_host import run_on_gpu_host
from tests.fakes.machine import TWO_A100, GpuHost
from tests.patience import PATIENCE, wait_for
from tests.smoke.standin import GPUS, run, standin_python

pytestmark = pytest.mark.needs("linux")
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _own_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the logs of failed smoke tests with the test's own files."""
    standin_python()  # once for all tests, in the common folder
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def smoke(*arguments: str, told: str = "") -> tuple[int, str, str]:
    asked = ("smoke", "--python", standin_python(), "--expect", "cpu", *arguments)
    done = envcheck(*asked, STANDIN_TORCH=told)
    return done.returncode, done.stdout, done.stderr


def test_a_pass_is_0_and_says_that_no_gpu_was_tested() -> None:
    code, out, err = smoke()
    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("PyTorch"))
    framework, device, result, place, checks, _, _ = re.split("  +", row)
    assert (framework, device, place, checks) == ("PyTorch 0.0.1+standin", "CPU", "CPU:0", "3")
    assert result == "passed: gave [[22.0, 28.0], [49.0, 64.0]]"
    assert (
        "PASSED  Everything that was tested passed. No GPU was tested: only the CPU was asked for."
        in out
    )
    assert err.startswith("[1/1] PyTorch 0.0.1+standin on CPU: passed")
    assert smoke("-q")[2] == ""


def test_a_failure_is_4_and_keeps_its_log() -> None:
    code, out, _ = smoke(told="segfault")
    assert code == 4
    assert (
        "matmul CPU:0: crashed: the process died: a segmentation fault (SIGSEGV) [smoke-failed]"
        in out
    )
    log = Path(next(line for line in out.splitlines() if "log: " in line).split("log: ")[1])
    assert "##### envcheck step matmul\tCPU:0" in log.read_text(encoding="utf-8")


def test_the_log_is_explained_by_what_is_known_of_logs() -> None:
    code, out, _ = smoke("--format", "json", told="import-error")
    assert code == 4
    found = json.loads(out)
    assert found["runs"][0]["results"][0]["finding"] == "cudnn-missing"
    assert found["findings"][0]["id"] == "cudnn-missing"


def find_cause(words: str, log: str, on_gpu: bool) -> Finding | None:
    return CauseFinder(Context(Facts(), load_matrix(None))).find(words, log, on_gpu=on_gpu)


def test_a_warning_of_tensorflow_2_21_is_not_taken_for_a_full_card() -> None:
    log = (
        "W0000 00:00:1795245977.946106   29596 cuda_executor.cc:1755] Failed to determine cuDNN version (Note that "
        "this is expected if the application doesn't link the cuDNN plugin): INTERNAL: cuDNN error: "
        "CUDNN_STATUS_INTERNAL_ERROR\n"
        "W0000 00:00:1795245977.953337   29362 gpu_device.cc:2365] Cannot dlopen some GPU libraries. Please make sure "
        "the missing libraries mentioned above are installed properly if you would like to use GPU.\n"
    )
    job = Job(Subject("tensorflow", "2.21.0"), GPUS[0])
    failed = (Result("devices", "", "error", "TensorFlow lists 0 of 1 GPUs"),)
    (found,) = with_findings(failed, job, log, find_cause)
    # libraries that cannot be opened
    assert found.finding not in {"gpu-memory-exhausted", "smoke-failed"}
    full = (
        Result(
            "convolution",
            "GPU:0",
            "error",
            "m",
            error="InternalError: CUDNN_STATUS_NOT_INITIALIZED",
        ),
    )
    assert [item.finding for item in with_findings(full, job, log, find_cause)] == [
        "gpu-memory-exhausted"
    ]


def test_json_is_one_document_of_its_schema() -> None:
    done = envcheck("smoke", "--python", standin_python(), "--expect", "cpu", "--format", "json")
    found = document(done, "smoke")
    assert (found["verdict"], found["tested_gpus"], found["runs"][0]["log"]) == (
        "compatible",
        [],
        "",
    )
    wrong = envcheck("smoke", "--python", "/no/such/python", "--format", "json")
    assert document(wrong, "error")["exit_code"] == 2


def test_junit_and_the_placement_file(tmp_path: Path) -> None:
    path = tmp_path / "places.tsv"
    code, out, _ = smoke("--format", "junit", "--log-placement", str(path))
    assert code == 0
    assert [case.get("name") for case in ET.fromstring(out).iter("testcase")] == [
        "import",
        "devices",
        "matmul CPU:0",
    ]
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    assert rows[1][1:] == ["matmul", "CPU:0", "result", "matmul", "CPU:0", "result", ""]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--gpu", "7"), "--gpu 7: no such GPU here"),
        (
            ("--python", "/no/such/python"),
            "no Python to test was found. Looked at /no/such/python.\n",
        ),
        (
            ("--framework", "jax"),
            "--framework jax: not installed in the inspected environment (it holds: PyTorch",
        ),
        (("--framework", "keras"), "keras"),
        (("--level", "slow"), "slow"),
        (("--memory", "nan"), "nan is no limit"),
        (("--timeout", "inf"), "inf is no limit"),
        (("--log-placement", "/no/such/folder/x"), "cannot write /no/such/folder/x"),
    ],
)
def test_wrong_input_is_a_sentence_and_exit_2(arguments: tuple[str, ...], said: str) -> None:
    code, out, err = smoke(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_nothing_tested_is_3(tmp_path: Path) -> None:
    done = envcheck("smoke", "--python", sys.executable, "--expect", "cpu")
    assert done.returncode == 3
    assert "Nothing was tested: the environment holds no framework to test" in done.stdout
    assert not list(tmp_path.glob("envcheck-smoke-*")), "no log was written that could be kept"


def test_doctor_adds_what_the_smoke_test_found(tmp_path: Path) -> None:
    # The rules know no release of a stand-in: one that looks at something else leaves the verdict
    # to the smoke test.
    asked = (
        "doctor",
        "--smoke",
        "--expect",
        "cpu",
        "--only",
        "python-32bit",
        "--format",
        "json",
        "--python",
    )
    good = envcheck(*asked, standin_python())
    report = document(good, "report")
    assert (good.returncode, report["verdict"], report["findings"]) == (0, "compatible", [])
    assert "Smoke test: Everything that was tested passed." in report["headline"]
    assert_smoke_document(report["smoke"])
    placed = [
        (item["check"], item["ran_on"], item["message"])
        for item in report["smoke"]["runs"][0]["results"]
    ]
    assert placed[-1] == ("matmul", "CPU:0", "gave [[22.0, 28.0], [49.0, 64.0]] on CPU:0")
    bad = envcheck(*asked, standin_python(), STANDIN_TORCH="illegal-instruction")
    report = document(bad, "report")
    assert (bad.returncode, report["verdict"]) == (4, "incompatible")
    # where this processor has AVX, the instruction was another one
    cause = "smoke-failed" if has_avx() else "cpu-missing-avx"
    assert [(item["id"], item["primary"]) for item in report["findings"]] == [(cause, True)]
    assert report["smoke"]["runs"][0]["outcome"] == "crashed"
    nothing = envcheck(*asked, sys.executable)
    report = document(nothing, "report")
    assert (nothing.returncode, report["verdict"]) == (3, "undetermined")
    alone = envcheck(
        "doctor", "--smoke", "--expect", "cpu", PATH="/no/such/folder", VIRTUAL_ENV="", cwd=tmp_path
    )
    assert (alone.returncode, alone.stderr) == (0, "")
    assert "COMPATIBLE" in alone.stdout
    assert (
        "No framework was tested: name an environment that has one with --env or --python."
        in alone.stdout
    )
    both = envcheck("doctor", "--smoke", "--snapshot", "x.json")
    assert both.returncode == 2
    assert "choose one of them" in both.stderr


def assert_smoke_document(found: Any) -> None:
    schema = Path(envcheck_package.__file__).parent / "schemas" / "smoke.schema.json"
    fastjsonschema.compile(json.loads(schema.read_text(encoding="utf-8")))(found)


def test_the_command_in_this_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from envcheck.cli.group import run as command

    asked = ["smoke", "--python", standin_python(), "--expect", "cpu"]
    assert command(asked) == 0
    assert "PASSED" in capsys.readouterr().out
    assert command([*asked, "--format", "json", "--timeout", "20", "--memory", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "compatible"
    monkeypatch.setenv("STANDIN_TORCH", "wrong")
    assert command([*asked, "--framework", "torch", "--format", "junit"]) == 4
    printed = capsys.readouterr()
    assert "<failure" in printed.out
    assert "[1/1] PyTorch" in printed.err
    assert command(["doctor", "--smoke", *asked[1:], "--only", "python-32bit"]) == 4
    assert "smoke-failed (the cause)" in capsys.readouterr().out
    monkeypatch.setenv("STANDIN_TORCH", "")
    assert command(["doctor", "--smoke", *asked[1:], "--only", "python-32bit", "-q"]) == 0
    assert command(["smoke", "--python", sys.executable, "--expect", "cpu"]) == 3


def test_every_step_is_told_to_who_watches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from envcheck.cli.smoke import SmokeProgress

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    done: list[str] = []
    progress = SmokeProgress(lambda: done.append("once"))
    progress.counts(1)
    run(heard=[], begins=progress.begins)
    progress.close()
    assert "PyTorch 0.0.1+standin on CPU: matmul CPU:0 (" in capsys.readouterr().err
    assert done == ["once"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)]
)
def test_an_interrupted_test_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    before = tmp_path / "places.tsv"
    before.write_text("of the last test\n", encoding="utf-8")
    asked = [
        sys.executable,
        "-m",
        "envcheck",
        "smoke",
        "--python",
        standin_python(),
        "--expect",
        "cpu",
    ]
    asked += ["--log-placement", str(before)]
    told = {
        "STANDIN_TORCH": "hang",
        "STANDIN_SLEEP": f"3662.{os.getpid()}",
        "TMPDIR": str(tmp_path),
    }
    environment = {**os.environ, **told, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        asked, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for(hanging, "the child of the stand-in")
        assert list(tmp_path.iterdir()) != [before]
        assert list(tmp_path.glob("envcheck-smoke-*"))
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "Interrupted." in err, "Traceback" in err) == (
        code,
        code == 130,
        False,
    )
    assert not hanging()
    assert not list(tmp_path.glob("envcheck-smoke-*"))
    assert before.read_text(encoding="utf-8") == "of the last test\n"


def hanging() -> bool:
    """Tell whether the child that the stand-in starts before it hangs is there."""
    listed = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout
    return f"sleep 3662.{os.getpid()}" in listed


@pytest.mark.needs("stand-in-host")
def test_the_driver_is_tested_where_no_framework_is(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True
    )
    argv = [
        sys.executable,
        "-m",
        "envcheck",
        "smoke",
        "--env",
        str(tmp_path / "env"),
        "--format",
        "json",
    ]
    done = run_on_gpu_host(GpuHost(gpus=TWO_A100), argv, {"PYTHONPATH": str(ROOT)})
    found = json.loads(done.stdout)
    assert [
        (run["framework"], run["device"]["label"], run["outcome"]) for run in found["runs"]
    ] == [
        ("driver", "GPU 0", "passed"),
        ("driver", "GPU 1", "passed"),
        ("driver", "all 2 GPUs", "passed"),
    ], done.stdout
    assert (done.returncode, found["tested_gpus"]) == (0, ["GPU 0", "GPU 1"])


@pytest.mark.needs("stand-in-host")
def test_on_a_stand_in_gpu_host_only_the_gpu_that_lies_fails() -> None:
    argv = [
        sys.executable,
        "-m",
        "envcheck",
        "smoke",
        "--python",
        standin_python(),
        "--format",
        "json",
    ]
    liar = {
        "STANDIN_TORCH": "wrong",
        "STANDIN_TORCH_GPU": TWO_A100[1].uuid,
        "PYTHONPATH": str(ROOT),
    }
    done = run_on_gpu_host(GpuHost(gpus=TWO_A100), argv, liar)
    assert done.returncode == 4, done.stderr
    found = json.loads(done.stdout)
    outcomes = {run["device"]["label"]: run["outcome"] for run in found["runs"]}
    assert outcomes == {
        "CPU": "passed",
        "GPU 0": "passed",
        "GPU 1": "failed",
        "all 2 GPUs": "failed",
    }
    assert found["tested_gpus"] == ["GPU 0"]
    assert {finding["id"] for finding in found["findings"]} == {"gpu-hardware-fault"}
    assert found["runs"][1]["device"]["name"] == "NVIDIA A100-SXM4-40GB"
    one = run_on_gpu_host(GpuHost(gpus=TWO_A100), [*argv, "--gpu", "0"], liar)
    assert one.returncode == 0, one.stdout
    hidden = run_on_gpu_host(GpuHost(gpus=TWO_A100), argv, {**liar, "CUDA_VISIBLE_DEVICES": "0"})
    assert hidden.returncode == 0, hidden.stdout
    assert [item["label"] for item in json.loads(hidden.stdout)["left_out"]] == ["GPU 1"]
