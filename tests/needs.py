"""What a test may need of the machine, each need a check."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# Real environments that bench/smoke.py builds; the suite uses those it is told of.
FRAMEWORKS = ("tf115", "tf210", "tf215", "tf221", "torch", "jax", "onnxruntime")


def _linux() -> bool:
    return sys.platform.startswith("linux")


def _posix() -> bool:
    return os.name == "posix"


def _root() -> bool:
    return _posix() and os.geteuid() == 0


def _c_compiler() -> bool:
    return shutil.which("gcc") is not None


def _loader_cache() -> bool:
    return Path("/etc/ld.so.cache").exists() and find_ldconfig() is not None


def _mount_namespace() -> bool:
    if not (_linux() and _root() and shutil.which("unshare") and shutil.which("mount")):
        return False
    attempt = ["unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return subprocess.run(attempt, capture_output=True, check=False).returncode == 0


def _stand_in_host() -> bool:
    if not (_mount_namespace() and _c_compiler()):
        return False
    # A mount that the kernel refuses once is no lack of this machine.
    return any(_mounts_stand_in() for _ in range(3))


def _mounts_stand_in() -> bool:
    from tests.fakes.gpu_host import run_on_gpu_host
    from tests.fakes.machine import GpuHost

    try:
        return run_on_gpu_host(GpuHost(), ["true"]).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _capability_drop() -> bool:
    return _root() and shutil.which("setpriv") is not None


def _real_nvidia_smi() -> bool:
    from tests.fakes.nvidia_smi import find_nvidia_smi

    return _stand_in_host() and find_nvidia_smi("535") is not None


def cpu_torch_folder() -> str:
    """Return the site-packages folder of a real CPU build of torch, as the tester names it."""
    return os.environ.get("ENVCHECK_TEST_CPU_TORCH", "")


def _cpu_torch() -> bool:
    return bool(cpu_torch_folder()) and Path(cpu_torch_folder(), "torch").is_dir()


def framework_python(release: str) -> str:
    """Return the Python of a real environment for smoke tests, as the tester names it: ENVCHECK_TEST_TF215=PATH."""
    return os.environ.get(f"ENVCHECK_TEST_{release.upper()}", "")


def _framework(release: str) -> bool:
    return _linux() and os.access(framework_python(release), os.X_OK)


def _package_index() -> bool:
    """Tell whether the index that pip is configured for answers; some test machines have no network."""
    import requests

    from envcheck.host.pip_settings import read_pip_settings
    from envcheck.matrix.refresh.index import ArtifactError, Connection, read_page

    try:
        settings = dataclasses.replace(
            read_pip_settings(os.environ), connect_timeout=20.0, read_timeout=60.0, retries=0
        )
        return bool(read_page(Connection(settings), "tensorflow-intel"))
    except (ArtifactError, requests.RequestException):
        return False


def find_python(version: str) -> str:
    """Find a Python of this minor version that starts: on PATH, or as pyenv keeps it; empty where there is none."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions").glob(
        f"{version}.*/bin/python"
    )
    for found in (shutil.which(f"python{version}"), *map(str, kept)):
        if (
            found
            and subprocess.run([found, "-c", "pass"], capture_output=True, check=False).returncode
            == 0
        ):
            return found
    return ""


def find_chromium() -> str | None:
    """Find a browser that draws pages without a screen."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


def _chromium() -> bool:
    return find_chromium() is not None


def _program(name: str) -> bool:
    return shutil.which(name) is not None


def _sshd() -> bool:
    programs = ("ip", "ssh", "ssh-keygen", "ansible-playbook", "/usr/sbin/sshd")
    beside = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:{Path(sys.executable).parent}"
    if not (_stand_in_host() and all(shutil.which(name, path=beside) for name in programs)):
        return False
    attempt = ["unshare", "--net", "--uts", "ip", "link", "add", "ecneed", "type", "bridge"]
    return subprocess.run(attempt, capture_output=True, check=False).returncode == 0


def find_ldconfig() -> str | None:
    """Find ldconfig, which an ordinary user's PATH often misses."""
    return shutil.which("ldconfig", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


SHELLS = ("sh", "bash", "zsh", "ksh", "busybox", "fish", "tcsh", "pwsh")

_CHECKS: dict[str, Callable[[], bool]] = {
    "linux": _linux,
    "posix": _posix,
    "root": _root,
    "c-compiler": _c_compiler,
    "loader-cache": _loader_cache,
    "mount-namespace": _mount_namespace,
    "stand-in-host": _stand_in_host,
    "capability-drop": _capability_drop,
    "real-nvidia-smi": _real_nvidia_smi,
    "cpu-torch": _cpu_torch,
    "package-index": _package_index,
    **{release: functools.partial(_framework, release) for release in FRAMEWORKS},
    "python-3.6": lambda: bool(find_python("3.6")),
    "chromium": _chromium,
    **{shell: functools.partial(_program, shell) for shell in SHELLS},
    "gpg": functools.partial(_program, "gpg"),
    "promtool": functools.partial(_program, "promtool"),
    "sshd": _sshd,
    "kubernetes": lambda: importlib.util.find_spec("kubernetes") is not None,
}


# Needs that an ordinary user never meets: the tests that have one are run by root alone.
OF_ROOT = {"root", "mount-namespace", "capability-drop", "stand-in-host", "real-nvidia-smi", "sshd"}


@functools.cache
def is_met(need: str) -> bool:
    """Tell whether this machine has what `need` names."""
    return _CHECKS[need]()
