"""What the documentation shows of the Python API: mypy checks it strictly, and tests/test_api.py runs it."""

from __future__ import annotations

import envcheck


def advise(log: str, saved: str) -> tuple[str, ...]:
    """Return the verdict on a saved machine and on a log of it, each with its cause and the commands to type."""
    result: envcheck.DoctorResult = envcheck.doctor(
        snapshot=saved, expect="gpu", requirements=["torch>=2.4"]
    )
    found: envcheck.ExplainResult = envcheck.explain(log, snapshot=saved)
    causes: list[envcheck.Finding] = [item for item in result.findings if item.primary]
    steps: tuple[envcheck.Step, ...] = result.steps
    plan: envcheck.PlanResult = envcheck.plan(
        "torch", python="3.11", driver="550.54", gpu="RTX 4090"
    )
    rows: envcheck.MatrixResult = envcheck.matrix(python="3.11", framework="torch")
    same: bool = envcheck.diff(result.snapshot, envcheck.load_snapshot(saved)).ok
    commands: tuple[str, ...] = result.commands
    assert len(commands) <= len(steps)
    named = [
        found.cause.id if found.cause else "",
        rows.message,
        *(item.message for item in causes),
    ]
    return (result.verdict, plan.verdict, str(same), *named, *commands)


def rejected() -> None:
    """What a type checker rejects; a comment that is not needed is an error of its own."""
    envcheck.doctor(expect="tpu")  # type: ignore[arg-type]
    envcheck.plan("torch", driver=550)  # type: ignore[arg-type]
    envcheck.doctor().verdict = "compatible"  # type: ignore[misc]
    envcheck.explain("").report.findings.append  # type: ignore[attr-defined]  # noqa: B018
    envcheck.solve("torch")  # type: ignore[attr-defined]
