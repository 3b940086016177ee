"""PyTorch: where its tensors lie, TorchScript, its share of the memory, NCCL or gloo."""

import datetime as dt
import threading
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from smoke_engine import Engine as Base
from smoke_engine import SkippedError
from smoke_numbers import LEFT, RIGHT, Action, Answer, product_error

if TYPE_CHECKING:
    from start import Report, Step

# of the card's memory: what this process is given, and what it then asks for
SHARE, MORE = 0.25, 0.3


class Engine(Base):
    """PyTorch."""

    name, title = "torch", "PyTorch"
    # the second one's words are those of a build without CUDA
    refusals = (RuntimeError, AssertionError)
    precisions = ("float32", "tf32", "float16", "bfloat16")

    def load(self) -> Any:
        """Import PyTorch."""
        import torch

        self._torch: Any = torch
        return torch

    def about_build(self) -> Dict[str, Any]:
        """Say whether it was built with CUDA."""
        return {"cuda_build": self._torch.version.cuda is not None}

    def list_devices(self, report: "Report", step: "Step") -> Optional[List[str]]:
        """List the CPU and the GPUs."""
        torch = self._torch
        wanted = 0 if report.gpu == "cpu" else report.count
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
            if wanted:
                names = [torch.cuda.get_device_name(index) for index in range(count)]
            else:
                names = []
            report.devices("torch.cuda.get_device_name", names)
            step.passed(", ".join(["CPU"] + names))
        return ["CPU:0"] + (["GPU:%d" % index for index in range(count)] if wanted else [])

    def product(self, device: str, left: Any, right: Any) -> Answer:
        """Multiply."""
        found = self._torch.matmul(self._on(device, left), self._on(device, right))
        return found.cpu(), place_of(found)

    def _on(self, device: str, numbers: Any) -> Any:
        return self._torch.tensor(numbers, device=name_of(device))

    def large_error(self, device: str, kind: str, size: int) -> Tuple[float, str]:
        """Multiply random matrices.

        Without NumPy PyTorch's own double precision tells what is right.
        """
        torch = self._torch
        torch.manual_seed(0)
        left, right = (torch.randn(size, size).to(getattr(torch, kind)) for _ in range(2))
        found = torch.matmul(left.to(name_of(device)), right.to(name_of(device)))
        try:
            factors = left.numpy(), right.numpy()
            return product_error(found.cpu().numpy(), factors), place_of(found)
        except (ImportError, RuntimeError):
            wanted = left.double() @ right.double()
            return (found.cpu().double() - wanted).abs().max().item() / size**0.5, place_of(found)

    def convolve(self, device: str, image: Any) -> Answer:
        """Convolve with ones."""
        ones = self._torch.ones(1, 1, 3, 3, device=name_of(device))
        found = self._torch.nn.functional.conv2d(self._on(device, [[image]]), ones)
        return found.cpu().flatten().tolist(), place_of(found)

    def compiled(self, device: str, left: Any, right: Any) -> Answer:
        """Trace and compile by TorchScript, which needs no host compiler."""
        torch = self._torch
        given = (self._on(device, left), self._on(device, right))
        product = torch.jit.trace(lambda a, b: torch.relu(a @ b) + 0.0 * torch.exp(a @ b), given)
        for _ in range(3):  # the first runs only profile
            found = product(*given)
        return found.cpu().tolist(), place_of(found)

    def check_memory(self, report: "Report", device: str) -> None:
        """Compare its memory; given a quarter of the card, more must then be refused."""
        super().check_memory(report, device)
        cuda = self._torch.cuda
        with report.step("memory share", device) as step:
            if not hasattr(cuda, "set_per_process_memory_fraction"):
                raise SkippedError("a share of the memory came with PyTorch 1.8")
            asked = int(MORE * cuda.get_device_properties(0).total_memory)
            free = getattr(cuda, "mem_get_info", lambda: (asked,))()[0]
            if free < asked:
                raise SkippedError("only %.1f GiB of the card are free" % (free / 2.0**30))
            cuda.set_per_process_memory_fraction(SHARE)
            try:
                self._torch.empty(asked, dtype=self._torch.uint8, device="cuda:0")
                step.failed(
                    "%d %% of the card was handed out, %d %% was allowed"
                    % (100 * MORE, 100 * SHARE)
                )
            except RuntimeError as error:
                step.passed("refused full, as it should: %s" % str(error).splitlines()[0][:200])
            finally:
                cuda.set_per_process_memory_fraction(1.0)

    def towers(self, targets: List[str]) -> Answer:
        """Multiply in two towers and add on the CPU."""
        products = [self._on(target, LEFT) @ self._on(target, RIGHT) for target in targets]
        found = products[0].cpu() + products[1].cpu()
        return found.tolist(), place_of(found)

    def copy(self, source: str, target: str) -> Tuple[Any, str, str]:
        """Copy a matrix; say whether the GPUs can reach each other directly."""
        found = self._on(source, LEFT).to(name_of(target))
        numbers = [int(name.split(":")[1]) for name in (source, target)]
        direct = self._torch.cuda.can_device_access_peer(*numbers)
        how = " (%s)" % ("directly" if direct else "through the host's memory")
        return found.cpu().tolist(), place_of(found), how

    def reduce(self, targets: List[str]) -> Answer:
        """Add up by NCCL, on the CPU by gloo."""
        torch = self._torch
        numbers = [
            torch.full((4,), at + 1.0, device=name_of(target)) for at, target in enumerate(targets)
        ]
        if not targets[0].startswith("GPU"):
            return reduce_by_gloo(torch, numbers), "gloo"
        if not torch.cuda.nccl.is_available(numbers):
            raise SkippedError("this build of PyTorch has no NCCL")
        torch.cuda.nccl.all_reduce(numbers)
        return first_of_each(numbers), "NCCL"

    def gradients(self, rows: Any, targets: List[str]) -> Tuple[List[List[float]], List[float]]:
        """Return the sum of all devices' gradients, and the first one's of all rows."""
        shares = [rows[at :: len(targets)] for at in range(len(targets))]
        together = sum(self._gradient(*each) for each in zip(shares, targets))
        return [together.flatten().tolist()], self._gradient(rows, targets[0]).flatten().tolist()

    def _gradient(self, rows: Any, target: str) -> Any:
        weights = self._torch.ones(4, 1, device=name_of(target), requires_grad=True)
        ((self._on(target, rows) @ weights) ** 2).sum().backward()
        return weights.grad.cpu()

    def multiply(self, device: str, precision: str, size: int) -> Action:
        """Multiply two square matrices."""
        torch = self._torch
        kind = "float32" if precision == "tf32" else precision
        if hasattr(torch.backends.cuda, "matmul"):  # since PyTorch 1.7
            torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        factors = [
            torch.rand(size, size).to(name_of(device)).to(getattr(torch, kind)) for _ in range(2)
        ]
        return self._finished(device, lambda: factors[0] @ factors[1])

    def train(self, device: str) -> Action:
        """Train a small convolutional network for one step on images made on the spot."""
        torch, where = self._torch, name_of(device)
        layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 16, 3),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(16 * 13 * 13, 10),
        ).to(where)
        images = torch.rand(64, 1, 28, 28, device=where)
        labels = torch.randint(10, (64,)).to(where)
        optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)

        def step() -> None:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(layers(images), labels).backward()
            optimizer.step()

        return self._finished(device, step)

    def _finished(self, device: str, action: Action) -> Action:
        if not device.startswith("GPU"):
            return action

        def whole() -> None:
            action()
            self._torch.cuda.synchronize()

        return whole


