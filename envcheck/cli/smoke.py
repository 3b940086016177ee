"""`envcheck smoke`: compute something small on each device and see whether it is right."""

from __future__ import annotations

import math

import click

from envcheck.cli import options
from envcheck.cli.smoke_options import FORMATS, SmokeOptions
from envcheck.smoke.protocol import FRAMEWORKS, LEVELS

EXAMPLE = "Example: envcheck smoke --env .venv --gpu 0 --level full"


def _finite(_context: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no limit.")
    return value


@click.command(epilog=EXAMPLE)
@options.inspected_python
@click.option(
    "--framework", "frameworks", multiple=True, type=click.Choice(FRAMEWORKS), help="Test this one [what is there]."
)
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    metavar="N",
    help="Test this GPU, as nvidia-smi numbers it, or by UUID, MIG-... too.",
)
@click.option("--level", type=click.Choice(LEVELS), default="quick", help="How much to compute.")
@click.option("--expect", type=click.Choice(["auto", "gpu", "cpu"]), default="auto", help="What must work.")
@click.option(
    "--timeout",
    "seconds",
    type=click.FloatRange(1),
    callback=_finite,
    metavar="SECONDS",
    help="Time limit of each process.",
)
@click.option(
    "--memory",
    type=click.FloatRange(0.01),
    callback=_finite,
    metavar="GIB",
    help="Memory limit of each process [90 % of free].",
)
@click.option("--log-placement", metavar="FILE", help="Write every operation and where it ran to FILE.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="How to print the result.")
@options.color
@options.verbosity
def smoke(
    python: str,
    env: str,
    frameworks: tuple[str, ...],
    gpus: tuple[str, ...],
    level: str,
    expect: str,
    seconds: float | None,
    memory: float | None,
    log_placement: str | None,
    form: str,
    color_mode: str,
    verbose: bool,
    quiet: bool,
) -> int:
    """Compute on each GPU and the CPU, each in a process of its own, and say where it ran and whether it is right."""
    from envcheck.cli.smoke_printing import exit_code, printer_of, save_placements
    from envcheck.cli.smoke_session import run_session

    style = {"color": options.wants_color(color_mode), "verbose": verbose, "quiet": quiet}
    wanted = SmokeOptions(python, env, frameworks, gpus, level, expect, seconds, memory, quiet)
    save_placements(None, log_placement)  # a path that cannot be written is told before minutes of work, not after
    session = run_session(wanted, lambda: printer_of(form, **style))
    save_placements(session, log_placement)
    printer_of(form, **style)(session)
    return exit_code(session)
