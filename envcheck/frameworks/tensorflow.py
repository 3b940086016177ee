"""TensorFlow 1 and 2."""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Tuple

from envcheck.frameworks.base import Framework, RowDraft
from envcheck.frameworks.installed import (
    Inspection,
    cpu_build,
    cuda_build,
    damaged_build,
    linked_version,
    literals,
    lookups,
    make_build,
    opened_names,
    parse_conda_build,
    with_names,
)
from envcheck.host.protocol import Variables
from envcheck.model import (
    Absent,
    Distribution,
    Fact,
    FrameworkBuild,
    Known,
    Source,
    Unknown,
    canonical_name,
    major,
)
from envcheck.model.versions import cuda_of_digits, major_minor

_BUILD_INFO = "python/platform/build_info.py"
_EMPTY = 40  # members; an empty wheel has some five, the smallest real one thousands
# no TensorFlow themselves
_PARTS = ("tensorflow-estimator", "tensorflow_estimator", "tensorflow-io", "tensorflow_io")


class TensorFlow(Framework):
    """TensorFlow: one module under many names of distributions."""

    def distribution_in_image(self, version: str, *, for_gpu: bool) -> str:
        """Name the distribution: TensorFlow 1 had one of its own for GPUs."""
        if for_gpu and version.startswith("1."):
            return "tensorflow-gpu"
        return self.name

    def read_build(self, inspection: Inspection, distribution: Distribution) -> FrameworkBuild:
        """Read build_info.py, conda's build string, or what the libraries link."""
        folder, text = self._build_info(inspection, distribution)
        if isinstance(text, Unknown):
            return make_build(self.name, distribution, text)
        if isinstance(text, Absent):
            return self._without_build_info(inspection, distribution, folder, text)
        info = parse_build_info(text.value)
        source = Source("file", text.source.where, f"is_cuda_build = {info.get('is_cuda_build')}")
        if not isinstance(info.get("is_cuda_build"), bool):
            reason = Unknown(
                "unparsable",
                f"{source.where} does not say whether it is a CUDA build",
                (source.where,),
            )
            return make_build(self.name, distribution, reason)
        if not info["is_cuda_build"]:
            return cpu_build(self.name, distribution, source)
        return self._cuda_build(inspection, distribution, folder, info, source)

    def _build_info(
        self, inspection: Inspection, distribution: Distribution
    ) -> Tuple[str, Fact[str]]:
        folder, tried = "", []
        for package in reversed(self.files.packages):  # tensorflow_core (1.15, 2.0) holds it alone
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
            lost = f"{folder} is missing"
            return damaged_build(self.name, distribution, lost, absent.tried)
        source = source if stated else Source("file", folder)
        files = [inspection.search.caller(f"{folder}/{name}").value for name in self.files.linking]
        if not stated and any(files) and not any(file.wanted for file in files if file):
            return cpu_build(self.name, distribution, source)
        return self._cuda_build(
            inspection, distribution, folder, {"cuda_version": stated.get("cuda", "")}, source
        )

    def _cuda_build(
        self,
        inspection: Inspection,
        distribution: Distribution,
        folder: str,
        info: Mapping[str, Any],
        source: Source,
    ) -> FrameworkBuild:
        minor = major_minor(distribution.version)
        cuda = str(info.get("cuda_version", ""))
        cuda = cuda if "." in cuda else self.files.full_cuda_version.get(minor, cuda)
        cudnn = str(info.get("cudnn_version", ""))
        opens = opened_names(self, cuda, cudnn)
        callers = [
            inspection.search.caller(
                f"{folder}/{name}", opens if name in self.files.opening else ()
            )
            for name in self.files.linking
        ]
        libraries, runpath = lookups(inspection.search, callers)
        capabilities = info.get("cuda_compute_capabilities")
        silent = Unknown("failed", "this release's build_info does not name them", (source.where,))
        cuda_version = linked_version("libcudart.so.", libraries)
        if cuda:
            cuda_version = Known(cuda, source)
        cudnn_version = linked_version("libcudnn.so.", libraries)
        if cudnn:
            cudnn_version = Known(cudnn, source)
        code: Fact[Tuple[str, ...]] = silent
        if capabilities:
            code = Known(tuple(map(str, capabilities)), source)
        return cuda_build(
            self.name,
            distribution,
            source,
            cuda_version=cuda_version,
            cudnn_version=cudnn_version,
            libraries=with_names(libraries),
            runpath=runpath,
            compute_capabilities=code,
        )

    def draft(self, row: RowDraft) -> None:
        """State what build_info.py says, and the extra that brings CUDA."""
        if row.entries < _EMPTY:
            _describe_stub(row)
            return
        facts = row.constants("platform/build_info.py")
        if facts:
            row.cite("build_info.py")
        if facts.get("is_rocm_build") or row.distribution.endswith("-rocm"):
            row.say("cuda_build", "A ROCm build: for AMD GPUs.")
        _add_compiler(row, facts)
        _add_cuda_build(row, facts)
        if row.cells["cuda_build"]:
            _add_cuda(row, facts)
            _add_extra(row)
            _add_cudnn(row, facts)
            _add_tensorrt(row, facts)
            _add_architectures(row, facts)
        row.add_glibc()

    def smoke_script(self, version: str) -> str:
        """Name the script: sessions and graphs of TensorFlow 1 have their own."""
        if major(version) in {"0", "1"}:
            return "check_tensorflow1"
        return "check_tensorflow2"

    def smoke_variables(self, environment: Variables, *, on_cpu: bool) -> Dict[str, str]:
        """Let it log all, for its log says where operations ran."""
        return {"TF_CPP_MIN_LOG_LEVEL": "0"}


