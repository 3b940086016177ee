"""What was asked at a prompt is read together with its answer."""

from __future__ import annotations

import pytest

from envcheck.explain.scan import scan
from envcheck.explain.signatures import load_signatures
from envcheck.explain.text import list_answers

TRANSCRIPTS = (
    (">>> torch.cuda.is_available()\nFalse\n", "torch.cuda.is_available() -> False"),
    (">>> torch.version.cuda\n>>> exit()\n", "torch.version.cuda -> None"),
    ("In [3]: torch.version.cuda\nOut[3]: '11.8'\n", "torch.version.cuda -> Out[3]: '11.8'"),
    (
        "(base) me@box:~/src$ echo $CUDA_VISIBLE_DEVICES\r\n-1\r\n",
        "echo $CUDA_VISIBLE_DEVICES -> -1",
    ),
    ("$ echo $CUDA_VISIBLE_DEVICES\n\n$ ls\n", "echo $CUDA_VISIBLE_DEVICES -> "),
    ("C:\\Users\\me>echo %CUDA_VISIBLE_DEVICES%\n0\n", "echo %CUDA_VISIBLE_DEVICES% -> 0"),
    ("PS C:\\Users\\me> $env:CUDA_VISIBLE_DEVICES\n1\n", "$env:CUDA_VISIBLE_DEVICES -> 1"),
    ("print(torch.cuda.is_available())\nTrue\n", "torch.cuda.is_available()) -> True"),
    ("root@4be21f0c9d11:/app# nproc", "nproc -> "),
)


@pytest.mark.parametrize(("text", "joined"), TRANSCRIPTS, ids=[joined for _, joined in TRANSCRIPTS])
def test_a_question_is_joined_with_its_answer(text: str, joined: str) -> None:
    assert joined in [item.text for item in list_answers(text.encode())]


def test_ordinary_lines_ask_nothing() -> None:
    text = "epoch 1 loss 0.3\n# a comment in code\nResult: 12 > 3\n  File torch.py, line 3\nTrue\n"
    assert not [item.text for item in list_answers(text.encode()) if "True" in item.text]


def test_an_answer_is_read_as_a_fact() -> None:
    log = b">>> torch.__version__\n'2.1.0+cu118'\n>>> torch.version.cuda\n'11.8'\n>>> torch.cuda.is_available()\nTrue\n"
    found = {
        event.signature: event.values for event in scan([("log", [log])], load_signatures()).events
    }
    assert found["answered-torch-version"] == {"torch": "2.1.0+cu118"}
    assert found["answered-torch-cuda"] == {"torch_cuda": "11.8"}
    assert "answered-available" in found
