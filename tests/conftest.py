"""Plugins of the whole test suite, and what holds for every test of a process."""

from __future__ import annotations

import functools
import json
import signal
from typing import Any

import fastjsonschema

from tests.patience import wait_out_programs

pytest_plugins = ("tests.listed_skips",)
wait_out_programs()

# A shell starts what runs in the background with Ctrl-C ignored, nohup with a hangup ignored, and programs inherit it:
# the tests send both. What is handled here programs start with as it is for users.
for _number in (signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

_compile = fastjsonschema.compile


@functools.cache
def _compiled(definition: str, options: tuple[tuple[str, Any], ...]) -> Any:
    return _compile(json.loads(definition), **dict(options))


# Compiling the schema of the matrix takes ten times as long as holding a document against it.
fastjsonschema.compile = lambda definition, **options: _compiled(json.dumps(definition), tuple(options.items()))
