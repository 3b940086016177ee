"""PyTorch, the bench level."""

from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from envcheck.smoke.children import bench_speed as speed
    from envcheck.smoke.children.start import Report
else:
    import bench_speed as speed


def more(report: "Report", opened: Any) -> None:
    """Measure on each device."""
    torch, devices, _, name_of = opened
    speed.run(report, devices, Engine(torch, name_of))


class Engine:
    """What PyTorch is measured by."""

    precisions = ("float32", "tf32", "float16", "bfloat16")

    def __init__(self, torch: Any, name_of: Any) -> None:
        self._torch, self._name_of = torch, name_of

    def multiply(self, device: str, precision: str, size: int) -> Callable[[], Any]:
        """Multiply two square matrices."""
        torch, kind = self._torch, "float32" if precision == "tf32" else precision
        if hasattr(torch.backends.cuda, "matmul"):  # since PyTorch 1.7
            torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        factors = [torch.rand(size, size).to(self._name_of(device)).to(getattr(torch, kind)) for _ in range(2)]
        return self._finished(device, lambda: factors[0] @ factors[1])

    def copy_to(self, device: str, size: int) -> Callable[[], Any]:
        """Copy from the host to the device."""
        here = self._torch.ones(size, dtype=self._torch.uint8)
        return self._finished(device, lambda: here.to(self._name_of(device)))

    def copy_within(self, device: str, size: int) -> Callable[[], Any]:
        """Copy within the device's memory."""
        there = self._torch.ones(size, dtype=self._torch.uint8, device=self._name_of(device))
        return self._finished(device, there.clone)

    def train(self, device: str) -> Callable[[], Any]:
        """Train a small convolutional network for one step on images made on the spot."""
        torch, where = self._torch, self._name_of(device)
        layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 16, 3),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(16 * 13 * 13, 10),
        ).to(where)
        images, labels = torch.rand(64, 1, 28, 28, device=where), torch.randint(10, (64,)).to(where)
        optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)

        def step() -> None:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(layers(images), labels).backward()
            optimizer.step()

        return self._finished(device, step)

    def _finished(self, device: str, action: Callable[[], Any]) -> Callable[[], Any]:
        if not device.startswith("GPU"):
            return action

        def whole() -> None:
            action()
            self._torch.cuda.synchronize()

        return whole
