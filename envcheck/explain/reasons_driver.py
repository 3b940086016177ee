"""Conclude from messages about the driver, containers and GPU memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.explain.log import Claim, Log, Strength, framework_of_message, number
from envcheck.explain.signatures import Event, driver_errors
from envcheck.model import FrameworkRelease, Known, get_value

_NO_DEVICE = ("cuda-no-device", "torch-no-gpus", "devicequery-100", "nccl-process-group-no-gpu", "yolo-invalid-device")
_NO_DRIVER = ("cuinit-unknown-303", "tf-kernel-driver-not-running", "torch-no-driver", "lspci-none")


def driver_claims(log: Log) -> Iterator[Claim]:
    """Say why no GPU is seen."""
    for event in log.of(*_NO_DEVICE):
        yield _no_device(log, event)
    for event in log.of("driver-init-failure", "cuda-failure-number"):
        yield _by_code(event)
    yield from _hidden(log)
    yield from _refused(log)
    yield from _absent(log)
    yield from _apptainer(log)
    yield from _no_driver(log)
    yield from _smi(log)
    yield from _tensorflow(log)
    yield from _mig(log)
    yield from _compat(log)
    yield from _answered_visible(log)
    yield from _weigh_passing_remarks(log)


_RAISES = ("torch-no-driver", "torch-no-gpus", "torch-driver-init-failed", "jax-no-visible-gpus", "smi-failed")


def _apptainer(log: Log) -> Iterator[Claim]:
    """Say that Apptainer was started without --nv, where what runs in it finds no driver."""
    started = log.of("container-apptainer")
    missing = log.of("missing-dynamic-library", "cannot-open-shared-object", *_NO_DRIVER, *_NO_DEVICE, "smi-not-found")
    missing = tuple(event for event in missing if "lib" not in event.text or "libcuda.so" in event.text)
    if started and missing and not any("apptainer_nv" in event.captured for event in started):
        means = "Apptainer (Singularity) gives the host's driver to a container only with --nv."
        yield Claim(
            "driver-not-in-container", Strength.NAMED_PART, means, (*missing, *started), rivals=("driver-missing",)
        )


def _absent(log: Log) -> Iterator[Claim]:
    events = log.of(*_RAISES) if log.has_no_gpu else ()
    if events:
        yield Claim(
            "gpu-absent",
            Strength.NAMED_PLACE,
            "The program asks for a GPU, and this machine has none of NVIDIA.",
            events,
        )


def _no_driver(log: Log) -> Iterator[Claim]:
    for event in log.of(*_NO_DRIVER):
        if log.in_container:
            means = "The log comes from a container, which was not given the host's driver."
            yield Claim("driver-not-in-container", Strength.DECIDED, means, (event,), rivals=("driver-missing",))
        elif log.in_wsl:
            strength = Strength.DERIVED if get_value(log.facts.host.wsl_version) == 1 else Strength.PROBABLE
            yield Claim("driver-wsl", strength, "WSL shows no driver.", (event,), rivals=("libcuda-not-on-path",))


def _smi(log: Log) -> Iterator[Claim]:
    for event in log.of("nvml-version-mismatch", "tf-dso-mismatch", "nvml-mismatch-exception") if log.in_wsl else ():
        means = "A Linux driver inside the distribution stands before the one that Windows brings into WSL."
        yield Claim("driver-wsl", Strength.BOTH_VALUES, means, (event,), rivals=("driver-library-mismatch",))
    for event in log.of("smi-failed", "smi-no-devices"):
        if log.has("secure-boot-enabled"):
            means = "Secure Boot is on and the driver's module is not loaded: it is not signed."
            yield Claim("driver-secure-boot", Strength.LIKELY, means, (event,), rivals=("driver-missing",))
        elif log.in_wsl:
            yield Claim("driver-wsl", Strength.USUAL, "nvidia-smi reaches no driver from WSL.", (event,))
    for event in log.of("container-cli-no-driver") if log.in_wsl else ():
        means = "The container's tools reach no driver in WSL: it is WSL 1, or Windows lacks a driver for WSL."
        yield Claim("driver-wsl", Strength.BOTH_VALUES, means, (event,), rivals=("driver-not-in-container",))
    for event in log.of("smi-no-library"):
        if log.in_wsl:
            yield Claim(
                "driver-wsl",
                Strength.DECIDED,
                "WSL shows no driver's library.",
                (event,),
                rivals=("libcuda-not-on-path",),
            )
    for event in log.of("smi-not-found"):
        if log.in_container:
            yield Claim("driver-not-in-container", Strength.PROBABLE, "The container lacks nvidia-smi.", (event,))


def _by_code(event: Event) -> Claim:
    code = event.captured["code"]
    return Claim(
        driver_errors().get(code, "driver-missing"),
        Strength.NOT_FOUND,
        f"The start of the driver ended with error {code}.",
        (event,),
    )


def _no_device(log: Log, event: Event) -> Claim:
    visible = next((value for _, value in log.capturing("visible")), None)
    visible = log.environment.get("CUDA_VISIBLE_DEVICES", visible)
    if visible is not None and visible.startswith("MIG"):
        means = f"CUDA_VISIBLE_DEVICES names the MIG instance {visible}, which is not there."
        return Claim("mig-config", Strength.MISSING_HERE, means, (event,))
    if visible is not None and visible not in ("0", "all"):
        means = f"CUDA_VISIBLE_DEVICES is {visible!r}, which leaves no GPU of this machine visible."
        listed = "," in visible  # several numbers may be right, and the driver at fault
        return Claim(
            "visible-devices-hidden",
            Strength.PROBABLE if listed else Strength.NAMED_PLACE,
            means,
            (event,),
            rivals=("driver-missing",),
        )
    if log.in_container:
        means = "CUDA starts in the container and sees no GPU."
        return Claim(
            "driver-not-in-container", Strength.FAILED_PART, means, (event,), rivals=("visible-devices-hidden",)
        )
    means = "CUDA starts and sees no GPU: CUDA_VISIBLE_DEVICES hides it, the driver is not loaded, or there is none."
    return Claim(
        "visible-devices-hidden", Strength.FAILED_CALL, means, (event,), rivals=("driver-missing", "gpu-absent")
    )


def _refused(log: Log) -> Iterator[Claim]:
    """Say that Secure Boot keeps the driver's module out."""
    for event in log.of("modprobe-no-module") if log.has("secure-boot-enabled") else ():
        if "not permitted" in event.text:
            means = "Secure Boot is on and the kernel does not let the driver's module in: it is not signed."
            yield Claim("driver-secure-boot", Strength.DERIVED, means, (event,), rivals=("driver-missing",))


