"""No remedy is printed that the log itself refutes."""

from __future__ import annotations

import pytest

from envcheck.actions import (
    Action,
    CreateEnvironment,
    InstallPackages,
    RunCommand,
    SetVariables,
    Show,
    UninstallPackages,
    UpgradePip,
)
from envcheck.explain.log import Log
from envcheck.explain.refuted import find_refutation
from envcheck.explain.scan import scan
from envcheck.explain.signatures import load_signatures
from envcheck.model import Remedy
from tests.cases.case_facts import matrix
from tests.cases.judged import judge_text

LISTED = (
    "ERROR: Could not find a version that satisfies the requirement tensorflow==1.15"
    " (from versions: 2.16.1, 2.17.0, 2.18.0)\n"
)
INSTALLED = "torch                     2.4.0+cu121\n"
LIBRARY_PATH = "$ echo $LD_LIBRARY_PATH\n/usr/local/cuda-12.1/lib64:/opt/lib\n"
STARTED = "$ docker run --rm --gpus all nvidia/cuda:12.4.0-base nvidia-smi\n"


def install(*requirements: str, index: str = "", options: tuple[str, ...] = ()) -> InstallPackages:
    """Make an installation by pip."""
    return InstallPackages(requirements, "python3", index=index, options=options)


def start(*argv: str) -> RunCommand:
    """Make the start of a container."""
    return RunCommand(argv, "start it", unchecked="it starts the program", lasting="it ends")


def refutation(text: str, *actions: Action) -> str:
    """Say how a log refutes actions."""
    found = scan([("log", [text.encode()])], load_signatures())
    return find_refutation(Log(found.events, matrix(), None, found.ending), actions)


@pytest.mark.parametrize(
    ("log", "action", "reason"),
    [
        (LISTED, install("tensorflow<2.16"), "the log lists the releases of tensorflow, and none"),
        (INSTALLED, install("torch==2.4.0"), "torch==2.4.0 is installed already"),
        (INSTALLED, install("torch"), "torch is installed already"),
        (
            LIBRARY_PATH,
            SetVariables((("LD_LIBRARY_PATH", "/usr/local/cuda-12.1/lib64"),)),
            "LD_LIBRARY_PATH is set so already",
        ),
        (STARTED, start("docker", "run", "--rm", "--gpus", "all", "IMAGE"), "started with --gpus"),
        (
            "$ apptainer exec --nv image.sif python train.py\n",
            start("apptainer", "exec", "--nv", "IMAGE", "COMMAND"),
            "started with --nv",
        ),
    ],
    ids=["list", "pin", "name", "variable", "docker", "apptainer"],
)
def test_what_the_log_shows_as_vain_is_refuted(log: str, action: Action, reason: str) -> None:
    assert reason in refutation(log, action)
    assert reason in refutation(log, Show(("nvidia-smi",), "shows it"), action)


@pytest.mark.parametrize(
    ("log", "actions"),
    [
        (LISTED, (install("tensorflow==2.17.0"),)),
        (LISTED, (install("tensorflow<2.16", index="https://index.example/simple"),)),
        (LISTED, (UpgradePip("python3"), install("tensorflow<2.16"))),
        (LISTED, (CreateEnvironment(".venv", python="3.10"), install("tensorflow<2.16"))),
        (INSTALLED, (install("torch==2.4.0+cu124"),)),
        (INSTALLED, (install("torch==2.4.0", "torchvision==0.19.0"),)),
        (INSTALLED, (install("torch", options=("--upgrade",)),)),
        (INSTALLED, (UninstallPackages(("torch",), "python3"), install("torch"))),
        (INSTALLED, (Show(("nvidia-smi",), "shows it"),)),
        ("torch was not listed\n", (install("torch"),)),
    ],
)
def test_what_may_help_is_not(log: str, actions: tuple[Action, ...]) -> None:
    assert not refutation(log, *actions)


def test_another_way_takes_the_place_of_a_refuted_one() -> None:
    log = (
        "OS: Microsoft Windows 10 Pro\n"
        "Could not load dynamic library 'cudart64_110.dll'; dlerror: cudart64_110.dll not found\n"
        "Could not load dynamic library 'cublas64_11.dll'; dlerror: cublas64_11.dll not found\n"
    )
    report = judge_text(log).report
    fixes: list[Remedy] = [item.fix for item in report.findings if item.fix]
    lines = [" ".join(action.command()) for fix in fixes for action in fix.actions]
    assert not any("and-cuda" in line for line in lines), lines
