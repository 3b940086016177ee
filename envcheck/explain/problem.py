"""What a log tells about a cause: the problem and the machine that its remedy is made for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, TypeVar

from envcheck.actions import is_requirement
from envcheck.explain.facts import all_facts
from envcheck.explain.log import COMPILING, FRAMEWORKS, Claim, Log, Strength, digits, framework_of_message, number
from envcheck.explain.reasons_cuda import PROFILER, TOOLKIT, cudnn_number, parse_library, providers
from envcheck.explain.reasons_python import admitted_rows, is_users_file, requirement_parts
from envcheck.frameworks import Framework, identities, identity
from envcheck.matrix.gpus import find_capabilities
from envcheck.model import Fact, FrameworkRelease, Known, Problem, Source, Unknown, numbers, replace
from envcheck.remedies.rows import remedy_table, value_names
from envcheck.remedies.situation import Situation
from envcheck.remedies.system import system_packages
from envcheck.rules.context import Context
from envcheck.rules.gpu_releases import driver_floor, full_driver, toolkit_of

T = TypeVar("T")
Filled = dict[str, Any]  # fields of a Problem


def problem_of(log: Log, claim: Claim) -> Problem:
    """State what a claim is about; every value has the shape of its kind, or is left out."""
    told = ClaimValues(log, claim)
    fill = _FILLS.get(claim.id)
    filled = fill(told) if fill else {}
    own = dict(filled.pop("values", {}))
    shown = {name: told.value(name) for name in value_names(claim.id)}
    values = {name: value for name, value in {**shown, **own}.items() if value}
    usual = {"framework": told.framework, "release": told.release, "compiles": told.compiles}
    return Problem(values=tuple(values.items()), **{"cases": told.signatures, **usual, **filled})


def situation_of(log: Log, claim: Claim) -> Situation:
    """Return the machine as a log states it, with the options by which the planner plans for it."""
    told = ClaimValues(log, claim)
    return Situation(told.context, _plan_options(told), from_log=True)


def machine_situation(log: Log, context: Context) -> Situation:
    """Return the machine that the rules judged by the facts and the log."""
    return Situation(
        context, _plan_options(ClaimValues(log, Claim("", Strength.UNSUPPORTED, ""))), from_log=not log.with_facts
    )


# The values of a log, each with the shape of its kind.

_VERSION = r"\d{1,4}(?:\.\d{1,8}){0,4}(?:[a-z]{1,4}\d{1,3})?"
_NAME = r"[A-Za-z0-9][A-Za-z0-9_]*(?:[.-][A-Za-z0-9_]+)*"
_PATH = r"(?:[A-Za-z]:)?[\w./\\~][\w ./\\+@()~-]*"
_CLAUSES = r"(?:(?:===|==|>=|<=|!=|~=|<|>)[0-9][A-Za-z0-9.*+!-]*,?)*"
_VERSIONS = (
    "cc_min", "clang_limit", "cuda_wanted", "cudnn_built", "cudnn_loaded", "gcc", "gcc_max", "gcc_min",
    "driver_wanted", "gcc_over", "glibc_wanted", "hdf5", "nvcc", "ptx", "torch_cuda", "version",
)  # fmt: skip
# Captures that may be shown, and the shape of each; what is not listed never enters a remedy.
SHAPES = {
    **dict.fromkeys(_VERSIONS, _VERSION),
    **dict.fromkeys(("missing_module", "module", "name", "package", "process"), _NAME),
    "image_platform": r"[a-z0-9]+/[a-z0-9]+(?:/v\d)?",
    "library": r"[\w./+-]+",
    "mig": r"MIG-[\w/-]+",
    "node": r"(?:GLIBCXX|CXXABI)_[\d.]+",
    "path": _PATH,
    "pid": r"\d{1,8}",
    "requirement": rf"[A-Za-z0-9][\w.-]*(?:\[[\w,-]+\])?{_CLAUSES}",
    "std": r"c\+\+\d\d",
    "visible": r"-?[\w,-]*",
    "xid": r"\d{1,3}",
}
_WINDOWS = ("win-", "winerror", "msvc-", "tensorflow-intel", "tf-windows", "tdr")
_SYSTEMS = ("ubuntu", "debian", "fedora", "centos", "rocky", "almalinux", "arch", "manjaro", "opensuse", "linuxmint")
_CONTAINERS = {"apptainer-nv": "apptainer", "k8s-insufficient-gpu": "kubernetes", "device-plugin-nvml": "kubernetes"}
_IN_CONTAINERS = ("forward-compat-804", "image-driver", "container-", "docker-", "cuda-compat-unavailable")


class ClaimValues:
    """The values of one claim's messages, then those of the whole log."""

    def __init__(self, log: Log, claim: Claim) -> None:
        self.log, self.claim = log, claim

    def value(self, name: str) -> str:
        """Return a value by its name, "" where the log does not tell it or it has not the shape of its kind."""
        derive = DERIVED.get(name)
        return derive(self) if derive else self.captured(name)

    def captured(self, name: str) -> str:
        """Return a captured value: of the claim's own messages first."""
        shape = SHAPES.get(name)
        found = self.own(name) or self.log.first(name)
        return match_shape(found.strip(".,:;"), shape) if shape else ""

    def own(self, name: str) -> str:
        """Return what the claim's own messages captured under a name, whatever its shape; "" where nothing."""
        return next((event.captured[name] for event in self.claim.events if event.captured.get(name)), "")

    @property
    def signatures(self) -> tuple[str, ...]:
        """Name the messages behind the claim."""
        return tuple(event.signature for event in self.claim.events)

    @property
    def text(self) -> str:
        """Return the claim's messages as one text."""
        return " ".join(event.text for event in self.claim.events)

    @cached_property
    def framework(self) -> str:
        """Name the framework the claim is about: by its messages, then by what is installed, then by the log."""
        others = " ".join(event.text for event in self.log.events)
        starts = {item.name: item.log_signatures for item in identities()}
        named = {name for name, first in starts.items() if any(item.startswith(first) for item in self.signatures)}
        for found in (named, *(_named(text) for text in (self.text, " ".join(self.log.packages), others))):
            borrowing = (item for item in FRAMEWORKS if found == {item.name, *item.log_words_of_others})
            owner = next(borrowing, None) if len(found) > 1 else None
            if owner and not any(name in self.text for name in owner.log_words_of_others):
                return owner.name
            if found:
                return next(item.name for item in FRAMEWORKS if item.name in found)
        return next((item.name for item in FRAMEWORKS if set(self.signatures) & set(item.log_guesses)), "")

    @property
    def release(self) -> str:
        """Return the version of that framework, its local part as well; "" not told."""
        found = self.log.release_of(identity(self.framework)) if self.framework else ""
        return match_shape(found, rf"{_VERSION}(?:\+[a-z0-9.]+)?")

    @property
    def labelled_release(self) -> str:
        """Return the version of a framework whose versions have labels; "" of any other."""
        return self.release if self.framework and identity(self.framework).index else ""

    @property
    def system(self) -> str:
        """Name the operating system, by the claim's messages where the log does not tell it."""
        windows = any(name.startswith(_WINDOWS) for name in self.signatures) or "win_amd64" in self.text
        return self.log.os or ("windows" if windows else "")

    @property
    def compiles(self) -> bool:
        """Tell whether it is a build of CUDA code that fails."""
        return bool(COMPILING & set(self.signatures))

    @cached_property
    def context(self) -> Context:
        """Return the machine as the facts and the log tell it; the rest stays unknown."""
        facts = all_facts(self.log)
        host, python, named = facts.host, facts.python, self.log.first("os").lower()
        distribution = next((name for name in _SYSTEMS if name in named), "")
        version = re.search(r"\b\d{1,2}(?:\.\d{2})?\b", named) if distribution else None
        host = replace(
            host,
            os=_or(host.os, self.system),
            container=_or(host.container, self._container),
            wsl_version=_or(host.wsl_version, 2 if self.log.in_wsl else None),
            distribution_id=_or(host.distribution_id, distribution),
            distribution_version=_or(host.distribution_version, version.group() if version else ""),
            architecture=_or(host.architecture, self.log.architecture),
        )
        python = replace(python, kind=_or(python.kind, "conda" if self.log.values("conda") else ""))
        return Context(replace(facts, host=host, python=python), self.log.matrix)

    @property
    def _container(self) -> str:
        kind = next((_CONTAINERS[name] for name in self.signatures if name in _CONTAINERS), "")
        inside = self.log.in_container or any(name.startswith(_IN_CONTAINERS) for name in self.signatures)
        return kind or ("docker" if inside else "")

    @cached_property
    def row(self) -> FrameworkRelease | None:
        """Return the matrix' row of the release that the log names."""
        return Situation(self.context).release_row(self.framework, self.release)


