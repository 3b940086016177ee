"""Find the Python environment that a person means in 38 situations, with the real tools where they install.

    python bench/discovery.py [--tools FOLDER] [--checkout FOLDER] [--only T05,T21]

Makes each situation in a folder of its own below an empty HOME, starts `envcheck doctor` there from an installation
that holds nothing else, and compares which environment is judged and which others are named with what each tool does.
uv, Poetry, PDM, Pipenv, Hatch and virtualenv make their own environments (`--tools` keeps the installed tools for the
next run); conda, pixi, pyenv, direnv and the editors are composed files. Prints a table in Markdown; exits 1 below 34.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = (
    "uv==0.13.9",
    "poetry==2.5.1",
    "pdm==2.29.3",
    "pipenv==2026.10.3",
    "hatch==1.18.2",
    "virtualenv==21.15.8",
)
GOAL = 34
BASE = os.path.realpath(sys.executable)  # of every environment
MINOR = f"{sys.version_info[0]}.{sys.version_info[1]}"
PROJECT = '[project]\nname = "{name}"\nversion = "0"\nrequires-python = ">=3.8"\n'


@dataclass
class Place:
    """The folder of one situation, and what it needs: files, environments, variables."""

    home: Path
    folder: Path
    tools: Path
    variables: dict[str, str] = field(default_factory=dict)
    working: str = ""  # below the folder
    asking: str = ""  # a Python that imports envcheck in place of the command

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def venv(self, name: str, base: str = BASE) -> Path:
        """Make a virtual environment below the folder, or below HOME (~/name)."""
        path = self.home / name[2:] if name.startswith("~/") else self.folder / name
        subprocess.run([base, "-m", "venv", "--without-pip", str(path)], check=True)
        return path

    def conda(self, name: str) -> Path:
        """Compose an environment as conda lays it out: a Python with its own prefix, and conda-meta."""
        path = self.home / name[2:] if name.startswith("~/") else self.folder / name
        (path / "bin").mkdir(parents=True)
        shutil.copy2(BASE, path / "bin" / f"python{MINOR}")
        (path / "bin/python").symlink_to(f"python{MINOR}")
        (path / "lib").mkdir()
        library = Path(BASE).parent.parent / "lib" / f"python{MINOR}"
        (path / "lib" / library.name).symlink_to(library)
        (path / "conda-meta").mkdir()
        (path / "conda-meta/history").touch()
        version = ".".join(map(str, sys.version_info[:3]))
        (path / "conda-meta" / f"python-{version}-0.json").write_text("{}", encoding="utf-8")
        return path

    def activate(self, path: Path) -> None:
        """Activate a virtual environment, as its script does."""
        self.variables |= {"VIRTUAL_ENV": str(path)}

    def run(self, tool: str, *arguments: str) -> str:
        """Run a real tool in the folder and return the last line that it printed."""
        program = next(self.tools.glob(f"*/bin/{tool}"))
        done = subprocess.run(
            [str(program), *arguments],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{tool} {' '.join(arguments)}: {done.stdout}{done.stderr}")
        lines = done.stdout.strip().splitlines()
        return lines[-1] if lines else ""

    def environment(self) -> dict[str, str]:
        """Return the variables of a run."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(("PIP_", "UV_INDEX", "SSL_", "LANG"))
        }
        plain = {"HOME": str(self.home), "PATH": f"{Path(BASE).parent}:/usr/bin:/bin"}
        return {**kept, **plain, "PIPENV_VERBOSITY": "-1", **self.variables}


@dataclass
class Expected:
    """What must be judged (None: nothing in the folder), and the paths or words that must be named."""

    judged: Path | None
    named: tuple[str, ...] = ()


Situation = Callable[[Place], Expected]
SITUATIONS: dict[str, tuple[str, str, Situation]] = {}


