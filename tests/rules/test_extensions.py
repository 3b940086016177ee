"""Do CUDA extensions fit the framework beside them, and is TensorRT there where it is asked for?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.model import Extension, FrameworkBuild, Unknown
from envcheck.rules import Context, Target, evaluate
from tests.rules.factory_machine import matrix
from tests.rules.factory_toolkit import HANGS, findings, judged, known, machine, tensorflow, torch
from tests.typed import argv

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
def test_an_extension_of_another_cuda(
    needed: tuple[str, ...], expected: list[tuple[str, str, str]]
) -> None:
    assert judged(machine(torch(), extensions=extension(*needed)), ID) == expected


def test_an_extension_of_another_cuda_before_a_cpu_build() -> None:
    cpu = FrameworkBuild("torch", "torch", "2.5.1+cpu", cuda_build=known(False))
    assert (
        judged(machine(cpu, extensions=extension("libtorch.so", "libc10_cuda.so")), ID) == MISMATCH
    )
    assert (
        judged(machine(cpu, extensions=extension("libtorch.so", "libcudart.so.12")), ID) == MISMATCH
    )
    assert judged(machine(cpu, extensions=extension("libtorch.so")), ID) == []


def test_an_extension_of_another_cuda_does_not_load_on_the_cpu_either() -> None:
    facts = machine(torch("2.15.0"), extensions=extension("libtorch.so", "libcudart.so.12"))
    report = evaluate(Context(facts, matrix(), Target("cpu")), frozenset((ID,)))
    assert [(item.id, item.severity) for item in report.findings if item.id == ID] == [
        (ID, "warning")
    ]


@pytest.mark.parametrize(
    ("name", "release", "requirements"),
    [
        (
            "xformers",
            "2.9.0",
            ("torch==2.9.0", "xformers==0.0.33.post1"),
        ),  # 0.0.33 was built for CUDA 13
        # any torch from 2.10 on, but CUDA 12
        ("xformers", "2.15.0", ("torch==2.10.0", "xformers==0.0.35")),
        ("torch-tensorrt", "2.14.0", ("torch==2.14.0", "torch-tensorrt==2.14.0")),
    ],
)
def test_the_remedy_names_releases_that_go_together(
    name: str, release: str, requirements: tuple[str, ...]
) -> None:
    needed = extension("libtorch.so", "libcudart.so.11.0", name=name, path=f"/env/{name}/_C.so")
    (finding,) = findings(machine(torch(release), extensions=needed), ID)
    assert finding.fix is not None
    assert argv(finding.fix.actions[-1])[-len(requirements) :] == requirements


def test_an_extension_of_another_python() -> None:
    old = extension(
        "libtorch.so", path="/env/mmcv/_ext.cpython-37m-x86_64-linux-gnu.so", name="mmcv"
    )
    assert "Python 3.7" in findings(machine(torch(), extensions=old), ID)[0].message
    assert judged(machine(extensions=old), ID) == MISMATCH
    assert judged(machine(extensions=extension("libtorch.so")), ID) == []
    assert (
        judged(
            machine(
                torch(),
                extensions=extension("libtorch.so", path="/env/torch_scatter/_scatter_cuda.so"),
            ),
            ID,
        )
        == []
    )


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("flash-attn", "2.5.8+cu122torch2.2cxx11abiFALSE", MISMATCH),
        ("flash-attn", "2.5.8+cu122torch2.5cxx11abiFALSE", []),
        ("torch-scatter", "2.1.2+pt21cu118", MISMATCH),
        ("torch-scatter", "2.1.2+pt25cu124", []),
        ("natten", "0.17.3+torch250cu124", []),
        ("torchvision", "0.20.1+cu118", MISMATCH),
        ("torchvision", "0.20.1+cu121", []),  # PyTorch compares the major alone
        ("torchvision", "0.20.1+cpu", MISMATCH),
        ("torchaudio", "0.5.0+cu92", MISMATCH),
        ("dgl", "2.1.0+cu118", []),  # nothing says that it extends PyTorch
        ("torchvision", "0.20.1", []),
    ],
)
def test_labels_of_another_build(
    name: str, version: str, expected: list[tuple[str, str, str]]
) -> None:
    facts = machine(torch("2.5.1+cu124"), distributions={name: version})
    assert judged(facts, ID) == expected
    assert judged(machine(distributions={name: version}), ID) == []


def test_a_label_beside_a_cpu_build() -> None:
    cpu = FrameworkBuild("torch", "torch", "2.5.1+cpu", cuda_build=known(False))
    assert judged(machine(cpu, distributions={"torchvision": "0.20.1+cu124"}), ID) == MISMATCH
    assert judged(machine(cpu, distributions={"torchvision": "0.20.1+cpu"}), ID) == []


def test_nothing_to_compare_with() -> None:
    silent = torch("2.99.0", cuda_build=known(True), cuda_version=Unknown("failed", "not told"))
    assert (
        judged(machine(silent, extensions=extension("libtorch.so", "libcudart.so.11.0")), ID) == []
    )
    facts = machine(torch(), extensions=extension("libtorch.so", "libcudart.so.11.0"))
    assert judged(facts, ID, without=("toolkits", "12.4")) == []


def test_the_fix_builds_the_extension_anew() -> None:
    apex = extension("libtorch.so", "libcudart.so.11.0", name="apex")
    fix = findings(machine(torch(), extensions=apex), ID)[0].fix
    assert fix is not None
    assert argv(fix.actions[0])[-1] == "apex"
    odd = extension("libtorch.so", "libcudart.so.11.0", name="--evil")
    fix = findings(machine(torch(), extensions=odd), ID)[0].fix
    assert fix is not None
    assert fix.actions == ()


def test_tensorrt_only_where_it_is_asked_for() -> None:
    facts = machine(tensorflow("2.13.1"))
    assert judged(facts, "tensorrt-missing") == []
    asked = ("tensorflow[tensorrt]==2.13.1",)
    assert judged(facts, "tensorrt-missing", asked=asked) == [
        ("tensorrt-missing", "incompatible", "note")
    ]
    assert (
        judged(replace(facts, tensorrt=known(("a copy",))), "tensorrt-missing", asked=asked) == []
    )
    assert judged(replace(facts, tensorrt=HANGS), "tensorrt-missing", asked=asked) == [], (
        "a note decides nothing"
    )
    assert (
        judged(machine(torch("2.5.1")), "tensorrt-missing", asked=("torch[tensorrt]==2.5.1",)) == []
    )
