"""What is asked for beside a framework: planned with it, as it goes with the release, or refused in a sentence."""

from __future__ import annotations

import pytest

from envcheck.api import plan
from envcheck.cli.group import run
from envcheck.model import Plan, RequestError, UserError
from envcheck.plan.candidates import companion_options
from envcheck.plan.existing_environment import plan_update
from envcheck.plan.requests import PlanOptions, read_requests
from envcheck.rules import Context
from envcheck.rules.described_machine import Description, planned_facts
from tests.hosts.test_hosts import snapshot_of
from tests.plan.machines import A100, V100, chosen, machine, matrix, planned
from tests.plan.shown import render_plan_text

DESK = machine(python="3.11", gpu="none")


def brought(plan: Plan) -> tuple[str, ...]:
    (made,) = plan.environments
    return tuple(text for wanted in made.sets for text in wanted.requirements)


@pytest.mark.parametrize(
    ("texts", "requirements"),
    [
        (("torch==2.13.*", "torchvision"), ("torch==2.13.0+cpu", "torchvision==0.28.0")),
        (
            ("torchaudio", "torchvision", "torch==2.8.*"),
            ("torch==2.8.0+cpu", "torchaudio==2.8.0", "torchvision==0.23.0"),
        ),
        # the newest of several
        (("torch==2.15.0", "torchvision"), ("torch==2.15.0+cpu", "torchvision==0.29.2")),
        (("torch", "torchvision==0.20.*"), ("torch==2.5.1+cpu", "torchvision==0.20.1")),
        (
            ("keras", "tensorflow==2.15.*"),
            ("tensorflow-cpu==2.15.1", "keras==2.15.0", "setuptools<82"),
        ),
        (("tensorflow", "keras<3"), ("tensorflow-cpu==2.15.1", "keras==2.15.0", "setuptools<82")),
        (
            ("tensorflow==2.19.*", "tf-keras"),
            ("tensorflow==2.19.1", "tf-keras==2.19.0", "setuptools<82"),
        ),
        (
            ("tensorflow==2.17.*", "tensorflow-text"),
            ("tensorflow==2.17.1", "tensorflow-text==2.17.0", "setuptools<82"),
        ),
        (("jax==0.10.*", "flax>=0.8"), ("jax==0.10.2", "flax>=0.8")),
        (("keras>=3", "torch==2.14.1"), ("torch==2.14.1+cpu", "keras==3.15.1")),
    ],
)
def test_it_comes_with_the_release_it_goes_with(
    texts: tuple[str, ...], requirements: tuple[str, ...]
) -> None:
    assert brought(planned(*texts, on=DESK)) == requirements


@pytest.mark.parametrize(
    ("text", "on", "requirements"),
    [
        ("vllm", machine("3.12", "580.95.05", "8.9"), ("torch==2.14.0", "vllm==0.33.0")),
        # of those for CUDA 12
        ("vllm", machine("3.12", "570.195.03", "8.9"), ("torch==2.10.0", "vllm==0.19.1")),
        ("vllm==0.19.1", machine("3.12", "580.95.05", "8.9"), ("torch==2.10.0", "vllm==0.19.1")),
        (
            "torchvision==0.23.*",
            machine("3.12", "580.95.05", "8.9"),
            ("torch==2.8.0", "torchvision==0.23.0"),
        ),
        (
            "triton==3.9.0",
            machine("3.11", "580.95.05", "8.9"),
            ("torch==2.15.0", "triton==3.9.0"),
        ),  # beside an abi3 wheel
        (
            "triton",
            machine("3.11", "570.195.03", "8.9"),
            ("torch==2.14.1+cu126", "triton==3.8.0"),
        ),  # not the newest one beside a torch that is too old to require it
        ("torchdata", DESK, ("torch==2.15.0+cpu", "torchdata")),
        ("tf-keras==2.19.*", DESK, ("tensorflow==2.19.1", "tf-keras==2.19.0", "setuptools<82")),
    ],
)
def test_it_brings_the_framework_that_it_goes_with(
    text: str, on: Description, requirements: tuple[str, ...]
) -> None:
    assert brought(planned(text, on=on)) == requirements


def test_with_names_a_further_requirement_of_the_same_plan(
    capsys: pytest.CaptureFixture[str],
) -> None:
    described = ["--platform", "linux_x86_64", "--python", "3.12"]
    run(["plan", "torch==2.8.*", "torchvision", *described])
    named = capsys.readouterr().out
    run(["plan", "torchvision", "--with", "torch==2.8.*", *described])
    assert (
        capsys.readouterr().out.replace("torchvision torch==2.8.*", "torch==2.8.* torchvision")
        == named
    )
    made = plan(
        "torchvision", with_requirements="torch==2.8.*", platform="linux_x86_64", python="3.12"
    )
    assert [item.requirement for item in made.plan.releases] == ["torch==2.8.0+cpu"]


