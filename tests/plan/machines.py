"""Machines described by hand, and what is planned for them."""

from __future__ import annotations

from functools import lru_cache

from envcheck.matrix.load import load_matrix
from envcheck.matrix.query import Matrix
from envcheck.model import Plan, PlannedRelease
from envcheck.plan.build import build_plan
from envcheck.plan.requests import PlanOptions, read_requests
from envcheck.rules.described_machine import Description, planned_facts


@lru_cache(maxsize=1)
def matrix() -> Matrix:
    return load_matrix()


def machine(
    python: str = "3.11",
    driver: str = "",
    gpu: str = "",
    platform: str = "linux_x86_64",
    glibc: str = "",
) -> Description:
    """Describe a machine; nothing of the one the tests run on enters."""
    libc = glibc or ("2.35" if platform.startswith("linux") else "")
    return Description(python, driver, (gpu,) if gpu else (), libc, platform)


def planned(
    *texts: str, on: Description, expect: str = "auto", installer: str = "", folder: str = ""
) -> Plan:
    facts = planned_facts(None, on, matrix(), expects_gpu=expect == "gpu")
    return build_plan(
        facts,
        matrix(),
        read_requests(texts, matrix()),
        PlanOptions(expect, installer, folder, description=on),
    )


def chosen(plan: Plan, framework: str = "") -> PlannedRelease:
    (found,) = [item for item in plan.releases if framework in ("", item.framework)]
    return found


A100 = machine(gpu="8.0", driver="580.65.06", python="3.12")
OLD_DRIVER = machine(gpu="8.9", driver="535.104.05")
V100 = machine(gpu="7.0", driver="580.65.06")
WINDOWS = machine(gpu="8.6", driver="535.104", platform="win_amd64", python="3.10")
LAPTOP = machine(platform="macosx_arm64", python="3.12")
