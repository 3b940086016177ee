"""PyTorch: list its devices, then multiply on each and see where the result lies."""

import time
from typing import TYPE_CHECKING, Any, List, Optional

if TYPE_CHECKING:
    from envcheck.smoke.children.start import Report

LEFT, RIGHT = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
PRODUCT = [[22.0, 28.0], [49.0, 64.0]]


def run(report: "Report") -> Any:
    """Open PyTorch, list its devices and multiply on each; return (torch, devices, place_of, name_of)."""
    torch = load(report)
    devices = None if torch is None else list_devices(report, torch)
    if devices is None:
        return None
    for device in devices:
        multiply(report, torch, device)
    return torch, devices, place_of, name_of


def load(report: "Report") -> Any:
    """Import PyTorch."""
    with report.step("import") as step:
        begun = time.time()
        import torch

        seconds = time.time() - begun
        report.framework("torch", torch.__version__, seconds, cuda_build=torch.version.cuda is not None)
        step.passed("PyTorch %s, imported in %.1f s" % (torch.__version__, seconds))
        return torch
    return None


def list_devices(report: "Report", torch: Any) -> Optional[List[str]]:
    """List devices; return them as CPU:0, GPU:0, or None where a GPU is asked for and there is none."""
    wanted = 0 if report.gpu == "cpu" else report.count
    with report.step("devices") as step:
        available, count = torch.cuda.is_available(), torch.cuda.device_count()
        report.devices("torch.cuda.device_count", ["GPU:%d" % index for index in range(count)])
        report.devices("torch.cuda.is_available", ["GPU"] if available else [])
        if wanted and not available and torch.version.cuda is None:
            step.failed("this PyTorch is a build without CUDA", "framework-cpu-build")
        elif wanted and not available:
            torch.cuda.init()  # raises with the driver's own words
            step.failed("torch.cuda.is_available() says no")
        elif count < wanted:
            step.failed("PyTorch lists %d of %d GPUs" % (count, wanted))
        else:
            names = [torch.cuda.get_device_name(index) for index in range(count)] if wanted else []
            report.devices("torch.cuda.get_device_name", names)
            step.passed(", ".join(["CPU"] + names))
        return ["CPU:0"] + (["GPU:%d" % index for index in range(count)] if wanted else [])
    return None


def place_of(tensor: Any) -> str:
    """Return the device that holds a tensor."""
    return "%s:%d" % ("GPU" if tensor.device.type == "cuda" else tensor.device.type.upper(), tensor.device.index or 0)


def name_of(device: str) -> str:
    """Return PyTorch's own name of CPU:0 or GPU:0."""
    return device.replace("GPU:", "cuda:") if device.startswith("GPU") else "cpu"


def multiply(report: "Report", torch: Any, device: str) -> None:
    """Multiply on a device."""
    with report.step("matmul", device) as step:
        left, right = (torch.tensor(each, device=name_of(device)) for each in (LEFT, RIGHT))
        product = torch.matmul(left, right)
        step.judge(product.cpu().tolist(), PRODUCT, place_of(product))
