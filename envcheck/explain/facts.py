"""What a log states of the machine, and of what was to be done on it, as facts and target."""

from __future__ import annotations

import re
from typing import Any

from envcheck.explain.log import COMPILING, FRAMEWORKS, Log, digits, framework_of_package
from envcheck.matrix.gpus import find_capabilities
from envcheck.model import Distribution, Fact, Facts, FrameworkBuild, Gpu, Known, Source, Unknown, replace
from envcheck.rules.builds import TargetError, check_requirements
from envcheck.rules.context import Target

_LISTS = tuple(f"pip-list-{item.name}" for item in FRAMEWORKS)


def stated_facts(log: Log) -> Facts | None:
    """Return the given facts with the log's own beside them; None where neither says anything decisive."""
    builds = _StatedValues(log).builds()
    if not log.with_facts and not (builds and (log.values("driver", "gpu", "nvcc") or len(builds) > 1)):
        return None
    return all_facts(log)


def all_facts(log: Log) -> Facts:
    """Return the given facts with all that the log states of the machine beside them."""
    told = _StatedValues(log)
    builds = told.builds()
    facts = log.facts
    python, driver, host = facts.python, facts.driver, facts.host
    python = replace(
        python,
        version=_or(python.version, told.known("python")),
        frameworks=_or(python.frameworks, told.many(builds)),
        distributions=_or(python.distributions, told.many(told.distributions())),
    )
    driver = replace(
        driver,
        release=_or(driver.release, told.known("driver")),
        cuda_driver_version=_or(driver.cuda_driver_version, told.known("driver_cuda")),
    )
    host = replace(host, os=_or(host.os, told.text(log.os)), libc_version=_or(host.libc_version, told.known("glibc")))
    merged: Facts = replace(
        facts, python=python, driver=driver, host=host, gpus=_or(facts.gpus, told.many(told.gpus()))
    )
    return merged


class _StatedValues:
    """What messages captured, as facts with the line they stand in."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def known(self, capture: str) -> Fact[Any]:
        found = next(self._log.capturing(capture), None)
        if found is None:
            return Unknown("failed", "the log does not say")
        event, value = found
        return Known(value, Source("file", f"{event.file}:{event.line}", event.text))

    def text(self, value: str) -> Fact[Any]:
        return Known(value, Source("file", "log")) if value else Unknown("failed", "the log does not say")

    def many(self, values: tuple[Any, ...]) -> Fact[Any]:
        return Known(values, Source("file", "log")) if values else Unknown("failed", "the log does not say")

    def builds(self) -> tuple[FrameworkBuild, ...]:
        found = []
        for name, version in self._log.packages.items():
            known = framework_of_package(name)
            framework = known.name if known else self._log.matrix.framework_of(name)
            distribution = known.gpu_distributions[0] if known and name not in known.distributions else name
            if framework and re.fullmatch(r"\d+(\.\d+)+[\w.+]*", version) and name in self._listed():
                cuda = self.known(f"{framework}_cuda")
                found.append(FrameworkBuild(framework, distribution, version, cuda_version=cuda))
            elif framework and self._log.image and (name, version) == self._log.image[:2]:
                found.append(self._of_image(framework, *self._log.image))
        return tuple({item.distribution: item for item in found}.values())

    def _of_image(self, framework: str, name: str, version: str, cuda: str) -> FrameworkBuild:
        """Make the build that the name of the container's image tells."""
        event = self._log.of("container-image")[0]
        source = Source("file", f"{event.file}:{event.line}", event.text)
        if cuda == "cpu":
            return FrameworkBuild(framework, name, version, cuda_build=Known(value=False, source=source))
        told: Fact[str] = Known(cuda, source) if cuda else Unknown("failed", "the log does not say")
        return FrameworkBuild(framework, name, version, cuda_build=Known(value=True, source=source), cuda_version=told)

    def _listed(self) -> set[str]:
        rows = self._log.of(*_LISTS)
        stated = {name for item in FRAMEWORKS for name in (item.name,) if self._log.has(f"{name}-version")}
        return stated | {row.captured["package"].lower().replace("_", "-") for row in rows}

    def distributions(self) -> tuple[Distribution, ...]:
        rows = self._log.of(*_LISTS, "pip-list-nvidia", "pip-list-helpers")
        names = {row.captured["package"].lower().replace("_", "-"): row.captured["version"] for row in rows}
        return tuple(Distribution(name, version) for name, version in names.items())

    def gpus(self) -> tuple[Gpu, ...]:
        found = []
        for event, name in self._log.capturing("gpu"):
            source = Source("file", f"{event.file}:{event.line}", event.text)
            stated = event.captured.get("cc") or event.captured.get("sm")
            capability = digits(stated) if stated else _capability_named(name)
            if capability:
                found.append(Gpu(name=Known(name, source), compute_capability=Known(capability, source)))
        return tuple(found[:16])


def _capability_named(name: str) -> str:
    """Return the compute capability of a GPU by its name; "" where the name is not known, or fits several."""
    numbers = find_capabilities(name) if len(name) > 2 else ()
    return numbers[0] if len(numbers) == 1 else ""


def _or(fact: Fact[Any], other: Fact[Any]) -> Fact[Any]:
    """Keep what the snapshot knows; take the log's word for what it could not tell."""
    return other if isinstance(fact, Unknown) and isinstance(other, Known) else fact


_REFUSED = ("pip-from-versions", "pip-no-distribution")
_BUILDS = ("build-command-failed", "ninja-failed", "nvcc-failed")


def target_of(log: Log, told: Target | None) -> Target:
    """Add to what was `told` what the log tells of it, where it is judged with a machine's facts."""
    given = told or Target()
    if not log.with_facts:
        return given
    asked = tuple(dict.fromkeys((*given.requirements, *_refused(log))))
    return Target(given.expect, asked, given.compiles or log.has(*COMPILING, *_BUILDS))


def _refused(log: Log) -> tuple[str, ...]:
    """List the requirements that pip found nothing for, as far as the rules can judge them."""
    asked = (event.captured["requirement"].rstrip(".,:;") for event in log.of(*_REFUSED))
    return tuple(text for text in dict.fromkeys(asked) if _is_judged(log, text))


def _is_judged(log: Log, text: str) -> bool:
    try:
        check_requirements((text,), log.matrix)
    except TargetError:
        return False
    return True
