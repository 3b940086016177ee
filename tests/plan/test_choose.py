"""Which release is chosen, and what is said of the newer ones."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from envcheck.model import ERROR
from envcheck.plan.build import build_plan
from envcheck.plan.requests import PlanOptions, read_requests
from envcheck.rules import Context, Target, evaluate
from envcheck.rules.described_machine import Description, planned_facts
from tests.hosts.test_hosts import snapshot_of
from tests.plan.machines import (
    A100,
    LAPTOP,
    OLD_DRIVER,
    V100,
    WINDOWS,
    chosen,
    machine,
    matrix,
    planned,
)
from tests.plan.shown import render_plan_text
from tests.typed import argv


def test_the_newest_release_without_a_known_fault_is_chosen() -> None:
    release = chosen(planned("tensorflow<2.22", on=OLD_DRIVER))
    assert release.requirement == "tensorflow[and-cuda]==2.20.0"
    assert [item.requirement for item in release.rejected] == ["tensorflow[and-cuda]==2.21.0"]
    assert "cusolver" in release.rejected[0].why


def test_a_release_that_was_asked_for_is_mended_where_a_step_can() -> None:
    plan = planned("tensorflow==2.21.*", on=OLD_DRIVER)
    assert chosen(plan).version == "2.21.0"
    assert plan.environments[0].library_folders == ("lib/python3.11/site-packages/nvidia/*/lib",)
    assert [step.id for step in plan.steps][-3:] == ["library-path", "activation-hook", "verify"]


def test_each_rejection_is_what_the_doctor_says_of_that_release() -> None:
    release = chosen(planned("torch<2.14", on=OLD_DRIVER))
    assert release.requirement.startswith("torch==2.13.0+cu12")
    assert release.index.endswith(release.requirement[-6:].replace("+", "/"))
    facts = planned_facts(None, OLD_DRIVER, matrix(), expects_gpu=False)
    for item in release.rejected:
        found = evaluate(Context(facts, matrix(), Target("gpu", (item.requirement,)))).findings
        assert (item.finding, item.why) in [(finding.id, finding.message) for finding in found]


def test_the_chosen_release_has_nothing_against_it_for_the_doctor() -> None:
    for on in (A100, OLD_DRIVER, V100):
        facts = planned_facts(None, on, matrix(), expects_gpu=False)
        for framework in ("tensorflow", "torch", "jax"):
            text = chosen(planned(framework, on=on)).requirement
            found = evaluate(Context(facts, matrix(), Target("gpu", (text,)))).findings
            told = [item for item in found if item.severity == ERROR and item.id != "probe-failed"]
            assert told == [], text


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        (V100, {"torch<2.14": "torch==2.13.0+cu12?", "jax<0.12.1": "jax[cuda12]==0.10.2"}),
        (OLD_DRIVER, {"jax<0.12.1": "jax[cuda12]==0.10.2"}),
        (WINDOWS, {"tensorflow<2.22": "tensorflow==2.10.1", "torch<2.14": "torch==2.13.0+cu12?"}),
        (
            LAPTOP,
            {
                "tensorflow<2.22": "tensorflow==2.21.0",
                "torch<2.16": "torch==2.15.0",
                "jax<0.12.1": "jax==0.12.0.1",
            },
        ),
        (
            machine(),
            {
                "tensorflow<2.22": "tensorflow-cpu==2.21.0",
                "torch<2.16": "torch==2.15.0+cpu",
                "jax<0.12.1": "jax==0.10.2",
            },
        ),
        (machine(platform="linux_aarch64"), {"tensorflow<2.22": "tensorflow==2.21.0"}),
        (machine(glibc="2.17"), {"tensorflow<2.22": "tensorflow-cpu==2.20.0"}),
        (
            machine(python="3.7"),
            {"tensorflow<2.22": "tensorflow-cpu==2.11.0", "torch<2.16": "torch==1.13.1+cpu"},
        ),
        (
            machine(python="3.6", gpu="6.1", driver="470.256.02"),
            {"tensorflow<2.22": "tensorflow==2.6.2"},
        ),
    ],
)
def test_what_is_chosen(on: Description, expected: dict[str, str]) -> None:
    found = {name: chosen(planned(name, on=on)).requirement for name in expected}
    assert all(
        fnmatchcase(found[name], text.replace("[", "[[]")) for name, text in expected.items()
    ), found


def test_a_gpu_that_newer_cudnn_dropped_bounds_the_wheel() -> None:
    assert "nvidia-cudnn-cu12<9.11" in chosen(planned("tensorflow", on=V100)).constraints
    assert not [
        item for item in chosen(planned("tensorflow", on=A100)).constraints if "cudnn" in item
    ]
    kepler = planned("tensorflow<2.11", on=machine(gpu="3.7", driver="470.256.02", python="3.9"))
    assert "nvidia-cudnn-cu11>=8.5,<9,<8.8" in chosen(kepler).constraints


def test_metadata_without_a_cap_gets_one() -> None:
    release = chosen(
        planned("jax==0.4.25", on=machine(gpu="8.0", driver="550.54.14", python="3.10"))
    )
    assert "nvidia-cudnn-cu12<9" in release.constraints


@pytest.mark.parametrize(
    ("text", "python", "constraints"),
    [
        ("tensorflow==2.10.*", "3.10", {"numpy<2", "setuptools<82"}),
        (
            "tensorflow==2.6.0",
            "3.9",
            {"keras<2.7", "tensorflow-estimator<2.7", "protobuf<3.20", "setuptools<82"},
        ),
        ("tensorflow==2.3.*", "3.8", {"protobuf<3.21"}),
        ("tensorflow==2.14.0", "3.11", {"numpy<2", "setuptools<82"}),
        ("torch==2.2.2", "3.11", {"numpy<2"}),
        ("tensorflow==2.21.*", "3.12", set()),
    ],
)
def test_old_releases_get_their_constraints(text: str, python: str, constraints: set[str]) -> None:
    assert set(chosen(planned(text, on=machine(python=python))).constraints) == constraints


def test_a_withdrawn_release_is_chosen_where_a_pin_names_it_alone() -> None:
    """jax 0.4.32 is yanked."""
    on = machine(python="3.11")
    assert chosen(planned("jax==0.4.32", on=on, expect="cpu")).version == "0.4.32"
    for text in ("jax<=0.4.32", "jax<0.4.33,>0.4.30", "jax==0.4.32.*"):
        made = planned(text, on=on, expect="cpu")
        assert all(item.version != "0.4.32" for item in made.releases)


def test_a_withdrawn_name_keeps_its_last_real_release() -> None:
    release = chosen(
        planned("tensorflow-gpu==2.10.1", on=machine(python="3.10", gpu="8.0", driver="550.54.14"))
    )
    assert release.requirement == "tensorflow-gpu==2.10.1"
    plan = planned("tensorflow-gpu", on=machine(python="3.10", gpu="8.0", driver="550.54.14"))
    assert chosen(plan).requirement == "tensorflow-gpu==2.11.0"


def test_a_pinned_build_of_pytorchs_own_index_is_judged_by_its_label() -> None:
    release = chosen(planned("torch==2.7.1+cu118", on=OLD_DRIVER))
    assert (release.version, release.cuda, release.index[-6:]) == ("2.7.1+cu118", "11.8", "/cu118")
    assert chosen(planned("torch==2.7.1", on=OLD_DRIVER)).requirement == "torch==2.7.1"


def test_cpu_builds_are_taken_where_they_are_expected() -> None:
    plan = planned("tensorflow", on=A100, expect="cpu")
    assert (plan.goal, chosen(plan).distribution, chosen(plan).build) == (
        "cpu",
        "tensorflow-cpu",
        "cpu",
    )


def test_an_apple_machine_gets_the_metal_plugin_made_for_the_release() -> None:
    old = chosen(planned("tensorflow==2.9.*", on=machine(platform="macosx_arm64", python="3.9")))
    assert (old.distribution, old.version) == ("tensorflow-macos", "2.9.2")
    assert "tensorflow-metal==0.5.1" in old.constraints
    new = chosen(planned("tensorflow==2.18.*", on=LAPTOP))
    assert "tensorflow-metal==1.2.0" in new.constraints
    assert not [
        item
        for item in chosen(planned("tensorflow==2.18.*", on=machine())).constraints
        if "metal" in item
    ]


def test_a_release_of_jax_without_a_jaxlib_of_its_own_is_judged_with_the_one_it_takes() -> None:
    release = chosen(planned("jax==0.5.2", on=machine(python="3.12")))
    assert release.requirement == "jax==0.5.2"
    assert not release.doubts


def test_releases_of_jax_that_bring_no_jaxlib_are_asked_for_with_the_extra_that_does() -> None:
    assert (
        chosen(planned("jax==0.4.28", on=machine(python="3.11"))).requirement == "jax[cpu]==0.4.28"
    )
    assert chosen(planned("jax==0.4.30", on=machine(python="3.11"))).requirement == "jax==0.4.30"
    assert (
        chosen(planned("jax==0.4.28", on=machine(gpu="8.0", driver="580.65.06"))).requirement
        == "jax[cuda12]==0.4.28"
    )


def test_old_jax_is_kept_from_numpy_2() -> None:
    assert chosen(planned("jax==0.4.20", on=machine(python="3.11"))).constraints == (
        "numpy<2",
        "scipy<1.13",
    )
    assert chosen(planned("jax==0.4.25", on=machine(python="3.11"))).constraints == ("numpy<2",)
    assert chosen(planned("jax==0.4.26", on=machine(python="3.11"))).constraints == ()


@pytest.mark.parametrize(
    ("text", "python"), [("tensorflow==1.14.*", "3.3"), ("tensorflow==1.13.*", "3.4")]
)
def test_a_wheel_whose_dependencies_have_none_is_no_plan(text: str, python: str) -> None:
    plan = planned(text, on=machine(python=python))
    assert not plan.releases
    assert {item.finding for item in plan.rejected} == {"python-unsupported"}
    assert "which it requires, has none" in plan.rejected[0].why
    assert plan.changes[0].what.startswith("Python 3.")


def test_what_one_python_lacks_is_not_said_of_an_older_one() -> None:
    assert (
        chosen(planned("tensorflow==1.12.*", on=machine(python="2.7"))).requirement
        == "tensorflow==1.12.3"
    )


@pytest.mark.parametrize(
    ("text", "python", "pip"),
    [
        # its own pip does not heed which Python a newer one is for
        ("tensorflow==1.12.*", "3.4", "pip<19.2"),
        ("tensorflow==1.15.*", "3.5", "pip<21"),
        ("tensorflow==1.15.*", "3.7", "pip<24.1"),
    ],
)
def test_pip_is_renewed_to_one_that_runs_on_that_python(text: str, python: str, pip: str) -> None:
    (step,) = [
        item for item in planned(text, on=machine(python=python)).steps if item.id == "upgrade-pip"
    ]
    assert argv(step)[-1] == pip


def test_libraries_that_dropped_a_gpu_count_as_much_as_the_build() -> None:
    """PyTorch's CUDA 11.8 builds have code for a K80; from 2.4 on the cuDNN they bring has none."""
    release = chosen(planned("torch<2.16", on=machine(gpu="3.7", driver="470.256.02")))
    assert release.requirement == "torch==2.3.1+cu118"
    (reason,) = [item for item in release.rejected if item.requirement == "torch==2.4.1+cu118"]
    assert (reason.finding, "cuDNN 9" in reason.why) == ("gpu-arch-too-old", True)


