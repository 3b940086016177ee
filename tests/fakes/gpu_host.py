"""Run a command on a stand-in GPU host: a private mount namespace that vanishes with the command. Needs root.

Nothing of this machine is changed: /usr and /etc are overlaid, /dev, /proc/driver, /proc/modules, /sys/module
and /sys/bus/pci are covered, all within the namespace.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.fakes.machine import GpuHost
from tests.fakes.stage import stage

# The namespace: a tmpfs copy of the stage, so that overlayfs works whatever file system holds the stage.
_ENTER = """
set -e
staged=$1; live=$2; shift 2
mount -t tmpfs -o mode=755 tmpfs "$live"
cp -a "$staged/." "$live/"
mkdir "$live/work-usr" "$live/work-etc"
mount --rbind /dev/pts "$live/dev/pts"
mount --rbind /dev/shm "$live/dev/shm"
mount -t overlay overlay -o "lowerdir=/usr,upperdir=$live/usr,workdir=$live/work-usr" /usr
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$live/etc,workdir=$live/work-etc" /etc
mount --bind "$live/proc/driver" /proc/driver
[ ! -e /proc/modules ] || mount --bind "$live/proc/modules" /proc/modules
mount --bind "$live/sys/module" /sys/module
mount --bind "$live/sys/pci" /sys/bus/pci
mount --rbind "$live/dev" /dev
[ ! -d /var/cache/ldconfig ] || mount -t tmpfs tmpfs /var/cache/ldconfig
/sbin/ldconfig -X
exec "$@"
"""

_OF_THIS_MACHINE = ("CUDA", "LD_LIBRARY_PATH", "NVIDIA_", "NVCC_", "XLA_FLAGS", "STANDIN_")


def run_on_gpu_host(
    host: GpuHost, argv: Sequence[str], environment: Mapping[str, str] | None = None, timeout: float = 30.0
) -> subprocess.CompletedProcess[str]:
    """Run `argv` on the stand-in `host` and return what it printed and its exit code.

    `environment` comes on top of this process's own; after `timeout` seconds all processes are killed.
    """
    with tempfile.TemporaryDirectory(prefix="standin-") as folder:
        staged, live = Path(folder, "staged"), Path(folder, "live")
        live.mkdir()
        stage(host, staged)
        whole = ["unshare", "-m", "sh", "-c", _ENTER, "sh", str(staged), str(live), *argv]
        own = {name: value for name, value in os.environ.items() if not name.startswith(_OF_THIS_MACHINE)}
        return _run(whole, {**own, **host.environment(), **(environment or {})}, timeout)


def _run(argv: Sequence[str], environment: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
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
