"""The driver's steps in bare roots of Debian and Ubuntu: does apt take what is printed?

Run as root with the folders of roots that debootstrap made:

    debootstrap --variant=minbase bookworm /srv/deb12 && python -m bench.driver_plans /srv/deb12

For each of twelve cards from Kepler to Blackwell the steps are made for that root. Those that open
the archive run in it (the sources, the package lists); those that install are simulated by
`apt-get -s`, all together, so that nothing but the lists of the root changes.

NVIDIA's repository is not reached. Its plans are tried against a repository of RECORDED names and
versions in the root, counted apart: it shows that apt takes the names beside the distribution's
packages, and nothing of what those packages need, which is not recorded. What the steps do with the
key is another test's subject (bench/README.md).

On Ubuntu `ubuntu-drivers` names the packages, for the PCI id of the card in a folder that stands in
for /sys; its package must be in the root. What it names must drive the card, and apt must take it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from bench.system_steps import ran, situation
from envcheck.actions import APT, Action, InstallSystemPackages, RefreshPackageLists
from envcheck.install.removals import parse_chosen, parse_removed
from envcheck.model import Gpu, Known, Remedy, Source, replace
from envcheck.remedies.driver_install import bring_driver
from envcheck.remedies.situation import Situation
from envcheck.rules import Context

SYSTEM = "linux"
HERE = Source("file", "described")
# card: (compute capability, the lowest driver that is asked for, PCI device)
CARDS = {
    "Tesla K80": ("3.7", "", "102D"),
    "GTX 980": ("5.2", "525.60.13", "13C0"),
    "GTX 1080 Ti": ("6.1", "525.60.13", "1B06"),
    "Tesla P100": ("6.0", "570", "15F8"),
    "Tesla V100": ("7.0", "525.60.13", "1DB1"),
    "V100, CUDA 12.8": ("7.0", "570", "1DB1"),
    "Tesla T4": ("7.5", "525.60.13", "1EB8"),
    "A100": ("8.0", "450.80.02", "20B0"),
    "RTX 3090, CUDA 13": ("8.6", "580.65.06", "2204"),
    "RTX 4090": ("8.9", "525.60.13", "2684"),
    "H100": ("9.0", "525.60.13", "2330"),
    "RTX 5090": ("12.0", "570", "2B85"),
}
# Names of NVIDIA's repositories, each as a script or report of this year has it, and the newest
# release of the branch that one of them names.
RECORDED = {
    "debian12": {
        "nvidia-driver-pinning-580": "580.178.04-1",
        "nvidia-open-580": "580.178.04-1",
        "cuda-drivers-580": "580.178.04-1",
    },
    "debian13": {"nvidia-driver-pinning-610": "610.43.02-1", "nvidia-open": "610.43.02-1"},
}
NVIDIA = "developer.download.nvidia.com/compute/cuda/repos/"


def planned(root: Path, card: str) -> Remedy:
    """Return what is printed for a card in a root."""
    capability, floor, _ = CARDS[card]
    bare = situation(root)
    gpu = Gpu(Known(0, HERE), compute_capability=Known(capability, HERE))
    kernel = newest_kernel(root)
    host = replace(bare.facts.host, kernel_release=Known(kernel, HERE))
    facts = replace(bare.facts, host=host, gpus=Known((gpu,), HERE))
    return bring_driver(Situation(Context(facts, bare.matrix)), floor)


def newest_kernel(root: Path) -> str:
    """Return the kernel that the root's archive has: a fresh machine runs it."""
    meta = "linux-image-generic" if is_ubuntu(root) else "linux-image-amd64"
    found = said(root, ("apt-cache", "depends", "--important", meta))
    names = re.findall(r"linux-image-(\d\S+)", found)
    return names[0] if names else ""


def is_ubuntu(root: Path) -> bool:
    """Return whether a root is Ubuntu's."""
    return "ID=ubuntu" in (root / "etc/os-release").read_text(encoding="utf-8").splitlines()


