"""Fit the steps of a report to the environment that they mend, so that they run in a copy of it."""

from __future__ import annotations

from collections.abc import Iterable

from envcheck.actions import (
    AddPip,
    CreateEnvironment,
    InstallPackages,
    UpgradePip,
    changes_environment,
    environment_python,
)
from envcheck.diagnosis.repair import environment_steps
from envcheck.model import PIP, UV, Action, Environment, Report, Step, Trace, dataclass, replace

_LATER = Trace(reason="the doctor judges the environment after the last step")


@dataclass(frozen=True)
class FixTarget:
    """The environment that steps run in, as this machine names it."""

    folder: str
    reported: str  # its folder as the facts name it: ~/project/.venv
    python: str  # its interpreter as the facts name it
    platform: str
    installer: str = PIP  # or conda
    system: str = ""
    uv: str = ""  # stands in for pip, where the environment has none; "" where pip is there
    lacks_pip: bool = False
    programs: tuple[tuple[str, str], ...] = ()  # name in a step -> what to start here: conda -> micromamba
    is_consistent: bool = True  # no installed requirement is unmet before
    starter: str = ""  # starts the Python of a new environment here; "" as the report says

    @property
    def interpreter(self) -> str:
        """Return the path of its interpreter."""
        return environment_python(self.folder, self.installer, windows=self.system == "windows")


def fit_steps(report: Report, target: FixTarget) -> tuple[Step, ...]:
    """Return the steps of a report that run in the environment, in order, each with its own check."""
    actions = [_fit(step.action, target) for step in environment_steps(report)]
    if target.uv:
        actions = [item for item in actions if not isinstance(item, (AddPip, UpgradePip))]
    elif target.lacks_pip and _needs_pip(actions, target):
        actions.insert(0, AddPip(target.interpreter, "Bring pip into the environment."))
    last = max((place for place, item in enumerate(actions) if isinstance(item, InstallPackages)), default=-1)
    return tuple(
        Step(
            f"fix-{place + 1}",
            item,
            environment=target.folder,
            check=_LATER if isinstance(item, InstallPackages) and (place != last or not target.is_consistent) else None,
        )
        for place, item in enumerate(actions)
    )


def remaining_steps(report: Report) -> tuple[Step, ...]:
    """List the steps of a report that a person takes: those on the system, in a shell, and those without a command."""
    own = environment_steps(report)
    return tuple(step for step in report.steps if step not in own and not changes_environment(step.action))


def new_environment(report: Report) -> CreateEnvironment | None:
    """Return the action that makes a new environment in place of the one that was judged; None where none does."""
    actions = (step.action for step in environment_steps(report))
    return next((item for item in actions if isinstance(item, CreateEnvironment)), None)


def describe_environment(target: FixTarget, python: str) -> Environment:
    """Describe the environment for the checks before an installation."""
    return Environment(target.folder, UV if target.uv else target.installer, python, target.platform)


def _fit(action: Action, target: FixTarget) -> Action:
    action = action.moved(target.reported, target.folder)
    if getattr(action, "python", None) == target.python and not isinstance(action, CreateEnvironment):
        action = replace(action, python=target.interpreter)
    if isinstance(action, CreateEnvironment) and target.starter:
        action = replace(action, starter=(target.starter,))
    if target.uv and _is_by_pip(action):
        action = replace(action, installer=UV, program=target.uv)
    return action.with_programs(dict(target.programs))


def _needs_pip(actions: Iterable[Action], target: FixTarget) -> bool:
    own = [item for item in actions if getattr(item, "python", "") == target.interpreter]
    return any(map(_is_by_pip, own)) and not any(isinstance(item, AddPip) for item in own)


def _is_by_pip(action: Action) -> bool:
    """Tell whether pip does it: an installation, a removal, an environment for it."""
    return getattr(action, "installer", "") == PIP and bool(getattr(action, "python", ""))
