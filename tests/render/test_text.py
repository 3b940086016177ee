"""The text report: plain when piped, wrapped on a terminal, inert whatever the facts hold."""

from __future__ import annotations

import io

import pytest

from envcheck.actions import RunCommand, shell_line
from envcheck.diagnosis import with_steps
from envcheck.diagnosis.overview import summarize_machine
from envcheck.model import (
    SCHEMA_VERSION,
    SYSTEM,
    Absent,
    Citation,
    CompilerFacts,
    DriverFacts,
    Evidence,
    Facts,
    Finding,
    FrameworkBuild,
    Gpu,
    HostFacts,
    Known,
    LibraryInstall,
    PythonFacts,
    Remedy,
    Report,
    Snapshot,
    Source,
    ToolkitFacts,
    ToolkitInstall,
    Unknown,
    inert,
    replace,
)
from tests.render.shown import print_text, write

HERE = Source("file", "/etc/x", "line")
CAUSE = Finding(
    "driver-too-old",
    "incompatible",
    "error",
    "tensorflow 2.15.0 needs driver >= 525.60.13; this machine runs 470.256.02.",
    (
        Evidence("driver.release", "470.256.02", Source("file", "/sys/module/nvidia/version")),
        Evidence("toolkits 12.2", ">= 525.60.13", citation=Citation("CUDA 12 release notes")),
    ),
    Remedy(
        "Install a newer driver.",
        (RunCommand(("apt-get", "install", "nvidia-driver-550"), scope=SYSTEM, sudo=True),),
    ),
    primary=True,
)
CONSEQUENCE = Finding(
    "ptxas-problem", "incompatible", "warning", "ptxas is old.", caused_by="driver-too-old"
)
UNREAD = Finding("probe-failed", "undetermined", "error", "Could not read gpus.")


def known(value: str) -> Known[str]:
    return Known(value, HERE)


def machine(**sections: object) -> Snapshot:
    return Snapshot(SCHEMA_VERSION, "0", "host", "2026-01-01T00:00:00Z", Facts(**sections))  # type: ignore[arg-type]


def report(*findings: Finding, verdict: str = "incompatible") -> Report:
    checked = ("driver-too-old", "gpu-absent")
    return with_steps(
        Report(verdict, "gpu", "GPU deep learning will not work here.", findings, checked)
    )


def printed(
    capsys: pytest.CaptureFixture[str],
    *findings: Finding,
    verbose: bool = False,
    quiet: bool = False,
) -> str:
    print_text(report(*findings), machine(), color=False, verbose=verbose, quiet=quiet)
    return capsys.readouterr().out


def test_piped_report_names_the_cause_its_evidence_and_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = printed(capsys, CAUSE, CONSEQUENCE, UNREAD)
    assert "INCOMPATIBLE  GPU deep learning will not work here." in out
    assert "error: driver-too-old (the cause)" in out
    assert "driver.release: 470.256.02 (/sys/module/nvidia/version)" in out
    assert "known:" not in out  # the message says it
    assert "[CUDA 12 release notes]" in printed(capsys, CAUSE, CONSEQUENCE, UNREAD, verbose=True)
    assert "    $ sudo apt-get install nvidia-driver-550\n" in out
    assert "undetermined: probe-failed" in out
    assert "ptxas-problem" not in out
    assert "2 checks: 1 problem, 1 undetermined check (1 more follows from them: -v)." in out
    assert "\x1b" not in out


def test_a_warning_that_comes_first_stops_nothing_and_is_not_called_the_cause(
    capsys: pytest.CaptureFixture[str],
) -> None:
    warning = replace(CAUSE, severity="warning")
    out = printed(capsys, warning)
    assert "warning: driver-too-old\n" in out
    assert "the cause" not in out
    assert "the cause" not in write(report(warning), "markdown") + write(report(warning), "github")


def test_verbose_shows_consequences(capsys: pytest.CaptureFixture[str]) -> None:
    assert "warning: ptxas-problem (follows from driver-too-old)" in printed(
        capsys, CAUSE, CONSEQUENCE, verbose=True
    )


def test_quiet_shows_the_verdict_and_its_cause_only(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, CAUSE, CONSEQUENCE, quiet=True)
    assert out.startswith("INCOMPATIBLE")
    assert "Machine" not in out
    assert "checks, " not in out


@pytest.mark.parametrize("width", [30, 60, 200])
def test_terminal_report_wraps_text_but_never_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_text(report(CAUSE), machine(), color=True, verbose=False, quiet=False)
    lines = capsys.readouterr().out.splitlines()
    assert any("\x1b[" in line for line in lines)
    assert any("$ sudo apt-get install nvidia-driver-550" in line for line in lines)


