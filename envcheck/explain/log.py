"""A log as its events and claims, and how strongly each kind of evidence speaks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cached_property

from envcheck.explain.ending import Ending
from envcheck.explain.signatures import (
    Conclusion,
    Event,
    Signature,
    compile_pattern,
    conclusions_by_name,
    list_noise,
    role_of,
    signatures_by_name,
)
from envcheck.frameworks import Framework, framework_names, identities
from envcheck.matrix.gpus import find_capabilities
from envcheck.matrix.images import parse_framework
from envcheck.matrix.query import Matrix
from envcheck.model import (
    ERROR,
    Absent,
    Facts,
    canonical_name,
    dataclass,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.text import find_group
from envcheck.rules.catalogue import catalogue


class Strength(IntEnum):
    """The kinds of evidence, strongest first, each with the reason for its place.

    Only the order counts. The recorded logs of tests/cases decided it, and hold it. What is merely
    installed, and what the program went on after, counts as UNUSED_GPU at most where something else
    failed then: a program ends by what failed last, however clearly an earlier line names its own
    cause (tests/explain/test_what_failed_last.py).
    """

    # The program is for another processor, so whatever it says, even a final refusal, follows
    # from that
    EMULATED = 23
    # The check that ends the program states the cause, or a measured fact explains the message
    FINAL = 22
    # It names both releases that clash, as read from the files themselves, not from a limit in
    # code
    BOTH_VALUES = 21
    # It names a limit and the value that breaks it, so there is more to check than a refusal
    LIMIT_AND_VALUE = 20
    # A tool refuses a part by name, which is a decision and not only a description
    REFUSED_PART = 19
    # It names the cause in words of its own, not only the part that is wrong
    NAMED_CAUSE = 18
    # It names the part and what it lacks, not only the place where it fails
    NAMED_PART = 17
    # It names the place of the fault, and holds against facts that a log states in passing
    NAMED_PLACE = 16
    # It follows from the message and one more value, while a missing part may have several causes
    DERIVED = 15
    # A part is missing in a known place, while a search that finds nothing may look elsewhere
    MISSING_HERE = 14
    # A search ends without the part, which a program reports only where it needs the part
    NOT_FOUND = 13
    # One cause is common and the others are rare, and no working GPU excuses the message
    LIKELY = 12
    # Two causes fit and this is the usual one; the next kind may be printed in passing
    USUAL = 11
    # The weakest message that tells its cause by itself, so the machine's facts need not support
    # it
    DECIDED = 10
    # Several causes fit and one is most frequent, as when only the machine's facts show a fault
    PROBABLE = 9
    # Several causes fit equally, but none of the other messages explains this one
    OPEN = 8
    # It names the library that fails, so it says where, while a failed call says only when
    FAILED_PART = 7
    # A call fails, which says more than that no GPU is used
    FAILED_CALL = 6
    # No GPU is used, which is what went wrong, while a side effect is what came after
    UNUSED_GPU = 5
    # Something else fails because of the cause, one step nearer to it than the end of the program
    SIDE_EFFECT = 4
    # The program ends and points to the lines before it, so it is a claim where no other is
    AFTERMATH = 3
    # Something is wrong and nothing says what, so it never names a root cause
    SYMPTOM = 2
    # The machine's facts show a fault that the log's own decisive message does not depend on
    UNSUPPORTED = 1

    @classmethod
    def named(cls, name: str) -> Strength:
        """Return the kind that data/advice/signatures.json names: named-cause."""
        return cls[name.upper().replace("-", "_")]


@dataclass
class Claim:
    """One cause that messages of the log speak for, and how strongly."""

    id: str  # finding id
    strength: Strength
    message: str  # what was seen and why it means that, one sentence or two
    events: tuple[Event, ...] = ()
    severity: str = ERROR
    rivals: tuple[str, ...] = ()  # finding ids that fit the same messages


def conclude(name: str, *events: Event, **stated: str) -> Claim:
    """Draw a conclusion of data/advice/signatures.json from messages and what else is stated."""
    return make_claim(conclusions_by_name()[name], events, stated)


def draw_rows(log: Log) -> Iterator[Claim]:
    """Draw the conclusions whose rows name their messages."""
    for row in conclusions_by_name().values():
        events = log.select(*row.messages) if row.messages else ()
        if not events or not _holds(log, row.name):
            continue
        beside = log.select(*row.beside)
        if row.beside and not beside:
            continue
        for event in events:
            if re.search(row.words, event.text):
                yield conclude(row.name, event, *beside)


def _holds(log: Log, name: str) -> bool:
    """Return whether a conclusion may be drawn where the log comes from."""
    condition = _CONDITIONS.get(name)
    return condition is None or bool(condition(log))


def make_claim(
    row: Signature | Conclusion, events: tuple[Event, ...], stated: Mapping[str, str]
) -> Claim:
    """Make the claim of a row, in the words that messages and what else is stated fill."""
    values: dict[str, str] = {}
    for event in reversed(events):
        values.update(event.values)
    values.update(stated)
    message = fill_message(row.meaning, {key: value for key, value in values.items() if value})
    if message and events and "{" not in row.meaning:
        message = _name_part(message, events[0].text)
    strength = Strength.named(row.strength)
    return Claim(row.finding, strength, message or events[0].text, events, row.severity, row.rivals)


# What a program says is not there or does not fit, by the words around its name;
# the first of them that a line has counts.
_PARTS = (
    r"([\w+-]+\.(?:so|dll|pyd|dylib)(?:\.\d+)*): cannot open shared object",
    r"(?:not|ed to|ble to) (?:load|dlopen|find|open)(?: [a-z]+)*? '?([\w+-]+\.(?:so|dll)[.\d]*)",
    r"undefined symbol: (\w{1,60})\b",
    r"No module named '?([\w.]+)",
    r"cannot import name '(\w+)'",
    r"module '[\w.]+' has no attribute '(\w+)'",
    r"`([\w.]+)` was removed",
    r"cannot find (-l[\w+-]+)",
    r'has no member "(\w+)"',
    r"fatal error: ([\w./+-]+): No such file",
    r"[`'\"]([A-Za-z][\w.-]+)[`'\"] (?:seems to be |is |was )not (?:found|installed)",
)


def _name_part(message: str, text: str) -> str:
    """Add to a sentence the part that a line says is missing or does not fit."""
    for pattern in _PARTS:
        match = re.search(pattern, text)
        if match is None:
            continue
        part = match[1].rstrip(".")
        stem = re.split(r"[\d._]", re.sub(r"^(?:lib|-l)", "", part))[0]
        is_named = stem.lower() in message.lower()
        return message if is_named else f"{message.rstrip('.')} ({part})."
    return message


_MISSING = "\0"


def fill_message(template: str, values: Mapping[str, str]) -> str:
    """Put values into a sentence; "" where not even its beginning is complete."""
    filled = re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], _MISSING), template)
    if _MISSING not in filled:
        return filled
    complete = re.match(r"(.*)[,:;(.]", filled.partition(_MISSING)[0])
    return complete[1].rstrip(" ,:;(.") + "." if complete else ""


def rank_claims(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Join the claims of one cause and order them by strength, then by the catalogue.

    The log's order never counts.
    """
    grouped: dict[str, list[Claim]] = {}
    for claim in claims:
        grouped.setdefault(claim.id, []).append(claim)
    merged = map(_merge_claims, grouped.values())
    return tuple(sorted(merged, key=lambda claim: (-claim.strength, catalogue()[claim.id].rank)))


