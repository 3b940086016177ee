"""Conclude from messages about the driver, containers and GPU memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.explain.log import Claim, Log, Strength, find_framework_of_message, parse_number
from envcheck.explain.signatures import Event, load_driver_errors
from envcheck.model import FrameworkRelease

_NO_DEVICE = (
    "cuda-no-device",
    "torch-no-gpus",
    "devicequery-100",
    "nccl-process-group-no-gpu",
    "yolo-invalid-device",
)
_NO_DRIVER = ("cuinit-unknown-303", "tf-kernel-driver-not-running", "torch-no-driver", "lspci-none")


def driver_claims(log: Log) -> Iterator[Claim]:
    """Say why no GPU is seen."""
    for event in log.select(*_NO_DEVICE):
        yield _judge_missing_device(log, event)
    for event in log.select("driver-init-failure", "cuda-failure-number"):
        yield _judge_error_code(event)
    yield from _judge_hidden_gpus(log)
    yield from _judge_absent_gpu(log)
    yield from _judge_apptainer(log)
    yield from _judge_tensorflow(log)
    yield from _judge_mig(log)
    yield from _judge_compat(log)
    yield from _judge_printed_variable(log)
    yield from _judge_side_remarks(log)


_GPU_ERRORS = (
    "torch-no-driver",
    "torch-no-gpus",
    "torch-driver-init-failed",
    "jax-no-visible-gpus",
    "smi-failed",
)


def _judge_apptainer(log: Log) -> Iterator[Claim]:
    """Say that Apptainer was started without --nv, where what runs in it finds no driver."""
    starts = log.select("container-apptainer")
    failures = log.select(
        "missing-dynamic-library",
        "cannot-open-shared-object",
        *_NO_DRIVER,
        *_NO_DEVICE,
        "smi-not-found",
    )
    failures = tuple(
        event for event in failures if "lib" not in event.text or "libcuda.so" in event.text
    )
    if starts and failures and not any("apptainer_nv" in event.values for event in starts):
        message = "Apptainer (Singularity) passes the host's driver to a container only with --nv."
        yield Claim(
            "driver-not-in-container",
            Strength.NAMED_PART,
            message,
            (*failures, *starts),
            rivals=("driver-missing",),
        )


def _judge_absent_gpu(log: Log) -> Iterator[Claim]:
    events = log.select(*_GPU_ERRORS) if log.has_no_gpu else ()
    if events:
        yield Claim(
            "gpu-absent",
            Strength.NAMED_PLACE,
            "The program needs a GPU, and this machine has no NVIDIA GPU.",
            events,
        )


def _judge_error_code(event: Event) -> Claim:
    code = event.values["code"]
    return Claim(
        load_driver_errors().get(code, "driver-missing"),
        Strength.NOT_FOUND,
        f"The start of the driver ended with error {code}.",
        (event,),
    )


def _judge_missing_device(log: Log, event: Event) -> Claim:
    visible = next((value for _, value in log.find_captures("visible")), None)
    visible = log.environment.get("CUDA_VISIBLE_DEVICES", visible)
    if visible is not None and visible.startswith("MIG"):
        message = f"CUDA_VISIBLE_DEVICES names the MIG instance {visible}, which does not exist."
        return Claim("mig-config", Strength.MISSING_HERE, message, (event,))
    if visible is not None and visible not in ("0", "all"):
        message = f"CUDA_VISIBLE_DEVICES is {visible!r}, which hides every GPU of this machine."
        is_list = "," in visible  # several numbers may be right, and the driver at fault
        return Claim(
            "visible-devices-hidden",
            Strength.PROBABLE if is_list else Strength.NAMED_PLACE,
            message,
            (event,),
            rivals=("driver-missing",),
        )
    if log.has("tf-kernel-driver-not-running"):
        message = "CUDA finds no GPU, and no kernel driver runs."
        return Claim(
            "driver-missing", Strength.FAILED_CALL, message, (event,), rivals=("gpu-absent",)
        )
    if log.in_container:
        message = "CUDA starts in the container but finds no GPU."
        rivals = ("visible-devices-hidden",)
        return Claim(
            "driver-not-in-container", Strength.FAILED_PART, message, (event,), rivals=rivals
        )
    message = "CUDA starts but finds no GPU: it is hidden or absent, or the driver is not loaded."
    return Claim(
        "visible-devices-hidden",
        Strength.FAILED_CALL,
        message,
        (event,),
        rivals=("driver-missing", "gpu-absent"),
    )


def _judge_hidden_gpus(log: Log) -> Iterator[Claim]:
    """Say that no GPU is listed because CUDA_VISIBLE_DEVICES names none."""
    settings = [event for event, value in log.find_captures("visible") if value in ("", "-1")]
    failures = [
        event
        for event in log.select("tf-cpu-only-list", "torch-unavailable")
        if event.signature == "tf-cpu-only-list"
        or "False" in event.text
        or "not available" in event.text
    ]
    if settings and failures:
        message = "CUDA_VISIBLE_DEVICES names no GPU, and none is listed."
        yield Claim("visible-devices-hidden", Strength.PROBABLE, message, (*settings, *failures))


def _judge_tensorflow(log: Log) -> Iterator[Claim]:
    """Judge what newer TensorFlow says without naming a library, by the release that says it."""
    for event in log.select("tf-no-cuda-drivers"):
        if log.has_no_gpu:
            continue
        uses_wheels = (
            "local_tsl" in event.text or "local_xla" in event.text
        )  # its sources moved there with the CUDA extra
        uses_wheels = uses_wheels or _uses_cuda_wheels(log, event)
        finding = "framework-cuda-extra-missing" if uses_wheels else "toolkit-missing"
        message = "TensorFlow could not open libcudart. The driver it mentions need not be missing."
        yield Claim(
            finding,
            Strength.OPEN if log.driver else Strength.FAILED_CALL,
            message,
            (event,),
            rivals=("driver-missing", "gpu-absent"),
        )
    for event in log.select("tf-cannot-dlopen-gpu"):
        if "cuda" in log.library_path.lower():
            message = (
                "TensorFlow could not load a CUDA library, and LD_LIBRARY_PATH puts other copies"
                " first."
            )
            yield Claim(
                "toolkit-path-conflict",
                Strength.FAILED_PART,
                message,
                (event,),
                rivals=("cuda-wheel-not-found",),
            )
        elif any(re.fullmatch(r"nvidia-[a-z-]+-cu\d+", name) for name in log.packages):
            message = (
                "The CUDA wheels are installed, but TensorFlow's loader does not find one of them."
            )
            yield Claim(
                "cuda-wheel-not-found",
                Strength.PROBABLE,
                message,
                (event,),
                rivals=("toolkit-path-conflict",),
            )
        elif log.has("pip-list-nvidia-asked") and _uses_cuda_wheels(log, event):
            message = (
                "TensorFlow could not load a CUDA library, and the package list contains no CUDA"
                " wheel."
            )
            yield Claim(
                "framework-cuda-extra-missing",
                Strength.PROBABLE,
                message,
                (event,),
                rivals=("toolkit-missing",),
            )
        else:
            yield from _judge_unnamed_library(log, event)


# TensorFlow 2.17 and newer name files without folders
_LOOKS_FOR_WHEELS = r"(?:^|\s)gpu_device\.cc:"


def _judge_unnamed_library(log: Log, event: Event) -> Iterator[Claim]:
    """Judge by the release which library TensorFlow could not open.

    Of the toolkit, cuDNN, or of the CUDA wheels.
    """
    if (
        _uses_cuda_wheels(log, event) or re.search(_LOOKS_FOR_WHEELS, event.text)
    ) and not log.cudas:
        if log.in_container:
            message = (
                "TensorFlow finds no library of some part of CUDA in the container: mostly cuDNN of"
                " the major it needs."
            )
            others = ("cudnn-wrong-major", "cuda-wheel-not-found", "framework-cuda-extra-missing")
            yield Claim("cudnn-missing", Strength.FAILED_CALL, message, (event,), rivals=others)
            return
        message = (
            "This TensorFlow loads CUDA from the nvidia-* wheels, but does not find one of their"
            " libraries."
        )
        rivals = ("framework-cuda-extra-missing", "toolkit-missing")
        yield Claim("cuda-wheel-not-found", Strength.FAILED_CALL, message, (event,), rivals=rivals)
        return
    row = _find_nearest_release(log, event, exact=True)
    if row and row.cuda and row.cuda in log.cudas and log.facts.cudnn.value is None:
        message = (
            f"CUDA {row.cuda}, which this TensorFlow loads, is installed; the log shows no cuDNN."
        )
        yield Claim(
            "cudnn-missing",
            Strength.FAILED_PART,
            message,
            (event,),
            rivals=("toolkit-path-conflict",),
        )


def _uses_cuda_wheels(log: Log, event: Event) -> bool:
    """Return whether the speaking framework has CUDA libraries as wheels, by its release."""
    row = _find_nearest_release(log, event)
    return row is not None and row.gpu_extra is not None


def _find_nearest_release(
    log: Log, event: Event, *, exact: bool = False
) -> FrameworkRelease | None:
    """Return the matrix' row of the framework that says something.

    Of its release, or of the last one before it.
    """
    framework = find_framework_of_message(event.signature)
    version = log.release_of(framework).partition("+")[0] if framework else ""
    if not framework or not version:
        return None
    versions = (
        item for item in log.matrix.versions(framework.name) if item == version or not exact
    )
    nearest = next((item for item in versions if parse_number(item) <= parse_number(version)), "")
    if nearest:
        return log.matrix.release(framework.name, nearest, "linux_x86_64")
    return None


def _judge_compat(log: Log) -> Iterator[Claim]:
    """Read what a compat libcuda leads to.

    804, where the host's driver is older than the image, and 803.
    """
    for event in log.select("forward-compat-804"):
        if log.in_container:
            message = (
                "The image has a newer CUDA than the host's driver, and its compat libcuda does not"
                " support this GPU."
            )
            yield Claim(
                "driver-too-old",
                Strength.DERIVED,
                message,
                (event,),
                rivals=("forward-compat-misused",),
            )
    compat_path = re.search(r"[^:\s]*/cuda[^/:\s]*/compat(?=[/:\s]|$)", log.library_path)
    for event in log.select("system-driver-mismatch-803") if compat_path else ():
        message = (
            "The library path puts the libcuda of CUDA's compat folder, for other drivers, before"
            " the driver's."
        )
        yield Claim(
            "forward-compat-misused",
            Strength.NAMED_PART,
            message,
            (event,),
            rivals=("driver-library-mismatch",),
        )


_NO_ANSWER = (
    "smi-failed",
    "smi-not-found",
    "torch-no-driver",
    "torch-unavailable",
    "torch-no-gpus",
    "lspci-none",
)
_NOT_AVAILABLE = ("torch-unavailable", "tf-cpu-only-list", "torch-no-gpus", "cuda-no-device")


def _judge_side_remarks(log: Log) -> Iterator[Claim]:
    """Weigh what the log asks for or lists beside a failure that only misses the GPU."""
    failures = log.select(*_NO_ANSWER)
    if failures and log.values("other_gpu") and not log.values("nvidia_gpu") and not log.driver:
        message = "The only graphics adapter that lspci lists is not from NVIDIA."
        events = (*failures, *log.select("lspci-other-gpu"))
        yield Claim("gpu-absent", Strength.PROBABLE, message, events, rivals=("driver-missing",))


def _judge_printed_variable(log: Log) -> Iterator[Claim]:
    """Read what CUDA_VISIBLE_DEVICES was answered to hold, where no GPU is seen."""
    failures = log.select(*_NOT_AVAILABLE, "answered-no-count", "answered-no-gpu-list")
    for event in log.select("answered-visible-devices") if failures and not log.is_healthy else ():
        visible = event.values["visible"]
        hides = visible in ("-1", "NoDevFiles") or (visible.isdecimal() and int(visible) > 0)
        message = f"CUDA_VISIBLE_DEVICES is {visible}, and no GPU is seen."
        yield Claim(
            "visible-devices-hidden",
            Strength.DERIVED if hides else Strength.SIDE_EFFECT,
            message,
            (event, *failures),
            rivals=("driver-missing",),
        )


def _judge_mig(log: Log) -> Iterator[Claim]:
    failures = log.select(*_NO_DEVICE, "torch-invalid-ordinal")
    is_enabled = any(gpu.mig_enabled.value for gpu in log.facts.gpus.value or ())
    if failures and (is_enabled or log.has("mig-on", "mig-uuid")):
        message = (
            "The GPU is in MIG mode, and CUDA finds no instance of it: select one by its UUID."
        )
        yield Claim(
            "mig-config",
            Strength.NOT_FOUND,
            message,
            (*failures, *log.select("mig-on", "mig-uuid")),
        )


def is_normal_without_gpu(log: Log) -> bool:
    """Return whether what the log says on driver and CUDA is normal.

    No GPU here, or a GPU that works all the same.
    """
    return log.has_no_gpu or log.is_healthy


MEMORY_HELD, MEMORY_EXHAUSTED = "gpu-memory-held", "gpu-memory-exhausted"
_TABLE = 40  # lines: a log that is no more than nvidia-smi's table
_UNITS = {"bytes": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_OUT_OF_MEMORY = ("torch-oom", "torch-oom-new", "cuda-oom", "tf-failed-allocate", "vllm-memory")
_LIBRARY_START_FAILURES = ("cudnn-handle", "cublas-not-initialized", "cudnn-not-initialized")


def memory_claims(log: Log) -> Iterator[Claim]:
    """Tell a card that others hold from a program that asks for more than there is."""
    full_gpu = _judge_full_gpu(log)
    if full_gpu is not None:
        yield full_gpu
    allocated = max(
        (
            _parse_size(item.values, "own_allocated", "own_allocated_unit")
            for item in log.select("torch-oom-allocated")
        ),
        default=0,
    )
    for event in log.select("torch-oom-other-process"):
        other = _parse_bytes(event.values["other"], event.values["other_unit"])
        if other > max(
            _parse_bytes("1", "GiB"), allocated * 3 // 2
        ):  # in a container a process is named as if it were another
            yield Claim(
                MEMORY_HELD,
                Strength.NAMED_PART,
                "Another process holds much of the GPU's memory.",
                (event,),
            )
    for event in log.select(*_OUT_OF_MEMORY):
        yield _judge_out_of_memory(event)
    yield from _judge_gpu_processes(log)


def _judge_out_of_memory(event: Event) -> Claim:
    row = event.values
    total = _parse_size(row, "total", "unit")
    free = _parse_size(row, "free", "free_unit")
    allocated = _parse_size(row, "allocated", "allocated_unit")
    if total and free >= 0 and allocated >= 0 and allocated + free < total / 2:
        size = f"{row['allocated']} {row['allocated_unit']}"
        message = (
            f"This process holds {size} and the GPU's memory is full: other processes hold the"
            " rest."
        )
        return Claim(MEMORY_HELD, Strength.NAMED_PART, message, (event,))
    if event.signature == "vllm-memory" and 0 <= free < total / 2:
        return Claim(
            MEMORY_HELD,
            Strength.NAMED_PLACE,
            "Most of the GPU's memory was in use before this process started.",
            (event,),
        )
    strength = Strength.DECIDED
    if event.signature.startswith("torch-oom"):
        strength = Strength.DERIVED
    return Claim(
        MEMORY_EXHAUSTED,
        strength,
        "The program requests more GPU memory than is free.",
        (event,),
        rivals=(MEMORY_HELD,),
    )


def _judge_full_gpu(log: Log) -> Claim | None:
    """Look for a card that was full before the program took anything."""
    total_sizes = [
        (event, _parse_size(event.values, "total", "unit"))
        for event in log.select("tf-memory-total")
    ]
    free_sizes = [
        (event, _parse_size(event.values, "free", "free_unit"))
        for event in log.select("tf-memory-free")
    ]
    for (event, total), (free_event, free) in zip(total_sizes, free_sizes):
        if total > 0 and 0 <= free < total / 10:
            return Claim(
                MEMORY_HELD,
                Strength.NAMED_PART,
                "Almost no GPU memory was free when the program started.",
                (event, free_event),
            )
    is_table = 0 < log.lines < _TABLE and not log.has("smi-process")
    is_table = is_table and all(event.signature.startswith("smi-") for event in log.events)
    if not is_table and not log.has(
        *_OUT_OF_MEMORY,
        *_LIBRARY_START_FAILURES,
        "tf-resource-exhausted",
        "xla-oom",
        "cublas-not-initialized",
    ):
        return None
    for event in log.select("smi-memory"):
        used, total = int(event.values["used"]), int(event.values["total"])
        if total and used > total * (0.5 if is_table else 0.8):
            return Claim(
                MEMORY_HELD,
                Strength.NAMED_PLACE,
                f"nvidia-smi shows {used} of {total} MiB in use.",
                (event,),
            )
    return None


def _judge_gpu_processes(log: Log) -> Iterator[Claim]:
    holders = [
        item
        for item in log.select("fuser-holder", "lsof-holder")
        if _is_compute_process(item.values.get("process", ""))
    ]
    if holders:
        names = ", ".join(
            f"{item.values['process']} ({item.values['pid']})" for item in holders[:4]
        )
        yield Claim(
            MEMORY_HELD,
            Strength.MISSING_HERE,
            f"Processes have the GPU open: {names}.",
            tuple(holders),
        )


def _is_compute_process(process: str) -> bool:
    return any(
        name in process
        for name in ("python", "jupyter", "tritonserver", "ollama", "vllm", "java", "julia")
    )


def _parse_size(row: dict[str, str], value: str, unit: str) -> int:
    return _parse_bytes(row[value], row.get(unit, "MiB")) if value in row else -1


def _parse_bytes(value: str, unit: str) -> int:
    """Read a size; -1 for what is no number, such as 1.2.3."""
    integer, _, fraction = value.strip(".").partition(".")
    if not integer.isdecimal() or (fraction and not fraction.isdecimal()):
        return -1
    return int(
        float(f"{integer}.{fraction or 0}") * _UNITS.get(unit if unit == "bytes" else unit[:1], 1)
    )
