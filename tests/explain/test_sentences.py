"""What a failing program states in words that no signature has."""

from __future__ import annotations

import time

import pytest

from envcheck.explain.statements import read_stated
from envcheck.model import COMPATIBLE
from tests.cases.judged import judge_text

# line -> kind, what, releases, found
STATED = {
    "ImportError: tokenizers>=0.21,<0.22 is required, but found tokenizers==0.20.3.": (
        "needs", "tokenizers", ">=0.21,<0.22", "0.20.3",
    ),
    "ValueError: we now require users to upgrade torch to at least v2.6": (
        "needs", "torch", ">=2.6", "",
    ),
    "RuntimeError: this kernel requires PyTorch >= 2.4, you have 2.1.2": (
        "needs", "torch", ">=2.4", "2.1.2",
    ),
    "error: needs CUDA 12.4 or newer": ("needs", "cuda", ">=12.4", ""),
    "AssertionError: numpy must be at least 1.26, got 1.21.6": ("needs", "numpy", ">=1.26", "1.21.6"),
    "You are using CUDA 12.4 on a driver that only supports up to 11.4 (driver 470.256.2).": (
        "needs", "cuda driver", ">=12.4", "11.4",
    ),
    'Unable to dynamically load the "cuda" shared library - searched for: ["cuda", "nvcuda"]': (
        "library", "libcuda.so.1", "", "",
    ),
    "zsh: no matches found: jax[cuda12]": ("pattern", "jax[cuda12]", "", ""),
    "uv.lock needs to be updated, but --locked was provided.": ("lock", "uv", "", ""),
    "Pipfile.lock (a1b2) is out of date.": ("lock", "pipenv", "", ""),
    "ValueError: Cuda is not available.": ("no-gpu", "", "", ""),
    "RuntimeError: No supported GPUs found on this host": ("no-gpu", "", "", ""),
    "serve.py: error: unrecognized arguments: --tp 2": ("arguments", "", "", ""),
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.": (
        "daemon", "Docker", "", "",
    ),
    "RuntimeError: Cannot install on Python version 3.12.1; only versions >=3.8,<3.12 are supported.": (
        "needs", "python", ">=3.8,<3.12", "3.12.1",
    ),
    "Python 3.9.2 is not supported by the project (>=3.10).": ("needs", "python", ">=3.10", "3.9.2"),
    "ValueError: this needs `accelerate`, which is not installed": ("needs", "accelerate", "", ""),
    "ImportError: Install it with `pip install peft`.": ("needs", "peft", "", ""),
    "ImportError: the package for FlashAttention2 doesn't seem to be installed.": (
        "needs", "flashattention2", "", "",
    ),
    "ImportError: Missing optional dependency 'tables'.": ("needs", "tables", "", ""),
    "AttributeError: jax.tree_map was removed in JAX v0.6.0: use jax.tree.map": (
        "replaced", "jax.tree_map", "", "",
    ),
    "The 'sklearn' PyPI package is deprecated, use 'scikit-learn'": ("replaced", "sklearn", "", ""),
    "requires device with capability > (8, 0) but your GPU has capability (7, 5) (too old)": (
        "needs", "compute capability", ">8.0", "7.5",
    ),
    "Cannot access gated repo for url https://models.example/x/config.json.": ("refused", "", "", ""),
}  # fmt: skip


FAULTS = {
    "libxyz: kernel version 515.48.7 does not match DSO version 510.73.5": "driver-library-mismatch",
    "the client has the version 570.153.02, but this kernel module has the version 570.144": (
        "driver-library-mismatch"
    ),
    "Failed to allocate 176 MiB on device 0": "gpu-memory-exhausted",
    "mylib: RESOURCE_EXHAUSTED: no room for the weights": "gpu-memory-exhausted",
    "Couldn't invoke ptxas --version": "ptxas-problem",
    "OSError: cannot execute nvcc": "toolkit-missing",
    "RuntimeError: Unable to find C compiler": "build-tools-missing",
    "error: can't find Rust compiler": "build-tools-missing",
    "error: [Errno 2] No such file or directory: 'gcc'": "build-tools-missing",
    "sampler: could not run nvidia-smi": "driver-missing",
    "mylib was made for AVX2, which is not supported here": "cpu-missing-avx",
    "Loaded cuDNN 8.5.0 but the program was built with 8.6.0": "cudnn-too-old",
    "plugin version 0.5.1 is not compatible with runtime version 0.5.3": "dependency-conflict",
    "multiple CuPy packages are installed": "framework-duplicate-dists",
    'The "onnx-gpu" package has been removed': "framework-package-removed",
}
BUILDS = {"g++-9: No such file or directory": "g++-9", "sh: 1: clang-14: not found": "clang-14"}
CODES = {
    "cudaGetDeviceCount returned 30": "30",
    "THCudaCheck FAIL file=Module.cpp line=33 error=101 : something": "101",
    "cuInit(0) failed with error code 999": "999",
}


