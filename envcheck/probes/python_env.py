"""Inspect a Python environment from outside: nothing installed in it is imported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.python_env import Distribution, FrameworkBuild, PythonFacts
from envcheck.probes.cuda_data import cuda_data
from envcheck.probes.framework_builds import Inspection
from envcheck.probes.framework_jax import collect_jax
from envcheck.probes.framework_tensorflow import collect_tensorflow
from envcheck.probes.framework_torch import collect_torch
from envcheck.probes.python_choice import Choice, PythonSelection, choose_python
from envcheck.probes.python_extensions import collect_extensions
from envcheck.probes.python_installed import Installed, duplicate_owners, read_installed
from envcheck.probes.python_kernels import collect_kernels
from envcheck.probes.python_libstdcxx import collect_libstdcxx
from envcheck.probes.python_shadow import shadowed_by

__all__ = ["PythonSelection", "collect_python"]

_PLAIN = {
    "version": "version",
    "implementation": "implementation",
    "bits": "bits",
    "architecture": "machine",
    "platform_tag": "platform",
    "abi_tag": "abi",
    "prefix": "prefix",
    "kind": "kind",
    "externally_managed": "externally_managed",
    "user_site_enabled": "user_site_enabled",
}
_READ = ("pip_version", "distributions", "duplicate_owners", "frameworks", "extensions", "kernels")


def collect_python(host: Host, selection: PythonSelection) -> PythonFacts:
    """Choose an interpreter, let it describe itself isolated, and read what its packages say."""
    choice = choose_python(host, selection)
    if not isinstance(choice.answer, Known):
        return _silent(choice, choice.answer)
    told = choice.answer.value
    if "distributions" not in told:
        version = str(told.get("version", "?"))
        reason = Unknown("failed", f"Python {version} is too old to be inspected", choice.answer.source.where and ())
        facts = _silent(choice, reason)
        return replace(facts, version=Known(version, choice.answer.source))
    return _facts(host, choice, told, choice.answer.source)


def _silent(choice: Choice, reason: Fact[Any]) -> PythonFacts:
    names = (*_PLAIN, *_READ, "libstdcxx_path", "libstdcxx_glibcxx")
    unknown: Dict[str, Any] = dict.fromkeys(names, reason)
    return PythonFacts(executable=choice.executable, chosen_by=choice.chosen_by, **unknown)


def _facts(host: Host, choice: Choice, told: Mapping[str, Any], source: Source) -> PythonFacts:
    installed = read_installed(host, told)
    path, glibcxx = collect_libstdcxx(host, installed)
    plain: Dict[str, Any] = {field: Known(told[key], source) for field, key in _PLAIN.items()}
    frameworks = tuple(_frameworks(host, installed))
    names = tuple(cuda_data()["shadowing_names"]) + ("jax-cuda*",)
    return PythonFacts(
        executable=choice.executable,
        chosen_by=choice.chosen_by,
        pip_version=_version_of(installed, "pip", source),
        distributions=Known(installed.distributions, source),
        duplicate_owners=duplicate_owners(installed, source),
        frameworks=Known(frameworks, source) if frameworks else Absent((f"distributions of {', '.join(names)}",)),
        extensions=collect_extensions(host, installed, source),
        libstdcxx_path=path,
        libstdcxx_glibcxx=glibcxx,
        kernels=collect_kernels(host, told["prefix"]),
        **plain,
    )


def _frameworks(host: Host, installed: Installed) -> Iterator[FrameworkBuild]:
    inspection = Inspection(host, installed)
    builds = [collect_tensorflow(inspection, each) for each in _one_each(installed, "tensorflow")]
    builds += [collect_torch(inspection, each) for each in _one_each(installed, "torch")]
    builds += collect_jax(inspection)
    for build in builds:
        module = "jaxlib" if build.distribution == "jaxlib" else build.framework
        yield replace(build, shadowed_by=shadowed_by(host, installed, module, build.location))


def _one_each(installed: Installed, framework: str) -> List[Distribution]:
    """Pick one distribution of a framework for each folder it lies in, in the order of import."""
    found: Dict[str, Distribution] = {}
    for name in cuda_data()[framework]["distributions"]:
        for each in installed.named((name,)):
            if framework in each.modules or not each.modules:
                found.setdefault(each.location, each)
    order = [folder.path for folder in installed.folders]
    return sorted(found.values(), key=lambda each: order.index(each.location) if each.location in order else len(order))


def _version_of(installed: Installed, name: str, source: Source) -> Fact[str]:
    found: Tuple[Distribution, ...] = installed.named((name,))
    return Known(found[0].version, source) if found else Absent((f"distribution {name}",))
