"""The driver's steps in bare Debian roots: does apt take what is printed?

Run as root with the folders of roots that debootstrap made:

    debootstrap --variant=minbase bookworm /srv/deb12 && python -m bench.driver_plans /srv/deb12

For each of twelve cards from Kepler to Blackwell the steps are made for that root. Those that open
the archive run in it (the sources, the package lists); those that install are simulated by
`apt-get -s`, all together, so that nothing but the lists of the root changes. Steps from NVIDIA's
repository need that repository: they are counted apart and not run.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.system_steps import ran, situation
from envcheck.actions import InstallSystemPackages, RefreshPackageLists
from envcheck.model import Gpu, Known, Remedy, Source, replace
from envcheck.remedies.driver_install import bring_driver
from envcheck.remedies.situation import Situation
from envcheck.rules import Context

SYSTEM = "linux"
HERE = Source("file", "described")
# card: (compute capability, the lowest driver that is asked for)
CARDS = {
    "Tesla K80": ("3.7", ""),
    "GTX 980": ("5.2", "525.60.13"),
    "GTX 1080 Ti": ("6.1", "525.60.13"),
    "Tesla P100": ("6.0", "570"),
    "Tesla V100": ("7.0", "525.60.13"),
    "V100, CUDA 12.8": ("7.0", "570"),
    "Tesla T4": ("7.5", "525.60.13"),
    "A100": ("8.0", "450.80.02"),
    "RTX 3090, CUDA 13": ("8.6", "580.65.06"),
    "RTX 4090": ("8.9", "525.60.13"),
    "H100": ("9.0", "525.60.13"),
    "RTX 5090": ("12.0", "570"),
}


def planned(root: Path, card: str) -> Remedy:
    """Return what is printed for a card in a root."""
    capability, floor = CARDS[card]
    bare = situation(root)
    gpu = Gpu(Known(0, HERE), compute_capability=Known(capability, HERE))
    kernel = newest_kernel(root)
    host = replace(bare.facts.host, kernel_release=Known(kernel, HERE))
    facts = replace(bare.facts, host=host, gpus=Known((gpu,), HERE))
    return bring_driver(Situation(Context(facts, bare.matrix)), floor)


def newest_kernel(root: Path) -> str:
    """Return the kernel that the root's archive has: a fresh machine runs it."""
    asked = ("apt-cache", "depends", "--important", "linux-image-amd64")
    found = subprocess.run(
        ("chroot", str(root), *asked), capture_output=True, text=True, timeout=60, check=True
    ).stdout
    return found.split("linux-image-", 2)[2].split()[0]


def judge(root: Path, card: str) -> str:
    """Return how apt answers the steps of a card: accepted, refused, from NVIDIA, no plan."""
    remedy = planned(root, card)
    if not remedy.actions:
        return f"no plan: {remedy.summary}"
    if any(
        "developer.download.nvidia.com" in word
        for step in remedy.actions
        for word in step.command(SYSTEM)
    ):
        return "from NVIDIA's repository, not run"
    names: list[str] = []
    for step in remedy.actions:
        if isinstance(step, InstallSystemPackages):
            names += step.packages
        elif not step.ends_session and ran(root, step.command(SYSTEM)) != 0:
            return "refused"
    if ran(root, ("apt-get", "-s", "install", "-y", *names)) != 0:
        return "refused"
    return f"accepted: {' '.join(names)}"


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