def _merge_claims(claims: list[Claim]) -> Claim:
    """Join the claims of one cause under the strongest.

    The first by its words where two are equal.
    """
    ordered = sorted(claims, key=lambda claim: (-claim.strength, claim.message))
    events = tuple(dict.fromkeys(event for claim in ordered for event in claim.events))
    return replace(ordered[0], events=events)


def find_root(claims: tuple[Claim, ...]) -> Claim | None:
    """Return the strongest claim that names a cause."""
    return claims[0] if claims and claims[0].strength > Strength.SYMPTOM else None


def is_consequence(claim: Claim, root: Claim) -> bool:
    """Return whether the root causes what a claim saw.

    By the catalogue, or as a weaker reading of one failure.
    """
    explained = claim.id in catalogue()[root.id].explains
    return explained or claim.strength < Strength.OPEN or bool(set(claim.events) & set(root.events))


def is_second_reading(claim: Claim, root: Claim) -> bool:
    """Return whether a claim only reads the root's own lines in a weaker way."""
    lines = {(event.file, event.line) for event in root.events}
    return (
        claim is not root
        and bool(claim.events)
        and all((event.file, event.line) in lines for event in claim.events)
    )


_NOTHING = Facts()
# Those with labels in their versions first: a log with the words of several is mostly of a program
# that one runs.
FRAMEWORKS = tuple(sorted(identities(), key=lambda item: not item.index))


