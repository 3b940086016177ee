"""Rules on the GPU and the CPU themselves."""

from __future__ import annotations

import pytest

from envcheck.model import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    WARNING,
    Absent,
    Distribution,
    Fact,
    Unknown,
)
from envcheck.rules.context import UndecidedError
from tests.rules.factory_machine import NONE, UNREAD, build, context, driver, gpu, known, only, run


def test_no_gpu_is_a_note_unless_one_is_expected() -> None:
    assert (only("gpu-absent", context()).verdict, only("gpu-absent", context()).severity) == (
        COMPATIBLE,
        NOTE,
    )
    assert only("gpu-absent", context(expect="cpu")).severity == NOTE
    found = only("gpu-absent", context(expect="gpu"))
    assert (found.verdict, found.severity) == (INCOMPATIBLE, ERROR)
    assert run("gpu-absent", context(gpu(), expect="gpu")) == []


def test_unread_gpus_are_undetermined() -> None:
    with pytest.raises(UndecidedError, match="gpus"):
        run("gpu-absent", context(gpus=UNREAD))


LOST = Unknown("failed", "NVML (/usr/lib/libnvidia-ml.so.1), GPU 1: GPU is lost (15)")


def test_a_lost_gpu_is_a_hardware_fault() -> None:
    judged = context(
        gpu(), gpu(index=1, uuid=LOST, name=LOST), driver=driver(cuda_init_result=known(999))
    )
    found = only("gpu-hardware-fault", judged)
    assert found.severity == ERROR
    assert "GPU 1" in found.message
    unnumbered = gpu(uuid=LOST, nvml_index=NONE)
    assert "A100" in only("gpu-hardware-fault", context(unnumbered)).message


def test_a_lost_gpu_beside_working_ones_is_a_warning() -> None:
    assert only("gpu-hardware-fault", context(gpu(), gpu(index=1, uuid=LOST))).severity == WARNING


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nvml_result", 15),
        ("smi_exit_code", 8),
        ("cuda_init_result", 214),
        ("cuda_init_result", 220),
    ],
)
def test_codes_of_failing_hardware(name: str, code: int) -> None:
    failing = driver(**{"cuda_init_result": known(999), name: known(code)})
    found = only("gpu-hardware-fault", context(gpu(), driver=failing))
    assert found.evidence[0].fact == f"driver.{name}"


def test_other_refusals_are_no_hardware_fault() -> None:
    assert run("gpu-hardware-fault", context(gpu(), driver=driver(smi_exit_code=known(9)))) == []
    assert run("gpu-hardware-fault", context(gpu(uuid=UNREAD))) == []


OLD_CPU = {"cpu_flags": known(("sse", "sse2"))}
TENSORFLOW = build("2.15.0", "tensorflow")


def test_a_build_with_avx_on_a_cpu_without() -> None:
    found = only("cpu-missing-avx", context(host=OLD_CPU, builds=(TENSORFLOW,)))
    assert (found.severity, found.verdict) == (ERROR, INCOMPATIBLE)
    assert found.evidence[1].citation is not None
    assert found.fix is not None
    assert "tensorflow==1.5.1" in found.fix.alternatives[0].summary


def test_avx_is_asked_for_only_where_it_can_matter() -> None:
    assert run("cpu-missing-avx", context(builds=(TENSORFLOW,))) == []
    assert run("cpu-missing-avx", context(host=OLD_CPU)) == []
    arm = {"architecture": known("aarch64"), "cpu_flags": known(("asimd",))}
    assert run("cpu-missing-avx", context(host=arm, builds=(TENSORFLOW,))) == []
    from_conda = (Distribution("tensorflow", "2.15.0", installer="conda"),)
    assert (
        run(
            "cpu-missing-avx", context(host=OLD_CPU, builds=(TENSORFLOW,), distributions=from_conda)
        )
        == []
    )
    unread = {"cpu_flags": UNREAD}
    assert run("cpu-missing-avx", context(host=unread)) == []


# of a chroot: older snapshots called it absent
@pytest.mark.parametrize("flags", [UNREAD, Absent(("/proc/cpuinfo",))])
def test_flags_that_are_not_known_are_undetermined(flags: Fact[tuple[str, ...]]) -> None:
    with pytest.raises(UndecidedError, match=r"host\.cpu_flags"):
        run("cpu-missing-avx", context(host={"cpu_flags": flags}, builds=(TENSORFLOW,)))


def test_without_an_older_release_the_advice_names_none() -> None:
    judged = context(
        host=OLD_CPU, builds=(TENSORFLOW,), without=("releases", "tensorflow", "1.5.1")
    )
    fix = only("cpu-missing-avx", judged).fix
    assert fix is not None
    assert "1.5.1" not in fix.summary
