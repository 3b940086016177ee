"""PyTorch, the full level: large matmuls, a convolution, compilation, memory, wrong devices, several GPUs at once."""

import datetime as dt
import threading
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from envcheck.smoke.children.start import Report

SIZE = 2048
# Of the typical number, the root of the size: TF32 keeps 10 bits of each factor, half adds up in 11 bits on some CPUs.
ALLOWED = {"float32": 5e-3, "float16": 5e-2}
LEFT, RIGHT = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
PRODUCT, SUM = [[22.0, 28.0], [49.0, 64.0]], [[44.0, 56.0], [98.0, 128.0]]


def more(report: "Report", opened: Any) -> None:
    """Go on where placing left off: one device at a time, then all together."""
    torch, devices = opened[:2]
    targets = [name for name in devices if name.startswith("GPU")] or devices
    if report.gpu != "all":
        for kind, allowed in sorted(ALLOWED.items()):
            multiply_large(report, opened, targets[0], kind, allowed)
        convolve(report, opened, targets[0])
        script(report, opened, targets[0])
        ask_for_missing(report, torch)
        if targets[0].startswith("GPU"):
            keep_to_share(report, torch, targets[0])
    towers(report, opened, (targets * 2)[:2] if len(targets) < 2 else targets[:2])
    if len(targets) > 1:
        copy_between(report, opened, targets)
    elif report.gpu == "cpu":
        targets = targets * 2  # PyTorch has one CPU: used twice, it stands for two GPUs
    if len(targets) > 1:
        reduce_over_all(report, opened, targets)
        train_together(report, opened, targets)


def multiply_large(report: "Report", opened: Any, device: str, kind: str, allowed: float) -> None:
    """Multiply random matrices and hold the product against double precision: NumPy's, PyTorch's own without NumPy."""
    torch, _, place_of, name_of = opened
    size = 512 if kind == "float16" and device.startswith("CPU") else SIZE  # half on a CPU is slow
    with report.step("matmul %d %s" % (size, kind), device) as step:
        torch.manual_seed(0)
        left, right = (torch.randn(size, size).to(getattr(torch, kind)) for _ in range(2))
        wanted = multiply_exactly(torch, left.double(), right.double())
        found = torch.matmul(left.to(name_of(device)), right.to(name_of(device)))
        error = (found.cpu().double() - wanted).abs().max().item() / size**0.5
        step.within(error, allowed, place_of(found))


def multiply_exactly(torch: Any, left: Any, right: Any) -> Any:
    """Multiply in double precision, by NumPy where PyTorch can use it."""
    try:
        return torch.from_numpy(left.numpy() @ right.numpy())
    except RuntimeError:  # PyTorch without NumPy
        return left @ right


def convolve(report: "Report", opened: Any, device: str) -> None:
    """Sum 3 x 3 neighbours of 0..63 by a convolution, which cuDNN does on a GPU; exact in float32."""
    torch, _, place_of, name_of = opened
    with report.step("convolution", device) as step:
        image = torch.arange(64, dtype=torch.float32).reshape(1, 1, 8, 8)
        wanted = sum(image[:, :, y : y + 6, x : x + 6] for y in range(3) for x in range(3))
        found = torch.nn.functional.conv2d(image.to(name_of(device)), torch.ones(1, 1, 3, 3, device=name_of(device)))
        step.judge(found.cpu().flatten().tolist(), wanted.flatten().tolist(), place_of(found))


def script(report: "Report", opened: Any, device: str) -> None:
    """Trace and compile a multiplication by TorchScript, which needs no compiler of the host as torch.compile does."""
    torch, _, place_of, name_of = opened
    with report.step("jit", device) as step:
        left, right = (torch.tensor(each, device=name_of(device)) for each in (LEFT, RIGHT))
        compiled = torch.jit.trace(lambda a, b: torch.relu(a @ b) + 0.0, (left, right))
        for _ in range(3):  # the first runs only profile
            found = compiled(left, right)
        step.judge(found.cpu().tolist(), PRODUCT, place_of(found))


