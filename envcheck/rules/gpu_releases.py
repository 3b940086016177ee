"""GPUs, the code and CUDA releases that serve them, and what known problems keep from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from envcheck.frameworks import framework as known_framework
from envcheck.frameworks import framework_names, identity
from envcheck.host.data_files import load_data
from envcheck.matrix.companions import companion_row, shares_cuda
from envcheck.matrix.documented_gpus import documented_gpus
from envcheck.matrix.gpus import find_gpu_by_name, find_gpu_by_pci_id
from envcheck.matrix.package_index import is_proposed, is_served
from envcheck.model import (
    ERROR,
    NOTE,
    USE,
    WARNING,
    Absent,
    Advise,
    Architecture,
    Finding,
    Fix,
    FrameworkRelease,
    Gpu,
    GpuProduct,
    KnownProblem,
    OtherGpu,
    OtherGpuVendors,
    OtherVendor,
    Toolkit,
    Unknown,
    at_least,
    at_least_minor,
    dataclass,
    major,
    major_minor,
    numbers,
    replace,
)
from envcheck.model.fixes import InstallRequirements
from envcheck.model.versions import matches, name_of, write_pin
from envcheck.rules.builds import Build, is_conda_build, supports_python
from envcheck.rules.context import Context, UndecidedError, cite, once
from envcheck.rules.targets import judged_builds, judged_frameworks


def problem_findings(
    context: Context,
    finding_id: str,
    concerns: Callable[[Build], bool] = lambda _: True,
    *,
    of_extras: bool = False,
    stages: Collection[str] = ("install", "run", "advice"),
) -> Iterator[Finding]:
    """Yield the known problems of the judged builds, of one finding id.

    `of_extras`: of builds with extras. `stages`: of what a problem stops.
    """
    for framework in judged_frameworks(context):
        for build in filter(concerns, framework.builds):
            for problem in _list_problems(context, build):
                is_meant = (
                    problem.finding == finding_id
                    and problem.stage in stages
                    and (not of_extras or problem.requires_extra)
                )
                if is_meant and _applies(context, problem, build, framework.extras):
                    yield _report_problem(context, problem, build, framework.extras)


def empty_wheels(context: Context) -> Iterator[Finding]:
    """Yield the distributions that bring no framework here, such as placeholders."""
    for name, item in context.distributions.items():
        if not context.matrix.framework_of(name) or item.scope == "conda":
            continue
        for problem in _listed_problems(context, name, item.version, ("run", "advice")):
            if (
                problem.finding == "framework-missing"
                and problem.absent not in context.distributions
                and fits_machine(context, problem)
            ):
                requirements = tuple(problem.fix.split()) or (item.pin,)
                yield context.report(
                    f"{item.label}: {problem.what}",
                    ("python.distributions", item.label),
                    cite(f"problems {problem.id}", problem.what, problem),
                    finding_id=problem.finding,
                    severity=problem.severity,
                    cure=InstallRequirements(requirements, problem.remedy),
                )


def constraints_on(
    context: Context, distribution: str, version: str, names: Iterable[str]
) -> tuple[str, ...]:
    """List what keeps pip from the newest of these names, where it does not work."""
    required_names = frozenset(names)
    texts = [
        text
        for problem in context.matrix.problems(distribution, version, "run")
        if problem.severity != NOTE
        and name_of(problem.condition) in required_names
        and fits_machine(context, problem)
        for text in problem.fix.split()
        if name_of(text) in required_names
    ]
    return tuple(dict.fromkeys(texts))


def blocks_gpu(context: Context, row: FrameworkRelease) -> bool:
    """Return whether a release cannot be installed, or does not find the GPU, here."""
    return any(
        problem.severity == ERROR and not problem.condition and fits_machine(context, problem)
        for problem in _listed_problems(context, row.distribution, row.version, ("run", "install"))
    )


def _list_problems(context: Context, build: Build) -> tuple[KnownProblem, ...]:
    if not build.version:  # of an image: which releases it has trouble with, nobody knows
        return ()
    return _listed_problems(
        context,
        build.distribution,
        build.version,
        ("run", "advice") if build.installed else ("install", "run"),
    )


@once
def _listed_problems(
    context: Context, distribution: str, version: str, stages: tuple[str, ...]
) -> tuple[KnownProblem, ...]:
    tables = (context.matrix.problems(distribution, version, stage) for stage in stages)
    return tuple(problem for table in tables for problem in table)


def _applies(
    context: Context, problem: KnownProblem, build: Build, extras: tuple[str, ...]
) -> bool:
    if not fits_machine(context, problem) or (build.installed and is_conda_build(context, build)):
        return False
    if not build.installed:
        # What pip would install is not there yet: only what the metadata admits is known.
        is_satisfied = name_of(
            problem.condition
        ) in context.distributions and not _is_condition_met(context, problem.condition)
        return not is_satisfied and (
            problem.stage == "run" or problem.requires_extra in (None, *extras)
        )
    return (
        (not problem.requires_extra or has_cuda_wheels(context, build))
        and (not problem.absent or problem.absent not in context.distributions)
        and (not problem.condition or _is_condition_met(context, problem.condition))
    )


def fits_machine(context: Context, problem: KnownProblem) -> bool:
    """Return whether platform, Python and GPUs are those of a problem."""
    python, gpus = context.python.version.value, context.gpus
    if problem.platforms and context.platform not in problem.platforms:
        return False
    if problem.pythons and not (python and matches(python, problem.pythons)):
        return False
    capabilities = [gpu.compute_capability.value for gpu in gpus if gpu.compute_capability.value]
    return not problem.compute_capabilities or any(
        matches(item, problem.compute_capabilities) for item in capabilities
    )


def has_cuda_wheels(context: Context, build: Build) -> bool:
    """Return whether any of the CUDA wheels that a release asks for is installed."""
    wheels = build.release.cuda_wheels if build.release else ()
    return any(name_of(wheel) in context.distributions for wheel in wheels)


def _is_condition_met(context: Context, condition: str) -> bool:
    """Return whether an installed distribution meets a condition such as numpy>=2."""
    name = name_of(condition)
    distribution = context.distributions.get(name)
    return distribution is not None and matches(distribution.version, condition[len(name) :])


def _report_problem(
    context: Context, problem: KnownProblem, build: Build, extras: tuple[str, ...]
) -> Finding:
    condition = ""
    if problem.condition and build.installed:
        name = name_of(problem.condition)
        condition = f" Installed: {name} {context.distributions[name].version}."
    severity = _choose_severity(problem, build, extras)
    cure = _build_cure(problem, build, extras)
    if build.installed and severity == NOTE:
        cure = None  # what works needs no mending: TensorBoard comes back where it is used
    return context.report(
        f"{build.label}: {problem.what}{condition}",
        ("python.frameworks" if build.installed else "python.version", build.label),
        cite(f"problems {problem.id}", problem.what, problem),
        finding_id=problem.finding,
        severity=severity,
        cure=cure,
        # what only warns is about something else than the import: TensorBoard's command
        stops=USE if severity == WARNING else "",
    )


def _choose_severity(problem: KnownProblem, build: Build, extras: tuple[str, ...]) -> str:
    certain = not problem.condition and problem.requires_extra in (None, *extras)
    if build.installed or certain:
        return problem.severity
    return WARNING if problem.severity == ERROR else NOTE


def _build_cure(problem: KnownProblem, build: Build, extras: tuple[str, ...]) -> Fix | None:
    constraints = [_with_extra(item, problem, build) for item in problem.fix.split()]
    if not constraints:
        return Advise(problem.remedy) if problem.remedy else None
    if not build.installed and constraints and not constraints[0].startswith(build.distribution):
        constraints.insert(0, write_pin(build.distribution, build.version, extras))
    return InstallRequirements(tuple(constraints), problem.remedy)


def _with_extra(constraint: str, problem: KnownProblem, build: Build) -> str:
    """Keep the extra of a requirement: tensorflow<2.21 -> tensorflow[and-cuda]<2.21."""
    name = name_of(constraint)
    bare = (
        name == build.distribution
        and problem.requires_extra
        and not constraint.startswith(name + "[")
    )
    if bare:
        return f"{name}[{problem.requires_extra}]{constraint[len(name) :]}"
    return constraint


@once
def gpu_rows(context: Context, framework: str) -> tuple[FrameworkRelease, ...]:
    """List a framework's CUDA releases for this platform, newest first."""
    rows = context.matrix.releases(framework, context.platform)
    return tuple(row for row in rows if row.cuda_build and not row.yanked)