@pytest.mark.parametrize("line", BUILDS)
def test_the_compiler_that_a_build_names_is_kept(line: str) -> None:
    stated = read_stated([line], 1)
    assert stated is not None
    assert stated.row is not None
    assert (stated.row.finding, stated.what) == ("build-tools-missing", BUILDS[line])


@pytest.mark.parametrize("line", FAULTS)
def test_a_fault_is_read_in_words_of_any_program(line: str) -> None:
    stated = read_stated([line], 1)
    assert stated is not None
    assert stated.row is not None
    assert (stated.kind, stated.row.finding) == ("fault", FAULTS[line])


@pytest.mark.parametrize("line", CODES)
def test_the_number_of_an_error_of_cuda_is_read(line: str) -> None:
    stated = read_stated([line], 1)
    assert stated is not None
    assert (stated.kind, stated.what) == ("code", CODES[line])


def test_a_fault_that_no_signature_knows_is_the_cause() -> None:
    judged = judge_text("OSError: cannot execute nvcc here\n")
    assert judged.primary == "toolkit-missing"


@pytest.mark.parametrize("line", STATED)
def test_a_sentence_is_read_by_its_parts(line: str) -> None:
    stated = read_stated(["Traceback (most recent call last):", line], 2)
    assert stated is not None
    assert (stated.kind, stated.what, stated.releases, stated.found) == STATED[line]
    assert stated.number == 2


@pytest.mark.parametrize(
    "line",
    [
        "Epoch 3: loss 0.12, accuracy 0.97",
        "Requirement already satisfied: numpy>=1.26 in ./lib",
        "loaded libcudart.so.12 from /opt/cuda",  # nothing fails
        "This binary is optimized to use AVX2 FMA; your CPU supports them",
        "cudaMalloc returned a pointer",
        "allocated 176 MiB on device 0",
        "nvcc: /usr/local/cuda/bin/nvcc",
        "GET https://index.example/simple/torch/ 200",
        '        raise ValueError("tokenizers>=0.21 is required")',  # source that a traceback shows
        "",
    ],
)
def test_what_no_sentence_states_is_not_read(line: str) -> None:
    assert read_stated([line], 1) is None


def test_a_requirement_that_is_met_is_no_cause() -> None:
    judged = judge_text("UserWarning: tokenizers>=0.20 is required, found tokenizers==0.21.1")
    assert judged.primary != "dependency-conflict"


def test_the_required_release_is_what_to_install() -> None:
    judged = judge_text(
        "Traceback (most recent call last):\nValueError: please upgrade torch to at least v2.6"
    )
    main = next(item for item in judged.report.findings if item.primary)
    assert (main.id, main.message) == ("dependency-conflict", "torch >=2.6 is required.")
    assert main.fix is not None
    assert main.fix.summary == "Install torch>=2.6."


def test_a_name_that_nobody_knows_is_not_installed() -> None:
    judged = judge_text("ValueError: evilpkg>=2.0 is required, but found evilpkg==1.0")
    main = next(item for item in judged.report.findings if item.primary)
    assert main.id == "dependency-conflict"
    assert main.fix is not None
    assert "evilpkg" not in " ".join(map(repr, main.fix.actions))


def test_a_program_that_went_on_states_no_cause() -> None:
    lines = [
        "error: needs CUDA 12.4 or newer",
        *(f"epoch {number}: loss 0.5" for number in range(12)),
    ]
    assert judge_text("\n".join(lines)).primary != "toolkit-wrong-version"


