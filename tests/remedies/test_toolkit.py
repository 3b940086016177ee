"""Are the commands those of this system, and built from versions only?"""

from __future__ import annotations

import json
from dataclasses import replace

import fastjsonschema
import pytest

from envcheck.actions import InstallSystemPackages
from envcheck.host.data_files import read_data
from envcheck.model import Facts, Fix, FrameworkBuild, LibraryLookup, PythonFacts, Remedy
from envcheck.model.fixes import (
    BuildWithToolkit,
    ChangeVariable,
    ChooseFramework,
    InstallCudnn,
    InstallOlderCudnn,
    InstallToolkit,
    RemoveFromLibraryPath,
)
from envcheck.remedies import write_fix
from envcheck.remedies.situation import Situation, list_activated_folders
from envcheck.remedies.system import install_anywhere, install_compiler, list_package_names
from envcheck.remedies.toolkit import is_plain_path
from envcheck.rules import Context, Target
from tests.rules.factory_machine import UNREAD, matrix
from tests.rules.factory_toolkit import NONE, known, machine, tensorflow, torch
from tests.typed import argv, argvs


def on(distribution: str, kind: str = "venv", version: str = "") -> Situation:
    """Return a machine with one Linux distribution; "" one that is not known."""
    facts = machine(tensorflow("2.11.0"), torch("1.12.0"), kind=kind)
    host = replace(
        facts.host,
        distribution_id=known(distribution) if distribution else UNREAD,
        distribution_like=NONE,
    )
    host = replace(host, distribution_version=known(version) if version else NONE)
    return of(replace(facts, host=host))


def of(facts: Facts) -> Situation:
    return Situation(Context(facts, matrix(), Target()))


def written(fix: Fix, situation: Situation) -> Remedy:
    found = write_fix(fix, situation)
    assert found is not None
    return found


def toolkit(situation: Situation, cuda: str) -> list[tuple[str, ...]]:
    return argvs(written(InstallToolkit(cuda, "tensorflow"), situation).actions)


@pytest.mark.parametrize(
    ("distribution", "line"),
    [
        ("debian", ("sudo", "apt-get", "install", "-y", "cuda-libraries-11-2")),
        ("fedora", ("sudo", "dnf", "install", "-y", "cuda-libraries-11-2")),
        ("gentoo", ("export", "LD_LIBRARY_PATH=/usr/local/cuda-11.2/lib64:$LD_LIBRARY_PATH")),
    ],
)
def test_the_package_manager_of_the_system(distribution: str, line: tuple[str, ...]) -> None:
    assert toolkit(on(distribution), "11.2")[0] == line


@pytest.mark.parametrize(
    ("distribution", "version", "line", "path"),
    [
        ("debian", "12", "sudo apt-get install -y g++-11", "/usr/bin/g++-11"),
        ("ubuntu", "24.04", "sudo apt-get install -y g++-11", "/usr/bin/g++-11"),
        (
            "rocky",
            "8.10",
            "sudo dnf install -y gcc-toolset-11-gcc-c++",
            "/opt/rh/gcc-toolset-11/root/usr/bin/g++",
        ),
        ("opensuse-leap", "15.6", "sudo zypper install -y gcc11-c++", "/usr/bin/g++-11"),
        ("debian", "99", "sudo apt-get install -y g++-11", "/usr/bin/g++-11"),
        ("debian", "11", "sudo apt-get install -y g++-10", "/usr/bin/g++-10"),
    ],
)
def test_a_compiler_beside_the_present_one(
    distribution: str, version: str, line: str, path: str
) -> None:
    found = install_compiler(on(distribution, version=version), 6, 11)
    assert [" ".join(words) for words in argvs(found.actions)] == [
        line,
        f"export NVCC_PREPEND_FLAGS=-ccbin={path}",
    ]
    assert [argv(way.actions[0])[:2] for way in found.alternatives] == [("conda", "create")]
    assert ("if this release has it" in found.actions[0].purpose) == (version == "99")


