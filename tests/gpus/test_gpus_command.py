"""`envcheck gpus` as users run it: on this machine, and on a fake GPU host (no NVIDIA software, no GPU)."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from envcheck.host.data_files import read_packaged
from tests.fakes.gpu_host import run_on_gpu_host
from tests.fakes.machine import FakeGpu, GpuHost

ENVCHECK = [sys.executable, "-m", "envcheck"]
L4 = FakeGpu(
    name="Stand-in L4", capability="8.9", memory_mib=23034, used_mib=20000, reserved_mib=456, utilization=97,
    temperature=61, power_watts=71.25, processes=((999_999_991, "python3", 512),),
)  # fmt: skip
SPLIT = FakeGpu(
    name="Stand-in A100", pci="0000:0a:00.0", uuid="GPU-00000000-0000-0000-0000-000000000002", mig=True,
    mig_devices=("MIG-00000000-0000-0000-0000-00000000000a",),
)  # fmt: skip
HOST = GpuHost(gpus=(L4, SPLIT))
on_fake_host = pytest.mark.needs("stand-in-host")


def gpus(host: GpuHost, *options: str) -> subprocess.CompletedProcess[str]:
    return run_on_gpu_host(host, [*ENVCHECK, "gpus", *options])


def document(text: str) -> Any:
    found = json.loads(text)
    fastjsonschema.compile(json.loads(read_packaged("schemas", "gpus.schema.json")))(found)
    return found


@on_fake_host
def test_the_table_shows_what_each_gpu_does_and_who_holds_it() -> None:
    done = gpus(HOST)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[1].split() == [
        *(
            "GPU",
            "name",
            "PCI",
            "capability",
            "memory",
            "used",
            "use",
            "temp",
            "fan",
            "state",
            "power",
            "MIG",
        ),
    ]
    pci = "0000:07:00.0"
    assert (
        " ".join(lines[2].split())
        == f"0 Stand-in L4 {pci} 8.9 19.5 / 22.5 GiB 97 % 61 C - P0 71 / 400 W -"
    )
    assert lines[3].endswith("1 instance")
    assert "1:0  " in lines[4]
    assert lines[4].split()[-4:] == ["0.0", "/", "4.8", "GiB"]
    dead = next(line for line in lines if "999999991" in line)
    cells = re.split("  +", dead)
    assert cells == [
        "0",
        "999999991",
        "?",
        "python3",
        "512 MiB",
        "?",
        "dead",
        "nvidia-smi --gpu-reset -i 0",
    ]
    assert "19.0 GiB are in use by no process that the driver lists" in done.stdout
    assert lines[-1] == "2 GPUs read."


@on_fake_host
def test_the_document_fits_its_schema_and_a_job_that_does_not_fit_exits_with_1() -> None:
    done = gpus(HOST, "--format", "json", "--fits", "1.4B", "--batch", "2", "--activations", "1M")
    found = document(done.stdout)
    assert (done.returncode, found["verdict"]) == (1, "incompatible")
    first, second = found["gpus"]
    assert first["utilization_percent"]["known"] == 97
    assert first["power_watts"]["known"] == 71.25
    # nvidia-smi's: without what the driver reserves
    assert first["memory_used_bytes"]["known"] == 20000 << 20
    assert first["memory_reserved_bytes"]["known"] == 456 << 20
    assert found["fit"]["places"][0]["free_bytes"]["known"] == (23034 - 20000 - 456) << 20
    # the tests are root there
    assert first["processes"][0]["argv"] == ["nvidia-smi", "--gpu-reset", "-i", "0"]
    assert second["instances"]["known"][0]["memory_bytes"]["known"] == 4864 << 20
    assert found["fit"]["need"]["total"] == 4 * 4 * 1_400_000_000 + 2 * 2 * 4 * 1_000_000 + (
        2 << 30
    )
    assert [place["fits"] for place in found["fit"]["places"]] == [False, False]
    assert "command_line" not in done.stdout


@on_fake_host
def test_a_job_that_fits_one_gpu_has_a_largest_batch() -> None:
    done = gpus(
        HOST, "--fits", "100M", "--activations", "2M", "--reserve", "0", "--color", "always"
    )
    assert done.returncode == 0
    assert "Needed: 1.5 GiB = weights 100,000,000 x 4" in done.stdout
    assert (
        "The job fits in the free memory of GPU 0 (Stand-in L4), Stand-in A100 MIG"
        in done.stdout.replace("\n", "")
    )


@on_fake_host
def test_free_gpus_are_printed_for_cuda_visible_devices() -> None:
    idle = FakeGpu(name="Stand-in B", pci="0000:0a:00.0", uuid="GPU-idle")
    done = gpus(GpuHost(gpus=(L4, idle)), "--free", "1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "GPU-idle\n", "")
    few = gpus(GpuHost(gpus=(L4, idle)), "--free", "2")
    # none: an empty CUDA_VISIBLE_DEVICES takes no GPU
    assert (few.returncode, few.stdout) == (1, "\n")
    assert few.stderr == "envcheck: 2 GPUs are asked for and 1 is free.\n"
    hidden = run_on_gpu_host(
        GpuHost(gpus=(L4, idle)), [*ENVCHECK, "gpus", "--free", "1"], {"CUDA_VISIBLE_DEVICES": "0"}
    )
    assert (hidden.returncode, hidden.stdout) == (1, "\n")
    found = document(gpus(GpuHost(gpus=(L4, idle)), "--free", "1", "--format", "json").stdout)
    assert (found["verdict"], found["free"]) == ("compatible", ["GPU-idle"])


@on_fake_host
def test_a_lost_gpu_is_undetermined_and_the_other_gpu_is_listed() -> None:
    done = gpus(
        GpuHost(gpus=(L4, FakeGpu(name="Stand-in", pci="0000:0a:00.0", lost=15))),
        "--format",
        "json",
    )
    found = document(done.stdout)
    assert (done.returncode, found["verdict"]) == (3, "undetermined")
    assert found["message"].startswith("No answer from 1 of 2 GPUs: NVML")
    assert found["gpus"][0]["utilization_percent"]["known"] == 97
    assert found["gpus"][1]["memory_bytes"]["unknown"] == "failed"


@on_fake_host
def test_a_gpu_without_its_driver_is_listed_and_undetermined() -> None:
    done = gpus(GpuHost(libraries=False, kernel_driver=None, gpus=(FakeGpu(bound_to=None),)))
    assert done.returncode == 3
    assert "1 of 1 GPU" in done.stdout


@on_fake_host
def test_a_hanging_nvml_times_out() -> None:
    done = gpus(GpuHost(misbehave={"NVML_HANG": 60}), "--format", "json", "--timeout", "1")
    found = document(done.stdout)
    assert done.returncode == 3
    assert found["message"].startswith("No answer from 2 of 2 GPUs: ")
    assert [gpu["minor"]["known"] for gpu in found["gpus"]] == [0, 1]  # to assign open devices


# Job control (-m): else the shell would have its background job ignore the interruption.
_WATCH = """
set -m
command="$1"; csv=$2; lost=$3
$command --watch 0.3 --csv "$csv" > "$csv.out" 2> "$csv.err" & pid=$!
count() { [ "$(wc -l < "$csv" 2>/dev/null || echo 0)" -ge "$1" ]; }
for i in $(seq 100); do count 5 && break; sleep 0.1; done
touch "$lost"
for i in $(seq 100); do
  grep -q 'GPU is lost' "$csv" && grep -q 'No answer' "$csv.out" && break; sleep 0.1
