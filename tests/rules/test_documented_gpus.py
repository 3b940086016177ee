"""The oldest GPU that a project's documents name holds for every release, in the doctor and in a plan."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
from packaging.version import Version

from envcheck.cli.group import run as cli
from envcheck.host.data_files import load_data
from envcheck.matrix.companions import load_companions, source_package
from envcheck.matrix.documented_gpus import DocumentedGpusTable, documented_gpus
from envcheck.model import ERROR, WARNING, Distribution, numbers
from envcheck.rules.context import Context, Target
from envcheck.rules.gpu_releases import serves_capability
from tests.plan.machines import machine, matrix, planned
from tests.rules.factory_machine import build, context, gpu, known, run

OLD = "gpu-arch-too-old"

# Written from the documents, not from data/: vLLM's page "GPU" in its source distributions,
# SGLang's page "Install", README.md of flash-attention, CHANGELOG.md and docstrings of xFormers,
# README.md of bitsandbytes. Package, first release of each line, lowest compute capability.
DOCUMENTS = [
    ("vllm", "0.6.5", (7, 0)),
    ("vllm", "0.20.0", (7, 5)),
    ("sglang", "0.4.3.post3", (7, 5)),
    ("xformers", "0.0.16", (6, 0)),
    ("xformers", "0.0.31", (7, 5)),
    ("flash-attn", "2.0.0", (8, 0)),
    ("bitsandbytes", "0.45.0", (5, 0)),
    ("bitsandbytes", "0.48.0", (6, 0)),
]
PACKAGES = sorted({name for name, _, _ in DOCUMENTS})
GPUS = {
    "Tesla K40m": "3.5",
    "Tesla K80": "3.7",
    "GeForce GTX 750 Ti": "5.0",
    "Tesla M10": "5.0",
    "GeForce GTX 980": "5.2",
    "Tesla M40": "5.2",
    "Tesla P100-PCIE-16GB": "6.0",
    "Quadro GP100": "6.0",
    "GeForce GTX 1080": "6.1",
    "Tesla P4": "6.1",
    "Tesla P40": "6.1",
    "TITAN Xp": "6.1",
    "Tesla V100-SXM2-16GB": "7.0",
    "TITAN V": "7.0",
    "Tesla T4": "7.5",
    "GeForce RTX 2080 Ti": "7.5",
    "GeForce GTX 1650": "7.5",
    "NVIDIA A100-SXM4-40GB": "8.0",
    "NVIDIA A30": "8.0",
    "NVIDIA GeForce RTX 3090": "8.6",
    "NVIDIA A10": "8.6",
    "NVIDIA RTX A6000": "8.6",
    "NVIDIA GeForce RTX 4090": "8.9",
    "NVIDIA L4": "8.9",
    "NVIDIA L40S": "8.9",
    "NVIDIA H100 80GB HBM3": "9.0",
    "NVIDIA H200": "9.0",
    "NVIDIA B200": "10.0",
    "NVIDIA GeForce RTX 5090": "12.0",
    "NVIDIA GB10": "12.1",
}


@cache
def expected(name: str, version: str) -> tuple[int, ...]:
    """Return the minimum that the documents name, by the newest line that is not newer than a release."""
    lines = [(Version(first), minimum) for package, first, minimum in DOCUMENTS if package == name]
    return max((first, minimum) for first, minimum in lines if first <= Version(version))[1]


def releases(name: str) -> list[str]:
    package = source_package(name)
    listed = [version for item in package.releases for version in item.versions] if package else []
    return list(dict.fromkeys([row.version for row in matrix().companion_releases(name)] + listed))


CODE = known(tuple(f"sm_{number}" for number in (35, 50, 60, 70, 75, 80, 90, 100, 120)))
TORCH = build(
    "9.9.9", cuda_build=known(True), cuda_version=known("12.6"), compute_capabilities=CODE
)


def with_package(name: str, version: str, *gpus: Any) -> Any:
    """Compose a machine with a package, and with a torch that has code for all of the GPUs."""
    return context(
        *gpus,
        builds=(TORCH,),
        distributions=(Distribution("torch", "9.9.9"), Distribution(name, version)),
    )


def test_there_are_thirty_gpus_and_every_release() -> None:
    assert len(GPUS) == 30
    assert [len(releases(name)) > 10 for name in PACKAGES if name != "flash-attn"] == [True] * 4
    assert len(releases("flash-attn")) >= 5


@pytest.mark.parametrize("name", PACKAGES)
def test_the_documented_minimum_holds_for_every_release(name: str) -> None:
    for version in releases(name):
        for title, capability in GPUS.items():
            judged = with_package(name, version, gpu(title, capability))
            found = [item for item in run(OLD, judged) if "documents of" in item.message]
            assert bool(found) == (numbers(capability) < expected(name, version)), (version, title)
            for item in found:
                assert (item.severity, item.evidence[1].citation is not None) == (ERROR, True)
                assert (
                    f"{name} {version} ask for {'.'.join(map(str, expected(name, version)))}"
                    in item.message
                )


@pytest.mark.parametrize("name", PACKAGES)
def test_no_row_serves_a_gpu_below_the_documented_minimum(name: str) -> None:
    for row in matrix().companion_releases(name):
        for capability in set(GPUS.values()):
            if row.compute_capabilities and serves_capability(context(), row, capability):
                assert numbers(capability) >= expected(name, row.version), (
                    row.version,
                    row.platform,
                    capability,
                )


@pytest.mark.parametrize("name", PACKAGES)
@pytest.mark.parametrize("capability", sorted({*GPUS.values()}, key=numbers))
def test_no_plan_goes_below_the_documented_minimum(name: str, capability: str) -> None:
    lowest = min(minimum for package, _, minimum in DOCUMENTS if package == name)
    made = planned(name, on=machine("3.11", "580.95.05", capability))
    chosen = [
        text
        for environment in made.environments
        for item in environment.sets
        for text in item.requirements
    ]
    versions = [
        text.partition("==")[2]
        for text in chosen
        if text.partition("==")[0].partition("[")[0] == name
    ]
    assert len(versions) <= 1
    if capability == "8.9":
        assert any(name in text for text in chosen)
    if numbers(capability) < lowest:
        assert not any(name in text for text in chosen)
    for version in versions:
        assert version, "a release that nothing is known of"
        assert numbers(capability) >= expected(name, version)


def test_a_package_that_is_judged_like_a_framework_is_refused_too() -> None:
    """What only the documents exclude counts as served by the framework: cuDF is both."""
    row = next(
        row for row in matrix().releases("cudf", "linux_x86_64") if row.distribution == "cudf-cu12"
    )
    bare = context(gpu("GeForce GTX 1080", "6.1"))
    judged = Context(
        bare.facts, bare.matrix, Target("gpu", (f"{row.distribution}=={row.version}",))
    )
    (found,) = [item for item in run(OLD, judged) if item.severity == ERROR]
    assert (
        f"the documents of {row.distribution} {row.version} ask for 7.0 or newer" in found.message
    )


def test_another_gpu_that_is_new_enough_makes_it_a_warning() -> None:
    cards = gpu("Tesla V100-SXM2-16GB", "7.0"), gpu("Tesla T4", "7.5")
    (found,) = run(OLD, with_package("sglang", "0.5.23", *cards))
    assert (found.severity, "Tesla V100" in found.message) == (WARNING, True)


def test_the_document_of_a_platform_comes_first() -> None:
    for platform, minimum in (
        ("linux_aarch64", "7.5"),
        ("linux_x86_64", "6.0"),
        ("win_amd64", "6.0"),
    ):
        document = documented_gpus("bitsandbytes", "0.50.2", platform)
        assert document is not None
        assert document.minimum == minimum


def test_what_is_not_known_is_not_stated() -> None:
    assert documented_gpus("torchao", "0.18.0", "linux_x86_64") is None
    assert documented_gpus("flashinfer-python", "0.6.0", "linux_x86_64") is None
    assert documented_gpus("vllm", "0.6.4", "linux_x86_64") is None
    assert documented_gpus("vllm", "not a version", "linux_x86_64") is None


def test_every_row_is_of_a_known_package() -> None:
    known_names = {name for row in load_companions().rows for name in row.distributions}
    for row in load_data("packages/documented_gpus", DocumentedGpusTable).rows:
        assert all(name in known_names or source_package(name) for name in row.distributions)
        assert matrix().architecture(row.minimum) is not None


def test_matrix_show_prints_it_with_its_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["matrix", "show", "vllm==0.33.0", "--sources"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"documented gpus +7\.5 or newer \*\n", printed)
    assert "source distributions of vllm 0.20.0 to 0.33.0" in printed
