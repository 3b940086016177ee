"""Compare where NVIDIA's cuda-pathfinder and envcheck find the CUDA libraries of environments.

    python bench/pathfinder.py ENVIRONMENT...

Both answer without a GPU: cuda-pathfinder loads each library in the environment's Python, envcheck
reads files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_ASK = """
import json, sys
from cuda import pathfinder
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = pathfinder.load_nvidia_dynamic_lib(name).abs_path
    except Exception as error:
        found[name] = type(error).__name__
print(json.dumps(found))
"""


def main() -> int:
    """Print each library of which the two say different things; return 1 if there is one."""
    differences = 0
    with tempfile.TemporaryDirectory() as folder:
        install = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--target",
            folder,
            "cuda-pathfinder",
        ]
        subprocess.run(install, check=True)
        for environment in map(Path, sys.argv[1:]):
            ours = _ask_envcheck(environment)
            theirs = _ask_pathfinder(environment, folder, list(ours))
            known = {
                name: path for name, path in theirs.items() if path != "DynamicLibUnknownError"
            }
            wrong = [name for name, path in known.items() if not _is_same(path, ours[name])]
            differences += len(wrong)
            print(f"{environment.name}: {len(known) - len(wrong)} of {len(known)} libraries alike")
            print(*(f"  {name}: {known[name]}, envcheck: {ours[name]}\n" for name in wrong), end="")
    return 1 if differences else 0


def _ask_envcheck(environment: Path) -> dict[str, str]:
    command = [sys.executable, "-m", "envcheck", "snapshot", "--env", str(environment)]
    facts = json.loads(
        subprocess.run(
            command, check=True, capture_output=True, cwd=Path(__file__).parents[1]
        ).stdout
    )
    builds: list[Any] = facts["facts"]["python"]["frameworks"]["known"]
    lookups = [item for build in builds for item in build["libraries"].get("known", ())]
    found = {item["soname"]: item["found"].get("known", "") for item in lookups}
    return {
        soname.removeprefix("lib").partition(".so")[0]: str(Path(path).expanduser())
        for soname, path in found.items()
    }


def _ask_pathfinder(environment: Path, folder: str, names: list[str]) -> dict[str, str]:
    command = [str(environment / "bin" / "python"), "-c", _ASK, *names]
    done = subprocess.run(
        command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": folder}
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _is_same(theirs: str, ours: str) -> bool:
    return Path(theirs).resolve() == Path(ours).resolve() if ours else not theirs.startswith("/")


if __name__ == "__main__":
    sys.exit(main())
