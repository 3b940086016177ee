"""Plan packages without a framework, built on their own index: TensorRT, llama.cpp."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from envcheck.matrix.companions import SourcePackage, source_package
from envcheck.model import (
    PIP,
    UNDETERMINED,
    WARNING,
    Citation,
    Environment,
    Finding,
    Plan,
    PlannedRelease,
    Rejected,
    RequirementSet,
    dataclass,
    numbers,
)
from envcheck.model.versions import name_of, within
from envcheck.plan.candidates import machine_glibc, python_minor
from envcheck.plan.requests import PlanOptions, assumptions, read_planned, stated_machine
from envcheck.plan.steps import environment_steps
from envcheck.rules.context import Context
from envcheck.rules.gpu_releases import driver_runs


@dataclass
class _Offer:
    """A built file that the index of a package is documented to have."""

    version: str
    cuda: str  # 12.4, or a major where no more is stated
    pythons: tuple[str, ...]
    platforms: tuple[str, ...]
    glibc: str
    distribution: str
    citations: tuple[Citation, ...]


def is_on_own_index(requirements: tuple[str, ...]) -> bool:
    """Return whether such a package is asked for, and nothing else."""
    package = None
    if len(requirements) == 1:
        package = source_package(name_of(requirements[0]))
    return package is not None and package.is_alone


def plan_from_own_index(context: Context, text: str, options: PlanOptions, base: str) -> Plan:
    """Plan the newest release whose CUDA the driver runs.

    `base` is the Python that the environment is made with.
    """
    asked = read_planned(text)
    name, specifier = asked.name, asked.specifier
    package = source_package(name)
    assert package is not None  # noqa: S101 - is_on_own_index
    offers = _list_offers(context, name, package)
    rejected: dict[Rejected, None] = {}
    for chosen in offers:
        if not within(chosen.version, specifier):
            continue
        requirement = f"{chosen.distribution}=={chosen.version}"
        fault = Rejected(requirement, *_find_fault(context, chosen))
        if not fault.finding:
            break
        rejected[fault] = None
    else:
        unknown = Rejected(text, "release-unknown", "no built file of it is known.")
        faults = tuple(rejected) or (unknown,)
        return Plan(context.goal, (), (), requirements=(text,), system=context.os, rejected=faults)
    environment = _environment_of(context, chosen, package, options)
    index = environment.sets[0].options[-1]
    unread = (
        f"documented: {index} has {requirement}. It was not read:"
        " for which GPUs it has code is unknown."
    )
    release = PlannedRelease(
        framework=name,
        distribution=chosen.distribution,
        version=chosen.version,
        requirement=requirement,
        build="gpu",
        cuda=chosen.cuda,
        environment=environment.folder,
        rejected=tuple(rejected),
        doubts=(Finding("release-unknown", UNDETERMINED, WARNING, unread),),
        citations=chosen.citations,
    )
    steps = environment_steps(
        environment,
        (),
        context.goal,
        base,
        shells=options.shells,
        companions={chosen.distribution: False},
    )
    return Plan(
        context.goal,
        (release,),
        steps,
        requirements=(text,),
        environments=(environment,),
        notes=tuple(assumptions(context, (release,), options)),
        system=context.os,
        machine=stated_machine(context),
    )


def _environment_of(
    context: Context, chosen: _Offer, package: SourcePackage, options: PlanOptions
) -> Environment:
    own = tuple(item.format(cuda=chosen.cuda.replace(".", "")) for item in package.options)
    requirement = f"{chosen.distribution}=={chosen.version}"
    return Environment(
        options.folder or ".venv",
        options.installer or PIP,
        python_minor(context),
        context.platform,
        sets=(RequirementSet((requirement,), options=own),),
        glibc=chosen.glibc,
        machine_glibc=machine_glibc(context),
    )


def _list_offers(context: Context, name: str, package: SourcePackage) -> Iterator[_Offer]:
    """Yield the files for this platform, the newest release and CUDA first."""
    found = [
        _Offer(version, cuda, files.pythons, files.platforms, files.glibc, name, package.citations)
        for release in package.releases
        for files in release.files or ()
        for version in release.versions
        for cuda in files.cuda
    ]
    for part in package.parts:  # what the index that pip asks has of it states the rest
        distribution = re.sub("-bindings$", "", part)
        for row in context.matrix.companion_releases(part):
            if row.cuda and not row.yanked:
                offer = _Offer(
                    row.version,
                    row.cuda,
                    row.pythons,
                    (row.platform,),
                    row.glibc or "",
                    distribution,
                    tuple(row.citations),
                )
                found.append(offer)
    here = [offer for offer in found if context.platform in offer.platforms] or found[:1]
    yield from sorted(
        here, key=lambda offer: (Version(offer.version), numbers(offer.cuda)), reverse=True
    )


def _find_fault(context: Context, offer: _Offer) -> tuple[str, str]:
    """Return the id and sentence of what keeps a file from this machine, or ("", "")."""
    minor, glibc = python_minor(context), machine_glibc(context)
    if context.platform not in offer.platforms:
        return "platform-no-gpu-wheel", f"has built files for {' and '.join(offer.platforms)} only."
    if context.goal != "gpu":
        return (
            "gpu-absent",
            "computes on NVIDIA GPUs only: name the GPU that the plan is for with --gpu.",
        )
    if minor not in offer.pythons:
        return (
            "python-unsupported",
            f"has no built file for Python {minor}; it has some for {', '.join(offer.pythons)}.",
        )
    if glibc and offer.glibc and Version(glibc) < Version(offer.glibc):
        return "glibc-too-old", f"needs glibc {offer.glibc}, and this machine has {glibc}."
    if not driver_runs(context, offer.cuda if "." in offer.cuda else f"{offer.cuda}.0"):
        return "driver-too-old", f"is built for CUDA {offer.cuda}, which this driver does not run."
    return "", ""
