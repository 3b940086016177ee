"""Describe a stand-in GPU host: what its kernel, its driver's libraries and its tools say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class FakeGpu:
    """One GPU, as PCI, /proc/driver/nvidia and the stand-in libraries show it."""

    name: str = "NVIDIA A100-SXM4-40GB"
    device_id: str = "20b0"
    capability: str = "8.0"
    pci: str = "0000:07:00.0"
    uuid: str = "GPU-00000000-0000-0000-0000-000000000001"
    memory_mib: int = 40960
    used_mib: int = 3
    reserved_mib: int = 0  # by the driver: used, too, for those that ask NVML as before driver 510
    bound_to: str | None = "nvidia"  # kernel driver: nvidia, nouveau, vfio-pci, None
    mig: bool | None = None  # None: the GPU has no MIG
    mig_devices: Sequence[str] = ()
    processes: Sequence[tuple[int, str, int]] = ()  # pid, name, MiB
    compute_mode: int = 0
    lost: int = 0  # NVML code when its handle is asked for; 15: GPU is lost
    lost_when: str = "/nowhere"  # a file: once it is there, the GPU is lost
    minor: int | None = None  # of /dev/nvidia<minor>; None: its index
    utilization: int = 0  # percent
    temperature: int = 33  # degrees Celsius
    power_watts: float = 51.0
    # REMAP_PENDING: "1", RECOVERY_ACTION: "E4" ...; see nvml.c
    health: Mapping[str, str] = field(default_factory=dict)


A100 = FakeGpu()
TWO_A100 = (A100, FakeGpu(pci="0000:0a:00.0", uuid="GPU-00000000-0000-0000-0000-000000000002"))


@dataclass(frozen=True)
class GpuHost:
    """A stand-in GPU host; the defaults are a healthy machine with two A100 and driver 550.163.01."""

    driver: str = "550.163.01"  # user side: the version of libcuda and libnvidia-ml
    kernel_driver: str | None = "same"  # version of the loaded module; None: no module is loaded
    open_module: bool = False
    cuda: int = 12040  # CUDA driver version as cuDriverGetVersion says it
    gpus: Sequence[FakeGpu] = TWO_A100
    libraries: bool = True  # whether the driver's libraries are installed
    # under /usr, where they lie; "": the multiarch folder on the loader's path
    library_folder: str = ""
    uvm: bool = True  # nvidia_uvm loaded and /dev/nvidia-uvm there
    nodes: bool = True  # /dev/nvidia0 and nvidiactl there
    node_mode: int = 0o666
    nouveau: bool = False  # nouveau loaded instead
    nvml_init: int | None = None  # None: what follows from the rest
    cuda_init: int | None = None
    nvidia_smi: Path | None = None  # a real one
    hide_toolkit: bool = True  # hide /usr/local/cuda* and the nvcc of this machine
    files: Mapping[str, str | Path] = field(default_factory=dict)  # path: text or a file to copy
    # name in /usr/bin -> shell script body
    programs: Mapping[str, str] = field(default_factory=dict)
    # NVML_HANG, NVML_CRASH, CUDA_HANG, CUDA_CRASH
    misbehave: Mapping[str, int] = field(default_factory=dict)

    @property
    def loaded_version(self) -> str | None:
        """Return the version of the loaded kernel module."""
        if self.nouveau:
            return None
        return self.driver if self.kernel_driver == "same" else self.kernel_driver

    def environment(self) -> dict[str, str]:
        """Return the variables that the stand-in libraries answer from."""
        values = {
            "STANDIN_GPUS": str(len(self.gpus)),
            "STANDIN_DRIVER": self.driver,
            "STANDIN_CUDA": str(self.cuda),
            "STANDIN_NVML_INIT": str(self._nvml_init()),
            "STANDIN_CUDA_INIT": str(self._cuda_init()),
            **{f"STANDIN_{name}": str(value) for name, value in self.misbehave.items()},
        }
        for index, gpu in enumerate(self.gpus):
            values.update(
                {f"STANDIN_GPU{index}_{name}": value for name, value in _gpu_values(gpu).items()}
            )
        return values

    def _nvml_init(self) -> int:
        if self.nvml_init is not None:
            return self.nvml_init
        if self.loaded_version is None:
            return 9  # driver not loaded
        return 0 if self.loaded_version == self.driver else 18  # driver/library version mismatch

    def _cuda_init(self) -> int:
        if self.cuda_init is not None:
            return self.cuda_init
        if self.loaded_version is None or not self.gpus:
            return 100  # no device
        if self.loaded_version != self.driver:
            return 803  # system driver mismatch
        return 0 if self.uvm and self.nodes else 999  # unknown


def _gpu_values(gpu: FakeGpu) -> dict[str, str]:
    values = {
        "NAME": gpu.name,
        "UUID": gpu.uuid,
        "PCI": gpu.pci,
        "DEVICE": f"0x{gpu.device_id}",
        "CAPABILITY": gpu.capability,
        "MEMORY_MIB": str(gpu.memory_mib),
        "USED_MIB": str(gpu.used_mib),
        "RESERVED_MIB": str(gpu.reserved_mib),
        "COMPUTE_MODE": str(gpu.compute_mode),
        "LOST": str(gpu.lost),
        "LOST_WHEN": gpu.lost_when,
        **({} if gpu.minor is None else {"MINOR": str(gpu.minor)}),
        **gpu.health,
        "UTILIZATION": str(gpu.utilization),
        "TEMPERATURE": str(gpu.temperature),
        "POWER_MW": str(round(gpu.power_watts * 1000)),
        "MIG_DEVICES": ",".join(gpu.mig_devices),
        "PROCESSES": ",".join(f"{pid}:{name}:{mib}" for pid, name, mib in gpu.processes),
    }
    return values if gpu.mig is None else {**values, "MIG": str(int(gpu.mig))}
