"""Find a program that came with this installation, or lies on PATH."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Optional


def installed_program(name: str) -> Optional[str]:
    """Return the path of a program beside this Python, where a dependency's scripts lie, else of the one on PATH."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), name)
    return beside if os.access(beside, os.X_OK) else shutil.which(name)
