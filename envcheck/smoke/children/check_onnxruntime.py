"""ONNX Runtime: its providers, and models encoded here.

A model is protocol-buffer bytes (https://github.com/onnx/onnx/blob/v1.16.0/onnx/onnx.proto), so no
other package is needed. Where a node ran, a session's own profile tells.
"""

import json
import os
import tempfile
import threading
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Optional, Tuple

from smoke_engine import Engine as Base
from smoke_engine import SkippedError
from smoke_numbers import LEFT, MISSING, RIGHT, Action, Answer, random_factors, to_array

if TYPE_CHECKING:
    from start import Report, Step

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
KINDS = {"float32": 1, "float16": 10}  # onnx.TensorProto.DataType
WARNING, FATAL = 2, 4  # of set_default_logger_severity()
IR_VERSION, OPSET = 7, 13  # what every release reads that runs on a Python of today
NO_GRADIENTS = "ONNX Runtime computes forwards only"


class Engine(Base):
    """ONNX Runtime."""

    name, title = "onnxruntime", "ONNX Runtime"
    lacks: ClassVar[Dict[str, str]] = {
        "reduce": "ONNX Runtime adds nothing up between devices",
        "gradients": NO_GRADIENTS,
        "train": NO_GRADIENTS,
    }

    def load(self) -> Any:
        """Import ONNX Runtime."""
        import onnxruntime

        self._ort: Any = onnxruntime
        return onnxruntime

    def about_build(self) -> Dict[str, Any]:
        """Say whether it was built with the CUDA provider."""
        return {"cuda_build": CUDA in self._ort.get_available_providers()}

    def list_devices(self, report: "Report", step: "Step") -> Optional[List[str]]:
        """Open a session on each device."""
        wanted = 0 if report.gpu == "cpu" else report.count
        providers = self._ort.get_available_providers()
        report.devices("get_available_providers", providers)
        gpus = ["GPU:%d" % index for index in range(wanted)] if CUDA in providers else []
        opened, how = open_sessions(self._ort, gpus)
        report.devices("session.get_providers", [CPU] + [CUDA] * len(opened))
        if wanted and CUDA not in providers:
            step.failed(
                "this ONNX Runtime is a build without the CUDA provider", "framework-cpu-build"
            )
        elif len(opened) < wanted:
            step.refused("the CUDA provider does not load for %s" % ", ".join(gpus[len(opened) :]))
        else:
            step.passed(", ".join(["CPU:0"] + opened) + how)
        return ["CPU:0"] + opened if opened or not wanted else None

    def product(self, device: str, left: Any, right: Any) -> Answer:
        """Multiply."""
        a, b = to_array(left), to_array(right)
        model = product_model(a.shape[0], a.shape[1], b.shape[1], a.dtype.name)
        return compute(self._ort, model, device, {"a": a, "b": b})

    def convolve(self, device: str, image: Any) -> Answer:
        """Convolve with ones."""
        side = len(image)
        inputs = [
            encode_value("x", "float32", [1, 1, side, side]),
            encode_value("k", "float32", [1, 1, 3, 3]),
        ]
        outputs = [encode_value("y", "float32", [1, 1, side - 2, side - 2])]
        model = encode_model([encode_node("Conv", "xk", "y")], inputs, outputs)
        found, place = compute(
            self._ort, model, device, {"x": to_array([[image]]), "k": to_array([[[[1.0] * 3] * 3]])}
        )
        return found.ravel().tolist(), place

    def compiled(self, device: str, left: Any, right: Any) -> Answer:
        """Run several operations as one optimised graph."""
        nodes = [encode_node("MatMul", "ab", "c"), encode_node("Exp", "c", "e")]
        nodes += [encode_node("Mul", "ez", "f"), encode_node("Add", "cf", "d")]
        inputs = [encode_value("a", "float32", [2, 3]), encode_value("b", "float32", [3, 2])]
        inputs.append(encode_value("z", "float32", [1]))
        model = encode_model(nodes, inputs, [encode_value("d", "float32", [2, 2])])
        found, place = compute(
            self._ort,
            model,
            device,
            {"a": to_array(left), "b": to_array(right), "z": to_array([0.0])},
        )
        return found.tolist(), place

    def ask_for_missing(self) -> None:
        """Ask for a device that is not there.

        A session that takes another provider has refused it.
        """
        if CUDA not in self._ort.get_available_providers():
            raise SkippedError(
                "this build has no CUDA provider, and the CPU's devices have no numbers"
            )
        if CUDA not in session(self._ort, product_model(1, 1, 1), MISSING).get_providers():
            raise RuntimeError("the session took the CPU instead")

    def towers(self, targets: List[str]) -> Answer:
        """Multiply in two towers and add on the CPU."""
        inputs = [encode_value(name, "float32", [2, 2]) for name in "ab"]
        model = encode_model(
            [encode_node("Add", "ab", "c")], inputs, [encode_value("c", "float32", [2, 2])]
        )
        one, other = (self.product(target, LEFT, RIGHT)[0] for target in targets)
        found, place = compute(self._ort, model, "CPU:0", {"a": one, "b": other})
        return found.tolist(), place

    def copy(self, source: str, target: str) -> Tuple[Any, str, str]:
        """Copy a matrix."""
        held = self._ort.OrtValue.ortvalue_from_numpy(to_array(LEFT), *on(source)).numpy()
        found = self._ort.OrtValue.ortvalue_from_numpy(held, *on(target))
        return found.numpy().tolist(), target, " (through the host's memory)"

    def multiply(self, device: str, precision: str, size: int) -> Action:
        """Multiply two square matrices.

        The CUDA provider takes TF32 for float32 unless it is told otherwise.
        """
        opened = session(self._ort, product_model(size, size, size, precision), device)
        binding = opened.io_binding()
        for name, value in zip("ab", random_factors(precision, size)):
            held = self._ort.OrtValue.ortvalue_from_numpy(value, *on(device))
            binding.bind_ortvalue_input(name, held)
        binding.bind_output("c", *on(device))

        def whole() -> None:
            opened.run_with_iobinding(binding)
            binding.synchronize_outputs()

        return whole


