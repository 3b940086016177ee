"""Whether XLA finds what it compiles kernels with at run time: libdevice and ptxas."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model import (
    INCOMPATIBLE,
    WARNING,
    Evidence,
    Finding,
    Known,
    Problem,
    ToolkitInstall,
    Unknown,
    get_value,
    is_older,
)
from envcheck.model.releases import Architecture
from envcheck.rules.builds import Build, is_condas
from envcheck.rules.context import Context, describe, source_of
from envcheck.rules.cuda_libraries import cuda_builds, row_evidence
from envcheck.rules.gpu_facts import Judged, gpu_name, judged_gpus
from envcheck.rules.registry import rule

_DATA_DIR = "--xla_gpu_cuda_data_dir="


@rule("libdevice-missing")
def libdevice_missing(context: Context) -> Iterator[Finding]:
    """Find TensorFlow builds for which XLA finds no libdevice; PyTorch needs none, JAX's wheels hold it."""
    installs = context.facts.toolkits.installs
    if isinstance(installs, Unknown) or _DATA_DIR in context.environment.get("XLA_FLAGS", ""):
        return
    if any(name.startswith("nvidia-cuda-nvcc") for name in context.distributions):
        return
    for build in cuda_builds(context):
        if build.installed and build.framework == "tensorflow":
            yield from _without_libdevice(context, build, get_value(installs) or ())


def _without_libdevice(context: Context, build: Build, installs: tuple[ToolkitInstall, ...]) -> Iterator[Finding]:
    holding = [item for item in installs if isinstance(item.libdevice_path, Known)]
    unread = any(isinstance(item.libdevice_path, Unknown) for item in installs)
    by_conda = is_condas(context, build.distribution)  # its builds look in the prefix they are installed in
    if any(_is_searched(context, item) or (by_conda and item.origin == "conda") for item in holding):
        return
    if unread and not holding:
        return
    cuda = get_value(build.cuda)
    if holding:
        root = holding[0].root
        message = f"XLA in {build.label} does not look for libdevice.10.bc in {root}, the only place that has it."
        path = get_value(holding[0].libdevice_path) or ""
        problem: Problem | None = Problem(("elsewhere",), folders=(root,), values=(("path", path),))
    else:
        message = (
            f"XLA in {build.label} needs libdevice.10.bc to compile kernels; neither a wheel nor a toolkit brings it."
        )
        problem = Problem(cuda=cuda) if cuda else None
    seen = tuple(Evidence(f"libdevice in {item.root}", describe(item.libdevice_path)) for item in installs)
    shown = seen or (context.seen("toolkits.installs"),)
    yield Finding("libdevice-missing", INCOMPATIBLE, WARNING, message, shown, problem=problem)


def _is_searched(context: Context, install: ToolkitInstall) -> bool:
    """Tell whether XLA looks there by itself: /usr/local/cuda, /usr/local/cuda-X.Y, /opt/cuda, CUDA_HOME."""
    facts = context.facts.toolkits
    named = {get_value(facts.usr_local_cuda), get_value(facts.cuda_home_root)}
    return install.root in named or install.origin in ("usr-local", "opt")


@rule("ptxas-problem")
def ptxas_problem(context: Context) -> Iterator[Finding]:
    """Find a ptxas that XLA would call and that does not know this machine's GPUs."""
    builds = [build for build in cuda_builds(context) if build.installed and build.framework in ("tensorflow", "jax")]
    install = _ptxas_install(context)
    version = get_value(install.version) if install else None
    if not builds or install is None or version is None or not isinstance(context.facts.gpus, Known):
        return
    for item in judged_gpus(context):
        row = item.architecture
        if row is not None and row.first_toolkit is not None and is_older(version, row.first_toolkit):
            yield _too_old(builds[0], install, item, row)
            return


def _too_old(build: Build, install: ToolkitInstall, item: Judged, row: Architecture) -> Finding:
    first = str(row.first_toolkit)
    message = (
        f"The ptxas that XLA calls is of CUDA {describe(install.version)} ({install.root}); {gpu_name(item.gpu)} "
        f"(compute capability {item.capability}) needs one of CUDA {first} or newer."
    )
    evidence = (
        Evidence("ptxas", describe(install.ptxas_path), source_of(install.ptxas_path)),
        row_evidence(f"compute capability {item.capability}", f"from CUDA {first} on", row.citations),
    )
    problem = Problem(framework=build.framework, distribution=build.distribution, capability=item.capability)
    return Finding("ptxas-problem", INCOMPATIBLE, WARNING, message, evidence, problem=problem)


def _ptxas_install(context: Context) -> ToolkitInstall | None:
    """Find the toolkit whose ptxas XLA calls: the wheel's, else the one on PATH, else /usr/local/cuda's."""
    installs = get_value(context.facts.toolkits.installs) or ()
    having = [item for item in installs if isinstance(item.ptxas_path, Known)]
    on_path = get_value(context.facts.toolkits.ptxas_on_path)
    searched = [
        *(item for item in having if item.origin == "wheels"),
        *(item for item in having if on_path is not None and get_value(item.ptxas_path) == on_path),
        *(item for item in having if item.root == get_value(context.facts.toolkits.usr_local_cuda)),
    ]
    return searched[0] if searched else None
