"""Import the frameworks and the packages that require them, each in its own process.

Only the environment may decide how an import ends. It starts in an empty folder, writes no
bytecode, and finds its caches and its configuration in a private folder; HOME stays, since the
packages of the user lie there.
"""

from __future__ import annotations

import fnmatch
import os
import re
import tempfile
import time
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from envcheck.frameworks import companions, framework_of, identity
from envcheck.host.data_files import load_data, read_packaged
from envcheck.host.documents import parse_object
from envcheck.host.files import find_trust_problem, read_as_fact, read_file
from envcheck.host.known_variables import load_known_variables
from envcheck.host.limits import (
    MEMORY,
    NOT_STARTED,
    OUTPUT,
    TIME,
    LimitedRun,
    Limits,
    run_with_limits,
)
from envcheck.host.paths import expand_path, type_path
from envcheck.host.protocol import Host, Variables
from envcheck.host.system import read_available_memory
from envcheck.model import (
    FAILED,
    PASSED,
    UNPROVEN,
    USE,
    Absent,
    Citation,
    Distribution,
    Fact,
    ImportTest,
    Known,
    PythonFacts,
    Source,
    canonical_name,
    dataclass,
    replace,
)
from envcheck.model.text import FRAME, read_tracebacks
from envcheck.model.versions import name_needs
from envcheck.probes.installed_files import hash_content

_PRINTED = 12000  # characters kept of what a failed import prints; its end says why
_LOG_LIMIT = 16 << 20  # bytes of a log
_LEAST = 0.3  # seconds, below which no import is begun
_FROM_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGXCPU")

Watch = Callable[[str, int, int], None]  # what is imported now, how many were, of how many


@dataclass
class ActingImport:
    """A distribution, or a pattern of their names, whose import does more than load code."""

    distribution: str
    does: str
    citation: Citation


@dataclass
class OutsideReason:
    """What the end of a failed import says, and what outside the environment it is."""

    words: str
    reason: str


@dataclass
class ImportRules:
    """The content of data/program/imports.json."""

    private: Tuple[str, ...]
    computing: Mapping[str, str]  # framework -> a line of Python
    on_cpu: Mapping[str, str]  # variables of a computation
    acting: Tuple[ActingImport, ...]
    outside: Tuple[OutsideReason, ...]


def load_import_rules() -> ImportRules:
    """Load how imports are tried."""
    return load_data("program/imports", ImportRules)


def find_reason_not_to_import(host: Host, python: PythonFacts) -> str:
    """Return why code of an environment is not run unasked, "" where it may be."""
    if not isinstance(python.executable, Known) or not isinstance(python.distributions, Known):
        return "no environment was read"
    if python.is_found:
        return f"found here; envcheck doctor --env {type_path(python.prefix.value or '')}"
    places = {item.location for item in python.distributions.value if item.location} | {
        python.executable.value
    }
    problems = (find_trust_problem(host, expand_path(place)) for place in sorted(places))
    problem = next(filter(None, problems), "")
    return f"root runs no code that others may change: {problem}" if problem else ""


def collect_imports(
    python: PythonFacts, seconds: float, watch: Watch
) -> Fact[Tuple[ImportTest, ...]]:
    """Import the frameworks of an environment, then what requires them.

    Beside damaged files each framework computes, too: an import loads files whose names it does not
    need. All of it within `seconds`.
    """
    chosen = list(list_imports(python))
    if not chosen:
        return Absent(("distributions",))
    program = expand_path(python.executable.value or "")
    until = time.monotonic() + seconds
    tests: List[ImportTest] = []
    with tempfile.TemporaryDirectory(prefix="envcheck-import-") as folder:
        attempt = _Attempt(program, folder, seconds)
        for place, (item, modules) in enumerate(chosen):
            watch(item.name, place, len(chosen))
            test = attempt.make(item, modules, until - time.monotonic())
            code = load_import_rules().computing.get(test.module)
            if code and test.outcome == PASSED and python.file_faults.value:
                computed = attempt.make(item, (*modules, f"={code}"), until - time.monotonic())
                test = replace(computed, stage=USE) if computed.outcome == FAILED else test
            tests.append(replace(test, altered=tuple(_list_altered(python, test.printed))))
    return Known(
        tuple(tests),
        Source("command", f"{python.executable.value} -B -c 'import {tests[0].module}'"),
    )


