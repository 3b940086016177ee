"""Where TensorFlow 1 computed, by a run's own statistics; TensorFlow is a stand-in."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from tests.smoke.children import Heard, import_child

GPU = "/job:localhost/replica:0/task:0/device:GPU:0"


class Session:
    """A session whose run tells which nodes ran where."""

    def __init__(self, nodes: list[tuple[str, str]]) -> None:
        self._nodes = nodes

    def run(self, product: Any, fed: Any, options: Any, run_metadata: Any) -> str:
        run_metadata.step_stats = SimpleNamespace(
            dev_stats=[
                SimpleNamespace(device=device, node_stats=[SimpleNamespace(node_name=name)])
                for device, name in self._nodes
            ]
        )
        return "value"


def tensorflow(nodes: list[tuple[str, str]]) -> Any:
    config = SimpleNamespace(gpu_options=SimpleNamespace(), device_count={})
    options = SimpleNamespace(SOFTWARE_TRACE=1)
    return SimpleNamespace(
        errors=SimpleNamespace(InvalidArgumentError=ValueError),
        RunMetadata=SimpleNamespace,
        RunOptions=type(
            "RunOptions", (), {**vars(options), "__init__": lambda self, trace_level: None}
        ),
        ConfigProto=lambda **_: config,
        Session=lambda config: nullcontext(Session(nodes)),
    )


@pytest.mark.parametrize(
    ("nodes", "place"),
    [
        ([("/job:localhost/replica:0/task:0/device:CPU:0", "_SOURCE"), (GPU, "product")], "GPU:0"),
        ([(f"{GPU}/stream:all", "product:MatMul"), (GPU, "product:MatMul")], "GPU:0"),
        # Folded: the product was made on the CPU before the graph ran, and the GPU holds a
        # constant.
        ([(GPU, "product/_0__cf__0")], "no device TensorFlow names"),
    ],
)
def test_what_did_not_run_has_no_place(
    nodes: list[tuple[str, str]], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    product = SimpleNamespace(op=SimpleNamespace(name="product"), device=GPU)
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow(nodes))
    engine = import_child(monkeypatch, "check_tensorflow1").Engine()
    engine.before_import(Heard("GPU-1", "quick").report)
    engine.load()
    assert engine.run_traced(product, {}) == ("value", place)