class Log:
    """The messages of a log, the matrix, and the machine's facts where they are known."""

    def __init__(
        self,
        events: Sequence[Event],
        matrix: Matrix,
        facts: Facts | None,
        ending: Ending = Ending(),  # noqa: B008 - a value that never changes
    ) -> None:
        known = signatures_by_name()
        self.ending = ending
        self.harmless_events: list[Event] = []  # lines that complain and are known to mean no harm
        events_kept: list[Event] = []
        for event in events:
            if event.signature in known:
                (self.harmless_events if _is_harmless(event) else events_kept).append(event)
        self.events = tuple(events_kept)
        self.matrix = matrix
        self.facts = facts or _NOTHING
        self.has_facts = facts is not None

    def select(self, *names: str) -> tuple[Event, ...]:
        """List the messages of these signatures."""
        return tuple(event for event in self.events if event.signature in names)

    def has(self, *names: str) -> bool:
        """Return whether one of these signatures was seen."""
        return any(event.signature in names for event in self.events)

    def find_captures(self, *captures: str) -> Iterator[tuple[Event, str]]:
        """Yield each message that captured one of these names, with the value."""
        for event in self.events:
            for name, value in event.captures:
                if name in captures:
                    yield event, value

    def values(self, *captures: str) -> tuple[str, ...]:
        """List the distinct values that messages captured under these names."""
        return tuple(dict.fromkeys(value for _, value in self.find_captures(*captures)))

    def first_value(self, *captures: str) -> str:
        """Return the first value captured under these names; "" when there is none."""
        return next((value for _, value in self.find_captures(*captures)), "")

    @cached_property
    def is_healthy(self) -> bool:
        """Return whether the log shows a framework that uses a GPU."""
        return any(role_of(event) == "healthy" for event in self.events)

    @cached_property
    def computes_on_gpu(self) -> bool:
        """Return whether a program reached the GPU, even if it failed later."""
        return self.is_healthy or self.has(*_RAN_ON_GPU)

    # -- the machine, by its facts and by the log --

    @cached_property
    def os(self) -> str:
        """Name the operating system: linux, windows, darwin; "" unknown."""
        stated = self.facts.host.os.value
        if stated:
            return stated
        named = self.first_value("os").lower()  # as PyTorch's collect_env names it
        for word, system in (("windows", "windows"), ("macos", "darwin"), ("mac os", "darwin")):
            if word in named:
                return system
        libraries = " ".join(self.values("library", "library2"))
        if self.values("windows") or ".dll" in libraries:
            return "windows"
        if self.values("macos"):
            return "darwin"
        if ".so" in libraries or self.values("wsl", "container_host", "musl"):
            return "linux"
        return ""

    @cached_property
    def system(self) -> str:
        """Name the operating system, by the kinds of messages where nothing else tells it."""
        is_windows = any(
            event.signature.startswith(_WINDOWS) or "win_amd64" in event.text
            for event in self.events
        )
        return self.os or ("windows" if is_windows else "")

    @cached_property
    def container(self) -> str:
        """Name the kind of container that the log comes from.

        Return "" for none, or where it does not tell.
        """
        kinds = (
            _CONTAINERS[event.signature] for event in self.events if event.signature in _CONTAINERS
        )
        is_container = self.in_container or any(
            event.signature.startswith(_IN_CONTAINERS) for event in self.events
        )
        if self.values("pod"):
            return "kubernetes"
        kind = next((name for name in ("apptainer", "enroot") if self.values(name)), "")
        started = kind or self.first_value("container_tool").replace("nerdctl", "docker")
        return next(kinds, started or ("docker" if is_container else ""))

    @cached_property
    def place(self) -> str:
        """Name who gives out the GPUs where the log comes from; "" unknown."""
        return next((name for name in _PLACES if self.values(name)), "")

    @cached_property
    def installer(self) -> str:
        """Name the tool that installs the packages, where it is not pip; "" unknown."""
        named = next((name for name in _INSTALLERS if self.values(name)), "")
        return named.replace("_", " ")

    @cached_property
    def architecture(self) -> str:
        """Name the processor's architecture as the facts or the log tell it.

        x86_64, aarch64, arm64; "" unknown.
        """
        version = self.facts.host.architecture.value or self.first_value("arch")
        return version or ("aarch64" if self.values("jetson") else "")

    @cached_property
    def in_wsl(self) -> bool:
        """Return whether this is Windows' Linux."""
        return bool(self.facts.host.wsl_version.value or bool(self.values("wsl")))

    @cached_property
    def in_container(self) -> bool:
        """Return whether the log comes from a container.

        docker names a host by twelve hexadecimal digits.
        """
        hosts = self.values("host", "container_host")
        is_docker_host = any(
            len(host) == 12 and set(host) <= set("0123456789abcdef") for host in hosts
        )
        is_named = is_docker_host or self.values("pod", "container_run")
        return bool(self.facts.host.container.value or is_named)

    @cached_property
    def situations(self) -> set[str]:
        """Name what holds for the whole log, as rows of findings ask for it."""
        holds = {
            self.os: self.os,
            # under Rosetta; a Python for arm64 needs no AVX
            "apple-silicon": self.has("jax-cpu-feature-mac")
            or (self.os == "darwin" and self.architecture != "x86_64"),
            "build": self.has("ninja-failed"),
            "container": self.in_container or self.has("image-driver-not-detected"),
            "secure-boot": self.has("secure-boot-enabled"),
            "wsl": self.in_wsl,
        }
        return {name for name, value in holds.items() if value}

    @cached_property
    def has_no_gpu(self) -> bool:
        """Return whether the facts say that there is no NVIDIA GPU."""
        return isinstance(self.facts.gpus, Absent)

    @cached_property
    def environment(self) -> dict[str, str]:
        """Return the recorded environment variables."""
        return dict(self.facts.host.environment.value or {})

    @cached_property
    def library_path(self) -> str:
        """Return the library path as a log or the facts tell it."""
        return self.environment.get("LD_LIBRARY_PATH", "") or self.first_value("library_path")

    @cached_property
    def driver(self) -> str:
        """Return the driver release that runs, which proves a working driver; "" unknown."""
        return self.facts.driver.release.value or self.first_value("driver")

    @cached_property
    def python(self) -> str:
        """Return the Python minor: 3.11; "" unknown."""
        version = self.facts.python.version.value or self.first_value("python")
        digits = self.first_value("python_digits")
        if not version and digits:
            version = f"{digits[0]}.{digits[1:]}"
        return major_minor(version or self._python_of_path)

    @property
    def _python_of_path(self) -> str:
        """Read the Python that runs off the paths of the messages."""
        pattern = r"[/\\]python(3\.\d{1,2})[/\\](?:site|dist)-packages|\.cpython-3(\d{1,2})-"
        match = next(filter(None, (re.search(pattern, event.text) for event in self.events)), None)
        return (match[1] or f"3.{match[2]}") if match else ""

    @cached_property
    def pip(self) -> str:
        """Return the release of pip; "" unknown."""
        return self.facts.python.pip_version.value or self.first_value("pip")

    @cached_property
    def cudas(self) -> tuple[str, ...]:
        """List the CUDA Toolkit lines that are installed as far as told: 11.2."""
        installs = self.facts.toolkits.installs.value or ()
        installed = [item.version.value or item.nvcc_release.value or "" for item in installs]
        versions = [*installed, *self.values("nvcc", "cuda_path")]
        lines = dict.fromkeys(major_minor(item) for item in versions if item)
        return tuple(line for line in lines if line != self.absent_toolkit)

    @cached_property
    def absent_toolkit(self) -> str:
        """Return the CUDA line of the folder in which a message finds no nvcc; "" for none."""
        texts = " ".join(event.text for event in self.select("nvcc-not-found"))
        return find_group(r"[/\\](?:cuda-|v)(\d{1,2}\.\d)[/\\]+bin[/\\]+nvcc", texts)

    @cached_property
    def packages(self) -> dict[str, str]:
        """Map distribution names to versions, by the facts and by the lists in the log."""
        found: dict[str, str] = {}
        for item in self.facts.python.distributions.value or ():
            found.setdefault(item.name, item.version)
        for build in self.facts.python.frameworks.value or ():
            found.setdefault(build.distribution, build.version)
        for event in self.events:
            row = event.values
            if "package" in row and "version" in row:
                found.setdefault(canonical_name(row["package"]), row["version"])
        for name in framework_names():
            if self.values(name):
                found.setdefault(name, self.first_value(name))
        if self.image and not any(self.matrix.framework_of(name) for name in found):
            found[self.image[0]] = self.image[1]
        return found

    def release_of(self, framework: Framework) -> str:
        """Return the version of a framework, with its label such as +cu126; "" unknown."""
        return next(
            (self.packages[name] for name in framework.logs.packages if name in self.packages), ""
        )

    @cached_property
    def labelled_cuda(self) -> str:
        """Return the CUDA in the label of an installed release.

        12.6 for +cu126; "" without a label.
        """
        versions = (self.release_of(item) for item in identities() if item.index)
        label = next(
            filter(None, (re.search(r"\+cu(\d+)(\d)$", version) for version in versions)), None
        )
        return f"{label.group(1)}.{label.group(2)}" if label else ""

    @cached_property
    def image(self) -> tuple[str, str, str] | None:
        """Name distribution, version and CUDA of the one container image that was run.

        Return None for another one, or several.

        Only a command, a Dockerfile's FROM or a field of YAML counts, and no run that asks for the
        driver alone.
        """
        rows = [row.values for row in self.select("container-image")]
        images = {row["base_image"] for row in rows if not _is_driver_check(row)}
        return parse_framework(images.pop()) if len(images) == 1 else None

    @cached_property
    def capabilities(self) -> tuple[str, ...]:
        """List the compute capabilities of the GPUs named by the facts or the log, "8.6"."""
        gpus = self.facts.gpus.value or ()
        found = [gpu.compute_capability.value or "" for gpu in gpus]
        found += [normalize_capability(value) for value in self.values("cc")]
        names = (*(gpu.name.value or "" for gpu in gpus), *self.values("gpu"))
        found += map(find_capability, names)
        return tuple(dict.fromkeys(filter(None, found)))


