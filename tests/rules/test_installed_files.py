"""Damaged files and interrupted installations, judged by what the real import of each release loads."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.actions import ReinstallPackages, RunEnvcheck
from envcheck.diagnosis import diagnose
from envcheck.frameworks import all_frameworks, companions
from envcheck.model import (
    ERROR,
    FAILED,
    IMPORT,
    NOT_COLLECTED,
    NOTE,
    PIP,
    UV,
    WARNING,
    Absent,
    FileFault,
    Finding,
    FrameworkBuild,
    ImportTest,
    InstallLeftover,
    Known,
    LinkFault,
    replace,
)
from envcheck.model.fixes import ReinstallFiles
from envcheck.rules import Context, Target
from envcheck.rules.python import LoadedDistribution, load_imports, normalize_path
from tests.rules.factory_python import SOURCE, build, distribution, facts, known, matrix

TORCH = (distribution("torch", "2.13.0+cpu"), distribution("numpy", "2.4.6"))


def findings(
    distributions: tuple[Any, ...] = TORCH, goal: str = "cpu", **python: Any
) -> list[Finding]:
    name = distributions[0].name.removesuffix("-cpu") if distributions else ""
    builds: list[FrameworkBuild] = [build(name, distributions[0].version)] if name else []
    given = facts(*builds, distributions=distributions, **python)
    report = diagnose(Context(given, matrix(), Target(goal)))
    return [
        item
        for item in report.findings
        if item.id.startswith("install-") or item.id == "probe-failed"
    ]


def damaged(
    *paths: str, kind: str = "missing", owner: str = "torch", release: str = "2.13.0+cpu"
) -> Finding:
    faults = tuple(FileFault(owner, release, path, kind, "pip", "/env") for path in paths)
    (finding,) = findings(file_faults=known(faults))
    return finding


@pytest.mark.parametrize(
    ("path", "kind", "severity"),
    [
        ("torch/lib/libtorch_cpu.so", "missing", ERROR),
        ("torch/lib/libtorch_python.so", "truncated", ERROR),
        ("torch/_C.cpython-311-x86_64-linux-gnu.so", "empty", ERROR),
        ("torch/nn/functional.py", "empty", ERROR),
        ("torch/nn/functional.py", "truncated", ERROR),
        ("torch/utils/tensorboard/writer.py", "truncated", WARNING),
        ("torch/signal/__init__.py", "missing", WARNING),
        ("torch/ao/nn/sparse/__init__.py", "missing", ERROR),
        ("torch/signal", "missing", ERROR),
        ("torch/autograd", "missing", ERROR),
        ("torch/__init__.py", "missing", ERROR),
        ("torch", "missing", ERROR),
        ("torch/utils/tensorboard/writer.py", "missing", WARNING),
        ("torch/lib/libnever_seen.so", "missing", WARNING),
    ],
)
def test_a_fault_is_an_error_where_the_import_loads_the_file(
    path: str, kind: str, severity: str
) -> None:
    finding = damaged(path, kind=kind)
    assert (finding.id, finding.severity) == ("install-damaged", severity)
    assert path in finding.message


def test_files_of_what_the_framework_loads_count_too() -> None:
    assert damaged("numpy/_core/multiarray.py", owner="numpy", release="2.4.6").severity == ERROR
    assert damaged("numpy/f2py/rules.py", owner="numpy", release="2.4.6").severity == WARNING


@pytest.mark.parametrize(
    ("path", "severity"),
    [
        ("requests/certs.py", ERROR),
        ("requests/__init__.py", WARNING),
        ("requests/help.py", WARNING),
    ],
)
def test_what_an_import_was_seen_to_die_without_counts_but_for_packages_that_may_be_empty(
    path: str, severity: str
) -> None:
    items = (
        distribution("tensorflow-cpu", "2.20.0"),
        distribution("requests", "2.34.2", modules=("requests",)),
    )
    fault = FileFault("requests", "2.34.2", path, "missing", "pip", "/env")
    finding = next(
        each
        for each in findings(items, file_faults=known((fault,)))
        if each.id == "install-damaged"
    )
    assert finding.severity == severity


@pytest.mark.parametrize(
    ("owner", "release", "path", "kind", "severity"),
    [
        ("torchvision", "0.17.2", "torchvision/models/_api.py", "missing", ERROR),
        ("torchvision", "0.20.1+cu124", "torchvision/ops/boxes.py", "missing", ERROR),
        ("torchvision", "0.17.2", "torchvision/__init__.py", "empty", ERROR),
        ("torchvision", "0.17.2", "torchvision", "missing", ERROR),
        # a warning of its import, too
        ("torchvision", "0.17.2", "torchvision/image.so", "missing", WARNING),
        ("torchvision", "0.17.2", "torchvision/datasets/never_seen.py", "missing", WARNING),
        ("pillow", "13.0.0", "pillow.libs/libzstd-40ad5e7e.so.1.5.7", "missing", ERROR),
        ("sympy", "1.14.0", "sympy/printing/str.py", "truncated", ERROR),
        ("sympy", "1.14.0", "sympy/printing/str.py", "missing", ERROR),
        ("torch", "2.2.2", "torch/_dynamo/eval_frame.py", "missing", ERROR),
    ],
)
def test_an_error_is_also_what_the_import_of_a_companion_loads(
    owner: str, release: str, path: str, kind: str, severity: str
) -> None:
    releases = {
        "torch": "2.2.2",
        "torchvision": "0.17.2",
        "pillow": "13.0.0",
        "sympy": "1.14.0",
        owner: release,
    }
    modules = {"pillow": ("PIL",)}
    installed = tuple(
        distribution(name, each, modules=modules.get(name, (name,)))
        for name, each in releases.items()
    )
    fault = FileFault(owner, release, path, kind, "pip", "/env")
    (finding,) = findings(installed, file_faults=known((fault,)), pip_version=known("25.0"))
    assert (finding.id, finding.severity) == ("install-damaged", severity)
    assert finding.fix is not None
    if severity == ERROR:
        assert finding.message.endswith("`import torchvision` needs it.")
        assert finding.fix.actions[-1].check().argv[-1] == "import torchvision"
    alone = tuple(item for item in installed if item.name != "torchvision")
    if owner != "torchvision":
        (finding,) = findings(alone, file_faults=known((fault,)))
        assert finding.severity == WARNING


def test_a_companion_is_imported_by_its_module() -> None:
    installed = (distribution("tensorflow", "2.18.1"), distribution("tensorflow-text", "2.18.1"))
    fault = FileFault(
        "tensorflow-text", "2.18.1", "tensorflow_text/__init__.py", "missing", "pip", "/env"
    )
    given = facts(
        build("tensorflow", "2.18.1"), distributions=installed, file_faults=known((fault,))
    )
    report = diagnose(Context(given, matrix(), Target("cpu")))
    (finding,) = (item for item in report.findings if item.id == "install-damaged")
    assert (finding.severity, finding.message.endswith("`import tensorflow_text` needs it.")) == (
        ERROR,
        True,
    )


def test_several_damaged_distributions_are_one_finding_with_one_reinstallation_for_each_index() -> (
    None
):
    faults = (
        FileFault("torch", "2.13.0+cpu", "torch/_C.so", "missing"),
        FileFault("numpy", "2.4.6", "numpy", "missing"),
    )
    (finding,) = findings(file_faults=known(faults), pip_version=known("25.0"))
    assert finding.fix is not None
    assert finding.fix.actions == (
        ReinstallPackages(
            ("torch==2.13.0",),
            "/env/bin/python",
            PIP,
            "https://download.pytorch.org/whl/cpu",
            modules=("torch",),
        ),
        ReinstallPackages(("numpy==2.4.6",), "/env/bin/python", modules=("torch",)),
    )


def test_uv_reinstalls_where_it_installed_and_no_pip_is_there() -> None:
    by_uv = (distribution("torch", "2.2.2", installer="uv"),)
    faults = (FileFault("torch", "2.2.2", "torch/_C.so", "missing", "uv"),)
    (finding,) = findings(by_uv, file_faults=known(faults), pip_version=Absent(("pip",)))
    assert finding.fix is not None
    (action,) = finding.fix.actions
    assert isinstance(action, ReinstallPackages)
    assert action.installer == UV
    assert "--reinstall" in action.command()
    assert action.check().argv[-1] == "import torch"


def test_removed_tests_are_no_fault() -> None:
    fault = FileFault("torch", "2.13.0+cpu", "torch/test/x.py", "missing")
    assert findings(file_faults=known((fault,))) == []


def test_an_older_snapshot_did_not_collect_the_files_which_is_a_note() -> None:
    (finding,) = findings(file_faults=NOT_COLLECTED)
    assert (finding.id, finding.severity) == ("probe-failed", NOTE)


@pytest.mark.parametrize(
    ("command", "printed"),
    # "": its journal is gone
    [("envcheck install --resume --env /env", ("install", "--resume")), ("", ("fix",))],
)
def test_a_marker_is_settled_by_envcheck(command: str, printed: tuple[str, ...]) -> None:
    left = InstallLeftover("/env/.envcheck-incomplete", "marker", command=command)
    (finding,) = findings(install_leftovers=known((left,)))
    assert (finding.id, finding.severity, finding.primary) == ("install-interrupted", ERROR, True)
    assert finding.fix is not None
    (action,) = finding.fix.actions
    assert isinstance(action, RunEnvcheck)
    assert action.command()[: 1 + len(printed)] == ("envcheck", *printed)


def test_an_interrupted_installation_explains_the_damaged_files() -> None:
    left = InstallLeftover("/env/.envcheck-incomplete", "marker")
    fault = FileFault("torch", "2.13.0+cpu", "torch/_C.so", "missing")
    first, second = findings(install_leftovers=known((left,)), file_faults=known((fault,)))
    assert (first.id, second.caused_by) == ("install-interrupted", first.id)


def test_what_pip_left_is_replaced() -> None:
    left = InstallLeftover("/env/~orch-2.2.2.dist-info", "renamed", "torch", "2.2.2")
    (finding,) = findings(
        (distribution("torch", "2.2.2"),), install_leftovers=Known((left,), SOURCE)
    )
    assert finding.severity == ERROR
    assert finding.fix is not None
    assert "torch==2.2.2" in finding.fix.actions[0].command()


def test_what_pip_left_beside_the_files_that_the_import_needs_is_a_warning() -> None:
    left = known((InstallLeftover("/env/~orch-2.13.0.dist-info", "compared", "torch", "2.13.0"),))
    (finding,) = findings(install_leftovers=left, file_faults=known(()))
    assert finding.severity == WARNING
    fault = FileFault("torch", "2.13.0", "torch/_C.so", "missing")
    first, _ = findings(install_leftovers=left, file_faults=known((fault,)))
    assert (first.id, first.severity) == ("install-interrupted", ERROR)


def test_a_module_without_metadata_is_an_error_and_is_installed_again() -> None:
    left = InstallLeftover("/env/lib/python3.11/site-packages/torch", "unowned", "torch")
    (finding,) = findings((), install_leftovers=known((left,)))
    assert (finding.severity, finding.primary) == (ERROR, True)
    assert finding.fix is not None
    assert finding.fix.actions[-1].command()[-1] == "torch"
    (finding,) = findings((), install_leftovers=known((replace(left, release="2.13.0+cpu"),)))
    assert finding.fix is not None
    assert finding.fix.actions[-1].command()[-2:] == (
        "https://download.pytorch.org/whl/cpu",
        "torch==2.13.0",
    )


def test_metadata_without_record_is_a_warning_and_pip_replaces_it_without_removing() -> None:
    left = InstallLeftover("/env/torch-2.13.0.dist-info", "no-record", "torch", "2.13.0+cpu")
    (finding,) = findings(install_leftovers=known((left,)), pip_version=known("25.0"))
    assert finding.severity == WARNING
    assert finding.fix is not None
    assert "--ignore-installed" in finding.fix.actions[0].command()
    (other,) = findings(
        install_leftovers=known((replace(left, kind="no-metadata"),)), pip_version=known("25.0")
    )
    assert (
        other.message
        == "torch 2.13.0+cpu has no METADATA: its installation may have been interrupted."
    )
    assert (other.severity, other.fix) == (finding.severity, finding.fix)


def test_a_release_between_recorded_ones_loads_what_both_load_and_one_beyond_them_nothing() -> None:
    row = load_imports("torch")
    torch: LoadedDistribution = next(each for each in row.distributions if each.name == "torch")
    first, last = torch.releases[0], torch.releases[-1]
    between = torch.list_loaded("2.5.1")
    assert between == torch.list_loaded("2.4.1") & torch.list_loaded("2.6.0")
    assert "torch/nn/functional.py" in between
    assert "torch/lib/libtorch_cpu.so" in between
    assert torch.list_loaded("1.2.0") == torch.list_loaded(first), "of the major of the first one"
    assert torch.list_loaded(f"{last}.1") == torch.list_loaded(last)
    assert torch.list_loaded("0.4.1") == frozenset()
    assert torch.list_loaded(f"{int(last.partition('.')[0]) + 1}.0.0") == frozenset()


@pytest.mark.parametrize(
    "name", [*(item.name for item in all_frameworks() if item.wheels.distributions), *companions()]
)
def test_every_recorded_release_loads_its_own_package(name: str) -> None:
    row = next(each for each in load_imports(name).distributions if each.name == name)
    for release in row.releases:
        own = f"{name.replace('-', '_')}/__init__.py"
        assert {"tensorflow_core/__init__.py", own} & row.list_loaded(release), release


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("numpy/_core/_simd.cpython-311-x86_64-linux-gnu.so", "numpy/_core/_simd.so"),
        ("numpy.libs/libgfortran-040039e1.so.5.0.0", "numpy.libs/libgfortran.so"),
        ("jaxlib/_jax.pyd", "jaxlib/_jax.so"),
        ("optree/_C.abi3.so", "optree/_C.so"),
        ("torch/lib/libc10.so", "torch/lib/libc10.so"),
        ("six.py", "six.py"),
    ],
)
def test_a_path_is_written_as_every_python_and_build_names_it(path: str, name: str) -> None:
    assert normalize_path(path) == name


def test_what_the_loader_asks_for_is_needed_whatever_was_recorded() -> None:
    """A library of a release that no recorded import knows."""
    lost = FileFault("torch", "2.13.0+cpu", "torch/lib/libnew.so", "missing", "pip")
    link = LinkFault("torch", "missing-library", "torch/lib/libtorch.so", "libnew.so", stops=IMPORT)
    (finding,) = findings(file_faults=known((lost,)), link_faults=known((link,)))
    assert finding.severity == ERROR
    assert "`import torch` needs it" in finding.message


def test_what_was_edited_is_a_note_and_what_is_no_python_an_error() -> None:
    edited = FileFault("torch", "2.13.0+cpu", "torch/__init__.py", "edited", "pip")
    (note,) = findings(file_faults=known((edited,)))
    assert (note.id, note.severity) == ("install-damaged", NOTE)
    assert damaged("torch/__init__.py", kind="garbled").severity == ERROR


@pytest.mark.parametrize(
    ("kind", "severity", "words"),
    [
        ("optional", WARNING, "cannot be loaded; what imports it goes on without it."),
        ("lacking", ERROR, "lacks names that are needed; `import torch` needs it."),
        ("misplaced", ERROR, "holds another file's text; `import torch` needs it."),
    ],
)
def test_what_the_sources_near_a_damaged_file_say(kind: str, severity: str, words: str) -> None:
    found = damaged("torch/__init__.py", kind=kind)
    assert (found.severity, found.message.endswith(words)) == (severity, True)


def test_a_distribution_is_imported_by_the_name_of_its_framework() -> None:
    """Nothing is called tensorflow_cpu: the check of the step failed, and `fix` undid it."""
    path = "tensorflow/python/lost.py"
    lost = FileFault("tensorflow-cpu", "2.21.0", path, "missing", "pip", "/env")
    words = "ModuleNotFoundError: No module named 'tensorflow.python.lost'"
    dead = ImportTest("tensorflow-cpu", "2.21.0", "tensorflow", FAILED, printed=words)
    item = distribution("tensorflow-cpu", "2.21.0")
    finding, *_ = findings((item,), file_faults=known((lost,)), imports=known((dead,)))
    assert isinstance(finding.cure, ReinstallFiles)
    assert finding.cure.modules == "tensorflow"


def test_what_only_a_gpu_needs_stops_no_import_on_a_cpu() -> None:
    """JAX without its CUDA wheels, ONNX Runtime without the bridge to its providers: both were seen to work."""
    bridge = "onnxruntime/capi/libonnxruntime_providers_shared.so"
    ort = (distribution("onnxruntime", "1.32.0"), distribution("numpy", "2.4.6"))
    lost = FileFault("onnxruntime", "1.32.0", bridge, "missing", "pip")
    (finding,) = findings(ort, file_faults=known((lost,)), gpus=Absent())
    assert finding.severity == WARNING
    jax = (
        distribution("jax", "0.6.2"),
        distribution("jaxlib", "0.6.2"),
        distribution("nvidia-cublas-cu12", "12.8.4.1"),
    )
    wheel = FileFault("nvidia-cublas-cu12", "12.8.4.1", "nvidia", "missing", "pip")
    (finding,) = findings(jax, file_faults=known((wheel,)), gpus=Absent())
    assert finding.severity == WARNING