def has_gpu_build(context: Context, build: Build) -> bool:
    """Return whether this release exists as a CUDA build for this platform."""
    framework, version = build.framework, build.version
    if _has_cuda_build(context, framework, version):
        return True
    twin = build.traits.plans.gpu_twin
    if twin and build.distribution != twin:
        return bool(gpu_rows(context, framework))
    if build.release is not None:
        return False
    # Not a release of the matrix: it counts as the newest one before it.
    newest = next(iter(context.matrix.versions(framework)), "")
    is_served_unlisted = is_served(framework, version, context.platform)
    return is_served_unlisted or _has_cuda_build(context, framework, newest)


def _has_cuda_build(context: Context, framework: str, version: str) -> bool:
    rows = context.matrix.builds(framework, context.platform, admits=version.__eq__, pin=version)
    return any(row.cuda_build and not row.yanked for row in rows)


def best_gpu_row(
    context: Context, framework: str, preferred: str = "", capability: str = ""
) -> FrameworkRelease | None:
    """Choose a CUDA release for this Python, driver and, where one is given, GPU.

    The preferred version, else one of its minor, else the newest.
    """
    line = major_minor(preferred)
    rows = sorted(
        gpu_rows(context, framework),
        key=lambda row: (row.version != preferred, major_minor(row.version) != line),
    )
    for row in rows:
        if _runs_here(context, row, capability):
            return row
    return None