def _describe_stub(row: RowDraft) -> None:
    """Say which distribution an empty wheel requires in its stead."""
    members = [need for need in row.needs if need.name.startswith("tensorflow")]
    here = [need for need in members if need.here and not need.extra] or members
    names = (canonical_name(need.name) for need in here if not need.name.startswith(_PARTS))
    name = next(names, None)
    if name is None:
        row.say("stub_for", "An empty wheel.")
        return
    row.cells["stub_for"] = name
    remark = f"An empty wheel that requires {name}."
    if name == row.distribution:
        remark = "An empty wheel that requires only itself, so it brings no TensorFlow."
    row.say("stub_for", remark)


def _add_compiler(row: RowDraft, facts: Mapping[str, Any]) -> None:
    """State the compiler that build_info names: .../llvm-18/bin/clang, .../14.29.30133/...

    The path of a GCC says nothing: 2.3 to 2.6 name gcc-5, and their binaries are of GCC 7.3.1.
    """
    stated = facts.get("cpu_compiler")
    found = re.search(
        r"llvm-(?P<clang>\d+)/|^clang (?P<bare>\d+)$|MSVC/(?P<msvc>\d+\.\d+)", str(stated)
    )
    if found is None:
        row.cells["compiler"] = None
        row.say("compiler", "The compiler was not read.", gap=True)
    elif found["msvc"]:
        row.cells["compiler"] = f"MSVC {found['msvc']}"
    else:
        row.cells["compiler"] = f"clang {found['clang'] or found['bare']}"


def _add_tensorrt(row: RowDraft, facts: Mapping[str, Any]) -> None:
    """State that TensorRT was left out; where it is in, build_info does not say which."""
    if facts.get("is_tensorrt_build") is False:
        row.cells["tensorrt"] = "none"
    else:
        row.cells["tensorrt"] = None
        row.say("tensorrt", "TensorRT was not read.", gap=True)


def _add_cuda_build(row: RowDraft, facts: Mapping[str, Any]) -> None:
    stated = facts.get("is_cuda_build")
    if stated is None:
        row.infer("cuda_build", row.distribution.endswith("-gpu"))
        row.say(
            "cuda_build",
            "The wheel states nothing about CUDA; told by the distribution's name.",
            gap=True,
        )
    else:
        row.cells["cuda_build"] = bool(stated)


