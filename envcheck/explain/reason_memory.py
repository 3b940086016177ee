"""Out of GPU memory: does this process ask for too much, or do others hold the card?"""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.explain.events import Event
from envcheck.explain.log import Claim, Log

HELD, EXHAUSTED = "gpu-memory-held", "gpu-memory-exhausted"
_UNITS = {"bytes": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_OUT = ("torch-oom", "torch-oom-new", "cuda-oom", "tf-failed-allocate", "vllm-memory")
_STARTS = ("cudnn-handle", "cublas-not-initialized", "cudnn-not-initialized")


def memory_claims(log: Log) -> Iterator[Claim]:
    """Tell a card that others hold from a program that asks for more than there is."""
    held = _held(log)
    if held is not None:
        yield held
    own = max(
        (_size(item.captured, "own_allocated", "own_allocated_unit") for item in log.of("torch-oom-allocated")),
        default=0,
    )
    for event in log.of("torch-oom-other-process"):
        other = _bytes(event.captured["other"], event.captured["other_unit"])
        if other > max(_bytes("1", "GiB"), own * 3 // 2):  # in a container a process is named as if it were another
            yield Claim(HELD, 87, "Another process holds much of the GPU's memory.", (event,))
    for event in log.of(*_OUT):
        yield _out_of_memory(event)
    for event in log.of("cudnn-handle"):
        means = "cuDNN could not start on the GPU, mostly because its memory is taken already."
        yield Claim(EXHAUSTED, 56, means, (event,), rivals=("cudnn-too-old",))
    yield from _holders(log)


def _out_of_memory(event: Event) -> Claim:
    row = event.captured
    total, free = _size(row, "total", "unit"), _size(row, "free", "free_unit")
    own = _size(row, "allocated", "allocated_unit")
    if total and free >= 0 and own >= 0 and own + free < total / 2:
        means = (
            f"This process holds {row['allocated']} {row['allocated_unit']} and the card is full: others hold the rest."
        )
        return Claim(HELD, 88, means, (event,))
    if event.signature == "vllm-memory" and 0 <= free < total / 2:
        return Claim(HELD, 86, "Most of the card was taken before this process began.", (event,))
    weight = 84 if event.signature.startswith("torch-oom") else 70
    return Claim(EXHAUSTED, weight, "The program asks for more GPU memory than is free.", (event,), rivals=(HELD,))


def _held(log: Log) -> Claim | None:
    """Look for a card that was full before the program took anything."""
    totals = [(event, _size(event.captured, "total", "unit")) for event in log.of("tf-memory-total")]
    frees = [(event, _size(event.captured, "free", "free_unit")) for event in log.of("tf-memory-free")]
    for (event, total), (other, free) in zip(totals, frees):
        if total > 0 and 0 <= free < total / 10:
            return Claim(HELD, 90, "Almost nothing of the card was free when the program began.", (event, other))
    if not log.has(*_OUT, *_STARTS, "tf-resource-exhausted", "xla-oom", "cublas-not-initialized"):
        return None
    for event in log.of("smi-memory"):
        used, total = int(event.captured["used"]), int(event.captured["total"])
        if total and used > total * 0.8:
            return Claim(HELD, 86, f"nvidia-smi shows {used} of {total} MiB in use.", (event,))
    return None


def _holders(log: Log) -> Iterator[Claim]:
    holders = [item for item in log.of("fuser-holder", "lsof-holder") if _computes(item.captured.get("process", ""))]
    if holders:
        names = ", ".join(f"{item.captured['process']} ({item.captured['pid']})" for item in holders[:4])
        yield Claim(HELD, 82, f"Processes have the GPU open: {names}.", tuple(holders))


def _computes(process: str) -> bool:
    return any(name in process for name in ("python", "jupyter", "tritonserver", "ollama", "vllm", "java", "julia"))


def _size(row: dict[str, str], value: str, unit: str) -> int:
    return _bytes(row[value], row.get(unit, "MiB")) if value in row else -1


def _bytes(value: str, unit: str) -> int:
    """Read a size; -1 for what is no number, such as 1.2.3."""
    whole, _, part = value.strip(".").partition(".")
    if not whole.isdecimal() or (part and not part.isdecimal()):
        return -1
    return int(float(f"{whole}.{part or 0}") * _UNITS.get(unit if unit == "bytes" else unit[:1], 1))
