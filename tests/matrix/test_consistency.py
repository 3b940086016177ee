"""What must hold between the rows of the matrix, whatever their source."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envcheck.host.data_files import read_data
from envcheck.matrix import load_matrix
from tests.matrix.documents import document, numbers, releases

MATRIX = load_matrix()
PAGES = json.loads((Path(__file__).parent / "index" / "pages.json").read_text(encoding="utf-8"))
FIRST_AND_LAST = {"linux_x86_64": ("1.0.0", "2.21.0"), "win_amd64": ("1.0.0", "2.21.0")}


def test_driver_floors_rise_with_the_cuda_version() -> None:
    oldest_first = MATRIX.toolkits()[::-1]
    for cell in (
        "min_driver_linux",
        "min_driver_windows",
        "minor_floor_linux",
        "minor_floor_windows",
    ):
        floors = [Version(value) for row in oldest_first if (value := getattr(row, cell))]
        assert len(floors) > 10
        assert floors == sorted(floors), cell


def test_minor_floor_is_not_above_the_full_floor() -> None:
    for row in MATRIX.toolkits():
        if row.minor_floor_linux and row.version != "11.0" and row.min_driver_linux:
            assert Version(row.minor_floor_linux) <= Version(row.min_driver_linux), row.version
        assert (row.minor_floor_linux is None) == (numbers(row.version) < (11,))


def test_newer_branches_report_newer_cuda() -> None:
    ceilings = [numbers(row.cuda) for row in MATRIX.driver_branches()[::-1]]
    assert ceilings == sorted(ceilings)


def test_minimum_driver_reports_at_least_its_toolkit() -> None:
    for row in MATRIX.toolkits():
        assert row.min_driver_linux
        branch = MATRIX.driver_branch(row.min_driver_linux)
        assert branch, row.version
        assert numbers(branch.cuda) >= numbers(row.version)


def test_first_toolkit_is_not_after_the_last() -> None:
    for row in MATRIX.architectures():
        if row.first_toolkit and row.last_toolkit:
            assert numbers(row.first_toolkit) <= numbers(row.last_toolkit)


def test_architectures_and_toolkits_agree() -> None:
    known = {row.compute_capability for row in MATRIX.architectures()}
    for toolkit in MATRIX.toolkits():
        assert set(toolkit.compute_capabilities) <= known
    for row in MATRIX.architectures():
        having = [
            kit.version
            for kit in MATRIX.toolkits()
            if row.compute_capability in kit.compute_capabilities
        ][::-1]
        assert having, row
        assert having[-1] == (row.last_toolkit or document_newest())
        if row.first_toolkit and MATRIX.toolkit(row.first_toolkit):
            assert having[0] == row.first_toolkit


def document_newest() -> str:
    return MATRIX.toolkits()[0].version


def test_architectures_and_branches_agree() -> None:
    for row in MATRIX.architectures():
        for branch in (row.first_driver_branch, row.last_driver_branch):
            assert branch is None or MATRIX.driver_branch(branch)
        if row.last_driver_branch:
            last = MATRIX.driver_branch(row.last_driver_branch)
            assert last
            assert last.compute_capability_min
            assert numbers(last.compute_capability_min) <= numbers(row.compute_capability)


def test_every_cuda_of_tensorflow_and_torch_has_a_toolkit() -> None:
    for framework in ("tensorflow", "torch"):
        for version, row in releases(framework):
            if row["cuda_build"]:
                assert MATRIX.toolkit(row["cuda"]), (version, row["cuda"])


def test_every_cudnn_with_a_minor_has_a_row_for_its_cuda() -> None:
    for framework in document()["frameworks"]:
        for version, row in releases(framework):
            if row.get("cudnn") and "." in row["cudnn"]:
                assert MATRIX.cudnn(row["cudnn"], row["cuda"].partition(".")[0]), (
                    version,
                    row["cudnn"],
                    row["cuda"],
                )


def test_every_cuda_named_beside_a_release_has_a_toolkit() -> None:
    variants = {cuda for _, row in releases("torch") for cuda in row.get("variants", ())}
    beside = {cuda for row in MATRIX.tensorrt() for cuda in row.cuda}
    beside |= {
        cuda
        for name in MATRIX.conda_packages()
        for row in MATRIX.conda_builds(name)
        for cuda in row.cuda
    }
    assert len(variants) > 15
    assert {
        cuda for cuda in variants | beside if "." in cuda and MATRIX.toolkit(cuda) is None
    } == set()


def test_tensorrt_rises_with_its_cuda_and_architectures() -> None:
    rows = MATRIX.tensorrt()
    newest = [
        max(int(row.cuda_major) for row in group)
        for _, group in itertools.groupby(rows, lambda row: row.version)
    ]
    assert newest == sorted(newest)
    floors = [numbers(row.compute_capability_min) for row in rows if row.compute_capability_min]
    assert floors == sorted(floors)
    assert all(row.soname.endswith(f".{row.version.partition('.')[0]}") for row in rows)
    assert all(cuda.partition(".")[0] == row.cuda_major for row in rows for cuda in row.cuda)


def test_every_tensorrt_of_tensorflow_has_a_line() -> None:
    found = {row["tensorrt"] for _, row in releases("tensorflow") if row.get("tensorrt")} - {"none"}
    assert {"5.1.5", "7.2.2", "8.6.1"} < found
    lines = {row.version for row in MATRIX.tensorrt()}
    assert {
        version
        for version in found
        if not any(f"{line}.".startswith(f"{version}.") for line in lines)
    } <= {version for version in found if MATRIX.tensorrt(version)}


def test_every_build_of_tensorflow_states_its_compiler_and_tensorrt() -> None:
    for version, row in releases("tensorflow"):
        empty = "stub_for" in row or row.get("note", "").startswith("An empty wheel")
        assert ("compiler" in row) != empty, (version, row)
        assert ("tensorrt" in row) == row["cuda_build"], (version, row)
        if row["platform"] == "linux_x86_64" and not empty:
            assert row["compiler"], (version, row)
            assert row.get("tensorrt", "none"), (version, row)


def test_forward_compatibility_starts_with_cuda_10() -> None:
    for row in MATRIX.toolkits():
        package = (
            f"cuda-compat-{row.version.replace('.', '-')}"
            if numbers(row.version) >= (10,)
            else None
        )
        assert row.forward_compatibility == package


def test_cudnn_majors_never_come_back() -> None:
    majors = [{row["cuda_major"] for row in rows} for rows in document()["cudnn"].values()]
    gone: set[str] = set()
    for before, after in itertools.pairwise(majors):
        gone |= before - after
        assert not gone & after


@pytest.mark.parametrize("section", ["cudnn", "tensorrt"])
def test_no_build_has_code_for_what_its_cuda_cannot_make(section: str) -> None:
    for line, rows in document()[section].items():
        for row in rows:
            kits = [
                kit
                for kit in MATRIX.toolkits()
                if {kit.version, kit.version.partition(".")[0]} & {*row["cuda"]}
            ]
            made = [numbers(capability) for kit in kits for capability in kit.compute_capabilities]
            oldest, newest = row["compute_capability_min"], row["compute_capability_max"]
            assert newest is None or numbers(newest) <= max(made), (line, row["cuda_major"])
            assert None in {oldest, newest} or numbers(oldest) <= numbers(newest), (
                line,
                row["cuda_major"],
            )


def test_every_plugin_of_jax_pins_its_pjrt() -> None:
    """Wheels named py3-none that classify no Python have no rows: the plugin's row names them."""
    plugins = [
        (version, row)
        for version, row in releases("jax")
        if row["distribution"].endswith("-plugin")
    ]
    assert len(plugins) > 100
    for version, row in plugins:
        wanted = SpecifierSet(row["requires"][row["distribution"].replace("-plugin", "-pjrt")])
        assert wanted.contains(version), version
        assert not wanted.contains("99.0"), version


