"""What a log states about a cause: its values, and the machine that its remedy is written for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TypeVar

from envcheck.actions import is_requirement
from envcheck.explain.facts import build_context
from envcheck.explain.log import (
    COMPILING,
    FRAMEWORKS,
    Claim,
    Log,
    Strength,
    find_framework_of_package,
    normalize_capability,
)
from envcheck.explain.reasons_cuda import (
    EXTENSIONS,
    PROFILER,
    TOOLKIT,
    find_build_cuda,
    find_library_name,
    list_common_toolkits,
    parse_cudnn_version,
    parse_library,
)
from envcheck.explain.reasons_python import is_users_file
from envcheck.frameworks import identities, identity
from envcheck.host.data_files import load_data
from envcheck.matrix.companions import companion_row, load_companions, source_package
from envcheck.matrix.gpus import find_capabilities
from envcheck.matrix.query import Matrix
from envcheck.model import (
    CudaWheels,
    FrameworkRelease,
    canonical_name,
    major,
    numbers,
)
from envcheck.model.text import find_group
from envcheck.model.versions import name_of, public_version
from envcheck.remedies.rows import remedy_table
from envcheck.remedies.situation import Situation
from envcheck.remedies.system import system_packages
from envcheck.rules.context import Context

T = TypeVar("T")


def build_situation(log: Log, claim: Claim) -> Situation:
    """Return the machine as a log states it, with the options by which the planner plans for it."""
    values = ClaimValues(log, claim)
    options = _plan_options(values)
    return Situation(values.context, options, from_log=True, installer=log.installer)


def build_machine_situation(log: Log, context: Context) -> Situation:
    """Return the machine that the rules judged by the facts and the log."""
    return Situation(
        context,
        _plan_options(ClaimValues(log, Claim("", Strength.UNSUPPORTED, ""))),
        from_log=not log.has_facts,
        installer="" if log.has_facts else log.installer,
    )


# The values of a log, each with the shape of its kind.

VERSION = r"\d{1,4}(?:\.\d{1,8}){0,4}(?:[a-z]{1,4}\d{1,3})?"
_NAME = r"[A-Za-z0-9][A-Za-z0-9_]*(?:[.-][A-Za-z0-9_]+)*"
PATH = r"(?:[A-Za-z]:)?[\w./\\~][\w ./\\+@()~-]*"
_CLAUSES = r"(?:(?:===|==|>=|<=|!=|~=|<|>)[0-9][A-Za-z0-9.*+!-]*,?)*"
_VERSIONS = (
    "cc_min", "clang_limit", "cuda_wanted", "cudnn_built", "cudnn_loaded", "gcc", "gcc_max",
    "gcc_min", "driver_wanted", "flashinfer", "gcc_over", "glibc_wanted", "hdf5", "nvcc", "ptx",
    "torch_cuda", "version",
)  # fmt: skip
# Captures that may be shown, and the shape of each; what is not listed never enters a remedy.
SHAPES = {
    **dict.fromkeys(_VERSIONS, VERSION),
    **dict.fromkeys(("missing_module", "module", "name", "package", "process"), _NAME),
    "compiler": r"[\w.+-]+",
    "fault": "[a-z]+",
    "flashinfer_label": r"cu\d{2,3}",
    "image_platform": r"[a-z0-9]+/[a-z0-9]+(?:/v\d)?",
    "library": r"[\w./+-]+",
    "max_ir": r"\d{1,3}",
    "mig": r"MIG-[\w/-]+",
    "node": r"(?:GLIBCXX|CXXABI)_[\d.]+",
    "path": PATH,
    "pid": r"\d{1,8}",
    "needed": rf"[A-Za-z0-9][\w.-]*(?:\[[\w,-]+\])?{_CLAUSES}",
    "quoted": r"[\w.=<>!~-]*\[[\w,-]+\][\w.=<>!~-]*",
    "requirement": rf"[A-Za-z0-9][\w.-]*(?:\[[\w,-]+\])?{_CLAUSES}",
    "std": r"c\+\+\d\d",
    "visible": r"-?[\w,-]*",
    "xid": r"\d{1,3}",
}


class ClaimValues:
    """The values of one claim's messages, then those of the whole log."""

    def __init__(self, log: Log, claim: Claim) -> None:
        self.log, self.claim = log, claim

    def find_value(self, name: str) -> str:
        """Return a value by its name, "" where it is not stated or has another shape."""
        derive = DERIVED.get(name)
        return derive(self) if derive else self.find_capture(name)

    def find_capture(self, name: str) -> str:
        """Return a captured value: of the claim's own messages first."""
        shape = SHAPES.get(name)
        value = self.find_own_capture(name) or self.log.first_value(name)
        return match_shape(value.strip(".,:;"), shape) if shape else ""

    def find_own_capture(self, name: str) -> str:
        """Return what the claim's own messages captured under a name, or ""."""
        return next(
            (event.values[name] for event in self.claim.events if event.values.get(name)), ""
        )

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
        """Name the framework the claim is about.

        By its messages, then by what is installed, then by the log.
        """
        log_text = " ".join(event.text for event in self.log.events)
        prefixes = {item.name: item.logs.signatures for item in identities()}
        by_signature = {
            name
            for name, prefix in prefixes.items()
            if any(item.startswith(prefix) for item in self.signatures)
        }
        for candidates in (
            by_signature,
            *(
                _find_frameworks(text)
                for text in (self.text, " ".join(self.log.packages), log_text)
            ),
        ):
            owners = (
                item for item in FRAMEWORKS if candidates == {item.name, *item.logs.words_of_others}
            )
            owner = next(owners, None) if len(candidates) > 1 else None
            if owner and not any(name in self.text for name in owner.logs.words_of_others):
                return owner.name
            if candidates:
                return next(item.name for item in FRAMEWORKS if item.name in candidates)
        return next(
            (item.name for item in FRAMEWORKS if set(self.signatures) & set(item.logs.guesses)), ""
        )

    @property
    def release(self) -> str:
        """Return the version of that framework, its local part as well; "" not told."""
        version = ""
        if self.framework:
            version = self.log.release_of(identity(self.framework))
        return match_shape(version, rf"{VERSION}(?:\+[a-z0-9.]+)?")

    @property
    def labelled_release(self) -> str:
        """Return the version of a framework whose versions have labels; "" of any other."""
        if self.framework and identity(self.framework).index:
            return self.release
        return ""

    @property
    def compiles(self) -> bool:
        """Return whether it is a build of CUDA code that fails."""
        return bool(COMPILING & set(self.signatures))

    @property
    def context(self) -> Context:
        """Return the machine as the facts and the log state it."""
        return build_context(self.log)

    @property
    def distribution(self) -> str:
        """Name the distribution that the framework is installed as.

        Return "" where the log does not tell it.
        """
        builds = self.context.python.frameworks.value or ()
        return next((item.distribution for item in builds if item.framework == self.framework), "")

    @cached_property
    def row(self) -> FrameworkRelease | None:
        """Return the matrix' row of the release that the log names."""
        return Situation(self.context).release_row(self.framework, self.release)


