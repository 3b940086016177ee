"""Which imports die in the loader, told from the files as the real loader decides it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.frameworks import framework
from envcheck.frameworks.installed import Inspection
from envcheck.frameworks.packages import Folder, Installation
from envcheck.host.local import LocalHost
from envcheck.model import IMPORT, NOT_COLLECTED, USE, Absent, Distribution, Fact, LinkFault
from envcheck.probes.linking import collect_link_faults
from tests.hosts.recorded_host import RecordedHost
from tests.known import known, unknown

pytestmark = pytest.mark.needs("linux", "c-compiler")
TORCH = "torch/lib/libtorch_cuda.so"
NCCL = "nvidia/nccl/lib/libnccl.so.2"


def compile_library(path: Path, code: str, *flags: str) -> Path:
    """Compile a shared library with its own name as soname."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [
        "gcc",
        "-shared",
        "-fPIC",
        f"-Wl,-soname,{path.name}",
        "-o",
        str(path),
        "-x",
        "c",
        "-",
        "-x",
        "none",
    ]
    subprocess.run([*command, *flags], input=code.encode(), check=True, capture_output=True)
    return path


def make_torch(site: Path, *nccl_flags: str) -> None:
    """Build a torch whose CUDA part calls NCCL of a wheel, and a torchvision that calls torch."""
    nccl = compile_library(
        site / NCCL, "void ncclCommInitAll(void) {} void ncclCommRegister(void) {}", *nccl_flags
    )
    rpath = "-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib:$ORIGIN"
    calls = "void ncclCommInitAll(void); void ncclCommRegister(void); void _ZN3c104f(void) {}"
    code = f"{calls} void use(void) {{ ncclCommInitAll(); ncclCommRegister(); }}"
    cuda = compile_library(site / TORCH, code, rpath, str(nccl))
    root = "-Wl,-rpath,$ORIGIN/lib"
    compile_library(
        site / "torch/_C.so",
        "void use(void); void PyInit__C(void) { use(); }",
        root,
        "-Wl,--no-as-needed",
        str(cuda),
    )


def collect(
    site: Path,
    *others: str,
    names: tuple[str, ...] = ("torch",),
    version: str = "0.17.2",
    requires: str = "torch (>=2)",
) -> Fact[tuple[LinkFault, ...]]:
    distributions = [
        Distribution("torch", "2.2.2", str(site), modules=("torch",)),
        *(
            Distribution(
                name,
                version,
                str(site),
                modules=("test", name.replace("-", "_")),
                requires=(requires,),
            )
            for name in others
        ),
    ]
    wheel = Distribution("nvidia-nccl-cu12", "2.18.1", str(site))
    installed = Installation(
        executable=sys.executable,
        prefix=str(site),
        base_prefix=str(site),
        is_conda=False,
        folders=(Folder(str(site), "environment"),),
        distributions=(*distributions, wheel),
        library_owners={str(site / NCCL): (wheel,)},
    )
    return collect_link_faults(
        Inspection(LocalHost(), installed), tuple(framework(name) for name in names)
    )


def only_fault(site: Path, *others: str) -> LinkFault:
    (fault,) = known(collect(site, *others))
    return fault


def loads(path: Path) -> bool:
    """Ask the real loader, as an import does."""
    code = f"import ctypes; ctypes.CDLL({str(path)!r})"
    return (
        subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode
        == 0
    )


def test_what_loads_has_no_fault(tmp_path: Path) -> None:
    make_torch(tmp_path)
    assert loads(tmp_path / "torch/_C.so")
    assert known(collect(tmp_path)) == ()


@pytest.mark.parametrize("style", ["gnu", "sysv"])
def test_a_symbol_that_an_older_wheel_lacks(tmp_path: Path, style: str) -> None:
    make_torch(tmp_path)
    compile_library(tmp_path / NCCL, "void ncclCommInitAll(void) {}", f"-Wl,--hash-style={style}")
    assert not loads(tmp_path / "torch/_C.so")
    fault = only_fault(tmp_path)
    assert (fault.distribution, fault.kind, fault.library) == (
        "torch",
        "missing-symbol",
        "libnccl.so.2",
    )
    assert fault.symbols == ("ncclCommRegister",)
    assert (fault.file, fault.found) == (str(tmp_path / TORCH), str(tmp_path / NCCL))
    assert (fault.asked_by, fault.found_in, fault.wheel) == (
        "torch",
        "nvidia-nccl-cu12",
        "nvidia-nccl",
    )


