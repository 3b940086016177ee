"""Lines broken at a terminal's edge or between words are put together, where only that makes sense of them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

from envcheck.explain import scan as scanning
from envcheck.explain.signatures import load_signatures
from envcheck.explain.text import KEPT_BYTES, join_wrapped_lines
from tests.cases.judged import judge_text, judged_cases
from tests.explain.messages import LINE, names, scanned

CALM = "epoch 1 of 90"
LONG = (
    "2026-11-20 23:01:40.940019: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] "
    + LINE.decode()
)


def at_edge(line: str, width: int) -> str:
    return "\n".join(line[at : at + width] for at in range(0, len(line), width))


@pytest.mark.parametrize("width", [80, 100, 120, 137])
def test_a_message_broken_at_the_edge_is_found_once(width: int) -> None:
    for shift in range(0, 90, 7):
        line = "x" * shift + " " + LONG
        raw = f"{CALM}\n{at_edge(line, width)}\n{at_edge('y' * 300, width)}\n".encode()
        (event,) = scanned(raw).events
        assert event.values == {"library": "libcudart.so.10.1"}
        assert event.count == 1


@pytest.mark.parametrize("width", [72, 80, 100])
def test_a_message_broken_between_its_words_is_found(width: int) -> None:
    for shift in range(0, 90, 7):
        lines = textwrap.wrap("é" * shift + " " + LINE.decode(), width)
        events = scanned(("\n".join([CALM, *lines, CALM]) + "\n").encode()).events
        assert names(events) == ["cannot-open"], lines


def test_half_a_message_is_taken_back() -> None:
    memory = "RuntimeError: CUDA_ERROR_OUT_OF_MEMORY and CUDA out of memory. Tried to allocate 20.00 GiB on 3"
    raw = at_edge("x" * (80 - memory.index("00 GiB")) + memory, 80)
    (event,) = scanned(f"{raw}\n{'z' * 80}\n".encode()).events
    assert event.values in ({"wanted": "20.00 GiB"}, {})
    assert event.line == 1


SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.14              Driver Version: 550.54.14      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:00:04.0 Off |                    0 |
| N/A   34C    P0             43W /  400W |     421MiB /  40960MiB |      0%      Default |
+-----------------------------------------------------------------------------------------+
"""


@pytest.mark.parametrize(
    "text",
    [
        SMI,
        "".join(f"2026-11-20 23:01:40.{n:06d}: I as wide as any other, with counters {n:04d}\n" for n in range(99)),
        "\n".join(["short", "lines", "only"] * 30),
        "x" * 900 + "\n" + "y" * 900,
        "",
        "one line without an end that is longer than any screen is wide " * 9,
    ],
    ids=["table", "counters", "short", "long", "nothing", "one"],
)  # fmt: skip
def test_lines_that_end_by_themselves_are_left_alone(text: str) -> None:
    assert list(join_wrapped_lines(text.encode())) == []


def test_the_last_state_of_a_progress_bar_is_what_goes_on() -> None:
    broken = next(join_wrapped_lines(b"10%\r20%\r" + b"a" * 80 + b"\r\nbcd\r\n"))
    assert broken.text == "a" * 80 + "bcd"
    assert (broken.number, broken.joined_with_marker) == (1, "a" * 80 + "\x01bcd")


def test_a_large_log_is_not_looked_at_again() -> None:
    raw = at_edge("x" * 40 + LINE.decode(), 80).encode()
    assert names(scanned(raw).events) == ["cannot-open"]
    assert names(scanned(raw + b"\n", b"calm\n" * (KEPT_BYTES // 5)).events) == []


@pytest.fixture
def without_joining(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "join_wrapped_lines", lambda _: ())


@pytest.mark.usefixtures("without_joining")
def test_logs_that_nothing_broke_are_judged_as_if_nothing_were_put_together() -> None:
    for item in judged_cases("reported"):
        if item.case["decidable_from"] == "log":
            assert judge_text(item.case["log"]).primary == item.primary, item.case["id"]


def between_words(line: str, width: int) -> str:
    return "\n".join(
        textwrap.wrap(line, width, break_long_words=False, replace_whitespace=False) or [""]
    )


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("wrap", [at_edge, between_words])
def test_real_reports_are_judged_alike_when_their_lines_are_broken(
    wrap: Callable[[str, int], str], width: int
) -> None:
    same = {}
    for item in judged_cases("reported"):
        lines = item.case["log"].splitlines()
        if item.case["decidable_from"] == "log" and any(len(line) > width for line in lines):
            broken = "\n".join(wrap(line, width) for line in lines)
            same[item.case["id"]] = judge_text(broken).primary == item.primary
    assert len(same) > 25
    assert sum(same.values()) >= 0.95 * len(same), [
        name for name, is_same in same.items() if not is_same
    ]


def test_two_processes_that_wrote_into_one_line_are_both_heard() -> None:
    glued = (
        LINE
        + LINE.replace(b"cudart.so.10.1", b"cublas.so.11")
        + b"torch.OutOfMemoryError: CUDA out of memory. "
        b"Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.69 GiB of which 3.00 MiB is free."
    )
    scan = scanned(glued + b"\n", signatures=load_signatures())
    assert {event.values.get("library") for event in scan.events} >= {
        "libcudart.so.10.1",
        "libcublas.so.11",
    }
    assert any(event.signature.startswith("torch-oom") for event in scan.events), names(scan.events)


def test_a_harmless_line_is_not_joined_with_what_follows() -> None:
    harmless = (
        "2023-08-01 00:00:00.1: I tensorflow/core/util/port.cc:110] oneDNN custom operations are on. You may see "
        "slightly different numerical results due to floating-point round-off errors from different computation "
        "orders. To turn them off, set the environment variable `TF_ENABLE_ONEDNN_OPTS=0`."
    )
    cause = (
        "tensorflow-1.3.0-cp36-cp36m-linux_aarch64.whl is not a supported wheel on this platform."
    )
    assert judge_text(f"{harmless}\n{harmless}\n{cause}").primary == "python-unsupported"
