"""Print what NVML says of the driver and every GPU as one JSON object; runs in a child that may crash.

Arguments: the library's path; the folder (or zip file) that holds the module pynvml.
A value that NVML refuses is {"error": code, "text": "Not Supported"}; the others go on.
"""

import ctypes
import json
import os
import sys

MODES = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}
FUNCTION_NOT_FOUND = 13


def attempt(read):
    """Return what `read` returns, or NVML's refusal as an object."""
    import pynvml

    try:
        return read()
    except pynvml.NVMLError as error:
        return {"error": error.value, "text": str(error)}
    except pynvml.NVMLLibraryMismatchError as error:
        return {"error": FUNCTION_NOT_FOUND, "text": str(error)}
    except (UnicodeDecodeError, ValueError) as error:
        return {"error": -1, "text": "not readable: %s" % error}


def text(value):
    """Return text from text, or from the bytes that older libraries and modules return."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def newest(nvml, *names):
    """Return the result of the first of several functions that this library has."""
    for name, arguments in names[:-1]:
        try:
            return getattr(nvml, name)(*arguments)
        except nvml.NVMLError as error:
            if error.value != FUNCTION_NOT_FOUND:
                raise
    name, arguments = names[-1]
    return getattr(nvml, name)(*arguments)


def capability(nvml, handle):
    """Return the compute capability as "8.0"."""
    return "%d.%d" % tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle))


def mig_devices(nvml, handle):
    """Return the MIG devices of a GPU, gaps in their numbering skipped."""
    devices = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except nvml.NVMLError:  # no instance in this place
            continue
        name = attempt(lambda: text(nvml.nvmlDeviceGetName(device)))
        devices.append({"uuid": text(nvml.nvmlDeviceGetUUID(device)), "name": name if isinstance(name, str) else ""})
    return devices


def process_name(nvml, pid):
    """Return the base name of a process's executable, without its arguments; empty when hidden."""
    name = attempt(lambda: text(nvml.nvmlSystemGetProcessName(pid)))
    words = name.split() if isinstance(name, str) else []
    return words[0].replace("\\", "/").rsplit("/", 1)[-1] if words else ""


def processes(nvml, handle):
    """Return the compute and graphics processes of a GPU, each once."""
    found = {}
    for kind in ("Compute", "Graphics"):
        name = "nvmlDeviceGet%sRunningProcesses" % kind
        for process in newest(nvml, (name + "_v3", (handle,)), (name + "_v2", (handle,))):
            found[process.pid] = {
                "pid": process.pid,
                "name": process_name(nvml, process.pid),
                "memory_bytes": process.usedGpuMemory,
            }
    return [found[pid] for pid in sorted(found)]


def gpu(nvml, index):
    """Return every field of one GPU; when NVML cannot open it, only its index and the refusal."""
    handle = attempt(lambda: nvml.nvmlDeviceGetHandleByIndex(index))
    if isinstance(handle, dict):
        return {"index": index, "lost": handle}
    return {
        "index": index,
        "name": attempt(lambda: text(nvml.nvmlDeviceGetName(handle))),
        "uuid": attempt(lambda: text(nvml.nvmlDeviceGetUUID(handle))),
        "pci_address": attempt(lambda: text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
        "pci_id": attempt(lambda: "%04x" % (nvml.nvmlDeviceGetPciInfo(handle).pciDeviceId >> 16)),
        "compute_capability": attempt(lambda: capability(nvml, handle)),
        "memory_bytes": attempt(lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total),
        "memory_used_bytes": attempt(lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used),
        "compute_mode": attempt(lambda: MODES.get(nvml.nvmlDeviceGetComputeMode(handle), "unknown")),
        "mig_enabled": attempt(lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0])),
        "mig_devices": attempt(lambda: mig_devices(nvml, handle)),
        "processes": attempt(lambda: processes(nvml, handle)),
    }


def ask(library, folder):
    """Return the answer, {"init": code, "text": …} when NVML refuses, or {"load_error": text}."""
    sys.path.insert(0, folder)
    try:
        import pynvml as nvml

        # Loaded by path, not name: in WSL it may lie off the loader's path, and the file asked is the file named.
        nvml.nvmlLib = ctypes.CDLL(library)
        code = nvml.nvmlLib.nvmlInit_v2()
    except (OSError, AttributeError, ImportError) as error:
        return {"load_error": str(error)}
    if code != 0:
        return {"init": code, "text": attempt(lambda: text(nvml.nvmlErrorString(code)))}
    version = (("nvmlSystemGetCudaDriverVersion_v2", ()), ("nvmlSystemGetCudaDriverVersion", ()))
    count = attempt(lambda: nvml.nvmlDeviceGetCount())
    return {
        "init": 0,
        "driver": attempt(lambda: text(nvml.nvmlSystemGetDriverVersion())),
        "cuda": attempt(lambda: newest(nvml, *version)),
        "gpus": [gpu(nvml, index) for index in range(count)] if isinstance(count, int) else count,
    }


if __name__ == "__main__":
    output = os.dup(1)
    os.dup2(2, 1)  # what the library prints must not mix with the answer
    answer = json.dumps(ask(sys.argv[1], sys.argv[2])).encode("ascii")
    while answer:
        answer = answer[os.write(output, answer) :]
