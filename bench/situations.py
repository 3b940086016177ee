"""Draw situations: a release of PyTorch or TensorFlow in an image, a driver, a GPU, one fault or none.

They come from the data file and from public documents, not from the rules. `bench/same_answer.py`
puts each as a machine, a snapshot, a file and a log.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
MATRIX = json.loads((ROOT / "data/compat_matrix.json").read_text(encoding="utf-8"))
SONAMES = json.loads((ROOT / "data/nvidia/cuda_libraries.json").read_text(encoding="utf-8"))[
    "sonames"
]
SITE = "/opt/venv/lib/python{}/site-packages"

GPUS = {  # the products by the names that nvidia-smi prints: compute capability, PCI id, MiB
    "Tesla K80": ("3.7", "102d", 11441),
    "NVIDIA GeForce GTX 1080 Ti": ("6.1", "1b06", 11264),
    "Tesla P100-PCIE-16GB": ("6.0", "15f8", 16384),
    "Tesla V100-SXM2-16GB": ("7.0", "1db1", 16384),
    "Tesla T4": ("7.5", "1eb8", 15360),
    "NVIDIA A100-SXM4-40GB": ("8.0", "20b0", 40960),
    "NVIDIA GeForce RTX 3090": ("8.6", "2204", 24576),
    "NVIDIA GeForce RTX 4090": ("8.9", "2684", 24564),
    "NVIDIA L4": ("8.9", "27b8", 23034),
    "NVIDIA H100 80GB HBM3": ("9.0", "2330", 81559),
    "NVIDIA B200": ("10.0", "2901", 183359),
    "NVIDIA GeForce RTX 5090": ("12.0", "2b85", 32607),
}
DRIVERS = (  # published releases
    "470.256.02", "510.108.03", "515.105.01", "525.147.05", "535.183.01", "545.29.06", "550.127.05",
    "560.35.05", "570.133.20", "575.57.08", "580.95.05",
)  # fmt: skip


@dataclass(frozen=True)
class Image:
    """A public base image, and what its name says it holds."""

    name: str
    system: str
    glibc: str
    python: str
    cuda: str = ""
    cudnn: str = ""  # its release, which the name does not say
    gcc: str = ""


def _cuda_image(tag: str, cudnn: str) -> Image:
    _, _, ubuntu = tag.rpartition("ubuntu")
    python, glibc, gcc = (
        ("3.8", "2.31", "9.4.0") if ubuntu == "20.04" else ("3.10", "2.35", "11.4.0")
    )
    return Image(
        f"nvidia/cuda:{tag}",
        f"ubuntu {ubuntu}",
        glibc,
        python,
        ".".join(tag.split(".")[:2]),
        cudnn,
        gcc,
    )


IMAGES = (
    *(Image(f"python:3.{n}-slim-bookworm", "debian 12", "2.36", f"3.{n}") for n in range(9, 14)),
    _cuda_image("11.2.2-cudnn8-devel-ubuntu20.04", "8.1.1"),
    _cuda_image("11.8.0-cudnn8-devel-ubuntu22.04", "8.9.6"),
    _cuda_image("12.1.1-cudnn8-devel-ubuntu22.04", "8.9.0"),
    _cuda_image("12.4.1-cudnn-devel-ubuntu22.04", "9.1.0"),
    _cuda_image("12.6.3-cudnn-devel-ubuntu22.04", "9.5.1"),
)
CPU, NUMPY, PROTOBUF, NO_LIBRARIES = (
    "cpu build",
    "numpy too new",
    "protobuf too new",
    "library missing",
)
OLD_TOOLKIT, VISION, HIDDEN = "older toolkit first", "other torchvision", "hidden devices"
NO_DRIVER, GCC, PYTHON = "no driver", "gcc too new", "python too new"
OLD_CUDNN = "cuDNN too old"  # of the image; no fault that is drawn
# torchvision's pairs
VISIONS = {"2.1": "0.16.0", "2.3": "0.18.0", "2.5": "0.20.0", "2.7": "0.22.0"}


@dataclass(frozen=True)
class Situation:
    """One drawn machine with what is installed on it, or with what somebody wants on it."""

    number: int
    framework: str
    release: str
    row: dict[str, Any]  # of the data file
    image: Image
    driver: str  # "" where none is installed
    gpu: str
    fault: str  # "" for none
    chance: random.Random  # draws what is shown

    @property
    def capability(self) -> str:
        """The compute capability of the GPU."""
        return GPUS[self.gpu][0]

    @property
    def build(self) -> str:
        """The release as the framework prints it: 2.6.0+cu124."""
        if self.framework != "torch":
            return self.release
        label = "cpu" if self.fault == CPU else "cu" + self.row["cuda"].replace(".", "")
        return f"{self.release}+{label}"

    @property
    def distribution(self) -> str:
        """The name under which pip lists the framework."""
        return (
            "tensorflow-cpu"
            if self.framework == "tensorflow" and self.fault == CPU
            else self.framework
        )

    @property
    def has_wheels(self) -> bool:
        """Whether NVIDIA's wheels are installed with it."""
        lacks_extra = self.fault == NO_LIBRARIES and self.framework == "tensorflow"
        return bool(self.row.get("cuda_wheels")) and self.fault != CPU and not lacks_extra

    @property
    def brings(self) -> bool:
        """Whether it finds those wheels."""
        return self.has_wheels and bool(self.row["finds_cuda_wheels"])

    @property
    def sonames(self) -> dict[str, str]:
        """The libraries of CUDA that it loads."""
        cuda = ".".join(self.row["cuda"].split(".")[:2])
        names = SONAMES.get(cuda) or SONAMES[cuda.split(".")[0]]
        wanted = {name: soname for name, soname in names.items() if name not in {"cupti", "nvrtc"}}
        return {**wanted, "cudnn": f"libcudnn.so.{self.row['cudnn'].split('.')[0]}"}

    def finds(self, name: str) -> str:
        """Return the version of the library that the loader finds, "" where it finds none."""
        if name == "cudnn" and self.fault == NO_LIBRARIES and self.framework == "torch":
            return ""  # its wheel was removed
        if self.brings:
            package = {"cudart": "cuda-runtime", "cublasLt": "cublas"}.get(name, name)
            return next(
                version for wheel, version in self.wheels() if f"nvidia-{package}-" in wheel
            )
        if name == "cudnn":
            same = self.image.cudnn.split(".")[0] == self.row["cudnn"].split(".")[0]
            return self.image.cudnn if same else ""
        same = self.image.cuda.split(".")[0] == self.row["cuda"].split(".")[0]
        return self.image.cuda if same else ""

    def all_wheels(self) -> list[tuple[str, str]]:
        """List the CUDA wheels that it requires, each with the release that is named first."""
        found = [
            re.match(r"(nvidia-[\w-]+)[=~>]=([\d.]+)", text)
            for text in self.row.get("cuda_wheels", ())
        ]
        return [(match[1], match[2]) for match in found if match]

    def wheels(self) -> list[tuple[str, str]]:
        """List those that are installed: the fault removes cuDNN's."""
        without = "cudnn" if self.fault == NO_LIBRARIES else "no wheel"
        return [(wheel, version) for wheel, version in self.all_wheels() if without not in wheel]

    def packages(self) -> dict[str, str]:
        """Map what pip lists to its release: the lowest that satisfies, and what the fault installs."""
        if self.fault == PYTHON:
            return {"pip": "24.3.1"}
        # the index's own wheels have no label
        shown = self.build if self.fault == CPU else self.release
        numpy = {"3.8": "1.24.4", "3.13": "2.1.3"}.get(self.image.python, "1.26.4")
        found = {"pip": "24.3.1", self.distribution: shown, "numpy": numpy}
        for name, text in self.row["requires"].items():
            version = re.search(r"[=~>]=([\w.]+)", text)
            if name == "numpy":
                found[name] = _numpy_for(text, found[name])
            elif version and not (name == "triton" and self.fault == CPU):
                found[name] = version[1].replace("rc0", "")
        if self.has_wheels:
            found.update(self.wheels())
        breaks = {NUMPY: ("numpy", "2.1.3"), PROTOBUF: ("protobuf", "4.25.3")}
        breaks[VISION] = ("torchvision", self.other_vision())
        found.update([breaks[self.fault]] if self.fault in breaks else [])
        return found

    def other_vision(self) -> str:
        """Return a torchvision that was built for another PyTorch."""
        mine = ".".join(self.release.split(".")[:2])
        return next(release for torch, release in reversed(VISIONS.items()) if torch != mine)

    def outcome(self) -> str:
        """Name what a program there comes to, by NVIDIA's documents and the data file."""
        if self.fault not in {"", NO_LIBRARIES}:
            return self.fault
        if not all(self.finds(name) for name in self.sonames):
            return NO_LIBRARIES
        if not _runs_on_driver(self.row["cuda"], self.driver):
            return "driver too old"
        if not _has_code(self.row["compute_capabilities"], self.capability):
            return "no code for the GPU"
        if Version(self.finds("cudnn")) < Version(self.row["cudnn"]):
            return OLD_CUDNN
        return "works"

    def has_two_causes(self) -> bool:
        """Whether the driver is too old, and the build has no code for the GPU either."""
        has_code = _has_code(self.row["compute_capabilities"], self.capability)
        return self.outcome() == "driver too old" and not has_code


