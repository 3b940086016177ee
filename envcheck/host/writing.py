"""Write files so that a reader sees the old one or the whole new one."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write `text` beside the target and rename it there; raises OSError, and leaves nothing behind then."""
    beside = str(path.with_name(f".{path.name[:200]}.{os.getpid()}.{threading.get_ident()}"))
    try:
        with open(beside, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(beside, str(path))
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
