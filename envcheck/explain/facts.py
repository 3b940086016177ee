"""What a log states of the machine, and of what was to be done on it, as facts and target."""

from __future__ import annotations

import re
from typing import Any

from envcheck.explain.log import COMPILING, FRAMEWORKS, Log, find_framework_of_package, normalize_capability
from envcheck.matrix.gpus import find_capabilities
from envcheck.model import (
    Distribution,
    Fact,
    Facts,
    FrameworkBuild,
    Gpu,
    Known,
    RequestError,
    Source,
    Unknown,
    canonical_name,
    replace,
)
from envcheck.rules.context import Target
from envcheck.rules.wanted_releases import check_requirements

_LISTS = tuple(f"pip-list-{item.name}" for item in FRAMEWORKS)


def collect_stated_facts(log: Log) -> Facts | None:
    """Return the given facts with the log's own beside them; None where neither says anything decisive."""
    builds = _LogFacts(log).builds()
    if not log.has_facts and not (builds and (log.values("driver", "gpu", "nvcc") or len(builds) > 1)):
        return None
    return merge_facts(log)


def merge_facts(log: Log) -> Facts:
    """Return the given facts with all that the log states of the machine beside them."""
    log_facts = _LogFacts(log)
    builds = log_facts.builds()
    facts = log.facts
    python, driver, host = facts.python, facts.driver, facts.host
    python = replace(
        python,
        version=_prefer_known(python.version, log_facts.find("python")),
        frameworks=_prefer_known(python.frameworks, log_facts.wrap_all(builds)),
        distributions=_prefer_known(python.distributions, log_facts.wrap_all(log_facts.distributions())),
    )
    driver = replace(
        driver,
        release=_prefer_known(driver.release, log_facts.find("driver")),
        cuda_driver_version=_prefer_known(driver.cuda_driver_version, log_facts.find_offered_cuda()),
    )
    host = replace(
        host,
        os=_prefer_known(host.os, log_facts.wrap_text(log.os)),
        libc_version=_prefer_known(host.libc_version, log_facts.find("glibc")),
    )
    merged: Facts = replace(
        facts,
        python=python,
        driver=driver,
        host=host,
        gpus=_prefer_known(facts.gpus, log_facts.wrap_all(log_facts.gpus())),
    )
    return merged


class _LogFacts:
    """What messages captured, as facts with the line they stand in."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def find(self, capture: str) -> Fact[Any]:
        match = next(self._log.find_captures(capture), None)
        if match is None:
            return Unknown("failed", "the log does not say")
        event, value = match
        return Known(value, Source("file", f"{event.file}:{event.line}", event.text))

    def find_offered_cuda(self) -> Fact[str]:
        """Return the newest CUDA that the driver offers: 11.4, or 11040 as CUDA itself writes it."""
        fact, number = self.find("driver_cuda"), self.find("cuda_api")
        if isinstance(fact, Unknown) and isinstance(number, Known) and re.fullmatch(r"\d{4,5}", number.value):
            return replace(number, value=f"{int(number.value) // 1000}.{int(number.value) % 1000 // 10}")
        return fact

    def wrap_text(self, value: str) -> Fact[Any]:
        return Known(value, Source("file", "log")) if value else Unknown("failed", "the log does not say")

    def wrap_all(self, values: tuple[Any, ...]) -> Fact[Any]:
        return Known(values, Source("file", "log")) if values else Unknown("failed", "the log does not say")

    def builds(self) -> tuple[FrameworkBuild, ...]:
        found = []
        for name, version in self._log.packages.items():
            identity = find_framework_of_package(name)
            framework = identity.name if identity else self._log.matrix.framework_of(name)
            distribution = name
            if identity and name not in identity.distributions:
                distribution = identity.plans.gpu_distributions[0]
            if framework and re.fullmatch(r"\d+(\.\d+)+[\w.+]*", version) and name in self._list_names():
                cuda = self.find(f"{framework}_cuda")
                found.append(FrameworkBuild(framework, distribution, version, cuda_version=cuda))
            elif framework and self._log.image and (name, version) == self._log.image[:2]:
                found.append(self._build_from_image(framework, *self._log.image))
        return tuple({item.distribution: item for item in found}.values())

    def _build_from_image(self, framework: str, name: str, version: str, cuda: str) -> FrameworkBuild:
        """Make the build that the name of the container's image tells."""
        event = self._log.select("container-image")[0]
        source = Source("file", f"{event.file}:{event.line}", event.text)
        if cuda == "cpu":
            return FrameworkBuild(framework, name, version, cuda_build=Known(value=False, source=source))
        cuda_version: Fact[str] = Known(cuda, source) if cuda else Unknown("failed", "the log does not say")
        return FrameworkBuild(
            framework, name, version, cuda_build=Known(value=True, source=source), cuda_version=cuda_version
        )

    def _list_names(self) -> set[str]:
        rows = self._log.select(*_LISTS)
        names = {name for item in FRAMEWORKS for name in (item.name,) if self._log.has(f"{name}-version")}
        return names | {canonical_name(row.values["package"]) for row in rows}

    def distributions(self) -> tuple[Distribution, ...]:
        rows = self._log.select(*_LISTS, "pip-list-nvidia", "pip-list-helpers", "pip-list-extensions", "pip-installed")
        names = {canonical_name(row.values["package"]): row.values["version"] for row in rows}
        return tuple(Distribution(name, version) for name, version in names.items())

    def gpus(self) -> tuple[Gpu, ...]:
        found = []
        for event, name in self._log.find_captures("gpu"):
            source = Source("file", f"{event.file}:{event.line}", event.text)
            value = event.values.get("cc") or event.values.get("sm")
            capability = normalize_capability(value) if value else _find_capability(name)
            if capability:
                found.append(Gpu(name=Known(name, source), compute_capability=Known(capability, source)))
        return tuple(found[:16])


def _find_capability(name: str) -> str:
    """Return the compute capability of a GPU by its name; "" where the name is not known, or fits several."""
    numbers = find_capabilities(name) if len(name) > 2 else ()
    return numbers[0] if len(numbers) == 1 else ""


def _prefer_known(fact: Fact[Any], other: Fact[Any]) -> Fact[Any]:
    """Keep what the snapshot knows; take the log's word for what it could not tell."""
    return other if isinstance(fact, Unknown) and isinstance(other, Known) else fact


_MISSING_RELEASES = ("pip-from-versions", "pip-no-distribution")
_BUILDS = ("build-command-failed", "ninja-failed", "nvcc-failed")


def build_target(log: Log, target: Target | None) -> Target:
    """Add to what was `target` what the log tells of it, where it is judged with a machine's facts."""
    target_or_default = target or Target()
    if not log.has_facts:
        return target_or_default
    requirements = tuple(dict.fromkeys((*target_or_default.requirements, *_list_missing_requirements(log))))
    return Target(target_or_default.expect, requirements, target_or_default.compiles or log.has(*COMPILING, *_BUILDS))


def _list_missing_requirements(log: Log) -> tuple[str, ...]:
    """List the requirements that pip found nothing for, as far as the rules can judge them."""
    requirements = (event.values["requirement"].rstrip(".,:;") for event in log.select(*_MISSING_RELEASES))
    return tuple(text for text in dict.fromkeys(requirements) if _can_judge(log, text))


def _can_judge(log: Log, text: str) -> bool:
    try:
        check_requirements((text,), log.matrix)
    except RequestError:
        return False
    return True
