"""Write the witnesses of a drawn situation that are texts: the file that builds it, the log that shows it.

What each states is written here, before anything is judged. `bench/same_answer.py` asks about them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from packaging.version import Version

from bench import situations as drawn
from bench.situations import MATRIX, SITE, Situation

FRAMEWORKS, LIBRARIES, PACKAGES = (
    "python.frameworks",
    "python.frameworks.libraries",
    "python.distributions",
)
DRIVER, CAPABILITY, VERSION = "driver.release", "gpus.compute_capability", "python.version"
TOOLKIT, COMPILER, REQUEST = "toolkits", "compilers.gcc_version", "request"
CUDNN = "cudnn.library_version"
PROGRAM = "program"  # its message names the cause, or that it works
DECIDES = {
    "works": {FRAMEWORKS, LIBRARIES, DRIVER, CAPABILITY},
    "driver too old": {FRAMEWORKS, DRIVER},
    "no code for the GPU": {FRAMEWORKS, CAPABILITY},
    drawn.CPU: {FRAMEWORKS},
    drawn.NUMPY: {FRAMEWORKS, PACKAGES},
    drawn.PROTOBUF: {FRAMEWORKS, PACKAGES},
    drawn.NO_LIBRARIES: {FRAMEWORKS, LIBRARIES},
    drawn.OLD_CUDNN: {FRAMEWORKS, LIBRARIES, CUDNN},
    drawn.OLD_TOOLKIT: {FRAMEWORKS, TOOLKIT, "host.environment.LD_LIBRARY_PATH"},
    drawn.VISION: {FRAMEWORKS, PACKAGES},
    drawn.HIDDEN: {"host.environment.CUDA_VISIBLE_DEVICES"},
    drawn.NO_DRIVER: {DRIVER},
    drawn.GCC: {TOOLKIT, COMPILER},
    drawn.PYTHON: {REQUEST, VERSION},
}


@dataclass
class Witness:
    """What one witness says of a situation, and which facts that states."""

    text: str
    stated: set[str]
    name: str = ""  # of the file
    options: dict[str, str] = field(default_factory=dict)


# The file: what builds the environment of the machine.


def write_file(made: Situation) -> Witness | None:
    """Return a Dockerfile or a requirements file; None where no file says it."""
    if made.fault in {drawn.NO_DRIVER, drawn.GCC}:
        return None
    options, stated = {}, {FRAMEWORKS, PACKAGES, REQUEST}
    for name, value, fact in (("driver", made.driver, DRIVER), ("gpu", made.gpu, CAPABILITY)):
        if made.chance.random() < 0.85:
            options[name] = value
            stated.add(fact)
    can_be_plain = not made.image.cuda and made.fault in {"", drawn.CPU}
    can_be_plain |= not made.image.cuda and made.fault == drawn.NUMPY and made.framework == "torch"
    if can_be_plain and made.chance.random() < 0.5:
        stated |= {LIBRARIES} if made.has_wheels else set()
        return Witness(_requirements(made), stated, "requirements.txt", options)
    stated |= {
        LIBRARIES,
        TOOLKIT,
        CUDNN,
        VERSION,
        "host.environment.LD_LIBRARY_PATH",
        "host.environment.CUDA_VISIBLE_DEVICES",
    }
    return Witness(_dockerfile(made), stated, "Dockerfile", options)


def _pins(made: Situation) -> list[str]:
    packages = made.packages()
    pin = f"{made.distribution}=={made.release}"
    if made.framework == "tensorflow" and made.has_wheels and made.fault != drawn.PYTHON:
        pin = f"tensorflow[and-cuda]=={made.release}"
    follows = made.fault in {drawn.NUMPY, drawn.PYTHON} and made.framework == "tensorflow"
    return [pin] if follows or "numpy" not in packages else [pin, f"numpy=={packages['numpy']}"]


def _requirements(made: Situation) -> str:
    index = ["--index-url https://download.pytorch.org/whl/cpu"]
    lines = index if made.fault == drawn.CPU and made.framework == "torch" else []
    return "\n".join([*lines, *_pins(made), ""])


def _dockerfile(made: Situation) -> str:
    lines = [f"FROM {made.image.name}"]
    if made.image.cuda:
        lines.append(
            "RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-pip"
        )
    if made.fault == drawn.OLD_TOOLKIT:
        lines.append(f"ENV LD_LIBRARY_PATH=/usr/local/cuda-{made.image.cuda}/lib64")
    if made.fault == drawn.HIDDEN:
        lines.append("ENV CUDA_VISIBLE_DEVICES=-1")
    install = f"RUN python3 -m pip install {' '.join(_pins(made))}"
    if made.framework == "torch" and made.fault == drawn.CPU:
        install += " --index-url https://download.pytorch.org/whl/cpu"
    lines.append(install)
    if made.framework == "torch" and made.fault == drawn.NO_LIBRARIES:
        wheel = next(name for name, _ in made.all_wheels() if "cudnn" in name)
        lines.append(f"RUN python3 -m pip uninstall -y {wheel}")
    packages = made.packages()
    if made.fault == drawn.NUMPY and made.framework == "tensorflow":
        lines.append(f"RUN python3 -m pip install numpy=={packages['numpy']}")
    if made.fault == drawn.PROTOBUF:
        lines.append(f"RUN python3 -m pip install protobuf=={packages['protobuf']}")
    if made.fault == drawn.VISION:
        lines.append(f"RUN python3 -m pip install --no-deps torchvision=={packages['torchvision']}")
    return "\n".join([*lines, "COPY train.py .", 'CMD ["python3", "train.py"]', ""])


# The log: what programs print there, each text as it was published.


def write_log(made: Situation) -> Witness:
    """Return the log of somebody who shows some of the machine, and then starts a program."""
    lines, stated = [], set()
    if made.chance.random() < 0.7:
        lines += ["$ nvidia-smi", *_smi(made)]
        stated |= {DRIVER, CAPABILITY} if made.driver else {DRIVER}
    if made.chance.random() < 0.5:
        lines += [f"$ python --version\nPython {made.image.python}.9"]
        stated.add(VERSION)
    if made.chance.random() < 0.6:
        packages = made.packages()
        lines += [
            "$ pip list",
            "Package                  Version",
            "------------------------ ------------",
        ]
        lines += [f"{name:<24} {version}" for name, version in sorted(packages.items())]
        stated |= {FRAMEWORKS, PACKAGES} if made.fault != drawn.PYTHON else set()
        stated |= {LIBRARIES} if made.has_wheels else set()
    if made.image.cuda and made.chance.random() < 0.6:
        lines += ["$ nvcc --version", *_nvcc(made)]
        stated.add(TOOLKIT)
    if made.fault in {drawn.HIDDEN, drawn.OLD_TOOLKIT} and made.chance.random() < 0.6:
        name = "CUDA_VISIBLE_DEVICES" if made.fault == drawn.HIDDEN else "LD_LIBRARY_PATH"
        value = "-1" if made.fault == drawn.HIDDEN else f"/usr/local/cuda-{made.image.cuda}/lib64"
        lines += ["$ env | grep -e CUDA_ -e LD_", f"{name}={value}"]
        stated |= {f"host.environment.{name}", TOOLKIT}
    program, says = PROGRAMS[made.framework][made.outcome()](made)
    stated |= says
    return Witness("\n".join([*lines, *program, ""]), stated)


def _smi(made: Situation) -> list[str]:
    if not made.driver:
        failed = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
        return [f"{failed} Make sure that the latest NVIDIA driver is installed and running."]
    cuda = MATRIX["drivers"][made.driver.split(".")[0]]["cuda"]
    memory = drawn.GPUS[made.gpu][2]
    rule = "+" + "-" * 87 + "+"
    return [
        rule,
        (
            f"| NVIDIA-SMI {made.driver:<22} Driver Version: {made.driver:<14} CUDA Version:"
            f" {cuda:<8} |"
        ),
        "|-----------------------------------------+----------------------+----------------------+",
        "| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |",
        "|=========================================+======================+======================|",
        f"|   0  {made.gpu:<29} Off | 00000000:07:00.0 Off |                    0 |",
        (
            f"| N/A   31C    P0              43W / 300W |  {3:>5}MiB / {memory:>5}MiB |      0%    "
            "  Default |"
        ),
        rule,
    ]


def _nvcc(made: Situation) -> list[str]:
    cuda = made.image.cuda
    return [
        "nvcc: NVIDIA (R) Cuda compiler driver",
        f"Cuda compilation tools, release {cuda}, V{cuda}.99",
    ]


def _traceback(path: str, *last: str) -> list[str]:
    return [
        "$ python train.py",
        "Traceback (most recent call last):",
        '  File "/srv/app/train.py", line 3, in <module>',
        f'  File "{path}", line 1, in <module>',
        *last,
    ]


Says: TypeAlias = tuple[list[str], set[str]]  # lines, and what they state
PY = "$ python train.py"


def _gcc(made: Situation) -> Says:
    newest, root = (
        MATRIX["toolkits"][made.image.cuda]["gcc_max"],
        f"/usr/local/cuda-{made.image.cuda}",
    )
    error = (
        f"{root}/include/crt/host_config.h:132:2: error: #error -- unsupported GNU version! gcc"
        f" versions later than {newest} are not supported! The nvcc flag"
        " '-allow-unsupported-compiler' can be used to override this version check; however, using"
        " an unsupported host compiler may cause compilation failure or incorrect run time"
        " execution. Use at your own risk."
    )
    lines = [
        "$ pip install --no-build-isolation ./my_extension",
        f"{root}/bin/nvcc -I/srv/app/csrc -c csrc/kernel.cu -o build/kernel.o -std=c++17",
        f"In file included from {root}/include/cuda_runtime.h:83,",
        "                 from <command-line>:",
        error,
        f"error: command '{root}/bin/nvcc' failed with exit code 1",
    ]
    return lines, {PROGRAM, TOOLKIT}


def _pip(made: Situation) -> Says:
    """Pip finds no wheel for this Python; it names no Python."""
    name, found = f"{made.framework}=={made.release}", []
    for row in MATRIX["releases"][made.framework]:
        is_here = row["distribution"] == made.framework and "linux_x86_64" in row["platforms"]
        if is_here and made.image.python in drawn.list_minors(row["pythons"]):
            found += row["releases"]
    found.sort(key=Version)
    listed = ", ".join(found) or "none"
    lines = [
        f"$ pip install {name}",
        (
            f"ERROR: Could not find a version that satisfies the requirement {name} (from versions:"
            f" {listed})"
        ),
        f"ERROR: No matching distribution found for {name}",
    ]
    return lines, {REQUEST}


def _torch_init(made: Situation, error: str) -> list[str]:
    """Return an error of torch.cuda's first use."""
    return _traceback(
        f"{SITE.format(made.image.python)}/torch/cuda/__init__.py",
        "    torch._C._cuda_init()",
        error,
    )