GONE = "[rank0]: RuntimeError: Connection closed by peer [127.0.0.1]:15597"
RANKS = f"""[rank1]: Traceback (most recent call last):
[rank1]:   File "/home/eva/t.py", line 9, in <module>
[rank1]: FileNotFoundError: [Errno 2] No such file or directory: 'labels.csv'
[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/eva/t.py", line 12, in <module>
{GONE}
"""


def test_a_process_whose_peer_is_gone_does_not_say_why() -> None:
    assert judge_text(RANKS).primary == "program-error"
    assert judge_text(GONE).primary == "multi-gpu-p2p-nccl"


def test_the_tools_own_advice_takes_the_place_of_a_general_remedy() -> None:
    said = "ImportError: This file requires a package, but it was not found in your environment."
    log = f"{said}\n\nYou can install it with the command `pip install -U nine`."
    found = judge_text(log).report.findings[0]
    assert found.fix is not None
    assert found.fix.summary.endswith("proposes: pip install -U nine")


def test_a_source_that_a_compiler_refuses_is_named() -> None:
    refused = "main.cpp:4:44: error: 'class at::Tensor' has no member named 'mull'"
    end = "ninja: build stopped: subcommand failed.\nRuntimeError: Error building extension 'e2'"
    found = judge_text(f"{refused}\n{end}\n").report.findings[0]
    assert found.id == "program-error"
    assert "main.cpp: 'class at::Tensor' has no member named 'mull'." in found.message
    wheel = "  ERROR: Failed building wheel for fused\nFailed to build fused"
    assert judge_text(f"{refused}\n{wheel}\n").primary == "dependency-conflict"


def test_a_limit_below_the_error_says_why() -> None:
    error = "NotImplementedError: No operator found for `memory_efficient_attention_forward`"
    limit = "requires device with capability > (8, 0) but your GPU has capability (7, 5)"
    assert judge_text(f"{error} with inputs:\n  {limit}\n").primary == "gpu-arch-too-old"


def test_an_error_of_cuda_decides_between_a_causes_rivals() -> None:
    frame = (
        '  File "/env/lib/python3.11/site-packages/jax/_src/xla_bridge.py", line 760, in backends'
    )
    start = "RuntimeError: jaxlib/cuda/versions_helpers.cc:113: operation cuInit(0) failed: Unknown CUDA error 303"
    end = f"Traceback (most recent call last):\n{frame}\nAssertionError\n"
    assert judge_text(end).primary == "framework-cuda-extra-missing"
    assert judge_text(f"{start}\n{end}").primary == "driver-missing"


def test_what_a_package_refuses_is_the_programs_request() -> None:
    frame = '  File "/env/lib/python3.11/site-packages/nbclient/client.py", line 295, in get\n    raise NoSuchKernel(name)'
    log = f"Traceback (most recent call last):\n{frame}\nnbclient.NoSuchKernel: No such kernel named torch-gpu"
    assert (
        judge_text(log).report.findings[0].message
        == "nbclient refuses what the program asks of it."
    )


def test_a_string_of_a_shown_call_claims_nothing() -> None:
    shown = 'raise RuntimeError(\n    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with "\n)\n'
    assert judge_text(shown).primary != "program-error"


def test_a_log_that_says_it_is_done_is_compatible() -> None:
    done = "Collecting tqdm\nSuccessfully installed einops-0.8.2 tqdm-4.70.1\n"
    report = judge_text(done).report
    assert report.verdict == "compatible"
    assert report.headline.endswith("it ends well: Successfully installed einops-0.8.2 tqdm-4.70.1")
    assert judge_text(f"WARNING: could not remove x\n{done}").report.verdict == "undetermined"


def test_what_does_not_fit_is_said_where_nothing_fails() -> None:
    log = (
        "ERROR: pip's dependency resolver does not currently take into account all the packages\n"
        "a 1.15.0 requires protobuf<5, but you have protobuf 6.33.0 which is incompatible.\n"
        "Successfully installed protobuf-6.33.0\n"
    )
    report = judge_text(log).report
    assert report.verdict == COMPATIBLE
    assert "but you have protobuf 6.33.0" in report.headline


def test_a_line_of_dots_is_read_at_once() -> None:
    start = time.process_time()
    read_stated(["Traceback (most recent call last):", "." * 20_000], 2)
    assert time.process_time() - start < 1  # 7 s where a dot could be of the blanks and of the name
