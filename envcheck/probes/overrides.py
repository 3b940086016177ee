"""Replace decisive facts by what ENVCHECK_* variables state, for tests and odd sites."""

from __future__ import annotations

import re
from typing import List, Mapping, Tuple

from envcheck.model.facts import Fact, Known, Source, Unknown
from envcheck.model.machine import Gpu
from envcheck.model.records import replaced
from envcheck.model.snapshot import Facts

DRIVER_RELEASE = "ENVCHECK_DRIVER_RELEASE"
CUDA_DRIVER_VERSION = "ENVCHECK_CUDA_DRIVER_VERSION"
COMPUTE_CAPABILITIES = "ENVCHECK_COMPUTE_CAPABILITIES"
GLIBC = "ENVCHECK_GLIBC"


def apply_overrides(facts: Facts, environment: Mapping[str, str]) -> Facts:
    """Return the facts with every override applied; a malformed one makes its fact unknown, never ignored.

    ENVCHECK_DRIVER_RELEASE=550.163.01, ENVCHECK_CUDA_DRIVER_VERSION=12.4, ENVCHECK_GLIBC=2.31,
    ENVCHECK_COMPUTE_CAPABILITIES=8.0,8.6
    """
    driver, host = facts.driver, facts.host
    if DRIVER_RELEASE in environment:
        driver = replaced(driver, release=_stated(environment, DRIVER_RELEASE, r"\d+\.\d+(\.\d+)?"))
    if CUDA_DRIVER_VERSION in environment:
        driver = replaced(driver, cuda_driver_version=_stated(environment, CUDA_DRIVER_VERSION, r"\d+\.\d+"))
    if GLIBC in environment:
        version = _stated(environment, GLIBC, r"\d+\.\d+")
        kind = Known("glibc", version.source) if isinstance(version, Known) else version
        host = replaced(host, libc_kind=kind, libc_version=version)
    facts = replaced(facts, driver=driver, host=host)
    if COMPUTE_CAPABILITIES in environment:
        facts = replaced(facts, gpus=_with_capabilities(facts.gpus, environment[COMPUTE_CAPABILITIES]))
    return facts


def _stated(environment: Mapping[str, str], name: str, pattern: str) -> Fact[str]:
    value = environment[name].strip()
    if not re.match(f"(?:{pattern})$", value):
        return Unknown("unparsable", f"{name}={value[:40]!r} is no version", (name,))
    return Known(value, Source("override", name, value))


def _with_capabilities(gpus: Fact[Tuple[Gpu, ...]], value: str) -> Fact[Tuple[Gpu, ...]]:
    # In order: the first capability is the first GPU's. More capabilities than GPUs add GPUs.
    stated = [part.strip() for part in value.split(",")]
    if not all(re.match(r"\d+\.\d$", capability) for capability in stated):
        detail = f"{COMPUTE_CAPABILITIES}={value[:40]!r} is no list of capabilities"
        return Unknown("unparsable", detail, (COMPUTE_CAPABILITIES,))
    source = Source("override", COMPUTE_CAPABILITIES, value)
    known: List[Gpu] = list(gpus.value) if isinstance(gpus, Known) else []
    known.extend(Gpu() for _ in range(len(stated) - len(known)))
    changed = [replaced(gpu, compute_capability=Known(stated[i], source)) for i, gpu in enumerate(known[: len(stated)])]
    return Known((*changed, *known[len(stated) :]), source)
