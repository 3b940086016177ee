"""JAX: its devices by kind, XLA, sums over all devices, and its share of the memory."""

import importlib.util
import os
import pkgutil
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import smoke_card as card
from smoke_engine import Engine as Base
from smoke_engine import SkippedError
from smoke_numbers import LEFT, RIGHT, Action, Answer, product_error, random_factors, to_array

if TYPE_CHECKING:
    from start import Report, Step


class Engine(Base):
    """JAX."""

    name, title = "jax", "JAX"
    precisions = ("float32", "tf32", "float16", "bfloat16")

    def before_import(self, report: "Report") -> None:
        """Take no more GPU memory than needed.

        Two CPU devices stand for two GPUs in the full test of a CPU.
        """
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        if report.gpu == "cpu" and report.level == "full":
            flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
            os.environ["XLA_FLAGS"] = flags.strip()
        super().before_import(report)

    def load(self) -> Any:
        """Import JAX."""
        import jax
        import jaxlib
        import numpy as np

        self._jax: Any = jax
        self._jaxlib: Any = jaxlib
        self._np: Any = np
        return jax

    def about_build(self) -> Dict[str, Any]:
        """Return the version of its library."""
        return {"jaxlib": str(getattr(self._jaxlib, "__version__", ""))}

    def list_devices(self, report: "Report", step: "Step") -> Optional[List[str]]:
        """List the CPU's devices and the GPUs."""
        jax = self._jax
        wanted = 0 if report.gpu == "cpu" else report.count
        report.devices("jax.devices", [str(device) for device in jax.devices()])
        report.devices("jax.default_backend", [jax.default_backend()])
        processors = jax.devices("cpu")
        gpus = list_gpus(jax) if wanted else []
        report.devices("jax.devices('cpu')", [str(device) for device in processors])
        report.devices("jax.devices('gpu')", [str(device) for device in gpus])
        names = ["CPU:%d" % index for index in range(len(processors))]
        names += ["GPU:%d" % index for index in range(len(gpus))]
        if len(gpus) < wanted:
            cause = "" if gpus or has_cuda() else "framework-cpu-build"
            step.failed(
                "JAX lists %d of %d GPU%s" % (len(gpus), wanted, "s" if wanted > 1 else ""), cause
            )
        else:
            step.passed(
                ", ".join("%s (%s)" % (name, self._device(name).device_kind) for name in names)
            )
        return names if gpus or not wanted else None

    def _device(self, name: str) -> Any:
        kind, index = name.split(":")
        return self._jax.devices(kind.lower())[int(index)]

    def _on(self, device: str, numbers: Any) -> Any:
        return self._jax.device_put(to_array(numbers), self._device(device))

    def _told(self, found: Any) -> Answer:
        return self._np.asarray(found).tolist(), place_of(self._jax, found)

    def product(self, device: str, left: Any, right: Any) -> Answer:
        """Multiply."""
        found = self._jax.numpy.matmul(self._on(device, left), self._on(device, right))
        return self._np.asarray(found), place_of(self._jax, found)

    def large_error(self, device: str, kind: str, size: int) -> Tuple[float, str]:
        """Multiply random matrices, compiled."""
        factors = random_factors(kind, size)
        put = [self._jax.device_put(each, self._device(device)) for each in factors]
        # else XLA's own kernels may cut factors off to TF32
        precision = self._jax.lax.Precision.HIGHEST
        found = self._jax.jit(
            lambda left, right: self._jax.numpy.matmul(left, right, precision=precision)
        )(*put)
        return product_error(found, factors), place_of(self._jax, found)

    def convolve(self, device: str, image: Any) -> Answer:
        """Convolve with ones."""
        lax = self._jax.lax
        given = self._on(device, [[image]]), self._on(device, [[[[1.0] * 3] * 3]])
        found = self._jax.jit(lambda x, k: lax.conv(x, k, (1, 1), "VALID").ravel())(*given)
        return self._told(found)

    def compiled(self, device: str, left: Any, right: Any) -> Answer:
        """Compile several operations as one; the exponential comes from libdevice on a GPU."""
        product = self._jax.jit(lambda a, b: a @ b + 0.0 * self._jax.numpy.exp(a @ b))
        return self._told(product(self._on(device, left), self._on(device, right)))

    def ask_for_missing(self) -> None:
        """Ask for a kind of device that is not there: devices have no numbers to miss."""
        self._jax.devices("tpu")
        raise SkippedError("there is a TPU")

    def towers(self, targets: List[str]) -> Answer:
        """Multiply in two towers and add on the CPU."""
        products = [self._on(target, LEFT) @ self._on(target, RIGHT) for target in targets]
        home = [self._jax.device_put(each, self._device("CPU:0")) for each in products]
        return self._told(home[0] + home[1])

    def copy(self, source: str, target: str) -> Tuple[Any, str, str]:
        """Copy a matrix."""
        found = self._jax.device_put(self._on(source, LEFT), self._device(target))
        return self._told(found) + ("",)

    def _on_all(self, action: Any, targets: List[str]) -> Any:
        jax, where = self._jax, [self._device(target) for target in targets]

        def summed(each: Any) -> Any:
            return jax.lax.psum(action(each), "all")

        return jax.pmap(summed, "all", devices=where)

    def reduce(self, targets: List[str]) -> Answer:
        """Add up; between GPUs NCCL does it."""
        numbers = self._np.arange(1, len(targets) + 1, dtype="float32")
        return (
            self._np.asarray(self._on_all(lambda number: number, targets)(numbers)).tolist(),
            "psum",
        )

    def gradients(self, rows: Any, targets: List[str]) -> Tuple[List[List[float]], List[float]]:
        """Return each device's sum of all gradients, and the first one's of all rows."""
        np, weights = self._np, self._np.ones((4, 1), dtype="float32")
        gradient = self._jax.grad(lambda weights, part: ((part @ weights) ** 2).sum())
        shares = np.array(rows, "float32").reshape(len(targets), -1, 4)
        together = self._on_all(lambda part: gradient(weights, part), targets)(shares)
        alone = gradient(self._on(targets[0], weights), self._on(targets[0], rows))
        return (
            np.asarray(together).reshape(len(targets), -1).tolist(),
            np.asarray(alone).ravel().tolist(),
        )

    def _put(self, value: Any, device: str) -> Any:
        return self._jax.device_put(value, self._device(device)).block_until_ready()

    def multiply(self, device: str, precision: str, size: int) -> Action:
        """Multiply two square matrices."""
        np = self._np
        jax = self._jax
        kind = "float32" if precision == "tf32" else precision
        numbers = np.random.RandomState(0).rand(size, size).astype("float32")
        left, right = (self._put(numbers, device).astype(kind) for _ in range(2))
        # which takes TF32
        if precision == "float32":
            exact = jax.lax.Precision.HIGHEST
        else:
            exact = jax.lax.Precision.DEFAULT
        product = jax.jit(lambda left, right: jax.numpy.matmul(left, right, precision=exact))
        return lambda: product(left, right).block_until_ready()

    def train(self, device: str) -> Action:
        """Train a small convolutional network for one step on images made on the spot."""
        np, jax = self._np, self._jax
        made = (np.random.RandomState(0).rand(64, 1, 28, 28), np.eye(10)[np.arange(64) % 10])
        images, labels = (self._put(each.astype("float32"), device) for each in made)
        shapes = ((16, 1, 3, 3), (16 * 26 * 26, 10))
        weights = [
            self._put((np.random.RandomState(0).rand(*shape) * 0.01).astype("float32"), device)
            for shape in shapes
        ]

        def loss(weights: Any) -> Any:
            hidden = jax.nn.relu(jax.lax.conv(images, weights[0], (1, 1), "VALID")).reshape(64, -1)
            return -(jax.nn.log_softmax(hidden @ weights[1]) * labels).sum(axis=1).mean()

        step = jax.jit(
            lambda weights: [w - 0.01 * g for w, g in zip(weights, jax.grad(loss)(weights))]
        )
        state = [weights]

        def one() -> None:
            state[0] = step(state[0])
            state[0][1].block_until_ready()

        return one


