"""The stand-ins themselves: they say what they were told, and leave this machine as it was."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.build import build_libraries
from tests.fakes.gpu_host import run_on_gpu_host
from tests.fakes.machine import A100, FakeGpu, GpuHost
from tests.fakes.nvidia_smi import find_nvidia_smi

pytestmark = pytest.mark.needs("stand-in-host")

NVML = """
import json, pynvml as n
n.nvmlInit()
gpus = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
first = gpus[0]
mig = [n.nvmlDeviceGetMigDeviceHandleByIndex(first, i) for i in range(2)]
print(json.dumps({
    "driver": n.nvmlSystemGetDriverVersion(), "cuda": n.nvmlSystemGetCudaDriverVersion_v2(),
    "names": [n.nvmlDeviceGetName(g) for g in gpus], "uuid": n.nvmlDeviceGetUUID(first),
    "capability": n.nvmlDeviceGetCudaComputeCapability(first), "pci": n.nvmlDeviceGetPciInfo(first).busId,
    "memory": [n.nvmlDeviceGetMemoryInfo(first).total >> 20, n.nvmlDeviceGetMemoryInfo(first).used >> 20],
    "mig": [n.nvmlDeviceGetUUID(device) for device in mig], "mode": n.nvmlDeviceGetMigMode(first),
    "processes": [(p.pid, p.usedGpuMemory >> 20, n.nvmlSystemGetProcessName(p.pid))
                  for p in n.nvmlDeviceGetComputeRunningProcesses(first)],
}))
"""
CUDA = """
import ctypes, json
cuda = ctypes.CDLL("libcuda.so.1")
number, name, uuid = ctypes.c_int(), ctypes.create_string_buffer(64), ctypes.create_string_buffer(16)
before = [cuda.cuDriverGetVersion(ctypes.byref(number)), number.value, cuda.cuDeviceGetCount(ctypes.byref(number))]
started = cuda.cuInit(0)
count = [cuda.cuDeviceGetCount(ctypes.byref(number)), number.value]
cuda.cuDeviceGetName(name, 64, 0), cuda.cuDeviceGetUuid(uuid, 0)
cuda.cuDeviceGetAttribute(ctypes.byref(number), 75, 0)
address = ctypes.c_void_p()
find = lambda name: cuda.cuGetProcAddress(name, ctypes.byref(address), 12000, ctypes.c_ulonglong(0))
print(json.dumps({"before": before, "init": started, "count": count, "name": name.value.decode(),
                  "uuid": uuid.raw.hex(), "major": number.value,
                  "found": find(b"cuDeviceTotalMem"), "missing": find(b"cuNoSuch")}))
