"""What the full level makes of an engine's answers; engines, card and framework are stand-ins."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.smoke.children import Heard, import_child

SUM = [[44.0, 56.0], [98.0, 128.0]]
PRODUCT = [[22.0, 28.0], [49.0, 64.0]]
LEFT = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
GIB = 1 << 30


class Numbers(list):  # type: ignore[type-arg]
    """Rows as an array gives them."""

    def tolist(self) -> list[list[float]]:
        return list(self)


class Engine:
    """An engine that is right about everything, but for what a test sets."""

    refusals = (RuntimeError,)

    def __init__(self, **changed: Any) -> None:
        for name, value in changed.items():
            setattr(self, name, lambda *_, value=value: value)

    def large_error(self, device: str, kind: str, size: int) -> tuple[float, str]:
        return 1e-3, device

    def convolve(self, device: str, image: list[list[float]]) -> tuple[list[float], str]:
        sides = range(len(image) - 2)
        rows = [[image[y + dy][x : x + 3] for dy in range(3)] for y in sides for x in sides]
        return [sum(map(sum, part)) for part in rows], device

    def compiled(
        self, device: str, left: list[list[float]], right: list[list[float]]
    ) -> tuple[Any, str]:
        return [
            [sum(a * b for a, b in zip(row, column)) for column in zip(*right)] for row in left
        ], device

    def product(
        self, device: str, left: list[list[float]], right: list[list[float]]
    ) -> tuple[Any, str]:
        return Numbers(Engine.compiled(self, device, left, right)[0]), device

    def check_memory(self, report: Any, device: str) -> None:
        with report.step("memory growth", device) as step:
            step.passed("little")

    def ask_for_missing(self) -> str:
        raise RuntimeError("no such device\nthere is only one")

    def soften(self) -> tuple[Any, str]:
        return PRODUCT, "CPU:0"

    def towers(self, targets: list[str]) -> tuple[Any, str]:
        return SUM, "CPU:0"

    def copy(self, source: str, target: str) -> tuple[Any, str, str]:
        return LEFT, target, " (directly)"

    def reduce(self, targets: list[str]) -> tuple[list[float], str]:
        return [float(sum(range(len(targets) + 1)))] * len(targets), "NCCL"

    def gradients(
        self, rows: list[list[float]], targets: list[str]
    ) -> tuple[list[list[float]], list[float]]:
        alone = [2 * sum(sum(row) * row[at] for row in rows) for at in range(4)]
        return [alone] * len(targets), alone


def run(monkeypatch: pytest.MonkeyPatch, gpu: str, devices: list[str], **changed: Any) -> Heard:
    heard = Heard(gpu)
    import_child(monkeypatch, "smoke_full").run(heard.report, devices, Engine(**changed))
    return heard


def test_one_gpu_is_checked_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = run(monkeypatch, "GPU-1", ["CPU:0", "GPU:0"])
    assert heard.outcomes == dict.fromkeys(
        ("matmul 2048 float16", "matmul 2048 float32", "convolution", "jit", "memory growth", "missing device",
         "soft placement", "towers on GPU:0 and GPU:0", "asynchronous towers on GPU:0 and GPU:0",
         "model split over GPU:0, GPU:0"), "passed"
    )  # fmt: skip
    assert heard.results["missing device"]["message"].endswith("no such device")


def test_several_gpus_are_checked_together(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = run(monkeypatch, "all", ["CPU:0", "GPU:0", "GPU:1", "GPU:2"])
    assert set(heard.outcomes.values()) == {"passed"}
    assert {
        "copy from GPU:2",
        "all-reduce over GPU:0, GPU:1, GPU:2",
        "towers on GPU:0 and GPU:1",
    } <= set(heard.results)
    assert "matmul 2048 float32" not in heard.results
    assert heard.results["copy from GPU:0"]["message"].endswith("on GPU:1 (directly)")


def test_a_framework_with_one_cpu_uses_it_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = run(monkeypatch, "cpu", ["CPU:0"])
    assert heard.outcomes["all-reduce over CPU:0, CPU:0"] == "passed"
    assert not [check for check in heard.results if check.startswith("copy")]


@pytest.mark.parametrize(
    ("check", "changed"),
    [
        ("matmul 2048 float32", {"large_error": (float("nan"), "GPU:0")}),
        ("matmul 2048 float16", {"large_error": (0.06, "GPU:0")}),
        ("matmul 2048 float16", {"large_error": (1e-3, "CPU:0")}),
        ("convolution", {"convolve": ([81.0] * 36, "GPU:0")}),
        ("convolution", {"convolve": ([81.0] * 35, "GPU:0")}),
        ("jit", {"compiled": ([[2.75, 3.5], [6.125, 8.125]], "GPU:0")}),
        ("missing device", {"ask_for_missing": "GPU:99"}),
        ("soft placement", {"soften": (SUM, "CPU:0")}),
        ("towers on GPU:0 and GPU:1", {"towers": (SUM, "GPU:0")}),
        ("copy from GPU:0", {"copy": (LEFT, "GPU:0", "")}),
        ("all-reduce over GPU:0, GPU:1", {"reduce": ([3.0, 2.0], "NCCL")}),
        ("gradients over GPU:0, GPU:1", {"gradients": ([[1.0, 2.0], [1.0, 2.1]], [1.0, 2.0])}),
        ("gradients over GPU:0, GPU:1", {"gradients": ([[float("nan")] * 2], [1.0, 2.0])}),
    ],
)
def test_a_wrong_answer_fails_its_check_only(
    check: str, changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = check.startswith(("matmul", "conv", "jit", "missing", "soft"))
    devices = ["CPU:0", "GPU:0"] if alone else ["CPU:0", "GPU:0", "GPU:1"]
    heard = run(monkeypatch, "GPU-1" if alone else "all", devices, **changed)
    assert heard.outcomes[check] == "failed"
    same = {"large_error": "matmul", "copy": "copy"}.get(next(iter(changed)), check)
    assert {
        each
        for each, outcome in heard.outcomes.items()
        if outcome == "failed" and not each.startswith(same)
    } == set()


ASYNCHRONOUS, SPLIT = "asynchronous towers on GPU:0 and GPU:1", "model split over GPU:0, GPU:1"


@pytest.mark.parametrize(
    ("product", "said"),
    [
        ((Numbers(PRODUCT), "GPU:0"), "ran on GPU:0 for GPU:1"),
        ((Numbers(LEFT[:1] * 2), "GPU:1"), "ran on GPU:1 for GPU:0"),
    ],
)
def test_towers_that_do_not_wait_are_held_to_their_devices(
    product: tuple[Any, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = run(monkeypatch, "all", ["GPU:0", "GPU:1"], product=product)
    assert heard.outcomes[ASYNCHRONOUS] == heard.outcomes[SPLIT] == "failed"
    assert heard.results[ASYNCHRONOUS]["message"] == said


def test_wrong_numbers_and_errors_of_towers_that_do_not_wait_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wrong(device: str, *_: Any) -> Any:
        return Numbers(SUM), device

    def refuse(*_: Any) -> Any:
        raise RuntimeError("the device is gone")

    for product, outcome in ((wrong, "failed"), (refuse, "error")):
        heard, engine = Heard("all"), Engine()
        monkeypatch.setattr(engine, "product", product, raising=False)
        import_child(monkeypatch, "smoke_full").run(heard.report, ["GPU:0", "GPU:1"], engine)
        assert heard.outcomes[ASYNCHRONOUS] == heard.outcomes[SPLIT] == outcome


def test_rounding_of_a_convolution_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    right, _ = Engine().convolve("GPU:0", [[float(8 * y + x) for x in range(8)] for y in range(8)])
    heard = run(
        monkeypatch, "GPU-1", ["GPU:0"], convolve=([value + 0.01 for value in right], "GPU:0")
    )
    assert heard.outcomes["convolution"] == "passed"


def test_what_cannot_be_done_is_skipped_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    skipped = import_child(monkeypatch, "smoke_engine").SkippedError
    heard = Heard("all")
    engine = Engine()

    def reduce(*_: Any) -> Any:
        raise skipped("this build has no NCCL")

    monkeypatch.setattr(engine, "reduce", reduce)
    import_child(monkeypatch, "smoke_full").run(heard.report, ["GPU:0", "GPU:1"], engine)
    told = heard.results["all-reduce over GPU:0, GPU:1"]
    assert (told["outcome"], told["message"]) == ("skipped", "this build has no NCCL")


@pytest.mark.parametrize(
    ("before", "now", "outcome"),
    [
        ((100 * GIB, 140 * GIB), (98 * GIB, 140 * GIB), "passed"),
        ((100 * GIB, 140 * GIB), (24 * GIB, 140 * GIB), "failed"),
        # a small card: CUDA and its libraries alone take half
        ((2 * GIB, 2 * GIB), (1 * GIB, 2 * GIB), "passed"),
        # they alone may take most of what was free
        ((1.5 * GIB, 2 * GIB), (0.3 * GIB, 2 * GIB), "skipped"),
        ((1 * GIB, 140 * GIB), (3 * GIB, 140 * GIB), "passed"),  # somebody else left meanwhile
        (None, (1, 1), "skipped"),
        ((1, 1), None, "skipped"),
    ],
)
def test_growing_memory_is_not_the_whole_card(
    before: Any, now: Any, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, heard = import_child(monkeypatch, "smoke_card"), Heard("GPU-1")
    monkeypatch.setattr(card, "memory", lambda: now)
    heard.report.free_before = before
    card.check_growth(heard.report, "GPU:0")
    assert heard.outcomes == {"memory growth": outcome}


@pytest.mark.parametrize(
    ("free", "now", "right", "outcome"),
    [
        (140, 104, True, "passed"),
        (140, 60, True, "failed"),
        (140, 138, False, "failed"),
        (5, 3, True, "passed"),
    ],
)
def test_a_share_of_the_card_is_a_quarter(
    free: int, now: int, *, right: bool, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, heard = import_child(monkeypatch, "smoke_card"), Heard("GPU-1")
    monkeypatch.setattr(card, "memory", lambda: (now * GIB, 140 * GIB))
    with heard.report.step("memory share", "GPU:0") as step:
        card.judge_share(step, (free * GIB, 140 * GIB), right=right)
    assert heard.outcomes == {"memory share": outcome}


def test_the_free_memory_is_asked_in_the_context_all_frameworks_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card, calls = import_child(monkeypatch, "smoke_card"), []

    class Cuda:
        def __getattr__(self, name: str) -> Any:
            def call(*arguments: Any) -> int:
                calls.append(name)
                if name == "cuMemGetInfo_v2":
                    arguments[0]._obj.value, arguments[1]._obj.value = 3 * GIB, 4 * GIB
                return 201 if name == refused else 0

            return call

    refused = ""
    monkeypatch.setattr(card, "load_library", Cuda)
    assert card.memory() == (3 * GIB, 4 * GIB)
    assert calls[2:] == ["cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuMemGetInfo_v2", "cuCtxPopCurrent_v2",
                         "cuDevicePrimaryCtxRelease_v2"]  # fmt: skip
    for refused in ("cuInit", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuMemGetInfo_v2"):
        calls.clear()
        assert card.memory() is None
        retained = "cuDevicePrimaryCtxRetain" in calls and refused != "cuDevicePrimaryCtxRetain"
        assert ("cuDevicePrimaryCtxRelease_v2" in calls) is retained


def torch_with(*, free: int, limit: bool = True, obeys: bool = True) -> Any:
    shares: list[float] = []

    def empty(size: int, **_: Any) -> None:
        if shares and obeys and size > shares[-1] * 100 * GIB:
            raise RuntimeError("CUDA out of memory. 25.00 GiB allowed")

    cuda = SimpleNamespace(
        get_device_properties=lambda _: SimpleNamespace(total_memory=100 * GIB),
        mem_get_info=lambda: (free * GIB, 100 * GIB),
        **({"set_per_process_memory_fraction": shares.append} if limit else {}),
    )
    return SimpleNamespace(cuda=cuda, uint8=None, empty=empty), shares


@pytest.mark.parametrize(
    ("told", "outcome", "shares"),
    [
        ({"free": 90}, "passed", [0.25, 1.0]),
        ({"free": 90, "obeys": False}, "failed", [0.25, 1.0]),
        ({"free": 20}, "skipped", []),
        ({"free": 90, "limit": False}, "skipped", []),
    ],
)
def test_pytorch_is_held_to_its_share(
    told: dict[str, Any], outcome: str, shares: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch, asked = torch_with(**told)
    heard = Heard("GPU-1")
    monkeypatch.setitem(sys.modules, "torch", torch)
    engine = import_child(monkeypatch, "check_torch").Engine()
    engine.load()
    engine.check_memory(heard.report, "GPU:0")
    assert heard.outcomes == {"memory growth": "skipped", "memory share": outcome}
    assert asked == shares
