"""What a plan can count on of the facts it is given: a saved machine may hold anything in place of a version."""

from __future__ import annotations

import re

from envcheck.model.facts import Fact, Known, Unknown
from envcheck.model.machine import Facts
from envcheck.model.records import replaced

_MINOR = r"\d+\.\d+"
_PYTHON = rf"{_MINOR}[\w.+]*"  # 3.11.7, 3.15.0a1+
_NUMBERS = r"\d+(\.\d+)*"


def readable(facts: Facts) -> Facts:
    """Take what should be a version and is none for a fact that could not be read."""
    host, driver, gpus = facts.host, facts.driver, facts.gpus
    if isinstance(gpus, Known):
        named = tuple(replaced(gpu, compute_capability=_version(gpu.compute_capability, _MINOR)) for gpu in gpus.value)
        gpus = replaced(gpus, value=named)
    read: Facts = replaced(
        facts,
        host=replaced(host, libc_version=_version(host.libc_version, _NUMBERS)),
        driver=replaced(
            driver,
            release=_version(driver.release, _NUMBERS),
            cuda_driver_version=_version(driver.cuda_driver_version, _MINOR),
        ),
        python=replaced(facts.python, version=_version(facts.python.version, _PYTHON)),
        gpus=gpus,
    )
    return read


def _version(fact: Fact[str], pattern: str) -> Fact[str]:
    if not isinstance(fact, Known) or re.fullmatch(pattern, fact.value, re.ASCII):
        return fact
    return Unknown("unparsable", f"{fact.value[:40]!r} is no version")
