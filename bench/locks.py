"""Lock composed faults and their mended twins with the real tools, and see which line `check` names.

    python bench/locks.py --uv uv --pip pip --poetry poetry --pdm pdm --pipenv pipenv

Wheels of torch, torchvision, tensorflow and onnxruntime are stand-ins with the real names and versions, on a local
index that stands for PyTorch's own (/cu126, /cu130, /cpu) and on one for the usual index. The tools lock them for real.
Each fault must be found at the line of its package; a good lock must have neither an error nor a warning.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from envcheck import api  # noqa: E402
from tests.install.wheels import make_wheel  # noqa: E402

MACHINE = {"driver": "550.67", "gpu": "A100", "expect": "gpu"}
BUILDS = {"cu126": "2.14.1", "cu130": "2.13.0", "cpu": "2.14.1"}
USUAL = (
    ("torch", "2.13.0"),
    ("tensorflow", "2.18.0"),
    ("onnxruntime", "1.22.0"),
    ("onnxruntime_gpu", "1.22.0"),
    ("numpy", "2.1.0"),
)


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder without a line for each request."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def make_index(folder: Path) -> str:
    """Write the wheels and serve them; return the address."""
    for label, version in BUILDS.items():
        make_wheel(folder / label / "torch", "torch", f"{version}+{label}", ("numpy",))
    for name, version in USUAL:
        make_wheel(folder / "simple" / name.replace("_", "-"), name, version)
    for package in folder.glob("*/*"):
        links = (
            f'<a href="{wheel.name.replace("+", "%2B")}">{wheel.name}</a><br>'
            for wheel in package.glob("*.whl")
        )
        (package / "index.html").write_text("".join(links), encoding="utf-8")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def run(argv: list[str], folder: Path, **variables: str) -> str:
    """Run a tool in a project's folder; return what it printed."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))
    }
    environment = {**kept, "PIP_CONFIG_FILE": os.devnull, **variables}
    done = subprocess.run(
        argv, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}:\n{done.stdout}{done.stderr}")
    return done.stdout


HEAD = '[project]\nname = "train"\nversion = "0.1"\nrequires-python = ">=3.11,<3.12"\n'


def lock_uv(tool: str, folder: Path, index: str, wanted: str, label: str) -> Path:
    """Lock with uv, which takes torch from the index of a label."""
    text = f'{HEAD}dependencies = ["{wanted}"]\n[[tool.uv.index]]\nurl = "{index}/simple"\ndefault = true\n'
    if label:
        text += '[tool.uv.sources]\ntorch = { index = "own" }\n'
        text += f'[[tool.uv.index]]\nname = "own"\nurl = "{index}/{label}"\nexplicit = true\n'
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    run([tool, "lock", "--no-cache"], folder)
    return folder / "uv.lock"


def export_uv(form: str, name: str, *given: object) -> Path:
    """Lock with uv and export the lock in a form."""
    tool, folder = str(given[0]), given[1]
    assert isinstance(folder, Path)
    lock_uv(*given)  # type: ignore[arg-type]
    text = run([tool, "export", "--format", form, "--no-emit-project", "--no-cache"], folder)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def lock_pip(tool: str, folder: Path, index: str, wanted: str, label: str) -> Path:
    """Lock with `pip lock`."""
    own = ["--extra-index-url", f"{index}/{label}"] if label else []
    run([tool, "lock", wanted, "--index-url", f"{index}/simple", *own], folder)
    return folder / "pylock.toml"


def lock_poetry(tool: str, folder: Path, index: str, wanted: str, label: str) -> Path:
    """Lock with Poetry, from an explicit source."""
    name = wanted.partition("=")[0]
    text = f'{HEAD}dependencies = ["{wanted}"]\n[tool.poetry]\npackage-mode = false\n'
    if label:
        text += f'[tool.poetry.dependencies]\n{name} = {{ source = "own" }}\n'
        text += f'[[tool.poetry.source]]\nname = "own"\nurl = "{index}/{label}"\npriority = "explicit"\n'
    text += (
        f'[[tool.poetry.source]]\nname = "usual"\nurl = "{index}/simple"\npriority = "primary"\n'
    )
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    run([tool, "lock", "--no-cache"], folder)
    return folder / "poetry.lock"


def lock_pdm(tool: str, folder: Path, index: str, wanted: str, label: str) -> Path:
    """Lock with PDM."""
    text = f'{HEAD}dependencies = ["{wanted}"]\n[tool.pdm]\ndistribution = false\n'
    text += f'[[tool.pdm.source]]\nname = "pypi"\nurl = "{index}/simple"\nverify_ssl = false\n'
    if label:
        text += f'[[tool.pdm.source]]\nname = "own"\nurl = "{index}/{label}"\nverify_ssl = false\n'
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    run([tool, "lock", "-p", str(folder)], folder)
    return folder / "pdm.lock"


