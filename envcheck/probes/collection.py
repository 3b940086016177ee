"""Run every probe, apply overrides, redact personal data and build one snapshot."""

from __future__ import annotations

import posixpath
import re
import threading
import time
from typing import Any, Callable, Collection, Dict, List, Mapping, Pattern, Tuple

from envcheck import __version__
from envcheck.host.local import LocalHost
from envcheck.host.process import start_thread
from envcheck.host.protocol import Host, Variables
from envcheck.model import (
    NOT_STATED,
    SCHEMA_VERSION,
    Fact,
    Facts,
    Gpu,
    Known,
    Snapshot,
    Source,
    Unknown,
    hide_url_secrets,
    list_fields,
    replace,
)
from envcheck.probes.environment_choice import PythonSelection

Probe = Callable[[Host, PythonSelection], Any]


def _import_late(module: str, function: str, *, selects: bool = False) -> Probe:
    """Return a probe whose module is imported when it runs.

    A plan for a described machine needs few of them.
    """

    def probe(host: Host, selection: PythonSelection) -> Any:
        # Not import_module, which would pass by the lock that a collector puts around imports.
        collect_section = getattr(
            __import__(f"envcheck.probes.{module}", fromlist=(function,)), function
        )
        if selects:
            return collect_section(host, selection)
        return collect_section(host)

    return probe


# Section of the snapshot -> its probe. One probe reads three sections at once.
PROBES: Dict[str, Probe] = {
    "python": _import_late("python", "collect_python", selects=True),
    "toolkits": _import_late("toolkit", "collect_toolkits"),
    "compilers": _import_late("compilers", "collect_compilers"),
    "driver": _import_late("driver", "collect_driver"),
    "gpus": _import_late("gpus", "collect_gpus"),
    "other_gpus": _import_late("gpus", "collect_other_gpus"),
    "cudnn tensorrt nccl": _import_late("cuda_libraries", "collect_libraries"),
    "host": _import_late("host", "collect_host"),
}

# the active environment, or the Python that runs this program
_DEFAULT_SELECTION = PythonSelection()
_PATIENCE = 0.015  # seconds until the next probe starts beside one that waits
LIMIT = 4.5  # seconds for all probes; one that still waits then (a dead network mount) is abandoned
_EXTENSION = 5  # times the limit for probes that still work then: a busy machine, a slow disk
_WORK = 0.002  # seconds of processor time: the least that reading takes in a slice
_SLICE = 0.5  # seconds without any processor time that tell a probe that waits from one that works


def collect(
    host: Host,
    selection: PythonSelection = _DEFAULT_SELECTION,
    without: Collection[str] = (),
    limit: float = LIMIT,
) -> Snapshot:
    """Read every fact of a machine, all probes at once, and redact it at once.

    The sections of the probes in `without` are not stated; a probe that takes more than `limit`
    seconds is abandoned.
    """
    probes = {names: probe for names, probe in PROBES.items() if names not in without}
    sections = _run_probes(probes, host, selection, limit)
    facts = apply_overrides(Facts(**sections), host.environment())
    redactor = Redactor.from_environment(host.environment())
    taken_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    name = ""  # a host's name may be a person's
    return Snapshot(SCHEMA_VERSION, __version__, name, taken_at, redactor.redact(facts))


def collect_here(
    python: str,
    env: str,
    without: Collection[str] = (),
    *,
    starts_programs: bool = True,
    **options: bool,
) -> Snapshot:
    """Read this machine with the named Python, as `collect` does.

    `options` are of PythonSelection.
    """
    host = LocalHost() if starts_programs else LocalHost(0.0)
    return collect(host, PythonSelection(python, env, **options), without)


