"""The process that puts an environment back when the one that installs is killed."""

from __future__ import annotations

import sys

from envcheck.host.guarding import is_needed, undisturbed
from envcheck.install.journal import Journal
from envcheck.install.place import place_of
from envcheck.install.settle import settle


def main() -> None:
    """Listen until the installing process is gone; settle its journal where it was killed. Arguments: FOLDER ID."""
    with undisturbed():
        lines = sys.stdin.read().splitlines()
        if is_needed(lines):
            settle(Journal(place_of(sys.argv[2]), sys.argv[3]), "the installation was killed")
