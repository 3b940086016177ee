"""What must hold between the rows of the matrix, whatever their source."""

from __future__ import annotations

import itertools
import json

from packaging.version import Version

from envcheck.host.data_files import read_data
from envcheck.matrix import load_matrix
from tests.matrix.documents import document, numbers, releases

MATRIX = load_matrix()
FIRST_AND_LAST = {"linux_x86_64": ("1.0.0", "2.21.0"), "win_amd64": ("1.0.0", "2.21.0")}


def test_driver_floors_rise_with_the_cuda_version() -> None:
    oldest_first = MATRIX.toolkits()[::-1]
    for cell in ("min_driver_linux", "min_driver_windows", "minor_floor_linux", "minor_floor_windows"):
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
        having = [kit.version for kit in MATRIX.toolkits() if row.compute_capability in kit.compute_capabilities][::-1]
        assert having, row
        assert having[-1] == (row.last_toolkit or document_newest())
        if row.first_toolkit and MATRIX.toolkit(row.first_toolkit):
            assert having[0] == row.first_toolkit


def document_newest() -> str:
    newest = MATRIX.newest_toolkit()
    assert newest
    return newest.version


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
                assert MATRIX.cudnn(row["cudnn"], row["cuda"].partition(".")[0]), (version, row["cudnn"], row["cuda"])


def test_cudnn_majors_never_come_back() -> None:
    majors = [{row["cuda_major"] for row in rows} for rows in document()["cudnn"].values()]
    gone: set[str] = set()
    for before, after in itertools.pairwise(majors):
        gone |= before - after
        assert not gone & after


def test_no_release_without_a_python() -> None:
    for framework in document()["frameworks"]:
        assert [version for version, row in releases(framework) if not row["pythons"]] == []


def test_tensorflow_is_covered_from_end_to_end() -> None:
    for platform, (first, last) in FIRST_AND_LAST.items():
        versions = [row.version for row in MATRIX.releases("tensorflow", platform)]
        assert (versions[-1], versions[0]) == (first, last)
        minors = {numbers(version)[:2] for version in versions if "post" not in version}
        assert minors == {(1, minor) for minor in range(16)} | {(2, minor) for minor in range(22)}


def test_the_usual_distribution_is_a_cuda_build_since_2_1() -> None:
    for row in MATRIX.releases("tensorflow", "linux_x86_64"):
        if row.distribution == "tensorflow" and numbers(row.version.partition(".post")[0]) >= (2, 1):
            assert row.cuda_build, row.version
            assert row.compute_capabilities


def test_windows_lost_its_cuda_build_after_2_10() -> None:
    for row in MATRIX.releases("tensorflow", "win_amd64"):
        if numbers(row.version.partition(".post")[0]) >= (2, 11):
            assert not row.cuda_build, row.version


def test_stubs_lead_to_a_known_distribution() -> None:
    for _version, row in releases("tensorflow"):
        assert row.get("stub_for", row["distribution"]) in MATRIX.distributions("tensorflow")


def test_every_gpu_has_an_architecture_row() -> None:
    table = json.loads(read_data("gpus.json"))
    capabilities = {row["cc"] for row in table["pci"].values()} | {
        capability for row in table["names"].values() for capability in row["cc"]
    }
    assert {item for item in capabilities if MATRIX.architecture(item) is None} == set()
    assert {row["chip"] for row in table["pci"].values()} <= set(table["chips"])