def _find_frameworks(text: str) -> set[str]:
    return {item.name for item in identities() if re.search(item.logs.words, text, re.IGNORECASE)}


def match_shape(text: str, shape: str) -> str:
    """Return a text that has a shape whole, else ""."""
    return text if len(text) <= 200 and re.fullmatch(shape, text, re.ASCII) else ""


def has_value(name: str) -> bool:
    """Return whether there is a value of that name for some log."""
    return name in DERIVED or name in SHAPES


# Values that are worked out of what a log captured.


def _pids(values: ClaimValues) -> str:
    rows = (event.values for event in values.claim.events if "pid" in event.values)
    pids = [match_shape(row["pid"], SHAPES["pid"]) for row in rows if row.get("kind", "C") == "C"]
    pids += _find_largest_process(values)
    return " ".join([pid for pid in dict.fromkeys(pids) if pid and int(pid) > 1][:16])


def _find_largest_process(values: ClaimValues) -> list[str]:
    """Find the process that PyTorch says holds most.

    In a container the program itself may be in its list, too.
    """
    sizes = re.findall(r"\bProcess (\d{2,8}) has (\d+(?:\.\d+)?) GiB", values.text)
    return [max(sizes, key=lambda row: float(row[1]))[0]] if sizes else []


def _users_file(values: ClaimValues) -> str:
    """Name the user's own file that stands in the way; "" for one of an installed package."""
    paths = (event.values.get("path", "") for event in values.claim.events)
    files = (match_shape(path, PATH) for path in paths if path and is_users_file(path))
    return next(
        (path for path in files if path.endswith(".py") and not path.endswith("__init__.py")), ""
    )


