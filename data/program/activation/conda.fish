# Written by envcheck: the CUDA libraries of this environment.
set -e _ENVCHECK_BEFORE
set -q LD_LIBRARY_PATH; and set -gx _ENVCHECK_BEFORE "$LD_LIBRARY_PATH"
set -gx LD_LIBRARY_PATH (sh "$CONDA_PREFIX/bin/envcheck-cuda" printenv LD_LIBRARY_PATH)
