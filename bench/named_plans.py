"""Plan 40 packages by the names that users type, for machines that are drawn, and resolve each plan with uv.

    python bench/named_plans.py [--draw 300 | --plans 300] [--minutes 60] [--seed 26] [--jobs 2] [--json FILE]

Needs the extras `plan` and `matrix`. A package, driver (450 to 610), GPU (Kepler to Blackwell), Python (3.9 to 3.14)
and platform are drawn together; --plans goes on until that many plans were made, or --minutes are over. Each resolves,
or is counted under what keeps it from that. Where an index or a page that a plan names does not answer,
bench/composed_index.py stands in for it, which is counted apart. Where there is no plan, bench/refusals.py looks for a
release that can be had.

The exit code is 1 where a plan that is printed as good cannot be resolved ("unsatisfiable"), ends in another way
("other"), or is refused although a release can be had.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from envcheck import api
from envcheck.install.preflight import describe_closed_index
from envcheck.matrix.load import load_matrix
from envcheck.matrix.package_index import index_url
from envcheck.matrix.query import Matrix
from envcheck.model import Environment, Plan, RequirementSet, UserError
from envcheck.plan.verify import UnreachableError, UnresolvableError, find_uv, resolve

sys.path.insert(0, str(Path(__file__).parent))
from composed_index import ComposedIndex, PublicIndex  # type: ignore[import-not-found]
from plan import PIPS_PART  # type: ignore[import-not-found]
from refusals import find_way  # type: ignore[import-not-found]

NAMES = (
    *(
        "tensorflow",
        "torch",
        "jax",
        "onnxruntime-gpu",
        "cupy-cuda12x",
        "torchvision",
        "torchaudio",
        "torchcodec",
    ),
    *(
        "triton",
        "xformers",
        "torchao",
        "vllm",
        "sglang",
        "flashinfer-python",
        "bitsandbytes",
        "transformer-engine",
    ),
    *(
        "flash-attn",
        "mamba-ssm",
        "deepspeed",
        "lightning",
        "torchmetrics",
        "keras",
        "keras-hub",
        "tf-keras",
    ),
    *(
        "tensorflow-text",
        "tensorflow-hub",
        "flax",
        "optax",
        "equinox",
        "tensorrt",
        "llama-cpp-python",
        "ctranslate2",
    ),
    *(
        "cudf-cu12",
        "numba-cuda",
        "transformers",
        "diffusers",
        "accelerate",
        "peft",
        "sentence-transformers",
        "timm",
    ),
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
    *(
        "Tesla K80",
        "Tesla M40",
        "GTX 1080 Ti",
        "Tesla P100",
        "Tesla V100",
        "RTX 2080 Ti",
        "Tesla T4",
        "A100",
    ),
    *("RTX 3090", "L4", "RTX 4090", "H100", "H200", "B200", "RTX 5090"),
)
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
PLATFORMS = {"linux_x86_64": 6, "linux_aarch64": 2, "win_amd64": 2}
GLIBCS = ("2.28", "2.31", "2.35", "2.39")
RESOLVES, COMPOSED = "resolves", "resolves on the composed index"
BUILD, UNSATISFIABLE, OTHER = "needs a build", "unsatisfiable", "other"
CLOSED = "unsatisfiable on the composed index; the plan says that its page did not answer"
# that of a plan is the worst of its sets
_KINDS = (RESOLVES, COMPOSED, PIPS_PART, BUILD, CLOSED, UNSATISFIABLE, OTHER)
_KEPT = Path("build/composed_index")


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
    way: str = ""  # of a plan that was refused: what can be had all the same

    @property
    def is_plan(self) -> bool:
        """Return whether there is a plan."""
        return self.kind in _KINDS


def draw_cells(seed: int) -> Iterator[Cell]:
    """Draw cells without end; each name is drawn equally often."""
    drawn = random.Random(seed)
    for name in itertools.cycle(NAMES):
        (platform,) = drawn.choices([*PLATFORMS], [*PLATFORMS.values()])
        glibc = drawn.choice(GLIBCS) if platform.startswith("linux") else ""
        yield Cell(
            name, drawn.choice(PYTHONS), drawn.choice(DRIVERS), drawn.choice(GPUS), platform, glibc
        )


def try_cell(cell: Cell, matrix: Matrix, index: ComposedIndex, torch_index: str) -> Outcome:
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
            torch_index=torch_index,
        )
        taken = time.monotonic() - begun
        if made.plan.releases:
            return Outcome(cell, *judge(made.plan, index), taken)
        kind, what = f"no plan ({made.verdict})", _describe_refusal(made.plan)
        names_other = any(" in place of " in change.what for change in made.plan.changes)
        return Outcome(cell, kind, what, taken, find_way(cell, matrix, usual=names_other))
    except UserError as error:
        return Outcome(cell, "refused (exit 2)", str(error)[:90])
    except Exception as error:  # noqa: BLE001 - it is counted
        return Outcome(cell, OTHER, repr(error))


def _describe_refusal(plan: Plan) -> str:
    reasons = (
        [item.id for item in plan.blocked_by] or [item.finding for item in plan.rejected] or ["?"]
    )
    return Counter(reasons).most_common(1)[0][0]


def judge(plan: Plan, index: ComposedIndex) -> tuple[str, str]:
    """Return what a plan comes to, and in which words."""
    found = [try_set(made, wanted, index) for made in plan.environments for wanted in made.sets]
    found += [(PIPS_PART, plan.verified) for made in plan.environments if made.packages]
    return max(found, key=lambda item: _KINDS.index(item[0]))


def try_set(made: Environment, wanted: RequirementSet, index: ComposedIndex) -> tuple[str, str]:
    """Resolve a set of requirements; where its page does not answer, from what stands in for that."""
    if wanted.source_only:
        return BUILD, ", ".join(wanted.source_only)
    said = ""
    for item in dict.fromkeys((wanted, index.stand_in(wanted))):
        try:
            resolve(made, item, os.environ)
            return COMPOSED if index.is_named(item) else RESOLVES, ""
        except UnreachableError as error:  # noqa: PERF203 - there are two
            said = str(error)
        except UnresolvableError as error:
            return (CLOSED if said else UNSATISFIABLE), str(error)
    return OTHER, said


def report(outcomes: list[Outcome]) -> int:
    """Print how many plans came to what; return how many are printed as good and are not, or refused and could be."""
    kinds = Counter(item.kind for item in outcomes)
    print(f"{len(outcomes)} requests, {sum(item.is_plan for item in outcomes)} plans: ", end="")
    print(", ".join(f"{number} {kind}" for kind, number in kinds.most_common()))
    refused = Counter(
        (item.kind, item.what, bool(item.way)) for item in outcomes if not item.is_plan
    )
    for (kind, what, has_way), number in refused.most_common():
        print(f"- {kind}: {number} x {what}: {'NOT CONFIRMED' if has_way else 'confirmed'}")
    bad = [item for item in outcomes if item.kind in (CLOSED, UNSATISFIABLE, OTHER) or item.way]
    for item in bad:
        print(f"- {item.kind}: {item.cell}: {item.what} {item.way}")
    taken = sorted(item.seconds for item in outcomes if item.seconds)
    if taken:
        print(f"seconds a plan: median {taken[len(taken) // 2]:.1f}, longest {taken[-1]:.1f}")
    return len(bad)


def main() -> int:
    """Try the plans that are drawn."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", type=int, default=300, help="requests")
    parser.add_argument("--plans", type=int, default=0, help="draw until this many plans were made")
    parser.add_argument(
        "--minutes", type=float, default=1440, help="begin no further batch of --plans after them"
    )
    parser.add_argument("--seed", type=int, default=26)
    parser.add_argument("--jobs", type=int, default=2, help="plans at once")
    parser.add_argument("--json", type=Path, help="write each outcome to this file")
    options = parser.parse_args()
    find_uv(os.environ)
    matrix, cells = load_matrix(), draw_cells(options.seed)
    outcomes: list[Outcome] = []
    with (
        ComposedIndex(matrix, PublicIndex(_KEPT)) as index,
        ThreadPoolExecutor(options.jobs) as pool,
    ):
        closed = describe_closed_index(
            RequirementSet(("torch",), index_url("torch", "cpu")), os.environ
        )
        torch_index = index.torch_url if closed else ""
        print(f"{closed}: {torch_index} stands in for it" if closed else "PyTorch's index answers")
        end = time.monotonic() + options.minutes * 60
        while not outcomes or (
            time.monotonic() < end and sum(item.is_plan for item in outcomes) < options.plans
        ):
            batch = itertools.islice(cells, options.plans // 10 or options.draw)
            outcomes += pool.map(lambda cell: try_cell(cell, matrix, index, torch_index), batch)
            if options.json:
                options.json.write_text(
                    json.dumps([asdict(item) for item in outcomes], indent=1), encoding="utf-8"
                )
    while options.plans and sum(item.is_plan for item in outcomes[:-1]) >= options.plans:
        outcomes.pop()
    if options.json:
        options.json.write_text(
            json.dumps([asdict(item) for item in outcomes], indent=1), encoding="utf-8"
        )
    return 1 if report(outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