def _add_cuda(row: RowDraft, facts: Mapping[str, Any]) -> None:
    """State the CUDA version, or only its major where build_info says no more."""
    version = _read_version(facts.get("cuda_version") or facts.get("cuda_version_number"))
    row.cells["cuda"] = version or None
    if not version:
        row.say("cuda", "CUDA was not read.", gap=True)
    elif "." not in version:
        row.say("cuda", f"build_info names CUDA {version} only.")


def _add_cudnn(row: RowDraft, facts: Mapping[str, Any]) -> None:
    """State the extra's cuDNN minor if build_info names the same major, else the major."""
    stated = _read_version(facts.get("cudnn_version") or facts.get("cudnn_version_number"))
    pins = [pin for pin in row.cells.get("cuda_wheels", ()) if pin.startswith("nvidia-cudnn")]
    bound = re.search(r"[=>]=(\d+\.\d+)", pins[0]) if pins else None
    pinned = bound[1] if bound else ""
    if pinned and stated in {"", major(pinned)}:
        row.cells["cudnn"] = pinned
        return
    row.cells["cudnn"] = stated or None
    if stated:
        row.say("cudnn", f"build_info names cuDNN {stated} only.")
    else:
        row.say("cudnn", "cuDNN was not read.", gap=True)


def _add_extra(row: RowDraft) -> None:
    """List the extra that brings NVIDIA's wheels, and those it brings here."""
    bringing = sorted(
        {need.extra for need in row.needs if need.extra and need.name.startswith("nvidia-cudnn")}
    )
    found = False
    if bringing and row.platform == "linux_x86_64":
        wheels = [need.text for need in row.needs if need.extra == bringing[0] and need.here]
        row.cells.update(gpu_extra=bringing[0], extras=bringing, cuda_wheels=wheels)
        row.say(
            "finds_cuda_wheels", "That it finds the wheels of its extra was not read.", gap=True
        )
        found = True
    row.infer("finds_cuda_wheels", found)


def _add_architectures(row: RowDraft, facts: Mapping[str, Any]) -> None:
    stated = facts.get("cuda_compute_capabilities") or []
    targets = [
        item
        for item in stated
        if isinstance(item, str) and re.fullmatch(r"(sm|compute)_\d{2,3}[af]?", item)
    ]
    row.cells["compute_capabilities"] = list(dict.fromkeys(targets))
    if not targets:
        row.say("compute_capabilities", "Compute capabilities were not read.", gap=True)


def _read_version(stated: Any) -> str:
    """Read a version as build_info states it, in the names of Windows' libraries too.

    "12.5.1", "64_112" of cudart64_112.dll -> "11.2", "64_8" -> "8".
    """
    text = stated[stated.startswith("64_") and 3 :] if isinstance(stated, str) else ""
    if not re.fullmatch(r"\d+(\.\d+)*", text):
        return ""
    return text if "." in text else cuda_of_digits(text)


def parse_build_info(text: str) -> Dict[str, Any]:
    r"""Read TensorFlow's build_info.py; cuda_version and cudnn_version come out as "11.2" and "8".

    To 1.14 it says only is_cuda_build; to 2.2 it has module-level names, then a dict, later inside
    a call: 'is_cuda_build = True\n\ncuda_version_number = '10.0'\ncudnn_version_number = '7'\n'
    'build_info = {'cuda_version': '64_101', 'cudnn_version': '64_7', 'is_cuda_build': True}\n'
    'build_info = collections.OrderedDict([('cuda_compute_capabilities', ['sm_60', 'compute_90']),
     ('cuda_version', '12.5.1'), ('cudnn_version', '9'), ('is_cuda_build', True)])\n'
    """
    try:
        names = literals(text)
        info = dict(names.get("build_info", names))
    except (SyntaxError, ValueError, TypeError):
        return {}
    for key, old_key in (
        ("cuda_version", "cuda_version_number"),
        ("cudnn_version", "cudnn_version_number"),
    ):
        info[key] = _read_version(info.pop(old_key, info.get(key, "")))
    return info


FRAMEWORK = TensorFlow
