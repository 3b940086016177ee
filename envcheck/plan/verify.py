"""Verify a plan: resolve each set as the target would, and solve conda environments."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from envcheck.actions import pick_options
from envcheck.actions.extras import MissingExtraError, needs_extra
from envcheck.host.file_changes import remove_tree
from envcheck.host.interruption import defer_interrupts
from envcheck.host.prerequisites import find_program
from envcheck.host.process import run_program
from envcheck.host.protocol import Variables
from envcheck.model import (
    Environment,
    Known,
    Plan,
    RequirementSet,
    Unknown,
    UserError,
    numbers,
    replace,
)
from envcheck.model.text import counted
from envcheck.plan.data import plan_data

Options = tuple[tuple[str, ...], dict[str, str]]
_SCHEMES = ("http", "https", "file")  # of an index that uv can read
# uv asks the narrower ones first
_PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy")
_OTHER_INDEXES = ("UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX_STRATEGY")


def index_options(requirement_set: RequirementSet, environ: Variables) -> Options:
    """Return uv's options and variables for a set.

    Its own index alone, else those pip and uv are configured for.

    Raises SettingsError for a configuration that nothing can be read with.
    """
    from envcheck.host.pip_settings import (
        UV_MISLEADING,
        is_true,
        read_pip_options,
        read_pip_settings,
        uv_variables,
    )

    options = read_pip_options(environ)
    has_folders = is_true(options.get("no-index", "")) and options.get("find-links")
    proxy = "" if has_folders else read_pip_settings(environ, schemes=_SCHEMES).proxy
    set_here = {
        name: value for name, value in environ.items() if value and name not in UV_MISLEADING
    }
    variables = {**uv_variables(environ, Path()), **set_here}
    variables.update(dict.fromkeys(_PROXIES, proxy) if proxy else {})
    variables.setdefault("UV_HTTP_RETRIES", _RETRIES)
    if requirement_set.index:
        variables = {name: value for name, value in variables.items() if name not in _OTHER_INDEXES}
    own = ("--default-index", requirement_set.index) if requirement_set.index else ()
    bounds = pick_options(requirement_set.options, "-c")
    return (*own, *_page_options(requirement_set), *bounds), variables


def _page_options(requirement_set: RequirementSet) -> tuple[str, ...]:
    """Return those of a set's options of pip that name another index or page."""
    return pick_options(requirement_set.options, "--extra-index-url", "--find-links")


_SUBDIRS = {
    "linux_x86_64": "linux-64",
    "linux_aarch64": "linux-aarch64",
    "win_amd64": "win-64",
    "macosx_arm64": "osx-arm64",
    "macosx_x86_64": "osx-64",
}
# for one solve: conda-forge's index is some hundred megabytes where nothing of it is kept yet
SECONDS = 300.0
_SYSTEM = {"linux": ("__unix", "__linux"), "win": ("__win",), "macosx": ("__unix", "__osx")}


def solve(environment: Environment, environ: Variables) -> tuple[str, ...]:
    """Return the packages a solve brings; raises UnresolvableError or UnreachableError of `verify`.

    Channels lie below CONDA_CHANNEL_ALIAS where that is set, as they do for conda.
    """
    try:
        with needs_extra("conda", "--verify of a conda plan"):
            import asyncio  # most plans are for pip: 30 ms

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
        raise UnresolvableError(environment.packages, _single_line(error, 600)) from None
    except (InvalidChannelError, InvalidUrlError) as error:
        raise UnreachableError(
            f"{no_answer}: CONDA_CHANNEL_ALIAS is not a valid address ({_single_line(error, 100)})."
        ) from None
    except (asyncio.TimeoutError, TimeoutError):
        raise UnreachableError(f"{no_answer} within {SECONDS:.0f} s.") from None
    except (FetchRepoDataError, GatewayError, OSError) as error:
        raise UnreachableError(f"{no_answer}: {_single_line(error, 300)}") from None
    return tuple(
        sorted(f"{record.name.normalized}={record.version}={record.build}" for record in records)
    )


def _single_line(error: Exception, length: int) -> str:
    return " ".join(str(error).split())[:length]


