"""What to do about the host compiler that nvcc calls."""

from __future__ import annotations

import re

from envcheck.actions import WINGET, InstallSystemPackages
from envcheck.model import Alternative, Remedy, numbers, replace
from envcheck.model.fixes.compilers import InstallVisualStudio, UseOtherCompiler
from envcheck.remedies import writes
from envcheck.remedies.paths import is_plain_path
from envcheck.remedies.situation import Situation
from envcheck.remedies.system import install_compiler, set_host_compiler, system_packages


@writes(InstallVisualStudio)
def install_visual_studio(_: Situation, fix: InstallVisualStudio) -> Remedy:
    """Install the Visual Studio whose compiler nvcc accepts: 19.29 is that of 2019."""
    highest = int(fix.highest.replace(".", ""))
    rows = [row for row in system_packages().msvc.rows if row.highest <= highest]
    if not rows:
        return Remedy(
            "Install a Visual Studio release that this CUDA accepts, or a newer CUDA Toolkit."
        )
    row = rows[-1]
    component_options = " ".join(f"--add {name}" for name in row.components)
    options = ("--override", f"--passive --wait {component_options} --includeRecommended")
    purpose = f"the C++ compiler of Visual Studio {row.studio}"
    step = InstallSystemPackages(WINGET, (row.package,), options=options, purpose=purpose)
    return Remedy(
        f"Install the Build Tools of Visual Studio {row.studio},"
        " and build from its x64 Native Tools prompt.",
        (step,),
        (Alternative("Use a newer CUDA Toolkit, which accepts this compiler."),),
    )


@writes(UseOtherCompiler)
def use_other_compiler(situation: Situation, fix: UseOtherCompiler) -> Remedy | None:
    """Point nvcc at a compiler that it accepts, or install one."""
    lowest, highest = numbers(fix.lowest), numbers(fix.highest)
    if not highest and not lowest:
        return None
    path = _find_installed_compiler(situation, fix)
    if path:
        return Remedy(
            f"Point nvcc at {path}, which CUDA {fix.cuda} accepts.", (set_host_compiler(path),)
        )
    newest = (highest or lowest)[0]
    present = fix.present or situation.facts.compilers.gcc_version.value or ""
    if highest and numbers(present)[:1] == (newest,):
        newest -= 1  # nvcc fails with the one that is there, though it takes that major
    found = install_compiler(situation, (lowest or (0,))[0], newest)
    summary = found.summary
    if fix.calls_clang:
        summary = f"{found.summary} A clang that it accepts works too."
    ways = (*found.alternatives, *_name_newer_cuda(situation, fix))
    return replace(found, summary=summary, alternatives=ways)


def _find_installed_compiler(situation: Situation, fix: UseOtherCompiler) -> str:
    """Return the newest GCC within bounds that is installed; "" where there is none."""
    compilers = situation.facts.compilers
    installed = dict(compilers.others.value or {})
    if fix.calls_clang:
        installed[compilers.gcc_path.value or ""] = compilers.gcc_version.value or ""
    for path, version in sorted(installed.items(), key=lambda item: numbers(item[1]), reverse=True):
        # nvcc's headers compare as many numbers as the limit names
        limit = numbers(fix.highest or version)
        fits = numbers(version)[: len(limit)] <= limit and numbers(version) >= numbers(
            fix.lowest or "0"
        )
        if (
            version
            and fits
            and re.search(r"/(?:gcc|g\+\+)(?:-[\d.]+)?$", path)
            and is_plain_path(path)
        ):
            return path
    return ""


def _name_newer_cuda(situation: Situation, fix: UseOtherCompiler) -> tuple[Alternative, ...]:
    """Name the first CUDA that takes the compiler that is there."""
    present, highest = numbers(fix.present), numbers(fix.highest)
    if not present or not highest or present[0] <= highest[0]:
        return ()
    accepting = [
        row.version
        for row in situation.matrix.toolkits()
        if numbers(row.gcc_max)[:1] >= present[:1]
    ]
    if accepting:
        return (Alternative(f"Use CUDA {accepting[-1]} or newer, which accepts gcc {present[0]}."),)
    return ()
