"""What stands before a message is taken off; the message stays as it was written."""

from __future__ import annotations

import json

import pytest

from envcheck.explain.text import LONGEST, Cutter, clean_line, strip_markup
from tests.explain.messages import names, scanned

MESSAGE = "RuntimeError: CUDA error: out of memory"

# (what stands before the message, the worker it names), as the programs write it.
PREFIXES = [
    ("", ""),
    ("2026-11-20 23:01:40.940019: ", ""),  # TensorFlow
    ("2026-11-20T23:01:40.9400191Z ##[error]", ""),  # GitHub Actions and Azure Pipelines
    ("##[warning]", ""),
    ("::error::", ""),
    ("::error file=train.py,line=3::", ""),
    ("(EngineCore_0 pid=123) ", "EngineCore_0 pid=123"),  # vLLM
    ("(EngineCore_DP0 pid=123) ERROR 11-21 10:00:00 [core.py:586] ", "EngineCore_DP0 pid=123"),
    ("(VllmWorker rank=0 pid=123) ", "VllmWorker rank=0 pid=123"),
    (
        "(VllmWorkerProcess pid=7) ERROR 08-07 12:00:00 multiproc_worker_utils.py:226] ",
        "VllmWorkerProcess pid=7",
    ),
    ("INFO 11-21 10:00:00 [core.py:58] ", ""),
    ("\x1b[36m(train pid=1)\x1b[0m ", "train pid=1"),  # Ray in colour
    ("(RayTrainWorker pid=1234) [rank0]: ", "RayTrainWorker pid=1234/rank0"),
    ("[rank0]:[E121 10:00:00.123456 ProcessGroupNCCL.cpp:616] ", "rank0"),  # PyTorch's C++ log
    ("[E1121 10:00:00.123456789 ProcessGroupNCCL.cpp:616] ", ""),
    ("[0]:", "0"),  # torchrun of long ago
    ("[trainer0]:", "trainer0"),
    ("INFO:2024-06-06 10:00:00,000:jax._src.xla_bridge:889: ", ""),  # JAX
    ("ERROR:root:", ""),  # Python's logging
    ("WARNING:my.module:", ""),
    ("2026-11-20 23:01:40,123 - __main__ - ERROR - ", ""),
    ("2026-11-20 23:01:40,123 ERROR __main__: ", ""),
    ("[2026-11-20 23:01:40,123] [ERROR] [launch.py:321:sigkill_handler] ", ""),  # DeepSpeed
    ("2026-11-20 23:01:40.123 | ERROR    | __main__:main:12 - ", ""),  # loguru
    ("2026-11-20 23:01:40.123 | WARNING  | pkg.mod:<module>:3 - ", ""),
    ("[ERROR] ", ""),
    ("23:01:40.123 [ERROR] ", ""),
    ("[11/20/26 23:01:40] ", ""),  # rich
    ("[11/20/2026-23:01:40] ", ""),  # TensorRT
    ("E   ", ""),  # pytest
    ("E       ", ""),
    ("---> 12 ", ""),  # IPython
    ("train.log:123:", ""),  # grep -n
    ('time="2026-11-20T23:01:40Z" level=error msg="', ""),  # logfmt
    ("Nov 20 23:01:40 node7 kernel: [ 12.3] ", "node7"),
    ("2026-11-20T23:01:40.940019123Z ", ""),  # docker logs --timestamps
    ("2026-11-20T23:01:40.9400191Z ", ""),  # GitHub Actions
    ("2026-11-20T23:01:40+01:00 ", ""),
    ("2026-11-20T23:01:40.940019123Z stderr F ", ""),  # containerd
    ("[2026-11-20 23:01:40,940] ", ""),  # Python's logging, in brackets
    ("[2026-11-20T23:01:40.940Z] ", ""),  # Jenkins
    ("2026/11/20 23:01:40 ", ""),
    ("23:01:40 ", ""),
    ("[23:01:40.123] ", ""),
    ("Nov 20 23:01:40 node7 trainer[4711]: ", "node7"),  # syslog
    ("Nov  2 23:01:40 node7 python3[4711]: ", "node7"),
    ("2026-11-20T23:01:40+0100 node7 slurmstepd[88]: ", "node7"),  # journalctl -o short-iso
    ("Nov 20 23:01:40 node7 kernel: ", "node7"),
    ("Nov 20 23:01:40 node7 kernel: [   12.345678] ", "node7"),
    ("[   12.345678] ", ""),  # dmesg
    ("[1234567.345678] ", ""),
    ("[Fri Nov 20 23:01:40 2026] ", ""),  # dmesg --ctime
    ("kern  :err   : [   12.345678] ", ""),  # dmesg --decode
    ("<3>", ""),
    ("web_1  | ", "web_1"),  # docker compose 1
    ("trainer-1  | 2026-11-20T23:01:40Z ", "trainer-1"),  # docker compose 2
    ("[pod/trainer-0/pytorch] ", "pod/trainer-0/pytorch"),  # kubectl logs --prefix
    ("trainer-7d9f8b6c5-x2x4k pytorch ", "trainer-7d9f8b6c5-x2x4k"),  # stern
    ("bert-worker-3 pytorch ", "bert-worker-3"),
    ("0: ", "0"),  # srun --label
    ("13: 2026-11-20 23:01:40.940019: ", "13"),
    ("[rank0]: ", "rank0"),  # torch
    ("[default3]:", "default3"),  # torchrun --tee
    ("[default3]:[rank3]: ", "default3/rank3"),
    ("[1,0]<stderr>:", "1,0"),  # mpirun --tag-output
    ("[1,mpirank:0,algo-1]<stderr>:", "1,mpirank:0,algo-1"),
    ("(RayTrainWorker pid=1234, ip=10.0.0.7) ", "RayTrainWorker pid=1234, ip=10.0.0.7"),
    ("(pid=1234) ", "pid=1234"),
    ("> ", ""),  # quoted
    ("> > ", ""),
    ("> [rank1]: ", "rank1"),
    (">>> ", ""),
    ("#12 34.56 ", ""),  # BuildKit
    ("34.561 ", ""),
    ("(base) user@host:~/project$ ", ""),
    ("(venv) (base) user@host ~ % ", ""),
    ("$ ", ""),
    (r"PS C:\Users\user> ", ""),
    (r"C:\Users\user>", ""),
]


