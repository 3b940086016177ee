"""Pack the packages that read a machine into one file that any host with Python >= 3.8 runs."""

from __future__ import annotations

import io
import marshal
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path

import envcheck

PACKAGES = ("model", "host", "probes", "frameworks")
# prefix of the line with the answer: login scripts may print other lines
MARK = "ENVCHECK-SNAPSHOT "
MIN_PYTHON = (3, 8)

# The data files of the probes; the rules and the matrix stay here.
_DATA = (
    "frameworks/identity.json",
    "frameworks/imported_modules.json",
    "frameworks/linking.json",
    "nvidia/cuda_libraries.json",
    "nvidia/cuda_wheels.json",
    "nvidia/gpus.json",
    "nvidia/jetson.json",
    "program/environment_variables.json",
    "program/imports.json",
    "program/other_gpus.json",
)

# The shell exits before the archive behind this script; Python finds an archive by its end.
_LAUNCHER = """#!/bin/sh
case $0 in /*) self=$0 ;; *) self=$PWD/$0 ;; esac
for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 \\
    python; do
  if "$python" -c 'import sys; sys.exit(sys.version_info < ({floor}))' >/dev/null 2>&1; then
    exec "$python" -I "$self" "$@"
  fi
done
echo 'envcheck: no Python {shown} or newer on this host' >&2
exit 3
"""
_MAIN = '''"""Read this machine and print its snapshot on one line."""
import builtins
import json
import sys
import threading
import zipimport
import zlib

# Its own function fails while another thread runs it (https://github.com/python/cpython/blob/v3.13.0/Lib/zipimport.py#L591).
zipimport._get_decompress_func = lambda: zlib.decompress
lock, load = threading.RLock(), builtins.__import__


def load_alone(*args, **kwargs):
    with lock:
        return load(*args, **kwargs)


# Imports from an archive: another thread may see a half-initialized module.
if sys.version_info < (3, 10):
    builtins.__import__ = load_alone

from envcheck.host.local import LocalHost
from envcheck.model.codec import encode
from envcheck.probes.collection import LIMIT, collect
from envcheck.probes.environment_choice import PythonSelection

words = dict(word.split("=", 1) for word in sys.argv[1:])
patience = float(words.pop("patience", "1"))
selection = PythonSelection(**words)
host = LocalHost()
host.extend_limits(patience)
print("{mark}" + json.dumps(encode(collect(host, selection, limit=LIMIT * patience))))
'''
# marshal: version 3 and later write references, which are not reproducible; slices need 5 (Python
# 3.14).
_FORMAT = 2 if sys.version_info < (3, 14) else 5
# A fixed time makes the archive reproducible.
_TIME = (1980, 1, 1, 0, 0, 0)


@contextmanager
def written_collector() -> Iterator[Path]:
    """Write the collector to a file of its own folder, which goes when the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "collector"
        path.write_bytes(build_collector())
        yield path


def build_collector(*, compiled: bool = True) -> bytes:
    """Build the collector: a shell script followed by a zip archive; it only reads.

    Compiled modules save seconds on hosts with this Python, and are two thirds of its size.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _MAIN.format(mark=MARK).encode())
        for name, path in _list_sources():
            _add(archive, name, path.read_bytes())
            if compiled and name.startswith("envcheck/") and name.endswith(".py"):
                _add(archive, name + "c", _compile_module(name, path))
    floor = ", ".join(map(str, MIN_PYTHON))
    launcher = _LAUNCHER.format(floor=floor, shown=".".join(map(str, MIN_PYTHON)))
    return launcher.encode() + packed.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _TIME), content, zipfile.ZIP_DEFLATED)


def _compile_module(name: str, path: Path) -> bytes:
    """Compile a module for this Python; hosts with another one use the source beside it."""
    code = compile(path.read_bytes(), name, "exec", dont_inherit=True)
    # https://peps.python.org/pep-0552/: hash-based, never compared with the source
    by_hash = (1).to_bytes(4, "little")
    return MAGIC_NUMBER + by_hash + bytes(8) + marshal.dumps(code, _FORMAT)


def _list_sources() -> Iterator[tuple[str, Path]]:
    package = Path(envcheck.__file__).parent
    yield "envcheck/__init__.py", package / "__init__.py"
    for name in PACKAGES:
        yield from _list_modules(package / name, f"envcheck/{name}")
    data = package / "data" if (package / "data").is_dir() else package.parent / "data"
    for name in _DATA:
        yield (f"envcheck/data/{name}", data / name)
    yield "pynvml.py", _find_nvml()


def _list_modules(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*.py")):
        yield f"{prefix}/{path.relative_to(folder).as_posix()}", path


def _find_nvml() -> Path:
    spec = find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "the package that contains pynvml is not installed", name="pynvml"
        )
    return Path(spec.origin)
