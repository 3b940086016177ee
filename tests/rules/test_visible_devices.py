"""What CUDA_VISIBLE_DEVICES and NVIDIA_VISIBLE_DEVICES leave visible."""

from __future__ import annotations

import pytest

from envcheck.model import COMPATIBLE, ERROR, INCOMPATIBLE, NOTE, UNDETERMINED
from envcheck.rules.context import UndecidedError
from envcheck.rules.gpu_releases import select_devices
from tests.rules.factory_machine import (
    NONE,
    UNREAD,
    build,
    context,
    driver,
    gpu,
    known,
    nodes,
    only,
    run,
    split_gpu,
)
from tests.typed import argv

UUIDS = ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-8a000000-d72c-4106-c12f-20bd9faed9f7")
ID = "visible-devices-hidden"


@pytest.mark.parametrize(
    ("value", "visible"),
    [
        ("0", (0,)),
        ("1,0", (1, 0)),
        ("0, 1", (0, 1)),
        (" 1 ,0", (1, 0)),
        ("+1", (1,)),
        ("", ()),
        ("  ", ()),
        ("-1", ()),
        ("-1,0", ()),
        ("0,-1,1", (0,)),
        ("0,,1", (0,)),
        ("0,", (0,)),
        ("2", ()),
        ("12, 13", ()),
        ("0,2,1", (0,)),
        ("O,l", ()),
        ("all", ()),
        ("NoDevFiles", ()),
        ("0,l", (0,)),
        ("0,0", ()),
        ("1,0,1", ()),
        ("99999999999999999999", ()),
        ("GPU-8932f937", (0,)),
        ("GPU-8a,GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", (1, 0)),
        ("GPU-8", ()),
        ("GPU-ffff", ()),
        ("GPU-8a,GPU-ffff,GPU-89", (1,)),
        ("GPU-8a,GPU-8a00", ()),
    ],
)
def test_documented_forms(value: str, visible: tuple[int, ...]) -> None:
    selection = select_devices(value, UUIDS, ((), ()))
    assert selection.decided
    assert selection.visible == visible
    assert bool(selection.why) == (len(visible) < len(value.split(",")))


def test_blanks_work_where_there_are_enough_gpus() -> None:
    assert select_devices("12, 13", ("GPU-x",) * 16, ((),) * 16).visible == (12, 13)


@pytest.mark.parametrize(
    "value", ["0 1", "0;1", "0x1", "1.0", "0,GPU-8932f937", "MIG-a,0", "gpu-8932f937", "mig-1"]
)
def test_undocumented_forms_are_not_decided(value: str) -> None:
    assert not select_devices(value, UUIDS, ((), ())).decided


def test_unknown_uuids_are_not_decided() -> None:
    assert not select_devices("GPU-8932f937", (UUIDS[0], ""), ((), ())).decided


def test_mig_instances_are_chosen_by_their_uuid() -> None:
    instances = (("MIG-1", "MIG-2"), ())
    assert select_devices("MIG-2", UUIDS, instances).visible == (0,)
    assert select_devices("MIG-9", UUIDS, instances).visible == ()
    assert select_devices("MIG-9", UUIDS, instances).decided
    assert not select_devices("MIG-9", UUIDS, ((), ())).decided
    assert not select_devices("MIG-GPU-8932f937/1/0", UUIDS, instances).decided


def test_an_unset_variable_hides_nothing() -> None:
    assert run(ID, context(gpu())) == []


@pytest.mark.parametrize("value", ["O,l", "-1", "", "3", "0,0"])
def test_hiding_every_gpu_is_an_error(value: str) -> None:
    found = only(ID, context(gpu(), host={"environment": known({"CUDA_VISIBLE_DEVICES": value})}))
    assert (found.verdict, found.severity) == (INCOMPATIBLE, ERROR)
    assert repr(value) in found.message
    assert found.fix is not None
    assert argv(found.fix.actions[0]) == ("unset", "CUDA_VISIBLE_DEVICES")


def test_windows_unsets_in_its_own_way() -> None:
    host = {"environment": known({"CUDA_VISIBLE_DEVICES": "2"}), "os": known("windows")}
    fix = only(ID, context(gpu(), host=host)).fix
    assert fix is not None
    assert argv(fix.actions[0], "windows") == ("set", "CUDA_VISIBLE_DEVICES=")