def _runs_here(context: Context, row: FrameworkRelease, capability: str) -> bool:
    """Return whether Python, driver and a GPU, if one is given, are those of a build.

    No known problem may keep it from the GPUs that are there.
    """
    return (
        supports_python(context, row)
        and driver_runs(context, row.cuda)
        and not blocks_gpu(context, row)
        and (not capability or serves_capability(context, row, capability))
    )


class Shortfall(NamedTuple):
    """What a driver lacks: in words, the fact that shows it, and the driver that would do."""

    needs: str
    seen: str
    floor: str | None


@once
def driver_runs(context: Context, cuda: str | None) -> bool:
    """Return whether the driver runs builds for a CUDA version; an unknown one always does."""
    toolkit = toolkit_of(context, cuda)
    try:
        return toolkit is None or find_shortfall(context, "", toolkit) is None
    except UndecidedError:
        return True


def find_shortfall(context: Context, label: str, toolkit: Toolkit) -> Shortfall | None:
    """Say what the driver lacks to run builds for a toolkit; None where it runs them."""
    floor = driver_floor(context, toolkit)
    release, version = context.driver.release.value, context.driver.cuda_driver_version.value
    # A Jetson numbers its driver in its own way; what it says of CUDA counts there.
    if release and floor and not context.host.jetson_release.value:
        is_reached = at_least(release, floor)
        if is_reached is None:
            detail = f"the driver is only known as {release}; {label} needs {floor}"
            raise UndecidedError("driver.release", Unknown("unparsable", detail))
        # Forward compatibility: a newer user-space driver (cuda-compat) was seen to start on this
        # kernel module.
        if is_reached or (
            version and cuda_starts(context) and at_least_minor(version, toolkit.version)
        ):
            return None
        needs = f"needs driver >= {floor}; this machine runs {release}"
        return Shortfall(needs, "driver.release", floor)
    if not version:
        if context.need(context.driver.release, "driver.release") is not None:
            context.need(context.driver.cuda_driver_version, "driver.cuda_driver_version")
        return None  # no driver at all: another rule's finding
    required = major(toolkit.version) if toolkit.minor_floor_linux else toolkit.version
    if at_least_minor(version, required):
        return None
    needs = f"needs a driver for CUDA {required}; this one goes up to CUDA {version}"
    return Shortfall(needs, "driver.cuda_driver_version", floor)


