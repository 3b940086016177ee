"""One difference between two machines, and the table that says how facts are compared."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from envcheck.diff.plain import Side
from envcheck.host.data_files import read_data
from envcheck.model.records import dataclass


@dataclass(frozen=True)
class Led:
    """A finding that a difference leads to, and on which machine: a, b or both."""

    id: str
    on: str
    severity: str
    primary: bool


@dataclass(frozen=True)
class Difference:
    """One fact that the two machines do not share."""

    fact: str  # dotted name: driver.release, python.distributions
    key: str  # which of several: numpy, libcudart.so.12, tensorflow.cuda_version; "" where the fact is one value
    label: str  # in words: "driver release"
    area: str  # of data/diff.json, which ranks them
    a: str
    b: str
    unread: bool  # on one of the machines it could not be told
    agree: bool = False  # the machines must agree on it: a framework's release, CUDA and cuDNN
    names: tuple[str, ...] = ()  # what the evidence of a finding may call it beside its fact
    findings: tuple[Led, ...] = ()

    @property
    def matters(self) -> bool:
        """Say whether it leads to a finding that one machine alone has, or to frameworks that do not agree."""
        return self.agree or any(led.on != "both" and led.severity != "note" for led in self.findings)


@dataclass(frozen=True)
class Subject:
    """What two machines are compared in: a fact, or one of several things it holds."""

    fact: str
    key: str
    label: str
    area: str
    names: tuple[str, ...] = ()  # what the evidence of a finding may call it beside its fact
    agree: bool = False


def differ(subject: Subject, a: Side, b: Side) -> list[Difference]:
    """Return the difference of two sides, if they differ."""
    if a == b or (a.unread and b.unread):
        return []
    unread = a.unread or b.unread
    return [
        Difference(
            fact=subject.fact,
            key=subject.key,
            label=subject.label,
            area=subject.area,
            a=a.text,
            b=b.text,
            unread=unread,
            agree=subject.agree and not unread,
            names=subject.names,
        )
    ]


@lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    """Read how each fact is compared."""
    loaded: dict[str, Any] = json.loads(read_data("diff.json"))
    return loaded