def situation(name: str, what: str, made_by: str = "files") -> Callable[[Situation], Situation]:
    """Register a situation; `made_by` is the tool that makes it."""

    def register(make: Situation) -> Situation:
        SITUATIONS[name] = (what, made_by, make)
        return make

    return register


def _poetry(place: Place, *, chosen: bool = True) -> Path:
    place.write(
        "pyproject.toml", PROJECT.format(name="My_Proj.x") + "[tool.poetry]\npackage-mode = false\n"
    )
    place.run("poetry", "lock", "-n")
    place.run("poetry", "env", "use", "-n", BASE)
    path = Path(place.run("poetry", "env", "info", "-p"))
    if not chosen:
        (path.parent / "envs.toml").unlink()
    return path


@situation("T01", "`.venv`", "uv")
def _(place: Place) -> Expected:
    place.run("uv", "venv", "-q", "--no-config", "-p", BASE)
    return Expected(place.folder / ".venv")


@situation("T02", "`venv`")
def _(place: Place) -> Expected:
    return Expected(place.venv("venv"))


@situation("T03", "`.venv` beside `venv`", "virtualenv")
def _(place: Place) -> Expected:
    for name in (".venv", "venv"):
        place.run("virtualenv", "-q", "--no-pip", "-p", BASE, name)
    return Expected(place.folder / ".venv", (f"{place.folder.name}/venv",))


@situation("T04", "`venv` beside `env`")
def _(place: Place) -> Expected:
    place.venv("venv"), place.venv("env")
    return Expected(None, tuple(f"{place.folder.name}/{name}" for name in ("venv", "env")))


@situation("T05", "`.venv`, and another environment is active")
def _(place: Place) -> Expected:
    place.venv(".venv")
    active = place.venv("~/other/env")
    place.activate(active)
    return Expected(active, (f"{place.folder.name}/.venv",))


@situation("T06", "`.venv`, and VIRTUAL_ENV names a folder that is gone")
def _(place: Place) -> Expected:
    place.activate(place.home / "gone/.venv")
    return Expected(place.venv(".venv"), ("VIRTUAL_ENV", "gone/.venv"))


@situation("T07", "`.venv`, and a conda environment is active", "composed")
def _(place: Place) -> Expected:
    place.venv(".venv")
    active = place.conda("~/conda/envs/tf")
    place.variables |= {"CONDA_PREFIX": str(active), "CONDA_DEFAULT_ENV": "tf"}
    return Expected(active, (f"{place.folder.name}/.venv",))


@situation("T08", "`.venv`, and conda's base is active", "composed")
def _(place: Place) -> Expected:
    base = place.conda("~/conda")
    place.variables |= {"CONDA_PREFIX": str(base), "CONDA_DEFAULT_ENV": "base"}
    return Expected(place.venv(".venv"))


@situation("T09", "a `.venv` file with a path", "virtualenv")
def _(place: Place) -> Expected:
    place.write("pyproject.toml", PROJECT.format(name="p"))
    place.run("virtualenv", "-q", "--no-pip", "-p", BASE, "../T09-elsewhere")
    if not (place.folder / ".venv").is_file():
        place.write(".venv", "../T09-elsewhere\n")
    return Expected(place.folder.parent / "T09-elsewhere")


@situation("T10", "an empty `.venv` file")
def _(place: Place) -> Expected:
    place.write(".venv", "")
    return Expected(None, ("T10/.venv",))


@situation("T11", "a `.venv` file with a name, and a Pipfile", "pipenv")
def _(place: Place) -> Expected:
    place.write("Pipfile", "[packages]\n")
    place.write(".venv", "myname\n")
    place.run("pipenv", "--python", BASE)
    return Expected(Path(place.run("pipenv", "--venv")))


@situation("T12", "`.venv` of the project, from a folder below it", "uv")
def _(place: Place) -> Expected:
    place.run("uv", "venv", "-q", "--no-config", "-p", BASE)
    place.write(".git/HEAD", "")
    place.write("sub/train.py", "")
    place.working = "sub"
    return Expected(place.folder / ".venv")


