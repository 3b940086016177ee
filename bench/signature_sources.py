"""Find the line of the program that prints each message of data/advice/signatures.json.

    python bench/signature_sources.py FOUND.json [--folder "NAME RELEASE=PATH"]... [REQUIREMENT@PYTHON]...

Downloads each program with pip (REQUIREMENT@sdist: its source archive; deb:PACKAGE with apt), unpacks
it in a temporary folder beside FOUND.json, looks for the literal words of each signature and removes
it. A folder that is here already is read in place. FOUND.json gathers what was found over several
runs; the best place of each signature is printed as JSON at the end. data/evidence/signature-sources.json
was made from that, after a reading of the short and doubtful places (bench/README.md).

A signature's words are searched where they have at least 15 characters, not only common words, and
three fifths of the length of its longest words. Where a value stands in a fragment ("No module
named 'torch"), half of it, without the value, counts and is marked as `form`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
GLIBC = (  # minor releases of glibc 2 that wheels are tagged with: manylinux_2_28
    5, 12, 17, 24, 26, 27, 28, 31, 34, 35,
)  # fmt: skip
SOURCE = re.compile(
    r"\.(?:pyx?|pyi|pxd|c|cc|cpp|cxx|cu|cuh|h|hh|hpp|inl|rs|go|js|sh|txt|in|cmake)$"
)
IGNORED = re.compile(
    r"\.(?:cubin|fatbin|ptx|hsaco|npy|npz|png|jpg|gif|svg|csv|pyc|map|onnx|h5|bc|md|rst|html)$"
    r"|dist-info/RECORD$|/licenses?/",
    re.IGNORECASE,
)
_JOINED = re.compile(r"""(["'])(\s*\\?\n\s*)[rfbuRFBUL]?["']""")
_VALUE = re.compile(r"""(?<=['"`])[\w./:*+-]+|[\d.]{2,}\d|\b\d+\b|lib\w+\.so[.\d]*""")
LONG, SHORT = 15, 8
COMMON = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "been",
        "by",
        "can",
        "cannot",
        "could",
        "detected",
        "did",
        "does",
        "don",
        "error",
        "errors",
        "failed",
        "failure",
        "for",
        "found",
        "from",
        "has",
        "have",
        "installed",
        "invalid",
        "is",
        "it",
        "its",
        "longer",
        "missing",
        "no",
        "none",
        "not",
        "of",
        "on",
        "or",
        "please",
        "required",
        "requires",
        "support",
        "supported",
        "that",
        "the",
        "this",
        "to",
        "unable",
        "unknown",
        "use",
        "using",
        "version",
        "versions",
        "was",
        "were",
        "with",
        "you",
        "your",
        "available",
    ]
)
# program -> words -> its files that hold them, with the line
Found = dict[str, dict[str, list[tuple[str, int]]]]


def literals_of(pattern: str) -> set[str]:
    """List the runs of plain characters of an expression."""
    found: set[str] = set()

    def walk(parts: Any) -> None:
        run = ""
        for kind, value in parts:
            if kind is _parser.LITERAL:
                run += chr(value)
                continue
            found.add(run)
            run = ""
            if kind is _parser.BRANCH:
                for branch in value[1]:
                    walk(branch)
            elif kind is _parser.SUBPATTERN or kind in (_parser.MAX_REPEAT, _parser.MIN_REPEAT):
                walk(value[-1])
        found.add(run)

    walk(_parser.parse(pattern))
    return {run.strip() for run in found if len(run.strip()) >= SHORT}


def needles_of(row: dict[str, Any]) -> dict[str, str]:
    """Map what to look for to what it is: "words" as they stand, or the "form" around a value."""
    words = {part.strip() for part in row["fragments"]} | literals_of(row["pattern"])
    forms = {part.strip() for text in words for part in _VALUE.split(text)}
    forms |= {part for text in words for part in (text.rpartition(" ")[0], text.partition(" ")[2])}
    found = dict.fromkeys(forms - words, "form") | dict.fromkeys(words, "words")
    return {text: kind for text, kind in found.items() if len(text) >= SHORT}