def test_no_release_without_a_python() -> None:
    for framework in document()["frameworks"]:
        assert [version for version, row in releases(framework) if not row["pythons"]] == []


@pytest.mark.parametrize("name", sorted(PAGES["pages"]))
def test_the_releases_are_those_of_the_stored_index_pages(name: str) -> None:
    listed = {
        (distribution, version, platform)
        for key, versions in PAGES["pages"][name].items()
        for distribution, platform in [key.split()]
        for version in versions.split()
    }
    held = {(row["distribution"], version, row["platform"]) for version, row in releases(name)}
    known = {tuple(item.split()) for item in PAGES["without_a_row"]}
    assert held == listed - known
    assert name in [*document()["frameworks"], *document()["companions"]]


def test_every_family_has_its_stored_index_pages() -> None:
    assert (
        set(PAGES["pages"])
        == {*document()["frameworks"], *document()["companions"]}
        == set(document()["releases"])
    )


@pytest.mark.parametrize(
    ("tensorflow", "platform", "companions"),
    [
        ("1.14.0", "linux_x86_64", {"keras==2.2.5"}),
        ("2.2.0", "win_amd64", {"keras==2.3.1", "keras==2.4.3"}),
        ("2.13.0", "macosx_arm64", {"keras==2.13.1", "tensorflow-metal==1.0.0"}),
        ("2.15.1", "linux_aarch64", {"keras==2.15.0", "tf-keras==2.15.1"}),
        ("2.16.2", "macosx_arm64", {"keras==3.0.5", "tf-keras==2.16.0", "tensorflow-metal==1.1.0"}),
        (
            "2.19.1",
            "macosx_arm64",
            {"keras==3.15.1", "tf-keras==2.19.0", "tensorflow-metal==1.2.0"},
        ),
        ("2.21.0", "macosx_arm64", {"keras==3.15.1", "tf-keras==2.21.0"}),
    ],
)
def test_what_goes_with_a_tensorflow(tensorflow: str, platform: str, companions: set[str]) -> None:
    rows = (
        MATRIX.companions_of("tensorflow", tensorflow, platform, item.partition("==")[0])
        for item in companions
    )
    found = {f"{row.distribution}=={row.version}" for known in rows for row in known}
    assert companions <= found
    minor = ".".join(tensorflow.split(".")[:2])
    assert {item for item in found if item.startswith("tf-keras")} <= {
        f"tf-keras=={minor}.{patch}" for patch in range(3)
    }