def _or(fact: Fact[T], told: T | None) -> Fact[T]:
    return Known(told, Source("file", "log")) if told and isinstance(fact, Unknown) else fact


def _named(text: str) -> set[str]:
    return {item.name for item in identities() if re.search(item.log_words, text, re.IGNORECASE)}


def match_shape(text: str, shape: str) -> str:
    """Return a text that has a shape whole, else ""."""
    return text if len(text) <= 200 and re.fullmatch(shape, text, re.ASCII) else ""


def answerable(name: str) -> bool:
    """Tell whether there is a value of that name for some log."""
    return name in DERIVED or name in SHAPES


# Values that are worked out of what a log captured.


def _pids(told: ClaimValues) -> str:
    rows = (event.captured for event in told.claim.events if "pid" in event.captured)
    found = [match_shape(row["pid"], SHAPES["pid"]) for row in rows if row.get("kind", "C") == "C"]
    found += _largest(told)
    return " ".join([pid for pid in dict.fromkeys(found) if pid and int(pid) > 1][:16])


def _largest(told: ClaimValues) -> list[str]:
    """Find the process that PyTorch says holds most: in a container the program itself may be in its list, too."""
    rows = re.findall(r"\bProcess (\d{2,8}) has (\d+(?:\.\d+)?) GiB", told.text)
    return [max(rows, key=lambda row: float(row[1]))[0]] if rows else []


