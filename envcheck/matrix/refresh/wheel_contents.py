"""Read a few members of a wheel over HTTP byte ranges: its metadata and Python constants."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import struct
import time
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from envcheck.frameworks.installed import literals
from envcheck.matrix.companions import binary_names, published_framework
from envcheck.matrix.refresh.index import (
    ArtifactError,
    Connection,
    OddWheelError,
    UnusableWheelError,
    Wheel,
    read_limited,
)
from envcheck.model import canonical_name, dataclass, replace
from envcheck.model.versions import Requirement, evaluate_marker, find_requirement

if TYPE_CHECKING:
    import requests
    from remotezip import PartialBuffer, RemoteZip


@dataclass
class Contents:
    """The members of a wheel that rows are derived from."""

    metadata: str  # the header of METADATA, without the description
    entries: int  # members in the wheel
    # member name -> Python text; of a companion's binary the libraries that it names
    texts: Mapping[str, str]
    # METADATA does not have the hash that RECORD states, as in some published wheels
    altered: bool = False

    def text(self, ending: str) -> str:
        """Return the text of the member whose name ends with `ending`; "" if there is none."""
        return next((text for name, text in self.texts.items() if name.endswith(ending)), "")


def choose_members(names: list[str], framework: str) -> dict[str, str]:
    """Choose the members to read: {"METADATA": ..., "RECORD": ..., name: name for each text}.

    Raises OddWheelError for paths outside the folder of the wheel, although nothing is unpacked
    here.
    """
    bad = [
        name
        for name in names
        if name.startswith("/") or "\\" in name or ":" in name or ".." in name.split("/")
    ]
    if bad:
        raise OddWheelError(f"it has a path outside its folder ({bad[0][:80]!r})")
    known = published_framework(framework)
    texts = known.wheels.texts if known else "(?!)"  # companions have none
    found = {name: name for name in names if re.fullmatch(texts, name)}
    for wanted in ("METADATA", "RECORD"):
        members = [name for name in names if re.fullmatch(rf"[^/]+\.dist-info/{wanted}", name)]
        if len(members) != 1:
            raise UnusableWheelError(f"it has {len(members)} {wanted} files instead of one")
        found[wanted] = members[0]
    doubled = [name for name in found.values() if names.count(name) > 1]
    if doubled:
        raise OddWheelError(f"it has {doubled[0]!r} more than once")
    return found


def build_contents(
    wheel: Wheel, chosen: Mapping[str, str], members: Mapping[str, bytes], entries: int
) -> Contents:
    """Build the contents after checking METADATA and Python files against their hashes.

    Installers do not check METADATA against RECORD, and in dozens of published wheels it differs:
    that is noted.
    """
    recorded = parse_record(members["RECORD"].decode("utf-8"))
    differing = {
        key
        for key, name in chosen.items()
        if recorded.get(name, _compute_digest(members[key])) != _compute_digest(members[key])
    }
    texts = {name: data for name, data in members.items() if name not in {"METADATA", "RECORD"}}
    for name in sorted(differing & set(texts)):
        raise OddWheelError(f"{name} does not have the hash that its RECORD states")
    if (
        wheel.metadata_sha256
        and hashlib.sha256(members["METADATA"]).hexdigest() != wheel.metadata_sha256
    ):
        raise OddWheelError("its METADATA does not have the hash that the index states")
    header = (
        members["METADATA"].decode("utf-8", "replace").replace("\r\n", "\n").partition("\n\n")[0]
    )
    _check_name(wheel, header)
    read = {name: data.decode("utf-8") for name, data in texts.items()}
    return Contents(header, entries, read, altered="METADATA" in differing)


def parse_record(text: str) -> dict[str, str]:
    """Map each member of a RECORD to its hash.

    tensorflow-2.15.0.dist-info/METADATA,sha256=o3bxdlXiLO4rMYwXVx3N5Ni3b4CwhFYnZhQsdqGcEmg,3551
    """
    rows = (row for row in csv.reader(text.splitlines()) if len(row) == 3)
    return {name: digest for name, digest, _ in rows if digest.startswith("sha256=")}


def _compute_digest(data: bytes) -> str:
    return write_digest(hashlib.sha256(data))


def write_digest(hashed: hashlib._Hash) -> str:
    """Write a SHA-256 as RECORD does."""
    return "sha256=" + base64.urlsafe_b64encode(hashed.digest()).rstrip(b"=").decode("ascii")


def _check_name(wheel: Wheel, header: str) -> None:
    """Raise UnusableWheelError for a wheel whose METADATA is of another release."""
    from packaging.utils import canonicalize_name
    from packaging.version import InvalidVersion, Version

    fields = dict(
        line.split(": ", 1) for line in header.splitlines() if re.match(r"(Name|Version): ", line)
    )
    try:
        same = canonicalize_name(fields["Name"]) == wheel.name.distribution
        same = same and Version(fields["Version"]).public == Version(wheel.name.version).public
    except (KeyError, InvalidVersion):
        same = False
    if not same:
        raise UnusableWheelError("its METADATA is of another release than its file name")


_AS_IT_IS = {"Accept-Encoding": "identity"}  # else a server may compress what is counted
_TAIL = 64 << 10  # bytes fetched first: the end record and, in small wheels, the whole directory
_RANGE_LIMIT = 32 << 20  # bytes of one range: directories of real wheels stay below four megabytes
# bytes of one member unpacked: RECORD is the largest, below four megabytes
_MEMBER_LIMIT = 16 << 20


class Fetcher:
    """Fetch ranges of one file."""

    def __init__(self, url: str, connection: Connection) -> None:
        """Send nothing yet."""
        self.size: int | None = None  # of the file, as the server states it
        self._url, self._connection = url, connection

    def fetch(self, data_range: tuple[int, int | None], stream: bool = False) -> PartialBuffer:  # noqa: ARG002, FBT001, FBT002 - what RemoteZip calls
        """Fetch first..last, or the last bytes for (-size, None), into RemoteZip's buffer."""
        from remotezip import PartialBuffer

        first, last = data_range
        if last is not None and last - first >= _RANGE_LIMIT:
            raise OddWheelError(
                f"its directory claims {last - first + 1} bytes, more than any real wheel has"
            )
        wanted = f"bytes={first}" if last is None else f"bytes={first}-{last}"
        answer = self._get(wanted)
        if answer is None and last is None:  # some servers know no ranges from the end
            with self._connection.open(self._url, _AS_IT_IS, method="HEAD") as response:
                response.raise_for_status()
                size = int(response.headers.get("Content-Length", "0"))
            answer = self._get(f"bytes={max(0, size + first)}-{size - 1}")
        if answer is None:
            raise ArtifactError("the server does not serve byte ranges")
        start, data = answer
        return PartialBuffer(io.BytesIO(data), start, len(data), stream=False)

    def _get(self, wanted: str) -> tuple[int, bytes] | None:
        """Return (offset, bytes) of a range; None if the server does not serve ranges."""
        with open_range(self._connection, self._url, wanted) as opened:
            if opened is None:
                return None
            response, start, size = opened
            whole = response.headers.get("Content-Range", "").rpartition("/")[2]
            self.size = int(whole) if whole.isdigit() else self.size
            if size > _RANGE_LIMIT:
                raise ArtifactError("the server sends more than was requested")
            data = read_limited(response, _RANGE_LIMIT, self._connection.settings.whole_timeout)
        if len(data) != size:
            raise ArtifactError("the response is incomplete")
        return start, data

    def hash_whole(self) -> str:
        """Return the SHA-256 of the whole file."""
        hashed, seconds = hashlib.sha256(), self._connection.settings.whole_timeout
        end = time.monotonic() + seconds + (self.size or 0) / _HASH_RATE
        with self._connection.open(self._url, _AS_IT_IS) as response:
            response.raise_for_status()
            for chunk in response.iter_content(1 << 18):
                hashed.update(chunk)
                if time.monotonic() > end:
                    raise ArtifactError("its transfer timed out")
        return hashed.hexdigest()


