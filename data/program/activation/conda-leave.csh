# Written by envcheck: what its activation changed.
unsetenv LD_LIBRARY_PATH
if ($?_ENVCHECK_BEFORE) then
  setenv LD_LIBRARY_PATH $_ENVCHECK_BEFORE:q
endif
unsetenv _ENVCHECK_BEFORE
