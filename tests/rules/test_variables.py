"""Environment variables that end an import or a first use, hide the GPU, change results, or rescue."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import COMPATIBLE, ERROR, NOTE, WARNING, Absent, Finding, UnknownWord
from tests.rules.factory_python import build, context, distribution, facts, findings, known
from tests.typed import argv, judged

ID = "environment-variable"
JAX = (distribution("jax", "0.6.2"), distribution("jaxlib", "0.6.2"))
BUILDS = {
    "jax": (build("jax", "0.6.2", "jaxlib", cuda_build=known(value=True)),),
    "tensorflow": (build("tensorflow", "2.18.1"),),
    "torch": (build("torch", "2.15.0"),),
}
INSTALLED = {
    "jax": JAX,
    "tensorflow": (
        distribution("tensorflow", "2.18.1"),
        distribution("protobuf", "5.29.6"),
        distribution("keras", "3.15.1"),
    ),
    "torch": (distribution("torch", "2.15.0"),),
}


def told(framework: str, name: str, value: str, **more: Any) -> list[Finding]:
    machine = facts(
        *BUILDS[framework],
        distributions=INSTALLED[framework],
        host={"environment": known({name: value})},
        **more,
    )
    return findings(ID, context(machine))


# Each was seen to end the import, or the first use, of these frameworks.
ENDING = (
    ("jax", "JAX_PLATFORMS", "cuda"),
    ("jax", "JAX_PLATFORMS", "tpu"),
    ("jax", "JAX_PLATFORMS", "cpu,"),
    ("jax", "JAX_PLATFORMS", "CPU"),
    ("jax", "JAX_PLATFORMS", "cpu, cuda"),
    ("jax", "JAX_PLATFORM_NAME", "gpu"),
    ("jax", "JAX_ENABLE_X64", "maybe"),
    ("jax", "JAX_ENABLE_X64", ""),
    ("jax", "JAX_LOGGING_LEVEL", "debug"),
    ("jax", "XLA_FLAGS", "--bogus"),
    ("tensorflow", "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "cpp"),
    ("tensorflow", "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", ""),
    ("tensorflow", "KERAS_BACKEND", "bogus"),
    ("tensorflow", "TF_XLA_FLAGS", "--bogus"),
    ("torch", "TORCH_DISTRIBUTED_DEBUG", "bogus"),
    ("torch", "PYTORCH_CUDA_ALLOC_CONF", "bogus"),
    ("torch", "TORCH_LOGS", ""),
    ("torch", "PYTHONMALLOC", "bogus"),
)
# Each was seen to work.
WORKING = (
    ("jax", "JAX_PLATFORMS", "cuda,cpu"),
    ("jax", "JAX_PLATFORMS", ""),
    ("jax", "JAX_PLATFORMS", "cpu"),
    ("jax", "JAX_ENABLE_X64", "True"),
    ("jax", "JAX_TRACEBACK_FILTERING", "auto"),
    ("jax", "XLA_FLAGS", "--xla_force_host_platform_device_count=4"),
    ("tensorflow", "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python"),
    ("tensorflow", "KERAS_BACKEND", ""),
    ("torch", "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
    ("torch", "TORCH_DISTRIBUTED_DEBUG", "detail"),
    ("torch", "JAX_ENABLE_X64", "maybe"),
)


@pytest.mark.parametrize(("framework", "name", "value"), ENDING)
def test_a_value_that_ends_it_is_said(framework: str, name: str, value: str) -> None:
    (finding,) = told(framework, name, value, gpus=Absent())
    assert (finding.id, finding.severity) == (ID, ERROR)
    assert f"{name}={value!r} ends " in finding.message
    assert finding.stops in ("import", "use")


@pytest.mark.parametrize(("framework", "name", "value"), WORKING)
def test_a_value_that_works_is_not_said(framework: str, name: str, value: str) -> None:
    assert told(framework, name, value, gpus=Absent()) == []


def test_jax_on_the_cpu_beside_a_gpu() -> None:
    machine = facts(
        *BUILDS["jax"], distributions=JAX, host={"environment": known({"JAX_PLATFORMS": "cpu"})}
    )
    (finding,) = findings("visible-devices-hidden", context(machine))
    assert (finding.id, finding.severity) == ("visible-devices-hidden", ERROR)
    assert told("jax", "JAX_PLATFORMS", "cuda") == []


def test_words_that_the_installed_release_does_not_have() -> None:
    word = UnknownWord("XLA_FLAGS", "xla_bogus", "jaxlib", "0.6.2", "/env/libjax_common.so")
    (finding,) = told("jax", "XLA_FLAGS", "--xla_bogus", unknown_words=known((word,)))
    assert finding.message == (
        "XLA_FLAGS names xla_bogus, which jaxlib 0.6.2 does not have: it ends the first use of jax."
    )


def test_what_changes_results_is_a_note() -> None:
    (finding,) = told("torch", "NVIDIA_TF32_OVERRIDE", "1")
    assert (finding.verdict, finding.severity) == (COMPATIBLE, NOTE)


def test_a_variable_that_rescues() -> None:
    """TensorFlow 2.8 with protobuf 4.21 works as long as protobuf is pure Python."""
    installed = (distribution("tensorflow", "2.8.0"), distribution("protobuf", "4.21.1"))
    name = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
    for value, severity in (("upb", ERROR), ("python", WARNING)):
        machine = facts(
            build("tensorflow", "2.8.0"),
            distributions=installed,
            host={"environment": known({name: value})},
            gpus=Absent(),
            version=known("3.10.4"),
        )
        found = judged(context(machine), "protobuf-conflict").findings
        assert [item.severity for item in found if item.id == "protobuf-conflict"] == [severity]


@pytest.mark.parametrize(
    ("version", "name", "value", "severity"),
    [
        ("3.13.0", "PYTHON_CPU_COUNT", "abc", ERROR),
        ("3.13.0", "PYTHON_CPU_COUNT", "4", ""),
        ("3.11.7", "PYTHON_CPU_COUNT", "abc", ""),
        ("3.13.0", "PYTHON_GIL", "0", WARNING),
        ("3.13.0", "PYTHON_GIL", "1", ""),
        ("3.11.7", "ATEN_CPU_CAPABILITY", "default", NOTE),
    ],
)
def test_variables_that_a_release_reads(version: str, name: str, value: str, severity: str) -> None:
    found = told("torch", name, value, version=known(version))
    assert [item.severity for item in found] == ([severity] if severity else [])


@pytest.mark.parametrize(("value", "expected"), [("tcp://10.0.0.1:8000", [WARNING]), ("8000", [])])
def test_a_service_that_is_called_vllm_breaks_vllm(value: str, expected: list[str]) -> None:
    """Kubernetes sets VLLM_PORT to its address."""
    machine = facts(
        *BUILDS["torch"],
        distributions=(*INSTALLED["torch"], distribution("vllm", "0.11.0")),
        host={"environment": known({"VLLM_PORT": value})},
    )
    found = findings(ID, context(machine))
    assert [item.severity for item in found] == expected


@pytest.mark.parametrize(
    ("value", "keras", "beside", "expected"),
    [
        ("1", "3.15.1", "", [ERROR]),
        ("0", "3.15.1", "", []),
        ("1", "2.15.0", "", []),
        ("1", "3.15.1", "tf-keras", []),
    ],
)
def test_keras_2_is_asked_for_and_not_there(
    value: str, keras: str, beside: str, expected: list[str]
) -> None:
    items = [distribution("tensorflow", "2.18.1"), distribution("keras", keras)]
    items += [distribution(beside, "2.18.0")] if beside else []
    environment = known({"TF_USE_LEGACY_KERAS": value})
    machine = facts(
        *BUILDS["tensorflow"], distributions=tuple(items), host={"environment": environment}
    )
    found = findings(ID, context(machine))
    assert [item.severity for item in found] == expected
    if found:
        assert found[0].fix is not None
        assert "tf-keras==2.18.*" in argv(found[0].fix.actions[0])
