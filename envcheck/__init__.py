r"""Say whether GPU deep learning works on this machine, what is wrong, why, and what to type.

    import envcheck

    result = envcheck.doctor(env=".venv", expect="gpu")
    print(result.verdict, *result.findings, sep="\n")

Every function answers with a frozen value, or raises `UserError` with one sentence. Nothing but
`fix(dry=False)` changes the machine.
"""

import sys
from types import ModuleType

# type checkers treat it as true; importing typing would double the time of this import
TYPE_CHECKING = False
if TYPE_CHECKING:
    from envcheck.api import (
        CheckResult,
        DiffResult,
        DoctorResult,
        EnvironmentProblem,
        ExplainResult,
        FixResult,
        GpusResult,
        MatrixResult,
        PlanResult,
        Result,
        RuleResult,
        SmokeResult,
        check,
        diff,
        doctor,
        explain,
        fix,
        gpus,
        load_snapshot,
        matrix,
        plan,
        require,
        rule,
        smoke,
        snapshot,
    )
    from envcheck.model import Finding, Plan, Remedy, Report, Snapshot, Step, UserError

__version__ = "0.1.0"
DISTRIBUTION = "envcheck-gpu"  # as pyproject.toml names it
__all__ = [
    "CheckResult",
    "DiffResult",
    "DoctorResult",
    "EnvironmentProblem",
    "ExplainResult",
    "Finding",
    "FixResult",
    "GpusResult",
    "MatrixResult",
    "Plan",
    "PlanResult",
    "Remedy",
    "Report",
    "Result",
    "RuleResult",
    "SmokeResult",
    "Snapshot",
    "Step",
    "UserError",
    "check",
    "diff",
    "doctor",
    "explain",
    "fix",
    "gpus",
    "load_snapshot",
    "matrix",
    "plan",
    "require",
    "rule",
    "smoke",
    "snapshot",
]


# they may read this machine
_ASKING = ("check", "diff", "doctor", "explain", "fix", "plan", "require", "smoke", "snapshot")


class _Package(ModuleType):
    """A package whose functions keep their names beside a subpackage of the same name.

    `envcheck.plan` is one.
    """

    def __getattr__(self, name: str) -> object:
        """Import the API when a name of it is first used: the command line starts without it."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from envcheck import api

        if name in _ASKING:
            return api.as_program(getattr(api, name))
        return getattr(api, name)

    def __dir__(self) -> "list[str]":
        """List the API alone: what Tab completes."""
        return [*__all__, "__version__"]

    def __setattr__(self, name: str, value: object) -> None:
        if name not in __all__:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
