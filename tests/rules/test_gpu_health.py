"""GPUs that answer and are not well: each check fires once, is silent on a near miss, and never judges the unread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envcheck.model import ERROR, WARNING, Absent, Finding, Gpu, Unknown
from envcheck.model.fixes import FollowXid, ServiceGpu
from envcheck.probes.kernel_log import parse_logged_faults
from envcheck.rules.context import Context, Demands, Target, UndecidedError
from tests.probes.test_gpu_health import RECORDED, stated
from tests.rules.factory_machine import UNREAD, context, driver, gpu, known, run

WELL: dict[str, Any] = {
    "recovery_action": "none",
    "remap_pending": False,
    "remap_failed": False,
    "retired_pages_pending": False,
    "sram_threshold_exceeded": False,
    "ecc_uncorrected": 0,
    "slowdown": ("gpu_idle",),
    "slowed_for": {"sw_power_cap": 7015.7, "sw_thermal_slowdown": 3.4},
    "fabric_state": "completed",
    "fabric_health": (),
    "inforom_corrupted": False,
    "pcie_width": 16,
    "pcie_generation": 5,
    "nvlinks_active": 18,
    "nvlinks_down": 0,
}


def with_health(index: int = 0, **changes: Any) -> Gpu:
    values = {**WELL, **changes}
    facts = {
        name: value if isinstance(value, (Unknown, Absent)) else known(value)
        for name, value in values.items()
    }
    return gpu(index=index, **facts)


def stating(judged: Context, *rows: tuple[str, int | str]) -> Context:
    """Return what is judged where a project states what the machine has."""
    return Context(judged.facts, judged.matrix, Target(demands=Demands(gpus=rows)))


def findings(judged: Context) -> list[Finding]:
    return [item for name in ("gpu-hardware-fault", "gpu-degraded") for item in run(name, judged)]


FIRES: dict[str, tuple[dict[str, Any], str, str]] = {
    "reset": ({"recovery_action": "reset"}, "gpu-hardware-fault", "reset"),
    "drain and reset": ({"recovery_action": "drain-and-reset"}, "gpu-hardware-fault", "reset"),
    "reboot": ({"recovery_action": "reboot"}, "gpu-hardware-fault", "reboot"),
    "an action that no release knows": ({"recovery_action": "action 9"}, "gpu-hardware-fault", "drain"),
    "row remap pending": ({"remap_pending": True}, "gpu-hardware-fault", "reset"),
    "row remap failed": ({"remap_failed": True, "remap_pending": True}, "gpu-hardware-fault", "replace"),
    "SRAM threshold": ({"sram_threshold_exceeded": True}, "gpu-hardware-fault", "replace"),
    "ECC without a recovery action": (
        {"ecc_uncorrected": 2, "recovery_action": Absent(("NVML",))}, "gpu-hardware-fault", "reset",
    ),
    "ECC that the driver contained": ({"ecc_uncorrected": 2}, "gpu-degraded", "watch"),
    "fabric that was not joined": ({"fabric_state": "failed (999)"}, "gpu-hardware-fault", "reboot"),
    "a path of the fabric": ({"fabric_health": ("route_unhealthy",)}, "gpu-degraded", "drain"),
    "slower fabric": ({"fabric_health": ("degraded_bandwidth", "route_recovery")}, "gpu-degraded", "drain"),
    "infoROM": ({"inforom_corrupted": True}, "gpu-degraded", "inforom"),
    "drain P2P": ({"recovery_action": "drain-p2p"}, "gpu-degraded", "drain"),
    "pages to retire": ({"retired_pages_pending": True}, "gpu-degraded", "reset"),
    "power brake": (
        {"slowdown": ("sw_power_cap", "hw_slowdown", "hw_power_brake_slowdown")}, "gpu-degraded", "cool",
    ),
    "heat": ({"slowdown": ("hw_slowdown", "hw_thermal_slowdown")}, "gpu-degraded", "cool"),
    "heat without work": ({"slowdown": ("gpu_idle", "sw_thermal_slowdown")}, "gpu-degraded", "cool"),
}  # fmt: skip


@pytest.mark.parametrize("case", FIRES)
def test_a_fault_is_found_once_with_what_to_do(case: str) -> None:
    changes, name, action = FIRES[case]
    (found,) = findings(context(with_health(**changes)))
    assert found.id == name
    assert found.severity == (ERROR if name == "gpu-hardware-fault" else WARNING)
    assert found.cure == ServiceGpu(action, "0")
    assert found.fix is not None


NEAR_MISSES: dict[str, dict[str, Any]] = {
    "well": {},
    "power cap": {"slowdown": ("sw_power_cap",)},
    "heat under load": {"slowdown": ("sw_thermal_slowdown",)},
    "application clocks": {"slowdown": ("applications_clocks_setting", "sync_boost")},
    "an idle link": {"pcie_generation": 1, "pcie_width": 8},
    "a cloud's slot": {"pcie_width": 8, "slowdown": ()},
    "long under a power cap": {"slowdown": ("sw_power_cap",), "slowed_for": {"sw_power_cap": 9e6}},
    "slowed before, not now": {"slowed_for": {"hw_thermal_slowdown": 354.0}},
    "no NVSwitch": {"fabric_state": Absent(("NVML",)), "fabric_health": Absent(("NVML",))},
    "a host without a partition": {"fabric_state": "in progress"},
    "a route that recovers": {"fabric_health": ("route_recovery",)},
    "no infoROM": {"inforom_corrupted": Absent(("NVML",))},
    "no bridge": {"nvlinks_active": 0, "nvlinks_down": 12},
    "no NVLink": {"nvlinks_active": Absent(("NVML",)), "nvlinks_down": Absent(("NVML",))},
}


@pytest.mark.parametrize("case", NEAR_MISSES)
def test_a_healthy_gpu_that_looks_broken_is_passed(case: str) -> None:
    assert findings(context(with_health(**NEAR_MISSES[case]))) == []


def test_a_slowdown_says_how_long_it_lasts() -> None:
    slowed = {"hw_thermal_slowdown": 354.2, "sw_power_cap": 9.0, "sync_boost": 0.0}
    reasons = ("sw_power_cap", "hw_slowdown", "hw_thermal_slowdown", "sync_boost")
    (found,) = findings(context(with_health(slowdown=reasons, slowed_for=slowed)))
    lasting = "sw_power_cap for 9 s, hw_thermal_slowdown for 354 s"
    assert found.message.endswith(f"mostly for heat ({lasting} since the driver was loaded).")
    assert [item.fact for item in found.evidence] == ["gpus.slowdown", "gpus.slowed_for"]
    (found,) = findings(context(with_health(slowdown=reasons, slowed_for=UNREAD)))
    assert found.message.endswith("mostly for heat.")


@pytest.mark.parametrize("name", RECORDED)
def test_the_captures_of_healthy_machines_are_passed(name: str) -> None:
    values = stated(name)
    values["recovery_action"] = "none"
    facts: dict[str, Any] = {
        key: Absent(("NVML",)) if value is None else value for key, value in values.items()
    }
    assert findings(context(with_health(**facts))) == []


def test_what_is_unread_is_no_fault_and_no_pass() -> None:
    nothing: dict[str, Any] = dict.fromkeys(WELL, UNREAD)
    unread = with_health(**nothing)
    assert findings(context(unread)) == []
    for key in ("pcie-width", "pcie-generation", "nvlinks"):
        with pytest.raises(UndecidedError):
            findings(stating(context(unread), (key, 4)))


def test_a_fault_of_one_gpu_beside_working_ones_is_a_warning_unless_all_are_stated() -> None:
    gpus = (with_health(), with_health(1, remap_pending=True))
    assert [item.severity for item in findings(context(*gpus))] == [WARNING]
    all_stated = stating(context(*gpus), ("gpu-count", 2))
    (found,) = findings(all_stated)
    assert (found.severity, found.cure) == (ERROR, ServiceGpu("reset", "1"))


STATED = (("gpu-count", 2), ("gpu-model", "A100"), ("pcie-width", 16), ("pcie-generation", 4), ("nvlinks", 12))  # fmt: skip


def demanding(*gpus: Gpu, **machine: Any) -> Context:
    return stating(context(*gpus, **machine), *STATED)


BUSY: dict[str, Any] = {"slowdown": ()}
DIFFERS = {
    "fewer": ((with_health(),), "gpu-count = 2"),
    "more": ((with_health(), with_health(1), with_health(2)), "gpu-count = 2"),
    "another model": ((with_health(), with_health(1, name="NVIDIA L4")), "gpu-model = A100"),
    "lanes": ((with_health(), with_health(1, **BUSY, pcie_width=8)), "pcie-width = 16"),
    "generation": ((with_health(), with_health(1, **BUSY, pcie_generation=3)), "pcie-generation = 4"),
    "links": ((with_health(), with_health(1, nvlinks_active=11, nvlinks_down=1)), "nvlinks = 12"),
}  # fmt: skip


@pytest.mark.parametrize("case", DIFFERS)
def test_what_differs_from_what_is_stated_is_an_error(case: str) -> None:
    gpus, shown = DIFFERS[case]
    (found,) = findings(demanding(*gpus))
    assert (found.id, found.severity) == ("gpu-hardware-fault", ERROR)
    assert found.evidence[0].shown == shown


def test_what_is_as_stated_is_passed() -> None:
    assert findings(demanding(with_health(), with_health(1))) == []
    assert (
        findings(stating(context(with_health(pci_id="20b0")), ("gpu-model", "20b0"))) == []
    )  # its PCI id


def test_a_link_of_an_idle_gpu_is_not_judged() -> None:
    with pytest.raises(UndecidedError) as caught:
        findings(demanding(with_health(), with_health(1, pcie_generation=1)))
    assert "idle" in caught.value.unknown.detail


def test_gpus_that_a_container_may_hide_are_not_missing() -> None:
    with pytest.raises(UndecidedError):
        findings(demanding(with_health(), host={"container": known("docker")}))


def test_a_link_that_the_driver_does_not_report_is_not_down() -> None:
    with pytest.raises(UndecidedError):
        findings(demanding(with_health(), with_health(1, nvlinks_active=Absent(("NVML",)))))


SAMPLES = Path(__file__).parents[1] / "probes" / "data" / "kernel-log"


def logged(text: str) -> list[Finding]:
    faults = parse_logged_faults(text)
    return findings(context(with_health(), driver=driver(logged_faults=known(faults))))


@pytest.mark.parametrize(
    ("sample", "codes"),
    [
        ("xid119-gsp-timeout", ("119",)),
        ("xid63-row-remap", None),  # the remap is what counts, not the line
        ("xid13-iso-time", None),  # of a program
        ("xid43-31-94-akash", None),
        ("xid145-nonfatal-nvsentinel-1357", None),
        ("xid45-caused-by-149-145", None),  # the second number is not the code
        ("xid94-memory-manual", None),  # a MIG instance within the parentheses
        ("xid79-akash-unknown-handle", ("79",)),
        ("fallen-off-bus-no-xid", ()),
        ("gsp-boot-fail-no-xid", ()),
        ("xid74-nvlink-design-doc", ("74",)),
    ],
)
def test_logged_faults_are_judged_by_the_catalogue(
    sample: str, codes: tuple[str, ...] | None
) -> None:
    found = logged((SAMPLES / f"{sample}.log").read_text(encoding="utf-8"))
    if codes is None:
        assert found == []
        return
    (finding,) = found
    assert (finding.id, finding.severity) == ("gpu-degraded", WARNING)
    assert getattr(finding.cure, "codes", ()) == codes


def test_a_fatal_error_of_a_switch_is_the_switchs() -> None:
    log = (SAMPLES / "sxid-xid79-and-20034.log").read_text(encoding="utf-8")
    switches = [item for item in logged(log) if item.cure == ServiceGpu("switches")]
    assert [item.message for item in switches] == [
        f"The driver logged SXid 20034 Fatal for the NVSwitch at 0000:{bus}:00 since the start."
        for bus in ("06", "07", "05")
    ]
    # an error that is not fatal comes with each program that dies (composed of the same lines)
    of_programs = log.replace("Fatal", "Non-fatal").splitlines()
    assert logged("\n".join(line for line in of_programs if "SXid" in line)) == []


def test_a_recovery_ends_what_was_logged_before() -> None:
    lines = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    cleared = lines + (
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)\n"
    )
    assert logged(cleared) == []
    (found,) = logged(cleared + "NVRM: Xid (PCI:0000:3B:00): 62, pid=154, name=python3\n")
    assert found.cure == FollowXid(("62",), "0000:3b:00")


def test_what_the_driver_asks_for_in_the_log_is_the_fix() -> None:
    log = (SAMPLES / "xid149-154-nvlink5-sequence.log").read_text(encoding="utf-8")
    cures = [item.cure for item in logged(log)]
    assert FollowXid(("154", "149"), "0008:01:00", "GPU Reset Required") in [
        FollowXid(tuple(sorted(cure.codes, reverse=True)), cure.pci, cure.recovery)
        for cure in cures
        if isinstance(cure, FollowXid)
    ]


def test_a_logged_fault_of_a_gpu_that_fails_now_is_not_said_twice() -> None:
    log = driver(logged_faults=known(("0000:07:00: Xid 48", "0000:0a:00: Xid 48")))
    failing = with_health(remap_pending=True, pci_address="0000:07:00.0")
    found = findings(context(failing, driver=log))
    assert [item.id for item in found] == ["gpu-hardware-fault", "gpu-degraded"]
    assert "0000:0a:00" in found[1].message