@contextmanager
def open_range(
    connection: Connection, url: str, wanted: str
) -> Iterator[tuple[requests.Response, int, int] | None]:
    """Open a response with its offset and size for "bytes=0-99".

    Return None if the server does not serve ranges.
    """
    with connection.open(url, {"Range": wanted, **_AS_IT_IS}) as response:
        if response.status_code in {200, 416, 501}:
            yield None
            return
        response.raise_for_status()
        yield response, *_parse_content_range(response.headers.get("Content-Range", ""))


def _parse_content_range(header: str) -> tuple[int, int]:
    """Parse the offset and length of a range: "bytes 100-199/5000" -> (100, 100)."""
    kind, _, span = header.partition(" ")
    first, _, last = span.partition("/")[0].partition("-")
    if kind != "bytes" or not first.isdigit() or not last.isdigit() or int(last) < int(first):
        raise ArtifactError("the server does not state which bytes it sends")
    return int(first), int(last) - int(first) + 1


_WHOLE_LIMIT = 4 << 20  # bytes of a wheel that is always read whole, to compare its hash
_HASH_RATE = 50_000  # bytes per second over a whole wheel: slower servers time out


def compare_with_index(fetcher: Fetcher, wheel: Wheel) -> None:
    """Compare a wheel with the size and the hash that the index states; raises OddWheelError.

    A large wheel is read whole only where the index states no hash of its METADATA, which is
    compared otherwise.
    """
    if wheel.size is not None and fetcher.size not in {None, wheel.size}:
        raise OddWheelError(f"it has {fetcher.size} bytes, and the index states {wheel.size}")
    if wheel.metadata_sha256 and (fetcher.size is None or fetcher.size > _WHOLE_LIMIT):
        return
    found = fetcher.hash_whole()
    if found != wheel.sha256:
        raise OddWheelError(f"it has the SHA-256 {found}, and the index states {wheel.sha256}")