def test_what_stands_before_a_message_is_taken_off() -> None:
    lines = {
        prefix: clean_line(strip_markup((prefix + MESSAGE).encode())) for prefix, _ in PREFIXES
    }
    assert {prefix: (line.text, line.worker) for prefix, line in lines.items()} == {
        prefix: (MESSAGE, worker) for prefix, worker in PREFIXES
    }
    plainly = {prefix: line.bare for prefix, line in lines.items() if "\x1b" not in prefix}
    assert plainly == {prefix: (prefix + MESSAGE).strip() for prefix in plainly}


@pytest.mark.parametrize(
    "end", ["\n", "\r\n", "\n\n\n", ""], ids=["lf", "crlf", "blank lines", "none"]
)
def test_a_signature_that_begins_its_line_is_found_behind_each(end: str) -> None:
    found = {
        prefix: names(scanned(f"Epoch 1{end or chr(10)}{prefix}Killed{end}".encode()).events)
        for prefix, _ in PREFIXES
    }
    claimed = {prefix for prefix, events in found.items() if events == ["killed"]}
    # what a logger gives out as information claims nothing
    assert claimed == {prefix for prefix, _ in PREFIXES if "INFO" not in prefix}


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (
            "I0000 00:00:1732143660.123456    1234 cuda_executor.cc:1015] negative",
            "I cuda_executor.cc:1015] negative",
        ),
        (
            "E0808 20:59:00.842178 139857030612800 xla_bridge.py:328] Unable",
            "E xla_bridge.py:328] Unable",
        ),
        (
            "2026-11-20 23:01:40.945803: E tensorflow/x.cc:318] failed",
            "E tensorflow/x.cc:318] failed",
        ),
    ],
)
def test_the_severity_letter_stays(raw: str, text: str) -> None:
    assert clean_line(raw.encode()).text == text


