"""`envcheck install --rollback` and `--resume`: what the journals of earlier installations allow."""

from __future__ import annotations

from pathlib import Path

import click

from envcheck.cli.exits import STEP_FAILED, UserError
from envcheck.cli.install_output import Manner, tell
from envcheck.cli.install_progress import InstallProgress
from envcheck.cli.install_session import USUAL, agree, held
from envcheck.host.file_changes import HeldError
from envcheck.host.steps import undisturbed
from envcheck.install.change import ChangeError, restore
from envcheck.install.journal import BEGUN, RESTORING, Journal
from envcheck.install.place import Place, place_of, places_in
from envcheck.install.run import UnsettledError, held_place, words_of
from envcheck.install.settle import newest
from envcheck.install.undo import UndoError, changed_since, undoable
from envcheck.render.install_json import Result

_SHOWN = 3  # files changed since, before the rest is counted


def resume(folder: str, manner: Manner) -> int:
    """Settle what did not come to its end, and say which environment is there."""
    place = _place(folder)
    progress = InstallProgress(0, quiet=manner.quiet)
    try:
        before = newest(place)
        was_settled = before is None or before.is_settled
        if manner.dry_run and before is not None and not was_settled:
            return _planned(place, f"The installation {before.identity} would be finished or undone.", manner)
        with held_place(place, progress):
            if was_settled and before is not None:
                _tell(before, f"Nothing was left to do: {place.folder} is {_said(before)}.", manner)
            else:
                tell(progress.result, manner)
    except HeldError as error:
        raise UserError(held(place, str(error))) from None
    except UnsettledError as error:
        return _failed(place, str(error), manner)
    except OSError as error:
        return _failed(place, f"nothing was changed: {words_of(error, place)}.", manner)
    return 0


def roll_back(folder: str, identity: str, manner: Manner) -> int:
    """Put the environment back as it was before the last installation."""
    place = _place(folder)
    try:
        journal = undoable(place, identity)
        lost = _lost(journal)
        if manner.dry_run:
            return _planned(place, _question(journal) + lost, manner)
        if manner.agreed and lost:
            click.echo(f"envcheck:{lost}", err=True)
        agree(_question(journal) + lost, manner)
        with held_place(place, InstallProgress(0, quiet=manner.quiet)), undisturbed():
            restore(undoable(place, identity), "asked for")
    except UndoError as error:
        raise UserError(str(error)) from None
    except HeldError as error:
        raise UserError(held(place, str(error))) from None
    except (ChangeError, UnsettledError, OSError) as error:
        refused = words_of(error, place) if isinstance(error, OSError) else str(error).rstrip(".")
        return _failed(place, f"not put back: {refused}. Once that is mended, --resume does it.", manner)
    _tell(journal, f"{place.folder} is {_said(journal)}.", manner)
    return 0


def _question(journal: Journal) -> str:
    folder = journal.place.folder
    if journal.last(BEGUN)["existed"]:
        return f"Put {folder} back as it was before {journal.identity}?"
    return f"Remove {folder}, which was not there before {journal.identity}?"


def _lost(journal: Journal) -> str:
    """Name what somebody put into the environment since; "" where there is nothing."""
    changed = changed_since(journal)
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    return f" Lost with that is what was changed since: {', '.join(changed[:_SHOWN])}{more}." if changed else ""


def _planned(place: Place, what: str, manner: Manner) -> int:
    """Say what would be done."""
    if manner.form == "text":
        click.echo(f"{what} Nothing was changed: --dry-run.")
    tell(Result("planned", str(place.folder), why=what), manner)
    return 0


def _tell(journal: Journal, words: str, manner: Manner) -> None:
    """Print words, or the document that says the same."""
    if manner.form == "text":
        click.echo(words)
        return
    place, outcome = journal.place, "installed" if journal.is_installed else "restored"
    why = "" if journal.is_installed else str(journal.last(RESTORING).get("why", ""))
    tell(Result(outcome, str(place.folder), journal.identity, why, str(place.log(journal.identity))), manner)


def _failed(place: Place, why: str, manner: Manner) -> int:
    click.echo(f"envcheck: {why}", err=True)
    tell(Result("unsettled", str(place.folder), why=why), manner)
    return STEP_FAILED


def _said(journal: Journal) -> str:
    if journal.is_installed:
        return "the new environment"
    return "the old environment, as it was before" if journal.place.folder.is_dir() else "not there, as before"


def _place(folder: str) -> Place:
    try:
        return _place_meant(folder)
    except OSError as error:
        raise UserError(f"nothing was changed: {error.filename or folder}: {error.strerror}.") from None


def _place_meant(folder: str) -> Place:
    """Return the folder named, or the only one here that was ever installed into."""
    if folder:
        place = place_of(folder)
        if not place.identities():
            raise UserError(f"nothing was ever installed into {place.folder} by envcheck install.")
        return place
    usual = (place_of(name) for name in USUAL)  # where one is a link, its journals lie beside what it leads to
    found = tuple(dict.fromkeys([*places_in(Path()), *(place for place in usual if place.identities())]))
    if len(found) != 1:
        names = ", ".join(str(place.folder) for place in found) or "none"
        raise UserError(f"name the environment with --env: envcheck has installed into {names} here.")
    return found[0]
