"""Fixes of the library path: without the folders of another CUDA or cuDNN, or with the toolkit that is meant first."""

from __future__ import annotations

import re

from envcheck.explain.fix_cuda import fitting_lines
from envcheck.explain.told import Told, plain
from envcheck.model import Command, Fix

_SHELL = "in the shell that starts the program; then change it where it is set"


def without_other_copies(told: Told) -> Fix | None:
    """Take the folders of another copy off the library path that the log shows."""
    if told.captured("torch_cuda") and told.captured("nvcc"):
        return _meant_toolkit(told.captured("torch_cuda"))
    there = [line for line in fitting_lines(told) if line in told.log.cudas]
    if there and told.system != "windows":
        named = Command(
            ("export", f"LD_LIBRARY_PATH=/usr/local/cuda-{there[0]}/lib64:$LD_LIBRARY_PATH"), "user", _SHELL
        )
        return Fix(f"CUDA {there[0]} is installed: let the loader look in its lib64.", (named,))
    folders = [folder for folder in told.log.library_path.split(":") if folder]
    others = [folder for folder in folders if re.search(r"cuda|cudnn|nvidia", folder, re.IGNORECASE)]
    kept = [folder for folder in folders if folder not in others]
    if not others or not all(plain(folder, r"[~\w./+-]+") for folder in folders):
        return None
    set_to = ("export", f"LD_LIBRARY_PATH={':'.join(kept)}") if kept else ("unset", "LD_LIBRARY_PATH")
    what = f"Let the framework load the libraries it brings: take {', '.join(others)} off LD_LIBRARY_PATH."
    return Fix(what, (Command(set_to, "user", _SHELL),))


def _meant_toolkit(cuda: str) -> Fix:
    root = f"/usr/local/cuda-{cuda}"
    line = Command(("export", f"CUDA_HOME={root}", f"PATH={root}/bin:$PATH"), "user", "in the shell that builds")
    return Fix(f"Let CUDA_HOME and PATH name the CUDA {cuda} that torch was built with.", (line,))
