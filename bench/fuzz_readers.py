"""Feed every reader 20,000 damaged inputs: logs, snapshots, matrix files, [tool.envcheck] tables, files of projects.

    python bench/fuzz_readers.py [--inputs 20000] [--seconds 5.0] [--seed 1]

Each input is a good one with one or two changes: of JSON a value or a key, of text a line or a few characters. It is
given to the command that reads such a file, in this process: Dockerfiles, compose files, requirements, constraints, a
pyproject.toml and every kind of lock file to `check` and to `plan`. One in a hundred is nested 50,000 deep. An internal error or an input over the time limit ends the
run. An input counts as accepted where the command judged it, and did not refuse the file (exit code 2).
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**18,
    1.5,
    "",
    "12",
    "\u202e\x1b[31m",
    "{name}",
    "a" * 3000,
    [],
    {},
    ["x", None],
    {"a": 1},
)
WORDS = (
    "\t",
    "[",
    '"',
    "==",
    "\\",
    "${X}",
    "\x00",
    "é",
    "FROM",
    "RUN",
    "9" * 40,
    "-",
    "#",
    "\u202e",
)
TABLE = """[tool.envcheck]
requires = ["tensorflow>=2.15", "torch"]
expect = "gpu"
min-driver = "535.54"
[[tool.envcheck.ignore]]
id = "env-mixed"
reason = "to be cleaned up"
until = "2027-02-28"
"""
DOCKERFILE = """ARG CUDA=12.4.1
FROM nvidia/cuda:${CUDA}-cudnn-runtime-ubuntu22.04 AS base
RUN apt-get update && apt-get install -y python3-pip && \\
    pip install torch==2.5.1 --index-url https://download.pytorch.org/whl/cu124
ENV LD_LIBRARY_PATH=/usr/local/cuda/lib64
COPY . /app
CMD ["python3", "train.py"]
"""


REQUIREMENTS = """--extra-index-url https://download.pytorch.org/whl/cu126
torch==2.7.1+cu126 ; sys_platform == 'linux' \\
    --hash=sha256:aa
-c limits.txt
-r more.txt
-e .[gpu]
numpy<2  # old
x @ https://example.org/x-1.0-py3-none-any.whl
"""
PROJECT = """[project]
name = "train"
dependencies = ["torch>=2.4", "numpy<2"]
[project.optional-dependencies]
gpu = ["train[all]", "onnxruntime-gpu"]
all = ["train[gpu]", "jax[cuda12]"]
[dependency-groups]
dev = ["pytest", { include-group = "gpu" }]
gpu = [{ include-group = "dev" }]
[tool.uv.sources]
torch = [{ index = "pytorch", extra = "gpu", marker = "sys_platform == 'linux'" }]
[[tool.uv.index]]
name = "pytorch"
url = "https://download.pytorch.org/whl/cu126"
"""
UV_LOCK = """version = 1
revision = 3
conflicts = [[{ package = "train", extra = "cpu" }, { package = "train", extra = "gpu" }]]
[[package]]
name = "train"
source = { editable = "." }
dependencies = [{ name = "torch", version = "2.7.1+cu126", marker = "sys_platform == 'linux'" }]
[package.optional-dependencies]
gpu = [{ name = "torch", marker = "extra == 'extra-5-train-gpu'", extra = ["all"] }]
[package.dev-dependencies]
dev = [{ name = "numpy" }]
[[package]]
name = "torch"
version = "2.7.1+cu126"
source = { registry = "https://download.pytorch.org/whl/cu126" }
resolution-markers = ["sys_platform == 'linux'", "python_full_version < '3.13'"]
[[package]]
name = "numpy"
version = "1.26.4"
groups = ["main", "dev"]
optional = false
marker = "python_version >= '3.9'"
"""
PIPFILE_LOCK = """{
 "_meta": {"sources": [{"name": "pytorch", "url": "https://download.pytorch.org/whl/cpu"}]},
 "default": {"torch": {"version": "==2.7.1+cpu", "index": "pytorch", "markers": "python_version >= '3.9'"}},
 "develop": {"numpy": {"version": "==1.26.4"}}
}
"""
CONDA_LOCK = """version: 1
environments: {default: {packages: {linux-64: [{conda: "https://c/pytorch-2.5.1-cuda126_py312h1_0.conda"}]}}}
package:
- {name: pytorch, version: 2.5.1, manager: conda, platform: linux-64, url: "https://c/pytorch-2.5.1-cuda126_py312h1_0.conda"}
- {name: torch, version: 2.5.1, manager: pip, platform: linux-64}
packages:
- conda: "https://c/pytorch-2.5.1-cuda126_py312h1_0.conda"
"""
COMPOSE = """services:
  train: &a
    build: {context: ., dockerfile: Dockerfile, args: [CUDA=12.4.1]}
    gpus: all
    environment: {CUDA_VISIBLE_DEVICES: "0"}
  more:
    <<: *a
    image: "nvidia/cuda:12.4.1-runtime-ubuntu22.04"
    extends: {service: train}