@pytest.mark.parametrize(
    "text",
    [
        "ImportError: libcudart.so.10.1: cannot open shared object file: No such file or directory",
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)",
        "| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2     |",
        "/usr/local/cuda/include/crt/host_config.h:139:2: error: #error -- unsupported GNU version!",
        "  12 | #error".strip(),
        "[1/4] Building CUDA object x.cu.o",
        "[W CUDAFunctions.cpp:109] Warning: CUDA initialization",
        '  File "train.py", line 3, in <module>'.strip(),
        "ERROR: Could not find a version that satisfies the requirement torch (from versions: none)",
        "docker: Error response from daemon: could not select device driver",
        "nvcc fatal   : Unsupported gpu architecture 'compute_90'",
        "(no such file)",
        "{not json}",
        "1.2.3 is not a version of it",
        "",
    ],
)
def test_a_message_without_a_prefix_stays_whole(text: str) -> None:
    line = clean_line(text.encode())
    assert (line.text, line.worker) == (text, "")


@pytest.mark.parametrize("key", ["log", "message", "msg", "MESSAGE", "textPayload"])
def test_a_message_inside_json_comes_out(key: str) -> None:
    record = json.dumps(
        {key: f"[rank2]: {MESSAGE}\n", "stream": "stderr", "time": "2026-11-20T23:01:40.9Z"}
    )
    line = clean_line(record.encode())
    assert (line.text, line.worker) == (MESSAGE, "rank2")


def test_json_without_a_message_stays_whole() -> None:
    for record in ('{"loss": 0.3}', '{"log": 3}', '{"msg": " "}', '{"log": "', "{" * 5000 + "}"):
        assert clean_line(record.encode()).text == record


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (
            "Datei oder Verzeichnis nicht gefunden: Größe".encode(),
            "Datei oder Verzeichnis nicht gefunden: Größe",
        ),
        ("Größe".encode("cp1252"), "Größe"),
        ("Größe überschritten".encode()[:-1] + b"\xff", "Größe überschritte\ufffd"),
        (b"\xef\xbb\xbfKilled", "Killed"),
        (b"\xff\xfe\xfd", "ÿþý"),
    ],
)
def test_text_of_any_encoding_is_decoded(raw: bytes, text: str) -> None:
    assert clean_line(raw).text == text


def test_prefixes_without_end_are_no_trap() -> None:
    assert clean_line(b"> " * 2000 + b"Killed").text.endswith("Killed")


def lines_of(*blocks: bytes) -> bytes:
    cutter = Cutter()
    return b"".join(map(cutter.feed, blocks)) + cutter.finish()


def test_blocks_cut_anywhere_give_the_same_lines() -> None:
    text = b"eins\r\nzwei \x1b[31mrot\x1b[0m\r50%\rdrei\n\nletzte"
    whole = lines_of(text)
    assert whole == b"eins\r\nzwei rot\r50%\rdrei\n\nletzte"
    for size in range(1, len(text)):
        assert lines_of(*(text[at : at + size] for at in range(0, len(text), size))) == whole


def test_memory_is_bounded_without_any_line_end() -> None:
    cutter = Cutter()
    block = b"x" * 65536
    kept = [len(cutter.feed(block)) for _ in range(64)]
    assert max(kept) <= LONGEST + len(block)
    assert sum(kept) >= 62 * 65536 - LONGEST
    assert len(cutter.finish()) <= LONGEST