"""
MIG = FakeGpu(
    mig=True, mig_devices=("MIG-1", "MIG-2"), used_mib=700, processes=((4242, "python3", 512),)
)


def answer(host: GpuHost, script: str) -> dict[str, object]:
    done = run_on_gpu_host(host, [sys.executable, "-c", script])
    assert done.returncode == 0, done.stderr
    parsed: dict[str, object] = json.loads(done.stdout)
    return parsed


def test_pynvml_reads_the_stand_in() -> None:
    assert answer(
        GpuHost(gpus=(MIG, FakeGpu(name="NVIDIA L4", capability="8.9", pci="0000:0b:00.0"))), NVML
    ) == {
        "driver": "550.163.01",
        "cuda": 12040,
        "names": ["NVIDIA A100-SXM4-40GB", "NVIDIA L4"],
        "uuid": A100.uuid,
        "capability": [8, 0],
        "pci": "00000000:07:00.0",
        "memory": [40960, 700],
        "mig": ["MIG-1", "MIG-2"],
        "mode": [1, 1],
        "processes": [[4242, 512, "python3"]],
    }


def test_cuda_answers_as_the_driver_would() -> None:
    assert answer(GpuHost(), CUDA) == {
        "before": [0, 12040, 3],
        "init": 0,
        "count": [0, 2],
        "name": "NVIDIA A100-SXM4-40GB",
        "uuid": "0" * 31 + "1",
        "major": 8,
        "found": 0,
        "missing": 500,
    }


@pytest.mark.needs("real-nvidia-smi")
@pytest.mark.parametrize("branch", ["470", "535", "550"])
@pytest.mark.parametrize(
    ("host", "code", "text"),
    [
        (GpuHost(), 0, "NVIDIA A100-SXM"),
        (
            GpuHost(kernel_driver="535.261.03"),
            18,
            "Failed to initialize NVML: Driver/library version mismatch",
        ),
        (GpuHost(kernel_driver=None), 9, "couldn't communicate with the NVIDIA driver"),
        (GpuHost(gpus=()), 6, "No devices were found"),
        (GpuHost(libraries=False), 12, "couldn't find libnvidia-ml.so library"),
    ],
    ids=["healthy", "mismatch", "no-module", "no-gpu", "no-library"],
)
def test_the_real_nvidia_smi_runs_on_the_stand_in(
    branch: str, host: GpuHost, code: int, text: str
) -> None:
    smi = find_nvidia_smi(branch)
    assert smi is not None
    done = run_on_gpu_host(GpuHost(**{**vars(host), "nvidia_smi": smi}), ["nvidia-smi"])
    if branch == "470" and code == 18:
        code = 255  # what this branch exits with on a mismatch
    assert (done.returncode, text in done.stdout) == (code, True), done.stdout


def test_the_machine_is_shown_as_described_and_stays_as_it_was(tmp_path: Path) -> None:
    def state() -> tuple[object, ...]:
        cache = Path("/etc/ld.so.cache")
        digest = hashlib.sha256(cache.read_bytes()).hexdigest() if cache.exists() else ""
        names = [
            sorted(path.name for path in Path(folder).iterdir())
            for folder in ("/dev", "/usr/local", "/usr/bin")
        ]
        return *names, digest, Path("/proc/mounts").read_text()

    before = state()
    host = GpuHost(
        open_module=True,
        files={
            "/usr/include/cudnn.h": "#define CUDNN_MAJOR 7\n",
            "/etc/nv_tegra_release": "# R35\n",
        },
        programs={"nvcc": "echo composed nvcc"},
        node_mode=0o600,
    )
    script = (
        "cat /proc/driver/nvidia/version /sys/module/nvidia/version /usr/include/cudnn.h /etc/nv_tegra_release; nvcc;"
        "ls /usr/local | grep cuda; ldconfig -p | grep libcuda.so; stat -c '%A %t,%T' /dev/nvidia1;"
        "basename $(readlink -f /sys/bus/pci/devices/0000:07:00.0/driver); ls /sys/module | sort; echo x > /usr/written"
    )
    lines = run_on_gpu_host(host, ["sh", "-c", script]).stdout.splitlines()
    assert "Open Kernel Module for" in lines[0]
    assert lines[2:6] == ["550.163.01", "#define CUDNN_MAJOR 7", "# R35", "composed nvcc"]
    assert lines[6].split()[0] == "libcuda.so.1"
    assert lines[7:] == ["crw------- c3,1", "nvidia", "nvidia", "nvidia_uvm"]
    assert state() == before
    assert not Path("/usr/written").exists()


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_on_gpu_host(GpuHost(), ["sleep", "60"], timeout=1)


def test_misbehaviour_is_as_told() -> None:
    crash = GpuHost(misbehave={"NVML_CRASH": 1})
    assert run_on_gpu_host(
        crash, [sys.executable, "-c", "import pynvml; pynvml.nvmlInit()"]
    ).returncode in (-11, 139)


def test_the_libraries_are_built_once() -> None:
    first = build_libraries()
    times = {path: path.stat().st_mtime_ns for path in first.iterdir()}
    assert {path: path.stat().st_mtime_ns for path in build_libraries().iterdir()} == times
