"""`envcheck smoke`: compute something small on each device and check the result."""

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Callable
from typing import Any

import click

from envcheck import api
from envcheck.cli import common
from envcheck.cli.common import OF_VERDICT, STEP_FAILED, UserError, option
from envcheck.frameworks import identities
from envcheck.model import INCOMPATIBLE
from envcheck.proof.smoke import SmokeRequest, Watch, run_session
from envcheck.render.formats import FORMATS
from envcheck.rules import Context
from envcheck.smoke.events import LEVELS
from envcheck.smoke.findings import verdict_of
from envcheck.smoke.session import DRIVER, Job, Run, Session


def _load_printer(printing: common.Printing) -> Callable[[Session], None]:
    """Import what prints a session in a format, and return it."""
    from envcheck.cli.report import print_answer  # imported while the framework is being imported
    from envcheck.render.smoke import describe_session, render_smoke_json

    def show(session: Session) -> None:
        print_answer(
            printing,
            functools.partial(describe_session, session),
            functools.partial(render_smoke_json, session),
        )

    return show


def _check_writable(path: str) -> None:
    """Raise UserError for a file that cannot be written, before minutes of work.

    What is in it stays.
    """
    is_new = not os.path.lexists(path)
    try:
        with open(path, "a", encoding="utf-8"):  # noqa: PTH123 - pathlib is slow to import
            pass
        if is_new:
            os.remove(path)  # noqa: PTH107
    except OSError as error:
        raise UserError(f"--log-placement: cannot write {path}: {error.strerror}") from None


def _save_placements(path: str, session: Session) -> None:
    """Write every operation of a session and where it ran to a file, whole or not at all."""
    from envcheck.render.smoke import placement_lines  # few runs ask for it

    common.write_file(path, "".join(f"{line}\n" for line in placement_lines(session)))


class SmokeProgress(Watch):
    """Reports how each run ended, and on a terminal which check runs; nothing with -q.

    Calls `while_it_runs` once a framework is being imported: what is needed later can be imported
    then.
    """

    def __init__(
        self, while_it_runs: Callable[[], object] = lambda: None, *, quiet: bool = False
    ) -> None:
        self._total, self._done, self._quiet = 0, 0, quiet
        self._waiting: list[Callable[[], object]] = [while_it_runs]
        self._line = common.ProgressLine(quiet=quiet)
        self._lock = threading.Lock()  # runs report from threads of their own

    def counts(self, total: int) -> None:
        """Keep how many runs there will be."""
        self._total = total

    def begins(self, job: Job, check: str, device: str) -> None:
        """Report that a check begins."""
        self._line.show(
            f"{job.title}: {job.device.rename_gpus(f'{check} {device}')}".rstrip(),
            self._done,
            self._total,
        )
        with self._lock:  # once: the process has just begun to import its framework
            work, self._waiting = self._waiting, []
        for each in work:
            each()

    def ends(self, run: Run) -> None:
        """Report how a run ended."""
        with self._lock:
            self._done += 1
        if not self._quiet:
            self._line.print(
                f"[{self._done}/{self._total}] {run.job.title}: {run.outcome} ({run.seconds:.1f} s)"
            )

    def close(self) -> None:
        """Remove what shows which check runs."""
        self._line.close()


def run_here(
    wanted: SmokeRequest, progress: SmokeProgress, context: Context | None = None
) -> Session:
    """Run a smoke test that a command asks for, and report how it goes on."""
    return run_session(
        wanted,
        lambda python: common.live_snapshot(python, ""),
        progress,
        asks=api.is_about_this_python(),
        context=context,
    )


EXAMPLE = "Example: envcheck smoke --env .venv --gpu 0 --level full"


def _check_finite(
    _context: click.Context, _option: click.Parameter, value: float | None
) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no limit.")
    return value


@click.command(epilog=EXAMPLE)
@common.inspected_python
@option(
    "--framework",
    "Test this framework [all that are installed].",
    "frameworks",
    multiple=True,
    type=click.Choice((*(item.name for item in identities() if item.smoke.has_test), DRIVER)),
)
@option(
    "--gpu N",
    "Test the GPU or MIG instance with this number of nvidia-smi or this UUID.",
    "gpus",
    multiple=True,
)
@option("--level", "How much to compute.", type=click.Choice(LEVELS), default="quick")
@common.expectation()
@option(
    "--timeout SECONDS",
    "Time limit of each process.",
    "seconds",
    type=click.FloatRange(1),
    callback=_check_finite,
)
@option(
    "--memory GIB",
    "Memory limit of each process [90 % of free].",
    type=click.FloatRange(0.01),
    callback=_check_finite,
)
@option("--log-placement FILE", "Write every operation and where it ran to FILE.", default=None)
@common.printing("text", "json", *FORMATS[1:])
def smoke(log_placement: str | None, printing: common.Printing, **asked: Any) -> int:
    """Compute on each GPU and the CPU, each in its own process.

    Report where it ran and whether it is correct.
    """
    if log_placement is not None:
        _check_writable(log_placement)
    progress = SmokeProgress(lambda: _load_printer(printing), quiet=printing.quiet)
    session = run_here(SmokeRequest(**asked), progress)
    if log_placement is not None:
        _save_placements(log_placement, session)
    _load_printer(printing)(session)
    verdict = verdict_of(session)
    return STEP_FAILED if verdict == INCOMPATIBLE else OF_VERDICT[verdict]
