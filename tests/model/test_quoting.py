"""What is quoted of a log: words, numbers, versions, libraries, public sites; nothing of another form."""

from __future__ import annotations

import re

import pytest

from bench.privacy import FIRST, LINES, SECOND, Form
from envcheck.explain.signatures import conclusions_by_name, load_signatures
from envcheck.model.quoting import quote

SHOWN = (
    "max_tokens=2048, pad_token_id=50256, tokenizer: bert",
    "token: 50256, a secret key",
    "Loaded cuDNN version 8.9.7.29",
    "torch 2.5.1 requires nvidia-cudnn-cu12==9.1.0.70; nvidia-curand-cu12==10.3.5.147",
    "libnvidia-compute-535 nvidia-driver-535 linux-headers-6.8.0-45-generic gcc-11",
    "undefined symbol: _ZN3c104cuda9SetDeviceEi, version GLIBCXX_3.4.30",
    "torch-2.8.0+cu126-cp311-cp311-manylinux_2_28_x86_64.whl",
    "NVIDIA RTX A6000 with CUDA capability sm_86, H100 80GB HBM3, A100-SXM4-40GB",
    "https://pytorch.org/get-started/locally/ and https://github.com/pytorch/pytorch/issues/100",
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1:/usr/local/cuda-12.4/lib64",
    "/job:localhost/replica:0/task:0/device:GPU:0",
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
    "2026-01-02 10:00:00.123 W0000 00:00:17.5 cuda_driver.cc:152] failed call to cuInit",
)


@pytest.mark.parametrize("text", SHOWN)
def test_what_helps_is_quoted(text: str) -> None:
    assert quote(text) == text


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        ("HF_TOKEN=abc12345 python train.py", "HF_TOKEN=*** python train.py"),
        ('{"api_key": "abc-12345678"}', '{"api_key": "***"}'),
        ("Authorization: Bearer abcdef", "Authorization: Bearer ***"),
        ("login with hf_abcdefghijklmnop1234", "login with ***"),
        ("srun: error: gpu-node-17: task 0", "srun: error: ***: task 0"),
        ("10.1.2.3:29500, 192.168.0.4", "***, ***"),
        ("https://anna:s3cret@pypi.example/simple", "https://***"),
        ("jane@corp.example:~$ ls", "*** ls"),
        (
            "/data/jane/env/lib/python3.11/site-packages/torch/_C.so",
            "***/lib/python3.11/site-packages/torch/_C.so",
        ),
        ('File "/scratch/jane/train.py"', 'File "***/train.py"'),
    ],
)
def test_what_tells_of_people_and_places_is_not(said: str, quoted: str) -> None:
    assert quote(said) == quoted


def test_files_of_the_environment_are_shown() -> None:
    text = "/data/jane/env/lib/python3.11/site-packages/torch/_C.so"
    assert quote(text, ("/data/jane/env/",)) == text


@pytest.mark.parametrize("form", [*FIRST, *SECOND], ids=lambda form: form.name)
def test_no_planted_form_is_quoted(form: Form) -> None:
    assert [line for line in LINES if form.secret in quote(line.replace("{}", form.text))] == []


def test_no_sentence_of_the_catalogue_is_hidden() -> None:
    meanings = [row.meaning for row in load_signatures()]
    meanings += [row.meaning for row in conclusions_by_name().values()]
    sentences = [re.sub(r"\{\w+\}", "12.4", meaning) for meaning in meanings]
    assert [text for text in sentences if quote(text) != text] == []


def test_a_folder_that_facts_state_is_quoted_whatever_its_name() -> None:
    """By it the rules know whose file ended an import."""
    line = 'File "/data/acme-7/x/numpy/a.py", File "/data/acme-7/y/b.py"'
    assert (
        quote(line, ("/data/acme-7/x/", "~/"))
        == 'File "/data/acme-7/x/numpy/a.py", File "***/b.py"'
    )
