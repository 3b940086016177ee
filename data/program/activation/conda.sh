# Written by envcheck: the CUDA libraries of this environment.
unset _ENVCHECK_BEFORE
[ -z "${LD_LIBRARY_PATH+x}" ] || export _ENVCHECK_BEFORE="$LD_LIBRARY_PATH"
LD_LIBRARY_PATH=$(sh "$CONDA_PREFIX/bin/envcheck-cuda" printenv LD_LIBRARY_PATH)
export LD_LIBRARY_PATH