def test_a_weak_symbol_may_be_missing(tmp_path: Path) -> None:
    make_torch(tmp_path)
    weak = "void ncclCommInitAll(void); __attribute__((weak)) void ncclNew(void); void use(void) { ncclNew(); }"
    compile_library(
        tmp_path / TORCH, weak, "-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib", str(tmp_path / NCCL)
    )
    assert known(collect(tmp_path)) == ()


def test_a_version_that_the_library_does_not_define(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("libnccl_2.19 { global: *; };")
    (tmp_path / "old").write_text("libnccl_2.18 { global: *; };")
    make_torch(tmp_path, f"-Wl,--version-script,{tmp_path / 'new'}")
    assert known(collect(tmp_path)) == ()
    code = "void ncclCommInitAll(void) {} void ncclCommRegister(void) {}"
    compile_library(tmp_path / NCCL, code, f"-Wl,--version-script,{tmp_path / 'old'}")
    assert not loads(tmp_path / "torch/_C.so")
    fault = only_fault(tmp_path)
    assert (fault.kind, fault.symbols) == ("missing-symbol-version", ("libnccl_2.19",))


def make_onnxruntime(site: Path, old: Path) -> Path:
    """Build a NumPy that calls a libstdc++, an ONNX Runtime beside it, and an old copy of that libstdc++."""
    new, map_of = site / "system/libstdc++.so.6", site / "versions"
    map_of.write_text("CXXABI_1.3 { global: *; };")
    compile_library(new, "void __cxa_call(void) {}", f"-Wl,--version-script,{map_of}")
    map_of.write_text("CXXABI_1.2 { global: *; };")
    compile_library(old / new.name, "void __cxa_call(void) {}", f"-Wl,--version-script,{map_of}")
    numpy = site / "numpy/_core/_multiarray_umath.cpython-312-x86_64-linux-gnu.so"
    compile_library(
        numpy,
        "void __cxa_call(void); void use(void) { __cxa_call(); }",
        f"-Wl,-rpath,{new.parent}",
        str(new),
    )
    compile_library(
        site / "onnxruntime/capi/onnxruntime_pybind11_state.so", "void PyInit_state(void) {}"
    )
    return numpy


@pytest.mark.parametrize("lost", ["version", "symbol"])
def test_a_system_library_that_ld_library_path_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    site, old = tmp_path / "site", tmp_path / "old"
    site.mkdir()
    numpy = make_onnxruntime(site, old)
    assert loads(numpy)
    assert known(collect(site, "onnxruntime", "numpy", names=("onnxruntime",))) == ()
    if lost == "symbol":  # the version is there, what it should hold is not
        (site / "versions").write_text("CXXABI_1.3 { global: *; };")
        compile_library(
            old / "libstdc++.so.6",
            "void other(void) {}",
            f"-Wl,--version-script,{site / 'versions'}",
        )
    monkeypatch.setenv("LD_LIBRARY_PATH", str(old))
    assert not loads(numpy)
    (fault,) = known(collect(site, "onnxruntime", "numpy", names=("onnxruntime",)))
    assert (fault.distribution, fault.asked_by, fault.library) == (
        "onnxruntime",
        "numpy",
        "libstdc++.so.6",
    )
    assert (fault.found, fault.via) == (str(old / "libstdc++.so.6"), "LD_LIBRARY_PATH")
    expected = {
        "version": ("missing-symbol-version", "CXXABI_1.3"),
        "symbol": ("missing-symbol", "__cxa_call"),
    }
    assert (fault.kind, fault.symbols) == (expected[lost][0], (expected[lost][1],))


def test_a_library_without_versions_serves_every_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numpy = make_onnxruntime(tmp_path, tmp_path / "old")
    code = 'int puts(const char *); void __cxa_call(void) { puts(""); }'
    compile_library(tmp_path / "old/libstdc++.so.6", code)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "old"))
    assert loads(numpy)
    assert known(collect(tmp_path, "onnxruntime", "numpy", names=("onnxruntime",))) == ()


def test_a_library_that_is_not_there(tmp_path: Path) -> None:
    make_torch(tmp_path)
    (tmp_path / NCCL).unlink()
    assert not loads(tmp_path / "torch/_C.so")
    fault = only_fault(tmp_path)
    assert (fault.kind, fault.library, fault.wheel) == (
        "missing-library",
        "libnccl.so.2",
        "nvidia-nccl",
    )


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"no library"])
def test_a_damaged_library(tmp_path: Path, content: bytes) -> None:
    make_torch(tmp_path)
    (tmp_path / NCCL).write_bytes(content)
    assert not loads(tmp_path / "torch/_C.so")
    fault = only_fault(tmp_path)
    assert (fault.kind, fault.found) == ("damaged", str(tmp_path / NCCL))


