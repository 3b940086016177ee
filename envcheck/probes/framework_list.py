"""Read every framework build that an interpreter has."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Fact
from envcheck.model.python_env import Distribution, FrameworkBuild
from envcheck.probes.cuda_data import cuda_data
from envcheck.probes.framework_builds import Inspection
from envcheck.probes.framework_jax import collect_jax
from envcheck.probes.framework_tensorflow import collect_tensorflow
from envcheck.probes.framework_torch import collect_torch
from envcheck.probes.python_installed import Installed
from envcheck.probes.python_shadow import shadowed_by


def collect_frameworks(host: Host, installed: Installed) -> Tuple[FrameworkBuild, ...]:
    """Read the builds of TensorFlow, PyTorch and JAX; of several copies of one, the imported one comes first."""
    inspection = Inspection(host, installed)
    builds = [collect_tensorflow(inspection, each) for each in _one_each(installed, "tensorflow")]
    builds += [collect_torch(inspection, each) for each in _one_each(installed, "torch")]
    builds += collect_jax(inspection)
    return tuple(replace(each, shadowed_by=_shadow(host, installed, each)) for each in builds)


def _shadow(host: Host, installed: Installed, build: FrameworkBuild) -> Fact[str]:
    module = "jaxlib" if build.distribution == "jaxlib" else build.framework
    return shadowed_by(host, installed, module, build.location)


def _one_each(installed: Installed, framework: str) -> List[Distribution]:
    """Pick one distribution of a framework for each folder it lies in, in the order of import."""
    found: Dict[str, Distribution] = {}
    for name in cuda_data()[framework]["distributions"]:
        for each in installed.named((name,)):
            if framework in each.modules or not each.modules:
                found.setdefault(each.location, each)
    order = [folder.path for folder in installed.folders]
    return sorted(found.values(), key=lambda each: order.index(each.location) if each.location in order else len(order))
