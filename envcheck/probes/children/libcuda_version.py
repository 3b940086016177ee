"""Print what a libcuda says: {"version": 12040}, or with "init" {"init": 0}; runs in a child that may crash.

Arguments: the library's path; "init" to call cuInit(0) instead of cuDriverGetVersion.
"""

from __future__ import annotations  # no typing: this child should cost no more than a bare start

import ctypes
import json
import os
import sys


def ask(path: str, question: str = "") -> dict[str, object]:
    """Return the answer, {"error": code} or {"load_error": text}."""
    try:
        library = ctypes.CDLL(path)
        if question == "init":
            return {"init": library.cuInit(0)}
        version = ctypes.c_int(0)
        code = library.cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError) as error:  # no library, or none of CUDA's
        return {"load_error": str(error)}
    return {"version": version.value} if code == 0 else {"error": code}


def main(arguments: list[str]) -> None:
    """Answer on standard output, kept apart from what the library prints there."""
    # The driver's health is asked for, not what this variable hides (cuInit says 100 when it hides all).
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    output = os.dup(1)
    os.dup2(2, 1)
    os.write(output, json.dumps(ask(*arguments)).encode("ascii"))


if __name__ == "__main__":
    main(sys.argv[1:])
