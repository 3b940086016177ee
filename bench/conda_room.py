"""A folder in which a real conda, mamba or micromamba works from a composed channel, and nothing else is told it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
ENVCHECK = [sys.executable, "-m", "envcheck"]
Done = subprocess.CompletedProcess[str]


class WrongError(Exception):
    """Something is not as it must be."""


class Room:
    """A folder with the client on PATH, under its own name, and `typed` as conda too: what scripts print."""

    def __init__(self, client: Path, channel: str, folder: Path) -> None:
        self.client, self.folder, self.packages = client, folder, folder.parent / "packages"
        shutil.rmtree(folder, ignore_errors=True)
        for name, called in (("own", client.name), ("typed", "conda")):
            (folder / "bin" / name).mkdir(parents=True)
            shim = folder / "bin" / name / called
            shim.write_text(f'#!/bin/sh\nexec "{client}" "$@"\n', encoding="utf-8")
            shim.chmod(0o755)
        self.variables = self.told(channel)

    def told(self, channel: str) -> dict[str, str]:
        """Return the variables that lead each client to a channel."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in ("CONDA_PREFIX", "VIRTUAL_ENV")
        }
        asked = {
            "CONDA_CHANNEL_ALIAS": channel,
            "CONDA_PKGS_DIRS": str(self.packages),
            "PYTHONPATH": str(ROOT),
        }
        return {**kept, **asked, "PATH": f"{self.folder}/bin/own:{os.defpath}"}

    def run(self, *argv: str, code: int = 0, **more: str) -> Done:
        """Run a command; WrongError where its exit code is another."""
        done = self.start(argv, more)
        if done.returncode != code:
            raise WrongError(
                f"{' '.join(argv)[-90:]}: {done.returncode}: {(done.stdout + done.stderr)[-700:]}"
            )
        return done

    def start(self, argv: tuple[str, ...], more: dict[str, str]) -> Done:
        """Run a command, whatever it says."""
        variables = {**self.variables, **more}
        return subprocess.run(
            argv,
            cwd=self.folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )

    def envcheck(self, *words: str, code: int = 0, **more: str) -> Done:
        """Run this tree's program."""
        return self.run(*ENVCHECK, *words, code=code, **more)

    def install(self, *words: str, code: int = 0, **more: str) -> Done:
        """Let `envcheck install` do it, computing at its end."""
        return self.envcheck("install", *words, "--env", "e", "--yes", "--smoke", code=code, **more)

    def shell(self, script: str, code: int = 0) -> Done:
        """Paste lines into a fresh shell, in which the client is called conda, as they call it."""
        typed = {
            "PATH": f"{self.folder}/bin/typed:{self.variables['PATH']}",
            "MAMBA_CHANNEL_ALIAS": self.variables["CONDA_CHANNEL_ALIAS"],
        }
        variables = {**self.variables, **typed}
        done = subprocess.run(
            ["sh", "-c", script],
            cwd=self.folder,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != code:
            raise WrongError(f"the script: {done.returncode}: {(done.stdout + done.stderr)[-900:]}")
        return done

    def conda(self, *words: str) -> str:
        """Ask the client itself."""
        return self.run(
            str(self.client), *words, MAMBA_CHANNEL_ALIAS=self.variables["CONDA_CHANNEL_ALIAS"]
        ).stdout

    def holds(self, *specs: str) -> None:
        """See that conda starts, and lists each name and version of an environment."""
        told = {
            f"{item['name']}=={item['version']}"
            for item in json.loads(self.conda("list", "-p", "./e", "--json"))
        }
        if missing := set(specs) - told:
            raise WrongError(f"conda does not list {missing} but {told}")

    def tree(self) -> str:
        """Name what the environment is, file by file."""
        from tests.install.wheels import tree_hash

        return str(tree_hash(self.folder / "e"))

    def rolled_back(self, before: str) -> None:
        """Roll back; the environment must be the very tree."""
        self.envcheck("install", "--rollback", "--env", "e", "--yes")
        if self.tree() != before:
            raise WrongError("--rollback left another tree")

    def made(self, *specs: str, pips: tuple[str, ...] = ()) -> str:
        """Make an environment with the client, and put something in it by pip; return its tree."""
        self.conda(
            "create",
            "-y",
            "-p",
            "./e",
            "--override-channels",
            "-c",
            "conda-forge",
            "python=3.11",
            "pip",
            *specs,
        )
        if pips:
            self.run("e/bin/python", "-m", "pip", "install", "-q", *pips)
        return self.tree()
