"""ENVCHECK_* variables replace decisive facts, and an invalid one is never ignored."""

from __future__ import annotations

import pytest

from envcheck.model import Facts, Gpu, Known, Source, Unknown
from envcheck.probes.collection import apply_overrides

TWO = Facts(
    gpus=Known((Gpu(nvml_index=Known(0, Source("library", "x"))), Gpu()), Source("library", "x"))
)


def capabilities(facts: Facts) -> list[str | None]:
    return [gpu.compute_capability.value for gpu in facts.gpus.value or ()]


def test_without_overrides_nothing_changes() -> None:
    assert (
        apply_overrides(TWO, {"CONDA_OVERRIDE_CUDA": "11.8", "UV_CUDA_DRIVER_VERSION": "12.1"})
        == TWO
    )


def test_every_override() -> None:
    environment = {
        "ENVCHECK_DRIVER_RELEASE": "550.163.01",
        "ENVCHECK_CUDA_DRIVER_VERSION": " 12.4 ",
        "ENVCHECK_COMPUTE_CAPABILITIES": "8.0, 8.6",
        "ENVCHECK_GLIBC": "2.31",
    }
    facts = apply_overrides(Facts(), environment)
    assert facts.driver.release == Known(
        "550.163.01", Source("override", "ENVCHECK_DRIVER_RELEASE", "550.163.01")
    )
    assert facts.driver.cuda_driver_version.value == "12.4"
    assert facts.host.libc_version.value == "2.31"
    assert facts.host.libc_kind.value == "glibc"
    assert capabilities(facts) == ["8.0", "8.6"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("8.0,8.6", ["8.0", "8.6"]), ("9.0", ["9.0", None]), ("7.5,7.5,10.0", ["7.5", "7.5", "10.0"])],
)
def test_capabilities_apply_in_order(value: str, expected: list[str | None]) -> None:
    facts = apply_overrides(TWO, {"ENVCHECK_COMPUTE_CAPABILITIES": value})
    assert capabilities(facts) == expected
    assert (facts.gpus.value or ())[0].nvml_index.value == 0


@pytest.mark.parametrize("value", ["", "eight", "8", "8.0;8.6", "sm_80"])
def test_malformed_capabilities(value: str) -> None:
    gpus = apply_overrides(TWO, {"ENVCHECK_COMPUTE_CAPABILITIES": value}).gpus
    assert isinstance(gpus, Unknown)
    assert gpus.why == "unparsable"


@pytest.mark.parametrize("value", ["", "new", "550", "12.4; rm"])
def test_malformed_versions(value: str) -> None:
    names = ("ENVCHECK_DRIVER_RELEASE", "ENVCHECK_CUDA_DRIVER_VERSION", "ENVCHECK_GLIBC")
    facts = apply_overrides(Facts(), dict.fromkeys(names, value))
    for fact in (facts.driver.release, facts.driver.cuda_driver_version, facts.host.libc_version):
        assert isinstance(fact, Unknown)
        assert fact.why == "unparsable"
