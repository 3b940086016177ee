"""Start envcheck in every way that people have, with the real tools, and see which environment it judges.

    python bench/starts.py [--uv uv==0.13.9] [--pipx pipx==1.18.4]

Installs uv and pipx into a temporary folder, builds this checkout's wheel, and starts it by each tool in a project, in
a folder of that project, outside of any, and with another environment active; with the tools' usual folders and as CI
sets them. Prints a table in Markdown; exits 1 where another environment is judged than a person means.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT, NOTHING, OWN, ACTIVE = (
    "the project's .venv",
    "the machine alone",
    "its own",
    "the active one",
)
ASKING = "`python -m envcheck`"  # by which a person names the Python
DOCTOR = ("doctor", "--format", "json", "--no-snapshot")


@dataclass
class Place:
    """The folder and the environment variables of one run."""

    root: Path
    is_ci: bool
    wheel: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = {
            name: os.environ[name]
            for name in os.environ
            if name.startswith(("PIP_", "UV_INDEX", "SSL_", "LANG"))
        }
        home = self.root / "home"
        self.environment = {
            **kept,
            "HOME": str(home),
            "PATH": f"{self.root}/bin:/usr/local/bin:/usr/bin:/bin",
            "PYTHONUSERBASE": str(home / ".local"),
        }
        if self.is_ci:
            folders = {
                "UV_CACHE_DIR": "uv",
                "UV_TOOL_DIR": "uvtools",
                "PIPX_HOME": "pipx",
                "UV_TOOL_BIN_DIR": "uvbin",
            }
            self.environment |= {
                name: str(self.root / "ci" / folder) for name, folder in folders.items()
            }
            self.environment |= {"CI": "true", "PIPX_BIN_DIR": str(self.root / "ci/pipxbin")}

    def run(self, *argv: str, folder: Path | None = None, **variables: str) -> str:
        """Run a program and return what it printed; its own messages are shown where it fails."""
        done = subprocess.run(
            argv,
            cwd=folder or self.root,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 1, 3):
            sys.exit(f"{' '.join(argv)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def python(self, name: str) -> str:
        """Return the Python of an environment below the folder."""
        return str(self.root / name / "bin/python")


def prepare(root: Path, tools: tuple[str, ...], *, is_ci: bool) -> Place:
    """Make the tools, the wheel, a project with its .venv, and two installations of envcheck."""
    place = Place(root, is_ci)
    for name in ("home", "project/sub", "project/.git", "outside"):
        (root / name).mkdir(parents=True)
    for name in ("tools", "alone", "ml", "active"):
        place.run(sys.executable, "-m", "venv", str(root / name))
    place.run(place.python("tools"), "-m", "pip", "install", "-q", *tools)
    (root / "bin").mkdir()
    for name in ("uv", "uvx", "pipx"):  # not the Python beside them
        (root / "bin" / name).symlink_to(root / "tools/bin" / name)
    place.run(
        sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(root / "dist"), str(ROOT)
    )
    place.wheel = str(next((root / "dist").glob("*.whl")))
    place.run(place.python("alone"), "-m", "pip", "install", "-q", place.wheel)
    place.run(place.python("ml"), "-m", "pip", "install", "-q", place.wheel, "six")
    place.run("uv", "tool", "install", "-q", "--force", place.wheel)
    project = '[project]\nname = "p"\nversion = "0"\nrequires-python = ">=3.10"\n'
    (root / "project/pyproject.toml").write_text(project, encoding="utf-8")
    place.run("uv", "sync", "-q", folder=root / "project")
    return place


def ways(place: Place) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield each way to start envcheck: its name, the command, and what it judges outside of any project."""
    home, wheel = Path(place.environment["HOME"]), place.wheel
    yield "`uvx --from`", ("uvx", "-q", "--from", wheel, "envcheck"), NOTHING
    yield "`uv tool run --from`", ("uv", "tool", "run", "-q", "--from", wheel, "envcheck"), NOTHING
    yield (
        "`uv tool install`",
        (f"{place.environment.get('UV_TOOL_BIN_DIR', home / '.local/bin')}/envcheck",),
        NOTHING,
    )
    yield "`uv run --with`", ("uv", "run", "-q", "--with", wheel, "envcheck"), NOTHING
    yield "`pipx run --spec`", ("pipx", "run", "--spec", wheel, "envcheck"), NOTHING
    yield "a venv for envcheck alone", (f"{place.root}/alone/bin/envcheck",), NOTHING
    yield "an installation with other packages", (f"{place.root}/ml/bin/envcheck",), OWN
    if not place.is_ci:  # both put their script into ~/.local/bin
        place.run("uv", "tool", "uninstall", "-q", "envcheck-gpu")
    place.run("pipx", "install", "--force", wheel)
    yield (
        "`pipx install`",
        (f"{place.environment.get('PIPX_BIN_DIR', home / '.local/bin')}/envcheck",),
        NOTHING,
    )
    base = str(Path(os.path.realpath(sys.executable)))
    place.run("pipx", "uninstall", "envcheck-gpu")
    place.run(base, "-m", "pip", "install", "-q", "--user", "--break-system-packages", wheel)
    yield "`pip install --user`", (f"{home}/.local/bin/envcheck",), OWN
    yield ASKING, (base, "-m", "envcheck"), OWN


def judged(place: Place, command: tuple[str, ...], folder: str, **variables: str) -> str:
    """Start envcheck in a folder and name the environment that it judged."""
    document = json.loads(place.run(*command, *DOCTOR, folder=place.root / folder, **variables))
    environment = document["judged"]["environment"]
    if environment is None:
        return NOTHING
    prefix = environment["prefix"].replace("~", place.environment["HOME"])
    names = {
        f"{place.root}/project/.venv": PROJECT,
        f"{place.root}/active": ACTIVE,
        f"{place.root}/ml": OWN,
    }
    is_base = os.path.realpath(sys.executable).startswith(prefix + "/")
    return names.get(prefix) or (OWN if is_base else environment["prefix"])


def rows(place: Place) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each way with what was judged and what is meant, place by place."""
    for name, command, outside in ways(place):
        project = OWN if name == ASKING else PROJECT
        meant = [("project", project), ("project/sub", project), ("outside", outside)]
        found = [(judged(place, command, folder), wanted) for folder, wanted in meant]
        if not name.startswith("`uv run"):  # which activates the project's own
            active = {"VIRTUAL_ENV": str(place.root / "active")}
            wanted = OWN if name == ASKING else ACTIVE
            found.append((judged(place, command, "project", **active), wanted))
        yield name, found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uv", default="uv")
    parser.add_argument("--pipx", default="pipx")
    options = parser.parse_args()
    print(
        "| started by | folders | in the project | in a folder of it | outside | environment"
        " active |"
    )
    print("|---|---|---|---|---|---|")
    wrong = count = 0
    for is_ci in (False, True):
        with tempfile.TemporaryDirectory(prefix="starts") as folder:
            place = prepare(Path(os.path.realpath(folder)), (options.uv, options.pipx), is_ci=is_ci)
            for name, found in rows(place):
                cells = [
                    is_found if is_found == wanted else f"**{is_found}**"
                    for is_found, wanted in found
                ]
                print(
                    f"| {name} | {'CI' if is_ci else 'usual'} | {' | '.join((*cells, '')[:4])} |",
                    flush=True,
                )
                wrong += sum(is_found != wanted for is_found, wanted in found)
                count += len(found)
    print(f"\n{count} starts, {wrong} judged another environment than is meant.")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