def _hidden(log: Log) -> Iterator[Claim]:
    """Say that no GPU is listed because CUDA_VISIBLE_DEVICES names none."""
    shown = [event for event, value in log.capturing("visible") if value in ("", "-1")]
    listed = [
        event
        for event in log.of("tf-cpu-only-list", "torch-unavailable")
        if event.signature == "tf-cpu-only-list" or "False" in event.text or "not available" in event.text
    ]
    if shown and listed:
        means = "CUDA_VISIBLE_DEVICES names no GPU, and none is listed."
        yield Claim("visible-devices-hidden", Strength.PROBABLE, means, (*shown, *listed))


def _tensorflow(log: Log) -> Iterator[Claim]:
    """Judge what newer TensorFlow says without naming a library, by the release that says it."""
    for event in log.of("tf-no-cuda-drivers"):
        if log.has_no_gpu:
            continue
        wheels = "local_tsl" in event.text or "local_xla" in event.text  # its sources moved there with the CUDA extra
        wheels = wheels or _takes_wheels(log, event)
        finding = "framework-cuda-extra-missing" if wheels else "toolkit-missing"
        means = "TensorFlow could not open libcudart; its words on the driver do not mean that the driver is missing."
        yield Claim(
            finding,
            Strength.OPEN if log.driver else Strength.FAILED_CALL,
            means,
            (event,),
            rivals=("driver-missing", "gpu-absent"),
        )
    for event in log.of("tf-cannot-dlopen-gpu"):
        if "cuda" in log.library_path.lower():
            means = "TensorFlow could not load a CUDA library, and LD_LIBRARY_PATH puts other copies first."
            yield Claim(
                "toolkit-path-conflict", Strength.FAILED_PART, means, (event,), rivals=("cuda-wheel-not-found",)
            )
        elif any(re.fullmatch(r"nvidia-[a-z-]+-cu\d+", name) for name in log.packages):
            means = "The CUDA wheels are installed, and TensorFlow's loader does not find one of them."
            yield Claim("cuda-wheel-not-found", Strength.PROBABLE, means, (event,), rivals=("toolkit-path-conflict",))
        elif log.has("pip-list-nvidia-asked"):
            means = "TensorFlow could not load a CUDA library, and the list of packages names none of CUDA's wheels."
            yield Claim("framework-cuda-extra-missing", Strength.PROBABLE, means, (event,), rivals=("toolkit-missing",))
        else:
            yield from _unnamed_library(log, event)


