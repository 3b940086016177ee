"""Break copies of real environments, and compare what the doctor says with what the import says.

    python bench/broken_environments.py [--bases FOLDER] [--base NAME ...] [--seed 15] [--only
    PATTERN] [--limit N]
        [--jobs N] [--results FILE] [--resume] [--imports FILE] [--fix COUNT] [--no-import]
        [--static] [--peers COUNT] [--json FILE] [--list]

The bases are built once into a folder, with uv; a base that the index does not have is listed as
unavailable. A case is a copy of a base by hard links (files are replaced, never written in place),
broken by one rule of bench/breakages.py, and deleted afterwards. The judge is the real import with
a small computation: it dies, it works, or it limps (import and matmul work, training a layer
fails), which counts neither way. `--fix` runs `envcheck fix --yes` on the first so many that die
and can be mended, at once, and imports again. `--peers` asks pip check, cuda-doctor 0.2.0 and
env-doctor 0.3.5 about the first so many that die too, and keeps all that they print in the results. One rule grades them, envcheck
and the import's last line, by the lines that a tool does not print about the healthy base: it
names a breakage when one of them has the distribution, file or variable that was broken, and says
broken when one of them is an error or its exit status is neither 0 nor that of the healthy base.
Prints tables in Markdown; exits 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import fnmatch
import functools
import importlib.metadata
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from packaging.utils import canonicalize_name  # noqa: E402

from bench.breakages import (  # noqa: E402
    BASES,
    Base,
    Breakage,
    Generator,
    Installed,
    Step,
    observe,
    read_installed,
)

Command = list[str | Path]
Done = subprocess.CompletedProcess[str]
if TYPE_CHECKING:
    from typing_extensions import Self

FRAMEWORKS = ("tensorflow", "torch", "jax", "onnxruntime")
STARTING = {"start": "sitecustomize.py", "start-pth": "at-start.pth"}
DIES, LIMPS, WORKS = "dies", "limps", "works"
PEERS = {"cuda-doctor": ("cuda-doctor==0.2.0", "cuda_doctor.cli", "diagnose"),
         "env-doctor": ("env-doctor==0.3.5", "env_doctor.cli", "check")}  # fmt: skip
ERROR_LINE = re.compile(r"(?i)^\W*(\w*error\b|\w*exception\b|fail|fatal|critical|traceback)|[❌✗]")
ONNX_PRODUCT = (
    "08073a550a110a01610a016212016322064d61744d756c1201675a130a0161120e0a0c080112080a0208010a0208025a130a0162"
    "120e0a0c080112080a0208020a02080162130a0163120e0a0c080112080a0208010a0208014202100d"
)
# What each module must do: the import and a matmul, then what people do next.
COMPUTE = {
    "tensorflow": (
        """
import tensorflow as tf
product = tf.matmul([[1.0, 2.0]], [[3.0], [4.0]])
if tf.__version__.startswith("1."):
    assert tf.Session().run(product) == 11
else:
    assert float(product[0, 0]) == 11
"""
    ),
    "torch": (
        """
import torch
assert float(torch.tensor([[1.0, 2.0]]) @ torch.tensor([[3.0], [4.0]])) == 11
"""
    ),
    "jax": (
        """
import jax.numpy
assert float((jax.numpy.array([[1.0, 2.0]]) @ jax.numpy.array([[3.0], [4.0]]))[0, 0]) == 11
"""
    ),
    "onnxruntime": (
        f"""
import numpy, onnxruntime
session = onnxruntime.InferenceSession(bytes.fromhex("{ONNX_PRODUCT}"), providers=["CPUExecutionProvider"])
given = {{"a": numpy.array([[1, 2]], dtype="float32"), "b": numpy.array([[3], [4]], dtype="float32")}}
assert float(session.run(["c"], given)[0][0, 0]) == 11
"""
    ),
    "torchvision": (
        """
import torchvision
assert torchvision.ops.nms(torch.tensor([[0.0, 0, 1, 1]]), torch.tensor([1.0]), 0.5).tolist() == [0]
"""
    ),
    "tensorflow_text": (
        """
import tensorflow_text
assert tensorflow_text.WhitespaceTokenizer().tokenize(["a b"]).to_list() == [[b"a", b"b"]]
"""
    ),
}
USE = {
    "tensorflow": (
        """
if not tf.__version__.startswith("1."):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse")
    model.fit(tf.ones((2, 2)), tf.ones((2, 1)), verbose=0)
else:
    tf.keras.layers.Dense(1)(tf.ones((1, 2)))
"""
    ),
    "torch": (
        """
layer = torch.nn.Linear(2, 1)
layer(torch.ones(1, 2)).sum().backward()
torch.optim.SGD(layer.parameters()).step()
"""
    ),
    "jax": (
        """
import jax
assert float(jax.jit(jax.grad(lambda x: x * x))(3.0)) == 6
"""
    ),
}


@dataclass(frozen=True)
class Judged:
    """What the real import did: dies, limps or works, the last line that it printed, what died."""

    outcome: str
    line: str = ""
    module: str = ""


@dataclass(frozen=True)
class Output:
    """What a tool printed about a copy, line by line without the path of the copy, and its exit status."""

    exit: int
    lines: list[str]

    def grade(self, healthy: Output, names: tuple[str, ...]) -> dict[str, Any]:
        """Return whether this names what was broken, and whether it says that something is."""
        new = [line for line in self.lines if line not in healthy.lines]
        is_status_new = self.exit not in {0, healthy.exit}
        return {
            "names": is_named("\n".join(new), names),
            "says broken": is_status_new or any(map(ERROR_LINE.search, new)),
            "new": new,
            **dataclasses.asdict(self),
        }


@dataclass(frozen=True)
class Options:
    """What one run is asked for, and where its things are."""

    bases: Path
    envcheck: tuple[str, ...]
    proves: bool = True
    static: bool = False  # without imports too

    @property
    def uv(self) -> str:
        """Return uv's program."""
        from envcheck.plan.verify import find_uv

        return find_uv(os.environ)