def said(root: Path, argv: tuple[str, ...], **variables: str) -> str:
    """Return what a command says in the root."""
    settings = ("env", *(f"{name}={value}" for name, value in variables.items()))
    done = subprocess.run(
        ("chroot", str(root), *settings, *argv),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.stdout


def judge(root: Path, card: str) -> str:
    """Return how apt answers the steps of a card: accepted, refused, as recorded, no plan."""
    remedy = planned(root, card)
    if not remedy.actions:
        return f"no plan: {remedy.summary}"
    lines = [" ".join(step.command(SYSTEM)) for step in remedy.actions]
    stated = re.search(rf"{NVIDIA}([\w-]+)/", " ".join(lines))
    if stated and stated[1] not in RECORDED:
        return f"not recorded: NVIDIA's repository {stated[1]}"
    if stated is None:
        return take(root, card, remedy.actions)
    added = add_recorded(root, stated[1])
    try:
        answer = take(root, card, tuple(s for s in remedy.actions if not is_of_repository(s)))
    finally:
        added.unlink()
    return answer.replace("accepted", "accepted as recorded", 1)


def is_of_repository(step: Action) -> bool:
    """Return whether a step fetches the key of NVIDIA's repository, or adds it."""
    return NVIDIA in " ".join(step.command(SYSTEM))


def add_recorded(root: Path, name: str) -> Path:
    """Put the recorded names where NVIDIA's repository would be; return apt's entry."""
    place = root / "srv" / f"recorded-{name}"
    place.mkdir(parents=True, exist_ok=True)
    rows = [
        f"Package: {package}\nVersion: {version}\nArchitecture: amd64\nMaintainer: recorded\n"
        f"Filename: ./{package}.deb\nSize: 1\nSHA256: {'0' * 64}\nDescription: recorded name\n"
        for package, version in RECORDED[name].items()
    ]
    (place / "Packages").write_text("\n".join(rows), encoding="utf-8")
    entry = root / "etc/apt/sources.list.d" / "recorded.list"
    entry.write_text(f"deb [trusted=yes] file:/srv/{place.name} ./\n", encoding="utf-8")
    return entry


def take(root: Path, card: str, steps: tuple[Action, ...]) -> str:
    """Run what opens the archive, and simulate what installs, all together."""
    names: list[str] = []
    for step in steps:
        argv = step.command(SYSTEM)
        if isinstance(step, InstallSystemPackages):
            names += step.packages
        elif argv[:2] == ("ubuntu-drivers", "install"):
            names += chosen(root, CARDS[card][2])
        elif not step.ends_session and ran(root, argv) != 0:
            return "refused"
    ran(root, RefreshPackageLists(sudo=False).command(SYSTEM))
    printed = said(root, ("apt-get", "-s", "install", "-y", *names))
    if not re.search(r"^\d+ upgraded, \d+ newly installed", printed, re.MULTILINE):
        return f"refused: {' '.join(names)}"
    removed = parse_removed(APT, printed)
    return f"accepted: {' '.join(names)}{' REMOVES ' if removed else ''}{' '.join(removed)}"


def chosen(root: Path, device: str) -> tuple[str, ...]:
    """Ask Ubuntu's tool for the driver of a PCI device, in a folder that stands in for /sys."""
    place = root / "srv/sys/devices/pci0000:00/card"
    place.mkdir(parents=True, exist_ok=True)
    alias = f"pci:v000010DEd0000{device}sv000010DEsd00000000bc03sc00i00\n"
    (place / "modalias").write_text(alias, encoding="utf-8")
    asked = ("ubuntu-drivers", "list", "--recommended")
    return parse_chosen(said(root, asked, UBUNTU_DRIVERS_SYS_DIR="/srv/sys"))


def main() -> int:
    """Judge every card in every root; the exit status is 1 where apt refuses one."""
    counts: dict[str, int] = {}
    for folder in sys.argv[1:]:
        root = Path(folder)
        ran(root, RefreshPackageLists(sudo=False).command(SYSTEM))
        for card in CARDS:
            answer = judge(root, card)
            print(f"{root.name}: {card}: {answer}", flush=True)
            kind = answer.partition(":")[0]
            counts[kind] = counts.get(kind, 0) + 1
    print(", ".join(f"{number} {kind}" for kind, number in sorted(counts.items())))
    return int("refused" in counts)


if __name__ == "__main__":
    raise SystemExit(main())
