"""Make the machine of a drawn situation: a snapshot in which every fact is known or absent."""

from __future__ import annotations

from typing import Any, TypeVar

from packaging.version import Version

from bench.situations import (
    CPU,
    GCC,
    GPUS,
    HIDDEN,
    MATRIX,
    NO_LIBRARIES,
    OLD_TOOLKIT,
    PYTHON,
    SITE,
    VISION,
    VISIONS,
    Situation,
)
from envcheck import model

SOURCE = model.Source("report", "drawn situation")
MANDATORY = True
R = TypeVar("R")
LIBS = "/usr/lib/x86_64-linux-gnu"


def _known(value: Any) -> model.Known[Any]:
    return model.Known(value, SOURCE)


def _record(record: type[R], /, **values: Any) -> R:
    """Make a record whose other facts are absent; values that are no facts stand as they are."""
    cells = {}
    for name in model.list_fields(record):
        is_fact = getattr(record, name, None) is model.NOT_STATED
        if name in values:
            plain = not is_fact or isinstance(values[name], (model.Absent, model.Unknown))
            cells[name] = values[name] if plain else _known(values[name])
        elif is_fact:
            cells[name] = model.Absent(("looked for",))
    return record(**cells)


def machine(made: Situation) -> model.Snapshot:
    """Return the machine, each fact known or absent."""
    nothing = model.Absent(("looked for",))
    toolkits = _toolkits(made)
    facts = model.Facts(
        host=_host(made),
        driver=_driver(made),
        gpus=_known((_gpu(made),)),
        other_gpus=nothing,
        toolkits=toolkits,
        cudnn=_known(_cudnn(made)) if _cudnn(made) else nothing,
        tensorrt=nothing,
        nccl=nothing,
        compilers=_compilers(made),
        python=_python(made),
    )
    return model.Snapshot(model.SCHEMA_VERSION, "", "", "", facts)


def _host(made: Situation) -> model.HostFacts:
    name, version = made.image.system.split()
    variables = {"PATH": "/opt/venv/bin:/usr/bin:/bin", "VIRTUAL_ENV": "/opt/venv"}
    if made.fault == HIDDEN:
        variables["CUDA_VISIBLE_DEVICES"] = "-1"
    if made.fault == OLD_TOOLKIT:
        variables["LD_LIBRARY_PATH"] = f"/usr/local/cuda-{made.image.cuda}/lib64"
    return _record(
        model.HostFacts, os="linux", distribution_id=name, distribution_like="debian", distribution_version=version,
        kernel_release="6.1.0-25-amd64", architecture="x86_64", libc_kind="glibc", libc_version=made.image.glibc,
        glibcxx_version="3.4.30", cpu_model="AMD EPYC 7543", cpu_flags=("sse4_2", "avx", "avx2", "fma"),
        memory_bytes=64 << 30, shm_bytes=32 << 30, is_root=False, environment=variables,
    )  # fmt: skip


def _driver(made: Situation) -> model.DriverFacts:
    if not made.driver:
        return _record(
            model.DriverFacts, uvm_loaded=False, nouveau_loaded=False, nvswitch_present=False
        )
    cuda = MATRIX["drivers"][made.driver.split(".")[0]]["cuda"]
    nodes = tuple(
        model.DeviceNode(f"/dev/{name}", _known(value=True), "crw-rw-rw- root:root")
        for name in ("nvidia-uvm", "nvidia0", "nvidiactl")
    )
    is_open = Version(made.capability) >= Version("10.0")  # Blackwell has no proprietary module
    libcuda = f"{LIBS}/libcuda.so.{made.driver}"
    return _record(
        model.DriverFacts, release=made.driver, cuda_driver_version=cuda, kernel_module_version=made.driver,
        kernel_module_kind="open" if is_open else "proprietary", uvm_loaded=True, nouveau_loaded=False,
        libcuda_path=libcuda, libcuda_version=made.driver, libcuda_unversioned=libcuda,
        libnvidia_ml_path=f"{LIBS}/libnvidia-ml.so.{made.driver}", libnvidia_ml_version=made.driver,
        cuda_init_result=0, nvml_result=0, nvml_driver_version=made.driver, smi_path="/usr/bin/nvidia-smi",
        smi_exit_code=0, smi_driver_version=made.driver, smi_cuda_driver_version=cuda, device_nodes=nodes,
        nvswitch_present=False,
    )  # fmt: skip


def _gpu(made: Situation) -> model.Gpu:
    pci = {"pci_address": "0000:07:00.0", "pci_id": GPUS[made.gpu][1], "name": made.gpu}
    if not made.driver:
        return _record(model.Gpu, **pci)
    return _record(
        model.Gpu, **pci, nvml_index=0, uuid="GPU-0", compute_capability=made.capability, kernel_driver="nvidia",
        memory_bytes=GPUS[made.gpu][2] << 20, memory_used_bytes=3 << 20, compute_mode="default", mig_enabled=False,
        mig_devices=(), processes=(),
    )  # fmt: skip


