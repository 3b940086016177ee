"""Write a file that the user named, and a command for who sits here."""

from __future__ import annotations

from pathlib import Path

from envcheck.cli.exits import UserError


def typed_here(argv: tuple[str, ...]) -> str:
    """Quote a command for the shells of this machine."""
    import os

    from envcheck.render.inert import shell_line

    return shell_line(argv, "windows" if os.name == "nt" else "")


def write_file(path: str, text: str) -> None:
    """Write it whole or not at all; that it cannot be written is the user's to mend."""
    from envcheck.host.file_changes import write_output

    try:
        write_output(Path(path), text)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
