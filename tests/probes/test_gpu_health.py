"""The health of GPUs: the stand-in NVML against what `nvidia-smi -q -x` of real machines says."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from envcheck.host.local import LocalHost
from envcheck.model import NOT_STATED, Absent, Gpu, Known, Unknown
from envcheck.probes.nvml import find_pynvml, parse_nvml
from tests.fakes.build import build_libraries

SAMPLES = Path(__file__).with_name("data") / "nvidia-smi-q-x"
RECORDED = sorted(path.stem for path in SAMPLES.glob("qx-*.xml"))
ACTIONS = ["None", "GPU Reset Required", "Node Reboot Required", "Drain P2P", "Drain and Reset"]
BITS = [
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost",
    "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown",
    "display_clocks_setting",
]  # fmt: skip
LOST = 15
COUNTERS = "clocks_event_reasons_counters"
SLOWED = {  # a reason, and what nvidia-smi calls its counter
    "sw_power_cap": "sw_power_cap",
    "sync_boost": "sync_boost",
    "sw_thermal_slowdown": "sw_therm_slowdown",
    "hw_thermal_slowdown": "hw_therm_slowdown",
    "hw_power_brake_slowdown": "hw_power_brake",
}
# a fault, the element and the word by which nvidia-smi states it, and its place in NVML's mask
FABRIC = {
    "degraded_bandwidth": ("bandwidth", "Degraded", 0),
    "route_recovery": ("route_recovery_in_progress", "True", 2),
    "route_unhealthy": ("route_unhealthy", "True", 4),
    "access_timeout_recovery": ("access_timeout_recovery", "True", 6),
}
STATES = ["", "not started", "in progress", "completed"]
OTHER_STATUS = 999  # NVML's unknown error


def gpus(monkeypatch: pytest.MonkeyPatch, *answers: dict[str, Any]) -> tuple[Gpu, ...]:
    """Read GPUs through the stand-in library, each with its STANDIN_GPU0_... values."""
    monkeypatch.setenv("STANDIN_GPUS", str(len(answers)))
    for index, answer in enumerate(answers):
        for name, value in answer.items():
            monkeypatch.setenv(f"STANDIN_GPU{index}_{name}", str(value))
    library = str(build_libraries() / "libnvidia-ml.so.1")
    printed = LocalHost().ask("nvml_devices", library, find_pynvml() or "", timeout=30.0)
    assert isinstance(printed, Known)
    return parse_nvml(printed.value, library).gpus.value or ()


def stated(name: str, path_changed: str = "", changed: str = "") -> dict[str, Any]:
    """Read what a capture of `nvidia-smi -q -x` states; None where it says N/A or nothing.

    One element may state something else: that machine is composed of the capture.
    """
    gpu = ET.parse(SAMPLES / f"{name}.xml").getroot().find("gpu")
    assert gpu is not None
    element = gpu.find(path_changed) if path_changed else None
    if element is not None:
        element.text = changed

    def text(path: str) -> str | None:
        found = (gpu.findtext(path) or "").strip()
        is_value = found and found != "N/A" and "lost" not in found and "deprecated" not in found
        return found if is_value else None

    def flag(path: str) -> bool | None:
        found = text(path)
        return None if found is None else found == "Yes"

    def number(path: str) -> int | None:
        found = text(path)
        return None if found is None else int(found.rstrip("xus "))

    counts = [
        number(f"ecc_errors/volatile/{each}")
        for each in (
            "sram_uncorrectable_parity", "sram_uncorrectable_secded", "sram_uncorrectable",
            "dram_uncorrectable",
        )
    ]  # fmt: skip
    known = [count for count in counts if count is not None]
    # the element and its children had another name before 535.54.03
    reasons = [
        bit
        for bit in BITS
        for word in ("event", "throttle")
        if text(f"clocks_{word}_reasons/clocks_{word}_reason_{bit}") == "Active"
    ]
    action = text("gpu_recovery_action")
    counters = {
        name: number(f"{COUNTERS}/{COUNTERS}_{element}") for name, element in SLOWED.items()
    }
    state, status = text("fabric/state"), text("fabric/status")
    if state == "Completed" and status != "Success":
        state = f"failed ({OTHER_STATUS})"
    faults = tuple(
        name
        for name, (element, word, _) in FABRIC.items()
        if text(f"fabric/health/{element}") == word
    )
    return {
        "recovery_action": None if action is None else ACTIONS.index(action),
        "remap_pending": flag("remapped_rows/remapped_row_pending"),
        "remap_failed": flag("remapped_rows/remapped_row_failure"),
        "retired_pages_pending": flag("retired_pages/pending_retirement"),
        "sram_threshold_exceeded": flag("ecc_errors/aggregate/sram_threshold_exceeded"),
        "ecc_uncorrected": sum(known) if known else None,
        "slowdown": tuple(reasons),
        "slowed_for": {name: count / 1e6 for name, count in counters.items() if count is not None}
        or None,
        "fabric_state": None if state is None else state.lower(),
        "fabric_health": None if state is None else faults,
        "pcie_width": number("pci/pci_gpu_link_info/link_widths/current_link_width"),
        "pcie_width_limit": number("pci/pci_gpu_link_info/link_widths/max_link_width"),
        "pcie_generation": number("pci/pci_gpu_link_info/pcie_gen/current_link_gen"),
        "pcie_generation_limit": number("pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
    }


def answers(values: dict[str, Any]) -> dict[str, str]:
    """Write what a capture states as the answers of the stand-in library."""
    plain = dict(values)
    plain["slowdown"] = sum(1 << BITS.index(name) for name in values["slowdown"])
    for name, seconds in (plain.pop("slowed_for") or {}).items():
        plain[f"slowed_{name.removesuffix('_slowdown')}"] = round(seconds * 1e9)
    state, faults = plain.pop("fabric_state"), plain.pop("fabric_health")
    plain["fabric_state"] = state
    if state is not None:
        is_failed = state.startswith("failed")
        plain["fabric_state"] = 3 if is_failed else STATES.index(state)
        plain["fabric_status"] = OTHER_STATUS if is_failed else 0
        plain["fabric_health"] = sum(
            (1 if name in faults else 2) << shift for name, (*_, shift) in FABRIC.items()
        )
    return {
        name.upper(): "E3" if value is None else str(int(value)) for name, value in plain.items()
    }


def release(name: str) -> str:
    """Return the driver's release of a capture."""
    return ET.parse(SAMPLES / f"{name}.xml").getroot().findtext("driver_version") or ""