def _torch_import(made: Situation, error: str) -> list[str]:
    file = f"{SITE.format(made.image.python)}/torch/__init__.py"
    return _traceback(file, "    from torch._C import *  # noqa: F403", error)


def _torch_works(made: Situation) -> Says:
    lines = [f"torch {made.build}, cuda available: True", "epoch 1/1: loss 0.6931", "done"]
    return [PY, *lines], {PROGRAM, FRAMEWORKS}


def _torch_cpu(made: Situation) -> Says:
    return _torch_init(made, "AssertionError: Torch not compiled with CUDA enabled"), {PROGRAM}


def _torch_numpy(made: Situation) -> Says:
    return [PY, *NUMPY_WARNING, *_torch_works(made)[0][1:]], {PROGRAM, FRAMEWORKS}


def _torch_library(made: Situation) -> Says:
    soname = made.sonames["cudnn"]
    error = f"ImportError: {soname}: cannot open shared object file: No such file or directory"
    return _torch_import(made, error), {PROGRAM}


def _torch_old_toolkit(made: Situation) -> Says:
    """Name libraries, but not what puts the older one first."""
    symbol = f"__nvJitLinkComplete_{made.row['cuda'].replace('.', '_')}"
    asker = (
        f"{SITE.format(made.image.python)}/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12"
    )
    error = f"ImportError: {asker}: undefined symbol: {symbol}, version libnvJitLink.so.12"
    return _torch_import(made, error), {FRAMEWORKS}


