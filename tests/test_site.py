"""What the build of the documentation checks and writes; the build itself runs in `.ci/run`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import built_links
from tests.readability import ROOT

yaml = pytest.importorskip("yaml")
HOME = '<a href="page.html#there">one</a><h1 id="top">Home</h1>'


def problems(tmp_path: Path, page: str, style: str = "") -> list[str]:
    site, sources = tmp_path / "site", tmp_path / "sources"
    for folder in (site, sources):
        folder.mkdir()
    (sources / "index.md").touch()
    (site / "index.html").write_text(f'<a href="index.html">Home</a>{HOME}', encoding="utf-8")
    (site / "page.html").write_text(f'<h1 id="there">Page</h1>{page}', encoding="utf-8")
    (site / "site.css").write_text(style, encoding="utf-8")
    return built_links.problems(site, sources)


@pytest.mark.parametrize(
    ("page", "problem"),
    {
        '<a href="gone.html">': "page.html: gone.html: no such page",
        '<a href="index.html#gone">': "page.html: index.html#gone: no such anchor",
        '<a href="#gone">': "page.html: #gone: no such anchor",
        '<img src="https://arxiv.org/a.png">': "page.html: loads https://arxiv.org/a.png from another host",
        '<a href="https://example.test/">': "page.html: https://example.test/: host not listed in docs/built_links.py",
        '<a href="javascript:alert()">': "page.html: javascript:alert(): host not listed in docs/built_links.py",
    }.items(),
)
def test_a_wrong_link_is_named(page: str, problem: str, tmp_path: Path) -> None:
    assert problems(tmp_path, page) == [problem]


def test_right_links_pass(tmp_path: Path) -> None:
    assert (
        problems(
            tmp_path,
            '<a href="index.html#top"><a href="https://arxiv.org/abs/1">',
            "a { color: red; }",
        )
        == []
    )


def test_a_style_that_loads_from_another_host_is_named(tmp_path: Path) -> None:
    assert problems(tmp_path, "", "@import url('https://fonts.test/a.css');") == [
        "site.css: loads from another host"
    ]


def test_a_page_outside_the_navigation_is_named(tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/lost.md").touch()
    (tmp_path / "site").mkdir()
    (tmp_path / "site/index.html").touch()
    found = built_links.problems(tmp_path / "site", tmp_path / "sources")
    assert found == ["lost.md: not in the navigation of mkdocs.yml"]


def test_links_of_the_readme_lead_to_files_of_the_repository() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = [re.sub("#.*", "", link) for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text)]
    assert linked
    assert [link for link in linked if link and not (ROOT / link).exists()] == []


def test_the_first_sentence_of_a_page_is_prose() -> None:
    from docs.build import first_sentence

    page = (
        "# Title\n\n```sh\nrun\n```\n\nIt reads [the matrix](matrix.md) of\nreleases. Then more.\n"
    )
    assert first_sentence(page) == "It reads the matrix of releases."
