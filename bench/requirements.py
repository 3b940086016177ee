r"""Move each requirement of installed frameworks and import them: which releases break a framework, and which work.

    python bench/requirements.py tensorflow-cpu==2.15.1:3.11 jax==0.6.0:3.12 \
        --results results.jsonl --output data/frameworks/requirements.json

For each framework release, in an environment of its own: each requirement is removed, and moved down and up to the
oldest and newest release with a wheel; where one of these fails, the boundary is searched between them. The judge is
the real import and a small computation. Needs uv, the Pythons, and an index; TensorFlow takes some ten minutes.
With --only the named requirements are moved, and nothing is said of what the release needs: its neighbours tell.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

_KERAS = """
import tensorflow as tf
assert float(tf.reduce_sum(tf.matmul(tf.ones((4, 4)), tf.ones((4, 4))))) == 64
import numpy
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2)])
model.compile("sgd", "mse")
model.fit(numpy.ones((8, 4)), numpy.ones((8, 2)), verbose=0)
"""
_SAVE = """
import os, tempfile
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2)])
path = os.path.join(tempfile.mkdtemp(), "model.h5")
model.save(path)
tf.keras.models.load_model(path, compile=False)
"""
_GRAPH = """
import tensorflow as tf
with tf.compat.v1.Session() as session:
    assert session.run(tf.reduce_sum(tf.matmul(tf.ones((4, 4)), tf.ones((4, 4))))) == 64
"""
_TORCH = """
import torch
layer = torch.nn.Linear(4, 2)
layer(torch.ones(3, 4)).sum().backward()
assert float((torch.ones(4, 4) @ torch.ones(4, 4)).sum()) == 64
"""
_JAX = """
import jax
import jax.numpy as jnp
import jax.scipy.linalg
assert float(jax.jit(lambda x: (x @ x).sum())(jnp.ones((4, 4)))) == 64
jax.grad(lambda x: (x @ x).sum())(jnp.ones((4, 4)))
"""
_ONNXRUNTIME = """
import onnxruntime
assert onnxruntime.get_available_providers()
onnxruntime.SessionOptions()
"""
_LISTED = """
import json, os, re, sys
try:
    import importlib.metadata as metadata
except ImportError:
    import importlib_metadata as metadata
root, module = sys.argv[1:3]
__import__(module)
with open("/proc/self/maps") as maps:
    files = {line.split()[-1] for line in maps if "/" in line}
files |= {item.__file__ for item in list(sys.modules.values()) if getattr(item, "__file__", None)}
files = set(map(os.path.realpath, files))
def normal(name):
    return re.sub("[-_.]+", "-", name).lower()
loaded = [normal(item.metadata["Name"]) for item in metadata.distributions()
          if any(os.path.realpath(str(item.locate_file(file))) in files for file in item.files or ())]
try:
    from packaging.requirements import Requirement
except ImportError:
    from pip._vendor.packaging.requirements import Requirement
