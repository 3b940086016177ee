"""Two distributions of one module: beside the frameworks, and of ONNX Runtime."""

from __future__ import annotations

import pytest

from tests.rules.factory_toolkit import findings, judged, machine, torch
from tests.typed import argv

ID = "framework-duplicate-dists"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("cupy-cuda11x", "cupy-cuda12x"), ["warning"]),
        (("onnxruntime", "onnxruntime-gpu"), ["warning"]),
        (("onnxruntime-gpu", "onnxruntime-extensions"), []),
        (("onnxruntime-gpu", "cupy-cuda12x"), []),
        (("onnxruntime",), []),
    ],
)
def test_each_module_comes_once(names: tuple[str, ...], expected: list[str]) -> None:
    facts = machine(torch(), distributions=dict.fromkeys(names, "1.17.1"))
    assert judged(facts, ID) == [(ID, "incompatible", severity) for severity in expected]


def test_the_build_for_the_gpu_is_kept() -> None:
    facts = machine(torch(), distributions={"onnxruntime": "1.17.3", "onnxruntime-gpu": "1.17.1"})
    fix = findings(facts, ID)[0].fix
    assert fix is not None
    assert fix.summary.endswith("then install only onnxruntime-gpu==1.17.1.")
    assert argv(fix.actions[-1])[-1] == "onnxruntime-gpu==1.17.1"