def place_of(tensor: Any) -> str:
    """Return the device that holds a tensor."""
    return "%s:%d" % (
        "GPU" if tensor.device.type == "cuda" else tensor.device.type.upper(),
        tensor.device.index or 0,
    )


def name_of(device: str) -> str:
    """Return PyTorch's own name of CPU:0 or GPU:0."""
    return device.replace("GPU:", "cuda:") if device.startswith("GPU") else "cpu"


def reduce_by_gloo(torch: Any, numbers: List[Any]) -> List[float]:
    """Add tensors of the CPU up in place, each a rank with a thread of its own."""
    if not hasattr(torch.distributed, "ProcessGroupGloo"):
        raise SkippedError("this build of PyTorch has no gloo")
    store, patience, refused = torch.distributed.HashStore(), dt.timedelta(seconds=30), []  # type: Any, Any, List[Any]

    def take_part(rank: int) -> None:
        try:
            group = torch.distributed.ProcessGroupGloo(store, rank, len(numbers), patience)
            group.allreduce([numbers[rank]]).wait()
        except RuntimeError as error:
            refused.append(error)

    ranks = [threading.Thread(target=take_part, args=(rank,)) for rank in range(len(numbers))]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    if refused:  # a host whose own name leads nowhere, say: that is nothing a GPU would meet
        raise SkippedError("gloo did not start: %s" % str(refused[0])[:200])
    return first_of_each(numbers)


def first_of_each(numbers: List[Any]) -> List[float]:
    """Return each tensor's number, of which it holds four."""
    found = [each.cpu().tolist() for each in numbers]
    return [each[0] if each == each[:1] * 4 else float("nan") for each in found]