def is_specific(text: str) -> bool:
    """Say whether these words alone can be told from others: an identifier, or two rarer words."""
    words = re.findall(r"[A-Za-z][A-Za-z_]{2,}", text)
    names = [word for word in words if len(word) >= 12 and re.search("[a-zA-Z]_|[a-z][A-Z]", word)]
    rare = [word for word in words if word.lower() not in COMMON]
    return len(text) >= LONG and (bool(names) or len(rare) >= 2 or (bool(rare) and len(words) >= 4))


def cite(row: dict[str, Any], found: Found) -> dict[str, Any] | None:
    """Choose the best place of one signature: its own words, the most of them, in source."""
    needles = needles_of(row)
    longest = max(map(len, needles), default=0)
    best: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
    for text, kind in needles.items():
        if len(text) < (0.5 if kind == "form" else 0.6) * longest or not is_specific(text):
            continue
        for artifact, held in found.items():
            for path, line in held.get(text.lower(), ())[:1]:
                source = bool(SOURCE.search(path))
                place: dict[str, Any] = {"artifact": artifact, "path": path, "words": text}
                place |= {"line": line} if source else {}
                place |= {"form": True} if kind == "form" else {}
                if (rank := (kind == "words", len(text), source)) > best[0]:
                    best = rank, place
    return best[1] or None


def constants(body: bytes) -> bytes:
    """Keep what an ELF file holds beside code for CPU and GPU."""
    start, size, count, names = (
        struct.unpack_from("<Q", body, 0x28)[0],
        *struct.unpack_from("<HHH", body, 0x3A),
    )
    if not start or not count or body[4] != 2:
        return body
    rows = [struct.unpack_from("<IIQQQQ", body, start + number * size) for number in range(count)]
    table = rows[names][4]
    kept = []
    for name, kind, flags, _, offset, length in rows:
        title = body[table + name : body.index(b"\0", table + name)]
        if kind == 1 and flags & 2 and not flags & 4 and b"fatbin" not in title.lower():
            kept.append(body[offset : offset + length])
    return b"\n".join(kept)


def joined(text: str) -> str:
    """Write string literals that follow each other as one, and keep the number of every later line."""
    lines = []
    marked = _JOINED.sub(lambda found: "\x01" * found[2].count("\n"), text)
    for line in marked.split("\n"):
        owed = line.count("\x01")
        lines.append(line.replace("\x01", "") + "\n" * owed)
    return "\n".join(lines)


def keep(folder: Path, name: str, body: bytes) -> None:
    """Write one file of a program as it is searched."""
    path = folder / re.sub(r"^(?:\./)+|\.\./", "", name).lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    if body[:4] == b"\x7fELF":
        body = constants(body)
    elif SOURCE.search(name):
        body = joined(body.decode("utf-8", "replace")).encode()
    path.write_bytes(body)


def copy(source: Path, folder: Path) -> None:
    """Write the files of a folder as they are searched."""
    for path in source.rglob("*"):
        if path.is_file() and not path.is_symlink() and not IGNORED.search(str(path)):
            keep(folder, str(path.relative_to(source)), path.read_bytes())


def unpack(archive: Path, folder: Path) -> None:
    """Write what an archive holds into a folder."""
    if archive.suffix == ".deb":
        (folder / "raw").mkdir(parents=True)
        subprocess.run(["dpkg-deb", "-x", archive, folder / "raw"], check=True)
        copy(folder / "raw", folder / "deb")
        shutil.rmtree(folder / "raw")
    elif archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as packed:
            for item in packed.infolist():
                if not item.is_dir() and not IGNORED.search(item.filename):
                    keep(folder, item.filename, packed.read(item))
    else:
        with tarfile.open(archive) as packed_tar:
            for member in packed_tar:
                stream = packed_tar.extractfile(member) if member.isfile() else None
                if stream and not IGNORED.search(member.name):
                    keep(folder, member.name, stream.read())


