"""What the documentation shows is what envcheck prints."""

from __future__ import annotations

import difflib
import re
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.documented_outputs import (
    COUNTED,
    PAGES,
    ROOT,
    SCREENS,
    Blocks,
    Page,
    UnrunnableError,
    count_screens,
    draw_pictures,
    matches,
)

SHOWING = [
    page
    for page in PAGES
    if "\n$ envcheck" in page.read_text(encoding="utf-8").replace("\n ", "\n")
]


@cache
def blocks_of(page: Path) -> Blocks:
    """Run what a page shows, once."""
    with tempfile.TemporaryDirectory() as folder:
        return list(Page(page, Path(folder)).blocks())


@pytest.mark.needs("posix")
@pytest.mark.parametrize("page", SHOWING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_shown_output_is_what_is_printed(page: Path) -> None:
    for _, shown, printed in blocks_of(page):
        difference = difflib.unified_diff(
            shown.splitlines(), printed.splitlines(), "shown", "printed", lineterm=""
        )
        assert matches(shown, printed), "run: python -m tests.documented_outputs\n" + "\n".join(
            difference
        )


@pytest.mark.needs("posix")
def test_the_lines_of_each_screen_are_counted(tmp_path: Path) -> None:
    found = COUNTED.search(SCREENS.read_text(encoding="utf-8"))
    assert found
    counted = count_screens(SCREENS, tmp_path, blocks_of(SCREENS))
    assert found[0] == counted, "run: python -m tests.documented_outputs"
    counts = dict(re.findall(r"^\| (.*?) \| (\d+|varies) ", found[0], re.MULTILINE))
    assert len(counts) == 13
    assert int(counts["One problem"]) <= 20


@pytest.mark.needs("posix")
def test_the_pictures_of_the_home_page_show_what_is_printed(tmp_path: Path) -> None:
    for name, picture in draw_pictures(tmp_path).items():
        kept = (ROOT / "docs/assets" / name).read_text(encoding="utf-8")
        assert kept == picture, "run: python -m tests.documented_outputs"
        assert "INCOMPATIBLE" in kept
        assert "\x1b" not in kept


def test_a_line_of_dots_stands_for_any_lines() -> None:
    assert matches("$ envcheck\na\n...\nd\n", "$ envcheck\na\nb\nc\nd\n")
    assert matches("$ envcheck\na\n...\nb\n", "$ envcheck\na\nb\n")
    assert not matches("$ envcheck\na\n...\nd\n", "$ envcheck\na\nb\nc\n")


@pytest.mark.needs("posix")
@pytest.mark.parametrize(
    ("block", "named"),
    {
        "```console\n$ envcheck doctor\n```\n": "shown with machine=NAME",
        "<!-- shown with machine=no-gpu-auto -->\n```console\n$ pip list\n$ envcheck doctor\n```\n": "pip is not run",
    }.items(),
)
def test_a_block_that_no_test_can_run_is_refused(block: str, named: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(block, encoding="utf-8")
    (tmp_path / "work").mkdir()
    with pytest.raises(UnrunnableError, match=named):
        list(Page(page, tmp_path / "work").blocks())


@pytest.mark.needs("posix")
def test_blocks_of_a_page_share_a_folder_and_exit_codes_are_shown(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```toml\n[tool.envcheck]\nrequires = ['tensorflow']\n```\n"
        "<!-- shown with machine=no-gpu-auto pyproject.toml=above -->\n"
        "```console\n$ envcheck check -q\n...\n$ echo $?\n1\n```\n"
        "  ```console\n  $ envcheck snapshot > a.json && envcheck doctor --snapshot a.json -q\n  ...\n  ```\n",
        encoding="utf-8",
    )
    (tmp_path / "work").mkdir()
    assert [
        matches(shown, printed) for _, shown, printed in Page(page, tmp_path / "work").blocks()
    ] == [True, True]
