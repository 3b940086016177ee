"""One plugin of each kind: a rule, a framework, an output format and a way to reach hosts."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.fleet.results import FleetListener, FleetRequest, HostResult
from envcheck.model import (
    INCOMPATIBLE,
    SCHEMA_VERSION,
    WARNING,
    Facts,
    Finding,
    Remedy,
    Report,
    Snapshot,
)
from envcheck.rules.catalogue import Entry
from envcheck.rules.context import Context, rule

FINDINGS = (
    Entry(
        "site-os-retired",
        "runtime",
        "This system is retired here.",
        "the site no longer supports the distribution",
    ),
)


@rule("site-os-retired", severity=WARNING, needs=("host.distribution_id",), goal="any")
def retired(context: Context, distribution: str | None) -> Iterator[Finding]:
    """Find a distribution that the site no longer supports."""
    if distribution == "ubuntu":
        fix = Remedy("Move to the site's image.")
        yield Finding(
            "",
            INCOMPATIBLE,
            "",
            "The site retired ubuntu.",
            (context.seen("host.distribution_id"),),
            fix,
        )


FRAMEWORK = {
    "title": "Sitegrad",
    "distributions": {"envcheck-site-sample": "site_sample"},
    "files": {"linking": ["libsitegrad_cuda.so"]},
}


def brief(report: Report, snapshot: Snapshot) -> str:
    """Render a report in one line."""
    return (
        f"{report.verdict}: {len(report.findings)} findings of {snapshot.tool_version or 'nobody'}"
    )


def run_fixed(request: FleetRequest, listener: FleetListener) -> None:
    """Answer for one host without asking it."""
    hosts = [host for host in ("node1",) if host not in request.skip]
    listener.on_hosts(hosts)
    for host in hosts:
        listener.on_result(HostResult(host, Snapshot(SCHEMA_VERSION, "0.1.0", "", "", Facts())))