@pytest.mark.needs("c-compiler")
@pytest.mark.parametrize("name", RECORDED)
def test_readings_equal_those_of_nvidia_smi(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = stated(name)
    monkeypatch.setenv("STANDIN_DRIVER", release(name))
    (gpu,) = gpus(monkeypatch, answers(wanted))
    read = {name: getattr(gpu, name).value for name in wanted}
    action = wanted["recovery_action"]
    assert read == {**wanted, "recovery_action": None if action is None else "none"}
    # N/A is absent, which is no pass
    assert all(
        isinstance(getattr(gpu, name), Absent) for name, value in wanted.items() if value is None
    )


LINK = "pci/pci_gpu_link_info"
CHANGES = {  # an element of a capture, and what a composed machine states there
    "ecc_errors/volatile/dram_uncorrectable": "3",
    "remapped_rows/remapped_row_pending": "Yes",
    "remapped_rows/remapped_row_failure": "Yes",
    "gpu_recovery_action": "Drain and Reset",
    f"{LINK}/link_widths/current_link_width": "4x",
    f"{LINK}/pcie_gen/current_link_gen": "1",
    "clocks_event_reasons/clocks_event_reason_hw_thermal_slowdown": "Active",
    f"{COUNTERS}/{COUNTERS}_hw_therm_slowdown": "354000000 us",
    f"{COUNTERS}/{COUNTERS}_hw_power_brake": "12 us",
    "fabric/state": "In Progress",
    "fabric/status": "Unknown Error",
    "fabric/health/route_unhealthy": "True",
}


def composed(name: str) -> list[dict[str, Any]]:
    """List what machines state that differ from a capture in one value."""
    plain = stated(name)
    machines = [stated(name, path, text) for path, text in CHANGES.items()]
    return [machine for machine in machines if machine != plain]


@pytest.mark.needs("c-compiler")
@pytest.mark.parametrize("name", RECORDED)
def test_readings_of_composed_machines_equal_those_of_nvidia_smi(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = composed(name)
    monkeypatch.setenv("STANDIN_DRIVER", release(name))
    words = {0: "none", 4: "drain-and-reset", None: None}
    for gpu, wanted in zip(gpus(monkeypatch, *map(answers, machines)), machines, strict=True):
        read = {field: getattr(gpu, field).value for field in wanted}
        assert read == {**wanted, "recovery_action": words[wanted["recovery_action"]]}


@pytest.mark.needs("c-compiler")
@pytest.mark.parametrize(
    ("driver", "fields"),
    [
        ("570.148.08", ()),
        ("575.51.03", ("sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")),
        ("580.65.06", ("sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")),
        ("580.70", ()),  # between the releases whose numbers are known
        ("580.82.07", ("sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")),
        ("615.71", ("sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")),
    ],
)
def test_a_counter_is_read_by_the_number_that_its_release_gives_it(
    driver: str, fields: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the number of another release a driver answers with a profile of power smoothing."""
    monkeypatch.setenv("STANDIN_DRIVER", driver)
    counted = {
        f"SLOWED_{name}": 3 * 10**9 for name in ("SW_THERMAL", "HW_THERMAL", "HW_POWER_BRAKE")
    }
    (gpu,) = gpus(monkeypatch, {"SLOWED_SW_POWER_CAP": 10**9, "POWER_SMOOTHING": 7, **counted})
    assert gpu.slowed_for.value == {"sw_power_cap": 1, **dict.fromkeys(fields, 3)}


@pytest.mark.needs("c-compiler")
def test_a_corrupted_inforom_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    read = gpus(
        monkeypatch,
        {"INFOROM_CORRUPTED": "1"},
        {"INFOROM_CORRUPTED": "0"},
        {},  # a card without one
        {"INFOROM_CORRUPTED": "E4"},
    )
    assert [gpu.inforom_corrupted.value for gpu in read] == [True, False, None, None]
    assert isinstance(read[2].inforom_corrupted, Absent)
    assert isinstance(read[3].inforom_corrupted, Unknown)


def test_there_are_forty_machines() -> None:
    assert len(RECORDED) + sum(len(composed(name)) for name in RECORDED) >= 40


def test_the_captures_hold_the_traps() -> None:
    """Healthy machines that look broken: what each capture is kept for."""
    assert len(RECORDED) == 7
    assert stated("qx-l40s")["pcie_width"] == stated("qx-t4")["pcie_width"] == 8  # of 16
    assert stated("qx-t4")["remap_pending"] is None  # <remapped_rows>N/A</remapped_rows>
    # "Requested functionality has been deprecated" is an older field's answer, not this one's
    assert stated("qx-a100")["recovery_action"] == 0
    assert stated("qx-h100")["slowed_for"]["sw_power_cap"] > 7000  # seconds, on a healthy node
    assert "sw_power_cap" not in stated("qx-h100")["slowdown"]
    assert stated("qx-l40s")["fabric_state"] is None  # no NVSwitch: N/A is not "not started"


@pytest.mark.needs("c-compiler")
@pytest.mark.parametrize(
    ("field", "value", "name", "wanted"),
    [
        ("RECOVERY_ACTION", "4", "recovery_action", "drain-and-reset"),
        ("RECOVERY_ACTION", "9", "recovery_action", "action 9"),
        ("SLOWDOWN", "0x88", "slowdown", ("hw_slowdown", "hw_power_brake_slowdown")),
        ("SLOWDOWN", "0x5", "slowdown", ("gpu_idle", "sw_power_cap")),
        ("NVLINKS", "1101", "nvlinks_active", 3),
        ("NVLINKS", "1101", "nvlinks_down", 1),
        ("NVLINKS", "1N1", "nvlinks_active", 2),
        ("NVLINKS", "1N1", "nvlinks_down", 0),
        ("NVLINKS", "0" * 12, "nvlinks_active", 0),  # a PCIe A100 without bridge
        ("REMAP_FAILED", "1", "remap_failed", None),  # the call itself is refused
        ("FABRIC_STATE", "1", "fabric_state", "not started"),
        ("FABRIC_STATE", "0", "fabric_state", None),  # there is none
        ("FABRIC_STATE", "3", "fabric_health", ()),  # an older driver, whose mask is empty
    ],
)
def test_other_values(
    field: str, value: str, name: str, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gpu,) = gpus(monkeypatch, {field: value})
    assert getattr(gpu, name).value == wanted


@pytest.mark.needs("c-compiler")
def test_a_slowdown_of_a_moment_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    (gpu,) = gpus(monkeypatch, {"SLOWDOWN": "0x41", "SLOWED_FOR": "2"})
    assert gpu.slowdown.value == ("gpu_idle",)


@pytest.mark.needs("c-compiler")
def test_an_older_driver_names_the_reasons_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    (gpu,) = gpus(monkeypatch, {"SLOWDOWN": "0x40", "OLD_DRIVER": "1"})
    assert gpu.slowdown.value == ("hw_thermal_slowdown",)


NAMES = (*stated("qx-h100"), "nvlinks_active", "nvlinks_down", "inforom_corrupted")
SLOWED_FIELDS = ("SLOWED_SW_POWER_CAP", "SLOWED_SYNC_BOOST")


@pytest.mark.needs("c-compiler")
@pytest.mark.parametrize("code", [4, 13, 999, LOST])  # no permission, no such function, a fault
def test_what_is_refused_is_unknown(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {*NAMES, "nvlinks", *SLOWED_FIELDS} - {"slowed_for"}  # that is what the fields make
    refusing = {name.upper(): f"E{code}" for name in asked}
    (gpu,) = gpus(monkeypatch, refusing)
    assert [name for name in NAMES if not isinstance(getattr(gpu, name), Unknown)] == []


@pytest.mark.needs("c-compiler")
def test_of_a_lost_gpu_everything_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    well, lost = gpus(monkeypatch, {"REMAP_PENDING": "0"}, {"LOST": str(LOST)})
    assert well.remap_pending.value is False
    assert [name for name in NAMES if not isinstance(getattr(lost, name), Unknown)] == []


@pytest.mark.needs("c-compiler")
def test_a_call_that_hangs_costs_a_second_and_the_rest_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    well = {"RECOVERY_ACTION": "0", "ECC_UNCORRECTED": "0"}
    started = time.monotonic()
    first, second = gpus(monkeypatch, well, {**well, "ECC_HANG": "20"})
    assert time.monotonic() - started < 15
    assert (first.recovery_action.value, second.name.value) == ("none", "Stand-in GPU")
    assert isinstance(second.recovery_action, Unknown)
    assert second.recovery_action.why == "timeout"


def test_an_answer_without_health_states_none() -> None:
    answer = {"init": 0, "driver": "550.1", "cuda": 12040, "gpus": [{"index": 0, "name": "L4"}]}
    (gpu,) = parse_nvml(answer, "x").gpus.value or ()
    assert gpu.remap_pending == NOT_STATED
