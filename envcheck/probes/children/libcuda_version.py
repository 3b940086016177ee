"""Print the answer of a libcuda.

{"version": 12040}, or with "init" {"init": 0}; runs in a child that may crash.

Arguments: the path of the library; "init" to call cuInit(0) instead of cuDriverGetVersion.
"""

from __future__ import annotations  # without typing, whose import would slow this child down

import ctypes
import json
import os
import sys


def query(path: str, question: str = "") -> dict[str, object]:
    """Return the answer, {"error": code} or {"load_error": text}."""
    try:
        library = ctypes.CDLL(path)
        if question == "init":
            return {"init": library.cuInit(0)}
        version = ctypes.c_int(0)
        code = library.cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError) as error:  # not a library, or not CUDA's
        return {"load_error": str(error)}
    return {"version": version.value} if code == 0 else {"error": code}


def main(arguments: list[str]) -> None:
    """Write the answer to standard output, and what the library prints there to standard error."""
    # This tests the driver; cuInit returns 100 where the variable hides all GPUs.
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    output = os.dup(1)
    os.dup2(2, 1)
    os.write(output, json.dumps(query(*arguments)).encode("ascii"))


if __name__ == "__main__":
    main(sys.argv[1:])
