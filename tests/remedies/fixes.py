"""Records of each kind of fix, for tests that look at all of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, get_type_hints

from envcheck.model import Fix, fixes, list_fields, replace

# What stands in a field of that name, or in that field of one record alone.
WORDS = {
    "action": "reset",
    "advice": "Then start again.",
    "architecture": "aarch64",
    "capability": "8.9",
    "codes": ("79",),
    "cuda": "12.6",
    "distribution": "torch",
    "driver": "550.163.01",
    "file": "/env/lib/a.pth",
    "floor": "535",
    "folder": "/opt/old/lib",
    "folders": ("/opt/old/lib", "/home/me/src"),
    "framework": "torch",
    "framework_label": "cu118",
    "grammar": "0, 1",
    "gpu": "0",
    "highest": "12.3",
    "index": "0",
    "instead_of": "/usr/local/cuda-12.4",
    "instructions": ("avx",),
    "kept": "opencv-python",
    "kernel": "570.86.10",
    "kind": "open",
    "label": "cu126",
    "lacks": ("_ctypes", "_lzma"),
    "libraries": "550.54.14",
    "library": "libGL.so.1",
    "lines": ("12.6", "12.4", "11.8"),
    "links": ("/env/lib/nvidia/cudnn/lib/libcudnn.so.9",),
    "lowest": "6",
    "minor": "3.11",
    "modules": "torch",
    "name": "flash-attn",
    "names": ("opencv-python", "opencv-contrib-python"),
    "newer": "triton 3.6",
    "node": "/dev/nvidia-uvm",
    "other_release": "torch==2.6.0",
    "others": ("numpy<2",),
    "owner": "torchvision==0.20.0",
    "package": "torchaudio==2.7.1",
    "packages": ("nvidia-driver-550", "libnvidia-compute-550"),
    "path": "/home/me/src/torch.py",
    "pci": "0000:3b:00",
    "pid": "4711",
    "present": "13.2.0",
    "pythons": ("3.9", "3.10", "3.11", "3.12"),
    "reached": "/env/lib/tensorflow",
    "recovery": "Drain and Reset",
    "repository": "debian12",
    "machine": "x86_64",
    "release": "2.7.1+cu126",
    "removed": ("nvidia-cudnn-cu11",),
    "requirement": "torch==2.5.1+cu124",
    "requirements": ("numpy<2", "torchvision==0.22.1"),
    "root": "/usr/local/cuda-12.6",
    "sentence": "Ask for help.",
    "site_packages": "/env/lib/python3.11/site-packages",
    "tool": "uv",
    "toolkit": "/usr/local/cuda-11.8",
    "torch_cuda": "12.6",
    "unneeded_by": "torch 2.7.1",
    "uuid": "MIG-1",
    "value": "1",
    "variable": "TRITON_PTXAS_PATH",
    "version": "9.1.0",
    "BoundCudnn.requirement": "torch==2.7.1",
    "ChangeVariable.name": "TF_CPP_MIN_LOG_LEVEL",
    "InstallCudaLibraries.index": "https://download.pytorch.org/whl/cu126",
    "MatchInstalledFramework.name": "xformers",
    "InstallRequiredRelease.framework": "tensorflow",
    "InstallRequiredRelease.name": "numpy",
    "InstallRequirements.index": "https://download.pytorch.org/whl/cu130",
    "InstallTensorrt.framework": "tensorflow",
    "InstallTensorrt.release": "2.15.0",
    "MatchCudaOfPackage.framework": "torch==2.7.1",
    "MatchCudaOfPackage.name": "torchaudio",
    "NameLibdevice.path": "/opt/cuda/nvvm/libdevice.10.bc",
    "ReplaceBundledPtxas.path": "/usr/local/cuda-12.6/bin/ptxas",
    "ReplaceLabelledBuild.framework": "torch 2.7.1+cu118",
    "RestoreKeras2.framework": "tensorflow",
    "UseNewerGlibc.version": "2.34",
}
# Further values of a field, each in a record of its own.
OTHERS: dict[str, tuple[Any, ...]] = {
    "capability": ("3.7", "12.0", "99.0"),
    "cuda": ("11.2", "12", "13.0", "99.9"),
    "distribution": ("tensorflow", "vllm"),
    "floor": ("580.65.06", "999"),
    "framework": ("tensorflow", "jax", "onnxruntime"),
    "instructions": (("avx512f",),),
    "AvoidReportedFailure.sentence": (),
    "ChangeVariable.name": ("CUDA_VISIBLE_DEVICES", "PYTHONPATH"),
    "ExposeCudaWheels.links": (("/env/a b'c.so",),),
    "FollowXid.codes": (
        ("13",),
        ("31",),
        ("43",),
        ("48",),
        ("63",),
        ("74",),
        ("94",),
        ("119",),
        ("154",),
        ("0",),
    ),
    "FollowXid.recovery": ("Node Reboot Required",),
    "InstallCudnn.cuda": ("11.2",),
    "InstallCudnn.framework": ("tensorflow", "onnxruntime"),
    "InstallCudnn.distribution": (),
    "InstallDriver.cuda": (),
    "InstallDriver.framework": ("tensorflow",),
    "InstallDriver.distribution": ("vllm",),
    "InstallCudnn.version": ("8.9.7", "8.1", "9"),
    "MatchInstalledFramework.name": (
        "torchvision",
        "torchaudio",
        "keras",
        "sgl-kernel",
        "mamba-ssm",
        "unheard-of",
    ),
    "MatchInstalledFramework.framework": ("tensorflow",),
    "MatchInstalledFramework.release": ("2.7.1+cu118", "2.3.0", "2.15.0", "2.5.1+cpu", "0.0.1"),
    "InstallKernelModule.kind": ("proprietary",),
    "InstallOlderCudnn.version": ("8.9.7",),
    "InstallProjectsBuild.name": ("", "unheard-of", "mamba-ssm"),
    "InstallRequirements.requirements": (("numpy>=2", "scipy"), ("not a; requirement",)),
    "InstallTensorrt.release": ("2.11.0",),
    "InstallToolkit.distribution": (),
    "InstallTogether.requirements": (("python>=3.12,<3.13.0a0", "torch==2.7.1"),),
    "InstallTogether.tool": ("uv pip", "poetry", "pdm", "conda"),
    "InstallVisualStudio.highest": ("19.29", "19.49", "19.00"),
    "InstallSystemLibrary.library": ("libavcodec.so.58", "libunheard.so"),
    "MatchDriverParts.kernel": ("535.54.03",),
    "NameLibdevice.path": ("/usr/local/cuda-12.6/nvvm/libdevice/libdevice.10.bc",),
    "RebuildExtension.name": (
        "mamba-ssm",
        "torch-scatter",
        "llama-cpp-python",
        "deepspeed",
        "torchaudio",
        "unheard-of",
    ),
    "RemoveForwardCompatibility.folder": ("/usr/local/cuda/compat",),
    "RenameShadow.path": ("/usr/lib/torch.py", "C:\\src\\torch.py", "/tmp/a'b/torch.py"),
    "ReinstallFiles.requirements": (
        ("torch==2.7.1+cu126", "numpy==2.1", "scipy==1.15", "pip==24.0"),
    ),
    "ServiceGpu.action": (
        "power-cycle",
        "reboot",
        "replace",
        "drain",
        "cool",
        "watch",
        "log",
        "pending",
        "nvlink",
        "sanitize",
        "inforom",
        "switches",
    ),
    "ServiceGpu.index": ("0000:3b:00.0", ""),
    "StartFabricManager.driver": ("580.65.06", ""),
    "TrustRepository.repository": ("debian10", "nvidia-container-toolkit"),
    "UseNewerGlibc.version": ("2.28", "2.99", ""),
    "UseOtherCompiler.cuda": (),
    "UseOtherCompiler.highest": ("13.2", "10"),
    "UseNewerPtxas.capability": (),
    "UseNewerPtxas.cuda": ("11.2",),
    "UseNewerPtxas.distribution": (),
    "UseOtherPython.pythons": (("3.7",), ("3.8", "3.9")),
    "UseOtherPlatform.framework": ("tensorflow",),
}


def kinds_of_fixes() -> list[type[Fix]]:
    """List every record of `envcheck.model.fixes`."""
    kinds = [each for each in vars(fixes).values() if isinstance(each, type)]
    return sorted(
        (each for each in kinds if issubclass(each, Fix) and hasattr(each, "__record_fields__")),
        key=lambda kind: (kind.subject, kind.__name__),
    )


def samples(kind: type[Fix]) -> Iterator[Fix]:
    """Make a record with all its fields filled, and one with those alone that it cannot do without."""
    filled = _fill(kind)
    needed = {name: value for name, value in filled.items() if not hasattr(kind, name)}
    assert set(filled) == set(list_fields(kind))
    yield kind(**filled)
    if needed != filled:
        yield kind(**needed)


def variants(kind: type[Fix]) -> Iterator[Fix]:
    """Make the samples, and records of which one field is another.

    Of the full one each field, of the short one those alone that it cannot do without.
    """
    full, *short = samples(kind)
    names = list_fields(kind)
    needed = [name for name in names if not hasattr(kind, name)]
    others = (_change(full, name) for name in names)
    further = (_change(sample, name) for sample in short for name in needed)
    yield from dict.fromkeys((full, *short, *itertools.chain(*others, *further)))


def _change(sample: Fix, name: str) -> Iterator[Fix]:
    kind = type(sample)
    value = getattr(sample, name)
    others: tuple[Any, ...] = (getattr(kind, name),) if hasattr(kind, name) else ()
    if isinstance(value, bool):
        others = (not value,)
    listed = OTHERS.get(f"{kind.__name__}.{name}", OTHERS.get(name, ()))
    for other in (*listed, *others):
        yield replace(sample, **{name: other})


def _fill(kind: type[Fix]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {
        name: True if hint is bool else _word(kind, name)
        for name, hint in hints.items()
        if name != "subject"
    }


def _word(kind: type[Fix], name: str) -> Any:
    return WORDS.get(f"{kind.__name__}.{name}") or WORDS[name]
