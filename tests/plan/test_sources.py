"""A package that is published as source only is planned with the file that its project built, or as an honest build."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.actions import InstallPackages, InstallSystemPackages, action_line
from envcheck.model import Plan, ToolkitInstall
from envcheck.plan.build import build_plan
from envcheck.plan.requests import PlanOptions, read_requests
from envcheck.render.plan import render_file
from envcheck.rules.described_machine import Description, planned_facts
from tests.plan.machines import chosen, machine, matrix, planned
from tests.rules.factory_toolkit import known

ADA = machine("3.12", "580.95.05", "8.9")
RELEASES = "https://github.com/Dao-AILab/flash-attention/releases/download"
FILE_FOR_2_8 = (
    "v2.8.3.post1/flash_attn-2.8.3.post1+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
)
FILE_FOR_2_6 = (
    "v2.8.3.post1/flash_attn-2.8.3.post1+cu12torch2.6cxx11abiFALSE-cp312-cp312-linux_x86_64.whl"
)
OLD_FILE = (
    "v2.7.4.post1/flash_attn-2.7.4.post1+cu12torch2.6cxx11abiFALSE-cp312-cp312-linux_x86_64.whl"
)


def installed(plan: Plan) -> list[str]:
    return [text for made in plan.environments for one in made.sets for text in one.requirements]


@pytest.mark.parametrize(
    ("texts", "on", "torch", "file"),
    [
        # not the newest torch: nothing is built for that
        (("flash-attn",), ADA, "torch==2.8.0", FILE_FOR_2_8),
        (("flash-attn", "torch==2.6.*"), ADA, "torch==2.6.0", FILE_FOR_2_6),  # with the old C++ ABI
        # the newer files need glibc 2.32
        (("flash-attn",), replace(ADA, glibc="2.31"), "torch==2.6.0", OLD_FILE),
    ],
)
def test_the_torch_that_a_file_is_built_for_comes_with_that_file(
    texts: tuple[str, ...], on: Description, torch: str, file: str
) -> None:
    plan = planned(*texts, on=on)
    assert installed(plan) == [torch, f"flash-attn @ {RELEASES}/{file}"]
    assert any("the file itself was not read" in note for note in plan.notes)


def test_a_build_from_source_is_limited_to_the_gpu_and_the_memory_that_are_there() -> None:
    described = planned_facts(None, ADA, matrix(), expects_gpu=True)
    facts = replace(described, host=replace(described.host, memory_bytes=known(64 * 10**9)))
    toolkit = ToolkitInstall(
        "/opt/cuda-13", "path", known("13.0"), nvcc_path=known("/opt/cuda-13/bin/nvcc")
    )
    with_nvcc = replace(facts, toolkits=replace(facts.toolkits, installs=known((toolkit,))))
    requests = read_requests(("flash-attn", "torch==2.15.*"), matrix())
    plan = build_plan(with_nvcc, matrix(), requests, PlanOptions(description=ADA))
    (build,) = [item.action for item in plan.steps if item.purpose == "Build flash-attn."]
    assert isinstance(build, InstallPackages)
    settings = build.variables()
    assert (settings["CUDA_HOME"], settings["FLASH_ATTN_CUDA_ARCHS"]) == ("/opt/cuda-13", "80")
    assert 1 <= int(settings["MAX_JOBS"]) < 64
    assert {"--no-build-isolation", "--no-binary=flash-attn", "torch==2.15.0"} <= set(
        build.command()
    )
    assert "import flash_attn" in action_line(plan.steps[-1].action)
    assert any("minutes of one core" in note for note in plan.notes)
    without = build_plan(facts, matrix(), requests, PlanOptions(description=ADA))
    assert any(isinstance(item.action, InstallSystemPackages) for item in without.steps), (
        "nvcc is installed first"
    )


def test_nvcc_gets_a_host_compiler_that_it_accepts() -> None:
    described = planned_facts(None, ADA, matrix(), expects_gpu=True)
    others = {"/usr/bin/gcc-16": "16.1.0", "/usr/bin/gcc-12": "12.3.0"}
    compilers = replace(described.compilers, gcc_version=known("16.1.0"), others=known(others))
    requests = read_requests(("flash-attn", "torch==2.15.*"), matrix())
    plan = build_plan(
        replace(described, compilers=compilers), matrix(), requests, PlanOptions(description=ADA)
    )
    (build,) = [item.action for item in plan.steps if item.purpose == "Build flash-attn."]
    assert build.variables()["NVCC_PREPEND_FLAGS"] == "-ccbin=/usr/bin/gcc-12"


@pytest.mark.parametrize(
    ("on", "reason"),
    [
        (machine("3.12", "580.95.05", "7.0"), "needs compute capability 8.0 or newer"),
        (machine("3.12", "581.57", "8.9", platform="win_amd64"), "use WSL 2"),
    ],
)
def test_where_it_cannot_work_the_plan_says_why(on: Description, reason: str) -> None:
    plan = planned("flash-attn", on=on)
    assert not plan.releases
    assert reason in plan.rejected[0].why


def test_what_compiles_nothing_comes_with_the_newest_torch() -> None:
    plan = planned("deepspeed", on=ADA)
    assert chosen(plan).requirement == chosen(planned("torch", on=ADA)).requirement
    assert plan.environments[0].sets[-1].source_only == ("deepspeed",)


def test_a_page_of_the_project_lists_the_file() -> None:
    (_, listed) = planned("pyg-lib", "torch==2.13.0", on=ADA).environments[0].sets
    assert listed.options == ("--find-links", "https://data.pyg.org/whl/torch-2.13.0%2Bcu130.html")


def test_another_build_than_that_of_the_default_index_comes_from_the_index_of_the_project() -> None:
    # of CUDA 12: the wheels of the default index are for 13
    old_driver = machine("3.12", "570.195.03", "8.9")
    own_index = planned("vllm>=0.20", on=old_driver).environments[0].sets[-1]
    assert own_index.requirements == ("vllm==0.25.1",)
    assert own_index.options[:2] == ("--extra-index-url", "https://wheels.vllm.ai/0.25.1/cu129")
    assert own_index.options[3].endswith("/cu128"), "it requires a torchvision of the same CUDA"
    proven = planned("vllm", on=old_driver)  # whose wheel was read
    assert installed(proven) == ["torch==2.10.0", "vllm==0.19.1"]
    assert any("vllm==0.25.1 plans with it" in note for note in proven.notes)


def test_an_image_without_nvcc_takes_the_file_and_refuses_the_build() -> None:
    assert FILE_FOR_2_8 in render_file(planned("flash-attn", on=ADA), "dockerfile")
    with pytest.raises(ValueError, match="has no nvcc"):
        render_file(planned("flash-attn", "torch==2.15.*", on=ADA), "dockerfile")
