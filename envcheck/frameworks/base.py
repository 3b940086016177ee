"""What a framework is for envcheck.

Its names, and how it is read, planned, tested and found in logs.

Every difference between frameworks is a cell of a role or a method here, so that no other code
compares names. This module and the frameworks' own are sent to other hosts: they run on Python 3.8
without `packaging`, and import neither the matrix nor what stands above it. What a renewal or a
smoke test needs is handed in.
"""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Protocol, Sequence, Tuple

from envcheck.frameworks.roles import (
    CopiedFiles,
    CudaUse,
    LogTraits,
    PlanTraits,
    PublishedWheels,
    SmokeTraits,
)
from envcheck.host.protocol import Variables
from envcheck.model import dataclass, list_fields, replace
from envcheck.model.versions import cuda_of_digits

if TYPE_CHECKING:
    from envcheck.frameworks.installed import Inspection
    from envcheck.frameworks.packages import Installation
    from envcheck.model import Distribution, FrameworkBuild


@dataclass
class Need:
    """One requirement of a wheel."""

    name: str  # as written: nvidia-cudnn-cu12
    extra: str  # that it belongs to, "" for a plain one
    text: str  # without its marker: nvidia-cudnn-cu12>=9.3,<10.0
    lowest: str  # version that an == or >= asks for, "" for none
    here: bool  # its marker holds on the row's platform, for one of its Pythons


class RowDraft(Protocol):
    """A row of the matrix in the making: what was read of a wheel, and the cells to fill."""

    cells: Dict[str, Any]

    @property
    def distribution(self) -> str:
        """Return the name of the distribution."""

    @property
    def platform(self) -> str:
        """Return the platform: linux_x86_64."""

    @property
    def entries(self) -> int:
        """Return how many members the wheel has."""

    @property
    def needs(self) -> Sequence[Need]:
        """Return its requirements."""

    def constants(self, ending: str) -> Mapping[str, Any]:
        """Return what a Python text binds to literals, by the end of its name.

        Empty where there is none.
        """

    def cite(self, member: str) -> None:
        """Say in the row's citation that a member was read."""

    def say(self, cell: str, text: str, *, gap: bool = False) -> None:
        """Add a sentence to the row's note; a gap says why a cell is empty, vague or inferred."""

    def unsay(self, cell: str) -> None:
        """Take back what was said of a cell."""

    def infer(self, cell: str, value: Any) -> None:
        """Fill a cell with what no artifact states: documented, not read."""

    def add_glibc(self) -> None:
        """State the glibc that a Linux wheel's tags imply."""

    def is_published(self, need: Need) -> bool:
        """Return whether the index has a release of the same framework that meets a requirement."""

    def rest_on(self, other: "RowDraft") -> None:
        """Cite the wheel of another row, too."""


