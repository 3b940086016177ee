"""What brings NVIDIA's driver: by the system's release, the cards and the release that is needed.

The packages stand in data/nvidia/driver_install.json; which branch and which kind of kernel module
drives a card, in the matrix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from envcheck.actions import (
    APT,
    Action,
    InstallSystemPackages,
    Reboot,
    RefreshPackageLists,
    StartService,
)
from envcheck.host.data_files import load_data
from envcheck.model import (
    Alternative,
    Citation,
    Remedy,
    dataclass,
    numbers,
)
from envcheck.remedies.repositories import CUDA, add_repository, find_key
from envcheck.remedies.rows import machine_steps
from envcheck.remedies.situation import CONTAINER, JETSON, MACOS, UBUNTU, WSL, Actions, Situation
from envcheck.rules.gpu_releases import newest_branch

DRIVER_RELEASE = re.compile(r"\d{3,4}(\.\d+){0,2}")
_OF_FAMILY = {  # where no package of the system brings the driver
    "windows": (
        "Install {driver} for Windows (nvidia.com/drivers, or the NVIDIA app), then restart."
    ),
    WSL: "Install {driver} in Windows (nvidia.com/drivers), not inside WSL, then restart WSL.",
    MACOS: "macOS has no driver for NVIDIA GPUs: use a Linux or Windows machine.",
    CONTAINER: (
        "Install {driver} on the host, not in the container, then restart the container. Or use an "
        "image built for an older CUDA."
    ),
    JETSON: "The driver of a Jetson comes with its system image: install a newer JetPack release.",
}


@dataclass
class Offer:
    """Packages that bring one driver."""

    kind: str  # of the kernel module: open, proprietary, either
    packages: tuple[str, ...] = ()
    first: tuple[str, ...] = ()  # packages that must be there before
    branch: str = ""  # "" the newest there is, * any that is asked for
    release: str = ""
    repository: str = ""  # NVIDIA's, as it calls the system
    stream: str = ""  # of dnf's module nvidia-driver
    program: str = ""  # steps of Ubuntu's tool that chooses the packages
    utilities: str = ""  # line of SUSE's utilities, which must be of the module's release
    architectures: tuple[str, ...] = ()  # of the machine; () all
    fabric: tuple[str, ...] = ()  # packages of its fabric manager: only where NVSwitch is
    note: str = ""

    def reaches(self, floor: str, *, exact: bool) -> bool:
        """Return whether its release may be what is needed."""
        if exact and floor:  # ubuntu-drivers installs the newest of a branch, no exact release
            is_chosen = self.program == "ubuntu-drivers"
            return self.branch in (floor.partition(".")[0], "*") and not is_chosen
        if self.branch == "*":
            return False
        if self.release:
            return numbers(self.release) >= numbers(floor)
        # a branch without a release stands for the newest of its releases
        return not self.branch or numbers(self.branch) >= numbers(floor)[:1]


@dataclass
class System:
    """A release of a distribution, and its drivers: the first that serves is taken."""

    ids: tuple[str, ...]  # ID of os-release, or its family
    versions: tuple[str, ...]  # () those that no other row names
    name: str
    manager: str
    offers: tuple[Offer, ...]
    citations: tuple[Citation, ...]
    components: str = ""  # of Debian's archive
    headers: tuple[str, ...] = ()  # packages of the kernel's headers
    prepare: tuple[str, ...] = ()  # steps of data/advice/machine_steps.json, as are those below
    finish: tuple[str, ...] = ()
    mok_key: str = ""  # signs the modules that are built here
    signed: bool = False  # its modules are signed already
    blocks_nouveau: bool = False  # its own packages keep nouveau from loading
    note: str = ""
    origin: str = ""  # what brings the driver where no package does: {driver}


@dataclass
class Service:
    """A service whose machines get their driver from it."""

    variables: tuple[str, ...]  # that it sets, any of them
    origin: str
    citations: tuple[Citation, ...]


@dataclass
class DriverPackages:
    """The content of data/nvidia/driver_install.json."""

    systems: tuple[System, ...]
    services: tuple[Service, ...]


def find_system(situation: Situation, *, named: str = "") -> System | None:
    """Return the row of the situation's distribution, or the general one of a family."""
    version = "" if named else situation.distribution_version
    names = (named,) if named else (situation.distribution_id, situation.distribution)
    rows = load_data("nvidia/driver_install", DriverPackages).systems
    for name in names:
        for wanted in (version, version.partition(".")[0]):
            for row in rows:
                if name in row.ids and wanted in row.versions:
                    return row
    general = (row for name in names for row in rows if name in row.ids and not row.versions)
    return next(general, None)