def test_a_release_for_a_newer_cuda_than_the_drivers_is_refused_with_the_way_out() -> None:
    plan = planned("vllm>=0.26", on=machine("3.12", "570.195.03", "8.9"))
    assert {item.finding for item in plan.rejected} == {"driver-too-old"}
    assert plan.rejected[0].requirement == "torch==2.14.0 vllm==0.33.0"
    assert plan.changes[0].requirement == "torch==2.10.0 vllm==0.19.1"


def test_it_comes_from_the_default_index_where_that_of_the_framework_lacks_it() -> None:
    (made,) = planned("bitsandbytes", on=V100).environments
    first, second = made.sets
    assert (first.requirements, first.index[-6:]) == (("torch==2.14.1+cu126",), "/cu126")
    assert (second.requirements, second.index) == (("bitsandbytes==0.50.2",), "")


H100 = machine("3.12", "580.95.05", "9.0")


def test_what_has_no_build_for_the_cpu_is_planned_for_its_cuda_and_says_so() -> None:
    plan = planned("vllm", on=machine("3.12", gpu="none"))
    assert brought(plan) == ("torch==2.14.0", "vllm==0.33.0")
    assert (chosen(plan, "torch").needs_gpu, plan.goal) == (("vllm",), "cpu")
    assert any(
        note.startswith("No build of vllm 0.33.0 for the CPU is known.") for note in plan.notes
    )
    assert render_plan_text(plan).startswith(
        "PLAN  torch and vllm without a GPU: torch==2.14.0, vllm==0.33.0\n"
    )
    assert plan.steps[-1].purpose == "Check that torch imports, and that vllm is installed."


def test_it_is_no_plan_for_the_cpu() -> None:
    plan = planned("vllm", on=machine("3.12", gpu="none"), expect="cpu")
    (reason,) = plan.rejected
    assert reason.why.endswith("works with vllm. vllm 0.33.0 has no build for the CPU.")
    on_gpu = planned("vllm>=0.20", on=machine("3.12", "570.195.03", "8.9"))
    assert not any("CPU" in change.what for change in on_gpu.changes)


def test_the_last_step_imports_each_of_them() -> None:
    step = planned("torch==2.8.*", "xformers", "torchvision", on=H100).steps[-1]
    assert (
        step.purpose == "Check that torch finds the GPU, and that xformers and torchvision import."
    )
    assert step.action.command()[-1].endswith("import xformers; import torchvision")


def test_what_a_package_requires_of_another_goes_with_the_framework_too() -> None:
    """sglang 0.5.23 requires a kernel that is built for CUDA 13."""
    plan = planned("sglang", on=machine("3.12", "575.51.03", "8.0"))
    assert brought(plan) == ("torch==2.9.1", "sglang==0.5.10.post1")


def test_compiled_code_that_states_no_framework_goes_with_that_of_what_requires_it() -> None:
    """sglang 0.5.9 requires both sgl-kernel 0.3.21 and torch 2.9.1."""
    assert brought(planned("sgl-kernel", on=H100)) == ("torch==2.9.1", "sgl-kernel==0.3.21")


def test_compiled_code_of_which_nothing_states_the_framework_is_said() -> None:
    plan = planned("sgl-kernel==0.1.2", on=H100)
    assert any(
        note.startswith("Nothing states which torch releases sgl-kernel 0.1.2 goes with")
        for note in plan.notes
    )


def test_several_are_one_set() -> None:
    first, second = planned("vllm", "flashinfer-python", "xformers", on=H100).environments[0].sets
    # of PyTorch's index, which alone has it
    assert first.requirements == ("torch==2.14.0+cu130", "xformers==0.0.35")
    assert second.requirements == ("vllm==0.33.0", "flashinfer-python==0.7.2.post1")
    assert second.kept == ("torch==2.14.0",)


def test_two_that_exclude_each_other_are_named() -> None:
    (reason,) = planned("vllm==0.33.0", "torch-tensorrt==2.13.*", "torchvision", on=H100).rejected
    assert reason.why.startswith("vllm==0.33.0 and torch-tensorrt==2.13.* exclude each other")
    assert "vllm 0.33.0, for torch==2.14.0" in reason.why


@pytest.mark.parametrize(
    ("text", "on", "note"),
    [
        (
            "vllm",
            machine("3.12", "580.95.05", "7.0"),
            "is documented for compute capability 7.5 or newer",
        ),
        ("vllm", machine("3.9", "580.95.05", "8.0"), "does not state support for Python 3.9"),
    ],
)
def test_why_it_is_not_the_newest_is_said(text: str, on: Description, note: str) -> None:
    assert f"vllm 0.33.0 is newer, but {note}." in planned(text, on=on).notes