names, waiting, depth = {}, [(root, 0)], {}
while waiting:
    name, level = waiting.pop(0)
    try:
        item = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        continue
    if normal(name) in names:
        continue
    names[normal(name)] = (item.version, level)
    for line in item.requires or ():
        need = Requirement(line)
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            waiting.append((need.name, level + 1))
print(json.dumps({"loaded": sorted(loaded), "names": names}))
"""
_JUDGES = {
    "torch": ("torch", _TORCH),
    "jax": ("jax", _JAX),
    "onnxruntime": ("onnxruntime", _ONNXRUNTIME),
}


@dataclass(frozen=True)
class Subject:
    """A framework release in an environment."""

    distribution: str
    version: str
    folder: Path
    uv: str

    @property
    def framework(self) -> str:
        """Name its framework."""
        return next((name for name in _JUDGES if self.distribution.startswith(name)), "tensorflow")

    @property
    def python(self) -> str:
        """Return its interpreter."""
        return str(self.folder / "bin" / "python")

    def judge(self) -> str:
        """Import the framework and compute: "" where both work, else the last line of what was printed."""
        module, code = _JUDGES.get(
            self.framework, ("tensorflow", _GRAPH if self.version[0] == "1" else _KERAS)
        )
        steps = (
            ("import", f"import {module}"),
            ("compute", code),
            ("save", _SAVE if code == _KERAS else "pass"),
        )
        failures = ((stage, self.run(self.python, "-c", text)) for stage, text in steps)
        return next((f"{stage}: {failure}" for stage, failure in failures if failure), "")

    def run(self, *command: str) -> str:
        """Run a command: "" where it succeeds, else the last error that it prints, or its last line."""
        quiet = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONNOUSERSITE": "1"}
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
                env={**os.environ, **quiet},
            )
        except subprocess.TimeoutExpired:
            return "no answer in 300 s"
        lines = (done.stderr or done.stdout).strip().splitlines()
        errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
        return (
            "" if done.returncode == 0 else (errors or lines or [f"status {done.returncode}"])[-1]
        )

    def pip(self, *words: str) -> str:
        """Run uv pip on the environment."""
        return self.run(self.uv, "pip", *words, "--python", self.python)


def _versions(subject: Subject, name: str) -> list[str]:
    """List the final releases with a wheel for this Python, the newest of each minor, oldest first."""
    minor = subprocess.run(
        (subject.python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"),
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    words = ("index", "versions", name, "--python-version", minor, "--only-binary", ":all:")
    listed = subprocess.run(
        (sys.executable, "-m", "pip", *words), capture_output=True, text=True, check=False
    ).stdout.partition("Available versions:")[2].splitlines()  # fmt: skip
    newest: dict[tuple[int, ...], str] = {}
    for text in listed[0].split(",") if listed else ():
        version = Version(text.strip())
        if not version.is_prerelease and version.release[:2] not in newest:
            newest[version.release[:2]] = text.strip()
    return sorted(newest.values(), key=Version)


class Prober:
    """Moves the requirements of one framework release."""

    def __init__(self, subject: Subject, freeze: Path) -> None:
        """Remember what the environment holds."""
        self.subject, self.freeze = subject, freeze
        self._put(subprocess.run(
            (subject.uv, "pip", "freeze", "--python", subject.python), capture_output=True, text=True, check=True
        ).stdout)  # fmt: skip

    def _put(self, text: str) -> None:
        self.freeze.write_text(text)

    def restore(self) -> None:
        """Bring back what the environment held."""
        failure = self.subject.pip("sync", "-q", str(self.freeze))
        if failure:
            raise SystemExit(failure)

    def removed(self, name: str) -> str:
        """Remove a requirement: the failure."""
        self.subject.pip("uninstall", "-q", name)
        failure = self.subject.judge()
        self.restore()
        return failure

    def moved(self, name: str, version: str) -> str | None:
        """Install another release of a requirement: the failure; None where it cannot be installed.

        What it requires comes with it as long as nothing else moves.
        """
        others = [
            line
            for line in self.freeze.read_text().splitlines()
            if not line.lower().startswith(name + "==")
        ]
        constraints = self.freeze.with_suffix(".constraints")
        constraints.write_text("\n".join(others))
        requirement = f"{name}=={version}"
        options = ("install", "-q", "--only-binary", ":all:", requirement)
        failed = self.subject.pip(*options, "-c", str(constraints)) and self.subject.pip(
            *options, "--no-deps"
        )
        failure = None if failed else self.subject.judge()
        self.restore()
        return failure

    def bounds(self, name: str, base: str) -> dict[str, Any]:
        """Find the releases around the installed one that work, and the nearest that fail."""
        versions = _versions(self.subject, name)
        older = [item for item in reversed(versions) if Version(item) < Version(base)]
        newer = [item for item in versions if Version(item) > Version(base)]
        found: dict[str, Any] = {}
        for key, candidates in (("older", older), ("newer", newer)):
            works, breaks, failure = self._search(name, candidates)
            found[key] = {"works": works or base, "breaks": breaks, "failure": failure}
        return found

    def _search(self, name: str, candidates: list[str]) -> tuple[str, str, str]:
        """Search candidates, the nearest first: the farthest that works, the nearest that fails, and how."""
        works, breaks, failure = -1, len(candidates), ""
        position = len(candidates) - 1
        while works + 1 < breaks and candidates:
            answer = self.moved(name, candidates[position])
            if answer is None:
                del candidates[position]
                breaks = min(breaks - 1, len(candidates)) if breaks > position else breaks
                position = min(position, len(candidates) - 1)
                if works + 1 >= breaks:
                    break
            elif answer:
                breaks, failure = position, answer
            else:
                works = position
            position = (works + breaks) // 2 if breaks < len(candidates) else len(candidates) - 1
        return (
            candidates[works] if works >= 0 else "",
            candidates[breaks] if breaks < len(candidates) else "",
            failure,
        )


def probe(subject: Subject, only: list[str], log: Callable[[str], None]) -> dict[str, Any]:
    """Try all requirements of a framework release, or the named ones."""
    failure = subject.judge()
    if failure:
        raise SystemExit(
            f"{subject.distribution} {subject.version} does not work to begin with: {failure}"
        )
    module = _JUDGES.get(subject.framework, ("tensorflow", ""))[0]
    listing = subprocess.run(
        (subject.python, "-c", _LISTED, subject.distribution, module), capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    listed = json.loads(listing.splitlines()[-1])
    prober = Prober(subject, subject.folder / "held.txt")
    rows: dict[str, Any] = {}
    for name, (version, level) in listed["names"].items():
        is_loaded = name in listed["loaded"]
        if not level or (level > 1 and not is_loaded) or (only and name not in only):
            continue
        row: dict[str, Any] = {"installed": version, "level": level, "loaded": is_loaded}
        row["removed"] = "" if only else prober.removed(name)
        if level == 1 and not name.startswith("nvidia-"):
            row.update(prober.bounds(name, version))
        rows[name] = row
        log(f"{subject.distribution} {subject.version}: {name} {json.dumps(row)}")
    return {"distribution": subject.distribution, "version": subject.version, "rows": rows}


def _environments(texts: list[str], uv: str, folder: Path) -> Iterator[Subject]:
    """Make an environment for each requirement with its Python, such as jax==0.6.0:3.12; or take one: jax=FOLDER."""
    for text in texts:
        requirement, _, place = text.rpartition(":")
        distribution, _, version = requirement.split(" ")[0].partition("==")
        path = Path(place).absolute()
        if not path.is_dir():
            path = folder / f"{distribution}-{version}"
            subprocess.run((uv, "venv", "-q", "--python", place, str(path)), check=True)
            words = (
                uv,
                "pip",
                "install",
                "-q",
                "--python",
                str(path / "bin" / "python"),
                *requirement.split(" "),
            )
            subprocess.run((*words, "pip"), check=True)
        yield Subject(distribution, version, path, uv)


_OF_NUMPY = ("numpy.core", "numpy.dtype", "_ARRAY_API", "multiarray", "binary incompatib")
# what the moved release itself requires lacks, or a module that Python dropped
_OWN_NEED = "ModuleNotFoundError"


def _row(result: dict[str, Any]) -> dict[str, Any]:
    """Make the row of data/frameworks/requirements.json of what became of a framework release."""
    needs, breaks, works = [], [], {}
    for name, row in sorted(result["rows"].items()):
        if row["removed"].startswith("import: "):
            needs.append(name)
        if "older" not in row:
            continue
        works[name] = f">={row['older']['works']},<={row['newer']['works']}"
        for key, operator in (("older", "<="), ("newer", ">=")):
            failure = row[key]["failure"]
            is_numpys = name != "numpy" and any(word in failure for word in _OF_NUMPY)
            if (
                row[key]["breaks"]
                and _OWN_NEED not in failure
                and "save: " not in failure
                and not is_numpys
            ):
                error = (
                    failure.partition(": ")[2]
                    if failure.startswith(("import: ", "compute: "))
                    else failure
                )
                bound = row[key]["breaks"] if key == "older" else _first_of_minor(row[key])
                breaks.append(
                    {"requirement": f"{name}{operator}{bound}", "failure": _shorten(error)}
                )
    framework = next(
        (name for name in _JUDGES if result["distribution"].startswith(name)), "tensorflow"
    )
    row = {
        "framework": framework,
        "version": result["version"],
        "needs": needs,
        "breaks": breaks,
        "works": works,
    }
    return {key: value for key, value in row.items() if value}


def _first_of_minor(bounds: dict[str, str]) -> str:
    """Return the release from which on newer ones fail: its whole minor, as only the newest of a minor was tried."""
    works, breaks = (bounds[key].split(".")[:2] for key in ("works", "breaks"))
    return bounds["breaks"] if works == breaks else ".".join(breaks)


def _shorten(error: str) -> str:
    """Keep the first sentence of an error, without the folders of this machine."""
    return re.sub(r" \(/[^)]*\)", "", error).partition(". ")[0].rstrip(".")[:160]


def write_rows(results: Path, output: Path) -> None:
    """Write the rows of all results into the data file, and keep those of other releases."""
    content = json.loads(output.read_text())
    rows = {(row["framework"], row["version"]): row for row in content["releases"]}
    for line in results.read_text().splitlines():
        row = _row(json.loads(line))
        rows[row["framework"], row["version"]] = row
    ordered = [rows[key] for key in sorted(rows, key=lambda key: (key[0], Version(key[1])))]
    head = {key: value for key, value in content.items() if key != "releases"}
    body = ",\n".join("  " + json.dumps(row) for row in ordered)
    text = json.dumps(head, indent=1)[:-2] + f',\n "releases": [\n{body}\n ]\n}}\n'
    output.write_text(text)


def main() -> None:
    """Probe what is named and print a JSON line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "subjects", nargs="*", help="jax==0.6.0:3.12, or jax==0.6.0:FOLDER of an environment"
    )
    parser.add_argument(
        "--results", type=Path, required=True, help="where a JSON line for each release is added"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], help="try these alone: numpy protobuf ml-dtypes keras"
    )
    parser.add_argument(
        "--output", type=Path, help="the data file that takes the rows of the results"
    )
    options = parser.parse_args()
    uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    with tempfile.TemporaryDirectory() as folder:
        for subject in _environments(options.subjects, uv, Path(folder)):
            result = probe(subject, options.only, lambda text: print(text, flush=True))
            result["checked"] = dt.datetime.now(dt.timezone.utc).date().isoformat()
            with options.results.open("a") as out:
                out.write(json.dumps(result) + "\n")
    if options.output:
        write_rows(options.results, options.output)


if __name__ == "__main__":
    main()
