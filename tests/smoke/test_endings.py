"""How a process that did not come to its end is told in words, and what a script's words are worth."""

from __future__ import annotations

from pathlib import Path

import pytest

import envcheck
from envcheck.host.limits import LimitedRun, Limits
from envcheck.model import ERROR, INCOMPATIBLE, Finding
from envcheck.smoke import runner
from envcheck.smoke.devices import ALL, CPU_DEVICE, GPU, Device
from envcheck.smoke.events import Result, parse_events
from envcheck.smoke.findings import with_findings
from envcheck.smoke.runner import describe_ending, last_log_lines
from envcheck.smoke.session import Job, Subject, worst

LIMITS = Limits(30.0, 2 << 30)
BEGUN = parse_events('{"event": "step", "check": "matmul", "device": "GPU:0"}\n')
DONE = parse_events('{"event": "done"}\n')


@pytest.fixture(autouse=True)
def _processor_without_avx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "has_avx", lambda: False)


HELD = Device(GPU, "GPU 0", "GPU-1", 1, held="39.0 of its 40.0 GiB were in use before the test")


@pytest.mark.parametrize(
    ("watched", "log", "outcome", "finding", "words"),
    [
        (LimitedRun("time"), "", "hung", "", "within 30 s"),
        (LimitedRun("time"), "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2GiB", "hung",
         "gpu-memory-exhausted", "waited for memory"),
        (LimitedRun("time"), "CUDA kernels will be jit-compiled from PTX, which could take 30 minutes.", "hung",
         "gpu-arch-too-new", "that --timeout allows"),
        (LimitedRun("memory"), "", "out-of-memory", "os-limit", "2.0 GiB"),
        (LimitedRun("exited", -9), "", "out-of-memory", "os-limit", "SIGKILL"),
        (LimitedRun("exited", -4), "", "crashed", "cpu-missing-avx", "SIGILL"),
        (LimitedRun("exited", -7), "", "crashed", "os-limit", "SIGBUS"),
        (LimitedRun("exited", -31), "", "crashed", "", "signal 31"),
        (LimitedRun("exited", 1), "", "crashed", "", "exit status 1"),
        (LimitedRun("exited", 0), "", "crashed", "", "exit status 0"),
        (LimitedRun("exited", 0xC000001D), "", "crashed", "cpu-missing-avx", "instruction"),
        (LimitedRun("exited", 0xC0000005), "", "crashed", "", "access violation"),
        (LimitedRun("exited", 0xC0000409), "", "crashed", "", "fast fail"),
        (LimitedRun("exited", 0xC0000142), "", "crashed", "", "exit status 0xc0000142"),
    ],
)  # fmt: skip
def test_an_ending_is_told_at_the_step_it_came_in(
    watched: LimitedRun, log: str, outcome: str, finding: str, words: str
) -> None:
    result = describe_ending(watched, BEGUN, log, LIMITS)
    assert result is not None
    assert (result.check, result.device, result.outcome, result.finding) == (
        "matmul",
        "GPU:0",
        outcome,
        finding,
    )
    assert words in result.message


def test_a_processor_with_avx_does_not_lack_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "has_avx", lambda: True)
    result = describe_ending(LimitedRun("exited", -4), BEGUN, "", LIMITS)
    assert result is not None
    assert (result.outcome, result.finding) == ("crashed", "")


def test_a_process_that_came_to_its_end_needs_no_words() -> None:
    assert describe_ending(LimitedRun("exited", 0), DONE, "", LIMITS) is None
    assert (
        describe_ending(LimitedRun("exited", -11), DONE, "", LIMITS) is None
    )  # all was said: it died while it was leaving
    early = describe_ending(LimitedRun("exited", 1), parse_events(""), "", LIMITS)
    assert early is not None
    assert early.check == "start"


def test_a_bad_page_while_a_library_is_loaded_is_no_limit() -> None:
    loading = parse_events('{"event": "step", "check": "import", "device": ""}\n')
    result = describe_ending(LimitedRun("exited", -7), loading, "", LIMITS)
    assert result
    assert (result.outcome, result.finding) == ("crashed", "")  # the machine's facts may explain it


def test_last_words_are_the_logs_own() -> None:
    log = "one\n##### envcheck step matmul\tGPU:0\nI placer.cc:1] a: (_Arg): /job:localhost/device:CPU:0\n\ntwo\n"
    assert last_log_lines(log) == "one\ntwo"


CHECK_FAILED = """2026-11-20 23:01:40.946057: I tensorflow/core/common_runtime/gpu/gpu_device.cc:2022] Created device
{fatal}
*** Aborted at 1795215654 (unix time) ***
PC: @ 0x7f0 (unknown)
    @ 0x7f1 (unknown)
    @ 0x7f2 (unknown)
    @ 0x7f3 (unknown)
Fatal Python error: Aborted

Thread 0x00007f1 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait

Current thread 0x00007f0 (most recent call first):
  File "/env/lib/python3.11/site-packages/tensorflow/python/eager/context.py", line 589 in ensure_initialized
  File "{ours}/check_tensorflow2.py", line 70 in list_devices
  File "{ours}/start.py", line 170 in main

Extension modules: numpy.core._multiarray_umath (total: 60)
"""
FATAL_LINES = (
    "2026-11-20 23:01:40.946058: F tensorflow/core/platform/statusor.cc:33] Attempting to fetch value",
    "F0000 00:00:1795215654.705859   24254 gpu_timer.cc:12] Check failed: start_event_ != nullptr (0 vs. nullptr)",
    "terminate called after throwing an instance of 'std::bad_alloc'",
    "python: /src/cuda.c:12: init: Assertion `count > 0' failed.",
)


