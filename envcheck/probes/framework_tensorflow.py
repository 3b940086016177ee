"""Read a TensorFlow build: CUDA or not, for what, and whether its libraries are found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, Mapping, Tuple

from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.python_env import Distribution, FrameworkBuild, LibraryLookup
from envcheck.probes.cuda_data import cuda_data
from envcheck.probes.framework_builds import (
    Inspection,
    cpu_build,
    literals,
    lookups,
    parse_conda_build,
    unreadable_build,
)
from envcheck.probes.framework_libraries import opened_names

_BUILD_INFO = "python/platform/build_info.py"


def collect_tensorflow(inspection: Inspection, distribution: Distribution) -> FrameworkBuild:
    """Read the build that `distribution` installed."""
    folder, text = _build_info(inspection, distribution)
    if isinstance(text, Unknown):
        return unreadable_build("tensorflow", distribution, text)
    if isinstance(text, Absent):
        return _without_build_info(inspection, distribution, folder, text)
    info = parse_build_info(text.value)
    source = Source("file", text.source.where, f"is_cuda_build = {info.get('is_cuda_build')}")
    if not isinstance(info.get("is_cuda_build"), bool):
        reason = Unknown("unparsable", f"{source.where} does not say whether it is a CUDA build", (source.where,))
        return unreadable_build("tensorflow", distribution, reason)
    if not info["is_cuda_build"]:
        return cpu_build("tensorflow", distribution, source)
    return _cuda_build(inspection, distribution, folder, info, source)


def parse_build_info(text: str) -> Dict[str, Any]:
    r"""Read TensorFlow's build_info.py; cuda_version and cudnn_version come out as "11.2" and "8".

    To 1.14 it says only is_cuda_build; to 2.2 it has module-level names, then a dict, later inside a call:
    'is_cuda_build = True\n\ncuda_version_number = '10.0'\ncudnn_version_number = '7'\n'
    'build_info = {'cuda_version': '64_101', 'cudnn_version': '64_7', 'is_cuda_build': True}\n'
    'build_info = collections.OrderedDict([('cuda_compute_capabilities', ['sm_60', 'compute_90']),
     ('cuda_version', '12.5.1'), ('cudnn_version', '9'), ('is_cuda_build', True)])\n'
    """
    try:
        names = literals(text)
        info = dict(names.get("build_info", names))
    except (SyntaxError, ValueError, TypeError):
        return {}
    for key, old_key in (("cuda_version", "cuda_version_number"), ("cudnn_version", "cudnn_version_number")):
        value = str(info.pop(old_key, info.get(key, "")))
        if value.startswith("64_"):  # as Windows names its libraries: cudart64_112.dll
            digits = value[3:]
            value = f"{digits[:-1]}.{digits[-1]}" if len(digits) > 1 else digits
        info[key] = value
    return info


def _build_info(inspection: Inspection, distribution: Distribution) -> Tuple[str, Fact[str]]:
    folder, tried = "", []
    for package in reversed(cuda_data()["tensorflow"]["packages"]):  # tensorflow_core (1.15, 2.0) holds it alone
        folder = f"{distribution.location}/{package}"
        text = inspection.host.read_text(f"{folder}/{_BUILD_INFO}")
        if not isinstance(text, Absent):
            return folder, text
        tried.append(f"{folder}/{_BUILD_INFO}")
    return folder, Absent(tuple(tried))


def _without_build_info(
    inspection: Inspection, distribution: Distribution, folder: str, absent: Absent
) -> FrameworkBuild:
    """Judge by conda's build string, else by the libraries that a release before 1.5 links."""
    build, source = inspection.conda_build(cuda_data()["tensorflow"]["conda_packages"])
    told = parse_conda_build(build)
    if "cpu" in told:
        return cpu_build("tensorflow", distribution, source)
    if "cuda" not in told and not isinstance(inspection.host.status(folder), Known):
        reason = Unknown("failed", f"{distribution.name} is installed but {folder} is missing", absent.tried)
        return unreadable_build("tensorflow", distribution, reason)
    source = source if told else Source("file", folder)
    result = _cuda_build(inspection, distribution, folder, {"cuda_version": told.get("cuda", "")}, source)
    if not told and isinstance(result.libraries, Known) and not result.libraries.value:
        return cpu_build("tensorflow", distribution, source)
    return result


def _cuda_build(
    inspection: Inspection, distribution: Distribution, folder: str, info: Mapping[str, Any], source: Source
) -> FrameworkBuild:
    data = cuda_data()["tensorflow"]
    minor = ".".join(distribution.version.split(".")[:2])
    cuda = str(info.get("cuda_version", ""))
    cuda = cuda if "." in cuda else data["full_cuda_version"].get(minor, cuda)
    cudnn = str(info.get("cudnn_version", ""))
    opens = opened_names(data, cuda, cudnn)
    callers = [
        inspection.search.caller(f"{folder}/{name}", opens if name in data["opening_files"] else ())
        for name in data["linking_files"]
    ]
    libraries, runpath = lookups(inspection.search, callers)
    capabilities = info.get("cuda_compute_capabilities")
    silent = Unknown("failed", "this release's build_info does not name them", (source.where,))
    return replace(
        cpu_build("tensorflow", distribution, source),
        cuda_build=Known(True, source),
        cuda_version=Known(cuda, source) if cuda else linked_version("libcudart.so.", libraries),
        cudnn_version=Known(cudnn, source) if cudnn else linked_version("libcudnn.so.", libraries),
        compute_capabilities=Known(tuple(map(str, capabilities)), source) if capabilities else silent,
        libraries=libraries,
        runpath=runpath,
    )


def linked_version(prefix: str, libraries: Fact[Tuple[LibraryLookup, ...]]) -> Fact[str]:
    """Read a version off the soname that a build links: libcudart.so.10.0 -> 10.0."""
    names: Tuple[LibraryLookup, ...] = libraries.value if isinstance(libraries, Known) else ()
    for each in names:
        if each.soname.startswith(prefix):
            return Known(each.soname[len(prefix) :], Source("file", each.needed_by, f"needs {each.soname}"))
    return Unknown("failed", f"no file of the build names {prefix}*", ())