def list_imports(python: PythonFacts) -> Iterator[Tuple[Distribution, Tuple[str, ...]]]:
    """Yield what to import, each with its modules.

    The frameworks, then what requires one of them.
    """
    installed = {item.name: item for item in python.distributions.value or ()}
    seen = set()
    for build in python.frameworks.value or ():
        known = identity(build.framework)
        item = installed.get(known.main) or installed.get(canonical_name(build.distribution))
        if item is not None and build.framework not in seen:
            seen.add(build.framework)
            yield item, (f"{known.name}:",)
    for left in python.install_leftovers.value or ():
        name = framework_of(left.distribution) if left.kind == "unowned" else ""
        if name and name not in seen:  # its metadata is lost; whether its code is, the import tells
            seen.add(name)
            yield Distribution(left.distribution, left.release), (f"{name}:",)
    # those with compiled code first
    for item in sorted(_list_on_top(installed), key=lambda item: item.name not in companions()):
        yield item, choose_modules(item)


def _list_on_top(installed: Mapping[str, Distribution]) -> List[Distribution]:
    """List what imports a framework, whatever it requires on the way: TensorFlow Hub, tf-keras.

    Beside what requires one, what a person installed for one: nothing requires it, and an extra of
    it names a framework.
    """
    plain = {name: name_needs(item.requires) for name, item in installed.items()}
    leaves = set(installed).difference(*plain.values())
    choosing = (row.package for row in load_known_variables().effects if row.default)
    on_top = {*companions(), *choosing}  # Keras 3 requires no framework, and imports one
    for name in leaves:
        if any(map(framework_of, name_needs(installed[name].requires, by_extra=True))):
            on_top.add(name)
    size = 0
    while size != len(on_top):
        size = len(on_top)
        for name, needs in plain.items():
            if needs & on_top or any(map(framework_of, needs)):
                on_top.add(name)
    return [item for name, item in installed.items() if name in on_top and not framework_of(name)]


_NO_CODE = re.compile(r"_|tests?$|docs?$|examples?$|benchmarks?$|scripts?$|tools$")


def choose_modules(item: Distribution) -> Tuple[str, ...]:
    """Name the modules by which a distribution is imported.

    The one of its own name, else what it owns.
    """
    own = item.name.replace("-", "_")
    if own in item.modules or not item.modules:
        return (own,)
    parts = item.name.split(
        "-"
    )  # orbax-checkpoint: orbax alone is a namespace, which holds nothing
    package = os.path.join(expand_path(item.location), *parts, "__init__.py")
    if item.location and os.path.isfile(package):
        return (".".join(parts),)
    return tuple(name for name in item.modules if not _NO_CODE.match(name))[:2] or item.modules[:1]


def _find_acting(name: str) -> str:
    rows = load_import_rules().acting
    return next((row.does for row in rows if fnmatch.fnmatchcase(name, row.distribution)), "")