@pytest.mark.parametrize(
    ("distribution", "version"), [("debian", "13"), ("rocky", "9.4"), ("arch", ""), ("nixos", "24")]
)
def test_a_distribution_without_that_compiler_leaves_it_to_conda(
    distribution: str, version: str
) -> None:
    found = install_compiler(on(distribution, version=version), 6, 11)
    assert argv(found.actions[0]) == (
        "conda",
        "create",
        "-n",
        "gcc-11",
        "-c",
        "conda-forge",
        "gxx_linux-64=11",
    )
    assert argv(found.actions[-1])[-1].startswith("NVCC_PREPEND_FLAGS=-ccbin=$CONDA_PREFIX/bin/")
    assert not any(action.scope == "system" for action in found.actions)
    assert ("AUR" in found.summary) == (distribution == "arch")


def test_a_conda_environment_gets_conda_packages() -> None:
    found = install_compiler(on("debian", "conda"), 6, 11)
    assert argv(found.actions[0])[-1] == "gxx_linux-64=11"


def test_a_compiler_for_a_distribution_that_is_not_known_names_those_of_all() -> None:
    found = install_compiler(on(""), 11, 11)
    assert argv(found.actions[0])[-1] == "g++-11"
    assert [way.summary for way in found.alternatives[:2]] == ["On RHEL and Rocky:", "On SUSE:"]
    assert argv(install_compiler(on("debian", version="12"), 11, 11).actions[0])[-1] == "g++-11"


def test_where_the_distribution_is_not_known_the_others_are_other_ways() -> None:
    actions, ways = install_anywhere(on(""), "compiler", "a C++ compiler")
    assert [words[-1] for words in argvs(actions)] == ["build-essential"]
    assert [way.summary.rstrip(":") for way in ways] == [
        "On RHEL, Rocky and Fedora",
        "On SUSE",
        "On Arch",
    ]
    assert install_anywhere(on("fedora"), "compiler", "a C++ compiler")[1] == ()
    assert install_anywhere(on("gentoo"), "compiler", "a C++ compiler") == ((), ()), (
        "it has no package of these names"
    )


def test_values_that_are_no_numbers_enter_no_package_name() -> None:
    with pytest.raises(ValueError, match="reboot"):
        list_package_names("debian", "compiler-release", major="12;reboot")


def test_the_packages_fit_their_schema() -> None:
    fastjsonschema.compile(json.loads(read_data("advice/system_packages.schema.json")))(
        json.loads(read_data("advice/system_packages.json"))
    )


@pytest.mark.parametrize(
    ("cuda", "specs"),
    [("11.2", ("cudatoolkit=11.2",)), ("12.4", ("cuda-version=12.4", "cuda-libraries"))],
)
def test_conda_has_other_packages_from_cuda_12_on(cuda: str, specs: tuple[str, ...]) -> None:
    assert toolkit(on("debian", "conda"), cuda)[0][-len(specs) :] == specs


def test_no_cudnn_is_named_where_none_is_known() -> None:
    found = written(InstallCudnn("torch"), on("debian"))
    assert "torch 1.12.0 was built with" in found.summary
    assert found.actions == ()


def test_going_back_to_a_cudnn_that_serves_the_gpu() -> None:
    def older(facts: Facts, capability: str = "7.0") -> Remedy:
        framework = next(iter(known_builds(facts)))
        return written(InstallOlderCudnn(framework, framework, "9.11.0.98", capability), of(facts))

    wheels = {"nvidia-cudnn-cu12": "9.11.0.98"}
    pinned = older(machine(torch("2.5.1"), distributions=wheels))
    assert argv(pinned.actions[0])[-1] == "nvidia-cudnn-cu12==9.1.0.70"
    assert "cuDNN 9.10 is the last" in pinned.summary
    free = older(machine(tensorflow("2.18.0"), distributions=wheels))
    assert argv(free.actions[0])[-1] == "nvidia-cudnn-cu12>=9.3,<9.11"
    none = older(machine(torch("2.5.1"), distributions=wheels), "3.5")
    assert none.summary.startswith("No cuDNN that torch 2.5.1 accepts")
    assert older(machine(torch("1.12.0"))).actions == ()


def known_builds(facts: Facts) -> list[str]:
    """Name the frameworks that are installed."""
    found = facts.python.frameworks
    return [item.framework for item in getattr(found, "value", ())]


def test_a_bare_major_gets_the_newest_minor() -> None:
    assert toolkit(on("debian"), "11")[0][-1] == "cuda-libraries-11-8"


def test_a_path_that_could_mean_something_to_a_shell_is_not_shown() -> None:
    assert is_plain_path("/usr/local/cuda-12.4/lib64")
    assert not is_plain_path("/opt/$(reboot)/lib")
    assert not is_plain_path("relative/lib")


