"""Several frameworks in one environment."""

from __future__ import annotations

from packaging.version import Version

from tests.plan.machines import A100, OLD_DRIVER, V100, chosen, machine, matrix, planned
from tests.plan.shown import render_plan_text
from tests.typed import argv


def test_pins_that_clash_move_the_framework_asked_for_later() -> None:
    plan = planned("tensorflow<2.22", "torch<2.16", on=A100)
    assert chosen(plan, "tensorflow").version == "2.20.0"
    torch = chosen(plan, "torch")
    assert torch.requirement == "torch==2.10.0"
    assert "nvidia-cudnn-cu12" in torch.rejected[0].why
    assert "nvidia-cudnn-cu13" in torch.rejected[0].why
    assert len(plan.environments) == 1
    assert len(plan.environments[0].sets) == 1


def test_each_newer_release_has_its_reason_where_several_must_go_together() -> None:
    plan = planned("tensorflow<2.22", "torch<2.16", "jax<0.12.1", on=A100)
    torch = chosen(plan, "torch")
    told = [item.requirement.partition("==")[2] for item in torch.rejected]
    newer = [
        item
        for item in matrix().versions("torch")
        if Version("2.10.0") < Version(item) < Version("2.16")
    ]
    assert [item for item in told if "+" not in item] == newer
    assert all("are unknown" in item.why for item in torch.rejected if "+cu" in item.requirement)
    assert [item.finding for item in chosen(plan, "jax").rejected] == ["cuda-wheel-conflict"]


def test_what_cannot_go_together_gets_two_environments_and_the_pins_that_clash() -> None:
    plan = planned("tensorflow==2.20.*", "torch==2.13.0", on=A100)
    assert [item.folder for item in plan.environments] == [".venv-tensorflow", ".venv-torch"]
    assert [item.environment for item in plan.releases] == [".venv-tensorflow", ".venv-torch"]
    assert any("cudnn" in item.first and "cudnn" in item.second for item in plan.clashes)
    assert len({step.id for step in plan.steps}) == len(plan.steps)


def test_three_frameworks_share_one_cuda_major() -> None:
    plan = planned("tensorflow<2.22", "torch<2.16", "jax<0.12.1", on=A100)
    assert len(plan.environments) == 1
    assert {str(item.cuda).split(".")[0] for item in plan.releases} == {"12"}


def test_shared_requirements_are_met_together() -> None:
    plan = planned("tensorflow==2.13.*", "jax==0.10.*", on=machine(python="3.11"))
    assert [item.first.partition(": ")[2].split("<")[0].split(">")[0] for item in plan.clashes][
        :1
    ] == ["numpy"]


def test_an_index_of_its_own_is_a_set_of_its_own() -> None:
    plan = planned("tensorflow<2.22", "torch<2.16", on=machine())
    first, second = plan.environments[0].sets
    assert first.index.endswith("/cpu")
    assert first.requirements == ("torch==2.15.0+cpu",)
    assert second.index == ""
    assert not any("extra-index" in word for step in plan.steps for word in argv(step))


def test_an_exact_pin_does_not_meet_a_build_whose_pins_are_not_known() -> None:
    plan = planned("tensorflow==2.15.*", "torch>=2.14,<2.16", on=OLD_DRIVER)
    assert chosen(plan, "torch").requirement == "torch==2.14.1+cu126"
    assert len(plan.environments) == 2
    assert any("pinned to an unknown version" in item.second for item in plan.clashes)
    # a range may well meet it
    assert len(planned("tensorflow==2.20.*", "torch==2.14.1", on=V100).environments) == 1


def test_bounds_set_by_the_plan_itself_and_those_behind_an_empty_wheel_count() -> None:
    plan = planned(
        "tensorflow==2.12.*", "torch==2.0.*", "jax<0.12", on=machine(platform="win_amd64")
    )
    assert len(plan.environments) == 1
    assert chosen(plan, "jax").version == "0.4.38"  # the newest that takes numpy 1


def test_those_that_fit_share_an_environment_beside_the_one_that_does_not() -> None:
    plan = planned("tensorflow==2.15.*", "torch==2.1.*", "jax==0.4.20", on=machine())
    assert len(plan.environments) == 1
    apart = planned("tensorflow==2.13.*", "jax==0.10.*", "torch==2.1.*", on=machine())
    assert [item.folder for item in apart.environments] == [".venv-tensorflow-torch", ".venv-jax"]
    assert "2 are planned" in render_plan_text(apart)


def test_the_text_names_one_clash_of_each_two_releases_and_all_when_asked() -> None:
    plan = planned("tensorflow==2.15.*", "torch==2.1.*", on=OLD_DRIVER)
    short, whole = render_plan_text(plan), render_plan_text(plan, verbose=True)
    assert short.count("Clash: ") == 1
    assert f"and {len(plan.clashes) - 1} more" in short
    assert whole.count("Clash: ") == len(plan.clashes) > 5


def test_a_build_of_its_own_index_brings_the_cudnn_major_of_its_release() -> None:
    old = machine(python="3.8", driver="470.57.02", gpu="8.6", glibc="2.31")
    plan = planned("tensorflow<2.14", "torch<2.5", on=old)
    assert [item.requirement for item in plan.releases] == [
        "tensorflow==2.13.1",
        "torch==2.4.1+cu118",
    ]
    assert len(plan.environments) == 2
    told = [
        (item.first.partition(": ")[2], item.second.partition(": ")[2]) for item in plan.clashes
    ]
    assert ("nvidia-cudnn-cu11<9,>=8.6", "nvidia-cudnn-cu11<10,>=9") in told


def test_what_the_matrix_has_no_column_for_is_met_together_too() -> None:
    plan = planned("tensorflow==2.13.*", "torch<2.16", on=machine())
    torch = chosen(plan, "torch")
    assert torch.requirement == "torch==2.1.2+cpu"
    assert "typing-extensions<4.6" in torch.rejected[-1].why
    assert "typing-extensions>=4.8" in torch.rejected[-1].why


def test_a_build_of_its_own_index_brings_the_cuda_it_is_named_for() -> None:
    apart = planned("tensorflow==2.20.*", "torch==2.5.1+cu121", on=V100)
    assert len(apart.environments) == 2
    assert any(item.second.endswith(": nvidia-cuda-runtime-cu12==12.1.*") for item in apart.clashes)
    assert len(planned("tensorflow==2.20.*", "torch==2.8.0+cu126", on=V100).environments) == 1