class _Attempt:
    """Runs imports one after another, with one private folder for all of them."""

    def __init__(self, program: str, folder: str, seconds: float) -> None:
        self._program, self._seconds, self._log = program, seconds, os.path.join(folder, "log")
        self._empty, private = os.path.join(folder, "empty"), os.path.join(folder, "private")
        for path in (self._empty, private):
            os.mkdir(path)
        self._environment = _isolate(os.environ, private)
        self._source = read_packaged("probes", "children", "import_modules.py").decode("utf-8")

    def make(self, item: Distribution, modules: Sequence[str], left: float) -> ImportTest:
        test = ImportTest(item.name, item.version, modules[0].rstrip(":"), UNPROVEN)
        acts = _find_acting(item.name)
        if acts:
            return replace(test, reason=f"its import {acts}")
        if left < _LEAST:
            return replace(test, reason=f"no time was left of {self._seconds:g} s")
        free = read_available_memory()
        limits = Limits(left, None if free is None else free // 2, _LOG_LIMIT)
        computes = modules[-1].startswith("=")
        environment = {**self._environment, **(load_import_rules().on_cpu if computes else {})}
        argv = (self._program, "-B", "-X", "faulthandler", "-c", self._source, *modules)
        ended = run_with_limits(
            argv, environment, self._log, limits, lambda _: None, folder=self._empty
        )
        return read_ending(test, ended, self._read_log(), limits)

    def _read_log(self) -> str:
        return (_read(self._log) or b"").decode("utf-8", "replace")


def _isolate(environment: Variables, private: str) -> Dict[str, str]:
    """Return the variables of an import: as they are, but for the folders that it writes to."""
    made = {**environment, "PYTHONDONTWRITEBYTECODE": "1"}
    made.update(dict.fromkeys(load_import_rules().private, private))
    # Keras chooses what it computes with by this file, and writes it where it is missing.
    settings = os.path.join(
        environment.get("KERAS_HOME") or os.path.expanduser("~/.keras"), "keras.json"
    )
    text = _read(settings)
    if text is not None:
        with open(os.path.join(private, "keras.json"), "wb") as stream:
            stream.write(text)
    return made


def read_ending(test: ImportTest, ended: LimitedRun, log: str, limits: Limits) -> ImportTest:
    r"""Return what the end of an import shows.

    Sample of a report: '{"error": "Traceback (most recent call last):\n ...\nImportError:
    libcudart.so.12: ..."}'
    """
    took = {"seconds": round(ended.seconds, 2)}
    reasons = {
        TIME: f"it did not end within {limits.seconds:.0f} s",
        MEMORY: f"it took more than half of the free memory ({(limits.memory or 0) >> 20} MiB)",
        OUTPUT: "it printed without end",
    }
    if ended.ended in reasons:
        return replace(test, reason=reasons[ended.ended], **took)
    if ended.ended == NOT_STARTED:
        return replace(test, outcome=FAILED, printed=ended.detail)
    answer = parse_object(ended.report)
    if "seconds" in answer:
        return replace(test, outcome=PASSED, **took)
    name = ended.signal
    if name in _FROM_OUTSIDE:
        return replace(test, reason=f"{name} ended it", **took)
    died = f"it was ended by {name}" if name else f"its Python ended with status {ended.code}"
    printed = str(answer.get("error") or f"{log.rstrip()}\n{died}".lstrip())
    outside = _find_outside(printed)
    if outside:
        return replace(test, reason=outside, **took)
    if "error" in answer and log.strip():
        printed = f"{log.rstrip()[-_PRINTED // 2 :]}\n{printed}"
    front = answer.get("front")
    folders = tuple(map(str, front)) if isinstance(front, list) else ()
    failed = replace(test, outcome=FAILED, printed=printed.rstrip()[-_PRINTED:], front=folders)
    return replace(failed, **took)


# ends an exception: cannot import name 'a' from 'b' (/s/b.py)
_PLACE = re.compile(r"\(((?:/|[A-Z]:)[^()\n]+\.py)\)$")


def _list_altered(python: PythonFacts, printed: str) -> Iterator[str]:
    """Yield the files of a traceback that are not as installed: first those that it blames."""
    chain = read_tracebacks(printed)
    named = [found[1] for found in (_PLACE.search(words) for _, words in chain) if found]
    named += [file for file, _ in chain]
    locations = {item.location for item in python.distributions.value or () if item.location}
    for path in dict.fromkeys(named):
        for location in locations:
            inside = path[len(expand_path(location)) + 1 :].replace("\\", "/")
            if path.startswith(expand_path(location) + os.sep) and _is_altered(
                expand_path(location), inside
            ):
                yield path
    faults = {
        f"{expand_path(each.location)}/{each.path}" for each in python.file_faults.value or ()
    }
    yield from (path for path in FRAME.findall(printed) if path in faults)


def _is_altered(location: str, inside: str) -> bool:
    """Return whether a RECORD of a folder lists a file with another hash than it has."""
    content = _read(os.path.join(location, inside))
    pattern = rf"^{re.escape(inside)},sha256=([\w-]+),".encode()
    for name in os.listdir(location) if content is not None else ():
        if name.endswith(".dist-info"):
            record = _read(os.path.join(location, name, "RECORD")) or b""
            listed = re.search(pattern, record, re.MULTILINE)
            if listed:
                return listed[1].decode() != hash_content(content or b"")
    return False


def _read(path: str) -> Optional[bytes]:
    return read_as_fact(path, lambda: read_file(path, _LOG_LIMIT)).value


def _find_outside(printed: str) -> str:
    """Return what outside the environment ended an import, by its last words; "" for nothing."""
    last = "\n".join(printed.rstrip().splitlines()[-3:])
    rows = load_import_rules().outside
    return next((row.reason for row in rows if re.search(row.words, last, re.MULTILINE)), "")
