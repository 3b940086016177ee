"""Write files so that a reader sees the old one or the whole new one."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path


def write_output(path: Path, text: str) -> None:
    """Write where a user said: through a link to what it names, into a device or a pipe as it is; raises OSError."""
    if path.exists() and not path.is_file() and not path.is_dir():
        with open(str(path), "w", encoding="utf-8", newline="\n") as stream:  # /dev/null and /dev/stdout stay there
            stream.write(text)
    else:
        write_atomically(Path(os.path.realpath(str(path))), text)


def write_atomically(path: Path, text: str) -> None:
    """Write `text` beside the target and rename it there; raises OSError. Nothing is left behind, not by Ctrl-C either.

    A link in the target's place is replaced, never followed: the folder may be someone else's work.
    """
    beside = str(path.with_name(f".{path.name[:200]}.{os.getpid()}.{threading.get_ident()}"))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)  # of a process that had this number and was killed
    try:
        with open(beside, "x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        os.replace(beside, str(path))
    except BaseException:  # an interruption, too
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