def test_without_a_wheel_for_the_platform_there_is_no_plan() -> None:
    (reason,) = planned("vllm", on=machine("3.12", "580.88", "8.9", "win_amd64")).rejected
    assert reason.why.endswith("has no wheel for win_amd64.")


def test_the_installation_from_the_default_index_keeps_the_framework() -> None:
    step = planned("bitsandbytes", on=V100).steps[2]
    assert step.purpose == "Install bitsandbytes and its dependencies; torch==2.14.1 must stay."


def test_it_comes_from_the_index_of_its_framework() -> None:
    (made,) = planned("torch==2.13.*", "torchvision", on=V100).environments
    (wanted,) = made.sets
    assert (wanted.requirements, wanted.index[-6:]) == (
        ("torch==2.13.0+cu126", "torchvision==0.28.0"),
        "/cu126",
    )


def test_each_comes_beside_its_own() -> None:
    plan = planned("torch==2.13.*", "jax[cuda13]==0.12.0.1", "torchvision", "flax", on=A100)
    assert chosen(plan, "torch").constraints == ("torchvision==0.28.0",)
    assert chosen(plan, "jax").constraints[0] == "flax"
    assert plan.requirements == ("torch==2.13.*", "torchvision", "jax[cuda13]==0.12.0.1", "flax")


@pytest.mark.parametrize(
    ("texts", "on", "instead"),
    [
        (("tensorflow==2.20.*", "tensorflow-metal"), machine(gpu="none"), ()),
        (
            ("tensorflow", "tensorflow-metal"),
            machine(platform="macosx_arm64", python="3.13"),
            ("--python", "3.12"),
        ),
        (("tensorflow==2.16.*", "tensorflow-text"), machine(python="3.12"), ("--python", "3.11")),
        (("tensorflow==2.10.*", "tf-keras"), machine(python="3.10"), ("tensorflow", "tf-keras")),
    ],
)
def test_what_has_no_wheel_here_or_goes_with_no_such_release_is_no_plan(
    texts: tuple[str, ...], on: Description, instead: tuple[str, ...]
) -> None:
    plan = planned(*texts, on=on)
    (reason,) = plan.rejected
    assert f" works with {texts[1]}." in reason.why
    assert set(instead) <= {word for change in plan.changes[:1] for word in change.argv}
    assert bool(plan.changes) == bool(instead)


def test_the_plugin_for_apples_gpu_is_named_once() -> None:
    asked = planned(
        "tensorflow<2.22", "tensorflow-metal", on=machine(platform="macosx_arm64", python="3.12")
    )
    assert brought(asked) == ("tensorflow==2.19.1", "tensorflow-metal==1.2.0", "setuptools<82")
    assert not any("is not known" in note for note in asked.notes)


def test_what_nothing_tells_of_is_said() -> None:
    (note,) = planned("jax==0.10.*", "flax", on=DESK).notes
    assert note.startswith("The matrix does not hold flax: that it works with jax 0.10.2")
    assert planned("torch==2.13.*", "torchvision", on=DESK).notes == ()


def test_versions_that_do_not_go_together_are_no_plan_and_the_way_out_is_one() -> None:
    plan = planned("torch==2.5.1", "torchvision==0.15.2", on=DESK)
    (reason,) = plan.rejected
    assert (reason.requirement, reason.finding) == ("torch==2.5.1", "dependency-conflict")
    assert reason.why == (
        "No known release that the request allows works with torchvision==0.15.2."
        " torchvision 0.15.2 requires torch==2.0.1."
    )
    (change,) = plan.changes
    assert change.argv[2:4] == ("torch", "torchvision")
    assert run(list(change.argv[1:])) == 0


def test_conda_brings_the_framework_by_pip_then() -> None:
    (made,) = planned("torch==2.13.*", "torchvision", on=DESK, installer="conda").environments
    assert made.packages == ("python=3.11", "pip")
    assert made.sets[0].requirements == ("torch==2.13.0+cpu", "torchvision==0.28.0")


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (("vlm",), "Did you mean vllm?"),
        (("torch", "XFormer>=0.0.30"), "Did you mean xformers?"),
        (("tensorflw",), "Did you mean tensorflow?"),
        (("torch", "torchvision[x]"), "give torchvision without extras"),
        (("torch", "torchvision; python_version>'3'"), "is not a plain requirement"),
        (("torch", "torchvision @ https://example.org/x.whl"), "is not a plain requirement"),
        (("torch", "torchvision==--index-url"), "is not a "),
        (("torch", "numpy"), "is no framework that envcheck knows"),
    ],
)
def test_what_is_no_plan_is_a_sentence(texts: tuple[str, ...], said: str) -> None:
    with pytest.raises(RequestError) as error:
        read_requests(texts, matrix())
    assert said in str(error.value)
    with pytest.raises(UserError):
        run(["plan", *texts, "--platform", "linux_x86_64", "--python", "3.11"])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("keras-hub",), {"tensorflow": ("keras-hub",)}),
        (("keras>=3",), {"tensorflow": ("keras>=3",)}),
        (("transformer-engine",), {"torch": ("transformer-engine",)}),
        (("keras-hub", "jax"), {"jax": ("keras-hub",)}),
        # no second framework for it alone
        (("keras-hub", "vllm"), {"torch": ("vllm", "keras-hub")}),
    ],
)
def test_a_package_for_several_frameworks_takes_the_usual_one(
    texts: tuple[str, ...], expected: dict[str, tuple[str, ...]]
) -> None:
    assert {item.framework: item.companions for item in read_requests(texts, matrix())} == expected


