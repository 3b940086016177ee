"""What an environment's activation asks for its loader paths: a program of its own, and lines that call it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from envcheck.host.data_files import read_data
from envcheck.model import Known
from envcheck.model.writing import Writing
from envcheck.rules.context import Context


def launcher_lines(words: Iterable[str]) -> tuple[str, ...]:
    """Write the program: every folder, given as a word of sh, in front of what LD_LIBRARY_PATH holds."""
    folders = " ".join(words)
    return tuple(line.replace("@FOLDERS@", folders) for line in hook_lines("launcher.sh"))


def hook_lines(name: str) -> tuple[str, ...]:
    """Read a script of data/activation."""
    return tuple(read_data(f"activation/{name}").decode("utf-8").splitlines())


def launcher_path(prefix: str) -> str:
    """Return where the program lies in an environment: `sh PATH COMMAND...` runs a command with the paths."""
    return f"{prefix}/bin/envcheck-cuda"


def hooked(prefix: str, script: str, shell: str) -> Writing:
    """Let a script that activates a venv call the program."""
    return Writing(f"{prefix}/bin/{script}", hook_lines(f"venv.{shell}"), appends=True, if_there=shell != "sh")


def venv_writings(context: Context, prefix: str, folders: Iterable[str]) -> tuple[Writing, Writing]:
    """Put folders on the loader's path of a venv beside those that its activation sets already."""
    words = (
        f'"$prefix"{folder[len(prefix) :]}' if folder.startswith(f"{prefix}/") else folder
        for folder in dict.fromkeys([*_set_already(context), *folders])
    )
    return Writing(launcher_path(prefix), launcher_lines(words)), hooked(prefix, "activate", "sh")


def _set_already(context: Context) -> Iterator[str]:
    builds = context.facts.python.frameworks
    for build in builds.value if isinstance(builds, Known) else ():
        for item in build.libraries.value if isinstance(build.libraries, Known) else ():
            if item.via == "activation" and isinstance(item.found, Known):
                yield posixpath.dirname(item.found.value)
