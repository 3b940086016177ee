"""Write a file that the user named."""

from __future__ import annotations

from pathlib import Path

from envcheck.cli.exits import UserError


def write_file(path: str, text: str) -> None:
    """Write it whole or not at all; that it cannot be written is the user's to mend."""
    from envcheck.host.writing import write_output

    try:
        write_output(Path(path), text)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
