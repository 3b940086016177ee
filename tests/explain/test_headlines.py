"""The first line of an explanation names what its deciding line names."""

from __future__ import annotations

import pytest

from tests.cases.judged import judge_text

LINKER = "ld: cannot find -lcudart: No such file or directory\n"
NUMPY = "AttributeError: `np.NaN` was removed in the NumPy 2.0 release. Use `np.nan` instead.\n"
MIXED = (
    "RuntimeError: Expected all tensors to be on the same device,"
    " but found at least two devices, cuda:0 and cpu!\n"
)
LLAMA = (
    "ggml_cuda_init: failed to initialize CUDA:"
    " CUDA driver version is insufficient for CUDA runtime version\n"
    "warning: no usable GPU found, --gpu-layers option will be ignored\n"
)
ASKED = (
    "Traceback (most recent call last):\n"
    '  File "app.py", line 3, in <module>\n'
    "    import pipelines\n"
    '  File "/opt/conda/lib/python3.10/site-packages/diffusers/utils.py", line 9, in <module>\n'
    "    from huggingface_hub import cached_download\n"
    "ImportError: cannot import name 'cached_download' from 'huggingface_hub'\n"
)


UV = (
    "$ uv pip install --system torch\n"
    "error: The interpreter at `/usr` is externally managed, and indicates the following:\n"
    + "  See the manual of this system.\n"
    * 9
)
PIP = "ERROR: Could not open requirements file: [Errno 2] No such file or directory: 'gpu.txt'\n"
APT = "E: The repository 'file:/srv/cuda ./ Release' does not have a Release file.\n"
OWN_PART = (
    "Traceback (most recent call last):\n"
    '  File "/v/lib/python3.11/site-packages/torch/__init__.py", line 445, in <module>\n'
    "    from torch._C import *\n"
    "ImportError: libc10.so: cannot open shared object file: No such file or directory\n"
)
TWO_ANSWERS = (
    '(tf) C:\\work>python -c "import tensorflow as tf; print(tf.__version__);'
    " print(tf.config.list_physical_devices('GPU'))\"\n"
    "2.16.1\n"
    "[]\n"
)
JAX_CPU = "0.12.0.1 [CpuDevice(id=0)] cpu\n"
JAX_PLUGIN = (
    "Traceback (most recent call last):\n"
    '  File "/v/lib/python3.12/site-packages/jax_plugins/xla_cuda12/__init__.py", line 207, in'
    " initialize\n"
    "RuntimeError: Unable to load cuSPARSE. Is it installed?\n"
    "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed."
    " Falling back to cpu.\n"
    "$ echo $LD_LIBRARY_PATH\n"
    "/usr/local/cuda-12.1/lib64\n"
)


@pytest.mark.parametrize(
    ("log", "headline"),
    [
        (LINKER, "The linker does not find a library of the CUDA Toolkit (-lcudart)."),
        (NUMPY, "NumPy removed a name that an older package uses (np.NaN)."),
        (MIXED, "Not the environment: the program mixes tensors of the CPU and the GPU."),
        (LLAMA, "The driver is too old for the CUDA of this build."),
        (
            ASKED,
            "diffusers uses cached_download, which the installed huggingface_hub does not have.",
        ),
        (UV, "The tool installs nothing into the system's Python: it asks for an environment."),
        (PIP, "Not the environment: gpu.txt, which the program names, is not there."),
        (
            APT,
            (
                "Not the environment: apt takes nothing from file:/srv/cuda ./ Release,"
                " which has no valid list of its packages."
            ),
        ),
        (OWN_PART, "libc10.so, a part of torch, is not there: torch is installed in part."),
        (
            TWO_ANSWERS,
            (
                "tensorflow 2.16.1 has no GPU wheel for win_amd64:"
                " only CPU builds are published there."
            ),
        ),
        (JAX_CPU, "Only the CPU is used: the log does not show the cause."),
        (
            JAX_PLUGIN,
            (
                "JAX cannot load cuSPARSE, and LD_LIBRARY_PATH names folders"
                " that are searched before those of its wheels."
            ),
        ),
    ],
    ids=[
        "linker",
        "removed name",
        "program",
        "llama.cpp",
        "package asked",
        "uv",
        "pip",
        "apt",
        "own part",
        "two answers",
        "no failure",
        "plugin",
    ],
)
def test_the_headline_names_what_the_deciding_line_names(log: str, headline: str) -> None:
    assert judge_text(log).report.headline == headline


def test_a_part_that_the_sentence_names_is_not_named_twice() -> None:
    headline = judge_text(
        "ImportError: libGL.so.1: cannot open shared object file\n"
    ).report.headline
    assert headline.count("libGL.so.1") == 1


def test_a_job_of_a_cluster_is_told_first_what_its_user_can_do() -> None:
    old = (
        "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old"
        " (found version 11080). Please update your GPU driver\n"
    )
    for head, summary in (
        ("srun: job 4418213 has been allocated resources\n", "Use a build for the driver."),
        ("", "Install NVIDIA's driver"),
    ):
        report = judge_text(head + old).report
        fix = next(item.fix for item in report.findings if item.primary)
        assert fix is not None
        assert fix.summary.startswith(summary.removesuffix(" for the driver."))
