"""Processes on each GPU, also those hidden from nvidia-smi, and the command that ends each."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.gpus.holders import (
    GpuView,
    Holder,
    build_views,
    has_unexplained_memory,
    list_blind_spots,
    list_free,
    list_reported_pids,
)
from envcheck.gpus.listing import choose_free
from envcheck.model import Absent, GpuActivity, ProcessInfo, ProcessScan
from tests.gpus.made import GIB, GONE, gpu, known, lost, process, scan

TRAINER = ((4242, "python3", 8 * GIB),)


def view(activity: GpuActivity, seen: ProcessScan, system: str = "linux") -> GpuView:
    return build_views((activity,), seen, system)[0]


def only(activity: GpuActivity, seen: ProcessScan, system: str = "linux") -> Holder:
    (holder,) = view(activity, seen, system).holders
    return holder


def test_an_own_trainer_is_ended_by_kill() -> None:
    holder = only(
        gpu(processes=TRAINER), scan(process(4242, command_line="python3 train.py --key secret"))
    )
    assert (holder.name, holder.listed, holder.seen, holder.ending.state) == (
        "python3",
        True,
        True,
        "running",
    )
    assert holder.ending.argv == ("kill", "4242")
    assert holder.memory_bytes.value == 8 * GIB


def test_a_trainer_that_opened_every_gpu_is_listed_where_it_computes() -> None:
    everywhere = process(4242, devices=("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"))
    first, second = build_views((gpu(processes=TRAINER), gpu(1)), scan(everywhere), "linux")
    assert [[holder.pid for holder in one.holders] for one in (first, second)] == [[4242], []]
    # listed nowhere: it may hold either
    first, second = build_views((gpu(), gpu(1)), scan(everywhere), "linux")
    assert [[holder.pid for holder in one.holders] for one in (first, second)] == [[4242], [4242]]


def test_a_process_that_nvml_hides_is_found_by_its_open_device() -> None:
    shown = view(
        gpu(minor=3, processes=TRAINER), scan(process(4242), process(77, devices=("/dev/nvidia3",)))
    )
    hidden = shown.holders[0]
    assert (hidden.pid, hidden.listed) == (77, False)
    assert isinstance(hidden.memory_bytes, Absent)
    assert [holder.pid for holder in shown.holders] == [77, 4242]
    elsewhere = view(gpu(minor=3), scan(process(77, devices=("/dev/nvidia0", "/dev/nvidiactl"))))
    assert elsewhere.holders == ()
    in_wsl = view(gpu(), scan(process(77, devices=("/dev/dxg",))))
    assert [holder.pid for holder in in_wsl.holders] == [77]


@pytest.mark.parametrize(
    ("changes", "seen", "state", "argv", "remark"),
    [
        ({"owner": 1001}, {}, "running", "sudo kill 4242", ""),
        ({"owner": 1001}, {"own_user": 0}, "running", "kill 4242", ""),
        ({"parent": 1}, {}, "orphaned", "kill 4242", "Its parent process has ended"),
        ({"container": "0123456789ab"}, {}, "running", "kill 4242", "container 0123456789ab"),
        ({"state": "Z"}, {}, "zombie", "kill 900", "its parent, process 900"),
        (
            {"state": "Z", "parent": 1},
            {},
            "zombie",
            "sudo nvidia-smi --gpu-reset -i 0",
            "ends all work on this GPU",
        ),
        ({"state": "D"}, {}, "stuck", "", "only a reboot"),
        (
            {"name": "nvidia-persiste"},
            {},
            "service",
            "sudo systemctl stop nvidia-persistenced",
            "keeps the driver",
        ),
        ({"name": "Xorg"}, {}, "service", "", "draws the desktop"),
        (
            {"name": "nv-hostengine"},
            {"own_user": 0},
            "service",
            "systemctl stop nvidia-dcgm",
            "DCGM",
        ),
        (
            {"state": "Z", "parent": 1},
            {"own_user": 0},
            "zombie",
            "nvidia-smi --gpu-reset -i 0",
            "ends all work",
        ),
    ],
)
def test_each_kind_of_process_has_its_own_ending(
    changes: dict[str, Any], seen: dict[str, Any], state: str, argv: str, remark: str
) -> None:
    ending = only(gpu(processes=TRAINER), scan(process(4242, **changes), **seen)).ending
    assert (ending.state, " ".join(ending.argv)) == (state, argv)
    assert remark in ending.remark


def test_the_first_process_is_never_ended() -> None:
    ending = only(gpu(processes=((1, "init", GIB),)), scan(process(1))).ending
    assert (ending.state, ending.argv) == ("service", ())


def test_a_dead_trainer_that_the_driver_still_lists() -> None:
    holder = only(gpu(2, processes=TRAINER), scan())
    assert (holder.seen, holder.ending.state) == (False, "dead")
    assert holder.ending.argv == ("sudo", "nvidia-smi", "--gpu-reset", "-i", "2")


def test_a_process_outside_this_pid_namespace_is_ended_on_the_host() -> None:
    outside = only(gpu(processes=TRAINER), scan(isolated=True)).ending
    assert (outside.state, "on the host" in outside.remark) == ("outside", True)
    namesake = only(
        gpu(processes=TRAINER), scan(process(4242, name="bash", devices=()), isolated=True)
    )
    # the driver's number, another process
    assert (namesake.name, namesake.ending.state) == ("python3", "outside")
    hidden = only(gpu(processes=TRAINER), scan(hides_others=True)).ending
    assert (hidden.state, hidden.argv) == ("outside", ("sudo", "kill", "4242"))


def test_windows_ends_processes_with_taskkill() -> None:
    assert only(gpu(processes=TRAINER), scan(), "windows").ending.argv == (
        "taskkill",
        "/F",
        "/PID",
        "4242",
    )


def test_memory_that_no_listed_process_holds() -> None:
    unexplained = view(gpu(used=10 * GIB), scan())
    assert has_unexplained_memory(unexplained)
    assert unexplained.unaccounted_bytes.value == 10 * GIB
    little: dict[str, Any] = {"used": 8 * GIB + (200 << 20), "processes": TRAINER}
    assert not has_unexplained_memory(view(gpu(**little), scan()))
    more = {**little, "used": 8 * GIB + (600 << 20)}
    assert has_unexplained_memory(view(gpu(**more), scan()))
    # the driver counts its own as used
    assert not has_unexplained_memory(view(gpu(**more, reserved=GONE), scan()))
    assert view(gpu(used=GIB, processes=TRAINER), scan()).unaccounted_bytes.value == 0
    unknown = view(gpu(processes=((4242, "python3", 0),)), scan())
    assert isinstance(unknown.unaccounted_bytes, Absent)
    assert view(lost(), scan()).unaccounted_bytes == GONE


def test_processes_listed_on_any_gpu() -> None:
    assert list_reported_pids(
        (gpu(processes=TRAINER), gpu(1, processes=((7, "x", 0),)), lost(2))
    ) == {7, 4242}


def test_blind_spots_are_listed() -> None:
    assert list_blind_spots((gpu(),), scan(), "linux") == ()
    text = " ".join(
        list_blind_spots((), scan(unreadable=12, isolated=True, hides_others=True), "windows")
    )
    assert [words in text for words in ("12 processes", "namespace", "hidepid", "no /proc")] == [
        True
    ] * 4


def test_a_list_of_processes_that_was_not_read_is_told() -> None:
    (said,) = list_blind_spots((gpu(processes_fact=GONE), lost(1)), scan(), "linux")
    assert said.startswith(
        "The driver did not list its processes (NVML (fake): GPU is lost (15)): only those"
    )


IDLE: dict[str, Any] = {"used": 3 << 20, "uuid": known("GPU-idle")}
HALF_GIB = 512 << 20


@pytest.mark.parametrize(
    ("activity", "processes", "is_free"),
    [
        (gpu(**IDLE), (), True),
        (
            gpu(**{**IDLE, "used": HALF_GIB}, processes=((4242, "python3", HALF_GIB),)),
            (process(4242),),
            False,
        ),
        (gpu(**IDLE), (process(4242),), False),  # open, and hidden from the driver's list
        (gpu(**{**IDLE, "used": HALF_GIB}), (), False),  # memory of nobody
        (
            gpu(**{**IDLE, "used": HALF_GIB}, processes=((9, "Xorg", HALF_GIB),)),
            (process(9, name="Xorg"),),
            True,
        ),
        (gpu(**IDLE, compute_mode=known("prohibited")), (), False),
        (gpu(**IDLE, processes_fact=GONE), (), False),  # not known is not free
        (lost(), (), False),
        # its instances are what programs use
        (gpu(**IDLE, instances=((6 * GIB, GIB),)), (), False),
    ],
)
def test_a_gpu_is_free_where_nothing_uses_it(
    activity: GpuActivity, processes: tuple[ProcessInfo, ...], is_free: bool
) -> None:
    assert list_free(build_views((activity,), scan(*processes), "linux")) == (
        ("GPU-idle",) if is_free else ()
    )


def test_free_gpus_are_chosen_the_emptiest_first() -> None:
    small, large = (
        gpu(0, used=0, total=8 * GIB, uuid=known("GPU-small")),
        gpu(1, used=0, uuid=known("GPU-large")),
    )
    views = build_views((small, large), scan(), "linux")
    assert choose_free(views, 1) == ("GPU-large",)
    assert choose_free(views, 2) == ("GPU-large", "GPU-small")
    assert choose_free(views, 3) == ("GPU-large", "GPU-small")


def test_one_mig_instance_is_chosen_where_no_whole_gpu_is_free() -> None:
    views = build_views(
        (gpu(instances=((6 * GIB, GIB), (6 * GIB, 1 << 20), (12 * GIB, 0))),), scan(), "linux"
    )
    assert choose_free(views, 1) == ("MIG-2",)
    assert choose_free(views, 2) == ()  # CUDA uses one instance only
