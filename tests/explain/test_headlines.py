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
    ],
    ids=["linker", "removed name", "program", "llama.cpp", "package asked"],
)
def test_the_headline_names_what_the_deciding_line_names(log: str, headline: str) -> None:
    assert judge_text(log).report.headline == headline


def test_a_part_that_the_sentence_names_is_not_named_twice() -> None:
    headline = judge_text(
        "ImportError: libGL.so.1: cannot open shared object file\n"
    ).report.headline
    assert headline.count("libGL.so.1") == 1