"""
ENVIRONMENT = """channels: [pytorch, conda-forge]
dependencies:
  - python=3.11
  - pytorch::pytorch=2.5.1
  - cudatoolkit=11.3
  - pip: ["torchvision==0.22.0+cu128", "-r more.txt"]
"""
# The good file of each kind that `check` reads, by its name.
CHECKED = {
    "requirements.txt": REQUIREMENTS,
    "pyproject.toml": PROJECT,
    "uv.lock": UV_LOCK,
    "poetry.lock": UV_LOCK,
    "pdm.lock": '[metadata]\nlock_version = "4.5.0"\n' + UV_LOCK,
    "pylock.toml": UV_LOCK.replace("[[package]]", "[[packages]]"),
    "Pipfile.lock": PIPFILE_LOCK,
    "pixi.lock": CONDA_LOCK,
    "conda-lock.yml": CONDA_LOCK,
    "compose.yaml": COMPOSE,
    "environment.yml": ENVIRONMENT,
}
DEPTH = 50_000
NESTED = ("[" * DEPTH, "{" * DEPTH, "{a: " * DEPTH, '[{"a":' * DEPTH, "(" * DEPTH, "- " * DEPTH)


def change_file(text: str, rng: random.Random) -> str:
    """Change a text, or nest something deep in it, or give bytes of another kind."""
    if rng.random() < 0.01:
        lines = text.split("\n")
        lines.insert(
            rng.randrange(len(lines) + 1), rng.choice(("", "a = ", "a: ")) + rng.choice(NESTED)
        )
        return "\n".join(lines)
    return change_text(text, rng)


def change_json(document: Any, rng: random.Random) -> str:
    """Replace a value, or remove or repeat a key, somewhere in a document."""
    changed = copy.deepcopy(document)
    for _ in range(rng.randint(1, 2)):
        place = changed
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = rng.choice(keys) if keys else None
            child = place[key] if key is not None else None
            if not isinstance(child, (dict, list)) or not child or rng.random() < 0.1:
                break
            place = child
        if key is not None and rng.random() < 0.1:
            del place[key]
        elif key is not None:
            place[key] = rng.choice(
                [item for item in VALUES if type(item) is type(child)] or VALUES
            )
    return json.dumps(changed)


def change_text(text: str, rng: random.Random) -> str:
    """Remove, repeat or exchange lines, or put a word among their characters."""
    lines = text.split("\n")
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(lines))
        place = rng.randrange(len(lines[at]) + 1)
        word = rng.choice(WORDS)
        lines[at : at + 1] = rng.choice(
            (
                [],
                [lines[at]] * 2,
                [lines[at][:place] + word + lines[at][place:]],
                [lines[at][:place]],
                [lines[at][place:]],
            )
        ) or [""]
    return "\n".join(lines)


def good_snapshot() -> str:
    """Return a snapshot that the tables are judged with."""
    from envcheck.render.json_contracts import render_snapshot
    from tests.hosts.test_hosts import snapshot_of

    return str(render_snapshot(snapshot_of("torch-cpu-beside-gpu")))


def small_matrix() -> dict[str, Any]:
    """Return the matrix with five releases of one framework, and the citations that are left."""
    from envcheck.matrix.load import load_document

    document = load_document()
    citations = document.pop("citations")
    document["releases"] = {"jax": dict(list(document["releases"]["jax"].items())[-5:])}
    text = json.dumps(document)
    return {
        **document,
        "citations": {name: row for name, row in citations.items() if f'"{name}"' in text},
    }


def list_readers() -> dict[str, tuple[Callable[[random.Random], str], Callable[[str], list[str]]]]:
    """Map each reader to what makes an input for it, and to the command line that reads the file."""
    from envcheck.render.json_contracts import render_snapshot
    from tests.explain.test_variants import own_lines
    from tests.hosts.test_hosts import snapshot_of

    names = sorted(path.parent.name for path in (ROOT / "tests" / "hosts").glob("*/host.json"))[::6]
    snapshots = [json.loads(render_snapshot(snapshot_of(name))) for name in names]
    logs = list(own_lines().values())
    matrix = small_matrix()
    return {
        "log": (
            lambda rng: change_text("\n".join(rng.sample(logs, 5)), rng),
            lambda path: ["explain", path],
        ),
        "snapshot": (
            lambda rng: change_json(rng.choice(snapshots), rng),
            lambda path: ["doctor", "--snapshot", path, "--format", "json", "--no-snapshot"],
        ),
        "matrix": (
            lambda rng: change_json(matrix, rng),
            lambda path: ["matrix", "show", "jax", "--matrix", path],
        ),
        "table": (
            lambda rng: change_text(TABLE, rng),
            lambda path: [
                "check",
                "--config",
                path,
                "--snapshot",
                str(Path(path).with_name("good.json")),
            ],
        ),
        "dockerfile": (
            lambda rng: change_text(DOCKERFILE, rng),
            lambda path: ["check", "--dockerfile", path],
        ),
        **{
            name: (partial(change_file, text), partial(check_named, name))
            for name, text in CHECKED.items()
        },
        "plan -r": (
            partial(change_file, REQUIREMENTS),
            lambda path: ["plan", "-r", path, *PLANNED],
        ),
        "plan -c": (
            partial(change_file, "torch<2.8\nnumpy<2 ; python_version >= '3.9'\n"),
            lambda path: ["plan", "torch", "-c", path, *PLANNED],
        ),
        "plan .": (
            partial(change_file, PROJECT),
            lambda path: [
                "plan",
                f"{Path(named(path, 'pyproject.toml')).parent}[gpu]",
                "--group",
                "dev",
                *PLANNED,
            ],
        ),
    }


PLANNED = ("--platform", "linux_x86_64", "--python", "3.11", "--no-verify")


def named(path: str, name: str) -> str:
    """Give the input the name by which it is known for what it is."""
    target = Path(path).with_name(name)
    target.write_bytes(Path(path).read_bytes())
    return str(target)


def check_named(name: str, path: str) -> list[str]:
    """Write the command that judges the input under its name, sometimes with extras and groups."""
    more = ("--extra", "gpu", "--group", "dev") if len(Path(path).read_bytes()) % 3 == 0 else ()
    return ["check", named(path, name), *more, "--driver", "550.67", "--gpu", "A100"]


def main() -> int:
    """Feed the readers by turns; say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=5.0, help="what one input may take")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    from envcheck.cli.exits import guarded
    from envcheck.cli.group import run

    rng, readers = random.Random(chosen.seed), list_readers()
    given, accepted, slowest = Counter[str](), Counter[str](), 0.0
    folder = Path(tempfile.mkdtemp())
    (folder / "good.json").write_text(good_snapshot(), encoding="utf-8")
    for number in range(chosen.inputs):
        name = list(readers)[number % len(readers)]
        make, command = readers[name]
        path = folder / "input"
        path.write_text(make(rng), encoding="utf-8", errors="surrogatepass")
        sys.argv = ["envcheck", *command(str(path))]
        start = time.process_time()  # of the processor: others share the machine
        said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace")
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = guarded(run)
        said.seek(0)
        text = said.read()
        taken = time.process_time() - start
        slowest = max(slowest, taken)
        given[name] += 1
        accepted[name] += code != 2
        if code == 5 or taken > chosen.seconds:
            print(f"{name}: exit code {code} after {taken:.1f} s, input {path}\n{text[-3000:]}")
            return 1
    print(
        f"{chosen.inputs} inputs, {sum(accepted.values())} accepted; 0 tracebacks; the slowest"
        f" {slowest:.2f} s"
    )
    print(", ".join(f"{name} {accepted[name]} of {given[name]}" for name in readers))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