def test_a_companion_of_another_release(tmp_path: Path) -> None:
    make_torch(tmp_path)
    vision = tmp_path / "torchvision"
    vision.mkdir()
    (vision / "_meta_registrations.py").touch()
    code = "void _ZN3c104f(void); void _ZN3c103newEv(void); void use(void) { _ZN3c104f(); _ZN3c103newEv(); }"
    # no RPATH: torch has loaded it before
    compile_library(vision / "_C.so", code, str(tmp_path / TORCH))
    assert known(collect(tmp_path)) == ()
    make_core(tmp_path)
    fault = only_fault(tmp_path, "torchvision")
    assert (fault.distribution, fault.found_in, fault.symbols) == (
        "torchvision",
        "torch",
        ("_ZN3c103newEv",),
    )
    assert fault.stops == IMPORT
    (vision / "_meta_registrations.py").unlink()  # such a release imports, and lacks its operators
    assert only_fault(tmp_path, "torchvision").stops == USE


@pytest.mark.parametrize(
    ("name", "own", "other"), [("torchaudio", "13.0", "13.2"), ("torchvision", "12.6", "13.2")]
)
def test_a_companion_for_another_cuda(tmp_path: Path, name: str, own: str, other: str) -> None:
    make_torch(tmp_path)
    (tmp_path / name).mkdir()
    (tmp_path / "torch/version.py").write_text(f"cuda: Optional[str] = '{other}'\n")
    (tmp_path / name / "version.py").write_text(f"__version__ = '1.0+cu{own.replace('.', '')}'\n")
    fault = only_fault(tmp_path, name)
    assert (fault.distribution, fault.kind, fault.symbols, fault.found_in) == (
        name,
        "other-cuda",
        (own, other),
        "torch",
    )


@pytest.mark.parametrize(
    ("release", "cuda", "held", "variable", "expected"),
    [
        ("0.45.1", "12.6", ("126", "118"), "", None),
        ("0.45.1", "12.8", ("126", "118"), "", ("12.6", "12.8")),
        ("0.50.2", "12.8", ("126", "118"), "", None),  # one of the same major will do
        ("0.50.2", "13.2", ("126", "118"), "", ("12.6", "13.2")),
        ("0.45.1", "13.2", ("126", "118"), "126", None),
    ],
)
def test_a_companion_with_a_file_for_each_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, release: str, cuda: str, held: tuple[str, ...], variable: str,
    expected: tuple[str, str] | None,
) -> None:  # fmt: skip
    make_torch(tmp_path)
    monkeypatch.setenv("BNB_CUDA_VERSION", variable)
    (tmp_path / "bitsandbytes").mkdir()
    for label in held:
        (tmp_path / f"bitsandbytes/libbitsandbytes_cuda{label}.so").touch()
    (tmp_path / "torch/version.py").write_text(f"cuda: Optional[str] = '{cuda}'\n")
    faults = known(collect(tmp_path, "bitsandbytes", version=release))
    found = [(fault.kind, fault.symbols, fault.needs_gpu, fault.stops) for fault in faults]
    assert found == [("other-cuda", expected, True, USE)] * (expected is not None)


def test_what_a_companion_compares_of_the_cuda_of_both(tmp_path: Path) -> None:
    make_torch(tmp_path)
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision/version.py").write_text("__version__ = '0.29.2+cu130'\n")
    for cuda in ("'13.2'", "None"):  # its majors alone; nothing beside a build for the CPU
        (tmp_path / "torch/version.py").write_text(f"cuda = {cuda}\n")
        assert known(collect(tmp_path, "torchvision")) == ()


def make_core(site: Path) -> Path:
    """Give torch a library that defines its C++ symbols, and return it."""
    core = compile_library(site / "torch/lib/libtorch_cpu.so", "void _ZN2at1fEv(void) {}")
    code, root = "void PyInit__C(void) {}", "-Wl,-rpath,$ORIGIN/lib"
    compile_library(
        site / "torch/_C.so", code, root, "-Wl,--no-as-needed", str(site / TORCH), str(core)
    )
    return core


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        ("flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", "flash_attn_2_cuda"),
        ("xformers/_C.so", "xformers"),
        ("unknown_thing/_ops.so", "unknown-thing"),
    ],
)
def test_an_extension_that_was_built_against_another_framework(
    tmp_path: Path, file: str, owner: str
) -> None:
    make_torch(tmp_path)
    core = make_core(tmp_path)
    (tmp_path / "other.so").write_bytes(b"no library")  # what does not need torch is not looked at
    for symbol, lacking in (("_ZN2at1fEv", ()), ("_ZN2at3newEv", ("_ZN2at3newEv",))):
        code = f"void {symbol}(void); void use(void) {{ {symbol}(); }}"
        compile_library(tmp_path / file, code, "-Wl,--no-as-needed", str(core))
        faults = known(collect(tmp_path, "xformers", "unknown-thing"))
        assert [(fault.distribution, fault.symbols) for fault in faults] == [
            (owner, lacking)
        ] * bool(lacking)


