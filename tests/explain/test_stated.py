"""A remedy fits the driver, the place and the tool that the log names. Every log here is composed."""

from __future__ import annotations

import pytest

from envcheck.actions import action_line
from envcheck.model import COMPATIBLE, Alternative, Finding, Remedy
from tests.cases.judged import judge_text

NCCL = (
    "gpu01:77:77 [0] NCCL INFO cudaDriverVersion 12020\n"
    "NCCL version 2.27.3+cuda12.9\n"
    "gpu01:77:90 [0] NCCL INFO comm 0x5 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE\n"
)


def find_cause(log: str) -> Finding:
    """Return the finding that a log ends in."""
    return next(item for item in judge_text(log).report.findings if item.primary)


def list_lines(finding: Finding) -> str:
    """Return all that is typed for a finding."""
    assert finding.fix is not None
    ways: list[Remedy | Alternative] = [finding.fix, *finding.fix.alternatives]
    return "\n".join(action_line(action) for way in ways for action in way.actions)


@pytest.mark.parametrize(
    "log",
    [
        NCCL + "epoch 1: loss 2.0\n",
        # a build that the stated driver does not reach by the rules, and that runs all the same
        f"PyTorch 2.9.0+cu130\nDriver Version: 535.161.08\n{NCCL}epoch 1: loss 2.0\n",
        "node:1:1 [0] NCCL INFO cuMem export requires CUDA 12.4 or newer, driver supports 12.2\n",
    ],
    ids=["init", "forward-compatible", "sentence"],
)
def test_what_nccl_informs_of_is_no_cause(log: str) -> None:
    assert judge_text(log).report.verdict == COMPATIBLE


def test_a_run_that_fails_over_its_driver_is_still_told() -> None:
    failed = "The NVIDIA driver on your system is too old (found version 11040)."
    assert find_cause(f"{NCCL}RuntimeError: {failed}\n").id == "driver-too-old"


OLD = "CUDA error: CUDA driver version is insufficient for CUDA runtime version\n"


@pytest.mark.parametrize(
    ("more", "finding"),
    [
        ("", "driver-too-old"),
        ("bash: nvidia-smi: command not found\n", "driver-missing"),
        ("ls: cannot access '/dev/nvidia*': No such file or directory\n", "driver-missing"),
        ("WARNING: The NVIDIA Driver was not detected.\n", "driver-not-in-container"),
        ("root@3f2a1b9c4d5e:/app# nvidia-smi: command not found\n", "driver-not-in-container"),
        ("Driver Version: 470.57\nbash: nvidia-smi: command not found\n", "driver-too-old"),
    ],
)
def test_error_35_says_the_same_of_no_driver(more: str, finding: str) -> None:
    assert find_cause(more + OLD).id == finding


def test_a_build_of_its_own_is_said_to_lack_what_it_imports() -> None:
    finding = find_cause(
        "Collecting flash-attn\n  error: subprocess-exited-with-error\n"
        "  Getting requirements to build wheel did not run successfully.\n"
        "      ModuleNotFoundError: No module named 'torch'\n"
    )
    assert finding.id == "build-isolation"
    assert finding.message == "torch is not installed in the isolated build environment."


def test_an_mps_daemon_is_restarted_by_its_own_user() -> None:
    unreached = find_cause(
        "RuntimeError: CUDA error: MPS client failed to connect to the MPS server\n"
    )
    assert list_lines(unreached).startswith("nvidia-cuda-mps-control -d\nunset")
    finding = find_cause("CUDA_ERROR_MPS_SERVER_NOT_READY\n")
    assert finding.fix is not None
    assert "of the user that runs the program" in finding.fix.summary
    assert list_lines(finding).startswith("ps -o user,pid,args -C nvidia-cuda-mps-control")


DRIVER = "I have driver 560.94 (from nvidia-smi)\n"
SM_120 = "RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch.\n"
ASKED = (
    "ERROR: Could not find a version that satisfies the requirement torch==2.9.0+cu{0}"
    " (from versions: 2.8.0, 2.9.0)\n"
    "ERROR: No matching distribution found for torch==2.9.0+cu{0}\n"
)


@pytest.mark.parametrize(
    ("log", "index"),
    [
        (SM_120, "cu130"),
        (DRIVER + SM_120, "cu128"),
        (f"Driver Version: 560.94 CUDA Version: 12.6\n{SM_120}", "cu128"),
        (DRIVER + ASKED.format(130), "cu128"),
        (ASKED.format(130), "cu130"),
        (ASKED.format(131), "cu130"),
    ],
)
def test_the_build_is_one_that_the_stated_driver_runs(log: str, index: str) -> None:
    assert f"whl/{index} " in list_lines(find_cause(log))


