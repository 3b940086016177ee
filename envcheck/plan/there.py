"""The frameworks of an environment that is there: which are well, what they pin, and how to ask for them unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement

from envcheck.model.facts import Known
from envcheck.model.findings import ERROR
from envcheck.model.records import dataclass, replaced
from envcheck.plan.judge import Judge
from envcheck.plan.requests import Request
from envcheck.rules import Context, Target, evaluate
from envcheck.rules.builds import Build
from envcheck.rules.cuda_wheel_names import bare_wheel
from envcheck.rules.fixes_python import is_requirement
from envcheck.rules.framework_state import judged_frameworks
from envcheck.rules.known_problems import name_of
from envcheck.rules.pins import requirements_of
from envcheck.rules.requirement import canonical_name, read_requirement
from envcheck.rules.targets import wanted_releases


@dataclass(frozen=True)
class Standing:
    """One framework that is installed."""

    framework: str
    distribution: str
    version: str  # with its label: 2.13.0+cpu
    wrong: str  # what the rules say against it; "" where it is well
    text: str  # asks for exactly what is there: tensorflow[and-cuda]==2.20.0; "" where nothing plain does
    pins: tuple[str, ...]  # what it needs of others, as its own metadata tells

    @property
    def label(self) -> str:
        """Name it as people do."""
        return f"{self.distribution} {self.version}"


def alone(context: Context, framework: str) -> Context:
    """Return the environment as it would be with no other framework in it."""
    python = context.facts.python
    if isinstance(python.frameworks, Known):
        builds = tuple(item for item in python.frameworks.value if item.framework == framework)
        python = replaced(python, frameworks=Known(builds, python.frameworks.source))
    if isinstance(python.distributions, Known):
        found = python.distributions
        kept = tuple(item for item in found.value if context.matrix.framework_of(item.name) in (None, framework))
        python = replaced(python, distributions=Known(kept, found.source))
    asked = tuple(item.text for item in wanted_releases(context) if item.framework == framework)
    return Context(replaced(context.facts, python=python), context.matrix, Target(context.goal, asked))


def standing(context: Context, judge: Judge) -> tuple[Standing, ...]:
    """List the frameworks of an environment; what is wrong with the machine itself is held against none."""
    own = {(item.id, item.message) for item in judge.own_findings()}
    return tuple(_standing(context, item.main, own) for item in judged_frameworks(context))


def satisfies(context: Context, there: Standing, request: Request) -> bool:
    """Tell whether a framework that is there is what a request asks for, with all that its extras bring."""
    same = context.matrix.module_of(request.distribution) == context.matrix.module_of(there.distribution)
    if request.framework != there.framework or not same or request.distribution not in _names(there):
        return False
    owners = [context.distributions[name] for name in _of_framework(context, there.framework)]
    lines = [line for owner in owners for line in owner.requires]
    needed = [line for line in lines if any(_is_of_extra(line, item) for item in request.extras)]
    has_extras = all(_name(line) in context.distributions for line in needed)
    asked = read_requirement(request.distribution + request.specifier)
    return has_extras and asked.admits(there.version, prereleases=True) and all(_is_beside(context, request))


def _is_beside(context: Context, request: Request) -> Iterator[bool]:
    """Tell of each thing asked for beside a framework whether it is there."""
    for asked in map(read_requirement, request.beside):
        found = context.distributions.get(canonical_name(asked.name))
        yield found is not None and asked.admits(found.version, prereleases=True)


def _names(there: Standing) -> tuple[str, str]:
    """List what may be asked for: its own name, or that of the framework, which leaves the build open."""
    return (there.distribution, there.framework)


def _standing(context: Context, build: Build, own: set[tuple[str, str]]) -> Standing:
    found = evaluate(alone(context, build.framework)).findings
    wrong = [item.message for item in found if item.severity == ERROR and (item.id, item.message) not in own]
    whole = context.distributions.get(build.framework)  # jax, whose compiled half is jaxlib
    name = whole.name if whole else build.distribution
    version = whole.version if whole else build.version + (f"+{build.local}" if build.local else "")
    extras = sorted(_extras(context, build.framework, name, version))
    text = name + (f"[{','.join(extras)}]" if extras else "") + f"=={version}"
    plain = text if is_requirement(text) else ""
    pins = tuple(dict.fromkeys(_pins(context, build.framework)))
    return Standing(build.framework, name, version, "".join(wrong[:1]), plain, pins)


def _extras(context: Context, framework: str, name: str, version: str) -> Iterator[str]:
    """Yield the extras that brought the CUDA libraries which are there."""
    there, matrix = context.distributions, context.matrix
    row = matrix.release(framework, version.partition("+")[0], context.platform, name)
    if row is not None and row.gpu_extra and row.distribution == name:
        plugins = [extra for extra in row.extras if f"jax-{extra}-plugin" in there]
        has_wheels = any(name_of(text) in there for text in row.cuda_wheels if name_of(text).startswith("nvidia-"))
        yield from plugins or ([row.gpu_extra] if has_wheels else [])


def _pins(context: Context, framework: str) -> Iterator[str]:
    for name in _of_framework(context, framework):
        for needed, specifier, _ in requirements_of(context, context.distributions[name]):
            text = needed + ("".join(specifier.split()) or (">=0" if bare_wheel(needed)[1] else ""))
            if text != needed and _is_readable(text):
                yield text


def _is_readable(text: str) -> bool:
    """Tell whether others can read a requirement: old metadata holds what no longer is one."""
    try:
        Requirement(text)
    except InvalidRequirement:
        return False
    return True


def _of_framework(context: Context, framework: str) -> list[str]:
    return [name for name in context.distributions if context.matrix.framework_of(name) == framework]


def _name(line: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", line.strip())
    return canonical_name(found.group()) if found else ""


def _is_of_extra(line: str, extra: str) -> bool:
    _, _, marker = line.partition(";")
    words = marker.replace("'", '"').replace(" ", "").replace("_", "-")
    return f'extra=="{extra}"' in words
