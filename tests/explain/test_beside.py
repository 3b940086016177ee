"""What a machine's facts or a list in the log say beside a message changes which cause it names."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.judged import judge

NO_LIBCUDA = (
    "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library 'libcuda.so.1'; "
    "dlerror: libcuda.so.1: cannot open shared object file: No such file or directory"
)
ERROR_803 = "Error 803: system has unsupported display driver / cuda driver combination"
WHEEL = "ERROR: torch-2.7.1-cp310-cp310-manylinux_2_28_x86_64.whl is not a supported wheel on this platform."
APEX = (
    "RuntimeError: Cuda extensions are being compiled with a version of Cuda that does not match the version used to "
    "compile Pytorch binaries.  Pytorch binaries were compiled with Cuda 12.1.\n"
    "Cuda compilation tools, release 11.5, V11.5.119\n"
)
NO_CUDNN_8 = (
    "ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory\n"
)


@pytest.mark.parametrize(
    ("log", "facts", "cause"),
    [
        (NO_LIBCUDA, {"container": "docker", "driver": "470.57.02"}, "driver-not-in-container"),
        (NO_LIBCUDA, {"driver": "470.57.02"}, "libcuda-not-on-path"),
        (
            ERROR_803,
            {"env": {"LD_LIBRARY_PATH": "/usr/local/cuda-12.2/compat:/opt/x"}},
            "forward-compat-misused",
        ),
        (
            ERROR_803,
            {"env": {"LD_LIBRARY_PATH": "/usr/local/cuda-12.2/lib64"}},
            "driver-library-mismatch",
        ),
        (WHEEL, {"os": "CentOS", "glibc": "2.17", "python": "3.10.14"}, "glibc-too-old"),
        (WHEEL, {"os": "Rocky", "glibc": "2.28", "python": "3.10.14"}, "pip-too-old"),
        (
            APEX + "/usr/local/cuda  /usr/local/cuda-12  /usr/local/cuda-12.1",
            {"os": "Linux"},
            "toolkit-path-conflict",
        ),
        (
            APEX + "/usr/local/cuda  /usr/local/cuda-11  /usr/local/cuda-11.5",
            {"os": "Linux"},
            "toolkit-wrong-version",
        ),
        (
            NO_CUDNN_8 + "\tlibcudnn.so.9 (libc6,x86-64) => /lib/libcudnn.so.9",
            {"os": "Linux"},
            "cudnn-wrong-major",
        ),
        (NO_CUDNN_8 + "nvidia-cudnn-cu12   9.1.0.70", {"os": "Linux"}, "cudnn-wrong-major"),
        (NO_CUDNN_8 + "/opt/cudnn/lib/libcudnn.so.8", {"os": "Linux"}, "toolkit-path-conflict"),
        (NO_CUDNN_8, {"os": "Linux"}, "cudnn-missing"),
    ],
)
def test_what_stands_beside_a_message_decides(log: str, facts: dict[str, Any], cause: str) -> None:
    case = {
        "log": log,
        "facts": facts,
        "root_cause": cause,
        "also_acceptable": [],
        "decidable_from": "log+facts",
    }
    assert judge(case).primary == cause