# Where these are read, that nothing was found says nothing of what was asked for.
UNREACHED_INDEX = ("package-index-unreachable", "certificate-not-trusted")
_PLACES = ("slurm", "pbs", "lsf", "notebook")
_INSTALLERS = ("uv", "uv_pip", "poetry", "pdm")
_COMPAT_FOLDER = r"[^:\s]*/cuda[^/:\s]*/compat(?=[/:\s]|$)"
_WINDOWS = ("win-", "winerror", "msvc-", "tensorflow-intel", "tf-windows", "tdr")
_CONTAINERS = {
    "apptainer-nv": "apptainer",
    "k8s-insufficient-gpu": "kubernetes",
    "device-plugin-nvml": "kubernetes",
}
_IN_CONTAINERS = (
    "forward-compat-804",
    "image-driver",
    "container-",
    "docker-",
    "cuda-compat-unavailable",
)
_RAN_ON_GPU = (
    "torch-oom", "torch-oom-new", "torch-oom-allocated", "torch-oom-other-process", "tf-blas-gemm",
    "cublas-execution-failed", "cudnn-execution-failed", "cudnn-loaded-ok", "cufft-internal",
    "no-kernel-image",
)  # fmt: skip


def _is_driver_check(row: dict[str, str]) -> bool:
    """Return whether a container was run to see whether it gets the driver.

    What follows need not be in it.
    """
    return row.get("base_image_command", "").rpartition("/")[2] in ("nvidia-smi", "nvcc")


