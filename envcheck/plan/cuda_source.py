"""Where a release's CUDA libraries come from: its own wheels, wheels of an older CUDA, conda, or the system."""

from __future__ import annotations

from typing import Any

from packaging.version import Version

from envcheck.model.plans import CONDA
from envcheck.model.records import dataclass
from envcheck.plan.candidates import Candidate
from envcheck.plan.plan_data import plan_data
from envcheck.rules.context import Context

NONE, OWN, WHEELS, PACKAGES, SYSTEM = "none", "own", "wheels", "conda", "system"


@dataclass(frozen=True)
class CudaSource:
    """One way to get the CUDA libraries."""

    kind: str  # NONE (a CPU build, work on the CPU), OWN (its extra or dependencies), WHEELS, PACKAGES (conda), SYSTEM
    requirements: tuple[str, ...] = ()  # wheels to install beside the framework
    packages: tuple[str, ...] = ()  # conda specs
    channels: tuple[str, ...] = ()
    cuda: str = ""  # CUDA version it brings, where the rules would else look for it on the system
    cudnn: str = ""
    needs_hook: bool = False  # the framework does not look where the libraries come to lie


def cuda_sources(context: Context, candidate: Candidate, installer: str) -> tuple[CudaSource, ...]:
    """List the ways for a candidate, the best first; the system's toolkit is the last."""
    row = candidate.cuda_row
    if not candidate.is_gpu or (context.goal == "cpu" and row.gpu_extra):  # without its extra it brings none
        return (CudaSource(NONE),)
    if candidate.row.framework != "tensorflow" or row.gpu_extra or row.cuda_wheels:
        return (CudaSource(OWN, needs_hook=not row.finds_cuda_wheels and bool(row.gpu_extra)),)
    if context.goal == "cpu":
        return (CudaSource(NONE),)  # a CUDA build that finds no CUDA computes on the CPU
    ways = [] if installer == CONDA else [*_wheels(context, candidate)]
    ways += _packages(context, candidate) if installer in ("", CONDA) else []
    return (*ways, CudaSource(SYSTEM))


def _wheels(context: Context, candidate: Candidate) -> list[CudaSource]:
    cuda, cudnn = candidate.row.cuda or "", candidate.row.cudnn or ""
    return [
        CudaSource(
            WHEELS,
            (*row["requirements"], _cudnn_wheel(row, cudnn)),
            cuda=cuda,
            cudnn=cudnn,
            needs_hook=True,
        )
        for row in plan_data()["cuda_wheels"]
        if context.platform in row["platforms"] and _same_sonames(context, row, cuda)
    ]


def _same_sonames(context: Context, row: dict[str, Any], cuda: str) -> bool:
    """Tell whether libraries of one CUDA bear the names that builds for another load."""
    there, wanted = context.matrix.cuda_sonames(row["cuda"]), context.matrix.cuda_sonames(cuda)
    return bool(wanted) and all(there.get(name) == wanted.get(name) for name in row["libraries"] if name in wanted)


def _cudnn_wheel(row: dict[str, Any], cudnn: str) -> str:
    major = int(cudnn.partition(".")[0])
    first = max(cudnn, str(row["cudnn_first"]), key=Version)
    return f"{row['cudnn']}>={first},<{major + 1}"


def _packages(context: Context, candidate: Candidate) -> list[CudaSource]:
    data, cuda = plan_data()["conda_libraries"], _minor(candidate.row.cuda or "")
    found = []
    for row in data["rows"]:
        cudnn = _held_cudnn(row["cudnn"], _minor(candidate.row.cudnn or ""))
        if cuda in row["cuda"] and context.platform in row["platforms"] and (cudnn or not candidate.row.cudnn):
            specs = (data["toolkit"].format(cuda=cuda), *((data["cudnn"].format(cudnn=cudnn),) if cudnn else ()))
            on_linux = context.os == "linux"
            channels = tuple(row["channels"])
            source = CudaSource(
                PACKAGES, packages=specs, channels=channels, cuda=cuda, cudnn=cudnn, needs_hook=on_linux
            )
            found.append(source)
    return found


def _held_cudnn(held: list[str], wanted: str) -> str:
    """Return the lowest cuDNN line a channel holds that is no older than the one built with, of the same major.

    A channel whose lines are not known (none listed) is taken to hold every one.
    """
    same = [line for line in held if line.partition(".")[0] == wanted.partition(".")[0]]
    return next((line for line in same if Version(line) >= Version(wanted)), "") if held and wanted else wanted


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
