"""Conclude from a program's last words, where no known message speaks.

A sentence that states what is wrong, or the exception that ended the program.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator

from envcheck.explain.claim_values import is_known_distribution
from envcheck.explain.log import Claim, Log, Strength
from envcheck.explain.reasons_cuda import library_claims
from envcheck.explain.signatures import Event, load_driver_errors
from envcheck.explain.statements import Raised, Stated
from envcheck.explain.text import is_exception
from envcheck.model import canonical_name, replace
from envcheck.model.quoting import quote
from envcheck.model.versions import within
from envcheck.rules.catalogue import catalogue

# What is required that no package index brings: the cause, and the capture that holds the release.
_OF_PART = {
    "cuda": ("toolkit-wrong-version", "cuda_wanted"),
    "cuda toolkit": ("toolkit-wrong-version", "cuda_wanted"),
    "nvcc": ("toolkit-wrong-version", "cuda_wanted"),
    "cuda driver": ("driver-too-old", "cuda_wanted"),
    "driver": ("driver-too-old", "driver_wanted"),
    "nvidia driver": ("driver-too-old", "driver_wanted"),
    "compute capability": ("gpu-arch-too-old", ""),
    "cuda capability": ("gpu-arch-too-old", ""),
    "cudnn": ("cudnn-too-old", "cudnn_built"),
    "gcc": ("host-compiler-too-old", "gcc_min"),
    "g++": ("host-compiler-too-old", "gcc_min"),
    "glibc": ("glibc-too-old", "glibc_wanted"),
    "python": ("python-unsupported", "wanted"),
}


_PROGRAM, _ACCESS = "program-error", "A service refuses what the program asks for"
_NEVER = r"(?!)"


def judge_stated(stated: Stated, log: Log, file: str) -> Iterator[Claim]:
    """Say which cause the sentence names."""

    def event(*captures: tuple[str, str], signature: str = "error-unknown") -> Event:
        number = stated.number
        return Event(signature, captures, stated.text[:500], file, number, number)

    if stated.kind == "library":
        missing = event(("library", stated.what), signature="cannot-open-shared-object")
        yield from library_claims(Log((missing,), log.matrix, log.facts))
    elif stated.kind == "damaged":
        yield build_damage_claim(stated.what, event)
    elif stated.kind == "needs":
        yield from _judge_requirement(stated, log, event)
    elif stated.row is not None:
        row = stated.row
        captures = (("fault", row.fault), (row.capture, stated.what))
        named = event(*(pair for pair in captures if all(pair)))
        message = row.meaning.format(stated.what) or catalogue()[row.finding].headline
        yield Claim(row.finding, Strength.FAILED_PART, message, (named,), rivals=row.rivals)
    else:
        finding = load_driver_errors().get(stated.what, "")
        if finding:
            why = catalogue()[finding].headline
            message = f"A call of CUDA ended with error {stated.what}. {why}"
            yield Claim(finding, Strength.FAILED_PART, message, (event(("code", stated.what)),))


_REFUSED_SOURCE = (
    r"(?P<file>[^\s:()]+\.(?:c|cc|cpp|cxx|cu|cuh|h|hpp|pyx))(?::\d+(?::\d+)?|\(\d+\))"
    r": (?:fatal )?error: (?P<what>.+)"
)


def judge_compiled(log: Log) -> Iterator[Claim]:
    """Report the first source file that a compiler rejects, with the compiler's reason."""
    for event in log.select("error-unknown"):
        refused = re.match(_REFUSED_SOURCE, event.text)
        if refused:
            what = f"{posixpath.basename(refused['file'])}: {refused['what']}"
            message = f"The source does not compile: {what.rstrip('.?')}."
            finding, other = _PROGRAM, "dependency-conflict"
            if any("wheel" in item.text for item in log.select("ninja-failed")):
                finding, other = other, finding  # a published source, with what is installed
            yield Claim(finding, Strength.FAILED_PART, message, (event,), rivals=(other,))
            return


def build_damage_claim(path: str, event: Callable[..., Event]) -> Claim:
    """Say whose file of an environment is damaged."""
    inside = posixpath.normpath(re.split(r"-packages[/\\]", path)[-1].replace("\\", "/"))
    *folders, file = inside.split("/")
    owner = "-".join(folders[: 2 if folders[:1] == ["nvidia"] else 1]) or file.partition(".")[0]
    package = canonical_name(owner)
    message = f"The file {file} of {package} is damaged."
    return Claim("install-damaged", Strength.FAILED_PART, message, (event(("package", package)),))


