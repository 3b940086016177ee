"""What tells a copy of TensorRT or NCCL: names of headers, macros, libraries and packages."""

from __future__ import annotations

from typing import Tuple

from envcheck.model.records import dataclass


@dataclass(frozen=True)
class LibraryKind:
    """The names one library goes by; patterns are regular expressions."""

    name: str  # as LibraryInstall.library
    headers: Tuple[str, ...]  # in the order they are tried
    macros: Tuple[Tuple[str, ...], ...]  # for major, minor, patch: the macro and what it may be an alias of
    stem: str  # of libSTEM.so.N
    dll: str  # pattern of the Windows library
    wheel_folders: Tuple[str, ...]  # below site-packages
    wheel: str  # pattern of the dist-info folder: groups cuda (or none) and version
    debian: Tuple[str, ...]  # beginnings of package names
    conda: str  # package name
    variables: Tuple[str, ...]  # that name its root


TENSORRT = LibraryKind(
    name="tensorrt",
    headers=("NvInferVersion.h", "NvInfer.h"),
    # from 10.13 on NV_TENSORRT_MAJOR is defined as TRT_MAJOR_ENTERPRISE
    macros=(
        ("NV_TENSORRT_MAJOR", "TRT_MAJOR_ENTERPRISE"),
        ("NV_TENSORRT_MINOR", "TRT_MINOR_ENTERPRISE"),
        ("NV_TENSORRT_PATCH", "TRT_PATCH_ENTERPRISE"),
    ),
    stem="nvinfer",
    dll=r"^nvinfer(?:_(\d+))?\.dll$",
    wheel_folders=("tensorrt_libs", "tensorrt"),
    wheel=r"^(?:nvidia_)?tensorrt(?:_cu(?P<cuda>\d+))?(?:_libs)?-(?P<version>[\d.]+)\S*\.dist-info$",
    debian=("libnvinfer",),
    conda="tensorrt",
    variables=("TENSORRT_ROOT", "TENSORRT_DIR"),
)

NCCL = LibraryKind(
    name="nccl",
    headers=("nccl.h",),
    macros=(("NCCL_MAJOR",), ("NCCL_MINOR",), ("NCCL_PATCH",)),
    stem="nccl",
    dll=r"^nccl\.dll$",
    wheel_folders=("nvidia/nccl",),
    wheel=r"^nvidia_nccl(?:_cu(?P<cuda>\d+))?-(?P<version>[\d.]+)\.dist-info$",
    debian=("libnccl",),
    conda="nccl",
    variables=("NCCL_HOME", "NCCL_ROOT"),
)