def _users_file(told: ClaimValues) -> str:
    """Name the user's own file that stands in the way; "" for one of an installed package."""
    paths = (event.captured.get("path", "") for event in told.claim.events)
    found = (match_shape(path, _PATH) for path in paths if path and is_users_file(path))
    return next((path for path in found if path.endswith(".py") and not path.endswith("__init__.py")), "")


def _renamed(told: ClaimValues) -> str:
    folder, _, name = _users_file(told).replace("\\", "/").rpartition("/")
    return f"{folder}{'/' if folder else ''}my_{name}" if name else ""


def _requirement(told: ClaimValues) -> str:
    """Return what was asked of pip, or the release that uv names."""
    named = re.search(r"\b([a-z][\w-]*)==([\d.]*\d) has no wheels|`([a-z][\w-]*)` \(v([\d.]*\d)\) only has", told.text)
    of_uv = f"{named[1] or named[3]}=={named[2] or named[4]}" if named else ""
    return told.captured("requirement") or of_uv


def _plain_requirement(told: ClaimValues) -> str:
    found = _requirement(told).lower().rstrip(",")
    known = re.split(r"[<>=!~\[]", found)[0] in remedy_table().distributions.values()
    return found if known and is_requirement(found) else ""


def _of_module(name: str) -> str:
    """Return the distribution that is known to bring a module: a name out of a log alone is not installed."""
    return remedy_table().distributions.get(name, "")


def _cudnn_wanted(told: ClaimValues) -> str:
    built = told.captured("cudnn_built")
    return ".".join(map(str, cudnn_number(built)[:3])) if built else ""


def _gencode(told: ClaimValues) -> str:
    """Read the release of protobuf's generated code: "gencode 5.28.3 runtime 4.25.4"."""
    found = re.search(r"\bgencode (\d+\.\d+\.\d+) runtime", told.text)
    return found.group(1) if found else ""


def _tensorrt_major(told: ClaimValues) -> str:
    """Read the major of the library that is asked for, where TensorRT has wheels of it."""
    found = re.match(r"libnv(?:infer|onnxparser)\w*\.so\.(\d+)", told.captured("library"))
    first = numbers(system_packages().tensorrt.first_wheel)[0]
    return found.group(1) if found and int(found.group(1)) >= first else ""


def _torch_label(told: ClaimValues) -> str:
    label = match_shape(told.labelled_release.partition("+")[2], r"cu\d{2,3}|cpu")
    cuda = told.captured("torch_cuda")
    return label or ("cu" + cuda.replace(".", "") if re.fullmatch(r"\d+\.\d", cuda) else "")


