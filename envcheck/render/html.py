"""Pages: one self-contained file each, every text of a machine escaped by the template engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from envcheck import __version__
from envcheck.actions import action_line
from envcheck.actions.extras import needs_extra
from envcheck.diagnosis.overview import summarize_machine
from envcheck.model import INCOMPATIBLE, NOTE, Report, Snapshot, inert
from envcheck.render.text import layers, summarize_checks

if TYPE_CHECKING:
    import jinja2


def render_html(report: Report, snapshot: Snapshot) -> str:
    """Render a report as a page: verdict, layer picture, the plan, findings with evidence."""
    roots = [finding for finding in report.findings if finding.caused_by is None]
    return page(
        "report.html",
        report=report,
        snapshot=snapshot,
        overview=summarize_machine(snapshot.facts),
        layers=layers(report, snapshot.facts),
        roots=roots,
        summary=summarize_checks(report),
        following=[finding for finding in report.findings if finding.caused_by is not None],
        advised={item.id for item in roots if item.severity == NOTE or item.verdict != INCOMPATIBLE},
    )


def render_frame(report: Report, snapshot: Snapshot) -> str:
    """Render a report for a notebook: a frame of its own, whose styles and scripts do not act outside it."""
    from html import escape

    style = "width: 100%; height: 36em; border: 0"
    content = escape(render_html(report, snapshot))
    return f'<iframe title="envcheck report" sandbox style="{style}" srcdoc="{content}"></iframe>'


def page(template: str, **content: Any) -> str:
    """Fill a template of ours; raises MissingExtraError without jinja2."""
    return _environment().get_template(template).render(version=__version__, **content)


def _environment() -> jinja2.Environment:
    with needs_extra("html", "An HTML page"):
        import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("envcheck.render"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["inert"] = inert
    environment.filters["shell"] = action_line
    return environment
