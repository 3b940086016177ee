"""The driver test against the stand-in libcuda: right, wrong, refused, hung and crashed.

No GPU computes here.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from envcheck.smoke.events import Result, ScriptEvents
from tests.patience import FOREVER
from tests.probes.pythons import pythons
from tests.smoke.driver_process import NAMES, UUIDS, outcomes, speak

pytestmark = [pytest.mark.needs("linux"), pytest.mark.needs("c-compiler")]

QUICK = "quick"
FULL = "full"
BENCH = "bench"


def last(spoken: ScriptEvents) -> Result:
    return spoken.results[-1]


def test_the_gpu_asked_for_by_its_uuid_multiplies() -> None:
    spoken, _ = speak(QUICK, UUIDS[1], {})
    assert outcomes(spoken) == dict.fromkeys(
        ("import", "devices", "context", "translate", "matmul"), "passed"
    )
    assert spoken.done
    assert spoken.framework["version"] == "12.4"
    assert [listing.devices for listing in spoken.listings] == [("GPU:0",), (NAMES[1],)]
    assert (last(spoken).message, last(spoken).ran_on) == (
        "gave [[22.0, 28.0], [49.0, 64.0]] on GPU:0",
        "GPU:0",
    )


def test_the_oldest_python_at_hand_runs_it_too() -> None:
    oldest = next((path for path in pythons() if "/3.6." in path), sys.executable)
    spoken, _ = speak(FULL, "all", {}, python=oldest)
    assert last(spoken).message == "16 MiB arrived directly"
    assert spoken.done


def test_another_gpu_than_the_one_asked_for_is_a_failure() -> None:
    spoken, _ = speak(QUICK, UUIDS[1], {"GPU1_CUDA_UUID": UUIDS[0]})
    listed = next(result for result in spoken.results if result.check == "devices")
    assert (listed.outcome, listed.finding) == ("failed", "device-placement")
    assert listed.message == f"asked for {UUIDS[1]} and got {UUIDS[0]}"


def test_a_mig_instance_is_held_against_its_own_uuid() -> None:
    asked, other = (
        "MIG-00000000-0000-0000-0000-00000000000a",
        "MIG-00000000-0000-0000-0000-00000000000b",
    )
    right, _ = speak(QUICK, asked, {"GPU0_UUID": asked})
    assert (last(right).check, last(right).outcome) == ("matmul", "passed")
    wrong, _ = speak(QUICK, asked, {"GPU0_UUID": asked, "GPU0_CUDA_UUID": other})
    listed = next(result for result in wrong.results if result.check == "devices")
    assert (listed.outcome, listed.message) == ("failed", f"asked for {asked} and got {other}")


def test_only_the_gpu_that_computes_wrongly_fails() -> None:
    spoken, _ = speak(QUICK, "all", {"GPU1_WRONG": 1})
    assert outcomes(spoken)["matmul GPU:0"] == "passed"
    assert outcomes(spoken)["matmul GPU:1"] == "failed"
    assert (
        last(spoken).message
        == "gave [[22.0, 28.0], [50.0, 64.0]] instead of [[22.0, 28.0], [49.0, 64.0]]"
    )


@pytest.mark.parametrize(
    ("call", "code", "check", "name", "finding"),
    [
        ("cuCtxCreate_v2", 2, "context", "CUDA_ERROR_OUT_OF_MEMORY (2)", "gpu-memory-held"),
        ("cuCtxCreate_v2", 46, "context", "CUDA_ERROR_DEVICE_UNAVAILABLE (46)", "gpu-memory-held"),
        (
            "cuModuleLoadDataEx",
            222,
            "translate",
            "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)",
            "driver-too-old",
        ),
        (
            "cuModuleLoadDataEx",
            221,
            "translate",
            "CUDA_ERROR_JIT_COMPILER_NOT_FOUND (221)",
            "ptxas-problem",
        ),
        ("cuModuleGetFunction", 500, "translate", "CUDA_ERROR_NOT_FOUND (500)", "probe-failed"),
        ("cuMemAlloc_v2", 2, "matmul", "CUDA_ERROR_OUT_OF_MEMORY (2)", "gpu-memory-held"),
        ("cuLaunchKernel", 209, "matmul", "CUDA_ERROR_NO_BINARY_FOR_GPU (209)", "gpu-arch-too-new"),
        (
            "cuCtxSynchronize",
            700,
            "matmul",
            "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
            "gpu-hardware-fault",
        ),
        (
            "cuCtxSynchronize",
            214,
            "matmul",
            "CUDA_ERROR_ECC_UNCORRECTABLE (214)",
            "gpu-hardware-fault",
        ),
        ("cuCtxSynchronize", 4711, "matmul", "a result without a name here (4711)", ""),
    ],
)
def test_a_refusal_is_named_and_points_to_its_finding(
    call: str, code: int, check: str, name: str, finding: str
) -> None:
    spoken, _ = speak(QUICK, UUIDS[0], {"CUDA_FAIL": f"{call}:{code}"})
    result = last(spoken)
    assert spoken.done
    assert (result.check, result.finding) == (check, finding)
    assert result.outcome == ("out-of-memory" if code == 2 else "error")
    assert name in result.message
    assert call in result.message


def test_the_translators_log_is_kept() -> None:
    spoken, _ = speak(QUICK, UUIDS[0], {"CUDA_FAIL": "cuModuleLoadDataEx:218"})
    assert last(spoken).error.endswith("a log of the stand-in's translator")


@pytest.mark.parametrize(
    ("code", "finding"),
    [
        (100, "gpu-absent"),
        (802, "fabric-manager"),
        (803, "driver-library-mismatch"),
        (804, "forward-compat-misused"),
        (999, "driver-device-nodes"),
    ],
)
def test_a_driver_that_does_not_start_says_why(code: int, finding: str) -> None:
    spoken, _ = speak(QUICK, UUIDS[0], {"CUDA_INIT": code})
    assert outcomes(spoken) == {"import": "error"}
    assert last(spoken).finding == finding


def test_the_stand_in_that_hangs_is_left_with_its_step_pending() -> None:
    with pytest.raises(subprocess.TimeoutExpired) as hung:
        speak(QUICK, UUIDS[0], {"GPU0_LAUNCH_HANG": FOREVER}, timeout=5.0)
    said = (hung.value.stdout or b"").decode()
    assert (
        said.strip().splitlines()[-1] == '{"event": "step", "check": "matmul", "device": "GPU:0"}'
    )


def test_a_crash_in_the_library_ends_the_process_with_its_step_pending() -> None:
    spoken, code = speak(QUICK, UUIDS[0], {"GPU0_LAUNCH_CRASH": 1})
    assert (code, spoken.done, spoken.pending) == (-11, False, ("matmul", "GPU:0"))


def test_the_full_test_checks_every_row_of_large_products() -> None:
    spoken, _ = speak(FULL, UUIDS[0], {})
    names = ("memory", "matmul-float32")
    assert {name: outcomes(spoken)[name] for name in names} == dict.fromkeys(names, "passed")
    messages = {result.check: result.message for result in spoken.results}
    assert "256 MiB were written and read back" in messages["memory"]
    assert "allowed are 0.0001" in messages["matmul-float32"]
    assert spoken.done


def test_copies_between_gpus_are_compared() -> None:
    right, _ = speak(FULL, "all", {})
    assert outcomes(right)["peer-copy GPU:0 to GPU:1"] == "passed"
    assert last(right).message == "16 MiB arrived directly"
    wrong, _ = speak(FULL, "all", {"PEER_WRONG": 1, "PEERS": 0})
    assert (last(wrong).outcome, last(wrong).finding) == ("failed", "multi-gpu-p2p-nccl")
    assert last(wrong).message == "a copy through the host's memory arrived with other bytes"
    refused, _ = speak(FULL, "all", {"CUDA_FAIL": "cuCtxEnablePeerAccess:217"})
    assert (last(refused).outcome, last(refused).finding) == ("error", "multi-gpu-p2p-nccl")


def test_a_fault_that_ends_the_context_skips_what_follows() -> None:
    spoken, _ = speak(FULL, UUIDS[0], {"CUDA_FAIL": "cuMemsetD32_v2:719", "COMPUTES": 0})
    assert outcomes(spoken)["memory"] == "error"
    assert outcomes(spoken)["matmul-float32"] == "skipped"
    assert last(spoken).message.startswith(
        "nothing runs in this process after cuMemsetD32_v2: CUDA_ERROR_LAUNCH_FAILED"
    )


def test_the_benchmark_holds_its_numbers_against_clock_and_width() -> None:
    spoken, _ = speak(BENCH, UUIDS[0], {"COMPUTES": 0})
    measured = {measure.name: measure for measure in spoken.measures}
    assert {measure.unit for measure in spoken.measures} == {"GB/s"}
    assert "of the 1.56e+03 that clock and width allow" in measured["device to device"].note
    # the stand-in copies in the memory of the machine, far below what an A100 reaches
    assert outcomes(spoken)["copy-on-device"] == "failed"
    assert outcomes(spoken)["copy-to-device"] == "passed"
    assert measured["device to host"].value > 0
    assert measured["host to device"].value > 0
    assert spoken.done


def test_the_copies_of_an_instance_are_not_held_against_the_width_of_its_card() -> None:
    asked = "MIG-00000000-0000-0000-0000-00000000000a"
    spoken, _ = speak(BENCH, asked, {"GPU0_UUID": asked, "COMPUTES": 0})
    measured = {measure.name: measure for measure in spoken.measures}
    assert measured["device to device"].note.startswith("how fast the GPU reads and writes")
    assert outcomes(spoken)["copy-on-device"] == "passed"