def _capability(told: ClaimValues) -> str:
    rows = (event.captured for event in told.claim.events)
    named = [digits(value) for row in rows for value in (row.get("cc"), row.get("sm")) if value]
    known = (item for item in named or told.log.capabilities if told.log.matrix.architecture(item))
    return next(known, "")


def _extension_package(told: ClaimValues) -> str:
    """Name the package whose compiled part complains, by its folder below site-packages."""
    for event in told.claim.events:
        found = re.search(r"(?:site|dist)-packages[/\\]([A-Za-z][A-Za-z0-9_]+)[/\\]", event.text)
        if found and told.log.matrix.framework_of(found.group(1)) is None:
            return found.group(1)
    return ""


def _nvcc_wheel(told: ClaimValues) -> str:
    wheels = told.row.cuda_wheels if told.row else ()
    return next((item for item in wheels if item.startswith("nvidia-cuda-nvcc")), "")


def _framework_extra(told: ClaimValues) -> str:
    return identity(told.framework).gpu_requirement if told.framework else ""


DERIVED: dict[str, Callable[[ClaimValues], str]] = {
    "branch": lambda told: match_shape(told.log.first("branch")[:3], r"\d{3}"),
    "cc": _capability,
    "cc_digits": lambda told: _capability(told).replace(".", ""),
    "cudnn_wanted": _cudnn_wanted,
    "extension_known": lambda told: _of_module(_extension_package(told)),
    "extension_package": _extension_package,
    "framework": lambda told: told.framework,
    "framework_extra": _framework_extra,
    "framework_module": lambda told: told.framework,
    "gcc_of_node": lambda told: remedy_table().gcc_of_symbols.get(told.captured("node"), ""),
    "gencode": _gencode,
    "library_path_full": lambda told: match_shape(told.captured("library"), r"/[\w./+-]+"),
    "line": lambda told: told.text,
    "message": lambda told: told.claim.message,
    "missing_distribution": lambda told: _of_module(told.captured("missing_module")),
    "missing_top": lambda told: told.captured("missing_module").partition(".")[0],
    "nvcc_wheel": _nvcc_wheel,
    "pids": _pids,
    "pids_comma": lambda told: _pids(told).replace(" ", ","),
    "release_line": lambda told: ".".join(told.release.split(".")[:2]) if told.release.count(".") else "",
    "requirement": _requirement,
    "requirement_plain": _plain_requirement,
    "tensorrt_major": _tensorrt_major,
    "torch_label": _torch_label,
    "torch_public": lambda told: told.labelled_release.partition("+")[0],
    "users_file": _users_file,
    "users_file_renamed": _renamed,
}


# The options of `envcheck plan` that a log answers.


def _plan_options(told: ClaimValues) -> tuple[str, ...]:
    log = told.log
    if log.with_facts:
        return ()
    options: list[str] = []
    for option, value, shape in (
        ("--python", log.python, r"3\.\d{1,2}"),
        ("--driver", log.driver or _driver_branch(told), r"\d{3,4}(\.\d+){0,2}"),
        ("--glibc", log.first("glibc"), r"2\.\d{1,2}"),
    ):
        if re.fullmatch(shape, value, re.ASCII):
            options += [option, value]
    for gpu in _gpus(told):
        options += ["--gpu", gpu]
    return tuple(options)


def _gpus(told: ClaimValues) -> tuple[str, ...]:
    """Name each kind of GPU as the planner takes it: by its capability, or a name that stands for one product."""
    stated = _capability(told) if told.own("cc") or told.own("sm") else ""
    if stated:
        return (stated,)  # looking names up takes longer than all the rest
    names = [name for name in told.log.values("gpu") if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ./()-]{2,60}", name)]
    if names:
        single = [name for name in names if len(find_capabilities(name)) == 1]
        if single:
            return tuple(dict.fromkeys(single))[:4]
    return tuple(item for item in told.log.capabilities if told.log.matrix.architecture(item))[:4]


def _driver_branch(told: ClaimValues) -> str:
    """Tell a driver's branch by the newest CUDA that it offers: 11040 or 11.4 is branch 470."""
    api = told.log.first("cuda_api")
    cuda = (
        f"{int(api) // 1000}.{int(api) % 1000 // 10}"
        if re.fullmatch(r"\d{4,5}", api)
        else told.log.first("driver_cuda")
    )
    rows = told.log.matrix.driver_branches() if cuda else ()
    return next((row.branch for row in rows if row.cuda == cuda), "")


