"""Every file of data/ is decoded into its typed rows, and what does not fit is refused with file and row."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envcheck.check.installers import Installers
from envcheck.diff.facts import load_comparisons
from envcheck.explain.rule_page import LogLines
from envcheck.explain.signatures import load_signatures
from envcheck.gpus.fits import load_training_memory
from envcheck.host import data_files
from envcheck.host.data_files import DataError, load_data
from envcheck.host.known_variables import KnownVariables
from envcheck.install.preflight import measured_sizes
from envcheck.matrix.companions import (
    Companions,
    DatedSymbols,
    OldAbi,
    companion_row,
    load_companions,
    source_package,
)
from envcheck.matrix.documented_gpus import DocumentedGpusTable
from envcheck.matrix.images import load_base_images
from envcheck.matrix.package_index import PackageIndex
from envcheck.model import Citation, CudaWheels, GpuTable, dataclass, list_fields
from envcheck.plan.data import conda_builds_data, plan_data
from envcheck.probes.gpus import JetsonTable
from envcheck.probes.linking import Linking
from envcheck.remedies.repositories import RepositoryKeys
from envcheck.remedies.rows import MachineSteps
from envcheck.rules.catalogue import catalogue
from envcheck.rules.compilers import BuiltWhenUsed
from envcheck.rules.dependencies import EqualReleaseTable
from envcheck.rules.gpu_architecture import PartialCode, PtxasTable
from envcheck.rules.hardware import HealthSigns, XidTable
from envcheck.rules.python import Imports
from envcheck.rules.requirements import ExtraTable, PipTags, TriedRequirements

DATA = Path(__file__).parents[2] / "data"
TABLES: list[tuple[str, type]] = [
    ("frameworks/built_when_used", BuiltWhenUsed),
    ("evidence/log_lines", LogLines),
    ("advice/machine_steps", MachineSteps),
    ("packages/index", Companions),
    ("packages/documented_gpus", DocumentedGpusTable),
    ("nvidia/cuda_wheels", CudaWheels),
    ("program/environment_variables", KnownVariables),
    ("program/installers", Installers),
    ("frameworks/extras", ExtraTable),
    ("nvidia/gpus", GpuTable),
    ("frameworks/imports/jax-imports", Imports),
    ("frameworks/imports/onnxruntime-imports", Imports),
    ("frameworks/imports/tensorflow-imports", Imports),
    ("frameworks/imports/tensorflow-text-imports", Imports),
    ("frameworks/imports/torch-imports", Imports),
    ("frameworks/imports/torchaudio-imports", Imports),
    ("frameworks/imports/torchvision-imports", Imports),
    ("nvidia/jetson", JetsonTable),
    ("nvidia/bundled_ptxas", PtxasTable),
    ("frameworks/equal_releases", EqualReleaseTable),
    ("frameworks/linking", Linking),
    ("frameworks/partial_code", PartialCode),
    ("program/pip_tags", PipTags),
    ("frameworks/pytorch_index", PackageIndex),
    ("frameworks/requirements", TriedRequirements),
    ("frameworks/torch_abi", OldAbi),
    ("frameworks/torch_symbols", DatedSymbols),
    ("nvidia/gpu_health", HealthSigns),
    ("nvidia/repository_keys", RepositoryKeys),
    ("nvidia/xid", XidTable),
]
LOADERS: list[Callable[[], object]] = [
    load_base_images,
    catalogue,
    load_comparisons,
    conda_builds_data,
    load_signatures,
    measured_sizes,
    plan_data,
]


@dataclass
class Row:
    """A row of a made-up file."""

    name: str
    numbers: tuple[int, ...] = ()
    or_: str | None = None


@dataclass
class Table:
    """A made-up file."""

    rows: tuple[Row, ...]
    citation: Citation = Citation("a document")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    def load(content: dict[str, Any]) -> Table:
        monkeypatch.setattr(data_files, "_loaded", {})
        monkeypatch.setattr(data_files, "read_data", lambda name: json.dumps(content).encode())
        return load_data("made_up", Table)

    return load


@pytest.mark.parametrize(("name", "kind"), TABLES)
def test_a_shipped_file_fits_its_type(name: str, kind: type) -> None:
    assert list_fields(load_data(name, kind))


def test_shipped_files_with_a_function_of_their_own_fit_their_types() -> None:
    assert all(load() for load in LOADERS)
    assert load_training_memory().dtypes["int8"].trains is False
    assert companion_row("torchvision").frameworks == ("torch",)
    assert companion_row("numpy").frameworks == ()
    assert all(source_package(name) for name in load_companions().elsewhere)


def test_a_file_is_read_whole_into_rows(read: Any) -> None:
    table = read(
        {
            "schema": "x/1",
            "about": "for people",
            "rows": [{"name": "a", "numbers": [1, 2], "or": "b"}],
        }
    )
    assert table == Table((Row("a", (1, 2), "b"),))


def test_a_file_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_data("nvidia/jetson", JetsonTable)
    monkeypatch.setattr(data_files, "read_data", lambda name: pytest.fail(f"{name} is read again"))
    assert load_data("nvidia/jetson", JetsonTable) is first


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"name": "a"}, {"nme": "b"}], r"data/made_up.json: Table.rows\[1\]: unknown field 'nme'"),
        ([{"name": "a"}, {"numbers": []}], r"Table.rows\[1\]: Row lacks name"),
        (
            [{"name": "a", "numbers": [1, "2"]}],
            r"Table.rows\[0\].numbers\[1\]: expected int, found str",
        ),
        ([{"name": None}], r"Table.rows\[0\].name: expected str, found NoneType"),
        ([{"name": "a", "or": 3}], r"Table.rows\[0\].or: expected str, found int"),
        ({}, "Table.rows: expected a list, found dict"),
    ],
)
def test_what_does_not_fit_is_refused_with_file_and_row(read: Any, rows: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read({"rows": rows})


def test_an_archive_is_read_by_the_path_that_was_typed(tmp_path: Path) -> None:
    package, code = DATA.parent / "envcheck", "from envcheck.host.data_files import read_data\n"
    with zipfile.ZipFile(tmp_path / "one.pyz", "w") as archive:
        for file in (
            *package.glob("*.py"),
            *package.glob("host/*.py"),
            *package.glob("model/*.py"),
        ):
            archive.write(file, f"envcheck/{file.relative_to(package).as_posix()}")
        archive.writestr("envcheck/data/name.json", "{}")
        archive.writestr("__main__.py", code + "print(read_data('name.json').decode())\n")
    (tmp_path / "elsewhere").mkdir()
    for typed in ("../one.pyz", str(tmp_path / "one.pyz")):
        ended = subprocess.run(
            [sys.executable, typed],
            cwd=tmp_path / "elsewhere",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (ended.stdout, ended.stderr) == ("{}\n", "")
