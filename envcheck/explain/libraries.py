"""Shared libraries by their file names, and the CUDA Toolkits that hold them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envcheck.matrix.query import Matrix
from envcheck.model import dataclass
from envcheck.model.versions import cuda_of_digits

DRIVER, CUDNN, TENSORRT, TOOLKIT, PROFILER, FRAMEWORK, FFMPEG, OTHER = (
    "driver", "cudnn", "tensorrt", "toolkit", "profiler", "framework", "ffmpeg", "other",
)  # fmt: skip

# Of the others, what it means that one is missing is the conclusion missing-FAMILY.
_FAMILIES = (
    (r"(?:lib)?cuda(?:\.so.*|\.dylib)|nvcuda\.dll", DRIVER),
    (r"libnvidia-|nvml\.dll", "nvml"),
    (r"(?:lib)?cudnn", CUDNN),
    (r"lib(?:nvinfer|nvonnx|nvparsers)|nvinfer", TENSORRT),
    (r"(?:lib)?cupti", PROFILER),
    (r"(?:lib)?(?:cu|nv(?:rtc|JitLink|jitlink|ToolsExt|blas|perf|tx)|npp|nccl)", TOOLKIT),
    (r"lib(?:torch|c10|caffe2|tensorflow|jax|shm)", FRAMEWORK),
    (r"libstdc\+\+", "stdcxx"),
    (r"(?:lib)?zlib", "zlib"),
    (r"(?:lib)?python", "python"),
    (r"lib(?:av|sw)(?:util|codec|device|filter|format|resample|scale)\.", FFMPEG),
)


@dataclass
class Library:
    """A shared library by its file name."""

    name: str  # libcublas.so.10.0, cudnn64_7.dll
    stem: str  # cublas
    version: str  # "10.0"; "" for none
    family: str


_FILE_NAMES = (
    r"lib(?P<stem>[\w.+-]+?)\.so(?:\.(?P<version>[\d.]+\d|\d+))?",
    r"(?P<stem>[a-zA-Z_]+?)(?:64)?_?(?P<version>\d+)?(?:_\d+)?\.dll",
    r"lib(?P<stem>[a-zA-Z_]+)\.(?P<version>[\d.]+)\.dylib",
)


def parse_library(name: str) -> Library:
    """Read a library's name, such as libcusolver.so.10, cudart64_110.dll or libcuda.so."""
    base = re.split(r"[/\\]", name)[-1]
    family = next((kind for pattern, kind in _FAMILIES if re.match(pattern, base)), OTHER)
    for pattern in _FILE_NAMES:
        match = re.match(pattern, base)
        if match:
            stem, version = match["stem"], match["version"] or ""
            if ".dll" in match[0] and not stem.startswith("cudnn"):
                # cudart64_110 is 11.0, cublas64_11 is 11, cudnn64_7 is 7
                version = cuda_of_digits(version)
            return Library(base, stem, version, family)
    return Library(base, base, "", family)


def providers(matrix: Matrix, library: Library) -> tuple[str, ...]:
    """List the toolkit lines that hold a library of this name, newest first."""
    return matrix.toolkits_with(library.stem, f"lib{library.stem}.so.{library.version}")


def list_common_toolkits(matrix: Matrix, libraries: Iterable[Library]) -> tuple[str, ...]:
    """List the toolkit lines that hold all of the libraries that any line holds, newest first."""
    lines = [line for line in (providers(matrix, library) for library in libraries) if line]
    common = next(iter(lines), ())
    return tuple(line for line in common if all(line in other for other in lines))
