"""TensorFlow 1 and 2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, Mapping, Tuple

from envcheck.frameworks.base import Framework
from envcheck.frameworks.installed import (
    Inspection,
    cpu_build,
    linked_version,
    literals,
    lookups,
    opened_names,
    parse_conda_build,
    unreadable_build,
)
from envcheck.model import Absent, Distribution, Fact, FrameworkBuild, Known, Source, Unknown

_BUILD_INFO = "python/platform/build_info.py"


class TensorFlow(Framework):
    """TensorFlow: one module under many names of distributions."""

    takes_memory_at_start = True
    logs_placement = True

    def read_build(self, inspection: Inspection, distribution: Distribution) -> FrameworkBuild:
        """Read build_info.py, conda's build string, or what the libraries link."""
        folder, text = self._build_info(inspection, distribution)
        if isinstance(text, Unknown):
            return unreadable_build(self.name, distribution, text)
        if isinstance(text, Absent):
            return self._without_build_info(inspection, distribution, folder, text)
        info = parse_build_info(text.value)
        source = Source("file", text.source.where, f"is_cuda_build = {info.get('is_cuda_build')}")
        if not isinstance(info.get("is_cuda_build"), bool):
            reason = Unknown("unparsable", f"{source.where} does not say whether it is a CUDA build", (source.where,))
            return unreadable_build(self.name, distribution, reason)
        if not info["is_cuda_build"]:
            return cpu_build(self.name, distribution, source)
        return self._cuda_build(inspection, distribution, folder, info, source)

    def _build_info(self, inspection: Inspection, distribution: Distribution) -> Tuple[str, Fact[str]]:
        folder, tried = "", []
        for package in reversed(self.packages):  # tensorflow_core (1.15, 2.0) holds it alone
            folder = f"{distribution.location}/{package}"
            text = inspection.host.read_text(f"{folder}/{_BUILD_INFO}")
            if not isinstance(text, Absent):
                return folder, text
            tried.append(f"{folder}/{_BUILD_INFO}")
        return folder, Absent(tuple(tried))

    def _without_build_info(
        self, inspection: Inspection, distribution: Distribution, folder: str, absent: Absent
    ) -> FrameworkBuild:
        """Judge by conda's build string, else by the libraries that a release before 1.5 links."""
        build, source = inspection.conda_build(self.conda_packages)
        stated = parse_conda_build(build)
        if "cpu" in stated:
            return cpu_build(self.name, distribution, source)
        if "cuda" not in stated and not isinstance(inspection.host.status(folder), Known):
            reason = Unknown("failed", f"{distribution.name} is installed but {folder} is missing", absent.tried)
            return unreadable_build(self.name, distribution, reason)
        source = source if stated else Source("file", folder)
        result = self._cuda_build(inspection, distribution, folder, {"cuda_version": stated.get("cuda", "")}, source)
        if not stated and isinstance(result.libraries, Known) and not result.libraries.value:
            return cpu_build(self.name, distribution, source)
        return result

    def _cuda_build(
        self, inspection: Inspection, distribution: Distribution, folder: str, info: Mapping[str, Any], source: Source
    ) -> FrameworkBuild:
        minor = ".".join(distribution.version.split(".")[:2])
        cuda = str(info.get("cuda_version", ""))
        cuda = cuda if "." in cuda else self.full_cuda_version.get(minor, cuda)
        cudnn = str(info.get("cudnn_version", ""))
        opens = opened_names(self, cuda, cudnn)
        callers = [
            inspection.search.caller(f"{folder}/{name}", opens if name in self.opening_files else ())
            for name in self.linking_files
        ]
        libraries, runpath = lookups(inspection.search, callers)
        capabilities = info.get("cuda_compute_capabilities")
        silent = Unknown("failed", "this release's build_info does not name them", (source.where,))
        return replace(
            cpu_build(self.name, distribution, source),
            cuda_build=Known(True, source),
            cuda_version=Known(cuda, source) if cuda else linked_version("libcudart.so.", libraries),
            cudnn_version=Known(cudnn, source) if cudnn else linked_version("libcudnn.so.", libraries),
            compute_capabilities=Known(tuple(map(str, capabilities)), source) if capabilities else silent,
            libraries=libraries,
            runpath=runpath,
        )

    def smoke_script(self, version: str) -> str:
        """Name the script: sessions and graphs of TensorFlow 1 have their own."""
        return "check_tensorflow1" if version.split(".", maxsplit=1)[0] in {"0", "1"} else "check_tensorflow2"

    def smoke_variables(self, environment: Mapping[str, str], *, on_cpu: bool) -> Dict[str, str]:
        """Let it log all, for its log says where operations ran."""
        return {"TF_CPP_MIN_LOG_LEVEL": "0"}


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


FRAMEWORK = TensorFlow