def release_for_driver(context: Context, build: Build) -> str:
    """Name what of the same framework runs on the driver that is there; "" when nothing does."""
    if not context.driver.release.value:
        return ""
    if build.traits.index:
        row = nearest_index_build(context, build)
        return f"{build.distribution} {row.version} for CUDA {row.cuda}" if row else ""
    row = best_gpu_row(context, build.framework, build.version)
    return gpu_requirement(context, row) if row is not None else ""


def gpu_requirement(context: Context, row: FrameworkRelease) -> str:
    """Write a requirement for a CUDA release with the extra that brings its CUDA libraries."""
    main = known_framework(row.framework).main
    if not main:
        return write_pin(row.distribution, row.version, (row.gpu_extra,))
    # of a plugin, the framework itself: jax-cuda12-plugin 0.4.31 -> jax[cuda12]==0.4.31
    whole = context.matrix.release(row.framework, row.version, context.platform, main)
    for extra in whole.extras if whole else ():
        if extra in row.distribution:
            return write_pin(main, row.version, (extra,))
    return row.pin


def nearest_index_build(context: Context, build: Build) -> FrameworkRelease | None:
    """Find the CUDA build of the same release on its own index, else of the newest."""
    found = find_index_build(context, build.framework, release=build.version, newest=True)
    return found or find_index_build(context, build.framework, newest=True)


def find_index_build(
    context: Context,
    framework: str,
    *,
    release: str = "",
    cuda: str = "",
    capability: str = "",
    newest: bool = False,
) -> FrameworkRelease | None:
    """Find the build on a framework's own index for a little-known machine, or None.

    The newest release, or the one that is named. Of its builds the newest that the driver runs;
    where the driver is not known, the one for the oldest CUDA, which the most drivers run; with
    `newest` for the newest all the same.
    """
    rows = context.matrix.builds(
        framework, context.platform, admits=release.__eq__ if release else None, pin=release
    )
    found: FrameworkRelease | None = None
    for row in rows:
        is_proposable = bool(row.local) and row.cuda_build and is_proposed(row)
        if (
            not is_proposable
            or cuda not in ("", row.cuda)
            or not _runs_here(context, row, capability)
        ):
            continue
        takes_first = newest or context.driver.release.value is not None
        if found is not None and (row.version != found.version or takes_first):
            break
        found = row
    return found


def serves_capability(context: Context, row: FrameworkRelease, capability: str) -> bool:
    """Return whether a build has machine code for a GPU that its documents do not exclude."""
    document = documented_gpus(row.distribution, row.version, row.platform)
    if document is not None and document.excludes(capability):
        return False

    return (
        coverage(
            build_targets(row.framework, row.compute_capabilities),
            capability,
            context.matrix.is_tegra,
        )
        == NATIVE
    )


def package_for_machine(
    context: Context, name: str, capability: str = ""
) -> tuple[FrameworkRelease | None, bool]:
    """Choose a package's newest release for GPU, driver and Python.

    Tell whether the framework may stay.

    Where none goes with the framework that is there, the newest of all comes with its own.
    """
    fitting = [
        row
        for row in context.matrix.companion_releases(name)
        if row.platform in (context.platform, "any")
        and not row.yanked
        and _runs_here(context, row, capability)
    ]
    beside = [
        build
        for build in judged_builds(context)
        if build.framework in companion_row(name).frameworks
    ]
    going = (row for row in fitting if all(_goes_with(context, row, build) for build in beside))
    same = next(going, None)
    return (same, True) if same else (next(iter(fitting), None), False)