@contextmanager
def refuse_unreadable(wheel: Wheel) -> Iterator[None]:
    """Name the wheel in what is raised while it is read; OddWheelError for a broken archive."""
    from remotezip import RemoteZipError

    try:
        yield
    except ArtifactError as error:
        raise type(error)(f"{wheel.filename} cannot be used: {str(error).rstrip('.')}.") from error
    except (
        zipfile.BadZipFile,
        zlib.error,
        RemoteZipError,
        ValueError,
        EOFError,
        RuntimeError,
    ) as error:
        raise OddWheelError(
            f"{wheel.filename} is not a readable wheel: {error or 'it ends too early'}."
        ) from error


def read_wheel(connection: Connection, wheel: Wheel, framework: str, *, compare: bool) -> Contents:
    """Read the contents of a wheel; raises ArtifactError.

    Without `compare` the hash of the whole file is left alone: an earlier run compared it.
    """
    fetcher = Fetcher(wheel.url, connection)
    with refuse_unreadable(wheel):
        contents = _read(fetcher, wheel, framework)
        is_small = (fetcher.size or 0) <= _WHOLE_LIMIT
        if compare and (published_framework(framework) or wheel.metadata_sha256 or is_small):
            compare_with_index(fetcher, wheel)  # the large wheels of companions would be 195 GB
    return contents


def open_wheel(wheel: Wheel, fetcher: Fetcher) -> RemoteZip:
    """Open the archive that a wheel is, of which only asked-for members are fetched."""
    from remotezip import RemoteZip

    return RemoteZip(wheel.url, initial_buffer_size=_TAIL, fetcher=lambda *_, **__: fetcher)


def _read(fetcher: Fetcher, wheel: Wheel, framework: str) -> Contents:
    with open_wheel(wheel, fetcher) as archive:
        names = archive.namelist()
        chosen = choose_members(names, framework)
        members = {key: read_member(archive, name) for key, name in chosen.items()}
        contents = build_contents(wheel, chosen, members, len(names))
        if published_framework(framework) is None:
            heads = [
                item
                for item in archive.infolist()
                if re.fullmatch(binary_names(framework), item.filename)
            ]
            linked = {
                item.filename: "\n".join(read_libraries(fetcher, item))
                for item in heads[:_MAX_HEADS]
            }
            contents = replace(contents, texts={**linked, **_list_cubins(names)})
    return contents