def compile_caller(path: Path, symbol: str, *flags: str) -> Path:
    """Compile a library that calls a function of another one."""
    return compile_library(
        path, f"void {symbol}(void); void use(void) {{ {symbol}(); }}", "-Wl,--no-as-needed", *flags
    )


@pytest.mark.parametrize(
    ("name", "file", "effect"),
    [
        ("flash-attn", "flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", (IMPORT, False)),
        ("xformers", "xformers/_C.so", (USE, True)),
        ("torchao", "torchao/_C_cutlass.abi3.so", (USE, False)),
    ],
)
@pytest.mark.parametrize(
    "symbol", ["_ZN2at3newEv", "_ZNR2at3newEv", "torch_library_impl"]
)  # C++, also a method of an lvalue, and the stable C functions
def test_what_stops_where_a_companion_does_not_load(
    tmp_path: Path, name: str, file: str, effect: tuple[str, bool], symbol: str
) -> None:
    make_torch(tmp_path)
    compile_caller(tmp_path / file, symbol, str(make_core(tmp_path)))
    fault = only_fault(tmp_path, name)
    assert (fault.distribution, fault.kind, fault.symbols) == (name, "missing-symbol", (symbol,))
    assert (fault.stops, fault.needs_gpu) == effect


def test_one_file_is_enough_of_those_for_other_releases_of_a_library(tmp_path: Path) -> None:
    make_torch(tmp_path)
    core = make_core(tmp_path)
    for number in ("4", "5"):
        library = compile_library(tmp_path / f"lib/libavutil.so.{number}", "void avutil(void) {}")
        flags = (str(library), f"-Wl,-rpath,{library.parent}", str(core))
        compile_caller(tmp_path / f"torchcodec/libtorchcodec_core{number}.so", "avutil", *flags)
    for lost in ("4", "5"):
        assert known(collect(tmp_path, "torchcodec")) == ()
        (tmp_path / f"lib/libavutil.so.{lost}").unlink()
    fault = only_fault(tmp_path, "torchcodec")
    assert (fault.kind, fault.stops) == ("missing-library", IMPORT)
    assert fault.symbols == ("libavutil.so.4", "libavutil.so.5"), "one of them is enough"
    compile_library(core, "void other(void) {}")
    code = "void avutil(void); void _ZN2at1fEv(void); void use(void) { avutil(); _ZN2at1fEv(); }"
    library = compile_library(tmp_path / "lib/libavutil.so.5", "void avutil(void) {}")
    compile_library(tmp_path / "torchcodec/libtorchcodec_core5.so", code, str(library), str(core))
    library.unlink()
    fault = only_fault(tmp_path, "torchcodec")
    assert (fault.kind, fault.symbols) == ("missing-symbol", ("_ZN2at1fEv",)), (
        "no other FFmpeg helps"
    )


def test_a_companion_for_a_newer_glibc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_torch(tmp_path)
    compile_caller(tmp_path / "flash_attn_2_cuda.x.so", "strlen")  # GLIBC_2.2.5, or 2.17 on Arm
    assert known(collect(tmp_path, "flash-attn")) == ()
    monkeypatch.setattr(LocalHost, "system_facts", lambda _: {"libc": "glibc 2.1"})
    fault = only_fault(tmp_path, "flash-attn")
    assert (fault.kind, fault.library, fault.symbols[0][:8]) == (
        "missing-symbol-version",
        "libc.so.6",
        "GLIBC_2.",
    )


