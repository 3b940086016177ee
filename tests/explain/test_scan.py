"""Messages are found wherever blocks are cut, counted, bounded, and told apart by captures and workers."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envcheck.explain.ending import Ending
from envcheck.explain.scan import KINDS, Scan, Scanner, scan
from envcheck.explain.signatures import Event
from tests.explain.messages import ALL, LINE, names, scanned

OOM = b"RuntimeError: CUDA out of memory. Tried to allocate %d.00 MiB (GPU 0)"


def test_the_event_says_where_and_what() -> None:
    assert scanned(b"one\n[rank3]: " + LINE + b"\nthree\n").events == (
        Event(
            signature="cannot-open",
            captures=(("library", "libcudart.so.10.1"),),
            text=LINE.decode(),
            file="train.log",
            line=2,
            last_line=2,
            count=1,
            worker="rank3",
        ),
    )


def test_equal_messages_are_counted() -> None:
    result = scanned(
        *[b"x\n2026-11-20 23:01:40.%03d: %s\n" % (number, LINE) for number in range(100)]
    )
    (event,) = result.events
    assert (event.count, event.line, event.last_line) == (100, 2, 200)
    assert result.lines == 200


def test_workers_are_told_apart() -> None:
    result = scanned(b"".join(b"[rank%d]: %s\n" % (number % 3, LINE) for number in range(9)))
    assert [(event.worker, event.count) for event in result.events] == [
        ("rank0", 3),
        ("rank1", 3),
        ("rank2", 3),
    ]


def test_the_first_kinds_and_the_last_one_are_kept() -> None:
    result = scanned(b"".join(OOM % number + b"\n" for number in range(1000)))
    wanted = [event.values["wanted"] for event in result.events]
    assert wanted[0] == "0.00 MiB"
    assert wanted[-1] == "999.00 MiB"
    assert len(wanted) == KINDS + 1
    assert sum(event.count for event in result.events) + result.dropped_lines == 1000


def test_the_same_last_kind_is_counted() -> None:
    result = scanned(b"".join(OOM % min(number, 900) + b"\n" for number in range(1000)))
    assert (result.events[-1].values["wanted"], result.events[-1].count) == ("900.00 MiB", 100)


def test_a_thousand_workers_with_one_message_lose_no_count() -> None:
    result = scanned(b"".join(b"[rank%d]: %s\n" % (number, LINE) for number in range(1000)))
    assert len(result.events) == KINDS
    assert sum(event.count for event in result.events) == 1000


def test_one_line_may_hold_two_messages() -> None:
    result = scanned(LINE + b"; version `GLIBC_2.29' not found\n")
    assert sorted(names(result.events)) == ["cannot-open", "glibc"]


def test_a_fragment_without_its_pattern_is_no_event() -> None:
    assert scanned(b"NVRM: Xid is a word\nGLIBC_2.29 found\n").events == ()


def test_anchors_hold_after_a_prefix() -> None:
    raw = b"0: Killed\nNov 20 23:01:40 node7 kernel: [  1.000000] NVRM: Xid (PCI:0000:01:00): 79, GPU lost\nis Killed\n"
    result = scanned(raw)
    assert [(event.signature, event.worker) for event in result.events] == [
        ("killed", "0"),
        ("xid", "node7"),
    ]


def test_what_a_pattern_needs_of_a_prefix_is_still_there() -> None:
    (event,) = scanned(b"2026-11-20 23:01:40 [rank5]: Watchdog caught a timeout\n").events
    assert (event.values, event.worker) == ({"rank": "5"}, "rank5")
    assert event.text == "2026-11-20 23:01:40 [rank5]: Watchdog caught a timeout"


def test_a_message_in_an_endless_line_is_found_and_cut() -> None:
    result = scanned(b"x" * 3_000_000 + LINE + b"y" * 3_000_000 + b"\nend\n")
    (event,) = result.events
    assert "libcudart.so.10.1: cannot open" in event.text
    assert len(event.text) <= 500
    assert result.lines == 2


def test_every_message_of_a_long_line_is_seen() -> None:
    filling = b" ." * 4000
    result = scanned(LINE + filling + b"Killed" + filling + OOM % 5 + b"\n")
    assert names(result.events) == ["cannot-open", "out-of-memory"]


def test_a_message_at_the_end_of_what_is_looked_at_is_seen() -> None:
    for gap in range(1400, 2100, 40):
        result = scanned(LINE + b" " * gap + OOM % 5 + b"." * 5000 + OOM % 6 + b"\n")
        assert [(event.signature, event.count) for event in result.events] == [
            ("cannot-open", 1),
            ("out-of-memory", 1),
            ("out-of-memory", 1),
        ]


def test_the_last_line_needs_no_end() -> None:
    result = scanned(b"a\n" + LINE)
    assert (result.lines, result.events[0].line) == (2, 2)


def test_several_files_keep_their_names_and_order() -> None:
    result = scan([("a", [b"Killed\n"]), ("b", [b"\n", LINE])], ALL)
    assert [(event.file, event.line) for event in result.events] == [("a", 1), ("b", 2)]
    assert (result.lines, result.bytes) == (3, len(LINE) + 8)


def test_the_same_message_in_a_second_file_is_the_first_ones() -> None:
    (event,) = scan([("a", [b"x\nKilled\n"]), ("b", [b"Killed\n"])], ALL).events
    assert (event.file, event.line, event.last_line, event.count) == ("a", 2, 2, 2)


def test_streams_may_come_by_turns() -> None:
    scanner = Scanner(ALL)
    out, err = scanner.stream("stdout"), scanner.stream("stderr")
    out.feed(b"one\nKil")
    err.feed(LINE + b"\n")
    out.feed(b"led\n")
    out.finish()
    err.finish()
    assert [(event.file, event.line) for event in scanner.result().events] == [
        ("stderr", 1),
        ("stdout", 2),
    ]


def test_nothing_in_nothing() -> None:
    assert scanned() == Scan((), 0, 0, 0, Ending(file="train.log"))
    assert scanned(b"").lines == 0
    assert scanned(b"\n\n").lines == 2


def test_memory_does_not_grow_with_the_log() -> None:
    def log(blocks: int) -> Iterator[bytes]:
        for block in range(blocks):
            yield b"".join(
                OOM % (block * 1000 + number) + b"\nstep 1 loss 0.1\n" * 2 for number in range(50)
            )

    peaks = []
    for blocks in (360, 480):  # the first is enough to fill what is remembered
        tracemalloc.start()
        scan([("x", log(blocks))], ALL)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.1
    assert peaks[1] < 10_000_000


TEXTS = st.lists(
    st.sampled_from(
        [
            LINE,
            OOM % 7,
            OOM % 8,
            b"Killed",
            b"NVRM: Xid (PCI:1): 79",
            b"step 1",
            b"",
            b"GLIBC_",
            b"\xe4\xff",
            b"[rank1]: Killed",
        ]
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS, st.integers(1, 60), st.sampled_from([b"\n", b"\r\n"]))
def test_blocks_of_any_size_tell_the_same(texts: list[bytes], size: int, end: bytes) -> None:
    raw = end.join(texts)
    assert scanned(*(raw[at : at + size] for at in range(0, len(raw), size))) == scanned(raw)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_bytes_are_read(blocks: list[bytes]) -> None:
    result = scanned(*blocks)
    assert result.bytes == sum(map(len, blocks))
