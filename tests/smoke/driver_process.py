"""Run the driver test's scripts against the stand-in libcuda, which computes on the processor."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from envcheck.smoke.events import ScriptEvents, parse_events
from tests.fakes.build import build_libraries
from tests.patience import PATIENCE

START = Path(__file__).parents[2] / "envcheck" / "smoke" / "children" / "start.py"
UUIDS = tuple(f"GPU-00000000-0000-0000-0000-00000000000{index}" for index in (1, 2))
NAMES = ("Stand-in GPU 0", "Stand-in GPU 1")


def speak(
    level: str,
    gpu: str,
    told: Mapping[str, object],
    *,
    python: str = sys.executable,
    timeout: float = PATIENCE,
) -> tuple[ScriptEvents, int]:
    """Run the driver's script on one GPU of two, by its UUID, or on "all"; return its words and its exit status."""
    visible, count = (",".join(UUIDS), 2) if gpu == "all" else (gpu, 1)
    about = ["--report", "/dev/stdout", "--gpu", gpu, "--count", str(count), "--level", level]
    argv = [python, "-I", "-B", str(START), "--script", "check_driver", *about]
    done = subprocess.run(
        argv,
        env=_environment(visible, told),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return parse_events(done.stdout), done.returncode


def _environment(visible: str, told: Mapping[str, object]) -> dict[str, str]:
    made = {
        "PATH": os.environ["PATH"],
        "LD_LIBRARY_PATH": str(build_libraries()),
        "CUDA_VISIBLE_DEVICES": visible,
    }
    made.update({"STANDIN_GPUS": "2", "STANDIN_CUDA": "12040"})
    for index, (uuid, name) in enumerate(zip(UUIDS, NAMES, strict=True)):
        made.update({f"STANDIN_GPU{index}_UUID": uuid, f"STANDIN_GPU{index}_NAME": name})
    return {**made, **{f"STANDIN_{name}": str(value) for name, value in told.items()}}


def outcomes(spoken: ScriptEvents) -> dict[str, str]:
    """Return the outcome of each check, and of each device where several are told."""
    several = len({result.device for result in spoken.results if result.check == "matmul"}) > 1
    return {
        f"{item.check} {item.device}".strip() if several else item.check: item.outcome
        for item in spoken.results
    }
