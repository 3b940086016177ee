"""What a toolkit's files say of its version: version.json, version.txt, cuda.h, the name of libcudart."""

from __future__ import annotations

import json
import re
from typing import Mapping, Optional, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.probes.toolkit_paths import base_name, join

# CUDA_VERSION stands within the first 16 KB of cuda.h in CUDA 11.8, 12.9, 13.0 and 13.5, of more than 800 KB.
_HEADER_BYTES = 1 << 16
_HEADERS = (("cuda.h", "CUDA_VERSION"), ("cuda_runtime_api.h", "CUDART_VERSION"))


def parse_version_json(text: str) -> Optional[Mapping[str, str]]:
    """Return component -> version; the key "cuda" is the toolkit itself. None when it is not that.

    {
       "cuda" : {
          "name" : "CUDA SDK",
          "version" : "11.8.20220929"
       },
       "cuda_nvcc" : {
          "name" : "CUDA NVCC",
          "version" : "11.8.89"
       },
       "nvidia_driver" : {
          "name" : "NVIDIA Linux Driver",
          "version" : "520.61.05"
       }
    }
    """
    try:
        loaded = json.loads(text)
    except ValueError:
        return None
    if not isinstance(loaded, dict):
        return None
    versions = {name: str(entry.get("version")) for name, entry in loaded.items() if isinstance(entry, dict)}
    found = {name: version for name, version in versions.items() if re.search(r"^\d+(\.\d+)+$", version)}
    return found if "cuda" in found else None


def parse_version_txt(text: str) -> Optional[str]:
    """Return the version in a version.txt; patch lines number the patch, not the toolkit.

    CUDA Version 10.0.130
    CUDA Patch Version 10.0.130.1
    """
    match = re.search(r"^CUDA Version (\d+\.\d+(?:\.\d+)*)\s*$", text, re.MULTILINE)
    return match.group(1) if match else None


def parse_cuda_define(text: str, macro: str) -> Optional[str]:
    """Return the version a header defines as an integer: 1000 for a major, 10 for a minor version.

    #define CUDA_VERSION 13000
    """
    match = re.search(rf"^#define\s+{macro}\s+(\d{{4,6}})\b", text, re.MULTILINE)
    return f"{int(match.group(1)) // 1000}.{int(match.group(1)) % 1000 // 10}" if match else None


def parse_cudart_name(name: str) -> Optional[str]:
    """Return the version in the name of libcudart's real file, None when it tells only the major.

    libcudart.so.13.0.96 -> 13.0, libcudart.so.9.0 -> 9.0, libcudart.so.12 and libcudart.so.11.0 (all of
    CUDA 11 bears that soname) -> None
    """
    match = re.search(r"^libcudart\.so\.(\d+)\.(\d+)(\.\d+)?$", name)
    if match is None or (match.group(1) == "11" and match.group(3) is None):
        return None
    return f"{match.group(1)}.{match.group(2)}"


def read_version_files(host: Host, folders: Tuple[str, ...]) -> Tuple[Fact[str], Fact[str]]:
    """Return (toolkit version, nvcc build) from the first version.json or version.txt there is."""
    tried = []
    for folder in folders:
        for name, read in (("version.json", _from_json), ("version.txt", _from_txt)):
            path = join(host, folder, name)
            text = host.read_text(path)
            if not isinstance(text, Absent):
                return (text, text) if isinstance(text, Unknown) else read(path, text.value)
            tried.append(path)
    return Absent(tuple(tried)), Absent(tuple(tried))


def read_header_version(host: Host, folders: Tuple[str, ...]) -> Fact[str]:
    """Return the version that cuda.h defines, or cuda_runtime_api.h where cuda.h is not installed."""
    tried, unread = [], None
    for folder in folders:
        for name, macro in _HEADERS:
            path = join(host, folder, name)
            text = host.read_text(path, _HEADER_BYTES)
            version = parse_cuda_define(text.value, macro) if isinstance(text, Known) else None
            if version is not None:
                return Known(version, Source("file", path, f"{macro} says {version}"))
            tried.append(path)
            if not isinstance(text, Absent):
                unread = text if isinstance(text, Unknown) else Unknown("unparsable", f"{path}: no {macro}", (path,))
    return unread or Absent(tuple(tried))


def cudart_version(path: Fact[str]) -> Fact[str]:
    """Return the version the name of libcudart's real file tells."""
    if not isinstance(path, Known):
        return path
    version = parse_cudart_name(base_name(path.value))
    if version is None:
        return Unknown("unparsable", f"the name {base_name(path.value)} does not tell the minor version", (path.value,))
    return Known(version, Source("file", path.value))


def _from_json(path: str, text: str) -> Tuple[Fact[str], Fact[str]]:
    versions = parse_version_json(text)
    if versions is None:
        reason = Unknown("unparsable", f"{path} tells no CUDA version", (path,))
        return reason, reason
    toolkit = Known(versions["cuda"], Source("file", path, f"CUDA SDK {versions['cuda']}"))
    nvcc = versions.get("cuda_nvcc")
    return toolkit, Known(nvcc, Source("file", path, f"CUDA NVCC {nvcc}")) if nvcc else Absent((path,))


def _from_txt(path: str, text: str) -> Tuple[Fact[str], Fact[str]]:
    version = parse_version_txt(text)
    if version is None:
        return Unknown("unparsable", f"{path} tells no CUDA version", (path,)), Absent((path,))
    return Known(version, Source("file", path, "; ".join(text.split("\n")).strip("; ")[:200])), Absent((path,))