def test_builds_for_arm_servers_are_not_planned_for_a_jetson() -> None:
    facts = planned_facts(
        snapshot_of("jetson-orin-torch-for-cuda-13").facts,
        Description(),
        matrix(),
        expects_gpu=True,
    )
    plan = build_plan(
        facts, matrix(), read_requests(("torch>=2.12,<2.16",), matrix()), PlanOptions("gpu")
    )
    assert plan.releases == ()
    assert {item.finding for item in plan.rejected} == {"gpu-arch-too-new"}
    assert [change.what for change in plan.changes][-1] == "work on the CPU"


def test_cuda_wheels_that_need_a_newer_libc_than_the_framework_are_known() -> None:
    """JAX's own plugin runs on glibc 2.17, the cuDNN it asks for does not."""
    on = machine("3.11", "535.104.05", "8.0", glibc="2.17")
    release = chosen(planned("jax<0.12.1", on=on))
    assert release.requirement == "jax[cuda12]==0.5.3"
    (reason,) = [item for item in release.rejected if item.requirement == "jax[cuda12]==0.7.0"]
    assert reason.finding == "glibc-too-old"
    assert "nvidia-cudnn-cu12" in reason.why


def test_a_plugin_that_may_not_fit_is_told_of() -> None:
    (note, _) = planned("tensorflow==2.19.*", on=LAPTOP).notes
    assert note.startswith("tensorflow-metal 1.2.0: ")
    assert not [
        item for item in planned("tensorflow==2.21.*", on=machine()).notes if "metal" in item
    ]