def _goes_with(context: Context, row: FrameworkRelease, build: Build) -> bool:
    pin = context.matrix.companion_pins(build.framework, row.distribution).get(row.version)
    is_same_cuda = build.row is None or shares_cuda(row, build.row)
    return is_same_cuda and (pin is None or matches(build.version, pin))


def is_windows_driver(context: Context) -> bool:
    """Return whether the driver is the Windows one: on Windows, and in WSL."""
    return bool(context.os == "windows" or context.host.wsl_version.value)


@once
def toolkit_of(context: Context, cuda: str | None) -> Toolkit | None:
    """Find the row of a CUDA version; None where none is known.

    A bare major ("12", as JAX names its builds) means the oldest of that major.
    """
    return context.matrix.resolve_toolkit(cuda) if cuda else None


def driver_floor(context: Context, toolkit: Toolkit | None) -> str | None:
    """Return the lowest driver that runs builds of a toolkit.

    Under minor-version compatibility where that exists.
    """
    return floor_of(toolkit, windows=is_windows_driver(context))


def floor_of(toolkit: Toolkit | None, *, windows: bool) -> str | None:
    """Return the lowest driver that runs builds of a toolkit on a system."""
    if toolkit is None:
        return None
    if windows:
        return toolkit.minor_floor_windows or toolkit.min_driver_windows
    return toolkit.minor_floor_linux or toolkit.min_driver_linux


def full_driver(context: Context, toolkit: Toolkit) -> str | None:
    """Return the driver a toolkit was released with, from which on its PTX can be compiled."""
    if is_windows_driver(context):
        return toolkit.min_driver_windows
    return toolkit.min_driver_linux


def _list_architectures(context: Context) -> list[Architecture | None]:
    values = (gpu.compute_capability.value for gpu in context.gpus)
    return [context.matrix.architecture(value) for value in values if value is not None]


@once
def newest_branch(context: Context) -> str:
    """Return the newest driver branch that drives every GPU here.

    580 for a V100; "" where branches say nothing.
    """
    if is_windows_driver(context) or context.host.jetson_release.value:
        return ""
    rows = _list_architectures(context)
    if any(row is None or row.tegra for row in rows):
        return ""
    for branch in context.matrix.driver_branches():
        if all(row and row.is_driven_by(int(branch.branch)) for row in rows):
            return branch.branch
    return ""


@once
def lowest_driver(context: Context, floor: str) -> str:
    """Return the lowest driver that reaches a floor, drives every GPU and runs every build."""
    rows = _list_architectures(context)
    firsts = [row.first_driver_branch for row in rows if row and row.first_driver_branch]
    toolkits = (toolkit_of(context, build.cuda.value) for build in judged_builds(context))
    floors = (driver_floor(context, toolkit) for toolkit in toolkits)
    own = [] if is_windows_driver(context) else firsts
    return max(filter(None, (floor, *own, *floors)), key=numbers, default="")


UNDECIDED = "the form is not described anywhere"


@dataclass
class Selection:
    """The GPUs that stay visible, by position; `decided` is false where the form proves nothing."""

    visible: tuple[int, ...]
    why: str = ""  # why entries are left out, in words; empty when every entry counts
    decided: bool = True


def select_devices(
    value: str, uuids: tuple[str, ...], mig_uuids: tuple[tuple[str, ...], ...]
) -> Selection:
    """Return the GPUs that a value leaves visible.

    `uuids` and `mig_uuids` are per GPU, an empty uuid is unknown.
    """
    entries = [entry.strip() for entry in value.split(",")]
    if not value.strip():
        return Selection((), "an empty list hides every GPU")
    forms = {_form_of(entry) for entry in entries}
    if "odd" in forms or len(forms - {"invalid"}) > 1:
        return Selection((), UNDECIDED, decided=False)
    if "uuid" in forms and not all(uuids):
        return Selection((), "the UUIDs of the GPUs are not known", decided=False)
    if "uuid" in forms:
        return _take_entries(entries, lambda entry: _find_uuid(entry, uuids))
    if "mig" in forms:
        return _by_mig(entries[0], mig_uuids)
    return _take_entries(entries, lambda entry: _find_index(entry, len(uuids)))


