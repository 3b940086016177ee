"""Build the project's own image and those that `envcheck plan --format dockerfile` writes, and see what they do.

    python bench/images.py [--only own tensorflow-cpu ...] [--folder SCRATCH]

Needs root, buildah, mmdebstrap and patchelf (Debian's packages), the Pythons of pyenv and the extra `plan`; no Docker
daemon. No base image is pulled: each name that a Dockerfile begins with is a stand-in made here, Debian of the release
it names with this machine's Python in /usr/local, which finds its library by the same relative run path as in the
public image, and this machine's certificates. The largest case takes 12 GB below SCRATCH for a while. Prints a table
in Markdown; exits 1 when anything is not as it must be.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
TENSORFLOW = (
    "import tensorflow as tf; x = tf.ones([64, 64]); assert tf.reduce_sum(x @ x) == 262144;"
    " print(tf.__version__)"
)
OLD_TENSORFLOW = (
    "import tensorflow as tf; x = tf.ones([64, 64]); "
    "assert tf.Session().run(tf.reduce_sum(tf.matmul(x, x))) == 262144; print(tf.__version__)"
)
JAX = (
    "import jax, jax.numpy as np; x = np.ones((64, 64)); assert (x @ x).sum() == 262144;"
    " print(jax.__version__)"
)
TORCH = (
    "import torch; x = torch.ones(64, 64); assert (x @ x).sum() == 262144; print(torch.__version__)"
)
LOADED = "import ctypes; ctypes.CDLL('libcusolver.so.11'); print('libcusolver.so.11 opened'); "
GPU = ["--expect", "gpu", "--driver", "580.65.06", "--gpu", "8.0"]


class BuildError(Exception):
    """What buildah said last."""


@dataclass(frozen=True)
class Case:
    """A planned image: the words of `plan`, the requirement of its project, what to run in it."""

    words: list[str]
    table: str
    program: str
    bases: list[tuple[str, str]] = field(default_factory=list)


CASES = {
    "tensorflow-cpu": Case(
        ["tensorflow", "--expect", "cpu", "--python", "3.12"],
        'requires = ["tensorflow-cpu>=2.20"]\nexpect = "cpu"',
        TENSORFLOW,
        [("3.12", "trixie")],
    ),
    "jax-cpu-uv": Case(
        ["jax", "--expect", "cpu", "--python", "3.12", "--installer", "uv"],
        'requires = ["jax"]\nexpect = "cpu"',
        JAX,
        [("3.12", "trixie")],
    ),
    "tensorflow-1.15": Case(
        ["tensorflow==1.15.*", "--expect", "cpu", "--python", "3.7"],
        'requires = ["tensorflow==1.15.*"]\nexpect = "cpu"',
        OLD_TENSORFLOW,
        [("3.7", "bookworm"), ("3.12", "bookworm")],
    ),
    "tensorflow-2.21-gpu": Case(
        ["tensorflow==2.21.*", "--python", "3.12", *GPU],
        'requires = ["tensorflow>=2.20"]\nexpect = "gpu"\nmin-driver = "535"',
        LOADED + TENSORFLOW,
        [("3.12", "trixie")],
    ),
    "torch-gpu": Case(
        ["torch", "--python", "3.12", *GPU],
        'requires = ["torch>=2.4"]\nexpect = "gpu"\nmin-compute-capability = "7.5"',
        TORCH,
        [("3.12", "trixie")],
    ),
}


class Workshop:
    """A folder with a store of images of its own, and the wheel of this project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        settings = folder / "storage.conf"
        store = {
            "driver": "overlay",
            "graphroot": str(folder / "store"),
            "runroot": str(folder / "run"),
        }
        settings.write_text(
            "[storage]\n" + "".join(f'{name} = "{value}"\n' for name, value in store.items())
        )
        (folder / "tmp").mkdir()
        self.variables = {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(settings),
            "TMPDIR": str(folder / "tmp"),
        }
        (folder / "source").mkdir()
        files = subprocess.run(
            ["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", str(folder / "source")], input=files, check=True)
        pip = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "-w",
            str(folder / "wheels"),
        ]
        subprocess.run([*pip, str(folder / "source")], check=True)
        (self.wheel,) = (folder / "wheels").iterdir()

    def run(self, argv: list[str], seconds: float = 3600.0) -> subprocess.CompletedProcess[str]:
        """Run a command with this store; its output and errors as one."""
        return subprocess.run(
            argv,
            env=self.variables,
            text=True,
            check=False,
            timeout=seconds,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def build(self, context: Path, tag: str) -> str:
        """Build a context's Dockerfile and return what was said; BuildError where it does not build."""
        volumes = ["-v", f"{self.wheel.parent}:/wheels:ro"]
        given = (
            ["--build-arg", f"ENVCHECK=/wheels/{self.wheel.name}"]
            if (context / "pyproject.toml").exists()
            else []
        )
        own = [] if context.name == "source" else given
        done = self.run(
            [
                "buildah",
                "bud",
                "--isolation",
                "chroot",
                "--layers",
                *volumes,
                *own,
                "-t",
                tag,
                str(context),
            ]
        )
        if done.returncode:
            raise BuildError(done.stdout)
        return done.stdout

    def inside(self, image: str, argv: list[str]) -> tuple[int, str]:
        """Run a command in an image as its user, by its entry point where it has one."""
        told = json.loads(self.run(["buildah", "inspect", "--type", "image", image]).stdout)
        start = told["OCIv1"]["config"].get("Entrypoint", [])
        # the project's own entry point is named where it is meant
        start = start if start[:1] == ["sh"] else []
        name = self.run(["buildah", "from", "--pull-never", image]).stdout.strip()
        done = self.run(["buildah", "run", "--isolation", "chroot", name, "--", *start, *argv], 900)
        self.run(["buildah", "rm", name])
        return done.returncode, done.stdout

    def base(self, python: str, suite: str) -> None:
        """Make the stand-in of one image of Python, where it is not there yet."""
        from tests.fakes.base_image import write_base

        tag = f"docker.io/library/python:{python}-slim-{suite}"
        if self.run(["buildah", "inspect", "--type", "image", tag]).returncode == 0:
            return
        context = self.folder / f"base-{python}-{suite}"
        write_base(context, python, suite)
        self.build(context, tag)
        self.run(["buildah", "tag", tag, f"docker.io/library/python:{python}-slim"])
        shutil.rmtree(context)

    def uv(self) -> None:
        """Make the stand-in of uv's image from the uv that is here."""
        from envcheck.plan.verify import find_uv

        context = self.folder / "uv"
        context.mkdir(exist_ok=True)
        shutil.copy(find_uv(os.environ), context / "uv")
        (context / "Dockerfile").write_text("FROM scratch\nCOPY uv /uv\n")
        self.build(context, "ghcr.io/astral-sh/uv:0.9.26")


def own(shop: Workshop) -> list[tuple[str, bool]]:
    """Build the project's image; see its doctor, its check and its answer to a container's health."""
    shop.base("3.12", "trixie")
    shop.build(shop.folder / "source", "envcheck")
    health = "envcheck doctor --expect {} --quiet || exit 1"
    check = (
        "printf '[tool.envcheck]\\nexpect=\"cpu\"\\n' > /tmp/p.toml && envcheck check --config"
        " /tmp/p.toml"
    )
    told = [
        ("doctor", ["envcheck", "doctor"], 0),
        ("check", ["sh", "-c", check], 0),
        ("healthy for the CPU", ["sh", "-c", health.format("cpu")], 0),
        ("unhealthy for a GPU", ["sh", "-c", health.format("gpu")], 1),
        ("ordinary user", ["sh", "-c", 'test "$(id -u)" != 0'], 0),
    ]
    return [
        ("builds", True),
        *((what, shop.inside("envcheck", argv)[0] == code) for what, argv, code in told),
    ]


def planned(shop: Workshop, name: str) -> list[tuple[str, bool]]:
    """Build a planned image with its gate; then one whose gate must refuse, from the layers that are there."""
    case, context = CASES[name], shop.folder / name
    for base in case.bases:
        shop.base(*base)
    if "uv" in case.words:
        shop.uv()
    context.mkdir()
    argv = [sys.executable, "-m", "envcheck", "plan", *case.words, "--format", "dockerfile"]
    text = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (context / "Dockerfile").write_text(text)
    (context / "pyproject.toml").write_text(f"[tool.envcheck]\n{case.table}\n")
    shop.build(context, name)
    code, said = shop.inside(
        name, ["sh", "-c", 'test "$(id -un)" = app && exec python -c "$0"', case.program]
    )
    print(f"{name}: {said[-2000:] if code else said.splitlines()[-1]}", file=sys.stderr)
    refused, cached = refuses(shop, context)
    return [
        ("builds", True),
        ("computes as app", code == 0),
        ("refuses", refused),
        ("layers kept", cached),
    ]


def refuses(shop: Workshop, context: Path) -> tuple[bool, bool]:
    """Ask for what the image does not hold: the gate ends the build, and nothing before it is made again."""
    (context / "pyproject.toml").write_text('[tool.envcheck]\nrequires = ["torch==1.4.0"]\n')
    steps = (
        (context / "Dockerfile")
        .read_text()
        .partition("COPY --chown=app pyproject.toml")[0]
        .count("\nRUN ")
    )
    try:
        shop.build(context, "refused")
    except BuildError as error:
        return "INCOMPATIBLE" in str(error), str(error).count("Using cache") >= steps
    return False, False


def main() -> int:
    """Build each image in turn, removing it before the next."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--folder", type=Path, default=None)
    asked = parser.parse_args()
    good = True
    print("| image | seconds | what was seen |\n|---|---|---|")
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        shop = Workshop(Path(folder))
        todo: dict[str, Callable[[], list[tuple[str, bool]]]] = {"own": lambda: own(shop)}
        todo |= {name: lambda name=name: planned(shop, name) for name in CASES}  # type: ignore[misc]
        for name, work in todo.items():
            if asked.only and name not in asked.only:
                continue
            begun = time.monotonic()
            try:
                seen = work()
            except BuildError as error:
                seen = [("builds", False)]
                print(str(error)[-2000:], file=sys.stderr)
            told = ", ".join(what if was else f"**not: {what}**" for what, was in seen)
            print(f"| {name} | {time.monotonic() - begun:.0f} | {told} |", flush=True)
            good = good and all(was for _, was in seen)
            shop.run(["buildah", "rmi", "-f", name])
            shop.run(["buildah", "rmi", "--prune"])
        shop.run(["buildah", "rmi", "-a", "-f"])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
