"""A stand-in for PyTorch: just enough to multiply small matrices, and to fail in every way a framework can.

STANDIN_TORCH says how: import-error, segfault, illegal-instruction, abort, exit, hang, memory, wrong, misplaced,
out-of-memory, no-uuids, chatter, closed-descriptors, noisy-descriptor; empty: it works. With STANDIN_TORCH_GPU only
the GPU of that UUID misbehaves. CUDA_VISIBLE_DEVICES says how many GPUs there are. It proves nothing about PyTorch.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import Any, List, Optional

__version__ = "0.0.1+standin"


class version:
    """What the build says of itself."""

    cuda = None if os.environ.get("STANDIN_TORCH") == "cpu-build" else "12.6"


def visible() -> List[str]:
    """List what CUDA_VISIBLE_DEVICES shows."""
    entries = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    unknown = "GPU-" if os.environ.get("STANDIN_TORCH") == "no-uuids" else "-1"  # as in WSL
    return [entry for entry in entries if entry and entry != "-1" and not entry.startswith(unknown)]


def told(device: Any = "cpu") -> str:
    """Say how to misbehave on a device."""
    culprit = os.environ.get("STANDIN_TORCH_GPU", "")
    if culprit and (device == "cpu" or visible()[device.index] != culprit):
        return ""
    return os.environ.get("STANDIN_TORCH", "")


class Device:
    """A place."""

    def __init__(self, name: str) -> None:
        self.type, _, number = name.partition(":")
        self.index: Optional[int] = int(number) if number else None


class Tensor:
    """A matrix and its place."""

    def __init__(self, rows: Any, device: Device) -> None:
        self.rows, self.device = rows, device

    def cpu(self) -> "Tensor":
        """Bring it home."""
        return self

    def tolist(self) -> Any:
        """Return the rows."""
        return self.rows


class cuda:
    """The GPUs."""

    @staticmethod
    def is_available() -> bool:
        """Say whether there is one."""
        return bool(visible()) and version.cuda is not None

    @staticmethod
    def device_count() -> int:
        """Count them."""
        return len(visible()) if version.cuda else 0

    @staticmethod
    def get_device_name(index: int) -> str:
        """Name one."""
        return "stand-in GPU %d" % index

    @staticmethod
    def init() -> None:
        """Complain as PyTorch does without a driver."""
        raise RuntimeError(
            "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"
        )


def tensor(rows: Any, device: str = "cpu") -> Tensor:
    """Make a matrix."""
    return Tensor(rows, Device(device))


def matmul(left: Tensor, right: Tensor) -> Tensor:
    """Multiply, or do what STANDIN_TORCH says instead."""
    where = left.device
    how = told("cpu" if where.type == "cpu" else where)
    misbehave(how)
    rows = [
        [sum(a * b for a, b in zip(row, column)) for column in zip(*right.rows)]
        for row in left.rows
    ]
    if how == "wrong":
        rows[0][0] += 1.0
    return Tensor(rows, Device("cpu") if how == "misplaced" else where)


def misbehave(how: str) -> None:
    """End, hang, fill the memory or talk, as told."""
    if how in SIGNALS:
        sys.stderr.write("stand-in: about to die of %s\n" % how)
        sys.stderr.flush()
        os.kill(os.getpid(), SIGNALS[how])
    elif how == "hang":
        # A child that must not stay behind either.
        subprocess.Popen(["sleep", os.environ.get("STANDIN_SLEEP", "987654")])
        time.sleep(3600)
    elif how == "exit":
        os._exit(7)
    elif how == "memory":
        held = []
        while True:
            held.append(bytearray(16 << 20))
            time.sleep(0.01)
    elif how == "out-of-memory":
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
    else:
        talk(how)


def talk(how: str) -> None:
    """Write where nobody asked to."""
    if how == "chatter":
        sys.stdout.write('{"event": "result", "outcome": "passed"}\n' * 5000)
        os.write(2, b"\xff\xfe chatter \x1b[2J\n" * 5000)
    elif how in ("closed-descriptors", "noisy-descriptor"):
        for number in range(3, 64):
            with contextlib.suppress(OSError):
                os.close(number) if how == "closed-descriptors" else os.write(
                    number, b"no event\n{half\n[1]\n"
                )


SIGNALS = {
    "segfault": signal.SIGSEGV,
    "illegal-instruction": signal.SIGILL,
    "abort": signal.SIGABRT,
    "killed": signal.SIGKILL,
}

if told() == "import-error":
    raise ImportError("libcudnn.so.9: cannot open shared object file: No such file or directory")
