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

from envcheck.actions.extras import MissingExtraError, needs_extra
from envcheck.host.file_changes import remove_tree
from envcheck.host.interruption import defer_interrupts
from envcheck.host.process import run_program
from envcheck.model import Environment, Known, Plan, RequirementSet, UserError, numbers, replace
from envcheck.plan.data import plan_data

Options = tuple[tuple[str, ...], dict[str, str]]
_SCHEMES = ("http", "https", "file")  # of an index that uv can read
_PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy")  # uv asks the narrower ones first


def index_options(requirement_set: RequirementSet, environ: Mapping[str, str]) -> Options:
    """Return uv's options and variables for a set: its own index alone, else the one pip is configured for.

    Raises SettingsError for a configuration of pip that nothing can be read with.
    """
    from envcheck.host.pip_settings import read_pip_settings

    settings = read_pip_settings(environ, schemes=_SCHEMES)
    index = requirement_set.index or settings.url
    hosts = tuple(part for host in settings.trusted_hosts for part in ("--allow-insecure-host", host))
    variables = {
        "SSL_CERT_FILE": settings.ca_file,
        "SSL_CLIENT_CERT": settings.client_certificate,
        **dict.fromkeys(_PROXIES, settings.proxy),
    }
    return (*(("--default-index", index) if index else ()), *hosts), {
        key: value for key, value in variables.items() if value
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


def solve(environment: Environment, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the packages a solve brings; raises UnresolvableError or UnreachableError of `verify`.

    Channels lie below CONDA_CHANNEL_ALIAS where that is set, as they do for conda.
    """
    try:
        with needs_extra("conda", "--verify of a conda plan"):
            import rattler
            from rattler.exceptions import (
                FetchRepoDataError,
                GatewayError,
                InvalidChannelError,
                InvalidUrlError,
                SolverError,
            )
    except MissingExtraError as error:
        raise UnreachableError(str(error)) from None
    alias = environ.get("CONDA_CHANNEL_ALIAS", "")
    no_answer = f"{', '.join(environment.channels)}: the channel did not respond"
    try:
        records = asyncio.run(asyncio.wait_for(_records(rattler, environment, alias), SECONDS))
    except SolverError as error:
        raise UnresolvableError(
            f"{', '.join(environment.packages)} cannot be solved: {_single_line(error, 600)}"
        ) from None
    except (InvalidChannelError, InvalidUrlError) as error:
        raise UnreachableError(
            f"{no_answer}: CONDA_CHANNEL_ALIAS is not a valid address ({_single_line(error, 100)})."
        ) from None
    except (asyncio.TimeoutError, TimeoutError):
        raise UnreachableError(f"{no_answer} within {SECONDS:.0f} s.") from None
    except (FetchRepoDataError, GatewayError, OSError) as error:
        raise UnreachableError(f"{no_answer}: {_single_line(error, 300)}") from None
    return tuple(sorted(f"{record.name.normalized}={record.version}={record.build}" for record in records))


def _single_line(error: Exception, length: int) -> str:
    return " ".join(str(error).split())[:length]


def expand_spec(spec: str) -> str:
    """Write conda's short form in full: python=3.10, which stands for its line, and jax=0.5.0=cuda*, which does not."""
    name, _, rest = spec.partition("=")
    version, _, build = rest.partition("=")
    if version and not version.endswith("*"):
        version = f"=={version}" if build else f"{version}.*"
    return " ".join(part for part in (name, version, build) if part)


async def _records(rattler: Any, environment: Environment, alias: str) -> list[Any]:
    config = rattler.ChannelConfig(alias.rstrip("/") + "/") if alias else rattler.ChannelConfig()
    channel_names = plan_data().channel_names.rows
    names = [part for name in environment.channels for part in channel_names.get(name, (name,))]
    records: list[Any] = await rattler.solve(
        sources=[rattler.Channel(name, config) for name in names],
        specs=[expand_spec(spec) for spec in environment.packages],
        platforms=[_SUBDIRS[environment.platform], "noarch"],
        virtual_packages=_virtual_packages(rattler, environment),
    )
    return records


def _virtual_packages(rattler: Any, environment: Environment) -> list[Any]:
    """State the machine the environment is for: its system, its C library, its driver's CUDA."""
    versions = dict.fromkeys(_SYSTEM[environment.platform.partition("_")[0]], "0")
    if environment.platform.startswith("linux"):
        versions["__glibc"] = environment.machine_glibc or max(
            environment.glibc or "0", plan_data().usual_glibc, key=numbers
        )
    if "CONDA_OVERRIDE_CUDA" in environment.variables:
        versions["__cuda"] = environment.variables["CONDA_OVERRIDE_CUDA"]
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


def verify_plan(plan: Plan, environ: Mapping[str, str]) -> Plan:
    """Resolve every set of a plan; raises UnresolvableError or UnreachableError."""
    environments = tuple(_with_pins(environment, environ) for environment in plan.environments)
    count = sum(len(environment.sets) for environment in environments)
    solved_count = sum(not environment.sets or bool(environment.packages) for environment in environments)
    parts = [f"{count} set{'s' if count > 1 else ''} of requirements resolved from wheels"] if count else []
    parts += [f"{solved_count} conda environment{'s' if solved_count > 1 else ''} solved"] if solved_count else []
    return replace(plan, environments=environments, verified=f"Verified: {', '.join(parts)}.")


def _with_pins(environment: Environment, environ: Mapping[str, str]) -> Environment:
    solved = solve(environment, environ) if environment.packages else ()
    sets = tuple(replace(item, pins=resolve(environment, item, environ)) for item in environment.sets)
    return replace(environment, sets=sets, solved=solved)


def resolve(environment: Environment, requirement_set: RequirementSet, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Resolve one set for an environment's platform and Python; the pins come out with their hashes."""
    if environment.python.endswith("t"):
        raise UnreachableError(
            f"uv cannot resolve for free-threaded Python ({environment.python}), so nothing is verified."
        )
    options, settings = _index(requirement_set, environ)
    uv = find_uv(environ)
    with _requirements_file(requirement_set) as source:
        argv = (uv, *compile_options(environment, requirement_set), *options, source)
        answer = run_program(argv, _TIMEOUT, {**environ, **settings, **_system(environment)})
    if not isinstance(answer, Known):
        raise UnreachableError(f"uv gave no result: {getattr(answer, 'detail', 'it is not installed')}.")
    if answer.value.returncode:
        raise _failure(requirement_set, answer.value.stderr, answer.value.returncode)
    return _pins(answer.value.stdout)


_LIST_SECONDS = 60.0


def is_listed(environment: Environment, requirement_set: RequirementSet, environ: Mapping[str, str]) -> bool:
    """Return whether pip lists exactly the releases of a set for an environment; for where uv is not installed.

    pip index versions torch  ->  Available versions: 2.14.0, 2.13.0+cpu, 2.13.0
    """
    options = ("--only-binary=:all:", "--python-version", environment.python)
    exact = [text.split("==") for text in requirement_set.requirements if "==" in text]
    for name, version in exact:
        argv = (sys.executable, "-m", "pip", "index", "versions", name.partition("[")[0], *options)
        answer = run_program(argv, _LIST_SECONDS, environ)
        printed = answer.value.stdout if isinstance(answer, Known) else ""
        listed = re.search(r"^Available versions: (.+)$", printed, re.MULTILINE)
        if listed is None or version not in listed[1].split(", "):
            return False
    return bool(exact)


def _index(requirement_set: RequirementSet, environ: Mapping[str, str]) -> Options:
    try:
        return index_options(requirement_set, environ)
    except UserError as error:
        raise UnreachableError(f"no index was queried: {error}") from None


@contextmanager
def _requirements_file(requirement_set: RequirementSet) -> Iterator[str]:
    """Write a set's requirements to a file of a folder that goes whatever ends the block, Ctrl-C too."""
    folder = ""
    try:
        with defer_interrupts():  # the folder is known to somebody, or it is not there
            folder = tempfile.mkdtemp(prefix="envcheck-plan-")
        source = Path(folder) / "requirements.in"
        kept = (text.partition("+")[0] for text in requirement_set.kept)  # a label is of another index
        source.write_text("\n".join((*requirement_set.requirements, *kept)) + "\n", encoding="utf-8")
        yield str(source)
    finally:
        with defer_interrupts(), suppress(OSError):
            remove_tree(folder)


def compile_options(environment: Environment, requirement_set: RequirementSet) -> tuple[str, ...]:
    """Write what uv is asked: one platform, one Python, wheels only but for what has none, hashes."""
    exceptions = tuple(part for name in requirement_set.source_only for part in ("--no-binary", name))
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
        platform_name(environment),
        "--python-version",
        environment.python,
        "--only-binary",
        ":all:",
        *exceptions,
    )


def _system(environment: Environment) -> dict[str, str]:
    """State the macOS to resolve for, where uv's usual one is older than the wheels."""
    return (
        {"MACOSX_DEPLOYMENT_TARGET": environment.macos}
        if environment.macos and float(environment.macos) > _UVS_MACOS
        else {}
    )


def platform_name(environment: Environment) -> str:
    """Name an environment's platform as uv does, on Linux with the newest glibc it has a name for that is there."""
    from packaging.version import InvalidVersion, Version

    pattern = plan_data().platform_tags[environment.platform]
    floors = plan_data().platform_glibc
    try:
        version = Version(
            environment.machine_glibc or max(environment.glibc or "0", plan_data().usual_glibc, key=Version)
        )
    except InvalidVersion:
        version = Version(environment.glibc or "0")
    glibc = max((floor for floor in floors if Version(floor) <= version), key=Version, default=floors[0])
    return pattern.format(glibc=glibc.replace(".", "_"))


def find_uv(environ: Mapping[str, str]) -> str:
    """Find uv on PATH or as the wheel; raises UnreachableError where neither is."""
    name = "uv.exe" if os.name == "nt" else "uv"
    for folder in environ.get("PATH", "").split(os.pathsep):
        path = Path(folder) / name
        if folder and path.is_absolute() and os.access(path, os.X_OK) and path.is_file():
            return str(path)
    try:
        with needs_extra("plan", "--verify without uv on PATH"):
            from uv import find_uv_bin

        return str(find_uv_bin())
    except (MissingExtraError, FileNotFoundError) as error:
        raise UnreachableError(str(error)) from None


def _failure(requirement_set: RequirementSet, stderr: str, status: int) -> Exception:
    """Tell what the index cannot meet, which uv concludes, from all that kept it from a conclusion."""
    lines = [line.strip(_DRAWN) for line in stderr.splitlines() if line.strip()]
    message = re.sub(_CONCLUDED, "", " ".join(lines))[:600] or f"uv exited with status {status} and no output"
    names, index = ", ".join(requirement_set.requirements), requirement_set.index or "that pip is configured for"
    if any(sign in stderr for sign in _DENIED):
        return UnreachableError(f"{names}: the index {index} denied access: {message}")
    if any(sign in stderr for sign in _NETWORK):
        return UnreachableError(f"{names}: the index {index} did not respond: {message}")
    if not any(sign in stderr for sign in _CONCLUSIONS):
        return UnreachableError(f"{names}: uv could not finish: {message}")
    return UnresolvableError(f"{names} does not resolve: {message}")


def _pins(text: str) -> tuple[str, ...]:
    r"""Join each pin with its hashes on one line; UnreachableError for a line that is no pin.

    numpy==2.1.0 \
        --hash=sha256:13fc1... \
        --hash=sha256:a1b2...
    """
    pins = tuple(" ".join(line.split()) for line in text.replace("\\\n", " ").splitlines() if line.strip())
    for pin in pins:
        if not re.fullmatch(_PIN, pin):
            raise UnreachableError(f"uv printed no usable pins: {pin[:80]!r}")
    return pins