def download(wanted: str, folder: Path) -> Path | None:
    """Fetch the archive of a program, or None."""
    requirement, _, python = wanted.partition("@")
    if requirement.startswith("deb:"):
        subprocess.run(["apt-get", "download", "-q", requirement[4:]], cwd=folder, check=False)
        return next(folder.iterdir(), None)
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
    if python == "sdist":
        command += ["--no-binary", ":all:"]
    else:
        command += ["--only-binary", ":all:", "--python-version", python]
        command += [f"--platform=manylinux_2_{minor}_x86_64" for minor in GLIBC]
        command += [f"--platform=manylinux{year}_x86_64" for year in (1, 2010, 2014)]
    subprocess.run([*command, requirement], check=False, timeout=300)
    return next(folder.iterdir(), None)


def occurrences(folder: Path, needles: Path) -> Iterator[tuple[str, int, str]]:
    """Yield file, line and words for everything found in a folder."""
    command = ["grep", "-raoniFZ", "-f", str(needles), "."]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, env=os.environ | {"LC_ALL": "C"}
    ) as running:
        assert running.stdout
        for line in running.stdout:
            name, _, rest = line.partition(b"\0")
            number, _, words = rest.rstrip(b"\n").partition(b":")
            yield (
                name.decode("utf-8", "replace")[2:],
                int(number),
                words.decode("utf-8", "replace").lower(),
            )


def search(folder: Path, needles: dict[str, Any]) -> dict[str, list[tuple[str, int]]]:
    """Map each of the words to a few files of one program that hold it, source before binaries."""
    places: dict[str, dict[str, int]] = defaultdict(dict)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write("\n".join(needles))
        listed.flush()
        for path, line, words in occurrences(folder, Path(listed.name)):
            places[words].setdefault(path, line)
    for words in list(places):
        for shorter in needles:
            if shorter != words and shorter in words:
                places[shorter] = places[words] | places[shorter]
    return {words: sorted(paths.items(), key=by_worth)[:8] for words, paths in places.items()}


def by_worth(place: tuple[str, int]) -> tuple[Any, ...]:
    """Sort source before binaries, and tests last."""
    return not SOURCE.search(place[0]), "test" in place[0], place


def main() -> int:
    """Look for the words of all signatures in each program that is named, and print the places."""
    target, *arguments = sys.argv[1:]
    rows = json.loads((ROOT / "data" / "advice" / "signatures.json").read_text())["signatures"]
    needles = {text.lower(): 0 for row in rows for text in needles_of(row)}
    path = Path(target)
    found = json.loads(path.read_text()) if path.exists() else {}
    while arguments:
        wanted = arguments.pop(0)
        if wanted == "--folder":
            artifact, _, place = arguments.pop(0).partition("=")
            with tempfile.TemporaryDirectory(dir=path.parent) as room:
                copy(Path(place), Path(room))
                found[artifact] = search(Path(room), needles)
        else:
            with tempfile.TemporaryDirectory(dir=path.parent) as room:
                (got := Path(room) / "got").mkdir()
                archive = download(wanted, got)
                if archive is None:
                    print(f"not found: {wanted}", file=sys.stderr)
                    continue
                release = re.match(r"(.+?)[-_](?:\d+:|\d+%3a)?(\d[^-_]*)", archive.name)
                unpack(archive, Path(room) / "files")
                archive.unlink()
                artifact = f"{release[1]} {release[2]}" if release else archive.name
                found[re.sub(r"\.tar$|\.gz$", "", artifact.removesuffix(".gz"))] = search(
                    Path(room) / "files", needles
                )
        path.write_text(json.dumps(found, ensure_ascii=False))
        print(f"{wanted} read", file=sys.stderr, flush=True)
    places = {row["name"]: cite(row, found) for row in rows}
    print(json.dumps({name: place for name, place in places.items() if place}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
