"""What is printed stays as it is kept, until a commit says why it changed."""

from __future__ import annotations

import difflib

import pytest

from tests.printed.write import FILES, FOLDER


@pytest.mark.parametrize("name", FILES)
def test_the_printed_commands_are_those_that_were_accepted(name: str) -> None:
    kept = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    difference = list(
        difflib.unified_diff(kept, list(FILES[name]()), "kept", "printed", lineterm="", n=2)
    )
    assert not difference, "python -m tests.printed.write keeps them anew:\n" + "\n".join(
        difference[:80]
    )
