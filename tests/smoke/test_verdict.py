"""What a smoke test comes to, and how it is printed; the runs are composed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import fastjsonschema
import pytest

import envcheck
from envcheck.diagnosis import diagnose
from envcheck.matrix import load_matrix
from envcheck.model import (
    COMPATIBLE,
    INCOMPATIBLE,
    UNDETERMINED,
    Facts,
    HostFacts,
    Judged,
    Known,
    Source,
    replace,
)
from envcheck.model.fixes import StopUsingGpu
from envcheck.proof.causes import CauseFinder, merge_session
from envcheck.render.formats import render
from envcheck.render.smoke import describe_session, placement_lines, render_smoke_json
from envcheck.render.text import print_document
from envcheck.rules import Context, catalogue
from envcheck.smoke.devices import ALL, CPU_DEVICE, GPU, Device, LeftOut
from envcheck.smoke.events import BAD_OUTCOMES, Listing, Measure, Result
from envcheck.smoke.findings import findings_of, headline_of, proven_gpus, verdict_of
from envcheck.smoke.findings import with_findings as with_results
from envcheck.smoke.placements import Placement
from envcheck.smoke.session import Job, Run, Session, Subject, worst
from tests.hosts.test_hosts import context_of

SCHEMA = Path(envcheck.__file__).parent / "schemas" / "smoke.schema.json"
TORCH = Subject("torch", "2.7.0")
GPU_0 = Device(GPU, "GPU 0", "GPU-0", 1, "NVIDIA A100", "GPU-0")
GPU_3 = Device(GPU, "GPU 3", "GPU-3", 1, "NVIDIA L4", "GPU-3", pci="00000000:41:00.0")
HIDDEN = LeftOut("GPU 1", "CUDA_VISIBLE_DEVICES=0 hides it", "visible-devices-hidden")


def run(device: Device, *results: Result, log: str = "") -> Run:
    measures = (Measure("training", "GPU:0", "training step", 2.5, "ms", "the sentence"),)
    placed = (Placement("matmul", "GPU:0", "mm\t\x1b[2J", "MatMul", "GPU:0", "placer"),)
    told = {"name": "torch"}
    listed = (Listing("torch.cuda", ("GPU:0",)),)
    return Run(
        Job(TORCH, device),
        worst(results),
        results,
        measures,
        listed,
        placed,
        told,
        1.5,
        200 << 20,
        log,
    )


GOOD = Result("matmul", "CPU:0", "passed", "gave [[22, 28], [49, 64]]", 0.1, "CPU:0")
BAD = Result(
    "matmul",
    "GPU:0",
    "failed",
    "gave 23",
    0.1,
    "GPU:0",
    "words\nlast \x1b[31mwords",
    "gpu-hardware-fault",
)
ON_CPU = run(CPU_DEVICE, GOOD)
ON_GPU = run(GPU_0, GOOD)
FAILED = run(GPU_0, GOOD, BAD, log="/tmp/x.log")


def with_findings(found: Session) -> Session:
    system = Facts(host=HostFacts(os=Known(found.system, Source("command", "envcheck smoke"))))
    return CauseFinder(Context(system, load_matrix(None))).with_findings(found)


def session(*runs: Run, **about: Any) -> Session:
    return Session("quick", runs, **about)


@pytest.mark.parametrize(
    ("found", "verdict", "said"),
    [
        (session(ON_CPU, ON_GPU), COMPATIBLE, "Computed correctly on GPU 0."),
        (session(ON_CPU), COMPATIBLE, "No GPU was tested: this machine has none."),
        (session(ON_CPU, expect="cpu"), COMPATIBLE, "only the CPU was asked for"),
        (session(ON_CPU, expect="gpu"), INCOMPATIBLE, "A GPU was expected."),
        (session(ON_CPU, expect="gpu", gpus_unread="NVML hangs"), UNDETERMINED, "NVML hangs"),
        (session(ON_CPU, gpus_unread="NVML hangs"), UNDETERMINED, "NVML hangs"),
        (session(ON_CPU, gpus_unread="NVML hangs", expect="cpu"), COMPATIBLE, "only the CPU"),
        (session(), UNDETERMINED, "Nothing was tested: the environment holds no framework"),
        (
            session(left_out=(HIDDEN,)),
            UNDETERMINED,
            "no framework to test, and GPU 1: CUDA_VISIBLE_DEVICES=0 hides it.",
        ),
        (
            session(frameworks=("the CUDA driver",)),
            UNDETERMINED,
            "the test of the CUDA driver needs a GPU, and this machine",
        ),
        (session(run(CPU_DEVICE)), UNDETERMINED, "No GPU was tested"),
        (
            session(ON_CPU, FAILED),
            INCOMPATIBLE,
            "1 of 2 runs failed: PyTorch 2.7.0 on GPU 0 (NVIDIA A100).",
        ),
        (session(ON_CPU, ON_GPU, left_out=(HIDDEN,)), COMPATIBLE, "Not tested: GPU 1."),
        (
            session(ON_CPU, left_out=(HIDDEN,)),
            UNDETERMINED,
            "GPU 1: CUDA_VISIBLE_DEVICES=0 hides it",
        ),
    ],
)
def test_the_verdict_and_its_sentence(found: Session, verdict: str, said: str) -> None:
    assert verdict_of(found) == verdict
    assert said in headline_of(found)


def test_one_check_that_cannot_be_made_does_not_hide_that_a_gpu_computed_right() -> None:
    product = replace(GOOD, device="GPU:0", ran_on="GPU:0")
    jit = Result("jit", "GPU:0", "error", "libdevice not found", finding="libdevice-missing")
    found = session(run(GPU_0, product, jit))
    assert verdict_of(found) == INCOMPATIBLE
    assert proven_gpus(found) == ("GPU 0",)
    assert headline_of(found).endswith("Computed correctly on GPU 0.")
    assert proven_gpus(session(run(GPU_0, product, BAD))) == ()  # one wrong number is enough
    assert proven_gpus(session(run(GPU_0, jit))) == ()


def test_a_slow_gpu_is_no_broken_one() -> None:
    slow = Result("speed of copies", "GPU:0", "failed", "8 GB/s", finding="smoke-failed")
    (finding,) = with_findings(session(run(GPU_0, slow))).findings
    assert finding.fix
    assert finding.fix.summary.startswith("Find what slows the GPU down")


@pytest.mark.parametrize("outcome", BAD_OUTCOMES)
def test_no_bad_outcome_is_ever_compatible(outcome: str) -> None:
    assert (
        verdict_of(
            session(ON_GPU, run(CPU_DEVICE, GOOD, Result("x", "", outcome, finding="os-limit")))
        )
        == INCOMPATIBLE
    )


def test_findings_carry_what_was_seen() -> None:
    (finding,) = findings_of(session(ON_CPU, FAILED))
    assert finding.id in catalogue()
    assert (finding.id, finding.severity, finding.verdict) == (
        "gpu-hardware-fault",
        "error",
        INCOMPATIBLE,
    )
    assert "PyTorch 2.7.0 on GPU 0 (NVIDIA A100, GPU-0): matmul failed: gave 23" in finding.message
    assert finding.evidence[0].source
    assert finding.evidence[0].source.where == "/tmp/x.log"
    assert isinstance(finding.cure, StopUsingGpu)
    assert finding.about.framework == "torch"
    assert proven_gpus(session(ON_CPU, ON_GPU, FAILED)) == ("GPU 0",)


@pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax", "onnxruntime", "driver"])
@pytest.mark.parametrize("device", [CPU_DEVICE, GPU_0])
@pytest.mark.parametrize("outcome", BAD_OUTCOMES)
def test_every_failure_has_a_remedy(framework: str, device: Device, outcome: str) -> None:
    job = Job(Subject(framework, "1"), device)
    own = (
        "",
        "os-limit",
        "device-placement",
        "gpu-hardware-fault",
        "cpu-missing-avx",
        "gpu-memory-held",
    )
    for finding in own:
        results = with_results(
            (Result("matmul", "GPU:0", outcome, "m", finding=finding),), job, "", None
        )
        failed = with_findings(session(Run(job, outcome, results, log="/tmp/x.log")))
        (fix,) = (item.fix for item in failed.findings)
        assert fix, (finding, results)
        assert "{" not in fix.summary


def test_a_machine_with_damaged_files_explains_an_import_that_fails() -> None:
    context = context_of("tensorflow-with-a-deleted-library")
    words = "ImportError: libtensorflow_framework.so.2: cannot open shared object file: No such file or directory"
    cause = CauseFinder(context).find(words, words, on_gpu=False)
    assert cause
    assert cause.id == "install-damaged"
    failed = replace(
        GOOD,
        check="import",
        outcome="error",
        message=words,
        error=words,
        finding=cause.id,
        cause=cause,
    )
    found = CauseFinder(context).with_findings(session(run(CPU_DEVICE, failed, log="/tmp/x.log")))
    report = diagnose(context)
    merged = merge_session(report, found)
    assert (merged.verdict, [item.id for item in merged.findings]) == (
        INCOMPATIBLE,
        [item.id for item in report.findings],
    )  # one cause is one finding
    assert merged.findings[0].evidence[0].fact == "smoke torch import"
    assert merged.findings[0].fix == report.findings[0].fix
    (alone,) = found.findings  # what `envcheck smoke` prints
    assert alone.message.startswith(f"Smoke test, PyTorch 2.7.0 on CPU: import error: {words}.")
    assert alone.fix


def test_an_error_of_the_driver_explains_a_failure_on_the_gpu_alone() -> None:
    causes = CauseFinder(context_of("driver-470-for-cuda-12"))
    on_gpu = causes.find("RuntimeError: no words that anyone knows", "", on_gpu=True)
    assert on_gpu
    assert (on_gpu.id, on_gpu.severity) == ("driver-too-old", "error")
    assert causes.find("RuntimeError: no words that anyone knows", "", on_gpu=False) is None


def test_without_an_environment_the_machine_keeps_its_verdict() -> None:
    context = context_of("no-driver")
    report = replace(diagnose(context), judged=Judged())
    merged = merge_session(report, session())
    assert (merged.verdict, merged.findings) == (report.verdict, report.findings)
    assert merged.headline.endswith(
        "No framework was tested: name an environment that has one with --env or --python."
    )


def test_a_pass_beside_findings_of_the_rules_says_what_it_does_not_test() -> None:
    report = diagnose(context_of("tensorflow-with-a-deleted-library"))
    merged = merge_session(report, session(ON_CPU))
    assert merged.verdict == INCOMPATIBLE
    assert merged.headline.endswith("It does not test what is named below.")


@pytest.mark.parametrize(
    "found", [session(ON_CPU, FAILED, left_out=(HIDDEN,)), session(), session(ON_GPU)]
)
def test_the_json_document_fits_its_schema(found: Session) -> None:
    text = render_smoke_json(with_findings(found))
    assert "\n" not in text
    document = json.loads(text)
    fastjsonschema.compile(json.loads(SCHEMA.read_text(encoding="utf-8")))(document)
    assert document["verdict"] == verdict_of(found)
    assert [entry["outcome"] for entry in document["runs"]] == [
        entry.outcome for entry in found.runs
    ]


def test_junit_has_a_suite_for_each_run_and_a_case_for_each_check() -> None:
    hung = run(
        GPU_3,
        Result("matmul", "GPU:0", "hung", "no answer", finding="smoke-failed"),
        Result("x", "", "skipped", "w"),
    )
    root = ET.fromstring(junit(session(ON_CPU, FAILED, hung, left_out=(HIDDEN,))))
    suites = [
        (s.get("name"), s.get("tests"), s.get("failures"), s.get("errors"), s.get("skipped"))
        for s in root
    ]
    title = "PyTorch 2.7.0 on GPU 0 (NVIDIA A100, GPU-0)"
    assert suites == [
        ("PyTorch 2.7.0 on CPU", "1", "0", "0", "0"),
        (title, "2", "1", "0", "0"),
        ("PyTorch 2.7.0 on GPU 3 (NVIDIA L4, 00000000:41:00.0, GPU-3)", "2", "0", "1", "1"),
        ("not tested", "1", "0", "0", "1"),
    ]
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.get("message") == "failed: gave 23 [gpu-hardware-fault]"
    assert "\x1b" not in (failure.text or "")
    nothing = ET.fromstring(junit(session()))
    assert len(nothing.findall(".//skipped")) == 1


def junit(found: Session) -> str:
    return render(describe_session(found, verbose=True), "junit")


def printed(capsys: pytest.CaptureFixture[str], found: Session, **how: bool) -> str:
    color = how.pop("color", False)
    print_document(describe_session(with_findings(found), **how), color=color)
    return capsys.readouterr().out


def test_the_text_names_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, session(ON_CPU, FAILED, left_out=(HIDDEN,)))
    lines = text.splitlines()
    assert [re.split("  +", line) for line in lines[2:5]] == [
        ["framework", "device", "result", "place", "checks", "time", "memory"],
        [
            "PyTorch 2.7.0",
            "CPU",
            "passed: gave [[22, 28], [49, 64]]",
            "CPU:0",
            "1",
            "1.5 s",
            "200 MiB",
        ],
        [
            "PyTorch 2.7.0",
            "GPU 0 (NVIDIA A100)",
            "failed: matmul",
            "GPU 0",
            "2",
            "1.5 s",
            "200 MiB",
        ],
    ]
    assert "  matmul GPU 0: failed: gave 23 [gpu-hardware-fault]" in lines
    assert "    last \ufffd[31mwords" in lines
    assert "  log: /tmp/x.log" in lines
    assert "GPU 1: not tested: CUDA_VISIBLE_DEVICES=0 hides it" in lines
    assert lines[0].startswith("FAILED  1 of 2 runs failed")
    assert "    $ sudo dmesg" in lines
    assert "    the sentence" in lines
    assert "matmul CPU:0" not in text


def test_a_row_shows_the_devices_of_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    """TensorFlow multiplies on the CPU first, in a process for a GPU, too; its log tells the places once more."""
    on_gpu = replace(GOOD, device="GPU:0", message="gave 22 on GPU:0", ran_on="GPU:0")
    log = (replace(GOOD, check="matmul placement"), replace(on_gpu, check="matmul placement"))
    both = Device(ALL, "all 2 GPUs", "GPU-0,GPU-3", 2, members=(GPU_0, GPU_3))
    second = replace(on_gpu, device="GPU:1", message="gave 22 on GPU:1", ran_on="GPU:1")
    function = replace(on_gpu, check="function")
    runs = [
        run(CPU_DEVICE, GOOD, log[0]),
        run(GPU_3, GOOD, on_gpu, *log),
        run(both, GOOD, on_gpu, second, *log),
        run(GPU_0, GOOD, function, replace(GOOD, check="function")),
        run(GPU_0, GOOD),
    ]
    lines = printed(capsys, session(*runs)).splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("framework"))
    rows = [re.split("  +", line) for line in lines[head + 1 : head + 6]]
    assert [row[2:4] for row in rows] == [
        ["passed: gave [[22, 28], [49, 64]]", "CPU:0"],
        ["passed: gave 22", "GPU 3"],
        ["passed: gave 22", "GPU 0, GPU 3"],
        ["passed: gave 22", "GPU 0"],
        ["passed", "-"],
    ]


def test_a_failure_names_the_card_as_the_machine_does(capsys: pytest.CaptureFixture[str]) -> None:
    alone = run(GPU_3, replace(BAD, message="gave 23 on GPU:0"))
    both = Device(ALL, "all 2 GPUs", "GPU-0,GPU-3", 2, members=(GPU_0, GPU_3))
    together = run(both, replace(BAD, check="copy from GPU:0", device="GPU:1", ran_on="GPU:1"))
    found = session(alone, together)
    text = printed(capsys, found)
    assert "on GPU 3 (NVIDIA L4, 00000000:41:00.0, GPU-3):" in text
    assert "  matmul GPU 3: failed: gave 23 on GPU 3 [gpu-hardware-fault]" in text
    assert "  copy from GPU 0 GPU 3: failed" in text
    assert "Stop using GPU 3 (NVIDIA L4, 00000000:41:00.0, GPU-3) until it is checked" in text
    suites = junit(found)
    assert 'name="copy from GPU 0 GPU 3"' in suites
    document = json.loads(render_smoke_json(with_findings(found)))
    assert document["runs"][0]["device"]["pci_address"] == "00000000:41:00.0"
    for printed_text in (text, suites, json.dumps(document["findings"])):
        assert "GPU:" not in printed_text
    placed = [line.split("\t")[5:] for line in placement_lines(session(run(GPU_3, GOOD)))]
    assert placed[1] == ["GPU:0", "placer", "GPU 3 (NVIDIA L4, 00000000:41:00.0, GPU-3)"]


def test_windows_has_no_kernel_log_to_look_at(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, session(ON_CPU, FAILED, system="windows"))
    assert (
        "    $ wevtutil qe System \"/q:*[System[Provider[@Name='nvlddmkm']]]\" /c:20 /rd:true /f:text"
        in text.splitlines()
    )
    assert "dmesg" not in text


def test_quiet_and_verbose_and_color(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, session(ON_GPU), quiet=True).startswith("PASSED  ")
    assert "  matmul CPU:0: passed: gave [[22, 28]" in printed(
        capsys, session(ON_GPU), verbose=True
    )
    assert "  torch.cuda: GPU:0" in printed(capsys, session(ON_GPU), verbose=True)
    assert "\u2717 FAILED  \x1b[0m1 of 1 runs failed" in printed(
        capsys, session(FAILED), color=True
    )
    assert "UNDETERMINED  Nothing" in printed(capsys, session())


def test_placements_are_a_table_of_inert_text() -> None:
    head, first, *_ = placement_lines(session(ON_GPU))
    assert head.split("\t") == [
        "run",
        "check",
        "asked",
        "operation",
        "type",
        "device",
        "told by",
        "gpu",
    ]
    assert first.split("\t")[1:] == [
        "matmul",
        "GPU:0",
        "mm \ufffd[2J",
        "MatMul",
        "GPU:0",
        "placer",
        "GPU 0 (NVIDIA A100, GPU-0)",
    ]