def _run_probes(
    probes: Mapping[str, Probe], host: Host, selection: PythonSelection, limit: float = LIMIT
) -> Dict[str, Any]:
    """Run the probes one after the other.

    While one waits for a program or a dead mount, start others beside it.

    One thread per probe from the start takes twice as long where nothing waits: they compete for
    the interpreter.
    """
    results: Dict[str, Any] = {}
    waiting = list(reversed(list(probes.items())))
    finished = threading.Event()

    def work() -> None:
        while True:
            try:
                names, probe = waiting.pop()
            except IndexError:  # another thread took the last one
                break
            results[names] = _run_probe(names, probe, host, selection)
        if len(results) == len(probes):
            finished.set()

    deadline = time.monotonic() + limit
    while waiting and time.monotonic() < deadline and not finished.is_set():
        start_thread(work)
        finished.wait(_PATIENCE)
    finished.wait(max(0.0, deadline - time.monotonic() - _SLICE))
    is_working = True
    while (
        not finished.is_set()
        and is_working
        and time.monotonic() < deadline + (_EXTENSION - 1) * limit
    ):
        used = time.process_time()
        finished.wait(_SLICE)
        is_working = time.process_time() - used > _WORK
    sections: Dict[str, Any] = {}
    for names in probes:
        late = Unknown("timeout", f"the {names} probe did not finish within {limit:g} s")
        sections.update(_split_sections(names.split(), results.get(names, late)))
    return sections


def _run_probe(names: str, probe: Probe, host: Host, selection: PythonSelection) -> Any:
    # The last guard: a probe that crashes must not prevent the report.
    try:
        return probe(host, selection)
    except Exception as error:  # noqa: BLE001 - becomes a fact of the report
        return Unknown("crashed", f"the {names} probe failed: {type(error).__name__}: {error}")


def _split_sections(names: List[str], result: Any) -> Dict[str, Any]:
    if isinstance(result, Unknown):
        return {name: make_unknown_section(name, result) for name in names}
    return dict(zip(names, result)) if len(names) > 1 else {names[0]: result}


def make_unknown_section(name: str, reason: Unknown) -> Any:
    """Build the section `name` of the facts with every fact unknown for `reason`."""
    section = getattr(Facts(), name)
    if section is NOT_STATED:
        return reason
    facts = [field for field in list_fields(section) if getattr(section, field) is NOT_STATED]
    return replace(section, **dict.fromkeys(facts, reason))


DRIVER_RELEASE = "ENVCHECK_DRIVER_RELEASE"
CUDA_DRIVER_VERSION = "ENVCHECK_CUDA_DRIVER_VERSION"
COMPUTE_CAPABILITIES = "ENVCHECK_COMPUTE_CAPABILITIES"
GLIBC = "ENVCHECK_GLIBC"


def apply_overrides(facts: Facts, environment: Variables) -> Facts:
    """Return the facts with every override.

    An invalid one makes its fact unknown and is never ignored.

    ENVCHECK_DRIVER_RELEASE=550.163.01, ENVCHECK_CUDA_DRIVER_VERSION=12.4, ENVCHECK_GLIBC=2.31,
    ENVCHECK_COMPUTE_CAPABILITIES=8.0,8.6
    """
    driver, host = facts.driver, facts.host
    if DRIVER_RELEASE in environment:
        driver = replace(
            driver, release=_parse_override(environment, DRIVER_RELEASE, r"\d+\.\d+(\.\d+)?")
        )
    if CUDA_DRIVER_VERSION in environment:
        driver = replace(
            driver,
            cuda_driver_version=_parse_override(environment, CUDA_DRIVER_VERSION, r"\d+\.\d+"),
        )
    if GLIBC in environment:
        version = _parse_override(environment, GLIBC, r"\d+\.\d+")
        kind = version
        if isinstance(version, Known):
            kind = Known("glibc", version.source)
        host = replace(host, libc_kind=kind, libc_version=version)
    facts = replace(facts, driver=driver, host=host)
    if COMPUTE_CAPABILITIES in environment:
        facts = replace(
            facts, gpus=_override_capabilities(facts.gpus, environment[COMPUTE_CAPABILITIES])
        )
    return facts