@pytest.mark.parametrize("fatal", FATAL_LINES)
def test_a_crash_quotes_the_line_with_which_the_framework_gave_up(fatal: str) -> None:
    ours = str(Path(envcheck.__file__).parent / "smoke" / "children")
    words = last_log_lines(CHECK_FAILED.format(fatal=fatal, ours=ours)).splitlines()
    assert words[0] == fatal
    assert [line.rpartition(" in ")[2] for line in words[-2:]] == [
        "ensure_initialized",
        "list_devices",
    ]
    assert not any(
        "start.py" in line or "threading.py" in line or "Extension modules" in line
        for line in words
    )


def test_a_filled_card_explains_a_gpu_without_memory() -> None:
    job = Job(Subject("torch"), HELD)
    results = tuple(
        Result("matmul", "GPU:0", outcome) for outcome in ("out-of-memory", "hung", "passed")
    )
    found = with_findings(results, job, "", None)
    assert [item.finding for item in found] == ["gpu-memory-held", "gpu-memory-held", ""]
    assert "39.0 of its 40.0 GiB" in found[0].message


def test_what_fails_between_gpus_is_no_fault_of_one() -> None:
    job = Job(Subject("torch"), Device(ALL, "all 2 GPUs", "GPU-1,GPU-2", 2))
    results = (
        Result("copy from GPU:0", "GPU:1", "failed", ran_on="GPU:1"),
        Result("all-reduce over GPU:0, GPU:1", "", "hung"),
        Result("gradients over GPU:0, GPU:1", "", "error", "RuntimeError: something"),
        Result("matmul", "GPU:1", "failed", ran_on="GPU:1"),
        Result("all-reduce over GPU:0, GPU:1", "", "out-of-memory"),
    )
    found = with_findings(results, job, "", lambda words, log, on_gpu: None)
    assert [item.finding for item in found] == [
        *["multi-gpu-p2p-nccl"] * 3,
        "gpu-hardware-fault",
        "gpu-memory-exhausted",
    ]
    limit = Finding("os-limit", INCOMPATIBLE, ERROR, "/dev/shm is full.")
    told = with_findings(results[2:3], job, "", lambda words, log, on_gpu: limit)
    assert (told[0].finding, told[0].cause) == ("os-limit", limit)


def test_words_and_log_of_what_failed_are_explained() -> None:
    cause = Finding("cudnn-missing", INCOMPATIBLE, ERROR, "libcudnn.so.9 is missing.")
    asked: list[tuple[str, str, bool]] = []

    def explain(words: str, log: str, on_gpu: bool) -> Finding | None:
        asked.append((words, log, on_gpu))
        return cause

    on_gpu = Job(Subject("torch"), HELD)
    for job, device in (
        (Job(Subject("torch"), CPU_DEVICE), ""),
        (on_gpu, "GPU:0"),
        (on_gpu, "CPU:0"),
    ):
        (found,) = with_findings(
            (Result("import", device, "error", "m", error="its words"),), job, "the log", explain
        )
        assert (found.finding, found.cause) == ("cudnn-missing", cause)
    assert asked == [("its words", "the log", on_gpu) for on_gpu in (False, True, False)]
    (found,) = with_findings((Result("matmul", "CPU:0", "hung"),), on_gpu, "the log", explain)
    assert found.finding == "smoke-failed"  # a log does not say why nothing more came


def test_broken_events_are_left_out() -> None:
    text = '{"event": "step", "check": "a", "device": "x"}\nnoise\n[1]\n{"event": 3}\n{"event": "devices", "way": "w"}\n'
    text += (
        '{"event": "result", "check": "a", "device": "x", "outcome": "hung", "seconds": "long"}\n'
    )
    text += (
        '{"event": "measure", "check": "a", "device": "x", "name": "n", "value": 2, "unit": "ms"}\n'
    )
    said = parse_events(text)
    assert said.pending is None
    assert not said.done
    # no script may say that it hung
    assert [(item.outcome, item.seconds) for item in said.results] == [("error", 0.0)]
    assert said.listings[0].devices == ()
    assert (said.measures[0].value, said.measures[0].unit) == (2.0, "ms")


def test_the_worst_result_is_the_runs() -> None:
    def run(*outcomes: str) -> str:
        return worst(tuple(Result("c", "d", outcome) for outcome in outcomes))

    assert run("passed", "skipped") == "passed"
    assert run("passed", "error", "failed") == "failed"
    assert run("failed", "hung") == "hung"
    assert run() == run("skipped") == "skipped"
