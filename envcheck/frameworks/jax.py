"""JAX with its compiled half, jaxlib, and the plugins that bring CUDA."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Optional, Tuple

from envcheck.frameworks.base import Framework, Need, RowDraft
from envcheck.frameworks.installed import (
    Inspection,
    cpu_build,
    cuda_build,
    cudnn_required,
    lookups,
    make_build,
    opened_names,
    parse_conda_build,
    with_names,
)
from envcheck.host.protocol import Variables
from envcheck.model import Distribution, Fact, FrameworkBuild, Known, Source, Unknown
from envcheck.model.versions import cuda_of_digits, major_minor

_PLUGIN = r"jax-cuda(\d+)-(?:plugin|pjrt)$"


class Jax(Framework):
    """JAX: the compiled half and the CUDA plugins are distributions of their own."""

    def extra_of_plugin(self, distribution: str) -> str:
        """Return the extra that brings a plugin: cuda12 of jax-cuda12-pjrt."""
        found = re.match(_PLUGIN, distribution)
        return f"cuda{found.group(1)}" if found else ""

    def read_extras(self, extras: Tuple[str, ...]) -> Tuple[str, ...]:
        """Write cuda12_pip as cuda12; raises ValueError for CUDA from the system."""
        local = next((extra for extra in extras if re.match(r"cuda\d+-local$", extra)), "")
        if local:
            brought = local.partition("-")[0]
            raise ValueError(
                f"jax[{local}] takes CUDA and cuDNN from the system, where no plan can bring what"
                f" fits it: ask for jax[{brought}], which brings its own, or install the system's"
                " toolkit and cuDNN by hand."
            )
        return tuple(sorted({re.sub(r"^(cuda\d+)-pip$", r"\1", extra) for extra in extras}))

    def collect(self, inspection: Inspection) -> Tuple[FrameworkBuild, ...]:
        """Read each CUDA plugin; without one, jaxlib; without that, jax alone."""
        everything = inspection.installed.distributions
        plugins = {
            match.group(1): each
            for each in everything
            for match in [re.match(_PLUGIN, each.name)]
            if match
        }
        plugins.update(
            {major: each for major, each in plugins.items() if each.name.endswith("-plugin")}
        )
        library = next((each for each in everything if each.name == self.library), None)
        if plugins:
            return tuple(
                self._plugin_build(inspection, each, major)
                for major, each in sorted(plugins.items())
            )
        if library is not None:
            return (self._library_build(inspection, library),)
        reason = Unknown("failed", "jax is installed without jaxlib")
        return tuple(
            make_build(self.name, each, reason) for each in everything if each.name == self.main
        )[:1]

    def _plugin_build(
        self, inspection: Inspection, plugin: Distribution, major: str
    ) -> FrameworkBuild:
        source = Source("file", plugin.location, plugin.label)
        cudnn, _ = cudnn_required(plugin.requires, ">=")
        runtimes = inspection.installed.named((f"jax-cuda{major}-pjrt",))
        folder = f"{(*runtimes, plugin)[0].location}/jax_plugins/xla_cuda{major}"
        script = inspection.host.read_text(f"{folder}/__init__.py").value or ""
        preload = "first" if "_load_nvidia_libraries" in script else ""
        path = f"{folder}/xla_cuda_plugin.so"
        return self._cuda_build(inspection, plugin, (major, cudnn, preload, path), source)

    def _library_build(self, inspection: Inspection, library: Distribution) -> FrameworkBuild:
        cuda, cudnn = parse_local_version(library.version)
        build, source = inspection.conda_build(self.conda_packages)
        if cuda is None and build:
            cuda = parse_conda_build(build).get("cuda")
        else:
            source = Source("file", library.location, library.label)
        if cuda is None:
            return cpu_build(self.name, library, source)
        path = f"{library.location}/jaxlib/xla_extension.so"
        return self._cuda_build(inspection, library, (cuda, cudnn, "", path), source)

    def _cuda_build(
        self,
        inspection: Inspection,
        distribution: Distribution,
        facts: Tuple[str, str, str, str],
        source: Source,
    ) -> FrameworkBuild:
        cuda, cudnn, preload, path = facts
        opens = opened_names(self, cuda, cudnn)
        libraries, runpath = lookups(
            inspection.search, [inspection.search.caller(path, opens)], preload
        )
        silent: Fact[str] = Unknown(
            "failed", "the distribution does not name it", (distribution.location,)
        )
        return cuda_build(
            self.name,
            distribution,
            source,
            cuda_version=Known(cuda, source) if cuda else silent,
            cudnn_version=Known(cudnn, source) if cudnn else silent,
            libraries=with_names(libraries),
            runpath=runpath,
        )

    def draft(self, row: RowDraft) -> None:
        """State what a CUDA plugin says of itself, or which extras of jax bring one."""
        plugin = re.fullmatch(r"jax-cuda(\d+)-plugin", row.distribution)
        if plugin:
            _add_plugin(row, plugin.group(1))
        elif row.distribution == self.main:
            _add_extras(row)
        row.add_glibc()

    def complete(self, rows: Mapping[Tuple[str, str], RowDraft]) -> None:
        """Fill in plugins that require nothing themselves, from the extra that brings them."""
        whole = rows.get((self.main, "any"))
        for row in rows.values():
            extra = re.fullmatch(r"jax-(cuda\d+)-plugin", row.distribution)
            if (
                whole is None
                or extra is None
                or row.cells["cuda_wheels"]
                or whole.cells.get("gpu_extra") != extra[1]
            ):
                continue
            wheels = [item for item in whole.cells["cuda_wheels"] if item.startswith("nvidia-")]
            floors = [
                found[1]
                for found in (re.match(r"nvidia-cudnn.*>=(\d+\.\d+)", item) for item in wheels)
                if found
            ]
            if floors:
                row.cells.update(cudnn=floors[0], cuda_wheels=wheels)
                row.unsay("cudnn")
                row.say(
                    "cudnn", f"cuDNN and CUDA wheels are what the {extra[1]} extra of jax asks for."
                )
                row.rest_on(whole)

    def smoke_variables(self, environment: Variables, *, on_cpu: bool) -> Dict[str, str]:
        """Let XLA log all, and open the platforms that the test compares.

        Sums come home to the CPU.
        """
        platforms = environment.get("JAX_PLATFORMS", "")
        if on_cpu:
            platforms = "cpu"
        elif platforms and "cpu" not in platforms:
            platforms += ",cpu"
        return {"TF_CPP_MIN_LOG_LEVEL": "0", **({"JAX_PLATFORMS": platforms} if platforms else {})}


def _add_plugin(row: RowDraft, cuda: str) -> None:
    """State what a CUDA plugin says of itself.

    The CUDA major in its name, the wheels of its extra.
    """
    row.cells.update(cuda_build=True, cuda=cuda, compute_capabilities=[])
    row.infer("finds_cuda_wheels", value=True)
    row.say("cuda", "Only the CUDA major is stated.")
    pins = [need for need in row.needs if need.name.startswith("nvidia-") and need.here]
    row.cells["cuda_wheels"] = [need.text for need in pins]
    extras = sorted({need.extra for need in pins if need.extra})
    if extras:
        row.cells.update(gpu_extra=extras[0], extras=extras)
    floors = [major_minor(need.lowest) for need in pins if "cudnn" in need.name]
    row.cells["cudnn"] = next((floor for floor in floors if floor), None)
    if row.cells["cudnn"]:
        row.say("cudnn", "cuDNN is the minimum its extra asks for.")
    else:
        row.say("cudnn", "This wheel does not state its cuDNN.", gap=True)
    row.say("compute_capabilities", "Compute capabilities were not read.", gap=True)


def _add_extras(row: RowDraft) -> None:
    """List the extras of jax that bring CUDA.

    One that asks for a plugin nobody published brings nothing.
    """
    wanted: Dict[str, List[Need]] = {}
    for need in row.needs:
        if re.fullmatch(r"cuda\d{2}(_pip)?", need.extra):
            wanted.setdefault(need.extra, []).append(need)
    extras = sorted(
        extra for extra, needs in wanted.items() if all(_is_published(row, need) for need in needs)
    )
    if extras:
        chosen = extras[0] if "cuda12" not in extras else "cuda12"
        row.cells.update(
            extras=extras, gpu_extra=chosen, cuda_wheels=[need.text for need in wanted[chosen]]
        )


def _is_published(row: RowDraft, need: Need) -> bool:
    """Return whether a plugin that is asked for exists.

    Other distributions are not JAX's to publish.
    """
    return re.fullmatch(r"jax-cuda\d+-plugin", need.name) is None or row.is_published(need)


def parse_local_version(version: str) -> Tuple[Optional[str], str]:
    """Read CUDA and cuDNN from the local version of an old jaxlib; (None, "") without.

    Samples: '0.4.13+cuda12.cudnn89' -> ("12", "8.9"), '0.3.25+cuda11.cudnn805' -> ("11", "8.0.5")
    """
    match = re.search(r"\+cuda(\d+)(?:\.cudnn(\d+))?", version)
    if match is None:
        return None, ""
    return cuda_of_digits(match.group(1)), ".".join(match.group(2) or "")


FRAMEWORK = Jax
