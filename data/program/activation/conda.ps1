# Written by envcheck: the CUDA libraries of this environment.
$env:_ENVCHECK_BEFORE = $env:LD_LIBRARY_PATH
$env:LD_LIBRARY_PATH = sh "$env:CONDA_PREFIX/bin/envcheck-cuda" printenv LD_LIBRARY_PATH
