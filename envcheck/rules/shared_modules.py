"""Two distributions of one module beside the frameworks: onnxruntime and onnxruntime-gpu, two builds of CuPy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from envcheck.host.data_files import read_data
from envcheck.model.findings import INCOMPATIBLE, WARNING, Finding, Fix
from envcheck.model.machine import Distribution
from envcheck.rules.context import Context
from envcheck.rules.fixes_python import install_steps, uninstall_steps
from envcheck.rules.registry import rule

_STARTS = ("cupy", "onnxruntime")  # without one of these the table need not be read


@rule("framework-duplicate-dists", goal="any")
def shared_module(context: Context) -> Iterator[Finding]:
    """Find distributions that write the same files: what an import finds depends on the order of installation."""
    installed = context.distributions.values()  # what conda records beside them holds no files of its own
    candidates = [item for item in installed if item.name.startswith(_STARTS) and item.scope != "conda"]
    if len(candidates) < 2:
        return
    for row in json.loads(read_data("shared_modules.json"))["modules"]:
        rivals = [item for item in candidates if re.fullmatch(row["distributions"], item.name)]
        if len(rivals) > 1:
            yield _shared(context, row["module"], rivals, row["for_gpu"])


def _shared(context: Context, module: str, rivals: list[Distribution], for_gpu: str) -> Finding:
    shown = " and ".join(f"{item.name} {item.version}" for item in rivals)
    names = [item.name for item in rivals]
    kept = for_gpu if context.goal == "gpu" and for_gpu in names else ""
    advice = f"Remove them all, then install {kept or 'the one you mean'} alone."
    steps = uninstall_steps(context, *names) + (install_steps(context, kept) if kept else ())
    message = (
        f"{shown} both bring the module {module}: their files overwrite each other, and which build remains depends on "
        "the order of installation."
    )
    seen = context.seen("python.distributions", shown=shown)
    return Finding("framework-duplicate-dists", INCOMPATIBLE, WARNING, message, (seen,), Fix(advice, steps))