def test_a_release_that_the_plugin_cannot_be_loaded_into_goes_without_and_says_so() -> None:
    """tensorflow-metal 1.2.0 calls what TensorFlow 2.20 and later no longer export: the import would fail."""
    plan = planned("tensorflow<2.22", on=LAPTOP)
    assert (chosen(plan).version, chosen(plan).constraints) == ("2.21.0", ())
    assert any(
        "tensorflow-metal, the plugin for Apple GPUs, supports tensorflow up to 2.19.1" in note
        for note in plan.notes
    )


def test_a_system_toolkit_is_not_installed_into_the_python_that_makes_the_environment() -> None:
    plan = planned("tensorflow==2.4.*", on=machine("3.8", "535.104.05", "7.5"), installer="pip")
    assert not [step for step in plan.steps if argv(step)[:1] == ("python3",)]
    (cudnn,) = [step for step in plan.steps if "cudnn-missing" in step.resolves]
    assert (cudnn.scope, argv(cudnn)) == ("system", ())


def test_work_on_the_cpu_needs_no_cuda_even_where_the_newest_release_is_a_cuda_build() -> None:
    plan = planned("tensorflow==2.2.*", on=machine("3.7", platform="win_amd64"), expect="cpu")
    (made,) = plan.environments
    assert (made.installer, made.packages) == ("pip", ())
    assert not [item for item in made.sets[0].requirements if item.startswith("nvidia-")]