def build_reboot(situation: Situation) -> Reboot:
    """Restart the machine."""
    return Reboot(situation.sudo, "start with the new kernel module")


def is_from_elsewhere(situation: Situation) -> bool:
    """Return whether no package of the system brings the driver: on WSL, in a container."""
    return bool(_find_origin(situation))


def _find_origin(situation: Situation) -> str:
    """Say what brings the driver to a managed service, to WSL, to an image; "" for a package."""
    variables = situation.facts.host.environment.value or {}
    for service in load_data("nvidia/driver_install", DriverPackages).services:
        if any(name in variables for name in service.variables):
            return service.origin
    if situation.family in _OF_FAMILY:
        return _OF_FAMILY[situation.family]
    system = find_system(situation)
    return system.origin if system else ""


def bring_driver(
    situation: Situation, floor: str = "", *, exact: bool = False, kind: str = ""
) -> Remedy:
    """Install a driver of at least `floor`, a release or a branch, or `exact`ly that branch.

    `kind`: with that kernel module, open or proprietary.
    """
    floor = floor if DRIVER_RELEASE.fullmatch(floor) else ""
    if not exact:
        floor = max(floor, situation.floor, key=numbers)
    origin = _find_origin(situation)
    if origin:
        driver = _name_driver(situation, None, floor, exact=exact)
        steps = machine_steps(WSL, sudo=False) if origin == _OF_FAMILY[WSL] else ()
        return Remedy(origin.format(driver=driver), steps)
    if situation.from_log and not situation.is_distribution_known:
        return _install_anywhere(situation, floor, exact=exact, kind=kind)
    system = find_system(situation)
    offers = _serving(situation, system, floor, exact=exact, kind=kind)
    if system is None or not offers:
        return _refuse(situation, system, floor, exact=exact)
    offer, *others = offers
    driver = _name_driver(situation, offer, floor, exact=exact)
    alternatives: tuple[Alternative, ...] = ()
    steps = _list_steps(situation, system, offer, floor)
    if not situation.context.gpus and others and offer.kind == "open":
        older = _list_steps(situation, system, others[0], floor)
        if older != steps:
            alternatives = (Alternative("For a GPU older than Turing:", older),)
    return Remedy(
        f"Install {driver}{_describe_module(kind)}, then restart."
        f"{_describe_needs(situation, system, offer)}",
        (*steps, build_reboot(situation)),
        alternatives,
    )


def foresee_release(situation: Situation, floor: str, *, exact: bool = False) -> str:
    """Return the release or branch that the steps bring; "" where that is not known."""
    floor = floor if exact else max(floor, situation.floor, key=numbers)
    offers = _serving(situation, find_system(situation), floor, exact=exact, kind="")
    if not offers or is_from_elsewhere(situation):
        return ""
    if offers[0].branch == "*" or exact:
        return floor
    return offers[0].release or offers[0].branch or newest_branch(situation.context)


def _describe_module(kind: str) -> str:
    return f" with the {kind} kernel module" if kind else ""


def _serving(
    situation: Situation, system: System | None, floor: str, *, exact: bool, kind: str
) -> tuple[Offer, ...]:
    """List the offers that drive every GPU here and are new enough."""
    machine = situation.facts.host.architecture.value or "x86_64"
    has_nvswitch = situation.facts.driver.nvswitch_present.value is True
    return tuple(
        offer
        for offer in (system.offers if system else ())
        if offer.reaches(floor, exact=exact)
        and (not kind or offer.kind in (kind, "either"))
        and (not offer.architectures or machine in offer.architectures)
        and (has_nvswitch or not offer.fabric)
        and _drives_all(situation, offer)
    )


def blocks_nouveau(situation: Situation, floor: str = "") -> bool:
    """Return whether the driver's packages themselves keep nouveau from loading."""
    system = find_system(situation)
    offers = _serving(situation, system, floor, exact=False, kind="")
    return bool(system and system.blocks_nouveau and offers and not offers[0].repository)


