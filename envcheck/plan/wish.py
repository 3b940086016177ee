"""How somebody wants a plan to be."""

from __future__ import annotations

from envcheck.model.records import dataclass
from envcheck.plan.activation import SH
from envcheck.plan.described import Description


@dataclass(frozen=True)
class Wish:
    """What a plan is to be made with; what is "" is chosen."""

    expect: str = "auto"  # auto, gpu, cpu
    installer: str = ""  # pip, uv, conda
    folder: str = ""  # of the environment
    in_container: bool = False  # the environment is to be an image
    described: Description = Description()  # what was stated by hand: commands that plan anew repeat it
    repeated: tuple[str, ...] = ()  # the other options given, for those commands: --snapshot machine.json
    kept: tuple[str, ...] = ()  # what the environment holds already and keeps: tensorflow==2.15.1
    shells: tuple[str, ...] = (SH,)  # whose activation of the environment is to set loader paths


AS_USUAL = Wish()
