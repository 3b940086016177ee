"""Run every probe and join their facts into one snapshot."""

from __future__ import annotations

import posixpath
import re
import sys
import threading
import time
from typing import Any, Callable, Collection, Dict, List, Mapping, Pattern, Tuple

from envcheck import __version__
from envcheck.host.process import start_thread
from envcheck.host.protocol import Host, UnrecordedError
from envcheck.model import SCHEMA_VERSION, Fact, Facts, Gpu, Known, Snapshot, Source, Unknown, list_fields, replace
from envcheck.probes.driver import collect_driver
from envcheck.probes.gpus import collect_gpus
from envcheck.probes.host import collect_host
from envcheck.probes.python import PythonSelection, collect_python


def make_unknown_section(owner: Any, name: str, reason: Unknown) -> Any:
    """Return the value of field `name` of `owner` with every fact unknown for `reason`."""
    annotation = str(owner.__annotations__[name])
    if annotation.startswith("Fact["):
        return reason
    section = getattr(sys.modules[owner.__module__], annotation)
    facts = [fact for fact in list_fields(section) if str(section.__annotations__[fact]).startswith("Fact[")]
    return section(**dict.fromkeys(facts, reason))


DRIVER_RELEASE = "ENVCHECK_DRIVER_RELEASE"
CUDA_DRIVER_VERSION = "ENVCHECK_CUDA_DRIVER_VERSION"
COMPUTE_CAPABILITIES = "ENVCHECK_COMPUTE_CAPABILITIES"
GLIBC = "ENVCHECK_GLIBC"


def apply_overrides(facts: Facts, environment: Mapping[str, str]) -> Facts:
    """Return the facts with every override applied; a malformed one makes its fact unknown, never ignored.

    ENVCHECK_DRIVER_RELEASE=550.163.01, ENVCHECK_CUDA_DRIVER_VERSION=12.4, ENVCHECK_GLIBC=2.31,
    ENVCHECK_COMPUTE_CAPABILITIES=8.0,8.6
    """
    driver, host = facts.driver, facts.host
    if DRIVER_RELEASE in environment:
        driver = replace(driver, release=_stated(environment, DRIVER_RELEASE, r"\d+\.\d+(\.\d+)?"))
    if CUDA_DRIVER_VERSION in environment:
        driver = replace(driver, cuda_driver_version=_stated(environment, CUDA_DRIVER_VERSION, r"\d+\.\d+"))
    if GLIBC in environment:
        version = _stated(environment, GLIBC, r"\d+\.\d+")
        kind = Known("glibc", version.source) if isinstance(version, Known) else version
        host = replace(host, libc_kind=kind, libc_version=version)
    facts = replace(facts, driver=driver, host=host)
    if COMPUTE_CAPABILITIES in environment:
        facts = replace(facts, gpus=_with_capabilities(facts.gpus, environment[COMPUTE_CAPABILITIES]))
    return facts


def _stated(environment: Mapping[str, str], name: str, pattern: str) -> Fact[str]:
    value = environment[name].strip()
    if not re.match(f"(?:{pattern})$", value):
        return Unknown("unparsable", f"{name}={value[:40]!r} is no version", (name,))
    return Known(value, Source("override", name, value))


def _with_capabilities(gpus: Fact[Tuple[Gpu, ...]], value: str) -> Fact[Tuple[Gpu, ...]]:
    # In order: the first capability is the first GPU's. More capabilities than GPUs add GPUs.
    stated = [part.strip() for part in value.split(",")]
    if not all(re.match(r"\d+\.\d$", capability) for capability in stated):
        detail = f"{COMPUTE_CAPABILITIES}={value[:40]!r} is no list of capabilities"
        return Unknown("unparsable", detail, (COMPUTE_CAPABILITIES,))
    source = Source("override", COMPUTE_CAPABILITIES, value)
    known: List[Gpu] = list(gpus.value) if isinstance(gpus, Known) else []
    known.extend(Gpu() for _ in range(len(stated) - len(known)))
    changed = [replace(gpu, compute_capability=Known(stated[i], source)) for i, gpu in enumerate(known[: len(stated)])]
    return Known((*changed, *known[len(stated) :]), source)


# Accounts that images and clouds hand out, and names that folders bear: they tell nobody's name.
_IMPERSONAL = frozenset(
    "root user users admin administrator ubuntu debian centos fedora ec2-user azureuser jovyan vscode runner "  # noqa: SIM905
    "nobody app worker opt usr lib bin etc var tmp home cuda nvidia python conda anaconda3 miniconda3".split()
)
_CREDENTIALS = r"(?P<scheme>[a-zA-Z][\w+.-]*://)[^/\s@]+@"
_OTHER_HOMES = r"(?P<homes>/home/|/Users/|/export/home/|[A-Za-z]:\\Users\\)(?P<name>[^/\\\s:;,'\"]+)"