def test_a_narrow_terminal_gets_narrow_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_text(report(CAUSE), machine(), color=False, verbose=False, quiet=False)
    out = capsys.readouterr().out
    assert "\x1b[3" not in out, "no colour without being asked"
    assert all(len(line) <= 40 for line in out.splitlines() if "$ " not in line)


def test_an_ascii_pipe_gets_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))
    print_text(
        report(Finding("gpu-absent", "incompatible", "error", "GPU “é”")),
        machine(),
        color=False,
        verbose=False,
        quiet=False,
    )
    import sys

    sys.stdout.flush()
    assert b"GPU ???" in raw.getvalue()


def test_control_characters_become_visible() -> None:
    assert inert("a\x1b[31mb\nc\u202ed\x9b") == "a\ufffd[31mb c\ufffdd\ufffd"


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("pip", "install", "numpy<2"), "pip install 'numpy<2'"),
        (("~/my env/bin/python", "-m", "pip"), "~/'my env/bin/python' -m pip"),
        (("/data/$USER/env/bin/python",), '/data/"$USER"/env/bin/python'),
        (("echo", "$(reboot)", "`x`", "a;b"), "echo '$(reboot)' '`x`' 'a;b'"),
        (("~/",), "~/"),
    ],
)
def test_commands_can_be_pasted(argv: tuple[str, ...], line: str) -> None:
    assert shell_line(argv) == line


def test_overview_says_unknown_as_unknown() -> None:
    shown = dict(summarize_machine(machine(gpus=Unknown("denied", "no access to /sys")).facts))
    assert shown["GPU"] == "unknown (no access to /sys)"
    assert shown["Driver"] == "unknown (failed)"
    assert shown["Frameworks"] == "unknown (failed)"


def test_overview_of_an_empty_machine() -> None:
    absent = Absent(("x",))
    facts = Facts(
        gpus=absent,
        driver=DriverFacts(release=absent),
        toolkits=ToolkitFacts(installs=absent),
        cudnn=absent,
        compilers=CompilerFacts(gcc_version=absent, gxx_version=absent, clang_version=absent),
        python=PythonFacts(executable=absent, frameworks=absent),
    )
    shown = dict(summarize_machine(facts))
    assert {
        shown[label] for label in ("GPU", "Driver", "cuDNN", "Compiler", "Python", "Frameworks")
    } == {"none"}
    assert shown["CUDA"] == "no toolkit"


def test_overview_of_a_full_machine() -> None:
    gpu = Gpu(name=known("NVIDIA A100"), compute_capability=known("8.0"))
    odd = Gpu(name=Absent(), pci_id=known("2684"))
    toolkit = ToolkitInstall("/usr/local/cuda-12.4", "usr-local", version=known("12.4"))
    cudnn = LibraryInstall("cudnn", "/usr", "system", header_version=known("9.1.0"))
    builds = (
        FrameworkBuild(
            "torch", "torch", "2.4.0", cuda_build=Known(True, HERE), cuda_version=known("12.1")
        ),
        FrameworkBuild("tensorflow", "tensorflow-cpu", "2.15.0", cuda_build=Known(False, HERE)),
    )
    facts = Facts(
        host=HostFacts(
            distribution_id=known("ubuntu"),
            distribution_version=known("22.04"),
            architecture=known("x86_64"),
            container=known("docker"),
            wsl_version=Known(2, HERE),
        ),
        gpus=Known((gpu, gpu, odd), HERE),
        driver=DriverFacts(
            release=known("550.163.01"),
            kernel_module_kind=known("open"),
            cuda_driver_version=known("12.4"),
        ),
        toolkits=ToolkitFacts(
            installs=Known((toolkit,), HERE), root_on_path=known("/usr/local/cuda-12.4")
        ),
        cudnn=Known((cudnn,), HERE),
        compilers=CompilerFacts(
            gcc_version=known("11.4.0"), gxx_version=Absent(), clang_version=Absent()
        ),
        python=PythonFacts(
            executable=known("~/v/bin/python"),
            version=known("3.11.7"),
            kind=known("venv"),
            frameworks=Known(builds, HERE),
        ),
    )
    assert dict(summarize_machine(facts)) == {
        "Machine": "ubuntu 22.04, x86_64, in docker, WSL 2",
        "GPU": "2 x NVIDIA A100 (compute capability 8.0), PCI device 2684",
        "Driver": "550.163.01 (open kernel module), runs CUDA up to 12.4",
        "CUDA": "12.4 in /usr/local/cuda-12.4 (its nvcc is on PATH)",
        "cuDNN": "9.1.0 in /usr",
        "Compiler": "gcc 11.4.0",
        "Python": "3.11.7 at ~/v/bin/python (venv)",
        "Frameworks": "torch 2.4.0 (CUDA 12.1), tensorflow-cpu 2.15.0 (CPU build)",
    }
