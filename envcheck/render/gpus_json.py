"""GPUs and their processes as a JSON document, schema envcheck/gpus/1; without any process's command line."""

from __future__ import annotations

import json
from typing import Any

from envcheck import __version__
from envcheck.gpus.fits import Job, formula, need_of
from envcheck.gpus.holders import GpuView, Holder
from envcheck.gpus.listing import Listing, judge
from envcheck.model.codec import encode


def render_gpus_json(listing: Listing) -> str:
    """Render what was found at one moment."""
    verdict, message = judge(listing)
    document = {
        "schema": "envcheck/gpus/1",
        "tool_version": __version__,
        "taken_at": listing.taken_at,
        "verdict": verdict,
        "message": message,
        "driver": encode(listing.driver),
        "gpus": [_gpu(view) for view in listing.views],
        "blind_spots": list(listing.blind_spots),
    }
    if listing.job is not None:
        document["fit"] = {**_need(listing.job), "places": [encode(fit) for fit in listing.fits]}
    return json.dumps(document, ensure_ascii=True)


def _gpu(view: GpuView) -> dict[str, Any]:
    activity = encode(view.activity)
    gpu = {name: value for name, value in activity.pop("gpu").items() if name != "processes"}
    processes = [_process(holder) for holder in view.holders]
    return {**gpu, **activity, "unaccounted_bytes": encode(view.unaccounted_bytes), "processes": processes}


def _process(holder: Holder) -> dict[str, Any]:
    shown = encode(holder)
    shown.pop("command_line")
    return {**{name: value for name, value in shown.items() if name != "ending"}, **shown["ending"]}


def _need(job: Job) -> dict[str, Any]:
    need = need_of(job)
    return {"job": encode(job), "need": {**encode(need), "total": need.total}, "formula": formula(job)}