_LOOKS_FOR_WHEELS = r"(?:^|\s)gpu_device\.cc:"  # TensorFlow 2.17 and newer name files without folders


def _unnamed_library(log: Log, event: Event) -> Iterator[Claim]:
    """Judge by the release which library TensorFlow could not open: of the toolkit, cuDNN, or of the CUDA wheels."""
    if (_takes_wheels(log, event) or re.search(_LOOKS_FOR_WHEELS, event.text)) and not log.cudas:
        means = "This TensorFlow takes CUDA from the nvidia-* wheels, and does not find one of their libraries."
        rivals = ("framework-cuda-extra-missing", "toolkit-missing")
        yield Claim("cuda-wheel-not-found", Strength.FAILED_CALL, means, (event,), rivals=rivals)
        return
    row = _nearest_row(log, event, exact=True)
    if row and row.cuda and row.cuda in log.cudas and not isinstance(log.facts.cudnn, Known):
        means = f"CUDA {row.cuda}, which this TensorFlow loads, is installed; of its other needs cuDNN is not named."
        yield Claim("cudnn-missing", Strength.FAILED_PART, means, (event,), rivals=("toolkit-path-conflict",))


def _takes_wheels(log: Log, event: Event) -> bool:
    """Tell whether the framework that says something has CUDA libraries of its own as wheels, by its release."""
    row = _nearest_row(log, event)
    return row is not None and row.gpu_extra is not None


def _nearest_row(log: Log, event: Event, *, exact: bool = False) -> FrameworkRelease | None:
    """Return the matrix' row of the framework that says something: of its release, or of the last one before it."""
    known = framework_of_message(event.signature)
    version = log.release_of(known).partition("+")[0] if known else ""
    if not known or not version:
        return None
    listed = (item for item in log.matrix.versions(known.name) if item == version or not exact)
    found = next((item for item in listed if number(item) <= number(version)), "")
    return log.matrix.release(known.name, found, "linux_x86_64") if found else None


def _compat(log: Log) -> Iterator[Claim]:
    """Read what a compat libcuda leads to: 804, where the host's driver is older than the image, and 803."""
    for event in log.of("forward-compat-804"):
        if log.in_container:
            means = (
                "The image brings a newer CUDA than the host's driver, and its compat libcuda does not suit this GPU."
            )
            yield Claim("driver-too-old", Strength.DERIVED, means, (event,), rivals=("forward-compat-misused",))
    compat = re.search(r"[^:\s]*/cuda[^/:\s]*/compat(?=[/:\s]|$)", log.library_path)
    for event in log.of("system-driver-mismatch-803") if compat else ():
        means = (
            "The library path puts a libcuda of CUDA's compat folder, which is for other drivers, before the driver's."
        )
        yield Claim("forward-compat-misused", Strength.NAMED_PART, means, (event,), rivals=("driver-library-mismatch",))


