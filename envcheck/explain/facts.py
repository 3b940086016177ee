"""What a log states of machine and request, as the facts and target of rules."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeVar

from envcheck.explain.libraries import parse_library, providers
from envcheck.explain.log import (
    COMPILING,
    FRAMEWORKS,
    UNREACHED_INDEX,
    Log,
    find_capability,
    find_framework_of_package,
    normalize_capability,
)
from envcheck.explain.signatures import Event, signatures_by_name
from envcheck.host.data_files import load_data
from envcheck.model import (
    CudaWheels,
    Distribution,
    Fact,
    Facts,
    FrameworkBuild,
    Gpu,
    Known,
    LinkFault,
    RequestError,
    Source,
    ToolkitInstall,
    Unknown,
    canonical_name,
    from_file,
    major_minor,
    replace,
)
from envcheck.model.quoting import quote
from envcheck.model.versions import cuda_of_number, name_of, public_version
from envcheck.rules.context import Context, Target
from envcheck.rules.targets import check_requirements

R = TypeVar("R")
_NOT_SAID = Unknown("failed", "the log does not say")
_DISTRIBUTIONS = (
    "ubuntu",
    "debian",
    "fedora",
    "centos",
    "rocky",
    "almalinux",
    "arch",
    "manjaro",
    "opensuse",
    "linuxmint",
)
_HOSTS = tuple(item for item in FRAMEWORKS if item.cuda.hosts_extensions)  # say what they hold
_OPENER = next(item.name for item in FRAMEWORKS if item.logs.names_opened)
_CONDA_BUILD = r"py\d|cuda|cpu|gpu|mkl|\bh[0-9a-f]{6}"
_LISTS = (
    *(f"pip-list-{item.name}" for item in FRAMEWORKS),
    "pip-list-nvidia", "pip-list-helpers", "pip-list-extensions", "pip-installed",
)  # fmt: skip


@lru_cache(maxsize=2)
def build_context(log: Log, target: Target | None = None) -> Context:
    """Return the machine as the facts and the log state it; the rest stays unknown."""
    return Context(state_facts(log), log.matrix, build_target(log, target))


def state_facts(log: Log) -> Facts:
    """Return the given facts with all that the log states of the machine beside them."""
    stated, facts = _LogFacts(log), log.facts
    python = _fill(
        replace(facts.python, frameworks=stated.fill_builds(facts.python.frameworks)),
        version=stated.find_python(),
        kind=_known("conda" if log.values("conda") else ""),
        pip_version=stated.find("pip"),
        bits=_known(32 if log.has("python-32bit", "pip-debug-win32") else None),
        distributions=_known(stated.list_distributions()),
        link_faults=_known(stated.list_link_faults()),
    )
    driver = _fill(
        facts.driver,
        release=stated.find("driver"),
        cuda_driver_version=stated.find_offered_cuda(),
    )
    host = _fill(facts.host, **stated.describe_host())
    toolkits = _fill(facts.toolkits, **stated.describe_toolkits())
    compilers = _fill(facts.compilers, gcc_version=stated.find("gcc"))
    filled: Facts = replace(
        facts, python=python, driver=driver, host=host, toolkits=toolkits, compilers=compilers
    )
    return _fill(filled, gpus=_known(stated.list_gpus()))


def _fill(record: R, **stated: Fact[Any]) -> R:
    """Keep what the snapshot knows; take the log's word for what it could not tell."""
    open_names = [name for name in stated if isinstance(getattr(record, name), Unknown)]
    return replace(
        record, **{name: stated[name] for name in open_names if isinstance(stated[name], Known)}
    )


def _known(value: Any) -> Fact[Any]:
    return from_file(value, "log") if value else _NOT_SAID


def _source_of(event: Event) -> Source:
    """Name the line of a message; what it says is quoted."""
    return Source("file", event.place, quote(event.text))


