"""`envcheck onboard` in a bare Debian root: across a restart, as root and as a user, killed at instants.

Run as root with the folder of a root that debootstrap made, in which envcheck is installed for python3:

    debootstrap --variant=minbase --include=python3,python3-venv,kmod bookworm /srv/deb12
    (a virtual environment in /srv/deb12/opt/envcheck with envcheck in it)
    python -m bench.onboard_roots /srv/deb12 [--instants 20] [--seed 7]

What stands in: the machine (tests/fakes: PCI, /proc, /sys and device nodes of one A100), the driver (packages of the
names that are planned, with the stand-in libraries in them, from a repository in the root), and torch (a wheel of
the release that is planned, which multiplies small matrices). apt, dpkg, pip, Python and envcheck are real. A restart is a
new mount namespace, another boot id, and from then on a loaded module.

An instant is a time after the start, drawn over what an undisturbed run takes before and after the restart; there the whole
session is killed, as a power cut would. Then the same command is typed until it ends: at most three times, and
`dpkg --configure -a` where it asks for that. Prints each way through. Exits 1 where one does not come to the end that an
undisturbed one comes to.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.fakes.machine import A100, GpuHost
from tests.fakes.stage import stage
from tests.install.wheels import make_wheel

DRIVER = "535.309.01"
LOADED = GpuHost(driver=DRIVER, cuda=12020, gpus=(A100,))
BARE = replace(LOADED, kernel_driver=None, libraries=False, nodes=False, uvm=False,
               gpus=(replace(A100, bound_to=None),))  # fmt: skip
TORCH = Path(__file__).parents[1] / "tests/fakes/frameworks/torch/__init__.py"
RELEASE = "2.6.0"
COMMAND = ("onboard", "--for", f"torch=={RELEASE}", "--yes", "--installer", "pip", "-o", "page.txt")
# The root with what is written over it, and what a machine shows mounted into it.
ENTER = """
set -e
root=$1; staged=$2; boot=$3; lower=$4; upper=$5; work=$6; shift 6
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$upper,workdir=$work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
cp -a "$staged/dev/." "$root/dev/"
mount --bind "$staged/driver" "$root/proc/driver"
mount --bind "$boot" "$root/proc/sys/kernel/random/boot_id"
[ ! -e /proc/modules ] || mount --bind "$staged/modules" "$root/proc/modules"
mount --bind "$staged/module" "$root/sys/module"
mount --bind "$staged/pci" "$root/sys/bus/pci"
exec chroot "$root" "$@"
"""


class Machine:
    """A bare root with what was written over it, and the machine that it runs on."""

    def __init__(self, lower: Path, folder: Path) -> None:
        self.lower, self.folder, self.boots = lower, folder, 0
        for name in ("upper", "work", "root"):
            (folder / name).mkdir()
        for name, host in (("bare", BARE), ("loaded", LOADED)):
            stage(host, folder / name)
        self.boot_id = folder / "boot"
        self.restart()

    def restart(self) -> None:
        """Start anew."""
        self.boots += 1
        self.boot_id.write_text(f"0000000{self.boots}-0000-0000-0000-000000000000\n", "ascii")

    @property
    def has_driver(self) -> bool:
        """Return whether the driver's packages are there whole, so that a start loads its module."""
        status = self.folder / "upper/var/lib/dpkg/status"
        text = status.read_text("utf-8") if status.exists() else ""
        return "Package: nvidia-driver\nStatus: install ok installed" in text

    def type(self, *argv: str, user: str = "root", kill_after: float = 0.0) -> tuple[int, str]:
        """Run a command there; return its exit code, -9 where it was killed, and what it printed."""
        is_loaded = self.boots > 1 and self.has_driver
        host, staged = (
            LOADED if is_loaded else BARE,
            self.folder / ("loaded" if is_loaded else "bare"),
        )
        folders = (self.lower, self.folder / "upper", self.folder / "work")
        places = (self.folder / "root", staged, self.boot_id, *folders)
        home = "/root" if user == "root" else f"/home/{user}"
        settings = {
            **host.environment(), "HOME": home, "USER": user, "LANG": "C.UTF-8",
            "PATH": "/opt/envcheck/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/srv/wheels", "ENVCHECK_VERIFY": "0",
            "DEBIAN_FRONTEND": "noninteractive", "PIP_NO_CACHE_DIR": "1",
        }  # fmt: skip
        become = (
            ()
            if user == "root"
            else ("setpriv", "--reuid", user, "--regid", user, "--clear-groups")
        )
        within = ("sh", "-c", 'cd "$HOME" && exec "$@"', "sh", *become, *argv)
        whole = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh"]
        process = subprocess.Popen(
            [*whole, *map(str, places), *within], env=settings, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            printed, _ = process.communicate(timeout=kill_after or 900)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # and with it all of its namespace
            return -9, process.communicate()[0]
        return process.returncode, printed

    def state(self, user: str) -> dict[str, object]:
        """Return what any way through must come to."""
        home = "root" if user == "root" else f"home/{user}"
        folder = self.folder / "upper" / home
        journals = [
            *folder.glob(".envcheck-.venv/*.jsonl"),
            *self.folder.glob("upper/var/lib/envcheck*/**/*.jsonl"),
        ]
        audit = self.type("dpkg", "--audit")[1].strip()
        installed = sorted(path.name for path in folder.glob(".venv/lib/*/site-packages/torch*"))
        return {
            "files": sorted(path.name for path in folder.iterdir() if path.name[0] != "." or "venv" in path.name),
            "dpkg": audit,
            "torch": len(installed),
            "driver": self.has_driver,
            "half": [path.name for path in folder.glob(".venv*/.envcheck-incomplete")],
            "journals": bool(journals),
        }  # fmt: skip


def prepare(lower: Path) -> None:
    """Put the stand-in packages, their repository and the wheel into the root, and a user."""
    with tempfile.TemporaryDirectory() as name:
        stage(LOADED, Path(name, "staged"))
        files = Path(name, "staged/files")
        kernel = os.uname().release
        place = lower / "srv/standin"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for package in ("nvidia-driver", "firmware-misc-nonfree", f"linux-headers-{kernel}"):
            tree = Path(name, package)
            (tree / "DEBIAN").mkdir(parents=True)
            (tree / "DEBIAN/control").write_text(
                f"Package: {package}\nVersion: {DRIVER}-9999\nArchitecture: amd64\nMaintainer: stand-in\n"
                "Description: a stand-in\n", "utf-8",
            )  # fmt: skip
            if package == "nvidia-driver":
                shutil.copytree(files / "usr/lib", tree / "usr/lib", symlinks=True)
            subprocess.run(
                ["dpkg-deb", "-b", str(tree), str(place)], check=True, stdout=subprocess.DEVNULL
            )
    listed = subprocess.run(
        ["apt-ftparchive", "packages", "."], cwd=place, check=True, capture_output=True, text=True
    ).stdout
    (place / "Packages").write_text(listed, "utf-8")
    (lower / "etc/apt/sources.list").write_text("deb [trusted=yes] file:/srv/standin ./\n", "utf-8")
    for each in (lower / "etc/apt/sources.list.d").glob("*"):
        each.unlink()
    if not (lower / "home/u").exists():
        subprocess.run(["chroot", str(lower), "useradd", "-m", "u"], check=True)


def make_torch(lower: Path) -> None:
    """Make the wheel that is planned: a torch that computes, with empty libraries of CUDA beside it."""
    shutil.rmtree(lower / "srv/wheels", ignore_errors=True)
    text = TORCH.read_text("utf-8").replace("0.0.1+standin", RELEASE)
    # without the variable it sees the one GPU, as PyTorch does where the driver runs
    seen = '"CUDA_VISIBLE_DEVICES", "0" if os.path.exists("/dev/nvidia0") else ""'
    text = text.replace('"CUDA_VISIBLE_DEVICES", ""', seen)
    version = f"__version__ = '{RELEASE}'\ncuda = '12.4'\n"
    more = {"torch/__init__.py": text.encode(), "torch/version.py": version.encode()}
    with tempfile.TemporaryDirectory() as name:
        empty = Path(name, "empty.c")
        empty.touch()
        build = ("gcc", "-shared", "-fPIC", "-Wl,--no-as-needed,-rpath,$ORIGIN", "-o")
        libraries = ("libcudart.so.12", "libcudnn.so.9")
        for each in (*libraries, "libtorch_global_deps.so"):
            needed = libraries if each not in libraries else ()
            argv = (
                *build,
                each,
                empty.name,
                f"-Wl,-soname,{each}",
                *(f"./{one}" for one in needed),
            )
            subprocess.run(argv, cwd=name, check=True)
            more[f"torch/lib/{each}"] = Path(name, each).read_bytes()
    make_wheel(lower / "srv/wheels", "torch", RELEASE, more=more)


def go_through(
    lower: Path, user: str, kills: dict[int, float]
) -> tuple[dict[str, object], list[object], list[float]]:
    """Onboard a bare machine; `kills` says after how many seconds the first run of a start is killed.

    Return what it comes to, the exit codes on the way, and how long each start took.
    """
    with tempfile.TemporaryDirectory(dir=lower.parent) as name:
        machine = Machine(lower, Path(name))
        way: list[object] = []
        seconds = []
        for start in (1, 2):
            begun = time.monotonic()
            if start in kills:
                way.append(
                    machine.type("envcheck", *COMMAND, user=user, kill_after=kills[start])[0]
                )
            for _ in range(3):
                code, printed = machine.type("envcheck", *COMMAND, user=user)
                way.append(code)
                asked = re.search(r"sudo (\S*envcheck install driver [^\n]*)", printed)
                if "dpkg --configure -a" in printed:
                    way.append("dpkg")
                    machine.type("dpkg", "--configure", "-a")
                elif user != "root" and start == 1 and asked:
                    words = asked[1].replace("~/", f"/home/{user}/").split()
                    way.append(f"root: {machine.type(*words, '--yes')[0]}")
                    break
                elif code == (3 if start == 1 else 0):
                    break
                else:
                    way.append(printed.strip()[-400:])
            seconds.append(time.monotonic() - begun)
            machine.restart()
        return machine.state(user), way, seconds


def main() -> int:
    """Go through undisturbed, then killed; print what came of each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--instants", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    prepare(asked.root)
    make_torch(asked.root)
    draw = random.Random(asked.seed)
    kept = 0
    wanted: dict[str, dict[str, object]] = {}
    took: dict[str, list[float]] = {}
    for user in ("root", "u"):
        wanted[user], way, took[user] = go_through(asked.root, user, {})
        print(f"{user}, undisturbed: {way} {json.dumps(wanted[user])}", flush=True)
    for number in range(asked.instants):
        user, start = ("root", "u")[number % 3 == 2], 1 + number % 2
        after = draw.uniform(0.2, took[user][start - 1])
        state, way, _ = go_through(asked.root, user, {start: after})
        same = state == wanted[user]
        kept += same
        print(
            f"{user}, start {start} killed after {after:.1f} s: {way}{'' if same else f' {state}'}",
            flush=True,
        )
    print(f"{kept} of {asked.instants} came to the end of an undisturbed run")
    return int(kept != asked.instants)


if __name__ == "__main__":
    sys.exit(main())