_NO_ANSWER = ("smi-failed", "smi-not-found", "torch-no-driver", "torch-unavailable", "torch-no-gpus", "lspci-none")
_NOT_AVAILABLE = ("torch-unavailable", "tf-cpu-only-list", "torch-no-gpus", "cuda-no-device")


def _weigh_passing_remarks(log: Log) -> Iterator[Claim]:
    """Weigh what the log asks for or lists beside a failure that says no more than that no GPU is used."""
    failed = log.of(*_NO_ANSWER)
    if failed and log.values("other_gpu") and not log.values("nvidia_gpu") and not log.driver:
        means = "The graphics adapter that lspci lists is not NVIDIA's, and no other one is listed."
        events = (*failed, *log.of("lspci-other-gpu"))
        yield Claim("gpu-absent", Strength.PROBABLE, means, events, rivals=("driver-missing",))
    asked = log.of("visible-devices-asked")
    if asked and log.has(*_NOT_AVAILABLE) and not log.is_healthy:
        means = "CUDA_VISIBLE_DEVICES was looked at while no GPU is seen: what it holds may hide them."
        yield Claim(
            "visible-devices-hidden",
            Strength.SIDE_EFFECT,
            means,
            (*asked, *log.of(*_NOT_AVAILABLE)),
            rivals=("driver-missing",),
        )
    elif asked and log.has("torch-device-count-asked") and log.has("smi-list", "smi-gpu-row"):
        means = "nvidia-smi lists a GPU; CUDA_VISIBLE_DEVICES and the count of GPUs that CUDA sees were looked at."
        yield Claim(
            "visible-devices-hidden", Strength.FAILED_CALL, means, (*asked, *log.of("torch-device-count-asked"))
        )


def _answered_visible(log: Log) -> Iterator[Claim]:
    """Read what CUDA_VISIBLE_DEVICES was answered to hold, where no GPU is seen."""
    unseen = log.of(*_NOT_AVAILABLE, "answered-no-count", "answered-no-gpu-list")
    for event in log.of("answered-visible-devices") if unseen and not log.is_healthy else ():
        visible = event.captured["visible"]
        hides = visible in ("-1", "NoDevFiles") or (visible.isdecimal() and int(visible) > 0)
        means = f"CUDA_VISIBLE_DEVICES is {visible}, and no GPU is seen."
        yield Claim(
            "visible-devices-hidden",
            Strength.DERIVED if hides else Strength.SIDE_EFFECT,
            means,
            (event, *unseen),
            rivals=("driver-missing",),
        )


def _mig(log: Log) -> Iterator[Claim]:
    hidden = log.of(*_NO_DEVICE, "torch-invalid-ordinal")
    stated = any(get_value(gpu.mig_enabled) for gpu in get_value(log.facts.gpus) or ())
    if hidden and (stated or log.has("mig-on", "mig-uuid")):
        means = "The GPU is in MIG mode and CUDA sees no instance of it: select one by its UUID."
        yield Claim("mig-config", Strength.NOT_FOUND, means, (*hidden, *log.of("mig-on", "mig-uuid")))


def harmless_without_gpu(log: Log) -> bool:
    """Tell whether what the log says on driver and CUDA is normal: no GPU here, or a GPU that works all the same."""
    return log.has_no_gpu or log.is_healthy