def test_a_driver_that_is_asked_for_is_not_the_one_that_is_there() -> None:
    log = f"torch requires NVIDIA driver 560.94 or newer; please upgrade to driver 560.94\n{SM_120}"
    assert "whl/cu130 " in list_lines(find_cause(log))


def test_a_cuda_build_that_is_listed_is_not_installed_again() -> None:
    finding = find_cause(
        "torch                    2.5.1+cu124\nAssertionError: Torch not compiled with CUDA enabled\n"
    )
    assert finding.fix is not None
    assert "another Python or another copy" in finding.fix.summary
    assert "install" not in list_lines(finding)


HIDDEN = "RuntimeError: No CUDA GPUs are available\n"


@pytest.mark.parametrize("visible", ["", "3"])
def test_what_a_scheduler_set_is_not_unset(visible: str) -> None:
    finding = find_cause(f"SLURM_JOB_ID=48123\nCUDA_VISIBLE_DEVICES={visible}\n{HIDDEN}")
    assert finding.id == "visible-devices-hidden"
    assert "unset" not in list_lines(finding)
    assert "srun --gres=gpu:1" in list_lines(finding)


CUDNN_8 = "libcudnn.so.8: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    "stated",
    [
        "dso_loader.cc:53] Successfully opened dynamic library libcudart.so.11.0\n",
        "nvidia-cublas-cu11        11.11.3.6\n",
        "torch                     2.1.2+cu118\n",
        "tensorflow                2.13.1\n",
    ],
)
def test_cudnn_is_for_the_cuda_that_is_there(stated: str) -> None:
    missing = (
        f"dso_loader.cc:64] Could not load dynamic library 'libcudnn.so.8'; dlerror: {CUDNN_8}\n"
    )
    lines = list_lines(find_cause(stated + missing))
    assert "nvidia-cudnn-cu11" in lines
    assert "cu12" not in lines


def test_the_minor_of_cudnn_tells_the_cuda() -> None:
    text = (
        "cuda_dnn.cc:417] Loaded runtime CuDNN library: 8.1.0 but source was compiled with: {}.\n"
    )
    assert "nvidia-cudnn-cu11" in list_lines(find_cause(text.format("8.6.0")))
    assert "nvidia-cudnn-cu12" in list_lines(find_cause(text.format("8.9.4")))


NEEDS = (
    "Because torchvision==0.20.1 depends on torch==2.5.1 and {} torch==2.6.0, we can conclude that "
)


PIP = """\
Found pdm.lock
ERROR: ResolutionImpossible
The conflict is caused by:
    The user requested torch==2.6.0
    torchvision 0.20.1 depends on torch==2.5.1
    b 1.0 depends on a>=1 (from b@1.0)
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (NEEDS.format("you require") + "your requirements are unsatisfiable.", "uv pip install "),
        (NEEDS.format("your project depends on") + "they are incompatible.", "uv add "),
        (
            PIP,
            "python3 -m pip install ",
        ),
    ],
    ids=["uv pip", "uv add", "pip"],
)
def test_the_tool_is_typed_in_the_form_in_which_it_spoke(text: str, words: str) -> None:
    log = text if text == PIP else f"No solution found when resolving dependencies:\n{text}\n"
    assert list_lines(find_cause(log)).startswith(words)


def test_poetry_is_told_the_range_that_all_packages_take() -> None:
    finding = find_cause(
        "The current project's supported Python range (>=3.8,<4.0) is not compatible with some of"
        " the required packages Python requirement:\n"
        "  - scipy requires Python <3.13,>=3.9, so it will not be installable for Python >=3.13\n"
        "  - numba requires Python >=3.10,<3.14, so it will not be installable for Python >=3.14\n"
    )
    assert finding.fix is not None
    assert 'python = ">=3.10,<3.13"' in finding.fix.summary


@pytest.mark.parametrize(
    "failure",
    [
        "Failed to initialize NVML: Driver/library version mismatch\n",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).\n",
    ],
)
def test_a_notebook_service_is_not_given_a_driver(failure: str) -> None:
    finding = find_cause(f'{failure}  File "/content/train.py", line 2, in <module>\n')
    assert finding.fix is not None
    assert "Colab: Runtime > Disconnect" in finding.fix.summary
    assert "apt-get" not in list_lines(finding)
    assert "reboot" not in list_lines(finding)