def expand_spec(spec: str) -> str:
    """Write conda's short form in full.

    python=3.10, which stands for its line, and jax=0.5.0=cuda*, which does not.
    """
    name, _, rest = spec.partition("=")
    version, _, build = rest.partition("=")
    if version and not version.endswith("*"):
        version = f"=={version}" if build else f"{version}.*"
    return " ".join(part for part in (name, version, build) if part)


async def _records(rattler: Any, environment: Environment, alias: str) -> list[Any]:
    if alias:
        config = rattler.ChannelConfig(alias.rstrip("/") + "/")
    else:
        config = rattler.ChannelConfig()
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
    name = rattler.PackageName
    version = rattler.Version
    build = rattler.BuildString("0")
    return [
        rattler.GenericVirtualPackage(name(item), version(text), build)
        for item, text in versions.items()
    ]


_DRAWN = " \u00d7\u2570\u2500\u25b6\n"  # what uv draws around its reasons
_PIN = r"[a-z0-9][a-z0-9._-]*==[a-z0-9][a-z0-9.+!_-]*"
_HASHES = r"( --hash=sha256:[0-9a-f]+)*"
_UVS_MACOS = 13.0  # that uv resolves for, where nothing states a newer one
_TIMEOUT = 300.0  # seconds for one resolution; a full one takes a few
_RETRIES = "1"  # an index that cannot be connected to twice does not answer
_CONCLUDED = r"^error: (No solution found when resolving dependencies:? )?(cause: )?"
# of a dependency that exists as source only
_CONCLUSIONS = ("No solution found", "Failed to build")
_DENIED = ("401 Unauthorized", "403 Forbidden", "407 Proxy Authentication")
_NETWORK = (
    "error sending request",
    "Failed to fetch",
    "dns error",
    "Connection refused",
    "timed out",
    "Request failed",
    "network was disabled",  # UV_OFFLINE, and what its cache holds is not enough
)


class UnresolvableError(Exception):
    """The index has no versions that meet a set's requirements."""

    def __init__(self, requirements: tuple[str, ...], reason: str) -> None:
        """Take the requirements of the set, and uv's reason."""
        super().__init__(f"{', '.join(requirements)} does not resolve: {reason}")
        self.requirements, self.reason = requirements, reason


class UnreachableError(Exception):
    """The index, the channel or the program that asks it failed: nothing was proven."""


def verify_plan(
    plan: Plan, environ: Variables, seconds: float, *, until: float, channels: bool
) -> Plan:
    """Resolve every set of a plan, and say in `verified` that it resolved, or why not.

    `until` is when the `seconds` end, on the clock time.monotonic. With `channels`, conda's
    packages are solved, too. Raises UnresolvableError.
    """
    environments = []
    reasons: list[str] = []
    for made in plan.environments:
        sets = []
        for item in made.sets:
            try:
                pins = resolve(made, item, environ, until - time.monotonic())
            except UnreachableError as error:
                pins = ()
                reasons.append(
                    str(error) if time.monotonic() < until else f"no answer in {seconds:g} s"
                )
                _check_metadata(made, item, environ, until)
            sets.append(replace(item, pins=pins))
        solved: tuple[str, ...] = ()
        try:
            solved = solve(made, environ) if made.packages and channels else ()
        except UnreachableError as error:
            reasons.append(str(error))
        if made.packages and not channels:
            reasons += ["conda's channel was not asked (--verify asks it)"]
        environments.append(replace(made, sets=tuple(sets), solved=solved))
    if reasons:
        verified = f"not resolved: {reasons[0].rstrip('.')}"
    else:
        verified = _describe_pins(environments)
    return replace(plan, environments=tuple(environments), verified=verified)


def _check_metadata(
    made: Environment, wanted: RequirementSet, environ: Variables, until: float
) -> None:
    """Read requirements from the usual index if the release's own page does not answer.

    Both state the same.

    Raises UnresolvableError where that cannot be met, but not where the usual index has no build of
    the release.
    """
    pins = tuple(text for text in wanted.requirements if re.fullmatch(_PIN, text))
    names = "|".join(re.escape(text.partition("==")[0]) for text in pins)
    try:
        if pins and _page_options(wanted):
            resolve(made, RequirementSet(pins), environ, until - time.monotonic())
    except UnreachableError:
        return
    except UnresolvableError as error:
        if not re.search(
            rf"(no version of|only) ({names})\b|\b({names})[^ ]* has no ", error.reason
        ):
            raise UnresolvableError(wanted.requirements, error.reason) from None


