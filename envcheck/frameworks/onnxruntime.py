"""ONNX Runtime.

Its CUDA provider is a library of its own: what it needs says which CUDA it was built for.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Tuple

from envcheck.frameworks.base import Framework, RowDraft
from envcheck.frameworks.installed import (
    Inspection,
    cpu_build,
    cuda_build,
    cudnn_required,
    damaged_build,
    linked_version,
    literals,
    lookups,
)
from envcheck.model import (
    Absent,
    Distribution,
    Fact,
    FrameworkBuild,
    Known,
    LibraryLookup,
    Source,
    from_file,
    replace,
)
from envcheck.model.versions import major, major_minor

# from 1.21 on; on Windows the second, too
_INFO = ("capi/build_and_package_info.py", "capi/version_info.py")


class OnnxRuntime(Framework):
    """ONNX Runtime: one module; the distribution for GPUs has the CUDA provider beside it."""

    def collect(self, inspection: Inspection) -> Tuple[FrameworkBuild, ...]:
        """Read the copy in each folder.

        Of several distributions in one, its files tell which came last.
        """
        return tuple(
            self.read_build(inspection, self._written_last(inspection, each))
            for each in self.one_each(inspection.installed)
        )

    def _written_last(self, inspection: Inspection, distribution: Distribution) -> Distribution:
        named = _read_info(inspection, distribution).get("package_name", distribution.name)
        there = (
            each
            for each in inspection.installed.named((named,))
            if each.location == distribution.location
        )
        return next(there, distribution)

    def read_build(self, inspection: Inspection, distribution: Distribution) -> FrameworkBuild:
        """Read whether the CUDA provider lies beside the module, and what it needs."""
        folder = f"{distribution.location}/onnxruntime"
        status = inspection.host.status(f"{folder}/capi")
        if isinstance(status, Absent):
            lost = f"{folder}/capi is missing"
            return damaged_build(self.name, distribution, lost, status.tried)
        paths = [f"{folder}/{name}" for name in self.files.linking]
        provider = next(
            (path for path in paths if isinstance(inspection.host.status(path), Known)), ""
        )
        info = _read_info(inspection, distribution)
        # A build for the CPU that was installed over one for GPUs leaves that one's provider, and
        # does not offer it.
        if not provider or ("package_name" in info and "cuda_version" not in info):
            return cpu_build(
                self.name, distribution, Source("file", f"{folder}/capi", "no CUDA provider")
            )
        return self._cuda_build(inspection, distribution, provider, info)

    def _cuda_build(
        self,
        inspection: Inspection,
        distribution: Distribution,
        provider: str,
        info: Mapping[str, Any],
    ) -> FrameworkBuild:
        source = Source("file", provider)
        cuda = major_minor(str(info.get("cuda_version", "")))
        major, _ = _cudnn_asked(distribution)
        # Newer providers open cuDNN at the first operation that takes it, and serve all others
        # without.
        opens = ((f"libcudnn.so.{major}", False),) if major else ()
        libraries, runpath = lookups(inspection.search, [inspection.search.caller(provider, opens)])
        cuda_version = _cut_to_major(linked_version("libcudart.so.", libraries))
        if cuda:
            cuda_version = _state_cuda(distribution, cuda)
        return cuda_build(
            self.name,
            distribution,
            source,
            cuda_version=cuda_version,
            cudnn_version=_cudnn_version(distribution, info, libraries),
            libraries=libraries,
            runpath=runpath,
        )

    def draft(self, row: RowDraft) -> None:
        """State what the wheel's own texts and its extras say.

        What its libraries need, `--deep` reads.
        """
        info: Dict[str, Any] = {}
        for name in _INFO:
            stated = row.constants(f"onnxruntime/{name}")
            if stated:
                row.cite(f"onnxruntime/{name}")
            info.update(stated)
        self._add_cuda_build(row, info)
        if row.cells["cuda_build"]:
            cuda = major_minor(str(info.get("cuda_version", "")))
            row.cells.update(cuda=cuda or None, compute_capabilities=[], tensorrt=None)
            if not cuda:
                row.say("cuda", "CUDA was not read.", gap=True)
            _add_extras(row)
            _add_cudnn(row, str(info.get("cudnn_version", "")))
            row.say("compute_capabilities", "Compute capabilities were not read.", gap=True)
            row.say("tensorrt", "TensorRT was not read.", gap=True)
        row.add_glibc()

    def _add_cuda_build(self, row: RowDraft, info: Mapping[str, Any]) -> None:
        is_for_cpu = row.distribution not in self.plans.gpu_distributions
        if info.get("cuda_version") or info.get("use_cuda") is False or is_for_cpu:
            row.cells["cuda_build"] = bool(info.get("cuda_version"))
        else:
            row.infer("cuda_build", value=True)
            row.say(
                "cuda_build",
                "The wheel states nothing about CUDA; told by the distribution's name.",
                gap=True,
            )

    def binary_cells(self, binaries: Mapping[str, Any]) -> Dict[str, Any]:
        """Tell the majors of CUDA, cuDNN and TensorRT by the libraries that its providers need."""
        needed = [name for item in binaries.values() for name in item.get("needed", ())]
        kinds = {"cuda": "cudart", "cudnn": "cudnn", "tensorrt": "nvinfer"}
        return {
            cell: major for cell, kind in kinds.items() for major in _list_majors(needed, kind)[:1]
        }


def _read_info(inspection: Inspection, distribution: Distribution) -> Dict[str, Any]:
    """Read what its own texts say.

    package_name, cuda_version ("12.8", on Windows "12.8.93"), cudnn_version ("9").
    """
    found: Dict[str, Any] = {}
    for name in _INFO:
        text = inspection.host.read_text(f"{distribution.location}/onnxruntime/{name}").value or ""
        try:
            found.update(literals(text))
        except (SyntaxError, ValueError):
            continue
    return found


def _state_cuda(distribution: Distribution, cuda: str) -> Fact[str]:
    where = f"{distribution.location}/onnxruntime/{_INFO[0]}"
    return from_file(cuda, where, f"cuda_version = {cuda!r}")


def _cut_to_major(fact: Fact[str]) -> Fact[str]:
    """Cut what a soname tells to its major: libcudart.so.11.0 is that of every CUDA 11."""
    if isinstance(fact, Known):
        return replace(fact, value=fact.value.split(".")[0])
    return fact


def _cudnn_version(
    distribution: Distribution, info: Mapping[str, Any], libraries: Fact[Tuple[LibraryLookup, ...]]
) -> Fact[str]:
    """Take what the extra asks for, else the linked soname, else what Windows' text says."""
    major, line = _cudnn_asked(distribution)
    if major:
        return from_file(major, distribution.location, line)
    linked = linked_version("libcudnn.so.", libraries)
    if isinstance(linked, Known):
        return linked
    stated = str(info.get("cudnn_version", ""))
    where = Source(
        "file", f"{distribution.location}/onnxruntime/{_INFO[1]}", f"cudnn_version = {stated!r}"
    )
    return Known(stated, where) if stated else linked