def _choose_new_name(values: ClaimValues) -> str:
    folder, _, name = _users_file(values).replace("\\", "/").rpartition("/")
    if name:
        return f"{folder}{'/' if folder else ''}my_{name}"
    return ""


def _requirement(values: ClaimValues) -> str:
    """Return what was asked of pip, or the release that uv names."""
    match = re.search(
        r"\b([a-z][\w-]*)==([\d.]*\d) has no wheels|`([a-z][\w-]*)` \(v([\d.]*\d)\) only has",
        values.text,
    )
    uv_requirement = f"{match[1] or match[3]}=={match[2] or match[4]}" if match else ""
    return values.find_capture("requirement") or uv_requirement


def _plain_requirement(values: ClaimValues) -> str:
    requirement = _requirement(values).lower().rstrip(",")
    is_known = name_of(requirement) in remedy_table().distributions.values()
    return requirement if is_known and is_requirement(requirement) else ""


def find_distribution(name: str) -> str:
    """Return the distribution that is known to bring a module.

    A name out of a log alone is not installed.
    """
    return remedy_table().distributions.get(name, "")


def is_known_distribution(name: str, matrix: Matrix) -> bool:
    """Return whether a name is that of a package which envcheck knows, or Python's."""
    is_framework = matrix.framework_of(name) or find_framework_of_package(name)
    is_listed = name == "python" or name in remedy_table().distributions.values()
    return is_listed or bool(is_framework or companion_row(name).distributions)


def find_required_cudnn(values: ClaimValues) -> str:
    """Return the cuDNN that a message says the build was made with."""
    version = values.find_capture("cudnn_built")
    return ".".join(map(str, parse_cudnn_version(version)[:3])) if version else ""


def _parse_gencode(values: ClaimValues) -> str:
    """Read the release of protobuf's generated code: "gencode 5.28.3 runtime 4.25.4"."""
    return find_group(r"\bgencode (\d+\.\d+\.\d+) runtime", values.text)


def _tensorrt_major(values: ClaimValues) -> str:
    """Read the major of the library that is asked for, where TensorRT has wheels of it."""
    match = re.match(r"libnv(?:infer|onnxparser)\w*\.so\.(\d+)", values.find_capture("library"))
    first = numbers(system_packages().tensorrt.first_wheel)[0]
    return match.group(1) if match and int(match.group(1)) >= first else ""


def _torch_label(values: ClaimValues) -> str:
    label = match_shape(values.labelled_release.partition("+")[2], r"cu\d{2,3}|cpu")
    cuda = values.find_capture("torch_cuda")
    return label or ("cu" + cuda.replace(".", "") if re.fullmatch(r"\d+\.\d", cuda) else "")


def find_capability(values: ClaimValues) -> str:
    """Return the compute capability of the claim's messages, else a known one of the log."""
    rows = (event.values for event in values.claim.events)
    capabilities = [
        normalize_capability(value)
        for row in rows
        for value in (row.get("cc"), row.get("sm"))
        if value
    ]
    known = (
        item
        for item in capabilities or values.log.capabilities
        if values.log.matrix.architecture(item)
    )
    return next(known, "")


def find_extension_package(values: ClaimValues) -> str:
    """Name the package whose compiled part complains.

    By its place below site-packages, else by the frame before it.
    """
    files = re.findall(r"[/\\](\w+)\.(?:cpython|cp3|abi3|so|pyd)", values.text)
    known = next((name for name in files if find_distribution(name)), "")
    if known:
        return known
    folder = r"(?:site|dist)-packages[/\\]([A-Za-z][A-Za-z0-9_]+)[/\\.]"
    for pattern in (rf"{folder}[^\s:'\"]*\.(?:so|pyd|dll)\b", folder):
        for match in filter(
            None, (re.search(pattern, event.text) for event in values.claim.events)
        ):
            if not values.log.matrix.framework_of(match.group(1)):
                return match.group(1)
    modules = {module for row in load_companions().rows for module in row.distributions.values()}
    named = next((word for word in re.findall(r"\w+", values.text.lower()) if word in modules), "")
    if named:
        return named
    frames = values.log.select(*EXTENSIONS, "cuda-package-named")
    line = max((event.line for event in values.claim.events if event not in frames), default=0)
    nearest = sorted(
        frames, key=lambda event: (event.line > line, -min(event.last_line, line), event.line)
    )
    return nearest[0].values["extension"] if nearest else ""