def _form_of(entry: str) -> str:
    if re.fullmatch(r"\+?\d+", entry):
        return "index"
    if re.match(r"GPU-", entry):
        return "uuid"
    if re.match(r"MIG-", entry):
        return "mig"
    if re.match(r"[+-]?\d", entry) and not re.fullmatch(r"-\d+", entry):
        return "odd"
    return "odd" if re.match(r"(?i)(gpu|mig)-", entry) else "invalid"


def _take_entries(entries: list[str], find: Callable[[str], int | str]) -> Selection:
    """Take the GPUs of entries, up to one for which `find` gives a reason in place of a GPU."""
    found: list[int] = []
    for entry in entries:
        position = find(entry)
        if isinstance(position, str):
            why = f"{position}, and the list ends at the first invalid entry"
            return Selection(tuple(found), why)
        if position in found:
            return Selection((), f"{entry} is listed twice, which empties the list")
        found.append(position)
    return Selection(tuple(found))


def _find_index(entry: str, count: int) -> int | str:
    if not re.fullmatch(r"\+?\d+", entry):
        return f"{entry!r} is no GPU" if entry else "an entry is empty"
    if int(entry) < count:
        return int(entry)
    there = "there is only GPU 0" if count == 1 else f"the GPUs are 0 to {count - 1}"
    return f"{entry} is out of range ({there})"


def _find_uuid(entry: str, uuids: tuple[str, ...]) -> int | str:
    matches = [position for position, uuid in enumerate(uuids) if uuid.startswith(entry)]
    if len(matches) == 1:
        return matches[0]
    return f"{entry} {'fits several GPUs' if matches else 'is no GPU here'}"


def _by_mig(entry: str, mig_uuids: tuple[tuple[str, ...], ...]) -> Selection:
    # the older form: MIG-<GPU UUID>/<GPU instance>/<compute instance>
    if re.match(r"MIG-GPU-", entry):
        return Selection((), "the older form of MIG names is not resolved", decided=False)
    matches = [position for position, uuids in enumerate(mig_uuids) if entry in uuids]
    if matches:
        return Selection((matches[0],))
    is_known = any(mig_uuids)
    return Selection(
        (),
        f"{entry} is no MIG instance here" if is_known else "no MIG instance is listed",
        decided=is_known,
    )


def numbered_gpus(context: Context) -> tuple[Gpu, ...]:
    """List the GPUs that CUDA can number.

    Those that NVML does not leave out, or all where it lists none.
    """
    numbered = tuple(gpu for gpu in context.gpus if not isinstance(gpu.nvml_index, Absent))
    return numbered or context.gpus


def hides_any_gpu(value: str) -> bool:
    """Return whether a value of CUDA_VISIBLE_DEVICES hides whatever GPUs there are.

    It begins with no GPU.
    """
    return _form_of(value.split(",", maxsplit=1)[0].strip()) == "invalid"


def visible_selection(value: str, gpus: tuple[Gpu, ...]) -> Selection:
    """Apply a value of CUDA_VISIBLE_DEVICES to these GPUs."""
    uuids = tuple(gpu.uuid.value or "" for gpu in gpus)
    instances = tuple(tuple(device.uuid for device in gpu.mig_devices.value or ()) for gpu in gpus)
    return select_devices(value, uuids, instances)


