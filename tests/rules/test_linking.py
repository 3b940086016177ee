"""What the loader cannot load, judged on every goal: the two versions that clash, and the one to install."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import (
    IMPORT,
    NOT_COLLECTED,
    NOT_STATED,
    USE,
    Distribution,
    Facts,
    FileFault,
    Finding,
    LinkFault,
    replace,
)
from tests.rules.factory_python import (
    SITE,
    build,
    context,
    distribution,
    facts,
    findings,
    found,
    known,
)
from tests.typed import argv

PINS = (
    "nvidia-cublas-cu12 ==12.1.3.1 ; platform_system == 'Linux'",
    "nvidia-nccl-cu12 ==2.19.3",
    "jinja2",
)
LIB = f"{SITE}/torch/lib"
NCCL = LinkFault(
    "torch", "missing-symbol", f"{LIB}/libtorch_cuda.so", "libnccl.so.2", ("ncclCommRegister",),
    f"{SITE}/nvidia/nccl/lib/libnccl.so.2", "rpath", "torch", "nvidia-nccl-cu12", "nvidia-nccl",
)  # fmt: skip
CUBLAS = LinkFault(
    "torch",
    "missing-library",
    f"{LIB}/libtorch_cuda.so",
    "libcublas.so.12",
    asked_by="torch",
    wheel="nvidia-cublas",
)
VISION = LinkFault(
    "torchvision", "missing-symbol", f"{SITE}/torchvision/_C.so", "libc10.so", ("_ZN3c10f",), f"{LIB}/libc10.so",
    "rpath", "torchvision", "torch",
)  # fmt: skip


def torch(*faults: LinkFault, nccl: str = "2.19.3", **others: str) -> Facts:
    installed = [distribution(name.replace("_", "-"), version) for name, version in others.items()]
    return facts(
        build("torch", "2.2.2", cuda_build=known(True), cuda_version=known("12.1")),
        distributions=(
            distribution("torch", "2.2.2", requires=PINS),
            distribution("nvidia-nccl-cu12", nccl),
            distribution("jinja2", "3.1"),
            *installed,
        ),
        link_faults=known(faults),
    )


def known_distributions(given: Facts) -> tuple[Distribution, ...]:
    return given.python.distributions.value or ()


def judge(given: Facts, finding_id: str, goal: str = "cpu") -> Finding:
    (finding,) = findings(finding_id, context(given, expect=goal))
    return finding


def typed(finding: Finding) -> list[str]:
    return [" ".join(argv(action)) for action in finding.fix.actions] if finding.fix else []


@pytest.mark.parametrize("goal", ["cpu", "gpu"])
def test_a_wheel_that_lacks_a_symbol_is_replaced_by_the_pin(goal: str) -> None:
    finding = judge(
        torch(NCCL, nccl="2.18.1", nvidia_cublas_cu12="12.1.3.1"), "cuda-wheel-conflict", goal
    )
    assert finding.severity == "error"
    assert finding.message == (
        "torch 2.2.2 cannot be imported: libtorch_cuda.so needs ncclCommRegister, which libnccl.so.2 of "
        "nvidia-nccl-cu12 2.18.1 does not define; torch 2.2.2 requires nvidia-nccl-cu12==2.19.3."
    )
    assert typed(finding) == ["/env/bin/python -m pip install nvidia-nccl-cu12==2.19.3"]


def test_a_wheel_without_a_pin_is_replaced_by_a_newer_one() -> None:
    fault = LinkFault(
        "torch", "missing-symbol", f"{SITE}/nvidia/cusparse/lib/libcusparse.so.12", "libnvJitLink.so.12", ("f_12_1",),
        "/x", "runpath", "nvidia-cusparse-cu12", "nvidia-nvjitlink-cu12", "nvidia-nvjitlink",
    )  # fmt: skip
    given = torch(fault, nvidia_nvjitlink_cu12="12.0.76", nvidia_cublas_cu12="12.1.3.1")
    finding = judge(given, "cuda-wheel-conflict")
    assert typed(finding) == ["/env/bin/python -m pip install nvidia-nvjitlink-cu12>12.0.76"]


def test_a_wheel_that_is_not_installed_is_installed_as_pinned() -> None:
    finding = judge(torch(CUBLAS), "framework-cuda-extra-missing")
    assert finding.severity == "error"
    assert (
        "libcublas.so.12, which is not found; torch 2.2.2 requires nvidia-cublas-cu12==12.1.3.1"
        in finding.message
    )
    assert typed(finding) == ["/env/bin/python -m pip install nvidia-cublas-cu12==12.1.3.1"]
    # the same, said once
    assert found("dependency-conflict", context(torch(CUBLAS), expect="cpu")) == []


def test_a_wheel_of_another_major_does_not_hold_the_library() -> None:
    finding = judge(torch(CUBLAS, nvidia_cublas_cu12="13.0.0"), "cuda-wheel-conflict")
    assert "nvidia-cublas-cu12 13.0.0 does not hold" in finding.message
    assert typed(finding) == ["/env/bin/python -m pip install nvidia-cublas-cu12==12.1.3.1"]


def test_all_wheels_that_are_not_as_pinned_are_replaced_at_once() -> None:
    finding = judge(
        torch(NCCL, nccl="2.18.1", nvidia_cublas_cu12="12.8.0.1"), "cuda-wheel-conflict"
    )
    assert typed(finding) == [
        "/env/bin/python -m pip install nvidia-nccl-cu12==2.19.3 nvidia-cublas-cu12==12.1.3.1"
    ]


def test_a_companion_of_another_release() -> None:
    finding = judge(
        torch(VISION, torchvision="0.18.0", nvidia_cublas_cu12="12.1.3.1"),
        "extension-build-mismatch",
    )
    assert (finding.severity, "torchvision 0.18.0 cannot be imported" in finding.message) == (
        "error",
        True,
    )
    assert typed(finding)[0].startswith("/env/bin/python -m pip install torch==2.2.2 torchvision")


@pytest.mark.parametrize(
    ("own", "step"),
    [
        ("11.8", "--index-url https://download.pytorch.org/whl/cu118 torch==2.2.2+cu118"),
        (
            "12.9",
            "--force-reinstall --index-url https://download.pytorch.org/whl/cu121 torchaudio==2.2.2",
        ),
    ],
)
def test_a_companion_for_another_cuda(own: str, step: str) -> None:
    files = (f"{SITE}/torchaudio/version.py", f"{SITE}/torch/version.py")
    fault = LinkFault(
        "torchaudio",
        "other-cuda",
        files[0],
        "",
        (own, "12.1"),
        files[1],
        asked_by="torchaudio",
        found_in="torch",
    )
    given = torch(fault, torchaudio="2.2.2", nvidia_cublas_cu12="12.1.3.1")
    labelled = tuple(
        replace(item, version="2.2.2+cu121")
        for item in known_distributions(given)
        if item.name == "torch"
    )
    others = tuple(item for item in known_distributions(given) if item.name != "torch")
    given = replace(given, python=replace(given.python, distributions=known((*labelled, *others))))
    finding = judge(given, "extension-build-mismatch")
    assert finding.severity == "error"
    assert finding.message == (
        f"torchaudio 2.2.2 cannot be imported: it was built for CUDA {own}, and torch 2.2.2+cu121 for CUDA 12.1."
    )
    assert [line.endswith(step) for line in typed(finding)] == [True], typed(finding)


def test_an_extension_is_a_warning_and_its_built_file_is_named() -> None:
    fault = replace(
        VISION,
        distribution="flash-attn",
        asked_by="flash-attn",
        file=f"{SITE}/flash_attn_2_cuda.so",
    )
    finding = judge(
        torch(fault, flash_attn="2.5.8", nvidia_cublas_cu12="12.1.3.1"), "extension-build-mismatch"
    )
    assert finding.severity == "warning"
    assert finding.message == (
        "flash-attn 2.5.8 was built for another torch: flash_attn_2_cuda.so needs _ZN3c10f, which libc10.so of "
        "torch 2.2.2 does not define. Loading it fails; the framework itself works."
    )
    assert "cu12torch2.2cxx11abiFALSE-cp311-cp311-linux_x86_64.whl" in typed(finding)[0]
    given = torch(replace(fault, distribution="torchtext"), nvidia_cublas_cu12="12.1.3.1")
    text = distribution("torchtext", "0.18.0", requires=("torch (>=2.3.0)",))
    given = replace(
        given,
        python=replace(given.python, distributions=known((*known_distributions(given), text))),
    )
    assert typed(judge(given, "extension-build-mismatch"))[0].endswith("torch==2.2.2 torchtext")


def judge_all(given: Facts, goal: str) -> list[tuple[str, str, str]]:
    ids = (
        "extension-build-mismatch",
        "library-missing",
        "dependency-conflict",
        "cuda-wheel-conflict",
    )
    items = [finding for each in ids for finding in findings(each, context(given, expect=goal))]
    return [(item.id, item.severity, item.message) for item in items]


@pytest.mark.parametrize(
    ("stops", "needs_gpu", "goal", "severity", "effect"),
    [
        (IMPORT, False, "cpu", "error", "cannot be imported"),
        (USE, True, "gpu", "error", "cannot use a GPU"),
        (USE, True, "cpu", "warning", "is imported without its compiled code"),
        (USE, False, "gpu", "warning", "is imported without its compiled code"),
    ],
)
def test_how_bad_it_is_follows_from_what_stops(
    stops: str, needs_gpu: bool, goal: str, severity: str, effect: str
) -> None:
    fault = replace(
        VISION, distribution="xformers", asked_by="xformers", stops=stops, needs_gpu=needs_gpu
    )
    given = torch(fault, xformers="0.0.28", nvidia_cublas_cu12="12.1.3.1")
    message = f"xformers 0.0.28 {effect}: _C.so needs _ZN3c10f, which torch 2.2.2 does not define."
    assert judge_all(given, goal) == [("extension-build-mismatch", severity, message)]


def test_a_symbol_says_for_which_release_a_companion_was_built() -> None:
    symbols = ("_ZN3c10f", "_ZN3c1013MessageLoggerC1EPKciib")
    given = torch(
        replace(VISION, symbols=symbols, stops=IMPORT),
        torchvision="0.25.0",
        nvidia_cublas_cu12="12.1.3.1",
    )
    finding = judge(given, "extension-build-mismatch")
    assert finding.message.endswith(
        "which torch 2.2.2 does not define: it was built for torch 2.10."
    )


@pytest.mark.parametrize(
    ("cuda", "faults", "expected"),
    [
        (
            "12.6",
            NOT_STATED,
            [
                "vllm 0.33.0 was built for CUDA 13, and torch 2.14.0 for CUDA 12.6: it does not load."
            ],
        ),
        ("13.0", NOT_STATED, []),
        ("12.6", known(()), []),  # the loader was asked
    ],
)
def test_a_package_for_another_cuda_where_the_loader_was_not_asked(
    cuda: str, faults: Any, expected: list[str]
) -> None:
    version = "2.14.0"
    host = build("torch", version, cuda_build=known(True), cuda_version=known(cuda))
    beside = (distribution("torch", version), distribution("vllm", "0.33.0"))
    given = facts(host, distributions=beside, link_faults=faults)
    items = findings("extension-build-mismatch", context(given, expect="gpu"))
    assert [(item.severity, item.message) for item in items] == [
        ("warning", text) for text in expected
    ]


def test_an_import_that_dies_of_a_name_comes_before_what_would_not_load() -> None:
    compiled = replace(VISION, distribution="xformers", asked_by="xformers", stops=USE)
    name = LinkFault(
        "xformers", "missing-name", f"{SITE}/xformers/ops/seqpar.py", "torch.distributed", ("resolve",),
        f"{SITE}/torch/distributed.py", asked_by="xformers", found_in="torch", stops=IMPORT,
    )  # fmt: skip
    given = torch(compiled, name, xformers="0.0.28", nvidia_cublas_cu12="12.1.3.1")
    message = (
        "xformers 0.0.28 cannot be imported: xformers/ops/seqpar.py uses torch.distributed.resolve, which torch 2.2.2 "
        "does not define."
    )
    assert judge_all(given, "cpu") == [("extension-build-mismatch", "error", message)]


def test_a_companion_for_another_cuda_major_misses_its_runtime() -> None:
    fault = LinkFault(
        "vllm", "missing-library", f"{SITE}/vllm/_C.abi3.so", "libcudart.so.13", asked_by="vllm",
        wheel="nvidia-cuda-runtime", needs_gpu=True, stops=USE,
    )  # fmt: skip
    ((finding_id, severity, message),) = judge_all(
        torch(fault, vllm="0.33.0", nvidia_cublas_cu12="12.1.3.1"), "gpu"
    )
    assert (finding_id, severity) == ("extension-build-mismatch", "error")
    assert message == (
        "vllm 0.33.0 cannot use a GPU: it was built for another CUDA: it needs libcudart.so.13, but torch 2.2.2 loads "
        "libcudart.so.12 (CUDA 12.1)."
    )


def test_a_library_of_what_is_required_and_not_installed() -> None:
    fault = LinkFault(
        "torch-tensorrt", "missing-library", "/v/libtorchtrt.so", "libnvinfer.so.11", asked_by="torch-tensorrt",
        stops=IMPORT,
    )  # fmt: skip
    given = torch(fault, nvidia_cublas_cu12="12.1.3.1")
    needs = ("psutil", "torch (>=2.2)", "tensorrt-cu13-bindings (<11.2,>=11.1)")
    trt = distribution("torch-tensorrt", "2.14.0", requires=needs)
    given = replace(
        given, python=replace(given.python, distributions=known((*known_distributions(given), trt)))
    )
    finding = judge(given, "library-missing")
    assert finding.message == (
        "torch-tensorrt 2.14.0 cannot be imported: libtorchtrt.so needs libnvinfer.so.11, which is not found; it "
        "requires tensorrt-cu13-bindings<11.2,>=11.1 and 1 more, which are not installed."
    )
    assert typed(finding) == [
        "/env/bin/python -m pip install tensorrt-cu13-bindings<11.2,>=11.1 psutil"
    ]


def test_a_package_for_a_newer_glibc() -> None:
    fault = LinkFault(
        "vllm", "missing-symbol-version", "/v/_C.so", "libc.so.6", ("GLIBC_2.38",), stops=IMPORT
    )
    finding = judge(torch(fault, vllm="0.33.0", nvidia_cublas_cu12="12.1.3.1"), "glibc-too-old")
    assert finding.message == "vllm 0.33.0 cannot be imported: _C.so needs glibc 2.38 or newer."


def test_one_of_several_libraries_is_enough() -> None:
    names = ("libavutil.so.59", "libavutil.so.60")
    fault = LinkFault(
        "torchcodec", "missing-library", "/v/libtorchcodec_core8.so", names[1], names, stops=IMPORT
    )
    finding = judge(
        torch(fault, torchcodec="0.9", nvidia_cublas_cu12="12.1.3.1"), "library-missing"
    )
    assert "it needs one of libavutil.so.59, libavutil.so.60, and none is found" in finding.message
    assert finding.fix is not None
    assert "Install FFmpeg with its shared libraries" in finding.fix.summary


def test_what_only_a_gpu_takes_is_judged_where_one_is_meant() -> None:
    given = torch(replace(NCCL, needs_gpu=True), nccl="2.18.1", nvidia_cublas_cu12="12.1.3.1")
    assert found("cuda-wheel-conflict", context(given, expect="cpu")) == [
        ("cuda-wheel-conflict", "warning")
    ]
    assert judge(given, "cuda-wheel-conflict", "gpu").message.startswith(
        "torch 2.2.2 cannot use a GPU: "
    )


def test_a_foreign_copy_on_the_loaders_path() -> None:
    foreign = LinkFault(
        "torch", "missing-symbol", f"{LIB}/libtorch_cuda.so", "libnccl.so.2", ("ncclCommRegister",),
        "/opt/nccl/lib/libnccl.so.2", "LD_LIBRARY_PATH", wheel="nvidia-nccl",
    )  # fmt: skip
    finding = judge(torch(foreign), "toolkit-path-conflict")
    assert finding.fix is not None
    assert "Remove /opt/nccl/lib from LD_LIBRARY_PATH" in finding.fix.summary


@pytest.mark.parametrize(
    ("library_path", "step"),
    [
        ("/opt/old/lib", "unset LD_LIBRARY_PATH"),
        ("/opt/old/lib/:/opt/mpi/lib", "export LD_LIBRARY_PATH=/opt/mpi/lib"),
        # the folder is reached through another name
        ("/opt/link:/opt/mpi/lib", "unset LD_LIBRARY_PATH"),
    ],
)
def test_a_system_library_of_the_loaders_path_that_is_too_old(library_path: str, step: str) -> None:
    old = LinkFault(
        "torch", "missing-symbol-version", f"{LIB}/libtorch_python.so", "libstdc++.so.6", ("GLIBCXX_3.4.21",),
        "/opt/old/lib/libstdc++.so.6", "LD_LIBRARY_PATH", "torch",
    )  # fmt: skip
    given = torch(old)
    given = replace(
        given, host=replace(given.host, environment=known({"LD_LIBRARY_PATH": library_path}))
    )
    finding = judge(given, "libstdcxx-mismatch")
    assert finding.severity == "error"
    assert (
        "needs the version GLIBCXX_3.4.21, which libstdc++.so.6 of /opt/old/lib/" in finding.message
    )
    assert typed(finding)[0] == step


def test_an_old_system_library_is_said_once() -> None:
    path = "/usr/lib/libstdc++.so.6"
    old = LinkFault(
        "torch",
        "missing-symbol-version",
        f"{LIB}/_C.so",
        "libstdc++.so.6",
        ("GLIBCXX_3.4.21",),
        path,
        "default",
    )
    given = torch(old)
    python = replace(given.python, libstdcxx_path=known(path), libstdcxx_glibcxx=known("3.4.8"))
    finding = judge(replace(given, python=python), "libstdcxx-mismatch")
    assert (finding.severity, finding.fix and finding.fix.summary) == (
        "error",
        "Update the environment's libstdc++.",
    )


def test_libraries_that_nobody_brings() -> None:
    system = LinkFault("torch", "missing-library", f"{LIB}/libtorch_cpu.so", "libopenblas.so.0")
    finding = judge(torch(system), "library-missing")
    assert finding.fix is not None
    assert "libopenblas.so.0" in finding.fix.summary


@pytest.mark.parametrize(
    ("fact", "expected"), [(NOT_COLLECTED, [("probe-failed", "note")]), (NOT_STATED, [])]
)
def test_a_snapshot_without_the_fact_stays_decided(
    fact: Any, expected: list[tuple[str, str]]
) -> None:
    given = facts(
        build("torch", "2.2.2"), distributions=(distribution("torch", "2.2.2"),), link_faults=fact
    )
    assert found("library-missing", context(given, expect="cpu")) == expected


def test_wheels_that_are_missing_together_are_one_fault() -> None:
    """`pip install --no-deps torch`: one block, however many libraries it takes away."""
    given = torch(CUBLAS, replace(NCCL, kind="missing-library", symbols=(), found=""))
    alone = tuple(item for item in known_distributions(given) if item.name == "torch")
    python = replace(given.python, distributions=known(alone))
    (finding,) = findings("framework-cuda-extra-missing", context(replace(given, python=python)))
    assert "libcublas.so.12 and 1 more libraries" in finding.message
    assert "jinja2" in finding.message


def test_a_library_is_missing_although_a_table_does_not_know_that_an_import_needs_it() -> None:
    """The loader's own answer is not dropped for a file that no recorded release loads."""
    damage = FileFault("torch", "2.2.2", "torch/lib/libnew.so", "missing", "pip")
    lost = LinkFault(
        "torch", "missing-library", f"{LIB}/libtorch.so", "libnew.so", asked_by="torch"
    )
    given = torch(lost)
    python = replace(given.python, file_faults=known((damage,)))
    (finding,) = findings("library-missing", context(replace(given, python=python)))
    assert finding.stops == IMPORT