def find_complaining_package(values: ClaimValues) -> str:
    """Name the distribution of the package whose compiled part complains.

    One that goes with a framework.
    """
    module = find_extension_package(values)
    rows = (
        row.distributions for row in load_companions().rows if module in row.distributions.values()
    )
    owners = [name for names in rows for name, owned in names.items() if owned == module]
    installed = (name for name in owners if name in values.log.packages)
    name = find_distribution(module) or next(installed, "") or (owners[0] if owners else "")
    return name if companion_row(name).frameworks else ""


def _nvcc_wheel(values: ClaimValues) -> str:
    wheels = values.row.cuda_wheels if values.row else ()
    return next((item for item in wheels if item.startswith("nvidia-cuda-nvcc")), "")


def _framework_extra(values: ClaimValues) -> str:
    return identity(values.framework).plans.gpu_requirement if values.framework else ""


def _nvinfer_major(values: ClaimValues) -> str:
    """Return the major version of the TensorRT library that the log asks for."""
    optional = (event.values.get("library", "") for event in values.log.harmless_events)
    names = " ".join((values.find_capture("library"), *optional))
    return find_group(r"\blibnv(?:infer|onnx|parsers)\w*\.so\.(\d{1,2})\b", names)


def _loaded_folder(values: ClaimValues) -> str:
    """Return the folder of the wrong CUDA library that was loaded, as a loader message names it."""
    pattern = r"(/[\w./+-]+)/lib(?:cu|nv)\w*\.so[\w.]*: (?:undefined symbol|version|symbol)"
    match = re.search(pattern, values.text)
    if match and "-packages/" not in match.group(1):
        return match_shape(match.group(1), PATH)
    return ""


def _cuda_major(values: ClaimValues) -> str:
    """Return the major of the CUDA that is here: of the toolkit, else of the framework's build."""
    return major(next(iter(values.log.cudas), "") or find_build_cuda(values.log))


def _wanted_major(values: ClaimValues) -> str:
    """Return the major of the CUDA whose libraries are missing; "" where several have them."""
    majors = {major(line) for line in list_matching_toolkits(values)}
    return majors.pop() if len(majors) == 1 else ""


def _fitting_release(values: ClaimValues) -> str:
    """Return the newest release of the framework that is for the CUDA that is here."""
    if values.framework:
        rows = values.log.matrix.releases(values.framework, values.context.platform)
    else:
        rows = ()
    wanted, minor = _cuda_major(values), values.log.python
    fits = (row.version for row in rows if row.cuda and major(row.cuda) == wanted and not row.yanked
            and (not minor or minor in row.pythons))  # fmt: skip
    return next(fits, "") if wanted else ""


def _beside(values: ClaimValues) -> str:
    """Name the packages that the log lists, and those whose files it shows."""
    return " ".join((*values.log.packages, *values.log.values("extension")))


def _built_package(values: ClaimValues) -> str:
    """Name the known package whose build fails.

    By the claim's own words, by pip's last word, by what it took last.
    """
    rows = (*values.log.select("ninja-failed"), *reversed(values.log.select("pip-collecting")))
    stated = [value for event in rows for name, value in event.captures if name != "version"]
    names = map(canonical_name, (*re.findall(r"[\w-]+", values.text), *stated))
    known = remedy_table().distributions.values()
    return next((name for name in names if name in known or companion_row(name).distributions), "")


def _isolated_package(values: ClaimValues) -> str:
    """Name the package that pip builds in an environment of its own.

    Return "" where the log shows no build.
    """
    return _built_package(values) if values.log.has("ninja-failed") else ""


def _wheel_pin(values: ClaimValues) -> str:
    """Return the framework's wheel of the library whose symbol is missing."""
    wheels = values.row.cuda_wheels if values.row else ()
    pins = (item.replace(" ", "") for item in wheels if item.startswith(_symbols_wheel(values)))
    return next((item for item in pins if "==" in item), "")


def _symbols_wheel(values: ClaimValues) -> str:
    if "nvjitlink-symbol" in values.signatures:
        return "nvidia-nvjitlink-"
    return "nvidia-nccl-"


