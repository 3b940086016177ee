"""Comparison of two machines: which difference comes first, its findings, and what does not matter."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from envcheck.diff.compare import Comparison, compare
from envcheck.diff.facts import Difference, list_needed_names, load_comparisons
from envcheck.model import (
    Absent,
    DeviceNode,
    Distribution,
    Extension,
    Facts,
    JupyterKernel,
    Known,
    Snapshot,
    Source,
    Unknown,
    replace,
)
from envcheck.rules import Target
from tests.hosts.test_hosts import NAMES, matrix, recording, snapshot_of

HEALTHY = "tensorflow-with-cuda-extra"


def diff(
    a: str | Snapshot, b: str | Snapshot, expect: str = "auto", *requirements: str
) -> Comparison:
    machines = [snapshot_of(item) if isinstance(item, str) else item for item in (a, b)]
    return compare(machines[0], machines[1], matrix(), Target(expect, requirements))


def first(found: Comparison) -> tuple[str, list[str]]:
    item = found.differences[0]
    return item.label, [link.id for link in item.findings if link.on == "b"]


def known(value: Any) -> Known[Any]:
    return Known(value, Source("file", "composed"))


def changed(name: str, section: str, **cells: Any) -> Snapshot:
    """Return a recording with some facts changed: a composed machine."""
    snapshot = snapshot_of(name)
    facts = snapshot.facts
    whole = replace(
        facts, **({section: replace(getattr(facts, section), **cells)} if section else cells)
    )
    return replace(snapshot, facts=whole)


# A machine that works, one that does not (both recordings in tests/hosts), the first difference and
# its finding.
PAIRS = [
    ("docker-with-gpu", "no-driver", "kernel module", "driver-missing"),
    (
        "wsl-healthy",
        "wsl-folder-off-loader-path",
        "libcuda off the loader's path",
        "libcuda-not-on-path",
    ),
    (
        HEALTHY,
        "tensorflow-2.21-loses-cusolver",
        "libcusolver.so.11 for tensorflow",
        "cuda-wheel-not-found",
    ),
    ("torch-wheels-need-no-toolkit", "cudnn-shadowed", "copies of cuDNN", "cudnn-shadowed"),
    ("torch-wheels-need-no-toolkit", "torch-cpu-beside-gpu", "torch", "framework-cpu-build"),
    (
        "torch-wheels-need-no-toolkit",
        "compute-mode-prohibited",
        "GPU 1 compute mode",
        "gpu-memory-held",
    ),
    ("tensorflow-cpu-without-gpu", "no-avx-cpu", "processor features", "cpu-missing-avx"),
    (
        "windows-torch-with-cuda",
        "windows-torch-without-cuda",
        "CUDA build of torch",
        "framework-cpu-build",
    ),
    ("windows-torch-with-cuda", "windows-driver-too-old", "driver release", "driver-too-old"),
    (
        "windows-torch-with-cuda",
        "windows-without-visual-c-runtime",
        "Visual C++ runtime",
        "msvc-runtime-missing",
    ),
    (
        "apple-silicon-tensorflow",
        "apple-silicon-tensorflow-under-rosetta",
        "architecture of Python",
        "python-wrong-arch",
    ),
    (
        "apple-silicon-tensorflow",
        "intel-python-on-apple-silicon",
        "architecture of Python",
        "python-wrong-arch",
    ),
]


@pytest.mark.parametrize(
    ("works", "broken", "label", "finding"), PAIRS, ids=[pair[1] for pair in PAIRS]
)
def test_the_cause_comes_first_with_its_finding(
    works: str, broken: str, label: str, finding: str
) -> None:
    target = recording(broken).get("target", {})
    found = diff(works, broken, target.get("expect", "auto"), *target.get("for", ()))
    causes = {
        item.label
        for item in found.differences
        if any(link.primary and link.on == "b" for link in item.findings)
    }
    assert label in causes, [(item.label, item.findings) for item in found.differences[:8]]
    assert found.differences[0].label in causes
    assert finding in first(found)[1]
    assert found.verdict == "incompatible"


def test_the_reverse_comparison_is_symmetric() -> None:
    found = diff("no-driver", "docker-with-gpu")
    item = found.differences[0]
    assert (item.label, item.a, item.b) == ("kernel module", "none", "550.163.01")
    assert [(link.id, link.on) for link in item.findings] == [("driver-missing", "a")]


def test_no_machine_differs_from_itself() -> None:
    found = {
        name: compare(item, item, matrix(), Target("cpu"))
        for name in NAMES
        if (item := snapshot_of(name))
    }
    assert {
        name: each.differences or each.unexplained for name, each in found.items()
    } == dict.fromkeys(NAMES, ())
    assert [name for name, each in found.items() if each.verdict == "incompatible"] == []


def test_every_cause_of_a_broken_machine_is_linked_or_listed() -> None:
    broken = [name for name in NAMES if recording(name)["expected"].get("primary")]
    assert len(broken) > 50
    lost = {}
    for name in broken:
        found = diff(HEALTHY, name)
        only = {item.id for item in found.b.report.findings if item.primary}
        only -= {item.id for item in found.a.report.findings}
        links = [link for item in found.differences for link in item.findings]
        lost[name] = only - {link.id for link in (*links, *found.unexplained)}
    assert {name: causes for name, causes in lost.items() if causes} == {}


def test_machines_without_differences_that_matter() -> None:
    other = changed(
        HEALTHY, "driver", release=known("550.144.03"), libcuda_version=known("550.144.03")
    )
    found = diff(HEALTHY, other)
    assert found.verdict == "compatible"
    assert {item.label for item in found.differences} >= {"driver release", "libcuda"}
    assert found.mattering == ()


def test_frameworks_must_agree_on_release_cuda_and_cudnn() -> None:
    python = snapshot_of(HEALTHY).facts.python
    assert python.frameworks.value is not None
    build = python.frameworks.value[0]
    other = replace(build, cuda_version=known("12.3"), cudnn_version=known("8.9"))
    found = diff(
        HEALTHY, changed(HEALTHY, "python", frameworks=known((other, *python.frameworks.value[1:])))
    )
    labels = [item.label for item in found.mattering]
    assert {"CUDA version of tensorflow", "cuDNN version of tensorflow"} <= set(labels)
    assert found.verdict == "incompatible"


def test_needed_distributions_come_before_others() -> None:
    python = snapshot_of(HEALTHY).facts.python
    assert python.distributions.value is not None
    kept = [item for item in python.distributions.value if item.name != "ml-dtypes"]
    more = (Distribution("ml-dtypes", "0.5.9"), Distribution("aaa", "1"), *kept)
    found = diff(HEALTHY, changed(HEALTHY, "python", distributions=known(more)))
    areas = {item.key: (place, item.area) for place, item in enumerate(found.differences)}
    assert areas["ml-dtypes"][1] == "needed"
    assert areas["aaa"][1] == "other"
    assert areas["ml-dtypes"][0] < areas["aaa"][0]


def test_needed_names_are_transitive_without_extras_except_nvidias() -> None:
    requires = {
        "tensorflow": (
            "keras>=3",
            "nvidia-cudnn-cu12>=9 ; extra == 'and-cuda'",
            "pytest ; extra == 'test'",
        ),
        "keras": ("Optree (>=0.1)", "!"),
    }
    installed = tuple(Distribution(name, "1", requires=lines) for name, lines in requires.items())
    frameworks = changed(HEALTHY, "python", distributions=known((*installed, *installed))).facts
    needed = list_needed_names(frameworks)
    assert {"tensorflow", "keras", "optree", "nvidia-cudnn-cu12"} <= needed
    assert "pytest" not in needed
    assert list_needed_names(Facts()) == frozenset()


def test_paths_and_serial_numbers_do_not_differ() -> None:
    snapshot = snapshot_of(HEALTHY)
    assert snapshot.facts.gpus.value is not None
    gpus = tuple(
        replace(gpu, uuid=known("GPU-1"), pci_address=known("0000:99:00.0"))
        for gpu in snapshot.facts.gpus.value
    )
    python = replace(
        snapshot.facts.python, prefix=known("/other"), executable=known("/other/bin/python")
    )
    other = replace(
        snapshot, host="elsewhere", facts=replace(snapshot.facts, gpus=known(gpus), python=python)
    )
    assert diff(snapshot, other).differences == ()


def test_each_property_of_a_gpu_is_compared() -> None:
    found = diff("tensorflow-with-cuda-extra", "rtx5090-with-torch-2.6")
    labels = {item.label: (item.a, item.b) for item in found.differences}
    assert labels["GPU 1"] == ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090")
    assert labels["GPU 1 compute capability"] == ("8.9", "12.0")


def test_unread_facts_are_listed_and_decide_nothing() -> None:
    lost = Unknown("denied", "permission denied")
    found = diff(HEALTHY, changed(HEALTHY, "driver", device_nodes=lost, release=lost))
    assert {item.label for item in found.differences if item.unread} >= {
        "device node",
        "driver release",
    }
    assert not any(item.agree for item in found.differences)
    both = changed(HEALTHY, "driver", release=lost)
    assert "driver release" not in {item.label for item in diff(both, both).differences}


def test_decisive_facts_unread_on_one_machine_leave_it_undetermined() -> None:
    lost = changed(HEALTHY, "driver", kernel_module_kind=Unknown("denied", "permission denied"))
    found = diff(HEALTHY, lost)
    assert [item.label for item in found.differences] == ["kind of kernel module"]
    assert found.verdict == "undetermined"
    frameworks = changed(HEALTHY, "python", frameworks=Unknown("timeout", "no answer"))
    assert "frameworks" in {item.label for item in diff(HEALTHY, frameworks).differences}


def test_a_finding_without_a_difference_is_unexplained() -> None:
    snapshot = snapshot_of(HEALTHY)
    assert snapshot.facts.gpus.value is not None
    full = tuple(
        replace(gpu, memory_used_bytes=gpu.memory_bytes) for gpu in snapshot.facts.gpus.value
    )
    found = diff(snapshot, changed(HEALTHY, "", gpus=known(full)))
    assert [link.id for link in found.unexplained] == ["gpu-memory-held"]
    assert found.verdict == "incompatible"


def test_facts_of_several_items() -> None:
    nodes = (
        DeviceNode("/dev/nvidia0", known(False)),
        DeviceNode("/dev/nvidiactl", Unknown("denied", "x")),
    )
    some = changed(HEALTHY, "driver", device_nodes=known(nodes))
    keys = {
        item.key: item.b
        for item in diff(HEALTHY, some).differences
        if item.fact == "driver.device_nodes"
    }
    assert keys["/dev/nvidia0"] == "cannot be opened"
    assert keys["/dev/nvidiactl"] == "not read (denied)"
    extension = (Extension("flash-attn", "/x.so", ("libcudart.so.11.0",)),)
    kernel = (JupyterKernel("dl", "/opt/dl/bin/python"),)
    more = changed(HEALTHY, "python", extensions=known(extension), kernels=known(kernel))
    labels = {item.label: (item.a, item.b) for item in diff(HEALTHY, more).differences}
    assert labels["compiled extension flash-attn"] == ("none", "libcudart.so.11.0")
    assert labels["Jupyter kernel dl"] == ("none", "registered")


def test_toolkits_are_compared_by_version_not_by_place() -> None:
    a, b = (
        snapshot_of("older-toolkit-ahead-of-wheels"),
        snapshot_of("newer-toolkit-ahead-of-wheels"),
    )
    labels = {item.label: (item.a, item.b) for item in diff(a, b).differences}
    assert "CUDA Toolkits" in labels
    assert not any("/" in side for side in labels["CUDA Toolkits"])
    gone = replace(
        a.facts,
        toolkits=replace(a.facts.toolkits, root_on_path=known("/nowhere"), installs=Absent(())),
    )
    found = diff(
        replace(
            a, facts=replace(a.facts, toolkits=replace(gone.toolkits, root_on_path=Absent(())))
        ),
        replace(a, facts=gone),
    )
    assert {item.label: item.b for item in found.differences}[
        "CUDA Toolkit on PATH"
    ] == "unknown version"


def test_an_unread_set_and_one_with_many_items() -> None:
    flags = tuple(f"flag{number}" for number in range(20))
    many = changed(HEALTHY, "host", cpu_flags=known(flags))
    found = {item.label: item for item in diff(HEALTHY, many).differences}["processor features"]
    assert " and 8 more" in found.b
    lost = changed(HEALTHY, "host", cpu_flags=Unknown("denied", "x"))
    assert {item.label: item.b for item in diff(many, lost).differences}[
        "processor features"
    ] == "not read (denied)"
    wheels = changed(HEALTHY, "", cudnn=Absent(()))
    assert {item.label: item.b for item in diff(HEALTHY, wheels).differences}.get(
        "copies of cuDNN", "none"
    ) == "none"


# -- the table --


def leaves(kind: Any, path: str = "") -> list[str]:
    found: list[str] = []
    for field in fields(kind):
        name = f"{path}.{field.name}" if path else field.name
        default = getattr(kind(), field.name)
        if is_dataclass(default) and not isinstance(default, (Known, Absent, Unknown)):
            found += leaves(type(default), name)
        elif name not in {
            "python.chosen_by",
            "python.broken_environment",
            "python.is_found",
            "python.others",
        }:  # the choice is no fact of the machine
            found.append(name)
    return found


def test_every_fact_of_a_snapshot_is_compared() -> None:
    assert list(load_comparisons().facts) == leaves(Facts) or set(load_comparisons().facts) == set(
        leaves(Facts)
    )
    assert {row.area for row in load_comparisons().facts.values()} <= set(load_comparisons().areas)


def test_every_area_is_in_the_schema() -> None:
    import json
    from pathlib import Path

    schema = json.loads(
        (Path(__file__).parents[2] / "envcheck/schemas/diff.schema.json").read_text(
            encoding="utf-8"
        )
    )
    assert schema["definitions"]["difference"]["properties"]["area"]["enum"] == [
        *load_comparisons().areas
    ]
    assert set(schema["definitions"]["difference"]["properties"]) <= {
        *dir(Difference),
        *(f.name for f in fields(Difference)),
    }


# -- lost GPUs --

WITH_TWO = "torch-wheels-need-no-toolkit"


def with_gpus(count: int, *, name: str = "", driver: bool = True) -> Snapshot:
    """Return a machine with `count` GPUs of one model; without a driver nothing of one is left."""
    facts = snapshot_of(WITH_TWO).facts
    assert facts.gpus.value is not None
    model = facts.gpus.value[0]
    gpus = (replace(model, name=known(name)) if name else model,) * count
    made = changed(WITH_TWO, "", gpus=known(gpus) if count else Absent(("PCI",)))
    none = replace(
        made.facts.driver, **{item.name: Absent(("looked",)) for item in fields(made.facts.driver)}
    )
    return made if driver else replace(made, facts=replace(made.facts, driver=none))


@pytest.mark.parametrize(
    ("left", "driver", "shown"),
    [(1, True, "1 x Tesla V100-SXM2-16GB"), (0, True, "none"), (0, False, "none")],
)
def test_lost_gpus_come_first(left: int, driver: bool, shown: str) -> None:
    for machines in (
        (with_gpus(2), with_gpus(left, driver=driver)),
        (with_gpus(left, driver=driver), with_gpus(2)),
    ):
        found = diff(*machines)
        assert found.verdict == "incompatible"
        assert found.differences[0].label == "GPUs"
        assert {found.differences[0].a, found.differences[0].b} == {
            "2 x Tesla V100-SXM2-16GB",
            shown,
        }


def test_a_machine_without_its_gpus_is_judged_for_work_on_a_gpu() -> None:
    found = diff(with_gpus(2), with_gpus(0))
    assert (found.a.report.verdict, found.b.report.verdict, found.b.report.goal) == (
        "compatible",
        "incompatible",
        "gpu",
    )
    assert first(found) == ("GPUs", ["gpu-absent"])


def test_lost_gpus_do_not_matter_to_work_on_the_cpu() -> None:
    assert diff(with_gpus(2), with_gpus(1), "cpu").verdict == "compatible"


def test_another_model_of_gpu_is_no_lost_gpu() -> None:
    found = diff(with_gpus(2), with_gpus(1, name="NVIDIA H100 80GB HBM3"))
    assert found.mattering == ()
    assert "GPUs" in {item.label for item in found.differences}


def test_the_spelling_of_a_gpu_is_no_difference() -> None:
    found = diff(with_gpus(1, name="A100 SXM4 40GB"), with_gpus(1, name="NVIDIA A100-SXM4-40GB"))
    assert found.differences == ()
