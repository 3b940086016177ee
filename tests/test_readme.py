"""The links of README.md lead somewhere, in the repository and on the package page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatch_build import ReadmeHook

ROOT = Path(__file__).parent.parent


def package_page(links: str) -> str:
    metadata: dict[str, Any] = {}
    ReadmeHook(str(ROOT), {"links": links}).update(metadata)
    assert metadata["readme"]["content-type"] == "text/markdown"
    return str(metadata["readme"]["text"])


def linked(text: str) -> list[str]:
    return re.findall(r"\]\(([^)#]+)", text)


def test_every_link_is_a_file_of_the_repository() -> None:
    assert [name for name in linked(package_page("")) if not (ROOT / name).exists()] == []


def test_links_of_the_package_page_begin_with_the_address_of_the_repository() -> None:
    base = "https://host.example/owner/envcheck/blob/main/"
    there = linked(package_page(base))
    assert there
    assert [name for name in there if not name.startswith(base)] == []
    assert f"]({base}docs/reference/install.md#fix-what-the-doctor-finds)" in package_page(base)
