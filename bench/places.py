"""Type what the doctor prints about broken environments, in the places where it is printed.

    python -m bench.places [--folder FOLDER] [--only PATTERN]

Places: an environment of venv with pip, one of uv without pip, and a prefix as conda makes it (a whole Python with
conda's records and pip; what is installed comes by pip, as no client is needed for it), each as root and as an ordinary
user. In each the same faults are made, the doctor is asked as a person asks it, and every command of its fixes is typed in a shell, one after
the other; then the real import is tried. A command counts as run when it exits as it is meant to, 0; one that needs
rights (sudo) or a person (an editor) is listed and not typed. The packages come from the index that pip is configured
for. Prints a table; exits 1 where a command could not be typed or the import still fails.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOBODY = 65534
PACKAGES = ("onnxruntime", "jax")
_SECONDS = 300
TOOLS = ("pip", "uv", "conda")
UV = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") or "uv"


@dataclass
class Place:
    """An environment of one tool, owned by one user."""

    name: str
    tool: str  # of TOOLS
    user: int  # 0: root
    folder: Path = Path()

    @property
    def python(self) -> str:
        """Return the interpreter of the environment."""
        return str(self.folder / "bin" / "python")


@dataclass
class Typed:
    """What came of the commands that were printed about a fault."""

    printed: int = 0
    left_out: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    is_mended: bool = False


def _site(place: Place) -> Path:
    return next((place.folder / "lib").glob("python3*")) / "site-packages"


def _remove(name: str) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        for path in _site(place).glob(name):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    return make


def _write(name: str, text: str) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        path = next(_site(place).glob(name))
        path.unlink()  # it may be a hard link of the installer's cache
        path.write_text(text, encoding="utf-8")

    return make


def _release(requirement: str) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        _run(place, [UV, "pip", "install", "-q", "--python", place.python, requirement], check=True)

    return make


FAULTS: dict[str, Callable[[Place], None]] = {
    "a module is missing": _remove("numpy/__init__.py"),
    "a compiled module is cut off": _write("onnxruntime/capi/onnxruntime_pybind11_state*.so", ""),
    "a module holds nothing of its own": _write("jax/_src/config.py", "<<<<<<< HEAD\n"),
    "a requirement is gone": _remove("ml_dtypes*"),
    "two releases that do not fit": _release("jaxlib==0.4.30"),
    "an older NumPy": _release("numpy==1.24.4"),
}


def _run(
    place: Place, command: Sequence[str], *, check: bool = False, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command as the user of a place, with nothing of this shell but its index settings."""
    kept = ("PATH", "SSL_CERT_FILE", "PIP_", "UV_", "REQUESTS_CA_BUNDLE")
    environ = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    home = place.folder.parent
    environ |= {
        "HOME": str(home),
        "UV_CACHE_DIR": str(home / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        command,
        env=environ,
        cwd=cwd or home,
        user=place.user,
        group=place.user,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=check,
        timeout=_SECONDS,
    )


def _make(place: Place, folder: Path) -> None:
    """Make the environment of a place, owned by its user."""
    home = folder / place.name
    home.mkdir()
    os.chown(home, place.user, place.user)
    place.folder = home / ".venv"
    base = shutil.which("python3", path="/usr/bin") or sys.executable  # that every user may start
    if place.tool == "uv":
        _run(place, [UV, "venv", "-q", "--python", base, str(place.folder)], check=True)
    elif place.tool == "conda":
        _make_prefix(place)
    else:
        _run(place, [base, "-m", "venv", str(place.folder)], check=True)
    _run(place, [UV, "pip", "install", "-q", "--python", place.python, *PACKAGES], check=True)


def _leave_out(folder: str, names: list[str]) -> set[str]:
    """Leave out what no place needs, and what the Python of this program has besides pip."""
    if Path(folder).name == "site-packages":
        return {name for name in names if not name.startswith("pip")}
    wide = shutil.ignore_patterns("test", "tests", "idlelib", "__pycache__", "config-3*", "*.a")
    return wide(folder, names)


def _make_prefix(place: Place) -> None:
    """Make what conda makes: a Python of its own, and a record of each package that it installed."""
    shutil.copytree(sys.base_prefix, place.folder, symlinks=True, ignore=_leave_out)
    site, records = _site(place), place.folder / "conda-meta"
    # as conda does: it looks for its own libraries below the prefix, wherever that lies
    program = (place.folder / "bin" / "python3").resolve()
    built = f"{sys.base_prefix}/lib\0".encode()
    program.write_bytes(
        program.read_bytes().replace(built, b"$ORIGIN/../lib".ljust(len(built), b"\0"))
    )
    pip = next(site.glob("pip-*.dist-info"))
    (pip / "INSTALLER").write_text("conda\n", encoding="utf-8")
    records.mkdir()
    (records / "history").write_text("==> 2026-11-28 06:00:00 <==\n", encoding="utf-8")
    versions = {
        "python": platform.python_version(),
        "pip": pip.name.split("-")[1].removesuffix(".dist"),
    }
    for name, version in versions.items():
        files = [str(path.relative_to(place.folder)) for path in site.glob("pip*/**/*")]
        record: dict[str, object] = {"name": name, "version": version, "build": "0"}
        record |= {"channel": "conda-forge", "subdir": "linux-64"}
        record["files"] = files if name == "pip" else ["bin/python"]
        text = json.dumps({**record, "build_number": 0, "depends": []})
        (records / f"{name}-{version}-0.json").write_text(text, encoding="utf-8")
    for path in (place.folder, *place.folder.rglob("*")):
        os.chown(path, place.user, place.user, follow_symlinks=False)


def _install_program(folder: Path) -> str:
    """Install this checkout where every user may start it, and return its program."""
    made = folder / "program"
    base = shutil.which("python3", path="/usr/bin") or sys.executable
    for command in (
        [base, "-m", "venv", str(made)],
        [str(made / "bin" / "python"), "-m", "pip", "install", "-q", f"{ROOT}[plan]"],
    ):
        subprocess.run(command, check=True, timeout=_SECONDS)
    return str(made / "bin" / "envcheck")


def _list_commands(printed: str) -> list[str]:
    """List the commands of a text, as one copies them; what undoes one is none of them."""
    lines = (line.strip() for line in printed.splitlines())
    return list(dict.fromkeys(line[2:] for line in lines if line.startswith("$ ")))


def _type(place: Place, envcheck: str, *options: str) -> Typed:
    """Ask the doctor, type what it prints, and try the import.

    With -v each step is typed by itself; without, what stands in the end: `envcheck fix`, with the
    --yes that it asks for where nobody is at a terminal.
    """
    asked = [envcheck, "doctor", "--env", str(place.folder), "--expect", "cpu", *options]
    found = Typed()
    for line in _list_commands(_run(place, asked).stdout):
        is_ours = line.startswith(envcheck)
        if is_ours and options:
            continue
        found.printed += 1
        if line.startswith("sudo "):
            found.left_out.append(line)
            continue
        ended = _run(place, ["sh", "-c", f"{line} --yes" if is_ours else line])
        if ended.returncode:
            found.failed.append(f"{line}: {(ended.stderr or ended.stdout).strip()[-300:]}")
    code = "import onnxruntime, jax; jax.numpy.ones(3).sum()"
    found.is_mended = _run(place, [place.python, "-c", code]).returncode == 0
    return found


def main() -> int:
    """Make the places, break them, type what is printed, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--folder", type=Path, help="where the environments are made")
    parser.add_argument("--only", default="*", help="a pattern for PLACE/FAULT")
    asked = parser.parse_args()
    users = {"root": 0, "user": NOBODY} if os.geteuid() == 0 else {"user": os.geteuid()}
    is_good = True
    with tempfile.TemporaryDirectory(prefix="envcheck-places-", dir=asked.folder) as name:
        folder = Path(name)
        folder.chmod(0o755)
        program = _install_program(folder)
        print("| place | fault | typed | printed | failed | left to a person | import after |")
        print("|---|---|---|---|---|---|---|")
        for tool in TOOLS:
            for user, number in users.items():
                for index, (fault, make) in enumerate(FAULTS.items()):
                    if not fnmatch.fnmatch(f"{tool}-{user}/{fault}", asked.only):
                        continue
                    place = Place(f"{tool}-{user}-{index}", tool, number)
                    _make(place, folder)
                    for way, options in (("its last line", ()), ("each step", ("-v",))):
                        make(place)
                        found = _type(place, program, *options)
                        is_good = is_good and found.is_mended and not found.failed
                        ends = "works" if found.is_mended else "fails"
                        counts = (found.printed, len(found.failed), len(found.left_out))
                        row = (f"{tool}, {user}", fault, way, *counts, ends)
                        print("| " + " | ".join(map(str, row)) + " |", flush=True)
                        for line in found.failed:
                            print(f"  {line}", file=sys.stderr, flush=True)
                    shutil.rmtree(folder / place.name)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