@situation("T13", "a `.venv` without pyvenv.cfg")
def _(place: Place) -> Expected:
    (place.venv(".venv") / "pyvenv.cfg").unlink()
    return Expected(None, ("T13/.venv", "pyvenv.cfg"))


@situation("T14", "a `.venv` whose Python is gone")
def _(place: Place) -> Expected:
    for path in place.venv(".venv").glob("bin/python*"):
        path.unlink()
    return Expected(None, ("T14/.venv", "its Python is gone"))


@situation("T15", "`.venv`, and UV_PROJECT_ENVIRONMENT names another", "uv")
def _(place: Place) -> Expected:
    place.write("pyproject.toml", PROJECT.format(name="p"))
    place.run("uv", "venv", "-q", "--no-config", "-p", BASE)
    place.variables |= {"UV_PROJECT_ENVIRONMENT": "envb"}
    place.run("uv", "sync", "-q", "-p", BASE)
    return Expected(place.folder / "envb", ("T15/.venv",))


@situation("T16", "the same without a pyproject.toml")
def _(place: Place) -> Expected:
    place.variables |= {"UV_PROJECT_ENVIRONMENT": "envb"}
    place.venv("envb")
    return Expected(place.venv(".venv"))


@situation("T17", "`.venv`, and pyrightconfig.json names `venv`", "composed")
def _(place: Place) -> Expected:
    place.venv(".venv")
    place.write("pyrightconfig.json", '{"venvPath": ".", "venv": "venv"}')
    return Expected(place.venv("venv"), ("T17/.venv",))


@situation("T18", "`.venv`, and ty.toml names `venv`", "composed")
def _(place: Place) -> Expected:
    place.venv(".venv")
    place.write("ty.toml", '[environment]\npython = "venv"\n')
    return Expected(place.venv("venv"), ("T18/.venv",))


@situation("T19", "Poetry's cache", "poetry")
def _(place: Place) -> Expected:
    return Expected(_poetry(place))


@situation("T20", "Poetry's cache, and an empty `.venv`", "poetry")
def _(place: Place) -> Expected:
    path = _poetry(place)
    (place.folder / ".venv").mkdir()
    return Expected(path, ("T20/.venv",))


@situation("T21", "Poetry's cache, and another environment is active", "poetry")
def _(place: Place) -> Expected:
    path = _poetry(place)
    active = place.venv("~/o4/env")
    place.activate(active)
    return Expected(active, (path.name,))


@situation("T22", "the same, and Poetry was told of none", "poetry")
def _(place: Place) -> Expected:
    _poetry(place, chosen=False)
    active = place.venv("~/o5/env")
    place.activate(active)
    return Expected(active)


@situation("T23", "Pipenv's folder", "pipenv")
def _(place: Place) -> Expected:
    place.write("Pipfile", "[packages]\n")
    place.run("pipenv", "--python", BASE)
    return Expected(Path(place.run("pipenv", "--venv")))


@situation("T24", "Pipenv's folder, and `.venv`", "pipenv")
def _(place: Place) -> Expected:
    place.write("Pipfile", "[packages]\n")
    place.run("pipenv", "--python", BASE)
    path = Path(place.run("pipenv", "--venv"))
    place.venv(".venv")
    return Expected(path, ("T24/.venv",))


@situation("T25", "`.pdm-python`, and another environment is active", "pdm")
def _(place: Place) -> Expected:
    place.write("pyproject.toml", PROJECT.format(name="p"))
    chosen = place.venv("venv")
    place.run("pdm", "use", "-q", "-f", str(chosen / "bin/python"))
    active = place.venv("~/o6/env")
    place.activate(active)
    return Expected(chosen, ("o6/env",))


