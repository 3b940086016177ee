"""What a container was given, and who may open the device nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envcheck.model import (
    COMPATIBLE,
    ERROR,
    NOTE,
    DeviceNode,
    Known,
    Source,
    ToolkitFacts,
    ToolkitInstall,
)
from envcheck.rules import Context, Target, evaluate
from envcheck.rules.context import UndecidedError
from tests.rules.factory_machine import (
    NO_DRIVER,
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
)
from tests.typed import argv

ID, NODES = "driver-not-in-container", "driver-device-nodes"
DOCKER = {"container": known("docker")}
EMPTY = driver(
    **{**NO_DRIVER, "kernel_module_version": known("550.163.01"), "release": known("550.163.01")}
)
TORCH = build()


def asks(value: str) -> dict[str, Any]:
    return {**DOCKER, "environment": known({"NVIDIA_VISIBLE_DEVICES": value})}


def test_a_container_without_its_hosts_gpu() -> None:
    assert only(ID, context(gpu(), driver=EMPTY, host=DOCKER, builds=(TORCH,))).severity == ERROR
    assert only(ID, context(gpu(), driver=EMPTY, host=asks("all"))).severity == ERROR
    assert only(ID, context(gpu(), driver=EMPTY, host=DOCKER, expect="gpu")).severity == ERROR
    toolkit = ToolkitFacts(installs=known((ToolkitInstall("/usr/local/cuda", "usr-local"),)))
    assert only(ID, context(gpu(), driver=EMPTY, host=DOCKER, toolkits=toolkit)).severity == ERROR


def test_a_machine_that_is_stated_is_not_the_container_it_is_judged_in() -> None:
    stated = Known("8.0", Source("override", "ENVCHECK_COMPUTE_CAPABILITIES", "8.0"))
    release = Known("580.65.06", Source("override", "ENVCHECK_DRIVER_RELEASE", "580.65.06"))
    on_it = replace(EMPTY, release=release)
    there = gpu(capability=stated.value)
    assert only(ID, context(there, driver=on_it, host=DOCKER, expect="gpu")).severity == ERROR
    there = replace(there, compute_capability=stated)
    assert ID not in {
        item.id
        for item in evaluate(context(there, driver=on_it, host=DOCKER, expect="gpu")).findings
    }


CPU_ONLY = build("2.7.1+cpu", cuda_build=known(False))


def test_a_container_left_without_a_gpu_does_cpu_work() -> None:
    assert context(gpu(), driver=EMPTY, host=DOCKER, builds=(CPU_ONLY,)).goal == "cpu"
    assert context(gpu(), driver=EMPTY, host=asks("void")).goal == "cpu"
    assert (
        evaluate(context(gpu(), driver=EMPTY, host=DOCKER, builds=(CPU_ONLY,))).verdict
        == COMPATIBLE
    )


@pytest.mark.parametrize(
    "change",
    [
        {"builds": (TORCH,)},
        {"builds": (CPU_ONLY,), "expect": "gpu"},
        {"host": asks("all")},
        {"host": {}},
        {"host": {**DOCKER, "jetson_release": known("R36.3.0")}},
        {"driver": driver()},
        {"driver": replace(EMPTY, device_nodes=UNREAD)},
        {"driver": replace(EMPTY, device_nodes=nodes("0", "ctl"))},
        {
            "toolkits": ToolkitFacts(
                installs=known((ToolkitInstall("/usr/local/cuda", "usr-local"),))
            )
        },
    ],
)
def test_what_asks_for_the_hosts_gpu(change: dict[str, Any]) -> None:
    assert context(gpu(), **{"driver": EMPTY, "host": DOCKER, **change}).goal == "gpu"


def test_a_request_asks_for_a_gpu_too() -> None:
    judged = context(gpu(), driver=EMPTY, host=DOCKER)
    asked = Context(judged.facts, judged.matrix, Target("auto", ("torch==2.7.1",)))
    assert only(ID, asked).severity == ERROR


def test_nothing_that_asks_makes_it_a_note() -> None:
    found = only(ID, context(gpu(), driver=EMPTY, host=DOCKER))
    assert (found.verdict, found.severity) == (COMPATIBLE, NOTE)


def test_a_container_whose_host_has_no_gpu_lacks_nothing() -> None:
    bare = driver(**NO_DRIVER)
    for host in (DOCKER, asks("all"), asks("void")):
        assert run(ID, context(driver=bare, host=host, builds=(TORCH,))) == []
        assert run(ID, context(driver=bare, host=host, expect="gpu")) == []
        assert context(driver=bare, host=host).goal == "cpu"


def test_in_wsl_no_container_sees_what_the_host_has() -> None:
    bare = driver(**NO_DRIVER)
    assert (
        only(ID, context(driver=bare, host={**asks("all"), "wsl_version": known(2)})).severity
        == ERROR
    )
    assert context(driver=bare, host={**asks("all"), "wsl_version": known(2)}).goal == "gpu"
    assert (
        run(
            ID,
            context(driver=bare, host={**asks("void"), "wsl_version": known(2)}, builds=(TORCH,)),
        )
        == []
    )


def test_a_container_with_the_gpu_is_fine() -> None:
    assert run(ID, context(gpu(), host=DOCKER, builds=(TORCH,))) == []
    assert (
        run(
            ID, context(gpu(), driver=driver(cuda_init_result=UNREAD), host=DOCKER, builds=(TORCH,))
        )
        == []
    )


def test_outside_a_container_and_for_cpu_work_it_is_silent() -> None:
    assert run(ID, context(gpu(), driver=EMPTY, builds=(TORCH,))) == []
    assert run(ID, context(gpu(), driver=EMPTY, host=DOCKER, builds=(TORCH,), expect="cpu")) == []


def test_wsl_hands_its_library_in_without_nodes() -> None:
    path = known("/usr/lib/wsl/drivers/nv_dispi.inf_amd64/libcuda.so.1.1")
    handed = driver(libcuda_path=path, device_nodes=NONE, cuda_init_result=UNREAD)
    assert run(ID, context(gpu(), driver=handed, host=DOCKER, builds=(TORCH,))) == []


def test_devices_without_the_library() -> None:
    bare = driver(libcuda_path=NONE, cuda_init_result=NONE)
    limited = {**DOCKER, "environment": known({"NVIDIA_DRIVER_CAPABILITIES": "utility"})}
    assert (
        "leaves out compute"
        in only(ID, context(gpu(), driver=bare, host=limited, builds=(TORCH,))).message
    )
    assert (
        "libcuda.so.1."
        in only(ID, context(gpu(), driver=bare, host=DOCKER, builds=(TORCH,))).message
    )
    assert run(ID, context(gpu(), driver=bare, host=DOCKER)) == []


def test_unread_nodes_are_undetermined() -> None:
    unread = driver(device_nodes=UNREAD, cuda_init_result=UNREAD)
    with pytest.raises(UndecidedError, match="device_nodes"):
        run(ID, context(gpu(), driver=unread, host=DOCKER, builds=(TORCH,)))


@pytest.mark.parametrize(
    ("kind", "program"),
    [
        ("podman", "sudo"),
        ("apptainer", "apptainer"),
        ("lxc", "lxc"),
        ("docker", "sudo"),
        ("other", "sudo"),
    ],
)
def test_the_fix_fits_the_kind_of_container(kind: str, program: str) -> None:
    fix = only(
        ID, context(gpu(), driver=EMPTY, host={"container": known(kind)}, builds=(TORCH,))
    ).fix
    assert fix is not None
    assert argv(fix.actions[0])[0] == program
    assert {command.scope for command in fix.actions} == {"system"}


@pytest.mark.parametrize(
    ("visible", "has_devices", "words"),
    [
        (None, False, "resources: limits: nvidia.com/gpu: 1"),
        ("all", False, "resources: limits: nvidia.com/gpu: 1"),  # of an image
        (
            "GPU-8a6e5bb2-0000-0000-0000-000000000000",
            False,
            "runtimeClassName: nvidia in the pod: ",
        ),
        ("/var/run/nvidia-container-devices", False, "runtimeClassName: nvidia in the pod: "),
        ("GPU-8a6e5bb2-0000-0000-0000-000000000000", True, "NVIDIA_DRIVER_CAPABILITIES=compute"),
    ],
)
def test_a_pod_is_told_what_it_lacks(visible: str | None, has_devices: bool, words: str) -> None:
    given = {} if visible is None else {"environment": known({"NVIDIA_VISIBLE_DEVICES": visible})}
    reached = driver(libcuda_path=NONE, cuda_init_result=NONE) if has_devices else EMPTY
    pod = {"container": known("kubernetes"), **given}
    fix = only(ID, context(gpu(), driver=reached, host=pod, builds=(TORCH,))).fix
    assert fix is not None
    assert words in fix.summary
    assert fix.actions == (), "nothing is typed inside a pod"


def failing(code: int = 999, **more: Any) -> Any:
    return driver(**{"cuda_init_result": known(code), **more})


def test_a_missing_uvm_node_matters_once_cuda_fails() -> None:
    no_uvm = nodes("0", "ctl")
    found = only(NODES, context(gpu(), driver=failing(device_nodes=no_uvm)))
    assert "/dev/nvidia-uvm is missing" in found.message
    assert (
        run(NODES, context(gpu(), driver=driver(device_nodes=no_uvm, uvm_loaded=known(False))))
        == []
    )
    assert (
        "nvidia0"
        in only(
            NODES, context(gpu(), driver=failing(100, device_nodes=nodes("ctl", "-uvm")))
        ).message
    )


def test_the_control_node_alone_proves_nothing() -> None:
    only_control = failing(100, device_nodes=nodes("ctl"))
    assert only(NODES, context(gpu(), driver=only_control)).severity == ERROR


def test_a_node_closed_to_this_user() -> None:
    closed = failing(100, device_nodes=nodes("0", "ctl", "-uvm", closed="0"))
    found = only(NODES, context(gpu(), driver=closed))
    assert "root:video" in found.message
    caps = failing(
        100, device_nodes=nodes("0", "ctl", "-uvm", "-caps/nvidia-cap1", closed="-caps/nvidia-cap1")
    )
    assert run(NODES, context(gpu(), driver=caps)) == []


def test_an_unread_access_is_not_held_against_a_node() -> None:
    untold = known((DeviceNode("/dev/nvidia0", UNREAD), *(nodes("ctl", "-uvm").value or ())))
    assert run(NODES, context(gpu(), driver=failing(100, device_nodes=untold))) == []


def test_an_unknown_error_with_all_nodes_wants_the_module_reloaded() -> None:
    fix = only(NODES, context(gpu(), driver=failing())).fix
    assert fix is not None
    assert ("sudo", "modprobe", "-r", "nvidia_uvm") in [argv(command) for command in fix.actions]


def test_in_a_container_the_host_has_to_act() -> None:
    fix = only(
        NODES, context(gpu(), driver=failing(device_nodes=nodes("0", "ctl")), host=DOCKER)
    ).fix
    assert fix is not None
    assert "/dev/nvidia-uvm" in fix.summary


def test_nodes_are_not_judged_elsewhere() -> None:
    for host in ({"wsl_version": known(2)}, {"jetson_release": known("R36.3.0")}):
        assert run(NODES, context(gpu(), driver=failing(device_nodes=NONE), host=host)) == []
    assert (
        run(NODES, context(gpu(nvml_index=NONE), driver=failing(device_nodes=NONE), host=DOCKER))
        == []
    )


def test_an_unread_start_is_undetermined() -> None:
    with pytest.raises(UndecidedError, match="cuda_init_result"):
        run(NODES, context(gpu(), driver=driver(cuda_init_result=UNREAD)))
    with pytest.raises(UndecidedError, match="device_nodes"):
        run(NODES, context(gpu(), driver=failing(device_nodes=UNREAD)))


def stuck(init: int, nvml: int = 0, *names: str) -> Any:
    found = nodes(*(names or ("0", "ctl", "-uvm")))
    return driver(cuda_init_result=known(init), nvml_result=known(nvml), device_nodes=found)


def test_a_container_that_lost_its_devices() -> None:
    found = only(NODES, context(gpu(), driver=stuck(100, 999), host=DOCKER))
    assert found.fix is not None
    assert argv(found.fix.actions[0])[:2] == ("docker", "restart")
    job = only(NODES, context(gpu(), driver=stuck(100, 999)))
    assert "job" in job.message


def test_the_second_gpus_node_will_do() -> None:
    assert run(NODES, context(gpu(), driver=stuck(100, 0, "1", "ctl", "-uvm"), host=DOCKER)) == []
    found = only(NODES, context(gpu(), driver=stuck(100, 0, "1", "ctl"), host=DOCKER))
    assert "/dev/nvidia-uvm" in found.message


def test_a_gpu_on_the_bus_that_the_driver_does_not_list() -> None:
    found = only("driver-missing", context(gpu(nvml_index=NONE), driver=stuck(100)))
    assert "lists no GPU" in found.message
    assert "nothing else" in only("driver-missing", context(gpu(), driver=stuck(100))).message


def test_a_build_without_cuda_is_no_reason_why_cuda_does_not_start() -> None:
    judged = context(gpu(), driver=stuck(100), builds=(build(cuda_build=known(False)),))
    assert run("framework-cpu-build", judged)
    assert "nothing else" in only("driver-missing", judged).message


def test_what_only_a_driver_says_proves_that_the_gpu_was_handed_in() -> None:
    unlisted = gpu(nvml_index=NONE)
    for result in (802, 803, 804):
        answered = driver(cuda_init_result=known(result), device_nodes=NONE)
        assert run(ID, context(unlisted, driver=answered, host=DOCKER, builds=(TORCH,))) == []
    silent = driver(cuda_init_result=known(100), device_nodes=NONE)
    assert (
        only(ID, context(unlisted, driver=silent, host=DOCKER, builds=(TORCH,))).severity == ERROR
    )
    assert run(ID, context(gpu(), driver=silent, host=DOCKER, builds=(TORCH,))) == []
    assert "missing" in only(NODES, context(gpu(), driver=silent, host=DOCKER)).message