@functools.cache
def pip_settings() -> dict[str, str]:
    """Return the package sources that pip is configured for, as uv's variables: uv does not read pip's files."""
    argv = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    names = {
        "index-url": "UV_DEFAULT_INDEX",
        "extra-index-url": "UV_EXTRA_INDEX_URL",
        "find-links": "UV_FIND_LINKS",
    }
    found = dict(re.findall(r"^(?:global|install|:env:)\.([a-z-]+)='(.*)'$", listed, re.MULTILINE))
    usable = {name: " ".join(filter(_is_reachable, value.split())) for name, value in found.items()}
    given = {variable: usable[name] for name, variable in names.items() if usable.get(name)}
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_HTTP_TIMEOUT": "180", **given}


def _is_reachable(place: str) -> bool:
    return not place.startswith(("/", "file://")) or Path(place.removeprefix("file://")).is_dir()


def run(argv: Iterable[str | Path], folder: Path, seconds: float = 600.0, **more: str) -> Done:
    """Run a program in a folder with this run's variables, and no environment of ours activated."""
    hidden = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME")
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    variables = {**pip_settings(), **variables, "TF_CPP_MIN_LOG_LEVEL": "1", **more}
    texts = [str(item) for item in argv]
    try:
        return subprocess.run(
            texts, cwd=folder, env=variables, capture_output=True, text=True, errors="replace", timeout=seconds,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(texts, 124, "", f"still running after {seconds:.0f} s")


# -- the bases


def build(base: Base, options: Options) -> str:
    """Build a base unless it is there; return why it cannot be had, or ""."""
    from envcheck.host.prerequisites import find_python

    folder = options.bases / base.name
    if (folder / ".ready").exists():
        return ""
    python = find_python(base.python, os.environ)
    if not python:
        return f"no Python {base.python} here"
    shutil.rmtree(folder, ignore_errors=True)
    options.bases.mkdir(parents=True, exist_ok=True)
    if base.system:  # its packages lie in a Python of its own, below an empty environment
        make_system(Path(python), folder)
        create: Command = []
        install: Command = [*_uv_install(options, folder / "python"), "--break-system-packages"]
    elif base.sources:  # with that Python's own pip: uv builds sources with a newer Python
        create = [python, "-m", "venv", base.name]
        install = [folder / "bin" / "python", "-m", "pip", "install", "-q"]
    else:
        create = [options.uv, "venv", "-q", "--python", python, base.name]
        install = _uv_install(options, folder)
    steps: list[Command] = [create, [*install, *base.requirements]]
    for argv in filter(None, steps):
        done = run(argv, options.bases, 1800)
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            return _last_line(done.stderr)
    (folder / ".ready").touch()
    return ""


def make_system(python: Path, folder: Path) -> None:
    """Copy a Python without its packages by hard links, and make an environment that shows its packages."""
    own = folder / "python"
    folder.mkdir()
    subprocess.run(["cp", "-al", python.resolve().parents[1], own], check=True)
    for path in own.glob("lib/python3.*/site-packages/*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    program = own / "bin" / python.resolve().name
    options = ("--without-pip", "--system-site-packages")
    subprocess.run([program, "-m", "venv", *options, folder], check=True)
    for name in ("python", "python3", program.name):
        link = folder / "bin" / name
        link.unlink()
        link.symlink_to(Path("..", "python", "bin", program.name))


def _uv_install(options: Options, folder: Path) -> Command:
    argv: Command = [
        options.uv,
        "pip",
        "install",
        "-q",
        "--compile-bytecode",
        "--only-binary",
        ":all:",
    ]
    return [*argv, "--link-mode", "hardlink", "--python", folder / "bin" / "python3"]


def inspect(base: Base, options: Options) -> Installed:
    """Read what a base holds; what its import loads is kept beside the bases."""
    kept, folder = options.bases / ".observed" / f"{base.name}.json", options.bases / base.name
    if kept.exists():
        return read_installed(base, folder, json.loads(kept.read_text()))
    held = observe(base, folder)
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps(held.loaded))
    return held


def published_releases(options: Options) -> Callable[[str, str], list[str]]:
    """Return what asks the index for the releases of a distribution with a wheel for a Python, each question once."""
    kept = options.bases / ".published.json"
    known: dict[str, list[str]] = json.loads(kept.read_text()) if kept.exists() else {}

    def ask(name: str, python: str) -> list[str]:
        key = f"{name} {python}"
        if key not in known:
            known[key] = list_releases(name, python)
            kept.write_text(json.dumps(known, indent=1, sort_keys=True))
        return known[key]

    return ask


def list_releases(name: str, python: str) -> list[str]:
    """List the releases of a distribution that have a wheel for a Python on this machine, the newest first."""
    from packaging.tags import compatible_tags, cpython_tags, platform_tags
    from packaging.version import Version

    from envcheck.host.pip_settings import read_pip_settings
    from envcheck.matrix.refresh.index import Connection, read_page

    settings = read_pip_settings(os.environ)
    number, platforms = tuple(map(int, python.split("."))), list(platform_tags())
    tags = {*cpython_tags(number, platforms=platforms)}
    tags |= {*compatible_tags(number, f"cp{python.replace('.', '')}", platforms)}
    usable = {str(tag) for tag in tags}
    found = set()
    for wheel in read_page(Connection(settings), name) or ():
        parts = itertools.product(wheel.name.interpreters, wheel.name.abis, wheel.name.tags)
        if not wheel.yanked and any("-".join(part) in usable for part in parts):
            found.add(wheel.name.version)
    return sorted(found, key=Version, reverse=True)


# -- one case


class Copy:
    """A copy of a base by hard links that is an environment of its own, with a working directory beside it."""

    def __init__(self, options: Options, breakage: Breakage) -> None:
        self._options = options
        self.breakage = breakage
        self.top = options.bases / ".copies" / f"{os.getpid()}-{breakage.id.replace('/', '-')}"
        self.folder = self.top / "env"
        self.work = self.top / "work"

    @property
    def python(self) -> Path:
        """Return its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def site(self) -> Path:
        """Return its site-packages, or those of the Python below that it shows."""
        below = self.folder / "python" if (self.folder / "python").is_dir() else self.folder
        return next(below.glob("lib/python3.*/site-packages"))

    def hide_path(self, text: str) -> str:
        """Remove the path of the copy, which holds the name of its base, from what a tool printed."""
        shown = str(self.top)
        return text.replace(shown, "").replace(shown.replace(str(Path.home()), "~", 1), "")

    def __enter__(self) -> Self:
        """Make the copy, and break it."""
        shutil.rmtree(self.top, ignore_errors=True)
        self.work.mkdir(parents=True)
        source = self._options.bases / self.breakage.base
        subprocess.run(["cp", "-al", source, self.folder], check=True)
        for path in (*self.folder.glob("bin/*"), self.folder / "pyvenv.cfg"):
            if path.is_file() and not path.is_symlink():
                _replace(
                    path, path.read_bytes().replace(str(source).encode(), str(self.folder).encode())
                )
        for name in self.breakage.files:
            path = self.work / name
            path.parent.mkdir(exist_ok=True)
            path.write_text('"""A script of mine."""\n\nVALUE = 1\n')
        for step in self.breakage.steps:
            self._do(step)
        return self

    def __exit__(self, *_: object) -> None:
        """Delete it."""
        shutil.rmtree(self.top, ignore_errors=True)

    def run(self, argv: Iterable[str | Path], seconds: float = 600.0, **more: str) -> Done:
        """Run a program in its working directory, with the variables of its breakage."""
        places = {
            "{bases}": str(self._options.bases),
            "{libstdcxx}": str(self._options.bases / ".libstdcxx"),
        }
        given = {**more}
        for name, value in self.breakage.variables:
            given[name] = functools.reduce(
                lambda text, place: text.replace(*place), places.items(), value
            )
        return run(argv, self.work, seconds, **given)

    def _do(self, step: Step) -> None:
        path = self.site / step.subject
        if step.what == "delete":
            path.unlink()
        elif step.what in {"truncate", "empty"}:
            size = path.stat().st_size // 2 if step.what == "truncate" else 0
            _replace(path, path.read_bytes()[:size])
        elif step.what in {"zeros", "marker", "other"}:
            self._garble(step.what, *(self.site / name for name in step.subject.split()))
        elif step.what == "forget":
            found = importlib.metadata.distributions(path=[str(self.site)])
            kept = next(
                item for item in found if canonicalize_name(item.metadata["Name"]) == step.subject
            )
            shutil.rmtree(vars(kept)["_path"])
        elif step.what in STARTING:
            (self.site / STARTING[step.what]).write_text(step.subject + "\n")
        elif step.what in {"lack", "start-other", "front", "front-computed", "foreign"}:
            self._misplace(step)
        elif step.what in {"stash", "extra", "second"}:
            self._leave(step.what, *step.subject.split())
        elif step.what == "mark":
            (self.folder / ".envcheck-incomplete").touch()
        elif step.what == "interrupt":
            self._interrupt(*step.subject.split())
        else:
            self._install(step)

    def _install(self, step: Step) -> None:
        linked = ["--link-mode", "hardlink"] if step.what == "install" else []
        done = run([*self._installer("uv", step.what), *linked, step.subject], self.work, 1200)
        if done.returncode:
            raise RuntimeError(f"{step.what} {step.subject}: {_last_line(done.stderr)}")

    def _misplace(self, step: Step) -> None:
        """Change its interpreter, or where that one finds a package."""
        if step.what == "lack":
            Path(self._own_interpreter(), "lib-dynload", step.subject).unlink()
        elif step.what == "start-other":
            self._start_other(step.subject)
        elif step.what in {"front", "front-computed"}:
            folder = self.top / "front"
            code = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
            if step.what == "front-computed":
                joined = f"os.path.join({str(self.top)!r}, *['front'])"
                code = f"import os, sys; sys.path[:0] = [{joined}]\n"
            (self.site / "in-front.pth").write_text(code)
            self._install_into(folder, step.subject)
        else:
            python, requirement = step.subject.split()
            self._install_into(self.site, requirement, "--python-version", python)

    def _leave(self, what: str, first: str, second: str) -> None:
        """Leave what a tool that was killed, or an older installation, leaves behind."""
        if what == "extra":
            (self.site / second).write_bytes((self.site / first).read_bytes())
            return
        name = second if what == "stash" else first
        found = next(
            item
            for item in importlib.metadata.distributions(path=[str(self.site)])
            if canonicalize_name(item.metadata["Name"]) == canonicalize_name(name)
        )
        own = Path(vars(found)["_path"])
        if what == "second":
            older = own.with_name(f"{own.name.split('-')[0]}-{second}.dist-info")
            older.mkdir()
            text = re.sub(r"(?m)^Version: .*", f"Version: {second}", (own / "METADATA").read_text())
            (older / "METADATA").write_text(text)
            return
        tops = {path.parts[0] for path in found.files or () if path.parts[0] != ".."}
        for top in sorted(tops):
            path = self.site / top
            if path.exists() and (path != own or first == "all"):
                path.rename(path.with_name(f"~{top[1:]}"))

    def _own_interpreter(self) -> Path:
        """Give the copy an interpreter of its own, by hard links; return its standard library."""
        old = self.python.resolve()
        own = self.top / "python"
        subprocess.run(["cp", "-al", old.parents[1], own], check=True)
        self._start(own / "bin" / old.name)
        return next(own.glob(f"lib/{self.site.parent.name}"))

    def _start(self, program: Path) -> None:
        """Let the copy start another program as its Python."""
        home, link = str(self.python.resolve().parent), self.folder / "bin" / "python"
        link.unlink()
        link.symlink_to(program)
        config = self.folder / "pyvenv.cfg"
        text = config.read_text().replace(home, str(program.parent))
        _replace(config, text.encode())

    def _start_other(self, number: str) -> None:
        """Start another Python, as an upgrade of the one below does: lib stays as it is."""
        from envcheck.host.prerequisites import find_python

        self._start(Path(find_python(number, os.environ) or "").resolve())

    def _install_into(self, folder: Path, requirement: str, *options: str) -> None:
        argv: Command = [
            self._options.uv, "pip", "install", "-q", "--no-deps", "--only-binary", ":all:",
            "--python", self.python, "--target", folder, *options, requirement,
        ]  # fmt: skip
        done = run(argv, self.work, 1200)
        if done.returncode:
            raise RuntimeError(f"{requirement}: {_last_line(done.stderr)}")

    @staticmethod
    def _garble(way: str, path: Path, other: Path) -> None:
        text = path.read_bytes()
        middle = text.rfind(b"\n", 0, len(text) // 2) + 1
        garbled = {
            "zeros": b"\0" * len(text),
            "marker": text[:middle] + b"<<<<<<< HEAD\n" + text[middle:],
            "other": other.read_bytes(),
        }
        _replace(path, garbled[way])

    def pip(self) -> Command:
        """Write the command of its own pip, or of ours for it."""
        own = (self.site / "pip").is_dir()
        return (
            [self.python, "-m", "pip"]
            if own
            else [sys.executable, "-m", "pip", "--python", self.python]
        )

    def _installer(self, name: str, what: str) -> Command:
        """Write the command that installs without dependencies, or uninstalls, by an installer's name."""
        if name == "pip":
            return [*self.pip(), what, "-q", *(["--no-deps"] if what == "install" else ["-y"])]
        argv: Command = [self._options.uv, "pip", what, "-q", "--python"]
        if what == "install":
            return [*argv, self.python, "--no-deps", "--only-binary", ":all:"]
        if self.site.is_relative_to(self.folder / "python"):  # uv would skip what lies below
            return [*argv, self.folder / "python" / "bin" / "python3", "--break-system-packages"]
        return [*argv, self.python]

    def _interrupt(self, installer: str, share: str, requirement: str) -> None:
        """Kill an installer of a release that is there, once so many files of it are back."""
        name = requirement.split("==", maxsplit=1)[0].replace("-", "_")
        record = next(path for path in self.site.glob("*.dist-info/RECORD") if _is_of(path, name))
        paths = [
            self.site / line.split(",")[0]
            for line in record.read_text().splitlines()
            if ".py" in line or ".so" in line
        ]
        paths = [path for path in paths if path.is_file()]
        before = {path: path.stat().st_ino for path in paths}
        option = (
            ["--force-reinstall", "--no-cache-dir"]
            if installer == "pip"
            else ["--reinstall", "--link-mode", "copy"]
        )
        argv = [
            str(item) for item in (*self._installer(installer, "install"), *option, requirement)
        ]
        environment = {**pip_settings(), **os.environ}
        process = subprocess.Popen(argv, cwd=self.work, env=environment, start_new_session=True)
        sample = paths[:: max(1, len(paths) // 100)]
        while process.poll() is None:
            os.killpg(
                process.pid, signal.SIGSTOP
            )  # what is looked at does not change meanwhile, however busy the machine
            back = sum(1 for path in sample if _inode(path) not in {0, before[path]})
            os.killpg(
                process.pid,
                signal.SIGKILL if back * 100 >= int(share) * len(sample) else signal.SIGCONT,
            )
            time.sleep(0.002)
        if process.wait() >= 0:
            raise RuntimeError(
                f"{installer} ended with status {process.returncode} before it was killed"
            )


def _is_of(record: Path, name: str) -> bool:
    return record.parent.name.split("-")[0].lower() == name.lower()


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _replace(path: Path, content: bytes) -> None:
    """Put a new file in the place of one that may be linked elsewhere."""
    mode = path.stat().st_mode
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(content)
    new.chmod(mode)
    new.replace(path)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def judge(copy: Copy, base: Base, imports: tuple[str, ...] = ()) -> Judged:
    """Import what the base is for, and what lies on top of it, compute, then use it as people do."""
    names = list(dict.fromkeys((*base.imports, *imports)))
    code = "".join(
        COMPUTE.get(name, f"\nimport {name}\n") + "\nprint('HELD', flush=True)\n" for name in names
    )
    code += "\nprint('COMPUTED', flush=True)\n"
    code += "".join(USE.get(name, "") for name in base.imports) + "\nprint('USED', flush=True)\n"
    done = copy.run([copy.python, "-c", code], 180)
    if "USED" in done.stdout:
        return Judged(WORKS)
    line = _last_line(done.stderr) or f"ended with status {done.returncode}"
    if "COMPUTED" in done.stdout:
        return Judged(LIMPS, line)
    return Judged(DIES, line, names[done.stdout.splitlines().count("HELD")])


def ask_doctor(
    copy: Copy, options: Options, names: tuple[str, ...], causes: tuple[str, ...]
) -> dict[str, Any]:
    """Return what the doctor says of a copy: verdict, exit code, primary finding, whether that is the right cause."""
    argv: Command = [
        *options.envcheck,
        "doctor",
        "--python",
        copy.python,
        "--format",
        "json",
        "--no-snapshot",
    ]
    argv += ["--import", "--import-timeout", "120"] if options.proves else ["--no-import"]
    begun = time.monotonic()
    done = copy.run(argv)
    seconds = round(time.monotonic() - begun, 2)
    report = _read_json(done.stdout)
    if "findings" not in report:
        message = report.get("error") or _last_line(done.stderr)
        return {"verdict": "none", "exit": done.returncode, "message": message, "seconds": seconds}
    first = next((finding for finding in report["findings"] if finding["primary"]), None)
    errors = [finding["id"] for finding in report["findings"] if finding["severity"] == "error"]
    told = {
        "verdict": report["verdict"],
        "exit": done.returncode,
        "errors": errors,
        "noticed": any(
            finding["id"] in causes and is_named(copy.hide_path(json.dumps(finding)), names)
            for finding in report["findings"]
            if finding["severity"] != "note" and names
        ),
        "seconds": seconds,
    }
    told["said"] = [
        copy.hide_path(f"{finding['severity']}: {json.dumps(finding)}")
        for finding in report["findings"]
    ]
    told["steps"] = [
        step["argv"]
        for step in report["plan"]["steps"]
        if step["scope"] == "environment" and step["argv"]
    ]
    if first is None:
        return {**told, "primary": "", "message": "", "right": False}
    named = not names or is_named(copy.hide_path(json.dumps(first)), names)
    return {
        **told,
        "primary": first["id"],
        "message": first["message"],
        "right": first["id"] in causes and named,
    }


def _read_json(text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except ValueError:
        return {}


def is_named(text: str, names: Iterable[str]) -> bool:
    """Tell whether a text names one of these distributions or files, however it is written."""
    folded = _fold(text)
    return any(
        re.search(rf"(?<![a-z0-9-]){re.escape(_fold(name))}(?![a-z0-9]|-[a-z])", folded)
        for name in names
    )


def _fold(text: str) -> str:
    return text.lower().replace("_", "-")


def fix(copy: Copy, options: Options, steps: list[list[str]]) -> str:
    """Run `envcheck fix --yes`, or what the doctor prints where there is no such command; return the last line."""
    offered = run([*options.envcheck, "fix", "--help"], copy.work)
    if offered.returncode == 0:
        done = copy.run([*options.envcheck, "fix", "--yes", "--env", copy.folder], 1800)
        return f"{done.returncode}: {_last_line(done.stderr) or _last_line(done.stdout)}"
    beside = {Path(program).parent for program in (options.uv, *options.envcheck)}
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *map(str, beside)])
    for argv in steps:
        done = copy.run([shutil.which(argv[0], path=path) or argv[0], *argv[1:]], 1800, PATH=path)
        if done.returncode:
            return f"typed: {_last_line(done.stderr)}"
    return f"typed: {len(steps)} steps"


def ask_peers(copy: Copy, options: Options) -> dict[str, Output]:
    """Return what each other tool prints about a copy."""
    printed = {"pip check": copy.run([*copy.pip(), "check"])}
    for name, (requirement, module, command) in PEERS.items():
        folder = peer_folder(options, requirement, copy.site.parent.name.removeprefix("python"))
        if folder is not None:
            code = (
                f"import sys; sys.path.append({str(folder)!r}); sys.argv = [{name!r},"
                f" {command!r}]\n"
            )
            printed[name] = copy.run(
                [copy.python, "-c", f"{code}from {module} import main; main()"], 180, COLUMNS="300"
            )
    return {
        name: Output(done.returncode, copy.hide_path(f"{done.stdout}\n{done.stderr}").splitlines())
        for name, done in printed.items()
    }


def ask_everyone(copy: Copy, options: Options, row: dict[str, Any]) -> dict[str, Output]:
    """Return what each other tool, envcheck and the import print about a copy."""
    line = copy.hide_path(row["import"]["line"])
    found = {"last line of the import": Output(row["import"]["outcome"] == DIES, [line])}
    for name, told in (("", row["doctor"]), (" --no-import", row.get("static"))):
        if told:
            lines = told.get("said", [told.get("message", "")])
            found[f"envcheck doctor{name}"] = Output(told["exit"], lines)
    return {**found, **ask_peers(copy, options)}


_building = threading.Lock()


def peer_folder(options: Options, requirement: str, python: str) -> Path | None:
    """Install a peer for a Python into a folder of its own; None where it does not run on that Python."""
    folder = options.bases / ".peers" / f"{requirement.replace('==', '-')}-{python}"
    with _building:
        if not folder.exists():
            argv = [
                options.uv,
                "pip",
                "install",
                "-q",
                "--python-version",
                python,
                "--only-binary",
                ":all:",
            ]
            done = run([*argv, "--target", folder, requirement], options.bases)
            folder.mkdir(parents=True, exist_ok=True)
            if done.returncode:
                (folder / ".unavailable").touch()
    return None if (folder / ".unavailable").exists() else folder


@dataclass
class Bench:
    """The bases of one run, and the cases done."""

    options: Options
    bases: dict[str, Base]
    imports: dict[str, dict[str, str]]  # what an earlier run of the same cases saw
    fixes: int = 0  # so many more of those that die are mended
    peers: int = 0  # the other tools are asked about so many more of those that die
    healthy: dict[str, dict[str, Output]] = dataclasses.field(default_factory=dict)

    def do(self, breakage: Breakage) -> dict[str, Any]:
        """Do one case; return its row."""
        row: dict[str, Any] = {"id": breakage.id, **dataclasses.asdict(breakage)}
        begun = time.monotonic()
        try:
            with Copy(self.options, breakage) as copy:
                base = self.bases[breakage.base]
                row["import"] = self.imports.get(breakage.id) or dataclasses.asdict(
                    judge(copy, base, breakage.imports)
                )
                self._ask_doctor(copy, breakage, row)
                row["seconds"] = round(time.monotonic() - begun, 1)
                if self.peers and row["import"]["outcome"] == DIES:
                    self.peers -= 1
                    row["peers"] = self._ask_peers(copy, breakage, row)
                if self._is_to_fix(breakage, row["import"]["outcome"]):
                    row["fix"] = self._fix(copy, breakage, row["doctor"].get("steps", []))
        except (OSError, RuntimeError, StopIteration, subprocess.SubprocessError) as error:
            row["not done"] = f"{type(error).__name__}: {error}"
        return row

    def _is_to_fix(self, breakage: Breakage, outcome: str) -> bool:
        if not self.fixes or not breakage.is_mendable or outcome != DIES:
            return False
        self.fixes -= 1
        return True

    def _fix(self, copy: Copy, breakage: Breakage, steps: list[list[str]]) -> dict[str, Any]:
        begun = time.monotonic()
        said = fix(copy, self.options, steps)
        return {
            **dataclasses.asdict(judge(copy, self.bases[breakage.base], breakage.imports)),
            "said": said,
            "seconds": round(time.monotonic() - begun, 1),
        }

    def _ask_doctor(self, copy: Copy, breakage: Breakage, row: dict[str, Any]) -> None:
        row["doctor"] = ask_doctor(copy, self.options, breakage.names, breakage.causes)
        if self.options.static:
            by_files = dataclasses.replace(self.options, proves=False)
            row["static"] = ask_doctor(copy, by_files, breakage.names, breakage.causes)

    def _ask_peers(
        self, copy: Copy, breakage: Breakage, row: dict[str, Any]
    ) -> dict[str, dict[str, Any]]:
        """Return what every tool says of a copy, graded by what it says of the healthy base."""
        if breakage.base not in self.healthy:
            case = healthy_case(breakage.base, 2)
            of_healthy: dict[str, Any] = {"import": dataclasses.asdict(Judged(WORKS))}
            with Copy(self.options, case) as whole:
                self._ask_doctor(whole, case, of_healthy)
                self.healthy[breakage.base] = ask_everyone(whole, self.options, of_healthy)
        healthy = self.healthy[breakage.base]
        said = ask_everyone(copy, self.options, row)
        return {name: said[name].grade(healthy[name], breakage.names) for name in said}


def healthy_case(base: str, number: int = 1) -> Breakage:
    """Return the case in which nothing is broken."""
    return Breakage(base, "healthy", number, "nothing is broken", is_mendable=False)


def make_old_libstdcxx(options: Options) -> None:
    """Compose a libstdc++ of the age of GCC 4.8: its soname and its versions, without what is in them."""
    folder = options.bases / ".libstdcxx"
    if (folder / "libstdc++.so.6").exists():
        return
    folder.mkdir(exist_ok=True)
    versions = ["GLIBCXX_3.4", *(f"GLIBCXX_3.4.{minor}" for minor in range(1, 20)), "CXXABI_1.3"]
    versions += [f"CXXABI_1.3.{minor}" for minor in range(1, 8)]
    (folder / "versions").write_text("\n".join(f"{name} {{ }};" for name in versions) + "\n")
    (folder / "empty.c").write_text("")
    argv = [
        "gcc",
        "-shared",
        "-Wl,-soname,libstdc++.so.6",
        "-Wl,--version-script=versions",
        "empty.c",
    ]
    subprocess.run([*argv, "-o", "libstdc++.so.6"], cwd=folder, check=True)


# -- which cases


def list_cases(
    options: Options, seed: int, bases: Iterable[Base]
) -> tuple[list[Breakage], dict[str, str]]:
    """Build the bases, and return the cases of all that are there with why others are not."""
    failed = {base.name: why for base in bases if (why := build(base, options))}
    held = [inspect(base, options) for base in bases if base.name not in failed]
    if shutil.which("gcc"):
        make_old_libstdcxx(options)
    cases = [healthy_case(item.base.name) for item in held]
    cases += Generator(seed, held, published_releases(options)).generate()
    can_link = (options.bases / ".libstdcxx").is_dir()
    return [case for case in cases if can_link or case.kind != "library-path-libstdcxx"], failed


def spread(cases: list[Breakage], count: int) -> Iterator[Breakage]:
    """Choose so many cases, one of each kind by turns and of another base each time."""
    kinds: dict[str, list[Breakage]] = {}
    for case in cases:
        kinds.setdefault(case.kind, []).append(case)
    taken: Counter[str] = Counter()
    while kinds and sum(taken.values()) < count:
        for kind in list(kinds):
            chosen = min(kinds[kind], key=lambda case: taken[case.base])
            kinds[kind].remove(chosen)
            if not kinds[kind]:
                del kinds[kind]
            if sum(taken.values()) < count:
                taken[chosen.base] += 1
                yield chosen


def do_cases(bench: Bench, cases: list[Breakage], results: Path, jobs: int) -> None:
    """Do cases, and append each row to the results when it is done."""
    lock = threading.Lock()

    def do(breakage: Breakage) -> None:
        row = bench.do(breakage)
        with lock, results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        said = row.get("not done") or f"{row['import']['outcome']}, {row['doctor']['verdict']}"
        print(f"{breakage.id}: {said}", file=sys.stderr, flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(do, case) for case in cases]):
            future.result()


def read_rows(results: Path) -> dict[str, dict[str, Any]]:
    """Read the results: the last row of each case, with the fix of any."""
    rows: dict[str, dict[str, Any]] = {}
    for line in results.read_text().splitlines() if results.exists() else ():
        row = json.loads(line)
        rows[row["id"]] = {**rows.get(row["id"], {}), **row}
    return rows


# -- the tables


def print_table(rows: Iterable[dict[str, Any]]) -> None:
    """Print a line for each case."""
    print(
        "| case | what was done | import | doctor | primary | right | fix"
        " |\n|---|---|---|---|---|---|---|"
    )
    for row in rows:
        if "not done" in row:
            print(f"| {row['id']} | {row['what']} | not done: {row['not done'][:120]} | | | | |")
            continue
        told, imported, mended = row["doctor"], row["import"], row.get("fix", {})
        shown = (
            f"{imported['outcome']}: {imported['line'][:90]}"
            if imported["line"]
            else imported["outcome"]
        )
        right = "" if imported["outcome"] == WORKS else "yes" if told.get("right") else "no"
        cells = (
            row["id"],
            row["what"],
            shown,
            f"{told['verdict']} {told['exit']}",
            told.get("primary", ""),
            right,
        )
        print(
            "| "
            + " | ".join(
                str(cell).replace("|", "\\|") for cell in (*cells, mended.get("outcome", ""))
            )
            + " |"
        )


def summarize(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Count what the goals are about."""
    done = [row for row in rows if "not done" not in row]
    broken = [row for row in done if row["kind"] != "healthy"]
    dead = [row for row in broken if row["import"]["outcome"] == DIES]
    said = [row for row in dead if is_said(row)]
    fixed = [row for row in dead if row["is_mendable"] and "fix" in row]
    asked = [row["peers"] for row in dead if "peers" in row]
    return {
        "cases": len(broken),
        "dies": len(dead),
        "limps": sum(row["import"]["outcome"] == LIMPS for row in broken),
        "works": sum(row["import"]["outcome"] == WORKS for row in broken),
        "dies and said so": [len(said), len(dead)],
        "right cause first": [sum(bool(row["doctor"].get("right")) for row in dead), len(dead)],
        "fix mends": [sum(row["fix"]["outcome"] == WORKS for row in fixed), len(fixed)],
        "works but called incompatible": [row["id"] for row in broken if is_false_alarm(row)],
        "healthy bases with errors": [row["id"] for row in done if is_alarm_of_healthy(row)],
        "not done": [row["id"] for row in rows if "not done" in row],
        "seconds": round(sum(row.get("seconds", 0) for row in done)),
        "peers": {
            name: [sum(said.get(name, {}).get(what, False) for said in asked) for what in GRADES]
            + [len(asked)]
            for name in sorted({name for said in asked for name in said})
        },
    }


def is_false_alarm(row: dict[str, Any]) -> bool:
    """Tell whether what works was called incompatible; what envcheck itself marks as half there may be."""
    return (
        row["kind"] != "interrupted-envcheck"
        and row["import"]["outcome"] == WORKS
        and is_incompatible(row)
    )


def is_alarm_of_healthy(row: dict[str, Any]) -> bool:
    """Tell whether anything of severity error was found in an unbroken base."""
    return row["kind"] == "healthy" and bool(row["doctor"].get("errors") or is_incompatible(row))


def is_incompatible(row: dict[str, Any]) -> bool:
    """Tell whether the doctor called a case incompatible."""
    return bool(row["doctor"]["verdict"] == "incompatible" and row["doctor"]["exit"] == 1)


def is_said(row: dict[str, Any]) -> bool:
    """Return whether the death is in the answer: where the frameworks live, a warning that names it is enough."""
    is_on_top = row["import"].get("module", "") not in {"", *FRAMEWORKS}
    return is_incompatible(row) or bool(is_on_top and row["doctor"].get("noticed"))


GRADES = ("names", "says broken")
GOALS = (("dies and said so", 95), ("right cause first", 90), ("fix mends", 90))


def print_summary(
    summary: dict[str, Any], failed: dict[str, str], rows: list[dict[str, Any]]
) -> bool:
    """Print the figures beside their goals, and a table of the kinds; tell whether none that was measured is missed."""
    print(
        f"\n{summary['cases']} breakages: {summary['dies']} die, {summary['limps']} limp,"
        f" {summary['works']} work."
    )
    print(f"{summary['seconds']} s of detection.\n")
    met = True
    for name, goal in GOALS:
        got, of = summary[name]
        if not of:
            print(f"- not measured: {name} >= {goal} %")
            continue
        reached = got * 100 >= goal * of
        met = met and reached
        print(
            f"- {'met' if reached else 'missed'}: {name} >= {goal} %: {got} of {of}, {got / of:.1%}"
        )
    for name in ("works but called incompatible", "healthy bases with errors"):
        met = met and not summary[name]
        print(
            f"- {'missed' if summary[name] else 'met'}: {name}: {len(summary[name])}"
            f" {' '.join(summary[name])}"
        )
    for name, why in failed.items():
        print(f"- unavailable base {name}: {why}")
    if summary["not done"]:
        print(f"- not done: {' '.join(summary['not done'])}")
    if summary["peers"]:
        print("\n| of those that die | named by | called broken by | of |\n|---|---|---|---|")
        for name, counts in summary["peers"].items():
            print(f"| {name} | {' | '.join(map(str, counts))} |")
    print_kinds(rows)
    return met


def print_kinds(rows: list[dict[str, Any]]) -> None:
    """Print a line for each kind of breakage."""
    print(
        "\n| kind | cases | dies | said so | right cause | fix mends | works | called"
        " incompatible |"
    )
    print("|---|---|---|---|---|---|---|---|")
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        kinds.setdefault(row["kind"], []).append(row)
    for kind, own in sorted(kinds.items()):
        of = summarize([{**row, "kind": "any"} for row in own])
        mended = f"{of['fix mends'][0]} of {of['fix mends'][1]}" if of["fix mends"][1] else ""
        cells = (
            kind,
            len(own),
            of["dies"],
            of["dies and said so"][0],
            of["right cause first"][0],
            mended,
        )
        print(
            "| "
            + " | ".join(map(str, (*cells, of["works"], len(of["works but called incompatible"]))))
            + " |"
        )


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    cache = Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "envcheck-bench", "bases"
    )
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bases", type=Path, default=cache)
    parser.add_argument(
        "--base", action="append", choices=[base.name for base in BASES], help="take only this base"
    )
    parser.add_argument(
        "--results", type=Path, default=None, help="a line for each case; default: beside the bases"
    )
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument(
        "--only", default="*", help="a pattern for BASE/KIND/NUMBER, such as 'tf-*/file-*'"
    )
    parser.add_argument(
        "--limit", type=int, default=0, help="so many cases, spread over kinds and bases"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="keep the rows that are there")
    parser.add_argument(
        "--imports", type=Path, help="take what the imports did from the results of an earlier run"
    )
    parser.add_argument(
        "--fix", type=int, default=0, metavar="COUNT", help="fix so many of those that die"
    )
    parser.add_argument(
        "--no-import", action="store_true", help="let the doctor judge by files alone"
    )
    parser.add_argument("--static", action="store_true", help="ask it without imports too")
    parser.add_argument(
        "--peers",
        type=int,
        default=0,
        metavar="COUNT",
        help="ask the other tools about so many of those that die",
    )
    parser.add_argument("--list", action="store_true", help="print the cases, and do none")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE")
    parser.add_argument("--envcheck", default=str(Path(sys.executable).with_name("envcheck")))
    return parser.parse_args()


def main() -> int:
    """Read the arguments and measure."""
    asked = parse_arguments()
    proves = not asked.no_import
    options = Options(asked.bases.resolve(), (asked.envcheck,), proves=proves, static=asked.static)
    results = asked.results or options.bases / f".results-{asked.seed}.jsonl"
    bases = [base for base in BASES if not asked.base or base.name in asked.base]
    cases, failed = list_cases(options, asked.seed, bases)
    cases = [case for case in cases if fnmatch.fnmatch(case.id, asked.only)]
    cases = list(spread(cases, asked.limit)) if asked.limit else cases
    if asked.list:
        print(*(f"{case.id}: {case.what}" for case in cases), sep="\n")
        return 0
    if not asked.resume:
        results.unlink(missing_ok=True)
    earlier = read_rows(asked.imports) if asked.imports else {}
    imports = {row["id"]: row["import"] for row in earlier.values() if "import" in row}
    bench = Bench(options, {base.name: base for base in bases}, imports, asked.fix, asked.peers)
    done = read_rows(results)
    do_cases(bench, [case for case in cases if case.id not in done], results, asked.jobs)
    rows = read_rows(results)
    own = [rows[case.id] for case in cases]
    print_table(own)
    summary = summarize(own)
    met = print_summary(summary, failed, own)
    if asked.static:
        print("\nWithout imports:")
        by_files = [{**row, "doctor": row["static"]} for row in own if "static" in row]
        print_summary(summarize(by_files), failed, by_files)
    if asked.json:
        asked.json.write_text(
            json.dumps({"summary": summary, "unavailable": failed, "cases": own}, indent=1)
        )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