@situation("T26", "PDM's `venv`, no `.pdm-python`, and another environment is active", "files")
def _(place: Place) -> Expected:
    place.write("pyproject.toml", PROJECT.format(name="p") + "[tool.pdm]\ndistribution = false\n")
    place.venv("venv")
    active = place.venv("~/o7/env")
    place.activate(active)
    return Expected(active, ("T26/venv",))


@situation("T27", "Hatch's folder", "hatch")
def _(place: Place) -> Expected:
    text = PROJECT.format(name="h-proj") + "[tool.hatch.envs.default]\nskip-install = true\n"
    place.write("pyproject.toml", text)
    place.run("hatch", "env", "create")
    return Expected(Path(place.run("hatch", "env", "find")))


@situation("T28", "pixi's `default` and `cuda`", "composed")
def _(place: Place) -> Expected:
    place.write("pixi.toml", '[workspace]\nname = "p"\n')
    place.conda(".pixi/envs/cuda")
    return Expected(place.conda(".pixi/envs/default"), (".pixi/envs/cuda",))


@situation("T29", "environment.yml names a conda environment", "composed")
def _(place: Place) -> Expected:
    place.write("environment.yml", "name: tf29\ndependencies: [python]\n")
    path = place.conda("~/miniforge/envs/tf29")
    (place.home / ".conda").mkdir(exist_ok=True)
    (place.home / ".conda/environments.txt").write_text(f"{path}\n", encoding="utf-8")
    return Expected(path)


@situation("T30", "`.venv`, and .python-version asks for another Python")
def _(place: Place) -> Expected:
    place.write(".python-version", "3.12.1\n")
    return Expected(place.venv(".venv"), (".python-version", "3.12.1"))


@situation("T31", ".python-version names an environment of pyenv", "composed")
def _(place: Place) -> Expected:
    place.write(".python-version", "myenv311\n")
    return Expected(place.venv("~/.pyenv/versions/myenv311"))


@situation("T32", "a notebook whose server was started from `.venv`", "composed")
def _(place: Place) -> Expected:
    kernel = place.venv("~/k")
    place.activate(place.venv(".venv"))
    place.variables |= {"JPY_PARENT_PID": "1"}
    place.asking = str(kernel / "bin/python")
    return Expected(kernel)


@situation("T33", "`.venv`, and VS Code's settings name `env`", "composed")
def _(place: Place) -> Expected:
    place.venv(".venv")
    text = (
        '{\n  // chosen\n  "python.defaultInterpreterPath": "${workspaceFolder}/env/bin/python",\n}'
    )
    place.write(".vscode/settings.json", text)
    return Expected(place.venv("env"), ("T33/.venv",))


@situation("T37", "`.venv`, and PyCharm's settings name another one", "composed")
def _(place: Place) -> Expected:
    place.venv(".venv")
    chosen = place.venv("~/pycharm-env")
    place.write(
        ".idea/misc.xml",
        '<component name="ProjectRootManager" project-jdk-name="Python 3.11 (proj)"'
        ' project-jdk-type="Python SDK" />',
    )
    table = place.home / ".config/JetBrains/PyCharm2026.2/options/jdk.table.xml"
    table.parent.mkdir(parents=True)
    table.write_text(
        '<jdk version="2"><name value="Python 3.11 (proj)" /><type value="Python SDK" />'
        '<homePath value="$USER_HOME$/pycharm-env/bin/python" /></jdk>'
    )
    return Expected(chosen, ("T37/.venv",))


@situation("T38", "pixi's detached environments, to which it leaves a link", "composed")
def _(place: Place) -> Expected:
    place.write("pixi.toml", '[workspace]\nname = "p"\n')
    place.write(".pixi/config.toml", "detached-environments = true\n")
    detached = place.home / ".cache/rattler/cache/envs/p-123/envs"
    kept = place.conda(".pixi/kept")
    detached.mkdir(parents=True)
    kept.rename(detached / "default")
    (place.folder / ".pixi/envs").symlink_to(detached)
    return Expected(place.folder / ".pixi/envs/default")


