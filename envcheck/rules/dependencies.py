"""Rules about the packages a framework stands on: NumPy, protobuf, Keras and the rest of its pins."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.model.findings import ERROR, INCOMPATIBLE, Command, Evidence, Finding, Fix, Way
from envcheck.rules.context import Context
from envcheck.rules.fixes_python import install_steps
from envcheck.rules.framework_state import judged_frameworks
from envcheck.rules.known_problems import problem_findings
from envcheck.rules.pin_findings import pin_findings
from envcheck.rules.registry import rule

_USE_KERAS_3 = Way(
    "Use Keras 3.", (Command(("unset", "TF_USE_LEGACY_KERAS"), "user", "in the shell that starts the program"),)
)


@rule("numpy-abi", goal="any")
def numpy_abi(context: Context) -> Iterator[Finding]:
    """Find builds made for another NumPy major: they fail to import."""
    yield from _problems_then_pins(context, "numpy-abi", "numpy")


@rule("protobuf-conflict", goal="any")
def protobuf_conflict(context: Context) -> Iterator[Finding]:
    """Find a protobuf runtime that the generated code of a build does not work with."""
    yield from _problems_then_pins(context, "protobuf-conflict", "protobuf")


@rule("keras-mismatch", goal="any")
def keras_mismatch(context: Context) -> Iterator[Finding]:
    """Find a Keras that is not the one released for this TensorFlow."""
    yield from _problems_then_pins(context, "keras-mismatch", "keras")
    yield from _legacy_keras(context)


@rule("dependency-conflict", goal="any")
def dependency_conflict(context: Context) -> Iterator[Finding]:
    """Find any other requirement around the frameworks that is not met."""
    yield from _problems_then_pins(context, "dependency-conflict", "")


def _problems_then_pins(context: Context, finding_id: str, name: str) -> Iterator[Finding]:
    if not judged_frameworks(context):
        return
    known = list(problem_findings(context, finding_id))
    yield from known
    yield from pin_findings(context, finding_id, frozenset({name} if known and name else ()))


def _legacy_keras(context: Context) -> Iterator[Finding]:
    """Find TF_USE_LEGACY_KERAS set, which sends tf.keras to the package tf-keras, without that package."""
    if context.environment.get("TF_USE_LEGACY_KERAS", "").lower() not in ("1", "true"):
        return
    for framework in judged_frameworks(context):
        build = framework.main
        needs_keras = build.release.requires.get("keras", "") if build.release else ""
        if framework.name != "tensorflow" or not build.installed or "tf-keras" in context.distributions:
            continue
        if not needs_keras.startswith(">=3"):
            continue
        wanted = f"tf-keras=={'.'.join(build.version.split('.')[:2])}.*"
        yield Finding(
            "keras-mismatch",
            INCOMPATIBLE,
            ERROR,
            f"TF_USE_LEGACY_KERAS asks {build.label} for Keras 2, which is the package tf-keras; it is not installed.",
            (
                context.seen("host.environment", shown="TF_USE_LEGACY_KERAS is set"),
                Evidence(build.label, f"keras{needs_keras}", citation=build.citations[0]),
            ),
            Fix(f"Install {wanted}.", install_steps(context, wanted), (_USE_KERAS_3,)),
        )
