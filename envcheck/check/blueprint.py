"""What a file that builds an environment states, line by line, and what its base image holds."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from envcheck.frameworks import framework_names
from envcheck.matrix.companions import companion_sections
from envcheck.matrix.images import (
    ImageConvention,
    SystemRelease,
    is_externally_managed,
    load_base_images,
    parse_reference,
)
from envcheck.model import RequestError, UserError, dataclass, field, major, replace
from envcheck.model.versions import Requirement, read_requirement

# pytorch=2.5.1=cuda126_py312h1_0, pytorch=*=cuda*, pytorch 2.5.1 cuda*, pytorch[build=cuda*]
_CONDA_SPEC = re.compile(
    r"([\w.-]+)(?:\s*={1,2}\s*|\s+)?(?:(\d+(?:\.\d+)*)[.*]*|\*)?"
    r"(?:(?:\s*=\s*|\s+)([\w.*]+)$)?(?:[^\[]*\[[^\]]*\bbuild\s*=\s*[\"']?([\w.*]+))?.*"
)
Reader = Callable[[str], "str | None"]  # a file's text by its path; None: it is not there
Names = tuple[str, ...]
Table = dict[str, Any]  # of a document that somebody else wrote


class FileError(UserError):
    """A file that cannot be read as what it should be; the message says why."""


@dataclass
class Line:
    """One thing a file says, and where: "requirements.txt:3"."""

    text: str
    location: str
    links: str = ""  # the page of links that it may come from as a wheel
    # what the index is for that a requirement is bound to: cpu, cuda, or other for other makers'
    # GPUs
    index: str = ""
    label: str = ""  # of the builds on the index that its command names: cu126
    is_only_index: bool = False  # the command asks no other index first
    is_on_default: bool = False  # its command names no index, and nothing before has set one
    own_index: str = ""  # an index with such builds that is not the framework's own
    command: int = 0  # which command of the file installs it: those of one are resolved together
    is_isolated: bool = True  # pip builds its sources where nothing else is installed
    is_resolved: bool = True  # with what it requires
    is_upgrade: bool = False  # its command takes a newer release than the installed one
    is_open: bool = False  # its release is not known before the build

    @property
    def requirement(self) -> Requirement | None:
        """The requirement that it states; None for what is none, or names a URL."""
        with suppress(RequestError):
            requirement = read_requirement(self.text)
            return None if requirement.url else requirement
        return None

    @property
    def name(self) -> str:
        """The normalized name of its requirement; "" for what is none, or names a URL."""
        return self.requirement.name if self.requirement else ""

    @property
    def spec(self) -> tuple[str, str, str]:
        """The name, the version and the build that it pins for conda: cudatoolkit=11.2=h1."""
        match = _CONDA_SPEC.match(self.text)
        return (match[1], match[2] or "", match[3] or match[4] or "") if match else ("", "", "")


Lines = tuple[Line, ...]


@dataclass
class Files:
    """The files that a judged one may name, in its folder or the one it is judged from."""

    reader: Reader
    folders: Names = ("",)
    depth: int = 0  # of projects that require each other
    # what a file of the image may be called here
    names: Callable[[str], Names] = lambda name: (name,)
    generated: Mapping[str, tuple[str, str]] = field(
        default_factory=dict
    )  # path and text of what the file itself holds

    def find(self, name: str) -> tuple[str, str] | None:
        """Return a file's path and text; None where it is not there."""
        if name in self.generated:
            return self.generated[name]
        for alias in self.names(name):
            for folder in dict.fromkeys(self.folders):
                path = posixpath.normpath(posixpath.join(folder, alias))
                text = self.reader(path)
                if text is not None:
                    return path, text
        return None

    def relative_to(self, path: str) -> Files:
        """Return the files as another one names them."""
        return replace(self, folders=(posixpath.dirname(path.replace("\\", "/")), *self.folders))


@dataclass
class Image:
    """What the name of a base image says of its contents; "" where it says nothing."""

    reference: str
    location: str
    cuda: str = ""  # 12.4.1
    cudnn: str = ""  # its major: "9"; "any" where the name tells only that it is there
    flavor: str = ""  # base, runtime, devel; libraries, perhaps with nvcc
    platform: str = ""  # linux/arm64, where its name says it
    jetson: str = ""  # the release of Jetson Linux that it runs on: R35.3.1
    os: str = ""
    os_version: str = ""
    glibc: str = ""
    python: str = ""
    pip: str = ""  # of the system's own package of it
    frameworks: Names = ()  # requirements it fulfils: "torch==2.4.0"
    # releases of packages on top of frameworks that it holds: "vllm==0.11.0"
    packages: Names = ()
    source: str = ""  # the convention by which its name was read
    gpu_tag: str = ""  # which tag to use where a GPU is meant and this one is for the CPU
    lacks: str = ""  # what it holds in place of a framework that envcheck judges
    is_open: bool = False  # its name does not say whether its framework is built for a GPU
    is_partial: bool = False  # it holds CUDA libraries of which the name says nothing
    own_cuda: bool = False  # they are those that its framework was built for
    variables: Mapping[str, str] = field(default_factory=dict)  # that it sets: PIP_CONSTRAINT
    # it brings a newer libcuda, which data-centre GPUs use with an older driver
    has_compat: bool = False
    # the oldest release of each branch that its publisher names for that; none: not stated
    compat_drivers: Names = ()
    refuses_pip: bool = False  # its Python is externally managed (PEP 668)

    @property
    def is_named(self) -> bool:
        """Whether the file builds on an image at all."""
        return bool(self.location)