_MAX_HEADS = 4  # binaries of a companion's wheel
# compressed bytes of each: the names of libraries stand before the GPU code
_HEADS = (1 << 18, 3 << 19)
CUT_OFF = "..."  # ends the libraries of a binary that was not read to its end
CUBINS = "*.cubin"
LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, length of the name, length of the extra field


def read_libraries(fetcher: Fetcher, member: zipfile.ZipInfo) -> list[str]:
    """List the libraries that the beginning of an ELF or PE file names.

    It reads more where CUDA is not among them.
    """
    names: set[str] = set()
    for size in _HEADS:
        names = _read_names(fetcher, member, size)
        if member.compress_size <= size or any("cudart" in name for name in names):
            break
    return [*sorted(names), *([CUT_OFF] if member.compress_size > size else [])]


def _read_names(fetcher: Fetcher, member: zipfile.ZipInfo, size: int) -> set[str]:
    """List the libraries in a binary's first compressed bytes: libcudart.so.12."""
    last = member.header_offset + LOCAL_HEADER.size + min(member.compress_size, size)
    data = fetcher.fetch((member.header_offset, last)).read()
    _, name, extra = LOCAL_HEADER.unpack_from(data)
    packed = data[LOCAL_HEADER.size + name + extra :][: member.compress_size]
    is_packed = member.compress_type == zipfile.ZIP_DEFLATED
    head = packed
    if is_packed:
        head = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, _MEMBER_LIMIT)
    names = re.findall(rb"\0(lib[\w.+-]{1,60}\.so(?:\.\d+)*|[\w.+-]{1,60}\.dll)(?=\0)", head)
    return {name.decode() for name in names}


