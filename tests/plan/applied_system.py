"""What steps outside an environment do to facts: a stand-in for package managers, modprobe, nvidia-smi and shells."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from envcheck.matrix.query import Matrix
from envcheck.model import Facts, Gpu, ToolkitInstall
from tests.rules.factory_machine import NONE, driver, known, nodes

CURRENT = "580.65.06"  # what a distribution installs where nobody names a branch

_NOTHING = (
    r"apt-get update|modprobe -r .*|update-initramfs -u|dracut --force"
    r"|apt-get install -y ubuntu-drivers-common|sh -c for each in /etc/apt/sources.list .*"
)
_PACKAGES = (
    r"apt-get install -y (linux-headers|nvidia-)\S*|ubuntu-drivers install( \S+)*|dnf install -y .*nvidia.*"
    r"|dkms autoinstall( --force)?|mokutil --import .*|sh -c printf .*blacklist nouveau.*"
)


def effect(line: str) -> Callable[[Facts, Matrix, str], Facts] | None:
    """Find what a command does, given the facts, the matrix and what its step is for; None where nothing plays it."""
    return next((done for shape, done in _EFFECTS if re.fullmatch(shape, line, re.DOTALL)), None)


def _works(facts: Facts, matrix: Matrix, said: str) -> Facts:
    """Load the driver that was installed: what the fix names, else the one that is there, else the current one."""
    named = re.search(r"driver (\d{3}(?:\.\d+)*)", said)
    there = facts.driver.release.value or facts.driver.libcuda_version.value
    release = named[1] if named else there or CURRENT
    release = release if "." in release else f"{release}.82.07"
    branch = matrix.driver_branch(release)
    made = driver(
        release,
        branch.cuda if branch else "13.0",
        fabric_manager_version=facts.driver.fabric_manager_version,
    )
    made = replace(made, nvswitch_present=facts.driver.nvswitch_present)
    gpus = tuple(replace(gpu, kernel_driver=known("nvidia")) for gpu in facts.gpus.value or ())
    return replace(facts, driver=made, gpus=known(gpus) if gpus else facts.gpus)


def _as_it_is(facts: Facts, _matrix: Matrix, _said: str) -> Facts:
    return facts


def _opened(facts: Facts, _matrix: Matrix, _said: str) -> Facts:
    found = [
        replace(item, accessible=known(value=True))
        for item in facts.driver.device_nodes.value or ()
    ]
    named = {item.path for item in found}
    every = nodes("0", "ctl", "-uvm").value or ()
    more = [replace(item, accessible=known(value=True)) for item in every if item.path not in named]
    started = replace(
        facts.driver, uvm_loaded=known(value=True), cuda_init_result=known(0), nvml_result=known(0)
    )
    return replace(facts, driver=replace(started, device_nodes=known((*found, *more))))


def _fabric(facts: Facts, _matrix: Matrix, _said: str) -> Facts:
    told = replace(
        facts.driver, fabric_manager_running=known(value=True), cuda_init_result=known(0)
    )
    return replace(facts, driver=replace(told, fabric_manager_version=facts.driver.release))


def _visible(facts: Facts, _matrix: Matrix, _said: str) -> Facts:
    environment = dict(facts.host.environment.value or {})
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    return replace(facts, host=replace(facts.host, environment=known(environment)))


def _of_gpus(**told: Any) -> Callable[[Facts, Matrix, str], Facts]:
    def changed(facts: Facts, _matrix: Matrix, _said: str) -> Facts:
        gpus: tuple[Gpu, ...] = tuple(replace(gpu, **told) for gpu in facts.gpus.value or ())
        return replace(facts, gpus=known(gpus))

    return changed


def _nvcc(facts: Facts, _matrix: Matrix, said: str) -> Facts:
    found = re.search(r"cuda-nvcc-(\d+)-(\d+)", said)
    assert found
    version = f"{found[1]}.{found[2]}"
    root = f"/usr/local/cuda-{version}"
    paths = {
        "nvcc_path": known(f"{root}/bin/nvcc"),
        "ptxas_path": known(f"{root}/bin/ptxas"),
        "libdevice_path": known(f"{root}/nvvm/libdevice/libdevice.10.bc"),
    }
    made = ToolkitInstall(root, "usr-local", known(version), **paths)
    there = facts.toolkits.installs.value or ()
    kept = [item for item in there if item.root != root]
    return replace(facts, toolkits=replace(facts.toolkits, installs=known((made, *kept))))


def _first_on_path(facts: Facts, _matrix: Matrix, said: str) -> Facts:
    folder = said.rpartition("PATH=")[2].partition(":")[0]
    found = facts.toolkits.installs.value or ()
    path = next(item.ptxas_path for item in found if f"{item.root}/bin" == folder)
    return replace(facts, toolkits=replace(facts.toolkits, ptxas_on_path=path))


def _on_loader_path(facts: Facts, _matrix: Matrix, _said: str) -> Facts:
    """Let the loader find the driver's library where it lies."""
    at = facts.driver.libcuda_elsewhere.value or ()
    found = (
        replace(facts.driver, libcuda_path=known(at[0]), libcuda_elsewhere=NONE)
        if at
        else facts.driver
    )
    return replace(facts, driver=replace(found, cuda_init_result=known(0)))


_EFFECTS: tuple[tuple[str, Callable[[Facts, Matrix, str], Facts]], ...] = (
    (_NOTHING, _as_it_is),
    (r"apt-get install -y libnvidia-compute-\d+", _works),
    (r"sh -c echo \S+ > /etc/ld.so.conf.d/nvidia-driver.conf && ldconfig", _on_loader_path),
    (r"export PATH=/usr/local/cuda-[\d.]+/bin:\$PATH", _first_on_path),
    (r"apt-get install -y nvidia-fabricmanager-\d+", _as_it_is),
    (r"systemctl enable --now nvidia-fabricmanager", _fabric),
    (_PACKAGES, _as_it_is),  # takes effect when the module is loaded
    (r"reboot|modprobe nvidia", _works),
    (r"chmod a\+rw \S+|nvidia-modprobe -u -c=0|modprobe nvidia_uvm", _opened),
    (r"(unset CUDA_VISIBLE_DEVICES|set CUDA_VISIBLE_DEVICES=)", _visible),
    (r"nvidia-smi -i \d+ -c DEFAULT", _of_gpus(compute_mode=known("default"))),
    (r"nvidia-smi -i \d+ -mig 0", _of_gpus(mig_enabled=known(value=False), mig_devices=NONE)),
    (r"apt-get install -y cuda-nvcc-\d+-\d+", _nvcc),
)