def _judge_requirement(stated: Stated, log: Log, event: Callable[..., Event]) -> Iterator[Claim]:
    """Judge what is required: a part of the machine, or a package that an index brings."""
    is_met = stated.found and within(stated.found, stated.releases)
    if is_met:
        return
    there = f", and {stated.found} is there" if stated.found else ""
    message = f"{stated.what} {stated.releases} is required{there}."
    if not stated.releases:
        message = f"{stated.what} is required and not installed."
    message = message[0].upper() + message[1:] if stated.what in _OF_PART else message
    if stated.what in _OF_PART:
        finding, capture = _OF_PART[stated.what]
        value = stated.releases if capture == "wanted" else stated.releases.lstrip("<>=!~")
        strength = Strength.LIMIT_AND_VALUE if stated.found else Strength.FAILED_PART
        yield Claim(finding, strength, message, (event((capture, value)),))
        return
    name = canonical_name(stated.what.partition("[")[0])
    if is_known_distribution(name, log.matrix):
        needed = event(("needed", f"{stated.what}{stated.releases}"))
        yield Claim("dependency-conflict", Strength.FAILED_PART, message, (needed,))
    elif is_exception(stated.text) and (stated.found or not stated.releases):
        lacking = (("lacking", name),) if not stated.releases else ()
        yield Claim("dependency-conflict", Strength.FAILED_PART, message, (event(*lacking),))


# What an exception says is at fault, whoever raises it: what a remedy calls it, the sentence, the
# kinds, and the words of a message that any exception may carry.
_SUBJECTS = {
    "content": (
        "A file's content is not what the program expects",
        (
            "JSONDecodeError UnicodeDecodeError EOFError UnpicklingError SafetensorError BadZipFile"
            " UnidentifiedImageError ParserError ScannerError BadZipfile"
        ),
        (
            r"(?i)\b(?:file|image|stream|archive|header)\b.{0,40}\b(?:truncated|corrupt(?:ed)?)\b"
            r"|\bbroken data stream\b|\bcannot identify image file\b"
        ),
    ),
    "file": (
        "A file or folder that the program names is not there, or may not be used",
        "FileNotFoundError NotADirectoryError IsADirectoryError PermissionError FileExistsError",
        r"(?i)\b(?:file|folder|directory)\b.{0,200}\bcannot be (?:opened|created|written)\b",
    ),
    "access": (
        _ACCESS,
        "GatedRepoError NoCredentialsError AuthenticationError RateLimitError",
        r"(?i)\bapi[_ ]key\b.{0,30}\b(?:not|missing|invalid|required)\b|\bnot logged in\b",
    ),
    "service": (
        "A service or the network did not give what the program asked for",
        (
            "ConnectionError ConnectTimeout ReadTimeout HTTPError HTTPStatusError SSLError"
            " ProxyError URLError MaxRetryError HfHubHTTPError RepositoryNotFoundError ClientError"
            " EntryNotFoundError LocalEntryNotFoundError RevisionNotFoundError OfflineModeIsEnabled"
            " ConnectionRefusedError ConnectionResetError NameResolutionError NewConnectionError"
            " APIConnectionError"
        ),
        _NEVER,
    ),
    "input": (
        "The input ended before the loop that reads it",
        "OutOfRangeError StopIteration",
        _NEVER,
    ),
    "code": (
        "The program's own code or its arguments are at fault",
        (
            "KeyError IndexError NameError UnboundLocalError ZeroDivisionError SyntaxError"
            " IndentationError TabError RecursionError UsageError ArgumentError ConfigKeyError"
            " ConfigAttributeError NotImplementedError ValidationError"
        ),
        _NEVER,
    ),
}
_OF_KIND = {kind: fault for fault, (_, kinds, _) in _SUBJECTS.items() for kind in kinds.split()}
_REFUSED = r"(?i)\b(?:401|403|gated|unauthorized|forbidden|restricted)\b"
# What names the environment all the same: a library, a tool of CUDA, a device, a system call.
_OF_ENVIRONMENT = (
    r"(?i)\.(?:so|dll|dylib)\b|(?<![\w-])(?:nvcc|nvidia|cuda|cudnn|gpu|driver|ninja|gcc|g\+\+|clang|ptxas)"
    r"|cl\.exe|/dev/|No space left|shared memory|CUDA_HOME"
)
_ASKED_NAME = (
    r"(?:cannot import name '(?P<name>\w+)' from|module) '(?P<module>[\w.]+)'"
    r"(?: has no attribute '(?P<attribute>\w+)')?"
)
_OTHER_RELEASE = (
    r"unexpected keyword argument|has no attribute|positional arguments?\b|cannot import name"
    r"|missing \d+ required|is not a package|got multiple values"
)
# What reads a file that a program names: an exception of any kind from there is of its content.
_READS_FILES = (
    r"/(?:torch/serialization|safetensors/\w+|numpy/lib/(?:_?npyio\w*|_?format\w*)|PIL/\w+"
    r"|h5py/_hl/files|zipfile(?:/\w+)?|tarfile|gzip|json/decoder|yaml/\w+|pandas/io/\S+)\.py$"
)
# a Python without f-strings stops at the quote that ends one
_F_STRING = r"\b[rR]?[fF][rR]?(?:\"[^\"]*\"|'[^']*')$"
_OF_OWN_CODE = ("ValueError", "AssertionError", "TypeError")  # where the user's own code raises it
# of a function that the user's own code calls
_REFUSES_VALUE = (
    r"(?i)^RuntimeError: .*\b"
    r"(?:dtypes?|shapes?|sizes?|dimensions?|expected|must be|got|out of range)\b"
)
# of what a package itself raises about what it is asked for
_REFUSES = (
    r"(?i)^no such \w|\bdoes ?n.t exist\b|\bdoes not exist\b|\b(?:unknown|invalid|unrecognized)\b"
    r"|\bnot (?:a )?(?:valid|recognized|in the list)\b|\bmust (?:be|have)\b|\bnot set\b"
    r"|\b(?:allowed|supported|possible|available) (?:values|types|options|choices|names)\b"
)
_DEMANDS = ("ImportError", "ModuleNotFoundError", "PackageNotFoundError")  # of what is installed
_ANY_KERAS = r"\b(?:tf_keras|keras|tensorflow\.python\.keras)\.(?:src\.)?\w"
_EXPECTED = (
    r"(?i)\bexpected\b|\binstances? of\b|\bmust be\b|\bonly (?:supports|accepts)\b|\bvalid\b"
)