def _torch_vision(made: Situation) -> Says:
    file = f"{SITE.format(made.image.python)}/torchvision/_meta_registrations.py"
    return _traceback(file, "RuntimeError: operator torchvision::nms does not exist"), {PROGRAM}


def _torch_hidden(made: Situation) -> Says:
    return _torch_init(made, "RuntimeError: No CUDA GPUs are available"), set()


def _torch_no_driver(made: Situation) -> Says:
    error = (
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA"
        " GPU and installed a driver from http://www.nvidia.com/Download/index.aspx"
    )
    return _torch_init(made, error), {PROGRAM}


def _torch_old_driver(made: Situation) -> Says:
    major, minor = MATRIX["drivers"][made.driver.split(".")[0]]["cuda"].split(".")
    error = (
        "RuntimeError: The NVIDIA driver on your system is too old (found version"
        f" {major}0{minor}0). Please update your GPU driver by downloading and installing a new"
        " version from the URL: http://www.nvidia.com/Download/index.aspx Alternatively, go to:"
        " https://pytorch.org to install a PyTorch version that has been compiled with your"
        " version of the CUDA driver."
    )
    return _torch_init(made, error), {PROGRAM}


def _torch_no_code(made: Situation) -> Says:
    site, short = SITE.format(made.image.python), made.capability.replace(".", "")
    supported = " ".join(made.row["compute_capabilities"])
    warning = [
        f"{site}/torch/cuda/__init__.py:235: UserWarning: ",
        (
            f"{made.gpu} with CUDA capability sm_{short} is not compatible with the current PyTorch"
            " installation."
        ),
        f"The current PyTorch install supports CUDA capabilities {supported}.",
    ]
    error = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    return [PY, *warning, *_traceback(f"{site}/torch/nn/functional.py", error)[1:]], {
        PROGRAM,
        CAPABILITY,
    }


