"""Build the site into build/site: `python -m docs.build`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from docs import built_links, reference_pages

ROOT = Path(__file__).parent.parent
SOURCE, PAGES, SITE = ROOT / "docs", ROOT / "build/docs", ROOT / "build/site"
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)\s#]+)")
UNSHOWN = r"\A---\n.*?\n---\n+|<!--.*?-->\n"

# Where files outside docs/ are published when a page links to them: links are right in the
# repository and on the site.
PUBLISHED = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "bench/README.md": "explanation/measurements.md",
    "envcheck/schemas/": "reference/schemas/",
    "data/README.md": "reference/where-facts-stand.md",
    "data/": "reference/data/",
}


def published(path: str) -> str:
    """Return where a file of the repository lies on the site, relative to its root."""
    if path.startswith("docs/"):
        return path[len("docs/") :]
    for source, target in PUBLISHED.items():
        if path == source or (source.endswith("/") and path.startswith(source)):
            return target + path[len(source) :]
    raise SystemExit(f"docs/build.py does not publish {path}, which a page links to")


def copy_page(path: str) -> None:
    """Write a page of the repository to where it is published, with its links rewritten."""
    target = PAGES / published(path)
    target.parent.mkdir(parents=True, exist_ok=True)

    def rewritten(match: re.Match[str]) -> str:
        linked = os.path.normpath(Path(path).parent / match[1])
        goal = PAGES / published(linked)
        if not linked.startswith("docs/") and not goal.exists():
            copy_page(linked) if linked.endswith(".md") else copy_file(linked)
        return Path(os.path.relpath(goal, target.parent)).as_posix()

    target.touch()
    text = LINK.sub(rewritten, (ROOT / path).read_text(encoding="utf-8"))
    # what only contributors look for would bury the guides in the site's search
    matter = "" if path.startswith("docs/") else reference_pages.NOT_SEARCHED
    target.write_text(matter + text, encoding="utf-8")


def copy_file(path: str) -> None:
    """Copy a file of the repository to where it is published."""
    target = PAGES / published(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / path, target)


def write_texts() -> None:
    """Write the pages as Markdown too, with llms.txt, which lists them, and llms-full.txt, which holds them."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    index, whole = f"# {settings['site_name']}\n\n> {settings['site_description']}\n", ""
    for entry in settings["nav"]:
        ((section, pages),) = entry.items()
        index += f"\n## {section}\n\n"
        for title, name in listed([entry] if isinstance(pages, str) else pages):
            text = re.sub(UNSHOWN, "", (PAGES / name).read_text(encoding="utf-8"), flags=re.DOTALL)
            (SITE / name).write_text(text, encoding="utf-8")
            index += f"- [{title}]({name}): {first_sentence(text)}\n"
            whole += f"{text}\n"
    (SITE / "llms.txt").write_text(index, encoding="utf-8")
    (SITE / "llms-full.txt").write_text(whole, encoding="utf-8")


def install_search() -> None:
    """Put the project's own search where the pages start the one of Zensical."""
    (worker,) = (SITE / "assets/javascripts/workers").glob("search.*.js")
    shutil.move(SITE / "assets/search_worker.js", worker)


def listed(entries: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the title and the name of each page of the navigation, whatever group it is in."""
    for entry in entries:
        for title, value in entry.items():
            if isinstance(value, str):
                yield title, value
            else:
                yield from listed(value)


def first_sentence(text: str) -> str:
    """Return the first sentence of a page, without its links."""
    paragraph = next(part for part in text.split("\n\n") if re.match(r"[A-Z]|`(?!`)|\*\*|\[", part))
    flat = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    return re.split(r"(?<=[.?])\s", flat)[0]


def main() -> int:
    """Collect the pages, build the site strictly and check its links; return the exit status."""
    for folder in (PAGES, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    for file in sorted(
        p for p in SOURCE.rglob("*") if p.is_file() and p.suffix not in {".py", ".pyc"}
    ):
        path = file.relative_to(ROOT).as_posix()
        copy_page(path) if file.suffix == ".md" else copy_file(path)
    for name, write in reference_pages.pages():
        (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
        (PAGES / name).write_text(write(), encoding="utf-8")
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        check=False,
    )
    if built.returncode:
        return 1
    install_search()
    write_texts()
    problems = built_links.problems(SITE, PAGES)
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