def _list_cubins(names: Iterable[str]) -> dict[str, str]:
    """List the GPUs in names of GPU code, "?" for none: fmha_sm100f.cubin -> sm_100f."""
    files = [name.rpartition("/")[2] for name in names if name.endswith(".cubin")]
    targets = {
        f"sm_{found[1]}" if (found := re.search(r"(?i)sm_?(\d+[af]?)", name)) else "?"
        for name in files
    }
    return {CUBINS: "\n".join(sorted(targets))} if targets else {}


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Unpack one member; raises OddWheelError above the limit, whatever its header states."""
    with archive.open(name) as stream:
        data = stream.read(_MEMBER_LIMIT + 1)
    if len(data) > _MEMBER_LIMIT:
        raise OddWheelError(f"{name} unpacks to more than {_MEMBER_LIMIT >> 20} MiB")
    return data


def parse_constants(text: str) -> dict[str, Any]:
    """Map each name assigned at the top of a module to its literal; other values are skipped.

    The items of TensorFlow's table are returned beside the other names:

    build_info = collections.OrderedDict([("cuda_version", "12.5.1"), ("is_cuda_build", True)])
    """
    try:
        found = literals(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise OddWheelError("a Python file in it cannot be parsed") from error
    found.update(dict(found.pop("build_info", ())))
    return found


# The requirements that the matrix has a column for, in the order of the notes.
COLUMNS = (
    "numpy",
    "protobuf",
    "keras",
    "ml-dtypes",
    "h5py",
    "tensorflow-estimator",
    "jaxlib",
    "tf-keras",
    "tensorflow",
    "jax-cuda12-pjrt",
    "jax-cuda13-pjrt",
    "triton",
)

_MARKERS = {
    "linux_x86_64": ("linux", "Linux", "x86_64", "posix"),
    "linux_aarch64": ("linux", "Linux", "aarch64", "posix"),
    "win_amd64": ("win32", "Windows", "AMD64", "nt"),
    "macosx_arm64": ("darwin", "Darwin", "arm64", "posix"),
    "macosx_x86_64": ("darwin", "Darwin", "x86_64", "posix"),
}


def parse_requirements(metadata: str) -> list[Requirement]:
    """Parse the Requires-Dist lines of a METADATA header, also the old form with parentheses.

    Requires-Dist: numpy <2.0.0,>=1.23.5
    Requires-Dist: protobuf (>=3.20) ; python_version < "3.10"
    """
    lines = re.findall(r"^Requires-Dist: *(.+)$", metadata, re.MULTILINE)
    return [found for found in map(find_requirement, lines) if found is not None]


def required_python(metadata: str) -> str:
    """Return the field of a METADATA header, Requires-Python: >=3.9; "" if there is none."""
    found = re.search(r"^Requires-Python: *(.+)$", metadata, re.MULTILINE)
    return found[1].strip() if found else ""


def extra_of(requirement: Requirement) -> str:
    """Return the extra of a requirement: and-cuda; "" for a plain one."""
    found = re.search(r"extra == ['\"]([^'\"]+)['\"]", requirement.marker)
    return canonical_name(found[1]) if found else ""


def nested_extras(requirements: list[Requirement], distribution: str, extra: str) -> list[str]:
    """List an extra and those that it brings: srt of sglang requires sglang[runtime_common]."""
    found = [extra]
    for name in found:
        for item in requirements:
            if extra_of(item) == name and item.name == distribution:
                found += [each for each in item.extras if each not in found]
    return found


def holds(requirement: Requirement, platform: str, python: str, extra: str = "") -> bool:
    """Return whether the marker of a requirement applies on a platform and Python minor."""
    if not requirement.marker:
        return True
    system, name, machine, kind = _MARKERS.get(platform, _MARKERS["linux_x86_64"])
    environment = {
        "sys_platform": system,
        "platform_system": name,
        "platform_machine": machine,
        "os_name": kind,
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_version": "",
        "extra": extra,
    }
    return evaluate_marker(requirement.marker, environment)


def columns(
    requirements: list[Requirement],
    platform: str,
    pythons: list[str],
    names: Iterable[str] = COLUMNS,
    extras: Collection[str] = (),
) -> tuple[dict[str, str], list[str]]:
    """Return the columns' specifiers on the oldest Python, and a note on each change.

    What `extras` require counts, too.
    """
    plain: dict[str, list[Requirement]] = {}
    for item in requirements:
        if extra_of(item) in ("", *extras):
            plain.setdefault(item.name, []).append(item)
    found: dict[str, str] = {}
    notes = []
    for name in names:
        ranges = [
            (python, _join_specifiers(plain.get(name, []), platform, python)) for python in pythons
        ]
        stated = [(python, text) for python, text in ranges if text is not None]
        if not any(text for _, text in stated) and (name in COLUMNS or not stated):
            continue
        found[name] = stated[0][1] or ""
        changed = next(((python, text) for python, text in stated if text != found[name]), None)
        if changed:
            notes.append(f"{name}{changed[1]} from Python {changed[0]} on.")
    return found, notes


def _join_specifiers(requirements: Iterable[Requirement], platform: str, python: str) -> str | None:
    """Join the specifiers of the requirements that apply; None if none applies."""
    fitting = [item for item in requirements if holds(item, platform, python, extra_of(item))]
    return ",".join(map(_format_bounds, fitting)) if fitting else None


def bare(requirement: Requirement) -> str:
    """Format a requirement without its marker: jax-cuda12-plugin[with_cuda]>=0.5.1,<0.6."""
    extras = re.match(r"[^;\[]*\[([^\]]*)\]", requirement.text)
    names = sorted(re.findall(r"[\w.-]+", extras[1])) if extras else []
    return (
        requirement.name + (f"[{','.join(names)}]" if names else "") + _format_bounds(requirement)
    )


def _format_bounds(requirement: Requirement) -> str:
    """Format the clauses of a requirement, the lower bound first: >=1.23.5,<2.0.0."""
    texts = {clause.operator + clause.version for clause in requirement.clauses}
    return ",".join(sorted(texts, key=lambda text: (not text.startswith(">"), text)))


def lower_bound(requirement: Requirement) -> str:
    """Return the version of an == or >= clause; "" if there is none."""
    return next((item.version for item in requirement.clauses if item.operator in {"==", ">="}), "")
