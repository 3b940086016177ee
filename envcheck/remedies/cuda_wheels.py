"""What to do about the CUDA libraries that come as wheels into an environment."""

from __future__ import annotations

import posixpath
import re

from envcheck.actions import CreateEnvironment, InstallPackages, LinkFile
from envcheck.frameworks import identity
from envcheck.model import Alternative, Remedy, replace
from envcheck.model.fixes.cuda_wheels import (
    ExposeCudaWheels,
    InstallCudaLibraries,
    ReplaceCudaWheels,
    StartActivated,
    UseFreshEnvironment,
)
from envcheck.remedies import writes
from envcheck.remedies.frameworks import install_build_of_log
from envcheck.remedies.situation import PLAIN_FILE, Situation


@writes(InstallCudaLibraries)
def install_cuda_libraries(situation: Situation, fix: InstallCudaLibraries) -> Remedy | None:
    """Install them from the index of the framework's build.

    Where none are named, a build that brings its own.
    """
    if not fix.requirements:
        return _install_build_with_libraries(situation, fix.framework)
    steps = situation.install(*fix.requirements, index=fix.index)
    return Remedy(f"Install {' and '.join(fix.requirements)}; no CUDA Toolkit is needed.", steps)


def _install_build_with_libraries(situation: Situation, name: str) -> Remedy | None:
    steps = situation.install_gpu_build(name)
    if identity(name).cuda.brings_libraries:
        summary = f"Reinstall {name} with the nvidia-* wheels that it requires, without --no-deps."
        return Remedy(summary, (*situation.uninstall(name), *steps))
    extra = identity(name).plans.gpu_requirement
    if not extra:
        return None
    windows = ""
    if situation.os in ("", "windows"):
        windows = " Windows has none: use WSL 2."
    return Remedy(f"Install the framework with its CUDA libraries: {extra}.{windows}", steps)


@writes(StartActivated)
def activate_environment(situation: Situation, _: StartActivated) -> Remedy:
    """Activate it by hand."""
    return Remedy("Activate the environment before you start a program.", situation.activate())


@writes(ExposeCudaWheels)
def expose_cuda_wheels(situation: Situation, fix: ExposeCudaWheels) -> Remedy:
    """Link the libraries where the framework looks, else add their folders to the path."""
    alternatives: tuple[Alternative, ...] = ()
    if fix.requirement:
        summary = f"Install {fix.requirement}, which finds them."
        alternatives = (Alternative(summary, situation.install(fix.requirement)),)
    links = _link_libraries(situation, fix)
    if links:
        names = ", ".join(posixpath.basename(link.link) for link in links)
        summary = f"Link {names} into {fix.reached}, where the framework looks."
        return Remedy(summary, links, alternatives)
    summary = "Add the wheels' folders to the loader's path when the environment is activated."
    return Remedy(summary, situation.add_loader_folders(fix.folders), alternatives)


def _link_libraries(situation: Situation, fix: ExposeCudaWheels) -> tuple[LinkFile, ...]:
    """Link libraries by paths that hold wherever the environment lies."""
    reached, paths = fix.reached, fix.links
    if (
        not reached
        or situation.os != "linux"
        or not all(re.fullmatch(PLAIN_FILE, path) for path in (reached, *paths))
    ):
        return ()
    return tuple(
        LinkFile(posixpath.relpath(path, reached), f"{reached}/{posixpath.basename(path)}")
        for path in paths
    )


@writes(ReplaceCudaWheels)
def replace_cuda_wheels(situation: Situation, fix: ReplaceCudaWheels) -> Remedy:
    """Remove the wheels, and force the others to be written again."""
    reinstalled = " and ".join(text.partition("==")[0] for text in fix.requirements)
    steps = (*situation.uninstall(*fix.removed), *situation.install(*fix.requirements, force=True))
    summary = (
        f"Remove {', '.join(fix.removed)}, then reinstall"
        f" {reinstalled}, whose files were overwritten."
    )
    return Remedy(summary, steps)


@writes(UseFreshEnvironment)
def use_fresh_environment(situation: Situation, fix: UseFreshEnvironment) -> Remedy | None:
    """Install the build of the log into a new environment; None where none is known for it."""
    create = CreateEnvironment(".venv-new", starter=(situation.python,))
    python = create.interpreter(situation.os)
    steps = install_build_of_log(situation, fix.framework)
    fresh = tuple(
        replace(item, python=python) for item in steps if isinstance(item, InstallPackages)
    )
    summary = "Make a fresh environment with one framework, and install no nvidia-* wheels by hand."
    return Remedy(summary, (create, *fresh)) if fresh else None
