"""Start threads, also where the system grants no more of them."""

from __future__ import annotations

import threading
from typing import Callable, Optional


def start_thread(work: Callable[[], None]) -> Optional[threading.Thread]:
    """Do `work` in a thread of its own; right here, returning None, where this user may have no more threads."""
    thread = threading.Thread(target=work, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        work()
        return None
    return thread
