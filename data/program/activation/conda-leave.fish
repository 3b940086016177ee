# Written by envcheck: what its activation changed.
set -e LD_LIBRARY_PATH
set -q _ENVCHECK_BEFORE; and set -gx LD_LIBRARY_PATH $_ENVCHECK_BEFORE
set -e _ENVCHECK_BEFORE
