"""Verify a plan: resolve each set of requirements as the target would, and solve conda environments."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from envcheck.host.file_changes import remove_tree
from envcheck.host.interruption import defer_interrupts
from envcheck.host.process import run_program
from envcheck.model import Environment, Known, Plan, RequirementSet, numbers, replace
from envcheck.plan.data import plan_data

Options = tuple[tuple[str, ...], dict[str, str]]
_SCHEMES = ("http", "https", "file")  # of an index that uv can read
_PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy")  # uv asks the narrower ones first


def index_options(wanted: RequirementSet, environment: Mapping[str, str]) -> Options:
    """Return uv's options and variables for a set: its own index alone, else the one pip is configured for.

    Raises ArtifactError for a configuration of pip that nothing can be read with.
    """
    from envcheck.matrix.refresh.pip_settings import read_pip_settings

    settings = read_pip_settings(environment, schemes=_SCHEMES)
    index = wanted.index or settings.url
    hosts = tuple(part for host in settings.trusted_hosts for part in ("--allow-insecure-host", host))
    named = {
        "SSL_CERT_FILE": settings.ca_file,
        "SSL_CLIENT_CERT": settings.client_certificate,
        **dict.fromkeys(_PROXIES, settings.proxy),
    }
    return (*(("--default-index", index) if index else ()), *hosts), {
        key: value for key, value in named.items() if value
    }


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
    own = plan_data().channel_names.rows
    names = [part for name in made.channels for part in own.get(name, (name,))]
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
        versions["__glibc"] = made.machine_glibc or max(made.glibc or "0", plan_data().usual_glibc, key=numbers)
    if "CONDA_OVERRIDE_CUDA" in made.variables:
        versions["__cuda"] = made.variables["CONDA_OVERRIDE_CUDA"]
    name, version, build = rattler.PackageName, rattler.Version, rattler.BuildString("0")
    return [rattler.GenericVirtualPackage(name(item), version(text), build) for item, text in versions.items()]


_DRAWN = " \u00d7\u2570\u2500\u25b6\n"  # what uv draws around its reasons
_PIN = r"[a-z0-9][a-z0-9._-]*==[a-z0-9][a-z0-9.+!_-]*( --hash=sha256:[0-9a-f]+)*"
_UVS_MACOS = 13.0
_TIMEOUT = 300.0  # seconds for one resolution; a full one takes a few
_CONCLUDED = r"^error: (No solution found when resolving dependencies:? )?(cause: )?"
_CONCLUSIONS = ("No solution found", "Failed to build")  # of a dependency that exists as source only
_DENIED = ("401 Unauthorized", "403 Forbidden", "407 Proxy Authentication")
_NETWORK = (
    "error sending request",
    "Failed to fetch",
    "dns error",
    "Connection refused",
    "timed out",
    "Request failed",
)


class UnresolvableError(Exception):
    """The index has no versions that meet a plan's requirements."""


class UnreachableError(Exception):
    """The index or channel, or the program that asks it, could not be reached: nothing was proven."""


def verify_plan(plan: Plan, environment: Mapping[str, str]) -> Plan:
    """Resolve every set of a plan; raises UnresolvableError or UnreachableError."""
    environments = tuple(_resolved(made, environment) for made in plan.environments)
    count = sum(len(made.sets) for made in environments)
    solved = sum(not made.sets or bool(made.packages) for made in environments)
    parts = [f"{count} set{'s' if count > 1 else ''} of requirements resolved from wheels"] if count else []
    parts += [f"{solved} conda environment{'s' if solved > 1 else ''} solved"] if solved else []
    return replace(plan, environments=environments, verified=f"Verified: {', '.join(parts)}.")


def _resolved(made: Environment, environment: Mapping[str, str]) -> Environment:
    solved = solve(made, environment) if made.packages else ()
    sets = tuple(replace(item, pins=resolve(made, item, environment)) for item in made.sets)
    return replace(made, sets=sets, solved=solved)


