"""Build the stand-in libnvidia-ml.so.1 and libcuda.so.1 with gcc, again only when their sources change."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

SOURCES = Path(__file__).with_name("libraries")
CACHE = Path(__file__).parents[2] / "build" / "fakes"
LIBRARIES = {"libnvidia-ml": "nvml.c", "libcuda": "cuda.c"}
_FLAGS = [
    "-std=gnu11",
    "-shared",
    "-fPIC",
    "-O1",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-cast-function-type",
]


def build_libraries() -> Path:
    """Return the folder that holds both stand-in libraries, named by their sonames."""
    folder = CACHE / _fingerprint()
    for name, source in LIBRARIES.items():
        if not (folder / f"{name}.so.1").exists():
            folder.mkdir(parents=True, exist_ok=True)
            _compile(name, source, folder)
    return folder


def _fingerprint() -> str:
    content = b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()))
    return hashlib.sha256(content).hexdigest()[:16]


def _compile(name: str, source: str, folder: Path) -> None:
    soname = f"{name}.so.1"
    unfinished = folder / f"{soname}.unfinished"
    argv = ["gcc", *_FLAGS, "-fvisibility=hidden", f"-Wl,-soname,{soname}", str(SOURCES / source)]
    subprocess.run([*argv, "-o", str(unfinished), "-ldl"], check=True)
    unfinished.replace(folder / soname)  # at once, so that a parallel run never sees half a library