def _numpy_for(text: str, wanted: str) -> str:
    known = (wanted, "1.26.4", "1.24.3", "1.23.5", "2.0.2", "2.1.3")
    return next(version for version in known if SpecifierSet(text).contains(version))


def _runs_on_driver(cuda: str, driver: str) -> bool:
    """Whether a driver runs a CUDA build, minor-version compatibility included."""
    toolkit = MATRIX["toolkits"][".".join(cuda.split(".")[:2])]
    return Version(driver) >= Version(
        toolkit.get("minor_floor_linux") or toolkit["min_driver_linux"]
    )


def _has_code(targets: list[str], capability: str) -> bool:
    """Whether machine code of the same major, or PTX of an older GPU, is there."""
    mine = Version(capability)
    for target in targets:
        kind, _, digits = target.partition("_")
        other = Version(f"{digits[:-1]}.{digits[-1]}")
        if other <= mine and (kind == "compute" or other.major == mine.major):
            return True
    return False


def _is_disputed(made: Situation) -> bool:
    """Whether PTX of an older generation alone would run: no document says that all libraries do, too."""
    targets = made.row["compute_capabilities"]
    binaries = [target for target in targets if target.startswith("sm_")]
    return _has_code(targets, made.capability) and not _has_code(binaries, made.capability)


