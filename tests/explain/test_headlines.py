"""The first line of an explanation names what its deciding line names."""

from __future__ import annotations

import pytest

from envcheck.model import COMPATIBLE, Remedy
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
GIT = (
    "$ pip install git+https://code.example/NVIDIA/apex.git\n"
    "  fatal: unable to access 'https://code.example/NVIDIA/apex.git/': Failed to connect to"
    " code.example port 443 after 0 ms: Couldn't connect to server\n"
    "error: subprocess-exited-with-error\n"
)
PROXY = (
    "WARNING: Retrying (Retry(total=1)) after connection broken by 'ProxyError('Cannot connect"
    " to proxy.', NewConnectionError('[Errno 111] Connection refused'))': /simple/transformers/\n"
    "ERROR: No matching distribution found for transformers\n"
)
LARGE = (
    "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB for an array with"
    " shape (1000000, 100000, 10) and data type float64\n"
)
PDM = "[AttributeError]: module 'hishel' has no attribute 'SyncSqliteStorage'\n"
CHECKED = "$ pip check\nNo broken requirements found.\n"
BF16 = (
    "ValueError: Your setup doesn't support bf16/gpu."
    " You need to assign use_cpu if you want to train the model on CPU.\n"
)
COLAB = (
    "ValueError: numpy.dtype size changed, may indicate binary incompatibility."
    " Expected 96 from C header, got 88 from PyObject\n"
    "Successfully installed numpy-1.26.4\n"
    "You must restart the runtime in order to use newly installed versions.\n"
)
DKMS = (
    "ERROR (nvidia-dkms-550): Bad return status for module build on kernel: 6.14.0-29-generic\n"
    "/var/lib/dkms/nvidia/550.54.14/build/nvidia/nv-mmap.c:80:5: error: implicit declaration of"
    " function 'follow_pfn'\n"
)
CUPY = (
    "cupy/_environment.py:216: UserWarning: \n"
    "  CuPy may not function correctly because multiple CuPy packages are installed\n"
    "  in your environment:\n"
    "Traceback (most recent call last):\n"
    '  File "<stdin>", line 1, in <module>\n'
    "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInsufficientDriver:"
    " CUDA driver version is insufficient for CUDA runtime version\n"
)
RAY = (
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
    "Memory on the node was 61.12GB / 62.80GB (0.97), which exceeds the memory usage threshold"
    " of 0.95.\n"
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
        (
            GIT,
            ("Not the environment: https://*** does not answer, or cannot be reached from here."),
        ),
        (
            PROXY,
            (
                "Not the environment: the proxy that is set does not answer,"
                " so the package index was not reached."
            ),
        ),
        (LARGE, "Not the environment: the program asks for 7.28 TiB of memory at once."),
        (
            PDM,
            (
                "The last error is none that envcheck knows:"
                " AttributeError: module 'hishel' has no attribute 'SyncSqliteStorage'"
            ),
        ),
        (
            CHECKED,
            "Nothing in this log reports a failure; it ends well: No broken requirements found.",
        ),
        (BF16, "transformers finds no GPU that PyTorch can use."),
        (
            COLAB,
            (
                "NumPy was replaced after this runtime had imported it:"
                " parts of two releases run together."
            ),
        ),
        (
            DKMS,
            (
                "The source of the driver's module does not compile for the kernel that runs:"
                " the driver is older than the kernel."
            ),
        ),
        (CUPY, "The driver is too old for the CUDA of this build."),
        (RAY, "The node's main memory is used up, so the task was ended."),
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
        "git",
        "proxy",
        "large array",
        "brackets",
        "pip check",
        "transformers",
        "restart",
        "driver's source",
        "warning above",
        "node's memory",
    ],
)
def test_the_headline_names_what_the_deciding_line_names(log: str, headline: str) -> None:
    assert judge_text(log).report.headline == headline


def test_a_part_that_the_sentence_names_is_not_named_twice() -> None:
    headline = judge_text(
        "ImportError: libGL.so.1: cannot open shared object file\n"
    ).report.headline
    assert headline.count("libGL.so.1") == 1


def fix_of(log: str) -> Remedy:
    """Return the remedy of the cause that a log shows."""
    fix = next(item.fix for item in judge_text(log).report.findings if item.primary)
    assert fix is not None
    return fix


def test_a_job_of_a_cluster_is_told_first_what_its_user_can_do() -> None:
    old = (
        "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old"
        " (found version 11080). Please update your GPU driver\n"
    )
    job = "srun: job 4418213 has been allocated resources\n"
    assert fix_of(job + old).summary == "Use a build for the installed driver."
    assert fix_of(old).summary.startswith("Install NVIDIA's driver")


def test_what_pip_installed_all_the_same_is_told_how_to_fit() -> None:
    log = (
        "numba 0.59.1 requires numpy<1.27,>=1.22, but you have numpy 2.3.0 which is"
        " incompatible.\nSuccessfully installed numpy-2.3.0\n"
    )
    report = judge_text(log).report
    assert report.verdict == COMPATIBLE
    fixes = [item.fix.summary for item in report.findings if item.fix]
    assert fixes == [
        "Install numpy<1.27,>=1.22, or a newer release of the package that requires it."
    ]


def test_the_steps_are_those_of_the_system_that_apt_names() -> None:
    refused = "E: Package 'nvidia-driver' has no installation candidate\n"
    for source, tool in (
        ("deb http://mirror.example/debian bookworm main\n", "nvidia-driver"),
        ("deb http://mirror.example/ubuntu noble main\n", "ubuntu-drivers-common"),
    ):
        assert any(tool in str(action) for action in fix_of(refused + source).actions)
