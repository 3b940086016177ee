"""Check the links of the built site: each page and anchor is there, nothing is loaded from another host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Hosts that pages may link to. A new one is added here by whoever links to it.
HOSTS = frozenset(
    {
        "arxiv.org",
        "cli.github.com",
        "keepachangelog.com",
        "modelcontextprotocol.io",
        "peps.python.org",
        "semver.org",
    }
)
FOREIGN = re.compile(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//")
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class _Page(HTMLParser):
    """What a built page links to, what it loads and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the links and anchors of a tag."""
        values = {name: value for name, value in attrs if value is not None}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        if tag in LOADING and LOADING[tag] in values:
            self.loaded.add(values[LOADING[tag]])


def problems(site: Path, sources: Path) -> list[str]:
    """Return a line for each page without a place in the navigation, dead link and foreign resource."""
    read = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = [line for path, page in read.items() for line in _of_page(path, page, read, site)]
    foreign = (
        path for path in site.rglob("*.css") if FOREIGN.search(path.read_text(encoding="utf-8"))
    )
    found += [f"{path.relative_to(site)}: loads from another host" for path in foreign]
    return found + list(_unlisted(read, site, sources))


def _of_page(path: Path, page: _Page, read: dict[Path, _Page], site: Path) -> Iterator[str]:
    """Yield the problems of one page."""
    name = path.relative_to(site)
    for address in sorted(page.links | page.loaded):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            if address in page.loaded:
                yield f"{name}: loads {address} from another host"
            if parts.scheme not in {"http", "https"} or parts.hostname not in HOSTS:
                yield f"{name}: {address}: host not listed in docs/built_links.py"
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if path.name == "404.html":
            continue
        if not target.is_file():
            yield f"{name}: {address}: no such page"
        elif target in read and unquote(parts.fragment) not in read[target].anchors:
            yield f"{name}: {address}: no such anchor"


def _unlisted(read: dict[Path, _Page], site: Path, sources: Path) -> Iterator[str]:
    """Yield each page that neither the navigation lists nor the page with the name of its folder."""
    for page in sorted(sources.rglob("*.md")):
        name = page.relative_to(sources)
        above = site / f"{name.parent}.html"
        listing = site / "index.html"
        if above in read:
            listing = above
        links = (unquote(urlsplit(link).path) for link in read[listing].links)
        listed = {(listing.parent / link).resolve() for link in links}
        if (site / name.with_suffix(".html")).resolve() not in listed:
            yield f"{name}: not in the navigation of mkdocs.yml"