class Redactor:
    """Replace this user's home by ~, the user name by $USER, other users' names and URL credentials."""

    def __init__(self, home: str, user: str) -> None:
        self._home = home.rstrip("/\\")
        personal = user.lower() not in _IMPERSONAL and len(user) > 1
        self._user = re.escape(user) if personal else ""
        self._pattern = self._compile()

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Redactor":
        """Take home and user name from a machine's environment."""
        home = environment.get("HOME") or environment.get("USERPROFILE") or ""
        user = environment.get("USER") or environment.get("LOGNAME") or environment.get("USERNAME") or ""
        return cls(home, user or posixpath.basename(home.replace("\\", "/").rstrip("/")))

    def _compile(self) -> Pattern[str]:
        parts = [_CREDENTIALS]
        if len(self._home) > 1:
            parts.append(rf"(?P<home>{re.escape(self._home)})(?=$|[/\\:;,'\"\s)\]])")
        parts.append(_OTHER_HOMES)
        if self._user:
            parts.append(rf"(?<![\w.-])(?P<user>{self._user})(?![\w])")
        return re.compile("|".join(parts))

    def text(self, value: str) -> str:
        """Redact one string."""
        return self._pattern.sub(_replacement, value)

    def value(self, value: Any) -> Any:
        """Redact every string in a fact, a model value or a container; unchanged values are kept as they are."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (tuple, list)):
            return tuple(self.value(item) for item in value)
        if isinstance(value, Mapping):
            return {self.text(key): self.value(item) for key, item in value.items()}
        return self._model(value, list_fields(value))

    def _model(self, value: Any, names: Tuple[str, ...]) -> Any:
        before = [getattr(value, name) for name in names]
        after = [self.value(item) for item in before]
        if all(new is old or new == old for new, old in zip(after, before)):
            return value
        return type(value)(*after)


def _replacement(match: "re.Match[str]") -> str:
    groups = match.groupdict()
    if groups.get("scheme"):
        return f"{groups['scheme']}***@"
    if groups.get("home"):
        return "~"
    if groups.get("user"):
        return "$USER"
    return str(groups["homes"]) + _other_user(str(groups["name"]))


def _other_user(name: str) -> str:
    return name if name.lower() in _IMPERSONAL else "<user>"


Probe = Callable[[Host, PythonSelection], Any]


# What a plan for the CPU leaves out is not imported for it either.
def _toolkits(host: Host, _: PythonSelection) -> Any:
    from envcheck.probes.toolkit import collect_toolkits

    return collect_toolkits(host)


def _compilers(host: Host, _: PythonSelection) -> Any:
    from envcheck.probes.compilers import collect_compilers

    return collect_compilers(host)


def _libraries(host: Host, _: PythonSelection) -> Any:
    from envcheck.probes.cuda_libraries import collect_libraries

    return collect_libraries(host)


# Section of the snapshot -> how to read it. The cuDNN probe reads three sections at once.
PROBES: Dict[str, Probe] = {
    "python": collect_python,
    "toolkits": _toolkits,
    "compilers": _compilers,
    "driver": lambda host, _: collect_driver(host),
    "gpus": lambda host, _: collect_gpus(host),
    "cudnn tensorrt nccl": _libraries,
    "host": lambda host, _: collect_host(host),
}

_OWN_CHOICE = PythonSelection()  # the active environment, or what runs this program
_PATIENCE = 0.015  # seconds until the next probe is started beside one that waits
_LIMIT = 4.5  # seconds for all probes; one that still reads then (a dead network mount) is given up


def collect(host: Host, selection: PythonSelection = _OWN_CHOICE, without: Collection[str] = ()) -> Snapshot:
    """Read every fact of a machine, all probes at once, and redact them before anything else sees them.

    The probes named in `without` are left out: what they would read is not stated.
    """
    probes = {names: probe for names, probe in PROBES.items() if names not in without}
    sections = _run_probes(probes, host, selection)
    facts = apply_overrides(Facts(**sections), host.environment())
    redactor = Redactor.of(host.environment())
    name = str(host.system_facts().get("node", ""))
    taken_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return Snapshot(SCHEMA_VERSION, __version__, redactor.text(name), taken_at, redactor.value(facts))


def _run_probes(probes: Mapping[str, Probe], host: Host, selection: PythonSelection) -> Dict[str, Any]:
    """Run the probes one after the other; while one waits for a program or a dead mount, others go on beside it.

    A thread for each from the start takes twice as long where nothing waits: they fight for the interpreter.
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
            _run_probe(probe, host, selection, results, names)
        if len(results) == len(probes):
            finished.set()

    deadline = time.monotonic() + _LIMIT
    while waiting and time.monotonic() < deadline and not finished.is_set():
        start_thread(work)
        finished.wait(_PATIENCE)
    finished.wait(max(0.0, deadline - time.monotonic()))
    return _sections(probes, dict(results))


def _run_probe(probe: Probe, host: Host, selection: PythonSelection, results: Dict[str, Any], names: str) -> None:
    # The guard of the whole tool: a probe that crashes must not take the report with it.
    try:
        results[names] = probe(host, selection)
    except UnrecordedError as error:
        results[names] = error
    except Exception as error:  # noqa: BLE001 - becomes a fact that the report shows
        results[names] = Unknown("crashed", f"the {names} probe failed: {type(error).__name__}: {error}")


def _sections(probes: Mapping[str, Probe], results: Dict[str, Any]) -> Dict[str, Any]:
    sections: Dict[str, Any] = {}
    for names in probes:
        result = results.get(names, Unknown("timeout", f"the {names} probe did not finish within {_LIMIT} s"))
        if isinstance(result, UnrecordedError):
            raise result
        sections.update(_by_name(tuple(names.split()), result))
    return sections


def _by_name(names: Tuple[str, ...], result: Any) -> Dict[str, Any]:
    if isinstance(result, Unknown):
        return {name: make_unknown_section(Facts, name, result) for name in names}
    return dict(zip(names, result)) if len(names) > 1 else {names[0]: result}
