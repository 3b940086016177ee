"""A folder of wheels for a machine without a network: filled for a plan, judged on that machine."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from packaging.version import Version

from envcheck.host.file_changes import write_atomically
from envcheck.host.process import run_lines
from envcheck.host.protocol import Variables
from envcheck.model import Environment, Plan, RequirementSet, UserError, dataclass
from envcheck.model.codec import CodecError, decode
from envcheck.plan.candidates import machine_glibc, python_minor
from envcheck.plan.data import plan_data
from envcheck.plan.uv_project import compile_plan, only_environment
from envcheck.plan.verify import UnreachableError, find_uv, index_options, platform_name
from envcheck.rules.context import Context
from envcheck.rules.requirements import lowest_glibc

MANIFEST, PINS = "wheelhouse.json", "requirements.txt"
SCHEMA = "envcheck/wheelhouse/1"
_SECONDS = 7200.0  # for the download; a GPU build is gigabytes over a slow line
_HASH = r"--hash=sha256:([0-9a-f]{64})"
_TAIL = 3  # lines of pip that say why it failed


@dataclass
class Wheel:
    """A file of the folder."""

    name: str
    sha256: str
    bytes: int


@dataclass
class Wheelhouse:
    """What a folder was made for, as its manifest states it."""

    schema: str
    requirements: tuple[str, ...]  # as they were asked for
    goal: str  # gpu, cpu
    python: str  # 3.12
    platform: str  # linux_x86_64
    glibc: str  # the lowest that every wheel runs on; "" where none is needed
    machine: Mapping[str, str]  # the driver and GPUs that it was planned for
    wheels: tuple[Wheel, ...]

    @property
    def size(self) -> int:
        """Return the bytes of all wheels."""
        return sum(wheel.bytes for wheel in self.wheels)

    def find_obstacle(self, context: Context) -> str:
        """Say why its wheels do not install on a machine; "" where they do.

        The driver and the GPU are judged with the releases, as for every plan.
        """
        here = python_minor(context), context.platform
        if (self.python, self.platform) != here:
            made = f"made for Python {self.python} on {self.platform}"
            return f"{made}; this is Python {here[0]} on {here[1]}"
        glibc = machine_glibc(context)
        if self.glibc and glibc and Version(glibc) < Version(self.glibc):
            return f"its wheels need glibc {self.glibc} or newer; this machine has {glibc}"
        return ""


def read_manifest(folder: str, document: object) -> Wheelhouse:
    """Read the manifest of a folder, all of whose wheels must be there; raises UserError."""
    try:
        made = decode(Wheelhouse, document)
    except CodecError as error:
        raise UserError(f"{folder} holds no wheelhouse: {MANIFEST}: {error}.") from None
    missing = [wheel.name for wheel in made.wheels if not Path(folder, wheel.name).is_file()]
    if missing:
        raise UserError(
            f"{folder} lacks {missing[0][:200]}: copy the whole folder that `plan --download` made."
        )
    return made


def download(
    plan: Plan,
    folder: Path,
    environ: Variables,
    seconds: float,
    heard: Callable[[str], object],
) -> Wheelhouse:
    """Fill a folder with the wheels of a plan: uv pins them with their hashes, pip downloads them.

    `seconds` are uv's. `heard` gets each line of pip. Raises UserError for a folder that holds
    something else, ValueError for a plan that this cannot hold, and as `compile_plan` does.
    """
    made = only_environment(plan)
    own = (MANIFEST, PINS)
    others = [name for name in _list_names(folder) if name not in own and name[-4:] != ".whl"]
    if others:
        raise UserError(f"{folder} holds {others[0]}: name a new folder with --download.")
    beside: tuple[str, ...] = ()
    if made.pip_too_old:
        beside = (plan_data().bundled_pip.last.get(made.python, "pip"),)
    pins = compile_plan(plan, environ, seconds, beside=beside)
    (folder / MANIFEST).unlink(missing_ok=True)  # it is whole, or has no manifest
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / PINS, _HEAD + pins)
    _run_pip(made, folder, environ, heard)
    wheels = _list_wheels(folder, frozenset(re.findall(_HASH, pins)))
    count = len(re.findall(r"^\S+==", pins, re.MULTILINE))
    if len(wheels) != count:
        raise UnreachableError(f"pip left {len(wheels)} of {count} wheels in {folder}")
    return Wheelhouse(
        SCHEMA,
        plan.requirements,
        plan.goal,
        made.python,
        made.platform,
        max(map(_read_glibc, wheels), key=lambda glibc: Version(glibc or "0"), default=""),
        plan.machine,
        wheels,
    )


_HEAD = f"""\
# By hand: python -m pip install --no-index --find-links . --require-hashes -r {PINS}
"""


def _list_names(folder: Path) -> list[str]:
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is not a folder: name a new one with --download.")
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def _run_pip(
    made: Environment, folder: Path, environ: Variables, heard: Callable[[str], object]
) -> None:
    """Download what is pinned, from the indexes that uv was asked with."""
    _, variables = index_options(RequirementSet(()), environ)
    extra = [item.index for item in made.sets if item.index]
    for name in ("UV_INDEX", "UV_EXTRA_INDEX_URL"):
        extra += [re.sub(r"^[\w-]+=", "", url) for url in variables.get(name, "").split()]
    settings = {
        **environ,
        "PIP_INDEX_URL": variables.get("UV_DEFAULT_INDEX", ""),
        "PIP_EXTRA_INDEX_URL": " ".join(dict.fromkeys(extra)),
        "PIP_FIND_LINKS": variables.get("UV_FIND_LINKS", "").replace(",", " "),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_CONSTRAINT": "",  # the pins keep to them
    }
    tail: list[str] = []

    def hear(line: str) -> None:
        tail.append(line)
        heard(line)

    pip: tuple[str, ...] = (sys.executable, "-m", "pip")
    if not find_spec("pip"):  # beside this program: then the one that uv brings
        pip = (find_uv(environ), "tool", "run", "pip")
    argv = (*pip, *_download_options(made, folder))
    ended = run_lines(
        argv, {name: value for name, value in settings.items() if value}, hear, seconds=_SECONDS
    )
    if ended.code != 0:
        reasons = [line for line in tail if line.startswith("ERROR: ")] or tail
        why = " ".join(line.removeprefix("ERROR: ").strip() for line in reasons[-_TAIL:])
        raise UnreachableError(f"pip did not download all of it: {why[:400] or ended.detail}")


def _download_options(made: Environment, folder: Path) -> tuple[str, ...]:
    platforms = (part for tag in list_tags(made) for part in ("--platform", tag))
    return (
        "download",
        "--dest",
        str(folder),
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
        "--requirement",
        str(folder / PINS),
        "--python-version",
        made.python,
        "--implementation",
        "cp",
        *platforms,
    )


_LEGACY = ("manylinux2014", "manylinux2010", "manylinux1", "linux")
_OLDEST = 5  # of glibc 2: what manylinux1 means
_MACOS = "13.0"  # that uv resolves for, where the wheels need none that is newer


def list_tags(made: Environment) -> tuple[str, ...]:
    """List the platform tags that the machine of a plan takes, the newest first.

    pip derives them from one tag for macOS alone.
    """
    system, _, machine = made.platform.partition("_")
    if system == "macosx":
        return (
            f"macosx_{max(made.macos or '0', _MACOS, key=Version).replace('.', '_')}_{machine}",
        )
    glibc = re.search(r"manylinux_2_(\d+)", platform_name(made))
    if glibc is None:
        return (made.platform,)
    numbered = (f"manylinux_2_{minor}" for minor in range(int(glibc[1]), _OLDEST - 1, -1))
    return tuple(f"{name}_{machine}" for name in (*numbered, *_LEGACY))


def _list_wheels(folder: Path, hashes: frozenset[str]) -> tuple[Wheel, ...]:
    """List the wheels that are pinned; one of an earlier download is no part of it."""
    found = []
    for path in sorted(folder.glob("*.whl")):
        digest = hashlib.sha256()
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
        found.append(Wheel(path.name, digest.hexdigest(), path.stat().st_size))
    return tuple(wheel for wheel in found if wheel.sha256 in hashes)


def _read_glibc(wheel: Wheel) -> str:
    """Read the lowest glibc of a wheel: demo-1-cp311-cp311-manylinux_2_28_x86_64.whl -> 2.28."""
    return lowest_glibc(wheel.name.removesuffix(".whl").rpartition("-")[2].split("."))