def test_keras_agrees_with_what_tensorflow_requires() -> None:
    for version, row in releases("keras"):
        for tensorflow, asking in releases("tensorflow"):
            wanted = asking["requires"].get("keras", "")
            if (
                row.get("tensorflow")
                and row["distribution"] == "keras"
                and numbers(version) >= (2, 6)
                and wanted
            ):
                goes = SpecifierSet(row["tensorflow"]).contains(tensorflow)
                assert not goes or SpecifierSet(wanted).contains(version), (version, tensorflow)


def test_tensorflow_is_covered_from_end_to_end() -> None:
    for platform, (first, last) in FIRST_AND_LAST.items():
        versions = [row.version for row in MATRIX.releases("tensorflow", platform)]
        assert (versions[-1], versions[0]) == (first, last)
        minors = {numbers(version)[:2] for version in versions if "post" not in version}
        assert minors == {(1, minor) for minor in range(16)} | {(2, minor) for minor in range(22)}


def test_the_usual_distribution_is_a_cuda_build_since_2_1() -> None:
    for row in MATRIX.releases("tensorflow", "linux_x86_64"):
        if row.distribution == "tensorflow" and numbers(row.version.partition(".post")[0]) >= (
            2,
            1,
        ):
            assert row.cuda_build, row.version
            assert row.compute_capabilities


def test_windows_lost_its_cuda_build_after_2_10() -> None:
    for row in MATRIX.releases("tensorflow", "win_amd64"):
        if numbers(row.version.partition(".post")[0]) >= (2, 11):
            assert not row.cuda_build, row.version


@pytest.mark.parametrize(
    ("versions", "machine_code"),
    [
        (">=1.5,<1.11", "sm_30 sm_35 sm_52 compute_30 compute_35 compute_52"),
        (">=1.11,<1.13", "sm_37 compute_37"),
    ],
)
def test_windows_builds_of_tensorflow_1_hold_their_own_machine_code(
    versions: str, machine_code: str
) -> None:
    rows = [
        row
        for row in MATRIX.releases("tensorflow", "win_amd64")
        if row.version in SpecifierSet(versions)
    ]
    assert {" ".join(row.compute_capabilities) for row in rows if row.cuda_build} == {machine_code}


def test_no_row_takes_its_machine_code_from_another_platform() -> None:
    assert not [row for _, row in releases("tensorflow") if "as on Linux" in row.get("note", "")]


def test_index_builds_of_torch_1_state_their_machine_code() -> None:
    rows = [row for version, row in releases("torch") if numbers(version) < (2, 1)]
    assert not [
        cuda
        for row in rows
        for cuda, machine_code in row.get("variants", {}).items()
        if not machine_code
    ]


def test_stubs_lead_to_a_known_distribution() -> None:
    for _version, row in releases("tensorflow"):
        assert row.get("stub_for", row["distribution"]) in MATRIX.distributions("tensorflow")


def test_every_gpu_has_an_architecture_row() -> None:
    table = json.loads(read_data("nvidia/gpus.json"))
    capabilities = {row["cc"] for row in table["pci"].values()} | {
        capability for row in table["names"].values() for capability in row["cc"]
    }
    assert {item for item in capabilities if MATRIX.architecture(item) is None} == set()
    assert {row["chip"] for row in table["pci"].values()} <= set(table["chips"])
