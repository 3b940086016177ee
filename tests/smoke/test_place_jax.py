"""What JAX's lists of devices come to; JAX and its plugins are stand-ins."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.smoke.children import Heard, import_child

CPU = SimpleNamespace(platform="cpu", device_kind="cpu")
H200 = SimpleNamespace(platform="gpu", device_kind="NVIDIA H200")


def jax_with(gpus: list[Any]) -> Any:
    def devices(kind: str = "") -> list[Any]:
        if kind == "gpu" and not gpus:
            raise RuntimeError(
                "Unknown backend: 'gpu' requested, but no platforms that are instances of gpu are present."
            )
        return [CPU] if kind == "cpu" else gpus or [CPU]

    return SimpleNamespace(devices=devices, default_backend=lambda: "gpu" if gpus else "cpu")


def listed(
    monkeypatch: pytest.MonkeyPatch,
    path: Path,
    *,
    gpus: list[Any],
    plugin: str = "",
    version: str = "0.11.2",
) -> tuple[Any, dict[str, Any]]:
    (path / "jax_plugins" / plugin).mkdir(parents=True)
    if plugin:
        (path / "jax_plugins" / plugin / "__init__.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(path)
    monkeypatch.setitem(sys.modules, "jaxlib", SimpleNamespace(__version__=version))
    heard = Heard("GPU-1")
    monkeypatch.setitem(sys.modules, "numpy", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "jax", jax_with(gpus))
    engine = import_child(monkeypatch, "check_jax").Engine()
    engine.load()
    with heard.report.step("devices") as step:
        names = engine.list_devices(heard.report, step)
    return names, heard.results["devices"]


def test_the_gpu_that_is_asked_for_is_listed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names, told = listed(monkeypatch, tmp_path, gpus=[H200], plugin="xla_cuda13")
    assert (names, told["outcome"]) == (["CPU:0", "GPU:0"], "passed")
    assert told["message"] == "CPU:0 (cpu), GPU:0 (NVIDIA H200)"


@pytest.mark.parametrize(
    ("plugin", "version", "finding"),
    [
        ("", "0.11.2", "framework-cpu-build"),
        ("libtpu", "0.11.2", "framework-cpu-build"),
        ("xla_cuda13", "0.11.2", ""),  # it is no CPU build: the log says why it found none
        ("", "0.4.13+cuda12.cudnn89", ""),
    ],
)
def test_a_plugin_without_a_gpu_is_no_cpu_build(
    plugin: str, version: str, finding: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names, told = listed(monkeypatch, tmp_path, gpus=[], plugin=plugin, version=version)
    assert (names, told["outcome"], told["finding"]) == (None, "failed", finding)
    assert told["message"] == "JAX lists 0 of 1 GPU"
