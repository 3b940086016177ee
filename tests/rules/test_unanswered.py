"""A program that was asked and did not answer is said, also where nothing depends on it."""

from __future__ import annotations

import pytest

from envcheck.matrix.load import load_matrix
from envcheck.model import (
    AT_RUN,
    ERROR,
    NOT_STATED,
    NOTE,
    UNDETERMINED,
    Absent,
    CompilerFacts,
    DriverFacts,
    Evidence,
    Facts,
    Finding,
    Gpu,
    Known,
    Source,
    ToolkitFacts,
    ToolkitInstall,
    Unknown,
    replace,
)
from envcheck.rules import Context, evaluate
from envcheck.rules.engine import is_unstated
from tests.rules.factory_machine import context, driver, gpu

HERE = Source("file", "/x")
NO_GPU = Absent(("/sys/bus/pci/devices",))


def notes(facts: Facts) -> list[tuple[str, str]]:
    report = evaluate(Context(facts, load_matrix()), frozenset({"probe-failed"}))
    return [(item.severity, item.message) for item in report.findings if item.id == "probe-failed"]


@pytest.mark.parametrize("why", ["timeout", "crashed", "denied", "unparsable"])
def test_each_silent_tool_is_named_with_its_reason(why: str) -> None:
    silent = Unknown(why, "/usr/bin/gcc: it is so")
    facts = Facts(gpus=NO_GPU, compilers=CompilerFacts(gcc_version=silent, gxx_version=silent))
    assert notes(facts) == [
        (
            "note",
            f"Could not read compilers.gcc_version, compilers.gxx_version: /usr/bin/gcc: it is so ({why}).",
        )
    ]


def test_each_nvcc_is_named_by_its_root() -> None:
    hangs = ToolkitInstall(
        "/opt/cuda", "opt", nvcc_release=Unknown("timeout", "no answer within 2.0 s")
    )
    facts = Facts(gpus=NO_GPU, toolkits=ToolkitFacts(installs=Known((hangs,), HERE)))
    assert [message for _, message in notes(facts)] == [
        "Could not read nvcc of /opt/cuda: no answer within 2.0 s (timeout)."
    ]


def test_what_was_not_asked_is_no_failure() -> None:
    asked_nothing = Unknown("failed", "nvidia-smi was not run: NVML told everything it tells")
    assert notes(Facts(gpus=NO_GPU, driver=DriverFacts(smi_exit_code=asked_nothing))) == []


def test_nvml_that_refuses_where_cuda_starts_is_said() -> None:
    driver = DriverFacts(nvml_result=Known(9, HERE), cuda_init_result=Known(0, HERE))
    machine = Facts(gpus=Known((Gpu(),), HERE), driver=driver)
    assert ["result 9" in message for _, message in notes(machine)] == [True]
    mismatch = DriverFacts(nvml_result=Known(18, HERE), cuda_init_result=Known(0, HERE))
    assert notes(Facts(gpus=Known((Gpu(),), HERE), driver=mismatch)) == []
    assert (
        notes(Facts(gpus=Known((Gpu(),), HERE), driver=DriverFacts(nvml_result=Known(9, HERE))))
        == []
    )


def test_tools_of_the_driver_that_hang_are_a_warning_where_cuda_starts() -> None:
    hangs = Unknown("timeout", "/usr/bin/nvidia-smi: no answer within 2.0 s")
    driver = DriverFacts(nvml_result=hangs, smi_exit_code=hangs, cuda_init_result=Known(0, HERE))
    ((severity, message),) = notes(Facts(gpus=Known((Gpu(),), HERE), driver=driver))
    assert severity == "warning"
    assert "driver.smi_exit_code, driver.nvml_result: /usr/bin/nvidia-smi: no answer" in message
    assert message.endswith("CUDA starts, but what monitors or schedules the GPUs will hang, too.")


def test_a_reason_that_a_check_waited_for_is_said_once() -> None:
    hangs = Unknown("timeout", "/usr/bin/nvidia-smi: no answer within 2.0 s")
    driver = DriverFacts(release=hangs, kernel_module_version=hangs, smi_exit_code=hangs)
    report = evaluate(Context(Facts(gpus=Known((Gpu(),), HERE), driver=driver), load_matrix()))
    about_smi = [item for item in report.findings if "nvidia-smi" in item.message]
    assert [(item.id, item.severity) for item in about_smi] == [("probe-failed", "error")]


def test_what_shows_only_at_run_is_a_note_that_names_what_waits_for_it() -> None:
    (found,) = [
        item
        for item in evaluate(
            context(gpu(), driver=driver(device_nodes=AT_RUN, cuda_init_result=AT_RUN))
        ).findings
        if item.message.startswith("Shows only")
    ]
    assert (found.id, found.verdict, found.severity) == ("probe-failed", UNDETERMINED, NOTE)
    assert found.message == "Shows only when the environment runs: driver.device_nodes."
    assert [(item.fact, item.shown) for item in found.evidence] == [
        ("driver.device_nodes", AT_RUN.detail),
        ("not decided before", "driver-device-nodes"),
    ]
    assert not is_unstated(found)


def test_a_fact_that_a_description_leaves_open_is_unstated() -> None:
    unstated = Evidence("driver.release", f"failed: {NOT_STATED.detail}")
    other = Evidence("gpus", "timeout: it hung")
    waiting = Finding("probe-failed", UNDETERMINED, ERROR, "Could not read it.", (unstated,))
    assert is_unstated(waiting)
    assert not is_unstated(replace(waiting, evidence=(unstated, other)))
    assert not is_unstated(replace(waiting, id="driver-missing"))
