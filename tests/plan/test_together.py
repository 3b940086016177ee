"""Several frameworks in one environment."""

from __future__ import annotations

from tests.plan.machines import A100, chosen, machine, planned


def test_pins_that_clash_move_the_framework_asked_for_later() -> None:
    plan = planned("tensorflow<2.22", "torch<2.16", on=A100)
    assert chosen(plan, "tensorflow").version == "2.20.0"
    torch = chosen(plan, "torch")
    assert torch.requirement == "torch==2.10.0"
    assert "nvidia-cudnn-cu12" in torch.rejected[-1].why
    assert "nvidia-cudnn-cu13" in torch.rejected[-1].why
    assert len(plan.environments) == 1
    assert len(plan.environments[0].sets) == 1


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
    assert [item.first.partition(": ")[2].split("<")[0].split(">")[0] for item in plan.clashes][:1] == ["numpy"]


def test_an_index_of_its_own_is_a_set_of_its_own() -> None:
    plan = planned("tensorflow<2.22", "torch<2.16", on=machine())
    first, second = plan.environments[0].sets
    assert first.index.endswith("/cpu")
    assert first.requirements == ("torch==2.15.0+cpu",)
    assert second.index == ""
    assert not any("extra-index" in word for step in plan.steps for word in step.argv)