def _drives(driver: str, gpu: str) -> bool:
    branch = MATRIX["drivers"][driver.split(".", maxsplit=1)[0]]
    return (
        Version(branch["compute_capability_min"])
        <= Version(GPUS[gpu][0])
        <= Version(branch["compute_capability_max"])
    )


def list_minors(text: str) -> set[str]:
    """Return the minors of a cell such as "2.7 3.5-3.8"."""
    found = set()
    for part in text.split():
        first, _, last = part.partition("-")
        found |= {
            f"3.{n}"
            for n in range(int(first.split(".")[1]), int((last or first).split(".")[1]) + 1)
        }
    return found


def list_releases(framework: str) -> list[tuple[str, dict[str, Any]]]:
    """List the releases to draw from: CUDA builds of the last years for Linux on x86-64."""
    floor = Version("2.0" if framework == "torch" else "2.9")
    wanted = []
    for row in MATRIX["releases"][framework]:
        if row["distribution"] != framework or "linux_x86_64" not in row["platforms"]:
            continue
        wheels = len(row.get("cuda_wheels", ()))
        if row.get("cuda_build") and (wheels > 10 or framework == "tensorflow"):
            wanted += [(release, row) for release in row["releases"] if Version(release) >= floor]
    return wanted


def draw(number: int, chance: random.Random) -> Situation:
    """Draw a situation that can exist: the release has a wheel there, the driver knows the GPU."""
    while True:
        framework = chance.choice(("torch", "torch", "tensorflow"))
        release, row = chance.choice(list_releases(framework))
        fault = "" if chance.random() < 0.4 else chance.choice(_faults(framework, release, row))
        for _ in range(200):  # else a rare fault is drawn seldom
            image, gpu, driver = (
                chance.choice(IMAGES),
                chance.choice(sorted(GPUS)),
                chance.choice(DRIVERS),
            )
            made = Situation(number, framework, release, row, image, driver, gpu, fault, chance)
            if _can_exist(made):
                return replace(made, driver="") if fault == NO_DRIVER else made


def _faults(framework: str, release: str, row: dict[str, Any]) -> list[str]:
    """List the faults that a release can have."""
    found = [CPU, HIDDEN, NO_DRIVER, GCC, PYTHON]
    if row.get("cuda_wheels"):
        found.append(NO_LIBRARIES)
    if framework == "torch":
        found += [VISION, *([NUMPY] if Version(release) < Version("2.3") else [])]
        found += [OLD_TOOLKIT] if Version(row["cuda"]) >= Version("12.4") else []
    if framework == "tensorflow":
        found += [NUMPY] if "<2.0" in row["requires"]["numpy"] else []
        found += [PROTOBUF] if "<3.20" in row["requires"]["protobuf"] else []
    return found


def _can_exist(made: Situation) -> bool:
    """Whether there are wheels for it, the driver knows the GPU, and a fault is the only one."""
    image, fault = made.image, made.fault
    has_wheel = image.python in list_minors(made.row["pythons"])
    if not _drives(made.driver, made.gpu) or has_wheel == (fault == PYTHON) or _is_disputed(made):
        return False
    if fault == PYTHON:
        return Version(image.python) > Version("3.9")
    fits = {
        OLD_TOOLKIT: image.cuda == "12.1",
        GCC: image.cuda in {"11.8", "12.1"},
        VISION: image.python in {"3.9", "3.10", "3.11"},  # every torchvision has a wheel for these
        NO_LIBRARIES: not image.cuda or made.framework == "tensorflow",
    }
    is_alone = not fault or replace(made, fault="").outcome() == "works"
    return fits.get(fault, True) and is_alone
