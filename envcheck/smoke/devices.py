"""Choose the devices that a smoke test runs on."""

from __future__ import annotations

import re

from envcheck.model import Gpu, dataclass
from envcheck.rules.gpu_releases import visible_selection

CPU, GPU, ALL = "cpu", "gpu", "all"
_GIB = 1 << 30


class DeviceError(ValueError):
    """A GPU was asked for that is not there."""


@dataclass
class Device:
    """One thing a process is given: `visible` is what CUDA_VISIBLE_DEVICES shows it."""

    kind: str  # CPU, GPU, ALL
    label: str  # "GPU 0", "CPU"
    visible: str = "-1"
    count: int = 0
    name: str = ""  # NVIDIA A100-SXM4-40GB
    uuid: str = ""
    in_cuda_order: bool = False  # `visible` counts as CUDA does, not as nvidia-smi does
    held: str = ""  # how full other processes hold it, in words; empty where there is room
    pci: str = ""  # 0000:41:00.0
    numbers: str = ""  # `visible` by number, for a driver that takes no UUIDs (WSL, virtual GPUs)
    members: tuple[Device, ...] = ()  # of ALL

    @property
    def title(self) -> str:
        """Name it for people."""
        return f"{self.label} ({self.name})" if self.name else self.label

    @property
    def identity(self) -> str:
        """Name it so that its card can be found: number, product, PCI address and UUID."""
        about = ", ".join(filter(None, (self.name, self.pci, self.uuid)))
        return f"{self.label} ({about})" if about else self.label

    def member(self, name: str) -> Device | None:
        """Return the GPU that a process on this device calls GPU:0, GPU:1 ....

        Return None for what is no GPU of it.
        """
        members = self.members or ((self,) if self.kind == GPU else ())
        kind, _, number = name.partition(":")
        if kind == "GPU" and number.isdigit() and int(number) < len(members):
            return members[int(number)]
        return None

    def rename_gpus(self, text: str) -> str:
        """Write GPU:0, as a process counts what it sees, as the machine's GPU 3."""

        def rename(match: re.Match[str]) -> str:
            found = self.member(match[0])
            return found.label if found else match[0]

        return re.sub(r"\bGPU:\d+", rename, text)


@dataclass
class LeftOut:
    """A GPU that is not tested, and why."""

    label: str
    why: str
    finding: str = ""


