"""Hand on what came of a smoke test: on standard output, and to a file of placements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from envcheck.cli.exits import OF_VERDICT, STEP_FAILED, UserError
from envcheck.model.findings import INCOMPATIBLE

if TYPE_CHECKING:
    from envcheck.smoke.devices import Session


def printer_of(form: str, *, color: bool, verbose: bool, quiet: bool) -> Callable[[Session], None]:
    """Import what prints a session in a format, and return it."""
    if form == "text":
        from envcheck.render.smoke_text import print_smoke

        return lambda session: print_smoke(session, color=color, verbose=verbose, quiet=quiet)
    if form == "json":
        from envcheck.render.smoke_json import render_smoke_json

        return lambda session: click.echo(render_smoke_json(session))
    from envcheck.render.smoke_junit import render_smoke_junit

    return lambda session: click.echo(render_smoke_junit(session))


def save_placements(session: Session | None, path: str | None) -> None:
    """Write every operation and where it ran to a file, where one was asked for; before the test, that it can be."""
    if path is None:
        return
    from envcheck.render.smoke_text import placement_lines

    try:
        with open(path, "w", encoding="utf-8") as stream:  # noqa: PTH123 - pathlib for one open is a price
            stream.writelines(f"{line}\n" for line in (placement_lines(session) if session else ()))
    except OSError as error:
        raise UserError(f"--log-placement: cannot write {path}: {error.strerror}") from None


def exit_code(session: Session) -> int:
    """Return what the command exits with."""
    from envcheck.smoke.verdict import verdict_of

    verdict = verdict_of(session)
    return STEP_FAILED if verdict == INCOMPATIBLE else OF_VERDICT[verdict]
