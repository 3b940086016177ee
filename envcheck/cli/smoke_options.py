"""What a user may ask of a smoke test."""

from __future__ import annotations

from envcheck.model.records import dataclass

FORMATS = ("text", "json", "junit")


@dataclass(frozen=True)
class SmokeOptions:
    """What the user asked for."""

    python: str = ""
    env: str = ""
    frameworks: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    level: str = "quick"
    expect: str = "auto"
    seconds: float | None = None
    memory: float | None = None  # GiB
    quiet: bool = False