class _LogFacts:
    """What messages captured, as facts with the line they stand in."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.builds = tuple({item.distribution: item for item in self._list_builds()}.values())

    def fill_builds(self, fact: Fact[tuple[FrameworkBuild, ...]]) -> Fact[Any]:
        """Add to the builds that are known what the log states of them."""
        if fact.value is None:
            is_stated = isinstance(fact, Unknown) and self.builds
            return _known(self.builds) if is_stated else fact
        stated = {item.distribution: item for item in self.builds}
        names = ("cuda_build", "cuda_version", "compute_capabilities")
        builds = []
        for build in fact.value:
            same = stated.get(build.distribution, build)
            builds.append(_fill(build, **{name: getattr(same, name) for name in names}))
        return replace(fact, value=tuple(builds))

    def find(self, capture: str) -> Fact[Any]:
        match = next(self._log.find_captures(capture), None)
        if match is None:
            return _NOT_SAID
        event, value = match
        return Known(value, _source_of(event))

    def find_python(self) -> Fact[str]:
        """Return the release of Python that the log states, else the minor that paths show."""
        fact = self.find("python")
        return fact if isinstance(fact, Known) else _known(self._log.python)

    def find_offered_cuda(self) -> Fact[str]:
        """Return the newest CUDA that the driver offers.

        11.4, or 11040 as CUDA itself writes it.
        """
        fact, number = self.find("driver_cuda"), self.find("cuda_api")
        if (
            isinstance(fact, Unknown)
            and isinstance(number, Known)
            and re.fullmatch(r"\d{4,5}", number.value)
        ):
            return replace(number, value=cuda_of_number(int(number.value)))
        return fact

    def describe_host(self) -> dict[str, Fact[Any]]:
        """Describe the system, and the variables that the log shows."""
        log, named = self._log, self._log.first_value("os", "os2").lower()
        distribution = next((name for name in _DISTRIBUTIONS if name in named), "")
        version = None
        if distribution:
            version = re.search(r"\b\d{1,2}(?:\.\d{2})?\b", named)
        variables = {**log.environment}
        if log.library_path:
            variables.setdefault("LD_LIBRARY_PATH", log.library_path)
        for visible in log.values("visible")[:1]:
            variables.setdefault("CUDA_VISIBLE_DEVICES", visible)
        return {
            "os": _known(log.system),
            "libc_version": self.find("glibc"),
            "libc_kind": _known("musl" if log.values("musl") else ""),
            "container": _known(log.container),
            "wsl_version": _known(2 if log.in_wsl else None),
            "distribution_id": _known(distribution),
            "distribution_version": _known(version.group() if version else ""),
            "architecture": _known(log.architecture),
            "jetson_release": self.find("jetson"),
            "environment": _known(variables),
        }

    def describe_toolkits(self) -> dict[str, Fact[Any]]:
        """List the log's toolkits, each with its usual folder where the log names that."""
        usual = "/usr/local/cuda-"
        texts = " ".join((self._log.library_path, *(event.text for event in self._log.events)))
        named = re.findall(rf"{usual}(\d+\.\d+)", texts)
        on_path = re.findall(rf"{usual}(\d+\.\d+)", self._log.library_path)
        roots = {line: usual + line if line in named else line for line in self._log.cudas}
        installs = tuple(
            ToolkitInstall(root, "usr-local" if line in named else "", version=_known(line))
            for line, root in roots.items()
        )
        nvcc = major_minor(self._log.first_value("nvcc"))
        return {
            "installs": _known(installs),
            "roots_on_library_path": _known(
                tuple(roots[line] for line in roots if line in on_path)
            ),
            "root_on_path": _known(roots.get(nvcc)),
        }

    def _list_builds(self) -> list[FrameworkBuild]:
        found = []
        for name, version in self._log.packages.items():
            identity = find_framework_of_package(name)
            framework = identity.name if identity else self._log.matrix.framework_of(name)
            distribution = name
            if identity and name not in identity.distributions:
                distribution = identity.plans.gpu_distributions[0]
            if not framework or not re.fullmatch(r"\d+(\.\d+)+[\w.+]*", version):
                continue
            if self._log.image and (name, version) == self._log.image[:2]:
                found.append(self._build_from_image(framework, *self._log.image))
            else:
                found.append(self._build_from_words(framework, distribution, version))
        named = {item.framework for item in found}
        shown = {item.name: (item.main, "targets", f"{item.name}_cuda") for item in _HOSTS}
        shown[_OPENER] = (_OPENER, "opened", "opened")
        for name, (distribution, *captures) in shown.items():
            if name not in named and self._log.values(*captures):
                found.append(self._build_from_words(name, distribution, ""))
        return found

    def _find_loaded_cuda(self) -> Fact[str]:
        """Return the CUDA of the first library that the program opened.

        Else the only one that is installed, where the program reached the GPU.
        """
        for event, name in self._log.find_captures("opened"):
            lines = providers(self._log.matrix, parse_library(name))
            if lines:
                return Known(lines[0], _source_of(event))
        cudas = self._log.cudas if self._log.computes_on_gpu else ()
        return _known(cudas[0] if len(cudas) == 1 else "")

    def _build_from_words(self, framework: str, name: str, version: str) -> FrameworkBuild:
        """Make the build that messages describe: the CUDA of it, and the GPUs it has code for."""
        is_host = any(item.name == framework for item in _HOSTS)
        code = self.find("targets") if is_host else _NOT_SAID
        if code.value is not None:
            code = replace(code, value=tuple(re.findall(r"sm_\w+", code.value)))
        cuda = self.find(f"{framework}_cuda")
        if cuda.value is None and framework == _OPENER:
            cuda = self._find_loaded_cuda()
        return FrameworkBuild(
            framework,
            name,
            version,
            cuda_build=_known(cuda.value is not None or code.value is not None),
            cuda_version=cuda,
            compute_capabilities=code,
        )

    def _build_from_image(
        self, framework: str, name: str, version: str, cuda: str
    ) -> FrameworkBuild:
        """Make the build that the name of the container's image tells."""
        event = self._log.select("container-image")[0]
        source = _source_of(event)
        cuda_version: Fact[str] = Known(cuda, source) if cuda and cuda != "cpu" else _NOT_SAID
        cuda_build = Known(value=cuda != "cpu", source=source)
        return FrameworkBuild(
            framework, name, version, cuda_build=cuda_build, cuda_version=cuda_version
        )

    def list_distributions(self) -> tuple[Distribution, ...]:
        """List what the log lists; a framework with the CUDA wheels that its own import misses."""
        rows = self._log.select(*_LISTS)
        missing = {fault.distribution: self._find_pins(fault) for fault in self.list_link_faults()}
        found = {}
        for row in (event.values for event in rows):
            is_conda = re.search(_CONDA_BUILD, row.get("conda_build", ""))
            name = canonical_name(row["package"])
            installer = "conda" if is_conda else ""
            requires = missing.get(name, ())
            found[name] = Distribution(name, row["version"], installer=installer, requires=requires)
        return tuple(found.values())

    def list_link_faults(self) -> tuple[LinkFault, ...]:
        """List the libraries of NVIDIA's wheels that the import of a framework misses."""
        wheels = load_data("nvidia/cuda_wheels", CudaWheels)
        faults = []
        for event in (
            self._log.select("import-cannot-open") if self._log.has("torch-imported") else ()
        ):
            library = event.values.get("library", "")
            wheel = wheels.wheel_of(library)
            for build in self.builds if wheel else ():
                name = build.distribution
                fault = LinkFault(
                    name, "missing-library", name, library, wheel=wheel, stops="import"
                )
                if self._find_pins(fault):
                    faults += [fault]
        return tuple(faults)

    def _find_pins(self, fault: LinkFault) -> tuple[str, ...]:
        """Return the wheel, without extras, that a release requires of a missing library."""
        build = next(item for item in self.builds if item.distribution == fault.distribution)
        version, name = public_version(build.version), build.distribution
        row = self._log.matrix.release(build.framework, version, "linux_x86_64", name)
        wheels = row.cuda_wheels if row and not row.gpu_extra else ()
        return tuple(item for item in wheels if name_of(item).startswith(f"{fault.wheel}-cu"))

    def list_gpus(self) -> tuple[Gpu, ...]:
        """List the GPUs whose compute capability the log states, or their names tell."""
        found = []
        for event, name in self._log.find_captures("gpu"):
            source = _source_of(event)
            value = event.values.get("cc") or event.values.get("sm")
            capability = normalize_capability(value) if value else find_capability(name)
            if capability:
                found.append(
                    Gpu(name=Known(name, source), compute_capability=Known(capability, source))
                )
        for event, capability in self._log.find_captures("cc") if not found else ():
            if "cc" in signatures_by_name()[event.signature].proves:
                known = Known(normalize_capability(capability), _source_of(event))
                found.append(Gpu(compute_capability=known))
        return tuple(found[:16])


MISSING_RELEASES = ("pip-from-versions", "pip-no-distribution")
_BUILDS = ("build-command-failed", "ninja-failed", "nvcc-failed")


def build_target(log: Log, target: Target | None) -> Target:
    """Add to what was `target` what the log tells of it.

    What pip finds nothing for, and that CUDA code is built.
    """
    given = target or Target()
    requirements = tuple(dict.fromkeys((*given.requirements, *_list_missing_requirements(log))))
    return Target(given.expect, requirements, given.compiles or log.has(*COMPILING, *_BUILDS))


def _list_missing_requirements(log: Log) -> tuple[str, ...]:
    """List the requirements that pip found nothing for, as far as the rules can judge them."""
    if log.has(*UNREACHED_INDEX):
        return ()
    requirements = (
        event.values["requirement"].rstrip(".,:;") for event in log.select(*MISSING_RELEASES)
    )
    return tuple(text for text in dict.fromkeys(requirements) if _can_judge(log, text))


def _can_judge(log: Log, text: str) -> bool:
    try:
        check_requirements((text,), log.matrix)
    except RequestError:
        return False
    return True