class Framework:
    """One framework.

    Its attributes are the cells of its row in data/frameworks/identity.json: names, then roles.
    """

    name: str  # of its module here, its section of the matrix and its import: torch
    title: str  # as people write it: PyTorch
    distributions: Mapping[str, str]  # each with the module that it owns, the usual one first
    # the distribution whose version people mean, where the others are parts of it: jax
    main: str = ""
    library: str = ""  # the compiled half, where that is a distribution of its own: jaxlib
    plugins: Tuple[str, ...] = ()  # patterns of distributions that bring CUDA to it: jax-cuda*
    # those that the matrix knows, each with the module that it owns
    plugin_modules: Mapping[str, str] = {}
    plugin_of_extra: str = ""  # which of them an extra brings: jax-{extra}-plugin
    # modules that several distributions share without a clash: jax_plugins
    namespaces: Tuple[str, ...] = ()
    conda_packages: Tuple[str, ...] = ()  # whose build string names CUDA
    # patterns of distributions that compute on other GPUs -> rocm, metal
    accelerators: Mapping[str, str] = {}
    apple_backend: str = ""  # its own way to the GPU of an Apple machine, by name: MPS
    apple_plugin: str = ""  # the distribution that gives it the GPU of an Apple machine
    index: str = ""  # data file on its own package index, whose versions have labels such as +cu126
    # added by another package: a row alone, and no release of it in the matrix
    from_plugin: bool = False

    cuda: CudaUse = CudaUse()
    files: CopiedFiles = CopiedFiles()
    plans: PlanTraits = PlanTraits()
    wheels: PublishedWheels = PublishedWheels()
    logs: LogTraits = LogTraits()
    smoke: SmokeTraits = SmokeTraits()

    def __init__(self, name: str, row: Mapping[str, Any]) -> None:
        """Take the cells of a framework's row.

        Raises TypeError for a cell that its role does not have.
        """
        self.name = name
        for cell, value in _with_tuples(row).items():
            role = getattr(Framework, cell, None)
            setattr(
                self, cell, replace(role, **_with_tuples(value)) if list_fields(role) else value
            )

    def owns(self, distribution: str) -> bool:
        """Return whether a distribution is one of this framework's, or a plugin of it."""
        return distribution in self.distributions or self.is_plugin(distribution)

    def is_plugin(self, distribution: str) -> bool:
        """Return whether a distribution brings CUDA to this framework."""
        return any(fnmatch.fnmatchcase(distribution, pattern) for pattern in self.plugins)

    def module_of(self, distribution: str) -> str:
        """Return the module that an import finds of a distribution.

        A plugin is loaded by the framework's own.
        """
        return self.distributions.get(distribution, self.name)

    def is_whole(self, distribution: str, modules: Sequence[str]) -> bool:
        """Return whether a distribution is the whole framework.

        Not an empty wheel, and not one of its parts.
        """
        module = self.distributions.get(distribution)
        is_whole = distribution == self.main if self.main else module is not None
        return is_whole and (module in modules or not modules)

    def cuda_of(self, distribution: str) -> str:
        """Return the CUDA version that a distribution names.

        12 of cupy-cuda12x; "" where nothing says it.
        """
        match = re.search(r"-cu(?:da)?(\d+)x?(?:-|$)", distribution)
        return cuda_of_digits(match.group(1) if match else self.cuda.major)  # cupy-cuda112

    def extra_of_plugin(self, distribution: str) -> str:
        """Return the extra that brings a plugin.

        cuda12 of jax-cuda12-pjrt; "" for any other distribution.
        """
        return ""

    def read_extras(self, extras: Tuple[str, ...]) -> Tuple[str, ...]:
        """Write extras that were asked for by the names of today.

        Raises ValueError for one that cannot be planned.
        """
        return extras

    def distribution_in_image(self, version: str, *, for_gpu: bool) -> str:
        """Name the distribution that a container image of this framework holds."""
        return self.name

    def collect(self, inspection: Inspection) -> Tuple[FrameworkBuild, ...]:
        """Read the installed builds; of several copies the imported one comes first."""
        return tuple(
            self.read_build(inspection, each) for each in self.one_each(inspection.installed)
        )

    def read_build(self, inspection: Inspection, distribution: Distribution) -> FrameworkBuild:
        """Read what one installed distribution was built for, and whether its libraries are found.

        A framework of a row alone is a CUDA build where one of its linking files lies in its
        package.
        """
        return inspection.read_linked(self, distribution)

    def one_each(self, installed: Installation) -> List[Distribution]:
        """Pick one distribution for each folder that holds the module, in the order of import."""
        found: Dict[str, Distribution] = {}
        for each in self._holding(installed):
            found.setdefault(each.location, each)
        order = [folder.path for folder in installed.folders]
        last = len(order)
        return sorted(
            found.values(),
            key=lambda each: order.index(each.location) if each.location in order else last,
        )

    def _holding(self, installed: Installation) -> Iterator[Distribution]:
        for name in self.distributions:
            for each in installed.named((name,)):
                if self.is_whole(name, each.modules):
                    yield each

    def draft(self, row: RowDraft) -> None:
        """Fill the row of a release on one platform by what its wheel states."""
        row.add_glibc()

    def complete(self, rows: Mapping[Tuple[str, str], RowDraft]) -> None:
        """Fill in what the rows of one release, by distribution and platform, say of each other."""

    def binary_cells(self, binaries: Mapping[str, Any]) -> Dict[str, Any]:
        """Return cells that the facts read of a wheel's binaries, by member, tell."""
        return {}

    def smoke_script(self, version: str) -> str:
        """Name the module of smoke/children that tests a release."""
        return f"check_{self.name}"

    def smoke_variables(self, environment: Variables, *, on_cpu: bool) -> Dict[str, str]:
        """Return the environment variables that a smoke test of it sets."""
        return {}


def _with_tuples(cells: Mapping[str, Any]) -> Dict[str, Any]:
    return {
        cell: tuple(value) if isinstance(value, list) else value for cell, value in cells.items()
    }