@situation("T34", "tox's environment alone", "composed")
def _(place: Place) -> Expected:
    place.venv(".tox/py311")
    return Expected(None)


@situation("T35", "nothing here; an environment leads PATH")
def _(place: Place) -> Expected:
    path = place.venv("~/o8/env")
    place.variables |= {"PATH": f"{path}/bin:/usr/bin:/bin"}
    return Expected(path)


@situation("T36", "a `.env` file of settings, and `venv`")
def _(place: Place) -> Expected:
    place.write(".env", "TOKEN=1\n")
    return Expected(place.venv("venv"))


def prepare(tools: Path, checkout: Path, alone: Path) -> None:
    """Install the tools that are not there, and envcheck into an environment that holds nothing else."""
    for tool in TOOLS:
        folder = tools / tool.partition("==")[0]
        if not folder.is_dir():
            subprocess.run([BASE, "-m", "venv", str(folder)], check=True)
            subprocess.run(
                [str(folder / "bin/python"), "-m", "pip", "install", "-q", tool], check=True
            )
    subprocess.run([BASE, "-m", "venv", str(alone)], check=True)
    pip = [str(alone / "bin/python"), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, str(checkout)], check=True)


def ask(place: Place, alone: Path, *options: str) -> str:
    """Return what the doctor prints in a situation."""
    command = [str(alone / "bin/envcheck"), "doctor", "--no-import", *options]
    if place.asking:
        packages = next(alone.glob("lib/python*/site-packages"))
        shown = "to_json()" if "json" in options else "render('text')"
        text = f"import sys; sys.path.append({str(packages)!r}); import envcheck; print(envcheck.doctor().{shown})"
        command = [place.asking, "-c", text]
    done = subprocess.run(
        command,
        cwd=place.folder / place.working,
        env=place.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1, 3):
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def judge(place: Place, expected: Expected, alone: Path) -> str:
    """Return what is wrong with the answer in a situation, "" for nothing."""
    document = json.loads(ask(place, alone, "--format", "json"))
    environment = document["judged"]["environment"]
    prefix = (environment or {}).get("prefix", "").replace("~", str(place.home))
    inside = prefix.startswith(str(place.home))
    if expected.judged is None and inside:
        return f"judges {prefix}"
    if expected.judged and os.path.realpath(prefix) != os.path.realpath(expected.judged):
        return f"judges {prefix or 'none'}, not {expected.judged}"
    text = " ".join(ask(place, alone).split())
    missing = [name for name in expected.named if name not in text]
    return f"does not name {', '.join(missing)}" if missing else ""


def run_all(
    root: Path, tools: Path, alone: Path, only: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """Make each situation and yield its name with what is wrong."""
    home = root / "home"
    home.mkdir()
    for name, (_, _, make) in SITUATIONS.items():
        if only and name not in only:
            continue
        folder = home / "work" / name
        folder.mkdir(parents=True)
        place = Place(home, folder, tools)
        yield name, judge(place, make(place), alone)


def main() -> None:
    """Print the table, and exit with 1 below the goal."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", type=Path)
    parser.add_argument("--checkout", type=Path, default=ROOT)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    only = frozenset(filter(None, asked.only.split(",")))
    with tempfile.TemporaryDirectory(prefix="envcheck-discovery-") as folder:
        root = Path(folder).resolve()
        tools = (asked.tools or root / "tools").resolve()
        prepare(tools, asked.checkout, root / "alone")
        results = dict(run_all(root, tools, root / "alone", only))
        right = sum(not wrong for wrong in results.values())
        print("| | situation | made by | answer |\n|---|---|---|---|")
        for name, wrong in results.items():
            what, made_by, _ = SITUATIONS[name]
            print(f"| {name} | {what} | {made_by} | {wrong.replace(folder, '') or 'right'} |")
        print(f"\n{right} of {len(results)} right.")
    sys.exit(right < (len(results) if only else GOAL))


if __name__ == "__main__":
    main()