def _describe_pins(environments: list[Environment]) -> str:
    names: set[str] = set()
    for made in environments:
        for item in made.sets:
            names.update(re.split("==| @ ", pin)[0] for pin in item.pins)
    solved_count = sum(bool(made.packages) for made in environments)
    parts = []
    if names:
        parts.append(f"{counted(len(names), 'package')} from wheels")
    if solved_count:
        parts.append(counted(solved_count, "conda environment"))
    return f"resolved: {' and '.join(parts)}"


def resolve(
    environment: Environment,
    requirement_set: RequirementSet,
    environ: Variables,
    seconds: float = _TIMEOUT,
) -> tuple[str, ...]:
    """Resolve one set for an environment's platform and Python.

    The pins come out with their hashes.

    Nothing is built: what is published as source alone is not resolved.
    """
    # a label is of another index
    kept = (text.partition("+")[0] for text in requirement_set.kept)
    text = "\n".join((*requirement_set.requirements, *kept)) + "\n"
    printed = compile_file(
        environment, requirement_set, ("requirements.in", text), environ, seconds
    )
    return _join_pins(printed, requirement_set)


def compile_file(
    environment: Environment,
    requirement_set: RequirementSet,
    file: tuple[str, str],
    environ: Variables,
    seconds: float,
    *more: str,
) -> str:
    """Return what uv makes of a file, by name and text, that asks for the requirements of a set.

    `more` are further options of uv. Raises UnresolvableError or UnreachableError.
    """
    if environment.python.endswith("t"):
        raise UnreachableError(f"uv cannot resolve for free-threaded Python ({environment.python})")
    if requirement_set.source_only:
        raise UnreachableError(f"{', '.join(requirement_set.source_only)} needs a build")
    options, variables = _index(requirement_set, environ)
    uv = find_uv(environ)
    if environment.macos and float(environment.macos) > _UVS_MACOS:
        variables = {**variables, "MACOSX_DEPLOYMENT_TARGET": environment.macos}
    with _written(*file) as source:
        argv = (uv, *compile_options(environment), *options, *more, source)
        answer = run_program(argv, max(seconds, 0.0), variables)
    if isinstance(answer, Unknown) and answer.why == "timeout":
        raise UnreachableError(f"no answer in {seconds:.0f} s")
    if not isinstance(answer, Known):
        raise UnreachableError(
            f"uv gave no result: {getattr(answer, 'detail', 'it is not installed')}"
        )
    if answer.value.returncode:
        error = _make_failure(requirement_set, answer.value.stderr, answer.value.returncode)
        if "UV_OFFLINE" in variables:
            raise UnreachableError(
                "uv is offline, and neither its cache nor a folder holds all of it"
            )
        raise error
    return answer.value.stdout


_LIST_SECONDS = 60.0


def is_served(
    environment: Environment, requirement_set: RequirementSet, environ: Variables
) -> bool:
    """Return whether the configured indexes and folders have exactly a set's releases."""
    try:
        return bool(resolve(environment, requirement_set, environ))
    except UnresolvableError:
        return False
    except UnreachableError:
        pass
    try:
        find_uv(environ)
    except UnreachableError:
        return _is_listed(environment, requirement_set, environ)
    return False


def _is_listed(
    environment: Environment, requirement_set: RequirementSet, environ: Variables
) -> bool:
    """Return whether pip lists exactly the releases of a set; for where uv is not installed.

    pip index versions torch  ->  Available versions: 2.14.0, 2.13.0+cpu, 2.13.0
    """
    options = ("--only-binary=:all:", "--python-version", environment.python)
    exact = [text.split("==") for text in requirement_set.requirements if "==" in text]
    for name, version in exact:
        argv = (sys.executable, "-m", "pip", "index", "versions", name.partition("[")[0], *options)
        answer = run_program(argv, _LIST_SECONDS, environ)
        printed = answer.value.stdout if answer.value is not None else ""
        listed = re.search(r"^Available versions: (.+)$", printed, re.MULTILINE)
        if listed is None or version not in listed[1].split(", "):
            return False
    return bool(exact)


