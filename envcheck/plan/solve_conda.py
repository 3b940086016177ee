"""Solve a conda environment against its channels, for another machine than this one where need be."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from envcheck.model.plans import Environment
from envcheck.plan.plan_data import plan_data

_SUBDIRS = {
    "linux_x86_64": "linux-64",
    "linux_aarch64": "linux-aarch64",
    "win_amd64": "win-64",
    "macosx_arm64": "osx-arm64",
    "macosx_x86_64": "osx-64",
}
SECONDS = 300.0  # for one solve: conda-forge's index is some hundred megabytes where nothing of it is kept yet
_SYSTEM = {"linux": ("__unix", "__linux"), "win": ("__win",), "macosx": ("__unix", "__osx")}


def solve(made: Environment, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the packages a solve brings; raises UnresolvableError or UnreachableError of `verify`.

    Channels lie below CONDA_CHANNEL_ALIAS where that is set, as they do for conda.
    """
    from envcheck.plan.verify import UnreachableError, UnresolvableError

    try:
        import rattler
        from rattler.exceptions import (
            FetchRepoDataError,
            GatewayError,
            InvalidChannelError,
            InvalidUrlError,
            SolverError,
        )
    except ImportError:
        hint = "pip install 'envcheck-gpu[conda]'"
        raise UnreachableError(f"--verify solves conda's plans with py-rattler, which is not here: {hint}.") from None
    alias = environment.get("CONDA_CHANNEL_ALIAS", "")
    no_answer = f"{', '.join(made.channels)}: the channel gave no answer"
    try:
        records = asyncio.run(asyncio.wait_for(_records(rattler, made, alias), SECONDS))
    except SolverError as error:
        raise UnresolvableError(f"{', '.join(made.packages)} cannot be solved: {_in_a_line(error, 600)}") from None
    except (InvalidChannelError, InvalidUrlError) as error:
        raise UnreachableError(f"{no_answer}: CONDA_CHANNEL_ALIAS is no address ({_in_a_line(error, 100)}).") from None
    except (asyncio.TimeoutError, TimeoutError):
        raise UnreachableError(f"{no_answer} within {SECONDS:.0f} s.") from None
    except (FetchRepoDataError, GatewayError, OSError) as error:
        raise UnreachableError(f"{no_answer}: {_in_a_line(error, 300)}") from None
    return tuple(sorted(f"{record.name.normalized}={record.version}={record.build}" for record in records))


def _in_a_line(error: Exception, length: int) -> str:
    return " ".join(str(error).split())[:length]


def in_words(spec: str) -> str:
    """Write conda's short form in full: python=3.10, which stands for its line, and jax=0.5.0=cuda*, which does not."""
    name, _, rest = spec.partition("=")
    version, _, build = rest.partition("=")
    if version and not version.endswith("*"):
        version = f"=={version}" if build else f"{version}.*"
    return " ".join(part for part in (name, version, build) if part)


async def _records(rattler: Any, made: Environment, alias: str) -> list[Any]:
    config = rattler.ChannelConfig(alias.rstrip("/") + "/") if alias else rattler.ChannelConfig()
    own = plan_data()["channel_names"]["rows"]
    names = [part for name in made.channels for part in own.get(name, [name])]
    found: list[Any] = await rattler.solve(
        sources=[rattler.Channel(name, config) for name in names],
        specs=[in_words(spec) for spec in made.packages],
        platforms=[_SUBDIRS[made.platform], "noarch"],
        virtual_packages=_virtual(rattler, made),
    )
    return found


def _virtual(rattler: Any, made: Environment) -> list[Any]:
    """State the machine the environment is for: its system, its C library, its driver's CUDA."""
    versions = dict.fromkeys(_SYSTEM[made.platform.partition("_")[0]], "0")
    if made.platform.startswith("linux"):
        versions["__glibc"] = made.machine_glibc or max(made.glibc or "0", plan_data()["usual_glibc"], key=_numbers)
    if "CONDA_OVERRIDE_CUDA" in made.variables:
        versions["__cuda"] = made.variables["CONDA_OVERRIDE_CUDA"]
    name, version, build = rattler.PackageName, rattler.Version, rattler.BuildString("0")
    return [rattler.GenericVirtualPackage(name(item), version(text), build) for item, text in versions.items()]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
