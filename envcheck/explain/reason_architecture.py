"""A GPU and the code that was built for it: newer than the build, or older."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.explain.events import Event
from envcheck.explain.log import Claim, Log, digits, number

NEW, OLD = "gpu-arch-too-new", "gpu-arch-too-old"
_NO_CODE = ("no-kernel-image", "device-kernel-image-invalid", "invalid-device-function", "invalid-ptx")
_FAILED = (
    "tf-blas-gemm",
    "cublas-execution-failed",
    "cudnn-execution-failed",
    "dnn-library-not-found",
    "cufft-internal",
)


def architecture_claims(log: Log) -> Iterator[Claim]:
    """Say whether the GPU is too new or too old for what runs on it."""
    built = _targets(log)
    for event in log.of("torch-arch-mismatch"):
        yield _torch(log, event, digits(event.captured["sm"]), built)
    for event in log.of("torch-found-gpu-cc"):
        low, high = log.first("cc_low"), log.first("cc_high")
        cc = event.captured["cc"]
        side = _side(cc, [low, high]) if low else (OLD if log.has("torch-gpu-too-old") or _is_dropped(log, cc) else NEW)
        yield Claim(side, 88, f"{event.captured['gpu']} has compute capability {cc}, which is outside.", (event,))
    for event in log.of(*_NO_CODE):
        yield _no_code(log, event, built)
    for event in log.of(*_FAILED):
        if built and any(_side(cc, built) == NEW and not _is_covered(cc, built) for cc in log.capabilities):
            means = f"The GPU ({', '.join(log.capabilities)}) is newer than the build ({built[-1]}) supports."
            yield Claim(NEW, 82, means, (event,))
    yield from _compilers(log)


def _torch(log: Log, event: Event, cc: str, built: list[str]) -> Claim:
    side = _side(cc, built) if built else (OLD if _is_dropped(log, cc) else NEW)
    shown = f"; this PyTorch holds code for {', '.join(built)}" if built else ""
    gpu = event.captured.get("gpu", "The GPU")
    return Claim(side, 93, f"{gpu} has compute capability {cc}{shown}.", (event,))


def _no_code(log: Log, event: Event, built: list[str]) -> Claim:
    means = "The program holds no code for this GPU"
    sides = {_side(cc, built) for cc in log.capabilities} if built else set()
    dropped = log.capabilities and all(_is_dropped(log, cc) for cc in log.capabilities)
    if len(sides) == 1 and not dropped and all(_is_covered(cc, built) for cc in log.capabilities):
        shown = f"{means}, which the framework's build covers: a compiled extension was built for other GPUs."
        return Claim("extension-build-mismatch", 78, shown, (event,), rivals=(NEW,))
    if len(sides) == 1 and not (dropped and NEW in sides):
        shown = f"{means}: it has compute capability {', '.join(log.capabilities)}; built for {', '.join(built)}."
        return Claim(sides.pop(), 90, shown, (event,))
    if dropped:
        return Claim(OLD, 84, f"{means}, whose architecture was dropped.", (event,), rivals=(NEW,))
    weight = 70 if log.capabilities else 62
    return Claim(NEW, weight, f"{means}.", (event,), rivals=(OLD, "extension-build-mismatch"))


def _compilers(log: Log) -> Iterator[Claim]:
    for event in log.of("nvcc-unsupported-arch", "unknown-cuda-arch"):
        cc = digits(event.captured.get("sm") or event.captured["cc"])
        side = OLD if _is_dropped(log, cc) else NEW
        word = "no longer knows" if side == OLD else "does not know yet"
        yield Claim(side, 92, f"This CUDA Toolkit {word} compute capability {cc}.", (event,))
    for event in log.of("ptxas-gpu-name"):
        cc = digits(event.captured["sm"])
        if _is_dropped(log, cc):
            yield Claim(OLD, 90, f"This ptxas no longer knows compute capability {cc}.", (event,))
        else:
            means = f"ptxas is older than the GPU: it does not know compute capability {cc}."
            yield Claim("ptxas-problem", 90, means, (event,), rivals=(NEW,))


def _targets(log: Log) -> list[str]:
    """List the compute capabilities a build holds code for, by the log or by its row in the matrix, lowest first."""
    told = [digits(item) for item in log.first("targets").split() if item.startswith("sm_")]
    if told:
        return sorted(told, key=number)
    rows = [_row(log, name) for name in ("torch", "pytorch", "tensorflow", "tensorflow-gpu", "jaxlib")]
    found = next((row for row in rows if row), ()) or _of_cuda(log)
    return sorted({digits(item) for item in found}, key=number)


def _of_cuda(log: Log) -> tuple[str, ...]:
    """List what the CUDA that a build loaded can build for at all."""
    from envcheck.explain.reason_libraries import parse_library, providers

    opened = [parse_library(name) for name in log.values("opened")]
    lines = [log.first("torch_cuda"), *(line for item in opened for line in providers(log.matrix, item)[:1])]
    rows = [row for row in map(log.matrix.toolkit, filter(None, lines)) if row]
    return rows[0].compute_capabilities if rows else ()


def _row(log: Log, name: str) -> tuple[str, ...]:
    version = log.packages.get(name, "").partition("+")[0]
    framework = log.matrix.framework_of("torch" if name == "pytorch" else name) if version else None
    platform = "win_amd64" if log.os == "windows" else "linux_x86_64"
    row = log.matrix.release(framework, version, platform) if framework else None
    label = re.search(r"\+cu(\d+)(\d)$", log.packages.get(name, ""))
    cuda = f"{label.group(1)}.{label.group(2)}" if label else ""
    if row is None or not cuda or (row.cuda or "").startswith(cuda):
        return row.compute_capabilities if row else ()
    toolkit = log.matrix.toolkit(cuda)  # a build from the framework's own index holds other code than the row's
    return row.variants.get(cuda) or (toolkit.compute_capabilities if toolkit else ())


def _side(cc: str, built: list[str]) -> str:
    return OLD if number(cc) < number(built[0]) else NEW


def _is_covered(cc: str, built: list[str]) -> bool:
    """Tell whether code for a capability runs on a GPU: of the same major, and not of a higher minor."""
    return any(number(item)[:1] == number(cc)[:1] and number(item) <= number(cc) for item in built)


def _is_dropped(log: Log, cc: str) -> bool:
    """Tell whether newer toolkits no longer build for a compute capability."""
    row = log.matrix.architecture(cc)
    return row is not None and row.last_toolkit is not None