# The fields of a problem, by what the cause is.

_OF_ITS_CUDA = ("image-driver", "ptx-", "container-requirement", "forward-compat")  # need the driver of that very CUDA


def _driver(told: ClaimValues) -> Filled:
    """State the least driver for the CUDA that is asked for."""
    cuda = _needed_cuda(told)
    toolkit = toolkit_of(told.context, cuda) if cuda else None
    is_full = any(name.startswith(_OF_ITS_CUDA) for name in told.signatures)
    floor = (full_driver if is_full else driver_floor)(told.context, toolkit) if toolkit else None
    driver = told.captured("driver_wanted") or floor or ""
    return {"driver": driver, "cuda": toolkit.version if toolkit and floor else ""}


def _needed_cuda(told: ClaimValues) -> str:
    """Find the CUDA that the driver does not reach: as a condition names it, or that of the build."""
    for name in ("condition", "needed_cuda", "cuda_wanted"):
        found = re.fullmatch(r"\s*(?:cuda\s*[>=]+\s*)?(\d{1,2}(?:\.\d)?)\s*", told.own(name))
        if found:
            return found.group(1)
    return _wanted_cuda(told)


def _wanted_cuda(told: ClaimValues) -> str:
    """Return the CUDA line that a build asks for: by its release, by the libraries it names; "" where several fit."""
    label = re.fullmatch(r"cu(\d+)(\d)", _torch_label(told))
    stated = f"{label.group(1)}.{label.group(2)}" if label else (told.row.cuda or "" if told.row else "")
    lines = _fitting_lines(told)
    if stated and (not lines or stated in lines):
        return stated
    return lines[0] if len(lines) == 1 else ""


def _fitting_lines(told: ClaimValues) -> tuple[str, ...]:
    """List the CUDA lines that hold every library that is missing, and every one that was opened."""
    missing = [event.captured.get("library") or event.captured.get("library2", "") for event in told.claim.events]
    asked = _holding(told, missing)
    opened = _holding(told, told.log.values("opened"))
    return tuple(line for line in asked if line in opened) or asked


def _holding(told: ClaimValues, names: Iterable[str]) -> tuple[str, ...]:
    libraries = [parse_library(name) for name in names if name]
    held = [providers(told.log.matrix, item) for item in libraries if item.family in (TOOLKIT, PROFILER)]
    known = [lines for lines in held if lines]
    return tuple(line for line in known[0] if all(line in lines for lines in known)) if known else ()


def _toolkit(told: ClaimValues) -> Filled:
    named = (told.captured("cuda_wanted") or told.captured("torch_cuda")) if told.compiles else ""
    cuda = named if re.fullmatch(r"\d{1,2}\.\d", named) else _wanted_cuda(told)
    installed = told.captured("nvcc") or next(iter(told.log.cudas), "")
    folders = (f"/usr/local/cuda-{cuda}",) if cuda and cuda in told.log.cudas else ()
    lines = "" if cuda else " ".join(_fitting_lines(told))
    return {"cuda": cuda, "folders": folders, "values": {"installed": installed, "cuda_lines": lines}}


def _cudnn(told: ClaimValues) -> Filled:
    """State the cuDNN that is asked for: as a message names it, as the release does, as the library's name does."""
    names = (event.captured.get("library", "") for event in told.claim.events)
    library = next((parse_library(name).version for name in names if "cudnn" in name), "")
    wanted = _cudnn_wanted(told) or (told.row.cudnn or "" if told.row else "") or library.partition(".")[0]
    is_plain = re.fullmatch(r"\d{1,2}(?:\.\d{1,2}){0,3}", wanted)
    return {
        "cudnn": wanted if is_plain else "",
        "cuda": _wanted_cuda(told),
        "exact": told.claim.id == "cudnn-too-new",
    }


def _paths(told: ClaimValues) -> Filled:
    """State which copy is meant, or the folders of the library path that was read."""
    if told.captured("torch_cuda") and told.captured("nvcc"):
        return {"values": {"meant": told.captured("torch_cuda")}}
    there = [line for line in _fitting_lines(told) if line in told.log.cudas]
    if there:
        return {"cuda": there[0]}
    return {"folders": tuple(folder for folder in told.log.library_path.split(":") if folder)}