def lock_pipenv(tool: str, folder: Path, index: str, wanted: str, label: str) -> Path:
    """Lock with Pipenv."""
    name, _, version = wanted.partition("==")
    text = f'[[source]]\nurl = "{index}/simple"\nverify_ssl = false\nname = "usual"\n'
    if label:
        text += f'[[source]]\nurl = "{index}/{label}"\nverify_ssl = false\nname = "own"\n'
    own = ', index = "own"' if label else ""
    text += f'[packages]\n{name} = {{ version = "=={version}"{own} }}\n'
    (folder / "Pipfile").write_text(text, encoding="utf-8")
    run([tool, "lock"], folder, PIPENV_VENV_IN_PROJECT="1", PIPENV_PYTHON=sys.executable)
    return folder / "Pipfile.lock"


Lock = Callable[[str, Path, str, str, str], Path]
WAYS: dict[str, tuple[str, Lock]] = {
    "uv.lock": ("uv", lock_uv),
    "uv export requirements": ("uv", partial(export_uv, "requirements-txt", "requirements.txt")),
    "uv export pylock": ("uv", partial(export_uv, "pylock.toml", "pylock.toml")),
    "pip lock": ("pip", lock_pip),
    "poetry.lock": ("poetry", lock_poetry),
    "pdm.lock": ("pdm", lock_pdm),
    "Pipfile.lock": ("pipenv", lock_pipenv),
}
# requirement and index: a driver too old, a build for the CPU, another package for it; and what works there
OLD_DRIVER, FOR_CPU = ("torch==2.13.0", "cu130"), ("torch==2.14.1", "cpu")
OTHER = ("onnxruntime==1.22.0", "")
GOOD = (("torch==2.14.1", "cu126"), ("torch==2.14.1", "cu126"), ("onnxruntime-gpu==1.22.0", ""))
FAULTS: tuple[tuple[str, tuple[str, str]], ...] = (
    ("uv.lock", OLD_DRIVER),
    ("uv.lock", FOR_CPU),
    ("uv export requirements", OLD_DRIVER),
    ("uv export pylock", FOR_CPU),
    ("pip lock", OLD_DRIVER),
    ("pip lock", OTHER),
    ("poetry.lock", OLD_DRIVER),
    ("poetry.lock", FOR_CPU),
    ("pdm.lock", OLD_DRIVER),
    ("pdm.lock", OTHER),
    ("Pipfile.lock", OLD_DRIVER),
    ("Pipfile.lock", FOR_CPU),
)


def judge(path: Path) -> tuple[str, list[str], list[str]]:
    """Return the verdict on a file, its findings that count, and the places they name."""
    found = api.check(file=str(path), **MACHINE)  # type: ignore[arg-type]
    wrong = [
        item
        for item in found.report.findings
        if item.severity != "note" and item.id != "probe-failed"
    ]
    places = [item.source.where for one in wrong for item in one.evidence if item.source]
    return found.verdict, [item.id for item in wrong], places


def find_line(path: Path, name: str) -> Iterator[int]:
    """Yield the lines on which a package is named as locked."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip().strip(":{ ").replace('"', "") in {
            f"name = {name}",
            name,
        } or line.startswith(f"{name}=="):
            yield number


def main() -> int:
    """Lock, judge and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    for tool in ("uv", "pip", "poetry", "pdm", "pipenv"):
        parser.add_argument(f"--{tool}", default=tool)
    tools = {name: shutil.which(path) or path for name, path in vars(parser.parse_args()).items()}
    tools = {name: str(Path(path).absolute()) for name, path in tools.items()}
    folder = Path(tempfile.mkdtemp())
    os.chdir(folder)
    index = make_index(folder / "index")
    right = quiet = 0
    for number, (way, fault) in enumerate(FAULTS):
        tool, lock = WAYS[way]
        good = GOOD[(OLD_DRIVER, FOR_CPU, OTHER).index(fault)]
        for kind, (wanted, label) in (("fault", fault), ("good", good)):
            project = folder / f"{number}-{kind}"
            project.mkdir()
            path = lock(tools[tool], project, index, wanted, label)
            verdict, ids, places = judge(path)
            if kind == "good":
                quiet += not ids
                print(f"good   {way}, {wanted} {label}: {verdict} {' '.join(ids)}")
                continue
            lines = {f"{path.name}:{line}" for line in find_line(path, wanted.partition("==")[0])}
            named = {f"{path.name}:{place.rpartition(':')[2]}" for place in places}
            is_right = verdict == "incompatible" and bool(lines & named)
            right += is_right
            print(
                f"fault  {way}, {wanted} {label}: {verdict} {ids[:1]} {sorted(lines & named)}{'' if is_right else ' WRONG'}"
            )
    print(
        f"{right} of {len(FAULTS)} faults at the right line; {quiet} of {len(FAULTS)} good ones without an alarm"
    )
    return 0 if right == quiet == len(FAULTS) else 1


if __name__ == "__main__":
    raise SystemExit(main())
