"""Python's side: shadowed and duplicate modules, mixed environments, Windows' DLLs, builds without CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.explain.events import Event
from envcheck.explain.log import Claim, Log, number

SHADOW = "local-module-shadowing"
_INSTALLED = ("site-packages", "dist-packages", "/lib/python", "\\Lib\\", "\\lib\\", "<frozen", "/work/")
_ATTRIBUTES = ("tf1-code-on-tf2", "torch-attribute", "jax-attribute", "partially-initialized", "unknown-location")
_DEPENDENCIES = (
    "numpy2-compiled", "numpy-dtype-size", "numpy-abi-version", "numpy-multiarray", "protobuf-descriptors",
    "protobuf-other", "h5py-decode", "import-name-missing", "glibcxx-not-found", "version-conflict", "keras-attribute",
    "torchvision-cuda-different",
)  # fmt: skip


def python_claims(log: Log) -> Iterator[Claim]:
    """Say what imports and attributes that fail mean."""
    yield from _shadowing(log)
    yield from _mixed(log)
    yield from _windows(log)
    yield from _builds(log)
    yield from _foreign_processor(log)
    yield from _bitsandbytes(log)


def is_users_file(path: str) -> bool:
    """Tell whether a path lies outside the folders where packages are installed."""
    return not any(part in path for part in _INSTALLED)


def _two_releases(log: Log) -> Iterator[Claim]:
    """Tell that the torch which is imported is not the one that pip or conda lists."""
    listed = [event for event in log.of("pip-list-torch") if event.captured["package"] in ("torch", "pytorch")]
    imported = log.of("answered-torch-version")
    releases = {number(event.captured["version"].partition("+")[0]) for event in listed}
    for event in imported if listed else ():
        if number(event.captured["torch"].partition("+")[0]) not in releases:
            version = listed[0].captured["version"]
            means = f"torch {version} is listed, and torch {event.captured['torch']} is imported, another copy."
            yield Claim("env-mixed", 84, means, (event, *listed), rivals=("framework-duplicate-dists",))


def _shadowing(log: Log) -> Iterator[Claim]:
    files = {row["module"]: event for event in log.of("shadowing-traceback") for row in (event.captured,)
             if is_users_file(row["path"])}  # fmt: skip
    for event in log.of("import-from-user-file"):
        row = event.captured
        if row["file"] == row["module"].split(".")[0] and is_users_file(row["path"]):
            yield Claim(SHADOW, 94, f"The user's file {row['path']} is imported in place of {row['module']}.", (event,))
        elif _is_users_folder(row["module"], row["path"]):
            means = f"The user's folder {row['path']} has the name of the module {row['module']}."
            yield Claim(SHADOW, 82, means, (event,), rivals=("dependency-conflict",))
    for event in log.of(*_ATTRIBUTES):
        module = _module(event)
        if module in files:
            means = f"The user's file {files[module].captured['path']} has the name of the module {module}."
            yield Claim(SHADOW, 93, means, (event, files[module]))
        elif event.signature in ("partially-initialized", "unknown-location"):
            yield from _partial(event, module)
        else:
            means = f"The code and the installed {module} are of different releases."
            yield Claim("dependency-conflict", 56, means, (event,), rivals=(SHADOW, "program-error"))


def _is_users_folder(module: str, path: str) -> bool:
    named = re.search(r"[/\\](tensorflow|torch|jax|keras|numpy)[/\\]__init__\.py$", path)
    return named is not None and named.group(1) == module and is_users_file(path)


def _module(event: Event) -> str:
    named = event.captured.get("module2") or event.captured.get("module") or ""
    if event.signature in ("partially-initialized", "unknown-location") and named:
        return named
    found = re.search(r"[Nn]o module named '?(\w+)|module '(\w+)", event.text)
    return (found.group(1) or found.group(2)) if found else ""


def _partial(event: Event, module: str) -> Iterator[Claim]:
    if event.signature == "unknown-location":
        means = f"The folder of {module} is there without its package: the installation is broken or mixed."
        yield Claim("env-mixed", 70, means, (event,), rivals=(SHADOW,))
    elif module in ("torch", "tensorflow", "jax", "keras", "numpy"):
        means = f"The module {module} is imported while it imports itself, as where a user's file has its name."
        yield Claim(SHADOW, 74, means, (event,), rivals=("env-mixed",))
    elif module in ("torchvision", "torchaudio"):
        means = f"{module} cannot load its own compiled part: it was built for another release of torch."
        yield Claim("extension-build-mismatch", 74, means, (event,), rivals=(SHADOW,))
    else:
        yield Claim("dependency-conflict", 50, f"{module} does not fit the packages around it.", (event,))


def _mixed(log: Log) -> Iterator[Claim]:
    for event in log.of("module-missing"):
        satisfied = log.of("pip-satisfied")
        if satisfied:
            means = "pip installed the package, and the Python that runs does not find it: pip belongs to another one."
            yield Claim("env-mixed", 82, means, (event, *satisfied))
    yield from _two_releases(log)
    user = log.of("user-site-path")
    if user and log.of("conda-path"):
        for event in log.of(*_DEPENDENCIES):
            means = "Packages of the user site (~/.local) are imported into a conda environment."
            yield Claim("env-mixed", 96, means, (event, user[0]))
    for event in log.of("h5py-decode"):
        rivals = ("env-mixed",)
        yield Claim("dependency-conflict", 74, "An old Keras meets h5py 3.", (event,), rivals=rivals)
    yield from _wheels(log)


def _wheels(log: Log) -> Iterator[Claim]:
    """Say which nvidia-* wheels cannot both be right."""
    for event in log.of("pip-resolver-conflict"):
        if re.match(r"nvidia-[a-z-]+-cu\d+$", event.captured.get("package", "")):
            means = f"Two packages ask for different releases of {event.captured['package']}."
            yield Claim("cuda-wheel-conflict", 78, means, (event,), rivals=("dependency-conflict",))
    majors: dict[str, set[str]] = {}
    for name in log.packages:
        found = re.match(r"(nvidia-[a-z-]+)-cu(\d+)$", name)
        if found:
            majors.setdefault(found.group(1), set()).add(found.group(2))
    twice = [name for name, numbers in majors.items() if len(numbers) > 1]
    if twice:
        means = f"{twice[0]} is installed for two CUDA majors; both write into one folder."
        events = log.of("nccl-symbol", "cudnn-symbol", "nvjitlink-symbol", "pip-list-nvidia")
        yield Claim("cuda-wheel-conflict", 94 if len(events) > 2 or log.has("nccl-symbol") else 60, means, events)


def _windows(log: Log) -> Iterator[Claim]:
    for event in log.of("win-dll-load-failed", "win-dll-load-failed-bare", "win-pywrap"):
        reason = event.captured.get("reason", "") + event.captured.get("code", "")
        if "-1073741795" in reason or "3221225501" in reason:
            yield Claim("cpu-missing-avx", 88, "The processor lacks an instruction of the DLL.", (event,))
        elif "initialization routine failed" in reason and "module" not in event.captured:
            means = "The DLL could not start, as on a processor without AVX."
            yield Claim("cpu-missing-avx", 68, means, (event,), rivals=("msvc-runtime-missing",))
        elif "Win32" in reason:
            yield Claim(
                "python-wrong-arch", 84, "The DLL is of another architecture.", (event,), rivals=("python-32bit",)
            )
        elif _is_frameworks(event):
            means = "A DLL that the framework needs is not there: the Visual C++ runtime, or a library of CUDA."
            yield Claim("msvc-runtime-missing", 66, means, (event,), rivals=("toolkit-missing", "cpu-missing-avx"))
        else:
            yield Claim("dependency-conflict", 54, "A DLL that a module needs does not fit.", (event,))
    for event in log.of("win-error-loading"):
        library = event.captured["library"]
        if event.captured["code"] == "127" and re.search(r"torch(?:audio|vision|text)", event.captured["path"]):
            means = f"{library} was built for another release of torch than is installed."
            yield Claim("extension-build-mismatch", 84, means, (event,), rivals=("dependency-conflict",))
            continue
        finding = (
            "toolkit-missing" if re.match(r"cu|nv", library) and "nvrtc" not in library else "msvc-runtime-missing"
        )
        means = f"Windows cannot load {library} or a DLL that it needs, such as the Visual C++ or OpenMP runtime."
        yield Claim(finding, 80, means, (event,), rivals=("dependency-conflict",))


def _is_frameworks(event: Event) -> bool:
    module = event.captured.get("module", "")
    return event.signature != "win-dll-load-failed" or not module or "pywrap" in module or module in ("_C", "torch")


def _builds(log: Log) -> Iterator[Claim]:
    for event in log.of("torch-cpu-build", "torch-cpu-label", "torch-cuda-none", "tf-not-built-with-cuda"):
        if log.os == "darwin":
            means = "No framework has CUDA builds for macOS."
            yield Claim("platform-no-gpu-wheel", 94, means, (event,), rivals=("framework-cpu-build",))
    ended = log.os == "windows" and number(log.packages.get("tensorflow", "2.11")) >= (2, 11)
    for event in log.of("tf-not-built-with-cuda", "tf-is-built-with-cuda", "tf-build-info-no-cuda") if ended else ():
        means = "TensorFlow's builds for Windows have no CUDA since 2.11."
        yield Claim("platform-no-gpu-wheel", 94, means, (event,), rivals=("framework-cpu-build",))
    if (
        log.has("torch-cuda-asked")
        and log.has("torch-unavailable")
        and not log.values("torch_cuda")
        and not log.is_healthy
    ):
        means = "torch.version.cuda was asked for and names no CUDA."
        yield Claim("framework-cpu-build", 36, means, log.of("torch-cuda-asked", "torch-unavailable"))
    if log.has("tf-built-with-cuda-asked") and log.os != "linux" and not log.is_healthy:
        events = log.of("tf-built-with-cuda-asked")
        means = "TensorFlow was asked whether it has CUDA, and no GPU is used."
        yield Claim("platform-no-gpu-wheel" if log.os == "windows" else "framework-cpu-build", 36, means, events)
    for event in log.of("module-missing-other"):
        if event.captured["missing_module"].split(".")[0] in ("torch", "tensorflow", "jax"):
            continue
        yield Claim("dependency-conflict", 26, f"{event.captured['missing_module']} is not installed.", (event,))


_CRASHES = ("illegal-instruction", "cpu-feature-required", "jax-cpu-feature", "segfault", "aborted")


def _foreign_processor(log: Log) -> Iterator[Claim]:
    """Tell a program of another architecture, which is emulated, from a processor that lacks an instruction."""
    emulated = log.of("qemu-signal", "docker-platform-mismatch", "rosetta-jaxlib")
    crashed = log.of(*_CRASHES)
    if emulated and crashed:
        means = "The program is of another architecture than the machine, and the emulation lacks instructions."
        yield Claim("python-wrong-arch", 98, means, (*emulated, *crashed), rivals=("cpu-missing-avx",))
    elif log.os == "darwin" and log.architecture != "x86_64":
        for event in log.of("jax-cpu-feature", "illegal-instruction"):
            means = "An x86_64 Python under Rosetta on Apple silicon has no AVX; a Python for arm64 needs none."
            yield Claim("python-wrong-arch", 98, means, (event,), rivals=("cpu-missing-avx",))
    for event in log.of("jax-cpu-feature-mac"):
        means = "jaxlib for x86_64 met a processor without AVX, mostly Apple silicon under Rosetta."
        yield Claim("python-wrong-arch", 98, means, (event,), rivals=("cpu-missing-avx",))


def _bitsandbytes(log: Log) -> Iterator[Claim]:
    for event in log.of("bnb-setup-failed"):
        means = "bitsandbytes has no library of its own for the CUDA it found."
        yield Claim("extension-build-mismatch", 62, means, (event,), rivals=("toolkit-path-conflict",))
