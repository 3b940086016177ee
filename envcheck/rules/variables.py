"""Judge environment variables.

Those that end an import or a first use, hide the GPU, change results, or rescue.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from envcheck.frameworks import framework_names, framework_of
from envcheck.host.known_variables import HIDDEN, VariableEffect, load_known_variables
from envcheck.model import (
    COMPATIBLE,
    ERROR,
    IMPORT,
    INCOMPATIBLE,
    NOTE,
    USE,
    WARNING,
    About,
    Distribution,
    Evidence,
    Finding,
    Fix,
    major_minor,
    replace,
)
from envcheck.model.fixes import ChangeVariable, InstallRequirements
from envcheck.model.versions import matches
from envcheck.rules.catalogue import catalogue
from envcheck.rules.context import Context, once, rule

_ID, _HIDDEN_GPUS = "environment-variable", "visible-devices-hidden"
_INTERPRETER = "python"
_READ_AT_IMPORT = ("TORCH_LOGS",)  # of the variables that hold words; others, at the first use


@once
def _set_effects(context: Context) -> tuple[tuple[VariableEffect, str, str, Distribution], ...]:
    """List the rows of the table that hold here: with the variable, its value and what reads it."""
    found = []
    for row in load_known_variables().effects:
        for name in filter(context.environment.__contains__, row.names):
            value, reader = context.environment[name], _find_reader(context, row)
            if reader and value != HIDDEN and _has_effect(row, value):
                found.append((row, name, value, reader))
    return tuple(found)


def _find_reader(context: Context, row: VariableEffect) -> Distribution | None:
    """Return the release that reads a variable.

    Return None where it is not there, or of no release of the row.
    """
    if row.package == _INTERPRETER:
        version = context.python.version.value or ""
        reader = Distribution("Python", version) if version else None
    else:
        reader = context.distributions.get(row.package)
    if reader is None or (row.releases and not matches(reader.version, row.releases)):
        return None
    if row.needs in context.distributions:
        return None
    is_there = set(row.frameworks).intersection(context.installed_frameworks)
    return reader if is_there or not row.frameworks else None


def _has_effect(row: VariableEffect, value: str) -> bool:
    if row.values:
        return re.fullmatch(row.values, value) is not None
    return re.fullmatch(row.accepts, value) is None


@rule(_ID, goal="any")
def environment_variable(context: Context) -> Iterator[Finding]:
    """Find variables whose values end an import or a first use, or change results."""
    for row, name, value, reader in _set_effects(context):
        if row.effect in ("import", "use"):
            yield _describe_end(context, row, name, value, reader)
        elif row.effect == "results":
            yield context.report(
                f"{name}={value!r} changes results: {row.grammar}.",
                *_seen(context, row, name),
                verdict=COMPATIBLE,
                severity=NOTE,
            )
    for word in context.python.unknown_words.value or ():
        framework = framework_of(word.package)
        is_at_import = word.variable in _READ_AT_IMPORT
        ended = f"`import {framework}`" if is_at_import else f"the first use of {framework}"
        label = f"{word.package} {word.release}"
        yield context.report(
            f"{word.variable} names {word.word}, which {label} does not have: it ends {ended}.",
            context.show_variable(word.variable),
            Evidence("python.unknown_words", f"{word.file}: no {word.word}"),
            cure=ChangeVariable(word.variable),
            about=About(framework, word.package),
            stops=IMPORT if is_at_import else USE,
        )


def _describe_end(
    context: Context, row: VariableEffect, name: str, value: str, reader: Distribution
) -> Finding:
    """Say that a value ends the start of Python, an import or a first use.

    A warning where no framework is.
    """
    frameworks = row.frameworks or tuple(filter(None, (framework_of(row.package),)))
    dead = [item for item in frameworks if item in context.installed_frameworks]
    subject = dead[0] if dead else row.package
    ended = f"`import {subject.replace('-', '_')}`"
    if row.effect == "use":
        ended = f"the first use of {subject}"
    if row.package == _INTERPRETER:
        ended = "the start of Python"
    label = reader.label
    message = f"{name}={value!r} ends {ended} ({row.fails}): {label} takes {row.grammar}."
    cure: Fix = ChangeVariable(name, row.grammar)
    if row.needs and dead:
        items = context.distributions.values()
        host = next(item for item in items if framework_of(item.name) == dead[0])
        cure = InstallRequirements((f"{row.needs}=={major_minor(host.version)}.*",))
    is_error = (bool(dead) or row.package == _INTERPRETER) and not row.may_work
    return context.report(
        message,
        *_seen(context, row, name),
        severity=ERROR if is_error else WARNING,
        cure=cure,
        about=About((frameworks or ("",))[0], "" if row.package == _INTERPRETER else row.package),
        stops=IMPORT if row.effect == "import" else USE,
    )


@rule(_ID, severity=WARNING, goal="any")
def missing_choice(context: Context) -> Iterator[Finding]:
    """Find a package that computes with a missing framework, where it could take one that is there.

    Keras 3 takes TensorFlow unless something names JAX.
    """
    for row in load_known_variables().effects:
        reader, name = context.distributions.get(row.package), row.names[0]
        if reader is None or not row.default or not matches(reader.version, row.releases):
            continue
        stated = context.environment.get(name, "")
        value = stated or row.default
        accepted = row.accepts.split("|")
        fitting = [each for each in context.installed_frameworks if each in accepted]
        if fitting and value in framework_names() and value not in fitting:
            yield context.report(
                f"{reader.label} imports {value}, which is not installed, unless {name} or its"
                f" configuration chooses {fitting[0]}.",
                *_seen(context, row, name),
                cure=ChangeVariable(name, row.grammar, fitting[0]),
                about=About(distribution=row.package),
                stops=IMPORT,
            )


def _seen(context: Context, row: VariableEffect, name: str) -> tuple[Evidence, ...]:
    grammar = Evidence(f"{row.package}: {name}", row.grammar, citation=row.citation)
    return (context.show_variable(name), grammar)


_PLATFORMS = ("JAX_PLATFORMS", "JAX_PLATFORM_NAME")
_KNOWN_PLATFORMS = {"cpu", "cuda", "gpu", "rocm", "tpu"}
_GPU_PLATFORMS = {"cuda", "gpu"}


@rule(_ID, _HIDDEN_GPUS, goal="any")
def jax_platforms(context: Context) -> Iterator[Finding]:
    """Find a JAX that must use a missing platform, or only the CPU beside a GPU."""
    jax = context.distributions.get("jax")
    for name in _PLATFORMS if jax else ():
        value = context.environment.get(name, "")
        if not value or value == HIDDEN:
            continue
        names = value.split(",")
        why = _find_missing_platform(context, names)
        if why:
            yield context.report(
                f"{name}={value!r} ends the first use of JAX: {why}.",
                context.show_variable(name),
                cure=ChangeVariable(
                    name, "names of platforms such as cuda,cpu, without blanks", "cpu"
                ),
                about=About("jax", "jax"),
                stops=USE,
            )
        elif context.goal == "gpu" and "cpu" in names and not _GPU_PLATFORMS.intersection(names):
            yield context.report(
                f"{name}={value!r} keeps JAX from this machine's GPU: it computes on the CPU.",
                context.show_variable(name),
                "gpus",
                finding_id=_HIDDEN_GPUS,
                cure=ChangeVariable(name),
                about=About("jax"),
            )


def _find_missing_platform(context: Context, names: Sequence[str]) -> str:
    """Say why JAX starts on none of these platforms; "" where it does, or nobody knows."""
    plugins = [item for item in context.distributions if re.match(r"jax-(?!cuda\d)|.*-pjrt", item)]
    unknown = [item for item in names if item not in _KNOWN_PLATFORMS]
    if unknown and not plugins:
        return f"it knows no platform {unknown[0]!r}"
    if "tpu" in names and "libtpu" not in context.distributions:
        return "libtpu is not installed"
    if _GPU_PLATFORMS.issuperset(names) and context.lacks_gpu:
        return "this machine has no NVIDIA GPU"
    return ""


def weigh_rescues(context: Context, findings: Sequence[Finding]) -> list[Finding]:
    """Take its force from what a set variable is known to rescue."""
    weighed = list(findings)
    for row, name, value, _ in _set_effects(context):
        if row.effect != "rescue":
            continue
        for place, item in enumerate(weighed):
            is_error = item.severity == ERROR and item.verdict == INCOMPATIBLE
            if is_error and catalogue()[item.id].is_rescued:
                weighed[place] = replace(
                    item,
                    severity=WARNING,
                    message=f"{item.message} It works as long as {name}={value} is set, slowly.",
                    evidence=(*item.evidence, *_seen(context, row, name)),
                )
    return weighed
