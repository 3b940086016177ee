"""Plan 40 packages by the names that users type, for machines that are drawn, and resolve each plan with uv.

    python bench/named_plans.py [--draw 300] [--seed 26] [--jobs 2]

Needs the extra `plan`. A package, driver (450 to 610), GPU (Kepler to Blackwell), Python (3.9 to 3.14) and platform are
drawn together. Each plan resolves, or is counted under what keeps it from that. The exit code is 1 where a plan that is
printed as good cannot be resolved ("unsatisfiable"), or ends in another way ("other"). A build of PyTorch's own index,
which may be out of reach, is treated as in bench/plan.py.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from envcheck import api
from envcheck.model import Plan, UserError
from envcheck.plan.verify import find_uv

sys.path.insert(0, str(Path(__file__).parent))
from plan import PIPS_PART, resolved  # type: ignore[import-not-found]

NAMES = (
    *("tensorflow", "torch", "jax", "onnxruntime-gpu", "cupy-cuda12x", "torchvision", "torchaudio", "torchcodec"),
    *("triton", "xformers", "torchao", "vllm", "sglang", "flashinfer-python", "bitsandbytes", "transformer-engine"),
    *("flash-attn", "mamba-ssm", "deepspeed", "lightning", "torchmetrics", "keras", "keras-hub", "tf-keras"),
    *("tensorflow-text", "tensorflow-hub", "flax", "optax", "equinox", "tensorrt", "llama-cpp-python", "ctranslate2"),
    *("cudf-cu12", "numba-cuda", "transformers", "diffusers", "accelerate", "peft", "sentence-transformers", "timm"),
)
DRIVERS = (
    "450",
    "460",
    "470",
    "510",
    "515",
    "525",
    "535",
    "545",
    "550",
    "555",
    "560",
    "565",
    "570",
    "575",
    "580",
    "610",
)
GPUS = (
    *("Tesla K80", "Tesla M40", "GTX 1080 Ti", "Tesla P100", "Tesla V100", "RTX 2080 Ti", "Tesla T4", "A100"),
    *("RTX 3090", "L4", "RTX 4090", "H100", "H200", "B200", "RTX 5090"),
)
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
PLATFORMS = {"linux_x86_64": 6, "linux_aarch64": 2, "win_amd64": 2}
GLIBCS = ("2.28", "2.31", "2.35", "2.39")
RESOLVES, BUILD, UNSATISFIABLE, OTHER = "resolves", "needs a build", "unsatisfiable", "other"
PAGE = "its project's own page or index unreached"


@dataclass(frozen=True)
class Cell:
    """One plan to make."""

    name: str
    python: str
    driver: str
    gpu: str
    platform: str
    glibc: str

    def __str__(self) -> str:
        """Name it in a line of the report."""
        return f"{self.name} {self.python} {self.driver} {self.gpu!r} {self.platform} {self.glibc}".rstrip()


@dataclass(frozen=True)
class Outcome:
    """What came of a plan, and the words that say so."""

    cell: Cell
    kind: str
    what: str = ""
    seconds: float = 0.0


def draw_cells(count: int, seed: int) -> list[Cell]:
    """Draw cells; each name is drawn equally often."""
    drawn = random.Random(seed)

    def draw(name: str) -> Cell:
        (platform,) = drawn.choices([*PLATFORMS], [*PLATFORMS.values()])
        glibc = drawn.choice(GLIBCS) if platform.startswith("linux") else ""
        return Cell(name, drawn.choice(PYTHONS), drawn.choice(DRIVERS), drawn.choice(GPUS), platform, glibc)

    return [draw(NAMES[number % len(NAMES)]) for number in range(count)]


def try_cell(cell: Cell) -> Outcome:
    """Make the plan of a cell as the command does, and resolve it once more."""
    begun = time.monotonic()
    try:
        made = api.plan(
            cell.name,
            python=cell.python,
            driver=cell.driver,
            gpu=cell.gpu,
            glibc=cell.glibc,
            platform=cell.platform,
            verify=True,
        )
    except UserError as error:
        return Outcome(cell, "refused (exit 2)", str(error)[:90])
    except Exception as error:  # noqa: BLE001 - it is counted
        return Outcome(cell, OTHER, repr(error))
    kind, what = judge(made.plan, made.verdict)
    return Outcome(cell, kind, what, time.monotonic() - begun)


def judge(plan: Plan, verdict: str) -> tuple[str, str]:
    """Return what a plan comes to, and in which words."""
    if not plan.releases:
        reasons = [item.id for item in plan.blocked_by] or [item.finding for item in plan.rejected] or ["?"]
        return f"no plan ({verdict})", Counter(reasons).most_common(1)[0][0]
    answers = [*list_answers(plan)]
    worst = next((answer for answer in answers if answer != RESOLVES), RESOLVES)
    if "needs a build" in worst:
        return BUILD, worst
    if worst.startswith("MISSED"):
        sets = [one for made in plan.environments for one in made.sets]
        is_elsewhere = any(one.options or " @ " in "".join(one.requirements) for one in sets)
        if is_elsewhere and "did not answer" in worst:
            return PAGE, worst
        return UNSATISFIABLE if "does not resolve" in worst else OTHER, worst
    return worst, plan.verified


def list_answers(plan: Plan) -> Iterator[str]:
    """Yield what comes of each set of requirements."""
    for made in plan.environments:
        for wanted in made.sets:
            compiles = any(name for name in wanted.source_only)
            yield f"{BUILD}: {', '.join(wanted.source_only)}" if compiles else resolved(made, wanted)
        yield from [PIPS_PART] if made.packages else []


def report(outcomes: list[Outcome]) -> int:
    """Print how many plans came to what; return how many are printed as good and are not."""
    kinds = Counter(item.kind for item in outcomes)
    print(f"{len(outcomes)} plans: " + ", ".join(f"{number} {kind}" for kind, number in kinds.most_common()))
    for kind in kinds:
        own = Counter(
            item.what
            for item in outcomes
            if (item.kind == kind and "plan" in kind) or item.kind == kind == "refused (exit 2)"
        )
        for what, number in own.most_common():
            print(f"- {kind}: {number} x {what}")
    bad = [item for item in outcomes if item.kind in (UNSATISFIABLE, OTHER)]
    for item in bad:
        print(f"- {item.kind}: {item.cell}: {item.what}")
    taken = sorted(item.seconds for item in outcomes if item.seconds)
    if taken:
        print(f"seconds a plan: median {taken[len(taken) // 2]:.1f}, longest {taken[-1]:.1f}")
    return len(bad)


def main() -> int:
    """Try the plans that are drawn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", type=int, default=300, help="plans")
    parser.add_argument("--seed", type=int, default=26)
    parser.add_argument("--jobs", type=int, default=2, help="plans at once")
    options = parser.parse_args()
    find_uv(os.environ)
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(try_cell, draw_cells(options.draw, options.seed)))
    return 1 if report(outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