NO_IMAGE = Image("", "")
NO_DRIVER = "none"  # of a project for which pixi chooses builds as if there were none


@dataclass
class Blueprint:
    """An environment that is not built yet."""

    path: str
    # Dockerfile, stage (one that the last copies from), compose file, environment.yml, requirements
    # file
    kind: str
    image: Image = NO_IMAGE
    python: Line | None = None  # a version: "3.10"
    pythons: Line | None = None  # the range that a project is for: ">=3.12"
    pip: Line | None = None  # where the system's package of pip is installed
    own_pip: bool = False  # another pip, or another installer, is brought or asked
    own_python: bool = False  # a Python of conda, pyenv or uv goes before the image's
    old_installer: bool = (
        False  # it comes with an older release of Miniconda, of which nothing says its Python
    )
    requirements: Lines = ()  # PEP 508
    constraints: Lines = ()  # files that bound what is installed
    bounds: Lines = ()  # the lines of these files
    indexes: Lines = ()  # lines of a requirements file that name a package index
    removals: Lines = ()  # names that a command uninstalls
    conda: Lines = ()  # match specs: "cudatoolkit=11.2"
    # the major of the driver's CUDA that CONDA_OVERRIDE_CUDA, or pixi's project, states
    conda_driver: str = ""
    compiles: Lines = ()  # what needs nvcc
    may_compile: Lines = ()  # what builds an extension, of CUDA code or not
    inherited: Lines = ()  # requirements installed in a stage that this one copies from
    refused: Lines = ()  # pip installations that an externally managed Python refuses
    # steps that bring CUDA or cuDNN into the image, in whatever release
    cuda_steps: Lines = ()
    toolkit: Line | None = None  # the release of the toolkit that the system's packages bring
    cudnn: Line | None = None  # the release, or the major, of their cuDNN
    variables: Lines = ()  # that the image or the service sets: NAME=value
    platform: str = ""  # linux/arm64, where the file names one
    asks_gpu: Line | None = (
        None  # a service, or a variable of the NVIDIA runtime, that asks for GPUs
    )
    # what sets LD_LIBRARY_PATH, for good or in a file read at the start
    loader_path: Line | None = None
    lacks_gpu: Line | None = None  # a compose service with a CUDA image and no request
    gaps: Lines = field(default_factory=tuple)  # sentences on what the file leaves open

    def plus(self, **lines: Iterable[Line]) -> Blueprint:
        """Return a copy with more lines in some of its lists."""
        longer = {name: (*getattr(self, name), *new) for name, new in lines.items()}
        return replace(self, **longer)

    @property
    def next_command(self) -> int:
        """Return the number of the next command that installs or uninstalls."""
        return (
            max(
                (line.command for line in (*self.requirements[-1:], *self.removals[-1:])), default=0
            )
            + 1
        )


def find_named(conda: Iterable[Line], *names: str) -> Line | None:
    """Return the first spec of conda that is for one of these packages."""
    return next((line for line in conda if line.spec[0] in names), None)


def find_spec(conda: Iterable[Line], names: Names) -> Line | None:
    """Return the version that a conda spec pins one of `names` to: cudatoolkit=11.2.2 -> 11.2.2."""
    for line in conda:
        name, version, _ = line.spec
        if version and name in names:
            return Line(version, line.location)
    return None


_VARIABLE = re.compile(r"\\\$|\$(\w+)|\$\{(\w+)(?:(:?[-+?]|##?|%%?|//?)([^{}]*))?\}")
_PAIR = re.compile(r"""(\w+)=("(?:[^"\\]|\\.)*"|'[^']*'|(?:[^\s"'\\]|\\.)*)""")


def substituted(text: str, variables: Mapping[str, str]) -> str:
    """Fill in $NAME, ${NAME} and its forms: ${NAME:-default}, ${NAME#prefix}."""

    def value(match: re.Match[str]) -> str:
        name, operator, word = match[1] or match[2], match[3] or "", match[4] or ""
        if not name:
            return "$"
        current = variables.get(name)
        if operator.endswith("+"):
            return word if current else ""
        if operator.endswith("-") and (current is None or (operator == ":-" and not current)):
            return word
        if current is None:
            return match[0]
        return _cut(current, operator, word) if operator[:1] in _CUTS else current

    return _VARIABLE.sub(value, text)


_CUTS = ("#", "%", "/")