# Where a package starts the GPU: what it means that an exception of any kind comes from there, and
# what else it may mean.
_STARTS_GPU = (
    (
        r"/jax/_src/xla_bridge\.py$",
        "framework-cuda-extra-missing",
        "JAX starts no CUDA device: the part of JAX for CUDA is not installed, or does not start.",
        ("driver-missing", "visible-devices-hidden"),
    ),
    (
        r"/(?:triton/(?:runtime|backends/nvidia)/driver|numba/cuda/cudadrv/\w+|pycuda/autoinit)\.py$",
        "driver-missing",
        "The package that starts the GPU finds no driver that works.",
        ("visible-devices-hidden",),
    ),
)


_ARCH_FLAGS = r"/torch/utils/cpp_extension\.py$"


def judge_raised(raised: Raised, file: str) -> Claim | None:
    """Say what an exception alone states; None where it may have any cause."""
    event = Event("python-traceback", (), raised.text[:500], file, raised.number, raised.number)
    named = _name_cause(raised)
    if named:
        finding, message, rivals = named
        return Claim(finding, Strength.FAILED_PART, message, (event,), rivals=rivals)
    packages = [name for name in raised.owners if name not in ("", "python")]
    is_demand = raised.is_stated and raised.kind in _DEMANDS
    if packages and is_demand and raised.owners[-1] == packages[-1]:
        return _judge_demand(raised, packages[-1], event)
    if packages and raised.kind in ("AttributeError", "TypeError", "ImportError"):
        return _judge_releases(raised, packages, event)
    if packages and raised.kind == "SyntaxError":
        return _judge_module(raised, packages[-1], event)
    fault, subject = _name_fault(raised), ""
    is_own_code = raised.owners[-1:] == ("",)
    if is_own_code and raised.kind in _OF_OWN_CODE:
        fault, subject = "code", "The program's own code refuses what it is given"
    elif not fault and is_own_code and re.search(_REFUSES_VALUE, raised.text):
        fault, subject = "code", "The program gives a function a value that it does not take"
    elif not fault and packages and raised.is_stated and re.search(_REFUSES, raised.message):
        fault, subject = "code", f"{packages[-1]} refuses what the program asks of it"
    if fault == "service" and re.search(_REFUSED, raised.message):
        fault = "access"
    if not fault or re.search(_OF_ENVIRONMENT, raised.message):
        return None
    is_own = fault == "code" and raised.kind not in _OF_KIND
    rivals = ("dependency-conflict",) if is_own else ()
    owner = (("package", packages[-1]),) if packages else ()
    event = replace(event, captures=(("fault", fault), *owner))
    message = f"{subject or _SUBJECTS[fault][0]}."
    return Claim("program-error", Strength.SIDE_EFFECT, message, (event,), rivals=rivals)