def place_of(jax: Any, array: Any) -> str:
    """Return the device that holds an array; JAX before 0.4.31 names it by another attribute."""
    held = array.devices() if hasattr(array, "devices") else {array.device()}
    names = [
        kind + ":%d" % jax.devices(kind.lower()).index(each)
        for each in held
        for kind in [kind_of(each)]
    ]
    return "+".join(sorted(names))


def kind_of(device: Any) -> str:
    """Return CPU or GPU."""
    if device.platform in ("gpu", "cuda"):
        return "GPU"
    return str(device.platform).upper()


def list_gpus(jax: Any) -> List[Any]:
    """List JAX's GPUs; why there is none its log says.

    The error is the same for a build without CUDA.
    """
    try:
        return list(jax.devices("gpu"))
    except RuntimeError:
        return []


def has_cuda() -> bool:
    """Say whether this JAX has a CUDA plugin, or was built with CUDA."""
    import jaxlib

    spec = importlib.util.find_spec("jax_plugins")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    names = [module.name for module in pkgutil.iter_modules(folders)]
    return any("cuda" in name for name in names) or "cuda" in str(
        getattr(jaxlib, "__version__", "")
    )


def share(report: "Report") -> Any:
    """Compute once with a share of the memory, all of which JAX takes at once.

    Ask the driver how much is gone.
    """
    # newer releases know this name too, and refuse to be given both
    os.environ.pop("XLA_CLIENT_MEM_FRACTION", None)
    os.environ.update(
        XLA_PYTHON_CLIENT_MEM_FRACTION=str(card.SHARE), XLA_PYTHON_CLIENT_PREALLOCATE="true"
    )
    with report.step("memory share", "GPU:0") as step:
        before = card.memory()
        import jax

        ones = jax.device_put(jax.numpy.ones((2, 2)), jax.devices("gpu")[0])
        card.judge_share(step, before, right=float(ones.sum()) == 4.0)