def usable_gpus(context: Context) -> tuple[Gpu, ...]:
    """List the GPUs CUDA work can land on.

    Not those of another driver, of another container or hidden.

    Where that leaves none, all of them: why there is none is another rule's finding.
    """
    numbered = numbered_gpus(context)
    local = tuple(gpu for gpu in numbered if gpu.kernel_driver.value in (None, "nvidia"))
    local = local or numbered
    value = context.environment.get("CUDA_VISIBLE_DEVICES")
    if (
        value is None
        or local != numbered
        or not (value.strip().startswith(("GPU-", "MIG-")) or _is_order_sure(context, numbered))
    ):
        return local
    selection = visible_selection(value, numbered)
    return tuple(numbered[position] for position in selection.visible) or numbered


def _is_order_sure(context: Context, gpus: tuple[Gpu, ...]) -> bool:
    """Return whether CUDA numbers these GPUs as NVML does: it puts the fastest first by default."""
    if context.environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return True
    return all(_same_or_slower(first, second) for first, second in pairwise(gpus))


def _same_or_slower(first: Gpu, second: Gpu) -> bool:
    if first.name.value and first.name.value == second.name.value:
        return True
    slower = numbers(second.compute_capability.value)
    return bool(slower) and numbers(first.compute_capability.value) > slower


class JudgedGpu(NamedTuple):
    """A GPU with its compute capability and its architecture's row (None: not in the matrix)."""

    gpu: Gpu
    capability: str
    architecture: Architecture | None

    @property
    def name(self) -> str:
        """Name it for a message."""
        return gpu_name(self.gpu)

    @property
    def label(self) -> str:
        """Name it with its compute capability."""
        return f"{self.name} (compute capability {self.capability})"

    @property
    def first_toolkit(self) -> str:
        """Return the first CUDA that supports it; "" unknown, or all known ones do."""
        return (self.architecture and self.architecture.first_toolkit) or ""

    @property
    def last_toolkit(self) -> str:
        """Return the last CUDA that supports it; "" unknown, or the newest does."""
        return (self.architecture and self.architecture.last_toolkit) or ""


def gpu_name(gpu: Gpu) -> str:
    """Name a GPU for a message."""
    return gpu.name.value or "the GPU"


def product_of(gpu: Gpu) -> GpuProduct | None:
    """Look the product up by PCI id, then by name.

    Reports often leave the brand out ("RTX 3090").
    """
    if gpu.pci_id.value:
        product = find_gpu_by_pci_id(gpu.pci_id.value)
        if product is not None:
            return product
    if not gpu.name.value:
        return None
    return find_gpu_by_name(gpu.name.value) or find_gpu_by_name(f"GeForce {gpu.name.value}")


def capability_of(context: Context, gpu: Gpu) -> str | None:
    """Return a GPU's compute capability.

    When it was not read, its product's, if that has just one.
    """
    if isinstance(gpu.compute_capability, Unknown):
        product = product_of(gpu)
        if product is not None and len(product.compute_capabilities) == 1:
            return product.compute_capabilities[0]
    return context.need(gpu.compute_capability, "gpus.compute_capability")


def judged_gpus(context: Context) -> tuple[JudgedGpu, ...]:
    """List the usable GPUs whose compute capability is known.

    One that could not be read ends the rule.
    """
    context.need(context.facts.gpus, "gpus")
    result = []
    for gpu in usable_gpus(context):
        capability = capability_of(context, gpu)
        if capability is not None:
            result.append(JudgedGpu(gpu, capability, context.matrix.architecture(capability)))
    return tuple(result)


def is_data_center(gpu: Gpu) -> bool | None:
    """Return whether a GPU supports forward compatibility.

    Return None when neither its id nor its name is known.
    """
    product = product_of(gpu)
    return product.data_center if product else None


def cuda_starts(context: Context) -> bool:
    """Return whether CUDA starts: then the driver works, whatever its files look like."""
    return context.driver.cuda_init_result.value == 0


_DRIVER_RESULTS = (0, 802, 803, 804)  # results of cuInit that need an open device


def is_plain_linux(context: Context) -> bool:
    """Return whether this machine has its own kernel driver.

    Linux, no container, no WSL, no Jetson.
    """
    host = context.host
    facts = (host.container, host.wsl_version, host.jetson_release)
    return context.os in ("linux", "") and not any(fact.value is not None for fact in facts)


