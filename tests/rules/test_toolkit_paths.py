"""Do PATH, CUDA_HOME, LD_LIBRARY_PATH and a toolkit's files agree on which CUDA is meant?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envcheck.model import FrameworkBuild, Source
from envcheck.model.fixes import BuildWithToolkit
from tests.rules.factory_toolkit import (
    HANGS,
    NONE,
    SITE,
    findings,
    judged,
    known,
    lookup,
    machine,
    tensorflow,
    toolkit,
    torch,
)
from tests.typed import argv

ID = "toolkit-path-conflict"
ERROR = (ID, "incompatible", "error")
WARNING = (ID, "incompatible", "warning")
NOTE = (ID, "incompatible", "note")
OLD = "/usr/local/cuda-12.1/lib64/libnvJitLink.so.12"
OWN = f"{SITE}/nvidia/nvjitlink/lib/libnvJitLink.so.12"


def test_a_right_copy_that_the_loader_passes_by() -> None:
    hidden = lookup("libcudart.so.11.0", "", "/usr/local/cuda-11.8/lib64/libcudart.so.11.0")
    facts = machine(tensorflow("2.11.0", hidden), toolkits=(toolkit("11.8"),))
    assert judged(facts, ID, "toolkit-missing", "toolkit-wrong-version") == [ERROR]
    fix = findings(facts, ID)[0].fix
    assert fix is not None
    assert "/usr/local/cuda-11.8/lib64" in fix.summary
    assert "ln" not in {word for command in fix.actions for word in argv(command)}


def test_several_libraries_and_cudnn_are_named_together() -> None:
    names = ("libcudart.so.11.0", "libcublas.so.11", "libcufft.so.10", "libcudnn.so.8")
    hidden = [lookup(name, "", f"/opt/cuda/lib64/{name}") for name in names]
    assert " and more" in findings(machine(tensorflow("2.11.0", *hidden)), ID)[0].message


def test_hidden_wheels_are_the_python_layers_matter() -> None:
    assert (
        judged(
            machine(
                tensorflow(
                    "2.11.0", lookup("libcudart.so.11.0", "", f"{SITE}/nvidia/x/libcudart.so.11.0")
                )
            ),
            ID,
        )
        == []
    )


@pytest.mark.parametrize(
    ("version", "expected"), [("12.1", [ERROR]), ("12.4", []), ("12.6", []), (None, [WARNING])]
)
def test_a_toolkit_ahead_of_the_wheels(
    version: str | None, expected: list[tuple[str, str, str]]
) -> None:
    build = torch("2.5.1", lookup("libnvJitLink.so.12", OLD, OWN, via="LD_LIBRARY_PATH"))
    assert (
        judged(machine(build, toolkits=(toolkit(version, "/usr/local/cuda-12.1"),)), ID) == expected
    )


def test_the_own_copy_may_be_known_from_its_wheel_alone() -> None:
    build = torch("2.5.1", lookup("libnvJitLink.so.12", OLD, via="LD_LIBRARY_PATH"))
    wheels = {"nvidia-cuda-runtime-cu12": "12.4.127"}
    assert judged(machine(build, distributions=wheels), ID) == [WARNING], (
        "the folder it lies in is of no known version"
    )
    assert judged(machine(build), ID) == [], "no wheels: the system's toolkit is meant"


def test_a_conda_environment_has_its_own_copies_in_its_lib_folder() -> None:
    ahead = torch(
        "2.5.1",
        lookup("libnvJitLink.so.12", OLD, "/env/lib/libnvJitLink.so.12", via="LD_LIBRARY_PATH"),
    )
    own = torch(
        "2.5.1",
        lookup("libnvJitLink.so.12", "/env/lib/libnvJitLink.so.12", OLD, via="LD_LIBRARY_PATH"),
    )
    assert judged(machine(ahead, toolkits=(toolkit("12.1"),), kind="conda"), ID) == [ERROR]
    assert judged(machine(own, toolkits=(toolkit("12.1"),), kind="conda"), ID) == []
    assert judged(machine(ahead, toolkits=(toolkit("12.1"),)), ID) == []


@pytest.mark.parametrize(
    ("at", "via"), [(OWN, "LD_LIBRARY_PATH"), (OLD, "ld.so cache"), (OWN, "runpath")]
)
def test_what_does_not_put_a_toolkit_ahead(at: str, via: str) -> None:
    build = torch("2.5.1", lookup("libnvJitLink.so.12", at, OWN, via=via))
    assert judged(machine(build, toolkits=(toolkit("12.1"),)), ID) == []


@pytest.mark.parametrize(
    ("version", "cuda", "expected"),
    [
        ("12.1", "12.4", [ERROR]),
        ("11.8", "12.4", []),
        (None, "12.4", [WARNING]),
        ("12.8", "12.4", []),
        ("12.1", None, []),
    ],
)
def test_toolkits_on_the_library_path_alone(
    version: str | None, cuda: str | None, expected: list[Any]
) -> None:
    told: dict[str, Any] = {
        "cuda_version": known(cuda) if cuda else HANGS,
        "cuda_build": known(True),
    }
    build = FrameworkBuild("torch", "torch", "2.5.1+composed", **told)
    facts = machine(
        build, toolkits=(toolkit(version, "/opt/c"),), roots_on_library_path=("/opt/c",)
    )
    assert judged(facts, ID) == expected


def test_system_builds_want_the_toolkit_ahead() -> None:
    facts = machine(
        tensorflow(), toolkits=(toolkit("11.8", "/opt/c"),), roots_on_library_path=("/opt/c",)
    )
    assert judged(facts, ID) == []


def test_cuda_home_to_nowhere() -> None:
    facts = machine(torch("2.5.1", lookup("libcudart.so.12", OWN)), cuda_home="/opt/nowhere")
    assert judged(facts, ID) == []
    nowhere = replace(facts.toolkits, cuda_home_root=NONE)
    assert judged(replace(facts, toolkits=nowhere), ID) == [WARNING]


def test_an_nvcc_and_a_version_file_of_one_folder() -> None:
    def told(nvcc: Any, file: Any) -> list[tuple[str, str, str]]:
        return judged(
            machine(
                toolkits=(toolkit("9.1", "/usr/local/cuda", nvcc_release=nvcc, version_file=file),)
            ),
            ID,
        )

    assert told("9.1", "9.0.176") == [WARNING]
    assert told("9.1", "9.1.85") == []
    assert told("9.1", NONE) == []
    assert told(HANGS, "9.0.176") == []


def test_two_toolkits_for_one_compilation() -> None:
    both = (toolkit("12.4", "/a"), toolkit("12.6", "/b"))
    home: dict[str, Any] = {"cuda_home": "/a", "cuda_home_root": "/a"}
    assert judged(machine(toolkits=both, **home, root_on_path="/b"), ID) == [WARNING]
    assert judged(machine(toolkits=both, **home, root_on_path="/a"), ID) == []
    assert judged(machine(toolkits=both, usr_local_cuda="/a", root_on_path="/b"), ID) == [NOTE]
    assert judged(machine(toolkits=both, root_on_path="/b"), ID) == []
    assert judged(machine(toolkits=both), ID) == [], "several toolkits are no fault"
    same = (toolkit("12.4", "/a"), toolkit("12.4", "/b"))
    assert judged(machine(toolkits=same, **home, root_on_path="/b"), ID) == []
    unread = (toolkit(None, "/a"), toolkit("12.4", "/b"))
    assert judged(machine(toolkits=unread, **home, root_on_path="/b"), ID) == []


def test_the_variable_is_named() -> None:
    facts = machine(
        toolkits=(toolkit("12.4", "/a"), toolkit("12.6", "/b")),
        cuda_home_root="/a",
        root_on_path="/b",
    )
    home = replace(
        facts.toolkits, cuda_home=replace(known("/a"), source=Source("env", "CUDA_PATH", "/a"))
    )
    assert findings(replace(facts, toolkits=home), ID)[0].message.startswith(
        "CUDA_PATH=/a is CUDA 12.4"
    )


def test_a_library_that_could_not_be_looked_up() -> None:
    build = tensorflow("2.11.0", replace(lookup("libcudart.so.11.0"), found=HANGS))
    assert [item.id for item in findings(machine(build), ID)] == ["probe-failed"]


def test_the_toolkit_that_the_build_is_for_is_meant() -> None:
    both = (toolkit("12.4", "/a"), toolkit("12.6", "/b"))
    home: dict[str, Any] = {"cuda_home": "/a", "cuda_home_root": "/a", "root_on_path": "/b"}

    def meant(*builds: FrameworkBuild, **paths: Any) -> dict[str, str]:
        cure = findings(machine(*builds, toolkits=both, **paths), ID)[0].cure
        return (
            {"root": cure.root, "setting": cure.instead_of}
            if isinstance(cure, BuildWithToolkit)
            else {}
        )

    assert meant(**home) == {"root": "/a", "setting": "/b"}, "CUDA_HOME is set on purpose"
    assert meant(usr_local_cuda="/a", root_on_path="/b") == {"root": "/b", "setting": "/a"}
    build = FrameworkBuild(
        "torch", "torch", "2.7.0+cu126", cuda_version=known("12.6"), cuda_build=known(True)
    )
    assert meant(build, **home) == {"root": "/b", "setting": "/a"}


def test_what_is_left_of_the_library_path_is_named() -> None:
    build = torch("2.5.1", lookup("libnvJitLink.so.12", OLD, OWN, via="LD_LIBRARY_PATH"))
    facts = machine(
        build,
        toolkits=(toolkit("12.1", "/usr/local/cuda-12.1"),),
        environment={"LD_LIBRARY_PATH": "/opt/own:/usr/local/cuda/lib64"},
        usr_local_cuda="/usr/local/cuda-12.1",
    )
    (finding,) = [item for item in findings(facts, ID) if item.severity == "error"]
    assert finding.fix is not None
    assert argv(finding.fix.actions[0]) == ("export", "LD_LIBRARY_PATH=/opt/own")
    assert argv(finding.fix.actions[1])[-1] == "/usr/local/cuda/lib64"
