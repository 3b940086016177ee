"""Plugins of the whole test suite, and what holds for every test of a process."""

from __future__ import annotations

import functools
import gc
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import fastjsonschema

from envcheck.actions import shells
from envcheck.matrix import Matrix, load
from tests.patience import wait_out_programs

pytest_plugins = ("tests.listed_skips",)
gc.set_threshold(100_000)  # as the command line does; a fifth of the time would go into collections
wait_out_programs()
# Where a shell forbids bytecode, each of some thousand Pythons would compile the program anew, which
# takes twice as long as all else that most of them do.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["ENVCHECK_VERIFY"] = "0"  # no index is asked but by the tests of that, which say so
os.environ["ENVCHECK_IMPORT"] = "0"  # nor is anything imported
# As for most users, `envcheck` is what a shell starts. Only that: another Python there would be judged.
_started = tempfile.TemporaryDirectory(prefix="envcheck-on-path-")
Path(_started.name, "envcheck").symlink_to(Path(sys.executable).parent / "envcheck")
os.environ["PATH"] = os.pathsep.join([_started.name, os.environ.get("PATH", os.defpath)])
vars(shells)["uv_word"] = lambda: "uv"  # it is on PATH, too; tests/actions/test_program.py asks


def pytest_collection_finish() -> None:
    """Keep ten thousand tests, which last to the end, out of every collection of garbage."""
    gc.collect()
    gc.freeze()


# A shell starts what runs in the background with Ctrl-C ignored, nohup with a hangup ignored, and
# programs inherit it: the tests send both. What is handled here programs start with as it is for
# users.
for _number in (signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

# Compiling the schema of the matrix takes ten times as long as holding a document against it.
_compile = fastjsonschema.compile
_compiled = functools.cache(lambda definition: _compile(json.loads(definition)))


def _compile_once(definition: Any, *given: Any, **options: Any) -> Any:
    return (
        _compile(definition, *given, **options)
        if given or options
        else _compiled(json.dumps(definition))
    )


fastjsonschema.compile = _compile_once

# A process of a user opens the built-in matrix once; here hundreds of commands run in one.
_load_matrix = load.load_matrix
_opened: dict[str, Matrix] = {}


@functools.wraps(_load_matrix)
def _load_once(path: str | None = None) -> Matrix:
    opened = _load_matrix(path)
    if opened.origin != "built in":
        return opened
    return _opened.setdefault(opened.renewal, opened)


load.load_matrix = _load_once
# by its name in sys.modules: envcheck.matrix is a function of the API too
vars(sys.modules["envcheck.matrix"])["load_matrix"] = _load_once
