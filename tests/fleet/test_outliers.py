"""Hosts that differ from those of their kind, without a golden host: lost GPUs first."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from envcheck.fleet.report import HostRow, choose_verdict, group_rows, judge_folder
from envcheck.fleet.results import HostResult, write_result
from envcheck.matrix import load_matrix
from envcheck.model import Absent, Known, Snapshot, Source, Unknown, replace
from envcheck.render.fleet import describe_fleet
from envcheck.render.text import print_document
from envcheck.rules import Target
from tests.hosts.test_hosts import snapshot_of

EPYC, XEON = "AMD EPYC 7742", "Intel Xeon E5-2680"


def machine(
    gpus: int | None, processor: str = EPYC, *, name: str = "", driver: str = ""
) -> Snapshot:
    """Return a working machine with `gpus` GPUs; None: how many is unknown."""
    snapshot = snapshot_of("torch-wheels-need-no-toolkit")
    facts, source = snapshot.facts, Source("file", "composed")
    assert facts.gpus.value is not None
    model = replace(facts.gpus.value[0], name=Known(name, source)) if name else facts.gpus.value[0]
    found: Any = (
        Unknown("denied", "no")
        if gpus is None
        else Known((model,) * gpus, source)
        if gpus
        else Absent(())
    )
    release = Known(driver, source) if driver else facts.driver.release
    return replace(
        snapshot,
        facts=replace(
            facts,
            gpus=found,
            host=replace(facts.host, cpu_model=Known(processor, source)),
            driver=replace(facts.driver, release=release),
        ),
    )


def judge(
    folder: Path,
    machines: dict[str, Snapshot],
    expect: str = "auto",
    *requirements: str,
    golden: str = "",
) -> dict[str, HostRow]:
    for host, snapshot in machines.items():
        write_result(folder, HostResult(host, snapshot))
    return {
        row.host: row
        for row in judge_folder(folder, load_matrix(), Target(expect, requirements), golden)
    }


def fleet_of(count: int, gpus: int, **others: Snapshot) -> dict[str, Snapshot]:
    return {**{f"gpu{number:03}": machine(gpus) for number in range(count)}, **others}


@pytest.mark.parametrize(
    ("usual", "left", "cause", "message"),
    [
        (1, 0, "gpu-absent", "No NVIDIA GPU found; 6 of the 7 hosts like it have 1."),
        (2, 1, "gpu-hardware-fault", "1 NVIDIA GPU found; 6 of the 7 hosts like it have 2."),
        (8, 7, "gpu-hardware-fault", "7 NVIDIA GPUs found; 6 of the 7 hosts like it have 8."),
    ],
)
def test_a_host_with_fewer_gpus_than_most_is_the_first_row(
    usual: int, left: int, cause: str, message: str, tmp_path: Path
) -> None:
    rows = judge(tmp_path, fleet_of(6, usual, gpu006=machine(left)))
    assert [host for host, row in rows.items() if row.verdict != "compatible"] == ["gpu006"]
    first = next(iter(rows.values()))
    assert (first.host, first.verdict, first.cause, first.message) == (
        "gpu006",
        "incompatible",
        cause,
        message,
    )
    assert first.fix is not None
    assert "PCI bus" in first.fix.summary
    assert choose_verdict(rows.values()) == "incompatible"


def test_lost_gpus_come_before_a_larger_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = {f"old{number}": snapshot_of("driver-470-for-cuda-12") for number in range(5)}
    rows = list(judge(tmp_path, {**fleet_of(3, 2, gpu004=machine(1)), **broken}).values())
    first = group_rows(rows)[0]
    assert (first.cause, first.hosts) == ("gpu-hardware-fault", ("gpu004",))
    print_document(describe_fleet(rows), color=False)
    total, _, group = capsys.readouterr().out.partition("\n\n")
    assert total.startswith("INCOMPATIBLE  9 hosts: ")
    assert group.startswith("INCOMPATIBLE  gpu-hardware-fault: 1 host\n  1 NVIDIA GPU found; 3 of")


@pytest.mark.parametrize(
    "machines",
    [
        {"gpu1": machine(2), "gpu2": machine(2), "login1": machine(0)},  # another kind, by its name
        # by its processor
        {"gpu1": machine(2), "gpu2": machine(2), "gpu3": machine(2), "gpu4": machine(0, XEON)},
        # no size is usual
        {"gpu1": machine(2), "gpu2": machine(2), "gpu3": machine(1), "gpu4": machine(1)},
        {
            "gpu1": machine(2),
            "gpu2": machine(2),
            "gpu3": machine(2),
            "gpu4": machine(1, name="NVIDIA L40S"),
        },
        # one has more
        {"gpu1": machine(0), "gpu2": machine(0), "gpu3": machine(0), "gpu4": machine(1)},
        {"gpu1": machine(2), "gpu2": machine(1)},
    ],
)
def test_hosts_of_another_kind_have_lost_nothing(
    machines: dict[str, Snapshot], tmp_path: Path
) -> None:
    assert [row.host for row in judge(tmp_path, machines).values() if row.lost_gpus] == []


def test_names_of_their_own_are_alike_by_processor(tmp_path: Path) -> None:
    rows = judge(
        tmp_path, {name: machine(2) for name in ("anna", "bert", "carla")} | {"dora": machine(0)}
    )
    assert [row.host for row in rows.values() if row.lost_gpus] == ["dora"]


def test_unknown_gpus_and_work_on_the_cpu_report_no_lost_gpu(tmp_path: Path) -> None:
    unknown = judge(tmp_path, fleet_of(4, 2, gpu004=machine(None)))
    assert not unknown["gpu004"].lost_gpus
    assert not any(
        row.lost_gpus for row in judge(tmp_path, fleet_of(4, 2, gpu004=machine(0)), "cpu").values()
    )


def test_outliers_show_without_a_golden_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = judge(tmp_path, fleet_of(5, 2, gpu005=machine(2, driver="535.54.03")))
    assert [host for host, row in rows.items() if row.drift] == ["gpu005"]
    (drift,) = rows["gpu005"].drift
    assert re.fullmatch(r"Driver: 535\.54\.03 .*; 5 of the 6 hosts like it: 550\..*", drift)
    print_document(describe_fleet(list(rows.values())), color=False)
    assert (
        "Driver differs:\n  5 of the 6 hosts: 550.163.01 (proprietary kernel module), runs CUDA up to"
        " 12.4\n  gpu005: 535.54.03 " in capsys.readouterr().out
    )


def test_the_spelling_of_a_gpu_is_no_drift(tmp_path: Path) -> None:
    machines = {
        "a": machine(2, name="NVIDIA A100-SXM4-40GB"),
        "b": machine(2, name="A100 SXM4 40GB"),
    }
    assert [row.drift for row in judge(tmp_path, machines, golden="a").values()] == [(), ()]


def test_each_message_stands_with_its_own_hosts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = snapshot_of("driver-470-for-cuda-12")
    older = replace(
        old,
        facts=replace(
            old.facts,
            driver=replace(old.facts.driver, release=Known("418.226.00", Source("file", "x"))),
        ),
    )
    rows = list(judge(tmp_path, {"a": old, "b": old, "c": older}, "auto", "torch==2.6.0").values())
    (group,) = group_rows(rows)
    assert [hosts for _, hosts in group.messages] == [("a", "b"), ("c",)]
    assert "418.226.00" in group.messages[1][0]
    assert "418.226.00" not in group.message
    print_document(describe_fleet(rows), color=False)
    assert f"  {group.messages[1][0]}\n  c\n" in capsys.readouterr().out


def test_a_host_whose_nvidia_smi_hangs_does_not_simply_work(tmp_path: Path) -> None:
    works = snapshot_of("docker-with-gpu")
    hangs = Unknown("timeout", "/usr/bin/nvidia-smi: no answer within 2.0 s")
    driver = replace(works.facts.driver, smi_exit_code=hangs, nvml_result=hangs)
    row = judge(tmp_path, {"gpu001": replace(works, facts=replace(works.facts, driver=driver))})[
        "gpu001"
    ]
    assert (row.verdict, row.cause) == ("compatible", "probe-failed")
    assert "nvidia-smi: no answer" in row.message