def _toolkits(made: Situation) -> model.ToolkitFacts:
    if not made.image.cuda:
        return _record(model.ToolkitFacts)
    cuda, root = made.image.cuda, f"/usr/local/cuda-{made.image.cuda}"
    install = _record(
        model.ToolkitInstall, root=root, origin="usr-local", version=cuda, nvcc_path=f"{root}/bin/nvcc",
        nvcc_release=cuda, nvcc_build=f"{cuda}.99", version_file=f"{cuda}.1", header_version=cuda,
        cudart_path=f"{root}/lib64/libcudart.so.{cuda}.99", ptxas_path=f"{root}/bin/ptxas",
        libdevice_path=f"{root}/nvvm/libdevice/libdevice.10.bc",
    )  # fmt: skip
    on_path = {"roots_on_library_path": (root,)} if made.fault == OLD_TOOLKIT else {}
    return _record(
        model.ToolkitFacts, installs=(install,), nvcc_on_path=f"{root}/bin/nvcc", root_on_path=root,
        usr_local_cuda=root, cuda_home="/usr/local/cuda", cuda_home_root=root, ptxas_on_path=f"{root}/bin/ptxas",
        nvcc_host_compiler="/usr/bin/gcc", nvcc_host_compiler_version=_gcc(made), **on_path,
    )  # fmt: skip


def _gcc(made: Situation) -> str:
    if made.fault != GCC:
        return made.image.gcc
    return f"{int(MATRIX['toolkits'][made.image.cuda]['gcc_max']) + 1}.2.0"


def _compilers(made: Situation) -> model.CompilerFacts:
    if not made.image.gcc:
        return _record(model.CompilerFacts)
    gcc, names = _gcc(made), {"gcc_path": "/usr/bin/gcc", "gxx_path": "/usr/bin/g++"}
    return _record(model.CompilerFacts, gcc_version=gcc, gxx_version=gcc, **names)


def _cudnn(made: Situation) -> tuple[model.LibraryInstall, ...]:
    found = []
    if made.image.cudnn:
        version, cuda = made.image.cudnn, made.image.cuda.split(".")[0]
        found.append(("/usr", "debian", version, f"{LIBS}/libcudnn.so.{version}", cuda))
    for name, version in made.wheels() if made.has_wheels else ():
        if "cudnn" in name:
            root = f"{SITE.format(made.image.python)}/nvidia/cudnn"
            path = f"{root}/lib/libcudnn.so.{version.split('.')[0]}"
            found.append((root, "wheels", version, path, name[-2:]))
    return tuple(
        _record(model.LibraryInstall, library="cudnn", root=root, origin=origin, library_version=version,
                library_path=path, package_version=version, cuda_major=cuda)
        for root, origin, version, path, cuda in found
    )  # fmt: skip


def _python(made: Situation) -> model.PythonFacts:
    minor = made.image.python
    site, short = SITE.format(minor), minor.replace(".", "")
    builds = () if made.fault == PYTHON else (_framework(made, site),)
    faults = _link_faults(made, site)
    needed = ("libc10.so", "libtorch_cpu.so", "libtorch_cuda.so")
    extension = model.Extension("torchvision", f"{site}/torchvision/_C.so", needed)
    vision = {"extensions": (extension,)} if made.fault == VISION else {}
    found = tuple(
        model.Distribution(
            name,
            version,
            site,
            "environment",
            "pip",
            _requires(made, name),
            (name.replace("-", "_"),),
        )
        for name, version in made.packages().items()
    )
    return _record(
        model.PythonFacts, executable="/opt/venv/bin/python", chosen_by="VIRTUAL_ENV", version=f"{minor}.9",
        implementation="cpython", bits=64, architecture="x86_64", platform_tag="linux-x86_64", abi_tag=f"cp{short}",
        prefix="/opt/venv", kind="venv", externally_managed=False, user_site_enabled=False, pip_version="24.3.1",
        distributions=found, libstdcxx_path=f"{LIBS}/libstdc++.so.6.0.30", libstdcxx_glibcxx="3.4.30",
        **({"frameworks": builds} if builds else {}), **({"link_faults": faults} if faults else {}), **vision,
    )  # fmt: skip