@dataclass
class DeviceChoice:
    """The GPUs to test and those left out."""

    devices: tuple[Device, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


CPU_DEVICE = Device(CPU, "CPU")


def choose_devices(
    gpus: tuple[Gpu, ...], visible: str | None, wanted: tuple[str, ...], order: str = ""
) -> DeviceChoice:
    """Choose among `gpus`: those CUDA_VISIBLE_DEVICES (`visible`) shows and --gpu (`wanted`) names.

    `order` is CUDA_DEVICE_ORDER. Raises DeviceError for a GPU that is not there.
    """
    shown, left_out = _visible_gpus(gpus, visible)
    if shown is None:
        return DeviceChoice(
            (Device(GPU, f"CUDA_VISIBLE_DEVICES={visible}", str(visible), 1, in_cuda_order=True),)
        )
    if visible is not None and _is_ambiguous(gpus, visible, order) and not wanted:
        entries = [entry.strip() for entry in visible.split(",")][: len(shown)]
        return DeviceChoice(tuple(map(_in_cuda_order, entries)), tuple(left_out))
    devices: list[Device] = []
    for position in shown:
        instances, reason = _devices_of(position, gpus[position], visible)
        devices += instances
        if reason:
            left_out += [LeftOut(f"GPU {_number_session(position, gpus[position])}", *reason)]
    if wanted:
        devices = list(
            dict.fromkeys(
                found for name in wanted for found in _find_named(name, devices, left_out)
            )
        )
        left_out = []
    return DeviceChoice(tuple(devices), tuple(left_out))


def all_together(devices: tuple[Device, ...]) -> Device | None:
    """Return the device that is all GPUs at once; None where there are not two.

    CUDA shows one MIG instance only.
    """
    whole = [device for device in devices if not device.visible.startswith("MIG-")]
    if len(whole) < 2:
        return None
    visible = ",".join(device.visible for device in whole)
    in_cuda_order = any(device.in_cuda_order for device in whole)
    label = f"all {len(whole)} GPUs"
    numbers = ""
    if all(device.numbers for device in whole):
        numbers = ",".join(device.numbers for device in whole)
    return Device(
        ALL,
        label,
        visible,
        len(whole),
        in_cuda_order=in_cuda_order,
        members=tuple(whole),
        numbers=numbers,
    )


def _visible_gpus(
    gpus: tuple[Gpu, ...], visible: str | None
) -> tuple[tuple[int, ...] | None, list[LeftOut]]:
    if visible is None or not gpus:
        return tuple(range(len(gpus))), []
    selection = visible_selection(visible, gpus)
    if not selection.decided:
        return None, []
    hidden = [position for position in range(len(gpus)) if position not in selection.visible]
    why = f"CUDA_VISIBLE_DEVICES={visible} hides it"
    left_out = [
        LeftOut(f"GPU {_number_session(at, gpus[at])}", why, "visible-devices-hidden")
        for at in hidden
    ]
    return selection.visible, left_out


def _is_ambiguous(gpus: tuple[Gpu, ...], visible: str, order: str) -> bool:
    """Say whether a list's numbers may mean other GPUs to CUDA.

    CUDA puts the fastest kind first.
    """
    kinds = {gpu.name.value for gpu in gpus}
    return (
        len(kinds) > 1
        and order != "PCI_BUS_ID"
        and not any(mark in visible for mark in ("GPU-", "MIG-"))
    )


def _in_cuda_order(entry: str) -> Device:
    return Device(GPU, f"GPU {entry} as CUDA numbers them", entry, 1, in_cuda_order=True)


def _devices_of(
    position: int, gpu: Gpu, visible: str | None
) -> tuple[list[Device], tuple[str, str] | None]:
    number = _number_session(position, gpu)
    name = gpu.name.value or ""
    pci = gpu.pci_address.value or ""
    if gpu.mig_enabled.value:
        instances = gpu.mig_devices.value or ()
        if not instances:
            return [], ("MIG is enabled and it has no instance", "mig-config")
        # of several instances CUDA uses the first one listed
        first = (visible or "").split(",")[0].strip()
        chosen = [item for item in instances if not first.startswith("MIG-") or item.uuid == first]
        label = f"GPU {number} instance"
        return [
            Device(GPU, f"{label} {at}", item.uuid, 1, item.name or name, item.uuid, pci=pci)
            for at, item in enumerate(chosen)
        ], None
    uuid = gpu.uuid.value or ""
    visible_as, numbers = (uuid, str(number)) if uuid else (str(number), "")
    device = Device(
        GPU,
        f"GPU {number}",
        visible_as,
        1,
        name,
        uuid,
        held=_describe_held(gpu),
        pci=pci,
        numbers=numbers,
    )
    return [device], None


def _number_session(position: int, gpu: Gpu) -> int:
    return position if gpu.nvml_index.value is None else gpu.nvml_index.value


def _describe_held(gpu: Gpu) -> str:
    total, used = gpu.memory_bytes.value, gpu.memory_used_bytes.value
    if not total or not used or used < 0.8 * total:
        return ""
    return f"{used / _GIB:.1f} of its {total / _GIB:.1f} GiB were in use before the test"


def _find_named(name: str, devices: list[Device], left_out: list[LeftOut]) -> list[Device]:
    """Return the GPU of a number or UUID, every instance of one that MIG divides."""
    is_uuid = name.startswith(("GPU-", "MIG-"))
    label = f"GPU {name}"
    found = [item for item in devices if is_uuid and item.uuid.startswith(name)][:1]
    found = found or [
        item
        for item in devices
        if item.label == label or item.label.startswith(f"{label} instance ")
    ]
    if found:
        return found
    hidden = next((item for item in left_out if item.label == label), None)
    there = ", ".join(device.label for device in devices) or "none"
    raise DeviceError(
        f"--gpu {name}: {hidden.why if hidden else f'no such GPU here (there are: {there})'}."
    )