@pytest.mark.parametrize(
    ("line", "python", "built"),
    [("2.0", "3.7", "gast"), ("2.5", "3.9", "clang"), ("2.12", "3.8", "jax")],
)
def test_what_is_built_from_source_is_not_warned_of(line: str, python: str, built: str) -> None:
    plan = planned(f"tensorflow=={line}.*", on=machine(python), expect="cpu")
    assert built in plan.environments[0].sets[0].source_only
    assert not [item.message for item in chosen(plan).warnings if "source-only" in item.message]


@pytest.mark.parametrize(("asked", "plugin"), [("jax==0.5.2", "9.1"), ("jax==0.4.37", "9.1")])
def test_a_jax_without_a_plugin_of_its_own_takes_the_newest_it_admits(
    asked: str, plugin: str
) -> None:
    release = chosen(planned(asked, on=OLD_DRIVER))
    assert (release.requirement, release.build) == (asked.replace("jax", "jax[cuda12]"), "gpu")
    assert release.cudnn == plugin
    old_gpu = chosen(planned(asked, on=V100))
    assert "nvidia-cudnn-cu12<9.11" in old_gpu.constraints


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        ("525.60.13", "tensorflow[and-cuda]==2.16.2"),
        ("550.54.14", "tensorflow[and-cuda]==2.18.1"),
        ("555.42.06", "tensorflow[and-cuda]==2.20.0"),
    ],
)
def test_a_driver_must_compile_what_the_last_target_holds_as_ptx_alone(
    driver: str, expected: str
) -> None:
    assert (
        chosen(planned("tensorflow<2.22", on=machine(gpu="9.0", driver=driver))).requirement
        == expected
    )
    assert chosen(
        planned("tensorflow<2.22", on=machine(gpu="8.0", driver=driver))
    ).requirement.endswith("==2.20.0")


