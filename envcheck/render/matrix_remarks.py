"""What is said below the rows of the matrix: why, problems, other builds, requirements, proofs and sources."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model.findings import Citation
from envcheck.model.releases import FrameworkRelease
from envcheck.render.inert import inert
from envcheck.render.matrix_binaries import binary_lines
from envcheck.rules.matrix_question import Answer
from envcheck.rules.pytorch_index import IndexVariant


class Sources:
    """The citations of the rows printed, numbered as they come."""

    def __init__(self) -> None:
        self._numbers: dict[Citation, int] = {}

    def marks(self, citations: tuple[Citation, ...]) -> str:
        """Return the numbers of citations: "[1][3]"."""
        return "".join(f"[{self._numbers.setdefault(item, len(self._numbers) + 1)}]" for item in citations)

    def lines(self) -> list[str]:
        """List what the numbers stand for."""
        return [
            inert(f"[{number}] {item.url_or_artifact}, {item.locator}, checked {item.checked}")
            for item, number in self._numbers.items()
        ]


def remarks(item: Answer, sources: Sources, *, verbose: bool, single: bool) -> Iterator[str]:
    """Say what a row's cells cannot; a `single` release is told with the distributions it brings."""
    row = item.release
    label = f"{row.distribution}=={row.version}"
    if row.yanked:
        yield f"{label} on {row.platform}: yanked from the index."
    if item.why:
        yield inert(f"? {label} on {row.platform}: {'; '.join(item.why)}.")
    for problem in item.problems:
        fix, where = problem.fix or problem.remedy, f" on {', '.join(problem.platforms)}" if problem.platforms else ""
        yield inert(f"{label}{where}: {problem.what}" + (f" Fix: {fix}" if fix else ""))
    if row.cuda_wheels and (single or verbose):
        extra = f"[{row.gpu_extra}] " if row.gpu_extra else ""
        yield inert(f"{label} on {row.platform} {extra}brings: {' '.join(row.cuda_wheels)}")
    if item.companions and (single or verbose):
        yield inert(f"{label} on {row.platform} goes with: {' '.join(item.companions)}")
    yield from _variants(item, sources)
    if verbose:
        yield from _details(row)


def _variants(item: Answer, sources: Sources) -> Iterator[str]:
    """Name the builds of a torch release on PyTorch's own index, newest CUDA first."""
    if not item.variants:
        return
    row, first = item.release, item.variants[0]
    names = ", ".join(f"{variant.cuda} ({_where(variant)})" for variant in item.variants)
    cited = sources.marks((first.citation,))
    yield inert(
        f"{row.distribution}=={row.version} on {row.platform}: PyTorch's own index has it for CUDA {names}; "
        f"{first.proof} {cited}"
    )


def _where(variant: IndexVariant) -> str:
    code = " ".join(map(shown_target, variant.compute_capabilities))
    return variant.index_url + (f" with code for {code}" if code else "")


def shown_target(target: str) -> str:
    """Write a target as people do: sm_80 is 8.0, compute_90 is 9.0+PTX."""
    kind, _, number = target.partition("_")
    digits, suffix = (number[:-1], number[-1]) if number[-1].isalpha() else (number, "")
    return f"{digits[:-1]}.{digits[-1]}{suffix}" + ("+PTX" if kind == "compute" else "")


def _details(row: FrameworkRelease) -> Iterator[str]:
    label = f"{row.distribution}=={row.version} on {row.platform}"
    needs = " ".join(f"{name}{specifier}" for name, specifier in row.requires.items())
    if needs:
        yield inert(f"{label} requires: {needs}")
    tools = [row.compiler or "", f"TensorRT {row.tensorrt}" if row.tensorrt not in {None, "none"} else ""]
    if any(tools):
        yield inert(f"{label} built with: {', '.join(filter(None, tools))}")
    if row.note:
        yield inert(f"{label} note: {row.note}")
    yield from binary_lines(label, row.binaries)
    yield f"{label} proof: {', '.join(f'{cell} {tier}' for cell, tier in row.proof.items())}"