def resolve(made: Environment, wanted: RequirementSet, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Resolve one set for an environment's platform and Python; the pins come out with their hashes."""
    if made.python.endswith("t"):
        raise UnreachableError(
            f"uv resolves for no free-threaded Python ({made.python}): its wheels were not looked for."
        )
    options, settings = _index(wanted, environment)
    uv = find_uv(environment)
    with _written(wanted) as source:
        argv = (uv, *compile_options(made, wanted), *options, source)
        answer = run_program(argv, _TIMEOUT, {**environment, **settings, **_system(made)})
    if not isinstance(answer, Known):
        raise UnreachableError(f"uv gave no answer: {getattr(answer, 'detail', 'it is not there')}.")
    if answer.value.returncode:
        raise _failure(wanted, answer.value.stderr, answer.value.returncode)
    return _pins(answer.value.stdout)


def _index(wanted: RequirementSet, environment: Mapping[str, str]) -> Options:
    from envcheck.matrix.refresh.pip_settings import ArtifactError

    try:
        return index_options(wanted, environment)
    except ArtifactError as error:
        raise UnreachableError(f"no index was asked: {error}") from None


@contextmanager
def _written(wanted: RequirementSet) -> Iterator[str]:
    """Write a set's requirements to a file of a folder that goes whatever ends the block, Ctrl-C too."""
    folder = ""
    try:
        with defer_interrupts():  # the folder is known to somebody, or it is not there
            folder = tempfile.mkdtemp(prefix="envcheck-plan-")
        source = Path(folder) / "requirements.in"
        source.write_text("\n".join(wanted.requirements) + "\n", encoding="utf-8")
        yield str(source)
    finally:
        with defer_interrupts(), suppress(OSError):
            remove_tree(folder)


def compile_options(made: Environment, wanted: RequirementSet) -> tuple[str, ...]:
    """Write what uv is asked: one platform, one Python, wheels only but for what has none, hashes."""
    exceptions = tuple(part for name in wanted.source_only for part in ("--no-binary", name))
    return (
        "pip",
        "compile",
        "--quiet",
        "--no-config",
        "--no-header",
        "--no-annotate",
        "--generate-hashes",
        "--python",  # the one uv starts; without it, it looks for the planned one, and fetches it
        sys.executable,
        "--no-python-downloads",
        "--python-platform",
        platform_name(made),
        "--python-version",
        made.python,
        "--only-binary",
        ":all:",
        *exceptions,
    )


def _system(made: Environment) -> dict[str, str]:
    """State the macOS to resolve for, where uv's usual one is older than the wheels."""
    return {"MACOSX_DEPLOYMENT_TARGET": made.macos} if made.macos and float(made.macos) > _UVS_MACOS else {}


def platform_name(made: Environment) -> str:
    """Name an environment's platform as uv does, on Linux with the newest glibc it has a name for that is there."""
    from packaging.version import InvalidVersion, Version

    pattern = plan_data().platform_tags[made.platform]
    floors = plan_data().platform_glibc
    try:
        there = Version(made.machine_glibc or max(made.glibc or "0", plan_data().usual_glibc, key=Version))
    except InvalidVersion:
        there = Version(made.glibc or "0")
    glibc = max((floor for floor in floors if Version(floor) <= there), key=Version, default=floors[0])
    return pattern.format(glibc=glibc.replace(".", "_"))


def find_uv(environment: Mapping[str, str]) -> str:
    """Find uv on PATH or as the wheel; raises UnreachableError where neither is."""
    name = "uv.exe" if os.name == "nt" else "uv"
    for folder in environment.get("PATH", "").split(os.pathsep):
        path = Path(folder) / name
        if folder and path.is_absolute() and os.access(path, os.X_OK) and path.is_file():
            return str(path)
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        hint = "pip install 'envcheck-gpu[plan]', or put uv on PATH"
        raise UnreachableError(f"--verify asks uv, which is not here: {hint}.") from None


def _failure(wanted: RequirementSet, said: str, status: int) -> Exception:
    """Tell what the index cannot meet, which uv concludes, from all that kept it from a conclusion."""
    lines = [line.strip(_DRAWN) for line in said.splitlines() if line.strip()]
    told = re.sub(_CONCLUDED, "", " ".join(lines))[:600] or f"uv exited with status {status} and no output"
    names, index = ", ".join(wanted.requirements), wanted.index or "that pip is configured for"
    if any(sign in said for sign in _DENIED):
        return UnreachableError(f"{names}: the index {index} denied access: {told}")
    if any(sign in said for sign in _NETWORK):
        return UnreachableError(f"{names}: the index {index} gave no answer: {told}")
    if not any(sign in said for sign in _CONCLUSIONS):
        return UnreachableError(f"{names}: uv came to no conclusion: {told}")
    return UnresolvableError(f"{names} does not resolve: {told}")


def _pins(text: str) -> tuple[str, ...]:
    r"""Join each pin with its hashes on one line; UnreachableError for a line that is no pin.

    numpy==2.1.0 \
        --hash=sha256:13fc1... \
        --hash=sha256:a1b2...
    """
    pins = tuple(" ".join(line.split()) for line in text.replace("\\\n", " ").splitlines() if line.strip())
    for pin in pins:
        if not re.fullmatch(_PIN, pin):
            raise UnreachableError(f"uv gave no pins that can be used: {pin[:80]!r}")
    return pins
