"""Whether the header and the library of one cuDNN copy are of one release."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import INCOMPATIBLE, WARNING, Evidence, Finding, Known, Problem, get_value, numbers
from envcheck.rules.context import Context
from envcheck.rules.cuda_libraries import cuda_builds, relies_on_system
from envcheck.rules.registry import rule


@rule("cudnn-shadowed")
def cudnn_header_of_another(context: Context) -> Iterator[Finding]:
    """Find a header that belongs to another cuDNN than the library beside it: one was written over the other."""
    if not any(relies_on_system(build) for build in cuda_builds(context)):
        return
    for copy in get_value(context.facts.cudnn) or ():
        header, library = copy.header_version, copy.library_version
        if copy.origin == "wheels" or not isinstance(header, Known) or not isinstance(library, Known):
            continue
        told = min(len(numbers(header.value)), len(numbers(library.value)), 2)
        if numbers(header.value)[:told] == numbers(library.value)[:told]:
            continue
        message = (
            f"In {copy.root} the header is of cuDNN {header.value} and the library of {library.value}: code compiled "
            "there expects another cuDNN than it loads."
        )
        evidence = (
            Evidence("cuDNN header", header.value, header.source),
            Evidence("cuDNN library", library.value, library.source),
        )
        advice = f"Install header and library of one cuDNN release in {copy.root}, and remove the other."
        yield Finding("cudnn-shadowed", INCOMPATIBLE, WARNING, message, evidence, problem=Problem(advice=advice))
