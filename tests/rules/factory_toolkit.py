"""Small composed facts for the rules on toolkits, cuDNN, compilers and extensions; every one is made up here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from envcheck.model import (
    Absent,
    CompilerFacts,
    Distribution,
    Extension,
    Fact,
    Facts,
    Finding,
    FrameworkBuild,
    HostFacts,
    Known,
    LibraryInstall,
    LibraryLookup,
    PythonFacts,
    Source,
    ToolkitFacts,
    ToolkitInstall,
    Unknown,
)
from envcheck.rules import Context, Target, evaluate
from tests.rules.factory_machine import gpu, matrix
from tests.typed import remedied

HERE = Source("file", "composed", "")
SITE = "/env/lib/python3.11/site-packages"
HANGS = Unknown("timeout", "no answer in 2 s")
NONE = Absent(("everywhere",))


def known(value: Any) -> Known[Any]:
    """Return a known fact."""
    return Known(value, HERE)


def lookup(soname: str, at: str = "", *elsewhere: str, **more: Any) -> LibraryLookup:
    """Return a library that the loader finds `at` a path, or not at all."""
    found: Fact[str] = known(at) if at else NONE
    return LibraryLookup(
        soname, more.pop("needed_by", "framework.so"), found=found, elsewhere=elsewhere, **more
    )


def tensorflow(version: str = "2.11.0", *lookups: LibraryLookup, **more: Any) -> FrameworkBuild:
    """Return a TensorFlow build; without lookups nothing of its libraries was read."""
    libraries = {"libraries": known(lookups)} if lookups else {}
    return FrameworkBuild("tensorflow", "tensorflow", version, SITE, **{**libraries, **more})


def torch(version: str = "2.5.1", *lookups: LibraryLookup, **more: Any) -> FrameworkBuild:
    """Return a PyTorch build, its CUDA libraries as wheels."""
    libraries = {"libraries": known(lookups)} if lookups else {}
    return FrameworkBuild("torch", "torch", version, SITE, **{**libraries, **more})


def toolkit(version: str | None, root: str = "", **more: Any) -> ToolkitInstall:
    """Return a toolkit; `more` are its facts, bare values are known."""
    facts = {
        name: value if isinstance(value, (Known, Absent, Unknown)) else known(value)
        for name, value in more.items()
    }
    given: dict[str, Any] = {"nvcc_path": NONE, "libdevice_path": NONE, "ptxas_path": NONE, **facts}
    told: Fact[str] = known(version) if version else HANGS
    return ToolkitInstall(
        root or f"/usr/local/cuda-{version}", "usr-local", **{"version": told, **given}
    )


def cudnn(version: str, root: str = "/usr", cuda: str = "", **more: Any) -> LibraryInstall:
    """Return a system-wide copy of cuDNN."""
    library: dict[str, Any] = {
        "library_version": known(version),
        "library_path": known(f"{root}/lib/libcudnn.so.{version}"),
    }
    major: Fact[str] = known(cuda) if cuda else NONE
    return LibraryInstall("cudnn", root, "system", **{"cuda_major": major, **library, **more})


def machine(
    *builds: FrameworkBuild,
    toolkits: tuple[ToolkitInstall, ...] | Absent | Unknown = NONE,
    copies: tuple[LibraryInstall, ...] | Absent | Unknown = NONE,
    environment: dict[str, str] | None = None,
    distributions: dict[str, str] | None = None,
    capability: str = "7.0",
    kind: str = "venv",
    extensions: tuple[Extension, ...] = (),
    **paths: Any,
) -> Facts:
    """Return a machine with a GPU; `paths` are facts of ToolkitFacts."""
    installs = toolkits if isinstance(toolkits, (Absent, Unknown)) else known(toolkits)
    wheels = tuple(
        Distribution(name, version, SITE) for name, version in (distributions or {}).items()
    )
    return Facts(
        host=HostFacts(
            os=known("linux"),
            architecture=known("x86_64"),
            distribution_id=known("ubuntu"),
            environment=known(environment or {}),
        ),
        gpus=known((gpu("Tesla V100-SXM2-16GB", capability),)),
        toolkits=replace(
            ToolkitFacts(installs=installs), **{name: known(value) for name, value in paths.items()}
        ),
        cudnn=copies if isinstance(copies, (Absent, Unknown)) else known(copies),
        tensorrt=NONE,
        compilers=CompilerFacts(),
        python=PythonFacts(
            frameworks=known(builds),
            distributions=known(wheels),
            version=known("3.11.7"),
            prefix=known("/env"),
            kind=known(kind),
            extensions=known(extensions) if extensions else NONE,
        ),
    )


def judged(
    facts: Facts, *ids: str, without: tuple[str, ...] = (), asked: tuple[str, ...] = ()
) -> list[tuple[str, str, str]]:
    """Return id, verdict and severity of what the rules for `ids` find."""
    return [
        (item.id, item.verdict, item.severity)
        for item in findings(facts, *ids, without=without, asked=asked)
    ]


def findings(
    facts: Facts, *ids: str, without: tuple[str, ...] = (), asked: tuple[str, ...] = ()
) -> tuple[Finding, ...]:
    """Return what the rules for `ids` find; `without` deletes one matrix row."""
    context = Context(facts, matrix(without), Target("gpu", asked))
    return tuple(remedied(evaluate(context, frozenset(ids)).findings, context))
