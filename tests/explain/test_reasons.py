"""The surface message misleads: what the reasoning makes of messages beside each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envcheck.explain.libraries import Library, parse_library, providers
from envcheck.explain.reasons_cuda import parse_cudnn_version
from envcheck.explain.reasons_python import is_users_file
from envcheck.model import (
    INCOMPATIBLE,
    UNDETERMINED,
    WARNING,
    Absent,
    DriverFacts,
    Facts,
    Finding,
    Gpu,
    Known,
    Report,
    Source,
    ToolkitFacts,
    ToolkitInstall,
)
from tests.cases.case_facts import facts_of, matrix
from tests.cases.judged import judge_text
from tests.typed import argv

MISSING = "Could not load dynamic library '{0}'; dlerror: {0}: cannot open shared object file: No such file or directory"
CUINIT = "failed call to cuInit: UNKNOWN ERROR (303)"
DRIVERS = "Could not find cuda drivers on your machine, GPU will not be used."


def known(value: Any) -> Known[Any]:
    return Known(value, Source("report", "composed"))


def primary(log: str, facts: Facts | None = None) -> str:
    return judge_text(log, facts).primary


def named(report: Report, finding_id: str) -> Finding:
    return next(finding for finding in report.findings if finding.id == finding_id)


# -- libraries --


@pytest.mark.parametrize(
    ("symbol", "built_for"),
    [
        ("_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib", "torch 2.9 or older"),
        ("_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb", "torch 2.10 to 2.13"),
        ("_ZN3c104cuda9SetDeviceEa", "torch 2.3 to 2.7"),
        ("_ZN3c104cuda9SetDeviceEab", "torch 2.8 or newer"),
        (
            "_ZN3c105ErrorC2ENS_14SourceLocationESs",
            "the old C++ ABI, which PyTorch's own wheels have up to torch 2.6",
        ),
        (
            "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
            "the new C++ ABI, which PyTorch's own wheels have from torch 2.7 on",
        ),
        ("_ZN3c1017RegisterOperatorsD1Ev", "another release of the framework"),
    ],
)
def test_a_missing_symbol_dates_the_torch_that_an_extension_was_built_for(
    symbol: str, built_for: str
) -> None:
    module = "/venv/lib/python3.12/site-packages/ext/_C.cpython-312-x86_64-linux-gnu.so"
    judged = judge_text(f"ImportError: {module}: undefined symbol: {symbol}")
    (finding,) = (item for item in judged.report.findings if item.id == "extension-build-mismatch")
    assert f"was built for {built_for}" in finding.message
    assert symbol in finding.message


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("libcudart.so.10.1", ("cudart", "10.1", "toolkit")),
        ("/usr/local/cuda/lib64/libcublasLt.so.12", ("cublasLt", "12", "toolkit")),
        ("cudart64_110.dll", ("cudart", "11.0", "toolkit")),
        ("cudart64_80.dll", ("cudart", "8.0", "toolkit")),
        ("cudart64_12.dll", ("cudart", "12", "toolkit")),
        ("cudnn64_7.dll", ("cudnn", "7", "cudnn")),
        ("cudnn_ops_infer64_8.dll", ("cudnn_ops_infer", "8", "cudnn")),
        ("libcuda.so.1", ("cuda", "1", "driver")),
        ("nvcuda.dll", ("nvcuda", "", "driver")),
        ("libnvinfer_plugin.so.7", ("nvinfer_plugin", "7", "tensorrt")),
        ("libcudnn.5.dylib", ("cudnn", "5", "cudnn")),
        ("libGL.so.1", ("GL", "1", "other")),
        ("no library", ("no library", "", "other")),
    ],
)
def test_a_librarys_name_is_read(name: str, wanted: tuple[str, str, str]) -> None:
    library = parse_library(name)
    assert (library.stem, library.version, library.family) == wanted


def test_a_soname_tells_which_cuda_holds_it() -> None:
    lines = providers(matrix(), parse_library("libcudart.so.11.0"))
    assert len(lines) > 1
    assert {line.split(".")[0] for line in lines} == {"11"}, "libcudart.so.11.0 is all of 11.x"
    assert providers(matrix(), Library("libcudart.so.99", "cudart", "99", "toolkit")) == ()


def test_a_named_other_cuda_makes_it_the_wrong_version() -> None:
    log = MISSING.format("libcudart.so.10.1")
    assert primary(log) == "toolkit-missing"
    assert primary(f"{log}; LD_LIBRARY_PATH: /usr/local/cuda-10.2/lib64") == "toolkit-wrong-version"
    assert (
        primary(f"{log}\nCuda compilation tools, release 10.1, V10.1.243")
        == "toolkit-path-conflict"
    )
    installed = ToolkitFacts(
        installs=known((ToolkitInstall("/opt/cuda", "opt", version=known("10.2")),))
    )
    assert primary(log, Facts(toolkits=installed)) == "toolkit-wrong-version"


def test_one_library_alone_means_another_version() -> None:
    opened = "Successfully opened dynamic library libcudart.so.11.0"
    assert primary(f"{opened}\n{MISSING.format('libcusolver.so.10')}") == "toolkit-wrong-version"


def test_an_extension_that_asks_is_named() -> None:
    library = (
        "OSError: libcudart.so.10.2: cannot open shared object file: No such file or directory"
    )
    log = f'  File "/venv/site-packages/torch_sparse/__init__.py", line 1\n{library}'
    assert primary(log) == "extension-build-mismatch"


@pytest.mark.parametrize("library", ["libnvinfer.so.7", "libcupti.so.11.2"])
def test_what_is_opened_in_passing_is_noise(library: str) -> None:
    assert primary(MISSING.format(library)) == "benign-noise"


def test_tensorrt_that_is_needed_is_no_noise() -> None:
    assert (
        primary(f"{MISSING.format('libnvinfer.so.6')}\ngetInferLibVersion symbol not found.")
        == "tensorrt-missing"
    )


def test_a_cudnn_of_another_major_is_the_wrong_one() -> None:
    log = MISSING.format("libcudnn.so.8")
    assert primary(log) == "cudnn-missing"
    assert primary(log, facts_of({"cudnn": {"header": "7.6.5"}})) == "cudnn-wrong-major"
    assert primary(log, facts_of({"cudnn": {"header": "8.1.0"}})) == "toolkit-path-conflict"


@pytest.mark.parametrize(
    ("build", "library", "cause"),
    [
        ("", "libcublas.so.12", "cudnn-wrong-cuda-build"),
        ("torch 2.0.1+cu118\n", "libcublasLt.so.12", "cudnn-wrong-cuda-build"),
        ("torch 2.1.2+cu121\n", "libcublasLt.so.12", "toolkit-missing"),
        ("torch 2.1.2+cu121\n", "libnvrtc.so.12", "toolkit-missing"),
    ],
)
@pytest.mark.parametrize("part", ["libcudnn_ops_infer.so.8", ""])
def test_a_library_that_cudnn_misses_is_compared_with_the_build(
    build: str, library: str, cause: str, part: str
) -> None:
    log = f"{build}Could not load library {part or library}. Error: {library}: cannot open shared object file"
    report = judge_text(log).report
    assert report.findings[0].id == cause
    assert "CUDA 12" in report.findings[0].message
    assert "not exist" not in report.findings[0].message


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("8.6.0", (8, 6, 0)),
        ("(8, 3, 2", (8, 3, 2)),
        ("8700", (8, 7, 0)),
        ("90101", (9, 1, 1)),
        ("7605", (7, 6, 5)),
    ],
)
def test_a_cudnn_version_is_read_in_every_spelling(text: str, wanted: tuple[int, ...]) -> None:
    assert parse_cudnn_version(text) == wanted


# -- driver --


def test_cuinit_without_a_gpu_is_noise() -> None:
    log = f"{MISSING.format('libcuda.so.1')}\n{CUINIT}"
    assert primary(log) == "driver-missing"
    without = judge_text(log, Facts(gpus=Absent(("everywhere",))))
    assert without.primary == "benign-noise"
    assert not without.raises_error


def test_cuda_drivers_not_found_under_a_healthy_driver_is_a_missing_runtime() -> None:
    driver = Facts(
        driver=DriverFacts(release=known("535.113.01")), gpus=known((Gpu(name=known("GTX 1650")),))
    )
    assert primary(DRIVERS, driver) == "toolkit-missing"
    newer = f"I external/local_xla/xla/tsl/cuda/cudart_stub.cc:32] {DRIVERS}"
    assert primary(newer, driver) == "framework-cuda-extra-missing"


def test_a_container_is_told_by_its_host_name() -> None:
    line = "kernel driver does not appear to be running on this host (0a1b2c3d4e5f): /proc/driver/nvidia/version"
    assert primary(f"{CUINIT}\n{line}") == "driver-not-in-container"
    assert primary(f"{CUINIT}\n{line.replace('0a1b2c3d4e5f', 'workstation')}") == "driver-missing"


def test_secure_boot_explains_a_module_that_is_not_loaded() -> None:
    smi = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    assert primary(f"{smi}\nSecureBoot enabled") == "driver-secure-boot"


def test_hidden_devices_are_told_by_the_variable() -> None:
    assert (
        primary("RuntimeError: No CUDA GPUs are available\nCUDA_VISIBLE_DEVICES=-1")
        == "visible-devices-hidden"
    )


# -- memory, architecture, pip --


def test_a_full_card_is_held_and_not_exhausted() -> None:
    failed = "failed to allocate 190.31M (199557120 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY"
    assert primary(failed) == "gpu-memory-exhausted"
    assert primary(f"Total memory: 7.92GiB\nFree memory: 190.31MiB\n{failed}") == "gpu-memory-held"
    table = "| 23%   38C    P8    16W / 250W |  10800MiB / 11178MiB |      0%      Default |"
    assert primary(f"{table}\nRuntimeError: CUDA error: out of memory") == "gpu-memory-held"


def test_the_gpu_and_the_build_decide_between_new_and_old() -> None:
    log = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    assert (
        primary(log, facts_of({"gpus": ["Tesla K40m"], "packages": {"torch": "1.5.0"}}))
        == "gpu-arch-too-old"
    )
    assert (
        primary(log, facts_of({"gpus": ["RTX 3090"], "packages": {"torch": "1.6.0"}}))
        == "gpu-arch-too-new"
    )


FROM = "ERROR: Could not find a version that satisfies the requirement {} (from versions: none)"


@pytest.mark.parametrize(
    ("requirement", "facts", "wanted"),
    [
        ("tensorflow==2.15.0", {"python": "3.13"}, "python-unsupported"),
        ("tensorflow==2.15.0", {"python": "3.11", "python_arch": "32-bit"}, "python-32bit"),
        (
            "tensorflow==2.15.0",
            {"python": "3.11", "pip": "9.0.1", "os": "Ubuntu", "arch": "x86_64"},
            "pip-too-old",
        ),
        (
            "torch==1.4.0",
            {"python": "3.8", "os": "Linux", "arch": "ppc64le"},
            "platform-no-gpu-wheel",
        ),
        ("tensorflow-gpu==2.13.0", {"python": "3.11"}, "framework-package-removed"),
        ("left-pad==9", {}, "dependency-conflict"),
    ],
)
def test_pips_error_has_its_causes(requirement: str, facts: dict[str, Any], wanted: str) -> None:
    assert primary(FROM.format(requirement), facts_of(facts)) == wanted


def test_a_wheel_for_another_machine_or_python_is_told() -> None:
    wheel = "torch-1.8.0-cp36-cp36m-linux_aarch64.whl is not a supported wheel on this platform."
    assert primary(wheel, facts_of({"arch": "x86_64"})) == "python-wrong-arch"
    assert primary(wheel, facts_of({"arch": "aarch64", "python": "3.8"})) == "python-unsupported"


@pytest.mark.parametrize(
    ("path", "wanted"), [("/home/me/torch.py", True), ("/v/site-packages/torch/x.py", False)]
)
def test_a_users_file_is_told_from_an_installed_one(path: str, wanted: bool) -> None:
    assert is_users_file(path) is wanted


# -- the report --


def test_a_later_error_ranks_under_its_cause() -> None:
    log = (
        "Loaded runtime CuDNN library: 8.5.0 but source was compiled with: 8.6.0.\n"
        "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR\nDNN library is not found."
    )
    report = judge_text(log).report
    assert [finding.id for finding in report.findings if finding.primary] == ["cudnn-too-old"]
    assert named(report, "gpu-memory-exhausted").caused_by == "cudnn-too-old"


def test_two_causes_that_fit_are_both_named_with_what_tells_them_apart() -> None:
    report = judge_text(
        "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    ).report
    rival = named(report, "gpu-arch-too-old")
    assert (report.findings[0].id, rival.verdict, rival.severity) == (
        "gpu-arch-too-new",
        UNDETERMINED,
        WARNING,
    )
    assert rival.fix is not None
    assert argv(rival.fix.actions[0])[0] == "nvidia-smi"


def test_nothing_known_is_undetermined() -> None:
    judged = judge_text("Epoch 1/10\nloss: 0.2")
    assert (judged.report.verdict, judged.report.findings) == (UNDETERMINED, ())


def test_a_symptom_without_a_cause_is_undetermined() -> None:
    report = judge_text(">>> torch.cuda.is_available()\nFalse").report
    assert report.verdict == UNDETERMINED
    assert report.findings[0].evidence[0].source is not None


def test_a_dangerous_remedy_is_named_and_never_proposed() -> None:
    log = f"$ sudo ln -s libcusolver.so.11 libcusolver.so.10\n{MISSING.format('libcusolver.so.10')}"
    report = judge_text(log).report
    assert any("Do not follow" in finding.message for finding in report.findings)
    commands = [argv(c) for finding in report.findings if finding.fix for c in finding.fix.actions]
    assert not any("ln" in argv for argv in commands)


def test_the_machine_and_the_log_are_judged_together() -> None:
    facts = facts_of(
        {"driver": "410.48", "packages": {"torch": "1.3.0"}, "os": "Ubuntu", "gpus": ["GTX 1080"]}
    )
    report = judge_text(">>> torch.cuda.is_available()\nFalse", facts).report
    assert (report.verdict, report.findings[0].id) == (INCOMPATIBLE, "driver-too-old")


def test_a_machines_other_trouble_is_not_what_the_log_is_about() -> None:
    facts = facts_of({"packages": {"numpy": "2.0.0", "tensorflow": "2.15.0"}, "os": "Linux"})
    report = judge_text("RuntimeError: CUDA error: device-side assert triggered", facts).report
    assert report.findings[0].id == "program-error"
    assert named(report, "numpy-abi").severity == WARNING


def test_what_the_log_states_of_the_machine_is_evidence() -> None:
    log = (
        "| NVIDIA-SMI 410.48                 Driver Version: 410.48                    |\n"
        "PyTorch version: 1.3.0\nCUDA used to build PyTorch: 10.1.243\n>>> torch.cuda.is_available()\nFalse"
    )
    judged = judge_text(log)
    assert judged.primary == "driver-too-old"
    places = [item.source.where for item in judged.report.findings[0].evidence if item.source]
    assert "log:1" in places


def test_given_facts_stand_before_the_logs() -> None:
    facts = facts_of({"driver": "535.113.01", "packages": {"torch": "1.3.0"}, "os": "Ubuntu"})
    facts = replace(facts, gpus=known((Gpu(name=known("GTX 1080")),)))
    log = "|   Driver Version: 410.48    |\nPyTorch version: 1.3.0\n>>> torch.cuda.is_available()\nFalse"
    assert judge_text(log, facts).primary != "driver-too-old"


def test_a_gpu_of_unknown_capability_beside_a_known_release_has_a_remedy() -> None:
    log = "Python version: 3.11.4 (64-bit runtime)\n[pip3] torch==2.5.1\nNo execution plans support the graph"
    assert primary(log) == "gpu-arch-too-old"


def test_what_a_log_states_of_a_build_is_judged_by_the_rules() -> None:
    # PyTorch lists what it has code for; no release and no CUDA is stated
    listed = "The current PyTorch install supports CUDA capabilities sm_70 sm_75 sm_80 sm_90."
    for gpu, sm, cause in (
        ("NVIDIA GeForce RTX 5090", "120", "gpu-arch-too-new"),
        ("Tesla P100-PCIE-16GB", "60", "gpu-arch-too-old"),
        ("NVIDIA GeForce RTX 2080", "75", "gpu-arch-too-new"),  # covered: the message alone speaks
    ):
        words = f"{gpu} with CUDA capability sm_{sm} is not compatible with the current PyTorch"
        judged = judge_text(f"{words} installation.\n{listed}\n")
        shown = next(item.message for item in judged.report.findings if item.primary)
        assert judged.primary == cause
        assert ("it has code for sm_70, sm_75, sm_80, sm_90" in shown) is (sm != "75")


def test_an_nvcc_of_another_cuda_is_judged_beside_the_toolkits_that_are_there() -> None:
    refused = (
        "RuntimeError: The detected CUDA version (12.4) mismatches the version that was used to"
        " compile PyTorch (11.8)."
    )
    assert judge_text(refused).primary == "toolkit-wrong-version"
    beside = f"$ ls -d /usr/local/cuda-11.8\n/usr/local/cuda-11.8\n{refused}"
    judged = judge_text(beside)
    assert judged.primary == "toolkit-path-conflict"
    cause = next(item for item in judged.report.findings if item.primary)
    assert "/usr/local/cuda-12.4" not in str(cause)  # the log does not say where that one is
    assert cause.fix is not None
    assert cause.fix.actions
