"""Read the GPUs of this machine, the processes that hold their memory, and whether a job fits."""

from __future__ import annotations

from datetime import datetime, timezone

from envcheck.gpus.fits import Job, judge_fits
from envcheck.gpus.holders import build_views, list_blind_spots, list_reported_pids
from envcheck.gpus.listing import Listing
from envcheck.host.local import LocalHost
from envcheck.host.system import read_available_memory, read_processes
from envcheck.model import ActivityReading, Fact, Known, Unknown, dataclass, from_file
from envcheck.probes.activity import find_nvml, read_activity

_REST = 2.0  # seconds for everything but NVML


@dataclass
class Question:
    """What to find out: whether a job fits, and how many seconds NVML may take."""

    job: Job | None = None
    timeout: float = 10.0


def read_listing(question: Question, library: Fact[str] | None = None) -> Listing:
    """Read the GPUs and their processes, through a new host each time.

    One host remembers its answers.
    """
    host = LocalHost(question.timeout + _REST)
    reading = read_activity(host, find_nvml(host) if library is None else library, question.timeout)
    return _build_listing(reading, host.system, question)


def _build_listing(reading: ActivityReading, system: str, question: Question) -> Listing:
    taken_at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    job = question.job
    if not isinstance(reading.gpus, Known):
        return Listing(taken_at, reading.driver, reading.gpus, job=job)
    found = reading.gpus.value
    processes = read_processes(list_reported_pids(found))
    shown = build_views(found, processes, system)
    gpus = Known(shown, reading.gpus.source)
    spots = list_blind_spots(found, processes, system)
    fits = judge_fits(job, shown, _read_memory()) if job else ()
    return Listing(taken_at, reading.driver, gpus, spots, job, fits)


def _read_memory() -> Fact[int]:
    free = read_available_memory()
    if free is None:
        return Unknown(
            "failed", "this system does not report its available memory", ("/proc/meminfo",)
        )
    return from_file(free, "/proc/meminfo", "MemAvailable")