def test_a_newer_driver_is_proposed_where_one_compiles_it() -> None:
    plan = planned("tensorflow==2.20.*", on=machine("3.13", "535.104.05", "9.0"))
    (reason,) = plan.rejected
    assert "has only PTX of CUDA 12.5 for the GPU in most kernels" in reason.why
    assert "NVIDIA driver 620.70.06" in [change.what for change in plan.changes]


def test_the_driver_to_install_drives_the_gpu_and_not_only_the_build() -> None:
    """CUDA 12.8 starts on 525, but a Blackwell GPU only on 570."""
    plan = planned("torch==2.11.*", on=machine("3.12", "545.23.06", "12.0"))
    step = plan.steps[0]
    assert step.resolves == ("driver-too-old",)
    assert "Install NVIDIA driver 620 (570 or newer is enough)" in step.action.purpose


def test_a_build_with_known_code_goes_before_one_of_which_nothing_states_it() -> None:
    """Nothing was read of 2.15.0 for Windows; 2.14.1 is known to hold sm_120."""
    windows = machine("3.12", "581.15", "12.0", "win_amd64")
    release = chosen(planned("torch<2.16", on=windows))
    assert release.requirement == "torch==2.14.1+cu132"
    assert release.rejected[0].finding == "release-unknown"
    pinned = planned("torch==2.15.0", on=windows)
    assert (pinned.releases, {item.finding for item in pinned.rejected}) == (
        (),
        {"release-unknown"},
    )


def test_tensorflow_on_blackwell_is_doubted_at_the_top_and_must_compute() -> None:
    plan = planned("tensorflow==2.20.*", on=machine("3.12", "580.65.06", "12.0"))
    first, warning, remedy, *_ = render_plan_text(plan).splitlines()
    assert first.startswith("PLAN  ")
    assert warning.startswith("WARNING  ")
    assert "CUDA_ERROR_INVALID_PTX" in warning
    assert "nvcr.io/nvidia/tensorflow" in remedy
    assert "t.matmul(" in " ".join(plan.steps[-1].action.command())
    ada = planned("tensorflow==2.20.*", on=machine("3.12", "580.65.06", "8.9"))
    assert "WARNING" not in render_plan_text(ada)
    assert "t.matmul(" not in " ".join(ada.steps[-1].action.command())


def test_torch_on_a_mac_is_called_a_build_for_its_gpu() -> None:
    assert "torch==2.13.0  (MPS build)" in render_plan_text(planned("torch==2.13.0", on=LAPTOP))
    assert "(cpu build)" in render_plan_text(
        planned("torch==2.13.0", on=machine(platform="win_amd64"))
    )


def test_cuda_wheels_for_a_newer_c_library_are_refused_by_the_judge_of_all() -> None:
    """nvidia-cudnn-cu13 from 9.12 on has wheels for glibc 2.27 alone."""
    old = machine("3.12", "580.65.06", "8.0", glibc="2.26")
    reasons = {item.requirement: item for item in planned("jax[cuda13]==0.10.2", on=old).rejected}
    assert {item.finding for item in reasons.values()} == {"glibc-too-old"}