def _library_wheel(values: ClaimValues) -> str:
    """Name the wheel that holds the missing library, for its CUDA."""
    wheel = load_data("nvidia/cuda_wheels", CudaWheels).wheel_of(values.find_capture("library"))
    cuda = _wanted_major(values)
    return f"{wheel}-cu{cuda}" if wheel and cuda else ""


def find_duplicate_wheels(values: ClaimValues) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the CUDA wheels to remove and to reinstall, where two CUDA majors meet."""
    majors: dict[str, dict[str, str]] = {}
    for name, version in values.log.packages.items():
        versions = re.fullmatch(r"(nvidia-[a-z-]+)-cu(\d\d)", name)
        if versions and match_shape(version, r"[\d.]+"):
            majors.setdefault(versions.group(1), {})[versions.group(2)] = version
    duplicates = {name: versions for name, versions in majors.items() if len(versions) > 1}
    if not duplicates:
        return (), ()
    kept = _torch_label(values)[2:4]
    if not all(kept in versions for versions in duplicates.values()):
        kept = max(max(versions) for versions in duplicates.values())
    removed = [
        f"{name}-cu{other}"
        for name, versions in duplicates.items()
        for other in versions
        if other != kept
    ]
    pairs = [(name, versions[kept]) for name, versions in duplicates.items() if kept in versions]
    return tuple(removed), tuple(f"{name}-cu{kept}=={version}" for name, version in pairs)


DERIVED: dict[str, Callable[[ClaimValues], str]] = {
    "beside": _beside,
    "cuda_major": _cuda_major,
    "companion": lambda values: (
        name if companion_row(name := find_complaining_package(values)).releases else ""
    ),
    "companion_framework": lambda values: next(
        iter(companion_row(find_complaining_package(values)).frameworks), ""
    ),
    "duplicates": lambda values: " ".join(find_duplicate_wheels(values)[0]),
    "fitting_release": _fitting_release,
    "isolated_package": _isolated_package,
    "library_wheel": _library_wheel,
    "other_major": lambda values: (
        _cuda_major(values) if _cuda_major(values) != _wanted_major(values) else ""
    ),
    "wanted_major": _wanted_major,
    "wheel_pin": _wheel_pin,
    "cuda_dashed": lambda values: find_cuda_line(values).replace(".", "-"),
    "jetson": lambda values: "yes" if values.log.values("jetson") else "",
    "loaded_folder": _loaded_folder,
    "nvinfer_major": _nvinfer_major,
    "place": lambda values: values.log.place,
    "build_major": lambda values: major(find_build_cuda(values.log)),
    "branch": lambda values: match_shape(values.log.first_value("branch")[:3], r"\d{3}"),
    "cc": find_capability,
    "cc_digits": lambda values: find_capability(values).replace(".", ""),
    "cudnn_wanted": find_required_cudnn,
    "extension_known": lambda values: find_distribution(find_extension_package(values)),
    "extension_package": find_extension_package,
    "framework": lambda values: values.framework,
    "framework_extra": _framework_extra,
    "framework_module": lambda values: values.framework,
    "gcc_of_node": (
        lambda values: remedy_table().gcc_of_symbols.get(values.find_capture("node"), "")
    ),
    "gencode": _parse_gencode,
    "library_path_full": lambda values: match_shape(values.find_capture("library"), r"/[\w./+-]+"),
    "line": lambda values: values.text,
    "message": lambda values: values.claim.message,
    "missing_distribution": lambda values: find_distribution(values.find_capture("missing_module")),
    "missing_top": lambda values: values.find_capture("missing_module").partition(".")[0],
    "nvcc_wheel": _nvcc_wheel,
    "pids": _pids,
    "pids_comma": lambda values: _pids(values).replace(" ", ","),
    "release_line": lambda values: (
        ".".join(values.release.split(".")[:2]) if values.release.count(".") else ""
    ),
    "requirement": _requirement,
    "requirement_plain": _plain_requirement,
    "source_package": lambda values: name if source_package(name := _built_package(values)) else "",
    "tensorrt_major": _tensorrt_major,
    "torch_label": _torch_label,
    "torch_public": lambda values: public_version(values.labelled_release),
    "users_file": _users_file,
    "users_file_renamed": _choose_new_name,
}


# The options of `envcheck plan` that a log answers.


def _plan_options(values: ClaimValues) -> tuple[str, ...]:
    log = values.log
    if log.has_facts:
        return ()
    options: list[str] = []
    for option, value, shape in (
        ("--python", log.python, r"3\.\d{1,2}"),
        ("--driver", log.driver or _driver_branch(values), r"\d{3,4}(\.\d+){0,2}"),
        ("--glibc", log.first_value("glibc"), r"2\.\d{1,2}"),
    ):
        if re.fullmatch(shape, value, re.ASCII):
            options += [option, value]
    for gpu in _gpus(values):
        options += ["--gpu", gpu]
    return tuple(options)


def _gpus(values: ClaimValues) -> tuple[str, ...]:
    """Name each kind of GPU as the planner takes it.

    By its capability, or a name that stands for one product.
    """
    capability = ""
    if values.find_own_capture("cc") or values.find_own_capture("sm"):
        capability = find_capability(values)
    if capability:
        return (capability,)  # looking names up takes longer than all the rest
    names = [
        name
        for name in values.log.values("gpu")
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ./()-]{2,60}", name)
    ]
    if names:
        unique = [name for name in names if len(find_capabilities(name)) == 1]
        if unique:
            return tuple(dict.fromkeys(unique))[:4]
    return tuple(item for item in values.log.capabilities if values.log.matrix.architecture(item))[
        :4
    ]


def _driver_branch(values: ClaimValues) -> str:
    """Tell a driver's branch by the newest CUDA that it offers: 11.4 is branch 470."""
    cuda = values.context.driver.cuda_driver_version.value
    rows = values.log.matrix.driver_branches() if cuda else ()
    return next((row.branch for row in rows if row.cuda == cuda), "")