NUMPY_WARNING = (
    "",
    "A module that was compiled using NumPy 1.x cannot be run in",
    "NumPy 2.1.3 as it may crash. To support both 1.x and 2.x",
    "versions of NumPy, modules must be compiled with NumPy 2.0.",
    "Some module may need to rebuild instead e.g. with 'pybind11>=2.12'.",
    "",
)
STAMP = "2026-03-02 10:02:44.872519:"
GPU_DEVICE = "tensorflow/core/common_runtime/gpu/gpu_device.cc"
NO_GPU = ">>> tf.config.list_physical_devices('GPU')\n[]"
CU_INIT = (
    f"{STAMP} E external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:282] failed call to"
    " cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
)


def _interactive(*lines: str) -> list[str]:
    return ["$ python -i train.py", *lines, NO_GPU]


def _tensorflow_works(made: Situation) -> Says:
    device = (
        f"{STAMP} I {GPU_DEVICE}:1929] Created device /job:localhost/replica:0/task:0/device:GPU:0"
        f" with 14259 MB memory:  -> device: 0, name: {made.gpu}, pci bus id: 0000:07:00.0, compute"
        f" capability: {made.capability}"
    )
    return [PY, device, "Epoch 1/1", "loss: 0.6931", "done"], {PROGRAM, CAPABILITY}


def _tensorflow_cpu(_: Situation) -> Says:
    return _interactive(">>> tf.test.is_built_with_cuda()\nFalse"), {PROGRAM}


def _tensorflow_numpy(made: Situation) -> Says:
    file = f"{SITE.format(made.image.python)}/tensorflow/__init__.py"
    error = "AttributeError: _ARRAY_API not found", "ImportError: numpy.core.umath failed to import"
    lines = _traceback(file, *error)
    return [lines[0], *NUMPY_WARNING, *lines[1:]], {PROGRAM}


def _tensorflow_protobuf(made: Situation) -> Says:
    slow = "but this will use pure-Python parsing and will be much slower"
    stale = "If this call came from a _pb2.py file, your generated code is out of date"
    error = [
        "TypeError: Descriptors cannot be created directly.",
        f"{stale} and must be regenerated with protoc >= 3.19.0.",
        "If you cannot immediately regenerate your protos, some other possible workarounds are:",
        " 1. Downgrade the protobuf package to 3.20.x or lower.",
        f" 2. Set PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python ({slow}).",
    ]
    file = f"{SITE.format(made.image.python)}/tensorflow/core/framework/tensor_shape_pb2.py"
    return _traceback(file, *error), {PROGRAM}