HELD, EXHAUSTED = "gpu-memory-held", "gpu-memory-exhausted"
_UNITS = {"bytes": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_OUT = ("torch-oom", "torch-oom-new", "cuda-oom", "tf-failed-allocate", "vllm-memory")
_STARTS = ("cudnn-handle", "cublas-not-initialized", "cudnn-not-initialized")


def memory_claims(log: Log) -> Iterator[Claim]:
    """Tell a card that others hold from a program that asks for more than there is."""
    held = _held(log)
    if held is not None:
        yield held
    own = max(
        (_size(item.captured, "own_allocated", "own_allocated_unit") for item in log.of("torch-oom-allocated")),
        default=0,
    )
    for event in log.of("torch-oom-other-process"):
        other = _bytes(event.captured["other"], event.captured["other_unit"])
        if other > max(_bytes("1", "GiB"), own * 3 // 2):  # in a container a process is named as if it were another
            yield Claim(HELD, Strength.NAMED_PART, "Another process holds much of the GPU's memory.", (event,))
    for event in log.of(*_OUT):
        yield _out_of_memory(event)
    for event in log.of("cudnn-handle"):
        means = "cuDNN could not start on the GPU, mostly because its memory is taken already."
        yield Claim(EXHAUSTED, Strength.FAILED_PART, means, (event,), rivals=("cudnn-too-old",))
    yield from _holders(log)


def _out_of_memory(event: Event) -> Claim:
    row = event.captured
    total, free = _size(row, "total", "unit"), _size(row, "free", "free_unit")
    own = _size(row, "allocated", "allocated_unit")
    if total and free >= 0 and own >= 0 and own + free < total / 2:
        means = (
            f"This process holds {row['allocated']} {row['allocated_unit']} and the card is full: others hold the rest."
        )
        return Claim(HELD, Strength.NAMED_PART, means, (event,))
    if event.signature == "vllm-memory" and 0 <= free < total / 2:
        return Claim(HELD, Strength.NAMED_PLACE, "Most of the card was taken before this process began.", (event,))
    strength = Strength.DERIVED if event.signature.startswith("torch-oom") else Strength.DECIDED
    return Claim(EXHAUSTED, strength, "The program asks for more GPU memory than is free.", (event,), rivals=(HELD,))


def _held(log: Log) -> Claim | None:
    """Look for a card that was full before the program took anything."""
    totals = [(event, _size(event.captured, "total", "unit")) for event in log.of("tf-memory-total")]
    frees = [(event, _size(event.captured, "free", "free_unit")) for event in log.of("tf-memory-free")]
    for (event, total), (other, free) in zip(totals, frees):
        if total > 0 and 0 <= free < total / 10:
            return Claim(
                HELD, Strength.NAMED_PART, "Almost nothing of the card was free when the program began.", (event, other)
            )
    if not log.has(*_OUT, *_STARTS, "tf-resource-exhausted", "xla-oom", "cublas-not-initialized"):
        return None
    for event in log.of("smi-memory"):
        used, total = int(event.captured["used"]), int(event.captured["total"])
        if total and used > total * 0.8:
            return Claim(HELD, Strength.NAMED_PLACE, f"nvidia-smi shows {used} of {total} MiB in use.", (event,))
    return None


def _holders(log: Log) -> Iterator[Claim]:
    holders = [item for item in log.of("fuser-holder", "lsof-holder") if _computes(item.captured.get("process", ""))]
    if holders:
        names = ", ".join(f"{item.captured['process']} ({item.captured['pid']})" for item in holders[:4])
        yield Claim(HELD, Strength.MISSING_HERE, f"Processes have the GPU open: {names}.", tuple(holders))


def _computes(process: str) -> bool:
    return any(name in process for name in ("python", "jupyter", "tritonserver", "ollama", "vllm", "java", "julia"))


def _size(row: dict[str, str], value: str, unit: str) -> int:
    return _bytes(row[value], row.get(unit, "MiB")) if value in row else -1


def _bytes(value: str, unit: str) -> int:
    """Read a size; -1 for what is no number, such as 1.2.3."""
    whole, _, part = value.strip(".").partition(".")
    if not whole.isdecimal() or (part and not part.isdecimal()):
        return -1
    return int(float(f"{whole}.{part or 0}") * _UNITS.get(unit if unit == "bytes" else unit[:1], 1))
