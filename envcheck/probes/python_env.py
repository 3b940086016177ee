"""Inspect a Python environment from outside: nothing installed in it is imported."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

from envcheck.host.protocol import Host
from envcheck.model.facts import Absent, Fact, Known, Source, Unknown
from envcheck.model.python_env import Distribution, FrameworkBuild, PythonFacts
from envcheck.model.records import replaced
from envcheck.probes.cuda_data import framework_names
from envcheck.probes.python_choice import Choice, PythonSelection, choose_python
from envcheck.probes.python_installed import Installed, duplicate_owners, read_installed

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
    told, source = choice.answer.value, choice.answer.source
    if "version" not in told or ("distributions" in told and not set(_PLAIN.values()) <= set(told)):
        return _silent(choice, Unknown("unparsable", "its answer describes no interpreter", (source.where,)))
    if "distributions" not in told:  # Python 2
        reason = Unknown("failed", f"Python {told['version']} is too old to be inspected", (source.where,))
        return replaced(_silent(choice, reason), version=Known(str(told["version"]), source))
    plain: Dict[str, Any] = {field: Known(told[key], source) for field, key in _PLAIN.items()}
    installed = {} if selection.alone else _installation(host, told, source)
    return PythonFacts(executable=choice.executable, chosen_by=choice.chosen_by, **plain, **installed)


def _silent(choice: Choice, reason: Fact[Any]) -> PythonFacts:
    names = (*_PLAIN, *_READ, "libstdcxx_path", "libstdcxx_glibcxx")
    unknown: Dict[str, Any] = dict.fromkeys(names, reason)
    return PythonFacts(executable=choice.executable, chosen_by=choice.chosen_by, **unknown)


def _installation(host: Host, told: Mapping[str, Any], source: Source) -> Dict[str, Any]:
    """Read what is installed for the interpreter."""
    from envcheck.probes.python_extensions import collect_extensions
    from envcheck.probes.python_kernels import collect_kernels
    from envcheck.probes.python_libstdcxx import collect_libstdcxx

    installed = read_installed(host, told)
    path, glibcxx = collect_libstdcxx(host, installed)
    return {
        "pip_version": _version_of(installed, "pip", source),
        "distributions": Known(installed.distributions, source),
        "duplicate_owners": duplicate_owners(installed, source),
        "frameworks": _frameworks(host, installed),
        "extensions": collect_extensions(host, installed, source),
        "libstdcxx_path": path,
        "libstdcxx_glibcxx": glibcxx,
        "kernels": collect_kernels(host, told["prefix"]),
    }


def _frameworks(host: Host, installed: Installed) -> Fact[Tuple[FrameworkBuild, ...]]:
    names = framework_names()
    if not any(each.name in names or each.name.startswith("jax-cuda") for each in installed.distributions):
        return Absent((f"distributions {', '.join(names)}, jax-cuda*",))
    from envcheck.probes.framework_list import collect_frameworks  # not loaded where there is nothing to read

    return Known(collect_frameworks(host, installed), Source("file", installed.prefix))


def _version_of(installed: Installed, name: str, source: Source) -> Fact[str]:
    found: Tuple[Distribution, ...] = installed.named((name,))
    return Known(found[0].version, source) if found else Absent((f"distribution {name}",))