def test_a_library_that_two_companions_lack_is_said_of_both(tmp_path: Path) -> None:
    make_torch(tmp_path)
    lost = compile_library(tmp_path / "lib/liblost.so", "void lost(void) {}")
    for file in ("flash_attn_2_cuda.x.so", "selective_scan_cuda.x.so"):
        compile_caller(tmp_path / file, "lost", str(lost))
    lost.unlink()
    faults = known(collect(tmp_path, "flash-attn", "mamba-ssm"))
    assert [(fault.distribution, fault.library) for fault in faults] == [
        ("flash-attn", "liblost.so"),
        ("mamba-ssm", "liblost.so"),
    ]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("from torch.library import new", "new"),
        ("from .part import value\n", "gone"),
        ("import xformers.ops.part", "gone"),
        ("import torch\nnew = torch.library.new", "new"),
        ("import torch\n@torch.library.new('op')\ndef op():\n    pass", "new"),
        ("import torch\nnew = lambda: torch.library.new", ""),
        ("import torch\ndef op():\n    return torch.library.new", ""),
        ("from torch.library import old", ""),
        ("try:\n    from torch.library import new\nexcept ImportError:\n    new = None", ""),
        ("if True:\n    from torch.library import new", ""),  # what is asked there is not known
        ("from torch.lazy import new", ""),
        ("from torch import library", ""),
        ("from torch._C import new", ""),
        ("this is no Python", ""),
    ],
)
def test_a_name_that_the_framework_does_not_have(tmp_path: Path, code: str, name: str) -> None:
    make_torch(tmp_path)
    compile_caller(tmp_path / "xformers/_C.so", "_ZN2at3newEv", str(make_core(tmp_path)))
    ops = tmp_path / "xformers/ops"
    ops.mkdir()
    (ops / "__init__.py").write_text(f"{code}\n")
    (ops / "part.py").write_text("from torch.library import gone\nvalue = 1\n")
    (tmp_path / "torch/__init__.py").write_text("")
    (tmp_path / "torch/library.py").write_text("def old():\n    pass\n")
    (tmp_path / "torch/lazy.py").write_text("def __getattr__(name):\n    return name\n")
    faults = [
        fault for fault in known(collect(tmp_path, "xformers")) if fault.kind == "missing-name"
    ]
    assert [(fault.library, fault.symbols, fault.stops) for fault in faults] == [
        ("torch.library", (name,), IMPORT)
    ] * bool(name)


@pytest.mark.parametrize(
    ("requires", "dies"),
    [
        ("torch>=2.4", True),
        ("torch (<2.2,>=2.0)", True),
        ("torch==2.2.*", False),
        ("torch~=2.4", True),
        ("torch>=2.4; extra == 'gpu'", False),
        ("torchvision>=9", False),
    ],
)
def test_python_code_that_requires_another_release_is_followed(
    tmp_path: Path, requires: str, dies: bool
) -> None:
    make_torch(tmp_path)
    (tmp_path / "torch/library.py").write_text("def old():\n    pass\n")
    for module, code in (("timm", "from torch.library import new\n"), ("test", "")):
        (tmp_path / module).mkdir()
        (tmp_path / module / "__init__.py").write_text(code)
    faults = known(collect(tmp_path, "timm", requires=requires))
    assert [(fault.distribution, fault.kind, fault.stops) for fault in faults] == [
        ("timm", "missing-name", IMPORT)
    ] * dies


def test_what_is_opened_for_a_gpu_alone(tmp_path: Path) -> None:
    make_onnxruntime(tmp_path, tmp_path / "old")
    cublas = compile_library(
        tmp_path / "nvidia/cublas/lib/libcublas.so.12", "void cublasNew(void) {}"
    )
    provider = tmp_path / "onnxruntime/capi/libonnxruntime_providers_cuda.so"
    compile_library(provider, "void cublasNew(void); void use(void) { cublasNew(); }", str(cublas))
    assert known(collect(tmp_path, "onnxruntime", "numpy", names=("onnxruntime",))) == ()
    compile_library(cublas, "void cublasOld(void) {}")
    (fault,) = known(collect(tmp_path, "onnxruntime", "numpy", names=("onnxruntime",)))
    assert (fault.distribution, fault.kind, fault.needs_gpu) == (
        "onnxruntime",
        "missing-symbol",
        True,
    )


def test_what_cannot_be_read_is_never_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_torch(tmp_path)
    (tmp_path / NCCL).unlink()
    (tmp_path / NCCL).mkdir()  # opened, it is an error that says nothing about a library
    assert unknown(collect(tmp_path)).why == "failed"


def test_a_recording_and_other_systems_claim_nothing(tmp_path: Path) -> None:
    make_torch(tmp_path)
    torch = Distribution("torch", "2.2.2", "/v", modules=("torch",))
    linux = RecordedHost({"files": {"/v/torch/_C.so": ""}})
    recorded = Installation("", "/v", "/v", False, (Folder("/v", "environment"),), (torch,), {})
    assert collect_link_faults(Inspection(linux, recorded), (framework("torch"),)) == NOT_COLLECTED
    windows = RecordedHost({"system": "windows"})
    assert isinstance(
        collect_link_faults(Inspection(windows, recorded), (framework("torch"),)), Absent
    )