def on(device: str) -> Tuple[str, int]:
    """Return how ONNX Runtime names CPU:0 or GPU:0."""
    kind, index = device.split(":")
    return "cuda" if kind == "GPU" else "cpu", int(index)


def open_sessions(ort: Any, gpus: List[str]) -> Tuple[List[str], str]:
    """Return the GPUs on which a session has the CUDA provider, and what had to be called for it.

    Since 1.21 preload_dlls() loads CUDA and cuDNN from NVIDIA's wheels; a program has to call it.
    Its log keeps what the provider misses in the end, not what it misses before that call.
    """
    if not hasattr(ort, "preload_dlls"):
        return with_cuda(ort, gpus), ""
    ort.set_default_logger_severity(FATAL)
    opened = with_cuda(ort, gpus)
    ort.set_default_logger_severity(WARNING)
    if len(opened) == len(gpus):
        return opened, ""
    ort.preload_dlls()
    return with_cuda(ort, gpus), ", once onnxruntime.preload_dlls() was called"


def with_cuda(ort: Any, gpus: List[str]) -> List[str]:
    """Return the GPUs on which a session has the CUDA provider."""
    return [
        gpu for gpu in gpus if CUDA in session(ort, product_model(1, 1, 1), gpu).get_providers()
    ]


def session(ort: Any, model: bytes, device: str, **options: Any) -> Any:
    """Open a session whose nodes are to run on a device."""
    made = ort.SessionOptions()
    for name, value in options.items():
        setattr(made, name, value)
    provider = (
        CUDA,
        {"device_id": device.split(":")[1], "arena_extend_strategy": "kSameAsRequested"},
    )
    found = ort.InferenceSession(
        model, made, providers=[provider] if device.startswith("GPU") else [CPU]
    )
    found.disable_fallback()
    return found


def compute(ort: Any, model: bytes, device: str, fed: Dict[str, Any]) -> Answer:
    """Run a model; return its output and the devices in its session's profile."""
    # ONNX Runtime adds the second alone: two threads would write one file
    name = "envcheck-onnxruntime-%d" % threading.get_ident()
    prefix = os.path.join(tempfile.gettempdir(), name)
    opened = session(ort, model, device, enable_profiling=True, profile_file_prefix=prefix)
    found = opened.run(None, fed)[0]
    path = opened.end_profiling()
    with open(path, encoding="utf-8") as stream:
        events = json.load(stream)
    os.remove(path)
    return found, place_of(events, device)


def place_of(events: List[Dict[str, Any]], device: str) -> str:
    """Return the devices that ran the nodes of a model.

    Casts and copies are left out, which may run elsewhere.
    """
    ran = [event.get("args", {}) for event in events if event.get("cat") == "Node"]
    providers = {
        each.get("provider") for each in ran if each.get("op_name") not in ("Cast", "Memcpy", None)
    }
    names = {CPU: "CPU:0", CUDA: device if device.startswith("GPU") else "GPU"}
    return (
        "+".join(sorted(names.get(each, str(each)) for each in providers))
        or "no device its profile names"
    )


def encode_field(number: int, value: Any) -> bytes:
    """Encode one field of a message: an integer as a varint, all else with its length."""
    if isinstance(value, int):
        return encode_number(number << 3) + encode_number(value)
    content = value.encode("ascii") if isinstance(value, str) else value
    return encode_number(number << 3 | 2) + encode_number(len(content)) + content


def encode_each(number: int, values: Any) -> bytes:
    """Encode a repeated field: each of its values."""
    return b"".join(encode_field(number, value) for value in values)


def encode_number(value: int) -> bytes:
    """Encode a number seven bits at a time, the lowest first."""
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(groups + [value])


def encode_value(name: str, kind: str, shape: List[int]) -> bytes:
    """Encode a ValueInfoProto: a name, and the type and shape of its tensor."""
    sizes = b"".join(encode_field(1, encode_field(1, size)) for size in shape)
    tensor = encode_field(1, KINDS[kind]) + encode_field(2, sizes)
    return encode_field(1, name) + encode_field(2, encode_field(1, tensor))


def encode_node(operation: str, inputs: str, outputs: str) -> bytes:
    """Encode a NodeProto; inputs and outputs have names of one letter."""
    names = encode_each(1, inputs) + encode_each(2, outputs)
    return encode_field(1, names + encode_field(4, operation))


def encode_model(nodes: List[bytes], inputs: List[bytes], outputs: List[bytes]) -> bytes:
    """Encode a ModelProto with one graph."""
    values = encode_each(11, inputs) + encode_each(12, outputs)
    graph = b"".join(nodes) + encode_field(2, "g") + values
    return (
        encode_field(1, IR_VERSION)
        + encode_field(7, graph)
        + encode_field(8, encode_field(2, OPSET))
    )


def product_model(rows: int, inner: int, columns: int, kind: str = "float32") -> bytes:
    """Encode c = a b."""
    inputs = [encode_value("a", kind, [rows, inner]), encode_value("b", kind, [inner, columns])]
    return encode_model(
        [encode_node("MatMul", "ab", "c")], inputs, [encode_value("c", kind, [rows, columns])]
    )
