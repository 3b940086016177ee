"""Run the command line with `python -m envcheck`."""

import sys

if sys.path and not __file__.startswith(sys.path[0]):
    # -m puts the current folder first: a json.py that lies there would run in place of Python's
    # own.
    del sys.path[0]

from envcheck.cli import main

if __name__ == "__main__":
    main()
