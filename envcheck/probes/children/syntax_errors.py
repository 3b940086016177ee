"""Print which Python files do not compile: {"paths": [...]}; nothing is imported or written.

Arguments: the paths. Runs in the inspected Python, whose grammar decides.
"""

import io
import json
import sys


def compiles(path):  # type: (str) -> bool
    """Return whether a file compiles; one that cannot be read counts as if it did."""
    try:
        with io.open(path, "rb") as stream:
            compile(stream.read(), path, "exec", 0, True)
    except (SyntaxError, ValueError):  # ValueError: null bytes
        return False
    except (EnvironmentError, MemoryError, RuntimeError):
        return True
    return True


if __name__ == "__main__":
    print(json.dumps({"paths": [path for path in sys.argv[1:] if not compiles(path)]}))