@pytest.mark.parametrize(
    ("fix", "setting", "line"),
    [
        (
            BuildWithToolkit("/usr/local/cuda-12.4", "/usr/local/cuda-12.1"),
            "/usr/local/cuda-12.1",
            "export CUDA_HOME=/usr/local/cuda-12.4 PATH=",
        ),
        (ChangeVariable("CUDA_HOME"), "CUDA_HOME", "unset CUDA_HOME"),
    ],
)
def test_paths_of_two_toolkits_are_set_and_the_line_that_sets_them_is_shown(
    fix: Fix, setting: str, line: str
) -> None:
    sets, search = argvs(written(fix, on("ubuntu")).actions)
    assert " ".join(sets).startswith(line)
    assert "~/.bashrc" in search[2]
    assert search[-1] == setting


@pytest.mark.parametrize(
    ("own", "line"),
    [("/opt/own/lib", "export LD_LIBRARY_PATH=/opt/own/lib"), ("", "unset LD_LIBRARY_PATH")],
)
def test_the_folders_of_a_toolkit_are_left_out_of_the_library_path(own: str, line: str) -> None:
    unwanted = ("/usr/local/cuda-12.1/lib64", "/usr/local/cuda-12.1/extras/CUPTI/lib64")
    path = ":".join(filter(None, (unwanted[0], own, unwanted[1])))
    facts = machine(torch("2.5.1"))
    facts = replace(facts, host=replace(facts.host, environment=known({"LD_LIBRARY_PATH": path})))
    sets, search = argvs(written(RemoveFromLibraryPath(unwanted), of(facts)).actions)
    assert " ".join(sets) == line
    assert "~/.bashrc" in search[2]
    assert search[-1] == unwanted[0]


def test_a_path_that_cannot_stand_in_a_command_gives_none() -> None:
    found = written(BuildWithToolkit("/usr/local/cuda 12", "/usr/local/cuda-12.1"), on("ubuntu"))
    assert found.actions == ()


@pytest.mark.parametrize(("kind", "folder"), [("venv", ("--env", "/srv/venv")), ("system", ())])
def test_nothing_installed_names_the_command_that_installs(
    kind: str, folder: tuple[str, ...]
) -> None:
    facts = machine(kind=kind)
    facts = replace(facts, python=replace(facts.python, prefix=known("/srv/venv")))
    found = write_fix(ChooseFramework(), of(facts))
    assert found is not None
    assert argvs(found.actions) == [("envcheck", "install", "torch", *folder)]


@pytest.mark.parametrize(
    ("what", "values", "command"),
    [
        ("container-toolkit", {}, ("nvidia-ctk", "--version")),
        ("cuda-nvcc", {"cuda": "12-6"}, ("/usr/local/cuda-12.6/bin/nvcc", "--version")),
        ("cuda-toolkit", {"cuda": "12-6"}, ("/usr/local/cuda-12.6/bin/nvcc", "--version")),
        ("compiler-release", {"major": "12"}, ("g++-12", "--version")),
        ("cuda-libraries", {"cuda": "12-6"}, ()),
    ],
)
def test_what_a_package_brings_is_asked_for_its_version(
    what: str, values: dict[str, str], command: tuple[str, ...]
) -> None:
    (step,), others = install_anywhere(on("ubuntu"), what, "", **values)
    assert isinstance(step, InstallSystemPackages)
    assert step.provides == command
    assert others == ()


def test_folders_that_the_activation_sets_are_those_of_what_it_finds() -> None:
    found = "/opt/env/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9"
    built = FrameworkBuild(
        "torch",
        "torch",
        "2.7.1",
        libraries=known(
            (
                LibraryLookup("libcudnn.so.9", "torch", found=known(found), via="activation"),
                LibraryLookup("libcublas.so.12", "torch", found=known("/usr/lib/x"), via="runpath"),
                LibraryLookup("libnccl.so.2", "torch", found=NONE, via="activation"),
            )
        ),
    )
    facts = Facts(python=PythonFacts(frameworks=known((built,))))
    folders = list_activated_folders(Context(facts, matrix()))
    assert folders == ("/opt/env/lib/python3.11/site-packages/nvidia/cudnn/lib",)
