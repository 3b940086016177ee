"""Write a document as a self-contained page, escaped by the template engine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from envcheck import __version__
from envcheck.actions.extras import needs_extra
from envcheck.model import inert
from envcheck.render.document import (
    Command,
    Document,
    Line,
    Machine,
    Step,
    Table,
    Way,
    format_evidence,
)

if TYPE_CHECKING:
    import jinja2


def render_html(document: Document) -> str:
    """Write a document as a page."""
    return fill("document.html", document=document)


# In a notebook the theme around it says what is light and dark: no tone is read on both, but one
# that takes a third of its colour from the text is.
_ANY_THEME = """--ground: transparent; --ink: currentColor;
--dim: color-mix(in srgb, currentColor 70%, transparent);
--line: color-mix(in srgb, currentColor 25%, transparent);
--card: color-mix(in srgb, currentColor 6%, transparent);
--ok: color-mix(in srgb, #2c974b 65%, currentColor);
--warning: color-mix(in srgb, #b08800 65%, currentColor);
--error: color-mix(in srgb, #e5484d 65%, currentColor);
--undetermined: color-mix(in srgb, #9a6ee2 65%, currentColor);"""


def render_fragment(document: Document) -> str:
    """Write a document for a notebook: its part of a page, whose styles act on nothing else."""
    page = render_html(document)
    styles = page[page.index("* {") : page.index("@media print")].replace("body {", "& {")
    main = page[page.index("<main>") : page.index("</main>")].replace("<main>", "", 1)
    return (
        f"<style>.envcheck-report {{ {_ANY_THEME}\n{styles}}}</style>"
        f'<div class="envcheck-report">{main}</div>'
    )


def fill(template: str, **content: Any) -> str:
    """Fill a template of ours; raises MissingExtraError without jinja2."""
    return _make_environment().get_template(template).render(version=__version__, **content)


def _make_environment() -> jinja2.Environment:
    with needs_extra("html", "An HTML page"):
        import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("envcheck.render"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_make_inert,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"inert": inert, "evidence": format_evidence}
    for kind in (Line, Command, Table, Machine, Way, Step):
        environment.tests[kind.__name__] = cast("Any", partial(_is_of, kind))
    return environment


def _make_inert(value: object) -> object:
    """Make every text inert that a template writes; what it has made itself is no plain text."""
    return inert(value) if type(value) is str else value


def _is_of(kind: type[object], block: object) -> bool:
    return isinstance(block, kind)