def _requires(made: Situation, name: str) -> tuple[str, ...]:
    if name == "torchvision":
        torch = next(key for key, value in VISIONS.items() if value == made.other_vision())
        return ("numpy", f"torch=={torch}.0")
    if name != made.distribution:
        return ()
    extra = f'; extra == "{made.row["gpu_extra"]}"' if "gpu_extra" in made.row else ""
    wheels = [] if made.fault == CPU else [text + extra for text in made.row.get("cuda_wheels", ())]
    return (*(f"{key}{text}" for key, text in made.row["requires"].items()), *wheels)


def _framework(made: Situation, site: str) -> model.FrameworkBuild:
    kind = model.FrameworkBuild
    names = {
        "framework": made.framework,
        "distribution": made.distribution,
        "version": made.build,
        "location": site,
    }
    if made.fault == CPU:
        return _record(kind, **names, cuda_build=False)
    return _record(
        kind, **names, cuda_build=True, cuda_version=made.row["cuda"], cudnn_version=made.row["cudnn"],
        compute_capabilities=tuple(made.row["compute_capabilities"]),
        libraries=_lookups(made, site),
        runpath=(f"{site}/nvidia/cublas/lib",) if made.brings else (),
    )  # fmt: skip


def _lookups(made: Situation, site: str) -> tuple[model.LibraryLookup, ...]:
    found = [_lookup(made, name, soname, site) for name, soname in made.sonames.items()]
    if made.fault == OLD_TOOLKIT:
        soname, own = "libnvJitLink.so.12", f"{site}/nvidia/nvjitlink/lib/libnvJitLink.so.12"
        older = f"/usr/local/cuda-{made.image.cuda}/lib64/{soname}.{made.image.cuda}.105"
        asker, version = (
            f"{site}/torch/lib/libtorch_global_deps.so",
            _known(f"{made.image.cuda}.105"),
        )
        found.append(
            model.LibraryLookup(
                soname, asker, MANDATORY, _known(older), "LD_LIBRARY_PATH", (own,), version
            )
        )
    return tuple(found)


def _wheel_folder(name: str) -> str:
    return {"cudart": "cuda_runtime", "cublasLt": "cublas"}.get(name, name)


def _lookup(made: Situation, name: str, soname: str, site: str) -> model.LibraryLookup:
    needed_by = f"{site}/torch/lib/libtorch_cuda.so"
    if made.framework == "tensorflow":
        needed_by = f"{site}/tensorflow/libtensorflow_cc.so.2"
    version, own = made.finds(name), f"{site}/nvidia/{_wheel_folder(name)}/lib/{soname}"
    elsewhere = (own,) if made.has_wheels and not made.brings else ()
    if not version:
        return model.LibraryLookup(
            soname, needed_by, MANDATORY, model.Absent((site,)), "", elsewhere
        )
    if made.brings:
        return model.LibraryLookup(
            soname, needed_by, MANDATORY, _known(own), "runpath", (), _known(version)
        )
    folder = LIBS if name == "cudnn" else f"/usr/local/cuda-{made.image.cuda}/lib64"
    found = _known(
        f"{folder}/libcudnn.so.{version}" if name == "cudnn" else f"{folder}/{soname}.{version}"
    )
    return model.LibraryLookup(
        soname, needed_by, MANDATORY, found, "ld.so cache", elsewhere, _known(version)
    )


def _link_faults(made: Situation, site: str) -> tuple[model.LinkFault, ...]:
    """Return what the loader refuses when the framework is imported."""
    if made.outcome() == NO_LIBRARIES and made.framework == "torch":
        soname, wheel = made.sonames["cudnn"], "nvidia-cudnn"
        file = f"{site}/torch/lib/libtorch_cuda.so"
        return (
            model.LinkFault(
                "torch",
                "missing-library",
                file,
                soname,
                asked_by="torch",
                wheel=wheel,
                stops="import",
            ),
        )
    if made.fault == VISION:
        symbol, library, file = (
            "_ZN3c106detail23torchInternalAssertFailE",
            "libc10.so",
            f"{site}/torchvision/_C.so",
        )
        fault = model.LinkFault(
            "torchvision", "missing-symbol", file, library, (symbol,), f"{site}/torch/lib/{library}"
        )
        return (
            model.replace(
                fault, via="runpath", asked_by="torchvision", found_in="torch", stops="import"
            ),
        )
    if made.fault == OLD_TOOLKIT:
        cusparse = f"{site}/nvidia/cusparse/lib/libcusparse.so.12"
        found = f"/usr/local/cuda-{made.image.cuda}/lib64/libnvJitLink.so.12"
        symbol = f"__nvJitLinkComplete_{made.row['cuda'].replace('.', '_')}"
        return (
            model.LinkFault("torch", "missing-symbol", cusparse, "libnvJitLink.so.12", (symbol,), found,
                            "LD_LIBRARY_PATH", "nvidia-cusparse-cu12", wheel="nvidia-nvjitlink", stops="import"),
        )  # fmt: skip
    return ()
