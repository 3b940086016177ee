# envcheck: begin CUDA libraries
if ($?_envcheck_leave) then
  eval $_envcheck_leave:q
endif
if ($?LD_LIBRARY_PATH) then
  set _envcheck_old = $LD_LIBRARY_PATH:q
  set _envcheck_leave = 'setenv LD_LIBRARY_PATH $_envcheck_old:q'
else
  set _envcheck_leave = 'unsetenv LD_LIBRARY_PATH'
endif
set _envcheck_new = 'sh "$VIRTUAL_ENV/bin/envcheck-cuda" printenv LD_LIBRARY_PATH'
setenv LD_LIBRARY_PATH "`sh -c '$_envcheck_new'`"
alias _envcheck_deactivate "`alias deactivate`"
alias deactivate 'eval $_envcheck_leave:q; unset _envcheck_leave; _envcheck_deactivate'
# envcheck: end CUDA libraries