def test_an_environment_keeps_its_release_where_only_what_goes_beside_it_is_missing() -> None:
    facts = snapshot_of("recorded-torch-cpu-2.13").facts
    plan = plan_update(
        facts,
        matrix(),
        read_requests(("torch", "torchvision"), matrix()),
        PlanOptions(folder="env"),
    ).plan
    assert plan is not None
    assert brought(plan) == ("torch==2.13.0+cpu", "torchvision==0.28.0")


@pytest.mark.parametrize(
    ("driver", "audio", "torch", "beside"),
    [
        # 2.11.0 has builds for the CUDA releases of torch 2.11, 2.11.1 for those of torch 2.15
        ("580.88", "torchaudio==2.11.0", "torch==2.14.1+cu130", "torchaudio==2.11.0"),
        ("580.88", "torchaudio", "torch==2.14.1+cu132", "torchaudio==2.11.1"),
        ("560.94", "torchaudio", "torch==2.14.1+cu126", "torchaudio==2.11.0"),
    ],
)
def test_a_build_is_planned_whose_index_holds_what_goes_beside_it(
    driver: str, audio: str, torch: str, beside: str
) -> None:
    windows = machine("3.12", driver, "8.9", "win_amd64")
    release = chosen(planned("torch<2.16", audio, on=windows))
    assert (release.requirement, release.constraints) == (torch, (beside,))


def test_a_wheel_that_refuses_another_cuda_comes_with_its_own() -> None:
    """torchaudio 2.11.0 refuses another minor of CUDA than its own, 2.11.1 another major."""
    linux = machine("3.12", "590.44.01", "9.0")
    older = chosen(planned("torch==2.15.0", "torchaudio==2.11.0", on=linux))
    assert (older.requirement, older.constraints) == (
        "torch==2.15.0+cu130",
        ("torchaudio==2.11.0",),
    )
    newest = chosen(planned("torch==2.15.0", "torchaudio", on=linux))
    assert (newest.requirement, newest.constraints) == ("torch==2.15.0", ("torchaudio==2.11.1",))


def test_two_packages_come_for_the_same_torch() -> None:
    """SGLang states its torch in an extra before 0.5.3: none of those goes with any torch."""
    linux = machine("3.12", "580.95.05", "8.9")
    release = chosen(planned("torch<2.16", "vllm<0.34", "sglang<0.5.24", on=linux))
    assert (release.requirement, release.constraints) == (
        "torch==2.13.0",
        ("vllm==0.29.0", "sglang==0.5.21"),
    )
    old = chosen(planned("torch", "sglang==0.4.6", on=linux))
    assert (old.requirement, old.constraints[0]) == ("torch==2.6.0", "sglang[srt]==0.4.6")


def test_what_is_held_back_by_what_goes_beside_it_is_said() -> None:
    windows = machine("3.10", "551.61", "8.6", "win_amd64")
    plan = planned("tensorflow>=2.10,<2.22", "tensorflow-text", on=windows, installer="pip")
    assert chosen(plan).requirement == "tensorflow==2.10.1"
    assert "tensorflow-text 2.21.1 is newer, but has no wheel for win_amd64." in plan.notes
    assert (
        "tensorflow 2.21.0 is newer, but tensorflow-text 2.10.0 requires tensorflow>=2.10.0,<2.11."
        in plan.notes
    )
    assert not any(
        "is newer" in note for note in planned("tensorflow<2.22", "tf-keras", on=DESK).notes
    )


def test_a_withdrawn_release_that_nothing_pins_is_not_brought() -> None:
    context = Context(planned_facts(None, DESK, matrix(), expects_gpu=False), matrix())
    torch = matrix().releases("torch", "linux_x86_64")[0]
    versions = [row.version for row in companion_options(context, torch, "tf-keras") if row]
    assert "2.19.0" in versions
    assert "2.20.0" not in versions  # its wheel is yanked
