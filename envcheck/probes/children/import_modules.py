"""Import modules as a program would, and report as one JSON object.

It goes to a file descriptor or a file.

    <python> -B -X faulthandler -c <this script> MODULE[:]... [=CODE] --fd N (Windows: --file PATH)

A module written with a colon fails if it holds no names, since Python imports an empty file or
folder as well. =CODE runs after the imports. It writes {"seconds": 1.9} where all of that works,
else {"error": TRACEBACK}. Runs in the inspected Python, 3.6 or later; what the modules print goes
to standard output and error as ever.
"""

import importlib
import json
import os
import sys
import time
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List  # noqa: F401 - for the type comments

LIMIT = 16384  # characters of a traceback; its end says what failed


def attempt(modules):  # type: (List[str]) -> Dict[str, object]
    """Import modules and run code, one after the other, until one fails."""
    start = time.time()
    try:
        for name in modules:
            if name.startswith("="):
                exec(name[1:], {})  # noqa: S102 - a line of ours
            else:
                import_module(name)
    except BaseException:  # noqa: BLE001 - SystemExit is a death, too
        return {"error": traceback.format_exc()[-LIMIT:]}
    return {"seconds": round(time.time() - start, 3)}


def import_module(name):  # type: (str) -> None
    """Import a module; one with a colon must hold something."""
    module = importlib.import_module(name.rstrip(":"))
    if name.endswith(":") and all(each.startswith("__") for each in vars(module)):
        raise ImportError("module %r is empty" % module.__name__)


def main(arguments):  # type: (List[str]) -> None
    """Import the modules that `arguments` name, and report to what the last two name."""
    kind, place = arguments[-2:]
    # the working folder belongs to no environment
    sys.path[:] = [folder for folder in sys.path if folder]
    answer = json.dumps(attempt(arguments[:-2])).encode("ascii")
    descriptor = int(place) if kind == "--fd" else os.open(place, os.O_WRONLY)
    os.write(descriptor, answer)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # what happens at the end of a program says nothing about the import


if __name__ == "__main__":
    main(sys.argv[1:])
