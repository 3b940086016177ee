"""What a log states about a cause: its values, and the machine that its remedy is written for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, cached_property

from envcheck.actions import is_requirement
from envcheck.explain.facts import build_context
from envcheck.explain.libraries import (
    PROFILER,
    TOOLKIT,
    list_common_toolkits,
    parse_library,
)
from envcheck.explain.log import (
    COMPILING,
    FRAMEWORKS,
    Claim,
    Log,
    find_framework_of_package,
    normalize_capability,
)
from envcheck.explain.reasons_cuda import (
    EXTENSIONS,
    find_build_cuda,
    parse_cudnn_version,
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
    major_minor,
    numbers,
)
from envcheck.model.quoting import quote
from envcheck.model.text import find_group
from envcheck.model.versions import name_of, public_version
from envcheck.remedies.rows import remedy_table
from envcheck.remedies.situation import Situation
from envcheck.remedies.system import system_packages
from envcheck.rules.context import Context

# The values of a log, each with the shape of its kind.

VERSION = r"\d{1,4}(?:\.\d{1,8}){0,4}(?:[a-z]{1,4}\d{1,3})?"
_NAME = r"[A-Za-z0-9][A-Za-z0-9_]*(?:[.-][A-Za-z0-9_]+)*"
PATH = r"(?:[A-Za-z]:)?[\w./\\~][\w ./\\+@()~-]*"
_CLAUSES = r"(?:(?:===|==|>=|<=|!=|~=|<|>)[0-9][A-Za-z0-9.*+!-]*,?)*"
_VERSIONS = (
    "cc_min", "clang_limit", "cuda_wanted", "cudnn_built", "cudnn_loaded", "gcc", "gcc_max",
    "gcc_min", "driver_wanted", "flashinfer", "glibc_wanted", "hdf5", "nvcc", "ptx",
    "torch_cuda", "version",
)  # fmt: skip
# Captures that may be shown, and the shape of each; what is not listed never enters a remedy.
SHAPES = {
    **dict.fromkeys(_VERSIONS, VERSION),
    **dict.fromkeys(("missing_module", "module", "name", "package", "process"), _NAME),
    "compiler": r"[\w.+-]+",
    "fault": "[a-z]+",
    "lacking": _NAME,
    "unmet": r"[a-z0-9][a-z0-9.+-]+",
    **dict.fromkeys(("unmet_release", "there"), r"\d[\w.+~:-]*"),
    "locker": "uv|poetry|pdm|pixi|pipenv",
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
    "repository": r"https?://[\w./:$()~-]+",
    "requirement": rf"[A-Za-z0-9][\w.-]*(?:\[[\w,-]+\])?{_CLAUSES}",
    "std": r"c\+\+\d\d",
    "visible": r"-?[\w,-]*",
    "xid": r"\d{1,3}",
}


class ClaimValues:
    """The values of one claim's messages, then those of the whole log.

    A value that is worked out is a property, under the name by which rows of remedies ask for it.
    """

    def __init__(self, log: Log, claim: Claim) -> None:
        self.log, self.claim = log, claim
        self.rows = [event.values for event in claim.events]
        self.signatures = tuple(event.signature for event in claim.events)
        self.text = self.line = " ".join(event.text for event in claim.events)
        self.message, self.place, self.tool = claim.message, log.place, log.installer

    def find_value(self, name: str) -> str:
        """Return a value by its name, "" where it is not stated or has another shape."""
        value = getattr(self, name, None)
        return value if isinstance(value, str) else self.find_capture(name)

    def find_capture(self, name: str) -> str:
        """Return a captured value: of the claim's own messages first."""
        shape = SHAPES.get(name)
        value = self.find_own_capture(name) or self.log.first_value(name)
        return match_shape(value.strip(".,:;"), shape) if shape else ""

    def find_own_capture(self, name: str) -> str:
        """Return what the claim's own messages captured under a name, or ""."""
        return next(iter(self.list_own_captures(name)), "")

    def list_own_captures(self, *names: str) -> list[str]:
        """List what the claim's own messages captured under some names."""
        return [row[name] for row in self.rows for name in names if row.get(name)]

    @cached_property
    def situation(self) -> Situation:
        """Return the machine as a log states it, with what the planner needs to plan for it."""
        options = self.list_plan_options()
        return Situation(self.context, options, from_log=True, installer=self.log.installer)

    @cached_property
    def framework(self) -> str:
        """Name the framework the claim is about.

        By its messages, then by what is installed, then by the log.
        """
        of_messages = {
            item.name
            for item in identities()
            if any(name.startswith(item.logs.signatures) for name in self.signatures)
        }
        log_text = " ".join(event.text for event in self.log.events)
        texts = (self.text, " ".join(self.log.packages), log_text)
        for candidates in (of_messages, *map(_find_frameworks, texts)):
            for item in FRAMEWORKS if len(candidates) > 1 else ():
                others = item.logs.words_of_others
                is_own = not any(name in self.text for name in others)
                if candidates == {item.name, *others} and is_own:
                    return item.name
            if candidates:
                return next(item.name for item in FRAMEWORKS if item.name in candidates)
        guesses = (item for item in FRAMEWORKS if set(self.signatures) & set(item.logs.guesses))
        return next((item.name for item in guesses), "")

    @property
    def release(self) -> str:
        """Return the version of that framework, its local part as well; "" not told."""
        return self.release_of(self.framework)

    def release_of(self, framework: str) -> str:
        """Return the version of a framework, its local part as well; "" not told."""
        version = self.log.release_of(identity(framework)) if framework else ""
        return match_shape(version, rf"{VERSION}(?:\+[a-z0-9.]+)?")

    @property
    def labelled_release(self) -> str:
        """Return the version of a framework whose versions have labels; "" of any other."""
        return self.release if self.framework and identity(self.framework).index else ""

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

    @property
    def pids(self) -> str:
        """List the processes that hold the GPU.

        PyTorch names them; in a container the program itself may be in its list, too.
        """
        pids = [row["pid"] for row in self.rows if "pid" in row and row.get("kind", "C") == "C"]
        sizes = re.findall(r"\bProcess (\d{2,8}) has (\d+(?:\.\d+)?) GiB", self.text)
        if sizes:
            pids.append(max(sizes, key=lambda row: float(row[1]))[0])
        known = [pid for pid in dict.fromkeys(pids) if match_shape(pid, SHAPES["pid"])]
        return " ".join([pid for pid in known if int(pid) > 1][:16])

    @property
    def pids_comma(self) -> str:
        """List them for ps."""
        return self.pids.replace(" ", ",")

    @property
    def users_file(self) -> str:
        """Name the user's own file that stands in the way; "" for one of an installed package."""
        for path in self.list_own_captures("path"):
            is_module = path.endswith(".py") and not path.endswith("__init__.py")
            if is_module and is_users_file(path) and match_shape(path, PATH):
                return path
        return ""

    @property
    def users_file_renamed(self) -> str:
        """Choose another name for that file."""
        folder, slash, name = self.users_file.replace("\\", "/").rpartition("/")
        return f"{folder}{slash}my_{name}" if name else ""

    @property
    def requirement(self) -> str:
        """Return what was asked of pip, or the release that uv names."""
        asked = self.find_capture("requirement")
        pattern = r"\b([a-z][\w-]*)(?:==|` \(v)([\d.]*\d)(?: has no wheels|\) only has)"
        stated = re.findall(pattern, self.text)[:1]
        return asked or "".join(map("==".join, stated))

    @property
    def requirement_plain(self) -> str:
        """Return it where it names a known distribution."""
        requirement = self.requirement.lower().rstrip(",")
        is_known = name_of(requirement) in remedy_table().distributions.values()
        return requirement if is_known and is_requirement(requirement) else ""

    @property
    def needed_known(self) -> str:
        """Return what a sentence says is required where it names a known distribution."""
        needed = self.find_capture("needed").lower()
        is_known = is_known_distribution(name_of(needed), self.log.matrix)
        return needed if is_known and is_requirement(needed) else ""

    @property
    def advice(self) -> str:
        """Return what the log's last words propose."""
        return quote(self.log.ending.advice)

    @property
    def debian_library(self) -> str:
        """Name a library's package as Debian's policy does: libGL.so.1 is in libgl1."""
        named = re.fullmatch(
            r"(lib[A-Za-z0-9+.-]+?)\.so\.(\d+)[\d.]*", self.find_own_capture("library")
        )
        if named is None:
            return ""
        return f"{named[1]}{'-' if named[1][-1].isdigit() else ''}{named[2]}".lower()

    @property
    def python_floor(self) -> str:
        """Return the Python that a project's tool looks for, the oldest of a range."""
        asked = find_group(r"interpreter found for (?:C?[Pp]ython )?(\d[\w.+]*)", self.text)
        return asked or find_group(r">= ?(3\.\d+)", self.find_own_capture("wanted"))

    @property
    def cudnn_wanted(self) -> str:
        """Return the cuDNN that a message says the build was made with."""
        version = self.find_capture("cudnn_built")
        return ".".join(map(str, parse_cudnn_version(version)[:3])) if version else ""

    @property
    def gencode(self) -> str:
        """Read the release of protobuf's generated code: "gencode 5.28.3 runtime 4.25.4"."""
        return find_group(r"\bgencode (\d+\.\d+\.\d+) runtime", self.text)

    @property
    def tensorrt_major(self) -> str:
        """Read the major of the library that is asked for, where TensorRT has wheels of it."""
        library = self.find_capture("library")
        asked = find_group(r"^libnv(?:infer|onnxparser)\w*\.so\.(\d+)", library)
        first = numbers(system_packages().tensorrt.first_wheel)[0]
        return asked if asked and int(asked) >= first else ""

    @property
    def torch_label(self) -> str:
        """Return the label of the release, or that of the stated CUDA: cu126."""
        label = match_shape(self.labelled_release.partition("+")[2], r"cu\d{2,3}|cpu")
        cuda = match_shape(self.find_capture("torch_cuda"), r"\d+\.\d")
        return label or (f"cu{cuda.replace('.', '')}" if cuda else "")

    @property
    def torch_public(self) -> str:
        """Return the release without its label."""
        return public_version(self.labelled_release)

    @property
    def release_line(self) -> str:
        """Return the first two numbers of the release."""
        return major_minor(self.release) if "." in self.release else ""

    @property
    def cc(self) -> str:
        """Return the compute capability of the claim's messages, else a known one of the log."""
        own = list(map(normalize_capability, self.list_own_captures("cc", "sm")))
        known = filter(self.log.matrix.architecture, own or self.log.capabilities)
        return next(known, "")

    @property
    def cc_digits(self) -> str:
        """Return it without its dot."""
        return self.cc.replace(".", "")

    @cached_property
    def extension_package(self) -> str:
        """Name the package whose compiled part complains.

        By its place below site-packages, else by the frame before it.
        """
        files = re.findall(r"[/\\](\w+)\.(?:cpython|cp3|abi3|so|pyd)", self.text)
        known = next(filter(find_distribution, files), "")
        if known:
            return known
        folder = r"(?:site|dist)-packages[/\\]([A-Za-z][A-Za-z0-9_]+)[/\\.]"
        for pattern in (rf"{folder}[^\s:'\"]*\.(?:so|pyd|dll)\b", folder):
            for name in re.findall(pattern, self.text):
                if not self.log.matrix.framework_of(name):
                    return str(name)
        words = re.findall(r"\w+", self.text.lower())
        named = (word for word in words if word in _companion_modules())
        return next(named, "") or self._nearest_extension

    @property
    def _nearest_extension(self) -> str:
        """Name the extension in the nearest frame before the claim's last line."""
        frames = self.log.select(*EXTENSIONS, "cuda-package-named")
        lines = [event.line for event in self.claim.events if event not in frames]
        line = max(lines, default=0)
        nearest = min(
            frames,
            key=lambda event: (event.line > line, -min(event.last_line, line), event.line),
            default=None,
        )
        return nearest.values["extension"] if nearest else ""

    @property
    def extension_known(self) -> str:
        """Name the distribution that is known to bring it."""
        return find_distribution(self.extension_package)

    @property
    def complaining_package(self) -> str:
        """Name the distribution of the package whose compiled part complains.

        One that goes with a framework.
        """
        module = self.extension_package
        name = find_distribution(module) or _companion_modules().get(module, "")
        return name if companion_row(name).frameworks else ""

    @property
    def companion(self) -> str:
        """Name it where it has releases for each framework's."""
        name = self.complaining_package
        return name if companion_row(name).releases else ""

    @property
    def companion_framework(self) -> str:
        """Name the framework that it goes with."""
        return next(iter(companion_row(self.complaining_package).frameworks), "")

    @property
    def cuda_wheels(self) -> tuple[str, ...]:
        """List the CUDA wheels that the release requires."""
        return self.row.cuda_wheels if self.row else ()

    @property
    def nvcc_wheel(self) -> str:
        """Name the wheel with nvcc's parts that the release requires."""
        return next((item for item in self.cuda_wheels if item.startswith("nvidia-cuda-nvcc")), "")

    @property
    def wheel_pin(self) -> str:
        """Return the framework's wheel of the library whose symbol is missing."""
        part = "nvjitlink" if "nvjitlink-symbol" in self.signatures else "nccl"
        pins = (item.replace(" ", "") for item in self.cuda_wheels if "==" in item)
        return next((pin for pin in pins if pin.startswith(f"nvidia-{part}-")), "")

    @property
    def framework_extra(self) -> str:
        """Return the requirement that brings the framework with its CUDA libraries."""
        return identity(self.framework).plans.gpu_requirement if self.framework else ""

    @property
    def nvinfer_major(self) -> str:
        """Return the major version of the TensorRT library that the log asks for."""
        optional = (event.values.get("library", "") for event in self.log.harmless_events)
        names = " ".join((self.find_capture("library"), *optional))
        return find_group(r"\blibnv(?:infer|onnx|parsers)\w*\.so\.(\d{1,2})\b", names)

    @property
    def loaded_folder(self) -> str:
        """Return the folder of the wrong CUDA library that was loaded, as the loader names it."""
        pattern = r"(/[\w./+-]+)/lib(?:cu|nv)\w*\.so[\w.]*: (?:undefined symbol|version|symbol)"
        folder = find_group(pattern, self.text)
        return "" if "-packages/" in f"{folder}/" else match_shape(folder, PATH)

    @property
    def library_path_full(self) -> str:
        """Return the path of the library that a message names."""
        return match_shape(self.find_capture("library"), r"/[\w./+-]+")

    @property
    def build_major(self) -> str:
        """Return the major of the CUDA of the framework's build."""
        return major(find_build_cuda(self.log))

    @property
    def cuda_major(self) -> str:
        """Return the major of the CUDA here: of the toolkit, else of the framework's build."""
        return major(next(iter(self.log.cudas), "")) or self.build_major

    @property
    def wanted_major(self) -> str:
        """Return the major of the CUDA whose libraries are missing; "" where several have them."""
        majors = {major(line) for line in self.matching_toolkits}
        return majors.pop() if len(majors) == 1 else ""

    @property
    def other_major(self) -> str:
        """Return the major of the CUDA here where it is not the wanted one."""
        return self.cuda_major if self.cuda_major != self.wanted_major else ""

    @property
    def fitting_release(self) -> str:
        """Return the newest release of the framework that is for the CUDA that is here."""
        wanted, minor = self.cuda_major, self.log.python
        if not (wanted and self.framework):
            return ""
        for row in self.log.matrix.releases(self.framework, self.context.platform):
            is_for_python = not minor or minor in row.pythons
            if row.cuda and major(row.cuda) == wanted and not row.yanked and is_for_python:
                return row.version
        return ""

    @property
    def beside(self) -> str:
        """Name the packages that the log lists, and those whose files it shows."""
        return " ".join((*self.log.packages, *self.log.values("extension")))

    @property
    def built_package(self) -> str:
        """Name the known package whose build fails.

        By the claim's own words, by pip's last word, by what it took last.
        """
        rows = (*self.log.select("ninja-failed"), *reversed(self.log.select("pip-collecting")))
        stated = [value for event in rows for name, value in event.captures if name != "version"]
        known = remedy_table().distributions.values()
        for name in map(canonical_name, (*re.findall(r"[\w-]+", self.text), *stated)):
            if name in known or companion_row(name).distributions:
                return name
        return ""

    @property
    def build_constraint(self) -> str:
        """Return the bound on what builds a package by which the build finds what it lacks."""
        if self.find_own_capture("missing_module").startswith("pkg_resources"):
            return "setuptools<82"
        return "cython<3" if "cython_sources" in self.text else ""

    @property
    def isolated_package(self) -> str:
        """Name the package that pip builds in an environment of its own.

        Return "" where the log shows no build.
        """
        return self.built_package if self.log.has("ninja-failed") else ""

    @property
    def source_package(self) -> str:
        """Name the package whose build fails where it is published as source alone."""
        return self.built_package if source_package(self.built_package) else ""

    @property
    def library_wheel(self) -> str:
        """Name the wheel that holds the missing library, for its CUDA."""
        wheel = load_data("nvidia/cuda_wheels", CudaWheels).wheel_of(self.find_capture("library"))
        return f"{wheel}-cu{self.wanted_major}" if wheel and self.wanted_major else ""

    @property
    def named_toolkit(self) -> str:
        """Return the CUDA line of an installed toolkit, else of a folder that should hold one."""
        return next(iter(self.log.cudas), self.log.absent_toolkit)

    @property
    def cuda_dashed(self) -> str:
        """Return the CUDA line as names of system packages have it."""
        return self.cuda_line.replace(".", "-")

    @property
    def jetson(self) -> str:
        """Tell whether the log is of a Jetson."""
        return "yes" if self.log.values("jetson") else ""

    @property
    def branch(self) -> str:
        """Return the driver's branch."""
        return match_shape(self.log.first_value("branch")[:3], r"\d{3}")

    @property
    def gcc_of_node(self) -> str:
        """Return the first GCC that has a missing symbol's version."""
        return remedy_table().gcc_of_symbols.get(self.find_capture("node"), "")

    @property
    def missing_distribution(self) -> str:
        """Name the distribution that is known to bring a missing module."""
        return find_distribution(self.find_capture("missing_module"))

    @property
    def asker(self) -> str:
        """Name the known package that asks another one for a name."""
        return self._find_package("asker")

    @property
    def provider(self) -> str:
        """Name the known package that lacks the name."""
        return self._find_package("provider")

    @property
    def imported_from(self) -> str:
        """Name the known package of a module that lacks a name."""
        return self._find_package("module")

    def _find_package(self, capture: str) -> str:
        """Name the distribution of a stated module, unless an index of its own has it."""
        module = self.find_own_capture(capture).partition(".")[0]
        framework = find_framework_of_package(module)
        name = canonical_name(find_distribution(module) or module)
        is_known = is_known_distribution(name, self.log.matrix)
        return name if is_known and not (framework and framework.index) else ""

    @property
    def missing_top(self) -> str:
        """Name the package of a missing module."""
        return self.find_capture("missing_module").partition(".")[0]

    @property
    def required_cuda(self) -> str:
        """Find the CUDA release that the driver is too old for.

        A condition in the log names it (cuda>=12.1); otherwise the build does.
        """
        pattern = r"^\s*(?:cuda\s*[>=]+\s*)?(\d{1,2}(?:\.\d)?)\s*$"
        names = ("condition", "needed_cuda", "cuda_wanted")
        stated = (find_group(pattern, self.find_own_capture(name)) for name in names)
        of_companion = (self.companion_release.cuda or "") if self.companion_release else ""
        return next(filter(None, stated), "") or self.cuda_line or of_companion

    @cached_property
    def companion_release(self) -> FrameworkRelease | None:
        """Return the row of an installed companion whose wheel is for one CUDA.

        Return None where the log lists none.
        """
        for name, version in self.log.packages.items():
            if companion_row(name).releases:
                for row in self.log.matrix.companion_releases(name):
                    if row.version == version and row.cuda:
                        return row
        return None

    @property
    def cuda_line(self) -> str:
        """Return the CUDA line that a build asks for.

        By its release, by the libraries it names; "" where several fit.
        """
        label = re.fullmatch(r"cu(\d+)(\d)", self.torch_label)
        cuda = ""
        if label:
            cuda = f"{label[1]}.{label[2]}"
        elif self.row:
            cuda = self.row.cuda or ""
        lines = self.matching_toolkits
        if cuda and (not lines or cuda in lines):
            return cuda
        return lines[0] if len(lines) == 1 else ""

    @property
    def stated_major(self) -> str:
        """Return the one CUDA major that opened libraries, wheels or the toolkit state; else ""."""
        listed = " ".join((*self.log.packages, *self.log.packages.values()))
        stated = (
            map(major, self._list_toolkits(self.log.values("opened"))),
            re.findall(r"(?:-cu|\+cuda)(1[1-9])(?!\d)", listed),
            map(major, self.log.cudas),
        )
        return next((majors.pop() for majors in map(set, stated) if len(majors) == 1), "")

    @cached_property
    def matching_toolkits(self) -> tuple[str, ...]:
        """List the CUDA lines that hold every missing library, and every opened one."""
        required = self._list_toolkits(self.list_own_captures("library"))
        opened = self._list_toolkits(self.log.values("opened"))
        return tuple(line for line in required if line in opened) or required

    def _list_toolkits(self, names: Iterable[str]) -> tuple[str, ...]:
        libraries = map(parse_library, names)
        of_cuda = [item for item in libraries if item.family in (TOOLKIT, PROFILER)]
        return list_common_toolkits(self.log.matrix, of_cuda)

    def list_plan_options(self) -> tuple[str, ...]:
        """List the options of `envcheck plan` that a log answers."""
        if self.log.has_facts:
            return ()
        options: list[str] = []
        for option, value, shape in (
            ("--python", self.log.python, r"3\.\d{1,2}"),
            ("--driver", self.log.driver, r"\d{3,4}(\.\d+){0,2}"),
            ("--glibc", self.log.first_value("glibc"), r"2\.\d{1,2}"),
            *(("--gpu", gpu, r".+") for gpu in self._list_gpus()),
        ):
            if re.fullmatch(shape, value, re.ASCII):
                options += [option, value]
        return tuple(options)

    def _list_gpus(self) -> Iterable[str]:
        """Name each kind of GPU as the planner takes it.

        By its capability, or a name that stands for one product.
        """
        if self.cc and self.list_own_captures("cc", "sm"):
            return (self.cc,)  # looking names up takes longer than all the rest
        names = [
            name
            for name in self.log.values("gpu")
            if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ./()-]{2,60}", name)
            and len(find_capabilities(name)) == 1
        ]
        return (names or list(filter(self.log.matrix.architecture, self.log.capabilities)))[:4]


def _find_frameworks(text: str) -> set[str]:
    return {item.name for item in identities() if re.search(item.logs.words, text, re.IGNORECASE)}


def match_shape(text: str, shape: str) -> str:
    """Return a text if the whole of it has a given shape, else ""."""
    return text if len(text) <= 200 and re.fullmatch(shape, text, re.ASCII) else ""


@cache
def _companion_modules() -> dict[str, str]:
    """Map the modules of packages on top of frameworks to their distributions."""
    found: dict[str, str] = {}
    for row in load_companions().rows:
        for name, module in row.distributions.items():
            found.setdefault(module, name)
    return found


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