def test_hiding_one_of_two_is_a_note() -> None:
    environment = known({"CUDA_VISIBLE_DEVICES": "1"})
    found = only(ID, context(gpu(), gpu(index=1), host={"environment": environment}))
    assert (found.verdict, found.severity) == (COMPATIBLE, NOTE)


def test_a_full_list_is_no_finding() -> None:
    environment = known({"CUDA_VISIBLE_DEVICES": "0, 1"})
    assert run(ID, context(gpu(), gpu(index=1), host={"environment": environment})) == []


def test_an_undocumented_form_is_undetermined() -> None:
    found = only(ID, context(gpu(), host={"environment": known({"CUDA_VISIBLE_DEVICES": "0;1"})}))
    assert (found.verdict, found.severity) == (UNDETERMINED, ERROR)


def test_gpus_that_nvml_does_not_list_have_no_number() -> None:
    unlisted = gpu(index=1, nvml_index=NONE)
    found = only(
        ID, context(gpu(), unlisted, host={"environment": known({"CUDA_VISIBLE_DEVICES": "1"})})
    )
    assert "there is only GPU 0" in found.message


def test_a_mig_instance_counts_as_its_gpu() -> None:
    environment = known({"CUDA_VISIBLE_DEVICES": "MIG-1"})
    assert run(ID, context(split_gpu("MIG-1"), host={"environment": environment})) == []


def test_without_a_gpu_nothing_is_hidden() -> None:
    assert run(ID, context(host={"environment": known({"CUDA_VISIBLE_DEVICES": ""})})) == []


def test_unread_facts_are_undetermined() -> None:
    with pytest.raises(UndecidedError, match=r"host\.environment"):
        run(ID, context(gpu(), host={"environment": UNREAD}))
    with pytest.raises(UndecidedError, match="gpus"):
        run(ID, context(gpus=UNREAD, host={"environment": known({"CUDA_VISIBLE_DEVICES": "0"})}))


DOCKER = {"container": known("docker")}


@pytest.mark.parametrize("value", ["", "void", "none"])
def test_a_container_told_to_hand_in_nothing(value: str) -> None:
    host = {**DOCKER, "environment": known({"NVIDIA_VISIBLE_DEVICES": value})}
    found = only(ID, context(gpu(), driver=driver(device_nodes=NONE), host=host, builds=(build(),)))
    assert found.severity == ERROR
    assert "NVIDIA_VISIBLE_DEVICES" in found.message
    assert only(ID, context(gpu(), driver=driver(device_nodes=NONE), host=host)).severity == NOTE


def test_what_a_container_was_told_counts_where_its_devices_were_not_read() -> None:
    host = {**DOCKER, "environment": known({"NVIDIA_VISIBLE_DEVICES": "void"})}
    silent = driver(device_nodes=UNREAD, nvml_result=UNREAD, cuda_init_result=UNREAD)
    assert only(ID, context(gpu(), driver=silent, host=host, builds=(build(),))).severity == ERROR
    working = driver(device_nodes=UNREAD, cuda_init_result=known(0))
    assert run(ID, context(gpu(), driver=working, host=host, builds=(build(),))) == []


@pytest.mark.parametrize("value", ["all", "0"])
def test_a_container_told_to_hand_in_gpus_is_not_at_fault(value: str) -> None:
    host = {**DOCKER, "environment": known({"NVIDIA_VISIBLE_DEVICES": value})}
    assert run(ID, context(gpu(), driver=driver(device_nodes=NONE), host=host)) == []


def test_the_container_variable_means_nothing_where_gpus_are_there_or_nobody_asks() -> None:
    host = {**DOCKER, "environment": known({"NVIDIA_VISIBLE_DEVICES": "void"})}
    assert run(ID, context(gpu(), host=host)) == []
    assert run(ID, context(driver=driver(device_nodes=NONE), host=host)) == []
    assert run(ID, context(gpu(), driver=driver(device_nodes=NONE), host=host, expect="cpu")) == []
    assert (
        only(
            ID, context(driver=driver(device_nodes=nodes("ctl")), host=host, expect="gpu")
        ).severity
        == ERROR
    )