def _parse_override(environment: Variables, name: str, pattern: str) -> Fact[str]:
    value = environment[name].strip()
    if not re.match(f"(?:{pattern})$", value):
        return Unknown("unparsable", f"{name}={value[:40]!r} is not a version", (name,))
    return Known(value, Source("override", name, value))


def _override_capabilities(gpus: Fact[Tuple[Gpu, ...]], value: str) -> Fact[Tuple[Gpu, ...]]:
    # In order: the first capability is the first GPU's. More capabilities than GPUs add GPUs.
    capabilities = [part.strip() for part in value.split(",")]
    if not all(re.match(r"\d+\.\d$", capability) for capability in capabilities):
        detail = f"{COMPUTE_CAPABILITIES}={value[:40]!r} is not a list of compute capabilities"
        return Unknown("unparsable", detail, (COMPUTE_CAPABILITIES,))
    source = Source("override", COMPUTE_CAPABILITIES, value)
    known: List[Gpu] = list(gpus.value or [])
    known.extend(Gpu() for _ in range(len(capabilities) - len(known)))
    changed = [
        replace(gpu, compute_capability=Known(each, source))
        for gpu, each in zip(known, capabilities)
    ]
    return Known((*changed, *known[len(capabilities) :]), source)


# Accounts of images and clouds, and names of folders: they name no person.
_IMPERSONAL = frozenset(
    "root user users admin administrator ubuntu debian centos fedora ec2-user azureuser jovyan "  # noqa: SIM905
    "vscode runner nobody app worker opt usr lib bin etc var tmp home cuda nvidia python conda "
    "anaconda3 miniconda3".split()
)
_OTHER_HOMES = (
    r"(?P<homes>/home/|/Users/|/export/home/|[A-Za-z]:\\Users\\)(?P<name>[^/\\\s:;,'\"]+)"
)


class Redactor:
    """Redact this user's home and name, other users' names, and credentials in URLs."""

    def __init__(self, home: str, user: str) -> None:
        home = home.rstrip("/\\")
        parts = []
        if len(home) > 1:
            # Not within a path: /opt/rh/gcc-toolset-13/root is nobody's home.
            parts.append(
                rf"(?:(?<![\w.-])|(?<=-[BILR]))(?P<home>{re.escape(home)})(?=$|[/\\:;,'\"\s)\]])"
            )
        parts.append(_OTHER_HOMES)
        if user.lower() not in _IMPERSONAL and len(user) > 1:
            parts.append(rf"(?<![\w.-])(?P<user>{re.escape(user)})(?![\w])")
        self._pattern: Pattern[str] = re.compile("|".join(parts))

    @classmethod
    def from_environment(cls, environment: Variables) -> "Redactor":
        """Redact the home and user name of an environment."""
        home = environment.get("HOME") or environment.get("USERPROFILE") or ""
        user = (
            environment.get("USER")
            or environment.get("LOGNAME")
            or environment.get("USERNAME")
            or ""
        )
        return cls(home, user or posixpath.basename(home.replace("\\", "/").rstrip("/")))

    def redact_text(self, text: str) -> str:
        """Redact one string."""
        return self._pattern.sub(_redact_match, hide_url_secrets(text))

    def redact(self, value: Any) -> Any:
        """Redact every string in a fact, a record or a container.

        Return an unchanged record itself.
        """
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, (tuple, list)):
            return tuple(map(self.redact, value))
        if isinstance(value, Mapping):
            return {self.redact_text(key): self.redact(item) for key, item in value.items()}
        before = [getattr(value, name) for name in list_fields(value)]
        after = [self.redact(item) for item in before]
        if all(new is old or new == old for new, old in zip(after, before)):
            return value
        return type(value)(*after)


def _redact_match(match: "re.Match[str]") -> str:
    groups = match.groupdict()
    if groups.get("home"):
        return "~"
    if groups.get("user"):
        return "$USER"
    name = str(groups["name"])
    return str(groups["homes"]) + (name if name.lower() in _IMPERSONAL else "<user>")
