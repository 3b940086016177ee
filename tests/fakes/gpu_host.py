"""Run a command on a stand-in GPU host: a private mount namespace that vanishes with the command.

Needs root.

Nothing of this machine is changed: its files are overlaid, /dev, /proc/driver, /proc/modules,
/sys/module and /sys/bus/pci are covered, all within the namespace. Only what is written below /tmp
stays."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.fakes.machine import GpuHost
from tests.fakes.stage import stage
from tests.patience import PATIENCE

# The namespace: an overlay of this machine's root, on a tmpfs copy of the stage, with the rest
# mounted into it.
_ENTER = """
set -e
staged=$1; live=$2; shift 2
mount -t tmpfs -o mode=755 tmpfs "$live"
cp -a "$staged/." "$live/"
root=$live/root; mkdir "$root" "$live/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$live/files,workdir=$live/work" "$root"
mount --rbind /proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /tmp "$root/tmp"
mount --rbind /dev/pts "$live/dev/pts"
mount --rbind /dev/shm "$live/dev/shm"
mount --rbind "$live/dev" "$root/dev"
mount --bind "$live/driver" "$root/proc/driver"
mount --bind "$live/cgroup" "$root/proc/1/cgroup"
[ ! -e /proc/modules ] || mount --bind "$live/modules" "$root/proc/modules"
mount --bind "$live/module" "$root/sys/module"
mount --bind "$live/pci" "$root/sys/bus/pci"
chroot "$root" /sbin/ldconfig -X
exec chroot "$root" sh -c 'cd "$0"; exec "$@"' "$(pwd)" "$@"
"""
_OF_THIS_MACHINE = ("CUDA", "LD_LIBRARY_PATH", "NVIDIA_", "NVCC_", "XLA_FLAGS", "STANDIN_")


def run_on_gpu_host(
    host: GpuHost,
    argv: Sequence[str],
    environment: Mapping[str, str] | None = None,
    timeout: float = PATIENCE,
) -> subprocess.CompletedProcess[str]:
    """Run `argv` on the stand-in `host` and return what it printed and its exit code.

    `environment` comes on top of this process's own; after `timeout` seconds all processes are
    killed."""
    with tempfile.TemporaryDirectory(prefix="standin-") as folder:
        staged, live = Path(folder, "staged"), Path(folder, "live")
        live.mkdir()
        stage(host, staged)
        whole = entering(staged, live, argv)
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_OF_THIS_MACHINE)
        }
        return _run(whole, {**own, **host.environment(), **(environment or {})}, timeout)


def entering(staged: Path, live: Path, argv: Sequence[str]) -> list[str]:
    """Return the command that runs `argv` in a mount namespace made of what is staged; `live` is an empty folder."""
    return ["unshare", "-m", "sh", "-c", _ENTER, "sh", str(staged), str(live), *argv]


def _run(
    argv: Sequence[str], environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    started = subprocess.Popen(
        argv,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        stdout, stderr = started.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
        raise
    return subprocess.CompletedProcess(list(argv), started.returncode, stdout, stderr)