def _compiler(told: ClaimValues) -> Filled:
    """State the newest gcc that this nvcc takes, and the one that is there."""
    matrix = told.log.matrix
    line = told.captured("nvcc") or next(iter(told.log.cudas), "")
    row = matrix.toolkit(line) if line else None
    over, highest = told.captured("gcc_over"), told.captured("gcc_max")
    if over and not highest:
        maxima = (item.gcc_max for item in matrix.toolkits() if item.gcc_max)
        highest = next((gcc for gcc in maxima if number(gcc) < number(over)), "")
    highest = highest or (row.gcc_max or "" if row else "")
    version = told.captured("gcc") or _host_version(told)
    return {"cuda": line, "values": {"highest": highest, "kind": "gcc", "version": version}}


def _host_version(told: ClaimValues) -> str:
    """Read the number of a host compiler as nvcc shows it: 90300 is gcc 9.3."""
    value = match_shape(told.own("host_version"), r"\d{5,6}")
    return f"{int(value) // 10000}.{int(value) % 10000 // 100}" if value else ""


_COMPILERS = {"nvcc-unsupported-arch", "nvrtc-arch", "nvvm-arch", "llvm-arch"}


def _architecture(told: ClaimValues) -> Filled:
    return {"capability": _capability(told), "compiles": bool(_COMPILERS & set(told.signatures))}


def _python(told: ClaimValues) -> Filled:
    """State the Pythons that a release has wheels for, or that a package asks for."""
    text = _requirement(told)
    asked = _minors_asked_for(told)
    minors = _minor_of_wheel(told) or _minors_with_wheels(told, text) or asked
    named = requirement_parts(text)
    ours = named is not None and told.log.matrix.framework_of(named[0])
    known = text.replace("===", "==") if ours and is_requirement(text.replace("===", "==")) else ""
    is_asked = bool(minors) and minors is asked
    open_end = "yes" if is_asked and minors[-1] == system_packages().python.newest else ""
    values = {"pythons": " ".join(minors), "asks": "package" if is_asked else "", "open_end": open_end}
    return {"requirements": (known,) if known else (), "values": values}


def _minor_of_wheel(told: ClaimValues) -> tuple[str, ...]:
    """Read the Python of a wheel's name: -cp36- is 3.6."""
    names = " ".join(event.captured.get("wheel", "") for event in told.claim.events)
    found = re.search(r"-cp(\d)(\d{1,2})-", names)
    return (f"{found.group(1)}.{found.group(2)}",) if found else ()


def _minors_with_wheels(told: ClaimValues, text: str) -> tuple[str, ...]:
    """List the Pythons of the newest release that a requirement admits, oldest first."""
    name, specifier = requirement_parts(text) or ("", "")
    framework = told.log.matrix.framework_of(name)
    rows = admitted_rows(told.log, framework, name, specifier) if framework else []
    published = [row for row in rows if row.pythons]
    here = [row for row in published if row.platform == told.context.platform]
    return tuple((here or published)[0].pythons) if published else ()


