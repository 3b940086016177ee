"""Driver floors: minor-version compatibility, its limit, partial releases, branches and architectures."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import ERROR, INCOMPATIBLE, UNDETERMINED, Distribution
from envcheck.rules.context import UndecidedError
from envcheck.rules.gpu_releases import driver_runs, newest_branch
from tests.rules.factory_machine import (
    NO_DRIVER,
    NONE,
    UNREAD,
    build,
    context,
    driver,
    gpu,
    known,
    only,
    run,
)
from tests.typed import argv

ID = "driver-too-old"
SM80 = known(("sm_80",))
V100 = ("Tesla V100-SXM2-16GB", "7.0")


def torch(cuda: str, capabilities: Any = SM80) -> Any:
    return build(
        "9.9.9", cuda_build=known(True), cuda_version=known(cuda), compute_capabilities=capabilities
    )


def test_minor_version_compatibility_runs_native_code() -> None:
    judged = context(gpu(), driver=driver("525.60.13", "12.0"), builds=(torch("12.6"),))
    assert run(ID, judged) == []


def test_one_release_below_the_minor_floor_is_too_old() -> None:
    found = only(ID, context(gpu(), driver=driver("525.60.11", "12.0"), builds=(torch("12.6"),)))
    assert (found.verdict, found.severity) == (INCOMPATIBLE, ERROR)
    assert "525.60.13" in found.message
    assert any(item.citation for item in found.evidence)
    assert any(item.source for item in found.evidence)
    assert found.fix is not None
    assert ("sudo", "ubuntu-drivers", "install") in [argv(command) for command in found.fix.actions]


def test_a_package_that_alone_brings_a_newer_cuda_needs_a_newer_driver() -> None:
    def judge(torch: str) -> list[str]:
        beside = (
            Distribution("torch", torch),
            Distribution("vllm", "0.33.0"),
            Distribution("torchcodec", "0.17.0"),
        )
        older = driver("570.124.06", "12.8")
        return [
            item.message
            for item in run(
                ID, context(gpu(), driver=older, builds=(build(torch),), distributions=beside)
            )
        ]

    needs = "needs driver >= 580.65.06; this machine runs 570.124.06."
    assert judge("2.14.0+cu126") == [f"vllm 0.33.0 was built with CUDA 13.0 and {needs}"], (
        "once for a major"
    )
    assert judge("2.14.0") == [f"torch 2.14.0 was built with CUDA 13.0 and {needs}"], (
        "said of the framework"
    )


def test_ptx_newer_than_the_driver_cannot_be_compiled() -> None:
    ptx = known(("sm_60", "compute_80"))
    found = only(
        ID,
        context(
            gpu(capability="8.9"), driver=driver("525.60.13", "12.0"), builds=(torch("12.6", ptx),)
        ),
    )
    assert "PTX up to CUDA 12.0" in found.message
    assert "560.28.03" in found.message


@pytest.mark.parametrize(("release", "cuda"), [("560.28.03", "12.6"), ("570.195.03", "12.8")])
def test_ptx_is_compiled_by_a_driver_of_its_cuda_or_newer(release: str, cuda: str) -> None:
    ptx = known(("sm_60", "compute_80"))
    judged = context(
        gpu(capability="8.9"), driver=driver(release, cuda), builds=(torch("12.6", ptx),)
    )
    assert run(ID, judged) == []


def test_ptx_falls_back_on_the_branch_for_its_ceiling() -> None:
    ptx = known(("sm_60", "compute_80"))
    drives = driver("525.60.13", cuda_driver_version=UNREAD)
    assert (
        "CUDA 12.0"
        in only(
            ID, context(gpu(capability="8.9"), driver=drives, builds=(torch("12.6", ptx),))
        ).message
    )


def test_before_cuda_11_each_toolkit_has_its_own_floor() -> None:
    assert (
        run(
            ID,
            context(
                gpu(*V100),
                driver=driver("418.39", "10.1"),
                builds=(torch("10.1", known(("sm_70",))),),
            ),
        )
        == []
    )
    found = only(
        ID,
        context(
            gpu(*V100), driver=driver("410.48", "10.0"), builds=(torch("10.1", known(("sm_70",))),)
        ),
    )
    assert "418.39" in found.message


@pytest.mark.parametrize("release", ["525", "525.x"])
def test_a_partial_release_is_undetermined_where_the_rest_decides(release: str) -> None:
    with pytest.raises(UndecidedError, match=r"driver\.release"):
        run(ID, context(gpu(), driver=driver(release, "12.0"), builds=(torch("12.6"),)))


def test_cuda_versions_decide_where_the_release_is_not_known() -> None:
    unread = driver(release=UNREAD, cuda_driver_version=known("12.0"))
    assert run(ID, context(gpu(), driver=unread, builds=(torch("12.6"),))) == []
    found = only(ID, context(gpu(), driver=unread, builds=(torch("13.0"),)))
    assert "CUDA 13" in found.message
    old = driver(release=UNREAD, cuda_driver_version=known("10.0"))
    assert (
        "CUDA 10.1"
        in only(
            ID, context(gpu(*V100), driver=old, builds=(torch("10.1", known(("sm_70",))),))
        ).message
    )


def test_nothing_known_of_the_driver_is_undetermined() -> None:
    for unread in (
        driver(release=UNREAD, cuda_driver_version=UNREAD),
        driver(release=UNREAD, cuda_driver_version=NONE),
    ):
        with pytest.raises(UndecidedError, match=r"driver\.release"):
            run(ID, context(gpu(), driver=unread, builds=(torch("12.6"),)))


def test_no_driver_is_another_finding() -> None:
    assert run(ID, context(gpu(), driver=driver(**NO_DRIVER), builds=(torch("12.6"),))) == []


def test_forward_compatibility_that_starts_counts() -> None:
    ahead = driver("470.256.02", "12.6", libcuda_version=known("560.35.03"))
    assert run(ID, context(gpu(), driver=ahead, builds=(torch("12.6"),))) == []


def test_wsl_and_windows_use_the_windows_floor() -> None:
    host = {"wsl_version": known(2)}
    assert (
        run(ID, context(gpu(), driver=driver("527.41", "12.0"), host=host, builds=(torch("12.6"),)))
        == []
    )
    found = only(
        ID, context(gpu(), driver=driver("526.99", "11.8"), host=host, builds=(torch("12.6"),))
    )
    assert "527.41" in found.message
    windows = {"os": known("windows")}
    assert only(
        ID, context(gpu(), driver=driver("526.99", "11.8"), host=windows, builds=(torch("12.6"),))
    ).fix


def test_a_jetson_is_judged_by_what_its_driver_says_of_cuda() -> None:
    orin = gpu("Orin", "8.7")
    host = {"jetson_release": known("R36.3.0")}
    jetson = torch("12.6", known(("sm_87",)))
    assert (
        run(ID, context(orin, driver=driver("540.3.0", "12.2"), host=host, builds=(jetson,))) == []
    )


def test_jax_names_its_cuda_by_its_major_alone() -> None:
    jax = build(
        "0.5.0",
        "jax",
        distribution="jax-cuda12-plugin",
        cuda_build=known(True),
        cuda_version=known("12"),
    )
    assert run(ID, context(gpu(), driver=driver("525.60.13", "12.0"), builds=(jax,))) == []
    assert (
        "525.60.13"
        in only(ID, context(gpu(), driver=driver("470.256.02", "11.4"), builds=(jax,))).message
    )


def test_cpu_builds_need_no_driver() -> None:
    cpu = build(cuda_build=known(False), cuda_version=NONE)
    assert run(ID, context(gpu(), driver=driver("410.48", "10.0"), builds=(cpu,))) == []


def test_a_build_without_cuda_version_is_skipped_and_an_unknown_one_undetermined() -> None:
    assert (
        run(ID, context(gpu(), builds=(build("9.9.9", cuda_build=known(True), cuda_version=NONE),)))
        == []
    )
    with pytest.raises(UndecidedError, match="CUDA version"):
        run(
            ID,
            context(gpu(), builds=(build("9.9.9", cuda_build=known(True), cuda_version=UNREAD),)),
        )


def test_a_deleted_toolkit_row_is_release_unknown() -> None:
    found = run(
        ID,
        context(
            gpu(),
            driver=driver("560.35.03", "12.6"),
            builds=(torch("12.6"),),
            without=("toolkits", "12.6"),
        ),
    )
    assert [(item.id, item.verdict, item.severity) for item in found] == [
        ("release-unknown", UNDETERMINED, ERROR)
    ]


def test_a_deleted_driver_row_is_release_unknown() -> None:
    found = run(ID, context(gpu(), without=("drivers", "550")))
    assert [(item.id, item.verdict) for item in found] == [("release-unknown", UNDETERMINED)]
    assert "550" in found[0].message


FAILING = {"cuda_init_result": known(100)}


def test_a_driver_older_than_the_gpu() -> None:
    blackwell = gpu("NVIDIA GeForce RTX 5090", "12.0")
    found = only(ID, context(blackwell, driver=driver("565.57.01", "12.7", **FAILING)))
    assert "570" in found.message
    assert run(ID, context(blackwell, driver=driver("570.195.03", "12.8", **FAILING))) == []
    assert run(ID, context(blackwell, driver=driver("565.57.01", "12.7"))) == []


def test_a_driver_that_dropped_the_gpu() -> None:
    kepler = gpu("Tesla K80", "3.7")
    found = only("gpu-arch-too-old", context(kepler, driver=driver("550.163.01", **FAILING)))
    assert "470" in found.message
    assert found.fix is not None
    assert argv(found.fix.actions[2])[-1] == "nvidia-driver-470"
    assert run("gpu-arch-too-old", context(kepler, driver=driver("470.256.02", **FAILING))) == []


def test_windows_releases_are_no_linux_branches() -> None:
    assert (
        run(ID, context(gpu(), driver=driver("999.99", "12.6"), host={"wsl_version": known(2)}))
        == []
    )


WSL = {"wsl_version": known(2)}
JETSON = {"jetson_release": known("R36.3.0")}


@pytest.mark.parametrize(
    ("cuda", "release", "offered", "host", "runs"),
    [
        ("12.6", "525.60.13", "12.0", {}, True),
        ("12.6", "525.60.11", "12.0", {}, False),
        ("12", "525.60.13", "12.0", {}, True),
        ("12.6", "527.41", "12.0", WSL, True),
        ("12.6", "526.98", "12.0", WSL, False),  # enough for Linux, not for Windows
        ("12.6", "35.4", "12.2", JETSON, True),  # a board numbers its driver in its own way
        ("12.6", "999.1", "11.4", JETSON, False),
        ("9.2", "390.87", "9.1", JETSON, False),  # before CUDA 11 there is no minor compatibility
        ("12.6", None, None, {}, True),  # no driver is the finding of another rule
        ("99.9", "390.87", "9.1", {}, True),  # nothing is known of that CUDA
        (None, "390.87", "9.1", {}, True),
        ("12.6", "525", "12.0", {}, True),  # known as a branch alone
        ("12.6", "470.57.02", "12.9", {}, True),  # a newer user-space driver was seen to start
    ],
)
def test_releases_are_chosen_by_what_the_rule_of_the_driver_says(
    cuda: str | None, release: str | None, offered: str | None, host: dict[str, Any], runs: bool
) -> None:
    given = driver(**NO_DRIVER)
    if release:
        given = driver(release, offered)
    judged = context(gpu(), driver=given, host=host)
    assert driver_runs(judged, cuda) is runs


@pytest.mark.parametrize(
    ("capabilities", "newest"),
    [((), True), (("8.0",), True), (("7.0",), False), (("3.5",), False), (("3.5", "12.0"), False)],
)
def test_the_newest_branch_drives_every_gpu(capabilities: tuple[str, ...], newest: bool) -> None:
    judged = context(*(gpu(capability=each) for each in capabilities))
    branches = judged.matrix.driver_branches()
    rows = [judged.matrix.architecture(each) for each in capabilities]
    found = newest_branch(judged)
    assert (found == branches[0].branch) is newest
    if found:
        later = [int(row.branch) for row in branches if int(row.branch) > int(found)]
        assert all(row and row.is_driven_by(int(found)) for row in rows)
        assert not any(all(row and row.is_driven_by(branch) for row in rows) for branch in later)
    else:
        assert capabilities == ("3.5", "12.0")  # no branch drives both


def test_an_architecture_is_driven_from_its_first_to_its_last_branch() -> None:
    row = context().matrix.architecture("3.5")
    assert row is not None
    assert row.last_driver_branch == "470"
    assert row.is_driven_by(470)
    assert not row.is_driven_by(471)
    first = context().matrix.architecture("12.0")
    assert first is not None
    assert first.first_driver_branch == "570"
    assert first.is_driven_by(570)
    assert not first.is_driven_by(569)


def test_on_a_board_and_in_windows_branches_say_nothing() -> None:
    assert newest_branch(context(gpu(), host=JETSON)) == ""
    assert newest_branch(context(gpu(), host=WSL)) == ""
    assert newest_branch(context(gpu(capability="8.7"))) == ""  # an embedded part
