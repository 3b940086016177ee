"""Are the commands those of this system, and built from versions only?"""

from __future__ import annotations

import json
from dataclasses import replace

import fastjsonschema
import pytest

from envcheck.host.data_files import read_data
from envcheck.rules import Context, Target
from envcheck.rules.builds import installed_builds
from envcheck.rules.compiler_fixes import compiler_anywhere, install_compiler
from envcheck.rules.packages import install_somewhere, package_names, packages_data
from envcheck.rules.toolkit_fixes import install_cudnn, install_toolkit, is_plain_path, older_cudnn
from tests.rules.factory_machine import matrix
from tests.rules.factory_toolkit import NONE, known, machine, tensorflow, torch


def context(distribution: str, kind: str = "venv", version: str = "") -> Context:
    """Return a context on one Linux distribution."""
    facts = machine(tensorflow("2.11.0"), torch("1.12.0"), kind=kind)
    host = replace(facts.host, distribution_id=known(distribution), distribution_like=NONE)
    host = replace(host, distribution_version=known(version) if version else NONE)
    return Context(replace(facts, host=host), matrix(), Target())


@pytest.mark.parametrize(
    ("distribution", "argv"),
    [
        ("debian", ("sudo", "apt-get", "install", "-y", "cuda-libraries-11-2")),
        ("fedora", ("sudo", "dnf", "install", "-y", "cuda-libraries-11-2")),
        ("gentoo", None),
    ],
)
def test_the_package_manager_of_the_system(distribution: str, argv: tuple[str, ...] | None) -> None:
    here = context(distribution)
    commands = install_toolkit(here, installed_builds(here)[0], "11.2").commands
    assert [command.argv for command in commands] == ([argv] if argv else [])


@pytest.mark.parametrize(
    ("distribution", "version", "line", "path"),
    [
        ("debian", "12", "sudo apt-get install -y g++-11", "/usr/bin/g++-11"),
        ("ubuntu", "24.04", "sudo apt-get install -y g++-11", "/usr/bin/g++-11"),
        ("rocky", "8.10", "sudo dnf install -y gcc-toolset-11-gcc-c++", "/opt/rh/gcc-toolset-11/root/usr/bin/g++"),
        ("opensuse-leap", "15.6", "sudo zypper install -y gcc11-c++", "/usr/bin/g++-11"),
        ("debian", "99", "sudo apt-get install -y g++-11", "/usr/bin/g++-11"),
        ("debian", "11", "sudo apt-get install -y g++-10", "/usr/bin/g++-10"),
    ],
)
def test_a_compiler_beside_the_present_one(distribution: str, version: str, line: str, path: str) -> None:
    fix = install_compiler(context(distribution, version=version), 6, 11)
    assert [" ".join(command.argv) for command in fix.commands] == [line, f"export NVCC_PREPEND_FLAGS=-ccbin={path}"]
    assert [way.commands[0].argv[:2] for way in fix.alternatives] == [("conda", "create")]
    assert ("where this release has it" in fix.commands[0].purpose) == (version == "99")


@pytest.mark.parametrize(
    ("distribution", "version"), [("debian", "13"), ("rocky", "9.4"), ("arch", ""), ("nixos", "24")]
)
def test_a_distribution_without_that_compiler_leaves_it_to_conda(distribution: str, version: str) -> None:
    fix = install_compiler(context(distribution, version=version), 6, 11)
    assert fix.commands[0].argv == ("conda", "create", "-n", "gcc-11", "-c", "conda-forge", "gxx_linux-64=11")
    assert fix.commands[-1].argv[-1].startswith("NVCC_PREPEND_FLAGS=-ccbin=$CONDA_PREFIX/bin/")
    assert not any(command.scope == "system" for command in fix.commands)
    assert ("AUR" in fix.summary) == (distribution == "arch")