# The fields of a problem, by what the cause is.


def find_required_cuda(values: ClaimValues) -> str:
    """Find the CUDA that the driver does not reach.

    As a condition names it, or that of the build.
    """
    for name in ("condition", "needed_cuda", "cuda_wanted"):
        match = re.fullmatch(
            r"\s*(?:cuda\s*[>=]+\s*)?(\d{1,2}(?:\.\d)?)\s*", values.find_own_capture(name)
        )
        if match:
            return match.group(1)
    companion = find_companion(values)
    return find_cuda_line(values) or (companion.cuda or "" if companion else "")


def find_companion(values: ClaimValues) -> FrameworkRelease | None:
    """Return the row of an installed companion whose wheel is for one CUDA.

    Return None where the log lists none.
    """
    matrix = values.log.matrix
    listed = (
        (name, version)
        for name, version in values.log.packages.items()
        if companion_row(name).releases
    )
    rows = (
        row
        for name, version in listed
        for row in matrix.companion_releases(name)
        if row.version == version
    )
    return next((row for row in rows if row.cuda), None)


def find_cuda_line(values: ClaimValues) -> str:
    """Return the CUDA line that a build asks for.

    By its release, by the libraries it names; "" where several fit.
    """
    label = re.fullmatch(r"cu(\d+)(\d)", _torch_label(values))
    if label:
        cuda = f"{label.group(1)}.{label.group(2)}"
    elif values.row:
        cuda = values.row.cuda or ""
    else:
        cuda = ""
    lines = list_matching_toolkits(values)
    if cuda and (not lines or cuda in lines):
        return cuda
    return lines[0] if len(lines) == 1 else ""


def find_stated_major(values: ClaimValues) -> str:
    """Return the one CUDA major that opened libraries, wheels or the toolkit state; else ""."""
    log = values.log
    listed = " ".join((*log.packages, *log.packages.values()))
    stated = (
        {major(line) for line in _list_common_toolkits(values, log.values("opened"))},
        set(re.findall(r"(?:-cu|\+cuda)(1[1-9])(?!\d)", listed)),
        set(map(major, log.cudas)),
    )
    return next((majors.pop() for majors in stated if len(majors) == 1), "")


def list_matching_toolkits(values: ClaimValues) -> tuple[str, ...]:
    """List the CUDA lines that hold every missing library, and every opened one."""
    libraries = [find_library_name(event) for event in values.claim.events]
    required = _list_common_toolkits(values, libraries)
    opened = _list_common_toolkits(values, values.log.values("opened"))
    return tuple(line for line in required if line in opened) or required


def _list_common_toolkits(values: ClaimValues, names: Iterable[str]) -> tuple[str, ...]:
    libraries = [parse_library(name) for name in names if name]
    of_cuda = [item for item in libraries if item.family in (TOOLKIT, PROFILER)]
    return list_common_toolkits(values.log.matrix, of_cuda)
