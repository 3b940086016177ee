"""Is the Visual C++ runtime there that Windows wheels are linked with?"""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import ERROR, INCOMPATIBLE, Absent, Finding, Problem
from envcheck.rules.builds import Build
from envcheck.rules.context import Context
from envcheck.rules.framework_state import is_conda_build
from envcheck.rules.registry import rule
from envcheck.rules.targets import judged_builds


@rule("msvc-runtime-missing", goal="any")
def msvc_runtime_missing(context: Context) -> Iterator[Finding]:
    """Report wheels on a Windows machine without Microsoft's redistributable; conda brings its own."""
    wheels = [build for build in judged_builds(context) if not _brings_runtime(context, build)]
    if context.os != "windows" or not wheels or not isinstance(context.facts.host.msvc_runtime, Absent):
        return
    message = (
        f"{wheels[0].label} is linked with Microsoft's Visual C++ runtime, which is not installed: importing it ends "
        "with 'DLL load failed'."
    )
    evidence = (context.seen("host.msvc_runtime"),)
    yield Finding("msvc-runtime-missing", INCOMPATIBLE, ERROR, message, evidence, problem=Problem())


def _brings_runtime(context: Context, build: Build) -> bool:
    return "vc14-runtime" in context.distributions or is_conda_build(context, build)