def _cudnn_asked(distribution: Distribution) -> Tuple[str, str]:
    """Return the cuDNN major that the extra asks for, with the line that says it."""
    version, line = cudnn_required(distribution.requires, "~=", ">=", "==")
    return major(version), line


def _add_extras(row: RowDraft) -> None:
    """List the extras that bring NVIDIA's wheels.

    It loads those only for a program that calls preload_dlls().
    """
    pins = [
        need for need in row.needs if need.extra and need.name.startswith("nvidia-") and need.here
    ]
    extras = sorted({need.extra for need in pins})
    if extras:
        row.cells.update(
            extras=extras, gpu_extra=",".join(extras), cuda_wheels=[need.text for need in pins]
        )
    row.infer("finds_cuda_wheels", value=False)


def _add_cudnn(row: RowDraft, stated: str) -> None:
    """State the cuDNN major that the wheel names, or that its extra asks for."""
    asked = (
        re.search(r"[~>=]=(\d+)", need.text)
        for need in row.needs
        if need.name.startswith("nvidia-cudnn")
    )
    major = stated or next((found[1] for found in asked if found), "")
    row.cells["cudnn"] = major or None
    if not major:
        row.say("cudnn", "cuDNN was not read.", gap=True)
    else:
        row.say("cudnn", f"{'The wheel' if stated else 'Its extra'} names the cuDNN major only.")


def _list_majors(names: List[str], kind: str) -> List[str]:
    """List the majors of one library among those needed: libcudart.so.11.0 -> 11."""
    found = (
        re.match(rf"(?:lib{kind}\.so\.(\d+)|{kind}(?:64)?_(\d+)\.dll$)", name) for name in names
    )
    numbers = [match.group(1) or match.group(2) for match in found if match]
    return sorted({number[:2] if kind == "cudart" else number for number in numbers})


FRAMEWORK = OnnxRuntime
