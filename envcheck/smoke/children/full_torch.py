"""PyTorch, the full level."""

import datetime as dt
import threading
from typing import TYPE_CHECKING, Any, List, Tuple

if TYPE_CHECKING:
    from envcheck.smoke.children import full_checks as checks
    from envcheck.smoke.children.driver_api import SkippedError
    from envcheck.smoke.children.start import Report
else:
    import full_checks as checks
    from driver_api import SkippedError

SHARE, MORE = 0.25, 0.3  # of the card's memory: what this process is given, and what it then asks for


def more(report: "Report", opened: Any) -> None:
    """Go on where placing left off."""
    torch, devices, place_of, name_of = opened
    checks.run(report, devices, Engine(torch, place_of, name_of))


class Engine:
    """What PyTorch is asked for."""

    refusals = (RuntimeError, AssertionError)  # the second one's words are those of a build without CUDA

    def __init__(self, torch: Any, place_of: Any, name_of: Any) -> None:
        self._torch, self._place_of, self._name_of = torch, place_of, name_of

    def _on(self, device: str, numbers: Any) -> Any:
        return self._torch.tensor(numbers, device=self._name_of(device))

    def large_error(self, device: str, kind: str, size: int) -> Tuple[float, str]:
        """Multiply random matrices; without NumPy PyTorch's own double precision tells what is right."""
        torch = self._torch
        torch.manual_seed(0)
        left, right = (torch.randn(size, size).to(getattr(torch, kind)) for _ in range(2))
        found = torch.matmul(left.to(self._name_of(device)), right.to(self._name_of(device)))
        try:
            factors = left.numpy(), right.numpy()
            return __import__("factors_numpy").product_error(found.cpu().numpy(), factors), self._place_of(found)
        except (ImportError, RuntimeError):
            wanted = left.double() @ right.double()
            return (found.cpu().double() - wanted).abs().max().item() / size**0.5, self._place_of(found)

    def convolve(self, device: str, image: Any) -> Tuple[List[float], str]:
        """Convolve with ones."""
        ones = self._torch.ones(1, 1, 3, 3, device=self._name_of(device))
        found = self._torch.nn.functional.conv2d(self._on(device, [[image]]), ones)
        return found.cpu().flatten().tolist(), self._place_of(found)

    def compiled(self, device: str) -> Tuple[Any, Any, str]:
        """Trace and compile by TorchScript, which needs no compiler of the host as torch.compile does."""
        left, right = (self._on(device, each) for each in checks.eighths())
        product = self._torch.jit.trace(
            lambda a, b: self._torch.relu(a @ b) + 0.0 * self._torch.exp(a @ b), (left, right)
        )
        for _ in range(3):  # the first runs only profile
            found = product(left, right)
        return checks.whole_numbers(found.cpu().tolist()), checks.PRODUCT, self._place_of(found)

    def check_memory(self, report: "Report", device: str) -> None:
        """Give this process a quarter of the card: more of it must then be refused."""
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
                step.failed("%d %% of the card was handed out, %d %% was allowed" % (100 * MORE, 100 * SHARE))
            except RuntimeError as error:
                step.passed("refused more, as it should: %s" % str(error).splitlines()[0][:200])
            finally:
                cuda.set_per_process_memory_fraction(1.0)

    def ask_for_missing(self) -> str:
        """Ask for a device that is not there."""
        self._torch.ones(1, device="cuda:99")
        return "cuda:99"

    def towers(self, targets: List[str]) -> Tuple[Any, str]:
        """Multiply in two towers and add on the CPU."""
        products = [self._on(target, checks.LEFT) @ self._on(target, checks.RIGHT) for target in targets]
        found = products[0].cpu() + products[1].cpu()
        return found.tolist(), self._place_of(found)

    def copy(self, source: str, target: str) -> Tuple[Any, str, str]:
        """Copy a matrix; say whether the GPUs can reach each other directly."""
        found = self._on(source, checks.LEFT).to(self._name_of(target))
        numbers = [int(name.split(":")[1]) for name in (source, target)]
        direct = self._torch.cuda.can_device_access_peer(*numbers)
        how = " (%s)" % ("directly" if direct else "through the host's memory")
        return found.cpu().tolist(), self._place_of(found), how

    def reduce(self, targets: List[str]) -> Tuple[List[float], str]:
        """Add up by NCCL, on the CPU by gloo."""
        torch = self._torch
        numbers = [torch.full((4,), at + 1.0, device=self._name_of(target)) for at, target in enumerate(targets)]
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
        weights = self._torch.ones(4, 1, device=self._name_of(target), requires_grad=True)
        ((self._on(target, rows) @ weights) ** 2).sum().backward()
        return weights.grad.cpu()


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
