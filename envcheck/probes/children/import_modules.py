"""Import modules as a program would, and report as one JSON object.

It goes to a file.

    <python> -B -X faulthandler -c <this script> MODULE[:]... [=CODE] --report PATH

A module written with a colon fails if it holds no names, since Python imports an empty file or
folder as well. =CODE runs after the imports. It writes {"seconds": 1.9} where all of that works,
else {"error": TRACEBACK, "front": FOLDERS}. What it loads itself the modules find loaded, so that
it needs little of Python's library. Runs in the inspected Python, 3.6 or later; what the modules
print goes to standard output and error as ever.
"""

import os
import sys
import time

try:
    from _json import encode_basestring_ascii as quote
except ImportError:  # not CPython
    from json.encoder import encode_basestring_ascii as quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List  # noqa: F401 - for the type comments

LIMIT = 16384  # characters of a traceback; its end says what failed


def attempt(modules):  # type: (List[str]) -> str
    """Import modules and run code, one after the other, until one fails; report as JSON."""
    start = time.time()
    front = list_front()
    try:
        for name in modules:
            if name.startswith("="):
                exec(name[1:], {})  # noqa: S102 - a line of ours
            else:
                import_module(name)
    except BaseException:  # noqa: BLE001 - SystemExit is a death, too
        import traceback  # it may be what cannot be imported, and says so then

        error = quote(traceback.format_exc()[-LIMIT:])
        return '{"error": %s, "front": [%s]}' % (error, ", ".join(map(quote, front)))
    return '{"seconds": %.3f}' % (time.time() - start)


def list_front():  # type: () -> List[str]
    """List the folders that code of the start put before Python's own library."""
    library = os.path.dirname(os.__file__)
    usual = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    found = []  # type: List[str]
    for folder in sys.path:
        if folder == library or folder.endswith(".zip"):
            break
        if folder not in usual and folder not in found:
            found.append(folder)
    return found


def import_module(name):  # type: (str) -> None
    """Import a module; one with a colon must hold something."""
    __import__(name.rstrip(":"))
    module = sys.modules[name.rstrip(":")]
    if name.endswith(":") and all(each.startswith("__") for each in vars(module)):
        raise ImportError("module %r is empty" % module.__name__)


def main(arguments):  # type: (List[str]) -> None
    """Import the modules that `arguments` name, and report to the file that the last one names."""
    # the working folder belongs to no environment
    sys.path[:] = [folder for folder in sys.path if folder]
    answer = attempt(arguments[:-2]).encode("ascii")
    os.write(os.open(arguments[-1], os.O_WRONLY), answer)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # what happens at the end of a program says nothing about the import


if __name__ == "__main__":
    main(sys.argv[1:])