def _name_cause(raised: Raised) -> tuple[str, str, tuple[str, ...]] | None:
    """Return the cause that an exception names by its message or its place, and its rivals."""
    if re.search(_ANY_KERAS, raised.message) and re.search(_EXPECTED, raised.message):
        message = "An object of one Keras is given to code of another: two of them are in use."
        return "keras-mismatch", message, ()
    if raised.message == "invalid syntax" and re.search(_F_STRING, raised.shown):
        message = "The program runs in a Python too old for it, which does not know f-strings."
        return "python-unsupported", message, ()
    if raised.message == "list index out of range" and re.search(_ARCH_FLAGS, raised.deepest):
        return "gpu-absent", "The build asks the GPU what to compile for, and finds none.", ()
    if not re.search(_OTHER_RELEASE, raised.message):
        for place, finding, message, rivals in _STARTS_GPU:
            if re.search(place, raised.deepest):
                return finding, message, rivals
    return None


def _name_fault(raised: Raised) -> str:
    """Name what is at fault by the message, else by the kind of the exception; "" unknown."""
    for fault, (_, _, pattern) in _SUBJECTS.items():
        if re.search(pattern, raised.message):
            return fault
    reads_file = re.search(_READS_FILES, raised.deepest)
    return _OF_KIND.get(raised.kind, "content" if reads_file else "")


def _judge_module(raised: Raised, package: str, event: Event) -> Claim:
    """Judge a module of a package that Python cannot read: damaged, or of another Python."""
    event = replace(event, captures=(("package", package),))
    if "null bytes" in raised.message:
        message = f"A file of {package} is damaged: it holds null bytes."
        return Claim("install-damaged", Strength.FAILED_PART, message, (event,))
    message = f"A module of {package} is not for this Python."
    return Claim("python-unsupported", Strength.SIDE_EFFECT, message, (event,))


def _judge_demand(raised: Raised, package: str, event: Event) -> Claim:
    """Judge an exception by which a package itself says what it lacks."""
    event = replace(event, captures=(("fault", "demand"), ("package", package)))
    message = f"{package} lacks what it asks for: {quote(raised.message)}"
    return Claim("dependency-conflict", Strength.SIDE_EFFECT, message, (event,))


def _judge_releases(raised: Raised, packages: list[str], event: Event) -> Claim | None:
    """Judge a name or an argument that one package asks of another, and that is not there."""
    if raised.owners[-1:] == ("",) or not re.search(_OTHER_RELEASE, raised.message):
        return None
    asked = re.search(_ASKED_NAME, raised.message)
    provider = asked["module"].partition(".")[0] if asked else ""
    askers = [name for name in packages if name != provider]
    named = [*dict.fromkeys(askers), provider][-2:] if asked else [*dict.fromkeys(packages)][-2:]
    message = f"{' and '.join(named)} do not fit each other, or the code that calls them."
    if len(named) == 1:
        message = f"The installed {named[0]} does not fit the code that calls it."
    elif asked:
        name = asked["name"] or asked["attribute"]
        message = f"{named[0]} uses {name}, which the installed {provider} does not have."
    if len(named) > 1:
        event = replace(event, captures=(("asker", named[0]), ("provider", named[1])))
    rivals = ("program-error",)
    return Claim("dependency-conflict", Strength.SIDE_EFFECT, message, (event,), rivals=rivals)