def test_a_conda_environment_gets_conda_packages() -> None:
    fix = install_compiler(context("debian", "conda"), 6, 11)
    assert fix.commands[0].argv[-1] == "gxx_linux-64=11"


def test_a_compiler_for_a_distribution_that_is_not_known_names_those_of_all() -> None:
    fix = compiler_anywhere(context("gentoo"), 11)
    assert fix.commands[0].argv[-1] == "g++-11"
    assert [way.summary for way in fix.alternatives[:2]] == ["On RHEL and Rocky:", "On SUSE:"]
    assert compiler_anywhere(context("debian", version="12"), 11).commands[0].argv[-1] == "g++-11"


def test_where_the_distribution_is_not_known_the_others_are_other_ways() -> None:
    commands, ways = install_somewhere(context("gentoo"), "compiler", "a C++ compiler")
    assert [command.argv[-1] for command in commands] == ["build-essential"]
    assert [way.summary.partition(" it is")[0] for way in ways] == ["On RHEL, Rocky and Fedora", "On SUSE", "On Arch"]
    assert install_somewhere(context("fedora"), "compiler", "a C++ compiler")[1] == ()


def test_values_that_are_no_numbers_enter_no_package_name() -> None:
    with pytest.raises(ValueError, match="reboot"):
        package_names("debian", "compiler-release", major="12;reboot")


def test_the_packages_fit_their_schema() -> None:
    fastjsonschema.compile(json.loads(read_data("packages.schema.json")))(packages_data())


@pytest.mark.parametrize(
    ("cuda", "specs"), [("11.2", ("cudatoolkit=11.2",)), ("12.4", ("cuda-version=12.4", "cuda-libraries"))]
)
def test_conda_has_other_packages_from_cuda_12_on(cuda: str, specs: tuple[str, ...]) -> None:
    here = context("debian", "conda")
    argv = install_toolkit(here, installed_builds(here)[0], cuda).commands[0].argv
    assert argv[-len(specs) :] == specs


def test_no_cudnn_is_named_where_none_is_known() -> None:
    here = context("debian")
    fix = install_cudnn(here, installed_builds(here)[1])
    assert "torch 1.12.0 was built with" in fix.summary
    assert fix.commands == ()


def test_going_back_to_a_cudnn_that_serves_the_gpu() -> None:
    wheels = {"nvidia-cudnn-cu12": "9.11.0.98"}
    here = Context(machine(torch("2.5.1"), distributions=wheels), matrix(), Target())
    build = installed_builds(here)[0]
    fix = older_cudnn(here, build, "9.11.0.98", "7.0")
    assert fix.commands[0].argv[-1] == "nvidia-cudnn-cu12==9.1.0.70"
    assert "cuDNN 9.10 is the last" in fix.summary
    other = Context(machine(tensorflow("2.18.0"), distributions=wheels), matrix(), Target())
    fix = older_cudnn(other, installed_builds(other)[0], "9.11.0.98", "7.0")
    assert fix.commands[0].argv[-1] == "nvidia-cudnn-cu12>=9.3,<9.11"
    assert older_cudnn(here, build, "9.11.0.98", "3.5").summary.startswith("No cuDNN that torch 2.5.1 accepts")
    bare = Context(machine(torch("1.12.0")), matrix(), Target())
    assert older_cudnn(bare, installed_builds(bare)[0], "9.11.0", "7.0").commands == ()


def test_a_bare_major_gets_the_newest_minor() -> None:
    here = context("debian")
    assert install_toolkit(here, installed_builds(here)[0], "11").commands[0].argv[-1] == "cuda-libraries-11-8"
    assert install_toolkit(here, installed_builds(here)[0], "99").commands[0].argv[-1] == "cuda-libraries-99"


def test_a_path_that_could_mean_something_to_a_shell_is_not_shown() -> None:
    assert is_plain_path("/usr/local/cuda-12.4/lib64")
    assert not is_plain_path("/opt/$(reboot)/lib")
    assert not is_plain_path("relative/lib")
