# Written by envcheck: what its activation changed.
unset LD_LIBRARY_PATH
[ -z "${_ENVCHECK_BEFORE+x}" ] || export LD_LIBRARY_PATH="$_ENVCHECK_BEFORE"
unset _ENVCHECK_BEFORE