def _drives_all(situation: Situation, offer: Offer) -> bool:
    """Return whether no GPU that is known ends before the offer's branch or needs another module.

    What is not known of a GPU speaks against none.
    """
    for gpu in situation.context.gpus:
        capability = gpu.compute_capability.value
        row = situation.matrix.architecture(capability) if capability else None
        if row is None:
            continue
        if "either" not in (row.kernel_module, offer.kind) and row.kernel_module != offer.kind:
            return False
        if offer.branch.isdigit() and not row.is_driven_by(int(offer.branch)):
            return False
    return True


def _name_driver(situation: Situation, offer: Offer | None, floor: str, *, exact: bool) -> str:
    """Name the driver to install, and the lowest one that is enough."""
    if exact or not floor:
        return f"NVIDIA driver {floor}" if floor else "NVIDIA's driver"
    newest = ""
    if offer is not None:
        newest = offer.release or offer.branch
    elif situation.context.gpus:
        newest = newest_branch(situation.context)
    if not newest or numbers(newest) < numbers(floor)[:1]:
        return f"NVIDIA driver {floor} or newer"
    enough = "" if newest == floor else f" ({floor} or newer is enough)"
    return f"NVIDIA driver {newest}{enough}"


def _describe_needs(situation: Situation, system: System, offer: Offer) -> str:
    """Say what must be there before the packages are found; "" for nothing."""
    needs = offer.note or system.note
    if "epel" in system.prepare and situation.distribution_id == "rhel":
        needs = "Needs EPEL and CodeReady Builder for dkms."
    return f" {needs}" if needs else ""


def _refuse(situation: Situation, system: System | None, floor: str, *, exact: bool) -> Remedy:
    driver = _name_driver(situation, None, floor, exact=exact)
    if system is None or exact:
        return Remedy(f"Install {driver} with your distribution's package manager, then restart.")
    if not system.offers:
        return Remedy(f"Install {driver}, then restart. {system.note}".rstrip())
    newer = f" ({floor} or newer is needed)" if floor else ""
    return Remedy(
        f"No driver that serves this GPU is known in the packages for {system.name}{newer}: use"
        " another release of the system, or NVIDIA's own installer (nvidia.com/drivers)."
    )


def _install_anywhere(situation: Situation, floor: str, *, exact: bool, kind: str) -> Remedy:
    """Install a driver where a log does not state the distribution.

    On Ubuntu first, then on the others.
    """
    ways: list[Alternative] = []
    for family in (UBUNTU, "debian", "rhel", "fedora", "suse"):
        system = find_system(situation, named=family)
        offers = _serving(situation, system, floor, exact=exact, kind=kind)
        if system is not None and offers:
            needs = _describe_needs(situation, system, offers[0])
            steps = _list_steps(situation, system, offers[0], floor)
            ways.append(Alternative(f"On {system.name}:{needs}", steps))
    driver = _name_driver(situation, None, floor, exact=exact)
    module = _describe_module(kind)
    summary = f"Install {driver}{module}, then restart (on Ubuntu as follows)."
    return Remedy(summary, (*ways[0].actions, build_reboot(situation)), tuple(ways[1:]))


# The steps.


def _list_steps(situation: Situation, system: System, offer: Offer, floor: str) -> Actions:
    """List the steps of the system's package manager, without the restart."""
    sudo, host = situation.sudo, situation.facts.host
    repository = tuple(_add_repository(situation, system, offer.repository))
    steps = list[Action]()
    if system.manager == APT:
        steps += machine_steps("components", sudo, components=system.components)
        steps += repository
        steps.append(RefreshPackageLists(sudo, "read the package lists"))
    for name in system.prepare:
        if situation.distribution_id != "rhel":  # its subscription decides: see `_describe_needs`
            steps += machine_steps(name, sudo, version=situation.distribution_version)
    if not offer.program:  # which takes modules that are built already
        steps += install_headers(situation, system)
    if system.manager != APT:
        steps += repository
    steps += _install_offer(situation, system, offer, floor)
    for name in system.finish:
        steps += machine_steps(name, sudo, kernel=_read_kernel(situation))
    if not system.signed and host.secure_boot.value:
        steps += enroll_key_of(situation, system)
    return tuple(steps)


