"""The whole program on fake GPU hosts: a healthy one, and one for each broken driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.gpu_host import run_on_gpu_host
from tests.fakes.machine import A100, TWO_A100, FakeGpu, GpuHost
from tests.fakes.nvidia_smi import find_nvidia_smi
from tests.faults.doctor import ROOT, Run, command, hold_to_its_word
from tests.faults.test_programs import why
from tests.patience import FOREVER, patient_command

pytestmark = pytest.mark.needs("stand-in-host")
GPU = ("--expect", "gpu", "--for", "tensorflow==2.17.1")


def on(host: GpuHost, *arguments: str, gives_up: bool = False) -> Run:
    """Run the doctor with JSON output on a fake host."""
    whole = (command if gives_up else patient_command)(
        "doctor", "--format", "json", *(arguments or GPU)
    )
    done = run_on_gpu_host(host, whole, {"PYTHONPATH": str(ROOT)})
    run = Run(done.returncode, done.stdout, done.stderr)
    hold_to_its_word(run)
    return run


def bound_to(driver: str | None, gpus: Sequence[FakeGpu] = TWO_A100) -> list[FakeGpu]:
    return [replace(gpu, bound_to=driver) for gpu in gpus]


def gpus(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run.fact("gpus")["known"]
    return found


def test_a_healthy_host_is_read_completely() -> None:
    processes = ((4242, "python3", 512),)
    host = GpuHost(
        gpus=(replace(A100, processes=processes, used_mib=600), replace(TWO_A100[1], mig=False))
    )
    run = on(host, "--expect", "gpu")
    assert not [
        name
        for name in run.findings
        if name.startswith(("driver-", "gpu-", "mig-", "probe-", "libcuda-"))
    ]
    known = {
        "driver.release": "550.163.01",
        "driver.cuda_driver_version": "12.4",
        "driver.kernel_module_kind": "proprietary",
        "driver.libcuda_version": "550.163.01",
        "driver.cuda_init_result": 0,
        "driver.nvml_result": 0,
        "driver.uvm_loaded": True,
    }
    assert {name: run.fact(name)["known"] for name in known} == known
    first, second = gpus(run)
    expected = {
        "name": A100.name,
        "uuid": A100.uuid,
        "pci_address": A100.pci,
        "pci_id": "20b0",
        "kernel_driver": "nvidia",
    }
    assert {name: first[name]["known"] for name in expected} == expected
    assert first["compute_capability"]["known"] == "8.0"
    assert (first["memory_bytes"]["known"], first["memory_used_bytes"]["known"]) == (
        40960 << 20,
        600 << 20,
    )
    assert first["processes"]["known"][0]["name"] == "python3"
    assert (why(first["mig_enabled"]), second["mig_enabled"]["known"]) == ("absent", False)


UNLOADED = {"kernel_driver": None, "nodes": False, "gpus": bound_to(None)}


@pytest.mark.parametrize(
    ("host", "primary"),
    [
        (GpuHost(kernel_driver="535.261.03"), "driver-library-mismatch"),
        (GpuHost(**UNLOADED), "driver-missing"),  # type: ignore[arg-type]
        (
            GpuHost(nouveau=True, libraries=False, nodes=False, gpus=bound_to("nouveau")),
            "driver-nouveau",
        ),
        (
            GpuHost(libraries=False, nodes=False, kernel_driver=None, gpus=bound_to("vfio-pci")),
            "driver-nouveau",
        ),
        (GpuHost(uvm=False), "driver-device-nodes"),
        (GpuHost(library_folder="local/driver"), "libcuda-not-on-path"),
        (GpuHost(gpus=[FakeGpu(mig=True)]), "mig-config"),
        (GpuHost(gpus=[FakeGpu(compute_mode=2)]), "gpu-memory-held"),
        (GpuHost(driver="450.248.02", cuda=11000), "driver-too-old"),
        (GpuHost(gpus=()), "gpu-absent"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "on",
)
def test_the_cause_is_found(host: GpuHost, primary: str) -> None:
    run = on(host)
    assert run.primary == [primary], [finding["message"] for finding in run.report["findings"]]
    assert run.code == 1


def test_the_drivers_flags_and_its_log_are_read() -> None:
    log = "[ 0.000000] Linux version 6.1\n[ 9.1] NVRM: Xid (PCI:0000:0a:00): 48, pid=7, DBE"
    flags = {"REMAP_PENDING": "1", "SLOWDOWN": "0x44", "PCIE_WIDTH": "8", "NVLINKS": "1" * 12}
    host = GpuHost(
        gpus=[replace(A100, health=flags), TWO_A100[1]], programs={"dmesg": f"cat <<'E'\n{log}\nE"}
    )
    run = on(host, "--expect", "gpu")
    first, second = gpus(run)
    read = {name: first[name]["known"] for name in ("slowdown", "pcie_width", "nvlinks_active")}
    assert read == {
        "slowdown": ["sw_power_cap", "hw_thermal_slowdown"], "pcie_width": 8, "nvlinks_active": 12,
    }  # fmt: skip
    assert second["remap_pending"]["absent"]  # N/A is absent, and no pass
    assert run.fact("driver.logged_faults")["known"] == ["0000:0a:00: Xid 48"]
    assert {"gpu-hardware-fault", "gpu-degraded"} <= set(run.findings)


def test_a_gpu_lost_from_the_bus_is_found() -> None:
    run = on(GpuHost(gpus=[replace(A100, lost=15), TWO_A100[1]]))
    assert run.primary == ["gpu-hardware-fault"]
    assert run.report["findings"][0]["severity"] == "warning"  # the other one works


@pytest.mark.parametrize(
    ("host", "nvml", "cuda"),
    [
        (GpuHost(kernel_driver="535.261.03"), 18, 803),
        (GpuHost(**UNLOADED), 9, 100),  # type: ignore[arg-type]
        (GpuHost(uvm=False), 0, 999),
    ],
    ids=["mismatch", "not-loaded", "no-uvm"],
)
def test_messages_of_the_libraries_are_kept(host: GpuHost, nvml: int, cuda: int) -> None:
    run = on(host)
    assert (
        run.fact("driver.nvml_result")["known"],
        run.fact("driver.cuda_init_result")["known"],
    ) == (nvml, cuda)


@pytest.mark.needs("real-nvidia-smi")
@pytest.mark.parametrize(("branch", "code"), [("470", 255), ("535", 18), ("550", 18)])
def test_the_real_nvidia_smi_is_parsed(branch: str, code: int) -> None:
    run = on(GpuHost(nvidia_smi=find_nvidia_smi(branch), kernel_driver="525.60.13"))
    assert run.fact("driver.smi_exit_code")["known"] == code
    assert "Driver/library version mismatch" in run.fact("driver.smi_message")["known"]


@pytest.mark.parametrize("what", ["NVML_HANG", "CUDA_HANG", "NVML_CRASH", "CUDA_CRASH"])
def test_libraries_that_hang_or_crash_leave_a_report(what: str) -> None:
    hangs = "HANG" in what
    run = on(GpuHost(misbehave={what: FOREVER if hangs else 1}), gives_up=hangs)
    fact = run.fact("driver.nvml_result" if "NVML" in what else "driver.cuda_init_result")
    assert why(fact) == ("timeout" if hangs else "crashed")
    assert run.fact("driver.release")["known"] == "550.163.01"  # from the kernel module


def test_everything_hanging_at_once_leaves_a_report() -> None:
    tools = (
        "nvidia-smi",
        "nvcc",
        "gcc",
        "g++",
        "clang",
        "modinfo",
        "mokutil",
        "dpkg-query",
        "dkms",
        "nv-fabricmanager",
    )
    hanging = {"NVML_HANG": FOREVER, "CUDA_HANG": FOREVER}
    host = GpuHost(programs=dict.fromkeys(tools, f"exec sleep {FOREVER}"), misbehave=hanging)
    run = on(host, gives_up=True)
    assert (run.code, len(gpus(run))) == (1, 2) or run.code == 3
    assert why(run.fact("driver.smi_driver_version")) == "timeout"
    assert [gpu["name"]["known"] for gpu in gpus(run)] == ["NVIDIA A100 SXM4 40GB"] * 2  # by PCI


def test_a_truncated_driver_library_does_not_crash(tmp_path: Path) -> None:
    host = GpuHost(
        libraries=False,
        files={"/usr/lib/libcuda.so.1": "\x7fELF", "/usr/lib/libnvidia-ml.so.1": ""},
    )
    run = on(host)
    assert run.code in (1, 3)


FAKE_TORCH = {  # the metadata of a CPU build of torch, without its code
    "torch/version.py": "__version__ = '2.13.0+cpu'\ndebug = False\ncuda = None\nhip = None\n",
    "torch/__init__.py": "",
    "torch-2.13.0+cpu.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n",
    "torch-2.13.0+cpu.dist-info/INSTALLER": "pip\n",
    "torch-2.13.0+cpu.dist-info/RECORD": "torch/__init__.py,,\ntorch/version.py,,\n",
}


@pytest.mark.parametrize(
    "build", ["fake", pytest.param("real", marks=pytest.mark.needs("cpu-torch"))]
)
def test_cpu_only_torch_with_a_configured_toolkit(tmp_path: Path, build: str) -> None:
    from tests.faults.test_files import composed_environment
    from tests.needs import cpu_torch_folder

    site = composed_environment(tmp_path)
    if build == "real":
        (site / "real.pth").write_text(cpu_torch_folder() + "\n", encoding="utf-8")
    for name, text in FAKE_TORCH.items() if build == "fake" else ():
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
    nvcc = {"nvcc": 'echo "Cuda compilation tools, release 12.4, V12.4.131"'}
    run = on(
        GpuHost(programs=nvcc),
        "--expect",
        "gpu",
        "--python",
        str(tmp_path / "venv" / "bin" / "python"),
    )
    assert run.primary == ["framework-cpu-build"], run.findings
    assert run.code == 1