def _minors_asked_for(told: ClaimValues) -> tuple[str, ...]:
    """List the minors that satisfy what a package says of Python: >=3.9,<3.13."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    captures = (pair for event in told.claim.events for pair in event.captures)
    wanted = next((value for name, value in captures if re.fullmatch(r"wanted\d?", name)), "")
    try:
        admits = SpecifierSet(match_shape(wanted.strip(" '\","), r"[<>=!~\d.,* ]{3,40}") or "<0")
    except InvalidSpecifier:
        return ()
    return tuple(minor for minor in system_packages().python.minors if admits.contains(f"{minor}.9"))


def _replacement(told: ClaimValues) -> Filled:
    """State what took the place of a withdrawn distribution, of the same release where there is one."""
    owners = filter(None, map(framework_of_message, told.signatures))
    gone = (name for item in owners for name in item.distributions if told.log.matrix.removed_distribution(name))
    name, specifier = requirement_parts(told.captured("requirement") or next(gone, "")) or ("", "")
    version = re.sub(r"^={2,3}|\+.*", "", specifier) if specifier.startswith("==") else ""
    known = next((item for item in identities() if item.plugins and item.owns(name)), None)
    if known:
        return {"framework": known.name, "requirements": (_with_extra(told, known, specifier, version),)}
    row = told.log.matrix.removed_distribution(name)
    if row is None:
        return {}
    line = re.match(r"\d+\.\d+", version)
    same = told.log.matrix.release(row.framework, f"{line.group()}.0", "linux_x86_64", row.framework) if line else None
    extra = f"[{same.gpu_extra}]" if same and same.gpu_extra else ""
    wanted = f"{row.framework}{extra}=={same.version}" if same else row.replacement
    return {"framework": row.framework, "requirements": (wanted,)}


def _with_extra(told: ClaimValues, known: Framework, specifier: str, version: str) -> str:
    """Write the requirement whose extra took the place of a label: jax[cuda12] of jaxlib+cuda12."""
    label = match_shape(specifier.partition("+")[2].partition(".")[0], r"cuda\d\d")
    wanted = f"{known.main}[{label}]" if label else known.gpu_requirement
    row = told.log.matrix.release(known.name, version, "linux_x86_64", known.main) if version else None
    is_there = row is not None and any(f"[{extra}]" in wanted for extra in row.extras)
    return f"{wanted}=={version}" if is_there else wanted


def _missing_framework(told: ClaimValues) -> Filled:
    named = told.captured("module").partition(".")[0]
    return {"framework": named if told.log.matrix.framework_of(named) else told.framework}


def _two_cuda_majors(told: ClaimValues) -> Filled:
    """State which wheels go and which come again where the log lists one of them for two CUDA majors."""
    majors: dict[str, dict[str, str]] = {}
    for name, version in told.log.packages.items():
        found = re.fullmatch(r"(nvidia-[a-z-]+)-cu(\d\d)", name)
        if found and match_shape(version, r"[\d.]+"):
            majors.setdefault(found.group(1), {})[found.group(2)] = version
    twice = {name: found for name, found in majors.items() if len(found) > 1}
    if not twice:
        return {}
    label = _torch_label(told)[2:4]
    kept = label if all(label in found for found in twice.values()) else max(max(found) for found in twice.values())
    gone = tuple(f"{name}-cu{major}" for name, found in twice.items() for major in found if major != kept)
    anew = tuple(f"{name}-cu{kept}=={found[kept]}" for name, found in twice.items() if kept in found)
    return {"names": gone, "requirements": anew}


def _mismatched_driver(told: ClaimValues) -> Filled:
    both = next((event.captured for event in told.claim.events if {"kernel", "dso"} <= set(event.captured)), {})
    return {"values": {name: match_shape(both.get(name, ""), _VERSION) for name in ("kernel", "dso")}}


def _fabric_manager(told: ClaimValues) -> Filled:
    named = re.search(r"with driver version (\d{3}(?:\.\d+){1,2})", told.text)
    return {"driver": told.log.driver or (named.group(1) if named else "")}


def _other_owner(told: ClaimValues) -> Filled:
    return {"cases": (*told.signatures, "vfio-pci")} if "vfio" in told.own("owner") else {}


def _package(name: str) -> Callable[[ClaimValues], Filled]:
    return lambda _: {"names": (name,)}


_FILLS: dict[str, Callable[[ClaimValues], Filled]] = {
    "cuda-wheel-conflict": _two_cuda_majors,
    "cudnn-missing": _cudnn,
    "cudnn-shadowed": _paths,
    "cudnn-too-new": _cudnn,
    "cudnn-too-old": _cudnn,
    "cudnn-wrong-major": _cudnn,
    "driver-library-mismatch": _mismatched_driver,
    "driver-nouveau": _other_owner,
    "driver-too-old": _driver,
    "fabric-manager": _fabric_manager,
    "framework-cuda-extra-missing": lambda told: {"values": {"framework_extra": _framework_extra(told)}},
    "framework-missing": _missing_framework,
    "framework-package-removed": _replacement,
    "glibc-too-old": lambda told: {"values": {"glibc_wanted": told.captured("glibc_wanted")}},
    "gpu-arch-too-new": _architecture,
    "gpu-arch-too-old": _architecture,
    "host-compiler-too-new": _compiler,
    "numpy-abi": _package("numpy"),
    "protobuf-conflict": _package("protobuf"),
    "ptxas-problem": lambda told: {"capability": _capability(told)},
    "python-unsupported": _python,
    "toolkit-missing": _toolkit,
    "toolkit-path-conflict": _paths,
    "toolkit-wrong-version": _toolkit,
}