done
kill -INT $pid; wait $pid; echo "code $?"
"""


@on_fake_host
def test_a_watch_survives_a_gpu_that_disappears_and_ends_cleanly(tmp_path: Path) -> None:
    table, gone = tmp_path / "report.csv", tmp_path / "gone"
    host = GpuHost(gpus=(L4, FakeGpu(name="Stand-in B", pci="0000:0a:00.0", lost_when=str(gone))))
    command = " ".join([*ENVCHECK, "gpus"])
    done = run_on_gpu_host(host, ["bash", "-c", _WATCH, "sh", command, str(table), str(gone)])
    assert done.stdout.strip() == "code 130"
    assert (tmp_path / "report.csv.err").read_text().strip() == "envcheck: Interrupted."
    rows = list(csv.reader(table.read_text().splitlines()))
    assert (
        ",".join(rows[0])
        == "timestamp,name,index,utilization.gpu,memory.total,memory.used,power.draw"
    )
    assert rows[1][1:] == ["Stand-in L4", "0", "97", "23034", "20000", "71.25"]
    assert rows[2][1:] == ["Stand-in B", "1", "0", "40960", "3", "51.00"]
    assert rows[-1][1:] == [
        "Stand-in B",
        "1",
        "[GPU is lost]",
        "40960",
        "[GPU is lost]",
        "[GPU is lost]",
    ]
    assert rows[-2][1:] == rows[1][1:]
    assert "No answer from 1 of 2 GPUs" in (tmp_path / "report.csv.out").read_text()


def here(*options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        [*ENVCHECK, "gpus", *options], capture_output=True, text=True, env=environment, check=False
    )


@on_fake_host
def test_a_machine_without_gpu_is_never_a_success() -> None:
    host = GpuHost(gpus=(), libraries=False, kernel_driver=None)
    done = gpus(host)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "This machine has no NVIDIA GPU.")
    found = document(gpus(host, "--format", "json", "--fits", "1M").stdout)
    assert (found["gpus"], found["fit"]["places"]) == ([], [])
    assert gpus(host, "-q").stdout == "This machine has no NVIDIA GPU.\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--fits", "many"], "is not a number such as 340M"),
        (["--watch", "1", "--format", "json"], "use --csv FILE"),
        (["--csv", "/nowhere/x.csv"], "cannot write /nowhere/x.csv"),
        (["--watch", "0"], "0.1"),
        (["--fits", "340X"], "'340X' is not a number such as 340M"),
        (["--fits", "-340M"], "'-340M' is not a number"),
        (["--fits", "nan"], "'nan' is not a number"),
        (["--fits", "1e30"], "more than any model has"),
        (["--fits", "1M", "--activations", "x"], "'x' is not a number"),
        (["--fits", "1M", "--batch", "0"], "--batch"),
        (["--fits", "1M", "--dtype", "fp3"], "fp32"),
        (["--fits", "1M", "--dtype", "int8"], "--optimizer none"),
        (["--fits", "0"], "at least one weight"),
        (["--batch", "8"], "add --fits"),
        (["--activation-copies", "1"], "--activation-copies describes a job: add --fits"),
        (["--timeout", "0"], "0.1"),
    ],
)
def test_invalid_options_are_usage_errors(options: list[str], words: str) -> None:
    done = here(*options)
    assert done.returncode == 2
    assert words in done.stdout + done.stderr


def test_another_file_is_not_overwritten(tmp_path: Path) -> None:
    other = tmp_path / "notes.csv"
    other.write_text("a,b\n")
    done = here("--csv", str(other))
    assert (done.returncode, other.read_text()) == (2, "a,b\n")
    assert "is another table" in done.stderr