def ask_for_missing(report: "Report", torch: Any) -> None:
    """Ask for a device that is not there: PyTorch has to refuse."""
    with report.step("missing device") as step:
        try:
            torch.ones(1, device="cuda:99")
            step.failed("cuda:99 was asked for, and PyTorch computed without a word", "device-placement")
        except (RuntimeError, AssertionError) as error:
            step.passed("refused, as it should be: %s" % str(error).splitlines()[0][:200])


def keep_to_share(report: "Report", torch: Any, device: str) -> None:
    """Give this process a quarter of the card: half of it must then be refused."""
    with report.step("memory share", device) as step:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(0.25)
        try:
            torch.empty(total // 2, dtype=torch.uint8, device="cuda:0")
            step.failed("half of the card was handed out, a quarter was allowed")
        except RuntimeError as error:
            step.passed("half of the card was refused, as it should be: %s" % str(error).splitlines()[0][:200])
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)


def towers(report: "Report", opened: Any, targets: List[str]) -> None:
    """Multiply in two towers and add on the CPU."""
    torch, _, place_of, name_of = opened
    with report.step("towers on %s" % " and ".join(targets), "CPU:0") as step:
        products = [torch.tensor(LEFT, device=name_of(t)) @ torch.tensor(RIGHT, device=name_of(t)) for t in targets]
        found = sum(product.cpu() for product in products)
        step.judge(found.tolist(), SUM, place_of(found))


def copy_between(report: "Report", opened: Any, targets: List[str]) -> None:
    """Copy a matrix from each GPU to the next; say whether they can reach each other directly."""
    torch, _, place_of, name_of = opened
    for source, target in zip(targets, targets[1:] + targets[:1]):
        with report.step("copy from %s" % source, target) as step:
            found = torch.tensor(LEFT, device=name_of(source)).to(name_of(target))
            step.judge(found.cpu().tolist(), LEFT, place_of(found))
            numbers = [int(name.split(":")[1]) for name in (source, target)]
            direct = torch.cuda.can_device_access_peer(*numbers)
            step.said["message"] += " (%s)" % ("directly" if direct else "through the host's memory")


def reduce_over_all(report: "Report", opened: Any, targets: List[str]) -> None:
    """Add 1, 2, 3 ... over all GPUs by NCCL, over the CPU by gloo."""
    torch, _, _, name_of = opened
    with report.step("all-reduce over %s" % ", ".join(targets)) as step:
        by_gloo = report.gpu == "cpu"
        if by_gloo and not hasattr(torch.distributed, "ProcessGroupGloo"):
            step.skipped("this build of PyTorch has no gloo")
            return
        numbers = [torch.full((4,), at + 1.0, device=name_of(target)) for at, target in enumerate(targets)]
        refused = reduce_by_gloo(torch, numbers) if by_gloo else torch.cuda.nccl.all_reduce(numbers)
        if refused:  # a host whose own name leads nowhere, say: that is nothing a GPU would meet
            step.skipped("gloo did not start: %s" % str(refused[0])[:200])
            return
        found = [each.cpu().tolist() for each in numbers]
        wanted = [[sum(range(len(targets) + 1)) * 1.0] * 4] * len(targets)
        how = "gloo" if by_gloo else "NCCL"
        (step.passed if found == wanted else step.failed)("%s gave %s, right is %s" % (how, found, wanted))


def reduce_by_gloo(torch: Any, numbers: List[Any]) -> List[Exception]:
    """Add tensors of the CPU up in place, each a rank with a thread of its own; return what gloo refused."""
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
    return refused


def train_together(report: "Report", opened: Any, targets: List[str]) -> None:
    """Compare the gradient of a linear model, a share of the rows on each GPU, with that on one GPU."""
    torch, _, _, name_of = opened
    with report.step("gradients over %s" % ", ".join(targets)) as step:
        torch.manual_seed(1)
        rows = torch.randn(8 * len(targets), 4)

        def gradient(part: Any, target: str) -> Any:
            weights = torch.ones(4, 1, device=name_of(target), requires_grad=True)
            ((part.to(name_of(target)) @ weights) ** 2).sum().backward()
            return weights.grad.cpu()

        together = sum(gradient(part, target) for part, target in zip(rows.chunk(len(targets)), targets))
        alone = gradient(rows, targets[0])
        step.within(((together - alone).abs().max() / alone.abs().max()).item(), 1e-4, step.device)
