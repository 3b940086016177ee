"""Ask the Python to test what it is and holds, and get ready meanwhile: for `smoke` and `doctor --smoke`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from envcheck.cli.exits import UserError
from envcheck.cli.smoke_options import SmokeOptions
from envcheck.host.local import LocalHost
from envcheck.host.process import start_thread
from envcheck.model.facts import Known
from envcheck.probes.python import Choice, PythonSelection, choose_python

if TYPE_CHECKING:
    from envcheck.smoke.devices import Session

__all__ = ["SmokeOptions", "run_session"]


def run_session(wanted: SmokeOptions, while_it_runs: Callable[[], object] = lambda: None) -> Session:
    """Look at the machine, run every job, and return what came of it with user names and homes taken out.

    `while_it_runs` is called once a framework is being imported: what is needed later can be imported then.
    """
    host = LocalHost()
    asked = _Asked(host, wanted)
    from envcheck.cli import smoke_runs  # half of what this command costs: the Python answers meanwhile

    gpus = smoke_runs.gpus_of(host, wanted)
    inspected = smoke_runs.Inspected.by(host, *_told(asked.answer(), named=bool(wanted.python or wanted.env)))
    return smoke_runs.run(wanted, inspected, gpus, while_it_runs)


class _Asked:
    """A question to the Python to test, on its way."""

    def __init__(self, host: LocalHost, wanted: SmokeOptions) -> None:
        self._host, self._selection = host, PythonSelection(python=wanted.python, env=wanted.env)
        self._answers: list[Choice] = []
        self._thread = start_thread(self._ask)

    def _ask(self) -> None:
        self._answers.append(choose_python(self._host, self._selection))

    def answer(self) -> Choice:
        """Wait for the answer."""
        if self._thread is not None:
            self._thread.join()
        if not self._answers:  # its thread died: here the error is seen
            self._ask()
        return self._answers[0]


def _told(chosen: Choice, *, named: bool) -> tuple[str, dict[str, object]]:
    """Return the Python and its answer; UserError where there is none, or one that is too old."""
    told = dict(chosen.answer.value) if isinstance(chosen.answer, Known) else {}
    version = str(told.get("version", ""))
    if not isinstance(chosen.executable, Known) or not version:
        raise UserError(_why_none(chosen, named=named))
    if "distributions" not in told or tuple(map(int, version.split(".")[:2])) < (3, 6):
        raise UserError(f"Python {version} is too old: the smoke test runs on Python 3.6 and newer.")
    return chosen.executable.value, told


def _why_none(chosen: Choice, *, named: bool) -> str:
    tried = getattr(chosen.executable, "tried", ())
    detail = getattr(chosen.answer, "detail", "").rstrip(".")
    why = f"no Python to test was found{': ' if detail else ''}{detail}."
    looked = f" Looked at {', '.join(tried)}." if tried else ""
    return f"{why}{looked}{'' if named else ' Name one with --python or --env.'}"