def _install_offer(
    situation: Situation, system: System, offer: Offer, floor: str
) -> Iterator[Action]:
    """Install the packages of an offer: `branch` is that of the driver that is asked for."""
    sudo, branch = situation.sudo, floor.partition(".")[0]
    if offer.first:
        yield _install(situation, system, offer.first, "before the driver")
    yield from machine_steps("stream", sudo, stream=offer.stream.format(branch=branch))
    enough = f"; check that it is {floor} or newer" if floor else ""
    yield from machine_steps(offer.program, sudo, purpose=f"the recommended driver{enough}")
    if offer.packages:
        names = tuple(name.format(branch=branch) for name in offer.packages)
        yield _install(situation, system, names, "the driver")
    if offer.fabric:
        purpose = "the fabric manager, which NVSwitch needs, of the same branch"
        yield _install(situation, system, offer.fabric, purpose)
        start = "start it now and at every restart"
        yield StartService("nvidia-fabricmanager", situation.sudo, start)
    if offer.utilities:
        yield from machine_steps("utilities", sudo, line=offer.utilities, package=offer.packages[0])


def _install(
    situation: Situation, system: System, names: tuple[str, ...], purpose: str
) -> InstallSystemPackages:
    return InstallSystemPackages(system.manager, names, situation.sudo, purpose=purpose)


def _add_repository(situation: Situation, system: System, name: str) -> Iterator[Action]:
    """Add NVIDIA's repository of that name, which its key alone vouches for; "" for none."""
    if not name:
        return
    machine = situation.facts.host.architecture.value in (None, "x86_64")
    architecture = "x86_64" if machine else "sbsa"
    key = find_key(name)
    if key is None:
        values = {"repository": name, "machine": architecture}
        yield from machine_steps("repository-unpinned", situation.sudo, **values)
        return
    files = f"cuda-{name}"  # as NVIDIA's own packages call them
    if system.manager == APT:
        files = f"cuda-{name}-{architecture}"
    yield from machine_steps(f"repository-tools-{system.manager}", situation.sudo)
    address = f"{CUDA}/{name}/{architecture}"
    yield from add_repository(key, system.manager, files, address, sudo=situation.sudo)
    yield from machine_steps(f"repository-lists-{system.manager}", situation.sudo)


def install_headers(situation: Situation, system: System | None) -> Actions:
    """Install the headers of the running kernel, for which the module is built."""
    names = tuple(_name_headers(situation, system.headers)) if system else ()
    if system is None or not names:
        return ()
    return (_install(situation, system, names, "the running kernel's headers, before the module"),)


def _read_kernel(situation: Situation) -> str:
    """Return the running kernel where it can stand in a command; "" else."""
    kernel = situation.facts.host.kernel_release.value or ""
    return kernel if re.fullmatch(r"[\w.+~-]+", kernel) else ""


def _name_headers(situation: Situation, names: Iterable[str]) -> Iterator[str]:
    """Fill in the running kernel; leave out what it would have to be known for."""
    kernel = _read_kernel(situation)
    # 6.1.0-56-cloud-amd64 is of linux-headers-cloud-amd64; other architectures were not read
    flavour = re.search(r"(?:(?:cloud|rt)-)?amd64$", kernel)
    for name in names:
        if "{kernel}" in name and not kernel:
            continue
        if "{flavour}" not in name:
            yield name.format(kernel=kernel)
        elif flavour is not None:
            yield name.format(flavour=flavour.group())


def enroll_key_of(situation: Situation, system: System) -> Actions:
    """Let the firmware accept the modules that are built here, with the tool that asks it to."""
    if not system.mok_key:
        return ()
    enroll = enroll_key(situation, system.mok_key)
    if system.manager != APT or system.signed:
        return enroll
    tools = _install(situation, system, ("mokutil", "openssl"), "to ask the firmware")
    return (tools, *enroll)


def enroll_key(situation: Situation, key: str, purpose: str = "") -> Actions:
    """Let the firmware accept what a key signs: a person confirms it at the next start."""
    purpose = purpose or "choose a password; the blue screen at the next restart asks for it"
    return machine_steps("enrol-key", situation.sudo, key=key, purpose=purpose)
