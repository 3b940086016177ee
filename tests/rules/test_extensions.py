"""Do CUDA extensions fit the framework beside them, and is TensorRT there where it is asked for?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.model.facts import Unknown
from envcheck.model.python_env import Extension, FrameworkBuild
from tests.rules.factory_toolkit import HANGS, findings, judged, known, machine, tensorflow, torch

ID = "extension-build-mismatch"
MISMATCH = [(ID, "incompatible", "warning")]
PATH = "/env/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so"


def extension(*needed: str, path: str = PATH, name: str = "flash-attn") -> tuple[Extension, ...]:
    """Return one extension."""
    return (Extension(name, path, needed),)


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        (("libtorch.so", "libcudart.so.11.0"), MISMATCH),
        (("libtorch.so", "libcudart.so.12"), []),
        (("libc10_cuda.so",), []),
        (("libcudart.so.11.0",), []),  # no PyTorch extension: it may bring its own
    ],
)
def test_an_extension_of_another_cuda(needed: tuple[str, ...], expected: list[tuple[str, str, str]]) -> None:
    assert judged(machine(torch(), extensions=extension(*needed)), ID) == expected


def test_an_extension_of_another_cuda_before_a_cpu_build() -> None:
    cpu = FrameworkBuild("torch", "torch", "2.5.1+cpu", cuda_build=known(False))
    assert judged(machine(cpu, extensions=extension("libtorch.so", "libc10_cuda.so")), ID) == MISMATCH
    assert judged(machine(cpu, extensions=extension("libtorch.so", "libcudart.so.12")), ID) == MISMATCH
    assert judged(machine(cpu, extensions=extension("libtorch.so")), ID) == []


def test_an_extension_of_another_python() -> None:
    old = extension("libtorch.so", path="/env/mmcv/_ext.cpython-37m-x86_64-linux-gnu.so", name="mmcv")
    assert "Python 3.7" in findings(machine(torch(), extensions=old), ID)[0].message
    assert judged(machine(extensions=old), ID) == MISMATCH
    assert judged(machine(extensions=extension("libtorch.so")), ID) == []
    assert (
        judged(machine(torch(), extensions=extension("libtorch.so", path="/env/torch_scatter/_scatter_cuda.so")), ID)
        == []
    )


def test_nothing_to_compare_with() -> None:
    silent = torch("2.99.0", cuda_build=known(True), cuda_version=Unknown("failed", "not told"))
    assert judged(machine(silent, extensions=extension("libtorch.so", "libcudart.so.11.0")), ID) == []
    facts = machine(torch(), extensions=extension("libtorch.so", "libcudart.so.11.0"))
    assert judged(facts, ID, without=("toolkits", "12.4")) == []


def test_the_fix_builds_the_extension_anew() -> None:
    fix = findings(machine(torch(), extensions=extension("libtorch.so", "libcudart.so.11.0")), ID)[0].fix
    assert fix is not None
    assert fix.commands[0].argv[-1] == "flash-attn"
    odd = extension("libtorch.so", "libcudart.so.11.0", name="--evil")
    fix = findings(machine(torch(), extensions=odd), ID)[0].fix
    assert fix is not None
    assert fix.commands == ()


def test_tensorrt_only_where_it_is_asked_for() -> None:
    facts = machine(tensorflow("2.13.1"))
    assert judged(facts, "tensorrt-missing") == []
    asked = ("tensorflow[tensorrt]==2.13.1",)
    assert judged(facts, "tensorrt-missing", asked=asked) == [("tensorrt-missing", "incompatible", "note")]
    assert judged(replace(facts, tensorrt=known(("a copy",))), "tensorrt-missing", asked=asked) == []
    assert judged(replace(facts, tensorrt=HANGS), "tensorrt-missing", asked=asked) == [
        ("probe-failed", "undetermined", "error")
    ]
    assert judged(machine(torch("2.5.1")), "tensorrt-missing", asked=("torch[tensorrt]==2.5.1",)) == []
