"""What a log tells that may stand in a fix: every value of it checked against the shape of its kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property

from envcheck.explain.log import Claim, Log, digits

_VERSION = r"\d{1,4}(?:\.\d{1,8}){0,4}(?:[a-z]{1,4}\d{1,3})?"
_NAME = r"[A-Za-z0-9][A-Za-z0-9_]*(?:[.-][A-Za-z0-9_]+)*"
_PATH = r"(?:[A-Za-z]:)?[\w./\\~][\w ./\\+@()~-]*"
_CLAUSES = r"(?:(?:===|==|>=|<=|!=|~=|<|>)[0-9][A-Za-z0-9.*+!-]*,?)*"
_VERSIONS = (
    "cc_min", "clang_limit", "cuda_wanted", "cudnn_built", "cudnn_loaded", "gcc", "gcc_max", "gcc_min",
    "driver_wanted", "gcc_over", "glibc_wanted", "hdf5", "nvcc", "ptx", "torch_cuda", "version",
)  # fmt: skip
# Captures that may be shown, and the shape of each; what is not listed never enters a fix.
_SHAPES = {
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
_STARTS = {"torch": ("torch",), "tensorflow": ("tf-", "tensorflow"), "jax": ("jax", "xla-")}
_WINDOWS = ("win-", "winerror", "msvc-", "tensorflow-intel", "tf-windows", "tdr")
_COMPILING = {
    "apex-cuda-mismatch", "cmake-cuda-not-found", "cmake-no-cuda", "cuda-home-not-set", "extension-cuda-different",
    "find-cuda-old", "flash-attn-cuda-old", "header-not-found", "linker-cuda-library", "nvcc-not-found",
    "tf-configure-cuda", "torch-cuda-mismatch",
}  # fmt: skip
_TENSORFLOWS = ("missing-dynamic-library", "missing-dlerror", "cudnn-handle", "cudnn-runtime-older")  # its words
_WORDS = {"torch": r"torch", "tensorflow": r"tensorflow|stream_executor|\btf\.", "jax": r"jax|\bxla\b"}


class Told:
    """The values of one claim's messages, then those of the whole log."""

    def __init__(self, log: Log, claim: Claim) -> None:
        self.log, self.claim = log, claim

    def value(self, name: str) -> str:
        """Return a value by its name, "" where the log does not tell it or it has not the shape of its kind."""
        derive = _DERIVED.get(name)
        return derive(self) if derive else self.captured(name)

    def captured(self, name: str) -> str:
        """Return a captured value: of the claim's own messages first."""
        shape = _SHAPES.get(name)
        own = (event.captured.get(name, "") for event in self.claim.events)
        found = next((value for value in own if value), "") or self.log.first(name)
        return plain(found.strip(".,:;"), shape) if shape else ""

    @property
    def signatures(self) -> tuple[str, ...]:
        """Name the messages behind the claim."""
        return tuple(event.signature for event in self.claim.events)

    @cached_property
    def framework(self) -> str:
        """Name the framework the claim is about: by its messages, then by what is installed, then by the log."""
        texts = " ".join(event.text for event in self.claim.events)
        others = " ".join(event.text for event in self.log.events)
        named = {name for name, starts in _STARTS.items() if any(item.startswith(starts) for item in self.signatures)}
        for found in (named, *(_named(text) for text in (texts, " ".join(self.log.packages), others))):
            if len(found) == 2 and "jax" in found and "tensorflow" not in texts:
                return "jax"  # both are built on XLA
            if found:
                return next(name for name in _STARTS if name in found)
        return "tensorflow" if set(self.signatures) & set(_TENSORFLOWS) else ""

    @property
    def release(self) -> str:
        """Return the version of that framework, its local part as well; "" not told."""
        names = {
            "torch": ("torch", "pytorch"),
            "tensorflow": ("tensorflow", "tensorflow-gpu"),
            "jax": ("jax", "jaxlib"),
        }
        found = (self.log.packages.get(name, "") for name in names.get(self.framework, ()))
        return plain(next((item for item in found if item), ""), rf"{_VERSION}(?:\+[a-z0-9.]+)?")

    @property
    def system(self) -> str:
        """Name the operating system, by the claim's messages where the log does not tell it."""
        windows = any(name.startswith(_WINDOWS) for name in self.signatures)
        return self.log.os or ("windows" if windows else "")

    @property
    def compiles(self) -> bool:
        """Tell whether it is a build of CUDA code that fails."""
        return bool(_COMPILING & set(self.signatures))

    @property
    def tags(self) -> set[str]:
        """Name what a row of remedies may ask for: the system, the framework, conda, WSL."""
        found = {self.system, self.framework, "wsl" if self.log.in_wsl else "", "compiling" if self.compiles else ""}
        found.add("conda" if self.log.values("conda") else "")
        text = " ".join(event.text for event in self.claim.events)
        return {*found, "bitsandbytes" if "bitsandbytes" in text else ""} - {""}


def _named(text: str) -> set[str]:
    return {name for name, words in _WORDS.items() if re.search(words, text, re.IGNORECASE)}


def plain(text: str, shape: str) -> str:
    """Return a text that has a shape whole, else ""."""
    return text if len(text) <= 200 and re.fullmatch(shape, text, re.ASCII) else ""


