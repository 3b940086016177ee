"""Print what a libcuda says: {"version": 12040}, or with "init" {"init": 0}; runs in a child that may crash.

Arguments: the library's path; "init" to call cuInit(0) instead of cuDriverGetVersion.
"""

import ctypes
import json
import os
import sys


def ask(path, question):
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


if __name__ == "__main__":
    # The driver's health is asked for, not what this variable hides (cuInit says 100 when it hides all).
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    output = os.dup(1)
    os.dup2(2, 1)  # what the library prints must not mix with the answer
    os.write(output, json.dumps(ask(sys.argv[1], "".join(sys.argv[2:3]))).encode("ascii"))
