"""The machine a fix is for, as the doctor's builders see it: by the facts, and by what the log gives away."""

from __future__ import annotations

import re
from typing import TypeVar

from envcheck.explain.stated import all_facts
from envcheck.explain.told import Told
from envcheck.model import Command, Fact, Known, Source, Unknown, replace
from envcheck.model.releases import FrameworkRelease
from envcheck.rules.context import Context
from envcheck.rules.fixes_python import is_requirement, python_program

T = TypeVar("T")
_SYSTEMS = ("ubuntu", "debian", "fedora", "centos", "rocky", "almalinux", "arch", "manjaro", "opensuse", "linuxmint")
_CONTAINERS = {"apptainer-nv": "apptainer", "k8s-insufficient-gpu": "kubernetes", "device-plugin-nvml": "kubernetes"}
_IN_CONTAINERS = ("forward-compat-804", "image-driver", "container-", "docker-", "cuda-compat-unavailable")


def context_of(told: Told) -> Context:
    """Return what the doctor's builders ask for; what neither the facts nor the log tell stays unknown."""
    log = told.log
    facts = all_facts(log)
    host, python = facts.host, facts.python
    system = log.first("os").lower()
    known = next((name for name in _SYSTEMS if name in system), "")
    host = replace(
        host,
        os=_or(host.os, told.system),
        container=_or(host.container, _container(told)),
        wsl_version=_or(host.wsl_version, 2 if log.in_wsl else None),
        distribution_id=_or(host.distribution_id, known),
        architecture=_or(host.architecture, log.architecture),
    )
    python = replace(python, kind=_or(python.kind, "conda" if log.values("conda") else ""))
    return Context(replace(facts, host=host, python=python), log.matrix)


def _container(told: Told) -> str:
    kind = next((_CONTAINERS[name] for name in told.signatures if name in _CONTAINERS), "")
    inside = told.log.in_container or any(name.startswith(_IN_CONTAINERS) for name in told.signatures)
    return kind or ("docker" if inside else "")


def _or(fact: Fact[T], told: T | None) -> Fact[T]:
    return Known(told, Source("file", "log")) if told and isinstance(fact, Unknown) else fact


def python_says(told: Told, code: str, purpose: str) -> Command:
    """Make the command that asks the Python of the environment something."""
    return Command((python_program(context_of(told)), "-c", code), "environment", purpose)


def release_row(told: Told) -> FrameworkRelease | None:
    """Return the matrix' row of the release that the log names."""
    public = told.release.partition("+")[0]
    return told.log.matrix.release(told.framework, public, context_of(told).platform) if public else None


def plan_command(told: Told, requirement: str = "", purpose: str = "") -> tuple[Command, ...]:
    """Make the line that plans for the machine as far as the log describes it; () without a framework to ask for."""
    asked = requirement if requirement and is_requirement(requirement) else told.framework
    if not asked:
        return ()
    said = purpose or "on that machine: prints the exact commands for it and changes nothing"
    return (Command(("envcheck", "plan", asked, *_described(told)), "environment", said),)


def _described(told: Told) -> tuple[str, ...]:
    """List the options of `envcheck plan` that the log answers."""
    log = told.log
    if log.with_facts:
        return ()
    options: list[str] = []
    for option, value, shape in (
        ("--python", log.python, r"3\.\d{1,2}"),
        ("--driver", log.driver or _branch(told), r"\d{3,4}(\.\d+){0,2}"),
        ("--glibc", log.first("glibc"), r"2\.\d{1,2}"),
    ):
        if re.fullmatch(shape, value, re.ASCII):
            options += [option, value]
    for gpu in _gpus(told):
        options += ["--gpu", gpu]
    return tuple(options)


def _gpus(told: Told) -> tuple[str, ...]:
    """Name each kind of GPU as the planner takes it: by its capability, or a name that stands for one product."""
    stated = told.value("cc") if any({"cc", "sm"} & set(event.captured) for event in told.claim.events) else ""
    if stated:
        return (stated,)  # looking names up takes longer than all the rest
    names = [name for name in told.log.values("gpu") if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ./()-]{2,60}", name)]
    if names:
        from envcheck.matrix.gpus import capabilities_named

        single = [name for name in names if len(capabilities_named(name)) == 1]
        if single:
            return tuple(dict.fromkeys(single))[:4]
    return tuple(item for item in told.log.capabilities if told.log.matrix.architecture(item))[:4]


def _branch(told: Told) -> str:
    """Tell a driver's branch by the newest CUDA that it offers: 11040 or 11.4 is branch 470."""
    api = told.log.first("cuda_api")
    cuda = (
        f"{int(api) // 1000}.{int(api) % 1000 // 10}"
        if re.fullmatch(r"\d{4,5}", api)
        else told.log.first("driver_cuda")
    )
    rows = told.log.matrix.driver_branches() if cuda else ()
    return next((row.branch for row in rows if row.cuda == cuda), "")
