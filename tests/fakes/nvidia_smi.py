"""Get the real nvidia-smi of a driver branch from Debian's non-free component, and keep it in the build folder.

It is the one piece of NVIDIA software that the stand-in hosts run, against the stand-in libnvidia-ml.
"""

from __future__ import annotations

import functools
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.fakes.build import CACHE

# Driver branch -> Debian release and package that carry its nvidia-smi.
_PACKAGES = {
    "470": ("bookworm", "nvidia-tesla-470-smi"),
    "535": ("bookworm", "nvidia-smi"),
    "550": ("trixie", "nvidia-smi"),
}
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


@functools.cache
def find_nvidia_smi(branch: str) -> Path | None:
    """Return the nvidia-smi of "470", "535" or "550", fetched on first use; None where it cannot be had."""
    kept = CACHE / f"nvidia-smi-{branch}"
    if not kept.exists() and platform.machine() == "x86_64":
        with tempfile.TemporaryDirectory() as folder:
            _fetch(Path(folder), *_PACKAGES[branch], kept)
    return kept if kept.exists() else None


def _fetch(folder: Path, suite: str, package: str, kept: Path) -> None:
    mirror = _mirror()
    if mirror is None or not all(shutil.which(tool) for tool in ("apt-get", "dpkg-deb")):
        return
    sources = folder / "one.sources"
    sources.write_text(
        f"Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: non-free\nSigned-By: {_KEYRING}\n"
    )
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "cache" / "archives" / "partial").mkdir(parents=True)
    if not (_apt(folder, "update") and _apt(folder, "download", package)):
        return
    for archive in folder.glob("*.deb"):
        subprocess.run(
            ["dpkg-deb", "-x", str(archive), str(folder / "tree")], check=False, timeout=30
        )
    found = sorted((folder / "tree").glob("usr/lib/nvidia/*/nvidia-smi"))
    if found:
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(found[0], kept)


def _mirror() -> str | None:
    """Return the Debian mirror this machine uses, from its own apt sources."""
    for path in (
        *Path("/etc/apt").glob("sources.list"),
        *sorted(Path("/etc/apt/sources.list.d").glob("*.sources")),
    ):
        match = re.search(
            r"(?:^URIs:\s*|^deb\s+(?:\[[^]]*\]\s*)?)(\S+/debian)/?\s",
            path.read_text(),
            re.MULTILINE,
        )
        if match:
            return match.group(1)
    return None


def _apt(folder: Path, *arguments: str) -> bool:
    options = {
        "Dir::Etc::sourcelist": str(folder / "one.sources"),
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": str(folder / "lists"),
        "Dir::Cache": str(folder / "cache"),
        "APT::Sandbox::User": "root",
    }
    argv = [
        "apt-get",
        "-qq",
        *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
    ]
    try:
        done = subprocess.run(
            [*argv, *arguments], cwd=folder, capture_output=True, timeout=40, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