def _index(requirement_set: RequirementSet, environ: Variables) -> Options:
    try:
        return index_options(requirement_set, environ)
    except UserError as error:
        raise UnreachableError(f"no index was queried: {error}") from None


@contextmanager
def _written(name: str, text: str) -> Iterator[str]:
    """Write a file that goes however the block ends."""
    folder = ""
    try:
        with defer_interrupts():  # the folder is known to somebody, or it is not there
            folder = tempfile.mkdtemp(prefix="envcheck-plan-")
        source = Path(folder) / name
        source.write_text(text, encoding="utf-8")
        yield str(source)
    finally:
        with defer_interrupts(), suppress(OSError):
            remove_tree(folder)


def compile_options(environment: Environment) -> tuple[str, ...]:
    """Write what uv is asked: one platform, one Python, wheels only, hashes."""
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
    )


def platform_name(environment: Environment) -> str:
    """Name a platform as uv does, on Linux with the newest known glibc that is there."""
    from packaging.version import InvalidVersion, Version

    pattern = plan_data().platform_tags[environment.platform]
    floors = plan_data().platform_glibc
    try:
        version = Version(
            environment.machine_glibc
            or max(environment.glibc or "0", plan_data().usual_glibc, key=Version)
        )
    except InvalidVersion:
        version = Version(environment.glibc or "0")
    glibc = max(
        (floor for floor in floors if Version(floor) <= version), key=Version, default=floors[0]
    )
    return pattern.format(glibc=glibc.replace(".", "_"))


def find_uv(environ: Variables) -> str:
    """Find uv on PATH or as the wheel; raises UnreachableError where neither is."""
    program = find_program("uv", environ)
    if program:
        return program
    try:
        with needs_extra("plan", "resolving without uv on PATH"):
            from uv import find_uv_bin

        return str(find_uv_bin())
    except (MissingExtraError, FileNotFoundError) as error:
        raise UnreachableError(str(error)) from None


def _make_failure(requirement_set: RequirementSet, stderr: str, status: int) -> Exception:
    """Tell what the index cannot meet from what kept uv from a conclusion."""
    lines = [line.strip(_DRAWN) for line in stderr.splitlines() if line.strip()]
    message = (
        re.sub(_CONCLUDED, "", " ".join(lines))[:600]
        or f"uv exited with status {status} and no output"
    )
    pages = [text.partition(" @ ")[2] for text in requirement_set.requirements if " @ " in text]
    named = (
        requirement_set.index,
        *_page_options(requirement_set)[1:2],
        *pages,
        "that is configured",
    )
    index = next(filter(None, named))
    if any(sign in stderr for sign in _DENIED):
        return UnreachableError(f"the index {index} denied access: {message}")
    if any(sign in stderr for sign in _NETWORK):
        reason = message.rpartition("cause: ")[2].removesuffix("cause:").strip()
        return UnreachableError(
            f"the index {index} did not answer" + (f" ({reason})" if index not in reason else "")
        )
    if not any(sign in stderr for sign in _CONCLUSIONS):
        return UnreachableError(f"uv could not finish: {message}")
    return UnresolvableError(requirement_set.requirements, message)


def _join_pins(text: str, requirement_set: RequirementSet) -> tuple[str, ...]:
    r"""Join each pin with its hashes on one line; UnreachableError for a line that is no pin.

    A file is a pin where the set names its address.

    numpy==2.1.0 \
        --hash=sha256:13fc1... \
        --hash=sha256:a1b2...
    flash-attn @ https://host/flash_attn-2.8.3-cp311-cp311-linux_x86_64.whl \
        --hash=sha256:c3d4...
    """
    pins = tuple(
        " ".join(line.split()) for line in text.replace("\\\n", " ").splitlines() if line.strip()
    )
    known = "|".join(
        (_PIN, *(re.escape(text) for text in requirement_set.requirements if " @ " in text))
    )
    for pin in pins:
        if not re.fullmatch(rf"({known}){_HASHES}", pin):
            raise UnreachableError(f"uv printed no usable pins: {pin[:80]!r}")
    return pins
