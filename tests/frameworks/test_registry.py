"""The registry, and what every framework has to have; an unknown one is an error of every command that takes one."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from envcheck.cli.group import run
from envcheck.frameworks import (
    Framework,
    UnknownFrameworkError,
    all_frameworks,
    framework,
    framework_names,
    framework_of,
    identities,
)
from envcheck.host.data_files import read_data
from envcheck.matrix.load import load_matrix
from envcheck.model import UserError, list_fields
from tests.matrix.documents import document

KNOWN = "it knows tensorflow, torch, jax, onnxruntime"


def test_an_unknown_framework_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(
        UnknownFrameworkError, match="'mxnet' is no framework that envcheck knows; " + KNOWN
    ):
        framework("mxnet")


@pytest.mark.parametrize(
    "arguments",
    [
        ["smoke", "--framework", "mxnet"],
        ["doctor", "--for", "mxnet", "--no-snapshot"],
        ["plan", "mxnet"],
        ["install", "mxnet", "--env", "nowhere"],
        ["matrix", "show", "mxnet"],
        ["matrix", "query", "--framework", "mxnet"],
        ["matrix", "refresh", "--framework", "mxnet"],
        ["matrix", "verify", "--framework", "mxnet"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_every_command_refuses_an_unknown_framework(arguments: list[str]) -> None:
    with pytest.raises(UserError, match=r"mxnet.*tensorflow.*torch.*jax.*onnxruntime"):
        run(arguments)


def test_a_framework_that_only_a_users_matrix_has_is_no_tensorflow(tmp_path: Path) -> None:
    changed = {**document(), "releases": {"mxnet": document()["releases"]["torch"]}}
    changed["frameworks"] = {"mxnet": {"distributions": [{"module": "torch", "name": "torch"}]}}
    file = tmp_path / "matrix.json"
    file.write_text(json.dumps(changed), encoding="utf-8")
    asked = [
        "plan",
        "torch",
        "--matrix",
        str(file),
        "--python",
        "3.12",
        "--driver",
        "580.65.06",
        "--gpu",
        "H100",
    ]
    with pytest.raises(
        UserError, match="'mxnet' is a framework of this matrix alone; envcheck judges "
    ):
        run(asked)


@pytest.mark.parametrize(
    ("distribution", "name"),
    [
        ("tensorflow-cpu-aws", "tensorflow"),
        ("torch", "torch"),
        ("torchvision", ""),
        ("jaxlib", "jax"),
        ("jax-cuda12-plugin", "jax"),
        ("jax-cuda13-pjrt", "jax"),
        ("onnxruntime-directml", "onnxruntime"),
        ("onnxruntime-extensions", ""),
    ],
)
def test_distributions_belong_to_their_framework(distribution: str, name: str) -> None:
    assert framework_of(distribution) == name


@pytest.mark.parametrize("known", all_frameworks(), ids=lambda known: known.name)
def test_a_row_has_only_cells_that_the_protocol_declares(known: Framework) -> None:
    row = json.loads(read_data("frameworks/identity.json"))["frameworks"][known.name]
    declared = {
        name for kind in type(known).__mro__ for name in getattr(kind, "__annotations__", {})
    }
    assert set(row) <= declared
    for role in ("cuda", "files", "plans", "wheels", "logs", "smoke"):
        assert set(row.get(role, {})) <= set(list_fields(getattr(known, role)))
    assert {"title", "distributions", "plans"} <= set(row)
    assert "gpu_distributions" in row["plans"]
    if "wheels" in row:
        assert {"distributions", "first_release"} <= set(row["wheels"])
        assert "cpu_distributions" in row["plans"]


@pytest.mark.parametrize("known", all_frameworks(), ids=lambda known: known.name)
def test_the_matrix_names_the_same_distributions(known: Framework) -> None:
    listed: dict[str, Any] = document()["frameworks"].get(known.name, {})
    for item in listed.get("distributions", ()):
        assert known.owns(item["name"]), item
        assert item["module"] in {
            known.module_of(item["name"]),
            *known.namespaces,
        } or known.is_plugin(item["name"])
    matrix = load_matrix()
    asked = (
        *known.plans.gpu_distributions,
        *known.plans.cpu_distributions,
        *known.wheels.distributions,
    )
    assert {matrix.framework_of(name) for name in asked} == {known.name}
    assert {row.distribution for row in matrix.releases(known.name)}.issuperset(
        known.plans.gpu_distributions
    )


@pytest.mark.parametrize("known", all_frameworks(), ids=lambda known: known.name)
def test_the_line_that_lists_gpus_is_python_that_imports_the_framework(known: Framework) -> None:
    tree = ast.parse(known.plans.gpu_listing)
    (first, *_) = [node for node in tree.body if isinstance(node, ast.Import)]
    assert [(item.name, item.asname) for item in first.names] == [
        (known.name.replace("-", "_"), "t")
    ]
    assert "d" in {node.targets[0].id for node in tree.body if isinstance(node, ast.Assign)}  # type: ignore[attr-defined]
    assert "'" not in known.plans.gpu_listing.replace("'", '"'), (
        "one kind of quote: shells print it best"
    )


def test_names_are_told_without_loading_a_framework() -> None:
    assert tuple(item.name for item in identities()) == framework_names()
    assert [item.title for item in identities()] == [item.title for item in all_frameworks()]