def _tensorflow_library(made: Situation) -> Says:
    """Up to 2.12 it names the libraries."""
    skips = (
        f"{STAMP} W {GPU_DEVICE}:2251] Cannot dlopen some GPU libraries. Please make sure the"
        " missing libraries mentioned above are installed properly if you would like to use GPU."
        " Follow the guide at https://www.tensorflow.org/install/gpu for how to download and setup"
        " the required libraries for your platform.\nSkipping registering GPU devices..."
    )
    if int(made.release.split(".")[1]) > 12:
        return _interactive(skips), {LIBRARIES}
    loader = f"{STAMP} W tensorflow/compiler/xla/stream_executor/platform/default/dso_loader.cc:64]"
    tail = "cannot open shared object file: No such file or directory"
    missing = [soname for name, soname in made.sonames.items() if not made.finds(name)]
    named = [
        f"{loader} Could not load dynamic library '{one}'; dlerror: {one}: {tail}"
        for one in missing
    ]
    # not whether other ones are there
    says = {LIBRARIES} if made.image.cuda else {LIBRARIES, PROGRAM}
    return _interactive(*named, skips), says


def _tensorflow_old_cudnn(made: Situation) -> Says:
    loaded, built = made.finds("cudnn"), f"{made.row['cudnn']}.0"
    error = (
        f"{STAMP} E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:522] Loaded runtime"
        f" CuDNN library: {loaded} but source was compiled with: {built}.  CuDNN library needs to"
        " have matching major version and equal or higher minor version. If using a binary"
        " install, upgrade your CuDNN library.  If building from sources, make sure the library"
        " loaded at runtime is compatible with the version specified during compile configuration."
    )
    return [*_tensorflow_works(made)[0][:2], error], {PROGRAM, CAPABILITY}


def _tensorflow_hidden(_: Situation) -> Says:
    return _interactive(CU_INIT), set()


def _tensorflow_no_driver(_: Situation) -> Says:
    diagnosis = (
        f"{STAMP} I external/local_xla/xla/stream_executor/cuda/cuda_diagnostics.cc:134] kernel"
        " driver does not appear to be running on this host (gpu01): /proc/driver/nvidia/version"
        " does not exist"
    )
    return _interactive(CU_INIT, diagnosis), {PROGRAM}


def _tensorflow_old_driver(made: Situation) -> Says:
    error = (
        "tensorflow.python.framework.errors_impl.InternalError: cudaGetDevice() failed. Status:"
        " CUDA driver version is insufficient for CUDA runtime version"
    )
    return _traceback(
        f"{SITE.format(made.image.python)}/tensorflow/python/eager/context.py", error
    ), {PROGRAM}


def _tensorflow_no_code(made: Situation) -> Says:
    capability = made.capability
    oldest = made.row["compute_capabilities"][0].partition("_")[2]
    line = (
        f"{STAMP} I {GPU_DEVICE}:2228] Ignoring visible gpu device (device: 0, name: {made.gpu},"
        f" pci bus id: 0000:07:00.0, compute capability: {capability}) with Cuda compute capability"
        f" {capability}. The minimum required Cuda capability is {oldest[:-1]}.{oldest[-1]}."
    )
    return _interactive(line), {PROGRAM, CAPABILITY}


PROGRAMS: dict[str, dict[str, Callable[[Situation], Says]]] = {
    "torch": {
        "works": _torch_works,
        "driver too old": _torch_old_driver,
        "no code for the GPU": _torch_no_code,
        drawn.CPU: _torch_cpu,
        drawn.NUMPY: _torch_numpy,
        drawn.NO_LIBRARIES: _torch_library,
        drawn.OLD_TOOLKIT: _torch_old_toolkit,
        drawn.VISION: _torch_vision,
        drawn.HIDDEN: _torch_hidden,
        drawn.NO_DRIVER: _torch_no_driver,
        drawn.GCC: _gcc,
        drawn.PYTHON: _pip,
    },
    "tensorflow": {
        "works": _tensorflow_works,
        "driver too old": _tensorflow_old_driver,
        "no code for the GPU": _tensorflow_no_code,
        drawn.CPU: _tensorflow_cpu,
        drawn.NUMPY: _tensorflow_numpy,
        drawn.PROTOBUF: _tensorflow_protobuf,
        drawn.NO_LIBRARIES: _tensorflow_library,
        drawn.OLD_CUDNN: _tensorflow_old_cudnn,
        drawn.HIDDEN: _tensorflow_hidden,
        drawn.NO_DRIVER: _tensorflow_no_driver,
        drawn.GCC: _gcc,
        drawn.PYTHON: _pip,
    },
}