def _is_harmless(event: Event) -> bool:
    """Return whether a line that complains, or tells of the machine, is known as harmless."""
    if role_of(event) not in ("cause", "symptom", "context"):
        return False
    if _is_optional_library(event):
        return True
    text = event.text.lower()
    return any(
        any(fragment.lower() in text for fragment in item.fragments)
        and compile_pattern(item.expression).search(event.text)
        for item in list_noise()
    )


def _is_optional_library(event: Event) -> bool:
    """Return whether a build goes on without the library it could not open.

    TensorRT, or CUPTI for its profiler.
    """
    is_load_failure = re.search(r"dlerror|Could not load dynamic|Couldn't open", event.text)
    optional = r"(?:lib)?(?:nvinfer|nvonnx|nvparsers|cupti)"
    return bool(is_load_failure and re.match(optional, event.values.get("library", "")))


def find_capability(name: str) -> str:
    """Return the compute capability of a GPU by its name.

    Return "" where the name is not known, or fits several.
    """
    numbers = find_capabilities(name) if len(name) > 2 else ()
    return numbers[0] if len(numbers) == 1 else ""


def find_framework_of_message(signature: str) -> Framework | None:
    """Return the framework whose messages alone have a signature.

    Return None for one that several have.
    """
    return next((item for item in identities() if signature.startswith(item.logs.signatures)), None)