def was_given_gpus(context: Context) -> bool:
    """Return whether this container reaches GPUs, by nodes, NVML or a driver's answer."""
    has_nvml_gpu = context.driver.nvml_result.value == 0 and any(
        gpu.nvml_index.value is not None for gpu in context.gpus
    )
    reaches_driver = context.driver.cuda_init_result.value in _DRIVER_RESULTS
    return bool(context.gpu_nodes) or has_nvml_gpu or reaches_driver


def other_vendors() -> Mapping[str, OtherVendor]:
    """Return the vendors of GPUs that are named and not judged."""
    return load_data("program/other_gpus", OtherGpuVendors).vendors


def vendor_of_build(*names: str) -> OtherVendor | None:
    """Return the vendor for whose GPUs a build is made, by the words that state it.

    Rocm, xpu; None for none.
    """
    for vendor in other_vendors().values():
        if set(names) & set(vendor.accelerators):
            return vendor
    return None


def other_gpu_name(gpu: OtherGpu) -> str:
    """Name a GPU as its vendor does: "AMD Instinct MI300X"."""
    title = other_vendors()[gpu.vendor].title
    name = gpu.name.value or f"GPU {gpu.pci_id.value or 'of unknown model'}"
    return name if name.startswith(title) else f"{title} {name}"


# The code that a build holds: its targets, and how they serve a compute capability.


NATIVE = "native"  # machine code that runs as it is
JIT = "jit"  # only PTX, which the driver compiles at the first start
NONE = "none"  # nothing that the GPU runs


@dataclass
class ArchitectureTarget:
    """One target of a build: machine code ("sm") or PTX ("compute")."""

    kind: str
    major: int
    minor: int
    suffix: str  # "a": that capability only; "f": its family only; "" for all later ones

    @property
    def capability(self) -> str:
        """Return the compute capability it was made for: "8.6"."""
        return f"{self.major}.{self.minor}"

    def reaches(self, capability: tuple[int, ...]) -> bool:
        """Return whether code for this target runs on a compute capability.

        Embedded parts do not count.
        """
        target = (self.major, self.minor)
        if self.suffix == "a":
            return target == capability
        if self.kind == "sm" or self.suffix == "f":
            return self.major == capability[0] and self.minor <= capability[1]
        return target <= capability


@lru_cache(maxsize=256)
def parse_target(text: str) -> ArchitectureTarget | None:
    """Read a target: "sm_86", "sm_90a", "compute_120", "sm_100f"; None for anything else."""
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", text)
    if match:
        return ArchitectureTarget(match[1], int(match[2]), int(match[3]), match[4])
    return None


@lru_cache(maxsize=256)
def build_targets(framework: str, texts: tuple[str, ...]) -> tuple[ArchitectureTarget, ...]:
    """Read the targets that a build names; leave out what is no target.

    In some frameworks "compute_80" stands for machine code and PTX of 8.0 alike: TensorFlow's
    configure script says so, and the code in its wheels shows it.
    """
    targets = tuple(target for target in map(parse_target, texts) if target)
    if framework not in framework_names() or not identity(framework).cuda.ptx_means_code:
        return targets
    return targets + tuple(
        replace(target, kind="sm") for target in targets if target.kind == "compute"
    )


def coverage(
    targets: Iterable[ArchitectureTarget], capability: str, is_tegra: Callable[[str], bool]
) -> str:
    """Return how a build serves a GPU: NATIVE, JIT or NONE.

    Machine code of embedded parts and of cards never serves the other kind, PTX does.
    """
    needed = numbers(capability)
    usable = [target for target in targets if target.reaches(needed)]
    for target in usable:
        same_kind = target.capability == capability or is_tegra(target.capability) == is_tegra(
            capability
        )
        if target.kind == "sm" and same_kind:
            return NATIVE
    return JIT if any(target.kind == "compute" for target in usable) else NONE
