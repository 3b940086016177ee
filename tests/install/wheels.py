"""Small wheels made on the spot, environments made of them, and what an environment holds."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

PARTS = ("demo_one", "demo_two")  # what counts as one installation: both of one version, or a mix
_ASKS = "import demo_one, demo_two; print(demo_one.VERSION, demo_two.VERSION)"


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    needs: tuple[str, ...] = (),
    *,
    ballast: int = 0,
    more: Mapping[str, bytes] = MappingProxyType({}),
) -> Path:
    """Write a wheel with one module and `more` files; `ballast` bytes of it cannot be compressed."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {item}\n" for item in needs)
    files = {
        f"{name}/__init__.py": f'VERSION = __version__ = "{version}"\n'.encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **({f"{name}/ballast.bin": os.urandom(ballast)} if ballast else {}),
        **more,
    }
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, data in files.items():
            archive.writestr(inside, data)
        record = "".join(_record(inside, data) for inside, data in files.items())
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return path


def _record(inside: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{inside},sha256={digest},{len(data)}\n"


def make_parts(folder: Path, version: str, ballast: int = 0) -> None:
    """Write the wheels of one version of both parts."""
    for name in PARTS:
        make_wheel(folder, name, version, ballast=ballast)


def site_packages(environment: Path) -> Path:
    return environment / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def make_environment(folder: Path, wheels: Path, version: str) -> None:
    """Make an environment that holds both parts, an editable install, a link and a read-only file."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = site_packages(folder)
    for name in PARTS:
        with zipfile.ZipFile(wheels / f"{name}-{version}-py3-none-any.whl") as archive:
            archive.extractall(packages)
    source = folder.parent / "editable-source"
    source.mkdir(exist_ok=True)
    (source / "edited.py").write_text("WHERE = __file__\n")
    (packages / "__editable__.edited.pth").write_text(f"{source}\n")
    (packages / "link.txt").symlink_to("demo_one/__init__.py")
    (packages / "kept.txt").write_text("read only\n")
    (packages / "kept.txt").chmod(0o444)


def make_environment_with_pip(folder: Path, *wheels: Path, is_own: bool = False) -> None:
    """Make an environment with wheels and a pip: a link to the one that runs here, or its own.

    Its own is the pip of ensurepip, unpacked: to install it takes ten times as long, and what it
    imports is compiled at its first start.
    """
    create = [sys.executable, "-m", "venv", str(folder)]
    bundled = _find_bundled_pip()
    running = () if is_own else _find_running_pip()
    subprocess.run([*create, "--without-pip"] if bundled or running else create, check=True)
    for path in running:
        (site_packages(folder) / path.name).symlink_to(path)
    for wheel in (*(() if running else bundled), *wheels):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site_packages(folder))


def _find_bundled_pip() -> list[Path]:
    found = importlib.util.find_spec("ensurepip")
    if found is None or not found.origin:
        return []
    return list(Path(found.origin).parent.glob("_bundled/pip-*.whl"))


def _find_running_pip() -> tuple[Path, ...]:
    """Return the pip of this Python, with its bytecode, and its metadata; () without one."""
    found = importlib.util.find_spec("pip")
    if found is None or not found.origin:
        return ()
    package = Path(found.origin).parent
    return (package, *package.parent.glob("pip-*.dist-info"))


def held_by(environment: Path) -> str:
    """Return the version an environment holds, asked of its own Python: "1.0", "2.0", "none", or "mix: ..."."""
    if not environment.exists():
        return "none"
    asked = subprocess.run(
        [environment / "bin/python", "-B", "-c", _ASKS], capture_output=True, text=True, check=False
    )
    versions = asked.stdout.split()
    if (
        asked.returncode == 0
        and len(set(versions)) == 1
        and not (environment / ".envcheck-incomplete").exists()
    ):
        return versions[0]
    return (
        f"mix: {asked.stdout} {asked.stderr} {sorted(path.name for path in environment.iterdir())}"
    )


def tree_hash(folder: Path) -> str:
    """Hash every name, mode, link and content below a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(f"{path.relative_to(folder)} {path.lstat().st_mode}\n".encode())
        if path.is_symlink():
            digest.update(os.fsencode(path.readlink()))
        elif path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()
