# Written by envcheck: the CUDA libraries of this environment.
unsetenv _ENVCHECK_BEFORE
if ($?LD_LIBRARY_PATH) then
  setenv _ENVCHECK_BEFORE $LD_LIBRARY_PATH:q
endif
set _envcheck_new = 'sh "$CONDA_PREFIX/bin/envcheck-cuda" printenv LD_LIBRARY_PATH'
setenv LD_LIBRARY_PATH "`sh -c '$_envcheck_new'`"
unset _envcheck_new