def find_framework_of_package(name: str) -> Framework | None:
    """Return the framework that a list of packages names so, conda's names among them."""
    return next((item for item in identities() if name in item.logs.packages), None)


def is_framework_module(name: str) -> bool:
    """Return whether a framework is imported under a name."""
    return any(name in (item.name, *item.distributions.values()) for item in identities())


def normalize_capability(capability: str) -> str:
    """Write a compute capability as major.minor: "8 minor: 6" and "sm_86" become 8.6."""
    if " minor: " in capability:
        return capability.replace(" minor: ", ".")
    digits = capability.removeprefix("sm_").removeprefix("compute_").rstrip("af")
    if "." in digits or not digits.isdecimal():
        return digits
    return f"{digits[:-1]}.{digits[-1]}"


def parse_number(version: str) -> tuple[int, ...]:
    """Read the leading numbers of a version as logs write it.

    "8.3.2" and "8, 3, 2" are (8, 3, 2).
    """
    return numbers(version.replace(",", ".").replace(" ", ""))


COMPILING = {
    "apex-cuda-mismatch",
    "cmake-cuda-not-found",
    "cmake-no-cuda",
    "cuda-home-not-set",
    "extension-cuda-different",
    "find-cuda-old",
    "flash-attn-cuda-old",
    "header-not-found",
    "linker-cuda-library",
    "nvcc-not-found",
    "tf-configure-cuda",
    "torch-cuda-mismatch",
}


# Of the conclusions that are drawn in some places alone, what must hold of the log.
_CONDITIONS: dict[str, Callable[[Log], object]] = {
    "apptainer-without-nv": lambda log: not log.values("apptainer_nv"),
    "compat-on-path": lambda log: re.search(_COMPAT_FOLDER, log.library_path),
    "container-without-gpus": lambda log: not log.values("gpus_passed"),
    "cuda-asked": lambda log: log.os not in ("windows", "linux") and not log.is_healthy,
    "cuda-asked-on-windows": lambda log: log.os == "windows" and not log.is_healthy,
    "driver-inside-wsl": lambda log: log.in_wsl,
    "extra-of-linux": lambda log: log.os in ("windows", "darwin"),
    "gpu-needed": lambda log: log.has_no_gpu,
    "image-newer-than-driver": lambda log: "container" in log.situations,
    "mig-mode-without-instance": lambda log: any(
        gpu.mig_enabled.value for gpu in log.facts.gpus.value or ()
    ),
    "missing-component": lambda log: not log.library_path,
    "older-component": lambda log: not log.library_path,
    "older-component-on-path": lambda log: log.library_path,
    "other-gpu-listed": lambda log: not (log.driver or log.values("driver")),
    "unloaded-component-on-path": lambda log: log.library_path,
    "user-site-in-conda": lambda log: log.has("conda-path"),
}
