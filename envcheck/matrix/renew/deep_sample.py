"""Which binaries of a wheel are read for tier 2: those that hold the framework's GPU code and its C++ runtime."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable

# Framework -> names of the members that are read; of others none are. Nothing is claimed of a wheel's other binaries.
SAMPLED = {
    "tensorflow": r"tensorflow(_core)?/"
    r"(lib(tensorflow_framework|tensorflow_cc)\.so(\.\d)?|python/_pywrap_tensorflow_(internal|common)\.(so|pyd|dll))",
    "torch": r"torch/lib/(lib)?(torch_cuda(_cu|_cpp)?|torch_cpu|caffe2|caffe2_gpu|c10|c10_cuda)\.(so|dll)",
    "jax": r"jax_cuda\d+_plugin/(_prng|_solver|_versions)\.so"
    r"|jaxlib/(xla_extension|_jax|libjax_common|jax_common)\.(so|pyd|dll)",
}
_BINARY = r".*\.(so(\.\d+)*|pyd|dll)"


def sampled_members(members: Iterable[zipfile.ZipInfo], framework: str) -> tuple[list[zipfile.ZipInfo], int]:
    """Return the members to read in order of their names, and how many binaries the wheel has in all.

    A library that a wheel holds under several names, libx.so and libx.so.1, is read once, under the longest.
    """
    binaries = [item for item in members if re.fullmatch(_BINARY, item.filename)]
    chosen: dict[tuple[str, int, int], zipfile.ZipInfo] = {}
    for item in sorted(binaries, key=lambda item: item.filename):
        if re.fullmatch(SAMPLED[framework], item.filename):
            chosen[item.filename.partition(".so")[0], item.CRC, item.file_size] = item
    return sorted(chosen.values(), key=lambda item: item.filename), len(binaries)
