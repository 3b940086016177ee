"""Programs and libraries that were asked and did not answer: said even where nothing depends on them."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import NOTE, UNDETERMINED, Evidence, Fact, Finding, Known, Unknown
from envcheck.rules.context import Context
from envcheck.rules.gpu_facts import cuda_starts
from envcheck.rules.registry import rule

_ASKED = (
    "driver.smi_exit_code",
    "driver.nvml_result",
    "driver.cuda_init_result",
    "compilers.gcc_version",
    "compilers.gxx_version",
    "compilers.clang_version",
    "toolkits.nvcc_host_compiler_version",
)
_MISMATCH = 18  # of NVML: driver-library-mismatch says it
_SILENT = ("timeout", "crashed", "denied", "unparsable")


@rule("probe-failed", goal="any")
def tools_that_did_not_answer(context: Context) -> Iterator[Finding]:
    """Report each program that hung, crashed, was refused or printed what nobody can read."""
    facts = [(name, context.fact(name)) for name in _ASKED] + list(_nvcc_answers(context))
    by_reason: dict[Unknown, list[str]] = {}
    for name, fact in facts:
        if isinstance(fact, Unknown) and fact.why in _SILENT:
            by_reason.setdefault(fact, []).append(name)
    for reason, names in by_reason.items():
        message = f"Could not read {', '.join(names)}: {reason.detail} ({reason.why})."
        evidence = tuple(Evidence(name, f"{reason.why}: {reason.detail}") for name in names)
        yield Finding("probe-failed", UNDETERMINED, NOTE, message, evidence)


@rule("probe-failed")
def nvml_refuses_while_cuda_starts(context: Context) -> Iterator[Finding]:
    """Report an NVML that starts with an error other than a mismatch on a machine whose CUDA works."""
    nvml = context.facts.driver.nvml_result
    if isinstance(nvml, Known) and nvml.value not in (0, _MISMATCH) and cuda_starts(context):
        message = (
            f"The driver's management library (NVML) does not start (result {nvml.value}), though CUDA does: what only "
            "it tells, such as the memory and the processes of each GPU, could not be read."
        )
        evidence = (context.seen("driver.nvml_result"), context.seen("driver.cuda_init_result"))
        yield Finding("probe-failed", UNDETERMINED, NOTE, message, evidence)


def _nvcc_answers(context: Context) -> Iterator[tuple[str, Fact[str]]]:
    installs = context.facts.toolkits.installs
    for item in installs.value if isinstance(installs, Known) else ():
        yield f"nvcc of {item.root}", item.nvcc_release
