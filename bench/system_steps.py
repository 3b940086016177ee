"""The compiler step in a Debian root of its own: check, step, check, what it is for, undo, check.

Run as root with the folder of a root that debootstrap made:

    debootstrap --variant=minbase bookworm /srv/deb && python -m bench.system_steps /srv/deb

It changes that root alone. Where this machine has a CUDA Toolkit, it is lent to the root, and its
nvcc compiles a kernel with the compiler that was planned.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from envcheck.actions import Action, SetVariables
from envcheck.matrix.load import load_matrix
from envcheck.model import Facts, HostFacts, Known, Source, replace
from envcheck.remedies.situation import Situation
from envcheck.remedies.system import install_compiler
from envcheck.rules import Context, Target

SYSTEM = "linux"

KERNEL = "__global__ void k(int *p) { *p = 1; }\nint main() { k<<<1, 1>>>(nullptr); }\n"
HERE = Source("file", "etc/os-release")


def situation(root: Path) -> Situation:
    """Return what remedies know of a root: what its os-release says, and nothing else."""
    lines = (root / "etc/os-release").read_text(encoding="utf-8").splitlines()
    told = {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}
    host = HostFacts(
        os=Known("linux", HERE),
        architecture=Known("x86_64", HERE),
        is_root=Known(value=True, source=HERE),
        distribution_id=Known(told["ID"], HERE),
        distribution_version=Known(told["VERSION_ID"], HERE),
    )
    return Situation(Context(replace(Facts(), host=host), load_matrix(None), Target()))


def ran(root: Path, argv: tuple[str, ...], **variables: str) -> int:
    """Run a command inside the root; return its exit status."""
    settings = (
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        *(f"{name}={value}" for name, value in variables.items()),
    )
    ended = subprocess.run(
        ("chroot", str(root), *settings, *argv),
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    print(f"  {ended.returncode:3d}  {' '.join(argv)}", flush=True)
    return ended.returncode


def proven(root: Path, action: Action, used: tuple[str, ...] = (), **variables: str) -> bool:
    """Take an action and undo it; tell whether each check said what it must."""
    check, undo = action.check(SYSTEM).argv, action.undo(SYSTEM).argv
    before = ran(root, check) if check else None
    taken = ran(root, action.command(SYSTEM))
    after = ran(root, check) if check else 0
    use = ran(root, used, **variables) if used else 0
    undone = ran(root, undo) if undo else 0
    last = ran(root, check) if check and undo else None
    return taken == after == use == undone == 0 and before != 0 and last != 0


def compiler(root: Path) -> bool:
    """Install the compiler that is planned for an nvcc which takes GCC up to 11, let nvcc use it, and remove it."""
    install, variable = install_compiler(situation(root), 6, 11).actions
    assert isinstance(variable, SetVariables)
    toolkit = Path("/usr/local/cuda")
    if not (toolkit / "bin/nvcc").exists():
        return proven(root, install)
    (root / "tmp/kernel.cu").write_text(KERNEL, encoding="utf-8")
    lent = root / "opt/cuda"
    lent.mkdir(parents=True, exist_ok=True)
    subprocess.run(("mount", "--bind", str(toolkit.resolve()), str(lent)), check=True, timeout=60)
    try:
        nvcc = ("/opt/cuda/bin/nvcc", "-arch=sm_90", "-c", "/tmp/kernel.cu", "-o", "/tmp/kernel.o")
        return proven(root, install, nvcc, **dict(variable.values))
    finally:
        subprocess.run(("umount", str(lent)), check=True, timeout=60)


def main() -> int:
    """Take the step; exit 0 where all checks said what they must."""
    root = Path(sys.argv[1])
    ran(root, ("apt-get", "update"))
    done = compiler(root)
    print(f"compiler: {'proven' if done else 'NOT proven'}")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