def _cut(text: str, operator: str, word: str) -> str:
    """Cut a value as the shell does.

    # a prefix, % a suffix, / one replaced by another; doubled, the longest or all.
    """
    pattern, _, replacement = word.partition("/") if operator[0] == "/" else (word, "", "")
    if not pattern or pattern.count("*") > 1 or max(len(text), len(pattern)) > _MAX_CUT:
        return text
    is_double = len(operator) > 1
    # of the shell: * is anything, ? one character
    glob = "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern)
    if operator[0] == "/":
        return re.sub(glob, lambda _: replacement, text, count=0 if is_double else 1)
    if operator[0] == "#":
        lazy = glob if is_double else glob.replace(".*", ".*?")
        return re.sub(rf"\A{lazy}", "", text, count=1)
    return re.sub(rf"\A(.*{'?' if is_double else ''}){glob}\Z", r"\1", text)


_MAX_CUT = 200  # characters; a longer text names no release


def is_open(text: str) -> bool:
    """Return whether a variable is left in a text."""
    match = _VARIABLE.search(text)
    return match is not None and match[0] != "\\$"


def assignments(value: str) -> Iterator[tuple[str, str]]:
    """Read the pairs of ENV and ARG: A=1 B="two words", and the old form ENV A two words."""
    pairs = [(name, _unquote(value_text)) for name, value_text in _PAIR.findall(value)]
    if pairs and re.match(r"\w+=", value):
        yield from pairs
    elif re.match(r"\w+\s+\S", value):
        name, _, value_text = value.partition(" ")
        yield name, value_text.strip()


def _unquote(quoted: str) -> str:
    if quoted[:1] in {'"', "'"}:
        return quoted[1:-1]
    return re.sub(r"\\(.)", r"\1", quoted)


def parse_image(reference: str, location: str) -> Image:
    """Read an image reference.

    nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04 has CUDA 12.4.1 and cuDNN, and no nvcc.
    """
    reference_parts = parse_reference(reference)
    if reference_parts:
        return _image(reference, location, *reference_parts)
    return Image(reference, location)


def is_for_gpu(image: Image) -> bool:
    """Return whether an image is meant for a GPU.

    The CUDA or the framework in it says so, or its name where that states no release.
    """
    has_build = any("-cpu" not in text for text in image.frameworks) and not image.is_open
    is_named = re.fullmatch(load_base_images().for_gpu, image.reference) is not None
    return bool(image.cuda) or has_build or is_named


class _Parts(dict[str, str]):
    """The parts of a name; "" where it states none."""

    def __missing__(self, name: str) -> str:
        return ""


def _image(reference: str, location: str, row: ImageConvention, stated: dict[str, str]) -> Image:
    parts = _Parts(stated)
    system = _system(parts["os"] or row.os, parts["os_version"], parts["codename"])
    versions = [f"{name}{{}}=={parts[name]}" for name in framework_names() if parts[name]]
    frameworks = versions or ([row.holds + "{}"] if row.holds else [])
    is_for_gpu = row.gpu or any(parts[name] for name in ("gpu", "gpu2", "cuda"))
    has_own_python = row.own_python or bool(parts["python"])
    packages = tuple(f"{name}=={parts[name]}" for name in companion_sections() if parts[name])
    tag = reference.rpartition(":")[2] if ":" in reference.rsplit("/", 1)[-1] else ""
    cudnn = row.cudnn_releases.get(parts["cuda"]) or parts["cudnn"] or row.cudnn_unnumbered
    return Image(
        reference=reference,
        location=location,
        cuda=parts["cuda"],
        cudnn=cudnn if "cudnn" in parts and ("-cudnn" in reference or "month" in parts) else "",
        flavor=parts["flavor"],
        platform=row.platform,
        jetson=parts["jetson"].upper(),
        os=system.os,
        os_version=system.version,
        glibc=system.glibc,
        python=parts["python"] or ("" if row.own_python else system.python),
        pip="" if row.own_python else system.pip,
        frameworks=tuple(
            text.format("" if is_for_gpu or parts["open"] else "-cpu") for text in frameworks
        ),
        packages=packages,
        source=row.source,
        gpu_tag=row.gpu_tag,
        lacks=row.lacks,
        is_open=bool(parts["open"]),
        is_partial=row.partial or bool(frameworks or packages),
        own_cuda=row.own_cuda,
        has_compat="month" in parts,
        compat_drivers=tuple(parts["drivers"].split()),
        variables=_list_variables(row, parts["month"]),
        refuses_pip=not has_own_python and is_externally_managed(system.os, system.version, tag),
    )


def _list_variables(row: ImageConvention, month: str) -> dict[str, str]:
    constraints = row.constraints if month >= row.constrained_from else ""
    found = {"PIP_CONSTRAINT": constraints, row.variable: month}
    return {name: value for name, value in found.items() if name and value}


def _system(name: str, version: str, codename: str) -> SystemRelease:
    for row in load_base_images().systems:
        by_version = row.os == name and version and (row.version or version) == version.rstrip(".")
        by_major = row.os == name and row.version and major(version) == row.version
        if by_version or by_major or (codename and row.codename == codename):
            return row
    return SystemRelease(name, version)