def _pids(told: Told) -> str:
    rows = (event.captured for event in told.claim.events if "pid" in event.captured)
    found = [plain(row["pid"], _SHAPES["pid"]) for row in rows if row.get("kind", "C") == "C"]
    found += [
        pid for event in told.claim.events for pid in re.findall(r"\bProcess (\d{2,8}) has [\d.]+ [GT]iB", event.text)
    ]
    return " ".join([pid for pid in dict.fromkeys(found) if pid and int(pid) > 1][:16])


def _users_file(told: Told) -> str:
    """Name the user's own file that stands in the way; "" for one of an installed package."""
    from envcheck.explain.reason_python import is_users_file

    paths = (event.captured.get("path", "") for event in told.claim.events)
    found = (plain(path, _PATH) for path in paths if path and is_users_file(path))
    return next((path for path in found if path.endswith(".py") and not path.endswith("__init__.py")), "")


def _requirement(told: Told) -> str:
    """Return what was asked of pip, or the release that uv names."""
    named = (re.search(r"\b([a-z][\w-]*==[\w.]+\w) has no wheels", event.text) for event in told.claim.events)
    return told.captured("requirement") or next((found.group(1) for found in named if found), "")


def _cudnn_wanted(told: Told) -> str:
    from envcheck.explain.reason_versions import cudnn_number

    built = told.captured("cudnn_built")
    return ".".join(map(str, cudnn_number(built)[:3])) if built else ""


def _gencode(told: Told) -> str:
    """Read the release of protobuf's generated code: "gencode 5.28.3 runtime 4.25.4"."""
    found = (re.search(r"\bgencode (\d+\.\d+\.\d+) runtime", event.text) for event in told.claim.events)
    return next((match.group(1) for match in found if match), "")


def _tensorrt_major(told: Told) -> str:
    """Read the major of the library that is asked for; TensorRT 8 is the first with wheels that pip finds."""
    found = re.match(r"libnv(?:infer|onnxparser)\w*\.so\.(\d+)", told.captured("library"))
    return found.group(1) if found and int(found.group(1)) >= 8 else ""


def _renamed(told: Told) -> str:
    folder, _, name = _users_file(told).replace("\\", "/").rpartition("/")
    return f"{folder}{'/' if folder else ''}my_{name}" if name else ""


def _gcc_of_node(told: Told) -> str:
    from envcheck.explain.remedies import document

    return str(document()["gcc_of_symbols"].get(told.captured("node"), ""))


def _torch_label(told: Told) -> str:
    version = told.release if told.framework == "torch" else ""
    label = plain(version.partition("+")[2], r"cu\d{2,3}|cpu")
    cuda = told.captured("torch_cuda")
    return label or ("cu" + cuda.replace(".", "") if re.fullmatch(r"\d+\.\d", cuda) else "")


def _cc(told: Told) -> str:
    named = [
        digits(value)
        for event in told.claim.events
        for value in (event.captured.get("cc"), event.captured.get("sm"))
        if value
    ]
    found = [*named, *told.log.capabilities]
    return next((item for item in found if told.log.matrix.architecture(item)), "")


def _extension_package(told: Told) -> str:
    """Name the package whose compiled part complains, by its folder below site-packages."""
    for event in told.claim.events:
        found = re.search(r"(?:site|dist)-packages[/\\]([A-Za-z][A-Za-z0-9_]+)[/\\]", event.text)
        if found and told.log.matrix.framework_of(found.group(1)) is None:
            return found.group(1)
    return ""


def _nvcc_wheel(told: Told) -> str:
    from envcheck.explain.fix_context import release_row

    row = release_row(told)
    return next((item for item in (row.cuda_wheels if row else ()) if item.startswith("nvidia-cuda-nvcc")), "")


def _plain_requirement(told: Told) -> str:
    from envcheck.rules.fixes_python import is_requirement

    found = _requirement(told).lower().rstrip(",")
    return found if is_requirement(found) else ""


_DERIVED: dict[str, Callable[[Told], str]] = {
    "cc": _cc,
    "cc_digits": lambda told: _cc(told).replace(".", ""),
    "branch": lambda told: plain(told.log.first("branch")[:3], r"\d{3}"),
    "cudnn_wanted": _cudnn_wanted,
    "requirement": _requirement,
    "tensorrt_major": _tensorrt_major,
    "extension_package": _extension_package,
    "framework": lambda told: told.framework,
    "framework_module": lambda told: told.framework,
    "framework_extra": lambda told: {"tensorflow": "tensorflow[and-cuda]", "jax": "jax[cuda12]"}.get(
        told.framework, ""
    ),
    "gcc_of_node": _gcc_of_node,
    "library_path_full": lambda told: plain(told.captured("library"), r"/[\w./+-]+"),
    "line": lambda told: " ".join(event.text for event in told.claim.events),
    "message": lambda told: told.claim.message,
    "gencode": _gencode,
    "nvcc_wheel": _nvcc_wheel,
    "pids": _pids,
    "pids_comma": lambda told: _pids(told).replace(" ", ","),
    "release_line": lambda told: ".".join(told.release.split(".")[:2]) if told.release.count(".") else "",
    "requirement_plain": _plain_requirement,
    "torch_label": _torch_label,
    "users_file": _users_file,
    "users_file_renamed": _renamed,
    "torch_public": lambda told: told.release.partition("+")[0] if told.framework == "torch" else "",
}


def answerable(name: str) -> bool:
    """Tell whether there is a value of that name for some log."""
    return name in _DERIVED or name in _SHAPES
