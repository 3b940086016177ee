"""Print NVML's data about the driver and every GPU as one JSON object.

Runs in a child that may crash.

Arguments: the path of the library; the folder or zip file of the module pynvml; "activity" to add
the values that change from second to second. A value that NVML refuses is {"error": code, "text":
"Not Supported"}.
"""

import ctypes
import json
import os
import re
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Tuple

MODES = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}
FUNCTION_NOT_FOUND = 13
MAX_LINKS = 36  # NVML_NVLINK_MAX_LINKS
NO_LINK = (2, 3)  # invalid argument, not supported: there is no link of this number
MEMORY_V2 = 0x02000028  # nvmlMemory_v2: version 2, 40 bytes
HEALTH_TIME = 1.0  # seconds for the health of all GPUs
PAUSE = 0.1  # seconds between readings of why the clocks are slow
SLOWED = 0xE8  # hardware slowdown, and software's or the hardware's for heat, and a power brake
RECOVERY_ACTION = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
# The nanoseconds that clocks were held down since the driver was loaded:
# NVML_FI_DEV_PERF_POLICY_POWER and _SYNC_BOOST.
SLOWED_FOR = {"sw_power_cap": 74, "sync_boost": 76}
BY_RELEASE = ("sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
# NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN and the two after it: nvml.h renumbered them,
# and either number is a field of power smoothing in the other releases.
FIRST_FIELDS = (((580, 82), (9999,), 269), ((575,), (580, 66), 251))
FABRIC_STATES = {1: "not started", 2: "in progress", 3: "completed"}
CORRUPTED_INFOROM = 14
UNSIGNED_INT = 1  # NVML_VALUE_TYPE_UNSIGNED_INT
# What one call answers; the arguments are: uncorrected, since the driver was loaded.
PLAIN: Dict[str, Tuple[Any, ...]] = {
    "ecc_uncorrected": ("nvmlDeviceGetTotalEccErrors", 1, 0),
    "retired_pages_pending": ("nvmlDeviceGetRetiredPagesPendingStatus",),
    "pcie_width": ("nvmlDeviceGetCurrPcieLinkWidth",),
    "pcie_width_limit": ("nvmlDeviceGetMaxPcieLinkWidth",),
    "pcie_generation": ("nvmlDeviceGetCurrPcieLinkGeneration",),
    "pcie_generation_limit": ("nvmlDeviceGetMaxPcieLinkGeneration",),
}
UNREAD = {"error": 10, "text": "Timeout"}
HEALTH = (
    *PLAIN, "sram_threshold_exceeded", "remap_pending", "remap_failed", "recovery_action",
    "nvlinks_active", "nvlinks_down", "slowdown", "slowed_for", "fabric_state", "fabric_health",
    "inforom_corrupted",
)  # fmt: skip


class Nvml:
    """NVML in one library; a refusal becomes a value."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.mismatch = getattr(module, "NVMLLibraryMismatchError", ())  # newer modules only

    def attempt(self, read: Callable[[], Any]) -> Any:
        """Return the result of `read`, decoded, or its refusal as an object."""
        try:
            value = read()
        except self.module.NVMLError as error:
            return {"error": error.value, "text": str(error)}
        except self.mismatch as error:
            return {"error": FUNCTION_NOT_FOUND, "text": str(error)}
        except TypeError as error:  # an older module pynvml, which does not know the argument
            return {"error": FUNCTION_NOT_FOUND, "text": str(error)}
        except ValueError as error:  # an undecodable name
            return {"error": -1, "text": f"not readable: {error}"}
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return value

    def call(self, name: str, *arguments: Any) -> Any:
        """Return the result of one function of the module, or its refusal.

        An older module lacks some.
        """
        function = getattr(self.module, name, None)
        if function is None:
            return {"error": FUNCTION_NOT_FOUND, "text": f"the module pynvml has no {name}"}
        return self.attempt(lambda: function(*arguments))

    def call_newest(self, first: str, second: str, *arguments: Any) -> Any:
        """Return the first function's result, or the second's if the library lacks the first."""
        answer = self.call(first, *arguments)
        is_missing = isinstance(answer, dict) and answer["error"] == FUNCTION_NOT_FOUND
        return self.call(second, *arguments) if is_missing else answer

    def read_pci(self, handle: Any) -> Dict[str, Any]:
        """Return PCI address and device id of a GPU."""
        info = self.call("nvmlDeviceGetPciInfo", handle)
        if isinstance(info, dict):
            return {"pci_address": info, "pci_id": info}
        return {
            "pci_address": self.attempt(lambda: info.busId),
            "pci_id": f"{info.pciDeviceId >> 16:04x}",
        }

    def read_memory(self, handle: Any) -> Dict[str, Any]:
        """Return a GPU's total, used and reserved bytes, as nvidia-smi does since 510.

        An older driver counts its own reserved memory as used: up to 1 GiB on an idle GPU.
        """
        info = self.call("nvmlDeviceGetMemoryInfo", handle, MEMORY_V2)
        reserved = info if isinstance(info, dict) else info.reserved
        if isinstance(info, dict):
            info = self.call("nvmlDeviceGetMemoryInfo", handle)
        total, used = (info, info) if isinstance(info, dict) else (info.total, info.used)
        return {"memory_bytes": total, "memory_used_bytes": used, "memory_reserved_bytes": reserved}

    def read_capability(self, handle: Any) -> Any:
        """Return the compute capability as "8.0"."""
        pair = self.call("nvmlDeviceGetCudaComputeCapability", handle)
        return pair if isinstance(pair, dict) else f"{pair[0]}.{pair[1]}"

    def read_mig(self, handle: Any) -> Dict[str, Any]:
        """Return whether MIG is on, and the MIG devices."""
        mode = self.call("nvmlDeviceGetMigMode", handle)
        if isinstance(mode, dict):
            return {"mig_enabled": mode, "mig_devices": mode}
        devices = self.list_mig_handles(handle) if mode[0] else []
        if not isinstance(devices, dict):
            devices = [self.read_mig_device(device) for device in devices]
        return {"mig_enabled": bool(mode[0]), "mig_devices": devices}

    def list_mig_handles(self, handle: Any) -> Any:
        """Return the handles of the MIG devices of a GPU, whose numbers may have gaps."""
        count = self.call("nvmlDeviceGetMaxMigDeviceCount", handle)
        if isinstance(count, dict):
            return count
        devices = [
            self.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
            for index in range(count)
        ]
        return [device for device in devices if not isinstance(device, dict)]

    def read_mig_device(self, device: Any) -> Dict[str, str]:
        """Return UUID and name of a MIG device, "" where refused."""
        uuid = self.call("nvmlDeviceGetUUID", device)
        name = self.call("nvmlDeviceGetName", device)
        return {
            "uuid": uuid if isinstance(uuid, str) else "",
            "name": name if isinstance(name, str) else "",
        }

    def list_processes(self, handle: Any) -> Any:
        """Return the distinct compute, MPS and graphics processes of a GPU.

        With MIG only root may list all instances at once; other users list each of their own.
        """
        instances = self.list_mig_handles(handle)
        places = [handle, *(() if isinstance(instances, dict) else instances)]
        answers = [self.list_running("Compute", place) for place in places]
        if all(isinstance(answer, dict) for answer in answers):
            return answers[0]
        answers += [
            self.list_running(kind, place)
            for kind in ("MPSCompute", "Graphics")
            for place in places
        ]
        shares: Dict[int, Dict[Any, Any]] = {}  # process -> instance -> bytes
        for process in [
            each for answer in answers if not isinstance(answer, dict) for each in answer
        ]:
            instance = (process.gpuInstanceId, process.computeInstanceId)
            shares.setdefault(process.pid, {})[instance] = process.usedGpuMemory
        return [self.describe_process(pid, list(shares[pid].values())) for pid in sorted(shares)]

    def list_running(self, kind: str, handle: Any) -> Any:
        """Return the processes of one kind."""
        name = f"nvmlDeviceGet{kind}RunningProcesses"
        return self.call_newest(name + "_v3", name + "_v2", handle)

    def describe_process(self, pid: int, shares: List[Any]) -> Dict[str, Any]:
        """Return a process with its executable's base name.

        Its arguments may hold secrets.
        """
        name = self.call("nvmlSystemGetProcessName", pid)
        words = name.split() if isinstance(name, str) else []
        base = words[0].replace("\\", "/").rsplit("/", 1)[-1] if words else ""
        return {"pid": pid, "name": base, "memory_bytes": None if None in shares else sum(shares)}

    def read_gpu(self, index: int) -> Dict[str, Any]:
        """Return every field of one GPU, or its index and the refusal where NVML cannot open it."""
        handle = self.call("nvmlDeviceGetHandleByIndex", index)
        if isinstance(handle, dict):
            return {"index": index, "lost": handle}
        mode = self.call("nvmlDeviceGetComputeMode", handle)
        return {
            "index": index,
            "name": self.call("nvmlDeviceGetName", handle),
            "uuid": self.call("nvmlDeviceGetUUID", handle),
            **self.read_pci(handle),
            "compute_capability": self.read_capability(handle),
            **self.read_memory(handle),
            "compute_mode": mode if isinstance(mode, dict) else MODES.get(mode, f"mode {mode}"),
            **self.read_mig(handle),
            "processes": self.list_processes(handle),
        }

    def read_activity(self, index: int) -> Dict[str, Any]:
        """Return a GPU's number, load, temperature, power, fan, P state and MIG devices."""
        handle = self.call("nvmlDeviceGetHandleByIndex", index)
        if isinstance(handle, dict):
            return {}
        rates = self.call("nvmlDeviceGetUtilizationRates", handle)
        return {
            "minor": self.call("nvmlDeviceGetMinorNumber", handle),
            "utilization": rates if isinstance(rates, dict) else rates.gpu,
            "temperature": self.call_newest(
                "nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV", handle, 0
            ),
            "power": self.call("nvmlDeviceGetPowerUsage", handle),
            "power_limit": self.call("nvmlDeviceGetEnforcedPowerLimit", handle),
            "fan": self.call("nvmlDeviceGetFanSpeed", handle),
            "performance_state": self.call("nvmlDeviceGetPerformanceState", handle),
            "instances": self.read_instances(handle),
        }

    def read_instances(self, handle: Any) -> Any:
        """Return UUID and memory of each MIG device."""
        devices = self.list_mig_handles(handle)
        if isinstance(devices, dict):
            return devices
        return [
            dict(self.read_mig_device(device), **self.read_memory(device)) for device in devices
        ]

    def add_health(self, gpus: List[Dict[str, Any]]) -> None:
        """Add the health of the GPUs that NVML can open; what takes longer is unread."""
        opened = []
        for gpu in gpus:
            handle = self.call("nvmlDeviceGetHandleByIndex", gpu["index"])
            if not isinstance(handle, dict):
                gpu.update(dict.fromkeys(HEALTH, UNREAD))
                opened.append((gpu, handle))
        reading = threading.Thread(target=self.read_health, args=(opened,))
        reading.daemon = True  # a call that hangs keeps the process no longer than the answer
        reading.start()
        reading.join(HEALTH_TIME)

    def read_health(self, opened: List[Any]) -> None:
        """Read what the driver says of each GPU's state, one GPU after the other."""
        for gpu, handle in opened:
            for name, (function, *arguments) in PLAIN.items():
                gpu[name] = self.call(function, handle, *arguments)
            rows = self.call("nvmlDeviceGetRemappedRows", handle)  # two counts, two flags
            gpu["remap_pending"] = rows if isinstance(rows, dict) else rows[2]
            gpu["remap_failed"] = rows if isinstance(rows, dict) else rows[3]
            gpu["sram_threshold_exceeded"] = self.read_sram(handle)
            gpu["recovery_action"] = self.read_fields(handle, {"action": RECOVERY_ACTION})["action"]
            gpu["nvlinks_active"], gpu["nvlinks_down"] = self.count_links(handle)
            gpu["slowdown"] = self.read_slowdown(handle)
            gpu["slowed_for"] = self.read_slowed_for(handle)
            gpu["fabric_state"], gpu["fabric_health"] = self.read_fabric(handle)
        # One reading is a moment: what stays over three is worth a word.
        for _ in range(2):
            slow = [item for item in opened if not isinstance(item[0]["slowdown"], dict)]
            slow = [item for item in slow if item[0]["slowdown"] & SLOWED]
            if slow:
                time.sleep(PAUSE)
            for gpu, handle in slow:
                again = self.read_slowdown(handle)
                gpu["slowdown"] = again if isinstance(again, dict) else gpu["slowdown"] & again
        for gpu, handle in opened:  # last: it reads the card's flash
            gpu["inforom_corrupted"] = self.read_inforom(handle)

    def read_sram(self, handle: Any) -> Any:
        """Return whether the driver counts more SRAM errors than NVIDIA allows a card."""
        status = self.call("c_nvmlEccSramErrorStatus_v1_t")
        answer = status
        if not isinstance(status, dict):
            answer = self.call("nvmlDeviceGetSramEccErrorStatus", handle, ctypes.byref(status))
        return answer if isinstance(answer, dict) else status.bThresholdExceeded

    def read_fields(self, handle: Any, fields: Dict[str, int]) -> Dict[str, Any]:
        """Return the number of each field, or its refusal."""
        values = self.call("nvmlDeviceGetFieldValues", handle, list(fields.values()))
        if isinstance(values, dict):
            return dict.fromkeys(fields, values)
        read: Dict[str, Any] = {}
        for name, value in zip(fields, values):
            read[name] = (
                value.value.uiVal if value.valueType == UNSIGNED_INT else value.value.ullVal
            )
            if value.nvmlReturn:
                read[name] = {"error": value.nvmlReturn, "text": "of this field"}
        return read

    def read_slowed_for(self, handle: Any) -> Any:
        """Return the nanoseconds that each reason held the clocks down, without the refused."""
        fields = dict(SLOWED_FOR)
        driver = self.call("nvmlSystemGetDriverVersion")
        parts = () if isinstance(driver, dict) else tuple(map(int, re.findall(r"\d+", driver)[:2]))
        for first, end, number in FIRST_FIELDS:
            if first <= parts < end:
                fields.update({name: number + place for place, name in enumerate(BY_RELEASE)})
        values = self.read_fields(handle, fields)
        known = {name: value for name, value in values.items() if not isinstance(value, dict)}
        return known or values["sw_power_cap"]

    def read_fabric(self, handle: Any) -> Any:
        """Return how far a GPU has joined the NVLink fabric, and the bits of its health."""
        info = self.call("c_nvmlGpuFabricInfo_v2_t")
        answer = info
        if not isinstance(info, dict):
            answer = self.call("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info))
        if isinstance(answer, dict):
            return answer, answer
        if info.state not in FABRIC_STATES:
            refusal = {"error": 3, "text": "no fabric"}
            return refusal, refusal
        failed = FABRIC_STATES[info.state] == "completed" and info.status
        state = f"failed ({info.status})" if failed else FABRIC_STATES[info.state]
        return state, info.healthMask

    def read_inforom(self, handle: Any) -> Any:
        """Return whether the checksums of the card's own store are wrong."""
        answer = self.call("nvmlDeviceValidateInforom", handle)
        if isinstance(answer, dict) and answer["error"] != CORRUPTED_INFOROM:
            return answer
        return answer is not None

    def count_links(self, handle: Any) -> Any:
        """Return how many NVLinks are up and how many are down; a link not supported is neither."""
        states = [self.call("nvmlDeviceGetNvLinkState", handle, link) for link in range(MAX_LINKS)]
        known = [state for state in states if not isinstance(state, dict)]
        refused = [
            state for state in states if isinstance(state, dict) and state["error"] not in NO_LINK
        ]
        if refused or not known:
            answer = (refused or states)[0]
            return answer, answer
        return sum(known), len(known) - sum(known)

    def read_slowdown(self, handle: Any) -> Any:
        """Return the bits of what slows the clocks now; the function had another name before."""
        return self.call_newest(
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
            handle,
        )

    def list_gpus(self, what: str) -> Any:
        """Return all GPUs, or the refusal to count them."""
        count = self.call("nvmlDeviceGetCount")
        if isinstance(count, dict):
            return count
        gpus = [self.read_gpu(index) for index in range(count)]
        if what == "activity":
            return [dict(gpu, **self.read_activity(gpu["index"])) for gpu in gpus]
        self.add_health(gpus)
        return gpus


def query(library: str, folder: str, what: str = "") -> Dict[str, Any]:
    """Return the answer, {"init": code, "text": …} when NVML refuses, or {"load_error": text}."""
    sys.path.insert(0, folder)
    try:
        import pynvml

        # Another common package of that name keeps the library in a separate module.
        module = sys.modules[pynvml.nvmlInit.__module__]
        # By path, not name: in WSL the loader may not find it, and the report names this file.
        module.nvmlLib = ctypes.CDLL(library)  # type: ignore[attr-defined]
        code = module.nvmlLib.nvmlInit_v2()
    except (OSError, AttributeError, ImportError) as error:
        return {"load_error": str(error)}
    nvml = Nvml(module)
    if code != 0:
        return {"init": code, "text": nvml.call("nvmlErrorString", code)}
    return {
        "init": 0,
        "driver": nvml.call("nvmlSystemGetDriverVersion"),
        "cuda": nvml.call_newest(
            "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"
        ),
        "gpus": nvml.list_gpus(what),
    }


def main(arguments: List[str]) -> None:
    """Write the answer to standard output, and what the library prints there to standard error."""
    output = os.dup(1)
    os.dup2(2, 1)
    answer = json.dumps(query(*arguments)).encode("ascii")
    while answer:
        answer = answer[os.write(output, answer) :]


if __name__ == "__main__":
    main(sys.argv[1:])
