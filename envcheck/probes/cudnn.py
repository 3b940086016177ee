"""What tells a copy of cuDNN: its headers changed name at 8 and 9, its packages at every CUDA."""

from __future__ import annotations

from envcheck.probes.cuda_libraries_kinds import LibraryKind

CUDNN = LibraryKind(
    name="cudnn",
    # Up to 7 the macros stand in cudnn.h; from 8 on that only includes cudnn_version.h, which on Debian is
    # an alternative to choose between cudnn_version_v8.h and cudnn_version_v9.h.
    headers=("cudnn_version.h", "cudnn_version_v9.h", "cudnn_version_v8.h", "cudnn.h"),
    # the three macros, not CUDNN_VERSION: its formula changed at 9 (8902 is 8.9.2, 90100 is 9.1.0)
    macros=(("CUDNN_MAJOR",), ("CUDNN_MINOR",), ("CUDNN_PATCHLEVEL",)),
    stem="cudnn",
    dll=r"^cudnn64_(\d+)\.dll$",
    wheel_folders=("nvidia/cudnn",),
    wheel=r"^nvidia_cudnn(?:_cu(?P<cuda>\d+))?-(?P<version>[\d.]+)\.dist-info$",
    debian=("libcudnn", "nvidia-cudnn", "cudnn9"),
    conda="cudnn",
    variables=("CUDNN_PATH", "CUDNN_HOME", "CUDNN_ROOT", "CUDNN_ROOT_DIR"),
)
